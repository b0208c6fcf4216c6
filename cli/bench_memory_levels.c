/*
 * bench_memory_levels.c - measures the levels of memory. For the latency, one thread follows a chain, in which
 * each load needs the result of the load before it. For the rate, all threads read as fast as they can.
 *
 * A chain visits each line of 128 bytes of a buffer once, in an order that no prefetcher predicts. The end of the
 * chain, or the sum of the words that were read, verifies a row.
 */
#include "bench_memory.h"

#include "bench_verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_WORDS = 16,
    REGISTER_STEPS = 1 << 20,
    LOCAL_STEPS = 1 << 18,
    LOCAL_WORDS = 256,
    CHASE_STEPS = 1 << 16
};

struct level {
    struct bench *bench;
    leat_kernel *kernel;
    void *args[5];
    unsigned argument_count;
    uint64_t threads; /* 1 for a chain, otherwise the number of elements */
};

static bool sample_level(void *state, enum bench_side side, double *seconds)
{
    struct level *level = state;
    struct bench *bench = level->bench;
    double begin = bench_now();

    (void)side;
    if (!bench_launch(bench, 0, level->kernel, level->threads, level->args, level->argument_count) ||
        !bench_check(bench, leat_stream_synchronize(bench->streams[0])))
        return false;
    *seconds = bench_now() - begin;
    return true;
}

/* Returns the time in seconds to launch an empty kernel and wait for it. */
static double launch_seconds(struct bench *bench)
{
    uint64_t steps = 0, factor = 1;
    struct level level = {
        bench, memory_kernel(bench, "leat_chain_u64"), {&steps, &factor, &bench->wrong_device}, 3, 1};
    struct bench_result result;

    if (!level.kernel || !bench_measure_for(bench, sample_level, &level, false, 0.1, &result))
        return 0;
    return result.leat.median;
}

/* Measures the time of one step of a chain with this number of steps, or, if steps is 0, the rate of reading moved
 * bytes. wanted: the result that verifies the row. */
static void measure_level(struct level *level, struct bench_rows *rows, const char *name, uint64_t bytes,
                          uint64_t steps, double moved, uint64_t wanted)
{
    struct bench *bench = level->bench;
    double empty = steps ? launch_seconds(bench) : 0;
    struct bench_result result;
    struct bench_row *row;
    uint64_t found = 0;

    bench_progress(bench, "memory", name, bytes);
    if (!level->kernel || !bench_measure_for(bench, sample_level, level, false, 0.3, &result) ||
        !memory_result(bench, sample_level, level, &found)) {
        bench_case_failed(bench, "memory", name, bytes);
        return;
    }
    row = bench_row_add(rows, "memory", name, bytes, steps ? BENCH_NS : BENCH_GB_S);
    row->part = steps ? "levels of memory: one step that needs the one before" : "levels of memory: reading";
    row->moved_bytes = moved;
    if (steps) {
        double *times[] = {&result.leat.median, &result.leat.best, &result.leat.p99, &result.leat.worst};

        /* Subtract the time of the launch and the wait, which are not part of a step. */
        for (unsigned i = 0; i < sizeof times / sizeof times[0]; i++)
            *times[i] = (*times[i] > empty ? *times[i] - empty : 0) / (double)steps;
    }
    row->result = result;
    row->verified = found == wanted;
}

static void measure_registers(struct bench *bench, struct bench_rows *rows)
{
    uint64_t steps = REGISTER_STEPS, factor = 6364136223846793005u, wanted = 1;
    struct level level = {
        bench, memory_kernel(bench, "leat_chain_u64"), {&steps, &factor, &bench->wrong_device}, 3, 1};

    for (uint64_t i = 0; i < steps; i++)
        wanted = wanted * factor + 1;
    measure_level(&level, rows, "registers, a multiplication and an addition", 0, steps, 0, wanted);
}

static void measure_local(struct bench *bench, struct bench_rows *rows)
{
    uint64_t steps = LOCAL_STEPS;
    struct level level = {
        bench, memory_kernel(bench, "leat_chase_local_u64"), {&steps, &bench->wrong_device}, 2, 1};

    measure_level(&level, rows, "local memory of a thread", LOCAL_WORDS * sizeof(uint32_t), steps, 0,
                  steps * 97 % LOCAL_WORDS);
}

/* Writes a chain that visits all lines of a buffer once. Returns the index of the word to which this number of
 * steps leads from word 0. */
static uint64_t write_chain(uint64_t *words, size_t lines, uint64_t steps, uint64_t seed)
{
    uint64_t *order = malloc(lines * sizeof *order), end;

    if (!order)
        return UINT64_MAX;
    for (size_t i = 0; i < lines; i++)
        order[i] = i;
    /* Line 0 stays first; the others are shuffled. */
    for (size_t i = lines - 1; i > 1; i--) {
        size_t other = 1 + (size_t)(leat_pattern_value(i, seed) % i);
        uint64_t kept = order[i];

        order[i] = order[other];
        order[other] = kept;
    }
    for (size_t i = 0; i < lines; i++)
        words[order[i] * LINE_WORDS] = order[(i + 1) % lines] * LINE_WORDS;
    end = order[steps % lines] * LINE_WORDS;
    free(order);
    return end;
}

/* Measures a chain through this number of bytes of memory. The host writes the chain. device: the memory to which
 * it is copied; NULL: the kernel reads it in place, at the address mapped. */
static void measure_chain(struct bench *bench, struct bench_rows *rows, const char *name, size_t bytes,
                          void *device, void *mapped)
{
    void *data = device ? device : mapped;
    uint64_t *host = bench_buffer(bench, BENCH_PINNED_IN);
    uint64_t steps = CHASE_STEPS, end;
    struct level level = {
        bench, memory_kernel(bench, "leat_chase_u64"), {&data, &steps, &bench->wrong_device}, 3, 1};

    if (!host || !level.kernel) {
        bench_case_failed(bench, "memory", name, bytes);
        return;
    }
    end = write_chain(host, bytes / (LINE_WORDS * 8), steps, bench_new_seed(bench));
    if (device && !bench_check(bench, leat_copy(bench->streams[0], device, host, bytes))) {
        bench_case_failed(bench, "memory", name, bytes);
        return;
    }
    measure_level(&level, rows, name, bytes, steps, 0, end);
}

/* Measures the rate at which all threads read the memory at data. */
static void measure_reading(struct bench *bench, struct bench_rows *rows, const char *name, size_t bytes,
                            void *data, uint64_t seed)
{
    uint64_t words = bytes / 8, wanted = 0;
    struct level level = {
        bench, memory_kernel(bench, "leat_sum_u64"), {&data, &words, &bench->wrong_device}, 3, words / 2};

    for (uint64_t i = 0; i < words; i++)
        wanted += leat_pattern_value(i, seed);
    measure_level(&level, rows, name, bytes, 0, (double)bytes, wanted);
}

void memory_levels(struct bench *bench, struct bench_rows *rows)
{
    static const size_t sizes[] = {16 * KIB, 4 * MIB, 256 * MIB};
    static const char *const names[] = {"device memory, 16 KiB", "device memory, 4 MiB",
                                        "device memory, most of it"};
    size_t largest = memory_bytes(bench);
    void *device = bench_buffer(bench, BENCH_DEVICE_A);
    void *pinned = device ? bench_buffer(bench, BENCH_PINNED_IN) : NULL;
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    uint64_t seed;

    if (!pinned || !bench_check(bench, leat_pointer_get_info(pinned, &info))) {
        bench_case_failed(bench, "memory", "levels", largest);
        return;
    }
    bench_note(bench, "memory, levels: shared memory of a block is not measured: leat's device code has none");
    measure_registers(bench, rows);
    measure_local(bench, rows);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure_chain(bench, rows, names[i], sizes[i] < largest ? sizes[i] : largest, device, NULL);
    measure_chain(bench, rows, "host memory, in place", largest, NULL, info.device_pointer);
    seed = bench_new_seed(bench);
    if (!bench_fill_device(bench, device, largest, seed)) {
        bench_case_failed(bench, "memory", "levels", largest);
        return;
    }
    measure_reading(bench, rows, "device memory", largest, device, seed);
    bench_fill_host(bench, pinned, largest, seed);
    measure_reading(bench, rows, "host memory, in place", largest, info.device_pointer, seed);
}
