/*
 * driver.h - defines the driver table: the functions that leat needs to support a vendor.
 *
 * A driver is a struct leati_driver: a name, a table of operations, and private state (the driver's own struct has
 * a struct leati_driver as its first member). Handles (device, stream, event, module, kernel) are the driver's
 * own, passed as void *; the core never looks inside them. The _native and _adopt entries convert them to and from
 * the vendor's handles.
 *
 * Preconditions. The core guarantees them, so drivers do not check them again:
 * - handles are live, out pointers are not NULL, byte counts are not 0 unless said otherwise;
 * - ranges lie within one allocation, and source and destination do not overlap;
 * - no entry is called from inside a host function;
 * - several threads may call a driver's entries at once.
 *
 * Results. Entries return a leat_status. An entry that fails has called leati_fail() with the vendor's call, error
 * name and text ("cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"); the core prepends the API call and
 * its arguments. Out pointers are written only on success.
 *
 * The core calls entries that remove an object (free, destroy, unload, close, unmap, release) once for each
 * object, and treats the object as gone even if the entry fails, because vendors' calls for this also report
 * earlier asynchronous failures. mem_free, mem_free_async, host_free and host_unregister are the exception: if
 * they fail, the caller still owns the memory.
 *
 * Required entries are never NULL. Optional entries may be NULL; their comments say what the core does without
 * them.
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
    uintptr_t base; /* start of the allocation; 0 if unknown */
    size_t bytes;   /* size of the allocation; 0 if unknown */
    void *device_pointer;
};

/* A stream memory operation on a flag that a stream and the host share. */
struct leati_mem_op {
    _Atomic uint32_t *flag; /* in memory from this driver's host_alloc, or, for leat/stream.h, at a device pointer
                               of such memory, of host_register memory, or of memory of the stream's device */
    uint32_t value;
    bool wait; /* true: wait until the flag has reached value; false: write value */
};

/* See the entry capture_mode. */
#define LEATI_CAPTURE_RELAXED 2u

/* One side of a copy, for a driver. */
struct leati_location {
    void *ptr;
    leat_kind kind;
    void *device; /* the driver's handle of the device that owns LEAT_KIND_DEVICE memory; else NULL */
};

/* An open device's access right to mapped memory. */
struct leati_right {
    void *device;
    leat_access access;
};

struct leati_kernel_shape {
    int parameter_count; /* number of parameters; -1 if the driver does not know it */
    uint32_t max_block_threads;
};

struct leati_driver_ops {
    /*
     * Loads the vendor's library and fills driver->library, driver->version and driver->device_count. Called once,
     * under the registry's lock. NO_DRIVER or DRIVER_TOO_OLD mean "not usable on this machine", which is not an
     * error of the program: the registry keeps the message and continues without this driver. Required.
     */
    leat_status (*load)(struct leati_driver *driver);

    /* Describes a device, whether it is open or not. Fills all fields of info except name and driver. Required. */
    leat_status (*device_info)(struct leati_driver *driver, int ordinal, leat_device_info *info);

    /* Opens a device. native_context: NULL, or the user's own context, in which the device then works.
     * Required. */
    leat_status (*device_open)(struct leati_driver *driver, int ordinal, void *native_context, void **device);

    /* Closes a device. The core has removed all streams, events, modules and memory of the device before this
     * call. Required. */
    leat_status (*device_close)(struct leati_driver *driver, void *device);

    /* Waits for all work submitted to the device, including work of destroyed streams, and returns the work's
     * failure. Required. */
    leat_status (*device_synchronize)(struct leati_driver *driver, void *device);

    /* Returns the vendor's context handle. Required; never fails. */
    void *(*device_native)(struct leati_driver *driver, void *device);

    /* Returns the device's free and total memory in bytes. Required. */
    leat_status (*device_memory)(struct leati_driver *driver, void *device, uint64_t *free_bytes,
                                 uint64_t *total_bytes);

    /* Lets kernels and copies of device access memory of peer. Called once for each ordered pair. Also returns
     * LEAT_OK if the hardware has no such path, because copies then go through host memory. Optional: without it
     * the core does nothing. */
    leat_status (*peer_enable)(struct leati_driver *driver, void *device, void *peer);

    /* Returns an exported function of the vendor's library, or NULL. Optional: without it the call fails with
     * UNSUPPORTED. */
    void *(*symbol)(struct leati_driver *driver, const char *name);

    /* ---- memory ------------------------------------------------------------------------------ */

    /* Allocates device memory, at least 256-byte aligned, usable at return. Required. */
    leat_status (*mem_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);

    /* Frees memory of mem_alloc, mem_alloc_async or managed_alloc, not in stream order; may wait for the device.
     * Required. */
    leat_status (*mem_free)(struct leati_driver *driver, void *device, void *ptr);

    /* Allocate and free device memory in stream order. A driver has both or none. Optional: without them the core
     * calls mem_alloc to allocate, and stream_synchronize and mem_free to free. */
    leat_status (*mem_alloc_async)(struct leati_driver *driver, void *stream, size_t bytes, void **ptr);
    leat_status (*mem_free_async)(struct leati_driver *driver, void *stream, void *ptr);

    /* Allocate and free pinned host memory, which is mapped for all devices of the driver. Required. */
    leat_status (*host_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
    leat_status (*host_free)(struct leati_driver *driver, void *device, void *ptr);

    /* Pin and unpin the caller's memory, of any alignment, for all devices of the driver. REGISTERED means that
     * a part is already pinned. A driver has both or none. Optional: without them the call fails with
     * UNSUPPORTED. */
    leat_status (*host_register)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
    leat_status (*host_unregister)(struct leati_driver *driver, void *device, void *ptr);

    /* Returns the address that kernels use for pinned or registered memory at ptr. Optional: without it kernels
     * use ptr itself. */
    leat_status (*host_device_pointer)(struct leati_driver *driver, void *device, void *ptr,
                                       void **device_pointer);

    /* Allocates managed memory, which migrates between host and device. mem_free frees it. Optional: without it
     * the call fails with UNSUPPORTED. */
    leat_status (*managed_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);

    /* ---- managed memory: all entries are optional; without one, its API call is UNSUPPORTED ----- */

    /* Migrates pages, in stream order, to a device of the driver or, if to is NULL, to the host. */
    leat_status (*managed_prefetch)(struct leati_driver *driver, void *stream, void *ptr, size_t bytes, void *to);

    /* Gives advice about a range. device: any open device, in whose context the driver makes the call. where: the
     * device that the advice names; NULL if it names the host or nothing. */
    leat_status (*managed_advise)(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                  leat_advice advice, void *where);

    /* Fills info. The core has set info->size to the size of the whole struct, and all other fields to 0. */
    leat_status (*managed_query)(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                                 leat_managed_info *info);

    /* Attaches, in stream order, a whole allocation of managed memory, which managed_alloc or the user's own call
     * has made. */
    leat_status (*managed_attach)(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                  leat_attach attach);

    /* Start and end the record of leat_managed_record(), and read it. ptr NULL means all managed memory. A driver
     * has all three entries or none. */
    leat_status (*managed_record)(struct leati_driver *driver, void *device, bool on);
    leat_status (*managed_count)(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                                 leat_managed_stats *counts);
    leat_status (*managed_history)(struct leati_driver *driver, void *device, leat_managed_move *moves,
                                   size_t *count);

    /*
     * Describes an address that the core does not know: fills info and returns LEAT_OK, with kind PAGEABLE if the
     * driver does not know the address either. Returns POINTER if the address is certainly not usable, e.g.
     * because its memory was freed. May be called when no device is open. Optional: without it all unknown
     * addresses count as pageable.
     */
    leat_status (*pointer_query)(struct leati_driver *driver, const void *ptr, struct leati_pointer_info *info);

    /* ---- virtual memory: all entries or none; without them pools use mem_alloc ----------------- */

    /* Returns the granularity in bytes: sizes, addresses and offsets of the entries below are multiples of it. */
    leat_status (*vm_granularity)(struct leati_driver *driver, void *device, size_t *bytes);

    /* Reserves a range of addresses without memory. An access to the range faults. */
    leat_status (*vm_reserve)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
    leat_status (*vm_unreserve)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);

    /* Creates physical device memory. exportable: the core may call vm_export for it later. */
    leat_status (*vm_create)(struct leati_driver *driver, void *device, size_t bytes, bool exportable,
                             uint64_t *handle);

    /* Releases the handle; the memory stays until its last mapping is removed. */
    leat_status (*vm_release)(struct leati_driver *driver, void *device, uint64_t handle);

    /* Maps the first bytes bytes of a handle at ptr, inside a reserved range of any device of the driver. The
     * memory is not accessible until vm_set_access. Never waits for the device. */
    leat_status (*vm_map)(struct leati_driver *driver, void *device, void *ptr, size_t bytes, uint64_t handle);

    /* Gives read and write access to the device that owns the memory, and to the peers that may reach it. */
    leat_status (*vm_set_access)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);

    /* Sets the rights of each listed device to one whole mapping. The list has every device that ever got a right
     * to the mapping. Optional even if the other vm_ entries exist: without it the core can only set the rights of
     * vm_set_access, and other rights are UNSUPPORTED. */
    leat_status (*vm_set_rights)(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                 const struct leati_right *rights, unsigned count);
    leat_status (*vm_unmap)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);

    /* vm_export returns a file descriptor that another process can import; the caller must close it. vm_import
     * creates a handle from such a descriptor; bytes is the size with which the memory was created. */
    leat_status (*vm_export)(struct leati_driver *driver, void *device, uint64_t handle, int *fd);
    leat_status (*vm_import)(struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle);

    /* Like vm_export and vm_import, for a descriptor whose receiver can never write the memory. After
     * vm_export_read the memory cannot be exported for writing any more. A driver has both or none. Optional:
     * without them descriptors always carry full rights, and the core uses vm_export and vm_import. */
    leat_status (*vm_export_read)(struct leati_driver *driver, void *device, uint64_t handle, int *fd);
    leat_status (*vm_import_read)(struct leati_driver *driver, void *device, int fd, size_t bytes,
                                  uint64_t *handle);

    /* ---- copies ------------------------------------------------------------------------------ */

    /* Copies in stream order. The driver may access pageable memory at any time from the call until the stream has
     * completed the copy. For pageable memory the call may wait for the stream. Required. */
    leat_status (*copy)(struct leati_driver *driver, void *stream, struct leati_location dst,
                        struct leati_location src, size_t bytes);

    /*
     * Copies a region of rows in stream order; dst and src are its first bytes. The core guarantees: sizes are 1
     * or more; pitches are width_bytes or more; slices are height * pitch or more, and set if depth is above 1;
     * nothing overflows; rows of dst and src may interleave, but no byte is in both. Optional: without it the core
     * calls copy for each row.
     */
    leat_status (*copy_3d)(struct leati_driver *driver, void *stream, struct leati_location dst,
                           struct leati_location src, const leat_copy_region *region);

    /* Repeats the low pattern_bytes (1, 2 or 4) bytes of pattern count times at dst, which is aligned to
     * pattern_bytes and is device, managed or pinned memory. In stream order. Required. */
    leat_status (*fill)(struct leati_driver *driver, void *stream, void *dst, uint32_t pattern,
                        unsigned pattern_bytes, size_t count);

    /* ---- streams and events ------------------------------------------------------------------ */

    leat_status (*stream_create)(struct leati_driver *driver, void *device, void **stream);

    /* Destroys a stream without waiting; its queued work runs to its end. Required, like stream_create. */
    leat_status (*stream_destroy)(struct leati_driver *driver, void *stream);

    /* Wraps a vendor's stream that the user made (NULL: the vendor's default stream). Destroying the result does
     * not destroy the vendor's stream. Returns INVALID if native is certainly not a stream of device. Required. */
    leat_status (*stream_adopt)(struct leati_driver *driver, void *device, void *native, void **stream);

    /* Returns the vendor's stream. Required; never fails. */
    void *(*stream_native)(struct leati_driver *driver, void *stream);

    /* stream_query returns LEAT_OK if all work of the stream is complete, else LEAT_NOT_READY; stream_synchronize
     * waits for that work. Required. */
    leat_status (*stream_query)(struct leati_driver *driver, void *stream);
    leat_status (*stream_synchronize)(struct leati_driver *driver, void *stream);

    /* Returns the failure of an asynchronous copy that is complete, once, or LEAT_OK if no copy of the stream has
     * failed since the last call. Keeps the first failure only, and does not wait. A driver with this entry does
     * not return such failures from stream_synchronize, because leat also waits for streams on behalf of calls
     * that must not report them. Optional: without it the other entries return all failures of earlier work. */
    leat_status (*stream_take_failure)(struct leati_driver *driver, void *stream);

    /* Makes the stream wait for the event's latest record at the time of this call. Required. */
    leat_status (*stream_wait)(struct leati_driver *driver, void *stream, void *event);

    /*
     * Submits count (at most 4) stream memory operations, which the stream executes in order. A wait makes the
     * stream wait until the flag has reached value, that is (int32_t)(*flag - value) >= 0; later copies of the
     * stream then see what the host wrote before it wrote the flag. A write stores value in the flag when all
     * earlier work of the stream is complete and visible to the host. Returns UNSUPPORTED if this driver version
     * or device has no such operations. Optional: without it copies of pageable memory are not staged and use the
     * entry copy.
     */
    leat_status (*stream_mem_ops)(struct leati_driver *driver, void *stream, const struct leati_mem_op *values,
                                  unsigned count);

    /* Stores the time of leati_clock_ns() in *ns when the stream gets there: the end of all work before. *ns must
     * stay valid until then. Optional: without it the recorder of traces uses events, and measures how the
     * device's clock relates to leat's. */
    leat_status (*stream_stamp)(struct leati_driver *driver, void *stream, _Atomic uint64_t *ns);

    /*
     * Sets which calls of this thread end the captures of streams into graphs that are under way, and returns the
     * setting before in *mode. LEATI_CAPTURE_RELAXED: none. The values are those of the vendor's capture modes.
     * Optional: without it no call of this driver ends a capture.
     */
    leat_status (*capture_mode)(struct leati_driver *driver, unsigned *mode);

    /* Calls function(argument) once, in stream order. If the device is lost, the call may never happen.
     * Required. */
    leat_status (*launch_host)(struct leati_driver *driver, void *stream, void (*function)(void *),
                               void *argument);

    /* Creates an event with timing. This and all event entries are required. */
    leat_status (*event_create)(struct leati_driver *driver, void *device, void **event);
    leat_status (*event_destroy)(struct leati_driver *driver, void *event);

    /* Like stream_adopt and stream_native, for events. Required. */
    leat_status (*event_adopt)(struct leati_driver *driver, void *device, void *native, void **event);
    void *(*event_native)(struct leati_driver *driver, void *event);

    /* Records the event in the stream, which belongs to the same device. Required. */
    leat_status (*event_record)(struct leati_driver *driver, void *event, void *stream);
    leat_status (*event_query)(struct leati_driver *driver, void *event);
    leat_status (*event_synchronize)(struct leati_driver *driver, void *event);

    /* Returns the time between two events; NOT_READY if one of them is not complete. */
    leat_status (*event_elapsed)(struct leati_driver *driver, void *start, void *end, double *milliseconds);

    /* ---- kernels ----------------------------------------------------------------------------- */

    /* Loads a kernel image that is in a format of this driver. If it is PTX, it is NUL-terminated. Required. */
    leat_status (*module_load)(struct leati_driver *driver, void *device, const void *image, size_t bytes,
                               void **module);

    /* Loads one of the modules of leat's built-in kernels (kernels/modules.h). Required. */
    leat_status (*module_builtin)(struct leati_driver *driver, void *device, enum leati_builtin which,
                                  void **module);

    /* Makes a module of kernels that are compiled into the program. The array is valid only during the call, but
     * the names and the code stay valid. Optional: without it the call fails with UNSUPPORTED. */
    leat_status (*module_embedded)(struct leati_driver *driver, void *device, const leat_embedded_kernel *kernels,
                                   size_t count, void **module);
    leat_status (*module_unload)(struct leati_driver *driver, void *device, void *module);
    leat_status (*kernel_get)(struct leati_driver *driver, void *device, void *module, const char *name,
                              void **kernel, struct leati_kernel_shape *shape);

    /* Returns the size of parameter number index, which the kernel has. Optional: without it the call fails with
     * UNSUPPORTED. */
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
     * mode: the program must not access device memory then, but the memory is still in the process's address
     * space. */
    bool host_reaches_device;

    /* Kernels run on this machine's processors, so leat launches few blocks, of one thread each. */
    bool host_kernels;

    /* Copies are made by DMA engines, which move the rows of a narrow region one by one. */
    bool dma_engines;

    /* The vendor's stream handle that stands for a different stream in each thread. NULL: the vendor has none. */
    void *per_thread_stream;

    /* Says when one kernel for many small copies is faster than single copies. */
    struct {
        unsigned fewest_ranges; /* leat copies fewer ranges one by one */
        size_t largest_bytes;   /* leat copies a larger range alone */
    } batch;
};

/* A driver. The registry owns it; it lives as long as the process. */
struct leati_driver {
    const char *name; /* "cuda"; for messages and for finding devices by name, never for decisions */
    const struct leati_driver_ops *ops;
    const struct leati_capabilities *can;

    /* ops->load fills the fields below. */
    char library[256]; /* path of the loaded library; "" if none */
    char version[64];
    int device_count;
};

/* Return the drivers, for the registry; never NULL. */
struct leati_driver *leati_cpu_driver(void);
struct leati_driver *leati_cuda_driver(void);
struct leati_driver *leati_hip_driver(void);

#endif
