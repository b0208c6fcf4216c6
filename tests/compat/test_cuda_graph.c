/*
 * test_cuda_graph.c - tests the CUDA driver's calls on whole graphs: edges, executable graphs and their updates,
 * user objects, capture into a graph, DOT files, versions of symbols, refusals, and unloading a module.
 */
#include "cuda_graphs.h"

#include "../support/temporary.h"

#include <unistd.h>

/* ---- before cuInit() ---- */

static void nothing_before_the_start(void **state)
{
    CUgraph graph = NULL;
    CUgraphExec exec;
    CUgraphNode node;
    CUuserObject object;

    (void)state;
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuGraphCreate(&graph, 0));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuGraphAddEmptyNode(&node, graph, NULL, 0));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuGraphInstantiate(&exec, graph, 0));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuGraphDestroy(graph));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGraphMemTrim(0));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuUserObjectCreate(&object, NULL, count_up, 1, 1));
    set_up();
}

/* ---- edges, clones, executables ---- */

static void edges_in_both_forms(void **state)
{
    CUgraphNode nodes[3], from[3], to[3], list[3], found;
    CUgraphEdgeData data[3];
    CUgraph graph, clone;
    size_t count = 3;

    (void)state;
    OK(cuGraphCreate(&graph, 0));
    for (int i = 0; i < 3; i++)
        OK(cuGraphAddEmptyNode(&nodes[i], graph, NULL, 0));
    OK(cuGraphAddDependencies(graph, &nodes[0], &nodes[1], 1));
    OK(cuGraphAddDependencies_v2(graph, &nodes[1], &nodes[2], NULL, 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &nodes[0], &nodes[1], 1));
    OK(cuGraphGetEdges(graph, from, to, &count));
    assert_int_equal(count, 2);
    count = 3;
    memset(data, 1, sizeof data);
    OK(cuGraphGetEdges_v2(graph, from, to, data, &count));
    assert_true(count == 2 && from[0] == nodes[0] && to[1] == nodes[2] && !data[1].type);
    count = 3;
    OK(cuGraphNodeGetDependencies(nodes[1], list, &count));
    assert_true(count == 1 && list[0] == nodes[0]);
    OK(cuGraphNodeGetDependencies_v2(nodes[1], NULL, NULL, &count));
    OK(cuGraphNodeGetDependentNodes(nodes[1], list, &count));
    assert_true(count == 1 && list[0] == nodes[2]);
    OK(cuGraphNodeGetDependentNodes_v2(nodes[1], list, data, &count));
    OK(cuGraphGetRootNodes(graph, list, &count));
    assert_true(count == 1 && list[0] == nodes[0]);
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&found, nodes[2], clone));
    assert_ptr_not_equal(found, nodes[2]);
    OK(cuGraphRemoveDependencies(graph, &nodes[0], &nodes[1], 1));
    OK(cuGraphRemoveDependencies_v2(graph, &nodes[1], &nodes[2], NULL, 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &nodes[0], &nodes[1], 1));
    OK(cuGraphGetEdges(clone, NULL, NULL, &count));
    assert_int_equal(count, 2);
    data[0] = (CUgraphEdgeData){.from_port = 1, .type = 1};
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddDependencies_v2(graph, &nodes[0], &nodes[1], data, 1));
    OK(cuGraphDestroyNode(nodes[0]));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(nodes[0]));
    OK(cuGraphDestroy(clone));
    OK(cuGraphDestroy(graph));
}

static void executables_in_all_forms(void **state)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD};
    CUDA_MEMSET_NODE_PARAMS set = fill(device, 1), other_set = fill(more, 2);
    CUgraphExecUpdateResultInfo info;
    CUgraphExecUpdateResult why;
    CUgraphNode node, other_node, wrong = (CUgraphNode)&wrong, nodes[2];
    CUgraph graph, other;
    CUgraphExec exec;
    cuuint64_t flags = 99;
    char log[100] = "x";
    unsigned on;

    (void)state;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
    OK(cuGraphCreate(&other, 0));
    OK(cuGraphAddMemsetNode(&other_node, other, NULL, 0, &other_set, context));
#undef cuGraphInstantiate
    OK(cuGraphInstantiate(&exec, graph, &wrong, log, sizeof log));
    assert_null(wrong);
    assert_string_equal(log, "");
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
    OK(cuGraphExecDestroy(exec));
    params.hUploadStream = stream;
    OK(cuGraphInstantiateWithParams(&exec, graph, &params));
    assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    OK(cuGraphExecGetFlags(exec, &flags));
    assert_int_equal(flags, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
    OK(cuGraphUpload(exec, stream));
    run(exec);
    device_has(device, 1);
    OK(cuGraphNodeSetEnabled(exec, node, 0));
    OK(cuGraphNodeGetEnabled(exec, node, &on));
    assert_int_equal(on, 0);
    OK(cuGraphNodeSetEnabled(exec, node, 1));
#undef cuGraphExecUpdate
    OK(cuGraphExecUpdate(exec, other, &wrong, &why));
    assert_int_equal(why, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    run(exec);
    device_has(more, 2);
    OK(cuGraphAddEmptyNode(&nodes[0], other, NULL, 0));
    GIVES(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, other, &wrong, &why));
    assert_int_equal(why, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    GIVES(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, other, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    OK(cuGraphAddEmptyNode(&nodes[1], other, &nodes[0], 1));
    OK(cuGraphAddDependencies(other, &nodes[1], &nodes[0], 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate_v2(&exec, other, &wrong, log, sizeof log));
    assert_true(wrong == nodes[0] || wrong == nodes[1]);
    assert_non_null(strstr(log, "cycle"));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 1 << 12));
    OK(cuGraphExecDestroy(exec));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(other));
    OK(cuGraphDestroy(graph));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
}

static void objects_are_counted(void **state)
{
    CUuserObject object;
    CUgraph graph;
    int ended = 0;

    (void)state;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(&object, &ended, count_up, 1, 0));
    OK(cuUserObjectCreate(&object, &ended, count_up, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuUserObjectRetain(object, 2));
    OK(cuUserObjectRelease(object, 1));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphRetainUserObject(graph, object, 2, CU_GRAPH_USER_OBJECT_MOVE));
    OK(cuGraphReleaseUserObject(graph, object, 1));
    assert_int_equal(ended, 0);
    OK(cuGraphDestroy(graph));
    assert_int_equal(ended, 1);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuUserObjectRelease(object, 1));
}

static void captures_into_graphs(void **state)
{
    CUDA_MEMSET_NODE_PARAMS set = fill(device, 1);
    CUstreamCaptureStatus status;
    const CUgraphEdgeData *data = (const CUgraphEdgeData *)&status;
    const CUgraphNode *ends;
    CUgraphNode node, extra;
    struct addition one;
    cuuint64_t id;
    CUgraph graph, seen;
    size_t count;

    (void)state;
    addition(&one, device, 3);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
    OK(cuGraphAddEmptyNode(&extra, graph, NULL, 0));
    OK(cuStreamBeginCaptureToGraph(stream, graph, &node, NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamGetCaptureInfo_v3(stream, &status, &id, &seen, &ends, &data, &count));
    assert_true(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && seen == graph && count == 1 && ends[0] == node &&
                !data);
    OK(cuStreamUpdateCaptureDependencies(stream, &extra, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    OK(cuStreamUpdateCaptureDependencies_v2(stream, &node, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK(cuLaunchKernel(add, 1, 1, 1, 64, 1, 1, 0, stream, one.args, NULL));
    OK(cuStreamEndCapture(stream, &seen));
    assert_ptr_equal(seen, graph);
    run_and_end(graph);
    device_has(device, 4);
    OK(cuGraphDestroy(graph));
    GIVES(CUDA_ERROR_ILLEGAL_STATE, cuStreamUpdateCaptureDependencies(stream, NULL, 0, 0));
}

/* A context is destroyed even if the wait for its device fails, here because a stream is being captured. */
static void a_capture_keeps_no_context(void **state)
{
    CUcontext made;
    CUgraph graph;

    (void)state;
    OK(cuCtxCreate(&made, 0, 0));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuCtxDestroy(made));
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxDestroy(made));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    OK(cuCtxSynchronize());
}

static void graphs_are_drawn(void **state)
{
    char path[TEMPORARY_PATH], text[4000];
    CUDA_MEMSET_NODE_PARAMS set = fill(device, 1);
    int file = temporary_file(path);
    CUgraphNode node;
    CUgraph graph;
    ssize_t bytes;

    (void)state;
    assert_true(file >= 0);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
    OK(cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
    bytes = read(file, text, sizeof text - 1);
    assert_true(bytes > 0);
    text[bytes] = 0;
    assert_non_null(strstr(text, "digraph"));
    close(file);
    unlink(path);
    GIVES(CUDA_ERROR_OPERATING_SYSTEM, cuGraphDebugDotPrint(graph, "/no/such/folder/file", 0));
    OK(cuGraphDestroy(graph));
}

/* cuGetProcAddress() finds the function of the CUDA version that the caller passes. The header's macros map the
 * names to the newest versions, so the test undefines them to reach the older functions. */
#undef cuGraphAddKernelNode
static void names_are_found_by_version(void **state)
{
    static const struct {
        const char *name;
        int version;
        void *function;
    } names[] = {{"cuGraphAddKernelNode", 10000, cuGraphAddKernelNode},
                 {"cuGraphAddKernelNode", 12000, cuGraphAddKernelNode_v2},
                 {"cuGraphAddNode", 12020, cuGraphAddNode},
                 {"cuGraphAddNode", 12030, cuGraphAddNode_v2},
                 {"cuGraphGetEdges", 10000, cuGraphGetEdges},
                 {"cuGraphGetEdges", 12030, cuGraphGetEdges_v2},
                 {"cuGraphExecUpdate", 10020, cuGraphExecUpdate},
                 {"cuGraphExecUpdate", 12000, cuGraphExecUpdate_v2},
                 {"cuGraphInstantiate", 12000, cuGraphInstantiate_v2},
                 {"cuGraphInstantiateWithFlags", 12000, cuGraphInstantiateWithFlags},
                 {"cuGraphAddMemAllocNode", 11040, cuGraphAddMemAllocNode},
                 {"cuDeviceGraphMemTrim", 11040, cuDeviceGraphMemTrim},
                 {"cuUserObjectCreate", 11030, cuUserObjectCreate}};
    void *function;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        OK(cuGetProcAddress(names[i].name, &function, names[i].version, 0, NULL));
        if (function != names[i].function)
            print_error("%s of %d\n", names[i].name, names[i].version);
        assert_ptr_equal(function, names[i].function);
    }
}

static void what_there_is_not_is_refused(void **state)
{
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signal = {.numExtSems = 0};
    CUDA_EXT_SEM_WAIT_NODE_PARAMS wait = {.numExtSems = 0};
    CUgraphConditionalHandle handle;
    CUgraphNode node;
    CUgraph graph;

    (void)state;
    OK(cuGraphCreate(&graph, 0));
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddExternalSemaphoresSignalNode(&node, graph, NULL, 0, &signal));
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddExternalSemaphoresWaitNode(&node, graph, NULL, 0, &wait));
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuGraphConditionalHandleCreate(&handle, graph, context, 0, 0));
    OK(cuGraphDestroy(graph));
}

/* After a module is unloaded, a new node with one of its functions is refused. A launch of a graph that already
 * has such a node does no harm. */
static void a_module_that_goes_leaves_its_nodes_without_a_kernel(void **state)
{
    struct addition one;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph;

    (void)state;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, addition(&one, device, 1)));
    exec = instantiated(graph);
    OK(cuModuleUnload(module));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &one.params));
    (void)cuGraphLaunch(exec, stream); /* any result is valid: the kernel is leat's own, and still exists without
                                        * the module */
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static void the_end(void **state)
{
    (void)state;
    tear_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_before_the_start),
        cmocka_unit_test(edges_in_both_forms),
        cmocka_unit_test(executables_in_all_forms),
        cmocka_unit_test(objects_are_counted),
        cmocka_unit_test(captures_into_graphs),
        cmocka_unit_test(a_capture_keeps_no_context),
        cmocka_unit_test(graphs_are_drawn),
        cmocka_unit_test(names_are_found_by_version),
        cmocka_unit_test(what_there_is_not_is_refused),
        cmocka_unit_test(a_module_that_goes_leaves_its_nodes_without_a_kernel),
        cmocka_unit_test(the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
