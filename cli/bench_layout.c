/*
 * bench_layout.c - measures the group "layout": verifies each case of the suites, compares it with a plain copy of
 * as many bytes, and computes geometric means.
 */
#include "bench_layout.h"
#include "bench_verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ELEMENT_MAX = LEAT_LAYOUT_MAX_ELEMENT_BYTES };

const struct layout_peer layout_peers[LAYOUT_PEER_COUNT] = {
    {"PyTorch", "pytorch_gb_s", "pytorch_share_of_copy"},
    {"cuTENSOR", "cutensor_gb_s", "cutensor_share_of_copy"},
};

/* Sums for the geometric means of one suite and one element size: sums of the logarithms of each figure. */
struct mean {
    unsigned count, bound_count; /* bound_count: the cases that have a bound */
    double rate, copy, share, of_bound;
    double lowest;
    bool verified;
};

/* One run of the group. */
struct group {
    struct bench *bench;
    struct layout_lab lab;
    bool open;      /* the lab is open */
    double seconds; /* time for the samples of a case */
    struct mean means[SUITE_COUNT][ELEMENT_MAX + 1];
};

static void close_lab(struct group *group)
{
    if (group->open)
        layout_lab_close(&group->lab);
    group->open = false;
}

/* Opens a lab (layout_lab.h) for these kinds of memory, or keeps the previous case's lab if it has the same
 * kinds. */
static bool use_lab(struct group *group, leat_kind from, leat_kind to)
{
    if (group->open && group->lab.src.kind == from && group->lab.dst.kind == to)
        return true;
    close_lab(group);
    group->open = true;
    return layout_lab_open(&group->lab, group->bench, from, to);
}

static void add_to_mean(struct mean *mean, const struct layout_result *result)
{
    double rate = layout_rate(result), copy = layout_copy_rate(result), bound = layout_bound_rate(result);

    if (!mean->count++) {
        mean->lowest = INFINITY;
        mean->verified = true;
    }
    mean->rate += log(rate);
    mean->copy += log(copy);
    mean->share += log(rate / copy);
    if (isfinite(bound)) {
        mean->of_bound += log(rate / bound);
        mean->bound_count++;
    }
    mean->lowest = fmin(mean->lowest, rate / copy);
    mean->verified = mean->verified && result->verified;
}

/* Adds the row to the record, with additional keys that describe the case. */
static void commit(struct bench *bench, struct bench_rows *rows, const struct layout_case *made,
                   const struct layout_result *result)
{
    size_t before = json_array_size(bench->rows);

    bench_rows_commit(bench, rows);
    if (json_array_size(bench->rows) != before + 1 ||
        !layout_describe(json_array_get(bench->rows, before), made, result))
        bench->failed = true;
}

static void add_row(struct group *group, enum layout_suite suite, const struct layout_case *made,
                    const struct layout_result *result)
{
    static struct bench_rows rows; /* too large for the stack */
    struct bench_row *row;

    rows.count = 0;
    row = bench_row_add(&rows, "layout", made->name, made->payload_bytes,
                        suite == SUITE_CALL ? BENCH_US : BENCH_GB_S);
    row->part = layout_suite_texts[suite];
    row->result = result->times;
    row->verified = result->verified;
    row->moved_bytes = result->counted_bytes;
    if (suite == SUITE_CALL) {
        bench_row_extra(row, "empty_us", result->times.driver.median * 1e6);
        bench_row_extra(row, "times_empty", result->times.leat.median / result->times.driver.median);
    } else {
        row->bound = layout_bound_rate(result);
        bench_row_extra(row, "copy_gb_s", layout_copy_rate(result));
        bench_row_extra(row, "share_of_copy", layout_rate(result) / layout_copy_rate(result));
        add_to_mean(&group->means[suite][made->src.element_bytes], result);
    }
    commit(group->bench, &rows, made, result);
}

static bool measure_case(void *state, enum layout_suite suite, struct layout_case *made, leat_kind from,
                         leat_kind to)
{
    struct group *group = state;
    struct layout_effort effort = {.seconds = group->seconds, .calls = suite == SUITE_CALL};
    static struct layout_result result; /* too large for the stack */
    char name[LAYOUT_TEXT_MAX];

    if (from != to) {
        snprintf(name, sizeof name, "%.*s, %s to %s", LAYOUT_TEXT_MAX - 40, made->name, leat_kind_name(from),
                 leat_kind_name(to));
        memcpy(made->name, name, sizeof name);
    }
    bench_progress(group->bench, "layout", made->name, made->payload_bytes);
    if (use_lab(group, from, to) && layout_lab_run(&group->lab, made, &effort, &result))
        add_row(group, suite, made, &result);
    else
        bench_case_failed(group->bench, "layout", made->name, made->payload_bytes);
    return true;
}

static void add_mean_row(struct bench *bench, enum layout_suite suite, unsigned element_bytes,
                         const struct mean *mean)
{
    double rate = exp(mean->rate / mean->count), copy = exp(mean->copy / mean->count);
    double share = exp(mean->share / mean->count),
           of_bound = mean->bound_count ? exp(mean->of_bound / mean->bound_count) : NAN;
    char name[64];

    snprintf(name, sizeof name, "mean of %s, %u B", layout_suite_words[suite], element_bytes);
    if (json_array_append_new(
            bench->rows, json_pack("{s:s, s:s, s:s, s:I, s:f, s:s, s:b, s:f, s:f, s:f, s:o, s:i}", "group",
                                   "layout", "part", "geometric means of the suites", "case", name, "bytes",
                                   (json_int_t)0, "value", rate, "unit", "GB/s", "verified", mean->verified,
                                   "copy_gb_s", copy, "share_of_copy", share, "lowest_share", mean->lowest,
                                   "ratio_to_bound", bench_figure_json(of_bound), "cases", (int)mean->count)) != 0)
        bench->failed = true;
}

/* Returns the default size of a case: larger than all caches, and on a GPU so large that the time of a launch is
 * small beside it. */
static uint64_t usual_bytes(const struct bench *bench)
{
    uint64_t bytes = bench->options->quick ? 16 * MIB : !strcmp(bench->info.driver, "cpu") ? 192 * MIB : 512 * MIB;

    return bytes < bench->largest ? bytes : bench->largest;
}

/* Returns true if of each suite only the main cases are to be measured. */
static bool is_short(const struct bench_options *options)
{
    return options->quick || (options->groups == BENCH_DEFAULT_GROUPS && !options->layout_suites);
}

static void measure_suites(struct group *group, uint64_t bytes)
{
    const struct bench_options *options = group->bench->options;
    bool main_only = is_short(options);
    char error[LAYOUT_ERROR_MAX];
    unsigned suite;

    for (suite = 0; suite < SUITE_BATCH; suite++) {
        if (options->layout_suites && !(options->layout_suites & 1u << suite))
            continue;
        if (!layout_suite_cases((enum layout_suite)suite, bytes, main_only, measure_case, group, error)) {
            snprintf(group->bench->error, sizeof group->bench->error, "%s", error);
            bench_case_failed(group->bench, "layout", layout_suite_words[suite], bytes);
        }
    }
}

void bench_layout_group(struct bench *bench)
{
    static struct group group; /* too large for the stack */
    unsigned suite, element_bytes, i;

    if (bench->options->ladder) {
        bench_layout_ladder(bench);
        return;
    }
    memset(&group, 0, sizeof group);
    group.bench = bench;
    group.seconds = bench->options->quick ? 0.05 : 0.3;
    for (i = 0; i < bench->options->size_count; i++)
        measure_suites(&group, bench->options->sizes[i]);
    if (!bench->options->size_count)
        measure_suites(&group, usual_bytes(bench));
    close_lab(&group);
    if (bench->options->layout_suites ? bench->options->layout_suites & 1u << SUITE_BATCH
                                      : !is_short(bench->options))
        bench_layout_batch(bench);
    for (suite = 0; suite < SUITE_COUNT; suite++)
        for (element_bytes = 1; element_bytes <= ELEMENT_MAX; element_bytes++)
            if (group.means[suite][element_bytes].count)
                add_mean_row(bench, (enum layout_suite)suite, element_bytes, &group.means[suite][element_bytes]);
}
