/* test_cudart_cxx.cc - tests the CUDA runtime's header in C++: kernels that are functions and templates, symbols,
 * and typed calls. */
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

static int failures;

#define CHECK(condition)                                                                                          \
    do {                                                                                                          \
        if (!(condition)) {                                                                                       \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                           \
            failures++;                                                                                           \
        }                                                                                                         \
    } while (0)
#define OK(call) CHECK((call) == cudaSuccess)

__constant__ float factors[4];
static __device__ int seen;

template <class T> __global__ void add(const T *a, const T *b, T *sum, size_t count)
{
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count)
        sum[i] = a[i] + b[i];
}

static __global__ void scale(float *data, int count, float by)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x)
        data[i] *= by * factors[1];
    atomicMax(&seen, static_cast<int>(threadIdx.x));
}

static void kernels_run()
{
    const int count = 1000;
    std::vector<float> host(count, 1.0f);
    float *a, *b, *sum;
    cudaStream_t stream;
    cudaLaunchConfig_t config = {};
    const float two[] = {0, 2, 0, 0};
    int most = 0, blocks = 0, threads = 0;
    cudaFuncAttributes attributes;

    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&a, count * sizeof *a));
    OK(cudaMallocAsync(&b, count * sizeof *b, stream));
    OK(cudaMallocManaged(&sum, count * sizeof *sum));
    OK(cudaMemcpyAsync(a, host.data(), count * sizeof *a, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(b, host.data(), count * sizeof *b, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyToSymbol(factors, two, sizeof two));
    config.gridDim = (count + 255) / 256;
    config.blockDim = 256;
    config.stream = stream;
    OK(cudaLaunchKernelEx(&config, add<float>, a, b, sum, count)); /* the arguments are converted */
    {
        float by = 3;
        int length = count;
        void *args[] = {&sum, &length, &by};

        OK(cudaLaunchKernel(scale, dim3(2), dim3(64), args, 0, stream));
    }
    OK(cudaStreamSynchronize(stream));
    for (int i = 0; i < count; i++)
        CHECK(sum[i] == 12.0f);
    OK(cudaMemcpyFromSymbol(&most, seen, sizeof most));
    CHECK(most == 63);
    CHECK(cudaMemcpyFromSymbol(&most, seen, sizeof most, 1) == cudaErrorInvalidValue);
    CHECK(cudaMemcpyToSymbol(seen, &most, sizeof most, 0, cudaMemcpyDeviceToHost) ==
          cudaErrorInvalidMemcpyDirection);
    OK(cudaFuncGetAttributes(&attributes, scale));
    CHECK(attributes.maxThreadsPerBlock >= 64);
    OK(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, scale));
    CHECK(blocks > 0 && threads > 0);
    config.blockDim = 0;
    CHECK(cudaLaunchKernelEx(&config, scale, sum, count, 1.0f) == cudaErrorInvalidConfiguration);
    OK(cudaFree(sum));
    OK(cudaFreeAsync(b, stream));
    OK(cudaFree(a));
    OK(cudaStreamDestroy(stream));
}

static void kernels_are_captured()
{
    float *data, host[10];
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaLaunchConfig_t config = {};

    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&data, sizeof host));
    for (float &value : host)
        value = 1;
    OK(cudaMemcpy(data, host, sizeof host, cudaMemcpyHostToDevice));
    config.stream = stream;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaLaunchKernelEx(&config, scale, data, 10, 0.5f));
    OK(cudaLaunchKernelEx(&config, scale, data, 10, 4.0f));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(host[9] == 8);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(data));
    OK(cudaStreamDestroy(stream));
}

static int deleted;

struct counted {
    ~counted()
    {
        deleted++;
    }
};

/* Nodes take symbols as variables, and user objects delete C++ objects. */
static void nodes_of_graphs_are_typed()
{
    cudaGraphExecUpdateResult why;
    cudaGraphNode_t nodes[2], wrong;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStream_t stream;
    cudaUserObject_t object, second;
    int in = 5, out = 0;

    OK(cudaStreamCreate(&stream));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaUserObjectCreate(&object, new counted, 1, cudaUserObjectNoDestructorSync));
    OK(cudaUserObjectCreate(&second, new counted, 1, 1u));
    OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    OK(cudaUserObjectRelease(second));
    CHECK(deleted == 1);
    OK(cudaGraphAddMemcpyNodeToSymbol(&nodes[0], graph, nullptr, 0, seen, &in, sizeof in, 0,
                                      cudaMemcpyHostToDevice));
    OK(cudaGraphAddMemcpyNodeFromSymbol(&nodes[1], graph, nodes, 1, &out, seen, sizeof out, 0,
                                        cudaMemcpyDeviceToHost));
    CHECK(cudaGraphMemcpyNodeSetParamsToSymbol(nodes[0], seen, &in, sizeof in, 1, cudaMemcpyHostToDevice) ==
          cudaErrorInvalidValue);
    OK(cudaGraphMemcpyNodeSetParamsToSymbol(nodes[0], seen, &in, sizeof in, 0, cudaMemcpyHostToDevice));
    OK(cudaGraphMemcpyNodeSetParamsFromSymbol(nodes[1], &out, seen, sizeof out, 0, cudaMemcpyDeviceToHost));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, nodes[0], seen, &in, sizeof in, 0, cudaMemcpyHostToDevice));
    OK(cudaGraphExecMemcpyNodeSetParamsFromSymbol(exec, nodes[1], &out, seen, sizeof out, 0,
                                                  cudaMemcpyDeviceToHost));
    OK(cudaGraphExecUpdate(exec, graph, &wrong, &why));
    CHECK(why == cudaGraphExecUpdateSuccess && !wrong);
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(out == 5);
    OK(cudaGraphDestroy(graph));
    CHECK(deleted == 1);
    OK(cudaGraphExecDestroy(exec));
    CHECK(deleted == 2);
    OK(cudaStreamDestroy(stream));
}

static void typed_calls()
{
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaEvent_t event;
    double *host;
    cudaMemPool_t pool;
    float *there;
    void *address;
    size_t size;

    CHECK(format.x == 32 && format.f == cudaChannelFormatKindFloat);
    format = cudaCreateChannelDesc<uchar4>();
    CHECK(format.x == 8 && format.w == 8 && format.f == cudaChannelFormatKindUnsigned);
    format = cudaCreateChannelDesc<short2>();
    CHECK(format.y == 16 && format.z == 0 && format.f == cudaChannelFormatKindSigned);
    CHECK(cudaCreateChannelDesc<double>().f == cudaChannelFormatKindNone);
    OK(cudaEventCreate(&event, cudaEventDisableTiming));
    OK(cudaEventDestroy(event));
    OK(cudaMallocHost(&host, 80));
    OK(cudaHostGetDevicePointer(&there, host, 0));
    OK(cudaFreeHost(host));
    OK(cudaMallocManaged(&there, 4096));
    OK(cudaMemAdvise(there, 4096, cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId));
    OK(cudaMemPrefetchAsync(there, 4096, 0));
    OK(cudaMemPrefetchAsync(there, 4096, cudaCpuDeviceId, cudaStreamPerThread));
    OK(cudaDeviceSynchronize());
    OK(cudaFree(there));
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaMallocAsync(&there, 4096, pool, cudaStreamPerThread));
    OK(cudaFreeAsync(there, cudaStreamPerThread));
    OK(cudaGetSymbolAddress(&address, factors));
    CHECK(address == factors);
    OK(cudaGetSymbolSize(&size, factors));
    CHECK(size == sizeof factors);
}

int main()
{
    kernels_run();
    kernels_are_captured();
    nodes_of_graphs_are_typed();
    typed_calls();
    for (int i = 0; i < 2; i++) {
        OK(cudaSetDevice(i));
        OK(cudaDeviceReset());
    }
    if (!failures)
        std::printf("kernels, symbols and typed calls do as they should\n");
    return failures != 0;
}
