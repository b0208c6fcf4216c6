/*
 * replay_target.c - implements the allocators of "leat replay": a pool of leat, and the driver's own calls,
 * through the tables of "leat bench" (bench_peer.h).
 *
 * leat_alloc_driver() replaces the driver's calls on devices without such a table. It also replaces the
 * stream-ordered calls on the CPU device, which has no others.
 */
#include "bench_peer.h"
#include "replay.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const replay_allocator_names[REPLAY_ALLOCATOR_COUNT] = {"leat", "driver", "driver-async",
                                                                    "driver-async-keep"};
const char *const replay_policy_names[3] = {[LEAT_POOL_REUSE_WAIT_LAST] = "wait-last",
                                            [LEAT_POOL_REUSE_WAIT] = "wait",
                                            [LEAT_POOL_REUSE_WAIT_NEVER] = "wait-never"};
const char *const replay_packing_names[3] = {
    [LEAT_POOL_PACKING_AUTO] = "auto", [LEAT_POOL_PACKING_STILL] = "still", [LEAT_POOL_PACKING_TIGHT] = "tight"};

static bool check(struct replay_target *target, leat_status status)
{
    if (status != LEAT_OK && !target->error[0])
        snprintf(target->error, sizeof target->error, "%s", leat_last_error());
    return status == LEAT_OK;
}

static bool check_peer(struct replay_target *target, const char *what, int result)
{
    if (result != 0 && !target->error[0])
        snprintf(target->error, sizeof target->error, "the driver's own call failed: %s, error %d", what, result);
    return result == 0;
}

/* ---- a pool of leat ---- */

/* Returns a stream of the trace as leat's stream; NULL for the host. */
static leat_stream *stream_of(const struct replay_target *target, unsigned stream)
{
    return (int)stream == target->host_stream ? NULL : target->streams[stream];
}

static bool leat_target_alloc(struct replay_target *target, const struct trace_block *block, void **ptr)
{
    return check(target, leat_pool_alloc_aligned(stream_of(target, block->stream), target->pool, block->bytes,
                                                 block->alignment, ptr));
}

/* Frees a block of the pool. used_elsewhere: other streams used the block. The trace does not say which, so report
 * all other streams as users. */
static bool leat_target_free(struct replay_target *target, unsigned stream, bool used_elsewhere, void *ptr)
{
    leat_stream *freeing = stream_of(target, stream);
    unsigned i;

    for (i = 0; used_elsewhere && i < target->stream_count; i++)
        if (i != stream && !check(target, leat_block_use(target->streams[i], ptr)))
            return false;
    return check(target, freeing ? leat_free(freeing, ptr) : leat_memory_free(ptr));
}

/* ---- the driver's calls ---- */

/* Makes a stream wait for all other streams. This is needed before it frees a block that other streams used,
 * because the driver orders a free only in its own stream. */
static bool wait_for_others(struct replay_target *target, unsigned stream)
{
    unsigned i;

    for (i = 0; i < target->stream_count; i++) {
        if (i == stream)
            continue;
        if (!check(target, leat_event_record(target->streams[i], target->event)) ||
            !check(target, leat_stream_wait(target->streams[stream], target->event)))
            return false;
        target->events++;
        target->stream_waits++;
    }
    return true;
}

static bool driver_alloc(struct replay_target *target, const struct trace_block *block, void **ptr)
{
    target->driver_calls++;
    return check(target, leat_alloc_driver(target->streams[block->stream], block->bytes, ptr));
}

static bool driver_free(struct replay_target *target, unsigned stream, bool used_elsewhere, void *ptr)
{
    if (used_elsewhere && !wait_for_others(target, stream))
        return false;
    target->driver_calls++;
    return check(target, leat_free(target->streams[stream], ptr));
}

static bool peer_alloc(struct replay_target *target, const struct trace_block *block, void **ptr)
{
    target->driver_calls++;
    return check_peer(target, "allocating", target->peer->alloc(target->peer, block->bytes, ptr));
}

/* Frees a block by the driver's plain call. That call waits for the device if necessary, so peer_free() need not
 * order the streams. */
static bool peer_free(struct replay_target *target, unsigned stream, bool used_elsewhere, void *ptr)
{
    (void)stream, (void)used_elsewhere;
    target->driver_calls++;
    return check_peer(target, "freeing", target->peer->free(target->peer, ptr));
}

static bool peer_alloc_async(struct replay_target *target, const struct trace_block *block, void **ptr)
{
    void *stream = target->native_streams[block->stream];

    target->driver_calls++;
    return check_peer(target, "allocating in stream order",
                      target->peer->alloc_async(target->peer, stream, block->bytes, ptr));
}

static bool peer_free_async(struct replay_target *target, unsigned stream, bool used_elsewhere, void *ptr)
{
    if (used_elsewhere && !wait_for_others(target, stream))
        return false;
    target->driver_calls++;
    return check_peer(target, "freeing in stream order",
                      target->peer->free_async(target->peer, target->native_streams[stream], ptr));
}

/* ---- events that order streams ---- */

static bool make_stream(struct replay_target *target, unsigned stream)
{
    return check(target, leat_stream_create(target->device, &target->streams[stream])) &&
           check(target, leat_stream_native(target->streams[stream], &target->native_streams[stream]));
}

static bool renew_stream(struct replay_target *target, unsigned stream)
{
    leat_stream *old = target->streams[stream];

    target->streams[stream] = NULL;
    return check(target, leat_stream_destroy(old)) && make_stream(target, stream);
}

static bool end_mark(struct replay_target *target, uint32_t mark)
{
    leat_event *old = target->marks[mark];

    target->marks[mark] = NULL;
    return check(target, leat_event_destroy(old));
}

bool replay_order(struct replay_target *target, const struct trace_event *event, void *ptr)
{
    leat_stream *stream = target->streams[event->stream];
    leat_event **mark = target->marks + event->mark;

    switch (event->op) {
    case TRACE_USE:
        return !target->pool || check(target, leat_block_use(stream, ptr));
    case TRACE_USE_UNTIL:
        return !target->pool || check(target, leat_block_use_until(*mark, ptr));
    case TRACE_RECORD:
        return (*mark || check(target, leat_event_create(target->device, mark))) &&
               check(target, leat_event_record(stream, *mark));
    case TRACE_WAIT:
        return check(target, leat_stream_wait(stream, *mark));
    case TRACE_SYNC:
        return check(target, leat_stream_synchronize(stream));
    case TRACE_SYNC_MARK:
        return check(target, leat_event_synchronize(*mark));
    case TRACE_SYNC_ALL:
        return check(target, leat_device_synchronize(target->device));
    case TRACE_STREAM_END:
        return renew_stream(target, event->stream);
    default: /* TRACE_MARK_END */
        return end_mark(target, event->mark);
    }
}

/* ---- the peak memory of the driver's plain calls ---- */

/* Takes a sample of the memory in use, as the decrease of the device's free memory. This includes memory that
 * other programs allocate meanwhile. */
static void sample_free_memory(struct replay_target *target)
{
    uint64_t free_bytes;

    if (leat_device_memory(target->device, &free_bytes, NULL) == LEAT_OK &&
        target->first_free_bytes > free_bytes &&
        target->first_free_bytes - free_bytes > target->sampled_peak_bytes)
        target->sampled_peak_bytes = target->first_free_bytes - free_bytes;
}

/* ---- opening ---- */

static bool is_cpu(const struct replay_target *target)
{
    return !strcmp(target->info.driver, "cpu");
}

static bool open_pool(struct replay_target *target, const struct replay_options *options)
{
    leat_pool_options pool = {.size = sizeof pool,
                              .name = "replay",
                              .kind = options->kind,
                              .reuse = options->policy,
                              .packing = options->packing,
                              .limit_bytes = options->limit_bytes,
                              .plan = options->plan};

    target->alloc = leat_target_alloc;
    target->free = leat_target_free;
    snprintf(target->calls, sizeof target->calls, "leat_pool_alloc and leat_free, policy %s, packing %s",
             replay_policy_names[options->policy], replay_packing_names[options->packing]);
    return check(target, leat_pool_create(target->device, &pool, &target->pool));
}

/* Creates the table of the driver's calls. target->peer stays NULL if there is none for this device. */
static void make_peer(struct replay_target *target)
{
    const char *why;

    if (is_cpu(target)) {
        target->workers = bench_workers_create(1);
        target->peer = target->workers ? bench_peer_cpu(target->workers, &target->info, &why) : NULL;
    } else if (!strcmp(target->info.driver, "cuda")) {
        target->peer = bench_peer_cuda(target->device, true, &why);
    }
    if (target->peer)
        target->entered = target->peer->enter(target->peer) == 0;
}

static void use_driver_calls(struct replay_target *target)
{
    target->alloc = driver_alloc;
    target->free = driver_free;
    target->no_peak = "nothing says what these calls hold";
    snprintf(target->calls, sizeof target->calls, "leat_alloc_driver and leat_free");
}

static void open_driver(struct replay_target *target)
{
    if (!target->peer) {
        use_driver_calls(target);
        return;
    }
    target->alloc = peer_alloc;
    target->free = peer_free;
    snprintf(target->calls, sizeof target->calls, "%s",
             is_cpu(target) ? "malloc and free" : "cuMemAlloc and cuMemFree");
    if (is_cpu(target)) {
        target->no_peak = "malloc takes pages only when they are touched";
        return;
    }
    if (leat_device_memory(target->device, &target->first_free_bytes, NULL) == LEAT_OK)
        target->sample = sample_free_memory;
    else
        target->no_peak = "the device does not say how much of its memory is free";
}

static bool open_driver_async(struct replay_target *target, bool keep)
{
    if (!target->peer || is_cpu(target)) {
        use_driver_calls(target);
        if (!keep)
            return true;
        snprintf(target->error, sizeof target->error,
                 "%s: the allocator driver-async-keep needs a driver with a pool of its own", target->info.name);
        return false;
    }
    if (!target->peer->alloc_async || (keep && !target->peer->pool_watch)) {
        snprintf(target->error, sizeof target->error, "%s: this driver has no %s", target->info.name,
                 keep ? "pool that can be told to keep its memory" : "calls that allocate in stream order");
        return false;
    }
    target->alloc = peer_alloc_async;
    target->free = peer_free_async;
    snprintf(target->calls, sizeof target->calls, "cuMemAllocAsync and cuMemFreeAsync, the default pool %s",
             keep ? "with its release threshold at the maximum" : "as it is");
    if (!target->peer->pool_watch) {
        target->no_peak = "this driver does not say how much its pool held";
        return true;
    }
    target->driver_pool = check_peer(target, "watching its pool", target->peer->pool_watch(target->peer, keep));
    return target->driver_pool;
}

static bool make_streams(struct replay_target *target, const struct trace *trace)
{
    target->host_stream = trace->host_stream;
    target->marks = calloc(trace->mark_count + 1, sizeof *target->marks);
    if (!target->marks) {
        snprintf(target->error, sizeof target->error, "out of host memory");
        return false;
    }
    target->mark_count = trace->mark_count;
    for (; target->stream_count < trace->stream_count; target->stream_count++)
        if (!make_stream(target, target->stream_count))
            return false;
    return check(target, leat_event_create(target->device, &target->event));
}

bool replay_open(struct replay_target *target, const struct replay_options *options, const struct trace *trace)
{
    memset(target, 0, sizeof *target);
    target->info = (leat_device_info)LEAT_DEVICE_INFO_INIT;
    if (!check(target, leat_device_open(options->device, &target->device)) ||
        !check(target, leat_device_get_info(target->device, &target->info)) || !make_streams(target, trace))
        return false;
    if (options->allocator == REPLAY_LEAT)
        return open_pool(target, options);
    make_peer(target);
    if (target->peer && !target->entered) {
        snprintf(target->error, sizeof target->error, "%s: the device's context cannot be made current",
                 target->info.name);
        return false;
    }
    if (options->allocator == REPLAY_DRIVER) {
        open_driver(target);
        return true;
    }
    return open_driver_async(target, options->allocator == REPLAY_DRIVER_ASYNC_KEEP);
}

bool replay_close(struct replay_target *target)
{
    bool fine;
    unsigned i;

    /* Clear the error of an earlier failure, which was reported already. */
    target->error[0] = '\0';
    fine = check(target, leat_pool_destroy(target->pool));
    if (target->driver_pool)
        fine = check_peer(target, "its pool's settings", target->peer->pool_unwatch(target->peer)) && fine;
    if (target->entered)
        target->peer->leave(target->peer);
    if (target->peer)
        target->peer->destroy(target->peer);
    bench_workers_destroy(target->workers);
    leat_event_destroy(target->event);
    for (i = 0; i < target->mark_count; i++)
        leat_event_destroy(target->marks[i]);
    free(target->marks);
    for (i = 0; i < target->stream_count; i++)
        leat_stream_destroy(target->streams[i]);
    return check(target, leat_device_close(target->device)) && fine;
}

/* ---- statistics ---- */

bool replay_statistics(struct replay_target *target, leat_pool_stats *statistics)
{
    *statistics = (leat_pool_stats)LEAT_POOL_STATS_INIT;
    if (target->pool)
        return check(target, leat_pool_get_stats(target->pool, statistics));
    statistics->driver_calls = target->driver_calls;
    statistics->events = target->events;
    statistics->stream_waits = target->stream_waits;
    return true;
}

bool replay_peak_bytes(struct replay_target *target, uint64_t *bytes)
{
    leat_pool_stats statistics = LEAT_POOL_STATS_INIT;

    if (target->pool) {
        if (!replay_statistics(target, &statistics))
            return false;
        *bytes = statistics.reserved_peak_bytes;
        return true;
    }
    if (target->driver_pool)
        return target->peer->pool_peak(target->peer, bytes) == 0;
    if (target->sample && target->sampled_peak_bytes == 0)
        target->no_peak = "the device's free memory did not shrink meanwhile";
    *bytes = target->sampled_peak_bytes;
    return target->sampled_peak_bytes > 0;
}
