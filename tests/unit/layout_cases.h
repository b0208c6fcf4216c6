/* layout_cases.h - shared by the tests of the arithmetic of layouts: random numbers, and error messages that name
 * the seed. */
#ifndef LAYOUT_CASES_H
#define LAYOUT_CASES_H

#include "layouts.h"
#include "seed.h"

#include "layout/plan.h"
#include "layout/sectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST_BYTES 4096

static uint64_t seed, random_state;
static unsigned many = 3000;

static inline uint64_t chance(uint64_t below)
{
    return layouts_random(&random_state, below);
}

#define EXPECT(what, pair)                                                                                        \
    do {                                                                                                          \
        if (!(what))                                                                                              \
            complain(#what, (pair), __LINE__);                                                                    \
    } while (0)

static inline void complain(const char *what, const struct layouts_pair *pair, int line)
{
    char dst[1024], src[1024];

    layouts_print(&pair->dst, dst, sizeof dst);
    layouts_print(&pair->src, src, sizeof src);
    fail_msg("line %d, seed %llu: not %s; dst has %s; src has %s", line, (unsigned long long)seed, what, dst, src);
}

/* ---- canonical layouts ---- */

static inline void make_canonical(const struct layouts_pair *pair, size_t dst_align, size_t src_align,
                                  struct leati_canonical *canonical)
{
    if (leati_canonical_make(&pair->dst, dst_align, &pair->src, src_align, canonical) != LEAT_OK)
        complain(leat_last_error(), pair, __LINE__);
}

static inline enum layouts_list some_list(void)
{
    uint64_t drawn = chance(6);

    return drawn == 0 ? LAYOUTS_GATHER : drawn == 1 ? LAYOUTS_SCATTER : LAYOUTS_NO_LIST;
}

static inline struct leati_canonical canonical_of(uint32_t dims, const int64_t *size, const uint32_t *order,
                                                  uint32_t element_bytes)
{
    struct leati_canonical canonical;
    leat_layout dst, src;

    assert_int_equal(leat_layout_dense(&src, dims, size, element_bytes), LEAT_OK);
    assert_int_equal(leat_layout_permute(&src, order), LEAT_OK);
    assert_int_equal(leat_layout_dense(&dst, dims, src.size, element_bytes), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 64, &src, 64, &canonical), LEAT_OK);
    return canonical;
}

#define CANONICAL_OF(element_bytes, sizes, ...)                                                                   \
    canonical_of(sizeof((uint32_t[])__VA_ARGS__) / 4, (int64_t[])sizes, (uint32_t[])__VA_ARGS__, (element_bytes))
#define SIZES(...)                                                                                                \
    {                                                                                                             \
        __VA_ARGS__                                                                                               \
    }

/* Reads --seed and --many, starts the random numbers and prints the seed. */
static inline void begin_random(int argc, char **argv, const char *program)
{
    seed = test_seed();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--many"))
            many = (unsigned)strtoul(argv[i + 1], NULL, 0);
    }
    random_state = seed * 2 + 1;
    printf("%s: --seed %llu\n", program, (unsigned long long)seed);
}

#endif
