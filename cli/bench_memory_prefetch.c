/*
 * bench_memory_prefetch.c - moves managed memory in and out in different ways and measures them: by one prefetch,
 * in chunks over several streams, by several threads, and by touching it on the host. The figures show which way
 * is best on a device, and so which values of LEAT_PREFETCH_STREAMS_IN, LEAT_PREFETCH_STREAMS_OUT and
 * LEAT_PREFETCH_CHUNK are best for leat's own prefetches.
 *
 * The bound is a copy of as many bytes from or to pinned memory, in the same run. Another row is a kernel that
 * reads prefetched memory; its bound is the same kernel on device memory.
 */
#include "bench_memory.h"

#include "bench_verify.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum prefetch_method { BY_CALLS, BY_THREADS, BY_TOUCH };

struct prefetch_case {
    struct bench *bench;
    char *managed;
    size_t bytes;
    bool out;
    enum prefetch_method method;
    unsigned streams;
    size_t chunk_bytes;
    atomic_uint failures; /* number of threads that failed */
};

static leat_device *target_of(const struct prefetch_case *c)
{
    return c->out ? LEAT_HOST : c->bench->device;
}

/* Finds chunk number i. Returns false if there are fewer chunks. */
static bool chunk_at(const struct prefetch_case *c, size_t i, char **ptr, size_t *bytes)
{
    size_t start = i * c->chunk_bytes;

    if (start >= c->bytes)
        return false;
    *ptr = c->managed + start;
    *bytes = c->bytes - start < c->chunk_bytes ? c->bytes - start : c->chunk_bytes;
    return true;
}

/* Prefetches chunks first, first + step, ... and distributes them over the streams. */
static bool give_chunks(struct prefetch_case *c, size_t first, size_t step)
{
    size_t bytes;
    char *ptr;

    for (size_t i = first; chunk_at(c, i, &ptr, &bytes); i += step)
        if (!bench_check(c->bench,
                         leat_managed_prefetch(c->bench->streams[i % c->streams], ptr, bytes, target_of(c))))
            return false;
    return true;
}

static void thread_chunks(void *argument, unsigned index, unsigned count)
{
    struct prefetch_case *c = argument;

    /* Relaxed, because the count is read only after all workers have finished. */
    if (!give_chunks(c, index, count))
        atomic_fetch_add_explicit(&c->failures, 1, memory_order_relaxed);
}

static void touch_pages(void *argument, unsigned index, unsigned count)
{
    struct prefetch_case *c = argument;
    size_t bytes;
    char *ptr;

    for (size_t i = index; chunk_at(c, i, &ptr, &bytes); i += count)
        for (size_t at = 0; at < bytes; at += 4096)
            (void)*(volatile char *)(ptr + at);
}

static bool wait_for_all(struct prefetch_case *c)
{
    for (unsigned i = 0; i < BENCH_STREAM_COUNT; i++)
        if (!bench_check(c->bench, leat_stream_synchronize(c->bench->streams[i])))
            return false;
    return true;
}

/* Moves all of the memory to the other side before a sample. Not timed. */
static bool bring_back(struct prefetch_case *c)
{
    return bench_check(c->bench, leat_managed_prefetch(c->bench->streams[0], c->managed, c->bytes,
                                                       c->out ? c->bench->device : LEAT_HOST)) &&
           wait_for_all(c);
}

static bool sample_prefetch(void *state, enum bench_side side, double *seconds)
{
    struct prefetch_case *c = state;
    bool fine = true;
    double begin;

    (void)side;
    if (!bring_back(c))
        return false;
    atomic_store_explicit(&c->failures, 0, memory_order_relaxed);
    begin = bench_now();
    if (c->method == BY_CALLS)
        fine = give_chunks(c, 0, 1);
    else
        bench_workers_run(c->bench->workers, c->method == BY_TOUCH ? touch_pages : thread_chunks, c);
    fine = fine && wait_for_all(c);
    *seconds = bench_now() - begin;
    return fine && atomic_load_explicit(&c->failures, memory_order_relaxed) == 0;
}

struct pinned_case {
    struct bench *bench;
    void *dst, *src;
    size_t bytes;
};

static bool sample_pinned(void *state, enum bench_side side, double *seconds)
{
    struct pinned_case *c = state;
    double begin = bench_now();

    (void)side;
    if (!bench_check(c->bench, leat_copy(c->bench->streams[0], c->dst, c->src, c->bytes)) ||
        !bench_check(c->bench, leat_stream_synchronize(c->bench->streams[0])))
        return false;
    *seconds = bench_now() - begin;
    return true;
}

/* Returns the rate of a copy from or to pinned memory in GB/s, or NAN if it failed. */
static double pinned_rate(struct bench *bench, size_t bytes, bool out)
{
    void *pinned = bench_buffer(bench, BENCH_PINNED_OUT), *device = bench_buffer(bench, BENCH_DEVICE_A);
    struct pinned_case c = {bench, out ? pinned : device, out ? device : pinned, bytes};
    struct bench_result result;

    if (!pinned || !device || !bench_measure_for(bench, sample_pinned, &c, false, 0.2, &result))
        return NAN;
    return (double)bytes / result.leat.median * 1e-9;
}

/* Verifies a case: writes new bytes on the host, moves them to the device and back, and checks them on both
 * sides. */
static bool verify_prefetch(struct prefetch_case *c, bool *verified)
{
    uint64_t seed = bench_new_seed(c->bench);
    double seconds;
    bool there;

    bench_fill_host(c->bench, c->managed, c->bytes, seed);
    if (!sample_prefetch(c, BENCH_LEAT, &seconds) ||
        !bench_device_holds(c->bench, c->managed, c->bytes, seed, &there))
        return false;
    *verified = there && bench_host_holds(c->bench, c->managed, c->bytes, seed);
    return true;
}

static void measure_method(struct prefetch_case *c, struct bench_rows *rows, const char *name, double bound)
{
    struct bench *bench = c->bench;
    struct bench_result result;
    struct bench_row *row;
    bool verified = false;

    bench_progress(bench, "memory", name, c->bytes);
    if (!bench_measure_for(bench, sample_prefetch, c, false, 0.3, &result) || !verify_prefetch(c, &verified)) {
        bench_case_failed(bench, "memory", name, c->bytes);
        return;
    }
    row = bench_row_add(rows, "memory", name, c->bytes, BENCH_GB_S);
    row->part = memory_part_prefetch;
    row->result = result;
    row->verified = verified;
    row->bound = bound;
    row->chunk_bytes = c->chunk_bytes < c->bytes ? c->chunk_bytes : 0;
}

static void measure_direction(struct prefetch_case *c, struct bench_rows *rows)
{
    static const struct {
        const char *in, *out;
        enum prefetch_method method;
        unsigned streams;
        size_t chunk_bytes; /* size of a chunk; 0: one chunk with all bytes */
    } methods[] = {
        {"prefetch in, one call", "prefetch out, one call", BY_CALLS, 1, 0},
        {"prefetch in, 1 stream, chunks", "prefetch out, 1 stream, chunks", BY_CALLS, 1, 16 * MIB},
        {"prefetch in, 2 streams, chunks", "prefetch out, 2 streams, chunks", BY_CALLS, 2, 16 * MIB},
        {"prefetch in, 4 streams, chunks", "prefetch out, 4 streams, chunks", BY_CALLS, 4, 16 * MIB},
        {"prefetch in, 4 streams, small chunks", "prefetch out, 4 streams, small chunks", BY_CALLS, 4, 2 * MIB},
        {"prefetch in, all threads, 4 streams", "prefetch out, all threads, 4 streams", BY_THREADS, 4, 8 * MIB},
        {NULL, "touched by all threads of the host", BY_TOUCH, 1, 2 * MIB},
    };
    double bound = pinned_rate(c->bench, c->bytes, c->out);

    for (unsigned i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        const char *name = c->out ? methods[i].out : methods[i].in;

        if (!name)
            continue;
        c->method = methods[i].method;
        c->streams = methods[i].streams;
        c->chunk_bytes = methods[i].chunk_bytes ? methods[i].chunk_bytes : c->bytes;
        measure_method(c, rows, name, bound);
    }
}

struct reading {
    struct bench *bench;
    leat_kernel *kernel;
    void *data;
    uint64_t words;
};

static bool sample_reading(void *state, enum bench_side side, double *seconds)
{
    struct reading *r = state;
    void *args[] = {&r->data, &r->words, &r->bench->wrong_device};
    double begin = bench_now();

    (void)side;
    if (!bench_launch(r->bench, 0, r->kernel, r->words / 2, args, 3) ||
        !bench_check(r->bench, leat_stream_synchronize(r->bench->streams[0])))
        return false;
    *seconds = bench_now() - begin;
    return true;
}

/* Measures a kernel that reads prefetched memory against the same kernel on device memory. */
static void measure_reading(struct prefetch_case *c, struct bench_rows *rows)
{
    static const char name[] = "kernel over prefetched managed memory";
    struct bench *bench = c->bench;
    struct reading r = {bench, memory_kernel(bench, "leat_sum_u64"), bench_buffer(bench, BENCH_DEVICE_A),
                        c->bytes / 8};
    struct bench_result device, managed;
    uint64_t seed = bench_new_seed(bench);
    struct bench_row *row;
    bool verified;

    bench_fill_host(bench, c->managed, c->bytes, seed);
    c->out = true; /* moves the memory to the device */
    if (!r.kernel || !r.data || !bench_measure_for(bench, sample_reading, &r, false, 0.2, &device) ||
        !bring_back(c) ||
        (r.data = c->managed, !bench_measure_for(bench, sample_reading, &r, false, 0.2, &managed)) ||
        !bench_device_holds(bench, c->managed, c->bytes, seed, &verified)) {
        bench_case_failed(bench, "memory", name, c->bytes);
        return;
    }
    row = bench_row_add(rows, "memory", name, c->bytes, BENCH_GB_S);
    row->part = memory_part_prefetch;
    row->result = managed;
    row->verified = verified;
    row->bound = bench_figure(row, device.leat.median);
}

void memory_prefetch(struct bench *bench, struct bench_rows *rows)
{
    struct prefetch_case c = {.bench = bench, .bytes = memory_bytes(bench)};
    void *managed;

    if (!bench->info.managed_memory)
        return;
    if (!strcmp(bench->info.driver, "cpu")) {
        bench_note(bench,
                   "memory, prefetch: left out: nothing moves on the CPU device (see leat_managed_report())");
        return;
    }
    if (!bench_check(bench, leat_memory_alloc(bench->device, LEAT_KIND_MANAGED, c.bytes, &managed))) {
        bench_case_failed(bench, "memory", "prefetch", c.bytes);
        return;
    }
    c.managed = managed;
    bench_fill_host(bench, managed, c.bytes, bench_new_seed(bench));
    for (int out = 0; out < 2; out++) {
        c.out = out;
        measure_direction(&c, rows);
    }
    measure_reading(&c, rows);
    leat_memory_free(managed);
}
