/* timeline.c - see timeline.h. */
#include "core/timeline.h"

#include "base/lock.h"
#include "base/quick.h"
#include "core/core.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t last_serial;

/* The list of all timelines, and its lock, which is taken before that of a timeline. Also held while fences are
 * destroyed, so that their device is not closed in between. */
static struct leati_lock list_lock = LEATI_LOCK_INITIALIZER;
static struct leati_timeline *list LEATI_GUARDED_BY(list_lock);

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Returns true if the vendor's handle means a different stream in each thread, such as CUDA's per-thread
 * default stream. */
static bool is_per_thread(struct leati_driver *driver, void *native_stream)
{
    void *handle = driver->can->per_thread_stream;

    return handle && driver->ops->stream_native(driver, native_stream) == handle;
}

struct leati_timeline *leati_timeline_new(struct leat_device *device, void *native_stream)
{
    struct leati_timeline *timeline = calloc(1, sizeof *timeline);

    if (!timeline)
        return NULL;
    atomic_init(&timeline->holders, 1);
    timeline->serial = 1 + atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed);
    timeline->device = device;
    timeline->stream = native_stream;
    timeline->per_thread = is_per_thread(device->driver, native_stream);
    atomic_init(&timeline->seq, 1);
    atomic_init(&timeline->done, 0);
    leati_lock_init(&timeline->lock);
    leati_lock(&list_lock);
    timeline->next = list;
    if (list)
        list->back = timeline;
    list = timeline;
    leati_unlock(&list_lock);
    return timeline;
}

void leati_timeline_hold(struct leati_timeline *timeline)
{
    leati_assert(atomic_load_explicit(&timeline->holders, memory_order_relaxed));
    /* Relaxed: the caller already holds the timeline. */
    atomic_fetch_add_explicit(&timeline->holders, 1, memory_order_relaxed);
}

void leati_outcome_release(struct leati_outcome *outcome)
{
    /* Release and acquire: the last holder frees the outcome after all uses by the others, and is_settled() sees
     * the failure of a copy that has released it. */
    if (!outcome || atomic_fetch_sub_explicit(&outcome->holders, 1, memory_order_acq_rel) != 1)
        return;
    free(atomic_load_explicit(&outcome->failure, memory_order_relaxed));
    free(outcome);
}

static void drop_subscriptions(struct leati_timeline *timeline)
{
    /* Relaxed: the caller is the last holder. */
    struct leati_subscription *entry = atomic_load_explicit(&timeline->subscriptions, memory_order_relaxed), *next;

    for (; entry; entry = next) {
        next = entry->next;
        leati_outcome_release(entry->outcome);
        free(entry);
    }
}

static void destroy_fences(struct leati_timeline *timeline) LEATI_REQUIRES(list_lock)
{
    for (int i = 0; i < LEATI_FENCES; i++) {
        struct leati_fence *fence = &timeline->fences[i];

        if (fence->event)
            (void)LEATI_QUIETLY(
                timeline->device->driver->ops->event_destroy(timeline->device->driver, fence->event));
        *fence = (struct leati_fence){.seq = 0};
    }
}

/* Returns true if a thread waits for a fence. Call under the timeline's lock. */
static bool is_waited_for(const struct leati_timeline *timeline)
{
    for (int i = 0; i < LEATI_FENCES; i++)
        if (timeline->fences[i].waiters)
            return true;
    return false;
}

void leati_timelines_close(struct leat_device *device)
{
    leati_lock(&list_lock);
    for (struct leati_timeline *timeline = list; timeline; timeline = timeline->next) {
        if (timeline->device != device)
            continue;
        leati_lock(&timeline->lock);
        leati_timeline_complete(timeline, UINT64_MAX);
        /* The work is complete, so waits of other threads end soon. */
        while (is_waited_for(timeline)) {
            leati_unlock(&timeline->lock);
            sched_yield();
            leati_lock(&timeline->lock);
        }
        destroy_fences(timeline);
        /* The memory of a closed device may become another device. */
        timeline->device = NULL;
        leati_unlock(&timeline->lock);
    }
    leati_unlock(&list_lock);
}

void leati_timeline_release(struct leati_timeline *timeline)
{
    leati_assert(!timeline || atomic_load_explicit(&timeline->holders, memory_order_relaxed));
    /* Release and acquire: the last holder frees the timeline only after all other holders are done with it. */
    if (!timeline || atomic_fetch_sub_explicit(&timeline->holders, 1, memory_order_acq_rel) != 1)
        return;
    leati_lock(&list_lock);
    destroy_fences(timeline);
    if (timeline->next)
        timeline->next->back = timeline->back;
    if (timeline->back)
        timeline->back->next = timeline->next;
    else
        list = timeline->next;
    leati_unlock(&list_lock);
    leati_lock_destroy(&timeline->lock);
    free(atomic_load_explicit(&timeline->failure, memory_order_relaxed));
    drop_subscriptions(timeline);
    free(timeline);
}

/* ---- failures of copies ---- */

/* Stores a failure in *place, unless there is one already. */
static void store_failure(_Atomic(struct leati_failure *) *place, leat_status status, const char *message)
{
    struct leati_failure *made = malloc(sizeof *made), *none = NULL;

    leati_assert(status < LEAT_OK && message);
    if (!made)
        return; /* the copy's ticket still reports the failure */
    made->status = status;
    snprintf(made->message, sizeof made->message, "%s", message);
    /* Release: pairs with the acquires of take_first_failure() and failure_of(), which then see the message. */
    if (!atomic_compare_exchange_strong_explicit(place, &none, made, memory_order_release, memory_order_relaxed))
        free(made);
}

void leati_timeline_failed(struct leati_timeline *timeline, leat_status status, const char *message)
{
    store_failure(&timeline->failure, status, message);
}

struct leati_outcome *leati_outcome_new(void)
{
    struct leati_outcome *outcome = malloc(sizeof *outcome);

    if (!outcome)
        return NULL;
    atomic_init(&outcome->holders, 1);
    atomic_init(&outcome->copies, 0);
    atomic_init(&outcome->failure, NULL);
    return outcome;
}

static void hold_outcome(struct leati_outcome *outcome)
{
    /* Relaxed: the caller already holds the outcome. */
    atomic_fetch_add_explicit(&outcome->holders, 1, memory_order_relaxed);
}

void leati_outcome_copy_begins(struct leati_outcome *outcome)
{
    hold_outcome(outcome);
    /* Relaxed: no timeline subscribes to the outcome yet. */
    atomic_fetch_add_explicit(&outcome->copies, 1, memory_order_relaxed);
}

void leati_outcome_copy_ends(struct leati_outcome *outcome)
{
    /* Release: pairs with the acquire of is_settled(), which then sees the failure. */
    atomic_fetch_sub_explicit(&outcome->copies, 1, memory_order_release);
    leati_outcome_release(outcome);
}

void leati_outcome_failed(struct leati_outcome *outcome, leat_status status, const char *message)
{
    store_failure(&outcome->failure, status, message);
}

/* Returns the failure of an outcome, or NULL. */
static struct leati_failure *failure_of(const struct leati_outcome *outcome)
{
    return atomic_load_explicit(&outcome->failure, memory_order_acquire);
}

/* Returns true if the copy has not failed and can no longer fail. */
static bool is_settled(const struct leati_outcome *outcome)
{
    /* Acquire: the copy has stored its failure, if any, before it ended. */
    return !atomic_load_explicit(&outcome->copies, memory_order_acquire) && !failure_of(outcome);
}

/* Removes the entry at *place from the list of a timeline. */
static void unsubscribe(struct leati_timeline *timeline, struct leati_subscription **place)
{
    struct leati_subscription *entry = *place;

    leati_assert(timeline->subscription_count);
    timeline->subscription_count--;
    *place = entry->next;
    leati_outcome_release(entry->outcome);
    free(entry);
}

/* Removes the subscriptions that are settled from a list. */
static void prune(struct leati_timeline *timeline, struct leati_subscription **place)
{
    while (*place) {
        if (is_settled((*place)->outcome))
            unsubscribe(timeline, place);
        else
            place = &(*place)->next;
    }
    timeline->prune_at = 2 * timeline->subscription_count + 16;
}

leat_status leati_timeline_subscribe(struct leati_timeline *timeline, struct leati_outcome *outcome)
{
    struct leati_subscription *made = malloc(sizeof *made), *first;

    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (the failures that a stream reports)");
    hold_outcome(outcome);
    made->outcome = outcome;
    leati_lock(&timeline->lock);
    first = atomic_load_explicit(&timeline->subscriptions, memory_order_relaxed);
    if (timeline->subscription_count >= timeline->prune_at)
        prune(timeline, &first);
    made->next = first;
    timeline->subscription_count++;
    /* Relaxed: readers take the lock before they follow the pointer. */
    atomic_store_explicit(&timeline->subscriptions, made, memory_order_relaxed);
    leati_unlock(&timeline->lock);
    return LEAT_OK;
}

static leat_status take_first_failure(struct leati_timeline *timeline)
{
    struct leati_failure *taken = atomic_exchange_explicit(&timeline->failure, NULL, memory_order_acq_rel);
    leat_status status;

    if (!taken)
        return LEAT_OK;
    status = leati_fail(taken->status, "%s", taken->message);
    free(taken);
    return status;
}

/* Forgets all outcomes that have failed or are settled. Returns the first failure. */
static leat_status take_subscribed_failure(struct leati_timeline *timeline)
{
    struct leati_subscription *first, **place;
    leat_status status = LEAT_OK;

    leati_lock(&timeline->lock);
    first = atomic_load_explicit(&timeline->subscriptions, memory_order_relaxed);
    for (place = &first; *place;) {
        const struct leati_failure *failure = failure_of((*place)->outcome);

        if (failure)
            status = leati_fail(failure->status, "%s", failure->message); /* the last in the list is the oldest */
        if (failure || is_settled((*place)->outcome))
            unsubscribe(timeline, place);
        else
            place = &(*place)->next;
    }
    atomic_store_explicit(&timeline->subscriptions, first, memory_order_relaxed);
    leati_unlock(&timeline->lock);
    return status;
}

LEATI_HOT leat_status leati_timeline_take_failure(struct leati_timeline *timeline)
{
    leat_status status = LEAT_OK;

    /* Relaxed: usually there is no failure and no subscription, and then nothing else is read. */
    if (atomic_load_explicit(&timeline->failure, memory_order_relaxed))
        status = take_first_failure(timeline);
    if (status == LEAT_OK && atomic_load_explicit(&timeline->subscriptions, memory_order_relaxed))
        status = take_subscribed_failure(timeline);
    return status;
}

LEATI_HOT uint64_t leati_timeline_now(const struct leati_timeline *timeline)
{
    /* Acquire: if this returns t, earlier work of the caller precedes the fence that ends t; see
     * leati_timeline_advance(). */
    return atomic_load_explicit(&timeline->seq, memory_order_acquire);
}

LEATI_HOT uint64_t leati_timeline_advance(struct leati_timeline *timeline)
{
    /* Increment seq before the fence is recorded, so that all work that counts as the old seq is already in the
     * stream. */
    return atomic_fetch_add_explicit(&timeline->seq, 1, memory_order_acq_rel);
}

LEATI_HOT void leati_timeline_complete(struct leati_timeline *timeline, uint64_t seq)
{
    uint64_t known = atomic_load_explicit(&timeline->done, memory_order_relaxed);

    /* Release: a thread that sees seq as complete also sees the results that the host saw. */
    while (known < seq && !atomic_compare_exchange_weak_explicit(&timeline->done, &known, seq,
                                                                 memory_order_release, memory_order_relaxed))
        ;
}

LEATI_HOT bool leati_timeline_is_complete(const struct leati_timeline *timeline, uint64_t seq)
{
    return atomic_load_explicit(&timeline->done, memory_order_acquire) >= seq;
}

/* Returns the oldest fence that covers seq, or NULL. Call under the timeline's lock. */
static struct leati_fence *find_fence(struct leati_timeline *timeline, uint64_t seq)
{
    struct leati_fence *found = NULL;

    leati_assert_locked(&timeline->lock);
    leati_assert(seq);
    for (int i = 0; i < LEATI_FENCES; i++)
        if (timeline->fences[i].seq >= seq && (!found || timeline->fences[i].seq < found->seq))
            found = &timeline->fences[i];
    return found;
}

/* Returns true if put_fence() should overwrite fence and not other. A host wait for an event that is recorded
 * again may last longer than it must. */
static bool is_better_place(const struct leati_fence *fence, const struct leati_fence *other)
{
    if (!other || !fence->waiters != !other->waiters)
        return !other || !fence->waiters;
    return fence->seq > other->seq;
}

/* Records a fence that covers all work submitted so far. If no entry is free, overwrites the youngest fence,
 * because older fences complete earlier. Call under the timeline's lock. */
static leat_status put_fence(struct leati_timeline *timeline, struct leati_fence **put,
                             struct leati_timeline_counts *counts)
{
    const struct leati_driver_ops *ops = timeline->device->driver->ops;
    struct leati_fence *place = NULL, *youngest = NULL;

    leati_assert_locked(&timeline->lock);
    leati_assert(timeline->stream);
    for (int i = 0; i < LEATI_FENCES; i++) {
        struct leati_fence *fence = &timeline->fences[i];

        if (!fence->waiters && (!fence->seq || leati_timeline_is_complete(timeline, fence->seq))) {
            place = fence;
            break;
        }
        if (is_better_place(fence, youngest))
            youngest = fence;
    }
    if (!place)
        place = youngest;
    if (!place->event)
        LEATI_TRY(ops->event_create(timeline->device->driver, timeline->device->native, &place->event));
    place->seq = 0;
    {
        uint64_t seq = leati_timeline_advance(timeline);

        LEATI_TRY(ops->event_record(timeline->device->driver, place->event, timeline->stream));
        place->seq = seq;
    }
    leati_assert(place->seq && place->seq < leati_timeline_now(timeline));
    if (counts)
        count(&counts->events);
    *put = place;
    return LEAT_OK;
}

static leat_status fence_for(struct leati_timeline *timeline, uint64_t seq, struct leati_fence **fence,
                             struct leati_timeline_counts *counts)
{
    *fence = find_fence(timeline, seq);
    leati_assert(!*fence || ((*fence)->seq >= seq && (*fence)->event));
    if (*fence)
        return LEAT_OK;
    if (!timeline->stream)
        return leati_fail(LEAT_ERROR_DRIVER, "the stream is gone and nothing marks its last work");
    return put_fence(timeline, fence, counts);
}

void leati_timeline_stream_ends(struct leati_timeline *timeline, bool finished)
{
    struct leati_driver *driver = timeline->device->driver;
    struct leati_fence *fence;

    leati_error_quiet_begin();
    leati_lock(&timeline->lock);
    leati_assert(timeline->stream);
    if (finished)
        leati_timeline_complete(timeline, UINT64_MAX);
    else if (atomic_load_explicit(&timeline->holders, memory_order_relaxed) > 1 &&
             put_fence(timeline, &fence, NULL) != LEAT_OK &&
             driver->ops->stream_synchronize(driver, timeline->stream) == LEAT_OK)
        leati_timeline_complete(timeline, UINT64_MAX);
    /* No more work will be submitted, so all later questions concern work before the last fence: undo the
     * increment that put_fence() made. */
    if (!leati_timeline_is_complete(timeline, UINT64_MAX))
        atomic_fetch_sub_explicit(&timeline->seq, 1, memory_order_relaxed);
    timeline->stream = NULL;
    leati_unlock(&timeline->lock);
    leati_error_quiet_end();
}

void leati_timeline_wait_begins(struct leati_timeline *timeline, struct leati_caught_up *caught_up)
{
    /* Read before the wait: work submitted later must not count as seen idle. */
    caught_up->submitted = atomic_load_explicit(&timeline->submitted, memory_order_relaxed);
    caught_up->seq = leati_timeline_advance(timeline);
}

void leati_timeline_wait_ends(struct leati_timeline *timeline, const struct leati_caught_up *caught_up)
{
    if (timeline->per_thread)
        return;
    leati_assert(caught_up->seq < leati_timeline_now(timeline));
    leati_timeline_complete(timeline, caught_up->seq);
    leati_timeline_seen_idle(timeline, caught_up->submitted);
    atomic_store_explicit(&timeline->waited_at, caught_up->submitted, memory_order_relaxed);
}

bool leati_timeline_waited_already(struct leati_timeline *timeline)
{
    uint64_t waited = atomic_load_explicit(&timeline->waited_at, memory_order_relaxed);

    /* Relaxed: work that another thread submits concurrently need not be covered by this wait. */
    if (!waited || waited != atomic_load_explicit(&timeline->submitted, memory_order_relaxed))
        return false;
    atomic_store_explicit(&timeline->waited_at, 0, memory_order_relaxed);
    return true;
}

bool leati_timeline_is_over(struct leati_timeline *timeline)
{
    bool over;

    leati_lock(&timeline->lock);
    over = !timeline->stream;
    leati_unlock(&timeline->lock);
    return over;
}

leat_status leati_timeline_query(struct leati_timeline *timeline, uint64_t seq, bool *done,
                                 struct leati_timeline_counts *counts)
{
    struct leati_driver *driver;
    struct leati_fence *fence;
    leat_status status;

    *done = leati_timeline_is_complete(timeline, seq);
    if (*done)
        return LEAT_OK;
    leati_lock(&timeline->lock);
    if (!timeline->device) {
        /* The device was closed after the check above. */
        *done = true;
        leati_unlock(&timeline->lock);
        return LEAT_OK;
    }
    driver = timeline->device->driver;
    /* An idle stream needs no fence. */
    if (timeline->stream && !find_fence(timeline, seq) && !timeline->per_thread) {
        /* Advance before the query: work submitted after it must not count as complete. */
        uint64_t now = leati_timeline_advance(timeline);

        if (counts)
            count(&counts->queries);
        if (LEATI_QUIETLY(driver->ops->stream_query(driver, timeline->stream)) == LEAT_OK) {
            leati_timeline_complete(timeline, now);
            *done = true;
            leati_unlock(&timeline->lock);
            return LEAT_OK;
        }
    }
    status = fence_for(timeline, seq, &fence, counts);
    if (status == LEAT_OK) {
        if (counts)
            count(&counts->queries);
        status = driver->ops->event_query(driver, fence->event);
        if (status == LEAT_OK) {
            leati_timeline_complete(timeline, fence->seq);
            *done = true;
        } else if (status == LEAT_NOT_READY) {
            status = LEAT_OK;
        }
    }
    leati_unlock(&timeline->lock);
    return status;
}

/* ---- remembered waits ---- */

static bool remembers(const struct leati_points *points, uint64_t serial, uint64_t seq)
{
    leati_assert(serial);
    for (int i = 0; i < LEATI_POINTS_MAX; i++)
        if (points->at[i].serial == serial)
            return points->at[i].seq >= seq;
    return false;
}

static void remember(struct leati_points *points, const struct leati_point *point)
{
    leati_assert(points->next < LEATI_POINTS_MAX);
    if (!point->serial)
        return;
    for (int i = 0; i < LEATI_POINTS_MAX; i++)
        if (points->at[i].serial == point->serial) {
            if (points->at[i].seq < point->seq)
                points->at[i].seq = point->seq;
            return;
        }
    if (points->at[points->next].serial)
        points->more = true;
    points->at[points->next] = *point;
    points->next = (points->next + 1) % LEATI_POINTS_MAX;
}

bool leati_timeline_is_ordered_after(struct leati_timeline *stream, struct leati_timeline *timeline, uint64_t seq)
{
    bool yes;

    if (stream == timeline)
        return !timeline->per_thread;
    leati_lock(&stream->lock);
    yes = remembers(&stream->waits, timeline->serial, seq);
    leati_unlock(&stream->lock);
    return yes;
}

bool leati_timeline_may_be_ordered_after(struct leati_timeline *stream, struct leati_timeline *timeline,
                                         uint64_t seq)
{
    bool yes;

    if (stream == timeline || stream->per_thread)
        return true;
    leati_lock(&stream->lock);
    yes = stream->waits.more || remembers(&stream->waits, timeline->serial, seq);
    leati_unlock(&stream->lock);
    return yes;
}

void leati_timeline_unknown_wait(struct leati_timeline *stream)
{
    leati_lock(&stream->lock);
    stream->waits.more = true;
    leati_unlock(&stream->lock);
}

void leati_timeline_waited(struct leati_timeline *stream, const struct leati_point *point,
                           const struct leati_points *known)
{
    /* If the stream is per thread, a wait of this thread's stream says nothing about the streams of other
     * threads. */
    if (stream->per_thread || point->serial == stream->serial)
        return;
    leati_lock(&stream->lock);
    for (int i = 0; i < LEATI_POINTS_MAX; i++)
        if (known->at[i].serial != stream->serial)
            remember(&stream->waits, &known->at[i]);
    stream->waits.more = stream->waits.more || known->more;
    remember(&stream->waits, point);
    leati_unlock(&stream->lock);
}

void leati_timeline_get_waits(struct leati_timeline *stream, struct leati_points *known)
{
    leati_lock(&stream->lock);
    *known = stream->waits;
    leati_unlock(&stream->lock);
}

leat_status leati_timeline_wait(struct leati_timeline *stream, struct leati_timeline *timeline, uint64_t seq,
                                struct leati_timeline_counts *counts)
{
    struct leati_driver *driver;
    struct leati_points known;
    struct leati_point point;
    struct leati_fence *fence;
    leat_status status;

    leati_assert(stream != timeline || timeline->per_thread);
    leati_lock(&timeline->lock);
    if (!timeline->device) {
        leati_unlock(&timeline->lock);
        return LEAT_OK;
    }
    driver = timeline->device->driver;
    status = fence_for(timeline, seq, &fence, counts);
    if (status == LEAT_OK) {
        if (counts)
            count(&counts->waits);
        leati_assert(stream->stream);
        status = driver->ops->stream_wait(driver, stream->stream, fence->event);
        leati_timeline_submitted(stream);
        point = (struct leati_point){.serial = timeline->per_thread ? 0 : timeline->serial, .seq = fence->seq};
        /* It is unknown what timeline's stream had waited for when the fence was recorded (by now it may have
         * waited for more), so inherit none of its waits. */
        known = (struct leati_points){.more = true};
    }
    leati_unlock(&timeline->lock);
    if (status == LEAT_OK)
        leati_timeline_waited(stream, &point, &known);
    return status;
}

leat_status leati_timeline_host_wait(struct leati_timeline *timeline, uint64_t seq,
                                     struct leati_timeline_counts *counts)
{
    struct leati_driver *driver;
    struct leati_fence *fence;
    uint64_t fenced = 0;
    leat_status status;
    void *event = NULL;

    if (leati_timeline_is_complete(timeline, seq))
        return LEAT_OK;
    leati_lock(&timeline->lock);
    if (!timeline->device) {
        leati_unlock(&timeline->lock);
        return LEAT_OK;
    }
    leati_timeline_hold(timeline);
    driver = timeline->device->driver;
    status = fence_for(timeline, seq, &fence, counts);
    if (status == LEAT_OK) {
        event = fence->event;
        fenced = fence->seq;
        fence->waiters++;
        if (counts)
            count(&counts->host_waits);
    }
    leati_unlock(&timeline->lock);
    if (status == LEAT_OK) {
        /* Wait without the lock, so that other threads can use the stream meanwhile. The work that this call waits
         * for may depend on them. The event is not destroyed, because this call holds the timeline. */
        status = driver->ops->event_synchronize(driver, event);
        leati_lock(&timeline->lock);
        fence->waiters--;
        leati_unlock(&timeline->lock);
        if (status == LEAT_OK)
            leati_timeline_complete(timeline, fenced);
    }
    leati_timeline_release(timeline);
    return status;
}
