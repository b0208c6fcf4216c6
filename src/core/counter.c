/* counter.c - makes streams write counters in memory and wait for them (leat/stream.h). */
#include "core/counter.h"

#include "core/access.h"

leat_status leati_counter_find(leat_stream *stream, const void *ptr, bool write, _Atomic uint32_t **counter)
{
    struct leati_driver *driver = stream->device->driver;
    struct leati_endpoint endpoint;
    void *device_pointer = (void *)(uintptr_t)ptr;

    if (!ptr)
        return leati_fail(LEAT_ERROR_POINTER, "ptr is NULL");
    if ((uintptr_t)ptr % sizeof(uint32_t))
        return leati_fail(LEAT_ERROR_INVALID, "ptr: %p is not a multiple of 4", ptr);
    LEATI_TRY(leati_pointers_find_range(driver, "ptr", ptr, sizeof(uint32_t), write, &endpoint));
    LEATI_TRY(leati_check_reach(stream, "ptr", &endpoint));
    switch (endpoint.location.kind) {
    case LEAT_KIND_PAGEABLE:
        return leati_fail(
            LEAT_ERROR_POINTER,
            "ptr: %p is pageable memory; use memory of leat_memory_alloc(LEAT_KIND_PINNED), or leat_register() it",
            ptr);
    case LEAT_KIND_MANAGED:
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "ptr: %p is managed memory, where drivers keep no counters; use pinned or device memory",
                          ptr);
    case LEAT_KIND_DEVICE:
        if (endpoint.device != stream->device)
            return leati_fail(LEAT_ERROR_INVALID,
                              "ptr: %p is memory of another device than the stream's; use pinned memory", ptr);
        break;
    case LEAT_KIND_PINNED:
        break;
    }
    if (write && endpoint.read_only)
        return leati_fail(LEAT_ERROR_NOT_PERMITTED, "ptr: %p is mapped read-only (leat_virtual_set_access)", ptr);
    if (endpoint.device_pointer)
        device_pointer = endpoint.device_pointer;
    else if (endpoint.location.kind == LEAT_KIND_PINNED && driver->ops->host_device_pointer)
        LEATI_TRY(
            driver->ops->host_device_pointer(driver, stream->device->native, device_pointer, &device_pointer));
    *counter = device_pointer;
    return LEAT_OK;
}

leat_status leati_counter_submit(leat_stream *stream, const struct leati_mem_op *ops, unsigned count)
{
    struct leati_driver *driver = stream->device->driver;
    bool waits = false;
    leat_status status;

    leati_assert(count && count <= 4);
    for (unsigned i = 0; i < count; i++)
        waits = waits || ops[i].wait;
    if (!driver->ops->stream_mem_ops)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "streams of the %s driver cannot write or wait for counters",
                          driver->name);
    /* Before the wait: from now on guard mode must not conclude that this stream is ordered after nothing else. */
    if (waits)
        leati_timeline_unknown_wait(stream->timeline);
    leati_stream_piece_begins(stream);
    if (leati_traced())
        leati_span_stream(&stream->traced);
    status = driver->ops->stream_mem_ops(driver, stream->native, ops, count);
    leati_stream_piece_ends(stream);
    /* Whoever writes the counter may have written pageable memory before. So later copies must not read such
     * memory before the wait is over. */
    if (waits)
        leati_stream_writes_host(stream);
    leati_timeline_submitted(stream->timeline);
    return status;
}

static leat_status submit(leat_stream *stream, const void *ptr, uint32_t value, bool wait)
{
    struct leati_mem_op op = {.value = value, .wait = wait};

    LEATI_TRY(leati_counter_find(stream, ptr, !wait, &op.flag));
    if (leati_traced() && !wait)
        leati_span_value((uintptr_t)ptr);
    return leati_counter_submit(stream, &op, 1);
}

leat_status leat_stream_write_u32(leat_stream *stream, void *ptr, uint32_t value)
{
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_OTHER, "leat_stream_write_u32");
    LEATI_TRY(leati_check_permitted("leat_stream_write_u32"));
    LEATI_TRY(leati_check_stream("leat_stream_write_u32", stream));
    status = submit(stream, ptr, value, false);
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "leat_stream_write_u32 of %u on %s", value, stream->device->name);
}

leat_status leat_stream_wait_u32(leat_stream *stream, const void *ptr, uint32_t value)
{
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_EVENT_WAIT, "leat_stream_wait_u32");
    LEATI_TRY(leati_check_permitted("leat_stream_wait_u32"));
    LEATI_TRY(leati_check_stream("leat_stream_wait_u32", stream));
    status = submit(stream, ptr, value, true);
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "leat_stream_wait_u32 for %u on %s", value, stream->device->name);
}
