/*
 * bench_measure.h - takes samples of leat's and the driver's calls in turns, computes medians, and writes the rows
 * of the record.
 */
#ifndef CLI_BENCH_MEASURE_H
#define CLI_BENCH_MEASURE_H

#include "bench.h"

enum bench_side { BENCH_LEAT, BENCH_DRIVER };

/* A function that takes one sample: it performs the measured operation once or several times, and stores the
 * seconds of one operation. Returns false with bench->error set. */
typedef bool (*bench_sample)(void *state, enum bench_side side, double *seconds);

struct bench_figures {
    double median; /* seconds */
    double best;
    double p99; /* 99 % of the samples took at most this time */
    double worst;
    double mean;
};

struct bench_result {
    struct bench_figures leat, driver; /* driver is valid only if the driver was measured */
    unsigned repeats;
};

/* Returns the time of a monotonic clock in seconds. */
double bench_now(void);

/* Returns the processor time of the whole process in seconds. */
double bench_cpu_now(void);

/* Returns the time in seconds between two consecutive readings of the clock. Callers subtract it from the time of
 * a short call. The first call measures it. */
double bench_clock_cost(void);

/* Sorts the times and returns their statistics. count is at least 1. */
struct bench_figures bench_summarise(double *times, unsigned count);

/*
 * Warms up, then takes samples of both sides in turns until the time for a row is over. Drift of the machine then
 * affects both sides. with_driver: measure the driver's side too. The peer's context is current only during the
 * driver's samples.
 */
bool bench_measure(struct bench *bench, bench_sample sample, void *state, bool with_driver,
                   struct bench_result *result);

/* Does the same as bench_measure(), but for this number of seconds instead of the default time of a row. */
bool bench_measure_for(struct bench *bench, bench_sample sample, void *state, bool with_driver,
                       double budget_seconds, struct bench_result *result);

enum bench_unit { BENCH_GB_S, BENCH_US, BENCH_NS };

/* An additional figure of a row under its own key, such as "events", or a text. Key and text are string literals.
 */
struct bench_extra {
    const char *key;
    double value;
    const char *text; /* NULL: value counts */
};

enum { BENCH_EXTRAS_MAX = 16 };

/* One row of the record. Figures that were not measured are NAN. */
struct bench_row {
    const char *group;
    const char *part; /* the table of the group in which the row is; NULL: the group has only one table */
    const char *name; /* "case" in the record */
    uint64_t bytes;   /* size of the copy or allocation; 0 for none */
    enum bench_unit unit;
    double moved_bytes; /* the bytes that a rate counts */
    struct bench_result result;
    bool with_driver;
    bool verified;
    double bound;       /* the bound, in the unit of the row */
    const char *path;   /* name of the link or memory that the bytes cross; rows of one path share their bounds;
                         * NULL: the row keeps its own bound */
    size_t chunk_bytes; /* size of the chunks of a pipeline; 0: not a pipeline */
    double gain;
    struct bench_extra extras[BENCH_EXTRAS_MAX];
    unsigned extra_count;
};

/* Add an additional figure, or a text, to a row. */
void bench_row_extra(struct bench_row *row, const char *key, double value);
void bench_row_extra_text(struct bench_row *row, const char *key, const char *text);

/* Converts a time in seconds to the unit of the row: a rate, microseconds or nanoseconds. */
double bench_figure(const struct bench_row *row, double seconds);

/* Returns a number as JSON, rounded to six digits, which is more precise than any measurement here and keeps the
 * record readable; null for NAN and infinity. */
json_t *bench_figure_json(double value);

/* The rows of a group, collected until their bounds are known. */
struct bench_rows {
    struct bench_row rows[64];
    unsigned count;
};

/* Returns the next row, empty, or NULL if there is no room, which would be a programming error. */
struct bench_row *bench_row_add(struct bench_rows *rows, const char *group, const char *name, uint64_t bytes,
                                enum bench_unit unit);

/* Adds the rows to the record. */
void bench_rows_commit(struct bench *bench, const struct bench_rows *rows);

/*
 * Sets the bounds of the rows from number begin on, if they have a path. The bound of a row is the best median, of
 * leat or the driver, among copies over the same path of at least 64 MiB (of the largest size, if all are
 * smaller). If copies of the row's own size are faster, because caches hold their bytes, their best median is the
 * bound. So no row exceeds its bound.
 */
void bench_settle_bounds(struct bench *bench, size_t begin);

#endif
