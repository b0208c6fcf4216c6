/*
 * test_cudart_peers.c - tests synchronous copies and sets that use memory of a device that is not current, and
 * copies between devices: which work comes before them and after them, and what happens if a stream of the other
 * device is captured.
 *
 * Device 0 is current. Most tests hold up a stream of device 1 by a gate. For calls that must wait, another thread
 * opens the gate a moment later. Calls that must not wait have to return while the gate is closed.
 */
#include <cuda_runtime.h>

#include "compat.h"

#include <pthread.h>

#define BYTES 4096
#define OLD 1
#define NEW 2

static unsigned char *near, *far; /* near: memory of device 0; far: memory of device 1 */
static unsigned char *pinned, *pageable;
static cudaStream_t near_stream, far_stream, far_apart; /* far_apart is a non-blocking stream */
static gate open_now;
static pthread_t opener;

static void *open_later(void *unused)
{
    (void)unused;
    sleep_ms(30);
    atomic_store(&open_now, 1);
    return NULL;
}

/* ---- pending work comes first ---- */

enum { PLAIN, PITCHED, BOXED, SORTS };

static void copy(void *dst, const void *src, int sort)
{
    struct cudaMemcpy3DParms box = {.srcPtr = make_cudaPitchedPtr((void *)(uintptr_t)src, 64, 64, BYTES / 64),
                                    .dstPtr = make_cudaPitchedPtr(dst, 64, 64, BYTES / 64),
                                    .extent = make_cudaExtent(64, BYTES / 64, 1),
                                    .kind = cudaMemcpyDefault};

    if (sort == PLAIN)
        OK(cudaMemcpy(dst, src, BYTES, cudaMemcpyDefault));
    else if (sort == PITCHED)
        OK(cudaMemcpy2D(dst, 64, src, 64, 64, BYTES / 64, cudaMemcpyDefault));
    else
        OK(cudaMemcpy3D(&box));
}

/* Sets the memory of device 1 in this stream, behind a gate that another thread opens 30 ms later. */
static void set_late(cudaStream_t stream, unsigned char value)
{
    atomic_store(&open_now, 0);
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &open_now));
    OK(cudaMemsetAsync(far, value, BYTES, stream));
    assert_int_equal(pthread_create(&opener, NULL, open_later, NULL), 0);
}

static void everything_is_done(void)
{
    pthread_join(opener, NULL);
    for (int device = 1; device >= 0; device--) {
        OK(cudaSetDevice(device));
        OK(cudaDeviceSynchronize());
    }
}

static void copies_read_what_was_given_before(void **state)
{
    unsigned char *places[] = {pinned, pageable};

    (void)state;
    for (int sort = 0; sort < SORTS; sort++)
        for (int place = 0; place < 2; place++) {
            OK(cudaMemset(far, OLD, BYTES));
            set_late(far_stream, NEW);
            copy(places[place], far, sort);
            HAS_BYTES(places[place], BYTES, NEW);
            everything_is_done();
        }
}

static void copies_win_over_what_was_given_before(void **state)
{
    unsigned char *places[] = {pinned, pageable};

    (void)state;
    for (int sort = 0; sort < SORTS; sort++)
        for (int place = 0; place < 2; place++) {
            memset(places[place], NEW, BYTES);
            set_late(far_stream, OLD);
            copy(far, places[place], sort);
            everything_is_done();
            OK(cudaMemcpy(pinned, far, BYTES, cudaMemcpyDefault));
            HAS_BYTES(pinned, BYTES, NEW);
        }
}

static void sets_win_over_what_was_given_before(void **state)
{
    (void)state;
    set_late(far_stream, OLD);
    OK(cudaMemset(far, NEW, BYTES));
    everything_is_done();
    OK(cudaMemcpy(pinned, far, BYTES, cudaMemcpyDefault));
    HAS_BYTES(pinned, BYTES, NEW);
}

/* ---- between devices: the calls do not wait, and the order holds on both devices ---- */

static void copy_regions_of_peers(void *dst, int dst_device, const void *src, int src_device)
{
    struct cudaMemcpy3DPeerParms box = {.srcPtr = make_cudaPitchedPtr((void *)(uintptr_t)src, 64, 64, BYTES / 64),
                                        .dstPtr = make_cudaPitchedPtr(dst, 64, 64, BYTES / 64),
                                        .srcDevice = src_device,
                                        .dstDevice = dst_device,
                                        .extent = make_cudaExtent(64, BYTES / 64, 1)};

    OK(cudaMemcpy3DPeer(&box));
}

static void copy_between(void *dst, int dst_device, const void *src, int src_device, int sort)
{
    if (sort == 0)
        OK(cudaMemcpyPeer(dst, dst_device, src, src_device, BYTES));
    else if (sort == 1)
        copy_regions_of_peers(dst, dst_device, src, src_device);
    else
        copy(dst, src, sort - 2);
}

static atomic_int has_passed;

static void pass_gate(void *unused)
{
    (void)unused;
    wait_at_gate(&open_now);
    atomic_store(&has_passed, 1);
}

/* Holds up the stream by a gate, until the test calls open_the_gate(). */
static void hold(cudaStream_t stream)
{
    atomic_store(&open_now, 0);
    atomic_store(&has_passed, 0);
    OK(cudaLaunchHostFunc(stream, pass_gate, NULL));
}

/* Checks that no call since hold() has waited for the gate, which would have given up by then. Then opens the
 * gate. */
static void open_the_gate(void)
{
    sleep_ms(5); /* time for work that ignores the gate by mistake */
    assert_int_equal(atomic_load(&has_passed), 0);
    atomic_store(&open_now, 1);
    for (int device = 1; device >= 0; device--) {
        OK(cudaSetDevice(device));
        OK(cudaDeviceSynchronize());
    }
}

static void peers_come_after_pending_work_and_before_later_work(void **state)
{
    (void)state;
    for (int sort = 0; sort < 2 + SORTS; sort++)
        for (int apart = 0; apart < 2; apart++) {
            cudaStream_t stream = apart ? far_apart : far_stream;

            /* Copy from device 1. The copy must read the value of the set before it, not the value of the set
             * after it. */
            OK(cudaMemset(far, OLD, BYTES));
            OK(cudaDeviceSynchronize());
            hold(stream);
            OK(cudaMemsetAsync(far, NEW, BYTES, stream));
            copy_between(near, 0, far, 1, sort);
            OK(cudaMemsetAsync(far, 77, BYTES, stream));
            open_the_gate();
            OK(cudaMemcpy(pinned, near, BYTES, cudaMemcpyDefault));
            HAS_BYTES(pinned, BYTES, NEW);
            /* Copy to device 1, after work of device 0 that is held up. The set that is submitted later on device
             * 1 must overwrite the result of the copy. */
            OK(cudaMemset(near, OLD, BYTES));
            OK(cudaDeviceSynchronize());
            hold(near_stream);
            copy_between(far, 1, near, 0, sort);
            OK(cudaMemsetAsync(far, NEW, BYTES, stream));
            open_the_gate();
            OK(cudaMemcpy(pinned, far, BYTES, cudaMemcpyDefault));
            HAS_BYTES(pinned, BYTES, NEW);
        }
}

/* Pending work of a destroyed stream comes before the copy. Work of a stream that is created after the copy comes
 * after the copy. */
static void peers_know_streams_that_come_and_go(void **state)
{
    cudaStream_t stream;

    (void)state;
    OK(cudaMemset(far, OLD, BYTES));
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(1));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    hold(stream);
    OK(cudaMemsetAsync(far, NEW, BYTES, stream));
    OK(cudaStreamDestroy(stream));
    OK(cudaSetDevice(0));
    OK(cudaMemcpyPeer(near, 0, far, 1, BYTES));
    OK(cudaSetDevice(1));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMemsetAsync(far, 77, BYTES, stream));
    open_the_gate();
    OK(cudaMemcpy(pinned, near, BYTES, cudaMemcpyDefault));
    HAS_BYTES(pinned, BYTES, NEW);
    OK(cudaStreamDestroy(stream));
}

/* Asynchronous copies and sets come only after work of their own stream. */
static void asynchronous_calls_wait_for_their_stream_alone(void **state)
{
    (void)state;
    OK(cudaMemset(far, OLD, BYTES));
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(1));
    hold(0);
    OK(cudaSetDevice(0));
    OK(cudaMemcpyPeerAsync(near, 0, far, 1, BYTES, near_stream));
    OK(cudaStreamSynchronize(near_stream));
    OK(cudaMemcpyAsync(pinned, far, BYTES, cudaMemcpyDefault, near_stream));
    OK(cudaStreamSynchronize(near_stream));
    HAS_BYTES(pinned, BYTES, OLD);
    OK(cudaMemsetAsync(far, NEW, BYTES, near_stream));
    OK(cudaStreamSynchronize(near_stream));
    OK(cudaMemcpyAsync(pinned, far, BYTES, cudaMemcpyDefault, near_stream));
    OK(cudaStreamSynchronize(near_stream));
    HAS_BYTES(pinned, BYTES, NEW);
    open_the_gate();
}

/* A blocking stream comes after the default stream's work. After a query of the default stream, it must still not
 * come after other blocking streams. */
static void blocking_streams_do_not_wait_for_each_other(void **state)
{
    cudaStream_t other;

    (void)state;
    OK(cudaStreamCreate(&other));
    OK(cudaMemsetAsync(near, OLD, BYTES, 0));
    OK(cudaStreamSynchronize(0));
    hold(near_stream);
    GIVES(cudaErrorNotReady, cudaStreamQuery(0));
    OK(cudaMemsetAsync(near, NEW, BYTES, other));
    OK(cudaStreamSynchronize(other));
    open_the_gate();
    OK(cudaStreamDestroy(other));
}

/* A record in the default stream counts as work: later work comes after everything before the record. */
static void records_in_the_default_stream_are_work(void **state)
{
    cudaStream_t other;
    cudaEvent_t event;

    (void)state;
    OK(cudaStreamCreate(&other));
    OK(cudaEventCreate(&event));
    hold(near_stream);
    OK(cudaMemsetAsync(near, OLD, BYTES, near_stream));
    OK(cudaEventRecord(event, 0));
    OK(cudaMemsetAsync(near, NEW, BYTES, other));
    open_the_gate();
    OK(cudaMemcpy(pinned, near, BYTES, cudaMemcpyDefault));
    HAS_BYTES(pinned, BYTES, NEW);
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(other));
}

/* ---- several threads: only each thread's own calls are ordered ---- */

enum { THREADS = 4, TURNS = 40 };

/* Copies the thread's memory to the other device and back, while other threads make streams of both devices wait
 * for each other. Returns the line that failed, or NULL. */
static void *go_to_and_fro(void *argument)
{
    int number = *(int *)argument, here = number % 2, there = !here;
    unsigned char *mine, *theirs, host[BYTES];
    cudaStream_t stream;

#define NEED(condition)                                                                                           \
    do {                                                                                                          \
        if (!(condition))                                                                                         \
            return (void *)(intptr_t)__LINE__;                                                                    \
    } while (0)
    NEED(!cudaSetDevice(there) && !cudaMalloc((void **)&theirs, BYTES));
    NEED(!cudaSetDevice(here) && !cudaMalloc((void **)&mine, BYTES));
    for (int i = 0; i < TURNS; i++) {
        unsigned char value = (unsigned char)(number * TURNS + i);

        NEED(!cudaStreamCreateWithFlags(&stream, i % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
        NEED(!cudaMemsetAsync(mine, value, BYTES, stream));
        NEED(!cudaMemsetAsync(theirs, 0, BYTES, stream));
        if (i % 4 == 0)
            NEED(!cudaStreamDestroy(stream));
        NEED(!cudaMemcpyPeer(theirs, there, mine, here, BYTES));
        NEED(!cudaMemset(mine, 0, BYTES));
        NEED(!cudaMemcpyPeer(mine, here, theirs, there, BYTES));
        NEED(!cudaMemcpy(host, i % 3 ? mine : theirs, BYTES, cudaMemcpyDefault));
        for (size_t k = 0; k < BYTES; k++)
            NEED(host[k] == value);
        if (i % 4)
            NEED(!cudaStreamDestroy(stream));
    }
    NEED(!cudaFree(mine) && !cudaFree(theirs));
#undef NEED
    return NULL;
}

static void threads_copy_between_devices_at_once(void **state)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, go_to_and_fro, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;

        pthread_join(threads[i], &wrong);
        if (wrong)
            print_error("thread %d failed in line %d\n", i, (int)(intptr_t)wrong);
        assert_null(wrong);
    }
}

/* ---- captures ---- */

/* A call that would have to be ordered with a captured stream is refused. It also invalidates the capture. */
static void captures_of_the_other_device_are_refused(void **state)
{
    cudaGraph_t graph;

    (void)state;
    for (int sort = 0; sort < 4; sort++) {
        OK(cudaStreamBeginCapture(far_stream, cudaStreamCaptureModeRelaxed));
        if (sort == 0)
            GIVES(cudaErrorStreamCaptureImplicit, cudaMemcpy(pinned, far, BYTES, cudaMemcpyDefault));
        else if (sort == 1)
            GIVES(cudaErrorStreamCaptureImplicit, cudaMemcpy2D(far, 64, pinned, 64, 64, 4, cudaMemcpyDefault));
        else if (sort == 2)
            GIVES(cudaErrorStreamCaptureImplicit, cudaMemcpyPeer(near, 0, far, 1, BYTES));
        else
            GIVES(cudaErrorStreamCaptureImplicit, cudaMemset(far, 0, BYTES));
        GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(far_stream, &graph));
        /* Asynchronous calls in another stream do not affect the capture. */
        OK(cudaStreamBeginCapture(far_stream, cudaStreamCaptureModeRelaxed));
        OK(cudaMemcpyAsync(pinned, far, BYTES, cudaMemcpyDefault, near_stream));
        OK(cudaMemcpyPeerAsync(near, 0, far, 1, BYTES, near_stream));
        OK(cudaMemsetAsync(far, 0, BYTES, near_stream));
        OK(cudaStreamSynchronize(near_stream));
        OK(cudaStreamEndCapture(far_stream, &graph));
        OK(cudaGraphDestroy(graph));
    }
    (void)cudaGetLastError();
}

static int set_up(void **state)
{
    (void)state;
    pageable = calloc(1, BYTES);
    return !pageable || cudaSetDevice(1) || cudaMalloc((void **)&far, BYTES) || cudaStreamCreate(&far_stream) ||
           cudaStreamCreateWithFlags(&far_apart, cudaStreamNonBlocking) || cudaSetDevice(0) ||
           cudaMalloc((void **)&near, BYTES) || cudaMallocHost((void **)&pinned, BYTES) ||
           cudaStreamCreate(&near_stream);
}

static int tear_down(void **state)
{
    (void)state;
    free(pageable);
    return cudaFree(near) || cudaFree(far) || cudaFreeHost(pinned) || cudaStreamDestroy(near_stream) ||
           cudaStreamDestroy(far_stream) || cudaStreamDestroy(far_apart);
}

#define PEER_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

static const struct CMUnitTest tests[] = {
    PEER_TEST(copies_read_what_was_given_before),
    PEER_TEST(copies_win_over_what_was_given_before),
    PEER_TEST(sets_win_over_what_was_given_before),
    PEER_TEST(peers_come_after_pending_work_and_before_later_work),
    PEER_TEST(peers_know_streams_that_come_and_go),
    PEER_TEST(asynchronous_calls_wait_for_their_stream_alone),
    PEER_TEST(blocking_streams_do_not_wait_for_each_other),
    PEER_TEST(records_in_the_default_stream_are_work),
    PEER_TEST(threads_copy_between_devices_at_once),
    PEER_TEST(captures_of_the_other_device_are_refused),
};

int main(void)
{
    int wrong = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}
