/* sample_streams.cu - uses copies and kernels in several streams, pinned memory, events, callbacks and a captured
 * graph. */
#include "sample.h"

static __global__ void init_array(int *g_data, int *factor, int num_iterations)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;

    for (int i = 0; i < num_iterations; i++)
        g_data[idx] += *factor;
}

__global__ void increment(int *data, int by = 1)
{
    data[blockIdx.x * blockDim.x + threadIdx.x] += by;
}

static void CUDART_CB called(cudaStream_t, cudaError_t status, void *data)
{
    *(int *)data += status == cudaSuccess;
}

int main()
{
    const int nstreams = 4, n = 1 << 14;
    const size_t nbytes = n * sizeof(int);
    cudaStream_t streams[nstreams];
    cudaEvent_t start_event, stop_event;
    int *h_a, *d_a, *d_c, calls = 0, c = 5;
    float elapsed;

    OK(cudaHostAlloc((void **)&h_a, nbytes, cudaHostAllocDefault));
    OK(cudaMalloc((void **)&d_a, nbytes));
    OK(cudaMalloc((void **)&d_c, sizeof(int)));
    OK(cudaMemcpy(d_c, &c, sizeof(int), cudaMemcpyHostToDevice));
    for (int i = 0; i < nstreams; i++)
        OK(cudaStreamCreate(&(streams[i])));
    OK(cudaEventCreateWithFlags(&start_event, cudaEventBlockingSync));
    OK(cudaEventCreateWithFlags(&stop_event, cudaEventBlockingSync));

    dim3 threads = dim3(256, 1);
    dim3 blocks = dim3(n / (nstreams * threads.x), 1);
    OK(cudaMemset(d_a, 0, nbytes));
    OK(cudaEventRecord(start_event, 0));
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < nstreams; i++)
            init_array<<<blocks, threads, 0, streams[i]>>>(d_a + i * n / nstreams, d_c, 3);
        for (int i = 0; i < nstreams; i++)
            OK(cudaMemcpyAsync(h_a + i * n / nstreams, d_a + i * n / nstreams, nbytes / nstreams,
                               cudaMemcpyDeviceToHost, streams[i]));
    }
    OK(cudaStreamAddCallback(streams[0], called, &calls, 0));
    OK(cudaEventRecord(stop_event, 0));
    OK(cudaEventSynchronize(stop_event));
    OK(cudaEventElapsedTime(&elapsed, start_event, stop_event));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++)
        CHECK(h_a[i] == 2 * 3 * c);
    CHECK(calls == 1);

    /* Launches in <<<...>>> syntax can be captured like any other launch. */
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(streams[1], cudaStreamCaptureModeGlobal));
    increment<<<n / 256, 256, 0, streams[1]>>>(d_a);
    increment<<<n / 256, 256, 0, streams[1]>>>(d_a, 10);
    OK(cudaStreamEndCapture(streams[1], &graph));
    OK(cudaGraphInstantiate(&exec, graph, NULL, NULL, 0));
    for (int i = 0; i < 3; i++)
        OK(cudaGraphLaunch(exec, streams[2]));
    OK(cudaStreamSynchronize(streams[2]));
    OK(cudaMemcpy(h_a, d_a, nbytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        CHECK(h_a[i] == 2 * 3 * c + 3 * 11);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));

    for (int i = 0; i < nstreams; i++)
        OK(cudaStreamDestroy(streams[i]));
    OK(cudaEventDestroy(start_event));
    OK(cudaEventDestroy(stop_event));
    OK(cudaFreeHost(h_a));
    OK(cudaFree(d_a));
    OK(cudaFree(d_c));
    return finish("streams have done their parts");
}
