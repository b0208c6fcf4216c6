/* nodes.h - shared by the tests of graphs that are built node by node: kernels, node parameters, and how to run a
 * graph. */
#ifndef NODES_H
#define NODES_H

#include <cuda_runtime.h>

#include "compat.h"

#include <leat/device_code.h>

#define BYTES ((size_t)4096)

static cudaStream_t stream;
static unsigned char *device, *more, *pinned;

LEAT_KERNEL(add_to_all, 3, unsigned char *, data, uint64_t, count, uint8_t, what)
{
    LEAT_FOR (i, count)
        data[i] = (unsigned char)(data[i] + what);
}

LEAT_KERNEL(double_all, 2, unsigned char *, data, uint64_t, count)
{
    LEAT_FOR (i, count)
        data[i] = (unsigned char)(data[i] * 2);
}

static inline void count_up(void *argument)
{
    ++*(int *)argument;
}

/* The parameters of a kernel node that launches add_to_all. */
struct addition {
    unsigned char *data;
    uint64_t count;
    uint8_t what;
    void *args[3];
    struct cudaKernelNodeParams params;
};

static inline struct cudaKernelNodeParams *addition(struct addition *add, unsigned char *data, uint8_t what)
{
    *add = (struct addition){.data = data, .count = BYTES, .what = what};
    add->args[0] = &add->data;
    add->args[1] = &add->count;
    add->args[2] = &add->what;
    add->params = (struct cudaKernelNodeParams){.func = (void *)(uintptr_t)&leat_cpu_kernel_add_to_all,
                                                .gridDim = {2, 1, 1},
                                                .blockDim = {64, 1, 1},
                                                .kernelParams = add->args};
    return &add->params;
}

static inline struct cudaMemsetParams fill(void *dst, unsigned value, size_t bytes)
{
    return (struct cudaMemsetParams){.dst = dst, .value = value, .elementSize = 1, .width = bytes, .height = 1};
}

static inline cudaGraphExec_t instantiated(cudaGraph_t graph)
{
    cudaGraphExec_t exec;

    OK(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

static inline void run(cudaGraphExec_t exec)
{
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
}

static inline void run_and_end(cudaGraph_t graph)
{
    cudaGraphExec_t exec = instantiated(graph);

    run(exec);
    OK(cudaGraphExecDestroy(exec));
}

static inline void device_has(const unsigned char *memory, unsigned char value)
{
    OK(cudaMemcpy(pinned, memory, BYTES, cudaMemcpyDefault));
    HAS_BYTES(pinned, BYTES, value);
}

static inline int set_up(void **state)
{
    (void)state;
    return cudaStreamCreate(&stream) || cudaMalloc((void **)&device, BYTES) || cudaMalloc((void **)&more, BYTES) ||
           cudaMallocHost((void **)&pinned, BYTES);
}

#endif
