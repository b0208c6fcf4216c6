/*
 * activity_tables.c - prints what "leat trace" found in a recorded run as tables for the terminal.
 */
#include "activity.h"
#include "table.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>

enum { STREAMS_SHOWN = 12, POOLS_SHOWN = 12, CELL_MAX = 64 };

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* Writes a part of the span such as "1.25 ms 12 %". Returns text. */
static const char *part_text(char text[CELL_MAX], uint64_t ns, uint64_t span_ns)
{
    char duration[32];

    snprintf(text, CELL_MAX, "%s %3.0f %%", activity_duration(duration, ns), percent(ns, span_ns));
    return text;
}

/* Writes the rate at which a share copies; empty without copies. Returns text. */
static const char *rate_text(char text[CELL_MAX], const struct activity_share *share)
{
    char figure[TEXT_MAX];

    text[0] = '\0';
    if (share->copy_busy_ns && share->copy_bytes)
        snprintf(text, CELL_MAX, "%s GB/s",
                 text_figure(figure, (double)share->copy_bytes / (double)share->copy_busy_ns));
    return text;
}

static bool add_share(struct table *table, const char *name, const struct activity_share *share, uint64_t span_ns)
{
    char cells[6][CELL_MAX], bytes[TEXT_MAX], kernels[TEXT_MAX];
    const char *row[] = {name,
                         part_text(cells[0], share->parts.idle_ns, span_ns),
                         part_text(cells[1], share->parts.copy_ns, span_ns),
                         part_text(cells[2], share->parts.overlap_ns, span_ns),
                         part_text(cells[3], share->parts.compute_ns, span_ns),
                         text_bytes(bytes, share->copy_bytes),
                         rate_text(cells[4], share),
                         kernels};

    snprintf(kernels, sizeof kernels, "%" PRIu64, share->kernels);
    return table_add(table, row);
}

/* Returns true if a stream has work. */
static bool has_work(const struct activity_breakdown *breakdown, size_t stream)
{
    return breakdown->streams[stream].parts.idle_ns < breakdown->span_ns;
}

static bool add_shares(const struct activity_report *report, struct table *table)
{
    const struct activity_log *log = report->log;
    const struct activity_breakdown *breakdown = report->breakdown;
    char name[CELL_MAX];
    size_t shown = 0, left = 0, device, stream;
    bool fine = true;

    if (log->device_count != 1)
        fine = add_share(table, "all devices", &breakdown->all, breakdown->span_ns);
    for (device = 0; device < log->device_count; device++) {
        snprintf(name, sizeof name, "%.40s", activity_name(log, log->devices[device].name));
        fine = fine && add_share(table, name, &breakdown->devices[device], breakdown->span_ns);
        for (stream = 0; stream < log->stream_count; stream++) {
            if (log->streams[stream].device != device || !has_work(breakdown, stream))
                continue;
            if (shown++ >= STREAMS_SHOWN) {
                left++;
                continue;
            }
            snprintf(name, sizeof name, "  stream %" PRIu64, log->streams[stream].number);
            fine = fine && add_share(table, name, &breakdown->streams[stream], breakdown->span_ns);
        }
    }
    if (left) {
        const char *row[8] = {name};

        snprintf(name, sizeof name, "  and %zu streams", left);
        fine = fine && table_add(table, row);
    }
    return fine;
}

static bool print_shares(const struct activity_report *report)
{
    static const struct table_column columns[] = {{"WHERE", false, 0, true},        {"IDLE", true, 0, false},
                                                  {"COPY ONLY", true, 0, false},    {"BOTH", true, 0, false},
                                                  {"COMPUTE ONLY", true, 0, false}, {"COPIED", true, 0, false},
                                                  {"RATE", true, 0, false},         {"KERNELS", true, 0, false}};
    struct table *table = table_create(columns, sizeof columns / sizeof columns[0]);
    bool fine = table && add_shares(report, table) && table_print(table, NULL, TABLE_PLAIN);

    table_destroy(table);
    return fine;
}

static bool add_reasons(const struct activity_report *report, struct table *table)
{
    static const char *const meanings[ACTIVITY_IDLE_COUNT] = {
        [ACTIVITY_IDLE_HOST] = "the host had not yet called for the next work",
        [ACTIVITY_IDLE_LAUNCH] = "the next work was submitted and had not begun",
        [ACTIVITY_IDLE_COPY] = "a copy was being prepared, on the host or between devices",
        [ACTIVITY_IDLE_EVENT] = "the stream of the next work waited for another stream",
        [ACTIVITY_IDLE_SYNC] = "the host waited for a stream, an event or the device",
        [ACTIVITY_IDLE_ALLOC] = "the host allocated or freed memory",
        [ACTIVITY_IDLE_NONE] = "before the first work and after the last",
    };
    const struct activity_share *all = &report->breakdown->all;
    int reason;

    for (reason = 0; reason < ACTIVITY_IDLE_COUNT; reason++) {
        char duration[32], share[CELL_MAX];
        const char *row[] = {activity_reason_names[reason], activity_duration(duration, all->idle_by_ns[reason]),
                             share, meanings[reason]};

        if (!all->idle_by_ns[reason])
            continue;
        snprintf(share, sizeof share, "%.1f %%", percent(all->idle_by_ns[reason], report->breakdown->span_ns));
        if (!table_add(table, row))
            return false;
    }
    return true;
}

static bool print_reasons(const struct activity_report *report)
{
    static const struct table_column columns[] = {{"IDLE FOR", false, 0, true},
                                                  {"TIME", true, 0, false},
                                                  {"OF SPAN", true, 0, false},
                                                  {"MEANING", false, TABLE_WRAP_REST, false}};
    struct table *table = table_create(columns, sizeof columns / sizeof columns[0]);
    bool fine = table && add_reasons(report, table) && table_print(table, NULL, TABLE_PLAIN);

    table_destroy(table);
    return fine;
}

static bool add_pools(const struct activity_log *log, struct table *table, const size_t *order, size_t count)
{
    bool fine = true;
    size_t i;

    for (i = 0; i < count && i < POOLS_SHOWN && fine; i++) {
        const struct activity_pool *pool = &log->pools[order[i]];
        char name[ACTIVITY_POOL_NAME_MAX], cells[4][TEXT_MAX];
        const char *row[] = {
            activity_pool_name(log, order[i], name),     activity_memory_names[pool->memory],
            text_bytes(cells[0], pool->used_peak_bytes), text_bytes(cells[1], pool->reserved_peak_bytes),
            text_bytes(cells[2], pool->used_bytes),      text_bytes(cells[3], pool->reserved_bytes)};

        fine = table_add(table, row);
    }
    if (count > POOLS_SHOWN && fine) {
        char name[CELL_MAX];
        const char *row[6] = {name};

        snprintf(name, sizeof name, "and %zu pools", count - POOLS_SHOWN);
        fine = table_add(table, row);
    }
    return fine;
}

/* Prints the pools that have had memory, with a line behind the table. */
static bool print_pools(const struct activity_report *report)
{
    static const struct table_column columns[] = {
        {"POOL", false, 0, true},          {"MEMORY", false, 0, false},     {"MOST USED", true, 0, false},
        {"MOST RESERVED", true, 0, false}, {"USED AT END", true, 0, false}, {"RESERVED", true, 0, false}};
    size_t *order = calloc(report->log->pool_count + 1, sizeof *order), count;
    struct table *table = NULL;
    bool fine = order != NULL;

    count = order ? activity_pool_order(report->log, order) : 0;
    if (count) {
        table = table_create(columns, sizeof columns / sizeof columns[0]);
        fine = table && add_pools(report->log, table, order, count) && table_print(table, NULL, TABLE_PLAIN);
        fputc('\n', table_file());
    }
    table_destroy(table);
    free(order);
    return fine;
}

static bool print_advice(const struct activity_report *report)
{
    static const struct table_column columns[] = {{"SAVES", true, 0, true},
                                                  {"OF SPAN", true, 0, false},
                                                  {"RULE", false, 0, false},
                                                  {"WHAT TO CHANGE", false, TABLE_WRAP_REST, false}};
    struct table *table = table_create(columns, sizeof columns / sizeof columns[0]);
    bool fine = table != NULL;
    int i;

    for (i = 0; i < report->advice_count && fine; i++) {
        const struct activity_advice *advice = &report->advice[i];
        char saving[32], share[CELL_MAX], text[ACTIVITY_PLACE_MAX + 3 * ACTIVITY_TEXT_MAX + 16];
        const char *row[] = {activity_duration(saving, advice->saving_ns), share, advice->rule, text};

        snprintf(share, sizeof share, "%.1f %%", percent(advice->saving_ns, report->breakdown->span_ns));
        snprintf(text, sizeof text, "%s: %s %s %s", advice->place, advice->evidence, advice->change,
                 advice->basis);
        fine = table_add(table, row);
    }
    fine = fine && table_print(table, NULL, TABLE_PLAIN);
    table_destroy(table);
    return fine;
}

/* Prints what may make the figures wrong. */
static void print_notes(const struct activity_log *log)
{
    char detail[ACTIVITY_TEXT_MAX];

    snprintf(detail, sizeof detail, "%s", activity_name(log, log->calls_detail));
    text_clean(detail);
    if (log->calls_by == ACTIVITY_CALLS_BY_CUPTI)
        fprintf(table_file(), "CUDA's calls and work: by %s\n", detail);
    if (log->calls_by == ACTIVITY_CALLS_BY_EVENTS)
        fprintf(table_file(),
                "CUDA's calls and work: by events around the calls that leat sees, and not by CUPTI: %s\n",
                detail);
    if (log->truncated)
        fputs(
            "The recording was not ended: the program was killed, or still runs. What it had written is shown.\n",
            table_file());
    if (log->lost)
        fprintf(table_file(), "The recorder lost %" PRIu64 " activities, so some of the idle time was busy.\n",
                log->lost);
    if (log->backward)
        fprintf(table_file(), "%" PRIu64 " times ran backwards and count as moments.\n", log->backward);
}

bool activity_write_text(const struct activity_report *report)
{
    const struct activity_log *log = report->log;
    char span[32];

    fprintf(table_file(), "%s: %s, recorded by %s\nActivities: %zu; threads: %zu; streams: %zu; devices: %zu\n",
            report->path, activity_duration(span, log->span_ns), log->source, log->count, log->thread_count,
            log->stream_count, log->device_count);
    print_notes(log);
    fputc('\n', table_file());
    if (!log->device_count) {
        fputs("No work of a device was recorded.\n", table_file());
        return true;
    }
    if (!print_shares(report))
        return false;
    fputc('\n', table_file());
    if (report->breakdown->all.parts.idle_ns) {
        if (!print_reasons(report))
            return false;
        fputc('\n', table_file());
    }
    if (!print_pools(report))
        return false;
    if (report->advice_count)
        return print_advice(report);
    fputs("No rule found anything to change.\n", table_file());
    return true;
}

/* ---- two runs ---- */

static bool add_compared(struct table *table, const char *name, uint64_t a, uint64_t b)
{
    char one[32], other[32], change[CELL_MAX];
    const char *row[] = {name, activity_duration(one, a), activity_duration(other, b), change};

    if (a == b)
        snprintf(change, sizeof change, "0 %%");
    else if (a)
        snprintf(change, sizeof change, "%+.1f %%", 100.0 * ((double)b - (double)a) / (double)a);
    else
        snprintf(change, sizeof change, "new");
    return table_add(table, row);
}

bool activity_compare_text(const struct activity_report *a, const struct activity_report *b)
{
    const struct activity_share *one = &a->breakdown->all, *other = &b->breakdown->all;
    static const struct table_column columns[] = {
        {"", false, 0, true}, {"A", true, 0, false}, {"B", true, 0, false}, {"CHANGE", true, 0, false}};
    struct table *table = table_create(columns, sizeof columns / sizeof columns[0]);
    bool fine;
    int reason;

    if (!table)
        return false;
    fine = add_compared(table, "span", a->log->span_ns, b->log->span_ns) &&
           add_compared(table, "idle", one->parts.idle_ns, other->parts.idle_ns) &&
           add_compared(table, "copy only", one->parts.copy_ns, other->parts.copy_ns) &&
           add_compared(table, "both", one->parts.overlap_ns, other->parts.overlap_ns) &&
           add_compared(table, "compute only", one->parts.compute_ns, other->parts.compute_ns);
    for (reason = 0; reason < ACTIVITY_IDLE_COUNT && fine; reason++) {
        char name[CELL_MAX];

        if (!one->idle_by_ns[reason] && !other->idle_by_ns[reason])
            continue;
        snprintf(name, sizeof name, "idle: %s", activity_reason_names[reason]);
        fine = add_compared(table, name, one->idle_by_ns[reason], other->idle_by_ns[reason]);
    }
    if (fine) {
        fprintf(table_file(), "A: %s\n", a->path);
        print_notes(a->log);
        fprintf(table_file(), "B: %s\n", b->path);
        print_notes(b->log);
        fputc('\n', table_file());
        fine = table_print(table, NULL, TABLE_PLAIN);
    }
    table_destroy(table);
    return fine;
}
