/*
 * overlap.h - whether strided ranges overlap: whether there is a whole number for each of several strides, within
 * bounds, such that together they come to a given distance.
 *
 * Two elements of one side of a copy have the same address when that is so for the differences of their numbers
 * and the distance 0; a byte of one side is a byte of the other when it is so for the numbers of both.
 */
#ifndef LEATI_LAYOUT_OVERLAP_H
#define LEATI_LAYOUT_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

/* A number from low to high, times stride. Strides are 1 or more; all that terms reach together is below 2^62. */
struct leati_term {
    int64_t stride;
    int64_t low, high;
};

enum leati_overlap { LEATI_OVERLAP_NO, LEATI_OVERLAP_YES, LEATI_OVERLAP_UNKNOWN };

/* Some microseconds of looking. */
#define LEATI_OVERLAP_STEPS 2000u

/* The most terms that there may be. */
#define LEATI_OVERLAP_MAX_TERMS 80

/*
 * Looks for numbers. terms are sorted, the smallest stride first; |distance| is below 2^62. UNKNOWN when *steps
 * have been used up, of which is left what is not needed.
 */
enum leati_overlap leati_overlap(const struct leati_term *terms, unsigned count, int64_t distance,
                                 unsigned *steps);

/*
 * A proof that there are none, from remainders: where all strides but a few are multiples of one pitch, the rest
 * must make up the remainder of the distance. False when that proves nothing. Sorted as above.
 */
bool leati_never_overlap(const struct leati_term *terms, unsigned count, int64_t distance);

#endif
