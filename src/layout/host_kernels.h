/*
 * host_kernels.h - the innermost loops of layouts by processors. They copy boxes: a part of a form, without a list
 * of indices and with the dimensions in the order in which the loops go.
 */
#ifndef LEATI_LAYOUT_HOST_KERNELS_H
#define LEATI_LAYOUT_HOST_KERNELS_H

#include "layout/form.h"

struct leati_box {
    unsigned dims; /* dimension 0 is the innermost loop */
    unsigned unit_bytes;
    uint64_t size[LEATI_FORM_MAX_DIMS]; /* 1 or more */
    int64_t dst_stride[LEATI_FORM_MAX_DIMS];
    int64_t src_stride[LEATI_FORM_MAX_DIMS];
};

/* Runs of bytes: dimension 0 is dense on both sides. */
void leati_box_runs(const struct leati_box *box, char *dst, const char *src);

/* One unit after the other; takes every box. */
void leati_box_elements(const struct leati_box *box, char *dst, const char *src);

#endif
