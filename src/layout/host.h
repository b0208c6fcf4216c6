/*
 * host.h - copies layouts on processors. The CPU device copies layouts by these functions, and leat packs host
 * memory by them.
 *
 * A copy is split into parts, which several threads may run concurrently. Together the parts write each element
 * once.
 */
#ifndef LEATI_LAYOUT_HOST_H
#define LEATI_LAYOUT_HOST_H

#include "layout/canonical.h"

/* A list of indices, in memory that the processor can read, and the counter of wrong indices. */
struct leati_indices {
    const void *list;        /* NULL if the layout has no list */
    _Atomic uint64_t *wrong; /* incremented for each index that is out of bounds; NULL: not counted */
};

/* The kernel that runs the innermost loops of a part (host_kernels.h). */
enum leati_host_kernel {
    LEATI_HOST_RUNS,
    LEATI_HOST_ELEMENTS,
    LEATI_HOST_TILES,
    LEATI_HOST_SHUFFLE,
    LEATI_HOST_FILL,
    LEATI_HOST_CONVERT /* no kernel of a loop nest: host_convert.h */
};

/* Instruction sets. Each level includes the levels before it. AVX512 means AVX-512 F, BW and VL; VBMI adds AVX-512
 * VBMI. */
enum leati_host_level { LEATI_HOST_PLAIN, LEATI_HOST_AVX2, LEATI_HOST_AVX512, LEATI_HOST_VBMI };

/* Returns the highest level that this processor and operating system support. */
enum leati_host_level leati_host_level(void);

struct leati_host_layout {
    uint64_t parts; /* number of parts; 0 only for an empty layout */
    enum leati_host_kernel kernel;
    enum leati_host_level level; /* instruction set to use; the caller may lower it */
    bool streaming;              /* use non-temporal stores */
    bool list_is_one_part;       /* the dimension with the list is not split into parts */
    unsigned dst_dims, src_dims; /* for the kernel; host_kernels.h says for each kernel what they mean */

    /* Number of bytes that are moved at once: the unit of the canonical layout, or the whole dimension 0, which
     * then has no loop. */
    unsigned unit_bytes;

    /* The loops, the innermost first. */
    unsigned dims;
    unsigned order[LEATI_CANONICAL_MAX_DIMS];      /* the dimension of the canonical layout */
    uint64_t part_size[LEATI_CANONICAL_MAX_DIMS];  /* size of a part in that dimension; the last may be smaller */
    uint64_t part_count[LEATI_CANONICAL_MAX_DIMS]; /* number of parts in that dimension */
};

/* Chooses the best kernel and the parts for this canonical layout. class_of_plan is the result of
 * leati_layout_classify(). Never fails. */
void leati_host_layout_make(const struct leati_canonical *canonical, leat_layout_class class_of_plan,
                            struct leati_host_layout *host);

/* Runs the parts first to end - 1. The offsets of the canonical layout count from dst and src. */
void leati_host_layout_run(const struct leati_canonical *canonical, const struct leati_host_layout *host,
                           void *dst, const void *src, const struct leati_indices *indices, uint64_t first,
                           uint64_t end);

/* Describes the kernel in one line without a newline, for the text of a plan. */
void leati_host_layout_text(const struct leati_host_layout *host, char *text, size_t text_bytes);

#endif
