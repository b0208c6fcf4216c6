/* sample.h - defines what the programs sample_*.cu share. They are written in the style of NVIDIA's public CUDA
 * samples, and also compile with nvcc. */
#ifndef TESTS_COMPAT_SAMPLE_H
#define TESTS_COMPAT_SAMPLE_H

#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

static int failures;

#define CHECK(condition)                                                                                          \
    do {                                                                                                          \
        if (!(condition)) {                                                                                       \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                           \
            failures++;                                                                                           \
        }                                                                                                         \
    } while (0)

#define GIVES(error, call)                                                                                        \
    do {                                                                                                          \
        cudaError_t gave_ = (call);                                                                               \
        if (gave_ != (error)) {                                                                                   \
            std::printf("%s:%d: %s gave %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(gave_));               \
            failures++;                                                                                           \
        }                                                                                                         \
    } while (0)
#define OK(call) GIVES(cudaSuccess, call)

/* Resets the device and, if all checks succeeded, prints what the program has shown. Returns the exit status for
 * main(). */
static inline int finish(const char *shown)
{
    OK(cudaDeviceSynchronize());
    OK(cudaDeviceReset());
    if (!failures)
        std::printf("%s\n", shown);
    return failures != 0;
}

#endif
