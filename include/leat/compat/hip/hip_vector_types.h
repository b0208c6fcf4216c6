/* hip/hip_vector_types.h - includes dim3 and the short vectors (such as float4), which HIP and CUDA share in
 * leat. */
#ifndef LEAT_COMPAT_HIP_VECTOR_TYPES_H
#define LEAT_COMPAT_HIP_VECTOR_TYPES_H

#include <leat/compat/vector_types.h>

#endif
