/* leat/compat/driver_functions.h - make_cudaExtent() and the like are with their types. */
#ifndef LEAT_COMPAT_DRIVER_FUNCTIONS_H
#define LEAT_COMPAT_DRIVER_FUNCTIONS_H

#include <leat/compat/driver_types.h>

#endif
