/*
 * host_fill.c - boxes that write one unit again and again: dimension 0 is dense on the destination and stands
 * still on the source.
 */
#include "layout/host_kernels.h"

#include <string.h>

#define PATTERN_LINES 16
#define PATTERN_BYTES ((size_t)PATTERN_LINES * LEATI_LINE_BYTES)

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* tiles: NULL for stores through the caches. */
static void fill_row(const struct leati_tiles *tiles, unsigned unit, char *dst, const char *src, size_t bytes)
{
    size_t head = -(uintptr_t)dst % LEATI_LINE_BYTES, room = smaller(bytes, PATTERN_BYTES),
           whole = room / LEATI_LINE_BYTES;
    char pattern[PATTERN_BYTES];

    memcpy(pattern, src, unit);
    for (size_t made = unit; made < room; made *= 2)
        memcpy(pattern + made, pattern, smaller(made, room - made));
    if (tiles && head + LEATI_LINE_BYTES <= bytes) {
        memcpy(dst, pattern, head);
        dst += head;
        for (bytes -= head; bytes >= LEATI_LINE_BYTES;) {
            size_t lines = smaller(bytes / LEATI_LINE_BYTES, whole);

            tiles->stream_lines(dst, pattern, lines);
            dst += lines * LEATI_LINE_BYTES;
            bytes -= lines * LEATI_LINE_BYTES;
        }
    }
    for (; bytes > room; bytes -= room, dst += room)
        memcpy(dst, pattern, room);
    memcpy(dst, pattern, bytes);
}

static void step(const void *context, char *dst, const char *src)
{
    const struct leati_box *box = context;

    fill_row(box->streaming ? leati_tiles_of(box->level) : NULL, box->unit_bytes, dst, src,
             (size_t)box->size[0] * box->unit_bytes);
}

void leati_box_fill(const struct leati_box *box, char *dst, const char *src)
{
    leati_box_walk(box, 1, step, box, dst, src);
}
