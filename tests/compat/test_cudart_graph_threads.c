/*
 * test_cudart_graph_threads.c - tests several threads that use graphs at the same time: they launch one executable
 * graph, change it meanwhile, create and destroy graphs, allocate memory in graphs, and capture.
 */
#include <cuda_runtime.h>

#include "compat.h"

#include <leat/device_code.h>

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 60, BYTES = 4096 };

/* Number of errors in threads other than the main thread: cmocka allows only the main thread to fail a test. */
static atomic_int wrong;
#define FINE(call) (void)((call) == cudaSuccess || atomic_fetch_add(&wrong, 1))
#define IS(condition) (void)((condition) || atomic_fetch_add(&wrong, 1))

static void in_threads(void *(*run)(void *), void *argument)
{
    pthread_t threads[THREADS];

    atomic_store(&wrong, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, argument), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
    OK(cudaDeviceSynchronize());
}

LEAT_KERNEL(add_one, 1, uint32_t *, to)
{
    if (leat_global_index() == 0)
        ++*to;
}

static uint32_t *counted; /* the counters, in pinned memory */

static void count_up(void *argument)
{
    ++*(uint32_t *)argument;
}

/* Makes a graph that adds to two counters concurrently. The additions are not atomic, because launches of one
 * executable graph do not overlap. */
static cudaGraph_t make_counters(cudaGraphNode_t *nodes)
{
    uint32_t *first = &counted[0];
    void *args[] = {&first};
    struct cudaKernelNodeParams kernel = {.func = (void *)(uintptr_t)&leat_cpu_kernel_add_one,
                                          .gridDim = {1, 1, 1},
                                          .blockDim = {1, 1, 1},
                                          .kernelParams = args};
    struct cudaHostNodeParams host = {count_up, &counted[1]};
    cudaGraph_t graph;

    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddKernelNode(&nodes[0], graph, NULL, 0, &kernel));
    OK(cudaGraphAddHostNode(&nodes[1], graph, NULL, 0, &host));
    return graph;
}

static void *launch_often(void *argument)
{
    cudaGraphExec_t exec = *(cudaGraphExec_t *)argument;
    cudaStream_t mine;

    FINE(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking));
    for (int i = 0; i < ROUNDS; i++) {
        FINE(cudaGraphLaunch(exec, mine));
        if (i % 16 == 7)
            FINE(cudaStreamSynchronize(mine));
    }
    FINE(cudaStreamDestroy(mine));
    return NULL;
}

static void launches_of_all_threads_take_turns(void **state)
{
    cudaGraphNode_t nodes[2];
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    counted[0] = counted[1] = 0;
    graph = make_counters(nodes);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    in_threads(launch_often, &exec);
    assert_int_equal(counted[0], THREADS * ROUNDS);
    assert_int_equal(counted[1], THREADS * ROUNDS);
    OK(cudaGraphExecDestroy(exec));
}

static struct {
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    cudaGraphNode_t nodes[2];
    atomic_int launched, number;
} shared;

static void *change_and_launch(void *unused)
{
    int me = atomic_fetch_add(&shared.number, 1);
    struct cudaHostNodeParams host = {count_up, &counted[1]};
    cudaGraphExecUpdateResultInfo info;
    cudaStream_t mine;
    unsigned on;

    (void)unused;
    FINE(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking));
    for (int i = 0; i < ROUNDS; i++)
        switch ((i + me) % 5) {
        case 0:
            FINE(cudaGraphExecHostNodeSetParams(shared.exec, shared.nodes[1], &host));
            break;
        case 1:
            FINE(cudaGraphExecUpdate(shared.exec, shared.graph, &info));
            break;
        case 2:
            FINE(cudaGraphNodeSetEnabled(shared.exec, shared.nodes[0], 1));
            FINE(cudaGraphNodeGetEnabled(shared.exec, shared.nodes[0], &on));
            break;
        default:
            atomic_fetch_add(&shared.launched, 1);
            FINE(cudaGraphLaunch(shared.exec, mine));
        }
    FINE(cudaStreamSynchronize(mine));
    FINE(cudaStreamDestroy(mine));
    return NULL;
}

static void executables_are_changed_between_launches(void **state)
{
    (void)state;
    counted[0] = counted[1] = 0;
    shared.graph = make_counters(shared.nodes);
    OK(cudaGraphInstantiate(&shared.exec, shared.graph, 0));
    in_threads(change_and_launch, NULL);
    assert_int_equal(counted[0], shared.launched);
    assert_int_equal(counted[1], shared.launched);
    OK(cudaGraphExecDestroy(shared.exec));
    OK(cudaGraphDestroy(shared.graph));
}

/* Clones, instantiates, extends and lists one graph. All threads run this with the same graph. */
static void *make_and_destroy(void *argument)
{
    cudaGraph_t common = *(cudaGraph_t *)argument, clone, mine;
    cudaGraphNode_t node, found[100];
    cudaGraphExec_t exec;
    cudaStream_t on;

    FINE(cudaStreamCreateWithFlags(&on, cudaStreamNonBlocking));
    for (int i = 0; i < ROUNDS / 2; i++) {
        size_t count = 100;

        FINE(cudaGraphAddEmptyNode(&node, common, NULL, 0));
        FINE(cudaGraphGetNodes(common, found, &count));
        FINE(cudaGraphClone(&clone, common));
        FINE(cudaGraphNodeFindInClone(&found[0], node, clone));
        FINE(cudaGraphDestroyNode(node));
        FINE(cudaGraphInstantiate(&exec, clone, 0));
        FINE(cudaGraphCreate(&mine, 0));
        FINE(cudaGraphAddChildGraphNode(&node, mine, NULL, 0, clone));
        FINE(cudaGraphDestroy(clone));
        FINE(cudaGraphLaunch(exec, on));
        FINE(cudaGraphExecDestroy(exec));
        FINE(cudaGraphDestroy(mine));
    }
    FINE(cudaStreamSynchronize(on));
    FINE(cudaStreamDestroy(on));
    return NULL;
}

static void graphs_are_made_and_destroyed(void **state)
{
    cudaGraph_t graph;
    size_t count;

    (void)state;
    OK(cudaGraphCreate(&graph, 0));
    in_threads(make_and_destroy, &graph);
    OK(cudaGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 0);
    OK(cudaGraphDestroy(graph));
}

/* Captures work that allocates memory in the graph, launches it, and checks the bytes. Each thread writes other
 * bytes. */
static void *capture_memory(void *unused)
{
    int me = atomic_fetch_add(&shared.number, 1);
    unsigned char *memory, *out;
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    cudaStream_t mine;
    uint64_t figure;

    (void)unused;
    FINE(cudaMallocHost((void **)&out, BYTES));
    FINE(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking));
    for (int i = 0; i < ROUNDS / 2; i++) {
        FINE(cudaStreamBeginCapture(mine, cudaStreamCaptureModeRelaxed));
        FINE(cudaMallocAsync((void **)&memory, BYTES, mine));
        FINE(cudaMemsetAsync(memory, me * 16 + i % 16, BYTES, mine));
        FINE(cudaMemcpyAsync(out, memory, BYTES, cudaMemcpyDeviceToHost, mine));
        if (i % 2)
            FINE(cudaFreeAsync(memory, mine));
        FINE(cudaStreamEndCapture(mine, &graph));
        FINE(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
        for (int j = 0; j < 3; j++)
            FINE(cudaGraphLaunch(exec, mine));
        if (i % 4 == 0)
            FINE(cudaGraphExecDestroy(exec));
        FINE(cudaGraphDestroy(graph));
        FINE(cudaDeviceGraphMemTrim(0));
        FINE(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &figure));
        FINE(cudaStreamSynchronize(mine));
        for (int j = 0; j < BYTES; j += 511)
            IS(out[j] == (unsigned char)(me * 16 + i % 16));
        if (i % 2 == 0)
            FINE(cudaFreeAsync(memory, mine));
        if (i % 4)
            FINE(cudaGraphExecDestroy(exec));
    }
    FINE(cudaStreamSynchronize(mine));
    FINE(cudaStreamDestroy(mine));
    FINE(cudaFreeHost(out));
    return NULL;
}

static void memory_of_graphs_is_each_threads_own(void **state)
{
    uint64_t figure = 1;

    (void)state;
    atomic_store(&shared.number, 1);
    in_threads(capture_memory, NULL);
    OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &figure));
    assert_int_equal(figure, 0);
    OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &figure));
    assert_int_equal(figure, 0);
}

static atomic_int ended;

static void count_ended(void *unused)
{
    (void)unused;
    atomic_fetch_add(&ended, 1);
}

static void *hold_objects(void *argument)
{
    cudaGraph_t common = *(cudaGraph_t *)argument, clone;
    cudaUserObject_t object;
    cudaGraphExec_t exec;
    cudaStream_t mine;

    FINE(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking));
    for (int i = 0; i < ROUNDS; i++) {
        FINE(cudaUserObjectCreate(&object, NULL, count_ended, 1, cudaUserObjectNoDestructorSync));
        FINE(cudaGraphRetainUserObject(common, object, 1, 0));
        FINE(cudaGraphClone(&clone, common));
        FINE(cudaGraphReleaseUserObject(common, object, 1));
        FINE(cudaGraphInstantiate(&exec, clone, 0));
        FINE(cudaGraphDestroy(clone));
        FINE(cudaGraphLaunch(exec, mine));
        FINE(cudaGraphExecDestroy(exec));
        FINE(cudaUserObjectRelease(object, 1));
    }
    FINE(cudaStreamSynchronize(mine));
    FINE(cudaStreamDestroy(mine));
    return NULL;
}

static void objects_end_once_each(void **state)
{
    cudaGraphNode_t nodes[2];
    cudaGraph_t graph;

    (void)state;
    atomic_store(&ended, 0);
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddEmptyNode(&nodes[0], graph, NULL, 0));
    in_threads(hold_objects, &graph);
    OK(cudaGraphDestroy(graph));
    for (int i = 0; i < 30000 && atomic_load(&ended) < THREADS * ROUNDS; i++)
        sleep_ms(1);
    sleep_ms(2);
    assert_int_equal(atomic_load(&ended), THREADS * ROUNDS);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_of_all_threads_take_turns),
        cmocka_unit_test(executables_are_changed_between_launches),
        cmocka_unit_test(graphs_are_made_and_destroyed),
        cmocka_unit_test(memory_of_graphs_is_each_threads_own),
        cmocka_unit_test(objects_end_once_each),
    };
    int failed = cudaMallocHost((void **)&counted, 64) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);

    failed += cudaFreeHost(counted) != cudaSuccess;
    return failed || cudaDeviceReset() ? 1 : 0;
}
