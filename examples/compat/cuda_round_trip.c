/*
 * cuda_round_trip.c - copies bytes to the device and back, through the CUDA runtime's API.
 *
 *     cc cuda_round_trip.c -o cuda_round_trip $(pkg-config --cflags --libs leat-cudart)
 *     nvcc -x cu cuda_round_trip.c -o cuda_round_trip       # the same with NVIDIA's library
 *
 * This file uses only CUDA's API. Built with leat's headers and library it also runs without a GPU.
 */
#include <cuda_runtime.h>

#include <stdio.h>

#define COUNT 1000

/* Ends the program if a call fails, and prints the call. */
#define CHECK(call) check((call), #call)

static int check(cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return 0;
    fprintf(stderr, "cuda_round_trip: %s: %s (%s)\n", call, cudaGetErrorString(error), cudaGetErrorName(error));
    return 1;
}

int main(void)
{
    int in[COUNT], out[COUNT];
    void *device;

    for (int i = 0; i < COUNT; i++)
        in[i] = i * i;
    if (CHECK(cudaMalloc(&device, sizeof in)))
        return 1;
    if (CHECK(cudaMemcpy(device, in, sizeof in, cudaMemcpyHostToDevice)) ||
        CHECK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost)) || CHECK(cudaFree(device)))
        return 1;
    for (int i = 0; i < COUNT; i++)
        if (out[i] != in[i]) {
            fprintf(stderr, "cuda_round_trip: number %d came back as %d\n", i, out[i]);
            return 1;
        }
    printf("%d numbers went to the device and came back\n", COUNT);
    return CHECK(cudaDeviceReset()); /* frees everything, so that leak checkers find nothing */
}
