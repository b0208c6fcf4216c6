/*
 * names.h - the driver's functions that libleat-run replaces.
 *
 * X(symbol, base, version, per_thread): symbol is the exported name of the function. cuGetProcAddress() returns it
 * for the name base from this CUDA version on; per_thread is 1 if it does so only for a caller with a per-thread
 * default stream. A name may have several versions with different parameters, so the library replaces a function
 * only where the driver has returned this very function (lookup.c).
 */
#ifndef DROPIN_NAMES_H
#define DROPIN_NAMES_H

#include "traced_names.h"

#define DROPIN_COPY_LIST(X)                                                                                       \
    X(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, 0)                                                                   \
    X(cuMemcpyHtoD_v2_ptds, "cuMemcpyHtoD", 7000, 1)                                                              \
    X(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020, 0)                                                         \
    X(cuMemcpyHtoDAsync_v2_ptsz, "cuMemcpyHtoDAsync", 7000, 1)                                                    \
    X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, 0)                                                                   \
    X(cuMemcpyDtoH_v2_ptds, "cuMemcpyDtoH", 7000, 1)                                                              \
    X(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020, 0)                                                         \
    X(cuMemcpyDtoHAsync_v2_ptsz, "cuMemcpyDtoHAsync", 7000, 1)                                                    \
    X(cuMemcpy, "cuMemcpy", 4000, 0)                                                                              \
    X(cuMemcpy_ptds, "cuMemcpy", 7000, 1)                                                                         \
    X(cuMemcpyAsync, "cuMemcpyAsync", 4000, 0)                                                                    \
    X(cuMemcpyAsync_ptsz, "cuMemcpyAsync", 7000, 1)                                                               \
    X(cuMemcpy2D_v2, "cuMemcpy2D", 3020, 0)                                                                       \
    X(cuMemcpy2D_v2_ptds, "cuMemcpy2D", 7000, 1)                                                                  \
    X(cuMemcpy2DUnaligned_v2, "cuMemcpy2DUnaligned", 3020, 0)                                                     \
    X(cuMemcpy2DUnaligned_v2_ptds, "cuMemcpy2DUnaligned", 7000, 1)                                                \
    X(cuMemcpy2DAsync_v2, "cuMemcpy2DAsync", 3020, 0)                                                             \
    X(cuMemcpy2DAsync_v2_ptsz, "cuMemcpy2DAsync", 7000, 1)                                                        \
    X(cuMemcpyBatchAsync, "cuMemcpyBatchAsync", 12080, 0)                                                         \
    X(cuMemcpyBatchAsync_ptsz, "cuMemcpyBatchAsync", 12080, 1)                                                    \
    X(cuMemcpyBatchAsync_v2, "cuMemcpyBatchAsync", 13000, 0)                                                      \
    X(cuMemcpyBatchAsync_v2_ptsz, "cuMemcpyBatchAsync", 13000, 1)

/* cuInit() tells that the process uses CUDA; the others end and begin the life of the context that leat shares. */
#define DROPIN_OTHER_LIST(X)                                                                                      \
    X(cuInit, "cuInit", 2000, 0)                                                                                  \
    X(cuGetProcAddress, "cuGetProcAddress", 11030, 0)                                                             \
    X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, 0)                                                          \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0)                                              \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, 0)                                            \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0)                                        \
    X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, 0)                                                \
    X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0)

/* Pinned memory. The first version of cuMemAllocHost() has other parameters. */
#define DROPIN_PINNED_LIST(X)                                                                                     \
    X(cuMemHostAlloc, "cuMemHostAlloc", 2020, 0)                                                                  \
    X(cuMemAllocHost_v2, "cuMemAllocHost", 3020, 0)                                                               \
    X(cuMemFreeHost, "cuMemFreeHost", 2000, 0)                                                                    \
    X(cuMemHostGetFlags, "cuMemHostGetFlags", 2030, 0)                                                            \
    X(cuMemHostRegister, "cuMemHostRegister", 4000, 0)                                                            \
    X(cuMemHostRegister_v2, "cuMemHostRegister", 6050, 0)                                                         \
    X(cuMemHostUnregister, "cuMemHostUnregister", 4000, 0)

#define DROPIN_NAME_LIST(X) DROPIN_COPY_LIST(X) DROPIN_OTHER_LIST(X) DROPIN_PINNED_LIST(X) DROPIN_TRACED_LIST(X)

enum dropin_name {
#define DROPIN_NAME(symbol, base, version, per_thread) DROPIN_##symbol,
    DROPIN_NAME_LIST(DROPIN_NAME)
#undef DROPIN_NAME
        DROPIN_NAMES
};

/* The first name of DROPIN_TRACED_LIST; those from here on are replaced only in a trace. */
#define DROPIN_FIRST_TRACED DROPIN_cuLaunchKernel

#endif
