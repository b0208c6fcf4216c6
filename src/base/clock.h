/* clock.h - reads leat's clock, which is the system's monotonic clock, in nanoseconds. */
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

/* Returns the time of the kernel's last timer tick on the same clock. This time is some milliseconds old, but much
 * cheaper to read. */
static inline uint64_t leati_clock_coarse_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
