/*
 * packing_plan.h - makes the sequences of allocations and frees of "leat bench pool --part packing". They depend
 * only on the options, so that runs can be compared, and so that the scripts in bench/peers can run the same
 * sequences through other allocators.
 */
#ifndef CLI_PACKING_PLAN_H
#define CLI_PACKING_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PACKING_SIZES = 200, PACKING_MIXES = 8, PACKING_GRANULE_BYTES = 512 };

/* Rounds a size up to a multiple of PACKING_GRANULE_BYTES, as every compared allocator does at least. */
static inline uint64_t packing_round(uint64_t bytes)
{
    return (bytes + PACKING_GRANULE_BYTES - 1) / PACKING_GRANULE_BYTES * PACKING_GRANULE_BYTES;
}

/* The sequence for one size: this many blocks are allocated and freed; then, under a limit, as many as fit. */
struct packing_size {
    uint64_t bytes;
    uint64_t blocks;
    uint64_t limit_bytes;
};

/* One step of a mix. bytes above 0: it allocates a block; blocks are numbered from 0 in the order of allocation.
 * bytes 0: it frees the block with the number block. */
struct packing_step {
    uint64_t bytes;
    uint32_t block;
};

/* A sequence of several sizes. The first fill_steps steps fill a pool up to live_bytes. The other steps replace
 * blocks and keep about as many bytes live. */
struct packing_mix {
    const char *name;
    uint64_t live_bytes; /* limit of the live bytes, as a sum of rounded sizes */
    struct packing_step *steps;
    size_t step_count, fill_steps;
    size_t block_count;
};

struct packing_plan {
    struct packing_size sizes[PACKING_SIZES];
    struct packing_mix mixes[PACKING_MIXES];
};

/*
 * Makes the plan. In a sequence of one size, live_bytes are live at once, but at least four blocks; in a mix, four
 * times as much. live_bytes 0 means the default: 600 MB, or 64 MiB if quick. quick: use fewer blocks of small
 * sizes, and fewer replacements. Returns NULL if memory is short.
 */
struct packing_plan *packing_plan_make(uint64_t live_bytes, bool quick);
void packing_plan_destroy(struct packing_plan *plan);

/* Returns the most bytes that are live at once in any sequence. */
uint64_t packing_plan_most_bytes(const struct packing_plan *plan);

/* Returns the plan as JSON, or NULL if memory is short. A step is the size of an allocation, or, if it is not
 * positive, minus the number of the block that is freed. */
json_t *packing_plan_json(const struct packing_plan *plan);

#endif
