/* hip/hip_common.h - selects the platform whose error codes and types a program sees: AMD's. */
#ifndef LEAT_COMPAT_HIP_COMMON_H
#define LEAT_COMPAT_HIP_COMMON_H

#include "hip_version.h"

#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif

/* Programs that have special code for leat can test this macro. */
#define LEAT_COMPAT_HIP 1

#endif
