/*
 * test_cudart_pool.c - tests pools: the smallest maxSize, and how memory passes from one stream to another. The
 * engine implements pools for all compatibility libraries, so the results also hold for the CUDA driver's and
 * HIP's pools.
 */
#include <cuda_runtime.h>

#include "compat.h"

#define BYTES ((size_t)1 << 20)

static cudaMemPool_t make_pool(size_t max_bytes)
{
    struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                          .location = {cudaMemLocationTypeDevice, 0},
                                          .maxSize = max_bytes};
    cudaMemPool_t pool;

    OK(cudaMemPoolCreate(&pool, &properties));
    return pool;
}

static void a_small_limit_is_rounded_up(void **state)
{
    static const size_t limits[] = {1, 4096, BYTES, BYTES + 1, 2 * BYTES, 2 * BYTES + 1, 3 * BYTES};

    (void)state;
    for (unsigned i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        cudaMemPool_t pool = make_pool(limits[i]);
        void *ptr, *none;

        OK(cudaMallocFromPoolAsync(&ptr, limits[i], pool, 0)); /* the pool can allocate maxSize bytes at once */
        GIVES(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync(&none, 4 * BYTES, pool, 0));
        OK(cudaFreeAsync(ptr, 0));
        OK(cudaStreamSynchronize(0));
        OK(cudaMemPoolDestroy(pool));
    }
}

static void set(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, int value)
{
    int kept = -1;

    OK(cudaMemPoolSetAttribute(pool, attribute, &value));
    OK(cudaMemPoolGetAttribute(pool, attribute, &kept));
    assert_int_equal(kept, value);
}

static void raise_flag(void *flag)
{
    atomic_store((atomic_int *)flag, 1);
}

/* The first stream frees a block. In each round there is one way in which the second stream can reuse the block.
 * The reuse must succeed only if the flag for that way is set. */
static void a_reuse_flag_allows_its_way_and_no_other(void **state)
{
    static const enum cudaMemPoolAttr flags[] = {cudaMemPoolReuseFollowEventDependencies,
                                                 cudaMemPoolReuseAllowOpportunistic,
                                                 cudaMemPoolReuseAllowInternalDependencies};
    uint64_t keep = UINT64_MAX;
    cudaStream_t first, second;
    cudaEvent_t event;

    (void)state;
    OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (unsigned way = 0; way < 3; way++) {
        cudaMemPool_t pool = make_pool(2 * BYTES);
        cudaError_t error = cudaErrorMemoryAllocation;
        gate open = 0;
        atomic_int done = 0;
        void *ptr = NULL;

        OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
        OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
        OK(cudaMallocFromPoolAsync(&ptr, 2 * BYTES, pool, first));
        OK(cudaLaunchHostFunc(first, way == 1 ? raise_flag : wait_at_gate, way == 1 ? &done : &open));
        OK(cudaFreeAsync(ptr, first));
        if (way == 0) {
            OK(cudaEventRecord(event, first));
            OK(cudaStreamWaitEvent(second, event, 0));
        }
        while (way == 1 && !atomic_load(&done)) /* the work completes, but leat has not noticed that yet */
            sleep_ms(1);
        for (unsigned i = 0; i < 3; i++)
            set(pool, flags[i], i != way && i != 2);
        for (int i = 0; i < 3; i++)
            GIVES(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync(&ptr, 2 * BYTES, pool, second));
        for (unsigned i = 0; i < 3; i++)
            set(pool, flags[i], i == way);
        for (int i = 0; i < 10000 && error == cudaErrorMemoryAllocation; i++) {
            error = cudaMallocFromPoolAsync(&ptr, 2 * BYTES, pool, second);
            if (error != cudaSuccess)
                sleep_ms(1); /* in round 1, leat may notice the completion at any moment */
        }
        OK(error);
        OK(cudaMemsetAsync(ptr, 7, 2 * BYTES, second));
        if (way != 1)
            GIVES(cudaErrorNotReady, cudaStreamQuery(second)); /* the second stream waits for the work of the
                                                                * first */
        atomic_store(&open, 1);
        OK(cudaFreeAsync(ptr, second));
        OK(cudaStreamSynchronize(second));
        OK(cudaStreamSynchronize(first));
        OK(cudaStreamDestroy(second));
        OK(cudaMemPoolDestroy(pool));
    }
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(first));
}

/* If all three flags are off, a stream reuses only its own memory, and memory whose last work the host has waited
 * for. */
static void without_reuse_flags_a_stream_has_its_own_memory(void **state)
{
    cudaMemPool_t pool = make_pool(2 * BYTES);
    uint64_t keep = UINT64_MAX;
    cudaStream_t first, second;
    void *ptr, *again;

    (void)state;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    for (int i = cudaMemPoolReuseFollowEventDependencies; i <= cudaMemPoolReuseAllowInternalDependencies; i++)
        set(pool, (enum cudaMemPoolAttr)i, 0);
    OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    OK(cudaMallocFromPoolAsync(&ptr, 2 * BYTES, pool, first));
    OK(cudaFreeAsync(ptr, first));
    OK(cudaMallocFromPoolAsync(&again, 2 * BYTES, pool, first));
    assert_ptr_equal(ptr, again);
    OK(cudaFreeAsync(again, first));
    OK(cudaStreamSynchronize(first));
    OK(cudaMallocFromPoolAsync(&again, 2 * BYTES, pool, second));
    OK(cudaFreeAsync(again, second));
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
    OK(cudaMemPoolDestroy(pool));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_limit_is_rounded_up),
        cmocka_unit_test(a_reuse_flag_allows_its_way_and_no_other),
        cmocka_unit_test(without_reuse_flags_a_stream_has_its_own_memory),
    };
    int wrong = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; i < 2; i++) /* free everything, so that leak checkers find nothing */
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong;
}
