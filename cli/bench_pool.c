/*
 * bench_pool.c - measures the group "pool": pairs of an allocation and a free on one thread, without and with many
 * live blocks, for device and pinned memory, and the time of leat_pool_get_stats().
 */
#include "bench_pool.h"
#include "bench_verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 256,          /* pairs in a sample: enough for the resolution of the clock */
    TAIL_PAIRS = 50000,   /* pairs whose calls are timed one by one; 0.1 % of the calls, which exceed the 99.9th
                           * percentile, are a hundred */
    TAIL_PAIRS_MIN = 5000 /* number of such pairs if calls are so slow that more would take too long */
};

/* The longest time for work that is not measured, such as the allocation of live blocks. */
static const double PATIENCE_SECONDS = 4;

const char *const pool_part_words[POOL_PART_COUNT] = {"pairs", "threads", "streams", "loop", "growth", "packing"};

/* Returns true if the options want a part. Without --part they want all parts except "packing". */
static bool wants(const struct bench *bench, enum pool_part part)
{
    return bench->options->pool_parts ? bench->options->pool_parts >> part & 1 : part != POOL_PACKING;
}

/* ---- functions that the files of the group share (bench_pool.h) ---- */

bool pool_driver_has(const struct pool_source *source)
{
    const struct bench_peer *peer = source->bench->peer;

    return peer && (peer->alloc || (peer->alloc_async && !source->plain));
}

bool pool_take(const struct pool_source *source, enum bench_side side, leat_stream *stream, void *native_stream,
               size_t bytes, void **ptr)
{
    struct bench *bench = source->bench;
    struct bench_peer *peer = bench->peer;

    if (side == BENCH_LEAT)
        return bench_check(bench, source->pool ? leat_pool_alloc(stream, source->pool, bytes, ptr)
                                               : leat_alloc(stream, bytes, ptr));
    return bench_check_peer(bench, "allocation",
                            peer->alloc_async && !source->plain
                                ? peer->alloc_async(peer, native_stream, bytes, ptr)
                                : peer->alloc(peer, bytes, ptr));
}

bool pool_give(const struct pool_source *source, enum bench_side side, leat_stream *stream, void *native_stream,
               void *ptr)
{
    struct bench *bench = source->bench;
    struct bench_peer *peer = bench->peer;

    if (side == BENCH_LEAT)
        return bench_check(bench, leat_free(stream, ptr));
    return bench_check_peer(bench, "free",
                            peer->alloc_async && !source->plain ? peer->free_async(peer, native_stream, ptr)
                                                                : peer->free(peer, ptr));
}

bool pool_take_first(const struct pool_source *source, enum bench_side side, size_t bytes, void **ptr)
{
    return pool_take(source, side, source->bench->streams[0], source->bench->native_streams[0], bytes, ptr);
}

bool pool_give_first(const struct pool_source *source, enum bench_side side, void *ptr)
{
    return pool_give(source, side, source->bench->streams[0], source->bench->native_streams[0], ptr);
}

static int empty_usual_pool(struct bench_peer *peer)
{
    int result = peer->pool_unwatch(peer);

    return result ? result : peer->pool_trim(peer);
}

static bool set_driver_pool(struct bench *bench, bool keep)
{
    struct bench_peer *peer = bench->peer;
    bool fine;

    if (!peer || !peer->pool_watch)
        return true;
    if (!bench_check_peer(bench, "making the device current", peer->enter(peer)))
        return false;
    fine = bench_check_peer(bench, "the driver's own pool",
                            keep ? peer->pool_watch(peer, true) : empty_usual_pool(peer));
    return bench_check_peer(bench, "leaving the device", peer->leave(peer)) && fine;
}

bool pool_driver_keeps(struct bench *bench)
{
    return set_driver_pool(bench, true);
}

bool pool_driver_as_usual(struct bench *bench)
{
    return set_driver_pool(bench, false);
}

bool pool_make(struct bench *bench, leat_kind kind, uint64_t limit_bytes, leat_pool **pool)
{
    leat_pool_options options = {
        .size = sizeof options, .name = "leat bench", .kind = kind, .limit_bytes = limit_bytes};

    return bench_check(bench, leat_pool_create(bench->device, &options, pool));
}

bool pool_watch_begin(struct pool_watch *watch)
{
    watch->begin = (leat_pool_stats)LEAT_POOL_STATS_INIT;
    return bench_check(watch->bench, leat_pool_get_stats(watch->pool, &watch->begin));
}

bool pool_watch_end(struct pool_watch *watch)
{
    leat_pool_stats end = {.size = sizeof end};

    if (!bench_check(watch->bench, leat_pool_get_stats(watch->pool, &end)))
        return false;
    watch->driver_calls += (double)(end.driver_calls - watch->begin.driver_calls);
    watch->events += (double)(end.events - watch->begin.events);
    watch->queries += (double)(end.queries - watch->begin.queries);
    watch->waits += (double)(end.stream_waits - watch->begin.stream_waits);
    return true;
}

void pool_watch_row(const struct pool_watch *watch, struct bench_row *row, double operations)
{
    bench_row_extra(row, "driver_calls", watch->driver_calls / operations);
    bench_row_extra(row, "events", watch->events / operations);
    bench_row_extra(row, "queries", watch->queries / operations);
    bench_row_extra(row, "waits", watch->waits / operations);
}

struct bench_row *pool_row(struct bench_rows *rows, enum pool_part part, const char *name, uint64_t bytes,
                           const struct bench_result *result, bool with_driver, bool verified)
{
    static const struct {
        const char *text;
        enum bench_unit unit;
    } parts[POOL_PACKING] = {{"pairs of allocating and freeing in steady state", BENCH_NS},
                             {"pairs by several threads", BENCH_NS},
                             {"blocks that pass from stream to stream", BENCH_NS},
                             {"a loop, with the pool and with the driver's own calls", BENCH_US},
                             {"memory that comes, is stitched together and goes", BENCH_US}};
    struct bench_row *row = bench_row_add(rows, "pool", name, bytes, parts[part].unit);

    row->part = parts[part].text;
    row->result = *result;
    row->with_driver = with_driver;
    row->verified = verified;
    return row;
}

bool pool_verify(const struct pool_source *source, size_t bytes, bool *verified)
{
    void *ptr;
    bool fine;

    if (!pool_take_first(source, BENCH_LEAT, bytes, &ptr))
        return false;
    fine = bench_device_usable(source->bench, ptr, bytes, verified);
    return pool_give_first(source, BENCH_LEAT, ptr) && fine;
}

/* ---- pairs ---- */

struct pair_case {
    struct pool_source source;
    const char *name;
    size_t bytes;
    unsigned batch;
    uint64_t pairs; /* pairs that leat's side has made since pool_watch_begin() */
};

static bool one_pair(const struct pair_case *c, enum bench_side side)
{
    void *ptr;

    return pool_take_first(&c->source, side, c->bytes, &ptr) && pool_give_first(&c->source, side, ptr);
}

static bool sample_pairs(void *state, enum bench_side side, double *seconds)
{
    struct pair_case *c = state;
    struct bench *bench = c->source.bench;
    double begin;
    unsigned i;

    /* Begin every sample on an idle stream: a driver may postpone work until a wait, and that work of an earlier
     * sample must not count. */
    if (!bench_check(bench, leat_stream_synchronize(bench->streams[0])))
        return false;
    begin = bench_now();
    for (i = 0; i < c->batch; i++)
        if (!one_pair(c, side))
            return false;
    *seconds = fmax(bench_now() - begin - bench_clock_cost(), 0) / c->batch;
    if (side == BENCH_LEAT)
        c->pairs += c->batch;
    return true;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Times in seconds, less the cost of reading the clock. */
struct pair_times {
    double first;            /* the first pair of its size */
    double mean;             /* mean time of a pair */
    double p99, p999, worst; /* of single calls: percentiles 99 and 99.9, and the longest */
};

static double at_quantile(const double *sorted, unsigned count, double share)
{
    return sorted[(size_t)ceil((count - 1) * share)];
}

/* Times calls one by one. */
static bool time_calls(struct pair_case *c, enum bench_side side, struct pair_times *found)
{
    struct bench *bench = c->source.bench;
    double *times = malloc(2 * TAIL_PAIRS * sizeof times[0]);
    double begin = bench_now(), cost = bench_clock_cost(), sum = 0;
    unsigned count = 0, i;
    bool fine = true;

    if (!times) {
        snprintf(bench->error, sizeof bench->error, "out of host memory");
        return false;
    }
    memset(times, 0, 2 * TAIL_PAIRS * sizeof times[0]); /* touch all pages of the array, so that no page fault
                                                         * occurs in a timed call */
    while (fine && count < 2 * TAIL_PAIRS &&
           (count < 2 * TAIL_PAIRS_MIN || bench_now() - begin < PATIENCE_SECONDS / 16)) {
        double first = bench_now(), second, third;
        void *ptr;

        fine = pool_take_first(&c->source, side, c->bytes, &ptr);
        second = bench_now();
        fine = fine && pool_give_first(&c->source, side, ptr);
        third = bench_now();
        times[count++] = fmax(second - first - cost, 0);
        times[count++] = fmax(third - second - cost, 0);
    }
    for (i = 0; i < count; i++)
        sum += times[i];
    qsort(times, count, sizeof times[0], compare_times);
    found->mean = sum / (count / 2);
    found->p99 = at_quantile(times, count, 0.99);
    found->p999 = at_quantile(times, count, 0.999);
    found->worst = times[count - 1];
    free(times);
    return fine;
}

static bool time_first(struct pair_case *c, enum bench_side side, struct pair_times *found)
{
    double begin = bench_now();

    if (!one_pair(c, side))
        return false;
    found->first = fmax(bench_now() - begin - bench_clock_cost(), 0);
    return true;
}

/* Times single calls of one side. The driver's calls need its context to be current. */
static bool time_side(struct pair_case *c, enum bench_side side, struct pair_times *found,
                      bool (*time_it)(struct pair_case *, enum bench_side, struct pair_times *))
{
    struct bench *bench = c->source.bench;
    struct bench_peer *peer = bench->peer;
    bool fine;

    if (side == BENCH_LEAT)
        return time_it(c, side, found);
    if (!bench_check_peer(bench, "making the device current", peer->enter(peer)))
        return false;
    fine = time_it(c, side, found);
    return bench_check_peer(bench, "leaving the device", peer->leave(peer)) && fine;
}

static void add_times(struct bench_row *row, enum bench_side side, const struct pair_times *times)
{
    bool leat = side == BENCH_LEAT;

    bench_row_extra(row, leat ? "first" : "driver_first", bench_figure(row, times->first));
    bench_row_extra(row, leat ? "mean" : "driver_mean", bench_figure(row, times->mean));
    bench_row_extra(row, leat ? "call_p99" : "driver_call_p99", bench_figure(row, times->p99));
    bench_row_extra(row, leat ? "p999" : "driver_p999", bench_figure(row, times->p999));
    bench_row_extra(row, leat ? "longest" : "driver_longest", bench_figure(row, times->worst));
}

/* Measures pairs of one size. with_calls: also times the first pair and single calls. */
static void measure_pairs(struct pair_case *c, struct bench_rows *rows, bool with_calls)
{
    struct bench *bench = c->source.bench;
    struct pool_watch watch = {.bench = bench, .pool = c->source.pool};
    bool with_driver = pool_driver_has(&c->source), verified = false;
    struct pair_times times[2] = {{.first = 0}};
    struct bench_result result;
    struct bench_row *row;

    bench_progress(bench, "pool", c->name, c->bytes);
    c->pairs = 0;
    if ((!watch.pool && !bench_check(bench, leat_pool_default(bench->device, LEAT_KIND_DEVICE, &watch.pool))) ||
        !time_side(c, BENCH_LEAT, &times[BENCH_LEAT], time_first) ||
        (with_driver && !time_side(c, BENCH_DRIVER, &times[BENCH_DRIVER], time_first)) ||
        !pool_watch_begin(&watch) || !bench_measure(bench, sample_pairs, c, with_driver, &result) ||
        !pool_watch_end(&watch) || (with_calls && !time_side(c, BENCH_LEAT, &times[BENCH_LEAT], time_calls)) ||
        (with_calls && with_driver && !time_side(c, BENCH_DRIVER, &times[BENCH_DRIVER], time_calls)) ||
        !pool_verify(&c->source, c->bytes, &verified)) {
        bench_case_failed(bench, "pool", c->name, c->bytes);
        return;
    }
    row = pool_row(rows, POOL_PAIRS, c->name, c->bytes, &result, with_driver, verified);
    if (with_calls)
        add_times(row, BENCH_LEAT, &times[BENCH_LEAT]);
    if (with_calls && with_driver)
        add_times(row, BENCH_DRIVER, &times[BENCH_DRIVER]);
    pool_watch_row(&watch, row, (double)c->pairs);
}

static void measure_steady_pairs(struct bench *bench, struct bench_rows *rows)
{
    static const size_t sizes[] = {512, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB};
    unsigned i;

    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct pair_case c = {.source = {.bench = bench}, .name = "pair", .bytes = sizes[i], .batch = BATCH};

        /* --quick leaves out some sizes. */
        if (sizes[i] <= bench->largest && !(bench->options->quick && (i == 1 || i == 2 || i == 4)))
            measure_pairs(&c, rows, true);
    }
}

static void measure_other_pairs(struct bench *bench, struct bench_rows *rows)
{
    static const size_t sizes[] = {512, MIB, 64 * MIB, GIB};
    unsigned i;

    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct pair_case waited = {.source = {.bench = bench},
                                   .name = "pair after each wait, driver as it is",
                                   .bytes = sizes[i],
                                   .batch = 1};

        if (sizes[i] <= bench->largest && bench->peer && bench->peer->alloc_async)
            measure_pairs(&waited, rows, false);
    }
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct pair_case plain = {.source = {.bench = bench, .plain = true},
                                  .name = "pair, driver's plain calls",
                                  .bytes = sizes[i],
                                  .batch = 16};

        /* Measure this only if the driver has stream-ordered calls. Otherwise measure_pairs() has already compared
         * with the plain calls. */
        if (sizes[i] <= bench->largest && bench->peer && bench->peer->alloc_async &&
            pool_driver_has(&plain.source))
            measure_pairs(&plain, rows, false);
    }
}

/* ---- pairs among live blocks ---- */

struct live_blocks {
    void **blocks[2]; /* indexed by side */
    unsigned count[2];
};

/* Returns sizes from 512 B to 4 KiB in a pseudorandom order. */
static size_t live_bytes(unsigned index)
{
    return 512 * (size_t)(1 + leat_pattern_value(index, 1) % 8);
}

/* Allocates the live blocks. Returns false if a call failed, or, with bench->error empty, if the driver took too
 * long. */
static bool make_live(const struct pool_source *source, enum bench_side side, unsigned count,
                      struct live_blocks *live)
{
    struct bench *bench = source->bench;
    double begin = bench_now();
    unsigned i;

    for (i = 0; i < count; i++) {
        if (!pool_take_first(source, side, live_bytes(i), &live->blocks[side][i]))
            return false;
        live->count[side] = i + 1;
        if (i % 1024 == 0 && bench_now() - begin > PATIENCE_SECONDS) {
            if (side == BENCH_LEAT)
                snprintf(bench->error, sizeof bench->error, "%u blocks took leat more than %.0f s", i,
                         PATIENCE_SECONDS);
            return false;
        }
    }
    return true;
}

static bool free_live(const struct pool_source *source, enum bench_side side, struct live_blocks *live)
{
    bool fine = true;
    unsigned i;

    for (i = 0; i < live->count[side]; i++)
        fine = pool_give_first(source, side, live->blocks[side][i]) && fine;
    live->count[side] = 0;
    return fine;
}

/* Measures pairs while both sides have live blocks, and then frees these blocks. The driver's context stays
 * current for leat's samples too, which makes no difference to leat. */
static bool measure_among(struct pair_case *c, struct bench_rows *rows, unsigned count, struct live_blocks *live,
                          bool with_driver)
{
    struct bench *bench = c->source.bench;
    struct bench_peer *peer = bench->peer;
    bool fine, driver_fine = true;

    if (!make_live(&c->source, BENCH_LEAT, count, live))
        return false;
    if (with_driver && !make_live(&c->source, BENCH_DRIVER, count, live)) {
        if (bench->error[0])
            return false;
        bench_note(bench, "pool, %s: no driver's figure, since making so many blocks took it more than %.0f s",
                   c->name, PATIENCE_SECONDS);
        bench->peer = NULL;
    }
    measure_pairs(c, rows, true);
    bench->peer = peer;
    fine = free_live(&c->source, BENCH_LEAT, live);
    if (with_driver)
        driver_fine = free_live(&c->source, BENCH_DRIVER, live);
    return fine && driver_fine;
}

static void measure_live(struct bench *bench, struct bench_rows *rows, const char *name, unsigned count)
{
    struct pair_case c = {.source = {.bench = bench}, .name = name, .bytes = 4 * KIB, .batch = BATCH};
    bool with_driver = pool_driver_has(&c.source);
    struct live_blocks live = {.count = {0, 0}};
    bool fine = false;

    live.blocks[BENCH_LEAT] = calloc(count, sizeof(void *));
    live.blocks[BENCH_DRIVER] = calloc(count, sizeof(void *));
    if (!live.blocks[BENCH_LEAT] || !live.blocks[BENCH_DRIVER])
        snprintf(bench->error, sizeof bench->error, "out of host memory");
    else if (!with_driver)
        fine = measure_among(&c, rows, count, &live, false);
    else if (bench_check_peer(bench, "making the device current", bench->peer->enter(bench->peer))) {
        fine = measure_among(&c, rows, count, &live, true);
        fine = bench_check_peer(bench, "leaving the device", bench->peer->leave(bench->peer)) && fine;
    }
    if (!fine)
        bench_case_failed(bench, "pool", name, c.bytes);
    free(live.blocks[BENCH_LEAT]);
    free(live.blocks[BENCH_DRIVER]);
}

static void measure_among_live(struct bench *bench, struct bench_rows *rows)
{
    static const struct {
        const char *name;
        unsigned count;
    } cases[] = {{"pair, 100 live blocks", 100},
                 {"pair, 10,000 live blocks", 10000},
                 {"pair, 1,000,000 live blocks", 1000000}};
    unsigned i;

    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].count * (4 * KIB) <= 4 * bench->largest)
            measure_live(bench, rows, cases[i].name, cases[i].count);
        else if (!bench->options->quick)
            bench_note(bench, "%s is left out: there is not enough free memory for them", cases[i].name);
    }
}

/* ---- pinned memory ---- */

struct pinned_case {
    struct pool_source source;
    size_t bytes;
    uint64_t pairs;
};

static bool pinned_take(const struct pinned_case *c, enum bench_side side, void **ptr)
{
    struct bench *bench = c->source.bench;

    return side == BENCH_LEAT
               ? pool_take_first(&c->source, BENCH_LEAT, c->bytes, ptr)
               : bench_check_peer(bench, "pinned memory", bench->peer->host_alloc(bench->peer, c->bytes, ptr));
}

static bool pinned_give(const struct pinned_case *c, enum bench_side side, void *ptr)
{
    struct bench *bench = c->source.bench;

    return side == BENCH_LEAT ? pool_give_first(&c->source, BENCH_LEAT, ptr)
                              : bench_check_peer(bench, "pinned memory", bench->peer->host_free(bench->peer, ptr));
}

static bool sample_first_pinned(void *state, enum bench_side side, double *seconds)
{
    struct pinned_case *c = state;
    struct bench *bench = c->source.bench;
    bool fine;
    double begin;
    void *ptr;

    if (side == BENCH_LEAT && !pool_make(bench, LEAT_KIND_PINNED, 0, &c->source.pool))
        return false;
    begin = bench_now();
    fine = pinned_take(c, side, &ptr);
    *seconds = bench_now() - begin;
    fine = fine && pinned_give(c, side, ptr);
    return (side == BENCH_DRIVER || bench_check(bench, leat_pool_destroy(c->source.pool))) && fine;
}

static bool sample_pinned_pairs(void *state, enum bench_side side, double *seconds)
{
    struct pinned_case *c = state;
    unsigned batch = side == BENCH_LEAT ? BATCH : 1, i;
    double begin = bench_now();
    void *ptr;

    for (i = 0; i < batch; i++)
        if (!pinned_take(c, side, &ptr) || !pinned_give(c, side, ptr))
            return false;
    *seconds = fmax(bench_now() - begin - bench_clock_cost(), 0) / batch;
    if (side == BENCH_LEAT)
        c->pairs += batch;
    return true;
}

/* Verifies a block: copies its last MiB to the device and back into its first MiB. */
static bool verify_pinned(struct pinned_case *c, bool *verified)
{
    struct bench *bench = c->source.bench;
    leat_stream *stream = bench->streams[0];
    void *device = bench_buffer(bench, BENCH_DEVICE_A);
    uint64_t seed = bench_new_seed(bench);
    bool fine;
    void *ptr;

    if (!device || !pinned_take(c, BENCH_LEAT, &ptr))
        return false;
    /* The block is available in stream order, so the host must wait for the stream before it writes the block. */
    fine = bench_check(bench, leat_stream_synchronize(stream));
    bench_fill_host(bench, (char *)ptr + (c->bytes - MIB), MIB, seed);
    bench_poison_host(bench, ptr, MIB);
    fine = fine && bench_check(bench, leat_copy(stream, device, (char *)ptr + (c->bytes - MIB), MIB)) &&
           bench_check(bench, leat_copy(stream, ptr, device, MIB)) &&
           bench_check(bench, leat_stream_synchronize(stream));
    *verified = fine && bench_host_holds(bench, ptr, MIB, seed);
    return pinned_give(c, BENCH_LEAT, ptr) && fine;
}

static bool measure_pinned_rows(struct pinned_case *c, struct bench_rows *rows)
{
    struct bench *bench = c->source.bench;
    bool with_driver = bench->peer && bench->peer->host_alloc, verified = false;
    struct pool_watch watch = {.bench = bench};
    struct bench_result first, pairs;
    struct bench_row *row;
    void *ptr;

    bench_progress(bench, "pool", "pinned memory", c->bytes);
    if (!bench_measure(bench, sample_first_pinned, c, with_driver, &first) ||
        !pool_make(bench, LEAT_KIND_PINNED, 0, &c->source.pool))
        return false;
    watch.pool = c->source.pool;
    if (!pinned_take(c, BENCH_LEAT, &ptr) || !pinned_give(c, BENCH_LEAT, ptr) || !pool_watch_begin(&watch) ||
        !bench_measure(bench, sample_pinned_pairs, c, with_driver, &pairs) || !pool_watch_end(&watch) ||
        !verify_pinned(c, &verified)) {
        leat_pool_destroy(c->source.pool);
        return false;
    }
    if (wants(bench, POOL_GROWTH))
        pool_row(rows, POOL_GROWTH, "pinned memory, first time", c->bytes, &first, with_driver, verified);
    if (wants(bench, POOL_PAIRS)) {
        row = pool_row(rows, POOL_PAIRS, "pinned memory, pair from the pool", c->bytes, &pairs, with_driver,
                       verified);
        pool_watch_row(&watch, row, (double)c->pairs);
    }
    return bench_check(bench, leat_pool_destroy(c->source.pool));
}

static void measure_pinned(struct bench *bench, struct bench_rows *rows)
{
    struct pinned_case c = {.source = {.bench = bench}, .bytes = bench->options->quick ? 256 * MIB : 2 * GIB};

    /* Limit the size by bench->largest, which was chosen by the available memory. */
    while (c.bytes > 2 * bench->largest)
        c.bytes /= 2;
    if (!measure_pinned_rows(&c, rows))
        bench_case_failed(bench, "pool", "pinned memory", c.bytes);
}

/* ---- statistics ---- */

static bool sample_query(void *state, enum bench_side side, double *seconds)
{
    struct pool_watch *watch = state;
    double begin = bench_now();
    unsigned i;

    (void)side;
    for (i = 0; i < BATCH; i++)
        if (!pool_watch_begin(watch))
            return false;
    *seconds = (bench_now() - begin) / (double)BATCH;
    return true;
}

static void measure_query(struct bench *bench, struct bench_rows *rows)
{
    struct pool_source source = {.bench = bench};
    struct pool_watch watch = {.bench = bench};
    struct bench_result result;
    uint64_t live, bytes;
    bool verified;
    void *ptr;

    bench_progress(bench, "pool", "reading the statistics", 0);
    if (!bench_check(bench, leat_pool_default(bench->device, LEAT_KIND_DEVICE, &watch.pool)) ||
        !bench_measure(bench, sample_query, &watch, false, &result) || !pool_watch_begin(&watch))
        goto failed;
    live = watch.begin.live_blocks;
    bytes = watch.begin.requested_bytes;
    if (!pool_take_first(&source, BENCH_LEAT, 1000, &ptr) || !pool_watch_begin(&watch))
        goto failed;
    verified = watch.begin.live_blocks == live + 1 && watch.begin.requested_bytes == bytes + 1000;
    if (!pool_give_first(&source, BENCH_LEAT, ptr))
        goto failed;
    pool_row(rows, POOL_PAIRS, "reading the statistics", 0, &result, false, verified);
    return;

failed:
    bench_case_failed(bench, "pool", "reading the statistics", 0);
}

/* Releases the default pool's idle memory, which other groups need. */
static void give_idle_back(struct bench *bench)
{
    leat_pool *pool;

    if (!bench_check(bench, leat_device_synchronize(bench->device)) ||
        !bench_check(bench, leat_pool_default(bench->device, LEAT_KIND_DEVICE, &pool)) ||
        !bench_check(bench, leat_pool_trim(pool, 0, NULL, NULL)))
        bench_case_failed(bench, "pool", "trim", 0);
}

/* Measures the parts in which the driver's pool may keep all freed memory, which is its best case. */
static void measure_steady(struct bench *bench, struct bench_rows *rows)
{
    if (!wants(bench, POOL_PAIRS) && !wants(bench, POOL_THREADS) && !wants(bench, POOL_STREAMS))
        return;
    if (!pool_driver_keeps(bench)) {
        bench_case_failed(bench, "pool", "pair", 0);
        return;
    }
    if (wants(bench, POOL_PAIRS)) {
        measure_steady_pairs(bench, rows);
        measure_among_live(bench, rows);
    }
    if (wants(bench, POOL_THREADS))
        bench_pool_threads(bench, rows);
    if (wants(bench, POOL_STREAMS))
        bench_pool_order(bench, rows);
    if (!pool_driver_as_usual(bench))
        bench_case_failed(bench, "pool", "pair", 0);
}

void bench_pool_group(struct bench *bench)
{
    struct bench_rows rows = {.count = 0};

    measure_steady(bench, &rows);
    if (wants(bench, POOL_PAIRS))
        measure_other_pairs(bench, &rows);
    if (wants(bench, POOL_LOOP))
        bench_pool_loop(bench, &rows);
    give_idle_back(bench);
    if (wants(bench, POOL_GROWTH))
        bench_pool_grow(bench, &rows);
    if (wants(bench, POOL_GROWTH) || wants(bench, POOL_PAIRS))
        measure_pinned(bench, &rows);
    if (wants(bench, POOL_PAIRS))
        measure_query(bench, &rows);
    bench_rows_commit(bench, &rows);
    if (wants(bench, POOL_PACKING))
        bench_pool_packing(bench);
}
