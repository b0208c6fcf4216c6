/*
 * lane.c - what a pool keeps for each stream, and the lanes of it: magazines of freed blocks.
 *
 * A lane holds freed blocks of many sizes, each as it was, so that the next request of that size takes one without
 * looking at the heap. Threads are spread over the lanes of a stream by a number of their own; a lane belongs to
 * the stream and not to the thread, so nothing is lost when a thread ends. Its lock is one byte: two threads meet
 * on it only if they share stream and number, or when the pool collects what lanes hold.
 */
#include "base/assert.h"
#include "pool/pool.h"
#include "pool/track.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Small blocks of one size that a lane keeps. A large one is kept if its lane has handed out at most so many
 * others since it was allocated: it is what a loop frees and wants again. What lived long goes to the heap, where
 * it joins what is idle beside it, and where blocks are placed by what is idle alone. */
enum { KEEP_SMALL = 64, KEEP_RECENT = 64 };

/* ---- owners ---- */

struct leati_owner *leati_owner_fast(struct leat_pool *pool, leat_stream *stream)
{
    /* Acquire: pairs with the release in leati_owner_of(). */
    if (!stream)
        return pool->host;
    if (pool->number >= LEATI_FAST_POOLS || stream->device != pool->device)
        return NULL;
    return atomic_load_explicit(&stream->owners[pool->number], memory_order_acquire);
}

/* An owner whose stream is gone, and that nothing belongs to any more; NULL when there is none. Owners stay in
 * their list, because it is read without a lock. */
static struct leati_owner *find_unused(struct leat_pool *pool)
{
    for (struct leati_owner *owner = pool->owners; owner; owner = owner->next)
        if (owner != pool->host && !owner->stream && !owner->blocks)
            return owner;
    return NULL;
}

static struct leati_owner *new_owner(struct leat_pool *pool)
{
    struct leati_owner *owner = calloc(1, sizeof *owner);

    if (!owner)
        return NULL;
    owner->pool = pool;
    owner->next = atomic_load_explicit(&pool->owners, memory_order_relaxed);
    /* Release: who finds it without the lock finds it whole. */
    atomic_store_explicit(&pool->owners, owner, memory_order_release);
    return owner;
}

struct leati_owner *leati_owner_of(struct leat_pool *pool, leat_stream *stream)
{
    struct leati_owner *owner = NULL;

    leati_assert_locked(&pool->lock);
    if (!stream)
        return pool->host ? pool->host : new_owner(pool);
    for (owner = pool->owners; owner; owner = owner->next)
        if (owner->stream == stream)
            return owner;
    owner = find_unused(pool);
    if (!owner)
        owner = new_owner(pool);
    if (!owner)
        return NULL;
    leati_assert(owner != pool->host && !owner->stream);
    leati_order_let_go(owner->order);
    owner->stream = stream;
    owner->order = stream->order;
    leati_order_hold(owner->order);
    /* Release: pairs with the acquire in leati_owner_fast(). */
    if (pool->number < LEATI_FAST_POOLS && stream->device == pool->device)
        atomic_store_explicit(&stream->owners[pool->number], owner, memory_order_release);
    return owner;
}

static void free_owner(struct leati_owner *owner)
{
    for (int i = 0; i < LEATI_LANES; i++)
        free(atomic_load_explicit(&owner->lanes[i], memory_order_relaxed));
    leati_order_let_go(owner->order);
    free(owner);
}

void leati_owners_end(struct leat_pool *pool)
{
    while (pool->owners) {
        struct leati_owner *owner = pool->owners;

        pool->owners = owner->next;
        if (owner->stream && pool->number < LEATI_FAST_POOLS && owner->stream->device == pool->device)
            atomic_store_explicit(&owner->stream->owners[pool->number], NULL, memory_order_relaxed);
        free_owner(owner);
    }
    pool->host = NULL;
}

/* ---- lanes ---- */

struct leati_lane *leati_lane_of(struct leati_owner *owner, bool make)
{
    static atomic_uint threads;
    static LEATI_QUICK_TLS unsigned number; /* from 1 */
    _Atomic(struct leati_lane *) *place;
    struct leati_lane *lane;

    leati_assert(owner);
    if (!number)
        number = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
    place = &owner->lanes[number % LEATI_LANES];
    /* Acquire: pairs with the release below. */
    lane = atomic_load_explicit(place, memory_order_acquire);
    if (lane || !make)
        return lane;
    lane = aligned_alloc(_Alignof(struct leati_lane), sizeof *lane);
    if (lane) {
        memset(lane, 0, sizeof *lane);
        /* Release, both: who finds the lane finds it made, and so does who finds its bit. */
        atomic_store_explicit(place, lane, memory_order_release);
        atomic_fetch_or_explicit(&owner->lanes_made, 1u << number % LEATI_LANES, memory_order_release);
    }
    return lane;
}

struct leati_lane *leati_lane_next(const struct leati_owner *owner, unsigned *left)
{
    unsigned number;

    if (!*left)
        return NULL;
    leati_assert(*left >> LEATI_LANES == 0);
    number = (unsigned)__builtin_ctz(*left);
    *left &= *left - 1;
    return atomic_load_explicit(&owner->lanes[number], memory_order_acquire);
}

bool leati_lane_try(struct leati_lane *lane)
{
    return !atomic_exchange_explicit(&lane->locked, 1, memory_order_acquire);
}

void leati_lane_lock(struct leati_lane *lane)
{
    /* It is held for some ten instructions, unless its holder was put off the processor in between. */
    for (unsigned tries = 0; !leati_lane_try(lane); tries++)
        if (tries > 100)
            sched_yield();
}

void leati_lane_unlock(struct leati_lane *lane)
{
    leati_assert(atomic_load_explicit(&lane->locked, memory_order_relaxed));
    atomic_store_explicit(&lane->locked, 0, memory_order_release);
}

static struct leati_slot *slot_of(struct leati_lane *lane, size_t bytes)
{
    uint64_t mixed = bytes / LEATI_GRANULE_BYTES * UINT64_C(0x9E3779B97F4A7C15);

    leati_assert(bytes && bytes % LEATI_GRANULE_BYTES == 0);
    return &lane->slots[mixed >> 57];
}

_Static_assert(LEATI_LANE_SLOTS == 1 << (64 - 57), "slot_of() takes the top bits for so many slots");

static void add(_Atomic int64_t *counter, int64_t by)
{
    /* Only the holder of the lane's lock writes, so load and store need not be one. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

static void add_one(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

static struct leati_block *pop_large(struct leati_lane *lane, size_t bytes)
{
    for (int i = 0; i < LEATI_LANE_LARGE; i++) {
        struct leati_block *block = lane->large[i];

        if (block && leati_bytes(block) == bytes) {
            lane->large[i] = NULL;
            return block;
        }
    }
    return NULL;
}

static struct leati_block *pop_small(struct leati_lane *lane, size_t bytes)
{
    struct leati_slot *slot = slot_of(lane, bytes);
    struct leati_block *block = slot->top;

    leati_assert(!slot->top == !slot->count);
    if (slot->bytes != bytes || !block)
        return NULL;
    slot->top = block->link;
    slot->count--;
    return block;
}

struct leati_block *leati_lane_pop(struct leati_lane *lane, size_t bytes)
{
    struct leati_block *block = (bytes < LEATI_LARGE_BYTES ? pop_small : pop_large)(lane, bytes);

    leati_assert(atomic_load_explicit(&lane->locked, memory_order_relaxed));
    leati_assert(!block || (leati_state(block) == LEATI_BLOCK_CACHED && leati_bytes(block) == bytes));
    if (block)
        add(&lane->figures.cached_bytes, -(int64_t)bytes);
    return block;
}

static bool push_large(struct leati_lane *lane, struct leati_block *block)
{
    if ((uint16_t)(lane->large_count - block->born) > KEEP_RECENT)
        return false;
    for (int i = 0; i < LEATI_LANE_LARGE; i++)
        if (!lane->large[i]) {
            lane->large[i] = block;
            return true;
        }
    return false;
}

static bool push_small(struct leati_lane *lane, struct leati_block *block)
{
    struct leati_slot *slot = slot_of(lane, leati_bytes(block));

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

bool leati_lane_push(struct leati_lane *lane, struct leati_block *block)
{
    size_t bytes = leati_bytes(block);

    leati_assert(atomic_load_explicit(&lane->locked, memory_order_relaxed));
    leati_assert(block->owner && !block->users);
    if (!(bytes < LEATI_LARGE_BYTES ? push_small : push_large)(lane, block))
        return false;
    if (!block->owner->order)
        leati_track_idle(block->owner->pool, leati_base(block), bytes);
    leati_assert(atomic_load_explicit(&lane->figures.cached_bytes, memory_order_relaxed) >= 0);
    add(&lane->figures.cached_bytes, (int64_t)bytes);
    leati_set_state(block, LEATI_BLOCK_CACHED);
    return true;
}

void leati_lane_count_alloc(struct leati_lane *lane, struct leati_block *block, bool hit)
{
    struct leati_lane_figures *figures = &lane->figures;
    int64_t requested_bytes = (int64_t)leati_requested(block), now;

    leati_assert(atomic_load_explicit(&lane->locked, memory_order_relaxed) && block->tag < LEATI_TAGS);
    if (leati_bytes(block) >= LEATI_LARGE_BYTES)
        block->born = lane->large_count++;
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

void leati_lane_count_free(struct leati_lane *lane, const struct leati_block *block)
{
    struct leati_lane_figures *figures = &lane->figures;

    leati_assert(atomic_load_explicit(&lane->locked, memory_order_relaxed) && block->tag < LEATI_TAGS);
    add(&figures->requested_bytes, -(int64_t)leati_requested(block));
    add(&figures->used_bytes, -(int64_t)leati_bytes(block));
    add(&figures->live_blocks, -1);
    add_one(&figures->frees);
    if (block->tag) {
        add(&figures->tag_bytes[block->tag], -(int64_t)leati_requested(block));
        add(&figures->tag_blocks[block->tag], -1);
    }
}

/* ---- collecting ---- */

/* Gives a block that a lane kept to the heap; under the lane's lock. */
static void let_go(struct leat_pool *pool, struct leati_lane *lane, struct leati_block *block)
    LEATI_REQUIRES(pool->lock)
{
    leati_assert(atomic_load_explicit(&lane->locked, memory_order_relaxed) &&
                 leati_state(block) == LEATI_BLOCK_CACHED);
    add(&lane->figures.cached_bytes, -(int64_t)leati_bytes(block));
    leati_slow_path_free(pool, block, block->owner, block->tick);
}

/* Empties a slot into the heap; under the lane's lock. */
static bool drain_slot(struct leat_pool *pool, struct leati_lane *lane, struct leati_slot *slot)
    LEATI_REQUIRES(pool->lock)
{
    bool any = slot->top != NULL;

    leati_assert(!slot->top == !slot->count);
    while (slot->top) {
        struct leati_block *block = slot->top;

        slot->top = block->link;
        slot->count--;
        let_go(pool, lane, block);
    }
    return any;
}

/* The same for the large blocks. */
static bool drain_large(struct leat_pool *pool, struct leati_lane *lane) LEATI_REQUIRES(pool->lock)
{
    bool any = false;

    for (int i = 0; i < LEATI_LANE_LARGE; i++)
        if (lane->large[i]) {
            struct leati_block *block = lane->large[i];

            lane->large[i] = NULL;
            let_go(pool, lane, block);
            any = true;
        }
    return any;
}

bool leati_lane_push_into(struct leat_pool *pool, struct leati_lane *lane, struct leati_block *block)
{
    size_t bytes = leati_bytes(block);
    bool kept;

    leati_assert(block->owner && block->owner->pool == pool);
    leati_assert_locked(&pool->lock);
    leati_lane_lock(lane);
    if (bytes < LEATI_LARGE_BYTES)
        drain_slot(pool, lane, slot_of(lane, bytes));
    else
        drain_large(pool, lane);
    kept = leati_lane_push(lane, block);
    leati_lane_count_free(lane, block);
    leati_lane_unlock(lane);
    return kept;
}

/* Moves up to so many blocks of one size from one lane to another of the same owner, after the caller's. */
enum { STEAL_MAX = 16 };

static struct leati_block *steal_from(struct leati_lane *lane, struct leati_lane *into, size_t bytes)
{
    struct leati_block *taken[STEAL_MAX], *block;
    unsigned count = 0, kept = 1;

    leati_lane_lock(lane);
    while (count < STEAL_MAX && (into || !count) && (block = leati_lane_pop(lane, bytes)))
        taken[count++] = block;
    leati_lane_unlock(lane);
    leati_assert(count <= STEAL_MAX && (count <= 1 || into));
    if (count > 1) {
        leati_lane_lock(into);
        while (kept < count && leati_lane_push(into, taken[kept]))
            kept++;
        leati_lane_unlock(into);
    }
    /* What the other lane has no room for goes back to where there was some a moment ago, or to the heap. */
    for (; kept < count; kept++) {
        leati_assert_locked(&taken[kept]->owner->pool->lock);
        leati_slow_path_free(taken[kept]->owner->pool, taken[kept], taken[kept]->owner, taken[kept]->tick);
    }
    return count ? taken[0] : NULL;
}

struct leati_block *leati_owner_steal(struct leati_owner *owner, struct leati_lane *into, size_t bytes)
{
    struct leati_block *block = NULL;
    struct leati_lane *lane;

    for (unsigned left = leati_lanes_of(owner); !block && (lane = leati_lane_next(owner, &left));) {
        if (lane != into && atomic_load_explicit(&lane->figures.cached_bytes, memory_order_relaxed))
            block = steal_from(lane, into, bytes);
    }
    return block;
}

/* Empties the owner's lanes into the heap; large: only of large blocks. */
static bool drain(struct leati_owner *owner, bool large) LEATI_REQUIRES(owner->pool->lock)
{
    struct leati_lane *lane;
    bool any = false;

    for (unsigned left = leati_lanes_of(owner); (lane = leati_lane_next(owner, &left));) {
        if (!atomic_load_explicit(&lane->figures.cached_bytes, memory_order_relaxed))
            continue;
        leati_lane_lock(lane);
        any |= drain_large(owner->pool, lane);
        for (int slot = 0; slot < LEATI_LANE_SLOTS && !large; slot++)
            any |= drain_slot(owner->pool, lane, &lane->slots[slot]);
        leati_lane_unlock(lane);
    }
    return any;
}

bool leati_owner_drain(struct leati_owner *owner)
{
    leati_assert_locked(&owner->pool->lock);
    return drain(owner, false);
}

void leati_owner_drain_large(struct leati_owner *owner)
{
    leati_assert_locked(&owner->pool->lock);
    drain(owner, true);
}

bool leati_owners_drain(struct leat_pool *pool)
{
    bool any = false;

    leati_assert_locked(&pool->lock);
    for (struct leati_owner *owner = pool->owners; owner; owner = owner->next)
        any |= leati_owner_drain(owner);
    return any;
}
