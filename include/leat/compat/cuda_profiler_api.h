/* leat/compat/cuda_profiler_api.h - includes the runtime's header, which declares cudaProfilerStart(). */
#ifndef LEAT_COMPAT_CUDA_PROFILER_API_H
#define LEAT_COMPAT_CUDA_PROFILER_API_H

#include <leat/compat/cuda_runtime_api.h>

#endif
