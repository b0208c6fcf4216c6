/*
 * leat/copy.h - moving and filling bytes.
 *
 * Model. leat_copy(stream, dst, src, bytes) copies between any two places that leat can reach: pageable
 * and pinned host memory, device memory, another device's memory, managed memory. The kinds and so the
 * direction come from the pointers. It runs in stream order, after all earlier work of the stream.
 *
 * When may the host touch its buffers again?
 *   pinned host memory    when the stream has got past the copy (synchronize, query or event); the
 *                         call returns at once.
 *   pageable source       when the call has returned.
 *   pageable destination  when the call has returned: it waits for the stream and the copy.
 * So only copies without pageable memory overlap with the host and with each other.
 *
 * Threads. Any thread may call; see leat/stream.h for two threads on one stream.
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
 * Errors: HANDLE; POINTER (NULL; freed or unmapped memory; a destination that is read-only; device memory
 * of a device that is not open); RANGE (a pointer's allocation is shorter than bytes, or pointer + bytes
 * overflows); OVERLAP (also when dst == src); UNSUPPORTED (two drivers, for example cpu and cuda memory:
 * copy through host memory); DEVICE_LOST, DRIVER, NOT_PERMITTED (inside a host function; in guard mode, see
 * leat/pool.h, also on a stream that is not ordered after other uses). Nothing was copied then.
 */
LEAT_API leat_status leat_copy(leat_stream *stream, void *dst, const void *src, size_t bytes);

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
