/*
 * leat/memory.h - allocates, frees, registers and looks up memory of each kind.
 *
 * Model. The kind of memory says who can access it and how fast the link carries it:
 *
 *     kind       lives in          host reads it   kernels read it   copies
 *     DEVICE     device memory     no              yes               at the speed of the link
 *     PINNED     host memory       yes             yes, over link    asynchronous, link speed
 *     MANAGED    moves             yes             yes               depends on where its pages are
 *     PAGEABLE   host memory       yes             no                see leat/copy.h
 *
 * All memory that neither leat nor the vendor's driver knows is PAGEABLE: malloc, the stack, file mappings. leat
 * finds the kind from the pointer. Pointers into the middle of an allocation are allowed everywhere except in
 * calls that free memory.
 *
 * Zero copy. A kernel may read and write PINNED memory, including registered memory, in place, at the address that
 * leat_pointer_get_info() returns as device_pointer. Each access of the kernel then goes over the link, and only
 * the accessed bytes move. This is best for data that is read once and sparsely, and for data that host and device
 * exchange. The host may read what a kernel wrote there when the stream has completed the kernel. leat/managed.h
 * describes MANAGED memory and the advice about it; docs/memory.md compares the methods.
 *
 * Memory comes from pools (leat/pool.h), one for each device and kind unless the program creates more. Freed
 * memory stays in its pool for the next request; leat_pool_trim() returns it to the device.
 *
 * Allocate with, free with. Calls in parentheses are not leat's.
 *
 *     memory                                  allocate with                  free with
 *     device, of the default pool             leat_alloc()                   leat_free() or leat_memory_free()
 *     device, pinned or managed, of the       leat_memory_alloc()            leat_free() or leat_memory_free()
 *     default pool of that kind
 *     of a pool of the program's own: any     leat_pool_alloc(),             leat_free() or leat_memory_free()
 *     kind, dedicated, exportable, planned    leat_pool_alloc_aligned()
 *     device, from the driver                 leat_alloc_driver()            leat_free() or leat_memory_free()
 *     imported from another process           leat_block_import()            leat_memory_free()
 *     shared by another process               leat_share_receive()           leat_share_destroy()
 *     pageable                                (malloc, mmap)                 (free, munmap)
 *     pageable, pinned where it is            leat_register()                leat_unregister(), (free, munmap)
 *     the vendor's own, known to leat         leat_pointer_wrap()            leat_pointer_unwrap(), (cudaFree)
 *     reserved addresses                      leat_virtual_reserve()         leat_virtual_unreserve()
 *     physical memory                         leat_physical_create(),        leat_physical_release(), one for each
 *                                             _import(), _retain()           of these calls
 *     physical memory at reserved addresses   leat_virtual_map()             leat_virtual_unmap()
 *
 * leat_free() takes effect when its stream reaches it. leat_memory_free() takes effect at once, so all work that
 * uses the memory must be complete. If one of these calls cannot free some memory, it returns LEAT_ERROR_POINTER,
 * and the message names the right call. Closing a device (leat_device_close()) frees all memory that leat has
 * allocated there.
 *
 * Call order. leat_alloc() and leat_free() are stream-ordered: work submitted to that stream after leat_alloc()
 * may use the memory, and the memory is free again when the stream reaches leat_free(). Work on other streams must
 * be ordered by events (leat/stream.h); leat/pool.h says how to free a block that several streams use.
 * leat_memory_alloc() and leat_memory_free() are ordered with the host instead.
 *
 *     leat_alloc(stream, bytes, &d);
 *     leat_copy(stream, d, host, bytes);
 *     leat_launch(stream, ...);
 *     leat_free(stream, d);              // takes effect after the launch; no need to wait here
 *
 * Threads. Any thread may make any call here, and may free memory that another thread allocated.
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

/* Returns the name of a kind: "pageable", "pinned", "device" or "managed"; "unknown" for another number. */
LEAT_API const char *leat_kind_name(leat_kind kind);

/*
 * Allocates device memory for work on stream from the default pool of its device, aligned to 512 bytes. The
 * contents are undefined (zeros with LEAT_SCRUB). An allocation of a size that was freed before on that stream
 * needs no driver call. bytes 0: *ptr becomes NULL, which leat_free() accepts.
 * Errors: HANDLE, INVALID (ptr NULL; an invalid environment variable of pools), DEVICE_MEMORY (the message says
 * how much memory is free and who holds the rest), HOST_MEMORY, DRIVER, NOT_PERMITTED (inside a host function).
 */
LEAT_NODISCARD LEAT_API leat_status leat_alloc(leat_stream *stream, size_t bytes, void **ptr);

/*
 * Frees memory when stream reaches this point: a block of any pool, of any kind (leat_alloc(), leat_pool_alloc(),
 * leat_memory_alloc()), or memory of leat_alloc_driver(). After the call returns, no leat call accepts ptr any
 * more. stream may differ from the stream of leat_alloc(), if it is ordered after all uses of the memory that were
 * not reported by leat_block_use(). For pinned and managed memory of a pool it may be a stream of another device
 * of the same driver. NULL does nothing.
 * Errors: HANDLE, POINTER (not the start of an allocation; already freed; device memory of another device than the
 * stream's; or memory that leat_free() does not free: registered, wrapped, imported), HOST_MEMORY, DRIVER (after
 * either, the caller still owns the memory unless the message says otherwise), NOT_PERMITTED; in guard mode
 * (leat/pool.h) RANGE (the program wrote outside the block; the caller still owns it).
 */
LEAT_API leat_status leat_free(leat_stream *stream, void *ptr);

/*
 * Allocates device memory for work on stream from the driver instead of a pool: with the driver's stream-ordered
 * call (cuMemAllocAsync), or with its ordinary call if it has none in stream order. This is for comparisons, and
 * for memory that no pool may keep after its free. The memory is aligned to 256 bytes or more. Free it with
 * leat_free(), which then is a driver call too. On the CPU device each allocation takes two of the mappings that a
 * process may have (vm.max_map_count, often 65530). bytes 0: *ptr becomes NULL.
 * Errors: as leat_alloc().
 */
LEAT_NODISCARD LEAT_API leat_status leat_alloc_driver(leat_stream *stream, size_t bytes, void **ptr);

/*
 * Allocates memory of one kind from the device's default pool for that kind. The memory is ready for the host and
 * for every stream when the call returns. kind: LEAT_KIND_DEVICE, LEAT_KIND_PINNED (usable by all devices of the
 * same driver) or LEAT_KIND_MANAGED; for PAGEABLE memory use malloc(). Memory that streams have freed is reused
 * only once their work is complete. Aligned to 512 bytes, contents undefined (zeros with LEAT_SCRUB). bytes 0:
 * *ptr becomes NULL. New pinned memory takes long, because the system clears it and the driver locks it; memory
 * that the pool already holds is available at once.
 * Errors: HANDLE, INVALID (ptr NULL; kind; an invalid environment variable of pools), DEVICE_MEMORY, HOST_MEMORY
 * (for pinned memory also when the machine or a control group has too little, or the limit for locked memory is
 * reached), UNSUPPORTED (no managed memory), DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_memory_alloc(leat_device *device, leat_kind kind, size_t bytes,
                                                      void **ptr);

/*
 * Frees a block of any pool, or memory of leat_alloc_driver() or leat_block_import(), at once: the next allocation
 * may reuse it. The caller must ensure that all work that uses the memory is complete; uses reported by
 * leat_block_use() are ignored. Freeing a block of a pool does not wait; for other memory the vendor's driver may
 * wait for the whole device. NULL does nothing.
 * Errors: POINTER (not the start of an allocation; already freed; or memory that this call does not free:
 * registered, wrapped), HOST_MEMORY, DRIVER (the caller still owns the memory unless the message says otherwise),
 * NOT_PERMITTED; in guard mode RANGE (as leat_free()).
 */
LEAT_API leat_status leat_memory_free(void *ptr);

/*
 * Pins host memory that the caller already has (malloc, mmap). Copies to and from it are then asynchronous and run
 * at link speed, on all devices of device's driver. The range may have any start and size: the pages that it
 * touches are locked. The memory is PINNED until leat_unregister(), which must be called before the memory is
 * freed or unmapped. leat_register() and leat_unregister() together cost about 50 us per MiB (the H200 record in
 * bench/results), as long as copying that MiB two or three times, so registering pays for memory that is used
 * repeatedly. bytes 0 does nothing.
 * Errors: HANDLE, INVALID (NULL, or ptr + bytes overflows), POINTER (not mapped, read-only, device memory, or
 * memory that leat already pinned), REGISTERED (a part is registered already, by leat or by other code),
 * HOST_MEMORY (limit for locked memory), UNSUPPORTED, DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_register(leat_device *device, void *ptr, size_t bytes);

/*
 * Undoes leat_register(); ptr is the start that was registered. The caller must ensure that no work still uses the
 * range. NULL does nothing.
 * Errors: POINTER (not a start that was passed to leat_register()), DRIVER (the range is still registered),
 * NOT_PERMITTED.
 */
LEAT_API leat_status leat_unregister(void *ptr);

/* Properties of an address. */
typedef struct leat_pointer_info {
    size_t size; /* sizeof(leat_pointer_info): leat/base.h */
    leat_kind kind;
    leat_device *device;  /* the device that owns it; NULL for PAGEABLE and for devices not open */
    void *base;           /* start of its allocation; NULL for PAGEABLE */
    size_t bytes;         /* size of its allocation (the requested size, if leat made it); 0 for PAGEABLE */
    void *device_pointer; /* address for kernels; NULL for PAGEABLE */
    uint8_t owned;        /* 1: leat allocated or imported it; 0: registered, wrapped or the user's own */
} leat_pointer_info;
#define LEAT_POINTER_INFO_INIT LEAT_SIZED_INIT_(leat_pointer_info)

/*
 * Looks up an address. Once a device of a driver is open, this also finds memory that the user's own CUDA or HIP
 * calls allocated. An unknown address is PAGEABLE; the call does not check whether anything is mapped there.
 * Errors: INVALID (ptr or info NULL, or info's size), POINTER (inside the addresses of a pool or of a CPU device,
 * but not allocated at this time), DRIVER.
 */
LEAT_NODISCARD LEAT_API leat_status leat_pointer_get_info(const void *ptr, leat_pointer_info *info);

#ifdef __cplusplus
}
#endif

#endif
