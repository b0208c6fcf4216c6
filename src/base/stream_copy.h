/*
 * stream_copy.h - copying past the caches, with the widest stores that this processor has.
 *
 * Non-temporal stores save reading the destination before it is overwritten, and leave the caches to others. They
 * pay where the destination is larger than the caches, or is next read by a device. Where there are none, all of
 * this is memcpy().
 */
#ifndef LEATI_STREAM_COPY_H
#define LEATI_STREAM_COPY_H

#include <stddef.h>

enum leati_stream_isa { LEATI_STREAM_PLAIN, LEATI_STREAM_AVX2, LEATI_STREAM_AVX512 };

/* The widest that this processor and its system offer; "memcpy", "AVX2", "AVX-512". */
enum leati_stream_isa leati_stream_best(void);
const char *leati_stream_name(enum leati_stream_isa isa);

/*
 * Copies; dst and src have any alignment and do not overlap. The stores are done when it returns, as all others
 * are: a flag written next is seen after them.
 */
void leati_stream_copy(void *dst, const void *src, size_t bytes);

/* The same with stores of the caller's choice, which must not be wider than the best. */
void leati_stream_copy_by(enum leati_stream_isa isa, void *dst, const void *src, size_t bytes);

/* Ends the stores of a copy that was left in the middle. */
void leati_stream_fence(void);

#endif
