/*
 * engine.h - declares the engine: the implementation that the compatibility libraries share.
 *
 * Model. libleat-cudart, libleat-cuda and libleat-hip export the names of CUDA's runtime, CUDA's driver and HIP,
 * implemented with leat's public API. The three APIs share their concepts: devices by ordinal, a current device
 * for each thread, a default stream that is ordered with other streams, and kinds of memory that decide which
 * calls are synchronous. The engine (this folder, libleat-compat.so) implements all of that once, without a
 * vendor's names. Each of the three libraries is a thin layer over it. A layer converts its vendor's structs and
 * constants to the engine's, calls the engine, converts the result if its vendor uses another number, and records
 * the result as the thread's last error:
 *
 *      cudaError_t cudaEventQuery(cudaEvent_t event)
 *      {
 *          return leatc_note(leatc_event_query(event));
 *      }
 *
 * libleat-cufile, the cuFile API, uses the engine's devices and streams too. Its results are cuFile's own.
 *
 * Because the engine is one library, the three APIs share streams, events, pointers and the current device within
 * a process, as the vendors' libraries do.
 *
 * Results. Calls return an enum leatc_result, whose values are CUDA's error numbers (the runtime and the driver
 * API use the same ones). Comments leave out the prefix LEATC_: "INVALID_VALUE: ptr is NULL" means that the call
 * returns LEATC_INVALID_VALUE if ptr is NULL. Only leatc_note() and the functions next to it read or change the
 * last error.
 *
 * Handles. A stream, event, pool or array is a slot of a table, so a call detects any pointer that is not a live
 * handle and returns LEATC_INVALID_HANDLE (arrays and pools: LEATC_INVALID_VALUE). A stream argument may also be
 * NULL or LEATC_STREAM_LEGACY, which mean the legacy default stream of the current device, or
 * LEATC_STREAM_PER_THREAD, the per-thread default stream on the current device. For names whose NULL means the
 * per-thread stream (_ptsz, _ptds, _spt), layers pass leatc_per_thread(stream).
 *
 * Work. Code that submits work to a stream calls leatc_work_begin() before it and leatc_work_end() after it. The
 * first makes the stream wait for the legacy default stream if CUDA's rules require that, and returns the leat
 * stream. The second records that the stream has new work. The functions of this header that take a stream call
 * both themselves.
 *
 * Devices belong to one leat driver: the driver that LEAT_DEVICE names if it is set, or else the first driver that
 * has a device. Of its devices, the vendors' variables (CUDA_VISIBLE_DEVICES and others) select the visible ones.
 * A device is opened by the first call that needs it, and stays open until it is reset or the process ends.
 *
 * Threads. Any thread may call any function.
 */
#ifndef LEATC_ENGINE_H
#define LEATC_ENGINE_H

#include <leat/leat.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEATC_API __attribute__((visibility("default")))

/* The version of CUDA's driver that libleat-cuda is. */
#define LEATC_CUDA_DRIVER_VERSION 13000

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

/* Converts a status of leat to a result. */
LEATC_API int leatc_result_of(leat_status status);

#ifdef __clang_analyzer__
/* For 'make tidy', which analyzes one file at a time: tells the analyzer that a failure never becomes LEATC_OK. */
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
 * Records result as this thread's last error and returns it. LEATC_OK and LEATC_NOT_READY are not recorded. A
 * result that means a lost device (700, 719 and the like) is sticky: reading the last error does not clear it,
 * only resetting the device does. Any number is allowed, so a layer converts to its vendor's numbers before the
 * call.
 */
LEATC_API int leatc_note(int result);

/* Like leatc_note(), for a launch. A launch must not report a failure of the kernel that it has just submitted. */
LEATC_API int leatc_note_launch(int result);

/* Returns true if a layer has recorded any result in this process. A layer with contexts calls this: if a layer
 * without contexts is in use too, each device's primary context counts as current before a call makes it
 * current. */
LEATC_API bool leatc_has_noted(void);

/* Return the last error. leatc_last_error() also clears it. */
LEATC_API int leatc_last_error(void);
LEATC_API int leatc_peek_error(void);

/* ---- devices -------------------------------------------------------------------------------------------- */

#define LEATC_DEVICES_MAX 64

/* Records that the process uses HIP's names. Call it before the devices are found. ROCR_VISIBLE_DEVICES and
 * HIP_VISIBLE_DEVICES then select devices too, not only CUDA_VISIBLE_DEVICES. */
LEATC_API void leatc_announce_hip(void);

/* Finds the devices, at the first call. Fails with NO_DEVICE or INSUFFICIENT_DRIVER. */
LEATC_API int leatc_init(void);

/* Sets *count to the number of devices. Without devices, sets it to 0 and returns NO_DEVICE. */
LEATC_API int leatc_device_count(int *count);

/* Returns this thread's current device, which is 0 until it is set. */
LEATC_API int leatc_device_get(int *ordinal);

/* Makes a device current and opens it. INVALID_DEVICE: there is no such device; other results: opening it
 * failed. */
LEATC_API int leatc_device_set(int ordinal);

/* Makes a device current that was current before. Does not open it. */
LEATC_API int leatc_device_return(int ordinal);

/* Opens a device, unless it is open. device may be NULL. */
LEATC_API int leatc_device_open(int ordinal, leat_device **device);

/* Returns true if the device is open. The layer of CUDA's driver API then reports its primary context as
 * active. */
LEATC_API bool leatc_device_is_open(int ordinal);

/* Returns true if a layer has recorded a result while the device was open and the calling thread's current device.
 * A reset of the device makes this false again. Layers with contexts do not record results, so true means that a
 * layer without contexts uses the device. */
LEATC_API bool leatc_device_is_noted(int ordinal);

/* Waits for all work of the device. */
LEATC_API int leatc_device_synchronize(int ordinal);

/* Waits for all work of all devices, even if a stream is being captured. Called before memory is freed that any
 * device may use. */
LEATC_API int leatc_devices_wait(void);

/* Destroys everything on the device: streams, events, memory, pools. Clears a sticky error. */
LEATC_API int leatc_device_reset(int ordinal);

/* Returns leat's description of a device without opening it. INVALID_DEVICE: there is no such device. */
LEATC_API int leatc_device_describe(int ordinal, leat_device_info *info);

/* Returns free and total memory. Memory that leat's pools hold unused counts as free. Either pointer may be
 * NULL. */
LEATC_API int leatc_device_memory(int ordinal, size_t *free_bytes, size_t *total_bytes);

/* Returns the ordinal of an open leat device, or -1 if that device is not visible. */
LEATC_API int leatc_device_ordinal(const leat_device *device);

/*
 * Returns an attribute by its number in cudaDeviceAttr and CUdevice_attribute. INVALID_VALUE: no such attribute.
 */
enum {
    LEATC_ATTRIBUTE_UNITS = 16,
    LEATC_ATTRIBUTE_UNIT_THREADS = 39,
    LEATC_ATTRIBUTE_UNIT_SHARED = 81,
    LEATC_ATTRIBUTE_UNIT_BLOCKS = 106
};
LEATC_API int leatc_device_attribute(int ordinal, int number, int *value);

/* Returns the maximum size of arrays in one dimension. number: the attribute of the corresponding limit of
 * textures. */
LEATC_API int leatc_array_limit(int number);

/* Returns a number that changes when the device is reset, which unloads its modules. */
LEATC_API uint64_t leatc_device_generation(int ordinal);

/* Returns a device's PCI address as numbers, the 16 bytes of its UUID, or the device with an address such as
 * "0000:1b:00.0". CPU devices have invented addresses. */
LEATC_API int leatc_device_address(int ordinal, int *domain, int *bus, int *slot);
LEATC_API int leatc_device_uuid(int ordinal, unsigned char uuid[16]);
LEATC_API int leatc_device_by_address(const char *text, int *ordinal);

/* Peer access of the current device to another device. leatc_peer_possible(): returns whether ordinal can access
 * the memory of peer. leatc_peer_enable(): PEER_ENABLED if access is enabled already. leatc_peer_disable():
 * PEER_NOT_ENABLED if access is not enabled. INVALID_DEVICE: the device and the peer are the same device. */
LEATC_API int leatc_peer_possible(int ordinal, int peer, int *possible);
LEATC_API int leatc_peer_enable(int peer, unsigned flags);
LEATC_API int leatc_peer_disable(int peer);

/* A device's flags, as in cudaSetDeviceFlags(). They are stored and returned, and have no effect. */
LEATC_API int leatc_device_set_flags(int ordinal, unsigned flags);
LEATC_API int leatc_device_flags(int ordinal, unsigned *flags);

/* ---- streams -------------------------------------------------------------------------------------------- */

struct leatc_stream;

#define LEATC_STREAM_LEGACY ((struct leatc_stream *)0x1)
#define LEATC_STREAM_PER_THREAD ((struct leatc_stream *)0x2)

/* Converts the stream argument of a name whose NULL means the per-thread default stream. */
static inline struct leatc_stream *leatc_per_thread(void *stream)
{
    return stream ? (struct leatc_stream *)stream : LEATC_STREAM_PER_THREAD;
}

#define LEATC_STREAM_NON_BLOCKING 1u

/* CUDA's highest priority; 0 is its lowest. A stream's priority is stored and returned, and has no effect, because
 * leat's streams have no priorities. The layer limits it to its vendor's range. */
#define LEATC_PRIORITY_HIGHEST (-5)

static inline int leatc_priority_limited(int priority, int highest, int lowest)
{
    return priority < highest ? highest : priority > lowest ? lowest : priority;
}

LEATC_API int leatc_stream_create(unsigned flags, int priority, struct leatc_stream **stream);

/* Destroys a stream without waiting for its work. INVALID_HANDLE: a default stream, or no live handle. */
LEATC_API int leatc_stream_destroy(struct leatc_stream *stream);
LEATC_API int leatc_stream_synchronize(struct leatc_stream *stream);
LEATC_API int leatc_stream_query(struct leatc_stream *stream);

/* Like leatc_stream_query(), except that a blocking stream does not first wait for the legacy default stream: the
 * result covers only work that was submitted to this stream. For the legacy default stream both functions are the
 * same. */
LEATC_API int leatc_stream_query_own(struct leatc_stream *stream);

/* Returns OK if the handle is a live or default stream. */
LEATC_API int leatc_stream_check(struct leatc_stream *stream);
LEATC_API int leatc_stream_flags(struct leatc_stream *stream, unsigned *flags);
LEATC_API int leatc_stream_priority(struct leatc_stream *stream, int *priority);
LEATC_API int leatc_stream_ordinal(struct leatc_stream *stream, int *ordinal);
LEATC_API int leatc_stream_id(struct leatc_stream *stream, unsigned long long *id);

/* How threads wait for a stream: the vendors' values 1 (as the device's flags say) to 4. The value is stored and
 * returned, and has no effect. */
LEATC_API int leatc_stream_set_policy(struct leatc_stream *stream, int policy);
LEATC_API int leatc_stream_policy(struct leatc_stream *stream, int *policy);

/* Calls function(argument) in stream order. INVALID_VALUE: function is NULL. */
LEATC_API int leatc_stream_host_function(struct leatc_stream *stream, void (*function)(void *), void *argument);

/* Like leatc_stream_host_function(), for the vendors' older callbacks, which get the stream and LEATC_OK. */
LEATC_API int leatc_stream_callback(struct leatc_stream *stream,
                                    void (*callback)(void *stream, int result, void *argument), void *argument);

/* A stream to which work is being submitted. */
struct leatc_work {
    leat_stream *stream;
    struct leatc_stream *record;
    int ordinal;
    bool captured; /* the stream is being captured: pass the work to leatc_capture_add(), and do not call
                    * leatc_work_end() */
};

/* Begins work that cannot be captured. If the stream is being captured, invalidates the capture and returns
 * CAPTURE_UNSUPPORTED. */
LEATC_API int leatc_work_begin(struct leatc_stream *stream, struct leatc_work *work);

/* Begins work that can be captured; check work->captured afterwards. CAPTURE_INVALIDATED: the capture is
 * invalid. */
LEATC_API int leatc_work_begin_capturable(struct leatc_stream *stream, struct leatc_work *work);

/* Ends work. status is the result of the leat call that submitted the work; it is returned as a leatc_result. */
LEATC_API int leatc_work_end(struct leatc_work *work, leat_status status);

/* ---- events --------------------------------------------------------------------------------------------- */

struct leatc_event;

#define LEATC_EVENT_BLOCKING_SYNC 1u
#define LEATC_EVENT_DISABLE_TIMING 2u
#define LEATC_EVENT_INTERPROCESS 4u

/* Creates an event. INVALID_VALUE: unknown flags, or INTERPROCESS without DISABLE_TIMING. If an event was last
 * recorded in a capture, calls that query it or wait for it return CAPTURED_EVENT. */
LEATC_API int leatc_event_create(unsigned flags, struct leatc_event **event);
LEATC_API int leatc_event_destroy(struct leatc_event *event);
LEATC_API int leatc_event_record(struct leatc_event *event, struct leatc_stream *stream);
LEATC_API int leatc_event_synchronize(struct leatc_event *event);
LEATC_API int leatc_event_query(struct leatc_event *event);

/* Returns the time between the latest records of two events. INVALID_HANDLE: an event has no timing, belongs to
 * another device, or was never recorded. NOT_READY: the work before a record has not completed. */
LEATC_API int leatc_event_elapsed(float *milliseconds, struct leatc_event *start, struct leatc_event *end);

/* Later work of stream waits for the latest record of event. */
LEATC_API int leatc_stream_wait(struct leatc_stream *stream, struct leatc_event *event);

/* In a captured stream, these calls add a node that records the event, or waits for it, whenever the graph runs.
 * In other streams they do the same as leatc_event_record() and leatc_stream_wait(). */
LEATC_API int leatc_event_record_external(struct leatc_event *event, struct leatc_stream *stream);
LEATC_API int leatc_stream_wait_external(struct leatc_stream *stream, struct leatc_event *event);
LEATC_API int leatc_event_check(struct leatc_event *event);

/* ---- memory --------------------------------------------------------------------------------------------- */

enum leatc_memory_kind {
    LEATC_MEMORY_PAGEABLE = 0, /* memory that the engine does not know */
    LEATC_MEMORY_HOST = 1,     /* pinned, from leatc_alloc_host() */
    LEATC_MEMORY_DEVICE = 2,
    LEATC_MEMORY_MANAGED = 3,
    LEATC_MEMORY_REGISTERED = 4 /* memory of the program, from leatc_register() */
};

struct leatc_pool;

/* The engine's record of an allocation. */
struct leatc_memory {
    void *base;
    size_t bytes; /* the requested size */
    enum leatc_memory_kind kind;
    int ordinal;             /* the device that has the memory; for host memory, the device that was current when
                              * it was allocated */
    unsigned flags;          /* as passed to leatc_alloc_host(), leatc_register() or leatc_alloc_managed() */
    struct leatc_pool *pool; /* the pool of memory from leatc_alloc_async(), else NULL */
    unsigned long long id;   /* unique among the allocations of the process */
    bool foreign;            /* mapped by a layer (virtual or imported memory): leatc_free() rejects it */
    bool sharable;           /* memory from leatc_alloc() that leatc_share_memory() can share */
    bool synchronous;        /* calls without Async in their names wait until their copies and fills of this memory
                              * complete */
    bool reported, sent;     /* managed memory: reported means advised or prefetched, sent means prefetched */
    bool idle;               /* graph memory that is not live at present: only nodes may use it */
    struct leatc_block *block; /* the engine's record of memory of a graph; NULL for other memory */
};

/* Returns the allocation that contains ptr. Its kind is PAGEABLE if the engine knows no such allocation.
 * INVALID_VALUE: ptr is NULL. */
LEATC_API int leatc_memory_find(const void *ptr, struct leatc_memory *memory);

/* Sets the field synchronous of the allocation that contains ptr. INVALID_VALUE: ptr is not device memory. */
LEATC_API int leatc_memory_set_synchronous(const void *ptr, bool on);

/* Add and remove the record of memory that a layer has mapped itself, such as virtual memory. */
LEATC_API int leatc_memory_add(const struct leatc_memory *memory);
LEATC_API int leatc_memory_remove(void *base);

/* Calls give_back(base) and, if that returns LEATC_OK, removes the record of the range. No other thread can look
 * up memory meanwhile: another allocation may get the addresses as soon as give_back() returns, and if give_back()
 * fails, the range must have been found all the time. Returns the result of give_back(). */
LEATC_API int leatc_memory_end(void *base, int (*give_back)(void *base));

/* Sets the device of a range that leatc_memory_add() has added. Other threads find the range throughout.
 * INVALID_VALUE: no range starts at base. */
LEATC_API int leatc_memory_set_device(void *base, int ordinal);

/* Allocates device memory on the current device. If bytes is 0, *ptr becomes NULL. */
LEATC_API int leatc_alloc(size_t bytes, void **ptr);

/* Waits for the device, then frees the memory. If ptr is NULL, does nothing. INVALID_VALUE: ptr is not the start
 * of device or managed memory. */
LEATC_API int leatc_free(void *ptr);

#define LEATC_HOST_PORTABLE 1u
#define LEATC_HOST_MAPPED 2u
#define LEATC_HOST_WRITE_COMBINED 4u

/* Allocates pinned memory and stores flags, which the layer has checked. If bytes is 0, *ptr becomes NULL. */
LEATC_API int leatc_alloc_host(size_t bytes, unsigned flags, void **ptr);
LEATC_API int leatc_free_host(void *ptr);

/* Register and unregister memory of the program. The layer has checked flags. INVALID_VALUE: ptr is NULL or bytes
 * is 0. REGISTERED, NOT_REGISTERED: the memory is registered already, or is not registered. */
LEATC_API int leatc_register(void *ptr, size_t bytes, unsigned flags);
LEATC_API int leatc_unregister(void *ptr);

/* Return the flags and the device pointer of pinned or registered memory; the device pointer also for managed
 * memory. INVALID_VALUE: other memory. */
LEATC_API int leatc_host_flags(const void *ptr, unsigned *flags);
LEATC_API int leatc_host_device_pointer(void *ptr, void **device_pointer);

/* Allocates managed memory. flags: 1 attaches it globally, 2 to the host. INVALID_VALUE: bytes is 0, or other
 * flags. NOT_SUPPORTED: the device has no managed memory. */
LEATC_API int leatc_alloc_managed(size_t bytes, unsigned flags, void **ptr);

/* Alignment of the rows of arrays. It is also the pitch alignment of NVIDIA's GPUs. */
#define LEATC_PITCH_BYTES 512

/* Returns the pitch for rows of width_bytes whose starts are multiples of alignment, a power of two. Returns 0 on
 * overflow. */
LEATC_API size_t leatc_pitch(size_t width_bytes, size_t alignment);

/* ---- managed memory ----------------------------------------------------------------------------------------- */

#define LEATC_HOST (-1)

/*
 * Prefetch, advise and query managed memory, as in leat/managed.h. ordinal is a device or LEATC_HOST.
 * INVALID_VALUE: the range is empty or not within managed memory, or the advice is unknown. INVALID_DEVICE: there
 * is no such device.
 */
LEATC_API int leatc_prefetch(const void *ptr, size_t bytes, int ordinal, struct leatc_stream *stream);
LEATC_API int leatc_advise(const void *ptr, size_t bytes, int advice, int ordinal);
LEATC_API int leatc_managed_query(const void *ptr, size_t bytes, leat_managed_info *info);

/* A layer calls this before it calls leat_managed_advise() or leat_managed_prefetch() itself, so that the engine
 * takes the advice back when the memory is freed. sent: the layer prefetches the memory. */
LEATC_API void leatc_managed_reported(const void *ptr, bool sent);

/* Attaches managed memory to a stream. flags: 1 global, 2 host, 4 single stream. ptr is the start of an
 * allocation; bytes is 0 or its size. */
LEATC_API int leatc_attach(struct leatc_stream *stream, void *ptr, size_t bytes, unsigned flags);

/* ---- pools ---------------------------------------------------------------------------------------------- */

/* Pool attributes, with the numbers that both vendors use. */
enum leatc_pool_attribute {
    LEATC_POOL_REUSE_FOLLOW_EVENTS = 1, /* int */
    LEATC_POOL_REUSE_OPPORTUNISTIC = 2, /* int */
    LEATC_POOL_REUSE_INTERNAL = 3,      /* int */
    LEATC_POOL_RELEASE_THRESHOLD = 4,   /* uint64_t, as are all attributes below */
    LEATC_POOL_RESERVED_CURRENT = 5,    /* read only */
    LEATC_POOL_RESERVED_HIGH = 6,       /* may be set to 0 */
    LEATC_POOL_USED_CURRENT = 7,        /* read only */
    LEATC_POOL_USED_HIGH = 8            /* may be set to 0 */
};

/* Creates a pool. exportable: the pool can share its blocks with other processes, and each block takes a multiple
 * of 2 MiB. max_bytes: rounded up to a multiple of 2 MiB; 0 means no limit. */
LEATC_API int leatc_pool_create(int ordinal, bool exportable, size_t max_bytes, struct leatc_pool **pool);

/* Destroys a pool. Its live blocks stay valid, and the pool ends when the last of them is freed. INVALID_VALUE: a
 * default pool. */
LEATC_API int leatc_pool_destroy(struct leatc_pool *pool);
LEATC_API int leatc_pool_default(int ordinal, struct leatc_pool **pool);

/* Returns the pool from which leatc_alloc_async() allocates for a device: the default pool unless another one was
 * set. */
LEATC_API int leatc_pool_current(int ordinal, struct leatc_pool **pool);
LEATC_API int leatc_pool_set_current(int ordinal, struct leatc_pool *pool);
LEATC_API int leatc_pool_set(struct leatc_pool *pool, int attribute, const void *value);
LEATC_API int leatc_pool_get(struct leatc_pool *pool, int attribute, void *value);
LEATC_API int leatc_pool_trim(struct leatc_pool *pool, size_t keep_bytes);

/* Sets the access of a device to the memory of a pool: 0 none, 1 read, 3 read and write. The pool's own device
 * always has 3. INVALID_DEVICE: another value for that device, or a device without peer access. */
LEATC_API int leatc_pool_set_access(struct leatc_pool *pool, int ordinal, unsigned access);
LEATC_API int leatc_pool_access(struct leatc_pool *pool, int ordinal, unsigned *access);
LEATC_API int leatc_pool_check(struct leatc_pool *pool);

/* Allocates in stream order. If pool is NULL, takes the current pool of the stream's device. If bytes is 0, *ptr
 * becomes NULL; a layer whose vendor requires a failure checks the size itself. */
LEATC_API int leatc_alloc_async(struct leatc_pool *pool, size_t bytes, struct leatc_stream *stream, void **ptr);
LEATC_API int leatc_free_async(void *ptr, struct leatc_stream *stream);

/* ---- sharing with other processes --------------------------------------------------------------------------- */

/* The size of a handle. It fits into the handle structs of all vendors. */
#define LEATC_SHARE_BYTES 64

/*
 * Makes a handle with which another process can map the allocation that contains ptr. The handle is valid while
 * the allocation and this process exist. Only memory whose pages belong to no other allocation can be shared:
 * memory of exportable pools, and on the CPU device memory of leatc_alloc(), except for small blocks beyond the
 * first few hundred. INVALID_VALUE: not device memory. NOT_SUPPORTED: device memory of another kind.
 */
LEATC_API int leatc_share_memory(const void *ptr, void *handle);

/* Maps the memory of a handle for the current device. If the handle is open already, returns the same address;
 * each opening needs its own close. INVALID_VALUE: the handle is not valid, the memory was freed, or the process
 * that answers did not make the handle. INVALID_CONTEXT: this process made the handle. OPERATING_SYSTEM: no answer
 * within 5 seconds, or this process has no free file descriptor. */
LEATC_API int leatc_share_open(const void *handle, void **ptr);

/* Waits for the device, then unmaps the memory. INVALID_VALUE: leatc_share_open() has not returned ptr. */
LEATC_API int leatc_share_close(void *ptr);

/* leatc_share_pool() makes a file descriptor for an exportable pool. leatc_share_open_pool() makes a pool from the
 * descriptor of another process. Nothing can be allocated from that pool; it is only needed to open pointers.
 * with_access: it starts with the access rights of the exported pool. INVALID_VALUE: the pool is not exportable,
 * or the descriptor is not that of a pool. */
LEATC_API int leatc_share_pool(struct leatc_pool *pool, int *fd);
LEATC_API int leatc_share_open_pool(int fd, bool with_access, struct leatc_pool **pool);

/* Like leatc_share_memory() and leatc_share_open(), for a block of an exportable pool. The process that shares the
 * block may open it too. The block is opened on the pool's device. INVALID_VALUE: the block is not of an
 * exportable pool, or data is invalid or describes a block of another pool. */
LEATC_API int leatc_share_pointer(const void *ptr, void *data);
LEATC_API int leatc_share_open_pointer(struct leatc_pool *pool, const void *data, void **ptr);

/* Returns the file descriptor in an argument that the vendors' APIs declare as a pointer. Programs pass the
 * descriptor either as the value of the pointer (its low 32 bits) or by address. INVALID_VALUE: neither is an open
 * descriptor. An address that is not mapped is detected. */
LEATC_API int leatc_share_descriptor(const void *handle, int *fd);

/* leatc_share_event() makes a handle for an event with LEATC_EVENT_INTERPROCESS (INVALID_VALUE without this flag).
 * leatc_share_open_event() opens it in another process (INVALID_CONTEXT in the same process). A record by either
 * process counts for both events. A stream waits for such an event in a host function. */
LEATC_API int leatc_share_event(struct leatc_event *event, void *handle);
LEATC_API int leatc_share_open_event(const void *handle, struct leatc_event **event);

/* ---- copies and fills ----------------------------------------------------------------------------------- */

/* The values of the vendors' copy kinds. */
enum leatc_direction {
    LEATC_HOST_TO_HOST = 0,
    LEATC_HOST_TO_DEVICE = 1,
    LEATC_DEVICE_TO_HOST = 2,
    LEATC_DEVICE_TO_DEVICE = 3,
    LEATC_DEFAULT = 4
};

/* Whether a call is synchronous, asynchronous, or has Peer in its name. A layer may pass a bool that is true for
 * asynchronous calls. */
enum leatc_mode { LEATC_SYNC = 0, LEATC_ASYNC = 1, LEATC_PEER = 2 };

/*
 * Copies a range. The call checks direction against the kinds of the two pointers: pageable memory does not count
 * as device memory, device memory does not count as host memory, and pinned and managed memory count as both.
 * INVALID_DIRECTION: there is no such direction. INVALID_VALUE: the direction does not match the pointers, or a
 * pointer is NULL or beyond the end of an allocation. Overlapping ranges are copied as by memmove().
 *
 * When a call returns follows both vendors' manuals ("API synchronization behavior"). LEATC_SYNC and LEATC_PEER:
 * if the source or the destination is host memory or was set synchronous, the copy has completed, or at least a
 * pageable source has been read; a copy from device to device may still be running. LEATC_ASYNC: a copy to
 * pageable memory, or from host to host, has completed; a pageable source has been read; any other copy may still
 * be running.
 *
 * How a copy is ordered with other work:
 *
 * - LEATC_ASYNC: after earlier work and before later work of its stream. It is not ordered with other streams.
 * - LEATC_SYNC: with its stream, and, for each other device whose memory it uses, with the legacy default stream
 *   of that device (and so with its blocking streams). AMD's runtime makes such copies in these streams. NVIDIA's
 *   manual does not define the order for memory of a device that is not current; waiting is the safe choice.
 *   Pinned and managed memory does not belong to a device here.
 *   device whose memory it uses. AMD's runtime makes such copies in these streams. NVIDIA's manual does not define
 *   the order for memory of a device that is not current; waiting is the safe choice. Pinned and managed memory
 *   belongs to no device here.
 * - LEATC_SYNC in the legacy default stream from one device's memory to another's, and LEATC_PEER (the names with
 *   Peer but without Async): with all streams of the current device and of the two devices, non-blocking ones
 *   included. NVIDIA's manual requires this: "all pending and future asynchronous work" of these devices.
 *
 * A copy has no order with work that another thread submits at the same time. CAPTURE_IMPLICIT: a blocking stream
 * of one of these devices is being captured.
 */
LEATC_API int leatc_copy(void *dst, const void *src, size_t bytes, int direction, struct leatc_stream *stream,
                         enum leatc_mode mode);

/* Copies a 3-D region. Sizes, pitches and slice sizes are those of leat_copy_region. The caller has added the x, y
 * and z offsets to the pointers. */
LEATC_API int leatc_copy_region(void *dst, const void *src, const leat_copy_region *region, int direction,
                                struct leatc_stream *stream, enum leatc_mode mode);

/*
 * Stores the low unit_bytes (1, 2 or 4) of value count times. For device memory the call returns at once. For
 * pinned and managed memory it returns after completion, unless mode is LEATC_ASYNC. INVALID_VALUE: pageable
 * memory. A fill is ordered like a copy; LEATC_PEER means the same as LEATC_SYNC.
 */
LEATC_API int leatc_fill(void *dst, uint32_t value, unsigned unit_bytes, size_t count, struct leatc_stream *stream,
                         enum leatc_mode mode);

/* Fills a region of depth slices, each with height rows of width units. Slice z begins at z * slice_bytes.
 * Otherwise like leatc_fill(). */
LEATC_API int leatc_fill_region(void *dst, size_t pitch_bytes, size_t slice_bytes, uint32_t value,
                                unsigned unit_bytes, size_t width, size_t height, size_t depth,
                                struct leatc_stream *stream, enum leatc_mode mode);

/* ---- symbols -------------------------------------------------------------------------------------------- */

/*
 * Symbols are variables of the program or of a library that it has loaded. The address of a variable names it, and
 * kernels of the CPU device access the variable itself. INVALID_SYMBOL: no variable starts at the address, or the
 * current device is a GPU.
 *
 * leatc_symbol_range() returns the address of count bytes at offset (INVALID_VALUE: they exceed the symbol). In a
 * stripped program, only the sizes of variables in the dynamic symbol table are known (link with -rdynamic). For
 * other variables, leatc_symbol_range() takes the end of their segment as the limit, and leatc_symbol_bytes()
 * returns INVALID_SYMBOL.
 */
LEATC_API int leatc_symbol_range(const void *symbol, size_t offset, size_t count, void **ptr);
LEATC_API int leatc_symbol_bytes(const void *symbol, size_t *bytes);

/* ---- arrays --------------------------------------------------------------------------------------------- */

/* Arrays are pitched device memory that programs access only through a handle. Sizes are in elements; the size of
 * a missing dimension is 0. */
struct leatc_array;
enum leatc_channel_kind { LEATC_CHANNEL_SIGNED, LEATC_CHANNEL_UNSIGNED, LEATC_CHANNEL_FLOAT };
struct leatc_array_shape {
    size_t width, height, depth;
    unsigned element_bytes;
    int channel_bits[4]; /* this field and the two below are stored for the layer */
    int channel_kind;    /* of enum leatc_channel_kind, with the numbers of the runtime APIs' kinds */
    unsigned flags;
};

/* Creates an array. INVALID_VALUE: the width is 0, an element has 0 bytes, or there is a depth without a
 * height. */
LEATC_API int leatc_array_create(const struct leatc_array_shape *shape, struct leatc_array **array);

/* Waits for the device, then frees the array. If array is NULL, does nothing. INVALID_HANDLE: not a live array. */
LEATC_API int leatc_array_destroy(struct leatc_array *array);

/* Finds the array that contains ptr, and the position of ptr in it. Returns false if no array contains ptr. */
struct leatc_array_place {
    struct leatc_array *array;
    size_t x_bytes, y, z;
    unsigned element_bytes;
};
LEATC_API bool leatc_array_at(const void *ptr, struct leatc_array_place *place);

/* Returns an array's shape and memory. Each output pointer may be NULL. */
LEATC_API int leatc_array_describe(const struct leatc_array *array, struct leatc_array_shape *shape, void **ptr,
                                   size_t *pitch_bytes, size_t *slice_bytes);

/* ---- kernels -------------------------------------------------------------------------------------------- */

/*
 * Launches a kernel. function is one of these: the address of a registered function
 * (leat/compat/kernel_support.h); the address of the leat_cpu_kernel that LEAT_KERNEL(name, ...) defines,
 * leat_cpu_kernel_name; a kernel of leatc_library_kernel(). INVALID_FUNCTION: it is none of these, or the device
 * is a GPU for which it has no code. INVALID_CONFIGURATION: the device does not support the grid or block size.
 * INVALID_VALUE: more dynamic shared memory than leatc_function_shared() allows.
 */
LEATC_API int leatc_function_check(const void *function);
LEATC_API int leatc_launch(const void *function, leat_dim3 grid, leat_dim3 block, void **args, size_t shared_bytes,
                           struct leatc_stream *stream);

/* Launches a kernel cooperatively: all its blocks run concurrently and may wait for one another. TOO_LARGE: the
 * grid has more blocks than can run concurrently (leatc_occupancy()). NOT_SUPPORTED: the kernel has no cooperative
 * form. */
LEATC_API int leatc_launch_together(const void *function, leat_dim3 grid, leat_dim3 block, void **args,
                                    size_t shared_bytes, struct leatc_stream *stream);

/* Computes, from the limits of the device, how many blocks one of its multiprocessors can run concurrently.
 * INVALID_VALUE: block_threads is not positive. */
LEATC_API int leatc_occupancy(int ordinal, int block_threads, size_t shared_bytes, int *blocks);

/* The maximum dynamic shared memory of a launch. For a registered kernel it is LEATC_SHARED_BYTES unless another
 * maximum was set. For other kernels it is SIZE_MAX, and the device checks the size. */
#define LEATC_SHARED_BYTES ((size_t)48 << 10)
LEATC_API size_t leatc_function_shared(const void *function);
LEATC_API void leatc_function_set_shared(const void *function, size_t bytes);

/* Returns the registered kernel with this name. symbol is the name in the source, or the mangled name of a
 * function outside of namespaces. Returns NULL if no kernel or several kernels have the name. */
struct leat_registered_kernel;
LEATC_API const struct leat_registered_kernel *leatc_kernel_named(const char *symbol);

/* leatc_lose() records that a kernel has failed. Until the device is reset, result is then the last error of all
 * threads, and leatc_note() returns it instead of OK. leatc_lost() returns that result, or OK if no kernel has
 * failed. */
LEATC_API void leatc_lose(int result);
LEATC_API int leatc_lost(void);

/* Clears the result of leatc_lose() and the last error. Called when the device is reset or the context
 * destroyed. */
LEATC_API void leatc_error_clear(void);

/* Sets the stack size of a block's threads, between 256 KiB (the default) and 1 GiB. It applies to stacks that are
 * allocated later. */
LEATC_API void leatc_stack_want(size_t bytes);

/* Loads a library of device code from memory or from a file: PTX, a cubin, or a shared object for the CPU device.
 * It is loaded on the current device at once, and on another device when one of its kernels is first used there.
 * INVALID_IMAGE: the code cannot be loaded. NOT_FOUND: there is no such file, or no kernel with this name. */
struct leatc_library;
LEATC_API int leatc_library_load(const void *image, size_t bytes, const char *path,
                                 struct leatc_library **library);
LEATC_API int leatc_library_unload(struct leatc_library *library);
LEATC_API int leatc_library_kernel(struct leatc_library *library, const char *name, void **kernel);

/* Returns the number of kernels in a library, or the handles of the first `most` of them. NOT_SUPPORTED: the image
 * is of a kind whose kernels leat cannot list, such as a fatbin. */
LEATC_API int leatc_library_kernel_count(struct leatc_library *library, unsigned *count);
LEATC_API int leatc_library_kernels(struct leatc_library *library, unsigned most, void **kernels);

/* Calls visit for each kernel of an image, until it returns false. length: of the name, which no zero need follow.
 * Returns the number of calls, or -1 if leat cannot list the kernels of such an image. */
typedef bool (*leatc_kernel_visit)(void *argument, const char *name, size_t length);
LEATC_API int leatc_image_kernels(const void *image, size_t bytes, leatc_kernel_visit visit, void *argument);

#include "engine/graph.h"

#endif
