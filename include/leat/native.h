/*
 * leat/native.h - returns the vendor's handles of leat's objects, and wraps the user's own handles.
 *
 * Model. leat's device, stream, event and module correspond to the vendor's: on CUDA to a CUcontext, CUstream,
 * CUevent and CUmodule. These calls return the vendor's handles, and wrap those that the user's own code created,
 * so that both sides can work on the same stream. leat/interop/cuda.h has typed inline functions; this header
 * needs no vendor's SDK. On the CPU device the native handles have a meaning only for leat, but they can be
 * wrapped in the same way.
 *
 * Lifetime. leat owns the native handles that it returns: do not destroy them. The user owns the handles that leat
 * wraps: leat never destroys them, and they must outlive the wrapping.
 *
 * Threads. Any thread may make any call here.
 */
#ifndef LEAT_NATIVE_H
#define LEAT_NATIVE_H

#include <leat/memory.h>
#include <leat/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Opens a device with a context of the user's own (CUDA: a CUcontext from cuCtxCreate) instead of the primary one.
 * name: as in leat_device_open(); it must be the context's device. The call always returns a new handle.
 * Errors: as leat_device_open(); INVALID (context NULL, or of another device); UNSUPPORTED (the CPU device has no
 * contexts).
 */
LEAT_NODISCARD LEAT_API leat_status leat_device_wrap(const char *name, void *native_context, leat_device **device);

/* Returns the CUcontext of a device; on the CPU device an opaque pointer. Errors: HANDLE, INVALID (native_context
 * NULL). */
LEAT_NODISCARD LEAT_API leat_status leat_device_native(leat_device *device, void **native_context);

/*
 * Creates a leat stream for a CUstream of the user's own, which must belong to device's context. On CUDA NULL
 * means the legacy default stream, and the vendor's constants for the default streams (CU_STREAM_LEGACY,
 * CU_STREAM_PER_THREAD) are accepted too. Pools query the native stream and record events in it, so do not capture
 * it into a graph meanwhile. Destroying the leat stream ends only the wrapping.
 * Order: leat copies from pageable memory at once if the native stream has no work. A stream made without
 * CU_STREAM_NON_BLOCKING, and the per-thread default stream, have none while they wait for the legacy default
 * stream. So wait for a host function there before such a stream copies what it writes; CUDA's own calls read such
 * a source at once too (CUDA driver API, "API synchronization behavior").
 * Errors: HANDLE, INVALID (stream NULL; NULL native on the CPU device; a native stream of another device or one
 * that the driver does not know, where it can tell), HOST_MEMORY, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_stream_wrap(leat_device *device, void *native, leat_stream **stream);

/* Returns the CUstream of a stream. Errors: HANDLE, INVALID (native NULL). */
LEAT_NODISCARD LEAT_API leat_status leat_stream_native(leat_stream *stream, void **native);

/* Creates a leat event for a CUevent of the user's own. It counts as recorded. Errors: HANDLE, INVALID (native or
 * event NULL; a native event that the driver does not know, where it can tell), HOST_MEMORY, NOT_PERMITTED. */
LEAT_NODISCARD LEAT_API leat_status leat_event_wrap(leat_device *device, void *native, leat_event **event);

/* Returns the CUevent of an event. The program may record it itself: leat's calls then use that record.
 * Errors: HANDLE, INVALID (native NULL). */
LEAT_NODISCARD LEAT_API leat_status leat_event_native(leat_event *event, void **native);

/*
 * Makes memory that the user's own code allocated known to leat. Use this for memory that the driver cannot
 * identify, or to make its lookup as fast as that of leat's own memory. kind: DEVICE, PINNED or MANAGED. From then
 * on leat checks ranges in this memory; leat never frees it. Call leat_pointer_unwrap() before the memory is
 * freed.
 * Errors: HANDLE, INVALID (NULL, bytes 0, PAGEABLE, overflow), REGISTERED (overlaps memory that leat knows),
 * HOST_MEMORY.
 */
LEAT_NODISCARD LEAT_API leat_status leat_pointer_wrap(leat_device *device, leat_kind kind, void *ptr,
                                                      size_t bytes);

/* Undoes leat_pointer_wrap() for the memory that starts at ptr. NULL does nothing. Errors: POINTER (no wrapped
 * memory starts at ptr). */
LEAT_API leat_status leat_pointer_unwrap(void *ptr);

/* Returns a function of the vendor's library that the device's driver loaded, by its exported name (for example
 * "cuMemcpyAsync"), so that a program can call it without linking to the library.
 * Errors: HANDLE, INVALID (name or symbol NULL), NOT_FOUND, UNSUPPORTED (the CPU device has no library). */
LEAT_NODISCARD LEAT_API leat_status leat_native_symbol(leat_device *device, const char *name, void **symbol);

#ifdef __cplusplus
}
#endif

#endif
