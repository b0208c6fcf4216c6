/*
 * gpu_pixels.h - finds layouts that join planes to pixels or split pixels into planes, and makes their tasks.
 */
#ifndef LEATI_LAYOUT_GPU_PIXELS_H
#define LEATI_LAYOUT_GPU_PIXELS_H

#include "layout/gpu.h"

/* Returns false if the kernels for pixels cannot copy this layout. gpu->task must have been filled in by
 * put_canonical(). */
bool leati_gpu_make_pixels(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu);

/* Returns true if the kernels for pixels can copy this layout and are expected to be the fastest. */
bool leati_gpu_are_pixels_best(const struct leati_canonical *canonical);

/* Returns true unless short lines leave so many threads without work that ND tiles of words are faster, if they are
 * possible. leati_gpu_are_pixels_best() must be true. */
bool leati_gpu_are_pixels_full(const struct leati_canonical *canonical);

#endif
