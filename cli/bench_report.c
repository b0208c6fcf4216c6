/*
 * bench_report.c - prints a record of "leat bench" as tables. It reads the record as JSON, so that a new run and a
 * stored record give the same tables.
 */
#include "bench_report.h"
#include "bench.h"
#include "cli.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The ways to make the text of a cell from a row. */
enum cell {
    CELL_TEXT,
    CELL_BYTES,
    CELL_FIGURE,
    CELL_FIGURE_UNIT,
    CELL_DIFFERENCE,
    CELL_MEAN,
    CELL_RATIO,
    CELL_PERCENT,
    CELL_COUNT,
    CELL_YES
};

struct report_column {
    const char *heading; /* "%s" at its end stands for the unit of the rows */
    const char *key;
    enum cell cell;
    bool rates_only; /* shown only for rows whose figure is a rate */
    bool us_only;    /* shown only for rows whose figure is in microseconds */
};

static const struct report_column group_columns[] = {
    {"CASE", "case", CELL_TEXT, false, false},
    {"SIZE", "bytes", CELL_BYTES, false, false},
    {"SIZES", "sizes", CELL_COUNT, false, false},
    {"ALLOCATIONS", "allocations", CELL_COUNT, false, false},
    {"RATIO", "ratio", CELL_RATIO, false, false},
    {"STILL", "still_ratio", CELL_RATIO, false, false},
    {"TIGHT", "tight_ratio", CELL_RATIO, false, false},
    {"DRIVER RATIO", "driver_ratio", CELL_RATIO, false, false},
    {"WORST", "worst_ratio", CELL_RATIO, false, false},
    {"AT", "worst_bytes", CELL_BYTES, false, false},
    {"DRIVER WORST", "driver_worst_ratio", CELL_RATIO, false, false},
    {"FIT IN LIMIT", "fitting_share", CELL_PERCENT, false, false},
    {"DRIVER FIT", "driver_fitting_share", CELL_PERCENT, false, false},
    {"STITCHED", "stitches", CELL_COUNT, false, false},
    {"TIGHT STITCHED", "tight_stitches", CELL_COUNT, false, false},
    {"LEAT %s", "value", CELL_FIGURE, false, false},
    {"DRIVER %s", "driver_value", CELL_FIGURE, false, false},
    {"LEAT / DRIVER", "ratio_to_driver", CELL_RATIO, false, false},
    {"DIFFERENCE us", "driver_value", CELL_DIFFERENCE, false, true},
    {"COPY %s", "copy_gb_s", CELL_FIGURE, false, false},
    {"OF COPY", "share_of_copy", CELL_PERCENT, false, false},
    {"LOWEST", "lowest_share", CELL_PERCENT, false, false},
    {"PYTORCH", "pytorch_gb_s", CELL_FIGURE, false, false},
    {"CUTENSOR", "cutensor_gb_s", CELL_FIGURE, false, false},
    {"SOCKET %s", "socket_value", CELL_FIGURE, false, false},
    {"LEAT / SOCKET", "ratio_to_socket", CELL_RATIO, false, false},
    {"UCX", "ucx_value", CELL_FIGURE, false, false},
    {"THREADS", "threads_gb_s", CELL_FIGURE, false, false},
    {"LEAT / THREADS", "ratio_to_threads", CELL_RATIO, false, false},
    {"PINNED COPY", "pinned_gb_s", CELL_FIGURE, false, false},
    {"FIO", "fio_gb_s", CELL_FIGURE, false, false},
    {"LEAT / FIO", "ratio_to_fio", CELL_RATIO, false, false},
    {"BOUND", "bound", CELL_FIGURE, true, false},
    {"OF BOUND", "ratio_to_bound", CELL_PERCENT, true, false},
    {"EMPTY KERNEL", "empty_us", CELL_FIGURE, false, false},
    {"TIMES EMPTY", "times_empty", CELL_RATIO, false, false},
    {"CASES", "cases", CELL_COUNT, false, false},
    {"CLASS", "class", CELL_TEXT, false, false},
    {"KERNEL", "kernel", CELL_TEXT, false, false},
    {"FIRST", "first", CELL_FIGURE, false, false},
    {"DRIVER FIRST", "driver_first", CELL_FIGURE, false, false},
    {"MEAN", "mean", CELL_FIGURE, false, false},
    {"DRIVER MEAN", "driver_mean", CELL_FIGURE, false, false},
    {"SOCKET MEAN", "socket_mean", CELL_FIGURE, false, false},
    {"P99", "p99", CELL_FIGURE, false, false},
    {"SOCKET P99", "socket_p99", CELL_FIGURE, false, false},
    {"DRIVER P99", "driver_p99", CELL_FIGURE, false, false},
    {"CALL us", "call_us", CELL_FIGURE, false, false},
    {"DRIVER CALL us", "driver_call_us", CELL_FIGURE, false, false},
    {"CPU s/GB", "cpu_s_per_gb", CELL_MEAN, false, false},
    {"DRIVER CPU s/GB", "driver_cpu_s_per_gb", CELL_MEAN, false, false},
    {"THREADS CPU s/GB", "threads_cpu_s_per_gb", CELL_MEAN, false, false},
    {"SOCKET CPU s/GB", "socket_cpu_s_per_gb", CELL_MEAN, false, false},
    {"FIO CPU s/GB", "fio_cpu_s_per_gb", CELL_MEAN, false, false},
    {"FIO BY", "fio_engine", CELL_TEXT, false, false},
    {"ALONE us", "alone_us", CELL_FIGURE, false, false},
    {"SLOWDOWN", "slowdown", CELL_RATIO, false, false},
    {"DRIVER SLOWDOWN", "driver_slowdown", CELL_RATIO, false, false},
    {"ONE CALL EACH", "each_us", CELL_FIGURE, false, false},
    {"DRIVER BATCH", "driver_batch_us", CELL_FIGURE, false, false},
    {"TIME us", "time_us", CELL_FIGURE, false, false},
    {"CHUNK", "chunk_bytes", CELL_BYTES, false, false},
    {"GAIN", "gain", CELL_RATIO, false, false},
    {"P99.9", "p999", CELL_FIGURE, false, false},
    {"DRIVER P99.9", "driver_p999", CELL_FIGURE, false, false},
    {"LONGEST", "longest", CELL_FIGURE, false, false},
    {"DRIVER LONGEST", "driver_longest", CELL_FIGURE, false, false},
    {"SCALING", "scaling", CELL_RATIO, false, false},
    {"DRIVER SCALING", "driver_scaling", CELL_RATIO, false, false},
    {"RING ALONE", "ring", CELL_FIGURE, false, false},
    {"CALLS", "driver_calls", CELL_MEAN, false, false},
    {"TIGHT CALLS", "tight_driver_calls", CELL_MEAN, false, false},
    {"EVENTS", "events", CELL_MEAN, false, false},
    {"QUERIES", "queries", CELL_MEAN, false, false},
    {"WAITS", "waits", CELL_MEAN, false, false},
    {"ADDRESSES", "addresses", CELL_COUNT, false, false},
    {"VERIFIED", "verified", CELL_YES, false, false},
};

static const struct report_column headline_columns[] = {
    {"GROUP", "group", CELL_TEXT, false, false},
    {"CASE", "case", CELL_TEXT, false, false},
    {"SIZE", "bytes", CELL_BYTES, false, false},
    {"LEAT", "value", CELL_FIGURE_UNIT, false, false},
    {"DRIVER", "driver_value", CELL_FIGURE_UNIT, false, false},
    {"LEAT / DRIVER", "ratio_to_driver", CELL_RATIO, false, false},
    {"OF COPY", "share_of_copy", CELL_PERCENT, false, false},
    {"BOUND", "bound", CELL_FIGURE_UNIT, true, false},
    {"OF BOUND", "ratio_to_bound", CELL_PERCENT, true, false},
    {"REPEATS", "repeats", CELL_COUNT, false, false},
    {"VERIFIED", "verified", CELL_YES, false, false},
};

enum { COLUMNS_MAX = sizeof group_columns / sizeof group_columns[0], CELL_MAX = 128 };

/* The rows of the headline table. bytes 0 means the largest size that was measured. */
static const struct headline_row {
    const char *group;
    const char *name;
    json_int_t bytes;
} headline_rows[] = {
    {"copy", "host to device, pinned", 1 << 20},
    {"copy", "host to device, pinned", 0},
    {"copy", "device to host, pinned", 0},
    {"copy", "both directions, pinned", 0},
    {"copy", "host to device, pageable", 1 << 20},
    {"copy", "host to device, pageable", 64 << 20},
    {"copy", "host to device, pageable", 0},
    {"copy", "device to host, pageable", 64 << 20},
    {"copy", "device to host, pageable", 0},
    {"copy", "both directions, pageable", 0},
    {"copy", "host to device, pageable, gap 2 ms", 4 << 10},
    {"copy", "host to device, pageable, gap 2 ms", 1 << 20},
    {"copy", "device to host, pageable, gap 2 ms", 4 << 10},
    {"copy", "device to host, pageable, gap 2 ms", 1 << 20},
    {"copy", "4096 copies in, pinned", 0},
    {"copy", "4096 copies out, pinned", 0},
    {"copy", "4096 copies in, pageable", 0},
    {"device", "on one device, read + write", 0},
    {"device", "to another device", 0},
    {"layout", "mean of transpose, 4 B", 0},
    {"layout", "mean of permute, 4 B", 0},
    {"layout", "mean of learning, 2 B", 0},
    {"layout", "mean of gather, 4 B", 0},
    {"alloc", "device memory, stream order", 1 << 20},
    {"alloc", "pinned memory", 0},
    {"pool", "pair", 1 << 20},
    {"pool", "pair", 0},
    {"pool", "16 threads, a stream each", 0},
    {"pool", "pinned memory, first time", 0},
    {"latency", "copy to the device, the call", 0},
    {"latency", "kernel launch, the call", 0},
    {"overlap", "in sequence, 1 stream", 0},
    {"overlap", "overlapped, 3 streams", 0},
    {"overlap", "overlapped, a stream for each step", 0},
    {"file", "read, in the page cache", 0},
    {"file", "read, from the disk", 0},
    {"file", "write, to the page cache", 0},
};

const char *record_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

double record_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool is_time(const json_t *row)
{
    return strcmp(record_text(row, "unit"), "GB/s") != 0;
}

/* Returns true if the row's figure exceeds its bound by more than 0.05 %, which rounding cannot explain. Then the
 * bound is wrong. */
static bool exceeds_bound(const json_t *row)
{
    return !is_time(row) && record_number(row, "ratio_to_bound") > 1.0005;
}

/* Returns true if the row has a value for this column. */
static bool has_cell(const json_t *row, const struct report_column *column)
{
    const json_t *value = json_object_get(row, column->key);

    if (!value || json_is_null(value) || (column->rates_only && is_time(row)) ||
        (column->us_only && strcmp(record_text(row, "unit"), "us") != 0) ||
        (column->rates_only && exceeds_bound(row)))
        return false;
    return column->cell != CELL_BYTES || json_integer_value(value) > 0;
}

static void make_cell(const json_t *row, const struct report_column *column, char text[CELL_MAX])
{
    const json_t *value = json_object_get(row, column->key);
    double number = json_number_value(value);
    char figure[TEXT_MAX];

    text[0] = '\0';
    if (!has_cell(row, column))
        return;
    switch (column->cell) {
    case CELL_TEXT:
        snprintf(text, CELL_MAX, "%s", record_text(row, column->key));
        break;
    case CELL_BYTES:
        snprintf(text, CELL_MAX, "%s", text_bytes(figure, (uint64_t)json_integer_value(value)));
        break;
    case CELL_FIGURE:
        snprintf(text, CELL_MAX, "%s", text_figure(figure, number));
        break;
    case CELL_FIGURE_UNIT:
        snprintf(text, CELL_MAX, "%s %s", text_figure(figure, number), record_text(row, "unit"));
        break;
    case CELL_DIFFERENCE:
        number = json_number_value(json_object_get(row, "value")) - number;
        snprintf(text, CELL_MAX, "%s%s", number > 0 ? "+" : "", text_figure(figure, number));
        break;
    case CELL_MEAN: /* most means are 0, which needs no decimals */
        snprintf(text, CELL_MAX, "%.3g", number);
        break;
    case CELL_RATIO:
        snprintf(text, CELL_MAX, "%.*f", number < 10 ? 3 : 0, number);
        break;
    case CELL_PERCENT:
        snprintf(text, CELL_MAX, "%.1f %%", number * 100);
        break;
    case CELL_COUNT:
        snprintf(text, CELL_MAX, "%.0f", number);
        break;
    case CELL_YES:
        snprintf(text, CELL_MAX, "%s", json_is_true(value) ? "yes" : "NO");
        break;
    }
}

/* Prints a table of the rows. It has only columns for which some row has a value. */
static bool print_rows(const json_t *rows, const struct report_column *columns, size_t column_count,
                       const char *title, enum table_style style)
{
    const struct report_column *used[COLUMNS_MAX];
    struct table_column headings[COLUMNS_MAX];
    char names[COLUMNS_MAX][CELL_MAX];
    struct table *table;
    size_t count = 0, i, index;
    bool fine = true;
    const json_t *row;

    for (i = 0; i < column_count; i++) {
        bool any = false;

        json_array_foreach(rows, index, row) any = any || has_cell(row, &columns[i]);
        if (!any)
            continue;
        /* Replace the %s at the end of a heading by the unit. */
        if (strstr(columns[i].heading, "%s"))
            snprintf(names[count], CELL_MAX, "%.*s%s", (int)(strlen(columns[i].heading) - 2), columns[i].heading,
                     record_text(json_array_get(rows, 0), "unit"));
        else
            snprintf(names[count], CELL_MAX, "%s", columns[i].heading);
        used[count] = &columns[i];
        headings[count].name = names[count];
        headings[count].right = columns[i].cell != CELL_TEXT;
        headings[count].wrap = 0;
        headings[count].key = !strcmp(columns[i].key, "case") || !strcmp(columns[i].key, "bytes");
        count++;
    }
    table = table_create(headings, count);
    if (!table)
        return false;
    json_array_foreach(rows, index, row)
    {
        char texts[COLUMNS_MAX][CELL_MAX];
        const char *cells[COLUMNS_MAX];

        for (i = 0; i < count; i++) {
            make_cell(row, used[i], texts[i]);
            cells[i] = texts[i];
        }
        fine = fine && table_add(table, cells);
    }
    fine = fine && table_print(table, title, style);
    table_destroy(table);
    return fine;
}

/* Returns the rows of a group that belong to this part ("": to no part), or NULL if memory is short. Rows with the
 * key "detail" are left out, because they are only for the record. */
static json_t *rows_of(const json_t *rows, const char *group, const char *part)
{
    json_t *chosen = json_array();
    size_t index;
    json_t *row;

    json_array_foreach(rows, index, row)
    {
        if (strcmp(record_text(row, "group"), group) || strcmp(record_text(row, "part"), part) ||
            json_is_true(json_object_get(row, "detail")))
            continue;
        if (chosen && json_array_append(chosen, row) != 0) {
            json_decref(chosen);
            return NULL;
        }
    }
    return chosen;
}

/* Prints two tables of the part "gaps": the medians, and the 99th percentiles. */
static bool print_gaps(const json_t *rows, const char *group, const char *part, enum table_style style)
{
    char title[CELL_MAX];
    bool fine;

    snprintf(title, sizeof title, "%s: %s: driver / leat, medians in us", group, part);
    fine = report_print_gaps(rows, title, "median", "driver_value", style);
    fputc('\n', table_file());
    snprintf(title, sizeof title, "%s: %s: driver / leat, p99 in us", group, part);
    fine = report_print_gaps(rows, title, "p99", "driver_p99", style) && fine;
    fputc('\n', table_file());
    return fine;
}

static bool print_part(const json_t *rows, const char *group, const char *text, const char *part,
                       enum table_style style)
{
    json_t *chosen = rows_of(rows, group, part);
    char title[CELL_MAX];
    bool fine = chosen != NULL;

    if (part[0])
        snprintf(title, sizeof title, "%s: %s", group, part);
    else
        snprintf(title, sizeof title, "%s%s%s", group, text[0] ? ": " : "", text);
    if (fine && json_object_get(json_array_get(chosen, 0), "gap_ms")) {
        fine = print_gaps(chosen, group, part, style);
    } else if (fine && json_array_size(chosen) > 0) {
        fine = print_rows(chosen, group_columns, sizeof group_columns / sizeof group_columns[0], title, style);
        fputc('\n', table_file());
    }
    json_decref(chosen);
    return fine;
}

/* Returns true if an earlier row has the same group and part. */
static bool part_is_known(const json_t *rows, size_t before, const json_t *row)
{
    size_t i;

    for (i = 0; i < before; i++)
        if (!strcmp(record_text(json_array_get(rows, i), "group"), record_text(row, "group")) &&
            !strcmp(record_text(json_array_get(rows, i), "part"), record_text(row, "part")))
            return true;
    return false;
}

bool report_print_group(const json_t *record, const char *group, enum table_style style)
{
    const json_t *rows = json_object_get(record, "rows");
    const char *text = "";
    bool fine = true;
    size_t index;
    const json_t *row;
    unsigned i;

    for (i = 0; i < BENCH_GROUP_COUNT; i++)
        if (!strcmp(bench_groups[i].name, group))
            text = bench_groups[i].text;
    json_array_foreach(rows, index, row)
    {
        if (!strcmp(record_text(row, "group"), group) && !part_is_known(rows, index, row))
            fine = print_part(rows, group, text, record_text(row, "part"), style) && fine;
    }
    return fine;
}

/* Returns the row for a line of the headline table, or NULL. */
static json_t *find_headline(const json_t *rows, const struct headline_row *wanted)
{
    json_t *found = NULL;
    json_int_t found_bytes = -1;
    size_t index;
    json_t *row;

    json_array_foreach(rows, index, row)
    {
        json_int_t bytes = json_integer_value(json_object_get(row, "bytes"));

        if (strcmp(record_text(row, "group"), wanted->group) || strcmp(record_text(row, "case"), wanted->name) ||
            (wanted->bytes && bytes != wanted->bytes) || bytes <= found_bytes)
            continue;
        found = row;
        found_bytes = bytes;
    }
    return found;
}

bool report_print_headline(const json_t *record, enum table_style style)
{
    const json_t *rows = json_object_get(record, "rows");
    json_t *chosen = json_array();
    bool fine = chosen != NULL;
    unsigned i;

    for (i = 0; i < sizeof headline_rows / sizeof headline_rows[0]; i++) {
        json_t *row = find_headline(rows, &headline_rows[i]);

        if (row)
            fine = fine && json_array_append(chosen, row) == 0;
    }
    if (fine && json_array_size(chosen) > 0) {
        fine = print_rows(chosen, headline_columns, sizeof headline_columns / sizeof headline_columns[0], NULL,
                          style);
        fputc('\n', table_file());
    }
    json_decref(chosen);
    return fine;
}

/* Prints the lines that describe the device and the host. */
static void print_machine(const json_t *record, enum table_style style)
{
    const json_t *device = json_object_get(record, "device");
    const json_t *driver = json_object_get(record, "driver");
    const json_t *host = json_object_get(record, "host");
    const char *library = strrchr(record_text(driver, "library"), '/');
    const char *end = style == TABLE_MARKDOWN ? "  \n" : "\n"; /* two blanks at the end break a line of Markdown */
    char memory[TEXT_MAX];

    text_bytes(memory, (uint64_t)json_integer_value(json_object_get(host, "memory_bytes")));
    /* Print the library's file name too, because it contains the exact version of the driver. */
    fprintf(table_file(), "Device: %s, %s, driver %s %s%s%s%s%s", record_text(device, "name"),
            record_text(device, "model"), record_text(driver, "name"), record_text(driver, "version"),
            library ? " (" : "", library ? library + 1 : "", library ? ")" : "", end);
    fprintf(table_file(), "Host: %s, %d logical processors, %s, %s%s", record_text(host, "cpu"),
            (int)json_integer_value(json_object_get(host, "cores")), memory, record_text(host, "kernel"), end);
}

/* The rows of the summary screen. bytes 0 means the largest size that was measured. */
static const struct summary_row {
    const char *text;
    struct headline_row row;
} summary_rows[] = {
    {"host to device, pinned", {"copy", "host to device, pinned", 0}},
    {"device to host, pinned", {"copy", "device to host, pinned", 0}},
    {"host to device, pageable", {"copy", "host to device, pageable", 0}},
    {"device to host, pageable", {"copy", "device to host, pageable", 0}},
    {"both directions, pageable", {"copy", "both directions, pageable", 0}},
    {"4096 small copies in, each", {"copy", "4096 copies in, pinned", 0}},
    {"within the device", {"device", "on one device, read + write", 0}},
    {"allocate and free, pool", {"pool", "pair", 1 << 20}},
    {"kernel launch, the call", {"latency", "kernel launch, the call", 0}},
    {"copy in, compute, copy out", {"overlap", "overlapped, 3 streams", 0}},
};

static bool add_summary_row(struct table *table, const json_t *row, const char *text)
{
    static const struct report_column size = {"", "bytes", CELL_BYTES, false, false};
    static const struct report_column leat = {"", "value", CELL_FIGURE_UNIT, false, false};
    static const struct report_column driver = {"", "driver_value", CELL_FIGURE_UNIT, false, false};
    static const struct report_column bound = {"", "ratio_to_bound", CELL_PERCENT, true, false};
    char texts[4][CELL_MAX], times[CELL_MAX] = "";
    double ratio = record_number(row, "ratio_to_driver");
    const char *cells[] = {text, texts[0], texts[1], texts[2], times, texts[3]};

    make_cell(row, &size, texts[0]);
    make_cell(row, &leat, texts[1]);
    make_cell(row, &driver, texts[2]);
    make_cell(row, &bound, texts[3]);
    if (isfinite(ratio) && ratio > 0)
        snprintf(times, sizeof times, "%.2fx", is_time(row) ? 1 / ratio : ratio);
    return table_add(table, cells);
}

/* Prints a line if other programs used the processors before or during the run. */
static void print_load(const json_t *host)
{
    double during = record_number(host, "busy_during");

    if (during > REPORT_BUSY_SHARE)
        fprintf(table_file(), "Other programs used %.0f %% of the processors' time: figures may be too low.\n",
                during * 100);
    else if (record_number(host, "busy_before") > REPORT_BUSY_SHARE)
        fprintf(table_file(), "The machine was busy before the run: figures may be too low.\n");
}

bool report_print_summary(const json_t *record, const char *path, double seconds)
{
    static const struct table_column columns[] = {{"CASE", false, 0, false},   {"SIZE", true, 0, false},
                                                  {"LEAT", true, 0, false},    {"DRIVER", true, 0, false},
                                                  {"SPEEDUP", true, 0, false}, {"OF BOUND", true, 0, false}};
    const json_t *rows = json_object_get(record, "rows");
    size_t count = json_array_size(rows), wrong = 0, index, shown = 0;
    size_t notes = json_array_size(json_object_get(record, "notes"));
    struct table *table = table_create(columns, sizeof columns / sizeof columns[0]);
    const json_t *row;
    bool fine = table != NULL;
    unsigned i;

    for (i = 0; fine && i < sizeof summary_rows / sizeof summary_rows[0]; i++) {
        row = find_headline(rows, &summary_rows[i].row);
        if (row) {
            fine = add_summary_row(table, row, summary_rows[i].text);
            shown++;
        }
    }
    json_array_foreach(rows, index, row) wrong += !json_is_true(json_object_get(row, "verified"));
    print_machine(record, TABLE_PLAIN);
    fputc('\n', table_file());
    if (fine && shown > 0)
        fine = table_print(table, NULL, TABLE_PLAIN) && fputc('\n', table_file()) != EOF;
    table_destroy(table);
    print_load(json_object_get(record, "host"));
    fprintf(table_file(), "All tables%s: %s\n", notes ? " and notes" : "", path);
    if (wrong)
        fprintf(table_file(), "main job: %zu rows, %zu NOT verified, in %.0f s\n", count, wrong, seconds);
    else
        fprintf(table_file(), "main job: %zu rows, all verified, in %.0f s\n", count, seconds);
    return fine;
}

void report_print_head(const json_t *record, enum table_style style)
{
    const char *peer = record_text(json_object_get(record, "driver"), "compared_with");

    print_machine(record, style);
    fprintf(table_file(), "Run: leat %s, %s, %s%s", record_text(record, "version"), record_text(record, "date"),
            record_text(record, "command"), style == TABLE_MARKDOWN ? "  \n" : "\n");
    fprintf(table_file(), "Figures: medians; GB/s is 10^9 bytes a second%s%s\n\n",
            !peer[0]                  ? ""
            : style == TABLE_MARKDOWN ? "; driver: "
                                      : "\nDriver: ",
            peer);
}

void report_print_notes(const json_t *record, enum table_style style)
{
    const json_t *notes = json_object_get(record, "notes");
    const json_t *note;
    size_t index;

    json_array_foreach(notes, index, note)
        fprintf(table_file(), "%s%s.\n", style == TABLE_MARKDOWN ? "- " : "Note: ", json_string_value(note));
}

json_t *report_load(const char *path)
{
    json_error_t error;
    json_t *record = strcmp(path, "-") != 0 ? json_load_file(path, 0, &error) : json_loadf(stdin, 0, &error);
    size_t index;
    const json_t *row;

    if (!record) {
        cli_complain("bench: %s cannot be read as a record: %s", path, error.text);
        return NULL;
    }
    if (!json_is_array(json_object_get(record, "rows"))) {
        cli_complain("bench: %s is not a record of leat bench: it has no rows", path);
        json_decref(record);
        return NULL;
    }
    json_array_foreach(json_object_get(record, "rows"), index, row)
    {
        if (json_is_object(row))
            continue;
        cli_complain("bench: %s is not a record of leat bench: row %zu is not an object", path, index);
        json_decref(record);
        return NULL;
    }
    return record;
}
