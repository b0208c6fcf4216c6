/*
 * bench_latency.c - measures the group "latency": the host's time for single calls, and the time of small work
 * from the call to its completion.
 */
#include "bench_side.h"
#include "bench_verify.h"

#include <math.h>
#include <string.h>

enum {
    /* Calls in one sample: enough for the resolution of the clock, and far fewer than the driver lets wait in a
     * stream (about a thousand), since more calls would block. */
    BATCH = 64
};

struct latency_case {
    struct bench *bench;
    unsigned batch; /* calls in a sample; if there are several, their completion is not timed */
    enum bench_direction direction;
    size_t bytes;
    leat_event *event;
    void *native_event;
    leat_kernel *kernel;
    uint64_t launches;
    bool completion; /* true: a sample ends when the work is complete */
    bool (*call)(struct latency_case *c, enum bench_side side);
};

static bool record(struct latency_case *c, enum bench_side side)
{
    struct bench *bench = c->bench;

    if (side == BENCH_LEAT)
        return bench_check(bench, leat_event_record(bench->streams[0], c->event));
    return bench_check_peer(bench, "call",
                            bench->peer->event_record(bench->peer, c->native_event, bench->native_streams[0]));
}

static bool query(struct latency_case *c, enum bench_side side)
{
    if (side == BENCH_LEAT)
        return bench_check(c->bench, leat_event_query(c->event));
    return bench_check_peer(c->bench, "call", c->bench->peer->event_query(c->bench->peer, c->native_event));
}

/* Launches a kernel that adds one to a counter, so that launches can be counted. */
static bool start(struct latency_case *c, enum bench_side side)
{
    struct bench *bench = c->bench;
    uint64_t count = 1;
    uint32_t value = 1;
    void *args[] = {&bench->wrong_device, &count, &value};

    c->launches++;
    if (side == BENCH_LEAT)
        return bench_check(
            bench, leat_launch(bench->streams[0], c->kernel, leat_dim(1, 1, 1), leat_dim(1, 1, 1), 0, args, 3));
    return bench_check_peer(bench, "call", bench->peer->launch(bench->peer, bench->native_streams[0], args));
}

static void copy_ends(struct latency_case *c, void **dst, void **src)
{
    void **buffers = c->bench->buffers;

    *dst = c->direction == BENCH_TO_DEVICE ? buffers[BENCH_DEVICE_A] : buffers[BENCH_PINNED_OUT];
    *src = c->direction == BENCH_TO_DEVICE ? buffers[BENCH_PINNED_IN] : buffers[BENCH_DEVICE_B];
}

static bool small_copy(struct latency_case *c, enum bench_side side)
{
    void *dst, *src;

    copy_ends(c, &dst, &src);
    return bench_side_copy(c->bench, side, 0, c->direction, dst, src, c->bytes);
}

static bool sample_calls(void *state, enum bench_side side, double *seconds)
{
    struct latency_case *c = state;
    double begin = bench_now();
    unsigned i;

    for (i = 0; i < c->batch; i++)
        if (!c->call(c, side))
            return false;
    if (c->completion && !bench_side_wait(c->bench, side, 0))
        return false;
    *seconds = (bench_now() - begin) / c->batch;
    return c->completion || bench_side_wait(c->bench, side, 0);
}

static void add_row(struct bench_rows *rows, const char *name, uint64_t bytes, const struct bench_result *result,
                    bool with_driver, bool verified)
{
    struct bench_row *row = bench_row_add(rows, "latency", name, bytes, BENCH_US);

    row->result = *result;
    row->with_driver = with_driver;
    row->verified = verified;
    row->bound = with_driver ? bench_figure(row, result->driver.median) : NAN;
}

static void measure_events(struct bench *bench, struct bench_rows *rows)
{
    struct latency_case c = {.bench = bench, .batch = BATCH, .call = record};
    bool with_driver = bench->peer && bench->peer->event_record && bench->peer->event_query;
    struct bench_result result;

    if (!bench_check(bench, leat_event_create(bench->device, &c.event)) ||
        !bench_check(bench, leat_event_native(c.event, &c.native_event)))
        goto failed;
    bench_progress(bench, "latency", "event record", 0);
    if (!bench_measure(bench, sample_calls, &c, with_driver, &result))
        goto failed;
    add_row(rows, "event record", 0, &result, with_driver, leat_event_query(c.event) == LEAT_OK);

    bench_progress(bench, "latency", "event query", 0);
    c.call = query;
    if (!bench_measure(bench, sample_calls, &c, with_driver, &result))
        goto failed;
    add_row(rows, "event query", 0, &result, with_driver, true); /* verified: each query has returned that the work
                                                                  * is complete */
    leat_event_destroy(c.event);
    return;

failed:
    bench_case_failed(bench, "latency", "events", 0);
    leat_event_destroy(c.event);
}

/* Sets *counted to true if the kernels have incremented the counter once for each launch. */
static bool launches_counted(struct latency_case *c, bool *counted)
{
    struct bench *bench = c->bench;

    if (!bench_check(bench, leat_copy(bench->streams[0], bench->wrong_host, bench->wrong_device, 8)) ||
        !bench_check(bench, leat_stream_synchronize(bench->streams[0])))
        return false;
    *counted = *bench->wrong_host == c->launches;
    return true;
}

static bool measure_launch(struct latency_case *c, struct bench_rows *rows, const char *name, bool with_driver)
{
    struct bench *bench = c->bench;
    struct bench_result result;
    bool verified;

    bench_progress(bench, "latency", name, 0);
    c->launches = 0;
    if (!bench_check(bench, leat_fill(bench->streams[0], bench->wrong_device, 0, 8)) ||
        !bench_measure(bench, sample_calls, c, with_driver, &result) || !launches_counted(c, &verified))
        return false;
    add_row(rows, name, 0, &result, with_driver, verified);
    return true;
}

static void measure_launches(struct bench *bench, struct bench_rows *rows)
{
    struct latency_case c = {.bench = bench, .batch = BATCH, .call = start, .kernel = bench->add};
    bool with_driver = bench->peer && bench->peer->launch;
    leat_module *module = NULL;

    /* Both sides launch the same kernel. */
    if (with_driver && (!bench_check(bench, leat_module_load(bench->device, bench->peer->image,
                                                             strlen(bench->peer->image), &module)) ||
                        !bench_check(bench, leat_kernel_get(module, bench->peer->image_kernel, &c.kernel))))
        goto failed;
    if (!measure_launch(&c, rows, "kernel launch, the call", with_driver))
        goto failed;
    c.batch = 1;
    c.completion = true;
    if (!measure_launch(&c, rows, "kernel launch, to completion", with_driver))
        goto failed;
    leat_module_unload(module);
    return;

failed:
    bench_case_failed(bench, "latency", "kernel launch", 0);
    leat_module_unload(module);
}

/* Copies new bytes with leat and checks that they arrived. */
static bool verify_small_copy(struct latency_case *c, bool *verified)
{
    struct bench *bench = c->bench;
    uint64_t seed = bench_new_seed(bench);
    void *dst, *src;

    copy_ends(c, &dst, &src);
    if (c->direction == BENCH_TO_DEVICE)
        bench_fill_host(bench, src, c->bytes, seed);
    else if (!bench_fill_device(bench, src, c->bytes, seed))
        return false;
    if (!small_copy(c, BENCH_LEAT) || !bench_side_wait(bench, BENCH_LEAT, 0))
        return false;
    if (c->direction == BENCH_TO_DEVICE)
        return bench_device_holds(bench, dst, c->bytes, seed, verified);
    *verified = bench_host_holds(bench, dst, c->bytes, seed);
    return true;
}

static void measure_small_copy(struct bench *bench, struct bench_rows *rows, enum bench_direction direction,
                               bool completion, size_t bytes)
{
    static const char *const names[2][2] = {
        {"copy to the device, the call", "copy to the device, to completion"},
        {"copy to the host, the call", "copy to the host, to completion"},
    };
    const char *name = names[direction == BENCH_TO_HOST][completion];
    struct latency_case c = {.bench = bench,
                             .batch = completion ? 1 : BATCH,
                             .direction = direction,
                             .bytes = bytes,
                             .completion = completion,
                             .call = small_copy};
    /* A peer without events postpones its copies until the wait, so its call alone cannot be timed. */
    bool with_driver = bench->peer && (completion || bench->peer->event_record);
    struct bench_result result;
    bool verified = false;

    bench_progress(bench, "latency", name, bytes);
    if (!bench_buffer(bench, BENCH_PINNED_IN) || !bench_buffer(bench, BENCH_PINNED_OUT) ||
        !bench_buffer(bench, BENCH_DEVICE_A) || !bench_buffer(bench, BENCH_DEVICE_B) ||
        !bench_measure(bench, sample_calls, &c, with_driver, &result) || !verify_small_copy(&c, &verified)) {
        bench_case_failed(bench, "latency", name, bytes);
        return;
    }
    add_row(rows, name, bytes, &result, with_driver, verified);
}

void bench_latency_group(struct bench *bench)
{
    static const size_t sizes[] = {4, 4 * KIB, 64 * KIB};
    static const enum bench_direction directions[] = {BENCH_TO_DEVICE, BENCH_TO_HOST};
    struct bench_rows rows = {.count = 0};
    unsigned direction, i;

    measure_events(bench, &rows);
    measure_launches(bench, &rows);
    for (direction = 0; direction < 2; direction++) {
        measure_small_copy(bench, &rows, directions[direction], false, 4 * KIB);
        for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            measure_small_copy(bench, &rows, directions[direction], true, sizes[i]);
    }
    bench_rows_commit(bench, &rows);
}
