/*
 * gpu.h - layouts by kernels: which one of leat's layout kernels copies a canonical layout, and what it is given.
 */
#ifndef LEATI_LAYOUT_GPU_H
#define LEATI_LAYOUT_GPU_H

#include "kernels/layout_task.h"
#include "kernels/modules.h"
#include "layout/canonical.h"

#include <leat/kernel.h>

struct leati_gpu_layout {
    enum leati_builtin module;
    const char *kernel; /* its name in that module; NULL where the layout is empty */
    leat_dim3 grid, block;
    struct leati_layout_task task; /* its argument, but for the addresses */
    unsigned tile_i, tile_j;       /* units of a tile on the destination's and the source's side; 0: no tiles */
};

/* How GPUs best copy this canonical layout. Never fails: the kernel for single elements takes every layout. */
void leati_gpu_layout_make(const struct leati_canonical *canonical, leat_layout_class class_of_plan,
                           struct leati_gpu_layout *gpu);

/* The same with a kernel by the name of its sort ("elements", "rows", ...); false where it does not take the
 * layout.
 */
bool leati_gpu_layout_make_as(const struct leati_canonical *canonical, const char *sort,
                              struct leati_gpu_layout *gpu);

/* What the argument of a kernel takes. */
#define LEATI_GPU_LAYOUT_ARGUMENT_BYTES sizeof(struct leati_layout_task)

/* Fills in the one argument of the kernel, a struct by value. dst and src are the pointers that the form's offsets
 * count from; list and wrong may be NULL. All are addresses that the device reaches. */
void leati_gpu_layout_argument(const struct leati_canonical *canonical, const struct leati_gpu_layout *gpu,
                               void *dst, const void *src, const void *list, uint64_t *wrong,
                               unsigned char argument[LEATI_GPU_LAYOUT_ARGUMENT_BYTES]);

/* Kernel and tile in words, for the plan's text: one line without a newline. */
void leati_gpu_layout_text(const struct leati_gpu_layout *gpu, char *text, size_t text_bytes);

#endif
