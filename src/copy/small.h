/*
 * small.h - short copies of pageable memory, made by the caller's thread.
 *
 * Up to 64 KiB a copy is over, or staged, sooner than a thread can be told of it. In: the bytes go into a ring
 * that the stream has for itself, from which its DMAs read them. Out: on a stream that is idle, the caller waits
 * for the DMA and takes the bytes out.
 */
#ifndef LEATI_SMALL_H
#define LEATI_SMALL_H

#include "copy/staged.h"

#define LEATI_SMALL_BYTES ((size_t)64 << 10)

/* Copies pageable memory in; the source has been read when it returns. LEAT_NOT_READY: there is no room in the
 * stream's ring (nothing was done). POINTER: the source cannot be read. */
leat_status leati_small_in(struct leati_stager *stager, leat_stream *stream, const struct leati_target *to,
                           const struct leati_target *from, size_t bytes);

/* Copies out of device memory, complete at its return; for a stream that is idle. LEAT_NOT_READY: there is no
 * memory for it (nothing was done). */
leat_status leati_small_out(struct leati_stager *stager, leat_stream *stream, const struct leati_target *to,
                            const struct leati_target *from, size_t bytes);

/* Gives the ring of a stream that ends back, once its work is done. */
void leati_small_stream_ends(struct leat_stream *stream);

#endif
