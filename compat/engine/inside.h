/* inside.h - declarations that the files of the engine share. */
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
    int type, ordinal; /* ordinal: the device that the node belongs to */
    leatc_task_run run;
    void (*end)(void *payload);
    const void *tag; /* the layer that kept data with the task (leatc_task_keep()) */
    void *kept;
    _Alignas(max_align_t) char payload[];
};

/* Returns a zeroed task for the current device, whose payload the caller fills in, or NULL if out of memory. */
struct leatc_task *leatc_task_new(int type, leatc_task_run run, void (*end)(void *payload), size_t bytes);
struct leatc_task *leatc_task_share(struct leatc_task *task);

/* The kind of memory of one side of a copy or a fill: a device's ordinal, or one of these. An update must not
 * change it. */
enum { LEATC_PLACE_HOST = -1, LEATC_PLACE_MANAGED = -2 };
struct leatc_copy_places {
    struct leatc_copy_task copy;
    int dst, src;
};
struct leatc_fill_place {
    struct leatc_fill_task fill;
    int dst;
};

/* A list of nodes: those that the next captured work of a stream depends on, or the neighbours of a node. */
struct leatc_ends {
    struct leatc_node **nodes;
    size_t count;
};

struct leatc_attribute {
    int number;
    char value[LEATC_ATTRIBUTE_BYTES];
};

struct leatc_node {
    struct leati_handle handle; /* not live for nodes of an executable's copy */
    struct leatc_graph *graph;
    unsigned long long id, origin; /* origin: the id of the node that this one was copied from */
    size_t index;                  /* index in its graph */
    struct leatc_task *task;
    struct leatc_graph *child; /* owned by a child graph node */
    struct leatc_ends before, after;
    struct leatc_attribute *attributes;
    unsigned attribute_count;
    bool off;                /* disabled in an executable */
    bool captured;           /* added by a capture that has not ended */
    bool excused;            /* captured, but the origin of the capture need not depend on it any more */
    bool marked;             /* scratch value: unset outside of one call that holds the lock */
    size_t place;            /* scratch value too */
    struct leatc_node *peer; /* scratch value too: the corresponding node of another graph */
};

/* References to one user object that a graph owns. The list of a graph has each object once. */
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
    struct leatc_node *parent; /* the child graph node that owns this graph, or NULL */
    bool hidden;               /* the copy of an executable: it and its nodes have no live handles */
    bool capturing;
    struct leatc_exec *instance; /* the executable graph of a graph that allocates or frees, which may have only
                                  * one; else NULL */
    struct leatc_holding *holdings;
};

/* Guards all structs above. Lock order: locks of executables and of captures before it, those of graph memory and
 * of memory.c after it. */
extern struct leati_lock leatc_graph_lock;
void leatc_graphs_lock(void) LEATI_ACQUIRE(leatc_graph_lock);
void leatc_graphs_unlock(void) LEATI_RELEASE(leatc_graph_lock);
int leatc_graphs_unlock_with(int result) LEATI_RELEASE(leatc_graph_lock); /* unlocks, and returns result */

/* graph.c. The caller holds the lock of graphs. */
bool leatc_graph_live(const struct leatc_graph *graph) LEATI_REQUIRES(leatc_graph_lock);
bool leatc_node_live(const struct leatc_node *node) LEATI_REQUIRES(leatc_graph_lock);
bool leatc_graph_has_memory(const struct leatc_graph *graph) LEATI_REQUIRES(leatc_graph_lock);
struct leatc_graph *leatc_graph_copy(const struct leatc_graph *graph, bool hidden)
    LEATI_REQUIRES(leatc_graph_lock);

/* Ends a graph with its nodes. Its references to user objects are moved to *holdings. */
void leatc_graph_end(struct leatc_graph *graph, struct leatc_holding **holdings) LEATI_REQUIRES(leatc_graph_lock);

/* Adds a node that depends on ends, and makes it the only node of ends. */
int leatc_graph_append(struct leatc_graph *graph, struct leatc_ends *ends, struct leatc_task *task,
                       struct leatc_graph *child) LEATI_REQUIRES(leatc_graph_lock);

/* Returns true if each captured node is a dependency, directly or not, of ends or of an excused node. */
bool leatc_graph_is_joined(const struct leatc_graph *graph, const struct leatc_ends *ends)
    LEATI_REQUIRES(leatc_graph_lock);

/* Returns true if all of these are nodes of the graph, and none is listed twice. */
bool leatc_nodes_belong(const struct leatc_graph *graph, struct leatc_node *const *nodes, size_t count)
    LEATI_REQUIRES(leatc_graph_lock);

/* node_attribute.c, under the lock: replaces the attributes of a node by those of another. Returns false, and
 * changes nothing, if out of memory. */
bool leatc_attributes_copy(struct leatc_node *to, const struct leatc_node *from) LEATI_REQUIRES(leatc_graph_lock);

/* Adds nodes to a list, each once. Returns false if out of memory. */
bool leatc_ends_join(struct leatc_ends *ends, struct leatc_node *const *nodes, size_t count);
void leatc_ends_clear(struct leatc_ends *ends);

/* exec.c: detaches the executable of a graph that ends. The caller holds the lock of graphs. */
void leatc_exec_forget(struct leatc_graph *graph) LEATI_REQUIRES(leatc_graph_lock);

/* object.c, with the lock of graphs held. copy: takes more references, for a copy of a graph; returns false if out
 * of memory. release: drops references, and adds objects that have none left to *ended; call
 * leatc_objects_destroy() for these after unlocking. */
bool leatc_holdings_copy(struct leatc_holding **to, const struct leatc_holding *from)
    LEATI_REQUIRES(leatc_graph_lock);
void leatc_holdings_move(struct leatc_holding **to, struct leatc_holding **from) LEATI_REQUIRES(leatc_graph_lock);
void leatc_holdings_release(struct leatc_holding *holdings, struct leatc_object **ended)
    LEATI_REQUIRES(leatc_graph_lock);
void leatc_objects_destroy(struct leatc_object *ended);

/* graph_memory.c: tasks of nodes that allocate or free. id: the graph's. */
int leatc_graph_alloc(unsigned long long id, int ordinal, uint64_t peers, size_t bytes, struct leatc_task **task);
int leatc_graph_free(const struct leatc_graph *graph, void *ptr, struct leatc_task **task)
    LEATI_REQUIRES(leatc_graph_lock);

/* Makes the allocations of a launch live, ends those that it frees, and makes stream wait for earlier work that
 * used their memory. tasks are in the order of the launch. key is the id of the executable: its launches are
 * ordered among themselves. On failure nothing has changed. */
int leatc_graph_memory_launch(struct leatc_task *const *tasks, size_t count, bool auto_free,
                              unsigned long long key, leat_stream *stream);

/* Maps physical memory for the allocations among the tasks. */
int leatc_graph_memory_map(struct leatc_task *const *tasks, size_t count);

/* Records that the work of stream so far uses the memory of the tasks. Call it after the launch was submitted. key
 * as above. */
void leatc_graph_memory_busy(struct leatc_task *const *tasks, size_t count, unsigned long long key,
                             leat_stream *stream);

/* Ends a live allocation of a graph: in the order of stream, or now if stream is NULL. INVALID_VALUE. */
int leatc_graph_memory_free(void *ptr, leat_stream *stream);

/* waited: ends arenas of graphs that no longer exist, after a thread has waited for the device. close: ends all
 * arenas of a device that is being closed. */
void leatc_graph_memory_waited(struct leatc_device *device);
void leatc_graph_memory_close(struct leatc_device *device);

/* memory.c: records whether an allocation of a graph is not live (idle). */
void leatc_memory_set_idle(void *base, bool idle);

/* ---- capture --------------------------------------------------------------------------------------------- */

struct leatc_capture;

/* What an event keeps that was recorded in a capture: the capture, and the nodes that it stands for. */
struct leatc_captured {
    _Atomic unsigned long long capture_id; /* 0: not recorded in a capture */
    struct leatc_ends ends;                /* guarded by the lock of captures */
};

/* The number of captures that have not ended. As long as it is 0, calls need no lock to find that out. */
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
    leat_event *mark; /* makes another stream wait for this one; the device's lock guards its use */
    unsigned flags;
    int priority;
    atomic_int policy; /* value of leatc_stream_set_policy(); 0: never set */
    unsigned long long id;
    atomic_bool dirty;     /* has work that the legacy default stream has not waited for */
    _Atomic uint64_t seen; /* the device's epoch (blocking) or fences (non-blocking) that this stream has waited
                            * for */
    bool legacy;           /* this is a device's legacy default stream */
    struct leatc_stream *next;               /* next stream in the device's list; guarded by the device's lock */
    struct leatc_helper *helpers;            /* by ordinal; NULL: none yet; guarded by the device's lock */
    _Atomic(struct leatc_capture *) capture; /* this and the two below are written under the lock of captures */
    struct leatc_stream *next_member;
    struct leatc_ends ends;
};

struct leatc_device {
    int ordinal;
    _Atomic(leat_device *) native; /* NULL: not open */
    atomic_bool ready;             /* it is open, and all fields below are valid */
    struct leati_lock lock;        /* guards the lists of streams, and the recording of marks and waiting for
                                    * them */
    struct leatc_stream *legacy;
    struct leatc_stream *blocking, *non_blocking;
    struct leatc_stream *leftover; /* waits for the work of destroyed non-blocking streams; NULL: not needed yet */
    atomic_int dirty_count;        /* number of blocking streams that are dirty */
    _Atomic uint64_t epoch;        /* counts the submissions to the legacy default stream */
    leat_event *latest;            /* recorded after the submission number marked_epoch; both guarded by lock */
    uint64_t marked_epoch;
    _Atomic uint64_t fences;     /* counts the copies that non-blocking streams must wait for too */
    leat_event *fence;           /* recorded after the latest of these copies; guarded by lock */
    _Atomic uint64_t generation; /* counts how often the device was opened, to detect per-thread default streams of
                                  * an earlier opening */
    _Atomic unsigned flags;
    atomic_int small_shared; /* number of blocks below 2 MiB in shared */
    leat_pool *shared;       /* leatc_alloc() allocates sharable memory here; NULL: its memory cannot be shared */
    _Atomic uint64_t peers;  /* bit n: peer access to device n is enabled */
    atomic_bool trim;        /* a pool of the device may hold more than its release threshold */
    struct leatc_pool *_Atomic default_pool, *_Atomic current_pool;
};

/* Returns a device, opened if need be, or NULL with *result set. */
struct leatc_device *leatc_device_at(int ordinal, int *result);

/* The same for this thread's current device. */
struct leatc_device *leatc_device_here(int *result);

#ifdef __clang_analyzer__
/* For 'make tidy', which analyzes one file at a time: states that *result is a failure if there is no device. */
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

/* Returns a device without opening it, or NULL if there is no such ordinal. */
struct leatc_device *leatc_device_known(int ordinal);

/* Calls end(stream) unless the device was closed since it had this generation. A concurrent reset waits for the
 * call. */
void leatc_device_if_open(int ordinal, uint64_t generation, int (*end)(struct leatc_stream *stream),
                          struct leatc_stream *stream);

/* visible.c: reduces the devices of a driver to those that the process may see, in the order that the variables
 * define. Returns their number. */
int leatc_visible(leat_device_info *infos, int count);

/* Makes the bytes that the layers report as a device's UUID, from its name within the machine. */
void leatc_uuid_of(const char *name, unsigned char uuid[16]);

/* Returns the ordinal in this process of the device that leat's driver numbers native_ordinal, or -1 if it is not
 * visible. */
int leatc_ordinal_of(int native_ordinal);

/* stream.c: called when a device is opened, and before it is closed. */
int leatc_streams_open(struct leatc_device *device);
void leatc_streams_close(struct leatc_device *device);

/* Resolves a handle, which may be a default stream, to a live stream. A default stream's device is opened. */
int leatc_stream_find(struct leatc_stream *stream, struct leatc_stream **found);

/* Creates a non-blocking stream of a device for the engine's own use. */
int leatc_stream_new_on(struct leatc_device *device, struct leatc_stream **stream);

/* Makes later work of then wait for the work of first so far. They may be of different devices. */
leat_status leatc_stream_chain(struct leatc_stream *first, struct leatc_stream *then);

/*
 * Orders a stream against whole devices (bit n of devices: device n). The first call makes the stream's next work
 * wait for all work in the legacy default streams and blocking streams of these devices. The second call makes the
 * next work of these streams wait for the stream. all: includes non-blocking streams. CAPTURE_IMPLICIT: a blocking
 * stream of one of the devices is being captured.
 */
int leatc_work_after_devices(const struct leatc_work *work, uint64_t devices, bool all);
int leatc_devices_after_work(const struct leatc_work *work, uint64_t devices, bool all);

/* Begins work on another device. legacy: in that device's legacy default stream. helper: in a stream there that
 * only work's stream uses, so that it waits for no other work. */
int leatc_work_begin_legacy(int ordinal, struct leatc_work *work);
int leatc_work_begin_helper(const struct leatc_work *work, int ordinal, struct leatc_work *helper);

/* capture.c: sets *captured if the stream is being captured. CAPTURE_INVALIDATED. */
int leatc_capture_check(struct leatc_stream *stream, bool *captured);

/* Call this for work that cannot be captured. If the stream is being captured, it invalidates the capture and
 * returns CAPTURE_UNSUPPORTED. */
int leatc_capture_refuse(struct leatc_stream *stream);

/* The same for work in the device's legacy default stream, and for a wait for the whole device. */
int leatc_capture_refuse_legacy(struct leatc_device *device, bool invalidate);
int leatc_capture_refuse_device(struct leatc_device *device);

/* stream_ends: removes a stream that is being destroyed from its capture; if it is the origin, the capture ends
 * too. close: ends all captures that began in streams of the device. */
void leatc_capture_stream_ends(struct leatc_stream *stream);
void leatc_captures_close(struct leatc_device *device);

/* Events in captures. record: in a captured stream. clear: when the event is recorded elsewhere. refuse: for calls
 * that are invalid for an event recorded in a capture (CAPTURED_EVENT). wait: *inside says whether the wait became
 * part of a capture. */
int leatc_capture_record(struct leatc_work *work, struct leatc_captured *event);
void leatc_captured_clear(struct leatc_captured *event);
int leatc_captured_refuse(struct leatc_captured *event);
int leatc_capture_wait(struct leatc_stream *stream, struct leatc_captured *event, bool *inside);

/* Captured work: allocations and frees in stream order, and the launch of an executable graph. */
int leatc_capture_alloc(struct leatc_work *work, int ordinal, size_t bytes, void **ptr);
int leatc_capture_free(struct leatc_work *work, void *ptr);
int leatc_capture_child(struct leatc_work *work, const struct leatc_graph *graph);

/* event.c */
void leatc_events_close(struct leatc_device *device);

/* memory.c */
void leatc_memory_close(struct leatc_device *device);
unsigned long long leatc_memory_id(void);

/* Ends the sharing of a block that is freed: other processes can no longer ask for it. */
void leatc_memory_unshare(const struct leatc_memory *memory);

/* Like leatc_memory_find(), for both sides of a copy under one lock. */
int leatc_memory_find_both(const void *dst, struct leatc_memory *to, const void *src, struct leatc_memory *from);

/* Removes the record of the allocation that starts at ptr. Returns false if there is none. */
bool leatc_memory_take(void *ptr, struct leatc_memory *memory);

/* device.c: waits for all work of the device, without regard to captures. */
int leatc_device_wait(struct leatc_device *device);

/* pool.c */
void leatc_pools_close(struct leatc_device *device);
int leatc_pool_free(const struct leatc_memory *memory, leat_stream *stream);

/* Gives back the memory that pools of the device hold above their release thresholds. Called after a wait. */
void leatc_pools_trim(struct leatc_device *device);

static inline void leatc_pools_waited(struct leatc_device *device)
{
    if (atomic_load_explicit(&device->trim, memory_order_relaxed))
        leatc_pools_trim(device);
}

/* The access rights that an exported pool sends to another process: those of each device of this process. */
struct leatc_pool_export {
    uint8_t access[LEATC_DEVICES_MAX];
};
void leatc_pool_describe(struct leatc_pool *pool, struct leatc_pool_export *description);

/* Creates a pool that stands for the pool with this id of another process. from: its first access rights; NULL:
 * only its own device has access. leatc_pool_stands_for() returns true for such a pool. */
int leatc_pool_import(int ordinal, uint64_t process, uint64_t id, const struct leatc_pool_export *from,
                      struct leatc_pool **pool);
bool leatc_pool_stands_for(struct leatc_pool *pool, uint64_t process, uint64_t id, int *ordinal);
bool leatc_pool_is_exportable(const struct leatc_pool *pool);
uint64_t leatc_pool_id(const struct leatc_pool *pool);

/* share.c */
#define LEATC_SHARE_MEMORY 1u
#define LEATC_SHARE_POOL 2u
#define LEATC_SHARE_EVENT 3u

/* Memory is shared in units of this size. */
#define LEATC_SHARE_UNIT ((size_t)2 << 20)

/* offer: lets other processes ask for fd; on success the offer owns fd. end: withdraws the offer. */
int leatc_share_offer(unsigned what, unsigned long long id, size_t bytes, int fd, void *handle);
void leatc_share_end(unsigned what, unsigned long long id);

/* Asks for the descriptor that a handle stands for; the caller closes it. INVALID_VALUE: no valid handle;
 * INVALID_HANDLE: the shared object no longer exists; INVALID_CONTEXT: the handle was made by this process;
 * OPERATING_SYSTEM. */
int leatc_share_ask(const void *handle, unsigned what, size_t *bytes, int *fd);

/* Returns true if fd is a memory file that has these seals. */
bool leatc_is_sealed(int fd, int seals);

/* Returns true if ptr is an address of leatc_share_open(). */
bool leatc_share_is_open(const void *ptr);

/* Removes the records of imported memory of a device that is being reset; closing the device releases the
 * memory. */
void leatc_imports_close(struct leatc_device *device);

/* launch.c: reads memory that may not be mapped. Returns false if it cannot be read. */
bool leatc_read_safely(const void *from, void *to, size_t bytes);

/* registered.c: returns the cooperative form of the kernel that is registered for a function, or NULL. */
const struct leat_cpu_kernel *leatc_kernel_together(const void *function);

/* array.c, launch.c */
void leatc_arrays_close(struct leatc_device *device);
void leatc_kernels_close(struct leatc_device *device);

#endif
