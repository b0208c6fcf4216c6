/*
 * test_hip_graph_calls.c - tests HIP's calls on whole graphs: capture of callbacks and memory operations, capture
 * into an existing graph, edges, clones, updates of executable graphs, user objects, and DOT files.
 */
#include "hip_graphs.h"

#include "../support/temporary.h"

#include <unistd.h>

/* ---- what HIP captures besides copies, sets and kernels ---- */

static int called_back;

static void call_back(hipStream_t on, hipError_t status, void *argument)
{
    called_back += on == stream && status == hipSuccess && argument == &called_back;
}

static void callbacks_and_mem_ops_are_captured(void **state)
{
    hipStreamBatchMemOpParams ops[2] = {{.operation = hipStreamMemOpWaitValue32},
                                        {.operation = hipStreamMemOpWriteValue64}};
    hipBatchMemOpNodeParams params = {.count = 2, .paramArray = ops}, got;
    volatile uint32_t *word = (uint32_t *)(void *)pinned;
    volatile uint64_t *wide = (uint64_t *)(void *)(pinned + 64);
    hipGraphNode_t nodes[4], node;
    hipHostNodeParams host;
    hipGraphNodeType type;
    hipGraphExec_t exec;
    hipGraph_t graph;
    size_t count = 4;

    (void)state;
    memset(pinned, 0, BYTES);
    ops[0].waitValue.address = pinned;
    ops[0].waitValue.value = 5;
    ops[0].waitValue.flags = hipStreamWaitValueEq;
    ops[1].writeValue.address = pinned + 64;
    ops[1].writeValue.value64 = 1ull << 40;
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipStreamAddCallback(stream, call_back, &called_back, 0));
    OK(hipStreamBatchMemOp(stream, 2, ops, 0));
    OK(hipStreamWaitValue32(stream, pinned, 4, hipStreamWaitValueEq, 4));
    OK(hipStreamWriteValue32(stream, pinned, 6, 0));
    OK(hipStreamEndCapture(stream, &graph));
    OK(hipGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 4);
    OK(hipGraphNodeGetType(nodes[0], &type));
    assert_int_equal(type, hipGraphNodeTypeHost);
    OK(hipGraphNodeGetType(nodes[1], &type));
    assert_int_equal(type, hipGraphNodeTypeBatchMemOp);
    OK(hipGraphBatchMemOpNodeGetParams(nodes[1], &got));
    assert_true(got.count == 2 && got.ctx == context);
    assert_memory_equal(got.paramArray, ops, sizeof ops);
    GIVES(hipErrorNotSupported, hipGraphBatchMemOpNodeGetParams(nodes[2], &got)); /* the wait has a mask */
    exec = instantiated(graph);
    memset(ops, 0xff, sizeof ops);
    for (int i = 1; i <= 2; i++) {
        *wide = 0;
        *word = 0;
        OK(hipGraphLaunch(exec, stream));
        GIVES(hipErrorNotReady, hipStreamQuery(stream));
        __atomic_store_n(word, 5, __ATOMIC_RELEASE); /* the launched graph waits for this value */
        OK(hipStreamSynchronize(stream));
        assert_true(*wide == 1ull << 40 && *word == 6);
        assert_int_equal(called_back, i);
    }
    OK(hipGraphExecDestroy(exec));
    /* A program can read the parameters of the callback's node and call its function. */
    OK(hipGraphHostNodeGetParams(nodes[0], &host));
    host.fn(host.userData);
    assert_int_equal(called_back, 3);
    OK(hipGraphDestroy(graph));

    OK(hipGraphCreate(&graph, 0));
    params.ctx = context;
    ops[1] = (hipStreamBatchMemOpParams){.operation = hipStreamMemOpWriteValue32};
    ops[1].writeValue.address = pinned;
    ops[1].writeValue.value = 9;
    params.count = 1;
    params.paramArray = &ops[1];
    OK(hipGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    OK(hipGraphNodeGetType(node, &type));
    assert_int_equal(type, hipGraphNodeTypeBatchMemOp);
    exec = instantiated(graph);
    run(exec);
    assert_int_equal(*word, 9);
    ops[1].writeValue.value = 10;
    OK(hipGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    run(exec);
    assert_int_equal(*word, 10);
    OK(hipGraphBatchMemOpNodeSetParams(node, &params));
    params.ctx = NULL;
    GIVES(hipErrorInvalidValue, hipGraphBatchMemOpNodeSetParams(node, &params));
    params.ctx = context;
    params.flags = 1;
    GIVES(hipErrorInvalidValue, hipGraphBatchMemOpNodeSetParams(node, &params));
    GIVES(hipErrorInvalidValue, hipGraphAddBatchMemOpNode(&node, graph, NULL, 0, NULL));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
}

static void captures_go_into_graphs(void **state)
{
    hipMemsetParams one = fill(device, 1, BYTES);
    hipGraphEdgeData data = {.type = 0};
    const hipGraphNode_t *ends;
    hipStreamCaptureStatus status;
    hipGraphNode_t node, extra;
    struct addition add;
    hipGraph_t graph, seen;
    size_t count;

    (void)state;
    addition(&add, device, 5);
    OK(hipGraphCreate(&graph, 0));
    OK(hipGraphAddMemsetNode(&node, graph, NULL, 0, &one));
    OK(hipGraphAddEmptyNode(&extra, graph, NULL, 0));
    GIVES(hipErrorNotSupported,
          hipStreamBeginCaptureToGraph(stream, graph, &node, &data, 1, hipStreamCaptureModeGlobal));
    GIVES(hipErrorInvalidValue,
          hipStreamBeginCaptureToGraph(stream, NULL, &node, NULL, 1, hipStreamCaptureModeGlobal));
    OK(hipStreamBeginCaptureToGraph(stream, graph, &node, NULL, 1, hipStreamCaptureModeGlobal));
    OK(hipStreamUpdateCaptureDependencies(stream, &extra, 1, hipStreamAddCaptureDependencies));
    OK(hipStreamGetCaptureInfo_v2(stream, &status, NULL, &seen, &ends, &count));
    assert_true(seen == graph && count == 2);
    OK(hipStreamUpdateCaptureDependencies(stream, &node, 1, hipStreamSetCaptureDependencies));
    GIVES(hipErrorInvalidValue, hipStreamUpdateCaptureDependencies(stream, &node, 1, 2));
    OK(hipLaunchKernel(add.params.func, add.params.gridDim, add.params.blockDim, add.args, 0, stream));
    OK(hipStreamEndCapture(stream, &seen));
    assert_ptr_equal(seen, graph);
    run_and_end(graph);
    device_has(device, 6);
    OK(hipGraphDestroy(graph));
    GIVES(hipErrorIllegalState, hipStreamUpdateCaptureDependencies(stream, &node, 1, 0));
}

/* ---- edges, clones, executables, objects ---- */

static void edges_and_clones(void **state)
{
    hipGraphNode_t nodes[3], from[3], to[3], list[3], found;
    hipGraph_t graph, clone;
    size_t count = 3;

    (void)state;
    OK(hipGraphCreate(&graph, 0));
    for (int i = 0; i < 3; i++)
        OK(hipGraphAddEmptyNode(&nodes[i], graph, NULL, 0));
    OK(hipGraphAddDependencies(graph, nodes, &nodes[1], 2));
    GIVES(hipErrorInvalidValue, hipGraphAddDependencies(graph, nodes, &nodes[1], 1));
    GIVES(hipErrorInvalidValue, hipGraphAddDependencies(graph, nodes, nodes, 1));
    OK(hipGraphGetEdges(graph, from, to, &count));
    assert_true(count == 2 && from[0] == nodes[0] && to[1] == nodes[2] && !from[2]);
    OK(hipGraphNodeGetDependencies(nodes[1], list, &count));
    assert_true(count == 1 && list[0] == nodes[0]);
    OK(hipGraphNodeGetDependentNodes(nodes[1], list, &count));
    assert_true(count == 1 && list[0] == nodes[2]);
    OK(hipGraphClone(&clone, graph));
    OK(hipGraphNodeFindInClone(&found, nodes[2], clone));
    assert_ptr_not_equal(found, nodes[2]);
    OK(hipGraphRemoveDependencies(graph, nodes, &nodes[1], 2));
    GIVES(hipErrorInvalidValue, hipGraphRemoveDependencies(graph, nodes, &nodes[1], 1));
    OK(hipGraphGetEdges(clone, NULL, NULL, &count));
    assert_int_equal(count, 2);
    OK(hipGraphDestroyNode(nodes[0]));
    GIVES(hipErrorInvalidValue, hipGraphDestroyNode(nodes[0]));
    OK(hipGraphDestroy(clone));
    OK(hipGraphDestroy(graph));
}

static void executables(void **state)
{
    hipGraphInstantiateParams params = {.flags = hipGraphInstantiateFlagUpload};
    hipMemsetParams set = fill(device, 1, BYTES), other_set = fill(more, 2, BYTES);
    hipGraphNode_t node, other_node, nodes[2], wrong = (hipGraphNode_t)&wrong;
    unsigned long long flags = 99;
    hipGraphExecUpdateResult why;
    char log[100] = "x";
    hipGraph_t graph, other;
    hipGraphExec_t exec;
    unsigned on;

    (void)state;
    OK(hipGraphCreate(&graph, 0));
    OK(hipGraphAddMemsetNode(&node, graph, NULL, 0, &set));
    OK(hipGraphCreate(&other, 0));
    OK(hipGraphAddMemsetNode(&other_node, other, NULL, 0, &other_set));
    OK(hipGraphInstantiate(&exec, graph, &wrong, log, sizeof log));
    assert_null(wrong);
    assert_string_equal(log, "");
    OK(hipGraphExecDestroy(exec));
    params.uploadStream = stream;
    OK(hipGraphInstantiateWithParams(&exec, graph, &params));
    assert_int_equal(params.result_out, hipGraphInstantiateSuccess);
    OK(hipGraphExecGetFlags(exec, &flags));
    assert_int_equal(flags, hipGraphInstantiateFlagUpload);
    run(exec);
    device_has(device, 1);
    OK(hipGraphNodeSetEnabled(exec, node, 0));
    OK(hipGraphNodeGetEnabled(exec, node, &on));
    assert_int_equal(on, 0);
    OK(hipGraphNodeSetEnabled(exec, node, 1));
    OK(hipGraphExecUpdate(exec, other, &wrong, &why));
    assert_int_equal(why, hipGraphExecUpdateSuccess);
    run(exec);
    device_has(more, 2);
    OK(hipGraphAddEmptyNode(&nodes[0], other, NULL, 0));
    GIVES(hipErrorGraphExecUpdateFailure, hipGraphExecUpdate(exec, other, &wrong, &why));
    assert_int_equal(why, hipGraphExecUpdateErrorTopologyChanged);
    GIVES(hipErrorInvalidValue, hipGraphExecUpdate(exec, graph, NULL, &why));
    GIVES(hipErrorInvalidValue, hipGraphExecUpdate(exec, graph, &wrong, NULL));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphAddEmptyNode(&nodes[1], other, &nodes[0], 1));
    OK(hipGraphAddDependencies(other, &nodes[1], &nodes[0], 1));
    GIVES(hipErrorInvalidValue, hipGraphInstantiate(&exec, other, &wrong, log, sizeof log));
    assert_true(wrong == nodes[0] || wrong == nodes[1]);
    assert_non_null(strstr(log, "cycle"));
    params.flags = 0;
    GIVES(hipErrorInvalidValue, hipGraphInstantiateWithParams(&exec, other, &params));
    assert_int_equal(params.result_out, hipGraphInstantiateInvalidStructure);
    GIVES(hipErrorNotSupported, hipGraphInstantiateWithFlags(&exec, graph, hipGraphInstantiateFlagDeviceLaunch));
    OK(hipGraphDestroy(other));
    OK(hipGraphDestroy(graph));
    GIVES(hipErrorInvalidValue, hipGraphExecGetFlags(exec, &flags));
}

static void objects_and_pictures(void **state)
{
    char path[TEMPORARY_PATH], text[4000];
    int ended = 0, file = temporary_file(path);
    hipMemsetParams set = fill(device, 1, BYTES);
    hipUserObject_t object;
    hipGraphNode_t node;
    hipGraph_t graph;
    ssize_t bytes;

    (void)state;
    GIVES(hipErrorInvalidValue, hipUserObjectCreate(&object, &ended, count_up, 1, 0));
    OK(hipUserObjectCreate(&object, &ended, count_up, 1, hipUserObjectNoDestructorSync));
    OK(hipUserObjectRetain(object, 2));
    OK(hipUserObjectRelease(object, 1));
    OK(hipGraphCreate(&graph, 0));
    OK(hipGraphRetainUserObject(graph, object, 2, hipGraphUserObjectMove));
    GIVES(hipErrorInvalidValue, hipGraphRetainUserObject(graph, object, 1, 2));
    OK(hipGraphReleaseUserObject(graph, object, 1));
    OK(hipGraphAddMemsetNode(&node, graph, NULL, 0, &set));
    assert_true(file >= 0);
    OK(hipGraphDebugDotPrint(graph, path, hipGraphDebugDotFlagsVerbose));
    bytes = read(file, text, sizeof text - 1);
    assert_true(bytes > 0);
    text[bytes] = 0;
    assert_non_null(strstr(text, "digraph"));
    close(file);
    unlink(path);
    GIVES(hipErrorOperatingSystem, hipGraphDebugDotPrint(graph, "/no/such/folder/file", 0));
    assert_int_equal(ended, 0);
    OK(hipGraphDestroy(graph));
    assert_int_equal(ended, 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(callbacks_and_mem_ops_are_captured),
        cmocka_unit_test(captures_go_into_graphs),
        cmocka_unit_test(edges_and_clones),
        cmocka_unit_test(executables),
        cmocka_unit_test(objects_and_pictures),
    };
    int wrong = cmocka_run_group_tests(tests, set_up, NULL);

    for (int i = 0; i < 2; i++)
        wrong += hipSetDevice(i) || hipDeviceReset();
    return wrong ? 1 : 0;
}
