/* leat/compat/cooperative_groups/reduce.h - includes cooperative_groups.h, which declares reduce(). */
#ifndef LEAT_COMPAT_COOPERATIVE_GROUPS_REDUCE_H
#define LEAT_COMPAT_COOPERATIVE_GROUPS_REDUCE_H

#include <leat/compat/cooperative_groups.h>

#endif
