/*
 * wrappers.h - the functions of the driver that libleat-run replaces, under the driver's names. A program that is
 * linked with libcuda.so.1 calls them directly, because the library is preloaded.
 */
#ifndef DROPIN_WRAPPERS_H
#define DROPIN_WRAPPERS_H

#include "dropin.h"

/* The driver's handles for the default streams. In functions that take a stream NULL means one of them, by the
 * function's name. */
#define LEGACY_STREAM ((cu_stream)(uintptr_t)1)
#define PER_THREAD_STREAM ((cu_stream)(uintptr_t)2)

static inline cu_stream or_legacy(cu_stream stream)
{
    return stream ? stream : LEGACY_STREAM;
}

static inline cu_stream or_per_thread(cu_stream stream)
{
    return stream ? stream : PER_THREAD_STREAM;
}

/* lookup.c */
DROPIN_EXPORT cu_result cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
DROPIN_EXPORT cu_result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                            int *why);

/* contexts.c */
DROPIN_EXPORT cu_result cuInit(unsigned flags);
DROPIN_EXPORT cu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device);
DROPIN_EXPORT cu_result cuDevicePrimaryCtxRelease(cu_device device);
DROPIN_EXPORT cu_result cuDevicePrimaryCtxRelease_v2(cu_device device);
DROPIN_EXPORT cu_result cuDevicePrimaryCtxReset(cu_device device);
DROPIN_EXPORT cu_result cuDevicePrimaryCtxReset_v2(cu_device device);

/* pinned.c */
DROPIN_EXPORT cu_result cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags);
DROPIN_EXPORT cu_result cuMemAllocHost_v2(void **ptr, size_t bytes);
DROPIN_EXPORT cu_result cuMemFreeHost(void *ptr);
DROPIN_EXPORT cu_result cuMemHostGetFlags(unsigned *flags, void *ptr);
DROPIN_EXPORT cu_result cuMemHostRegister(void *ptr, size_t bytes, unsigned flags);
DROPIN_EXPORT cu_result cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned flags);
DROPIN_EXPORT cu_result cuMemHostUnregister(void *ptr);

/* kept.c */
DROPIN_EXPORT cu_result cuMemAlloc_v2(cu_address *ptr, size_t bytes);
DROPIN_EXPORT cu_result cuMemAllocPitch_v2(cu_address *ptr, size_t *pitch, size_t width, size_t height,
                                           unsigned element_bytes);
DROPIN_EXPORT cu_result cuMemFree_v2(cu_address ptr);
DROPIN_EXPORT cu_result cuMemCreate(uint64_t *handle, size_t bytes, const void *properties, uint64_t flags);
DROPIN_EXPORT cu_result cuArrayCreate_v2(void **array, const void *description);
DROPIN_EXPORT cu_result cuArray3DCreate_v2(void **array, const void *description);
DROPIN_EXPORT cu_result cuMipmappedArrayCreate(void **array, const void *description, unsigned levels);

/* pool.c */
DROPIN_EXPORT cu_result cuMemAllocAsync(cu_address *ptr, size_t bytes, cu_stream stream);
DROPIN_EXPORT cu_result cuMemAllocAsync_ptsz(cu_address *ptr, size_t bytes, cu_stream stream);
DROPIN_EXPORT cu_result cuMemAllocFromPoolAsync(cu_address *ptr, size_t bytes, cu_pool pool, cu_stream stream);
DROPIN_EXPORT cu_result cuMemAllocFromPoolAsync_ptsz(cu_address *ptr, size_t bytes, cu_pool pool,
                                                     cu_stream stream);
DROPIN_EXPORT cu_result cuMemFreeAsync(cu_address ptr, cu_stream stream);
DROPIN_EXPORT cu_result cuMemFreeAsync_ptsz(cu_address ptr, cu_stream stream);

/* pool_queries.c */
DROPIN_EXPORT cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
DROPIN_EXPORT cu_result cuMemGetAddressRange_v2(cu_address *base, size_t *bytes, cu_address ptr);
DROPIN_EXPORT cu_result cuPointerGetAttribute(void *value, int attribute, cu_address ptr);
DROPIN_EXPORT cu_result cuPointerGetAttributes(unsigned count, int *attributes, void **values, cu_address ptr);
DROPIN_EXPORT cu_result cuPointerSetAttribute(const void *value, int attribute, cu_address ptr);
DROPIN_EXPORT cu_result cuMemGetHandleForAddressRange(void *handle, cu_address ptr, size_t bytes, int type,
                                                      uint64_t flags);
DROPIN_EXPORT cu_result cuIpcGetMemHandle(void *handle, cu_address ptr);
DROPIN_EXPORT cu_result cuMemPoolGetAttribute(cu_pool pool, int attribute, void *value);
DROPIN_EXPORT cu_result cuMemPoolSetAttribute(cu_pool pool, int attribute, void *value);
DROPIN_EXPORT cu_result cuMemPoolTrimTo(cu_pool pool, size_t keep_bytes);

/* captures.c */
DROPIN_EXPORT cu_result cuStreamDestroy(cu_stream stream);
DROPIN_EXPORT cu_result cuStreamDestroy_v2(cu_stream stream);
DROPIN_EXPORT cu_result cuStreamBeginCapture(cu_stream stream);
DROPIN_EXPORT cu_result cuStreamBeginCapture_ptsz(cu_stream stream);
DROPIN_EXPORT cu_result cuStreamBeginCapture_v2(cu_stream stream, int mode);
DROPIN_EXPORT cu_result cuStreamBeginCapture_v2_ptsz(cu_stream stream, int mode);
#define DROPIN_TO_GRAPH                                                                                           \
    cu_stream stream, void *graph, const void *dependencies, const void *edges, size_t count, int mode
DROPIN_EXPORT cu_result cuStreamBeginCaptureToGraph(DROPIN_TO_GRAPH);
DROPIN_EXPORT cu_result cuStreamBeginCaptureToGraph_ptsz(DROPIN_TO_GRAPH);
DROPIN_EXPORT cu_result cuStreamEndCapture(cu_stream stream, void **graph);
DROPIN_EXPORT cu_result cuStreamEndCapture_ptsz(cu_stream stream, void **graph);

/* copies.c */
DROPIN_EXPORT cu_result cuMemcpyHtoD_v2(cu_address dst, const void *src, size_t bytes);
DROPIN_EXPORT cu_result cuMemcpyHtoD_v2_ptds(cu_address dst, const void *src, size_t bytes);
DROPIN_EXPORT cu_result cuMemcpyHtoDAsync_v2(cu_address dst, const void *src, size_t bytes, cu_stream stream);
DROPIN_EXPORT cu_result cuMemcpyHtoDAsync_v2_ptsz(cu_address dst, const void *src, size_t bytes, cu_stream stream);
DROPIN_EXPORT cu_result cuMemcpyDtoH_v2(void *dst, cu_address src, size_t bytes);
DROPIN_EXPORT cu_result cuMemcpyDtoH_v2_ptds(void *dst, cu_address src, size_t bytes);
DROPIN_EXPORT cu_result cuMemcpyDtoHAsync_v2(void *dst, cu_address src, size_t bytes, cu_stream stream);
DROPIN_EXPORT cu_result cuMemcpyDtoHAsync_v2_ptsz(void *dst, cu_address src, size_t bytes, cu_stream stream);
DROPIN_EXPORT cu_result cuMemcpy(cu_address dst, cu_address src, size_t bytes);
DROPIN_EXPORT cu_result cuMemcpy_ptds(cu_address dst, cu_address src, size_t bytes);
DROPIN_EXPORT cu_result cuMemcpyAsync(cu_address dst, cu_address src, size_t bytes, cu_stream stream);
DROPIN_EXPORT cu_result cuMemcpyAsync_ptsz(cu_address dst, cu_address src, size_t bytes, cu_stream stream);
DROPIN_EXPORT cu_result cuMemcpy2D_v2(const struct cu_copy_2d *copy);
DROPIN_EXPORT cu_result cuMemcpy2D_v2_ptds(const struct cu_copy_2d *copy);
DROPIN_EXPORT cu_result cuMemcpy2DUnaligned_v2(const struct cu_copy_2d *copy);
DROPIN_EXPORT cu_result cuMemcpy2DUnaligned_v2_ptds(const struct cu_copy_2d *copy);
DROPIN_EXPORT cu_result cuMemcpy2DAsync_v2(const struct cu_copy_2d *copy, cu_stream stream);
DROPIN_EXPORT cu_result cuMemcpy2DAsync_v2_ptsz(const struct cu_copy_2d *copy, cu_stream stream);

/* batch.c */
#define DROPIN_BATCH                                                                                              \
    const cu_address *dsts, const cu_address *srcs, const size_t *sizes, size_t count, const void *attributes,    \
        const size_t *first, size_t attribute_count
DROPIN_EXPORT cu_result cuMemcpyBatchAsync(DROPIN_BATCH, size_t *failed, cu_stream stream);
DROPIN_EXPORT cu_result cuMemcpyBatchAsync_ptsz(DROPIN_BATCH, size_t *failed, cu_stream stream);
DROPIN_EXPORT cu_result cuMemcpyBatchAsync_v2(DROPIN_BATCH, cu_stream stream);
DROPIN_EXPORT cu_result cuMemcpyBatchAsync_v2_ptsz(DROPIN_BATCH, cu_stream stream);

/* calls.c */
#define DROPIN_LAUNCH                                                                                             \
    (void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, \
     cu_stream stream, void **arguments, void **extra)
#define DROPIN_LAUNCH_COOPERATIVE                                                                                 \
    (void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, \
     cu_stream stream, void **arguments)
#define DROPIN_LAUNCH_EX (const void *config, void *kernel, void **arguments, void **extra)
DROPIN_EXPORT cu_result cuLaunchKernel DROPIN_LAUNCH;
DROPIN_EXPORT cu_result cuLaunchKernel_ptsz DROPIN_LAUNCH;
DROPIN_EXPORT cu_result cuLaunchKernelEx DROPIN_LAUNCH_EX;
DROPIN_EXPORT cu_result cuLaunchKernelEx_ptsz DROPIN_LAUNCH_EX;
DROPIN_EXPORT cu_result cuLaunchCooperativeKernel DROPIN_LAUNCH_COOPERATIVE;
DROPIN_EXPORT cu_result cuLaunchCooperativeKernel_ptsz DROPIN_LAUNCH_COOPERATIVE;
DROPIN_EXPORT cu_result cuGraphLaunch(void *graph, cu_stream stream);
DROPIN_EXPORT cu_result cuGraphLaunch_ptsz(void *graph, cu_stream stream);
DROPIN_EXPORT cu_result cuMemsetD8_v2(cu_address dst, unsigned char value, size_t count);
DROPIN_EXPORT cu_result cuMemsetD8_v2_ptds(cu_address dst, unsigned char value, size_t count);
DROPIN_EXPORT cu_result cuMemsetD8Async(cu_address dst, unsigned char value, size_t count, cu_stream stream);
DROPIN_EXPORT cu_result cuMemsetD8Async_ptsz(cu_address dst, unsigned char value, size_t count, cu_stream stream);
DROPIN_EXPORT cu_result cuMemsetD16_v2(cu_address dst, unsigned short value, size_t count);
DROPIN_EXPORT cu_result cuMemsetD16_v2_ptds(cu_address dst, unsigned short value, size_t count);
DROPIN_EXPORT cu_result cuMemsetD16Async(cu_address dst, unsigned short value, size_t count, cu_stream stream);
DROPIN_EXPORT cu_result cuMemsetD16Async_ptsz(cu_address dst, unsigned short value, size_t count,
                                              cu_stream stream);
DROPIN_EXPORT cu_result cuMemsetD32_v2(cu_address dst, unsigned value, size_t count);
DROPIN_EXPORT cu_result cuMemsetD32_v2_ptds(cu_address dst, unsigned value, size_t count);
DROPIN_EXPORT cu_result cuMemsetD32Async(cu_address dst, unsigned value, size_t count, cu_stream stream);
DROPIN_EXPORT cu_result cuMemsetD32Async_ptsz(cu_address dst, unsigned value, size_t count, cu_stream stream);
DROPIN_EXPORT cu_result cuMemcpyDtoD_v2(cu_address dst, cu_address src, size_t bytes);
DROPIN_EXPORT cu_result cuMemcpyDtoD_v2_ptds(cu_address dst, cu_address src, size_t bytes);
DROPIN_EXPORT cu_result cuMemcpyDtoDAsync_v2(cu_address dst, cu_address src, size_t bytes, cu_stream stream);
DROPIN_EXPORT cu_result cuMemcpyDtoDAsync_v2_ptsz(cu_address dst, cu_address src, size_t bytes, cu_stream stream);
DROPIN_EXPORT cu_result cuStreamSynchronize(cu_stream stream);
DROPIN_EXPORT cu_result cuStreamSynchronize_ptsz(cu_stream stream);
DROPIN_EXPORT cu_result cuCtxSynchronize(void);
DROPIN_EXPORT cu_result cuEventSynchronize(void *event);

#endif
