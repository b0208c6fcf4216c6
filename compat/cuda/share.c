/*
 * share.c - memory and events for other processes.
 *
 * Virtual memory goes to other processes as file descriptors (virtual.c). What the older calls want, handles of 64
 * bytes for allocations that were not made to be shared, is not offered: arguments are checked as documented, and
 * the answer is "not supported".
 */
#include "cuda/names.h"

static CUresult refuse(CUresult checked)
{
    CU_TRY(leatcu_enter(NULL));
    return checked == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : checked;
}

static CUresult valid(bool condition)
{
    return condition ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    CU_CHECK(handle);
    return refuse(leatcu_result(leatc_event_check((struct leatc_event *)event)));
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    (void)handle;
    return refuse(valid(event));
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    struct leatc_memory memory = {.kind = LEATC_MEMORY_PAGEABLE};

    CU_CHECK(handle && address);
    CU_TRY(leatcu_result(leatc_memory_find(leatcu_pointer(address), &memory)));
    return refuse(valid(memory.kind == LEATC_MEMORY_DEVICE));
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    (void)handle;
    return refuse(valid(address && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

/* No address is of such memory. */
CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    (void)address;
    CU_TRY(leatcu_enter(NULL));
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool, CUmemAllocationHandleType type,
                                          unsigned long long flags)
{
    CU_TRY(leatcu_started());
    CU_TRY(leatcu_result(leatc_pool_check((struct leatc_pool *)pool)));
    CU_CHECK(shareable && !flags && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable, CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    (void)shareable;
    CU_TRY(leatcu_started());
    CU_CHECK(pool && !flags && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
    struct leatc_memory memory;

    CU_TRY(leatcu_started());
    CU_CHECK(data && address);
    CU_TRY(leatcu_result(leatc_memory_find(leatcu_pointer(address), &memory)));
    CU_CHECK(memory.pool);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    CU_TRY(leatcu_started());
    CU_CHECK(address && data);
    CU_TRY(leatcu_result(leatc_pool_check((struct leatc_pool *)pool)));
    return CUDA_ERROR_NOT_SUPPORTED;
}
