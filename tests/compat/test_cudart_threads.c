/*
 * test_cudart_threads.c - tests several threads that use the library's per-process state at the same time: handles
 * for other processes, graphs, per-thread streams.
 */
#include <cuda_runtime.h>

#include "compat.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>

#define THREADS 4
#define POOLS 1000

/* Counts the entries of a folder such as "/proc/self/fd" or "/proc/self/task". */
static int count_entries(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;

    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Lets all threads start at the same time. */
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

/* All requests for one object return the same handle. After the object is destroyed, its handle has no open
 * descriptor any more. */
static void handles_end_with_what_they_stand_for(void **state)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .handleTypes = cudaMemHandleTypePosixFileDescriptor,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    int before = 0;

    (void)state;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int round = 0; round <= 100; round++) {
        struct asker askers[THREADS] = {0};
        pthread_t threads[THREADS];
        struct cudaMemPoolPtrExportData data;
        cudaMemPool_t pool;
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
        OK(cudaMemPoolCreate(&pool, &props));
        OK(cudaMallocFromPoolAsync(&memory, 1 << 20, pool, 0));
        OK(cudaMemPoolExportPointer(&data, memory));
        OK(cudaFreeAsync(memory, 0));
        OK(cudaStreamSynchronize(0));
        OK(cudaMemPoolDestroy(pool));
        /* Count after the first round, which starts the thread that answers other processes. */
        if (!round)
            before = count_entries("/proc/self/fd");
    }
    assert_int_equal(count_entries("/proc/self/fd"), before);
    pthread_barrier_destroy(&start);
}

/* ---- graphs ---- */

static atomic_int over;

static void do_nothing(void *unused)
{
    (void)unused;
}

/* Creates and destroys graphs that no other thread uses. */
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

/* The library searches all graphs to validate a node handle, while other threads create and destroy graphs. */
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

/* ---- per-thread streams ---- */

static void *use_own_stream(void *result)
{
    *(int *)result = cudaLaunchHostFunc(cudaStreamPerThread, do_nothing, NULL) != cudaSuccess ||
                     cudaStreamSynchronize(cudaStreamPerThread) != cudaSuccess;
    pthread_barrier_wait(&start);
    return NULL;
}

/* A thread's per-thread stream ends with the thread. On the CPU device a stream has a thread of its own, so the
 * test counts threads. */
static void streams_end_with_their_threads(void **state)
{
    int before, result = 0;

    (void)state;
    pthread_barrier_init(&start, NULL, 1);
    OK(cudaDeviceSynchronize());
    before = count_entries("/proc/self/task");
    for (int i = 0; i < 30; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, use_own_stream, &result), 0);
        pthread_join(thread, NULL);
        OK(result);
    }
    /* The threads of the last streams may not have ended yet. */
    assert_true(count_entries("/proc/self/task") < before + 15);
    pthread_barrier_destroy(&start);
}

static pthread_key_t key;

static void use_stream_at_the_end(void *result)
{
    *(int *)result = cudaLaunchHostFunc(cudaStreamPerThread, do_nothing, NULL) != cudaSuccess ||
                     cudaStreamSynchronize(cudaStreamPerThread) != cudaSuccess;
}

static void *end_with_a_destructor(void *result)
{
    *(int *)result = cudaLaunchHostFunc(cudaStreamPerThread, do_nothing, NULL) != cudaSuccess ||
                     pthread_setspecific(key, result) != 0;
    return NULL;
}

/* A destructor of the program, which runs after the library's, uses the per-thread stream of the ending thread. */
static void destructors_use_the_stream_of_their_thread(void **state)
{
    pthread_t thread;
    int result;

    (void)state;
    /* glibc calls destructors in the order in which the keys were made: the library's key comes first. */
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    assert_int_equal(pthread_key_create(&key, use_stream_at_the_end), 0);
    for (int i = 0; i < 10; i++) {
        result = -1;
        assert_int_equal(pthread_create(&thread, NULL, end_with_a_destructor, &result), 0);
        pthread_join(thread, NULL);
        OK(result);
    }
    assert_int_equal(pthread_key_delete(key), 0);
}

/* ---- pools ---- */

/* Each wait trims the pools of the device, because memory was freed. */
static void *free_and_wait(void *result)
{
    cudaStream_t stream;
    bool failed = cudaStreamCreate(&stream) != cudaSuccess;

    while (!failed && !atomic_load(&over)) {
        void *ptr;

        failed = cudaMallocAsync(&ptr, 100, stream) != cudaSuccess || cudaFreeAsync(ptr, stream) != cudaSuccess ||
                 cudaStreamSynchronize(stream) != cudaSuccess;
    }
    *(int *)result = failed || cudaStreamDestroy(stream) != cudaSuccess;
    return NULL;
}

/* Pools are destroyed while waits of other threads trim them. */
static void pools_end_while_they_are_trimmed(void **state)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    pthread_t threads[2];
    int results[2];

    (void)state;
    atomic_store(&over, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, free_and_wait, &results[i]), 0);
    for (int i = 0; i < POOLS; i++) {
        cudaMemPool_t pool;
        void *ptr;

        OK(cudaMemPoolCreate(&pool, &props));
        OK(cudaMallocFromPoolAsync(&ptr, 100, pool, 0));
        OK(cudaFreeAsync(ptr, 0));
        OK(cudaMemPoolDestroy(pool));
    }
    atomic_store(&over, 1);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        OK(results[i]);
    }
}

/* Threads and their per-thread streams end while the device is reset. */
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

/* ---- the default stream ---- */

static void *use_short_lived_streams(void *result)
{
    bool failed = false;

    while (!failed && !atomic_load(&over)) {
        cudaStream_t stream;

        failed = cudaStreamCreate(&stream) != cudaSuccess ||
                 cudaLaunchHostFunc(stream, do_nothing, NULL) != cudaSuccess ||
                 cudaStreamDestroy(stream) != cudaSuccess;
    }
    *(int *)result = failed;
    return NULL;
}

/* The default stream comes after all other streams, while other threads create and destroy streams. */
static void streams_come_and_go_beside_the_default_one(void **state)
{
    pthread_t threads[2];
    int results[2];

    (void)state;
    atomic_store(&over, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_short_lived_streams, &results[i]), 0);
    for (int i = 0; i < 1000; i++)
        OK(cudaLaunchHostFunc(0, do_nothing, NULL));
    atomic_store(&over, 1);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        OK(results[i]);
    }
    OK(cudaDeviceSynchronize());
}

static atomic_int done_by_default, too_early;

static void do_slowly(void *unused)
{
    (void)unused;
    sleep_ms(1);
    atomic_store(&done_by_default, 1);
}

static void look_whether_done(void *unused)
{
    (void)unused;
    if (!atomic_load(&done_by_default))
        atomic_fetch_add(&too_early, 1);
}

static void *keep_stream_busy(void *stream)
{
    while (!atomic_load(&over)) {
        if (cudaLaunchHostFunc(stream, do_nothing, NULL) != cudaSuccess)
            abort();
        if (cudaStreamSynchronize(stream) != cudaSuccess)
            abort();
    }
    return NULL;
}

/* A stream's work comes after earlier work of the default stream, even if other threads use the same stream. */
static void a_shared_stream_follows_the_default_one(void **state)
{
    cudaStream_t stream;
    pthread_t threads[2];

    (void)state;
    OK(cudaStreamCreate(&stream));
    atomic_store(&over, 0);
    atomic_store(&too_early, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_stream_busy, stream), 0);
    for (int i = 0; i < 200; i++) {
        atomic_store(&done_by_default, 0);
        OK(cudaLaunchHostFunc(0, do_nothing, NULL));
        OK(cudaLaunchHostFunc(0, do_slowly, NULL));
        OK(cudaLaunchHostFunc(stream, look_whether_done, NULL));
        OK(cudaStreamSynchronize(stream));
    }
    atomic_store(&over, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&too_early), 0);
    OK(cudaStreamDestroy(stream));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(streams_come_and_go_beside_the_default_one),
    cmocka_unit_test(a_shared_stream_follows_the_default_one),
    cmocka_unit_test(handles_end_with_what_they_stand_for),
    cmocka_unit_test(nodes_are_told_while_graphs_come_and_go),
    cmocka_unit_test(streams_end_with_their_threads),
    cmocka_unit_test(destructors_use_the_stream_of_their_thread),
    cmocka_unit_test(pools_end_while_they_are_trimmed),
    cmocka_unit_test(threads_end_during_a_reset),
};

int main(void)
{
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    return failed || cudaDeviceReset() != cudaSuccess ? 1 : 0;
}
