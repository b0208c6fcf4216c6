/* hip_graphs.h - shared by the tests of HIP's graphs: stream and memory, a kernel node, and how to run a graph. */
#ifndef HIP_GRAPHS_H
#define HIP_GRAPHS_H

#include <hip/hip_runtime.h>

#include "compat.h"

#include <leat/device_code.h>

#include <unistd.h>

#define BYTES ((size_t)4096)

static hipStream_t stream;
static hipCtx_t context;
static unsigned char *device, *more, *pinned;

LEAT_KERNEL(add_to_all, 3, unsigned char *, data, uint64_t, count, uint8_t, what)
{
    LEAT_FOR (i, count)
        data[i] = (unsigned char)(data[i] + what);
}

static inline void count_up(void *argument)
{
    ++*(int *)argument;
}

struct addition {
    unsigned char *data;
    uint64_t count;
    uint8_t what;
    void *args[3];
    hipKernelNodeParams params;
};

static inline hipKernelNodeParams *addition(struct addition *add, unsigned char *data, uint8_t what)
{
    *add = (struct addition){.data = data, .count = BYTES, .what = what};
    add->args[0] = &add->data;
    add->args[1] = &add->count;
    add->args[2] = &add->what;
    add->params = (hipKernelNodeParams){.func = (void *)(uintptr_t)&leat_cpu_kernel_add_to_all,
                                        .gridDim = {2, 1, 1},
                                        .blockDim = {64, 1, 1},
                                        .kernelParams = add->args};
    return &add->params;
}

static inline hipMemsetParams fill(void *dst, unsigned value, size_t bytes)
{
    return (hipMemsetParams){.dst = dst, .value = value, .elementSize = 1, .width = bytes, .height = 1};
}

static inline hipGraphExec_t instantiated(hipGraph_t graph)
{
    hipGraphExec_t exec;

    OK(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    return exec;
}

static inline void run(hipGraphExec_t exec)
{
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
}

static inline void run_and_end(hipGraph_t graph)
{
    hipGraphExec_t exec = instantiated(graph);

    run(exec);
    OK(hipGraphExecDestroy(exec));
}

static inline void device_has(const unsigned char *memory, unsigned char value)
{
    OK(hipMemcpy(pinned, memory, BYTES, hipMemcpyDefault));
    HAS_BYTES(pinned, BYTES, value);
}

/* ---- - ---- */

static inline int set_up(void **state)
{
    (void)state;
    return hipStreamCreate(&stream) || hipMalloc((void **)&device, BYTES) || hipMalloc((void **)&more, BYTES) ||
           hipHostMalloc((void **)&pinned, BYTES, 0) || hipDevicePrimaryCtxRetain(&context, 0);
}

#endif
