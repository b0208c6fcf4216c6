/*
 * client.h - the driver's functions that the test clients of "leat run" call, and the ways to reach them.
 *
 * A client is an ordinary program for the driver API. The same source is built linked with libcuda.so.1
 * (CLIENT_LINKED), and reaches the functions at run time through dlsym(), in both versions of glibc, or through
 * cuGetProcAddress(), with both kinds of default streams.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include <stddef.h>
#include <stdint.h>

typedef int result_t;
typedef uint64_t address_t;
typedef void *handle_t;

struct rows {
    size_t src_x, src_y;
    unsigned src_type;
    const void *src_host;
    address_t src_device;
    void *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    unsigned dst_type;
    void *dst_host;
    address_t dst_device;
    void *dst_array;
    size_t dst_pitch;
    size_t width, height;
};

/* X(field, base name, exported name, the same for per-thread default streams, CUDA version, parameters) */
// clang-format off
#define CLIENT_LIST(X) \
    X(init, cuInit, cuInit, cuInit, 2000, (unsigned)) \
    X(retain, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (handle_t *, int)) \
    X(release, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease_v2, 11000, (int)) \
    X(reset, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset_v2, 11000, (int)) \
    X(in, cuMemcpyHtoD, cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, 12000, (address_t, const void *, size_t)) \
    X(out, cuMemcpyDtoH, cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, 12000, (void *, address_t, size_t)) \
    X(in_async, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz, 12000, (address_t, const void *, size_t, handle_t)) \
    X(out_async, cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz, 12000, (void *, address_t, size_t, handle_t)) \
    X(copy, cuMemcpy, cuMemcpy, cuMemcpy_ptds, 12000, (address_t, address_t, size_t)) \
    X(copy_async, cuMemcpyAsync, cuMemcpyAsync, cuMemcpyAsync_ptsz, 12000, (address_t, address_t, size_t, handle_t)) \
    X(rows, cuMemcpy2D, cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, 12000, (const struct rows *)) \
    X(rows_unaligned, cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, 12000, (const struct rows *)) \
    X(batch, cuMemcpyBatchAsync, cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz, 12080, (address_t *, address_t *, size_t *, size_t, int *, size_t *, size_t, size_t *, handle_t)) \
    X(batch_2, cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz, 13000, (address_t *, address_t *, size_t *, size_t, int *, size_t *, size_t, handle_t)) \
    X(alloc_host, cuMemHostAlloc, cuMemHostAlloc, cuMemHostAlloc, 2020, (void **, size_t, unsigned)) \
    X(alloc_host_plain, cuMemAllocHost, cuMemAllocHost_v2, cuMemAllocHost_v2, 3020, (void **, size_t)) \
    X(free_host, cuMemFreeHost, cuMemFreeHost, cuMemFreeHost, 2000, (void *)) \
    X(host_flags, cuMemHostGetFlags, cuMemHostGetFlags, cuMemHostGetFlags, 2030, (unsigned *, void *)) \
    X(register_host, cuMemHostRegister, cuMemHostRegister_v2, cuMemHostRegister_v2, 6050, (void *, size_t, unsigned)) \
    X(unregister_host, cuMemHostUnregister, cuMemHostUnregister, cuMemHostUnregister, 4000, (void *)) \
    X(rows_async, cuMemcpy2DAsync, cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, 12000, (const struct rows *, handle_t))

/* Functions that libleat-run does not replace. */
#define CLIENT_OTHER_LIST(X) \
    X(state, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, (int, unsigned *, int *)) \
    X(push, cuCtxPushCurrent, cuCtxPushCurrent_v2, cuCtxPushCurrent_v2, 4000, (handle_t)) \
    X(pop, cuCtxPopCurrent, cuCtxPopCurrent_v2, cuCtxPopCurrent_v2, 4000, (handle_t *)) \
    X(alloc, cuMemAlloc, cuMemAlloc_v2, cuMemAlloc_v2, 3020, (address_t *, size_t)) \
    X(drop, cuMemFree, cuMemFree_v2, cuMemFree_v2, 3020, (address_t)) \
    X(alloc_managed, cuMemAllocManaged, cuMemAllocManaged, cuMemAllocManaged, 6000, (address_t *, size_t, unsigned)) \
    X(host_address, cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer_v2, 3020, (address_t *, void *, unsigned)) \
    X(attributes, cuPointerGetAttributes, cuPointerGetAttributes, cuPointerGetAttributes, 7000, (unsigned, int *, void **, address_t)) \
    X(stream_create, cuStreamCreate, cuStreamCreate, cuStreamCreate, 2000, (handle_t *, unsigned)) \
    X(stream_destroy, cuStreamDestroy, cuStreamDestroy_v2, cuStreamDestroy_v2, 4000, (handle_t)) \
    X(stream_synchronize, cuStreamSynchronize, cuStreamSynchronize, cuStreamSynchronize, 2000, (handle_t)) \
    X(stream_query, cuStreamQuery, cuStreamQuery, cuStreamQuery, 2000, (handle_t)) \
    X(launch_host, cuLaunchHostFunc, cuLaunchHostFunc, cuLaunchHostFunc, 10000, (handle_t, void (*)(void *), void *)) \
    X(begin_capture, cuStreamBeginCapture, cuStreamBeginCapture_v2, cuStreamBeginCapture_v2, 10010, (handle_t, unsigned)) \
    X(end_capture, cuStreamEndCapture, cuStreamEndCapture, cuStreamEndCapture, 10000, (handle_t, void **)) \
    X(synchronize, cuCtxSynchronize, cuCtxSynchronize, cuCtxSynchronize, 2000, (void))
// clang-format on

struct driver {
#define CLIENT_FIELD(field, base, symbol, per_thread, version, parameters) result_t(*field) parameters;
    CLIENT_LIST(CLIENT_FIELD) CLIENT_OTHER_LIST(CLIENT_FIELD)
#undef CLIENT_FIELD
};

#endif
