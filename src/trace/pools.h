/*
 * pools.h - asks the pools for their memory, for traces and live counters.
 *
 * The recorder's thread asks every few milliseconds, so that allocations have nothing to do with it. What happens
 * between two looks is not seen: the operations ALLOC and FREE of the trace have it.
 */
#ifndef LEATI_TRACE_POOLS_H
#define LEATI_TRACE_POOLS_H

#include "trace/live_file.h"
#include "trace/span.h"

/* The pools that a trace has. Further pools than LEATI_LIVE_POOLS at once are not recorded. */
struct leati_pool_list {
    struct {
        uint64_t serial; /* 0: this place is empty */
        bool is_seen;    /* in this look */
    } kept[LEATI_LIVE_POOLS];
    uint32_t last_id;
    uint64_t time_ns; /* of the latest look */

    /* What the latest look has found. A place can have the end of one pool and the beginning of another. */
    struct leati_trace_pool made[LEATI_LIVE_POOLS];
    struct leati_trace_pool_memory changes[2 * LEATI_LIVE_POOLS];
    uint32_t made_count, change_count;
};

/* Looks at all pools. Fills places with what they have now, and list with what is new. */
void leati_pools_look(struct leati_pool_list *list, struct leati_live_pool places[LEATI_LIVE_POOLS],
                      uint64_t now_ns);

#endif
