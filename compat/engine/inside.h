/* inside.h - what the files of the engine share with each other. */
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
    int type, ordinal; /* of the device that the node belongs to */
    leatc_task_run run;
    void (*end)(void *payload);
    const void *tag; /* of the layer that keeps something with the task */
    void *kept;
    _Alignas(max_align_t) char payload[];
};

/* A zeroed task of the current device, whose payload the caller fills in; NULL when out of memory. */
struct leatc_task *leatc_task_new(int type, leatc_task_run run, void (*end)(void *payload), size_t bytes);
struct leatc_task *leatc_task_share(struct leatc_task *task);

/* Where a pointer of a copy or a fill points: an ordinal, or one of these. An update must not change it. */
enum { LEATC_PLACE_HOST = -1, LEATC_PLACE_MANAGED = -2 };
struct leatc_copy_places {
    struct leatc_copy_task copy;
    int dst, src;
};
struct leatc_fill_place {
    struct leatc_fill_task fill;
    int dst;
};

/* Several nodes: those that a stream's next one comes after, or a node's neighbours. */
struct leatc_ends {
    struct leatc_node **nodes;
    size_t count;
};

struct leatc_attribute {
    int number;
    char value[LEATC_ATTRIBUTE_BYTES];
};

struct leatc_node {
    struct leati_handle handle; /* not live in the graph of an executable */
    struct leatc_graph *graph;
    unsigned long long id, origin; /* origin: the id of the node that this one was made from */
    size_t index;                  /* in its graph */
    struct leatc_task *task;
    struct leatc_graph *child; /* of a child graph node, which owns it */
    struct leatc_ends before, after;
    struct leatc_attribute *attributes;
    unsigned attribute_count;
    bool off;                /* switched off in an executable */
    bool captured;           /* a capture that is not over added it */
    bool excused;            /* and its origin need not come after it any more */
    bool marked;             /* these are of use within one call */
    size_t place;            /* likewise */
    struct leatc_node *peer; /* likewise */
};

/* The references to a user object that a graph owns; a list of these has each object once in a graph. */
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
    struct leatc_node *parent; /* whose child graph this is */
    bool hidden;               /* of an executable: it and its nodes are no handles */
    bool capturing;
    struct leatc_exec *instance; /* of a graph that allocates or frees */
    struct leatc_holding *holdings;
};

/* Held for all of what is above, after the locks of executables and of captures, before that of memory. */
extern struct leati_lock leatc_graph_lock;
void leatc_graphs_lock(void) LEATI_ACQUIRE(leatc_graph_lock);
void leatc_graphs_unlock(void) LEATI_RELEASE(leatc_graph_lock);
int leatc_graphs_unlock_with(int result) LEATI_RELEASE(leatc_graph_lock); /* unlocks, and returns result */

/* graph.c, under the lock. */
bool leatc_graph_live(const struct leatc_graph *graph) LEATI_REQUIRES(leatc_graph_lock);
bool leatc_node_live(const struct leatc_node *node) LEATI_REQUIRES(leatc_graph_lock);
bool leatc_graph_has_memory(const struct leatc_graph *graph) LEATI_REQUIRES(leatc_graph_lock);
struct leatc_graph *leatc_graph_copy(const struct leatc_graph *graph, bool hidden)
    LEATI_REQUIRES(leatc_graph_lock);

/* Ends a graph with its nodes; what it owned of user objects is added to *holdings. */
void leatc_graph_end(struct leatc_graph *graph, struct leatc_holding **holdings) LEATI_REQUIRES(leatc_graph_lock);

/* Adds a node after ends, which then is the only one of them. */
int leatc_graph_append(struct leatc_graph *graph, struct leatc_ends *ends, struct leatc_task *task,
                       struct leatc_graph *child) LEATI_REQUIRES(leatc_graph_lock);

/* Does every node that was captured come before ends, or before one that is excused? */
bool leatc_graph_is_joined(const struct leatc_graph *graph, const struct leatc_ends *ends)
    LEATI_REQUIRES(leatc_graph_lock);

/* Are all of these, without one that is there twice, nodes of the graph? */
bool leatc_nodes_belong(const struct leatc_graph *graph, struct leatc_node *const *nodes, size_t count)
    LEATI_REQUIRES(leatc_graph_lock);

/* node_attribute.c, under the lock: replaces the attributes of a node by those of another. Returns false, and
 * changes nothing, if out of memory. */
bool leatc_attributes_copy(struct leatc_node *to, const struct leatc_node *from) LEATI_REQUIRES(leatc_graph_lock);

/* false: out of memory. */
bool leatc_ends_join(struct leatc_ends *ends, struct leatc_node *const *nodes, size_t count);
void leatc_ends_clear(struct leatc_ends *ends);

/* exec.c, under the lock: the graph goes, and its executable stays. */
void leatc_exec_forget(struct leatc_graph *graph) LEATI_REQUIRES(leatc_graph_lock);

/* object.c, under the lock: more references for a copy of a graph (false: out of memory), and fewer, which may end
 * objects; those are destroyed by leatc_objects_destroy(), without any lock. */
bool leatc_holdings_copy(struct leatc_holding **to, const struct leatc_holding *from)
    LEATI_REQUIRES(leatc_graph_lock);
void leatc_holdings_move(struct leatc_holding **to, struct leatc_holding **from) LEATI_REQUIRES(leatc_graph_lock);
void leatc_holdings_release(struct leatc_holding *holdings, struct leatc_object **ended)
    LEATI_REQUIRES(leatc_graph_lock);
void leatc_objects_destroy(struct leatc_object *ended);

/* graph_memory.c. The tasks of leatc_alloc_make() and leatc_free_make(); id: the graph's. */
int leatc_graph_alloc(unsigned long long id, int ordinal, uint64_t peers, size_t bytes, struct leatc_task **task);
int leatc_graph_free(const struct leatc_graph *graph, void *ptr, struct leatc_task **task)
    LEATI_REQUIRES(leatc_graph_lock); /* under the lock */

/* Makes the allocations of a launch live and ends those that it frees, tasks being in the order of the launch; and
 * makes stream wait for what freed them elsewhere. On failure nothing has changed. key: see below. */
int leatc_graph_memory_launch(struct leatc_task *const *tasks, size_t count, bool auto_free,
                              unsigned long long key, leat_stream *stream);

/* Takes memory for the allocations among the tasks. */
int leatc_graph_memory_map(struct leatc_task *const *tasks, size_t count);

/* The work of stream so far may use the memory of the tasks; key says whose launches these are, which come one
 * after the other. */
void leatc_graph_memory_busy(struct leatc_task *const *tasks, size_t count, unsigned long long key,
                             leat_stream *stream);

/* Ends a live allocation of a graph: with stream, in its order, else at once. INVALID_VALUE. */
int leatc_graph_memory_free(void *ptr, leat_stream *stream);

/* Gives back what graphs that are gone left, when work was waited for; and when the device is closed. */
void leatc_graph_memory_waited(struct leatc_device *device);
void leatc_graph_memory_close(struct leatc_device *device);

/* memory.c: says of memory of a graph whether it is live. */
void leatc_memory_set_idle(void *base, bool idle);

/* ---- capture --------------------------------------------------------------------------------------------- */

struct leatc_capture;

/* Of an event that was recorded in a capture: in which, and where. */
struct leatc_captured {
    _Atomic unsigned long long capture_id; /* 0: it was not */
    struct leatc_ends ends;                /* under the lock of captures */
};

/* How many captures there are. */
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
    leat_event *mark; /* by which the legacy default stream waits for this one, and the other way round */
    unsigned flags;
    int priority;
    atomic_int policy; /* of leatc_stream_set_policy(); 0: never set */
    unsigned long long id;
    atomic_bool dirty;     /* was given work that the legacy default stream is not ordered after */
    _Atomic uint64_t seen; /* epoch (blocking) or fences (non-blocking) of its device that this one comes after */
    bool legacy;           /* it is a device's legacy default stream */
    struct leatc_stream *next;               /* of the device's streams of its sort; under the device's lock */
    struct leatc_helper *helpers;            /* by ordinal, NULL while there is none; under the device's lock */
    _Atomic(struct leatc_capture *) capture; /* written under the lock of captures, as the two that follow */
    struct leatc_stream *next_member;
    struct leatc_ends ends;
};

struct leatc_device {
    int ordinal;
    _Atomic(leat_device *) native; /* NULL: not open */
    atomic_bool ready;             /* it is open, and all of what follows is there */
    struct leati_lock lock;        /* guards the list of streams, and the marks by which streams wait */
    struct leatc_stream *legacy;
    struct leatc_stream *blocking, *non_blocking;
    struct leatc_stream *leftover; /* waits for destroyed non-blocking streams; NULL while there is none */
    atomic_int dirty_count;        /* blocking streams that are dirty */
    _Atomic uint64_t epoch;        /* counts the work given to the legacy default stream */
    leat_event *latest;            /* marks that work up to marked_epoch; both under the lock */
    uint64_t marked_epoch;
    _Atomic uint64_t fences;     /* counts the copies that non-blocking streams come after too */
    leat_event *fence;           /* marks the latest of these; under the lock */
    _Atomic uint64_t generation; /* counts openings: a per-thread default stream belongs to one */
    _Atomic unsigned flags;
    atomic_int small_shared; /* blocks of less than 2 MiB in there */
    leat_pool *shared;       /* where leatc_alloc() takes memory that can be shared; NULL: it takes what cannot */
    _Atomic uint64_t peers;  /* bit n: access to device n was switched on */
    atomic_bool trim;        /* a pool of the device may hold more than its threshold */
    struct leatc_pool *_Atomic default_pool, *_Atomic current_pool;
};

/* The device of this number, opened; NULL with *result set. */
struct leatc_device *leatc_device_at(int ordinal, int *result);

/* This thread's current device, opened. */
struct leatc_device *leatc_device_here(int *result);

#ifdef __clang_analyzer__
/* For 'make tidy', which sees one file at a time: without a device the result is a failure. */
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

/* The device of this number as it is, which may be closed. */
struct leatc_device *leatc_device_known(int ordinal);

/* Calls end(stream) unless the device was closed since it had this generation; a reset waits for it meanwhile. */
void leatc_device_if_open(int ordinal, uint64_t generation, int (*end)(struct leatc_stream *stream),
                          struct leatc_stream *stream);

/* visible.c: leaves of the devices of a driver those that the process is to see, in the order in which it is to
 * see them, and returns how many. */
int leatc_visible(leat_device_info *infos, int count);

/* The bytes by which the names identify a device: its name within the machine. */
void leatc_uuid_of(const char *name, unsigned char uuid[16]);

/* The ordinal here of a device that leat numbers so among those of its driver; -1 when it is none of these. */
int leatc_ordinal_of(int native_ordinal);

/* stream.c, when a device is opened and before it is closed. */
int leatc_streams_open(struct leatc_device *device);
void leatc_streams_close(struct leatc_device *device);

/* A handle as a stream that is alive; *device is opened. */
int leatc_stream_find(struct leatc_stream *stream, struct leatc_stream **found);

/* A non-blocking stream of this device, which nobody else knows of. */
int leatc_stream_new_on(struct leatc_device *device, struct leatc_stream **stream);

/* Work that is given to then from now on comes after that of first, of whatever device. */
leat_status leatc_stream_chain(struct leatc_stream *first, struct leatc_stream *then);

/*
 * Order between a stream and whole devices (bit n of devices: device n). The first call makes the next work of the
 * stream wait for all work of these devices' legacy default streams and blocking streams, the second makes their
 * next work wait for the stream. all: for non-blocking streams too. CAPTURE_IMPLICIT: a blocking stream of one of
 * the devices is captured.
 */
int leatc_work_after_devices(const struct leatc_work *work, uint64_t devices, bool all);
int leatc_devices_after_work(const struct leatc_work *work, uint64_t devices, bool all);

/* Begins work on another device: in its legacy default stream, or in a helper, a stream there that only the work's
 * own stream uses, so that no other work delays it. */
int leatc_work_begin_legacy(int ordinal, struct leatc_work *work);
int leatc_work_begin_helper(const struct leatc_work *work, int ordinal, struct leatc_work *helper);

/* capture.c. Is the stream captured? CAPTURE_INVALIDATED. */
int leatc_capture_check(struct leatc_stream *stream, bool *captured);

/* For what cannot be captured: CAPTURE_UNSUPPORTED if the stream is captured, which the capture does not outlive.
 */
int leatc_capture_refuse(struct leatc_stream *stream);

/* The same for work in the device's legacy default stream, and for waiting for all of the device. */
int leatc_capture_refuse_legacy(struct leatc_device *device, bool invalidate);
int leatc_capture_refuse_device(struct leatc_device *device);

/* The stream is destroyed; so is the capture that began in it. And all that began in streams of a device. */
void leatc_capture_stream_ends(struct leatc_stream *stream);
void leatc_captures_close(struct leatc_device *device);

/* Events: recording in a captured stream, and in another one; waiting, where *inside says whether a capture has to
 * do with it; and what is not allowed for one that was recorded in a capture (CAPTURED_EVENT). */
int leatc_capture_record(struct leatc_work *work, struct leatc_captured *event);
void leatc_captured_clear(struct leatc_captured *event);
int leatc_captured_refuse(struct leatc_captured *event);
int leatc_capture_wait(struct leatc_stream *stream, struct leatc_captured *event, bool *inside);

/* Allocating and freeing in a captured stream; and an executable graph launched into one. */
int leatc_capture_alloc(struct leatc_work *work, int ordinal, size_t bytes, void **ptr);
int leatc_capture_free(struct leatc_work *work, void *ptr);
int leatc_capture_child(struct leatc_work *work, const struct leatc_graph *graph);

/* event.c */
void leatc_events_close(struct leatc_device *device);

/* memory.c */
void leatc_memory_close(struct leatc_device *device);
unsigned long long leatc_memory_id(void);

/* The block goes back: nobody else may ask for it any more. */
void leatc_memory_unshare(const struct leatc_memory *memory);

/* leatc_memory_find() for the two ends of a copy. */
int leatc_memory_find_both(const void *dst, struct leatc_memory *to, const void *src, struct leatc_memory *from);

/* Takes the record of an allocation that starts at ptr out of the table; false when there is none. */
bool leatc_memory_take(void *ptr, struct leatc_memory *memory);

/* device.c: waits for all work of the device, whatever is captured. */
int leatc_device_wait(struct leatc_device *device);

/* pool.c */
void leatc_pools_close(struct leatc_device *device);
int leatc_pool_free(const struct leatc_memory *memory, leat_stream *stream);

/* Gives back what pools of the device hold above their thresholds; called when something was waited for. */
void leatc_pools_trim(struct leatc_device *device);

static inline void leatc_pools_waited(struct leatc_device *device)
{
    if (atomic_load_explicit(&device->trim, memory_order_relaxed))
        leatc_pools_trim(device);
}

/* What a pool says of itself to another process: the access that each device of this process has. */
struct leatc_pool_export {
    uint8_t access[LEATC_DEVICES_MAX];
};
void leatc_pool_describe(struct leatc_pool *pool, struct leatc_pool_export *description);

/* Makes a pool that stands for the pool with this id in the process with this number. from: the access that it
 * begins with; NULL: that of its device alone. leatc_pool_stands_for() returns true if pool was made so. */
int leatc_pool_import(int ordinal, uint64_t process, uint64_t id, const struct leatc_pool_export *from,
                      struct leatc_pool **pool);
bool leatc_pool_stands_for(struct leatc_pool *pool, uint64_t process, uint64_t id, int *ordinal);
bool leatc_pool_is_exportable(const struct leatc_pool *pool);
uint64_t leatc_pool_id(const struct leatc_pool *pool);

/* share.c */
#define LEATC_SHARE_MEMORY 1u
#define LEATC_SHARE_POOL 2u
#define LEATC_SHARE_EVENT 3u

/* Memory is shared in pieces of this size. */
#define LEATC_SHARE_UNIT ((size_t)2 << 20)

/* Lets other processes ask for a descriptor, which belongs to the offer if it succeeds; and ends that. */
int leatc_share_offer(unsigned what, unsigned long long id, size_t bytes, int fd, void *handle);
void leatc_share_end(unsigned what, unsigned long long id);

/* The descriptor behind a handle; the caller closes it. INVALID_VALUE: no handle; INVALID_HANDLE: what it stands
 * for is gone; INVALID_CONTEXT: a handle of this process; OPERATING_SYSTEM. */
int leatc_share_ask(const void *handle, unsigned what, size_t *bytes, int *fd);

/* Returns true if fd is a memory file that has these seals. */
bool leatc_is_sealed(int fd, int seals);

/* Is it memory that came from another process? */
bool leatc_share_is_open(const void *ptr);

/* Forgets what of it the device has, which a reset takes along. */
void leatc_imports_close(struct leatc_device *device);

/* launch.c: reads memory that may not be mapped. Returns false if it is not. */
bool leatc_read_safely(const void *from, void *to, size_t bytes);

/* registered.c: the kernel registered for a function, in its cooperative form, or NULL. */
const struct leat_cpu_kernel *leatc_kernel_together(const void *function);

/* array.c, launch.c */
void leatc_arrays_close(struct leatc_device *device);
void leatc_kernels_close(struct leatc_device *device);

#endif
