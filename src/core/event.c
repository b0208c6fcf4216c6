/* event.c - creates, records, queries and waits for events, which mark positions in streams. */
#include "base/lock.h"
#include "core/core.h"

struct leati_handles leati_event_handles = LEATI_HANDLES(struct leat_event);

leat_status leati_check_event(const char *what, const leat_event *event)
{
    if (leati_handle_live(&leati_event_handles, event))
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_HANDLE,
        "%s: event %p is not a live event: it was destroyed, its device was closed, or it never came from leat",
        what, (const void *)event);
}

/* Allocates an event. Returns NULL, with a message, when out of memory. */
static leat_event *new_event(const char *what, leat_device *device)
{
    static _Atomic uint64_t last_serial;
    leat_event *event = leati_handle_new(&leati_event_handles);

    if (!event) {
        leati_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the event handle", what);
        return NULL;
    }
    event->device = device;
    event->serial = 1 + atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed);
    leati_lock_init(&event->lock);
    return event;
}

/* Completes the creation of an event: publishes its handle if status is LEAT_OK, otherwise frees the event. */
static leat_status publish(leat_status status, const char *what, leat_event *event, leat_event **out)
{
    if (status != LEAT_OK) {
        leati_fail_in(status, "%s on %s", what, event->device->name);
        leati_lock_destroy(&event->lock);
        leati_handle_free(&leati_event_handles, event);
        return status;
    }
    leati_assert(event->serial && !event->timeline);
    leati_lock(&event->device->lock);
    leati_link_add(&event->device->events, &event->link);
    leati_unlock(&event->device->lock);
    leati_handle_publish(event);
    *out = event;
    return LEAT_OK;
}

leat_status leat_event_create(leat_device *device, leat_event **event)
{
    leat_event *made;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_event_create"));
    LEATI_TRY(leati_check_device("leat_event_create", device));
    LEATI_TRY(leati_check_not_null("leat_event_create", "event", event));
    made = new_event("leat_event_create", device);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    atomic_init(&made->recorded, false);
    status = device->driver->ops->event_create(device->driver, device->native, &made->native);
    return publish(status, "leat_event_create", made, event);
}

leat_status leat_event_wrap(leat_device *device, void *native, leat_event **event)
{
    leat_event *made;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_event_wrap"));
    LEATI_TRY(leati_check_device("leat_event_wrap", device));
    LEATI_TRY(leati_check_not_null("leat_event_wrap", "native", native));
    LEATI_TRY(leati_check_not_null("leat_event_wrap", "event", event));
    made = new_event("leat_event_wrap", device);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    atomic_init(&made->recorded, true);
    made->shared = true;
    status = device->driver->ops->event_adopt(device->driver, device->native, native, &made->native);
    return publish(status, "leat_event_wrap", made, event);
}

/* Destroys an event whose handle is already retired. */
static leat_status end_event(leat_event *event)
{
    struct leati_driver *driver = event->device->driver;
    leat_status status = driver->ops->event_destroy(driver, event->native);

    leati_assert(!atomic_load_explicit(&event->handle.live, memory_order_relaxed));
    LEATI_RECORD(.op = LEATI_RECORD_EVENT_DESTROY, .event = event->serial);
    leati_timeline_release(event->timeline);
    leati_lock_destroy(&event->lock);
    leati_handle_free(&leati_event_handles, event);
    return status;
}

leat_status leat_event_destroy(leat_event *event)
{
    leat_device *device;
    leat_status status;

    if (!event)
        return LEAT_OK;
    LEATI_TRY(leati_check_permitted("leat_event_destroy"));
    if (!leati_handle_retire(&leati_event_handles, event))
        return leati_check_event("leat_event_destroy", event);
    device = event->device;
    leati_lock(&device->lock);
    leati_link_remove(&event->link);
    leati_unlock(&device->lock);
    status = end_event(event);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_event_destroy on %s: it is gone, but", device->name);
}

leat_status leati_events_close(struct leat_device *device)
{
    leat_status first = LEAT_OK;

    while (device->events.next != &device->events) {
        leat_event *event = LEATI_CONTAINER_OF(device->events.next, leat_event);
        leat_status status;

        leati_link_remove(&event->link);
        leati_handle_retire(&leati_event_handles, event);
        status = end_event(event);
        first = first != LEAT_OK ? first : status;
    }
    return first;
}

leat_status leat_event_native(leat_event *event, void **native)
{
    LEATI_TRY(leati_check_event("leat_event_native", event));
    LEATI_TRY(leati_check_not_null("leat_event_native", "native", native));
    leati_lock(&event->lock);
    event->shared = true;
    event->point.serial = 0;
    leati_unlock(&event->lock);
    /* The program may record the event without leat from now on. Drivers count an event that was never recorded as
     * reached. */
    atomic_store_explicit(&event->recorded, true, memory_order_release);
    *native = event->device->driver->ops->event_native(event->device->driver, event->native);
    return LEAT_OK;
}

/* Records the event in the driver, and stores its position and what its stream is ordered after. Call under the
 * event's lock. */
static leat_status record(leat_event *event, leat_stream *stream)
{
    struct leati_driver *driver = event->device->driver;
    struct leati_timeline *timeline = stream->timeline, *old = event->timeline;
    struct leati_point point = {.serial = timeline->serial};

    /* If recording fails, the position stays unknown (serial 0). Read the waits before recording: the event
     * does not cover a wait that another thread adds later. */
    point.seq = leati_timeline_advance(timeline);
    leati_timeline_get_waits(timeline, &event->known);
    event->point.serial = 0;
    LEATI_TRY(driver->ops->event_record(driver, event->native, stream->native));
    leati_timeline_submitted(timeline);
    if (!event->shared && !timeline->per_thread)
        event->point = point;
    if (timeline != old) {
        leati_timeline_hold(timeline);
        event->timeline = timeline;
        leati_timeline_release(old);
    }
    LEATI_RECORD(.op = LEATI_RECORD_RECORD, .event = event->serial, .stream = timeline->serial);
    return LEAT_OK;
}

/* Records that the event has completed. point: the event's position before the driver was asked. */
static void reached(leat_event *event, const struct leati_point *point)
{
    leati_lock(&event->lock);
    /* Only if the event was not recorded again in the meantime, because the driver may then have answered for a
     * record at another position. */
    if (point->serial && point->serial == event->point.serial && point->seq == event->point.seq) {
        leati_timeline_complete(event->timeline, point->seq);
        LEATI_RECORD(.op = LEATI_RECORD_SYNC, .event = event->serial);
    }
    leati_unlock(&event->lock);
}

static struct leati_point point_of(leat_event *event)
{
    struct leati_point point;

    leati_lock(&event->lock);
    point = event->point;
    leati_unlock(&event->lock);
    return point;
}

leat_status leat_event_record(leat_stream *stream, leat_event *event)
{
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_EVENT_RECORD, "leat_event_record");
    LEATI_TRY(leati_check_permitted("leat_event_record"));
    LEATI_TRY(leati_check_event("leat_event_record", event));
    LEATI_TRY(leati_check_stream("leat_event_record", stream));
    if (event->device != stream->device)
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_event_record: the event is of %s and the stream of %s; create the event on the stream's device",
                          event->device->name, stream->device->name);
    leati_lock(&event->lock);
    status = record(event, stream);
    event->traced = leati_traced() ? leati_span_id() : 0;
    leati_unlock(&event->lock);
    if (leati_traced())
        leati_span_stream(&stream->traced);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_event_record on %s", event->device->name);
    /* Release: a thread that sees the flag knows that the driver already has the record. */
    atomic_store_explicit(&event->recorded, true, memory_order_release);
    return LEAT_OK;
}

/* Acquire: if the flag is set, the driver already has the record. */
static bool was_recorded(leat_event *event)
{
    return atomic_load_explicit(&event->recorded, memory_order_acquire);
}

static uint64_t traced_record(leat_event *event)
{
    uint64_t traced;

    leati_lock(&event->lock);
    traced = event->traced;
    leati_unlock(&event->lock);
    return traced;
}

leat_status leat_event_synchronize(leat_event *event)
{
    struct leati_driver *driver;
    struct leati_point point;
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_SYNCHRONIZE, "leat_event_synchronize");
    LEATI_TRY(leati_check_permitted("leat_event_synchronize"));
    LEATI_TRY(leati_check_event("leat_event_synchronize", event));
    if (!was_recorded(event))
        return LEAT_OK;
    driver = event->device->driver;
    point = point_of(event);
    if (leati_traced()) {
        leati_span_stream(&event->device->traced_calls);
        leati_span_value(traced_record(event));
    }
    leati_wait_begins(event->device, driver->ops->event_query, event->native);
    status = driver->ops->event_synchronize(driver, event->native);
    if (status == LEAT_OK)
        reached(event, &point);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_event_synchronize on %s", event->device->name);
}

leat_status leat_event_query(leat_event *event)
{
    struct leati_driver *driver;
    struct leati_point point;
    leat_status status;

    LEATI_TRY(leati_check_event("leat_event_query", event));
    if (!was_recorded(event))
        return LEAT_OK;
    driver = event->device->driver;
    point = point_of(event);
    status = driver->ops->event_query(driver, event->native);
    if (status == LEAT_OK)
        reached(event, &point);
    return status >= LEAT_OK ? status : leati_fail_in(status, "leat_event_query on %s", event->device->name);
}

leat_status leat_event_elapsed(leat_event *start, leat_event *end, double *milliseconds)
{
    struct leati_driver *driver;
    leat_status status;

    LEATI_TRY(leati_check_event("leat_event_elapsed: start", start));
    LEATI_TRY(leati_check_event("leat_event_elapsed: end", end));
    LEATI_TRY(leati_check_not_null("leat_event_elapsed", "milliseconds", milliseconds));
    if (start->device != end->device)
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_event_elapsed: start is of %s and end of %s; both must be of one device",
                          start->device->name, end->device->name);
    if (!was_recorded(start) || !was_recorded(end))
        return leati_fail(LEAT_ERROR_INVALID, "leat_event_elapsed: the %s event was never recorded",
                          was_recorded(start) ? "end" : "start");
    driver = start->device->driver;
    status = driver->ops->event_elapsed(driver, start->native, end->native, milliseconds);
    return status >= LEAT_OK ? status : leati_fail_in(status, "leat_event_elapsed on %s", start->device->name);
}
