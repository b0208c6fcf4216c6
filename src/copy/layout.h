/*
 * layout.h - copies between layouts (leat/layout.h): what a transfer knows of them, and what protocols do with
 * them.
 */
#ifndef LEATI_COPY_LAYOUT_H
#define LEATI_COPY_LAYOUT_H

#include "copy/plan.h"
#include "layout/plan.h"

/* Where a list of indices is. */
enum leati_list_place {
    LEATI_LIST_NONE,
    LEATI_LIST_ON_HOST,  /* checked, and copied by the call */
    LEATI_LIST_ON_DEVICE /* read in stream order */
};

/* One copy. */
struct leati_layout_copy {
    struct leati_plan plan; /* its transfer's layout is this one */
    void *dst;
    const void *src;
    const leat_layout *dst_layout, *src_layout;
    struct leati_layout_plan *layouts; /* held */
    struct leati_layout_start start;
    enum leati_list_place list_place;
    struct leati_endpoint list, wrong; /* where there are such */

    bool on_peer; /* a side is memory of another device than the stream's */
    bool on_host; /* threads reach both sides and the list */

    /* STAGED: in, or out; one side as it lies, with its gaps, through device memory, or packed in pinned memory.
     */
    bool in, whole;
    const char *why;
};

/* Give the copy to its stream by the protocol. */
leat_status leati_layout_run_kernel(const struct leati_plan *plan);
leat_status leati_layout_run_staged(const struct leati_plan *plan);
leat_status leati_layout_run_host(const struct leati_plan *plan);

/* How STAGED makes it, in words. */
void leati_layout_explain_staged(const struct leati_plan *plan, struct leati_strbuf *text);

/*
 * Launches the kernel of a plan. dst and src: of the first unit, as the device sees them; list and wrong: as
 * kernels see them, or 0.
 */
leat_status leati_layout_launch(leat_stream *stream, const struct leati_layout_plan *plan, uintptr_t dst,
                                uintptr_t src, uintptr_t list, uintptr_t wrong);

/* A layout of the same sizes as given that has no gaps, with the dimensions in the order in which given has them.
 * What given repeats (stride 0), it repeats. */
void leati_layout_pack(const leat_layout *given, leat_layout *packed);

/* What a pointer is aligned to, as far as it matters to plans. */
static inline size_t leati_layout_align(const void *pointer)
{
    uintptr_t bits = (uintptr_t)pointer | LEAT_LAYOUT_MAX_ELEMENT_BYTES;

    return bits & (~bits + 1);
}

/* The first unit of a side that starts so many bytes from a pointer, which need not be near any memory. */
static inline void *leati_layout_first(const void *pointer, int64_t start)
{
    return (void *)((uintptr_t)pointer + (uintptr_t)start);
}

/* The layout with the list, or NULL. */
static inline const leat_layout *leati_layout_listed(const leat_layout *dst, const leat_layout *src)
{
    return dst->index ? dst : src->index ? src : NULL;
}

#endif
