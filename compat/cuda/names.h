/*
 * names.h - declares what the files of libleat-cuda share: results, contexts, and the checks at the start of each
 * call.
 *
 * The driver API differs from the engine in one respect: most calls need a current context, and a device may have
 * several contexts. In this library a context only identifies one of the engine's devices: memory, streams and
 * events belong to the device, whichever context was current when they were made. Each thread has a stack of
 * contexts. The topmost context selects the engine's current device.
 *
 * The driver API has no last error, so results are not recorded.
 */
#ifndef LEAT_CUDA_NAMES_H
#define LEAT_CUDA_NAMES_H

#include "engine/engine.h"

/* With this macro, the header declares functions under their exported names, such as cuMemAlloc_v2, and not under
 * macros that hide the versions. */
#define __CUDA_API_VERSION_INTERNAL
#include <leat/compat/cuda.h>

#include <stdatomic.h>

/* Converts a result of the engine to one of the driver API. If only the runtime API has the result, returns the
 * driver API's result with the same meaning. */
CUresult leatcu_map(int result);

static inline CUresult leatcu_result(int result)
{
    return __builtin_expect(result == LEATC_OK, 1) ? CUDA_SUCCESS : leatcu_map(result);
}

/* For a call that may have waited for a kernel: if the call succeeded but a kernel has failed, returns the result
 * of that kernel. Launches do not use it: a launch must not report a failure of the kernel that it has just
 * submitted. */
static inline int leatcu_or_lost(int result)
{
    return __builtin_expect(result == LEATC_OK, 1) ? leatc_lost() : result;
}

#define CU_TRY(call)                                                                                              \
    do {                                                                                                          \
        CUresult cu_try_ = (call);                                                                                \
        if (cu_try_ != CUDA_SUCCESS)                                                                              \
            return cu_try_;                                                                                       \
    } while (0)

/* Returns CUDA_ERROR_INVALID_VALUE from the enclosing function if the condition is false. */
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
    _Atomic unsigned flags; /* any thread may read and write it */
    unsigned long long id;
};

/* Returns NOT_INITIALIZED if neither cuInit() nor the runtime API was called before. */
CUresult leatcu_started(void);

/* Every call that needs a current context calls this first. *context becomes the current context; context may be
 * NULL. NOT_INITIALIZED; INVALID_CONTEXT: no context is current; CONTEXT_IS_DESTROYED. */
CUresult leatcu_enter(CUcontext *context);

/* Returns CUDA_SUCCESS if the context is live. INVALID_CONTEXT: it was never created. CONTEXT_IS_DESTROYED: it was
 * destroyed. */
CUresult leatcu_check_context(CUcontext context);

/* Returns the context to report for an object of this device: the current context if it belongs to the device,
 * else the device's primary context. */
CUcontext leatcu_context_of(int ordinal);

/* Returns INVALID_DEVICE if there is no such device. */
CUresult leatcu_check_device(CUdevice device);

/* Returns true if a host function can access the memory of this device. This is so on CPU devices outside of
 * strict mode. */
bool leatcu_host_reaches_device(int ordinal);

/* Record which streams were created in contexts of cuCtxCreate(), for cuStreamGetCtx(). All other streams belong
 * to the primary context. */
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

/* Functions that node.c and batch.c need from other files: they make the tasks of kernel launches and of
 * operations on words in memory, convert a 3-D copy to the engine's struct, and make a copy of a batch. */
CUresult leatcu_kernel_make(CUfunction function, leat_dim3 grid, leat_dim3 block, size_t shared_bytes,
                            void **parameters, struct leatc_task **task);
CUresult leatcu_region_3d(const CUDA_MEMCPY3D *given, void **dst, void **src, leat_copy_region *region,
                          int *direction);
CUresult leatcu_copy_operation(const CUDA_MEMCPY3D_BATCH_OP *operation, struct leatc_stream *stream);
CUresult leatcu_batch_make(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct leatc_task **task);
CUresult leatcu_batch_describe(const struct leatc_task *task, CUDA_BATCH_MEM_OP_NODE_PARAMS *p);

/* Functions of module.c for libraries (library.c). leatcu_module_forget() ends the record of a module that a reset
 * of its device has unloaded. */
size_t leatcu_image_bytes(const void *image);
CUresult leatcu_file_read(const char *path, char **contents, size_t *bytes);
CUresult leatcu_module_load_on(int ordinal, const void *image, const char *path, CUmodule *module);
CUresult leatcu_module_function(CUmodule module, const char *name, CUfunction *function);
CUresult leatcu_module_unload(CUmodule module);
void leatcu_module_forget(CUmodule module);
CUresult leatcu_function_attribute(int *value, CUfunction_attribute attribute, CUfunction function);
CUresult leatcu_function_set(CUfunction function, CUfunction_attribute attribute, int value);

/* A CUkernel may stand where a call expects a function. *function becomes the function of the kernel on this
 * device. */
CUresult leatcu_kernel_resolve(int ordinal, CUfunction *function);

/* The first form of cuStreamGetCaptureInfo(), whose name the header gives to the second. */
CUresult leatcu_capture_info_v1(CUstream stream, CUstreamCaptureStatus *status,
                                cuuint64_t *id) __asm__("cuStreamGetCaptureInfo");
CUresult leatcu_capture_info_v1_ptsz(CUstream stream, CUstreamCaptureStatus *status,
                                     cuuint64_t *id) __asm__("cuStreamGetCaptureInfo_ptsz");

/*
 * Define functions that only call the engine. `call` is an expression with the engine's result. FORWARD first
 * checks that a context is current; FORWARD_STARTED first checks that cuInit() was called.
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

/* FORWARD_STARTED for a function that leat does not support. The function ignores some of its arguments. */
#define REFUSE_STARTED(prototype, result)                                                                         \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wunused-parameter\"")                       \
        FORWARD_STARTED(prototype, result) _Pragma("GCC diagnostic pop")

/*
 * Define both variants of a function that takes a `stream`: a NULL stream means the legacy default stream in
 * `name`, and the per-thread default stream in `name_ptsz`. In `call`, the engine's stream has the name `on`.
 * FORWARD_STREAM checks that a context is current, and its `call` has the engine's result. BOTH checks nothing,
 * and its `call` has a CUresult.
 */
#define FORWARD_STREAM(name, name_ptsz, parameters, call)                                                         \
    FORWARD_ON(name, parameters, leatcu_stream(stream), leatcu_enter(NULL), leatcu_result(call))                  \
    FORWARD_ON(name_ptsz, parameters, leatc_per_thread(stream), leatcu_enter(NULL), leatcu_result(call))

#define BOTH(name, name_ptsz, parameters, call)                                                                   \
    FORWARD_ON(name, parameters, leatcu_stream(stream), CUDA_SUCCESS, call)                                       \
    FORWARD_ON(name_ptsz, parameters, leatc_per_thread(stream), CUDA_SUCCESS, call)

/* BOTH for a function that has no stream argument and works in a default stream. */
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

/* leat's cuda driver calls this after it has loaded this library in place of NVIDIA's. Returns &leat_version of
 * the leat that this library uses. */
LEATC_API const void *leat_compat_names(void);

#endif
