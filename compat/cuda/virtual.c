/* virtual.c - implements virtual memory, with the calls of leat/virtual.h. */
#include "cuda/names.h"

#include <sys/stat.h>
#include <unistd.h>

static leat_physical *physical_of(CUmemGenericAllocationHandle handle)
{
    return (leat_physical *)(uintptr_t)handle;
}

/* Converts a status of leat. For an invalid handle or busy memory, CUDA's virtual memory calls return
 * INVALID_VALUE. */
static CUresult status_result(leat_status status)
{
    switch (status) {
    case LEAT_ERROR_HANDLE:
    case LEAT_ERROR_BUSY:
        return CUDA_ERROR_INVALID_VALUE;
    default:
        return leatcu_result(leatc_result_of(status));
    }
}

/* Opens and returns the current device, for calls that do not name a device. Any device is suitable, because all
 * devices of a driver have the same granularity. */
static CUresult any_device(leat_device **device)
{
    int ordinal;

    CU_TRY(leatcu_started());
    CU_TRY(leatcu_result(leatc_device_get(&ordinal)));
    return leatcu_result(leatc_device_open(ordinal, device));
}

/* ---- reservations ---- */

/* Reserves addresses. wanted is a hint, which leat ignores. */
CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags)
{
    leat_device *device;
    void *ptr;

    (void)wanted;
    CU_TRY(leatcu_started());
    CU_CHECK(address && bytes && !flags);
    CU_TRY(any_device(&device));
    CU_TRY(status_result(leat_virtual_reserve(device, bytes, alignment, &ptr)));
    *address = leatcu_address(ptr);
    return CUDA_SUCCESS;
}

/* Frees a whole reservation. leat knows its size and cannot free a part of it. */
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    size_t reserved_bytes;

    CU_TRY(leatcu_started());
    CU_CHECK(address && bytes);
    CU_TRY(status_result(leat_virtual_get_reservation(leatcu_pointer(address), NULL, &reserved_bytes)));
    CU_CHECK(bytes == reserved_bytes);
    return status_result(leat_virtual_unreserve(leatcu_pointer(address)));
}

/* ---- physical memory ---- */

static CUresult check_properties(const CUmemAllocationProp *properties)
{
    CU_CHECK(properties && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED && !properties->win32HandleMetaData);
    CU_CHECK(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    if (leatcu_check_device(properties->location.id) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    return properties->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
               ? CUDA_ERROR_NOT_SUPPORTED
               : CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option)
{
    leat_device *device;

    CU_TRY(leatcu_started());
    CU_CHECK(bytes);
    CU_CHECK(option == CU_MEM_ALLOC_GRANULARITY_MINIMUM || option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    CU_TRY(check_properties(properties));
    CU_TRY(leatcu_result(leatc_device_open(properties->location.id, &device)));
    return status_result(leat_virtual_granularity(device, bytes));
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long flags)
{
    leat_physical *made;
    leat_device *device;

    CU_TRY(leatcu_started());
    CU_CHECK(handle && bytes && !flags);
    CU_TRY(check_properties(properties));
    CU_TRY(leatcu_result(leatc_device_open(properties->location.id, &device)));
    CU_TRY(status_result(leat_physical_create(
        device, bytes, properties->requestedHandleTypes ? LEAT_PHYSICAL_EXPORTABLE : 0, &made)));
    *handle = (uintptr_t)made;
    return CUDA_SUCCESS;
}

/* Checks that a handle is live, and returns the device of its memory in *info. */
static CUresult check_handle(CUmemGenericAllocationHandle handle, leat_physical_info *info)
{
    return leat_physical_get_info(physical_of(handle), info) == LEAT_OK ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    leat_physical_info info = LEAT_PHYSICAL_INFO_INIT;

    CU_TRY(leatcu_started());
    CU_TRY(check_handle(handle, &info));
    return status_result(leat_physical_release(physical_of(handle)));
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                CUmemGenericAllocationHandle handle)
{
    leat_physical_info info = LEAT_PHYSICAL_INFO_INIT;

    CU_TRY(leatcu_started());
    CU_CHECK(properties);
    CU_TRY(check_handle(handle, &info));
    *properties = (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes =
            info.exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = leatc_device_ordinal(info.device)}};
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    leat_physical *found;

    CU_TRY(leatcu_started());
    CU_CHECK(handle && address);
    CU_TRY(status_result(leat_physical_retain(address, &found)));
    *handle = (uintptr_t)found;
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    leat_physical_info info = LEAT_PHYSICAL_INFO_INIT;

    CU_TRY(leatcu_started());
    CU_CHECK(shareable && !flags && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CU_TRY(check_handle(handle, &info));
    return status_result(leat_physical_export(physical_of(handle), shareable));
}

/* Imports physical memory. Its size is that of the file, which is right for memory that CPU devices export. A
 * descriptor from another driver has no file size, so it is not supported. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        CUmemAllocationHandleType type)
{
    int fd = (int)(intptr_t)shareable;
    leat_physical *imported;
    leat_device *device;
    struct stat file;

    CU_TRY(leatcu_started());
    CU_CHECK(handle && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CU_TRY(any_device(&device));
    CU_CHECK(fd >= 0 && !fstat(fd, &file) && S_ISREG(file.st_mode) && file.st_size >= 0);
    if (!file.st_size)
        return CUDA_ERROR_NOT_SUPPORTED;
    CU_TRY(status_result(leat_physical_import(device, fd, (size_t)file.st_size, &imported)));
    *handle = (uintptr_t)imported;
    return CUDA_SUCCESS;
}

/* ---- mappings ---- */

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    struct leatc_memory memory = {
        .base = leatcu_pointer(address), .bytes = bytes, .kind = LEATC_MEMORY_DEVICE, .foreign = true};
    leat_physical_info info = LEAT_PHYSICAL_INFO_INIT;
    CUresult result;

    CU_TRY(leatcu_started());
    CU_CHECK(address && bytes && !offset && !flags);
    CU_TRY(check_handle(handle, &info));
    CU_TRY(status_result(leat_virtual_map(memory.base, bytes, physical_of(handle))));
    memory.ordinal = leatc_device_ordinal(info.device);
    result = leatcu_result(leatc_memory_add(&memory));
    if (result != CUDA_SUCCESS)
        leat_virtual_unmap(memory.base, bytes);
    return result;
}

/* Removes the engine's records of the mappings in a range that is no longer mapped. */
static void forget(char *start, size_t bytes)
{
    struct leatc_memory memory;

    for (char *at = start; (size_t)(at - start) < bytes; at = (char *)memory.base + memory.bytes) {
        if (leatc_memory_find(at, &memory) != LEATC_OK || memory.kind == LEATC_MEMORY_PAGEABLE)
            return;
        (void)leatc_memory_remove(memory.base);
    }
}

/* Unmaps a range. First waits for all devices, because their pending work may still use the memory. */
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    CU_TRY(leatcu_started());
    CU_CHECK(address && bytes);
    CU_TRY(leatcu_result(leatc_devices_wait()));
    CU_TRY(status_result(leat_virtual_unmap(leatcu_pointer(address), bytes)));
    forget(leatcu_pointer(address), bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *wanted, size_t count)
{
    leat_device *device;

    CU_TRY(leatcu_started());
    CU_CHECK(address && bytes && wanted && count);
    for (size_t i = 0; i < count; i++) {
        CU_CHECK(wanted[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE);
        CU_CHECK(wanted[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
                 wanted[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                 wanted[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        CU_TRY(leatcu_check_device(wanted[i].location.id));
    }
    for (size_t i = 0; i < count; i++) {
        CU_TRY(leatcu_result(leatc_device_open(wanted[i].location.id, &device)));
        CU_TRY(status_result(
            leat_virtual_set_access(device, leatcu_pointer(address), bytes, (leat_access)wanted[i].flags)));
    }
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    leat_device *device;
    leat_access access;

    CU_TRY(leatcu_started());
    CU_CHECK(flags && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE);
    CU_TRY(leatcu_check_device(location->id));
    CU_TRY(leatcu_result(leatc_device_open(location->id, &device)));
    CU_TRY(status_result(leat_virtual_get_access(device, leatcu_pointer(address), &access)));
    *flags = (unsigned long long)access;
    return CUDA_SUCCESS;
}
