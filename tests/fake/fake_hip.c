/*
 * fake_hip.c - a libamdhip64.so for tests: the functions that leat calls, on host memory.
 *
 * It is strict where a mistake of leat's would hide on a GPU: streams and events only work on their device, which
 * must be the thread's current one, a copy stays within one allocation, and what is made and not given back is
 * counted. Work is done at once unless a test holds its stream (fake_queue.h); a pageable source is read when its
 * copy is given. Kernels load and launch but do nothing. It speaks as HIP 6.3, or as the version in the
 * environment variable FAKE_HIP ("version=50300000"), which also picks a library that does not start ("init=100"
 * is what hipInit returns; "devices=0"). Tests steer it through the fake_hip_* functions at its end.
 */
#include "driver/hip/hip_symbols.h"
#include "driver/hip/hip_types.h"
#include "fake_queue.h"

#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

/* Each function that follows has the type that leat calls it with, or this file does not compile. */
#define DECLARE(field, name, need, parameters) EXPORT hi_result name parameters;
LEATI_HIP_SYMBOL_LIST(DECLARE)
#undef DECLARE
#define DECLARE(field, name, need, parameters) EXPORT const char *name parameters;
LEATI_HIP_TEXT_LIST(DECLARE)

#define DEVICES_MOST 2
#define MEMORY_BYTES ((size_t)64 << 20)

struct ihipCtx_t {
    int device;
    struct queue legacy,
        per_thread; /* the device's default streams, begun at first use; their group is this struct */
};

struct ihipStream_t {
    int device;
    struct queue queue;
};

struct ihipEvent_t {
    int device;
    struct queue_mark mark;
};

struct ihipModule_t {
    int device;
};

struct ihipModuleSymbol_t {
    int threads;
};

enum place { ON_DEVICE = 1, PINNED = 2, REGISTERED = 4, MANAGED = 8 };

struct memory {
    struct memory *next;
    enum place place;
    char *start;
    size_t bytes;
    int device;
};

/* Guards all that follows, but the current device, which belongs to its thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ihipCtx_t contexts[DEVICES_MOST] = {{.device = 0}, {.device = 1}};
static int retained[DEVICES_MOST];
static struct memory *memories;
static struct ihipModuleSymbol_t the_kernel = {.threads = 1024};
static unsigned live, calls, fail_at;
static hi_result fail_with;

static _Thread_local int current;

/* The number after name in FAKE_HIP, or initial. */
static int setting(const char *name, int initial)
{
    const char *text = getenv("FAKE_HIP");

    if (!text || strncmp(text, name, strlen(name)) != 0)
        return initial;
    return atoi(text + strlen(name));
}

static int version(void)
{
    return setting("version=", LEATI_HIP_VERSION(6, 3));
}

/* Counts a call and gives the failure that it was told to have. */
static hi_result enter(void)
{
    hi_result result = LEATI_hipSuccess;

    pthread_mutex_lock(&lock);
    if (++calls == fail_at)
        result = fail_with;
    pthread_mutex_unlock(&lock);
    return result;
}

static bool is_default(hi_stream stream)
{
    return !stream || stream == LEATI_HIP_STREAM_PER_THREAD;
}

/* The queue of a stream; the default ones are those of a device. */
static struct queue *queue_of(hi_stream stream, int device)
{
    struct ihipCtx_t *context = &contexts[device];
    struct queue *queue;

    if (!is_default(stream))
        return &stream->queue;
    queue = stream ? &context->per_thread : &context->legacy;
    lock_queues();
    if (!queue->group)
        queue_begin(queue, context, stream ? QUEUE_WITH_DEFAULT : QUEUE_DEFAULT);
    unlock_queues();
    return queue;
}

static hi_result give(hi_stream stream, const struct queue_work *work, bool take)
{
    return queue_give(queue_of(stream, current), work, take) ? LEATI_hipSuccess : LEATI_hipErrorOutOfMemory;
}

/* Also checks that the stream is one of the current device. */
static hi_result enter_stream(hi_stream stream)
{
    hi_result result = enter();

    if (result != LEATI_hipSuccess || is_default(stream))
        return result;
    return stream->device == current ? LEATI_hipSuccess : LEATI_hipErrorInvalidHandle;
}

#define TRY(expression)                                                                                           \
    do {                                                                                                          \
        hi_result result_ = (expression);                                                                         \
        if (result_ != LEATI_hipSuccess)                                                                          \
            return result_;                                                                                       \
    } while (0)

static void count(int change)
{
    pthread_mutex_lock(&lock);
    live += (unsigned)change;
    pthread_mutex_unlock(&lock);
}

/* ---- start, errors, devices ---- */

hi_result hipInit(unsigned int flags)
{
    (void)flags;
    return (hi_result)setting("init=", LEATI_hipSuccess);
}

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
    (void)error;
    return "fake";
}

hi_result hipGetDeviceCount(int *number)
{
    *number = setting("devices=", DEVICES_MOST);
    return *number ? LEATI_hipSuccess : LEATI_hipErrorNoDevice;
}

/* This and the next do not count as calls that may be told to fail: they only fail when the runtime is gone, and
 * all that was in it. */
hi_result hipGetDevice(int *device)
{
    *device = current;
    return LEATI_hipSuccess;
}

hi_result hipSetDevice(int device)
{
    if (device < 0 || device >= DEVICES_MOST)
        return LEATI_hipErrorInvalidDevice;
    current = device;
    return LEATI_hipSuccess;
}

hi_result hipDeviceGet(hi_device *device, int ordinal)
{
    TRY(enter());
    if (ordinal < 0 || ordinal >= DEVICES_MOST)
        return LEATI_hipErrorInvalidDevice;
    *device = ordinal;
    return LEATI_hipSuccess;
}

hi_result hipDeviceGetName(char *name, int bytes, hi_device device)
{
    TRY(enter());
    snprintf(name, (size_t)bytes, "Fake AMD GPU %d", device);
    return LEATI_hipSuccess;
}

hi_result hipDeviceTotalMem(size_t *bytes, hi_device device)
{
    (void)device;
    TRY(enter());
    *bytes = MEMORY_BYTES;
    return LEATI_hipSuccess;
}

hi_result hipDeviceGetAttribute(int *value, hi_device_attribute attribute, int device)
{
    (void)device;
    TRY(enter());
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
    case LEATI_hipDeviceAttributeCanUseStreamWaitValue: /* work is done at once here, so a stream cannot wait */
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
    (void)device;
    strcpy(properties->architecture, "gfx90a:sramecc+:xnack-");
    return LEATI_hipSuccess;
}

hi_result hipGetDevicePropertiesR0600(hi_properties_6 *properties, int device)
{
    (void)device;
    if (version() < LEATI_HIP_VERSION(6, 0)) /* it would not be there at all */
        return LEATI_hipErrorNotSupported;
    strcpy(properties->architecture, "gfx942:sramecc+:xnack-");
    return LEATI_hipSuccess;
}

hi_result hipDeviceGetPCIBusId(char *text, int bytes, int device)
{
    TRY(enter());
    snprintf(text, (size_t)bytes, "FFFF:%02X:00.0", 0x1b + device);
    return LEATI_hipSuccess;
}

hi_result hipDeviceCanAccessPeer(int *reachable, int device, int peer)
{
    TRY(enter());
    *reachable = device != peer;
    return LEATI_hipSuccess;
}

hi_result hipDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    (void)flags;
    TRY(enter());
    return peer == current ? LEATI_hipErrorInvalidDevice : LEATI_hipSuccess;
}

hi_result hipDeviceSynchronize(void)
{
    TRY(enter());
    queue_drain_group(&contexts[current]);
    return LEATI_hipSuccess;
}

hi_result hipDevicePrimaryCtxRetain(hi_context *context, hi_device device)
{
    TRY(enter());
    pthread_mutex_lock(&lock);
    retained[device]++;
    live++;
    pthread_mutex_unlock(&lock);
    *context = &contexts[device];
    return LEATI_hipSuccess;
}

/* What is left of a device's memory because freeing it failed: a real runtime has it until the process ends.
 * Called with the lock held. */
static void free_memories(int device)
{
    struct memory **link = &memories;

    while (*link) {
        struct memory *memory = *link;

        if (memory->device != device) {
            link = &memory->next;
            continue;
        }
        *link = memory->next;
        live--;
        if (memory->place != REGISTERED)
            free(memory->start);
        free(memory);
    }
}

/* Like all calls that end something, it has done so when it reports an earlier failure. */
hi_result hipDevicePrimaryCtxRelease(hi_device device)
{
    pthread_mutex_lock(&lock);
    live--;
    if (!--retained[device])
        free_memories(device);
    pthread_mutex_unlock(&lock);
    return enter();
}

/* ---- memory ---- */

/* The link that points to the memory around ptr, or to the NULL at the list's end. Called with the lock held. */
static struct memory **find(const void *ptr)
{
    struct memory **link = &memories;

    while (*link && !((const char *)ptr >= (*link)->start && (const char *)ptr < (*link)->start + (*link)->bytes))
        link = &(*link)->next;
    return link;
}

static hi_result add(enum place place, void *start, size_t bytes)
{
    struct memory *memory = malloc(sizeof *memory);

    if (!memory)
        return LEATI_hipErrorOutOfMemory;
    pthread_mutex_lock(&lock);
    *memory = (struct memory){.next = memories, .place = place, .start = start, .bytes = bytes, .device = current};
    memories = memory;
    live++;
    pthread_mutex_unlock(&lock);
    return LEATI_hipSuccess;
}

static hi_result make(enum place place, size_t bytes, void **start)
{
    void *made;

    if (bytes > MEMORY_BYTES)
        return LEATI_hipErrorOutOfMemory;
    made = aligned_alloc(512, (bytes + 511) / 512 * 512);
    if (!made)
        return LEATI_hipErrorOutOfMemory;
    *start = made;
    return add(place, made, bytes);
}

/* Takes memory of one of these places off the list, behind all work that was given. */
static hi_result drop(unsigned places, const void *start)
{
    struct memory *memory;
    struct memory **link;

    queue_drain_group(NULL);
    pthread_mutex_lock(&lock);
    link = find(start);
    memory = *link;
    if (!memory || memory->start != start || !(memory->place & places)) {
        pthread_mutex_unlock(&lock);
        return LEATI_hipErrorInvalidValue;
    }
    *link = memory->next;
    live--;
    pthread_mutex_unlock(&lock);
    if (memory->place != REGISTERED)
        free(memory->start);
    free(memory);
    return LEATI_hipSuccess;
}

hi_result hipMemGetInfo(size_t *available, size_t *total)
{
    TRY(enter());
    *available = MEMORY_BYTES;
    *total = MEMORY_BYTES;
    return LEATI_hipSuccess;
}

hi_result hipMalloc(void **ptr, size_t bytes)
{
    TRY(enter());
    return make(ON_DEVICE, bytes, ptr);
}

hi_result hipFree(void *ptr)
{
    TRY(enter());
    return drop(ON_DEVICE | MANAGED, ptr);
}

hi_result hipMallocAsync(void **ptr, size_t bytes, hi_stream stream)
{
    TRY(enter_stream(stream));
    return make(ON_DEVICE, bytes, ptr);
}

hi_result hipFreeAsync(void *ptr, hi_stream stream)
{
    TRY(enter_stream(stream));
    return drop(ON_DEVICE, ptr);
}

hi_result hipMallocManaged(void **ptr, size_t bytes, unsigned int flags)
{
    TRY(enter());
    if (flags != LEATI_hipMemAttachGlobal)
        return LEATI_hipErrorInvalidValue;
    return make(MANAGED, bytes, ptr);
}

hi_result hipHostMalloc(void **ptr, size_t bytes, unsigned int flags)
{
    (void)flags;
    TRY(enter());
    return make(PINNED, bytes, ptr);
}

hi_result hipHostFree(void *ptr)
{
    TRY(enter());
    return drop(PINNED, ptr);
}

hi_result hipHostRegister(void *ptr, size_t bytes, unsigned int flags)
{
    bool known;

    (void)flags;
    TRY(enter());
    pthread_mutex_lock(&lock);
    known = *find(ptr) || *find((char *)ptr + bytes - 1);
    pthread_mutex_unlock(&lock);
    return known ? LEATI_hipErrorHostMemoryAlreadyRegistered : add(REGISTERED, ptr, bytes);
}

hi_result hipHostUnregister(void *ptr)
{
    TRY(enter());
    return drop(REGISTERED, ptr) == LEATI_hipSuccess ? LEATI_hipSuccess : LEATI_hipErrorHostMemoryNotRegistered;
}

hi_result hipHostGetDevicePointer(void **device_pointer, void *ptr, unsigned int flags)
{
    (void)flags;
    TRY(enter());
    *device_pointer = ptr;
    return LEATI_hipSuccess;
}

hi_result hipMemGetAddressRange(hi_deviceptr *base, size_t *bytes, hi_deviceptr ptr)
{
    struct memory *memory;

    TRY(enter());
    pthread_mutex_lock(&lock);
    memory = *find(ptr);
    if (memory) {
        *base = memory->start;
        *bytes = memory->bytes;
    }
    pthread_mutex_unlock(&lock);
    return memory ? LEATI_hipSuccess : LEATI_hipErrorNotFound;
}

/* HIP 5 and HIP 6 differ in the numbers, and in what becomes of an address that they do not know. */
static void describe(const struct memory *memory, void *ptr, hi_pointer_attributes *attributes)
{
    bool host = memory->place == PINNED || memory->place == REGISTERED;
    bool six = version() >= LEATI_HIP_VERSION(6, 0);

    *attributes = (hi_pointer_attributes){.device = memory->device,
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

    TRY(enter());
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

/* ---- managed memory beside the host, and virtual memory: this GPU has none ---- */

hi_result hipMemPrefetchAsync(const void *ptr, size_t bytes, int device, hi_stream stream)
{
    (void)ptr, (void)bytes, (void)device, (void)stream;
    return LEATI_hipErrorNotSupported;
}

hi_result hipMemAdvise(const void *ptr, size_t bytes, hi_mem_advice advice, int device)
{
    (void)ptr, (void)bytes, (void)advice, (void)device;
    return LEATI_hipErrorNotSupported;
}

hi_result hipMemRangeGetAttributes(void **data, size_t *sizes, hi_range_attribute *attributes, size_t number,
                                   const void *ptr, size_t bytes)
{
    (void)data, (void)sizes, (void)attributes, (void)number, (void)ptr, (void)bytes;
    return LEATI_hipErrorNotSupported;
}

hi_result hipStreamAttachMemAsync(hi_stream stream, void *ptr, size_t bytes, unsigned int flags)
{
    (void)stream, (void)ptr, (void)bytes, (void)flags;
    return LEATI_hipErrorNotSupported;
}

hi_result hipMemGetAllocationGranularity(size_t *bytes, const hi_mem_properties *properties,
                                         hi_granularity_kind kind)
{
    (void)bytes, (void)properties, (void)kind;
    return LEATI_hipErrorNotSupported;
}

hi_result hipMemAddressReserve(void **ptr, size_t bytes, size_t alignment, void *wanted, unsigned long long flags)
{
    (void)ptr, (void)bytes, (void)alignment, (void)wanted, (void)flags;
    return LEATI_hipErrorNotSupported;
}

hi_result hipMemAddressFree(void *ptr, size_t bytes)
{
    (void)ptr, (void)bytes;
    return LEATI_hipErrorNotSupported;
}

hi_result hipMemCreate(hi_mem_handle *handle, size_t bytes, const hi_mem_properties *properties,
                       unsigned long long flags)
{
    (void)handle, (void)bytes, (void)properties, (void)flags;
    return LEATI_hipErrorNotSupported;
}

hi_result hipMemRelease(hi_mem_handle handle)
{
    (void)handle;
    return LEATI_hipErrorNotSupported;
}

hi_result hipMemMap(void *ptr, size_t bytes, size_t offset, hi_mem_handle handle, unsigned long long flags)
{
    (void)ptr, (void)bytes, (void)offset, (void)handle, (void)flags;
    return LEATI_hipErrorNotSupported;
}

hi_result hipMemUnmap(void *ptr, size_t bytes)
{
    (void)ptr, (void)bytes;
    return LEATI_hipErrorNotSupported;
}

hi_result hipMemSetAccess(void *ptr, size_t bytes, const hi_mem_access *access, size_t number)
{
    (void)ptr, (void)bytes, (void)access, (void)number;
    return LEATI_hipErrorNotSupported;
}

hi_result hipMemExportToShareableHandle(void *shared, hi_mem_handle handle, hi_handle_type type,
                                        unsigned long long flags)
{
    (void)shared, (void)handle, (void)type, (void)flags;
    return LEATI_hipErrorNotSupported;
}

hi_result hipMemImportFromShareableHandle(hi_mem_handle *handle, void *shared, hi_handle_type type)
{
    (void)handle, (void)shared, (void)type;
    return LEATI_hipErrorNotSupported;
}

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

/* The direction that was named must be the true one. */
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

/* Do these bytes lie in one allocation, or in none, which *pageable says? */
static bool is_usable(const void *ptr, size_t bytes, bool *pageable)
{
    const struct memory *memory;
    bool usable;

    pthread_mutex_lock(&lock);
    memory = *find(ptr);
    *pageable = !memory;
    if (memory)
        usable = bytes <= memory->bytes - (size_t)((const char *)ptr - memory->start);
    else
        usable = !*find((const char *)ptr + bytes - 1);
    pthread_mutex_unlock(&lock);
    return usable;
}

static size_t reach(const struct queue_work *work, size_t pitch, size_t slice)
{
    return (work->depth - 1) * slice + (work->height - 1) * pitch + work->width;
}

/* A pageable source is read now, and a pageable destination is written when the call is back. */
static hi_result give_rows(const struct queue_work *work, hi_stream stream)
{
    bool src_pageable, dst_pageable;

    if (!is_usable(work->src, reach(work, work->src_pitch, work->src_slice), &src_pageable) ||
        !is_usable(work->dst, reach(work, work->dst_pitch, work->dst_slice), &dst_pageable))
        return LEATI_hipErrorInvalidValue;
    TRY(give(stream, work, src_pageable));
    if (dst_pageable)
        queue_drain(queue_of(stream, current));
    return LEATI_hipSuccess;
}

static hi_result give_bytes(void *dst, const void *src, size_t bytes, hi_stream stream)
{
    return give_rows(&(struct queue_work){.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1},
                     stream);
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

hi_result hipMemcpy3DAsync(const hi_box_copy *box, hi_stream stream)
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

static hi_result fill(void *dst, const void *pattern, size_t pattern_bytes, size_t number, hi_stream stream)
{
    bool pageable;

    TRY(enter_stream(stream));
    if ((uintptr_t)dst % pattern_bytes || !is_usable(dst, number * pattern_bytes, &pageable) || pageable)
        return LEATI_hipErrorInvalidValue;
    return give(
        stream,
        &(struct queue_work){.dst = dst, .pattern = pattern, .pattern_bytes = pattern_bytes, .count = number},
        false);
}

hi_result hipMemsetD8Async(hi_deviceptr dst, unsigned char value, size_t number, hi_stream stream)
{
    return fill(dst, &value, sizeof value, number, stream);
}

hi_result hipMemsetD16Async(hi_deviceptr dst, unsigned short value, size_t number, hi_stream stream)
{
    return fill(dst, &value, sizeof value, number, stream);
}

hi_result hipMemsetD32Async(hi_deviceptr dst, int value, size_t number, hi_stream stream)
{
    return fill(dst, &value, sizeof value, number, stream);
}

/* ---- streams and events ---- */

hi_result hipStreamCreateWithFlags(hi_stream *stream, unsigned int flags)
{
    hi_stream made;

    TRY(enter());
    if (flags > LEATI_hipStreamNonBlocking)
        return LEATI_hipErrorInvalidValue;
    made = malloc(sizeof *made);
    if (!made)
        return LEATI_hipErrorOutOfMemory;
    made->device = current;
    queue_begin(&made->queue, &contexts[current],
                flags == LEATI_hipStreamNonBlocking ? QUEUE_ALONE : QUEUE_WITH_DEFAULT);
    count(1);
    *stream = made;
    return LEATI_hipSuccess;
}

/* Its work runs to its end. */
hi_result hipStreamDestroy(hi_stream stream)
{
    queue_end(&stream->queue);
    free(stream);
    count(-1);
    return enter();
}

hi_result hipStreamQuery(hi_stream stream)
{
    TRY(enter_stream(stream));
    return queue_is_idle(queue_of(stream, current)) ? LEATI_hipSuccess : LEATI_hipErrorNotReady;
}

hi_result hipStreamSynchronize(hi_stream stream)
{
    TRY(enter_stream(stream));
    queue_drain(queue_of(stream, current));
    return LEATI_hipSuccess;
}

hi_result hipStreamWaitEvent(hi_stream stream, hi_event event, unsigned int flags)
{
    (void)flags;
    TRY(enter_stream(stream));
    return give(stream, &(struct queue_work){.wait = &event->mark}, false);
}

hi_result hipStreamWaitValue32(hi_stream stream, void *word, uint32_t value, unsigned int flags, uint32_t mask)
{
    (void)stream, (void)word, (void)value, (void)flags, (void)mask;
    return LEATI_hipErrorNotSupported;
}

hi_result hipStreamWriteValue32(hi_stream stream, void *word, uint32_t value, unsigned int flags)
{
    (void)stream, (void)word, (void)value, (void)flags;
    return LEATI_hipErrorNotSupported;
}

hi_result hipStreamGetDevice(hi_stream stream, hi_device *device)
{
    TRY(enter());
    *device = stream->device;
    return LEATI_hipSuccess;
}

hi_result hipLaunchHostFunc(hi_stream stream, hi_host_function function, void *argument)
{
    TRY(enter_stream(stream));
    return give(stream, &(struct queue_work){.function = function, .argument = argument}, false);
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

hi_result hipEventCreateWithFlags(hi_event *event, unsigned int flags)
{
    hi_event made;

    (void)flags;
    TRY(enter());
    made = malloc(sizeof *made);
    if (!made)
        return LEATI_hipErrorOutOfMemory;
    *made = (struct ihipEvent_t){.device = current};
    count(1);
    *event = made;
    return LEATI_hipSuccess;
}

/* Unlike the vendor's, it waits for what the event marks. */
hi_result hipEventDestroy(hi_event event)
{
    queue_wait_for(&event->mark);
    free(event);
    count(-1);
    return enter();
}

hi_result hipEventRecord(hi_event event, hi_stream stream)
{
    TRY(enter_stream(stream));
    if (event->device != current)
        return LEATI_hipErrorInvalidHandle;
    return give(stream, &(struct queue_work){.mark = &event->mark}, false);
}

hi_result hipEventQuery(hi_event event)
{
    TRY(enter());
    return queue_is_reached(&event->mark) ? LEATI_hipSuccess : LEATI_hipErrorNotReady;
}

hi_result hipEventSynchronize(hi_event event)
{
    TRY(enter());
    queue_wait_for(&event->mark);
    return LEATI_hipSuccess;
}

hi_result hipEventElapsedTime(float *milliseconds, hi_event start, hi_event end)
{
    TRY(enter());
    if (!start->mark.recorded || !end->mark.recorded)
        return LEATI_hipErrorInvalidHandle;
    if (!queue_is_reached(&start->mark) || !queue_is_reached(&end->mark))
        return LEATI_hipErrorNotReady;
    *milliseconds = 0;
    return LEATI_hipSuccess;
}

/* ---- modules ---- */

/* Takes code objects for gfx942 and gfx90a only. The number is in the file's flags (EF_AMDGPU_MACH). */
hi_result hipModuleLoadData(hi_module *module, const void *image)
{
    unsigned char gpu = ((const unsigned char *)image)[48];
    hi_module made;

    TRY(enter());
    if (memcmp(image, "\177ELF", 4) != 0)
        return LEATI_hipErrorInvalidValue;
    if (gpu != 0x4c && gpu != 0x3f)
        return LEATI_hipErrorNoBinaryForGpu;
    made = malloc(sizeof *made);
    if (!made)
        return LEATI_hipErrorOutOfMemory;
    made->device = current;
    count(1);
    *module = made;
    return LEATI_hipSuccess;
}

hi_result hipModuleUnload(hi_module module)
{
    free(module);
    count(-1);
    return enter();
}

hi_result hipModuleGetFunction(hi_function *function, hi_module module, const char *name)
{
    (void)module;
    TRY(enter());
    if (strncmp(name, "leat_", 5) != 0)
        return LEATI_hipErrorNotFound;
    *function = &the_kernel;
    return LEATI_hipSuccess;
}

hi_result hipFuncGetAttribute(int *value, hi_function_attribute attribute, hi_function function)
{
    TRY(enter());
    *value = attribute == LEATI_HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? 64 : function->threads;
    return LEATI_hipSuccess;
}

hi_result hipModuleLaunchKernel(hi_function function, unsigned int grid_x, unsigned int grid_y,
                                unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                unsigned int block_z, unsigned int shared_bytes, hi_stream stream, void **args,
                                void **extra)
{
    (void)function, (void)args, (void)extra;
    TRY(enter_stream(stream));
    if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z || shared_bytes > (64 << 10) - 64)
        return LEATI_hipErrorInvalidValue;
    return LEATI_hipSuccess;
}

/* ---- for tests ---- */

EXPORT unsigned fake_hip_live(void);
EXPORT void fake_hip_fail(unsigned n, unsigned code);
EXPORT unsigned fake_hip_calls(void);
EXPORT void fake_hip_hold(int device, void *stream, int held);

/* Things made and not given back. */
unsigned fake_hip_live(void)
{
    unsigned number;

    pthread_mutex_lock(&lock);
    number = live;
    pthread_mutex_unlock(&lock);
    return number;
}

/* The n-th call from now on returns code; n 0: none does. */
void fake_hip_fail(unsigned n, unsigned code)
{
    pthread_mutex_lock(&lock);
    calls = 0;
    fail_at = n;
    fail_with = code;
    pthread_mutex_unlock(&lock);
}

/* Calls since then that could have been told to fail. */
unsigned fake_hip_calls(void)
{
    unsigned number;

    pthread_mutex_lock(&lock);
    number = calls;
    pthread_mutex_unlock(&lock);
    return number;
}

/* What this stream is given from now on waits until it is let go, or somebody waits for it. device: of whose
 * streams stream is, where it is a default one. */
void fake_hip_hold(int device, void *stream, int held)
{
    queue_hold(queue_of(stream, device), held);
}
