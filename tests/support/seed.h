/*
 * seed.h - what random tests begin with: TEST_SEED, or else another number at each run.
 *
 * Each program prints the seed that it made of it. .ci/run sets TEST_SEED from the tree, so that the same tree
 * gives the same tests.
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
