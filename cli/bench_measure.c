/*
 * bench_measure.c - takes samples of leat's and the driver's calls in turns, computes medians, and writes the rows
 * of the record.
 */
#include "bench_measure.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { SAMPLES_MAX = 1000, SAMPLES_MIN = 3 };

/* A sample longer than this counts as slow: it hardly depends on the contents of caches, and takes long to
 * repeat. */
static const double SLOW_SECONDS = 0.05;

double bench_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double bench_cpu_now(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_clock_cost(void)
{
    enum { READINGS = 1001 };
    static double cost = -1;
    double apart[READINGS];
    unsigned i;

    if (cost >= 0)
        return cost;
    for (i = 0; i < READINGS; i++) {
        double first = bench_now();

        apart[i] = bench_now() - first;
    }
    qsort(apart, READINGS, sizeof apart[0], compare_times);
    return cost = apart[READINGS / 2];
}

struct bench_figures bench_summarise(double *times, unsigned count)
{
    struct bench_figures figures = {.mean = 0};
    unsigned i;

    for (i = 0; i < count; i++)
        figures.mean += times[i] / count;
    qsort(times, count, sizeof times[0], compare_times);
    figures.best = times[0];
    figures.worst = times[count - 1];
    figures.p99 = times[(count * 99 + 99) / 100 - 1];
    figures.median = count % 2 ? times[count / 2] : (times[count / 2 - 1] + times[count / 2]) / 2;
    return figures;
}

static bool take_sample(struct bench *bench, bench_sample sample, void *state, enum bench_side side,
                        double *seconds)
{
    bool fine;

    if (side == BENCH_LEAT || !bench->peer)
        return sample(state, side, seconds);
    if (!bench_check_peer(bench, "making the device current", bench->peer->enter(bench->peer)))
        return false;
    fine = sample(state, side, seconds);
    return bench_check_peer(bench, "leaving the device", bench->peer->leave(bench->peer)) && fine;
}

/* The samples of one side. */
struct series {
    double times[SAMPLES_MAX];
    unsigned count;
};

static unsigned samples_wanted(const struct bench *bench)
{
    return bench->options->repeat ? bench->options->repeat : SAMPLES_MAX;
}

/*
 * Takes samples of one side: one if samples are slow, otherwise two after a run that does not count. That run is
 * needed because the other side's samples have changed the contents of the caches.
 */
static bool take_turn(struct bench *bench, bench_sample sample, void *state, enum bench_side side, bool slow,
                      struct series *series)
{
    double ignored;
    unsigned i;

    if (!slow && !take_sample(bench, sample, state, side, &ignored))
        return false;
    for (i = 0; i < (slow ? 1 : 2) && series->count < samples_wanted(bench); i++)
        if (!take_sample(bench, sample, state, side, &series->times[series->count++]))
            return false;
    return true;
}

static bool enough(const struct bench *bench, unsigned count, double begin, double budget_seconds)
{
    if (count >= samples_wanted(bench))
        return true;
    return !bench->options->repeat && count >= SAMPLES_MIN && bench_now() - begin >= budget_seconds;
}

bool bench_measure_for(struct bench *bench, bench_sample sample, void *state, bool with_driver,
                       double budget_seconds, struct bench_result *result)
{
    static struct series series[2]; /* indexed by side; too large for the stack */
    unsigned turn = 0;
    double begin, first, second = 0;
    bool slow;

    series[BENCH_LEAT].count = series[BENCH_DRIVER].count = 0;
    if (!take_sample(bench, sample, state, BENCH_LEAT, &first) ||
        (with_driver && !take_sample(bench, sample, state, BENCH_DRIVER, &second)))
        return false;
    slow = first > SLOW_SECONDS || second > SLOW_SECONDS;
    begin = bench_now();
    while (!enough(bench, series[BENCH_LEAT].count, begin, budget_seconds)) {
        /* Alternate which side begins. */
        enum bench_side side = turn++ % 2 ? BENCH_DRIVER : BENCH_LEAT;
        enum bench_side other = side == BENCH_LEAT ? BENCH_DRIVER : BENCH_LEAT;

        if (((with_driver || side == BENCH_LEAT) && !take_turn(bench, sample, state, side, slow, &series[side])) ||
            ((with_driver || other == BENCH_LEAT) &&
             !take_turn(bench, sample, state, other, slow, &series[other])))
            return false;
    }
    result->repeats = series[BENCH_LEAT].count;
    result->leat = bench_summarise(series[BENCH_LEAT].times, result->repeats);
    if (with_driver)
        result->driver = bench_summarise(series[BENCH_DRIVER].times, result->repeats);
    return true;
}

bool bench_measure(struct bench *bench, bench_sample sample, void *state, bool with_driver,
                   struct bench_result *result)
{
    return bench_measure_for(bench, sample, state, with_driver, bench->options->quick ? 0.25 : 0.6, result);
}

double bench_figure(const struct bench_row *row, double seconds)
{
    switch (row->unit) {
    case BENCH_US:
        return seconds * 1e6;
    case BENCH_NS:
        return seconds * 1e9;
    default:
        return row->moved_bytes / seconds * 1e-9;
    }
}

static const char *unit_name(enum bench_unit unit)
{
    return unit == BENCH_US ? "us" : unit == BENCH_NS ? "ns" : "GB/s";
}

void bench_row_extra(struct bench_row *row, const char *key, double value)
{
    assert(row->extra_count < BENCH_EXTRAS_MAX);
    row->extras[row->extra_count++] = (struct bench_extra){.key = key, .value = value};
}

void bench_row_extra_text(struct bench_row *row, const char *key, const char *text)
{
    assert(row->extra_count < BENCH_EXTRAS_MAX);
    row->extras[row->extra_count++] = (struct bench_extra){.key = key, .text = text};
}

struct bench_row *bench_row_add(struct bench_rows *rows, const char *group, const char *name, uint64_t bytes,
                                enum bench_unit unit)
{
    struct bench_row *row;

    assert(rows->count < sizeof rows->rows / sizeof rows->rows[0]);
    row = &rows->rows[rows->count++];
    memset(row, 0, sizeof *row);
    row->group = group;
    row->name = name;
    row->bytes = bytes;
    row->unit = unit;
    row->moved_bytes = (double)bytes;
    row->bound = NAN;
    row->gain = NAN;
    return row;
}

json_t *bench_figure_json(double value)
{
    double scale;

    if (!isfinite(value))
        return json_null();
    if (value == 0)
        return json_real(0);
    scale = pow(10, 5 - floor(log10(fabs(value))));
    return json_real(round(value * scale) / scale);
}

static json_t *row_json(const struct bench_row *row)
{
    const struct bench_result *result = &row->result;
    double value = bench_figure(row, result->leat.median);
    double driver = row->with_driver ? bench_figure(row, result->driver.median) : NAN;
    unsigned i;
    json_t *json = json_pack("{s:s, s:s, s:I, s:o, s:s, s:o, s:o, s:b}", "group", row->group, "case", row->name,
                             "bytes", (json_int_t)row->bytes, "value", bench_figure_json(value), "unit",
                             unit_name(row->unit), "driver_value", bench_figure_json(driver), "bound",
                             bench_figure_json(row->bound), "verified", row->verified);

    if (!json)
        return NULL;
    if (row->part)
        json_object_set_new(json, "part", json_string(row->part));
    if (row->path)
        json_object_set_new(json, "path", json_string(row->path));
    json_object_set_new(json, "median", bench_figure_json(value));
    json_object_set_new(json, "p0", bench_figure_json(bench_figure(row, result->leat.best)));
    json_object_set_new(json, "driver_p0",
                        bench_figure_json(row->with_driver ? bench_figure(row, result->driver.best) : NAN));
    json_object_set_new(json, "repeats", json_integer(result->repeats));
    json_object_set_new(json, "ratio_to_driver", bench_figure_json(value / driver));
    json_object_set_new(json, "ratio_to_bound", bench_figure_json(value / row->bound));
    if (row->chunk_bytes)
        json_object_set_new(json, "chunk_bytes", json_integer((json_int_t)row->chunk_bytes));
    if (isfinite(row->gain))
        json_object_set_new(json, "gain", bench_figure_json(row->gain));
    for (i = 0; i < row->extra_count; i++)
        json_object_set_new(json, row->extras[i].key,
                            row->extras[i].text ? json_string(row->extras[i].text)
                                                : bench_figure_json(row->extras[i].value));
    return json;
}

void bench_rows_commit(struct bench *bench, const struct bench_rows *rows)
{
    unsigned i;

    for (i = 0; i < rows->count; i++) {
        if (!rows->rows[i].verified)
            bench->failed = true;
        if (json_array_append_new(bench->rows, row_json(&rows->rows[i])) != 0)
            bench->failed = true;
    }
}

/* Returns the best figure of a row: leat's, the driver's, or the bound that was measured with the row; NAN if the
 * row has no figure. */
static double best_of_row(const json_t *row)
{
    static const char *const keys[] = {"value", "driver_value", "bound"};
    double best = NAN;
    unsigned i;

    for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *value = json_object_get(row, keys[i]);

        if (json_is_number(value))
            best = fmax(best, json_number_value(value)); /* fmax() returns the number if the other argument is
                                                          * NAN */
    }
    return best;
}

static json_int_t row_bytes(const json_t *row)
{
    return json_integer_value(json_object_get(row, "bytes"));
}

void bench_settle_bounds(struct bench *bench, size_t begin)
{
    size_t count = json_array_size(bench->rows), i, j;
    double *bounds = calloc(count - begin + 1, sizeof *bounds);

    if (!bounds) {
        bench->failed = true;
        return;
    }
    /* Find all bounds before setting the first one, because a row's bound counts as a figure of the row. */
    for (i = begin; i < count; i++) {
        const json_t *row = json_array_get(bench->rows, i);
        const char *path = json_string_value(json_object_get(row, "path"));
        json_int_t large = 0;

        bounds[i - begin] = NAN;
        for (j = begin; j < count && path; j++) {
            const json_t *other = json_array_get(bench->rows, j);
            const char *other_path = json_string_value(json_object_get(other, "path"));

            if (other_path && !strcmp(path, other_path) && row_bytes(other) > large)
                large = row_bytes(other);
        }
        if (large > (json_int_t)(64 * MIB))
            large = (json_int_t)(64 * MIB);
        for (j = begin; j < count && path; j++) {
            const json_t *other = json_array_get(bench->rows, j);
            const char *other_path = json_string_value(json_object_get(other, "path"));

            if (other_path && !strcmp(path, other_path) &&
                (row_bytes(other) >= large || row_bytes(other) == row_bytes(row)))
                bounds[i - begin] = fmax(bounds[i - begin], best_of_row(other));
        }
    }
    for (i = begin; i < count; i++) {
        json_t *row = json_array_get(bench->rows, i);
        double value = json_number_value(json_object_get(row, "value"));

        if (!json_object_get(row, "path"))
            continue;
        json_object_set_new(row, "bound", bench_figure_json(bounds[i - begin]));
        json_object_set_new(row, "ratio_to_bound", bench_figure_json(value / bounds[i - begin]));
    }
    free(bounds);
}
