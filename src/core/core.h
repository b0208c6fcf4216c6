/*
 * core.h - the objects behind the public handles, and declarations shared by the files of the core.
 *
 * The core checks arguments, keeps the table of known memory, and calls the driver. Lock order: open_lock and
 * list_lock (device.c), the table of memory (pointers.c), a device's locks, the locks of pools (pool/pool.h), an
 * event's lock, a stream's piece_lock, a timeline's lock (timeline.h), the lock of block records (blocks.c).
 * Driver calls that may wait are made only under open_lock, a device's module_lock, pools_lock and prefetch_lock,
 * a pool's lock, a stream's piece_lock and a timeline's lock. A host function must never need one of these locks:
 * the lock's holder may be waiting for the stream that runs the function, and neither could continue.
 */
#ifndef LEATI_CORE_H
#define LEATI_CORE_H

#include "base/error.h"
#include "base/handles.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "base/quick.h"
#include "core/blocks.h"
#include "core/timeline.h"
#include "driver/driver.h"
#include "trace/span.h"

#include <leat/copy.h>
#include <leat/kernel.h>
#include <leat/memory.h>
#include <leat/native.h>
#include <leat/stream.h>

#include <stdatomic.h>

/* Links a stream, an event or a module into its device's list, so that the last close of the device can release
 * it. Circular and doubly linked; the head is in the device. */
struct leati_link {
    struct leati_link *next, *previous;
};

enum { LEATI_FAST_POOLS = 8, LEATI_PREFETCH_STREAMS_MAX = 16 };

/* Hooks by which the core calls the pool layer, set when the first pool of a device is created. */
struct leati_pool_hooks {
    void (*stream_ends)(struct leat_stream *stream); /* called before the driver's stream_destroy */
    /* Called before the last close waits for the device's work: ends waits for other processes. */
    void (*device_ends)(struct leat_device *device);
    leat_status (*device_closes)(struct leat_device *device);
    /* Called after the host has waited for a stream whose timeline takes_over. */
    void (*stream_waited)(struct leat_stream *stream);
};

/* stream_query or event_query of a driver's table. */
typedef leat_status (*leati_query_function)(struct leati_driver *driver, void *native);

/* Hooks by which the core calls the copy layer, set by the first copy that uses worker threads. */
struct leati_copy_hooks {
    void (*stream_ends)(struct leat_stream *stream); /* called before the driver's stream_destroy */
    /* Called before the core waits for the work of a device that is closed: stops copies that could wait for ever. */
    void (*device_ends)(struct leat_device *device);
    /* Called before the pools are closed. finished: all work of the device is known to be complete. */
    leat_status (*device_closes)(struct leat_device *device);
    /* Called when a user's thread is about to wait and holds no lock. If few worker threads are awake, this
     * thread helps with pending copies until query(driver, native) reports completion or no copy work is left.
     * If a stream waits for long copies of files, this thread may sleep first, where the driver's wait would spin.
     * Never fails. */
    void (*wait_begins)(struct leat_device *device, leati_query_function query, void *native);
};

struct leat_device {
    struct leati_handle handle;
    struct leati_driver *driver;
    void *native; /* the driver's device */
    int ordinal;
    bool wrapped; /* uses a context of the user, so leat_device_open() does not share it */
    char name[16];
    unsigned opens;              /* number of opens without a close; under open_lock of device.c */
    struct leat_device *next;    /* next open device; under list_lock of device.c */
    unsigned slot;               /* a number that no other open device has; 64: all 64 are taken */
    atomic_uint_least64_t peers; /* bit n: peer access to the open device in slot n is enabled */
    struct leati_lock lock;      /* guards streams, events and host_calls */
    struct leati_link streams, events;
    struct host_call *host_calls;  /* submitted host functions that have not run yet (stream.c) */
    struct leati_lock module_lock; /* guards modules and builtin; held while a module loads */
    struct leati_link modules;
    struct leat_module *builtin[LEATI_BUILTIN_COUNT]; /* created on first use */
    atomic_bool kernels_tried;                        /* leati_kernels_load_early() was called */
    _Atomic(struct leat_pool *) default_pools[4];     /* indexed by leat_kind; created on first use */
    _Atomic(struct leat_pool *) own_pools[4]; /* as default_pools, for leat's internal blocks in guard mode */
    _Atomic(const struct leati_pool_hooks *) pool_hooks;
    _Atomic(const struct leati_copy_hooks *) copy_hooks;
    _Atomic(struct leati_stager *) stager; /* created on first use (staging/staging.h) */
    _Atomic uint32_t copy_rates[4];        /* measured rates in MB/s (copy/costs.h); 0: not measured yet */
    struct leati_lock pools_lock;          /* guards pool_numbers; held while a pool is created or destroyed */
    unsigned pool_numbers;                 /* bit n: index n of leat_stream.caches is in use by a pool */
    struct leati_lock prefetch_lock; /* guards the fields below; held while a chunked prefetch is submitted */
    void *prefetch_streams[LEATI_PREFETCH_STREAMS_MAX]; /* driver streams; created on first use */
    unsigned prefetch_count;
    struct leati_traced_device traced;
    struct leati_traced_stream traced_calls; /* for calls that have no stream */
};

struct leat_stream {
    struct leati_handle handle;
    struct leat_device *device;
    void *native; /* the driver's stream */
    struct leati_timeline *timeline;
    struct leati_lock piece_lock; /* recursive; held while work of several driver calls is submitted; see below */
    _Atomic uint64_t host_seq;    /* sequence number of the latest work that may write pageable memory; 0: none */
    atomic_bool foreign;          /* true: the user has the vendor's handle and may submit work outside leat */
    _Atomic(struct leati_staging *) staging; /* created on first use (copy/eager.c) */
    _Atomic(struct leati_stream_cache *)
        caches[LEATI_FAST_POOLS]; /* its caches in the first LEATI_FAST_POOLS pools of the device (pool/pool.h) */
    struct leati_link link;
    struct leati_traced_stream traced;
};

struct leat_event {
    struct leati_handle handle;
    struct leat_device *device;
    void *native;    /* the driver's event */
    uint64_t serial; /* unique for the life of the process */
    atomic_bool recorded;
    struct leati_lock lock; /* guards the fields below; held while the driver records the event or waits for it */
    bool shared;            /* true: may be recorded outside leat, so its position is unknown */
    struct leati_timeline *timeline; /* timeline of the stream of the latest record, or NULL */
    struct leati_point point;
    struct leati_points known; /* what timeline's stream was ordered after when the event was recorded */
    uint64_t traced;           /* id of the latest record in a trace; 0: it was not traced */
    struct leati_link link;
};

struct leat_kernel {
    struct leati_handle handle;
    struct leat_module *module;
    void *native; /* the driver's kernel */
    struct leati_kernel_shape shape;
    char *name;
    _Atomic uint32_t name_string; /* number of name in traces; 0: none yet */
    struct leat_kernel *next; /* next kernel of the bucket; under module_lock */
};

#define LEATI_KERNEL_BUCKETS 32

struct leat_module {
    struct leati_handle handle;
    struct leat_device *device;
    void *native;                                      /* the driver's module */
    bool builtin;                                      /* true: a built-in module of leat */
    struct leat_kernel *kernels[LEATI_KERNEL_BUCKETS]; /* hashed by name */
    struct leati_link link;
};

/* Loads all built-in kernels of leat on a device whose driver makes a load wait for the streams of the device: for
 * work that makes a stream wait for something outside of it, which must not be what the load waits for. If that
 * fails, whoever needs a kernel tries again. */
void leati_kernels_load_early(leat_device *device);

/* Finds a built-in kernel of leat by name; loads its module on first use. The device must be live. */
leat_status leati_kernel_builtin(leat_device *device, enum leati_builtin which, const char *name,
                                 leat_kernel **kernel);

/* Call before the host waits in the driver for a stream or an event. This thread may then help with pending
 * copies until query(native) reports completion; see wait_begins above. */
void leati_wait_begins(struct leat_device *device, leati_query_function query, void *native);

/* Records that the work just submitted to stream may write pageable memory, directly or through an event or a host
 * function. Call this after submitting, even if the submission failed half-way. If the call came before the
 * submission, another thread's wait in between could complete the recorded sequence number although the work was
 * not submitted yet. */
void leati_stream_writes_host(leat_stream *stream);

/*
 * Bracket work that takes several driver calls but must stay contiguous in the stream: work of other threads goes
 * before or after it. Bracket single submissions too, so that they do not land inside another thread's piece.
 * Fences, waits and pool operations need no brackets. The code in between must not wait for the stream itself.
 */
static inline void leati_stream_piece_begins(leat_stream *stream) LEATI_NO_THREAD_SAFETY
{
    leati_lock(&stream->piece_lock);
}

static inline void leati_stream_piece_ends(leat_stream *stream) LEATI_NO_THREAD_SAFETY
{
    leati_unlock(&stream->piece_lock);
}

/* Returns true if no pending work of the stream may write pageable memory. Then the host may read such memory now,
 * and sees the same bytes as in stream order. */
bool leati_stream_reads_now(leat_stream *stream);

/* Returns true if the stream was seen idle and nothing was submitted since then. Makes no driver call. */
bool leati_stream_known_idle(const leat_stream *stream);

/* Returns true if all work of the stream is complete. Queries the driver unless the stream is known to be idle, and then
 * records that the work is complete. Returns false, without a message, if that query fails. */
bool leati_stream_is_idle(leat_stream *stream);

/* Waits as leat_stream_synchronize(), but leaves failures of copies to that call. */
leat_status leati_stream_finish(leat_stream *stream);

/* Returns the failure of a copy that was complete before this call, once, if only the driver knows it (the entry
 * stream_take_failure); failures of copies by leat's threads are in the timeline. Only for calls that must report
 * failures of copies: leat_stream_synchronize(), leat_device_close(), and leat_copy_sync() for its own copy. */
leat_status leati_stream_driver_failure(leat_stream *stream);

/* Moves this failure, if there is one, to the timeline, so that the next leat_stream_synchronize() returns it and
 * leati_stream_driver_failure() concerns only later copies. */
void leati_stream_keep_driver_failure(leat_stream *stream);

#define LEATI_CONTAINER_OF(link_pointer, type) ((type *)(void *)((char *)(link_pointer)-offsetof(type, link)))

void leati_link_add(struct leati_link *head, struct leati_link *link);
void leati_link_remove(struct leati_link *link);

extern struct leati_handles leati_device_handles, leati_stream_handles, leati_event_handles, leati_module_handles,
    leati_kernel_handles;

/* Fail with LEAT_ERROR_HANDLE and a message if the handle is not live. what: the name of the API function, such
 * as "leat_copy". */
leat_status leati_check_device(const char *what, const leat_device *device);
leat_status leati_check_stream(const char *what, const leat_stream *stream);
leat_status leati_check_event(const char *what, const leat_event *event);

/* Fails in a forked child, and inside a host function, because the call could wait for the stream that runs the
 * function. Every API function that may touch the program's memory calls this first, because it also makes leat
 * check again whether the thread can catch faults. */
leat_status leati_check_permitted(const char *what);

/* Fails with LEAT_ERROR_INVALID and a message if pointer is NULL. name: the argument's name, such as "ptr". */
leat_status leati_check_not_null(const char *what, const char *name, const void *pointer);

/* Bracket a host function, on the thread that runs it. */
void leati_host_function_enter(void);
void leati_host_function_leave(void);

/* Release everything of a device on its last close (stream.c, event.c, kernel.c, pointers.c). Each function
 * continues after a failure and returns the first failure. finished: all work of the device is known to be
 * complete. */
leat_status leati_streams_close(struct leat_device *device, bool finished);
leat_status leati_events_close(struct leat_device *device);
leat_status leati_modules_close(struct leat_device *device);
leat_status leati_memory_close(struct leat_device *device);

/* Destroys the streams used for prefetches (managed.c). */
leat_status leati_prefetch_close(struct leat_device *device);

/* Frees the records of host functions that never ran. Call this after the driver's device_close, when no driver
 * thread can run a host function any more. */
void leati_host_calls_close(struct leat_device *device);

/* Enables peer access between two open devices of one driver, in both directions, on first use. */
leat_status leati_enable_peers(struct leat_device *first, struct leat_device *second);

/* Returns the open device that has this handle in its driver, or NULL. The answers of pointer_query contain such
 * handles. */
struct leat_device *leati_device_of(const struct leati_driver *driver, const void *native);

/* Returns true if a device of the driver is open. */
bool leati_driver_is_open(const struct leati_driver *driver);

/* ---- memory outside pools (memory.c) ---- */

/* Implement leat_free() and leat_memory_free() for memory outside pools. Return POINTER if leat does not know the
 * memory. */
leat_status leati_driver_free(leat_stream *stream, void *ptr);
leat_status leati_driver_memory_free(void *ptr);

/* Maps memory that another process exported. */
leat_status leati_import(leat_device *device, int fd, size_t bytes, void **ptr);

struct leati_memory;

/* Undoes leati_import(). The caller has already removed the memory from the table. */
leat_status leati_import_end(const struct leati_memory *memory);

/* ---- the table of known memory (pointers.c); blocks.h has the table for pools ---- */

enum leati_origin { LEATI_ALLOCATED, LEATI_REGISTERED, LEATI_WRAPPED, LEATI_IMPORTED, LEATI_RESERVED };

struct leati_reservation;

/* One entry of the table. */
struct leati_memory {
    struct leat_device *device;
    uintptr_t base;
    size_t bytes;
    leat_kind kind;
    enum leati_origin origin;
    uint64_t handle;                       /* driver handle of IMPORTED memory */
    uint64_t serial;                       /* identifies ALLOCATED memory in a recording; 0: not recorded */
    struct leati_reservation *reservation; /* reservation of RESERVED addresses (virtual.c) */
};

/* The result of looking up an address. */
struct leati_endpoint {
    struct leati_location location;
    struct leat_device *device;  /* NULL if the device is not open, or for PAGEABLE */
    struct leati_driver *driver; /* NULL for PAGEABLE */
    uintptr_t base;              /* start of the allocation; 0 for PAGEABLE */
    size_t bytes;
    void *device_pointer;      /* address for kernels; only if a driver reported it (memory from outside leat) */
    struct leati_block *block; /* the block, if the memory is in a pool; else NULL */
    bool owned;
    bool read_only; /* true: devices have no write access (leat_virtual_set_access) */
    bool mixed;     /* PAGEABLE, but other memory in the table begins inside the range, so DMAs may write there */
};

/* Adds a copy of *memory to the table. Returns REGISTERED if the memory overlaps an entry, or HOST_MEMORY. */
leat_status leati_pointers_add(const struct leati_memory *memory);

/* Removes the entry that starts at ptr from the table, so that no other thread finds it. Returns POINTER, with a
 * message, if no memory of this origin (and of this device, if device is not NULL) starts there. */
leat_status leati_pointers_take(const char *what, const void *ptr, enum leati_origin origin,
                                const struct leat_device *device, struct leati_memory *memory);

/* Implements leati_describe_address of base/fault_handler.h. */
bool leati_describe_pooled(const void *address, uintptr_t *base, size_t *bytes);

/* Puts an entry that leati_pointers_take() has just removed back into the table. */
void leati_pointers_put_back(const struct leati_memory *memory);

/* Looks up ptr and checks that bytes bytes are accessible there. If driver is not NULL, memory that another
 * driver pinned counts as PAGEABLE. Returns RANGE if the range exceeds its allocation. For pageable memory,
 * checks that the first and the last byte are mapped and, if write is set, writable. name: the argument's name,
 * such as "dst". */
leat_status leati_pointers_find_range(struct leati_driver *driver, const char *name, const void *ptr, size_t bytes,
                                      bool write, struct leati_endpoint *endpoint);

/* Makes only the check for pageable memory: that the first and the last byte are mapped and, if write is set,
 * writable. */
leat_status leati_pointers_check_mapped(const char *name, const void *ptr, size_t bytes, bool write);

/* Like leati_pointers_find_range(), but without the check for pageable memory: the caller detects unmapped memory
 * when accessing it. If ask is false, this queries no driver, so memory that the program got from a driver outside
 * leat counts as pageable too. */
leat_status leati_pointers_find_unread(struct leati_driver *driver, const char *name, const void *ptr,
                                       size_t bytes, bool ask, struct leati_endpoint *endpoint);

/* Returns true if drivers recently reported this memory as pageable. This is a guess, so the caller must itself
 * detect a wrong answer. */
bool leati_pointers_was_pageable(const void *ptr, size_t bytes);

#endif
