/*
 * layout.h - describes a copy between layouts (leat/layout.h), and declares how each protocol makes it.
 */
#ifndef LEATI_COPY_LAYOUT_H
#define LEATI_COPY_LAYOUT_H

#include "copy/plan.h"
#include "layout/plan.h"

/* The place of a list of indices. */
enum leati_list_place {
    LEATI_LIST_NONE,     /* there is no list */
    LEATI_LIST_ON_HOST,  /* the call checks the list and copies it to scratch memory */
    LEATI_LIST_ON_DEVICE /* the copy reads the list in stream order */
};

struct leati_layout_copy {
    struct leati_plan plan; /* plan.transfer.layout points to this struct */
    void *dst;
    const void *src;
    const leat_layout *dst_layout, *src_layout;
    struct leati_layout_plan *layouts; /* this struct holds a reference */
    /* For a copy that converts: what the program passed, and its parts. convert.src_bytes is 0 for other copies.
     */
    const leat_conversion *conversion;
    struct leati_convert convert;
    struct leati_factors *factors;
    struct leati_layout_start start;
    enum leati_list_place list_place;
    struct leati_endpoint list, wrong; /* the list of indices, and the counter of wrong indices, if there is one */

    bool on_peer; /* a side is memory of another device than the stream's device */
    bool on_host; /* host threads can access both sides and the list */

    /* Only for the protocol STAGED. in: the copy goes to the device, else from the device. whole: the side that
     * the device does not reach has a copy in device memory, gaps included, on which a kernel works; else it is
     * packed in pinned memory. why: text with the reason for this choice. */
    bool in, whole;
    const char *why;
};

/* Each of these submits a copy to its stream with one protocol. */
leat_status leati_layout_run_kernel(const struct leati_plan *plan);
leat_status leati_layout_run_staged(const struct leati_plan *plan);
leat_status leati_layout_run_host(const struct leati_plan *plan);

/* Adds a description of how the protocol STAGED makes the copy. */
void leati_layout_explain_staged(const struct leati_plan *plan, struct leati_strbuf *text);

/* Sets copy->layouts, start and the conversion of a copy whose other fields are what the program passed, and
 * copy->layouts gets a reference, which the caller must drop. factors: room for the numbers of the conversion. */
leat_status leati_layout_find(struct leati_layout_copy *copy, const leat_conversion *conversion,
                              struct leati_factors *factors);

/* Checks the memory of a copy that has its layouts, and chooses the protocol. Call before leati_plan_submit(), and
 * not for a copy without elements. */
leat_status leati_layout_choose(struct leati_layout_copy *copy);

/* Submits a copy that has a protocol. */
leat_status leati_layout_run(struct leati_layout_copy *copy);

/*
 * Submits copies of one stream with the same layouts and factors, all with the protocol KERNEL, without a list of
 * indices and without pageable memory, in as few launches as possible. plan: the plan of their layouts for so many
 * copies (leati_layout_plan_get_copies()), with a kernel that can make several; not used for copies in one pass.
 */
leat_status leati_layout_run_batch(struct leati_layout_copy *const *copies, size_t count,
                                   const struct leati_layout_plan *plan);

/*
 * Launches the kernel of a plan. dst and src: device addresses of the first unit. list and wrong: device addresses
 * of the list of indices and of the counter of wrong indices, or 0.
 */
leat_status leati_layout_launch(leat_stream *stream, const struct leati_layout_plan *plan, uintptr_t dst,
                                uintptr_t src, uintptr_t list, uintptr_t wrong);

/* Makes a layout without gaps that has the sizes of given and the same order of dimensions in memory. A dimension
 * with stride 0 keeps stride 0. */
void leati_layout_pack(const leat_layout *given, leat_layout *packed);

/* Returns the alignment of a pointer, at most LEAT_LAYOUT_MAX_ELEMENT_BYTES, the largest that plans use. */
static inline size_t leati_layout_align(const void *pointer)
{
    uintptr_t bits = (uintptr_t)pointer | LEAT_LAYOUT_MAX_ELEMENT_BYTES;

    return bits & (~bits + 1);
}

/* Returns the address of a side's first unit, start bytes from pointer. Adds integers, because pointer itself may
 * lie outside of any allocation. */
static inline void *leati_layout_first(const void *pointer, int64_t start)
{
    return (void *)((uintptr_t)pointer + (uintptr_t)start);
}

/* Returns the layout that has a list of indices, or NULL. */
static inline const leat_layout *leati_layout_listed(const leat_layout *dst, const leat_layout *src)
{
    return dst->index ? dst : src->index ? src : NULL;
}

#endif
