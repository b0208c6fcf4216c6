/* leat/compat/device_launch_parameters.h - threadIdx and the like are declared where kernels are. */
#ifndef LEAT_COMPAT_DEVICE_LAUNCH_PARAMETERS_H
#define LEAT_COMPAT_DEVICE_LAUNCH_PARAMETERS_H

#include <leat/compat/cuda_runtime.h>

#endif
