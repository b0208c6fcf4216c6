/*
 * engine.h - what the compatibility libraries have in common.
 *
 * Model. libleat-cudart, libleat-cuda and libleat-hip offer the names of CUDA's runtime, CUDA's driver and HIP
 * over leat's public API. The three APIs mean the same things: devices by ordinal, a current device for each
 * thread, a default stream that is ordered against others, memory whose kind decides what is synchronous. All of
 * that is here, once, without a vendor's name; libleat-compat.so is this folder. A library of names is a thin
 * layer: it turns its vendor's structs and constants into the engine's, calls the engine, maps the result where
 * its vendor's numbers differ, and notes it as the thread's last error:
 *
 *     cudaError_t cudaEventQuery(cudaEvent_t event)
 *     {
 *         return leatc_note(leatc_event_query(event));
 *     }
 *
 * Since the engine is one library, streams, events, pointers and the current device of one API are those of the
 * others in the same process, as with the vendors'.
 *
 * Results. Calls return an enum leatc_result, whose numbers are CUDA's (runtime and driver agree on them). No call
 * here looks at or changes the last error but leatc_note() and the three around it.
 *
 * Handles. A stream, event, pool or array is a slot of a table: any pointer may be passed, and one that is not
 * alive gives LEATC_INVALID_HANDLE (arrays and pools LEATC_INVALID_VALUE). A stream argument may also be NULL or
 * LEATC_STREAM_LEGACY, the legacy default stream of the current device, or LEATC_STREAM_PER_THREAD, that of this
 * thread on the current device. Names that mean the per-thread stream by NULL (_ptsz, _ptds, _spt) say
 * leatc_per_thread(stream).
 *
 * Work. Whatever is given to a stream goes between leatc_work_begin(), which orders the stream after what the
 * legacy default stream demands and gives the leat stream, and leatc_work_end(), which remembers that there is new
 * work. All calls here that take a stream do that themselves.
 *
 * Devices are those of one driver of leat's: that of LEAT_DEVICE where it is set, else the first that has any; of
 * these, what the vendors' variables make visible.
 * They are opened at the first call that needs one and stay open until reset or the end of the process.
 *
 * Threads. Any thread may call anything.
 */
#ifndef LEATC_ENGINE_H
#define LEATC_ENGINE_H

#include <leat/leat.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEATC_API __attribute__((visibility("default")))

/* ---- results -------------------------------------------------------------------------------------------- */

enum leatc_result {
    LEATC_OK = 0,
    LEATC_INVALID_VALUE = 1,
    LEATC_OUT_OF_MEMORY = 2,
    LEATC_NOT_INITIALIZED = 3,
    LEATC_DEINITIALIZED = 4,
    LEATC_INVALID_CONFIGURATION = 9,
    LEATC_INVALID_PITCH = 12,
    LEATC_INVALID_SYMBOL = 13,
    LEATC_INVALID_CHANNEL = 20,
    LEATC_INVALID_DIRECTION = 21,
    LEATC_INSUFFICIENT_DRIVER = 35,
    LEATC_INVALID_FUNCTION = 98,
    LEATC_NO_DEVICE = 100,
    LEATC_INVALID_DEVICE = 101,
    LEATC_INVALID_IMAGE = 200,
    LEATC_INVALID_CONTEXT = 201,
    LEATC_OPERATING_SYSTEM = 304,
    LEATC_INVALID_HANDLE = 400,
    LEATC_ILLEGAL_STATE = 401,
    LEATC_NOT_FOUND = 500,
    LEATC_NOT_READY = 600,
    LEATC_ILLEGAL_ADDRESS = 700,
    LEATC_OUT_OF_RESOURCES = 701,
    LEATC_PEER_ENABLED = 704,
    LEATC_PEER_NOT_ENABLED = 705,
    LEATC_CONTEXT_DESTROYED = 709,
    LEATC_ASSERT = 710,
    LEATC_REGISTERED = 712,
    LEATC_NOT_REGISTERED = 713,
    LEATC_LAUNCH_FAILED = 719,
    LEATC_TOO_LARGE = 720,
    LEATC_NOT_PERMITTED = 800,
    LEATC_NOT_SUPPORTED = 801,
    LEATC_CAPTURE_UNSUPPORTED = 900,
    LEATC_CAPTURE_INVALIDATED = 901,
    LEATC_CAPTURE_MERGE = 902,
    LEATC_CAPTURE_UNMATCHED = 903,
    LEATC_CAPTURE_UNJOINED = 904,
    LEATC_CAPTURE_ISOLATION = 905,
    LEATC_CAPTURE_IMPLICIT = 906,
    LEATC_CAPTURED_EVENT = 907,
    LEATC_CAPTURE_WRONG_THREAD = 908,
    LEATC_GRAPH_UPDATE = 910,
    LEATC_UNKNOWN = 999
};

/* What a status of leat's is as a result. */
LEATC_API int leatc_result_of(leat_status status);

#ifdef __clang_analyzer__
/* For 'make tidy', which sees one file at a time: a failure is never LEATC_OK. */
#define leatc_result_of(status)                                                                                   \
    ({                                                                                                            \
        leat_status leatc_status_ = (status);                                                                     \
        int leatc_result_ = leatc_result_of(leatc_status_);                                                       \
        if (leatc_status_ != LEAT_OK && leatc_result_ == LEATC_OK)                                                \
            __builtin_unreachable();                                                                              \
        leatc_result_;                                                                                            \
    })
#endif

#define LEATC_TRY(call)                                                                                           \
    do {                                                                                                          \
        int leatc_try_ = (call);                                                                                  \
        if (leatc_try_ != LEATC_OK)                                                                               \
            return leatc_try_;                                                                                    \
    } while (0)

/*
 * Keeps result as this thread's last error and returns it. LEATC_OK and LEATC_NOT_READY are not kept. A result
 * that means a lost device (700, 719 and the like) is sticky: reading the last error does not clear it, only
 * resetting the device does. Any number may be given, so a layer maps to its vendor's before.
 */
LEATC_API int leatc_note(int result);

/* The same for a launch, which must not return the failure of the kernel that it has just submitted. */
LEATC_API int leatc_note_launch(int result);

/* Was anything noted yet? So a layer with contexts knows that one without was used in this process, for which each
 * device's is current without being asked. */
LEATC_API bool leatc_has_noted(void);

/* The last error, which is cleared; and without clearing it. */
LEATC_API int leatc_last_error(void);
LEATC_API int leatc_peek_error(void);

/* ---- devices -------------------------------------------------------------------------------------------- */

#define LEATC_DEVICES_MAX 64

/* Says, before the devices are found, that HIP's names are in the process: then ROCR_VISIBLE_DEVICES and
 * HIP_VISIBLE_DEVICES count, and not only CUDA_VISIBLE_DEVICES. */
LEATC_API void leatc_announce_hip(void);

/* Finds the devices at the first call. NO_DEVICE, INSUFFICIENT_DRIVER. */
LEATC_API int leatc_init(void);

/* How many there are; 0 and NO_DEVICE without any. */
LEATC_API int leatc_device_count(int *count);

/* This thread's current device; 0 at first. */
LEATC_API int leatc_device_get(int *ordinal);

/* Makes a device current and opens it. INVALID_DEVICE; what opening it gives. */
LEATC_API int leatc_device_set(int ordinal);

/* Opens a device if need be. *device may be NULL if only the opening is wanted. */
LEATC_API int leatc_device_open(int ordinal, leat_device **device);

/* Is it open? (The driver's names say whether a primary context is active.) */
LEATC_API bool leatc_device_is_open(int ordinal);

/* Waits for all work of the device. */
LEATC_API int leatc_device_synchronize(int ordinal);

/* Waits for all work of all devices, whatever is captured: before memory that any of them may use goes. */
LEATC_API int leatc_devices_wait(void);

/* Ends everything of the device: streams, events, memory, pools. Clears a sticky error. */
LEATC_API int leatc_device_reset(int ordinal);

/* What leat says of it, without opening it. INVALID_DEVICE. */
LEATC_API int leatc_device_describe(int ordinal, leat_device_info *info);

/* Free and total memory; what leat's pools keep idle counts as free. Either may be NULL. */
LEATC_API int leatc_device_memory(int ordinal, size_t *free_bytes, size_t *total_bytes);

/* The ordinal of an open leat device; -1 when it is none of these. */
LEATC_API int leatc_device_ordinal(const leat_device *device);

/*
 * An attribute by the number that CUDA gives it in cudaDeviceAttr and CUdevice_attribute. INVALID_VALUE for a
 * number that there is not.
 */
enum {
    LEATC_ATTRIBUTE_UNITS = 16,
    LEATC_ATTRIBUTE_UNIT_THREADS = 39,
    LEATC_ATTRIBUTE_UNIT_SHARED = 81,
    LEATC_ATTRIBUTE_UNIT_BLOCKS = 106
};
LEATC_API int leatc_device_attribute(int ordinal, int number, int *value);

/* Maximum size of arrays, by the number of the corresponding texture attribute. */
LEATC_API int leatc_array_limit(int number);

/* PCI address as numbers, 16 bytes that identify the device, and "0000:1b:00.0" (made up for CPU devices). */
LEATC_API int leatc_device_address(int ordinal, int *domain, int *bus, int *slot);
LEATC_API int leatc_device_uuid(int ordinal, unsigned char uuid[16]);
LEATC_API int leatc_device_by_address(const char *text, int *ordinal);

/* Peers: may they reach each other; switch it on (PEER_ENABLED when it is) or off (PEER_NOT_ENABLED) for the
 * current device. INVALID_DEVICE also for the device itself. */
LEATC_API int leatc_peer_possible(int ordinal, int peer, int *possible);
LEATC_API int leatc_peer_enable(int peer, unsigned flags);
LEATC_API int leatc_peer_disable(int peer);

/* Flags of a device as cudaSetDeviceFlags has them: kept and given back. */
LEATC_API int leatc_device_set_flags(int ordinal, unsigned flags);
LEATC_API int leatc_device_flags(int ordinal, unsigned *flags);

/* ---- streams -------------------------------------------------------------------------------------------- */

struct leatc_stream;

#define LEATC_STREAM_LEGACY ((struct leatc_stream *)0x1)
#define LEATC_STREAM_PER_THREAD ((struct leatc_stream *)0x2)

/* NULL as a name with per-thread default streams means it. */
static inline struct leatc_stream *leatc_per_thread(void *stream)
{
    return stream ? (struct leatc_stream *)stream : LEATC_STREAM_PER_THREAD;
}

#define LEATC_STREAM_NON_BLOCKING 1u

/* NVIDIA's highest priority; 0 is its lowest. leat's streams have no priorities: the number is kept as it is
 * given, and the layer limits it to its vendor's range. */
#define LEATC_PRIORITY_HIGHEST (-5)

static inline int leatc_priority_limited(int priority, int highest, int lowest)
{
    return priority < highest ? highest : priority > lowest ? lowest : priority;
}

LEATC_API int leatc_stream_create(unsigned flags, int priority, struct leatc_stream **stream);

/* Does not wait. The default streams are INVALID_HANDLE. */
LEATC_API int leatc_stream_destroy(struct leatc_stream *stream);
LEATC_API int leatc_stream_synchronize(struct leatc_stream *stream);
LEATC_API int leatc_stream_query(struct leatc_stream *stream);

/* The same without ordering a blocking stream after the legacy default stream's work first: asks only for what the
 * stream was given. Of the legacy default stream as leatc_stream_query(). */
LEATC_API int leatc_stream_query_own(struct leatc_stream *stream);

/* Is it a stream that may be used? */
LEATC_API int leatc_stream_check(struct leatc_stream *stream);
LEATC_API int leatc_stream_flags(struct leatc_stream *stream, unsigned *flags);
LEATC_API int leatc_stream_priority(struct leatc_stream *stream, int *priority);
LEATC_API int leatc_stream_ordinal(struct leatc_stream *stream, int *ordinal);
LEATC_API int leatc_stream_id(struct leatc_stream *stream, unsigned long long *id);

/* How threads wait for a stream, by the vendors' numbers 1 (as the device's flags say) to 4: kept, as a hint. */
LEATC_API int leatc_stream_set_policy(struct leatc_stream *stream, int policy);
LEATC_API int leatc_stream_policy(struct leatc_stream *stream, int *policy);

/* Calls function(argument) in stream order. INVALID_VALUE: function NULL. */
LEATC_API int leatc_stream_host_function(struct leatc_stream *stream, void (*function)(void *), void *argument);

/* The older form: the callback is reported its stream and the result so far (LEATC_OK). */
LEATC_API int leatc_stream_callback(struct leatc_stream *stream,
                                    void (*callback)(void *stream, int result, void *argument), void *argument);

/* Where work goes. */
struct leatc_work {
    leat_stream *stream;
    struct leatc_stream *record;
    int ordinal;
    bool captured; /* it goes to leatc_capture_add(), and there is no leatc_work_end() */
};

/* A stream that is captured: CAPTURE_UNSUPPORTED, and the capture is invalid. */
LEATC_API int leatc_work_begin(struct leatc_stream *stream, struct leatc_work *work);

/* The same for what can be captured. CAPTURE_INVALIDATED. */
LEATC_API int leatc_work_begin_capturable(struct leatc_stream *stream, struct leatc_work *work);

/* status: what leat said of the work. */
LEATC_API int leatc_work_end(struct leatc_work *work, leat_status status);

/* ---- events --------------------------------------------------------------------------------------------- */

struct leatc_event;

#define LEATC_EVENT_BLOCKING_SYNC 1u
#define LEATC_EVENT_DISABLE_TIMING 2u
#define LEATC_EVENT_INTERPROCESS 4u

/* INVALID_VALUE: flags that there are not, or INTERPROCESS without DISABLE_TIMING. CAPTURED_EVENT from what asks
 * or waits for an event that was last recorded in a capture. */
LEATC_API int leatc_event_create(unsigned flags, struct leatc_event **event);
LEATC_API int leatc_event_destroy(struct leatc_event *event);
LEATC_API int leatc_event_record(struct leatc_event *event, struct leatc_stream *stream);
LEATC_API int leatc_event_synchronize(struct leatc_event *event);
LEATC_API int leatc_event_query(struct leatc_event *event);

/* INVALID_HANDLE: one without timing, of another device, or never recorded. NOT_READY. */
LEATC_API int leatc_event_elapsed(float *milliseconds, struct leatc_event *start, struct leatc_event *end);

/* Work given to stream from now on waits for what event marks now. */
LEATC_API int leatc_stream_wait(struct leatc_stream *stream, struct leatc_event *event);

/* In a captured stream: a node that records the event, or waits for it, when the graph runs. Elsewhere as without
 * the name. */
LEATC_API int leatc_event_record_external(struct leatc_event *event, struct leatc_stream *stream);
LEATC_API int leatc_stream_wait_external(struct leatc_stream *stream, struct leatc_event *event);
LEATC_API int leatc_event_check(struct leatc_event *event);

/* ---- memory --------------------------------------------------------------------------------------------- */

enum leatc_memory_kind {
    LEATC_MEMORY_PAGEABLE = 0, /* nothing that is known */
    LEATC_MEMORY_HOST = 1,     /* pinned, from leatc_alloc_host() */
    LEATC_MEMORY_DEVICE = 2,
    LEATC_MEMORY_MANAGED = 3,
    LEATC_MEMORY_REGISTERED = 4 /* the program's own, from leatc_register() */
};

struct leatc_pool;

/* One allocation. */
struct leatc_memory {
    void *base;
    size_t bytes; /* as asked for */
    enum leatc_memory_kind kind;
    int ordinal;             /* the device that was current, or that has it */
    unsigned flags;          /* of leatc_alloc_host(), leatc_register() or leatc_alloc_managed() */
    struct leatc_pool *pool; /* of leatc_alloc_async(), else NULL */
    unsigned long long id;   /* no other allocation of the process has it */
    bool foreign;            /* mapped by a layer (virtual or imported memory): no leatc_free() takes it */
    bool sharable;           /* of leatc_alloc(): leatc_share_memory() takes it */
    bool synchronous;        /* what is not asynchronous by its name waits for the end of copies and fills here */
    bool reported, sent;     /* managed memory that was advised, or prefetched (which is both) */
    bool idle;               /* of a graph, and not live: only nodes may be given it */
    struct leatc_block *block; /* memory of a graph: the engine's own record of it */
};

/* The allocation that ptr lies in; kind PAGEABLE when nothing is known. Always LEATC_OK but for ptr NULL. */
LEATC_API int leatc_memory_find(const void *ptr, struct leatc_memory *memory);

/* Sets synchronous for the allocation that ptr lies in. INVALID_VALUE: it is not device memory. */
LEATC_API int leatc_memory_set_synchronous(const void *ptr, bool on);

/* A layer's own ranges (virtual memory that is mapped): known from add to remove. */
LEATC_API int leatc_memory_add(const struct leatc_memory *memory);
LEATC_API int leatc_memory_remove(void *base);

/* The same if give_back(base) says LEATC_OK, and nobody looks anything up meanwhile: addresses that go back may be
 * another allocation's at once, and what stays is known all the time. Returns what it said. */
LEATC_API int leatc_memory_end(void *base, int (*give_back)(void *base));

/* Says of a range that was added which device has it now. The range is known all the while: others may be using
 * it. INVALID_VALUE: none starts at base. */
LEATC_API int leatc_memory_set_device(void *base, int ordinal);

/* Device memory of the current device. bytes 0 gives NULL. */
LEATC_API int leatc_alloc(size_t bytes, void **ptr);

/* Waits for the device. NULL does nothing. INVALID_VALUE: not the start of device or managed memory. */
LEATC_API int leatc_free(void *ptr);

#define LEATC_HOST_PORTABLE 1u
#define LEATC_HOST_MAPPED 2u
#define LEATC_HOST_WRITE_COMBINED 4u

/* Pinned memory. The layer has checked flags; they are kept. bytes 0 gives NULL. */
LEATC_API int leatc_alloc_host(size_t bytes, unsigned flags, void **ptr);
LEATC_API int leatc_free_host(void *ptr);

/* INVALID_VALUE: NULL, 0 bytes; REGISTERED; NOT_REGISTERED. The layer has checked flags. */
LEATC_API int leatc_register(void *ptr, size_t bytes, unsigned flags);
LEATC_API int leatc_unregister(void *ptr);

/* Of pinned and registered memory. INVALID_VALUE for any other. */
LEATC_API int leatc_host_flags(const void *ptr, unsigned *flags);
LEATC_API int leatc_host_device_pointer(void *ptr, void **device_pointer);

/* flags: 1 global, 2 host, 4 single stream. INVALID_VALUE: bytes 0 or other flags. NOT_SUPPORTED. */
LEATC_API int leatc_alloc_managed(size_t bytes, unsigned flags, void **ptr);

/* Rows of arrays, and what NVIDIA aligns rows to. */
#define LEATC_PITCH_BYTES 512

/* What one row of width_bytes takes when every row is aligned to alignment, a power of two; 0 when that overflows.
 */
LEATC_API size_t leatc_pitch(size_t width_bytes, size_t alignment);

/* ---- managed memory ----------------------------------------------------------------------------------------- */

#define LEATC_HOST (-1)

/*
 * Prefetch, advice and questions, as leat/managed.h has them; ordinal is a device or LEATC_HOST. INVALID_VALUE:
 * not managed memory, past its end, 0 bytes, an advice that there is not; INVALID_DEVICE.
 */
LEATC_API int leatc_prefetch(const void *ptr, size_t bytes, int ordinal, struct leatc_stream *stream);
LEATC_API int leatc_advise(const void *ptr, size_t bytes, int advice, int ordinal);
LEATC_API int leatc_managed_query(const void *ptr, size_t bytes, leat_managed_info *info);

/* A layer that advises (or prefetches: sent) by itself says so before it does: what was said ends with the memory.
 */
LEATC_API void leatc_managed_reported(const void *ptr, bool sent);

/* flags: 1 global, 2 host, 4 single stream. bytes: 0, or the size of the allocation, of which ptr is the start. */
LEATC_API int leatc_attach(struct leatc_stream *stream, void *ptr, size_t bytes, unsigned flags);

/* ---- pools ---------------------------------------------------------------------------------------------- */

/* The attributes' numbers are both vendors'. */
enum leatc_pool_attribute {
    LEATC_POOL_REUSE_FOLLOW_EVENTS = 1, /* int */
    LEATC_POOL_REUSE_OPPORTUNISTIC = 2, /* int */
    LEATC_POOL_REUSE_INTERNAL = 3,      /* int */
    LEATC_POOL_RELEASE_THRESHOLD = 4,   /* uint64_t, as all that follow */
    LEATC_POOL_RESERVED_CURRENT = 5,    /* read only */
    LEATC_POOL_RESERVED_HIGH = 6,       /* may be set to 0 */
    LEATC_POOL_USED_CURRENT = 7,        /* read only */
    LEATC_POOL_USED_HIGH = 8            /* may be set to 0 */
};

/* exportable: blocks are whole multiples of 2 MiB that another process can be given. max_bytes: rounded up to a
 * multiple of 2 MiB; 0, no limit. */
LEATC_API int leatc_pool_create(int ordinal, bool exportable, size_t max_bytes, struct leatc_pool **pool);

/* Blocks that are live stay so; the pool ends with the last of them. The default pools: INVALID_VALUE. */
LEATC_API int leatc_pool_destroy(struct leatc_pool *pool);
LEATC_API int leatc_pool_default(int ordinal, struct leatc_pool **pool);

/* The pool that leatc_alloc_async() takes for a device: the default one unless another was set. */
LEATC_API int leatc_pool_current(int ordinal, struct leatc_pool **pool);
LEATC_API int leatc_pool_set_current(int ordinal, struct leatc_pool *pool);
LEATC_API int leatc_pool_set(struct leatc_pool *pool, int attribute, const void *value);
LEATC_API int leatc_pool_get(struct leatc_pool *pool, int attribute, void *value);
LEATC_API int leatc_pool_trim(struct leatc_pool *pool, size_t keep_bytes);

/* access: 0 none, 1 read, 3 read and write. The pool's own device has 3, and keeps it (INVALID_DEVICE). */
LEATC_API int leatc_pool_set_access(struct leatc_pool *pool, int ordinal, unsigned access);
LEATC_API int leatc_pool_access(struct leatc_pool *pool, int ordinal, unsigned *access);
LEATC_API int leatc_pool_check(struct leatc_pool *pool);

/* In stream order. pool NULL: the current one of the stream's device. bytes 0: INVALID_VALUE is the layer's
 * choice; here *ptr becomes NULL. */
LEATC_API int leatc_alloc_async(struct leatc_pool *pool, size_t bytes, struct leatc_stream *stream, void **ptr);
LEATC_API int leatc_free_async(void *ptr, struct leatc_stream *stream);

/* ---- other processes ---------------------------------------------------------------------------------------- */

/* A handle: what the vendors' structs for handles have room for. */
#define LEATC_SHARE_BYTES 64

/*
 * A handle for the allocation that ptr lies in, for another process. It works while the allocation and this
 * process live. Memory is shared in whole pages of its own: that of exportable pools, and on the CPU device what
 * leatc_alloc() gave, but for small blocks while there are thousands. INVALID_VALUE: not device memory;
 * NOT_SUPPORTED: memory that is not of such a kind.
 */
LEATC_API int leatc_share_memory(const void *ptr, void *handle);

/* Maps it for the current device; the same handle again gives the same address, and wants another close.
 * INVALID_VALUE: no handle, or its memory is gone, or another process than the one that made it answers;
 * INVALID_CONTEXT: a handle of this process; OPERATING_SYSTEM: the process did not answer in 5 seconds, or this
 * one has no descriptor free. */
LEATC_API int leatc_share_open(const void *handle, void **ptr);

/* Waits for the device. INVALID_VALUE: not an address of leatc_share_open(). */
LEATC_API int leatc_share_close(void *ptr);

/* A file descriptor that stands for an exportable pool, and a pool for it: nothing can be allocated from that, it
 * is there for pointers. with_access: it begins with the access by device that the exported pool had.
 * INVALID_VALUE: not exportable; no descriptor of a pool. */
LEATC_API int leatc_share_pool(struct leatc_pool *pool, int *fd);
LEATC_API int leatc_share_open_pool(int fd, bool with_access, struct leatc_pool **pool);

/* What leatc_share_memory() and leatc_share_open() do, for a block of an exportable pool, and in this process too.
 * It is opened on the pool's device. INVALID_VALUE: of no such pool; data that is none, or of another pool than
 * the one that pool stands for. */
LEATC_API int leatc_share_pointer(const void *ptr, void *data);
LEATC_API int leatc_share_open_pointer(struct leatc_pool *pool, const void *data, void **ptr);

/* A descriptor as programs give it where a pointer is wanted: by value in the low half, whatever the high half
 * has, or by its address. INVALID_VALUE: neither is an open descriptor. No address is read that is not mapped. */
LEATC_API int leatc_share_descriptor(const void *handle, int *fd);

/* A handle for an event with LEATC_EVENT_INTERPROCESS (else INVALID_VALUE), and another event for it in another
 * process (else INVALID_CONTEXT): both mark the same place, whoever records. Work that waits for it waits by a
 * host function. */
LEATC_API int leatc_share_event(struct leatc_event *event, void *handle);
LEATC_API int leatc_share_open_event(const void *handle, struct leatc_event **event);

/* ---- copies and fills ----------------------------------------------------------------------------------- */

/* The vendors' numbers of copy kinds. */
enum leatc_direction {
    LEATC_HOST_TO_HOST = 0,
    LEATC_HOST_TO_DEVICE = 1,
    LEATC_DEVICE_TO_HOST = 2,
    LEATC_DEVICE_TO_DEVICE = 3,
    LEATC_DEFAULT = 4
};

/* Which form of a call it is. A layer may give a bool that says whether it is asynchronous. */
enum leatc_mode { LEATC_SYNC = 0, LEATC_ASYNC = 1, LEATC_PEER = 2 };

/*
 * Copies. direction is checked against the pointers: pageable memory is no device's, device memory no host's;
 * pinned and managed memory are both. INVALID_DIRECTION: no such number; INVALID_VALUE: it does not fit, NULL, or
 * past the end of an allocation. Overlapping ranges are copied as memmove would.
 *
 * When the call returns, for both vendors ("API synchronization behavior"). LEATC_SYNC and LEATC_PEER: with any
 * host memory, or memory that was set synchronous, the bytes have arrived at the return (a pageable source has
 * been read at least); from device to device it returns at once. LEATC_ASYNC: to pageable memory, or from host to
 * host, the bytes have arrived; a pageable source has been read; else it returns at once.
 *
 * What a copy comes after, and what comes after it:
 *
 * - LEATC_ASYNC: its stream, and nothing else.
 * - LEATC_SYNC: its stream, and the legacy default stream of each other device whose memory it uses, and so that
 *   device's blocking streams. AMD's runtime makes such copies in these streams. NVIDIA's manual does not say it
 *   of memory of a device that is not current; waiting is the safe reading. Pinned and managed memory is of no
 *   device here.
 * - LEATC_SYNC in the legacy default stream from one device's memory to another's, and LEATC_PEER (the names with
 *   Peer but without Async): all streams of the current device and of the two, non-blocking ones included.
 *   NVIDIA's manual says "all pending and future asynchronous work" of these devices, and means it here.
 *
 * Work that another thread gives at the same time has no order with the copy. CAPTURE_IMPLICIT: a blocking stream
 * of one of these devices is captured.
 */
LEATC_API int leatc_copy(void *dst, const void *src, size_t bytes, int direction, struct leatc_stream *stream,
                         enum leatc_mode mode);

/* A region of bytes: sizes and steps as in leat_copy_region; x, y, z are added to the pointers by the caller. */
LEATC_API int leatc_copy_region(void *dst, const void *src, const leat_copy_region *region, int direction,
                                struct leatc_stream *stream, enum leatc_mode mode);

/*
 * Repeats the low unit_bytes (1, 2 or 4) of value count times. Returns at once for device memory; for pinned and
 * managed memory when it is done, unless mode is LEATC_ASYNC. Pageable memory is INVALID_VALUE. What it comes
 * after, and what comes after it, is as for copies; LEATC_PEER is LEATC_SYNC.
 */
LEATC_API int leatc_fill(void *dst, uint32_t value, unsigned unit_bytes, size_t count, struct leatc_stream *stream,
                         enum leatc_mode mode);

/* The same for depth slices of height rows of width units; slice z begins at z * slice_bytes. */
LEATC_API int leatc_fill_region(void *dst, size_t pitch_bytes, size_t slice_bytes, uint32_t value,
                                unsigned unit_bytes, size_t width, size_t height, size_t depth,
                                struct leatc_stream *stream, enum leatc_mode mode);

/* ---- symbols -------------------------------------------------------------------------------------------- */

/*
 * Symbols are variables of the program or of a library that it has loaded, named by their address; kernels of the
 * CPU device use them where they are. INVALID_SYMBOL: no variable starts at the address, or the current device is
 * a GPU.
 *
 * leatc_symbol_range() gives the address of count bytes from offset on; INVALID_VALUE: past the symbol's end. In a
 * stripped program a variable that is not in the dynamic symbol table (link with -rdynamic) is only bounded by the
 * segment that it lies in, and leatc_symbol_bytes() does not know it (INVALID_SYMBOL).
 */
LEATC_API int leatc_symbol_range(const void *symbol, size_t offset, size_t count, void **ptr);
LEATC_API int leatc_symbol_bytes(const void *symbol, size_t *bytes);

/* ---- arrays --------------------------------------------------------------------------------------------- */

/* Arrays are pitched device memory that only their handle names. Sizes are elements; 0 where a dimension is
 * missing. */
struct leatc_array;
struct leatc_array_shape {
    size_t width, height, depth;
    unsigned element_bytes;
    int channel_bits[4]; /* kept for the layer */
    int channel_kind;
    unsigned flags;
};

/* INVALID_VALUE: a width or an element of 0 bytes, or a depth without a height. */
LEATC_API int leatc_array_create(const struct leatc_array_shape *shape, struct leatc_array **array);

/* NULL does nothing. INVALID_HANDLE: not alive. Waits for the device. */
LEATC_API int leatc_array_destroy(struct leatc_array *array);

/* The array that ptr lies in, and where; false: in none. */
struct leatc_array_place {
    struct leatc_array *array;
    size_t x_bytes, y, z;
    unsigned element_bytes;
};
LEATC_API bool leatc_array_at(const void *ptr, struct leatc_array_place *place);

/* What and where it is. All but array may be NULL. */
LEATC_API int leatc_array_describe(const struct leatc_array *array, struct leatc_array_shape *shape, void **ptr,
                                   size_t *pitch_bytes, size_t *slice_bytes);

/* ---- kernels -------------------------------------------------------------------------------------------- */

/*
 * Launches by function pointer: function is registered (leat/compat/kernel_support.h), or the address of the
 * leat_cpu_kernel that LEAT_KERNEL(name, ...) defines, leat_cpu_kernel_name, or a kernel of
 * leatc_library_kernel(). INVALID_FUNCTION: it is none of these, or the device is a GPU and has no code for it;
 * INVALID_CONFIGURATION: sizes that the device does not run; INVALID_VALUE: more dynamic shared memory than
 * leatc_function_shared() allows.
 */
LEATC_API int leatc_function_check(const void *function);
LEATC_API int leatc_launch(const void *function, leat_dim3 grid, leat_dim3 block, void **args, size_t shared_bytes,
                           struct leatc_stream *stream);

/* Cooperative launch: all blocks run concurrently and may wait for one another. TOO_LARGE: more blocks than all
 * units can run (leatc_occupancy()). NOT_SUPPORTED: function is not registered. */
LEATC_API int leatc_launch_together(const void *function, leat_dim3 grid, leat_dim3 block, void **args,
                                    size_t shared_bytes, struct leatc_stream *stream);

/* Number of blocks that a unit of the device can run concurrently, from the device's limits. INVALID_VALUE: no
 * threads.
 */
LEATC_API int leatc_occupancy(int ordinal, int block_threads, size_t shared_bytes, int *blocks);

/* Limit of dynamic shared memory per launch: for registered kernels 48 KiB unless another was set; SIZE_MAX for
 * others, which the device checks. */
#define LEATC_SHARED_BYTES ((size_t)48 << 10)
LEATC_API size_t leatc_function_shared(const void *function);
LEATC_API void leatc_function_set_shared(const void *function, size_t bytes);

/* The kernel registered under a name, as in the source or mangled for a function outside of namespaces. NULL: none
 * or several. */
struct leat_registered_kernel;
LEATC_API const struct leat_registered_kernel *leatc_kernel_named(const char *symbol);

/* Reports that a kernel has failed: until the device is reset, result is the last error of all threads and
 * leatc_note() returns it instead of OK. leatc_lost() returns it, or OK. */
LEATC_API void leatc_lose(int result);
LEATC_API int leatc_lost(void);

/* Clears such a failure and the last error, when the device is reset or the context destroyed. */
LEATC_API void leatc_error_clear(void);

/* Sets the size of stacks for threads of a block, from 256 KiB (the default) to 1 GiB, for stacks taken from now
 * on. */
LEATC_API void leatc_stack_want(size_t bytes);

/* Device code from memory or from a file: PTX, a cubin, or a shared object for the CPU device. It is loaded on
 * each device at the first use of a kernel there. INVALID_IMAGE, NOT_FOUND. */
struct leatc_library;
LEATC_API int leatc_library_load(const void *image, size_t bytes, const char *path,
                                 struct leatc_library **library);
LEATC_API int leatc_library_unload(struct leatc_library *library);
LEATC_API int leatc_library_kernel(struct leatc_library *library, const char *name, void **kernel);

#include "engine/graph.h"

#endif
