/*
 * stream_cache.c - keeps the per-stream caches of a pool, and their magazines of freed blocks.
 *
 * A magazine holds freed blocks of many sizes. Each block keeps its size, so that the next request of that size
 * takes it without a search in the heap. The number of a thread selects one of the magazines of a stream's cache.
 * Magazines belong to streams and not to threads, so no memory is lost when a thread ends. The lock of a magazine
 * is one byte. Two threads contend for it only if they use the same stream and the same magazine, or when the pool
 * drains magazines.
 */
#include "base/assert.h"
#include "pool/pool.h"
#include "pool/track.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* KEEP_SMALL: the maximum number of small blocks that a slot of a magazine keeps. KEEP_RECENT: a magazine keeps a
 * large block only if it has handed out at most so many large blocks since it handed out this one. Such a block is
 * probably from a loop, which will soon need it again. Large blocks that lived longer go to the heap, where they
 * join adjacent idle memory. */
enum { KEEP_SMALL = 64, KEEP_RECENT = 64 };

/* ---- caches ---- */

struct leati_stream_cache *leati_stream_cache_find(struct leat_pool *pool, leat_stream *stream)
{
    /* Acquire: pairs with the release in leati_stream_cache_get(). */
    if (!stream)
        return pool->host;
    if (pool->number >= LEATI_FAST_POOLS || stream->device != pool->device)
        return NULL;
    return atomic_load_explicit(&stream->caches[pool->number], memory_order_acquire);
}

/* Finds a cache that can be reused, because its stream was destroyed and no record or handle refers to it. Returns
 * NULL if there is none. Caches are never removed from the list, because other threads read the list without a
 * lock. */
static struct leati_stream_cache *find_unused(struct leat_pool *pool)
{
    for (struct leati_stream_cache *cache = pool->caches; cache; cache = cache->next)
        if (cache != pool->host && !cache->stream && !cache->blocks)
            return cache;
    return NULL;
}

static struct leati_stream_cache *new_cache(struct leat_pool *pool)
{
    struct leati_stream_cache *cache = calloc(1, sizeof *cache);

    if (!cache)
        return NULL;
    cache->pool = pool;
    cache->next = atomic_load_explicit(&pool->caches, memory_order_relaxed);
    /* Release: a lock-free reader that finds the cache sees it initialized. */
    atomic_store_explicit(&pool->caches, cache, memory_order_release);
    return cache;
}

struct leati_stream_cache *leati_stream_cache_get(struct leat_pool *pool, leat_stream *stream)
{
    struct leati_stream_cache *cache = NULL;

    leati_assert_locked(&pool->lock);
    if (!stream)
        return pool->host ? pool->host : new_cache(pool);
    for (cache = pool->caches; cache; cache = cache->next)
        if (cache->stream == stream)
            return cache;
    cache = find_unused(pool);
    if (!cache)
        cache = new_cache(pool);
    if (!cache)
        return NULL;
    leati_assert(cache != pool->host && !cache->stream);
    leati_timeline_release(cache->timeline);
    /* The stream's device may have no pool of its own, so nothing else has set its hooks. Without them the cache
     * would keep a dangling pointer when the stream is destroyed. */
    leati_pool_set_hooks(stream->device);
    cache->stream = stream;
    cache->timeline = stream->timeline;
    leati_timeline_hold(cache->timeline);
    /* Release: pairs with the acquire in leati_stream_cache_find(). */
    if (pool->number < LEATI_FAST_POOLS && stream->device == pool->device)
        atomic_store_explicit(&stream->caches[pool->number], cache, memory_order_release);
    return cache;
}

static void free_cache(struct leati_stream_cache *cache)
{
    for (int i = 0; i < LEATI_MAGAZINES; i++)
        free(atomic_load_explicit(&cache->magazines[i], memory_order_relaxed));
    leati_timeline_release(cache->timeline);
    free(cache);
}

void leati_stream_caches_end(struct leat_pool *pool)
{
    while (pool->caches) {
        struct leati_stream_cache *cache = pool->caches;

        pool->caches = cache->next;
        if (cache->stream && pool->number < LEATI_FAST_POOLS && cache->stream->device == pool->device)
            atomic_store_explicit(&cache->stream->caches[pool->number], NULL, memory_order_relaxed);
        free_cache(cache);
    }
    pool->host = NULL;
}

/* ---- magazines ---- */

struct leati_magazine *leati_magazine_of(struct leati_stream_cache *cache, bool make)
{
    static atomic_uint threads;
    static LEATI_QUICK_TLS unsigned number; /* number of this thread, counted from 1; 0: not assigned yet */
    _Atomic(struct leati_magazine *) *place;
    struct leati_magazine *magazine;

    leati_assert(cache);
    if (!number)
        number = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
    place = &cache->magazines[number % LEATI_MAGAZINES];
    /* Acquire: pairs with the release stores below. */
    magazine = atomic_load_explicit(place, memory_order_acquire);
    if (magazine || !make)
        return magazine;
    magazine = aligned_alloc(_Alignof(struct leati_magazine), sizeof *magazine);
    if (magazine) {
        memset(magazine, 0, sizeof *magazine);
        /* Release, in both stores: a reader that finds the pointer, or the bit, sees the magazine initialized. */
        atomic_store_explicit(place, magazine, memory_order_release);
        atomic_fetch_or_explicit(&cache->magazines_made, 1u << number % LEATI_MAGAZINES, memory_order_release);
    }
    return magazine;
}

struct leati_magazine *leati_magazine_next(const struct leati_stream_cache *cache, unsigned *left)
{
    unsigned number;

    if (!*left)
        return NULL;
    leati_assert(*left >> LEATI_MAGAZINES == 0);
    number = (unsigned)__builtin_ctz(*left);
    *left &= *left - 1;
    return atomic_load_explicit(&cache->magazines[number], memory_order_acquire);
}

bool leati_magazine_try(struct leati_magazine *magazine)
{
    return !atomic_exchange_explicit(&magazine->locked, 1, memory_order_acquire);
}

void leati_magazine_lock(struct leati_magazine *magazine)
{
    /* Spin first, because the lock is held for only about ten instructions. If the thread that holds it was
     * descheduled, let other threads run. */
    for (unsigned tries = 0; !leati_magazine_try(magazine); tries++)
        if (tries > 100)
            sched_yield();
}

void leati_magazine_unlock(struct leati_magazine *magazine)
{
    leati_assert(atomic_load_explicit(&magazine->locked, memory_order_relaxed));
    atomic_store_explicit(&magazine->locked, 0, memory_order_release);
}

static struct leati_slot *slot_of(struct leati_magazine *magazine, size_t bytes)
{
    /* Fibonacci hashing: multiply by 2^64 divided by the golden ratio, and use the top bits of the product. */
    uint64_t mixed = bytes / LEATI_GRANULE_BYTES * UINT64_C(0x9E3779B97F4A7C15);

    leati_assert(bytes && bytes % LEATI_GRANULE_BYTES == 0);
    return &magazine->slots[mixed >> 57];
}

_Static_assert(LEATI_MAGAZINE_SLOTS == 1 << (64 - 57), "slot_of() takes the top bits for so many slots");

static void add(_Atomic int64_t *counter, int64_t by)
{
    /* No atomic addition is needed, because only the thread that holds the magazine's lock writes. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

static void add_one(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

static struct leati_block *pop_large(struct leati_magazine *magazine, size_t bytes)
{
    for (int i = 0; i < LEATI_MAGAZINE_LARGE; i++) {
        struct leati_block *block = magazine->large[i];

        if (block && leati_bytes(block) == bytes) {
            magazine->large[i] = NULL;
            return block;
        }
    }
    return NULL;
}

static struct leati_block *pop_small(struct leati_magazine *magazine, size_t bytes)
{
    struct leati_slot *slot = slot_of(magazine, bytes);
    struct leati_block *block = slot->top;

    leati_assert(!slot->top == !slot->count);
    if (slot->bytes != bytes || !block)
        return NULL;
    slot->top = block->link;
    slot->count--;
    return block;
}

struct leati_block *leati_magazine_pop(struct leati_magazine *magazine, size_t bytes)
{
    struct leati_block *block = (bytes < LEATI_LARGE_BYTES ? pop_small : pop_large)(magazine, bytes);

    leati_assert(atomic_load_explicit(&magazine->locked, memory_order_relaxed));
    leati_assert(!block || (leati_state(block) == LEATI_BLOCK_CACHED && leati_bytes(block) == bytes));
    if (block)
        add(&magazine->figures.cached_bytes, -(int64_t)bytes);
    return block;
}

static bool push_large(struct leati_magazine *magazine, struct leati_block *block)
{
    if ((uint16_t)(magazine->large_count - block->born) > KEEP_RECENT)
        return false;
    for (int i = 0; i < LEATI_MAGAZINE_LARGE; i++)
        if (!magazine->large[i]) {
            magazine->large[i] = block;
            return true;
        }
    return false;
}

static bool push_small(struct leati_magazine *magazine, struct leati_block *block)
{
    struct leati_slot *slot = slot_of(magazine, leati_bytes(block));

    if (slot->bytes != leati_bytes(block)) {
        if (slot->top)
            return false;
        slot->bytes = leati_bytes(block);
    }
    if (slot->count >= KEEP_SMALL)
        return false;
    block->link = slot->top;
    slot->top = block;
    slot->count++;
    return true;
}

bool leati_magazine_push(struct leati_magazine *magazine, struct leati_block *block)
{
    size_t bytes = leati_bytes(block);

    leati_assert(atomic_load_explicit(&magazine->locked, memory_order_relaxed));
    leati_assert(block->cache && !block->uses);
    if (!(bytes < LEATI_LARGE_BYTES ? push_small : push_large)(magazine, block))
        return false;
    if (!block->cache->timeline)
        leati_track_idle(block->cache->pool, leati_base(block), bytes);
    leati_assert(atomic_load_explicit(&magazine->figures.cached_bytes, memory_order_relaxed) >= 0);
    add(&magazine->figures.cached_bytes, (int64_t)bytes);
    leati_set_state(block, LEATI_BLOCK_CACHED);
    return true;
}

void leati_magazine_count_alloc(struct leati_magazine *magazine, struct leati_block *block, bool hit)
{
    struct leati_magazine_figures *figures = &magazine->figures;
    int64_t requested_bytes = (int64_t)leati_requested(block), now;

    leati_assert(atomic_load_explicit(&magazine->locked, memory_order_relaxed) && block->tag < LEATI_TAGS);
    if (leati_bytes(block) >= LEATI_LARGE_BYTES)
        block->born = magazine->large_count++;
    add(&figures->requested_bytes, requested_bytes);
    add(&figures->used_bytes, (int64_t)leati_bytes(block));
    add(&figures->live_blocks, 1);
    add_one(&figures->allocations);
    if (hit)
        add_one(&figures->hits);
    now = atomic_load_explicit(&figures->requested_bytes, memory_order_relaxed);
    if (now > atomic_load_explicit(&figures->requested_peak_bytes, memory_order_relaxed))
        atomic_store_explicit(&figures->requested_peak_bytes, now, memory_order_relaxed);
    if (block->tag) {
        add(&figures->tag_bytes[block->tag], requested_bytes);
        add(&figures->tag_blocks[block->tag], 1);
    }
}

void leati_magazine_count_free(struct leati_magazine *magazine, const struct leati_block *block)
{
    struct leati_magazine_figures *figures = &magazine->figures;

    leati_assert(atomic_load_explicit(&magazine->locked, memory_order_relaxed) && block->tag < LEATI_TAGS);
    add(&figures->requested_bytes, -(int64_t)leati_requested(block));
    add(&figures->used_bytes, -(int64_t)leati_bytes(block));
    add(&figures->live_blocks, -1);
    add_one(&figures->frees);
    if (block->tag) {
        add(&figures->tag_bytes[block->tag], -(int64_t)leati_requested(block));
        add(&figures->tag_blocks[block->tag], -1);
    }
}

/* ---- moving blocks out of magazines ---- */

/* Returns a block that was in the magazine to the heap. Call with the magazine's lock held. */
static void let_go(struct leat_pool *pool, struct leati_magazine *magazine, struct leati_block *block)
    LEATI_REQUIRES(pool->lock)
{
    leati_assert(atomic_load_explicit(&magazine->locked, memory_order_relaxed) &&
                 leati_state(block) == LEATI_BLOCK_CACHED);
    add(&magazine->figures.cached_bytes, -(int64_t)leati_bytes(block));
    leati_slow_path_free(pool, block, block->cache, block->seq);
}

/* Moves all blocks of a slot to the heap. Returns true if there were any. Call with the magazine's lock held. */
static bool drain_slot(struct leat_pool *pool, struct leati_magazine *magazine, struct leati_slot *slot)
    LEATI_REQUIRES(pool->lock)
{
    bool any = slot->top != NULL;

    leati_assert(!slot->top == !slot->count);
    while (slot->top) {
        struct leati_block *block = slot->top;

        slot->top = block->link;
        slot->count--;
        let_go(pool, magazine, block);
    }
    return any;
}

/* Moves all large blocks of a magazine to the heap. Otherwise like drain_slot(). */
static bool drain_large(struct leat_pool *pool, struct leati_magazine *magazine) LEATI_REQUIRES(pool->lock)
{
    bool any = false;

    for (int i = 0; i < LEATI_MAGAZINE_LARGE; i++)
        if (magazine->large[i]) {
            struct leati_block *block = magazine->large[i];

            magazine->large[i] = NULL;
            let_go(pool, magazine, block);
            any = true;
        }
    return any;
}

bool leati_magazine_push_into(struct leat_pool *pool, struct leati_magazine *magazine, struct leati_block *block)
{
    size_t bytes = leati_bytes(block);
    bool kept;

    leati_assert(block->cache && block->cache->pool == pool);
    leati_assert_locked(&pool->lock);
    leati_magazine_lock(magazine);
    if (bytes < LEATI_LARGE_BYTES)
        drain_slot(pool, magazine, slot_of(magazine, bytes));
    else
        drain_large(pool, magazine);
    kept = leati_magazine_push(magazine, block);
    leati_magazine_unlock(magazine);
    return kept;
}

/* The maximum number of blocks that leati_stream_cache_steal() takes from a magazine: one for its caller, the
 * others for the caller's magazine. */
enum { STEAL_MAX = 16 };

static struct leati_block *steal_from(struct leati_magazine *magazine, struct leati_magazine *into, size_t bytes)
{
    struct leati_block *taken[STEAL_MAX], *block;
    unsigned count = 0, kept = 1;

    leati_magazine_lock(magazine);
    while (count < STEAL_MAX && (into || !count) && (block = leati_magazine_pop(magazine, bytes)))
        taken[count++] = block;
    leati_magazine_unlock(magazine);
    leati_assert(count <= STEAL_MAX && (count <= 1 || into));
    if (count > 1) {
        leati_magazine_lock(into);
        while (kept < count && leati_magazine_push(into, taken[kept]))
            kept++;
        leati_magazine_unlock(into);
    }
    /* Blocks for which the magazine into has no room go to the heap. */
    for (; kept < count; kept++) {
        leati_assert_locked(&taken[kept]->cache->pool->lock);
        leati_slow_path_free(taken[kept]->cache->pool, taken[kept], taken[kept]->cache, taken[kept]->seq);
    }
    return count ? taken[0] : NULL;
}

struct leati_block *leati_stream_cache_steal(struct leati_stream_cache *cache, struct leati_magazine *into,
                                             size_t bytes)
{
    struct leati_block *block = NULL;
    struct leati_magazine *magazine;

    for (unsigned left = leati_magazines_of(cache); !block && (magazine = leati_magazine_next(cache, &left));) {
        if (magazine != into && atomic_load_explicit(&magazine->figures.cached_bytes, memory_order_relaxed))
            block = steal_from(magazine, into, bytes);
    }
    return block;
}

/* Moves the blocks of all magazines of the cache to the heap. large: moves only large blocks. Returns true if
 * there were any. */
static bool drain(struct leati_stream_cache *cache, bool large) LEATI_REQUIRES(cache->pool->lock)
{
    struct leati_magazine *magazine;
    bool any = false;

    for (unsigned left = leati_magazines_of(cache); (magazine = leati_magazine_next(cache, &left));) {
        if (!atomic_load_explicit(&magazine->figures.cached_bytes, memory_order_relaxed))
            continue;
        leati_magazine_lock(magazine);
        any |= drain_large(cache->pool, magazine);
        for (int slot = 0; slot < LEATI_MAGAZINE_SLOTS && !large; slot++)
            any |= drain_slot(cache->pool, magazine, &magazine->slots[slot]);
        leati_magazine_unlock(magazine);
    }
    return any;
}

bool leati_stream_cache_drain(struct leati_stream_cache *cache)
{
    leati_assert_locked(&cache->pool->lock);
    return drain(cache, false);
}

void leati_stream_cache_drain_large(struct leati_stream_cache *cache)
{
    leati_assert_locked(&cache->pool->lock);
    drain(cache, true);
}

bool leati_stream_caches_drain(struct leat_pool *pool)
{
    bool any = false;

    leati_assert_locked(&pool->lock);
    for (struct leati_stream_cache *cache = pool->caches; cache; cache = cache->next)
        any |= leati_stream_cache_drain(cache);
    return any;
}
