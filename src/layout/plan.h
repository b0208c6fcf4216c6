/*
 * plan.h - layout plans: a canonical layout, its class, its bound, and how processors and GPUs copy it.
 *
 * Plans depend on no device and no pointer. A plan is made once for each pair of layouts and kept in a table of
 * some thousand plans, with lock-free look-up. Plans are reference-counted.
 */
#ifndef LEATI_LAYOUT_PLAN_H
#define LEATI_LAYOUT_PLAN_H

#include "layout/canonical.h"
#include "layout/gpu.h"
#include "layout/host.h"

/*
 * The first unit of a copy, in bytes from its pointers: the only part of the layouts that a plan does not contain.
 * So parts of an array at a thousand different offsets share one plan, and so do a layout and its flipped version.
 */
struct leati_layout_start {
    int64_t dst, src;
};

/* The user's two layouts, as far as plans depend on them. */
struct leati_layout_key {
    uint64_t hash;
    uint32_t dims, element_bytes;
    uint32_t dst_align, src_align;             /* of the first unit */
    uint32_t index_on, index_dim, index_bytes; /* index_on: 0 for no list, 1 on dst, 2 on src */
    int64_t index_bound;
    int64_t size[LEAT_LAYOUT_MAX_DIMS], dst_stride[LEAT_LAYOUT_MAX_DIMS], src_stride[LEAT_LAYOUT_MAX_DIMS];
};

struct leati_layout_plan {
    /* Reference count: the table, and callers. At 0 the plan goes to a free list, for reuse as another plan. Its
     * memory is never freed, so a thread that has found the plan in the table may read holders even if the plan
     * was dropped meanwhile. */
    _Atomic uint32_t holders;
    struct leati_layout_plan *next; /* in the free list */
    struct leati_layout_key key;

    struct leati_canonical canonical; /* its offsets are 0 */
    leat_layout_class class_of_plan;

    struct leati_host_layout host; /* for processors */
    struct leati_gpu_layout gpu;   /* for GPUs; does not depend on the number of multiprocessors */
};

/*
 * The class of a canonical layout (leat/layout.h), and what each class guarantees. "Dense" means that the stride
 * is one unit; "run" means a dimension 0 that is dense on both sides.
 *
 * - NOTHING: the layout is empty
 * - GATHER: it has a list, on either side
 * - COPY: no dimension, or only a run
 * - ROWS: a run that is long, or whose next dimension is also the next one on src
 * - TRANSPOSE: dimension 0 is dense on dst, another one, leati_canonical_dense_src(), is dense on src; both long
 * - ND_TILE: the same with one of them short; or a short run, and the dimensions above it have another order on
 * src than on dst
 * - FILL: dimension 0 is dense on dst and has stride 0 on src; or a short run, and dimension 1 has stride 0 on src
 * - ELEMENTS: anything else
 */
leat_layout_class leati_layout_classify(const struct leati_canonical *canonical);

/* Finds or makes the plan for two layouts with pointers of these alignments, and fills *start. The caller gets a
 * reference. Errors: as leati_canonical_make(); HOST_MEMORY. */
leat_status leati_layout_plan_get(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                  size_t src_align, struct leati_layout_plan **plan,
                                  struct leati_layout_start *start);

/* Adds a reference; the caller must have one already. */
void leati_layout_plan_hold(struct leati_layout_plan *plan);

/* Drops a reference; the caller must not use the plan any more. Any thread may drop the last one. */
void leati_layout_plan_drop(struct leati_layout_plan *plan);

/* The bound: the minimum number of sectors that any copy with this start must read or write, for pointers that are
 * aligned to sectors. */
uint64_t leati_layout_plan_reads(const struct leati_layout_plan *plan, const struct leati_layout_start *start);
uint64_t leati_layout_plan_writes(const struct leati_layout_plan *plan, const struct leati_layout_start *start);

/* Describes the plan in lines of text, for a GPU (on_gpu) or for processors. The text is NUL-terminated unless
 * text_bytes is 0. */
void leati_layout_plan_text(const struct leati_layout_plan *plan, const struct leati_layout_start *start,
                            bool on_gpu, char *text, size_t text_bytes);

#endif
