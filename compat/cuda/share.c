/*
 * share.c - memory, pools and events for other processes. Virtual memory goes there as file descriptors
 * (virtual.c).
 */
#include "cuda/names.h"

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(handle);
    return leatcu_result(leatc_share_event((struct leatc_event *)event, handle));
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(event);
    return leatcu_result(leatc_share_open_event(&handle, (struct leatc_event **)event));
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(handle && address);
    return leatcu_result(leatc_share_memory(leatcu_pointer(address), handle));
}

/* A process cannot open what it has itself. */
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    void *ptr;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(address && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    CU_TRY(leatcu_result(leatc_share_open(&handle, &ptr)));
    *address = leatcu_address(ptr);
    return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    CU_TRY(leatcu_enter(NULL));
    return leatcu_result(leatc_share_close(leatcu_pointer(address)));
}

CUresult cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool, CUmemAllocationHandleType type,
                                          unsigned long long flags)
{
    CU_TRY(leatcu_started());
    CU_CHECK(shareable && !flags && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    return leatcu_result(leatc_share_pool((struct leatc_pool *)pool, shareable));
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable, CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    CU_TRY(leatcu_started());
    CU_CHECK(pool && !flags && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    return leatcu_result(leatc_share_open_pool((int)(intptr_t)shareable, false, (struct leatc_pool **)pool));
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
    CU_TRY(leatcu_started());
    CU_CHECK(data && address);
    return leatcu_result(leatc_share_pointer(leatcu_pointer(address), data));
}

CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    void *ptr;

    CU_TRY(leatcu_started());
    CU_CHECK(address);
    CU_TRY(leatcu_result(leatc_share_open_pointer((struct leatc_pool *)pool, data, &ptr)));
    *address = leatcu_address(ptr);
    return CUDA_SUCCESS;
}
