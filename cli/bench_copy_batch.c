/*
 * bench_copy_batch.c - measures thousands of small copies between scattered addresses. It compares one
 * leat_copy_batch() with one call of the driver for each copy, with one leat_copy() for each copy, and with the
 * driver's batch call if the driver has one.
 */
#include "bench_copy.h"
#include "bench_side.h"
#include "bench_verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Slots are larger than the pieces, so bytes lie between any two pieces. No copy may change those bytes. */
enum { COUNT = 4096, PIECE = 4 << 10, STRIDE = 2 * PIECE, OTHER_TRIES = 5 };

static const size_t span = (size_t)COUNT * STRIDE;
static const char part[] = "4096 copies of 4 KiB, scattered: us for each";

struct batch {
    struct bench *bench;
    enum bench_direction direction;
    char *src, *dst;
    struct copy_host *src_host, *dst_host; /* NULL: device memory */
    leat_copy_op ops[COUNT];
    void *dsts[COUNT], *srcs[COUNT]; /* destinations and sources of the copies, for the driver's batch call */
    size_t sizes[COUNT];
    double calls[1024];
    unsigned call_count;
};

/* Copy i goes from slot source_slot(i) to slot target_slot(i). Each function visits all slots once, in a different
 * order. */
static size_t source_slot(size_t i)
{
    return (i * 1237 + 11) % COUNT;
}

static size_t target_slot(size_t i)
{
    return (i * 2741 + 1733) % COUNT;
}

static void make_ops(struct batch *b)
{
    size_t i;

    for (i = 0; i < COUNT; i++) {
        b->srcs[i] = b->src + source_slot(i) * STRIDE;
        b->dsts[i] = b->dst + target_slot(i) * STRIDE;
        b->sizes[i] = PIECE;
        b->ops[i] = (leat_copy_op){b->dsts[i], b->srcs[i], PIECE};
    }
}

/* Makes each copy with a separate call. */
static bool run_each(struct batch *b, enum bench_side side)
{
    size_t i;

    for (i = 0; i < COUNT; i++)
        if (!bench_side_copy(b->bench, side, 0, b->direction, b->dsts[i], b->srcs[i], PIECE))
            return false;
    return bench_side_wait(b->bench, side, 0);
}

static bool sample(void *state, enum bench_side side, double *seconds)
{
    struct batch *b = state;
    double begin = bench_now(), call;

    if (side == BENCH_DRIVER) {
        if (!run_each(b, side))
            return false;
    } else {
        if (!bench_check(b->bench, leat_copy_batch(b->bench->streams[0], b->ops, COUNT)))
            return false;
        call = bench_now() - begin;
        if (!bench_side_wait(b->bench, side, 0))
            return false;
        if (b->call_count < sizeof b->calls / sizeof b->calls[0])
            b->calls[b->call_count++] = call / (double)COUNT;
    }
    *seconds = (bench_now() - begin) / (double)COUNT;
    return true;
}

/* ---- other methods, for comparison ---- */

static bool run_each_by_leat(struct batch *b)
{
    return run_each(b, BENCH_LEAT);
}

static bool run_batch(struct batch *b)
{
    struct bench_peer *peer = b->bench->peer;

    return bench_check_peer(
               b->bench, "batch of copies",
               peer->copy_batch(peer, b->bench->native_streams[0], b->dsts, b->srcs, b->sizes, COUNT)) &&
           bench_side_wait(b->bench, BENCH_DRIVER, 0);
}

/* Returns the time of the fastest of a few runs, in microseconds for each copy, or NAN if a run failed. */
static double best_us(struct batch *b, bool (*run)(struct batch *b))
{
    double best = INFINITY;
    unsigned i;

    for (i = 0; i < OTHER_TRIES; i++) {
        double begin = bench_now();

        if (!run(b))
            return NAN;
        best = fmin(best, bench_now() - begin);
    }
    return best / (double)COUNT * 1e6;
}

static double batch_us(struct batch *b)
{
    struct bench_peer *peer = b->bench->peer;
    double us;

    if (!peer || !peer->copy_batch || !bench_side_enter(b->bench, BENCH_DRIVER))
        return NAN;
    us = best_us(b, run_batch);
    bench_side_leave(b->bench, BENCH_DRIVER);
    if (isnan(us)) {
        /* Only this comparison failed, so keep the row, without the figure of the driver's batch call. */
        bench_note(b->bench, "copy: the driver's batch call: %s", b->bench->error);
        b->bench->error[0] = '\0';
    }
    return us;
}

/* ---- verifying ---- */

/* Returns true if every piece is in its slot and the bytes between the pieces are unchanged. */
static bool holds_pieces(const char *bytes, uint64_t seed)
{
    enum { WORDS = PIECE / sizeof(uint64_t) };
    uint64_t word;
    size_t i, k;

    for (i = 0; i < COUNT; i++)
        for (k = 0; k < 2 * WORDS; k++) {
            memcpy(&word, bytes + target_slot(i) * STRIDE + k * sizeof word, sizeof word);
            if (word !=
                (k < WORDS ? leat_pattern_value(source_slot(i) * STRIDE / sizeof word + k, seed) : UINT64_MAX))
                return false;
        }
    return true;
}

static bool verify(struct batch *b, bool *verified)
{
    struct bench *bench = b->bench;
    uint64_t seed = bench_new_seed(bench);
    double seconds;
    char *bytes;

    if (!(b->src_host ? copy_host_fill(b->src_host, span, seed) : bench_fill_device(bench, b->src, span, seed)))
        return false;
    if (b->dst_host)
        bench_poison_host(bench, b->dst, span);
    else if (!bench_check(bench, leat_fill(bench->streams[0], b->dst, 0xff, span)) ||
             !bench_side_wait(bench, BENCH_LEAT, 0))
        return false;
    if (!sample(b, BENCH_LEAT, &seconds))
        return false;
    if (b->dst_host) {
        *verified = holds_pieces(b->dst, seed);
        return true;
    }
    bytes = malloc(span);
    if (!bytes || !bench_check(bench, leat_copy(bench->streams[0], bytes, b->dst, span)) ||
        !bench_side_wait(bench, BENCH_LEAT, 0)) {
        free(bytes);
        return false;
    }
    *verified = holds_pieces(bytes, seed);
    free(bytes);
    return true;
}

/* ---- rows ---- */

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static bool measure(struct batch *b, const char *name, struct bench_rows *rows)
{
    struct bench *bench = b->bench;
    struct bench_result result;
    struct bench_row *row;
    bool with_driver = bench->peer != NULL, verified = false;
    double each, batch;

    b->call_count = 0;
    if (!bench_measure_for(bench, sample, b, with_driver, 0.2, &result) || !verify(b, &verified))
        return false;
    each = best_us(b, run_each_by_leat);
    if (isnan(each))
        return false;
    batch = batch_us(b);
    qsort(b->calls, b->call_count, sizeof b->calls[0], compare_times);
    row = bench_row_add(rows, "copy", name, PIECE, BENCH_US);
    row->part = part;
    row->result = result;
    row->with_driver = with_driver;
    row->verified = verified;
    bench_row_extra(row, "p99", result.leat.p99 * 1e6);
    if (with_driver)
        bench_row_extra(row, "driver_p99", result.driver.p99 * 1e6);
    bench_row_extra(row, "call_us", b->calls[b->call_count / 2] * 1e6);
    bench_row_extra(row, "each_us", each);
    if (!isnan(batch))
        bench_row_extra(row, "driver_batch_us", batch);
    return true;
}

static const struct batch_row {
    const char *name;
    enum bench_direction direction;
    enum copy_memory memory;
} batch_rows[] = {
    {"4096 copies in, pinned", BENCH_TO_DEVICE, COPY_PINNED},
    {"4096 copies out, pinned", BENCH_TO_HOST, COPY_PINNED},
    {"4096 copies in, pageable", BENCH_TO_DEVICE, COPY_PAGEABLE},
    {"4096 copies out, pageable", BENCH_TO_HOST, COPY_PAGEABLE},
    {"4096 copies on the device", BENCH_ON_DEVICE, COPY_PINNED},
};

static bool measure_row(struct batch *b, const struct batch_row *wanted, struct copy_host *host,
                        struct bench_rows *rows)
{
    struct bench *bench = b->bench;

    b->direction = wanted->direction;
    b->src_host = b->dst_host = NULL;
    b->src = bench_buffer(bench, BENCH_DEVICE_A);
    b->dst = bench_buffer(bench, BENCH_DEVICE_B);
    if (!b->src || !b->dst)
        return false;
    if (wanted->direction != BENCH_ON_DEVICE &&
        copy_host_make(bench, wanted->memory, wanted->direction == BENCH_TO_DEVICE, span, host) != COPY_HOST_READY)
        return false;
    if (wanted->direction == BENCH_TO_DEVICE) {
        b->src = host->ptr;
        b->src_host = host;
    }
    if (wanted->direction == BENCH_TO_HOST) {
        b->dst = host->ptr;
        b->dst_host = host;
    }
    make_ops(b);
    return measure(b, wanted->name, rows);
}

void bench_copy_batch(struct bench *bench)
{
    static struct batch batch; /* too large for the stack */
    struct bench_rows rows = {.count = 0};
    unsigned i;

    if (bench->largest < span) {
        bench_note(bench, "copy, batch: left out, since there is not enough free memory for the buffers");
        return;
    }
    batch.bench = bench;
    for (i = 0; i < sizeof batch_rows / sizeof batch_rows[0]; i++) {
        struct copy_host host = {.ptr = NULL};

        bench_progress(bench, "copy", batch_rows[i].name, PIECE);
        if (!measure_row(&batch, &batch_rows[i], &host, &rows))
            bench_case_failed(bench, "copy", batch_rows[i].name, PIECE);
        copy_host_free(&host);
    }
    bench_rows_commit(bench, &rows);
}
