/* share.c - memory, pools and events of other processes. leat shares blocks one by one (leat_pool_export()), and
 * has no handle for what these names share; arguments are checked, so that a program learns its own mistakes
 * first. */
#include "cudart/cudart.h"

/* Is ptr device memory that cudaMalloc() gave? */
static int check_allocation(const void *ptr)
{
    struct leatc_memory memory;

    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    return memory.kind == LEATC_MEMORY_DEVICE ? LEATC_OK : LEATC_INVALID_VALUE;
}

static int not_supported(int result)
{
    return result == LEATC_OK ? LEATC_NOT_SUPPORTED : result;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
    return note(handle ? not_supported(check_allocation(devPtr)) : LEATC_INVALID_VALUE);
}

cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags)
{
    (void)handle;
    return note(devPtr && flags == cudaIpcMemLazyEnablePeerAccess ? LEATC_NOT_SUPPORTED : LEATC_INVALID_VALUE);
}

/* Nothing was opened, so nothing is there to close. */
cudaError_t cudaIpcCloseMemHandle(void *devPtr)
{
    (void)devPtr;
    return note(LEATC_INVALID_VALUE);
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    return note(handle ? not_supported(leatc_event_check(event_of(event))) : LEATC_INVALID_VALUE);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    (void)handle;
    return note(event ? LEATC_NOT_SUPPORTED : LEATC_INVALID_VALUE);
}

cudaError_t cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool,
                                               enum cudaMemAllocationHandleType handleType, unsigned int flags)
{
    if (!shareableHandle || flags || handleType != cudaMemHandleTypePosixFileDescriptor)
        return note(LEATC_INVALID_VALUE);
    return note(not_supported(leatc_pool_check(pool_of(memPool))));
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool, void *shareableHandle,
                                                 enum cudaMemAllocationHandleType handleType, unsigned int flags)
{
    if (!memPool || !shareableHandle || flags || handleType != cudaMemHandleTypePosixFileDescriptor)
        return note(LEATC_INVALID_VALUE);
    return note(LEATC_NOT_SUPPORTED);
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData, void *ptr)
{
    return note(exportData ? not_supported(check_allocation(ptr)) : LEATC_INVALID_VALUE);
}

cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
                                     struct cudaMemPoolPtrExportData *exportData)
{
    if (!ptr || !exportData)
        return note(LEATC_INVALID_VALUE);
    return note(not_supported(leatc_pool_check(pool_of(memPool))));
}
