/*
 * replay_report.c - what "leat replay" prints: tables for people, JSON for scripts.
 */
#include "host_facts.h"
#include "info_json.h"
#include "replay.h"
#include "table.h"
#include "text.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { CELL_MAX = 96 };

/* The last part of a path: where a file was says nothing about it. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The driver's entry of the list; false when it has none. */
static bool find_driver(const struct replay_target *target, leat_driver_info *driver)
{
    unsigned i;

    for (i = 0; leat_driver_list(i, driver) == LEAT_OK; i++)
        if (!strcmp(driver->name, target->info.driver))
            return true;
    return false;
}

static double ratio(const struct replay_result *result)
{
    return (double)result->all.peak_reserved_bytes / (double)result->peak_requested_bytes;
}

/* ---- tables ---- */

/* Rows of a table whose columns are the first round and, where there are more, the later ones. */
struct rows {
    struct table *table;
    const struct replay_result *result;
    bool fine;
};

static void add_row(struct rows *rows, const char *name, const char *first, const char *later)
{
    const char *cells[] = {name, first, later};

    rows->fine = rows->fine && table_add(rows->table, cells);
}

static void add_count(struct rows *rows, const char *name, uint64_t first, uint64_t later)
{
    char a[TEXT_MAX], b[TEXT_MAX];

    snprintf(a, sizeof a, "%llu", (unsigned long long)first);
    snprintf(b, sizeof b, "%llu", (unsigned long long)later);
    add_row(rows, name, a, b);
}

static const char *exact_bytes(char text[CELL_MAX], uint64_t bytes)
{
    char size[TEXT_MAX];

    snprintf(text, CELL_MAX, "%s (%llu)", text_bytes(size, bytes), (unsigned long long)bytes);
    return text;
}

static void add_reserved(struct rows *rows)
{
    const struct replay_result *result = rows->result;
    char a[CELL_MAX], b[CELL_MAX];

    if (!result->first.peak_known) {
        add_row(rows, "reserved at most", "unknown", "unknown");
        return;
    }
    exact_bytes(a, result->first.peak_reserved_bytes);
    exact_bytes(b, result->later.peak_reserved_bytes);
    add_row(rows, "reserved at most", a, b);
    snprintf(a, sizeof a, "%.4f",
             (double)result->first.peak_reserved_bytes / (double)result->peak_requested_bytes);
    snprintf(b, sizeof b, "%.4f", ratio(result));
    add_row(rows, "reserved / requested", a, b);
}

static void add_percentiles(struct rows *rows, const char *name, const struct replay_percentiles *first,
                            const struct replay_percentiles *later)
{
    char a[CELL_MAX], b[CELL_MAX];

    snprintf(a, sizeof a, "%llu / %llu / %llu", (unsigned long long)first->p50, (unsigned long long)first->p99,
             (unsigned long long)first->p999);
    snprintf(b, sizeof b, "%llu / %llu / %llu", (unsigned long long)later->p50, (unsigned long long)later->p99,
             (unsigned long long)later->p999);
    add_row(rows, name, a, b);
}

static void add_time(struct rows *rows, const char *name, uint64_t first_ns, uint64_t later_ns)
{
    char a[TEXT_MAX], b[TEXT_MAX];

    text_figure(a, (double)first_ns / 1e6);
    text_figure(b, (double)later_ns / 1e6);
    add_row(rows, name, a, b);
}

static void add_rows(struct rows *rows, const struct replay_target *target)
{
    const struct replay_figures *first = &rows->result->first, *later = &rows->result->later;
    char requested[CELL_MAX];

    exact_bytes(requested, rows->result->peak_requested_bytes);
    add_row(rows, "requested at most", requested, requested);
    add_reserved(rows);
    add_percentiles(rows, "allocate, ns (p50 / p99 / p99.9)", &first->alloc, &later->alloc);
    add_percentiles(rows, "free, ns", &first->free, &later->free);
    add_percentiles(rows, "pair, ns", &first->pair, &later->pair);
    add_time(rows, "all calls, ms", first->total_ns, later->total_ns);
    add_time(rows, target->pool ? "in the driver, ms" : "above 10 us a call, ms", first->stalled_ns,
             later->stalled_ns);
    add_count(rows, "driver calls", first->driver_calls, later->driver_calls);
    add_count(rows, "events recorded", first->events, later->events);
    add_count(rows, "stream waits", first->stream_waits, later->stream_waits);
    if (!target->pool)
        return;
    add_count(rows, "queries", first->queries, later->queries);
    add_count(rows, "host waits", first->host_waits, later->host_waits);
    add_count(rows, "from the stream's cache", first->cache_hits, later->cache_hits);
}

static void print_head(const struct replay_target *target, const struct replay_options *options,
                       const struct trace *trace)
{
    leat_driver_info driver;

    printf("Device: %s, %s", target->info.name, target->info.model);
    if (find_driver(target, &driver) && driver.version[0])
        printf(", driver %s %s", driver.name, driver.version);
    printf("\nTrace: %s, %zu events, %zu allocations, %u stream%s\n", base_name(options->trace),
           trace->event_count, trace->block_count, trace->stream_count, trace->stream_count == 1 ? "" : "s");
    if (trace->failures)
        printf("       %llu allocations that failed when it was recorded are left out\n",
               (unsigned long long)trace->failures);
    printf("Allocator: %s (%s)\n", replay_allocator_names[options->allocator], target->calls);
}

static void print_tail(const struct replay_target *target, const struct replay_options *options,
                       const struct replay_result *result)
{
    char released[TEXT_MAX], pending[TEXT_MAX], left[TEXT_MAX];

    if (!result->all.peak_known)
        printf("What was reserved is unknown: %s.\n",
               target->no_peak ? target->no_peak : "the driver did not tell");
    if (options->trim)
        printf("Trimmed after the last round: %s went back, %s pending, %s left.\n",
               text_bytes(released, result->trimmed_bytes), text_bytes(pending, result->trim_pending_bytes),
               text_bytes(left, result->trim_left_bytes));
    if (options->snapshot)
        printf("The pool at the peak: %s (leat pool-map draws it).\n", options->snapshot);
}

bool replay_print_tables(const struct replay_target *target, const struct replay_options *options,
                         const struct trace *trace, const struct replay_result *result)
{
    static const struct table_column one[] = {{"FIGURE", false, 0}, {"VALUE", true, 0}};
    static const struct table_column two[] = {
        {"FIGURE", false, 0}, {"FIRST ROUND", true, 0}, {"LATER ROUNDS", true, 0}};
    struct rows rows = {.result = result, .fine = true};
    bool fine;

    rows.table = result->later.rounds ? table_create(two, 3) : table_create(one, 2);
    if (!rows.table)
        return false;
    add_rows(&rows, target);
    if (rows.fine) {
        print_head(target, options, trace);
        putchar('\n');
    }
    fine = rows.fine && table_print(rows.table, NULL, TABLE_PLAIN);
    if (fine)
        print_tail(target, options, result);
    table_destroy(rows.table);
    return fine;
}

/* ---- JSON ---- */

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *peak_json(const struct replay_figures *figures)
{
    return figures->peak_known ? number(figures->peak_reserved_bytes) : json_null();
}

/* Adds "<name>_ns_p50" and the others. */
static bool add_percentiles_json(json_t *object, const char *name, const struct replay_percentiles *times)
{
    const struct {
        const char *suffix;
        uint64_t value;
    } parts[] = {{"p50", times->p50}, {"p99", times->p99}, {"p999", times->p999}};
    char key[32];
    size_t i;

    for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(key, sizeof key, "%s_ns_%s", name, parts[i].suffix);
        if (json_object_set_new(object, key, number(parts[i].value)) != 0)
            return false;
    }
    return true;
}

/* The counts and times of some rounds; percentiles those of the rounds that times tells of. */
static bool add_figures(json_t *object, const struct replay_target *target, const struct replay_figures *figures,
                        const struct replay_figures *times)
{
    json_t *counts = json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "rounds", figures->rounds, "driver_calls",
                               number(figures->driver_calls), "events_recorded", number(figures->events),
                               "stream_waits", number(figures->stream_waits), "total_ns",
                               number(figures->total_ns), "stalled_ns", number(figures->stalled_ns));
    /* Only leat's pools count these. */
    json_t *pool = target->pool ? json_pack("{s:o, s:o, s:o}", "queries", number(figures->queries), "host_waits",
                                            number(figures->host_waits), "cache_hits", number(figures->cache_hits))
                                : json_pack("{s:n, s:n, s:n}", "queries", "host_waits", "cache_hits");
    bool fine = json_object_update(object, counts) == 0 && json_object_update(object, pool) == 0 &&
                add_percentiles_json(object, "alloc", &times->alloc) &&
                add_percentiles_json(object, "free", &times->free) &&
                add_percentiles_json(object, "pair", &times->pair);

    json_decref(counts);
    json_decref(pool);
    return fine;
}

/* null where there was no such round. */
static json_t *rounds_json(const struct replay_target *target, const struct replay_figures *figures)
{
    json_t *object;

    if (!figures->rounds)
        return json_null();
    object = json_pack("{s:o}", "peak_reserved_bytes", peak_json(figures));
    if (object && add_figures(object, target, figures, figures))
        return object;
    json_decref(object);
    return NULL;
}

static json_t *driver_json(const struct replay_target *target)
{
    leat_driver_info driver;

    return find_driver(target, &driver) ? json_pack("{s:s, s:s, s:s}", "name", driver.name, "version",
                                                    driver.version, "library", driver.library)
                                        : json_null();
}

static json_t *host_json(void)
{
    struct host_facts facts;

    host_facts_read(&facts);
    return host_facts_json(&facts);
}

static json_t *trim_json(const struct replay_options *options, const struct replay_result *result)
{
    return options->trim
               ? json_pack("{s:o, s:o, s:o}", "released_bytes", number(result->trimmed_bytes), "pending_bytes",
                           number(result->trim_pending_bytes), "left_bytes", number(result->trim_left_bytes))
               : json_null();
}

static json_t *statistics_json(const struct replay_target *target, const leat_pool_statistics *s)
{
    if (!target->pool)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "allocations", number(s->allocations), "frees",
                     number(s->frees), "failures", number(s->failures), "requested_peak_bytes",
                     number(s->requested_peak_bytes), "driver_ns", number(s->driver_ns), "pages_created",
                     number(s->pages_created), "pages_stitched", number(s->pages_stitched), "stitches", number(s->stitches), "stitch_reuses", number(s->stitch_reuses), "planned", number(s->planned), "pages_released",
                     number(s->pages_released));
}

static json_t *setting_json(const struct replay_target *target, const struct replay_options *options,
                            const struct trace *trace)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:s, s:s, s:s, s:s, s:o, s:o, s:b, s:o, s:o, s:i, s:o}", "version",
                     leat_version(), "host", host_json(), "device", info_device_json(&target->info), "driver",
                     driver_json(target), "trace", base_name(options->trace), "format",
                     trace_format_name(trace->format), "allocator", replay_allocator_names[options->allocator],
                     "calls", target->calls, "policy",
                     target->pool ? json_string(replay_policy_names[options->policy]) : json_null(), "limit_bytes",
                     options->limit_bytes ? number(options->limit_bytes) : json_null(), "hold", options->hold,
                     "events", number(trace->event_count), "allocations", number(trace->block_count), "streams",
                     trace->stream_count, "failures_recorded", number(trace->failures));
}

static json_t *report_json(const struct replay_target *target, const struct replay_options *options,
                           const struct trace *trace, const struct replay_result *result)
{
    const char *no_peak = target->no_peak ? target->no_peak : "the driver did not tell";
    bool known = result->all.peak_known;
    json_t *all = setting_json(target, options, trace);
    json_t *peaks =
        json_pack("{s:o, s:o, s:s?, s:o, s:o}", "peak_requested_bytes", number(result->peak_requested_bytes),
                  "peak_reserved_bytes", peak_json(&result->all), "peak_reserved_unknown", known ? NULL : no_peak,
                  "ratio", known ? json_real(ratio(result)) : json_null(), "clock_ns", number(result->clock_ns));
    json_t *rest = json_pack("{s:o, s:o, s:o, s:o}", "first", rounds_json(target, &result->first), "later",
                             rounds_json(target, &result->later), "trim", trim_json(options, result), "statistics",
                             statistics_json(target, &result->statistics));
    /* Steady state, where there are rounds that show it. */
    const struct replay_figures *times = result->later.rounds ? &result->later : &result->first;
    bool fine = json_object_update(all, peaks) == 0 && add_figures(all, target, &result->all, times) &&
                json_object_update(all, rest) == 0;

    json_decref(peaks);
    json_decref(rest);
    if (fine)
        return all;
    json_decref(all);
    return NULL;
}

bool replay_print_json(const struct replay_target *target, const struct replay_options *options,
                       const struct trace *trace, const struct replay_result *result)
{
    json_t *report = report_json(target, options, trace, result);
    bool fine = report && json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;

    if (fine)
        putchar('\n');
    json_decref(report);
    return fine;
}
