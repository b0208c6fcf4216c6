/*
 * packing_plan.h - the sequences of allocations of "leat bench pool --part packing": which sizes, in which order,
 * and what is freed when. They depend on nothing but the options, so that runs compare, and bench/peers runs the
 * same ones through other allocators.
 */
#ifndef CLI_PACKING_PLAN_H
#define CLI_PACKING_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PACKING_SIZES = 200, PACKING_MIXES = 8, PACKING_GRANULE_BYTES = 512 };

/* As every allocator here rounds, at least. */
static inline uint64_t packing_round(uint64_t bytes)
{
    return (bytes + PACKING_GRANULE_BYTES - 1) / PACKING_GRANULE_BYTES * PACKING_GRANULE_BYTES;
}

/* One size: first so many blocks are allocated, and freed again; then, within a limit, as many as there is room
 * for. */
struct packing_size {
    uint64_t bytes;
    uint64_t blocks;
    uint64_t limit_bytes;
};

/* Allocates a block, which gets the next number from 0 on, or, where bytes is 0, frees that of a number. */
struct packing_step {
    uint64_t bytes;
    uint32_t block;
};

/* Several sizes: the steps up to fill_steps fill a pool up to live_bytes, those after that keep it there. */
struct packing_mix {
    const char *name;
    uint64_t live_bytes; /* rounded sizes; never more than that */
    struct packing_step *steps;
    size_t step_count, fill_steps;
    size_t block_count;
};

struct packing_plan {
    struct packing_size sizes[PACKING_SIZES];
    struct packing_mix mixes[PACKING_MIXES];
};

/*
 * live_bytes of blocks of one size are live at once, at least four blocks, and four times as much of a mix; 0: 600
 * MB, or, if quick, 64 MiB of one size. quick: fewer blocks of small sizes, and a shorter churn. NULL when memory
 * is short.
 */
struct packing_plan *packing_plan_make(uint64_t live_bytes, bool quick);
void packing_plan_destroy(struct packing_plan *plan);

/* The most bytes that are live at once. */
uint64_t packing_plan_most_bytes(const struct packing_plan *plan);

/* The whole plan as JSON; NULL when memory is short. A step is the bytes of an allocation, or 0 or less: minus the
 * number of the block that is freed. */
json_t *packing_plan_json(const struct packing_plan *plan);

#endif
