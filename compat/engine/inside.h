/* inside.h - declares what the files of the engine share and the layers do not use. */
#ifndef LEATC_INSIDE_H
#define LEATC_INSIDE_H

#include "base/handles.h"
#include "base/lock.h"
#include "engine/engine.h"

#include <stdatomic.h>

/* ---- graphs ---------------------------------------------------------------------------------------------- */

struct leatc_device;

struct leatc_task {
    atomic_uint references;
    int type, ordinal; /* ordinal: the device that the task's node belongs to */
    leatc_task_run run;
    void (*end)(void *payload);
    const void *tag; /* identifies the layer that stored data with the task (leatc_task_keep()) */
    void *kept;
    _Alignas(max_align_t) char payload[];
};

/* Returns a zeroed task for the current device, or NULL if out of memory. The caller fills in the payload. */
struct leatc_task *leatc_task_new(int type, leatc_task_run run, void (*end)(void *payload), size_t bytes);
struct leatc_task *leatc_task_share(struct leatc_task *task);

/* Where one side of a copy or a fill lies: the ordinal of a device, or one of these values for host and managed
 * memory. An update of an executable graph must not change it. */
enum { LEATC_PLACE_HOST = -1, LEATC_PLACE_MANAGED = -2 };
struct leatc_copy_places {
    struct leatc_copy_task copy;
    int dst, src;
};
struct leatc_fill_place {
    struct leatc_fill_task fill;
    int dst;
};

/* A list of nodes. A stream's list has the nodes on which its next captured work depends; a node's two lists have
 * its neighbours. */
struct leatc_ends {
    struct leatc_node **nodes;
    size_t count;
};

struct leatc_attribute {
    int number;
    char value[LEATC_ATTRIBUTE_BYTES];
};

struct leatc_node {
    struct leati_handle handle; /* not live if the node belongs to the private copy of an executable graph */
    struct leatc_graph *graph;
    unsigned long long id, origin; /* origin: id of the node of which this one is a copy */
    size_t index;                  /* index of the node in its graph */
    struct leatc_task *task;
    struct leatc_graph *child; /* the child graph, which this node owns; NULL for other types of nodes */
    struct leatc_ends before, after;
    struct leatc_attribute *attributes;
    unsigned attribute_count;
    bool off;                /* disabled in an executable graph */
    bool captured;           /* a capture that has not ended added this node */
    bool excused;            /* captured, but the capture may end even if its origin does not depend on this
                              * node */
    bool marked;             /* scratch field; false except during a call that holds the lock */
    size_t place;            /* scratch field */
    struct leatc_node *peer; /* scratch field: the corresponding node of another graph */
};

/* The references to one user object that a graph owns. The list of a graph has each object at most once. */
struct leatc_holding {
    struct leatc_holding *next;
    struct leatc_object *object;
    unsigned long long count;
};

struct leatc_graph {
    struct leati_handle handle;
    unsigned long long id;
    struct leatc_node **nodes; /* in the order in which they were added */
    size_t count, room;
    struct leatc_node *parent; /* the child graph node that owns this graph; NULL if no node owns it */
    bool hidden;               /* the private copy of an executable graph: neither the graph nor its nodes have
                                * live handles */
    bool capturing;
    struct leatc_exec *instance; /* the executable graph of a graph that allocates or frees memory, which may have
                                  * only one; otherwise NULL */
    struct leatc_holding *holdings;
};

/* Guards all structs above. Lock order: a thread takes the locks of executable graphs and of captures before this
 * lock, and those of graph memory and of memory.c after it. */
extern struct leati_lock leatc_graph_lock;
void leatc_graphs_lock(void) LEATI_ACQUIRE(leatc_graph_lock);
void leatc_graphs_unlock(void) LEATI_RELEASE(leatc_graph_lock);
int leatc_graphs_unlock_with(int result) LEATI_RELEASE(leatc_graph_lock); /* unlocks and returns result */

/* Implemented in graph.c. The caller holds the lock of graphs. */
bool leatc_graph_live(const struct leatc_graph *graph) LEATI_REQUIRES(leatc_graph_lock);
bool leatc_node_live(const struct leatc_node *node) LEATI_REQUIRES(leatc_graph_lock);
bool leatc_graph_has_memory(const struct leatc_graph *graph) LEATI_REQUIRES(leatc_graph_lock);
struct leatc_graph *leatc_graph_copy(const struct leatc_graph *graph, bool hidden)
    LEATI_REQUIRES(leatc_graph_lock);

/* Ends a graph with its nodes. Moves its references to user objects to *holdings. */
void leatc_graph_end(struct leatc_graph *graph, struct leatc_holding **holdings) LEATI_REQUIRES(leatc_graph_lock);

/* Adds a node that depends on the nodes in ends, and makes the new node the only one in ends. */
int leatc_graph_append(struct leatc_graph *graph, struct leatc_ends *ends, struct leatc_task *task,
                       struct leatc_graph *child) LEATI_REQUIRES(leatc_graph_lock);

/* Returns true if ends, or an excused node, depends on each captured node, directly or indirectly. */
bool leatc_graph_is_joined(const struct leatc_graph *graph, const struct leatc_ends *ends)
    LEATI_REQUIRES(leatc_graph_lock);

/* Returns true if all listed nodes belong to the graph and none is listed twice. */
bool leatc_nodes_belong(const struct leatc_graph *graph, struct leatc_node *const *nodes, size_t count)
    LEATI_REQUIRES(leatc_graph_lock);

/* Implemented in node_attribute.c. Replaces the attributes of one node by those of another. Returns false, and
 * changes nothing, if out of memory. The caller holds the lock of graphs. */
bool leatc_attributes_copy(struct leatc_node *to, const struct leatc_node *from) LEATI_REQUIRES(leatc_graph_lock);

/* Adds to a list the nodes that it does not contain yet. Returns false if out of memory. */
bool leatc_ends_join(struct leatc_ends *ends, struct leatc_node *const *nodes, size_t count);
void leatc_ends_clear(struct leatc_ends *ends);

/* Implemented in exec.c. Detaches the executable graph from a graph that ends. The caller holds the lock of
 * graphs. */
void leatc_exec_forget(struct leatc_graph *graph) LEATI_REQUIRES(leatc_graph_lock);

/* Implemented in object.c. leatc_holdings_copy() takes more references, for a copy of a graph; returns false if
 * out of memory. leatc_holdings_release() drops references, and adds objects without remaining references to
 * *ended; the caller passes *ended to leatc_objects_destroy() after it has released the lock of graphs. */
bool leatc_holdings_copy(struct leatc_holding **to, const struct leatc_holding *from)
    LEATI_REQUIRES(leatc_graph_lock);
void leatc_holdings_move(struct leatc_holding **to, struct leatc_holding **from) LEATI_REQUIRES(leatc_graph_lock);
void leatc_holdings_release(struct leatc_holding *holdings, struct leatc_object **ended)
    LEATI_REQUIRES(leatc_graph_lock);
void leatc_objects_destroy(struct leatc_object *ended);

/* Implemented in graph_memory.c. Make the tasks of nodes that allocate or free memory. id: the id of the graph. */
int leatc_graph_alloc(unsigned long long id, int ordinal, uint64_t peers, size_t bytes, struct leatc_task **task);
int leatc_graph_free(const struct leatc_graph *graph, void *ptr, struct leatc_task **task)
    LEATI_REQUIRES(leatc_graph_lock);

/* Makes the allocations of a launch live, ends the allocations that the launch frees, and makes stream wait for
 * earlier work that used their memory. tasks are in the order of the launch. key is the id of the executable
 * graph, whose launches are ordered among themselves. If the call fails, no allocation has changed. */
int leatc_graph_memory_launch(struct leatc_task *const *tasks, size_t count, bool auto_free,
                              unsigned long long key, leat_stream *stream);

/* Maps physical memory for the tasks that allocate. */
int leatc_graph_memory_map(struct leatc_task *const *tasks, size_t count);

/* Records that the work of stream so far uses the memory of the tasks. Call it after the launch was submitted. key
 * is that of leatc_graph_memory_launch(). */
void leatc_graph_memory_busy(struct leatc_task *const *tasks, size_t count, unsigned long long key,
                             leat_stream *stream);

/* Ends a live allocation of a graph, in the order of stream, or now if stream is NULL. INVALID_VALUE: no live
 * allocation starts at ptr. */
int leatc_graph_memory_free(void *ptr, leat_stream *stream);

/* leatc_graph_memory_waited() ends arenas of destroyed graphs, after a thread has waited for the device.
 * leatc_graph_memory_close() ends all arenas of a device that is being closed. */
void leatc_graph_memory_waited(struct leatc_device *device);
void leatc_graph_memory_close(struct leatc_device *device);

/* Implemented in memory.c. Records whether an allocation of a graph is idle, which means not live. */
void leatc_memory_set_idle(void *base, bool idle);

/* ---- capture --------------------------------------------------------------------------------------------- */

struct leatc_capture;

/* What an event stores if it was recorded in a capture: the capture, and the nodes that a wait for the event
 * depends on. */
struct leatc_captured {
    _Atomic unsigned long long capture_id; /* id of the capture; 0: the event was not recorded in a capture */
    struct leatc_ends ends;                /* guarded by the lock of captures */
};

/* The number of captures that have not ended. While it is 0, no call needs a lock to know that its stream is not
 * captured. */
extern atomic_uint leatc_captures;

static inline bool leatc_capturing(void)
{
    return __builtin_expect(atomic_load_explicit(&leatc_captures, memory_order_relaxed) != 0, 0);
}

/* ---- streams and devices --------------------------------------------------------------------------------- */

struct leatc_stream {
    struct leati_handle handle;
    struct leatc_device *device;
    leat_stream *native;
    leat_event *mark; /* for waits of another stream for this one; used with the device's lock held */
    unsigned flags;
    int priority;
    atomic_int policy; /* value set by leatc_stream_set_policy(); 0: never set */
    unsigned long long id;
    atomic_bool dirty;     /* the stream has work that the legacy default stream has not waited for */
    _Atomic uint64_t seen; /* the value of the device's epoch (blocking stream) or fences (non-blocking stream) up
                            * to which this stream has waited */
    bool legacy;           /* this is the legacy default stream of its device */
    struct leatc_stream *next;               /* next stream in the device's list; guarded by the device's lock */
    struct leatc_helper *helpers;            /* indexed by ordinal; NULL: there are no helpers; guarded by the
                                              * device's lock */
    _Atomic(struct leatc_capture *) capture; /* this field and the next two are written under the lock of
                                              * captures */
    struct leatc_stream *next_member;
    struct leatc_ends ends;
};

struct leatc_device {
    int ordinal;
    _Atomic(leat_device *) native; /* NULL: the device is not open */
    atomic_bool ready;             /* the device is open, and the fields below are valid */
    struct leati_lock lock;        /* guards the lists of streams; held while marks are recorded and waited for */
    struct leatc_stream *legacy;
    struct leatc_stream *blocking, *non_blocking;
    struct leatc_stream *leftover; /* waits for the work of destroyed non-blocking streams; NULL: no such stream
                                    * had pending work */
    atomic_int dirty_count;        /* number of blocking streams whose field dirty is set */
    _Atomic uint64_t epoch;        /* number of submissions to the legacy default stream */
    leat_event *latest;            /* event after submission number marked_epoch; both fields are guarded by
                                    * lock */
    uint64_t marked_epoch;
    _Atomic uint64_t fences;     /* number of copies for which non-blocking streams must wait too */
    leat_event *fence;           /* event after the latest of these copies; guarded by lock */
    _Atomic uint64_t generation; /* number of times that the device was opened; reveals per-thread default streams
                                  * of an earlier opening */
    _Atomic unsigned flags;
    atomic_int small_shared; /* number of blocks below 2 MiB in the pool shared */
    leat_pool *shared;       /* the pool from which leatc_alloc() takes sharable memory; NULL: its memory cannot be
                              * shared */
    _Atomic uint64_t peers;  /* bit n: peer access to device n is enabled */
    atomic_bool noted;       /* a layer has recorded a result on this device since it was opened */
    atomic_bool trim;        /* some pool of the device may hold more memory than its release threshold */
    struct leatc_pool *_Atomic default_pool, *_Atomic current_pool;
};

/* True in a child of fork() whose parent had opened a device. The threads that would complete the work of streams
 * and events do not exist there. */
extern atomic_bool leatc_is_child __attribute__((visibility("hidden")));

static inline int leatc_check_child(void)
{
    bool is_child = atomic_load_explicit(&leatc_is_child, memory_order_relaxed);

    return __builtin_expect(is_child, 0) ? LEATC_NOT_INITIALIZED : LEATC_OK;
}

/* Returns a device and opens it if necessary. On failure returns NULL and sets *result. */
struct leatc_device *leatc_device_at(int ordinal, int *result);

/* Like leatc_device_at(), for the calling thread's current device. */
struct leatc_device *leatc_device_here(int *result);

#ifdef __clang_analyzer__
/* For 'make tidy', which analyzes one file at a time: tells the analyzer that *result is a failure if the returned
 * device is NULL. */
#define LEATC_DEVICE(call, result)                                                                                \
    ({                                                                                                            \
        struct leatc_device *leatc_device_ = (call);                                                              \
        if (!leatc_device_ && *(result) == LEATC_OK)                                                              \
            __builtin_unreachable();                                                                              \
        leatc_device_;                                                                                            \
    })
#define leatc_device_at(ordinal, result) LEATC_DEVICE(leatc_device_at((ordinal), (result)), (result))
#define leatc_device_here(result) LEATC_DEVICE(leatc_device_here(result), (result))
#endif

/* Implemented in device.c. Notes that a layer has recorded a result on the calling thread's current device.
 * Returns true if every open device is noted, so that further calls change nothing until a device is opened. */
bool leatc_note_device(void);

/* Implemented in result.c. Called after a device was opened. The next recorded result then calls
 * leatc_note_device(). */
void leatc_note_again(void);

/* Returns a device without opening it, or NULL if no device has this ordinal. */
struct leatc_device *leatc_device_known(int ordinal);

/* Calls end(stream) unless the device was closed after it had this generation. A concurrent reset waits until the
 * call has returned. */
void leatc_device_if_open(int ordinal, uint64_t generation, int (*end)(struct leatc_stream *stream),
                          struct leatc_stream *stream);

/* Implemented in visible.c. Reduces the list of a driver's devices to those that the process may see, in the order
 * that the vendors' variables define. Returns their number. */
int leatc_visible(leat_device_info *infos, int count);

/* Computes the bytes that the layers report as a device's UUID from the name of the device. */
void leatc_uuid_of(const char *name, unsigned char uuid[16]);

/* Returns the ordinal, in this process, of the device to which leat's driver gives the number native_ordinal.
 * Returns -1 if the device is not visible. */
int leatc_ordinal_of(int native_ordinal);

/* Implemented in stream.c. Called after a device is opened, and before it is closed. */
int leatc_streams_open(struct leatc_device *device);
void leatc_streams_close(struct leatc_device *device);

/* Finds the live stream of a handle, which may stand for a default stream. Opens the device of a default
 * stream. */
int leatc_stream_find(struct leatc_stream *stream, struct leatc_stream **found);

/* Creates a non-blocking stream of a device for the engine's own use. */
int leatc_stream_new_on(struct leatc_device *device, struct leatc_stream **stream);

/* Makes later work of then wait for the work submitted to first so far. The streams may belong to different
 * devices. */
leat_status leatc_stream_chain(struct leatc_stream *first, struct leatc_stream *then);

/*
 * Order a stream with whole devices: bit n of devices stands for device n. leatc_work_after_devices() makes the
 * next work of the stream wait for all work in the legacy default streams and blocking streams of these devices.
 * leatc_devices_after_work() makes the next work of these streams wait for the stream. all: includes non-blocking
 * streams. CAPTURE_IMPLICIT: a blocking stream of one of the devices is being captured.
 */
int leatc_work_after_devices(const struct leatc_work *work, uint64_t devices, bool all);
int leatc_devices_after_work(const struct leatc_work *work, uint64_t devices, bool all);

/* Begin work on another device. leatc_work_begin_legacy() begins it in that device's legacy default stream,
 * leatc_work_begin_helper() in a helper: a stream on that device that only work's stream uses, so that the work
 * waits for no other stream. */
int leatc_work_begin_legacy(int ordinal, struct leatc_work *work);
int leatc_work_begin_helper(const struct leatc_work *work, int ordinal, struct leatc_work *helper);

/* Implemented in capture.c. Sets *captured to whether the stream is being captured. CAPTURE_INVALIDATED: it is,
 * and its capture is invalid. */
int leatc_capture_check(struct leatc_stream *stream, bool *captured);

/* Called for work that cannot be captured. If the stream is being captured, invalidates the capture and returns
 * CAPTURE_UNSUPPORTED. */
int leatc_capture_refuse(struct leatc_stream *stream);

/* Like leatc_capture_refuse(), for work in the device's legacy default stream, and for a wait for the whole
 * device. */
int leatc_capture_refuse_legacy(struct leatc_device *device, bool invalidate);
int leatc_capture_refuse_device(struct leatc_device *device);

/* leatc_capture_stream_ends() removes a stream that is being destroyed from its capture; if the stream is the
 * origin, the capture ends too. leatc_captures_close() ends all captures that began in streams of the device. */
void leatc_capture_stream_ends(struct leatc_stream *stream);
void leatc_captures_close(struct leatc_device *device);

/* Events in captures. record: records an event in a captured stream. clear: called when the event is recorded in a
 * stream that is not captured. refuse: called by functions that do not accept an event recorded in a capture
 * (CAPTURED_EVENT). wait: sets *inside to whether the wait became part of a capture. */
int leatc_capture_record(struct leatc_work *work, struct leatc_captured *event);
void leatc_captured_clear(struct leatc_captured *event);
int leatc_captured_refuse(struct leatc_captured *event);
int leatc_capture_wait(struct leatc_stream *stream, struct leatc_captured *event, bool *inside);

/* Add nodes to the capture of a stream: for allocations and frees in stream order, and for the launch of an
 * executable graph. */
int leatc_capture_alloc(struct leatc_work *work, int ordinal, size_t bytes, void **ptr);
int leatc_capture_free(struct leatc_work *work, void *ptr);
int leatc_capture_child(struct leatc_work *work, const struct leatc_graph *graph);

/* Implemented in event.c. */
void leatc_events_close(struct leatc_device *device);

/* Implemented in memory.c. */
void leatc_memory_close(struct leatc_device *device);
unsigned long long leatc_memory_id(void);

/* Ends the sharing of a block that is being freed: other processes can no longer open it. */
void leatc_memory_unshare(const struct leatc_memory *memory);

/* Like leatc_memory_find(), for the destination and the source of a copy; takes the lock once. */
int leatc_memory_find_both(const void *dst, struct leatc_memory *to, const void *src, struct leatc_memory *from);

/* Removes the record of the allocation that starts at ptr. Returns false if there is none. */
bool leatc_memory_take(void *ptr, struct leatc_memory *memory);

/* Implemented in device.c. Waits for all work of the device, even if a stream is being captured. */
int leatc_device_wait(struct leatc_device *device);

/* Implemented in pool.c. */
void leatc_pools_close(struct leatc_device *device);
int leatc_pool_free(const struct leatc_memory *memory, leat_stream *stream);

/* Gives back the memory that pools of the device hold above their release thresholds. Called after a wait for the
 * device. */
void leatc_pools_trim(struct leatc_device *device);

static inline void leatc_pools_waited(struct leatc_device *device)
{
    if (atomic_load_explicit(&device->trim, memory_order_relaxed))
        leatc_pools_trim(device);
}

/* The access rights of a pool that another process imports: those of each device of this process. */
struct leatc_pool_export {
    uint8_t access[LEATC_DEVICES_MAX];
};
void leatc_pool_describe(struct leatc_pool *pool, struct leatc_pool_export *description);

/* Creates a pool that stands for a pool of another process, which process and id identify. from: its initial
 * access rights; if from is NULL, only its own device has access. leatc_pool_stands_for() returns true for this
 * pool. */
int leatc_pool_import(int ordinal, uint64_t process, uint64_t id, const struct leatc_pool_export *from,
                      struct leatc_pool **pool);
bool leatc_pool_stands_for(struct leatc_pool *pool, uint64_t process, uint64_t id, int *ordinal);
bool leatc_pool_is_exportable(const struct leatc_pool *pool);
uint64_t leatc_pool_id(const struct leatc_pool *pool);

/* Implemented in share.c. What a handle shares. */
#define LEATC_SHARE_MEMORY 1u
#define LEATC_SHARE_POOL 2u
#define LEATC_SHARE_EVENT 3u

/* Memory is shared in units of this size. */
#define LEATC_SHARE_UNIT ((size_t)2 << 20)

/* leatc_share_offer() lets other processes ask for the descriptor fd; on success the offer owns fd.
 * leatc_share_end() ends the offer. */
int leatc_share_offer(unsigned what, unsigned long long id, size_t bytes, int fd, void *handle);
void leatc_share_end(unsigned what, unsigned long long id);

/* Asks the process that made a handle for the descriptor, which the caller closes. INVALID_VALUE: the handle is
 * not valid. INVALID_HANDLE: the shared object no longer exists. INVALID_CONTEXT: this process made the handle.
 * OPERATING_SYSTEM: no answer, or no free descriptor. */
int leatc_share_ask(const void *handle, unsigned what, size_t *bytes, int *fd);

/* Returns true if fd is a memory file that has these seals. */
bool leatc_is_sealed(int fd, int seals);

/* Returns true if leatc_share_open() has returned ptr and ptr is still open. */
bool leatc_share_is_open(const void *ptr);

/* Removes the records of memory that was imported for a device that is being reset. Closing the device unmaps the
 * memory. */
void leatc_imports_close(struct leatc_device *device);

/* Implemented in launch.c. Reads memory that may not be mapped. Returns false if the memory cannot be read. */
bool leatc_read_safely(const void *from, void *to, size_t bytes);

/* Implemented in registered.c. Returns the cooperative form of the kernel that is registered for a function, or
 * NULL. */
const struct leat_cpu_kernel *leatc_kernel_together(const void *function);

/* Implemented in launch.c. Called when the library that contains code is unloaded: removes the cached kernels of this
 * code, because another library may be loaded at the same address. Their modules stay until the devices are closed,
 * because launches may still be running. */
void leatc_kernel_gone(const struct leat_cpu_kernel *code);

/* Implemented in array.c and launch.c. */
void leatc_arrays_close(struct leatc_device *device);
void leatc_kernels_close(struct leatc_device *device);

#endif
