/*
 * host.h - layouts by processors: the way that the CPU device copies them, and that leat packs host memory.
 *
 * A copy is cut into parts that may run at the same time on several threads and together write every element once.
 */
#ifndef LEATI_LAYOUT_HOST_H
#define LEATI_LAYOUT_HOST_H

#include "layout/canonical.h"

/* A list of indices, in memory that the processor can read, and what becomes of wrong ones. */
struct leati_indices {
    const void *list;        /* NULL where the layout has none */
    _Atomic uint64_t *wrong; /* NULL, or raised by one for each index that is out of bounds */
};

/* What the innermost loops of a part do; more about each in host_kernels.h. */
enum leati_host_kernel {
    LEATI_HOST_RUNS,
    LEATI_HOST_ELEMENTS,
    LEATI_HOST_TILES,
    LEATI_HOST_SHUFFLE,
    LEATI_HOST_FILL
};

/* Sets of instructions, the later the better. AVX-512 is its parts F, BW and VL; VBMI comes on top of it. */
enum leati_host_level { LEATI_HOST_PLAIN, LEATI_HOST_AVX2, LEATI_HOST_AVX512, LEATI_HOST_VBMI };

/* The best that this processor and its system offer. */
enum leati_host_level leati_host_level(void);

struct leati_host_layout {
    uint64_t parts; /* 1 or more, unless the layout is empty */
    enum leati_host_kernel kernel;
    enum leati_host_level level; /* a lower one may be put here */
    bool streaming;              /* stores go past the caches */
    bool list_is_one_part;       /* the list's dimension is not cut */
    unsigned dst_dims, src_dims; /* what they mean, host_kernels.h says */

    /* What is moved at once: the layout's unit, or its dimension 0, which then is not among the loops. */
    unsigned unit_bytes;

    /* In the order of the loops, the innermost first. */
    unsigned dims;
    unsigned order[LEATI_CANONICAL_MAX_DIMS];      /* which dimension of the canonical layout it is */
    uint64_t part_size[LEATI_CANONICAL_MAX_DIMS];  /* units in a part; the last part may have fewer */
    uint64_t part_count[LEATI_CANONICAL_MAX_DIMS]; /* parts along this dimension */
};

/* How processors best copy this canonical layout. class_of_plan is what the planner found. Never fails. */
void leati_host_layout_make(const struct leati_canonical *canonical, leat_layout_class class_of_plan,
                            struct leati_host_layout *host);

/* Runs the parts from first to before end. dst and src are the pointers that the layouts' offsets count from. */
void leati_host_layout_run(const struct leati_canonical *canonical, const struct leati_host_layout *host,
                           void *dst, const void *src, const struct leati_indices *indices, uint64_t first,
                           uint64_t end);

/* Kernel and tile in words, for the plan's text: one line without a newline. */
void leati_host_layout_text(const struct leati_host_layout *host, char *text, size_t text_bytes);

#endif
