/*
 * sectors.h - what a copy cannot do without: pieces of 32 bytes, in which memory is read and written.
 */
#ifndef LEATI_LAYOUT_SECTORS_H
#define LEATI_LAYOUT_SECTORS_H

#include "layout/canonical.h"

#define LEATI_SECTOR_BYTES 32

/*
 * The different sectors that one side touches, for a pointer that lies so many bytes behind the start of one. It
 * is exact, unless
 * dimensions run into one another by strides that are no multiples of each other: then it is a number that cannot
 * be undercut. For a side with a list it is that of rows which are all different and share no sector, or of all
 * rows there are if that is less. The list itself is not counted.
 */
uint64_t leati_sectors(const struct leati_canonical *canonical, bool of_dst, int64_t pointer);

#endif
