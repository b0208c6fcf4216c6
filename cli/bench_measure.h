/*
 * bench_measure.h - timing: samples of leat's call and of the driver's in turns, medians, and rows of the record.
 */
#ifndef CLI_BENCH_MEASURE_H
#define CLI_BENCH_MEASURE_H

#include "bench.h"

enum bench_side { BENCH_LEAT, BENCH_DRIVER };

/* Does the thing once, or a batch of it, and stores the seconds of one. False: bench->error says what failed. */
typedef bool (*bench_sample)(void *state, enum bench_side side, double *seconds);

struct bench_figures {
    double median; /* seconds */
    double best;
    double p99; /* 99 % of the samples took at most so long */
    double worst;
    double mean;
};

struct bench_result {
    struct bench_figures leat, driver; /* driver only where it was measured */
    unsigned repeats;
};

/* Seconds on a clock that only goes forward. */
double bench_now(void);

/* Seconds that two readings of the clock right after each other are apart: what a time of one short call has too
 * much. Measured at the first call. */
double bench_clock_cost(void);

/* Sorts the times and returns their statistics. count is at least 1. */
struct bench_figures bench_summarise(double *times, unsigned count);

/*
 * Warms up, then takes samples of both sides in turns, so that drift hits both, until the time that a row may take
 * is over. with_driver: the driver's side is measured as well; the peer's context is current around its samples
 * only.
 */
bool bench_measure(struct bench *bench, bench_sample sample, void *state, bool with_driver,
                   struct bench_result *result);

/* The same, with so many seconds to go on instead of the usual ones. */
bool bench_measure_for(struct bench *bench, bench_sample sample, void *state, bool with_driver,
                       double budget_seconds, struct bench_result *result);

enum bench_unit { BENCH_GB_S, BENCH_US, BENCH_NS };

/* A figure of its own key beside the usual ones, such as "events". The key is a literal. */
struct bench_extra {
    const char *key;
    double value;
};

enum { BENCH_EXTRAS_MAX = 16 };

/* One line of the record. Figures that do not exist are NAN. */
struct bench_row {
    const char *group;
    const char *part; /* which table of the group it is in; NULL where the group has one table only */
    const char *name; /* "case" in the record */
    uint64_t bytes;   /* size of the copy or allocation; 0 for none */
    enum bench_unit unit;
    double moved_bytes; /* what a rate counts */
    struct bench_result result;
    bool with_driver;
    bool verified;
    double bound;       /* in the row's unit */
    const char *path;   /* what the bytes go over; rows of one path share bounds; NULL: bound is all there is */
    size_t chunk_bytes; /* 0: not a pipeline */
    double gain;
    struct bench_extra extras[BENCH_EXTRAS_MAX];
    unsigned extra_count;
};

/* Gives a row one more key. */
void bench_row_extra(struct bench_row *row, const char *key, double value);

/* The figure of a row for a time in seconds: a rate, microseconds or nanoseconds. */
double bench_figure(const struct bench_row *row, double seconds);

/* A number of the record: six digits, which are more than any of these figures deserves, and keep the record
 * readable; null for what is no number. */
json_t *bench_figure_json(double value);

/* A group's rows, kept until bounds are known, then given to the record. */
struct bench_rows {
    struct bench_row rows[64];
    unsigned count;
};

/* The next row, empty, or NULL when there is no room (a mistake of ours). */
struct bench_row *bench_row_add(struct bench_rows *rows, const char *group, const char *name, uint64_t bytes,
                                enum bench_unit unit);

/* Puts the rows into the record. */
void bench_rows_commit(struct bench *bench, const struct bench_rows *rows);

/*
 * Sets the bounds of the record's rows from begin on that have a path. A bound is the best median of either side
 * over the same path: that of copies of 64 MiB or more (of the largest size, if all are smaller), or that of copies
 * of the row's own size where those are faster, because caches hold their bytes. So no row exceeds its bound.
 */
void bench_settle_bounds(struct bench *bench, size_t begin);

#endif
