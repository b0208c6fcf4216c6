/* hip_graphs.h - defines what the tests of HIP's graphs share: a stream, a context and memory. */
#ifndef HIP_GRAPHS_H
#define HIP_GRAPHS_H

#include <hip/hip_runtime.h>

#include <unistd.h>

#define CALL(name) hip##name

typedef hipGraph_t graph_handle;
typedef hipGraphExec_t exec_handle;
typedef hipKernelNodeParams kernel_params;
typedef hipMemsetParams memset_params;

static hipStream_t stream;
static hipCtx_t context;

#include "graph_nodes.h"

static inline int set_up(void **state)
{
    (void)state;
    return hipStreamCreate(&stream) || hipMalloc((void **)&device, BYTES) || hipMalloc((void **)&more, BYTES) ||
           hipHostMalloc((void **)&pinned, BYTES, 0) || hipDevicePrimaryCtxRetain(&context, 0);
}

#endif
