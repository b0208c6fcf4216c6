/*
 * plan.h - a form, what kind of copy it is, and what bounds it; and how a processor and a GPU go about it.
 *
 * Plans know no device and no pointer. They are made once for each form and kept in a table of a few thousand, which
 * is looked up without a lock; each is alive as long as somebody holds it.
 */
#ifndef LEATI_LAYOUT_PLAN_H
#define LEATI_LAYOUT_PLAN_H

#include "layout/form.h"
#include "layout/gpu.h"
#include "layout/host.h"

struct leati_layout_plan {
    _Atomic uint32_t holders;
    struct leati_form form;
    leat_layout_class class_of_plan;
    uint64_t read_sectors, written_sectors;

    struct leati_host_layout host; /* for processors */
    struct leati_gpu_layout gpu;   /* for GPUs; multiprocessors only matter when it is launched */
};

/* The plan for two layouts; the caller holds it. Errors: as leati_form_make(); HOST_MEMORY. */
leat_status leati_layout_plan_get(const leat_layout *dst, size_t dst_align, const leat_layout *src, size_t src_align,
                           struct leati_layout_plan **plan);

void leati_layout_plan_hold(struct leati_layout_plan *plan);
void leati_layout_plan_drop(struct leati_layout_plan *plan);

/* The plan in words, as lines; on_gpu says which of the two ways. Always ends with a 0 when text_bytes is not 0. */
void leati_layout_plan_text(const struct leati_layout_plan *plan, bool on_gpu, char *text, size_t text_bytes);

#endif
