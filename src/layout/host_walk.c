/*
 * host_walk.c - runs the loops around all kernels, and the kernel for single units.
 *
 * The innermost loops are compiled once for each unit size. The outer loops work like an odometer: they add
 * strides to get from one position to the next, so they need no division.
 */
#include "layout/host_kernels.h"
#include "base/assert.h"

#include <string.h>

void leati_nest_walk(const struct leati_loop_nest *nest, unsigned first, leati_step step, const void *context,
                     char *dst, const char *src)
{
    uint64_t at[LEATI_CANONICAL_MAX_DIMS] = {0};
    int64_t to = 0, from = 0;
    unsigned i;

    leati_assert(nest->dims <= LEATI_CANONICAL_MAX_DIMS);
    do {
        step(context, dst + to, src + from);
        for (i = first; i < nest->dims; i++) {
            to += nest->dst_stride[i];
            from += nest->src_stride[i];
            if (++at[i] < nest->size[i])
                break;
            to -= (int64_t)nest->size[i] * nest->dst_stride[i];
            from -= (int64_t)nest->size[i] * nest->src_stride[i];
            at[i] = 0;
        }
    } while (i < nest->dims);
}

#define PLANE_OF_UNITS(bytes)                                                                                     \
    static void plane_of_units_##bytes(const void *context, char *dst, const char *src)                           \
    {                                                                                                             \
        const struct leati_loop_nest *nest = context;                                                             \
        int64_t to = nest->dst_stride[0], from = nest->src_stride[0];                                             \
        uint64_t rows = nest->dims > 1 ? nest->size[1] : 1, count = nest->size[0];                                \
                                                                                                                  \
        for (uint64_t i = 0; i < rows; i++) {                                                                     \
            char *d = dst + (int64_t)i * nest->dst_stride[1];                                                     \
            const char *s = src + (int64_t)i * nest->src_stride[1];                                               \
                                                                                                                  \
            for (uint64_t j = 0; j < count; j++)                                                                  \
                memcpy(d + (int64_t)j * to, s + (int64_t)j * from, bytes);                                        \
        }                                                                                                         \
    }

PLANE_OF_UNITS(1)
PLANE_OF_UNITS(2)
PLANE_OF_UNITS(4)
PLANE_OF_UNITS(8)
PLANE_OF_UNITS(16)

void leati_nest_elements(const struct leati_loop_nest *nest, char *dst, const char *src)
{
    static const leati_step planes[] = {[1] = plane_of_units_1,
                                        [2] = plane_of_units_2,
                                        [4] = plane_of_units_4,
                                        [8] = plane_of_units_8,
                                        [16] = plane_of_units_16};

    leati_assert(nest->unit_bytes <= 16 && LEATI_IS_POWER_OF_TWO(nest->unit_bytes));
    leati_nest_walk(nest, 2, planes[nest->unit_bytes], nest, dst, src);
}
