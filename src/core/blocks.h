/*
 * blocks.h - records of the blocks that pools hand out, and the way from an address to its record without a lock.
 *
 * Records are type-stable: they lie in one reserved array that is never given back, so a reader that comes too
 * late reads a record of something else and sees that from its base and state; it never reads foreign memory.
 * Address to record is a table of two levels. Its leaves describe 2 MiB each: where blocks are small, by the
 * granule of 512 bytes; where they are of 1 MiB or more, by windows of 1 MiB, in each of which at most one block
 * can start and one come in from before. Blocks begin at any granule. What a window or a granule says stays there
 * when its block is freed: a reader sees from the record whether it still is about that address.
 *
 * Pools write (under their own locks), everybody reads. Every word that a reader may see while it changes is
 * atomic.
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

/* What a record stands for. Only LIVE belongs to the user. */
enum leati_block_state {
    LEATI_BLOCK_UNUSED = 0, /* no extent at all: the record is in the list of free records */
    LEATI_BLOCK_LIVE,
    LEATI_BLOCK_LEAVING, /* being freed by one thread, so that a second one cannot */
    LEATI_BLOCK_CACHED,  /* freed, and kept whole for its stream */
    LEATI_BLOCK_PENDING, /* freed, and waiting for other streams */
    LEATI_BLOCK_FREE,    /* an extent of idle memory */
    LEATI_BLOCK_HOLE,    /* addresses with no memory behind them */
    LEATI_BLOCK_STALE,   /* addresses whose memory was given away, still mapped because old work may be running */
    LEATI_BLOCK_LENT,    /* mapped memory that a stitched block uses at another address */
    LEATI_BLOCK_DORMANT, /* a stitched block, or a planned one, that is not in use; its addresses stay its own */
    LEATI_BLOCK_ARENA,   /* the addresses of all planned blocks together */
    LEATI_BLOCK_POISONED /* freed in guard mode, and in quarantine */
};

/* One extent of a pool's addresses. Extents of a range form a list in address order without gaps. What the fast
 * path writes has a cache line of its own, so that threads with neighbouring records do not disturb each other. */
struct leati_block {
    _Alignas(64) _Atomic uintptr_t base;
    _Atomic size_t bytes;           /* of the extent, whole granules */
    _Atomic size_t requested_bytes; /* as the user asked; of a LIVE block */
    _Atomic uint32_t state;         /* enum leati_block_state */
    uint16_t tag;
    uint16_t born;            /* of a large block: which one of its magazine's it is */
    struct leati_block *link; /* in a magazine, a bin or a list */
    _Atomic(struct leati_magazine *)
        magazine; /* whose lock guards the end of a LIVE block; NULL: none, it takes turns alone */
    struct leati_stream_cache *cache; /* whose stream it was freed on, or is ordered after */
    uint64_t seq;                     /* of that stream, when it was freed */

    /* ---- from here on seldom changed ---- */
    _Alignas(64) _Atomic(struct leat_pool *) pool;
    struct leat_device *device;
    leat_kind kind;
    _Atomic uint32_t front_bytes; /* what lies in front of the user's first byte, in guard mode */
    struct leati_block *back;
    struct leati_block *before, *after; /* neighbours by address */
    struct leati_stream_use *uses;      /* other streams that use it, or NULL (pool/stream_uses.c) */
    struct leati_note *note;            /* call stacks and the like, or NULL; under the lock of pool/guard.c */
    struct leati_stitch *stitch;        /* of a stitched block: what it is made of; else NULL (pool/stitch.c) */
    struct leati_planned *planned;      /* of a planned block: its place in the plan; else NULL (pool/plan.c) */
    uint64_t idle_since_ns;
    uint64_t serial; /* by which a recorder knows a LIVE block; 0: none does */
    uint8_t heap;    /* which of the pool's ranges: LEATI_HEAP_SMALL, _LARGE or _STITCHED */
    uint8_t whole;   /* one physical handle of its own: never split, never joined */
};

/* A record, UNUSED and zeroed; NULL when out of memory. Takes a lock. */
struct leati_block *leati_block_new(void);
void leati_block_give_back(struct leati_block *block);

/* Enters the extent of block: from then on every address of it leads to the record, until another block is entered
 * there. leati_blocks_cover() must have been called for the range. Blocks in small pages are of any whole number
 * of granules, others of a window or more. */
void leati_blocks_enter(struct leati_block *block, bool small);

/* Makes the table ready for whole pages of pool; false, with nothing changed, when out of memory. May be called
 * again for the same range. */
bool leati_blocks_cover(struct leat_pool *pool, uintptr_t base, size_t bytes, bool small);

/* Undoes it when a pool ends. */
void leati_blocks_uncover(uintptr_t base, size_t bytes);

/* Returns the record of an extent around ptr, in whatever state; NULL if there is none, or if no block was entered
 * there yet. A LIVE block around ptr is always found. *pool: the pool whose range it is in, or NULL. */
struct leati_block *leati_block_find(const void *ptr, struct leat_pool **pool);

/* What pools in guard mode know beyond the records. */
struct leati_guard_hooks {
    /* Where the memory around ptr was allocated, and freed: "; it is ..." for the end of a message. False, and
     * text "", when that is not known. */
    bool (*describe)(struct leat_pool *pool, const void *ptr, char *text, size_t bytes);

    /* May stream use [ptr, ptr + bytes) of a live block? NOT_PERMITTED when it is not ordered after what was done
     * there before. */
    leat_status (*may_use)(struct leati_block *block, struct leat_stream *stream, const void *ptr, size_t bytes,
                           bool write);

    /* Work that uses it was given to stream; seq: the stream's before that, or 0: it is done already. */
    void (*was_used)(struct leati_block *block, struct leat_stream *stream, const void *ptr, size_t bytes,
                     bool write, uint64_t seq);
};

/* NULL until the first pool is made in guard mode. */
extern _Atomic(const struct leati_guard_hooks *) leati_guard_hooks;

#endif
