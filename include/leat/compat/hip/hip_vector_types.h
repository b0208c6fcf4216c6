/* hip/hip_vector_types.h - dim3 and the short vectors (float4 and the like), the same that leat's CUDA names have. */
#ifndef LEAT_COMPAT_HIP_VECTOR_TYPES_H
#define LEAT_COMPAT_HIP_VECTOR_TYPES_H

#include <leat/compat/vector_types.h>

#endif
