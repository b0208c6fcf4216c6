/* memory.c - allocates and frees memory by the calls that have no stream, and answers queries about pointers. */
#include "cuda/names.h"

#include <string.h>

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    return leatcu_result(leatc_device_memory(context->ordinal, free_bytes, total_bytes));
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    void *ptr;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(address && bytes);
    CU_TRY(leatcu_result(leatc_alloc(bytes, &ptr)));
    *address = leatcu_address(ptr);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch_bytes, size_t width_bytes, size_t height,
                            unsigned element_bytes)
{
    size_t pitch = leatc_pitch(width_bytes, LEATC_PITCH_BYTES), bytes;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(address && pitch_bytes && width_bytes && height);
    CU_CHECK(element_bytes == 4 || element_bytes == 8 || element_bytes == 16);
    if (!pitch || __builtin_mul_overflow(pitch, height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CU_TRY(cuMemAlloc_v2(address, bytes));
    *pitch_bytes = pitch;
    return CUDA_SUCCESS;
}

/* The call works without a current context, because the allocation determines the device. */
FORWARD_STARTED(CUresult cuMemFree_v2(CUdeviceptr address), leatcu_or_lost(leatc_free(leatcu_pointer(address))))

/* Returns the allocation that contains an address. */
static CUresult find(CUdeviceptr address, struct leatc_memory *memory)
{
    CU_CHECK(address);
    return leatcu_result(leatc_memory_find(leatcu_pointer(address), memory));
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    struct leatc_memory memory;

    CU_TRY(leatcu_enter(NULL));
    CU_TRY(find(address, &memory));
    if (memory.kind == LEATC_MEMORY_PAGEABLE)
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = leatcu_address(memory.base);
    if (bytes)
        *bytes = memory.bytes;
    return CUDA_SUCCESS;
}

/* ---- host memory ---- */

CUresult cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
    const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(ptr && bytes && !(flags & ~known));
    return leatcu_result(leatc_alloc_host(bytes, flags, ptr));
}

/* Sets both flags, because with unified addressing pinned memory is always portable and mapped. */
CUresult cuMemAllocHost_v2(void **ptr, size_t bytes)
{
    return cuMemHostAlloc(ptr, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}

FORWARD_STARTED(CUresult cuMemFreeHost(void *ptr),
                ptr ? leatcu_or_lost(leatc_free_host(ptr)) : LEATC_INVALID_VALUE)

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *ptr, unsigned flags)
{
    void *found;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(address && ptr && !flags);
    CU_TRY(leatcu_result(leatc_host_device_pointer(ptr, &found)));
    *address = leatcu_address(found);
    return CUDA_SUCCESS;
}

FORWARD(CUresult cuMemHostGetFlags(unsigned *flags, void *ptr),
        !flags || !ptr ? LEATC_INVALID_VALUE : leatc_host_flags(ptr, flags))

CUresult cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned flags)
{
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                           CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(ptr && bytes && !(flags & ~known));
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return CUDA_ERROR_NOT_SUPPORTED;
    return leatcu_result(leatc_register(ptr, bytes, flags));
}

FORWARD(CUresult cuMemHostUnregister(void *ptr), ptr ? leatc_unregister(ptr) : LEATC_INVALID_VALUE)

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    void *ptr;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(address && bytes && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST));
    CU_TRY(leatcu_result(leatc_alloc_managed(bytes, flags, &ptr)));
    *address = leatcu_address(ptr);
    return CUDA_SUCCESS;
}

/* ---- attributes of pointers ---- */

static bool is_host(const struct leatc_memory *memory)
{
    return memory->kind == LEATC_MEMORY_HOST || memory->kind == LEATC_MEMORY_REGISTERED;
}

/* Returns the address by which a kernel must access the memory. */
static CUdeviceptr device_address(const struct leatc_memory *memory, CUdeviceptr address)
{
    void *found;

    return is_host(memory) && leatc_host_device_pointer(leatcu_pointer(address), &found) == LEATC_OK
               ? leatcu_address(found)
               : address;
}

static void handle_types(const struct leatc_memory *memory, void *data)
{
    *(unsigned long long *)data = memory->foreign || memory->pool ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
}

/* Writes one attribute of a known allocation. Returns false for an unknown attribute. */
static bool write_attribute(CUpointer_attribute attribute, const struct leatc_memory *memory, CUdeviceptr address,
                            void *data)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = memory->pool || memory->foreign ? NULL : leatcu_context_of(memory->ordinal);
        return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = is_host(memory) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = device_address(memory, address);
        return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)data = leatcu_pointer(address);
        return true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)data = memory->synchronous;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(unsigned *)data = 0;
        return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)data = memory->id;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = memory->kind == LEATC_MEMORY_MANAGED;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = memory->ordinal;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)data = memory->kind == LEATC_MEMORY_DEVICE && !memory->pool && !memory->foreign;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)data = leatcu_address(memory->base);
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)data = memory->bytes;
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)data = 1;
        return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        handle_types(memory, data);
        return true;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned *)data = 0;
        return true;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned long long *)data = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = (CUmemoryPool)memory->pool;
        return true;
    default:
        return false;
    }
}

/* Returns the size of an attribute's value, or 0 for an unknown attribute. */
static size_t attribute_bytes(CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return 16;
    default:
        return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT &&
                       attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE
                   ? sizeof(void *)
                   : 0;
    }
}

/* Fails for memory that CUDA does not know. cuPointerGetAttributes() does not fail, but reports such memory
 * without a type. */
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct leatc_memory memory;

    CU_TRY(leatcu_started());
    CU_CHECK(data && attribute_bytes(attribute));
    CU_TRY(find(address, &memory));
    if (memory.kind == LEATC_MEMORY_PAGEABLE)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && memory.kind == LEATC_MEMORY_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return write_attribute(attribute, &memory, address, data) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
    struct leatc_memory memory = {.kind = LEATC_MEMORY_PAGEABLE};

    CU_TRY(leatcu_started());
    CU_CHECK(count && attributes && data);
    if (address)
        CU_TRY(find(address, &memory));
    for (unsigned i = 0; i < count; i++)
        CU_CHECK(attribute_bytes(attributes[i]) && data[i]);
    for (unsigned i = 0; i < count; i++) {
        bool known = memory.kind != LEATC_MEMORY_PAGEABLE &&
                     (attributes[i] != CU_POINTER_ATTRIBUTE_HOST_POINTER || memory.kind != LEATC_MEMORY_DEVICE);

        if (known && write_attribute(attributes[i], &memory, address, data[i]))
            continue;
        memset(data[i], 0, attribute_bytes(attributes[i]));
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)data[i] = CU_DEVICE_INVALID;
    }
    return CUDA_SUCCESS;
}

/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is the only attribute that can be set. */
FORWARD_STARTED(CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                               CUdeviceptr address),
                !value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
                    ? LEATC_INVALID_VALUE
                    : leatc_memory_set_synchronous(leatcu_pointer(address), *(const unsigned *)value != 0))

/* leat cannot export a range of addresses as a handle. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
                                       unsigned long long flags)
{
    struct leatc_memory memory;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(handle && bytes && type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD && !(flags & ~1ull));
    CU_TRY(find(address, &memory));
    return memory.kind == LEATC_MEMORY_DEVICE ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}
