/* clock.h - the time that all of leat means: the system's monotonic clock, in nanoseconds. */
#ifndef LEATI_CLOCK_H
#define LEATI_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t leati_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The same as of the last seq of the system, up to some milliseconds ago; reading it takes a fraction of the time.
 */
static inline uint64_t leati_clock_coarse_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
