/* sample_histogram.cu - computes histograms with atomics in shared and global memory, and tests every atomic with
 * operands of other types. */
#include "sample.h"

#include <vector>

#define BINS 64

__global__ void histogram(const unsigned char *data, size_t count, unsigned *bins)
{
    __shared__ unsigned part[BINS];

    for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
        part[i] = 0;
    __syncthreads();
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x)
        atomicAdd(part + data[i] % BINS, 1);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
        atomicAdd(&bins[i], part[i]);
}

struct results {
    int add, sub, exch, max, min, cas, andded, orred, xorred;
    unsigned inc, dec, maxUnsigned;
    unsigned long long wide, wideMax;
    float real;
    double exact;
};

__global__ void atomics(results *r, int threads)
{
    const unsigned int tid = blockDim.x * blockIdx.x + threadIdx.x;

    atomicAdd(&r->add, 10u); /* converts unsigned to int */
    atomicSub(&r->sub, 10);
    atomicExch(&r->exch, tid);
    atomicMax(&r->max, tid);
    atomicMin(&r->min, -(int)tid);
    atomicCAS(&r->cas, tid - 1, tid);
    atomicAnd(&r->andded, 2 * tid + 7);
    atomicOr(&r->orred, 1 << (tid % 8));
    atomicXor(&r->xorred, tid);
    atomicInc(&r->inc, 17);
    atomicDec(&r->dec, 137);
    atomicMax(&r->maxUnsigned, 0xfffffff0 + tid % 8);
    atomicAdd(&r->wide, 1ull << 33);
    atomicMax(&r->wideMax, tid * 0x100000000ull);
    atomicAdd(&r->real, 1);     /* converts int to float */
    atomicAdd(&r->exact, 0.5f); /* converts float to double */
    atomicAdd_system(&r->add, 1);
    atomicAdd_block(&r->sub, 1);
    atomicMax_system(&r->max, threads);
}

int main()
{
    const size_t count = 100000;
    std::vector<unsigned char> host(count);
    unsigned expected[BINS] = {0}, got[BINS], *bins;
    unsigned char *data;
    results *r, there = {0, 0, 0, -1000, 1000, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0};

    for (size_t i = 0; i < count; i++) {
        host[i] = (unsigned char)(i * i / 7);
        expected[host[i] % BINS]++;
    }
    OK(cudaMalloc(&data, count));
    OK(cudaMalloc(&bins, sizeof got));
    OK(cudaMalloc(&r, sizeof *r));
    OK(cudaMemset(bins, 0, sizeof got));
    OK(cudaMemcpy(data, host.data(), count, cudaMemcpyHostToDevice));
    histogram<<<10, 100>>>(data, count, bins);
    OK(cudaMemcpy(got, bins, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < BINS; i++)
        CHECK(got[i] == expected[i]);

    OK(cudaMemcpy(r, &there, sizeof there, cudaMemcpyHostToDevice));
    atomics<<<4, 64>>>(r, 256);
    OK(cudaMemcpy(&there, r, sizeof there, cudaMemcpyDeviceToHost));
    CHECK(there.add == 256 * 11 && there.sub == -256 * 9);
    CHECK(there.exch >= 0 && there.exch < 256);
    CHECK(there.max == 256 && there.min == -255);
    CHECK(there.andded == 1 && there.orred == 0xff && there.xorred == 0);
    CHECK(there.inc == 256 % 18 && there.dec == (138 - 256 % 138) % 138);
    CHECK(there.maxUnsigned == 0xfffffff7);
    CHECK(there.wide == 256ull << 33 && there.wideMax == 255ull << 32);
    CHECK(there.real == 256 && there.exact == 128);
    OK(cudaFree(data));
    OK(cudaFree(bins));
    OK(cudaFree(r));
    return finish("everything was counted once");
}
