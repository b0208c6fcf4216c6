/* leat/compat/builtin_types.h - the types of the runtime, as some programs name their header. */
#ifndef LEAT_COMPAT_BUILTIN_TYPES_H
#define LEAT_COMPAT_BUILTIN_TYPES_H

#include <leat/compat/driver_types.h>

#endif
