/*
 * spread.h - moves a chunk between the ring of a staged copy and many places on the device.
 *
 * One DMA for each place costs about 6 us of the caller (measured on an H200), more than the DMA itself takes for
 * less than 300 KiB. So a chunk with many places moves with one DMA to a buffer on the device, from where one
 * kernel copies the ranges to their places; or the other way round. All this is in stream order, so one buffer is
 * enough.
 */
#ifndef LEATI_COPY_SPREAD_H
#define LEATI_COPY_SPREAD_H

#include "copy/pieces.h"
#include "copy/transfer.h"

struct leati_spread {
    leat_kernel *kernel;        /* NULL: each place has a DMA of its own */
    struct leati_piece *pieces; /* in pinned memory, because the kernel reads them */
    size_t used, room, piece_bytes;
    unsigned least;  /* chunks with fewer ranges are moved by a DMA for each range */
    uintptr_t shift; /* the address of the pieces for kernels minus their host address */
    char *buffer;    /* on the device, as large as the largest chunk */
};

/* Prepares for the chunks of a copy. If there is no memory or no kernel, or if the ranges are few or large, each
 * place gets a DMA of its own. */
void leati_spread_begin(struct leati_spread *spread, leat_stream *stream, const struct leati_scatter *scatter,
                        bool in, size_t bytes, const struct leati_chunk *chunks, uint32_t count);

/* Submits the copy of bytes, from offset of the copy on, between the ring and their places. */
leat_status leati_spread_move(struct leati_spread *spread, leat_stream *stream,
                              const struct leati_scatter *scatter, bool in, size_t offset, size_t bytes,
                              struct leati_location ring);

/* Frees the memory in stream order, after all chunks were submitted, or failed. */
void leati_spread_end(struct leati_spread *spread, leat_stream *stream);

#endif
