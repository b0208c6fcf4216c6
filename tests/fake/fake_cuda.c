/*
 * fake_cuda.c - a fake libcuda.so.1 for tests. It implements the functions that leat calls, on host memory.
 *
 * It is stricter than a GPU, so that mistakes of leat are noticed: calls need the right context to be current,
 * streams and events only work in their own context, device memory is reachable only from contexts of its device,
 * a copy must stay within one allocation, and the library counts the objects that are not destroyed. Work runs at
 * once unless a test holds its stream (fake_queue.h). A pageable source is read when its copy is submitted.
 * Kernels load and launch but do nothing. With the environment variable FAKE_CUDA a test makes the library report
 * an old version ("version=10020", the result of cuDriverGetVersion), a failure of cuInit ("init=100", its
 * result), no devices ("devices=0"), another compute capability ("compute=75") or a failure to load machine code
 * ("code=209", the result of cuModuleLoadDataEx for a fatbin). Tests control the rest through the fake_cuda_*
 * functions at the end of this file and the fake_* functions of fake_device.h.
 */
#include "driver/cuda/cuda_symbols.h"
#include "driver/cuda/cuda_types.h"

#define FAKE_CONTEXT CUctx_st
#define FAKE_STREAM CUstream_st
#define FAKE_EVENT CUevent_st
#define FAKE_MODULE CUmod_st
#define FAKE_STREAM_LEGACY LEATI_CU_STREAM_LEGACY
#define FAKE_STREAM_PER_THREAD LEATI_CU_STREAM_PER_THREAD
#define FAKE_SUCCESS LEATI_CUDA_SUCCESS
#define FAKE_INVALID_VALUE LEATI_CUDA_ERROR_INVALID_VALUE
#define FAKE_OUT_OF_MEMORY LEATI_CUDA_ERROR_OUT_OF_MEMORY
#define FAKE_INVALID_DEVICE LEATI_CUDA_ERROR_INVALID_DEVICE
#define FAKE_INVALID_CONTEXT LEATI_CUDA_ERROR_INVALID_CONTEXT
#define FAKE_INVALID_HANDLE LEATI_CUDA_ERROR_INVALID_HANDLE
#define FAKE_NOT_READY LEATI_CUDA_ERROR_NOT_READY
#define FAKE_ALREADY_REGISTERED LEATI_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
#define FAKE_NOT_REGISTERED LEATI_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
#define FAKE_STREAM_NON_BLOCKING LEATI_CU_STREAM_NON_BLOCKING
#define FAKE_SETTINGS "FAKE_CUDA"
#include "fake_device.h"

#include <stdatomic.h>

/* Declares each function with the type that leat calls it with, so a wrong definition below does not compile. */
#define DECLARE(field, name, need, parameters) EXPORT cu_result name parameters;
LEATI_CUDA_SYMBOL_LIST(DECLARE)
LEATI_CUDA_FIRST_SYMBOL_LIST(DECLARE)

#define STACK_MOST 8
#define CAPTURE_MODE_RELAXED 2
#define LEATI_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED 901

struct CUfunc_st {
    int shared_limit;
};

static struct CUfunc_st the_kernel = {.shared_limit = 48 << 10};

static _Thread_local cu_context stack[STACK_MOST];
static _Thread_local unsigned depth;

/* The stream that is capturing, and whether a call has ended its capture. Atomic, because any thread may call. */
static _Atomic(cu_stream) captured;
static atomic_int capture_ended;
static _Thread_local unsigned int capture_mode;

/* Begins a call that ends a capture, unless the thread's capture mode is relaxed. */
static cu_result enter_unsafe(void)
{
    if (atomic_load(&captured) && capture_mode != CAPTURE_MODE_RELAXED) {
        atomic_store(&capture_ended, 1);
        return LEATI_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return LEATI_CUDA_SUCCESS;
}

/* Begins a call that a capturing stream does not allow in any mode, or that needs all streams if stream is NULL.
 * Drivers allow to record an event, which then is a part of the graph; leat must not record one. */
static cu_result enter_uncaptured(cu_stream stream)
{
    cu_stream now = atomic_load(&captured);

    if (!now || (stream && stream != now))
        return LEATI_CUDA_SUCCESS;
    atomic_store(&capture_ended, 1);
    return LEATI_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static cu_context current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

static cu_result enter_context(void)
{
    TRY(count_call());
    return current() ? LEATI_CUDA_SUCCESS : LEATI_CUDA_ERROR_INVALID_CONTEXT;
}

static cu_result enter_unsafe_context(void)
{
    TRY(enter_unsafe());
    return enter_context();
}

/* Memory of a device is reachable only from contexts of that device. Real drivers allow more in some cases. */
static bool is_reachable(const struct memory *memory)
{
    return !(memory->place & (ON_DEVICE | POOLED)) || memory->context->device == current()->device;
}

static void *address(cu_deviceptr ptr)
{
    return (void *)(uintptr_t)ptr;
}

/* ---- start, errors, devices ---- */

FORWARD(cu_result cuInit(unsigned int flags), (cu_result)setting("init=", LEATI_CUDA_SUCCESS))

cu_result cuDriverGetVersion(int *version)
{
    *version = setting("version=", 13000);
    return LEATI_CUDA_SUCCESS;
}

cu_result cuGetErrorName(cu_result error, const char **name)
{
#define NAME(constant, value)                                                                                     \
    if (error == (value) && !strncmp(#constant, "CUDA_", 5)) {                                                    \
        *name = #constant;                                                                                        \
        return LEATI_CUDA_SUCCESS;                                                                                \
    }
    LEATI_CUDA_CONSTANT_LIST(NAME)
    *name = NULL;
    return LEATI_CUDA_ERROR_INVALID_VALUE;
}

cu_result cuGetErrorString(cu_result error, const char **text)
{
    *text = "fake";
    return LEATI_CUDA_SUCCESS;
}

cu_result cuDeviceGetCount(int *number)
{
    *number = setting("devices=", DEVICES_MOST);
    return LEATI_CUDA_SUCCESS;
}

FORWARD(cu_result cuDeviceGet(cu_device *device, int ordinal), get_device(device, ordinal))
FORWARD(cu_result cuDeviceGetPCIBusId(char *text, int bytes, cu_device device),
        get_device_address(text, bytes, device))

cu_result cuDeviceGetName(char *name, int bytes, cu_device device)
{
    TRY(count_call());
    snprintf(name, (size_t)bytes, "Fake GPU %d", device);
    return LEATI_CUDA_SUCCESS;
}

cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device device)
{
    TRY(count_call());
    *bytes = MEMORY_BYTES;
    return LEATI_CUDA_SUCCESS;
}

cu_result cuDeviceGetAttribute(int *value, cu_device_attribute attribute, cu_device device)
{
    TRY(count_call());
    switch (attribute) {
    case LEATI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = setting("compute=", 91) / 10;
        break;
    case LEATI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = setting("compute=", 91) % 10;
        break;
    case LEATI_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = 100 << 10;
        break;
    case LEATI_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        *value = 0;
        break;
    default:
        *value = 1;
        break;
    }
    return LEATI_CUDA_SUCCESS;
}

cu_result cuDeviceCanAccessPeer(int *reachable, cu_device device, cu_device peer)
{
    TRY(count_call());
    *reachable = device != peer;
    return LEATI_CUDA_SUCCESS;
}

/* ---- contexts ---- */

FORWARD(cu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device), retain_context(context, device))
FORWARD(cu_result cuDevicePrimaryCtxRelease_v2(cu_device device), release_context(device))

/* Tests cannot inject failures into this function and the next two, which do not call count_call(). The real
 * functions fail only after the driver or the context was destroyed, when leat has no objects in it any more. */
cu_result cuCtxGetCurrent(cu_context *context)
{
    *context = current();
    return LEATI_CUDA_SUCCESS;
}

cu_result cuCtxPushCurrent_v2(cu_context context)
{
    if (!context || depth == STACK_MOST)
        return LEATI_CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return LEATI_CUDA_SUCCESS;
}

cu_result cuCtxPopCurrent_v2(cu_context *context)
{
    if (!depth)
        return LEATI_CUDA_ERROR_INVALID_CONTEXT;
    *context = stack[--depth];
    return LEATI_CUDA_SUCCESS;
}

cu_result cuCtxGetDevice(cu_device *device)
{
    TRY(enter_context());
    *device = current()->device;
    return LEATI_CUDA_SUCCESS;
}

FORWARD_AFTER(enter_uncaptured(NULL), cu_result cuCtxSynchronize(void), synchronize_context())

static atomic_uint peer_count; /* successful calls of cuCtxEnablePeerAccess() */

cu_result cuCtxEnablePeerAccess(cu_context peer, unsigned int flags)
{
    TRY(enter_context());
    if (peer == current())
        return LEATI_CUDA_ERROR_INVALID_DEVICE;
    atomic_fetch_add(&peer_count, 1);
    return LEATI_CUDA_SUCCESS;
}

/* ---- memory ---- */

static cu_result make_on_device(enum place place, cu_deviceptr *ptr, size_t bytes)
{
    void *start;

    TRY(make_memory(place, bytes, &start));
    *ptr = (cu_deviceptr)(uintptr_t)start;
    return LEATI_CUDA_SUCCESS;
}

FORWARD(cu_result cuMemGetInfo_v2(size_t *available, size_t *total), memory_info(available, total))
FORWARD_AFTER(enter_unsafe_context(), cu_result cuMemAlloc_v2(cu_deviceptr *ptr, size_t bytes),
              bytes ? make_on_device(ON_DEVICE, ptr, bytes) : LEATI_CUDA_ERROR_INVALID_VALUE)
FORWARD_AFTER(enter_unsafe_context(), cu_result cuMemFree_v2(cu_deviceptr ptr),
              drop_memory(ON_DEVICE | POOLED | MANAGED, address(ptr)))
static cu_result make_pooled_on(cu_deviceptr *ptr, size_t bytes, cu_stream stream);
FORWARD(cu_result cuMemAllocAsync(cu_deviceptr *ptr, size_t bytes, cu_stream stream),
        make_pooled_on(ptr, bytes, stream))
FORWARD_AFTER(enter_stream(stream), cu_result cuMemFreeAsync(cu_deviceptr ptr, cu_stream stream),
              drop_memory(ON_DEVICE | POOLED, address(ptr)))

FORWARD_AFTER(enter_context(), cu_result cuMemAllocManaged(cu_deviceptr *ptr, size_t bytes, unsigned int flags),
              flags == LEATI_CU_MEM_ATTACH_GLOBAL ? make_on_device(MANAGED, ptr, bytes)
                                                  : LEATI_CUDA_ERROR_INVALID_VALUE)

/* Returns the managed allocation that contains the whole range, and keeps the lock for the caller. If there is
 * none, releases the lock and returns NULL. */
static struct memory *lock_managed(cu_deviceptr ptr, size_t bytes)
{
    struct memory *memory;

    pthread_mutex_lock(&lock);
    memory = *find(address(ptr));
    if (memory && memory->place == MANAGED && bytes &&
        bytes <= memory->bytes - (size_t)((char *)address(ptr) - memory->start))
        return memory;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int number_of(cu_mem_location location)
{
    if (location.type == LEATI_CU_MEM_LOCATION_TYPE_HOST)
        return LEATI_CU_DEVICE_CPU;
    return location.type == LEATI_CU_MEM_LOCATION_TYPE_DEVICE ? location.id : LEATI_CU_DEVICE_INVALID;
}

static cu_result prefetch(cu_deviceptr ptr, size_t bytes, int device, cu_stream stream)
{
    struct memory *memory;

    TRY(enter_stream(stream));
    if (device < LEATI_CU_DEVICE_CPU || device >= DEVICES_MOST)
        return LEATI_CUDA_ERROR_INVALID_DEVICE;
    memory = lock_managed(ptr, bytes);
    if (!memory)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    memory->prefetched = device;
    pthread_mutex_unlock(&lock);
    return LEATI_CUDA_SUCCESS;
}

FORWARD(cu_result cuMemPrefetchAsync(cu_deviceptr ptr, size_t bytes, cu_device device, cu_stream stream),
        prefetch(ptr, bytes, device, stream))
FORWARD(cu_result cuMemPrefetchAsync_v2(cu_deviceptr ptr, size_t bytes, cu_mem_location location,
                                        unsigned int flags, cu_stream stream),
        flags ? LEATI_CUDA_ERROR_INVALID_VALUE : prefetch(ptr, bytes, number_of(location), stream))

static cu_result advise(cu_deviceptr ptr, size_t bytes, cu_mem_advice advice, int device)
{
    struct memory *memory;

    TRY(enter_context());
    if (device < LEATI_CU_DEVICE_CPU || device >= DEVICES_MOST)
        return LEATI_CUDA_ERROR_INVALID_DEVICE;
    memory = lock_managed(ptr, bytes);
    if (!memory)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    if (advice == LEATI_CU_MEM_ADVISE_SET_READ_MOSTLY || advice == LEATI_CU_MEM_ADVISE_UNSET_READ_MOSTLY)
        memory->read_mostly = advice == LEATI_CU_MEM_ADVISE_SET_READ_MOSTLY;
    else if (advice == LEATI_CU_MEM_ADVISE_SET_PREFERRED_LOCATION)
        memory->preferred = device;
    else if (advice == LEATI_CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
        memory->preferred = LEATI_CU_DEVICE_INVALID;
    else
        memory->used_by[device < 0 ? DEVICES_MOST : device] = advice == LEATI_CU_MEM_ADVISE_SET_ACCESSED_BY;
    pthread_mutex_unlock(&lock);
    return LEATI_CUDA_SUCCESS;
}

FORWARD(cu_result cuMemAdvise(cu_deviceptr ptr, size_t bytes, cu_mem_advice advice, cu_device device),
        advise(ptr, bytes, advice, device))
FORWARD(cu_result cuMemAdvise_v2(cu_deviceptr ptr, size_t bytes, cu_mem_advice advice, cu_mem_location location),
        advise(ptr, bytes, advice, number_of(location)))

/* Lists the devices that are advised to access the memory, and fills the rest of the array with
 * LEATI_CU_DEVICE_INVALID. */
static void list_users(const struct memory *memory, int *users, size_t room)
{
    size_t count = 0;

    for (int i = 0; i <= DEVICES_MOST && count < room; i++)
        if (memory->used_by[i])
            users[count++] = i == DEVICES_MOST ? LEATI_CU_DEVICE_CPU : i;
    while (count < room)
        users[count++] = LEATI_CU_DEVICE_INVALID;
}

cu_result cuMemRangeGetAttributes(void **values, size_t *sizes, cu_range_attribute *wanted, size_t count,
                                  cu_deviceptr ptr, size_t bytes)
{
    struct memory *memory;

    TRY(enter_context());
    memory = lock_managed(ptr, bytes);
    if (!memory)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (wanted[i] == LEATI_CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
            list_users(memory, values[i], sizes[i] / sizeof(int));
        else if (wanted[i] == LEATI_CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY)
            *(int *)values[i] = memory->read_mostly;
        else
            *(int *)values[i] = wanted[i] == LEATI_CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION ? memory->preferred
                                                                                             : memory->prefetched;
    }
    pthread_mutex_unlock(&lock);
    return LEATI_CUDA_SUCCESS;
}

/* The range must be a whole allocation. */
cu_result cuStreamAttachMemAsync(cu_stream stream, cu_deviceptr ptr, size_t bytes, unsigned int flags)
{
    struct memory *memory;
    bool whole;

    TRY(enter_stream(stream));
    if (flags != LEATI_CU_MEM_ATTACH_GLOBAL && flags != LEATI_CU_MEM_ATTACH_HOST &&
        flags != LEATI_CU_MEM_ATTACH_SINGLE)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    memory = lock_managed(ptr, 1);
    if (!memory)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    whole = memory->start == address(ptr) && (!bytes || bytes == memory->bytes);
    pthread_mutex_unlock(&lock);
    return whole ? LEATI_CUDA_SUCCESS : LEATI_CUDA_ERROR_INVALID_VALUE;
}

FORWARD_AFTER(enter_unsafe_context(), cu_result cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags),
              make_pinned(bytes, flags, ptr))
FORWARD_AFTER(enter_context(), cu_result cuMemFreeHost(void *ptr), drop_memory(PINNED, ptr))
FORWARD_AFTER(enter_unsafe_context(), cu_result cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags),
              register_memory(ptr, bytes, flags))
FORWARD_AFTER(enter_unsafe_context(), cu_result cuMemHostUnregister(void *ptr), unregister_memory(ptr))

cu_result cuMemHostGetDevicePointer_v2(cu_deviceptr *device_pointer, void *ptr, unsigned int flags)
{
    TRY(enter_context());
    *device_pointer = (cu_deviceptr)(uintptr_t)ptr;
    return LEATI_CUDA_SUCCESS;
}

/* Attributes that leat does not ask for. */
enum { BUFFER_ID = 7, LEGACY_IPC_CAPABLE = 10, MEMPOOL_HANDLE = 17 };

/* Writes one attribute. memory is NULL for an unknown address. */
static void put_attribute(cu_pointer_attribute attribute, const struct memory *memory, cu_deviceptr ptr,
                          void *value)
{
    bool host = memory && (memory->place == PINNED || memory->place == REGISTERED);

    switch ((int)attribute) {
    case LEATI_CU_POINTER_ATTRIBUTE_CONTEXT:
        *(cu_context *)value = memory && memory->place != POOLED ? memory->context : NULL;
        break;
    case LEATI_CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)value = !memory ? 0u : host ? LEATI_CU_MEMORYTYPE_HOST : LEATI_CU_MEMORYTYPE_DEVICE;
        break;
    case LEATI_CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(cu_deviceptr *)value = memory ? ptr : 0;
        break;
    case LEATI_CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned char *)value = memory && memory->place == MANAGED;
        break;
    case LEATI_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = memory ? memory->context->device : -2;
        break;
    case BUFFER_ID:
        *(unsigned long long *)value = memory ? memory->id : 0;
        break;
    case LEGACY_IPC_CAPABLE:
        *(unsigned char *)value = memory && memory->place == ON_DEVICE;
        break;
    case MEMPOOL_HANDLE:
        *(void **)value = memory ? memory->pool : NULL;
        break;
    case LEATI_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(cu_deviceptr *)value = memory && !memory->start_unknown ? (cu_deviceptr)(uintptr_t)memory->start : 0;
        break;
    default:
        *(size_t *)value = memory ? memory->bytes : 0;
        break;
    }
}

cu_result cuPointerGetAttributes(unsigned int number, cu_pointer_attribute *attributes, void **values,
                                 cu_deviceptr ptr)
{
    TRY(count_call());
    pthread_mutex_lock(&lock);
    for (unsigned int i = 0; i < number; i++)
        put_attribute(attributes[i], *find(address(ptr)), ptr, values[i]);
    pthread_mutex_unlock(&lock);
    return LEATI_CUDA_SUCCESS;
}

/* ---- virtual memory: this GPU has none ---- */

FORWARD(cu_result cuMemGetAllocationGranularity(size_t *bytes, const cu_mem_properties *properties,
                                                cu_granularity_kind kind),
        LEATI_CUDA_ERROR_NOT_SUPPORTED)
FORWARD(cu_result cuMemAddressReserve(cu_deviceptr *ptr, size_t bytes, size_t alignment, cu_deviceptr wanted,
                                      unsigned long long flags),
        LEATI_CUDA_ERROR_NOT_SUPPORTED)
FORWARD(cu_result cuMemAddressFree(cu_deviceptr ptr, size_t bytes), LEATI_CUDA_ERROR_NOT_SUPPORTED)
FORWARD(cu_result cuMemCreate(cu_mem_handle *handle, size_t bytes, const cu_mem_properties *properties,
                              unsigned long long flags),
        LEATI_CUDA_ERROR_NOT_SUPPORTED)
FORWARD(cu_result cuMemRelease(cu_mem_handle handle), LEATI_CUDA_ERROR_NOT_SUPPORTED)
FORWARD(cu_result cuMemMap(cu_deviceptr ptr, size_t bytes, size_t offset, cu_mem_handle handle,
                           unsigned long long flags),
        LEATI_CUDA_ERROR_NOT_SUPPORTED)
FORWARD(cu_result cuMemUnmap(cu_deviceptr ptr, size_t bytes), LEATI_CUDA_ERROR_NOT_SUPPORTED)
FORWARD(cu_result cuMemSetAccess(cu_deviceptr ptr, size_t bytes, const cu_mem_access *access, size_t number),
        LEATI_CUDA_ERROR_NOT_SUPPORTED)
FORWARD(cu_result cuMemExportToShareableHandle(void *shared, cu_mem_handle handle, cu_handle_type type,
                                               unsigned long long flags),
        LEATI_CUDA_ERROR_NOT_SUPPORTED)
FORWARD(cu_result cuMemImportFromShareableHandle(cu_mem_handle *handle, void *shared, cu_handle_type type),
        LEATI_CUDA_ERROR_NOT_SUPPORTED)

/* ---- copies ---- */

/* Accepts a stream of any context. */
static cu_result copy(void *dst, const void *src, size_t bytes, cu_stream stream)
{
    TRY(enter_context());
    return give_bytes(dst, src, bytes, stream);
}

FORWARD(cu_result cuMemcpyAsync(cu_deviceptr dst, cu_deviceptr src, size_t bytes, cu_stream stream),
        copy(address(dst), address(src), bytes, stream))

/* Returns true for device memory and, like the vendor, for managed memory. */
static bool is_device(cu_deviceptr ptr)
{
    struct memory *memory;

    pthread_mutex_lock(&lock);
    memory = *find(address(ptr));
    pthread_mutex_unlock(&lock);
    return memory && memory->place & (ON_DEVICE | POOLED | MANAGED);
}

FORWARD(cu_result cuMemcpyHtoDAsync_v2(cu_deviceptr dst, const void *src, size_t bytes, cu_stream stream),
        is_device(dst) ? copy(address(dst), src, bytes, stream) : LEATI_CUDA_ERROR_INVALID_VALUE)
FORWARD(cu_result cuMemcpyDtoHAsync_v2(void *dst, cu_deviceptr src, size_t bytes, cu_stream stream),
        is_device(src) ? copy(dst, address(src), bytes, stream) : LEATI_CUDA_ERROR_INVALID_VALUE)
FORWARD(cu_result cuMemcpyDtoDAsync_v2(cu_deviceptr dst, cu_deviceptr src, size_t bytes, cu_stream stream),
        is_device(dst) && is_device(src) ? copy(address(dst), address(src), bytes, stream)
                                         : LEATI_CUDA_ERROR_INVALID_VALUE)

cu_result cuMemcpyPeerAsync(cu_deviceptr dst, cu_context dst_context, cu_deviceptr src, cu_context src_context,
                            size_t bytes, cu_stream stream)
{
    struct queue_work work = range_work(address(dst), address(src), bytes);

    TRY(enter_stream(stream));
    if (!dst_context || !src_context || dst_context == src_context)
        return LEATI_CUDA_ERROR_INVALID_CONTEXT;
    return give(stream, &work, false);
}

static bool is_known_type(unsigned type)
{
    return type == LEATI_CU_MEMORYTYPE_HOST || type == LEATI_CU_MEMORYTYPE_DEVICE ||
           type == LEATI_CU_MEMORYTYPE_UNIFIED;
}

/* Returns true if the real cuMemcpy3DAsync() would accept the memory types, pitches and heights of the region. */
static bool is_region(const cu_region_copy *copy)
{
    return is_known_type(copy->src_type) && is_known_type(copy->dst_type) && copy->src_pitch >= copy->width &&
           copy->dst_pitch >= copy->width && copy->src_pitch <= INT32_MAX && copy->dst_pitch <= INT32_MAX &&
           copy->src_height >= copy->height && copy->dst_height >= copy->height;
}

static struct queue_work box_work(const cu_region_copy *copy)
{
    return (struct queue_work){
        .src = copy->src_type == LEATI_CU_MEMORYTYPE_HOST ? copy->src_host : address(copy->src_device),
        .dst = copy->dst_type == LEATI_CU_MEMORYTYPE_HOST ? copy->dst_host : address(copy->dst_device),
        .width = copy->width,
        .height = copy->height,
        .depth = copy->depth,
        .src_pitch = copy->src_pitch,
        .dst_pitch = copy->dst_pitch,
        .src_slice = copy->src_height * copy->src_pitch,
        .dst_slice = copy->dst_height * copy->dst_pitch,
    };
}

cu_result cuMemcpy3DAsync_v2(const cu_region_copy *copy, cu_stream stream)
{
    struct queue_work work;

    TRY(enter_context());
    if (!is_region(copy) || copy->src_context || copy->dst_context)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    work = box_work(copy);
    return give_rows(&work, stream);
}

cu_result cuMemcpy3DPeerAsync(const cu_region_copy_peer *copy, cu_stream stream)
{
    struct queue_work work;

    TRY(enter_stream(stream));
    if (!is_region(copy))
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    if (!copy->dst_context || !copy->src_context || copy->dst_context == copy->src_context)
        return LEATI_CUDA_ERROR_INVALID_CONTEXT;
    work = box_work(copy);
    return give(stream, &work, false);
}

FORWARD(cu_result cuMemsetD8Async(cu_deviceptr dst, unsigned char value, size_t number, cu_stream stream),
        fill(address(dst), &value, sizeof value, number, stream))
FORWARD(cu_result cuMemsetD16Async(cu_deviceptr dst, unsigned short value, size_t number, cu_stream stream),
        fill(address(dst), &value, sizeof value, number, stream))
FORWARD(cu_result cuMemsetD32Async(cu_deviceptr dst, unsigned int value, size_t number, cu_stream stream),
        fill(address(dst), &value, sizeof value, number, stream))

/* ---- streams and events ---- */

FORWARD(cu_result cuStreamCreate(cu_stream *stream, unsigned int flags), create_stream(stream, flags))
FORWARD(cu_result cuStreamDestroy_v2(cu_stream stream), destroy_stream(stream))
FORWARD_AFTER(enter_uncaptured(stream), cu_result cuStreamQuery(cu_stream stream), query_stream(stream))
FORWARD_AFTER(enter_unsafe(), cu_result cuStreamSynchronize(cu_stream stream), synchronize_stream(stream))
FORWARD(cu_result cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned int flags),
        wait_event(stream, event))
FORWARD(cu_result cuLaunchHostFunc(cu_stream stream, cu_host_function function, void *argument),
        launch_host(stream, function, argument))

cu_result cuStreamGetCtx(cu_stream stream, cu_context *context)
{
    TRY(enter_context());
    *context = stream->context;
    return LEATI_CUDA_SUCCESS;
}

FORWARD(cu_result cuEventCreate(cu_event *event, unsigned int flags), create_event(event))
FORWARD(cu_result cuEventDestroy_v2(cu_event event), destroy_event(event))
FORWARD_AFTER(enter_uncaptured(stream), cu_result cuEventRecord(cu_event event, cu_stream stream),
              record_event(event, stream))
FORWARD_AFTER(enter_unsafe(), cu_result cuEventQuery(cu_event event), query_event(event))

cu_result cuThreadExchangeStreamCaptureMode(unsigned int *mode)
{
    unsigned int before = capture_mode;

    capture_mode = *mode;
    *mode = before;
    return LEATI_CUDA_SUCCESS;
}

FORWARD(cu_result cuEventSynchronize(cu_event event), synchronize_event(event))
FORWARD(cu_result cuEventElapsedTime(float *milliseconds, cu_event start, cu_event end),
        elapsed(milliseconds, start, end))

/* ---- modules ---- */

static atomic_uint fatbin_count, text_count; /* images that were given to cuModuleLoadDataEx */

/* Returns true if a fatbin has machine code for the devices. */
static bool has_code(const char *fatbin)
{
    unsigned compute = (unsigned)setting("compute=", 91), architecture, entry_header_bytes;
    uint64_t content_bytes, entry_bytes;
    uint16_t header_bytes, kind;
    const char *at, *end;

    memcpy(&header_bytes, fatbin + 6, sizeof header_bytes);
    memcpy(&content_bytes, fatbin + 8, sizeof content_bytes);
    at = fatbin + header_bytes;
    for (end = at + content_bytes; at < end; at += entry_header_bytes + entry_bytes) {
        memcpy(&kind, at, sizeof kind);
        memcpy(&entry_header_bytes, at + 4, sizeof entry_header_bytes);
        memcpy(&entry_bytes, at + 8, sizeof entry_bytes);
        memcpy(&architecture, at + 28, sizeof architecture);
        if (kind == 2 && architecture / 10 == compute / 10 && architecture % 10 <= compute % 10)
            return true;
    }
    return false;
}

static cu_result load_fatbin(cu_module *module, const char *fatbin)
{
    cu_result refused = (cu_result)setting("code=", LEATI_CUDA_SUCCESS);

    atomic_fetch_add(&fatbin_count, 1);
    if (refused != LEATI_CUDA_SUCCESS)
        return refused;
    return has_code(fatbin) ? make_module(module) : LEATI_CUDA_ERROR_NO_BINARY_FOR_GPU;
}

cu_result cuModuleLoadDataEx(cu_module *module, const void *image, unsigned int number, cu_jit_option *options,
                             void **values)
{
    TRY(enter_context());
    if (!memcmp(image, "\x50\xed\x55\xba", 4))
        return load_fatbin(module, image);
    atomic_fetch_add(&text_count, 1);
    if (!strstr(image, ".version")) {
        for (unsigned int i = 0; i < number; i++)
            if (options[i] == LEATI_CU_JIT_ERROR_LOG_BUFFER)
                strcpy(values[i], "line 1;\nno .version\n");
        return LEATI_CUDA_ERROR_INVALID_PTX;
    }
    return make_module(module);
}

FORWARD(cu_result cuModuleUnload(cu_module module), unload_module(module))

cu_result cuModuleGetFunction(cu_function *function, cu_module module, const char *name)
{
    TRY(enter_context());
    if (strncmp(name, "leat_", 5) != 0)
        return LEATI_CUDA_ERROR_NOT_FOUND;
    *function = &the_kernel;
    return LEATI_CUDA_SUCCESS;
}

FORWARD(cu_result cuFuncLoad(cu_function function), enter_context())

cu_result cuFuncGetAttribute(int *value, cu_function_attribute attribute, cu_function function)
{
    TRY(enter_context());
    if (attribute == LEATI_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        *value = function->shared_limit;
    else
        *value = attribute == LEATI_CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? 64 : 1024;
    return LEATI_CUDA_SUCCESS;
}

cu_result cuFuncSetAttribute(cu_function function, cu_function_attribute attribute, int value)
{
    TRY(enter_context());
    if (attribute != LEATI_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    function->shared_limit = value;
    return LEATI_CUDA_SUCCESS;
}

cu_result cuFuncGetParamInfo(cu_function function, size_t index, size_t *offset, size_t *bytes)
{
    TRY(enter_context());
    if (index >= 4)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * index;
    *bytes = 8;
    return LEATI_CUDA_SUCCESS;
}

cu_result cuLaunchKernel(cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                         unsigned int block_x, unsigned int block_y, unsigned int block_z,
                         unsigned int shared_bytes, cu_stream stream, void **args, void **extra)
{
    TRY(enter_stream(stream));
    if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z ||
        (int)shared_bytes > function->shared_limit)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    return LEATI_CUDA_SUCCESS;
}

#include "fake_cuda_more.h"

/* ---- functions that tests call ---- */

EXPORT unsigned fake_cuda_depth(void);
EXPORT void *fake_cuda_context(int device);
EXPORT void fake_cuda_forget_start(const void *ptr);
EXPORT int fake_cuda_references(int device);
EXPORT unsigned fake_cuda_peers(void);
EXPORT void fake_cuda_images(unsigned *fatbins, unsigned *texts);

/* Returns the depth of this thread's context stack. leat must leave it unchanged. */
unsigned fake_cuda_depth(void)
{
    return depth;
}

/* Returns a context of the device that stands for one that the user created. */
void *fake_cuda_context(int device)
{
    static struct CUctx_st users[DEVICES_MOST] = {{.device = 0}, {.device = 1}};

    return &users[device];
}

/* From now on the driver reports the size of this allocation but not its start. */
void fake_cuda_forget_start(const void *ptr)
{
    pthread_mutex_lock(&lock);
    (*find(ptr))->start_unknown = true;
    pthread_mutex_unlock(&lock);
}

/* Returns the number of references to the primary context of a device. */
int fake_cuda_references(int device)
{
    int references;

    pthread_mutex_lock(&lock);
    references = retained[device];
    pthread_mutex_unlock(&lock);
    return references;
}

/* Returns how often a context was given access to a peer. */
unsigned fake_cuda_peers(void)
{
    return atomic_load(&peer_count);
}

/* Returns the numbers of fatbins and of other images that leat has tried to load. */
void fake_cuda_images(unsigned *fatbins, unsigned *texts)
{
    *fatbins = atomic_load(&fatbin_count);
    *texts = atomic_load(&text_count);
}
