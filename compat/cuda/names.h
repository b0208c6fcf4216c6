/*
 * names.h - what the files of libleat-cuda share: results, contexts, and how each call begins.
 *
 * The driver API differs from the engine's view of things in one respect: a context must be current for most
 * calls, and there may be several for one device. A context here is an identity for a device of the engine's:
 * memory, streams and events of all contexts of a device are the device's. Each thread has a stack of contexts;
 * the one on top decides the engine's current device.
 *
 * The driver API has no last error, so nothing is noted.
 */
#ifndef LEAT_CUDA_NAMES_H
#define LEAT_CUDA_NAMES_H

#include "engine/engine.h"

/* The exact names alone: what is defined here is what is exported. */
#define __CUDA_API_VERSION_INTERNAL
#include <leat/compat/cuda.h>

#include <stdatomic.h>

/* An engine's result in the driver's numbers: where the engine has one of the runtime's, the driver's that means
 * the same. */
CUresult leatcu_map(int result);

static inline CUresult leatcu_result(int result)
{
    return __builtin_expect(result == LEATC_OK, 1) ? CUDA_SUCCESS : leatcu_map(result);
}

#define CU_TRY(call)                                                                                              \
    do {                                                                                                          \
        CUresult cu_try_ = (call);                                                                                \
        if (cu_try_ != CUDA_SUCCESS)                                                                              \
            return cu_try_;                                                                                       \
    } while (0)

/* INVALID_VALUE unless the condition holds. */
#define CU_CHECK(condition)                                                                                       \
    do {                                                                                                          \
        if (!(condition))                                                                                         \
            return CUDA_ERROR_INVALID_VALUE;                                                                      \
    } while (0)

enum leatcu_context_state { LEATCU_UNUSED, LEATCU_ALIVE, LEATCU_DESTROYED };

struct CUctx_st {
    _Atomic enum leatcu_context_state state;
    int ordinal;
    bool primary;
    _Atomic unsigned flags; /* any thread may set those of a context that others ask */
    unsigned long long id;
};

/* NOT_INITIALIZED before cuInit(). */
CUresult leatcu_started(void);

/* Before everything that needs a current context. *context may be NULL. NOT_INITIALIZED, INVALID_CONTEXT (none is
 * current), CONTEXT_IS_DESTROYED. */
CUresult leatcu_enter(CUcontext *context);

/* A context that is alive: INVALID_CONTEXT for what never was one, CONTEXT_IS_DESTROYED. */
CUresult leatcu_check_context(CUcontext context);

/* The context that a thing of this device counts as being in: the current one if it is of that device, else the
 * primary one. */
CUcontext leatcu_context_of(int ordinal);

/* INVALID_DEVICE unless there is such a device. */
CUresult leatcu_check_device(CUdevice device);

/* May a host function touch the memory of this device? True for CPU devices, but in strict mode. */
bool leatcu_host_reaches_device(int ordinal);

/* Streams of contexts that cuCtxCreate() made: cuStreamGetCtx() tells them from the primary's. */
CUcontext leatcu_stream_context(CUstream stream, int ordinal);
void leatcu_stream_made(CUstream stream, CUcontext context);
void leatcu_stream_gone(CUstream stream);

static inline void *leatcu_pointer(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static inline CUdeviceptr leatcu_address(const void *ptr)
{
    return (CUdeviceptr)(uintptr_t)ptr;
}

static inline struct leatc_stream *leatcu_stream(CUstream stream)
{
    return (struct leatc_stream *)stream;
}

static inline struct leatc_graph *leatcu_graph(CUgraph graph)
{
    return (struct leatc_graph *)(void *)graph;
}

static inline struct leatc_exec *leatcu_exec(CUgraphExec executable)
{
    return (struct leatc_exec *)(void *)executable;
}

static inline struct leatc_node *leatcu_node(CUgraphNode node)
{
    return (struct leatc_node *)(void *)node;
}

static inline struct leatc_node *const *leatcu_node_list(const CUgraphNode *nodes)
{
    return (struct leatc_node *const *)(const void *)nodes;
}

/* Tasks of graphs: a launch of a function, a copy as the engine has it, operations on words in memory. */
CUresult leatcu_kernel_make(CUfunction function, leat_dim3 grid, leat_dim3 block, size_t shared_bytes,
                            void **parameters, struct leatc_task **task);
CUresult leatcu_region_3d(const CUDA_MEMCPY3D *given, void **dst, void **src, leat_copy_region *region,
                          int *direction);
CUresult leatcu_batch_make(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct leatc_task **task);
CUresult leatcu_batch_describe(const struct leatc_task *task, CUDA_BATCH_MEM_OP_NODE_PARAMS *p);

/*
 * Functions that only call the engine, one entry of a table each. `call` is an expression with the engine's
 * result. FORWARD first checks that a context is current, FORWARD_STARTED that cuInit() was called.
 */
#define FORWARD(prototype, call)                                                                                  \
    prototype                                                                                                     \
    {                                                                                                             \
        CU_TRY(leatcu_enter(NULL));                                                                               \
        return leatcu_result(call);                                                                               \
    }

#define FORWARD_STARTED(prototype, call)                                                                          \
    prototype                                                                                                     \
    {                                                                                                             \
        CU_TRY(leatcu_started());                                                                                 \
        return leatcu_result(call);                                                                               \
    }

/* FORWARD_STARTED for a function that does not look at all of its arguments, since what it is about is not there.
 */
#define REFUSE_STARTED(prototype, result)                                                                         \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wunused-parameter\"")                       \
        FORWARD_STARTED(prototype, result) _Pragma("GCC diagnostic pop")

/*
 * A function that takes a `stream` exists twice: for NULL, `name` means the legacy default stream and `name_ptsz`
 * the default stream of the calling thread. `call` names the engine's stream `on`. It has the engine's result in
 * FORWARD_STREAM, which checks that a context is current, and a CUresult in BOTH, which checks nothing.
 */
#define FORWARD_STREAM(name, name_ptsz, parameters, call)                                                         \
    FORWARD_ON(name, parameters, leatcu_stream(stream), leatcu_enter(NULL), leatcu_result(call))                  \
    FORWARD_ON(name_ptsz, parameters, leatc_per_thread(stream), leatcu_enter(NULL), leatcu_result(call))

#define BOTH(name, name_ptsz, parameters, call)                                                                   \
    FORWARD_ON(name, parameters, leatcu_stream(stream), CUDA_SUCCESS, call)                                       \
    FORWARD_ON(name_ptsz, parameters, leatc_per_thread(stream), CUDA_SUCCESS, call)

/* BOTH for a function that takes no stream and works in a default stream. */
#define BOTH_SYNC(name, name_ptds, parameters, call)                                                              \
    FORWARD_ON(name, parameters, LEATC_STREAM_LEGACY, CUDA_SUCCESS, call)                                         \
    FORWARD_ON(name_ptds, parameters, LEATC_STREAM_PER_THREAD, CUDA_SUCCESS, call)

#define FORWARD_ON(name, parameters, engine_stream, check, call)                                                  \
    CUresult name parameters                                                                                      \
    {                                                                                                             \
        struct leatc_stream *on = engine_stream;                                                                  \
                                                                                                                  \
        CU_TRY(check);                                                                                            \
        return call;                                                                                              \
    }

/* What leat's cuda driver asks of a library that it loads: &leat_version of the leat that is underneath. */
LEATC_API const void *leat_compat_names(void);

#endif
