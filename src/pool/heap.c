/* heap.c - finds, splits and joins the extents of a pool. Makes no driver calls. */
#include "base/assert.h"
#include "pool/pool.h"
#include "pool/track.h"

#include <stdlib.h>

/* A search for the best fit stops after so many extents if at least one of them fits. The heap of small blocks has
 * many extents close together, so there the number is small. */
enum { SCAN_SMALL = 64, SCAN_LARGE = 1024 };

/* ---- bins ---- */

/* Returns the bin for a size. Each power of two has eight bins, so the sizes in a bin differ by at most 1/8. */
static unsigned bin_of(size_t bytes)
{
    size_t granules = bytes / LEATI_GRANULE_BYTES;
    unsigned power, bin;

    leati_assert(granules);
    if (granules < 8)
        return (unsigned)granules;
    power = 63 - (unsigned)__builtin_clzll(granules);
    bin = (power - 2) * 8 + (unsigned)(granules >> (power - 3) & 7);
    return bin < LEATI_BINS ? bin : LEATI_BINS - 1;
}

void leati_bins_add(struct leati_bins *bins, struct leati_block *block)
{
    unsigned bin = bin_of(leati_bytes(block));

    leati_assert(leati_bytes(block) && leati_bytes(block) % LEATI_GRANULE_BYTES == 0);
    leati_assert(!bins->first[bin] || !bins->first[bin]->back);
    block->back = NULL;
    block->link = bins->first[bin];
    if (block->link)
        block->link->back = block;
    bins->first[bin] = block;
    bins->used[bin / 64] |= UINT64_C(1) << bin % 64;
    bins->bytes += leati_bytes(block);
    bins->count++;
}

void leati_bins_remove(struct leati_bins *bins, struct leati_block *block)
{
    unsigned bin = bin_of(leati_bytes(block));

    leati_assert(bins->count && bins->bytes >= leati_bytes(block) && bins->first[bin]);
    leati_assert(block->back ? block->back->link == block : bins->first[bin] == block);
    leati_assert(!block->link || block->link->back == block);
    if (block->link)
        block->link->back = block->back;
    if (block->back)
        block->back->link = block->link;
    else
        bins->first[bin] = block->link;
    if (!bins->first[bin])
        bins->used[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    bins->bytes -= leati_bytes(block);
    bins->count--;
    leati_assert(bins->count || !bins->bytes);
    block->link = block->back = NULL;
}

/* Returns the first non-empty bin at or above bin, or LEATI_BINS if there is none. */
static unsigned bin_from(const struct leati_bins *bins, unsigned bin)
{
    for (unsigned word = bin / 64; word < LEATI_BINS / 64; word++) {
        uint64_t used = bins->used[word];

        if (word == bin / 64)
            used &= ~UINT64_C(0) << bin % 64;
        if (used)
            return word * 64 + (unsigned)__builtin_ctzll(used);
    }
    return LEATI_BINS;
}

/* Returns the last non-empty bin below bin, or LEATI_BINS if there is none. */
static unsigned bin_below(const struct leati_bins *bins, unsigned bin)
{
    while (bin--)
        if (bins->used[bin / 64] >> bin % 64 & 1)
            return bin;
    return LEATI_BINS;
}

static bool fits(const struct leati_block *block, size_t bytes, size_t alignment)
{
    uintptr_t base = leati_base(block), end = base + leati_bytes(block);
    uintptr_t start = (base + alignment - 1) & ~(uintptr_t)(alignment - 1);

    leati_assert(LEATI_IS_POWER_OF_TWO(alignment));
    return start <= end && end - start >= bytes;
}

/* Returns true if the extent one is a better fit than best: it is smaller, or has the same size and a lower
 * address. So the choice depends only on which extents are idle, not on the order in which they became idle. */
static bool is_better(const struct leati_block *one, const struct leati_block *best)
{
    return !best || leati_bytes(one) < leati_bytes(best) ||
           (leati_bytes(one) == leati_bytes(best) && leati_base(one) < leati_base(best));
}

struct leati_block *leati_bins_fit(const struct leati_bins *bins, size_t bytes, size_t alignment, bool exact,
                                   const struct leati_stream_cache *cache)
{
    unsigned scanned = 0, most = bytes < LEATI_LARGE_BYTES ? SCAN_SMALL : SCAN_LARGE;
    struct leati_block *best = NULL;

    for (unsigned bin = bin_from(bins, bin_of(bytes)); bin < LEATI_BINS && !best; bin = bin_from(bins, bin + 1)) {
        for (struct leati_block *block = bins->first[bin]; block && (scanned < most || !best);
             block = block->link) {
            scanned++;
            if (fits(block, bytes, alignment) && (!exact || leati_bytes(block) == bytes) &&
                (!cache || leati_usable(block, cache)) && is_better(block, best))
                best = block;
        }
        if (exact || bin + 1 >= LEATI_BINS)
            break;
    }
    leati_assert(!best || fits(best, bytes, alignment));
    return best;
}

struct leati_block *leati_bins_walk(struct leati_bins *bins, const struct leati_block *block)
{
    unsigned bin;

    if (block && block->link)
        return block->link;
    bin = bin_below(bins, block ? bin_of(leati_bytes(block)) : LEATI_BINS);
    return bin < LEATI_BINS ? bins->first[bin] : NULL;
}

/* ---- extents ---- */

static void set_extent(struct leati_block *block, uintptr_t base, size_t bytes)
{
    leati_assert(bytes && base + bytes > base);
    atomic_store_explicit(&block->base, base, memory_order_relaxed);
    atomic_store_explicit(&block->bytes, bytes, memory_order_relaxed);
}

void leati_block_describe(struct leat_pool *pool, struct leati_block *block, uintptr_t base, size_t bytes,
                          uint8_t heap)
{
    leati_assert_locked(&pool->lock);
    set_extent(block, base, bytes);
    atomic_store_explicit(&block->pool, pool, memory_order_relaxed);
    block->device = pool->device;
    block->kind = pool->kind;
    block->heap = heap;
}

leat_status leati_span_new(struct leat_pool *pool, uintptr_t base, size_t bytes, uint8_t heap,
                           enum leati_block_state state, struct leati_span **made)
{
    struct leati_span *span = calloc(1, sizeof *span);
    struct leati_block *block = span ? leati_block_new() : NULL;

    leati_assert_locked(&pool->lock);
    leati_assert(bytes && heap < LEATI_RANGES);
    if (!block) {
        free(span);
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the pool's records");
    }
    *span = (struct leati_span){.base = base, .bytes = bytes, .first = block, .next = pool->spans, .heap = heap};
    leati_block_describe(pool, block, base, bytes, heap);
    leati_set_state(block, state);
    pool->spans = span;
    *made = span;
    return LEAT_OK;
}

static struct leati_bins *bins_of(struct leat_pool *pool, struct leati_block *block)
{
    leati_assert(leati_state(block) == LEATI_BLOCK_HOLE || block->cache);
    leati_assert(block->heap < (leati_state(block) == LEATI_BLOCK_HOLE ? LEATI_RANGES : LEATI_HEAPS));
    if (leati_state(block) == LEATI_BLOCK_HOLE)
        return &pool->holes[block->heap];
    return &block->cache->bins[block->heap];
}

void leati_extent_unbin(struct leat_pool *pool, struct leati_block *block)
{
    leati_assert_locked(&pool->lock);
    leati_bins_remove(bins_of(pool, block), block);
}

/* Creates a record for a part of block, with all fields but the addresses. Returns NULL when out of memory. */
static struct leati_block *new_part(const struct leati_block *block)
{
    struct leati_block *part = leati_block_new();

    if (!part)
        return NULL;
    atomic_store_explicit(&part->pool, atomic_load_explicit(&block->pool, memory_order_relaxed),
                          memory_order_relaxed);
    part->device = block->device;
    part->kind = block->kind;
    leati_set_cache(part, block->cache);
    part->seq = block->seq;
    part->heap = block->heap;
    part->whole = block->whole;
    part->idle_since_ns = block->idle_since_ns;
    return part;
}

/* Splits the extent at base. Returns a new record for the upper part, which is in no bin, or NULL when out of
 * memory. */
static struct leati_block *split(struct leati_block *block, uintptr_t base)
{
    struct leati_block *upper = new_part(block);
    uintptr_t start = leati_base(block), end = start + leati_bytes(block);

    if (!upper)
        return NULL;
    leati_assert(base > start && base < end && !block->whole);
    set_extent(upper, base, end - base);
    set_extent(block, start, base - start);
    upper->before = block;
    upper->after = block->after;
    if (upper->after)
        upper->after->before = upper;
    block->after = upper;
    leati_set_state(upper, leati_state(block));
    return upper;
}

void leati_extent_join(struct leat_pool *pool, struct leati_block *first, struct leati_block *second)
{
    leati_assert_locked(&pool->lock);
    (void)pool;
    leati_assert(first->after == second && second->before == first);
    leati_assert(leati_base(first) + leati_bytes(first) == leati_base(second) && first->heap == second->heap);
    set_extent(first, leati_base(first), leati_bytes(first) + leati_bytes(second));
    first->after = second->after;
    if (first->after)
        first->after->before = first;
    leati_set_cache(second, NULL);
    leati_block_give_back(second);
}

leat_status leati_extent_cut(struct leat_pool *pool, struct leati_block *block, uintptr_t base, size_t bytes)
{
    uintptr_t start = leati_base(block), end = start + leati_bytes(block);
    struct leati_block *upper = NULL;

    leati_assert_locked(&pool->lock);
    leati_assert(bytes && base >= start && base + bytes <= end);
    leati_assert(base % LEATI_GRANULE_BYTES == 0 && bytes % LEATI_GRANULE_BYTES == 0);
    if (base + bytes < end) {
        upper = split(block, base + bytes);
        if (!upper)
            return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the pool's records");
    }
    if (base > start) {
        /* block must describe the wanted upper piece, so the lower part gets the new record. */
        struct leati_block *lower = new_part(block);

        if (!lower) {
            if (upper)
                leati_extent_join(pool, block, upper);
            return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the pool's records");
        }
        leati_assert(!block->before || block->before->after == block);
        set_extent(lower, start, base - start);
        set_extent(block, base, leati_bytes(block) - (base - start));
        lower->after = block;
        lower->before = block->before;
        if (lower->before) {
            lower->before->after = lower;
        } else {
            for (struct leati_span *span = pool->spans; span; span = span->next)
                if (span->first == block)
                    span->first = lower;
        }
        block->before = lower;
        leati_set_state(lower, leati_state(block));
        leati_bins_add(bins_of(pool, lower), lower);
    }
    if (upper)
        leati_bins_add(bins_of(pool, upper), upper);
    leati_assert(leati_base(block) == base && leati_bytes(block) == bytes);
    return LEAT_OK;
}

/* Returns true if the two neighbours can be merged: both have the same state, none is marked as whole, and both
 * belong to the same cache or are holes. */
static bool joinable(const struct leati_block *one, const struct leati_block *other)
{
    return one && other && leati_state(one) == leati_state(other) && !one->whole && !other->whole &&
           (leati_state(one) == LEATI_BLOCK_HOLE || one->cache == other->cache);
}

/* Merges block, which is in no bin, with joinable neighbours, which are in bins. Returns the merged extent, which
 * is in no bin. */
static struct leati_block *join_neighbours(struct leat_pool *pool, struct leati_block *block)
    LEATI_REQUIRES(pool->lock)
{
    struct leati_block *other = block->after;

    leati_assert(!other || (other->before == block &&
                 leati_base(other) == leati_base(block) + leati_bytes(block)));
    if (joinable(block, other)) {
        leati_extent_unbin(pool, other);
        if (other->seq > block->seq)
            block->seq = other->seq;
        leati_extent_join(pool, block, other);
    }
    other = block->before;
    if (joinable(other, block)) {
        leati_extent_unbin(pool, other);
        if (block->seq > other->seq)
            other->seq = block->seq;
        other->idle_since_ns = block->idle_since_ns;
        leati_extent_join(pool, other, block);
        block = other;
    }
    return block;
}

void leati_extent_free(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                       uint64_t seq)
{
    leati_assert_locked(&pool->lock);
    leati_assert(cache && cache->pool == pool && leati_state(block) != LEATI_BLOCK_LIVE);
    if (block->stitch) {
        leati_stitch_sleep(pool, block, cache, seq);
        return;
    }
    if (block->planned) {
        leati_pool_plan_give_back(block, cache, seq);
        return;
    }
    leati_assert(block->heap < LEATI_HEAPS && !block->uses);
    leati_set_cache(block, cache);
    block->seq = seq;
    if (LEATI_TRACKS && (!cache->timeline || leati_timeline_is_complete(cache->timeline, seq)))
        leati_track_idle(pool, leati_base(block), leati_bytes(block));
    leati_set_state(block, LEATI_BLOCK_FREE);
    block = join_neighbours(pool, block);
    leati_bins_add(&cache->bins[block->heap], block);
}

int leati_by_address(const void *a, const void *b)
{
    uintptr_t x = leati_base(*(struct leati_block *const *)a), y = leati_base(*(struct leati_block *const *)b);

    return (x > y) - (x < y);
}

void leati_extent_hole(struct leat_pool *pool, struct leati_block *block)
{
    leati_assert_locked(&pool->lock);
    leati_assert(leati_state(block) != LEATI_BLOCK_LIVE && !block->stitch);
    leati_set_cache(block, NULL);
    block->seq = 0;
    block->whole = 0;
    leati_set_state(block, LEATI_BLOCK_HOLE);
    block = join_neighbours(pool, block);
    leati_bins_add(&pool->holes[block->heap], block);
}

bool leati_is_idle_for(const struct leati_block *block, const struct leati_stream_cache *cache)
{
    return block && leati_state(block) == LEATI_BLOCK_FREE && !block->whole && leati_usable(block, cache);
}

void leati_extents_join_done(struct leat_pool *pool)
{
    leati_assert_locked(&pool->lock);
    for (struct leati_span *span = pool->spans; span; span = span->next)
        for (struct leati_block *block = span->first; block; block = block->after) {
            if (!leati_is_idle_for(block, pool->host) || !leati_is_idle_for(block->after, pool->host))
                continue;
            leati_extent_unbin(pool, block);
            while (leati_is_idle_for(block->after, pool->host)) {
                leati_extent_unbin(pool, block->after);
                if (block->after->idle_since_ns > block->idle_since_ns)
                    block->idle_since_ns = block->after->idle_since_ns;
                leati_extent_join(pool, block, block->after);
            }
            leati_set_cache(block, pool->host);
            block->seq = 0;
            leati_bins_add(&pool->host->bins[block->heap], block);
        }
}

bool leati_usable_by(const struct leati_stream_cache *freed_by, uint64_t seq,
                     const struct leati_stream_cache *cache)
{
    leati_assert(cache->pool);
    if (freed_by == cache || !freed_by->timeline || leati_timeline_is_complete(freed_by->timeline, seq))
        return true;
    return (cache->pool->reuse_flags & LEAT_POOL_REUSE_METHOD_ORDERED) && cache->timeline &&
           leati_timeline_is_ordered_after(cache->timeline, freed_by->timeline, seq);
}

bool leati_usable(const struct leati_block *block, const struct leati_stream_cache *cache)
{
    return leati_usable_by(block->cache, block->seq, cache);
}
