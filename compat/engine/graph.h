/*
 * graph.h - graphs: nodes, edges, executable graphs, the memory that they allocate. Part of engine.h.
 *
 * Model. A graph has nodes and edges between them; an edge means that the second node runs after the first. What a
 * node does is its task: an immutable description with a reference count. So a clone and an executable graph share
 * the tasks of the graph that they were made from, and setting a node's parameters gives that node another task
 * and changes nothing else. An executable graph has nodes of its own, which remember the node that they were made
 * from.
 *
 * A layer makes a task from its vendor's struct (leatc_..._task()) and gives it to a call that takes it: to add a
 * node, to set a node's parameters, or to set those of a node of an executable graph. These calls own the task,
 * whether they succeed or not.
 *
 * Results. INVALID_VALUE for handles that are not alive, unless a call says otherwise.
 *
 * Threads. Any thread may call anything; calls that change graphs take turns. Launches of one executable graph run
 * one after the other, in whatever streams they are given.
 */
#ifndef LEATC_GRAPH_H
#define LEATC_GRAPH_H

struct leatc_graph;
struct leatc_exec;
struct leatc_node;
struct leatc_task;

/* ---- tasks ---------------------------------------------------------------------------------------------- */

/* The vendors' numbers of node types. */
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

/* Gives a task's work to work->stream, each time that its graph is launched. */
typedef int (*leatc_task_run)(const void *payload, struct leatc_work *work);

/* A task of a layer: payload is copied; end, unless NULL, is called with the copy when nothing refers to the task
 * any more. OUT_OF_MEMORY: end was not called. The tasks below are made by the engine. */
LEATC_API int leatc_task_create(int type, leatc_task_run run, void (*end)(void *payload), const void *payload,
                                size_t bytes, struct leatc_task **task);
LEATC_API void leatc_task_drop(struct leatc_task *task);

/* The device that the task's node belongs to, if not the one that was current. */
LEATC_API void leatc_task_set_device(struct leatc_task *task, int ordinal);
LEATC_API const void *leatc_task_payload(const struct leatc_task *task);

/*
 * What a layer keeps with a task, so that it can give back exactly what it was given: bytes are copied. tag is the
 * layer's own; another layer, and a task without any, gets NULL. OUT_OF_MEMORY.
 */
LEATC_API int leatc_task_keep(struct leatc_task *task, const void *tag, const void *kept, size_t bytes);
LEATC_API const void *leatc_task_kept(const struct leatc_task *task, const void *tag);

/* A copy, as leatc_copy() and leatc_copy_region() make it; a plain range is a region of one row. */
struct leatc_copy_task {
    void *dst;
    const void *src;
    leat_copy_region region;
    int direction;
};

/* INVALID_VALUE: 0 bytes, NULL, past the end of an allocation, or a direction that does not fit the pointers;
 * INVALID_DIRECTION: no such direction. */
LEATC_API int leatc_copy_make(void *dst, const void *src, const leat_copy_region *region, int direction,
                              struct leatc_task **task);

/* A fill of rows: width counts units; pitch_bytes is not looked at where there is one row. */
struct leatc_fill_task {
    void *dst;
    size_t pitch_bytes;
    uint32_t value;
    unsigned unit_bytes;
    size_t width, height;
};

/* INVALID_VALUE: a size of 0, a unit other than 1, 2 or 4, pageable memory, past the end of the allocation. */
LEATC_API int leatc_fill_make(const struct leatc_fill_task *fill, struct leatc_task **task);

/* A launch of a kernel. args: a pointer to the value of each parameter; what a task says has values of its own. */
struct leatc_kernel_task {
    const void *function; /* as for leatc_launch(), or the layer's handle when kernel is set */
    leat_kernel *kernel;  /* of a layer's module, or NULL */
    leat_dim3 grid, block;
    size_t shared_bytes;
    unsigned parameters; /* filled in by the engine */
    void **args;
};

/* INVALID_FUNCTION; INVALID_CONFIGURATION: sizes that no device runs; INVALID_VALUE: args are missing;
 * NOT_SUPPORTED: the driver does not say how long the arguments are. */
LEATC_API int leatc_kernel_make(const struct leatc_kernel_task *kernel, struct leatc_task **task);

/* The same for a layer's launch in a captured stream. */
LEATC_API int leatc_launch_captured(struct leatc_work *work, const struct leatc_kernel_task *kernel);

struct leatc_host_task {
    void (*function)(void *);
    void *argument;
};
LEATC_API int leatc_host_make(void (*function)(void *), void *argument, struct leatc_task **task);

/* type: LEATC_NODE_WAIT or LEATC_NODE_RECORD. The payload is the event. INVALID_HANDLE. */
LEATC_API int leatc_event_make(int type, struct leatc_event *event, struct leatc_task **task);

LEATC_API int leatc_empty_make(struct leatc_task **task);

/*
 * Memory of graphs, see below: tasks for nodes of this graph and no other, which is reported here already. ptr is
 * the address that the allocation will have; bit n of peers gives device n access too. INVALID_DEVICE;
 * INVALID_VALUE: 0 bytes; NOT_SUPPORTED: the device has no virtual memory; OUT_OF_MEMORY.
 */
struct leatc_alloc_task {
    void *ptr;
    size_t bytes;
    int ordinal;
};

/* The parameters of a node that allocates, and of who else gets access, as all vendors lay them out. */
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

/* Adds a node that allocates. params: a vendor's struct, whose ptr is written. INVALID_VALUE and NOT_SUPPORTED
 * also for other than pinned memory (the vendors' word) of a device, without handles, that devices may read and
 * write.
 */
LEATC_API int leatc_graph_add_alloc(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                                    void *params, struct leatc_node **node);

/* Writes the parameters of such a node, as they were given, to a vendor's struct; the list stays the node's. */
LEATC_API int leatc_node_alloc_params(struct leatc_node *node, void *params);

/* INVALID_VALUE: not memory of a graph; freed in this graph already; freed by its own graph, or by another graph
 * where this one is its own. */
struct leatc_free_task {
    void *ptr;
};
LEATC_API int leatc_free_make(struct leatc_graph *graph, void *ptr, struct leatc_task **task);

/* ---- graphs --------------------------------------------------------------------------------------------- */

LEATC_API int leatc_graph_create(struct leatc_graph **graph);

/* INVALID_VALUE also for a graph that is the child of another, or is being captured into. */
LEATC_API int leatc_graph_destroy(struct leatc_graph *graph);

/* A copy with all nodes, edges and child graphs. NOT_SUPPORTED: it has nodes that allocate or free. */
LEATC_API int leatc_graph_clone(struct leatc_graph *graph, struct leatc_graph **clone);

/*
 * Adds a node after those of before. INVALID_VALUE: one of them is not of this graph, or is there twice. The child
 * of a child graph node is a clone of child, or child itself if move is set: that handle then belongs to the node,
 * and can be neither destroyed nor instantiated.
 */
LEATC_API int leatc_graph_add(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                              struct leatc_task *task, struct leatc_node **node);
LEATC_API int leatc_graph_add_child(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                                    struct leatc_graph *child, bool move, struct leatc_node **node);

/* NOT_SUPPORTED: the graph has nodes that allocate or free; or it is being captured into. */
LEATC_API int leatc_node_destroy(struct leatc_node *node);

/* The data of count edges, 8 bytes each as both vendors have them; NULL: there are none. Edges here have no data:
 * INVALID_VALUE for what no vendor knows, NOT_SUPPORTED for what is not all 0. The calls below check theirs. */
LEATC_API int leatc_edge_data_check(const void *data, size_t count);

/* Edges from[i] to to[i]; all of them or none. INVALID_VALUE: NULL with a count, nodes of another graph, a node
 * and itself, an edge that is there already, or that is not. Removing: NOT_SUPPORTED as for leatc_node_destroy();
 * an edge with data is not there. */
LEATC_API int leatc_edges_add(struct leatc_graph *graph, struct leatc_node *const *from,
                              struct leatc_node *const *to, const void *data, size_t count);
LEATC_API int leatc_edges_remove(struct leatc_graph *graph, struct leatc_node *const *from,
                                 struct leatc_node *const *to, const void *data, size_t count);

/* Lists: with NULL, *count becomes the number; else it is the room, the list is filled in order, the rest of the
 * room becomes NULL, and *count how many were written. from and to of edges are both NULL or both not. data may be
 * NULL; without a list it must be. */
LEATC_API int leatc_graph_nodes(struct leatc_graph *graph, bool roots, struct leatc_node **nodes, size_t *count);
LEATC_API int leatc_graph_edges(struct leatc_graph *graph, struct leatc_node **from, struct leatc_node **to,
                                void *data, size_t *count);
LEATC_API int leatc_node_neighbours(struct leatc_node *node, bool after, struct leatc_node **nodes, void *data,
                                    size_t *count);

/* The node of clone that was made from node. */
LEATC_API int leatc_node_in_clone(struct leatc_node *node, struct leatc_graph *clone, struct leatc_node **found);

LEATC_API int leatc_node_type(struct leatc_node *node, int *type);
LEATC_API int leatc_node_child(struct leatc_node *node, struct leatc_graph **child);

/* The task of a node of this type, which lives until the node's parameters are set or the node goes. */
LEATC_API int leatc_node_task(struct leatc_node *node, int type, const struct leatc_task **task);

/* INVALID_VALUE: a task of another type, or a node that allocates or frees. */
LEATC_API int leatc_node_set(struct leatc_node *node, struct leatc_task *task);

/* Attributes of kernel nodes by the vendors' number: kept, and given back. Getting one that was never set: bytes
 * of 0. INVALID_VALUE: not a kernel node, no such attribute, or a value that it cannot have; NOT_SUPPORTED:
 * cooperative kernels, clusters. */
#define LEATC_ATTRIBUTE_BYTES 64
enum { LEATC_ATTRIBUTE_WINDOW = 1, LEATC_ATTRIBUTE_PRIORITY = 8 };
LEATC_API int leatc_node_set_attribute(struct leatc_node *node, int number, const void *value);
LEATC_API int leatc_node_attribute(struct leatc_node *node, int number, void *value);
LEATC_API int leatc_node_copy_attributes(struct leatc_node *dst, struct leatc_node *src);

/* A layer asks this before it sets LEATC_ATTRIBUTE_WINDOW, since the vendors' structs differ. INVALID_VALUE. */
LEATC_API int leatc_window_check(float ratio, int hit, int miss);

/* Writes the graph to a file, in the DOT language. With details, nodes have their parameters. OPERATING_SYSTEM:
 * the file cannot be written. */
LEATC_API int leatc_graph_print(struct leatc_graph *graph, const char *path, bool details);

/* ---- user objects --------------------------------------------------------------------------------------- */

/* Counted references to something of the program's; destroy(ptr) is called when the last one is gone. Graphs may
 * own some, and what is made from a graph owns as many of its own; those of an executable graph go when its
 * launches are over. destroy may run on any thread, and must not call the vendor's names. */
struct leatc_object;

/* INVALID_VALUE: destroy NULL, a count of 0 or above INT_MAX; releasing more than there are. */
LEATC_API int leatc_object_create(void *ptr, void (*destroy)(void *), unsigned count,
                                  struct leatc_object **object);
LEATC_API int leatc_object_retain(struct leatc_object *object, unsigned count);
LEATC_API int leatc_object_release(struct leatc_object *object, unsigned count);

/* move: the caller's references become the graph's, else new ones do. */
LEATC_API int leatc_graph_retain(struct leatc_graph *graph, struct leatc_object *object, unsigned count,
                                 bool move);
LEATC_API int leatc_graph_release(struct leatc_graph *graph, struct leatc_object *object, unsigned count);

/* ---- executable graphs ---------------------------------------------------------------------------------- */

/* Flags of an executable, and what became of making it; the vendors' numbers. */
#define LEATC_GRAPH_AUTO_FREE 1u     /* launching frees what earlier launches left allocated */
#define LEATC_GRAPH_UPLOAD 2u        /* of leatc_graph_instantiate_with() */
#define LEATC_GRAPH_DEVICE_LAUNCH 4u /* not supported: nothing runs on a device but what the host launches */
#define LEATC_GRAPH_PRIORITY 8u      /* priorities of nodes must not be updated */
enum { LEATC_INSTANTIATE_OK = 0, LEATC_INSTANTIATE_ERROR = 1, LEATC_INSTANTIATE_STRUCTURE = 2 };

/* INVALID_VALUE: no such flag, or the edges go round in a circle (*wrong becomes a node of it, else NULL, if wrong
 * is not NULL); NOT_SUPPORTED: another executable of a graph that allocates or frees is there. */
LEATC_API int leatc_graph_instantiate(struct leatc_graph *graph, unsigned long long flags,
                                      struct leatc_exec **exec, struct leatc_node **wrong);

/* The same, and leatc_exec_upload() to stream if flags say so. *why: LEATC_INSTANTIATE_... */
LEATC_API int leatc_graph_instantiate_with(struct leatc_graph *graph, unsigned long long flags,
                                           struct leatc_stream *stream, struct leatc_exec **exec,
                                           struct leatc_node **wrong, int *why);
LEATC_API int leatc_exec_check(struct leatc_exec *exec);
LEATC_API int leatc_exec_flags(struct leatc_exec *exec, unsigned long long *flags);

/* Work that was launched goes on. */
LEATC_API int leatc_exec_destroy(struct leatc_exec *exec);

/*
 * Gives all nodes to stream and to streams of the executable's own, in the order of the edges: after what the
 * stream was given before, and after earlier launches. A captured stream gets a child graph node instead.
 * INVALID_VALUE: memory that an earlier launch allocated was not freed, or memory to be freed is not allocated.
 */
LEATC_API int leatc_exec_launch(struct leatc_exec *exec, struct leatc_stream *stream);

/* Takes the memory that a launch will need. */
LEATC_API int leatc_exec_upload(struct leatc_exec *exec, struct leatc_stream *stream);

/*
 * Sets the parameters of the node that was made from node, from the next launch on. INVALID_VALUE: the executable
 * has none, it allocates or frees, or the change is not possible: another kind of node, other devices or kinds of
 * memory, another shape of a fill or of a copy in rows.
 */
LEATC_API int leatc_exec_set(struct leatc_exec *exec, struct leatc_node *node, struct leatc_task *task);
LEATC_API int leatc_exec_set_child(struct leatc_exec *exec, struct leatc_node *node, struct leatc_graph *child);

/* Nodes that are switched off do nothing. INVALID_VALUE: not a kernel, copy or fill. */
LEATC_API int leatc_exec_enable(struct leatc_exec *exec, struct leatc_node *node, bool on);
LEATC_API int leatc_exec_enabled(struct leatc_exec *exec, struct leatc_node *node, bool *on);

/* Why an update was refused; the vendors' numbers. */
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
    struct leatc_node *node, *from; /* of the graph that was given; NULL where there is none to name */
};

/* Gives all nodes the tasks of a graph of the same form; on failure none. GRAPH_UPDATE: *update says why. */
LEATC_API int leatc_exec_update(struct leatc_exec *exec, struct leatc_graph *graph, struct leatc_update *update);

/* ---- memory of graphs ----------------------------------------------------------------------------------- */

/*
 * A node that allocates has its address from the time that it is added, and nobody else gets it while the graph,
 * an executable of it, or the allocation itself lives. A launch makes the allocation live; a node of any graph, or
 * leatc_free() and leatc_free_async(), ends it, and the memory stays with the graph. Memory that is not live can
 * be named by nodes only: whatever else is given it says INVALID_VALUE. Memory is taken from the device at the
 * first launch, and goes back with the graph or by leatc_graph_memory_trim().
 */

/* Numbers of both vendors: used is live memory, reserved what was taken from the device; the highest values since
 * they were set to 0. */
enum {
    LEATC_GRAPH_MEMORY_USED = 0,
    LEATC_GRAPH_MEMORY_USED_HIGH = 1,
    LEATC_GRAPH_MEMORY_RESERVED = 2,
    LEATC_GRAPH_MEMORY_RESERVED_HIGH = 3
};
LEATC_API int leatc_graph_memory_get(int ordinal, int attribute, uint64_t *value);
/* INVALID_VALUE: not one of the two highest values, or not 0. */
LEATC_API int leatc_graph_memory_set(int ordinal, int attribute, const uint64_t *value);

/* Gives back what no live memory and no launch that runs needs. Does not wait. */
LEATC_API int leatc_graph_memory_trim(int ordinal);

/* ---- capture -------------------------------------------------------------------------------------------- */

/*
 * Work for a captured stream is not done but becomes a node of a graph, after its arguments were checked. Copies,
 * fills, host functions, kernels, allocation in stream order, and events are captured; the rest refuses. What does
 * not go together with a capture makes that invalid: it ends with CAPTURE_INVALIDATED and without a graph.
 */
enum { LEATC_CAPTURE_GLOBAL = 0, LEATC_CAPTURE_THREAD_LOCAL = 1, LEATC_CAPTURE_RELAXED = 2 };
enum { LEATC_CAPTURE_NONE = 0, LEATC_CAPTURE_ACTIVE = 1, LEATC_CAPTURE_INVALID = 2 };

/* INVALID_VALUE: no such mode; CAPTURE_UNSUPPORTED: the legacy default stream; ILLEGAL_STATE: captured already. */
LEATC_API int leatc_capture_begin(struct leatc_stream *stream, int mode);

/* Into a graph that is there; the first node comes after those of before, over edges with data (NULL: none). The
 * graph stays the caller's when the capture fails. INVALID_VALUE: as leatc_graph_add(), or it is captured into
 * already. */
LEATC_API int leatc_capture_begin_to(struct leatc_stream *stream, struct leatc_graph *graph,
                                     struct leatc_node *const *before, const void *data, size_t count, int mode);

/* ILLEGAL_STATE (not captured), CAPTURE_UNMATCHED (it began in another stream), CAPTURE_WRONG_THREAD: the capture
 * goes on. CAPTURE_INVALIDATED, CAPTURE_UNJOINED: it is over, and *graph NULL. */
LEATC_API int leatc_capture_end(struct leatc_stream *stream, struct leatc_graph **graph);

/* *id, if id is not NULL, is written when the stream is captured. CAPTURE_IMPLICIT: the legacy default stream,
 * while a blocking stream is captured. */
LEATC_API int leatc_capture_status(struct leatc_stream *stream, int *status, unsigned long long *id);

/* All that there is to say: the graph so far, and the nodes that the stream's next one comes after, until it is
 * given more work. graph NULL unless it is captured. */
struct leatc_capture_info {
    int status;
    unsigned long long id;
    struct leatc_graph *graph;
    struct leatc_node **ends;
    size_t end_count;
};
LEATC_API int leatc_capture_info(struct leatc_stream *stream, struct leatc_capture_info *info);

/* Adds to the nodes that the stream's next one comes after (flags 0), or replaces them (1). ILLEGAL_STATE: not
 * captured; CAPTURE_INVALIDATED; INVALID_VALUE: nodes of another graph, other flags. */
LEATC_API int leatc_capture_update(struct leatc_stream *stream, struct leatc_node *const *nodes, const void *data,
                                   size_t count, unsigned flags);

/* This thread's mode for what is not safe while something is captured. */
LEATC_API int leatc_capture_exchange_mode(int *mode);

/* What a layer says before something that is not safe during a capture (CAPTURE_UNSUPPORTED), and before something
 * that waits in the legacy default stream (CAPTURE_IMPLICIT too). The engine's own calls say it themselves. */
LEATC_API int leatc_capture_refuse_unsafe(void);
LEATC_API int leatc_capture_refuse_sync(void);

/* Adds a node to the capture of work.captured; owns the task. */
LEATC_API int leatc_capture_add(struct leatc_work *work, struct leatc_task *task);

#endif
