/*
 * bench_copy_case.c - measures one copy over the link by leat or by the driver: its time, the time of the call
 * alone, and the processor time. It also verifies that the bytes arrived.
 */
#include "bench_copy.h"
#include "bench_side.h"
#include "bench_verify.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* The smallest copies whose processor time is measured one by one. For smaller copies the clock is too coarse, so
 * it is measured over many copies, a burst. */
static const size_t cpu_alone_bytes = 16 * MIB;
static const double cpu_burst_seconds = 0.01;

bool copy_case_share(struct copy_case *c, struct bench *bench, enum copy_direction direction, size_t bytes)
{
    *c = (struct copy_case){.bench = bench, .direction = direction, .bytes = bytes};
    c->in_src = bench_buffer(bench, BENCH_PINNED_IN);
    c->out_dst = bench_buffer(bench, BENCH_PINNED_OUT);
    c->in_dst = bench_buffer(bench, BENCH_DEVICE_A);
    c->out_src = bench_buffer(bench, BENCH_DEVICE_B);
    return c->in_src && c->out_dst && c->in_dst && c->out_src;
}

/* ---- the copy itself ---- */

/* Issues one direction on its own stream, by leat or by the driver. */
static bool issue(struct copy_case *c, enum bench_side side, bool in)
{
    return in ? bench_side_copy(c->bench, side, 0, BENCH_TO_DEVICE, c->in_dst, c->in_src, c->bytes)
              : bench_side_copy(c->bench, side, 1, BENCH_TO_HOST, c->out_dst, c->out_src, c->bytes);
}

static bool finish(struct copy_case *c, enum bench_side side, bool in)
{
    return bench_side_wait(c->bench, side, in ? 0 : 1);
}

/* The arguments of the driver's pageable copies in both directions at once. Each direction has a thread, because
 * the driver's calls block. */
struct pair_work {
    struct copy_case *c;
    bool fine[2];
};

static void copy_one_of_two(void *argument, unsigned index, unsigned count)
{
    struct pair_work *work = argument;
    struct bench *bench = work->c->bench;

    (void)count;
    if (index > 0 && !bench_side_enter(bench, BENCH_DRIVER))
        return;
    work->fine[index] = issue(work->c, BENCH_DRIVER, index == 0) && finish(work->c, BENCH_DRIVER, index == 0);
    if (index > 0)
        bench_side_leave(bench, BENCH_DRIVER);
}

static bool copy_by_two_threads(struct copy_case *c)
{
    struct pair_work work = {c, {false, false}};

    bench_workers_run(c->bench->pair, copy_one_of_two, &work);
    return work.fine[0] && work.fine[1];
}

static bool copy_at_once(struct copy_case *c)
{
    struct bench_peer *peer = c->bench->peer;

    return bench_check_peer(c->bench, "copy",
                            c->direction == COPY_IN
                                ? peer->copy_at_once(peer, BENCH_TO_DEVICE, c->in_dst, c->in_src, c->bytes)
                                : peer->copy_at_once(peer, BENCH_TO_HOST, c->out_dst, c->out_src, c->bytes));
}

bool copy_case_run(struct copy_case *c, enum bench_side side, double *call_seconds)
{
    bool in = c->direction != COPY_OUT;
    bool out = c->direction != COPY_IN;
    double begin = bench_now();

    if (side == BENCH_DRIVER && c->driver_other) {
        bool fine = in && out ? copy_by_two_threads(c) : copy_at_once(c);

        if (call_seconds)
            *call_seconds = bench_now() - begin;
        return fine;
    }
    if ((in && !issue(c, side, true)) || (out && !issue(c, side, false)))
        return false;
    if (call_seconds)
        *call_seconds = bench_now() - begin;
    return (!in || finish(c, side, true)) && (!out || finish(c, side, false));
}

/* ---- costs ---- */

static bool needs_preparing(const struct copy_host *host)
{
    return host && (host->memory == COPY_FRESH || host->memory == COPY_FILE_COLD);
}

/* Returns true if processor time is measured for each copy, and false if it is measured for bursts. */
static bool counts_alone(const struct copy_case *c)
{
    return c->bytes >= cpu_alone_bytes || needs_preparing(c->in_host) || needs_preparing(c->out_host);
}

static bool prepare(struct copy_case *c)
{
    return (c->direction == COPY_OUT || !c->in_host || copy_host_prepare(c->in_host, c->bytes)) &&
           (c->direction == COPY_IN || !c->out_host || copy_host_prepare(c->out_host, c->bytes));
}

bool copy_case_sample(void *state, enum bench_side side, double *seconds)
{
    struct copy_case *c = state;
    struct copy_cost *cost = c->costs ? &c->costs[side] : NULL;
    bool alone = cost && counts_alone(c);
    double begin, call, cpu = 0;

    if (!prepare(c))
        return false;
    if (alone)
        cpu = bench_cpu_now();
    begin = bench_now();
    if (!copy_case_run(c, side, &call))
        return false;
    *seconds = bench_now() - begin;
    if (!cost)
        return true;
    if (alone && cost->warm) {
        cost->cpu_seconds += bench_cpu_now() - cpu;
        cost->cpu_copies++;
    }
    if (cost->warm && cost->call_count < COPY_CALLS_MAX)
        cost->calls[cost->call_count++] = call;
    cost->warm = true;
    return true;
}

/* Measures the processor time of many small copies, one after the other. It sleeps for a millisecond first,
 * because threads may still use processor time after the other side's last copy. */
static bool burst(struct copy_case *c, enum bench_side side, double seconds_each)
{
    struct copy_cost *cost = &c->costs[side];
    double wanted = cpu_burst_seconds / seconds_each;
    unsigned count = wanted < 1 ? 1 : wanted > 2000 ? 2000 : (unsigned)wanted, i;
    double begin;
    bool fine = true;

    if (!bench_side_enter(c->bench, side))
        return false;
    usleep(1000);
    begin = bench_cpu_now();
    for (i = 0; i < count && fine; i++)
        fine = copy_case_run(c, side, NULL);
    cost->cpu_seconds = bench_cpu_now() - begin;
    cost->cpu_copies = count;
    bench_side_leave(c->bench, side);
    return fine;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *times, unsigned count)
{
    if (count == 0)
        return NAN;
    qsort(times, count, sizeof times[0], compare_times);
    return times[count / 2];
}

bool copy_case_choose_call(struct copy_case *c)
{
    enum { TRIES = 5 };
    struct bench_peer *peer = c->bench->peer;
    double best[2] = {INFINITY, INFINITY};
    unsigned i;

    c->driver_other = false;
    if (!peer || !peer->copies_block || !c->pageable)
        return true;
    if (!bench_side_enter(c->bench, BENCH_DRIVER))
        return false;
    for (i = 0; i < 2 * TRIES; i++) {
        double begin;

        c->driver_other = i % 2 == 1;
        if (!prepare(c))
            break;
        begin = bench_now();
        if (!copy_case_run(c, BENCH_DRIVER, NULL))
            break;
        best[i % 2] = fmin(best[i % 2], bench_now() - begin);
    }
    c->driver_other = best[1] < best[0];
    bench_side_leave(c->bench, BENCH_DRIVER);
    return i == 2 * TRIES;
}

/* ---- a row ---- */

/* Copies new bytes with leat and checks that they arrived. */
static bool verify_copy(struct copy_case *c, bool *verified)
{
    struct bench *bench = c->bench;
    uint64_t in_seed = bench_new_seed(bench);
    uint64_t out_seed = bench_new_seed(bench);
    bool holds = true;

    if (c->direction != COPY_OUT && !copy_host_fill(c->in_host, c->bytes, in_seed))
        return false;
    if (c->direction != COPY_IN && !bench_fill_device(bench, c->out_src, c->bytes, out_seed))
        return false;
    if (!prepare(c) || !copy_case_run(c, BENCH_LEAT, NULL))
        return false;
    if (c->direction != COPY_OUT && !bench_device_holds(bench, c->in_dst, c->bytes, in_seed, &holds))
        return false;
    *verified = holds && (c->direction == COPY_IN || bench_host_holds(bench, c->out_dst, c->bytes, out_seed));
    return true;
}

static double cpu_per_gb(const struct bench_row *row, const struct copy_cost *cost)
{
    return cost->cpu_seconds / ((double)cost->cpu_copies * row->moved_bytes * 1e-9);
}

static void add_costs(struct bench_row *row, struct copy_cost cost[2])
{
    bench_row_extra(row, "p99", bench_figure(row, row->result.leat.p99));
    bench_row_extra(row, "call_us", median(cost[BENCH_LEAT].calls, cost[BENCH_LEAT].call_count) * 1e6);
    bench_row_extra(row, "cpu_s_per_gb", cpu_per_gb(row, &cost[BENCH_LEAT]));
    if (!row->with_driver)
        return;
    bench_row_extra(row, "driver_p99", bench_figure(row, row->result.driver.p99));
    bench_row_extra(row, "driver_call_us", median(cost[BENCH_DRIVER].calls, cost[BENCH_DRIVER].call_count) * 1e6);
    bench_row_extra(row, "driver_cpu_s_per_gb", cpu_per_gb(row, &cost[BENCH_DRIVER]));
}

void copy_case_measure(struct copy_case *c, struct bench_rows *rows, const char *part, const char *name,
                       double budget_seconds, double bound)
{
    static struct copy_cost costs[2]; /* too large for the stack */
    struct bench *bench = c->bench;
    bool with_driver = bench->peer != NULL;
    struct bench_result result;
    struct bench_row *row;
    bool verified = false;

    costs[BENCH_LEAT] = costs[BENCH_DRIVER] = (struct copy_cost){.call_count = 0};
    c->costs = costs;
    bench_progress(bench, "copy", name, c->bytes);
    if (!bench_measure_for(bench, copy_case_sample, c, with_driver, budget_seconds, &result) ||
        (!counts_alone(c) && (!burst(c, BENCH_LEAT, result.leat.median) ||
                              (with_driver && !burst(c, BENCH_DRIVER, result.driver.median)))) ||
        !verify_copy(c, &verified)) {
        c->costs = NULL;
        bench_case_failed(bench, "copy", name, c->bytes);
        return;
    }
    c->costs = NULL;
    row = bench_row_add(rows, "copy", name, c->bytes, BENCH_GB_S);
    row->part = part;
    row->moved_bytes = c->direction == COPY_BOTH ? 2.0 * (double)c->bytes : (double)c->bytes;
    row->result = result;
    row->with_driver = with_driver;
    row->verified = verified;
    row->bound = bound;
    add_costs(row, costs);
}
