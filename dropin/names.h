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

/* Allocating and freeing device memory, which --pool serves, and a trace records. The first versions of some of
 * these have other parameters. */
#define DROPIN_MEMORY_LIST(X)                                                                                     \
    X(cuMemAlloc_v2, "cuMemAlloc", 3020, 0)                                                                       \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0)                                                             \
    X(cuMemFree_v2, "cuMemFree", 3020, 0)                                                                         \
    X(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0)                                                               \
    X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, 1)                                                          \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0)                                               \
    X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, 1)                                          \
    X(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0)                                                                 \
    X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 1)

/* Other calls with device memory. Only with --pool. */
#define DROPIN_POOL_LIST(X)                                                                                       \
    X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0)                                                                   \
    X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, 0)                                                   \
    X(cuPointerGetAttribute, "cuPointerGetAttribute", 4000, 0)                                                    \
    X(cuPointerGetAttributes, "cuPointerGetAttributes", 7000, 0)                                                  \
    X(cuPointerSetAttribute, "cuPointerSetAttribute", 6000, 0)                                                    \
    X(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange", 11070, 0)                                   \
    X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, 0)                                                            \
    X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, 0)                                                   \
    X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, 0)                                                   \
    X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0)                                                               \
    X(cuMemCreate, "cuMemCreate", 10020, 0)                                                                       \
    X(cuArrayCreate_v2, "cuArrayCreate", 3020, 0)                                                                 \
    X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, 0)                                                             \
    X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, 0)                                                  \
    X(cuStreamDestroy, "cuStreamDestroy", 2000, 0)                                                                \
    X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0)                                                             \
    X(cuStreamBeginCapture, "cuStreamBeginCapture", 10000, 0)                                                     \
    X(cuStreamBeginCapture_ptsz, "cuStreamBeginCapture", 10000, 1)                                                \
    X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, 0)                                                  \
    X(cuStreamBeginCapture_v2_ptsz, "cuStreamBeginCapture", 10010, 1)                                             \
    X(cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", 12030, 0)                                       \
    X(cuStreamBeginCaptureToGraph_ptsz, "cuStreamBeginCaptureToGraph", 12030, 1)                                  \
    X(cuStreamEndCapture, "cuStreamEndCapture", 10000, 0)                                                         \
    X(cuStreamEndCapture_ptsz, "cuStreamEndCapture", 10000, 1)

#define DROPIN_NAME_LIST(X)                                                                                       \
    DROPIN_COPY_LIST(X)                                                                                           \
    DROPIN_OTHER_LIST(X) DROPIN_PINNED_LIST(X) DROPIN_MEMORY_LIST(X) DROPIN_POOL_LIST(X) DROPIN_TRACED_LIST(X)

enum dropin_name {
#define DROPIN_NAME(symbol, base, version, per_thread) DROPIN_##symbol,
    DROPIN_NAME_LIST(DROPIN_NAME)
#undef DROPIN_NAME
        DROPIN_NAMES
};

/* The first names of lists that are replaced only if --pool or a trace needs them. */
#define DROPIN_FIRST_MEMORY DROPIN_cuMemAlloc_v2
#define DROPIN_FIRST_POOL DROPIN_cuMemGetInfo_v2
#define DROPIN_FIRST_TRACED DROPIN_cuLaunchKernel

#endif
