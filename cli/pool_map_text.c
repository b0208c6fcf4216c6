/*
 * pool_map_text.c - draws a coarse picture of a pool in characters, for terminals.
 */
#include "pool_map.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { CELLS = 64, ROWS_MAX = 32 };

/* The bytes of each state in one cell (character) of the picture. */
struct cell {
    uint64_t bytes[POOL_MAP_STATE_COUNT];
};

/* Returns the character of a cell. If the cell has live bytes, it is '#' or '+'; otherwise it is the character of
 * the state with the most bytes. */
static char cell_character(const struct cell *cell)
{
    static const char characters[POOL_MAP_STATE_COUNT] = {
        [POOL_MAP_LIVE] = '#',      [POOL_MAP_CACHED] = 'c', [POOL_MAP_PENDING] = 'p', [POOL_MAP_FREE] = '.',
        [POOL_MAP_IN_STITCH] = 's', [POOL_MAP_STALE] = '-',  [POOL_MAP_DORMANT] = 'd', [POOL_MAP_HOLE] = ' '};
    uint64_t live_bytes = cell->bytes[POOL_MAP_LIVE], other_bytes = 0;
    int most = POOL_MAP_HOLE, i;

    for (i = POOL_MAP_CACHED; i < POOL_MAP_STATE_COUNT; i++) {
        other_bytes += cell->bytes[i];
        if (cell->bytes[i] > cell->bytes[most])
            most = i;
    }
    if (live_bytes)
        return live_bytes > other_bytes * 9 ? '#' : '+';
    return characters[most];
}

/* Adds a piece to the cells that it covers. */
static void add_piece(struct cell *cells, uint64_t cell_bytes, uint64_t begin, uint64_t end,
                      enum pool_map_state state)
{
    while (begin < end) {
        uint64_t index = begin / cell_bytes;
        uint64_t next = (index + 1) * cell_bytes < end ? (index + 1) * cell_bytes : end;

        cells[index].bytes[state] += next - begin;
        begin = next;
    }
}

static void write_row(const struct pool_map_range *range, const struct pool_map_row *row, uint64_t cell_bytes,
                      size_t *index, FILE *file)
{
    const struct pool_map_extent *extent;
    struct cell cells[CELLS];
    char characters[CELLS + 1];
    uint64_t at = row->begin, end;
    int i;

    memset(cells, 0, sizeof cells);
    while (pool_map_next_piece(range, row, index, at, &end, &extent)) {
        add_piece(cells, cell_bytes, at - row->begin, end - row->begin, extent->state);
        at = end;
    }
    for (i = 0; i < CELLS; i++)
        characters[i] = cell_character(&cells[i]);
    characters[CELLS] = '\0';
    fprintf(file, "  0x%012llx |%s|\n", (unsigned long long)(range->base + row->begin), characters);
}

static bool write_range(const struct pool_map *map, const struct pool_map_range *range, FILE *file)
{
    struct pool_map_rows rows;
    char size[TEXT_MAX], *name;
    size_t index = 0, i;

    if (!pool_map_make_rows(range, (map->page_bytes + CELLS - 1) / CELLS * CELLS, ROWS_MAX, &rows))
        return false;
    name = strdup(range->name);
    if (!name) {
        free(rows.rows);
        return false;
    }
    text_clean(name);
    fprintf(file, "\n%s: a character is %s%s\n", name, text_bytes(size, rows.row_bytes / CELLS),
            range->stitched ? "; memory of the ranges above, mapped once more" : "");
    free(name);
    for (i = 0; i < rows.row_count; i++)
        if (rows.rows[i].gap)
            fprintf(file, "  %14s ~ %s of addresses %s ~\n", "",
                    text_bytes(size, rows.rows[i].end - rows.rows[i].begin), pool_map_gap_text(range));
        else
            write_row(range, &rows.rows[i], rows.row_bytes / CELLS, &index, file);
    free(rows.rows);
    return true;
}

bool pool_map_write_text(const struct pool_map *map, FILE *file)
{
    char a[TEXT_MAX], b[TEXT_MAX], *head;
    size_t i;

    if (asprintf(&head, "Pool %s on %s, %s memory, pages of %s", map->name, map->device, map->kind,
                 text_bytes(a, map->page_bytes)) < 0)
        return false;
    text_clean(head); /* names in a file must not send sequences to the terminal */
    fprintf(file, "%s\n", head);
    free(head);
    fprintf(file, "requested %s, reserved %s", text_bytes(a, map->requested_bytes),
            text_bytes(b, map->reserved_bytes));
    if (map->requested_bytes)
        fprintf(file, ", ratio %.4f", (double)map->reserved_bytes / (double)map->requested_bytes);
    fprintf(file, "\nlargest free extent %s; %llu pages partly used, %s idle in them\n",
            text_bytes(a, map->largest_free_bytes), (unsigned long long)map->partly_used_pages,
            text_bytes(b, map->partly_idle_bytes));
    fputs("# live   + partly live   c cached   p pending   . free   s used by a stitched block\n"
          "- given up   d dormant (stitched, not in use)   (blank) no memory\n",
          file);
    for (i = 0; i < map->range_count; i++)
        if (!write_range(map, &map->ranges[i], file))
            return false;
    return true;
}
