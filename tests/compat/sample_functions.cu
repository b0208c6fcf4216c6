/* sample_functions.cu - tests functions that kernels call: min and max, intrinsics, conversions, math, and
 * types. */
#include "sample.h"

#include <algorithm>
#include <cfloat>

struct __align__(16) Aligned {
    float x, y;
};

/* Each of these functions returns the number of the first wrong result, counted from 1, or 0 if all are right. */
__device__ int integers()
{
    if (min(3, -4) != -4 || max(3, -4) != 3 || max(3u, 4) != 4u || min(5ll, -6ll) != -6 || max(2ull, 7ull) != 7)
        return 1;
    if (__popc(0xf0f0u) != 8 || __popcll(~0ull) != 64 || __clz(1) != 31 || __clz(0) != 32 || __clzll(1) != 63)
        return 2;
    if (__ffs(8) != 4 || __ffs(0) != 0 || __ffsll(1ll << 40) != 41 || __brev(1) != 0x80000000u ||
        __brevll(2) != 1ull << 62)
        return 3;
    if (__mul24(-3, 5) != -15 || __umul24(0x1000003u, 2) != 6 || __mulhi(-1, 1) != -1 ||
        __umulhi(0x80000000u, 4) != 2)
        return 4;
    if (__mul64hi(-1ll, 3) != -1 || __umul64hi(1ull << 63, 6) != 3)
        return 5;
    if (__sad(3, -4, 10u) != 17 || __usad(3, 9, 1) != 7 || __hadd(-3, 4) != 0 || __rhadd(3, 4) != 4)
        return 6;
    if (__byte_perm(0x03020100, 0x07060504, 0x7531) != 0x07050301 || __byte_perm(0x80, 0, 0x4448) != 0xff)
        return 7;
    if (__funnelshift_l(0x80000000, 1, 1) != 3 || __funnelshift_r(2, 1, 1) != 0x80000001)
        return 8;
    return 0;
}

__device__ int reals()
{
    if (min(2.5f, 1.5f) != 1.5f || max(2.5, 3.5) != 3.5 || max(1.0f, 2.0) != 2.0 || fminf(1, 2) != 1)
        return 11;
    if (__float_as_int(1.0f) != 0x3f800000 || __int_as_float(0x40000000) != 2.0f ||
        __double_as_longlong(1.0) != 0x3ff0000000000000ll || __hiloint2double(0x40000000, 0) != 2.0)
        return 12;
    if (__float2int_rn(2.5f) != 2 || __float2int_rz(-2.7f) != -2 || __float2int_ru(2.1f) != 3 ||
        __float2int_rd(-2.1f) != -3)
        return 13;
    if (__float2int_rz(1e20f) != 0x7fffffff || __float2uint_rn(-5.0f) != 0 || __double2int_rn(1e300) != 0x7fffffff)
        return 14;
    if (fabsf(__expf(1) - 2.7182817f) > 1e-5f || fabsf(__logf(10) - 2.302585f) > 1e-5f || __powf(2, 10) < 1023.9f)
        return 15;
    if (__fdividef(6, 3) != 2 || __saturatef(1.5f) != 1 || __saturatef(-1) != 0 || __fmaf_rn(2, 3, 4) != 10 ||
        __fsqrt_rn(16) != 4 || rsqrtf(4) != 0.5f || rsqrt(16.0) != 0.25)
        return 16;
    float sine, cosine;
    __sincosf(0, &sine, &cosine);
    if (sine != 0 || cosine != 1 || fabs(sinpi(0.5) - 1) > 1e-15 || fabs(cospi(1.0) + 1) > 1e-15)
        return 17;
    if (__ldg(&sine) != 0 || sizeof(Aligned) != 16)
        return 18;
    return 0;
}

__host__ __device__ int4 vectors(int x)
{
    float4 f = make_float4(1, 2, 3, 4);
    uchar4 c = make_uchar4(1, 2, 3, 255);

    return make_int4(x, (int)f.w, c.w, (int)sizeof(double2));
}

__global__ void compute(int *out, long long *ticks)
{
    long long begin = clock64();
    int4 v = vectors(7);

    out[0] = integers();
    out[1] = reals();
    out[2] = v.x == 7 && v.y == 4 && v.z == 255 && v.w == 16 ? 0 : 21;
    out[3] = warpSize == 32 && blockDim.z == 1 && gridDim.y == 1 ? 0 : 22;
    *ticks = clock64() - begin;
}

int main()
{
    int *out;
    long long *ticks;

    OK(cudaMallocManaged(&out, 16));
    OK(cudaMallocManaged(&ticks, sizeof *ticks));
    compute<<<1, 1>>>(out, ticks);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++)
        CHECK(out[i] == 0);
    if (failures)
        std::printf("%d %d %d %d\n", out[0], out[1], out[2], out[3]);
    CHECK(*ticks >= 0 && vectors(1).x == 1);
    CHECK(std::min(2, 3) == 2 && max(2, 3) == 3);
    OK(cudaFree(out));
    OK(cudaFree(ticks));
    return finish("kernels can calculate");
}
