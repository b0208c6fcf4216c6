/* test_cudart_block.cc - tests the threads of a block on the CPU device: their stacks and limits, blocks with many
 * threads, threads that end early, and barriers that some threads never reach. */
#include <cuda_runtime.h>

#include <cooperative_groups.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

static int failures;

#define CHECK(condition)                                                                                          \
    do {                                                                                                          \
        if (!(condition)) {                                                                                       \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                           \
            failures++;                                                                                           \
        }                                                                                                         \
    } while (0)
#define OK(call) CHECK((call) == cudaSuccess)

/* Launches a kernel and waits for it. */
template <class... P, class... A> static void run(void (*kernel)(P...), dim3 grid, dim3 block, A... arguments)
{
    cudaLaunchConfig_t config = {};

    config.gridDim = grid;
    config.blockDim = block;
    OK(cudaLaunchKernelEx(&config, kernel, arguments...));
    OK(cudaDeviceSynchronize());
}

/* ---- stacks ---- */

/* Uses kib KiB of stack, with a barrier in the innermost call. Returns true if no other thread has overwritten the
 * stack. */
static __attribute__((noinline)) bool intact(int kib, unsigned char value)
{
    volatile unsigned char here[1024];
    bool fine = true;

    std::memset(const_cast<unsigned char *>(here), value, sizeof here);
    if (kib > 0)
        fine = intact(kib - 1, value);
    else
        __syncthreads();
    for (volatile unsigned char &each : here)
        fine &= each == value;
    return fine;
}

static __global__ void use_stacks(int kib, int *fine)
{
    __syncthreads();
    if (intact(kib, static_cast<unsigned char>(threadIdx.x)))
        atomicAdd(fine, 1);
}

/* Overflows the thread's stack. The stack of another thread lies directly below it. */
static __attribute__((noinline)) int overflow(int kib)
{
    volatile char here[1024];

    here[0] = static_cast<char>(kib);
    here[1023] = 1;
    return kib > 0 ? overflow(kib - 1) + here[0] : here[1023];
}

static __global__ void use_too_much(int *out)
{
    __syncthreads();
    __syncthreads();
    if (threadIdx.x == 1) {
        *out = overflow(300);
        _exit(0);
    }
    __syncthreads();
}

static void stacks_have_a_limit()
{
    int *fine, status = 0;
    pid_t child = fork(); /* fork() first, because a child cannot use a device of its parent */

    if (!child) {
        if (!freopen("/dev/null", "w", stderr) || cudaMallocManaged(&fine, sizeof *fine) != cudaSuccess)
            _exit(0);
        run(use_too_much, 1, 8, fine);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status));

    OK(cudaMallocManaged(&fine, sizeof *fine));
    *fine = 0;
    run(use_stacks, 3, 64, 150, fine);
    CHECK(*fine == 3 * 64);
    *fine = 0;
    OK(cudaDeviceSetLimit(cudaLimitStackSize, 8 << 20));
    run(use_stacks, 2, 8, 3000, fine);
    CHECK(*fine == 2 * 8);
    OK(cudaDeviceSetLimit(cudaLimitStackSize, 1024));
    OK(cudaFree(fine));
}

/* ---- many ---- */

/* In each round a thread reads what its neighbour wrote in the round before. */
static __global__ void pass_on(int rounds, unsigned *out)
{
    __shared__ unsigned ring[2][1024];
    unsigned n = blockDim.x * blockDim.y * blockDim.z;
    unsigned i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);

    ring[0][i] = i;
    for (int round = 0; round < rounds; round++) {
        __syncthreads();
        ring[(round + 1) % 2][i] = ring[round % 2][(i + 1) % n];
    }
    out[blockIdx.x * n + i] = ring[rounds % 2][i];
}

static void many_threads_wait()
{
    const unsigned blocks = 20;
    const dim3 sizes[] = {1, 31, 32, 100, dim3(7, 3, 2), 1024, dim3(32, 32), 256};
    std::vector<unsigned> host(blocks * 1024);
    unsigned *out;

    OK(cudaMalloc(&out, host.size() * sizeof *out));
    for (const dim3 &size : sizes) {
        unsigned n = size.x * size.y * size.z;

        run(pass_on, blocks, size, 9, out);
        OK(cudaMemcpy(host.data(), out, blocks * n * sizeof *out, cudaMemcpyDeviceToHost));
        for (unsigned i = 0; i < blocks * n; i++)
            CHECK(host[i] == (i % n + 9) % n);
    }
    OK(cudaFree(out));
}

/* ---- threads that never reach a barrier ---- */

static __global__ void some_leave(int *counts)
{
    int i = static_cast<int>(threadIdx.x);

    for (int round = 0; round < 8; round++) {
        int here = __syncthreads_count(1), even = __syncthreads_count(i % 2 == 0);

        if (i == 7 || i == 6)
            counts[2 * round] = here, counts[2 * round + 1] = even;
        if (i == round)
            return;
    }
}

/* A shuffle names lanes that have ended or that wait at the block's barrier. The lanes that reach the shuffle must
 * continue. */
static __global__ void warps_lack_lanes(int *out)
{
    int i = static_cast<int>(threadIdx.x);

    if (i >= 24)
        return;
    if (i >= 16) {
        __syncthreads();
        out[i] = 1;
        return;
    }
    out[i] = __shfl_xor_sync(0xffffffff, i, i < 8 ? 1 : 16); /* lanes from 8 on ask for lanes that never arrive */
    out[i + 32] = __popc(__ballot_sync(0xffffffff, 1));
    __syncthreads();
    out[i + 64] = __syncthreads_count(1);
}

static __global__ void who_is_active(unsigned *out)
{
    unsigned i = threadIdx.x;

    out[i] = __activemask();
    if (i % 2)
        out[i + 64] = __activemask();
    else if (i % 4)
        out[i + 64] = __activemask();
    for (unsigned n = 0; n < i % 3; n++)
        out[i + 128] = __activemask();
}

static void not_all_come()
{
    int *out;
    unsigned *masks;

    OK(cudaMallocManaged(&out, 128 * sizeof *out));
    OK(cudaMallocManaged(&masks, 192 * sizeof *masks));
    run(some_leave, 1, 8, out);
    for (int round = 0; round < 8; round++) {
        CHECK(out[2 * round] == 8 - round);
        CHECK(out[2 * round + 1] == 4 - (round + 1) / 2);
    }
    run(warps_lack_lanes, 1, 32, out);
    for (int i = 0; i < 16; i++) {
        CHECK(out[i] == (i < 8 ? i ^ 1 : i));
        CHECK(out[i + 32] == 16 && out[i + 64] == 16);
    }
    CHECK(out[16] == 1 && out[23] == 1);
    run(who_is_active, 1, 64, masks);
    for (unsigned i = 0; i < 64; i++) {
        CHECK(masks[i] == 0xffffffff);
        if (i % 4)
            CHECK(masks[i + 64] == (i % 2 ? 0xaaaaaaaa : 0x44444444));
    }
    OK(cudaFree(masks));
    OK(cudaFree(out));
}

/* ---- launches of kernels with barriers ---- */

static __global__ void grid_waits(int *out)
{
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();

    atomicAdd(out, 1);
    grid.sync();
    if (grid.thread_rank() == 0)
        out[1] = grid.is_valid() ? *out : -1;
}

/* A program may define functions with these names, as programs for host compilers do. */
static inline int max(int a, int b)
{
    return a > b ? a : b;
}

static inline float rsqrtf(float x)
{
    return 10 * x;
}

static __global__ void calls_its_own(int *out)
{
    *out = max(1, 2) + (min(3, 4) == 3) + (rsqrtf(1) == 10) + (max(1u, 5u) == 5);
}

static void kernels_without_the_command()
{
    int *out, blocks = 0, threads = 0, unknown = 0;
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};

    OK(cudaMallocManaged(&out, 2 * sizeof *out));
    out[0] = 0;
    void *args[] = {&out};
    OK(cudaLaunchCooperativeKernel(grid_waits, dim3(6), dim3(50), args, 0, nullptr));
    OK(cudaDeviceSynchronize());
    CHECK(out[0] == 300 && out[1] == 300);
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    config.gridDim = 4;
    config.blockDim = 10;
    config.attrs = &attribute;
    config.numAttrs = 1;
    OK(cudaLaunchKernelEx(&config, grid_waits, out));
    OK(cudaDeviceSynchronize());
    CHECK(out[0] == 340 && out[1] == 340);
    CHECK(cudaLaunchCooperativeKernel(grid_waits, dim3(1 << 20), dim3(50), args, 0, nullptr) ==
          cudaErrorCooperativeLaunchTooLarge);
    CHECK(cudaLaunchKernel(static_cast<const void *>(&unknown), dim3(1), dim3(1), args, 0, nullptr) ==
          cudaErrorInvalidDeviceFunction);
    CHECK(cudaLaunchCooperativeKernel(static_cast<const void *>(&unknown), dim3(1), dim3(1), args, 0, nullptr) ==
          cudaErrorInvalidDeviceFunction);
    OK(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, grid_waits));
    CHECK(blocks > 0 && threads > 0);
    run(calls_its_own, 1, 1, out);
    CHECK(*out == 5);

    /* A kernel waits for the grid, but its launch is not cooperative. The device is then reset. */
    config.numAttrs = 0;
    OK(cudaLaunchKernelEx(&config, grid_waits, out));
    CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    CHECK(cudaFree(out) == cudaErrorLaunchFailure);
    OK(cudaDeviceReset());
    OK(cudaGetLastError());
}

int main()
{
    stacks_have_a_limit();
    many_threads_wait();
    not_all_come();
    kernels_without_the_command();
    if (!failures)
        std::printf("the threads of a block wait for whom they should\n");
    return failures != 0;
}
