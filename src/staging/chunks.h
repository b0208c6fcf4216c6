/*
 * chunks.h - cuts a staged copy into chunks, and places each chunk in the copy's ring of pinned memory.
 *
 * Only arithmetic. Each chunk is one DMA. The link is idle for some 2 to 5 us between two DMAs (measured on an
 * H200), so chunks should be large. But the link also idles while the first chunk into the device is filled, and
 * while the last chunk out of the device is emptied. So chunk sizes start small at that end of the copy and grow
 * towards the other end.
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
    size_t place;         /* offset in the ring */
    size_t lead_bytes;    /* the first part is shorter than the others by so much */
    uint32_t after;       /* this many chunks must have left the ring before this one may enter */
    uint32_t parts;       /* number of parts; one thread copies one part at a time */
    size_t part_bytes;    /* of each part but the first and the last */
    atomic_uint finished; /* number of finished parts */
};

struct leati_cut {
    size_t bytes;      /* of the copy */
    size_t ring_bytes; /* 0: no ring, all chunks have one size */
    size_t most_bytes; /* limit of a chunk; 0: only the ring limits it */
    size_t unit_bytes; /* each chunk is one or more whole units of this size; 0 or 1: any size */
    size_t even_bytes; /* all chunks but the last have this size, or less in a small ring; 0: sizes grow */
    /* For storage: parts begin at multiples of 4096 bytes of it, and at places in the ring that are aligned in the
     * same way, so that each block of the storage belongs to one part. */
    bool in_blocks;
    size_t lead_bytes; /* with in_blocks: how many bytes after such a multiple the copy begins */
    bool out;          /* from the device: the small chunks are at the end */
    unsigned threads;  /* how many threads will share a chunk */
};

/* Returns the bytes of part number part of a chunk. *start: where it begins in the chunk. */
static inline size_t leati_chunk_part(const struct leati_chunk *chunk, uint32_t part, size_t *start)
{
    size_t end = (part + 1) * chunk->part_bytes - chunk->lead_bytes;

    *start = part ? part * chunk->part_bytes - chunk->lead_bytes : 0;
    return (end < chunk->bytes ? end : chunk->bytes) - *start;
}

/* The useful ring size of a copy: its own size in whole pages, at most most_bytes. With lead_bytes, bytes includes
 * them. */
size_t leati_staging_ring_bytes(size_t bytes, size_t most_bytes);

/* Returns the number of chunks. If chunks is not NULL, fills that many. */
uint32_t leati_staging_cut(const struct leati_cut *cut, struct leati_chunk *chunks);

#endif
