/*
 * replay_run.c - replays a trace, round after round, and times each call.
 *
 * It reads the clock before and after each call, and subtracts the cost of two readings, which it measures at the
 * start. It does not time its own work between the calls, nor the queries to the pool at the end of a round.
 */
#include "output_file.h"
#include "replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLOCK_SAMPLES = 1001 };

struct run {
    struct replay_target *target;
    const struct replay_options *options;
    const struct trace *trace;
    struct replay_result *result;
    struct output_file output; /* of the snapshot */
    bool snapshot;             /* it is open */
    void **blocks;             /* address of each block of the trace; NULL: the block is not allocated now */

    /* Times of the calls in ns, for each round and block. Longer times than their type can hold count as 4.2 s. */
    uint32_t *alloc_ns, *free_ns;
    uint64_t total_ns[REPLAY_ROUNDS_MAX], stalled_ns[REPLAY_ROUNDS_MAX];
    unsigned round;

    size_t peak_event; /* index of the allocation at which the requested bytes reach their peak */
    uint64_t live_bytes, sampled_bytes;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int compare_ns(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Returns the median time between two consecutive readings of the clock. */
static uint64_t clock_cost_ns(void)
{
    uint32_t samples[CLOCK_SAMPLES];
    unsigned i;

    for (i = 0; i < CLOCK_SAMPLES; i++) {
        uint64_t begin_ns = now_ns();

        samples[i] = (uint32_t)(now_ns() - begin_ns);
    }
    qsort(samples, CLOCK_SAMPLES, sizeof samples[0], compare_ns);
    return samples[CLOCK_SAMPLES / 2];
}

/* Subtracts the cost of the clock from the time of one call, adds the result to the totals, and returns it. */
static uint32_t book(struct run *run, uint64_t elapsed_ns)
{
    uint64_t cost_ns = run->result->clock_ns;
    uint64_t ns = elapsed_ns > cost_ns ? elapsed_ns - cost_ns : 0;

    run->total_ns[run->round] += ns;
    if (ns > REPLAY_STALL_NS)
        run->stalled_ns[run->round] += ns - REPLAY_STALL_NS;
    return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/* ---- one event ---- */

static bool alloc_block(struct run *run, uint32_t index)
{
    const struct trace_block *block = &run->trace->blocks[index];
    struct replay_target *target = run->target;
    uint64_t begin_ns = now_ns();
    bool fine = target->alloc(target, block, &run->blocks[index]);
    uint64_t end_ns = now_ns();

    if (!fine) {
        run->blocks[index] = NULL;
        return false;
    }
    run->alloc_ns[run->round * run->trace->block_count + index] = book(run, end_ns - begin_ns);
    run->live_bytes += block->bytes;
    return true;
}

static bool free_block(struct run *run, uint32_t index, unsigned stream)
{
    const struct trace_block *block = &run->trace->blocks[index];
    struct replay_target *target = run->target;
    /* If the trace reports uses by other streams (is_reported), leat's pool already knows them from
     * replay_order(). Other allocators do not, so treat the block as used elsewhere. */
    bool used_elsewhere = (block->used_elsewhere && !run->options->hold) || (block->is_reported && !target->pool);
    uint64_t begin_ns = now_ns();
    bool fine = target->free(target, stream, used_elsewhere, run->blocks[index]);
    uint64_t end_ns = now_ns();

    if (!fine)
        return false;
    run->blocks[index] = NULL;
    run->free_ns[run->round * run->trace->block_count + index] = book(run, end_ns - begin_ns);
    run->live_bytes -= block->bytes;
    return true;
}

/* Takes a sample of the memory in use if the live bytes have grown by 1/256 of their peak since the last sample,
 * and at their peak. It takes no more samples, because a query for the driver's free memory takes longer than many
 * allocations. */
static void sample(struct run *run, size_t event)
{
    uint64_t step_bytes = run->result->peak_requested_bytes / 256;

    if (event != run->peak_event && run->live_bytes < run->sampled_bytes + step_bytes)
        return;
    run->sampled_bytes = run->live_bytes;
    run->target->sample(run->target);
}

static void write_piece(void *argument, const char *text, size_t bytes)
{
    fwrite(text, 1, bytes, argument);
}

static bool write_snapshot(struct run *run)
{
    struct replay_target *target = run->target;

    if (leat_pool_snapshot(target->pool, write_piece, run->output.file) != LEAT_OK) {
        snprintf(target->error, sizeof target->error, "%s", leat_last_error());
        return false;
    }
    run->snapshot = false;
    if (output_file_close(&run->output, true))
        return true;
    snprintf(target->error, sizeof target->error, "%.300s cannot be written: %s", run->options->snapshot,
             strerror(errno));
    return false;
}

/* Puts the position of a failed allocation or free in the trace in front of the error. Returns false. */
static bool locate(struct run *run, const char *what, uint32_t index)
{
    const struct trace_block *block = &run->trace->blocks[index];
    char why[REPLAY_ERROR_MAX], place[TRACE_PLACE_MAX];

    snprintf(why, sizeof why, "%s", run->target->error);
    snprintf(run->target->error, sizeof run->target->error,
             "%s the %llu bytes of %s of %.200s, in round %u with %llu bytes live: %.1500s", what,
             (unsigned long long)block->bytes, trace_place(run->trace, index, place), run->options->trace,
             run->round + 1, (unsigned long long)run->live_bytes, why);
    return false;
}

static bool order_streams(struct run *run, const struct trace_event *event)
{
    char why[REPLAY_ERROR_MAX];

    if (replay_order(run->target, event, run->blocks[event->block]))
        return true;
    snprintf(why, sizeof why, "%s", run->target->error);
    snprintf(run->target->error, sizeof run->target->error, "ordering the streams of %.200s, in round %u: %.1500s",
             run->options->trace, run->round + 1, why);
    return false;
}

static bool replay_event(struct run *run, size_t i)
{
    const struct trace_event *event = &run->trace->events[i];
    enum trace_op end = run->options->hold ? TRACE_FREED : TRACE_FREE;

    if (event->op == end)
        return free_block(run, event->block, event->stream) || locate(run, "freeing", event->block);
    if (event->op > TRACE_FREED)
        return order_streams(run, event);
    if (event->op != TRACE_ALLOC)
        return true;
    if (!alloc_block(run, event->block))
        return locate(run, "allocating", event->block);
    if (run->target->sample)
        sample(run, i);
    if (i == run->peak_event && run->round + 1 == run->options->rounds && run->snapshot)
        return write_snapshot(run);
    return true;
}

/* ---- one round ---- */

/* Frees the blocks that the trace never frees, on the streams of their allocations. */
static bool free_rest(struct run *run)
{
    uint32_t index;

    for (index = 0; index < run->trace->block_count; index++)
        if (run->blocks[index] && !free_block(run, index, run->trace->blocks[index].stream))
            return locate(run, "freeing", index);
    return true;
}

/* Frees all blocks after a failure. Keeps the message of the first failure. */
static void give_up(struct run *run)
{
    struct replay_target *target = run->target;
    char first[REPLAY_ERROR_MAX];
    uint32_t index;

    memcpy(first, target->error, sizeof first);
    for (index = 0; index < run->trace->block_count; index++)
        if (run->blocks[index])
            target->free(target, run->trace->blocks[index].stream, false, run->blocks[index]);
    memcpy(target->error, first, sizeof first);
}

static bool trim(struct run *run)
{
    struct replay_result *result = run->result;
    leat_pool_stats statistics = LEAT_POOL_STATS_INIT;

    if (leat_device_synchronize(run->target->device) == LEAT_OK &&
        leat_pool_trim(run->target->pool, 0, &result->trimmed_bytes, &result->trim_pending_bytes) == LEAT_OK &&
        replay_statistics(run->target, &statistics)) {
        result->trim_left_bytes = statistics.reserved_bytes;
        return true;
    }
    snprintf(run->target->error, sizeof run->target->error, "%s", leat_last_error());
    return false;
}

static bool replay_round(struct run *run)
{
    size_t i;

    run->live_bytes = run->sampled_bytes = 0;
    for (i = 0; i < run->trace->event_count; i++)
        if (!replay_event(run, i))
            return false;
    return free_rest(run) && (!run->options->trim || trim(run));
}

/* ---- figures ---- */

/* Returns a percentile of sorted times: the smallest time that thousandths/1000 of the times do not exceed. */
static uint64_t percentile(const uint32_t *sorted, size_t count, unsigned thousandths)
{
    size_t rank = (count * thousandths + 999) / 1000;

    return sorted[rank > 0 ? rank - 1 : 0];
}

/* Sorts the times and returns their statistics. */
static struct replay_times summarize(uint32_t *times, size_t count)
{
    uint64_t sum = 0;
    size_t i;

    for (i = 0; i < count; i++)
        sum += times[i];
    qsort(times, count, sizeof times[0], compare_ns);
    return (struct replay_times){(double)sum / (double)count, percentile(times, count, 500),
                                 percentile(times, count, 990), percentile(times, count, 999), times[count - 1]};
}

/* Computes the times of the rounds from begin to before end. scratch has room for the times of all rounds. */
static void sum_times(const struct run *run, unsigned begin, unsigned end, uint32_t *scratch,
                      struct replay_figures *figures)
{
    size_t blocks = run->trace->block_count, count = (end - begin) * blocks, i;
    const uint32_t *alloc_ns = run->alloc_ns + begin * blocks, *free_ns = run->free_ns + begin * blocks;
    unsigned round;

    memcpy(scratch, alloc_ns, count * sizeof *scratch);
    figures->alloc = summarize(scratch, count);
    memcpy(scratch, free_ns, count * sizeof *scratch);
    figures->free = summarize(scratch, count);
    for (i = 0; i < count; i++)
        scratch[i] = free_ns[i] > UINT32_MAX - alloc_ns[i] ? UINT32_MAX : alloc_ns[i] + free_ns[i];
    figures->pair = summarize(scratch, count);
    for (round = begin; round < end; round++)
        figures->total_ns += run->total_ns[round];
}

/* Computes the figures of a round from the statistics before and after it. */
static void take_counts(struct run *run, const leat_pool_stats *before, const leat_pool_stats *after,
                        struct replay_figures *figures)
{
    figures->rounds = 1;
    figures->driver_calls = after->driver_calls - before->driver_calls;
    figures->events = after->events - before->events;
    figures->queries = after->queries - before->queries;
    figures->stream_waits = after->stream_waits - before->stream_waits;
    figures->host_waits = after->host_waits - before->host_waits;
    figures->cache_hits = after->cache_hits - before->cache_hits;
    figures->created_bytes = after->pages_created - before->pages_created;
    figures->stitched_bytes = after->pages_stitched - before->pages_stitched;
    figures->released_bytes = after->pages_released - before->pages_released;
    figures->stitches = after->stitches - before->stitches;
    figures->stitch_reuses = after->stitch_reuses - before->stitch_reuses;
    figures->planned = after->planned - before->planned;
    figures->packing = after->packing;
    /* A pool measures its time inside the driver. For other allocators use the excess time of long calls. */
    figures->stalled_ns = run->target->pool ? after->driver_ns - before->driver_ns : run->stalled_ns[run->round];
    figures->peak_known = replay_peak_bytes(run->target, &figures->peak_reserved_bytes);
}

/* Adds the counts of the rounds from begin to before end. */
static void sum_counts(const struct replay_result *result, unsigned begin, unsigned end,
                       struct replay_figures *figures)
{
    unsigned round;

    for (round = begin; round < end; round++) {
        const struct replay_figures *one = &result->each[round];

        figures->rounds++;
        figures->stalled_ns += one->stalled_ns;
        figures->driver_calls += one->driver_calls;
        figures->events += one->events;
        figures->queries += one->queries;
        figures->stream_waits += one->stream_waits;
        figures->host_waits += one->host_waits;
        figures->cache_hits += one->cache_hits;
        figures->created_bytes += one->created_bytes;
        figures->stitched_bytes += one->stitched_bytes;
        figures->released_bytes += one->released_bytes;
        figures->stitches += one->stitches;
        figures->stitch_reuses += one->stitch_reuses;
        figures->planned += one->planned;
        figures->packing = one->packing;
        figures->peak_known = one->peak_known;
        figures->peak_reserved_bytes = one->peak_reserved_bytes;
    }
}

/* Computes the figures of several rounds together. */
static void sum_rounds(const struct run *run, unsigned begin, unsigned end, uint32_t *scratch,
                       struct replay_figures *figures)
{
    if (begin >= end)
        return;
    sum_times(run, begin, end, scratch, figures);
    sum_counts(run->result, begin, end, figures);
}

static bool sum_all(struct run *run)
{
    struct replay_result *result = run->result;
    unsigned rounds = run->options->rounds, round;
    uint32_t *scratch = malloc((rounds * run->trace->block_count + 1) * sizeof *scratch);

    if (!scratch) {
        snprintf(run->target->error, sizeof run->target->error, "out of host memory");
        return false;
    }
    for (round = 0; round < rounds; round++)
        sum_times(run, round, round + 1, scratch, &result->each[round]);
    sum_rounds(run, 2, rounds, scratch, &result->later);
    sum_rounds(run, 0, rounds, scratch, &result->all);
    free(scratch);
    return true;
}

static bool replay_rounds(struct run *run)
{
    struct replay_result *result = run->result;
    leat_pool_stats before = {.size = sizeof before};

    result->rounds = run->options->rounds;
    for (run->round = 0; run->round < result->rounds; run->round++) {
        if (!replay_round(run) || !replay_statistics(run->target, &result->statistics))
            return false;
        take_counts(run, &before, &result->statistics, &result->each[run->round]);
        before = result->statistics;
    }
    return sum_all(run);
}

bool replay_run(struct replay_target *target, const struct replay_options *options, const struct trace *trace,
                struct replay_result *result)
{
    struct run run = {.target = target, .options = options, .trace = trace, .result = result};
    size_t times = options->rounds * trace->block_count;
    bool fine = false;

    memset(result, 0, sizeof *result);
    result->peak_requested_bytes = trace_peak_bytes(trace, options->hold, &run.peak_event);
    result->clock_ns = clock_cost_ns();
    run.blocks = calloc(trace->block_count, sizeof *run.blocks);
    run.alloc_ns = calloc(times, sizeof *run.alloc_ns);
    run.free_ns = calloc(times, sizeof *run.free_ns);
    /* Open the file before the first round, so that a wrong name is reported at once. */
    run.snapshot = options->snapshot && output_file_open(&run.output, options->snapshot);
    if (options->snapshot && !run.snapshot)
        snprintf(target->error, sizeof target->error, "%.300s cannot be written: %s", options->snapshot,
                 strerror(errno));
    else if (!run.blocks || !run.alloc_ns || !run.free_ns)
        snprintf(target->error, sizeof target->error, "out of host memory");
    else
        fine = replay_rounds(&run);
    if (!fine && run.blocks)
        give_up(&run);
    if (run.snapshot)
        output_file_close(&run.output, false);
    free(run.free_ns);
    free(run.alloc_ns);
    free(run.blocks);
    return fine;
}
