/*
 * test_cudart_threads.c - what several threads do at once to what the library keeps of a program: handles for
 * other processes, graphs, each thread's streams.
 */
#include <cuda_runtime.h>

#include "compat.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>

#define THREADS 4

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* All threads go on at the same time. */
static pthread_barrier_t start;

/* ---- handles for other processes ---- */

struct asker {
    void *memory;
    cudaEvent_t event;
    cudaIpcMemHandle_t handle;
    int result;
};

static void *ask_for_handles(void *argument)
{
    struct asker *asker = argument;
    cudaIpcEventHandle_t handle;

    pthread_barrier_wait(&start);
    asker->result = (int)cudaIpcGetMemHandle(&asker->handle, asker->memory);
    if (!asker->result)
        asker->result = (int)cudaIpcGetEventHandle(&handle, asker->event);
    return NULL;
}

/* However often it is asked for, a thing has one handle, of which nothing is left when the thing is gone. */
static void handles_end_with_what_they_stand_for(void **state)
{
    int before = 0;

    (void)state;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int round = 0; round <= 100; round++) {
        struct asker askers[THREADS] = {0};
        pthread_t threads[THREADS];
        cudaEvent_t event;
        void *memory;

        OK(cudaMalloc(&memory, 1 << 20));
        OK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
        for (int i = 0; i < THREADS; i++) {
            askers[i] = (struct asker){.memory = memory, .event = event};
            assert_int_equal(pthread_create(&threads[i], NULL, ask_for_handles, &askers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(askers[i].result, 0);
            assert_memory_equal(&askers[i].handle, &askers[0].handle, sizeof askers[0].handle);
        }
        OK(cudaEventDestroy(event));
        OK(cudaFree(memory));
        /* The first round starts the thread that answers. */
        if (!round)
            before = count_descriptors();
    }
    assert_int_equal(count_descriptors(), before);
    pthread_barrier_destroy(&start);
}

/* ---- graphs ---- */

static atomic_int over;

static void do_nothing(void *unused)
{
    (void)unused;
}

/* Makes graphs that nobody else knows, and destroys them. */
static void *make_graphs(void *result)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    bool failed = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess;

    while (!failed && !atomic_load(&over)) {
        failed |= cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess;
        for (int i = 0; i < 1000; i++)
            failed |= cudaLaunchHostFunc(stream, do_nothing, NULL) != cudaSuccess;
        failed |= cudaStreamEndCapture(stream, &graph) != cudaSuccess;
        failed |= cudaGraphDestroy(graph) != cudaSuccess;
    }
    *(int *)result = failed || cudaStreamDestroy(stream) != cudaSuccess;
    return NULL;
}

/* A node is looked for in all graphs. */
static void nodes_are_told_while_graphs_come_and_go(void **state)
{
    enum cudaGraphNodeType type;
    pthread_t threads[2];
    cudaGraphNode_t node;
    cudaStream_t stream;
    cudaGraph_t graph;
    int results[2];
    size_t one = 1;

    (void)state;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaLaunchHostFunc(stream, do_nothing, NULL));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphGetNodes(graph, &node, &one));
    atomic_store(&over, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_graphs, &results[i]), 0);
    for (int i = 0; i < 10000; i++) {
        OK(cudaGraphNodeGetType(node, &type));
        assert_int_equal(type, cudaGraphNodeTypeHost);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        OK(results[i]);
    }
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
}

/* ---- each thread's streams ---- */

static void *use_own_stream(void *result)
{
    *(int *)result = cudaLaunchHostFunc(cudaStreamPerThread, do_nothing, NULL) != cudaSuccess ||
                     cudaStreamSynchronize(cudaStreamPerThread) != cudaSuccess;
    pthread_barrier_wait(&start);
    return NULL;
}

/* Threads end, and with them their streams, while the device is reset. */
static void threads_end_during_a_reset(void **state)
{
    (void)state;
    pthread_barrier_init(&start, NULL, THREADS + 1);
    for (int round = 0; round < 60; round++) {
        pthread_t threads[THREADS];
        int results[THREADS];

        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, use_own_stream, &results[i]), 0);
        pthread_barrier_wait(&start);
        for (int i = 0; i < round % 8; i++)
            sched_yield();
        OK(cudaDeviceReset());
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            OK(results[i]);
        }
        OK(cudaDeviceSynchronize());
    }
    pthread_barrier_destroy(&start);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(handles_end_with_what_they_stand_for),
    cmocka_unit_test(nodes_are_told_while_graphs_come_and_go),
    cmocka_unit_test(threads_end_during_a_reset),
};

int main(void)
{
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    return failed || cudaDeviceReset() != cudaSuccess ? 1 : 0;
}
