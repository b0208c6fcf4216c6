/* share.c - shares memory, pools and events with other processes: passes the engine's handles in HIP's structs. */
#include "hip/layer.h"

_Static_assert(sizeof(hipIpcMemHandle_t) == LEATC_SHARE_BYTES &&
                   sizeof(hipIpcEventHandle_t) == LEATC_SHARE_BYTES &&
                   sizeof(hipMemPoolPtrExportData) == LEATC_SHARE_BYTES,
               "HIP's structs have room for a handle, and no more");

FORWARD(hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr),
        !handle || !ptr ? LEATC_INVALID_VALUE : leatc_share_memory(ptr, handle))
FORWARD(hipError_t hipIpcOpenMemHandle(void **ptr, hipIpcMemHandle_t handle, unsigned int flags),
        !ptr || flags != hipIpcMemLazyEnablePeerAccess ? LEATC_INVALID_VALUE : leatc_share_open(&handle, ptr))
FORWARD(hipError_t hipIpcCloseMemHandle(void *ptr), ptr ? leatc_share_close(ptr) : LEATC_INVALID_VALUE)

static int share_event(hipIpcEventHandle_t *handle, hipEvent_t event)
{
    int result;

    if (!handle || !event)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_event(event));
    result = leatc_share_event(event_of(event), handle);
    /* INVALID_VALUE means that the event was made without hipEventInterprocess. HIP has another result for
     * that. */
    return result == LEATC_INVALID_VALUE ? LEATC_INVALID_CONFIGURATION : result;
}

FORWARD(hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t *handle, hipEvent_t event), share_event(handle, event))

hipError_t hipIpcOpenEventHandle(hipEvent_t *event, hipIpcEventHandle_t handle)
{
    struct leatc_event *opened = NULL;
    int result = event ? leatc_share_open_event(&handle, &opened) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *event = (hipEvent_t)(void *)opened;
    return note(result);
}

hipError_t hipMemPoolExportToShareableHandle(void *handle, hipMemPool_t pool, hipMemAllocationHandleType type,
                                             unsigned int flags)
{
    int result;

    if (!handle || !pool || flags || type != hipMemHandleTypePosixFileDescriptor)
        return note(LEATC_INVALID_VALUE);
    result = leatc_capture_refuse_unsafe();
    return note(result == LEATC_OK ? leatc_share_pool(pool_of(pool), handle) : result);
}

hipError_t hipMemPoolImportFromShareableHandle(hipMemPool_t *pool, void *handle, hipMemAllocationHandleType type,
                                               unsigned int flags)
{
    struct leatc_pool *opened = NULL;
    int result, fd;

    if (!pool || !handle || flags || type != hipMemHandleTypePosixFileDescriptor)
        return note(LEATC_INVALID_VALUE);
    result = leatc_capture_refuse_unsafe();
    if (result == LEATC_OK)
        result = leatc_share_descriptor(handle, &fd);
    if (result == LEATC_OK)
        result = leatc_share_open_pool(fd, true, &opened);
    if (result == LEATC_OK)
        *pool = (hipMemPool_t)(void *)opened;
    return note(result);
}

hipError_t hipMemPoolExportPointer(hipMemPoolPtrExportData *data, void *ptr)
{
    int result = data && ptr ? leatc_capture_refuse_unsafe() : LEATC_INVALID_VALUE;

    return note(result == LEATC_OK ? leatc_share_pointer(ptr, data) : result);
}

hipError_t hipMemPoolImportPointer(void **ptr, hipMemPool_t pool, hipMemPoolPtrExportData *data)
{
    int result = ptr && pool && data ? leatc_capture_refuse_unsafe() : LEATC_INVALID_VALUE;

    return note(result == LEATC_OK ? leatc_share_open_pointer(pool_of(pool), data, ptr) : result);
}
