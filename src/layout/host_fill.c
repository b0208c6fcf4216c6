/*
 * host_fill.c - copies loop nests that repeat one unit, because dimension 0 is dense on the destination and has
 * stride 0 on the source.
 */
#include "layout/host_kernels.h"
#include "base/assert.h"

#include <string.h>

#define PATTERN_BYTES ((size_t)1 << 10)

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Fills a row of the destination with copies of one unit. tiles: the tiles whose streaming stores are used; NULL:
 * uses cached stores. */
static void fill_row(const struct leati_tiles *tiles, unsigned unit, char *dst, const char *src, size_t bytes)
{
    size_t room = smaller(bytes, PATTERN_BYTES);
    char pattern[PATTERN_BYTES];

    leati_assert(unit && unit <= bytes && bytes % unit == 0);
    memcpy(pattern, src, unit);
    for (size_t made = unit; made < room; made *= 2)
        memcpy(pattern + made, pattern, smaller(made, room - made));
    if (tiles &&
        bytes > room) { /* align to a cache line; the head has whole units, so the rest repeats the same pattern */
        size_t head = -(uintptr_t)dst % LEATI_LINE_BYTES;

        memcpy(dst, pattern, head);
        dst += head;
        bytes -= head;
    }
    for (; bytes; bytes -= smaller(bytes, room), dst += room)
        leati_nest_run(tiles, dst, pattern, smaller(bytes, room));
}

static void step(const void *context, char *dst, const char *src)
{
    const struct leati_loop_nest *nest = context;

    fill_row(nest->streaming ? leati_tiles_of(nest->level) : NULL, nest->unit_bytes, dst, src,
             (size_t)nest->size[0] * nest->unit_bytes);
}

void leati_nest_fill(const struct leati_loop_nest *nest, char *dst, const char *src)
{
    leati_nest_walk(nest, 1, step, nest, dst, src);
}
