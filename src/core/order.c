/* order.c - see order.h. */
#include "core/order.h"

#include "base/lock.h"
#include "base/quick.h"
#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t last_serial;

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Returns true if the vendor's handle of the stream means another stream in each thread. */
static bool is_per_thread(struct leati_driver *driver, void *native_stream)
{
    void *handle = driver->can->per_thread_stream;

    return handle && driver->ops->stream_native(driver, native_stream) == handle;
}

struct leati_order *leati_order_new(struct leat_device *device, void *native_stream)
{
    struct leati_order *order = calloc(1, sizeof *order);

    if (!order)
        return NULL;
    atomic_init(&order->holders, 1);
    order->serial = 1 + atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed);
    order->device = device;
    order->stream = native_stream;
    order->per_thread = is_per_thread(device->driver, native_stream);
    atomic_init(&order->tick, 1);
    atomic_init(&order->done, 0);
    leati_lock_init(&order->lock);
    return order;
}

void leati_order_hold(struct leati_order *order)
{
    leati_assert(atomic_load_explicit(&order->holders, memory_order_relaxed));
    /* Relaxed: whoever calls this holds it already. */
    atomic_fetch_add_explicit(&order->holders, 1, memory_order_relaxed);
}

void leati_order_let_go(struct leati_order *order)
{
    leati_assert(!order || atomic_load_explicit(&order->holders, memory_order_relaxed));
    /* Release and acquire: the last holder frees what the others have finished using. */
    if (!order || atomic_fetch_sub_explicit(&order->holders, 1, memory_order_acq_rel) != 1)
        return;
    for (int i = 0; i < LEATI_MARKS; i++)
        if (order->marks[i].event)
            (void)LEATI_QUIETLY(
                order->device->driver->ops->event_destroy(order->device->driver, order->marks[i].event));
    leati_lock_destroy(&order->lock);
    free(atomic_load_explicit(&order->failure, memory_order_relaxed));
    free(order);
}

void leati_order_failed(struct leati_order *order, leat_status status, const char *sentence)
{
    struct leati_failure *made = malloc(sizeof *made), *none = NULL;

    leati_assert(status < LEAT_OK && sentence);
    if (!made)
        return; /* the ticket still has it */
    made->status = status;
    snprintf(made->sentence, sizeof made->sentence, "%s", sentence);
    /* Release and acquire: the failure is written before it is seen. */
    if (!atomic_compare_exchange_strong_explicit(&order->failure, &none, made, memory_order_release,
                                                 memory_order_relaxed))
        free(made);
}

LEATI_HOT leat_status leati_order_take_failure(struct leati_order *order)
{
    struct leati_failure *taken;
    leat_status status;

    /* Relaxed: nearly always there is none, and then nothing is read. */
    if (!atomic_load_explicit(&order->failure, memory_order_relaxed))
        return LEAT_OK;
    taken = atomic_exchange_explicit(&order->failure, NULL, memory_order_acq_rel);
    if (!taken)
        return LEAT_OK;
    status = leati_fail(taken->status, "%s", taken->sentence);
    free(taken);
    return status;
}

LEATI_HOT uint64_t leati_order_now(const struct leati_order *order)
{
    /* Acquire: what is read as t was given before the mark that ends t, see leati_order_advance(). */
    return atomic_load_explicit(&order->tick, memory_order_acquire);
}

LEATI_HOT uint64_t leati_order_advance(struct leati_order *order)
{
    /* The tick moves on before the mark is put: what still counts to the old tick is in the stream already. */
    return atomic_fetch_add_explicit(&order->tick, 1, memory_order_acq_rel);
}

LEATI_HOT void leati_order_finished(struct leati_order *order, uint64_t tick)
{
    uint64_t known = atomic_load_explicit(&order->done, memory_order_relaxed);

    /* Release: who sees the tick as done sees what the host saw then. */
    while (known < tick && !atomic_compare_exchange_weak_explicit(&order->done, &known, tick, memory_order_release,
                                                                  memory_order_relaxed))
        ;
}

LEATI_HOT bool leati_order_known(const struct leati_order *order, uint64_t tick)
{
    return atomic_load_explicit(&order->done, memory_order_acquire) >= tick;
}

/* The oldest mark that covers tick, or NULL; under the order's lock. */
static struct leati_mark *find_mark(struct leati_order *order, uint64_t tick)
{
    struct leati_mark *found = NULL;

    leati_assert_locked(&order->lock);
    leati_assert(tick);
    for (int i = 0; i < LEATI_MARKS; i++)
        if (order->marks[i].tick >= tick && (!found || order->marks[i].tick < found->tick))
            found = &order->marks[i];
    return found;
}

/* Puts a mark that covers all that was given so far; under the order's lock. Overwrites the youngest, because
 * older ones are reached first. */
static leat_status put_mark(struct leati_order *order, struct leati_mark **put, struct leati_order_counts *counts)
{
    const struct leati_driver_ops *ops = order->device->driver->ops;
    struct leati_mark *place = NULL, *youngest = NULL;

    leati_assert_locked(&order->lock);
    leati_assert(order->stream);
    for (int i = 0; i < LEATI_MARKS; i++) {
        struct leati_mark *mark = &order->marks[i];

        if (!mark->tick || leati_order_known(order, mark->tick)) {
            place = mark;
            break;
        }
        if (!youngest || mark->tick > youngest->tick)
            youngest = mark;
    }
    if (!place)
        place = youngest;
    if (!place->event)
        LEATI_TRY(ops->event_create(order->device->driver, order->device->native, &place->event));
    place->tick = 0;
    {
        uint64_t tick = leati_order_advance(order);

        LEATI_TRY(ops->event_record(order->device->driver, place->event, order->stream));
        place->tick = tick;
    }
    leati_assert(place->tick && place->tick < leati_order_now(order));
    if (counts)
        count(&counts->events);
    *put = place;
    return LEAT_OK;
}

static leat_status mark_for(struct leati_order *order, uint64_t tick, struct leati_mark **mark,
                            struct leati_order_counts *counts)
{
    *mark = find_mark(order, tick);
    leati_assert(!*mark || ((*mark)->tick >= tick && (*mark)->event));
    if (*mark)
        return LEAT_OK;
    if (!order->stream)
        return leati_fail(LEAT_ERROR_DRIVER, "the stream is gone and nothing marks its last work");
    return put_mark(order, mark, counts);
}

void leati_order_stream_ends(struct leati_order *order, bool finished)
{
    struct leati_driver *driver = order->device->driver;
    struct leati_mark *mark;

    leati_error_quiet_begin();
    leati_lock(&order->lock);
    leati_assert(order->stream);
    if (finished)
        leati_order_finished(order, UINT64_MAX);
    else if (atomic_load_explicit(&order->holders, memory_order_relaxed) > 1 &&
             put_mark(order, &mark, NULL) != LEAT_OK &&
             driver->ops->stream_synchronize(driver, order->stream) == LEAT_OK)
        leati_order_finished(order, UINT64_MAX);
    /* Nothing more will be given to it, so what is asked of it from now on is before its last mark. */
    if (!leati_order_known(order, UINT64_MAX))
        atomic_fetch_sub_explicit(&order->tick, 1, memory_order_relaxed);
    order->stream = NULL;
    leati_unlock(&order->lock);
    leati_error_quiet_end();
}

void leati_order_wait_begins(struct leati_order *order, struct leati_caught_up *caught_up)
{
    caught_up->given = atomic_load_explicit(&order->given, memory_order_relaxed);
    caught_up->tick = leati_order_advance(order);
}

void leati_order_wait_ends(struct leati_order *order, const struct leati_caught_up *caught_up)
{
    if (order->per_thread)
        return;
    leati_assert(caught_up->tick < leati_order_now(order));
    leati_order_finished(order, caught_up->tick);
    leati_order_seen_idle(order, caught_up->given);
    atomic_store_explicit(&order->waited_at, caught_up->given, memory_order_relaxed);
}

bool leati_order_waited_already(struct leati_order *order)
{
    uint64_t waited = atomic_load_explicit(&order->waited_at, memory_order_relaxed);

    /* Relaxed: work that another thread is just giving does not come before this wait. */
    if (!waited || waited != atomic_load_explicit(&order->given, memory_order_relaxed))
        return false;
    atomic_store_explicit(&order->waited_at, 0, memory_order_relaxed);
    return true;
}

bool leati_order_is_over(struct leati_order *order)
{
    bool over;

    leati_lock(&order->lock);
    over = !order->stream;
    leati_unlock(&order->lock);
    return over;
}

leat_status leati_order_query(struct leati_order *order, uint64_t tick, bool *done,
                              struct leati_order_counts *counts)
{
    struct leati_driver *driver = order->device->driver;
    struct leati_mark *mark;
    leat_status status;

    *done = leati_order_known(order, tick);
    if (*done)
        return LEAT_OK;
    leati_lock(&order->lock);
    /* A stream that is idle needs no mark. */
    if (order->stream && !find_mark(order, tick) && !order->per_thread) {
        uint64_t now = leati_order_advance(order);

        if (counts)
            count(&counts->queries);
        if (LEATI_QUIETLY(driver->ops->stream_query(driver, order->stream)) == LEAT_OK) {
            leati_order_finished(order, now);
            *done = true;
            leati_unlock(&order->lock);
            return LEAT_OK;
        }
    }
    status = mark_for(order, tick, &mark, counts);
    if (status == LEAT_OK) {
        if (counts)
            count(&counts->queries);
        status = driver->ops->event_query(driver, mark->event);
        if (status == LEAT_OK) {
            leati_order_finished(order, mark->tick);
            *done = true;
        } else if (status == LEAT_NOT_READY) {
            status = LEAT_OK;
        }
    }
    leati_unlock(&order->lock);
    return status;
}

/* ---- waits that are remembered ---- */

static bool remembers(const struct leati_points *points, uint64_t serial, uint64_t tick)
{
    leati_assert(serial);
    for (int i = 0; i < LEATI_POINTS_MAX; i++)
        if (points->at[i].serial == serial)
            return points->at[i].tick >= tick;
    return false;
}

static void remember(struct leati_points *points, const struct leati_point *point)
{
    leati_assert(points->next < LEATI_POINTS_MAX);
    if (!point->serial)
        return;
    for (int i = 0; i < LEATI_POINTS_MAX; i++)
        if (points->at[i].serial == point->serial) {
            if (points->at[i].tick < point->tick)
                points->at[i].tick = point->tick;
            return;
        }
    if (points->at[points->next].serial)
        points->more = true;
    points->at[points->next] = *point;
    points->next = (points->next + 1) % LEATI_POINTS_MAX;
}

bool leati_order_follows(struct leati_order *stream, struct leati_order *order, uint64_t tick)
{
    bool yes;

    if (stream == order)
        return !order->per_thread;
    leati_lock(&stream->lock);
    yes = remembers(&stream->waits, order->serial, tick);
    leati_unlock(&stream->lock);
    return yes;
}

bool leati_order_may_follow(struct leati_order *stream, struct leati_order *order, uint64_t tick)
{
    bool yes;

    if (stream == order || stream->per_thread)
        return true;
    leati_lock(&stream->lock);
    yes = stream->waits.more || remembers(&stream->waits, order->serial, tick);
    leati_unlock(&stream->lock);
    return yes;
}

void leati_order_unseen(struct leati_order *stream)
{
    leati_lock(&stream->lock);
    stream->waits.more = true;
    leati_unlock(&stream->lock);
}

void leati_order_waited(struct leati_order *stream, const struct leati_point *point,
                        const struct leati_points *known)
{
    /* What one thread waits for on its own stream says nothing about the others'. */
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

void leati_order_waits(struct leati_order *stream, struct leati_points *known)
{
    leati_lock(&stream->lock);
    *known = stream->waits;
    leati_unlock(&stream->lock);
}

leat_status leati_order_wait(struct leati_order *stream, struct leati_order *order, uint64_t tick,
                             struct leati_order_counts *counts)
{
    struct leati_driver *driver = order->device->driver;
    struct leati_points known;
    struct leati_point point;
    struct leati_mark *mark;
    leat_status status;

    leati_assert(stream != order || order->per_thread);
    leati_lock(&order->lock);
    status = mark_for(order, tick, &mark, counts);
    if (status == LEAT_OK) {
        if (counts)
            count(&counts->waits);
        leati_assert(stream->stream);
        status = driver->ops->stream_wait(driver, stream->stream, mark->event);
        leati_order_given(stream);
        point = (struct leati_point){.serial = order->per_thread ? 0 : order->serial, .tick = mark->tick};
        /* What order waits for now may be more than it did when the mark was put. */
        known = (struct leati_points){.more = true};
    }
    leati_unlock(&order->lock);
    if (status == LEAT_OK)
        leati_order_waited(stream, &point, &known);
    return status;
}

leat_status leati_order_host_wait(struct leati_order *order, uint64_t tick, struct leati_order_counts *counts)
{
    struct leati_driver *driver = order->device->driver;
    struct leati_mark *mark;
    leat_status status;

    if (leati_order_known(order, tick))
        return LEAT_OK;
    leati_lock(&order->lock);
    status = mark_for(order, tick, &mark, counts);
    if (status == LEAT_OK) {
        uint64_t marked = mark->tick;

        if (counts)
            count(&counts->host_waits);
        status = driver->ops->event_synchronize(driver, mark->event);
        if (status == LEAT_OK)
            leati_order_finished(order, marked);
    }
    leati_unlock(&order->lock);
    return status;
}
