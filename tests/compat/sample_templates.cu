/*
 * sample_templates.cu - all ways to write a launch: templates, overloads, specializations, namespaces, pointers to
 * kernels, macros and headers, default arguments, structs by value, and configurations that contain templates and
 * shifts.
 */
#include "sample.h"
#include "sample_templates.cuh"

#include <iostream>
#include <string>

extern "C" __global__ void plain(int *data, int value)
{
    if (threadIdx.x + threadIdx.y + blockIdx.x == 0)
        *data = value;
}

/* Overloads. */
__global__ void put(int *data, int value)
{
    *data = value;
}

__global__ void put(float *data, float value, int)
{
    *data = value;
}

template <class T> __global__ void put(T *data, T *from)
{
    *data = *from;
}

/* A primary template that is only declared, and its specializations. */
template <class T> __global__ void kind(int *out);
template <> __global__ void kind<float>(int *out)
{
    *out = 1;
}
template <> __global__ void kind<double>(int *out)
{
    *out = 2;
}

struct Parameters {
    int values[100];
    int count;
};

__global__ void structs(const __grid_constant__ Parameters p, int *out)
{
    int sum = 0;

    for (int i = 0; i < p.count; i++)
        sum += p.values[i];
    *out = sum;
}

template <int N> struct Width {
    static const int value = N;
};

template <class A> struct Wrap {
    typedef A type;
    static const int threads = 4;
};

__constant__ float coefficients[3];
__device__ int counter;
__device__ float polynomial(float x);

__global__ void evaluate(float *data)
{
    data[threadIdx.x] = polynomial(data[threadIdx.x]);
    atomicAdd(&counter, 1);
}

__device__ __noinline__ float polynomial(float x)
{
    return coefficients[0] + x * (coefficients[1] + x * coefficients[2]);
}

/* Declared here, defined below. */
__global__ void later(int *data);
extern const int lineOfLater;

static int valueOf(const int *data)
{
    int value = -1;

    OK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

struct Launcher {
    void (*kernel)(int *, int);
    cudaStream_t stream;

    void operator()(int *data, int value) const
    {
        this->kernel<<<1, 1, 0, stream>>>(data, value);
    }
};

static int launched(int *data)
{
    plain<<<1, 1>>>(data, 77);
    return 78;
}

int main()
{
    int *data, shift = 3;
    double real = 20.9;
    float *floats, host[8];
    const char *text = "a string with kernel<<<1, 2>>>(x); in it", *raw = R"x(and a "raw" <<< >>> one)x";
    Parameters p;

    OK(cudaMalloc(&data, 1024 * sizeof *data));
    OK(cudaMalloc(&floats, sizeof host));

    /* Templates. */
    OK(cudaMemset(data, 0, 400));
    raiseTwice(data, 100);
    CHECK(valueOf(data + 99) == 5);
    shapes::raise<int, 7><<<1, Width<1>::value>>>(data, 1);
    CHECK(valueOf(data) == 12 && valueOf(data + 1) == 5);
    shapes::apply<<<1, 1>>>(data, 1, shapes::Square<int>());
    CHECK(valueOf(data) == 144);
    shapes::sumOfAll<<<1, 1>>>(data, 1, 2u, 3.5f, 'A');
    CHECK(valueOf(data) == 6 + 'A');
    kind<double><<<1, 1>>>(data);
    CHECK(valueOf(data) == 2);

    /* Configurations. */
    plain<<<1 << (shift >> 1), Wrap<Wrap<Wrap<int>>>::threads>>>(data, 11);
    CHECK(valueOf(data) == 11);
    plain<<<shift < 4 ? 1 : 2, dim3(1, shift > 2), sizeof(int) * 4>>>(data, 12);
    CHECK(valueOf(data) == 12);
    plain<<<dim3{1, 1, 1}, {1, 1}>>>(
        data,
        13 /* a comment, with >>> */
    );
    CHECK(valueOf(data) == 13);
    if (shift)
        plain<<<1, 1>>>(data, 14);
    else
        plain<<<1, 1>>>(data, 15);
    CHECK(valueOf(data) == 14);

    /* Overloads, pointers to kernels, and conversions. */
    put<<<1, 1>>>(data, 16);
    put<<<1, 1>>>(floats, 2.5f, 0);
    put<<<1, 1>>>(data + 1, data);
    CHECK(valueOf(data + 1) == 16);
    void (*pointer)(int *, int) = plain;
    (*pointer)<<<1, 1>>>(data, 17);
    CHECK(valueOf(data) == 17);
    void (*table[])(int *, int) = {plain, put};
    table[1]<<<1, 1>>>(data, 18);
    CHECK(valueOf(data) == 18);
    Launcher launcher = {plain, cudaStreamPerThread};
    launcher(data, 19);
    CHECK(valueOf(data) == 19);
    plain<<<1, 1>>>(data, real);
    CHECK(valueOf(data) == 20);
    [&] { plain<<<1, 1>>>(data, shift); }();
    CHECK(valueOf(data) == 3);
    plain<<<1, 1>>>(data, launched(data));
    CHECK(valueOf(data) == 78);

    /* Launched by cudaLaunchKernel() with the address of the function. */
    int value = 21;
    void *args[] = {&data, &value};
    OK(cudaLaunchKernel((void *)plain, dim3(1), dim3(1), args, 0, NULL));
    CHECK(valueOf(data) == 21);
    value = 4;
    int from = 1;
    void *more[] = {&data, &value, &from};
    OK(cudaMemset(data, 0, 16));
    OK(cudaLaunchKernel((const void *)shapes::raise<int, 5>, 1, 4, more, 0, 0));
    CHECK(valueOf(data + 3) == 6);
    OK(cudaLaunchKernel(plain, dim3(1), dim3(1), args));
    CHECK(valueOf(data) == 4);
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 1;
    OK(cudaLaunchKernelEx(&config, plain, data, 22.5f));
    CHECK(valueOf(data) == 22);
    OK(cudaLaunchKernelExC(&config, (const void *)plain, args));
    CHECK(valueOf(data) == 4);

    /* Large structs, symbols, and kernels that are declared first. */
    p.count = 100;
    for (int i = 0; i < 100; i++)
        p.values[i] = i;
    structs<<<1, 1>>>(p, data);
    p.count = 0;
    CHECK(valueOf(data) == 4950);
    const float cs[] = {1, 2, 3}, xs[] = {0, 1, 2, 3, 4, 5, 6, 7};
    OK(cudaMemcpyToSymbol(coefficients, cs, sizeof cs));
    OK(cudaMemcpy(floats, xs, sizeof xs, cudaMemcpyHostToDevice));
    evaluate<<<1, 8>>>(floats);
    OK(cudaMemcpy(host, floats, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++)
        CHECK(host[i] == 1 + 2 * xs[i] + 3 * xs[i] * xs[i]);
    OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    CHECK(value == 8);
    later<<<1, 1>>>(data);
    CHECK(valueOf(data) == lineOfLater);

    CHECK(std::string(text).size() == 40 && std::string(raw).size() == 23);
    std::cout << (1 << 3) << "\n";
    OK(cudaFree(data));
    OK(cudaFree(floats));
    return finish("launches are what they are written as");
}

/* __LINE__ must be the same as in the source file. */
extern const int lineOfLater = __LINE__ + 4;

__global__ void later(int *data)
{
    *data = __LINE__;
}
