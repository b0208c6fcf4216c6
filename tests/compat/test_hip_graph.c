/* test_hip_graph.c - tests stream capture and captured graphs in HIP: which calls HIP refuses, and with which
 * error code. */
#include <hip/hip_runtime.h>

#include "compat.h"

#include <leat/device_code.h>

#define BYTES ((size_t)4096)

static hipStream_t stream;
static unsigned char *device, *pinned;

LEAT_KERNEL(raise_all, 2, unsigned char *, data, uint64_t, count)
{
    LEAT_FOR (i, count)
        data[i]++;
}

static void count_call(void *argument)
{
    ++*(int *)argument;
}

static void count_callback(hipStream_t on, hipError_t status, void *argument)
{
    *(int *)argument += on == stream && status == hipSuccess;
}

static void work_is_captured_and_launched(void **state)
{
    dim3 grid = {2, 1, 1}, block = {64, 1, 1};
    uint64_t count = BYTES;
    void *args[] = {&device, &count};
    hipStreamCaptureStatus status;
    unsigned long long id = 0;
    hipGraphNodeType type;
    hipGraphNode_t first;
    hipGraphExec_t exec;
    hipGraph_t graph;
    size_t nodes = 0;
    int calls = 0;

    (void)state;
    memset(pinned, 0, BYTES);
    OK(hipMemset(device, 9, BYTES));
    OK(hipDeviceSynchronize());
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    GIVES(hipErrorIllegalState, hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipMemsetAsync(device, 1, BYTES, stream));
    OK(hipLaunchKernel(&leat_cpu_kernel_raise_all, grid, block, args, 0, stream));
    OK(hipMemcpyAsync(pinned, device, BYTES, hipMemcpyDeviceToHost, stream));
    OK(hipLaunchHostFunc(stream, count_call, &calls));
    OK(hipStreamAddCallback(stream, count_callback, &calls, 0));
    OK(hipStreamGetCaptureInfo(stream, &status, &id));
    assert_int_equal(status, hipStreamCaptureStatusActive);
    assert_true(id != 0);
    OK(hipStreamEndCapture(stream, &graph));
    HAS_BYTES(pinned, BYTES, 0); /* captured work does not run */
    assert_int_equal(calls, 0);
    OK(hipGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 5);
    nodes = 1;
    OK(hipGraphGetRootNodes(graph, &first, &nodes));
    OK(hipGraphNodeGetType(first, &type));
    assert_int_equal(type, hipGraphNodeTypeMemset);
    OK(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    OK(hipGraphUpload(exec, stream));
    OK(hipGraphLaunch(exec, stream));
    OK(hipGraphLaunch(exec, stream));
    OK(hipGraphExecDestroy(exec)); /* the launch is still running */
    OK(hipGraphDestroy(graph));
    OK(hipStreamSynchronize(stream));
    HAS_BYTES(pinned, BYTES, 2);
    assert_int_equal(calls, 4);
}

/* Ends a capture that is invalid. */
static void ends_invalid(void)
{
    hipGraph_t graph = (hipGraph_t)&graph;

    GIVES(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(stream, &graph));
    assert_null(graph);
}

static void what_waits_spoils_a_capture(void **state)
{
    static const hipStreamCaptureMode modes[] = {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal,
                                                 hipStreamCaptureModeRelaxed};
    unsigned char plain[16];

    (void)state;
    for (int i = 0; i < 3; i++) {
        OK(hipStreamBeginCapture(stream, modes[i]));
        GIVES(hipErrorStreamCaptureImplicit, hipMemcpy(device, plain, 16, hipMemcpyHostToDevice));
        ends_invalid();
        OK(hipStreamBeginCapture(stream, modes[i]));
        GIVES(hipErrorStreamCaptureImplicit, hipMemset(device, 0, 16));
        ends_invalid();
        OK(hipStreamBeginCapture(stream, modes[i]));
        GIVES(hipErrorStreamCaptureImplicit, hipMemset2D(device, 16, 0, 8, 2));
        ends_invalid();
        OK(hipStreamBeginCapture(stream, modes[i]));
        GIVES(hipErrorStreamCaptureUnsupported,
              hipMemcpyWithStream(device, plain, 16, hipMemcpyHostToDevice, stream));
        ends_invalid();
        OK(hipStreamBeginCapture(stream, modes[i]));
        GIVES(hipErrorStreamCaptureUnsupported, hipStreamSynchronize(stream));
        ends_invalid();
        OK(hipStreamBeginCapture(stream, modes[i]));
        GIVES(hipErrorStreamCaptureUnsupported, hipStreamQuery(stream));
        ends_invalid();
        OK(hipStreamBeginCapture(stream, modes[i]));
        GIVES(hipErrorStreamCaptureUnsupported, hipDeviceSynchronize());
        ends_invalid();
    }
}

/* Checks that the call is refused during a capture, unless the capture is relaxed. */
#define UNSAFE(call)                                                                                              \
    do {                                                                                                          \
        OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));                                            \
        GIVES(hipErrorStreamCaptureUnsupported, call);                                                            \
        ends_invalid();                                                                                           \
        OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));                                           \
        OK(call);                                                                                                 \
        OK(hipStreamEndCapture(stream, &graph));                                                                  \
        OK(hipGraphDestroy(graph));                                                                               \
    } while (0)

static void what_is_not_safe_spoils_a_capture(void **state)
{
    hipChannelFormatDesc desc = {32, 0, 0, 0, hipChannelFormatKindUnsigned};
    static unsigned char page[4096];
    hipArray_t array;
    hipGraph_t graph;
    size_t pitch;
    void *ptr;

    (void)state;
    UNSAFE(hipMalloc(&ptr, 64));
    UNSAFE(hipFree(ptr));
    UNSAFE(hipHostMalloc(&ptr, 64, hipHostMallocDefault));
    UNSAFE(hipHostFree(ptr));
    UNSAFE(hipMallocManaged(&ptr, 64, hipMemAttachGlobal));
    OK(hipFree(ptr));
    UNSAFE(hipMallocPitch(&ptr, &pitch, 64, 4));
    OK(hipFree(ptr));
    UNSAFE(hipHostRegister(page, sizeof page, 0));
    UNSAFE(hipHostUnregister(page));
    UNSAFE(hipMallocArray(&array, &desc, 8, 8, hipArrayDefault));
    UNSAFE(hipFreeArray(array));
}

static void events_belong_to_their_capture(void **state)
{
    hipStream_t other;
    hipEvent_t in, out;
    hipGraph_t graph;

    (void)state;
    OK(hipStreamCreate(&other));
    OK(hipEventCreate(&in));
    OK(hipEventCreate(&out));
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipEventRecord(in, stream));
    OK(hipStreamWaitEvent(other, in, 0));
    OK(hipMemsetAsync(device, 4, BYTES, other));
    GIVES(hipErrorStreamCaptureUnmatched, hipStreamEndCapture(other, &graph));
    OK(hipEventRecord(out, other));
    OK(hipStreamWaitEvent(stream, out, 0));
    OK(hipStreamEndCapture(stream, &graph));
    OK(hipGraphDestroy(graph));
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipEventRecord(in, stream));
    GIVES(hipErrorCapturedEvent, hipEventSynchronize(in));
    ends_invalid();
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipEventRecord(in, stream));
    OK(hipStreamWaitEvent(other, in, 0));
    OK(hipMemsetAsync(device, 4, BYTES, other));
    GIVES(hipErrorStreamCaptureUnjoined, hipStreamEndCapture(stream, &graph));
    OK(hipEventDestroy(in));
    OK(hipEventDestroy(out));
    OK(hipStreamDestroy(other));
}

static void wrong_arguments_are_refused(void **state)
{
    hipStreamCaptureStatus status;
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    hipGraphExec_t exec;
    hipGraph_t graph;
    hipStream_t gone;

    (void)state;
    OK(hipStreamCreate(&gone));
    OK(hipStreamDestroy(gone));
    GIVES(hipErrorStreamCaptureUnsupported, hipStreamBeginCapture(NULL, hipStreamCaptureModeGlobal));
    GIVES(hipErrorInvalidValue, hipStreamBeginCapture(stream, (hipStreamCaptureMode)7));
    GIVES(hipErrorContextIsDestroyed, hipStreamBeginCapture(gone, hipStreamCaptureModeGlobal));
    GIVES(hipErrorIllegalState, hipStreamEndCapture(stream, &graph));
    GIVES(hipErrorInvalidValue, hipStreamEndCapture(stream, NULL));
    GIVES(hipErrorContextIsDestroyed, hipStreamEndCapture(gone, &graph));
    GIVES(hipErrorInvalidValue, hipStreamIsCapturing(stream, NULL));
    GIVES(hipErrorContextIsDestroyed, hipStreamIsCapturing(gone, &status));
    OK(hipStreamIsCapturing(NULL, &status));
    assert_int_equal(status, hipStreamCaptureStatusNone);
    OK(hipThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, hipStreamCaptureModeGlobal);
    OK(hipThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, hipStreamCaptureModeRelaxed);
    GIVES(hipErrorInvalidValue, hipThreadExchangeStreamCaptureMode(NULL));
    GIVES(hipErrorInvalidValue, hipGraphDestroy(NULL));
    GIVES(hipErrorInvalidValue, hipGraphExecDestroy(NULL));
    GIVES(hipErrorInvalidValue, hipGraphLaunch(NULL, stream));
    GIVES(hipErrorInvalidValue, hipGraphInstantiate(&exec, NULL, NULL, NULL, 0));
    GIVES(hipErrorInvalidValue, hipGraphCreate(&graph, 1));
    OK(hipGraphCreate(&graph, 0));
    GIVES(hipErrorInvalidValue, hipGraphInstantiate(NULL, graph, NULL, NULL, 0));
    GIVES(hipErrorInvalidValue, hipGraphInstantiateWithFlags(&exec, graph, 16));
    OK(hipGraphDestroy(graph));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_captured_and_launched),     cmocka_unit_test(what_waits_spoils_a_capture),
        cmocka_unit_test(what_is_not_safe_spoils_a_capture), cmocka_unit_test(events_belong_to_their_capture),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    int failed;

    if (hipStreamCreate(&stream) != hipSuccess || hipMalloc((void **)&device, BYTES) != hipSuccess ||
        hipHostMalloc((void **)&pinned, BYTES, hipHostMallocDefault) != hipSuccess)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    return hipHostFree(pinned) != hipSuccess || hipDeviceReset() != hipSuccess || failed;
}
