/*
 * batch_ops.h - checks the ops of a batch together: resolves their pointers, rejects overlaps, and merges ops that
 * are adjacent on both sides.
 *
 * Thousands of ops usually lie in a few allocations, so each allocation is looked up once, not each pointer. The
 * list is sorted by destination, so overlapping and adjacent ops are next to each other.
 */
#ifndef LEATI_BATCH_OPS_H
#define LEATI_BATCH_OPS_H

#include "copy/plan.h"

#include <leat/copy.h>

/* How a stream's device reaches memory. */
enum leati_side {
    LEATI_SIDE_PAGEABLE,
    LEATI_SIDE_PINNED,
    LEATI_SIDE_LOCAL, /* the device's own, and managed memory */
    LEATI_SIDE_PEER   /* of another device */
};

/* An allocation that contains ops. Index 0 stands for all pageable memory. */
struct leati_allocation {
    struct leati_endpoint endpoint;
    enum leati_side side;
    bool mapped;
    intptr_t shift; /* if mapped: add it to a host address to get the address for kernels */
};

struct leati_op {
    uintptr_t dst, src;
    size_t bytes;
    uint32_t number;   /* index of the caller's op; if ops were merged, of the first one */
    uint32_t to, from; /* indices of allocations */
    uint32_t group;    /* for batch.c */
};

enum { LEATI_OPS_OWN = 32, LEATI_ALLOCATIONS_OWN = 16, LEATI_ALLOCATIONS_RECENT = 64 };

struct leati_ops {
    leat_stream *stream;
    struct leati_op *list;
    size_t count;           /* length of list */
    size_t submitted_count; /* how many of the caller's ops are not empty */
    size_t bytes;           /* total */
    struct leati_allocation *allocations;
    uint32_t allocation_count, allocation_room;

    bool pageable;          /* some op has pageable memory; then the next two are set */
    struct leati_plan look; /* inputs of plans: stager, one_pass, idle, early */
    bool unread;            /* pageable sources were not checked; the copy itself detects unmapped pages */
    bool asking;            /* ask the drivers about every address that leat does not know */

    uintptr_t low[2], high[2]; /* bounds of all destinations [0] and all sources [1] */
    uint32_t recent[LEATI_ALLOCATIONS_RECENT];
    struct leati_op own[LEATI_OPS_OWN];
    struct leati_allocation own_allocations[LEATI_ALLOCATIONS_OWN];
    void *block; /* heap memory of the list if it does not fit in own */
};

/* Reads, checks and sorts the caller's ops. asking: see above; if false and the stream is idle, addresses that
 * leat does not know are assumed to be pageable. Call leati_ops_end() whatever this returns. */
leat_status leati_ops_read(struct leati_ops *ops, leat_stream *stream, const leat_copy_op *given, size_t count,
                           bool asking);
void leati_ops_end(struct leati_ops *ops);

/* Sets allocation->shift and mapped. */
leat_status leati_ops_map_allocation(struct leati_ops *ops, struct leati_allocation *allocation);

static inline leat_status leati_ops_map(struct leati_ops *ops, struct leati_allocation *allocation)
{
    return allocation->mapped ? LEAT_OK : leati_ops_map_allocation(ops, allocation);
}

/* The endpoint for one side of an op: allocation is op->to or op->from, ptr its address. */
struct leati_endpoint leati_ops_endpoint(const struct leati_ops *ops, uint32_t allocation, uintptr_t ptr);

#endif
