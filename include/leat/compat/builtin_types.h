/* leat/compat/builtin_types.h - includes the types of the runtime, because some programs include a header of this
 * name. */
#ifndef LEAT_COMPAT_BUILTIN_TYPES_H
#define LEAT_COMPAT_BUILTIN_TYPES_H

#include <leat/compat/driver_types.h>

#endif
