/*
 * bench_peer_cuda.c - the peer of CUDA devices: finds the calls of the CUDA driver in the library that leat has
 * loaded, and calls them.
 *
 * This file declares the calls itself, after the CUDA driver API manual, so that the command can be built without
 * CUDA's headers.
 */
#include "bench_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long cuda_address;

/* The driver's calls as X(name, exported name, parameters). All return CUresult, an int. */
#define CUDA_CALLS(X)                                                                                             \
    X(push, "cuCtxPushCurrent_v2", (void *context))                                                               \
    X(pop, "cuCtxPopCurrent_v2", (void **context))                                                                \
    X(to_device, "cuMemcpyHtoD_v2", (cuda_address dst, const void *src, size_t bytes))                            \
    X(to_host, "cuMemcpyDtoH_v2", (void *dst, cuda_address src, size_t bytes))                                    \
    X(to_device_async, "cuMemcpyHtoDAsync_v2", (cuda_address dst, const void *src, size_t bytes, void *stream))   \
    X(to_host_async, "cuMemcpyDtoHAsync_v2", (void *dst, cuda_address src, size_t bytes, void *stream))           \
    X(on_device_async, "cuMemcpyDtoDAsync_v2", (cuda_address dst, cuda_address src, size_t bytes, void *stream))  \
    X(synchronize, "cuStreamSynchronize", (void *stream))                                                         \
    X(alloc, "cuMemAlloc_v2", (cuda_address * ptr, size_t bytes))                                                 \
    X(free, "cuMemFree_v2", (cuda_address ptr))                                                                   \
    X(host_alloc, "cuMemHostAlloc", (void **ptr, size_t bytes, unsigned flags))                                   \
    X(host_free, "cuMemFreeHost", (void *ptr))                                                                    \
    X(host_register, "cuMemHostRegister_v2", (void *ptr, size_t bytes, unsigned flags))                           \
    X(host_unregister, "cuMemHostUnregister", (void *ptr))                                                        \
    X(event_record, "cuEventRecord", (void *event, void *stream))                                                 \
    X(event_query, "cuEventQuery", (void *event))                                                                 \
    X(module_load, "cuModuleLoadData", (void **module, const void *image))                                        \
    X(module_unload, "cuModuleUnload", (void *module))                                                            \
    X(module_function, "cuModuleGetFunction", (void **function, void *module, const char *name))                  \
    X(launch, "cuLaunchKernel",                                                                                   \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared_bytes, void *stream, void **args, void **extra))

/* The stream-ordered calls, which drivers before CUDA 11.2 do not have. */
#define CUDA_OPTIONAL_CALLS(X)                                                                                    \
    X(alloc_async, "cuMemAllocAsync", (cuda_address * ptr, size_t bytes, void *stream))                           \
    X(free_async, "cuMemFreeAsync", (cuda_address ptr, void *stream))

/* The calls for the default pool. Drivers before CUDA 11.3 do not have them, or have no high-water mark. */
#define CUDA_POOL_CALLS(X)                                                                                        \
    X(context_device, "cuCtxGetDevice", (int *device))                                                            \
    X(default_pool, "cuDeviceGetDefaultMemPool", (void **pool, int device))                                       \
    X(pool_get, "cuMemPoolGetAttribute", (void *pool, int attribute, void *value))                                \
    X(pool_set, "cuMemPoolSetAttribute", (void *pool, int attribute, void *value))                                \
    X(pool_trim, "cuMemPoolTrimTo", (void *pool, size_t keep_bytes))

/* CUmemPoolProps. One array of padding stands for the members that stay zero. Drivers before CUDA 12.2 refuse a
 * limit. */
struct pool_properties {
    int type;                    /* CU_MEM_ALLOCATION_TYPE_PINNED is 1 */
    int handles;                 /* 0: the pool's memory cannot be exported */
    int location_type, location; /* CU_MEM_LOCATION_TYPE_DEVICE is 1 */
    void *security;
    size_t limit_bytes;
    unsigned char rest[56];
};

/* The calls that create and destroy pools, which drivers before CUDA 11.2 do not have. */
#define CUDA_OWN_POOL_CALLS(X)                                                                                    \
    X(pool_create, "cuMemPoolCreate", (void **pool, const struct pool_properties *properties))                    \
    X(pool_destroy, "cuMemPoolDestroy", (void *pool))                                                             \
    X(alloc_from, "cuMemAllocFromPoolAsync", (cuda_address * ptr, size_t bytes, void *pool, void *stream))

/* CUmemcpyAttributes, the attributes of the copies of a batch. */
struct batch_attributes {
    int source_order; /* CU_MEMCPY_SRC_ACCESS_ORDER_STREAM is 1 */
    int source_hint[2], target_hint[2];
    unsigned flags;
};

/* The two forms of the batch call: drivers from CUDA 13.0 on have the first, drivers of CUDA 12.8 and 12.9 the
 * second. */
#define CUDA_BATCH_CALLS(X)                                                                                       \
    X(batch, "cuMemcpyBatchAsync_v2",                                                                             \
      (cuda_address * dsts, cuda_address * srcs, size_t * sizes, size_t count,                                    \
       struct batch_attributes * attributes, size_t * indices, size_t attribute_count, void *stream))             \
    X(batch_12, "cuMemcpyBatchAsync",                                                                             \
      (cuda_address * dsts, cuda_address * srcs, size_t * sizes, size_t count,                                    \
       struct batch_attributes * attributes, size_t * indices, size_t attribute_count, size_t * failed,           \
       void *stream))

enum { OUT_OF_MEMORY = 2 }; /* CUDA_ERROR_OUT_OF_MEMORY */

/* CU_MEMPOOL_ATTR_*; their values are uint64_t. */
enum { POOL_RELEASE_THRESHOLD = 4, POOL_RESERVED_HIGH = 6 };

/* The flags "portable" and "mapped" of CU_MEMHOSTALLOC_* and CU_MEMHOSTREGISTER_*, which leat uses too. */
enum { HOST_FLAGS = 1 | 2 };

struct cuda_calls {
#define DECLARE_CALL(name, exported, parameters) int(*name) parameters;
    CUDA_CALLS(DECLARE_CALL)
    CUDA_OPTIONAL_CALLS(DECLARE_CALL)
    CUDA_POOL_CALLS(DECLARE_CALL)
    CUDA_OWN_POOL_CALLS(DECLARE_CALL)
    CUDA_BATCH_CALLS(DECLARE_CALL)
#undef DECLARE_CALL
};

struct cuda_peer {
    struct bench_peer peer; /* must be the first member: a pointer to it is cast to the whole */
    struct cuda_calls call;
    void *context;
    void *module;
    void *function;
    void *pool;              /* the default pool from pool_watch() to pool_unwatch(), or the pool of pool_own() */
    uint64_t pool_threshold; /* the default pool's release threshold before pool_watch() */
};

/* PTX of a kernel that adds to a counter, so that its launches can be counted. */
static const char counting_kernel[] = ".version 6.3\n"
                                      ".target sm_75\n"
                                      ".address_size 64\n"
                                      ".visible .entry bench_count(\n"
                                      "    .param .u64 data, .param .u64 count, .param .u32 value)\n"
                                      "{\n"
                                      "    .reg .u64 %address;\n"
                                      "    .reg .u32 %step;\n"
                                      "    ld.param.u64 %address, [data];\n"
                                      "    ld.param.u32 %step, [value];\n"
                                      "    cvta.to.global.u64 %address, %address;\n"
                                      "    red.global.add.u32 [%address], %step;\n"
                                      "    ret;\n"
                                      "}\n";

static struct cuda_peer *cuda_of(struct bench_peer *peer)
{
    return (struct cuda_peer *)peer;
}

static int enter(struct bench_peer *peer)
{
    return cuda_of(peer)->call.push(cuda_of(peer)->context);
}

static int leave(struct bench_peer *peer)
{
    void *context;

    return cuda_of(peer)->call.pop(&context);
}

static int copy(struct bench_peer *peer, void *stream, enum bench_direction direction, void *dst, const void *src,
                size_t bytes)
{
    const struct cuda_calls *call = &cuda_of(peer)->call;

    switch (direction) {
    case BENCH_TO_DEVICE:
        return call->to_device_async((cuda_address)dst, src, bytes, stream);
    case BENCH_TO_HOST:
        return call->to_host_async(dst, (cuda_address)src, bytes, stream);
    default:
        return call->on_device_async((cuda_address)dst, (cuda_address)src, bytes, stream);
    }
}

static int copy_plain(struct bench_peer *peer, enum bench_direction direction, void *dst, const void *src,
                      size_t bytes)
{
    const struct cuda_calls *call = &cuda_of(peer)->call;

    return direction == BENCH_TO_HOST ? call->to_host(dst, (cuda_address)src, bytes)
                                      : call->to_device((cuda_address)dst, src, bytes);
}

static int copy_at_once(struct bench_peer *peer, enum bench_direction direction, void *dst, const void *src,
                        size_t bytes)
{
    const struct cuda_calls *call = &cuda_of(peer)->call;
    int result = copy_plain(peer, direction, dst, src, bytes);

    /* The call may return when it has read the source, before the bytes are on the device, so wait for the
     * stream. */
    return result || direction == BENCH_TO_HOST ? result : call->synchronize(NULL);
}

static int wait(struct bench_peer *peer, void *stream)
{
    return cuda_of(peer)->call.synchronize(stream);
}

static int copy_batch(struct bench_peer *peer, void *stream, void **dsts, void **srcs, size_t *sizes, size_t count)
{
    const struct cuda_calls *call = &cuda_of(peer)->call;
    struct batch_attributes attributes = {.source_order = 1};
    size_t first = 0, failed = 0;
    /* The driver expects arrays of CUdeviceptr, which has the size of a pointer. */
    cuda_address *to = (cuda_address *)(void *)dsts;
    cuda_address *from = (cuda_address *)(void *)srcs;

    if (call->batch)
        return call->batch(to, from, sizes, count, &attributes, &first, 1, stream);
    return call->batch_12(to, from, sizes, count, &attributes, &first, 1, &failed, stream);
}

static int alloc(struct bench_peer *peer, size_t bytes, void **ptr)
{
    cuda_address address = 0;
    int result = cuda_of(peer)->call.alloc(&address, bytes);

    *ptr = (void *)address;
    return result;
}

static int free_memory(struct bench_peer *peer, void *ptr)
{
    return cuda_of(peer)->call.free((cuda_address)ptr);
}

static int alloc_async(struct bench_peer *peer, void *stream, size_t bytes, void **ptr)
{
    cuda_address address = 0;
    int result = cuda_of(peer)->call.alloc_async(&address, bytes, stream);

    *ptr = (void *)address;
    return result;
}

static int free_async(struct bench_peer *peer, void *stream, void *ptr)
{
    return cuda_of(peer)->call.free_async((cuda_address)ptr, stream);
}

static int pool_watch(struct bench_peer *peer, bool keep)
{
    struct cuda_peer *cuda = cuda_of(peer);
    const struct cuda_calls *call = &cuda->call;
    uint64_t nothing = 0, everything = UINT64_MAX;
    int device, result = call->context_device(&device);

    if (!result)
        result = call->default_pool(&cuda->pool, device);
    if (!result)
        result = call->pool_get(cuda->pool, POOL_RELEASE_THRESHOLD, &cuda->pool_threshold);
    if (!result)
        result = call->pool_set(cuda->pool, POOL_RESERVED_HIGH, &nothing);
    if (!result && keep)
        result = call->pool_set(cuda->pool, POOL_RELEASE_THRESHOLD, &everything);
    return result;
}

static int pool_peak(struct bench_peer *peer, uint64_t *bytes)
{
    return cuda_of(peer)->call.pool_get(cuda_of(peer)->pool, POOL_RESERVED_HIGH, bytes);
}

static int pool_unwatch(struct bench_peer *peer)
{
    struct cuda_peer *cuda = cuda_of(peer);

    return cuda->call.pool_set(cuda->pool, POOL_RELEASE_THRESHOLD, &cuda->pool_threshold);
}

static int pool_trim(struct bench_peer *peer)
{
    struct cuda_peer *cuda = cuda_of(peer);
    int device, result = cuda->call.context_device(&device);

    if (!result)
        result = cuda->call.default_pool(&cuda->pool, device);
    return result ? result : cuda->call.pool_trim(cuda->pool, 0);
}

static int alloc_from_own(struct bench_peer *peer, void *stream, size_t bytes, void **ptr)
{
    cuda_address address = 0;
    int result = cuda_of(peer)->call.alloc_from(&address, bytes, cuda_of(peer)->pool, stream);

    *ptr = (void *)address;
    return result;
}

static int pool_own(struct bench_peer *peer, uint64_t limit_bytes)
{
    struct cuda_peer *cuda = cuda_of(peer);
    struct pool_properties properties = {.type = 1, .location_type = 1, .limit_bytes = limit_bytes};
    uint64_t everything = UINT64_MAX;
    int result = cuda->call.context_device(&properties.location);

    if (!result)
        result = cuda->call.pool_create(&cuda->pool, &properties);
    if (result)
        return result;
    result = cuda->call.pool_set(cuda->pool, POOL_RELEASE_THRESHOLD, &everything);
    if (result)
        cuda->call.pool_destroy(cuda->pool);
    else
        peer->alloc_async = alloc_from_own;
    return result;
}

static int pool_disown(struct bench_peer *peer)
{
    peer->alloc_async = alloc_async;
    return cuda_of(peer)->call.pool_destroy(cuda_of(peer)->pool);
}

static int host_alloc(struct bench_peer *peer, size_t bytes, void **ptr)
{
    return cuda_of(peer)->call.host_alloc(ptr, bytes, HOST_FLAGS);
}

static int host_free(struct bench_peer *peer, void *ptr)
{
    return cuda_of(peer)->call.host_free(ptr);
}

static int host_register(struct bench_peer *peer, void *ptr, size_t bytes)
{
    return cuda_of(peer)->call.host_register(ptr, bytes, HOST_FLAGS);
}

static int host_unregister(struct bench_peer *peer, void *ptr)
{
    return cuda_of(peer)->call.host_unregister(ptr);
}

static int event_record(struct bench_peer *peer, void *event, void *stream)
{
    return cuda_of(peer)->call.event_record(event, stream);
}

static int event_query(struct bench_peer *peer, void *event)
{
    return cuda_of(peer)->call.event_query(event);
}

static int launch(struct bench_peer *peer, void *stream, void *const *args)
{
    struct cuda_peer *cuda = cuda_of(peer);

    return cuda->call.launch(cuda->function, 1, 1, 1, 1, 1, 1, 0, stream, (void **)(uintptr_t)args, NULL);
}

static void destroy(struct bench_peer *peer)
{
    struct cuda_peer *cuda = cuda_of(peer);

    if (cuda->module && enter(peer) == 0) {
        cuda->call.module_unload(cuda->module);
        leave(peer);
    }
    free(cuda);
}

/* Stores a function's address at call. It copies the bytes, because ISO C has no conversion from void * to a
 * function pointer, but POSIX guarantees that both have the same bytes. */
static bool find_call(leat_device *device, const char *name, void *call)
{
    void *symbol;

    if (leat_native_symbol(device, name, &symbol) != LEAT_OK)
        return false;
    memcpy(call, &symbol, sizeof symbol);
    return true;
}

static bool find_calls(leat_device *device, struct cuda_peer *cuda)
{
    struct cuda_calls *call = &cuda->call;
    bool all_of_pool = true, all_of_own = true;

#define FIND_CALL(name, exported, parameters)                                                                     \
    if (!find_call(device, exported, &call->name))                                                                \
        return false;
    CUDA_CALLS(FIND_CALL)
#undef FIND_CALL
    if (!find_call(device, "cuMemAllocAsync", &call->alloc_async) ||
        !find_call(device, "cuMemFreeAsync", &call->free_async))
        call->alloc_async = NULL;
#define FIND_POOL_CALL(name, exported, parameters)                                                                \
    all_of_pool = find_call(device, exported, &call->name) && all_of_pool;
    CUDA_POOL_CALLS(FIND_POOL_CALL)
#undef FIND_POOL_CALL
#define FIND_OWN_POOL_CALL(name, exported, parameters)                                                            \
    all_of_own = find_call(device, exported, &call->name) && all_of_own;
    CUDA_OWN_POOL_CALLS(FIND_OWN_POOL_CALL)
#undef FIND_OWN_POOL_CALL
    if (!all_of_pool)
        call->default_pool = NULL;
    if (!all_of_pool || !all_of_own)
        call->alloc_from = NULL;
    if (!find_call(device, "cuMemcpyBatchAsync_v2", &call->batch))
        call->batch = NULL;
    if (!find_call(device, "cuMemcpyBatchAsync", &call->batch_12))
        call->batch_12 = NULL;
    return leat_device_native(device, &cuda->context) == LEAT_OK;
}

static void load_kernel(struct cuda_peer *cuda)
{
    if (enter(&cuda->peer) != 0)
        return;
    if (cuda->call.module_load(&cuda->module, counting_kernel) == 0 &&
        cuda->call.module_function(&cuda->function, cuda->module, "bench_count") == 0) {
        cuda->peer.launch = launch;
        cuda->peer.image = counting_kernel;
        cuda->peer.image_kernel = "bench_count";
    }
    leave(&cuda->peer);
}

struct bench_peer *bench_peer_cuda(leat_device *device, bool with_kernel, const char **why)
{
    struct cuda_peer *cuda = calloc(1, sizeof *cuda);

    if (!cuda) {
        *why = "out of memory";
        return NULL;
    }
    if (!find_calls(device, cuda)) {
        *why = leat_last_error();
        free(cuda);
        return NULL;
    }
    snprintf(cuda->peer.text, sizeof cuda->peer.text, "the CUDA driver's own calls");
    cuda->peer.enter = enter;
    cuda->peer.leave = leave;
    cuda->peer.copy = copy;
    cuda->peer.copy_at_once = copy_at_once;
    cuda->peer.copy_plain = copy_plain;
    cuda->peer.copies_block = true;
    cuda->peer.wait = wait;
    if (cuda->call.batch || cuda->call.batch_12)
        cuda->peer.copy_batch = copy_batch;
    cuda->peer.alloc = alloc;
    cuda->peer.free = free_memory;
    if (cuda->call.alloc_async) {
        cuda->peer.alloc_async = alloc_async;
        cuda->peer.free_async = free_async;
    }
    if (cuda->call.alloc_async && cuda->call.default_pool) {
        cuda->peer.pool_watch = pool_watch;
        cuda->peer.pool_peak = pool_peak;
        cuda->peer.pool_unwatch = pool_unwatch;
        cuda->peer.pool_trim = pool_trim;
    }
    if (cuda->call.alloc_async && cuda->call.alloc_from) {
        cuda->peer.pool_own = pool_own;
        cuda->peer.pool_disown = pool_disown;
        cuda->peer.full = OUT_OF_MEMORY;
    }
    cuda->peer.host_alloc = host_alloc;
    cuda->peer.host_free = host_free;
    cuda->peer.host_register = host_register;
    cuda->peer.host_unregister = host_unregister;
    cuda->peer.event_record = event_record;
    cuda->peer.event_query = event_query;
    cuda->peer.destroy = destroy;
    if (with_kernel)
        load_kernel(cuda);
    return &cuda->peer;
}
