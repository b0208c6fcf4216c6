/* leat/compat/cooperative_groups/memcpy_async.h - what is declared with the groups. */
#ifndef LEAT_COMPAT_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#define LEAT_COMPAT_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H

#include <leat/compat/cooperative_groups.h>

#endif
