/*
 * bench_device.c - measures the group "device": copies within a device, and copies to another device of the same
 * driver.
 */
#include "bench_side.h"
#include "bench_verify.h"

#include <stdio.h>
#include <string.h>

struct device_case {
    struct bench *bench;
    void *dst, *src;
    size_t bytes;
};

static bool sample_copy(void *state, enum bench_side side, double *seconds)
{
    struct device_case *c = state;
    double begin = bench_now();
    bool fine = bench_side_copy(c->bench, side, 0, BENCH_ON_DEVICE, c->dst, c->src, c->bytes) &&
                bench_side_wait(c->bench, side, 0);

    *seconds = bench_now() - begin;
    return fine;
}

/* Verifies a copy that leat makes. back: the memory whose bytes are checked. It is dst, or, if dst is on another
 * device, memory of the bench's device, to which dst is then copied. */
static bool verify_copy(struct device_case *c, void *back, bool *verified)
{
    struct bench *bench = c->bench;
    uint64_t seed = bench_new_seed(bench);
    double seconds;

    if (!bench_fill_device(bench, c->src, c->bytes, seed) || !sample_copy(c, BENCH_LEAT, &seconds))
        return false;
    if (back != c->dst && (!bench_check(bench, leat_copy(bench->streams[0], back, c->dst, c->bytes)) ||
                           !bench_check(bench, leat_stream_synchronize(bench->streams[0]))))
        return false;
    return bench_device_holds(bench, back, c->bytes, seed, verified);
}

static void measure_case(struct device_case *c, struct bench_rows *rows, const char *name, double counted,
                         void *back)
{
    struct bench *bench = c->bench;
    struct bench_result result;
    struct bench_row *row;
    bool verified = false;

    bench_progress(bench, "device", name, c->bytes);
    if (!bench_measure(bench, sample_copy, c, bench->peer != NULL, &result) || !verify_copy(c, back, &verified)) {
        bench_case_failed(bench, "device", name, c->bytes);
        return;
    }
    row = bench_row_add(rows, "device", name, c->bytes, BENCH_GB_S);
    row->moved_bytes = counted * (double)c->bytes;
    row->result = result;
    row->with_driver = bench->peer != NULL;
    row->verified = verified;
    row->path = name;
}

/* Measures all sizes between one pair of buffers. */
static void measure_sizes(struct bench *bench, struct bench_rows *rows, const char *name, void *dst, void *src,
                          double counted, void *back)
{
    static const size_t sizes[] = {64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB};
    struct device_case c = {bench, dst, src, 0};
    unsigned i;

    for (i = 0; i < sizeof sizes / sizeof sizes[0] && sizes[i] <= bench->largest; i++) {
        if (bench->options->quick && sizes[i] == 64 * MIB)
            continue;
        c.bytes = sizes[i];
        measure_case(&c, rows, name, counted, back);
    }
}

/* Opens another device of the same driver. Returns NULL if there is none. */
static leat_device *open_other(struct bench *bench)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_device *other = NULL;
    unsigned i;

    for (i = 0; leat_device_list(i, &info) == LEAT_OK; i++)
        if (!strcmp(info.driver, bench->info.driver) && info.ordinal != bench->info.ordinal) {
            if (leat_device_open(info.name, &other) == LEAT_OK)
                return other;
            bench_note(bench, "device, to another device: %s", leat_last_error());
            return NULL;
        }
    bench_note(bench, "device, to another device: left out, since %s is the only device of its driver",
               bench->info.name);
    return NULL;
}

static void measure_other(struct bench *bench, struct bench_rows *rows, void *src, void *back)
{
    leat_device *other = open_other(bench);
    void *dst;

    if (!other)
        return;
    if (bench_check(bench, leat_memory_alloc(other, LEAT_KIND_DEVICE, bench->largest, &dst))) {
        measure_sizes(bench, rows, "to another device", dst, src, 1, back);
        bench_check(bench, leat_memory_free(dst));
    }
    if (!bench_check(bench, leat_device_close(other)) || bench->error[0])
        bench_case_failed(bench, "device", "to another device", bench->largest);
}

void bench_device_group(struct bench *bench)
{
    struct bench_rows rows = {.count = 0};
    size_t begin = json_array_size(bench->rows);
    void *src = bench_buffer(bench, BENCH_DEVICE_A);
    void *dst = src ? bench_buffer(bench, BENCH_DEVICE_B) : NULL;

    if (!src || !dst) {
        bench_case_failed(bench, "device", "buffers", bench->largest);
        return;
    }
    measure_sizes(bench, &rows, "on one device, read + write", dst, src, 2, dst);
    measure_other(bench, &rows, src, dst);
    bench_rows_commit(bench, &rows);
    bench_settle_bounds(bench, begin);
}
