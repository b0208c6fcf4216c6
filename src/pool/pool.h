/*
 * pool.h - declares what the files of the pool share. docs/pools.md explains the design, with a picture.
 *
 * A pool owns ranges of addresses, cut into extents (struct leati_block of core/blocks.h). Files, from the hot
 * path down:
 *   alloc.c         the calls that allocate and free; the fast path
 *   stream_cache.c  per-stream caches and their magazines of freed blocks; several threads share a magazine
 *   slow_path.c     allocation when no magazine has a block; tries the fallbacks in order
 *   stream_uses.c   freed blocks that other streams may still use
 *   heap.c          extents: finding, splitting, joining; makes no driver calls
 *   pages.c         physical memory: creating, mapping, releasing; the only file that calls the driver for memory
 *   stitch.c        blocks made of idle pages that are not contiguous
 *   plan.c          placing large blocks by a recorded plan
 *   pinned.c        chunks of pinned memory
 *   pool.c          creating and destroying pools, options, limits, budgets
 *   full.c          the error message when a pool has no memory for a request
 *   stats.c         statistics, history, snapshot
 *   guard.c         red zones, poison, scrubbing (guard.h)
 *   race_check.c    guard mode: detects races between streams
 *   backtraces.c    call stacks, and live bytes by call stack
 *
 * Lock order: a device's pools_lock, the lock of the list of all pools (pool.c), one pool's lock, a magazine's
 * lock. A thread that holds a pool's lock may only trylock the list or another pool, because another thread may
 * hold those locks and wait for this pool. The fast path takes one magazine's lock and no other lock.
 */
#ifndef LEATI_POOL_H
#define LEATI_POOL_H

#include "base/lock.h"
#include "core/core.h"

#include <leat/pool.h>
#include <leat/virtual.h>

enum {
    LEATI_MAGAZINES = 16,       /* maximum number of magazines of a stream cache, shared by all threads */
    LEATI_MAGAZINE_SLOTS = 128, /* number of hash slots of a magazine; each keeps small blocks of one size */
    LEATI_MAGAZINE_LARGE = 2,   /* maximum number of large blocks that a magazine keeps, of any sizes */
    LEATI_BINS = 256,
    LEATI_HELPERS = 8,
    LEATI_TAGS = 64
};

/* The address ranges of a pool: two heaps, and the range in which stitched blocks (stitch.c) and the arena of a
 * plan (plan.c) get their addresses. */
enum { LEATI_HEAP_SMALL, LEATI_HEAP_LARGE, LEATI_HEAPS, LEATI_HEAP_STITCHED = LEATI_HEAPS, LEATI_RANGES };

/* Requests of at least this size are large; they use the heap of large blocks. */
#define LEATI_LARGE_BYTES LEATI_WINDOW_BYTES

/* ---- magazines ---- */

/* Freed blocks of one size. The block that was freed last is reused first. */
struct leati_slot {
    size_t bytes;
    struct leati_block *top;
    uint32_t count;
};

/* Statistics of one magazine. Only the holder of the magazine's lock writes them; any thread may read them. If one
 * magazine of a stream allocates a block and another one of the same stream frees it, the figures of the second
 * become too low, even negative. A free on another stream is counted where the allocation was. So only the sums
 * over all magazines of a stream are meaningful. */
struct leati_magazine_figures {
    _Atomic int64_t requested_bytes, used_bytes, live_blocks, cached_bytes;
    _Atomic int64_t requested_peak_bytes; /* peak of this magazine's requested_bytes */
    _Atomic uint64_t allocations, frees, hits;
    _Atomic int64_t tag_bytes[LEATI_TAGS], tag_blocks[LEATI_TAGS];
};

struct leati_magazine {
    _Alignas(128) atomic_uchar locked;
    struct leati_slot slots[LEATI_MAGAZINE_SLOTS];
    struct leati_block *large[LEATI_MAGAZINE_LARGE]; /* the large blocks that it keeps; NULL: empty place */
    uint16_t large_count;                            /* number of large blocks handed out; may wrap around */
    struct leati_magazine_figures figures;
};

/* Lists (bins) of idle extents or of holes, by size: eight bins for each power of two. */
struct leati_bins {
    uint64_t used[LEATI_BINS / 64];
    struct leati_block *first[LEATI_BINS];
    size_t bytes, count;
};

/* The freed memory of a pool that belongs to one stream. If timeline is NULL, this is the host cache. No pending
 * work uses memory of the host cache, so every stream may use it. */
struct leati_stream_cache {
    struct leat_pool *pool;
    struct leati_timeline *timeline;
    leat_stream *stream; /* NULL for the host cache, or if the stream was destroyed */
    struct leati_stream_cache *next;
    bool is_waited_for; /* temporary, for slow_path.c: the requesting stream is ordered after all work that may
                           still use idle memory of this cache */
    size_t blocks;      /* number of records and handles that refer to this cache; when it is 0 and the stream was
                           destroyed, the cache is reused for another stream */
    _Atomic(struct leati_magazine *) magazines[LEATI_MAGAZINES];
    atomic_uint magazines_made; /* bit n is set if magazine n exists */
    struct leati_bins bins[LEATI_HEAPS];
};

/* ---- physical memory ---- */

/* One physical allocation of the driver (a handle). It is mapped at base, or spare: kept for later, not mapped. */
struct leati_physical {
    uint64_t handle;
    uintptr_t base; /* address where it is mapped in the heaps or the arena; 0: spare */
    size_t bytes;
    struct leati_physical *next;            /* next in the list of spare handles */
    struct leati_physical *older, *younger; /* list of all handles of the pool; leak checkers find the handles by
                                               this list, because they do not scan the table of pages */
    struct leati_stream_cache *cache; /* of a spare handle: work of this cache's stream up to seq may still use it;
                                         NULL: no pending work */
    uint64_t seq;
    unsigned stitches;           /* number of stitched blocks, in use or dormant, that map this handle */
    struct leati_block *idle_in; /* temporary, for stitch.c: the idle extent that contains the handle; valid only
                                    if idle_round equals the pool's stitch_round */
    uint64_t idle_round;
};

/* A range of addresses whose extents form one list. It is a part of the pool's reservation, or one chunk that the
 * driver allocated. */
struct leati_span {
    uintptr_t base;
    size_t bytes;
    void *chunk; /* the driver's allocation, which may start below base; NULL: part of the reservation */
    size_t chunk_bytes;
    struct leati_block *first;
    struct leati_span *next;
    uint8_t heap;
};

/* ---- the pool ---- */

/* One stream use: work on another stream, or an event, that must complete before a freed block is reused. */
struct leati_stream_use {
    struct leati_stream_use *next;
    struct leati_timeline *timeline; /* of the other stream, held; may be NULL if event is set */
    uint64_t seq;                    /* 0: not known yet; set to the stream's seq when the block is freed */
    void *event;                     /* driver event of the pool, used instead of seq; or NULL */
};

struct leati_figures {
    _Atomic uint64_t reserved_bytes, reserved_peak_bytes, pending_bytes, failures, driver_calls, driver_ns,
        created_bytes, stitched_bytes, released_bytes, stitches, stitch_reuses, planned, callbacks,
        requested_peak_bytes, guard_reports;
    struct leati_timeline_counts timeline;
};

/* Which limit refused the pool's last request for new memory. */
enum leati_refusal {
    LEATI_REFUSED_NOT,   /* no limit did; the driver or, for pinned memory, the host has no more memory */
    LEATI_REFUSED_LIMIT, /* the pool's limit */
    LEATI_REFUSED_BUDGET /* the limit of the pool's budget */
};

struct leati_ring;      /* defined in stats.c */
struct leati_pool_plan; /* defined in plan.c */
struct leati_checker;   /* defined in guard.h */

struct leat_budget {
    struct leati_handle handle;
    _Atomic uint64_t limit_bytes, used_bytes;
    _Atomic uint32_t pools;
};

struct leat_pool {
    struct leati_handle handle;
    struct leat_device *device;
    struct leat_pool *next; /* next pool in the list of all pools (pool.c) */
    char name[48];
    leat_kind kind;
    leat_pool_reuse reuse;
    leat_pool_packing packing;
    unsigned number; /* index of the pool in leat_stream.caches; LEATI_FAST_POOLS: the pool is not in that array */
    bool is_default;
    bool dedicated, exportable, virtual_memory;
    bool checked; /* guard, scrub, backtraces or history is on, so the fast path is not used */
    bool guard, scrub, backtraces;
    uint64_t serial; /* number of the pool, never reused in this process */
    uint64_t made_ns;

    struct leati_lock lock; /* guards all non-atomic fields below */
    _Atomic uint64_t limit_bytes, soft_limit_bytes;
    leat_budget *budget;
    leat_pool_full_function on_full;
    void *on_full_argument;
    uint32_t reuse_flags;                 /* bitmask of the allowed values of leat_pool_reuse_method */
    _Atomic uint32_t planned_reuse_flags; /* copy of reuse_flags for planned blocks, which are allocated without
                                             the pool's lock */
    _Atomic(struct leati_stream_cache *)
        caches;                      /* all caches, the youngest first; never removed, so readers need no lock */
    struct leati_stream_cache *host; /* host cache: memory without pending work, usable by every stream */
    struct leati_span *spans;
    struct leati_bins holes[LEATI_RANGES];
    struct leati_block *stale;   /* list of STALE extents, linked by link */
    struct leati_block *pending; /* list of PENDING blocks, linked by link and back */
    struct leati_physical *spare;
    struct leati_physical *youngest_physical; /* head of the list of all handles, linked by older */
    struct leati_stitch *stitches;            /* stitched blocks, the most recently used first */
    unsigned stitch_count;
    uint64_t stitch_round;              /* number of scans of the idle memory by stitch.c */
    uint64_t mapped_bytes[LEATI_HEAPS]; /* bytes mapped in each heap */
    uint64_t used_peak_bytes;           /* the peak of bytes in use, sampled only when the pool has to grow */
    atomic_bool is_tight;               /* the last large request that found no idle extent tried stitching */
    enum leati_refusal refusal;         /* which limit refused memory in the current request */
    uint64_t device_bytes;              /* total memory of the device */
    uintptr_t reserved_base;            /* base of the reservation; 0: not reserved yet */
    size_t reserved_span_bytes;
    struct leati_physical **page_physical; /* indexed by page of the reservation; NULL: not mapped */
    void *helpers[LEATI_HELPERS]; /* driver streams on which stream_uses.c records its copies of the user's events;
                                     NULL: not created yet */
    struct leati_figures figures;
    struct leati_pool_plan *plan; /* set when the pool is created; NULL: no plan */
    struct leati_ring *ring;
    struct leati_checker *checker; /* NULL: guard, scrub and backtraces are off */
};

extern struct leati_handles leati_pool_handles, leati_budget_handles;

static inline size_t leati_round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

/* Accessors for the fields of a record that lock-free readers may see. Relaxed loads are enough, because the
 * release store of the state, or a lock, orders the writes of these fields. */
static inline uintptr_t leati_base(const struct leati_block *block)
{
    return atomic_load_explicit(&block->base, memory_order_relaxed);
}

static inline size_t leati_bytes(const struct leati_block *block)
{
    return atomic_load_explicit(&block->bytes, memory_order_relaxed);
}

static inline size_t leati_requested(const struct leati_block *block)
{
    return atomic_load_explicit(&block->requested_bytes, memory_order_relaxed);
}

static inline uint32_t leati_state(const struct leati_block *block)
{
    return atomic_load_explicit(&block->state, memory_order_relaxed);
}

static inline void leati_set_state(struct leati_block *block, enum leati_block_state state)
{
    /* Release: a reader that sees the state also sees the fields written before it. */
    atomic_store_explicit(&block->state, state, memory_order_release);
}

/* Returns the address that the user got. In guard mode the extent starts below it, with a red zone. */
static inline uintptr_t leati_user_base(const struct leati_block *block)
{
    return leati_base(block) + atomic_load_explicit(&block->front_bytes, memory_order_relaxed);
}

/* Sets the cache that a record belongs to, and updates the blocks counters of the old and the new cache. Call with
 * the pool's lock held. */
static inline void leati_set_cache(struct leati_block *block, struct leati_stream_cache *cache)
{
    if (block->cache)
        block->cache->blocks--;
    if (cache)
        cache->blocks++;
    block->cache = cache;
}

static inline void leati_count(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* ---- heap.c: all with the pool's lock held ---- */

void leati_bins_add(struct leati_bins *bins, struct leati_block *block);
void leati_bins_remove(struct leati_bins *bins, struct leati_block *block);

/* Returns an extent in bins that has room for bytes at alignment, or NULL. Compares a limited number of extents
 * and returns the smallest of them, or the one at the lowest address among several of that size. exact: accepts
 * only an extent of exactly bytes. cache: accepts only extents that this cache's stream may use now; NULL accepts
 * all. The extent stays in its bin. */
struct leati_block *leati_bins_fit(const struct leati_bins *bins, size_t bytes, size_t alignment, bool exact,
                                   const struct leati_stream_cache *cache);

/* Iterates over bins from the largest sizes down: returns the extent that follows block, or the first extent if
 * block is NULL. */
struct leati_block *leati_bins_walk(struct leati_bins *bins, const struct leati_block *block);

/* Sets the address range, pool, device, kind and heap of a new record. */
void leati_block_describe(struct leat_pool *pool, struct leati_block *block, uintptr_t base, size_t bytes,
                          uint8_t heap) LEATI_REQUIRES(pool->lock);

/* Creates a span with a single extent in the given state. The extent is in no bin yet. */
leat_status leati_span_new(struct leat_pool *pool, uintptr_t base, size_t bytes, uint8_t heap,
                           enum leati_block_state state, struct leati_span **span) LEATI_REQUIRES(pool->lock);

/* Trims block to [base, base + bytes). The remainders on both sides become extents of the same state and cache,
 * and go into their bins. block itself must be in no bin, and stays so. If it returns HOST_MEMORY, block is
 * unchanged. */
leat_status leati_extent_cut(struct leat_pool *pool, struct leati_block *block, uintptr_t base, size_t bytes)
    LEATI_REQUIRES(pool->lock);

/* Turns block, which is in no bin, into idle memory of cache, and joins it with adjacent idle memory of cache.
 * Work of cache's stream up to seq may still use the memory; seq 0: no pending work. If block is a stitched block,
 * its memory returns to the heaps instead; if it is a planned block, its place returns to the plan. */
void leati_extent_free(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                       uint64_t seq) LEATI_REQUIRES(pool->lock);

/* Compares two pointers to records by the addresses of their extents, for qsort(). */
int leati_by_address(const void *a, const void *b);

/* Turns block into a hole (addresses without memory) and joins it with adjacent holes. */
void leati_extent_hole(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock);

/* Removes an idle extent or a hole from its bin. */
void leati_extent_unbin(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock);

/* Returns true if block is idle memory that cache's stream may use now, and that may be split and joined. block
 * may be NULL. */
bool leati_is_idle_for(const struct leati_block *block, const struct leati_stream_cache *cache);

/* Joins adjacent idle extents of any caches if no pending work can use them any more. The result belongs to the
 * host cache. */
void leati_extents_join_done(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Return true if cache's stream may use this idle memory now, without another wait: the stream freed the memory
 * itself, or the work that may still use it is known to be complete, or the stream is ordered after that work.
 * freed_by, seq: work of freed_by's stream up to seq may still use the memory. */
bool leati_usable(const struct leati_block *block, const struct leati_stream_cache *cache);
bool leati_usable_by(const struct leati_stream_cache *freed_by, uint64_t seq,
                     const struct leati_stream_cache *cache);

/* Merges second into first. They are adjacent and in no bin. */
void leati_extent_join(struct leat_pool *pool, struct leati_block *first, struct leati_block *second)
    LEATI_REQUIRES(pool->lock);

/* ---- pages.c: all with the pool's lock held ---- */

/* Reserves the pool's address range, if it is not reserved yet. */
leat_status leati_pages_reserve(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Provides memory for a block of bytes for cache when no idle extent fits. Sets *block to an idle extent of new
 * memory, which has room for bytes at the alignment, or to a stitched block; either is in no bin. Returns
 * DEVICE_MEMORY or HOST_MEMORY if there is no memory. */
leat_status leati_pages_provide(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes,
                                size_t alignment, struct leati_block **block) LEATI_REQUIRES(pool->lock);

/* Chooses the start address of a block inside an idle extent that has room for it. Prefers a place where the block
 * overlaps as few bytes of completely idle handles as possible. */
uintptr_t leati_pages_place(struct leat_pool *pool, const struct leati_block *block, size_t bytes,
                            size_t alignment) LEATI_REQUIRES(pool->lock);

/* Maps handles contiguously at [base, base + bytes) and grants the device access. On failure nothing is mapped. */
leat_status leati_pages_map(struct leat_pool *pool, struct leati_physical *const *handles, size_t count,
                            uintptr_t base, size_t bytes) LEATI_REQUIRES(pool->lock);

/* Unmaps the addresses of an extent that is in no bin. If work may still use them, leaves this to a later call of
 * leati_pages_settle(). */
void leati_pages_give_up(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock);

/* Unmaps the addresses that leati_pages_give_up() left mapped, if the work that uses them is known to be complete
 * by now. */
void leati_pages_settle(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Releases the spare handles to the driver. */
leat_status leati_pages_drop_spare(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Releases idle memory to the driver until the pool holds at most keep_bytes. Only memory that became idle no
 * later than before_ns is released. Sets *pending_bytes to the size of freed memory that work may still use. */
leat_status leati_pages_trim(struct leat_pool *pool, uint64_t keep_bytes, uint64_t before_ns,
                             uint64_t *released_bytes, uint64_t *pending_bytes) LEATI_REQUIRES(pool->lock);

/* Releases all memory and addresses. No block may be live, and no work pending. If a release fails, continues with
 * the others and returns the first error. */
leat_status leati_pages_end(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Returns the handle mapped at an address of the reservation, or NULL. */
struct leati_physical *leati_pages_physical(struct leat_pool *pool, uintptr_t address) LEATI_REQUIRES(pool->lock);

/* ---- stitch.c: all with the pool's lock held ---- */

/* Makes a block of bytes for cache from idle handles. The block is in no bin. If too few handles are idle, returns
 * DEVICE_MEMORY and sets *missing_bytes to the bytes that are missing, in whole pages. In all other cases
 * *missing_bytes is 0. */
leat_status leati_stitch_provide(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes,
                                 size_t alignment, size_t *missing_bytes, struct leati_block **block)
    LEATI_REQUIRES(pool->lock);

/* Makes the memory of a stitched block idle, with cache and seq as in leati_extent_free(). The block becomes
 * dormant, and its addresses stay mapped. */
void leati_stitch_sleep(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                        uint64_t seq) LEATI_REQUIRES(pool->lock);

/* Gives up the addresses of all dormant stitched blocks that map this handle. The handle must be idle. */
void leati_stitch_forget(struct leat_pool *pool, struct leati_physical *physical) LEATI_REQUIRES(pool->lock);

/* Moves dormant blocks that no pending work uses any more to the host cache. */
void leati_stitch_settle(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Frees the descriptors of all stitched blocks when the pool ends. leati_pages_end() unmaps their addresses. */
void leati_stitch_end(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* ---- pages.c, functions for plan.c: with the pool's lock held ---- */

/* Finds a range of addresses for the arena of a plan; no memory is mapped there yet. bytes is a multiple of the
 * page size. Returns false if no range is long enough. */
bool leati_pages_arena(struct leat_pool *pool, size_t bytes, uintptr_t *base) LEATI_REQUIRES(pool->lock);

/* Maps memory behind every unmapped page of [base, base + bytes), which is a part of the arena. */
leat_status leati_pages_fill_arena(struct leat_pool *pool, struct leati_stream_cache *cache, uintptr_t base,
                                   size_t bytes) LEATI_REQUIRES(pool->lock);

/* Finds the first handle that is mapped in the arena at or after *offset, and sets *offset to the handle's offset.
 * Returns false if there is none. */
bool leati_pages_next(struct leat_pool *pool, uintptr_t base, uint64_t bytes, uint64_t *offset,
                      size_t *handle_bytes) LEATI_REQUIRES(pool->lock);

/* Unmaps the handle that begins at base and releases it to the driver. */
leat_status leati_pages_release_at(struct leat_pool *pool, uintptr_t base) LEATI_REQUIRES(pool->lock);

/* ---- plan.c ---- */

/* Reads a plan file. Errors: SYSTEM if the file cannot be opened, INVALID if it is not a valid plan, or
 * HOST_MEMORY. */
leat_status leati_pool_plan_read(const char *path, struct leati_pool_plan **plan);

/* Returns a LIVE block at the place that the pool's plan has for this request. Returns NULL if the plan does not
 * expect the request, or if the place is occupied. Takes the plan's lock, a magazine's lock, and sometimes the
 * pool's lock, for example when the place is used for the first time. */
struct leati_block *leati_pool_plan_take(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes,
                                         size_t requested_bytes);

/* Frees a planned block, with cache and seq as in leati_extent_free(). Takes the plan's lock. If cache is not
 * the one that the block was allocated for, the caller must hold the pool's lock. */
void leati_pool_plan_give_back(struct leati_block *block, struct leati_stream_cache *cache, uint64_t seq);

/* Releases idle memory of the arena to the driver until the pool holds at most keep_bytes. Call with the pool's
 * lock held. */
leat_status leati_pool_plan_trim(struct leat_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes)
    LEATI_REQUIRES(pool->lock);

/* Returns the number of bytes of the arena that were freed but that pending work may still use. Call with the
 * pool's lock held. */
uint64_t leati_pool_plan_pending_bytes(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Waits on the host for all work that may still use freed planned blocks. Call with the pool's lock held. */
leat_status leati_pool_plan_finish(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Iterates over the records of planned blocks. Start with *index 0. Returns NULL at the end. Call with the pool's
 * lock held, or when no other thread uses the pool. */
struct leati_block *leati_pool_plan_block(const struct leat_pool *pool, uint32_t *index);

/* Returns the maximum number of records of planned blocks. */
size_t leati_pool_plan_places(const struct leat_pool *pool);

/* Gets the address range of the arena, in whole pages. Returns false if the arena has no addresses yet. Call with
 * the pool's lock held. */
bool leati_pool_plan_range(const struct leat_pool *pool, uintptr_t *base, size_t *bytes);

/* Frees the plan when its pool ends. Does not release the memory of the arena. */
void leati_pool_plan_end(struct leat_pool *pool);

/* ---- stream_cache.c ---- */

/* Returns the cache of a stream (NULL: the host cache), and creates it on first use. Returns NULL when out of
 * memory. Call with the pool's lock held. */
struct leati_stream_cache *leati_stream_cache_get(struct leat_pool *pool, leat_stream *stream)
    LEATI_REQUIRES(pool->lock);

/* Like leati_stream_cache_get(), but takes no lock and creates nothing. Returns NULL if there is no cache. Also
 * returns NULL if the lock would be needed: for pools beyond the first LEATI_FAST_POOLS of a device, and for
 * streams of other devices. */
struct leati_stream_cache *leati_stream_cache_find(struct leat_pool *pool, leat_stream *stream);

/* Returns this thread's magazine of cache. If the thread has none yet, creates it if make is set, and otherwise
 * returns NULL. With make set, NULL means out of memory. */
struct leati_magazine *leati_magazine_of(struct leati_stream_cache *cache, bool make);

/* Iterate over the magazines of a cache without a lock. Start with left = leati_magazines_of(cache), then call
 * leati_magazine_next() until it returns NULL. */
static inline unsigned leati_magazines_of(const struct leati_stream_cache *cache)
{
    return atomic_load_explicit(&cache->magazines_made, memory_order_acquire);
}

struct leati_magazine *leati_magazine_next(const struct leati_stream_cache *cache, unsigned *left);

bool leati_magazine_try(struct leati_magazine *magazine);
void leati_magazine_lock(struct leati_magazine *magazine);
void leati_magazine_unlock(struct leati_magazine *magazine);

/* Takes a block of exactly bytes out of the magazine, or returns NULL. Call under the magazine's lock. */
struct leati_block *leati_magazine_pop(struct leati_magazine *magazine, size_t bytes);

/* Puts a freed block into the magazine. Returns false if there is no room. Call under the magazine's lock. */
bool leati_magazine_push(struct leati_magazine *magazine, struct leati_block *block);

/* Update the statistics for an allocation (hit: served from the magazine) and for a free. Call under the
 * magazine's lock. */
void leati_magazine_count_alloc(struct leati_magazine *magazine, struct leati_block *block, bool hit);
void leati_magazine_count_free(struct leati_magazine *magazine, const struct leati_block *block);

/* Takes a block of exactly bytes from any magazine of cache other than into, or returns NULL. If into is not NULL,
 * also moves some more blocks of this size to it. Call with the pool's lock held. */
struct leati_block *leati_stream_cache_steal(struct leati_stream_cache *cache, struct leati_magazine *into,
                                             size_t bytes);

/* Puts a freed block into a magazine. First makes room: moves the blocks of the same slot or,
 * for a large block, all large blocks to the heap. Returns false if the magazine does not keep the block, because
 * the block is large and the magazine has handed out too many other large blocks since it handed out this one.
 * Call with the pool's lock held. */
bool leati_magazine_push_into(struct leat_pool *pool, struct leati_magazine *magazine, struct leati_block *block)
    LEATI_REQUIRES(pool->lock);

/* Move blocks from magazines to the heap: leati_stream_cache_drain() all blocks of a cache, _drain_large() only
 * its large ones, leati_stream_caches_drain() those of all caches of the pool. Return true if there were any. Call
 * with the pool's lock held. */
bool leati_stream_cache_drain(struct leati_stream_cache *cache);
void leati_stream_cache_drain_large(struct leati_stream_cache *cache);
bool leati_stream_caches_drain(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Free all caches when the pool ends. */
void leati_stream_caches_end(struct leat_pool *pool);

/* ---- slow_path.c ---- */

/* Allocates a LIVE block for stream (NULL: the host), with all fallbacks of slow_path.c. Takes the pool's lock. */
leat_status leati_slow_path_alloc(struct leat_pool *pool, leat_stream *stream, size_t bytes,
                                  size_t requested_bytes, size_t alignment, struct leati_block **block);

/* Asks the driver which work on freed memory is complete by now. Does not ask about the stream of asking, because
 * that stream may reuse its own freed memory anyway; asking NULL: asks about all streams. Returns true if memory
 * became usable. Call with the pool's lock held. */
bool leati_slow_path_poll(struct leat_pool *pool, struct leati_stream_cache *asking) LEATI_REQUIRES(pool->lock);

/* Asks the driver about the stream uses of pending blocks, and frees the blocks whose uses are all complete. Call
 * with the pool's lock held. */
void leati_slow_path_settle(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Waits on the host for all work that may still use freed memory. After that every stream may use this memory. If
 * a wait fails, continues with the others and returns the first error. Call with the pool's lock held. */
leat_status leati_slow_path_finish(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Returns a block that is no longer LIVE to the heap or, if it has incomplete stream uses, makes it pending. Work
 * of cache's stream up to seq may still use the block; cache NULL: no work uses it any more. Call with the pool's
 * lock held. */
void leati_slow_path_free(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                          uint64_t seq) LEATI_REQUIRES(pool->lock);

/* ---- stream_uses.c: with the pool's lock held ---- */

leat_status leati_stream_uses_add_stream(struct leat_pool *pool, struct leati_block *block, leat_stream *stream)
    LEATI_REQUIRES(pool->lock);
leat_status leati_stream_uses_add_seq(struct leati_block *block, struct leati_timeline *timeline, uint64_t seq);
leat_status leati_stream_uses_add_event(struct leat_pool *pool, struct leati_block *block, leat_event *event)
    LEATI_REQUIRES(pool->lock);

/* Sets the seq of each stream use where it is still 0 to the current sequence number of that stream. Call when
 * the block is freed. */
void leati_stream_uses_fix(struct leati_block *block);

/* Drops the uses that are complete. If cache is not NULL, also drops the uses that cache's stream is ordered
 * after. query: asks the driver about uses that are not known to be complete. Returns true if no use is left. */
bool leati_stream_uses_settle(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                              bool query) LEATI_REQUIRES(pool->lock);

/* Makes stream wait for all uses of the block, and drops none of them, because only this stream waits. Makes the
 * host wait for all uses of the block, and drops them. leati_stream_uses_drop() drops them without a wait. */
leat_status leati_stream_uses_wait(struct leat_pool *pool, struct leati_block *block, leat_stream *stream)
    LEATI_REQUIRES(pool->lock);
leat_status leati_stream_uses_host_wait(struct leat_pool *pool, struct leati_block *block)
    LEATI_REQUIRES(pool->lock);
void leati_stream_uses_drop(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock);

/* ---- pool.c ---- */

leat_status leati_check_pool(const char *what, const leat_pool *pool);

/* Returns the default pool, and creates it on first use. */
leat_status leati_pool_get_default(const char *what, leat_device *device, leat_kind kind, leat_pool **pool);

/* Returns the pool for leat's internal blocks. This is the default pool or, under LEAT_POOL_GUARD, a separate pool
 * without guard mode, because in guard mode a free waits for the stream. */
leat_status leati_pool_get_own(leat_device *device, leat_kind kind, leat_pool **pool);

/* Like leat_pool_alloc() without a stream, but returns the memory, or NULL without a message if it fails. */
void *leati_pool_take(leat_pool *pool, size_t bytes);

/* Charges bytes to the pool's limit and budget, or fails with a message that names the limit that was reached. */
leat_status leati_pool_charge(struct leat_pool *pool, uint64_t bytes);
void leati_pool_uncharge(struct leat_pool *pool, uint64_t bytes);

/* Releases idle memory of other pools so that pool can grow by bytes. Returns true if any was released. Call
 * with the pool's lock held. */
bool leati_pool_take_from_others(struct leat_pool *pool, uint64_t bytes) LEATI_REQUIRES(pool->lock);

/* Summary of the other pools that compete with a full pool. If a budget refused memory, these are the pools of the
 * same budget; if the pool's own limit did, there are none; otherwise these are the pools that use the same
 * memory. */
struct leati_others {
    uint64_t held_bytes; /* the sum of their reserved_bytes */
    uint64_t most_bytes; /* the largest reserved_bytes of a single pool */
    char most_name[sizeof((struct leat_pool *)0)->name];
    uint64_t pending_bytes;  /* the largest amount of freed but pending memory of a single pool */
    uint64_t pending_stream; /* serial number of one of the streams that may still use that memory */
    char pending_name[sizeof((struct leat_pool *)0)->name];
};

/* Fills in *others. If another thread holds the lock of a pool, only the reserved bytes of that pool are counted.
 * Call with the lock of pool held. */
void leati_pool_look_at_others(struct leat_pool *pool, struct leati_others *others) LEATI_REQUIRES(pool->lock);

/* ---- full.c: with the pool's lock held ---- */

enum { LEATI_PENDING_STREAMS = 4 };

/* Memory that a pool holds and that is not in use. */
struct leati_idle {
    /* The memory that the stream of the cache passed to leati_full_look() can use now: the sum, the number of
     * contiguous pieces, and the size of the largest piece. */
    uint64_t bytes, pieces, largest_bytes;
    uint64_t pending_bytes; /* other freed memory, which pending work may still use */
    unsigned stream_count;
    struct {
        uint64_t serial, bytes; /* serial number of a stream (0: unknown), and the bytes pending on it */
    } streams[LEATI_PENDING_STREAMS];
    uint64_t more_bytes; /* pending bytes of streams for which the list had no room */
};

void leati_full_look(struct leat_pool *pool, const struct leati_stream_cache *cache, struct leati_idle *idle)
    LEATI_REQUIRES(pool->lock);

/* Writes the error message for a request of cache's stream that no fallback could serve, and returns the status of
 * the call. status and this thread's current message come from the last attempt to get new memory. */
leat_status leati_full_explain(struct leat_pool *pool, const struct leati_stream_cache *cache, leat_status status,
                               size_t bytes, size_t alignment) LEATI_REQUIRES(pool->lock);

/* ---- stats.c ---- */

void leati_stats_event(struct leat_pool *pool, leat_pool_action action, const void *ptr, uint64_t bytes,
                       const struct leati_timeline *timeline, uint32_t tag);
uint16_t leati_stats_thread_tag(void);

/* Raises the peak of the live bytes if more bytes are live now. Call with the pool's lock held. */
void leati_stats_sample(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Returns the bytes of all live blocks. Needs no lock, so it may be slightly wrong while threads allocate. */
uint64_t leati_stats_used_bytes(struct leat_pool *pool);
leat_status leati_stats_start(struct leat_pool *pool, uint32_t history);
void leati_stats_end(struct leat_pool *pool);

struct leati_strbuf;

/* Appends a summary of the pool's live blocks: their number and size, the largest block, and the tag and the call
 * stack that hold most bytes. Returns false if no block is live. */
bool leati_stats_holders(struct leat_pool *pool, struct leati_strbuf *text) LEATI_REQUIRES(pool->lock);

/* Describes the memory that a pool holds and the holders of its live blocks, for errors and reports. Returns
 * true if any block is live. */
bool leati_stats_describe(struct leat_pool *pool, char *words, size_t bytes) LEATI_REQUIRES(pool->lock);

/* With LEAT_LEAKS=1, prints the live blocks to standard error when a device is closed. */
void leati_stats_leaks(struct leat_pool *pool);

/* Returns the name of a tag, "" for tag 0. */
const char *leati_stats_tag_name(uint32_t tag);

/* ---- guard.c: checked pools (guard, scrub, backtraces, history) ---- */

/* Minimum size of the red zone on each side of a block in guard mode. The front zone may be larger because of the
 * alignment, the rear zone because the size is rounded up. */
enum { LEATI_GUARD_BYTES = 512 };

/* Returns true if the pool uses red zones and quarantine. Exportable pools do not use them, because another
 * process may write to the whole extent. */
static inline bool leati_guarded(const struct leat_pool *pool)
{
    return pool->guard && !pool->exportable;
}

/* leati_guard_front_bytes() returns the size of the red zone in front of a block of this alignment,
 * leati_guard_extra_bytes() the total by which red zones enlarge its extent. Both return 0 for a pool without red
 * zones. */
size_t leati_guard_front_bytes(const struct leat_pool *pool, size_t alignment);
size_t leati_guard_extra_bytes(const struct leat_pool *pool, size_t alignment);

leat_status leati_guard_start(struct leat_pool *pool);

/* Frees the checker when the pool ends. All notes of blocks must have been freed before. */
leat_status leati_guard_end(struct leat_pool *pool);

/* Call leati_guard_alloc() after a block was allocated, and leati_guard_free() before it is freed, both without
 * the pool's lock. If leati_guard_alloc() fails, the caller must give the block back; if leati_guard_free() fails,
 * the block still belongs to the user. Both may wait for the device. */
leat_status leati_guard_alloc(struct leat_pool *pool, leat_stream *stream, struct leati_block *block);
leat_status leati_guard_free(struct leat_pool *pool, leat_stream *stream, struct leati_block *block);

/* Waits for the pending work of the pool's own stream. Call after leati_guard_alloc() failed. */
void leati_guard_settle(struct leat_pool *pool);

/* Puts a freed block of a guarded pool into quarantine. Call with the pool's lock held. */
void leati_guard_quarantine(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock);

/* Releases all blocks from quarantine. Returns true if there were any. Call with the pool's lock held. */
bool leati_guard_drain_quarantine(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Frees the note of a block. */
void leati_guard_forget(struct leati_block *block);

/* Writes where the memory around ptr was allocated and freed, for the end of an error message. If this is not
 * known, sets text to "" and returns false. */
bool leati_guard_describe(struct leat_pool *pool, const void *ptr, char *text, size_t bytes);

/* ---- backtraces.c ---- */

/* Appends "stack":[...] to the line of a block in a snapshot, if the block's call stack was recorded. */
void leati_guard_snapshot(const struct leati_block *block,
                          void (*write)(void *argument, const char *text, size_t bytes), void *argument);

/* Appends the call stack that holds most live bytes, if call stacks are recorded. Call with the pool's lock
 * held. */
void leati_guard_holders(struct leat_pool *pool, struct leati_strbuf *text) LEATI_REQUIRES(pool->lock);

/* Prints the live blocks to standard error, grouped by tag and call stack, when a pool ends. */
void leati_guard_leaks(struct leat_pool *pool);

/* An exported block. */
struct leati_exported {
    int fd;
    struct leat_pool *pool;
    size_t bytes; /* of its pages */
    size_t requested_bytes;
};

/* Exports the block that starts at ptr, with the narrowest rights for access that the driver has. */
leat_status leati_block_export(void *ptr, leat_access access, struct leati_exported *exported);

/* Makes the core call the pool layer when the device closes, also if it has no pool. */
void leati_pool_set_hooks(struct leat_device *device);

#endif
