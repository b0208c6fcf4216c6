/* cudart.h - declares what the files of libleat-cudart share. */
#ifndef CUDART_CUDART_H
#define CUDART_CUDART_H

#include "engine/engine.h"

#include <leat/compat/cuda_runtime_api.h>

/* Records the result as the thread's last error. The engine's results are CUDA's numbers. */
static inline cudaError_t note(int result)
{
    return (cudaError_t)leatc_note(result);
}

/* The functions below convert CUDA's handles, which are pointers to the engine's objects. */
static inline struct leatc_stream *stream_of(cudaStream_t stream)
{
    return (struct leatc_stream *)(void *)stream;
}

static inline struct leatc_event *event_of(cudaEvent_t event)
{
    return (struct leatc_event *)(void *)event;
}

static inline struct leatc_pool *pool_of(cudaMemPool_t pool)
{
    return (struct leatc_pool *)(void *)pool;
}

static inline struct leatc_array *array_of(cudaArray_const_t array)
{
    return (struct leatc_array *)(void *)(uintptr_t)array;
}

static inline struct leatc_graph *graph_of(cudaGraph_t graph)
{
    return (struct leatc_graph *)(void *)graph;
}

static inline struct leatc_node *node_of(cudaGraphNode_t node)
{
    return (struct leatc_node *)(void *)node;
}

static inline struct leatc_node *const *node_list(const cudaGraphNode_t *nodes)
{
    return (struct leatc_node *const *)(const void *)nodes;
}

/*
 * Defines a function that only calls the engine. `call` is an expression with the engine's result. The function
 * records the result as the thread's last error and returns it.
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
 * `name`, and the per-thread default stream in `name_ptsz`. In `call`, the engine's stream has the name `on`. In
 * programs that are compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM, the public header renames calls of the first
 * variant to the second.
 */
#define FORWARD_STREAM(name, name_ptsz, parameters, call)                                                         \
    cudaError_t name_ptsz parameters;                                                                             \
    FORWARD_ON(name, parameters, stream_of(stream), call)                                                         \
    FORWARD_ON(name_ptsz, parameters, leatc_per_thread(stream), call)

/* FORWARD_STREAM for a function that has no stream argument and works in a default stream. */
#define FORWARD_SYNC(name, name_ptds, parameters, call)                                                           \
    cudaError_t name_ptds parameters;                                                                             \
    FORWARD_ON(name, parameters, NULL, call)                                                                      \
    FORWARD_ON(name_ptds, parameters, LEATC_STREAM_PER_THREAD, call)

#define FORWARD_ON(name, parameters, engine_stream, call)                                                         \
    cudaError_t name parameters                                                                                   \
    {                                                                                                             \
        struct leatc_stream *on = engine_stream;                                                                  \
                                                                                                                  \
        return note(call);                                                                                        \
    }

/* Returns the thread's current device, or 0 if there is no device: the next call of the engine then fails. */
static inline int current_device(void)
{
    int device = 0;

    (void)leatc_device_get(&device);
    return device;
}

/* The source or the destination of a copy: the address of its first byte, its pitch and its slice size. */
struct end {
    char *ptr;
    size_t pitch, slice;
    unsigned element_bytes;      /* size of an array's elements; 0 for a pointer */
    size_t width, height, depth; /* for an array: the size of the part that begins at the position, in bytes and
                                  * rows */
};

/* cudart_array_end() sets *end to the part of an array that begins at a position, whose x is in bytes.
 * cudart_copy_ends() copies a region. */
int cudart_array_end(cudaArray_const_t array, size_t x_bytes, size_t y, size_t z, struct end *end);
int cudart_copy_ends(const struct end *dst, const struct end *src, size_t width_bytes, size_t height, size_t depth,
                     enum cudaMemcpyKind kind, struct leatc_stream *stream, enum leatc_mode mode);

int cudart_region_3d(const struct cudaMemcpy3DParms *p, struct end *dst, struct end *src,
                     leat_copy_region *region);

/* Returns the address of a symbol's memory at an offset. The caller then copies with direction LEATC_DEFAULT.
 * INVALID_DIRECTION: kind does not match to_symbol. */
int cudart_symbol(const void *symbol, size_t offset, size_t count, bool to_symbol, enum cudaMemcpyKind kind,
                  void **at);

int cudart_instantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, cudaGraphInstantiateParams *p,
                       struct leatc_stream *upload);

/* Converts a location to the ordinal of a device, or to LEATC_HOST. */
int cudart_place(struct cudaMemLocation location, int *ordinal);

/* The index of the copy at which the thread's latest batch of copies failed, or SIZE_MAX if the batch as a whole
 * is invalid. CUDA 12's calls return it. */
extern _Thread_local size_t cudart_failed_copy;

/* ---- GPU code of the program (register.c) ---- */

/* The error that a program gets for a function: NO_KERNEL_IMAGE in place of INVALID_FUNCTION if NVIDIA's compiler
 * has registered GPU code for it. cudart_function_check() is leatc_function_check() with this error. */
int cudart_kernel_result(int result, const void *function);
int cudart_function_check(const void *function);

/* NVIDIA's compiler puts calls of these functions into programs; no header declares them. */
void **__cudaRegisterFatBinary(void *fatCubin);
void __cudaRegisterFatBinaryEnd(void **fatCubinHandle);
void __cudaUnregisterFatBinary(void **fatCubinHandle);
char __cudaInitModule(void **fatCubinHandle);
void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun, const char *deviceName,
                            int thread_limit, void *tid, void *bid, dim3 *bDim, dim3 *gDim, int *wSize);
void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress, const char *deviceName, int ext,
                       size_t size, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *entryFuncAddr);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                               cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                                    size_t sharedMem, cudaStream_t stream);

#endif
