/* pool.c - implements allocation in stream order, and memory pools. */
#include "cuda/names.h"

#include <string.h>

static struct leatc_pool *engine_pool(CUmemoryPool pool)
{
    return (struct leatc_pool *)pool;
}

/* ---- allocation in stream order ---- */

static CUresult alloc_async(CUdeviceptr *address, size_t bytes, struct leatc_pool *pool,
                            struct leatc_stream *stream)
{
    void *ptr;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(address && bytes);
    CU_TRY(leatcu_result(leatc_alloc_async(pool, bytes, stream, &ptr)));
    *address = leatcu_address(ptr);
    return CUDA_SUCCESS;
}

// clang-format off
BOTH(cuMemAllocAsync, cuMemAllocAsync_ptsz, (CUdeviceptr *address, size_t bytes, CUstream stream),
     alloc_async(address, bytes, NULL, on))
// clang-format on

static CUresult alloc_from_pool(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, struct leatc_stream *stream)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(pool);
    CU_TRY(leatcu_result(leatc_pool_check(engine_pool(pool))));
    return alloc_async(address, bytes, engine_pool(pool), stream);
}

// clang-format off
BOTH(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz,
     (CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream),
     alloc_from_pool(address, bytes, pool, on))
// clang-format on

static CUresult free_async(CUdeviceptr address, struct leatc_stream *stream)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(address);
    return leatcu_result(leatc_free_async(leatcu_pointer(address), stream));
}

BOTH(cuMemFreeAsync, cuMemFreeAsync_ptsz, (CUdeviceptr address, CUstream stream), free_async(address, on))

/* ---- pools ---- */

static bool is_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    struct leatc_pool *made;

    CU_TRY(leatcu_started());
    CU_CHECK(pool && properties);
    CU_CHECK(properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED && !properties->win32SecurityAttributes &&
             is_zero(properties->reserved, sizeof properties->reserved));
    CU_CHECK(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    if (leatcu_check_device(properties->location.id) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    CU_TRY(leatcu_result(
        leatc_pool_create(properties->location.id, properties->handleTypes != 0, properties->maxSize, &made)));
    *pool = (CUmemoryPool)made;
    return CUDA_SUCCESS;
}

FORWARD_STARTED(CUresult cuMemPoolDestroy(CUmemoryPool pool), leatc_pool_destroy(engine_pool(pool)))

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    CU_TRY(leatcu_started());
    CU_CHECK(pool);
    CU_TRY(leatcu_check_device(device));
    return leatcu_result(leatc_pool_default(device, (struct leatc_pool **)pool));
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    CU_TRY(leatcu_started());
    CU_CHECK(pool);
    CU_TRY(leatcu_check_device(device));
    return leatcu_result(leatc_pool_current(device, (struct leatc_pool **)pool));
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    CU_TRY(leatcu_started());
    CU_TRY(leatcu_check_device(device));
    CU_TRY(leatcu_result(leatc_pool_check(engine_pool(pool))));
    return leatcu_result(leatc_pool_set_current(device, engine_pool(pool)));
}

FORWARD_STARTED(CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes),
                leatc_pool_trim(engine_pool(pool), keep_bytes))
FORWARD_STARTED(CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
                value ? leatc_pool_set(engine_pool(pool), (int)attribute, value) : LEATC_INVALID_VALUE)
FORWARD_STARTED(CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
                value ? leatc_pool_get(engine_pool(pool), (int)attribute, value) : LEATC_INVALID_VALUE)

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    CU_TRY(leatcu_started());
    CU_TRY(leatcu_result(leatc_pool_check(engine_pool(pool))));
    CU_CHECK(access || !count);
    for (size_t i = 0; i < count; i++) {
        CU_CHECK(access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE);
        CU_TRY(leatcu_result(
            leatc_pool_set_access(engine_pool(pool), access[i].location.id, (unsigned)access[i].flags)));
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    unsigned access;

    CU_TRY(leatcu_started());
    CU_CHECK(flags && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE);
    CU_TRY(leatcu_result(leatc_pool_access(engine_pool(pool), location->id, &access)));
    *flags = (CUmemAccess_flags)access;
    return CUDA_SUCCESS;
}

/* ---- pools of a place ---- */

/* Returns CUDA_SUCCESS for pinned memory of a device, which is the only kind that has pools here. NOT_SUPPORTED:
 * other kinds of CUDA 13, of the host and managed. */
static CUresult check_place(const CUmemLocation *location, CUmemAllocationType type)
{
    CU_TRY(leatcu_started());
    CU_CHECK(location && (type == CU_MEM_ALLOCATION_TYPE_PINNED || (unsigned)type == 2 /* managed */));
    switch ((unsigned)location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return CUDA_ERROR_NOT_SUPPORTED;
    case CU_MEM_LOCATION_TYPE_INVALID: /* no place, which is for managed memory */
        return type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    CU_TRY(check_place(location, type));
    return cuDeviceGetDefaultMemPool(pool, location->id);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    CU_TRY(check_place(location, type));
    return cuDeviceGetMemPool(pool, location->id);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    CU_TRY(check_place(location, type));
    return cuDeviceSetMemPool(location->id, pool);
}
