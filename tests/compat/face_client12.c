/*
 * face_client12.c - a program that was linked with libcudart.so.12: calls the functions whose form CUDA 13
 * changed. They are declared here as CUDA 12 has them, under other names, because leat's header has those of
 * CUDA 13.
 */
#include <cuda_runtime.h>

#include "compat.h"

#define TWELVE(name, own, ...) cudaError_t own(__VA_ARGS__) __asm__(#name)

struct pointer_attributes {
    enum cudaMemoryType type;
    int device;
    void *device_pointer, *host_pointer;
};

TWELVE(cudaGetDeviceProperties_v2, get_properties, void *properties, int device);
TWELVE(cudaChooseDevice, choose_device, int *device, const void *properties);
TWELVE(cudaPointerGetAttributes, get_attributes, struct pointer_attributes *attributes, const void *ptr);
TWELVE(cudaMemAdvise, advise, const void *ptr, size_t bytes, enum cudaMemoryAdvise advice, int device);
TWELVE(cudaMemAdvise_v2, advise_v2, const void *ptr, size_t bytes, enum cudaMemoryAdvise advice,
       struct cudaMemLocation place);
TWELVE(cudaMemPrefetchAsync, prefetch, const void *ptr, size_t bytes, int device, cudaStream_t stream);
TWELVE(cudaMemPrefetchAsync_ptsz, prefetch_ptsz, const void *ptr, size_t bytes, int device, cudaStream_t stream);
TWELVE(cudaMemPrefetchAsync_v2, prefetch_v2, const void *ptr, size_t bytes, struct cudaMemLocation place,
       unsigned flags, cudaStream_t stream);
TWELVE(cudaMemcpyBatchAsync, copy_batch, void **dsts, void **srcs, size_t *sizes, size_t count,
       struct cudaMemcpyAttributes *attributes, size_t *indexes, size_t attribute_count, size_t *failed,
       cudaStream_t stream);
TWELVE(cudaMemcpy3DBatchAsync, copy_3d_batch, size_t count, struct cudaMemcpy3DBatchOp *copies, size_t *failed,
       unsigned long long flags, cudaStream_t stream);
TWELVE(cudaStreamGetCaptureInfo_v2, capture_info, cudaStream_t stream, enum cudaStreamCaptureStatus *status,
       unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *count);
TWELVE(cudaStreamGetCaptureInfo_v3, capture_info_v3, cudaStream_t stream, enum cudaStreamCaptureStatus *status,
       unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
       size_t *count);
TWELVE(cudaStreamGetCaptureInfo, capture_info_v1, cudaStream_t stream, enum cudaStreamCaptureStatus *status,
       unsigned long long *id);
TWELVE(cudaStreamUpdateCaptureDependencies, capture_update, cudaStream_t stream, cudaGraphNode_t *nodes,
       size_t count, unsigned flags);
TWELVE(cudaStreamUpdateCaptureDependencies_v2, capture_update_v2, cudaStream_t stream, cudaGraphNode_t *nodes,
       const cudaGraphEdgeData *edges, size_t count, unsigned flags);
TWELVE(cudaGraphAddNode, add_node, cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
       size_t count, struct cudaGraphNodeParams *params);
TWELVE(cudaGraphAddNode_v2, add_node_v2, cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
       const cudaGraphEdgeData *edges, size_t count, struct cudaGraphNodeParams *params);
TWELVE(cudaGraphAddDependencies, add_edges, cudaGraph_t graph, const cudaGraphNode_t *from,
       const cudaGraphNode_t *to, size_t count);
TWELVE(cudaGraphAddDependencies_v2, add_edges_v2, cudaGraph_t graph, const cudaGraphNode_t *from,
       const cudaGraphNode_t *to, const cudaGraphEdgeData *edges, size_t count);
TWELVE(cudaGraphRemoveDependencies, remove_edges, cudaGraph_t graph, const cudaGraphNode_t *from,
       const cudaGraphNode_t *to, size_t count);
TWELVE(cudaGraphRemoveDependencies_v2, remove_edges_v2, cudaGraph_t graph, const cudaGraphNode_t *from,
       const cudaGraphNode_t *to, const cudaGraphEdgeData *edges, size_t count);
TWELVE(cudaGraphGetEdges, get_edges, cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count);
TWELVE(cudaGraphGetEdges_v2, get_edges_v2, cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
       cudaGraphEdgeData *edges, size_t *count);
TWELVE(cudaGraphNodeGetDependencies, get_before, cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count);
TWELVE(cudaGraphNodeGetDependencies_v2, get_before_v2, cudaGraphNode_t node, cudaGraphNode_t *nodes,
       cudaGraphEdgeData *edges, size_t *count);
TWELVE(cudaGraphNodeGetDependentNodes, get_after, cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count);
TWELVE(cudaGraphNodeGetDependentNodes_v2, get_after_v2, cudaGraphNode_t node, cudaGraphNode_t *nodes,
       cudaGraphEdgeData *edges, size_t *count);
TWELVE(cudaEventElapsedTime_v2, elapsed, float *milliseconds, cudaEvent_t start, cudaEvent_t end);

/* Offsets and the size of cudaDeviceProp in CUDA 12. */
enum {
    TOTAL_MEMORY = 288,
    CLOCK_RATE = 348,
    MAJOR = 360,
    UNITS = 388,
    MEMORY_CLOCK = 608,
    SHARED_OPTIN = 696,
    SIZE = 1032
};

static int int_at(const char *properties, size_t offset)
{
    int value;

    memcpy(&value, properties + offset, sizeof value);
    return value;
}

static int attribute(enum cudaDeviceAttr number)
{
    int value = 0;

    OK(cudaDeviceGetAttribute(&value, number, 0));
    return value;
}

static void structs_have_their_old_size(void **state)
{
    struct pointer_attributes attributes[2];
    char properties[SIZE + 8];
    int device = -1, version;
    size_t total, free_bytes, shared;
    void *memory;

    (void)state;
    OK(cudaRuntimeGetVersion(&version));
    assert_int_equal(version, 12080);
    memset(properties, 0x5a, sizeof properties);
    OK(get_properties(properties, 0));
    HAS_BYTES(properties + SIZE, 8, 0x5a);
    OK(cudaMemGetInfo(&free_bytes, &total));
    memcpy(&shared, properties + TOTAL_MEMORY, sizeof shared);
    assert_int_equal(shared, total);
    assert_int_equal(int_at(properties, CLOCK_RATE), attribute(cudaDevAttrClockRate));
    assert_int_equal(int_at(properties, MAJOR), attribute(cudaDevAttrComputeCapabilityMajor));
    assert_int_equal(int_at(properties, UNITS), attribute(cudaDevAttrMultiProcessorCount));
    assert_int_equal(int_at(properties, MEMORY_CLOCK), attribute(cudaDevAttrMemoryClockRate));
    memcpy(&shared, properties + SHARED_OPTIN, sizeof shared);
    assert_int_equal(shared, attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    GIVES(cudaErrorInvalidValue, get_properties(NULL, 0));
    GIVES(cudaErrorInvalidDevice, get_properties(properties, 99));
    OK(choose_device(&device, properties));
    assert_int_equal(device, 0);
    GIVES(cudaErrorInvalidValue, choose_device(&device, NULL));

    OK(cudaMalloc(&memory, 64));
    memset(attributes, 0x5a, sizeof attributes);
    OK(get_attributes(attributes, memory));
    assert_int_equal(attributes[0].type, cudaMemoryTypeDevice);
    assert_int_equal(attributes[0].device, 0);
    assert_ptr_equal(attributes[0].device_pointer, memory);
    HAS_BYTES(&attributes[1], sizeof attributes[1], 0x5a);
    GIVES(cudaErrorInvalidValue, get_attributes(NULL, memory));
    OK(cudaFree(memory));
    (void)cudaGetLastError();
}

static void places_are_device_numbers(void **state)
{
    struct cudaMemLocation second = {cudaMemLocationTypeDevice, 1};
    int place = 77;
    void *memory;

    (void)state;
    OK(cudaMallocManaged(&memory, 8192, cudaMemAttachGlobal));
    OK(advise(memory, 8192, cudaMemAdviseSetPreferredLocation, 1));
    OK(cudaMemRangeGetAttribute(&place, sizeof place, cudaMemRangeAttributePreferredLocation, memory, 8192));
    assert_int_equal(place, 1);
    OK(advise(memory, 8192, cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId));
    OK(cudaMemRangeGetAttribute(&place, sizeof place, cudaMemRangeAttributePreferredLocation, memory, 8192));
    assert_int_equal(place, cudaCpuDeviceId);
    OK(advise_v2(memory, 8192, cudaMemAdviseSetPreferredLocation, second));
    OK(prefetch(memory, 8192, 1, NULL));
    OK(prefetch_ptsz(memory, 8192, cudaCpuDeviceId, NULL));
    OK(prefetch_v2(memory, 8192, second, 0, NULL));
    OK(cudaDeviceSynchronize());
    OK(cudaMemRangeGetAttribute(&place, sizeof place, cudaMemRangeAttributeLastPrefetchLocation, memory, 8192));
    assert_int_equal(place, 1);
    GIVES(cudaErrorInvalidDevice, prefetch(memory, 8192, 99, NULL));
    OK(cudaFree(memory));
    (void)cudaGetLastError();
}

static void batches_say_which_copy_failed(void **state)
{
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    struct cudaMemcpy3DBatchOp op = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    size_t sizes[2] = {100, 100}, index = 0, failed = 55;
    unsigned char in[200], out[200] = {0};
    void *memory, *dsts[2], *srcs[2];
    cudaStream_t stream;

    (void)state;
    OK(cudaMalloc(&memory, sizeof in));
    OK(cudaStreamCreate(&stream));
    write_pattern(in, sizeof in, 4);
    for (int i = 0; i < 2; i++) {
        dsts[i] = (char *)memory + 100 * i;
        srcs[i] = in + 100 * i;
    }
    OK(copy_batch(dsts, srcs, sizes, 2, &attributes, &index, 1, &failed, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(out, memory, sizeof out, cudaMemcpyDefault));
    HAS_PATTERN(out, sizeof out, 4);
    assert_int_equal(failed, 55);
    dsts[1] = NULL;
    GIVES(cudaErrorInvalidValue, copy_batch(dsts, srcs, sizes, 2, &attributes, &index, 1, &failed, stream));
    assert_int_equal(failed, 1);
    GIVES(cudaErrorInvalidValue, copy_batch(NULL, srcs, sizes, 2, &attributes, &index, 1, &failed, stream));
    assert_true(failed == SIZE_MAX);
    GIVES(cudaErrorInvalidValue, copy_batch(NULL, srcs, sizes, 2, &attributes, &index, 1, NULL, stream));

    op.src = (struct cudaMemcpy3DOperand){.type = cudaMemcpyOperandTypePointer, .op.ptr.ptr = memory};
    op.dst = (struct cudaMemcpy3DOperand){.type = cudaMemcpyOperandTypePointer, .op.ptr.ptr = out};
    op.extent = (struct cudaExtent){10, 2, 1};
    memset(out, 0, sizeof out);
    OK(copy_3d_batch(1, &op, &failed, 0, stream));
    OK(cudaStreamSynchronize(stream));
    HAS_PATTERN(out, 20, 4);
    HAS_BYTES(out + 20, sizeof out - 20, 0);
    op.extent.width = 0;
    GIVES(cudaErrorInvalidValue, copy_3d_batch(1, &op, &failed, 0, stream));
    assert_int_equal(failed, 0);
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(memory));
    (void)cudaGetLastError();
}

static void capture_has_the_old_forms(void **state)
{
    enum cudaStreamCaptureStatus status;
    unsigned long long id = 0, same = 0;
    const cudaGraphEdgeData *edges;
    const cudaGraphNode_t *nodes;
    cudaGraphNode_t node;
    cudaGraph_t graph, there;
    cudaStream_t stream;
    cudaEvent_t event;
    size_t count = 9;
    float time = -1;
    void *memory;

    (void)state;
    OK(cudaMalloc(&memory, 64));
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemsetAsync(memory, 1, 64, stream));
    OK(capture_info(stream, &status, &id, &there, &nodes, &count));
    assert_true(status == cudaStreamCaptureStatusActive && id && count == 1);
    node = nodes[0];
    OK(capture_info_v3(stream, &status, &same, &there, &nodes, &edges, &count));
    assert_true(same == id && count == 1 && nodes[0] == node);
    OK(capture_info_v1(stream, &status, &same));
    assert_true(same == id);
    OK(capture_update(stream, NULL, 0, cudaStreamSetCaptureDependencies));
    OK(capture_info(stream, &status, NULL, NULL, NULL, &count));
    assert_int_equal(count, 0);
    OK(capture_update_v2(stream, &node, NULL, 1, cudaStreamSetCaptureDependencies));
    OK(capture_info(stream, &status, NULL, NULL, NULL, &count));
    assert_int_equal(count, 1);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventCreate(&event));
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamSynchronize(stream));
    OK(elapsed(&time, event, event));
    assert_true(time >= 0);
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(memory));
}

static void graphs_have_the_old_forms(void **state)
{
    struct cudaGraphNodeParams empty = {.type = cudaGraphNodeTypeEmpty};
    cudaGraphNode_t first, second, third, from[3], to[3];
    size_t count = 0;
    cudaGraph_t graph;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    OK(add_node(&first, graph, NULL, 0, &empty));
    OK(add_node(&second, graph, &first, 1, &empty));
    OK(add_node_v2(&third, graph, NULL, NULL, 0, &empty));
    OK(add_edges(graph, &second, &third, 1));
    OK(add_edges_v2(graph, &first, &third, NULL, 1));
    OK(get_edges(graph, NULL, NULL, &count));
    assert_int_equal(count, 3);
    OK(get_edges(graph, from, to, &count));
    OK(get_edges_v2(graph, from, to, NULL, &count));
    assert_int_equal(count, 3);
    OK(remove_edges(graph, &first, &third, 1));
    OK(get_before(third, NULL, &count));
    assert_int_equal(count, 1);
    OK(get_before(third, from, &count));
    assert_ptr_equal(from[0], second);
    OK(get_before_v2(third, from, NULL, &count));
    OK(get_after(first, to, &count));
    assert_true(count == 1 && to[0] == second);
    OK(get_after_v2(first, to, NULL, &count));
    OK(remove_edges_v2(graph, &second, &third, NULL, 1));
    OK(get_after(second, NULL, &count));
    assert_int_equal(count, 0);
    OK(cudaGraphDestroy(graph));
}

/* Ends what the devices have, for checkers of leaks. */
static int end(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        OK(cudaSetDevice(i));
        OK(cudaDeviceReset());
    }
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_have_their_old_size),   cmocka_unit_test(places_are_device_numbers),
        cmocka_unit_test(batches_say_which_copy_failed), cmocka_unit_test(capture_has_the_old_forms),
        cmocka_unit_test(graphs_have_the_old_forms),
    };

    return cmocka_run_group_tests(tests, NULL, end) ? 1 : 0;
}
