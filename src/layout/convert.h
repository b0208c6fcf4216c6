/*
 * convert.h - checks the conversion of a copy (leat_conversion) and splits it: into the part on which plans
 * depend, and the numbers, which each copy has for itself.
 */
#ifndef LEATI_LAYOUT_CONVERT_H
#define LEATI_LAYOUT_CONVERT_H

#include "kernels/convert_task.h"

#include <leat/layout.h>

#include <stdbool.h>

/* What a plan must know of a conversion. All fields are 0 for a copy that converts nothing. */
struct leati_convert {
    uint32_t dst_bytes, src_bytes;   /* sizes of the elements; src_bytes is 0 for a copy that converts nothing */
    uint32_t dst_number, src_number; /* leat_number */
    uint32_t flags;                  /* LEAT_CONVERT_SWAP_DST, LEAT_CONVERT_SWAP_SRC */
    uint32_t channels, channel_dim;  /* the dimension of the layouts that counts channels; channels 0: none */
};

/* Checks a conversion, whose size has been checked, for two layouts that have passed leati_layout_check() and
 * leati_canonical_check_same(). Fills *convert and *factors.
 * Errors: INVALID, UNSUPPORTED, as leat_copy_convert() describes them. */
leat_status leati_convert_make(const leat_conversion *conversion, const leat_layout *dst, const leat_layout *src,
                               struct leati_convert *convert, struct leati_factors *factors);

#endif
