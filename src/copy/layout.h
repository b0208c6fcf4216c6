/*
 * layout.h - copies between layouts: which way the bytes go, and their start.
 */
#ifndef LEATI_COPY_LAYOUT_H
#define LEATI_COPY_LAYOUT_H

#include "copy/staged.h"
#include "core/access.h"
#include "layout/plan.h"

enum leati_layout_way {
    LEATI_LAYOUT_BY_CPU,     /* the CPU device's own threads, whatever the memory is */
    LEATI_LAYOUT_BY_KERNEL,  /* one kernel, which reaches both sides */
    LEATI_LAYOUT_IN_WHOLE,   /* the source with its gaps to the device, then a kernel */
    LEATI_LAYOUT_IN_PACKED,  /* threads pack the source into pinned memory, from which a kernel takes it */
    LEATI_LAYOUT_OUT_WHOLE,  /* a kernel into device memory that lies like the destination, which has no gaps */
    LEATI_LAYOUT_OUT_PACKED, /* a kernel into pinned memory, which threads unpack */
    LEATI_LAYOUT_ON_HOST     /* threads do all of it */
};

/* Where a list of indices is. */
enum leati_list_place {
    LEATI_LIST_NONE,
    LEATI_LIST_ON_HOST,  /* checked, and copied by the call */
    LEATI_LIST_ON_DEVICE /* read in stream order */
};

/* One copy. */
struct leati_layout_copy {
    leat_stream *stream;
    void *dst;
    const void *src;
    const leat_layout *dst_layout, *src_layout;
    struct leati_layout_plan *plan; /* held */
    struct leati_layout_start start;
    struct leati_target to, from; /* from the lowest byte that is touched on */
    size_t dst_bytes, src_bytes;  /* to the highest */
    enum leati_list_place list_place;
    struct leati_target list, wrong; /* where there are such */
    enum leati_layout_way way;
    struct leati_stager *stager; /* NULL: none, or not needed */
    bool early;                  /* a pageable source may be read at once */
    const char *why;
};

/* Does what was planned. */
leat_status leati_layout_run(const struct leati_layout_copy *copy);

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
