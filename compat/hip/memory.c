/* memory.c - allocates device and pinned memory, registers memory, and answers queries about addresses. */
#include "hip/layer.h"

#include <string.h>

/* ---- device memory ---- */

FORWARD(hipError_t hipMalloc(void **ptr, size_t bytes), leatc_alloc(bytes, ptr))
FORWARD(hipError_t hipExtMallocWithFlags(void **ptr, size_t bytes, unsigned int flags),
        flags > hipDeviceMallocContiguous || (flags == hipMallocSignalMemory && bytes != 8)
            ? LEATC_INVALID_VALUE
            : leatc_alloc(bytes, ptr))

/* Frees device or managed memory, and also pinned memory: AMD's runtime accepts that, and programs rely on it. */
hipError_t hipFree(void *ptr)
{
    struct leatc_memory memory;
    bool pinned = ptr && leatc_memory_find(ptr, &memory) == LEATC_OK && memory.kind == LEATC_MEMORY_HOST;

    return note(pinned ? leatc_free_host(ptr) : leatc_free(ptr));
}

static int alloc_pitched(void **ptr, size_t *pitch, size_t width, size_t height, size_t depth)
{
    size_t row = leatc_pitch(width, HIP_PITCH_BYTES), slice, bytes;

    if (!ptr || !pitch)
        return LEATC_INVALID_VALUE;
    if (!width || !height || !depth) {
        *ptr = NULL;
        *pitch = row;
        return leatc_init();
    }
    if (!row || __builtin_mul_overflow(row, height, &slice) || __builtin_mul_overflow(slice, depth, &bytes))
        return LEATC_OUT_OF_MEMORY;
    LEATC_TRY(leatc_alloc(bytes, ptr));
    *pitch = row;
    return LEATC_OK;
}

FORWARD(hipError_t hipMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height),
        alloc_pitched(ptr, pitch, width, height, 1))

hipError_t hipMemAllocPitch(hipDeviceptr_t *ptr, size_t *pitch, size_t width, size_t height,
                            unsigned int elementBytes)
{
    /* The alignment of the rows is sufficient for all three element sizes. */
    if (elementBytes != 4 && elementBytes != 8 && elementBytes != 16)
        return note(LEATC_INVALID_VALUE);
    return note(alloc_pitched(ptr, pitch, width, height, 1));
}

hipError_t hipMalloc3D(hipPitchedPtr *ptr, hipExtent extent)
{
    hipPitchedPtr made = {.xsize = extent.width, .ysize = extent.height};
    int result = LEATC_INVALID_VALUE;

    if (ptr)
        result = alloc_pitched(&made.ptr, &made.pitch, extent.width, extent.height, extent.depth);
    if (result == LEATC_OK)
        *ptr = made;
    return note(result);
}

hipError_t hipMemGetInfo(size_t *available, size_t *total)
{
    int ordinal = 0;
    int result = leatc_device_get(&ordinal);

    if (!available && !total)
        return note(LEATC_INVALID_VALUE);
    return note(result == LEATC_OK ? leatc_device_memory(ordinal, available, total) : result);
}

/* ---- pinned memory ---- */

#define HOST_FLAGS                                                                                                \
    (hipHostMallocPortable | hipHostMallocMapped | hipHostMallocWriteCombined | hipHostMallocUncached |           \
     hipHostMallocNumaUser | hipHostMallocCoherent | hipHostMallocNonCoherent)

static int alloc_host(void **ptr, size_t bytes, unsigned flags)
{
    if ((flags & ~(unsigned)HOST_FLAGS) ||
        ((flags & hipHostMallocCoherent) && (flags & (unsigned)hipHostMallocNonCoherent)))
        return LEATC_INVALID_VALUE;
    return leatc_alloc_host(bytes, flags, ptr);
}

FORWARD(hipError_t hipHostMalloc(void **ptr, size_t bytes, unsigned int flags), alloc_host(ptr, bytes, flags))
FORWARD(hipError_t hipHostAlloc(void **ptr, size_t bytes, unsigned int flags), alloc_host(ptr, bytes, flags))
FORWARD(hipError_t hipExtHostAlloc(void **ptr, size_t bytes, unsigned int flags), alloc_host(ptr, bytes, flags))
FORWARD(hipError_t hipMallocHost(void **ptr, size_t bytes), alloc_host(ptr, bytes, hipHostMallocDefault))
FORWARD(hipError_t hipMemAllocHost(void **ptr, size_t bytes), alloc_host(ptr, bytes, hipHostMallocDefault))
FORWARD(hipError_t hipHostFree(void *ptr), leatc_free_host(ptr))
FORWARD(hipError_t hipFreeHost(void *ptr), leatc_free_host(ptr))

#define REGISTER_FLAGS                                                                                            \
    (hipHostRegisterPortable | hipHostRegisterMapped | hipHostRegisterIoMemory | hipHostRegisterReadOnly |        \
     hipExtHostRegisterUncached)

/* Registers memory. As in AMD's runtime, a range that is registered already is accepted: it stays registered once,
 * with its first flags. */
static int register_host(void *ptr, size_t bytes, unsigned flags)
{
    struct leatc_memory known;

    if (flags & ~(unsigned)REGISTER_FLAGS)
        return LEATC_INVALID_VALUE;
    if (ptr && leatc_memory_find(ptr, &known) == LEATC_OK && known.kind == LEATC_MEMORY_REGISTERED &&
        known.base == ptr && known.bytes == bytes)
        return LEATC_OK;
    return leatc_register(ptr, bytes, flags);
}

FORWARD(hipError_t hipHostRegister(void *ptr, size_t bytes, unsigned int flags), register_host(ptr, bytes, flags))
FORWARD(hipError_t hipHostUnregister(void *ptr), leatc_unregister(ptr))
FORWARD(hipError_t hipHostGetDevicePointer(void **devicePtr, void *ptr, unsigned int flags),
        flags ? LEATC_INVALID_VALUE : leatc_host_device_pointer(ptr, devicePtr))
FORWARD(hipError_t hipHostGetFlags(unsigned int *flags, void *ptr), leatc_host_flags(ptr, flags))
FORWARD(hipError_t hipMallocManaged(void **ptr, size_t bytes, unsigned int flags),
        leatc_alloc_managed(bytes, flags, ptr))

/* ---- queries about addresses ---- */

static int find_known(const void *ptr, struct leatc_memory *memory)
{
    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_memory_find(ptr, memory));
    return memory->kind == LEATC_MEMORY_PAGEABLE ? LEATC_INVALID_VALUE : LEATC_OK;
}

hipError_t hipMemPtrGetInfo(void *ptr, size_t *bytes)
{
    struct leatc_memory memory = {.bytes = 0};
    int result = bytes ? LEATC_OK : LEATC_INVALID_VALUE;

    /* NULL is valid, because hipMalloc() of 0 bytes returns NULL. */
    if (result == LEATC_OK && ptr)
        result = find_known(ptr, &memory);
    if (result == LEATC_OK)
        *bytes = memory.bytes;
    return note(result);
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *bytes, hipDeviceptr_t ptr)
{
    struct leatc_memory memory;
    int result = leatc_init();

    if (result != LEATC_OK)
        return note(result);
    if (!ptr || find_known(ptr, &memory) != LEATC_OK)
        return note(LEATC_NOT_FOUND);
    if (base)
        *base = memory.base;
    if (bytes)
        *bytes = memory.bytes;
    return hipSuccess;
}

static hipMemoryType type_of(const struct leatc_memory *memory)
{
    switch (memory->kind) {
    case LEATC_MEMORY_HOST:
    case LEATC_MEMORY_REGISTERED:
        return hipMemoryTypeHost;
    case LEATC_MEMORY_DEVICE:
        return hipMemoryTypeDevice;
    case LEATC_MEMORY_MANAGED:
        return hipMemoryTypeManaged;
    default:
        return hipMemoryTypeUnregistered;
    }
}

/* Returns the address by which kernels must access the memory. */
static void *device_pointer(const struct leatc_memory *memory, void *ptr)
{
    void *found = ptr;

    if (memory->kind != LEATC_MEMORY_DEVICE)
        (void)leatc_host_device_pointer(ptr, &found);
    return found;
}

/* Returns what is known about an address. Since HIP 6, an unknown address is not an error. */
static int get_attributes(hipPointerAttribute_t *attributes, void *ptr)
{
    struct leatc_memory memory;

    if (!attributes || !ptr)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    *attributes = (hipPointerAttribute_t){.type = type_of(&memory), .device = memory.ordinal};
    if (memory.kind == LEATC_MEMORY_PAGEABLE) {
        attributes->device = hipInvalidDeviceId;
        return LEATC_OK;
    }
    attributes->devicePointer = device_pointer(&memory, ptr);
    attributes->hostPointer = memory.kind == LEATC_MEMORY_DEVICE ? NULL : ptr;
    attributes->isManaged = memory.kind == LEATC_MEMORY_MANAGED;
    attributes->allocationFlags = memory.flags;
    return LEATC_OK;
}

FORWARD(hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr),
        get_attributes(attributes, (void *)(uintptr_t)ptr))

/* HIP's manual says "boolean" for some attributes; AMD's runtime writes a bool of one byte. */
#define PUT(type, value) (*(type *)data = (type)(value), LEATC_OK)

/* Writes an attribute of an address to data. For memory of kind PAGEABLE, writes the values for unknown memory,
 * mostly 0. */
static int get_attribute(void *data, hipPointer_attribute attribute, void *ptr, const struct leatc_memory *memory)
{
    bool known = memory->kind != LEATC_MEMORY_PAGEABLE;

    switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return PUT(unsigned, type_of(memory));
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return PUT(void *, known ? device_pointer(memory, ptr) : NULL);
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)data = known && memory->kind != LEATC_MEMORY_DEVICE ? ptr : NULL;
        return memory->kind == LEATC_MEMORY_DEVICE ? LEATC_INVALID_VALUE : LEATC_OK;
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return PUT(bool, memory->synchronous);
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
        return PUT(unsigned, known ? memory->id : 0);
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
        return PUT(bool, memory->kind == LEATC_MEMORY_MANAGED);
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return PUT(int, known ? memory->ordinal : hipInvalidDeviceId);
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return PUT(void *, known ? memory->base : NULL);
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
        /* HIP writes 32 bits. They are not sufficient for longer ranges, so write 64 bits for these. */
        return known && memory->bytes > UINT32_MAX ? PUT(size_t, memory->bytes)
                                                   : PUT(unsigned, known ? memory->bytes : 0);
    case HIP_POINTER_ATTRIBUTE_MAPPED:
        return PUT(bool, known);
    case HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return PUT(unsigned, known ? hipMemAccessFlagsProtReadWrite : hipMemAccessFlagsProtNone);
    case HIP_POINTER_ATTRIBUTE_CONTEXT:
    case HIP_POINTER_ATTRIBUTE_P2P_TOKENS:
    case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE:
    case HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return LEATC_NOT_SUPPORTED; /* HIP's manual documents this result for the attributes above */
    default:
        return LEATC_INVALID_VALUE;
    }
}

hipError_t hipPointerGetAttribute(void *data, hipPointer_attribute attribute, hipDeviceptr_t ptr)
{
    struct leatc_memory memory;
    int result = data ? find_known(ptr, &memory) : LEATC_INVALID_VALUE;

    /* For this attribute, the pointer may be the handle of an array. */
    if (data && attribute == HIP_POINTER_ATTRIBUTE_MEMORY_TYPE &&
        leatc_array_describe(array_of(ptr), NULL, NULL, NULL, NULL) == LEATC_OK)
        result = PUT(unsigned, hipMemoryTypeArray);
    else if (result == LEATC_OK)
        result = get_attribute(data, attribute, ptr, &memory);
    return note(result);
}

static int get_several(unsigned count, const hipPointer_attribute *attributes, void **data, void *ptr)
{
    struct leatc_memory memory = {.kind = LEATC_MEMORY_PAGEABLE};
    int first = LEATC_OK;

    if (!count || !attributes || !data || !ptr)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    for (unsigned i = 0; i < count; i++) {
        int result = data[i] ? get_attribute(data[i], attributes[i], ptr, &memory) : LEATC_INVALID_VALUE;

        if (first == LEATC_OK && attributes[i] != HIP_POINTER_ATTRIBUTE_HOST_POINTER)
            first = result;
    }
    return first;
}

FORWARD(hipError_t hipDrvPointerGetAttributes(unsigned int count, hipPointer_attribute *attributes, void **data,
                                              hipDeviceptr_t ptr),
        get_several(count, attributes, data, ptr))

/* Sets whether copies and fills without Async in their names always wait for completion, even between device
 * memory. No other attribute can be set. */
hipError_t hipPointerSetAttribute(const void *value, hipPointer_attribute attribute, hipDeviceptr_t ptr)
{
    if (!value || !ptr || attribute != HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return note(LEATC_INVALID_VALUE);
    if (leatc_init() != LEATC_OK || leatc_memory_set_synchronous(ptr, *(const unsigned *)value != 0) != LEATC_OK)
        return note(HIP_INVALID_DEVICE_POINTER);
    return hipSuccess;
}
