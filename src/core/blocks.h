/*
 * blocks.h - records of the blocks of all pools, and the lock-free lookup from an address to its record.
 *
 * Records are type-stable: they lie in one reserved array that is never unmapped. A reader with a stale record
 * number therefore still reads a record, possibly one reused for another block, and detects that from base and
 * state. The lookup uses a table of two levels whose leaves have an entry for each page of 2 MiB. Pages for small
 * blocks have one record number per granule of 512 bytes. Pages for blocks of 1 MiB or more are divided into
 * windows of 1 MiB, in each of which at most one block starts and at most one continues from before. Blocks begin
 * at any granule. Entries are not cleared when a block is freed: the reader checks whether the record still
 * describes that address.
 *
 * Pools serialize their writes by their own locks; readers take no lock. So every field that a reader may see
 * while it changes is atomic.
 */
#ifndef LEATI_BLOCKS_H
#define LEATI_BLOCKS_H

#include <leat/memory.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEATI_GRANULE_BYTES ((size_t)512)
#define LEATI_WINDOW_BYTES ((size_t)1 << 20)
#define LEATI_PAGE_BYTES ((size_t)2 << 20)

struct leat_pool;
struct leat_device;
struct leat_stream;
struct leati_stream_cache;
struct leati_magazine;
struct leati_stream_use;
struct leati_note;
struct leati_stitch;
struct leati_planned;

/* What a record describes. Only LIVE blocks belong to the user. */
enum leati_block_state {
    LEATI_BLOCK_UNUSED = 0, /* no extent: the record is free */
    LEATI_BLOCK_LIVE,
    LEATI_BLOCK_LEAVING,   /* a thread is freeing the block, so a second free fails */
    LEATI_BLOCK_CACHED,    /* freed, kept in a magazine of its stream */
    LEATI_BLOCK_PENDING,   /* freed, waits until its uses on other streams complete */
    LEATI_BLOCK_FREE,      /* an extent of idle memory */
    LEATI_BLOCK_HOLE,      /* addresses without memory */
    LEATI_BLOCK_STALE,     /* addresses that the pool gave up, still mapped because old work may use them */
    LEATI_BLOCK_IN_STITCH, /* an extent whose memory a stitched block uses at another address */
    LEATI_BLOCK_DORMANT,   /* a stitched or planned block not in use; it keeps its addresses */
    LEATI_BLOCK_ARENA,     /* the addresses of all planned blocks */
    LEATI_BLOCK_POISONED   /* freed in guard mode, in quarantine */
};

/* One extent of a pool's addresses. The extents of a span form a list in address order without gaps. The fields
 * that the fast path writes have their own cache line, which avoids false sharing between neighbouring records. */
struct leati_block {
    _Alignas(64) _Atomic uintptr_t base;
    _Atomic size_t bytes;           /* size of the extent, a multiple of the granule */
    _Atomic size_t requested_bytes; /* the size that the user requested; valid for LIVE blocks */
    _Atomic uint32_t state;         /* enum leati_block_state */
    uint16_t tag;
    uint16_t born;            /* large_count of the magazine when this large block was allocated; tells its age */
    struct leati_block *link; /* next block in a magazine, a bin or a list */
    _Atomic(struct leati_magazine *) magazine; /* magazine whose lock serializes frees of a LIVE block; NULL: none,
                                                  the state is changed by compare-and-swap */
    struct leati_stream_cache *cache;          /* cache of the stream on which it was allocated or freed */
    uint64_t seq; /* work of that stream up to this sequence number may still use the memory; 0: no pending work */

    /* ---- members below change seldom ---- */
    _Alignas(64) _Atomic(struct leat_pool *) pool;
    struct leat_device *device;
    leat_kind kind;
    _Atomic uint32_t front_bytes; /* bytes in front of the user's first byte, in guard mode */
    struct leati_block *back;
    struct leati_block *before, *after; /* neighbours in the span, by address */
    struct leati_stream_use *uses;      /* other streams that use the block, or NULL (pool/stream_uses.c) */
    struct leati_note *note;            /* diagnostics, or NULL; guarded by leati_notes_lock (pool/guard.c) */
    struct leati_stitch *stitch;        /* handles of a stitched block; else NULL (pool/stitch.c) */
    struct leati_planned *planned;      /* place of a planned block in the plan; else NULL (pool/plan.c) */
    uint64_t idle_since_ns;
    uint64_t serial; /* identifies a LIVE block in a recording; 0: not recorded */
    uint8_t heap;    /* the pool's range: LEATI_HEAP_SMALL, _LARGE or _STITCHED */
    uint8_t whole;   /* 1: has its own physical handle, so it is never split or joined */
};

/* leati_block_new() returns a cleared record in state UNUSED, or NULL when out of memory. Both functions take a
 * lock. */
struct leati_block *leati_block_new(void);
void leati_block_give_back(struct leati_block *block);

/* Enters the extent of block into the table: from then on every address in it leads to the record, until another
 * block is entered there. leati_blocks_cover() must have been called for the range. small: the range was covered
 * for small blocks, and a block may have any whole number of granules; otherwise a block must have at least the
 * size of a window. Several threads may enter blocks at once if the blocks do not overlap. */
void leati_blocks_enter(struct leati_block *block, bool small);

/* Prepares the table for a range of whole pages that belongs to pool. Returns false when out of memory; then
 * nothing has changed. May be called again for the same range. */
bool leati_blocks_cover(struct leat_pool *pool, uintptr_t base, size_t bytes, bool small);

/* Undoes leati_blocks_cover(). A pool calls this when it gives up the addresses. */
void leati_blocks_uncover(uintptr_t base, size_t bytes);

/* Returns the record of the extent that contains ptr, in any state but UNUSED and DORMANT; NULL if there is
 * none, or if no block was entered there yet. A LIVE block that contains ptr is always found. Another thread
 * may free and reuse the record at any time, so the caller must check base and state again, or know that the
 * block stays LIVE. Sets *pool to the pool whose address range contains ptr, or NULL. */
struct leati_block *leati_block_find(const void *ptr, struct leat_pool **pool);

/* Hooks of pools in guard mode. */
struct leati_guard_hooks {
    /* Writes where the memory around ptr was allocated and freed, as text to append to a message ("; it is ...").
     * If this is not known, sets text to "" and returns false. */
    bool (*describe)(struct leat_pool *pool, const void *ptr, char *text, size_t bytes);

    /* Returns NOT_PERMITTED if stream may not use [ptr, ptr + bytes) of a live block, because it is not ordered
     * after an earlier access. */
    leat_status (*may_use)(struct leati_block *block, struct leat_stream *stream, const void *ptr, size_t bytes,
                           bool write);

    /* Call after work that uses the memory was submitted to stream. seq: the stream's sequence number read
     * before the submission; 0: the work is complete. */
    void (*was_used)(struct leati_block *block, struct leat_stream *stream, const void *ptr, size_t bytes,
                     bool write, uint64_t seq);
};

/* NULL until the first pool with guard mode is created. */
extern _Atomic(const struct leati_guard_hooks *) leati_guard_hooks;

#endif
