/* leat/compat/cooperative_groups/memcpy_async.h - includes cooperative_groups.h, which declares memcpy_async(). */
#ifndef LEAT_COMPAT_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#define LEAT_COMPAT_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H

#include <leat/compat/cooperative_groups.h>

#endif
