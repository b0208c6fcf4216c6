/*
 * pages.c - physical memory of pools: creating it, putting it behind addresses, moving it, giving it back.
 *
 * With virtual memory a pool has one reservation, a small part of it for small blocks and the rest for large ones,
 * and handles of whole pages that are mapped into it. A block that fits into no idle extent gets addresses at a
 * hole, next to idle memory if possible, and the pages that are missing there come from spare handles, from idle
 * extents elsewhere (they move) and at last from the driver. Moving never waits: memory whose old work may still
 * run is mapped at the new place as well, for the same stream or one that is ordered behind it, and the old
 * addresses are unmapped once that work is known to be done.
 *
 * Without virtual memory, spans are chunks of the driver's.
 */
#include "pool/pool.h"

#include "base/clock.h"
#include "pool/pinned.h"
#include "pool/track.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Handles are an eighth of the request that they are made for, so that a request takes few calls and its memory
 * can still move on in parts. */
#define HANDLES_EACH 32
#define HANDLE_MAX_BYTES ((size_t)16 << 20)
/* While less than this share of a pool is idle, blocks are packed as densely as they can be. */
#define DENSE_SHARE 10
#define RESERVE_MIN_BYTES ((size_t)256 << 20)
#define CHUNK_MIN_BYTES ((size_t)8 << 20)
#define SMALL_GROWTH_MAX_BYTES ((size_t)32 << 20)

/* One call of the driver, counted and timed. */
#define DRIVER(pool, status, entry, ...)                                                                          \
    do {                                                                                                          \
        struct leati_driver *driver_ = (pool)->device->driver;                                                    \
        uint64_t start_ns_ = leati_clock_ns();                                                                    \
        (status) = driver_->ops->entry(driver_, (pool)->device->native, __VA_ARGS__);                             \
        leati_count(&(pool)->figures.driver_ns, leati_clock_ns() - start_ns_);                                    \
        leati_count(&(pool)->figures.driver_calls, 1);                                                            \
    } while (0)

static size_t page_up(size_t bytes)
{
    return leati_round_up(bytes, LEATI_PAGE_BYTES);
}

static uintptr_t page_down(uintptr_t address)
{
    return address & ~(uintptr_t)(LEATI_PAGE_BYTES - 1);
}

static uintptr_t align_up(uintptr_t address, size_t alignment)
{
    return (address + alignment - 1) & ~(uintptr_t)(alignment - 1);
}

static uintptr_t end_of(const struct leati_block *block)
{
    return leati_base(block) + leati_bytes(block);
}

static struct leati_physical **slot_of(struct leat_pool *pool, uintptr_t address)
{
    return &pool->page_physical[(address - pool->reserved_base) / LEATI_PAGE_BYTES];
}

struct leati_physical *leati_pages_physical(struct leat_pool *pool, uintptr_t address)
{
    return *slot_of(pool, address);
}

static void set_physical(struct leat_pool *pool, uintptr_t base, size_t bytes, struct leati_physical *physical)
{
    struct leati_physical **slot = slot_of(pool, base);

    for (size_t i = 0; i < bytes / LEATI_PAGE_BYTES; i++)
        slot[i] = physical;
}

/* ---- the reservation ---- */

/* Makes the two spans of a reservation that is there. */
static leat_status lay_out(struct leat_pool *pool, size_t small_bytes)
{
    struct leati_span *span;

    LEATI_TRY(
        leati_span_new(pool, pool->reserved_base, small_bytes, LEATI_HEAP_SMALL, LEATI_BLOCK_LEAVING, &span));
    leati_extent_hole(pool, span->first);
    LEATI_TRY(leati_span_new(pool, pool->reserved_base + small_bytes, pool->reserved_span_bytes - small_bytes,
                             LEATI_HEAP_LARGE, LEATI_BLOCK_LEAVING, &span));
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

    if (pool->reserved_base)
        return LEAT_OK;
    LEATI_TRY(pool->device->driver->ops->device_memory(pool->device->driver, pool->device->native, &free_bytes,
                                                       &total_bytes));
    /* Addresses cost next to nothing, and the more there are, the less often must old ones be made free for new
     * places. A pool with a low limit needs fewer, though the limit may be raised later. */
    bytes = page_up((size_t)total_bytes) * 8;
    if (limit && limit < total_bytes / 16)
        bytes = page_up((size_t)total_bytes);
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
    return lay_out(pool, page_up(bytes / 4));
}

/* ---- handles ---- */

static void put_spare(struct leat_pool *pool, struct leati_physical *list)
{
    while (list) {
        struct leati_physical *next = list->next;

        list->base = 0;
        list->next = pool->spare;
        pool->spare = list;
        list = next;
    }
}

/* Says whose old work may still use a handle. */
static void set_user(struct leati_physical *physical, struct leati_owner *owner, uint64_t tick)
{
    if (physical->owner)
        physical->owner->blocks--;
    if (owner)
        owner->blocks++;
    physical->owner = owner;
    physical->tick = tick;
}

/* The largest spare handle of at most bytes that owner may use, taken out of the list; NULL when there is none. */
static struct leati_physical *take_spare(struct leat_pool *pool, const struct leati_owner *owner, size_t bytes,
                                         bool *waits)
{
    struct leati_physical **best = NULL, *taken;

    for (struct leati_physical **place = &pool->spare; *place; place = &(*place)->next)
        if ((*place)->bytes <= bytes && (!best || (*place)->bytes > (*best)->bytes) &&
            (!(*place)->owner || leati_usable_by((*place)->owner, (*place)->tick, owner)))
            best = place;
    if (!best)
        return NULL;
    taken = *best;
    *best = taken->next;
    *waits = *waits || (taken->owner && !leati_order_known(taken->owner->order, taken->tick));
    return taken;
}

static leat_status release(struct leat_pool *pool, struct leati_physical *physical)
{
    leat_status status;

    DRIVER(pool, status, vm_release, physical->handle);
    leati_count(&pool->figures.released_bytes, physical->bytes);
    leati_pool_uncharge(pool, physical->bytes);
    leati_see_event(pool, LEAT_POOL_RELEASE, NULL, physical->bytes, NULL, 0);
    set_user(physical, NULL, 0);
    free(physical);
    return status;
}

static leat_status create(struct leat_pool *pool, size_t bytes, struct leati_physical **created)
{
    struct leati_physical *physical = calloc(1, sizeof *physical);
    leat_status status;

    if (!physical)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the pool's records");
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
    leati_count(&pool->figures.created_bytes, bytes);
    leati_see_event(pool, LEAT_POOL_GROW, NULL, bytes, NULL, 0);
    *created = physical;
    return LEAT_OK;
}

/* ---- moving ---- */

/* Unmaps the addresses of an extent that is in no bin and makes them a hole. A driver that fails has taken them
 * away all the same (driver.h); what went wrong before comes back from the calls that wait for the device. */
static void unmap_extent(struct leat_pool *pool, struct leati_block *block)
{
    struct leati_sentence sentence;
    leat_status ignored;

    leati_error_keep(&sentence);
    DRIVER(pool, ignored, vm_unmap, (void *)leati_base(block), leati_bytes(block));
    leati_error_restore(ignored, &sentence);
    leati_track_forget(pool, leati_base(block), leati_bytes(block));
    leati_extent_hole(pool, block);
}

static void make_stale(struct leat_pool *pool, struct leati_block *block)
{
    leati_set_state(block, LEATI_BLOCK_STALE);
    block->link = pool->stale;
    pool->stale = block;
}

void leati_pages_settle(struct leat_pool *pool)
{
    struct leati_block **place = &pool->stale, *block;

    while ((block = *place)) {
        if (block->owner->order && !leati_order_known(block->owner->order, block->tick)) {
            place = &block->link;
            continue;
        }
        *place = block->link;
        unmap_extent(pool, block);
    }
}

/* The first run of whole handles within an extent, of at most bytes together; false when there is none. */
static bool find_run(struct leat_pool *pool, const struct leati_block *block, size_t bytes, uintptr_t *run_base,
                     size_t *run_bytes)
{
    uintptr_t at = align_up(leati_base(block), LEATI_PAGE_BYTES), end = end_of(block);

    *run_bytes = 0;
    while (at + LEATI_PAGE_BYTES <= end) {
        struct leati_physical *physical = *slot_of(pool, at);
        uintptr_t next = physical->base + physical->bytes;

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

/* Takes the handles of [base, base + bytes) away from the idle extent block and puts them into *list, in order. */
static leat_status take_run(struct leat_pool *pool, struct leati_block *block, uintptr_t base, size_t bytes,
                            struct leati_physical ***list)
{
    bool done = !block->owner->order || leati_order_known(block->owner->order, block->tick);
    leat_status status;

    leati_extent_unbin(pool, block);
    status = leati_extent_cut(pool, block, base, bytes);
    if (status != LEAT_OK) {
        leati_extent_free(pool, block, block->owner, block->tick);
        return status;
    }
    for (uintptr_t at = base; at < base + bytes;) {
        struct leati_physical *physical = *slot_of(pool, at);

        at += physical->bytes;
        physical->base = 0;
        physical->next = NULL;
        set_user(physical, done ? NULL : block->owner, block->tick);
        **list = physical;
        *list = &physical->next;
    }
    set_physical(pool, base, bytes, NULL);
    if (done)
        unmap_extent(pool, block);
    else
        make_stale(pool, block);
    leati_count(&pool->figures.moved_bytes, bytes);
    return LEAT_OK;
}

/* Takes idle handles of at most bytes from one place of one owner's. */
static bool take_from(struct leat_pool *pool, struct leati_owner *from, struct leati_owner *owner, size_t bytes,
                      size_t *taken_bytes, bool *waits, struct leati_physical ***list)
{
    for (int heap = LEATI_HEAPS; heap--;) {
        for (struct leati_block *block = leati_bins_walk(&from->bins[heap], NULL);
             block && leati_bytes(block) >= LEATI_PAGE_BYTES; block = leati_bins_walk(&from->bins[heap], block)) {
            uintptr_t base;

            if (!leati_usable(block, owner) || !find_run(pool, block, bytes, &base, taken_bytes))
                continue;
            *waits = *waits || (block->owner->order && !leati_order_known(block->owner->order, block->tick));
            return take_run(pool, block, base, *taken_bytes, list) == LEAT_OK;
        }
    }
    return false;
}

/* block, if it is idle memory that owner may use and that can be cut and joined; else NULL. */
static struct leati_block *idle_neighbour(struct leati_block *block, const struct leati_owner *owner)
{
    return block && leati_state(block) == LEATI_BLOCK_FREE && !block->whole && leati_usable(block, owner) ? block
                                                                                                          : NULL;
}

/* Is the handle within idle extents that owner may use? *first and *last: those at its ends. */
static bool covered(const struct leati_physical *physical, const struct leati_owner *owner,
                    struct leati_block **first, struct leati_block **last)
{
    uintptr_t end = physical->base + physical->bytes;

    while (*first && leati_base(*first) > physical->base)
        *first = idle_neighbour((*first)->before, owner);
    while (*last && end_of(*last) < end)
        *last = idle_neighbour((*last)->after, owner);
    return *first && *last;
}

/* Makes one extent of owner's out of exactly the handle's addresses. */
static bool isolate(struct leat_pool *pool, const struct leati_physical *physical, struct leati_owner *owner,
                    struct leati_block *first, struct leati_block *last)
{
    uintptr_t end = physical->base + physical->bytes;
    leat_status status;

    leati_extent_unbin(pool, first);
    status = leati_extent_cut(pool, first, physical->base, end_of(first) - physical->base);
    if (status == LEAT_OK) {
        leati_extent_unbin(pool, last);
        status = leati_extent_cut(pool, last, leati_base(last), end - leati_base(last));
        if (status != LEAT_OK)
            leati_bins_add(&last->owner->bins[last->heap], last);
    }
    if (status == LEAT_OK) {
        while (first->after != last) {
            leati_extent_unbin(pool, first->after);
            leati_extent_join(pool, first, first->after);
        }
        leati_extent_join(pool, first, last);
        leati_set_owner(first, owner);
        first->tick = owner->order ? leati_order_now(owner->order) : 0;
    }
    leati_bins_add(&first->owner->bins[first->heap], first);
    return status == LEAT_OK;
}

/* Looks for handles that are idle, but lie in extents of several owners. */
static bool isolate_shared(struct leat_pool *pool, struct leati_owner *owner)
{
    bool any = false;

    for (struct leati_span *span = pool->spans; span; span = span->next)
        for (struct leati_block *block = span->first; block; block = block->after) {
            struct leati_block *first = idle_neighbour(block, owner), *last = idle_neighbour(block->after, owner);
            struct leati_physical *physical;

            if (!first || !last)
                continue;
            physical = *slot_of(pool, leati_base(last) - 1);
            if (physical->base + physical->bytes > leati_base(last) && covered(physical, owner, &first, &last) &&
                isolate(pool, physical, owner, first, last)) {
                any = true;
                block = first;
            }
        }
    return any;
}

static bool take_idle(struct leat_pool *pool, struct leati_owner *owner, size_t bytes, size_t *taken_bytes,
                      bool *waits, struct leati_physical ***list)
{
    if (take_from(pool, pool->host, owner, bytes, taken_bytes, waits, list))
        return true;
    for (struct leati_owner *from = pool->owners; from; from = from->next)
        if (from != pool->host && take_from(pool, from, owner, bytes, taken_bytes, waits, list))
            return true;
    return isolate_shared(pool, owner) && take_from(pool, owner, owner, bytes, taken_bytes, waits, list);
}

/* ---- placing ---- */

/* Where a block could go: memory is missing in [map_base, map_base + map_bytes) of hole; lower and upper are idle
 * neighbours that it uses too, or NULL. */
struct place {
    struct leati_block *hole, *lower, *upper;
    uintptr_t base;
    uintptr_t map_base;
    size_t map_bytes;
};

/* Completes a place whose base is set; false when it does not fit. */
static bool fit_place(struct place *place, size_t bytes)
{
    uintptr_t hole_base = leati_base(place->hole), hole_end = end_of(place->hole), end = place->base + bytes;

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
    return true;
}

/* How much of the neighbours a place uses. */
static size_t neighbour_bytes(const struct place *place)
{
    return (place->lower ? leati_bytes(place->lower) : 0) + (place->upper ? leati_bytes(place->upper) : 0);
}

/* Fewest pages first; then the smallest pieces beside them, and the smallest hole, so that large ones stay. */
static void keep_better(struct place *best, const struct place *place)
{
    bool better = !best->hole || place->map_bytes < best->map_bytes;

    if (!better && place->map_bytes == best->map_bytes) {
        size_t bytes = neighbour_bytes(place), best_bytes = neighbour_bytes(best);

        better = bytes < best_bytes || (bytes == best_bytes && leati_bytes(place->hole) < leati_bytes(best->hole));
    }
    if (better)
        *best = *place;
}

static void try_hole(struct leati_block *hole, const struct leati_owner *owner, size_t bytes, size_t alignment,
                     bool beside, struct place *best)
{
    struct leati_block *lower = beside ? idle_neighbour(hole->before, owner) : NULL;
    struct leati_block *upper = beside ? idle_neighbour(hole->after, owner) : NULL;
    struct place place = {.hole = hole, .lower = lower, .upper = upper};

    place.base = align_up(lower ? leati_base(lower) : leati_base(hole), alignment);
    if (fit_place(&place, bytes))
        keep_better(best, &place);
    if (!upper || leati_bytes(upper) >= bytes || end_of(upper) - bytes < leati_base(hole))
        return;
    place = (struct place){.hole = hole, .upper = upper};
    place.base = (end_of(upper) - bytes) & ~(uintptr_t)(alignment - 1);
    if (place.base >= leati_base(hole) && fit_place(&place, bytes))
        keep_better(best, &place);
}

/* beside: idle neighbours of holes may be used. */
static leat_status find_place(struct leat_pool *pool, const struct leati_owner *owner, size_t bytes,
                              size_t alignment, uint8_t heap, bool beside, struct place *best)
{
    *best = (struct place){.hole = NULL};
    for (struct leati_block *hole = leati_bins_walk(&pool->holes[heap], NULL); hole;
         hole = leati_bins_walk(&pool->holes[heap], hole))
        try_hole(hole, owner, bytes, alignment, beside && !pool->one_handle, best);
    if (best->hole)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_DEVICE_MEMORY,
                      "%zu bytes are more than the pool's addresses have room for together", bytes);
}

bool leati_pages_denser(struct leat_pool *pool, const struct leati_owner *owner, size_t bytes, size_t alignment,
                        size_t pages)
{
    uint64_t idle_bytes = 0;
    struct place place;

    if (!pool->virtual_memory || pool->one_handle || !pages)
        return false;
    for (struct leati_owner *other = pool->owners; other; other = other->next)
        idle_bytes += other->bins[LEATI_HEAP_LARGE].bytes;
    if (idle_bytes > atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed) / DENSE_SHARE)
        return false;
    return find_place(pool, owner, bytes, alignment, LEATI_HEAP_LARGE, true, &place) == LEAT_OK &&
           place.map_bytes / LEATI_PAGE_BYTES < pages;
}

/* More than is asked for, so that small blocks do not take a call for every page. */
static void widen(struct leat_pool *pool, struct place *place, uint8_t heap)
{
    size_t room = end_of(place->hole) - place->map_base - place->map_bytes, more;

    if (heap != LEATI_HEAP_SMALL || place->upper || pool->one_handle)
        return;
    more =
        atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed) / 1024 & ~(LEATI_PAGE_BYTES - 1);
    more = more < SMALL_GROWTH_MAX_BYTES ? more : SMALL_GROWTH_MAX_BYTES;
    place->map_bytes += more < room ? more : room;
}

/* ---- providing ---- */

static size_t handle_bytes(const struct leat_pool *pool, size_t request_bytes, size_t missing_bytes)
{
    size_t bytes = LEATI_PAGE_BYTES;

    if (pool->one_handle)
        return missing_bytes;
    while (bytes * 2 <= request_bytes / HANDLES_EACH && bytes < HANDLE_MAX_BYTES)
        bytes *= 2;
    return bytes < missing_bytes ? bytes : missing_bytes;
}

/* Collects physical memory of exactly missing_bytes into *list. On failure what was collected is in *list too. */
static leat_status collect(struct leat_pool *pool, struct leati_owner *owner, size_t request_bytes,
                           size_t missing_bytes, bool may_create, bool *waits, struct leati_physical **list)
{
    struct leati_physical **end = list;
    bool idle_left = !pool->one_handle;

    *list = NULL;
    while (missing_bytes) {
        struct leati_physical *physical = pool->one_handle ? NULL : take_spare(pool, owner, missing_bytes, waits);
        size_t taken_bytes = 0;

        if (!physical && idle_left) {
            idle_left = take_idle(pool, owner, missing_bytes, &taken_bytes, waits, &end);
            if (idle_left) {
                missing_bytes -= taken_bytes;
                continue;
            }
        }
        if (!physical) {
            size_t bytes = handle_bytes(pool, request_bytes, missing_bytes);

            if (!may_create)
                return leati_fail(LEAT_ERROR_DEVICE_MEMORY, "no idle memory is left");
            LEATI_TRY(create(pool, bytes, &physical));
        }
        physical->next = NULL;
        *end = physical;
        end = &physical->next;
        missing_bytes -= physical->bytes;
    }
    return LEAT_OK;
}

/* Maps the handles of list one after the other from base on. */
static leat_status map_list(struct leat_pool *pool, struct leati_physical *list, uintptr_t base, size_t bytes)
{
    uintptr_t at = base;
    leat_status status = LEAT_OK;
    struct leati_sentence sentence;

    for (struct leati_physical *physical = list; physical && status == LEAT_OK; physical = physical->next) {
        DRIVER(pool, status, vm_map, (void *)at, physical->bytes, physical->handle);
        if (status == LEAT_OK)
            at += physical->bytes;
    }
    if (status == LEAT_OK)
        DRIVER(pool, status, vm_set_access, (void *)base, bytes);
    if (status == LEAT_OK)
        return LEAT_OK;
    leati_error_keep(&sentence);
    if (at > base) {
        leat_status ignored;

        DRIVER(pool, ignored, vm_unmap, (void *)base, at - base);
        (void)ignored;
    }
    return leati_error_restore(status, &sentence);
}

/* Puts list behind the piece [map_base, ...) of the hole, which is cut out and in no bin. */
static leat_status fill_hole(struct leat_pool *pool, struct place *place, struct leati_physical *list,
                             uint8_t heap)
{
    uintptr_t at = place->map_base;

    if (!leati_blocks_cover(pool, place->map_base, place->map_bytes, heap == LEATI_HEAP_SMALL))
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the table of blocks");
    LEATI_TRY(map_list(pool, list, place->map_base, place->map_bytes));
    while (list) {
        struct leati_physical *next = list->next;

        list->base = at;
        set_user(list, NULL, 0);
        set_physical(pool, at, list->bytes, list);
        at += list->bytes;
        list = next;
    }
    return LEAT_OK;
}

/* Takes a neighbour out of its bin, so that nobody takes its pages, and puts it back. */
static void keep_apart(struct leat_pool *pool, struct leati_block *block)
{
    if (!block)
        return;
    leati_extent_unbin(pool, block);
    leati_set_state(block, LEATI_BLOCK_LEAVING);
}

static void put_back(struct leati_block *block)
{
    if (!block)
        return;
    leati_set_state(block, LEATI_BLOCK_FREE);
    leati_bins_add(&block->owner->bins[block->heap], block);
}

/* Joins the filled piece with the neighbours that the place uses. waits: some of it is ordered after work of
 * streams. */
static struct leati_block *join_place(struct leat_pool *pool, struct place *place, struct leati_owner *owner,
                                      bool waits)
{
    struct leati_block *block = place->hole;

    waits = waits || (place->lower && place->lower->owner->order) || (place->upper && place->upper->owner->order);
    block->whole = pool->one_handle;
    block->idle_since_ns = leati_clock_ns();
    if (place->upper)
        leati_extent_join(pool, block, place->upper);
    if (place->lower) {
        leati_extent_join(pool, place->lower, block);
        block = place->lower;
    }
    leati_set_state(block, LEATI_BLOCK_FREE);
    /* What owner's stream may use now is ordered before all that it is given from now on. */
    leati_set_owner(block, waits && owner->order ? owner : pool->host);
    block->tick = block->owner->order ? leati_order_now(owner->order) : 0;
    return block;
}

/* Maps what is missing at a place and gives the idle extent there. */
static leat_status provide_at(struct leat_pool *pool, struct leati_owner *owner, size_t bytes, struct place *place,
                              bool may_create, struct leati_block **block)
{
    struct leati_physical *list = NULL;
    uint8_t heap = place->hole->heap;
    bool waits = false;
    leat_status status;

    leati_extent_unbin(pool, place->hole);
    status = leati_extent_cut(pool, place->hole, place->map_base, place->map_bytes);
    if (status != LEAT_OK) {
        leati_extent_hole(pool, place->hole);
        return status;
    }
    leati_set_state(place->hole, LEATI_BLOCK_LEAVING); /* so that holes made meanwhile do not join it */
    keep_apart(pool, place->lower);
    keep_apart(pool, place->upper);
    status = collect(pool, owner, bytes, place->map_bytes, may_create, &waits, &list);
    if (status == LEAT_OK)
        status = fill_hole(pool, place, list, heap);
    if (status != LEAT_OK) {
        put_spare(pool, list);
        put_back(place->lower);
        put_back(place->upper);
        leati_extent_hole(pool, place->hole);
        return status;
    }
    *block = join_place(pool, place, owner, waits);
    leati_see_event(pool, LEAT_POOL_MOVE, (void *)place->map_base, place->map_bytes, owner->order, 0);
    return LEAT_OK;
}

static leat_status provide_virtual(struct leat_pool *pool, struct leati_owner *owner, size_t bytes,
                                   size_t alignment, bool may_create, struct leati_block **block)
{
    uint8_t heap = bytes >= LEATI_LARGE_BYTES ? LEATI_HEAP_LARGE : LEATI_HEAP_SMALL;
    struct place place;
    leat_status status;

    LEATI_TRY(leati_pages_reserve(pool));
    leati_pages_settle(pool);
    LEATI_TRY(find_place(pool, owner, bytes, alignment, heap, true, &place));
    if (may_create)
        widen(pool, &place, heap);
    status = provide_at(pool, owner, bytes, &place, may_create, block);
    if (status != LEAT_ERROR_DEVICE_MEMORY || !may_create)
        return status;
    /* Neighbours keep pages that they share with idle memory, and more was asked for than must be: once more
     * without. */
    LEATI_TRY(find_place(pool, owner, bytes, alignment, heap, false, &place));
    return provide_at(pool, owner, bytes, &place, may_create, block);
}

/* ---- chunks of the driver's ---- */

static leat_status take_chunk(struct leat_pool *pool, size_t bytes, void **chunk)
{
    leat_status status = LEAT_ERROR_UNSUPPORTED;

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

/* Is there room below the limits for a chunk that is larger than it must be? */
static bool has_room(struct leat_pool *pool, size_t bytes)
{
    struct leati_sentence sentence;
    bool yes;

    leati_error_keep(&sentence);
    yes = leati_pool_charge(pool, bytes) == LEAT_OK;
    if (yes)
        leati_pool_uncharge(pool, bytes);
    leati_error_restore(LEAT_OK, &sentence);
    return yes;
}

static leat_status provide_chunk(struct leat_pool *pool, size_t bytes, size_t alignment,
                                 struct leati_block **block)
{
    uint8_t heap = bytes >= LEATI_LARGE_BYTES ? LEATI_HEAP_LARGE : LEATI_HEAP_SMALL;
    size_t span_bytes = page_up(bytes + (alignment > LEATI_PAGE_BYTES ? alignment : 0)), chunk_bytes;
    struct leati_span *span;
    leat_status status;
    void *chunk = NULL;

    if (span_bytes < CHUNK_MIN_BYTES && heap == LEATI_HEAP_LARGE && has_room(pool, CHUNK_MIN_BYTES))
        span_bytes = CHUNK_MIN_BYTES;
    /* Pinned chunks begin on a page of ours; where the driver's own do not, one page more makes room for it. */
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
    leati_set_owner(span->first, pool->host);
    span->first->idle_since_ns = leati_clock_ns();
    leati_count(&pool->figures.created_bytes, chunk_bytes);
    leati_see_event(pool, LEAT_POOL_GROW, chunk, chunk_bytes, NULL, 0);
    *block = span->first;
    return LEAT_OK;
}

leat_status leati_pages_provide(struct leat_pool *pool, struct leati_owner *owner, size_t bytes, size_t alignment,
                                bool may_create, struct leati_block **block)
{
    if (pool->virtual_memory)
        return provide_virtual(pool, owner, bytes, alignment, may_create, block);
    if (!may_create)
        return leati_fail(LEAT_ERROR_DEVICE_MEMORY, "no idle memory is left in one piece");
    return provide_chunk(pool, bytes, alignment, block);
}

/* ---- giving back ---- */

static uint64_t reserved(const struct leat_pool *pool)
{
    return atomic_load_explicit(&pool->figures.reserved_bytes, memory_order_relaxed);
}

/* Gives whole handles of an idle extent back, of which all work is done. */
static leat_status trim_extent(struct leat_pool *pool, struct leati_block *block, uint64_t keep_bytes,
                               uint64_t *released_bytes)
{
    uint64_t most = reserved(pool) - keep_bytes;
    struct leati_physical *list = NULL, **end = &list;
    size_t run_bytes;
    uintptr_t base;
    leat_status status;

    /* A handle that is larger than what is to go goes as well: keep_bytes is what may stay. */
    if (!find_run(pool, block, (size_t)page_up((size_t)most), &base, &run_bytes) &&
        !find_run(pool, block, SIZE_MAX, &base, &run_bytes))
        return LEAT_NOT_READY;
    status = take_run(pool, block, base, run_bytes, &end);
    if (status != LEAT_OK)
        return status;
    atomic_fetch_sub_explicit(&pool->figures.moved_bytes, run_bytes, memory_order_relaxed);
    *released_bytes += run_bytes;
    while (list) {
        struct leati_physical *next = list->next;
        leat_status released = release(pool, list);

        status = status != LEAT_OK ? status : released;
        list = next;
    }
    return status;
}

leat_status leati_pages_drop_spare(struct leat_pool *pool)
{
    leat_status first = LEAT_OK;

    while (pool->spare) {
        struct leati_physical *physical = pool->spare;
        leat_status status;

        pool->spare = physical->next;
        status = release(pool, physical);
        first = first != LEAT_OK ? first : status;
    }
    return first;
}

static leat_status trim_virtual(struct leat_pool *pool, uint64_t keep_bytes, uint64_t before_ns,
                                uint64_t *released_bytes)
{
    leat_status status = LEAT_OK;

    while (pool->spare && reserved(pool) > keep_bytes && status == LEAT_OK) {
        struct leati_physical *physical = pool->spare;

        pool->spare = physical->next;
        *released_bytes += physical->bytes;
        status = release(pool, physical);
    }
    for (int heap = LEATI_HEAPS; heap-- && status == LEAT_OK;) {
        struct leati_block *block = leati_bins_walk(&pool->host->bins[heap], NULL);

        while (block && reserved(pool) > keep_bytes && leati_bytes(block) >= LEATI_PAGE_BYTES) {
            status = block->idle_since_ns <= before_ns ? trim_extent(pool, block, keep_bytes, released_bytes)
                                                       : LEAT_NOT_READY;
            if (status < LEAT_OK)
                break;
            /* Cutting moved the rest into other bins: begin again. */
            block = leati_bins_walk(&pool->host->bins[heap], status == LEAT_OK ? NULL : block);
            status = LEAT_OK;
        }
    }
    return status;
}

static leat_status trim_chunks(struct leat_pool *pool, uint64_t keep_bytes, uint64_t before_ns,
                               uint64_t *released_bytes)
{
    struct leati_span **place = &pool->spans;
    leat_status status = LEAT_OK;

    while (*place && reserved(pool) > keep_bytes && status == LEAT_OK) {
        struct leati_span *span = *place;
        struct leati_block *block = span->first;

        if (leati_state(block) != LEATI_BLOCK_FREE || block->owner != pool->host || block->after ||
            block->idle_since_ns > before_ns) {
            place = &span->next;
            continue;
        }
        leati_extent_unbin(pool, block);
        leati_blocks_uncover(span->base, span->bytes);
        status = give_chunk_back(pool, span->chunk, span->chunk_bytes);
        if (status != LEAT_OK) {
            /* It is still ours. Covering what was covered needs no memory but that given back a moment ago. */
            (void)leati_blocks_cover(pool, span->base, span->bytes, span->heap == LEATI_HEAP_SMALL);
            leati_bins_add(&block->owner->bins[block->heap], block);
            break;
        }
        *released_bytes += span->chunk_bytes;
        leati_count(&pool->figures.released_bytes, span->chunk_bytes);
        leati_pool_uncharge(pool, span->chunk_bytes);
        leati_see_event(pool, LEAT_POOL_RELEASE, span->chunk, span->chunk_bytes, NULL, 0);
        *place = span->next;
        leati_block_give_back(block);
        free(span);
    }
    return status;
}

leat_status leati_pages_trim(struct leat_pool *pool, uint64_t keep_bytes, uint64_t before_ns,
                             uint64_t *released_bytes, uint64_t *pending_bytes)
{
    leat_status status;

    *released_bytes = *pending_bytes = 0;
    leati_pages_settle(pool);
    status = pool->virtual_memory ? trim_virtual(pool, keep_bytes, before_ns, released_bytes)
                                  : trim_chunks(pool, keep_bytes, before_ns, released_bytes);
    for (struct leati_owner *owner = pool->owners; owner; owner = owner->next)
        if (owner->order)
            *pending_bytes += owner->bins[LEATI_HEAP_SMALL].bytes + owner->bins[LEATI_HEAP_LARGE].bytes;
    *pending_bytes += atomic_load_explicit(&pool->figures.pending_bytes, memory_order_relaxed);
    return status;
}

/* ---- the end ---- */

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
    if (leati_state(block) == LEATI_BLOCK_STALE) {
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

    first = leati_pages_drop_spare(pool);
    while (pool->spans) {
        struct leati_span *span = pool->spans;

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
    if (pool->reserved_base) {
        DRIVER(pool, status, vm_unreserve, (void *)pool->reserved_base, pool->reserved_span_bytes);
        first = first_of(first, status);
        munmap(pool->page_physical, pool->reserved_span_bytes / LEATI_PAGE_BYTES * sizeof *pool->page_physical);
        pool->reserved_base = 0;
    }
    return first;
}
