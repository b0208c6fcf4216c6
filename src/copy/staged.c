/* staged.c - creates the stagers of devices, and submits staged copies to streams. See staged.h. */
#include "copy/staged.h"

#include "base/lock.h"
#include "base/options.h"
#include "base/quick.h"
#include "base/thread.h"
#include "copy/eager.h"
#include "copy/rails.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the hooks of staging/ ---- */

struct staged_device {
    struct leati_stager stager;
    leat_device *device;
    bool driver_spins;   /* the driver's wait for a stream spins; a wait of the CPU device sleeps */
    leat_pool *pools[2]; /* one per store policy, because cached lines of a ring slow streaming stores down */
    struct leati_eager_ring rings[LEATI_EAGER_RINGS];
};

static void *take(void *context, enum leati_store_policy policy, size_t bytes)
{
    struct staged_device *staged = context;
    void *block;

    leati_assert((unsigned)policy < 2 && staged->pools[policy]);
    return leat_pool_alloc(NULL, staged->pools[policy], bytes, &block) == LEAT_OK ? block : NULL;
}

static void give_back(void *context, void *block)
{
    (void)context;
    (void)leat_memory_free(block);
}

/* Makes a cheap driver call that fails if the device is lost. */
static leat_status health(void *context)
{
    leat_device *device = ((struct staged_device *)context)->device;
    uint64_t free_bytes, total_bytes;

    return device->driver->ops->device_memory(device->driver, device->native, &free_bytes, &total_bytes);
}

static leat_status stream_create(void *context, void **stream)
{
    leat_device *device = ((struct staged_device *)context)->device;

    return device->driver->ops->stream_create(device->driver, device->native, stream);
}

static leat_status stream_destroy(void *context, void *stream)
{
    struct leati_driver *driver = ((struct staged_device *)context)->device->driver;

    return driver->ops->stream_destroy(driver, stream);
}

static leat_status stream_synchronize(void *context, void *stream)
{
    struct leati_driver *driver = ((struct staged_device *)context)->device->driver;

    return driver->ops->stream_synchronize(driver, stream);
}

static leat_status flags(void *context, void *stream, const struct leati_mem_op *values, unsigned count)
{
    struct leati_driver *driver = ((struct staged_device *)context)->device->driver;

    leati_assert(count && count <= 4);
    return driver->ops->stream_mem_ops(driver, stream, values, count);
}

static void timeline_hold(void *timeline)
{
    leati_timeline_hold(timeline);
}

static void timeline_release(void *timeline)
{
    leati_timeline_release(timeline);
}

static void timeline_failed(void *timeline, leat_status status, const char *message)
{
    leati_timeline_failed(timeline, status, message);
}

static void outcome_begins(void *outcome)
{
    leati_outcome_copy_begins(outcome);
}

static void outcome_ends(void *outcome)
{
    leati_outcome_copy_ends(outcome);
}

static void outcome_failed(void *outcome, leat_status status, const char *message)
{
    leati_outcome_failed(outcome, status, message);
}

static const struct leati_staging_hooks staging_hooks = {.take = take,
                                                         .give_back = give_back,
                                                         .health = health,
                                                         .stream_create = stream_create,
                                                         .stream_destroy = stream_destroy,
                                                         .stream_synchronize = stream_synchronize,
                                                         .flags = flags,
                                                         .timeline_hold = timeline_hold,
                                                         .timeline_release = timeline_release,
                                                         .timeline_failed = timeline_failed,
                                                         .outcome_begins = outcome_begins,
                                                         .outcome_ends = outcome_ends,
                                                         .outcome_failed = outcome_failed};

/* ---- a device's stager ---- */

static struct leati_lock make_lock = LEATI_LOCK_INITIALIZER;

static struct staged_device *staged_of(struct leati_stager *stager)
{
    leati_assert(stager->context);
    return stager->context;
}

leat_pool *leati_stager_pool(struct leati_stager *stager, enum leati_store_policy policy)
{
    return staged_of(stager)->pools[policy];
}

struct leati_eager_ring *leati_stager_rings(struct leati_stager *stager)
{
    return staged_of(stager)->rings;
}

static leat_status destroy_pools(struct staged_device *staged)
{
    leat_status status = LEAT_OK;

    for (int i = 0; i < 2; i++) {
        leat_status ended = staged->pools[i] ? leat_pool_destroy(staged->pools[i]) : LEAT_OK;

        staged->pools[i] = NULL;
        status = status == LEAT_OK ? ended : status;
    }
    return status;
}

static leat_status set_up(struct staged_device *staged)
{
    leat_pool_options cached = {.size = sizeof cached, .name = "staging", .kind = LEAT_KIND_PINNED};
    leat_pool_options streamed = {.size = sizeof streamed, .name = "staging, streamed", .kind = LEAT_KIND_PINNED};
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_device *device = staged->device;

    leati_assert(!staged->pools[0] && !staged->pools[1]);
    LEATI_TRY(leati_stager_init(&staged->stager, &staging_hooks, staged));
    LEATI_TRY(leat_device_get_info(device, &info));
    LEATI_TRY(leat_pool_create(device, &cached, &staged->pools[LEATI_STORE_POLICY_CACHED]));
    LEATI_TRY(leat_pool_create(device, &streamed, &staged->pools[LEATI_STORE_POLICY_STREAMING]));
    return leati_stager_start(&staged->stager, info.numa_node, device->driver->device_count);
}

/* Calls set_up(). If the device can never have staging (UNSUPPORTED, or the list lost is not empty), copies the
 * reason to refused and leaves the thread's message unchanged. Any other failure may be temporary, so it becomes
 * the thread's message. */
static leat_status try_set_up(struct staged_device *staged)
{
    struct leati_stager *stager = &staged->stager;
    struct leati_hearing hearing;
    char why[sizeof stager->refused];
    leat_status status;

    leati_error_hear_begin(&hearing);
    status = set_up(staged);
    snprintf(why, sizeof why, "%s", status == LEAT_OK ? "" : leat_last_error());
    leati_error_hear_end(&hearing);
    if (status == LEAT_ERROR_UNSUPPORTED || stager->lost)
        memcpy(stager->refused, why, sizeof why);
    else if (status != LEAT_OK)
        return leati_fail(status, "%s", why);
    return status;
}

static leat_status make(leat_device *device, struct leati_stager **made)
{
    struct staged_device *staged = calloc(1, sizeof *staged);
    struct leati_stager *stager;
    leat_status status;

    leati_assert(!atomic_load_explicit(&device->stager, memory_order_acquire));
    leati_assert_locked(&make_lock);
    if (!staged)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the device's staging");
    staged->device = device;
    staged->driver_spins = device->driver->can->dma_engines || leati_option_flag(LEATI_OPTION_COPY_STAGE);
    leati_eager_rings_init(staged->rings);
    stager = &staged->stager;
    stager->context = staged;
    if (!device->driver->ops->stream_mem_ops) {
        snprintf(stager->refused, sizeof stager->refused, "the driver's streams cannot wait for flags in memory");
    } else {
        status = try_set_up(staged);
        if (status != LEAT_OK && !stager->lost) {
            leati_stager_end(stager);
            (void)LEATI_QUIETLY(destroy_pools(staged));
        }
        if (status != LEAT_OK && status != LEAT_ERROR_UNSUPPORTED && !stager->lost) {
            leati_eager_rings_end(staged->rings, stager);
            free(staged);
            return status;
        }
    }
    leati_copy_set_hooks(device);
    /* Release: a thread that loads device->stager with acquire sees all fields of the stager. */
    atomic_store_explicit(&device->stager, stager, memory_order_release);
    *made = stager;
    return LEAT_OK;
}

/* Calls make() so that its driver calls end no capture of a stream, and so that no capture of another thread
 * forbids them. Otherwise the wait in try_set_up() could be refused, and the device would have no staging for
 * good. */
static leat_status make_during_captures(leat_device *device, struct leati_stager **made)
{
    struct leati_driver *driver = device->driver;
    unsigned mode = LEATI_CAPTURE_RELAXED;
    bool exchanged =
        driver->ops->capture_mode && LEATI_QUIETLY(driver->ops->capture_mode(driver, &mode)) == LEAT_OK;
    leat_status status = make(device, made);

    if (exchanged)
        (void)LEATI_QUIETLY(driver->ops->capture_mode(driver, &mode));
    return status;
}

leat_status leati_stager_get(leat_device *device, struct leati_stager **stager)
{
    leat_status status = LEAT_OK;

    *stager = atomic_load_explicit(&device->stager, memory_order_acquire);
    if (*stager)
        return LEAT_OK;
    leati_lock(&make_lock);
    *stager = atomic_load_explicit(&device->stager, memory_order_acquire);
    if (!*stager)
        status = make_during_captures(device, stager);
    leati_unlock(&make_lock);
    return status;
}

/* ---- creating a stager in the background ---- */

/* A thread that creates the stager of a device. The second copy starts the thread, because many processes make
 * only one copy. Closing the device joins the thread. */
struct maker {
    leat_device *device;
    bool started; /* protected by makers_lock */
    pthread_t thread;
    atomic_bool over; /* the thread has created the stager, or has failed */
    struct maker *next;
};

/* Protects the list makers. It is not held during pthread_join(). */
static struct leati_lock makers_lock = LEATI_LOCK_INITIALIZER;
static struct maker *makers LEATI_GUARDED_BY(makers_lock);

/* Returns the maker of a device, or NULL. */
static struct maker *maker_of(const leat_device *device) LEATI_REQUIRES(makers_lock)
{
    struct maker *maker = makers;

    leati_assert_locked(&makers_lock);
    while (maker && maker->device != device)
        maker = maker->next;
    return maker;
}

static void *run_maker(void *argument)
{
    struct maker *maker = argument;
    struct leati_stager *stager;

    /* If this call fails, the next copy tries again and reports the failure, see leati_stager_find(). */
    (void)LEATI_QUIETLY(leati_stager_get(maker->device, &stager));
    atomic_store_explicit(&maker->over, true, memory_order_relaxed);
    return NULL;
}

void leati_stager_prepare(leat_device *device)
{
    struct maker *maker;

    leati_lock(&makers_lock);
    maker = maker_of(device);
    if (maker && !maker->started) {
        leati_copy_set_hooks(device);
        maker->started = !leati_thread_start(&maker->thread, run_maker, maker);
    } else if (!maker && (maker = calloc(1, sizeof *maker))) {
        maker->device = device;
        maker->next = makers;
        makers = maker;
        leati_copy_set_hooks(device);
    }
    leati_unlock(&makers_lock);
}

leat_status leati_stager_find(leat_device *device, struct leati_stager **stager)
{
    struct maker *maker;
    bool wait;

    /* Acquire: makes the fields that make() has set visible to this thread. */
    *stager = atomic_load_explicit(&device->stager, memory_order_acquire);
    if (*stager)
        return LEAT_OK;
    leati_lock(&makers_lock);
    maker = maker_of(device);
    /* If the thread is over but there is no stager, the thread has failed. Then this caller tries again, and gets
     * the message. */
    wait =
        !device->driver->can->dma_engines || (maker && atomic_load_explicit(&maker->over, memory_order_relaxed));
    leati_unlock(&makers_lock);
    return wait ? leati_stager_get(device, stager) : LEATI_DECLINED;
}

static void join_maker(const leat_device *device)
{
    struct maker **place = &makers, *maker;

    leati_lock(&makers_lock);
    while (*place && (*place)->device != device)
        place = &(*place)->next;
    maker = *place;
    if (maker)
        *place = maker->next;
    leati_unlock(&makers_lock);
    if (!maker)
        return;
    if (maker->started)
        pthread_join(maker->thread, NULL);
    free(maker);
}

/* ---- hooks that the core calls ---- */

static void device_ends(struct leat_device *device)
{
    struct leati_stager *stager = atomic_load_explicit(&device->stager, memory_order_acquire);

    if (stager && stager->workers)
        leati_stager_stop_storage(stager);
}

static leat_status device_closes(struct leat_device *device)
{
    leat_status status = LEAT_OK, ended;
    struct staged_device *staged;
    struct leati_stager *stager;

    join_maker(device);
    stager = atomic_load_explicit(&device->stager, memory_order_acquire);
    leati_rails_close(device);
    if (!stager)
        return LEAT_OK;
    staged = staged_of(stager);
    /* All streams were destroyed, but work on a destroyed stream may still write a flag, so wait for the device.
     */
    if (stager->workers || stager->lost)
        status = device->driver->ops->device_synchronize(device->driver, device->native);
    /* If the call failed, it may have reported a failure of earlier work instead of waiting. So wait again,
     * because the memory of the flags is freed below. */
    if (status != LEAT_OK)
        (void)device->driver->ops->device_synchronize(device->driver, device->native);
    leati_eager_rings_end(staged->rings, stager);
    leati_stager_end(stager);
    ended = destroy_pools(staged);
    atomic_store_explicit(&device->stager, NULL, memory_order_relaxed);
    free(staged);
    return status == LEAT_OK ? ended : status;
}

/* The stream or event that a thread is about to wait for, and the driver's function that queries it. */
struct waited {
    struct leati_driver *driver;
    leati_query_function query;
    void *native;
};

static leat_status query_waited(void *context)
{
    struct waited *waited = context;

    return waited->query(waited->driver, waited->native);
}

LEATI_HOT static void wait_begins(struct leat_device *device, leati_query_function query, void *native)
{
    /* Acquire: makes the fields that make() has set visible to this thread. */
    struct leati_stager *stager = atomic_load_explicit(&device->stager, memory_order_acquire);
    struct waited waited = {device->driver, query, native};

    if (!stager)
        return;
    leati_stager_help_while_waiting(stager, query_waited, &waited);
    if (staged_of(stager)->driver_spins)
        leati_stager_rest_while_waiting(stager, native, query_waited, &waited);
}

static const struct leati_copy_hooks copy_hooks = {
    .stream_ends = leati_eager_stream_ends,
    .device_ends = device_ends,
    .device_closes = device_closes,
    .wait_begins = wait_begins};

void leati_copy_set_hooks(leat_device *device)
{
    /* Release: threads of the core that load the hooks with acquire see the whole table. */
    atomic_store_explicit(&device->copy_hooks, &copy_hooks, memory_order_release);
}

/* ---- copies ---- */

static void begin(void *context)
{
    leati_stream_piece_begins(((struct leati_stage *)context)->stream);
}

static void end(void *context)
{
    struct leati_stage *stage = context;

    leati_stream_piece_ends(stage->stream);
    if (!stage->request->eager)
        return;
    leati_timeline_submitted(stage->stream->timeline);
    leati_timeline_wait_begins(stage->stream->timeline, &stage->caught_up);
}

/* Returns the unit of chunk sizes: the bytes of a row if the device's side of a region has gaps, because chunks
 * must then be whole rows; else 0. */
static size_t chunk_unit(const struct leati_stage_request *request)
{
    enum leati_region_side placed = request->direction == LEATI_DIRECTION_IN ? LEATI_REGION_DST : LEATI_REGION_SRC;
    const struct leati_staged_region *region = request->region;

    leati_assert(!region || region->region.width_bytes);
    return region && request->direction != LEATI_DIRECTION_HOST && !leati_region_is_dense(&region->region, placed)
               ? region->region.width_bytes
               : 0;
}

static leat_status move(void *context, size_t offset, size_t bytes, void *ring_place)
{
    struct leati_stage *stage = context;
    const struct leati_stage_request *request = stage->request;
    struct leati_driver *driver = stage->stream->device->driver;
    struct leati_location ring = {.ptr = ring_place, .kind = LEAT_KIND_PINNED}, placed = stage->placed;
    bool in = request->direction == LEATI_DIRECTION_IN;
    size_t row_bytes = chunk_unit(request);

    leati_assert(!row_bytes || (offset % row_bytes == 0 && bytes % row_bytes == 0));
    if (row_bytes)
        return leati_region_move_packed(stage->stream, request->region->protocol,
                                        in ? LEATI_REGION_DST : LEATI_REGION_SRC, placed, ring,
                                        &request->region->region, offset / row_bytes, bytes / row_bytes);
    if (request->scatter)
        return leati_spread_move(&stage->spread, stage->stream, request->scatter, in, offset, bytes, ring);
    placed.ptr = (char *)placed.ptr + offset;
    if (request->rail)
        return leati_rail_copy(request->rail, placed, ring, bytes);
    return driver->ops->copy(driver, stage->stream->native, in ? placed : ring, in ? ring : placed, bytes);
}

static struct leati_rows rows_of(const leat_copy_region *region, enum leati_region_side side, const void *base)
{
    bool dst = side == LEATI_REGION_DST;

    return (struct leati_rows){.base = (char *)base,
                               .width = region->width_bytes,
                               .pitch = dst ? region->dst_pitch_bytes : region->src_pitch_bytes,
                               .height = region->height,
                               .slice = dst ? region->dst_slice_bytes : region->src_slice_bytes};
}

leat_status leati_stage_reserve(struct leati_stage *stage, struct leati_stager *stager, leat_stream *stream,
                                const struct leati_endpoint *to, const struct leati_endpoint *from, size_t bytes,
                                const struct leati_stage_request *request)
{
    stage->stager = stager;
    stage->stream = stream;
    stage->request = request;
    stage->placed = request->direction == LEATI_DIRECTION_IN ? to->location : from->location;
    stage->staging = (struct leati_staging_request){
        .direction = request->direction,
        .early = request->early,
        .eager = request->eager,
        .block = request->block,
        .own_ring = stream->timeline->per_thread,
        .no_wait = request->no_wait,
        .deadline_ns = request->deadline_ns,
        .dst = to->location.ptr,
        .src = from->location.ptr,
        .bytes = bytes,
        .list = request->list,
        .storage = request->storage,
        .unit_bytes = chunk_unit(request),
        .chunk_most_bytes = request->rail ? LEATI_RAIL_CHUNK_BYTES : 0,
        .stream = request->rail ? leati_rail_stream(request->rail) : stream->native,
        .timeline = stream->timeline,
        .context = stage,
        .begin = begin,
        .end = end,
        .move = move,
    };
    leati_assert(!request->rail || request->direction == LEATI_DIRECTION_IN);
    leati_assert(!request->region || !request->list);
    if (request->region) {
        stage->to_rows = rows_of(&request->region->region, LEATI_REGION_DST, to->location.ptr);
        stage->from_rows = rows_of(&request->region->region, LEATI_REGION_SRC, from->location.ptr);
        stage->staging.to_rows = &stage->to_rows;
        stage->staging.from_rows = &stage->from_rows;
    }
    return leati_stager_reserve(stager, &stage->staging, &stage->job);
}

void leati_stage_drop(struct leati_stage *stage)
{
    leati_stager_drop(stage->stager, stage->job);
}

leat_status leati_stage_submit(struct leati_stage *stage, struct leati_job **job)
{
    const struct leati_stage_request *request = stage->request;
    bool spread = request->scatter && request->direction != LEATI_DIRECTION_HOST;
    leat_status status;

    if (spread)
        leati_spread_begin(&stage->spread, stage->stream, request->scatter,
                           request->direction == LEATI_DIRECTION_IN, stage->staging.bytes, stage->job->chunks,
                           stage->job->count);
    status = leati_stager_submit(stage->stager, &stage->staging, stage->job, job);
    if (spread)
        leati_spread_end(&stage->spread, stage->stream);
    /* For an eager copy out leati_stager_submit() has waited for the stream, so report the end of the wait. */
    if (request->eager && request->direction == LEATI_DIRECTION_OUT &&
        (status == LEAT_OK || status == LEAT_ERROR_POINTER))
        leati_timeline_wait_ends(stage->stream->timeline, &stage->caught_up);
    if (!request->eager && request->direction != LEATI_DIRECTION_IN && !(request->list && request->list->scratch))
        leati_stream_writes_host(stage->stream);
    return status;
}

leat_status leati_stage_start(struct leati_stager *stager, leat_stream *stream, const struct leati_endpoint *to,
                              const struct leati_endpoint *from, size_t bytes,
                              const struct leati_stage_request *request, struct leati_job **job)
{
    struct leati_stage stage;

    LEATI_TRY(leati_stage_reserve(&stage, stager, stream, to, from, bytes, request));
    return leati_stage_submit(&stage, job);
}
