/*
 * leat/stream.h - streams, events, host functions: what runs after what.
 *
 * Model. A stream runs the work it is given in order; different streams run beside each other. An
 * event marks a place in a stream: leat_event_record() puts the mark, leat_stream_wait() makes
 * another stream (of any device of the same driver) go on only after the mark, without stopping the
 * host. There is no default stream: work is ordered by nothing but its stream and events.
 *
 *     leat_event_record(loaded, copy_stream);
 *     leat_stream_wait(compute_stream, loaded);    // host goes on at once
 *     leat_launch(compute_stream, ...);
 *
 * Call order. A stream or an event lives from create to destroy, or until its device is closed.
 *
 * Pools (leat/pool.h) learn from these calls which stream comes after which, and which work is done, so that
 * memory passes from one stream to another without a wait of its own.
 *
 * Threads. Any thread may use any stream; two threads that give one stream work at the same time get
 * some order of the two: a kernel, a fill, a host function and a leat_copy() each run as a whole before
 * or after what the other thread gives. Only a short copy of pageable memory that the driver makes by
 * itself may come between the pieces of a longer copy. leat_copy_batch(), leat_copy_3d(),
 * leat_copy_layout() and prefetches may be several pieces of work, and the other's may come between
 * them. Who gives a wrapped stream work outside leat may see that between the pieces of a copy too. Calls
 * that wait (synchronize) stop only the calling thread.
 */
#ifndef LEAT_STREAM_H
#define LEAT_STREAM_H

#include <leat/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leat_stream leat_stream;
typedef struct leat_event leat_event;

/* A new stream. Errors: HANDLE, INVALID (stream NULL), HOST_MEMORY, DRIVER, NOT_PERMITTED. */
LEAT_API leat_status leat_stream_create(leat_device *device, leat_stream **stream);

/*
 * Ends a stream. Does not wait: work that it was given still runs to its end, and memory that it uses
 * must stay until then. Blocks that were allocated for it stay as they are, and can be freed on another stream or
 * with leat_memory_free(); what was freed on it is used again once its work is done. For a wrapped stream only the
 * wrapping ends. NULL does nothing.
 * Errors: HANDLE, NOT_PERMITTED; DRIVER (the handle is gone anyway).
 */
LEAT_API leat_status leat_stream_destroy(leat_stream *stream);

/* The device that a stream belongs to. Errors: HANDLE, INVALID (device NULL). */
LEAT_API leat_status leat_stream_device(leat_stream *stream, leat_device **device);

/* Waits until all work given to stream so far is done, and returns its failure if it had one. Where leat has few
 * threads for copies of pageable memory, this one may copy meanwhile, for other streams too (docs/copies.md).
 * Errors: HANDLE, DEVICE_LOST, DRIVER, NOT_PERMITTED (inside a host function). */
LEAT_API leat_status leat_stream_synchronize(leat_stream *stream);

/* LEAT_OK: all work given to stream so far is done, and the host may read its results.
 * LEAT_NOT_READY: it is not. Errors: HANDLE, DEVICE_LOST, DRIVER. */
LEAT_API leat_status leat_stream_query(leat_stream *stream);

/*
 * Work given to stream from now on runs after what event marks: its latest record at the time of this
 * call. Recording the event again later does not change this wait. An event that was never recorded
 * holds nothing up. The event may be destroyed right after the call.
 * Errors: HANDLE, UNSUPPORTED (event of another driver: wait on the host instead), DRIVER,
 * NOT_PERMITTED.
 */
LEAT_API leat_status leat_stream_wait(leat_stream *stream, leat_event *event);

/*
 * Calls function(argument) on a thread of the driver when stream gets there; later work of the stream
 * waits for its return. Inside it every leat call that gives work, waits, allocates or frees returns
 * NOT_PERMITTED: it would stop the stream that it waits for. It may never run once the device is lost
 * (CUDA driver API, cuLaunchHostFunc). Keep it short; other streams' host functions may wait behind it.
 * On the CPU device that thread is leat's, on which all signals are blocked but those that it causes itself, such as
 * SIGSEGV; threads and programs that the function starts inherit that.
 * Errors: HANDLE, INVALID (function NULL), HOST_MEMORY, DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_launch_host(leat_stream *stream, void (*function)(void *argument), void *argument);

/* A new event, with a time stamp. Errors: HANDLE, INVALID (event NULL), HOST_MEMORY, DRIVER,
 * NOT_PERMITTED. */
LEAT_API leat_status leat_event_create(leat_device *device, leat_event **event);

/* Ends an event. Streams that wait for it still do. For a wrapped event only the wrapping ends. NULL
 * does nothing. Errors: HANDLE, NOT_PERMITTED; DRIVER (the handle is gone anyway). */
LEAT_API leat_status leat_event_destroy(leat_event *event);

/*
 * Marks the place that stream has been given work up to. Replaces the event's earlier mark.
 * Errors: HANDLE, INVALID (event and stream are of different devices), DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_event_record(leat_event *event, leat_stream *stream);

/* Waits until the stream has reached the mark, and may copy meanwhile, as leat_stream_synchronize(). Never
 * recorded: returns at once.
 * Errors: HANDLE, DEVICE_LOST, DRIVER, NOT_PERMITTED. */
LEAT_API leat_status leat_event_synchronize(leat_event *event);

/* LEAT_OK: the mark was reached (or never put); LEAT_NOT_READY: not yet. Errors: HANDLE, DEVICE_LOST,
 * DRIVER. */
LEAT_API leat_status leat_event_query(leat_event *event);

/*
 * Milliseconds of device time from one mark to the other; negative if end came first. Resolution: about
 * 0.5 us on CUDA ("cuEventElapsedTime" in the driver API manual), the system's monotonic clock on the
 * CPU device.
 * Errors: HANDLE, INVALID (milliseconds NULL, never recorded, different devices, or a wrapped event that
 * was created without timing), NOT_READY as a status when a mark is not reached yet, DRIVER.
 */
LEAT_API leat_status leat_event_elapsed(leat_event *start, leat_event *end, double *milliseconds);

#ifdef __cplusplus
}
#endif

#endif
