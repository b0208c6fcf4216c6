/* leat/compat/driver_functions.h - includes driver_types.h, which defines make_cudaExtent() and similar
 * functions. */
#ifndef LEAT_COMPAT_DRIVER_FUNCTIONS_H
#define LEAT_COMPAT_DRIVER_FUNCTIONS_H

#include <leat/compat/driver_types.h>

#endif
