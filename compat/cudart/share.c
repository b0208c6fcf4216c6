/* share.c - memory, pools and events of other processes: the engine's handles in the vendor's structs. */
#include "cudart/cudart.h"

_Static_assert(sizeof(cudaIpcMemHandle_t) == LEATC_SHARE_BYTES &&
                   sizeof(cudaIpcEventHandle_t) == LEATC_SHARE_BYTES &&
                   sizeof(struct cudaMemPoolPtrExportData) == LEATC_SHARE_BYTES,
               "the vendor's structs have room for a handle, and no more");

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
    return note(handle ? leatc_share_memory(devPtr, handle) : LEATC_INVALID_VALUE);
}

cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags)
{
    return note(flags == cudaIpcMemLazyEnablePeerAccess ? leatc_share_open(&handle, false, devPtr)
                                                        : LEATC_INVALID_VALUE);
}

cudaError_t cudaIpcCloseMemHandle(void *devPtr)
{
    return note(leatc_share_close(devPtr));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    return note(handle ? leatc_share_event(event_of(event), handle) : LEATC_INVALID_VALUE);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    return note(leatc_share_open_event(&handle, (struct leatc_event **)(void *)event));
}

cudaError_t cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool,
                                               enum cudaMemAllocationHandleType handleType, unsigned int flags)
{
    if (!shareableHandle || flags || handleType != cudaMemHandleTypePosixFileDescriptor)
        return note(LEATC_INVALID_VALUE);
    return note(leatc_share_pool(pool_of(memPool), shareableHandle));
}

/* The handle is the descriptor itself, as a pointer. */
cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool, void *shareableHandle,
                                                 enum cudaMemAllocationHandleType handleType, unsigned int flags)
{
    if (flags || handleType != cudaMemHandleTypePosixFileDescriptor)
        return note(LEATC_INVALID_VALUE);
    return note(leatc_share_open_pool((int)(intptr_t)shareableHandle, (struct leatc_pool **)(void *)memPool));
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData, void *ptr)
{
    struct leatc_memory memory;
    int result = leatc_init();

    if (!exportData || !ptr)
        return note(LEATC_INVALID_VALUE);
    if (result == LEATC_OK)
        result = leatc_memory_find(ptr, &memory);
    if (result == LEATC_OK)
        result = memory.pool ? leatc_share_memory(ptr, exportData) : LEATC_INVALID_VALUE;
    return note(result == LEATC_NOT_SUPPORTED ? LEATC_INVALID_VALUE : result);
}

cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
                                     struct cudaMemPoolPtrExportData *exportData)
{
    if (!ptr || !exportData || !leatc_pool_is_imported(pool_of(memPool)))
        return note(LEATC_INVALID_VALUE);
    return note(leatc_share_open(exportData, true, ptr));
}
