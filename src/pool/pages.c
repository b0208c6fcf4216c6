/*
 * pages.c - creates, maps and releases the physical memory of pools.
 *
 * With virtual memory a pool has one reservation of three ranges: the heap of small blocks, the heap of large
 * blocks, and the addresses of stitched blocks (stitch.c). A handle is a piece of physical memory, one or more
 * whole pages long. Handles are mapped into the heaps on demand and stay there. A request that finds no idle
 * extent gets new handles, which are mapped into a hole, next to idle memory if possible (the heap grows), or a
 * stitched block. The pool's packing decides which of these two is tried first. If the heap of small blocks cannot
 * grow, it takes idle handles from the heap of large blocks.
 *
 * Without virtual memory, spans are chunks allocated by the driver.
 */
#include "pool/pool.h"

#include "base/addresses.h"
#include "base/assert.h"
#include "base/clock.h"
#include "pool/pinned.h"
#include "pool/track.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A new handle is at most 1/HANDLE_SHARE of the memory that the pool holds, and at most 1/HANDLE_CAPACITY_SHARE of
 * the memory that it can ever hold (its limit, or the device's memory). So a pool grows by few driver calls, but
 * its handles stay small relative to the pool. Small handles matter because only a completely idle handle can
 * become part of a stitched block. */
#define HANDLE_SHARE 128
#define HANDLE_CAPACITY_SHARE 2048
/* The number of handles for a request that is large relative to the pool, such as the first request of a
 * program. */
#define HANDLE_MISSING_SHARE 32
#define HANDLE_MAX_BYTES ((size_t)32 << 20)
/* A heap grows by at least 1/GROWTH_SHARE of its size, even if the request needs less. The heap of small blocks is
 * usually small, so it also grows by at least 1/GROWTH_SHARE_SMALL of the size of the pool. */
#define GROWTH_SHARE 128
#define GROWTH_SHARE_SMALL 512
/* With packing "auto" the pool grows, instead of stitching, as long as it then holds at most so many percent more
 * than its peak of used bytes. */
#define WASTE_PERCENT 4
#define RESERVE_MIN_BYTES (4 * LEATI_PAGE_BYTES) /* the smallest reservation that lay_out() can divide */
#define CHUNK_MIN_BYTES ((size_t)8 << 20)

/* Makes a driver call and sets status to its result. The pool's statistics count the call and its time. */
#define DRIVER(pool, status, entry, ...)                                                                          \
    do {                                                                                                          \
        struct leati_driver *driver_ = (pool)->device->driver;                                                    \
        uint64_t start_ns_ = leati_clock_ns();                                                                    \
        (status) = driver_->ops->entry(driver_, (pool)->device->native, __VA_ARGS__);                             \
        leati_count(&(pool)->figures.driver_ns, leati_clock_ns() - start_ns_);                                    \
        leati_count(&(pool)->figures.driver_calls, 1);                                                            \
    } while (0)

/* A list of handles that are about to be mapped or released. */
struct collected {
    struct leati_physical **handles;
    size_t count, room, bytes;
    bool waits; /* work that is not known to be complete may still use some of the handles */
};

static size_t page_up(size_t bytes)
{
    leati_assert(bytes <= SIZE_MAX - LEATI_PAGE_BYTES);
    return leati_round_up(bytes, LEATI_PAGE_BYTES);
}

static uintptr_t page_down(uintptr_t address)
{
    return address & ~(uintptr_t)(LEATI_PAGE_BYTES - 1);
}

static uintptr_t align_down(uintptr_t address, size_t alignment)
{
    leati_assert(LEATI_IS_POWER_OF_TWO(alignment));
    return address & ~(uintptr_t)(alignment - 1);
}

static uintptr_t align_up(uintptr_t address, size_t alignment)
{
    leati_assert(LEATI_IS_POWER_OF_TWO(alignment));
    return (address + alignment - 1) & ~(uintptr_t)(alignment - 1);
}

static uintptr_t end_of(const struct leati_block *block)
{
    return leati_base(block) + leati_bytes(block);
}

static struct leati_physical **slot_of(struct leat_pool *pool, uintptr_t address)
{
    leati_assert(pool->page_physical && address >= pool->reserved_base);
    leati_assert(address - pool->reserved_base < pool->reserved_span_bytes);
    return &pool->page_physical[(address - pool->reserved_base) / LEATI_PAGE_BYTES];
}

struct leati_physical *leati_pages_physical(struct leat_pool *pool, uintptr_t address)
{
    leati_assert_locked(&pool->lock);
    return *slot_of(pool, address);
}

static void set_physical(struct leat_pool *pool, uintptr_t base, size_t bytes, struct leati_physical *physical)
{
    struct leati_physical **slot = slot_of(pool, base);

    leati_assert(base % LEATI_PAGE_BYTES == 0 && bytes % LEATI_PAGE_BYTES == 0);
    for (size_t i = 0; i < bytes / LEATI_PAGE_BYTES; i++)
        slot[i] = physical;
}

/* ---- the reservation ---- */

/* Creates the three spans of the reservation. The heap of large blocks gets room for all memory of the device. If
 * addresses are scarce, only the other two ranges get less. */
static leat_status lay_out(struct leat_pool *pool) LEATI_REQUIRES(pool->lock)
{
    uintptr_t base = pool->reserved_base, end = base + pool->reserved_span_bytes;
    size_t bytes = pool->reserved_span_bytes, enough_bytes = (size_t)pool->device_bytes / 2 * 3;
    size_t most_bytes = bytes / 4 * 3 < enough_bytes ? bytes / 4 * 3 : enough_bytes;
    size_t large_bytes = page_up(bytes / 8 * 3 > most_bytes ? bytes / 8 * 3 : most_bytes);
    size_t small_bytes = page_up(bytes / 4 < (bytes - large_bytes) / 2 ? bytes / 4 : (bytes - large_bytes) / 2);
    struct leati_span *span;

    leati_assert(pool->reserved_base % LEATI_PAGE_BYTES == 0 && bytes >= RESERVE_MIN_BYTES);
    leati_assert(small_bytes && large_bytes && small_bytes + large_bytes <= bytes);
    LEATI_TRY(leati_span_new(pool, base, small_bytes, LEATI_HEAP_SMALL, LEATI_BLOCK_LEAVING, &span));
    leati_extent_hole(pool, span->first);
    base += small_bytes;
    LEATI_TRY(leati_span_new(pool, base, large_bytes, LEATI_HEAP_LARGE, LEATI_BLOCK_LEAVING, &span));
    leati_extent_hole(pool, span->first);
    base += large_bytes;
    if (base == end)
        return LEAT_OK;
    LEATI_TRY(leati_span_new(pool, base, end - base, LEATI_HEAP_STITCHED, LEATI_BLOCK_LEAVING, &span));
    leati_extent_hole(pool, span->first);
    return LEAT_OK;
}

leat_status leati_pages_reserve(struct leat_pool *pool)
{
    uint64_t limit = atomic_load_explicit(&pool->limit_bytes, memory_order_relaxed);
    uint64_t free_bytes, total_bytes;
    leat_status status;
    void *reserved = NULL;
    size_t bytes, table_bytes;

    leati_assert_locked(&pool->lock);
    if (pool->reserved_base)
        return LEAT_OK;
    leati_assert(pool->virtual_memory && !pool->spans);
    LEATI_TRY(pool->device->driver->ops->device_memory(pool->device->driver, pool->device->native, &free_bytes,
                                                       &total_bytes));
    /* Reserved addresses cost almost nothing, and with more addresses more stitched blocks can stay mapped. A pool
     * with a low limit gets fewer addresses, but enough for all memory of the device, because the limit may be
     * raised later: lay_out() gives three quarters of them to the heap of large blocks. */
    bytes = page_up((size_t)total_bytes) * 8;
    if (limit && limit < total_bytes / 16)
        bytes = page_up((size_t)total_bytes) * 2;
    do {
        DRIVER(pool, status, vm_reserve, bytes, &reserved);
        bytes = status == LEAT_OK ? bytes : page_up(bytes / 2);
    } while (status != LEAT_OK && bytes >= RESERVE_MIN_BYTES);
    LEATI_TRY(status);
    table_bytes = bytes / LEATI_PAGE_BYTES * sizeof(struct leati_physical *);
    pool->page_physical =
        mmap(NULL, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pool->page_physical == MAP_FAILED || (uintptr_t)reserved % LEATI_PAGE_BYTES) {
        if (pool->page_physical != MAP_FAILED)
            munmap(pool->page_physical, table_bytes);
        pool->page_physical = NULL;
        DRIVER(pool, status, vm_unreserve, reserved, bytes);
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the pool's table of pages");
    }
    pool->reserved_base = (uintptr_t)reserved;
    pool->reserved_span_bytes = bytes;
    pool->device_bytes = total_bytes;
    return lay_out(pool);
}

/* ---- handles ---- */

static void put_spare(struct leat_pool *pool, struct collected *collected)
{
    for (size_t i = 0; i < collected->count; i++) {
        struct leati_physical *physical = collected->handles[i];

        leati_assert(!physical->stitches);
        physical->base = 0;
        physical->next = pool->spare;
        pool->spare = physical;
    }
    free(collected->handles);
    *collected = (struct collected){.handles = NULL};
}

/* Makes room in the array for count more handles. */
static leat_status reserve(struct collected *collected, size_t count)
{
    size_t room = collected->room ? collected->room : 16;
    struct leati_physical **grown;

    leati_assert(collected->count <= collected->room);
    if (collected->room - collected->count >= count)
        return LEAT_OK;
    while (room - collected->count < count)
        room *= 2;
    grown = realloc(collected->handles, room * sizeof(struct leati_physical *));
    if (!grown)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (a list of %zu handles)", room);
    collected->handles = grown;
    collected->room = room;
    return LEAT_OK;
}

static void add(struct collected *collected, struct leati_physical *physical)
{
    leati_assert(collected->count < collected->room && !physical->base);
    collected->handles[collected->count++] = physical;
    collected->bytes += physical->bytes;
}

/* Records that work of cache's stream up to seq may still use a handle (cache NULL: no work does), and updates the
 * blocks counters of the caches. */
static void set_user(struct leati_physical *physical, struct leati_stream_cache *cache, uint64_t seq)
{
    leati_assert(!physical->cache || physical->cache->blocks);
    if (physical->cache)
        physical->cache->blocks--;
    if (cache)
        cache->blocks++;
    physical->cache = cache;
    physical->seq = seq;
}

/* Removes from the list the largest spare handle of at most bytes that cache's stream may use, and returns it;
 * NULL if there is none. Sets *waits if work that is not known to be complete may still use the handle. */
static struct leati_physical *take_spare(struct leat_pool *pool, const struct leati_stream_cache *cache,
                                         size_t bytes, bool *waits)
{
    struct leati_physical **best = NULL, *taken;

    for (struct leati_physical **place = &pool->spare; *place; place = &(*place)->next)
        if ((*place)->bytes <= bytes && (!best || (*place)->bytes > (*best)->bytes) &&
            (!(*place)->cache || leati_usable_by((*place)->cache, (*place)->seq, cache)))
            best = place;
    if (!best)
        return NULL;
    taken = *best;
    *best = taken->next;
    *waits = *waits || (taken->cache && !leati_timeline_is_complete(taken->cache->timeline, taken->seq));
    return taken;
}

static leat_status release(struct leat_pool *pool, struct leati_physical *physical)
{
    leat_status status;

    leati_assert(!physical->stitches);
    leati_assert(atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed) >= physical->bytes);
    DRIVER(pool, status, vm_release, physical->handle);
    leati_count(&pool->figures.released_bytes, physical->bytes);
    leati_pool_uncharge(pool, physical->bytes);
    leati_stats_event(pool, LEAT_POOL_ACTION_RELEASE, NULL, physical->bytes, NULL, 0);
    set_user(physical, NULL, 0);
    if (physical->younger)
        physical->younger->older = physical->older;
    else
        pool->youngest_physical = physical->older;
    if (physical->older)
        physical->older->younger = physical->younger;
    free(physical);
    return status;
}

static leat_status create(struct leat_pool *pool, size_t bytes, struct leati_physical **created)
{
    struct leati_physical *physical = calloc(1, sizeof *physical);
    leat_status status;

    if (!physical)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the pool's records");
    leati_assert(bytes && bytes % LEATI_PAGE_BYTES == 0);
    status = leati_pool_charge(pool, bytes);
    if (status == LEAT_OK) {
        DRIVER(pool, status, vm_create, bytes, pool->exportable, &physical->handle);
        if (status != LEAT_OK)
            leati_pool_uncharge(pool, bytes);
    }
    if (status != LEAT_OK) {
        free(physical);
        return status;
    }
    physical->bytes = bytes;
    physical->older = pool->youngest_physical;
    if (physical->older)
        physical->older->younger = physical;
    pool->youngest_physical = physical;
    leati_count(&pool->figures.created_bytes, bytes);
    leati_stats_event(pool, LEAT_POOL_ACTION_GROW, NULL, bytes, NULL, 0);
    *created = physical;
    return LEAT_OK;
}

/* ---- giving up addresses ---- */

/* Unmaps the addresses of an extent that is in no bin, and makes it a hole. Ignores errors, because the addresses
 * are unmapped even if the driver's call fails (driver.h). The call then reports a failure of earlier work, which
 * a later synchronizing call reports too. */
static void unmap_extent(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock)
{
    leat_status ignored;

    leati_error_quiet_begin();
    leati_assert(leati_base(block) % LEATI_PAGE_BYTES == 0 && leati_bytes(block) % LEATI_PAGE_BYTES == 0);
    DRIVER(pool, ignored, vm_unmap, (void *)leati_base(block), leati_bytes(block));
    leati_error_quiet_end();
    (void)ignored;
    leati_track_forget(pool, leati_base(block), leati_bytes(block));
    leati_extent_hole(pool, block);
}

void leati_pages_give_up(struct leat_pool *pool, struct leati_block *block)
{
    leati_assert_locked(&pool->lock);
    leati_assert(leati_state(block) != LEATI_BLOCK_LIVE && block->cache);
    if (!block->cache->timeline || leati_timeline_is_complete(block->cache->timeline, block->seq)) {
        unmap_extent(pool, block);
        return;
    }
    leati_set_state(block, LEATI_BLOCK_STALE);
    block->link = pool->stale;
    pool->stale = block;
}

void leati_pages_settle(struct leat_pool *pool)
{
    struct leati_block **place = &pool->stale, *block;

    leati_assert_locked(&pool->lock);
    leati_stitch_settle(pool);
    while ((block = *place)) {
        if (block->cache->timeline && !leati_timeline_is_complete(block->cache->timeline, block->seq)) {
            place = &block->link;
            continue;
        }
        leati_assert(leati_state(block) == LEATI_BLOCK_STALE);
        *place = block->link;
        unmap_extent(pool, block);
    }
}

/* Finds the first run of adjacent handles that lie completely inside an extent and have at most bytes in total.
 * Returns false if there is none. */
static bool find_run(struct leat_pool *pool, const struct leati_block *block, size_t bytes, uintptr_t *run_base,
                     size_t *run_bytes)
{
    uintptr_t at = align_up(leati_base(block), LEATI_PAGE_BYTES), end = end_of(block);

    *run_bytes = 0;
    while (at + LEATI_PAGE_BYTES <= end) {
        struct leati_physical *physical = *slot_of(pool, at);
        uintptr_t next = physical->base + physical->bytes;

        leati_assert(physical && physical->base <= at && at < next);
        if (physical->base == at && next <= end && *run_bytes + physical->bytes <= bytes) {
            if (!*run_bytes)
                *run_base = at;
            *run_bytes += physical->bytes;
        } else if (*run_bytes) {
            break;
        }
        at = next;
    }
    return *run_bytes > 0;
}

/* Cuts [base, base + bytes) out of the idle extent block, collects its handles and gives up these addresses. The
 * range must begin and end at the bounds of handles. */
static leat_status take_run(struct leat_pool *pool, struct leati_block *block, uintptr_t base, size_t bytes,
                            struct collected *collected) LEATI_REQUIRES(pool->lock)
{
    bool done = !block->cache->timeline || leati_timeline_is_complete(block->cache->timeline, block->seq);
    leat_status status;

    leati_assert(base % LEATI_PAGE_BYTES == 0 && bytes && bytes % LEATI_PAGE_BYTES == 0);
    leati_assert(leati_state(block) == LEATI_BLOCK_FREE && base >= leati_base(block) &&
                 base + bytes <= end_of(block));
    LEATI_TRY(reserve(collected, bytes / LEATI_PAGE_BYTES));
    leati_extent_unbin(pool, block);
    status = leati_extent_cut(pool, block, base, bytes);
    if (status != LEAT_OK) {
        leati_extent_free(pool, block, block->cache, block->seq);
        return status;
    }
    for (uintptr_t at = base; at < base + bytes;) {
        struct leati_physical *physical = *slot_of(pool, at);

        leati_assert(physical->base == at && at + physical->bytes <= base + bytes);
        at += physical->bytes;
        leati_stitch_forget(pool, physical);
        physical->base = 0;
        set_user(physical, done ? NULL : block->cache, block->seq);
        add(collected, physical);
    }
    set_physical(pool, base, bytes, NULL);
    leati_assert(pool->mapped_bytes[block->heap] >= bytes);
    pool->mapped_bytes[block->heap] -= bytes;
    collected->waits = collected->waits || !done;
    leati_pages_give_up(pool, block);
    return LEAT_OK;
}

/* Collects the smallest idle handle of the heap of large blocks that cache's stream may use. Returns DEVICE_MEMORY
 * if there is none. */
static leat_status take_smallest(struct leat_pool *pool, struct leati_stream_cache *cache,
                                 struct collected *collected) LEATI_REQUIRES(pool->lock)
{
    struct leati_physical *smallest = NULL;
    struct leati_block *in = NULL;

    for (struct leati_stream_cache *from = pool->caches; from; from = from->next)
        for (struct leati_block *block = leati_bins_walk(&from->bins[LEATI_HEAP_LARGE], NULL);
             block && leati_bytes(block) >= LEATI_PAGE_BYTES && (!smallest || smallest->bytes > LEATI_PAGE_BYTES);
             block = leati_bins_walk(&from->bins[LEATI_HEAP_LARGE], block)) {
            if (!leati_is_idle_for(block, cache))
                continue;
            for (uintptr_t at = leati_base(block); at < end_of(block);) {
                struct leati_physical *physical = *slot_of(pool, at);

                at = physical->base + physical->bytes;
                if (physical->base >= leati_base(block) && at <= end_of(block) &&
                    (!smallest || physical->bytes < smallest->bytes)) {
                    smallest = physical;
                    in = block;
                }
            }
        }
    if (!smallest)
        return leati_fail(LEAT_ERROR_DEVICE_MEMORY, "no page of the large blocks is idle as a whole");
    return take_run(pool, in, smallest->base, smallest->bytes, collected);
}

/* ---- placing ---- */

/* A possible place for a block of which some part has no memory yet. Memory must be mapped at [map_base, map_base
 * + map_bytes), which is a part of hole. lower and upper are the adjacent idle extents that the block uses too, or
 * NULL. */
struct page_place {
    struct leati_block *hole, *lower, *upper;
    uintptr_t base;
    uintptr_t map_base;
    size_t map_bytes;
};

/* Computes map_base and map_bytes of a place whose other fields are set, and clears lower and upper if the block
 * does not use them. Returns false if the block does not fit. */
static bool fit_place(struct page_place *place, size_t bytes)
{
    uintptr_t hole_base = leati_base(place->hole), hole_end = end_of(place->hole), end = place->base + bytes;

    leati_assert(bytes && leati_state(place->hole) == LEATI_BLOCK_HOLE);
    if (end < place->base || end <= hole_base || place->base >= hole_end)
        return false;
    if (end > hole_end && (!place->upper || end > end_of(place->upper)))
        return false;
    place->map_base = place->base > hole_base ? page_down(place->base) : hole_base;
    place->map_bytes = (end > hole_end ? hole_end : align_up(end, LEATI_PAGE_BYTES)) - place->map_base;
    if (place->base >= hole_base)
        place->lower = NULL;
    if (end < hole_end)
        place->upper = NULL;
    leati_assert(place->map_bytes && place->map_base >= hole_base &&
                 place->map_base + place->map_bytes <= hole_end);
    leati_assert(place->map_base % LEATI_PAGE_BYTES == 0 && place->map_bytes % LEATI_PAGE_BYTES == 0);
    return true;
}

/* Total size of the handles that a block would overlap. idle counts only the handles that are completely idle, all
 * counts all of them. */
struct touched_pages {
    size_t idle, all;
};

/* Computes the sizes for a block at base. [first, last) is the range of the completely idle handles. */
static struct touched_pages handles_touched(struct leat_pool *pool, uintptr_t base, size_t bytes, uintptr_t first,
                                            uintptr_t last)
{
    const struct leati_physical *at_base = *slot_of(pool, base), *at_end = *slot_of(pool, base + bytes - 1);
    uintptr_t low = at_base->base, high = at_end->base + at_end->bytes;
    struct touched_pages touched = {.all = high - low};

    leati_assert(low <= base && high >= base + bytes);
    low = low > first ? low : first;
    high = high < last ? high : last;
    touched.idle = high > low ? high - low : 0;
    return touched;
}

/* Returns the size of the idle neighbours that a place uses. */
static size_t neighbour_bytes(const struct page_place *place)
{
    return (place->lower ? leati_bytes(place->lower) : 0) + (place->upper ? leati_bytes(place->upper) : 0);
}

/* Replaces *best by *place if that is better. The better place needs fewer new pages. If both need as many, it has
 * the smaller idle neighbours and then the smaller hole, so that large extents and holes are preserved. */
static void keep_better(struct page_place *best, const struct page_place *place)
{
    bool better = !best->hole || place->map_bytes < best->map_bytes;

    if (!better && place->map_bytes == best->map_bytes) {
        size_t bytes = neighbour_bytes(place), best_bytes = neighbour_bytes(best);

        better = bytes < best_bytes || (bytes == best_bytes && leati_bytes(place->hole) < leati_bytes(best->hole));
    }
    if (better)
        *best = *place;
}

/* Tries two places for the block at a hole. The first starts where the idle extent below the hole starts or,
 * without such an extent, at the start of the hole. The second ends at the end of the idle extent above the
 * hole. */
static void try_hole(struct leati_block *hole, const struct leati_stream_cache *cache, size_t bytes,
                     size_t alignment, bool beside, struct page_place *best)
{
    struct leati_block *lower = beside && leati_is_idle_for(hole->before, cache) ? hole->before : NULL;
    struct leati_block *upper = beside && leati_is_idle_for(hole->after, cache) ? hole->after : NULL;
    struct page_place place = {.hole = hole, .lower = lower, .upper = upper};

    place.base = align_up(lower ? leati_base(lower) : leati_base(hole), alignment);
    if (fit_place(&place, bytes))
        keep_better(best, &place);
    if (!upper || leati_bytes(upper) >= bytes || end_of(upper) - bytes < leati_base(hole))
        return;
    place = (struct page_place){.hole = hole, .upper = upper};
    place.base = (end_of(upper) - bytes) & ~(uintptr_t)(alignment - 1);
    if (place.base >= leati_base(hole) && fit_place(&place, bytes))
        keep_better(best, &place);
}

/* Finds the best place in the holes of a heap. beside: the block may also use the idle neighbours of a hole. */
static leat_status find_place(struct leat_pool *pool, const struct leati_stream_cache *cache, size_t bytes,
                              size_t alignment, uint8_t heap, bool beside, struct page_place *best)
{
    struct leati_addresses_hint hint;

    *best = (struct page_place){.hole = NULL};
    for (struct leati_block *hole = leati_bins_walk(&pool->holes[heap], NULL); hole;
         hole = leati_bins_walk(&pool->holes[heap], hole))
        try_hole(hole, cache, bytes, alignment, beside && !pool->dedicated, best);
    if (best->hole)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_DEVICE_MEMORY,
                      "%zu bytes are more than the pool's addresses have room for together%s", bytes,
                      leati_addresses_hint(&hint));
}

/* ---- growing ---- */

leat_status leati_pages_map(struct leat_pool *pool, struct leati_physical *const *handles, size_t count,
                            uintptr_t base, size_t bytes)
{
    uintptr_t at = base;
    leat_status status = LEAT_OK;

    leati_assert_locked(&pool->lock);
    leati_assert(count && base % LEATI_PAGE_BYTES == 0 && bytes % LEATI_PAGE_BYTES == 0);
    for (size_t i = 0; i < count && status == LEAT_OK; i++) {
        DRIVER(pool, status, vm_map, (void *)at, handles[i]->bytes, handles[i]->handle);
        if (status == LEAT_OK)
            at += handles[i]->bytes;
    }
    leati_assert(status != LEAT_OK || at == base + bytes);
    if (status == LEAT_OK)
        DRIVER(pool, status, vm_set_access, (void *)base, bytes);
    if (status == LEAT_OK)
        return LEAT_OK;
    if (at > base) {
        leat_status ignored;

        leati_error_quiet_begin();
        DRIVER(pool, ignored, vm_unmap, (void *)base, at - base);
        leati_error_quiet_end();
        (void)ignored;
    }
    return status;
}

/* Returns the size of the next new handle when the pool still needs missing_bytes. */
static size_t handle_bytes(const struct leat_pool *pool, size_t missing_bytes)
{
    uint64_t limit = atomic_load_explicit(&pool->limit_bytes, memory_order_relaxed);
    uint64_t capacity = limit && limit < pool->device_bytes ? limit : pool->device_bytes;
    uint64_t bytes = atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed) / HANDLE_SHARE;

    leati_assert(missing_bytes && missing_bytes % LEATI_PAGE_BYTES == 0);
    if (pool->dedicated)
        return missing_bytes;
    bytes = bytes > missing_bytes / HANDLE_MISSING_SHARE ? bytes : missing_bytes / HANDLE_MISSING_SHARE;
    bytes = bytes < capacity / HANDLE_CAPACITY_SHARE ? bytes : capacity / HANDLE_CAPACITY_SHARE;
    bytes = bytes < HANDLE_MAX_BYTES ? bytes & ~(uint64_t)(LEATI_PAGE_BYTES - 1) : HANDLE_MAX_BYTES;
    bytes = bytes > LEATI_PAGE_BYTES ? bytes : LEATI_PAGE_BYTES;
    return bytes < missing_bytes ? (size_t)bytes : missing_bytes;
}

/* Collects handles of exactly missing_bytes in total: spare handles first, then new ones. If it fails, *collected
 * has the handles collected so far. */
static leat_status collect(struct leat_pool *pool, struct leati_stream_cache *cache, size_t missing_bytes,
                           struct collected *collected)
{
    while (missing_bytes) {
        struct leati_physical *physical;

        LEATI_TRY(reserve(collected, 1));
        physical = pool->dedicated ? NULL : take_spare(pool, cache, missing_bytes, &collected->waits);
        if (!physical)
            LEATI_TRY(create(pool, handle_bytes(pool, missing_bytes), &physical));
        add(collected, physical);
        leati_assert(physical->bytes <= missing_bytes && physical->bytes % LEATI_PAGE_BYTES == 0);
        missing_bytes -= physical->bytes;
    }
    return LEAT_OK;
}

/* Records the addresses of the collected handles, which were mapped contiguously from base on, and frees their
 * array. */
static void settle_at(struct leat_pool *pool, struct collected *collected, uintptr_t base)
{
    for (size_t i = 0; i < collected->count; i++) {
        struct leati_physical *physical = collected->handles[i];

        leati_assert(!physical->base);
        physical->base = base;
        set_user(physical, NULL, 0);
        set_physical(pool, base, physical->bytes, physical);
        base += physical->bytes;
    }
    free(collected->handles);
}

/* Takes a neighbour of a place out of its bin, so that nothing else uses it while memory is mapped at the place.
 * put_back() undoes this. */
static void keep_apart(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock)
{
    if (!block)
        return;
    leati_extent_unbin(pool, block);
    leati_assert(leati_state(block) == LEATI_BLOCK_FREE);
    leati_set_state(block, LEATI_BLOCK_LEAVING);
}

static void put_back(struct leati_block *block)
{
    if (!block)
        return;
    leati_assert(leati_state(block) == LEATI_BLOCK_LEAVING);
    leati_set_state(block, LEATI_BLOCK_FREE);
    leati_bins_add(&block->cache->bins[block->heap], block);
}

/* Maps the collected handles at the place. Its hole must be in no bin and cut to the range to be mapped. */
static leat_status fill_place(struct leat_pool *pool, struct page_place *place, struct collected *collected)
    LEATI_REQUIRES(pool->lock)
{
    leati_assert(collected->bytes == place->map_bytes);
    if (!leati_blocks_cover(pool, place->map_base, place->map_bytes, place->hole->heap == LEATI_HEAP_SMALL))
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (table of blocks)");
    LEATI_TRY(leati_pages_map(pool, collected->handles, collected->count, place->map_base, place->map_bytes));
    settle_at(pool, collected, place->map_base);
    pool->mapped_bytes[place->hole->heap] += place->map_bytes;
    return LEAT_OK;
}

/* Joins the filled hole with the neighbours that the place uses. Returns the joined extent, which is in no bin.
 * waits: work that is not known to be complete may still use the new handles. */
static struct leati_block *join_place(struct leat_pool *pool, struct page_place *place,
                                      struct leati_stream_cache *cache, bool waits) LEATI_REQUIRES(pool->lock)
{
    struct leati_block *block = place->hole;

    leati_assert(!place->upper || place->hole->after == place->upper);
    leati_assert(!place->lower || place->lower->after == place->hole);
    /* Pending work may still use an idle neighbour whose seq is not 0. */
    waits = waits || (place->lower && place->lower->seq) || (place->upper && place->upper->seq);
    block->whole = pool->dedicated;
    block->idle_since_ns = leati_clock_ns();
    if (place->upper)
        leati_extent_join(pool, block, place->upper);
    if (place->lower) {
        leati_extent_join(pool, place->lower, block);
        block = place->lower;
    }
    leati_set_state(block, LEATI_BLOCK_FREE);
    /* The extent belongs to the cache of the request, so that it can join memory that the same stream frees next
     * to it. Memory without pending work has seq 0, so every stream may use it. */
    leati_set_cache(block, cache);
    block->seq = waits && cache->timeline ? leati_timeline_now(cache->timeline) : 0;
    return block;
}

/* Maps memory at a place. from: the handles to map, of exactly map_bytes; NULL: maps spare and new handles. Sets
 * *block to the idle extent, which is in no bin. */
static leat_status fill(struct leat_pool *pool, struct leati_stream_cache *cache, struct page_place *place,
                        const struct collected *from, struct leati_block **block) LEATI_REQUIRES(pool->lock)
{
    struct collected collected = from ? *from : (struct collected){.handles = NULL};
    leat_status status;

    leati_assert(place->hole && place->map_bytes);
    leati_extent_unbin(pool, place->hole);
    status = leati_extent_cut(pool, place->hole, place->map_base, place->map_bytes);
    if (status != LEAT_OK) {
        put_spare(pool, &collected);
        leati_extent_hole(pool, place->hole);
        return status;
    }
    leati_set_state(place->hole, LEATI_BLOCK_LEAVING); /* not HOLE, so that new holes beside it do not join it */
    keep_apart(pool, place->lower);
    keep_apart(pool, place->upper);
    if (!from)
        status = collect(pool, cache, place->map_bytes, &collected);
    if (status == LEAT_OK)
        status = fill_place(pool, place, &collected);
    if (status != LEAT_OK) {
        put_spare(pool, &collected);
        put_back(place->lower);
        put_back(place->upper);
        leati_extent_hole(pool, place->hole);
        return status;
    }
    *block = join_place(pool, place, cache, collected.waits);
    leati_stats_event(pool, LEAT_POOL_ACTION_MAP, (void *)place->map_base, place->map_bytes, cache->timeline, 0);
    return LEAT_OK;
}

static uint64_t reserved(const struct leat_pool *pool)
{
    return atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed);
}

/* Enlarges the range to be mapped beyond the request, so that not every small request needs a driver call. */
static void widen(struct leat_pool *pool, struct page_place *place)
{
    uint8_t heap = place->hole->heap;
    size_t room = end_of(place->hole) - place->map_base - place->map_bytes;
    size_t more = (size_t)(pool->mapped_bytes[heap] / GROWTH_SHARE);
    size_t small_more = heap == LEATI_HEAP_SMALL ? (size_t)(reserved(pool) / GROWTH_SHARE_SMALL) : 0;

    more = more > small_more ? more : small_more;
    if (place->upper || pool->dedicated)
        return;
    more = more < HANDLE_MAX_BYTES ? more & ~(LEATI_PAGE_BYTES - 1) : HANDLE_MAX_BYTES;
    more = more > place->map_bytes ? more - place->map_bytes : 0;
    leati_assert(more % LEATI_PAGE_BYTES == 0);
    place->map_bytes += more < room ? more : room;
}

/* Gets new memory, contiguous with adjacent idle memory if possible. */
static leat_status grow(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes, size_t alignment,
                        uint8_t heap, struct leati_block **block) LEATI_REQUIRES(pool->lock)
{
    struct page_place place;
    leat_status status;

    LEATI_TRY(find_place(pool, cache, bytes, alignment, heap, true, &place));
    widen(pool, &place);
    status = fill(pool, cache, &place, NULL, block);
    if (status != LEAT_ERROR_DEVICE_MEMORY)
        return status;
    /* Retry without the enlargement by widen(). If this fails too, release the spare handles and retry again.
     * Spare handles that are larger than the missing part cannot be used here, but they count against the
     * limit. */
    LEATI_TRY(find_place(pool, cache, bytes, alignment, heap, true, &place));
    status = fill(pool, cache, &place, NULL, block);
    if (status != LEAT_ERROR_DEVICE_MEMORY || !pool->spare)
        return status;
    (void)leati_pages_drop_spare(pool);
    LEATI_TRY(find_place(pool, cache, bytes, alignment, heap, true, &place));
    return fill(pool, cache, &place, NULL, block);
}

/* ---- the arena of a plan ---- */

bool leati_pages_arena(struct leat_pool *pool, size_t bytes, uintptr_t *base)
{
    struct leati_bins *holes = &pool->holes[LEATI_HEAP_STITCHED];
    struct leati_block *block;

    leati_assert_locked(&pool->lock);
    leati_assert(bytes && bytes % LEATI_PAGE_BYTES == 0);
    if (leati_pages_reserve(pool) != LEAT_OK)
        return false;
    block = leati_bins_fit(holes, bytes, LEATI_PAGE_BYTES, false, NULL);
    if (!block)
        return false;
    leati_extent_unbin(pool, block);
    if (leati_extent_cut(pool, block, leati_base(block), bytes) != LEAT_OK) {
        leati_bins_add(holes, block);
        return false;
    }
    leati_set_state(block, LEATI_BLOCK_ARENA);
    *base = leati_base(block);
    return true;
}

/* Maps memory at [base, base + bytes) of the arena, where no page is mapped. */
static leat_status fill_run(struct leat_pool *pool, struct leati_stream_cache *cache, uintptr_t base, size_t bytes)
    LEATI_REQUIRES(pool->lock)
{
    struct collected collected = {.handles = NULL};
    leat_status status = collect(pool, cache, bytes, &collected);

    if (status == LEAT_OK && !leati_blocks_cover(pool, base, bytes, false))
        status = leati_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (table of blocks)");
    leati_assert(status != LEAT_OK || collected.bytes == bytes);
    if (status == LEAT_OK)
        status = leati_pages_map(pool, collected.handles, collected.count, base, bytes);
    if (status != LEAT_OK) {
        put_spare(pool, &collected);
        return status;
    }
    settle_at(pool, &collected, base);
    return LEAT_OK;
}

leat_status leati_pages_fill_arena(struct leat_pool *pool, struct leati_stream_cache *cache, uintptr_t base,
                                   size_t bytes)
{
    uintptr_t at = page_down(base), end = align_up(base + bytes, LEATI_PAGE_BYTES), run;

    leati_assert_locked(&pool->lock);
    while (at < end) {
        if (*slot_of(pool, at)) {
            at += LEATI_PAGE_BYTES;
            continue;
        }
        for (run = at; at < end && !*slot_of(pool, at); at += LEATI_PAGE_BYTES)
            ;
        LEATI_TRY(fill_run(pool, cache, run, at - run));
    }
    return LEAT_OK;
}

bool leati_pages_next(struct leat_pool *pool, uintptr_t base, uint64_t bytes, uint64_t *offset,
                      size_t *handle_bytes)
{
    leati_assert_locked(&pool->lock);
    leati_assert(*offset % LEATI_PAGE_BYTES == 0);
    for (; *offset < bytes; *offset += LEATI_PAGE_BYTES) {
        struct leati_physical *physical = *slot_of(pool, base + *offset);

        if (physical) {
            *handle_bytes = physical->bytes;
            return true;
        }
    }
    return false;
}

leat_status leati_pages_release_at(struct leat_pool *pool, uintptr_t base)
{
    struct leati_physical *physical = *slot_of(pool, base);
    leat_status status, released;

    leati_assert_locked(&pool->lock);
    leati_assert(physical && physical->base == base);
    DRIVER(pool, status, vm_unmap, (void *)base, physical->bytes);
    leati_track_forget(pool, base, physical->bytes);
    set_physical(pool, base, physical->bytes, NULL);
    released = release(pool, physical);
    return status != LEAT_OK ? status : released;
}

/* ---- providing ---- */

/* Makes a stitched block. If too few pages are idle, first grows the pool by the missing bytes, but by no more
 * than at_most_bytes. */
static leat_status stitch(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes, size_t alignment,
                          size_t at_most_bytes, struct leati_block **block) LEATI_REQUIRES(pool->lock)
{
    struct leati_block *grown;
    struct page_place place;
    size_t missing_bytes;
    leat_status status = leati_stitch_provide(pool, cache, bytes, alignment, &missing_bytes, block);

    leati_assert(status != LEAT_OK || !missing_bytes);
    if (status == LEAT_OK || !missing_bytes || missing_bytes > at_most_bytes)
        return status;
    LEATI_TRY(find_place(pool, cache, missing_bytes, LEATI_GRANULE_BYTES, LEATI_HEAP_LARGE, false, &place));
    LEATI_TRY(fill(pool, cache, &place, NULL, &grown));
    leati_extent_free(pool, grown, grown->cache, grown->seq);
    return leati_stitch_provide(pool, cache, bytes, alignment, &missing_bytes, block);
}

/* Returns true if the pool, grown for this request, would hold much more than its peak of used bytes. Also updates
 * that peak. */
static bool wastes(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes, size_t alignment)
{
    uint64_t held = reserved(pool), used = held;
    struct page_place place;

    for (struct leati_stream_cache *other = pool->caches; other; other = other->next)
        used -= other->bins[LEATI_HEAP_SMALL].bytes + other->bins[LEATI_HEAP_LARGE].bytes;
    if (used + bytes > pool->used_peak_bytes)
        pool->used_peak_bytes = used + bytes;
    if (find_place(pool, cache, bytes, alignment, LEATI_HEAP_LARGE, true, &place) != LEAT_OK)
        return true;
    return held + place.map_bytes > pool->used_peak_bytes + pool->used_peak_bytes / 100 * WASTE_PERCENT;
}

/* Provides memory for a large block. If the pool packs tightly, first tries to stitch the block, with at most half
 * of it in new memory. Then tries to grow the heap. If this fails and the packing is not "still", stitches the
 * block with any amount of new memory. */
static leat_status provide_large(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes,
                                 size_t alignment, struct leati_block **block) LEATI_REQUIRES(pool->lock)
{
    struct leati_message message;
    leat_status status, stitched;
    bool tight;

    leati_assert(bytes >= LEATI_LARGE_BYTES);
    if (pool->dedicated)
        return grow(pool, cache, bytes, alignment, LEATI_HEAP_LARGE, block);
    tight = pool->packing == LEAT_POOL_PACKING_TIGHT ||
            (pool->packing == LEAT_POOL_PACKING_AUTO && wastes(pool, cache, bytes, alignment));
    /* Relaxed here and below: only the statistics read the flag. */
    atomic_store_explicit(&pool->is_tight, tight, memory_order_relaxed);
    if (tight) {
        stitched = stitch(pool, cache, bytes, alignment, bytes / 2, block);
        if (stitched != LEAT_ERROR_DEVICE_MEMORY)
            return stitched;
    }
    status = grow(pool, cache, bytes, alignment, LEATI_HEAP_LARGE, block);
    if (status != LEAT_ERROR_DEVICE_MEMORY || pool->packing == LEAT_POOL_PACKING_STILL)
        return status;
    atomic_store_explicit(&pool->is_tight, true, memory_order_relaxed);
    leati_error_keep(&message);
    stitched = stitch(pool, cache, bytes, alignment, SIZE_MAX, block);
    return stitched == LEAT_ERROR_DEVICE_MEMORY ? leati_error_restore(status, &message) : stitched;
}

/* Grows the heap of small blocks. If that fails, moves an idle handle of the heap of large blocks to it. */
static leat_status provide_small(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes,
                                 size_t alignment, struct leati_block **block) LEATI_REQUIRES(pool->lock)
{
    struct collected taken = {.handles = NULL};
    struct page_place place;
    leat_status status = grow(pool, cache, bytes, alignment, LEATI_HEAP_SMALL, block);

    if (status != LEAT_ERROR_DEVICE_MEMORY)
        return status;
    if (LEATI_QUIETLY(take_smallest(pool, cache, &taken)) != LEAT_OK)
        return status;
    status = find_place(pool, cache, taken.bytes, alignment, LEATI_HEAP_SMALL, false, &place);
    if (status == LEAT_OK)
        return fill(pool, cache, &place, &taken, block);
    put_spare(pool, &taken);
    return status;
}

static leat_status provide_virtual(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes,
                                   size_t alignment, struct leati_block **block) LEATI_REQUIRES(pool->lock)
{
    leati_assert(pool->kind != LEAT_KIND_PINNED);
    LEATI_TRY(leati_pages_reserve(pool));
    leati_pages_settle(pool);
    return bytes >= LEATI_LARGE_BYTES ? provide_large(pool, cache, bytes, alignment, block)
                                      : provide_small(pool, cache, bytes, alignment, block);
}

/* ---- chunks, for pools without virtual memory ---- */

static leat_status take_chunk(struct leat_pool *pool, size_t bytes, void **chunk)
{
    leat_status status = LEAT_ERROR_UNSUPPORTED;

    leati_assert(bytes && bytes % LEATI_PAGE_BYTES == 0 && !pool->virtual_memory);
    switch (pool->kind) {
    case LEAT_KIND_PINNED: {
        uint64_t start_ns = leati_clock_ns();

        status = leati_pinned_take(pool->device, bytes, chunk);
        leati_count(&pool->figures.driver_ns, leati_clock_ns() - start_ns);
        leati_count(&pool->figures.driver_calls, 1);
        break;
    }
    case LEAT_KIND_MANAGED:
        DRIVER(pool, status, managed_alloc, bytes, chunk);
        break;
    default:
        DRIVER(pool, status, mem_alloc, bytes, chunk);
        break;
    }
    return status;
}

static leat_status give_chunk_back(struct leat_pool *pool, void *chunk, size_t bytes)
{
    leat_status status;

    leati_track_forget(pool, (uintptr_t)chunk, bytes);
    if (pool->kind == LEAT_KIND_PINNED) {
        uint64_t start_ns = leati_clock_ns();

        status = leati_pinned_give_back(pool->device, chunk, bytes);
        leati_count(&pool->figures.driver_ns, leati_clock_ns() - start_ns);
        leati_count(&pool->figures.driver_calls, 1);
        return status;
    }
    DRIVER(pool, status, mem_free, chunk);
    return status;
}

/* Returns true if limit and budget allow a chunk of bytes. Call before a chunk is made larger than the request
 * needs. */
static bool has_room(struct leat_pool *pool, size_t bytes)
{
    if (LEATI_QUIETLY(leati_pool_charge(pool, bytes)) != LEAT_OK)
        return false;
    leati_pool_uncharge(pool, bytes);
    return true;
}

/* Gets a chunk for a span of span_bytes. Sets *block to its single extent, which is in no bin. */
static leat_status make_chunk(struct leat_pool *pool, size_t span_bytes, uint8_t heap, struct leati_block **block)
    LEATI_REQUIRES(pool->lock)
{
    struct leati_span *span;
    size_t chunk_bytes;
    leat_status status;
    void *chunk = NULL;

    leati_assert(!pool->dedicated && span_bytes % LEATI_PAGE_BYTES == 0);
    /* Pinned chunks are always aligned to LEATI_PAGE_BYTES. If another chunk is not aligned, allocate it again
     * with one page more, so that an aligned span fits in it. */
    for (chunk_bytes = span_bytes;; chunk_bytes += LEATI_PAGE_BYTES) {
        LEATI_TRY(leati_pool_charge(pool, chunk_bytes));
        status = take_chunk(pool, chunk_bytes, &chunk);
        if (status != LEAT_OK) {
            leati_pool_uncharge(pool, chunk_bytes);
            return status;
        }
        if ((uintptr_t)chunk % LEATI_PAGE_BYTES == 0 || chunk_bytes > span_bytes)
            break;
        (void)give_chunk_back(pool, chunk, chunk_bytes);
        leati_pool_uncharge(pool, chunk_bytes);
    }
    status = leati_span_new(pool, align_up((uintptr_t)chunk, LEATI_PAGE_BYTES), span_bytes, heap, LEATI_BLOCK_FREE,
                            &span);
    if (status == LEAT_OK && !leati_blocks_cover(pool, span->base, span_bytes, heap == LEATI_HEAP_SMALL)) {
        pool->spans = span->next;
        leati_block_give_back(span->first);
        free(span);
        status = leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the table of blocks");
    }
    if (status != LEAT_OK) {
        (void)give_chunk_back(pool, chunk, chunk_bytes);
        leati_pool_uncharge(pool, chunk_bytes);
        return status;
    }
    span->chunk = chunk;
    span->chunk_bytes = chunk_bytes;
    leati_set_cache(span->first, pool->host);
    span->first->idle_since_ns = leati_clock_ns();
    leati_count(&pool->figures.created_bytes, chunk_bytes);
    leati_stats_event(pool, LEAT_POOL_ACTION_GROW, chunk, chunk_bytes, NULL, 0);
    *block = span->first;
    return LEAT_OK;
}

/* Gets a chunk for a request. If the driver refuses a chunk that is larger than necessary, gets a smaller one. */
static leat_status provide_chunk(struct leat_pool *pool, size_t bytes, size_t alignment,
                                 struct leati_block **block) LEATI_REQUIRES(pool->lock)
{
    uint8_t heap = bytes >= LEATI_LARGE_BYTES ? LEATI_HEAP_LARGE : LEATI_HEAP_SMALL;
    size_t span_bytes = page_up(bytes + (alignment > LEATI_PAGE_BYTES ? alignment : 0));

    leati_assert(LEATI_IS_POWER_OF_TWO(alignment));
    if (span_bytes < CHUNK_MIN_BYTES && heap == LEATI_HEAP_LARGE && has_room(pool, CHUNK_MIN_BYTES)) {
        leat_status status = make_chunk(pool, CHUNK_MIN_BYTES, heap, block);

        if (status != LEAT_ERROR_DEVICE_MEMORY && status != LEAT_ERROR_HOST_MEMORY)
            return status;
    }
    return make_chunk(pool, span_bytes, heap, block);
}

leat_status leati_pages_provide(struct leat_pool *pool, struct leati_stream_cache *cache, size_t bytes,
                                size_t alignment, struct leati_block **block)
{
    leati_assert(bytes && bytes % LEATI_GRANULE_BYTES == 0 && cache->pool == pool);
    leati_assert_locked(&pool->lock);
    if (pool->virtual_memory)
        return provide_virtual(pool, cache, bytes, alignment, block);
    return provide_chunk(pool, bytes, alignment, block);
}

uintptr_t leati_pages_place(struct leat_pool *pool, const struct leati_block *block, size_t bytes,
                            size_t alignment)
{
    size_t page = alignment > LEATI_PAGE_BYTES ? alignment : LEATI_PAGE_BYTES;
    uintptr_t base = leati_base(block), end = end_of(block), first, last;
    bool whole_pages = bytes % LEATI_PAGE_BYTES == 0;
    /* If a hole follows the extent, place the block low. Then the remainder is next to the hole and can grow into
     * it later. */
    bool low = block->after && leati_state(block->after) == LEATI_BLOCK_HOLE;
    /* Candidates for the start: the block at the lower or upper end of the extent and, for blocks of whole pages,
     * the page-aligned positions nearest to both ends, where the block shares no page with a neighbour. */
    uintptr_t starts[] = {align_up(base, alignment), align_down(end - bytes, alignment), align_up(base, page),
                          align_down(align_down(end, LEATI_PAGE_BYTES) - bytes, alignment)};
    uintptr_t best = starts[0];
    const struct leati_physical *physical;
    struct touched_pages best_touched;

    leati_assert_locked(&pool->lock);
    leati_assert(bytes <= leati_bytes(block));
    if (!pool->virtual_memory || block->heap != LEATI_HEAP_LARGE)
        return best;
    /* [first, last) is the range of the handles that lie completely inside the extent, so are completely idle. */
    physical = *slot_of(pool, base);
    first = physical->base == base ? base : physical->base + physical->bytes;
    physical = *slot_of(pool, end - 1);
    last = physical->base + physical->bytes == end ? end : physical->base;
    best_touched = handles_touched(pool, best, bytes, first, last);
    for (int i = 1; i < (whole_pages ? 4 : 2); i++) {
        struct touched_pages touched;

        if (starts[i] < base || starts[i] + bytes > end || (low && i % 2))
            continue;
        touched = handles_touched(pool, starts[i], bytes, first, last);
        /* Compare the size of all overlapped handles only for blocks of whole pages. If other blocks avoided
         * shared handles, they would leave gaps between each other. */
        if (touched.idle < best_touched.idle ||
            (whole_pages && touched.idle == best_touched.idle && touched.all < best_touched.all)) {
            best = starts[i];
            best_touched = touched;
        }
    }
    leati_assert(best >= base && best + bytes <= end && best % alignment == 0);
    return best;
}

/* ---- giving back ---- */

static leat_status release_all(struct leat_pool *pool, struct collected *collected)
{
    leat_status first = LEAT_OK;

    for (size_t i = 0; i < collected->count; i++) {
        leat_status status = release(pool, collected->handles[i]);

        first = first != LEAT_OK ? first : status;
    }
    free(collected->handles);
    return first;
}

/* Releases a run of handles that lie completely inside an idle extent without pending work. Returns DECLINED if
 * there are none. */
static leat_status trim_extent(struct leat_pool *pool, struct leati_block *block, uint64_t keep_bytes,
                               uint64_t *released_bytes) LEATI_REQUIRES(pool->lock)
{
    uint64_t most = reserved(pool) - keep_bytes;
    struct collected collected = {.handles = NULL};
    size_t run_bytes;
    uintptr_t base;

    leati_assert(reserved(pool) > keep_bytes && leati_state(block) == LEATI_BLOCK_FREE);
    /* If every handle is larger than the excess, release one of them anyway, because the pool may hold at most
     * keep_bytes. */
    if (!find_run(pool, block, (size_t)page_up((size_t)most), &base, &run_bytes) &&
        !find_run(pool, block, SIZE_MAX, &base, &run_bytes))
        return LEATI_DECLINED;
    LEATI_TRY(take_run(pool, block, base, run_bytes, &collected));
    leati_assert(collected.bytes == run_bytes);
    *released_bytes += run_bytes;
    return release_all(pool, &collected);
}

leat_status leati_pages_drop_spare(struct leat_pool *pool)
{
    leat_status first = LEAT_OK;

    leati_assert_locked(&pool->lock);
    while (pool->spare) {
        struct leati_physical *physical = pool->spare;
        leat_status status;

        pool->spare = physical->next;
        status = release(pool, physical);
        first = first != LEAT_OK ? first : status;
    }
    return first;
}

/* Releases handles from the extents of one cache in one heap, the largest extents first. */
static leat_status trim_cache(struct leat_pool *pool, struct leati_stream_cache *cache, int heap,
                              uint64_t keep_bytes, uint64_t before_ns, uint64_t *released_bytes)
    LEATI_REQUIRES(pool->lock)
{
    struct leati_block *block = leati_bins_walk(&cache->bins[heap], NULL);
    leat_status status = LEAT_OK;

    while (block && reserved(pool) > keep_bytes && leati_bytes(block) >= LEATI_PAGE_BYTES) {
        status = block->idle_since_ns <= before_ns && leati_usable(block, pool->host)
                     ? trim_extent(pool, block, keep_bytes, released_bytes)
                     : LEATI_DECLINED;
        if (status < LEAT_OK)
            return status;
        /* If trim_extent() cut the extent, its remainders are in other bins now, so start again. */
        block = leati_bins_walk(&cache->bins[heap], status == LEAT_OK ? NULL : block);
    }
    return LEAT_OK;
}

/* Releases first spare handles, then idle handles of the heap of large blocks, of the heap of small blocks and of
 * the arena, in this order. */
static leat_status trim_virtual(struct leat_pool *pool, uint64_t keep_bytes, uint64_t before_ns,
                                uint64_t *released_bytes) LEATI_REQUIRES(pool->lock)
{
    leat_status status = LEAT_OK;

    while (pool->spare && reserved(pool) > keep_bytes && status == LEAT_OK) {
        struct leati_physical *physical = pool->spare;

        pool->spare = physical->next;
        *released_bytes += physical->bytes;
        status = release(pool, physical);
    }
    for (int heap = LEATI_HEAPS; heap--;)
        for (struct leati_stream_cache *cache = pool->caches; cache && status == LEAT_OK; cache = cache->next)
            status = trim_cache(pool, cache, heap, keep_bytes, before_ns, released_bytes);
    return status == LEAT_OK && reserved(pool) > keep_bytes
               ? leati_pool_plan_trim(pool, keep_bytes, released_bytes)
               : status;
}

/* Releases chunks that are completely idle, because the driver can free a chunk only as a whole. */
static leat_status trim_chunks(struct leat_pool *pool, uint64_t keep_bytes, uint64_t before_ns,
                               uint64_t *released_bytes) LEATI_REQUIRES(pool->lock)
{
    struct leati_span **place = &pool->spans;
    leat_status status = LEAT_OK;

    while (*place && reserved(pool) > keep_bytes && status == LEAT_OK) {
        struct leati_span *span = *place;
        struct leati_block *block = span->first;

        if (leati_state(block) != LEATI_BLOCK_FREE || !leati_usable(block, pool->host) || block->after ||
            block->idle_since_ns > before_ns) {
            place = &span->next;
            continue;
        }
        leati_assert(span->chunk && leati_bytes(block) == span->bytes && !block->before);
        leati_extent_unbin(pool, block);
        leati_blocks_uncover(span->base, span->bytes);
        status = give_chunk_back(pool, span->chunk, span->chunk_bytes);
        if (status != LEAT_OK) {
            /* The chunk could not be freed, so enter its range into the table of blocks again. This cannot run out
             * of memory, because it reuses the memory that leati_blocks_uncover() just freed. */
            (void)leati_blocks_cover(pool, span->base, span->bytes, span->heap == LEATI_HEAP_SMALL);
            leati_bins_add(&block->cache->bins[block->heap], block);
            break;
        }
        *released_bytes += span->chunk_bytes;
        leati_count(&pool->figures.released_bytes, span->chunk_bytes);
        leati_pool_uncharge(pool, span->chunk_bytes);
        leati_stats_event(pool, LEAT_POOL_ACTION_RELEASE, span->chunk, span->chunk_bytes, NULL, 0);
        *place = span->next;
        leati_set_cache(block, NULL);
        leati_block_give_back(block);
        free(span);
    }
    return status;
}

/* Returns how many idle bytes of the cache may still be used by work that is not known to be complete. */
static uint64_t pending_of(struct leat_pool *pool, struct leati_stream_cache *cache)
{
    uint64_t bytes = 0;

    for (int heap = 0; heap < LEATI_HEAPS; heap++)
        for (struct leati_block *block = leati_bins_walk(&cache->bins[heap], NULL); block;
             block = leati_bins_walk(&cache->bins[heap], block))
            bytes += leati_usable(block, pool->host) ? 0 : leati_bytes(block);
    return bytes;
}

leat_status leati_pages_trim(struct leat_pool *pool, uint64_t keep_bytes, uint64_t before_ns,
                             uint64_t *released_bytes, uint64_t *pending_bytes)
{
    leat_status status;

    leati_assert_locked(&pool->lock);
    *released_bytes = *pending_bytes = 0;
    leati_pages_settle(pool);
    leati_extents_join_done(pool);
    status = pool->virtual_memory ? trim_virtual(pool, keep_bytes, before_ns, released_bytes)
                                  : trim_chunks(pool, keep_bytes, before_ns, released_bytes);
    *pending_bytes = leati_pool_plan_pending_bytes(pool);
    for (struct leati_stream_cache *cache = pool->caches; cache; cache = cache->next)
        *pending_bytes += pending_of(pool, cache);
    *pending_bytes += atomic_load_explicit(&pool->figures.pending_bytes, memory_order_relaxed);
    return status;
}

/* ---- releasing everything ---- */

static leat_status first_of(leat_status first, leat_status second)
{
    return first != LEAT_OK ? first : second;
}

/* Unmaps and releases every handle that begins in an extent. */
static leat_status end_extent(struct leat_pool *pool, struct leati_block *block)
{
    leat_status first = LEAT_OK, status;

    if (leati_state(block) == LEATI_BLOCK_HOLE)
        return LEAT_OK;
    leati_track_forget(pool, leati_base(block), leati_bytes(block));
    if (leati_state(block) == LEATI_BLOCK_STALE ||
        (block->heap == LEATI_HEAP_STITCHED && leati_state(block) != LEATI_BLOCK_ARENA)) {
        DRIVER(pool, status, vm_unmap, (void *)leati_base(block), leati_bytes(block));
        return status;
    }
    for (uintptr_t at = page_down(leati_base(block)); at < end_of(block); at += LEATI_PAGE_BYTES) {
        struct leati_physical *physical = *slot_of(pool, at);

        if (!physical || physical->base != at)
            continue;
        DRIVER(pool, status, vm_unmap, (void *)at, physical->bytes);
        first = first_of(first, status);
        set_physical(pool, at, physical->bytes, NULL);
        first = first_of(first, release(pool, physical));
    }
    return first;
}

leat_status leati_pages_end(struct leat_pool *pool)
{
    leat_status first = LEAT_OK, status;

    leati_assert_locked(&pool->lock);
    leati_stitch_end(pool);
    leati_pool_plan_end(pool);
    first = leati_pages_drop_spare(pool);
    while (pool->spans) {
        struct leati_span *span = pool->spans;

        leati_assert(leati_base(span->first) == span->base);
        for (struct leati_block *block = span->first, *after; block; block = after) {
            after = block->after;
            if (!span->chunk)
                first = first_of(first, end_extent(pool, block));
            leati_block_give_back(block);
        }
        leati_blocks_uncover(span->base, span->bytes);
        if (span->chunk) {
            first = first_of(first, give_chunk_back(pool, span->chunk, span->chunk_bytes));
            leati_pool_uncharge(pool, span->chunk_bytes);
        }
        pool->spans = span->next;
        free(span);
    }
    leati_assert(!pool->spare && !pool->youngest_physical);
    if (pool->reserved_base) {
        DRIVER(pool, status, vm_unreserve, (void *)pool->reserved_base, pool->reserved_span_bytes);
        first = first_of(first, status);
        munmap(pool->page_physical, pool->reserved_span_bytes / LEATI_PAGE_BYTES * sizeof *pool->page_physical);
        pool->reserved_base = 0;
    }
    return first;
}
