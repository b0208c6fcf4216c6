/* sample_matrix_mul.cu - multiplies matrices in tiles of shared memory whose size is a template parameter, and
 * transposes with padded tiles. */
#include "sample.h"

#include <vector>

template <int BLOCK_SIZE> __global__ void MatrixMulCUDA(float *C, float *A, float *B, int wA, int wB)
{
    int bx = blockIdx.x;
    int by = blockIdx.y;
    int tx = threadIdx.x;
    int ty = threadIdx.y;
    int aBegin = wA * BLOCK_SIZE * by;
    int aEnd = aBegin + wA - 1;
    float Csub = 0;

    for (int a = aBegin, b = BLOCK_SIZE * bx; a <= aEnd; a += BLOCK_SIZE, b += BLOCK_SIZE * wB) {
        __shared__ float As[BLOCK_SIZE][BLOCK_SIZE];
        __shared__ float Bs[BLOCK_SIZE][BLOCK_SIZE];

        As[ty][tx] = A[a + wA * ty + tx];
        Bs[ty][tx] = B[b + wB * ty + tx];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BLOCK_SIZE; ++k) {
            Csub += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();
    }
    C[wB * BLOCK_SIZE * by + BLOCK_SIZE * bx + wB * ty + tx] = Csub;
}

#define TILE_DIM 32
#define BLOCK_ROWS 8

__global__ void transposeNoBankConflicts(float *odata, const float *idata, int width, int height)
{
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];
    int xIndex = blockIdx.x * TILE_DIM + threadIdx.x;
    int yIndex = blockIdx.y * TILE_DIM + threadIdx.y;
    int index_in = xIndex + (yIndex)*width;

    xIndex = blockIdx.y * TILE_DIM + threadIdx.x;
    yIndex = blockIdx.x * TILE_DIM + threadIdx.y;
    int index_out = xIndex + (yIndex)*height;

    for (int i = 0; i < TILE_DIM; i += BLOCK_ROWS)
        tile[threadIdx.y + i][threadIdx.x] = idata[index_in + i * width];
    __syncthreads();
    for (int i = 0; i < TILE_DIM; i += BLOCK_ROWS)
        odata[index_out + i * height] = tile[threadIdx.x][threadIdx.y + i];
}

int main()
{
    const int block_size = 16, wA = 64, hA = 96, wB = 128;
    std::vector<float> A(wA * hA), B(wB * wA), C(wB * hA), T(wB * hA);
    float *a, *b, *c, *t;

    for (size_t i = 0; i < A.size(); i++)
        A[i] = (float)(i % 7);
    for (size_t i = 0; i < B.size(); i++)
        B[i] = (float)(i % 5) - 2;
    OK(cudaMalloc(reinterpret_cast<void **>(&a), A.size() * sizeof(float)));
    OK(cudaMalloc(reinterpret_cast<void **>(&b), B.size() * sizeof(float)));
    OK(cudaMalloc(reinterpret_cast<void **>(&c), C.size() * sizeof(float)));
    OK(cudaMalloc(reinterpret_cast<void **>(&t), C.size() * sizeof(float)));
    OK(cudaMemcpy(a, A.data(), A.size() * sizeof(float), cudaMemcpyHostToDevice));
    OK(cudaMemcpy(b, B.data(), B.size() * sizeof(float), cudaMemcpyHostToDevice));

    dim3 threads(block_size, block_size);
    dim3 grid(wB / threads.x, hA / threads.y);
    if (block_size == 16) {
        MatrixMulCUDA<16><<<grid, threads, 0>>>(c, a, b, wA, wB);
    } else {
        MatrixMulCUDA<32><<<grid, threads, 0>>>(c, a, b, wA, wB);
    }
    dim3 tiles(wB / TILE_DIM, hA / TILE_DIM), rows(TILE_DIM, BLOCK_ROWS);
    transposeNoBankConflicts<<<tiles, rows>>>(t, c, wB, hA);
    OK(cudaMemcpy(C.data(), c, C.size() * sizeof(float), cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(T.data(), t, C.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < hA; i++)
        for (int j = 0; j < wB; j++) {
            float sum = 0;

            for (int k = 0; k < wA; k++)
                sum += A[i * wA + k] * B[k * wB + j];
            CHECK(C[i * wB + j] == sum);
            CHECK(T[j * hA + i] == sum);
        }
    OK(cudaFree(a));
    OK(cudaFree(b));
    OK(cudaFree(c));
    OK(cudaFree(t));
    return finish("matrices are multiplied and transposed in tiles");
}
