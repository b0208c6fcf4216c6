/*
 * graph.h - declares the engine's calls for graphs: nodes, edges, executable graphs, and the memory that graphs
 * allocate. engine.h includes it.
 *
 * Model. A graph has nodes and edges; an edge means that its second node runs after its first. A node's task says
 * what the node does: it is an immutable description with a reference count. A clone and an executable graph share
 * the tasks of the graph that they were made from. Setting the parameters of a node replaces its task and changes
 * nothing else. An executable graph has its own nodes; each of them remembers the node of which it is a copy.
 *
 * A layer makes a task from its vendor's struct (leatc_..._make()), and passes it to a call that adds a node, sets
 * the parameters of a node, or sets those of a node of an executable graph. These calls take ownership of the
 * task, even if they fail.
 *
 * Results. Calls return INVALID_VALUE for handles that are not live, unless a comment says otherwise.
 *
 * Threads. Any thread may call any function. Calls that change graphs run one at a time. Launches of one
 * executable graph run one after the other, even if they are in different streams.
 */
#ifndef LEATC_GRAPH_H
#define LEATC_GRAPH_H

struct leatc_graph;
struct leatc_exec;
struct leatc_node;
struct leatc_task;

/* ---- tasks ---------------------------------------------------------------------------------------------- */

/* The types of nodes, with the numbers that both vendors use. */
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

/* Creates a task whose work a layer defines; the engine itself creates the tasks below. The task has a copy of
 * payload. If end is not NULL, the engine calls end with this copy when the last reference to the task is dropped.
 * If the result is OUT_OF_MEMORY, end was not called. */
LEATC_API int leatc_task_create(int type, leatc_task_run run, void (*end)(void *payload), const void *payload,
                                size_t bytes, struct leatc_task **task);
LEATC_API void leatc_task_drop(struct leatc_task *task);

/* Sets the device that the task's node belongs to. Without this call, it is the device that was current when the
 * task was created. */
LEATC_API void leatc_task_set_device(struct leatc_task *task, int ordinal);
LEATC_API const void *leatc_task_payload(const struct leatc_task *task);

/*
 * Stores a copy of the vendor's parameters with a task, so that the layer can return them exactly as it got them.
 * tag identifies the layer: leatc_task_kept() returns NULL if no parameters are stored, or if they were stored
 * with another tag. OUT_OF_MEMORY: there is no memory for the copy.
 */
LEATC_API int leatc_task_keep(struct leatc_task *task, const void *tag, const void *kept, size_t bytes);
LEATC_API const void *leatc_task_kept(const struct leatc_task *task, const void *tag);

/* A copy by leatc_copy() or leatc_copy_region(). A one-dimensional range is a region of one row. */
struct leatc_copy_task {
    void *dst;
    const void *src;
    leat_copy_region region;
    int direction;
};

/* Makes the task of a copy. INVALID_VALUE: a size is 0, a pointer is NULL or beyond the end of an allocation, or
 * direction does not match the pointers. INVALID_DIRECTION: there is no such direction. */
LEATC_API int leatc_copy_make(void *dst, const void *src, const leat_copy_region *region, int direction,
                              struct leatc_task **task);

/* A fill of rows. width is a number of units. If there is a single row, pitch_bytes is ignored. */
struct leatc_fill_task {
    void *dst;
    size_t pitch_bytes;
    uint32_t value;
    unsigned unit_bytes;
    size_t width, height;
};

/* Makes the task of a fill. INVALID_VALUE: a size is 0, a unit is not 1, 2 or 4 bytes, or the range is in pageable
 * memory or beyond the end of its allocation. */
LEATC_API int leatc_fill_make(const struct leatc_fill_task *fill, struct leatc_task **task);

/* A kernel launch. args points to the values of the parameters, which the task copies. */
struct leatc_kernel_task {
    const void *function; /* a function as for leatc_launch(); if kernel is set, the layer's own handle of it */
    leat_kernel *kernel;  /* a kernel of a module of the layer, or NULL */
    leat_dim3 grid, block;
    size_t shared_bytes;
    unsigned parameters; /* number of parameters; the engine fills it in */
    void **args;
};

/* Makes the task of a kernel launch. INVALID_FUNCTION: function is not a kernel. INVALID_CONFIGURATION: no device
 * supports the grid or block size. INVALID_VALUE: args are missing. NOT_SUPPORTED: the driver does not report the
 * sizes of the parameters. */
LEATC_API int leatc_kernel_make(const struct leatc_kernel_task *kernel, struct leatc_task **task);

/* Adds a kernel launch of a layer to the capture of a stream. Fails like leatc_kernel_make(). */
LEATC_API int leatc_launch_captured(struct leatc_work *work, const struct leatc_kernel_task *kernel);

struct leatc_host_task {
    void (*function)(void *);
    void *argument;
};
LEATC_API int leatc_host_make(void (*function)(void *), void *argument, struct leatc_task **task);

/* Makes a task that waits for the event (type LEATC_NODE_WAIT) or records it (LEATC_NODE_RECORD). The task's
 * payload is the event. INVALID_HANDLE: the event is not live. */
LEATC_API int leatc_event_make(int type, struct leatc_event *event, struct leatc_task **task);

LEATC_API int leatc_empty_make(struct leatc_task **task);

/*
 * An allocation of memory by a graph. Such a task is only valid in the graph for which it was made. ptr is the
 * address that the allocation will have; bit n of peers gives device n access too. INVALID_DEVICE: there is no
 * such device. INVALID_VALUE: 0 bytes. NOT_SUPPORTED: the device has no virtual memory. OUT_OF_MEMORY: the host
 * has no memory or no addresses left.
 */
struct leatc_alloc_task {
    void *ptr;
    size_t bytes;
    int ordinal;
};

/* The parameters of a node that allocates, and its access list. All vendors' structs have this layout. */
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

/* Adds a node that allocates. params points to a vendor's struct, and the call sets ptr in it. Only memory of a
 * device is supported (the vendors call its type "pinned"), without handle types, and with read and write access
 * for devices. For all other parameters the call returns INVALID_VALUE or NOT_SUPPORTED. */
LEATC_API int leatc_graph_add_alloc(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                                    void *params, struct leatc_node **node);

/* Copies the original parameters of a node that allocates to a vendor's struct. The node owns the access list. */
LEATC_API int leatc_node_alloc_params(struct leatc_node *node, void *params);

/* A node that frees memory of a graph. INVALID_VALUE: ptr is not memory of a graph; a node of this graph or of the
 * graph that allocates the memory frees it already; or this graph allocates it, and a node of another graph frees
 * it. */
struct leatc_free_task {
    void *ptr;
};
LEATC_API int leatc_free_make(struct leatc_graph *graph, void *ptr, struct leatc_task **task);

/* ---- graphs --------------------------------------------------------------------------------------------- */

LEATC_API int leatc_graph_create(struct leatc_graph **graph);

/* Destroys a graph. INVALID_VALUE: it is not a live graph, it is the child graph of a node, or a stream is being
 * captured into it or into a child graph of it. */
LEATC_API int leatc_graph_destroy(struct leatc_graph *graph);

/* Copies a graph with all its nodes, edges and child graphs. NOT_SUPPORTED: nodes of the graph allocate or free
 * memory. */
LEATC_API int leatc_graph_clone(struct leatc_graph *graph, struct leatc_graph **clone);

/*
 * Adds a node that depends on the nodes in before. INVALID_VALUE: one of them is not in this graph, or is listed
 * twice. leatc_graph_add_child() adds a node whose child graph is a clone of child. If move is set, the child
 * graph is child itself: the handle then belongs to the node, and can be neither destroyed nor instantiated.
 */
LEATC_API int leatc_graph_add(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                              struct leatc_task *task, struct leatc_node **node);
LEATC_API int leatc_graph_add_child(struct leatc_graph *graph, struct leatc_node *const *before, size_t count,
                                    struct leatc_graph *child, bool move, struct leatc_node **node);

/* Destroys a node. NOT_SUPPORTED: nodes of the graph allocate or free memory, or a stream is being captured into
 * the graph or into the node's child graph. */
LEATC_API int leatc_node_destroy(struct leatc_node *node);

/* Checks the data of count edges; data may be NULL. Both vendors define 8 bytes of data for each edge, and the
 * engine supports only 0. INVALID_VALUE: no vendor defines the value. NOT_SUPPORTED: another value than 0. The
 * calls below check their edge data with this function. */
LEATC_API int leatc_edge_data_check(const void *data, size_t count);

/* Add or remove the edges from[i] to to[i], either all or none. INVALID_VALUE: a list is NULL and count is not 0,
 * a node belongs to another graph, an edge leads from a node to itself, an edge to add exists, or an edge to
 * remove does not exist (no edge with data exists). leatc_edges_remove() returns NOT_SUPPORTED for the reasons of
 * leatc_node_destroy(). */
LEATC_API int leatc_edges_add(struct leatc_graph *graph, struct leatc_node *const *from,
                              struct leatc_node *const *to, const void *data, size_t count);
LEATC_API int leatc_edges_remove(struct leatc_graph *graph, struct leatc_node *const *from,
                                 struct leatc_node *const *to, const void *data, size_t count);

/* Calls that return lists. If the list is NULL, *count becomes the number of elements. Otherwise *count is the
 * room of the list on entry; the call fills the list in order, sets unused entries to NULL, and sets *count to the
 * number of elements written. For edges, either both from and to are NULL, or neither; data may be NULL, and must
 * be NULL if they are. */
LEATC_API int leatc_graph_nodes(struct leatc_graph *graph, bool roots, struct leatc_node **nodes, size_t *count);
LEATC_API int leatc_graph_edges(struct leatc_graph *graph, struct leatc_node **from, struct leatc_node **to,
                                void *data, size_t *count);
LEATC_API int leatc_node_neighbours(struct leatc_node *node, bool after, struct leatc_node **nodes, void *data,
                                    size_t *count);

/* Returns the node of clone that is a copy of node. */
LEATC_API int leatc_node_in_clone(struct leatc_node *node, struct leatc_graph *clone, struct leatc_node **found);

LEATC_API int leatc_node_type(struct leatc_node *node, int *type);
LEATC_API int leatc_node_child(struct leatc_node *node, struct leatc_graph **child);

/* Returns the task of a node whose type is type. The task is valid until the parameters of the node are set or the
 * node is destroyed. */
LEATC_API int leatc_node_task(struct leatc_node *node, int type, const struct leatc_task **task);

/* Sets the parameters of a node. INVALID_VALUE: the task has another type, or the node allocates or frees
 * memory. */
LEATC_API int leatc_node_set(struct leatc_node *node, struct leatc_task *task);

/* Attributes of kernel nodes, by the vendors' numbers. They are stored and returned, and have no effect. An
 * attribute that was never set is all 0. INVALID_VALUE: not a kernel node, no such attribute, or an invalid value.
 * NOT_SUPPORTED: the value asks for a cooperative launch or for clusters. */
#define LEATC_ATTRIBUTE_BYTES 64
enum { LEATC_ATTRIBUTE_WINDOW = 1, LEATC_ATTRIBUTE_PRIORITY = 8 };
LEATC_API int leatc_node_set_attribute(struct leatc_node *node, int number, const void *value);
LEATC_API int leatc_node_attribute(struct leatc_node *node, int number, void *value);
LEATC_API int leatc_node_copy_attributes(struct leatc_node *dst, struct leatc_node *src);

/* Checks the fields of an access policy window. A layer calls this before it sets LEATC_ATTRIBUTE_WINDOW, because
 * the vendors' structs differ. INVALID_VALUE: a field is invalid. */
LEATC_API int leatc_window_check(float ratio, int hit, int miss);

/* Writes the graph to a file in the DOT language. details: also writes the parameters of nodes. OPERATING_SYSTEM:
 * the file cannot be written. */
LEATC_API int leatc_graph_print(struct leatc_graph *graph, const char *path, bool details);

/* ---- user objects --------------------------------------------------------------------------------------- */

/* A user object: an object of the program with a count of references. The engine calls destroy(ptr) when the last
 * reference is released. A graph may own references; a clone or executable graph made from it owns as many of its
 * own. The references of an executable graph are released when its launches have completed. destroy may run on any
 * thread, and must not call the vendor's functions. */
struct leatc_object;

/* Creates a user object with count references, which the program owns. These calls return INVALID_VALUE if destroy
 * is NULL, if a count is 0 or above INT_MAX, or if more references are released than the program owns. */
LEATC_API int leatc_object_create(void *ptr, void (*destroy)(void *), unsigned count,
                                  struct leatc_object **object);
LEATC_API int leatc_object_retain(struct leatc_object *object, unsigned count);
LEATC_API int leatc_object_release(struct leatc_object *object, unsigned count);

/* Gives references to a graph. move: it takes over references of the program; otherwise it gets additional
 * references. */
LEATC_API int leatc_graph_retain(struct leatc_graph *graph, struct leatc_object *object, unsigned count,
                                 bool move);
LEATC_API int leatc_graph_release(struct leatc_graph *graph, struct leatc_object *object, unsigned count);

/* ---- executable graphs ---------------------------------------------------------------------------------- */

/* Flags of an executable graph, and the outcome of an instantiation, with the numbers that both vendors use. */
#define LEATC_GRAPH_AUTO_FREE 1u     /* a launch first frees the memory that earlier launches left allocated */
#define LEATC_GRAPH_UPLOAD 2u        /* leatc_graph_instantiate_with() calls leatc_exec_upload() */
#define LEATC_GRAPH_DEVICE_LAUNCH 4u /* not supported: only the host launches graphs */
#define LEATC_GRAPH_PRIORITY 8u      /* updates must not change the priorities of nodes */
enum { LEATC_INSTANTIATE_OK = 0, LEATC_INSTANTIATE_ERROR = 1, LEATC_INSTANTIATE_STRUCTURE = 2 };

/* Makes an executable graph. INVALID_VALUE: flags are unknown, or the edges form a cycle; if wrong is not NULL,
 * *wrong becomes a node of the cycle, or NULL. NOT_SUPPORTED: the graph allocates or frees memory, and has an
 * executable graph already. */
LEATC_API int leatc_graph_instantiate(struct leatc_graph *graph, unsigned long long flags,
                                      struct leatc_exec **exec, struct leatc_node **wrong);

/* Like leatc_graph_instantiate(), and then calls leatc_exec_upload() with stream if flags have LEATC_GRAPH_UPLOAD.
 * *why becomes one of LEATC_INSTANTIATE_... */
LEATC_API int leatc_graph_instantiate_with(struct leatc_graph *graph, unsigned long long flags,
                                           struct leatc_stream *stream, struct leatc_exec **exec,
                                           struct leatc_node **wrong, int *why);
LEATC_API int leatc_exec_check(struct leatc_exec *exec);
LEATC_API int leatc_exec_flags(struct leatc_exec *exec, unsigned long long *flags);

/* Destroys an executable graph. Launches that were submitted still complete. */
LEATC_API int leatc_exec_destroy(struct leatc_exec *exec);

/*
 * Submits all nodes to stream and to streams of the executable graph, in the order of the edges. They run after
 * earlier work of stream and after earlier launches. If stream is being captured, the call adds a child graph node
 * instead. INVALID_VALUE: memory that an earlier launch allocated was not freed, or memory to free is not
 * allocated.
 */
LEATC_API int leatc_exec_launch(struct leatc_exec *exec, struct leatc_stream *stream);

/* Maps the memory that a launch needs, so that the first launch need not map it. */
LEATC_API int leatc_exec_upload(struct leatc_exec *exec, struct leatc_stream *stream);

/*
 * Sets the parameters of the executable graph's copy of node, for later launches. INVALID_VALUE: there is no such
 * copy, it allocates or frees memory, or the change is not allowed: another type of node, other devices or kinds
 * of memory, or another shape of a fill or of a copy with several rows.
 */
LEATC_API int leatc_exec_set(struct leatc_exec *exec, struct leatc_node *node, struct leatc_task *task);
LEATC_API int leatc_exec_set_child(struct leatc_exec *exec, struct leatc_node *node, struct leatc_graph *child);

/* Enables or disables a node. Disabled nodes do nothing. INVALID_VALUE: the node is not a kernel, a copy or a
 * fill. */
LEATC_API int leatc_exec_enable(struct leatc_exec *exec, struct leatc_node *node, bool on);
LEATC_API int leatc_exec_enabled(struct leatc_exec *exec, struct leatc_node *node, bool *on);

/* The reasons why an update was refused, with the numbers that both vendors use. */
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
    struct leatc_node *node, *from; /* nodes of the graph that was passed; NULL if the reason does not concern a
                                     * node */
};

/* Gives each node the task of the corresponding node of a graph with the same topology. If the call fails, it
 * changes nothing. GRAPH_UPDATE: the update is not allowed; *update has the reason. */
LEATC_API int leatc_exec_update(struct leatc_exec *exec, struct leatc_graph *graph, struct leatc_update *update);

/* ---- memory of graphs ----------------------------------------------------------------------------------- */

/*
 * A node that allocates gets its address when it is added. Nothing else gets this address while the graph, an
 * executable graph made from it, or the allocation exists. A launch makes the allocation live. A node of any
 * graph, leatc_free() or leatc_free_async() ends it, but its memory stays with the graph. Memory that is not live
 * can only be used by nodes; other calls return INVALID_VALUE for it. The graph takes memory from the device at
 * its first launch. It gives the memory back when it is destroyed, or when leatc_graph_memory_trim() is called.
 */

/* Both vendors use these numbers. USED: bytes of live memory. RESERVED: bytes taken from the device. HIGH: the
 * maximum since the attribute was last set to 0. */
enum {
    LEATC_GRAPH_MEMORY_USED = 0,
    LEATC_GRAPH_MEMORY_USED_HIGH = 1,
    LEATC_GRAPH_MEMORY_RESERVED = 2,
    LEATC_GRAPH_MEMORY_RESERVED_HIGH = 3
};
LEATC_API int leatc_graph_memory_get(int ordinal, int attribute, uint64_t *value);
/* Sets a maximum to 0. INVALID_VALUE: the attribute is not a maximum, or the value is not 0. */
LEATC_API int leatc_graph_memory_set(int ordinal, int attribute, const uint64_t *value);

/* Gives back the memory of graphs that have no live allocation and whose launches have completed. The call does
 * not wait. */
LEATC_API int leatc_graph_memory_trim(int ordinal);

/* ---- capture -------------------------------------------------------------------------------------------- */

/*
 * Work that is submitted to a captured stream is not executed: the engine checks its arguments and adds a node to
 * a graph. Copies, fills, host functions, kernels, allocation in stream order and events can be captured; all
 * other calls fail. Work that must not be mixed with a capture invalidates it: the capture then ends with
 * CAPTURE_INVALIDATED and without a graph.
 */
enum { LEATC_CAPTURE_GLOBAL = 0, LEATC_CAPTURE_THREAD_LOCAL = 1, LEATC_CAPTURE_RELAXED = 2 };
enum { LEATC_CAPTURE_NONE = 0, LEATC_CAPTURE_ACTIVE = 1, LEATC_CAPTURE_INVALID = 2 };

/* Begins a capture. INVALID_VALUE: there is no such mode. CAPTURE_UNSUPPORTED: the stream is the legacy default
 * stream. ILLEGAL_STATE: the stream is being captured already. */
LEATC_API int leatc_capture_begin(struct leatc_stream *stream, int mode);

/* Captures into an existing graph. The first node depends on the nodes in before. data has the data of these edges
 * and may be NULL. The caller keeps the graph, even if the capture fails. INVALID_VALUE: as for leatc_graph_add(),
 * or another stream is being captured into the graph. */
LEATC_API int leatc_capture_begin_to(struct leatc_stream *stream, struct leatc_graph *graph,
                                     struct leatc_node *const *before, const void *data, size_t count, int mode);

/* Ends a capture. With these results the capture continues: ILLEGAL_STATE (the stream is not being captured),
 * CAPTURE_UNMATCHED (the capture began in another stream), CAPTURE_WRONG_THREAD. With CAPTURE_INVALIDATED and
 * CAPTURE_UNJOINED it has ended, and *graph is NULL. */
LEATC_API int leatc_capture_end(struct leatc_stream *stream, struct leatc_graph **graph);

/* Returns whether a stream is being captured. *id is set only if id is not NULL and the stream is being captured.
 * CAPTURE_IMPLICIT: the stream is the legacy default stream, and a blocking stream is being captured. */
LEATC_API int leatc_capture_status(struct leatc_stream *stream, int *status, unsigned long long *id);

/* The state of a capture: the graph so far, and the nodes on which the next work of the stream will depend. The
 * list of nodes is valid until work is submitted to the stream. graph is NULL if the stream is not being
 * captured. */
struct leatc_capture_info {
    int status;
    unsigned long long id;
    struct leatc_graph *graph;
    struct leatc_node **ends;
    size_t end_count;
};
LEATC_API int leatc_capture_info(struct leatc_stream *stream, struct leatc_capture_info *info);

/* Adds nodes to the list of nodes on which the next work of the stream depends (flags 0), or replaces this list
 * (flags 1). ILLEGAL_STATE: the stream is not being captured. CAPTURE_INVALIDATED: the capture is invalid.
 * INVALID_VALUE: a node belongs to another graph, or flags has another value. */
LEATC_API int leatc_capture_update(struct leatc_stream *stream, struct leatc_node *const *nodes, const void *data,
                                   size_t count, unsigned flags);

/* Sets the calling thread's capture mode, which decides which captures forbid unsafe calls. *mode becomes the
 * earlier mode. */
LEATC_API int leatc_capture_exchange_mode(int *mode);

/* A layer calls leatc_capture_refuse_unsafe() before an operation that is unsafe during a capture
 * (CAPTURE_UNSUPPORTED), and leatc_capture_refuse_sync() before an operation that waits in a stream (also
 * CAPTURE_IMPLICIT if this is the legacy default stream). The engine's own functions call these themselves. */
LEATC_API int leatc_capture_refuse_unsafe(void);
LEATC_API int leatc_capture_refuse_sync(struct leatc_stream *stream);

/* Adds a node to the capture of the stream, if work->captured is set. Takes ownership of the task. */
LEATC_API int leatc_capture_add(struct leatc_work *work, struct leatc_task *task);

#endif
