/*
 * chunks.h - cuts a staged copy into chunks, and places each chunk in the copy's ring of pinned memory.
 *
 * Each chunk is one DMA. The link is idle for some 2 to 5 us between two DMAs (measured on an H200), so chunks
 * should be large. But the link is also idle while threads fill the first chunk of a copy to the device, and while
 * they empty the last chunk of a copy from the device. So the first chunks of a copy to the device are small and
 * sizes grow from there; a copy from the device ends with the small chunks.
 *
 * This file only computes; it accesses no memory of the copy.
 */
#ifndef LEATI_CHUNKS_H
#define LEATI_CHUNKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leati_chunk {
    size_t offset; /* offset in the copy */
    size_t bytes;
    size_t place;         /* offset in the ring */
    size_t lead_bytes;    /* difference between part_bytes and the size of the first part */
    uint32_t after;       /* number of chunks that must have left the ring before this chunk may enter; 0: none */
    uint32_t copies_back; /* those are of the copy that is so many before this one in the ring: copy 7 with 2 waits for
                             chunks of copy 5; 0: of this copy */
    uint32_t parts;       /* number of parts; a thread takes and copies one part at a time */
    size_t part_bytes;    /* size of each part except the first and the last */
    atomic_uint finished; /* number of finished parts */
};

enum {
    LEATI_RING_CHUNKS = 256,    /* at most so many chunks are in a ring at once */
    LEATI_RING_COPIES_BACK = 64 /* copies_back is at most so large */
};

/* A chunk in a ring, in whole pages. */
struct leati_ring_chunk {
    size_t place, bytes;
    uint64_t copy;  /* number of its copy: the first one in the ring is 0 */
    uint32_t after; /* number of chunks of its copy that have left the ring when this one has */
};

/* What is in a ring: the chunks of one copy into the device, or of several that follow one another on a stream. They
 * leave the ring in the order in which they came. All zeros: an empty ring. */
struct leati_ring_queue {
    /* A queue: chunk number n is chunks[n % LEATI_RING_CHUNKS]; numbers first to end - 1 are in the queue. */
    struct leati_ring_chunk chunks[LEATI_RING_CHUNKS];
    uint64_t first, end;
    struct leati_ring_chunk gone; /* the last one that was removed; the next chunk may enter when it has left */
    size_t at;                    /* the end of the chunk that came last */
};

struct leati_cut {
    size_t bytes;      /* size of the copy */
    size_t ring_bytes; /* 0: no ring, all chunks have one size */
    unsigned chunks_in_ring; /* number of largest chunks that fit into the ring; 0: the usual number, 4 */
    size_t most_bytes; /* largest size of a chunk; 0: only the ring limits it */
    size_t unit_bytes; /* each chunk is one or more whole units of this size; 0 or 1: any size */
    size_t even_bytes; /* size of all chunks but the last (smaller if the ring is small); 0: sizes grow */
    /* For storage: each part except the first begins at a multiple of 4096 bytes, both in the storage and in the
     * ring, so that each block of the storage belongs to one part. */
    bool in_blocks;
    size_t lead_bytes; /* with in_blocks: distance of the copy's start from the multiple of 4096 before it */
    size_t part_bytes; /* size of the parts of a chunk, a multiple of 4096; 0: as many bytes as suit copies of
                          memory */
    bool out;          /* from the device: the small chunks are at the end */
    /* NULL: the ring is empty, and of this copy alone. Else the copy has the number copy in the ring, and continues
     * where the copy before ends. A call that fills chunks also adds them to the ring. */
    struct leati_ring_queue *queue;
    uint64_t copy;
    bool follows;      /* to the device: the link is busy with the copy before, so no chunk need be small */
    unsigned threads;  /* number of threads that will share a chunk */
};

/* Returns the size of part number part of a chunk. *start becomes the offset of the part in the chunk. */
static inline size_t leati_chunk_part(const struct leati_chunk *chunk, uint32_t part, size_t *start)
{
    size_t end = (part + 1) * chunk->part_bytes - chunk->lead_bytes;

    *start = part ? part * chunk->part_bytes - chunk->lead_bytes : 0;
    return (end < chunk->bytes ? end : chunk->bytes) - *start;
}

/* Returns the useful size of a copy's ring: the size of the copy in whole pages, at most most_bytes. A caller with
 * lead_bytes must add them to bytes. */
size_t leati_staging_ring_bytes(size_t bytes, size_t most_bytes);

/* Returns the number of chunks of a copy. If chunks is not NULL, fills all these chunks. With even_bytes and a ring that
 * holds the whole copy, no chunk waits for another. */
uint32_t leati_staging_cut(const struct leati_cut *cut, struct leati_chunk *chunks);

#endif
