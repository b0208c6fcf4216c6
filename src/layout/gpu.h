/*
 * gpu.h - chooses the GPU kernel for a canonical layout, its launch configuration and its argument.
 */
#ifndef LEATI_LAYOUT_GPU_H
#define LEATI_LAYOUT_GPU_H

#include "kernels/layout_task.h"
#include "kernels/modules.h"
#include "layout/canonical.h"

#include <leat/kernel.h>

struct leati_gpu_layout {
    enum leati_builtin module;
    const char *kernel; /* name of the kernel in the module; NULL if the layout is empty */
    leat_dim3 grid, block;
    union { /* argument of the kernel, without the addresses */
        struct leati_layout_task task;
        struct leati_convert_task convert; /* for copies that convert; also without the types */
    };
    unsigned tile_i, tile_j;       /* size of a tile in units, along the destination and the source; 0: no tiles */
    unsigned most_copies;          /* number of copies that one launch can make; 0 if the layout is empty */
};

/* Chooses the best kernel for this canonical layout. Never fails: the kernel "elements" can copy every layout. */
void leati_gpu_layout_make(const struct leati_canonical *canonical, leat_layout_class class_of_plan,
                           struct leati_gpu_layout *gpu);

/* Like leati_gpu_layout_make(), but takes the given kind of kernel ("elements", "rows", ...). Returns false if
 * this kind cannot copy the layout. */
bool leati_gpu_layout_make_as(const struct leati_canonical *canonical, const char *sort,
                              struct leati_gpu_layout *gpu);

/* The size of the kernel's argument. */
#define LEATI_GPU_LAYOUT_ARGUMENT_BYTES sizeof(struct leati_layout_task)

/* Fills in the kernel's single argument, a struct that is passed by value. The offsets of the canonical layout
 * count from dst and src. list and wrong may be NULL. All four are device addresses. */
void leati_gpu_layout_argument(const struct leati_canonical *canonical, const struct leati_gpu_layout *gpu,
                               void *dst, const void *src, const void *list, uint64_t *wrong,
                               unsigned char argument[LEATI_GPU_LAYOUT_ARGUMENT_BYTES]);

/* Turns the argument of a launch of one copy into that of a launch of `copies` copies, at most most_copies. The
 * argument must have been made for the addresses 0. Afterwards set the addresses of each copy by
 * leati_task_set_place(). Each copy has the gpu->grid.x blocks of one row of the grid. */
void leati_gpu_layout_batch(struct leati_layout_task *task, unsigned copies);

/* Sets the addresses of the first unit of a copy. place: the place[] of a task. */
static inline void leati_task_set_place(struct leati_task_place *place, unsigned copy, uintptr_t dst,
                                        uintptr_t src)
{
    place[leati_task_place_of(copy)] = (struct leati_task_place){.dst = dst, .src = src};
}

/* Describes the kernel and its tiles in one line without a newline, for the text of a plan. */
void leati_gpu_layout_text(const struct leati_gpu_layout *gpu, char *text, size_t text_bytes);

#endif
