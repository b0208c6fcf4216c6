/* test_cudart_graph.c - tests stream capture in the CUDA runtime: how work becomes nodes, which calls are refused,
 * and how the graphs run. */
#include <cuda_runtime.h>

#include "compat.h"

#include <leat/device_code.h>

#include <pthread.h>

#define BYTES 4096

static cudaStream_t stream, other;
static unsigned char *device, *pinned;

/* Ends a capture that an unsupported call has invalidated. */
static void ends_invalid(cudaStream_t captured)
{
    cudaGraph_t graph = (cudaGraph_t)&graph;
    enum cudaStreamCaptureStatus status;

    OK(cudaStreamIsCapturing(captured, &status));
    assert_int_equal(status, cudaStreamCaptureStatusInvalidated);
    GIVES(cudaErrorStreamCaptureInvalidated, cudaMemsetAsync(device, 0, 1, captured));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(captured, &graph));
    assert_null(graph);
    OK(cudaStreamIsCapturing(captured, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    (void)cudaGetLastError();
}

static void begin(void)
{
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
}

static void end(cudaGraph_t *graph)
{
    OK(cudaStreamEndCapture(stream, graph));
    assert_non_null(*graph);
}

LEAT_KERNEL(add_to_all, 3, unsigned char *, data, uint64_t, count, uint8_t, what)
{
    LEAT_FOR (i, count)
        data[i] = (unsigned char)(data[i] + what);
}

static void count_up(void *argument)
{
    ++*(int *)argument;
}

static void work_is_done_when_the_graph_is_launched(void **state)
{
    enum { NODES = 5 };
    dim3 grid = {2, 1, 1}, block = {64, 1, 1};
    uint64_t count = BYTES;
    unsigned char what = 3;
    void *args[] = {&device, &count, &what};
    cudaGraphNode_t nodes[NODES + 1];
    size_t node_count = NODES + 1;
    enum cudaGraphNodeType type;
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    int called = 0;

    (void)state;
    OK(cudaMemset(device, 9, BYTES));
    memset(pinned, 0, BYTES);
    OK(cudaDeviceSynchronize());
    begin();
    OK(cudaMemsetAsync(device, 1, BYTES, stream));
    OK(cudaLaunchKernel(&leat_cpu_kernel_add_to_all, grid, block, args, 0, stream));
    OK(cudaMemcpyAsync(pinned, device, BYTES, cudaMemcpyDeviceToHost, stream));
    OK(cudaLaunchHostFunc(stream, count_up, &called));
    OK(cudaMemset2DAsync(device, 64, 7, 32, 8, stream));
    end(&graph);
    what = 100; /* the capture has copied the value of the argument */
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(called, 0);
    HAS_BYTES(pinned, BYTES, 0);

    OK(cudaGraphGetNodes(graph, NULL, &node_count));
    assert_int_equal(node_count, NODES);
    node_count = NODES + 1;
    OK(cudaGraphGetNodes(graph, nodes, &node_count));
    assert_null(nodes[NODES]);
    OK(cudaGraphNodeGetType(nodes[1], &type));
    assert_int_equal(type, cudaGraphNodeTypeKernel);
    OK(cudaGraphGetRootNodes(graph, NULL, &node_count));
    assert_int_equal(node_count, 1);

    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, other));
    OK(cudaGraphLaunch(exec, other));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphExecDestroy(exec)); /* launches may still be running */
    OK(cudaStreamSynchronize(other));
    assert_int_equal(called, 2);
    HAS_BYTES(pinned, BYTES, 4);
    GIVES(cudaErrorInvalidValue, cudaGraphDestroy(graph));
    GIVES(cudaErrorInvalidValue, cudaGraphLaunch(exec, other));
    GIVES(cudaErrorInvalidValue, cudaGraphExecDestroy(exec));
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiate(&exec, graph, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphNodeGetType(nodes[0], &type));
}

static void events_fork_and_join(void **state)
{
    enum cudaStreamCaptureStatus status;
    unsigned long long id = 0, same = 0;
    cudaGraph_t graph, seen;
    const cudaGraphNode_t *ends;
    size_t count;
    cudaGraphExec_t exec;
    cudaEvent_t fork, join;

    (void)state;
    OK(cudaEventCreate(&fork));
    OK(cudaEventCreate(&join));
    begin();
    OK(cudaMemsetAsync(device, 1, BYTES, stream));
    OK(cudaEventRecord(fork, stream));
    OK(cudaStreamWaitEvent(other, fork, 0));
    OK(cudaStreamGetCaptureInfo(stream, &status, &id, &seen, NULL, NULL, NULL));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    OK(cudaStreamGetCaptureInfo(other, &status, &same, NULL, &ends, NULL, &count));
    assert_int_equal(id, same);
    assert_int_equal(count, 1);
    OK(cudaMemsetAsync(device + BYTES / 2, 2, BYTES / 2, other));
    OK(cudaMemsetAsync(device, 3, 1, stream));
    GIVES(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(other, &graph));
    OK(cudaEventRecord(join, other));
    OK(cudaStreamWaitEvent(stream, join, 0));
    OK(cudaStreamGetCaptureInfo(stream, &status, &id, NULL, &ends, NULL, &count));
    assert_int_equal(count, 2);
    OK(cudaMemcpyAsync(pinned, device, BYTES, cudaMemcpyDefault, stream));
    end(&graph);
    assert_ptr_equal(graph, seen);
    OK(cudaStreamIsCapturing(other, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    OK(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    HAS_BYTES(pinned, 1, 3);
    HAS_BYTES(pinned + 1, BYTES / 2 - 1, 1);
    HAS_BYTES(pinned + BYTES / 2, BYTES / 2, 2);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));

    begin(); /* a forked stream that is never joined */
    OK(cudaEventRecord(fork, stream));
    OK(cudaStreamWaitEvent(other, fork, 0));
    OK(cudaMemsetAsync(device, 2, 1, other));
    GIVES(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(stream, &graph));
    assert_null(graph);

    begin(); /* two captures must not be joined by an event */
    OK(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(fork, stream));
    GIVES(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(other, fork, 0));
    ends_invalid(stream);
    ends_invalid(other);

    GIVES(cudaErrorCapturedEvent, cudaEventQuery(fork)); /* the capture has ended, so the event marks nothing */
    GIVES(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(other, fork, 0));
    OK(cudaEventRecord(fork, stream));
    OK(cudaEventSynchronize(fork));
    begin();
    GIVES(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(stream, fork, 0));
    ends_invalid(stream);
    begin();
    OK(cudaEventRecord(fork, stream));
    GIVES(cudaErrorCapturedEvent, cudaEventSynchronize(fork));
    ends_invalid(stream);
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(join));
}

/* Only the latest record of an event counts, in a capture and outside of one. */
static void an_event_is_where_it_was_recorded_last(void **state)
{
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    cudaEvent_t event;
    size_t count = 0;

    (void)state;
    OK(cudaEventCreate(&event));
    begin();
    OK(cudaMemsetAsync(device, 1, 1, stream));
    OK(cudaEventRecord(event, stream));
    OK(cudaMemsetAsync(device, 2, 1, stream));
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(other, event, 0));
    OK(cudaStreamGetCaptureInfo(other, &status, NULL, NULL, NULL, NULL, &count));
    assert_int_equal(count, 1);
    OK(cudaMemsetAsync(device, 3, 1, other));
    OK(cudaEventRecord(event, other));
    OK(cudaStreamWaitEvent(stream, event, 0));
    end(&graph);
    OK(cudaGraphDestroy(graph));
    GIVES(cudaErrorCapturedEvent, cudaEventQuery(event));
    OK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
    OK(cudaEventSynchronize(event));

    begin();
    OK(cudaEventRecord(event, stream));
    GIVES(cudaErrorStreamCaptureImplicit, cudaStreamWaitEvent(0, event, 0));
    ends_invalid(stream);
    OK(cudaEventDestroy(event));
}

/* A capture makes the legacy default stream unusable only while a blocking stream of the same device is
 * captured. */
static void streams_that_are_gone_hinder_nobody(void **state)
{
    enum cudaStreamCaptureStatus status;
    cudaStream_t origin, member;
    cudaGraph_t graph;
    cudaEvent_t event;
    int called = 0;

    (void)state;
    OK(cudaStreamCreateWithFlags(&origin, cudaStreamNonBlocking));
    OK(cudaStreamCreate(&member));
    OK(cudaEventCreate(&event));
    OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeRelaxed));
    OK(cudaStreamIsCapturing(0, &status));
    OK(cudaEventRecord(event, origin));
    OK(cudaStreamWaitEvent(member, event, 0));
    OK(cudaMemsetAsync(device, 1, 1, member));
    OK(cudaEventRecord(event, member));
    OK(cudaStreamWaitEvent(origin, event, 0));
    GIVES(cudaErrorStreamCaptureImplicit, cudaStreamIsCapturing(0, &status));
    OK(cudaStreamDestroy(member));
    OK(cudaStreamIsCapturing(0, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    OK(cudaLaunchHostFunc(0, count_up, &called));
    OK(cudaStreamSynchronize(0));
    assert_int_equal(called, 1);
    OK(cudaStreamEndCapture(origin, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(origin));
    OK(cudaEventDestroy(event));

    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&origin));
    OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeRelaxed));
    GIVES(cudaErrorStreamCaptureImplicit, cudaStreamIsCapturing(0, &status));
    OK(cudaSetDevice(0));
    OK(cudaLaunchHostFunc(0, count_up, &called));
    OK(cudaStreamSynchronize(0));
    assert_int_equal(called, 2);
    OK(cudaSetDevice(1));
    OK(cudaStreamEndCapture(origin, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(origin));
    OK(cudaSetDevice(0));
}

static void external_events_are_nodes(void **state)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    cudaEvent_t event;
    gate open = 0;

    (void)state;
    OK(cudaEventCreate(&event));
    begin();
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &open));
    OK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
    end(&graph);
    OK(cudaEventQuery(event));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    GIVES(cudaErrorNotReady, cudaEventQuery(event));
    atomic_store(&open, 1);
    OK(cudaEventSynchronize(event));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventDestroy(event));
}

static void no_callback(cudaStream_t in, cudaError_t status, void *argument)
{
    (void)in, (void)status, (void)argument;
}

static void what_a_capture_forbids(void **state)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    cudaStream_t aside;
    void *ptr;

    (void)state;
    GIVES(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorInvalidValue, cudaStreamBeginCapture(stream, (enum cudaStreamCaptureMode)3));
    GIVES(cudaErrorInvalidValue, cudaStreamIsCapturing(stream, NULL));
    GIVES(cudaErrorInvalidValue, cudaThreadExchangeStreamCaptureMode(NULL));
    begin();
    GIVES(cudaErrorIllegalState, cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorInvalidValue, cudaStreamEndCapture(stream, NULL));
    GIVES(cudaErrorInvalidValue, cudaMemsetAsync(device, 0, BYTES + 1, stream)); /* BYTES + 1: past the end */
    GIVES(cudaErrorInvalidValue, cudaMemcpyAsync(device, pinned, BYTES + 1, cudaMemcpyDefault, stream));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpyAsync(device, pinned, 1, (enum cudaMemcpyKind)9, stream));
    OK(cudaStreamIsCapturing(stream, &status));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    end(&graph);
    OK(cudaGraphDestroy(graph));

#define SPOILS(result, call)                                                                                      \
    do {                                                                                                          \
        begin();                                                                                                  \
        GIVES(result, call);                                                                                      \
        ends_invalid(stream);                                                                                     \
    } while (0)
    SPOILS(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
    SPOILS(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(stream));
    SPOILS(cudaErrorStreamCaptureUnsupported, cudaDeviceSynchronize());
    SPOILS(cudaErrorStreamCaptureUnsupported, cudaMalloc(&ptr, 16));
    SPOILS(cudaErrorStreamCaptureUnsupported, cudaMallocHost(&ptr, 16));
    SPOILS(cudaErrorStreamCaptureUnsupported, cudaFree(device));
    SPOILS(cudaErrorStreamCaptureUnsupported, cudaFreeHost(pinned));
    SPOILS(cudaErrorStreamCaptureUnsupported, cudaStreamAddCallback(stream, no_callback, NULL, 0));
    SPOILS(cudaErrorStreamCaptureImplicit, cudaMemcpy(device, pinned, 1, cudaMemcpyDefault));
    SPOILS(cudaErrorStreamCaptureImplicit, cudaMemset(device, 1, 1));
    SPOILS(cudaErrorStreamCaptureImplicit, cudaMemcpyAsync(device, pinned, 1, cudaMemcpyDefault, 0));
    SPOILS(cudaErrorStreamCaptureImplicit, cudaStreamSynchronize(0));

    begin(); /* the query of the default stream is refused, but the capture stays valid */
    GIVES(cudaErrorStreamCaptureImplicit, cudaStreamIsCapturing(0, &status));
    end(&graph);
    OK(cudaGraphDestroy(graph));

    /* A captured non-blocking stream does not restrict the default stream, and a relaxed capture does not forbid
     * calls such as cudaMalloc(). */
    OK(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking));
    OK(cudaStreamBeginCapture(aside, cudaStreamCaptureModeRelaxed));
    OK(cudaMemset(device, 1, 1));
    OK(cudaMalloc(&ptr, 16));
    OK(cudaFree(ptr));
    OK(cudaStreamEndCapture(aside, &graph));
    OK(cudaGraphDestroy(graph));
    begin();
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    OK(cudaMalloc(&ptr, 16));
    OK(cudaFree(ptr));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, cudaStreamCaptureModeRelaxed);
    end(&graph);
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamBeginCapture(aside, cudaStreamCaptureModeGlobal));
    OK(cudaStreamDestroy(aside)); /* destroying the stream ends its capture */
    OK(cudaMalloc(&ptr, 16));
    OK(cudaFree(ptr));
}

static void *try_from_another_thread(void *argument)
{
    cudaError_t *results = argument;
    cudaGraph_t graph;
    void *ptr;

    results[0] = cudaMalloc(&ptr, 16);
    if (results[0] == cudaSuccess)
        cudaFree(ptr);
    results[1] = cudaStreamEndCapture(stream, &graph);
    if (results[1] == cudaSuccess)
        cudaGraphDestroy(graph);
    return NULL;
}

/* The forms of these functions for the per-thread default stream, which the header declares only under a macro. */
extern __typeof__(cudaMemset) cudaMemset_ptds;
extern __typeof__(cudaMemcpy) cudaMemcpy_ptds;
extern __typeof__(cudaMemcpy2D) cudaMemcpy2D_ptds;

/* Synchronous calls in the per-thread default stream wait for no captured stream. */
static void *copy_in_own_stream(void *argument)
{
    cudaError_t *results = argument;
    unsigned char byte;

    results[0] = cudaMemset_ptds(device, 5, 1);
    results[1] = cudaMemcpy_ptds(&byte, device, 1, cudaMemcpyDeviceToHost);
    results[2] = cudaMemcpy2D_ptds(&byte, 1, device, 1, 1, 1, cudaMemcpyDeviceToHost);
    return NULL;
}

static void synchronous_copies_in_other_threads(void **state)
{
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeThreadLocal,
                                                       cudaStreamCaptureModeRelaxed};
    cudaError_t results[3];
    unsigned char byte;
    pthread_t thread;
    cudaGraph_t graph;

    (void)state;
    for (int i = 0; i < 2; i++) {
        OK(cudaStreamBeginCapture(stream, modes[i]));
        assert_int_equal(pthread_create(&thread, NULL, copy_in_own_stream, results), 0);
        pthread_join(thread, NULL);
        for (int j = 0; j < 3; j++)
            assert_int_equal(results[j], cudaSuccess);
        end(&graph);
        OK(cudaGraphDestroy(graph));
    }
    begin(); /* a capture of this mode forbids unsafe calls in all threads */
    assert_int_equal(pthread_create(&thread, NULL, copy_in_own_stream, results), 0);
    pthread_join(thread, NULL);
    for (int j = 0; j < 3; j++)
        assert_int_equal(results[j], cudaErrorStreamCaptureUnsupported);
    ends_invalid(stream);
    /* A synchronous call waits for its stream, so it cannot be captured. */
    OK(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaMemcpy_ptds(&byte, device, 1, cudaMemcpyDeviceToHost));
    ends_invalid(cudaStreamPerThread);
    OK(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaMemset_ptds(device, 1, 1));
    ends_invalid(cudaStreamPerThread);
}

static void captures_are_of_a_thread(void **state)
{
    static const enum cudaStreamCaptureMode modes[] = {
        cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed};
    static const cudaError_t wanted[][2] = {{cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureWrongThread},
                                            {cudaSuccess, cudaErrorStreamCaptureWrongThread},
                                            {cudaSuccess, cudaSuccess}};
    cudaError_t results[2];
    pthread_t thread;
    cudaGraph_t graph;

    (void)state;
    for (int i = 0; i < 3; i++) {
        OK(cudaStreamBeginCapture(stream, modes[i]));
        assert_int_equal(pthread_create(&thread, NULL, try_from_another_thread, results), 0);
        pthread_join(thread, NULL);
        assert_int_equal(results[0], wanted[i][0]);
        assert_int_equal(results[1], wanted[i][1]);
        if (i == 0)
            GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
        if (i == 1) {
            end(&graph);
            OK(cudaGraphDestroy(graph));
        }
    }
}

static void a_capture_may_span_devices(void **state)
{
    cudaEvent_t fork, join;
    cudaStream_t there;
    unsigned char *far;
    cudaGraphExec_t exec, outer_exec;
    cudaGraph_t graph, outer;

    (void)state;
    OK(cudaEventCreate(&fork));
    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&there));
    OK(cudaEventCreate(&join));
    OK(cudaMalloc((void **)&far, BYTES));
    OK(cudaSetDevice(0));
    begin();
    OK(cudaMemsetAsync(device, 5, BYTES, stream));
    OK(cudaEventRecord(fork, stream));
    OK(cudaStreamWaitEvent(there, fork, 0));
    OK(cudaMemcpyAsync(far, device, BYTES, cudaMemcpyDefault, there));
    OK(cudaEventRecord(join, there));
    OK(cudaStreamWaitEvent(stream, join, 0));
    OK(cudaMemcpyAsync(pinned, far, BYTES, cudaMemcpyDefault, stream));
    end(&graph);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    begin(); /* a captured launch becomes a child graph */
    OK(cudaGraphLaunch(exec, stream));
    end(&outer);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphInstantiate(&outer_exec, outer, 0));
    memset(pinned, 0, BYTES);
    OK(cudaGraphLaunch(outer_exec, stream));
    OK(cudaStreamSynchronize(stream));
    HAS_BYTES(pinned, BYTES, 5);
    OK(cudaGraphExecDestroy(outer_exec));
    OK(cudaGraphDestroy(outer));
    OK(cudaFree(far));
    OK(cudaStreamDestroy(there));
    OK(cudaEventDestroy(join));
    OK(cudaEventDestroy(fork));
}

static int set_up(void **state)
{
    (void)state;
    return cudaStreamCreate(&stream) || cudaStreamCreate(&other) || cudaMalloc((void **)&device, BYTES) ||
           cudaMallocHost((void **)&pinned, BYTES);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(work_is_done_when_the_graph_is_launched),
    cmocka_unit_test(events_fork_and_join),
    cmocka_unit_test(an_event_is_where_it_was_recorded_last),
    cmocka_unit_test(streams_that_are_gone_hinder_nobody),
    cmocka_unit_test(external_events_are_nodes),
    cmocka_unit_test(what_a_capture_forbids),
    cmocka_unit_test(captures_are_of_a_thread),
    cmocka_unit_test(synchronous_copies_in_other_threads),
    cmocka_unit_test(a_capture_may_span_devices),
};

int main(void)
{
    int wrong = cmocka_run_group_tests(tests, set_up, NULL);

    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}
