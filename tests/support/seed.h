/*
 * seed.h - returns the seed of random tests: TEST_SEED if it is set, otherwise a different number in each run.
 *
 * Each program prints its seed. .ci/run derives TEST_SEED from the tree, so that the same tree always runs the
 * same tests.
 */
#ifndef TEST_SEED_H
#define TEST_SEED_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t test_seed(void)
{
    const char *given = getenv("TEST_SEED");

    return given && *given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
}

#endif
