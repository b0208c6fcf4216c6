/* leat/compat/cooperative_groups/reduce.h - what is declared with the groups. */
#ifndef LEAT_COMPAT_COOPERATIVE_GROUPS_REDUCE_H
#define LEAT_COMPAT_COOPERATIVE_GROUPS_REDUCE_H

#include <leat/compat/cooperative_groups.h>

#endif
