/*
 * host.h - layouts on processors. The CPU device copies layouts with it, and leat packs host memory with it.
 *
 * A copy is split into parts. Several threads may run parts concurrently; together the parts write each element
 * once.
 */
#ifndef LEATI_LAYOUT_HOST_H
#define LEATI_LAYOUT_HOST_H

#include "layout/canonical.h"

/* A list of indices, in memory that the processor can read, and the counter of wrong ones. */
struct leati_indices {
    const void *list;        /* NULL if the layout has no list */
    _Atomic uint64_t *wrong; /* NULL, or incremented for each index that is out of bounds */
};

/* The kernel in the innermost loops of a part; see host_kernels.h. */
enum leati_host_kernel {
    LEATI_HOST_RUNS,
    LEATI_HOST_ELEMENTS,
    LEATI_HOST_TILES,
    LEATI_HOST_SHUFFLE,
    LEATI_HOST_FILL
};

/* Instruction sets; each includes the ones before. AVX512 means AVX-512 F, BW and VL; VBMI adds AVX-512 VBMI. */
enum leati_host_level { LEATI_HOST_PLAIN, LEATI_HOST_AVX2, LEATI_HOST_AVX512, LEATI_HOST_VBMI };

/* The highest level that this processor and operating system support. */
enum leati_host_level leati_host_level(void);

struct leati_host_layout {
    uint64_t parts; /* 1 or more, unless the layout is empty */
    enum leati_host_kernel kernel;
    enum leati_host_level level; /* the caller may lower it */
    bool streaming;              /* use non-temporal stores */
    bool list_is_one_part;       /* the list's dimension is not split into parts */
    unsigned dst_dims, src_dims; /* see host_kernels.h */

    /* The bytes that are moved at once: the layout's unit, or all of its dimension 0, which then has no loop. */
    unsigned unit_bytes;

    /* In the order of the loops, the innermost first. */
    unsigned dims;
    unsigned order[LEATI_CANONICAL_MAX_DIMS];      /* dimension of the canonical layout */
    uint64_t part_size[LEATI_CANONICAL_MAX_DIMS];  /* units of a part in the dimension; the last may have less */
    uint64_t part_count[LEATI_CANONICAL_MAX_DIMS]; /* number of parts in the dimension */
};

/* Chooses the best kernel and parts for this canonical layout. class_of_plan: from leati_layout_classify(). Never
 * fails. */
void leati_host_layout_make(const struct leati_canonical *canonical, leat_layout_class class_of_plan,
                            struct leati_host_layout *host);

/* Runs the parts first to end - 1. dst and src are the pointers that the layout's offsets count from. */
void leati_host_layout_run(const struct leati_canonical *canonical, const struct leati_host_layout *host,
                           void *dst, const void *src, const struct leati_indices *indices, uint64_t first,
                           uint64_t end);

/* Describes the kernel for the plan's text: one line without a newline. */
void leati_host_layout_text(const struct leati_host_layout *host, char *text, size_t text_bytes);

#endif
