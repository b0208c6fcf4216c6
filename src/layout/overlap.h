/*
 * overlap.h - decides whether strided ranges overlap. The question is: are there integers n[i], low[i] <= n[i] <=
 * high[i], such that the sum of n[i] * stride[i] is a given distance?
 *
 * Two elements of one side have the same address if this is true for the differences of their indices and distance
 * 0. A byte is on both sides if it is true for the indices of both sides and the distance of the sides.
 */
#ifndef LEATI_LAYOUT_OVERLAP_H
#define LEATI_LAYOUT_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

/* An integer from low to high, times stride. Strides are 1 or more. No sum of terms exceeds 2^62. */
struct leati_term {
    int64_t stride;
    int64_t low, high;
};

enum leati_overlap { LEATI_OVERLAP_NO, LEATI_OVERLAP_YES, LEATI_OVERLAP_UNKNOWN };

/* A step budget that takes some microseconds. */
#define LEATI_OVERLAP_STEPS 2000u

/* The maximum number of terms. */
#define LEATI_OVERLAP_MAX_TERMS 80

/*
 * Searches for such integers. terms must be sorted, smallest stride first; |distance| must be below 2^62. *steps
 * is the step budget; it returns the remainder. UNKNOWN: the budget is exhausted.
 */
enum leati_overlap leati_overlap(const struct leati_term *terms, unsigned count, int64_t distance,
                                 unsigned *steps);

/*
 * Tries to prove that there are none, with remainders: if all strides but a few are multiples of one pitch, these
 * few must add up to the remainder of the distance. Returns true if that is impossible; false proves nothing.
 * Sorted as above.
 */
bool leati_never_overlap(const struct leati_term *terms, unsigned count, int64_t distance);

#endif
