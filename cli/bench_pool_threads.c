/*
 * bench_pool_threads.c - part of the group "pool": measures pairs of several threads, each on its own stream or
 * all on one stream, and blocks that one thread allocates and another thread frees.
 */
#include "bench_pool.h"
#include "bench_verify.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum {
    THREADS_MAX = 16,
    RING_SLOTS = 256,   /* the most blocks on the way from the allocating to the freeing thread */
    WARM_UP = 64,       /* pairs of each thread before the clock starts */
    LEAT_PAIRS = 50000, /* pairs in a sample: so many that all threads run at the same time for most of it */
    DRIVER_PAIRS = 2000
};

static const size_t BLOCK_BYTES = 4 * KIB;

/* The state that the threads of a sample share. */
struct thread_case {
    struct pool_source source;
    struct bench_workers *workers;
    leat_stream *streams[THREADS_MAX];
    void *native_streams[THREADS_MAX];
    bool one_stream;
    bool ring_alone; /* measure the cost of the ring alone, without allocations */
    enum bench_side side;
    unsigned pairs;
    atomic_uint arrived; /* number of threads that are ready to begin */
    atomic_bool failed;
    double begin[THREADS_MAX],
        end[THREADS_MAX]; /* each thread writes its own element; all are read after the workers have finished */

    /* Blocks on the way from the allocating thread to the freeing thread. A free slot is NULL. */
    _Atomic(void *) ring[RING_SLOTS];
};

/* Pauses in a spin loop. It yields the processor in some turns, because there may be more threads than
 * processors. */
static void pause_briefly(unsigned turn)
{
    if (turn % 256 == 255)
        sched_yield();
    else
        __builtin_ia32_pause();
}

static void wait_for_all(struct thread_case *c, unsigned threads)
{
    unsigned turn = 0;

    atomic_fetch_add(&c->arrived, 1);
    while (atomic_load(&c->arrived) < threads)
        pause_briefly(turn++);
}

static bool some_pairs(struct thread_case *c, unsigned stream, unsigned pairs)
{
    void *ptr;

    while (pairs--)
        if (!pool_take(&c->source, c->side, c->streams[stream], c->native_streams[stream], BLOCK_BYTES, &ptr) ||
            !pool_give(&c->source, c->side, c->streams[stream], c->native_streams[stream], ptr))
            return false;
    return true;
}

/* Makes the driver's context current in this thread. In thread 0, which takes the sample, the context is current
 * already. */
static bool enter_thread(struct thread_case *c, unsigned index)
{
    struct bench *bench = c->source.bench;

    return c->side == BENCH_LEAT || index == 0 ||
           bench_check_peer(bench, "making the device current", bench->peer->enter(bench->peer));
}

static bool leave_thread(struct thread_case *c, unsigned index)
{
    struct bench *bench = c->source.bench;

    return c->side == BENCH_LEAT || index == 0 ||
           bench_check_peer(bench, "leaving the device", bench->peer->leave(bench->peer));
}

static void pair_work(void *argument, unsigned index, unsigned threads)
{
    struct thread_case *c = argument;
    unsigned stream = c->one_stream ? 0 : index;
    bool entered = enter_thread(c, index);
    bool fine = entered && some_pairs(c, stream, WARM_UP);

    wait_for_all(c, threads);
    c->begin[index] = bench_now();
    fine = fine && some_pairs(c, stream, c->pairs);
    c->end[index] = bench_now();
    if ((entered && !leave_thread(c, index)) || !fine)
        atomic_store(&c->failed, true);
}

/* Takes a sample of the time of a pair, as the mean over the threads. */
static bool sample_threads(void *state, enum bench_side side, double *seconds)
{
    struct thread_case *c = state;
    unsigned threads = bench_workers_count(c->workers), i;
    double sum = 0;

    c->side = side;
    c->pairs = side == BENCH_LEAT ? LEAT_PAIRS : DRIVER_PAIRS;
    atomic_store(&c->arrived, 0);
    atomic_store(&c->failed, false);
    bench_workers_run(c->workers, pair_work, c);
    for (i = 0; i < threads; i++)
        sum += c->end[i] - c->begin[i];
    *seconds = sum / threads / c->pairs;
    return !atomic_load(&c->failed) &&
           bench_check(c->source.bench, leat_device_synchronize(c->source.bench->device));
}

static bool allocate_for_other(struct thread_case *c)
{
    unsigned i, turn = 0;

    for (i = 0; i < c->pairs; i++) {
        _Atomic(void *) *slot = &c->ring[i % RING_SLOTS];
        void *ptr;

        if (c->ring_alone)
            ptr = c;
        else if (!pool_take(&c->source, c->side, c->streams[0], c->native_streams[0], BLOCK_BYTES, &ptr))
            return false;
        while (atomic_load_explicit(slot, memory_order_acquire)) {
            if (atomic_load(&c->failed))
                return false;
            pause_briefly(turn++);
        }
        atomic_store_explicit(slot, ptr, memory_order_release);
    }
    return true;
}

static bool free_from_other(struct thread_case *c)
{
    unsigned i, turn = 0;

    for (i = 0; i < c->pairs; i++) {
        _Atomic(void *) *slot = &c->ring[i % RING_SLOTS];
        void *ptr;

        while (!(ptr = atomic_load_explicit(slot, memory_order_acquire))) {
            if (atomic_load(&c->failed))
                return false;
            pause_briefly(turn++);
        }
        atomic_store_explicit(slot, NULL, memory_order_release);
        if (!c->ring_alone && !pool_give(&c->source, c->side, c->streams[0], c->native_streams[0], ptr))
            return false;
    }
    return true;
}

static void remote_work(void *argument, unsigned index, unsigned threads)
{
    struct thread_case *c = argument;
    bool entered = enter_thread(c, index);

    wait_for_all(c, threads);
    c->begin[index] = bench_now();
    if (!entered || !(index == 0 ? allocate_for_other(c) : free_from_other(c)))
        atomic_store(&c->failed, true);
    c->end[index] = bench_now();
    if (entered && !leave_thread(c, index))
        atomic_store(&c->failed, true);
}

/* Takes a sample of the time from the first allocation to the last free, divided by the number of blocks. */
static bool sample_remote(void *state, enum bench_side side, double *seconds)
{
    struct thread_case *c = state;
    unsigned i;

    c->side = side;
    c->pairs = side == BENCH_LEAT ? LEAT_PAIRS : DRIVER_PAIRS;
    atomic_store(&c->arrived, 0);
    atomic_store(&c->failed, false);
    for (i = 0; i < RING_SLOTS; i++)
        atomic_store(&c->ring[i], NULL);
    bench_workers_run(c->workers, remote_work, c);
    *seconds = (fmax(c->end[0], c->end[1]) - fmin(c->begin[0], c->begin[1])) / c->pairs;
    return !atomic_load(&c->failed) &&
           bench_check(c->source.bench, leat_device_synchronize(c->source.bench->device));
}

/* Verifies that blocks of different streams do not overlap: allocates a block on each stream, fills the blocks
 * with different bytes, and then checks all of them. */
static bool verify_streams(struct thread_case *c, unsigned threads, bool *verified)
{
    struct bench *bench = c->source.bench;
    void *blocks[THREADS_MAX] = {NULL};
    uint64_t seeds[THREADS_MAX];
    bool fine = true, holds;
    unsigned i;

    for (i = 0; i < threads && fine; i++) {
        seeds[i] = bench_new_seed(bench);
        fine = pool_take(&c->source, BENCH_LEAT, c->streams[i], NULL, BLOCK_BYTES, &blocks[i]) &&
               bench_check(bench, leat_stream_synchronize(c->streams[i])) &&
               bench_fill_device(bench, blocks[i], BLOCK_BYTES, seeds[i]);
    }
    *verified = fine;
    for (i = 0; i < threads && fine; i++) {
        fine = bench_device_holds(bench, blocks[i], BLOCK_BYTES, seeds[i], &holds);
        *verified = *verified && fine && holds;
    }
    for (i = 0; i < threads; i++)
        fine = pool_give(&c->source, BENCH_LEAT, c->streams[i], NULL, blocks[i]) && fine;
    return fine;
}

static bool measure_with(struct thread_case *c, unsigned threads, bench_sample sample, struct bench_result *result,
                         bool *verified)
{
    struct bench *bench = c->source.bench;
    bool fine;

    c->workers = bench_workers_create(threads);
    if (!c->workers) {
        snprintf(bench->error, sizeof bench->error, "%u threads cannot be started", threads);
        return false;
    }
    fine = bench_measure(bench, sample, c, pool_driver_has(&c->source), result) &&
           verify_streams(c, threads, verified);
    bench_workers_destroy(c->workers);
    return fine;
}

/* Static, because rows of the record keep pointers to the names. */
static const struct thread_row {
    unsigned threads;
    const char *own, *shared;
} thread_rows[] = {
    {1, "1 thread, 4 KiB pair", NULL},
    {2, "2 threads, a stream each", "2 threads, one stream"},
    {4, "4 threads, a stream each", "4 threads, one stream"},
    {8, "8 threads, a stream each", "8 threads, one stream"},
    {16, "16 threads, a stream each", "16 threads, one stream"},
};

enum { THREAD_ROWS = sizeof thread_rows / sizeof thread_rows[0] };

static void measure_threads(struct thread_case *c, struct bench_rows *rows, unsigned processors)
{
    struct bench *bench = c->source.bench;
    bool with_driver = pool_driver_has(&c->source), verified;
    struct bench_result result, alone = {.repeats = 0};
    unsigned i, shared;

    for (i = 0; i < THREAD_ROWS && thread_rows[i].threads <= processors; i++)
        for (shared = 0; shared <= (thread_rows[i].shared != NULL); shared++) {
            const char *name = shared ? thread_rows[i].shared : thread_rows[i].own;
            struct bench_row *row;

            bench_progress(bench, "pool", name, BLOCK_BYTES);
            c->one_stream = shared;
            if (!measure_with(c, thread_rows[i].threads, sample_threads, &result, &verified)) {
                bench_case_failed(bench, "pool", name, BLOCK_BYTES);
                continue;
            }
            if (i == 0)
                alone = result;
            row = pool_row(rows, POOL_THREADS, name, BLOCK_BYTES, &result, with_driver, verified);
            if (alone.repeats)
                bench_row_extra(row, "scaling", alone.leat.median / result.leat.median);
            if (alone.repeats && with_driver)
                bench_row_extra(row, "driver_scaling", alone.driver.median / result.driver.median);
        }
}

static void measure_remote(struct thread_case *c, struct bench_rows *rows)
{
    static const char name[] = "allocated by one thread, freed by another";
    struct bench *bench = c->source.bench;
    struct bench_result result, ring;
    struct bench_row *row;
    bool verified;

    bench_progress(bench, "pool", name, BLOCK_BYTES);
    if (!measure_with(c, 2, sample_remote, &result, &verified))
        goto failed;
    c->ring_alone = true;
    if (!measure_with(c, 2, sample_remote, &ring, &verified))
        goto failed;
    c->ring_alone = false;
    row = pool_row(rows, POOL_THREADS, name, BLOCK_BYTES, &result, pool_driver_has(&c->source), verified);
    bench_row_extra(row, "ring", bench_figure(row, ring.leat.median));
    return;

failed:
    bench_case_failed(bench, "pool", name, BLOCK_BYTES);
}

void bench_pool_threads(struct bench *bench, struct bench_rows *rows)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned processors = online > 0 ? (unsigned)online : 1;
    struct thread_case c = {.source = {.bench = bench}};
    unsigned i;

    if (processors < THREADS_MAX && !bench->options->quick)
        bench_note(bench, "pool: more threads than the %u processors are left out", processors);
    for (i = 0; i < THREADS_MAX; i++)
        if (!bench_check(bench, leat_stream_create(bench->device, &c.streams[i])) ||
            !bench_check(bench, leat_stream_native(c.streams[i], &c.native_streams[i]))) {
            bench_case_failed(bench, "pool", "threads", 0);
            goto destroy;
        }
    measure_threads(&c, rows, processors);
    if (processors > 1)
        measure_remote(&c, rows);

destroy:
    for (i = 0; i < THREADS_MAX; i++)
        leat_stream_destroy(c.streams[i]);
}
