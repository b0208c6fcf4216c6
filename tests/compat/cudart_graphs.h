/* cudart_graphs.h - defines what the tests of the CUDA runtime's graphs share: a stream, memory, and a second
 * kernel. */
#ifndef CUDART_GRAPHS_H
#define CUDART_GRAPHS_H

#include <cuda_runtime.h>

#define CALL(name) cuda##name

typedef cudaGraph_t graph_handle;
typedef cudaGraphExec_t exec_handle;
typedef struct cudaKernelNodeParams kernel_params;
typedef struct cudaMemsetParams memset_params;

static cudaStream_t stream;

#include "graph_nodes.h"

LEAT_KERNEL(double_all, 2, unsigned char *, data, uint64_t, count)
{
    LEAT_FOR (i, count)
        data[i] = (unsigned char)(data[i] * 2);
}

static inline int set_up(void **state)
{
    (void)state;
    return cudaStreamCreate(&stream) || cudaMalloc((void **)&device, BYTES) || cudaMalloc((void **)&more, BYTES) ||
           cudaMallocHost((void **)&pinned, BYTES);
}

#endif
