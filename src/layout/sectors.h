/*
 * sectors.h - computes the minimum memory traffic of a copy, in sectors. A sector is an aligned piece of 32 bytes.
 */
#ifndef LEATI_LAYOUT_SECTORS_H
#define LEATI_LAYOUT_SECTORS_H

#include "layout/canonical.h"

#define LEATI_SECTOR_BYTES 32

/*
 * Returns how many different sectors one side accesses. pointer is the side's pointer, of which only the offset
 * within a sector matters. The number is exact, unless dimensions interleave with strides that are not multiples
 * of each other; then it is a lower bound. For a side with a list, the function assumes that all indexed rows are
 * different and share no sector, but it never returns more than the number for all existing rows. It does not
 * count the list itself.
 */
uint64_t leati_sectors(const struct leati_canonical *canonical, bool of_dst, int64_t pointer);

#endif
