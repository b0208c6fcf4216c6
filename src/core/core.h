/*
 * core.h - the objects behind the public handles, and what the parts of the core share.
 *
 * The core checks arguments, keeps the table of known memory, and calls the driver. Locks, in the order in which
 * they are taken: open_lock and list_lock (device.c), the table of memory (pointers.c), two a device, those of
 * pools (pool/pool.h), an event's, a stream's piece_lock, an order's (timeline.h), the records of blocks
 * (blocks.c). Only open_lock, a device's module_lock and prefetch_lock, a pool's lock, a stream's and an order's
 * are held while a driver call may wait, so host functions must never need those.
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

#include <leat/copy.h>
#include <leat/kernel.h>
#include <leat/memory.h>
#include <leat/native.h>
#include <leat/stream.h>

#include <stdatomic.h>

/* Streams, events, modules: what the last close of a device has to end. A ring with a head in the device. */
struct leati_link {
    struct leati_link *next, *previous;
};

enum { LEATI_FAST_POOLS = 8, LEATI_PREFETCH_STREAMS_MAX = 16 };

/* What the layer of pools does when something else ends. Set by the first pool of a device. */
struct leati_pool_hooks {
    void (*stream_ends)(struct leat_stream *stream); /* before the driver's stream_destroy */
    leat_status (*device_closes)(struct leat_device *device);
};

/* stream_query or event_query of a driver's table. */
typedef leat_status (*leati_query_function)(struct leati_driver *driver, void *native);

/* What the layer of copies does when something ends or is waited for. Set by the first copy that goes through its
 * workers. */
struct leati_copy_hooks {
    void (*stream_ends)(struct leat_stream *stream); /* before the driver's stream_destroy */
    /* Before the pools are closed; finished: all work of the device is known to be done. */
    leat_status (*device_closes)(struct leat_device *device);
    /* A thread of the program's is about to wait, and holds no lock: where the threads that copy are few, it
     * copies too until query(driver, native) says that there is nothing more to wait for, or until there is
     * nothing more to copy. Never fails. */
    void (*wait_begins)(struct leat_device *device, leati_query_function query, void *native);
};

struct leat_device {
    struct leati_handle handle;
    struct leati_driver *driver;
    void *native; /* the driver's device */
    int ordinal;
    bool wrapped; /* works in a context of the user's own, so it is not shared between opens */
    char name[16];
    unsigned opens;              /* under open_lock of device.c */
    struct leat_device *next;    /* under list_lock of device.c */
    atomic_uint_least64_t peers; /* bit n: peer access to the driver's device n was switched on */
    struct leati_lock lock;      /* guards the next three */
    struct leati_link streams, events;
    struct host_call *host_calls; /* host functions that have not run yet; see stream.c */
    struct leati_lock module_lock;  /* guards the rest, and is held while a module loads */
    struct leati_link modules;
    struct leat_module *builtin[LEATI_BUILTIN_COUNT]; /* made at the first use */
    _Atomic(struct leat_pool *) default_pools[4];     /* by leat_kind; made at the first use */
    _Atomic(struct leat_pool *) own_pools[4];         /* the same, in guard mode, for blocks of leat's own */
    _Atomic(const struct leati_pool_hooks *) pool_hooks;
    _Atomic(const struct leati_copy_hooks *) copy_hooks;
    _Atomic(struct leati_stager *) stager; /* staging/staging.h; made at the first use */
    _Atomic uint32_t copy_rates[4];        /* copy/costs.h: in MB/s; 0: not known yet */
    struct leati_lock pools_lock;          /* guards pool_numbers, and is held while a pool is made */
    unsigned pool_numbers;                 /* bit n: a pool has place n in leat_stream.caches */
    struct leati_lock prefetch_lock;       /* guards the rest, and is held while a prefetch in chunks is given */
    void *prefetch_streams[LEATI_PREFETCH_STREAMS_MAX]; /* the driver's; made at the first use */
    unsigned prefetch_count;
};

struct leat_stream {
    struct leati_handle handle;
    struct leat_device *device;
    void *native; /* the driver's stream */
    struct leati_timeline *timeline;
    struct leati_lock piece_lock; /* recursive; held while something of several driver calls is given: see below */
    _Atomic uint64_t
        host_seq;       /* the last work that may write pageable memory belongs to it, or to an earlier one */
    atomic_bool foreign; /* the user has, or had, the vendor's handle, so others may give it work */
    _Atomic(struct leati_staging *) staging;                /* copy/eager.c; made at the first use */
    _Atomic(struct leati_stream_cache *)
        caches[LEATI_FAST_POOLS]; /* what the first pools keep for it (pool/pool.h) */
    struct leati_link link;
};

struct leat_event {
    struct leati_handle handle;
    struct leat_device *device;
    void *native;    /* the driver's event */
    uint64_t serial; /* never used again */
    atomic_bool recorded;
    struct leati_lock lock;    /* guards the rest, and is held while the driver records it or waits for it */
    bool shared;               /* others may record it outside leat, so nothing is known of its mark */
    struct leati_timeline *timeline; /* of the stream of the latest record, or NULL */
    struct leati_point point;
    struct leati_points known; /* what that stream waited for */
    struct leati_link link;
};

struct leat_kernel {
    struct leati_handle handle;
    struct leat_module *module;
    void *native; /* the driver's kernel */
    struct leati_kernel_shape shape;
    char *name;
    struct leat_kernel *next; /* under the device's module_lock */
};

#define LEATI_KERNEL_BUCKETS 32

struct leat_module {
    struct leati_handle handle;
    struct leat_device *device;
    void *native;                                      /* the driver's module */
    bool builtin;                                      /* one of leat's own */
    struct leat_kernel *kernels[LEATI_KERNEL_BUCKETS]; /* by their names */
    struct leati_link link;
};

/* A kernel that leat itself launches, by one look-up; loads its module if that is not there. The device is live.
 */
leat_status leati_kernel_builtin(leat_device *device, enum leati_builtin which, const char *name,
                                 leat_kernel **kernel);

/* Called in front of the driver's own wait for what query asks after. */
void leati_wait_begins(struct leat_device *device, leati_query_function query, void *native);

/* Work that was just given to stream may write pageable memory, or let others do so. Called behind it, also where
 * giving it failed on the way: until it is given, another thread that waits for the stream sees nothing of it. */
void leati_stream_writes_host(leat_stream *stream);

/*
 * Around what is given to the stream as one piece of work: what another thread gives it comes before or after
 * that, however many driver calls it takes. Single calls have it around them too, so that they stay out of others'
 * pieces; marks, waits and what belongs to pools need not. Nothing that waits for the stream itself may be in
 * between.
 */
static inline void leati_stream_piece_begins(leat_stream *stream) LEATI_NO_THREAD_SAFETY
{
    leati_lock(&stream->piece_lock);
}

static inline void leati_stream_piece_ends(leat_stream *stream) LEATI_NO_THREAD_SAFETY
{
    leati_unlock(&stream->piece_lock);
}

/* May pageable memory be read now, as if in stream order? True when no work of stream that may write it is under
 * way. */
bool leati_stream_reads_now(leat_stream *stream);

/* Was the stream empty when it was last looked at, and nothing was given to it since? Asks nobody. */
bool leati_stream_known_idle(const leat_stream *stream);

/* Returns true if all work of the stream is complete; asks the driver unless that is known. A failed query counts
 * as not idle and writes no message. */
bool leati_stream_is_idle(leat_stream *stream);

#define LEATI_CONTAINER_OF(link_pointer, type) ((type *)(void *)((char *)(link_pointer)-offsetof(type, link)))

void leati_link_add(struct leati_link *head, struct leati_link *link);
void leati_link_remove(struct leati_link *link);

extern struct leati_handles leati_device_handles, leati_stream_handles, leati_event_handles, leati_module_handles,
    leati_kernel_handles;

/* One message each for a handle that is not live. what: "leat_copy". Return LEAT_OK or LEAT_ERROR_HANDLE. */
leat_status leati_check_device(const char *what, const leat_device *device);
leat_status leati_check_stream(const char *what, const leat_stream *stream);
leat_status leati_check_event(const char *what, const leat_event *event);

/* Refuses calls from inside a host function, which could wait for the stream that waits for them. Every call that
 * may touch the program's memory begins with it: whether faults can be caught is asked anew from here on. */
leat_status leati_check_permitted(const char *what);

/* LEAT_ERROR_INVALID with a message when pointer is NULL. name: "ptr". */
leat_status leati_check_not_null(const char *what, const char *name, const void *pointer);

/* Called on the thread that runs a host function, around it. */
void leati_host_function_enter(void);
void leati_host_function_leave(void);

/* How the last close of a device ends what belongs to it (stream.c, event.c, kernel.c, pointers.c). Each returns
 * the first failure and goes on. finished: all work of the device is known to be done. */
leat_status leati_streams_close(struct leat_device *device, bool finished);
leat_status leati_events_close(struct leat_device *device);
leat_status leati_modules_close(struct leat_device *device);
leat_status leati_memory_close(struct leat_device *device);

/* Ends the streams of prefetches (managed.c). */
leat_status leati_prefetch_close(struct leat_device *device);

/* Frees what is left of host functions that never ran. After the driver's device_close. */
void leati_host_calls_close(struct leat_device *device);

/* Switches peer access between two open devices of one driver on, at its first use. */
leat_status leati_enable_peers(struct leat_device *first, struct leat_device *second);

/* The open device of a driver's handle, or NULL; for answers of pointer_query. */
struct leat_device *leati_device_of(const struct leati_driver *driver, const void *native);

/* ---- memory that no pool has (memory.c) ---- */

/* leat_free() and leat_memory_free() of it; POINTER when it is not there. */
leat_status leati_driver_free(leat_stream *stream, void *ptr);
leat_status leati_driver_memory_free(void *ptr);

/* Maps memory that was exported. */
leat_status leati_import(leat_device *device, int fd, size_t bytes, void **ptr);

struct leati_memory;

/* Undoes it for memory that was taken out of the table. */
leat_status leati_import_end(const struct leati_memory *memory);

/* ---- the table of known memory (pointers.c); that of pools is in blocks.h ---- */

enum leati_origin { LEATI_ALLOCATED, LEATI_REGISTERED, LEATI_WRAPPED, LEATI_IMPORTED, LEATI_RESERVED };

struct leati_reservation;

/* Memory that leat knows. */
struct leati_memory {
    struct leat_device *device;
    uintptr_t base;
    size_t bytes;
    leat_kind kind;
    enum leati_origin origin;
    uint64_t handle;                       /* the driver's, of IMPORTED memory */
    uint64_t serial;                       /* by which a recorder knows ALLOCATED memory; 0: none does */
    struct leati_reservation *reservation; /* of RESERVED addresses (virtual.c) */
};

/* What an address turned out to be. */
struct leati_endpoint {
    struct leati_location location;
    struct leat_device *device;  /* NULL when the device is not open, or for PAGEABLE */
    struct leati_driver *driver; /* NULL for PAGEABLE */
    uintptr_t base;              /* of its allocation; 0 for PAGEABLE */
    size_t bytes;
    void *device_pointer;      /* only filled for memory that leat does not know itself */
    struct leati_block *block; /* of a pool, or NULL */
    bool owned;
    bool read_only; /* no device may write it (leat_virtual_set_access) */
};

/* Adds memory. REGISTERED when it overlaps what is there, HOST_MEMORY. The table copies *memory. */
leat_status leati_pointers_add(const struct leati_memory *memory);

/* Takes the memory that starts at ptr out of the table, so that no other thread finds it. POINTER with a message
 * when nothing of that origin starts there (or of device, when that is not NULL). */
leat_status leati_pointers_take(const char *what, const void *ptr, enum leati_origin origin,
                                const struct leat_device *device, struct leati_memory *memory);

/* For leati_describe_address of base/fault_handler.h. */
bool leati_describe_pooled(const void *address, uintptr_t *base, size_t *bytes);

/* Puts memory back that was just taken. */
void leati_pointers_put_back(const struct leati_memory *memory);

/* Finds out what ptr is, in the view of driver, for which memory that another driver pinned is PAGEABLE, and
 * checks that bytes bytes are there: RANGE, and for pageable memory that both ends are mapped and, if write is
 * set, writable. name: "dst". */
leat_status leati_pointers_find_range(struct leati_driver *driver, const char *name, const void *ptr, size_t bytes,
                                      bool write, struct leati_endpoint *endpoint);

/* The last of these checks alone, for pageable memory. */
leat_status leati_pointers_check_mapped(const char *name, const void *ptr, size_t bytes, bool write);

/* The same without touching pageable memory: whoever reads it finds out whether it is there. ask: false: what leat
 * does not know counts as pageable, which is the truth for all but memory that was got from a driver outside leat.
 */
leat_status leati_pointers_find_unread(struct leati_driver *driver, const char *name, const void *ptr,
                                       size_t bytes, bool ask, struct leati_endpoint *endpoint);

/* Returns true if drivers said not long ago that the memory there is pageable. A guess: a caller that trusts it must
 * find out by itself when it is wrong. */
bool leati_pointers_was_pageable(const void *ptr, size_t bytes);

#endif
