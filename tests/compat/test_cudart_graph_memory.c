/*
 * test_cudart_graph_memory.c - tests memory that graph nodes allocate: its addresses, when a program may use it,
 * what frees it, and how much of it the device keeps.
 */
#include <cuda_runtime.h>

#include "compat.h"

#include <leat/device_code.h>

#define BYTES ((size_t)4096)

static cudaStream_t stream, other;
static unsigned char *pinned;
static gate open_now;

LEAT_KERNEL(fill_all, 3, unsigned char *, data, uint64_t, count, uint8_t, value)
{
    LEAT_FOR (i, count)
        data[i] = value;
}

static uint64_t figure(enum cudaGraphMemAttributeType which)
{
    uint64_t value = UINT64_MAX;

    OK(cudaDeviceGetGraphMemAttribute(0, which, &value));
    return value;
}

/* Makes an executable graph that allocates memory and fills it with value, but does not free it. */
static unsigned char *make_filler(size_t bytes, int value, unsigned long long flags, cudaGraph_t *graph,
                                  cudaGraphExec_t *exec)
{
    unsigned char *memory;

    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync((void **)&memory, bytes, stream));
    OK(cudaMemsetAsync(memory, value, bytes, stream));
    OK(cudaStreamEndCapture(stream, graph));
    OK(cudaGraphInstantiate(exec, *graph, flags));
    return memory;
}

static void has_value(const unsigned char *memory, size_t bytes, unsigned char value)
{
    OK(cudaMemcpy(pinned, memory, bytes, cudaMemcpyDefault));
    HAS_BYTES(pinned, bytes, value);
}

static void end(cudaGraph_t graph, cudaGraphExec_t exec)
{
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

/* ---- who may use the addresses ---- */

enum { TAKEN = 64 };

/* Allocates and fills blocks, by cudaMalloc() and cudaMallocAsync() in turn. */
static void take_blocks(unsigned char **blocks)
{
    for (int i = 0; i < TAKEN; i++) {
        if (i % 2)
            OK(cudaMallocAsync((void **)&blocks[i], BYTES, stream));
        else
            OK(cudaMalloc((void **)&blocks[i], BYTES));
        OK(cudaMemsetAsync(blocks[i], 9, BYTES, stream));
    }
}

static void give_blocks_back(unsigned char **blocks)
{
    for (int i = 0; i < TAKEN; i++) {
        has_value(blocks[i], BYTES, 9);
        OK(cudaFreeAsync(blocks[i], stream));
    }
    OK(cudaStreamSynchronize(stream));
}

static void a_launch_writes_into_nobody_elses_memory(void **state)
{
    unsigned char *memory, *blocks[TAKEN];
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    memory = make_filler(BYTES, 6, 0, &graph, &exec);
    for (int round = 0; round < 4; round++) {
        OK(cudaGraphLaunch(exec, stream));
        has_value(memory, BYTES, 6);
        if (round % 2)
            OK(cudaFree(memory));
        else
            OK(cudaFreeAsync(memory, stream));
        take_blocks(blocks);
        OK(cudaGraphLaunch(exec, stream)); /* the graph allocates the same addresses again */
        has_value(memory, BYTES, 6);
        give_blocks_back(blocks);
        OK(cudaFree(memory));
    }
    end(graph, exec);
}

/* No other allocation gets the addresses while the memory is live, even after the graph is destroyed. */
static void live_memory_outlives_its_graph(void **state)
{
    unsigned char *memory, *blocks[TAKEN];
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    memory = make_filler(BYTES, 6, 0, &graph, &exec);
    OK(cudaGraphLaunch(exec, stream));
    end(graph, exec);
    take_blocks(blocks);
    has_value(memory, BYTES, 6);
    give_blocks_back(blocks);
    assert_int_equal(figure(cudaGraphMemAttrUsedMemCurrent), BYTES);
    OK(cudaFreeAsync(memory, stream));
    OK(cudaStreamSynchronize(stream));
    GIVES(cudaErrorInvalidValue, cudaFree(memory));
    assert_int_equal(figure(cudaGraphMemAttrUsedMemCurrent), 0);
    assert_int_equal(figure(cudaGraphMemAttrReservedMemCurrent), 0);
}

/* ---- when it may be used ---- */

/* Checks that calls refuse the memory: before the graph's first launch and after the memory was freed. */
static void is_nobodys(unsigned char *memory)
{
    GIVES(cudaErrorInvalidValue, cudaMemset(memory, 1, BYTES));
    GIVES(cudaErrorInvalidValue, cudaMemset(memory + 5, 1, 1));
    GIVES(cudaErrorInvalidValue, cudaMemsetAsync(memory, 1, BYTES, stream));
    GIVES(cudaErrorInvalidValue, cudaMemset2DAsync(memory, 64, 1, 32, 4, stream));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(memory, pinned, BYTES, cudaMemcpyDefault));
    GIVES(cudaErrorInvalidValue, cudaMemcpyAsync(pinned, memory, BYTES, cudaMemcpyDefault, stream));
    GIVES(cudaErrorInvalidValue, cudaMemcpy2D(pinned, 64, memory, 64, 32, 4, cudaMemcpyDefault));
    GIVES(cudaErrorInvalidValue, cudaFree(memory));
    GIVES(cudaErrorInvalidValue, cudaFreeAsync(memory, stream));
}

static void memory_is_live_from_its_launch_until_it_is_freed(void **state)
{
    struct cudaPointerAttributes attributes;
    cudaIpcMemHandle_t handle;
    unsigned char *memory;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    memory = make_filler(BYTES, 6, 0, &graph, &exec);
    is_nobodys(memory);
    for (int i = 0; i < 2; i++) {
        OK(cudaGraphLaunch(exec, stream));
        GIVES(cudaErrorInvalidValue, cudaFree(memory + 1));
        GIVES(cudaErrorInvalidValue, cudaFreeAsync(memory + 512, stream));
        OK(cudaMemset(memory, 3, 7));
        OK(cudaPointerGetAttributes(&attributes, memory + 100));
        assert_int_equal(attributes.type, cudaMemoryTypeDevice);
        assert_int_equal(attributes.device, 0);
        assert_true(cudaIpcGetMemHandle(&handle, memory) != cudaSuccess);
        OK(cudaFree(memory));
        is_nobodys(memory);
    }
    end(graph, exec);
    is_nobodys(memory);
}

static void a_launch_wants_the_memory_freed(void **state)
{
    unsigned char *memory;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    memory = make_filler(BYTES, 6, 0, &graph, &exec);
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaMemset(memory, 1, BYTES));
    GIVES(cudaErrorInvalidValue, cudaGraphLaunch(exec, stream));
    has_value(memory, BYTES, 1); /* the failed launch did not run */
    OK(cudaFreeAsync(memory, stream));
    OK(cudaGraphLaunch(exec, stream));
    has_value(memory, BYTES, 6);
    OK(cudaFree(memory));
    end(graph, exec);

    memory = make_filler(BYTES, 7, cudaGraphInstantiateFlagAutoFreeOnLaunch, &graph, &exec);
    for (int i = 0; i < 3; i++) {
        OK(cudaGraphLaunch(exec, stream));
        has_value(memory, BYTES, 7);
        OK(cudaMemset(memory, 1, BYTES));
    }
    assert_int_equal(figure(cudaGraphMemAttrUsedMemCurrent), BYTES);
    OK(cudaFree(memory));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaGraphExecDestroy(exec));
    has_value(memory, BYTES, 7);
    OK(cudaFree(memory));
    OK(cudaGraphDestroy(graph));
}

/* Another stream, which a gate holds up, frees the memory. The next launch must not write to the memory before
 * that free. */
static void a_launch_comes_after_what_freed_its_memory(void **state)
{
    unsigned char *memory;
    cudaGraphExec_t exec;
    cudaEvent_t filled;
    cudaGraph_t graph;

    (void)state;
    memory = make_filler(BYTES, 6, 0, &graph, &exec);
    OK(cudaEventCreate(&filled));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaMemsetAsync(memory, 5, BYTES, stream));
    OK(cudaEventRecord(filled, stream));
    OK(cudaStreamWaitEvent(other, filled, 0));
    atomic_store(&open_now, 0);
    OK(cudaLaunchHostFunc(other, wait_at_gate, &open_now));
    OK(cudaMemcpyAsync(pinned, memory, BYTES, cudaMemcpyDeviceToHost, other));
    OK(cudaFreeAsync(memory, other));
    OK(cudaGraphLaunch(exec, stream));
    for (int i = 0; i < 20; i++) {
        GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
        sleep_ms(1);
    }
    atomic_store(&open_now, 1);
    OK(cudaStreamSynchronize(other));
    HAS_BYTES(pinned, BYTES, 5);
    has_value(memory, BYTES, 6);
    OK(cudaFree(memory));
    OK(cudaEventDestroy(filled));
    end(graph, exec);
}

/* ---- what frees it ---- */

static void a_graph_frees_what_it_allocated(void **state)
{
    unsigned char *memory, *block;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaMalloc((void **)&block, BYTES));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync((void **)&memory, BYTES, stream));
    OK(cudaMemsetAsync(memory, 6, BYTES, stream));
    OK(cudaMemcpyAsync(block, memory, BYTES, cudaMemcpyDeviceToDevice, stream));
    OK(cudaFreeAsync(memory, stream));
    GIVES(cudaErrorInvalidValue, cudaFreeAsync(memory, stream));
    GIVES(cudaErrorInvalidValue, cudaFreeAsync(block, stream)); /* not a graph's memory */
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        OK(cudaMemset(block, 0, BYTES));
        OK(cudaDeviceSynchronize());
        OK(cudaGraphLaunch(exec, i % 2 ? other : stream));
        OK(cudaDeviceSynchronize());
        has_value(block, BYTES, 6);
        is_nobodys(memory);
        assert_int_equal(figure(cudaGraphMemAttrUsedMemCurrent), 0);
    }
    end(graph, exec);
    OK(cudaFree(block));
}

static void another_graph_frees_it(void **state)
{
    cudaGraphExec_t exec, freeing;
    cudaGraph_t graph, frees, third;
    cudaGraphNode_t node, again;
    unsigned char *memory;
    void *given = NULL;

    (void)state;
    memory = make_filler(BYTES, 6, 0, &graph, &exec);
    OK(cudaGraphCreate(&frees, 0));
    OK(cudaGraphAddMemFreeNode(&node, frees, NULL, 0, memory));
    OK(cudaGraphMemFreeNodeGetParams(node, &given));
    assert_ptr_equal(given, memory);
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&again, frees, NULL, 0, memory));
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&again, graph, NULL, 0, memory));
    OK(cudaGraphCreate(&third, 0));
    OK(cudaGraphAddMemFreeNode(&again, third, NULL, 0, memory)); /* either of the two graphs may free the memory */
    OK(cudaGraphInstantiate(&freeing, frees, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphLaunch(freeing, stream));
    for (int i = 0; i < 3; i++) {
        OK(cudaGraphLaunch(exec, stream));
        GIVES(cudaErrorInvalidValue, cudaGraphLaunch(exec, stream));
        has_value(memory, BYTES, 6);
        OK(cudaGraphLaunch(freeing, stream));
        GIVES(cudaErrorInvalidValue, cudaGraphLaunch(freeing, stream));
        is_nobodys(memory);
    }
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaFree(memory));
    GIVES(cudaErrorInvalidValue, cudaGraphLaunch(freeing, stream));
    end(frees, freeing);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaFreeAsync(memory, stream)); /* a captured free may free the memory too */
    OK(cudaStreamEndCapture(stream, &frees));
    OK(cudaGraphInstantiate(&freeing, frees, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphLaunch(freeing, stream));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaGraphLaunch(freeing, stream));
    is_nobodys(memory);
    end(frees, freeing);
    OK(cudaGraphDestroy(third));
    OK(cudaGraphAddMemFreeNode(&again, graph, NULL, 0, memory)); /* the graph itself may free it again, because no
                                                                  * other node does */
    end(graph, exec);
    OK(cudaDeviceSynchronize());
    assert_int_equal(figure(cudaGraphMemAttrReservedMemCurrent), 0);
}

/* ---- what the device keeps ---- */

static void figures_are_true(void **state)
{
    size_t large = (size_t)5 << 20;
    uint64_t reserved, zero = 0, one = 1;
    cudaGraphExec_t exec, second_exec;
    cudaGraph_t graph, second;
    unsigned char *memory, *more;

    (void)state;
    OK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero));
    OK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &zero));
    for (int i = 0; i < 4; i++)
        assert_int_equal(figure((enum cudaGraphMemAttributeType)i), 0);
    memory = make_filler(large, 1, 0, &graph, &exec);
    more = make_filler(1, 2, 0, &second, &second_exec);
    assert_int_equal(figure(cudaGraphMemAttrReservedMemCurrent), 0); /* none before the first launch */
    OK(cudaGraphLaunch(exec, stream));
    assert_int_equal(figure(cudaGraphMemAttrUsedMemCurrent), large);
    reserved = figure(cudaGraphMemAttrReservedMemCurrent);
    assert_true(reserved >= large);
    OK(cudaGraphLaunch(second_exec, stream));
    assert_true(figure(cudaGraphMemAttrUsedMemCurrent) > large);
    assert_true(figure(cudaGraphMemAttrReservedMemCurrent) > reserved);
    OK(cudaFree(memory));
    assert_true(figure(cudaGraphMemAttrUsedMemCurrent) < large);
    assert_true(figure(cudaGraphMemAttrUsedMemHigh) > large);
    OK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero));
    assert_int_equal(figure(cudaGraphMemAttrUsedMemHigh), figure(cudaGraphMemAttrUsedMemCurrent));
    assert_true(figure(cudaGraphMemAttrReservedMemCurrent) > reserved); /* the device keeps the memory for the
                                                                         * graph */

    OK(cudaDeviceGraphMemTrim(0)); /* gives back the memory that is not live */
    assert_in_range(figure(cudaGraphMemAttrReservedMemCurrent), 1, large - 1);
    assert_true(figure(cudaGraphMemAttrReservedMemHigh) > reserved);
    has_value(more, 1, 2);
    OK(cudaGraphLaunch(exec, stream));
    has_value(memory, BYTES, 1);
    OK(cudaFree(memory));
    OK(cudaFree(more));
    end(graph, exec);
    end(second, second_exec);
    OK(cudaDeviceSynchronize());
    assert_int_equal(figure(cudaGraphMemAttrUsedMemCurrent), 0);
    assert_int_equal(figure(cudaGraphMemAttrReservedMemCurrent), 0);

    GIVES(cudaErrorInvalidValue, cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &one));
    GIVES(cudaErrorInvalidValue, cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &zero));
    GIVES(cudaErrorInvalidValue, cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, NULL));
    GIVES(cudaErrorInvalidValue, cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, NULL));
    GIVES(cudaErrorInvalidValue, cudaDeviceGetGraphMemAttribute(0, (enum cudaGraphMemAttributeType)4, &one));
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetGraphMemAttribute(99, cudaGraphMemAttrUsedMemHigh, &one));
    GIVES(cudaErrorInvalidDevice, cudaDeviceSetGraphMemAttribute(-1, cudaGraphMemAttrUsedMemHigh, &zero));
    GIVES(cudaErrorInvalidDevice, cudaDeviceGraphMemTrim(99));
}

/* Makes a graph with a gate in the middle: it allocates, waits at the gate, fills, copies the result out, and
 * frees. */
static void make_held(cudaGraph_t *graph, cudaGraphExec_t *exec)
{
    void *memory;

    atomic_store(&open_now, 0);
    memset(pinned, 0, BYTES);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync(&memory, BYTES, stream));
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &open_now));
    OK(cudaMemsetAsync(memory, 8, BYTES, stream));
    OK(cudaMemcpyAsync(pinned, memory, BYTES, cudaMemcpyDeviceToHost, stream));
    OK(cudaFreeAsync(memory, stream));
    OK(cudaStreamEndCapture(stream, graph));
    OK(cudaGraphInstantiate(exec, *graph, 0));
}

static void memory_stays_while_work_needs_it(void **state)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    make_held(&graph, &exec);
    OK(cudaGraphLaunch(exec, stream));
    assert_int_equal(figure(cudaGraphMemAttrUsedMemCurrent), 0); /* a free takes effect when it is submitted */
    OK(cudaDeviceGraphMemTrim(0));
    assert_true(figure(cudaGraphMemAttrReservedMemCurrent) > 0);
    end(graph, exec);
    assert_true(figure(cudaGraphMemAttrReservedMemCurrent) > 0);
    atomic_store(&open_now, 1);
    OK(cudaStreamSynchronize(stream));
    HAS_BYTES(pinned, BYTES, 8);
    assert_int_equal(figure(cudaGraphMemAttrReservedMemCurrent), 0);

    make_held(&graph, &exec);
    OK(cudaGraphLaunch(exec, stream));
    atomic_store(&open_now, 1);
    OK(cudaStreamSynchronize(stream));
    OK(cudaDeviceGraphMemTrim(0));
    assert_int_equal(figure(cudaGraphMemAttrReservedMemCurrent), 0);
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    HAS_BYTES(pinned, BYTES, 8);
    end(graph, exec);
    OK(cudaDeviceSynchronize());
}

static void an_upload_takes_the_memory(void **state)
{
    cudaGraphInstantiateParams params = {.flags = cudaGraphInstantiateFlagUpload, .uploadStream = stream};
    unsigned char *memory;
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    uint64_t reserved;

    (void)state;
    memory = make_filler(BYTES, 6, 0, &graph, &exec);
    OK(cudaGraphUpload(exec, stream));
    reserved = figure(cudaGraphMemAttrReservedMemCurrent);
    assert_true(reserved > 0);
    is_nobodys(memory);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaDeviceGraphMemTrim(0));
    assert_int_equal(figure(cudaGraphMemAttrReservedMemCurrent), 0);
    OK(cudaGraphInstantiateWithParams(&exec, graph, &params));
    assert_int_equal(params.result_out, cudaGraphInstantiateSuccess);
    assert_int_equal(figure(cudaGraphMemAttrReservedMemCurrent), reserved);
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaFree(memory));
    end(graph, exec);
}

/* A launch for which there is no memory fails, runs nothing and changes nothing. */
static void a_launch_may_find_no_memory(void **state)
{
    unsigned char *memory;
    size_t left, all;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    OK(cudaMemGetInfo(&left, &all));
    memory = make_filler(all + ((size_t)64 << 20), 6, 0, &graph, &exec);
    for (int i = 0; i < 2; i++)
        GIVES(cudaErrorMemoryAllocation, cudaGraphLaunch(exec, stream));
    GIVES(cudaErrorMemoryAllocation, cudaGraphUpload(exec, stream));
    assert_int_equal(figure(cudaGraphMemAttrUsedMemCurrent), 0);
    assert_int_equal(figure(cudaGraphMemAttrReservedMemCurrent), 0);
    is_nobodys(memory);
    end(graph, exec);
}

/* If a capture fails, the memory that it has allocated is freed too. */
static void spoilt_captures_keep_nothing(void **state)
{
    void *memory;
    cudaGraph_t graph;

    (void)state;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync(&memory, BYTES, stream));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(stream));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    GIVES(cudaErrorInvalidValue, cudaFree(memory));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync(&memory, 0, stream));
    assert_null(memory);
    GIVES(cudaErrorMemoryAllocation, cudaMallocAsync(&memory, SIZE_MAX - 100, stream));
    GIVES(cudaErrorMemoryAllocation, cudaMallocAsync(&memory, SIZE_MAX / 2, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphDestroy(graph));
    assert_int_equal(figure(cudaGraphMemAttrReservedMemCurrent), 0);
}

/* ---- nodes added by calls ---- */

static struct cudaMemAllocNodeParams allocation(size_t bytes)
{
    return (struct cudaMemAllocNodeParams){
        .poolProps = {.allocType = cudaMemAllocationTypePinned, .location = {cudaMemLocationTypeDevice, 0}},
        .bytesize = bytes};
}

static void nodes_allocate_and_free(void **state)
{
    struct cudaMemAllocNodeParams params = allocation(BYTES), given;
    struct cudaMemsetParams fill = {.value = 5, .elementSize = 1, .width = BYTES, .height = 1};
    cudaGraphNode_t alloc, second, filled, copied, freed;
    enum cudaGraphNodeType type;
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    void *ptr;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
    assert_non_null(params.dptr);
    assert_int_equal((uintptr_t)params.dptr % 256, 0);
    OK(cudaGraphNodeGetType(alloc, &type));
    assert_int_equal(type, cudaGraphNodeTypeMemAlloc);
    OK(cudaGraphMemAllocNodeGetParams(alloc, &given));
    assert_memory_equal(&given, &params, sizeof params);
    given = allocation(BYTES);
    OK(cudaGraphAddMemAllocNode(&second, graph, &alloc, 1, &given));
    assert_ptr_not_equal(given.dptr, params.dptr);
    fill.dst = params.dptr;
    OK(cudaGraphAddMemsetNode(&filled, graph, &second, 1, &fill));
    OK(cudaGraphAddMemcpyNode1D(&copied, graph, &filled, 1, given.dptr, params.dptr, BYTES, cudaMemcpyDefault));
    OK(cudaGraphAddMemFreeNode(&freed, graph, &copied, 1, params.dptr));
    OK(cudaGraphNodeGetType(freed, &type));
    assert_int_equal(type, cudaGraphNodeTypeMemFree);
    OK(cudaGraphMemFreeNodeGetParams(freed, &ptr));
    assert_ptr_equal(ptr, params.dptr);
    OK(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    for (int i = 0; i < 3; i++) {
        OK(cudaGraphLaunch(exec, stream));
        has_value(given.dptr, BYTES, 5);
        OK(cudaMemset(given.dptr, 1, BYTES));
    }
    is_nobodys(params.dptr);
    OK(cudaFree(given.dptr));
    end(graph, exec);
}

static void graphs_with_memory_are_not_changed_or_copied(void **state)
{
    struct cudaMemAllocNodeParams params = allocation(BYTES);
    struct cudaGraphNodeParams any = {.type = cudaGraphNodeTypeMemAlloc};
    cudaGraphNode_t alloc, freed, more, node;
    cudaGraph_t graph, clone, parent;
    cudaGraphExec_t exec, second;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
    OK(cudaGraphAddEmptyNode(&more, graph, NULL, 0));
    OK(cudaGraphAddMemFreeNode(&freed, graph, &alloc, 1, params.dptr));
    OK(cudaGraphAddDependencies(graph, &alloc, &more, NULL, 1));
    GIVES(cudaErrorNotSupported, cudaGraphRemoveDependencies(graph, &alloc, &more, NULL, 1));
    GIVES(cudaErrorNotSupported, cudaGraphDestroyNode(more));
    GIVES(cudaErrorNotSupported, cudaGraphClone(&clone, graph));
    OK(cudaGraphCreate(&parent, 0));
    GIVES(cudaErrorNotSupported, cudaGraphAddChildGraphNode(&node, parent, NULL, 0, graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    GIVES(cudaErrorNotSupported, cudaGraphInstantiate(&second, graph, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphNodeSetEnabled(exec, alloc, 0));
    any.alloc.poolProps = params.poolProps;
    any.alloc.bytesize = BYTES;
    GIVES(cudaErrorNotSupported, cudaGraphNodeSetParams(alloc, &any));
    GIVES(cudaErrorNotSupported, cudaGraphExecNodeSetParams(exec, alloc, &any));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorNotSupported, cudaGraphLaunch(exec, stream));
    OK(cudaStreamEndCapture(stream, &clone));
    OK(cudaGraphDestroy(clone));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphInstantiate(&second, graph, 0));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphLaunch(second, stream));
    OK(cudaGraphExecDestroy(second));
    OK(cudaGraphDestroy(parent));
    OK(cudaDeviceSynchronize());
}

static void wrong_allocations_are_refused(void **state)
{
    struct cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
    struct cudaMemAllocNodeParams params;
    cudaGraphNode_t node;
    cudaGraph_t graph, gone;
    unsigned char *block;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphCreate(&gone, 0));
    OK(cudaGraphDestroy(gone));
    OK(cudaMalloc((void **)&block, BYTES));
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemAllocNode(&node, graph, NULL, 0, NULL));
    params = allocation(0);
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    params = allocation(BYTES);
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemAllocNode(NULL, graph, NULL, 0, &params));
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemAllocNode(&node, gone, NULL, 0, &params));
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemAllocNode(&node, graph, NULL, 1, &params));
    params.poolProps.location.id = 99;
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    params = allocation(BYTES);
    params.poolProps.location.type = cudaMemLocationTypeHost;
    GIVES(cudaErrorNotSupported, cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    params = allocation(BYTES);
    params.poolProps.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    GIVES(cudaErrorNotSupported, cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    params = allocation(BYTES);
    params.poolProps.allocType = cudaMemAllocationTypeInvalid;
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    params = allocation(BYTES);
    params.accessDescCount = 1;
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    params.accessDescs = &access;
    access.location.id = 99;
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    access.location.id = 1;
    access.flags = cudaMemAccessFlagsProtRead;
    GIVES(cudaErrorNotSupported, cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    access.flags = (enum cudaMemAccessFlags)7;
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    params = allocation(SIZE_MAX / 4);
    GIVES(cudaErrorMemoryAllocation, cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&node, graph, NULL, 0, NULL));
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&node, graph, NULL, 0, block));
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&node, graph, NULL, 0, pinned));
    params = allocation(BYTES);
    OK(cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&node, graph, NULL, 0, (char *)params.dptr + 1));
    GIVES(cudaErrorInvalidValue, cudaGraphMemFreeNodeGetParams(node, &block));
    GIVES(cudaErrorInvalidValue, cudaGraphMemAllocNodeGetParams(node, NULL));
    OK(cudaFree(block));
    OK(cudaGraphDestroy(graph));
}

/* Two devices may access the memory of a graph. */
static void other_devices_may_have_access(void **state)
{
    struct cudaMemAccessDesc access[2] = {{{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite},
                                          {{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite}};
    struct cudaMemAllocNodeParams params = allocation(BYTES), given;
    dim3 grid = {4, 1, 1}, block = {64, 1, 1};
    uint64_t count = BYTES;
    uint8_t value = 0x5a;
    void *args[3];
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    cudaStream_t there;
    cudaGraph_t graph;

    (void)state;
    params.accessDescs = access;
    params.accessDescCount = 2;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    OK(cudaGraphMemAllocNodeGetParams(node, &given));
    assert_int_equal(given.accessDescCount, 2);
    assert_memory_equal(given.accessDescs, access, sizeof access);
    assert_ptr_not_equal(given.accessDescs, access);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&there));
    args[0] = &params.dptr;
    args[1] = &count;
    args[2] = &value;
    OK(cudaLaunchKernel(&leat_cpu_kernel_fill_all, grid, block, args, 0, there));
    OK(cudaStreamSynchronize(there));
    OK(cudaStreamDestroy(there));
    OK(cudaSetDevice(0));
    has_value(params.dptr, BYTES, 0x5a);
    OK(cudaFree(params.dptr));
    end(graph, exec);
}

/* A device reset frees the memory of graphs. Later uses of the graphs are refused. */
static void a_reset_takes_all(void **state)
{
    cudaGraphExec_t exec, idle;
    cudaGraph_t graph, idle_graph;
    unsigned char *memory, *never;

    (void)state;
    memory = make_filler(BYTES, 6, 0, &graph, &exec);
    never = make_filler(BYTES, 6, 0, &idle_graph, &idle);
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaDeviceReset());
    assert_int_equal(figure(cudaGraphMemAttrUsedMemCurrent), 0);
    assert_int_equal(figure(cudaGraphMemAttrReservedMemCurrent), 0);
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamCreate(&other));
    OK(cudaMallocHost((void **)&pinned, BYTES));
    GIVES(cudaErrorInvalidValue, cudaFree(memory));
    GIVES(cudaErrorInvalidValue, cudaFree(never));
    GIVES(cudaErrorInvalidValue, cudaGraphLaunch(exec, stream));
    GIVES(cudaErrorInvalidValue, cudaGraphLaunch(idle, stream));
    end(graph, exec);
    end(idle_graph, idle);
    memory = make_filler(BYTES, 6, 0, &graph, &exec);
    OK(cudaGraphLaunch(exec, stream));
    has_value(memory, BYTES, 6);
    OK(cudaFree(memory));
    end(graph, exec);
}

static int set_up(void **state)
{
    (void)state;
    return cudaStreamCreate(&stream) || cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) ||
           cudaMallocHost((void **)&pinned, BYTES);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_launch_writes_into_nobody_elses_memory),
    cmocka_unit_test(live_memory_outlives_its_graph),
    cmocka_unit_test(memory_is_live_from_its_launch_until_it_is_freed),
    cmocka_unit_test(a_launch_wants_the_memory_freed),
    cmocka_unit_test(a_launch_comes_after_what_freed_its_memory),
    cmocka_unit_test(a_graph_frees_what_it_allocated),
    cmocka_unit_test(another_graph_frees_it),
    cmocka_unit_test(figures_are_true),
    cmocka_unit_test(memory_stays_while_work_needs_it),
    cmocka_unit_test(an_upload_takes_the_memory),
    cmocka_unit_test(a_launch_may_find_no_memory),
    cmocka_unit_test(spoilt_captures_keep_nothing),
    cmocka_unit_test(nodes_allocate_and_free),
    cmocka_unit_test(graphs_with_memory_are_not_changed_or_copied),
    cmocka_unit_test(wrong_allocations_are_refused),
    cmocka_unit_test(other_devices_may_have_access),
    cmocka_unit_test(a_reset_takes_all),
};

int main(void)
{
    int wrong = cmocka_run_group_tests(tests, set_up, NULL);

    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}
