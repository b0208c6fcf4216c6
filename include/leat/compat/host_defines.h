/* leat/compat/host_defines.h - includes the header that defines __host__ and similar words. */
#ifndef LEAT_COMPAT_HOST_DEFINES_H
#define LEAT_COMPAT_HOST_DEFINES_H

#include <leat/compat/cuda_runtime.h>

#endif
