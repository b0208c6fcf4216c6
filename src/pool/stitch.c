/*
 * stitch.c - makes stitched blocks: contiguous addresses over idle pages that are not contiguous.
 *
 * A request may find enough idle memory, but not in one piece. Physical memory can be mapped at several addresses.
 * So a stitched block gets its own addresses in the third range of the pool's reservation, and idle handles from
 * anywhere in the heaps are mapped there one after the other. The handles stay mapped in the heaps too, but their
 * extents there are IN_STITCH while the block is in use. No wait is needed, because the block gets only memory
 * that its stream may use: the stream is ordered after all pending work at the old addresses.
 *
 * When the block is freed, its extents in the heaps become idle memory again, with the block's cache and seq, and
 * join their neighbours. The handles stay mapped at the stitched addresses, and the block becomes DORMANT. The
 * choice of handles depends only on which memory is idle. So a program that repeats its allocations gets the same
 * handles again, finds the dormant block that maps them, and needs no driver call.
 */
#include "pool/pool.h"

#include "base/assert.h"
#include "base/clock.h"
#include "pool/track.h"

#include <stdlib.h>
#include <string.h>

/* The maximum number of stitched blocks. Beyond it the pool unmaps the least recently used dormant block. */
enum { STITCHES_MAX = 512 };

/* The handles and mapping of a stitched block. */
struct leati_stitch {
    struct leati_stitch *next; /* next in the pool's list, which has the most recently used first */
    struct leati_block *block; /* record of the stitched block, with its addresses */
    size_t mapped_bytes;
    uint64_t hash; /* hash of the list of handles */
    size_t count, extent_count;
    struct leati_block **extents; /* the heap extents whose memory the block uses; none while it is dormant */
    struct leati_physical
        *handles[]; /* the handles, in the order of their heap addresses; they are mapped in this order */
};

/* The idle extents and handles that a new stitched block may use. */
struct gathered {
    struct leati_block **extents;
    size_t extent_count, extent_room;
    struct leati_physical **handles;
    size_t handle_count, handle_room;
};

static uintptr_t end_of(const struct leati_block *block)
{
    return leati_base(block) + leati_bytes(block);
}

static leat_status no_memory(void)
{
    return leati_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (records of a stitched block)");
}

/* Makes room for one more element of an array of pointers. */
static bool grow_array(void ***array, size_t count, size_t *room)
{
    size_t more = *room ? *room * 2 : 256;
    void **grown;

    leati_assert(count <= *room);
    if (count < *room)
        return true;
    grown = realloc(*array, more * sizeof *grown);
    if (!grown)
        return false;
    *array = grown;
    *room = more;
    return true;
}

/* Compares two extents by size, the largest first, and by address if the sizes are equal, the lowest first. */
static int by_size(const void *a, const void *b)
{
    size_t x = leati_bytes(*(struct leati_block *const *)a), y = leati_bytes(*(struct leati_block *const *)b);

    return x != y ? (x < y) - (x > y) : leati_by_address(a, b);
}

static int by_home(const void *a, const void *b)
{
    uintptr_t x = (*(struct leati_physical *const *)a)->base, y = (*(struct leati_physical *const *)b)->base;

    return (x > y) - (x < y);
}

/* Compares two handles by size, the smallest first, and by address if the sizes are equal, the highest first. */
static int by_handle_size(const void *a, const void *b)
{
    size_t x = (*(struct leati_physical *const *)a)->bytes, y = (*(struct leati_physical *const *)b)->bytes;

    return x != y ? (x > y) - (x < y) : by_home(b, a);
}

/* ---- gathering idle memory ---- */

/* Joins adjacent gathered extents that belong to different caches. This is possible because cache's stream may use
 * all of them. */
static void join_neighbours(struct leat_pool *pool, struct leati_stream_cache *cache, struct gathered *idle)
    LEATI_REQUIRES(pool->lock)
{
    size_t kept = 0;

    qsort(idle->extents, idle->extent_count, sizeof(struct leati_block *), leati_by_address);
    for (size_t i = 0; i < idle->extent_count; kept++) {
        struct leati_block *first = idle->extents[i++];

        leati_assert(leati_state(first) == LEATI_BLOCK_FREE && leati_usable(first, cache));
        idle->extents[kept] = first;
        if (i == idle->extent_count || first->after != idle->extents[i])
            continue;
        leati_extent_unbin(pool, first);
        for (; i < idle->extent_count && first->after == idle->extents[i]; i++) {
            leati_extent_unbin(pool, idle->extents[i]);
            leati_extent_join(pool, first, idle->extents[i]);
        }
        /* Later work of cache's stream is ordered after all earlier uses of the memory. */
        leati_set_cache(first, cache);
        first->seq = cache->timeline ? leati_timeline_now(cache->timeline) : 0;
        leati_bins_add(&cache->bins[first->heap], first);
    }
    idle->extent_count = kept;
}

/* Adds the handles that lie completely inside an idle extent to the gathered handles. */
static bool add_handles(struct leat_pool *pool, struct leati_block *extent, struct gathered *idle)
    LEATI_REQUIRES(pool->lock)
{
    uintptr_t end = end_of(extent);

    for (uintptr_t at = leati_base(extent); at < end;) {
        struct leati_physical *physical = leati_pages_physical(pool, at);

        leati_assert(physical && physical->base <= at && at < physical->base + physical->bytes);
        if (physical->base >= leati_base(extent) && physical->base + physical->bytes <= end) {
            if (!grow_array((void ***)&idle->handles, idle->handle_count, &idle->handle_room))
                return false;
            physical->idle_round = pool->stitch_round;
            physical->idle_in = extent;
            idle->handles[idle->handle_count++] = physical;
        }
        at = physical->base + physical->bytes;
    }
    return true;
}

/* Adds all completely idle handles of a heap that cache's stream may use now to *idle, those in the largest
 * extents first. */
static leat_status gather(struct leat_pool *pool, struct leati_stream_cache *cache, int heap,
                          struct gathered *idle) LEATI_REQUIRES(pool->lock)
{
    idle->extent_count = 0;
    for (struct leati_stream_cache *from = pool->caches; from; from = from->next)
        for (struct leati_block *block = leati_bins_walk(&from->bins[heap], NULL); block;
             block = leati_bins_walk(&from->bins[heap], block)) {
            if (!leati_is_idle_for(block, cache))
                continue;
            if (!grow_array((void ***)&idle->extents, idle->extent_count, &idle->extent_room))
                return no_memory();
            idle->extents[idle->extent_count++] = block;
        }
    if (!idle->extent_count)
        return LEAT_OK;
    join_neighbours(pool, cache, idle);
    qsort(idle->extents, idle->extent_count, sizeof(struct leati_block *), by_size);
    for (size_t i = 0; i < idle->extent_count && leati_bytes(idle->extents[i]) >= LEATI_PAGE_BYTES; i++)
        if (!add_handles(pool, idle->extents[i], idle))
            return no_memory();
    return LEAT_OK;
}

static size_t sum_of(const struct gathered *idle)
{
    size_t bytes = 0;

    for (size_t i = 0; i < idle->handle_count; i++)
        bytes += idle->handles[i]->bytes;
    return bytes;
}

/* Reduces idle->handles to the handles for a block of bytes. Takes the first handles until they are enough, then
 * removes those that are not needed, the smallest first. Returns the total size of the rest. If all handles
 * together are too small, changes nothing and returns their total size. */
static size_t choose(struct gathered *idle, size_t bytes)
{
    size_t sum = 0, count = 0, kept = 0;

    if (!idle->handle_count)
        return 0;
    while (count < idle->handle_count && sum < bytes)
        sum += idle->handles[count++]->bytes;
    if (sum < bytes)
        return sum;
    qsort(idle->handles, count, sizeof(struct leati_physical *), by_handle_size);
    for (size_t i = 0; i < count; i++)
        if (sum - idle->handles[i]->bytes >= bytes)
            sum -= idle->handles[i]->bytes;
        else
            idle->handles[kept++] = idle->handles[i];
    leati_assert(kept && sum >= bytes);
    qsort(idle->handles, kept, sizeof(struct leati_physical *), by_home);
    idle->handle_count = kept;
    return sum;
}

/* ---- existing stitched blocks ---- */

static bool is_dormant(const struct leati_stitch *stitch)
{
    return leati_state(stitch->block) == LEATI_BLOCK_DORMANT;
}

static uint64_t hash_of(struct leati_physical *const *handles, size_t count)
{
    uint64_t hash = count;

    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (uintptr_t)handles[i]) * UINT64_C(0x9E3779B97F4A7C15) ^ hash >> 29;
    return hash;
}

/* Finds a dormant block made of exactly the gathered handles. Returns NULL if there is none. */
static struct leati_stitch *find_same(const struct leat_pool *pool, const struct gathered *idle, size_t alignment)
{
    uint64_t hash = hash_of(idle->handles, idle->handle_count);

    for (struct leati_stitch *stitch = pool->stitches; stitch; stitch = stitch->next)
        if (stitch->hash == hash && stitch->count == idle->handle_count && is_dormant(stitch) &&
            leati_base(stitch->block) % alignment == 0 &&
            !memcmp(stitch->handles, idle->handles, stitch->count * sizeof(struct leati_physical *)))
            return stitch;
    return NULL;
}

static bool is_idle(const struct leat_pool *pool, const struct leati_stitch *stitch)
{
    if (!is_dormant(stitch))
        return false;
    for (size_t i = 0; i < stitch->count; i++)
        if (stitch->handles[i]->idle_round != pool->stitch_round)
            return false;
    return true;
}

/* Finds the smallest dormant block that has room for bytes, consists only of idle handles, and is not much too
 * large. Beyond the page where the request ends, it may have at most 1/16 of bytes or 1/1024 of the pool,
 * whichever is more. So a small pool wastes no page on a small request. Returns NULL if there is none. */
static struct leati_stitch *find_like(const struct leat_pool *pool, size_t bytes, size_t alignment)
{
    size_t spare = (size_t)atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed) / 1024;
    size_t most =
        ((bytes + LEATI_PAGE_BYTES - 1) & ~(LEATI_PAGE_BYTES - 1)) + (bytes / 16 > spare ? bytes / 16 : spare);
    struct leati_stitch *best = NULL;

    for (struct leati_stitch *stitch = pool->stitches; stitch; stitch = stitch->next)
        if (stitch->mapped_bytes >= bytes && stitch->mapped_bytes <= most &&
            (!best || stitch->mapped_bytes < best->mapped_bytes) && leati_base(stitch->block) % alignment == 0 &&
            is_idle(pool, stitch))
            best = stitch;
    return best;
}

static void unlink_stitch(struct leat_pool *pool, struct leati_stitch *stitch)
{
    struct leati_stitch **place = &pool->stitches;

    leati_assert(pool->stitch_count && pool->stitches);
    while (*place != stitch)
        place = &(*place)->next;
    *place = stitch->next;
    pool->stitch_count--;
}

static void link_first(struct leat_pool *pool, struct leati_stitch *stitch)
{
    leati_assert(pool->stitch_count <= STITCHES_MAX);
    stitch->next = pool->stitches;
    pool->stitches = stitch;
    pool->stitch_count++;
}

static void free_stitch(struct leati_stitch *stitch)
{
    leati_assert(!stitch->extent_count || leati_state(stitch->block) != LEATI_BLOCK_DORMANT);
    for (size_t i = 0; i < stitch->count; i++) {
        leati_assert(stitch->handles[i]->stitches);
        stitch->handles[i]->stitches--;
    }
    free(stitch->extents);
    free(stitch);
}

/* Frees the descriptor of a dormant block and gives up its addresses, which are unmapped when no work uses them
 * any more. */
static void end_stitch(struct leat_pool *pool, struct leati_stitch *stitch) LEATI_REQUIRES(pool->lock)
{
    struct leati_block *block = stitch->block;

    leati_assert(is_dormant(stitch) && block->stitch == stitch && !stitch->extent_count);
    unlink_stitch(pool, stitch);
    block->stitch = NULL;
    free_stitch(stitch);
    leati_pages_give_up(pool, block);
}

/* Calls end_stitch() for the least recently used dormant block. Returns false if there is none. */
static bool end_oldest(struct leat_pool *pool) LEATI_REQUIRES(pool->lock)
{
    struct leati_stitch *oldest = NULL;

    for (struct leati_stitch *stitch = pool->stitches; stitch; stitch = stitch->next)
        if (is_dormant(stitch))
            oldest = stitch;
    if (oldest)
        end_stitch(pool, oldest);
    return oldest != NULL;
}

void leati_stitch_forget(struct leat_pool *pool, struct leati_physical *physical)
{
    struct leati_stitch *next;

    leati_assert_locked(&pool->lock);
    for (struct leati_stitch *stitch = physical->stitches ? pool->stitches : NULL; stitch; stitch = next) {
        next = stitch->next;
        for (size_t i = 0; i < stitch->count; i++)
            if (stitch->handles[i] == physical) {
                end_stitch(pool, stitch);
                break;
            }
    }
}

void leati_stitch_settle(struct leat_pool *pool)
{
    leati_assert_locked(&pool->lock);
    for (struct leati_stitch *stitch = pool->stitches; stitch; stitch = stitch->next) {
        struct leati_block *block = stitch->block;

        if (is_dormant(stitch) && block->cache->timeline &&
            leati_timeline_is_complete(block->cache->timeline, block->seq)) {
            leati_set_cache(block, pool->host);
            block->seq = 0;
        }
    }
}

/* ---- creating a stitched block ---- */

/* Finds addresses for a new stitched block. Returns an extent, which is in no bin, or NULL if there is no room. */
static struct leati_block *take_addresses(struct leat_pool *pool, size_t bytes, size_t alignment)
    LEATI_REQUIRES(pool->lock)
{
    struct leati_bins *holes = &pool->holes[LEATI_HEAP_STITCHED];
    struct leati_block *block;
    uintptr_t base;

    leati_assert(bytes % LEATI_PAGE_BYTES == 0);
    if (pool->stitch_count >= STITCHES_MAX)
        end_oldest(pool);
    while (!(block = leati_bins_fit(holes, bytes, alignment, false, NULL))) {
        if (!end_oldest(pool))
            return NULL;
        leati_pages_settle(pool);
    }
    base = (leati_base(block) + alignment - 1) & ~(uintptr_t)(alignment - 1);
    leati_extent_unbin(pool, block);
    if (leati_extent_cut(pool, block, base, bytes) == LEAT_OK) {
        leati_set_state(block, LEATI_BLOCK_LEAVING); /* not HOLE, so that new holes beside it do not join it */
        return block;
    }
    leati_bins_add(holes, block);
    return NULL;
}

/* Creates a dormant stitched block: finds addresses and maps the gathered handles there. */
static leat_status make(struct leat_pool *pool, const struct gathered *idle, size_t bytes, size_t alignment,
                        struct leati_stitch **made) LEATI_REQUIRES(pool->lock)
{
    size_t count = idle->handle_count;
    struct leati_stitch *stitch = malloc(sizeof *stitch + count * sizeof(struct leati_physical *));
    struct leati_block **extents = malloc(count * sizeof(struct leati_block *));
    struct leati_block *block;
    leat_status status;

    leati_assert(count && bytes % LEATI_PAGE_BYTES == 0);
    if (!stitch || !extents) {
        free(stitch);
        free(extents);
        return no_memory();
    }
    block = take_addresses(pool, bytes, alignment);
    if (!block)
        status = leati_fail(LEAT_ERROR_DEVICE_MEMORY,
                            "no addresses are left for a block of %zu bytes in pages that lie apart", bytes);
    else if (!leati_blocks_cover(pool, leati_base(block), bytes, false))
        status = no_memory();
    else
        status = leati_pages_map(pool, idle->handles, count, leati_base(block), bytes);
    if (status != LEAT_OK) {
        if (block)
            leati_extent_hole(pool, block);
        free(stitch);
        free(extents);
        return status;
    }
    leati_assert(leati_bytes(block) == bytes && leati_base(block) % alignment == 0 && !block->stitch);
    *stitch = (struct leati_stitch){.block = block,
                                    .mapped_bytes = bytes,
                                    .hash = hash_of(idle->handles, count),
                                    .count = count,
                                    .extents = extents};
    for (size_t i = 0; i < count; i++) {
        stitch->handles[i] = idle->handles[i];
        idle->handles[i]->stitches++;
    }
    block->stitch = stitch;
    leati_set_cache(block, pool->host);
    block->seq = 0;
    leati_set_state(block, LEATI_BLOCK_DORMANT);
    link_first(pool, stitch);
    leati_count(&pool->figures.stitched_bytes, bytes);
    leati_stats_event(pool, LEAT_POOL_ACTION_MAP, (void *)leati_base(block), bytes, NULL, 0);
    *made = stitch;
    return LEAT_OK;
}

/* ---- using a stitched block ---- */

/* Returns the heap extents of a stitched block to the heaps, as idle memory of cache that work of its stream up to
 * seq may still use. */
static void give_back_extents(struct leat_pool *pool, struct leati_stitch *stitch,
                              struct leati_stream_cache *cache, uint64_t seq) LEATI_REQUIRES(pool->lock)
{
    while (stitch->extent_count)
        leati_extent_free(pool, stitch->extents[--stitch->extent_count], cache, seq);
}

/* Cuts the handles [first, last) of the stitch, which are adjacent in their heap, out of the idle extent that
 * contains them, and marks that part IN_STITCH. Sets *waits if work that is not known to be complete may still use
 * the part. */
static leat_status take_run(struct leat_pool *pool, struct leati_stitch *stitch, size_t first, size_t last,
                            bool *waits) LEATI_REQUIRES(pool->lock)
{
    uintptr_t base = stitch->handles[first]->base;
    size_t bytes = stitch->handles[last - 1]->base + stitch->handles[last - 1]->bytes - base;
    struct leati_block *extent = stitch->handles[first]->idle_in;
    leat_status status;

    leati_assert(first < last && last <= stitch->count && extent && bytes % LEATI_PAGE_BYTES == 0);
    /* If an earlier call cut a run of handles out of the same extent, this run lies in a later part of it. */
    while (end_of(extent) <= base)
        extent = extent->after;
    leati_assert(leati_state(extent) == LEATI_BLOCK_FREE && leati_base(extent) <= base &&
                 base + bytes <= end_of(extent));
    leati_extent_unbin(pool, extent);
    status = leati_extent_cut(pool, extent, base, bytes);
    if (status != LEAT_OK) {
        leati_bins_add(&extent->cache->bins[extent->heap], extent);
        return status;
    }
    *waits =
        *waits || (extent->cache->timeline && !leati_timeline_is_complete(extent->cache->timeline, extent->seq));
    leati_set_state(extent, LEATI_BLOCK_IN_STITCH);
    leati_assert(stitch->extent_count < stitch->count);
    stitch->extents[stitch->extent_count++] = extent;
    return LEAT_OK;
}

/* Makes a dormant block, whose handles must all be idle, a block of bytes for cache. */
static leat_status wake(struct leat_pool *pool, struct leati_stitch *stitch, struct leati_stream_cache *cache,
                        size_t bytes) LEATI_REQUIRES(pool->lock)
{
    struct leati_block *block = stitch->block;
    leat_status status = LEAT_OK;
    bool waits = false;

    leati_assert(is_dormant(stitch) && !stitch->extent_count && bytes <= stitch->mapped_bytes);
    for (size_t first = 0, last; first < stitch->count && status == LEAT_OK; first = last) {
        for (last = first + 1;
             last < stitch->count && stitch->handles[last]->idle_in == stitch->handles[first]->idle_in &&
             stitch->handles[last]->base == stitch->handles[last - 1]->base + stitch->handles[last - 1]->bytes;
             last++)
            ;
        status = take_run(pool, stitch, first, last, &waits);
    }
    if (status != LEAT_OK) {
        give_back_extents(pool, stitch, cache, cache->timeline ? leati_timeline_now(cache->timeline) : 0);
        return status;
    }
    unlink_stitch(pool, stitch);
    link_first(pool, stitch);
    /* Make the block's size equal to the requested size, so that a later request of the same size finds the block
     * in a magazine. */
    atomic_store_explicit(&block->bytes, bytes, memory_order_relaxed);
    /* Without pending work, the block belongs to the host cache, because every stream may use the memory. */
    leati_set_cache(block, waits && cache->timeline ? cache : pool->host);
    block->seq = block->cache->timeline ? leati_timeline_now(cache->timeline) : 0;
    leati_set_state(block, LEATI_BLOCK_LEAVING);
    return LEAT_OK;
}

void leati_stitch_sleep(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                        uint64_t seq)
{
    struct leati_stitch *stitch = block->stitch;

    leati_assert_locked(&pool->lock);
    leati_assert(stitch && stitch->block == block && leati_bytes(block) <= stitch->mapped_bytes);
    give_back_extents(pool, stitch, cache, seq);
    atomic_store_explicit(&block->bytes, stitch->mapped_bytes, memory_order_relaxed);
    leati_set_cache(block, cache);
    block->seq = seq;
    if (!cache->timeline || leati_timeline_is_complete(cache->timeline, seq))
        leati_track_idle(pool, leati_base(block), stitch->mapped_bytes);
    leati_set_state(block, LEATI_BLOCK_DORMANT);
}

leat_status leati_stitch_provide(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes,
                                 size_t alignment, size_t *missing_bytes, struct leati_block **block)
{
    struct leati_stitch *stitch = NULL;
    struct gathered idle = {.extents = NULL};
    size_t found_bytes = 0;
    leat_status status;

    leati_assert_locked(&pool->lock);
    *missing_bytes = 0;
    alignment = alignment > LEATI_PAGE_BYTES ? alignment : LEATI_PAGE_BYTES;
    leati_assert(LEATI_IS_POWER_OF_TWO(alignment) && bytes);
    pool->stitch_round++;
    status = gather(pool, cache, LEATI_HEAP_LARGE, &idle);
    /* Use the heap of small blocks only if necessary, because small requests soon need its idle memory again. */
    if (status == LEAT_OK && sum_of(&idle) < bytes)
        status = gather(pool, cache, LEATI_HEAP_SMALL, &idle);
    if (status == LEAT_OK) {
        found_bytes = choose(&idle, bytes);
        if (!idle.handle_count || found_bytes < bytes) {
            *missing_bytes = leati_round_up(bytes - found_bytes, LEATI_PAGE_BYTES);
            status = leati_fail(LEAT_ERROR_DEVICE_MEMORY, "%zu bytes are idle in whole pages, %zu are too few",
                                found_bytes, *missing_bytes);
        }
    }
    if (status == LEAT_OK) {
        stitch = find_same(pool, &idle, alignment);
        if (!stitch)
            stitch = find_like(pool, bytes, alignment);
        if (stitch)
            leati_count(&pool->figures.stitch_reuses, 1);
        else
            status = make(pool, &idle, found_bytes, alignment, &stitch);
    }
    if (status == LEAT_OK)
        status = wake(pool, stitch, cache, bytes);
    if (status == LEAT_OK) {
        leati_count(&pool->figures.stitches, 1);
        *block = stitch->block;
    }
    free(idle.extents);
    free(idle.handles);
    return status;
}

void leati_stitch_end(struct leat_pool *pool)
{
    leati_assert_locked(&pool->lock);
    while (pool->stitches) {
        struct leati_stitch *stitch = pool->stitches;

        /* A block that was not freed may be shorter than its mapping. leati_pages_end() must unmap all of it. */
        atomic_store_explicit(&stitch->block->bytes, stitch->mapped_bytes, memory_order_relaxed);
        unlink_stitch(pool, stitch);
        free_stitch(stitch);
    }
}
