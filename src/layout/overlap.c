/* overlap.c - decides whether strided ranges overlap, by a search and by remainders (overlap.h). */
#include "layout/overlap.h"
#include "base/assert.h"

/* Divisions that round down (towards minus infinity) and up (towards plus infinity). by must be above 0. */
static int64_t divide_down(int64_t value, int64_t by)
{
    leati_assert(by > 0);
    return value / by - (value % by < 0);
}

static int64_t divide_up(int64_t value, int64_t by)
{
    leati_assert(by > 0);
    return value / by + (value % by > 0);
}

struct search {
    const struct leati_term *terms;
    unsigned *steps;
    /* The smallest and the largest sum of the first i terms are low[i] and high[i]. */
    int64_t low[LEATI_OVERLAP_MAX_TERMS + 1], high[LEATI_OVERLAP_MAX_TERMS + 1];
};

/* Searches for integers with which the first count terms add up to distance. Tries each number for the term
 * with the largest stride that leaves a distance which the other terms can reach, and calls itself for the
 * other terms. */
static enum leati_overlap look(const struct search *search, unsigned count, int64_t distance)
{
    const struct leati_term *term;
    int64_t first, last;

    if (count == 0)
        return distance == 0 ? LEATI_OVERLAP_YES : LEATI_OVERLAP_NO;
    term = &search->terms[count - 1];
    leati_assert(term->stride > 0 && term->low <= term->high);
    first = divide_up(distance - search->high[count - 1], term->stride);
    last = divide_down(distance - search->low[count - 1], term->stride);
    if (first < term->low)
        first = term->low;
    if (last > term->high)
        last = term->high;
    for (int64_t number = first; number <= last; number++) {
        enum leati_overlap found;

        if (*search->steps == 0)
            return LEATI_OVERLAP_UNKNOWN;
        --*search->steps;
        found = look(search, count - 1, distance - number * term->stride);
        if (found != LEATI_OVERLAP_NO)
            return found;
    }
    return LEATI_OVERLAP_NO;
}

enum leati_overlap leati_overlap(const struct leati_term *terms, unsigned count, int64_t distance, unsigned *steps)
{
    struct search search = {.terms = terms, .steps = steps};

    leati_assert(count <= LEATI_OVERLAP_MAX_TERMS);
    for (unsigned i = 0; i < count; i++) {
        search.low[i + 1] = search.low[i] + terms[i].low * terms[i].stride;
        search.high[i + 1] = search.high[i] + terms[i].high * terms[i].stride;
    }
    return look(&search, count, distance);
}

/* ---- remainders ---- */

/* Returns true if the terms cannot add up to the distance, because the terms whose stride is not a multiple of
 * pitch cannot add up to the remainder of the distance modulo pitch. */
static bool pitch_excludes(const struct leati_term *terms, unsigned count, int64_t distance, int64_t pitch)
{
    int64_t low = 0, high = 0;

    leati_assert(pitch > 0);
    for (unsigned i = 0; i < count; i++) {
        if (terms[i].stride % pitch == 0)
            continue;
        low += terms[i].low * terms[i].stride;
        high += terms[i].high * terms[i].stride;
    }
    /* The terms that are multiples of pitch must add up to a value from distance - high to distance - low. This is
     * impossible if no multiple of pitch is in that range. */
    return divide_up(distance - high, pitch) > divide_down(distance - low, pitch);
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

bool leati_never_overlap(const struct leati_term *terms, unsigned count, int64_t distance)
{
    int64_t common = 0;

    /* Try two pitches for each stride: the stride itself, and the greatest common divisor of it and all larger
     * strides. */
    for (unsigned i = count; i-- > 0;) {
        int64_t before = common;

        if (terms[i].stride == 1)
            break;
        common = common_divisor(terms[i].stride, common);
        if (pitch_excludes(terms, count, distance, terms[i].stride))
            return true;
        if (common != before && common > 1 && common != terms[i].stride &&
            pitch_excludes(terms, count, distance, common))
            return true;
    }
    return false;
}
