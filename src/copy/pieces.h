/*
 * pieces.h - copies many small ranges by one launch of the kernel leat_copy_pieces. Batches (batch.c) and copies
 * between files and many places on a device (spread.c) use it.
 */
#ifndef LEATI_COPY_PIECES_H
#define LEATI_COPY_PIECES_H

#include "core/core.h"

/* The usual size of a piece. A warp copies a piece at a time, so that all warps get equal work. */
#define LEATI_PIECE_BYTES ((size_t)16 << 10)

/* A piece of a range. The kernel reads this struct. */
struct leati_piece {
    uint64_t dst, src; /* addresses for the kernel */
    uint32_t bytes, number;
};

/* On the CPU device the kernel calls copy() for each piece, if a side may be pageable and may fault. */
struct leati_copier {
    void (*copy)(struct leati_copier *copier, const struct leati_piece *piece);
    struct leati_timeline *timeline;
};

/* Loads the kernel, which may wait for the device's work. Returns false if it cannot be loaded. */
bool leati_pieces_kernel(leat_device *device, leat_kernel **kernel);

/* Appends the pieces of a range, of at most piece_bytes each, to a list, and increments *count by their number. */
void leati_pieces_add(struct leati_piece *list, size_t *count, uintptr_t dst, uintptr_t src, size_t bytes,
                      size_t piece_bytes, uint32_t number);

/* Launches the kernel for the pieces of a list. list: its address for kernels. copier: NULL if no side may fault.
 */
leat_status leati_pieces_launch(leat_stream *stream, leat_kernel *kernel, uintptr_t list, size_t count,
                                struct leati_copier *copier);

#endif
