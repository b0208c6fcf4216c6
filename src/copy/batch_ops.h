/*
 * batch_ops.h - checks the ops of a batch together: resolves their pointers, rejects overlaps, and merges ops that
 * are adjacent on both sides.
 *
 * Thousands of ops usually lie in a few allocations, so leat looks up each allocation once instead of each
 * pointer. The list is sorted by destination, so ops whose destinations overlap or are adjacent are next to each
 * other.
 */
#ifndef LEATI_BATCH_OPS_H
#define LEATI_BATCH_OPS_H

#include "copy/plan.h"

#include <leat/copy.h>

/* The kind of memory, seen from the stream's device. */
enum leati_side {
    LEATI_SIDE_PAGEABLE,
    LEATI_SIDE_PINNED,
    LEATI_SIDE_LOCAL, /* memory of this device, and managed memory */
    LEATI_SIDE_PEER   /* memory of another device */
};

/* An allocation that contains ops. Index 0 stands for all pageable memory. */
struct leati_allocation {
    struct leati_endpoint endpoint;
    enum leati_side side;
    bool mapped;
    intptr_t shift; /* if mapped is set: address for kernels minus host address */
};

struct leati_op {
    uintptr_t dst, src;
    size_t bytes;
    uint32_t number;   /* index of the caller's op; if ops were merged, of the first of them */
    uint32_t to, from; /* indices of the allocations of dst and src */
    uint32_t group;    /* see batch.c, which sets it */
};

enum { LEATI_OPS_OWN = 32, LEATI_ALLOCATIONS_OWN = 16, LEATI_ALLOCATIONS_RECENT = 64 };

struct leati_ops {
    leat_stream *stream;
    struct leati_op *list;
    size_t count;           /* length of list */
    size_t submitted_count; /* number of the caller's ops that are not empty */
    size_t bytes;           /* of all ops together */
    struct leati_allocation *allocations;
    uint32_t allocation_count, allocation_room;

    bool pageable;          /* some op has pageable memory, so look and unread are set */
    struct leati_plan look; /* the inputs of all plans: stager, one_pass, idle and early are set */
    bool unread;            /* pageable sources were not checked, because packing detects unmapped pages */
    bool asking;            /* leat asks the drivers about every address that it does not know */
    bool read_only;         /* some memory was made read-only */

    uintptr_t low[2], high[2];                 /* bounds of all destinations [0] and all sources [1] */
    uint32_t recent[LEATI_ALLOCATIONS_RECENT]; /* cache of allocation indices, by a hash of the address */
    struct leati_op own[LEATI_OPS_OWN];
    struct leati_allocation own_allocations[LEATI_ALLOCATIONS_OWN];
    void *block; /* memory of the list if the list does not fit in own */
};

/* Reads, checks and sorts the caller's ops. If asking is false and the stream is idle, leat assumes that source
 * addresses that it does not know are pageable, and does not ask the drivers. The caller must call
 * leati_ops_end(), also after a failure. */
leat_status leati_ops_read(struct leati_ops *ops, leat_stream *stream, const leat_copy_op *given, size_t count,
                           bool asking);
void leati_ops_end(struct leati_ops *ops);

/* Adds an op that was submitted to the trace. */
void leati_ops_trace(const struct leati_ops *ops, const struct leati_op *op, enum leati_protocol_id protocol);

/* Finds the address of an allocation for kernels: sets shift and mapped of the allocation. */
leat_status leati_ops_map_allocation(struct leati_ops *ops, struct leati_allocation *allocation);

static inline leat_status leati_ops_map(struct leati_ops *ops, struct leati_allocation *allocation)
{
    return allocation->mapped ? LEAT_OK : leati_ops_map_allocation(ops, allocation);
}

/* Returns the endpoint of one side of an op: (op->to, op->dst) or (op->from, op->src). */
struct leati_endpoint leati_ops_endpoint(const struct leati_ops *ops, uint32_t allocation, uintptr_t ptr);

#endif
