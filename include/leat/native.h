/*
 * leat/native.h - the vendor's own handles: in and out.
 *
 * Model. leat's device, stream, event and module stand for the vendor's: on CUDA a CUcontext, CUstream,
 * CUevent and CUmodule. These calls hand them out, and wrap those that the user's own code made, so that
 * both work on the same stream. Typed inline forms are in leat/interop/cuda.h; this header needs no
 * vendor's SDK. On the CPU device the native handles mean something to leat only, but wrapping what was
 * handed out works the same.
 *
 * Lifetime. What leat hands out stays leat's: do not destroy it. What is wrapped stays the user's: leat
 * never destroys it, and it must outlive the wrapping.
 *
 * Threads. Any thread may call anything here.
 */
#ifndef LEAT_NATIVE_H
#define LEAT_NATIVE_H

#include <leat/memory.h>
#include <leat/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A device that works in a context of the user's own (CUDA: a CUcontext that cuCtxCreate gave) instead of
 * the primary one. name as in leat_device_open(), and it must be the context's device. Always a new
 * handle. Errors: as leat_device_open; INVALID (context NULL, or of another device); UNSUPPORTED (the
 * CPU device has no contexts).
 */
LEAT_API leat_status leat_device_wrap(const char *name, void *native_context, leat_device **device);

/* The CUcontext; on the CPU device an opaque pointer. Errors: HANDLE, INVALID (native_context NULL). */
LEAT_API leat_status leat_device_native(leat_device *device, void **native_context);

/*
 * A leat stream for a CUstream of the user's own, which must belong to device's context. On CUDA NULL means the
 * legacy default stream, and the vendor's constants for the default streams (CU_STREAM_LEGACY,
 * CU_STREAM_PER_THREAD) work as well. Pools query the native stream and put events into it, so it must not be
 * captured into a graph meanwhile. Destroying the leat stream ends only the wrapping. Errors: HANDLE, INVALID
 * (stream NULL; NULL native on the CPU device; a native stream of another device or one that the driver does not
 * know, where it can tell), HOST_MEMORY, NOT_PERMITTED.
 */
LEAT_API leat_status leat_stream_wrap(leat_device *device, void *native, leat_stream **stream);

/* The CUstream behind a stream. Errors: HANDLE, INVALID (native NULL). */
LEAT_API leat_status leat_stream_native(leat_stream *stream, void **native);

/* A leat event for a CUevent of the user's own. It counts as recorded. Errors: HANDLE, INVALID (NULL; a native event
 * that the driver does not know, where it can tell), HOST_MEMORY, NOT_PERMITTED. */
LEAT_API leat_status leat_event_wrap(leat_device *device, void *native, leat_event **event);

/* The CUevent behind an event. Errors: HANDLE, INVALID (native NULL). */
LEAT_API leat_status leat_event_native(leat_event *event, void **native);

/*
 * Tells leat of memory that the user's own code allocated, where the driver cannot tell by itself or the
 * look-up should be as quick as for leat's own. kind: DEVICE, PINNED or MANAGED. leat checks ranges
 * against it from now on and never frees it. Ends with leat_pointer_unwrap(), before the memory is freed.
 * Errors: HANDLE, INVALID (NULL, bytes 0, PAGEABLE, overflow), REGISTERED (overlaps memory that leat
 * knows), HOST_MEMORY.
 */
LEAT_API leat_status leat_pointer_wrap(leat_device *device, leat_kind kind, void *ptr, size_t bytes);

/* Ends a wrapping; ptr is the start that was wrapped. NULL does nothing. Errors: POINTER. */
LEAT_API leat_status leat_pointer_unwrap(void *ptr);

/*
 * A function of the vendor's library that the device's driver loaded, by its exported name (for example
 * "cuMemcpyAsync"), for code that wants to call it without linking to it.
 * Errors: HANDLE, INVALID (NULL), NOT_FOUND, UNSUPPORTED (the CPU device has no library).
 */
LEAT_API leat_status leat_native_symbol(leat_device *device, const char *name, void **symbol);

#ifdef __cplusplus
}
#endif

#endif
