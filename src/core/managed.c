/*
 * managed.c - prefetches, advises and queries managed memory. Checks the pointers, and splits prefetches into
 * chunks on several streams if an option asks for that.
 */
#include "core/access.h"

#include "base/lock.h"
#include "base/options.h"
#include "base/sized.h"

#include <leat/managed.h>

#include <stdio.h>
#include <string.h>

const char *leat_advice_name(leat_advice advice)
{
    switch (advice) {
    case LEAT_ADVICE_READ_MOSTLY:
        return "read mostly";
    case LEAT_ADVICE_NOT_READ_MOSTLY:
        return "not read mostly";
    case LEAT_ADVICE_PREFERRED:
        return "preferred";
    case LEAT_ADVICE_NOT_PREFERRED:
        return "not preferred";
    case LEAT_ADVICE_ACCESSED_BY:
        return "accessed by";
    case LEAT_ADVICE_NOT_ACCESSED_BY:
        return "not accessed by";
    }
    return "unknown";
}

static const char *name_of(const leat_device *device)
{
    return device ? device->name : "the host";
}

/* ---- looking up the memory ---- */

/* Checks that ptr is managed memory of at least bytes bytes, of a device that leat has opened. */
static leat_status find_managed(const void *ptr, size_t bytes, struct leati_endpoint *endpoint)
{
    LEATI_TRY(leati_pointers_find_unread(NULL, "ptr", ptr, bytes, true, endpoint));
    if (endpoint->location.kind != LEAT_KIND_MANAGED)
        return leati_fail(
            LEAT_ERROR_POINTER,
            "ptr: %p is %s memory, and only managed memory moves; allocate it with LEAT_KIND_MANAGED", ptr,
            leat_kind_name(endpoint->location.kind));
    if (!endpoint->device)
        return leati_fail(LEAT_ERROR_POINTER, "ptr: %p is managed memory of a device that leat has not opened",
                          ptr);
    return LEAT_OK;
}

/* Like find_managed(), for queries: if *bytes is 0, sets it to the size of the rest of the allocation. */
static leat_status find_rest(const void *ptr, size_t *bytes, struct leati_endpoint *endpoint)
{
    LEATI_TRY(find_managed(ptr, *bytes ? *bytes : 1, endpoint));
    if (!*bytes && !endpoint->bytes)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "the driver does not say how large the allocation of %p is; say how many bytes are meant", ptr);
    if (!*bytes)
        *bytes = endpoint->bytes - ((uintptr_t)ptr - endpoint->base);
    return LEAT_OK;
}

/* Checks that memory of driver can be placed at place (NULL: the host). */
static leat_status check_place(const char *name, const leat_device *place, const struct leati_driver *driver)
{
    if (!place || place->driver == driver)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_UNSUPPORTED, "%s is %s, which memory of the %s driver cannot go to", name,
                      place->name, driver->name);
}

static leat_status refuse(const struct leati_driver *driver, const char *what)
{
    return leati_fail(LEAT_ERROR_UNSUPPORTED, "the %s driver has no %s", driver->name, what);
}

/* ---- prefetch ---- */

/* How to split a prefetch. */
struct spread {
    uint64_t streams; /* number of streams; 0: do not split */
    uint64_t chunk_bytes;
};

static leat_status read_spread(const leat_device *to, struct spread *spread)
{
    LEATI_TRY(leati_option_number(to ? LEATI_OPTION_PREFETCH_STREAMS_IN : LEATI_OPTION_PREFETCH_STREAMS_OUT, 0,
                                  &spread->streams));
    leati_assert(spread->streams <= LEATI_PREFETCH_STREAMS_MAX);
    return leati_option_number(LEATI_OPTION_PREFETCH_CHUNK, 16 << 20, &spread->chunk_bytes);
}

leat_status leati_prefetch_close(struct leat_device *device)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    leat_status first = LEAT_OK;

    while (device->prefetch_count) {
        leat_status status =
            ops->stream_destroy(device->driver, device->prefetch_streams[--device->prefetch_count]);

        first = first != LEAT_OK ? first : status;
    }
    return first;
}

/* Creates the missing prefetch streams, up to wanted ones. Call under prefetch_lock. */
static leat_status need_streams(struct leat_device *device, unsigned wanted)
{
    while (device->prefetch_count < wanted) {
        LEATI_TRY(device->driver->ops->stream_create(device->driver, device->native,
                                                     &device->prefetch_streams[device->prefetch_count]));
        device->prefetch_count++;
    }
    return LEAT_OK;
}

/* Returns the size of the chunk that begins at start. Chunks end at multiples of chunk_bytes, so that no page
 * is in two chunks. */
static size_t chunk_at(uintptr_t start, uintptr_t end, size_t chunk_bytes)
{
    size_t bytes = chunk_bytes - start % chunk_bytes;

    return bytes < end - start ? bytes : end - start;
}

static leat_status give_chunks(struct leat_device *device, char *ptr, size_t bytes, void *to,
                               const struct spread *spread)
{
    uintptr_t at = (uintptr_t)ptr, end = at + bytes;
    unsigned next = 0;

    while (at < end) {
        size_t length = chunk_at(at, end, spread->chunk_bytes);

        LEATI_TRY(device->driver->ops->managed_prefetch(
            device->driver, device->prefetch_streams[next++ % spread->streams], (void *)at, length, to));
        at += length;
    }
    return LEAT_OK;
}

/* Submits the chunks to the prefetch streams, which start after the work of stream, and makes stream wait for all
 * of them. One event is enough, because recording it again does not change earlier waits. */
static leat_status fork_and_join(leat_stream *stream, void *event, char *ptr, size_t bytes, void *to,
                                 const struct spread *spread)
{
    struct leat_device *device = stream->device;
    struct leati_driver *driver = device->driver;
    const struct leati_driver_ops *ops = driver->ops;
    leat_status status;

    LEATI_TRY(ops->event_record(driver, event, stream->native));
    for (unsigned i = 0; i < spread->streams; i++)
        LEATI_TRY(ops->stream_wait(driver, device->prefetch_streams[i], event));
    status = give_chunks(device, ptr, bytes, to, spread);
    /* Wait for the submitted chunks even if a later one failed. */
    for (unsigned i = 0; i < spread->streams; i++) {
        leat_status joined = ops->event_record(driver, event, device->prefetch_streams[i]);

        if (joined == LEAT_OK)
            joined = ops->stream_wait(driver, stream->native, event);
        status = status == LEAT_OK ? joined : status;
    }
    return status;
}

static leat_status prefetch_spread(leat_stream *stream, char *ptr, size_t bytes, void *to,
                                   const struct spread *spread)
{
    struct leat_device *device = stream->device;
    const struct leati_driver_ops *ops = device->driver->ops;
    leat_status status;
    void *event;

    leati_lock(&device->prefetch_lock);
    status = need_streams(device, (unsigned)spread->streams);
    if (status == LEAT_OK)
        status = ops->event_create(device->driver, device->native, &event);
    if (status == LEAT_OK) {
        status = fork_and_join(stream, event, ptr, bytes, to, spread);
        (void)LEATI_QUIETLY(ops->event_destroy(device->driver, event));
    }
    leati_unlock(&device->prefetch_lock);
    return status;
}

static leat_status prefetch(leat_stream *stream, void *ptr, size_t bytes, leat_device *to)
{
    struct leati_driver *driver = stream->device->driver;
    struct leati_endpoint endpoint;
    struct spread spread;
    leat_status status;

    LEATI_TRY(find_managed(ptr, bytes, &endpoint));
    LEATI_TRY(leati_check_reach(stream, "ptr", &endpoint));
    LEATI_TRY(check_place("to", to, driver));
    if (!driver->ops->managed_prefetch)
        return refuse(driver, "prefetch of managed memory");
    LEATI_TRY(read_spread(to, &spread));
    if (leati_traced()) {
        leati_span_stream(&stream->traced);
        leati_span_bytes(bytes, ptr);
        leati_span_kinds(LEATI_TRACE_MEMORY_NONE, to ? LEATI_TRACE_MEMORY_DEVICE : LEATI_TRACE_MEMORY_PAGEABLE);
        leati_span_work_begins(&stream->traced);
    }
    if (spread.streams && bytes > spread.chunk_bytes)
        status = prefetch_spread(stream, ptr, bytes, to ? to->native : NULL, &spread);
    else
        status = driver->ops->managed_prefetch(driver, stream->native, ptr, bytes, to ? to->native : NULL);
    if (leati_traced())
        leati_span_work_ends(&stream->traced);
    leati_timeline_submitted(stream->timeline);
    return status;
}

leat_status leat_managed_prefetch(leat_stream *stream, void *ptr, size_t bytes, leat_device *to)
{
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_PAGE_MOVE, "leat_managed_prefetch");
    LEATI_TRY(leati_check_permitted("leat_managed_prefetch"));
    LEATI_TRY(leati_check_stream("leat_managed_prefetch", stream));
    if (to)
        LEATI_TRY(leati_check_device("leat_managed_prefetch", to));
    if (!bytes)
        return LEAT_OK;
    status = prefetch(stream, ptr, bytes, to);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_managed_prefetch of %zu bytes to %s on %s", bytes,
                                             name_of(to), stream->device->name);
}

/* ---- advice ---- */

static bool has_place(leat_advice advice)
{
    return advice == LEAT_ADVICE_PREFERRED || advice == LEAT_ADVICE_ACCESSED_BY ||
           advice == LEAT_ADVICE_NOT_ACCESSED_BY;
}

static leat_status advise(void *ptr, size_t bytes, leat_advice advice, leat_device *where)
{
    struct leati_driver *driver;
    struct leati_endpoint endpoint;

    LEATI_TRY(find_managed(ptr, bytes, &endpoint));
    driver = endpoint.driver;
    LEATI_TRY(check_place("where", where, driver));
    if (!driver->ops->managed_advise)
        return refuse(driver, "advice about managed memory");
    return driver->ops->managed_advise(driver, endpoint.device->native, ptr, bytes, advice,
                                       where ? where->native : NULL);
}

leat_status leat_managed_advise(void *ptr, size_t bytes, leat_advice advice, leat_device *where)
{
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_managed_advise"));
    if (advice < LEAT_ADVICE_READ_MOSTLY || advice > LEAT_ADVICE_NOT_ACCESSED_BY)
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_managed_advise: advice is %d; it is one of leat_advice, 1 to 6", (int)advice);
    if (!has_place(advice))
        where = LEAT_HOST;
    if (where)
        LEATI_TRY(leati_check_device("leat_managed_advise", where));
    if (!bytes)
        return LEAT_OK;
    status = advise(ptr, bytes, advice, where);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_managed_advise ('%s', %s) of %zu bytes",
                                             leat_advice_name(advice), name_of(where), bytes);
}

/* ---- attaching ---- */

static leat_status attach_whole(leat_stream *stream, void *ptr, leat_attach attach)
{
    struct leati_driver *driver = stream->device->driver;
    struct leati_endpoint endpoint;
    leat_status status;

    LEATI_TRY(find_managed(ptr, 1, &endpoint));
    LEATI_TRY(leati_check_reach(stream, "ptr", &endpoint));
    if (endpoint.block)
        return leati_fail(
            LEAT_ERROR_UNSUPPORTED,
            "ptr: %p is a block of a pool, which is a part of what the driver allocated, and drivers attach only all of that; allocate it by the driver's own call",
            ptr);
    if (endpoint.base && endpoint.base != (uintptr_t)ptr)
        return leati_fail(LEAT_ERROR_POINTER, "ptr: %p is %zu bytes inside the allocation at %p; give its start",
                          ptr, (size_t)((uintptr_t)ptr - endpoint.base), (void *)endpoint.base);
    if (!driver->ops->managed_attach)
        return refuse(driver, "attaching of managed memory");
    status = driver->ops->managed_attach(driver, stream->native, ptr, endpoint.bytes, attach);
    leati_timeline_submitted(stream->timeline);
    return status;
}

leat_status leat_managed_attach(leat_stream *stream, void *ptr, leat_attach attach)
{
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_managed_attach"));
    LEATI_TRY(leati_check_stream("leat_managed_attach", stream));
    if (attach != LEAT_ATTACH_ALL && attach != LEAT_ATTACH_HOST && attach != LEAT_ATTACH_STREAM)
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_managed_attach: attach is %d; it is one of leat_attach, 1, 2 or 4", (int)attach);
    status = attach_whole(stream, ptr, attach);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_managed_attach on %s", stream->device->name);
}

/* ---- queries ---- */

leat_status leat_managed_get_info(const void *ptr, size_t bytes, leat_managed_info *info)
{
    struct leati_endpoint endpoint;
    leat_managed_info filled;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_managed_get_info"));
    LEATI_TRY(LEATI_SIZED_CHECK("leat_managed_get_info", "info", leat_managed_info, info));
    status = find_rest(ptr, &bytes, &endpoint);
    if (status == LEAT_OK && !endpoint.driver->ops->managed_query)
        status = refuse(endpoint.driver, "answer about managed memory");
    memset(&filled, 0, sizeof filled);
    if (status == LEAT_OK)
        status =
            endpoint.driver->ops->managed_query(endpoint.driver, endpoint.device->native, ptr, bytes, &filled);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_managed_get_info");
    LEATI_SIZED_WRITE(info, &filled);
    return LEAT_OK;
}

static leat_status refuse_record(const struct leati_driver *driver)
{
    return leati_fail(
        LEAT_ERROR_UNSUPPORTED,
        "the %s driver keeps no record of what moves; run the program on cpu:0, or under the vendor's profiler",
        driver->name);
}

leat_status leat_managed_record(leat_device *device, int on)
{
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_managed_record"));
    LEATI_TRY(leati_check_device("leat_managed_record", device));
    status = device->driver->ops->managed_record
                 ? device->driver->ops->managed_record(device->driver, device->native, on != 0)
                 : refuse_record(device->driver);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_managed_record on %s", device->name);
}

/* Returns the recorded counts of a range, or, if ptr is NULL, of all memory. */
static leat_status count_range(leat_device *device, const void *ptr, size_t bytes, leat_managed_stats *counts)
{
    struct leati_driver *driver = device->driver;
    struct leati_endpoint endpoint;

    if (!driver->ops->managed_count)
        return refuse_record(driver);
    if (ptr) {
        LEATI_TRY(find_rest(ptr, &bytes, &endpoint));
        if (endpoint.driver != driver)
            return leati_fail(LEAT_ERROR_UNSUPPORTED, "ptr: %p is memory of the %s driver", ptr,
                              endpoint.driver->name);
    }
    return driver->ops->managed_count(driver, device->native, ptr, bytes, counts);
}

leat_status leat_managed_get_stats(leat_device *device, const void *ptr, size_t bytes, leat_managed_stats *counts)
{
    leat_managed_stats filled;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_managed_get_stats"));
    LEATI_TRY(leati_check_device("leat_managed_get_stats", device));
    LEATI_TRY(LEATI_SIZED_CHECK("leat_managed_get_stats", "counts", leat_managed_stats, counts));
    memset(&filled, 0, sizeof filled);
    status = count_range(device, ptr, bytes, &filled);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_managed_get_stats on %s", device->name);
    LEATI_SIZED_WRITE(counts, &filled);
    return LEAT_OK;
}

leat_status leat_managed_history(leat_device *device, leat_managed_move *moves, size_t *count)
{
    leat_status status;
    size_t room;

    LEATI_TRY(leati_check_permitted("leat_managed_history"));
    LEATI_TRY(leati_check_device("leat_managed_history", device));
    LEATI_TRY(leati_check_not_null("leat_managed_history", "moves", moves));
    LEATI_TRY(leati_check_not_null("leat_managed_history", "count", count));
    room = *count;
    status = device->driver->ops->managed_history
                 ? device->driver->ops->managed_history(device->driver, device->native, moves, &room)
                 : refuse_record(device->driver);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_managed_history on %s", device->name);
    *count = room;
    return LEAT_OK;
}
