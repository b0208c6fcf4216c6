/*
 * test_hip_nodes.c - tests nodes that a program adds to a graph with HIP's calls: kernels, copies, fills, host
 * functions, child graphs, events, memory, and the driver API's calls with a context.
 *
 * The test makes every call at least once, but tests only differences from CUDA in depth. The engine implements
 * graphs for both APIs, and test_cudart_nodes.c tests the engine.
 */
#include "hip_graphs.h"

#include <elf.h>
#include <libgen.h>
#include <unistd.h>

static void kernels_are_nodes(void **state)
{
    struct {
        hipKernelNodeAttrValue value;
        char behind[32];
    } given;
    hipKernelNodeAttrValue value;
    hipKernelNodeParams params;
    struct addition add, other;
    hipGraphNode_t node, second;
    hipGraphExec_t exec;
    hipGraph_t graph;

    (void)state;
    OK(hipMemset(device, 1, BYTES));
    OK(hipGraphCreate(&graph, 0));
    OK(hipGraphAddKernelNode(&node, graph, NULL, 0, addition(&add, device, 3)));
    OK(hipGraphKernelNodeGetParams(node, &params));
    assert_ptr_equal(params.func, add.params.func);
    assert_int_equal(params.blockDim.x, 64);
    assert_int_equal(*(uint8_t *)params.kernelParams[2], 3);
    exec = instantiated(graph);
    run(exec);
    device_has(device, 4);
    OK(hipGraphExecKernelNodeSetParams(exec, node, addition(&other, device, 10)));
    run(exec);
    device_has(device, 14);
    OK(hipGraphKernelNodeSetParams(node, addition(&other, device, 100)));
    run_and_end(graph);
    device_has(device, 114);

    /* hipGraphKernelNodeCopyAttributes() takes the source first. hipGraphKernelNodeGetAttribute() must not write
     * more bytes than older versions of the union have. */
    OK(hipGraphAddKernelNode(&second, graph, NULL, 0, &add.params));
    memset(&value, 0, sizeof value);
    value.priority = 3;
    OK(hipGraphKernelNodeSetAttribute(node, hipKernelNodeAttributePriority, &value));
    OK(hipGraphKernelNodeCopyAttributes(node, second));
    memset(&given, 0x55, sizeof given);
    OK(hipGraphKernelNodeGetAttribute(second, hipKernelNodeAttributePriority, &given.value));
    assert_int_equal(given.value.priority, 3);
    HAS_BYTES((char *)&given + 32, sizeof given - 32, 0x55);
    value.accessPolicyWindow = (hipAccessPolicyWindow){.hitRatio = 0.5f, .num_bytes = 9, .hitProp = 2};
    OK(hipGraphKernelNodeSetAttribute(node, hipKernelNodeAttributeAccessPolicyWindow, &value));
    OK(hipGraphKernelNodeGetAttribute(node, hipKernelNodeAttributeAccessPolicyWindow, &given.value));
    assert_memory_equal(&given.value, &value, sizeof value.accessPolicyWindow);
    value.accessPolicyWindow.hitRatio = 1.5f;
    GIVES(hipErrorInvalidValue,
          hipGraphKernelNodeSetAttribute(node, hipKernelNodeAttributeAccessPolicyWindow, &value));
    GIVES(hipErrorInvalidValue, hipGraphKernelNodeSetAttribute(node, hipKernelNodeAttributePriority, NULL));
    GIVES(hipErrorInvalidValue, hipGraphKernelNodeGetAttribute(node, hipKernelNodeAttributePriority, NULL));

    add.params.func = NULL;
    GIVES(hipErrorInvalidValue, hipGraphAddKernelNode(&node, graph, NULL, 0, &add.params));
    addition(&add, device, 1);
    add.params.func = pinned;
    GIVES(hipErrorInvalidDeviceFunction, hipGraphAddKernelNode(&node, graph, NULL, 0, &add.params));
    addition(&add, device, 1);
    add.params.blockDim.x = 0;
    GIVES(hipErrorInvalidConfiguration, hipGraphAddKernelNode(&node, graph, NULL, 0, &add.params));
    addition(&add, device, 1);
    add.params.extra = add.args;
    GIVES(hipErrorInvalidValue, hipGraphAddKernelNode(&node, graph, NULL, 0, &add.params));
    add.params.kernelParams = NULL;
    GIVES(hipErrorNotSupported, hipGraphAddKernelNode(&node, graph, NULL, 0, &add.params));
    GIVES(hipErrorInvalidValue, hipGraphAddKernelNode(&node, graph, NULL, 0, NULL));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
}

/* Captures and adds two functions of modules as nodes: one from a shared object, and a built-in kernel of leat.
 * The module of the built-in kernel is loaded from an AMD code object that only has the kernel's name. */
static void functions_of_modules_are_nodes(void **state)
{
    struct {
        Elf64_Ehdr header;
        char name[64];
    } image = {.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                          .e_machine = EM_AMDGPU,
                          .e_phentsize = sizeof(Elf64_Phdr),
                          .e_shoff = sizeof image},
               .name = "leat_fill_u8.kd"};
    float in[4] = {1, 2, 3, 4}, factor = 3;
    uint64_t count = 4, bytes = BYTES;
    uint8_t value = 0x21;
    void *scale_args[] = {&device, &count, &factor}, *fill_args[] = {&more, &bytes, &value};
    hipKernelNodeParams params = {.gridDim = {1, 1, 1}, .blockDim = {32, 1, 1}}, got;
    char self[500] = {0}, path[600];
    hipFunction_t scale, fill_u8;
    hipModule_t module, own;
    hipGraphNode_t nodes[2], node;
    hipGraph_t graph;
    size_t listed = 2;

    (void)state;
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    (void)snprintf(path, sizeof path, "%s/../kernels_user.so", dirname(self));
    OK(hipModuleLoad(&module, path));
    OK(hipModuleGetFunction(&scale, module, "user_scale_f32"));
    OK(hipModuleLoadData(&own, &image));
    OK(hipModuleGetFunction(&fill_u8, own, "leat_fill_u8"));
    OK(hipMemcpy(device, in, sizeof in, hipMemcpyDefault));
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipModuleLaunchKernel(scale, 1, 1, 1, 32, 1, 1, 0, stream, scale_args, NULL));
    OK(hipModuleLaunchKernel(fill_u8, 1, 1, 1, 32, 1, 1, 0, stream, fill_args, NULL));
    OK(hipStreamEndCapture(stream, &graph));
    OK(hipGraphGetNodes(graph, nodes, &listed));
    assert_int_equal(listed, 2);
    for (int i = 0; i < 2; i++) { /* parameters that were read from a captured node can be added again */
        OK(hipGraphKernelNodeGetParams(nodes[i], &got));
        OK(hipGraphAddKernelNode(&node, graph, nodes, 2, &got));
    }
    params.func = scale;
    params.kernelParams = scale_args;
    factor = 10;
    OK(hipGraphAddKernelNode(&node, graph, &node, 1, &params));
    OK(hipGraphKernelNodeGetParams(node, &got));
    assert_ptr_equal(got.func, scale);
    params.func = fill_u8;
    params.kernelParams = fill_args;
    OK(hipGraphAddKernelNode(&node, graph, &node, 1, &params));
    OK(hipGraphKernelNodeGetParams(node, &got));
    assert_ptr_equal(got.func, fill_u8);
    factor = 99;
    value = 99;
    run_and_end(graph);
    OK(hipMemcpy(in, device, sizeof in, hipMemcpyDefault));
    assert_true(in[0] == 90 && in[3] == 360);
    device_has(more, 0x21);
    OK(hipGraphDestroy(graph));
    OK(hipModuleUnload(module));
    OK(hipModuleUnload(own));
}

unsigned char shown_symbol[64];

static void copies_are_nodes(void **state)
{
    hipMemcpy3DParms box = {.kind = hipMemcpyDefault}, got;
    hipGraphNode_t node, symbol_nodes[2];
    hipGraphNodeType type;
    hipGraphExec_t exec;
    hipGraph_t graph;

    (void)state;
    OK(hipMemset(device, 6, BYTES));
    memset(pinned, 0, BYTES);
    OK(hipGraphCreate(&graph, 0));
    OK(hipGraphAddMemcpyNode1D(&node, graph, NULL, 0, pinned, device, 100, hipMemcpyDeviceToHost));
    OK(hipGraphMemcpyNodeGetParams(node, &got));
    assert_true(got.dstPtr.ptr == pinned && got.srcPtr.ptr == device && got.extent.width == 100);
    exec = instantiated(graph);
    run(exec);
    HAS_BYTES(pinned, 100, 6);
    HAS_BYTES(pinned + 100, 100, 0);
    OK(hipGraphExecMemcpyNodeSetParams1D(exec, node, pinned + 100, device, 50, hipMemcpyDeviceToHost));
    GIVES(hipErrorInvalidValue, hipGraphExecMemcpyNodeSetParams1D(exec, node, more, device, 50, hipMemcpyDefault));
    run(exec);
    HAS_BYTES(pinned + 100, 50, 6);
    OK(hipGraphExecDestroy(exec));
    box.srcPtr = make_hipPitchedPtr(device, 64, 64, 8);
    box.dstPtr = make_hipPitchedPtr(pinned, 32, 32, 8);
    box.extent = make_hipExtent(16, 8, 1);
    OK(hipGraphMemcpyNodeSetParams(node, &box));
    OK(hipGraphMemcpyNodeGetParams(node, &got));
    assert_memory_equal(&got, &box, sizeof box);
    exec = instantiated(graph);
    memset(pinned, 0, BYTES);
    run(exec);
    for (int row = 0; row < 8; row++) {
        HAS_BYTES(pinned + row * 32, 16, 6);
        HAS_BYTES(pinned + row * 32 + 16, 16, 0);
    }
    GIVES(hipErrorInvalidValue, hipGraphExecMemcpyNodeSetParams(exec, node, &box));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphMemcpyNodeSetParams1D(node, pinned + 200, device, 8, hipMemcpyDeviceToHost));
    OK(hipGraphAddMemcpyNode(&node, graph, &node, 1, &box));
    OK(hipGraphDestroyNode(node));

    memset(shown_symbol, 0, sizeof shown_symbol);
    OK(hipGraphAddMemcpyNodeToSymbol(&symbol_nodes[0], graph, NULL, 0, shown_symbol, device, 10, 5,
                                     hipMemcpyDeviceToDevice));
    OK(hipGraphAddMemcpyNodeFromSymbol(&symbol_nodes[1], graph, symbol_nodes, 1, pinned, shown_symbol, 64, 0,
                                       hipMemcpyDeviceToHost));
    OK(hipGraphNodeGetType(symbol_nodes[0], &type));
    assert_int_equal(type, hipGraphNodeTypeMemcpy);
    exec = instantiated(graph);
    run(exec);
    HAS_BYTES(pinned + 5, 10, 6);
    HAS_BYTES(pinned + 15, 49, 0);
    OK(hipGraphExecMemcpyNodeSetParamsToSymbol(exec, symbol_nodes[0], shown_symbol, device, 3, 61,
                                               hipMemcpyDeviceToDevice));
    OK(hipGraphExecMemcpyNodeSetParamsFromSymbol(exec, symbol_nodes[1], pinned, shown_symbol, 32, 32,
                                                 hipMemcpyDeviceToHost));
    run(exec);
    HAS_BYTES(pinned + 29, 3, 6);
    OK(hipGraphMemcpyNodeSetParamsToSymbol(symbol_nodes[0], shown_symbol, device, 4, 0, hipMemcpyDeviceToDevice));
    OK(hipGraphMemcpyNodeSetParamsFromSymbol(symbol_nodes[1], pinned, shown_symbol, 4, 0, hipMemcpyDeviceToHost));
    GIVES(hipErrorInvalidSymbol,
          hipGraphAddMemcpyNodeToSymbol(&node, graph, NULL, 0, NULL, device, 10, 5, hipMemcpyDefault));
    GIVES(hipErrorInvalidMemcpyDirection, hipGraphAddMemcpyNodeToSymbol(&node, graph, NULL, 0, shown_symbol,
                                                                        device, 10, 5, hipMemcpyDeviceToHost));
    GIVES(hipErrorInvalidMemcpyDirection,
          hipGraphAddMemcpyNode1D(&node, graph, NULL, 0, pinned, device, 8, (hipMemcpyKind)99));
    GIVES(hipErrorInvalidValue,
          hipGraphAddMemcpyNode1D(&node, graph, NULL, 0, pinned, device, 0, hipMemcpyDefault));
    GIVES(hipErrorInvalidValue, hipGraphAddMemcpyNode(&node, graph, NULL, 0, NULL));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
}

static void fills_are_nodes(void **state)
{
    hipMemsetParams set = fill(device, 7, BYTES), got;
    hipGraphNode_t node;
    hipGraphExec_t exec;
    hipGraph_t graph;

    (void)state;
    OK(hipGraphCreate(&graph, 0));
    OK(hipGraphAddMemsetNode(&node, graph, NULL, 0, &set));
    OK(hipGraphMemsetNodeGetParams(node, &got));
    assert_true(got.dst == device && got.value == 7 && got.elementSize == 1 && got.width == BYTES &&
                got.height == 1);
    exec = instantiated(graph);
    run(exec);
    device_has(device, 7);
    set.value = 8;
    OK(hipGraphExecMemsetNodeSetParams(exec, node, &set));
    run(exec);
    device_has(device, 8);
    set.width = 0;
    GIVES(hipErrorInvalidValue, hipGraphMemsetNodeSetParams(node, &set));
    GIVES(hipErrorInvalidValue, hipGraphAddMemsetNode(&node, graph, NULL, 0, NULL));
    set = fill(device, 9, BYTES);
    OK(hipGraphMemsetNodeSetParams(node, &set));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
}

static void host_functions_graphs_and_events_are_nodes(void **state)
{
    int calls = 0, others = 0;
    hipHostNodeParams host = {count_up, &calls}, other = {count_up, &others}, got;
    hipGraphNode_t call, child, empty, record, wait;
    hipGraph_t graph, inner, seen;
    hipEvent_t event, got_event;
    hipGraphExec_t exec;

    (void)state;
    OK(hipEventCreate(&event));
    OK(hipGraphCreate(&inner, 0));
    OK(hipGraphAddHostNode(&call, inner, NULL, 0, &host));
    OK(hipGraphCreate(&graph, 0));
    OK(hipGraphAddChildGraphNode(&child, graph, NULL, 0, inner));
    OK(hipGraphAddEmptyNode(&empty, graph, &child, 1));
    OK(hipGraphAddEventRecordNode(&record, graph, &empty, 1, event));
    OK(hipGraphAddEventWaitNode(&wait, graph, &record, 1, event));
    OK(hipGraphAddHostNode(&call, graph, &wait, 1, &host));
    OK(hipGraphHostNodeGetParams(call, &got));
    assert_true(got.fn == count_up && got.userData == &calls);
    OK(hipGraphEventRecordNodeGetEvent(record, &got_event));
    assert_ptr_equal(got_event, event);
    OK(hipGraphEventWaitNodeGetEvent(wait, &got_event));
    assert_ptr_equal(got_event, event);
    OK(hipGraphChildGraphNodeGetGraph(child, &seen));
    exec = instantiated(graph);
    run(exec);
    assert_int_equal(calls, 2);
    OK(hipGraphExecHostNodeSetParams(exec, call, &other));
    OK(hipGraphExecEventRecordNodeSetEvent(exec, record, event));
    OK(hipGraphExecEventWaitNodeSetEvent(exec, wait, event));
    OK(hipGraphExecChildGraphNodeSetParams(exec, child, inner));
    run(exec);
    assert_true(calls == 3 && others == 1);
    OK(hipGraphHostNodeSetParams(call, &other));
    OK(hipGraphEventRecordNodeSetEvent(record, event));
    OK(hipGraphEventWaitNodeSetEvent(wait, event));
    GIVES(hipErrorInvalidValue, hipGraphAddEventRecordNode(&record, graph, NULL, 0, NULL));
    GIVES(hipErrorInvalidValue, hipGraphEventWaitNodeSetEvent(record, event));
    OK(hipEventDestroy(event));
    GIVES(hipErrorContextIsDestroyed, hipGraphAddEventRecordNode(&record, graph, NULL, 0, event));
    OK(hipGraphDestroy(graph));
    OK(hipGraphDestroy(inner));
    OK(hipGraphExecDestroy(exec));
}

/* ---- memory ---- */

static void nodes_allocate_and_free(void **state)
{
    hipMemAllocNodeParams params = {
        .poolProps = {.allocType = hipMemAllocationTypePinned, .location = {hipMemLocationTypeDevice, 0}},
        .bytesize = BYTES};
    uint64_t used = 9, zero = 0, one = 1;
    hipMemAllocNodeParams got;
    hipGraphNode_t alloc, filled, freed, none;
    hipGraph_t graph, frees, clone;
    hipGraphExec_t exec, freeing;
    hipMemsetParams set;
    void *told = NULL;

    (void)state;
    OK(hipGraphCreate(&graph, 0));
    OK(hipGraphCreate(&frees, 0));
    OK(hipGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
    OK(hipGraphMemAllocNodeGetParams(alloc, &got));
    assert_memory_equal(&got, &params, sizeof got);
    set = fill(params.dptr, 3, BYTES);
    OK(hipGraphAddMemsetNode(&filled, graph, &alloc, 1, &set));
    OK(hipGraphAddMemFreeNode(&freed, frees, NULL, 0, params.dptr));
    OK(hipGraphMemFreeNodeGetParams(freed, &told));
    assert_ptr_equal(told, params.dptr);
    exec = instantiated(graph);
    freeing = instantiated(frees);
    for (int i = 0; i < 3; i++) {
        GIVES(hipErrorInvalidValue, hipMemset(params.dptr, 1, 1));
        run(exec);
        device_has(params.dptr, 3);
        GIVES(hipErrorInvalidValue, hipGraphLaunch(exec, stream));
        OK(hipDeviceGetGraphMemAttribute(0, hipGraphMemAttrUsedMemCurrent, &used));
        assert_int_equal(used, BYTES);
        if (i == 0)
            OK(hipFree(params.dptr));
        else if (i == 1)
            OK(hipFreeAsync(params.dptr, stream));
        else
            OK(hipGraphLaunch(freeing, stream));
    }
    GIVES(hipErrorNotSupported, hipGraphClone(&clone, graph));
    GIVES(hipErrorNotSupported, hipGraphAddChildGraphNode(&none, frees, NULL, 0, graph));
    GIVES(hipErrorInvalidValue, hipGraphAddMemFreeNode(&none, graph, NULL, 0, device));
    OK(hipStreamSynchronize(stream));
    OK(hipDeviceGraphMemTrim(0));
    OK(hipDeviceGetGraphMemAttribute(0, hipGraphMemAttrReservedMemCurrent, &used));
    assert_int_equal(used, 0);
    OK(hipDeviceSetGraphMemAttribute(0, hipGraphMemAttrUsedMemHigh, &zero));
    GIVES(hipErrorInvalidValue, hipDeviceSetGraphMemAttribute(0, hipGraphMemAttrUsedMemHigh, &one));
    GIVES(hipErrorInvalidValue, hipDeviceSetGraphMemAttribute(0, hipGraphMemAttrUsedMemCurrent, &zero));
    GIVES(hipErrorInvalidDevice, hipDeviceGraphMemTrim(77));
    OK(hipGraphExecDestroy(freeing));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(frees));
    OK(hipGraphDestroy(graph));
    OK(hipDeviceSynchronize());

    /* Use the driver API's call, in the graph that allocates the memory. */
    OK(hipGraphCreate(&graph, 0));
    OK(hipGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
    OK(hipDrvGraphAddMemFreeNode(&freed, graph, &alloc, 1, params.dptr));
    run_and_end(graph);
    run_and_end(graph);
    OK(hipGraphDestroy(graph));
}

/* ---- driver-style calls ---- */

static void nodes_with_a_context(void **state)
{
    HIP_MEMSET_NODE_PARAMS set = {.dst = device, .value = 4, .elementSize = 1, .width = BYTES, .height = 1};
    HIP_MEMCPY3D copy = {.srcMemoryType = hipMemoryTypeDevice,
                         .srcDevice = device,
                         .dstMemoryType = hipMemoryTypeHost,
                         .dstHost = pinned,
                         .WidthInBytes = 200,
                         .Height = 1,
                         .Depth = 1},
                 got;
    hipGraphNode_t filled, copied, plain;
    hipGraphExec_t exec;
    hipGraph_t graph;

    (void)state;
    memset(pinned, 0, BYTES);
    OK(hipGraphCreate(&graph, 0));
    OK(hipDrvGraphAddMemsetNode(&filled, graph, NULL, 0, &set, context));
    OK(hipDrvGraphAddMemcpyNode(&copied, graph, &filled, 1, &copy, context));
    OK(hipDrvGraphMemcpyNodeGetParams(copied, &got));
    assert_memory_equal(&got, &copy, sizeof copy);
    exec = instantiated(graph);
    run(exec);
    HAS_BYTES(pinned, 200, 4);
    set.value = 5;
    copy.dstHost = pinned + 1000;
    OK(hipDrvGraphExecMemsetNodeSetParams(exec, filled, &set, context));
    OK(hipDrvGraphExecMemcpyNodeSetParams(exec, copied, &copy, context));
    run(exec);
    HAS_BYTES(pinned, 200, 4);
    HAS_BYTES(pinned + 1000, 200, 5);
    OK(hipDrvGraphMemcpyNodeSetParams(copied, &copy));
    OK(hipGraphAddMemcpyNode1D(&plain, graph, NULL, 0, pinned, device + 8, 16, hipMemcpyDeviceToHost));
    OK(hipDrvGraphMemcpyNodeGetParams(plain, &got));
    assert_int_equal(got.srcMemoryType, hipMemoryTypeDevice);
    assert_ptr_equal(got.srcDevice, device + 8);
    assert_ptr_equal(got.dstHost, pinned);
    assert_int_equal(got.WidthInBytes, 16);
    GIVES(hipErrorInvalidValue, hipDrvGraphAddMemsetNode(&filled, graph, NULL, 0, &set, NULL));
    GIVES(hipErrorInvalidValue, hipDrvGraphAddMemsetNode(&filled, graph, NULL, 0, NULL, context));
    GIVES(hipErrorInvalidValue, hipDrvGraphAddMemcpyNode(&copied, graph, NULL, 0, &copy, NULL));
    GIVES(hipErrorInvalidValue, hipDrvGraphAddMemcpyNode(&copied, graph, NULL, 0, NULL, context));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
}

static void one_call_adds_them_all(void **state)
{
    hipGraphNodeParams params = {.type = hipGraphNodeTypeMemset}, wrong;
    hipGraphNode_t nodes[6];
    struct addition add;
    hipGraphExec_t exec;
    hipGraph_t graph, child;
    hipEvent_t event;
    int calls = 0;

    (void)state;
    OK(hipEventCreate(&event));
    OK(hipGraphCreate(&child, 0));
    OK(hipGraphCreate(&graph, 0));
    params.memset = fill(device, 4, BYTES);
    OK(hipGraphAddNode(&nodes[0], graph, NULL, 0, &params));
    params = (hipGraphNodeParams){.type = hipGraphNodeTypeKernel};
    params.kernel = *addition(&add, device, 6);
    OK(hipGraphAddNode(&nodes[1], graph, nodes, 1, &params));
    params = (hipGraphNodeParams){.type = hipGraphNodeTypeMemcpy};
    params.memcpy.copyParams = (hipMemcpy3DParms){.srcPtr = make_hipPitchedPtr(device, BYTES, BYTES, 1),
                                                  .dstPtr = make_hipPitchedPtr(pinned, BYTES, BYTES, 1),
                                                  .extent = make_hipExtent(BYTES, 1, 1),
                                                  .kind = hipMemcpyDefault};
    OK(hipGraphAddNode(&nodes[2], graph, &nodes[1], 1, &params));
    params = (hipGraphNodeParams){.type = hipGraphNodeTypeHost};
    params.host = (hipHostNodeParams){count_up, &calls};
    OK(hipGraphAddNode(&nodes[3], graph, &nodes[2], 1, &params));
    params = (hipGraphNodeParams){.type = hipGraphNodeTypeEventRecord};
    params.eventRecord.event = event;
    OK(hipGraphAddNode(&nodes[4], graph, &nodes[3], 1, &params));
    params = (hipGraphNodeParams){.type = hipGraphNodeTypeGraph};
    params.graph.graph = child;
    OK(hipGraphAddNode(&nodes[5], graph, &nodes[4], 1, &params));
    exec = instantiated(graph);
    run(exec);
    HAS_BYTES(pinned, BYTES, 10);
    assert_int_equal(calls, 1);
    params = (hipGraphNodeParams){.type = hipGraphNodeTypeMemset};
    params.memset = fill(device, 5, BYTES);
    OK(hipGraphExecNodeSetParams(exec, nodes[0], &params));
    run(exec);
    HAS_BYTES(pinned, BYTES, 11);
    OK(hipGraphNodeSetParams(nodes[0], &params));
    GIVES(hipErrorInvalidValue, hipGraphNodeSetParams(nodes[1], &params));
    wrong = params;
    wrong.reserved2 = 1;
    GIVES(hipErrorInvalidValue, hipGraphAddNode(&nodes[0], graph, NULL, 0, &wrong));
    wrong = (hipGraphNodeParams){.type = hipGraphNodeTypeExtSemaphoreWait};
    GIVES(hipErrorNotSupported, hipGraphAddNode(&nodes[0], graph, NULL, 0, &wrong));
    wrong = (hipGraphNodeParams){.type = (hipGraphNodeType)99};
    GIVES(hipErrorInvalidValue, hipGraphAddNode(&nodes[0], graph, NULL, 0, &wrong));
    GIVES(hipErrorInvalidValue, hipGraphAddNode(&nodes[0], graph, NULL, 0, NULL));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    OK(hipGraphDestroy(child));
    OK(hipEventDestroy(event));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_nodes),
        cmocka_unit_test(functions_of_modules_are_nodes),
        cmocka_unit_test(copies_are_nodes),
        cmocka_unit_test(fills_are_nodes),
        cmocka_unit_test(host_functions_graphs_and_events_are_nodes),
        cmocka_unit_test(nodes_allocate_and_free),
        cmocka_unit_test(nodes_with_a_context),
        cmocka_unit_test(one_call_adds_them_all),
    };
    int wrong = cmocka_run_group_tests(tests, set_up, NULL);

    for (int i = 0; i < 2; i++)
        wrong += hipSetDevice(i) || hipDeviceReset();
    return wrong ? 1 : 0;
}
