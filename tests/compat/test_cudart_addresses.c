/*
 * test_cudart_addresses.c - tests the compatibility libraries under a limit on the address space ('ulimit -v').
 * Their tables of handles then reserve fewer addresses.
 */
#include <cuda_runtime.h>

#include "compat.h"

#include <sys/resource.h>

#define BYTES 4096
#define LIMIT_BYTES ((rlim_t)2 << 30)

static void objects_of_all_types_can_be_made(void **state)
{
    struct cudaMemPoolProps of_pool = {.allocType = cudaMemAllocationTypePinned,
                                       .location = {.type = cudaMemLocationTypeDevice}};
    struct cudaChannelFormatDesc format = {.x = 32, .f = cudaChannelFormatKindFloat};
    unsigned char *device, *pinned;
    cudaGraphNode_t node;
    cudaGraphExec_t run;
    cudaStream_t stream;
    cudaMemPool_t pool;
    cudaEvent_t event;
    cudaGraph_t graph;
    cudaArray_t array;

    (void)state;
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&event));
    OK(cudaMallocHost((void **)&pinned, BYTES));
    OK(cudaMemPoolCreate(&pool, &of_pool));
    OK(cudaMallocFromPoolAsync((void **)&device, BYTES, pool, stream));
    OK(cudaMallocArray(&array, &format, 16, 16, 0));
    OK(cudaMemsetAsync(device, 7, BYTES, stream));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, pinned, device, BYTES, cudaMemcpyDeviceToHost));
    OK(cudaGraphInstantiate(&run, graph, 0));
    OK(cudaGraphLaunch(run, stream));
    OK(cudaEventRecord(event, stream));
    OK(cudaEventSynchronize(event));
    HAS_BYTES(pinned, BYTES, 7);
    OK(cudaGraphExecDestroy(run));
    OK(cudaGraphDestroy(graph));
    OK(cudaFreeArray(array));
    OK(cudaFreeAsync(device, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemPoolDestroy(pool));
    OK(cudaFreeHost(pinned));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(stream));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(objects_of_all_types_can_be_made)};
    struct rlimit limit;
    int wrong;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("skipped: a sanitizer needs more addresses than the limit leaves\n");
    return 77;
#endif
    if (getrlimit(RLIMIT_AS, &limit))
        return 1;
    limit.rlim_cur = LIMIT_BYTES;
    if (setrlimit(RLIMIT_AS, &limit))
        return 1;
    wrong = cmocka_run_group_tests(tests, NULL, NULL);
    wrong += cudaDeviceReset() != cudaSuccess;
    return wrong ? 1 : 0;
}
