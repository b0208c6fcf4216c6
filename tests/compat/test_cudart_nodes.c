/* test_cudart_nodes.c - tests graphs that a program builds node by node: each type of node. */
#include "cudart_graphs.h"

#include <libgen.h>
#include <unistd.h>

static void count_ten(void *argument)
{
    *(int *)argument += 10;
}

/* ---- kernels ---- */

static void kernels_are_nodes(void **state)
{
    struct cudaKernelNodeParams given;
    struct addition add, other;
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaMemset(device, 1, BYTES));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddKernelNode(&node, graph, NULL, 0, addition(&add, device, 3)));
    add.what = 99; /* the node has copied the value of the argument */
    OK(cudaGraphKernelNodeGetParams(node, &given));
    assert_ptr_equal(given.func, add.params.func);
    assert_memory_equal(&given.gridDim, &add.params.gridDim, sizeof given.gridDim);
    assert_memory_equal(&given.blockDim, &add.params.blockDim, sizeof given.blockDim);
    assert_null(given.extra);
    assert_int_equal(*(uint8_t *)given.kernelParams[2], 3);
    exec = instantiated(graph);
    run(exec);
    device_has(device, 4);

    OK(cudaGraphKernelNodeSetParams(node, addition(&other, device, 5))); /* changes the node in the graph, but not
                                                                          * in the executable graph */
    run(exec);
    device_has(device, 7);
    run_and_end(graph);
    device_has(device, 12);
    OK(cudaGraphExecKernelNodeSetParams(exec, node, addition(&other, more, 9)));
    OK(cudaMemset(more, 0, BYTES));
    run(exec);
    device_has(device, 12);
    device_has(more, 9);
    other.params.func = (void *)(uintptr_t)&leat_cpu_kernel_double_all;
    OK(cudaGraphExecKernelNodeSetParams(exec, node, &other.params));
    run(exec);
    device_has(more, 18);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static void wrong_kernels_are_refused(void **state)
{
    struct addition add;
    struct cudaKernelNodeParams *p = addition(&add, device, 1);
    cudaGraphNode_t node;
    cudaGraph_t graph;
    void *extra[1];

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphAddKernelNode(NULL, graph, NULL, 0, p));
    GIVES(cudaErrorInvalidValue, cudaGraphAddKernelNode(&node, NULL, NULL, 0, p));
    GIVES(cudaErrorInvalidValue, cudaGraphAddKernelNode(&node, graph, NULL, 2, p));
    GIVES(cudaErrorInvalidValue, cudaGraphAddKernelNode(&node, graph, NULL, 0, NULL));
    p->func = NULL;
    GIVES(cudaErrorInvalidDeviceFunction, cudaGraphAddKernelNode(&node, graph, NULL, 0, p));
    p->func = pinned;
    GIVES(cudaErrorInvalidDeviceFunction, cudaGraphAddKernelNode(&node, graph, NULL, 0, p));
    p = addition(&add, device, 1);
    p->gridDim.y = 0;
    GIVES(cudaErrorInvalidConfiguration, cudaGraphAddKernelNode(&node, graph, NULL, 0, p));
    p = addition(&add, device, 1);
    p->blockDim.x = 1 << 20;
    GIVES(cudaErrorInvalidConfiguration, cudaGraphAddKernelNode(&node, graph, NULL, 0, p));
    p = addition(&add, device, 1);
    p->kernelParams = NULL;
    GIVES(cudaErrorInvalidValue, cudaGraphAddKernelNode(&node, graph, NULL, 0, p));
    p->extra = extra;
    GIVES(cudaErrorNotSupported, cudaGraphAddKernelNode(&node, graph, NULL, 0, p));
    p->kernelParams = add.args;
    GIVES(cudaErrorInvalidValue, cudaGraphAddKernelNode(&node, graph, NULL, 0, p));
    p = addition(&add, device, 1);
    add.args[1] = NULL;
    GIVES(cudaErrorInvalidValue, cudaGraphAddKernelNode(&node, graph, NULL, 0, p));
    p = addition(&add, device, 1);
    OK(cudaGraphAddKernelNode(&node, graph, NULL, 0, p));
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeGetParams(node, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeSetParams(node, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeGetParams((cudaGraphNode_t)graph, p));
    GIVES(cudaErrorInvalidValue, cudaGraphExecKernelNodeSetParams((cudaGraphExec_t)graph, node, p));
    OK(cudaGraphDestroy(graph));
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeGetParams(node, p));
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeSetParams(node, p));
}

/* Kernels of a loaded library report the sizes of their parameters, so launches of these kernels can be captured
 * too. */
static void kernels_of_libraries_are_nodes(void **state)
{
    float in[4] = {1, 2, 3, 4}, factor = 3;
    char self[500] = {0}, path[600];
    uint64_t count = 4;
    struct cudaKernelNodeParams params = {.gridDim = {1, 1, 1}, .blockDim = {32, 1, 1}}, given;
    void *args[] = {&device, &count, &factor};
    dim3 one = {1, 1, 1}, threads = {32, 1, 1};
    cudaLibrary_t library;
    cudaGraphNode_t node;
    cudaKernel_t kernel;
    cudaGraph_t graph;

    (void)state;
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    (void)snprintf(path, sizeof path, "%s/../kernels_user.so", dirname(self));
    OK(cudaLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    OK(cudaLibraryGetKernel(&kernel, library, "user_scale_f32"));
    OK(cudaMemcpy(device, in, sizeof in, cudaMemcpyDefault));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaLaunchKernel((void *)kernel, one, threads, args, 0, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    factor = 99;
    count = 1;
    OK(cudaGraphGetNodes(graph, &node, &(size_t){1}));
    params.func = (void *)kernel;
    params.kernelParams = args;
    OK(cudaGraphAddKernelNode(&node, graph, &node, 1, &params));
    OK(cudaGraphKernelNodeGetParams(node, &given));
    assert_ptr_equal(given.func, kernel);
    run_and_end(graph);
    OK(cudaMemcpy(in, device, sizeof in, cudaMemcpyDefault));
    assert_true(in[0] == 297 && in[1] == 6 && in[2] == 9 && in[3] == 12);
    OK(cudaLibraryUnload(library));
    GIVES(cudaErrorInvalidDeviceFunction, cudaGraphAddKernelNode(&node, graph, NULL, 0, &params));
    OK(cudaGraphDestroy(graph));
}

static void attributes_are_kept(void **state)
{
    cudaKernelNodeAttrValue value = {.pad = {0}}, zero = {.pad = {0}}, given;
    struct addition add;
    cudaGraphNode_t first, second, empty;
    cudaGraph_t graph, clone;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddKernelNode(&first, graph, NULL, 0, addition(&add, device, 3)));
    OK(cudaGraphAddKernelNode(&second, graph, NULL, 0, addition(&add, device, 3)));
    OK(cudaGraphAddEmptyNode(&empty, graph, NULL, 0));
    OK(cudaGraphKernelNodeGetAttribute(first, cudaLaunchAttributePriority, &given));
    assert_memory_equal(&given, &zero, sizeof zero);
    value.priority = -3;
    OK(cudaGraphKernelNodeSetAttribute(first, cudaLaunchAttributePriority, &value));
    OK(cudaGraphKernelNodeGetAttribute(first, cudaLaunchAttributePriority, &given));
    assert_int_equal(given.priority, -3);
    value = zero;
    value.accessPolicyWindow.hitRatio = 2;
    GIVES(cudaErrorInvalidValue,
          cudaGraphKernelNodeSetAttribute(first, cudaLaunchAttributeAccessPolicyWindow, &value));
    value.accessPolicyWindow.hitRatio = 0.5f;
    value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    OK(cudaGraphKernelNodeSetAttribute(first, cudaLaunchAttributeAccessPolicyWindow, &value));
    OK(cudaGraphKernelNodeCopyAttributes(second, first));
    OK(cudaGraphKernelNodeGetAttribute(second, cudaLaunchAttributeAccessPolicyWindow, &given));
    assert_memory_equal(&given, &value, sizeof value);
    OK(cudaGraphClone(&clone, graph));
    OK(cudaGraphNodeFindInClone(&second, first, clone));
    OK(cudaGraphKernelNodeGetAttribute(second, cudaLaunchAttributePriority, &given));
    assert_int_equal(given.priority, -3);
    value.cooperative = 1;
    GIVES(cudaErrorNotSupported, cudaGraphKernelNodeSetAttribute(first, cudaLaunchAttributeCooperative, &value));
    OK(cudaGraphKernelNodeSetAttribute(first, cudaLaunchAttributeCooperative, &zero));
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeSetAttribute(first, (cudaLaunchAttributeID)77, &value));
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeSetAttribute(first, cudaLaunchAttributePriority, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeGetAttribute(first, cudaLaunchAttributePriority, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeGetAttribute(empty, cudaLaunchAttributePriority, &value));
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeSetAttribute(empty, cudaLaunchAttributePriority, &zero));
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeCopyAttributes(first, empty));
    OK(cudaGraphDestroy(clone));
    OK(cudaGraphDestroy(graph));
}

/* ---- copies ---- */

static void copies_are_nodes(void **state)
{
    struct cudaMemcpy3DParms params = {.kind = cudaMemcpyDefault}, given;
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    write_pattern(pinned, BYTES, 4);
    OK(cudaMemset(device, 0, BYTES));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, device, pinned, BYTES, cudaMemcpyHostToDevice));
    OK(cudaGraphMemcpyNodeGetParams(node, &given));
    assert_ptr_equal(given.dstPtr.ptr, device);
    assert_ptr_equal(given.srcPtr.ptr, pinned);
    assert_int_equal(given.extent.width, BYTES);
    assert_int_equal(given.extent.height * given.extent.depth, 1);
    assert_int_equal(given.kind, cudaMemcpyHostToDevice);
    exec = instantiated(graph);
    run(exec);
    memset(pinned, 0, BYTES);
    OK(cudaMemcpy(pinned, device, BYTES, cudaMemcpyDefault));
    HAS_PATTERN(pinned, BYTES, 4);

    /* Change the copy to other memory of the same kind on the same device, and to a shorter range. */
    OK(cudaMemset(more, 0, BYTES));
    OK(cudaGraphExecMemcpyNodeSetParams1D(exec, node, more + 100, pinned + 100, 200, cudaMemcpyHostToDevice));
    run(exec);
    OK(cudaMemcpy(pinned + 2000, more, 1000, cudaMemcpyDefault));
    HAS_BYTES(pinned + 2000, 100, 0);
    assert_memory_equal(pinned + 2100, pinned + 100, 200);
    HAS_BYTES(pinned + 2300, 700, 0);
    GIVES(cudaErrorInvalidValue,
          cudaGraphExecMemcpyNodeSetParams1D(exec, node, pinned, more, 200, cudaMemcpyDeviceToHost));
    GIVES(cudaErrorInvalidValue,
          cudaGraphExecMemcpyNodeSetParams1D(exec, node, more, device, 200, cudaMemcpyDefault));
    OK(cudaGraphMemcpyNodeSetParams1D(node, pinned, device, BYTES,
                                      cudaMemcpyDeviceToHost)); /* a node of the graph accepts any copy */
    memset(pinned, 0, BYTES);
    run_and_end(graph);
    HAS_PATTERN(pinned, BYTES, 4);

    params.srcPtr = make_cudaPitchedPtr(pinned, 64, 64, 64);
    params.dstPtr = make_cudaPitchedPtr(device, 128, 128, 32);
    params.extent = make_cudaExtent(50, 9, 3);
    params.srcPos = make_cudaPos(3, 2, 0);
    params.dstPos = make_cudaPos(70, 1, 0);
    params.srcPtr.ysize = 16;
    params.dstPtr.ysize = 9;
    GIVES(cudaErrorInvalidValue, cudaGraphMemcpyNodeSetParams(node, &params)); /* more rows than a slice has */
    params.dstPtr.ysize = 10;
    OK(cudaGraphMemcpyNodeSetParams(node, &params));
    OK(cudaGraphMemcpyNodeGetParams(node, &given));
    assert_memory_equal(&given, &params, sizeof given);
    OK(cudaMemset(device, 0, 3 * 10 * 128));
    run_and_end(graph);
    for (size_t z = 0; z < 3; z++)
        for (size_t y = 0; y < 9; y++) {
            unsigned char row[50];

            OK(cudaMemcpy(row, device + (z * 10 + y + 1) * 128 + 70, 50, cudaMemcpyDefault));
            assert_memory_equal(row, pinned + (z * 16 + y + 2) * 64 + 3, 50);
        }
    /* In an executable graph, a copy of several rows cannot be changed, and a copy of one row cannot become a copy
     * of several rows. */
    GIVES(cudaErrorInvalidValue, cudaGraphExecMemcpyNodeSetParams(exec, node, &params));
    OK(cudaGraphExecDestroy(exec));
    exec = instantiated(graph);
    GIVES(cudaErrorInvalidValue,
          cudaGraphExecMemcpyNodeSetParams1D(exec, node, device, pinned, 10, cudaMemcpyHostToDevice));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static void arrays_are_copied_by_nodes(void **state)
{
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindUnsigned);
    struct cudaMemcpy3DParms in = {.kind = cudaMemcpyDefault}, out = {.kind = cudaMemcpyDefault}, given;
    cudaGraphNode_t nodes[2];
    size_t count = 2;
    cudaArray_t array;
    cudaGraph_t graph;

    (void)state;
    OK(cudaMallocArray(&array, &format, 8, 6, 0));
    write_pattern(pinned, 192, 1);
    in.srcPtr = make_cudaPitchedPtr(pinned, 32, 32, 6);
    in.dstArray = array;
    in.extent = make_cudaExtent(8, 6, 1);
    out.srcArray = array;
    out.srcPos = make_cudaPos(2, 1, 0);
    out.dstPtr = make_cudaPitchedPtr(device, 16, 16, 5);
    out.extent = make_cudaExtent(4, 5, 1);
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemcpyNode(&nodes[0], graph, NULL, 0, &in));
    OK(cudaGraphAddMemcpyNode(&nodes[1], graph, nodes, 1, &out));
    out.extent.width = 9;
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemcpyNode(&nodes[0], graph, NULL, 0, &out));
    run_and_end(graph);
    OK(cudaGraphDestroy(graph));
    OK(cudaMemcpy(pinned + 1000, device, 80, cudaMemcpyDefault));
    for (int row = 0; row < 5; row++)
        assert_memory_equal(pinned + 1000 + row * 16, pinned + (row + 1) * 32 + 8, 16);

    /* The parameters of a captured copy name the position in the array. */
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemcpy2DToArrayAsync(array, 4, 1, pinned, 8, 8, 2, cudaMemcpyDefault, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphGetNodes(graph, nodes, &count));
    OK(cudaGraphMemcpyNodeGetParams(nodes[0], &given));
    assert_ptr_equal(given.dstArray, array);
    assert_null(given.dstPtr.ptr);
    assert_int_equal(given.dstPos.x, 1);
    assert_int_equal(given.dstPos.y, 1);
    assert_ptr_equal(given.srcPtr.ptr, pinned);
    assert_int_equal(given.srcPtr.pitch, 8);
    assert_int_equal(given.extent.width, 2);
    assert_int_equal(given.extent.height, 2);
    OK(cudaGraphMemcpyNodeSetParams(nodes[0], &given)); /* the parameters that were read can be set again */
    OK(cudaGraphDestroy(graph));
    OK(cudaFreeArray(array));
}

unsigned char shown_symbol[64];

static void symbols_are_copied_by_nodes(void **state)
{
    cudaGraphNode_t nodes[2];
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaMemset(device, 6, BYTES));
    memset(shown_symbol, 0, sizeof shown_symbol);
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemcpyNodeToSymbol(&nodes[0], graph, NULL, 0, shown_symbol, device, 10, 5,
                                      cudaMemcpyDeviceToDevice));
    OK(cudaGraphAddMemcpyNodeFromSymbol(&nodes[1], graph, nodes, 1, more, shown_symbol, 64, 0,
                                        cudaMemcpyDeviceToDevice));
    exec = instantiated(graph);
    run(exec);
    OK(cudaMemcpy(pinned, more, 64, cudaMemcpyDefault));
    HAS_BYTES(pinned, 5, 0);
    HAS_BYTES(pinned + 5, 10, 6);
    HAS_BYTES(pinned + 15, 49, 0);
    OK(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, nodes[0], shown_symbol, device, 3, 61,
                                                cudaMemcpyDeviceToDevice));
    OK(cudaGraphExecMemcpyNodeSetParamsFromSymbol(exec, nodes[1], more, shown_symbol, 32, 32,
                                                  cudaMemcpyDeviceToDevice));
    run(exec);
    OK(cudaMemcpy(pinned, more, 32, cudaMemcpyDefault));
    HAS_BYTES(pinned, 29, 0);
    HAS_BYTES(pinned + 29, 3, 6);
    OK(cudaGraphMemcpyNodeSetParamsToSymbol(nodes[0], shown_symbol, pinned, 4, 0, cudaMemcpyHostToDevice));
    OK(cudaGraphMemcpyNodeSetParamsFromSymbol(nodes[1], pinned + 100, shown_symbol, 4, 0, cudaMemcpyDeviceToHost));
    memset(pinned, 0x77, 4);
    run_and_end(graph);
    HAS_BYTES(pinned + 100, 4, 0x77);
    GIVES(cudaErrorInvalidSymbol,
          cudaGraphAddMemcpyNodeToSymbol(&nodes[0], graph, NULL, 0, NULL, device, 10, 5, cudaMemcpyDefault));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaGraphAddMemcpyNodeToSymbol(&nodes[0], graph, NULL, 0, shown_symbol,
                                                                          device, 10, 5, cudaMemcpyDeviceToHost));
    GIVES(cudaErrorInvalidMemcpyDirection,
          cudaGraphAddMemcpyNodeFromSymbol(&nodes[0], graph, NULL, 0, device, shown_symbol, 10, 5,
                                           cudaMemcpyHostToDevice));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static void wrong_copies_are_refused(void **state)
{
    struct cudaMemcpy3DParms params = {.kind = cudaMemcpyDefault};
    cudaGraphNode_t node;
    cudaGraph_t graph;
    unsigned char *block, pageable[16];

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaMalloc((void **)&block, 100));
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemcpyNode(&node, graph, NULL, 0, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemcpyNode(&node, graph, NULL, 0, &params));
    GIVES(cudaErrorInvalidValue,
          cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, block, device, 0, cudaMemcpyDefault));
    GIVES(cudaErrorInvalidValue,
          cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, block, device, 101, cudaMemcpyDefault));
    GIVES(cudaErrorInvalidValue,
          cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, block, device, SIZE_MAX, cudaMemcpyDefault));
    GIVES(cudaErrorInvalidValue,
          cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, NULL, device, 10, cudaMemcpyDefault));
    GIVES(cudaErrorInvalidValue,
          cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, block, NULL, 10, cudaMemcpyDefault));
    GIVES(cudaErrorInvalidMemcpyDirection,
          cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, block, device, 10, (enum cudaMemcpyKind)7));
    GIVES(cudaErrorInvalidValue,
          cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, pageable, device, 10, cudaMemcpyHostToDevice));
    OK(cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, pageable, device, 10, cudaMemcpyDeviceToHost));
    run_and_end(graph);
    OK(cudaFree(block));
    OK(cudaGraphDestroy(graph));
}

/* ---- fills ---- */

static void fills_are_nodes(void **state)
{
    struct cudaMemsetParams params = fill(device + 8, 0x01020304, 20), given;
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    uint32_t words[22];

    (void)state;
    params.elementSize = 4;
    OK(cudaMemset(device, 0, BYTES));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemsetNode(&node, graph, NULL, 0, &params));
    OK(cudaGraphMemsetNodeGetParams(node, &given));
    assert_memory_equal(&given, &params, sizeof given);
    exec = instantiated(graph);
    run(exec);
    OK(cudaMemcpy(words, device, sizeof words, cudaMemcpyDefault));
    assert_true(!words[1] && words[2] == 0x01020304 && words[21] == 0x01020304);
    OK(cudaMemcpy(words, device + 88, 4, cudaMemcpyDefault));
    assert_int_equal(words[0], 0);
    params = fill(device, 7, BYTES);
    OK(cudaGraphExecMemsetNodeSetParams(exec, node, &params));
    run(exec);
    device_has(device, 7);
    params = fill(pinned, 7, BYTES); /* memory of another kind is refused */
    GIVES(cudaErrorInvalidValue, cudaGraphExecMemsetNodeSetParams(exec, node, &params));
    params = fill(device, 9, 16);
    params.height = 4;
    params.pitch = 32;
    GIVES(cudaErrorInvalidValue, cudaGraphExecMemsetNodeSetParams(exec, node, &params));
    OK(cudaGraphMemsetNodeSetParams(node, &params));
    OK(cudaGraphExecDestroy(exec));
    exec = instantiated(graph);
    run(exec);
    OK(cudaMemcpy(pinned, device, 128, cudaMemcpyDefault));
    for (int row = 0; row < 4; row++) {
        HAS_BYTES(pinned + row * 32, 16, 9);
        HAS_BYTES(pinned + row * 32 + 16, 16, 7);
    }
    params.value = 8; /* a fill of other memory with the same shape is accepted */
    params.dst = more;
    OK(cudaGraphExecMemsetNodeSetParams(exec, node, &params));
    params.height = 3;
    GIVES(cudaErrorInvalidValue, cudaGraphExecMemsetNodeSetParams(exec, node, &params));
    OK(cudaGraphExecDestroy(exec));

    params = fill(device, 1, 0);
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeSetParams(node, &params));
    params = fill(device, 1, BYTES + 1);
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeSetParams(node, &params));
    params = fill(device, 1, 10);
    params.elementSize = 3;
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeSetParams(node, &params));
    params = fill(device + 1, 1, 10);
    params.elementSize = 2;
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeSetParams(node, &params));
    params = fill(device, 1, 10);
    params.height = 2;
    params.pitch = 9;
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeSetParams(node, &params));
    params = fill(words, 1, 10); /* pageable memory is refused */
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeSetParams(node, &params));
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeSetParams(node, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeGetParams(node, NULL));
    OK(cudaGraphDestroy(graph));
}

/* ---- host functions, events, child graphs ---- */

static void host_functions_are_nodes(void **state)
{
    int calls = 0, others = 0;
    struct cudaHostNodeParams params = {count_up, &calls}, given, ten = {count_ten, &others};
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddHostNode(&node, graph, NULL, 0, &params));
    OK(cudaGraphHostNodeGetParams(node, &given));
    assert_true(given.fn == count_up && given.userData == &calls);
    exec = instantiated(graph);
    run(exec);
    run(exec);
    assert_int_equal(calls, 2);
    OK(cudaGraphExecHostNodeSetParams(exec, node, &ten));
    run(exec);
    assert_true(calls == 2 && others == 10);
    OK(cudaGraphHostNodeGetParams(node, &given));
    assert_true(given.fn == count_up);
    OK(cudaGraphHostNodeSetParams(node, &ten));
    run_and_end(graph);
    assert_true(calls == 2 && others == 20);
    ten.fn = NULL;
    GIVES(cudaErrorInvalidValue, cudaGraphHostNodeSetParams(node, &ten));
    GIVES(cudaErrorInvalidValue, cudaGraphHostNodeSetParams(node, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphExecHostNodeSetParams(exec, node, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphAddHostNode(&node, graph, NULL, 0, &ten));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static void events_are_nodes(void **state)
{
    cudaEvent_t first, second, got;
    cudaGraphNode_t record, wait;
    enum cudaGraphNodeType type;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaEventCreate(&first));
    OK(cudaEventCreate(&second));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddEventRecordNode(&record, graph, NULL, 0, first));
    OK(cudaGraphAddEventWaitNode(&wait, graph, &record, 1, second));
    OK(cudaGraphNodeGetType(record, &type));
    assert_int_equal(type, cudaGraphNodeTypeEventRecord);
    OK(cudaGraphNodeGetType(wait, &type));
    assert_int_equal(type, cudaGraphNodeTypeWaitEvent);
    OK(cudaGraphEventRecordNodeGetEvent(record, &got));
    assert_ptr_equal(got, first);
    OK(cudaGraphEventWaitNodeGetEvent(wait, &got));
    assert_ptr_equal(got, second);
    GIVES(cudaErrorInvalidValue, cudaGraphEventWaitNodeGetEvent(record, &got));
    exec = instantiated(graph);
    run(exec);
    OK(cudaEventQuery(first));
    OK(cudaGraphExecEventRecordNodeSetEvent(exec, record, second));
    OK(cudaGraphExecEventWaitNodeSetEvent(exec, wait, first));
    run(exec);
    OK(cudaEventQuery(second));
    OK(cudaGraphEventRecordNodeSetEvent(record, second));
    OK(cudaGraphEventWaitNodeSetEvent(wait, first));
    OK(cudaGraphEventWaitNodeGetEvent(wait, &got));
    assert_ptr_equal(got, first);
    GIVES(cudaErrorInvalidValue, cudaGraphExecEventWaitNodeSetEvent(exec, record, first));
    OK(cudaEventDestroy(first));
    OK(cudaEventDestroy(second));
    assert_true(cudaGraphAddEventRecordNode(&record, graph, NULL, 0, first) != cudaSuccess);
    assert_true(cudaGraphAddEventWaitNode(&wait, graph, NULL, 0, NULL) != cudaSuccess);
    assert_true(cudaGraphLaunch(exec, stream) != cudaSuccess); /* fails, because the events of its nodes are
                                                                * destroyed */
    OK(cudaStreamSynchronize(stream));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static void graphs_are_nodes(void **state)
{
    cudaGraph_t inner, middle, outer, got, other;
    cudaGraphNode_t leaf, first, second, last, in_inner;
    struct addition add, three;
    struct cudaMemsetParams zero = fill(device, 0, BYTES);
    enum cudaGraphNodeType type;
    cudaGraphExec_t exec, none;
    size_t count = 0;

    (void)state;
    OK(cudaGraphCreate(&inner, 0));
    OK(cudaGraphAddKernelNode(&leaf, inner, NULL, 0, addition(&add, device, 1)));
    OK(cudaGraphCreate(&middle, 0));
    OK(cudaGraphAddChildGraphNode(&first, middle, NULL, 0, inner));
    OK(cudaGraphAddChildGraphNode(&second, middle, &first, 1, inner));
    OK(cudaGraphCreate(&outer, 0));
    OK(cudaGraphAddMemsetNode(&first, outer, NULL, 0, &zero));
    OK(cudaGraphAddChildGraphNode(&second, outer, &first, 1, middle));
    OK(cudaGraphAddChildGraphNode(&last, outer, &second, 1, middle));
    OK(cudaGraphNodeGetType(last, &type));
    assert_int_equal(type, cudaGraphNodeTypeGraph);
    OK(cudaGraphDestroy(inner)); /* the nodes have copies of the inner graph */
    OK(cudaGraphDestroy(middle));
    run_and_end(outer);
    device_has(device, 4);

    /* The copies of the child graph can be read and changed. */
    OK(cudaGraphChildGraphNodeGetGraph(last, &got));
    OK(cudaGraphGetNodes(got, NULL, &count));
    assert_int_equal(count, 2);
    OK(cudaGraphGetNodes(got, &first, &(size_t){1}));
    OK(cudaGraphChildGraphNodeGetGraph(first, &inner));
    OK(cudaGraphGetNodes(inner, &in_inner, &(size_t){1}));
    OK(cudaGraphKernelNodeSetParams(in_inner, addition(&three, device, 3)));
    exec = instantiated(outer);
    run(exec);
    device_has(device, 6);
    OK(cudaGraphExecKernelNodeSetParams(exec, in_inner, addition(&three, device, 10)));
    run(exec);
    device_has(device, 13);

    /* Set the child graph of a node in an executable graph. */
    OK(cudaGraphClone(&other, got));
    OK(cudaGraphGetNodes(other, &first, &(size_t){1}));
    OK(cudaGraphChildGraphNodeGetGraph(first, &inner));
    OK(cudaGraphGetNodes(inner, &in_inner, &(size_t){1}));
    OK(cudaGraphKernelNodeSetParams(in_inner, addition(&three, device, 20)));
    OK(cudaGraphExecChildGraphNodeSetParams(exec, second, other));
    run(exec);
    device_has(device, 32);
    OK(cudaGraphAddEmptyNode(&leaf, other, NULL, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphExecChildGraphNodeSetParams(exec, second, other));
    GIVES(cudaErrorInvalidValue, cudaGraphExecChildGraphNodeSetParams(exec, leaf, other));
    run(exec);
    device_has(device, 32);

    GIVES(cudaErrorInvalidValue, cudaGraphDestroy(got));
    GIVES(cudaErrorInvalidValue, cudaGraphChildGraphNodeGetGraph(leaf, &got));
    GIVES(cudaErrorInvalidValue, cudaGraphChildGraphNodeGetGraph(second, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphAddChildGraphNode(&leaf, outer, NULL, 0, NULL));
    OK(cudaGraphDestroy(other));
    OK(cudaGraphDestroy(outer));
    GIVES(cudaErrorInvalidValue, cudaGraphGetNodes(got, NULL, &count));
    run(exec);
    device_has(device, 32);
    OK(cudaGraphExecDestroy(exec));
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiate(&none, got, 0));
}

/* A child graph that is moved is not copied: it becomes the node's graph and keeps its handle. */
static void child_graphs_can_be_moved(void **state)
{
    struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeGraph};
    cudaGraph_t graph, child, got;
    struct addition add;
    cudaGraphNode_t node, leaf;

    (void)state;
    OK(cudaMemset(device, 0, BYTES));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphCreate(&child, 0));
    OK(cudaGraphAddKernelNode(&leaf, child, NULL, 0, addition(&add, device, 2)));
    params.graph.graph = child;
    params.graph.ownership = cudaGraphChildGraphOwnershipMove;
    OK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    OK(cudaGraphChildGraphNodeGetGraph(node, &got));
    assert_ptr_equal(got, child);
    GIVES(cudaErrorInvalidValue, cudaGraphDestroy(child));
    GIVES(cudaErrorInvalidValue, cudaGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    params.graph.graph = graph;
    GIVES(cudaErrorInvalidValue, cudaGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    OK(cudaGraphKernelNodeSetParams(leaf, addition(&add, device, 5)));
    run_and_end(graph);
    device_has(device, 5);
    OK(cudaGraphDestroy(graph));
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeGetParams(leaf, &add.params));
}

/* ---- nodes of any type through one call ---- */

static void one_call_adds_them_all(void **state)
{
    struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeKernel}, wrong;
    cudaGraphNode_t nodes[9];
    struct addition add;
    int calls = 0;
    cudaGraphExec_t exec;
    cudaGraph_t graph, child;
    cudaEvent_t event;
    void *memory;

    (void)state;
    OK(cudaEventCreate(&event));
    OK(cudaGraphCreate(&graph, 0));
    addition(&add, device, 1);
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeMemset};
    params.memset =
        (struct cudaMemsetParamsV2){.dst = device, .value = 3, .elementSize = 1, .width = BYTES, .height = 1};
    OK(cudaGraphAddNode(&nodes[0], graph, NULL, NULL, 0, &params));
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeKernel};
    params.kernel = (struct cudaKernelNodeParamsV2){.func = add.params.func,
                                                    .gridDim = add.params.gridDim,
                                                    .blockDim = add.params.blockDim,
                                                    .kernelParams = add.args};
    OK(cudaGraphAddNode(&nodes[1], graph, nodes, NULL, 1, &params));
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeMemAlloc};
    params.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    params.alloc.poolProps.location.type = cudaMemLocationTypeDevice;
    params.alloc.bytesize = BYTES;
    OK(cudaGraphAddNode(&nodes[2], graph, NULL, NULL, 0, &params));
    memory = params.alloc.dptr;
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeMemcpy};
    params.memcpy.copyParams = (struct cudaMemcpy3DParms){.srcPtr = make_cudaPitchedPtr(device, BYTES, BYTES, 1),
                                                          .dstPtr = make_cudaPitchedPtr(memory, BYTES, BYTES, 1),
                                                          .extent = make_cudaExtent(BYTES, 1, 1),
                                                          .kind = cudaMemcpyDeviceToDevice};
    OK(cudaGraphAddNode(&nodes[3], graph, &nodes[1], NULL, 2, &params));
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeHost};
    params.host.fn = count_up;
    params.host.userData = &calls;
    OK(cudaGraphAddNode(&nodes[4], graph, &nodes[3], NULL, 1, &params));
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeEventRecord};
    params.eventRecord.event = event;
    OK(cudaGraphAddNode(&nodes[5], graph, &nodes[3], NULL, 1, &params));
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeWaitEvent};
    params.eventWait.event = event;
    OK(cudaGraphAddNode(&nodes[6], graph, &nodes[5], NULL, 1, &params));
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeEmpty};
    OK(cudaGraphAddNode(&nodes[7], graph, &nodes[4], NULL, 3, &params));
    OK(cudaGraphCreate(&child, 0));
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeGraph};
    params.graph.graph = child;
    OK(cudaGraphAddNode(&nodes[8], graph, &nodes[7], NULL, 1, &params));
    OK(cudaGraphDestroy(child));
    exec = instantiated(graph);
    run(exec);
    assert_int_equal(calls, 1);
    device_has(memory, 4);
    OK(cudaFree(memory));

    /* One call also sets the parameters, in the graph and in the executable graph. */
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeMemset};
    params.memset =
        (struct cudaMemsetParamsV2){.dst = device, .value = 7, .elementSize = 1, .width = BYTES, .height = 1};
    OK(cudaGraphExecNodeSetParams(exec, nodes[0], &params));
    run(exec);
    device_has(memory, 8);
    OK(cudaFree(memory));
    GIVES(cudaErrorInvalidValue, cudaGraphExecNodeSetParams(exec, nodes[1], &params));
    GIVES(cudaErrorInvalidValue, cudaGraphNodeSetParams(nodes[1], &params));
    OK(cudaGraphNodeSetParams(nodes[0], &params));
    OK(cudaGraphExecDestroy(exec));
    run_and_end(graph);
    device_has(memory, 8);
    OK(cudaFree(memory));

    GIVES(cudaErrorInvalidValue, cudaGraphAddNode(&nodes[0], graph, NULL, NULL, 0, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphAddNode(NULL, graph, NULL, NULL, 0, &params));
    wrong = params;
    wrong.reserved0[1] = 1;
    GIVES(cudaErrorInvalidValue, cudaGraphAddNode(&nodes[0], graph, NULL, NULL, 0, &wrong));
    wrong = params;
    wrong.reserved2 = 1;
    GIVES(cudaErrorInvalidValue, cudaGraphAddNode(&nodes[0], graph, NULL, NULL, 0, &wrong));
    wrong = (struct cudaGraphNodeParams){.type = (enum cudaGraphNodeType)99};
    GIVES(cudaErrorInvalidValue, cudaGraphAddNode(&nodes[0], graph, NULL, NULL, 0, &wrong));
    wrong = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeConditional};
    GIVES(cudaErrorNotSupported, cudaGraphAddNode(&nodes[0], graph, NULL, NULL, 0, &wrong));
    wrong = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeExtSemaphoreSignal};
    GIVES(cudaErrorNotSupported, cudaGraphAddNode(&nodes[0], graph, NULL, NULL, 0, &wrong));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventDestroy(event));
}

static void what_there_is_not_is_refused(void **state)
{
    struct cudaExternalSemaphoreSignalNodeParams signal = {.numExtSems = 0};
    struct cudaExternalSemaphoreWaitNodeParams wait = {.numExtSems = 0};
    cudaGraphConditionalHandle handle;
    cudaGraphEdgeData data = {.type = 0};
    cudaGraphNode_t nodes[2];
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddEmptyNode(&nodes[0], graph, NULL, 0));
    GIVES(cudaErrorNotSupported, cudaGraphAddExternalSemaphoresSignalNode(&nodes[1], graph, NULL, 0, &signal));
    GIVES(cudaErrorNotSupported, cudaGraphAddExternalSemaphoresWaitNode(&nodes[1], graph, NULL, 0, &wait));
    GIVES(cudaErrorInvalidValue, cudaGraphAddExternalSemaphoresWaitNode(&nodes[1], graph, NULL, 0, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphExternalSemaphoresSignalNodeGetParams(nodes[0], &signal));
    GIVES(cudaErrorInvalidValue, cudaGraphExternalSemaphoresWaitNodeSetParams(nodes[0], &wait));
    GIVES(cudaErrorNotSupported, cudaGraphConditionalHandleCreate(&handle, graph, 0, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphConditionalHandleCreate(NULL, graph, 0, 0));
    GIVES(cudaErrorNotSupported, cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch));
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiate(&exec, graph, 1 << 10));
    /* Edges with such data would start the second node before the first has ended, so they are refused. */
    OK(cudaGraphAddEmptyNode(&nodes[1], graph, NULL, 0));
    data.type = cudaGraphDependencyTypeProgrammatic;
    data.from_port = cudaGraphKernelNodePortProgrammatic;
    GIVES(cudaErrorNotSupported, cudaGraphAddDependencies(graph, &nodes[0], &nodes[1], &data, 1));
    GIVES(cudaErrorInvalidValue, cudaGraphRemoveDependencies(graph, &nodes[0], &nodes[1], &data, 1));
    data = (cudaGraphEdgeData){.reserved = {1}};
    GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &nodes[0], &nodes[1], &data, 1));
    data = (cudaGraphEdgeData){.type = 0};
    OK(cudaGraphAddDependencies(graph, &nodes[0], &nodes[1], &data, 1));
    OK(cudaGraphRemoveDependencies(graph, &nodes[0], &nodes[1], &data, 1));
    OK(cudaGraphDestroy(graph));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(kernels_are_nodes),
    cmocka_unit_test(wrong_kernels_are_refused),
    cmocka_unit_test(kernels_of_libraries_are_nodes),
    cmocka_unit_test(attributes_are_kept),
    cmocka_unit_test(copies_are_nodes),
    cmocka_unit_test(arrays_are_copied_by_nodes),
    cmocka_unit_test(symbols_are_copied_by_nodes),
    cmocka_unit_test(wrong_copies_are_refused),
    cmocka_unit_test(fills_are_nodes),
    cmocka_unit_test(host_functions_are_nodes),
    cmocka_unit_test(events_are_nodes),
    cmocka_unit_test(graphs_are_nodes),
    cmocka_unit_test(child_graphs_can_be_moved),
    cmocka_unit_test(one_call_adds_them_all),
    cmocka_unit_test(what_there_is_not_is_refused),
};

int main(void)
{
    int wrong = cmocka_run_group_tests(tests, set_up, NULL);

    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}
