/*
 * runtime.cu - a program of the CUDA runtime, which prints checksums of what it copied. tools/run-programs.py builds it
 * with nvcc, with the shared and with the static runtime, and runs it with and without "leat run". It contains nothing
 * about leat.
 */
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

static const size_t sizes[] = {4, 4096, (1 << 20) + 12, (24 << 20) + 52};
static const size_t most = (24 << 20) + 52;

#define CHECK(call) check(call, #call)

static void check(cudaError_t code, const char *call)
{
    if (code != cudaSuccess) {
        printf("%s: %s\n", call, cudaGetErrorString(code));
        exit(1);
    }
}

__global__ void change(uint32_t *data, size_t count, uint32_t more)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

    if (i < count)
        data[i] = data[i] * 3 + more;
}

static void paint(std::vector<uint32_t> &data, uint32_t seed)
{
    for (size_t i = 0; i < data.size(); i++)
        data[i] = (uint32_t)i * 2654435761u + seed;
}

static uint64_t sum(const void *data, size_t bytes)
{
    uint64_t hash = 1469598103934665603u;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return hash;
}

static void show(const char *what, size_t size, const void *data, size_t bytes)
{
    printf("%s %zu %016llx\n", what, size, (unsigned long long)sum(data, bytes));
}

static void run_change(uint32_t *there, size_t bytes, uint32_t more, cudaStream_t stream)
{
    change<<<(unsigned)((bytes / 4 + 255) / 256), 256, 0, stream>>>(there, bytes / 4, more);
    CHECK(cudaGetLastError());
}

static void copy_size(size_t size, cudaStream_t stream)
{
    std::vector<uint32_t> source(size / 4), back(size / 4);
    uint32_t *there;

    CHECK(cudaMalloc(&there, size));
    paint(source, 1);
    CHECK(cudaMemcpy(there, source.data(), size, cudaMemcpyHostToDevice));
    run_change(there, size, 5, 0);
    CHECK(cudaMemcpy(back.data(), there, size, cudaMemcpyDeviceToHost));
    show("cudaMemcpy", size, back.data(), size);
    paint(source, 2);
    CHECK(cudaMemcpyAsync(there, source.data(), size, cudaMemcpyHostToDevice, stream));
    memset(source.data(), 0, size);
    run_change(there, size, 6, stream);
    CHECK(cudaMemcpyAsync(back.data(), there, size, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    show("cudaMemcpyAsync", size, back.data(), size);
    paint(source, 3);
    CHECK(cudaMemcpy(there, source.data(), size, cudaMemcpyDefault));
    CHECK(cudaMemcpy(back.data(), there, size, cudaMemcpyDefault));
    show("cudaMemcpyDefault", size, back.data(), size);
    CHECK(cudaFree(there));
    CHECK(cudaMallocAsync(&there, size, stream));
    CHECK(cudaMemcpyAsync(there, source.data(), size, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(back.data(), there, size, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(there, stream));
    CHECK(cudaStreamSynchronize(stream));
    show("cudaMallocAsync", size, back.data(), size);
}

/* A blocking stream and the default stream wait for one another. */
static void order(void)
{
    std::vector<uint32_t> source(most / 4), back(most / 4);
    uint32_t *there;
    cudaStream_t stream;

    CHECK(cudaMalloc(&there, most));
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < 4; i++) {
        paint(source, 10 + i);
        CHECK(cudaMemcpyAsync(there, source.data(), most, cudaMemcpyHostToDevice, stream));
        for (int k = 0; k < 50; k++)
            run_change(there, most, k, stream);
        CHECK(cudaMemcpyAsync(back.data(), there, most, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        show("order", i, back.data(), most);
    }
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(there));
}

static void rows(void)
{
    const size_t count = 4096, width = 8000, pitch = 9000;
    std::vector<uint32_t> source(count * pitch / 4), back(count * pitch / 4, 0);
    size_t device_pitch;
    void *there;

    paint(source, 4);
    CHECK(cudaMallocPitch(&there, &device_pitch, width, count));
    CHECK(cudaMemcpy2D(there, device_pitch, source.data(), pitch, width, count, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(back.data(), pitch, there, device_pitch, width, count, cudaMemcpyDeviceToHost));
    show("cudaMemcpy2D", width, back.data(), back.size() * 4);
    paint(source, 5);
    CHECK(cudaMemcpy2DAsync(there, device_pitch, source.data(), pitch, width, count, cudaMemcpyDefault, 0));
    CHECK(cudaMemcpy2DAsync(back.data(), pitch, there, device_pitch, width, count, cudaMemcpyDefault, 0));
    CHECK(cudaDeviceSynchronize());
    show("cudaMemcpy2DAsync", width, back.data(), back.size() * 4);
    CHECK(cudaFree(there));
}

static void pinned(void)
{
    std::vector<uint32_t> back(most / 4);
    uint32_t *there, *host, *managed;

    CHECK(cudaMalloc(&there, most));
    CHECK(cudaMallocHost(&host, most));
    CHECK(cudaMallocManaged(&managed, most));
    for (size_t i = 0; i < most / 4; i++)
        host[i] = managed[i] = (uint32_t)i;
    CHECK(cudaMemcpyAsync(there, host, most, cudaMemcpyHostToDevice, 0));
    CHECK(cudaMemcpy(back.data(), there, most, cudaMemcpyDeviceToHost));
    show("pinned", most, back.data(), most);
    CHECK(cudaMemcpy(there, managed, most, cudaMemcpyDefault));
    run_change(there, most, 1, 0);
    CHECK(cudaMemcpy(back.data(), there, most, cudaMemcpyDeviceToHost));
    show("managed", most, back.data(), most);
    CHECK(cudaHostRegister(back.data(), most, cudaHostRegisterDefault));
    CHECK(cudaMemcpy(there, back.data(), most, cudaMemcpyHostToDevice));
    CHECK(cudaHostUnregister(back.data()));
    CHECK(cudaMemcpy(back.data(), there, most, cudaMemcpyDeviceToHost));
    show("registered", most, back.data(), most);
    CHECK(cudaFree(managed));
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(there));
}

int main()
{
    uint64_t found[4];
    std::vector<std::thread> threads;
    cudaStream_t blocking, free_stream;
    int version;

    CHECK(cudaRuntimeGetVersion(&version));
    printf("version CUDA runtime %d.%d\n", version / 1000, version % 1000 / 10);
    CHECK(cudaStreamCreate(&blocking));
    CHECK(cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking));
    for (size_t size : sizes) {
        copy_size(size, 0);
        copy_size(size, blocking);
        copy_size(size, free_stream);
        copy_size(size, cudaStreamPerThread);
    }
    order();
    rows();
    pinned();
    for (int t = 0; t < 4; t++)
        threads.emplace_back([t, &found] {
            std::vector<uint32_t> source(most / 4), back(most / 4);
            uint32_t *there;
            cudaStream_t stream;

            CHECK(cudaMalloc(&there, most));
            CHECK(cudaStreamCreate(&stream));
            for (int i = 0; i < 3; i++) {
                paint(source, 100 * t + i);
                CHECK(cudaMemcpyAsync(there, source.data(), most, cudaMemcpyHostToDevice, stream));
                run_change(there, most, t, stream);
                CHECK(cudaMemcpyAsync(back.data(), there, most, cudaMemcpyDeviceToHost, stream));
                CHECK(cudaStreamSynchronize(stream));
            }
            found[t] = sum(back.data(), most);
            CHECK(cudaFree(there));
        });
    for (auto &thread : threads)
        thread.join();
    for (uint64_t one : found)
        printf("thread %016llx\n", (unsigned long long)one);
    /* A wrong copy fails in the same way. */
    printf("wrong: %s\n", cudaGetErrorName(cudaMemcpy(NULL, found, sizeof found, cudaMemcpyHostToDevice)));
    CHECK(cudaDeviceReset());
    return 3;
}
