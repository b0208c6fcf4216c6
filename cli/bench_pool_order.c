/*
 * bench_pool_order.c - part of the group "pool": measures blocks that one stream frees and another stream reuses,
 * and a loop that allocates, launches and frees.
 */
#include "bench_pool.h"
#include "bench_verify.h"

#include <math.h>

enum {
    TURNS = 128, /* pairs in a sample; far below a driver's limit on queued work */
    LOOPS = 100
};

/* ---- from stream to stream ---- */

struct order_case {
    struct pool_source source;
    size_t bytes;
    leat_event *events[2];
    bool by_event;  /* the other stream waits for an event; otherwise the host waits */
    uint64_t pairs; /* timed pairs of leat's side */
};

/* Orders the next work of the other stream after all work of stream number from. */
static bool hand_over(struct order_case *c, unsigned from)
{
    struct bench *bench = c->source.bench;

    if (!c->by_event)
        return bench_check(bench, leat_stream_synchronize(bench->streams[from]));
    return bench_check(bench, leat_event_record(bench->streams[from], c->events[from])) &&
           bench_check(bench, leat_stream_wait(bench->streams[1 - from], c->events[from]));
}

/* Allocates on stream 0 and frees on stream 1, as if one stream produced data and the other consumed it. Only
 * these two calls are timed. */
static bool timed_pair(struct order_case *c, enum bench_side side, double *seconds)
{
    struct bench *bench = c->source.bench;
    double begin = bench_now(), allocated, free_begin;
    void *ptr;

    if (!pool_take(&c->source, side, bench->streams[0], bench->native_streams[0], c->bytes, &ptr))
        return false;
    allocated = bench_now();
    if (!hand_over(c, 0))
        return false;
    free_begin = bench_now();
    if (!pool_give(&c->source, side, bench->streams[1], bench->native_streams[1], ptr))
        return false;
    *seconds += bench_now() - free_begin + allocated - begin - 2 * bench_clock_cost();
    if (side == BENCH_LEAT)
        c->pairs++;
    return hand_over(c, 1);
}

static bool sample_order(void *state, enum bench_side side, double *seconds)
{
    struct order_case *c = state;
    double sum = 0;
    unsigned i;

    for (i = 0; i < TURNS; i++)
        if (!timed_pair(c, side, &sum))
            return false;
    *seconds = fmax(sum, 0) / (double)TURNS;
    return bench_check(c->source.bench, leat_device_synchronize(c->source.bench->device));
}

/* Sets *verified to true if the pool holds no more memory than before, that is, if one stream reused the memory
 * that the other stream freed. */
static bool has_not_grown(const struct pool_watch *watch, bool *verified)
{
    leat_pool_stats now = {.size = sizeof now};

    if (!bench_check(watch->bench, leat_pool_get_stats(watch->pool, &now)))
        return false;
    *verified = *verified && now.reserved_bytes == watch->begin.reserved_bytes;
    return true;
}

static bool measure_order_row(struct order_case *c, struct bench_rows *rows, const char *name)
{
    struct bench *bench = c->source.bench;
    struct pool_watch watch = {.bench = bench, .pool = c->source.pool};
    bool with_driver = bench->peer && bench->peer->alloc_async, verified = false;
    struct bench_result result;
    struct bench_row *row;
    double seconds;

    if (!sample_order(c, BENCH_LEAT, &seconds))
        return false;
    c->pairs = 0;
    if (!pool_watch_begin(&watch) || !bench_measure(bench, sample_order, c, with_driver, &result) ||
        !pool_watch_end(&watch) || !pool_verify(&c->source, c->bytes, &verified) ||
        !has_not_grown(&watch, &verified))
        return false;
    row = pool_row(rows, POOL_STREAMS, name, c->bytes, &result, with_driver, verified);
    pool_watch_row(&watch, row, (double)c->pairs);
    return true;
}

/* Measures pairs over two streams, in a separate pool, which contains no blocks of other streams. */
static void measure_order(struct bench *bench, struct bench_rows *rows, bool by_event)
{
    const char *name = by_event ? "allocated on one stream, freed on another, ordered by events"
                                : "allocated on one stream, freed on another, waited for";
    struct order_case c = {.source = {.bench = bench}, .bytes = MIB, .by_event = by_event};
    bool fine;

    bench_progress(bench, "pool", name, c.bytes);
    fine = bench_check(bench, leat_event_create(bench->device, &c.events[0])) &&
           bench_check(bench, leat_event_create(bench->device, &c.events[1])) &&
           pool_make(bench, LEAT_KIND_DEVICE, 0, &c.source.pool) && measure_order_row(&c, rows, name);
    fine = bench_check(bench, leat_pool_destroy(c.source.pool)) && fine;
    leat_event_destroy(c.events[0]);
    leat_event_destroy(c.events[1]);
    if (!fine)
        bench_case_failed(bench, "pool", name, c.bytes);
}

/* ---- allocate, launch, free ---- */

struct loop_case {
    struct bench *bench;
    size_t bytes;
    uint64_t addresses; /* 1 + the number of times that leat's address differed from the one before */
    uint64_t loops;     /* timed iterations of leat's side */
    void *last;
};

/* Runs one iteration: allocates a block, launches a kernel that adds 1 to every element, and frees the block. The
 * driver's side allocates by leat_alloc_driver(). */
static bool one_loop(struct loop_case *c, enum bench_side side, bool fill_first)
{
    struct bench *bench = c->bench;
    leat_stream *stream = bench->streams[0];
    uint64_t count = c->bytes / sizeof(uint32_t);
    uint32_t value = 1;
    void *ptr, *args[] = {&ptr, &count, &value};

    if (!bench_check(bench, side == BENCH_LEAT ? leat_alloc(stream, c->bytes, &ptr)
                                               : leat_alloc_driver(stream, c->bytes, &ptr)) ||
        (fill_first && !bench_check(bench, leat_fill(stream, ptr, 0, c->bytes))) ||
        !bench_launch(bench, 0, bench->add, count, args, 3) ||
        (fill_first && !bench_check(bench, leat_copy(stream, bench->wrong_host, ptr, sizeof(uint64_t)))) ||
        !bench_check(bench, leat_free(stream, ptr)))
        return false;
    if (side == BENCH_LEAT) {
        c->addresses += ptr != c->last;
        c->last = ptr;
        c->loops++;
    }
    return true;
}

/* Runs all iterations of a sample and waits until their work is complete. */
static bool sample_loops(void *state, enum bench_side side, double *seconds)
{
    struct loop_case *c = state;
    double begin = bench_now();
    unsigned i;

    for (i = 0; i < LOOPS; i++)
        if (!one_loop(c, side, false))
            return false;
    if (!bench_check(c->bench, leat_stream_synchronize(c->bench->streams[0])))
        return false;
    *seconds = bench_now() - begin;
    return true;
}

/* Verifies one more iteration: two elements that were 0 must be 1. */
static bool verify_loop(struct loop_case *c, bool *verified)
{
    struct bench *bench = c->bench;

    *bench->wrong_host = 0;
    if (!one_loop(c, BENCH_LEAT, true) || !bench_check(bench, leat_stream_synchronize(bench->streams[0])))
        return false;
    *verified = *bench->wrong_host == 0x100000001;
    return true;
}

static void measure_loop(struct bench *bench, struct bench_rows *rows, size_t bytes)
{
    static const char name[] = "100 times allocate, launch, free";
    struct loop_case c = {.bench = bench, .bytes = bytes};
    struct pool_watch watch = {.bench = bench};
    struct bench_result result;
    struct bench_row *row;
    bool verified = false;
    double seconds;

    bench_progress(bench, "pool", name, bytes);
    if (!bench_check(bench, leat_pool_default(bench->device, LEAT_KIND_DEVICE, &watch.pool)) ||
        !sample_loops(&c, BENCH_LEAT, &seconds))
        goto failed;
    c.loops = c.addresses = 0;
    c.last = NULL;
    if (!pool_watch_begin(&watch) || !bench_measure(bench, sample_loops, &c, true, &result) ||
        !pool_watch_end(&watch) || !verify_loop(&c, &verified))
        goto failed;
    row = pool_row(rows, POOL_LOOP, name, bytes, &result, true, verified);
    pool_watch_row(&watch, row, (double)c.loops / (double)LOOPS);
    bench_row_extra(row, "addresses", (double)c.addresses);
    return;

failed:
    bench_case_failed(bench, "pool", name, bytes);
}

void bench_pool_order(struct bench *bench, struct bench_rows *rows)
{
    measure_order(bench, rows, true);
    measure_order(bench, rows, false);
}

void bench_pool_loop(struct bench *bench, struct bench_rows *rows)
{
    measure_loop(bench, rows, MIB);
    if (!bench->options->quick && 64 * MIB <= bench->largest)
        measure_loop(bench, rows, 64 * MIB);
}
