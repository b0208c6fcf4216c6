/*
 * leat/memory.h - memory by kind: allocate, free, register, ask.
 *
 * Model. Memory has a kind, which says who can reach it and how fast the link carries it:
 *
 *   kind       lives in          host reads it   kernels read it   copies
 *   DEVICE     device memory     no              yes               at the speed of the link
 *   PINNED     host memory       yes             yes, over link    asynchronous, link speed
 *   MANAGED    moves             yes             yes               as its pages lie
 *   PAGEABLE   host memory       yes             no                see leat/copy.h
 *
 * PAGEABLE is all memory that leat and the vendor's driver know nothing of: malloc, the stack, file
 * mappings. leat finds the kind of a pointer by itself; pointers into the middle of an allocation
 * are fine everywhere except where memory is freed.
 *
 * Zero copy: a kernel may read and write PINNED memory in place, also registered memory, by the address that
 * leat_pointer_query() gives as device_pointer. Nothing is moved but what the kernel touches, each time that it does,
 * over the link: the best for data that is read once and sparsely, and for what host and device exchange. What a
 * kernel wrote there the host may read when the stream has got past the kernel. MANAGED memory and what can be said
 * about it have a header of their own, leat/managed.h; docs/memory.md compares all ways.
 *
 * Memory comes from pools (leat/pool.h), one for each device and kind unless the program makes more. What is freed
 * stays in its pool for the next request; leat_pool_trim() gives it back to the device.
 *
 * Call order. leat_alloc() and leat_free() are stream-ordered: memory may be used by work given to
 * that stream after leat_alloc(), and goes back when the stream reaches leat_free(). Work on other
 * streams must be ordered by events (leat/stream.h); how a block is freed that several streams use is
 * said in leat/pool.h. leat_memory_alloc() and leat_memory_free() are ordered with the host instead.
 *
 *     leat_alloc(stream, bytes, &d);
 *     leat_copy(stream, d, host, bytes);
 *     leat_launch(stream, ...);
 *     leat_free(stream, d);              // runs after the launch; no need to wait here
 *
 * Threads. Any thread may call anything here; a pointer may be freed by another thread.
 */
#ifndef LEAT_MEMORY_H
#define LEAT_MEMORY_H

#include <leat/device.h>
#include <leat/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum leat_kind {
    LEAT_KIND_PAGEABLE = 0,
    LEAT_KIND_PINNED = 1,
    LEAT_KIND_DEVICE = 2,
    LEAT_KIND_MANAGED = 3
} leat_kind;

/* "pageable", "pinned", "device", "managed"; "unknown" for another number. */
LEAT_API const char *leat_kind_name(leat_kind kind);

/*
 * Device memory for work on stream from the default pool of its device, aligned to 512 bytes. The contents are
 * undefined (zeros with LEAT_SCRUB). A size that was freed before on that stream comes without a call of the
 * driver's. bytes 0 is fine: *ptr becomes NULL, which leat_free() accepts.
 * Errors: HANDLE, INVALID (ptr NULL; an environment variable of pools with a value that it cannot have),
 * DEVICE_MEMORY (the message says how much is free and who holds what), HOST_MEMORY, DRIVER, NOT_PERMITTED
 * (inside a host function).
 */
LEAT_API leat_status leat_alloc(leat_stream *stream, size_t bytes, void **ptr);

/*
 * Gives a block of any pool, or memory of leat_alloc_driver(), back once stream has reached this point: memory of
 * leat_alloc(), of leat_pool_alloc(), and of leat_memory_alloc(), whatever its kind. From the return of the call
 * on, no leat call accepts ptr any more. The stream may be another one than that of leat_alloc(), if its work is
 * ordered after all uses that leat_pool_use() was not told of. For pinned and managed memory it may be a stream of
 * another device of the same driver. NULL does nothing.
 * Errors: HANDLE, POINTER (not the start of an allocation, already freed, device memory of another device than the
 * stream's, or not leat's to free: registered, wrapped, imported), HOST_MEMORY, DRIVER (in both cases the memory
 * still belongs to the caller unless the message says otherwise), NOT_PERMITTED; in guard mode (leat/pool.h)
 * RANGE (something was written outside the block, which is still the caller's).
 */
LEAT_API leat_status leat_free(leat_stream *stream, void *ptr);

/*
 * Device memory for work on stream from the driver's own stream-ordered call (cuMemAllocAsync), or its plain one
 * where it has none, outside leat's pools: for comparison, and for memory that must not be kept. Aligned to 256
 * bytes or more. Goes back through leat_free(), which then is the driver's call too. On the CPU device each of
 * them takes two of the mappings that a process may have (vm.max_map_count, often 65530). Errors and bytes 0: as
 * leat_alloc().
 */
LEAT_API leat_status leat_alloc_driver(leat_stream *stream, size_t bytes, void **ptr);

/*
 * Memory of one kind from the device's default pool for it, ready for the host and for every stream when the call
 * returns: LEAT_KIND_DEVICE, LEAT_KIND_PINNED (usable by all devices of the same driver) or LEAT_KIND_MANAGED.
 * What streams have freed is taken only once their work is done. Aligned to 512 bytes, contents undefined (zeros
 * with LEAT_SCRUB). PAGEABLE is malloc's business: INVALID. bytes 0: *ptr becomes NULL. New pinned memory takes
 * long, since the system clears it and the driver locks it; what the pool has already is there at once.
 * Errors: HANDLE, INVALID (ptr NULL, kind; an environment variable of pools with a value that it cannot have),
 * DEVICE_MEMORY, HOST_MEMORY (for pinned memory also when the machine or a control group has too little, or the
 * limit for locked memory is reached), UNSUPPORTED (no managed memory), DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_memory_alloc(leat_device *device, leat_kind kind, size_t bytes, void **ptr);

/*
 * Gives a block of any pool, or memory of leat_alloc_driver() or leat_pool_import(), back at once: the next one
 * who asks may have it. The caller must know that all work that uses it is done; what leat_pool_use() told is
 * dropped. Blocks of pools go back without a wait; for other memory the vendor's driver may wait for the whole
 * device. NULL does nothing.
 * Errors: POINTER (not the start of an allocation, already freed, or not leat's to
 * free: registered, wrapped), HOST_MEMORY, DRIVER (the memory still belongs to the caller unless the message says
 * otherwise), NOT_PERMITTED; in guard mode RANGE (as leat_free).
 */
LEAT_API leat_status leat_memory_free(void *ptr);

/*
 * Pins host memory that the caller already has (malloc, mmap), so that copies to and from it are
 * asynchronous and run at link speed, on all devices of device's driver. Any start and size: the
 * pages that the range touches are locked. Its kind is PINNED until leat_unregister(), which must
 * come before the memory is freed or unmapped. Registering and undoing it cost about 50 us a MiB together (the
 * H200 record in bench/results), as long as copying that MiB two or three times, so it pays for memory that is
 * used again.
 * bytes 0 does nothing.
 * Errors: HANDLE, INVALID (NULL, or ptr + bytes overflows), POINTER (not mapped, read-only, device memory, or
 * memory that leat already pinned), REGISTERED (a part is registered already, by leat or by someone
 * else), HOST_MEMORY (limit for locked memory), UNSUPPORTED, DRIVER, NOT_PERMITTED.
 */
LEAT_API leat_status leat_register(leat_device *device, void *ptr, size_t bytes);

/* Undoes leat_register(); ptr is the start that was registered. The caller must know that no work
 * still uses the range. NULL does nothing.
 * Errors: POINTER (not a start that leat_register() was given), DRIVER, NOT_PERMITTED. */
LEAT_API leat_status leat_unregister(void *ptr);

/* What leat knows of an address. */
typedef struct leat_pointer_info {
    leat_kind kind;
    leat_device *device;  /* the device that has it; NULL for PAGEABLE and for devices not open */
    void *base;           /* start of its allocation; NULL for PAGEABLE */
    size_t bytes;         /* size of its allocation, leat's as asked for; 0 for PAGEABLE */
    void *device_pointer; /* what a kernel uses for this address; NULL for PAGEABLE */
    uint8_t owned;        /* 1: leat allocated it; 0: registered, wrapped or the user's own */
} leat_pointer_info;

/*
 * Looks an address up. Memory that the user's own CUDA calls allocated is found too once a device of
 * that driver is open. An address that nobody knows is PAGEABLE; whether anything is mapped there is
 * not checked here.
 * Errors: INVALID (ptr or info NULL), POINTER (inside the addresses of a pool or of a CPU device, but not
 * allocated: freed, or never was).
 */
LEAT_API leat_status leat_pointer_query(const void *ptr, leat_pointer_info *info);

#ifdef __cplusplus
}
#endif

#endif
