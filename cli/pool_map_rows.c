/*
 * pool_map_rows.c - cuts a range of addresses into rows of equal length for pictures of a pool. Rows without any
 * memory are left out.
 */
#include "pool_map.h"

#include <stdlib.h>
#include <string.h>

static uint64_t end_of(const struct pool_map_range *range)
{
    const struct pool_map_extent *last = range->extents + range->extent_count - 1;

    return range->extent_count ? last->offset + last->bytes : 0;
}

/* Finds the next run of extents without memory, from extent *index on, and sets *index to the extent behind the
 * run. Returns false if there is none. */
static bool next_blank(const struct pool_map_range *range, size_t *index, uint64_t *begin, uint64_t *end)
{
    const struct pool_map_extent *extents = range->extents;

    while (*index < range->extent_count && pool_map_has_memory(extents[*index].state))
        ++*index;
    if (*index == range->extent_count)
        return false;
    *begin = extents[*index].offset;
    for (; *index < range->extent_count && !pool_map_has_memory(extents[*index].state); ++*index)
        *end = extents[*index].offset + extents[*index].bytes;
    return true;
}

/* Finds the rows that [begin, end) covers completely. *first receives the first of these rows; the result is the
 * row behind the last of them. */
static uint64_t whole_rows(const struct pool_map_range *range, uint64_t begin, uint64_t end, uint64_t row_bytes,
                           uint64_t *first)
{
    *first = begin / row_bytes + (begin % row_bytes != 0);
    return end / row_bytes + (end == end_of(range) && end % row_bytes != 0);
}

/* Returns the number of rows that contain memory. */
static uint64_t count_rows(const struct pool_map_range *range, uint64_t row_bytes)
{
    uint64_t end = end_of(range), count = end / row_bytes + (end % row_bytes != 0), blank, blank_end, first, last;
    size_t i = 0;

    while (next_blank(range, &i, &blank, &blank_end)) {
        last = whole_rows(range, blank, blank_end, row_bytes, &first);
        count -= last > first ? last - first : 0;
    }
    return count;
}

static void add_row(struct pool_map_rows *rows, uint64_t begin, uint64_t end, bool gap)
{
    rows->rows[rows->row_count++] = (struct pool_map_row){begin, end, gap};
}

bool pool_map_make_rows(const struct pool_map_range *range, uint64_t smallest_row_bytes, size_t rows_max,
                        struct pool_map_rows *rows)
{
    uint64_t end = end_of(range), at = 0, blank, blank_end, first, last, count;
    size_t i = 0;

    rows->row_bytes = smallest_row_bytes;
    while ((count = count_rows(range, rows->row_bytes)) > rows_max)
        rows->row_bytes *= 2;
    rows->row_count = 0;
    /* Allocate for at most one gap before each row, and one gap behind the last row. */
    rows->rows = calloc(2 * (size_t)count + 1, sizeof *rows->rows);
    if (!rows->rows)
        return false;
    while (next_blank(range, &i, &blank, &blank_end)) {
        last = whole_rows(range, blank, blank_end, rows->row_bytes, &first);
        for (; at < first * rows->row_bytes && at < end; at += rows->row_bytes)
            add_row(rows, at, at + rows->row_bytes, false);
        if (last > first) {
            add_row(rows, at, last * rows->row_bytes < end ? last * rows->row_bytes : end, true);
            at = last * rows->row_bytes;
        }
    }
    for (; at < end; at += rows->row_bytes)
        add_row(rows, at, at + rows->row_bytes, false);
    /* The snapshot lists no extents behind the last memory, but the remaining addresses are a gap too. */
    if (at < range->bytes && rows->row_count && rows->rows[rows->row_count - 1].gap)
        rows->rows[rows->row_count - 1].end = range->bytes;
    else if (at < range->bytes)
        add_row(rows, at, range->bytes, true);
    return true;
}

bool pool_map_next_piece(const struct pool_map_range *range, const struct pool_map_row *row, size_t *index,
                         uint64_t at, uint64_t *end, const struct pool_map_extent **extent)
{
    while (*index < range->extent_count && at < row->end) {
        const struct pool_map_extent *here = &range->extents[*index];
        uint64_t here_end = here->offset + here->bytes;

        if (here_end <= at) {
            ++*index;
            continue;
        }
        *end = here_end < row->end ? here_end : row->end;
        *extent = here;
        return true;
    }
    return false;
}
