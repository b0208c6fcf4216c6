/* eager.c - makes copies of pageable memory on the calling thread, and keeps their rings. See eager.h. */
#include "copy/eager.h"

#include "base/lock.h"
#include "base/quick.h"

#include <stdlib.h>

#define FLAGS_BYTES ((size_t)4096)
#define CACHED_BYTES ((size_t)32 << 10)  /* copies up to this size use cached stores, since a reader comes soon */
#define HALVED_BYTES ((size_t)512 << 10) /* copies from the device use two DMAs and workers from this size on */
#define QUARTERS 4
#define QUARTER_BYTES (2 * LEATI_EAGER_SHORT_BYTES)
#define ALIGNMENT ((size_t)64)

/* The ring of a stream for its short copies. The stream writes the flag completed_chunks (a fence) when it has
 * completed all DMAs that read a quarter of the ring. */
struct leati_staging {
    struct leati_stager *stager;
    struct leati_lock lock; /* protects the fields below, and is held while a copy is submitted to the stream */
    struct leati_flags *flags;
    char *ring;
    size_t quarter, used;       /* the quarter that is being filled; its bytes that are in use */
    uint32_t fences;            /* number of submitted fences; fence n writes the value n */
    uint32_t left_at[QUARTERS]; /* the quarter is free when completed_chunks has reached this value */
    struct leati_job *leftover; /* keeps the ring after the stream's end; allocated early, so this cannot fail */
};

static struct leati_staging *new_staging(struct leati_stager *stager)
{
    struct leati_staging *staging = calloc(1, sizeof *staging);

    if (!staging)
        return NULL;
    staging->leftover = calloc(1, sizeof *staging->leftover);
    leati_error_quiet_begin();
    staging->flags = leati_stager_take(stager, FLAGS_BYTES + QUARTERS * QUARTER_BYTES);
    leati_error_quiet_end();
    if (!staging->leftover || !staging->flags) {
        if (staging->flags)
            leati_stager_give_back(stager, staging->flags);
        free(staging->leftover);
        free(staging);
        return NULL;
    }
    atomic_init(&staging->flags->staged_chunks, 0);
    atomic_init(&staging->flags->completed_chunks, 0);
    atomic_init(&staging->leftover->holders, 1);
    staging->leftover->flags = staging->flags;
    staging->ring = (char *)staging->flags + FLAGS_BYTES;
    staging->stager = stager;
    leati_lock_init(&staging->lock);
    return staging;
}

static void drop_staging(struct leati_staging *staging)
{
    leati_lock_destroy(&staging->lock);
    free(staging);
}

/* Returns the stream's ring, which its first short copy creates; NULL if there is no memory. */
LEATI_HOT static struct leati_staging *staging_of(struct leati_stager *stager, leat_stream *stream)
{
    struct leati_staging *staging = atomic_load_explicit(&stream->staging, memory_order_acquire), *made;

    if (staging)
        return staging;
    made = new_staging(stager);
    if (!made)
        return NULL;
    /* Release: a thread that finds this ring sees all its fields. Acquire: if another thread has set a ring first,
     * this thread sees all fields of that ring. */
    if (atomic_compare_exchange_strong_explicit(&stream->staging, &staging, made, memory_order_acq_rel,
                                                memory_order_acquire))
        return made;
    leati_stager_give_back(stager, made->flags);
    free(made->leftover);
    drop_staging(made);
    return staging;
}

static bool is_free(const struct leati_staging *staging, size_t quarter)
{
    uint32_t completed = atomic_load_explicit(&staging->flags->completed_chunks, memory_order_acquire);

    leati_assert(quarter < QUARTERS);
    return (int32_t)(completed - staging->left_at[quarter]) >= 0;
}

LEATI_HOT static enum leati_store_policy policy_of(size_t bytes)
{
    return bytes <= CACHED_BYTES ? LEATI_STORE_POLICY_CACHED : LEATI_STORE_POLICY_STREAMING;
}

/* ---- short copies in ---- */

/* Makes room for bytes in the quarter that is being filled. If the bytes do not fit, starts the next quarter.
 * DECLINED: the next quarter is still in use. */
LEATI_HOT static leat_status make_room(struct leati_staging *staging, leat_stream *stream, size_t bytes)
{
    struct leati_driver *driver = stream->device->driver;
    size_t next = (staging->quarter + 1) % QUARTERS;
    struct leati_mem_op fence = {.flag = &staging->flags->completed_chunks, .value = staging->fences + 1};

    leati_assert_locked(&staging->lock);
    leati_assert(staging->quarter < QUARTERS && staging->used <= QUARTER_BYTES + ALIGNMENT &&
                 bytes <= QUARTER_BYTES);
    /* If the stream is idle, reuse this quarter from its start, which may still be in the caches. */
    if (leati_stream_known_idle(stream))
        staging->used = 0;
    if (staging->used + bytes <= QUARTER_BYTES)
        return LEAT_OK;
    if (!is_free(staging, next))
        return LEATI_DECLINED;
    LEATI_TRY(driver->ops->stream_mem_ops(driver, stream->native, &fence, 1));
    staging->left_at[staging->quarter] = ++staging->fences;
    staging->quarter = next;
    staging->used = 0;
    return LEAT_OK;
}

static leat_status fail_read(const struct leati_endpoint *from, uintptr_t fault)
{
    return leati_fail(LEAT_ERROR_POINTER, "src: %p cannot be read at %p: unmapped, protected, or its file shrank",
                      from->location.ptr, (void *)fault);
}

LEATI_HOT static leat_status give_dma(leat_stream *stream, struct leati_location dst, struct leati_location src,
                                      size_t bytes)
{
    struct leati_driver *driver = stream->device->driver;
    leat_status status;

    leati_stream_piece_begins(stream);
    status = driver->ops->copy(driver, stream->native, dst, src, bytes);
    leati_stream_piece_ends(stream);
    /* The caller holds the ring's lock, so the next thread that takes the lock sees that the stream is busy. */
    leati_timeline_submitted(stream->timeline);
    return status;
}

LEATI_HOT static leat_status copy_short_in(struct leati_staging *staging, leat_stream *stream,
                                           const struct leati_endpoint *to, const struct leati_endpoint *from,
                                           size_t bytes)
{
    struct leati_location slot = {.kind = LEAT_KIND_PINNED};
    uintptr_t fault;

    LEATI_TRY(make_room(staging, stream, bytes));
    slot.ptr = staging->ring + staging->quarter * QUARTER_BYTES + staging->used;
    leati_assert(staging->used + bytes <= QUARTER_BYTES && staging->used % ALIGNMENT == 0);
    if (leati_staging_copy_guarded(slot.ptr, from->location.ptr, bytes, policy_of(bytes), &fault) != bytes)
        return fail_read(from, fault);
    LEATI_TRY(give_dma(stream, to->location, slot, bytes));
    staging->used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return LEAT_OK;
}

LEATI_HOT static leat_status short_in(struct leati_stager *stager, leat_stream *stream,
                                      const struct leati_endpoint *to, const struct leati_endpoint *from,
                                      size_t bytes)
{
    struct leati_staging *staging = staging_of(stager, stream);
    leat_status status;

    leati_assert(bytes <= LEATI_EAGER_SHORT_BYTES);
    if (!staging)
        return LEATI_DECLINED;
    leati_lock(&staging->lock);
    status = copy_short_in(staging, stream, to, from, bytes);
    leati_unlock(&staging->lock);
    return status;
}

/* ---- the device's rings ---- */

void leati_eager_rings_init(struct leati_eager_ring rings[LEATI_EAGER_RINGS])
{
    for (int i = 0; i < LEATI_EAGER_RINGS; i++)
        leati_lock_init(&rings[i].lock);
}

void leati_eager_rings_end(struct leati_eager_ring rings[LEATI_EAGER_RINGS], struct leati_stager *stager)
{
    for (int i = 0; i < LEATI_EAGER_RINGS; i++) {
        leati_timeline_release(rings[i].user);
        if (rings[i].block)
            leati_stager_give_back(stager, rings[i].block);
        leati_lock_destroy(&rings[i].lock);
    }
}

/* Returns true if leat knows that the DMAs that use the ring are complete. Asks the driver only about the caller's
 * stream, and about streams that have ended. */
LEATI_HOT static bool is_done(const struct leati_eager_ring *ring, leat_stream *stream)
{
    bool done = false;

    leati_assert_locked(&ring->lock);
    leati_assert(ring->user);
    if (leati_timeline_is_complete(ring->user, ring->seq))
        return true;
    if (ring->user == stream->timeline)
        return leati_stream_is_idle(stream);
    return leati_timeline_is_over(ring->user) &&
           LEATI_QUIETLY(leati_timeline_query(ring->user, ring->seq, &done, NULL)) == LEAT_OK && done;
}

LEATI_HOT static bool is_unused(struct leati_eager_ring *ring, leat_stream *stream)
{
    if (!ring->user)
        return true;
    if (!is_done(ring, stream))
        return false;
    leati_timeline_release(ring->user);
    ring->user = NULL;
    return true;
}

static struct leati_flags *take_block(struct leati_stager *stager)
{
    void *block;

    leati_error_quiet_begin();
    block = leati_stager_take(stager, leati_stager_block_bytes(LEATI_EAGER_MOST_BYTES));
    leati_error_quiet_end();
    return block;
}

/* Locks a free ring and returns it; NULL if no ring is free. Prefers the first rings, because these may still be
 * in the caches. */
LEATI_HOT static struct leati_eager_ring *take_ring(struct leati_stager *stager, leat_stream *stream)
    LEATI_NO_THREAD_SAFETY
{
    struct leati_eager_ring *rings = leati_stager_rings(stager);

    for (int i = 0; i < LEATI_EAGER_RINGS; i++) {
        struct leati_eager_ring *ring = &rings[i];

        if (!leati_trylock(&ring->lock))
            continue;
        if (is_unused(ring, stream)) {
            if (!ring->block)
                ring->block = take_block(stager);
            if (ring->block)
                return ring;
        }
        leati_unlock(&ring->lock);
    }
    return NULL;
}

/* Unlocks a ring. used: DMAs of the stream may still access the ring. */
LEATI_HOT static void release_ring(struct leati_eager_ring *ring, leat_stream *stream, bool used)
    LEATI_NO_THREAD_SAFETY
{
    leati_assert_locked(&ring->lock);
    leati_assert(ring->block && (!used || !ring->user));
    if (used) {
        leati_timeline_hold(stream->timeline);
        ring->user = stream->timeline;
        ring->seq = leati_timeline_now(stream->timeline);
    }
    leati_unlock(&ring->lock);
}

/* ---- longer copies ---- */

/* Makes an eager copy with the staging layer. block: the flags and ring to use; NULL: the stager supplies them. */
static leat_status by_staging(struct leati_stager *stager, leat_stream *stream, const struct leati_endpoint *to,
                              const struct leati_endpoint *from, size_t bytes, enum leati_direction direction,
                              struct leati_flags *block)
{
    struct leati_stage_request request = {
        .direction = direction, .early = direction == LEATI_DIRECTION_IN, .eager = true, .block = block};

    leati_assert(bytes > LEATI_EAGER_SHORT_BYTES || direction == LEATI_DIRECTION_OUT);
    return leati_stage_start(stager, stream, to, from, bytes, &request, NULL);
}

LEATI_HOT leat_status leati_eager_in(struct leati_stager *stager, leat_stream *stream,
                                     const struct leati_endpoint *to, const struct leati_endpoint *from,
                                     size_t bytes)
{
    struct leati_eager_ring *ring;
    leat_status status;

    leati_assert(bytes && bytes <= LEATI_EAGER_MOST_BYTES);
    /* A per-thread default stream is a different stream in each thread, so its timeline cannot tell when all DMAs
     * that use a ring are complete. */
    if (stream->timeline->per_thread)
        return LEATI_DECLINED;
    if (bytes <= LEATI_EAGER_SHORT_BYTES)
        return short_in(stager, stream, to, from, bytes);
    ring = take_ring(stager, stream);
    if (!ring)
        return by_staging(stager, stream, to, from, bytes, LEATI_DIRECTION_IN, NULL);
    status = by_staging(stager, stream, to, from, bytes, LEATI_DIRECTION_IN, ring->block);
    release_ring(ring, stream, status != LEATI_DECLINED);
    return status;
}

/* Copies out with one DMA, and waits for the DMA with the driver's call. */
LEATI_HOT static leat_status copy_out(struct leati_eager_ring *ring, leat_stream *stream,
                                      const struct leati_endpoint *to, const struct leati_endpoint *from,
                                      size_t bytes)
{
    struct leati_location slot = {.ptr = (char *)ring->block + FLAGS_BYTES, .kind = LEAT_KIND_PINNED};
    struct leati_driver *driver = stream->device->driver;
    const char *last = (const char *)to->location.ptr + bytes - 1;
    struct leati_caught_up caught_up;
    uintptr_t fault;

    leati_assert_locked(&ring->lock);
    leati_assert(bytes < HALVED_BYTES);
    LEATI_TRY(give_dma(stream, slot, from->location, bytes));
    /* Prefault untouched destination pages while the DMA runs. */
    if (bytes > LEATI_EAGER_SHORT_BYTES && !leati_staging_resident(last, 1))
        leati_staging_prefault(to->location.ptr, bytes);
    leati_timeline_wait_begins(stream->timeline, &caught_up);
    LEATI_TRY(driver->ops->stream_synchronize(driver, stream->native));
    leati_timeline_wait_ends(stream->timeline, &caught_up);
    if (leati_staging_copy_guarded(to->location.ptr, slot.ptr, bytes, policy_of(bytes), &fault) == bytes)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_POINTER, "dst: %p cannot be written at %p: unmapped or protected",
                      to->location.ptr, (void *)fault);
}

LEATI_HOT leat_status leati_eager_out(struct leati_stager *stager, leat_stream *stream,
                                      const struct leati_endpoint *to, const struct leati_endpoint *from,
                                      size_t bytes)
{
    struct leati_eager_ring *ring = stream->timeline->per_thread ? NULL : take_ring(stager, stream);
    leat_status status;

    leati_assert(bytes && bytes <= LEATI_EAGER_MOST_BYTES);
    if (!ring)
        return LEATI_DECLINED;
    status = bytes < HALVED_BYTES ? copy_out(ring, stream, to, from, bytes)
                                  : by_staging(stager, stream, to, from, bytes, LEATI_DIRECTION_OUT, ring->block);
    /* If the call failed with another status than POINTER, DMAs may still write to the ring. */
    release_ring(ring, stream, status != LEAT_OK && status != LEAT_ERROR_POINTER);
    return status;
}

/* ---- the end of a stream ---- */

void leati_eager_stream_ends(struct leat_stream *stream)
{
    struct leati_staging *staging = atomic_exchange_explicit(&stream->staging, NULL, memory_order_acquire);
    struct leati_driver *driver = stream->device->driver;
    struct leati_mem_op fence;

    if (!staging)
        return;
    fence = (struct leati_mem_op){.flag = &staging->flags->completed_chunks, .value = staging->fences + 1};
    /* If this call fails, the device is lost, and the ring stays allocated until the device is closed. */
    (void)driver->ops->stream_mem_ops(driver, stream->native, &fence, 1);
    staging->leftover->end = fence.value;
    leati_stager_keep(staging->stager, staging->leftover);
    drop_staging(staging);
}
