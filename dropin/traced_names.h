/*
 * traced_names.h - the driver's functions that libleat-run replaces only under "leat run --trace", as in names.h.
 * The replacements (calls.c) call the driver, and record the call if there is no CUPTI.
 */
#ifndef DROPIN_TRACED_NAMES_H
#define DROPIN_TRACED_NAMES_H

#define DROPIN_TRACED_LIST(X)                                                                                     \
    X(cuLaunchKernel, "cuLaunchKernel", 4000, 0)                                                                  \
    X(cuLaunchKernel_ptsz, "cuLaunchKernel", 7000, 1)                                                             \
    X(cuLaunchKernelEx, "cuLaunchKernelEx", 11060, 0)                                                             \
    X(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 11060, 1)                                                        \
    X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, 0)                                            \
    X(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", 9000, 1)                                       \
    X(cuGraphLaunch, "cuGraphLaunch", 10000, 0)                                                                   \
    X(cuGraphLaunch_ptsz, "cuGraphLaunch", 10000, 1)                                                              \
    X(cuMemsetD8_v2, "cuMemsetD8", 3020, 0)                                                                       \
    X(cuMemsetD8_v2_ptds, "cuMemsetD8", 7000, 1)                                                                  \
    X(cuMemsetD8Async, "cuMemsetD8Async", 3020, 0)                                                                \
    X(cuMemsetD8Async_ptsz, "cuMemsetD8Async", 7000, 1)                                                           \
    X(cuMemsetD16_v2, "cuMemsetD16", 3020, 0)                                                                     \
    X(cuMemsetD16_v2_ptds, "cuMemsetD16", 7000, 1)                                                                \
    X(cuMemsetD16Async, "cuMemsetD16Async", 3020, 0)                                                              \
    X(cuMemsetD16Async_ptsz, "cuMemsetD16Async", 7000, 1)                                                         \
    X(cuMemsetD32_v2, "cuMemsetD32", 3020, 0)                                                                     \
    X(cuMemsetD32_v2_ptds, "cuMemsetD32", 7000, 1)                                                                \
    X(cuMemsetD32Async, "cuMemsetD32Async", 3020, 0)                                                              \
    X(cuMemsetD32Async_ptsz, "cuMemsetD32Async", 7000, 1)                                                         \
    X(cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020, 0)                                                                   \
    X(cuMemcpyDtoD_v2_ptds, "cuMemcpyDtoD", 7000, 1)                                                              \
    X(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020, 0)                                                         \
    X(cuMemcpyDtoDAsync_v2_ptsz, "cuMemcpyDtoDAsync", 7000, 1)                                                    \
    X(cuStreamSynchronize, "cuStreamSynchronize", 2000, 0)                                                        \
    X(cuStreamSynchronize_ptsz, "cuStreamSynchronize", 7000, 1)                                                   \
    X(cuCtxSynchronize, "cuCtxSynchronize", 2000, 0)                                                              \
    X(cuEventSynchronize, "cuEventSynchronize", 2000, 0)

#endif
