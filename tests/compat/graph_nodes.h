/*
 * graph_nodes.h - defines what the graph tests of the CUDA runtime and of HIP share: the memory of a test, and the
 * parameters of a kernel node and of a memset node.
 *
 * cudart_graphs.h and hip_graphs.h include this file. Before that they define what graphs.h needs, and the types
 * kernel_params and memset_params.
 */
#ifndef GRAPH_NODES_H
#define GRAPH_NODES_H

#include "graphs.h"

#include <leat/device_code.h>

#define BYTES ((size_t)4096)

static unsigned char *device, *more, *pinned;

LEAT_KERNEL(add_to_all, 3, unsigned char *, data, uint64_t, count, uint8_t, what)
{
    LEAT_FOR (i, count)
        data[i] = (unsigned char)(data[i] + what);
}

/* The parameters of a kernel node that launches add_to_all. */
struct addition {
    unsigned char *data;
    uint64_t count;
    uint8_t what;
    void *args[3];
    kernel_params params;
};

static inline kernel_params *addition(struct addition *add, unsigned char *data, uint8_t what)
{
    *add = (struct addition){.data = data, .count = BYTES, .what = what};
    add->args[0] = &add->data;
    add->args[1] = &add->count;
    add->args[2] = &add->what;
    add->params = (kernel_params){.func = (void *)(uintptr_t)&leat_cpu_kernel_add_to_all,
                                  .gridDim = {2, 1, 1},
                                  .blockDim = {64, 1, 1},
                                  .kernelParams = add->args};
    return &add->params;
}

static inline memset_params fill(void *dst, unsigned value, size_t bytes)
{
    return (memset_params){.dst = dst, .value = value, .elementSize = 1, .width = bytes, .height = 1};
}

static inline void device_has(const unsigned char *memory, unsigned char value)
{
    OK(CALL(Memcpy)(pinned, memory, BYTES, CALL(MemcpyDefault)));
    HAS_BYTES(pinned, BYTES, value);
}

#endif
