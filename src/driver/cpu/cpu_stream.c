/*
 * cpu_stream.c - implements streams and events of the CPU device.
 *
 * A stream is a queue of work and a thread that executes the work. An event refers to its latest fence. Each
 * record makes a new fence, and a wait refers to the fence that was the latest when the wait was submitted, so a
 * later record does not change earlier waits. A fence is queued before any stream or thread can wait for it, so
 * waits cannot form a cycle.
 */
#include "driver/cpu/cpu.h"

#include "base/addresses.h"
#include "base/clock.h"
#include "base/flag.h"
#include "base/handles.h"
#include "base/lock.h"
#include "base/thread.h"
#include "base/workers.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A point in a stream's queue. Events and queues hold references to it; holders counts them. */
struct cpu_fence {
    atomic_uint holders;
    struct leati_lock lock; /* guards the next two fields; taken after a stream's lock */
    pthread_cond_t reached_now;
    bool reached;
    uint64_t reached_ns;
};

struct cpu_event {
    struct leati_handle handle; /* cpu_event_adopt() may get any pointer and must recognise events */
    struct leati_lock lock;     /* guards fence; held while a record or a wait is queued */
    struct cpu_fence *fence;    /* fence of the latest record; NULL before the first record */
};

static struct leati_handles event_handles = LEATI_HANDLES(struct cpu_event);

struct cpu_stream {
    struct cpu_device *device;
    pthread_t thread;
    struct leati_lock lock; /* guards the fields below */
    pthread_cond_t work_there, work_done;
    struct cpu_work *first, **end;
    uint64_t submitted, done;
    bool borrowed; /* another thread runs a piece of work of this stream (cpu_stream_run_here()) */
    bool closing;
    char lost[256];          /* the message of a failed copy, or "" */
    struct cpu_stream *next; /* this and the next field: under the device's streams_lock */
    unsigned holders;        /* threads in cpu_device_synchronize() that use the stream */
};

/* A handle for a stream. owned: true if cpu_stream_create() made the handle, false if cpu_stream_adopt() did. */
struct cpu_stream_handle {
    struct cpu_stream *stream;
    bool owned;
};

struct cpu_event_handle {
    struct cpu_event *event;
    bool owned;
};

/* ---- the queue ---- */

static void *stream_thread(void *argument)
{
    struct cpu_stream *stream = argument;

    cpu_strict_allow();
    leati_lock(&stream->lock);
    for (;;) {
        struct cpu_work *work;

        while (stream->borrowed || (!stream->first && !stream->closing))
            leati_cond_wait(&stream->work_there, &stream->lock);
        leati_assert(!stream->borrowed);
        work = stream->first;
        if (!work)
            break;
        stream->first = work->next;
        if (!stream->first)
            stream->end = &stream->first;
        leati_unlock(&stream->lock);
        if (work->run)
            work->run(work);
        leati_lock(&stream->lock);
        leati_assert(stream->done < stream->submitted);
        stream->done++;
        if (work->counted)
            work->counted(work);
        free(work);
        pthread_cond_broadcast(&stream->work_done);
    }
    leati_unlock(&stream->lock);
    return NULL;
}

static void push(struct cpu_stream *stream, struct cpu_work *work)
{
    leati_assert(work->run || work->counted);
    work->next = NULL;
    leati_lock(&stream->lock);
    leati_assert(!stream->closing && !*stream->end);
    *stream->end = work;
    stream->end = &work->next;
    stream->submitted++;
    pthread_cond_signal(&stream->work_there);
    leati_unlock(&stream->lock);
}

void cpu_stream_push(void *handle, struct cpu_work *work)
{
    push(((struct cpu_stream_handle *)handle)->stream, work);
}

bool cpu_stream_run_here(void *handle, struct cpu_work *work)
{
    struct cpu_stream *stream = ((struct cpu_stream_handle *)handle)->stream;
    bool idle;

    leati_lock(&stream->lock);
    idle = stream->done == stream->submitted;
    if (idle) {
        leati_assert(!stream->borrowed && !stream->first);
        stream->submitted++;
        stream->borrowed = true;
    }
    leati_unlock(&stream->lock);
    if (!idle)
        return false;
    cpu_strict_allow();
    work->run(work);
    cpu_strict_forbid();
    free(work);
    leati_lock(&stream->lock);
    leati_assert(stream->borrowed && stream->done < stream->submitted);
    stream->done++;
    stream->borrowed = false;
    pthread_cond_broadcast(&stream->work_done);
    pthread_cond_signal(&stream->work_there); /* other threads may have queued work meanwhile */
    leati_unlock(&stream->lock);
    return true;
}

struct cpu_stream *cpu_stream_core(void *handle)
{
    return ((struct cpu_stream_handle *)handle)->stream;
}

void cpu_stream_lost(struct cpu_stream *stream, const void *dst, const void *src, size_t bytes, uintptr_t fault)
{
    leati_assert(dst && src && bytes);
    leati_lock(&stream->lock);
    if (!stream->lost[0])
        snprintf(stream->lost, sizeof stream->lost,
                 "a copy of %zu bytes from %p to %p stopped: the pageable memory at %p could not be reached (unmapped, protected, or its file shrank); keep it until the stream has completed the copy",
                 bytes, src, dst, (void *)fault);
    leati_unlock(&stream->lock);
}

struct cpu_device *cpu_stream_device(void *handle)
{
    return ((struct cpu_stream_handle *)handle)->stream->device;
}

static void drain(struct cpu_stream *stream)
{
    uint64_t until;

    leati_lock(&stream->lock);
    until = stream->submitted;
    while (stream->done < until)
        leati_cond_wait(&stream->work_done, &stream->lock);
    leati_unlock(&stream->lock);
}

/* ---- creating and destroying streams ---- */

/* Frees a stream that has no thread. */
static void discard(struct cpu_stream *stream)
{
    leati_lock_destroy(&stream->lock);
    pthread_cond_destroy(&stream->work_there);
    pthread_cond_destroy(&stream->work_done);
    free(stream);
}

static leat_status start(struct cpu_device *device, struct cpu_stream **started)
{
    struct cpu_stream *stream = calloc(1, sizeof *stream);
    struct leati_addresses_hint hint;
    int failed;

    if (!stream)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a stream");
    stream->device = device;
    stream->end = &stream->first;
    leati_lock_init(&stream->lock);
    pthread_cond_init(&stream->work_there, NULL);
    pthread_cond_init(&stream->work_done, NULL);
    failed = leati_thread_start(&stream->thread, stream_thread, stream);
    if (failed) {
        discard(stream);
        return leati_fail(LEAT_ERROR_SYSTEM, "pthread_create: %s: each stream of the CPU device is a thread%s",
                          strerror(failed), leati_addresses_hint(&hint));
    }
    *started = stream;
    return LEAT_OK;
}

static void end(struct cpu_stream *stream)
{
    leati_assert(!stream->holders);
    pthread_join(stream->thread, NULL);
    discard(stream);
}

/* Returns true if the stream's owner has not destroyed it. */
static bool usable(struct cpu_stream *stream)
{
    bool yes;

    leati_lock(&stream->lock);
    yes = !stream->closing;
    leati_unlock(&stream->lock);
    return yes;
}

static bool finished(struct cpu_stream *stream)
{
    bool yes;

    leati_lock(&stream->lock);
    yes = stream->closing && stream->done == stream->submitted;
    leati_unlock(&stream->lock);
    return yes;
}

/* Ends the threads of destroyed streams that have no work left. If all is set, also ends the threads of streams
 * with work, and waits for that work. */
static void reap(struct cpu_device *device, bool all)
{
    struct cpu_stream **place;

    leati_lock(&device->streams_lock);
    for (place = &device->streams; *place;) {
        struct cpu_stream *stream = *place;

        if (!stream->holders && (all || finished(stream))) {
            *place = stream->next;
            end(stream);
        } else {
            place = &stream->next;
        }
    }
    leati_unlock(&device->streams_lock);
}

void cpu_streams_join(struct cpu_device *device)
{
    reap(device, true);
}

leat_status cpu_stream_create(struct leati_driver *driver, void *opened, void **handle)
{
    struct cpu_device *device = opened;
    struct cpu_stream_handle *made = malloc(sizeof *made);
    leat_status status;

    (void)driver;
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a stream");
    reap(device, false);
    made->owned = true;
    status = start(device, &made->stream);
    if (status != LEAT_OK) {
        free(made);
        return status;
    }
    leati_lock(&device->streams_lock);
    made->stream->next = device->streams;
    device->streams = made->stream;
    leati_unlock(&device->streams_lock);
    *handle = made;
    return LEAT_OK;
}

leat_status cpu_stream_destroy(struct leati_driver *driver, void *handle)
{
    struct cpu_stream_handle *ended = handle;

    (void)driver;
    if (ended->owned) {
        leati_lock(&ended->stream->lock);
        leati_assert(!ended->stream->closing);
        ended->stream->closing = true;
        pthread_cond_signal(&ended->stream->work_there);
        leati_unlock(&ended->stream->lock);
    }
    free(ended);
    return LEAT_OK;
}

leat_status cpu_stream_adopt(struct leati_driver *driver, void *opened, void *native, void **handle)
{
    struct cpu_device *device = opened;
    struct cpu_stream_handle *made;
    struct cpu_stream *stream;
    bool found;

    (void)driver;
    leati_lock(&device->streams_lock);
    for (stream = device->streams; stream && stream != native; stream = stream->next)
        ;
    /* A destroyed stream stays in the list until its thread has ended. */
    found = stream && usable(stream);
    leati_unlock(&device->streams_lock);
    if (!found)
        return leati_fail(LEAT_ERROR_INVALID, "%p is no stream of cpu:%d", native, device->ordinal);
    made = malloc(sizeof *made);
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a stream");
    *made = (struct cpu_stream_handle){.stream = stream};
    *handle = made;
    return LEAT_OK;
}

void *cpu_stream_native(struct leati_driver *driver, void *handle)
{
    (void)driver;
    return ((struct cpu_stream_handle *)handle)->stream;
}

leat_status cpu_stream_query(struct leati_driver *driver, void *handle)
{
    struct cpu_stream *stream = ((struct cpu_stream_handle *)handle)->stream;
    bool idle;

    (void)driver;
    /* Take the lock, which makes the writes of the finished work visible to the caller. */
    leati_lock(&stream->lock);
    idle = stream->done == stream->submitted;
    leati_unlock(&stream->lock);
    return idle ? LEAT_OK : LEAT_NOT_READY;
}

leat_status cpu_stream_synchronize(struct leati_driver *driver, void *handle)
{
    (void)driver;
    drain(cpu_stream_core(handle));
    return LEAT_OK;
}

leat_status cpu_stream_take_failure(struct leati_driver *driver, void *handle)
{
    struct cpu_stream *stream = cpu_stream_core(handle);
    char lost[sizeof stream->lost];

    (void)driver;
    leati_lock(&stream->lock);
    memcpy(lost, stream->lost, sizeof lost);
    stream->lost[0] = '\0';
    leati_unlock(&stream->lock);
    return lost[0] ? leati_fail(LEAT_ERROR_POINTER, "%s", lost) : LEAT_OK;
}

leat_status cpu_device_synchronize(struct leati_driver *driver, void *opened)
{
    struct cpu_device *device = opened;
    struct cpu_stream *stream;

    (void)driver;
    leati_lock(&device->streams_lock);
    for (stream = device->streams; stream; stream = stream->next) {
        /* While holders is not 0, reap() leaves the stream in the list, so the walk can continue from it. */
        stream->holders++;
        leati_unlock(&device->streams_lock);
        drain(stream);
        leati_lock(&device->streams_lock);
        stream->holders--;
    }
    leati_unlock(&device->streams_lock);
    return LEAT_OK;
}

/* ---- stream memory operations ---- */

struct value_work {
    struct cpu_work work;
    unsigned count;
    struct leati_mem_op ops[4];
};

/* Waits for the flag: first with sched_yield(), then asleep. Threads that complete parts of a copy and streams
 * of the CPU device wake it (base/flag.h); other writers do not, so it looks again after a while. That becomes
 * longer, but stays below about a hundredth of the time waited so far: with short pauses only, half of the
 * processor time of a long read of a file was this thread's. */
static void wait_for_value(const struct leati_mem_op *value)
{
    uint32_t pause_ns = 20000, now;

    for (unsigned looks = 0;; looks++) {
        /* Acquire: later work of the stream sees what the host wrote before it wrote the flag. */
        now = atomic_load_explicit(value->flag, memory_order_acquire);
        if ((int32_t)(now - value->value) >= 0)
            return;
        if (looks < 100) {
            sched_yield();
            continue;
        }
        /* A pause of 20 us takes about 75 us, so these steps are after some 15 and 60 ms. */
        if (looks == 300)
            pause_ns = 100000;
        else if (looks == 600)
            pause_ns = 500000;
        leati_flag_sleep(value->flag, now, pause_ns);
    }
}

/* Writes a flag, and does a small part of a copy of the program's own storage that waits for it. */
static void write_value(const struct leati_mem_op *value)
{
    _Atomic uint32_t *flag = value->flag; /* the value may be gone, and the flag too, once it is written */

    /* Also a release: a thread that sees the flag also sees the copies before it. */
    atomic_store(flag, value->value);
    leati_flag_wake(flag);
    cpu_strict_forbid();
    leati_workers_help_flag(flag);
    cpu_strict_allow();
}

static void run_mem_ops(struct cpu_work *work)
{
    struct value_work *all = (struct value_work *)(void *)work;

    for (unsigned i = 0; i < all->count; i++) {
        if (all->ops[i].wait)
            wait_for_value(&all->ops[i]);
        else
            write_value(&all->ops[i]);
    }
}

leat_status cpu_stream_mem_ops(struct leati_driver *driver, void *handle, const struct leati_mem_op *ops,
                               unsigned count)
{
    struct value_work *work = malloc(sizeof *work);

    (void)driver;
    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to queue the work");
    *work = (struct value_work){.work.run = run_mem_ops, .count = count};
    memcpy(work->ops, ops, count * sizeof *ops);
    cpu_stream_push(handle, &work->work);
    return LEAT_OK;
}

/* ---- host functions ---- */

struct host_work {
    struct cpu_work work;
    void (*function)(void *);
    void *argument;
};

static void run_host(struct cpu_work *work)
{
    struct host_work *host = (struct host_work *)(void *)work;

    cpu_strict_forbid();
    host->function(host->argument);
    cpu_strict_allow();
}

leat_status cpu_launch_host(struct leati_driver *driver, void *handle, void (*function)(void *), void *argument)
{
    struct host_work *work = malloc(sizeof *work);

    (void)driver;
    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to queue the work");
    *work = (struct host_work){.work.run = run_host, .function = function, .argument = argument};
    cpu_stream_push(handle, &work->work);
    return LEAT_OK;
}

/* ---- events ---- */

static struct cpu_fence *new_fence(unsigned holders)
{
    struct cpu_fence *fence = calloc(1, sizeof *fence);

    if (!fence)
        return NULL;
    leati_assert(holders);
    atomic_init(&fence->holders, holders);
    leati_lock_init(&fence->lock);
    pthread_cond_init(&fence->reached_now, NULL);
    return fence;
}

static void let_go(struct cpu_fence *fence)
{
    leati_assert(!fence || atomic_load_explicit(&fence->holders, memory_order_relaxed));
    /* Release and acquire: the last holder frees the fence only after all other holders have finished using it. */
    if (!fence || atomic_fetch_sub_explicit(&fence->holders, 1, memory_order_acq_rel) != 1)
        return;
    leati_lock_destroy(&fence->lock);
    pthread_cond_destroy(&fence->reached_now);
    free(fence);
}

/* Returns the event's fence with a reference for the caller; NULL before the first record. Call under the event's
 * lock. */
static struct cpu_fence *hold_fence(struct cpu_event *event)
{
    leati_assert_locked(&event->lock);
    /* Relaxed: the event's own reference keeps the fence alive. */
    if (event->fence)
        atomic_fetch_add_explicit(&event->fence->holders, 1, memory_order_relaxed);
    return event->fence;
}

static struct cpu_fence *hold_fence_of(void *handle)
{
    struct cpu_event *event = ((struct cpu_event_handle *)handle)->event;
    struct cpu_fence *fence;

    leati_lock(&event->lock);
    fence = hold_fence(event);
    leati_unlock(&event->lock);
    return fence;
}

static void reach(struct cpu_fence *fence)
{
    leati_lock(&fence->lock);
    leati_assert(!fence->reached);
    fence->reached = true;
    fence->reached_ns = leati_clock_ns();
    pthread_cond_broadcast(&fence->reached_now);
    leati_unlock(&fence->lock);
}

static void wait_for(struct cpu_fence *fence)
{
    leati_lock(&fence->lock);
    while (!fence->reached)
        leati_cond_wait(&fence->reached_now, &fence->lock);
    leati_unlock(&fence->lock);
}

/* Returns the time at which the stream reached the fence; 0 if it has not reached it. */
static uint64_t reached_ns(struct cpu_fence *fence)
{
    uint64_t ns;

    leati_lock(&fence->lock);
    ns = fence->reached ? fence->reached_ns : 0;
    leati_unlock(&fence->lock);
    return ns;
}

leat_status cpu_event_create(struct leati_driver *driver, void *device, void **handle)
{
    struct cpu_event_handle *made = malloc(sizeof *made);
    struct cpu_event *event = made ? leati_handle_new(&event_handles) : NULL;

    (void)driver, (void)device;
    if (!event) {
        free(made);
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for an event");
    }
    leati_lock_init(&event->lock);
    leati_handle_publish(event);
    *made = (struct cpu_event_handle){.event = event, .owned = true};
    *handle = made;
    return LEAT_OK;
}

leat_status cpu_event_destroy(struct leati_driver *driver, void *handle)
{
    struct cpu_event_handle *ended = handle;

    (void)driver;
    if (ended->owned) {
        (void)leati_handle_retire(&event_handles, ended->event);
        let_go(ended->event->fence);
        leati_lock_destroy(&ended->event->lock);
        leati_handle_free(&event_handles, ended->event);
    }
    free(ended);
    return LEAT_OK;
}

leat_status cpu_event_adopt(struct leati_driver *driver, void *device, void *native, void **handle)
{
    struct cpu_event_handle *made;

    (void)driver, (void)device;
    if (!leati_handle_live(&event_handles, native))
        return leati_fail(LEAT_ERROR_INVALID, "%p is no event of the CPU devices", native);
    made = malloc(sizeof *made);
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for an event");
    *made = (struct cpu_event_handle){.event = native};
    *handle = made;
    return LEAT_OK;
}

void *cpu_event_native(struct leati_driver *driver, void *handle)
{
    (void)driver;
    return ((struct cpu_event_handle *)handle)->event;
}

struct fence_work {
    struct cpu_work work;
    struct cpu_fence *fence;
};

/* Runs as counted(), after the stream has counted this work as done. So a thread that has waited for the fence
 * also finds the stream idle, unless the stream has more work. */
static void count_record(struct cpu_work *work)
{
    struct fence_work *record = (struct fence_work *)(void *)work;

    reach(record->fence);
    let_go(record->fence);
}

leat_status cpu_event_record(struct leati_driver *driver, void *handle, void *stream)
{
    struct cpu_event *event = ((struct cpu_event_handle *)handle)->event;
    struct fence_work *work = malloc(sizeof *work);
    struct cpu_fence *fence = new_fence(2), *old; /* one reference for the event, one for the queue */

    (void)driver;
    if (!work || !fence) {
        free(work);
        free(fence);
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to queue the work");
    }
    *work = (struct fence_work){.work.counted = count_record, .fence = fence};
    leati_lock(&event->lock);
    old = event->fence;
    event->fence = fence;
    cpu_stream_push(stream, &work->work);
    leati_unlock(&event->lock);
    let_go(old);
    return LEAT_OK;
}

struct stamp_work {
    struct cpu_work work;
    _Atomic uint64_t *ns;
};

/* Relaxed: the time is all that the reader needs. */
static void stamp(_Atomic uint64_t *ns)
{
    atomic_store_explicit(ns, leati_clock_ns(), memory_order_relaxed);
}

static void run_stamp(struct cpu_work *work)
{
    stamp(((struct stamp_work *)(void *)work)->ns);
}

leat_status cpu_stream_stamp(struct leati_driver *driver, void *handle, _Atomic uint64_t *ns)
{
    struct cpu_stream *stream = ((struct cpu_stream_handle *)handle)->stream;
    struct stamp_work *work;
    bool idle;

    (void)driver;
    /* Not queued if the stream is idle, because later work then need not wake the stream's thread either. */
    leati_lock(&stream->lock);
    idle = stream->done == stream->submitted;
    if (idle)
        stamp(ns);
    leati_unlock(&stream->lock);
    if (idle)
        return LEAT_OK;
    work = malloc(sizeof *work);
    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to queue the work");
    *work = (struct stamp_work){.work.run = run_stamp, .ns = ns};
    cpu_stream_push(handle, &work->work);
    return LEAT_OK;
}

static void run_wait(struct cpu_work *work)
{
    struct fence_work *wait = (struct fence_work *)(void *)work;

    leati_assert(wait->fence);
    wait_for(wait->fence);
    let_go(wait->fence);
}

leat_status cpu_stream_wait(struct leati_driver *driver, void *stream, void *handle)
{
    struct cpu_event *event = ((struct cpu_event_handle *)handle)->event;
    struct fence_work *work = malloc(sizeof *work);
    struct cpu_fence *fence;

    (void)driver;
    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to queue the work");
    leati_lock(&event->lock);
    fence = hold_fence(event);
    *work = (struct fence_work){.work.run = run_wait, .fence = fence};
    if (fence)
        cpu_stream_push(stream, &work->work);
    leati_unlock(&event->lock);
    if (!fence)
        free(work);
    return LEAT_OK;
}

leat_status cpu_event_query(struct leati_driver *driver, void *handle)
{
    struct cpu_fence *fence = hold_fence_of(handle);
    bool reached = !fence || reached_ns(fence);

    (void)driver;
    let_go(fence);
    return reached ? LEAT_OK : LEAT_NOT_READY;
}

leat_status cpu_event_synchronize(struct leati_driver *driver, void *handle)
{
    struct cpu_fence *fence = hold_fence_of(handle);

    (void)driver;
    if (fence)
        wait_for(fence);
    let_go(fence);
    return LEAT_OK;
}

leat_status cpu_event_elapsed(struct leati_driver *driver, void *start_handle, void *end_handle,
                              double *milliseconds)
{
    struct cpu_fence *first = hold_fence_of(start_handle), *last = hold_fence_of(end_handle);
    uint64_t first_ns = first ? reached_ns(first) : 0, last_ns = last ? reached_ns(last) : 0;

    (void)driver;
    let_go(first);
    let_go(last);
    if (!first || !last)
        return leati_fail(LEAT_ERROR_INVALID, "the %s event was never recorded", first ? "end" : "start");
    if (!first_ns || !last_ns)
        return LEAT_NOT_READY;
    *milliseconds = (double)(int64_t)(last_ns - first_ns) * 1e-6;
    return LEAT_OK;
}
