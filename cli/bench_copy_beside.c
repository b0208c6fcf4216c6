/*
 * bench_copy_beside.c - measures how much longer a kernel takes while another stream copies pageable memory.
 *
 * One thread copies all the time. After the first copy has begun, another thread launches the kernels and waits
 * for them. The driver's side needs two threads, because its pageable copies block their caller; leat's side uses
 * two as well.
 */
#include "bench_copy.h"
#include "bench_side.h"
#include "bench_verify.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { KERNEL_STREAM = 2, ROUNDS = 9 };

static const double kernel_seconds = 0.008; /* time of all launches together while nothing is copied */
static const double kernels_max = 4096;
static const char part[] = "a kernel beside a pageable copy";

struct beside {
    struct bench *bench;
    struct copy_case copy;
    enum bench_side side;
    void *data; /* device memory that the kernels read */
    uint64_t words;
    uint64_t seed;
    unsigned kernels;
    double seconds; /* time of the kernels of the latest sample */
    bool fine[2];
    atomic_bool stop;  /* tells the copying thread to end; relaxed, because it orders no other memory */
    atomic_uint ended; /* number of completed copies; relaxed for the same reason */
};

static bool run_kernels(struct beside *b, double *seconds)
{
    struct bench *bench = b->bench;
    void *args[] = {&b->data, &b->words, &b->seed, &bench->wrong_device};
    double begin = bench_now();
    unsigned i;

    for (i = 0; i < b->kernels; i++)
        if (!bench_launch(bench, KERNEL_STREAM, bench->verify, b->words, args, 4))
            return false;
    if (!bench_check(bench, leat_stream_synchronize(bench->streams[KERNEL_STREAM])))
        return false;
    *seconds = bench_now() - begin;
    return true;
}

/* The second thread copies until the first one, which launches the kernels, sets stop. */
static void one_of_two(void *argument, unsigned index, unsigned count)
{
    struct beside *b = argument;
    struct bench *bench = b->bench;
    bool fine = true;

    (void)count;
    if (index == 0) {
        usleep(2000);
        b->fine[0] = run_kernels(b, &b->seconds);
        atomic_store_explicit(&b->stop, true, memory_order_relaxed);
        return;
    }
    if (!bench_side_enter(bench, b->side))
        return;
    do
        fine = copy_case_run(&b->copy, b->side, NULL);
    while (fine && !atomic_load_explicit(&b->stop, memory_order_relaxed));
    bench_side_leave(bench, b->side);
    b->fine[1] = fine;
}

static bool run_beside(struct beside *b, enum bench_side side, double *seconds)
{
    b->side = side;
    b->fine[0] = b->fine[1] = false;
    atomic_store_explicit(&b->stop, false, memory_order_relaxed);
    bench_workers_run(b->bench->pair, one_of_two, b);
    *seconds = b->seconds;
    return b->fine[0] && b->fine[1];
}

/* Chooses as many launches as take kernel_seconds. */
static bool choose_kernels(struct beside *b)
{
    double seconds, wanted;

    b->kernels = 1;
    if (!run_kernels(b, &seconds) || !run_kernels(b, &seconds))
        return false;
    wanted = ceil(kernel_seconds / seconds);
    b->kernels = wanted < 1 ? 1 : (unsigned)fmin(wanted, kernels_max);
    return true;
}

struct alone {
    struct beside *b;
    double seconds[ROUNDS * 2];
    unsigned count;
};

/* Measures the kernels alone right before each sample beside a copy, so that both happen under the same
 * conditions. */
static bool sample(void *state, enum bench_side side, double *seconds)
{
    struct alone *alone = state;
    double *mine = &alone->seconds[alone->count % (ROUNDS * 2)];

    if (!run_kernels(alone->b, mine))
        return false;
    alone->count++;
    return run_beside(alone->b, side, seconds);
}

static double best_alone(const struct alone *alone)
{
    double times[ROUNDS * 2] = {0};
    unsigned count = alone->count < ROUNDS * 2 ? alone->count : ROUNDS * 2, i, k;

    /* Sort the few numbers by insertion. */
    for (i = 0; i < count; i++) {
        for (k = i; k > 0 && times[k - 1] > alone->seconds[i]; k--)
            times[k] = times[k - 1];
        times[k] = alone->seconds[i];
    }
    return times[count / 2];
}

/* Sets *right to true if the kernels read no wrong word: then they read the right buffer, and no copy changed
 * it. */
static bool kernels_were_right(struct beside *b, bool *right)
{
    struct bench *bench = b->bench;
    leat_stream *stream = bench->streams[KERNEL_STREAM];

    *bench->wrong_host = UINT64_MAX;
    if (!bench_check(bench, leat_copy(stream, bench->wrong_host, bench->wrong_device, sizeof(uint64_t))) ||
        !bench_check(bench, leat_stream_synchronize(stream)))
        return false;
    *right = *bench->wrong_host == 0;
    return true;
}

static bool measure(struct beside *b, const char *name, struct bench_rows *rows)
{
    struct bench *bench = b->bench;
    struct alone alone = {.b = b};
    struct bench_result result;
    struct bench_row *row;
    bool with_driver = bench->peer != NULL, right = false;

    if (!bench_check(bench, leat_fill(bench->streams[KERNEL_STREAM], bench->wrong_device, 0, sizeof(uint64_t))) ||
        !bench_measure_for(bench, sample, &alone, with_driver, 0.4, &result) || !kernels_were_right(b, &right))
        return false;
    row = bench_row_add(rows, "copy", name, b->copy.bytes, BENCH_US);
    row->part = part;
    row->result = result;
    row->with_driver = with_driver;
    row->verified = right;
    bench_row_extra(row, "alone_us", best_alone(&alone) * 1e6);
    bench_row_extra(row, "slowdown", result.leat.median / best_alone(&alone));
    if (with_driver)
        bench_row_extra(row, "driver_slowdown", result.driver.median / best_alone(&alone));
    return true;
}

/* Returns the size of the copies: 256 MiB, or the largest size that the options ask for. */
static size_t choose_bytes(const struct bench *bench)
{
    size_t wanted = bench->options->size_count ? sizeof(uint64_t) : 256 * MIB;
    unsigned i;

    for (i = 0; i < bench->options->size_count; i++)
        if (bench->options->sizes[i] > wanted)
            wanted = bench->options->sizes[i];
    return wanted < bench->largest ? wanted : bench->largest;
}

void bench_copy_beside(struct bench *bench)
{
    static const char *const names[] = {"kernel beside a copy in, pageable", "kernel beside a copy out, pageable"};
    size_t bytes = choose_bytes(bench);
    struct copy_host in = {.ptr = NULL}, out = {.ptr = NULL};
    struct bench_rows rows = {.count = 0};
    struct beside b = {.bench = bench};
    unsigned i;

    bench_progress(bench, "copy", part, bytes);
    b.data = bench_buffer(bench, BENCH_DEVICE_C);
    b.words = bytes / sizeof(uint64_t);
    b.seed = bench_new_seed(bench);
    b.copy = (struct copy_case){.bench = bench, .pageable = true, .bytes = bytes};
    b.copy.in_dst = bench_buffer(bench, BENCH_DEVICE_A);
    b.copy.out_src = bench_buffer(bench, BENCH_DEVICE_B);
    if (!b.data || !b.copy.in_dst || !b.copy.out_src ||
        copy_host_make(bench, COPY_PAGEABLE, true, bytes, &in) != COPY_HOST_READY ||
        copy_host_make(bench, COPY_PAGEABLE, false, bytes, &out) != COPY_HOST_READY ||
        !bench_fill_device(bench, b.data, bytes, b.seed) || !choose_kernels(&b)) {
        bench_case_failed(bench, "copy", part, bytes);
    } else {
        b.copy.in_src = in.ptr;
        b.copy.out_dst = out.ptr;
        for (i = 0; i < 2; i++) {
            b.copy.direction = i == 0 ? COPY_IN : COPY_OUT;
            if (!measure(&b, names[i], &rows))
                bench_case_failed(bench, "copy", names[i], bytes);
        }
    }
    copy_host_free(&in);
    copy_host_free(&out);
    bench_rows_commit(bench, &rows);
}
