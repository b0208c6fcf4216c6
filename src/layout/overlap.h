/*
 * overlap.h - decides whether strided ranges overlap. For this it looks for integers n[i], with low[i] <= n[i] <=
 * high[i], such that the sum of n[i] * stride[i] is a given distance.
 *
 * If n[i] are the differences of indices of one side, and the distance is 0, such integers exist if two elements
 * of the side have the same address. If n[i] are the indices of both sides, and the distance is that of the two
 * sides, such integers exist if a byte is on both sides.
 */
#ifndef LEATI_LAYOUT_OVERLAP_H
#define LEATI_LAYOUT_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

/* A term of the sum: an integer from low to high, times stride. Strides are 1 or more. No sum of terms exceeds
 * 2^62. */
struct leati_term {
    int64_t stride;
    int64_t low, high;
};

enum leati_overlap { LEATI_OVERLAP_NO, LEATI_OVERLAP_YES, LEATI_OVERLAP_UNKNOWN };

/* The usual step budget of a search, which takes some microseconds. */
#define LEATI_OVERLAP_STEPS 2000u

/* The maximum number of terms of a sum. */
#define LEATI_OVERLAP_MAX_TERMS 80

/*
 * Searches for integers as described above. terms must be sorted by stride, the smallest first, and |distance|
 * must be below 2^62. *steps is the step budget, and is set to its remainder. Returns UNKNOWN if the budget is
 * exhausted.
 */
enum leati_overlap leati_overlap(const struct leati_term *terms, unsigned count, int64_t distance,
                                 unsigned *steps);

/*
 * Tries to prove by remainders that no such integers exist. If all strides but a few are multiples of one
 * pitch, the terms with these few strides must add up to the remainder of the distance. Returns true if they
 * cannot; false proves nothing. terms must be sorted as for leati_overlap().
 */
bool leati_never_overlap(const struct leati_term *terms, unsigned count, int64_t distance);

#endif
