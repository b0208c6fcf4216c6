/* hip/hip_common.h - which platform a program sees: that of AMD's error codes and types. */
#ifndef LEAT_COMPAT_HIP_COMMON_H
#define LEAT_COMPAT_HIP_COMMON_H

#include "hip_version.h"

#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif

/* For programs that have a branch for leat. */
#define LEAT_COMPAT_HIP 1

#endif
