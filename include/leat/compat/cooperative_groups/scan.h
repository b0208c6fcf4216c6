/* leat/compat/cooperative_groups/scan.h - what is declared with the groups. */
#ifndef LEAT_COMPAT_COOPERATIVE_GROUPS_SCAN_H
#define LEAT_COMPAT_COOPERATIVE_GROUPS_SCAN_H

#include <leat/compat/cooperative_groups.h>

#endif
