/*
 * bench_pool_packing.c - part of the group "pool": compares the memory that a pool holds with the bytes of its
 * live blocks. It runs two kinds of sequences. The first has blocks of one size, for 200 sizes one after the
 * other, and also counts the blocks that fit within a limit. The second has a mix of sizes, and is measured when
 * it has filled the pool and after many frees and allocations. Figures are counts and bytes; nothing is timed, and
 * no block is touched.
 */
#include "bench_pool.h"
#include "cli.h"
#include "host_facts.h"
#include "packing_plan.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The allocators that run a sequence: leat's pool with each of three packings (leat_pool_packing), and the
 * driver. */
enum runner { RUNNER_AUTO, RUNNER_STILL, RUNNER_TIGHT, RUNNER_DRIVER, RUNNER_COUNT };

/* The prefix of each runner's keys in the record. */
static const char *const key_prefixes[RUNNER_COUNT] = {"", "still_", "tight_", "driver_"};

/* The time after which a sequence of the driver is abandoned. Sequences of leat have no limit. */
static const double patience_seconds = 20;

/* A sequence while it runs. */
struct run {
    struct bench *bench;
    enum runner runner;
    leat_pool *pool;
    bool own; /* the driver has a separate pool for this sequence */
    void **blocks;
    uint64_t live_blocks, requested_bytes, rounded_bytes; /* number and bytes of the blocks that are live now */
    uint64_t allocations;
    double begin;
};

/* The result of a sequence. */
struct outcome {
    bool known;
    uint64_t rounded_bytes, requested_bytes; /* most bytes live at once */
    uint64_t reserved_bytes;                 /* most memory that the pool held */
    double driver_calls;                     /* driver calls for each allocation; only for leat's pools */
    uint64_t stitches;
};

static bool is_leat(const struct run *run)
{
    return run->runner != RUNNER_DRIVER;
}

/* ---- allocating and freeing ---- */

static bool begin_run(struct run *run, uint64_t limit_bytes)
{
    struct bench *bench = run->bench;
    leat_pool_options options = {.size = sizeof options,
                                 .name = "leat bench",
                                 .limit_bytes = limit_bytes,
                                 .packing = run->runner == RUNNER_STILL   ? LEAT_POOL_PACKING_STILL
                                            : run->runner == RUNNER_TIGHT ? LEAT_POOL_PACKING_TIGHT
                                                                          : LEAT_POOL_PACKING_AUTO};

    run->begin = bench_now();
    if (is_leat(run))
        return bench_check(bench, leat_pool_create(bench->device, &options, &run->pool));
    if (!bench_check_peer(bench, "making the device current", bench->peer->enter(bench->peer)))
        return false;
    run->own = bench_check_peer(bench, "making a pool", bench->peer->pool_own(bench->peer, limit_bytes));
    if (!run->own)
        bench->peer->leave(bench->peer);
    return run->own;
}

static bool give(struct run *run, uint64_t block, uint64_t bytes)
{
    const struct pool_source source = {.bench = run->bench, .pool = run->pool};

    if (!pool_give_first(&source, is_leat(run) ? BENCH_LEAT : BENCH_DRIVER, run->blocks[block]))
        return false;
    run->blocks[block] = NULL;
    run->live_blocks--;
    run->requested_bytes -= bytes;
    run->rounded_bytes -= packing_round(bytes);
    return true;
}

/* Allocates a block. If the pool is full, sets *full and returns true. */
static bool take(struct run *run, uint64_t block, uint64_t bytes, bool *full)
{
    struct bench *bench = run->bench;
    leat_status status;
    void *ptr = NULL;
    int result;

    if (is_leat(run)) {
        status = leat_pool_alloc(bench->streams[0], run->pool, bytes, &ptr);
        *full = status == LEAT_ERROR_DEVICE_MEMORY;
        if (status != LEAT_OK)
            return *full || bench_check(bench, status);
    } else {
        result = bench->peer->alloc_async(bench->peer, bench->native_streams[0], bytes, &ptr);
        *full = result == bench->peer->full;
        if (result)
            return *full || bench_check_peer(bench, "allocation", result);
    }
    run->blocks[block] = ptr;
    run->live_blocks++;
    run->allocations++;
    run->requested_bytes += bytes;
    run->rounded_bytes += packing_round(bytes);
    return true;
}

/* Allocates a block. A full pool is a failure. */
static bool take_sure(struct run *run, uint64_t block, uint64_t bytes)
{
    bool full = false;

    if (!take(run, block, bytes, &full))
        return false;
    if (full && is_leat(run))
        return bench_check(run->bench, LEAT_ERROR_DEVICE_MEMORY);
    return !full || bench_check_peer(run->bench, "allocation", run->bench->peer->full);
}

/* Returns true if the driver has taken longer than patience_seconds. */
static bool takes_too_long(const struct run *run, uint64_t step)
{
    return !is_leat(run) && step % 1024 == 0 && bench_now() - run->begin > patience_seconds;
}

/* Frees the blocks that are left and destroys the pool. */
static bool end_run(struct run *run, uint64_t count)
{
    struct bench *bench = run->bench;
    bool fine = true;
    uint64_t i;

    for (i = 0; i < count && (run->pool || run->own); i++)
        if (run->blocks[i])
            fine = give(run, i, 0) && fine;
    fine = bench_check(bench, leat_device_synchronize(bench->device)) && fine;
    if (run->own) {
        fine = bench_check_peer(bench, "ending a pool", bench->peer->pool_disown(bench->peer)) && fine;
        fine = bench_check_peer(bench, "leaving the device", bench->peer->leave(bench->peer)) && fine;
    }
    fine = bench_check(bench, leat_pool_destroy(run->pool)) && fine;
    run->pool = NULL;
    run->own = false;
    return fine;
}

/* Reads the peak of the memory that the pool held, for comparison with the peak of the live bytes. Sets *verified
 * to true if the pool's counts match those of the sequence. */
static bool look(struct run *run, uint64_t most_requested, uint64_t most_rounded, struct outcome *outcome,
                 bool *verified)
{
    struct bench *bench = run->bench;
    leat_pool_stats now = {.size = sizeof now};

    *outcome = (struct outcome){.known = true, .requested_bytes = most_requested, .rounded_bytes = most_rounded};
    if (!is_leat(run))
        return bench_check_peer(bench, "its pool's high-water mark",
                                bench->peer->pool_peak(bench->peer, &outcome->reserved_bytes));
    if (!bench_check(bench, leat_pool_get_stats(run->pool, &now)))
        return false;
    outcome->reserved_bytes = now.reserved_peak_bytes;
    outcome->driver_calls = (double)now.driver_calls / (double)run->allocations;
    outcome->stitches = now.stitches;
    *verified = *verified && now.live_blocks == run->live_blocks && now.requested_bytes == run->requested_bytes &&
                now.allocations == run->allocations && now.used_bytes >= run->rounded_bytes &&
                now.reserved_bytes >= now.used_bytes;
    return true;
}

/* ---- rows ---- */

static double ratio(const struct outcome *outcome)
{
    return (double)outcome->reserved_bytes / (double)outcome->rounded_bytes;
}

static void set(struct bench *bench, json_t *row, enum runner runner, const char *key, json_t *value)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s", key_prefixes[runner], key);
    if (json_object_set_new(row, name, value) != 0)
        bench->failed = true;
}

static json_t *new_row(const char *part, const char *name, uint64_t bytes)
{
    return json_pack("{s:s, s:s, s:s, s:I}", "group", "pool", "part", part, "case", name, "bytes",
                     (json_int_t)bytes);
}

static void add_outcome(struct bench *bench, json_t *row, enum runner runner, const struct outcome *outcome)
{
    if (!outcome->known)
        return;
    set(bench, row, runner, "reserved_bytes", json_integer((json_int_t)outcome->reserved_bytes));
    set(bench, row, runner, "ratio", bench_figure_json(ratio(outcome)));
}

/* Adds the row to the record. */
static void commit(struct bench *bench, json_t *row, bool verified)
{
    bench->failed = bench->failed || !verified ||
                    json_object_set_new(row, "verified", json_boolean(verified)) != 0 ||
                    json_array_append_new(bench->rows, row) != 0;
}

/* ---- one size ---- */

static const char each_size_part[] = "packing: blocks of one size, each of 200 sizes";
static const char sizes_part[] = "packing: blocks of one size, 200 sizes one after the other, and within a limit";

/* The result of RUNNER_AUTO or RUNNER_DRIVER for one size. */
struct size_outcome {
    struct outcome filled;
    bool limit_known;
    uint64_t fitting; /* number of blocks that fit within the limit */
};

/* Fills an empty pool with as many blocks of this size as the plan says. */
static bool fill(struct run *run, const struct packing_size *size, struct size_outcome *outcome, bool *verified)
{
    uint64_t i;

    run->live_blocks = run->requested_bytes = run->rounded_bytes = run->allocations = 0;
    if (!begin_run(run, 0))
        return false;
    for (i = 0; i < size->blocks; i++)
        if (takes_too_long(run, i) || !take_sure(run, i, size->bytes))
            return false;
    return look(run, run->requested_bytes, run->rounded_bytes, &outcome->filled, verified);
}

/* Fills an empty pool up to its limit. */
static bool fill_to_limit(struct run *run, const struct packing_size *size, struct size_outcome *outcome)
{
    uint64_t most = size->limit_bytes / size->bytes + 1;
    bool full = false;

    run->live_blocks = run->requested_bytes = run->rounded_bytes = run->allocations = 0;
    if (!begin_run(run, size->limit_bytes))
        return false;
    while (!full && run->live_blocks < most)
        if (takes_too_long(run, run->live_blocks) || !take(run, run->live_blocks, size->bytes, &full))
            return false;
    outcome->fitting = run->live_blocks;
    outcome->limit_known = true;
    return true;
}

/* Runs the sequence of one size. Returns false if a call failed, or, with bench->error empty, if the driver took
 * too long. */
static bool run_size(struct run *run, const struct packing_size *size, struct size_outcome *outcome,
                     bool *verified)
{
    uint64_t most = size->limit_bytes / size->bytes + 1;
    bool fine;

    fine = fill(run, size, outcome, verified);
    fine = end_run(run, size->blocks) && fine;
    if (!fine)
        return false;
    fine = fill_to_limit(run, size, outcome);
    fine = end_run(run, most) && fine;
    /* A driver's pools may not support a limit. This is no failure: keep the figure of the pool without a
     * limit. */
    if (!fine && !is_leat(run) && !outcome->limit_known) {
        run->bench->error[0] = '\0';
        return true;
    }
    return fine;
}

/* The results of a range of sizes, which is one row of the table. */
struct band {
    const char *name;
    uint64_t end_bytes; /* the sizes of this row are below this */
    unsigned sizes;
    struct {
        unsigned count, limit_count;
        double ratio_sum, worst, fitting; /* worst: the largest ratio; fitting: the smallest result of
                                           * fitting_share() */
        uint64_t worst_bytes;
    } by_runner[RUNNER_COUNT];
    bool verified;
};

/* Returns the number of blocks that fitted within the limit, divided by the number that would fit without
 * waste. */
static double fitting_share(const struct packing_size *size, const struct size_outcome *outcome)
{
    return (double)outcome->fitting / (double)(size->limit_bytes / packing_round(size->bytes));
}

static void add_to_band(struct band *band, enum runner runner, const struct packing_size *size,
                        const struct size_outcome *outcome)
{
    double value = outcome->filled.known ? ratio(&outcome->filled) : 0;

    if (outcome->filled.known) {
        band->by_runner[runner].count++;
        band->by_runner[runner].ratio_sum += value;
        if (value > band->by_runner[runner].worst) {
            band->by_runner[runner].worst = value;
            band->by_runner[runner].worst_bytes = size->bytes;
        }
    }
    if (outcome->limit_known) {
        value = fitting_share(size, outcome);
        if (!band->by_runner[runner].limit_count++ || value < band->by_runner[runner].fitting)
            band->by_runner[runner].fitting = value;
    }
}

static void commit_size(struct bench *bench, const struct packing_size *size,
                        const struct size_outcome outcomes[RUNNER_COUNT], bool verified)
{
    json_t *row = new_row(each_size_part, "one size", size->bytes);
    enum runner runner;

    if (json_object_update_new(row,
                               json_pack("{s:b, s:I, s:I, s:I, s:o, s:I}", "detail", 1, "blocks",
                                         (json_int_t)size->blocks, "requested_bytes",
                                         (json_int_t)outcomes[RUNNER_AUTO].filled.requested_bytes, "rounded_bytes",
                                         (json_int_t)outcomes[RUNNER_AUTO].filled.rounded_bytes, "ratio_unrounded",
                                         bench_figure_json((double)outcomes[RUNNER_AUTO].filled.reserved_bytes /
                                                           (double)outcomes[RUNNER_AUTO].filled.requested_bytes),
                                         "limit_bytes", (json_int_t)size->limit_bytes)) != 0)
        bench->failed = true;
    for (runner = 0; runner < RUNNER_COUNT; runner++) {
        add_outcome(bench, row, runner, &outcomes[runner].filled);
        if (!outcomes[runner].limit_known)
            continue;
        set(bench, row, runner, "fitting_blocks", json_integer((json_int_t)outcomes[runner].fitting));
        set(bench, row, runner, "fitting_share", bench_figure_json(fitting_share(size, &outcomes[runner])));
    }
    commit(bench, row, verified);
}

static void commit_band(struct bench *bench, const struct band *band)
{
    json_t *row = new_row(sizes_part, band->name, 0);
    enum runner runner;

    set(bench, row, RUNNER_AUTO, "sizes", json_integer(band->sizes));
    for (runner = 0; runner < RUNNER_COUNT; runner++) {
        if (band->by_runner[runner].count) {
            set(bench, row, runner, "ratio",
                bench_figure_json(band->by_runner[runner].ratio_sum / band->by_runner[runner].count));
            set(bench, row, runner, "worst_ratio", bench_figure_json(band->by_runner[runner].worst));
            set(bench, row, runner, "worst_bytes", json_integer((json_int_t)band->by_runner[runner].worst_bytes));
        }
        if (band->by_runner[runner].limit_count)
            set(bench, row, runner, "fitting_share", bench_figure_json(band->by_runner[runner].fitting));
    }
    commit(bench, row, band->verified);
}

/* Returns true if the device has enough memory for this number of live bytes and for the waste of any
 * allocator. */
static bool fits(struct bench *bench, uint64_t bytes)
{
    uint64_t free_bytes;

    return leat_device_memory(bench->device, &free_bytes, NULL) == LEAT_OK && bytes + bytes / 4 < free_bytes;
}

static bool has_driver(const struct bench *bench)
{
    return bench->peer && bench->peer->pool_own;
}

/* Measures one size by leat and by the driver. Returns false, after printing an error message, if it did not
 * complete. */
static bool measure_size(struct run *run, const struct packing_size *size, struct band *band)
{
    struct size_outcome outcomes[RUNNER_COUNT] = {{.fitting = 0}};
    struct bench *bench = run->bench;
    bool verified = true;

    bench_progress(bench, "pool", "packing of one size", size->bytes);
    run->runner = RUNNER_AUTO;
    if (!run_size(run, size, &outcomes[RUNNER_AUTO], &verified)) {
        bench_case_failed(bench, "pool", "packing of one size", size->bytes);
        return false;
    }
    run->runner = RUNNER_DRIVER;
    if (has_driver(bench) && !run_size(run, size, &outcomes[RUNNER_DRIVER], &verified) && bench->error[0])
        bench_case_failed(bench, "pool", "packing of one size, the driver's pool", size->bytes);
    commit_size(bench, size, outcomes, verified);
    band->sizes++;
    band->verified = band->verified && verified;
    add_to_band(band, RUNNER_AUTO, size, &outcomes[RUNNER_AUTO]);
    add_to_band(band, RUNNER_DRIVER, size, &outcomes[RUNNER_DRIVER]);
    return true;
}

static void measure_sizes(struct run *run, const struct packing_plan *plan)
{
    struct band bands[] = {
        {.name = "512 B to 4 KiB", .end_bytes = 4 * KIB},     {.name = "4 to 32 KiB", .end_bytes = 32 * KIB},
        {.name = "32 to 256 KiB", .end_bytes = 256 * KIB},    {.name = "256 KiB to 2 MiB", .end_bytes = 2 * MIB},
        {.name = "2 to 16 MiB", .end_bytes = 16 * MIB},       {.name = "16 to 128 MiB", .end_bytes = 128 * MIB},
        {.name = "128 MiB to 1 GiB", .end_bytes = UINT64_MAX}};
    struct band *band = bands;
    unsigned i, left_out = 0;

    for (i = 0; i < sizeof bands / sizeof bands[0]; i++)
        bands[i].verified = true;
    for (i = 0; i < PACKING_SIZES; i++) {
        const struct packing_size *size = &plan->sizes[i];

        while (size->bytes >= band->end_bytes)
            band++;
        if (!fits(run->bench, size->blocks * packing_round(size->bytes)) || !fits(run->bench, size->limit_bytes))
            left_out++;
        else
            measure_size(run, size, band);
    }
    for (i = 0; i < sizeof bands / sizeof bands[0]; i++)
        if (bands[i].sizes)
            commit_band(run->bench, &bands[i]);
    if (left_out)
        bench_note(run->bench, "pool, packing: %u sizes are left out: there is not enough free memory for them",
                   left_out);
}

/* ---- mixes ---- */

static const char mixes_part[] = "packing: mixes of sizes, live bytes constant after filling";

enum { PHASE_FILLED, PHASE_CHURNED, PHASES };

/* Runs the steps from begin to before end. *requested and *rounded receive the most bytes that were live at
 * once. */
static bool run_steps(struct run *run, const struct packing_mix *mix, const uint64_t *sizes, size_t begin,
                      size_t end, uint64_t *requested, uint64_t *rounded)
{
    uint32_t block = (uint32_t)run->allocations;
    size_t i;

    for (i = begin; i < end; i++) {
        const struct packing_step *step = &mix->steps[i];

        if (takes_too_long(run, i))
            return false;
        if (!step->bytes) {
            if (!give(run, step->block, sizes[step->block]))
                return false;
            continue;
        }
        if (!take_sure(run, block++, step->bytes))
            return false;
        if (run->rounded_bytes > *rounded) {
            *rounded = run->rounded_bytes;
            *requested = run->requested_bytes;
        }
    }
    return true;
}

static bool run_mix(struct run *run, const struct packing_mix *mix, const uint64_t *sizes,
                    struct outcome outcomes[PHASES], bool *verified)
{
    uint64_t requested = 0, rounded = 0;
    bool fine;

    run->live_blocks = run->requested_bytes = run->rounded_bytes = run->allocations = 0;
    fine = begin_run(run, 0) && run_steps(run, mix, sizes, 0, mix->fill_steps, &requested, &rounded) &&
           look(run, requested, rounded, &outcomes[PHASE_FILLED], verified) &&
           run_steps(run, mix, sizes, mix->fill_steps, mix->step_count, &requested, &rounded) &&
           look(run, requested, rounded, &outcomes[PHASE_CHURNED], verified);
    return end_run(run, mix->block_count) && fine;
}

static void commit_mix(struct bench *bench, const struct packing_mix *mix,
                       struct outcome outcomes[RUNNER_COUNT][PHASES], bool verified)
{
    int phase;

    for (phase = PHASE_FILLED; phase < PHASES; phase++) {
        const struct outcome *usual = &outcomes[RUNNER_AUTO][phase];
        enum runner runner;
        char name[96];
        json_t *row;

        snprintf(name, sizeof name, "%s, %s", mix->name, phase == PHASE_FILLED ? "filled" : "churned");
        row = new_row(mixes_part, name, mix->live_bytes);
        set(bench, row, RUNNER_AUTO, "allocations",
            json_integer((json_int_t)(phase == PHASE_FILLED ? mix->fill_steps : mix->block_count)));
        set(bench, row, RUNNER_AUTO, "requested_bytes", json_integer((json_int_t)usual->requested_bytes));
        set(bench, row, RUNNER_AUTO, "rounded_bytes", json_integer((json_int_t)usual->rounded_bytes));
        for (runner = 0; runner < RUNNER_COUNT; runner++) {
            const struct outcome *outcome = &outcomes[runner][phase];

            add_outcome(bench, row, runner, outcome);
            if (!outcome->known || runner == RUNNER_DRIVER)
                continue;
            set(bench, row, runner, "driver_calls", bench_figure_json(outcome->driver_calls));
            set(bench, row, runner, "stitches", json_integer((json_int_t)outcome->stitches));
        }
        commit(bench, row, verified);
    }
}

static void measure_mix(struct run *run, const struct packing_mix *mix)
{
    struct outcome outcomes[RUNNER_COUNT][PHASES] = {{{.known = false}}};
    uint64_t *sizes = calloc(mix->block_count, sizeof *sizes);
    struct bench *bench = run->bench;
    bool verified = true;
    uint32_t block = 0;
    size_t i;

    bench_progress(bench, "pool", mix->name, mix->live_bytes);
    if (!sizes) {
        snprintf(bench->error, sizeof bench->error, "out of host memory");
        bench_case_failed(bench, "pool", mix->name, mix->live_bytes);
        return;
    }
    for (i = 0; i < mix->step_count; i++)
        if (mix->steps[i].bytes)
            sizes[block++] = mix->steps[i].bytes;
    for (run->runner = 0; run->runner < RUNNER_COUNT; run->runner++)
        if ((is_leat(run) || has_driver(bench)) && !run_mix(run, mix, sizes, outcomes[run->runner], &verified) &&
            bench->error[0])
            bench_case_failed(bench, "pool", mix->name, mix->live_bytes);
    commit_mix(bench, mix, outcomes, verified);
    free(sizes);
}

/* ---- the whole ---- */

/* Returns the largest number of blocks that a sequence of the plan has. */
static uint64_t most_blocks(const struct packing_plan *plan)
{
    uint64_t most = 0;
    unsigned i;

    for (i = 0; i < PACKING_SIZES; i++) {
        uint64_t fitting = plan->sizes[i].limit_bytes / plan->sizes[i].bytes + 1;

        most = plan->sizes[i].blocks > most ? plan->sizes[i].blocks : most;
        most = fitting > most ? fitting : most;
    }
    for (i = 0; i < PACKING_MIXES; i++)
        most = plan->mixes[i].block_count > most ? plan->mixes[i].block_count : most;
    return most;
}

void bench_pool_packing(struct bench *bench)
{
    struct packing_plan *plan = packing_plan_make(bench->options->live_bytes, bench->options->quick);
    struct run run = {.bench = bench};
    unsigned i;

    if (plan)
        run.blocks = calloc(most_blocks(plan), sizeof *run.blocks);
    if (!run.blocks) {
        snprintf(bench->error, sizeof bench->error, "out of host memory");
        bench_case_failed(bench, "pool", "packing", 0);
        packing_plan_destroy(plan);
        return;
    }
    measure_sizes(&run, plan);
    for (i = 0; i < PACKING_MIXES; i++)
        if (fits(bench, plan->mixes[i].live_bytes))
            measure_mix(&run, &plan->mixes[i]);
        else
            bench_note(bench, "pool, packing: %s is left out: there is not enough free memory for it",
                       plan->mixes[i].name);
    free(run.blocks);
    packing_plan_destroy(plan);
}

void bench_pool_packing_prepare(const struct bench_options *options)
{
    struct packing_plan *plan = packing_plan_make(options->live_bytes, options->quick);

    /* Make the device at least twice as large as the live bytes: that is enough for the waste of any allocator,
     * and for a driver's pool at the same time. */
    if (plan)
        host_enlarge_cpu_device(2 * packing_plan_most_bytes(plan));
    packing_plan_destroy(plan);
}

bool bench_pool_packing_list(const struct bench_options *options)
{
    struct packing_plan *plan = packing_plan_make(options->live_bytes, options->quick);
    json_t *json = plan ? packing_plan_json(plan) : NULL;
    bool fine = json && json_dumpf(json, stdout, JSON_COMPACT) == 0;

    if (fine)
        putchar('\n');
    else
        cli_complain("bench: out of host memory");
    json_decref(json);
    packing_plan_destroy(plan);
    return fine;
}
