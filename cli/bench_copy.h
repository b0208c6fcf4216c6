/*
 * bench_copy.h - copies over the link, for the group "copy" and for the bound of the group "overlap".
 */
#ifndef CLI_BENCH_COPY_H
#define CLI_BENCH_COPY_H

#include "bench.h"
#include "bench_measure.h"

enum copy_direction { COPY_IN, COPY_OUT, COPY_BOTH };

/* One copy, or one in each direction at once, of bytes bytes each. */
struct copy_case {
    struct bench *bench;
    enum copy_direction direction;
    bool pinned;
    size_t bytes;
    void *in_dst, *in_src;   /* device, host */
    void *out_dst, *out_src; /* host, device */
};

/* Finds the buffers. False with bench->error set. */
bool copy_case_init(struct copy_case *c, struct bench *bench, enum copy_direction direction, bool pinned,
                    size_t bytes);

/* A bench_sample for a struct copy_case: from the issue to the completion. */
bool copy_case_sample(void *state, enum bench_side side, double *seconds);

#endif
