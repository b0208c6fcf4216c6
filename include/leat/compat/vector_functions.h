/* leat/compat/vector_functions.h - includes vector_types.h, which defines make_float4() and similar functions. */
#ifndef LEAT_COMPAT_VECTOR_FUNCTIONS_H
#define LEAT_COMPAT_VECTOR_FUNCTIONS_H

#include <leat/compat/vector_types.h>

#endif
