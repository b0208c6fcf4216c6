/* sample_grid_sync.cu - tests cooperative launches, in which all threads of the grid wait for each other. */
#include "sample.h"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

/* In each round a thread reads what other blocks wrote in the round before. */
__global__ void rotate(int *data, int *next, int rounds)
{
    cg::grid_group grid = cg::this_grid();
    __shared__ int first;

    if (threadIdx.x == 0)
        first = blockIdx.x;
    for (int i = 0; i < rounds; i++) {
        next[grid.thread_rank()] = data[(grid.thread_rank() + 37) % grid.size()] + 1;
        cg::sync(grid);
        data[grid.thread_rank()] = next[grid.thread_rank()];
        grid.sync();
        if (first != (int)blockIdx.x) /* shared memory keeps its contents across grid.sync() */
            data[grid.thread_rank()] = -1;
    }
}

/* Some blocks, and some threads of other blocks, return before the rest reaches grid.sync(). */
template <class T> __global__ void fewMeet(T *count)
{
    extern __shared__ int seen[];
    cg::grid_group grid = cg::this_grid();

    seen[threadIdx.x] = 0;
    if (blockIdx.x % 2 || threadIdx.x % 3)
        return;
    for (int i = 0; i < 5; i++) {
        atomicAdd(count, 1);
        grid.sync();
        seen[threadIdx.x] += *count == T((i + 1) * ((gridDim.x + 1) / 2) * ((blockDim.x + 2) / 3));
        grid.sync();
    }
    atomicAdd(count, seen[threadIdx.x]);
}

int main()
{
    int device = 0, supported = 0, blocks = 0, rounds = 20;
    const int threads = 64;
    cudaDeviceProp prop;
    int *data, *next, *count;

    OK(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, device));
    CHECK(supported == 1);
    OK(cudaGetDeviceProperties(&prop, device));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, rotate, threads, 0));
    blocks *= prop.multiProcessorCount;

    const int all = blocks < 48 ? blocks : 48, n = all * threads;
    OK(cudaMallocManaged(&data, n * sizeof(int)));
    OK(cudaMallocManaged(&next, n * sizeof(int)));
    OK(cudaMallocManaged(&count, sizeof(int)));
    for (int i = 0; i < n; i++)
        data[i] = i;
    void *args[] = {&data, &next, &rounds};
    OK(cudaLaunchCooperativeKernel((void *)rotate, dim3(all), dim3(threads), args, 0, 0));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++)
        CHECK(data[i] == (i + 37 * rounds) % n + rounds);

    *count = 0;
    void *one[] = {&count};
    OK(cudaLaunchCooperativeKernel(fewMeet<int>, dim3(all), dim3(threads), one, threads * sizeof(int), 0));
    OK(cudaDeviceSynchronize());
    CHECK(*count == 10 * ((all + 1) / 2) * ((threads + 2) / 3));

    /* A cooperative launch through an attribute of cudaLaunchKernelEx(). */
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    config.gridDim = 2;
    config.blockDim = threads;
    config.attrs = &attribute;
    config.numAttrs = 1;
    for (int i = 0; i < n; i++)
        data[i] = 0;
    OK(cudaLaunchKernelEx(&config, rotate, data, next, rounds));
    OK(cudaDeviceSynchronize());
    CHECK(data[2 * threads - 1] == rounds);

    /* A captured cooperative launch stays cooperative. */
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamCreate(&stream));
    for (int i = 0; i < n; i++)
        data[i] = i;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaLaunchCooperativeKernel((void *)rotate, dim3(all), dim3(threads), args, 0, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; i++)
        CHECK(data[i] == (i + 37 * rounds) % n + rounds);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));

    GIVES(cudaErrorCooperativeLaunchTooLarge,
          cudaLaunchCooperativeKernel((void *)rotate, dim3(blocks + 1), dim3(threads), args, 0, 0));
    OK(cudaFree(data));
    OK(cudaFree(next));
    OK(cudaFree(count));
    (void)cudaGetLastError();
    return finish("the grid has waited for itself");
}
