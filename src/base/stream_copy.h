/*
 * stream_copy.h - copies with non-temporal (streaming) stores, the widest that this processor has.
 *
 * Non-temporal stores bypass the caches: they do not read the destination first, and evict nothing. They are
 * faster if the destination is larger than the caches, or if a device reads it next. On a processor without such
 * stores all functions use memcpy().
 */
#ifndef LEATI_STREAM_COPY_H
#define LEATI_STREAM_COPY_H

#include <stddef.h>

enum leati_stream_isa { LEATI_STREAM_PLAIN, LEATI_STREAM_AVX2, LEATI_STREAM_AVX512 };

/* best: returns the widest stores that this processor and operating system support. name: returns "memcpy", "AVX2"
 * or "AVX-512". */
enum leati_stream_isa leati_stream_best(void);
const char *leati_stream_name(enum leati_stream_isa isa);

/*
 * Copies with the widest stores. dst and src may have any alignment, and must not overlap. Ends with a store
 * fence, so a flag that the caller writes next becomes visible only after the copied bytes.
 */
void leati_stream_copy(void *dst, const void *src, size_t bytes);

/* Like leati_stream_copy(), but with the given stores, which must not be wider than leati_stream_best(). */
void leati_stream_copy_by(enum leati_stream_isa isa, void *dst, const void *src, size_t bytes);

/* Executes only the store fence, for a copy that a fault has interrupted. */
void leati_stream_fence(void);

#endif
