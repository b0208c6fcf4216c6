/* test_cudart_edges.c - tests graphs that a program builds node by node: edges, clones, executable graphs,
 * captures, DOT files. */
#include "cudart_graphs.h"

#include "../support/temporary.h"

#include "../support/temporary.h"

#include <unistd.h>

/* ---- edges ---- */

static void edges_are_added_listed_and_removed(void **state)
{
    cudaGraphNode_t nodes[4], from[5], to[5], list[5], stranger;
    cudaGraphEdgeData data[5];
    cudaGraph_t graph, other;
    size_t count = 77;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    for (int i = 0; i < 4; i++)
        OK(cudaGraphAddEmptyNode(&nodes[i], graph, NULL, 0));
    from[0] = from[1] = nodes[0];
    to[0] = nodes[1];
    to[1] = nodes[2];
    from[2] = nodes[1];
    from[3] = nodes[2];
    to[2] = to[3] = nodes[3];
    OK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &count));
    assert_int_equal(count, 0);
    OK(cudaGraphAddDependencies(graph, from, to, NULL, 4));
    OK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &count));
    assert_int_equal(count, 4);
    count = 5;
    memset(data, 0xff, sizeof data);
    OK(cudaGraphGetEdges(graph, from, to, data, &count));
    assert_int_equal(count, 4);
    assert_true(!from[4] && !to[4]);
    HAS_BYTES(data, 4 * sizeof data[0], 0);
    for (int i = 0; i < 4; i++)
        assert_true((from[i] == nodes[0] && (to[i] == nodes[1] || to[i] == nodes[2])) ||
                    ((from[i] == nodes[1] || from[i] == nodes[2]) && to[i] == nodes[3]));
    count = 1;
    OK(cudaGraphGetEdges(graph, from, to, NULL, &count));
    assert_int_equal(count, 1);
    GIVES(cudaErrorInvalidValue, cudaGraphGetEdges(graph, from, NULL, NULL, &count));
    GIVES(cudaErrorInvalidValue, cudaGraphGetEdges(graph, NULL, NULL, data, &count));
    GIVES(cudaErrorInvalidValue, cudaGraphGetEdges(graph, NULL, NULL, NULL, NULL));

    count = 5;
    OK(cudaGraphNodeGetDependencies(nodes[3], list, data, &count));
    assert_true(count == 2 && list[0] == nodes[1] && list[1] == nodes[2] && !list[2]);
    OK(cudaGraphNodeGetDependentNodes(nodes[0], NULL, NULL, &count));
    assert_int_equal(count, 2);
    OK(cudaGraphNodeGetDependentNodes(nodes[3], list, NULL, &count));
    assert_int_equal(count, 0);
    OK(cudaGraphGetRootNodes(graph, NULL, &count));
    assert_int_equal(count, 1);

    /* A call adds or removes all of its edges or none. */
    OK(cudaGraphCreate(&other, 0));
    OK(cudaGraphAddEmptyNode(&stranger, other, NULL, 0));
    from[0] = nodes[0];
    to[0] = nodes[3];
    from[1] = nodes[0];
    to[1] = stranger;
    GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, from, to, NULL, 2));
    to[1] = nodes[3]; /* the same edge twice */
    GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, from, to, NULL, 2));
    to[1] = nodes[0]; /* an edge from a node to itself */
    GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, from, to, NULL, 2));
    to[1] = nodes[1]; /* an edge that exists already */
    GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, from, to, NULL, 2));
    GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, NULL, NULL, NULL, 1));
    GIVES(cudaErrorInvalidValue,
          cudaGraphRemoveDependencies(graph, from, to, NULL, 2)); /* the first edge does not exist */
    OK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &count));
    assert_int_equal(count, 4);
    OK(cudaGraphAddDependencies(graph, NULL, NULL, NULL, 0));
    OK(cudaGraphAddDependencies(graph, from, to, NULL, 1));
    OK(cudaGraphRemoveDependencies(graph, from, to, NULL, 2));
    OK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &count));
    assert_int_equal(count, 3);

    /* A call that adds a node checks its dependencies. */
    list[0] = list[1] = nodes[0];
    GIVES(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&stranger, graph, list, 2));
    list[1] = stranger;
    GIVES(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&stranger, graph, list, 2));
    OK(cudaGraphDestroyNode(nodes[1]));
    GIVES(cudaErrorInvalidValue, cudaGraphDestroyNode(nodes[1]));
    GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &nodes[1], &nodes[3], NULL, 1));
    OK(cudaGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 3);
    OK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &count));
    assert_int_equal(count, 2); /* destroying a node removes its edges */
    OK(cudaGraphDestroy(other));
    OK(cudaGraphDestroy(graph));
}

static void circles_are_found(void **state)
{
    cudaGraphInstantiateParams params = {.flags = 0};
    cudaGraph_t graph, outer, inner;
    cudaGraphNode_t nodes[4], child;
    cudaGraphExec_t exec;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    for (int i = 0; i < 4; i++)
        OK(cudaGraphAddEmptyNode(&nodes[i], graph, i ? &nodes[i - 1] : NULL, i ? 1 : 0));
    OK(cudaGraphAddDependencies(graph, &nodes[2], &nodes[1], NULL, 1));
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiate(&exec, graph, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiateWithParams(&exec, graph, &params));
    assert_int_equal(params.result_out, cudaGraphInstantiateInvalidStructure);
    assert_true(params.errNode_out == nodes[1] || params.errNode_out == nodes[2]);
    OK(cudaGraphCreate(&outer, 0));
    OK(cudaGraphAddChildGraphNode(&child, outer, NULL, 0, graph));
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiateWithParams(&exec, outer, &params));
    assert_int_equal(params.result_out, cudaGraphInstantiateInvalidStructure);
    OK(cudaGraphChildGraphNodeGetGraph(child, &inner));
    OK(cudaGraphRemoveDependencies(graph, &nodes[2], &nodes[1], NULL, 1));
    OK(cudaGraphInstantiateWithParams(&exec, graph, &params));
    assert_int_equal(params.result_out, cudaGraphInstantiateSuccess);
    assert_null(params.errNode_out);
    OK(cudaGraphExecDestroy(exec));
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiateWithParams(&exec, graph, NULL));
    params.flags = 1 << 20;
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiateWithParams(&exec, graph, &params));
    assert_int_equal(params.result_out, cudaGraphInstantiateError);
    OK(cudaGraphDestroy(outer));
    OK(cudaGraphDestroy(graph));
}

/* ---- clones ---- */

static void clones_are_graphs_of_their_own(void **state)
{
    cudaGraphNode_t first, second, in_clone, in_second, in_child, child_node;
    struct cudaMemsetParams one = fill(device, 1, BYTES), two = fill(device, 2, BYTES), got;
    cudaGraph_t graph, clone, of_clone, child, inner;
    struct addition add;
    size_t count;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemsetNode(&first, graph, NULL, 0, &one));
    OK(cudaGraphAddKernelNode(&second, graph, &first, 1, addition(&add, device, 10)));
    OK(cudaGraphClone(&clone, graph));
    OK(cudaGraphNodeFindInClone(&in_clone, first, clone));
    OK(cudaGraphNodeFindInClone(&in_second, second, clone));
    assert_true(in_clone != first && in_second != second);
    OK(cudaGraphNodeGetDependencies(in_second, &in_child, NULL, &(size_t){1}));
    assert_ptr_equal(in_child, in_clone);

    /* Changes of one graph do not appear in its clone. */
    OK(cudaGraphMemsetNodeSetParams(in_clone, &two));
    OK(cudaGraphMemsetNodeGetParams(first, &got));
    assert_int_equal(got.value, 1);
    OK(cudaGraphDestroyNode(in_second));
    OK(cudaGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 2);
    GIVES(cudaErrorInvalidValue, cudaGraphNodeFindInClone(&in_second, second, clone));
    run_and_end(graph);
    device_has(device, 11);
    run_and_end(clone);
    device_has(device, 2);
    OK(cudaGraphClone(&of_clone, clone));
    OK(cudaGraphNodeFindInClone(&in_child, in_clone, of_clone));
    GIVES(cudaErrorInvalidValue, cudaGraphNodeFindInClone(&in_child, first, of_clone));
    GIVES(cudaErrorInvalidValue, cudaGraphNodeFindInClone(&in_child, first, graph));
    GIVES(cudaErrorInvalidValue, cudaGraphNodeFindInClone(NULL, first, clone));
    GIVES(cudaErrorInvalidValue, cudaGraphClone(NULL, graph));
    OK(cudaGraphDestroy(graph));
    GIVES(cudaErrorInvalidValue, cudaGraphNodeFindInClone(&in_child, first, clone));
    GIVES(cudaErrorInvalidValue, cudaGraphClone(&child, graph));
    run_and_end(of_clone);
    device_has(device, 2);

    /* Cloning a graph clones its child graphs. */
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddChildGraphNode(&child_node, graph, NULL, 0, clone));
    OK(cudaGraphChildGraphNodeGetGraph(child_node, &child));
    OK(cudaGraphGetNodes(child, &first, &(size_t){1}));
    OK(cudaGraphDestroy(clone));
    OK(cudaGraphClone(&clone, graph));
    OK(cudaGraphNodeFindInClone(&in_clone, child_node, clone));
    OK(cudaGraphChildGraphNodeGetGraph(in_clone, &inner));
    assert_ptr_not_equal(inner, child);
    OK(cudaGraphNodeFindInClone(&in_child, first, inner));
    one.value = 77;
    OK(cudaGraphMemsetNodeSetParams(in_child, &one));
    OK(cudaGraphDestroy(graph));
    run_and_end(clone);
    device_has(device, 77);
    OK(cudaGraphDestroy(clone));
    OK(cudaGraphDestroy(of_clone));
}

/* ---- executables ---- */

static void nodes_can_be_switched_off(void **state)
{
    struct cudaMemsetParams one = fill(device, 1, BYTES);
    cudaGraphNode_t first, second, third, host;
    struct cudaHostNodeParams call = {count_up, &(int){0}};
    struct addition add;
    unsigned on = 9;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemsetNode(&first, graph, NULL, 0, &one));
    OK(cudaGraphAddKernelNode(&second, graph, &first, 1, addition(&add, device, 10)));
    OK(cudaGraphAddKernelNode(&third, graph, &second, 1, addition(&add, device, 20)));
    OK(cudaGraphAddHostNode(&host, graph, &second, 1, &call));
    exec = instantiated(graph);
    OK(cudaGraphNodeGetEnabled(exec, second, &on));
    assert_int_equal(on, 1);
    OK(cudaGraphNodeSetEnabled(exec, second, 0));
    OK(cudaGraphNodeGetEnabled(exec, second, &on));
    assert_int_equal(on, 0);
    run(exec);
    device_has(device, 21);
    OK(cudaGraphExecKernelNodeSetParams(exec, second, addition(&add, device, 30))); /* the node stays disabled */
    run(exec);
    device_has(device, 21);
    OK(cudaGraphNodeSetEnabled(exec, second, 1));
    run(exec);
    device_has(device, 51);
    GIVES(cudaErrorInvalidValue, cudaGraphNodeSetEnabled(exec, host, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphNodeGetEnabled(exec, host, &on));
    GIVES(cudaErrorInvalidValue, cudaGraphNodeGetEnabled(exec, first, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphNodeSetEnabled(NULL, first, 1));
    OK(cudaGraphExecDestroy(exec));
    GIVES(cudaErrorInvalidValue, cudaGraphNodeSetEnabled(exec, first, 1));
    OK(cudaGraphDestroy(graph));
}

/* Builds a graph: a fill, two additions after it, and count - 3 more additions after these two. */
static cudaGraph_t make_diamond(cudaGraphNode_t *nodes, int value, uint8_t what, unsigned char *data)
{
    struct cudaMemsetParams set = fill(device, (unsigned)value, BYTES);
    struct addition add;
    cudaGraph_t graph;

    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemsetNode(&nodes[0], graph, NULL, 0, &set));
    OK(cudaGraphAddKernelNode(&nodes[1], graph, &nodes[0], 1, addition(&add, data, what)));
    OK(cudaGraphAddKernelNode(&nodes[2], graph, &nodes[0], 1, addition(&add, more, what)));
    OK(cudaGraphAddEmptyNode(&nodes[3], graph, &nodes[1], 2));
    return graph;
}

static void executables_are_updated(void **state)
{
    cudaGraphExecUpdateResultInfo info;
    cudaGraphNode_t nodes[4], others[5];
    struct cudaHostNodeParams call = {count_up, &(int){0}};
    cudaGraph_t graph = make_diamond(nodes, 1, 10, device), other;
    struct cudaMemsetParams set;
    cudaGraphExec_t exec;
    struct addition add;

    (void)state;
    exec = instantiated(graph);
    run(exec);
    device_has(device, 11);
    other = make_diamond(others, 2, 20, device);
    OK(cudaGraphExecUpdate(exec, other, &info));
    assert_int_equal(info.result, cudaGraphExecUpdateSuccess);
    assert_true(!info.errorNode && !info.errorFromNode);
    run(exec);
    device_has(device, 22);
    OK(cudaGraphNodeSetEnabled(exec, nodes[1], 0)); /* the call still accepts handles of the first graph's nodes */
    run(exec);
    device_has(device, 2);
    OK(cudaGraphNodeSetEnabled(exec, nodes[1], 1));

    /* The updating graph has a node of another type. */
    OK(cudaGraphDestroyNode(others[3]));
    OK(cudaGraphAddHostNode(&others[3], other, &others[1], 2, &call));
    GIVES(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, other, &info));
    assert_int_equal(info.result, cudaGraphExecUpdateErrorNodeTypeChanged);
    assert_ptr_equal(info.errorNode, others[3]);
    OK(cudaGraphDestroy(other));
    /* The updating graph has another number of nodes or edges. */
    other = make_diamond(others, 3, 30, device);
    OK(cudaGraphAddEmptyNode(&others[4], other, &others[3], 1));
    GIVES(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, other, &info));
    assert_int_equal(info.result, cudaGraphExecUpdateErrorTopologyChanged);
    OK(cudaGraphDestroyNode(others[4]));
    OK(cudaGraphRemoveDependencies(other, &others[0], &others[2], NULL, 1));
    GIVES(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, other, &info));
    assert_int_equal(info.result, cudaGraphExecUpdateErrorTopologyChanged);
    assert_ptr_equal(info.errorNode, others[2]);
    OK(cudaGraphAddDependencies(other, &others[1], &others[2], NULL, 1));
    GIVES(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, other, &info));
    assert_int_equal(info.result, cudaGraphExecUpdateErrorTopologyChanged);
    OK(cudaGraphDestroy(other));
    /* The updating graph has parameters that the node does not accept. */
    other = make_diamond(others, 3, 30, device);
    set = fill(pinned, 3, BYTES);
    OK(cudaGraphMemsetNodeSetParams(others[0], &set));
    GIVES(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, other, &info));
    assert_int_equal(info.result, cudaGraphExecUpdateErrorParametersChanged);
    assert_ptr_equal(info.errorNode, others[0]);
    run(exec); /* a failed update changes nothing */
    device_has(device, 22);
    set = fill(device, 3, BYTES);
    OK(cudaGraphMemsetNodeSetParams(others[0], &set));
    addition(&add, device, 0);
    add.params.func = (void *)(uintptr_t)&leat_cpu_kernel_double_all; /* an update may change a node's function */
    OK(cudaGraphKernelNodeSetParams(others[1], &add.params));
    OK(cudaGraphExecUpdate(exec, other, &info));
    run(exec);
    device_has(device, 6);
    OK(cudaGraphDestroy(other));
    OK(cudaGraphDestroy(graph));

    GIVES(cudaErrorInvalidValue, cudaGraphExecUpdate(exec, other, &info));
    GIVES(cudaErrorInvalidValue, cudaGraphExecUpdate(exec, other, NULL));
    run(exec);
    device_has(device, 6);
    OK(cudaGraphExecDestroy(exec));
    GIVES(cudaErrorInvalidValue, cudaGraphExecUpdate(exec, other, &info));
}

/* Frameworks capture the same work again with other addresses, and update the executable graph with the new
 * capture. */
static void captures_update_executables(void **state)
{
    cudaGraphExecUpdateResultInfo info;
    cudaGraphExec_t exec = NULL;
    struct addition add;
    cudaGraph_t graph;

    (void)state;
    for (uint8_t i = 1; i <= 3; i++) {
        unsigned char *to = i % 2 ? device : more;

        addition(&add, to, i);
        OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        OK(cudaMemsetAsync(to, 5, BYTES, stream));
        OK(cudaLaunchKernel(add.params.func, add.params.gridDim, add.params.blockDim, add.args, 0, stream));
        OK(cudaMemcpyAsync(pinned, to, BYTES, cudaMemcpyDeviceToHost, stream));
        OK(cudaStreamEndCapture(stream, &graph));
        if (exec)
            OK(cudaGraphExecUpdate(exec, graph, &info));
        else
            exec = instantiated(graph);
        OK(cudaGraphDestroy(graph));
        run(exec);
        HAS_BYTES(pinned, BYTES, 5 + i);
    }
    OK(cudaGraphExecDestroy(exec));
}

static void flags_are_told(void **state)
{
    unsigned long long flags = 99;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphCreate(&graph, 1));
    OK(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    OK(cudaGraphExecGetFlags(exec, &flags));
    assert_int_equal(flags, cudaGraphInstantiateFlagAutoFreeOnLaunch);
    GIVES(cudaErrorInvalidValue, cudaGraphExecGetFlags(exec, NULL));
    run(exec); /* the graph is empty */
    OK(cudaGraphExecDestroy(exec));
    GIVES(cudaErrorInvalidValue, cudaGraphExecGetFlags(exec, &flags));
    GIVES(cudaErrorInvalidValue, cudaGraphUpload(exec, stream));
    OK(cudaGraphDestroy(graph));
}

/* ---- capturing ---- */

static void a_capture_adds_to_a_graph(void **state)
{
    struct cudaMemsetParams one = fill(device, 1, BYTES);
    cudaGraphNode_t first, list[4];
    struct addition add;
    cudaGraph_t graph, ended, none;
    size_t count = 4;

    (void)state;
    addition(&add, device, 10);
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemsetNode(&first, graph, NULL, 0, &one));
    GIVES(cudaErrorInvalidValue,
          cudaStreamBeginCaptureToGraph(stream, NULL, NULL, NULL, 0, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorInvalidValue,
          cudaStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 1, cudaStreamCaptureModeGlobal));
    OK(cudaStreamBeginCaptureToGraph(stream, graph, &first, NULL, 1, cudaStreamCaptureModeGlobal));
    OK(cudaLaunchKernel(add.params.func, add.params.gridDim, add.params.blockDim, add.args, 0, stream));
    GIVES(cudaErrorInvalidValue, cudaGraphDestroy(graph)); /* the graph is the target of an active capture */
    OK(cudaStreamEndCapture(stream, &ended));
    assert_ptr_equal(ended, graph);
    OK(cudaGraphGetNodes(graph, list, &count));
    assert_int_equal(count, 2);
    OK(cudaGraphNodeGetDependencies(list[1], list, NULL, &(size_t){1}));
    assert_ptr_equal(list[0], first);
    run_and_end(graph);
    device_has(device, 11);

    /* A capture that fails leaves the graph usable. */
    OK(cudaStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(more, 1, BYTES, stream));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(stream));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &none));
    assert_null(none);
    OK(cudaGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 3);
    run_and_end(graph);
    OK(cudaGraphDestroy(graph));
}

/* While a stream is being captured into a child graph, the graphs and nodes around it cannot be destroyed. */
static void a_capture_adds_to_a_child_graph(void **state)
{
    cudaGraph_t empty, inner, outer, child, grandchild, ended;
    cudaGraphNode_t in_inner, in_outer;

    (void)state;
    OK(cudaGraphCreate(&empty, 0));
    OK(cudaGraphCreate(&inner, 0));
    OK(cudaGraphCreate(&outer, 0));
    OK(cudaGraphAddChildGraphNode(&in_inner, inner, NULL, 0, empty));
    OK(cudaGraphAddChildGraphNode(&in_outer, outer, NULL, 0, inner));
    OK(cudaGraphChildGraphNodeGetGraph(in_outer, &child));
    OK(cudaGraphNodeFindInClone(&in_inner, in_inner, child));
    OK(cudaGraphChildGraphNodeGetGraph(in_inner, &grandchild));
    OK(cudaStreamBeginCaptureToGraph(stream, grandchild, NULL, NULL, 0, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorNotSupported, cudaGraphDestroyNode(in_inner));
    GIVES(cudaErrorNotSupported, cudaGraphDestroyNode(in_outer));
    GIVES(cudaErrorInvalidValue, cudaGraphDestroy(outer));
    OK(cudaMemsetAsync(device, 3, BYTES, stream));
    OK(cudaStreamEndCapture(stream, &ended));
    assert_ptr_equal(ended, grandchild);
    run_and_end(outer);
    device_has(device, 3);
    OK(cudaGraphDestroyNode(in_inner));
    OK(cudaGraphDestroy(outer));
    OK(cudaGraphDestroy(inner));
    OK(cudaGraphDestroy(empty));
}

static void dependencies_of_a_capture_are_updated(void **state)
{
    cudaGraphNode_t first, second, list[3];
    enum cudaStreamCaptureStatus status;
    const cudaGraphNode_t *ends;
    cudaGraph_t graph;
    size_t count;

    (void)state;
    GIVES(cudaErrorIllegalState, cudaStreamUpdateCaptureDependencies(stream, NULL, NULL, 0, 0));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(device, 1, 1, stream));
    OK(cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &ends, NULL, &count));
    assert_int_equal(count, 1);
    first = ends[0];
    OK(cudaGraphAddEmptyNode(&second, graph, NULL, 0)); /* a call adds this node while the graph is the target of a
                                                         * capture */
    OK(cudaStreamUpdateCaptureDependencies(stream, &second, NULL, 1, cudaStreamAddCaptureDependencies));
    OK(cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &ends, NULL, &count));
    assert_int_equal(count, 2);
    OK(cudaMemsetAsync(device, 2, 1, stream));
    OK(cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &ends, NULL, &count));
    assert_int_equal(count, 1);
    count = 3;
    OK(cudaGraphNodeGetDependencies(ends[0], list, NULL, &count));
    assert_true(count == 2 && list[0] == first && list[1] == second);
    OK(cudaStreamUpdateCaptureDependencies(stream, &first, NULL, 1, cudaStreamSetCaptureDependencies));
    OK(cudaMemsetAsync(more, 2, 1, stream));
    OK(cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &ends, NULL, &count));
    OK(cudaGraphNodeGetDependencies(ends[0], list, NULL, &(size_t){3}));
    assert_ptr_equal(list[0], first);
    GIVES(cudaErrorInvalidValue, cudaStreamUpdateCaptureDependencies(stream, NULL, NULL, 1, 0));
    GIVES(cudaErrorInvalidValue, cudaStreamUpdateCaptureDependencies(stream, &first, NULL, 1, 2));
    OK(cudaStreamEndCapture(stream, &graph));
    run_and_end(graph);
    OK(cudaGraphDestroy(graph));
}

/* ---- DOT files ---- */

static bool file_has(const char *path, const char *what)
{
    char text[20000];
    FILE *file = fopen(path, "r");
    size_t bytes;

    assert_non_null(file);
    bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = 0;
    return strstr(text, what) != NULL;
}

static void graphs_are_drawn(void **state)
{
    char path[TEMPORARY_PATH], command[TEMPORARY_PATH + 50];
    cudaGraphNode_t nodes[4], node;
    cudaGraph_t graph = make_diamond(nodes, 1, 10, device), outer;
    int file = temporary_file(path);

    (void)state;
    assert_true(file >= 0);
    close(file);
    OK(cudaGraphCreate(&outer, 0));
    OK(cudaGraphAddChildGraphNode(&node, outer, NULL, 0, graph));
    OK(cudaGraphAddMemcpyNode1D(&node, outer, &node, 1, pinned, device, 99, cudaMemcpyDeviceToHost));
    OK(cudaGraphDebugDotPrint(outer, path, 0));
    assert_true(file_has(path, "digraph"));
    assert_true(file_has(path, "->"));
    assert_false(file_has(path, ", 99 x 1 x 1 bytes"));
    OK(cudaGraphDebugDotPrint(outer, path, cudaGraphDebugDotFlagsVerbose));
    assert_true(file_has(path, ", 99 x 1 x 1 bytes"));
    if (!system("dot -V 2>/dev/null")) {
        (void)snprintf(command, sizeof command, "dot -Tsvg '%s' >/dev/null", path);
        assert_int_equal(system(command), 0);
    }
    GIVES(cudaErrorOperatingSystem, cudaGraphDebugDotPrint(outer, "/no/such/folder/file", 0));
    GIVES(cudaErrorInvalidValue, cudaGraphDebugDotPrint(outer, NULL, 0));
    unlink(path);
    OK(cudaGraphDestroy(outer));
    GIVES(cudaErrorInvalidValue, cudaGraphDebugDotPrint(outer, path, 0));
    OK(cudaGraphDestroy(graph));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(edges_are_added_listed_and_removed),
    cmocka_unit_test(circles_are_found),
    cmocka_unit_test(clones_are_graphs_of_their_own),
    cmocka_unit_test(nodes_can_be_switched_off),
    cmocka_unit_test(executables_are_updated),
    cmocka_unit_test(captures_update_executables),
    cmocka_unit_test(flags_are_told),
    cmocka_unit_test(a_capture_adds_to_a_graph),
    cmocka_unit_test(a_capture_adds_to_a_child_graph),
    cmocka_unit_test(dependencies_of_a_capture_are_updated),
    cmocka_unit_test(graphs_are_drawn),
};

int main(void)
{
    int wrong = cmocka_run_group_tests(tests, set_up, NULL);

    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}
