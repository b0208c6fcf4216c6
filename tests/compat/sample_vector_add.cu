/* sample_vector_add.cu - the first program of a CUDA course: adds two vectors, checks for errors after the launch,
 * and measures the time with events. */
#include "sample.h"

#include <vector>

__global__ void vectorAdd(const float *A, const float *B, float *C, int numElements)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;

    if (i < numElements) {
        C[i] = A[i] + B[i] + 0.0f;
    }
}

/* Grid-stride loop. */
__global__ void __launch_bounds__(256) saxpy(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        y[i] = a * x[i] + y[i];
}

int main(void)
{
    const int numElements = 50000;
    size_t size = numElements * sizeof(float);
    std::vector<float> a(numElements), b(numElements), c(numElements);
    float *d_A = NULL, *d_B = NULL, *d_C = NULL, milliseconds = -1;
    cudaEvent_t start, stop;

    for (int i = 0; i < numElements; ++i) {
        a[i] = rand() / (float)RAND_MAX;
        b[i] = rand() / (float)RAND_MAX;
    }
    OK(cudaMalloc((void **)&d_A, size));
    OK(cudaMalloc((void **)&d_B, size));
    OK(cudaMalloc(&d_C, size));
    OK(cudaMemcpy(d_A, a.data(), size, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(d_B, b.data(), size, cudaMemcpyHostToDevice));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&stop));
    OK(cudaEventRecord(start));

    int threadsPerBlock = 256;
    int blocksPerGrid = (numElements + threadsPerBlock - 1) / threadsPerBlock;
    vectorAdd<<<blocksPerGrid, threadsPerBlock>>>(d_A, d_B, d_C, numElements);
    OK(cudaGetLastError());
    saxpy<<<dim3(7), dim3(64), 0, cudaStreamLegacy>>>(numElements, 2, d_A, d_C);
    OK(cudaGetLastError());

    OK(cudaEventRecord(stop));
    OK(cudaEventSynchronize(stop));
    OK(cudaEventElapsedTime(&milliseconds, start, stop));
    CHECK(milliseconds >= 0);
    OK(cudaMemcpy(c.data(), d_C, size, cudaMemcpyDeviceToHost));
    for (int i = 0; i < numElements; ++i)
        CHECK(fabs(3 * a[i] + b[i] - c[i]) <= 1e-5);

    vectorAdd<<<0, 0>>>(d_A, d_B, d_C, numElements);
    GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());
    vectorAdd<<<1, 4096>>>(d_A, d_B, d_C, numElements);
    GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());

    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(stop));
    OK(cudaFree(d_A));
    OK(cudaFree(d_B));
    OK(cudaFree(d_C));
    return finish("vectors are added");
}
