/*
 * plan.h - a form, what kind of copy it is, and what bounds it; and how a processor and a GPU go about it.
 *
 * Plans know no device and no pointer. They are made once for each pair of layouts and kept in a table of some
 * thousand, which is looked up without a lock; each is alive as long as somebody holds it.
 */
#ifndef LEATI_LAYOUT_PLAN_H
#define LEATI_LAYOUT_PLAN_H

#include "layout/canonical.h"
#include "layout/gpu.h"
#include "layout/host.h"

/*
 * Where a copy's first unit is, in bytes from its pointers: all that a plan does not know of the layouts. Parts of
 * an array at a thousand offsets are one plan, and so are a layout and the same one flipped.
 */
struct leati_layout_start {
    int64_t dst, src;
};

/* The two sides of a copy as the user said them, in as much as plans depend on it. */
struct leati_layout_key {
    uint64_t hash;
    uint32_t dims, element_bytes;
    uint32_t dst_align, src_align;             /* of the first unit */
    uint32_t index_on, index_dim, index_bytes; /* index_on: 0 for no list, 1 on dst, 2 on src */
    int64_t index_bound;
    int64_t size[LEAT_LAYOUT_MAX_DIMS], dst_stride[LEAT_LAYOUT_MAX_DIMS], src_stride[LEAT_LAYOUT_MAX_DIMS];
};

struct leati_layout_plan {
    /* Who may use it: the table, and callers. At 0 it waits to be another plan. Its memory is never given back, so
     * that a thread which found it in the table may look at holders, whatever became of the plan meanwhile. */
    _Atomic uint32_t holders;
    struct leati_layout_plan *next; /* of those that wait */
    struct leati_layout_key key;

    struct leati_canonical canonical; /* its offsets are 0 */
    leat_layout_class class_of_plan;

    struct leati_host_layout host; /* for processors */
    struct leati_gpu_layout gpu;   /* for GPUs; multiprocessors only matter when it is launched */
};

/*
 * What kind of copy a form is. What each promises, beside what its name says (leat/layout.h):
 *
 * NOTHING    the form is empty
 * GATHER     it has a list, on either side
 * COPY       no dimension, or one that is dense on both sides
 * ROWS       dimension 0 is dense on both sides: a run. It is long, or the next dimension is the next on both
 * sides TRANSPOSE  dimension 0 is dense on dst and another one, leati_canonical_dense_src(), on src; both are long
 * BOX dimension 0 is dense on dst and one, leati_canonical_dense_src(), on src. That may be dimension 0 too: a
 * short run, and the dimensions above it come in another order on src than on dst FILL       dimension 0 is dense
 * on dst; on src it has stride 0, or it is a short run and dimension 1 has stride 0 ELEMENTS   nothing of this
 *
 * Dense: its stride is one unit.
 */
leat_layout_class leati_layout_classify(const struct leati_canonical *canonical);

/* The plan for two layouts with pointers of these alignments, and where it starts; the caller holds it. Errors: as
 * leati_canonical_make(); HOST_MEMORY. */
leat_status leati_layout_plan_get(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                  size_t src_align, struct leati_layout_plan **plan,
                                  struct leati_layout_start *start);

/* For who holds it already. */
void leati_layout_plan_hold(struct leati_layout_plan *plan);

/* Who held it last need not be who made it; afterwards the plan is not the caller's to look at. */
void leati_layout_plan_drop(struct leati_layout_plan *plan);

/* The bound: sectors that a copy which starts there cannot do without, for pointers at the start of one. */
uint64_t leati_layout_plan_reads(const struct leati_layout_plan *plan, const struct leati_layout_start *start);
uint64_t leati_layout_plan_writes(const struct leati_layout_plan *plan, const struct leati_layout_start *start);

/* The plan in words, as lines; on_gpu says which of the two ways. Always ends with a 0 when text_bytes is not 0.
 */
void leati_layout_plan_text(const struct leati_layout_plan *plan, const struct leati_layout_start *start,
                            bool on_gpu, char *text, size_t text_bytes);

#endif
