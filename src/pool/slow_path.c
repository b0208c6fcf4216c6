/*
 * slow_path.c - allocates when the thread's magazine has no block, and frees blocks that no magazine keeps.
 *
 * An allocation tries these sources of memory in order. Each costs more than the one before. If all fail, the
 * allocation fails.
 *
 * - idle memory of the stream's own cache or of the host cache
 * - blocks in the stream's magazines
 * - idle memory of streams that this stream is ordered after
 * - blocks in all magazines
 * - idle memory of other streams, if the driver says that its work is complete
 * - new memory, or a stitched block
 * - memory that the stream must wait for
 * - idle memory of other pools
 * - memory that the user's on_full function frees
 */
#include "pool/pool.h"

#include "base/clock.h"
#include "base/lock.h"
#include "pool/track.h"

#include <stdio.h>

enum { RUNS_SCANNED = 256, CALLBACKS_MAX = 64 };

/* One allocation request in progress. */
struct slow_request {
    struct leat_pool *pool;
    struct leati_stream_cache *cache;
    leat_stream *stream; /* NULL: the host */
    size_t bytes, alignment;
    uint8_t heap;
    struct leati_message *refused; /* receives the error message when new memory is refused; NULL: not needed */
    struct leati_message *before;  /* the thread's error message before this request, restored on success */
    bool has_before;
};

/* List of the pools whose on_full functions are running on this thread, the innermost call first. */
struct asking {
    struct leat_pool *pool;
    struct asking *outer;
};

static _Thread_local struct asking *inside_of;

/* ---- back to the heap ---- */

static void add_pending(struct leat_pool *pool, struct leati_block *block)
{
    leati_assert(block->uses && leati_state(block) != LEATI_BLOCK_PENDING);
    leati_set_state(block, LEATI_BLOCK_PENDING);
    block->back = NULL;
    block->link = pool->pending;
    if (block->link)
        block->link->back = block;
    pool->pending = block;
    leati_count(&pool->figures.pending_bytes, leati_bytes(block));
}

static void remove_pending(struct leat_pool *pool, struct leati_block *block)
{
    leati_assert(leati_state(block) == LEATI_BLOCK_PENDING);
    leati_assert(block->back ? block->back->link == block : pool->pending == block);
    if (block->link)
        block->link->back = block->back;
    if (block->back)
        block->back->link = block->link;
    else
        pool->pending = block->link;
    leati_assert(atomic_load_explicit(&pool->figures.pending_bytes, memory_order_relaxed) >= leati_bytes(block));
    atomic_fetch_sub_explicit(&pool->figures.pending_bytes, leati_bytes(block), memory_order_relaxed);
}

void leati_slow_path_free(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                          uint64_t seq)
{
    leati_assert_locked(&pool->lock);
    leati_assert(leati_state(block) != LEATI_BLOCK_LIVE && leati_state(block) != LEATI_BLOCK_FREE);
    block->idle_since_ns = leati_clock_coarse_ns();
    /* The memory stays in the cache of its stream, even if the stream has completed its work. There it can join
     * adjacent idle memory, which usually belongs to the same stream. Also, the places of blocks then do not
     * depend on the speed of the device. */
    if (!cache || !cache->timeline) {
        cache = pool->host;
        seq = 0;
    }
    leati_set_cache(block, cache);
    block->seq = seq;
    if (block->uses && !leati_stream_uses_settle(pool, block, cache, false))
        add_pending(pool, block);
    else
        leati_extent_free(pool, block, cache, block->seq);
}

/* ---- querying completed work ---- */

/* The lowest and the highest seq of idle memory of a cache, counting only memory that work not known to be
 * complete may still use. Both are 0 if there is no such memory. */
struct seqs {
    uint64_t oldest, youngest;
};

static struct seqs seqs_of(struct leati_stream_cache *cache)
{
    struct seqs seqs = {0};

    for (int heap = 0; heap < LEATI_HEAPS && cache->timeline; heap++)
        for (struct leati_block *block = leati_bins_walk(&cache->bins[heap], NULL); block;
             block = leati_bins_walk(&cache->bins[heap], block)) {
            if (leati_timeline_is_complete(cache->timeline, block->seq))
                continue;
            seqs.oldest = seqs.oldest && seqs.oldest < block->seq ? seqs.oldest : block->seq;
            seqs.youngest = block->seq > seqs.youngest ? block->seq : seqs.youngest;
        }
    leati_assert(seqs.oldest <= seqs.youngest);
    return seqs;
}

/* Asks the driver whether the work that may still use a cache's idle memory is complete. Returns true if some of
 * it is. */
static bool ask(struct leat_pool *pool, struct leati_stream_cache *cache)
{
    struct seqs seqs = seqs_of(cache);
    bool some, all;

    if (!seqs.oldest)
        return false;
    /* A failed query counts as not complete. First ask about the oldest work. If it is not complete, the youngest
     * is not either, so no second query is needed. */
    if (leati_timeline_query(cache->timeline, seqs.oldest, &some, &pool->figures.timeline) != LEAT_OK || !some)
        return false;
    (void)leati_timeline_query(cache->timeline, seqs.youngest, &all, &pool->figures.timeline);
    return true;
}

/* Marks idle memory that no pending work uses as inaccessible for memory checkers (track.h). */
static void close_complete(struct leat_pool *pool, struct leati_stream_cache *cache)
{
    if (!LEATI_TRACKS)
        return;
    for (int heap = 0; heap < LEATI_HEAPS; heap++)
        for (struct leati_block *block = leati_bins_walk(&cache->bins[heap], NULL); block;
             block = leati_bins_walk(&cache->bins[heap], block))
            if (leati_usable(block, pool->host))
                leati_track_idle(pool, leati_base(block), leati_bytes(block));
}

/* Moves idle memory that no pending work uses from one cache to another, where it joins adjacent memory. Every
 * stream may use this memory already before the move. Returns true if any memory was moved. */
static bool hand_over(struct leat_pool *pool, struct leati_stream_cache *from, struct leati_stream_cache *to)
    LEATI_REQUIRES(pool->lock)
{
    bool any = false;

    leati_assert(from != to && from->timeline);
    for (int heap = 0; heap < LEATI_HEAPS; heap++) {
        struct leati_block *block = leati_bins_walk(&from->bins[heap], NULL);

        while (block) {
            struct leati_block *next = leati_bins_walk(&from->bins[heap], block);

            if (leati_timeline_is_complete(from->timeline, block->seq)) {
                leati_extent_unbin(pool, block);
                leati_extent_free(pool, block, to, 0);
                any = true;
            }
            block = next;
        }
    }
    return any;
}

static size_t idle_bytes(const struct leati_stream_cache *cache)
{
    return cache->bins[LEATI_HEAP_SMALL].bytes + cache->bins[LEATI_HEAP_LARGE].bytes;
}

/* Moves memory without pending work from one stream's cache to that of the requesting stream, if the requesting
 * stream has at least as much idle memory. Otherwise a stream that sometimes takes a little memory of another
 * stream would fragment the other stream's memory. Memory of a destroyed stream goes to the host cache. Returns
 * true if any memory was moved. */
static bool collect_done(struct leat_pool *pool, struct leati_stream_cache *from,
                         struct leati_stream_cache *asking) LEATI_REQUIRES(pool->lock)
{
    if (!from->stream)
        return hand_over(pool, from, pool->host);
    return asking && asking->timeline && idle_bytes(from) && idle_bytes(from) <= idle_bytes(asking) &&
           hand_over(pool, from, asking);
}

/* Moves pending blocks whose stream uses are all complete to the heap. If a block was freed on cache's stream,
 * uses that this stream is ordered after count as complete. query: asks the driver about uses that are not known
 * to be complete. Returns true if any block was moved. */
static bool settle_pending(struct leat_pool *pool, struct leati_stream_cache *cache, bool query)
    LEATI_REQUIRES(pool->lock)
{
    struct leati_block *block = pool->pending, *next;
    bool any = false;

    for (; block; block = next) {
        next = block->link;
        if (!leati_stream_uses_settle(pool, block, cache == block->cache ? cache : NULL, query))
            continue;
        remove_pending(pool, block);
        leati_extent_free(pool, block, block->cache, block->seq);
        any = true;
    }
    return any;
}

void leati_slow_path_settle(struct leat_pool *pool)
{
    leati_assert_locked(&pool->lock);
    settle_pending(pool, NULL, true);
}

bool leati_slow_path_poll(struct leat_pool *pool, struct leati_stream_cache *asking)
{
    bool any = settle_pending(pool, NULL, true), done;

    leati_assert_locked(&pool->lock);
    for (struct leati_stream_cache *cache = pool->caches; cache; cache = cache->next) {
        if (cache == asking || !cache->timeline)
            continue;
        any |= ask(pool, cache);
        close_complete(pool, cache);
        any |= collect_done(pool, cache, asking);
    }
    for (struct leati_block *block = pool->stale; block; block = block->link)
        if (block->cache->timeline)
            (void)leati_timeline_query(block->cache->timeline, block->seq, &done, &pool->figures.timeline);
    leati_pages_settle(pool);
    return any;
}

/* ---- finding idle memory ---- */

/* Finds an idle extent of cache that fits the request. usable: accepts only memory that the requesting stream may
 * use now. */
static struct leati_block *fit_in(struct slow_request *request, struct leati_stream_cache *cache, bool usable)
{
    return leati_bins_fit(&cache->bins[request->heap], request->bytes, request->alignment,
                          request->pool->dedicated, usable ? request->cache : NULL);
}

/* Finds the best extent in the stream's own cache and the best in the host cache, and returns the smaller one. */
static struct leati_block *fit_own(struct slow_request *request)
{
    struct leati_block *own =
        request->cache != request->pool->host ? fit_in(request, request->cache, false) : NULL;
    struct leati_block *common = fit_in(request, request->pool->host, false);

    if (own && common)
        return leati_bytes(common) < leati_bytes(own) ? common : own;
    return own ? own : common;
}

static bool is_others(const struct slow_request *request, const struct leati_stream_cache *cache)
{
    return cache != request->cache && cache->timeline;
}

/* Finds idle memory of another stream that the requesting stream may use now, because it is ordered after the work
 * that used the memory, or because that work is known to be complete. */
static struct leati_block *fit_ordered(struct slow_request *request)
{
    for (struct leati_stream_cache *cache = request->pool->caches; cache; cache = cache->next) {
        struct leati_block *block = is_others(request, cache) ? fit_in(request, cache, true) : NULL;

        if (block)
            return block;
    }
    return NULL;
}

/* Finds the run of adjacent idle extents around block, of any caches, that the stream may use now. If the run has
 * room for the request, joins its extents to one and returns it; else returns NULL. */
static struct leati_block *join_run(struct slow_request *request, struct leati_block *block)
    LEATI_REQUIRES(request->pool->lock)
{
    struct leati_block *first = block, *last = block;
    uintptr_t base;

    while (leati_is_idle_for(first->before, request->cache))
        first = first->before;
    while (leati_is_idle_for(last->after, request->cache))
        last = last->after;
    base = (leati_base(first) + request->alignment - 1) & ~(uintptr_t)(request->alignment - 1);
    if (first == last || base + request->bytes > leati_base(last) + leati_bytes(last))
        return NULL;
    leati_extent_unbin(request->pool, first);
    while (first != last) {
        struct leati_block *next = first->after;

        leati_extent_unbin(request->pool, next);
        if (next == last)
            last = first;
        leati_extent_join(request->pool, first, next);
    }
    /* Later work of this stream is ordered after all earlier uses of the memory. Other streams must wait as if
     * this stream had freed the memory now, so set seq to its current sequence number. */
    leati_set_cache(first, request->cache);
    first->seq = request->cache->timeline ? leati_timeline_now(request->cache->timeline) : 0;
    leati_bins_add(&first->cache->bins[first->heap], first);
    return first;
}

/* Calls join_run() for extents of one cache until it succeeds. *scanned counts the extents over all caches. */
static struct leati_block *fit_run_of(struct slow_request *request, struct leati_stream_cache *cache,
                                      unsigned *scanned) LEATI_REQUIRES(request->pool->lock)
{
    for (struct leati_block *block = leati_bins_walk(&cache->bins[request->heap], NULL);
         block && (*scanned)++ < RUNS_SCANNED; block = leati_bins_walk(&cache->bins[request->heap], block)) {
        struct leati_block *joined = leati_is_idle_for(block, request->cache) ? join_run(request, block) : NULL;

        if (joined)
            return joined;
    }
    return NULL;
}

static struct leati_block *fit_run(struct slow_request *request) LEATI_REQUIRES(request->pool->lock)
{
    struct leat_pool *pool = request->pool;
    struct leati_block *joined = NULL;
    unsigned scanned = 0;

    if (pool->dedicated)
        return NULL;
    joined = fit_run_of(request, request->cache, &scanned);
    for (struct leati_stream_cache *cache = pool->caches; cache && !joined; cache = cache->next)
        if (cache != request->cache)
            joined = fit_run_of(request, cache, &scanned);
    return joined;
}

static struct leati_block *fit_any(struct slow_request *request) LEATI_REQUIRES(request->pool->lock)
{
    struct leati_block *block = fit_own(request);

    if (!block)
        block = fit_ordered(request);
    return block ? block : fit_run(request);
}

/* ---- making the stream wait ---- */

/* Makes the requesting stream wait for the stream uses of a pending block, and moves the block to its cache. */
static leat_status wait_pending(struct slow_request *request, struct leati_block *block)
    LEATI_REQUIRES(request->pool->lock)
{
    struct leati_timeline *timeline = block->cache->timeline;

    LEATI_TRY(leati_stream_uses_wait(request->pool, block, request->stream));
    if (timeline && !leati_timeline_is_complete(timeline, block->seq) &&
        !leati_timeline_is_ordered_after(request->stream->timeline, timeline, block->seq))
        LEATI_TRY(leati_timeline_wait(request->stream->timeline, timeline, block->seq,
                                      &request->pool->figures.timeline));
    /* Only now: if a wait fails, the block keeps all its uses, because its own stream has waited for none. */
    leati_stream_uses_drop(request->pool, block);
    remove_pending(request->pool, block);
    leati_extent_free(request->pool, block, request->cache, leati_timeline_now(request->stream->timeline));
    return LEAT_OK;
}

/* Finds one extent of another stream, or one pending block, that is large enough, and makes the requesting stream
 * wait for the work that uses it. */
static struct leati_block *fit_waiting(struct slow_request *request) LEATI_REQUIRES(request->pool->lock)
{
    struct leat_pool *pool = request->pool;

    if (!request->stream || request->stream->timeline->per_thread)
        return NULL;
    for (struct leati_stream_cache *cache = pool->caches; cache; cache = cache->next) {
        struct leati_block *block = is_others(request, cache) ? fit_in(request, cache, false) : NULL;

        if (block && (leati_usable(block, request->cache) ||
                      leati_timeline_wait(request->stream->timeline, cache->timeline, block->seq,
                                          &pool->figures.timeline) == LEAT_OK))
            return block;
    }
    for (struct leati_block *block = pool->pending; block; block = block->link)
        if (block->heap == request->heap && leati_bytes(block) >= request->bytes &&
            (!pool->dedicated || leati_bytes(block) == request->bytes))
            return wait_pending(request, block) == LEAT_OK ? fit_own(request) : NULL;
    return NULL;
}

/* Moves all idle memory of a cache to the cache of the requesting stream, which must be ordered after the work
 * that uses the memory. */
static void take_over(struct slow_request *request, struct leati_stream_cache *cache)
    LEATI_REQUIRES(request->pool->lock)
{
    for (int heap = 0; heap < LEATI_HEAPS; heap++) {
        struct leati_block *block = leati_bins_walk(&cache->bins[heap], NULL), *next;

        for (; block; block = next) {
            next = leati_bins_walk(&cache->bins[heap], block);
            leati_extent_unbin(request->pool, block);
            leati_extent_free(request->pool, block, request->cache, leati_timeline_now(request->cache->timeline));
        }
    }
}

/* Makes the requesting stream wait for all work of other streams that may still use freed memory, including spare
 * handles, so that the stream can reuse all of this memory. */
static void wait_for_all(struct slow_request *request) LEATI_REQUIRES(request->pool->lock)
{
    struct leat_pool *pool = request->pool;
    struct leati_block *next;

    if (!request->stream || request->stream->timeline->per_thread)
        return;
    for (struct leati_block *block = pool->pending; block; block = next) {
        next = block->link;
        (void)wait_pending(request, block);
    }
    for (struct leati_physical *spare = pool->spare; spare; spare = spare->next)
        if (spare->cache && !leati_usable_by(spare->cache, spare->seq, request->cache))
            (void)leati_timeline_wait(request->stream->timeline, spare->cache->timeline, spare->seq,
                                      &pool->figures.timeline);
    for (struct leati_stream_cache *cache = pool->caches; cache; cache = cache->next) {
        uint64_t seq = is_others(request, cache) ? seqs_of(cache).youngest : 0;

        cache->is_waited_for =
            seq && (leati_timeline_is_ordered_after(request->cache->timeline, cache->timeline, seq) ||
                    leati_timeline_wait(request->stream->timeline, cache->timeline, seq,
                                        &pool->figures.timeline) == LEAT_OK);
    }
    /* A timeline remembers only a few waits. If it has already forgotten the wait for a cache's stream, move the
     * memory of that cache to the requesting stream's cache. */
    for (struct leati_stream_cache *cache = pool->caches; cache; cache = cache->next)
        if (cache->is_waited_for &&
            !leati_timeline_is_ordered_after(request->cache->timeline, cache->timeline, seqs_of(cache).youngest))
            take_over(request, cache);
}

leat_status leati_slow_path_finish(struct leat_pool *pool)
{
    leat_status first = LEAT_OK, status;
    struct leati_block *next;

    leati_assert_locked(&pool->lock);
    for (struct leati_block *block = pool->pending; block; block = next) {
        next = block->link;
        status = leati_stream_uses_host_wait(pool, block);
        first = first != LEAT_OK ? first : status;
        if (status != LEAT_OK)
            continue;
        remove_pending(pool, block);
        leati_extent_free(pool, block, block->cache, block->seq);
    }
    for (struct leati_stream_cache *cache = pool->caches; cache; cache = cache->next) {
        uint64_t seq = seqs_of(cache).youngest;

        if (seq) {
            status = leati_timeline_host_wait(cache->timeline, seq, &pool->figures.timeline);
            first = first != LEAT_OK ? first : status;
        }
        if (cache->timeline)
            collect_done(pool, cache, NULL);
    }
    status = leati_pool_plan_finish(pool);
    first = first != LEAT_OK ? first : status;
    for (struct leati_block *block = pool->stale; block; block = block->link)
        if (block->cache->timeline) {
            status = leati_timeline_host_wait(block->cache->timeline, block->seq, &pool->figures.timeline);
            first = first != LEAT_OK ? first : status;
        }
    leati_pages_settle(pool);
    return first;
}

/* ---- the fallbacks in order ---- */

/* Tries the fallbacks that find memory which is already idle. */
static struct leati_block *alloc_from_idle(struct slow_request *request) LEATI_REQUIRES(request->pool->lock)
{
    struct leat_pool *pool = request->pool;
    struct leati_block *block = NULL;
    bool more;

    leati_assert_locked(&pool->lock);

    /* First return the large blocks in the stream's magazines to the heap, where they join adjacent idle memory. A
     * request that used one of the pieces would fragment the memory. Return the many small blocks only if the heap
     * has nothing that fits. */
    if (request->heap == LEATI_HEAP_LARGE)
        leati_stream_cache_drain_large(request->cache);
    block = fit_own(request);
    if (!block && request->heap == LEATI_HEAP_SMALL && leati_stream_cache_drain(request->cache))
        block = fit_own(request);
    if (!block)
        block = fit_ordered(request);
    if (!block)
        block = fit_run(request);
    if (block)
        return block;
    /* Nothing fits, so now draining all magazines and querying the driver is worth its cost. */
    more = leati_stream_caches_drain(pool);
    more |= settle_pending(pool, request->cache, false);
    if (pool->reuse_flags & LEAT_POOL_REUSE_METHOD_FINISHED) {
        more |= leati_slow_path_poll(pool, request->cache);
    } else {
        /* Without LEAT_POOL_REUSE_METHOD_FINISHED a stream may not use memory because another stream has completed
         * its work. So only move pending blocks back to the streams that freed them, and unmap stale addresses. */
        more |= settle_pending(pool, NULL, true);
        leati_pages_settle(pool);
    }
    if (more)
        block = fit_any(request);
    if (!block && pool->reuse == LEAT_POOL_REUSE_WAIT && (pool->reuse_flags & LEAT_POOL_REUSE_METHOD_WAITING))
        block = fit_waiting(request);
    return block;
}

static bool is_full(leat_status status)
{
    return status == LEAT_ERROR_DEVICE_MEMORY || status == LEAT_ERROR_HOST_MEMORY;
}

static leat_status provide(struct slow_request *request, struct leati_block **block)
    LEATI_REQUIRES(request->pool->lock)
{
    leat_status status =
        leati_pages_provide(request->pool, request->cache, request->bytes, request->alignment, block);

    if (is_full(status) && request->refused)
        leati_error_keep(request->refused);
    if (status != LEAT_OK || (*block)->stitch)
        return status;
    if (leati_usable(*block, request->pool->host))
        leati_track_idle(request->pool, leati_base(*block), leati_bytes(*block));
    leati_bins_add(&(*block)->cache->bins[(*block)->heap], *block);
    return LEAT_OK;
}

/* Returns true if the pool can make stitched blocks. */
static bool can_stitch(const struct leat_pool *pool)
{
    return pool->virtual_memory && !pool->dedicated && pool->packing != LEAT_POOL_PACKING_STILL;
}

/* In a pool that cannot stitch, idle memory in pieces that are too small does not help. Releases such memory to
 * the driver, then asks for new memory. */
static bool provide_smaller(struct slow_request *request, struct leati_block **block)
    LEATI_REQUIRES(request->pool->lock)
{
    uint64_t released, pending;

    return !can_stitch(request->pool) &&
           leati_pages_trim(request->pool, 0, UINT64_MAX, &released, &pending) == LEAT_OK && released &&
           provide(request, block) == LEAT_OK;
}

/* Releases the memory of unused planned blocks to the driver, then asks for new memory. */
static bool provide_from_plan(struct slow_request *request, struct leati_block **block)
    LEATI_REQUIRES(request->pool->lock)
{
    uint64_t held_bytes = atomic_load_explicit(&request->pool->figures.reserved_bytes, memory_order_relaxed);
    uint64_t released_bytes = 0;

    return leati_pool_plan_trim(request->pool, held_bytes > request->bytes ? held_bytes - request->bytes : 0,
                                &released_bytes) == LEAT_OK &&
           released_bytes && provide(request, block) == LEAT_OK;
}

/* Serves a small request when the heap of small blocks cannot get another page. Takes the block from the heap of
 * large blocks, with the smallest size of large blocks. */
static bool fit_as_large(struct slow_request *request, struct leati_block **block)
    LEATI_REQUIRES(request->pool->lock)
{
    size_t bytes = request->bytes;

    if (request->heap == LEATI_HEAP_LARGE)
        return false;
    request->heap = LEATI_HEAP_LARGE;
    request->bytes = LEATI_LARGE_BYTES;
    *block = fit_any(request);
    if (*block)
        return true;
    request->heap = LEATI_HEAP_SMALL;
    request->bytes = bytes;
    return false;
}

/* Makes the requesting stream wait for all work that may still use freed memory, and tries the request again. */
static bool fit_after_waiting(struct slow_request *request, struct leati_block **block)
    LEATI_REQUIRES(request->pool->lock)
{
    struct leat_pool *pool = request->pool;
    uint32_t reuse_flags = pool->reuse_flags;
    bool found;

    wait_for_all(request);
    /* These waits order the stream after that work. So allow reuse by order for this attempt, even if the user has
     * disabled it for the program's own waits. */
    pool->reuse_flags |= LEAT_POOL_REUSE_METHOD_ORDERED;
    found = (*block = fit_any(request)) || provide(request, block) == LEAT_OK;
    pool->reuse_flags = reuse_flags;
    return found;
}

/* Tries the fallbacks for the case that neither idle memory nor the driver has enough. Returns true if one of them
 * produced the block, or an extent that has room for it. */
static bool fit_when_full(struct slow_request *request, struct leati_block **block)
    LEATI_REQUIRES(request->pool->lock)
{
    struct leat_pool *pool = request->pool;
    bool may_wait = pool->reuse_flags & LEAT_POOL_REUSE_METHOD_WAITING;

    leati_assert_locked(&pool->lock);

    /* In guard mode, first release the freed blocks that are in quarantine. */
    if (leati_guard_drain_quarantine(pool) && ((*block = fit_any(request)) || provide(request, block) == LEAT_OK))
        return true;
    if (may_wait && pool->reuse != LEAT_POOL_REUSE_WAIT_NEVER && fit_after_waiting(request, block))
        return true;
    if (fit_as_large(request, block) || provide_smaller(request, block) || provide_from_plan(request, block))
        return true;
    if (leati_pool_take_from_others(pool, request->bytes) && provide(request, block) == LEAT_OK)
        return true;
    /* The last resort is to wait on the host. Skip it if waiting is not allowed. Also skip it if it cannot help,
     * because fit_after_waiting() has made all freed memory usable and stitching can combine it. */
    if (!may_wait || (request->stream && !request->stream->timeline->per_thread &&
                      pool->reuse != LEAT_POOL_REUSE_WAIT_NEVER && can_stitch(pool) && !pool->plan))
        return false;
    (void)leati_slow_path_finish(pool);
    return (*block = fit_any(request)) || provide(request, block) == LEAT_OK || fit_as_large(request, block) ||
           provide_smaller(request, block) || provide_from_plan(request, block);
}

/* Tries fit_when_full() after new memory was refused with status. If it fails too, returns status and sets this
 * thread's error message to that of the last attempt to get new memory. */
static leat_status alloc_when_full(struct slow_request *request, leat_status status, struct leati_block **block)
    LEATI_REQUIRES(request->pool->lock)
{
    struct leati_message refused;
    bool found;

    leati_error_keep(&refused);
    request->refused = &refused;
    found = fit_when_full(request, block);
    request->refused = NULL;
    return found ? LEAT_OK : leati_error_restore(status, &refused);
}

/* Cuts the requested block out of an idle extent, and enters it into the table of blocks. */
static leat_status carve(struct slow_request *request, struct leati_block *block)
    LEATI_REQUIRES(request->pool->lock)
{
    leat_status status = LEAT_OK;
    uintptr_t base;

    if (block->stitch) {
        leati_blocks_enter(block, false);
        return LEAT_OK;
    }
    base = leati_pages_place(request->pool, block, request->bytes, request->alignment);
    leati_extent_unbin(request->pool, block);
    if (!block->whole)
        status = leati_extent_cut(request->pool, block, base, request->bytes);
    if (status != LEAT_OK) {
        leati_bins_add(&block->cache->bins[block->heap], block);
        return status;
    }
    leati_blocks_enter(block, block->heap == LEATI_HEAP_SMALL);
    return LEAT_OK;
}

/* Takes a block of exactly this size from another magazine of the stream's cache or of the host cache. */
static struct leati_block *steal(struct slow_request *request)
{
    struct leati_block *block;

    if (request->alignment > LEATI_GRANULE_BYTES)
        return NULL;
    block = leati_stream_cache_steal(request->cache, leati_magazine_of(request->cache, true), request->bytes);
    return block || request->cache == request->pool->host
               ? block
               : leati_stream_cache_steal(request->pool->host, NULL, request->bytes);
}

/* Gets new memory. If there is none, tries the fallbacks for a full pool. */
static leat_status alloc_new(struct slow_request *request, struct leati_block **block)
    LEATI_REQUIRES(request->pool->lock)
{
    leat_status status;

    if (!request->has_before)
        leati_error_keep(request->before);
    request->has_before = true;
    status = provide(request, block);
    return is_full(status) ? alloc_when_full(request, status, block) : status;
}

/* Makes one attempt to serve the request: by a block from another magazine, by idle memory, or by new memory. */
static leat_status alloc_once(struct slow_request *request, struct leati_block **block)
    LEATI_REQUIRES(request->pool->lock)
{
    leat_status status = LEAT_OK;

    *block = steal(request);
    if (*block)
        return LEAT_OK;
    leati_error_quiet_begin();
    *block = alloc_from_idle(request);
    leati_error_quiet_end();
    if (!*block)
        status = alloc_new(request, block);
    return status == LEAT_OK ? carve(request, *block) : status;
}

/* Calls the user's on_full function with the pool's lock released. Returns true if the request should be tried
 * again. The function may allocate from the same pool. If such an inner allocation finds the pool full too, it
 * does not call the function again. */
static bool poll_use(struct leat_pool *pool, size_t bytes) LEATI_REQUIRES(pool->lock)
{
    leat_pool_full_function function = pool->on_full;
    void *argument = pool->on_full_argument;
    struct asking asking = {.pool = pool, .outer = inside_of};
    struct leati_hearing hearing;
    bool made_room;

    for (struct asking *outer = inside_of; outer; outer = outer->outer)
        if (outer->pool == pool)
            return false;
    if (!function)
        return false;
    leati_count(&pool->figures.callbacks, 1);
    leati_unlock(&pool->lock);
    inside_of = &asking;
    /* Failures inside the function must not overwrite the error message of this request. */
    leati_error_hear_begin(&hearing);
    made_room = function(argument, pool, bytes) != 0;
    leati_error_hear_end(&hearing);
    inside_of = asking.outer;
    leati_lock(&pool->lock);
    return made_room;
}

/* Counts a failed request and writes its error message. */
static leat_status fail(const struct slow_request *request, leat_status status) LEATI_REQUIRES(request->pool->lock)
{
    struct leat_pool *pool = request->pool;

    leati_assert_locked(&pool->lock);
    leati_count(&pool->figures.failures, 1);
    leati_stats_event(pool, LEAT_POOL_ACTION_FULL, NULL, request->bytes, NULL, 0);
    if (!is_full(status))
        return status;
    /* Release the spare handles that were collected for this request, so that other pools can use the memory. */
    (void)LEATI_QUIETLY(leati_pages_drop_spare(pool));
    return leati_full_explain(pool, request->cache, status, request->bytes, request->alignment);
}

/* Releases idle memory while the pool holds more than its soft limit. */
static void keep_soft_limit(struct leat_pool *pool) LEATI_REQUIRES(pool->lock)
{
    uint64_t soft_bytes = atomic_load_explicit(&pool->soft_limit_bytes, memory_order_relaxed), released, pending;

    if (!soft_bytes || atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed) <= soft_bytes)
        return;
    leati_guard_drain_quarantine(pool);
    (void)LEATI_QUIETLY(leati_pages_trim(pool, soft_bytes, UINT64_MAX, &released, &pending));
}

leat_status leati_slow_path_alloc(struct leat_pool *pool, leat_stream *stream, size_t bytes,
                                  size_t requested_bytes, size_t alignment, struct leati_block **block)
{
    struct leati_message before;
    struct slow_request request = {
        .pool = pool, .stream = stream, .bytes = bytes, .alignment = alignment, .before = &before};
    leat_status status;

    request.heap = bytes >= LEATI_LARGE_BYTES ? LEATI_HEAP_LARGE : LEATI_HEAP_SMALL;
    if (pool->dedicated) {
        request.bytes = leati_round_up(bytes, LEATI_PAGE_BYTES);
        request.heap = LEATI_HEAP_LARGE;
    }
    leati_lock(&pool->lock);
    request.cache = leati_stream_cache_get(pool, stream);
    if (!request.cache) {
        leati_unlock(&pool->lock);
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (per-stream pool state)");
    }
    /* A per-thread stream is a different stream in each thread, so it has no order of its own. Its frees go to the
     * host cache, and its requests use the host cache too. */
    if (stream && stream->timeline->per_thread)
        request.cache = pool->host;
    for (unsigned asked_times = 0;; asked_times++) {
        pool->refusal = LEATI_REFUSED_NOT;
        leati_assert_locked(&request.pool->lock);
        status = alloc_once(&request, block);
        if (!is_full(status) || asked_times >= CALLBACKS_MAX || !poll_use(pool, bytes))
            break;
    }
    if (status == LEAT_OK && request.has_before)
        leati_error_restore(status, &before);
    if (status == LEAT_OK) {
        struct leati_magazine *magazine = leati_magazine_of(request.cache, true);
        bool clean = leati_usable(*block, pool->host);

        /* Set seq so that earlier uses of the memory are over when the stream has completed its work up to seq; 0
         * if they are over now. If another stream frees the block, add_origin() of alloc.c makes it wait for that
         * work. */
        if (clean)
            (*block)->seq = 0;
        else if ((*block)->cache != request.cache)
            (*block)->seq = request.cache->timeline ? leati_timeline_now(request.cache->timeline) : 0;
        leati_set_cache((*block), request.cache);
        (*block)->tag = leati_stats_thread_tag();
        atomic_store_explicit(&(*block)->requested_bytes, requested_bytes, memory_order_relaxed);
        atomic_store_explicit(&(*block)->magazine, magazine, memory_order_relaxed);
        atomic_store_explicit(&(*block)->front_bytes, (uint32_t)leati_guard_front_bytes(pool, alignment),
                              memory_order_relaxed);
        leati_track_live(pool, *block, clean);
        if (magazine) {
            leati_magazine_lock(magazine);
            leati_magazine_count_alloc(magazine, *block, false);
            leati_magazine_unlock(magazine);
        }
        leati_set_state(*block, LEATI_BLOCK_LIVE);
        leati_stats_sample(pool);
        keep_soft_limit(pool);
    } else {
        status = fail(&request, status);
    }
    leati_unlock(&pool->lock);
    return status;
}
