/*
 * test_cudart_waits.c - tests for which work each call waits: synchronous copies, calls that free memory, graphs
 * of several devices, and each kind of work next to the default stream. A gate that opens late holds up that work,
 * so a call that does not wait always returns too early.
 */
#include <cuda_runtime.h>

#include "compat.h"

#include <leat/device_code.h>

#include <pthread.h>

#define BYTES 4096
#define LONG_BYTES ((size_t)2 << 20) /* longer than a copy through a pinned buffer can be */

static cudaStream_t stream;
static unsigned char *device, *more, *pinned, *pageable;

/* ---- a gate that another thread opens ---- */

static gate open_now;
static pthread_t opener;

static void *open_later(void *unused)
{
    (void)unused;
    sleep_ms(30);
    atomic_store(&open_now, 1);
    return NULL;
}

/* Holds up the stream by a gate that opens 30 ms later. */
static void hold_in(cudaStream_t held)
{
    atomic_store(&open_now, 0);
    OK(cudaLaunchHostFunc(held, wait_at_gate, &open_now));
    assert_int_equal(pthread_create(&opener, NULL, open_later, NULL), 0);
}

static void hold(void)
{
    hold_in(stream);
}

/* Checks that the gate was already open when the previous call returned. */
static void has_waited(void)
{
    int is_open = atomic_load(&open_now);

    pthread_join(opener, NULL);
    assert_int_equal(is_open, 1);
    OK(cudaDeviceSynchronize());
}

/* ---- copies ---- */

static void synchronous_copies_wait(void **state)
{
    (void)state;
    hold();
    OK(cudaMemcpy(device, pinned, BYTES, cudaMemcpyHostToDevice));
    has_waited();
    hold();
    OK(cudaMemcpy(pinned, device, BYTES, cudaMemcpyDeviceToHost));
    has_waited();
    hold();
    OK(cudaMemcpy(pinned + BYTES, pinned, BYTES, cudaMemcpyHostToHost));
    has_waited();
    hold();
    OK(cudaMemcpy2D(device, 64, pinned, 64, 32, 8, cudaMemcpyHostToDevice));
    has_waited();
    hold();
    OK(cudaMemcpy2D(pinned, 64, device, 64, 32, 8, cudaMemcpyDeviceToHost));
    has_waited();
}

/* Asynchronous copies to pageable memory, and from host to host, are complete when the call returns. */
static void some_asynchronous_copies_wait(void **state)
{
    (void)state;
    hold();
    OK(cudaMemsetAsync(device, 1, BYTES, stream));
    OK(cudaMemcpyAsync(pageable, device, BYTES, cudaMemcpyDeviceToHost, stream));
    HAS_BYTES(pageable, BYTES, 1);
    has_waited();
    hold();
    OK(cudaMemsetAsync(device, 2, BYTES, stream));
    OK(cudaMemcpy2DAsync(pageable, 64, device, 64, 64, 8, cudaMemcpyDeviceToHost, stream));
    HAS_BYTES(pageable, 8 * 64, 2);
    has_waited();
    hold();
    OK(cudaMemcpyAsync(pinned + BYTES, pinned, BYTES, cudaMemcpyHostToHost, stream));
    has_waited();
    /* The ranges overlap, so the result must be that of memmove(). */
    hold();
    OK(cudaMemcpyAsync(pinned, device, BYTES, cudaMemcpyDeviceToHost, stream));
    OK(cudaMemcpyAsync(pinned + 1, pinned, BYTES, cudaMemcpyHostToHost, stream));
    HAS_BYTES(pinned, BYTES + 1, 2);
    has_waited();
}

/* The program may overwrite a pageable source as soon as the call has returned, for short and for long copies. */
static void ordinary_memory_has_been_read(void **state)
{
    (void)state;
    for (int sort = 0; sort < 4; sort++) {
        size_t bytes = sort % 2 ? LONG_BYTES : BYTES;

        memset(pageable, 10 + sort, bytes);
        hold();
        if (sort < 2)
            OK(cudaMemcpyAsync(device, pageable, bytes, cudaMemcpyHostToDevice, stream));
        else
            OK(cudaMemcpy2DAsync(device, 1024, pageable, 1024, 1024, bytes / 1024, cudaMemcpyHostToDevice,
                                 stream));
        memset(pageable, 99, bytes);
        pthread_join(opener, NULL);
        OK(cudaMemcpy(pageable, device, bytes, cudaMemcpyDeviceToHost));
        HAS_BYTES(pageable, bytes, (unsigned char)(10 + sort));
    }
}

/* While another thread captures in global mode, calls that wait are forbidden. */
static void captures_forbid_synchronous_copies(void **state)
{
    cudaStream_t captured;
    cudaGraph_t graph;

    (void)state;
    OK(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
    for (int sort = 0; sort < 2; sort++) {
        OK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
        if (sort)
            GIVES(cudaErrorStreamCaptureUnsupported,
                  cudaMemcpy2D(device, 64, pinned, 64, 32, 8, cudaMemcpyHostToDevice));
        else
            GIVES(cudaErrorStreamCaptureUnsupported, cudaMemcpy(device, pinned, 1, cudaMemcpyHostToDevice));
        GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(captured, &graph));
    }
    (void)cudaGetLastError();
    OK(cudaStreamDestroy(captured));
}

/* ---- freeing memory ---- */

static void memory_is_freed_behind_its_users(void **state)
{
    cudaArray_t array;
    void *memory;
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);

    (void)state;
    OK(cudaMalloc(&memory, BYTES));
    hold();
    OK(cudaFree(memory));
    has_waited();
    OK(cudaMallocHost(&memory, BYTES));
    hold();
    OK(cudaFreeHost(memory));
    has_waited();
    OK(cudaMallocManaged(&memory, BYTES, cudaMemAttachGlobal));
    hold();
    OK(cudaFree(memory));
    has_waited();
    OK(cudaHostRegister(pageable, BYTES, cudaHostRegisterDefault));
    hold();
    OK(cudaHostUnregister(pageable));
    has_waited();
    OK(cudaMallocArray(&array, &format, 64, 8, 0));
    hold();
    OK(cudaFreeArray(array));
    has_waited();
    /* Any device may use host memory, so freeing it waits for all devices. */
    OK(cudaMallocHost(&memory, BYTES));
    OK(cudaSetDevice(1));
    OK(cudaFree(0));
    hold();
    OK(cudaFreeHost(memory));
    has_waited();
    OK(cudaSetDevice(0));
    OK(cudaSetDevice(1));
    OK(cudaMallocHost(&memory, BYTES));
    hold();
    OK(cudaFreeHost(memory));
    has_waited();
    OK(cudaSetDevice(0));
}

/* Destroying an executable graph does not wait; a launch that is running continues and keeps its memory. */
static void graphs_that_are_gone_still_run(void **state)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    void *block;

    (void)state;
    memset(pinned, 0, BYTES);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync(&block, BYTES, stream));
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &open_now));
    OK(cudaMemsetAsync(block, 1, BYTES, stream));
    OK(cudaMemcpyAsync(pinned, block, BYTES, cudaMemcpyDeviceToHost, stream));
    OK(cudaFreeAsync(block, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    atomic_store(&open_now, 0);
    OK(cudaGraphLaunch(exec, stream));
    GIVES(cudaErrorNotReady, cudaStreamQuery(0)); /* the launch counts as work of a blocking stream */
    OK(cudaGraphExecDestroy(exec));
    GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
    atomic_store(&open_now, 1);
    OK(cudaStreamSynchronize(stream));
    HAS_BYTES(pinned, BYTES, 1);
}

/* ---- pools ---- */

static uint64_t reserved(cudaMemPool_t pool)
{
    uint64_t bytes = 0;

    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
    return bytes;
}

/* Memory above the release threshold is released at the next wait of any kind. If work still used it then, it is
 * released at a later wait. */
static void pools_give_back_when_something_is_waited_for(void **state)
{
    uint64_t keep = UINT64_MAX, none = 0;
    cudaMemPool_t pool;
    cudaStream_t apart;
    cudaEvent_t event;
    void *block;

    (void)state;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    OK(cudaEventCreate(&event));
    OK(cudaDeviceSynchronize());
    assert_int_equal(reserved(pool), 0);
    for (int sort = 0; sort < 4; sort++) {
        OK(cudaMallocAsync(&block, 4 << 20, apart));
        if (sort == 3)
            OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
        OK(cudaFreeAsync(block, apart));
        if (sort == 0) {
            OK(cudaDeviceSynchronize());
        } else if (sort == 1) {
            OK(cudaEventRecord(event, apart));
            OK(cudaEventSynchronize(event));
        } else {
            OK(cudaStreamSynchronize(apart));
        }
        if (sort == 3) {
            assert_true(reserved(pool) >= 4 << 20);
            OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &none));
            OK(cudaStreamSynchronize(apart));
        }
        assert_int_equal(reserved(pool), 0);
    }
    OK(cudaMallocAsync(&block, 4 << 20, apart));
    atomic_store(&open_now, 0);
    OK(cudaLaunchHostFunc(apart, wait_at_gate, &open_now));
    OK(cudaFreeAsync(block, apart));
    OK(cudaStreamSynchronize(stream));
    atomic_store(&open_now, 1);
    OK(cudaStreamSynchronize(apart));
    assert_int_equal(reserved(pool), 0);
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(apart));
}

/* A block of another device's pool is freed after work that is held up. No allocation may get the memory before
 * that work ends. */
static void blocks_of_another_device_are_freed_in_order(void **state)
{
    unsigned char *block, *next;
    cudaMemPool_t pool;

    (void)state;
    OK(cudaDeviceGetDefaultMemPool(&pool, 1));
    memset(pinned, 5, BYTES);
    OK(cudaMallocFromPoolAsync((void **)&block, BYTES, pool, stream));
    atomic_store(&open_now, 0);
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &open_now));
    OK(cudaMemcpyAsync(block, pinned, BYTES, cudaMemcpyDefault, stream));
    OK(cudaFreeAsync(block, stream));
    /* The free returned the block on the default stream of its own device, so that stream allocates next. */
    OK(cudaSetDevice(1));
    OK(cudaMallocFromPoolAsync((void **)&next, BYTES, pool, 0));
    OK(cudaMemsetAsync(next, 6, BYTES, 0));
    for (int i = 0; i < 20 && cudaStreamQuery(0) == cudaErrorNotReady; i++)
        sleep_ms(1);
    atomic_store(&open_now, 1);
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(pinned, next, BYTES, cudaMemcpyDeviceToHost));
    HAS_BYTES(pinned, BYTES, 6);
    OK(cudaFreeAsync(next, 0));
    OK(cudaSetDevice(0));
}

/* A destroyed pool releases its memory when its last block is freed. */
static void pools_end_with_their_last_block(void **state)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    size_t before, after, total;
    uint64_t keep = UINT64_MAX;
    cudaMemPool_t pool;
    void *block;

    (void)state;
    OK(cudaDeviceSynchronize());
    OK(cudaMemGetInfo(&before, &total));
    OK(cudaMemPoolCreate(&pool, &props));
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    OK(cudaMallocFromPoolAsync(&block, 32 << 20, pool, stream));
    OK(cudaMemPoolDestroy(pool));
    OK(cudaMemsetAsync(block, 1, 32 << 20, stream));
    OK(cudaFreeAsync(block, stream));
    OK(cudaDeviceSynchronize());
    OK(cudaMemGetInfo(&after, &total));
    assert_true(after >= before);
}

/* ---- graphs of several devices ---- */

static atomic_int steps, wrong_steps;

static void take_step(void *number)
{
    sleep_ms(5);
    if (atomic_fetch_add(&steps, 1) != (int)(intptr_t)number)
        atomic_fetch_add(&wrong_steps, 1);
}

static void devices_take_turns_in_a_graph(void **state)
{
    cudaEvent_t fork, join;
    cudaGraphExec_t exec;
    cudaStream_t there;
    cudaGraph_t graph;

    (void)state;
    OK(cudaEventCreate(&fork));
    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&there));
    OK(cudaEventCreate(&join));
    OK(cudaSetDevice(0));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaLaunchHostFunc(stream, take_step, (void *)0));
    OK(cudaEventRecord(fork, stream));
    OK(cudaStreamWaitEvent(there, fork, 0));
    OK(cudaLaunchHostFunc(there, take_step, (void *)1));
    OK(cudaEventRecord(join, there));
    OK(cudaStreamWaitEvent(stream, join, 0));
    OK(cudaLaunchHostFunc(stream, take_step, (void *)2));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    atomic_store(&steps, 0);
    atomic_store(&wrong_steps, 0);
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(atomic_load(&steps), 3);
    assert_int_equal(atomic_load(&wrong_steps), 0);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(there));
    OK(cudaEventDestroy(join));
    OK(cudaEventDestroy(fork));
}

/* A set of another device's memory stays in the order of its stream, even if that stream or the other device is
 * held up. */
static void fills_elsewhere_keep_their_place(void **state)
{
    unsigned char *far;

    (void)state;
    OK(cudaSetDevice(1));
    OK(cudaMalloc((void **)&far, BYTES));
    OK(cudaSetDevice(0));
    for (int late = 0; late < 2; late++) {
        memset(pinned, 3, BYTES);
        OK(cudaMemcpy(far, pinned, BYTES, cudaMemcpyDefault));
        if (late)
            OK(cudaSetDevice(1));
        hold_in(late ? 0 : stream);
        OK(cudaSetDevice(0));
        OK(cudaMemcpyAsync(far, pinned, BYTES, cudaMemcpyDefault, stream));
        OK(cudaMemsetAsync(far, 4, BYTES, stream));
        OK(cudaMemcpyAsync(pinned, far, BYTES, cudaMemcpyDefault, stream));
        pthread_join(opener, NULL);
        OK(cudaStreamSynchronize(stream));
        HAS_BYTES(pinned, BYTES, 4);
    }
    OK(cudaFree(far));
}

/* ---- work beside the default stream ---- */

LEAT_KERNEL(write_slowly, 3, unsigned char *, data, uint64_t, count, uint8_t, value)
{
    for (int round = 0; round < 100; round++)
        LEAT_FOR (i, count)
            ((volatile unsigned char *)data)[i] = round == 99 ? value : 0;
}

/* The default stream sees the result of every kind of long work in a blocking stream. */
static void the_default_stream_sees_all_work(void **state)
{
    enum { ROWS = 100000, PITCH = 20 };

    (void)state;
    for (int sort = 0; sort < 4; sort++) {
        unsigned char value = (unsigned char)(20 + sort), *last = device + (ROWS - 1) * PITCH;
        uint64_t count = ROWS * PITCH;
        void *args[] = {&device, &count, &value};

        OK(cudaMemset(more, value, LONG_BYTES));
        OK(cudaMemset(device, 0, LONG_BYTES));
        OK(cudaDeviceSynchronize());
        switch (sort) {
        case 0:
            OK(cudaMemcpy2DAsync(device, PITCH, more, PITCH, 3, ROWS, cudaMemcpyDeviceToDevice, stream));
            break;
        case 1:
            OK(cudaMemset2DAsync(device, PITCH, value, 3, ROWS, stream));
            break;
        case 2:
            OK(cudaLaunchKernel(&leat_cpu_kernel_write_slowly, (dim3){1, 1, 1}, (dim3){1, 1, 1}, args, 0, stream));
            break;
        default:
            for (int i = 0; i < 50; i++)
                OK(cudaMemcpyAsync(device, i < 49 ? pinned : more, LONG_BYTES, cudaMemcpyDefault, stream));
            break;
        }
        OK(cudaMemcpyAsync(pinned, last, 1, cudaMemcpyDeviceToHost, 0));
        OK(cudaStreamSynchronize(0));
        HAS_BYTES(pinned, 1, value);
        OK(cudaDeviceSynchronize());
    }
}

static int set_up(void **state)
{
    (void)state;
    pageable = calloc(1, LONG_BYTES);
    return !pageable || cudaStreamCreate(&stream) || cudaMalloc((void **)&device, LONG_BYTES) ||
           cudaMalloc((void **)&more, LONG_BYTES) || cudaMallocHost((void **)&pinned, LONG_BYTES);
}

static int tear_down(void **state)
{
    (void)state;
    free(pageable);
    return cudaStreamDestroy(stream) || cudaFree(device) || cudaFree(more) || cudaFreeHost(pinned);
}

#define WAIT_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

static const struct CMUnitTest tests[] = {
    WAIT_TEST(synchronous_copies_wait),
    WAIT_TEST(some_asynchronous_copies_wait),
    WAIT_TEST(ordinary_memory_has_been_read),
    WAIT_TEST(captures_forbid_synchronous_copies),
    WAIT_TEST(memory_is_freed_behind_its_users),
    WAIT_TEST(graphs_that_are_gone_still_run),
    WAIT_TEST(pools_give_back_when_something_is_waited_for),
    WAIT_TEST(blocks_of_another_device_are_freed_in_order),
    WAIT_TEST(pools_end_with_their_last_block),
    WAIT_TEST(devices_take_turns_in_a_graph),
    WAIT_TEST(fills_elsewhere_keep_their_place),
    WAIT_TEST(the_default_stream_sees_all_work),
};

int main(void)
{
    int wrong = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}
