/*
 * alloc.c - defines the API calls that allocate and free, and their fast path.
 *
 * In the steady state a program frees and allocates the same sizes on the same streams. Then a block only moves
 * between the user and a magazine of the stream's cache. This costs a few checks and one lock of one byte, but no
 * driver call, no memory allocation and no other lock.
 */
#include "base/lock.h"
#include "pool/pool.h"
#include "pool/track.h"

#define ALIGNMENT_MAX ((size_t)1 << 30)
#define BYTES_MAX ((size_t)1 << 60)

/* ---- recording ---- */

/* Returns the number that identifies the stream in recordings; 0 stands for the host. */
static uint64_t serial_of(const leat_stream *stream)
{
    return stream ? stream->timeline->serial : 0;
}

/* Records a free for the recorder of allocations. Call when the free can no longer fail, but before another thread
 * can get the block. */
static void record_free(const leat_stream *stream, struct leati_block *block)
{
    uint64_t serial;

    if (!leati_recorded() || !block->serial)
        return;
    serial = block->serial;
    block->serial = 0;
    LEATI_RECORD(.op = LEATI_RECORD_FREE, .block = serial, .bytes = leati_requested(block),
                 .stream = serial_of(stream));
}

/* ---- allocating ---- */

static leat_status fail_alloc(const char *what, leat_status status, const leat_pool *pool, size_t bytes)
{
    return leati_fail_in(status, "%s of %zu bytes from %s on %s", what, bytes, pool->name, pool->device->name);
}

/* The fast path: takes a block of exactly bytes from this thread's magazine and makes it LIVE. Returns NULL if the
 * magazine has none. If another thread holds the magazine's lock, also returns NULL, so that the caller takes the
 * slow path instead of spinning. */
static inline struct leati_block *take_cached(struct leat_pool *pool, leat_stream *stream, size_t bytes,
                                              size_t requested_bytes)
{
    struct leati_stream_cache *cache = leati_stream_cache_find(pool, stream);
    struct leati_magazine *magazine = cache ? leati_magazine_of(cache, false) : NULL;
    struct leati_block *block;

    if (!magazine || pool->checked || !leati_magazine_try(magazine))
        return NULL;
    block = leati_magazine_pop(magazine, bytes);
    if (block) {
        block->tag = leati_stats_thread_tag();
        atomic_store_explicit(&block->magazine, magazine, memory_order_relaxed);
        atomic_store_explicit(&block->requested_bytes, requested_bytes, memory_order_relaxed);
        leati_magazine_count_alloc(magazine, block, true);
        leati_track_live(pool, block, !cache->timeline);
        leati_set_state(block, LEATI_BLOCK_LIVE);
    }
    leati_magazine_unlock(magazine);
    return block;
}

/* Returns a LIVE block at the place that the pool's plan has for the request, or NULL if the plan has no place. */
static struct leati_block *take_planned(struct leat_pool *pool, leat_stream *stream, size_t bytes,
                                        size_t requested_bytes)
{
    struct leati_stream_cache *cache = leati_stream_cache_find(pool, stream);

    if (stream->timeline->per_thread)
        return NULL;
    if (!cache) {
        leati_lock(&pool->lock);
        cache = leati_stream_cache_get(pool, stream);
        leati_unlock(&pool->lock);
    }
    return cache ? leati_pool_plan_take(pool, cache, bytes, requested_bytes) : NULL;
}

/* Returns the size of the block for a request, without red zones. */
static inline size_t block_bytes(const struct leat_pool *pool, size_t rounded_bytes)
{
    return pool->dedicated ? leati_round_up(rounded_bytes, LEATI_PAGE_BYTES) : rounded_bytes;
}

/* Frees a new block instead of returning it to the user, because preparing it failed. */
static void give_back(struct leat_pool *pool, leat_stream *stream, struct leati_block *block)
{
    struct leati_driver *driver = pool->device->driver;
    struct leati_stream_cache *cache;
    struct leati_magazine *magazine;

    leati_error_quiet_begin();
    /* The host and a per-thread stream have no sequence numbers, so the free cannot be deferred. Wait here for the
     * work that prepared the block. */
    if (!stream)
        leati_guard_settle(pool);
    else if (stream->timeline->per_thread)
        (void)driver->ops->stream_synchronize(driver, stream->native);
    leati_lock(&pool->lock);
    cache = block->cache;
    leati_assert(cache && cache->pool == pool && leati_state(block) == LEATI_BLOCK_LIVE);
    magazine = leati_magazine_of(cache, true);
    leati_set_state(block, LEATI_BLOCK_LEAVING);
    if (magazine) {
        leati_magazine_lock(magazine);
        leati_magazine_count_free(magazine, block);
        leati_magazine_unlock(magazine);
    }
    leati_count(&pool->figures.failures, 1);
    leati_slow_path_free(pool, block, cache, cache->timeline ? leati_timeline_now(cache->timeline) : 0);
    leati_unlock(&pool->lock);
    leati_error_quiet_end();
}

static inline leat_status alloc_unrecorded(const char *what, struct leat_pool *pool, leat_stream *stream,
                                           size_t bytes, size_t alignment, void **ptr)
{
    size_t rounded_bytes = leati_round_up(bytes, LEATI_GRANULE_BYTES);
    struct leati_block *block = NULL;
    leat_status status;

    /* BYTES_MAX is larger than any device memory, and small enough that the sums below cannot overflow. */
    if (rounded_bytes < bytes || rounded_bytes > BYTES_MAX)
        rounded_bytes = BYTES_MAX;
    else if (alignment <= LEATI_GRANULE_BYTES && pool->plan && rounded_bytes >= LEATI_LARGE_BYTES && stream)
        block = take_planned(pool, stream, rounded_bytes, bytes);
    if (!block && alignment <= LEATI_GRANULE_BYTES)
        block = take_cached(pool, stream, block_bytes(pool, rounded_bytes), bytes);
    if (!block) {
        status =
            leati_slow_path_alloc(pool, stream, rounded_bytes + leati_guard_extra_bytes(pool, alignment), bytes,
                                  alignment < LEATI_GRANULE_BYTES ? LEATI_GRANULE_BYTES : alignment, &block);
        if (status != LEAT_OK)
            return fail_alloc(what, status, pool, bytes);
        if (pool->checked) {
            status = leati_guard_alloc(pool, stream, block);
            if (status != LEAT_OK) {
                give_back(pool, stream, block);
                return fail_alloc(what, status, pool, bytes);
            }
        }
    }
    leati_assert(!((uintptr_t)leati_user_base(block) & (alignment > LEATI_GRANULE_BYTES ? alignment - 1 : 0)));
    leati_assert(leati_requested(block) == bytes && leati_bytes(block) >= bytes);
    *ptr = (void *)leati_user_base(block);
    return LEAT_OK;
}

/* Like alloc_unrecorded(), but records the allocation. */
__attribute__((noinline)) static leat_status alloc_recorded(const char *what, struct leat_pool *pool,
                                                            leat_stream *stream, size_t bytes, size_t alignment,
                                                            void **ptr)
{
    leat_status status = alloc_unrecorded(what, pool, stream, bytes, alignment, ptr);
    struct leati_block *block;
    struct leat_pool *found;

    if (status != LEAT_OK) {
        LEATI_RECORD(.op = LEATI_RECORD_ALLOC_FAILED, .bytes = bytes, .stream = serial_of(stream),
                     .pool = pool->serial, .alignment = alignment);
        return status;
    }
    block = leati_block_find(*ptr, &found);
    leati_assert(block && found == pool && leati_state(block) == LEATI_BLOCK_LIVE);
    block->serial = leati_record_serial();
    LEATI_RECORD(.op = LEATI_RECORD_ALLOC, .block = block->serial, .bytes = bytes, .stream = serial_of(stream),
                 .pool = pool->serial, .alignment = alignment);
    return LEAT_OK;
}

static struct leati_traced_stream *traced_of(const struct leat_pool *pool, leat_stream *stream)
{
    return stream ? &stream->traced : &pool->device->traced_calls;
}

/* Describes an allocation to the trace. */
__attribute__((noinline)) static void span_alloc(const struct leat_pool *pool, leat_stream *stream, size_t bytes,
                                                 const void *ptr)
{
    leati_span_stream(traced_of(pool, stream));
    leati_span_bytes(bytes, ptr);
    leati_span_kinds(LEATI_TRACE_MEMORY_NONE, leati_span_kind(pool->kind));
    leati_span_tag(leati_stats_tag_name(leati_stats_thread_tag()));
}

/* Describes a free to the trace, before it is made. */
__attribute__((noinline)) static void span_free(leat_stream *stream, const void *ptr)
{
    struct leat_pool *pool;
    const struct leati_block *block = leati_block_find(ptr, &pool);

    leati_span_bytes(block ? leati_requested(block) : 0, ptr);
    if (!block)
        return;
    leati_span_stream(traced_of(pool, stream));
    leati_span_kinds(LEATI_TRACE_MEMORY_NONE, leati_span_kind(pool->kind));
}

static leat_status alloc_from(const char *what, struct leat_pool *pool, leat_stream *stream, size_t bytes,
                              size_t alignment, void **ptr)
{
    leat_status status = leati_recorded() ? alloc_recorded(what, pool, stream, bytes, alignment, ptr)
                                          : alloc_unrecorded(what, pool, stream, bytes, alignment, ptr);

    if (leati_traced())
        span_alloc(pool, stream, bytes, status == LEAT_OK ? *ptr : NULL);
    return status;
}

static leat_status alloc_default(const char *what, leat_device *device, leat_kind kind, leat_stream *stream,
                                 size_t bytes, void **ptr)
{
    /* Acquire: pairs with the release in get() of pool.c. */
    struct leat_pool *pool = atomic_load_explicit(&device->default_pools[kind], memory_order_acquire);

    if (!pool)
        LEATI_TRY(leati_pool_get_default(what, device, kind, &pool));
    return alloc_from(what, pool, stream, bytes, 0, ptr);
}

leat_status leat_alloc(leat_stream *stream, size_t bytes, void **ptr)
{
    LEATI_SPAN(LEATI_TRACE_ALLOC, "leat_alloc");
    LEATI_TRY(leati_check_permitted("leat_alloc"));
    LEATI_TRY(leati_check_stream("leat_alloc", stream));
    LEATI_TRY(leati_check_not_null("leat_alloc", "ptr", ptr));
    if (!bytes) {
        *ptr = NULL;
        return LEAT_OK;
    }
    return alloc_default("leat_alloc", stream->device, LEAT_KIND_DEVICE, stream, bytes, ptr);
}

leat_status leat_memory_alloc(leat_device *device, leat_kind kind, size_t bytes, void **ptr)
{
    LEATI_SPAN(LEATI_TRACE_ALLOC, "leat_memory_alloc");
    LEATI_TRY(leati_check_permitted("leat_memory_alloc"));
    LEATI_TRY(leati_check_device("leat_memory_alloc", device));
    LEATI_TRY(leati_check_not_null("leat_memory_alloc", "ptr", ptr));
    if (kind != LEAT_KIND_DEVICE && kind != LEAT_KIND_PINNED && kind != LEAT_KIND_MANAGED)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "leat_memory_alloc: kind %d cannot be allocated here; pageable memory comes from malloc()", (int)kind);
    if (!bytes) {
        *ptr = NULL;
        return LEAT_OK;
    }
    return alloc_default("leat_memory_alloc", device, kind, NULL, bytes, ptr);
}

static leat_status pool_alloc(const char *what, leat_pool *pool, leat_stream *stream, size_t bytes,
                              size_t alignment, void **ptr)
{
    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_pool(what, pool));
    if (stream)
        LEATI_TRY(leati_check_stream(what, stream));
    LEATI_TRY(leati_check_not_null(what, "ptr", ptr));
    if (stream && stream->device != pool->device)
        return leati_fail(LEAT_ERROR_INVALID,
                          "%s: the stream is of %s and %s of %s; use a pool of the stream's device", what,
                          stream->device->name, pool->name, pool->device->name);
    if (alignment & (alignment - 1) || alignment > ALIGNMENT_MAX)
        return leati_fail(LEAT_ERROR_INVALID, "%s: alignment %zu is not a power of two up to %zu", what, alignment,
                          ALIGNMENT_MAX);
    if (!bytes) {
        *ptr = NULL;
        return LEAT_OK;
    }
    return alloc_from(what, pool, stream, bytes, alignment, ptr);
}

leat_status leat_pool_alloc(leat_stream *stream, leat_pool *pool, size_t bytes, void **ptr)
{
    LEATI_SPAN(LEATI_TRACE_ALLOC, "leat_pool_alloc");
    return pool_alloc("leat_pool_alloc", pool, stream, bytes, 0, ptr);
}

leat_status leat_pool_alloc_aligned(leat_stream *stream, leat_pool *pool, size_t bytes, size_t alignment,
                                    void **ptr)
{
    LEATI_SPAN(LEATI_TRACE_ALLOC, "leat_pool_alloc_aligned");
    return pool_alloc("leat_pool_alloc_aligned", pool, stream, bytes, alignment, ptr);
}

/* ---- freeing ---- */

/* Returns an error, with a message, for a pointer that is not the start of a live block. */
static leat_status refuse(const char *what, const void *ptr, struct leat_pool *pool,
                          const struct leati_block *block)
{
    uintptr_t base = block ? leati_user_base(block) : 0;
    char words[1400];

    if (!block || leati_state(block) != LEATI_BLOCK_LIVE) {
        leati_guard_describe(pool, ptr, words, sizeof words);
        return leati_fail(LEAT_ERROR_POINTER,
                          "%s: %p is in %s of %s, but not allocated: freed already, or never was%s", what, ptr,
                          pool->name, pool->device->name, words);
    }
    return leati_fail(LEAT_ERROR_POINTER, "%s: %p is %zu bytes inside the block at %p; give its start", what, ptr,
                      (size_t)((uintptr_t)ptr - base), (void *)base);
}

/* Returns true if block is LIVE, starts at ptr and belongs to magazine. The result is reliable only while the
 * caller holds the magazine's lock. */
static inline bool is_live(const struct leati_block *block, const void *ptr, const struct leati_magazine *magazine)
{
    return leati_state(block) == LEATI_BLOCK_LIVE && leati_user_base(block) == (uintptr_t)ptr &&
           atomic_load_explicit(&block->magazine, memory_order_relaxed) == magazine;
}

/* Changes a LIVE block to LEAVING. Returns false if the block is no longer LIVE, which detects a double free, or
 * if it does not start at ptr. */
static bool leave(struct leati_block *block, const void *ptr)
{
    struct leati_magazine *magazine = atomic_load_explicit(&block->magazine, memory_order_relaxed);
    uint32_t live = LEATI_BLOCK_LIVE;
    bool left;

    if (!magazine)
        /* Acquire and release: all earlier accesses to the record happen before the change. */
        return leati_user_base(block) == (uintptr_t)ptr &&
               atomic_compare_exchange_strong_explicit(&block->state, &live, LEATI_BLOCK_LEAVING,
                                                       memory_order_acq_rel, memory_order_relaxed);
    leati_magazine_lock(magazine);
    left = is_live(block, ptr, magazine);
    if (left)
        leati_set_state(block, LEATI_BLOCK_LEAVING);
    leati_magazine_unlock(magazine);
    return left;
}

/* Finds the block that starts at ptr and makes it LEAVING, so that it no longer belongs to the user. Returns
 * DECLINED if ptr is in no pool. */
static leat_status take_block(const char *what, const void *ptr, struct leat_pool **pool,
                              struct leati_block **taken)
{
    struct leati_block *block = leati_block_find(ptr, pool);

    if (!*pool)
        return LEATI_DECLINED;
    if (!block || leati_user_base(block) != (uintptr_t)ptr || !leave(block, ptr))
        return refuse(what, ptr, *pool, block);
    *taken = block;
    return LEAT_OK;
}

/* Counts the free of a LEAVING block in the magazine that counted its allocation, so that the figures of each
 * stream stay right if another stream frees the block. */
static void count_free(const struct leati_block *block)
{
    struct leati_magazine *magazine = atomic_load_explicit(&block->magazine, memory_order_relaxed);

    if (!magazine)
        return;
    leati_magazine_lock(magazine);
    leati_magazine_count_free(magazine, block);
    leati_magazine_unlock(magazine);
}

/* Frees a block that free_cached() made LEAVING but did not put into the magazine. A planned block returns to its
 * plan. For any other block, makes room in the magazine. */
__attribute__((noinline)) static void free_without_room(struct leati_block *block)
{
    struct leat_pool *pool = atomic_load_explicit(&block->pool, memory_order_relaxed);
    struct leati_magazine *magazine = atomic_load_explicit(&block->magazine, memory_order_relaxed);

    if (block->planned) {
        count_free(block);
        leati_pool_plan_give_back(block, block->cache, block->seq);
        return;
    }
    leati_lock(&pool->lock);
    count_free(block);
    if (!leati_magazine_push_into(pool, magazine, block))
        leati_slow_path_free(pool, block, block->cache, block->seq);
    leati_unlock(&pool->lock);
}

/* The fast path: if the live block at ptr came from this thread's magazine of this stream, frees the block and
 * returns true. Otherwise returns false. */
static inline bool free_cached(leat_stream *stream, const void *ptr)
{
    struct leat_pool *pool;
    struct leati_block *block = leati_block_find(ptr, &pool);
    struct leati_magazine *magazine = block ? atomic_load_explicit(&block->magazine, memory_order_relaxed) : NULL;
    struct leati_stream_cache *cache;
    bool found, kept = false;

    /* The recorder must be called without the magazine's lock, so frees that are recorded take the slow path. */
    if (!magazine || pool->checked || leati_recorded())
        return false;
    cache = leati_stream_cache_find(pool, stream);
    if (!cache || magazine != leati_magazine_of(cache, false) || !leati_magazine_try(magazine))
        return false;
    found = is_live(block, ptr, magazine) && !block->uses && block->cache == cache;
    if (found) {
        block->seq = stream ? leati_timeline_now(stream->timeline) : 0;
        kept = !block->planned && leati_magazine_push(magazine, block);
        /* If the magazine had no room, free_without_room() counts the free later. Until then the statistics count
         * the block as live, so that the pool cannot be destroyed in between. */
        if (kept)
            leati_magazine_count_free(magazine, block);
        else
            leati_set_state(block, LEATI_BLOCK_LEAVING);
    }
    leati_magazine_unlock(magazine);
    if (found && !kept)
        free_without_room(block);
    return found;
}

/* Call when a block is freed on another stream than it was allocated on. The uses of the memory before the
 * allocation are over only when the allocating stream has completed its work up to block->seq. If the freeing
 * stream may not be ordered after that work, adds it as a stream use. */
static leat_status add_origin(struct leat_pool *pool, leat_stream *stream, struct leati_stream_cache *cache,
                              struct leati_block *block)
{
    struct leati_timeline *timeline = block->cache->timeline;

    (void)pool;
    if (block->cache == cache || !timeline || !block->seq || leati_timeline_is_complete(timeline, block->seq) ||
        (stream && leati_timeline_is_ordered_after(stream->timeline, timeline, block->seq)))
        return LEAT_OK;
    return leati_stream_uses_add_seq(block, timeline, block->seq);
}

/* Frees a block that cannot be freed without the pool's lock: the magazine has no room for it, or it has stream
 * uses, is planned, or belongs to a checked pool. */
static void free_slow(struct leat_pool *pool, leat_stream *stream, struct leati_stream_cache *cache,
                      struct leati_block *block) LEATI_REQUIRES(pool->lock)
{
    struct leati_magazine *magazine = leati_magazine_of(cache, true);
    bool kept = false;

    leati_set_cache(block, cache);
    block->seq = stream ? leati_timeline_now(stream->timeline) : 0;
    leati_stream_uses_fix(block);
    count_free(block);
    if (magazine && !block->uses && !pool->checked && !block->planned)
        kept = leati_magazine_push_into(pool, magazine, block);
    if (leati_guarded(pool))
        leati_guard_quarantine(pool, block);
    else if (!kept)
        leati_slow_path_free(pool, block, cache, block->seq);
}

/* Tries to put a LEAVING block that was allocated on the same stream into this thread's magazine, which need not
 * be the one that it came from. Returns true if it did. */
static bool keep_cached(struct leat_pool *pool, leat_stream *stream, struct leati_block *block)
{
    struct leati_stream_cache *cache = leati_stream_cache_find(pool, stream);
    struct leati_magazine *magazine = cache ? leati_magazine_of(cache, false) : NULL;
    bool kept;

    if (!magazine || pool->checked || block->uses || block->cache != cache || block->planned)
        return false;
    record_free(stream, block);
    leati_magazine_lock(magazine);
    block->seq = stream ? leati_timeline_now(stream->timeline) : 0;
    kept = leati_magazine_push(magazine, block);
    if (kept)
        leati_magazine_count_free(magazine, block);
    leati_magazine_unlock(magazine);
    return kept;
}

/* Frees a LEAVING block. If this fails, the block is LIVE again and belongs to the user. */
static leat_status free_block(struct leat_pool *pool, leat_stream *stream, struct leati_block *block)
{
    struct leati_stream_cache *cache;
    leat_status status = LEAT_OK;

    if (keep_cached(pool, stream, block))
        return LEAT_OK;
    if (pool->checked)
        status = leati_guard_free(pool, stream, block);
    leati_lock(&pool->lock);
    cache = leati_stream_cache_get(pool, stream);
    if (!cache && status == LEAT_OK)
        status = leati_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (per-stream pool state)");
    /* A guarded block stays in quarantine until all work that uses it is complete, so it needs no stream uses. */
    if (status == LEAT_OK && !leati_guarded(pool))
        status = add_origin(pool, stream, cache, block);
    if (status == LEAT_OK && !leati_guarded(pool) && stream && stream->timeline->per_thread) {
        status = leati_stream_uses_add_stream(pool, block, stream);
        cache = pool->host;
    }
    if (status == LEAT_OK) {
        record_free(stream, block);
        free_slow(pool, stream, cache, block);
    } else {
        leati_set_state(block, LEATI_BLOCK_LIVE);
    }
    leati_unlock(&pool->lock);
    return status;
}

leat_status leat_free(leat_stream *stream, void *ptr)
{
    struct leati_block *block = NULL;
    struct leat_pool *pool;
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_FREE, "leat_free");
    LEATI_TRY(leati_check_permitted("leat_free"));
    LEATI_TRY(leati_check_stream("leat_free", stream));
    if (!ptr)
        return LEAT_OK;
    if (leati_traced())
        span_free(stream, ptr);
    if (free_cached(stream, ptr))
        return LEAT_OK;
    status = take_block("leat_free", ptr, &pool, &block);
    if (status == LEATI_DECLINED)
        return leati_driver_free(stream, ptr);
    LEATI_TRY(status);
    if (pool->device != stream->device &&
        (pool->kind == LEAT_KIND_DEVICE || pool->device->driver != stream->device->driver)) {
        leati_set_state(block, LEATI_BLOCK_LIVE);
        return leati_fail(LEAT_ERROR_POINTER, "leat_free: %p is memory of %s, and the stream is of %s", ptr,
                          pool->device->name, stream->device->name);
    }
    status = free_block(pool, stream, block);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_free of %p on %s", ptr, stream->device->name);
}

leat_status leat_memory_free(void *ptr)
{
    struct leati_block *block = NULL;
    struct leat_pool *pool;
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_FREE, "leat_memory_free");
    if (!ptr)
        return LEAT_OK;
    LEATI_TRY(leati_check_permitted("leat_memory_free"));
    if (leati_traced())
        span_free(NULL, ptr);
    if (free_cached(NULL, ptr))
        return LEAT_OK;
    status = take_block("leat_memory_free", ptr, &pool, &block);
    if (status == LEATI_DECLINED)
        return leati_driver_memory_free(ptr);
    LEATI_TRY(status);
    if (block->uses) {
        /* The caller guarantees that no work uses the block any more. */
        leati_lock(&pool->lock);
        leati_stream_uses_drop(pool, block);
        leati_unlock(&pool->lock);
    }
    status = free_block(pool, NULL, block);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_memory_free of %p", ptr);
}

/* ---- stream uses ---- */

/* Finds the live block that starts at ptr. */
static leat_status find_live(const char *what, const void *ptr, struct leat_pool **pool,
                             struct leati_block **found)
{
    struct leati_block *block = leati_block_find(ptr, pool);

    if (!*pool)
        return leati_fail(LEAT_ERROR_POINTER, "%s: %p is not memory of a pool", what, ptr);
    if (!block || leati_user_base(block) != (uintptr_t)ptr || leati_state(block) != LEATI_BLOCK_LIVE)
        return refuse(what, ptr, *pool, block);
    *found = block;
    return LEAT_OK;
}

static leat_status check_same_driver(const char *what, const struct leat_pool *pool,
                                     const struct leat_device *device)
{
    if (pool->device->driver == device->driver)
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_UNSUPPORTED,
        "%s: the block is memory of %s, whose streams cannot wait for %s; synchronize before it is freed", what,
        pool->device->name, device->name);
}

leat_status leat_block_use(leat_stream *stream, void *ptr)
{
    struct leati_block *block;
    struct leat_pool *pool;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_block_use"));
    LEATI_TRY(leati_check_stream("leat_block_use", stream));
    LEATI_TRY(find_live("leat_block_use", ptr, &pool, &block));
    LEATI_TRY(check_same_driver("leat_block_use", pool, stream->device));
    leati_lock(&pool->lock);
    status = leati_stream_uses_add_stream(pool, block, stream);
    if (status == LEAT_OK && block->serial)
        LEATI_RECORD(.op = LEATI_RECORD_USE, .block = block->serial, .stream = serial_of(stream));
    leati_unlock(&pool->lock);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_block_use of %p", ptr);
}

leat_status leat_block_use_until(leat_event *event, void *ptr)
{
    struct leati_block *block;
    struct leat_pool *pool;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_block_use_until"));
    LEATI_TRY(leati_check_event("leat_block_use_until", event));
    LEATI_TRY(find_live("leat_block_use_until", ptr, &pool, &block));
    LEATI_TRY(check_same_driver("leat_block_use_until", pool, event->device));
    /* Acquire: a thread that sees the flag also sees that the event was recorded in the driver. */
    if (!atomic_load_explicit(&event->recorded, memory_order_acquire))
        return LEAT_OK;
    leati_lock(&pool->lock);
    status = leati_stream_uses_add_event(pool, block, event);
    if (status == LEAT_OK && block->serial)
        LEATI_RECORD(.op = LEATI_RECORD_USE_UNTIL, .block = block->serial, .event = event->serial);
    leati_unlock(&pool->lock);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_block_use_until of %p", ptr);
}
