/* test_cudart_stream.c - tests the CUDA runtime's streams, events, pools and launches: their order, which calls
 * wait, and refusals. */
#include <cuda_runtime.h>

#include "compat.h"

#include <leat/device_code.h>

#include <pthread.h>

#define BYTES 4096

/* ---- the default streams ---- */

static void the_legacy_stream_waits_for_blocking_ones(void **state)
{
    cudaStream_t blocking, other;
    gate open = 0;

    (void)state;
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaLaunchHostFunc(blocking, wait_at_gate, &open));
    GIVES(cudaErrorNotReady, cudaStreamQuery(blocking));
    GIVES(cudaErrorNotReady, cudaStreamQuery(0));
    GIVES(cudaErrorNotReady, cudaStreamQuery(cudaStreamLegacy));
    OK(cudaStreamQuery(other));
    OK(cudaGetLastError()); /* cudaErrorNotReady does not become the last error */
    atomic_store(&open, 1);
    OK(cudaStreamSynchronize(0));
    OK(cudaStreamQuery(blocking));
    OK(cudaStreamDestroy(other));
    OK(cudaStreamDestroy(blocking));
}

static void blocking_streams_wait_for_the_legacy_one(void **state)
{
    cudaStream_t blocking, other;
    unsigned char *device, out[BYTES];
    gate open = 0;

    (void)state;
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&device, BYTES));
    OK(cudaMemset(device, 1, BYTES));
    OK(cudaDeviceSynchronize());
    OK(cudaLaunchHostFunc(0, wait_at_gate, &open));
    OK(cudaMemsetAsync(device, 2, BYTES, blocking));
    GIVES(cudaErrorNotReady, cudaStreamQuery(blocking));
    OK(cudaMemcpyAsync(out, device, BYTES, cudaMemcpyDeviceToHost, other)); /* the call does not wait for the
                                                                             * default stream */
    HAS_BYTES(out, BYTES, 1);
    atomic_store(&open, 1);
    OK(cudaStreamSynchronize(blocking));
    OK(cudaMemcpy(out, device, BYTES, cudaMemcpyDeviceToHost));
    HAS_BYTES(out, BYTES, 2);
    OK(cudaFree(device));
    OK(cudaStreamDestroy(other));
    OK(cudaStreamDestroy(blocking));
}

static void *query_own_default_stream(void *unused)
{
    (void)unused;
    return cudaStreamQuery(cudaStreamPerThread) == cudaSuccess ? NULL : (void *)1;
}

static void each_thread_has_a_default_stream(void **state)
{
    pthread_t thread;
    void *wrong;
    gate open = 0;

    (void)state;
    OK(cudaLaunchHostFunc(cudaStreamPerThread, wait_at_gate, &open));
    GIVES(cudaErrorNotReady, cudaStreamQuery(cudaStreamPerThread));
    GIVES(cudaErrorNotReady, cudaStreamQuery(0)); /* the per-thread default stream is a blocking stream */
    atomic_store(&open, 1);
    OK(cudaStreamSynchronize(0));
    assert_int_equal(pthread_create(&thread, NULL, query_own_default_stream, NULL), 0);
    pthread_join(thread, &wrong);
    assert_null(wrong);
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamDestroy(cudaStreamPerThread));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamDestroy(0));
}

static void do_nothing(void *unused)
{
    (void)unused;
}

/* Completed work does not count. A stream is idle if its own work is complete, even if the default stream or
 * another stream had work in the meantime. */
static void what_is_over_keeps_nobody_busy(void **state)
{
    cudaStream_t stream;

    (void)state;
    OK(cudaStreamCreate(&stream));
    for (int i = 0; i < 200; i++) {
        OK(cudaLaunchHostFunc(stream, do_nothing, NULL));
        OK(cudaStreamSynchronize(stream));
        OK(cudaStreamQuery(0));
        OK(cudaLaunchHostFunc(0, do_nothing, NULL));
        OK(cudaStreamSynchronize(0));
        OK(cudaStreamQuery(stream));
    }
    OK(cudaStreamDestroy(stream));
}

/* Creates so many streams that handles are reused. The default stream must still know which streams exist. */
static void streams_come_and_go(void **state)
{
    cudaStream_t first, stream;
    gate open = 0;

    (void)state;
    OK(cudaStreamCreate(&first));
    for (int i = 0; i < 4200; i++) {
        OK(cudaStreamCreate(&stream));
        OK(cudaStreamDestroy(stream));
    }
    OK(cudaLaunchHostFunc(first, wait_at_gate, &open));
    GIVES(cudaErrorNotReady, cudaStreamQuery(0));
    atomic_store(&open, 1);
    OK(cudaStreamSynchronize(0));
    OK(cudaStreamQuery(first));
    OK(cudaStreamDestroy(first));
}

/* The work of a destroyed stream continues, and the default stream waits for it. */
static void work_outlives_its_stream(void **state)
{
    cudaStream_t stream;
    gate open = 0;

    (void)state;
    OK(cudaStreamCreate(&stream));
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &open));
    OK(cudaStreamDestroy(stream));
    GIVES(cudaErrorNotReady, cudaStreamQuery(0));
    OK(cudaLaunchHostFunc(0, do_nothing, NULL));
    GIVES(cudaErrorNotReady, cudaStreamQuery(0));
    atomic_store(&open, 1);
    OK(cudaStreamSynchronize(0));
}

static void stand_in_callback(cudaStream_t stream, cudaError_t status, void *argument)
{
    (void)stream, (void)status;
    wait_at_gate(argument);
}

/* The default stream waits for every kind of work in a blocking stream, and blocking streams wait for every kind
 * of work in the default stream. */
static void all_work_keeps_the_default_stream_waiting(void **state)
{
    cudaStream_t stream, apart;
    cudaEvent_t event, shared;

    (void)state;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    OK(cudaEventCreate(&event));
    OK(cudaEventCreateWithFlags(&shared, cudaEventInterprocess | cudaEventDisableTiming));
    for (int sort = 0; sort < 3; sort++) {
        for (int by_default = 0; by_default < 2; by_default++) {
            cudaStream_t first = by_default ? 0 : stream, then = by_default ? stream : 0;
            gate open = 0;

            if (sort) {
                OK(cudaLaunchHostFunc(apart, wait_at_gate, &open));
                OK(cudaEventRecord(sort == 1 ? event : shared, apart));
                OK(cudaStreamWaitEvent(first, sort == 1 ? event : shared, 0));
            } else {
                OK(cudaStreamAddCallback(first, stand_in_callback, &open, 0));
            }
            if (by_default) {
                OK(cudaStreamQuery(then)); /* the stream is idle, because it has no work of its own */
                OK(cudaLaunchHostFunc(then, do_nothing, NULL));
            }
            GIVES(cudaErrorNotReady, cudaStreamQuery(then));
            atomic_store(&open, 1);
            OK(cudaStreamSynchronize(then));
            OK(cudaStreamSynchronize(first));
            OK(cudaStreamSynchronize(apart));
        }
    }
    OK(cudaEventDestroy(event));
    OK(cudaEventDestroy(shared));
    OK(cudaStreamDestroy(stream));
    OK(cudaStreamDestroy(apart));
}

static void *open_later(void *open)
{
    sleep_ms(50);
    atomic_store((gate *)open, 1);
    return NULL;
}

/* The host waits for an event, also for an interprocess event. */
static void events_are_waited_for(void **state)
{
    cudaStream_t stream;

    (void)state;
    OK(cudaStreamCreate(&stream));
    for (int shared = 0; shared < 2; shared++) {
        pthread_t thread;
        cudaEvent_t event;
        gate open = 0;

        OK(cudaEventCreateWithFlags(&event, shared ? cudaEventInterprocess | cudaEventDisableTiming : 0));
        OK(cudaLaunchHostFunc(stream, wait_at_gate, &open));
        OK(cudaEventRecord(event, stream));
        assert_int_equal(pthread_create(&thread, NULL, open_later, &open), 0);
        OK(cudaEventSynchronize(event));
        assert_int_equal(atomic_load(&open), 1);
        pthread_join(thread, NULL);
        OK(cudaEventDestroy(event));
    }
    OK(cudaStreamDestroy(stream));
}

/* If an event was recorded in two streams, only the later record counts, even if it completes first. */
static void the_latest_record_counts(void **state)
{
    cudaStream_t streams[2];
    cudaEvent_t events[2];

    (void)state;
    OK(cudaEventCreate(&events[0]));
    OK(cudaEventCreateWithFlags(&events[1], cudaEventInterprocess | cudaEventDisableTiming));
    for (int i = 0; i < 2; i++)
        OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    for (int i = 0; i < 2; i++) {
        gate open = 0;

        OK(cudaLaunchHostFunc(streams[0], wait_at_gate, &open));
        OK(cudaEventRecord(events[i], streams[0]));
        GIVES(cudaErrorNotReady, cudaEventQuery(events[i]));
        OK(cudaEventRecord(events[i], streams[1]));
        OK(cudaEventSynchronize(events[i]));
        atomic_store(&open, 1);
        OK(cudaStreamSynchronize(streams[0]));
        OK(cudaEventQuery(events[i]));
        OK(cudaEventDestroy(events[i]));
    }
    for (int i = 0; i < 2; i++)
        OK(cudaStreamDestroy(streams[i]));
}

/* ---- what waits ---- */

static void copies_wait_as_documented(void **state)
{
    unsigned char *a, *b, *pinned, pageable[BYTES];
    cudaStream_t stream;
    gate open = 0;

    (void)state;
    OK(cudaMalloc((void **)&a, BYTES));
    OK(cudaMalloc((void **)&b, BYTES));
    OK(cudaMallocHost((void **)&pinned, BYTES));
    OK(cudaStreamCreate(&stream));
    memset(pinned, 3, BYTES);
    memset(pageable, 4, BYTES);
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &open));
    OK(cudaMemcpyAsync(a, pinned, BYTES, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(b, a, BYTES, cudaMemcpyDeviceToDevice, stream));
    OK(cudaMemcpyAsync(a, pageable, BYTES, cudaMemcpyHostToDevice, stream));
    memset(pageable, 0, BYTES); /* the call has already read the source */
    OK(cudaMemcpy2DAsync(a, 64, pageable, 64, 32, 8, cudaMemcpyHostToDevice, stream));
    OK(cudaMemset(b, 3, 1)); /* runs in the default stream; the call returns at once */
    OK(cudaMemcpy(b + 1, b, 1, cudaMemcpyDeviceToDevice));
    GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
    GIVES(cudaErrorNotReady, cudaStreamQuery(0));
    atomic_store(&open, 1);
    OK(cudaMemcpy(pinned, b, BYTES, cudaMemcpyDeviceToHost)); /* this call waits */
    OK(cudaStreamQuery(0));
    HAS_BYTES(pinned, BYTES, 3);
    OK(cudaMemcpy(pageable, a, BYTES, cudaMemcpyDeviceToHost));
    HAS_BYTES(pageable, 32, 0);
    HAS_BYTES(pageable + 32, 32, 4);
    HAS_BYTES(pageable + 512, BYTES - 512, 4);
    OK(cudaStreamDestroy(stream));
    OK(cudaFreeHost(pinned));
    OK(cudaFree(b));
    OK(cudaFree(a));
}

static void a_destroyed_stream_is_refused(void **state)
{
    cudaStream_t stream;
    cudaEvent_t event;
    unsigned flags;

    (void)state;
    GIVES(cudaErrorInvalidValue, cudaStreamCreate(NULL));
    GIVES(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 2));
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&event));
    OK(cudaStreamDestroy(stream));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamDestroy(stream));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamQuery(stream));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(stream));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamWaitEvent(stream, event, 0));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventRecord(event, stream));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamGetFlags(stream, &flags));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamQuery((cudaStream_t)&flags));
    OK(cudaEventDestroy(event));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventDestroy(event));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventQuery(event));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventDestroy(NULL));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamWaitEvent(0, NULL, 0));
}

static void streams_say_what_they_are(void **state)
{
    int least, greatest, priority, device;
    unsigned long long id, other;
    cudaStream_t stream;
    unsigned flags;

    (void)state;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest - 10));
    OK(cudaStreamGetPriority(stream, &priority));
    assert_int_equal(priority, greatest);
    OK(cudaStreamDestroy(stream));
    OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, least + 1));
    OK(cudaStreamGetPriority(stream, &priority));
    assert_int_equal(priority, least);
    OK(cudaStreamGetFlags(stream, &flags));
    assert_int_equal(flags, cudaStreamNonBlocking);
    OK(cudaStreamGetDevice(stream, &device));
    assert_int_equal(device, 0);
    OK(cudaStreamGetId(stream, &id));
    OK(cudaStreamGetId(0, &other));
    assert_true(id != other);
    GIVES(cudaErrorInvalidValue, cudaStreamGetFlags(stream, NULL));
    OK(cudaStreamDestroy(stream));
}

/* ---- events ---- */

static void events_mark_places(void **state)
{
    cudaStream_t first, second;
    cudaEvent_t start, end, plain;
    gate open = 0;
    float ms = -1;

    (void)state;
    OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreateWithFlags(&end, cudaEventBlockingSync));
    OK(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
    OK(cudaEventQuery(start)); /* the event was never recorded */
    OK(cudaEventSynchronize(start));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, end));
    OK(cudaEventRecord(start, first));
    OK(cudaLaunchHostFunc(first, wait_at_gate, &open));
    OK(cudaEventRecord(end, first));
    OK(cudaStreamWaitEvent(second, end, 0));
    GIVES(cudaErrorNotReady, cudaEventQuery(end));
    GIVES(cudaErrorNotReady, cudaEventElapsedTime(&ms, start, end));
    GIVES(cudaErrorNotReady, cudaStreamQuery(second));
    atomic_store(&open, 1);
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&ms, start, end));
    assert_true(ms >= 0);
    OK(cudaEventRecord(plain, first));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, plain));
    GIVES(cudaErrorInvalidValue, cudaEventElapsedTime(NULL, start, end));
    GIVES(cudaErrorInvalidValue, cudaEventCreateWithFlags(&plain, 8));
    GIVES(cudaErrorInvalidValue, cudaEventCreateWithFlags(&plain, cudaEventInterprocess));
    GIVES(cudaErrorInvalidValue, cudaEventCreate(NULL));
    GIVES(cudaErrorInvalidValue, cudaStreamWaitEvent(second, end, 4));
    OK(cudaSetDevice(1));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventRecord(end, 0)); /* the stream belongs to another device */
    OK(cudaSetDevice(0));
    OK(cudaEventDestroy(plain));
    OK(cudaEventDestroy(end));
    OK(cudaEventDestroy(start));
    OK(cudaStreamDestroy(second));
    OK(cudaStreamDestroy(first));
}

/* ---- host functions ---- */

static atomic_int inside;

static void call_from_inside(void *argument)
{
    void *ptr;

    atomic_store(&inside, (int)cudaMalloc(&ptr, 16));
    *(int *)argument = 5;
}

static void callback(cudaStream_t stream, cudaError_t status, void *argument)
{
    *(cudaStream_t *)argument = status == cudaSuccess ? stream : NULL;
}

static void host_functions_run_in_order(void **state)
{
    cudaStream_t stream, seen = NULL;
    int value = 0;

    (void)state;
    OK(cudaStreamCreate(&stream));
    OK(cudaLaunchHostFunc(stream, call_from_inside, &value));
    OK(cudaStreamAddCallback(stream, callback, &seen, 0));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(value, 5);
    assert_int_equal(atomic_load(&inside), cudaErrorNotPermitted);
    assert_ptr_equal(seen, stream);
    GIVES(cudaErrorInvalidValue, cudaLaunchHostFunc(stream, NULL, NULL));
    GIVES(cudaErrorInvalidValue, cudaStreamAddCallback(stream, callback, &seen, 1));
    OK(cudaStreamDestroy(stream));
}

/* ---- kernels ---- */

LEAT_KERNEL(add_one, 2, int *, data, uint64_t, count)
{
    LEAT_FOR (i, count)
        data[i]++;
}

static void kernels_by_function_pointer(void **state)
{
    const void *kernel = &leat_cpu_kernel_add_one;
    uint64_t count = 1000;
    int host[1000], *device, not_a_kernel[16] = {0};
    dim3 grid = {4, 1, 1}, block = {64, 1, 1}, none = {0, 1, 1}, large = {100000, 1, 1};
    void *args[] = {&device, &count};
    struct cudaFuncAttributes attributes;

    (void)state;
    OK(cudaMalloc((void **)&device, sizeof host));
    OK(cudaMemset(device, 0, sizeof host));
    OK(cudaLaunchKernel(kernel, grid, block, args, 0, 0));
    OK(cudaLaunchKernel(kernel, grid, block, args, 0, 0));
    OK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(host[i], 2);
    OK(cudaFuncGetAttributes(&attributes, kernel));
    assert_true(attributes.maxThreadsPerBlock >= 64);
    GIVES(cudaErrorInvalidConfiguration, cudaLaunchKernel(kernel, none, block, args, 0, 0));
    GIVES(cudaErrorInvalidConfiguration, cudaLaunchKernel(kernel, grid, large, args, 0, 0));
    GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(NULL, grid, block, args, 0, 0));
    GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(not_a_kernel, grid, block, args, 0, 0));
    GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel((void *)(uintptr_t)64, grid, block, args, 0, 0));
    OK(cudaFree(device));
}

/* ---- pools ---- */

static void pools_count_and_give_back(void **state)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    uint64_t value, keep = UINT64_MAX;
    cudaMemPool_t pool, standard, now;
    cudaStream_t stream;
    cudaEvent_t event;
    void *a, *b;
    int flag;

    (void)state;
    OK(cudaStreamCreate(&stream));
    OK(cudaDeviceGetDefaultMemPool(&standard, 0));
    OK(cudaMemPoolGetAttribute(standard, cudaMemPoolAttrReleaseThreshold, &value));
    assert_int_equal(value, 0);
    OK(cudaMemPoolGetAttribute(standard, cudaMemPoolReuseAllowOpportunistic, &flag));
    assert_int_equal(flag, 1);
    OK(cudaMallocAsync(&a, 4 << 20, stream));
    OK(cudaMemPoolGetAttribute(standard, cudaMemPoolAttrUsedMemCurrent, &value));
    assert_int_equal(value, 4 << 20);
    OK(cudaFreeAsync(a, stream));
    GIVES(cudaErrorInvalidValue, cudaFreeAsync(a, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemPoolGetAttribute(standard, cudaMemPoolAttrUsedMemCurrent, &value));
    assert_int_equal(value, 0);
    OK(cudaMemPoolGetAttribute(standard, cudaMemPoolAttrReservedMemCurrent, &value));
    assert_int_equal(value, 0); /* the memory is released at once, because the threshold is 0 */
    OK(cudaEventCreate(&event));
    OK(cudaMallocAsync(&a, 4 << 20, stream));
    OK(cudaFreeAsync(a, stream));
    OK(cudaEventRecord(event, stream));
    OK(cudaEventSynchronize(event)); /* a wait for an event releases memory too */
    OK(cudaMemPoolGetAttribute(standard, cudaMemPoolAttrReservedMemCurrent, &value));
    assert_int_equal(value, 0);
    OK(cudaEventDestroy(event));
    OK(cudaMemPoolGetAttribute(standard, cudaMemPoolAttrUsedMemHigh, &value));
    assert_int_equal(value, 4 << 20);
    value = 0;
    OK(cudaMemPoolSetAttribute(standard, cudaMemPoolAttrUsedMemHigh, &value));
    OK(cudaMemPoolGetAttribute(standard, cudaMemPoolAttrUsedMemHigh, &value));
    assert_int_equal(value, 0);
    value = 1;
    GIVES(cudaErrorInvalidValue, cudaMemPoolSetAttribute(standard, cudaMemPoolAttrUsedMemHigh, &value));
    GIVES(cudaErrorInvalidValue, cudaMemPoolSetAttribute(standard, cudaMemPoolAttrUsedMemCurrent, &value));

    OK(cudaMemPoolCreate(&pool, &props));
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    OK(cudaMallocFromPoolAsync(&a, 2 << 20, pool, stream));
    OK(cudaMallocFromPoolAsync(&b, 2 << 20, pool, stream));
    OK(cudaMemsetAsync(a, 1, 2 << 20, stream));
    OK(cudaFreeAsync(a, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &value));
    assert_true(value >= 4 << 20); /* the pool keeps the memory, because its threshold is high */
    OK(cudaMemPoolTrimTo(pool, 0));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &value));
    assert_true(value < 4 << 20);
    OK(cudaDeviceSetMemPool(0, pool));
    OK(cudaDeviceGetMemPool(&now, 0));
    assert_ptr_equal(now, pool);
    OK(cudaMemPoolDestroy(pool));
    GIVES(cudaErrorInvalidValue, cudaMemPoolDestroy(pool));
    OK(cudaDeviceGetMemPool(&now, 0));
    assert_ptr_equal(now, standard);
    OK(cudaFree(b)); /* a block stays valid after its pool is destroyed */
    GIVES(cudaErrorInvalidValue, cudaMemPoolDestroy(standard));
    GIVES(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, NULL));
    props.allocType = cudaMemAllocationTypeInvalid;
    GIVES(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, &props));
    OK(cudaStreamDestroy(stream));
}

static void pools_are_for_peers_that_are_let_in(void **state)
{
    struct cudaMemLocation other = {cudaMemLocationTypeDevice, 1};
    struct cudaMemAccessDesc access = {other, cudaMemAccessFlagsProtReadWrite};
    enum cudaMemAccessFlags flags;
    cudaMemPool_t pool;

    (void)state;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaMemPoolGetAccess(&flags, pool, &other));
    assert_int_equal(flags, cudaMemAccessFlagsProtNone);
    OK(cudaMemPoolSetAccess(pool, &access, 1));
    OK(cudaMemPoolGetAccess(&flags, pool, &other));
    assert_int_equal(flags, cudaMemAccessFlagsProtReadWrite);
    access.location.id = 0;
    access.flags = cudaMemAccessFlagsProtNone;
    GIVES(cudaErrorInvalidDevice, cudaMemPoolSetAccess(pool, &access, 1));
    GIVES(cudaErrorInvalidValue, cudaMemPoolSetAccess(pool, NULL, 1));
}

static void blocks_may_be_freed_on_another_devices_stream(void **state)
{
    cudaStream_t there;
    gate open = 0;
    void *block;

    (void)state;
    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&there));
    OK(cudaSetDevice(0));
    OK(cudaMallocAsync(&block, 1 << 20, 0));
    OK(cudaStreamSynchronize(0));
    OK(cudaLaunchHostFunc(there, wait_at_gate, &open));
    OK(cudaFreeAsync(block, there));
    atomic_store(&open, 1);
    OK(cudaStreamSynchronize(there));
    OK(cudaStreamDestroy(there));
}

/* ---- what is not supported, and the end ---- */

static void what_there_is_not(void **state)
{
    enum cudaStreamCaptureStatus status;
    cudaIpcMemHandle_t handle;
    cudaGraph_t graph;
    void *ptr;

    (void)state;
    OK(cudaMalloc(&ptr, 16));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorIllegalState, cudaStreamEndCapture(0, &graph));
    OK(cudaStreamIsCapturing(0, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    GIVES(cudaErrorInvalidValue, cudaIpcGetMemHandle(NULL, ptr));
    GIVES(cudaErrorInvalidValue, cudaIpcGetMemHandle(&handle, &status));
    OK(cudaFree(ptr));
}

static void a_reset_takes_everything(void **state)
{
    cudaStream_t stream;
    cudaEvent_t event;
    void *ptr, *pinned;
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
    cudaMemPool_t pool, current;
    cudaArray_t array;

    (void)state;
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&event));
    OK(cudaMalloc(&ptr, 1000));
    OK(cudaMallocHost(&pinned, 1000));
    OK(cudaMallocAsync(&ptr, 1000, stream));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    OK(cudaMemPoolCreate(&pool, &props));
    OK(cudaDeviceSetMemPool(0, pool));
    OK(cudaMallocArray(&array, &format, 8, 8, 0));
    kernels_by_function_pointer(NULL);
    OK(cudaDeviceReset());
    kernels_by_function_pointer(NULL);
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamQuery(stream));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventQuery(event));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventDestroy(event));
    GIVES(cudaErrorInvalidValue, cudaMemPoolDestroy(pool));
    GIVES(cudaErrorInvalidValue, cudaFreeArray(array));
    OK(cudaDeviceGetMemPool(&current, 0));
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    assert_ptr_equal(current, pool);
    OK(cudaMallocAsync(&ptr, 1000, 0));
    OK(cudaFreeAsync(ptr, 0));
    GIVES(cudaErrorInvalidValue, cudaFree(ptr));
    GIVES(cudaErrorInvalidValue, cudaFreeHost(pinned));
    OK(cudaMalloc(&ptr, 1000));
    OK(cudaMemset(ptr, 1, 1000));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    OK(cudaFree(ptr));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_legacy_stream_waits_for_blocking_ones),
    cmocka_unit_test(blocking_streams_wait_for_the_legacy_one),
    cmocka_unit_test(each_thread_has_a_default_stream),
    cmocka_unit_test(what_is_over_keeps_nobody_busy),
    cmocka_unit_test(streams_come_and_go),
    cmocka_unit_test(work_outlives_its_stream),
    cmocka_unit_test(all_work_keeps_the_default_stream_waiting),
    cmocka_unit_test(the_latest_record_counts),
    cmocka_unit_test(events_are_waited_for),
    cmocka_unit_test(copies_wait_as_documented),
    cmocka_unit_test(a_destroyed_stream_is_refused),
    cmocka_unit_test(streams_say_what_they_are),
    cmocka_unit_test(events_mark_places),
    cmocka_unit_test(host_functions_run_in_order),
    cmocka_unit_test(kernels_by_function_pointer),
    cmocka_unit_test(pools_count_and_give_back),
    cmocka_unit_test(pools_are_for_peers_that_are_let_in),
    cmocka_unit_test(blocks_may_be_freed_on_another_devices_stream),
    cmocka_unit_test(what_there_is_not),
    cmocka_unit_test(a_reset_takes_everything),
};

int main(void)
{
    int wrong = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}
