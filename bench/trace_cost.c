/*
 * trace_cost.c - what a trace costs: times calls without a trace, with one that has only times of the host, and
 * with one that has device times too. Each figure is the median of ROUNDS loops of CALLS calls.
 *
 *     make trace-cost                     # the CPU device
 *     build/bench/trace_cost cuda:0 FILE  # FILE: where the trace goes
 */
#include <leat/leat.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 200, ROUNDS = 41, BYTES = 4096, COLUMNS = 4 };

static leat_stream *stream;
static void *device_memory, *pinned_memory;

static void must(leat_status status)
{
    if (status == LEAT_OK)
        return;
    fprintf(stderr, "trace_cost: %s\n", leat_last_error());
    exit(1);
}

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void allocate_and_free(void)
{
    void *memory;

    must(leat_alloc(stream, BYTES, &memory));
    must(leat_free(stream, memory));
}

static void fill(void)
{
    must(leat_fill(stream, device_memory, 1, BYTES));
}

static void copy(void)
{
    must(leat_copy(stream, device_memory, pinned_memory, BYTES));
}

static void range(void)
{
    leat_trace_range_push("step");
    leat_trace_range_pop();
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Prints the median time of a call. */
static void measure(void (*call)(void))
{
    const struct timespec rest = {.tv_nsec = 20000000}; /* so that rings are empty */
    double times[ROUNDS];

    for (unsigned round = 0; round < ROUNDS; round++) {
        double start;

        must(leat_stream_synchronize(stream));
        nanosleep(&rest, NULL);
        start = now_ns();
        for (unsigned i = 0; i < CALLS; i++)
            call();
        times[round] = (now_ns() - start) / CALLS;
    }
    qsort(times, ROUNDS, sizeof times[0], compare);
    printf(" %14.0f", times[ROUNDS / 2]);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"no trace", "host only", "device times"};
    static void (*const calls[COLUMNS])(void) = {allocate_and_free, fill, copy, range};
    leat_device *device;

    must(leat_device_open(argc > 1 ? argv[1] : "cpu:0", &device));
    must(leat_stream_create(device, &stream));
    must(leat_alloc(stream, BYTES, &device_memory));
    must(leat_memory_alloc(device, LEAT_KIND_PINNED, BYTES, &pinned_memory));
    printf("ns a call      %14s %14s %14s %14s %8s\n", "alloc + free", "fill 4 KiB", "copy 4 KiB", "range",
           "lost");
    for (unsigned mode = 0; mode < 3; mode++) {
        leat_trace_options options = LEAT_TRACE_OPTIONS_INIT;
        leat_trace_stats stats = LEAT_TRACE_STATS_INIT;

        options.flags = mode == 1 ? LEAT_TRACE_HOST_ONLY : 0;
        if (mode)
            must(leat_trace_start(argc > 2 ? argv[2] : "/dev/null", &options));
        printf("%-14s", modes[mode]);
        for (unsigned i = 0; i < COLUMNS; i++)
            measure(calls[i]);
        if (mode)
            must(leat_trace_stop(&stats));
        printf(" %8llu\n", (unsigned long long)(stats.lost_ops + stats.lost_times));
    }
    must(leat_device_close(device));
    return 0;
}
