/*
 * replay_report.c - prints the results of "leat replay" as tables, or as JSON for scripts.
 */
#include "host_facts.h"
#include "info_json.h"
#include "replay.h"
#include "table.h"
#include "text.h"
#include "text_json.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { CELL_MAX = 96 };

/* Returns the last part of a path, since the folder of a file does not matter in a report. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Finds the driver of the device in the list of drivers. Returns false if it is not there. */
static bool find_driver(const struct replay_target *target, leat_driver_info *driver)
{
    unsigned i;

    for (i = 0; leat_driver_list(i, driver) == LEAT_OK; i++)
        if (!strcmp(driver->name, target->info.driver))
            return true;
    return false;
}

static double ratio(const struct replay_result *result, const struct replay_figures *figures)
{
    return (double)figures->peak_reserved_bytes / (double)result->peak_requested_bytes;
}

/* ---- tables ---- */

enum cell {
    CELL_REQUESTED,
    CELL_RESERVED,
    CELL_RATIO,
    CELL_MEANS, /* the means of allocation, free and pair */
    CELL_TIMES,
    CELL_MS,
    CELL_COUNT,
    CELL_BYTES,
    CELL_STITCHES,
    CELL_PACKING
};

/* A row of the table: a member of struct replay_figures, and the format of its cells. */
struct row {
    const char *name;
    enum cell cell;
    bool pool_only; /* this figure is known only for leat's pools */
    size_t offset;
};

#define AT(member) offsetof(struct replay_figures, member)

static const struct row rows[] = {
    {"requested at most", CELL_REQUESTED, false, 0},
    {"reserved at most", CELL_RESERVED, false, 0},
    {"reserved / requested", CELL_RATIO, false, 0},
    {"mean, ns (allocate / free / pair)", CELL_MEANS, false, 0},
    {"allocate, ns (p50 / p99 / p99.9 / worst)", CELL_TIMES, false, AT(alloc)},
    {"free, ns", CELL_TIMES, false, AT(free)},
    {"pair, ns", CELL_TIMES, false, AT(pair)},
    {"all calls, ms", CELL_MS, false, AT(total_ns)},
    {NULL, CELL_MS, false, AT(stalled_ns)}, /* the name of this row depends on the allocator */
    {"driver calls", CELL_COUNT, false, AT(driver_calls)},
    {"events recorded", CELL_COUNT, false, AT(events)},
    {"stream waits", CELL_COUNT, false, AT(stream_waits)},
    {"queries", CELL_COUNT, true, AT(queries)},
    {"host waits", CELL_COUNT, true, AT(host_waits)},
    {"from the stream's cache", CELL_COUNT, true, AT(cache_hits)},
    {"stitched blocks (new / mapped before)", CELL_STITCHES, true, 0},
    {"mapped for new ones", CELL_BYTES, true, AT(stitched_bytes)},
    {"placed by the plan", CELL_COUNT, true, AT(planned)},
    {"packing at the end", CELL_PACKING, true, 0},
};

static uint64_t number_at(const struct replay_figures *figures, size_t offset)
{
    uint64_t number;

    memcpy(&number, (const char *)figures + offset, sizeof number);
    return number;
}

/* Writes the mean of a sum over the rounds. */
static void write_count(char *text, size_t room, const struct replay_figures *figures, uint64_t sum)
{
    if (sum % figures->rounds == 0)
        snprintf(text, room, "%llu", (unsigned long long)(sum / figures->rounds));
    else
        snprintf(text, room, "%.2f", (double)sum / figures->rounds);
}

static void write_times(char text[CELL_MAX], const struct replay_figures *figures, size_t offset)
{
    struct replay_times times;

    memcpy(&times, (const char *)figures + offset, sizeof times);
    snprintf(text, CELL_MAX, "%llu / %llu / %llu / %llu", (unsigned long long)times.p50,
             (unsigned long long)times.p99, (unsigned long long)times.p999, (unsigned long long)times.worst);
}

static void write_cell(char text[CELL_MAX], const struct row *row, const struct replay_result *result,
                       const struct replay_figures *figures)
{
    char size[TEXT_MAX], made[CELL_MAX / 2 - 4], reused[CELL_MAX / 2 - 4];
    uint64_t bytes = row->cell == CELL_REQUESTED ? result->peak_requested_bytes : figures->peak_reserved_bytes;
    bool unknown = (row->cell == CELL_RESERVED || row->cell == CELL_RATIO) && !figures->peak_known;

    switch (unknown ? CELL_PACKING : row->cell) {
    case CELL_REQUESTED:
    case CELL_RESERVED:
        snprintf(text, CELL_MAX, "%s (%llu)", text_bytes(size, bytes), (unsigned long long)bytes);
        break;
    case CELL_RATIO:
        snprintf(text, CELL_MAX, "%.4f", ratio(result, figures));
        break;
    case CELL_MEANS:
        snprintf(text, CELL_MAX, "%.1f / %.1f / %.1f", figures->alloc.mean, figures->free.mean,
                 figures->pair.mean);
        break;
    case CELL_TIMES:
        write_times(text, figures, row->offset);
        break;
    case CELL_MS:
        text_figure(size, (double)number_at(figures, row->offset) / figures->rounds / 1e6);
        snprintf(text, CELL_MAX, "%s", size);
        break;
    case CELL_COUNT:
        write_count(text, CELL_MAX, figures, number_at(figures, row->offset));
        break;
    case CELL_BYTES:
        text_bytes(size, number_at(figures, row->offset) / figures->rounds);
        snprintf(text, CELL_MAX, "%s", size);
        break;
    case CELL_STITCHES:
        write_count(made, sizeof made, figures, figures->stitches - figures->stitch_reuses);
        write_count(reused, sizeof reused, figures, figures->stitch_reuses);
        snprintf(text, CELL_MAX, "%s / %s", made, reused);
        break;
    case CELL_PACKING:
        snprintf(text, CELL_MAX, "%s", unknown ? "unknown" : replay_packing_names[figures->packing]);
        break;
    }
}

enum { ROUND_COLUMNS_MAX = 3 };

/* Chooses the columns of the table: the first round, the second round, and all others together. Returns their
 * number. */
static unsigned choose_columns(const struct replay_result *result,
                               const struct replay_figures *columns[ROUND_COLUMNS_MAX],
                               char headings[ROUND_COLUMNS_MAX][CELL_MAX])
{
    unsigned count = 0;

    for (; count < 2 && count < result->rounds; count++) {
        columns[count] = &result->each[count];
        snprintf(headings[count], CELL_MAX, result->rounds == 1 ? "VALUE" : "ROUND %u", count + 1);
    }
    if (result->rounds > 2) {
        columns[count] = &result->later;
        if (result->rounds == 3)
            snprintf(headings[count], CELL_MAX, "ROUND 3");
        else
            snprintf(headings[count], CELL_MAX, "ROUNDS 3 TO %u, MEAN", result->rounds);
        count++;
    }
    return count;
}

static bool add_rows(struct table *table, const struct replay_target *target, const struct replay_result *result,
                     const struct replay_figures *const *columns, unsigned count)
{
    size_t i;
    unsigned c;

    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *stalled = target->pool ? "in the driver, ms" : "above 10 us a call, ms";
        const char *cells[1 + ROUND_COLUMNS_MAX] = {rows[i].name ? rows[i].name : stalled};
        char texts[ROUND_COLUMNS_MAX][CELL_MAX];

        if ((rows[i].pool_only && !target->pool) ||
            (rows[i].offset == AT(planned) && result->statistics.planned == 0))
            continue;
        for (c = 0; c < count; c++) {
            write_cell(texts[c], &rows[i], result, columns[c]);
            cells[1 + c] = texts[c];
        }
        if (!table_add(table, cells))
            return false;
    }
    return true;
}

static void print_head(const struct replay_target *target, const struct replay_options *options,
                       const struct trace *trace)
{
    leat_driver_info driver = LEAT_DRIVER_INFO_INIT;

    printf("Device: %s, %s", target->info.name, target->info.model);
    if (find_driver(target, &driver) && driver.version[0])
        printf(", driver %s %s", driver.name, driver.version);
    printf("\nTrace: %s, %zu events, %zu allocations, %u stream%s\n", base_name(options->trace),
           trace->event_count, trace->block_count, trace->stream_count, trace->stream_count == 1 ? "" : "s");
    if (trace->before)
        printf("       %llu of them were made before the recording began, and come first here\n",
               (unsigned long long)trace->before);
    if (trace->left_out)
        printf("       %llu allocations of other memory are left out\n", (unsigned long long)trace->left_out);
    if (trace->failures)
        printf("       %llu allocations that failed when it was recorded are left out\n",
               (unsigned long long)trace->failures);
    printf("Allocator: %s (%s)\n", replay_allocator_names[options->allocator], target->calls);
}

/* Prints the packing that the pool uses at the end, and whether the pool calls the driver in later rounds. */
static void print_regime(const struct replay_options *options, const struct replay_result *result)
{
    const struct replay_figures *last = &result->each[result->rounds - 1];

    printf("Packing: %s. At the end the pool was %s: ", replay_packing_names[options->packing],
           replay_packing_names[last->packing]);
    if (last->packing == LEAT_POOL_PACKING_TIGHT)
        printf("where no idle memory fits in one piece, it stitches a block together from idle pages.\n");
    else
        printf("where no idle memory fits in one piece, it gets new memory from the driver.\n");
    if (result->rounds == 1)
        return;
    if (last->driver_calls)
        printf("The last round made %llu driver calls.\n", (unsigned long long)last->driver_calls);
    else
        printf("The last round made no driver call.\n");
}

static void print_tail(const struct replay_target *target, const struct replay_options *options,
                       const struct replay_result *result)
{
    char released[TEXT_MAX], pending[TEXT_MAX], left[TEXT_MAX];

    if (target->pool)
        print_regime(options, result);
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
    const struct replay_figures *columns[ROUND_COLUMNS_MAX];
    struct table_column table_columns[1 + ROUND_COLUMNS_MAX] = {{"FIGURE", false, 0, false}};
    char headings[ROUND_COLUMNS_MAX][CELL_MAX];
    unsigned count = choose_columns(result, columns, headings), i;
    struct table *table;
    bool fine;

    for (i = 0; i < count; i++)
        table_columns[1 + i] = (struct table_column){headings[i], true, 0, false};
    table = table_create(table_columns, 1 + count);
    if (!table)
        return false;
    fine = add_rows(table, target, result, columns, count);
    if (fine) {
        print_head(target, options, trace);
        putchar('\n');
    }
    fine = fine && table_print(table, NULL, TABLE_PLAIN);
    if (fine) {
        putchar('\n');
        print_tail(target, options, result);
    }
    table_destroy(table);
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

/* Adds the keys "<name>_ns_mean" and so on. */
static bool add_times_json(json_t *object, const char *name, const struct replay_times *times)
{
    const struct {
        const char *suffix;
        uint64_t value;
    } parts[] = {{"p50", times->p50}, {"p99", times->p99}, {"p999", times->p999}, {"worst", times->worst}};
    char key[32];
    size_t i;

    snprintf(key, sizeof key, "%s_ns_mean", name);
    if (json_object_set_new(object, key, json_real(times->mean)) != 0)
        return false;
    for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(key, sizeof key, "%s_ns_%s", name, parts[i].suffix);
        if (json_object_set_new(object, key, number(parts[i].value)) != 0)
            return false;
    }
    return true;
}

static const struct {
    const char *key;
    bool pool_only; /* other allocators have null for this key */
    size_t offset;
} counts[] = {
    {"driver_calls", false, AT(driver_calls)},    {"events_recorded", false, AT(events)},
    {"stream_waits", false, AT(stream_waits)},    {"total_ns", false, AT(total_ns)},
    {"stalled_ns", false, AT(stalled_ns)},        {"queries", true, AT(queries)},
    {"host_waits", true, AT(host_waits)},         {"cache_hits", true, AT(cache_hits)},
    {"pages_created", true, AT(created_bytes)},   {"pages_stitched", true, AT(stitched_bytes)},
    {"pages_released", true, AT(released_bytes)}, {"stitches", true, AT(stitches)},
    {"stitch_reuses", true, AT(stitch_reuses)},   {"planned", true, AT(planned)},
};

/* Adds the counts from figures and the times from times. The two may describe different rounds. */
static bool add_figures(json_t *object, const struct replay_target *target, const struct replay_figures *figures,
                        const struct replay_figures *times)
{
    bool fine = json_object_set_new(object, "rounds", json_integer(figures->rounds)) == 0;
    json_t *packing = target->pool ? json_string(replay_packing_names[figures->packing]) : json_null();
    size_t i;

    for (i = 0; i < sizeof counts / sizeof counts[0] && fine; i++)
        fine = json_object_set_new(object, counts[i].key,
                                   counts[i].pool_only && !target->pool
                                       ? json_null()
                                       : number(number_at(figures, counts[i].offset))) == 0;
    fine = json_object_set_new(object, "packing_at_end", packing) == 0 && fine;
    return fine && add_times_json(object, "alloc", &times->alloc) &&
           add_times_json(object, "free", &times->free) && add_times_json(object, "pair", &times->pair);
}

/* Returns the figures of a round, or null if there was no such round. */
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

/* Returns an array with the figures of each round. */
static json_t *each_json(const struct replay_target *target, const struct replay_result *result)
{
    json_t *list = json_array();
    unsigned round;

    for (round = 0; list && round < result->rounds; round++)
        if (json_array_append_new(list, rounds_json(target, &result->each[round])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *driver_json(const struct replay_target *target)
{
    leat_driver_info driver = LEAT_DRIVER_INFO_INIT;

    return find_driver(target, &driver)
               ? json_pack("{s:s, s:o, s:o}", "name", driver.name, "version", text_json(driver.version), "library",
                           text_json(driver.library))
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

static json_t *statistics_json(const struct replay_target *target, const leat_pool_stats *s)
{
    if (!target->pool)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "allocations",
                     number(s->allocations), "frees", number(s->frees), "failures", number(s->failures),
                     "requested_peak_bytes", number(s->requested_peak_bytes), "driver_ns", number(s->driver_ns),
                     "pages_created", number(s->pages_created), "pages_stitched", number(s->pages_stitched),
                     "pages_released", number(s->pages_released), "stitches", number(s->stitches), "stitch_reuses",
                     number(s->stitch_reuses), "planned", number(s->planned));
}

static json_t *setting_json(const struct replay_target *target, const struct replay_options *options,
                            const struct trace *trace)
{
    json_t *all = json_pack("{s:s, s:o, s:o, s:o, s:o, s:s, s:o, s:i, s:o, s:o, s:o, s:s, s:o}", "version",
                            leat_version(), "host", host_json(), "device", info_device_json(&target->info),
                            "driver", driver_json(target), "trace", text_json(base_name(options->trace)), "format",
                            trace_format_name(trace->format), "allocations", number(trace->block_count), "streams",
                            trace->stream_count, "events", number(trace->event_count), "failures_recorded",
                            number(trace->failures), "allocated_before", number(trace->before), "kind",
                            leat_kind_name(options->kind), "left_out", number(trace->left_out));
    json_t *pool = json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:b}", "allocator", replay_allocator_names[options->allocator], "calls",
        target->calls, "policy", target->pool ? json_string(replay_policy_names[options->policy]) : json_null(),
        "packing", target->pool ? json_string(replay_packing_names[options->packing]) : json_null(), "limit_bytes",
        options->limit_bytes ? number(options->limit_bytes) : json_null(), "hold", options->hold);
    bool fine = json_object_update(all, pool) == 0;

    json_decref(pool);
    if (fine)
        return all;
    json_decref(all);
    return NULL;
}

static json_t *report_json(const struct replay_target *target, const struct replay_options *options,
                           const struct trace *trace, const struct replay_result *result)
{
    const char *no_peak = target->no_peak ? target->no_peak : "the driver did not tell";
    bool known = result->all.peak_known;
    json_t *all = setting_json(target, options, trace);
    json_t *peaks = json_pack("{s:o, s:o, s:o, s:o, s:o}", "peak_requested_bytes",
                              number(result->peak_requested_bytes), "peak_reserved_bytes", peak_json(&result->all),
                              "peak_reserved_unknown", text_json(known ? NULL : no_peak), "ratio",
                              known ? json_real(ratio(result, &result->all)) : json_null(), "clock_ns",
                              number(result->clock_ns));
    json_t *rest = json_pack("{s:o, s:o, s:o, s:o}", "each_round", each_json(target, result), "later",
                             rounds_json(target, &result->later), "trim", trim_json(options, result), "statistics",
                             statistics_json(target, &result->statistics));
    /* Report the times of the steady state: those of the later rounds, or, if there are none, of the last
     * round. */
    const struct replay_figures *times = result->later.rounds ? &result->later : &result->each[result->rounds - 1];
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
