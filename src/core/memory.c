/* memory.c - manages memory outside pools: allocated by the driver's own calls, registered, or imported. */
#include "core/core.h"

/* Appends the free and total memory of the device to the message. */
static leat_status explain_memory(leat_status status, leat_device *device)
{
    uint64_t free_bytes, total_bytes;
    struct leati_message message;

    if (status != LEAT_ERROR_DEVICE_MEMORY)
        return status;
    if (LEATI_QUIETLY(device->driver->ops->device_memory(device->driver, device->native, &free_bytes,
                                                         &total_bytes)) != LEAT_OK)
        return status;
    leati_error_keep(&message);
    return leati_fail(status, "%s; %llu of %llu bytes of %s are free: free some memory or ask for less",
                      message.text, (unsigned long long)free_bytes, (unsigned long long)total_bytes, device->name);
}

/* Enters memory into the table. */
static leat_status enter(leat_device *device, leat_kind kind, void *ptr, size_t bytes, enum leati_origin origin)
{
    struct leati_memory memory = {
        .device = device, .base = (uintptr_t)ptr, .bytes = bytes, .kind = kind, .origin = origin};

    return leati_pointers_add(&memory);
}

static leat_status alloc_on_stream(leat_stream *stream, size_t bytes, void **ptr)
{
    struct leati_driver *driver = stream->device->driver;
    leat_status status = LEAT_ERROR_UNSUPPORTED;

    if (driver->ops->mem_alloc_async)
        status = driver->ops->mem_alloc_async(driver, stream->native, bytes, ptr);
    leati_timeline_submitted(stream->timeline);
    if (status == LEAT_ERROR_UNSUPPORTED)
        status = driver->ops->mem_alloc(driver, stream->device->native, bytes, ptr);
    return status;
}

static leat_status free_on_stream(leat_stream *stream, void *ptr)
{
    struct leati_driver *driver = stream->device->driver;
    leat_status status = LEAT_ERROR_UNSUPPORTED;

    if (driver->ops->mem_free_async)
        status = driver->ops->mem_free_async(driver, stream->native, ptr);
    leati_timeline_submitted(stream->timeline);
    if (status == LEAT_ERROR_UNSUPPORTED) {
        LEATI_TRY(driver->ops->stream_synchronize(driver, stream->native));
        status = driver->ops->mem_free(driver, stream->device->native, ptr);
    }
    return status;
}

/* Records an allocation in the trace. stream NULL: an allocation for the host. */
static void record_alloc(const struct leati_memory *memory, const leat_stream *stream)
{
    if (memory->serial)
        LEATI_RECORD(.op = LEATI_RECORD_ALLOC, .block = memory->serial, .bytes = memory->bytes,
                     .stream = stream ? stream->timeline->serial : 0);
}

static void record_free(const struct leati_memory *memory, const leat_stream *stream)
{
    if (memory->serial)
        LEATI_RECORD(.op = LEATI_RECORD_FREE, .block = memory->serial, .bytes = memory->bytes,
                     .stream = stream ? stream->timeline->serial : 0);
}

/* Puts memory that could not be freed back into the table. The trace already has its free, so the memory is
 * recorded as a new allocation. */
static void put_back(struct leati_memory *memory, const leat_stream *stream)
{
    memory->serial = memory->serial ? leati_record_serial() : 0;
    leati_pointers_put_back(memory);
    record_alloc(memory, stream);
}

/* Enters a new allocation into the table; frees it if that fails. */
static leat_status enter_fresh(leat_stream *stream, void *fresh, size_t bytes)
{
    struct leati_memory memory = {.device = stream->device,
                                  .base = (uintptr_t)fresh,
                                  .bytes = bytes,
                                  .kind = LEAT_KIND_DEVICE,
                                  .origin = LEATI_ALLOCATED,
                                  .serial = leati_recorded() ? leati_record_serial() : 0};
    leat_status status = leati_pointers_add(&memory);

    if (status == LEAT_OK)
        record_alloc(&memory, stream);
    else
        (void)LEATI_QUIETLY(free_on_stream(stream, fresh));
    return status;
}

/* Describes an allocation, a free or a registration to the trace. */
static void span_memory(struct leati_traced_stream *where, leat_kind kind, size_t bytes, const void *ptr)
{
    leati_span_stream(where);
    leati_span_bytes(bytes, ptr);
    leati_span_kinds(LEATI_TRACE_MEMORY_NONE, leati_span_kind(kind));
}

leat_status leat_alloc_driver(leat_stream *stream, size_t bytes, void **ptr)
{
    leat_status status;
    void *fresh;

    LEATI_SPAN(LEATI_TRACE_ALLOC, "leat_alloc_driver");
    LEATI_TRY(leati_check_permitted("leat_alloc_driver"));
    LEATI_TRY(leati_check_stream("leat_alloc_driver", stream));
    LEATI_TRY(leati_check_not_null("leat_alloc_driver", "ptr", ptr));
    if (!bytes) {
        *ptr = NULL;
        return LEAT_OK;
    }
    if (leati_traced()) {
        span_memory(&stream->traced, LEAT_KIND_DEVICE, bytes, NULL);
        leati_span_tag(NULL);
    }
    status = alloc_on_stream(stream, bytes, &fresh);
    if (status == LEAT_OK && leati_traced())
        leati_span_bytes(bytes, fresh);
    if (status == LEAT_OK)
        status = enter_fresh(stream, fresh, bytes);
    if (status != LEAT_OK)
        return leati_fail_in(explain_memory(status, stream->device), "leat_alloc_driver of %zu bytes on %s", bytes,
                             stream->device->name);
    *ptr = fresh;
    return LEAT_OK;
}

leat_status leati_driver_free(leat_stream *stream, void *ptr)
{
    struct leati_memory memory;
    leat_status status;

    LEATI_TRY(leati_pointers_take("leat_free", ptr, LEATI_ALLOCATED, stream->device, &memory));
    record_free(&memory, stream);
    if (leati_traced())
        span_memory(&stream->traced, memory.kind, memory.bytes, ptr);
    status = free_on_stream(stream, ptr);
    if (status == LEAT_OK)
        return LEAT_OK;
    leati_fail_in(status, "leat_free of %p on %s", ptr, stream->device->name);
    put_back(&memory, stream);
    return status;
}

/* ---- memory of another process ---- */

leat_status leati_import_end(const struct leati_memory *memory)
{
    struct leat_device *device = memory->device;
    const struct leati_driver_ops *ops = device->driver->ops;
    leat_status status, first;

    first = ops->vm_unmap(device->driver, device->native, (void *)memory->base, memory->bytes);
    status = ops->vm_unreserve(device->driver, device->native, (void *)memory->base, memory->bytes);
    first = first != LEAT_OK ? first : status;
    status = ops->vm_release(device->driver, device->native, memory->handle);
    return first != LEAT_OK ? first : status;
}

/* Maps an imported handle at new addresses, and enters the addresses into the table. */
static leat_status map_import(struct leati_memory *memory)
{
    struct leat_device *device = memory->device;
    const struct leati_driver_ops *ops = device->driver->ops;
    leat_status status;
    void *place;

    LEATI_TRY(ops->vm_reserve(device->driver, device->native, memory->bytes, &place));
    memory->base = (uintptr_t)place;
    status = ops->vm_map(device->driver, device->native, place, memory->bytes, memory->handle);
    if (status == LEAT_OK) {
        status = ops->vm_set_access(device->driver, device->native, place, memory->bytes);
        if (status == LEAT_OK)
            status = leati_pointers_add(memory);
        if (status == LEAT_OK)
            return LEAT_OK;
        (void)LEATI_QUIETLY(ops->vm_unmap(device->driver, device->native, place, memory->bytes));
    }
    (void)LEATI_QUIETLY(ops->vm_unreserve(device->driver, device->native, place, memory->bytes));
    return status;
}

leat_status leati_import(leat_device *device, int fd, size_t bytes, void **ptr)
{
    const struct leati_driver_ops *ops = device->driver->ops;
    struct leati_memory memory = {
        .device = device, .bytes = bytes, .kind = LEAT_KIND_DEVICE, .origin = LEATI_IMPORTED};
    leat_status status;

    LEATI_TRY(ops->vm_import(device->driver, device->native, fd, bytes, &memory.handle));
    status = map_import(&memory);
    if (status != LEAT_OK) {
        (void)LEATI_QUIETLY(ops->vm_release(device->driver, device->native, memory.handle));
        return status;
    }
    *ptr = (void *)memory.base;
    return LEAT_OK;
}

leat_status leati_driver_memory_free(void *ptr)
{
    struct leati_memory memory;
    leat_status status;

    if (leati_pointers_take("leat_memory_free", ptr, LEATI_IMPORTED, NULL, &memory) == LEAT_OK) {
        status = leati_import_end(&memory);
        return status == LEAT_OK ? status
                                 : leati_fail_in(status, "leat_memory_free of %p on %s: it is gone, but", ptr,
                                                 memory.device->name);
    }
    LEATI_TRY(leati_pointers_take("leat_memory_free", ptr, LEATI_ALLOCATED, NULL, &memory));
    record_free(&memory, NULL);
    if (leati_traced())
        span_memory(&memory.device->traced_calls, memory.kind, memory.bytes, ptr);
    status = memory.device->driver->ops->mem_free(memory.device->driver, memory.device->native, ptr);
    if (status == LEAT_OK)
        return LEAT_OK;
    leati_fail_in(status, "leat_memory_free of %p on %s", ptr, memory.device->name);
    put_back(&memory, NULL);
    return status;
}

leat_status leat_register(leat_device *device, void *ptr, size_t bytes)
{
    const struct leati_driver_ops *ops;
    struct leati_endpoint first;
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_PIN, "leat_register");
    LEATI_TRY(leati_check_permitted("leat_register"));
    LEATI_TRY(leati_check_device("leat_register", device));
    if (!bytes)
        return LEAT_OK;
    LEATI_TRY(leati_check_not_null("leat_register", "ptr", ptr));
    if ((uintptr_t)ptr + (bytes - 1) < (uintptr_t)ptr)
        return leati_fail(LEAT_ERROR_INVALID, "leat_register: %p + %zu goes past the end of the address space",
                          ptr, bytes);
    ops = device->driver->ops;
    if (!ops->host_register)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "leat_register: the %s driver cannot register memory",
                          device->driver->name);
    /* Look up one byte first: a range that exceeds a registered range must fail as already registered, not with
     * RANGE. */
    status = leati_pointers_find_range(NULL, "ptr", ptr, 1, true, &first);
    if (status == LEAT_OK && first.location.kind != LEAT_KIND_PAGEABLE)
        status = leati_fail(first.owned || first.location.kind != LEAT_KIND_PINNED ? LEAT_ERROR_POINTER
                                                                                   : LEAT_ERROR_REGISTERED,
                            "%p is %s memory already", ptr, leat_kind_name(first.location.kind));
    if (status == LEAT_OK)
        status = leati_pointers_find_range(NULL, "ptr", ptr, bytes, true, &first);
    if (leati_traced())
        span_memory(&device->traced_calls, LEAT_KIND_PINNED, bytes, ptr);
    /* Enter the range into the table first, because that detects overlaps, and undoing it cannot fail. */
    if (status == LEAT_OK)
        status = enter(device, LEAT_KIND_PINNED, ptr, bytes, LEATI_REGISTERED);
    if (status == LEAT_OK) {
        status = ops->host_register(device->driver, device->native, ptr, bytes);
        if (status != LEAT_OK) {
            struct leati_memory memory;

            (void)leati_pointers_take("leat_register", ptr, LEATI_REGISTERED, NULL, &memory);
        }
    }
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_register of %p + %zu on %s", ptr, bytes, device->name);
}

leat_status leat_unregister(void *ptr)
{
    struct leati_memory memory;
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_UNPIN, "leat_unregister");
    if (!ptr)
        return LEAT_OK;
    LEATI_TRY(leati_check_permitted("leat_unregister"));
    LEATI_TRY(leati_pointers_take("leat_unregister", ptr, LEATI_REGISTERED, NULL, &memory));
    if (leati_traced())
        span_memory(&memory.device->traced_calls, LEAT_KIND_PINNED, memory.bytes, ptr);
    status = memory.device->driver->ops->host_unregister(memory.device->driver, memory.device->native, ptr);
    if (status == LEAT_OK)
        return LEAT_OK;
    leati_fail_in(status, "leat_unregister of %p on %s", ptr, memory.device->name);
    leati_pointers_put_back(&memory);
    return status;
}
