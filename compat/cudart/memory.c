/* memory.c - allocates, frees and registers memory, answers queries about it, and controls managed memory. */
#include "cudart/cudart.h"

FORWARD(cudaError_t cudaMalloc(void **devPtr, size_t size), leatc_alloc(size, devPtr))
FORWARD(cudaError_t cudaFree(void *devPtr), leatc_free(devPtr))
FORWARD(cudaError_t cudaMallocHost(void **ptr, size_t size), leatc_alloc_host(size, cudaHostAllocDefault, ptr))
FORWARD(cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags),
        flags & ~(unsigned)(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined)
            ? LEATC_INVALID_VALUE
            : leatc_alloc_host(size, flags, pHost))
FORWARD(cudaError_t cudaFreeHost(void *ptr), leatc_free_host(ptr))
FORWARD(cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags),
        leatc_alloc_managed(size, flags, devPtr))

/* Allocates rows, with a pitch for fast copies. If one of the sizes is 0, allocates nothing. */
static int alloc_rows(void **ptr, size_t *pitch, size_t width, size_t height, size_t depth)
{
    size_t row = leatc_pitch(width, LEATC_PITCH_BYTES), bytes;

    if (!width || !height || !depth) {
        *ptr = NULL;
        *pitch = 0;
        return LEATC_OK;
    }
    if (!row || __builtin_mul_overflow(row, height, &bytes) || __builtin_mul_overflow(bytes, depth, &bytes))
        return LEATC_OUT_OF_MEMORY;
    LEATC_TRY(leatc_alloc(bytes, ptr));
    *pitch = row;
    return LEATC_OK;
}

FORWARD(cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height),
        !devPtr || !pitch ? LEATC_INVALID_VALUE : alloc_rows(devPtr, pitch, width, height, 1))

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
    void *ptr;
    size_t pitch;
    int result;

    if (!pitchedDevPtr)
        return note(LEATC_INVALID_VALUE);
    result = alloc_rows(&ptr, &pitch, extent.width, extent.height, extent.depth);
    if (result == LEATC_OK)
        *pitchedDevPtr = make_cudaPitchedPtr(ptr, pitch, extent.width, extent.height);
    return note(result);
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
    if (flags & ~(unsigned)(cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory |
                            cudaHostRegisterReadOnly))
        return note(LEATC_INVALID_VALUE);
    if (flags & cudaHostRegisterIoMemory)
        return note(LEATC_NOT_SUPPORTED);
    return note(leatc_register(ptr, size, flags));
}

FORWARD(cudaError_t cudaHostUnregister(void *ptr), leatc_unregister(ptr))
FORWARD(cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags),
        flags ? LEATC_INVALID_VALUE : leatc_host_device_pointer(pHost, pDevice))

/* Returns the flags of pinned memory. With unified addressing it is always mapped for all devices, so CUDA reports
 * that flag even if the program did not request it. */
cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
    int result = leatc_host_flags(pHost, pFlags);

    if (result == LEATC_OK)
        *pFlags |= cudaHostAllocMapped;
    return note(result);
}

FORWARD(cudaError_t cudaMemGetInfo(size_t *free, size_t *total),
        !free || !total ? LEATC_INVALID_VALUE : leatc_device_memory(current_device(), free, total))

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    static const enum cudaMemoryType types[] = {
        [LEATC_MEMORY_PAGEABLE] = cudaMemoryTypeUnregistered, [LEATC_MEMORY_HOST] = cudaMemoryTypeHost,
        [LEATC_MEMORY_DEVICE] = cudaMemoryTypeDevice,         [LEATC_MEMORY_MANAGED] = cudaMemoryTypeManaged,
        [LEATC_MEMORY_REGISTERED] = cudaMemoryTypeHost,
    };
    struct leatc_memory memory;
    void *plain = (void *)(uintptr_t)ptr, *device_pointer = plain;
    int result = leatc_init();

    if (!attributes || !ptr)
        return note(LEATC_INVALID_VALUE);
    if (result == LEATC_OK)
        result = leatc_memory_find(ptr, &memory);
    if (result == LEATC_OK && memory.kind != LEATC_MEMORY_PAGEABLE && memory.kind != LEATC_MEMORY_DEVICE)
        result = leatc_host_device_pointer(plain, &device_pointer);
    if (result != LEATC_OK)
        return note(result);
    *attributes = (struct cudaPointerAttributes){
        .type = types[memory.kind],
        .device = memory.kind == LEATC_MEMORY_PAGEABLE ? cudaInvalidDeviceId : memory.ordinal,
        .devicePointer = memory.kind == LEATC_MEMORY_PAGEABLE ? NULL : device_pointer,
        .hostPointer = memory.kind == LEATC_MEMORY_DEVICE ? NULL : plain,
    };
    return cudaSuccess;
}

/* ---- managed memory ---- */

int cudart_place(struct cudaMemLocation location, int *ordinal)
{
    switch (location.type) {
    case cudaMemLocationTypeDevice:
        *ordinal = location.id;
        return location.id < 0 ? LEATC_INVALID_DEVICE : LEATC_OK;
    case cudaMemLocationTypeHost:
    case cudaMemLocationTypeHostNuma:
    case cudaMemLocationTypeHostNumaCurrent:
        *ordinal = LEATC_HOST;
        return LEATC_OK;
    default:
        return LEATC_INVALID_VALUE;
    }
}

static int prefetch(const void *ptr, size_t bytes, struct cudaMemLocation location, unsigned flags,
                    struct leatc_stream *stream)
{
    int ordinal = 0;

    LEATC_TRY(flags ? LEATC_INVALID_VALUE : cudart_place(location, &ordinal));
    return leatc_prefetch(ptr, bytes, ordinal, stream);
}

FORWARD_STREAM(cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz,
               (const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags,
                cudaStream_t stream),
               prefetch(devPtr, count, location, flags, on))

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    bool placed = advice == cudaMemAdviseSetPreferredLocation || advice == cudaMemAdviseSetAccessedBy ||
                  advice == cudaMemAdviseUnsetAccessedBy;
    int ordinal = LEATC_HOST, result = placed ? cudart_place(location, &ordinal) : LEATC_OK;

    return note(result == LEATC_OK ? leatc_advise(devPtr, count, (int)advice, ordinal) : result);
}

/* Converts a location to the number with which CUDA reports it: of a device, of the host, or of no place. */
static int place_id(leat_location location)
{
    return location.kind == LEAT_LOCATION_KIND_DEVICE ? location.ordinal
           : location.kind == LEAT_LOCATION_KIND_HOST ? cudaCpuDeviceId
                                                      : cudaInvalidDeviceId;
}

static int place_type(leat_location location)
{
    return location.kind == LEAT_LOCATION_KIND_DEVICE ? cudaMemLocationTypeDevice
           : location.kind == LEAT_LOCATION_KIND_HOST ? cudaMemLocationTypeHost
                                                      : cudaMemLocationTypeInvalid;
}

/* Writes the host and the devices that have accessed-by advice to a list, and fills the rest with
 * cudaInvalidDeviceId. */
static void list_accessed_by(const leat_managed_info *info, int *ids, size_t count)
{
    size_t used = 0;

    if (info->accessed_by_host && used < count)
        ids[used++] = cudaCpuDeviceId;
    for (int i = 0; i < 32; i++)
        if (info->accessed_by >> i & 1 && used < count)
            ids[used++] = i;
    while (used < count)
        ids[used++] = cudaInvalidDeviceId;
}

static int range_attribute(const leat_managed_info *info, void *data, size_t size,
                           enum cudaMemRangeAttribute which)
{
    int value;

    if (!data || size < sizeof(int) || size % sizeof(int))
        return LEATC_INVALID_VALUE;
    switch (which) {
    case cudaMemRangeAttributeAccessedBy:
        list_accessed_by(info, data, size / sizeof(int));
        return LEATC_OK;
    case cudaMemRangeAttributeReadMostly:
        value = info->read_mostly;
        break;
    case cudaMemRangeAttributePreferredLocation:
    case cudaMemRangeAttributePreferredLocationId:
        value = place_id(info->preferred);
        break;
    case cudaMemRangeAttributeLastPrefetchLocation:
    case cudaMemRangeAttributeLastPrefetchLocationId:
        value = place_id(info->last_prefetch);
        break;
    case cudaMemRangeAttributePreferredLocationType:
        value = place_type(info->preferred);
        break;
    case cudaMemRangeAttributeLastPrefetchLocationType:
        value = place_type(info->last_prefetch);
        break;
    default:
        return LEATC_INVALID_VALUE;
    }
    if (size != sizeof(int))
        return LEATC_INVALID_VALUE;
    *(int *)data = value;
    return LEATC_OK;
}

cudaError_t cudaMemRangeGetAttribute(void *data, size_t dataSize, enum cudaMemRangeAttribute attribute,
                                     const void *devPtr, size_t count)
{
    return cudaMemRangeGetAttributes(&data, &dataSize, &attribute, 1, devPtr, count);
}

cudaError_t cudaMemRangeGetAttributes(void **data, size_t *dataSizes, enum cudaMemRangeAttribute *attributes,
                                      size_t numAttributes, const void *devPtr, size_t count)
{
    leat_managed_info info = LEAT_MANAGED_INFO_INIT;
    int result;

    if (!data || !dataSizes || !attributes || !numAttributes)
        return note(LEATC_INVALID_VALUE);
    result = leatc_managed_query(devPtr, count, &info);
    for (size_t i = 0; i < numAttributes && result == LEATC_OK; i++)
        result = range_attribute(&info, data[i], dataSizes[i], attributes[i]);
    return note(result);
}

static int attach(struct leatc_stream *stream, void *ptr, size_t bytes, unsigned flags)
{
    /* CUDA does not allow a program to attach memory to a default stream. */
    if (flags == cudaMemAttachSingle && (!stream || stream == LEATC_STREAM_LEGACY))
        return LEATC_INVALID_VALUE;
    return leatc_attach(stream, ptr, bytes, flags);
}

FORWARD_STREAM(cudaStreamAttachMemAsync, cudaStreamAttachMemAsync_ptsz,
               (cudaStream_t stream, void *devPtr, size_t length, unsigned int flags),
               attach(on, devPtr, length, flags))
