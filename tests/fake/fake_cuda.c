/*
 * fake_cuda.c - a libcuda.so.1 for tests: the functions that leat calls, on host memory.
 *
 * It is strict where a mistake of leat's would hide on a GPU: calls need the right context to be current, streams
 * and events only work in their own, device memory is reached from contexts of its device only, a copy stays
 * within one allocation, and what is made and not given back is counted. Work is done at once unless a test holds
 * its stream (fake_queue.h); a pageable source is read when its copy is given. Kernels load and launch but do
 * nothing. The environment variable FAKE_CUDA picks a driver that does not start: "version=10020" (what
 * cuDriverGetVersion says), "init=100" (what cuInit returns), "devices=0". Tests steer it through the fake_cuda_*
 * functions at its end.
 */
#include "driver/cuda/cuda_symbols.h"
#include "driver/cuda/cuda_types.h"
#include "fake_queue.h"

#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

/* Each function that follows has the type that leat calls it with, or this file does not compile. */
#define DECLARE(field, name, need, parameters) EXPORT cu_result name parameters;
LEATI_CUDA_SYMBOL_LIST(DECLARE)
LEATI_CUDA_FIRST_SYMBOL_LIST(DECLARE)

#define DEVICES_MOST 2
#define STACK_MOST 8
#define MEMORY_BYTES ((size_t)64 << 20)

struct CUctx_st {
    cu_device device;
    struct queue legacy,
        per_thread; /* its default streams, begun at first use: the group of each is the context */
};

struct CUstream_st {
    cu_context context;
    struct queue queue;
};

struct CUevent_st {
    cu_context context;
    struct queue_mark mark;
};

struct CUmod_st {
    cu_context context;
};

struct CUfunc_st {
    int shared_limit;
};

/* POOLED: from cuMemAllocAsync; it belongs to a device, but to no context. */
enum place { ON_DEVICE = 1, POOLED = 2, PINNED = 4, REGISTERED = 8, MANAGED = 16 };

struct memory {
    struct memory *next;
    enum place place;
    char *start;
    size_t bytes;
    cu_context context;
    bool start_unknown; /* attributes have its size only */

    /* What was said of managed memory, of all of it: devices by number, -1 for the host. */
    bool read_mostly, used_by[DEVICES_MOST + 1]; /* the host's is the last */
    int preferred, prefetched;
};

/* Guards all that follows, but the stacks of contexts, which belong to their threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st primary[DEVICES_MOST] = {{.device = 0}, {.device = 1}};
static int retained[DEVICES_MOST];
static struct memory *memories;
static struct CUfunc_st the_kernel = {.shared_limit = 48 << 10};
static unsigned live, calls, fail_at;
static cu_result fail_with;

static _Thread_local cu_context stack[STACK_MOST];
static _Thread_local unsigned depth;

/* The number after name in FAKE_CUDA, or initial. */
static int setting(const char *name, int initial)
{
    const char *text = getenv("FAKE_CUDA");

    if (!text || strncmp(text, name, strlen(name)) != 0)
        return initial;
    return atoi(text + strlen(name));
}

static cu_context current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

/* Counts a call and gives the failure that it was told to have. */
static cu_result enter(void)
{
    cu_result result = LEATI_CUDA_SUCCESS;

    pthread_mutex_lock(&lock);
    if (++calls == fail_at)
        result = fail_with;
    pthread_mutex_unlock(&lock);
    return result;
}

static cu_result enter_context(void)
{
    cu_result result = enter();

    if (result != LEATI_CUDA_SUCCESS)
        return result;
    return current() ? LEATI_CUDA_SUCCESS : LEATI_CUDA_ERROR_INVALID_CONTEXT;
}

static bool is_default(cu_stream stream)
{
    return !stream || stream == LEATI_CU_STREAM_LEGACY || stream == LEATI_CU_STREAM_PER_THREAD;
}

/* Also checks that the stream is one of the current context. */
static cu_result enter_stream(cu_stream stream)
{
    cu_result result = enter_context();

    if (result != LEATI_CUDA_SUCCESS || is_default(stream))
        return result;
    return stream->context == current() ? LEATI_CUDA_SUCCESS : LEATI_CUDA_ERROR_INVALID_HANDLE;
}

/* The queue of a stream. The default ones are those of a context. */
static struct queue *queue_of(cu_stream stream, cu_context context)
{
    struct queue *queue;

    if (!is_default(stream))
        return &stream->queue;
    queue = stream == LEATI_CU_STREAM_PER_THREAD ? &context->per_thread : &context->legacy;
    lock_queues();
    if (!queue->group)
        queue_begin(queue, context, queue == &context->legacy ? QUEUE_DEFAULT : QUEUE_WITH_DEFAULT);
    unlock_queues();
    return queue;
}

static cu_result give(cu_stream stream, const struct queue_work *work, bool take)
{
    return queue_give(queue_of(stream, current()), work, take) ? LEATI_CUDA_SUCCESS
                                                               : LEATI_CUDA_ERROR_OUT_OF_MEMORY;
}

#define TRY(expression)                                                                                           \
    do {                                                                                                          \
        cu_result result_ = (expression);                                                                         \
        if (result_ != LEATI_CUDA_SUCCESS)                                                                        \
            return result_;                                                                                       \
    } while (0)

static void count(int change)
{
    pthread_mutex_lock(&lock);
    live += (unsigned)change;
    pthread_mutex_unlock(&lock);
}

static void *address(cu_deviceptr ptr)
{
    return (void *)(uintptr_t)ptr;
}

/* ---- start, errors, devices ---- */

cu_result cuInit(unsigned int flags)
{
    (void)flags;
    return (cu_result)setting("init=", LEATI_CUDA_SUCCESS);
}

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
    (void)error;
    *text = "fake";
    return LEATI_CUDA_SUCCESS;
}

cu_result cuDeviceGetCount(int *number)
{
    *number = setting("devices=", DEVICES_MOST);
    return LEATI_CUDA_SUCCESS;
}

cu_result cuDeviceGet(cu_device *device, int ordinal)
{
    TRY(enter());
    if (ordinal < 0 || ordinal >= DEVICES_MOST)
        return LEATI_CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return LEATI_CUDA_SUCCESS;
}

cu_result cuDeviceGetName(char *name, int bytes, cu_device device)
{
    TRY(enter());
    snprintf(name, (size_t)bytes, "Fake GPU %d", device);
    return LEATI_CUDA_SUCCESS;
}

cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device device)
{
    (void)device;
    TRY(enter());
    *bytes = MEMORY_BYTES;
    return LEATI_CUDA_SUCCESS;
}

cu_result cuDeviceGetAttribute(int *value, cu_device_attribute attribute, cu_device device)
{
    (void)device;
    TRY(enter());
    switch (attribute) {
    case LEATI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
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

cu_result cuDeviceGetPCIBusId(char *text, int bytes, cu_device device)
{
    TRY(enter());
    snprintf(text, (size_t)bytes, "FFFF:%02X:00.0", 0x1b + device);
    return LEATI_CUDA_SUCCESS;
}

cu_result cuDeviceCanAccessPeer(int *reachable, cu_device device, cu_device peer)
{
    TRY(enter());
    *reachable = device != peer;
    return LEATI_CUDA_SUCCESS;
}

/* ---- contexts ---- */

cu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device)
{
    TRY(enter());
    pthread_mutex_lock(&lock);
    retained[device]++;
    live++;
    pthread_mutex_unlock(&lock);
    *context = &primary[device];
    return LEATI_CUDA_SUCCESS;
}

/* Frees what is left of a context's memory, as the end of a primary context does. Called with the lock held. */
static void free_memories(const struct CUctx_st *context)
{
    struct memory **link = &memories;

    while (*link) {
        struct memory *memory = *link;

        if (memory->context != context) {
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
cu_result cuDevicePrimaryCtxRelease_v2(cu_device device)
{
    bool known;

    pthread_mutex_lock(&lock);
    known = retained[device] > 0;
    if (known) {
        retained[device]--;
        live--;
        if (!retained[device])
            free_memories(&primary[device]);
    }
    pthread_mutex_unlock(&lock);
    return known ? enter() : LEATI_CUDA_ERROR_INVALID_CONTEXT;
}

/* This and the next do not count as calls that may be told to fail: they only fail when the driver or the context
 * is gone, and all that was in it. */
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

cu_result cuCtxSynchronize(void)
{
    TRY(enter_context());
    queue_drain_group(current());
    return LEATI_CUDA_SUCCESS;
}

cu_result cuCtxEnablePeerAccess(cu_context peer, unsigned int flags)
{
    (void)flags;
    TRY(enter_context());
    return peer == current() ? LEATI_CUDA_ERROR_INVALID_DEVICE : LEATI_CUDA_SUCCESS;
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

static cu_result add(enum place place, void *start, size_t bytes)
{
    struct memory *memory = malloc(sizeof *memory);

    if (!memory)
        return LEATI_CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    *memory = (struct memory){.next = memories,
                              .place = place,
                              .start = start,
                              .bytes = bytes,
                              .context = current(),
                              .preferred = LEATI_CU_DEVICE_INVALID,
                              .prefetched = LEATI_CU_DEVICE_INVALID};
    memories = memory;
    live++;
    pthread_mutex_unlock(&lock);
    return LEATI_CUDA_SUCCESS;
}

static cu_result make(enum place place, size_t bytes, void **start)
{
    if (bytes > MEMORY_BYTES)
        return LEATI_CUDA_ERROR_OUT_OF_MEMORY;
    *start = aligned_alloc(512, (bytes + 511) / 512 * 512);
    if (!*start)
        return LEATI_CUDA_ERROR_OUT_OF_MEMORY;
    return add(place, *start, bytes);
}

/* Takes memory of one of these places off the list, behind all work that was given. */
static cu_result drop(unsigned places, const void *start)
{
    struct memory *memory;
    struct memory **link;

    queue_drain_group(NULL);
    pthread_mutex_lock(&lock);
    link = find(start);
    memory = *link;
    if (!memory || memory->start != start || !(memory->place & places)) {
        pthread_mutex_unlock(&lock);
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    }
    *link = memory->next;
    live--;
    pthread_mutex_unlock(&lock);
    if (memory->place != REGISTERED)
        free(memory->start);
    free(memory);
    return LEATI_CUDA_SUCCESS;
}

static cu_result make_on_device(enum place place, cu_deviceptr *ptr, size_t bytes)
{
    void *start;

    TRY(make(place, bytes, &start));
    *ptr = (cu_deviceptr)(uintptr_t)start;
    return LEATI_CUDA_SUCCESS;
}

cu_result cuMemGetInfo_v2(size_t *available, size_t *total)
{
    TRY(enter_context());
    *available = MEMORY_BYTES;
    *total = MEMORY_BYTES;
    return LEATI_CUDA_SUCCESS;
}

cu_result cuMemAlloc_v2(cu_deviceptr *ptr, size_t bytes)
{
    TRY(enter_context());
    return make_on_device(ON_DEVICE, ptr, bytes);
}

cu_result cuMemFree_v2(cu_deviceptr ptr)
{
    TRY(enter_context());
    return drop(ON_DEVICE | POOLED | MANAGED, address(ptr));
}

cu_result cuMemAllocAsync(cu_deviceptr *ptr, size_t bytes, cu_stream stream)
{
    TRY(enter_stream(stream));
    return make_on_device(POOLED, ptr, bytes);
}

cu_result cuMemFreeAsync(cu_deviceptr ptr, cu_stream stream)
{
    TRY(enter_stream(stream));
    return drop(ON_DEVICE | POOLED, address(ptr));
}

cu_result cuMemAllocManaged(cu_deviceptr *ptr, size_t bytes, unsigned int flags)
{
    TRY(enter_context());
    if (flags != LEATI_CU_MEM_ATTACH_GLOBAL)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    return make_on_device(MANAGED, ptr, bytes);
}

/* Managed memory that has the whole range, with the lock held, or NULL. */
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

cu_result cuMemPrefetchAsync(cu_deviceptr ptr, size_t bytes, cu_device device, cu_stream stream)
{
    return prefetch(ptr, bytes, device, stream);
}

cu_result cuMemPrefetchAsync_v2(cu_deviceptr ptr, size_t bytes, cu_mem_location location, unsigned int flags,
                                cu_stream stream)
{
    return flags ? LEATI_CUDA_ERROR_INVALID_VALUE : prefetch(ptr, bytes, number_of(location), stream);
}

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

cu_result cuMemAdvise(cu_deviceptr ptr, size_t bytes, cu_mem_advice advice, cu_device device)
{
    return advise(ptr, bytes, advice, device);
}

cu_result cuMemAdvise_v2(cu_deviceptr ptr, size_t bytes, cu_mem_advice advice, cu_mem_location location)
{
    return advise(ptr, bytes, advice, number_of(location));
}

/* The devices that use the memory, and nothing in the room that is left. */
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

/* All of an allocation or nothing. */
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

cu_result cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
    (void)flags;
    TRY(enter_context());
    return make(PINNED, bytes, ptr);
}

cu_result cuMemFreeHost(void *ptr)
{
    TRY(enter_context());
    return drop(PINNED, ptr);
}

cu_result cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags)
{
    bool known;

    (void)flags;
    TRY(enter_context());
    pthread_mutex_lock(&lock);
    known = *find(ptr) || *find((char *)ptr + bytes - 1);
    pthread_mutex_unlock(&lock);
    return known ? LEATI_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : add(REGISTERED, ptr, bytes);
}

cu_result cuMemHostUnregister(void *ptr)
{
    cu_result result;

    TRY(enter_context());
    result = drop(REGISTERED, ptr);
    return result == LEATI_CUDA_SUCCESS ? result : LEATI_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

cu_result cuMemHostGetDevicePointer_v2(cu_deviceptr *device_pointer, void *ptr, unsigned int flags)
{
    (void)flags;
    TRY(enter_context());
    *device_pointer = (cu_deviceptr)(uintptr_t)ptr;
    return LEATI_CUDA_SUCCESS;
}

/* One attribute; memory is NULL for an address that is not known. */
static void put_attribute(cu_pointer_attribute attribute, const struct memory *memory, cu_deviceptr ptr,
                          void *value)
{
    bool host = memory && (memory->place == PINNED || memory->place == REGISTERED);

    switch (attribute) {
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
    TRY(enter());
    pthread_mutex_lock(&lock);
    for (unsigned int i = 0; i < number; i++)
        put_attribute(attributes[i], *find(address(ptr)), ptr, values[i]);
    pthread_mutex_unlock(&lock);
    return LEATI_CUDA_SUCCESS;
}

/* ---- virtual memory: this GPU has none ---- */

cu_result cuMemGetAllocationGranularity(size_t *bytes, const cu_mem_properties *properties,
                                        cu_granularity_kind kind)
{
    (void)bytes, (void)properties, (void)kind;
    return LEATI_CUDA_ERROR_NOT_SUPPORTED;
}

cu_result cuMemAddressReserve(cu_deviceptr *ptr, size_t bytes, size_t alignment, cu_deviceptr wanted,
                              unsigned long long flags)
{
    (void)ptr, (void)bytes, (void)alignment, (void)wanted, (void)flags;
    return LEATI_CUDA_ERROR_NOT_SUPPORTED;
}

cu_result cuMemAddressFree(cu_deviceptr ptr, size_t bytes)
{
    (void)ptr, (void)bytes;
    return LEATI_CUDA_ERROR_NOT_SUPPORTED;
}

cu_result cuMemCreate(cu_mem_handle *handle, size_t bytes, const cu_mem_properties *properties,
                      unsigned long long flags)
{
    (void)handle, (void)bytes, (void)properties, (void)flags;
    return LEATI_CUDA_ERROR_NOT_SUPPORTED;
}

cu_result cuMemRelease(cu_mem_handle handle)
{
    (void)handle;
    return LEATI_CUDA_ERROR_NOT_SUPPORTED;
}

cu_result cuMemMap(cu_deviceptr ptr, size_t bytes, size_t offset, cu_mem_handle handle, unsigned long long flags)
{
    (void)ptr, (void)bytes, (void)offset, (void)handle, (void)flags;
    return LEATI_CUDA_ERROR_NOT_SUPPORTED;
}

cu_result cuMemUnmap(cu_deviceptr ptr, size_t bytes)
{
    (void)ptr, (void)bytes;
    return LEATI_CUDA_ERROR_NOT_SUPPORTED;
}

cu_result cuMemSetAccess(cu_deviceptr ptr, size_t bytes, const cu_mem_access *access, size_t number)
{
    (void)ptr, (void)bytes, (void)access, (void)number;
    return LEATI_CUDA_ERROR_NOT_SUPPORTED;
}

cu_result cuMemExportToShareableHandle(void *shared, cu_mem_handle handle, cu_handle_type type,
                                       unsigned long long flags)
{
    (void)shared, (void)handle, (void)type, (void)flags;
    return LEATI_CUDA_ERROR_NOT_SUPPORTED;
}

cu_result cuMemImportFromShareableHandle(cu_mem_handle *handle, void *shared, cu_handle_type type)
{
    (void)handle, (void)shared, (void)type;
    return LEATI_CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- copies ---- */

/* May a call in the current context use these bytes? They lie in one allocation, or in none, which *pageable says.
 * What is on a device can be reached from contexts of that device only; vendors reach more in some cases. */
static bool is_usable(const void *ptr, size_t bytes, bool *pageable)
{
    const struct memory *memory;
    bool usable;

    pthread_mutex_lock(&lock);
    memory = *find(ptr);
    *pageable = !memory;
    if (memory)
        usable = bytes <= memory->bytes - (size_t)((const char *)ptr - memory->start) &&
                 (!(memory->place & (ON_DEVICE | POOLED)) || memory->context->device == current()->device);
    else
        usable = !*find((const char *)ptr + bytes - 1);
    pthread_mutex_unlock(&lock);
    return usable;
}

static size_t reach(const cu_box_copy *copy, size_t pitch, size_t height)
{
    return ((copy->depth - 1) * height + copy->height - 1) * pitch + copy->width;
}

/* Rows whose ends may be used. A pageable source is read now, and a pageable destination is written when the call
 * is back. */
static cu_result give_rows(const struct queue_work *work, bool src_pageable, bool dst_pageable, cu_stream stream)
{
    TRY(give(stream, work, src_pageable));
    if (dst_pageable)
        queue_drain(queue_of(stream, current()));
    return LEATI_CUDA_SUCCESS;
}

/* A stream of any context will do. */
static cu_result copy(void *dst, const void *src, size_t bytes, cu_stream stream)
{
    bool src_pageable, dst_pageable;

    TRY(enter_context());
    if (!is_usable(src, bytes, &src_pageable) || !is_usable(dst, bytes, &dst_pageable))
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    return give_rows(&(struct queue_work){.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1},
                     src_pageable, dst_pageable, stream);
}

cu_result cuMemcpyAsync(cu_deviceptr dst, cu_deviceptr src, size_t bytes, cu_stream stream)
{
    return copy(address(dst), address(src), bytes, stream);
}

/* Is it device memory? The vendor refuses another place, but not managed memory. */
static bool is_device(cu_deviceptr ptr)
{
    struct memory *memory;

    pthread_mutex_lock(&lock);
    memory = *find(address(ptr));
    pthread_mutex_unlock(&lock);
    return memory && memory->place & (ON_DEVICE | POOLED | MANAGED);
}

cu_result cuMemcpyHtoDAsync_v2(cu_deviceptr dst, const void *src, size_t bytes, cu_stream stream)
{
    return is_device(dst) ? copy(address(dst), src, bytes, stream) : LEATI_CUDA_ERROR_INVALID_VALUE;
}

cu_result cuMemcpyDtoHAsync_v2(void *dst, cu_deviceptr src, size_t bytes, cu_stream stream)
{
    return is_device(src) ? copy(dst, address(src), bytes, stream) : LEATI_CUDA_ERROR_INVALID_VALUE;
}

cu_result cuMemcpyDtoDAsync_v2(cu_deviceptr dst, cu_deviceptr src, size_t bytes, cu_stream stream)
{
    if (!is_device(dst) || !is_device(src))
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    return copy(address(dst), address(src), bytes, stream);
}

cu_result cuMemcpyPeerAsync(cu_deviceptr dst, cu_context dst_context, cu_deviceptr src, cu_context src_context,
                            size_t bytes, cu_stream stream)
{
    TRY(enter_stream(stream));
    if (!dst_context || !src_context || dst_context == src_context)
        return LEATI_CUDA_ERROR_INVALID_CONTEXT;
    return give(
        stream,
        &(struct queue_work){.dst = address(dst), .src = address(src), .width = bytes, .height = 1, .depth = 1},
        false);
}

static bool is_known_type(unsigned type)
{
    return type == LEATI_CU_MEMORYTYPE_HOST || type == LEATI_CU_MEMORYTYPE_DEVICE ||
           type == LEATI_CU_MEMORYTYPE_UNIFIED;
}

/* What the vendor refuses too. */
static bool is_box(const cu_box_copy *copy)
{
    return is_known_type(copy->src_type) && is_known_type(copy->dst_type) && copy->src_pitch >= copy->width &&
           copy->dst_pitch >= copy->width && copy->src_pitch <= INT32_MAX && copy->dst_pitch <= INT32_MAX &&
           copy->src_height >= copy->height && copy->dst_height >= copy->height;
}

static struct queue_work box_work(const cu_box_copy *copy)
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

cu_result cuMemcpy3DAsync_v2(const cu_box_copy *copy, cu_stream stream)
{
    bool src_pageable, dst_pageable;
    struct queue_work work;

    TRY(enter_context());
    if (!is_box(copy) || copy->src_context || copy->dst_context)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    work = box_work(copy);
    if (!is_usable(work.src, reach(copy, copy->src_pitch, copy->src_height), &src_pageable) ||
        !is_usable(work.dst, reach(copy, copy->dst_pitch, copy->dst_height), &dst_pageable))
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    return give_rows(&work, src_pageable, dst_pageable, stream);
}

cu_result cuMemcpy3DPeerAsync(const cu_box_copy_peer *copy, cu_stream stream)
{
    struct queue_work work;

    TRY(enter_stream(stream));
    if (!is_box(copy))
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    if (!copy->dst_context || !copy->src_context || copy->dst_context == copy->src_context)
        return LEATI_CUDA_ERROR_INVALID_CONTEXT;
    work = box_work(copy);
    return give(stream, &work, false);
}

static cu_result fill(cu_deviceptr dst, const void *pattern, size_t pattern_bytes, size_t number, cu_stream stream)
{
    bool pageable;

    TRY(enter_stream(stream));
    if (dst % pattern_bytes || !is_usable(address(dst), number * pattern_bytes, &pageable) || pageable)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    return give(stream,
                &(struct queue_work){
                    .dst = address(dst), .pattern = pattern, .pattern_bytes = pattern_bytes, .count = number},
                false);
}

cu_result cuMemsetD8Async(cu_deviceptr dst, unsigned char value, size_t number, cu_stream stream)
{
    return fill(dst, &value, sizeof value, number, stream);
}

cu_result cuMemsetD16Async(cu_deviceptr dst, unsigned short value, size_t number, cu_stream stream)
{
    return fill(dst, &value, sizeof value, number, stream);
}

cu_result cuMemsetD32Async(cu_deviceptr dst, unsigned int value, size_t number, cu_stream stream)
{
    return fill(dst, &value, sizeof value, number, stream);
}

/* ---- streams and events ---- */

cu_result cuStreamCreate(cu_stream *stream, unsigned int flags)
{
    cu_stream made;

    TRY(enter_context());
    if (flags > LEATI_CU_STREAM_NON_BLOCKING)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    made = malloc(sizeof *made);
    if (!made)
        return LEATI_CUDA_ERROR_OUT_OF_MEMORY;
    made->context = current();
    queue_begin(&made->queue, made->context,
                flags == LEATI_CU_STREAM_NON_BLOCKING ? QUEUE_ALONE : QUEUE_WITH_DEFAULT);
    count(1);
    *stream = made;
    return LEATI_CUDA_SUCCESS;
}

/* Its work runs to its end. */
cu_result cuStreamDestroy_v2(cu_stream stream)
{
    queue_end(&stream->queue);
    free(stream);
    count(-1);
    return enter_context();
}

cu_result cuStreamQuery(cu_stream stream)
{
    TRY(enter_stream(stream));
    return queue_is_idle(queue_of(stream, current())) ? LEATI_CUDA_SUCCESS : LEATI_CUDA_ERROR_NOT_READY;
}

cu_result cuStreamSynchronize(cu_stream stream)
{
    TRY(enter_stream(stream));
    queue_drain(queue_of(stream, current()));
    return LEATI_CUDA_SUCCESS;
}

cu_result cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned int flags)
{
    (void)flags;
    TRY(enter_stream(stream));
    return give(stream, &(struct queue_work){.wait = &event->mark}, false);
}

cu_result cuStreamGetCtx(cu_stream stream, cu_context *context)
{
    TRY(enter_context());
    *context = stream->context;
    return LEATI_CUDA_SUCCESS;
}

cu_result cuLaunchHostFunc(cu_stream stream, cu_host_function function, void *argument)
{
    TRY(enter_stream(stream));
    return give(stream, &(struct queue_work){.function = function, .argument = argument}, false);
}

cu_result cuEventCreate(cu_event *event, unsigned int flags)
{
    cu_event made;

    (void)flags;
    TRY(enter_context());
    made = malloc(sizeof *made);
    if (!made)
        return LEATI_CUDA_ERROR_OUT_OF_MEMORY;
    *made = (struct CUevent_st){.context = current()};
    count(1);
    *event = made;
    return LEATI_CUDA_SUCCESS;
}

/* Unlike the vendor's, it waits for what the event marks. */
cu_result cuEventDestroy_v2(cu_event event)
{
    queue_wait_for(&event->mark);
    free(event);
    count(-1);
    return enter_context();
}

cu_result cuEventRecord(cu_event event, cu_stream stream)
{
    TRY(enter_stream(stream));
    if (event->context != current())
        return LEATI_CUDA_ERROR_INVALID_HANDLE;
    return give(stream, &(struct queue_work){.mark = &event->mark}, false);
}

cu_result cuEventQuery(cu_event event)
{
    TRY(enter_context());
    return queue_is_reached(&event->mark) ? LEATI_CUDA_SUCCESS : LEATI_CUDA_ERROR_NOT_READY;
}

cu_result cuEventSynchronize(cu_event event)
{
    TRY(enter_context());
    queue_wait_for(&event->mark);
    return LEATI_CUDA_SUCCESS;
}

cu_result cuEventElapsedTime(float *milliseconds, cu_event start, cu_event end)
{
    TRY(enter_context());
    if (!start->mark.recorded || !end->mark.recorded)
        return LEATI_CUDA_ERROR_INVALID_HANDLE;
    if (!queue_is_reached(&start->mark) || !queue_is_reached(&end->mark))
        return LEATI_CUDA_ERROR_NOT_READY;
    *milliseconds = 0;
    return LEATI_CUDA_SUCCESS;
}

/* ---- modules ---- */

cu_result cuModuleLoadDataEx(cu_module *module, const void *image, unsigned int number, cu_jit_option *options,
                             void **values)
{
    cu_module made;

    TRY(enter_context());
    if (!strstr(image, ".version")) {
        for (unsigned int i = 0; i < number; i++)
            if (options[i] == LEATI_CU_JIT_ERROR_LOG_BUFFER)
                strcpy(values[i], "line 1;\nno .version\n");
        return LEATI_CUDA_ERROR_INVALID_PTX;
    }
    made = malloc(sizeof *made);
    if (!made)
        return LEATI_CUDA_ERROR_OUT_OF_MEMORY;
    made->context = current();
    count(1);
    *module = made;
    return LEATI_CUDA_SUCCESS;
}

cu_result cuModuleUnload(cu_module module)
{
    free(module);
    count(-1);
    return enter_context();
}

cu_result cuModuleGetFunction(cu_function *function, cu_module module, const char *name)
{
    (void)module;
    TRY(enter_context());
    if (strncmp(name, "leat_", 5) != 0)
        return LEATI_CUDA_ERROR_NOT_FOUND;
    *function = &the_kernel;
    return LEATI_CUDA_SUCCESS;
}

cu_result cuFuncLoad(cu_function function)
{
    (void)function;
    return enter_context();
}

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
    (void)function;
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
    (void)args, (void)extra;
    TRY(enter_stream(stream));
    if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z ||
        (int)shared_bytes > function->shared_limit)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    return LEATI_CUDA_SUCCESS;
}

/* ---- for tests ---- */

EXPORT unsigned fake_cuda_live(void);
EXPORT void fake_cuda_fail(unsigned n, unsigned code);
EXPORT unsigned fake_cuda_calls(void);
EXPORT unsigned fake_cuda_depth(void);
EXPORT void *fake_cuda_context(int device);
EXPORT void fake_cuda_hold(int device, void *stream, int held);
EXPORT void fake_cuda_forget_start(const void *ptr);

/* Things made and not given back. */
unsigned fake_cuda_live(void)
{
    unsigned number;

    pthread_mutex_lock(&lock);
    number = live;
    pthread_mutex_unlock(&lock);
    return number;
}

/* The n-th call from now on returns code; n 0: none does. */
void fake_cuda_fail(unsigned n, unsigned code)
{
    pthread_mutex_lock(&lock);
    calls = 0;
    fail_at = n;
    fail_with = code;
    pthread_mutex_unlock(&lock);
}

/* Calls since then that could have been told to fail. */
unsigned fake_cuda_calls(void)
{
    unsigned number;

    pthread_mutex_lock(&lock);
    number = calls;
    pthread_mutex_unlock(&lock);
    return number;
}

/* Contexts on this thread's stack: leat must leave it as it was. */
unsigned fake_cuda_depth(void)
{
    return depth;
}

/* A context of the user's own. */
void *fake_cuda_context(int device)
{
    static struct CUctx_st users[DEVICES_MOST] = {{.device = 0}, {.device = 1}};

    return &users[device];
}

/* What this stream is given from now on waits until it is let go, or somebody waits for it. device: of whose
 * primary context stream is, where it is a default one. */
void fake_cuda_hold(int device, void *stream, int held)
{
    queue_hold(queue_of(stream, &primary[device]), held);
}

/* The driver does not tell where this memory starts any more, but still how much it is. */
void fake_cuda_forget_start(const void *ptr)
{
    pthread_mutex_lock(&lock);
    (*find(ptr))->start_unknown = true;
    pthread_mutex_unlock(&lock);
}
