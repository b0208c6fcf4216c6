/*
 * leat/stream.h - controls the order of work with streams, events and host functions.
 *
 * Model. A stream runs its work in the order of submission; different streams run concurrently.
 * leat_event_record() puts an event at the current end of a stream. leat_stream_wait() makes another stream (of
 * any device of the same driver) continue only after that point, without blocking the host. There is no default
 * stream: work is ordered only by its stream and by events.
 *
 *     leat_event_record(copy_stream, loaded);
 *     leat_stream_wait(compute_stream, loaded);    // host goes on at once
 *     leat_launch(compute_stream, ...);
 *
 * Call order. A stream or an event lives from create to destroy, or until its device is closed.
 *
 * Pools (leat/pool.h) learn from these calls which stream is ordered after which, and which work is complete. So
 * memory passes from one stream to another without an extra wait.
 *
 * Threads. Any thread may use any stream. If two threads submit work to one stream at the same time, leat orders
 * the work in one way or the other: a kernel, a fill, a host function or a leat_copy() runs as a whole before or
 * after the other thread's work, with these exceptions. A short copy of pageable memory that uses the driver's own
 * call may run between the pieces of a longer copy. leat_copy_batch(), leat_copy_3d(), leat_copy_layout() and
 * prefetches may consist of several pieces of work, and the other thread's work may run between them. If code
 * outside leat submits work to a wrapped stream, that work may run between the pieces of a copy too. Calls that
 * wait (synchronize) block only the calling thread.
 */
#ifndef LEAT_STREAM_H
#define LEAT_STREAM_H

#include <leat/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leat_stream leat_stream;
typedef struct leat_event leat_event;

/* Creates a stream. Errors: HANDLE, INVALID (stream NULL), HOST_MEMORY, DRIVER, NOT_PERMITTED. */
LEAT_NODISCARD LEAT_API leat_status leat_stream_create(leat_device *device, leat_stream **stream);

/*
 * Destroys a stream. The call does not wait: submitted work still runs to its end, and memory that this work uses
 * must stay until then. Live blocks that were allocated for the stream stay valid and can be freed on another
 * stream or with leat_memory_free(). Blocks that were freed on it are reused once its work is complete. For a
 * wrapped stream only the wrapping ends. NULL does nothing.
 * Errors: HANDLE, NOT_PERMITTED; DRIVER (the handle is gone anyway).
 */
LEAT_API leat_status leat_stream_destroy(leat_stream *stream);

/* Returns the device that a stream belongs to. Errors: HANDLE, INVALID (device NULL). */
LEAT_NODISCARD LEAT_API leat_status leat_stream_device(leat_stream *stream, leat_device **device);

/*
 * Waits until all work submitted to stream so far is complete, and returns its failure if it had one. If leat has
 * few threads for copies of pageable memory, the calling thread may take part in copies meanwhile, also those of
 * other streams (docs/copies.md).
 * Errors: HANDLE, DEVICE_LOST, DRIVER, NOT_PERMITTED (inside a host function); POINTER or FILE, once,
 * if a copy by leat's threads failed (leat/copy.h, leat/file.h).
 */
LEAT_NODISCARD LEAT_API leat_status leat_stream_synchronize(leat_stream *stream);

/* Checks whether all work submitted to stream so far is complete: LEAT_OK if it is, and then the host may read its
 * results, otherwise LEAT_NOT_READY.
 * Errors: HANDLE, DEVICE_LOST, DRIVER. */
LEAT_NODISCARD LEAT_API leat_status leat_stream_query(leat_stream *stream);

/*
 * Makes work that is submitted to stream from now on wait for the latest record of event at the time of this call.
 * Recording the event again later does not change this wait. An event that was never recorded delays nothing. The
 * event may be destroyed right after the call.
 * Errors: HANDLE, UNSUPPORTED (event of another driver: wait on the host instead), DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_stream_wait(leat_stream *stream, leat_event *event);

/*
 * Calls function(argument) on a thread of the driver when stream reaches this point; later work of the stream
 * waits until the function returns. Inside the function every leat call that submits work, waits, allocates or
 * frees returns NOT_PERMITTED, because it could wait for the stream that waits for the function. The function may
 * never run once the device is lost (CUDA driver API, cuLaunchHostFunc). Keep it short, because other streams'
 * host functions may wait for it. On the CPU device the thread is leat's; it blocks all signals except those that
 * it causes itself, such as SIGSEGV. Threads and programs that the function starts inherit that signal mask.
 * Errors: HANDLE, INVALID (function NULL), HOST_MEMORY, DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_launch_host(leat_stream *stream, void (*function)(void *argument),
                                                     void *argument);

/* Creates an event. Its records have time stamps. Errors: HANDLE, INVALID (event NULL), HOST_MEMORY, DRIVER,
 * NOT_PERMITTED. */
LEAT_NODISCARD LEAT_API leat_status leat_event_create(leat_device *device, leat_event **event);

/* Destroys an event. Streams that already wait for the event continue to wait. For a wrapped event only the
 * wrapping ends. NULL does nothing.
 * Errors: HANDLE, NOT_PERMITTED; DRIVER (the handle is gone anyway). */
LEAT_API leat_status leat_event_destroy(leat_event *event);

/* Records an event in stream, after all work submitted to stream so far. This replaces the event's earlier record.
 * Errors: HANDLE, INVALID (event and stream are of different devices), DRIVER, NOT_PERMITTED. */
LEAT_NODISCARD LEAT_API leat_status leat_event_record(leat_stream *stream, leat_event *event);

/* Waits until the stream has reached the event; the calling thread may take part in copies meanwhile, as in
 * leat_stream_synchronize(). For an event that was never recorded the call returns at once.
 * Errors: HANDLE, DEVICE_LOST, DRIVER, NOT_PERMITTED. */
LEAT_NODISCARD LEAT_API leat_status leat_event_synchronize(leat_event *event);

/* Checks whether the stream has reached the event: LEAT_OK if it has, or if the event was never recorded,
 * otherwise LEAT_NOT_READY.
 * Errors: HANDLE, DEVICE_LOST, DRIVER. */
LEAT_NODISCARD LEAT_API leat_status leat_event_query(leat_event *event);

/*
 * Returns the milliseconds of device time between two events; negative if end came first. The resolution is about
 * 0.5 us on CUDA ("cuEventElapsedTime" in the driver API manual); on the CPU device it is that of the system's
 * monotonic clock. Returns LEAT_NOT_READY while an event is not reached yet.
 * Errors: HANDLE, INVALID (milliseconds NULL, never recorded, different devices, or a wrapped event that was
 * created without timing), DRIVER.
 */
LEAT_NODISCARD LEAT_API leat_status leat_event_elapsed(leat_event *start, leat_event *end, double *milliseconds);

#ifndef LEAT_NO_EXPERIMENTAL /* may still change: see leat/version.h */

/* ---- counters in memory ---------------------------------------------------------------------------------- */

/*
 * A counter is a 32-bit number in memory that both streams and the host can reach. A stream writes it, or waits
 * for it, in stream order and without a call of the host. The other side of a wait may be a stream of any device
 * of the driver, this process's host, or another process that maps the same memory. leat/share.h uses counters to
 * hand memory over between processes.
 *
 *     leat_memory_alloc(dev, LEAT_KIND_PINNED, 4, &counter);       // or leat_register() of shared memory
 *     atomic_store((_Atomic uint32_t *)counter, 0);
 *     leat_stream_wait_u32(stream, counter, 1);                    // later work waits
 *     leat_launch(stream, ...);
 *     leat_stream_write_u32(stream, counter, 2);                   // stored when the kernel is complete
 *     ...
 *     atomic_store((_Atomic uint32_t *)counter, 1);                // the host lets the stream continue
 *
 * Memory. The counter lies in pinned or registered memory of the stream's driver, or in device memory of the
 * stream's device, at an address that is a multiple of 4. It must live until the stream has passed the call.
 *
 * Who makes the value come. A wait ends only when somebody writes the counter. leat cannot know who that will be,
 * and cannot end the wait: leat_stream_synchronize(), leat_device_synchronize() and leat_device_close() wait for
 * ever if nobody does. Submit the write before the wait where both are in one process. Reasons are that a GPU may
 * run several streams through one hardware queue, where a wait also holds up work that was submitted after it, and
 * that some driver calls (free, unregister, load a module) wait for all work of the device.
 *
 * What leat knows. leat does not know the order that counters make. So pools never use it to pass memory from one
 * stream to another, and guard mode stops checking the order of a stream that has waited for a counter. Where
 * memory passes between streams of one process, use events instead: they cannot hang, and pools learn from them.
 * A pool that is full may make a stream wait for work of another stream. If that other stream waits for a counter
 * that only the first one would write, both wait for ever: such programs need a pool without
 * LEAT_POOL_REUSE_METHOD_WAITING, or allocate before they wait.
 */

/*
 * Stores value in the counter at ptr when all work submitted to stream so far is complete. A host thread or
 * another process that reads value with an acquire load also sees what this work wrote to host memory.
 * Errors: HANDLE; POINTER (ptr NULL, pageable memory, or memory that was freed); RANGE (less than 4 bytes);
 * INVALID (ptr is not a multiple of 4; device memory of another device); UNSUPPORTED (managed memory; the driver
 * has no such operation: CUDA before 11.7, GPUs and HIP libraries without
 * hipDeviceAttributeCanUseStreamWaitValue); NOT_PERMITTED (inside a host function; memory that devices may only
 * read); HOST_MEMORY, DEVICE_LOST, DRIVER.
 */
LEAT_NODISCARD LEAT_API leat_status leat_stream_write_u32(leat_stream *stream, void *ptr, uint32_t value);

/*
 * Makes work that is submitted to stream from now on wait until the counter at ptr has reached value, that is
 * (int32_t)(*ptr - value) >= 0. So a counter may wrap around, but must stay within 2^31 of the value. Later work
 * sees what the writer wrote before it wrote the counter (on the host: a release store). HIP compares the numbers
 * as unsigned: there a counter starts at 0 and cannot wrap around, and a value of 2^31 or more is refused. AMD
 * documents waits only for memory of hipMallocSignalMemory; leat has not been run on AMD hardware yet. On the CPU
 * device the stream's thread looks at the counter again and again, first at once and later about every 0.5 ms.
 * Errors: as leat_stream_write_u32(); UNSUPPORTED (HIP: value is 2^31 or more).
 */
LEAT_NODISCARD LEAT_API leat_status leat_stream_wait_u32(leat_stream *stream, const void *ptr, uint32_t value);

#endif /* LEAT_NO_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif
