/* memory.c - allocating, freeing and registering. Device memory comes from the driver's own calls. */
#include "core/core.h"

/* Adds what the driver knows: how much there is. */
static leat_status explain_memory(leat_status status, leat_device *device)
{
    uint64_t free_bytes, total_bytes;
    struct leati_sentence sentence;

    if (status != LEAT_ERROR_DEVICE_MEMORY)
        return status;
    leati_error_keep(&sentence);
    if (device->driver->ops->device_memory(device->driver, device->native, &free_bytes, &total_bytes) != LEAT_OK)
        return leati_error_restore(status, &sentence);
    return leati_fail(status, "%s; %llu of %llu bytes of %s are free: free some memory or ask for less",
                      sentence.text, (unsigned long long)free_bytes, (unsigned long long)total_bytes,
                      device->name);
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
    if (status == LEAT_ERROR_UNSUPPORTED) {
        LEATI_TRY(driver->ops->stream_synchronize(driver, stream->native));
        status = driver->ops->mem_free(driver, stream->device->native, ptr);
    }
    return status;
}

static leat_status free_at_once(leat_device *device, leat_kind kind, void *ptr)
{
    const struct leati_driver_ops *ops = device->driver->ops;

    return kind == LEAT_KIND_PINNED ? ops->host_free(device->driver, device->native, ptr)
                                    : ops->mem_free(device->driver, device->native, ptr);
}

/* Enters what was just allocated, or gives it back: on stream, or at once when that is NULL. */
static leat_status enter_fresh(leat_device *device, leat_stream *stream, leat_kind kind, void *fresh, size_t bytes)
{
    leat_status status = enter(device, kind, fresh, bytes, LEATI_ALLOCATED);
    struct leati_sentence sentence;

    if (status == LEAT_OK)
        return LEAT_OK;
    leati_error_keep(&sentence);
    (void)(stream ? free_on_stream(stream, fresh) : free_at_once(device, kind, fresh));
    return leati_error_restore(status, &sentence);
}

leat_status leat_alloc(leat_stream *stream, size_t bytes, void **ptr)
{
    leat_status status;
    void *fresh;

    LEATI_TRY(leati_check_permitted("leat_alloc"));
    LEATI_TRY(leati_check_stream("leat_alloc", stream));
    LEATI_TRY(leati_check_not_null("leat_alloc", "ptr", ptr));
    if (!bytes) {
        *ptr = NULL;
        return LEAT_OK;
    }
    status = alloc_on_stream(stream, bytes, &fresh);
    if (status == LEAT_OK)
        status = enter_fresh(stream->device, stream, LEAT_KIND_DEVICE, fresh, bytes);
    if (status != LEAT_OK)
        return leati_fail_in(explain_memory(status, stream->device), "leat_alloc of %zu bytes on %s", bytes,
                             stream->device->name);
    *ptr = fresh;
    return LEAT_OK;
}

leat_status leat_free(leat_stream *stream, void *ptr)
{
    struct leati_memory memory;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_free"));
    LEATI_TRY(leati_check_stream("leat_free", stream));
    if (!ptr)
        return LEAT_OK;
    LEATI_TRY(leati_pointers_take("leat_free", ptr, LEATI_ALLOCATED, stream->device, &memory));
    status = free_on_stream(stream, ptr);
    if (status == LEAT_OK)
        return LEAT_OK;
    leati_fail_in(status, "leat_free of %p on %s", ptr, stream->device->name);
    leati_pointers_put_back(&memory);
    return status;
}

static leat_status alloc_of_kind(leat_device *device, leat_kind kind, size_t bytes, void **ptr)
{
    const struct leati_driver_ops *ops = device->driver->ops;

    switch (kind) {
    case LEAT_KIND_DEVICE:
        return ops->mem_alloc(device->driver, device->native, bytes, ptr);
    case LEAT_KIND_PINNED:
        return ops->host_alloc(device->driver, device->native, bytes, ptr);
    case LEAT_KIND_MANAGED:
        if (ops->managed_alloc)
            return ops->managed_alloc(device->driver, device->native, bytes, ptr);
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the %s driver has no managed memory", device->driver->name);
    case LEAT_KIND_PAGEABLE:
        break;
    }
    return leati_fail(LEAT_ERROR_INVALID, "kind %d cannot be allocated here; pageable memory comes from malloc()",
                      (int)kind);
}

leat_status leat_memory_alloc(leat_device *device, leat_kind kind, size_t bytes, void **ptr)
{
    leat_status status;
    void *fresh;

    LEATI_TRY(leati_check_permitted("leat_memory_alloc"));
    LEATI_TRY(leati_check_device("leat_memory_alloc", device));
    LEATI_TRY(leati_check_not_null("leat_memory_alloc", "ptr", ptr));
    if (!bytes && (kind == LEAT_KIND_DEVICE || kind == LEAT_KIND_PINNED || kind == LEAT_KIND_MANAGED)) {
        *ptr = NULL;
        return LEAT_OK;
    }
    status = alloc_of_kind(device, kind, bytes, &fresh);
    if (status == LEAT_OK)
        status = enter_fresh(device, NULL, kind, fresh, bytes);
    if (status != LEAT_OK)
        return leati_fail_in(explain_memory(status, device), "leat_memory_alloc of %zu bytes of %s memory on %s",
                             bytes, leat_kind_name(kind), device->name);
    *ptr = fresh;
    return LEAT_OK;
}

leat_status leat_memory_free(void *ptr)
{
    struct leati_memory memory;
    leat_status status;

    if (!ptr)
        return LEAT_OK;
    LEATI_TRY(leati_check_permitted("leat_memory_free"));
    LEATI_TRY(leati_pointers_take("leat_memory_free", ptr, LEATI_ALLOCATED, NULL, &memory));
    status = free_at_once(memory.device, memory.kind, ptr);
    if (status == LEAT_OK)
        return LEAT_OK;
    leati_fail_in(status, "leat_memory_free of %p on %s", ptr, memory.device->name);
    leati_pointers_put_back(&memory);
    return status;
}

leat_status leat_register(leat_device *device, void *ptr, size_t bytes)
{
    const struct leati_driver_ops *ops;
    struct leati_target first;
    leat_status status;

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
    /* One byte at first: a range that goes past the end of what is registered already is no RANGE error here. */
    status = leati_pointers_find_range(NULL, "ptr", ptr, 1, false, &first);
    if (status == LEAT_OK && first.end.kind != LEAT_KIND_PAGEABLE)
        status = leati_fail(first.owned || first.end.kind != LEAT_KIND_PINNED ? LEAT_ERROR_POINTER
                                                                              : LEAT_ERROR_REGISTERED,
                            "%p is %s memory already", ptr, leat_kind_name(first.end.kind));
    if (status == LEAT_OK)
        status = leati_pointers_find_range(NULL, "ptr", ptr, bytes, false, &first);
    /* The table first: it says who else has a part of the range, and undoing it cannot fail. */
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

    if (!ptr)
        return LEAT_OK;
    LEATI_TRY(leati_check_permitted("leat_unregister"));
    LEATI_TRY(leati_pointers_take("leat_unregister", ptr, LEATI_REGISTERED, NULL, &memory));
    status = memory.device->driver->ops->host_unregister(memory.device->driver, memory.device->native, ptr);
    if (status == LEAT_OK)
        return LEAT_OK;
    leati_fail_in(status, "leat_unregister of %p on %s", ptr, memory.device->name);
    leati_pointers_put_back(&memory);
    return status;
}
