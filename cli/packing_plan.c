/*
 * packing_plan.c - makes the sequences of allocations of "leat bench pool --part packing": see packing_plan.h.
 *
 * It computes with whole numbers only, so that every machine makes the same sequences.
 */
#include "packing_plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

#define USUAL_LIVE_BYTES ((uint64_t)600000000)
#define QUICK_LIVE_BYTES (64 * MIB)
#define LIMIT_BYTES GIB
#define QUICK_LIMIT_MIN_BYTES (64 * MIB)

enum {
    BLOCKS_MIN = 4,
    QUICK_LIMIT_BLOCKS = 16384,
    MIX_SHARE = 4, /* live bytes of a mix / live bytes of a single size; above 1, because a mix has large blocks */
    TURNOVER = 20, /* number of times that a mix replaces its live bytes */
    QUICK_TURNOVER = 5
};

/* The ways to draw the sizes of a mix. */
enum draw {
    DRAW_UNIFORM,
    DRAW_LOG_UNIFORM, /* each range between two powers of two equally often, and uniform in the range */
    DRAW_POWER_LAW,   /* a size twice as large is 2^-1.5 times as frequent, about a third */
    DRAW_TWO_SIZES,   /* the sizes least and most, equally often */
    DRAW_IN_TURNS     /* alternates between two sizes: all live blocks have one size, then every other block is
                       * replaced by blocks of the other size */
};

static const struct recipe {
    const char *name;
    enum draw draw;
    uint64_t least, most; /* range of sizes; for LOG_UNIFORM and POWER_LAW powers of two, and most is excluded */
} recipes[PACKING_MIXES] = {
    {"uniform, 512 B to 1 MiB", DRAW_UNIFORM, 512, MIB},
    {"uniform, 1 to 64 MiB", DRAW_UNIFORM, MIB, 64 * MIB},
    {"log-uniform, 512 B to 1 MiB", DRAW_LOG_UNIFORM, 512, MIB},
    {"log-uniform, 512 B to 256 MiB", DRAW_LOG_UNIFORM, 512, 256 * MIB},
    {"power law, 512 B to 256 MiB", DRAW_POWER_LAW, 512, 256 * MIB},
    {"two sizes, 3 kB and 700 KiB", DRAW_TWO_SIZES, 3000, 700 * KIB},
    {"two sizes, 45.5 and 91 MiB", DRAW_TWO_SIZES, 91 * MIB / 2, 91 * MIB},
    {"6 MB and 10 MB in turns", DRAW_IN_TURNS, 6000000, 10000000},
};

/* Returns the next number of the generator splitmix64, which is the same on every machine. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static unsigned log2_of(uint64_t power)
{
    return 63 - (unsigned)__builtin_clzll(power);
}

/* ---- one size ---- */

/* Makes 200 sizes, each 1.076 times as large as the size before it. From 8 KiB on, every other size is rounded up
 * to a multiple of PACKING_GRANULE_BYTES. */
static void make_sizes(struct packing_plan *plan, uint64_t live_bytes, bool quick)
{
    static const uint64_t growth_32 = 0x136D6214; /* (2^(21/199) - 1) * 2^32 */
    uint64_t size_24 = (uint64_t)512 << 24;
    unsigned i;

    for (i = 0; i < PACKING_SIZES; i++) {
        struct packing_size *size = &plan->sizes[i];
        uint64_t rounded, blocks;

        size->bytes = i + 1 == PACKING_SIZES ? GIB : size_24 >> 24;
        if (i % 2 && size->bytes >= 8 * KIB)
            size->bytes = packing_round(size->bytes);
        rounded = packing_round(size->bytes);
        blocks = (live_bytes + rounded - 1) / rounded;
        size->blocks = blocks > BLOCKS_MIN ? blocks : BLOCKS_MIN;
        size->limit_bytes = LIMIT_BYTES;
        if (quick && rounded * QUICK_LIMIT_BLOCKS < LIMIT_BYTES)
            size->limit_bytes = rounded * QUICK_LIMIT_BLOCKS > QUICK_LIMIT_MIN_BYTES
                                    ? rounded * QUICK_LIMIT_BLOCKS / MIB * MIB
                                    : QUICK_LIMIT_MIN_BYTES;
        size_24 += (size_24 >> 32) * growth_32 + ((size_24 & UINT32_MAX) * growth_32 >> 32);
    }
}

/* ---- mixes ---- */

/* The state of making a mix. */
struct making {
    const struct recipe *recipe;
    struct packing_mix *mix;
    uint64_t random;
    size_t room;
    struct live {
        uint64_t bytes; /* rounded size */
        uint32_t block;
    } * live;
    size_t live_count, live_room;
    uint64_t live_bytes, allocated_bytes;
};

static bool grow(void **array, size_t count, size_t *room, size_t size)
{
    size_t more = *room ? *room * 2 : 1024;
    void *grown;

    if (count < *room)
        return true;
    grown = realloc(*array, more * size);
    if (!grown)
        return false;
    *array = grown;
    *room = more;
    return true;
}

static bool add_step(struct making *making, uint64_t bytes, uint32_t block)
{
    struct packing_mix *mix = making->mix;

    if (!grow((void **)&mix->steps, mix->step_count, &making->room, sizeof *mix->steps))
        return false;
    mix->steps[mix->step_count++] = (struct packing_step){bytes, block};
    return true;
}

static bool add_alloc(struct making *making, uint64_t bytes)
{
    uint32_t block = (uint32_t)making->mix->block_count++;

    if (!grow((void **)&making->live, making->live_count, &making->live_room, sizeof *making->live))
        return false;
    making->live[making->live_count++] = (struct live){packing_round(bytes), block};
    making->live_bytes += packing_round(bytes);
    making->allocated_bytes += packing_round(bytes);
    return add_step(making, bytes, block);
}

/* Adds the free of the live block at index. The last live block moves to that index. */
static bool add_free(struct making *making, size_t index)
{
    struct live freed = making->live[index];

    making->live[index] = making->live[--making->live_count];
    making->live_bytes -= freed.bytes;
    return add_step(making, 0, freed.block);
}

/* Draws the largest power of two that is not above a size: all equally often, or, for DRAW_POWER_LAW, each 2^-0.5
 * times as often as the power before it. Because each power has twice as many sizes as the power before it, a
 * single size twice as large is 2^-1.5 times as frequent. */
static unsigned draw_power(struct making *making)
{
    unsigned least = log2_of(making->recipe->least), count = log2_of(making->recipe->most) - least, i;
    uint64_t weights[64], sum = 0, drawn;

    if (making->recipe->draw == DRAW_LOG_UNIFORM)
        return least + (unsigned)(next_random(&making->random) % count);
    for (i = 0; i < count; i++) {
        weights[i] = (i % 2 ? UINT64_C(0xB504F333F9DE) : UINT64_C(0x1000000000000)) >> i / 2;
        sum += weights[i];
    }
    assert(sum); /* every recipe has at least two powers of two */
    drawn = next_random(&making->random) % sum;
    for (i = 0; i + 1 < count && drawn >= weights[i]; i++)
        drawn -= weights[i];
    return least + i;
}

static uint64_t draw_size(struct making *making)
{
    const struct recipe *recipe = making->recipe;
    uint64_t power;

    switch (recipe->draw) {
    case DRAW_UNIFORM:
        return recipe->least + next_random(&making->random) % (recipe->most - recipe->least + 1);
    case DRAW_TWO_SIZES:
        return next_random(&making->random) % 2 ? recipe->least : recipe->most;
    default:
        power = (uint64_t)1 << draw_power(making);
        return power + next_random(&making->random) % power;
    }
}

static bool make_random_mix(struct making *making, uint64_t churn_bytes)
{
    struct packing_mix *mix = making->mix;
    uint64_t bytes = draw_size(making);

    for (; making->live_bytes + packing_round(bytes) <= mix->live_bytes; bytes = draw_size(making))
        if (!add_alloc(making, bytes))
            return false;
    mix->fill_steps = mix->step_count;
    churn_bytes += making->allocated_bytes;
    for (; making->allocated_bytes < churn_bytes; bytes = draw_size(making)) {
        while (making->live_bytes + packing_round(bytes) > mix->live_bytes) {
            assert(making->live_count); /* true because live_bytes has room for several of the largest blocks */
            if (!add_free(making, next_random(&making->random) % making->live_count))
                return false;
        }
        if (!add_alloc(making, bytes))
            return false;
    }
    return true;
}

static bool fill_with(struct making *making, uint64_t bytes)
{
    while (making->live_bytes + packing_round(bytes) <= making->mix->live_bytes)
        if (!add_alloc(making, bytes))
            return false;
    return true;
}

static int by_block(const void *a, const void *b)
{
    uint32_t x = ((const struct live *)a)->block, y = ((const struct live *)b)->block;

    return (x > y) - (x < y);
}

static bool make_mix_in_turns(struct making *making, uint64_t churn_bytes)
{
    uint64_t bytes = making->recipe->least;

    if (!fill_with(making, bytes))
        return false;
    making->mix->fill_steps = making->mix->step_count;
    churn_bytes += making->allocated_bytes;
    while (making->allocated_bytes < churn_bytes) {
        size_t i;

        bytes = making->recipe->least + making->recipe->most - bytes;
        assert(making->live);
        qsort(making->live, making->live_count, sizeof *making->live, by_block);
        /* Free every other block, from the end. add_free() moves the last block to the freed index; in this order
         * that block has been handled already. */
        for (i = making->live_count; i >= 2; i -= 2)
            if (!add_free(making, i - 1))
                return false;
        if (!fill_with(making, bytes))
            return false;
    }
    return true;
}

static bool make_mix(struct packing_mix *mix, const struct recipe *recipe, uint64_t live_bytes, bool quick)
{
    struct making making = {.recipe = recipe, .mix = mix};
    uint64_t churn_bytes = live_bytes * (quick ? QUICK_TURNOVER : TURNOVER);
    bool fine;

    mix->name = recipe->name;
    mix->live_bytes = live_bytes;
    /* Each mix has its own seed, so a change of one mix does not change the others. */
    making.random = recipe->least * 31 + recipe->most * 7 + (uint64_t)recipe->draw;
    fine = recipe->draw == DRAW_IN_TURNS ? make_mix_in_turns(&making, churn_bytes)
                                         : make_random_mix(&making, churn_bytes);
    free(making.live);
    return fine;
}

/* ---- the whole plan ---- */

struct packing_plan *packing_plan_make(uint64_t live_bytes, bool quick)
{
    struct packing_plan *plan = calloc(1, sizeof *plan);
    uint64_t mix_bytes = MIX_SHARE * (live_bytes ? live_bytes : USUAL_LIVE_BYTES);
    unsigned i;

    if (!plan)
        return NULL;
    make_sizes(plan, live_bytes ? live_bytes : quick ? QUICK_LIVE_BYTES : USUAL_LIVE_BYTES, quick);
    /* Use at least 1 GiB, so that several of the largest blocks fit. */
    mix_bytes = mix_bytes > GIB ? mix_bytes : GIB;
    for (i = 0; i < PACKING_MIXES; i++)
        if (!make_mix(&plan->mixes[i], &recipes[i], mix_bytes, quick)) {
            packing_plan_destroy(plan);
            return NULL;
        }
    return plan;
}

void packing_plan_destroy(struct packing_plan *plan)
{
    unsigned i;

    if (!plan)
        return;
    for (i = 0; i < PACKING_MIXES; i++)
        free(plan->mixes[i].steps);
    free(plan);
}

uint64_t packing_plan_most_bytes(const struct packing_plan *plan)
{
    uint64_t most = 0;
    unsigned i;

    for (i = 0; i < PACKING_SIZES; i++) {
        uint64_t bytes = plan->sizes[i].blocks * packing_round(plan->sizes[i].bytes);

        bytes = bytes > plan->sizes[i].limit_bytes ? bytes : plan->sizes[i].limit_bytes;
        most = bytes > most ? bytes : most;
    }
    for (i = 0; i < PACKING_MIXES; i++)
        most = plan->mixes[i].live_bytes > most ? plan->mixes[i].live_bytes : most;
    return most;
}

static json_t *size_json(const struct packing_size *size)
{
    return json_pack("{s:I, s:I, s:I}", "bytes", (json_int_t)size->bytes, "blocks", (json_int_t)size->blocks,
                     "limit_bytes", (json_int_t)size->limit_bytes);
}

static json_t *mix_json(const struct packing_mix *mix)
{
    json_t *steps = json_array();
    size_t i;

    for (i = 0; i < mix->step_count; i++) {
        const struct packing_step *step = &mix->steps[i];

        if (json_array_append_new(
                steps, json_integer(step->bytes ? (json_int_t)step->bytes : -(json_int_t)step->block)) != 0) {
            json_decref(steps);
            return NULL;
        }
    }
    return json_pack("{s:s, s:I, s:I, s:o}", "name", mix->name, "live_bytes", (json_int_t)mix->live_bytes,
                     "fill_steps", (json_int_t)mix->fill_steps, "steps", steps);
}

json_t *packing_plan_json(const struct packing_plan *plan)
{
    json_t *sizes = json_array(), *mixes = json_array();
    bool fine = sizes && mixes;
    unsigned i;

    for (i = 0; i < PACKING_SIZES && fine; i++)
        fine = json_array_append_new(sizes, size_json(&plan->sizes[i])) == 0;
    for (i = 0; i < PACKING_MIXES && fine; i++)
        fine = json_array_append_new(mixes, mix_json(&plan->mixes[i])) == 0;
    if (fine)
        return json_pack("{s:s, s:i, s:o, s:o}", "format", "leat-packing-1", "granule_bytes",
                         PACKING_GRANULE_BYTES, "sizes", sizes, "mixes", mixes);
    json_decref(sizes);
    json_decref(mixes);
    return NULL;
}
