/*
 * pool_queries.c - answers the program's questions about memory, for --pool: as the driver does for memory of its
 * default pool where the memory is a block of leat's pool, and with what leat keeps counted as free.
 */
#include "pool.h"
#include "wrappers.h"

#include <pthread.h>
#include <string.h>

enum {
    ATTRIBUTE_CONTEXT = 1,
    ATTRIBUTE_BUFFER_ID = 7,
    ATTRIBUTE_LEGACY_IPC = 10,
    ATTRIBUTE_RANGE_START = 11,
    ATTRIBUTE_RANGE_SIZE = 12,
    ATTRIBUTE_POOL = 17,

    POOL_RESERVED = 5,
    POOL_RESERVED_HIGH = 6,
    POOL_USED = 7,
    POOL_USED_HIGH = 8
};

/* Buffer ids of leat's pool. The driver counts from 1. */
#define ID_BASE (UINT64_C(1) << 62)

#define FIND_REAL(name, typed)                                                                                    \
    void *real_ = dropin_real(DROPIN_##name);                                                                     \
                                                                                                                  \
    if (!real_)                                                                                                   \
        return CU_NOT_FOUND;                                                                                      \
    memcpy(&(typed), &real_, sizeof real_)

static bool is_served(void)
{
    return !dropin_inside && dropin_serves_pool() && dropin_driver.pool_complete;
}

/* ---- free memory ---- */

cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    cu_result (*typed)(size_t *, size_t *), code;
    const struct engine *made_by;
    size_t idle_bytes;
    cu_device device;

    FIND_REAL(cuMemGetInfo_v2, typed);
    code = typed(free_bytes, total_bytes);
    if (code != CU_SUCCESS || !is_served() || !free_bytes || dropin_is_forked() ||
        dropin_driver.context_device(&device) != CU_SUCCESS || device < 0 || device >= DROPIN_DEVICES_MOST)
        return code;
    idle_bytes = dropin_block_kept_bytes(device);
    made_by = dropin_loaded_engine();
    if (made_by) {
        struct engine_figures figures;

        dropin_pool_enter();
        figures = made_by->pool_figures(device);
        dropin_pool_leave();
        if (figures.reserved_bytes > figures.used_bytes)
            idle_bytes += figures.reserved_bytes - figures.used_bytes;
    }
    *free_bytes += idle_bytes;
    if (total_bytes && *free_bytes > *total_bytes)
        *free_bytes = *total_bytes;
    return code;
}

/* ---- pointers ---- */

cu_result cuMemGetAddressRange_v2(cu_address *base, size_t *bytes, cu_address ptr)
{
    cu_result (*typed)(cu_address *, size_t *, cu_address), code;
    struct dropin_block block;

    FIND_REAL(cuMemGetAddressRange_v2, typed);
    code = typed(base, bytes, ptr);
    if (code == CU_SUCCESS && is_served() && dropin_pool_find(ptr, &block)) {
        if (base)
            *base = block.ptr;
        if (bytes)
            *bytes = block.shape.bytes;
    }
    return code;
}

/* Writes what the driver says of an allocation of its default pool, where that differs from what it knows of
 * leat's memory. Returns false for other attributes. */
static bool write_attribute(int attribute, const struct dropin_block *block, void *value)
{
    switch (attribute) {
    case ATTRIBUTE_CONTEXT:
        *(cu_context *)value = NULL;
        return true;
    case ATTRIBUTE_BUFFER_ID:
        *(uint64_t *)value = ID_BASE + block->id;
        return true;
    case ATTRIBUTE_LEGACY_IPC:
        /* Drivers write one byte, or four; the driver has written all of them. */
        *(unsigned char *)value = 0;
        return true;
    case ATTRIBUTE_RANGE_START:
        *(cu_address *)value = block->ptr;
        return true;
    case ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = block->shape.bytes;
        return true;
    case ATTRIBUTE_POOL:
        return dropin_driver.device_default_pool(value, block->device) == CU_SUCCESS;
    default:
        return false;
    }
}

cu_result cuPointerGetAttribute(void *value, int attribute, cu_address ptr)
{
    cu_result (*typed)(void *, int, cu_address), code;
    struct dropin_block block;

    FIND_REAL(cuPointerGetAttribute, typed);
    code = typed(value, attribute, ptr);
    if (code == CU_SUCCESS && is_served() && dropin_pool_find(ptr, &block))
        (void)write_attribute(attribute, &block, value);
    return code;
}

cu_result cuPointerGetAttributes(unsigned count, int *attributes, void **values, cu_address ptr)
{
    cu_result (*typed)(unsigned, int *, void **, cu_address), code;
    struct dropin_block block;

    FIND_REAL(cuPointerGetAttributes, typed);
    code = typed(count, attributes, values, ptr);
    if (code == CU_SUCCESS && is_served() && dropin_pool_find(ptr, &block))
        for (unsigned i = 0; i < count; i++)
            (void)write_attribute(attributes[i], &block, values[i]);
    return code;
}

/* ---- calls after which memory must go back to the driver when it is freed ---- */

/* Notes that the allocation that contains ptr must not be kept. */
static void share(cu_address ptr)
{
    void *real = dropin_real(DROPIN_cuMemGetAddressRange_v2);
    cu_result (*typed)(cu_address *, size_t *, cu_address);
    cu_address base = ptr;

    memcpy(&typed, &real, sizeof real);
    if (is_served() && (!real || typed(&base, NULL, ptr) == CU_SUCCESS))
        dropin_block_share(base);
}

cu_result cuPointerSetAttribute(const void *value, int attribute, cu_address ptr)
{
    cu_result (*typed)(const void *, int, cu_address);

    FIND_REAL(cuPointerSetAttribute, typed);
    share(ptr);
    return typed(value, attribute, ptr);
}

cu_result cuMemGetHandleForAddressRange(void *handle, cu_address ptr, size_t bytes, int type, uint64_t flags)
{
    cu_result (*typed)(void *, cu_address, size_t, int, uint64_t);

    FIND_REAL(cuMemGetHandleForAddressRange, typed);
    share(ptr);
    return typed(handle, ptr, bytes, type, flags);
}

cu_result cuIpcGetMemHandle(void *handle, cu_address ptr)
{
    cu_result (*typed)(void *, cu_address);
    struct dropin_block block;

    FIND_REAL(cuIpcGetMemHandle, typed);
    /* The driver makes no such handle of memory of its pools. */
    if (is_served() && dropin_pool_find(ptr, &block))
        return CU_INVALID_VALUE;
    share(ptr);
    return typed(handle, ptr);
}

/* ---- the default pool ---- */

/* The peaks that the pool had when the program reset the driver's. */
static pthread_mutex_t peaks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct engine_figures at_reset[DROPIN_DEVICES_MOST];

/* Returns true if the pool is the default one of the current device and leat's holds memory in its place. */
static bool is_shadowed(cu_pool pool, cu_device *device, struct engine_figures *figures)
{
    const struct engine *made_by = is_served() && !dropin_is_forked() ? dropin_loaded_engine() : NULL;

    if (!made_by || !dropin_is_default_pool(pool, device) || *device < 0 || *device >= DROPIN_DEVICES_MOST)
        return false;
    dropin_pool_enter();
    *figures = made_by->pool_figures(*device);
    dropin_pool_leave();
    return true;
}

/* Returns the peak since a reset, as far as leat's pool knows it: once it is higher than the peak before the reset.
 * Until then, returns what there is now. */
static uint64_t peak_since(uint64_t peak, uint64_t before, uint64_t now)
{
    return peak > before ? peak : now;
}

cu_result cuMemPoolGetAttribute(cu_pool pool, int attribute, void *value)
{
    cu_result (*typed)(cu_pool, int, void *), code;
    struct engine_figures figures, before;
    uint64_t *sum = value;
    cu_device device;

    FIND_REAL(cuMemPoolGetAttribute, typed);
    code = typed(pool, attribute, value);
    if (code != CU_SUCCESS || attribute < POOL_RESERVED || attribute > POOL_USED_HIGH ||
        !is_shadowed(pool, &device, &figures))
        return code;
    pthread_mutex_lock(&peaks_lock);
    before = at_reset[device];
    pthread_mutex_unlock(&peaks_lock);
    if (attribute == POOL_RESERVED)
        *sum += figures.reserved_bytes;
    else if (attribute == POOL_RESERVED_HIGH)
        *sum += peak_since(figures.reserved_peak_bytes, before.reserved_peak_bytes, figures.reserved_bytes);
    else if (attribute == POOL_USED)
        *sum += figures.used_bytes;
    else
        *sum += peak_since(figures.used_peak_bytes, before.used_peak_bytes, figures.used_bytes);
    return code;
}

cu_result cuMemPoolSetAttribute(cu_pool pool, int attribute, void *value)
{
    cu_result (*typed)(cu_pool, int, void *), code;
    struct engine_figures figures;
    cu_device device;

    FIND_REAL(cuMemPoolSetAttribute, typed);
    code = typed(pool, attribute, value);
    if (code == CU_SUCCESS && (attribute == POOL_RESERVED_HIGH || attribute == POOL_USED_HIGH) &&
        is_shadowed(pool, &device, &figures)) {
        pthread_mutex_lock(&peaks_lock);
        if (attribute == POOL_RESERVED_HIGH)
            at_reset[device].reserved_peak_bytes = figures.reserved_peak_bytes;
        else
            at_reset[device].used_peak_bytes = figures.used_peak_bytes;
        pthread_mutex_unlock(&peaks_lock);
    }
    return code;
}

cu_result cuMemPoolTrimTo(cu_pool pool, size_t keep_bytes)
{
    cu_result (*typed)(cu_pool, size_t), code;
    int mode = CU_CAPTURE_MODE_RELAXED;
    struct engine_figures figures;
    cu_device device;

    FIND_REAL(cuMemPoolTrimTo, typed);
    code = typed(pool, keep_bytes);
    if (code != CU_SUCCESS || !is_shadowed(pool, &device, &figures) ||
        dropin_driver.capture_mode(&mode) != CU_SUCCESS)
        return code;
    dropin_pool_enter();
    dropin_inside++;
    if (!dropin_is_any_capturing())
        (void)dropin_loaded_engine()->pool_trim(device, keep_bytes);
    dropin_inside--;
    dropin_pool_leave();
    (void)dropin_driver.capture_mode(&mode);
    return code;
}
