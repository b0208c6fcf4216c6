/*
 * bench_pool_grow.c - part of the group "pool": measures three steps of a pool. It allocates its first large
 * block, stitches a block together from idle pages, and releases its memory. Each step is measured on an idle
 * device and while a stream is busy, which shows calls that wait for the device.
 */
#include "bench_pool.h"
#include "bench_verify.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

enum grow_step { STEP_GROW, STEP_STITCH, STEP_TRIM, STEP_COUNT };
enum hold_method { HOLD_NOTHING, HOLD_FUNCTION, HOLD_KERNELS, HOLD_COUNT };

enum {
    PIECES = 32,     /* number of blocks that fill the pool; every other block is then freed, so that the next
                      * block must be stitched */
    HOLD_STREAM = 3, /* the busy stream; the pool's blocks use stream 0 */
    LAUNCHES_MAX = 400,
    PIECE_MIN_BYTES = 8 << 20 /* smaller pieces could share pages with their neighbours */
};

/* The longest time for which a host function keeps a stream busy. A measured call that waits for this function is
 * slow, but returns. The kernels that keep the device busy run for about the same time. */
static const double HOLD_SECONDS = 0.25;

static const char *const step_names[STEP_COUNT][HOLD_COUNT] = {
    {"first block of a fresh pool", "first block, a host function runs", "first block, kernels run"},
    {"a block stitched from idle pages", "a block stitched, a host function runs",
     "a block stitched, kernels run"},
    {"trim", "trim, a host function runs", "trim, kernels run"}};

/* ---- holding a stream ---- */

struct hold {
    pthread_mutex_t lock; /* guards release */
    pthread_cond_t changed;
    bool release;
};

static void hold_function(void *argument)
{
    struct hold *hold = argument;
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(HOLD_SECONDS * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&hold->lock);
    while (!hold->release && pthread_cond_clockwait(&hold->changed, &hold->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    pthread_mutex_unlock(&hold->lock);
}

struct grow_case {
    struct pool_source source;
    enum grow_step step;
    enum hold_method method;
    size_t bytes;
    unsigned launches; /* number of kernel launches that together take HOLD_SECONDS */
    struct hold hold;
    struct pool_watch watch;
    unsigned operations; /* timed calls of leat's side */
    bool held;           /* the stream was still busy when each timed call returned */
    bool verify;         /* this run is for verification and not timed */
    bool verified;
};

static bool launch_kernel(struct grow_case *c)
{
    struct bench *bench = c->source.bench;
    void *data = bench_buffer(bench, BENCH_DEVICE_C);
    uint64_t count = bench->largest / sizeof(uint32_t);
    uint32_t value = 1;
    void *args[] = {&data, &count, &value};

    return data && bench_launch(bench, HOLD_STREAM, bench->add, count, args, 3);
}

/* Computes the number of launches that keep the device busy for HOLD_SECONDS. */
static bool count_launches(struct grow_case *c)
{
    leat_stream *stream = c->source.bench->streams[HOLD_STREAM];
    double begin, seconds;

    if (!launch_kernel(c) || !bench_check(c->source.bench, leat_stream_synchronize(stream)))
        return false;
    begin = bench_now();
    if (!launch_kernel(c) || !bench_check(c->source.bench, leat_stream_synchronize(stream)))
        return false;
    seconds = bench_now() - begin;
    c->launches = (unsigned)fmin(HOLD_SECONDS / seconds + 1, LAUNCHES_MAX);
    return true;
}

static bool begin_hold(struct grow_case *c)
{
    struct bench *bench = c->source.bench;
    unsigned i;

    c->hold.release = false;
    if (c->method == HOLD_FUNCTION)
        return bench_check(bench, leat_launch_host(bench->streams[HOLD_STREAM], hold_function, &c->hold));
    for (i = 0; c->method == HOLD_KERNELS && i < c->launches; i++)
        if (!launch_kernel(c))
            return false;
    return true;
}

/* Lets the stream end its work. Sets *held to true if the stream was still busy. */
static bool end_hold(struct grow_case *c, bool *held)
{
    struct bench *bench = c->source.bench;
    leat_stream *stream = bench->streams[HOLD_STREAM];

    *held = c->method == HOLD_NOTHING || leat_stream_query(stream) == LEAT_NOT_READY;
    pthread_mutex_lock(&c->hold.lock);
    c->hold.release = true;
    pthread_cond_broadcast(&c->hold.changed);
    pthread_mutex_unlock(&c->hold.lock);
    return bench_check(bench, leat_stream_synchronize(stream));
}

/* ---- the steps ---- */

/* The blocks that one run has allocated. */
struct grow_blocks {
    void *pieces[PIECES];
    void *block; /* the block whose allocation is timed, or whose memory is given back */
    uint64_t seed;
};

static size_t piece_bytes(const struct grow_case *c)
{
    return c->bytes / (PIECES / 2);
}

/* Prepares the pool for the step and waits until all work is complete. */
static bool prepare(struct grow_case *c, enum bench_side side, struct grow_blocks *blocks)
{
    struct bench *bench = c->source.bench;
    unsigned i;

    if (c->step == STEP_TRIM) {
        if (!pool_take_first(&c->source, side, c->bytes, &blocks->block) ||
            !pool_give_first(&c->source, side, blocks->block))
            return false;
        blocks->block = NULL;
    }
    for (i = 0; c->step == STEP_STITCH && i < PIECES; i++)
        if (!pool_take_first(&c->source, side, piece_bytes(c), &blocks->pieces[i]))
            return false;
    for (i = 0; c->step == STEP_STITCH && i < PIECES; i += 2) {
        if (!pool_give_first(&c->source, side, blocks->pieces[i]))
            return false;
        blocks->pieces[i] = NULL;
    }
    if (c->verify && c->step == STEP_STITCH) {
        blocks->seed = bench_new_seed(bench);
        if (!bench_fill_device(bench, blocks->pieces[1], piece_bytes(c), blocks->seed))
            return false;
    }
    return bench_check(bench, leat_device_synchronize(bench->device));
}

/* Makes the call that is timed. */
static bool do_step(struct grow_case *c, enum bench_side side, struct grow_blocks *blocks)
{
    struct bench *bench = c->source.bench;
    uint64_t released = 0, pending = 0;

    if (c->step != STEP_TRIM)
        return pool_take_first(&c->source, side, c->bytes, &blocks->block);
    if (side == BENCH_DRIVER)
        return bench_check_peer(bench, "trim", bench->peer->pool_trim(bench->peer));
    if (!bench_check(bench, leat_pool_trim(c->source.pool, 0, &released, &pending)))
        return false;
    c->verified = released >= c->bytes && pending == 0;
    return true;
}

/* Verifies that the new block can be used, and that a live block between the pages of a stitched block still has
 * its bytes. */
static bool look_at_blocks(struct grow_case *c, struct grow_blocks *blocks)
{
    struct bench *bench = c->source.bench;
    bool kept = true;

    if (c->step == STEP_TRIM)
        return true;
    if (!bench_device_usable(bench, blocks->block, c->bytes, &c->verified) ||
        (c->step == STEP_STITCH &&
         !bench_device_holds(bench, blocks->pieces[1], piece_bytes(c), blocks->seed, &kept)))
        return false;
    c->verified = c->verified && kept;
    return true;
}

static bool free_blocks(struct grow_case *c, enum bench_side side, struct grow_blocks *blocks)
{
    struct bench *bench = c->source.bench;
    bool fine = !blocks->block || pool_give_first(&c->source, side, blocks->block);
    unsigned i;

    for (i = 0; i < PIECES; i++)
        if (blocks->pieces[i])
            fine = pool_give_first(&c->source, side, blocks->pieces[i]) && fine;
    return bench_check(bench, leat_device_synchronize(bench->device)) && fine;
}

/* Runs the step once. The pool is empty before and after it. */
static bool run_step(struct grow_case *c, enum bench_side side, double *seconds)
{
    struct grow_blocks blocks = {.block = NULL};
    bool fine, watched, held = false;
    double begin;

    fine = prepare(c, side, &blocks) && begin_hold(c);
    watched = fine && side == BENCH_LEAT;
    fine = fine && (!watched || pool_watch_begin(&c->watch));
    begin = bench_now();
    fine = fine && do_step(c, side, &blocks);
    *seconds = bench_now() - begin;
    fine = fine && (!watched || pool_watch_end(&c->watch));
    fine = end_hold(c, &held) && fine;
    if (watched) {
        c->held = c->held && held;
        c->operations++;
    }
    fine = fine && (!c->verify || look_at_blocks(c, &blocks));
    return free_blocks(c, side, &blocks) && fine;
}

/* Takes a sample of a step. leat's side creates a new pool for each sample. For the step that stitches, the pool's
 * limit is the size of all pieces, so that the pool cannot grow and must stitch. */
static bool sample_step(void *state, enum bench_side side, double *seconds)
{
    struct grow_case *c = state;
    struct bench *bench = c->source.bench;
    bool fine;

    if (side == BENCH_DRIVER)
        return bench_check_peer(bench, "trim", bench->peer->pool_trim(bench->peer)) && run_step(c, side, seconds);
    if (!pool_make(bench, LEAT_KIND_DEVICE, c->step == STEP_STITCH ? PIECES * piece_bytes(c) : 0, &c->source.pool))
        return false;
    c->watch.pool = c->source.pool;
    fine = run_step(c, side, seconds);
    return bench_check(bench, leat_pool_destroy(c->source.pool)) && fine;
}

static bool measure_step(struct grow_case *c, struct bench_rows *rows)
{
    struct bench *bench = c->source.bench;
    bool with_driver = bench->peer && bench->peer->alloc_async && bench->peer->pool_trim;
    const char *name = step_names[c->step][c->method];
    struct bench_result result;
    struct bench_row *row;
    double seconds;

    c->watch = (struct pool_watch){.bench = bench};
    c->operations = 0;
    c->held = true;
    c->verify = false;
    if (!bench_measure(bench, sample_step, c, with_driver, &result))
        return false;
    row = pool_row(rows, POOL_GROWTH, name, c->bytes, &result, with_driver, false);
    bench_row_extra(row, "longest", bench_figure(row, result.leat.worst));
    if (with_driver)
        bench_row_extra(row, "driver_longest", bench_figure(row, result.driver.worst));
    pool_watch_row(&c->watch, row, c->operations);

    c->verify = true;
    c->verified = false;
    if (!sample_step(c, BENCH_LEAT, &seconds))
        return false;
    if (!c->held)
        bench_note(bench, "pool, %s: the busy stream had come to its end when the call returned", name);
    row->verified = c->verified && c->held;
    return true;
}

/* Measures a step on an idle device and while a stream is busy. */
static void measure_methods(struct grow_case *c, struct bench_rows *rows)
{
    struct bench *bench = c->source.bench;
    unsigned method;

    for (method = 0; method < HOLD_COUNT; method++) {
        c->method = (enum hold_method)method;
        bench_progress(bench, "pool", step_names[c->step][method], c->bytes);
        if (!measure_step(c, rows))
            bench_case_failed(bench, "pool", step_names[c->step][method], c->bytes);
    }
}

static void measure_steps(struct grow_case *c, struct bench_rows *rows)
{
    struct bench *bench = c->source.bench;

    /* Measure the first block before the driver's pool keeps freed memory, because afterwards the driver could
     * take the block from that memory. */
    c->step = STEP_GROW;
    measure_methods(c, rows);
    if (!pool_driver_keeps(bench)) {
        bench_case_failed(bench, "pool", "stitching and trimming", c->bytes);
        return;
    }
    c->step = STEP_STITCH;
    if (!bench->info.virtual_memory)
        bench_note(bench, "pool: the device has no virtual memory, so no block can be stitched");
    else if (piece_bytes(c) < PIECE_MIN_BYTES)
        bench_note(bench, "pool: stitching is left out: there is not enough free memory for it");
    else
        measure_methods(c, rows);
    c->step = STEP_TRIM;
    measure_methods(c, rows);
    if (!pool_driver_as_usual(bench))
        bench_case_failed(bench, "pool", "stitching and trimming", c->bytes);
}

void bench_pool_grow(struct bench *bench, struct bench_rows *rows)
{
    struct grow_case c = {.source = {.bench = bench}, .bytes = bench->largest};

    pthread_mutex_init(&c.hold.lock, NULL);
    pthread_cond_init(&c.hold.changed, NULL);
    if (count_launches(&c))
        measure_steps(&c, rows);
    else
        bench_case_failed(bench, "pool", "kernels that keep the device busy", 0);
    pthread_cond_destroy(&c.hold.changed);
    pthread_mutex_destroy(&c.hold.lock);
}
