/*
 * fake_hip.c - a fake libamdhip64.so for tests. It implements the functions that leat calls, on host memory.
 *
 * It is stricter than a GPU, so that mistakes of leat are noticed: streams and events only work on their device,
 * which must be the thread's current one, a copy must stay within one allocation, and the library counts the
 * objects that are not destroyed. Work runs at once unless a test holds its stream (fake_queue.h). A pageable
 * source is read when its copy is submitted. Kernels load and launch but do nothing. The library behaves as HIP
 * 6.3, or as the version in the environment variable FAKE_HIP ("version=50300000"). FAKE_HIP can also request a
 * failure of hipInit ("init=100", its result) or no devices ("devices=0"). Tests control the rest through the
 * functions at the end of fake_device.h.
 */
#include "driver/hip/hip_symbols.h"
#include "driver/hip/hip_types.h"

#define FAKE_CONTEXT ihipCtx_t
#define FAKE_STREAM ihipStream_t
#define FAKE_EVENT ihipEvent_t
#define FAKE_MODULE ihipModule_t
#define FAKE_STREAM_LEGACY NULL
#define FAKE_STREAM_PER_THREAD LEATI_HIP_STREAM_PER_THREAD
#define FAKE_SUCCESS LEATI_hipSuccess
#define FAKE_INVALID_VALUE LEATI_hipErrorInvalidValue
#define FAKE_OUT_OF_MEMORY LEATI_hipErrorOutOfMemory
#define FAKE_INVALID_DEVICE LEATI_hipErrorInvalidDevice
#define FAKE_INVALID_CONTEXT LEATI_hipErrorInvalidContext
#define FAKE_INVALID_HANDLE LEATI_hipErrorInvalidHandle
#define FAKE_NOT_READY LEATI_hipErrorNotReady
#define FAKE_ALREADY_REGISTERED LEATI_hipErrorHostMemoryAlreadyRegistered
#define FAKE_NOT_REGISTERED LEATI_hipErrorHostMemoryNotRegistered
#define FAKE_STREAM_NON_BLOCKING LEATI_hipStreamNonBlocking
#define FAKE_SETTINGS "FAKE_HIP"
#include "fake_device.h"

/* Declares each function with the type that leat calls it with, so a wrong definition below does not compile. */
#define DECLARE(field, name, need, parameters) EXPORT hi_result name parameters;
LEATI_HIP_SYMBOL_LIST(DECLARE)
#undef DECLARE
#define DECLARE(field, name, need, parameters) EXPORT const char *name parameters;
LEATI_HIP_TEXT_LIST(DECLARE)

struct ihipModuleSymbol_t {
    int threads;
};

static struct ihipModuleSymbol_t the_kernel = {.threads = 1024};
static _Thread_local int current_device;

static hi_context current(void)
{
    return &contexts[current_device];
}

static hi_result enter_context(void)
{
    return count_call();
}

static bool is_reachable(const struct memory *memory)
{
    return true;
}

static int version(void)
{
    return setting("version=", LEATI_HIP_VERSION(6, 3));
}

/* ---- start, errors, devices ---- */

FORWARD(hi_result hipInit(unsigned int flags), (hi_result)setting("init=", LEATI_hipSuccess))

hi_result hipRuntimeGetVersion(int *number)
{
    *number = version();
    return LEATI_hipSuccess;
}

const char *hipGetErrorName(hi_result error)
{
#define NAME(constant, value)                                                                                     \
    if (error == (hi_result)(value) && (!strncmp(#constant, "hipError", 8) || !strcmp(#constant, "hipSuccess")))  \
        return #constant;
    LEATI_HIP_CONSTANT_LIST(NAME)
    return "hipErrorUnknown";
}

const char *hipGetErrorString(hi_result error)
{
    return "fake";
}

hi_result hipGetDeviceCount(int *number)
{
    *number = setting("devices=", DEVICES_MOST);
    return *number ? LEATI_hipSuccess : LEATI_hipErrorNoDevice;
}

/* Tests cannot inject failures into this function and the next one, which do not call count_call(). The real
 * functions fail only after the runtime has ended, when leat has no objects in it any more. */
hi_result hipGetDevice(int *device)
{
    *device = current_device;
    return LEATI_hipSuccess;
}

hi_result hipSetDevice(int device)
{
    if (device < 0 || device >= DEVICES_MOST)
        return LEATI_hipErrorInvalidDevice;
    current_device = device;
    return LEATI_hipSuccess;
}

FORWARD(hi_result hipDeviceGet(hi_device *device, int ordinal), get_device(device, ordinal))
FORWARD(hi_result hipDeviceGetPCIBusId(char *text, int bytes, int device), get_device_address(text, bytes, device))

hi_result hipDeviceGetName(char *name, int bytes, hi_device device)
{
    TRY(count_call());
    snprintf(name, (size_t)bytes, "Fake AMD GPU %d", device);
    return LEATI_hipSuccess;
}

hi_result hipDeviceTotalMem(size_t *bytes, hi_device device)
{
    TRY(count_call());
    *bytes = MEMORY_BYTES;
    return LEATI_hipSuccess;
}

hi_result hipDeviceGetAttribute(int *value, hi_device_attribute attribute, int device)
{
    TRY(count_call());
    switch (attribute) {
    case LEATI_hipDeviceAttributeMaxSharedMemoryPerBlock:
        *value = 64 << 10;
        break;
    case LEATI_hipDeviceAttributeMaxThreadsPerBlock:
        *value = 1024;
        break;
    case LEATI_hipDeviceAttributeVirtualMemoryManagementSupported:
        if (version() < LEATI_HIP_VERSION(5, 3))
            return LEATI_hipErrorInvalidValue;
        *value = 0;
        break;
    case LEATI_hipDeviceAttributeCanUseStreamWaitValue: /* work runs at once here, so a stream cannot wait for a
                                                           value */
        *value = 0;
        break;
    default:
        *value = 1;
        break;
    }
    return LEATI_hipSuccess;
}

hi_result hipGetDeviceProperties(hi_properties_5 *properties, int device)
{
    strcpy(properties->architecture, "gfx90a:sramecc+:xnack-");
    return LEATI_hipSuccess;
}

hi_result hipGetDevicePropertiesR0600(hi_properties_6 *properties, int device)
{
    if (version() < LEATI_HIP_VERSION(6, 0)) /* real libraries of that age lack this function */
        return LEATI_hipErrorNotSupported;
    strcpy(properties->architecture, "gfx942:sramecc+:xnack-");
    return LEATI_hipSuccess;
}

hi_result hipDeviceCanAccessPeer(int *reachable, int device, int peer)
{
    TRY(count_call());
    *reachable = device != peer;
    return LEATI_hipSuccess;
}

FORWARD_AFTER(count_call(), hi_result hipDeviceEnablePeerAccess(int peer, unsigned int flags),
              peer == current_device ? LEATI_hipErrorInvalidDevice : LEATI_hipSuccess)
FORWARD(hi_result hipDeviceSynchronize(void), synchronize_context())
FORWARD(hi_result hipDevicePrimaryCtxRetain(hi_context *context, hi_device device),
        retain_context(context, device))
FORWARD(hi_result hipDevicePrimaryCtxRelease(hi_device device), release_context(device))

/* ---- memory ---- */

FORWARD(hi_result hipMemGetInfo(size_t *available, size_t *total), memory_info(available, total))
FORWARD_AFTER(count_call(), hi_result hipMalloc(void **ptr, size_t bytes), make_memory(ON_DEVICE, bytes, ptr))
FORWARD_AFTER(count_call(), hi_result hipFree(void *ptr), drop_memory(ON_DEVICE | MANAGED, ptr))
FORWARD_AFTER(enter_stream(stream), hi_result hipMallocAsync(void **ptr, size_t bytes, hi_stream stream),
              make_memory(ON_DEVICE, bytes, ptr))
FORWARD_AFTER(enter_stream(stream), hi_result hipFreeAsync(void *ptr, hi_stream stream),
              drop_memory(ON_DEVICE, ptr))
FORWARD_AFTER(count_call(), hi_result hipMallocManaged(void **ptr, size_t bytes, unsigned int flags),
              flags == LEATI_hipMemAttachGlobal ? make_memory(MANAGED, bytes, ptr) : LEATI_hipErrorInvalidValue)
FORWARD_AFTER(count_call(), hi_result hipHostMalloc(void **ptr, size_t bytes, unsigned int flags),
              make_pinned(bytes, flags, ptr))
FORWARD_AFTER(count_call(), hi_result hipHostFree(void *ptr), drop_memory(PINNED, ptr))
FORWARD(hi_result hipHostRegister(void *ptr, size_t bytes, unsigned int flags), register_memory(ptr, bytes, flags))
FORWARD(hi_result hipHostUnregister(void *ptr), unregister_memory(ptr))

hi_result hipHostGetDevicePointer(void **device_pointer, void *ptr, unsigned int flags)
{
    TRY(count_call());
    *device_pointer = ptr;
    return LEATI_hipSuccess;
}

hi_result hipMemGetAddressRange(hi_deviceptr *base, size_t *bytes, hi_deviceptr ptr)
{
    struct memory *memory;

    TRY(count_call());
    pthread_mutex_lock(&lock);
    memory = *find(ptr);
    if (memory) {
        *base = memory->start;
        *bytes = memory->bytes;
    }
    pthread_mutex_unlock(&lock);
    return memory ? LEATI_hipSuccess : LEATI_hipErrorNotFound;
}

/* HIP 5 and HIP 6 use different numbers for the memory types, and answer differently for an unknown address. */
static void describe(const struct memory *memory, void *ptr, hi_pointer_attributes *attributes)
{
    bool host = memory->place == PINNED || memory->place == REGISTERED;
    bool six = version() >= LEATI_HIP_VERSION(6, 0);

    *attributes = (hi_pointer_attributes){.device = memory->context->device,
                                          .device_pointer = ptr,
                                          .host_pointer = host ? ptr : NULL,
                                          .is_managed = memory->place == MANAGED};
    if (six)
        attributes->type = memory->place == MANAGED ? LEATI_HIP_6_hipMemoryTypeManaged
                           : host                   ? LEATI_HIP_6_hipMemoryTypeHost
                                                    : LEATI_HIP_6_hipMemoryTypeDevice;
    else
        attributes->type = host ? LEATI_HIP_5_hipMemoryTypeHost : LEATI_HIP_5_hipMemoryTypeDevice;
}

hi_result hipPointerGetAttributes(hi_pointer_attributes *attributes, const void *ptr)
{
    struct memory *memory;

    TRY(count_call());
    pthread_mutex_lock(&lock);
    memory = *find(ptr);
    if (memory)
        describe(memory, (void *)(uintptr_t)ptr, attributes);
    pthread_mutex_unlock(&lock);
    if (memory)
        return LEATI_hipSuccess;
    if (version() < LEATI_HIP_VERSION(6, 0))
        return LEATI_hipErrorInvalidValue;
    *attributes = (hi_pointer_attributes){.type = LEATI_HIP_6_hipMemoryTypeUnregistered, .device = -2};
    return LEATI_hipSuccess;
}

/* ---- advice and prefetches of managed memory, and virtual memory: this GPU supports neither ---- */

FORWARD(hi_result hipMemPrefetchAsync(const void *ptr, size_t bytes, int device, hi_stream stream),
        LEATI_hipErrorNotSupported)
FORWARD(hi_result hipMemAdvise(const void *ptr, size_t bytes, hi_mem_advice advice, int device),
        LEATI_hipErrorNotSupported)
FORWARD(hi_result hipMemRangeGetAttributes(void **data, size_t *sizes, hi_range_attribute *attributes,
                                           size_t number, const void *ptr, size_t bytes),
        LEATI_hipErrorNotSupported)
FORWARD(hi_result hipStreamAttachMemAsync(hi_stream stream, void *ptr, size_t bytes, unsigned int flags),
        LEATI_hipErrorNotSupported)
FORWARD(hi_result hipMemGetAllocationGranularity(size_t *bytes, const hi_mem_properties *properties,
                                                 hi_granularity_kind kind),
        LEATI_hipErrorNotSupported)
FORWARD(hi_result hipMemAddressReserve(void **ptr, size_t bytes, size_t alignment, void *wanted,
                                       unsigned long long flags),
        LEATI_hipErrorNotSupported)
FORWARD(hi_result hipMemAddressFree(void *ptr, size_t bytes), LEATI_hipErrorNotSupported)
FORWARD(hi_result hipMemCreate(hi_mem_handle *handle, size_t bytes, const hi_mem_properties *properties,
                               unsigned long long flags),
        LEATI_hipErrorNotSupported)
FORWARD(hi_result hipMemRelease(hi_mem_handle handle), LEATI_hipErrorNotSupported)
FORWARD(hi_result hipMemMap(void *ptr, size_t bytes, size_t offset, hi_mem_handle handle,
                            unsigned long long flags),
        LEATI_hipErrorNotSupported)
FORWARD(hi_result hipMemUnmap(void *ptr, size_t bytes), LEATI_hipErrorNotSupported)
FORWARD(hi_result hipMemSetAccess(void *ptr, size_t bytes, const hi_mem_access *access, size_t number),
        LEATI_hipErrorNotSupported)
FORWARD(hi_result hipMemExportToShareableHandle(void *shared, hi_mem_handle handle, hi_handle_type type,
                                                unsigned long long flags),
        LEATI_hipErrorNotSupported)
FORWARD(hi_result hipMemImportFromShareableHandle(hi_mem_handle *handle, void *shared, hi_handle_type type),
        LEATI_hipErrorNotSupported)

/* ---- copies ---- */

static bool is_on_device(const void *ptr)
{
    struct memory *memory;
    bool found;

    pthread_mutex_lock(&lock);
    memory = *find(ptr);
    found = memory && (memory->place == ON_DEVICE || memory->place == MANAGED);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Returns true if kind names the direction from src to dst correctly. */
static bool is_right_kind(hi_copy_kind kind, const void *dst, const void *src)
{
    bool to = is_on_device(dst), from = is_on_device(src);

    switch (kind) {
    case LEATI_hipMemcpyHostToHost:
        return !to && !from;
    case LEATI_hipMemcpyHostToDevice:
        return to && !from;
    case LEATI_hipMemcpyDeviceToHost:
        return !to && from;
    case LEATI_hipMemcpyDeviceToDevice:
        return to && from;
    default:
        return kind == LEATI_hipMemcpyDefault;
    }
}

hi_result hipMemcpyAsync(void *dst, const void *src, size_t bytes, hi_copy_kind kind, hi_stream stream)
{
    TRY(enter_stream(stream));
    if (!is_right_kind(kind, dst, src))
        return LEATI_hipErrorInvalidValue;
    return give_bytes(dst, src, bytes, stream);
}

hi_result hipMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t bytes,
                             hi_stream stream)
{
    TRY(enter_stream(stream));
    if (dst_device == src_device || !is_on_device(dst) || !is_on_device(src))
        return LEATI_hipErrorInvalidDevice;
    return give_bytes(dst, src, bytes, stream);
}

hi_result hipMemcpy3DAsync(const hi_region_copy *box, hi_stream stream)
{
    TRY(enter_stream(stream));
    if (box->src_array || box->dst_array || box->src.pitch < box->width || box->dst.pitch < box->width ||
        box->src.pitch > INT32_MAX || box->dst.pitch > INT32_MAX || box->src.height < box->height ||
        box->dst.height < box->height || !is_right_kind(box->kind, box->dst.ptr, box->src.ptr))
        return LEATI_hipErrorInvalidValue;
    return give_rows(&(struct queue_work){.dst = box->dst.ptr,
                                          .src = box->src.ptr,
                                          .width = box->width,
                                          .height = box->height,
                                          .depth = box->depth,
                                          .dst_pitch = box->dst.pitch,
                                          .dst_slice = box->dst.height * box->dst.pitch,
                                          .src_pitch = box->src.pitch,
                                          .src_slice = box->src.height * box->src.pitch},
                     stream);
}

FORWARD(hi_result hipMemsetD8Async(hi_deviceptr dst, unsigned char value, size_t number, hi_stream stream),
        fill(dst, &value, sizeof value, number, stream))
FORWARD(hi_result hipMemsetD16Async(hi_deviceptr dst, unsigned short value, size_t number, hi_stream stream),
        fill(dst, &value, sizeof value, number, stream))
FORWARD(hi_result hipMemsetD32Async(hi_deviceptr dst, int value, size_t number, hi_stream stream),
        fill(dst, &value, sizeof value, number, stream))

/* ---- streams and events ---- */

FORWARD(hi_result hipStreamCreateWithFlags(hi_stream *stream, unsigned int flags), create_stream(stream, flags))
FORWARD(hi_result hipStreamDestroy(hi_stream stream), destroy_stream(stream))
FORWARD(hi_result hipStreamQuery(hi_stream stream), query_stream(stream))
FORWARD(hi_result hipStreamSynchronize(hi_stream stream), synchronize_stream(stream))
FORWARD(hi_result hipStreamWaitEvent(hi_stream stream, hi_event event, unsigned int flags),
        wait_event(stream, event))
FORWARD(hi_result hipStreamWaitValue32(hi_stream stream, void *word, uint32_t value, unsigned int flags,
                                       uint32_t mask),
        LEATI_hipErrorNotSupported)
FORWARD(hi_result hipStreamWriteValue32(hi_stream stream, void *word, uint32_t value, unsigned int flags),
        LEATI_hipErrorNotSupported)
FORWARD(hi_result hipLaunchHostFunc(hi_stream stream, hi_host_function function, void *argument),
        launch_host(stream, function, argument))

hi_result hipStreamGetDevice(hi_stream stream, hi_device *device)
{
    TRY(count_call());
    *device = stream->context->device;
    return LEATI_hipSuccess;
}

struct callback {
    hi_stream stream;
    hi_stream_callback function;
    void *argument;
};

static void run_callback(void *argument)
{
    struct callback *callback = argument;

    callback->function(callback->stream, LEATI_hipSuccess, callback->argument);
    free(callback);
}

hi_result hipStreamAddCallback(hi_stream stream, hi_stream_callback callback, void *argument, unsigned int flags)
{
    struct callback *kept;

    TRY(enter_stream(stream));
    if (flags)
        return LEATI_hipErrorInvalidValue;
    kept = malloc(sizeof *kept);
    if (!kept)
        return LEATI_hipErrorOutOfMemory;
    *kept = (struct callback){.stream = stream, .function = callback, .argument = argument};
    return give(stream, &(struct queue_work){.function = run_callback, .argument = kept}, false);
}

FORWARD(hi_result hipEventCreateWithFlags(hi_event *event, unsigned int flags), create_event(event))
FORWARD(hi_result hipEventDestroy(hi_event event), destroy_event(event))
FORWARD(hi_result hipEventRecord(hi_event event, hi_stream stream), record_event(event, stream))
FORWARD(hi_result hipEventQuery(hi_event event), query_event(event))
FORWARD(hi_result hipEventSynchronize(hi_event event), synchronize_event(event))
FORWARD(hi_result hipEventElapsedTime(float *milliseconds, hi_event start, hi_event end),
        elapsed(milliseconds, start, end))

/* ---- modules ---- */

/* Accepts code objects for gfx942 and gfx90a only. The processor is in the flags of the ELF header
 * (EF_AMDGPU_MACH). */
hi_result hipModuleLoadData(hi_module *module, const void *image)
{
    unsigned char gpu = ((const unsigned char *)image)[48];

    TRY(count_call());
    if (memcmp(image, "\177ELF", 4) != 0)
        return LEATI_hipErrorInvalidValue;
    if (gpu != 0x4c && gpu != 0x3f)
        return LEATI_hipErrorNoBinaryForGpu;
    return make_module(module);
}

FORWARD(hi_result hipModuleUnload(hi_module module), unload_module(module))

hi_result hipModuleGetFunction(hi_function *function, hi_module module, const char *name)
{
    TRY(count_call());
    if (strncmp(name, "leat_", 5) != 0)
        return LEATI_hipErrorNotFound;
    *function = &the_kernel;
    return LEATI_hipSuccess;
}

hi_result hipFuncGetAttribute(int *value, hi_function_attribute attribute, hi_function function)
{
    TRY(count_call());
    *value = attribute == LEATI_HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? 64 : function->threads;
    return LEATI_hipSuccess;
}

hi_result hipModuleLaunchKernel(hi_function function, unsigned int grid_x, unsigned int grid_y,
                                unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                unsigned int block_z, unsigned int shared_bytes, hi_stream stream, void **args,
                                void **extra)
{
    TRY(enter_stream(stream));
    if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z || shared_bytes > (64 << 10) - 64)
        return LEATI_hipErrorInvalidValue;
    return LEATI_hipSuccess;
}
