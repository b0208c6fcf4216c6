/* leat/compat/cuda_profiler_api.h - cudaProfilerStart() is with the other functions. */
#ifndef LEAT_COMPAT_CUDA_PROFILER_API_H
#define LEAT_COMPAT_CUDA_PROFILER_API_H

#include <leat/compat/cuda_runtime_api.h>

#endif
