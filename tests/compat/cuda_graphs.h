/* cuda_graphs.h - defines what the tests of the CUDA driver's graphs share: a context, a stream and memory, a
 * kernel node, and functions that run a graph. */
#ifndef CUDA_GRAPHS_H
#define CUDA_GRAPHS_H

#include <cuda.h>

#define BYTES ((size_t)4096)
#define CALL(name) cu##name

typedef CUgraph graph_handle;
typedef CUgraphExec exec_handle;

static CUcontext context;
static CUstream stream;

static CUmodule module;
static CUfunction add;
static CUdeviceptr device, more;
static unsigned char *pinned;

#include "graphs.h"

/* The parameters of a kernel node that launches leat_add_u32, which adds a number to each of count words. */
struct addition {
    CUdeviceptr data;
    uint64_t count;
    unsigned what;
    void *args[3];
    CUDA_KERNEL_NODE_PARAMS params;
};

static inline CUDA_KERNEL_NODE_PARAMS *addition(struct addition *made, CUdeviceptr data, unsigned what)
{
    *made = (struct addition){.data = data, .count = BYTES / 4, .what = what};
    made->args[0] = &made->data;
    made->args[1] = &made->count;
    made->args[2] = &made->what;
    made->params = (CUDA_KERNEL_NODE_PARAMS){.func = add,
                                             .gridDimX = 2,
                                             .gridDimY = 1,
                                             .gridDimZ = 1,
                                             .blockDimX = 64,
                                             .blockDimY = 1,
                                             .blockDimZ = 1,
                                             .kernelParams = made->args};
    return &made->params;
}

static inline CUDA_MEMSET_NODE_PARAMS fill(CUdeviceptr dst, unsigned value)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = dst, .value = value, .elementSize = 4, .width = BYTES / 4, .height = 1};
}

static inline void device_has(CUdeviceptr memory, unsigned value)
{
    unsigned words[BYTES / 4];

    OK(cuMemcpyDtoH(words, memory, BYTES));
    for (size_t i = 0; i < BYTES / 4; i++)
        assert_int_equal(words[i], value);
}

static inline void set_up(void)
{
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemAlloc(&device, BYTES));
    OK(cuMemAlloc(&more, BYTES));
    OK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
    OK(cuModuleLoadData(&module,
                        ".version 8.0\n.target sm_90\n.visible .entry leat_add_u32(.param .u64 a)\n{ ret; }\n"));
    OK(cuModuleGetFunction(&add, module, "leat_add_u32"));
}

static inline void tear_down(void)
{
    OK(cuMemFree(device));
    OK(cuMemFree(more));
    OK(cuMemFreeHost(pinned));
    OK(cuStreamDestroy(stream));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxReset(1));
}

#endif
