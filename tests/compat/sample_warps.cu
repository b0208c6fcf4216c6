/* sample_warps.cu - tests communication within a warp: votes, shuffles, matches, reductions, and coalesced
 * groups. */
#include "sample.h"

#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

#define FULL_MASK 0xffffffffu

/* The last warp of the block has fewer than 32 threads. */
__global__ void votes(unsigned *out, int n)
{
    int tx = threadIdx.x, lane = tx % warpSize;
    unsigned mask = __ballot_sync(FULL_MASK, tx < n);
    int any = __any_sync(mask, tx == 40), all = __all_sync(mask, tx < 64);

    out[tx] = mask;
    out[tx + 128] = any | all << 1;
    out[tx + 256] = __syncthreads_count(tx % 5 == 0);
    out[tx + 384] = __syncthreads_and(tx < n) | __syncthreads_or(tx == 70) << 1;
    __syncwarp();
    out[tx + 512] = __match_any_sync(FULL_MASK, lane / 3);
    int same;
    out[tx + 640] = __match_all_sync(FULL_MASK, tx / 32, &same);
    out[tx + 640] ^= same ? 0 : 1;
}

__global__ void shuffles(int *out)
{
    int lane = threadIdx.x, value = lane * lane;
    double precise = lane / 4.0;

    out[lane] = __shfl_sync(FULL_MASK, value, 5);
    out[lane + 32] = __shfl_up_sync(FULL_MASK, value, 3);
    out[lane + 64] = __shfl_down_sync(FULL_MASK, value, 30);
    out[lane + 96] = __shfl_xor_sync(FULL_MASK, value, 1);
    out[lane + 128] = __shfl_sync(FULL_MASK, value, 1, 8);
    out[lane + 160] = __shfl_up_sync(FULL_MASK, value, 1, 4);
    out[lane + 192] = (int)(4 * __shfl_down_sync(FULL_MASK, precise, 1, 16));
    /* The two halves of the warp diverge: each runs its own code. */
    if (lane < 16) {
        for (int i = 0; i < 3; i++)
            value = __shfl_xor_sync(0xffff, value, 1 << i);
    } else {
        value = __shfl_sync(0xffff0000, value, 31);
    }
    out[lane + 224] = value;
}

/* An inclusive scan of a block, by shuffles. */
__global__ void shfl_scan(int *data, int width)
{
    extern __shared__ int sums[];
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    int lane_id = id % warpSize, warp_id = threadIdx.x / warpSize, warps = blockDim.x / warpSize;
    int value = data[id];

#pragma unroll
    for (int i = 1; i <= width; i *= 2) {
        unsigned int mask = 0xffffffff;
        int n = __shfl_up_sync(mask, value, i, width);

        if (lane_id >= i)
            value += n;
    }
    if (threadIdx.x % warpSize == warpSize - 1)
        sums[warp_id] = value;
    __syncthreads();
    if (warp_id == 0 && lane_id < warps) {
        int warp_sum = sums[lane_id];
        unsigned mask = (1u << warps) - 1;

        for (int i = 1; i <= warps; i *= 2) {
            int n = __shfl_up_sync(mask, warp_sum, i, warps);

            if (lane_id >= i)
                warp_sum += n;
        }
        sums[lane_id] = warp_sum;
    }
    __syncthreads();
    if (warp_id > 0)
        value += sums[warp_id - 1];
    data[id] = value;
}

/* One atomic addition for all active threads of the warp (warp-aggregated atomics). */
__device__ int atomicAggInc(int *counter)
{
    cg::coalesced_group active = cg::coalesced_threads();
    int first = 0;

    if (active.thread_rank() == 0)
        first = atomicAdd(counter, (int)active.size());
    return active.shfl(first, 0) + active.thread_rank();
}

__global__ void filter(const int *in, int *out, int *counter, int n)
{
    for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += gridDim.x * blockDim.x)
        if (in[i] % 3 == 0)
            out[atomicAggInc(counter)] = in[i];
}

__global__ void partitions(int *out)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    auto eight = cg::tiled_partition<8>(warp);
    cg::coalesced_group odd = cg::binary_partition(warp, threadIdx.x & 1);
    cg::coalesced_group third = cg::labeled_partition(warp, threadIdx.x % 3);
    int i = block.thread_rank();

    out[i] = eight.meta_group_rank() * 100 + eight.thread_rank();
    out[i + 64] = odd.size() * 100 + odd.thread_rank();
    out[i + 128] = third.size() * 100 + third.thread_rank();
    out[i + 192] = eight.shfl_xor(i, 7);
    out[i + 256] = cg::inclusive_scan(eight, 1);
    out[i + 320] = cg::exclusive_scan(warp, i, cg::plus<int>());
    out[i + 384] = eight.any(i == 9) + 10 * eight.all(i < 16);
    out[i + 448] = (int)eight.ballot(i % 2);
    cg::thread_group dynamic = cg::tiled_partition(cg::thread_group(block), 4);
    dynamic.sync();
    out[i + 512] = (int)(dynamic.size() * 100 + dynamic.thread_rank());
}

int main()
{
    unsigned *words;
    int *numbers, *in, *out, *counter;
    const int n = 1000;

    OK(cudaMallocManaged(&words, 1024 * sizeof *words));
    OK(cudaMallocManaged(&numbers, 1024 * sizeof *numbers));
    OK(cudaMallocManaged(&in, n * sizeof *in));
    OK(cudaMallocManaged(&out, n * sizeof *out));
    OK(cudaMallocManaged(&counter, sizeof *counter));

    votes<<<1, 96>>>(words, 80);
    shuffles<<<1, 32>>>(numbers);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 96; i++) {
        unsigned same = 7u << i % 32 / 3 * 3;

        CHECK(words[i] == (i < 64 ? FULL_MASK : 0xffff));
        CHECK(words[i + 128] == (i / 32 == 1) + 2u * (i < 64));
        CHECK(words[i + 256] == 20 && words[i + 384] == 2);
        CHECK(words[i + 512] == same && words[i + 640] == FULL_MASK);
    }
    for (int i = 0; i < 32; i++) {
        int partner = i < 16 ? i ^ 7 : 31;

        CHECK(numbers[i] == 25);
        CHECK(numbers[i + 32] == (i < 3 ? i * i : (i - 3) * (i - 3)));
        CHECK(numbers[i + 64] == (i > 1 ? i * i : (i + 30) * (i + 30)));
        CHECK(numbers[i + 96] == (i ^ 1) * (i ^ 1));
        CHECK(numbers[i + 128] == (i / 8 * 8 + 1) * (i / 8 * 8 + 1));
        CHECK(numbers[i + 160] == (i % 4 ? (i - 1) * (i - 1) : i * i));
        CHECK(numbers[i + 192] == (i % 16 == 15 ? i : i + 1));
        CHECK(numbers[i + 224] == partner * partner);
    }

    for (int i = 0; i < 512; i++)
        numbers[i] = 1;
    shfl_scan<<<2, 256, 8 * sizeof(int)>>>(numbers, 32);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 512; i++)
        CHECK(numbers[i] == i % 256 + 1);

    int sum = 0, expected = 0;
    for (int i = 0; i < n; i++) {
        in[i] = i;
        expected += i % 3 ? 0 : i;
    }
    *counter = 0;
    filter<<<3, 100>>>(in, out, counter, n);
    OK(cudaDeviceSynchronize());
    CHECK(*counter == (n + 2) / 3);
    for (int i = 0; i < *counter; i++)
        sum += out[i];
    CHECK(sum == expected);

    partitions<<<1, 64>>>(numbers);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 64; i++) {
        int lane = i % 32, first = i - lane, members = 0, before = 0;

        for (int j = 0; j < 32; j++)
            if ((first + j) % 3 == i % 3) {
                members++;
                before += j < lane;
            }
        CHECK(numbers[i] == lane / 8 * 100 + i % 8);
        CHECK(numbers[i + 64] == 1600 + lane / 2);
        CHECK(numbers[i + 128] == members * 100 + before);
        CHECK(numbers[i + 192] == i / 8 * 8 + 7 - i % 8);
        CHECK(numbers[i + 256] == i % 8 + 1);
        CHECK(numbers[i + 320] == (first + i - 1) * lane / 2);
        CHECK(numbers[i + 384] == (i / 8 == 1) + 10 * (i < 16));
        CHECK(numbers[i + 448] == 0xaa);
        CHECK(numbers[i + 512] == 400 + i % 4);
    }
    OK(cudaFree(words));
    OK(cudaFree(numbers));
    OK(cudaFree(in));
    OK(cudaFree(out));
    OK(cudaFree(counter));
    return finish("warps agree");
}
