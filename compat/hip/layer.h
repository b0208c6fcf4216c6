/*
 * layer.h - declares what the files of libleat-hip share, such as the conversions between HIP's results and the
 * engine's.
 *
 * The engine returns CUDA's numbers, most of which are HIP's too. For a destroyed stream or event, HIP's calls
 * return hipErrorContextIsDestroyed instead of hipErrorInvalidHandle. The exceptions are calls that allocate in a
 * stream's order or make a stream wait for an event, and events that are NULL: they return hipErrorInvalidHandle.
 */
#ifndef LEATC_HIP_LAYER_H
#define LEATC_HIP_LAYER_H

#include "engine/engine.h"

/* In C++, this header gives default arguments to some functions. The layer is C, so it sees plain declarations. */
#include <leat/compat/hip/hip_runtime_api.h>

/* HIP's results that the engine does not have. */
enum { HIP_FILE_NOT_FOUND = 301, HIP_INVALID_DEVICE_POINTER = 17, HIP_UNSUPPORTED_LIMIT = 215 };

/* The result of the thread's last call, which hipExtGetLastError() returns. */
extern _Thread_local int leatc_hip_last_result;

/* Records the result as the thread's last error. Every function of the API calls it last. */
static inline hipError_t note(int result)
{
    leatc_hip_last_result = leatc_note(result);
    return (hipError_t)leatc_hip_last_result;
}

/*
 * Defines a function that only calls the engine. `call` is an expression with the result. The function records the
 * result as the thread's last error and returns it.
 */
#define FORWARD(prototype, call)                                                                                  \
    prototype                                                                                                     \
    {                                                                                                             \
        return note(call);                                                                                        \
    }

/* FORWARD for a function that leat does not support. The function ignores some of its arguments. */
#define REFUSE(prototype, result)                                                                                 \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wunused-parameter\"")                       \
        FORWARD(prototype, result) _Pragma("GCC diagnostic pop")

/*
 * Defines both variants of a function that takes a `stream`: a NULL stream means the legacy default stream in
 * `name`, and the per-thread default stream in `name_spt`. In `call`, the engine's stream has the name `on`.
 */
#define FORWARD_STREAM(name, name_spt, parameters, call)                                                          \
    FORWARD_ON(name, parameters, stream_of(stream), call)                                                         \
    FORWARD_ON(name_spt, parameters, leatc_per_thread(stream), call)

/* FORWARD_STREAM for a function that has no stream argument and works in a default stream. */
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

/* Converts the result of a call whose only handle is a stream: an invalid handle means a destroyed stream. */
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

/* Returns INVALID_DEVICE if no device has this ordinal. */
static inline int check_device(int ordinal)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    return leatc_device_describe(ordinal, &info);
}

/* The alignment of rows in AMD's runtime, in bytes. */
#define HIP_PITCH_BYTES 256

/* The largest pitch that HIP's devices report. */
#define PITCH_MOST ((size_t)INT32_MAX)

/* Checks that the direction exists. The engine then ignores it, as AMD's runtime does, and decides by the
 * pointers. */
static inline int check_kind(hipMemcpyKind kind)
{
    return (unsigned)kind <= hipMemcpyDefault || kind == hipMemcpyDeviceToDeviceNoCU ? LEATC_OK
                                                                                     : LEATC_INVALID_DIRECTION;
}

/* The functions below convert HIP's handles for graphs and nodes, which are pointers to the engine's objects. */
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

/* Make the tasks of graph nodes that launch a kernel or perform operations on words in memory. The other two
 * functions return what such a task was made from. */
int leatc_hip_kernel_make(const hipKernelNodeParams *p, struct leatc_task **task);
void *leatc_hip_kernel_function(const struct leatc_task *task);
int leatc_hip_batch_make(const hipBatchMemOpNodeParams *p, struct leatc_task **task);
int leatc_hip_batch_describe(const struct leatc_task *task, hipBatchMemOpNodeParams *p);

/* Returns the only context of a device. */
hipCtx_t leatc_hip_context(int ordinal);

/* Makes the linker include device.c in every static program that uses a file of this layer, because the
 * constructor in device.c calls leatc_announce_hip(). */
__attribute__((used)) static hipCtx_t (*const leatc_hip_device_file)(int) = leatc_hip_context;

#endif
