/* module.h - kernels by function pointer and of modules, for the files that launch them and ask about them. */
#ifndef LEATC_HIP_MODULE_H
#define LEATC_HIP_MODULE_H

#include "hip/layer.h"

/* A function pointer that can be launched, which a kernel of a library is too: INVALID_FUNCTION. */
int leatc_hip_check_pointer(const void *function);

/* INVALID_HANDLE: no function of a module that is loaded. */
int leatc_hip_check_function(hipFunction_t function);

/* Launches either. together: all blocks run at the same time. */
int leatc_hip_launch_pointer(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                             struct leatc_stream *stream, bool together);
int leatc_hip_launch_function(hipFunction_t function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                              struct leatc_stream *stream, bool together);

#endif
