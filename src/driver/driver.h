/*
 * driver.h - the driver table: all that must be written to support a vendor.
 *
 * A driver is a struct leati_driver: a name, a table of operations, and private state (the driver's own struct
 * embeds this one as its first member). Handles (device, stream, event, module, kernel) are the driver's own,
 * passed as void *; the core never looks inside them. The _native and _adopt entries convert them to and from the
 * vendor's handles.
 *
 * Preconditions. The core guarantees them, so drivers do not check them again:
 * - handles are live, out pointers are not NULL, byte counts are not 0 unless said otherwise;
 * - ranges lie within one allocation, and source and destination do not overlap;
 * - no entry is called from inside a host function;
 * - a driver's entries may be called from several threads at once.
 *
 * Results. Entries return a leat_status. An entry that fails has called leati_fail() with the vendor's call, error
 * name and text ("cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"); the core prepends what the user asked
 * for. Out pointers are written only on success.
 *
 * The core calls entries that remove an object (free, destroy, unload, close, unmap, release) once for each
 * object, and treats the object as gone even if they fail, because vendors report earlier asynchronous failures
 * from such calls. mem_free, mem_free_async, host_free and host_unregister are the exception: if they fail, the
 * caller still owns the memory.
 *
 * Required entries are never NULL. Optional ones may be NULL; the comment says what the core does then.
 */
#ifndef LEATI_DRIVER_H
#define LEATI_DRIVER_H

#include "kernels/modules.h"

#include <leat/copy.h>
#include <leat/device.h>
#include <leat/kernel.h>
#include <leat/managed.h>
#include <leat/memory.h>
#include <leat/virtual.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leati_driver;

/* A driver's answer about an address that the core does not know. */
struct leati_pointer_info {
    leat_kind kind;
    void *device;   /* the driver's handle for an open device, or NULL */
    uintptr_t base; /* of the allocation; 0 if unknown */
    size_t bytes;   /* of the allocation; 0 if unknown */
    void *device_pointer;
};

/* A stream memory operation on a flag that a stream and the host share. */
struct leati_mem_op {
    _Atomic uint32_t *flag; /* in memory of host_alloc or host_register of this driver */
    uint32_t value;
    bool wait; /* true: wait for value; false: write it */
};

/* One side of a copy, for a driver. */
struct leati_location {
    void *ptr;
    leat_kind kind;
    void *device; /* for LEAT_KIND_DEVICE the driver's handle of the device that owns the memory; else NULL */
};

/* An open device's access right to mapped memory. */
struct leati_right {
    void *device;
    leat_access access;
};

struct leati_kernel_shape {
    int parameter_count; /* -1 if the driver does not know */
    uint32_t max_block_threads;
};

struct leati_driver_ops {
    /*
     * Loads the vendor's library and fills driver->library, driver->version and driver->device_count. Called once,
     * under the registry's lock. NO_DRIVER or DRIVER_TOO_OLD mean "not usable on this machine", which is not an
     * error of the program: the registry keeps the message and continues without this driver. Required.
     */
    leat_status (*load)(struct leati_driver *driver);

    /* Describes a device, open or not. Fills all of info but name and driver. Required. */
    leat_status (*device_info)(struct leati_driver *driver, int ordinal, leat_device_info *info);

    /* native_context: NULL, or a context of the user's to work in. Required. */
    leat_status (*device_open)(struct leati_driver *driver, int ordinal, void *native_context, void **device);

    /* The core has removed all streams, events, modules and memory of the device before. Required. */
    leat_status (*device_close)(struct leati_driver *driver, void *device);

    /* Waits for all work submitted to the device, also to destroyed streams, and returns its failure. Required. */
    leat_status (*device_synchronize)(struct leati_driver *driver, void *device);

    /* The vendor's context handle. Required; never fails. */
    void *(*device_native)(struct leati_driver *driver, void *device);

    /* Free and total memory in bytes. Required. */
    leat_status (*device_memory)(struct leati_driver *driver, void *device, uint64_t *free_bytes,
                                 uint64_t *total_bytes);

    /* Lets kernels and copies of device access memory of peer. Called once for each ordered pair. Returns LEAT_OK
     * too if the hardware has no such path, since copies then go through host memory. Optional: the core does
     * nothing. */
    leat_status (*peer_enable)(struct leati_driver *driver, void *device, void *peer);

    /* An exported function of the vendor's library, or NULL. Optional: UNSUPPORTED. */
    void *(*symbol)(struct leati_driver *driver, const char *name);

    /* ---- memory ------------------------------------------------------------------------------ */

    /* Allocates device memory, at least 256-byte aligned, usable at return. Required. */
    leat_status (*mem_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);

    /* Frees memory of mem_alloc, mem_alloc_async or managed_alloc at once; may wait for the device. Required. */
    leat_status (*mem_free)(struct leati_driver *driver, void *device, void *ptr);

    /* Allocate and free device memory in stream order. Both or none. Optional: the core calls mem_alloc;
     * stream_synchronize and then mem_free. */
    leat_status (*mem_alloc_async)(struct leati_driver *driver, void *stream, size_t bytes, void **ptr);
    leat_status (*mem_free_async)(struct leati_driver *driver, void *stream, void *ptr);

    /* Pinned host memory, mapped for all devices of the driver. Required. */
    leat_status (*host_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
    leat_status (*host_free)(struct leati_driver *driver, void *device, void *ptr);

    /* Pin and unpin the caller's memory, of any alignment, for all devices of the driver. REGISTERED: a part is
     * pinned already. Both or none. Optional: UNSUPPORTED. */
    leat_status (*host_register)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
    leat_status (*host_unregister)(struct leati_driver *driver, void *device, void *ptr);

    /* The address that kernels use for pinned or registered memory at ptr. Optional: the same address. */
    leat_status (*host_device_pointer)(struct leati_driver *driver, void *device, void *ptr,
                                       void **device_pointer);

    /* Allocates managed memory, which migrates between host and device. mem_free frees it. Optional: UNSUPPORTED.
     */
    leat_status (*managed_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);

    /* ---- managed memory: each optional, and without it the call that needs it is UNSUPPORTED ----- */

    /* Migrates pages to a device of the driver, or to the host (to is NULL), in stream order. */
    leat_status (*managed_prefetch)(struct leati_driver *driver, void *stream, void *ptr, size_t bytes, void *to);

    /* device: any open device, for the context of the call. where: the device of the advice; NULL for the host, or
     * if the advice has none. */
    leat_status (*managed_advise)(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                  leat_advice advice, void *where);

    /* Fills info. The core has set info->size to the size of the whole struct, and zeroed the rest. */
    leat_status (*managed_query)(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                                 leat_managed_info *info);

    /* Attaches a whole allocation of managed_alloc, or of the user's own. In stream order. */
    leat_status (*managed_attach)(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                  leat_attach attach);

    /* The record of leat_managed_record(). ptr NULL: all managed memory. All three or none. */
    leat_status (*managed_record)(struct leati_driver *driver, void *device, bool on);
    leat_status (*managed_count)(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                                 leat_managed_stats *counts);
    leat_status (*managed_history)(struct leati_driver *driver, void *device, leat_managed_move *moves,
                                   size_t *count);

    /*
     * Describes an address that the core does not know: fills info and returns LEAT_OK, with kind PAGEABLE if the
     * driver does not know the address either. POINTER: the address is certainly not usable (freed). May be called
     * when no device is open. Optional: all unknown addresses are pageable.
     */
    leat_status (*pointer_query)(struct leati_driver *driver, const void *ptr, struct leati_pointer_info *info);

    /* ---- virtual memory: all or none. Optional: pools use mem_alloc ---------------------------- */

    /* Sizes, addresses and offsets below are multiples of this many bytes. */
    leat_status (*vm_granularity)(struct leati_driver *driver, void *device, size_t *bytes);

    /* Reserves a range of addresses without memory; accessing it faults. */
    leat_status (*vm_reserve)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
    leat_status (*vm_unreserve)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);

    /* Creates physical device memory. exportable: vm_export may be called for it later. */
    leat_status (*vm_create)(struct leati_driver *driver, void *device, size_t bytes, bool exportable,
                             uint64_t *handle);

    /* Releases the handle; the memory stays until its last mapping is removed. */
    leat_status (*vm_release)(struct leati_driver *driver, void *device, uint64_t handle);

    /* Maps the first bytes bytes of a handle at ptr, inside a reserved range of any device of the driver. The
     * memory is not accessible before vm_set_access. Never waits for the device. */
    leat_status (*vm_map)(struct leati_driver *driver, void *device, void *ptr, size_t bytes, uint64_t handle);

    /* Gives read and write access to the device that owns the memory, and to the peers that may reach it. */
    leat_status (*vm_set_access)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);

    /* Sets the rights of each listed device to one whole mapping. The list has every device that ever got a right
     * to it. Optional even if the other vm_ entries exist: then any rights but those of vm_set_access are
     * UNSUPPORTED. */
    leat_status (*vm_set_rights)(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                 const struct leati_right *rights, unsigned count);
    leat_status (*vm_unmap)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);

    /* export: returns a file descriptor that another process can import; the caller must close it. import: bytes
     * is the size that the memory was created with. */
    leat_status (*vm_export)(struct leati_driver *driver, void *device, uint64_t handle, int *fd);
    leat_status (*vm_import)(struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle);

    /* ---- copies ------------------------------------------------------------------------------ */

    /* Copies in stream order. The driver may access pageable memory at any time from the call until the stream has
     * completed the copy. For pageable memory the call may wait for the stream. Required. */
    leat_status (*copy)(struct leati_driver *driver, void *stream, struct leati_location dst,
                        struct leati_location src, size_t bytes);

    /*
     * The same for a region of rows; dst and src are its first bytes. The core guarantees: sizes are 1 or more;
     * pitches are width_bytes or more; slices are height * pitch or more, and set if depth is above 1; nothing
     * overflows; rows of the two sides may interleave, but no byte is in both. Optional: the core calls copy for
     * each row.
     */
    leat_status (*copy_3d)(struct leati_driver *driver, void *stream, struct leati_location dst,
                           struct leati_location src, const leat_copy_region *region);

    /* Repeats the low pattern_bytes (1, 2 or 4) bytes of pattern count times at dst, which is aligned to
     * pattern_bytes and is device, managed or pinned memory. In stream order. Required. */
    leat_status (*fill)(struct leati_driver *driver, void *stream, void *dst, uint32_t pattern,
                        unsigned pattern_bytes, size_t count);

    /* ---- streams and events ------------------------------------------------------------------ */

    leat_status (*stream_create)(struct leati_driver *driver, void *device, void **stream);

    /* Does not wait; queued work runs to its end. */
    leat_status (*stream_destroy)(struct leati_driver *driver, void *stream);

    /* Wraps a vendor's stream that the user made (NULL: the vendor's default stream). Destroying the result does
     * not destroy the vendor's stream. INVALID: native is certainly not a stream of device. Required. */
    leat_status (*stream_adopt)(struct leati_driver *driver, void *device, void *native, void **stream);

    /* The vendor's stream. Required; never fails. */
    void *(*stream_native)(struct leati_driver *driver, void *stream);

    /* LEAT_OK or LEAT_NOT_READY. Required. */
    leat_status (*stream_query)(struct leati_driver *driver, void *stream);
    leat_status (*stream_synchronize)(struct leati_driver *driver, void *stream);

    /* Makes the stream wait for the event's latest record at the time of this call. Required. */
    leat_status (*stream_wait)(struct leati_driver *driver, void *stream, void *event);

    /*
     * Submits stream memory operations, which the stream executes in order. wait: the stream waits until the flag
     * has reached value, (int32_t)(*flag - value) >= 0; later copies of the stream then see what the host wrote
     * before it wrote the flag. write: the stream writes value to the flag when all its earlier work is complete
     * and visible to the host. UNSUPPORTED: this driver version or device cannot do it. count is at most 4.
     * Optional: pageable copies use copy only.
     */
    leat_status (*stream_mem_ops)(struct leati_driver *driver, void *stream, const struct leati_mem_op *values,
                                  unsigned count);

    /* Calls function(argument) once, in stream order; if the device is lost, perhaps never. Required. */
    leat_status (*launch_host)(struct leati_driver *driver, void *stream, void (*function)(void *),
                               void *argument);

    /* Creates an event with timing. This and all event entries are required. */
    leat_status (*event_create)(struct leati_driver *driver, void *device, void **event);
    leat_status (*event_destroy)(struct leati_driver *driver, void *event);

    /* As stream_adopt and stream_native, for events. Required. */
    leat_status (*event_adopt)(struct leati_driver *driver, void *device, void *native, void **event);
    void *(*event_native)(struct leati_driver *driver, void *event);

    /* event and stream are of the same device. Required. */
    leat_status (*event_record)(struct leati_driver *driver, void *event, void *stream);
    leat_status (*event_query)(struct leati_driver *driver, void *event);
    leat_status (*event_synchronize)(struct leati_driver *driver, void *event);

    /* NOT_READY: one of the events is not complete. */
    leat_status (*event_elapsed)(struct leati_driver *driver, void *start, void *end, double *milliseconds);

    /* ---- kernels ----------------------------------------------------------------------------- */

    /* Loads an image for this driver. PTX is NUL-terminated. Required. */
    leat_status (*module_load)(struct leati_driver *driver, void *device, const void *image, size_t bytes,
                               void **module);

    /* Loads one of the modules of leat's built-in kernels (kernels/modules.h). Required. */
    leat_status (*module_builtin)(struct leati_driver *driver, void *device, enum leati_builtin which,
                                  void **module);

    /* Makes a module of kernels that are compiled into the program. The list is used only during the call; names
     * and kernels stay valid. Optional: UNSUPPORTED. */
    leat_status (*module_embedded)(struct leati_driver *driver, void *device, const leat_embedded_kernel *kernels,
                                   size_t count, void **module);
    leat_status (*module_unload)(struct leati_driver *driver, void *device, void *module);
    leat_status (*kernel_get)(struct leati_driver *driver, void *device, void *module, const char *name,
                              void **kernel, struct leati_kernel_shape *shape);

    /* The size of parameter number index; the kernel has that parameter. Optional: UNSUPPORTED. */
    leat_status (*kernel_parameter)(struct leati_driver *driver, void *device, void *kernel, unsigned index,
                                    size_t *bytes);
    leat_status (*launch)(struct leati_driver *driver, void *stream, void *kernel, leat_dim3 grid, leat_dim3 block,
                          size_t shared_bytes, void *const *args, unsigned argument_count);
};

/* What a driver can do, and when it is fast. The layers above decide by these fields, never by a driver's name. */
struct leati_capabilities {
    /* Streams and kernels access any host memory directly, so a copy of pageable memory needs no staging. */
    bool reaches_pageable;

    /* Host threads can access device memory with plain loads and stores. Also true in the CPU device's strict
     * mode, which forbids it to the program: the memory is still in the process's address space. */
    bool host_reaches_device;

    /* Kernels run on this machine's processors: launch few blocks, of one thread each. */
    bool host_kernels;

    /* Copies are made by DMA engines, which move the rows of a narrow region one by one. */
    bool dma_engines;

    /* The vendor's stream handle that stands for a different stream in each thread. NULL: the vendor has none. */
    void *per_thread_stream;

    /* When one kernel for many small copies is faster than single copies. */
    struct {
        unsigned fewest_ranges; /* fewer ranges are copied one by one */
        size_t largest_bytes;   /* a larger range is copied alone */
    } batch;
};

/* A driver. The registry owns it; it lives as long as the process. */
struct leati_driver {
    const char *name; /* "cuda"; for messages and for finding devices by name, never for decisions */
    const struct leati_driver_ops *ops;
    const struct leati_capabilities *can;

    /* Filled by ops->load. */
    char library[256]; /* "" if no library is loaded */
    char version[64];
    int device_count;
};

/* The drivers, for the registry. Never NULL. */
struct leati_driver *leati_cpu_driver(void);
struct leati_driver *leati_cuda_driver(void);
struct leati_driver *leati_hip_driver(void);

#endif
