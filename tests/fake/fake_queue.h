/*
 * fake_queue.h - streams and events of the fake vendor libraries (fake_cuda.c, fake_hip.c).
 *
 * Work runs when it is submitted, unless a test holds its stream: then the work is queued until the test releases
 * the stream or a thread waits for it. Work is also queued if it must wait for an event that is not complete. A
 * default stream, and the other streams of its context that are not created as non-blocking, wait for each other,
 * as they do in the vendors' libraries.
 *
 * The library holds one recursive lock while work runs, and also while a host function runs. So a host function
 * may call the library, but must not wait for another thread that calls it.
 */
#ifndef FAKE_QUEUE_H
#define FAKE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum queue_order { QUEUE_ALONE, QUEUE_WITH_DEFAULT, QUEUE_DEFAULT };

/* The latest record of an event. */
struct queue_mark {
    struct queue *at; /* the queue in which the record is pending; NULL if it is complete or was never recorded */
    const struct queue_work *work;
    bool recorded;
};

/* A piece of work: a call, a fill, a copy of rows, the record of an event, or a wait for one. */
struct queue_work {
    struct queue_work *next;
    void (*function)(void *);
    void *argument;
    struct queue_mark *mark, *wait;
    char *dst;
    const char *src;
    char *taken; /* contents of src when the work was submitted; NULL: src is read when the work runs */
    size_t width, height, depth, dst_pitch, dst_slice, src_pitch, src_slice;
    const void *pattern;
    size_t pattern_bytes, count;
    unsigned char pattern_kept[4];
};

struct queue {
    struct queue *next;
    const void *group; /* default streams wait for the other streams of their group */
    enum queue_order order;
    bool held, draining;
    struct queue_work *first, **end;
};

static pthread_mutex_t queues_lock;
static pthread_once_t queues_once = PTHREAD_ONCE_INIT;
static struct queue *queues;

static void make_queues_lock(void)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&queues_lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void lock_queues(void)
{
    pthread_once(&queues_once, make_queues_lock);
    pthread_mutex_lock(&queues_lock);
}

static void unlock_queues(void)
{
    pthread_mutex_unlock(&queues_lock);
}

static void queue_begin(struct queue *queue, const void *group, enum queue_order order)
{
    lock_queues();
    *queue = (struct queue){.next = queues, .group = group, .order = order};
    queue->end = &queue->first;
    queues = queue;
    unlock_queues();
}

/* ---- running work ---- */

static void copy_work_rows(const struct queue_work *work)
{
    const char *src = work->taken ? work->taken : work->src;
    size_t src_pitch = work->taken ? work->width : work->src_pitch;
    size_t src_slice = work->taken ? work->width * work->height : work->src_slice;

    for (size_t z = 0; z < work->depth; z++)
        for (size_t y = 0; y < work->height; y++)
            memcpy(work->dst + z * work->dst_slice + y * work->dst_pitch, src + z * src_slice + y * src_pitch,
                   work->width);
}

static void do_work(struct queue_work *work)
{
    if (work->function)
        work->function(work->argument);
    else if (work->pattern_bytes)
        for (size_t i = 0; i < work->count; i++)
            memcpy(work->dst + i * work->pattern_bytes, work->pattern_kept, work->pattern_bytes);
    else if (work->dst)
        copy_work_rows(work);
    if (work->mark && work->mark->work == work)
        work->mark->at = NULL;
    free(work->taken);
    free(work);
}

static struct queue_work *take_first(struct queue *queue)
{
    struct queue_work *work = queue->first;

    queue->first = work->next;
    if (!queue->first)
        queue->end = &queue->first;
    return work;
}

/* Returns true if work of queue one must wait for earlier work of queue other. */
static bool keep_order(const struct queue *one, const struct queue *other)
{
    return one != other && one->group == other->group &&
           ((one->order == QUEUE_DEFAULT && other->order == QUEUE_WITH_DEFAULT) ||
            (one->order == QUEUE_WITH_DEFAULT && other->order == QUEUE_DEFAULT));
}

static bool waits_for_others(const struct queue *queue)
{
    for (const struct queue *other = queues; other; other = other->next)
        if (keep_order(queue, other) && (other->first || other->held))
            return true;
    return false;
}

/* Runs work of the queue, up to the first piece that must wait. */
static void go_on(struct queue *queue)
{
    while (queue->first && !queue->held && !waits_for_others(queue) &&
           !(queue->first->wait && queue->first->wait->at))
        do_work(take_first(queue));
}

/* Runs all work of the queue. First runs the work of other queues that it must wait for. */
static void drain(struct queue *queue)
{
    if (queue->draining)
        return;
    queue->draining = true;
    for (struct queue *other = queues; other; other = other->next)
        if (keep_order(queue, other))
            drain(other);
    while (queue->first) {
        struct queue_work *work = take_first(queue);

        if (work->wait && work->wait->at)
            drain(work->wait->at);
        do_work(work);
    }
    queue->draining = false;
}

/* ---- functions that the fake libraries call ---- */

/* Submits a copy of the structure given. take: read the source now, and not when the work runs. Returns false if
 * there is no host memory. */
static bool queue_give(struct queue *queue, const struct queue_work *given, bool take)
{
    struct queue_work *work = malloc(sizeof *work);

    if (!work)
        return false;
    *work = *given;
    if (take) {
        work->taken = malloc(work->width * work->height * work->depth);
        if (!work->taken) {
            free(work);
            return false;
        }
        copy_work_rows(&(struct queue_work){.dst = work->taken,
                                            .src = work->src,
                                            .width = work->width,
                                            .height = work->height,
                                            .depth = work->depth,
                                            .dst_pitch = work->width,
                                            .dst_slice = work->width * work->height,
                                            .src_pitch = work->src_pitch,
                                            .src_slice = work->src_slice});
    }
    if (work->pattern)
        memcpy(work->pattern_kept, work->pattern, work->pattern_bytes);
    lock_queues();
    if (work->mark)
        *work->mark = (struct queue_mark){.at = queue, .work = work, .recorded = true};
    *queue->end = work;
    queue->end = &work->next;
    go_on(queue);
    unlock_queues();
    return true;
}

static bool queue_is_idle(struct queue *queue)
{
    bool idle;

    lock_queues();
    go_on(queue);
    idle = !queue->first;
    unlock_queues();
    return idle;
}

/* Waits for one stream. queue_drain_group() waits for all streams of a group, or of all groups if group is
 * NULL. */
static void queue_drain(struct queue *queue)
{
    lock_queues();
    drain(queue);
    unlock_queues();
}

static void queue_drain_group(const void *group)
{
    lock_queues();
    for (struct queue *queue = queues; queue; queue = queue->next)
        if (!group || queue->group == group)
            drain(queue);
    unlock_queues();
}

/* Ends a queue. Returns false if it has work that must wait. Then the queue must stay, because
 * the work runs later. */
static bool queue_end(struct queue *queue)
{
    struct queue **link = &queues;
    bool idle;

    lock_queues();
    queue->held = false;
    go_on(queue);
    idle = !queue->first;
    while (*link != queue)
        link = &(*link)->next;
    if (idle)
        *link = queue->next;
    unlock_queues();
    return idle;
}

static bool queue_is_reached(struct queue_mark *mark)
{
    bool reached;

    lock_queues();
    if (mark->at)
        go_on(mark->at);
    reached = !mark->at;
    unlock_queues();
    return reached;
}

static void queue_wait_for(struct queue_mark *mark)
{
    lock_queues();
    if (mark->at)
        drain(mark->at);
    unlock_queues();
}

/* Holds a stream (held), or releases it. */
static void queue_hold(struct queue *queue, bool held)
{
    lock_queues();
    queue->held = held;
    /* Other streams may have waited for this one, so let them continue. */
    for (struct queue *other = queues; other && !held; other = other->next)
        go_on(other);
    go_on(queue);
    unlock_queues();
}

#endif
