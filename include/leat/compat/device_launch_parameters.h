/* leat/compat/device_launch_parameters.h - includes cuda_runtime.h, which declares threadIdx and similar
 * variables. */
#ifndef LEAT_COMPAT_DEVICE_LAUNCH_PARAMETERS_H
#define LEAT_COMPAT_DEVICE_LAUNCH_PARAMETERS_H

#include <leat/compat/cuda_runtime.h>

#endif
