/*
 * bench_report_gaps.c - prints the part "gaps" of a record's group "copy" as tables, with a line for each size and
 * a column for each gap.
 */
#include "bench_report.h"
#include "text.h"

#include <math.h>
#include <stdio.h>

enum { GAPS_MAX = 8, SIZES_MAX = 64, CELL_MAX = 64 };

/* The distinct gaps and sizes of the rows, in order of appearance. */
struct axes {
    double gaps[GAPS_MAX];
    unsigned gap_count;
    json_int_t sizes[SIZES_MAX];
    unsigned size_count;
};

static json_int_t size_of(const json_t *row)
{
    return json_integer_value(json_object_get(row, "bytes"));
}

static void read_axes(const json_t *rows, struct axes *axes)
{
    size_t index;
    const json_t *row;
    unsigned i;

    json_array_foreach(rows, index, row)
    {
        double gap = record_number(row, "gap_ms");

        for (i = 0; i < axes->gap_count && axes->gaps[i] != gap; i++)
            ;
        if (i == axes->gap_count && i < GAPS_MAX)
            axes->gaps[axes->gap_count++] = gap;
        for (i = 0; i < axes->size_count && axes->sizes[i] != size_of(row); i++)
            ;
        if (i == axes->size_count && i < SIZES_MAX)
            axes->sizes[axes->size_count++] = size_of(row);
    }
}

/* Writes a cell such as "1.52 (10.3 / 6.78)": the driver's time divided by leat's, the driver's time, leat's
 * time. */
static void make_cell(const json_t *rows, json_int_t bytes, double gap, const char *const keys[2],
                      char text[CELL_MAX])
{
    size_t index;
    const json_t *row;

    text[0] = '\0';
    json_array_foreach(rows, index, row)
    {
        double leat = record_number(row, keys[0]);
        double driver = record_number(row, keys[1]);
        const char *wrong = json_is_true(json_object_get(row, "verified")) ? "" : " NOT VERIFIED";
        char figures[2][TEXT_MAX];

        if (size_of(row) != bytes || record_number(row, "gap_ms") != gap || isnan(leat))
            continue;
        if (isnan(driver))
            snprintf(text, CELL_MAX, "%s%s", text_figure(figures[0], leat), wrong);
        else
            snprintf(text, CELL_MAX, "%.2f (%s / %s)%s", driver / leat, text_figure(figures[1], driver),
                     text_figure(figures[0], leat), wrong);
    }
}

bool report_print_gaps(const json_t *rows, const char *title, const char *leat_key, const char *driver_key,
                       enum table_style style)
{
    const char *const keys[2] = {leat_key, driver_key};
    struct table_column columns[GAPS_MAX + 1] = {{.name = "SIZE", .right = true}};
    struct axes axes = {.gap_count = 0};
    char headings[GAPS_MAX][CELL_MAX];
    struct table *table;
    bool fine = true;
    unsigned i, j;

    read_axes(rows, &axes);
    for (i = 0; i < axes.gap_count; i++) {
        snprintf(headings[i], CELL_MAX, axes.gaps[i] > 0 ? "GAP %g ms" : "NO GAP", axes.gaps[i]);
        columns[i + 1] = (struct table_column){.name = headings[i], .right = true};
    }
    table = table_create(columns, axes.gap_count + 1);
    if (!table)
        return false;
    for (j = 0; j < axes.size_count; j++) {
        char size[TEXT_MAX], texts[GAPS_MAX][CELL_MAX];
        const char *cells[GAPS_MAX + 1] = {text_bytes(size, (uint64_t)axes.sizes[j])};

        for (i = 0; i < axes.gap_count; i++) {
            make_cell(rows, axes.sizes[j], axes.gaps[i], keys, texts[i]);
            cells[i + 1] = texts[i];
        }
        fine = fine && table_add(table, cells);
    }
    fine = fine && table_print(table, title, style);
    table_destroy(table);
    return fine;
}
