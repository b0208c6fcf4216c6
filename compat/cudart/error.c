/* error.c - returns the last error, the names and texts of errors, and versions. */
#include "cudart/cudart.h"

cudaError_t cudaGetLastError(void)
{
    return (cudaError_t)leatc_last_error();
}

cudaError_t cudaPeekAtLastError(void)
{
    return (cudaError_t)leatc_peek_error();
}

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "cudaSuccess";
#define NAME(name, number, text)                                                                                  \
    case cudaError##name:                                                                                         \
        return "cudaError" #name;
        LEAT_CUDA_ERROR_LIST(NAME)
#undef NAME
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
#define TEXT(name, number, text)                                                                                  \
    case cudaError##name:                                                                                         \
        return text;
        LEAT_CUDA_ERROR_LIST(TEXT)
#undef TEXT
    }
    return "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
    if (!driverVersion)
        return note(LEATC_INVALID_VALUE);
    *driverVersion = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
    return cudaDriverGetVersion(runtimeVersion);
}

/* leat has no profiler. CUDA's library does not report an error either if there is no profiler. */
cudaError_t cudaProfilerStart(void)
{
    return cudaSuccess;
}

cudaError_t cudaProfilerStop(void)
{
    return cudaSuccess;
}
