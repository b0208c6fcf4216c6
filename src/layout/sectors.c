/*
 * sectors.c - computes how many sectors a copy must access (sectors.h).
 *
 * Bytes with no whole sector between them form a run. A dimension whose steps skip whole sectors forms a level,
 * which repeats everything below it. How many sectors a run touches depends on its offset within a sector. So each
 * level has a count for each possible offset, which is called a place. If a repetition ends in the sector in which
 * the next one begins, that sector is counted once.
 */
#include "layout/sectors.h"

#include "base/assume.h"

struct step {
    uint64_t size;
    int64_t stride; /* bytes, above 0 */
};

struct touched_sectors {
    unsigned places; /* number of places; they are a unit apart */
    int64_t unit_bytes;
    int64_t extent;                       /* distance from the first byte to the end of the last byte */
    uint64_t sectors[LEATI_SECTOR_BYTES]; /* for each place of the first byte, the number of touched sectors */
};

/* Fills steps with the dimensions of one side, the smallest stride first, and returns their number. Leaves out
 * dimension `without`, and dimensions that touch no further bytes. Makes strides positive, and moves *first to the
 * lowest byte. */
static unsigned take_steps(const struct leati_canonical *canonical, bool of_dst, int without, struct step *steps,
                           int64_t *first)
{
    const int64_t *stride = of_dst ? canonical->dst_stride : canonical->src_stride;
    unsigned count = 0;

    for (unsigned i = 0; i < canonical->dims; i++) {
        struct step step = {canonical->size[i], stride[i]};
        unsigned at;

        if ((int)i == without || !step.stride || step.size < 2)
            continue;
        if (step.stride < 0) {
            *first += (int64_t)(step.size - 1) * step.stride;
            step.stride = -step.stride;
        }
        for (at = count++; at && steps[at - 1].stride > step.stride; at--)
            steps[at] = steps[at - 1];
        steps[at] = step;
    }
    return count;
}

static void touch_run(struct touched_sectors *touched, int64_t bytes)
{
    touched->extent = bytes;
    for (unsigned place = 0; place < touched->places; place++)
        touched->sectors[place] = (uint64_t)((place * touched->unit_bytes + bytes - 1) / LEATI_SECTOR_BYTES + 1);
}

static unsigned common_divisor(unsigned a, unsigned b)
{
    while (b) {
        unsigned rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* A cycle through the places of a sector. Each step adds move, modulo places. After period steps the cycle is back
 * at its start. */
struct rotation {
    unsigned places, move, period;
};

static struct rotation rotation_of(unsigned places, unsigned move)
{
    LEATI_ASSUME(places > 0);
    return (struct rotation){places, move, places / common_divisor(places, move)};
}

/* Returns the sum of count values along the cycle, beginning with values[place]. */
static uint64_t sum_round(const uint64_t *values, struct rotation rotation, unsigned place, uint64_t count)
{
    LEATI_ASSUME(rotation.period > 0);

    uint64_t rounds = count < rotation.period ? 0 : count / rotation.period,
             rest = count - rounds * rotation.period, sum = 0;

    for (unsigned i = 0; i < rotation.period && (rounds || i < rest); i++) {
        sum += values[place] * (rounds + (i < rest));
        place += rotation.move;
        if (place >= rotation.places)
            place -= rotation.places;
    }
    return sum;
}

/* Returns the place of an offset: stride modulo the sector size, in units. */
static unsigned places_of(const struct touched_sectors *touched, int64_t stride)
{
    int64_t rest = stride % LEATI_SECTOR_BYTES;

    return (unsigned)((rest < 0 ? rest + LEATI_SECTOR_BYTES : rest) / touched->unit_bytes);
}

/* Subtracts one sector for each repetition that begins in the sector in which the repetition before it ends. gap:
 * the number of bytes between two repetitions. */
static void share_sectors(struct touched_sectors *touched, struct rotation rotation, uint64_t repetitions,
                          int64_t gap)
{
    uint64_t shares[LEATI_SECTOR_BYTES];

    for (unsigned place = 0; place < touched->places; place++)
        shares[place] = place * touched->unit_bytes > gap;
    for (unsigned place = 0; place < touched->places; place++)
        touched->sectors[place] -=
            sum_round(shares, rotation, (place + rotation.move) % touched->places, repetitions - 1);
}

/* Adds a level, which repeats everything that was added so far. The repetitions must not overlap. */
static void repeat(struct touched_sectors *touched, struct step step)
{
    struct rotation rotation = rotation_of(touched->places, places_of(touched, step.stride));
    int64_t gap = step.stride - touched->extent;
    struct touched_sectors before = *touched;

    for (unsigned place = 0; place < touched->places; place++)
        touched->sectors[place] = sum_round(before.sectors, rotation, place, step.size);
    if (gap < LEATI_SECTOR_BYTES - 1)
        share_sectors(touched, rotation, step.size, gap);
    touched->extent += (int64_t)(step.size - 1) * step.stride;
}

static int64_t reach(const struct touched_sectors *run, const struct step *levels, unsigned count)
{
    int64_t extent = run->extent;

    for (unsigned i = 0; i < count; i++)
        extent += (int64_t)(levels[i].size - 1) * levels[i].stride;
    return extent;
}

/* Merges each step into the run or into the level below if possible. The remaining steps become levels whose
 * strides are at least as long as everything below them. Returns the number of levels. */
static unsigned make_levels(struct touched_sectors *run, struct step *steps, unsigned count)
{
    unsigned levels = 0;

    for (unsigned i = 0; i < count; i++) {
        struct step step = steps[i];
        struct step *last = levels ? &steps[levels - 1] : NULL;
        int64_t extent = reach(run, steps, levels);

        if (!last && step.stride - extent < LEATI_SECTOR_BYTES) {
            run->extent += (int64_t)(step.size - 1) * step.stride;
        } else if (last && step.stride % last->stride == 0 &&
                   (uint64_t)(step.stride / last->stride) <= last->size) {
            last->size += (uint64_t)(step.stride / last->stride) * (step.size - 1);
        } else {
            /* If repetitions overlap, count only every n-th repetition, with n so large that these do not overlap.
             * The result is then a lower bound. */
            int64_t every = step.stride < extent ? (extent - 1) / step.stride + 1 : 1;

            step.size = (step.size - 1) / (uint64_t)every + 1;
            step.stride *= every;
            if (step.size > 1)
                steps[levels++] = step;
        }
    }
    return levels;
}

static void touch(const struct leati_canonical *canonical, bool of_dst, int without,
                  struct touched_sectors *touched, int64_t *first)
{
    unsigned unit_bytes = of_dst ? canonical->unit_bytes : leati_src_unit_bytes(canonical), count;
    struct step steps[LEATI_CANONICAL_MAX_DIMS];

    touched->unit_bytes = unit_bytes;
    touched->places = LEATI_SECTOR_BYTES / unit_bytes;
    touched->extent = unit_bytes;
    count = make_levels(touched, steps, take_steps(canonical, of_dst, without, steps, first));
    touch_run(touched, touched->extent);
    for (unsigned i = 0; i < count; i++)
        repeat(touched, steps[i]);
}

/* Returns the number of sectors of all existing rows, as if each valid index were in the list once. */
static uint64_t touch_all_rows(const struct leati_canonical *canonical, bool of_dst, int64_t first)
{
    struct leati_canonical whole = *canonical;
    struct touched_sectors touched;

    whole.size[canonical->index_dim] = (uint64_t)canonical->index_bound;
    touch(&whole, of_dst, -1, &touched, &first);
    return touched.sectors[places_of(&touched, first)];
}

static uint64_t touch_rows(const struct leati_canonical *canonical, bool of_dst, int64_t first)
{
    int64_t stride =
        of_dst ? canonical->dst_stride[canonical->index_dim] : canonical->src_stride[canonical->index_dim];
    struct touched_sectors row;
    uint64_t apart, all;

    if (!canonical->index_bound)
        return 0;
    all = touch_all_rows(canonical, of_dst, first);
    touch(canonical, of_dst, canonical->index_dim, &row, &first);
    apart = sum_round(row.sectors, rotation_of(row.places, places_of(&row, stride)), places_of(&row, first),
                      canonical->size[canonical->index_dim]);
    return apart < all ? apart : all;
}

/* Returns a simple lower bound. No byte of a destination is written twice, so a destination has at least as many
 * sectors as its payload needs. */
static uint64_t fewest(const struct leati_canonical *canonical, bool of_dst)
{
    return of_dst ? (canonical->payload_bytes + LEATI_SECTOR_BYTES - 1) / LEATI_SECTOR_BYTES : 1;
}

uint64_t leati_sectors(const struct leati_canonical *canonical, bool of_dst, int64_t pointer)
{
    int64_t first = (of_dst ? canonical->dst_offset : canonical->src_offset) + pointer % LEATI_SECTOR_BYTES;
    struct touched_sectors touched;
    uint64_t sectors;

    if (canonical->empty)
        return 0;
    if (canonical->index_dim >= 0 && canonical->index_on_dst == of_dst)
        return touch_rows(canonical, of_dst, first);
    if (canonical->index_dim >= 0 && !canonical->index_bound)
        return 0;
    touch(canonical, of_dst, -1, &touched, &first);
    sectors = touched.sectors[places_of(&touched, first)];
    return sectors < fewest(canonical, of_dst) ? fewest(canonical, of_dst) : sectors;
}
