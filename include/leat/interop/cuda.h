/*
 * leat/interop/cuda.h - leat and code that uses the CUDA driver API, on the same device and streams.
 *
 * Model. On the cuda driver a leat device corresponds to a CUcontext, a leat stream to a CUstream, and a leat
 * event to a CUevent. The calls here are those of leat/native.h with the vendor's types, so that the compiler
 * warns about a wrong handle. Everything is inline: libleat does not need cuda.h, only this header does (from a
 * CUDA toolkit; the program itself links with -lcuda if it calls the driver API by name).
 *
 * Handles of the CUDA runtime work as well: cudaStream_t is CUstream, cudaEvent_t is CUevent, and
 * leat_device_open("cuda:0") uses the same context as the runtime, the primary one.
 *
 * Call order. Open or wrap the device first; then wrap the user's streams, events and memory for it, or get leat's
 * handles from it. Destroy the wrapping before the wrapped object. leat never destroys wrapped objects, and leat
 * owns the handles that it returns.
 *
 *     leat_device_open("cuda:0", &dev);
 *     leat_cuda_context(dev, &context);            // the user's code works here too
 *     cuCtxPushCurrent(context);
 *     cuStreamCreate(&mine, CU_STREAM_NON_BLOCKING);
 *     leat_cuda_stream_wrap(dev, mine, &stream);
 *     leat_copy(stream, d, host, bytes);           // runs before work submitted to mine from now on
 *     cuLaunchKernel(kernel, ..., mine, ...);
 *
 * Threads. Any thread may make any call here. None of these calls changes the thread's current context.
 */
#ifndef LEAT_INTEROP_CUDA_H
#define LEAT_INTEROP_CUDA_H

#include <leat/native.h>

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a device with the user's own context; name: "cuda:0", the device of the context. Errors: as
 * leat_device_wrap(). */
static inline leat_status leat_cuda_device_wrap(const char *name, CUcontext context, leat_device **device)
{
    return leat_device_wrap(name, (void *)context, device);
}

/* Returns the context of a device. It belongs to leat, or to the user if it was wrapped. On a device of another
 * driver the result means nothing to CUDA. Errors: as leat_device_native(). */
static inline leat_status leat_cuda_context(leat_device *device, CUcontext *context)
{
    void *native;
    leat_status status;

    status = leat_device_native(device, context ? &native : (void **)0);
    if (status == LEAT_OK)
        *context = (CUcontext)native;
    return status;
}

/* Creates a leat stream for the user's own, which must belong to the device's context. NULL and CU_STREAM_LEGACY
 * are the legacy default stream, CU_STREAM_PER_THREAD is the calling thread's. Errors: as leat_stream_wrap(). */
static inline leat_status leat_cuda_stream_wrap(leat_device *device, CUstream cuda_stream, leat_stream **stream)
{
    return leat_stream_wrap(device, (void *)cuda_stream, stream);
}

/* Returns the CUstream of a stream; leat owns it unless it was wrapped. Errors: as leat_stream_native(). */
static inline leat_status leat_cuda_stream(leat_stream *stream, CUstream *cuda_stream)
{
    void *native;
    leat_status status;

    status = leat_stream_native(stream, cuda_stream ? &native : (void **)0);
    if (status == LEAT_OK)
        *cuda_stream = (CUstream)native;
    return status;
}

/* Creates a leat event for the user's own, of the device's context; it counts as recorded. If it was created with
 * CU_EVENT_DISABLE_TIMING, it works for everything except leat_event_elapsed(). Errors: as leat_event_wrap(). */
static inline leat_status leat_cuda_event_wrap(leat_device *device, CUevent cuda_event, leat_event **event)
{
    return leat_event_wrap(device, (void *)cuda_event, event);
}

/* Returns the CUevent of an event; leat owns it unless it was wrapped. Errors: as leat_event_native(). */
static inline leat_status leat_cuda_event(leat_event *event, CUevent *cuda_event)
{
    void *native;
    leat_status status;

    status = leat_event_native(event, cuda_event ? &native : (void **)0);
    if (status == LEAT_OK)
        *cuda_event = (CUevent)native;
    return status;
}

/* Makes device memory of the user's own (cuMemAlloc and the like) known to leat. leat finds such memory without
 * this call; the call makes the look-up as fast as for leat's own. Call leat_pointer_unwrap() before the memory is
 * freed. Errors: as leat_pointer_wrap(). */
static inline leat_status leat_cuda_pointer_wrap(leat_device *device, CUdeviceptr address, size_t bytes)
{
    return leat_pointer_wrap(device, LEAT_KIND_DEVICE, (void *)(uintptr_t)address, bytes);
}

/* Converts a CUdeviceptr to the pointer type of leat's calls, and back. */
static inline void *leat_cuda_pointer(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static inline CUdeviceptr leat_cuda_address(const void *ptr)
{
    return (CUdeviceptr)(uintptr_t)ptr;
}

#ifdef __cplusplus
}
#endif

#endif
