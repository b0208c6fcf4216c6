/* pool.c - implements pools, and allocation in stream order. */
#include "hip/layer.h"

static hipMemPool_t handle_of(struct leatc_pool *pool)
{
    return (hipMemPool_t)(void *)pool;
}

hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device)
{
    struct leatc_pool *found = NULL;
    int result = pool ? leatc_pool_default(device, &found) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *pool = handle_of(found);
    return note(result);
}

hipError_t hipDeviceGetMemPool(hipMemPool_t *pool, int device)
{
    struct leatc_pool *found = NULL;
    int result = pool ? leatc_pool_current(device, &found) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *pool = handle_of(found);
    return note(result);
}

FORWARD(hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool),
        pool ? leatc_pool_set_current(device, pool_of(pool)) : LEATC_INVALID_VALUE)

/* Checks the location and type of memory for which a pool is requested. Only device memory has pools. */
static int check_place(const hipMemLocation *place, hipMemAllocationType type)
{
    return place && place->type == hipMemLocationTypeDevice && check_device(place->id) == LEATC_OK &&
                   type == hipMemAllocationTypePinned
               ? LEATC_OK
               : LEATC_INVALID_VALUE;
}

hipError_t hipMemGetDefaultMemPool(hipMemPool_t *pool, hipMemLocation *place, hipMemAllocationType type)
{
    int result = check_place(place, type);

    return result == LEATC_OK ? hipDeviceGetDefaultMemPool(pool, place->id) : note(result);
}

hipError_t hipMemGetMemPool(hipMemPool_t *pool, hipMemLocation *place, hipMemAllocationType type)
{
    int result = check_place(place, type);

    return result == LEATC_OK ? hipDeviceGetMemPool(pool, place->id) : note(result);
}

hipError_t hipMemSetMemPool(hipMemLocation *place, hipMemAllocationType type, hipMemPool_t pool)
{
    int result = check_place(place, type);

    return result == LEATC_OK ? hipDeviceSetMemPool(place->id, pool) : note(result);
}

static int create(hipMemPool_t *pool, const hipMemPoolProps *properties)
{
    struct leatc_pool *made = NULL;

    if (!pool || !properties || properties->allocType != hipMemAllocationTypePinned ||
        properties->location.type != hipMemLocationTypeDevice ||
        check_device(properties->location.id) != LEATC_OK ||
        (properties->handleTypes != hipMemHandleTypeNone &&
         properties->handleTypes != hipMemHandleTypePosixFileDescriptor))
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_pool_create(properties->location.id,
                                properties->handleTypes == hipMemHandleTypePosixFileDescriptor,
                                properties->maxSize, &made));
    *pool = handle_of(made);
    return LEATC_OK;
}

FORWARD(hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *properties),
        create(pool, properties))
FORWARD(hipError_t hipMemPoolDestroy(hipMemPool_t pool), leatc_pool_destroy(pool_of(pool)))
FORWARD(hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t bytesToKeep),
        leatc_pool_trim(pool_of(pool), bytesToKeep))
FORWARD(hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value),
        leatc_pool_set(pool_of(pool), (int)attribute, value))
FORWARD(hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value),
        leatc_pool_get(pool_of(pool), (int)attribute, value))

static int check_access(const hipMemAccessDesc *access)
{
    if (access->location.type != hipMemLocationTypeDevice)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_device(access->location.id));
    return access->flags == hipMemAccessFlagsProtNone || access->flags == hipMemAccessFlagsProtRead ||
                   access->flags == hipMemAccessFlagsProtReadWrite
               ? LEATC_OK
               : LEATC_INVALID_VALUE;
}

/* Sets the access rights of devices. It checks all entries before it sets the first. */
static int set_access(struct leatc_pool *pool, const hipMemAccessDesc *accesses, size_t count)
{
    int devices = 0;

    LEATC_TRY(leatc_pool_check(pool));
    if (!accesses && count)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_device_count(&devices));
    if (count > (size_t)devices)
        return LEATC_INVALID_DEVICE;
    for (size_t i = 0; i < count; i++)
        LEATC_TRY(check_access(&accesses[i]));
    for (size_t i = 0; i < count; i++)
        LEATC_TRY(leatc_pool_set_access(pool, accesses[i].location.id, accesses[i].flags));
    return LEATC_OK;
}

FORWARD(hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc *accesses, size_t count),
        set_access(pool_of(pool), accesses, count))

hipError_t hipMemPoolGetAccess(hipMemAccessFlags *flags, hipMemPool_t pool, hipMemLocation *location)
{
    unsigned access = 0;
    int result = LEATC_INVALID_VALUE;

    if (flags && location && location->type == hipMemLocationTypeDevice && check_device(location->id) == LEATC_OK)
        result = leatc_pool_access(pool_of(pool), location->id, &access);
    if (result == LEATC_OK)
        *flags = (hipMemAccessFlags)access;
    return note(result);
}

/* For a destroyed stream, the allocation calls below return hipErrorInvalidHandle. */
FORWARD(hipError_t hipMallocAsync(void **ptr, size_t bytes, hipStream_t stream),
        leatc_alloc_async(NULL, bytes, stream_of(stream), ptr))

hipError_t hipMallocFromPoolAsync(void **ptr, size_t bytes, hipMemPool_t pool, hipStream_t stream)
{
    int result = leatc_pool_check(pool_of(pool));

    return note(result == LEATC_OK ? leatc_alloc_async(pool_of(pool), bytes, stream_of(stream), ptr) : result);
}

FORWARD(hipError_t hipFreeAsync(void *ptr, hipStream_t stream),
        ptr ? leatc_free_async(ptr, stream_of(stream)) : LEATC_INVALID_VALUE)
