/*
 * gpu_task.h - fills in the fields of a task that all kernels have; for the files that choose a kernel and its
 * task (gpu.c, gpu_pixels.c).
 */
#ifndef LEATI_LAYOUT_GPU_TASK_H
#define LEATI_LAYOUT_GPU_TASK_H

#include "kernels/layout_task.h"
#include "layout/canonical.h"

#include "base/assume.h"

#include <stdbool.h>
#include <stdint.h>

#define WORD_BYTES 16u

/* A launch with fewer blocks would leave some of a GPU's multiprocessors idle. */
#define BLOCKS_ENOUGH 128u

/* Computes the multiplier and the shift by which kernels divide by size (division by multiplication, by Granlund
 * and Montgomery). */
static inline struct leati_divisor divisor(uint64_t size)
{
    struct leati_divisor by = {.size = (uint32_t)size};

    LEATI_ASSUME(size > 0);
    while (UINT64_C(1) << by.shift < size)
        by.shift++;
    by.multiplier = (uint32_t)(((((UINT64_C(1) << by.shift) - size) << 32) / size) + 1);
    return by;
}

/* ---- the dimensions of a task ---- */

/* A dimension of a task, before its divisor is computed (struct leati_task_dim). */
struct dim {
    uint64_t size;
    int64_t dst, src;
    uint32_t entries;
};

struct dims {
    unsigned count;
    struct dim dim[LEATI_CANONICAL_MAX_DIMS + 1];
};

static inline struct dim dim_of(const struct leati_canonical *canonical, unsigned k)
{
    bool listed = (int)k == canonical->index_dim;

    return (struct dim){.size = canonical->size[k],
                        .dst = listed && canonical->index_on_dst ? 0 : canonical->dst_stride[k],
                        .src = listed && !canonical->index_on_dst ? 0 : canonical->src_stride[k],
                        .entries = listed ? 1 : 0};
}

static inline void put_dim(struct leati_layout_task *task, const struct dim *dim)
{
    task->dim[task->dims++] = (struct leati_task_dim){
        .dst = dim->dst, .src = dim->src, .entries = dim->entries, .by = divisor(dim->size)};
}

static inline void put_canonical(const struct leati_canonical *canonical, struct leati_layout_task *task)
{
    *task = (struct leati_layout_task){.unit_bytes = canonical->unit_bytes, .pieces = 1};
    if (canonical->index_dim >= 0) {
        int64_t stride = canonical->index_on_dst ? canonical->dst_stride[canonical->index_dim]
                                                 : canonical->src_stride[canonical->index_dim];

        task->list_dst = canonical->index_on_dst ? stride : 0;
        task->list_src = canonical->index_on_dst ? 0 : stride;
        task->list_bound = canonical->index_bound;
        task->list_entry_bytes = canonical->index_bytes;
    }
}

/* Returns the number of blocks for a launch, but at most the largest number that a task can count. No real memory
 * has so many units that this limit is reached. */
static inline uint32_t blocks_of(uint64_t blocks)
{
    return blocks < LEATI_TASK_NUMBERS ? (uint32_t)blocks : LEATI_TASK_NUMBERS - 1;
}

/* Returns the number of the unit size: 0, 1, 2, 3 or 4 for units of 1, 2, 4, 8 or 16 bytes. */
static inline unsigned unit_number(unsigned unit_bytes)
{
    unsigned k = 0;

    while (1u << k < unit_bytes)
        k++;
    return k;
}

#endif
