/*
 * plan.h - makes and keeps layout plans. A plan says what the canonical layout of a copy is, its class and its
 * bound, and how processors and GPUs copy it.
 *
 * Plans depend on no device and no pointer. A plan is made once for each pair of layouts and kept in a table of
 * some thousand plans, which is read without a lock. Plans are reference-counted.
 */
#ifndef LEATI_LAYOUT_PLAN_H
#define LEATI_LAYOUT_PLAN_H

#include "layout/canonical.h"
#include "layout/gpu.h"
#include "layout/host.h"

/*
 * The position of a copy's first unit, in bytes from the pointer of each side. A plan does not contain it, so
 * parts of an array at a thousand different offsets share one plan, and so do a layout and its flipped version.
 */
struct leati_layout_start {
    int64_t dst, src;
};

/* The properties of the user's two layouts on which plans depend. */
struct leati_layout_key {
    uint64_t hash;
    uint32_t dims, element_bytes;
    uint32_t dst_align, src_align;             /* known alignment of the first unit, at most 16 */
    uint32_t index_on, index_dim, index_bytes; /* index_on: 0: no list, 1: the list is on dst, 2: it is on src */
    int64_t index_bound;
    struct leati_convert convert;
    uint32_t channels_turned; /* the canonical layout flips the dimension of channels */
    uint32_t other_copies;    /* as in struct leati_canonical */
    int64_t size[LEAT_LAYOUT_MAX_DIMS], dst_stride[LEAT_LAYOUT_MAX_DIMS], src_stride[LEAT_LAYOUT_MAX_DIMS];
};

struct leati_layout_plan {
    /* Number of references, of the table and of callers. When it is 0, the plan goes to a free list, for reuse as
     * another plan. The memory of plans is never freed, so a thread that has found a plan in the table may read
     * holders even if the plan was dropped meanwhile. */
    _Atomic uint32_t holders;
    struct leati_layout_plan *next; /* next plan in the free list */
    struct leati_layout_key key;

    struct leati_canonical canonical; /* with offsets 0 */
    leat_layout_class class_of_plan;

    struct leati_host_layout host; /* how processors copy it */
    struct leati_gpu_layout gpu;   /* how GPUs copy it, whatever their number of multiprocessors */
};

/*
 * Returns the class of a canonical layout (leat/layout.h). The list says what each class guarantees. "Dense" means
 * that the stride is one unit. A "run" is a dimension 0 that is dense on both sides.
 *
 * - NOTHING: the layout is empty.
 * - GATHER: the layout has a list, on either side.
 * - COPY: the layout has no dimension, or only a run.
 * - ROWS: a long run, or a short run that dimension 1 follows on src as on dst.
 * - TRANSPOSE: dimension 0 is dense on dst, another dimension (leati_canonical_dense_src()) is dense on src, and
 *   both are long.
 * - ND_TILE: as TRANSPOSE, but at least one of the two dimensions is short; or a short run that dimension 1
 *   follows on dst, but not on src.
 * - FILL: dimension 0 is dense on dst and has stride 0 on src; or a short run, and dimension 1 has stride 0 on
 *   src.
 * - ELEMENTS: all other layouts.
 */
leat_layout_class leati_layout_classify(const struct leati_canonical *canonical);

/* Finds or makes the plan for two layouts with pointers of these alignments, and fills *start. The caller gets a
 * reference to the plan. Errors: those of leati_canonical_make(), and HOST_MEMORY. */
leat_status leati_layout_plan_get(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                  size_t src_align, struct leati_layout_plan **plan,
                                  struct leati_layout_start *start);

/* The same for a copy that converts. With convert->src_bytes 0 the copy converts nothing. */
leat_status leati_layout_plan_get_convert(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                          size_t src_align, const struct leati_convert *convert,
                                          struct leati_layout_plan **plan, struct leati_layout_start *start);

/* The same for a launch that makes many copies with these layouts, all with pointers of these alignments. copies:
 * about how many, 1 or more. The kernel and its blocks are chosen for this number. */
leat_status leati_layout_plan_get_copies(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                         size_t src_align, const struct leati_convert *convert, uint32_t copies,
                                         struct leati_layout_plan **plan, struct leati_layout_start *start);

/* Adds a reference; the caller must have one already. */
void leati_layout_plan_hold(struct leati_layout_plan *plan);

/* Drops the caller's reference. The caller must not use the plan any more. Any thread may drop the last
 * reference. */
void leati_layout_plan_drop(struct leati_layout_plan *plan);

/* Return the bound: the minimum number of sectors that any copy with this start must read or write, for pointers
 * that are aligned to sectors. */
uint64_t leati_layout_plan_reads(const struct leati_layout_plan *plan, const struct leati_layout_start *start);
uint64_t leati_layout_plan_writes(const struct leati_layout_plan *plan, const struct leati_layout_start *start);

/* Describes the plan in lines of text. on_gpu: describes the copy by a GPU, else the copy by processors. The text
 * is NUL-terminated unless text_bytes is 0. */
void leati_layout_plan_text(const struct leati_layout_plan *plan, const struct leati_layout_start *start,
                            bool on_gpu, char *text, size_t text_bytes);

#endif
