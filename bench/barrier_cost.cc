/*
 * barrier_cost.cc - how long a thread of a kernel takes for a barrier of its block, on the CPU device.
 *
 *     make barrier-cost
 *
 * One block of 32 to 1024 threads executes 1000 barriers, so that the cost of the launch hardly matters. The
 * median of 15 launches is divided by the number of threads and barriers. Then many blocks that execute two
 * barriers for each element, like a transpose by tiles, and blocks without barriers, both on all processors. The
 * results are checked.
 */
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#define ROUNDS 1000
#define SAMPLES 15
#define SIDE 2048
#define TILE 32

static __global__ void meet(int *out)
{
    int sum = 0;

    for (int i = 0; i < ROUNDS; i++) {
        sum += static_cast<int>(threadIdx.x);
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}

/* Runs in blocks of TILE x TILE threads. */
static __global__ void transpose(float *out, const float *in)
{
    __shared__ float tile[TILE][TILE + 1];

    tile[threadIdx.y][threadIdx.x] =
        in[(blockIdx.y * TILE + threadIdx.y) * SIDE + blockIdx.x * TILE + threadIdx.x];
    __syncthreads();
    out[(blockIdx.x * TILE + threadIdx.y) * SIDE + blockIdx.y * TILE + threadIdx.x] =
        tile[threadIdx.x][threadIdx.y];
}

static __global__ void add_one(float *data)
{
    data[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

/* Returns the median time in seconds of a launch until its end. */
template <class... P, class... A>
static double time_of(dim3 grid, dim3 block, void (*kernel)(P...), A... arguments)
{
    std::vector<double> samples;
    cudaLaunchConfig_t config = {};

    config.gridDim = grid;
    config.blockDim = block;
    for (int i = 0; i < SAMPLES; i++) {
        auto begin = std::chrono::steady_clock::now();

        if (cudaLaunchKernelEx(&config, kernel, arguments...) != cudaSuccess ||
            cudaDeviceSynchronize() != cudaSuccess)
            return -1;
        samples.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(samples.begin(), samples.end());
    return samples[SAMPLES / 2];
}

int main()
{
    const size_t elements = static_cast<size_t>(SIDE) * SIDE;
    std::vector<float> host(elements), back(elements);
    float *in, *out;
    int *sums;
    bool fine = true;

    for (size_t i = 0; i < elements; i++)
        host[i] = static_cast<float>(i % 1000003);
    if (cudaMalloc(&in, elements * sizeof *in) != cudaSuccess ||
        cudaMalloc(&out, elements * sizeof *out) != cudaSuccess ||
        cudaMallocManaged(&sums, 1024 * sizeof *sums) != cudaSuccess ||
        cudaMemcpy(in, host.data(), elements * sizeof *in, cudaMemcpyHostToDevice) != cudaSuccess)
        return 1;
    for (unsigned threads = 32; threads <= 1024; threads *= 2) {
        double seconds = time_of(1, threads, meet, sums);

        fine &= seconds > 0 && sums[threads - 1] == ROUNDS * static_cast<int>(threads - 1);
        std::printf("%4u threads meet          %8.1f ns for each thread and meeting\n", threads,
                    seconds * 1e9 / threads / ROUNDS);
    }
    double seconds = time_of(dim3(SIDE / TILE, SIDE / TILE), dim3(TILE, TILE), transpose, out, in);
    std::printf("transpose of 2048 x 2048   %8.1f ms, blocks of 1024 threads\n", seconds * 1e3);
    fine &= cudaMemcpy(back.data(), out, elements * sizeof *out, cudaMemcpyDeviceToHost) == cudaSuccess;
    for (size_t i = 0; i < elements; i++)
        fine &= back[i] == host[i % SIDE * SIDE + i / SIDE];
    seconds = time_of(static_cast<unsigned>(elements / 256), 256, add_one, out);
    std::printf("no meeting                 %8.1f ns for each thread, blocks of 256\n", seconds * 1e9 / elements);
    fine &= cudaMemcpy(&back[0], out, sizeof back[0], cudaMemcpyDeviceToHost) == cudaSuccess &&
            back[0] == host[0] + SAMPLES;
    if (!fine)
        std::printf("and the results are wrong\n");
    return !fine || cudaDeviceReset() != cudaSuccess;
}
