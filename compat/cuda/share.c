/*
 * share.c - shares memory, pools and events with other processes. virtual.c shares virtual memory, as file
 * descriptors.
 */
#include "cuda/names.h"

FORWARD(CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event),
        handle ? leatc_share_event((struct leatc_event *)event, handle) : LEATC_INVALID_VALUE)
FORWARD(CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle),
        event ? leatc_share_open_event(&handle, (struct leatc_event **)event) : LEATC_INVALID_VALUE)
FORWARD(CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address),
        !handle || !address ? LEATC_INVALID_VALUE : leatc_share_memory(leatcu_pointer(address), handle))

/* Maps the memory of a handle. A process cannot open a handle that it has made itself. */
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    void *ptr;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(address && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    CU_TRY(leatcu_result(leatc_share_open(&handle, &ptr)));
    *address = leatcu_address(ptr);
    return CUDA_SUCCESS;
}

FORWARD(CUresult cuIpcCloseMemHandle(CUdeviceptr address), leatc_share_close(leatcu_pointer(address)))
FORWARD_STARTED(CUresult cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool,
                                                          CUmemAllocationHandleType type,
                                                          unsigned long long flags),
                shareable && !flags && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                    ? leatc_share_pool((struct leatc_pool *)pool, shareable)
                    : LEATC_INVALID_VALUE)
FORWARD_STARTED(CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable,
                                                            CUmemAllocationHandleType type,
                                                            unsigned long long flags),
                pool && !flags && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                    ? leatc_share_open_pool((int)(intptr_t)shareable, false, (struct leatc_pool **)pool)
                    : LEATC_INVALID_VALUE)
FORWARD_STARTED(CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address),
                !data || !address ? LEATC_INVALID_VALUE : leatc_share_pointer(leatcu_pointer(address), data))

CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    void *ptr;

    CU_TRY(leatcu_started());
    CU_CHECK(address);
    CU_TRY(leatcu_result(leatc_share_open_pointer((struct leatc_pool *)pool, data, &ptr)));
    *address = leatcu_address(ptr);
    return CUDA_SUCCESS;
}
