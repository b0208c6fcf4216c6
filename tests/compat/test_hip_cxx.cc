/* test_hip_cxx.cc - tests HIP's header in C++: kernels that are functions and templates, symbols, and typed
 * calls. */
#include <hip/hip_runtime.h>

#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

static int failures;

#define CHECK(condition)                                                                                          \
    do {                                                                                                          \
        if (!(condition)) {                                                                                       \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                           \
            failures++;                                                                                           \
        }                                                                                                         \
    } while (0)

namespace kernels
{

template <class T> __global__ void add(const T *a, const T *b, T *sum, size_t count)
{
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count)
        sum[i] = a[i] + b[i];
}

template <class T> __global__ void square(const T *in, T *out, size_t count)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x)
        __hip_atomic_store(&out[i], in[i] * in[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

template <class T, int BY> __global__ void raise(T *data, size_t count)
{
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count)
        data[i] += BY;
}

} // namespace kernels

/* Sums the elements of each block. Each round adds the upper half of the partial sums to the lower half. */
template <int THREADS> __global__ void sum_blocks(const int *in, int *sums)
{
    __shared__ int part[THREADS];
    int i = static_cast<int>(threadIdx.x);

    part[i] = in[blockIdx.x * THREADS + threadIdx.x];
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (i < half)
            part[i] += part[i + half];
        __syncthreads();
    }
    if (i == 0)
        sums[blockIdx.x] = part[0];
}

/* Some threads return early. The other threads still wait for each other at barriers. */
static __global__ void some_leave(int *meetings)
{
    __shared__ int here;

    if (threadIdx.x == 0 && threadIdx.y == 0)
        here = 0;
    __syncthreads();
    if (threadIdx.y == 1)
        return;
    here++;
    __syncthreads();
    if (threadIdx.x == 0)
        *meetings = here * 100 + static_cast<int>(threadIdx.x + threadIdx.y);
}

static void blocks_have_barriers_and_memory(bool *passed)
{
    enum { THREADS = 256, BLOCKS = 50 };
    std::vector<int> in(THREADS * BLOCKS), sums(BLOCKS);
    int *data = nullptr, *results = nullptr, *meetings = nullptr;

    for (size_t i = 0; i < in.size(); i++)
        in[i] = static_cast<int>(i % 1000);
    *passed = hipMalloc(&data, in.size() * sizeof(int)) == hipSuccess &&
              hipMalloc(&results, BLOCKS * sizeof(int)) == hipSuccess &&
              hipHostMalloc(&meetings, sizeof(int)) == hipSuccess &&
              hipMemcpy(data, in.data(), in.size() * sizeof(int), hipMemcpyHostToDevice) == hipSuccess;
    hipLaunchKernelGGL(HIP_KERNEL_NAME(sum_blocks<THREADS>), dim3(BLOCKS), dim3(THREADS), 0, 0, data, results);
    hipLaunchKernelGGL(some_leave, dim3(1), dim3(8, 2), 0, 0, meetings);
    *passed &= hipMemcpy(sums.data(), results, BLOCKS * sizeof(int), hipMemcpyDeviceToHost) == hipSuccess;
    for (int b = 0; b < BLOCKS; b++) {
        int sum = 0;

        for (int i = 0; i < THREADS; i++)
            sum += in[static_cast<size_t>(b * THREADS + i)];
        *passed &= sum == sums[static_cast<size_t>(b)];
    }
    *passed &= *meetings == 800;
    *passed &=
        hipFree(data) == hipSuccess && hipFree(results) == hipSuccess && hipHostFree(meetings) == hipSuccess;
}

static __device__ int seen;

static __global__ void count(int *threads)
{
    atomicAdd(threads, 1);
    atomicMax(&seen, static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x));
}

static __global__ void delay(unsigned milliseconds, int ticks_per_ms)
{
    long long end = wall_clock64() + static_cast<long long>(milliseconds) * ticks_per_ms;

    while (wall_clock64() < end)
        __builtin_amdgcn_s_sleep(10);
}

static __global__ void nothing()
{
}

/* Launches a kernel through a template that forwards the kernel and its arguments, as AMD's test suites do. */
template <class K, class... A> static void launch(K kernel, hipStream_t stream, A &&...arguments)
{
    hipLaunchKernelGGL(kernel, dim3(4), dim3(256), 0, stream, std::forward<A>(arguments)...);
}

int main()
{
    const size_t items = 1000;
    size_t bytes = 0;
    std::vector<float> in(items, 1.5f), out(items);
    float *a, *b, *sum;
    int *threads, ticks = 0, value = 0;
    bool passed;

    CHECK(hipMalloc(&a, items * sizeof *a) == hipSuccess);
    CHECK(hipMalloc(reinterpret_cast<void **>(&b), items * sizeof *b) == hipSuccess);
    CHECK(hipMallocAsync(&sum, items * sizeof *sum, nullptr) == hipSuccess);
    CHECK(hipHostMalloc(&threads, sizeof *threads) == hipSuccess);
    CHECK(hipMemcpy(a, in.data(), items * sizeof *a, hipMemcpyHostToDevice) == hipSuccess);
    CHECK(hipMemcpy(b, in.data(), items * sizeof *b, hipMemcpyHostToDevice) == hipSuccess);
    *threads = 0;

    hipLaunchKernelGGL(kernels::add, dim3(4), dim3(256), 0, 0, static_cast<const float *>(a),
                       static_cast<const float *>(b), sum, items);
    hipLaunchKernelGGL(HIP_KERNEL_NAME(kernels::raise<float, 3>), 4, 256, 0, 0, sum, items);
    launch(kernels::raise<float, 4>, hipStreamPerThread, sum, items);
    hipLaunchKernelGGL(count, dim3(5), dim3(8, 4), 0, 0, threads);
    hipLaunchKernelGGL(nothing, 1, 1, 0, 0);
    CHECK(hipDeviceGetAttribute(&ticks, hipDeviceAttributeWallClockRate, 0) == hipSuccess);
    hipLaunchKernelGGL(delay, 1, 1, 0, 0, 20u, ticks);

    using namespace std::placeholders;
    CHECK(std::bind(hipMemcpy, _1, _2, _3, hipMemcpyDeviceToHost)(out.data(), sum, items * sizeof *sum) ==
          hipSuccess);
    for (float each : out)
        CHECK(each == 10.0f);
    CHECK(hipMemcpyFromSymbol(&value, HIP_SYMBOL(seen), sizeof value) == hipSuccess);
    CHECK(*threads == 160 && value == 31);
    value = 7;
    CHECK(hipMemcpyToSymbolAsync(HIP_SYMBOL(seen), &value, sizeof value, 0, hipMemcpyHostToDevice, 0) ==
          hipSuccess);
    CHECK(hipDeviceSynchronize() == hipSuccess && seen == 7);
    hipLaunchKernelGGL((kernels::square), dim3(2), dim3(64), 0, 0, static_cast<const float *>(sum), a, items);
    CHECK(hipMemcpy(out.data(), a, items * sizeof *a, hipMemcpyDeviceToHost) == hipSuccess);
    CHECK(out[0] == 100.0f && out[items - 1] == 100.0f);
    blocks_have_barriers_and_memory(&passed);
    CHECK(passed);

    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t exec;
    CHECK(hipStreamCreate(&stream) == hipSuccess);
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal) == hipSuccess);
    hipLaunchKernelGGL((kernels::raise<float, 2>), dim3(4), dim3(256), 0, stream, sum, items);
    CHECK(hipStreamEndCapture(stream, &graph) == hipSuccess);
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0) == hipSuccess);
    CHECK(hipGraphLaunch(exec, stream) == hipSuccess && hipGraphLaunch(exec, stream) == hipSuccess);
    CHECK(hipGraphExecDestroy(exec) == hipSuccess && hipGraphDestroy(graph) == hipSuccess);
    CHECK(hipMemcpy(out.data(), sum, items * sizeof *sum, hipMemcpyDeviceToHost) == hipSuccess);
    CHECK(out[0] == 14.0f && out[items - 1] == 14.0f);
    CHECK(hipStreamDestroy(stream) == hipSuccess);

    {
        hipFuncAttributes attributes;
        int blocks = 0, size = 0, active = 0;
        void *arguments[] = {&threads};

        CHECK(hipFuncGetAttributes(&attributes, count) == hipSuccess && attributes.maxThreadsPerBlock >= 256);
        CHECK(hipOccupancyMaxPotentialBlockSize(&blocks, &size, kernels::add<float>) == hipSuccess);
        CHECK(size == attributes.maxThreadsPerBlock && blocks > 0);
        CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&active, count, size, 0) == hipSuccess && active > 0);
        CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&active, count, 0, 0) == hipErrorInvalidValue);
        /* This launch runs only if the device supports cooperative launches. */
        *threads = 0;
        if (hipLaunchCooperativeKernel(count, dim3(2), dim3(8, 4), arguments, 0, 0) == hipSuccess) {
            CHECK(hipDeviceSynchronize() == hipSuccess && *threads == 64);
        } else {
            CHECK(hipGetLastError() == hipErrorNotSupported && *threads == 0);
        }
    }

    CHECK(hipMemcpyFromSymbol(&value, HIP_SYMBOL(seen), sizeof value, 1) == hipErrorInvalidValue);
    CHECK(hipGetSymbolSize(&bytes, HIP_SYMBOL(seen)) == hipSuccess && bytes == sizeof seen);
    (void)hipGetLastError();
    hipLaunchKernelGGL(nothing, dim3(1), dim3(0), 0, 0);
    CHECK(hipGetLastError() == hipErrorInvalidConfiguration);

    CHECK(hipFree(a) == hipSuccess && hipFree(b) == hipSuccess && hipFreeAsync(sum, nullptr) == hipSuccess);
    CHECK(hipHostFree(threads) == hipSuccess && hipDeviceReset() == hipSuccess);
    return failures != 0;
}
