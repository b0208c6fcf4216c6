/*
 * layer.h - what the files of libleat-hip share: results, and where HIP's differ from the engine's.
 *
 * The engine answers with CUDA's numbers, which are mostly HIP's as well. A stream or an event that was destroyed
 * is hipErrorContextIsDestroyed here, but a stream stays hipErrorInvalidHandle where memory is allocated in its
 * order or it waits for an event; an event that is NULL stays hipErrorInvalidHandle.
 */
#ifndef LEATC_HIP_LAYER_H
#define LEATC_HIP_LAYER_H

#include "engine/engine.h"

/* C++ programs may leave arguments out; this is C. */
#include <leat/compat/hip/hip_runtime_api.h>

/* HIP's numbers that the engine has none for. */
enum { HIP_FILE_NOT_FOUND = 301, HIP_INVALID_DEVICE_POINTER = 17, HIP_UNSUPPORTED_LIMIT = 215 };

/* Keeps the result as the thread's last error: the last line of every call. */
static inline hipError_t note(int result)
{
    return (hipError_t)leatc_note(result);
}

/*
 * Functions that only call the engine, one entry of a table each. `call` is an expression with the result, which
 * the function keeps as the thread's last error and returns.
 */
#define FORWARD(prototype, call)                                                                                  \
    prototype                                                                                                     \
    {                                                                                                             \
        return note(call);                                                                                        \
    }

/* FORWARD for a function that does not look at all of its arguments, since what it is about is not there. */
#define REFUSE(prototype, result)                                                                                 \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wunused-parameter\"")                       \
        FORWARD(prototype, result) _Pragma("GCC diagnostic pop")

/*
 * A function that takes a `stream` exists twice: for NULL, `name` means the legacy default stream and `name_spt`
 * the default stream of the calling thread. `call` names the engine's stream `on`.
 */
#define FORWARD_STREAM(name, name_spt, parameters, call)                                                          \
    FORWARD_ON(name, parameters, stream_of(stream), call)                                                         \
    FORWARD_ON(name_spt, parameters, leatc_per_thread(stream), call)

/* The same for a function that takes no stream and works in a default stream. */
#define FORWARD_SYNC(name, name_spt, parameters, call)                                                            \
    FORWARD_ON(name, parameters, NULL, call)                                                                      \
    FORWARD_ON(name_spt, parameters, LEATC_STREAM_PER_THREAD, call)

#define FORWARD_ON(name, parameters, engine_stream, call)                                                         \
    hipError_t name parameters                                                                                    \
    {                                                                                                             \
        struct leatc_stream *on = engine_stream;                                                                  \
                                                                                                                  \
        return note(call);                                                                                        \
    }

/* The result of a call whose only handle is a stream. */
static inline int of_stream(int result)
{
    return result == LEATC_INVALID_HANDLE ? LEATC_CONTEXT_DESTROYED : result;
}

static inline int check_stream(struct leatc_stream *stream)
{
    return of_stream(leatc_stream_check(stream));
}

static inline struct leatc_event *event_of(hipEvent_t event)
{
    return (struct leatc_event *)(void *)event;
}

static inline int check_event(hipEvent_t event)
{
    if (!event)
        return LEATC_INVALID_HANDLE;
    return of_stream(leatc_event_check(event_of(event)));
}

static inline struct leatc_stream *stream_of(hipStream_t stream)
{
    return (struct leatc_stream *)(void *)stream;
}

static inline struct leatc_pool *pool_of(hipMemPool_t pool)
{
    return (struct leatc_pool *)(void *)pool;
}

static inline struct leatc_array *array_of(hipArray_const_t array)
{
    return (struct leatc_array *)(uintptr_t)array;
}

/* INVALID_DEVICE unless there is such a device. */
static inline int check_device(int ordinal)
{
    leat_device_info info;

    return leatc_device_describe(ordinal, &info);
}

/* What AMD's runtime aligns rows to. */
#define HIP_PITCH_BYTES 256

/* The longest pitch that HIP's devices take. */
#define PITCH_MOST ((size_t)INT32_MAX)

/* A direction that HIP has. Beyond that HIP looks at the pointers instead of the word for them, and so the engine
 * does. */
static inline int check_kind(hipMemcpyKind kind)
{
    return (unsigned)kind <= hipMemcpyDefault || kind == hipMemcpyDeviceToDeviceNoCU ? LEATC_OK
                                                                                     : LEATC_INVALID_DIRECTION;
}

/* Graphs, nodes and lists of nodes. */
static inline struct leatc_graph *graph_of(hipGraph_t graph)
{
    return (struct leatc_graph *)(void *)graph;
}

static inline struct leatc_exec *exec_of(hipGraphExec_t executable)
{
    return (struct leatc_exec *)(void *)executable;
}

static inline struct leatc_node *node_of(hipGraphNode_t node)
{
    return (struct leatc_node *)(void *)node;
}

static inline struct leatc_node **nodes_of(hipGraphNode_t *nodes)
{
    return (struct leatc_node **)(void *)nodes;
}

static inline struct leatc_node *const *node_list(const hipGraphNode_t *nodes)
{
    return (struct leatc_node *const *)(const void *)nodes;
}

/* A launch of a function, and operations on words of memory, for nodes of graphs; and what these tasks were made
 * of.
 */
int leatc_hip_kernel_make(const hipKernelNodeParams *p, struct leatc_task **task);
void *leatc_hip_kernel_function(const struct leatc_task *task);
int leatc_hip_batch_make(const hipBatchMemOpNodeParams *p, struct leatc_task **task);
int leatc_hip_batch_describe(const struct leatc_task *task, hipBatchMemOpNodeParams *p);

/* The device's only context, and back; -1 when it is none. */
hipCtx_t leatc_hip_context(int ordinal);

/* Draws device.c, whose constructor announces HIP, into every static program that has any file of this layer. */
__attribute__((used)) static hipCtx_t (*const leatc_hip_device_file)(int) = leatc_hip_context;

#endif
