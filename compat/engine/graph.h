/*
 * graph.h - graphs: nodes, edges, executable graphs, the memory that they allocate. Part of engine.h.
 *
 * Model. A graph has nodes and edges between them; an edge means that the second node runs after the first. What a
 * node does is its task: an immutable description with a reference count. A clone and an executable graph share
 * the tasks of the graph that they were made from. Setting the parameters of a node replaces its task and changes
 * nothing else. An executable graph has its own nodes; each remembers the node that it was copied from.
 *
 * A layer makes a task from its vendor's struct (leatc_..._make()), and passes it to a call that adds a node, sets
 * the parameters of a node, or sets those of a node of an executable graph. These calls take ownership of the
 * task, even if they fail.
 *
 * Results. INVALID_VALUE for handles that are not alive, unless a comment says otherwise.
 *
 * Threads. Any thread may call any function; calls that change graphs are serialized. Launches of one executable
 * graph run one after the other, also in different streams.
 */
#ifndef LEATC_GRAPH_H
#define LEATC_GRAPH_H

struct leatc_graph;
struct leatc_exec;
struct leatc_node;
struct leatc_task;

/* ---- tasks ---------------------------------------------------------------------------------------------- */

/* Both vendors use these values for the types of nodes. */
enum {
    LEATC_NODE_KERNEL = 0,
    LEATC_NODE_COPY = 1,
    LEATC_NODE_FILL = 2,
    LEATC_NODE_HOST = 3,
    LEATC_NODE_GRAPH = 4,
    LEATC_NODE_EMPTY = 5,
    LEATC_NODE_WAIT = 6,
    LEATC_NODE_RECORD = 7,
    LEATC_NODE_ALLOC = 10,
    LEATC_NODE_FREE = 11,
    LEATC_NODE_BATCH = 12
};

/* Submits the work of a task to work->stream. Called at each launch of the graph. */
typedef int (*leatc_task_run)(const void *payload, struct leatc_work *work);

/* Creates a task of a layer. payload is copied. If end is not NULL, it is called with the copy when the last
 * reference to the task is dropped. OUT_OF_MEMORY: end was not called. The engine creates the tasks below. */
LEATC_API int leatc_task_create(int type, leatc_task_run run, void (*end)(void *payload), const void *payload,
                                size_t bytes, struct leatc_task **task);
LEATC_API void leatc_task_drop(struct leatc_task *task);

/* Sets the device that the task's node belongs to; without this call, it is the device that was current. */
LEATC_API void leatc_task_set_device(struct leatc_task *task, int ordinal);
LEATC_API const void *leatc_task_payload(const struct leatc_task *task);

/*
 * Stores the vendor's parameters with a task, so that the layer can return them exactly as it got them. The bytes
 * are copied. tag identifies the layer: leatc_task_kept() returns NULL for another tag, and for a task without
 * stored parameters. OUT_OF_MEMORY.
 */
LEATC_API int leatc_task_keep(struct leatc_task *task, const void *tag, const void *kept, size_t bytes);
LEATC_API const void *leatc_task_kept(const struct leatc_task *task, const void *tag);

/* A copy, as by leatc_copy() or leatc_copy_region(); a one-dimensional range is a region of one row. */
struct leatc_copy_task {
    void *dst;
    const void *src;
    leat_copy_region region;
    int direction;
};

/* INVALID_VALUE: 0 bytes, NULL, beyond the end of an allocation, or a direction that does not match the pointers;
 * INVALID_DIRECTION: no such direction. */
LEATC_API int leatc_copy_make(void *dst, const void *src, const leat_copy_region *region, int direction,
                              struct leatc_task **task);

/* A fill of rows. width is a number of units; pitch_bytes is ignored for a single row. */
struct leatc_fill_task {
    void *dst;
    size_t pitch_bytes;
    uint32_t value;
    unsigned unit_bytes;
    size_t width, height;
};

/* INVALID_VALUE: a size of 0, a unit other than 1, 2 or 4, pageable memory, beyond the end of the allocation. */
LEATC_API int leatc_fill_make(const struct leatc_fill_task *fill, struct leatc_task **task);

/* A kernel launch. args: pointers to the values of the parameters. A task has its own copy of the values. */
struct leatc_kernel_task {
    const void *function; /* as for leatc_launch(), or the layer's own handle if kernel is set */
    leat_kernel *kernel;  /* a kernel of a layer's module, or NULL */
    leat_dim3 grid, block;
    size_t shared_bytes;
    unsigned parameters; /* filled in by the engine */
    void **args;
};

/* INVALID_FUNCTION; INVALID_CONFIGURATION: grid or block sizes that no device supports; INVALID_VALUE: args are
 * missing; NOT_SUPPORTED: the driver does not report the sizes of the parameters. */
LEATC_API int leatc_kernel_make(const struct leatc_kernel_task *kernel, struct leatc_task **task);

/* The same for a launch by a layer in a captured stream. */
LEATC_API int leatc_launch_captured(struct leatc_work *work, const struct leatc_kernel_task *kernel);

struct leatc_host_task {
    void (*function)(void *);
    void *argument;
};
LEATC_API int leatc_host_make(void (*function)(void *), void *argument, struct leatc_task **task);

/* Makes a task that waits for the event, or records it. type: LEATC_NODE_WAIT or LEATC_NODE_RECORD. The task's
 * payload is the event. INVALID_HANDLE. */
LEATC_API int leatc_event_make(int type, struct leatc_event *event, struct leatc_task **task);

LEATC_API int leatc_empty_make(struct leatc_task **task);

/*
 * Memory of graphs, described below. Such a task is only valid for the graph for which it was made. ptr is the
 * address that the allocation will have; bit n of peers gives device n access too. INVALID_DEVICE; INVALID_VALUE:
 * 0 bytes; NOT_SUPPORTED: the device has no virtual memory; OUT_OF_MEMORY.
 */
struct leatc_alloc_task {
    void *ptr;
    size_t bytes;
    int ordinal;
};

/* The parameters of a node that allocates, and its access list. They have the same layout in all vendors' APIs. */
struct leatc_access_params {
    int location_type, location_id, flags;
};
struct leatc_alloc_params {
    int allocation_type, handle_types, location_type, location_id;
    void *security;
    size_t most_bytes;
    unsigned char reserved[56];
    const struct leatc_access_params *access;
    size_t access_count, bytes;
    void *ptr;
};

/* Adds a node that allocates. params points to a vendor's struct, in which ptr is set. Supported is only pinned
 * memory (as the vendors call it) of a device, without handle types, with read and write access for devices.
 * INVALID_VALUE or NOT_SUPPORTED for anything else. */
LEATC_API int leatc_graph_add_alloc(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                                    void *params, struct leatc_node **node);

/* Copies the original parameters of such a node to a vendor's struct; the node owns the access list. */
LEATC_API int leatc_node_alloc_params(struct leatc_node *node, void *params);

/* A node that frees memory of a graph. INVALID_VALUE: not memory of a graph; this graph frees it already; the
 * graph that allocates it frees it; this graph allocates it, and another one frees it. */
struct leatc_free_task {
    void *ptr;
};
LEATC_API int leatc_free_make(struct leatc_graph *graph, void *ptr, struct leatc_task **task);

/* ---- graphs --------------------------------------------------------------------------------------------- */

LEATC_API int leatc_graph_create(struct leatc_graph **graph);

/* INVALID_VALUE also for a child graph, and for a graph into which a stream is being captured. */
LEATC_API int leatc_graph_destroy(struct leatc_graph *graph);

/* Copies a graph with all nodes, edges and child graphs. NOT_SUPPORTED: it has nodes that allocate or free. */
LEATC_API int leatc_graph_clone(struct leatc_graph *graph, struct leatc_graph **clone);

/*
 * Adds a node that depends on the nodes of before. INVALID_VALUE: one of these is not in this graph, or is listed
 * twice. add_child: the child graph of the new node is a clone of child. If move is set, it is child itself, whose
 * handle then belongs to the node and can be neither destroyed nor instantiated.
 */
LEATC_API int leatc_graph_add(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                              struct leatc_task *task, struct leatc_node **node);
LEATC_API int leatc_graph_add_child(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                                    struct leatc_graph *child, bool move, struct leatc_node **node);

/* NOT_SUPPORTED: the graph has nodes that allocate or free, or a stream is being captured into it. */
LEATC_API int leatc_node_destroy(struct leatc_node *node);

/* Checks the data of count edges, 8 bytes each as both vendors define them; data may be NULL. The engine supports
 * only data of 0: INVALID_VALUE for values that no vendor defines, NOT_SUPPORTED for other values than 0. The
 * calls below check their edge data with this. */
LEATC_API int leatc_edge_data_check(const void *data, size_t count);

/* Adds or removes the edges from[i] to to[i]; all or none. INVALID_VALUE: a NULL list with a count, a node of
 * another graph, an edge from a node to itself, an edge that exists already, or does not exist. Removing:
 * NOT_SUPPORTED as for leatc_node_destroy(); an edge with data does not exist. */
LEATC_API int leatc_edges_add(struct leatc_graph *graph, struct leatc_node *const *from,
                              struct leatc_node *const *to, const void *data, size_t count);
LEATC_API int leatc_edges_remove(struct leatc_graph *graph, struct leatc_node *const *from,
                                 struct leatc_node *const *to, const void *data, size_t count);

/* Lists. If the list is NULL, *count becomes the number of elements. Otherwise *count is the room of the list on
 * entry: the list is filled in order, unused entries become NULL, and *count becomes the number of elements
 * written. from and to of edges must both be NULL or both not. data may be NULL, and must be if the list is. */
LEATC_API int leatc_graph_nodes(struct leatc_graph *graph, bool roots, struct leatc_node **nodes, size_t *count);
LEATC_API int leatc_graph_edges(struct leatc_graph *graph, struct leatc_node **from, struct leatc_node **to,
                                void *data, size_t *count);
LEATC_API int leatc_node_neighbours(struct leatc_node *node, bool after, struct leatc_node **nodes, void *data,
                                    size_t *count);

/* Returns the node of clone that was copied from node. */
LEATC_API int leatc_node_in_clone(struct leatc_node *node, struct leatc_graph *clone, struct leatc_node **found);

LEATC_API int leatc_node_type(struct leatc_node *node, int *type);
LEATC_API int leatc_node_child(struct leatc_node *node, struct leatc_graph **child);

/* Returns the task of a node of this type. It is valid until the parameters of the node are set or the node is
 * destroyed. */
LEATC_API int leatc_node_task(struct leatc_node *node, int type, const struct leatc_task **task);

/* Sets the parameters of a node. INVALID_VALUE: a task of another type, or a node that allocates or frees. */
LEATC_API int leatc_node_set(struct leatc_node *node, struct leatc_task *task);

/* Attributes of kernel nodes, by the vendors' numbers: stored and returned, without effect. An attribute that was
 * never set is all 0. INVALID_VALUE: not a kernel node, no such attribute, or an invalid value; NOT_SUPPORTED:
 * cooperative kernels, clusters. */
#define LEATC_ATTRIBUTE_BYTES 64
enum { LEATC_ATTRIBUTE_WINDOW = 1, LEATC_ATTRIBUTE_PRIORITY = 8 };
LEATC_API int leatc_node_set_attribute(struct leatc_node *node, int number, const void *value);
LEATC_API int leatc_node_attribute(struct leatc_node *node, int number, void *value);
LEATC_API int leatc_node_copy_attributes(struct leatc_node *dst, struct leatc_node *src);

/* Checks the fields of an access policy window. A layer calls this before it sets LEATC_ATTRIBUTE_WINDOW, because
 * the vendors' structs differ. INVALID_VALUE. */
LEATC_API int leatc_window_check(float ratio, int hit, int miss);

/* Writes the graph to a file in the DOT language; details: with the parameters of nodes. OPERATING_SYSTEM: the
 * file cannot be written. */
LEATC_API int leatc_graph_print(struct leatc_graph *graph, const char *path, bool details);

/* ---- user objects --------------------------------------------------------------------------------------- */

/* A user object: references are counted, and destroy(ptr) is called when the last one is released. A graph may own
 * references; a clone or executable graph made from it owns as many of its own. Those of an executable graph are
 * released when its launches have completed. destroy may run on any thread, and must not call the vendor's
 * functions. */
struct leatc_object;

/* INVALID_VALUE: destroy is NULL, a count of 0 or above INT_MAX, or a release of more references than the program
 * owns. */
LEATC_API int leatc_object_create(void *ptr, void (*destroy)(void *), unsigned count,
                                  struct leatc_object **object);
LEATC_API int leatc_object_retain(struct leatc_object *object, unsigned count);
LEATC_API int leatc_object_release(struct leatc_object *object, unsigned count);

/* move: the graph takes over references of the caller; otherwise it gets additional ones. */
LEATC_API int leatc_graph_retain(struct leatc_graph *graph, struct leatc_object *object, unsigned count,
                                 bool move);
LEATC_API int leatc_graph_release(struct leatc_graph *graph, struct leatc_object *object, unsigned count);

/* ---- executable graphs ---------------------------------------------------------------------------------- */

/* Flags of an executable graph, and the outcome of an instantiation. Both vendors use these values. */
#define LEATC_GRAPH_AUTO_FREE 1u     /* a launch first frees what earlier launches left allocated */
#define LEATC_GRAPH_UPLOAD 2u        /* leatc_graph_instantiate_with() calls leatc_exec_upload() */
#define LEATC_GRAPH_DEVICE_LAUNCH 4u /* not supported: only the host launches graphs */
#define LEATC_GRAPH_PRIORITY 8u      /* updates must not change the priorities of nodes */
enum { LEATC_INSTANTIATE_OK = 0, LEATC_INSTANTIATE_ERROR = 1, LEATC_INSTANTIATE_STRUCTURE = 2 };

/* INVALID_VALUE: unknown flags, or a cycle; if wrong is not NULL, *wrong becomes a node of the cycle, else NULL.
 * NOT_SUPPORTED: the graph allocates or frees and has an executable graph already. */
LEATC_API int leatc_graph_instantiate(struct leatc_graph *graph, unsigned long long flags,
                                      struct leatc_exec **exec, struct leatc_node **wrong);

/* The same, followed by leatc_exec_upload() to stream if flags ask for it. *why: LEATC_INSTANTIATE_... */
LEATC_API int leatc_graph_instantiate_with(struct leatc_graph *graph, unsigned long long flags,
                                           struct leatc_stream *stream, struct leatc_exec **exec,
                                           struct leatc_node **wrong, int *why);
LEATC_API int leatc_exec_check(struct leatc_exec *exec);
LEATC_API int leatc_exec_flags(struct leatc_exec *exec, unsigned long long *flags);

/* Launches that were submitted still complete. */
LEATC_API int leatc_exec_destroy(struct leatc_exec *exec);

/*
 * Submits all nodes to stream and to streams of the executable graph, ordered by the edges, after earlier work of
 * stream and after earlier launches. In a captured stream it adds a child graph node instead. INVALID_VALUE:
 * memory that an earlier launch allocated was not freed, or memory to be freed is not allocated.
 */
LEATC_API int leatc_exec_launch(struct leatc_exec *exec, struct leatc_stream *stream);

/* Maps the memory that a launch will need. */
LEATC_API int leatc_exec_upload(struct leatc_exec *exec, struct leatc_stream *stream);

/*
 * Sets the parameters of the copy of node in the executable graph, for later launches. INVALID_VALUE: there is no
 * such copy, it allocates or frees, or the change is not allowed: another type of node, other devices or kinds of
 * memory, another shape of a fill or of a copy with several rows.
 */
LEATC_API int leatc_exec_set(struct leatc_exec *exec, struct leatc_node *node, struct leatc_task *task);
LEATC_API int leatc_exec_set_child(struct leatc_exec *exec, struct leatc_node *node, struct leatc_graph *child);

/* Disabled nodes do nothing. INVALID_VALUE: not a kernel, copy or fill. */
LEATC_API int leatc_exec_enable(struct leatc_exec *exec, struct leatc_node *node, bool on);
LEATC_API int leatc_exec_enabled(struct leatc_exec *exec, struct leatc_node *node, bool *on);

/* The reason why an update was refused. Both vendors use these values. */
enum {
    LEATC_UPDATE_OK = 0,
    LEATC_UPDATE_ERROR = 1,
    LEATC_UPDATE_TOPOLOGY = 2,
    LEATC_UPDATE_TYPE = 3,
    LEATC_UPDATE_FUNCTION = 4,
    LEATC_UPDATE_PARAMETERS = 5,
    LEATC_UPDATE_NOT_SUPPORTED = 6,
    LEATC_UPDATE_OTHER_FUNCTION = 7,
    LEATC_UPDATE_ATTRIBUTES = 8
};
struct leatc_update {
    int why;
    struct leatc_node *node, *from; /* nodes of the graph that was passed; NULL if the reason is not about a
                                     * node */
};

/* Gives all nodes the tasks of the corresponding nodes of a graph with the same topology. A failure changes
 * nothing. GRAPH_UPDATE: *update has the reason. */
LEATC_API int leatc_exec_update(struct leatc_exec *exec, struct leatc_graph *graph, struct leatc_update *update);

/* ---- memory of graphs ----------------------------------------------------------------------------------- */

/*
 * Memory of graphs. A node that allocates gets its address when it is added, and nothing else gets these addresses
 * as long as the graph, an executable graph of it, or the allocation exists. A launch makes the allocation live. A
 * node of any graph, leatc_free() or leatc_free_async() ends it, but its memory stays with the graph. Memory that
 * is not live can only be used by nodes; other calls return INVALID_VALUE for it. Memory is taken from the device
 * at the first launch, and given back with the graph or by leatc_graph_memory_trim().
 */

/* Both vendors use these values. used: live memory; reserved: memory taken from the device; HIGH: the maximum
 * since it was set to 0. */
enum {
    LEATC_GRAPH_MEMORY_USED = 0,
    LEATC_GRAPH_MEMORY_USED_HIGH = 1,
    LEATC_GRAPH_MEMORY_RESERVED = 2,
    LEATC_GRAPH_MEMORY_RESERVED_HIGH = 3
};
LEATC_API int leatc_graph_memory_get(int ordinal, int attribute, uint64_t *value);
/* Resets a maximum. INVALID_VALUE: the attribute is not a maximum, or the value is not 0. */
LEATC_API int leatc_graph_memory_set(int ordinal, int attribute, const uint64_t *value);

/* Gives back the memory of graphs without live allocations and without launches that have not completed. Does not
 * wait. */
LEATC_API int leatc_graph_memory_trim(int ordinal);

/* ---- capture -------------------------------------------------------------------------------------------- */

/*
 * Capture. Work that is submitted to a captured stream is not executed: its arguments are checked, and it becomes
 * a node of a graph. Copies, fills, host functions, kernels, allocation in stream order and events can be
 * captured; all other calls fail. Work that must not be mixed with a capture invalidates it: the capture then ends
 * with CAPTURE_INVALIDATED and without a graph.
 */
enum { LEATC_CAPTURE_GLOBAL = 0, LEATC_CAPTURE_THREAD_LOCAL = 1, LEATC_CAPTURE_RELAXED = 2 };
enum { LEATC_CAPTURE_NONE = 0, LEATC_CAPTURE_ACTIVE = 1, LEATC_CAPTURE_INVALID = 2 };

/* INVALID_VALUE: no such mode; CAPTURE_UNSUPPORTED: the legacy default stream; ILLEGAL_STATE: the stream is being
 * captured already. */
LEATC_API int leatc_capture_begin(struct leatc_stream *stream, int mode);

/* Captures into an existing graph. The first node depends on the nodes of before, by edges with data (may be
 * NULL). The caller keeps the graph, even if the capture fails. INVALID_VALUE: as leatc_graph_add(), or a stream
 * is being captured into it already. */
LEATC_API int leatc_capture_begin_to(struct leatc_stream *stream, struct leatc_graph *graph,
                                     struct leatc_node *const *before, const void *data, size_t count, int mode);

/* ILLEGAL_STATE (not being captured), CAPTURE_UNMATCHED (the capture began in another stream),
 * CAPTURE_WRONG_THREAD: the capture continues. CAPTURE_INVALIDATED, CAPTURE_UNJOINED: it has ended, and *graph is
 * NULL. */
LEATC_API int leatc_capture_end(struct leatc_stream *stream, struct leatc_graph **graph);

/* *id is set only if id is not NULL and the stream is being captured. CAPTURE_IMPLICIT: the stream is the legacy
 * default stream, and a blocking stream is being captured. */
LEATC_API int leatc_capture_status(struct leatc_stream *stream, int *status, unsigned long long *id);

/* The state of a capture: the graph so far, and the nodes on which the next work of the stream will depend. The
 * list is valid until work is submitted to the stream. graph is NULL unless the stream is being captured. */
struct leatc_capture_info {
    int status;
    unsigned long long id;
    struct leatc_graph *graph;
    struct leatc_node **ends;
    size_t end_count;
};
LEATC_API int leatc_capture_info(struct leatc_stream *stream, struct leatc_capture_info *info);

/* Adds nodes to those that the next work of the stream depends on (flags 0), or replaces these (1). ILLEGAL_STATE:
 * not being captured; CAPTURE_INVALIDATED; INVALID_VALUE: nodes of another graph, other flags. */
LEATC_API int leatc_capture_update(struct leatc_stream *stream, struct leatc_node *const *nodes, const void *data,
                                   size_t count, unsigned flags);

/* Sets this thread's capture mode, which says which captures forbid unsafe calls; *mode returns the earlier
 * one. */
LEATC_API int leatc_capture_exchange_mode(int *mode);

/* A layer calls unsafe() before an operation that is unsafe during a capture (CAPTURE_UNSUPPORTED), and sync()
 * before one that waits in the legacy default stream (also CAPTURE_IMPLICIT). The engine's own functions do this
 * themselves. */
LEATC_API int leatc_capture_refuse_unsafe(void);
LEATC_API int leatc_capture_refuse_sync(void);

/* Adds a node to the capture of work, if work.captured is set. Takes ownership of the task. */
LEATC_API int leatc_capture_add(struct leatc_work *work, struct leatc_task *task);

#endif
