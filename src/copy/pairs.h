/*
 * pairs.h - many copies that are checked as one: what each pointer is, which ranges overlap, and which continue
 * one another.
 *
 * Thousands of pairs mostly lie in a few allocations, so an allocation is looked up once, not every pointer. The
 * list is in the order of the destinations, which makes overlaps and neighbours a matter of looking at the next
 * one.
 */
#ifndef LEATI_PAIRS_H
#define LEATI_PAIRS_H

#include "copy/plan.h"

#include <leat/copy.h>

/* How a stream of the device gets at memory. */
enum leati_side {
    LEATI_SIDE_PAGEABLE,
    LEATI_SIDE_PINNED,
    LEATI_SIDE_NEAR, /* the device's own, and managed memory */
    LEATI_SIDE_FAR   /* of another device */
};

/* An allocation that pairs lie in. Place 0 stands for all pageable memory. */
struct leati_area {
    struct leati_target target;
    enum leati_side side;
    bool mapped;
    intptr_t shift; /* from an address to what a kernel uses for it; when mapped */
};

struct leati_pair {
    uintptr_t dst, src;
    size_t bytes;
    uint32_t number;   /* of the caller's pair; of the first one where some were merged */
    uint32_t to, from; /* areas */
    uint32_t group;    /* for batch.c */
};

enum { LEATI_PAIRS_OWN = 32, LEATI_AREAS_OWN = 16, LEATI_AREAS_RECENT = 64 };

struct leati_pairs {
    leat_stream *stream;
    struct leati_pair *list;
    size_t count;       /* in the list */
    size_t given_count; /* of the caller's pairs with any bytes */
    size_t bytes;       /* of all */
    struct leati_area *areas;
    uint32_t area_count, area_room;

    /* Once a pair has pageable memory. */
    bool pageable;
    struct leati_plan look; /* what a plan for it depends on: the stager, one_pass, idle, early */
    bool unread;            /* sources were not looked at: whoever reads them finds out whether they are there */
    bool asking;            /* drivers are asked about every address that leat does not know */

    uintptr_t low[2], high[2]; /* bounds of destinations and sources */
    uint32_t recent[LEATI_AREAS_RECENT];
    struct leati_pair own[LEATI_PAIRS_OWN];
    struct leati_area own_areas[LEATI_AREAS_OWN];
    void *block; /* where the list is when it is longer */
};

/* Reads and checks the caller's pairs, and puts them in order. asking: see above; without it addresses that leat
 * does not know are trusted to be pageable when the stream is idle. leati_pairs_end() must follow whatever is
 * returned. */
leat_status leati_pairs_read(struct leati_pairs *pairs, leat_stream *stream, const leat_copy_pair *given,
                             size_t count, bool asking);
void leati_pairs_end(struct leati_pairs *pairs);

/* Fills area->shift. */
leat_status leati_pairs_map_area(struct leati_pairs *pairs, struct leati_area *area);

static inline leat_status leati_pairs_map(struct leati_pairs *pairs, struct leati_area *area)
{
    return area->mapped ? LEAT_OK : leati_pairs_map_area(pairs, area);
}

/* The target of one end of a pair. */
struct leati_target leati_pairs_target(const struct leati_pairs *pairs, uint32_t area, uintptr_t ptr);

#endif
