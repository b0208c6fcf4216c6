/* event.c - events: leat's, with the flags that they were made with. */
#include "engine/inside.h"

struct leatc_event {
    struct leatc_slot slot;
    struct leatc_device *device;
    leat_event *native;
    unsigned flags;
    atomic_bool recorded;
};

static struct leatc_slots events = LEATC_SLOTS(struct leatc_event);

int leatc_event_check(struct leatc_event *event)
{
    return leatc_slot_live(&events, event) ? LEATC_OK : LEATC_INVALID_HANDLE;
}

int leatc_event_create(unsigned flags, struct leatc_event **event)
{
    struct leatc_event *made;
    leat_status status;
    int result;
    struct leatc_device *device = leatc_device_here(&result);

    if (!event || flags & ~(LEATC_EVENT_BLOCKING_SYNC | LEATC_EVENT_DISABLE_TIMING | LEATC_EVENT_INTERPROCESS) ||
        (flags & LEATC_EVENT_INTERPROCESS && !(flags & LEATC_EVENT_DISABLE_TIMING)))
        return LEATC_INVALID_VALUE;
    if (!device)
        return result;
    made = leatc_slot_new(&events);
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    made->device = device;
    made->flags = flags;
    status = leat_event_create(atomic_load(&device->native), &made->native);
    if (status != LEAT_OK) {
        leatc_slot_free(&events, made);
        return leatc_result_of(status);
    }
    leatc_slot_publish(made);
    *event = made;
    return LEATC_OK;
}

static void end_event(struct leatc_event *event)
{
    leat_event_destroy(event->native);
    leatc_slot_free(&events, event);
}

int leatc_event_destroy(struct leatc_event *event)
{
    if (!leatc_slot_retire(&events, event))
        return LEATC_INVALID_HANDLE;
    end_event(event);
    return LEATC_OK;
}

static void close_event(void *object, void *device)
{
    struct leatc_event *event = object;

    if (event->device == device && leatc_slot_retire(&events, event))
        end_event(event);
}

void leatc_events_close(struct leatc_device *device)
{
    leatc_slots_each(&events, close_event, device);
}

int leatc_event_record(struct leatc_event *event, struct leatc_stream *stream)
{
    struct leatc_work work;

    LEATC_TRY(leatc_event_check(event));
    LEATC_TRY(leatc_work_begin(stream, &work));
    if (work.record->device != event->device)
        return LEATC_INVALID_HANDLE;
    LEATC_TRY(leatc_result_of(leat_event_record(event->native, work.stream)));
    atomic_store_explicit(&event->recorded, true, memory_order_release);
    return LEATC_OK;
}

int leatc_event_synchronize(struct leatc_event *event)
{
    int result;

    LEATC_TRY(leatc_event_check(event));
    result = leatc_result_of(leat_event_synchronize(event->native));
    leatc_pools_waited(event->device);
    return result;
}

int leatc_event_query(struct leatc_event *event)
{
    LEATC_TRY(leatc_event_check(event));
    return leatc_result_of(leat_event_query(event->native));
}

static int check_timed(struct leatc_event *event)
{
    LEATC_TRY(leatc_event_check(event));
    return !(event->flags & LEATC_EVENT_DISABLE_TIMING) &&
                   atomic_load_explicit(&event->recorded, memory_order_acquire)
               ? LEATC_OK
               : LEATC_INVALID_HANDLE;
}

int leatc_event_elapsed(float *milliseconds, struct leatc_event *start, struct leatc_event *end)
{
    double elapsed = 0;

    if (!milliseconds)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_timed(start));
    LEATC_TRY(check_timed(end));
    if (start->device != end->device)
        return LEATC_INVALID_HANDLE;
    LEATC_TRY(leatc_result_of(leat_event_elapsed(start->native, end->native, &elapsed)));
    *milliseconds = (float)elapsed;
    return LEATC_OK;
}

int leatc_stream_wait(struct leatc_stream *stream, struct leatc_event *event)
{
    struct leatc_work work;

    LEATC_TRY(leatc_event_check(event));
    LEATC_TRY(leatc_work_begin(stream, &work));
    return leatc_work_end(&work, leat_stream_wait(work.stream, event->native));
}
