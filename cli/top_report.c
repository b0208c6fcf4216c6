/* top_report.c - prints what "leat top" found: tables for the terminal, and JSON. */
#include "table.h"
#include "text.h"
#include "text_json.h"
#include "top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LANES_SHOWN = 16, POOLS_SHOWN = 16, CELL_MAX = 128 };

const char *const top_kind_names[LEATI_LIVE_KINDS] = {
    [0] = "other",
    [LEATI_TRACE_COPY] = "copy",
    [LEATI_TRACE_FILL] = "fill",
    [LEATI_TRACE_KERNEL] = "kernel",
    [LEATI_TRACE_LAYOUT] = "layout",
    [LEATI_TRACE_HOST_FUNCTION] = "host function",
    [LEATI_TRACE_EVENT_RECORD] = "event record",
    [LEATI_TRACE_EVENT_WAIT] = "event wait",
    [LEATI_TRACE_SYNCHRONIZE] = "synchronize",
    [LEATI_TRACE_ALLOC] = "alloc",
    [LEATI_TRACE_FREE] = "free",
    [LEATI_TRACE_PIN] = "pin",
    [LEATI_TRACE_UNPIN] = "unpin",
    [LEATI_TRACE_PAGE_MOVE] = "page move",
    [LEATI_TRACE_FILE_READ] = "file read",
    [LEATI_TRACE_FILE_WRITE] = "file write",
    [LEATI_TRACE_RANGE] = "range",
    [LEATI_TRACE_MARK] = "mark",
    [LEATI_TRACE_MODULE_LOAD] = "module load",
};

const char *const top_memory_names[LEATI_LIVE_MEMORIES] = {
    [LEATI_TRACE_MEMORY_NONE] = "unknown",        [LEATI_TRACE_MEMORY_PAGEABLE] = "pageable",
    [LEATI_TRACE_MEMORY_PINNED] = "pinned",       [LEATI_TRACE_MEMORY_DEVICE] = "device",
    [LEATI_TRACE_MEMORY_MANAGED] = "managed",     [LEATI_TRACE_MEMORY_FILE] = "file",
    [LEATI_TRACE_MEMORY_MIXED] = "several kinds",
};

/* ---- differences ---- */

static uint64_t minus(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

struct leati_live_work top_difference(const struct leati_live_work *before, const struct leati_live_work *now)
{
    return (struct leati_live_work){.ops = minus(now->ops, before->ops),
                                    .bytes = minus(now->bytes, before->bytes),
                                    .host_ns = minus(now->host_ns, before->host_ns),
                                    .device_ns = minus(now->device_ns, before->device_ns)};
}

struct leati_live_work top_lane_difference(const struct top_view *view, const struct leati_live_lane *lane)
{
    static const struct leati_live_work none;
    int i;

    for (i = 0; i < LEATI_LIVE_LANES; i++)
        if (view->before.lanes[i].id == lane->id)
            return top_difference(&view->before.lanes[i].work, &lane->work);
    return top_difference(&none, &lane->work);
}

double top_rate(const struct top_view *view, uint64_t count)
{
    return (double)count * 1e9 / (double)view->passed_ns;
}

double top_share(const struct top_view *view, uint64_t busy_ns)
{
    /* Work that took longer than the interval counts when it is complete. */
    return busy_ns >= view->passed_ns ? 1 : (double)busy_ns / (double)view->passed_ns;
}

const char *top_device_name(const struct leati_live *live, uint32_t id)
{
    int i;

    for (i = 0; id && i < LEATI_LIVE_DEVICES; i++)
        if (live->devices[i].id == id)
            return live->devices[i].name;
    return "?";
}

/* ---- tables ---- */

static const char *by_second(char text[CELL_MAX], const struct top_view *view, uint64_t count)
{
    char figure[TEXT_MAX];

    snprintf(text, CELL_MAX, "%s", count ? text_figure(figure, top_rate(view, count)) : "0");
    return text;
}

static const char *gigabytes(char text[CELL_MAX], const struct top_view *view, uint64_t bytes)
{
    char figure[TEXT_MAX];

    text[0] = '\0';
    if (bytes)
        snprintf(text, CELL_MAX, "%s GB/s", text_figure(figure, top_rate(view, bytes) / 1e9));
    return text;
}

static bool add_work(struct table *table, const struct top_view *view, const char *name,
                     const struct leati_live_work *before, const struct leati_live_work *now)
{
    struct leati_live_work done = top_difference(before, now);
    char cells[5][CELL_MAX], figure[TEXT_MAX], total[TEXT_MAX];
    const char *row[] = {name,
                         by_second(cells[0], view, done.ops),
                         gigabytes(cells[1], view, done.bytes),
                         cells[2],
                         cells[3],
                         cells[4],
                         now->bytes ? text_bytes(total, now->bytes) : ""};

    if (!now->ops)
        return true;
    cells[2][0] = cells[3][0] = '\0';
    if (done.ops)
        snprintf(cells[2], CELL_MAX, "%s us", text_figure(figure, (double)done.host_ns / 1e3 / (double)done.ops));
    if (done.device_ns)
        snprintf(cells[3], CELL_MAX, "%.0f %%", 100 * (double)done.device_ns / (double)view->passed_ns);
    snprintf(cells[4], CELL_MAX, "%" PRIu64, now->ops);
    return table_add(table, row);
}

static bool print_work(const struct top_view *view)
{
    static const struct table_column columns[] = {{"OPERATION", false, 0, true}, {"CALLS/S", true, 0, false},
                                                  {"RATE", true, 0, false},      {"A CALL", true, 0, false},
                                                  {"ON DEVICE", true, 0, false}, {"CALLS", true, 0, false},
                                                  {"BYTES", true, 0, false}};
    struct table *table = table_create(columns, sizeof columns / sizeof columns[0]);
    bool fine = table != NULL;
    int from, to, i;

    for (from = 0; from < LEATI_LIVE_MEMORIES; from++)
        for (to = 0; to < LEATI_LIVE_MEMORIES && fine; to++) {
            char name[CELL_MAX];

            snprintf(name, sizeof name, "copy %s to %s", top_memory_names[from], top_memory_names[to]);
            fine = add_work(table, view, name, &view->before.copies[from][to], &view->now.copies[from][to]);
        }
    for (i = 1; i <= LEATI_LIVE_KINDS && fine; i++) {
        int kind = i % LEATI_LIVE_KINDS; /* 0, "other", is the last one */

        if (kind != LEATI_TRACE_COPY && kind != LEATI_TRACE_LAYOUT && top_kind_names[kind])
            fine = add_work(table, view, top_kind_names[kind], &view->before.kinds[kind], &view->now.kinds[kind]);
    }
    fine = fine && table_print(table, NULL, TABLE_PLAIN);
    table_destroy(table);
    return fine;
}

static bool add_lane(struct table *table, const struct top_view *view, const struct leati_live_lane *lane)
{
    struct leati_live_work done = top_lane_difference(view, lane);
    char cells[4][CELL_MAX], bytes[TEXT_MAX], name[CELL_MAX];
    const char *row[] = {name,
                         cells[2],
                         by_second(cells[0], view, done.ops),
                         gigabytes(cells[1], view, done.bytes),
                         cells[3],
                         lane->in_flight_bytes ? text_bytes(bytes, lane->in_flight_bytes) : ""};

    if (lane->serial)
        snprintf(name, sizeof name, "%s stream %" PRIu64, top_device_name(&view->now, lane->device), lane->serial);
    else
        snprintf(name, sizeof name, "%s without a stream", top_device_name(&view->now, lane->device));
    snprintf(cells[2], CELL_MAX, "%.0f %%", 100 * top_share(view, done.device_ns));
    snprintf(cells[3], CELL_MAX, "%" PRIu64, lane->in_flight);
    return table_add(table, row);
}

/* The streams that were used last are the first. */
static int compare_lanes(const void *a, const void *b)
{
    const struct leati_live_lane *one = *(const struct leati_live_lane *const *)a;
    const struct leati_live_lane *other = *(const struct leati_live_lane *const *)b;

    if (one->latest_ns != other->latest_ns)
        return one->latest_ns > other->latest_ns ? -1 : 1;
    return one->id == other->id ? 0 : one->id < other->id ? -1 : 1;
}

static size_t sort_lanes(const struct leati_live *live, const struct leati_live_lane *lanes[LEATI_LIVE_LANES])
{
    size_t count = 0;
    int i;

    for (i = 0; i < LEATI_LIVE_LANES; i++)
        if (live->lanes[i].id && live->lanes[i].work.ops + live->lanes[i].in_flight)
            lanes[count++] = &live->lanes[i];
    qsort(lanes, count, sizeof lanes[0], compare_lanes);
    return count;
}

static bool print_lanes(const struct top_view *view)
{
    static const struct table_column columns[] = {{"STREAM", false, 0, true},    {"BUSY", true, 0, false},
                                                  {"CALLS/S", true, 0, false},   {"RATE", true, 0, false},
                                                  {"IN FLIGHT", true, 0, false}, {"BYTES", true, 0, false}};
    const struct leati_live_lane *lanes[LEATI_LIVE_LANES];
    size_t count = sort_lanes(&view->now, lanes), i;
    struct table *table;
    bool fine;

    if (!count)
        return true;
    table = table_create(columns, sizeof columns / sizeof columns[0]);
    fine = table != NULL;
    for (i = 0; i < count && i < LANES_SHOWN && fine; i++)
        fine = add_lane(table, view, lanes[i]);
    if (fine && count > LANES_SHOWN) {
        char name[CELL_MAX];
        const char *row[6] = {name};

        snprintf(name, sizeof name, "and %zu streams", count - LANES_SHOWN);
        fine = table_add(table, row);
    }
    fputc('\n', table_file());
    fine = fine && table_print(table, NULL, TABLE_PLAIN);
    table_destroy(table);
    return fine;
}

static bool print_pools(const struct top_view *view)
{
    static const struct table_column columns[] = {{"POOL", false, 0, true},
                                                  {"DEVICE", false, 0, false},
                                                  {"MEMORY", false, 0, false},
                                                  {"USED", true, 0, false},
                                                  {"RESERVED", true, 0, false}};
    struct table *table = table_create(columns, sizeof columns / sizeof columns[0]);
    bool fine = table != NULL;
    int shown = 0, i;

    for (i = 0; i < LEATI_LIVE_POOLS && fine; i++) {
        const struct leati_live_pool *pool = &view->now.pools[i];
        char used[TEXT_MAX], reserved[TEXT_MAX];
        const char *row[] = {pool->name, pool->device,
                             top_memory_names[pool->memory < LEATI_LIVE_MEMORIES ? pool->memory : 0],
                             text_bytes(used, pool->used_bytes), text_bytes(reserved, pool->reserved_bytes)};

        if (pool->id && pool->reserved_bytes && shown++ < POOLS_SHOWN)
            fine = table_add(table, row);
    }
    if (fine && shown > POOLS_SHOWN) {
        char name[CELL_MAX];
        const char *row[5] = {name};

        snprintf(name, sizeof name, "and %d pools", shown - POOLS_SHOWN);
        fine = table_add(table, row);
    }
    if (shown) {
        fputc('\n', table_file());
        fine = fine && table_print(table, NULL, TABLE_PLAIN);
    }
    table_destroy(table);
    return fine;
}

bool top_write_text(const struct top_view *view)
{
    const struct leati_live *now = &view->now;
    char in_flight[TEXT_MAX], written[TEXT_MAX];

    fprintf(table_file(), "Process %ld, %s, over %.2f s\n", view->pid, view->program,
            (double)view->passed_ns / 1e9);
    if (now->host_only)
        fputs("Only times of the host are recorded.\n", table_file());
    else
        fprintf(table_file(), "In flight: %" PRIu64 " operations, %s\n", now->in_flight,
                text_bytes(in_flight, now->in_flight_bytes));
    fprintf(table_file(), "Trace: %s, %s\n", now->path, text_bytes(written, now->file_bytes));
    if (now->lost_ops)
        fprintf(table_file(), "The recorder lost %" PRIu64 " operations, which count nowhere here.\n",
                now->lost_ops);
    fputc('\n', table_file());
    return print_work(view) && print_lanes(view) && print_pools(view);
}

/* ---- JSON ---- */

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* Returns the figures of work as an object. */
static json_t *work_json(const struct top_view *view, const struct leati_live_work *done,
                         const struct leati_live_work *total)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:o, s:o}", "calls_per_s", top_rate(view, done->ops), "bytes_per_s",
                     top_rate(view, done->bytes), "host_share", (double)done->host_ns / (double)view->passed_ns,
                     "device_share", (double)done->device_ns / (double)view->passed_ns, "calls",
                     number(total->ops), "bytes", number(total->bytes));
}

/* Adds an object to a list under one or two names. Takes over the object. */
static bool add_named(json_t *list, json_t *object, const char *key, const char *value, const char *key_2,
                      const char *value_2)
{
    bool fine = object && json_object_set_new(object, key, text_json(value)) == 0 &&
                (!key_2 || json_object_set_new(object, key_2, text_json(value_2)) == 0);

    return json_array_append_new(list, object) == 0 && fine;
}

static bool add_copies(const struct top_view *view, json_t *list)
{
    bool fine = true;
    int from, to;

    for (from = 0; from < LEATI_LIVE_MEMORIES; from++)
        for (to = 0; to < LEATI_LIVE_MEMORIES; to++) {
            const struct leati_live_work *now = &view->now.copies[from][to];
            struct leati_live_work done = top_difference(&view->before.copies[from][to], now);

            if (now->ops)
                fine = add_named(list, work_json(view, &done, now), "from", top_memory_names[from], "to",
                                 top_memory_names[to]) &&
                       fine;
        }
    return fine;
}

static bool add_kinds(const struct top_view *view, json_t *list)
{
    bool fine = true;
    int kind;

    for (kind = 0; kind < LEATI_LIVE_KINDS; kind++) {
        const struct leati_live_work *now = &view->now.kinds[kind];
        struct leati_live_work done = top_difference(&view->before.kinds[kind], now);

        if (now->ops && top_kind_names[kind])
            fine = add_named(list, work_json(view, &done, now), "kind", top_kind_names[kind], NULL, NULL) && fine;
    }
    return fine;
}

static bool add_lanes(const struct top_view *view, json_t *list)
{
    const struct leati_live_lane *lanes[LEATI_LIVE_LANES];
    size_t count = sort_lanes(&view->now, lanes), i;
    bool fine = true;

    for (i = 0; i < count; i++) {
        struct leati_live_work done = top_lane_difference(view, lanes[i]);
        json_t *object = work_json(view, &done, &lanes[i]->work);

        fine = object && json_object_set_new(object, "number", number(lanes[i]->serial)) == 0 &&
               json_object_set_new(object, "in_flight", number(lanes[i]->in_flight)) == 0 &&
               json_object_set_new(object, "in_flight_bytes", number(lanes[i]->in_flight_bytes)) == 0 && fine;
        fine =
            add_named(list, object, "device", top_device_name(&view->now, lanes[i]->device), NULL, NULL) && fine;
    }
    return fine;
}

static bool add_pools(const struct top_view *view, json_t *list)
{
    bool fine = true;
    int i;

    for (i = 0; i < LEATI_LIVE_POOLS; i++) {
        const struct leati_live_pool *pool = &view->now.pools[i];
        json_t *object;

        if (!pool->id)
            continue;
        object = json_pack("{s:s, s:o, s:o}", "memory",
                           top_memory_names[pool->memory < LEATI_LIVE_MEMORIES ? pool->memory : 0], "used_bytes",
                           number(pool->used_bytes), "reserved_bytes", number(pool->reserved_bytes));
        fine = add_named(list, object, "name", pool->name, "device", pool->device) && fine;
    }
    return fine;
}

bool top_write_json(const struct top_view *view, FILE *file, bool in_lines)
{
    const struct leati_live *now = &view->now;
    json_t *copies = json_array(), *kinds = json_array(), *streams = json_array(), *pools = json_array();
    json_t *whole =
        json_pack("{s:s, s:I, s:o, s:o, s:f, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "format",
                  "leat-top-1", "process", (json_int_t)view->pid, "program", text_json(view->program), "trace",
                  text_json(now->path), "seconds", (double)view->passed_ns / 1e9, "host_only", now->host_only != 0,
                  "in_flight", number(now->in_flight), "in_flight_bytes", number(now->in_flight_bytes),
                  "lost_operations", number(now->lost_ops), "lost_times", number(now->lost_times), "trace_bytes",
                  number(now->file_bytes), "copies", copies, "kinds", kinds, "streams", streams, "pools", pools);
    bool fine = whole && add_copies(view, copies) && add_kinds(view, kinds) && add_lanes(view, streams) &&
                add_pools(view, pools);

    /* A failed write leaves the error indicator of the file set, and is not a lack of memory. */
    fine = fine && (json_dumpf(whole, file, in_lines ? JSON_COMPACT : JSON_INDENT(2)) == 0 || ferror(file));
    json_decref(whole);
    if (fine)
        fputc('\n', file);
    return fine;
}
