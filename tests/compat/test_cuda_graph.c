/* test_cuda_graph.c - graphs by the CUDA driver's names: nodes by hand, with contexts and functions of modules. */
#include <cuda.h>

#include "compat.h"

#include <unistd.h>

#define BYTES ((size_t)4096)

static CUcontext context;
static CUstream stream;
static CUmodule module;
static CUfunction add;
static CUdeviceptr device, more;
static unsigned char *pinned;

static void count_up(void *argument)
{
    ++*(int *)argument;
}

/* A launch of leat_add_u32, which adds to each of count words. */
struct addition {
    CUdeviceptr data;
    uint64_t count;
    unsigned what;
    void *args[3];
    CUDA_KERNEL_NODE_PARAMS params;
};

static CUDA_KERNEL_NODE_PARAMS *addition(struct addition *made, CUdeviceptr data, unsigned what)
{
    *made = (struct addition){.data = data, .count = BYTES / 4, .what = what};
    made->args[0] = &made->data;
    made->args[1] = &made->count;
    made->args[2] = &made->what;
    made->params = (CUDA_KERNEL_NODE_PARAMS){.func = add,
                                             .gridDimX = 2,
                                             .gridDimY = 1,
                                             .gridDimZ = 1,
                                             .blockDimX = 64,
                                             .blockDimY = 1,
                                             .blockDimZ = 1,
                                             .kernelParams = made->args};
    return &made->params;
}

static CUDA_MEMSET_NODE_PARAMS fill(CUdeviceptr dst, unsigned value)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = dst, .value = value, .elementSize = 4, .width = BYTES / 4, .height = 1};
}

static CUgraphExec instantiated(CUgraph graph)
{
    CUgraphExec exec;

    OK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void run(CUgraphExec exec)
{
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
}

static void run_and_end(CUgraph graph)
{
    CUgraphExec exec = instantiated(graph);

    run(exec);
    OK(cuGraphExecDestroy(exec));
}

static void device_has(CUdeviceptr memory, unsigned value)
{
    unsigned words[BYTES / 4];

    OK(cuMemcpyDtoH(words, memory, BYTES));
    for (size_t i = 0; i < BYTES / 4; i++)
        assert_int_equal(words[i], value);
}

/* ---- before anything else ---- */

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
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemAlloc(&device, BYTES));
    OK(cuMemAlloc(&more, BYTES));
    OK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
    OK(cuModuleLoadData(&module,
                        ".version 8.0\n.target sm_90\n.visible .entry leat_add_u32(.param .u64 a)\n{ ret; }\n"));
    OK(cuModuleGetFunction(&add, module, "leat_add_u32"));
}

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
    OK(cuGraphAddKernelNode(&second, graph, &node, 1, &first)); /* in the form of older headers */
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

/* Kernels tell how long their arguments are, so launches can be captured. */
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
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemcpyNodeSetParams(exec, copied, &copy, context)); /* rows */
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

    /* A context says where the node runs; one that is gone is refused. */
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

/* What was captured is told in the vendor's struct as well. */
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

/* Operations on words are done at each launch; captured ones too. */
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
        __atomic_store_n(word, 5, __ATOMIC_RELEASE); /* the graph looks at it meanwhile */
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
    for (int i = 0; i < 2; i++) { /* more than once, and after the captured list is gone */
        memset(ops, 0xff, sizeof ops);
        __atomic_store_n(word, 5, __ATOMIC_RELEASE);
        *(volatile uint32_t *)(void *)(pinned + 128) = 0;
        run(exec);
        assert_int_equal(*word, 77);
        assert_int_equal(pinned[128], 9);
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph)); /* and never launched again */
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
    assert_non_null(strstr(log, "circle"));
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

static void graphs_are_drawn(void **state)
{
    char path[] = "/tmp/leat-cu-dot-XXXXXX", text[4000];
    CUDA_MEMSET_NODE_PARAMS set = fill(device, 1);
    int file = mkstemp(path);
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

/* Which function a name is depends on the version that is asked for. */
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
                 {"cuGraphInstantiate", 12000, cuGraphInstantiateWithFlags},
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

/* Functions of a module that is gone are refused, by the graphs that have them too. */
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
    (void)cuGraphLaunch(exec, stream); /* leat's built-in kernels, for which the list of names stood, stay */
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static void the_end(void **state)
{
    (void)state;
    OK(cuMemFree(device));
    OK(cuMemFree(more));
    OK(cuMemFreeHost(pinned));
    OK(cuStreamDestroy(stream));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxReset(1));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_before_the_start),
        cmocka_unit_test(functions_of_modules_are_nodes),
        cmocka_unit_test(launches_of_modules_are_captured),
        cmocka_unit_test(copies_and_fills_are_nodes),
        cmocka_unit_test(captured_copies_are_told),
        cmocka_unit_test(host_functions_graphs_and_events_are_nodes),
        cmocka_unit_test(mem_ops_are_nodes),
        cmocka_unit_test(nodes_allocate_and_free),
        cmocka_unit_test(one_call_adds_them_all),
        cmocka_unit_test(edges_in_both_forms),
        cmocka_unit_test(executables_in_all_forms),
        cmocka_unit_test(objects_are_counted),
        cmocka_unit_test(captures_into_graphs),
        cmocka_unit_test(graphs_are_drawn),
        cmocka_unit_test(names_are_found_by_version),
        cmocka_unit_test(what_there_is_not_is_refused),
        cmocka_unit_test(a_module_that_goes_leaves_its_nodes_without_a_kernel),
        cmocka_unit_test(the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
