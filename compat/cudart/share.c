/* share.c - shares memory, pools and events with other processes: passes the engine's handles in CUDA's
 * structs. */
#include "cudart/cudart.h"

_Static_assert(sizeof(cudaIpcMemHandle_t) == LEATC_SHARE_BYTES &&
                   sizeof(cudaIpcEventHandle_t) == LEATC_SHARE_BYTES &&
                   sizeof(struct cudaMemPoolPtrExportData) == LEATC_SHARE_BYTES,
               "the vendor's structs have room for a handle, and no more");

FORWARD(cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr),
        handle ? leatc_share_memory(devPtr, handle) : LEATC_INVALID_VALUE)
FORWARD(cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags),
        flags == cudaIpcMemLazyEnablePeerAccess ? leatc_share_open(&handle, devPtr) : LEATC_INVALID_VALUE)
FORWARD(cudaError_t cudaIpcCloseMemHandle(void *devPtr), leatc_share_close(devPtr))
FORWARD(cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event),
        handle ? leatc_share_event(event_of(event), handle) : LEATC_INVALID_VALUE)
FORWARD(cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle),
        leatc_share_open_event(&handle, (struct leatc_event **)(void *)event))
FORWARD(cudaError_t cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool,
                                                       enum cudaMemAllocationHandleType handleType,
                                                       unsigned int flags),
        !shareableHandle || flags || handleType != cudaMemHandleTypePosixFileDescriptor
            ? LEATC_INVALID_VALUE
            : leatc_share_pool(pool_of(memPool), shareableHandle))

/* CUDA's parameter is a pointer, but its value is the file descriptor. */
FORWARD(cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool, void *shareableHandle,
                                                         enum cudaMemAllocationHandleType handleType,
                                                         unsigned int flags),
        flags || handleType != cudaMemHandleTypePosixFileDescriptor
            ? LEATC_INVALID_VALUE
            : leatc_share_open_pool((int)(intptr_t)shareableHandle, false, (struct leatc_pool **)(void *)memPool))

FORWARD(cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData, void *ptr),
        !exportData || !ptr ? LEATC_INVALID_VALUE : leatc_share_pointer(ptr, exportData))
FORWARD(cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
                                             struct cudaMemPoolPtrExportData *exportData),
        leatc_share_open_pointer(pool_of(memPool), exportData, ptr))
