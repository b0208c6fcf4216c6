/*
 * test_cuda_nodes.c - tests nodes that a program adds to a graph with the CUDA driver's calls, with contexts and
 * with functions of modules: kernels, copies, fills, host functions, child graphs, events, memory operations,
 * memory.
 */
#include "cuda_graphs.h"

/* ---- nodes ---- */

static void functions_of_modules_are_nodes(void **state)
{
    CUDA_KERNEL_NODE_PARAMS_v1 first = {0};
    CUDA_KERNEL_NODE_PARAMS given;
    CUgraphNode node, second;
    struct addition one, two;
    CUkernelNodeAttrValue value = {0};
    CUgraphExec exec;
    CUgraph graph;

    (void)state;
    OK(cuMemsetD32(device, 1, BYTES / 4));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode(&node, graph, NULL, 0, addition(&one, device, 10)));
    one.what = 99;
    OK(cuGraphKernelNodeGetParams(node, &given));
    assert_ptr_equal(given.func, add);
    assert_int_equal(given.blockDimX, 64);
    assert_int_equal(*(unsigned *)given.kernelParams[2], 10);
    assert_null(given.extra);
    addition(&two, device, 100);
    memcpy(&first, &two.params, sizeof first);
#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeGetParams
#undef cuGraphKernelNodeSetParams
#undef cuGraphExecKernelNodeSetParams
    OK(cuGraphAddKernelNode(&second, graph, &node, 1, &first)); /* with the struct of older headers */
    OK(cuGraphKernelNodeGetParams(second, &first));
    assert_ptr_equal(first.func, add);
    exec = instantiated(graph);
    run(exec);
    device_has(device, 111);
    memcpy(&first, addition(&two, device, 200), sizeof first);
    OK(cuGraphExecKernelNodeSetParams(exec, second, &first));
    run(exec);
    device_has(device, 321);
    OK(cuGraphKernelNodeSetParams(second, &first));
    OK(cuGraphExecKernelNodeSetParams_v2(exec, node, addition(&one, device, 1)));
    run(exec);
    device_has(device, 522);
    OK(cuGraphKernelNodeSetParams_v2(node, addition(&one, device, 2)));
    run_and_end(graph);
    device_has(device, 724);

    value.priority = 4;
    OK(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    OK(cuGraphKernelNodeCopyAttributes(second, node));
    value.priority = 0;
    OK(cuGraphKernelNodeGetAttribute(second, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    assert_int_equal(value.priority, 4);
    memset(&value, 0, sizeof value);
    value.accessPolicyWindow.hitRatio = -1;
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));

    addition(&one, device, 1);
    one.params.func = NULL;
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &one.params));
    addition(&one, device, 1);
    one.params.gridDimZ = 0;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &one.params));
    addition(&one, device, 1);
    one.params.kernelParams = NULL;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &one.params));
    one.params.extra = one.args;
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &one.params));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphAddKernelNode_v2(&node, graph, NULL, 0, NULL));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* The library knows the sizes of these kernels' parameters, so their launches can be captured. */
static void launches_of_modules_are_captured(void **state)
{
    struct addition one;
    size_t count = 1;
    CUgraphNode node;
    CUgraphNodeType type;
    CUgraph graph;

    (void)state;
    addition(&one, device, 5);
    OK(cuMemsetD32(device, 1, BYTES / 4));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuLaunchKernel(add, 2, 1, 1, 64, 1, 1, 0, stream, one.args, NULL));
    OK(cuStreamEndCapture(stream, &graph));
    one.what = 1000;
    OK(cuGraphGetNodes(graph, &node, &count));
    OK(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_KERNEL);
    run_and_end(graph);
    device_has(device, 6);
    OK(cuGraphDestroy(graph));
}

static void copies_and_fills_are_nodes(void **state)
{
    CUDA_MEMSET_NODE_PARAMS set = fill(device, 7), got_set;
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = device,
                          .srcPitch = 64,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = pinned,
                          .dstPitch = 128,
                          .WidthInBytes = 64,
                          .Height = 8,
                          .Depth = 1},
                  got;
    CUcontext other, before;
    CUgraphNode filled, copied;
    CUgraphExec exec;
    CUgraph graph;

    (void)state;
    memset(pinned, 0, BYTES);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&filled, graph, NULL, 0, &set, context));
    OK(cuGraphMemsetNodeGetParams(filled, &got_set));
    assert_memory_equal(&got_set, &set, sizeof set);
    OK(cuGraphAddMemcpyNode(&copied, graph, &filled, 1, &copy, context));
    OK(cuGraphMemcpyNodeGetParams(copied, &got));
    assert_memory_equal(&got, &copy, sizeof copy);
    exec = instantiated(graph);
    run(exec);
    for (int row = 0; row < 8; row++)
        for (int i = 0; i < 128; i++)
            assert_int_equal(pinned[row * 128 + i], i < 64 && i % 4 == 0 ? 7 : 0);
    set = fill(device, 9);
    OK(cuGraphExecMemsetNodeSetParams(exec, filled, &set, context));
    /* A copy of several rows cannot be changed in an executable graph. */
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemcpyNodeSetParams(exec, copied, &copy, context));
    run(exec);
    assert_int_equal(pinned[0], 9);
    OK(cuGraphExecDestroy(exec));
    copy.Height = 1;
    OK(cuGraphMemcpyNodeSetParams(copied, &copy));
    exec = instantiated(graph);
    copy.dstHost = pinned + 2000;
    OK(cuGraphExecMemcpyNodeSetParams(exec, copied, &copy, context));
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = more;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemcpyNodeSetParams(exec, copied, &copy, context));
    run(exec);
    assert_int_equal(pinned[2000], 7);
    OK(cuGraphMemsetNodeSetParams(filled, &set));
    run_and_end(graph);
    assert_int_equal(pinned[0], 9);

    /* A node runs in the context that it names; a destroyed context is refused. */
    OK(cuCtxGetCurrent(&before));
    OK(cuCtxCreate(&other, 0, 1));
    OK(cuCtxDestroy(other));
    OK(cuCtxSetCurrent(before));
    assert_true(cuGraphAddMemsetNode(&filled, graph, NULL, 0, &set, other) != CUDA_SUCCESS);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemsetNode(&filled, graph, NULL, 0, NULL, context));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemcpyNode(&copied, graph, NULL, 0, NULL, context));
    set.elementSize = 3;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemsetNode(&filled, graph, NULL, 0, &set, context));
    copy.srcMemoryType = (CUmemorytype)77;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemcpyNode(&copied, graph, NULL, 0, &copy, context));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* A program can read the parameters of captured copies in the vendor's struct. */
static void captured_copies_are_told(void **state)
{
    CUDA_MEMCPY3D got;
    size_t count = 1;
    CUgraphNode node;
    CUgraph graph;

    (void)state;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemcpyDtoHAsync(pinned + 8, device + 4, 100, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, &node, &count));
    OK(cuGraphMemcpyNodeGetParams(node, &got));
    assert_int_equal(got.srcMemoryType, CU_MEMORYTYPE_DEVICE);
    assert_int_equal(got.srcDevice, device + 4);
    assert_int_equal(got.dstMemoryType, CU_MEMORYTYPE_HOST);
    assert_ptr_equal(got.dstHost, pinned + 8);
    assert_int_equal(got.WidthInBytes, 100);
    assert_int_equal(got.Height * got.Depth, 1);
    got.dstHost = pinned;
    OK(cuGraphMemcpyNodeSetParams(node, &got));
    OK(cuMemsetD8(device, 0x31, BYTES));
    memset(pinned, 0, BYTES);
    run_and_end(graph);
    HAS_BYTES(pinned, 100, 0x31);
    HAS_BYTES(pinned + 100, 100, 0);
    OK(cuGraphDestroy(graph));
}

static void host_functions_graphs_and_events_are_nodes(void **state)
{
    int calls = 0, others = 0;
    CUDA_HOST_NODE_PARAMS host = {count_up, &calls}, other = {count_up, &others}, got;
    CUgraphNode call, child, empty, record, wait;
    CUgraph graph, inner, seen;
    CUevent event, got_event;
    CUgraphExec exec;

    (void)state;
    OK(cuEventCreate(&event, 0));
    OK(cuGraphCreate(&inner, 0));
    OK(cuGraphAddHostNode(&call, inner, NULL, 0, &host));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddChildGraphNode(&child, graph, NULL, 0, inner));
    OK(cuGraphAddEmptyNode(&empty, graph, &child, 1));
    OK(cuGraphAddEventRecordNode(&record, graph, &empty, 1, event));
    OK(cuGraphAddEventWaitNode(&wait, graph, &record, 1, event));
    OK(cuGraphAddHostNode(&call, graph, &wait, 1, &host));
    OK(cuGraphHostNodeGetParams(call, &got));
    assert_true(got.fn == count_up && got.userData == &calls);
    OK(cuGraphEventRecordNodeGetEvent(record, &got_event));
    assert_ptr_equal(got_event, event);
    OK(cuGraphEventWaitNodeGetEvent(wait, &got_event));
    assert_ptr_equal(got_event, event);
    OK(cuGraphChildGraphNodeGetGraph(child, &seen));
    assert_ptr_not_equal(seen, inner);
    exec = instantiated(graph);
    run(exec);
    assert_int_equal(calls, 2);
    OK(cuEventQuery(event));
    OK(cuGraphExecHostNodeSetParams(exec, call, &other));
    OK(cuGraphExecEventRecordNodeSetEvent(exec, record, event));
    OK(cuGraphExecEventWaitNodeSetEvent(exec, wait, event));
    run(exec);
    assert_true(calls == 3 && others == 1);
    OK(cuGraphHostNodeSetParams(call, &other));
    OK(cuGraphEventRecordNodeSetEvent(record, event));
    OK(cuGraphEventWaitNodeSetEvent(wait, event));
    OK(cuGraphExecChildGraphNodeSetParams(exec, child, inner));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphExecChildGraphNodeSetParams(exec, empty, inner));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphChildGraphNodeGetGraph(empty, &seen));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphHostNodeGetParams(empty, &got));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphEventRecordNodeGetEvent(wait, &got_event));
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(inner));
    OK(cuGraphExecDestroy(exec));
    OK(cuEventDestroy(event));
}

/* Each launch of the graph executes the memory operations on 32-bit flags, including captured operations. */
static void mem_ops_are_nodes(void **state)
{
    CUstreamBatchMemOpParams ops[3] = {{.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32},
                                       {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64},
                                       {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {.ctx = NULL, .count = 3, .paramArray = ops}, got;
    volatile uint32_t *word = (uint32_t *)(void *)pinned;
    volatile uint64_t *wide = (uint64_t *)(void *)(pinned + 64);
    CUgraphNodeType type;
    size_t count = 1;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph;

    (void)state;
    params.ctx = context;
    memset(pinned, 0, BYTES);
    ops[0].waitValue.address = (CUdeviceptr)(uintptr_t)pinned;
    ops[0].waitValue.value = 5;
    ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    ops[1].writeValue.address = (CUdeviceptr)(uintptr_t)(pinned + 64);
    ops[1].writeValue.value64 = 1ull << 40;
    ops[2].writeValue.address = (CUdeviceptr)(uintptr_t)pinned;
    ops[2].writeValue.value = 6;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    OK(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    OK(cuGraphBatchMemOpNodeGetParams(node, &got));
    assert_true(got.count == 3 && got.paramArray != ops && got.ctx == context);
    assert_memory_equal(got.paramArray, ops, sizeof ops);
    exec = instantiated(graph);
    for (int i = 0; i < 2; i++) {
        *wide = 0;
        OK(cuGraphLaunch(exec, stream));
        GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
        __atomic_store_n(word, 5, __ATOMIC_RELEASE); /* the launched graph waits for this value */
        OK(cuStreamSynchronize(stream));
        assert_true(*wide == 1ull << 40 && *word == 6);
    }
    params.count = 1;
    params.paramArray = &ops[2];
    ops[2].writeValue.value = 77;
    OK(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    run(exec);
    assert_int_equal(*word, 77);
    OK(cuGraphBatchMemOpNodeSetParams(node, &params));
    params.count = 0;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphBatchMemOpNodeSetParams(node, &params));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphBatchMemOpNodeSetParams(node, NULL));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));

    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamBatchMemOp(stream, 3, ops, 0));
    OK(cuStreamWriteValue32(stream, (CUdeviceptr)(uintptr_t)(pinned + 128), 9, 0));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 2);
    count = 1;
    OK(cuGraphGetNodes(graph, &node, &count));
    OK(cuGraphBatchMemOpNodeGetParams(node, &got));
    assert_true(got.count == 3 && got.ctx == context);
    exec = instantiated(graph);
    for (int i = 0; i < 2; i++) { /* launched twice, after the captured list was overwritten */
        memset(ops, 0xff, sizeof ops);
        __atomic_store_n(word, 5, __ATOMIC_RELEASE);
        *(volatile uint32_t *)(void *)(pinned + 128) = 0;
        run(exec);
        assert_int_equal(*word, 77);
        assert_int_equal(pinned[128], 9);
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph)); /* this graph is never launched */
}

static void nodes_allocate_and_free(void **state)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                       .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                                         .bytesize = BYTES},
                               got;
    uint64_t used = 9, reserved = 9, zero = 0;
    CUgraphNode alloc, filled, freed;
    CUgraph graph, frees, none;
    CUgraphExec exec, freeing;
    CUDA_MEMSET_NODE_PARAMS set;
    CUdeviceptr told;

    (void)state;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&frees, 0));
    OK(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
    OK(cuGraphMemAllocNodeGetParams(alloc, &got));
    assert_memory_equal(&got, &params, sizeof got);
    set = fill(params.dptr, 3);
    OK(cuGraphAddMemsetNode(&filled, graph, &alloc, 1, &set, context));
    OK(cuGraphAddMemFreeNode(&freed, frees, NULL, 0, params.dptr));
    OK(cuGraphMemFreeNodeGetParams(freed, &told));
    assert_int_equal(told, params.dptr);
    exec = instantiated(graph);
    freeing = instantiated(frees);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(params.dptr, 1, 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(freeing, stream));
    for (int i = 0; i < 3; i++) {
        run(exec);
        device_has(params.dptr, 3);
        GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));
        OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
        assert_int_equal(used, BYTES);
        if (i == 0)
            OK(cuMemFree(params.dptr));
        else if (i == 1)
            OK(cuMemFreeAsync(params.dptr, stream));
        else
            OK(cuGraphLaunch(freeing, stream));
    }
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&none, graph));
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(filled));
    OK(cuStreamSynchronize(stream));
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
    assert_true(reserved > 0);
    OK(cuDeviceGraphMemTrim(0));
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
    assert_int_equal(reserved, 0);
    OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &used));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGraphMemTrim(77));
    params.bytesize = 0;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&freed, graph, NULL, 0, device));
    OK(cuGraphExecDestroy(freeing));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(frees));
    OK(cuGraphDestroy(graph));
}

static void one_call_adds_them_all(void **state)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    struct addition one;
    CUgraphNode nodes[3];
    CUgraphExec exec;
    CUgraph graph;
    int calls = 0;

    (void)state;
    OK(cuGraphCreate(&graph, 0));
    params.memset = (CUDA_MEMSET_NODE_PARAMS_v2){
        .dst = device, .value = 4, .elementSize = 4, .width = BYTES / 4, .height = 1, .ctx = context};
    OK(cuGraphAddNode(&nodes[0], graph, NULL, 0, &params));
    addition(&one, device, 6);
    params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_KERNEL};
    params.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.func = add,
                                                 .gridDimX = 1,
                                                 .gridDimY = 1,
                                                 .gridDimZ = 1,
                                                 .blockDimX = 32,
                                                 .blockDimY = 1,
                                                 .blockDimZ = 1,
                                                 .kernelParams = one.args};
    OK(cuGraphAddNode_v2(&nodes[1], graph, nodes, NULL, 1, &params));
    params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_HOST};
    params.host.fn = count_up;
    params.host.userData = &calls;
    OK(cuGraphAddNode_v2(&nodes[2], graph, &nodes[1], NULL, 1, &params));
    exec = instantiated(graph);
    run(exec);
    device_has(device, 10);
    assert_int_equal(calls, 1);
    params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMSET};
    params.memset = (CUDA_MEMSET_NODE_PARAMS_v2){
        .dst = device, .value = 5, .elementSize = 4, .width = BYTES / 4, .height = 1, .ctx = context};
    OK(cuGraphExecNodeSetParams(exec, nodes[0], &params));
    run(exec);
    device_has(device, 11);
    OK(cuGraphNodeSetParams(nodes[0], &params));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetParams(nodes[1], &params));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&nodes[0], graph, NULL, 0, NULL));
    params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddNode(&nodes[0], graph, NULL, 0, &params));
    params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT};
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddNode(&nodes[0], graph, NULL, 0, &params));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static int begin(void **state)
{
    (void)state;
    set_up();
    return 0;
}

static int end(void **state)
{
    (void)state;
    tear_down();
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_modules_are_nodes),
        cmocka_unit_test(launches_of_modules_are_captured),
        cmocka_unit_test(copies_and_fills_are_nodes),
        cmocka_unit_test(captured_copies_are_told),
        cmocka_unit_test(host_functions_graphs_and_events_are_nodes),
        cmocka_unit_test(mem_ops_are_nodes),
        cmocka_unit_test(nodes_allocate_and_free),
        cmocka_unit_test(one_call_adds_them_all),
    };

    return cmocka_run_group_tests(tests, begin, end) ? 1 : 0;
}
