/*
 * chunks.h - how a staged copy is cut into chunks, and where in its ring of pinned memory each chunk lies.
 *
 * Only arithmetic. A chunk is one DMA. Between two of them the link is idle for some 2 to 5 us (measured on an
 * H200), so chunks are large; but the first one going in must be filled before the link has anything to do, and
 * the last one coming out must be emptied after it has done all, so those are small and sizes grow away from them.
 */
#ifndef LEATI_CHUNKS_H
#define LEATI_CHUNKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leati_chunk {
    size_t offset; /* in the copy */
    size_t bytes;
    size_t place;         /* in the ring */
    uint32_t after;       /* this many chunks must have left the ring before this one may enter */
    uint32_t parts;       /* pieces that one thread copies at a time */
    size_t part_bytes;    /* of each but the last */
    atomic_uint finished; /* parts */
};

struct leati_cut {
    size_t bytes;      /* of the copy */
    size_t ring_bytes; /* 0: no ring, chunks of one size */
    size_t most_bytes; /* of a chunk; 0: as many as the ring allows */
    size_t unit_bytes; /* all chunks are multiples of it, and at least one; 0 or 1: any size */
    size_t even_bytes; /* of every chunk but the last, in whole units, or less in a small ring; 0: sizes grow */
    bool out;          /* from the device: small chunks at the end */
    unsigned threads;  /* that will share a chunk */
};

/* How much ring a copy can make use of, at most. Several chunks are under way in it at once. */
size_t leati_staging_ring_bytes(size_t bytes, size_t most_bytes);

/* The number of chunks; fills them when chunks is not NULL. */
uint32_t leati_staging_cut(const struct leati_cut *cut, struct leati_chunk *chunks);

#endif
