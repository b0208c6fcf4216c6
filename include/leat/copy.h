/*
 * leat/copy.h - moving and filling bytes.
 *
 * Model. leat_copy(stream, dst, src, bytes) copies between any two places that leat can reach: pageable
 * and pinned host memory, device memory, another device's memory, managed memory. The kinds and so the
 * direction come from the pointers. It runs in stream order, after all earlier work of the stream, and
 * mostly returns at once, whatever the kinds are; leat_copy() says when it does not.
 *
 * Pageable memory (malloc, the stack, file mappings) is moved by leat's own threads through pinned memory,
 * while the stream waits for them; docs/copies.md explains how. When may the host touch its buffers again?
 *
 *   any buffer         when the stream has got past the copy (synchronize, query or event)
 *   a pageable source  also as soon as the copy's ticket says LEAT_COPY_STAGED
 *   both               when leat_copy_sync() returns, if they are pageable
 *
 * The source is read at some time between the call and that moment: not before earlier work of the stream that
 * may write it (a host function, a copy into it), but perhaps before earlier kernels have run.
 *
 *     leat_copy(stream, d, data, bytes);                              // pageable: returns at once
 *     leat_launch(stream, ...);                                       // runs when the bytes are there
 *
 *     leat_copy_start(stream, d, data, bytes, NULL, &ticket);
 *     leat_ticket_wait(ticket, LEAT_COPY_STAGED, LEAT_FOREVER);       // data may change now
 *     leat_ticket_free(ticket);
 *
 * What goes wrong while leat's threads move the bytes (the source was unmapped, a file shrank under its mapping)
 * comes back from the ticket, and once from the next leat_stream_synchronize() of that stream. Work after the
 * copy runs anyway. What of dst was not reached yet is undefined then.
 *
 * Threads. Any thread may call; see leat/stream.h for two threads on one stream. A ticket may be used by several
 * threads, but for leat_ticket_free(), which must be the last.
 */
#ifndef LEAT_COPY_H
#define LEAT_COPY_H

#include <leat/memory.h>
#include <leat/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Copies bytes from src to dst. bytes 0 does nothing, whatever the pointers are. Device memory may be of
 * another device than the stream's, of the same driver; peer access is switched on where the hardware
 * has it, else the driver goes through host memory.
 *
 * The call itself does not wait for earlier work of the stream, but in these cases: several GiB of pageable memory
 * on a stream that is busy (the driver's queue has an end: the call returns when the rest fits in); staged copies
 * that wait on their streams hold all the pinned memory that LEAT_COPY_MEMORY allows; a driver whose streams cannot
 * wait for flags in memory (leat_copy_explain() says so). Pageable copies of up to 2 MiB are mostly made by the
 * calling thread, which is the fastest: in, the source has been read when the call returns; out of a stream that is
 * idle, the bytes are there. A device's first pageable copies on idle streams are made by the driver's own call, which
 * keeps the caller until it is done, whatever the size. On CUDA, copies of different streams share
 * few queues: behind four or more streams that are held up with copies in them, others may wait too
 * (docs/copies.md).
 * Errors: HANDLE; POINTER (NULL; freed or unmapped memory; a destination that is read-only; device memory
 * of a device that is not open); RANGE (a pointer's allocation is shorter than bytes, or pointer + bytes
 * overflows); OVERLAP (also when dst == src); UNSUPPORTED (two drivers, for example cpu and cuda memory:
 * copy through host memory); HOST_MEMORY; DEVICE_LOST, DRIVER, NOT_PERMITTED (inside a host function; in guard
 * mode, see leat/pool.h, also on a stream that is not ordered after other uses). Nothing was copied then, but for
 * DEVICE_LOST, DRIVER, and POINTER where a part of pageable memory is missing, after which dst is undefined.
 */
LEAT_API leat_status leat_copy(leat_stream *stream, void *dst, const void *src, size_t bytes);

/*
 * The same, with the classic contract: when it returns, a pageable source may be changed and a pageable
 * destination is complete. It waits until a pageable source has been read, for the stream if dst is pageable, and
 * not at all otherwise. The caller's thread takes part in the copying.
 * Errors: as leat_copy(), and what went wrong while the bytes were moved.
 */
LEAT_API leat_status leat_copy_sync(leat_stream *stream, void *dst, const void *src, size_t bytes);

/* ---- tickets --------------------------------------------------------------------------------------------- */

/* One copy that was started. A ticket stays valid when its stream is destroyed or its device is closed; the copy of
 * a closed device is over. */
typedef struct leat_ticket leat_ticket;

/* Where a copy has got to. */
typedef enum leat_copy_point {
    LEAT_COPY_STAGED = 1, /* the source has been read: it may change */
    LEAT_COPY_DONE = 2    /* the bytes are at dst, and all earlier work of the stream is done */
} leat_copy_point;

#define LEAT_FOREVER UINT64_MAX

/* How a copy is made. Start with zeros and size = sizeof(leat_copy_options): every zero means "as usual". */
typedef struct leat_copy_options {
    size_t size;          /* sizeof(leat_copy_options), so that the struct can grow */
    uint64_t deadline_ns; /* from the call; what is not staged then is cancelled; 0: none */
} leat_copy_options;

/*
 * leat_copy() with a ticket. options may be NULL. bytes 0 gives a ticket that is done.
 * Errors: as leat_copy(); INVALID (ticket NULL, options->size 0 or larger than this library knows).
 */
LEAT_API leat_status leat_copy_start(leat_stream *stream, void *dst, const void *src, size_t bytes,
                                     const leat_copy_options *options, leat_ticket **ticket);

/*
 * Waits until the copy has got to point, at most timeout_ns nanoseconds (0: only looks; LEAT_FOREVER: no limit).
 * Where leat has few threads for copies, the caller's takes part in this one.
 * LEAT_NOT_READY: not yet. A copy that failed, was cancelled or passed its deadline gets to both points all the
 * same, and its failure is returned then: POINTER (the source or the destination could not be reached; the
 * message has the address), CANCELLED, DEADLINE.
 * Errors: HANDLE, INVALID (point), DEVICE_LOST, DRIVER, NOT_PERMITTED (inside a host function).
 */
LEAT_API leat_status leat_ticket_wait(leat_ticket *ticket, leat_copy_point point, uint64_t timeout_ns);

/* How a copy is getting on. */
typedef struct leat_ticket_info {
    uint64_t bytes;         /* of the copy */
    uint64_t arrived_bytes; /* at dst, counted from its start; what follows is undefined once the copy has ended */
    uint8_t staged, done;   /* 1: it has got there */
    leat_status status;     /* LEAT_OK so far, or why it stopped */
} leat_ticket_info;

/* Looks without waiting. Errors: HANDLE, INVALID (info NULL). */
LEAT_API leat_status leat_ticket_query(leat_ticket *ticket, leat_ticket_info *info);

/*
 * Stops a copy between pageable and other memory: chunks that are not staged yet stay where they are. What is on
 * its way to the device cannot be called back, and the stream still goes past the copy in its order. Any other
 * copy, and one that is over, goes on as if nothing was said. Does not wait. Errors: HANDLE.
 */
LEAT_API leat_status leat_ticket_cancel(leat_ticket *ticket);

/* Ends a ticket; the copy goes on. NULL does nothing. Errors: HANDLE. */
LEAT_API leat_status leat_ticket_free(leat_ticket *ticket);

/* ---- batches of small copies ----------------------------------------------------------------------------- */

/* One copy of a batch. */
typedef struct leat_copy_op {
    void *dst;
    const void *src;
    size_t bytes;
} leat_copy_op;

/*
 * Makes count copies in stream order as if they were one: none runs before earlier work of the stream, later work
 * waits for all of them, and among them there is no order. Ranges that continue one another are merged; then all
 * of them go together, by a kernel that gathers or scatters over mapped memory, packed by the host where they are
 * pageable, or one by one where that is faster (leat_copy_batch_explain() says which). ops is read before the
 * call returns. An op of 0 bytes does nothing, whatever its pointers are; count 0 does nothing.
 * The first call on a device loads leat's kernels, which may wait for the device's work; leat_module_builtin()
 * does that ahead of time. Any mixture of kinds and directions is fine. A destination that overlaps another op's
 * source or destination is refused.
 * Errors: as leat_copy(), with the number of the op in the message; INVALID (ops NULL); OVERLAP. Nothing was
 * copied then, but for DEVICE_LOST and DRIVER, after which all destinations are undefined.
 */
LEAT_API leat_status leat_copy_batch(leat_stream *stream, const leat_copy_op *ops, size_t count);

/* ---- 3-D copies ------------------------------------------------------------------------------------------ */

/* A pitched region of bytes on both sides. Of row y in slice z, width_bytes bytes lie at y * pitch_bytes + z *
 * slice_bytes. */
typedef struct leat_copy_region {
    size_t width_bytes; /* of a row */
    size_t height;      /* rows */
    size_t depth;       /* slices; 1 for a 2-D copy */
    size_t dst_pitch_bytes, src_pitch_bytes;
    size_t dst_slice_bytes, src_slice_bytes; /* not looked at when depth is 1 */
} leat_copy_region;

/*
 * Copies a pitched 2-D or 3-D region between any two places, as leat_copy(). A size of 0 does nothing. region is
 * read before the call returns. Narrow rows on a GPU are moved by the kernels of layouts (leat/layout.h); the
 * first region that needs one loads it, which may wait for the device's work; leat_module_layout() loads all ahead
 * of time.
 * Errors: as leat_copy(), where the range is all from the first byte of the region to its last; INVALID
 * (region NULL; a pitch below width_bytes; slices that overlap: a slice_bytes below height * pitch_bytes; a size
 * that overflows). OVERLAP when a byte is on both sides, or might be, where telling that takes too long: columns
 * that lie side by side in one image are fine.
 */
LEAT_API leat_status leat_copy_3d(leat_stream *stream, void *dst, const void *src, const leat_copy_region *region);

/* ---- several links --------------------------------------------------------------------------------------- */

/*
 * Lets copies of 64 MiB and more from host memory into device go over the host links of count other devices as
 * well, and from them across, which pays where the devices reach each other faster than the host (NVLink). The
 * helpers' links and copy engines are busy meanwhile, and each gives 48 MiB of its memory for each copy that is under
 * way (four at most; others go over the device's own link). Peer access is switched on. Replaces an earlier list;
 * count 0 ends it. Closing one of the devices ends it too. A ticket of such a copy knows when it is done, and neither
 * its progress nor how to stop it.
 * Errors: HANDLE (device or a helper); INVALID (helpers NULL, more than 8, one that is device itself or is there
 * twice); UNSUPPORTED (a helper of another driver); HOST_MEMORY, DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_copy_set_rails(leat_device *device, leat_device *const *helpers, unsigned count);

/* ---- plans in words -------------------------------------------------------------------------------------- */

/*
 * Writes how leat_copy() would make this copy now, as text, and copies nothing: the protocol, why it was chosen, the
 * other protocols, and the bound. text_bytes: the room in text, with the closing 0; what is longer is cut. docs/copies.md says how to
 * read it.
 * Errors: as leat_copy(); INVALID (text NULL or text_bytes 0).
 */
LEAT_API leat_status leat_copy_explain(leat_stream *stream, void *dst, const void *src, size_t bytes, char *text,
                                       size_t text_bytes);

/* The same for leat_copy_3d(). */
LEAT_API leat_status leat_copy_3d_explain(leat_stream *stream, void *dst, const void *src,
                                          const leat_copy_region *region, char *text, size_t text_bytes);

/* The same for leat_copy_batch(). */
LEAT_API leat_status leat_copy_batch_explain(leat_stream *stream, const leat_copy_op *ops, size_t count,
                                             char *text, size_t text_bytes);

/* ---- filling --------------------------------------------------------------------------------------------- */

/*
 * Sets bytes bytes at dst to value, in stream order. dst: device memory of the stream's device, or managed
 * or pinned memory of its driver; for pageable memory use memset. bytes 0 does nothing.
 * Errors: HANDLE; POINTER (as leat_copy, and pageable memory); RANGE; INVALID (memory of another device);
 * UNSUPPORTED (memory of another driver); DEVICE_LOST, DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_fill(leat_stream *stream, void *dst, uint8_t value, size_t bytes);

/*
 * Repeats a pattern of pattern_bytes (1, 2, 4, 8 or 16) over bytes bytes at dst, in stream order. The
 * pattern is read before the call returns. dst must be aligned to pattern_bytes, and bytes must be a
 * multiple of it. The first pattern of 8 or 16 bytes on a device loads leat's kernels, which may wait for the
 * device's work; leat_module_builtin() does that ahead of time.
 * Errors: as leat_fill; INVALID (pattern NULL, another pattern size, alignment, not a multiple).
 */
LEAT_API leat_status leat_fill_pattern(leat_stream *stream, void *dst, const void *pattern, size_t pattern_bytes,
                                       size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
