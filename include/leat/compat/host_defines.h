/* leat/compat/host_defines.h - __host__ and the like are defined where kernels are. */
#ifndef LEAT_COMPAT_HOST_DEFINES_H
#define LEAT_COMPAT_HOST_DEFINES_H

#include <leat/compat/cuda_runtime.h>

#endif
