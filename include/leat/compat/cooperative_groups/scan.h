/* leat/compat/cooperative_groups/scan.h - includes cooperative_groups.h, which declares the scans. */
#ifndef LEAT_COMPAT_COOPERATIVE_GROUPS_SCAN_H
#define LEAT_COMPAT_COOPERATIVE_GROUPS_SCAN_H

#include <leat/compat/cooperative_groups.h>

#endif
