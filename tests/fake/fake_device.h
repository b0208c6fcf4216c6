/*
 * fake_device.h - devices, memory, streams, events and modules of the fake vendor libraries (fake_cuda.c,
 * fake_hip.c), and the failures that tests inject.
 *
 * The file that includes it first defines the vendor's names: FAKE_CONTEXT, FAKE_STREAM, FAKE_EVENT and
 * FAKE_MODULE are the tags of the structs behind its handles, FAKE_STREAM_LEGACY and FAKE_STREAM_PER_THREAD the
 * handles of default streams, FAKE_SETTINGS the environment variable that tests set. It also defines the three
 * functions that are only declared below.
 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include "fake_queue.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

/* A fake library ignores many of its parameters. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define EXPORT __attribute__((visibility("default")))

#define DEVICES_MOST 2
#define MEMORY_BYTES ((size_t)64 << 20)

#define TRY(expression)                                                                                           \
    do {                                                                                                          \
        unsigned result_ = (expression);                                                                          \
        if (result_ != FAKE_SUCCESS)                                                                              \
            return result_;                                                                                       \
    } while (0)

/* FORWARD defines a vendor function that returns the value of one expression. FORWARD_AFTER does the same, but its
 * function first makes another call, and returns the error if that call fails. */
#define FORWARD(prototype, result)                                                                                \
    prototype                                                                                                     \
    {                                                                                                             \
        return result;                                                                                            \
    }

#define FORWARD_AFTER(first, prototype, result)                                                                   \
    prototype                                                                                                     \
    {                                                                                                             \
        TRY(first);                                                                                               \
        return result;                                                                                            \
    }

/* A device. Its default streams are created at first use and belong to the group of its context. */
struct FAKE_CONTEXT {
    int device;
    struct queue legacy, per_thread;
};

struct FAKE_STREAM {
    struct FAKE_CONTEXT *context;
    struct queue queue;
};

struct FAKE_EVENT {
    struct FAKE_EVENT *next; /* in the list destroyed_events */
    struct FAKE_CONTEXT *context;
    struct queue_mark mark;
};

struct FAKE_MODULE {
    struct FAKE_CONTEXT *context;
};

/* POOLED: allocated in stream order; belongs to a device but to no context. */
enum place { ON_DEVICE = 1, POOLED = 2, PINNED = 4, REGISTERED = 8, MANAGED = 16 };

struct memory {
    struct memory *next;
    enum place place;
    char *start;
    size_t bytes;
    struct FAKE_CONTEXT *context;
    unsigned long long id; /* unique */
    void *pool;            /* of POOLED memory: the program's own pool; NULL: another */
    bool start_unknown; /* the driver reports only the size */
    unsigned flags;     /* of PINNED and REGISTERED memory */

    /* Advice and prefetches apply to the whole managed allocation. A device is a number; -1 is the host, -2 means
     * none. */
    bool read_mostly, used_by[DEVICES_MOST + 1]; /* the last element stands for the host */
    int preferred, prefetched;
};

/* Guards all variables below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct FAKE_CONTEXT contexts[DEVICES_MOST] = {{.device = 0}, {.device = 1}};
static int retained[DEVICES_MOST];
static struct memory *memories;
static struct FAKE_EVENT *destroyed_events;
static unsigned live, calls, fail_at, fail_with;
static unsigned long long last_id;

/* ---- functions that the vendor's file defines ---- */

/* Returns the current context of the thread, or NULL. */
static struct FAKE_CONTEXT *current(void);

/* Begins a call that needs a current context: calls count_call(), and fails if no context is current. */
static unsigned enter_context(void);

/* Returns true if a call in the current context may use the memory. Called with the lock held. */
static bool is_reachable(const struct memory *memory);

/* ---- calls ---- */

/* Returns the number that follows name in the environment variable FAKE_SETTINGS, or initial if name is not in
 * it. */
static int setting(const char *name, int initial)
{
    const char *text = getenv(FAKE_SETTINGS);

    if (!text || strncmp(text, name, strlen(name)) != 0)
        return initial;
    return atoi(text + strlen(name));
}

/* Counts a call. Returns the error code that a test has chosen for it, or success. */
static unsigned count_call(void)
{
    unsigned result = FAKE_SUCCESS;

    pthread_mutex_lock(&lock);
    if (++calls == fail_at)
        result = fail_with;
    pthread_mutex_unlock(&lock);
    return result;
}

static bool is_default(const struct FAKE_STREAM *stream)
{
    return !stream || stream == FAKE_STREAM_LEGACY || stream == FAKE_STREAM_PER_THREAD;
}

/* Begins a call on a stream: calls enter_context(), and fails if the stream belongs to another context. */
static unsigned enter_stream(const struct FAKE_STREAM *stream)
{
    TRY(enter_context());
    return is_default(stream) || stream->context == current() ? FAKE_SUCCESS : FAKE_INVALID_HANDLE;
}

/* Returns the queue of a stream. A default stream has one queue in each context. */
static struct queue *queue_of(struct FAKE_STREAM *stream, struct FAKE_CONTEXT *context)
{
    struct queue *queue;

    if (!is_default(stream))
        return &stream->queue;
    queue = stream == FAKE_STREAM_PER_THREAD ? &context->per_thread : &context->legacy;
    lock_queues();
    if (!queue->group)
        queue_begin(queue, context, queue == &context->legacy ? QUEUE_DEFAULT : QUEUE_WITH_DEFAULT);
    unlock_queues();
    return queue;
}

static unsigned give(struct FAKE_STREAM *stream, const struct queue_work *work, bool take)
{
    return queue_give(queue_of(stream, current()), work, take) ? FAKE_SUCCESS : FAKE_OUT_OF_MEMORY;
}

/* Counts live objects: change is 1 when an object is created, and -1 when it is destroyed. */
static void count(int change)
{
    pthread_mutex_lock(&lock);
    live += (unsigned)change;
    pthread_mutex_unlock(&lock);
}

/* ---- memory ---- */

/* Returns the list link that points to the allocation that contains ptr. If no allocation does, returns the last
 * link, which is NULL. Called with the lock held. */
static struct memory **find(const void *ptr)
{
    struct memory **link = &memories;

    while (*link && !((const char *)ptr >= (*link)->start && (const char *)ptr < (*link)->start + (*link)->bytes))
        link = &(*link)->next;
    return link;
}

/* Removes an allocation from the list and frees it. Called with the lock held. */
static void remove_memory(struct memory **link)
{
    struct memory *memory = *link;

    *link = memory->next;
    live--;
    if (memory->place == PINNED)
        munmap(memory->start, memory->bytes);
    else if (memory->place != REGISTERED)
        free(memory->start);
    free(memory);
}

static unsigned add_memory(enum place place, void *start, size_t bytes)
{
    struct memory *memory = malloc(sizeof *memory);

    if (!memory)
        return FAKE_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    *memory = (struct memory){.next = memories,
                              .place = place,
                              .start = start,
                              .bytes = bytes,
                              .context = current(),
                              .id = ++last_id,
                              .preferred = -2,
                              .prefetched = -2};
    memories = memory;
    live++;
    pthread_mutex_unlock(&lock);
    return FAKE_SUCCESS;
}

static unsigned make_memory(enum place place, size_t bytes, void **start)
{
    void *made = bytes > MEMORY_BYTES ? NULL : aligned_alloc(512, (bytes + 511) / 512 * 512);

    if (!made)
        return FAKE_OUT_OF_MEMORY;
    *start = made;
    return add_memory(place, made, bytes);
}

static void set_flags(const void *start, unsigned flags)
{
    pthread_mutex_lock(&lock);
    (*find(start))->flags = flags;
    pthread_mutex_unlock(&lock);
}

/* Children of fork() share pinned memory, as that of CUDA (580.159.04). */
static unsigned make_pinned(size_t bytes, unsigned flags, void **start)
{
    void *made = bytes && bytes <= MEMORY_BYTES
                     ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
                     : MAP_FAILED;

    if (made == MAP_FAILED)
        return FAKE_OUT_OF_MEMORY;
    TRY(add_memory(PINNED, made, bytes));
    set_flags(made, flags);
    *start = made;
    return FAKE_SUCCESS;
}

/* Waits for all submitted work, and then frees the allocation that starts at start. Fails if its place is not
 * among places. */
static unsigned drop_memory(unsigned places, const void *start)
{
    struct memory **link;
    bool known;

    queue_drain_group(NULL);
    pthread_mutex_lock(&lock);
    link = find(start);
    known = *link && (*link)->start == start && (*link)->place & places;
    if (known)
        remove_memory(link);
    pthread_mutex_unlock(&lock);
    return known ? FAKE_SUCCESS : FAKE_INVALID_VALUE;
}

/* The driver's own memory cannot be registered, and registered memory not again; the errors differ. */
static unsigned register_memory(void *ptr, size_t bytes, unsigned flags)
{
    const struct memory *known;
    bool own;

    TRY(enter_context());
    pthread_mutex_lock(&lock);
    known = *find(ptr);
    known = known ? known : *find((char *)ptr + bytes - 1);
    own = known && known->place != REGISTERED;
    pthread_mutex_unlock(&lock);
    if (known)
        return own ? FAKE_INVALID_VALUE : FAKE_ALREADY_REGISTERED;
    TRY(add_memory(REGISTERED, ptr, bytes));
    set_flags(ptr, flags);
    return FAKE_SUCCESS;
}

static unsigned unregister_memory(const void *ptr)
{
    bool known;

    TRY(enter_context());
    pthread_mutex_lock(&lock);
    known = *find(ptr);
    pthread_mutex_unlock(&lock);
    if (drop_memory(REGISTERED, ptr) == FAKE_SUCCESS)
        return FAKE_SUCCESS;
    return known ? FAKE_INVALID_VALUE : FAKE_NOT_REGISTERED;
}

static unsigned memory_info(size_t *available, size_t *total)
{
    TRY(enter_context());
    *available = *total = MEMORY_BYTES;
    return FAKE_SUCCESS;
}

/* ---- contexts ---- */

static unsigned retain_context(struct FAKE_CONTEXT **context, int device)
{
    TRY(count_call());
    pthread_mutex_lock(&lock);
    retained[device]++;
    live++;
    pthread_mutex_unlock(&lock);
    *context = &contexts[device];
    return FAKE_SUCCESS;
}

/* Like the real call, the last release of a primary context frees all memory in it. It does so even if it returns
 * an injected error. */
static unsigned release_context(int device)
{
    bool known;

    pthread_mutex_lock(&lock);
    known = retained[device] > 0;
    if (known) {
        retained[device]--;
        live--;
        for (struct memory **link = &memories; *link && !retained[device];)
            if ((*link)->context == &contexts[device])
                remove_memory(link);
            else
                link = &(*link)->next;
    }
    pthread_mutex_unlock(&lock);
    return known ? count_call() : FAKE_INVALID_CONTEXT;
}

static unsigned get_device(int *device, int ordinal)
{
    TRY(count_call());
    if (ordinal < 0 || ordinal >= DEVICES_MOST)
        return FAKE_INVALID_DEVICE;
    *device = ordinal;
    return FAKE_SUCCESS;
}

static unsigned get_device_address(char *text, int bytes, int device)
{
    TRY(count_call());
    snprintf(text, (size_t)bytes, "FFFF:%02X:00.0", 0x1b + device);
    return FAKE_SUCCESS;
}

/* ---- copies and fills ---- */

/* Returns true if the bytes are reachable and lie in one allocation, or in none (then *pageable is true). */
static bool is_usable(const void *ptr, size_t bytes, bool *pageable)
{
    const struct memory *memory;
    bool usable;

    pthread_mutex_lock(&lock);
    memory = *find(ptr);
    *pageable = !memory;
    if (memory)
        usable = bytes <= memory->bytes - (size_t)((const char *)ptr - memory->start) && is_reachable(memory);
    else
        usable = !*find((const char *)ptr + bytes - 1);
    pthread_mutex_unlock(&lock);
    return usable;
}

static size_t reach(const struct queue_work *work, size_t pitch, size_t slice)
{
    return (work->depth - 1) * slice + (work->height - 1) * pitch + work->width;
}

/* Submits a copy of rows. If the source is pageable, it is read during this call; if the destination is pageable,
 * it has been written when this call returns. */
static unsigned give_rows(const struct queue_work *work, struct FAKE_STREAM *stream)
{
    bool src_pageable, dst_pageable;

    if (!is_usable(work->src, reach(work, work->src_pitch, work->src_slice), &src_pageable) ||
        !is_usable(work->dst, reach(work, work->dst_pitch, work->dst_slice), &dst_pageable))
        return FAKE_INVALID_VALUE;
    TRY(give(stream, work, src_pageable));
    if (dst_pageable)
        queue_drain(queue_of(stream, current()));
    return FAKE_SUCCESS;
}

static struct queue_work range_work(void *dst, const void *src, size_t bytes)
{
    return (struct queue_work){.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1};
}

static unsigned give_bytes(void *dst, const void *src, size_t bytes, struct FAKE_STREAM *stream)
{
    struct queue_work work = range_work(dst, src, bytes);

    return give_rows(&work, stream);
}

static unsigned fill(void *dst, const void *pattern, size_t pattern_bytes, size_t number,
                     struct FAKE_STREAM *stream)
{
    bool pageable;

    TRY(enter_stream(stream));
    if ((uintptr_t)dst % pattern_bytes || !is_usable(dst, number * pattern_bytes, &pageable) || pageable)
        return FAKE_INVALID_VALUE;
    return give(
        stream,
        &(struct queue_work){.dst = dst, .pattern = pattern, .pattern_bytes = pattern_bytes, .count = number},
        false);
}

/* ---- streams and events ---- */

static unsigned create_stream(struct FAKE_STREAM **stream, unsigned flags)
{
    struct FAKE_STREAM *made;

    TRY(enter_context());
    if (flags > FAKE_STREAM_NON_BLOCKING)
        return FAKE_INVALID_VALUE;
    made = malloc(sizeof *made);
    if (!made)
        return FAKE_OUT_OF_MEMORY;
    made->context = current();
    queue_begin(&made->queue, made->context, flags == FAKE_STREAM_NON_BLOCKING ? QUEUE_ALONE : QUEUE_WITH_DEFAULT);
    count(1);
    *stream = made;
    return FAKE_SUCCESS;
}

/* Does not wait: work of the stream that must wait runs later. */
static unsigned destroy_stream(struct FAKE_STREAM *stream)
{
    if (queue_end(&stream->queue))
        free(stream);
    count(-1);
    return enter_context();
}

static unsigned query_stream(struct FAKE_STREAM *stream)
{
    TRY(enter_stream(stream));
    return queue_is_idle(queue_of(stream, current())) ? FAKE_SUCCESS : FAKE_NOT_READY;
}

/* Waits for work of the stream, and for that of others only if the stream has work that waits for them. */
static unsigned synchronize_stream(struct FAKE_STREAM *stream)
{
    struct queue *queue;

    TRY(enter_stream(stream));
    queue = queue_of(stream, current());
    if (!queue_is_idle(queue))
        queue_drain(queue);
    return FAKE_SUCCESS;
}

static unsigned synchronize_context(void)
{
    TRY(enter_context());
    queue_drain_group(current());
    return FAKE_SUCCESS;
}

static unsigned wait_event(struct FAKE_STREAM *stream, struct FAKE_EVENT *event)
{
    TRY(enter_stream(stream));
    return give(stream, &(struct queue_work){.wait = &event->mark}, false);
}

static unsigned launch_host(struct FAKE_STREAM *stream, void (*function)(void *), void *argument)
{
    TRY(enter_stream(stream));
    return give(stream, &(struct queue_work){.function = function, .argument = argument}, false);
}

static unsigned create_event(struct FAKE_EVENT **event)
{
    struct FAKE_EVENT *made;

    TRY(enter_context());
    made = malloc(sizeof *made);
    if (!made)
        return FAKE_OUT_OF_MEMORY;
    *made = (struct FAKE_EVENT){.context = current()};
    count(1);
    *event = made;
    return FAKE_SUCCESS;
}

/* Does not wait. The event's memory stays until the process ends, because queued work may still refer to it. */
static unsigned destroy_event(struct FAKE_EVENT *event)
{
    pthread_mutex_lock(&lock);
    event->next = destroyed_events;
    destroyed_events = event;
    pthread_mutex_unlock(&lock);
    count(-1);
    return enter_context();
}

static unsigned record_event(struct FAKE_EVENT *event, struct FAKE_STREAM *stream)
{
    TRY(enter_stream(stream));
    if (event->context != current())
        return FAKE_INVALID_HANDLE;
    return give(stream, &(struct queue_work){.mark = &event->mark}, false);
}

static unsigned query_event(struct FAKE_EVENT *event)
{
    TRY(enter_context());
    return queue_is_reached(&event->mark) ? FAKE_SUCCESS : FAKE_NOT_READY;
}

static unsigned synchronize_event(struct FAKE_EVENT *event)
{
    TRY(enter_context());
    queue_wait_for(&event->mark);
    return FAKE_SUCCESS;
}

static unsigned elapsed(float *milliseconds, struct FAKE_EVENT *start, struct FAKE_EVENT *end)
{
    TRY(enter_context());
    if (!start->mark.recorded || !end->mark.recorded)
        return FAKE_INVALID_HANDLE;
    if (!queue_is_reached(&start->mark) || !queue_is_reached(&end->mark))
        return FAKE_NOT_READY;
    *milliseconds = 0;
    return FAKE_SUCCESS;
}

/* ---- modules ---- */

static unsigned make_module(struct FAKE_MODULE **module)
{
    struct FAKE_MODULE *made = malloc(sizeof *made);

    if (!made)
        return FAKE_OUT_OF_MEMORY;
    made->context = current();
    count(1);
    *module = made;
    return FAKE_SUCCESS;
}

static unsigned unload_module(struct FAKE_MODULE *module)
{
    free(module);
    count(-1);
    return enter_context();
}

/* ---- functions that tests call ---- */

EXPORT unsigned fake_live(void);
EXPORT void fake_fail(unsigned n, unsigned code);
EXPORT unsigned fake_calls(void);
EXPORT void fake_hold(int device, void *stream, int held);

/* Returns the number of objects that were created and not destroyed. */
unsigned fake_live(void)
{
    unsigned number;

    pthread_mutex_lock(&lock);
    number = live;
    pthread_mutex_unlock(&lock);
    return number;
}

/* Makes the n-th call from now on return the error code. n = 0: no call. */
void fake_fail(unsigned n, unsigned code)
{
    pthread_mutex_lock(&lock);
    calls = 0;
    fail_at = n;
    fail_with = code;
    pthread_mutex_unlock(&lock);
}

/* Returns the number of calls since fake_fail() that a test could make fail. */
unsigned fake_calls(void)
{
    unsigned number;

    pthread_mutex_lock(&lock);
    number = calls;
    pthread_mutex_unlock(&lock);
    return number;
}

/* Queues all work that this stream receives from now on, until the test releases the stream (held is 0) or a
 * thread waits for it. device: selects the context of a default stream. */
void fake_hold(int device, void *stream, int held)
{
    queue_hold(queue_of(stream, &contexts[device]), held);
}

#endif
