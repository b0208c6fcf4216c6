/*
 * leat/copy.h - copying and filling memory in stream order.
 *
 * Model. leat_copy(stream, dst, src, bytes) copies between any two places that leat can reach: pageable and pinned
 * host memory, device memory, another device's memory, managed memory. leat derives the kinds of memory, and so
 * the direction, from the pointers. The copy runs in stream order, after all earlier work of the stream. The call
 * mostly returns at once, for every combination of kinds; leat_copy() lists the exceptions.
 *
 * leat's own threads move pageable memory (malloc, the stack, file mappings) through pinned memory while the
 * stream waits for them; docs/copies.md explains how. The host may use its buffers again:
 *
 *     any buffer         when the stream has completed the copy (synchronize, query or event)
 *     a pageable source  also as soon as the copy's ticket reports LEAT_COPY_POINT_STAGED
 *     pageable buffers   also when leat_copy_sync() returns
 *
 * leat may read the source at any time between the call and that moment. It never reads the source before earlier
 * work of the stream that may write the source (a host function, a copy into it), but it may read before earlier
 * kernels have run.
 *
 *     leat_copy(stream, d, data, bytes);                              // pageable: returns at once
 *     leat_launch(stream, ...);                                       // runs when the bytes are there
 *
 *     leat_copy_start(stream, d, data, bytes, NULL, &ticket);
 *     leat_ticket_wait(ticket, LEAT_COPY_POINT_STAGED, LEAT_FOREVER); // data may change now
 *     leat_ticket_destroy(ticket);
 *
 * Asynchronous failures. If a copy fails while leat's threads move the bytes (the source was unmapped, a file
 * shrank under its mapping), the ticket returns the failure, and so does the next leat_stream_synchronize() of
 * that stream, once. Later work of the stream runs anyway. The part of dst that the copy did not reach is then
 * undefined.
 *
 * Threads. Any thread may call; leat/stream.h says what happens when two threads use one stream. Several threads
 * may use a ticket, but leat_ticket_destroy() must be the last call on it.
 */
#ifndef LEAT_COPY_H
#define LEAT_COPY_H

#include <leat/memory.h>
#include <leat/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Copies bytes from src to dst. bytes 0 does nothing, whatever the pointers are. Device memory may belong to any
 * device of the stream's driver. leat enables peer access between devices where the hardware has it; elsewhere the
 * driver copies through host memory.
 *
 * The call does not wait for earlier work of the stream, with these exceptions:
 *
 *     - Several GiB of pageable memory on a busy stream: the driver's queue is finite, so the call returns when
 *       the rest of the copy fits into it.
 *     - Staged copies that wait on their streams hold all the pinned memory that LEAT_COPY_MEMORY allows.
 *     - The driver's streams cannot wait for flags in memory (leat_copy_explain() reports this).
 *     - The calling thread makes most pageable copies of up to 2 MiB itself, because that is fastest. A copy in
 *       has read its source when the call returns. A copy out of an idle stream is complete when the call
 *       returns.
 *     - A device's first pageable copies on idle streams use the driver's own call, which blocks the caller until
 *       the copy is done, whatever its size.
 *     - On CUDA, copies of different streams share few queues: if four or more streams are blocked with copies in
 *       them, copies of other streams may wait too (docs/copies.md).
 *
 * Errors: HANDLE; POINTER (NULL; freed or unmapped memory; a read-only destination in pageable memory; memory of a
 * device that is not open); RANGE (a pointer's allocation is shorter than bytes, or pointer + bytes overflows);
 * OVERLAP (also when dst == src); UNSUPPORTED (two drivers, for example cpu and cuda memory: copy through host
 * memory); HOST_MEMORY; DEVICE_LOST, DRIVER, NOT_PERMITTED (inside a host function; a destination that
 * leat_virtual_set_access() made read-only; in guard mode, see leat/pool.h, also on a stream that is not ordered
 * after other uses). After an error nothing was copied, except after DEVICE_LOST, DRIVER, and POINTER for partly
 * unmapped pageable memory: then dst is undefined.
 */
LEAT_NODISCARD LEAT_API leat_status leat_copy(leat_stream *stream, void *dst, const void *src, size_t bytes);

/*
 * leat_copy() with the contract of synchronous copies: when the call returns, a pageable source may be changed and
 * a pageable destination is complete. The call waits until a pageable source has been read; if dst is pageable, it
 * waits for the stream; otherwise it does not wait. If a source is longer than a ring (LEAT_COPY_RING), or follows other
 * copies in one, earlier copies must first leave the ring, so the call may wait for the stream too (docs/copies.md). The
 * calling thread takes part in the copying.
 * Errors: as leat_copy(), and failures while the bytes were moved.
 */
LEAT_NODISCARD LEAT_API leat_status leat_copy_sync(leat_stream *stream, void *dst, const void *src, size_t bytes);

/* ---- tickets --------------------------------------------------------------------------------------------- */

/* One copy that was started. A ticket stays valid after its stream is destroyed or its device is closed. Closing
 * the device completes its copies. */
typedef struct leat_ticket leat_ticket;

/* The points that a copy reaches, one after the other. */
typedef enum leat_copy_point {
    LEAT_COPY_POINT_STAGED = 1, /* the source has been read and may change */
    LEAT_COPY_POINT_DONE = 2,   /* the bytes are at dst, and all earlier work of the stream is complete */
    /* the bytes are on the disk; only for leat_file_sync_start() and leat_file_commit_start() */
    LEAT_COPY_POINT_DURABLE = 3
} leat_copy_point;

#define LEAT_FOREVER UINT64_MAX

/* Options of a copy. Start with LEAT_COPY_OPTIONS_INIT: zero selects the default of each field. */
typedef struct leat_copy_options {
    size_t size;          /* sizeof(leat_copy_options): leat/base.h */
    uint64_t deadline_ns; /* time from the call after which leat cancels what is not staged yet; 0: none */
} leat_copy_options;
#define LEAT_COPY_OPTIONS_INIT LEAT_SIZED_INIT_(leat_copy_options)

/* leat_copy() with a ticket. options may be NULL. bytes 0 returns a ticket that is done. The caller
 * destroys the ticket.
 * Errors: as leat_copy(); INVALID (ticket NULL, options->size as leat/base.h says). */
LEAT_NODISCARD LEAT_API leat_status leat_copy_start(leat_stream *stream, void *dst, const void *src, size_t bytes,
                                                    const leat_copy_options *options, leat_ticket **ticket);

/*
 * Waits until the copy has reached point, for at most timeout_ns nanoseconds (0: only checks; LEAT_FOREVER: no
 * limit). If leat has few threads for copies, the calling thread takes part in this one. Returns LEAT_NOT_READY if
 * the copy has not reached point yet. A copy that failed, was cancelled or passed its deadline reaches all points
 * too, and the call then returns its failure: POINTER (the source or the destination could not be accessed; the
 * message has the address), FILE, CANCELLED, DEADLINE.
 * Errors: HANDLE, INVALID (point), DEVICE_LOST, DRIVER, NOT_PERMITTED (inside a host function).
 */
LEAT_NODISCARD LEAT_API leat_status leat_ticket_wait(leat_ticket *ticket, leat_copy_point point,
                                                     uint64_t timeout_ns);

/* The progress of a copy. */
typedef struct leat_ticket_info {
    size_t size;            /* sizeof(leat_ticket_info): leat/base.h */
    uint64_t bytes;         /* size of the copy */
    uint64_t arrived_bytes; /* at dst, from its start; after the copy has ended, the rest of dst is undefined */
    uint8_t staged, done, durable; /* 1: the copy has reached this point */
    leat_status status;            /* LEAT_OK so far, or why the copy stopped */
    /* The protocol that makes the copy, as leat_copy_explain() names it: "staged", or "staged and host" for ranges
     * of files to devices and to the host; "" for 0 bytes. A constant text. */
    const char *protocol;
} leat_ticket_info;
#define LEAT_TICKET_INFO_INIT LEAT_SIZED_INIT_(leat_ticket_info)

/* Returns the progress of a copy without waiting. Errors: HANDLE, INVALID (info NULL, or its size). */
LEAT_NODISCARD LEAT_API leat_status leat_ticket_get_info(leat_ticket *ticket, leat_ticket_info *info);

/*
 * Cancels a copy that leat's threads make, from or to pageable memory or a file: leat does not copy chunks that
 * are not staged yet. Chunks on their way to the device cannot be stopped, and the copy keeps its place in the
 * stream's order. The call has no effect on copies that leat's threads do not make, or that are over. It does not
 * wait.
 * Errors: HANDLE.
 */
LEAT_API leat_status leat_ticket_cancel(leat_ticket *ticket);

/* Destroys a ticket; the copy continues. NULL does nothing. Errors: HANDLE. */
LEAT_API leat_status leat_ticket_destroy(leat_ticket *ticket);

/* ---- batches of small copies ----------------------------------------------------------------------------- */

/* One copy of a batch. Does not grow: it is an element of an array. */
typedef struct leat_copy_op {
    void *dst;
    const void *src;
    size_t bytes;
} leat_copy_op;

/*
 * Makes count copies in stream order as if they were one: none runs before earlier work of the stream, later work
 * waits for all of them, and they have no order among themselves. leat merges adjacent ranges. Then it moves all
 * ranges together: a kernel gathers or scatters mapped memory, and the host packs pageable memory. Where it is
 * faster, leat copies the ranges one by one (leat_copy_batch_explain() says which). leat reads ops before the call
 * returns. An op of 0 bytes does nothing, whatever its pointers are; count 0 does nothing. Any mixture of kinds
 * and directions is allowed. A destination must not overlap another op's source or destination.
 *
 * The first call on a device loads leat's kernels, which may wait for the device's work; leat_module_builtin()
 * loads them ahead of time.
 * Errors: as leat_copy(), with the number of the op in the message; INVALID (ops NULL); OVERLAP. After an error
 * nothing was copied, except after DEVICE_LOST, DRIVER, HOST_MEMORY, and POINTER for partly unmapped pageable
 * memory: then all destinations are undefined.
 */
LEAT_NODISCARD LEAT_API leat_status leat_copy_batch(leat_stream *stream, const leat_copy_op *ops, size_t count);

/* ---- 3-D copies ------------------------------------------------------------------------------------------ */

/* A pitched region of bytes in the source and in the destination. The width_bytes bytes of row y in slice z start
 * at y * pitch_bytes + z * slice_bytes. Does not grow: it is a value like leat_dim3. */
typedef struct leat_copy_region {
    size_t width_bytes; /* bytes of a row */
    size_t height;      /* rows of a slice */
    size_t depth;       /* slices; 1 for a 2-D copy */
    size_t dst_pitch_bytes, src_pitch_bytes;
    size_t dst_slice_bytes, src_slice_bytes; /* ignored when depth is 1 */
} leat_copy_region;

/*
 * Copies a pitched 2-D or 3-D region between any two places, like leat_copy(). A size of 0 does nothing. leat
 * reads region before the call returns. On a GPU, layout kernels (leat/layout.h) move narrow rows. The first
 * region that needs such a kernel loads it, which may wait for the device's work; leat_module_layout() loads all
 * of them ahead of time.
 * Errors: as leat_copy(), with the range from the first byte of the region to its last; INVALID (region NULL; a
 * pitch below width_bytes; slices that overlap: a slice_bytes below height * pitch_bytes; a size that overflows);
 * OVERLAP (a byte belongs to the source and the destination, or may do so if an exact check would take too long).
 * Columns side by side in one image do not overlap.
 */
LEAT_NODISCARD LEAT_API leat_status leat_copy_3d(leat_stream *stream, void *dst, const void *src,
                                                 const leat_copy_region *region);

#ifndef LEAT_NO_EXPERIMENTAL /* may still change: see leat/version.h */

/* ---- failures on several streams ------------------------------------------------------------------------- */

/*
 * Lets the next leat_stream_synchronize() of stream return the failure of the ticket's copy too, once, beside that
 * of the copy's own stream. This is for a stream that uses what a copy of another stream has brought: it waits for
 * an event of that stream, which does not tell whether the copy has failed. The stream may belong to any device.
 * The call does not order anything and does not wait. The ticket may be destroyed afterwards. As on the copy's own
 * stream, only failures of memory and files (POINTER, FILE) are returned, not that the copy was cancelled.
 * Errors: HANDLE, HOST_MEMORY.
 */
LEAT_NODISCARD LEAT_API leat_status leat_ticket_report(leat_ticket *ticket, leat_stream *stream);

/* ---- tickets of several steps ---------------------------------------------------------------------------- */

/*
 * Moves the point LEAT_COPY_POINT_DONE of a ticket behind the work that was submitted to stream before this call.
 * So one ticket stands for a copy and the work that follows it, such as a leat_copy_layout() that unpacks what the
 * copy has brought. The rest of the ticket still concerns the copy alone: its bytes, the point STAGED, its
 * failure, its cancellation. stream: the copy's own, or one of the same device that waits for the copy. Of several
 * calls the last one counts. Call it before another thread uses the ticket.
 * Errors: HANDLE; INVALID (a stream of another device); HOST_MEMORY, DRIVER, NOT_PERMITTED (inside a host
 * function). A failed call leaves the ticket as it was.
 */
LEAT_NODISCARD LEAT_API leat_status leat_ticket_extend(leat_ticket *ticket, leat_stream *stream);

/* ---- several links --------------------------------------------------------------------------------------- */

/*
 * Lets copies of 64 MiB and more from host memory to device also use the host links of count other devices, the
 * helpers, which pass the bytes on to device. This is faster where the devices reach each other faster than the
 * host (NVLink). During such a copy the helpers' links and copy engines are busy, and each helper provides 48 MiB
 * of its memory. At most four such copies run at a time; further copies use the device's own link. The call
 * enables peer access. It replaces an earlier list; count 0 removes it. Closing one of the devices removes the
 * list too. A ticket of such a copy reports when it is done, but no progress, and cannot cancel it. With a ticket,
 * a copy from pageable memory uses only the device's own link.
 * Errors: HANDLE (device or a helper); INVALID (helpers NULL, more than 8, one that is device or is listed twice);
 * UNSUPPORTED (a helper of another driver); HOST_MEMORY, DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_copy_set_rails(leat_device *device, leat_device *const *helpers,
                                                        unsigned count);

/* ---- plans in words -------------------------------------------------------------------------------------- */

/*
 * Describes as text how leat_copy() would make this copy now, and copies nothing. The text has the protocol, why
 * it was chosen, the other protocols, and what limits the speed ("bound"). text_bytes: the size of text, including
 * the terminating 0; longer output is truncated. docs/copies.md explains the output. On a GPU the first call for a
 * device creates its staging memory, if no copy has done so yet.
 * Errors: as leat_copy(); INVALID (text NULL or text_bytes 0).
 */
LEAT_NODISCARD LEAT_API leat_status leat_copy_explain(leat_stream *stream, void *dst, const void *src,
                                                      size_t bytes, char *text, size_t text_bytes);

/* leat_copy_explain() for leat_copy_3d(). */
LEAT_NODISCARD LEAT_API leat_status leat_copy_3d_explain(leat_stream *stream, void *dst, const void *src,
                                                         const leat_copy_region *region, char *text,
                                                         size_t text_bytes);

/* leat_copy_explain() for leat_copy_batch(). */
LEAT_NODISCARD LEAT_API leat_status leat_copy_batch_explain(leat_stream *stream, const leat_copy_op *ops,
                                                            size_t count, char *text, size_t text_bytes);

#endif /* LEAT_NO_EXPERIMENTAL */

/* ---- filling --------------------------------------------------------------------------------------------- */

/*
 * Sets bytes bytes at dst to value, in stream order. dst: device memory of the stream's device, or managed or
 * pinned memory of its driver; for pageable memory use memset(). bytes 0 does nothing.
 * Errors: HANDLE; POINTER (as leat_copy(), and pageable memory); RANGE; INVALID (memory of another device);
 * UNSUPPORTED (memory of another driver); DEVICE_LOST, DRIVER, NOT_PERMITTED (as leat_copy()).
 */
LEAT_NODISCARD LEAT_API leat_status leat_fill(leat_stream *stream, void *dst, uint8_t value, size_t bytes);

/*
 * Fills bytes bytes at dst with copies of a pattern of pattern_bytes (1, 2, 4, 8 or 16), in stream order. leat
 * reads the pattern before the call returns. dst must be aligned to pattern_bytes, and bytes must be a multiple of
 * it. The first pattern of 8 or 16 bytes on a device loads leat's kernels, which may wait for the device's work;
 * leat_module_builtin() loads them ahead of time.
 * Errors: as leat_fill(); INVALID (pattern NULL, another pattern size, alignment, not a multiple).
 */
LEAT_NODISCARD LEAT_API leat_status leat_fill_pattern(leat_stream *stream, void *dst, const void *pattern,
                                                      size_t pattern_bytes, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
