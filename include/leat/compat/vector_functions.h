/* leat/compat/vector_functions.h - make_float4() and the like are with their types. */
#ifndef LEAT_COMPAT_VECTOR_FUNCTIONS_H
#define LEAT_COMPAT_VECTOR_FUNCTIONS_H

#include <leat/compat/vector_types.h>

#endif
