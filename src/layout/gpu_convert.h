/*
 * gpu_convert.h - chooses the GPU kernel for a copy that converts, and makes its task. The kernels are in
 * kernels/convert_kernels.c.
 */
#ifndef LEATI_LAYOUT_GPU_CONVERT_H
#define LEATI_LAYOUT_GPU_CONVERT_H

#include "layout/gpu.h"

/* Chooses the best kernel. Leaves gpu->kernel NULL if the layout has too many lines for a task. */
void leati_gpu_convert_make(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu);

/* Like leati_gpu_convert_make(), but takes the given kernel: "rows", "pixels", "joins", "tiles" or "elements".
 * Returns false if this kernel cannot convert the layout. */
bool leati_gpu_convert_make_as(const struct leati_canonical *canonical, const char *sort,
                               struct leati_gpu_layout *gpu);

/* Fills in the kernel's single argument. dst and src: device addresses, from which the canonical layout's offsets
 * count. */
void leati_gpu_convert_argument(const struct leati_canonical *canonical, const struct leati_gpu_layout *gpu,
                                const struct leati_convert *convert, const struct leati_factors *factors,
                                void *dst, const void *src, struct leati_convert_argument *argument);

/* leati_gpu_layout_batch() for an argument of a copy that converts. */
void leati_gpu_convert_batch(struct leati_convert_task *task, unsigned copies);

#endif
