/*
 * host_walk.c - boxes that are copied by plain loops: runs of bytes, and single units.
 *
 * The innermost loops know the unit when they are compiled. Around them an odometer steps from one place to the
 * next by adding strides; nothing is divided.
 */
#include "layout/host_kernels.h"
#include "base/assert.h"

#include <string.h>

void leati_box_walk(const struct leati_box *box, unsigned first, leati_step step, const void *context, char *dst,
                    const char *src)
{
    uint64_t at[LEATI_CANONICAL_MAX_DIMS] = {0};
    int64_t to = 0, from = 0;
    unsigned i;

    leati_assert(box->dims <= LEATI_CANONICAL_MAX_DIMS);
    do {
        step(context, dst + to, src + from);
        for (i = first; i < box->dims; i++) {
            to += box->dst_stride[i];
            from += box->src_stride[i];
            if (++at[i] < box->size[i])
                break;
            to -= (int64_t)box->size[i] * box->dst_stride[i];
            from -= (int64_t)box->size[i] * box->src_stride[i];
            at[i] = 0;
        }
    } while (i < box->dims);
}

#define PLANE_OF_UNITS(bytes)                                                                                     \
    static void plane_of_units_##bytes(const void *context, char *dst, const char *src)                           \
    {                                                                                                             \
        const struct leati_box *box = context;                                                                    \
        int64_t to = box->dst_stride[0], from = box->src_stride[0];                                               \
        uint64_t rows = box->dims > 1 ? box->size[1] : 1, count = box->size[0];                                   \
                                                                                                                  \
        for (uint64_t i = 0; i < rows; i++) {                                                                     \
            char *d = dst + (int64_t)i * box->dst_stride[1];                                                      \
            const char *s = src + (int64_t)i * box->src_stride[1];                                                \
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

void leati_box_elements(const struct leati_box *box, char *dst, const char *src)
{
    static const leati_step planes[] = {[1] = plane_of_units_1,
                                        [2] = plane_of_units_2,
                                        [4] = plane_of_units_4,
                                        [8] = plane_of_units_8,
                                        [16] = plane_of_units_16};

    leati_assert(box->unit_bytes <= 16 && LEATI_IS_POWER_OF_TWO(box->unit_bytes));
    leati_box_walk(box, 2, planes[box->unit_bytes], box, dst, src);
}
