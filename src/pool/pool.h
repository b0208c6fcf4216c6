/*
 * pool.h - what the files of the pool share. docs/pools.md explains how it works, with a picture.
 *
 * A pool has addresses, cut into extents (struct leati_block of core/blocks.h). Files, from the hot path down:
 *   alloc.c   the calls that allocate and free; the fast path
 *   stream_cache.c    stream caches (what a pool keeps for one stream) and their magazines (freed blocks, used by
 * some threads) slow_path.c  where a block comes from when the magazines have none, step by step until the error
 *   stream_uses.c   blocks that wait for other streams than the one they were freed on
 *   heap.c    extents: finding, splitting, joining; knows no driver
 *   pages.c   physical memory: creating, mapping, releasing; the only file that calls the driver for memory
 *   stitch.c  blocks put together from idle pages that lie apart
 *   plan.c    pools that know beforehand where blocks go
 *   pinned.c  where pinned memory comes from
 *   pool.c    making and ending pools, options, limits, budgets
 *   full.c    the error of a pool that is full
 *   stats.c     statistics, history, snapshot
 *   guard.c   red zones, poison, scrubbing (guard.h)
 *   race_check.c    guard mode: what a stream may use already
 *   backtraces.c  call stacks, and who holds what by them
 *
 * Locks, in order: a device's pools_lock, the list of all pools (pool.c), one pool's lock, a magazine's lock. Who
 * holds a pool's lock takes that of the list, or of another pool, only by trying. The fast path takes its
 * magazine's lock and nothing else.
 */
#ifndef LEATI_POOL_H
#define LEATI_POOL_H

#include "base/lock.h"
#include "core/core.h"

#include <leat/pool.h>

enum {
    LEATI_MAGAZINES = 16,       /* threads spread over so many magazines of a stream */
    LEATI_MAGAZINE_SLOTS = 128, /* sizes of small blocks that a magazine keeps */
    LEATI_MAGAZINE_LARGE = 2,   /* large blocks that a magazine keeps, whatever their sizes */
    LEATI_BINS = 256,
    LEATI_HELPERS = 8,
    LEATI_TAGS = 64
};

/* The ranges of a pool's addresses: two heaps, and where blocks that are put together from pages which lie apart
 * have their addresses (stitch.c). */
enum { LEATI_HEAP_SMALL, LEATI_HEAP_LARGE, LEATI_HEAPS, LEATI_HEAP_STITCHED = LEATI_HEAPS, LEATI_RANGES };

/* Requests from this size on are large. */
#define LEATI_LARGE_BYTES LEATI_WINDOW_BYTES

/* ---- magazines ---- */

/* Freed blocks of one size, the latest first. */
struct leati_slot {
    size_t bytes;
    struct leati_block *top;
    uint32_t count;
};

/* Figures that only the holder of the magazine's lock changes and anybody reads. What one thread frees another may
 * have allocated, so each magazine's are differences, and only their sums mean something. */
struct leati_magazine_figures {
    _Atomic int64_t requested_bytes, used_bytes, live_blocks, cached_bytes;
    _Atomic int64_t requested_peak_bytes; /* of this magazine alone */
    _Atomic uint64_t allocations, frees, hits;
    _Atomic int64_t tag_bytes[LEATI_TAGS], tag_blocks[LEATI_TAGS];
};

struct leati_magazine {
    _Alignas(128) atomic_uchar locked;
    struct leati_slot slots[LEATI_MAGAZINE_SLOTS];
    struct leati_block *large[LEATI_MAGAZINE_LARGE]; /* NULL where there is none */
    uint16_t large_count;                        /* large blocks that it handed out; it may wrap around */
    struct leati_magazine_figures figures;
};

/* Idle extents by size: eight bins for each power of two. */
struct leati_bins {
    uint64_t used[LEATI_BINS / 64];
    struct leati_block *first[LEATI_BINS];
    size_t bytes, count;
};

/* What a pool keeps for one stream; with order NULL, for everybody: memory of which all work is done. */
struct leati_stream_cache {
    struct leat_pool *pool;
    struct leati_timeline *timeline;
    leat_stream *stream; /* NULL once it is destroyed */
    struct leati_stream_cache *next;
    bool is_waited_for; /* slow_path.c: the stream that asks is ordered after all its idle memory */
    size_t blocks; /* records that name it; one whose stream is gone serves another stream once there are none */
    _Atomic(struct leati_magazine *) magazines[LEATI_MAGAZINES];
    atomic_uint magazines_made; /* bit n: there is magazine n */
    struct leati_bins bins[LEATI_HEAPS];
};

/* ---- physical memory ---- */

/* One handle of the driver's, mapped at base, or spare. */
struct leati_physical {
    uint64_t handle;
    uintptr_t base; /* 0: spare */
    size_t bytes;
    struct leati_physical *next;            /* of the spare ones */
    struct leati_physical *older, *younger; /* of all that the pool has: leak checkers look for pointers in these,
                                               and not in the table of pages */
    struct leati_stream_cache
        *cache; /* of a spare one: whose old work may still use it, up to seq; NULL: nobody's */
    uint64_t seq;
    unsigned stitches; /* stitched blocks, in use or dormant, that it is mapped in */
    struct leati_block
        *idle_in; /* stitch.c, while it looks: the idle extent around it, if idle_round is the pool's */
    uint64_t idle_round;
};

/* A range of addresses whose extents form one list: a part of the reservation, or a chunk of the driver's. */
struct leati_span {
    uintptr_t base;
    size_t bytes;
    void *chunk; /* what the driver gave, which may be a little in front of base; NULL for a reservation */
    size_t chunk_bytes;
    struct leati_block *first;
    struct leati_span *next;
    uint8_t heap;
};

/* ---- the pool ---- */

/* Another stream, or an event, that a block must wait for once it is freed. */
struct leati_stream_use {
    struct leati_stream_use *next;
    struct leati_timeline *timeline; /* held */
    uint64_t seq;             /* 0: the stream's seq when the block is freed */
    void *event;               /* a driver's event of our own, which says more exactly when; or NULL */
};

struct leati_figures {
    _Atomic uint64_t reserved_bytes, reserved_peak_bytes, pending_bytes, failures, driver_calls, driver_ns,
        created_bytes, stitched_bytes, released_bytes, stitches, stitch_reuses, planned, callbacks,
        requested_peak_bytes, guard_reports;
    struct leati_timeline_counts timeline;
};

/* Which limit stood in the way of new memory when a pool last asked for some. */
enum leati_refusal {
    LEATI_REFUSED_NOT,   /* none: the driver has no more, or of pinned memory the host */
    LEATI_REFUSED_LIMIT, /* the pool's own */
    LEATI_REFUSED_BUDGET /* that of a budget */
};

struct leati_ring;  /* stats.c */
struct leati_pool_plan;  /* plan.c */
struct leati_checker; /* guard.h */

struct leat_budget {
    struct leati_handle handle;
    _Atomic uint64_t limit_bytes, used_bytes;
    _Atomic uint32_t pools;
};

struct leat_pool {
    struct leati_handle handle;
    struct leat_device *device;
    struct leat_pool *next; /* of the list of all pools (pool.c) */
    char name[48];
    leat_kind kind;
    leat_pool_reuse reuse;
    leat_pool_packing packing;
    unsigned number; /* below LEATI_FAST_POOLS: place in leat_stream.caches */
    bool is_default;
    bool dedicated, exportable, virtual_memory;
    bool checked; /* guard, scrub, stacks or history: the fast path is left alone */
    bool guard, scrub, backtraces;
    uint64_t serial; /* never used again */
    uint64_t made_ns;

    struct leati_lock lock; /* guards all below but atomics */
    _Atomic uint64_t limit_bytes, soft_limit_bytes;
    leat_budget *budget;
    leat_pool_full_function on_full;
    void *on_full_argument;
    uint32_t reuse_flags;                 /* LEAT_POOL_REUSE_* that are allowed */
    _Atomic uint32_t
        planned_reuse_flags; /* the same for planned blocks, which are taken without the pool's lock */
    _Atomic(struct leati_stream_cache *)
        caches;                      /* all of them, the youngest first; only added to, so read without a lock */
    struct leati_stream_cache *host; /* everybody's: memory of which all work is done */
    struct leati_span *spans;
    struct leati_bins holes[LEATI_RANGES];
    struct leati_block *stale;   /* list through link */
    struct leati_block *pending; /* list through link and back */
    struct leati_physical *spare;
    struct leati_physical *youngest_physical; /* of all, by older */
    struct leati_stitch *stitches;            /* stitched blocks, the latest used first */
    unsigned stitch_count;
    uint64_t stitch_round;              /* counts looks at what is idle */
    uint64_t mapped_bytes[LEATI_HEAPS]; /* in each heap */
    uint64_t used_peak_bytes;           /* the most that was in use when the pool had to grow */
    atomic_bool is_tight; /* it had to put a block together, or could not grow, the last time; read without lock */
    enum leati_refusal refusal; /* since the request that is on its way began */
    uint64_t device_bytes;      /* the device's memory */
    uintptr_t reserved_base;    /* the reservation; 0: none yet */
    size_t reserved_span_bytes;
    struct leati_physical **page_physical; /* by page of the reservation */
    void *helpers[LEATI_HELPERS]; /* the driver's streams that keep marks of the user's events (stream_uses.c); or
                                     NULL */
    struct leati_figures figures;
    struct leati_pool_plan *plan; /* set once; NULL: none */
    struct leati_ring *ring;
    struct leati_checker *checker; /* NULL: nothing is guarded, scrubbed or traced back */
};

extern struct leati_handles leati_pool_handles, leati_budget_handles;

static inline size_t leati_round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

/* Short names for the words of a record that readers without a lock may see. Relaxed: what must be ordered is
 * ordered by the state, or by a lock. */
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
    /* Release: who sees the state sees the record as it was when it got it. */
    atomic_store_explicit(&block->state, state, memory_order_release);
}

/* The user's first byte. */
static inline uintptr_t leati_user_base(const struct leati_block *block)
{
    return leati_base(block) + atomic_load_explicit(&block->front_bytes, memory_order_relaxed);
}

/* Says whose a record is; with the pool's lock held. */
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

/* Returns the smallest extent of bins that holds bytes at alignment, the one at the lowest address of several;
 * NULL if none does. exact: only an extent of exactly bytes. cache: only what its stream may use now; NULL: do not
 * ask. The extent stays in its bin. */
struct leati_block *leati_bins_fit(const struct leati_bins *bins, size_t bytes, size_t alignment, bool exact,
                                   const struct leati_stream_cache *cache);

/* The next block after block, going down from the largest; block NULL: the largest. */
struct leati_block *leati_bins_walk(struct leati_bins *bins, const struct leati_block *block);

/* Fills a new record in. */
void leati_block_describe(struct leat_pool *pool, struct leati_block *block, uintptr_t base, size_t bytes,
                          uint8_t heap) LEATI_REQUIRES(pool->lock);

/* A new span with one extent in the given state, which is not in any bin yet. */
leat_status leati_span_new(struct leat_pool *pool, uintptr_t base, size_t bytes, uint8_t heap,
                           enum leati_block_state state, struct leati_span **span) LEATI_REQUIRES(pool->lock);

/* Cuts block so that it begins at base and has bytes; what is left over on either side becomes extents of the same
 * state and cache in the right bins. block is in no bin before and after. HOST_MEMORY leaves it as it was. */
leat_status leati_extent_cut(struct leat_pool *pool, struct leati_block *block, uintptr_t base, size_t bytes)
    LEATI_REQUIRES(pool->lock);

/* Makes block, which is in no bin, idle memory of cache from seq on (0: no work has used it), and joins it with
 * the idle memory of cache beside it. The memory of a stitched block goes back to where it lies. */
void leati_extent_free(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                       uint64_t seq) LEATI_REQUIRES(pool->lock);

/* Compares two pointers to records by the addresses of their extents, for qsort(). */
int leati_by_address(const void *a, const void *b);

/* Makes block addresses without memory, joined with such beside it. */
void leati_extent_hole(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock);

/* Takes an idle extent or a hole out of its bin. */
void leati_extent_unbin(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock);

/* Returns true if block, which may be NULL, is idle memory that cache may use, and that can be cut and joined. */
bool leati_is_idle_for(const struct leati_block *block, const struct leati_stream_cache *cache);

/* Joins all neighbours that are idle and whose work is known to be done, whoever freed them; they are everybody's
 * then.
 */
void leati_extents_join_done(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* May cache's stream use this idle memory without waiting? */
bool leati_usable(const struct leati_block *block, const struct leati_stream_cache *cache);
bool leati_usable_by(const struct leati_stream_cache *freed_by, uint64_t seq,
                     const struct leati_stream_cache *cache);

/* Joins second into first, its neighbour; both are in no bin. */
void leati_extent_join(struct leat_pool *pool, struct leati_block *first, struct leati_block *second)
    LEATI_REQUIRES(pool->lock);

/* ---- pages.c: all with the pool's lock held ---- */

/* Reserves addresses at the first use. */
leat_status leati_pages_reserve(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Memory for a block of bytes for cache where none is idle in one piece: new memory, or a stitched block. Gives an
 * idle extent of at least bytes at the alignment, or the stitched block, in no bin. DEVICE_MEMORY or HOST_MEMORY
 * when there is none. */
leat_status leati_pages_provide(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes,
                                size_t alignment, struct leati_block **block) LEATI_REQUIRES(pool->lock);

/* Returns where in an idle extent, in which it fits, a block should begin so that as few handles as possible are
 * partly used. */
uintptr_t leati_pages_place(struct leat_pool *pool, const struct leati_block *block, size_t bytes,
                            size_t alignment) LEATI_REQUIRES(pool->lock);

/* Maps handles one after the other from base on, bytes in all, with access for the device. On failure nothing is
 * mapped. */
leat_status leati_pages_map(struct leat_pool *pool, struct leati_physical *const *handles, size_t count,
                            uintptr_t base, size_t bytes) LEATI_REQUIRES(pool->lock);

/* Unmaps the addresses of an extent that is in no bin, at once or when the work on them is done. */
void leati_pages_give_up(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock);

/* Unmaps addresses that were given up and whose work is done by now. */
void leati_pages_settle(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Releases handles that are mapped nowhere. */
leat_status leati_pages_drop_spare(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Gives idle memory back until the pool holds keep_bytes or less; only what was idle before before_ns. */
leat_status leati_pages_trim(struct leat_pool *pool, uint64_t keep_bytes, uint64_t before_ns,
                             uint64_t *released_bytes, uint64_t *pending_bytes) LEATI_REQUIRES(pool->lock);

/* Gives all back. Nothing is live, no work is left. Returns the first failure and goes on. */
leat_status leati_pages_end(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* The physical memory behind an address of a heap. */
struct leati_physical *leati_pages_physical(struct leat_pool *pool, uintptr_t address) LEATI_REQUIRES(pool->lock);

/* ---- stitch.c: all with the pool's lock held ---- */

/* Puts a block of bytes for cache together from idle handles, and gives it, in no bin. DEVICE_MEMORY: too few are
 * idle; *missing_bytes says how many, in whole pages. It is 0 after other failures. */
leat_status leati_stitch_provide(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes,
                                 size_t alignment, size_t *missing_bytes, struct leati_block **block)
    LEATI_REQUIRES(pool->lock);

/* The memory of a stitched block is idle from now on, as leati_extent_free() has it. Its addresses stay mapped. */
void leati_stitch_sleep(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                        uint64_t seq) LEATI_REQUIRES(pool->lock);

/* Gives up the addresses of all dormant stitched blocks that a handle, which is idle, is mapped in. */
void leati_stitch_forget(struct leat_pool *pool, struct leati_physical *physical) LEATI_REQUIRES(pool->lock);

/* Dormant blocks whose work is done belong to no stream any more. */
void leati_stitch_settle(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Forgets all of them when the pool ends. The addresses stay mapped. */
void leati_stitch_end(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* ---- for plan.c: pages.c, with the pool's lock held ---- */

/* Addresses for the arena of a plan, of whole pages, without memory. Returns false if there are none. */
bool leati_pages_arena(struct leat_pool *pool, size_t bytes, uintptr_t *base) LEATI_REQUIRES(pool->lock);

/* Puts memory behind all pages of a part of it that have none. */
leat_status leati_pages_fill_arena(struct leat_pool *pool, struct leati_stream_cache *cache, uintptr_t base,
                                   size_t bytes) LEATI_REQUIRES(pool->lock);

/* Finds the next handle of the arena from *offset on, which becomes its offset. Returns false past the last one.
 */
bool leati_pages_next(struct leat_pool *pool, uintptr_t base, uint64_t bytes, uint64_t *offset,
                      size_t *handle_bytes) LEATI_REQUIRES(pool->lock);

/* Unmaps the handle that begins at base, and gives it back to the driver. */
leat_status leati_pages_release_at(struct leat_pool *pool, uintptr_t base) LEATI_REQUIRES(pool->lock);

/* ---- plan.c ---- */

/* Reads a plan. SYSTEM: the file cannot be opened; INVALID: it is no plan; HOST_MEMORY. */
leat_status leati_pool_plan_read(const char *path, struct leati_pool_plan **plan);

/* A LIVE block where the plan of a pool wants it; NULL where the plan does not expect the request, or its place is
 * not free. Takes the plan's lock, a magazine's, and the pool's where a place is used for the first time. */
struct leati_block *leati_pool_plan_take(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes,
                                         size_t requested_bytes);

/* A planned block is freed by cache's stream at seq, as leati_extent_free() has it. Takes the plan's lock. The
 * pool's lock must be held if cache is not the one that it was taken for. */
void leati_pool_plan_give_back(struct leati_block *block, struct leati_stream_cache *cache, uint64_t seq);

/* Gives idle memory of the arena back to the driver, until the pool holds keep_bytes; with the pool's lock held.
 */
leat_status leati_pool_plan_trim(struct leat_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes)
    LEATI_REQUIRES(pool->lock);

/* Returns how much memory of the arena is in no use, but may still be used by work. With the pool's lock held. */
uint64_t leati_pool_plan_pending_bytes(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Waits for all work that may still use freed planned blocks; with the pool's lock held. */
leat_status leati_pool_plan_finish(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* The records of planned blocks: begin with *index 0; NULL ends it. With the pool's lock held, or none in use. */
struct leati_block *leati_pool_plan_block(const struct leat_pool *pool, uint32_t *index);

/* How many of these there can be. */
size_t leati_pool_plan_places(const struct leat_pool *pool);

/* The addresses of all planned blocks together, in whole pages. Returns false if there are none yet. With the
 * pool's lock held. */
bool leati_pool_plan_range(const struct leat_pool *pool, uintptr_t *base, size_t *bytes);

/* Ends the plan with its pool. The arena's memory stays. */
void leati_pool_plan_end(struct leat_pool *pool);

/* ---- stream_cache.c ---- */

/* The cache for a stream (NULL: the host), made at the first use; with the pool's lock held. NULL without memory.
 */
struct leati_stream_cache *leati_stream_cache_get(struct leat_pool *pool, leat_stream *stream)
    LEATI_REQUIRES(pool->lock);

/* The same without making one, without a lock; NULL when it is not there, or not to be found so fast. */
struct leati_stream_cache *leati_stream_cache_find(struct leat_pool *pool, leat_stream *stream);

/* This thread's magazine of cache; NULL when there is none (make: and none can be made). */
struct leati_magazine *leati_magazine_of(struct leati_stream_cache *cache, bool make);

/* All magazines that a cache has: begin with left = leati_magazines_of(cache); NULL ends it. Without a lock. */
static inline unsigned leati_magazines_of(const struct leati_stream_cache *cache)
{
    return atomic_load_explicit(&cache->magazines_made, memory_order_acquire);
}

struct leati_magazine *leati_magazine_next(const struct leati_stream_cache *cache, unsigned *left);

bool leati_magazine_try(struct leati_magazine *magazine);
void leati_magazine_lock(struct leati_magazine *magazine);
void leati_magazine_unlock(struct leati_magazine *magazine);

/* Under the magazine's lock. A block of exactly bytes, or NULL. */
struct leati_block *leati_magazine_pop(struct leati_magazine *magazine, size_t bytes);

/* Under the magazine's lock; false when there is no room. */
bool leati_magazine_push(struct leati_magazine *magazine, struct leati_block *block);

/* Under the magazine's lock: counts a block that was handed out, or came back. */
void leati_magazine_count_alloc(struct leati_magazine *magazine, struct leati_block *block, bool hit);
void leati_magazine_count_free(struct leati_magazine *magazine, const struct leati_block *block);

/* A block of exactly bytes from any magazine of cache, or NULL; some more of them go to the magazine into. With
 * the pool's lock held. */
struct leati_block *leati_stream_cache_steal(struct leati_stream_cache *cache, struct leati_magazine *into,
                                             size_t bytes);

/* Keeps a block that is freed in a magazine, which first gives those to the heap that are in its way: of the same
 * size, or all large ones; and counts it. Returns false if there is no room all the same: another size has its
 * place. With the pool's lock held. */
bool leati_magazine_push_into(struct leat_pool *pool, struct leati_magazine *magazine, struct leati_block *block)
    LEATI_REQUIRES(pool->lock);

/* Puts blocks that magazines keep back to the heap, with the pool's lock held: all of a cache's; the large ones of
 * a cache's; all. Returns true if there were any. */
bool leati_stream_cache_drain(struct leati_stream_cache *cache);
void leati_stream_cache_drain_large(struct leati_stream_cache *cache);
bool leati_stream_caches_drain(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Ends caches: at the end of a pool, and of a stream (hook). */
void leati_stream_caches_end(struct leat_pool *pool);
void leati_stream_caches_stream_ends(leat_stream *stream);

/* ---- slow_path.c ---- */

/* A LIVE block for cache, by every means that the pool has. Takes the pool's lock. what: the call, for messages.
 */
leat_status leati_slow_path_alloc(struct leat_pool *pool, leat_stream *stream, size_t bytes,
                                  size_t requested_bytes, size_t alignment, struct leati_block **block);

/* Asks the driver which work on freed memory is done by now, but for that of asking's stream, which may use that
 * memory anyway; NULL: of all streams. Returns true if any is found to be done. With the pool's lock held. */
bool leati_slow_path_poll(struct leat_pool *pool, struct leati_stream_cache *asking) LEATI_REQUIRES(pool->lock);

/* Frees blocks whose stream uses are done; asks the driver. With the pool's lock held. */
void leati_slow_path_settle(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Waits for all work that may still use freed memory, which then is everybody's; with the pool's lock held.
 * Returns the first failure and goes on. */
leat_status leati_slow_path_finish(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Gives a block that is no longer LIVE to the heap, or lets it wait for its stream uses; with the pool's lock
 * held. cache NULL: no work uses it any more. */
void leati_slow_path_free(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                          uint64_t seq) LEATI_REQUIRES(pool->lock);

/* ---- stream_uses.c: with the pool's lock held ---- */

leat_status leati_stream_uses_add_stream(struct leat_pool *pool, struct leati_block *block, leat_stream *stream)
    LEATI_REQUIRES(pool->lock);
leat_status leati_stream_uses_add_seq(struct leati_block *block, struct leati_timeline *timeline, uint64_t seq);
leat_status leati_stream_uses_add_event(struct leat_pool *pool, struct leati_block *block, leat_event *event)
    LEATI_REQUIRES(pool->lock);

/* Fixes the sequence numbers of a block that is freed. */
void leati_stream_uses_fix(struct leati_block *block);

/* Drops the uses that are done, or that cache's stream is ordered after. query: ask the driver too. True when
 * none is left. */
bool leati_stream_uses_settle(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                              bool query) LEATI_REQUIRES(pool->lock);

/* Makes stream wait for all of them, and drops them. */
leat_status leati_stream_uses_wait(struct leat_pool *pool, struct leati_block *block, leat_stream *stream)
    LEATI_REQUIRES(pool->lock);
leat_status leati_stream_uses_host_wait(struct leat_pool *pool, struct leati_block *block)
    LEATI_REQUIRES(pool->lock);
void leati_stream_uses_drop(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock);

/* ---- pool.c ---- */

leat_status leati_check_pool(const char *what, const leat_pool *pool);

/* The default pool, made at the first use. */
leat_status leati_pool_get_default(const char *what, leat_device *device, leat_kind kind, leat_pool **pool);

/* The one for blocks of leat's own: the default pool, or one that LEAT_POOL_GUARD does not check, since a checked
 * block's stream is waited for when it is freed. */
leat_status leati_pool_get_own(leat_device *device, leat_kind kind, leat_pool **pool);

/* leat_pool_alloc() for the host; NULL, without a message, when there is no memory. */
void *leati_pool_take(leat_pool *pool, size_t bytes);

/* May the pool hold bytes more? Charges limit and budget, or says why not. */
leat_status leati_pool_charge(struct leat_pool *pool, uint64_t bytes);
void leati_pool_uncharge(struct leat_pool *pool, uint64_t bytes);

/* Takes idle memory from other pools so that pool can grow by bytes; with the pool's lock held. True when any
 * came. */
bool leati_pool_take_from_others(struct leat_pool *pool, uint64_t bytes) LEATI_REQUIRES(pool->lock);

/* The other pools that have a part in what a full pool was refused: those on the same memory of the device, or on
 * the same budget; none where its own limit is in the way. */
struct leati_others {
    uint64_t held_bytes;
    uint64_t most_bytes; /* what one of them holds, the largest */
    char most_name[sizeof((struct leat_pool *)0)->name];
    uint64_t pending_bytes;  /* what was freed in one of them, the most */
    uint64_t pending_stream; /* that uses it */
    char pending_name[sizeof((struct leat_pool *)0)->name];
};

/* With the pool's lock held. A pool that somebody else has locked counts with what it holds. */
void leati_pool_look_at_others(struct leat_pool *pool, struct leati_others *others) LEATI_REQUIRES(pool->lock);

/* ---- full.c: with the pool's lock held ---- */

enum { LEATI_PENDING_STREAMS = 4 };

/* What a pool holds and nobody has. */
struct leati_idle {
    uint64_t bytes, pieces, largest_bytes; /* of which cache's stream could have all now */
    uint64_t pending_bytes;                /* the rest: other streams may still use it */
    unsigned stream_count;
    struct {
        uint64_t serial, bytes; /* serial 0: of which leat knows no stream */
    } streams[LEATI_PENDING_STREAMS];
    uint64_t more_bytes; /* pending on further streams */
};

void leati_full_look(struct leat_pool *pool, const struct leati_stream_cache *cache, struct leati_idle *idle)
    LEATI_REQUIRES(pool->lock);

/* The error for a request of cache's stream that nothing could serve. status and this thread's message: of the
 * last attempt to get new memory. */
leat_status leati_full_explain(struct leat_pool *pool, const struct leati_stream_cache *cache, leat_status status,
                               size_t bytes, size_t alignment) LEATI_REQUIRES(pool->lock);

/* ---- stats.c ---- */

void leati_stats_event(struct leat_pool *pool, leat_pool_action action, const void *ptr, uint64_t bytes,
                       const struct leati_timeline *timeline, uint32_t tag);
uint16_t leati_stats_thread_tag(void);

/* Samples the peak of what is live; with the pool's lock held. */
void leati_stats_sample(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);
leat_status leati_stats_start(struct leat_pool *pool, uint32_t history);
void leati_stats_end(struct leat_pool *pool);

struct leati_strbuf;

/* Who has the pool's live blocks: "12 blocks with 4096 bytes are live, ...". Returns false if there are none. */
bool leati_stats_holders(struct leat_pool *pool, struct leati_strbuf *text) LEATI_REQUIRES(pool->lock);

/* What a pool holds, and who has it, for errors and reports. Returns true if any block is live. */
bool leati_stats_describe(struct leat_pool *pool, char *words, size_t bytes) LEATI_REQUIRES(pool->lock);

/* With LEAT_LEAKS=1, says on standard error what is live when a device is closed. */
void leati_stats_leaks(struct leat_pool *pool);

/* "" for what has no tag. */
const char *leati_stats_tag_name(uint32_t tag);

/* ---- guard.c: checked pools (guard, scrub, stacks, history) ---- */

/* How much is written on either side of a block in guard mode. */
enum { LEATI_GUARD_BYTES = 512 };

/* Returns true if the pool has red zones around its blocks, and a quarantine. Not where another process may write
 * into what it imported. */
static inline bool leati_guarded(const struct leat_pool *pool)
{
    return pool->guard && !pool->exportable;
}

/* What lies in front of a block of this alignment, and how much larger its extent is for red zones. */
size_t leati_guard_front_bytes(const struct leat_pool *pool, size_t alignment);
size_t leati_guard_extra_bytes(const struct leat_pool *pool, size_t alignment);

leat_status leati_guard_start(struct leat_pool *pool);

/* No block has a note any more. */
leat_status leati_guard_end(struct leat_pool *pool);

/* A block was handed out, or is about to be freed; without the pool's lock. After a failure of the first the
 * caller gives the block back, after one of the second it is still the user's. Both may wait for the device. */
leat_status leati_guard_alloc(struct leat_pool *pool, leat_stream *stream, struct leati_block *block);
leat_status leati_guard_free(struct leat_pool *pool, leat_stream *stream, struct leati_block *block);

/* After a failure: waits for what is still done on the pool's own stream. */
void leati_guard_settle(struct leat_pool *pool);

/* Takes a block of a guarded pool that was freed; with the pool's lock held. */
void leati_guard_quarantine(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock);

/* Lets all blocks out of quarantine; with the pool's lock held. True when there were any. */
bool leati_guard_drain_quarantine(struct leat_pool *pool) LEATI_REQUIRES(pool->lock);

/* Forgets what is known of a block. */
void leati_guard_forget(struct leati_block *block);

/* Where the memory around ptr was allocated and freed, for the end of a message; false and "" if that is not
 * known.
 */
bool leati_guard_describe(struct leat_pool *pool, const void *ptr, char *text, size_t bytes);

/* ---- backtraces.c ---- */

/* Adds "stack":[...] to a block's line of a snapshot, if there is one. */
void leati_guard_snapshot(const struct leati_block *block,
                          void (*write)(void *argument, const char *text, size_t bytes), void *argument);

/* Adds the call stack that holds most bytes, where stacks are kept. With the pool's lock held. */
void leati_guard_holders(struct leat_pool *pool, struct leati_strbuf *text) LEATI_REQUIRES(pool->lock);

/* Lists what is live on standard error, by tag and call stack; at the end of a pool. */
void leati_guard_leaks(struct leat_pool *pool);

#endif
