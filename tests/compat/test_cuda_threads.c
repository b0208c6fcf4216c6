/* test_cuda_threads.c - tests several threads that use contexts with the CUDA driver's calls at the same time. */
#include <cuda.h>

#include "compat.h"

#include <pthread.h>

#define THREADS 4
#define ROUNDS 200

static pthread_barrier_t start;

static void *use_primary(void *result)
{
    int wrong = 0;

    pthread_barrier_wait(&start);
    wrong += cuInit(0) != CUDA_SUCCESS;
    for (int i = 0; i < ROUNDS && !wrong; i++) {
        unsigned long long id = 0;
        CUcontext context = NULL, popped = NULL;
        unsigned flags = 0;
        CUdevice device = -1;

        wrong += cuDevicePrimaryCtxRetain(&context, i % 2) != CUDA_SUCCESS;
        wrong += cuCtxPushCurrent(context) != CUDA_SUCCESS;
        wrong += cuCtxGetDevice(&device) != CUDA_SUCCESS || device != i % 2;
        wrong += cuCtxGetId(context, &id) != CUDA_SUCCESS || !id;
        wrong += cuCtxGetFlags(&flags) != CUDA_SUCCESS;
        wrong += cuCtxSetFlags(CU_CTX_SCHED_YIELD) != CUDA_SUCCESS;
        wrong += cuCtxPopCurrent(&popped) != CUDA_SUCCESS || popped != context;
        wrong += cuDevicePrimaryCtxRelease(i % 2) != CUDA_SUCCESS;
    }
    *(int *)result = wrong;
    return NULL;
}

/* Uses a context that no other thread uses. It must not contain streams or memory of other threads. */
static void *use_own(void *result)
{
    int wrong = 0;

    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS && !wrong; i++) {
        CUcontext context = NULL, found = NULL;
        CUstream stream = NULL;

        wrong += cuCtxCreate(&context, 0, 0) != CUDA_SUCCESS;
        wrong += cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
        wrong += cuStreamGetCtx(stream, &found) != CUDA_SUCCESS || found != context;
        wrong += cuStreamDestroy(stream) != CUDA_SUCCESS;
        wrong += cuCtxDestroy(context) != CUDA_SUCCESS;
    }
    *(int *)result = wrong;
    return NULL;
}

static void run(void *(*work)(void *))
{
    pthread_t threads[THREADS];
    int results[THREADS];

    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &results[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    for (int i = 0; i < THREADS; i++)
        OK(results[i]);
}

static void primary_contexts_are_retained_by_all(void **state)
{
    (void)state;
    run(use_primary);
}

static void contexts_belong_to_their_threads(void **state)
{
    CUcontext kept;

    (void)state;
    OK(cuDevicePrimaryCtxRetain(&kept, 0));
    run(use_own);
    OK(cuDevicePrimaryCtxRelease(0));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(primary_contexts_are_retained_by_all),
        cmocka_unit_test(contexts_belong_to_their_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
