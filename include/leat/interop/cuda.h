/*
 * leat/interop/cuda.h - connects leat with code that uses the CUDA driver API, on the same device and streams.
 *
 * Model. With leat's cuda driver, a leat device corresponds to a CUcontext, a leat stream to a CUstream, and a
 * leat event to a CUevent. The calls here are those of leat/native.h with the vendor's types, so that the compiler
 * warns about a wrong handle. All of them are inline. So libleat does not need cuda.h; only this header needs it,
 * from a CUDA toolkit. The program itself links with -lcuda if it calls the driver API by name.
 *
 * Handles of the CUDA runtime work as well: cudaStream_t is CUstream, cudaEvent_t is CUevent, and
 * leat_device_open("cuda:0") uses the same context as the runtime, which is the primary context.
 *
 * Call order. First open or wrap the device. Then wrap the user's streams, events and memory for it, or get leat's
 * handles from it. Destroy a leat handle that wraps an object before the object itself. leat never destroys
 * wrapped objects. leat owns the handles that it returns.
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

/* Opens a device with the user's own context. name is the device of that context, such as "cuda:0". Errors: as
 * leat_device_wrap(). */
static inline leat_status leat_cuda_device_wrap(const char *name, CUcontext context, leat_device **device)
{
    return leat_device_wrap(name, (void *)context, device);
}

/* Returns the context of a device. leat owns it, unless the user has passed it to leat_cuda_device_wrap(). On a
 * device of another driver the result means nothing to CUDA. Errors: as leat_device_native(). */
static inline leat_status leat_cuda_context(leat_device *device, CUcontext *context)
{
    void *native;
    leat_status status;

    status = leat_device_native(device, context ? &native : (void **)0);
    if (status == LEAT_OK)
        *context = (CUcontext)native;
    return status;
}

/* Creates a leat stream for a stream of the user, which must belong to the device's context. NULL and
 * CU_STREAM_LEGACY are the legacy default stream; CU_STREAM_PER_THREAD is the calling thread's default stream.
 * Errors: as leat_stream_wrap(). */
static inline leat_status leat_cuda_stream_wrap(leat_device *device, CUstream cuda_stream, leat_stream **stream)
{
    return leat_stream_wrap(device, (void *)cuda_stream, stream);
}

/* Returns the CUstream of a leat stream. leat owns it, unless it was wrapped. Errors: as leat_stream_native(). */
static inline leat_status leat_cuda_stream(leat_stream *stream, CUstream *cuda_stream)
{
    void *native;
    leat_status status;

    status = leat_stream_native(stream, cuda_stream ? &native : (void **)0);
    if (status == LEAT_OK)
        *cuda_stream = (CUstream)native;
    return status;
}

/* Creates a leat event for an event of the user, which must belong to the device's context. The leat event counts
 * as recorded. If the user's event has CU_EVENT_DISABLE_TIMING, leat_event_elapsed() does not work with it.
 * Errors: as leat_event_wrap(). */
static inline leat_status leat_cuda_event_wrap(leat_device *device, CUevent cuda_event, leat_event **event)
{
    return leat_event_wrap(device, (void *)cuda_event, event);
}

/* Returns the CUevent of a leat event. leat owns it, unless it was wrapped. Errors: as leat_event_native(). */
static inline leat_status leat_cuda_event(leat_event *event, CUevent *cuda_event)
{
    void *native;
    leat_status status;

    status = leat_event_native(event, cuda_event ? &native : (void **)0);
    if (status == LEAT_OK)
        *cuda_event = (CUevent)native;
    return status;
}

/* Makes device memory of the user, for example from cuMemAlloc(), known to leat. leat finds such memory without
 * this call too; after the call, the look-up is as fast as for leat's own memory. Call leat_pointer_unwrap()
 * before the memory is freed. Errors: as leat_pointer_wrap(). */
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
