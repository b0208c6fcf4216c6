/*
 * host_gather.c - copies parts with a list of indices.
 *
 * Usually the list is the outermost loop of a part: for each index that is in bounds, the kernel copies the loop
 * nest of the other dimensions. If the nest is a single run, the loop prefetches later runs, because the processor
 * cannot predict their addresses. If the nest copies single units, the list is first turned into a table of
 * offsets. The table is then the innermost loop, if that makes the accesses closer to each other.
 */
#include "layout/host_kernels.h"
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define AHEAD 8       /* number of list entries between the run that is copied and the run that is prefetched */
#define AHEAD_LINES 4 /* number of cache lines of a run to prefetch; the processor itself prefetches the rest */
#define TABLE_ENTRIES 512

struct places {
    int64_t dst, src;
};

/* Computes the offsets for entry i of the part's list. Returns false if the index is out of bounds. */
static bool place_of(const struct leati_listed *listed, uint64_t i, struct places *places)
{
    const char *list = (const char *)listed->list;
    int64_t at, other = (int64_t)i;
    int32_t narrow;

    leati_assert(i < listed->count && (listed->index_bytes == 4 || listed->index_bytes == 8));
    /* Use memcpy(), because the list need not be aligned. */
    if (listed->index_bytes == 4) {
        memcpy(&narrow, list + (listed->first + i) * sizeof narrow, sizeof narrow);
        at = narrow;
    } else {
        memcpy(&at, list + (listed->first + i) * sizeof at, sizeof at);
    }
    if (at < 0 || at >= listed->bound)
        return false;
    places->dst = (listed->on_dst ? at : other) * listed->dst_stride;
    places->src = (listed->on_dst ? other : at) * listed->src_stride;
    return true;
}

static void fetch(const char *src, size_t bytes)
{
    for (size_t i = 0; i < bytes && i < (size_t)AHEAD_LINES * LEATI_LINE_BYTES; i += LEATI_LINE_BYTES)
        __builtin_prefetch(src + i);
}

static uint64_t runs(const struct leati_loop_nest *nest, const struct leati_listed *listed, char *dst,
                     const char *src)
{
    const struct leati_tiles *tiles = nest->streaming ? leati_tiles_of(nest->level) : NULL;
    size_t bytes = (size_t)nest->size[0] * nest->unit_bytes;
    uint64_t wrong = 0;

    for (uint64_t i = 0; i < listed->count; i++) {
        struct places here, ahead;

        if (i + AHEAD < listed->count && place_of(listed, i + AHEAD, &ahead))
            fetch(src + ahead.src, bytes);
        if (place_of(listed, i, &here))
            leati_nest_run(tiles, dst + here.dst, src + here.src, bytes);
        else
            wrong++;
    }
    return wrong;
}

/* ---- single units ---- */

struct table {
    unsigned count;
    struct places places[TABLE_ENTRIES];
};

#define UNITS(bytes)                                                                                              \
    static void units_##bytes(const void *context, char *dst, const char *src)                                    \
    {                                                                                                             \
        const struct table *table = context;                                                                      \
                                                                                                                  \
        for (unsigned i = 0; i < table->count; i++)                                                               \
            memcpy(dst + table->places[i].dst, src + table->places[i].src, bytes);                                \
    }

UNITS(1)
UNITS(2)
UNITS(4)
UNITS(8)
UNITS(16)

static uint64_t units(const struct leati_loop_nest *nest, const struct leati_listed *listed, char *dst,
                      const char *src)
{
    static const leati_step steps[] = {
        [1] = units_1, [2] = units_2, [4] = units_4, [8] = units_8, [16] = units_16};
    uint64_t wrong = 0;
    struct table table;

    for (uint64_t first = 0; first < listed->count; first += TABLE_ENTRIES) {
        table.count = 0;
        for (uint64_t i = first; i < listed->count && i < first + TABLE_ENTRIES; i++) {
            if (place_of(listed, i, &table.places[table.count]))
                table.count++;
            else
                wrong++;
        }
        if (table.count)
            leati_nest_walk(nest, 0, steps[nest->unit_bytes], &table, dst, src);
    }
    return wrong;
}

/* Returns true if the list should be the innermost loop, because one step along the list is shorter in memory than
 * one step of the nest's innermost loop. */
static bool is_inner(const struct leati_loop_nest *nest, const struct leati_listed *listed)
{
    if (nest->size[0] == 1)
        return true;
    return listed->on_dst ? llabs(listed->src_stride) < llabs(nest->src_stride[0])
                          : listed->dst_stride < nest->dst_stride[0];
}

/* ---- the kernel ---- */

uint64_t leati_nest_listed(const struct leati_loop_nest *nest, const struct leati_listed *listed,
                           leati_nest_kernel kernel, char *dst, const char *src)
{
    uint64_t wrong = 0;
    struct places here;

    if (kernel == leati_nest_runs && nest->dims == 1)
        return runs(nest, listed, dst, src);
    if (kernel == leati_nest_elements && is_inner(nest, listed))
        return units(nest, listed, dst, src);
    for (uint64_t i = 0; i < listed->count; i++) {
        if (place_of(listed, i, &here))
            kernel(nest, dst + here.dst, src + here.src);
        else
            wrong++;
    }
    return wrong;
}
