/*
 * batch_ops.h - the copies of a batch, checked as one: what each pointer is, which ranges overlap, and which
 * continue one another.
 *
 * Thousands of ops mostly lie in a few allocations, so an allocation is looked up once, not every pointer. The
 * list is in the order of the destinations, which makes overlaps and neighbours a matter of looking at the next
 * one.
 */
#ifndef LEATI_BATCH_OPS_H
#define LEATI_BATCH_OPS_H

#include "copy/plan.h"

#include <leat/copy.h>

/* How a stream of the device gets at memory. */
enum leati_side {
    LEATI_SIDE_PAGEABLE,
    LEATI_SIDE_PINNED,
    LEATI_SIDE_LOCAL, /* the device's own, and managed memory */
    LEATI_SIDE_PEER   /* of another device */
};

/* An allocation that ops lie in. Place 0 stands for all pageable memory. */
struct leati_allocation {
    struct leati_endpoint endpoint;
    enum leati_side side;
    bool mapped;
    intptr_t shift; /* from an address to what a kernel uses for it; when mapped */
};

struct leati_op {
    uintptr_t dst, src;
    size_t bytes;
    uint32_t number;   /* of the caller's op; of the first one where some were merged */
    uint32_t to, from; /* allocations */
    uint32_t group;    /* for batch.c */
};

enum { LEATI_OPS_OWN = 32, LEATI_ALLOCATIONS_OWN = 16, LEATI_ALLOCATIONS_RECENT = 64 };

struct leati_ops {
    leat_stream *stream;
    struct leati_op *list;
    size_t count;           /* in the list */
    size_t submitted_count; /* of the caller's ops with any bytes */
    size_t bytes;           /* of all */
    struct leati_allocation *allocations;
    uint32_t allocation_count, allocation_room;

    /* Once an op has pageable memory. */
    bool pageable;
    struct leati_plan look; /* what a plan for it depends on: the stager, one_pass, idle, early */
    bool unread;            /* sources were not looked at: whoever reads them finds out whether they are there */
    bool asking;            /* drivers are asked about every address that leat does not know */

    uintptr_t low[2], high[2]; /* bounds of destinations and sources */
    uint32_t recent[LEATI_ALLOCATIONS_RECENT];
    struct leati_op own[LEATI_OPS_OWN];
    struct leati_allocation own_allocations[LEATI_ALLOCATIONS_OWN];
    void *block; /* where the list is when it is longer */
};

/* Reads and checks the caller's ops, and puts them in order. asking: see above; without it addresses that leat
 * does not know are trusted to be pageable when the stream is idle. leati_ops_end() must follow whatever is
 * returned. */
leat_status leati_ops_read(struct leati_ops *ops, leat_stream *stream, const leat_copy_op *given, size_t count,
                           bool asking);
void leati_ops_end(struct leati_ops *ops);

/* Fills allocation->shift. */
leat_status leati_ops_map_allocation(struct leati_ops *ops, struct leati_allocation *allocation);

static inline leat_status leati_ops_map(struct leati_ops *ops, struct leati_allocation *allocation)
{
    return allocation->mapped ? LEAT_OK : leati_ops_map_allocation(ops, allocation);
}

/* The target of one end of an op. */
struct leati_endpoint leati_ops_endpoint(const struct leati_ops *ops, uint32_t allocation, uintptr_t ptr);

#endif
