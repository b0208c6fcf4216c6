/* pool.c - implements pools, and allocation in stream order. */
#include "cudart/cudart.h"

FORWARD_STREAM(cudaMallocAsync, cudaMallocAsync_ptsz, (void **devPtr, size_t size, cudaStream_t stream),
               leatc_alloc_async(NULL, size, on, devPtr))

static int alloc_from(struct leatc_pool *pool, size_t bytes, struct leatc_stream *stream, void **ptr)
{
    LEATC_TRY(leatc_pool_check(pool));
    return leatc_alloc_async(pool, bytes, stream, ptr);
}

FORWARD_STREAM(cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz,
               (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
               alloc_from(pool_of(memPool), size, on, ptr))

FORWARD_STREAM(cudaFreeAsync, cudaFreeAsync_ptsz, (void *devPtr, cudaStream_t stream),
               leatc_free_async(devPtr, on))
FORWARD(cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device),
        leatc_pool_default(device, (struct leatc_pool **)(void *)memPool))
FORWARD(cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device),
        leatc_pool_current(device, (struct leatc_pool **)(void *)memPool))
FORWARD(cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool),
        leatc_pool_set_current(device, pool_of(memPool)))

/* Checks the location and the type of memory for which a pool is requested. Only device memory has pools. */
static int check_place(const struct cudaMemLocation *location, enum cudaMemAllocationType type)
{
    if (!location || (type != cudaMemAllocationTypePinned && type != cudaMemAllocationTypeManaged))
        return LEATC_INVALID_VALUE;
    if (type == cudaMemAllocationTypePinned && location->type == cudaMemLocationTypeDevice)
        return LEATC_OK;
    return location->type == cudaMemLocationTypeDevice || location->type == cudaMemLocationTypeHost ||
                   location->type == cudaMemLocationTypeHostNuma ||
                   (location->type == cudaMemLocationTypeNone && type == cudaMemAllocationTypeManaged)
               ? LEATC_NOT_SUPPORTED
               : LEATC_INVALID_VALUE;
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                                     enum cudaMemAllocationType type)
{
    int result = memPool ? check_place(location, type) : LEATC_INVALID_VALUE;

    return result == LEATC_OK ? cudaDeviceGetDefaultMemPool(memPool, location->id) : note(result);
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                              enum cudaMemAllocationType type)
{
    int result = memPool ? check_place(location, type) : LEATC_INVALID_VALUE;

    return result == LEATC_OK ? cudaDeviceGetMemPool(memPool, location->id) : note(result);
}

cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type,
                              cudaMemPool_t memPool)
{
    int result = check_place(location, type);

    return result == LEATC_OK ? cudaDeviceSetMemPool(location->id, memPool) : note(result);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    bool exportable;

    if (!memPool || !poolProps || poolProps->allocType != cudaMemAllocationTypePinned)
        return note(LEATC_INVALID_VALUE);
    if (poolProps->location.type != cudaMemLocationTypeDevice)
        return note(poolProps->location.type == cudaMemLocationTypeInvalid ? LEATC_INVALID_VALUE
                                                                           : LEATC_NOT_SUPPORTED);
    if (poolProps->handleTypes & ~(unsigned)cudaMemHandleTypePosixFileDescriptor)
        return note(poolProps->handleTypes & cudaMemHandleTypeFabric ? LEATC_NOT_SUPPORTED : LEATC_INVALID_VALUE);
    if (leatc_device_describe(poolProps->location.id, &info) != LEATC_OK)
        return note(LEATC_INVALID_VALUE);
    exportable = poolProps->handleTypes == cudaMemHandleTypePosixFileDescriptor;
    return note(leatc_pool_create(poolProps->location.id, exportable, poolProps->maxSize,
                                  (struct leatc_pool **)(void *)memPool));
}

FORWARD(cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool), leatc_pool_destroy(pool_of(memPool)))
FORWARD(cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep),
        leatc_pool_trim(pool_of(memPool), minBytesToKeep))
FORWARD(cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
        leatc_pool_set(pool_of(memPool), (int)attr, value))
FORWARD(cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
        leatc_pool_get(pool_of(memPool), (int)attr, value))

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList, size_t count)
{
    int result = leatc_pool_check(pool_of(memPool));

    if (count && !descList)
        return note(LEATC_INVALID_VALUE);
    for (size_t i = 0; i < count && result == LEATC_OK; i++)
        result = descList[i].location.type == cudaMemLocationTypeDevice
                     ? leatc_pool_set_access(pool_of(memPool), descList[i].location.id, descList[i].flags)
                     : LEATC_INVALID_VALUE;
    return note(result);
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
                                 struct cudaMemLocation *location)
{
    unsigned access = 0;
    int result;

    if (!flags || !location || location->type != cudaMemLocationTypeDevice)
        return note(LEATC_INVALID_VALUE);
    result = leatc_pool_access(pool_of(memPool), location->id, &access);
    if (result == LEATC_OK)
        *flags = (enum cudaMemAccessFlags)access;
    return note(result);
}
