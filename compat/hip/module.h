/* module.h - declares how the files that launch and query kernels check and launch them. */
#ifndef LEATC_HIP_MODULE_H
#define LEATC_HIP_MODULE_H

#include "hip/layer.h"

/* Returns OK if function can be launched: a function pointer, or a kernel of a library. Otherwise returns
 * INVALID_FUNCTION. */
int leatc_hip_check_pointer(const void *function);

/* Returns OK for a function of a loaded module. Otherwise returns INVALID_HANDLE. */
int leatc_hip_check_function(hipFunction_t function);

/* Launch a function pointer, or a function of a module. together: the launch is cooperative. */
int leatc_hip_launch_pointer(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                             struct leatc_stream *stream, bool together);
int leatc_hip_launch_function(hipFunction_t function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                              struct leatc_stream *stream, bool together);

#endif
