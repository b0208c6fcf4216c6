/*
 * driver.h - the driver table: the one thing that a vendor must supply.
 *
 * A driver is a struct leati_driver: a name, a table of operations, and whatever state the driver puts behind it
 * (it embeds this struct as its first member). Handles (device, stream, event, module, kernel) are the driver's
 * own, passed as void *; the core never looks inside them. The vendor's own handles go in and out through the
 * _native and _adopt entries.
 *
 * Preconditions that the core keeps, so that no driver checks them again:
 * - handles are live, out pointers are not NULL, byte counts are not 0 unless said otherwise;
 * - ranges lie within one allocation, and source and destination do not overlap;
 * - no entry is called from inside a host function;
 * - a driver's entries may be called from several threads at once.
 *
 * Results. Entries return a leat_status. The entry that fails has called leati_fail() with the vendor's own
 * call, name and text ("cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"); the core puts in front
 * what was asked. Out pointers are written only on success.
 *
 * Entries that take something away (free, destroy, unload, close, unmap, release) are called once for each
 * thing, and the core takes it as gone even when they fail: a vendor reports earlier failures from them.
 * mem_free, mem_free_async, host_free and host_unregister are the exception: when they fail, the memory is still
 * there and still the caller's.
 *
 * Required entries are always there. Optional ones may be NULL; the comment says what the core does then.
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

/* What a driver says of an address that the core does not know. */
struct leati_pointer_info {
    leat_kind kind;
    void *device;   /* the driver's handle for an open device, or NULL */
    uintptr_t base; /* 0 where unknown */
    size_t bytes;   /* 0 where unknown */
    void *device_pointer;
};

/* A stream memory operation on a flag that a stream and the host share. */
struct leati_mem_op {
    _Atomic uint32_t *flag; /* in memory of host_alloc or host_register of this driver */
    uint32_t value;
    bool wait; /* else write */
};

/* Where one side of a copy is, for a driver. */
struct leati_location {
    void *ptr;
    leat_kind kind;
    void *device; /* for LEAT_KIND_DEVICE the driver's device that has it; else NULL */
};

/* What an open device may do with mapped memory. */
struct leati_right {
    void *device;
    leat_access access;
};

struct leati_kernel_shape {
    int parameter_count; /* -1 where the driver does not know */
    uint32_t max_block_threads;
};

struct leati_driver_ops {
    /*
     * Loads what the driver needs and fills driver->library, driver->version and driver->device_count. Called
     * once, under the registry's lock. NO_DRIVER or DRIVER_TOO_OLD mean "not on this machine", which is no fault:
     * the registry keeps the message and goes on without this driver. Required.
     */
    leat_status (*load)(struct leati_driver *driver);

    /* Describes a device that need not be open. Fills all of info but name and driver. Required. */
    leat_status (*device_info)(struct leati_driver *driver, int ordinal, leat_device_info *info);

    /* native_context: NULL, or a context of the user's own to work in. Required. */
    leat_status (*device_open)(struct leati_driver *driver, int ordinal, void *native_context, void **device);

    /* All streams, events, modules and memory of the device are gone before. Required. */
    leat_status (*device_close)(struct leati_driver *driver, void *device);

    /* Waits for all work given to the device, that of destroyed streams too, and returns its failure. Required. */
    leat_status (*device_synchronize)(struct leati_driver *driver, void *device);

    /* The vendor's context handle. Required; never fails. */
    void *(*device_native)(struct leati_driver *driver, void *device);

    /* Free and total memory in bytes. Required. */
    leat_status (*device_memory)(struct leati_driver *driver, void *device, uint64_t *free_bytes,
                                 uint64_t *total_bytes);

    /* Lets kernels and copies of device reach memory of peer. Called once for each ordered pair; no fault
     * (LEAT_OK) when the hardware has no such path, since copies then go through host memory. Optional: peers are
     * left alone. */
    leat_status (*peer_enable)(struct leati_driver *driver, void *device, void *peer);

    /* An exported function of the vendor's library, or NULL. Optional: UNSUPPORTED. */
    void *(*symbol)(struct leati_driver *driver, const char *name);

    /* ---- memory ------------------------------------------------------------------------------ */

    /* Device memory, at least 256-byte aligned, ready at return. Required. */
    leat_status (*mem_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);

    /* Frees what mem_alloc, mem_alloc_async or managed_alloc gave, at once; may wait for the device. Required. */
    leat_status (*mem_free)(struct leati_driver *driver, void *device, void *ptr);

    /* Device memory for work on stream, and back when stream gets there. Both or none. Optional: mem_alloc; and
     * stream_synchronize followed by mem_free. */
    leat_status (*mem_alloc_async)(struct leati_driver *driver, void *stream, size_t bytes, void **ptr);
    leat_status (*mem_free_async)(struct leati_driver *driver, void *stream, void *ptr);

    /* Pinned host memory, mapped for all devices of the driver. Required. */
    leat_status (*host_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
    leat_status (*host_free)(struct leati_driver *driver, void *device, void *ptr);

    /* Pins memory of the caller's for all devices of the driver. Any alignment. REGISTERED when a part is
     * pinned already. Both or none. Optional: UNSUPPORTED. */
    leat_status (*host_register)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);
    leat_status (*host_unregister)(struct leati_driver *driver, void *device, void *ptr);

    /* What a kernel uses for pinned or registered memory at ptr. Optional: the same address. */
    leat_status (*host_device_pointer)(struct leati_driver *driver, void *device, void *ptr,
                                       void **device_pointer);

    /* Memory that moves between host and device. Freed by mem_free. Optional: UNSUPPORTED. */
    leat_status (*managed_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);

    /* ---- managed memory: each optional, and without it the call that needs it is UNSUPPORTED ----- */

    /* Brings pages to a device of the driver, or to the host (to NULL), in stream order. */
    leat_status (*managed_prefetch)(struct leati_driver *driver, void *stream, void *ptr, size_t bytes, void *to);

    /* device: any open one whose context the call can be made in; where: a device, NULL for the host or for none.
     */
    leat_status (*managed_advise)(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                  leat_advice advice, void *where);

    /* Fills all of info but size, which is that of the whole struct; it is zeroed before. */
    leat_status (*managed_query)(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                                 leat_managed_info *info);

    /* A whole allocation of managed_alloc, or of the user's own. In stream order. */
    leat_status (*managed_attach)(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                                  leat_attach attach);

    /* The record of leat_managed_record(). ptr NULL: all. All or none of these three. */
    leat_status (*managed_record)(struct leati_driver *driver, void *device, bool on);
    leat_status (*managed_count)(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                                 leat_managed_counts *counts);
    leat_status (*managed_history)(struct leati_driver *driver, void *device, leat_managed_move *moves,
                                   size_t *count);

    /*
     * What the driver knows of an address that the core does not: fills place and returns LEAT_OK; kind PAGEABLE
     * when it is not the driver's. POINTER when the address is certainly not usable (freed). Needs no
     * device to be open. Optional: everything unknown is pageable.
     */
    leat_status (*pointer_query)(struct leati_driver *driver, const void *ptr, struct leati_pointer_info *info);

    /* ---- virtual memory: all or none. Optional: pools use mem_alloc ---------------------------- */

    /* Sizes, addresses and offsets below are multiples of this many bytes. */
    leat_status (*vm_granularity)(struct leati_driver *driver, void *device, size_t *bytes);

    /* A range of addresses with nothing behind it; touching it faults. */
    leat_status (*vm_reserve)(struct leati_driver *driver, void *device, size_t bytes, void **ptr);
    leat_status (*vm_unreserve)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);

    /* Physical device memory. exportable: vm_export will be asked for it. */
    leat_status (*vm_create)(struct leati_driver *driver, void *device, size_t bytes, bool exportable,
                             uint64_t *handle);

    /* Gives the handle up; the memory stays until its last mapping is gone. */
    leat_status (*vm_release)(struct leati_driver *driver, void *device, uint64_t handle);

    /* Puts the first bytes bytes of a handle at ptr, inside a reserved range of any device of the driver; not
     * accessible before vm_set_access. Never waits for the device. */
    leat_status (*vm_map)(struct leati_driver *driver, void *device, void *ptr, size_t bytes, uint64_t handle);

    /* The device that has the memory, and peers that may reach its memory, may read and write it. */
    leat_status (*vm_set_access)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);

    /* What each device may do from now on with one whole mapping; those that are not listed never had a right.
     * Optional, though the others are there: UNSUPPORTED for all but what vm_set_access does. */
    leat_status (*vm_set_rights)(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                 const struct leati_right *rights, unsigned count);
    leat_status (*vm_unmap)(struct leati_driver *driver, void *device, void *ptr, size_t bytes);

    /* A file descriptor that another process can import; the caller closes it. bytes of import: as created. */
    leat_status (*vm_export)(struct leati_driver *driver, void *device, uint64_t handle, int *fd);
    leat_status (*vm_import)(struct leati_driver *driver, void *device, int fd, size_t bytes, uint64_t *handle);

    /* ---- copies ------------------------------------------------------------------------------ */

    /* In stream order. A pageable source is read, and a pageable destination written, at some time until the
     * stream has got past the copy. For pageable memory the call may wait for the stream. Required. */
    leat_status (*copy)(struct leati_driver *driver, void *stream, struct leati_location dst,
                        struct leati_location src, size_t bytes);

    /*
     * The same for a region of rows; dst and src are its first bytes. Its sizes are 1 or more, pitches are
     * width_bytes or more, slices height * pitch or more and set when depth is above 1, and nothing overflows.
     * Rows of the two sides may lie between one another, but no byte is in both. Optional: copy for each row.
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

    /* A stream for a vendor's stream of the user's own (NULL: the vendor's default stream); destroying it ends
     * only the wrapping. INVALID when native is certainly not a stream of device. Required. */
    leat_status (*stream_adopt)(struct leati_driver *driver, void *device, void *native, void **stream);

    /* The vendor's stream. Required; never fails. */
    void *(*stream_native)(struct leati_driver *driver, void *stream);

    /* LEAT_OK or LEAT_NOT_READY. Required. */
    leat_status (*stream_query)(struct leati_driver *driver, void *stream);
    leat_status (*stream_synchronize)(struct leati_driver *driver, void *stream);

    /* The stream goes on only after the event's latest record, as it is now. Required. */
    leat_status (*stream_wait)(struct leati_driver *driver, void *stream, void *event);

    /*
     * In stream order, one after the other: wait: the stream goes on when the word has reached value, which is
     * when (int32_t)(*word - value) >= 0; what the host wrote before it wrote the word is there then for copies
     * that follow. Else writes value to the word when all earlier work of the stream is done and can be seen by
     * the host. UNSUPPORTED where this driver's version or device cannot. count is at most 4. Optional: pageable
     * copies are left to copy.
     */
    leat_status (*stream_mem_ops)(struct leati_driver *driver, void *stream, const struct leati_mem_op *values,
                                  unsigned count);

    /* Calls function(argument) once, in stream order; perhaps never when the device is lost. Required. */
    leat_status (*launch_host)(struct leati_driver *driver, void *stream, void (*function)(void *),
                               void *argument);

    /* With time stamp. Required, as are all of these. */
    leat_status (*event_create)(struct leati_driver *driver, void *device, void **event);
    leat_status (*event_destroy)(struct leati_driver *driver, void *event);

    /* The same two for events. Required. */
    leat_status (*event_adopt)(struct leati_driver *driver, void *device, void *native, void **event);
    void *(*event_native)(struct leati_driver *driver, void *event);

    /* event and stream are of the same device. Required. */
    leat_status (*event_record)(struct leati_driver *driver, void *event, void *stream);
    leat_status (*event_query)(struct leati_driver *driver, void *event);
    leat_status (*event_synchronize)(struct leati_driver *driver, void *event);

    /* NOT_READY while one of the two is not reached. */
    leat_status (*event_elapsed)(struct leati_driver *driver, void *start, void *end, double *milliseconds);

    /* ---- kernels ----------------------------------------------------------------------------- */

    /* An image for this driver. PTX is NUL-terminated here. Required. */
    leat_status (*module_load)(struct leati_driver *driver, void *device, const void *image, size_t bytes,
                               void **module);

    /* A module with leat's built-in kernels; see kernels/modules.h for which ones. Required. */
    leat_status (*module_builtin)(struct leati_driver *driver, void *device, enum leati_builtin which,
                                  void **module);

    /* A module of kernels that the program has compiled into itself. The list is read before the call returns;
     * names and kernels stay where they are. Optional: UNSUPPORTED. */
    leat_status (*module_embedded)(struct leati_driver *driver, void *device, const leat_embedded_kernel *kernels,
                                   size_t count, void **module);
    leat_status (*module_unload)(struct leati_driver *driver, void *device, void *module);
    leat_status (*kernel_get)(struct leati_driver *driver, void *device, void *module, const char *name,
                              void **kernel, struct leati_kernel_shape *shape);

    /* The size of parameter index, which the kernel has. Optional: UNSUPPORTED. */
    leat_status (*kernel_parameter)(struct leati_driver *driver, void *device, void *kernel, unsigned index,
                                    size_t *bytes);
    leat_status (*launch)(struct leati_driver *driver, void *stream, void *kernel, leat_dim3 grid, leat_dim3 block,
                          size_t shared_bytes, void *const *args, unsigned argument_count);
};

/* What a driver can do and what it is good at. The layers above decide by these fields, never by a driver's name.
 */
struct leati_capabilities {
    /* Streams and kernels read and write any host memory in place, in one pass: a copy of pageable memory needs no
     * staging. */
    bool reaches_pageable;

    /* Host threads reach device memory by plain loads and stores. The CPU device's strict mode forbids this to the
     * program; the memory is in the process's address space all the same. */
    bool host_reaches_device;

    /* Kernels run on this machine's processors: launch few blocks, of one thread each. */
    bool host_kernels;

    /* Copies are made by DMA engines, which move the rows of a narrow rectangle one by one. */
    bool dma_engines;

    /* The vendor's stream handle that means another stream in each thread. NULL: the vendor has none. */
    void *per_thread_stream;

    /* When one kernel makes many small copies faster than single copies. */
    struct {
        unsigned fewest_ranges; /* with fewer, copy one by one */
        size_t largest_bytes;   /* a larger range is copied by itself */
    } batch;
};

/* A driver. The registry owns it; it lives as long as the process. */
struct leati_driver {
    const char *name; /* "cuda"; for messages and for finding devices by name, never for decisions */
    const struct leati_driver_ops *ops;
    const struct leati_capabilities *can;

    /* Filled by ops->load. */
    char library[256]; /* "" when nothing is loaded */
    char version[64];
    int device_count;
};

/* Each driver offers itself to the registry with one of these. Never NULL. */
struct leati_driver *leati_cpu_driver(void);
struct leati_driver *leati_cuda_driver(void);
struct leati_driver *leati_hip_driver(void);

#endif
