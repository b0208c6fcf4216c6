/* stream.c - creates, queries and waits for streams, and runs host functions in stream order. */
#include "core/core.h"

#include "base/lock.h"
#include "base/quick.h"
#include <stdlib.h>

struct leati_handles leati_stream_handles = LEATI_HANDLES(struct leat_stream);

LEATI_HOT leat_status leati_check_stream(const char *what, const leat_stream *stream)
{
    if (leati_handle_live(&leati_stream_handles, stream))
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_HANDLE,
        "%s: stream %p is not a live stream: it was destroyed, its device was closed, or it never came from leat",
        what, (const void *)stream);
}

/* Allocates a stream. Returns NULL, with a message, when out of memory. */
static leat_stream *new_stream(const char *what, leat_device *device)
{
    leat_stream *stream = leati_handle_new(&leati_stream_handles);

    if (!stream) {
        leati_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the stream handle", what);
        return NULL;
    }
    stream->device = device;
    /* Initializing a lock cannot fail in glibc or musl. */
    leati_lock_init_recursive(&stream->piece_lock);
    return stream;
}

static void free_stream(leat_stream *stream)
{
    leati_lock_destroy(&stream->piece_lock);
    leati_handle_free(&leati_stream_handles, stream);
}

void leati_stream_writes_host(leat_stream *stream)
{
    uint64_t seq = leati_timeline_now(stream->timeline), seen;

    /* Release: pairs with the acquire in leati_stream_reads_now(), which a thread may call after the program has
     * told it about this work. */
    seen = atomic_load_explicit(&stream->host_seq, memory_order_relaxed);
    while (seen < seq && !atomic_compare_exchange_weak_explicit(&stream->host_seq, &seen, seq,
                                                                memory_order_release, memory_order_relaxed))
        continue;
}

LEATI_HOT bool leati_stream_reads_now(leat_stream *stream)
{
    uint64_t seq;

    if (atomic_load_explicit(&stream->foreign, memory_order_relaxed) || stream->timeline->per_thread)
        return false;
    seq = atomic_load_explicit(&stream->host_seq, memory_order_acquire);
    return !seq || leati_timeline_is_complete(stream->timeline, seq);
}

LEATI_HOT bool leati_stream_known_idle(const leat_stream *stream)
{
    return !atomic_load_explicit(&stream->foreign, memory_order_relaxed) && !stream->timeline->per_thread &&
           leati_timeline_is_idle(stream->timeline);
}

LEATI_HOT bool leati_stream_is_idle(leat_stream *stream)
{
    struct leati_driver *driver = stream->device->driver;
    uint64_t submitted, seq;

    if (leati_stream_known_idle(stream))
        return true;
    /* Read and advance before the query: work submitted later must count neither as seen idle nor as complete. */
    submitted = atomic_load_explicit(&stream->timeline->submitted, memory_order_relaxed);
    seq = leati_timeline_advance(stream->timeline);
    if (LEATI_QUIETLY(driver->ops->stream_query(driver, stream->native)) != LEAT_OK)
        return false;
    leati_timeline_seen_idle(stream->timeline, submitted);
    /* So leati_stream_reads_now() is true for the copies that come after this one, too. */
    if (!stream->timeline->per_thread)
        leati_timeline_complete(stream->timeline, seq);
    return true;
}

/* Completes the creation of a stream if status is LEAT_OK: creates its timeline and publishes its handle. If
 * status is a failure, or if this fails, frees the stream. */
static leat_status publish(leat_status status, const char *what, leat_stream *stream, leat_stream **out)
{
    if (status == LEAT_OK) {
        stream->timeline = leati_timeline_new(stream->device, stream->native);
        if (!stream->timeline) {
            (void)stream->device->driver->ops->stream_destroy(stream->device->driver, stream->native);
            status = leati_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (the stream's timeline)");
        }
    }
    if (status != LEAT_OK) {
        leati_fail_in(status, "%s on %s", what, stream->device->name);
        free_stream(stream);
        return status;
    }
    stream->traced = (struct leati_traced_stream){
        .device = &stream->device->traced, .stream = stream->native, .serial = stream->timeline->serial};
    leati_lock(&stream->device->lock);
    leati_link_add(&stream->device->streams, &stream->link);
    leati_unlock(&stream->device->lock);
    leati_handle_publish(stream);
    *out = stream;
    return LEAT_OK;
}

leat_status leat_stream_create(leat_device *device, leat_stream **stream)
{
    leat_stream *made;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_stream_create"));
    LEATI_TRY(leati_check_device("leat_stream_create", device));
    LEATI_TRY(leati_check_not_null("leat_stream_create", "stream", stream));
    made = new_stream("leat_stream_create", device);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    status = device->driver->ops->stream_create(device->driver, device->native, &made->native);
    return publish(status, "leat_stream_create", made, stream);
}

leat_status leat_stream_wrap(leat_device *device, void *native, leat_stream **stream)
{
    leat_stream *made;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_stream_wrap"));
    LEATI_TRY(leati_check_device("leat_stream_wrap", device));
    LEATI_TRY(leati_check_not_null("leat_stream_wrap", "stream", stream));
    made = new_stream("leat_stream_wrap", device);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    status = device->driver->ops->stream_adopt(device->driver, device->native, native, &made->native);
    status = publish(status, "leat_stream_wrap", made, stream);
    if (status == LEAT_OK) {
        leati_timeline_unknown_wait(made->timeline);
        atomic_store_explicit(&made->foreign, true, memory_order_relaxed);
    }
    return status;
}

/* Destroys a stream whose handle is already retired. finished: all its work is known to be complete. */
static leat_status end_stream(leat_stream *stream, bool finished)
{
    struct leati_driver *driver = stream->device->driver;
    const struct leati_pool_hooks *hooks = atomic_load_explicit(&stream->device->pool_hooks, memory_order_acquire);
    const struct leati_copy_hooks *copies =
        atomic_load_explicit(&stream->device->copy_hooks, memory_order_acquire);
    leat_status status;

    leati_assert(!atomic_load_explicit(&stream->handle.live, memory_order_relaxed));
    LEATI_RECORD(.op = LEATI_RECORD_STREAM_DESTROY, .stream = stream->timeline->serial);
    if (copies)
        copies->stream_ends(stream);
    if (hooks)
        hooks->stream_ends(stream);
    leati_timeline_stream_ends(stream->timeline, finished);
    leati_timeline_release(stream->timeline);
    status = driver->ops->stream_destroy(driver, stream->native);
    free_stream(stream);
    return status;
}

leat_status leat_stream_destroy(leat_stream *stream)
{
    leat_device *device;
    leat_status status;

    if (!stream)
        return LEAT_OK;
    LEATI_TRY(leati_check_permitted("leat_stream_destroy"));
    if (!leati_handle_retire(&leati_stream_handles, stream))
        return leati_check_stream("leat_stream_destroy", stream);
    device = stream->device;
    leati_lock(&device->lock);
    leati_link_remove(&stream->link);
    leati_unlock(&device->lock);
    status = end_stream(stream, false);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_stream_destroy on %s: it is gone, but", device->name);
}

LEATI_HOT leat_status leati_stream_driver_failure(leat_stream *stream)
{
    struct leati_driver *driver = stream->device->driver;

    return driver->ops->stream_take_failure ? driver->ops->stream_take_failure(driver, stream->native) : LEAT_OK;
}

void leati_stream_keep_driver_failure(leat_stream *stream)
{
    struct leati_hearing hearing;
    leat_status status;

    leati_error_hear_begin(&hearing);
    status = leati_stream_driver_failure(stream);
    if (status != LEAT_OK)
        leati_timeline_failed(stream->timeline, status, leat_last_error());
    leati_error_hear_end(&hearing);
}

/* Returns the failure of a copy on a stream whose work is complete, if no call has returned it. The handle of a
 * foreign stream may be invalid by now. */
static leat_status unreported_failure(leat_stream *stream)
{
    leat_status status = leati_timeline_take_failure(stream->timeline);

    if (status == LEAT_OK && !atomic_load_explicit(&stream->foreign, memory_order_relaxed))
        status = leati_stream_driver_failure(stream);
    return status;
}

leat_status leati_streams_close(struct leat_device *device, bool finished)
{
    leat_status first = LEAT_OK;

    while (device->streams.next != &device->streams) {
        leat_stream *stream = LEATI_CONTAINER_OF(device->streams.next, leat_stream);
        leat_status status;

        leati_link_remove(&stream->link);
        leati_handle_retire(&leati_stream_handles, stream);
        status = finished ? unreported_failure(stream) : LEAT_OK;
        first = first != LEAT_OK ? first : status;
        status = end_stream(stream, finished);
        first = first != LEAT_OK ? first : status;
    }
    return first;
}

leat_status leat_stream_device(leat_stream *stream, leat_device **device)
{
    LEATI_TRY(leati_check_stream("leat_stream_device", stream));
    LEATI_TRY(leati_check_not_null("leat_stream_device", "device", device));
    *device = stream->device;
    return LEAT_OK;
}

leat_status leat_stream_native(leat_stream *stream, void **native)
{
    LEATI_TRY(leati_check_stream("leat_stream_native", stream));
    LEATI_TRY(leati_check_not_null("leat_stream_native", "native", native));
    leati_timeline_unknown_wait(stream->timeline);
    atomic_store_explicit(&stream->foreign, true, memory_order_relaxed);
    *native = stream->device->driver->ops->stream_native(stream->device->driver, stream->native);
    return LEAT_OK;
}

/* Records that all work submitted before seq ended was seen complete. */
LEATI_HOT static void seen_done(leat_stream *stream, uint64_t seq)
{
    if (stream->timeline->per_thread)
        return;
    leati_assert(seq < leati_timeline_now(stream->timeline));
    leati_timeline_complete(stream->timeline, seq);
    LEATI_RECORD(.op = LEATI_RECORD_SYNC, .stream = stream->timeline->serial);
}

LEATI_HOT void leati_wait_begins(struct leat_device *device, leati_query_function query, void *native)
{
    const struct leati_copy_hooks *copies = atomic_load_explicit(&device->copy_hooks, memory_order_acquire);

    if (copies)
        copies->wait_begins(device, query, native);
}

static void tell_waited(leat_stream *stream)
{
    const struct leati_pool_hooks *hooks = atomic_load_explicit(&stream->device->pool_hooks, memory_order_acquire);

    if (hooks)
        hooks->stream_waited(stream);
}

LEATI_HOT leat_status leati_stream_finish(leat_stream *stream)
{
    struct leati_driver *driver;
    uint64_t seq, submitted;

    if (atomic_load_explicit(&stream->foreign, memory_order_relaxed) ||
        !leati_timeline_waited_already(stream->timeline)) {
        driver = stream->device->driver;
        submitted = atomic_load_explicit(&stream->timeline->submitted, memory_order_relaxed);
        seq = leati_timeline_advance(stream->timeline);
        leati_wait_begins(stream->device, driver->ops->stream_query, stream->native);
        LEATI_TRY(driver->ops->stream_synchronize(driver, stream->native));
        leati_timeline_seen_idle(stream->timeline, submitted);
        seen_done(stream, seq);
    } else {
        LEATI_RECORD(.op = LEATI_RECORD_SYNC, .stream = stream->timeline->serial);
    }
    if (atomic_load_explicit(&stream->timeline->takes_over, memory_order_relaxed))
        tell_waited(stream);
    return LEAT_OK;
}

LEATI_HOT leat_status leat_stream_synchronize(leat_stream *stream)
{
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_SYNCHRONIZE, "leat_stream_synchronize");
    LEATI_TRY(leati_check_permitted("leat_stream_synchronize"));
    LEATI_TRY(leati_check_stream("leat_stream_synchronize", stream));
    if (leati_traced())
        leati_span_stream(&stream->traced);
    status = leati_stream_finish(stream);
    if (status == LEAT_OK)
        status = leati_timeline_take_failure(stream->timeline);
    if (status == LEAT_OK)
        status = leati_stream_driver_failure(stream);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_stream_synchronize on %s", stream->device->name);
}

leat_status leat_stream_query(leat_stream *stream)
{
    struct leati_driver *driver;
    leat_status status;
    uint64_t seq;

    LEATI_TRY(leati_check_stream("leat_stream_query", stream));
    driver = stream->device->driver;
    /* Advance before the query: work submitted after it must not count as complete. */
    seq = leati_timeline_advance(stream->timeline);
    status = driver->ops->stream_query(driver, stream->native);
    if (status == LEAT_OK)
        seen_done(stream, seq);
    return status >= LEAT_OK ? status : leati_fail_in(status, "leat_stream_query on %s", stream->device->name);
}

leat_status leat_stream_wait(leat_stream *stream, leat_event *event)
{
    struct leati_driver *driver;
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_EVENT_WAIT, "leat_stream_wait");
    LEATI_TRY(leati_check_permitted("leat_stream_wait"));
    LEATI_TRY(leati_check_stream("leat_stream_wait", stream));
    LEATI_TRY(leati_check_event("leat_stream_wait", event));
    driver = stream->device->driver;
    if (driver != event->device->driver)
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "leat_stream_wait: a stream of %s cannot wait for an event of %s; wait on the host with leat_event_synchronize()",
                          stream->device->name, event->device->name);
    /* Acquire: if the flag is set, the driver already has the record. */
    if (!atomic_load_explicit(&event->recorded, memory_order_acquire))
        return LEAT_OK;
    leati_lock(&event->lock);
    leati_assert(event->native);
    if (leati_traced()) {
        leati_span_stream(&stream->traced);
        leati_span_value(event->traced);
    }
    status = driver->ops->stream_wait(driver, stream->native, event->native);
    if (status == LEAT_OK && event->point.serial)
        leati_timeline_waited(stream->timeline, &event->point, &event->known);
    else if (status == LEAT_OK)
        leati_timeline_unknown_wait(stream->timeline);
    if (status == LEAT_OK)
        LEATI_RECORD(.op = LEATI_RECORD_WAIT, .stream = stream->timeline->serial, .event = event->serial);
    leati_unlock(&event->lock);
    leati_stream_writes_host(stream);
    leati_timeline_submitted(stream->timeline);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_stream_wait on %s", stream->device->name);
}

/* ---- host functions ---- */

/* A submitted host function. It stays in its device's list until it has run. A lost device may never run it, and
 * then the last close of the device frees it. */
struct host_call {
    void (*function)(void *);
    void *argument;
    struct leat_device *device;
    struct host_call *next, **place; /* list of the device; under the device's lock */
};

static void unlist(struct host_call *call)
{
    leati_lock(&call->device->lock);
    *call->place = call->next;
    if (call->next)
        call->next->place = call->place;
    leati_unlock(&call->device->lock);
}

static void list(struct host_call *call)
{
    leati_lock(&call->device->lock);
    call->place = &call->device->host_calls;
    call->next = call->device->host_calls;
    if (call->next)
        call->next->place = &call->next;
    call->device->host_calls = call;
    leati_unlock(&call->device->lock);
}

void leati_host_calls_close(struct leat_device *device)
{
    while (device->host_calls) {
        struct host_call *call = device->host_calls;

        device->host_calls = call->next;
        free(call);
    }
}

static void run_host_call(void *argument)
{
    struct host_call call = *(struct host_call *)argument;
    unsigned quiet;

    unlist(argument);
    free(argument);
    /* The driver may run the function inside a call for which leat has switched error messages off. */
    quiet = leati_error_loud_begin();
    leati_host_function_enter();
    call.function(call.argument);
    leati_host_function_leave();
    leati_error_loud_end(quiet);
}

leat_status leat_launch_host(leat_stream *stream, void (*function)(void *argument), void *argument)
{
    struct leati_driver *driver;
    struct host_call *call;
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_HOST_FUNCTION, "leat_launch_host");
    LEATI_TRY(leati_check_permitted("leat_launch_host"));
    LEATI_TRY(leati_check_stream("leat_launch_host", stream));
    if (!function)
        return leati_fail(LEAT_ERROR_INVALID, "leat_launch_host: function is NULL");
    call = malloc(sizeof *call);
    if (!call)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "leat_launch_host: no memory for the call");
    *call = (struct host_call){.function = function, .argument = argument, .device = stream->device};
    list(call);
    driver = stream->device->driver;
    leati_stream_piece_begins(stream);
    if (leati_traced()) {
        leati_span_stream(&stream->traced);
        leati_span_work_begins(&stream->traced);
    }
    status = driver->ops->launch_host(driver, stream->native, run_host_call, call);
    if (leati_traced())
        leati_span_work_ends(&stream->traced);
    leati_stream_piece_ends(stream);
    leati_stream_writes_host(stream);
    leati_timeline_submitted(stream->timeline);
    if (status == LEAT_OK)
        return LEAT_OK;
    unlist(call);
    free(call);
    return leati_fail_in(status, "leat_launch_host on %s", stream->device->name);
}
