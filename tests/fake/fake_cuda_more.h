/*
 * fake_cuda_more.h - functions of the fake libcuda.so.1 that programs call and leat does not: synchronous copies,
 * the variants for per-thread default streams, pools, captures, primary contexts, and cuGetProcAddress().
 * fake_cuda.c includes it.
 *
 * It is stricter than the driver about captures: while a stream is capturing, a call that could take long and that
 * a thread makes without having exchanged its capture mode ends the capture, as the driver's manual allows.
 */
#ifndef FAKE_CUDA_MORE_H
#define FAKE_CUDA_MORE_H

/* ---- copies ---- */

#define LEGACY ((cu_stream)LEATI_CU_STREAM_LEGACY)
#define PER_THREAD ((cu_stream)LEATI_CU_STREAM_PER_THREAD)

/* Copies in, as the driver does: waits for the stream, and then reads the source. The copy itself may run later.
 */
static cu_result copy_in_sync(cu_deviceptr dst, const void *src, size_t bytes, cu_stream stream)
{
    TRY(enter_context());
    if (!is_device(dst))
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    queue_drain(queue_of(stream, current()));
    return copy(address(dst), src, bytes, stream);
}

static cu_result copy_any_sync(void *dst, const void *src, size_t bytes, cu_stream stream)
{
    TRY(enter_context());
    queue_drain(queue_of(stream, current()));
    TRY(copy(dst, src, bytes, stream));
    queue_drain(queue_of(stream, current()));
    return LEATI_CUDA_SUCCESS;
}

static cu_stream or_per_thread(cu_stream stream)
{
    return stream ? stream : PER_THREAD;
}

typedef struct {
    size_t src_x, src_y;
    unsigned src_type;
    const void *src_host;
    cu_deviceptr src_device;
    void *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    unsigned dst_type;
    void *dst_host;
    cu_deviceptr dst_device;
    void *dst_array;
    size_t dst_pitch;
    size_t width, height;
} cu_copy_2d;

static cu_result copy_rows(const cu_copy_2d *copy, cu_stream stream, bool sync)
{
    const char *src = copy->src_type == LEATI_CU_MEMORYTYPE_HOST ? copy->src_host : address(copy->src_device);
    char *dst = copy->dst_type == LEATI_CU_MEMORYTYPE_HOST ? copy->dst_host : address(copy->dst_device);
    struct queue_work work = {.src = src + copy->src_y * copy->src_pitch + copy->src_x,
                              .dst = dst + copy->dst_y * copy->dst_pitch + copy->dst_x,
                              .width = copy->width,
                              .height = copy->height,
                              .depth = 1,
                              .src_pitch = copy->src_pitch,
                              .dst_pitch = copy->dst_pitch};

    TRY(enter_context());
    if (!is_known_type(copy->src_type) || !is_known_type(copy->dst_type) || copy->src_pitch < copy->width ||
        copy->dst_pitch < copy->width)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    if (!copy->width || !copy->height)
        return LEATI_CUDA_SUCCESS;
    if (sync)
        queue_drain(queue_of(stream, current()));
    TRY(give_rows(&work, stream));
    if (sync)
        queue_drain(queue_of(stream, current()));
    return LEATI_CUDA_SUCCESS;
}

/* Makes a batch as the driver (580.159.04) makes one of pageable memory: waits for the stream first, whatever the
 * attributes say about when the sources may be read. */
static cu_result copy_batch(const cu_deviceptr *dsts, const cu_deviceptr *srcs, const size_t *sizes, size_t count,
                            const int *attributes, size_t attribute_count, cu_stream stream)
{
    TRY(enter_context());
    if (!dsts || !srcs || !sizes || !count || !stream || stream == LEGACY || !attribute_count || *attributes < 1 ||
        *attributes > 3)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    queue_drain(queue_of(stream, current()));
    for (size_t i = 0; i < count; i++) {
        if (!sizes[i])
            return LEATI_CUDA_ERROR_INVALID_VALUE;
        TRY(copy(address(dsts[i]), address(srcs[i]), sizes[i], stream));
    }
    return LEATI_CUDA_SUCCESS;
}

#define BATCH                                                                                                     \
    cu_deviceptr *dsts, cu_deviceptr *srcs, size_t *sizes, size_t count, int *attributes, size_t *first,          \
        size_t attribute_count

/* ---- pinned memory ---- */

static cu_result host_flags(unsigned *flags, const void *ptr)
{
    const struct memory *memory;

    TRY(enter_context());
    pthread_mutex_lock(&lock);
    memory = *find(ptr);
    if (memory)
        *flags = memory->flags | 2;
    pthread_mutex_unlock(&lock);
    return memory ? LEATI_CUDA_SUCCESS : LEATI_CUDA_ERROR_INVALID_VALUE;
}

/* ---- pools ---- */

struct CUmemPoolHandle_st {
    int device;
    bool is_destroyed;
};

typedef struct CUmemPoolHandle_st *cu_memory_pool;

static struct CUmemPoolHandle_st default_pools[DEVICES_MOST] = {{.device = 0}, {.device = 1}};
static struct CUmemPoolHandle_st own_pools[8];
static _Atomic(cu_memory_pool) current_pools[DEVICES_MOST];
static atomic_uint pools_made;

static cu_memory_pool pool_of(int device)
{
    cu_memory_pool set = atomic_load(&current_pools[device]);

    return set ? set : &default_pools[device];
}

static cu_result get_pool(cu_memory_pool *pool, cu_memory_pool found)
{
    *pool = found;
    return LEATI_CUDA_SUCCESS;
}

static cu_result make_pool(cu_memory_pool *pool)
{
    unsigned n = atomic_fetch_add(&pools_made, 1);

    if (n >= 8)
        return LEATI_CUDA_ERROR_OUT_OF_MEMORY;
    return get_pool(pool, &own_pools[n]);
}

/* The figures of pools are 0, because nobody compares them. */
static cu_result pool_attribute(cu_memory_pool pool, void *value)
{
    if (pool->is_destroyed)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    *(unsigned long long *)value = 0;
    return LEATI_CUDA_SUCCESS;
}

static cu_result make_pooled(cu_deviceptr *ptr, size_t bytes, cu_memory_pool pool, cu_stream stream)
{
    TRY(enter_stream(stream));
    if (!bytes || pool->is_destroyed)
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    TRY(make_on_device(POOLED, ptr, bytes));
    pthread_mutex_lock(&lock);
    (*find(address(*ptr)))->pool = pool;
    pthread_mutex_unlock(&lock);
    return LEATI_CUDA_SUCCESS;
}

static cu_result make_pooled_on(cu_deviceptr *ptr, size_t bytes, cu_stream stream)
{
    TRY(enter_stream(stream));
    return make_pooled(ptr, bytes, pool_of(current()->device), stream);
}

static cu_result make_rows(cu_deviceptr *ptr, size_t *pitch, size_t width, size_t height, unsigned element_bytes)
{
    TRY(enter_context());
    if (!width || !height || (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
        return LEATI_CUDA_ERROR_INVALID_VALUE;
    *pitch = (width + 511) / 512 * 512;
    return make_on_device(ON_DEVICE, ptr, *pitch * height);
}

static cu_result find_range(cu_deviceptr *base, size_t *bytes, cu_deviceptr ptr)
{
    const struct memory *memory;

    TRY(enter_context());
    pthread_mutex_lock(&lock);
    memory = *find(address(ptr));
    if (memory && base)
        *base = (cu_deviceptr)(uintptr_t)memory->start;
    if (memory && bytes)
        *bytes = memory->bytes;
    pthread_mutex_unlock(&lock);
    return memory ? LEATI_CUDA_SUCCESS : LEATI_CUDA_ERROR_NOT_FOUND;
}

static cu_result one_attribute(void *value, cu_pointer_attribute attribute, cu_deviceptr ptr)
{
    const struct memory *memory;

    TRY(count_call());
    pthread_mutex_lock(&lock);
    memory = *find(address(ptr));
    if (memory)
        put_attribute(attribute, memory, ptr, value);
    pthread_mutex_unlock(&lock);
    return memory ? LEATI_CUDA_SUCCESS : LEATI_CUDA_ERROR_INVALID_VALUE;
}

/* The handle has the start and the bytes of the allocation. */
static cu_result make_ipc_handle(size_t handle[8], cu_deviceptr ptr)
{
    const struct memory *memory;

    TRY(enter_context());
    pthread_mutex_lock(&lock);
    memory = *find(address(ptr));
    if (memory && memory->place != ON_DEVICE)
        memory = NULL;
    if (memory) {
        handle[0] = (size_t)memory->start;
        handle[1] = memory->bytes;
    }
    pthread_mutex_unlock(&lock);
    return memory ? LEATI_CUDA_SUCCESS : LEATI_CUDA_ERROR_INVALID_VALUE;
}

/* Streams of a green context: the only one is at this address. */
static _Atomic(cu_stream) green_stream;

static cu_result make_green_stream(cu_stream *stream)
{
    TRY(create_stream(stream, FAKE_STREAM_NON_BLOCKING));
    atomic_store(&green_stream, *stream);
    return LEATI_CUDA_SUCCESS;
}

#define POOL_LIST(X)                                                                                              \
    X(cuDeviceGetDefaultMemPool, (cu_memory_pool * pool, cu_device device),                                       \
      get_pool(pool, &default_pools[device]))                                                                     \
    X(cuDeviceGetMemPool, (cu_memory_pool * pool, cu_device device), get_pool(pool, pool_of(device)))             \
    X(cuDeviceSetMemPool, (cu_device device, cu_memory_pool pool),                                                \
      (atomic_store(&current_pools[device], pool), LEATI_CUDA_SUCCESS))                                           \
    X(cuMemPoolCreate, (cu_memory_pool * pool, const void *properties), ((void)properties, make_pool(pool)))      \
    X(cuMemPoolDestroy, (cu_memory_pool pool), (pool->is_destroyed = true, LEATI_CUDA_SUCCESS))                   \
    X(cuMemPoolGetAttribute, (cu_memory_pool pool, int attribute, void *value),                                   \
      ((void)attribute, pool_attribute(pool, value)))                                                             \
    X(cuMemPoolSetAttribute, (cu_memory_pool pool, int attribute, void *value),                                   \
      ((void)pool, (void)attribute, (void)value, LEATI_CUDA_SUCCESS))                                             \
    X(cuMemPoolTrimTo, (cu_memory_pool pool, size_t keep), ((void)pool, (void)keep, LEATI_CUDA_SUCCESS))          \
    X(cuMemAllocAsync_ptsz, (cu_deviceptr * ptr, size_t bytes, cu_stream stream),                                 \
      make_pooled_on(ptr, bytes, or_per_thread(stream)))                                                          \
    X(cuMemFreeAsync_ptsz, (cu_deviceptr ptr, cu_stream stream), cuMemFreeAsync(ptr, or_per_thread(stream)))      \
    X(cuMemAllocFromPoolAsync, (cu_deviceptr * ptr, size_t bytes, cu_memory_pool pool, cu_stream stream),         \
      make_pooled(ptr, bytes, pool, stream))                                                                      \
    X(cuMemAllocFromPoolAsync_ptsz, (cu_deviceptr * ptr, size_t bytes, cu_memory_pool pool, cu_stream stream),    \
      make_pooled(ptr, bytes, pool, or_per_thread(stream)))                                                       \
    X(cuMemAllocPitch_v2,                                                                                         \
      (cu_deviceptr * ptr, size_t * pitch, size_t width, size_t height, unsigned element_bytes),                  \
      make_rows(ptr, pitch, width, height, element_bytes))                                                        \
    X(cuMemGetAddressRange_v2, (cu_deviceptr * base, size_t * bytes, cu_deviceptr ptr),                           \
      find_range(base, bytes, ptr))                                                                               \
    X(cuPointerGetAttribute, (void *value, cu_pointer_attribute attribute, cu_deviceptr ptr),                     \
      one_attribute(value, attribute, ptr))                                                                       \
    X(cuPointerSetAttribute, (const void *value, int attribute, cu_deviceptr ptr),                                \
      ((void)value, (void)attribute, find_range(NULL, NULL, ptr)))                                                \
    X(cuIpcGetMemHandle, (size_t * handle, cu_deviceptr ptr), make_ipc_handle(handle, ptr))                       \
    X(cuStreamGetGreenCtx, (cu_stream stream, void **green),                                                      \
      (*green = stream == atomic_load(&green_stream) ? &green_stream : NULL, LEATI_CUDA_SUCCESS))                 \
    X(cuGreenCtxStreamCreate, (cu_stream * stream, void *green, unsigned flags, int priority),                    \
      ((void)green, (void)flags, (void)priority, make_green_stream(stream)))

#define COPY_LIST(X)                                                                                              \
    X(cuMemcpyHtoD_v2, (cu_deviceptr dst, const void *src, size_t bytes), copy_in_sync(dst, src, bytes, LEGACY))  \
    X(cuMemcpyHtoD_v2_ptds, (cu_deviceptr dst, const void *src, size_t bytes),                                    \
      copy_in_sync(dst, src, bytes, PER_THREAD))                                                                  \
    X(cuMemcpyDtoH_v2, (void *dst, cu_deviceptr src, size_t bytes),                                               \
      is_device(src) ? copy_any_sync(dst, address(src), bytes, LEGACY) : LEATI_CUDA_ERROR_INVALID_VALUE)          \
    X(cuMemcpyDtoH_v2_ptds, (void *dst, cu_deviceptr src, size_t bytes),                                          \
      is_device(src) ? copy_any_sync(dst, address(src), bytes, PER_THREAD) : LEATI_CUDA_ERROR_INVALID_VALUE)      \
    X(cuMemcpy, (cu_deviceptr dst, cu_deviceptr src, size_t bytes),                                               \
      copy_any_sync(address(dst), address(src), bytes, LEGACY))                                                   \
    X(cuMemcpy_ptds, (cu_deviceptr dst, cu_deviceptr src, size_t bytes),                                          \
      copy_any_sync(address(dst), address(src), bytes, PER_THREAD))                                               \
    X(cuMemcpyAsync_ptsz, (cu_deviceptr dst, cu_deviceptr src, size_t bytes, cu_stream stream),                   \
      copy(address(dst), address(src), bytes, or_per_thread(stream)))                                             \
    X(cuMemcpyHtoDAsync_v2_ptsz, (cu_deviceptr dst, const void *src, size_t bytes, cu_stream stream),             \
      cuMemcpyHtoDAsync_v2(dst, src, bytes, or_per_thread(stream)))                                               \
    X(cuMemcpyDtoHAsync_v2_ptsz, (void *dst, cu_deviceptr src, size_t bytes, cu_stream stream),                   \
      cuMemcpyDtoHAsync_v2(dst, src, bytes, or_per_thread(stream)))                                               \
    X(cuMemcpy2D_v2, (const cu_copy_2d *rows), copy_rows(rows, LEGACY, true))                                     \
    X(cuMemcpy2D_v2_ptds, (const cu_copy_2d *rows), copy_rows(rows, PER_THREAD, true))                            \
    X(cuMemcpy2DUnaligned_v2, (const cu_copy_2d *rows), copy_rows(rows, LEGACY, true))                            \
    X(cuMemcpy2DUnaligned_v2_ptds, (const cu_copy_2d *rows), copy_rows(rows, PER_THREAD, true))                   \
    X(cuMemcpy2DAsync_v2, (const cu_copy_2d *rows, cu_stream stream), copy_rows(rows, stream, false))             \
    X(cuMemcpy2DAsync_v2_ptsz, (const cu_copy_2d *rows, cu_stream stream),                                        \
      copy_rows(rows, or_per_thread(stream), false))                                                              \
    /* The form of CUDA 2, with other parameters: no program may get a replacement for it. */                     \
    X(cuMemcpyHtoD, (unsigned dst, const void *src, unsigned bytes), LEATI_CUDA_ERROR_NOT_SUPPORTED)              \
    X(cuDevicePrimaryCtxReset_v2, (cu_device device), reset_context(device))                                      \
    X(cuDevicePrimaryCtxRelease, (cu_device device), release_context(device))                                     \
    X(cuDevicePrimaryCtxGetState, (cu_device device, unsigned *flags, int *active),                               \
      (*flags = 0, *active = primary_is_active(device), LEATI_CUDA_SUCCESS))                                      \
    X(cuMemcpyBatchAsync, (BATCH, size_t * failed, cu_stream stream),                                             \
      ((void)first, (void)failed, copy_batch(dsts, srcs, sizes, count, attributes, attribute_count, stream)))     \
    X(cuMemcpyBatchAsync_ptsz, (BATCH, size_t * failed, cu_stream stream),                                        \
      cuMemcpyBatchAsync(dsts, srcs, sizes, count, attributes, first, attribute_count, failed,                    \
                         or_per_thread(stream)))                                                                  \
    X(cuMemcpyBatchAsync_v2, (BATCH, cu_stream stream),                                                           \
      cuMemcpyBatchAsync(dsts, srcs, sizes, count, attributes, first, attribute_count, NULL, stream))             \
    X(cuMemcpyBatchAsync_v2_ptsz, (BATCH, cu_stream stream),                                                      \
      cuMemcpyBatchAsync(dsts, srcs, sizes, count, attributes, first, attribute_count, NULL,                      \
                         or_per_thread(stream)))                                                                  \
    X(cuMemAllocHost_v2, (void **ptr, size_t bytes), cuMemHostAlloc(ptr, bytes, 0))                               \
    X(cuMemHostGetFlags, (unsigned *flags, void *ptr), host_flags(flags, ptr))                                    \
    X(cuStreamBeginCapture_v2, (cu_stream stream, unsigned mode), begin_capture(stream))                          \
    X(cuStreamEndCapture, (cu_stream stream, void **graph), end_capture(graph))                                   \
    X(cuStreamIsCapturing, (cu_stream stream, int *capturing),                                                    \
      (*capturing = !is_default(stream) && stream == atomic_load(&captured), LEATI_CUDA_SUCCESS))                 \
    X(cuGetProcAddress_v2, (const char *name, void **function, int version, unsigned long long flags, int *why),  \
      look_up(name, function, version, flags, why))                                                               \
    X(cuGetProcAddress, (const char *name, void **function, int version, unsigned long long flags),               \
      look_up(name, function, version, flags, NULL))

/* ---- primary contexts ---- */

static int primary_is_active(int device)
{
    int active;

    pthread_mutex_lock(&lock);
    active = retained[device] > 0;
    pthread_mutex_unlock(&lock);
    return active;
}

/* Frees all memory of the context. Handles and addresses that were not given back beforehand are no longer valid.
 */
static cu_result reset_context(int device)
{
    pthread_mutex_lock(&lock);
    for (struct memory **link = &memories; *link;)
        if ((*link)->context == &contexts[device])
            remove_memory(link);
        else
            link = &(*link)->next;
    pthread_mutex_unlock(&lock);
    return LEATI_CUDA_SUCCESS;
}

/* ---- captures ---- */

static cu_result begin_capture(cu_stream stream)
{
    atomic_store(&captured, stream);
    atomic_store(&capture_ended, 0);
    return LEATI_CUDA_SUCCESS;
}

static cu_result end_capture(void **graph)
{
    *graph = NULL;
    atomic_store(&captured, NULL);
    return atomic_load(&capture_ended) ? LEATI_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : LEATI_CUDA_SUCCESS;
}

static cu_result look_up(const char *name, void **function, int version, unsigned long long flags, int *why);

#define DECLARE_MORE(name, parameters, result) EXPORT cu_result name parameters;
COPY_LIST(DECLARE_MORE)
POOL_LIST(DECLARE_MORE)
#define DEFINE_MORE(name, parameters, result)                                                                     \
    cu_result name parameters                                                                                     \
    {                                                                                                             \
        return result;                                                                                            \
    }
COPY_LIST(DEFINE_MORE)
POOL_LIST(DEFINE_MORE)

/* ---- lookups ---- */

/* X(name, since version, function, function with a per-thread default stream) */
#define LOOKUP_LIST(X)                                                                                            \
    X(cuMemcpyHtoD, 2000, cuMemcpyHtoD, cuMemcpyHtoD)                                                             \
    X(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds)                                                  \
    X(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds)                                                  \
    X(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz)                                   \
    X(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz)                                   \
    X(cuMemcpy, 4000, cuMemcpy, cuMemcpy_ptds)                                                                    \
    X(cuMemcpyAsync, 4000, cuMemcpyAsync, cuMemcpyAsync_ptsz)                                                     \
    X(cuMemcpy2D, 3020, cuMemcpy2D_v2, cuMemcpy2D_v2_ptds)                                                        \
    X(cuMemcpy2DUnaligned, 3020, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds)                             \
    X(cuMemcpy2DAsync, 3020, cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz)                                         \
    X(cuMemAlloc, 3020, cuMemAlloc_v2, cuMemAlloc_v2)                                                             \
    X(cuMemFree, 3020, cuMemFree_v2, cuMemFree_v2)                                                                \
    X(cuMemAllocPitch, 3020, cuMemAllocPitch_v2, cuMemAllocPitch_v2)                                              \
    X(cuMemAllocAsync, 11020, cuMemAllocAsync, cuMemAllocAsync_ptsz)                                              \
    X(cuMemFreeAsync, 11020, cuMemFreeAsync, cuMemFreeAsync_ptsz)                                                 \
    X(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz)                      \
    X(cuMemGetInfo, 3020, cuMemGetInfo_v2, cuMemGetInfo_v2)                                                       \
    X(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2, cuMemGetAddressRange_v2)                               \
    X(cuPointerGetAttribute, 4000, cuPointerGetAttribute, cuPointerGetAttribute)                                  \
    X(cuPointerGetAttributes, 7000, cuPointerGetAttributes, cuPointerGetAttributes)                               \
    X(cuPointerSetAttribute, 6000, cuPointerSetAttribute, cuPointerSetAttribute)                                  \
    X(cuIpcGetMemHandle, 4010, cuIpcGetMemHandle, cuIpcGetMemHandle)                                              \
    X(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute, cuMemPoolGetAttribute)                                 \
    X(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute, cuMemPoolSetAttribute)                                 \
    X(cuMemPoolTrimTo, 11020, cuMemPoolTrimTo, cuMemPoolTrimTo)                                                   \
    X(cuStreamDestroy, 4000, cuStreamDestroy_v2, cuStreamDestroy_v2)                                              \
    X(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2, cuStreamBeginCapture_v2)                              \
    X(cuStreamEndCapture, 10000, cuStreamEndCapture, cuStreamEndCapture)                                          \
    X(cuMemcpyBatchAsync, 12080, cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz)                                     \
    X(cuMemcpyBatchAsync, 13000, cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz)                               \
    X(cuMemHostAlloc, 2020, cuMemHostAlloc, cuMemHostAlloc)                                                       \
    X(cuMemAllocHost, 3020, cuMemAllocHost_v2, cuMemAllocHost_v2)                                                 \
    X(cuMemFreeHost, 2000, cuMemFreeHost, cuMemFreeHost)                                                          \
    X(cuMemHostGetFlags, 2030, cuMemHostGetFlags, cuMemHostGetFlags)                                              \
    X(cuMemHostRegister, 6050, cuMemHostRegister_v2, cuMemHostRegister_v2)                                        \
    X(cuMemHostUnregister, 4000, cuMemHostUnregister, cuMemHostUnregister)                                        \
    X(cuInit, 2000, cuInit, cuInit)                                                                               \
    X(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                         \
    X(cuDevicePrimaryCtxRelease, 7000, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease)                      \
    X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease_v2)               \
    X(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset_v2)                     \
    X(cuStreamSynchronize, 2000, cuStreamSynchronize, cuStreamSynchronize)                                        \
    X(cuGetProcAddress, 11030, cuGetProcAddress, cuGetProcAddress)                                                \
    X(cuGetProcAddress, 12000, cuGetProcAddress_v2, cuGetProcAddress_v2)

/* With the setting "thunks=1" cuGetProcAddress() returns this function, and dlsym() another one. With "one=1" it
 * returns the same functions for both kinds of default streams. */
static cu_result thunk_in(cu_deviceptr dst, const void *src, size_t bytes)
{
    return copy_in_sync(dst, src, bytes, LEGACY);
}

static cu_result look_up(const char *name, void **function, int version, unsigned long long flags, int *why)
{
    static const struct {
        const char *name;
        int since;
        void *function, *per_thread;
    } entries[] = {
#define ENTRY(name, since, function, per_thread) {#name, since, (void *)function, (void *)per_thread},
        LOOKUP_LIST(ENTRY)
#undef ENTRY
    };
    int best = -1;
    bool known = false;

    for (int i = 0; i < (int)(sizeof entries / sizeof entries[0]); i++) {
        if (strcmp(entries[i].name, name) != 0)
            continue;
        known = true;
        if (entries[i].since <= version && (best < 0 || entries[i].since > entries[best].since))
            best = i;
    }
    *function = NULL;
    if (why)
        *why = best >= 0 ? 0 : known ? 2 : 1;
    if (best < 0)
        return why ? LEATI_CUDA_SUCCESS : LEATI_CUDA_ERROR_NOT_FOUND;
    *function = flags & 2 && !setting("one=", 0) ? entries[best].per_thread : entries[best].function;
    if (setting("thunks=", 0) && *function == (void *)cuMemcpyHtoD_v2)
        *function = (void *)thunk_in;
    return LEATI_CUDA_SUCCESS;
}

#endif
