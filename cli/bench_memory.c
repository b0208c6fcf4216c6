/*
 * bench_memory.c - measures the group "memory": a kernel reads data that begins on the host, either all of it or
 * only some pages (the access). Each strategy makes the data reachable for the kernel in another way.
 *
 * Each sample begins with the data on the host and ends when the kernel has completed. The rate counts the bytes
 * that the kernel reads, and not the bytes that move for it, so that rows of one access can be compared. The sum
 * that the kernel computes verifies a row.
 */
#include "bench_memory.h"

#include "bench_verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PAGE_BYTES = 4096, PAGE_WORDS = PAGE_BYTES / 8, PAGE_SHIFT = 9 /* 1 << 9 words */ };

const char *const memory_strategy_labels[MEMORY_STRATEGY_COUNT] = {
    "copied from pageable memory", "copied from pinned memory", "read in place (mapped)", "managed",
    "managed, prefetched"};

const char *const memory_access_labels[MEMORY_ACCESS_COUNT] = {"all of it", "all of it, 8 times", "every 8th page",
                                                               "every 64th page", "every 512th page"};

const char memory_part_strategies[] = "bytes read by a kernel, from the host";
const char memory_part_levels[] = "levels of memory";
const char memory_part_prefetch[] = "prefetch of managed memory";

static const struct {
    unsigned times;      /* number of times that the kernel reads the same pages */
    size_t stride_pages; /* distance in pages from one page that the kernel reads to the next */
} accesses[MEMORY_ACCESS_COUNT] = {{1, 1}, {8, 1}, {1, 8}, {1, 64}, {1, 512}};

/* One strategy with one access. */
struct memory_case {
    struct bench *bench;
    enum memory_strategy strategy;
    unsigned access;
    void *host;   /* the data before the kernel runs: host memory, or the managed memory itself */
    void *device; /* device memory to which the strategy copies the data, or NULL */
    void *read;   /* the address that the kernel gets */
    size_t bytes;
    leat_kernel *sum, *runs;
    uint64_t seed;
};

size_t memory_bytes(const struct bench *bench)
{
    size_t wanted = bench->options->quick ? 64 * MIB : 256 * MIB;

    /* Round a size up to 2 MiB, or 512 pages, so that every access reads at least one page. */
    if (bench->options->size_count)
        wanted = (bench->options->sizes[0] + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    return wanted < bench->largest ? wanted : bench->largest;
}

leat_kernel *memory_kernel(struct bench *bench, const char *name)
{
    leat_module *module;
    leat_kernel *kernel;

    return bench_check(bench, leat_module_builtin(bench->device, &module)) &&
                   bench_check(bench, leat_kernel_get(module, name, &kernel))
               ? kernel
               : NULL;
}

static uint64_t pages_read(const struct memory_case *c)
{
    uint64_t stride = accesses[c->access].stride_pages;

    return (c->bytes / PAGE_BYTES + stride - 1) / stride;
}

/* Launches kernels that read the pages of the access, as many times as the access says. */
static bool launch_reading(struct memory_case *c)
{
    uint64_t runs = pages_read(c), shift = PAGE_SHIFT, stride = accesses[c->access].stride_pages * PAGE_WORDS,
             words = c->bytes / 8;
    struct bench *bench = c->bench;
    void *dense[] = {&c->read, &words, &bench->wrong_device};
    void *sparse[] = {&c->read, &runs, &shift, &stride, &bench->wrong_device};
    unsigned i;

    for (i = 0; i < accesses[c->access].times; i++)
        if (accesses[c->access].stride_pages == 1 ? !bench_launch(bench, 0, c->sum, words / 2, dense, 3)
                                                  : !bench_launch(bench, 0, c->runs, runs << shift, sparse, 5))
            return false;
    return true;
}

/* Moves managed pages back to the host before the next sample. It writes them there, because prefetch may be
 * unsupported. Not timed. */
static bool bring_back(struct memory_case *c)
{
    if (c->strategy == MEMORY_MANAGED || c->strategy == MEMORY_PREFETCHED)
        bench_fill_host(c->bench, c->host, c->bytes, c->seed);
    return true;
}

static bool sample_case(void *state, enum bench_side side, double *seconds)
{
    struct memory_case *c = state;
    struct bench *bench = c->bench;
    leat_stream *stream = bench->streams[0];
    double begin;

    (void)side;
    if (!bring_back(c))
        return false;
    begin = bench_now();
    if (c->device && !bench_check(bench, leat_copy(stream, c->device, c->host, c->bytes)))
        return false;
    if (c->strategy == MEMORY_PREFETCHED &&
        !bench_check(bench, leat_managed_prefetch(stream, c->host, c->bytes, bench->device)))
        return false;
    if (!launch_reading(c) || !bench_check(bench, leat_stream_synchronize(stream)))
        return false;
    *seconds = bench_now() - begin;
    return true;
}

/* Returns the sum that the kernels must have computed. */
static uint64_t expected_sum(const struct memory_case *c)
{
    uint64_t runs = pages_read(c), stride = accesses[c->access].stride_pages * PAGE_WORDS, sum = 0;

    for (uint64_t run = 0; run < runs; run++)
        for (uint64_t i = 0; i < PAGE_WORDS; i++)
            sum += leat_pattern_value(run * stride + i, c->seed);
    return sum * accesses[c->access].times;
}

bool memory_result(struct bench *bench, bench_sample sample, void *state, uint64_t *found)
{
    leat_stream *stream = bench->streams[0];
    double seconds;

    if (!bench_check(bench, leat_fill(stream, bench->wrong_device, 0, sizeof *bench->wrong_device)) ||
        !sample(state, BENCH_LEAT, &seconds) ||
        !bench_check(bench,
                     leat_copy(stream, bench->wrong_host, bench->wrong_device, sizeof *bench->wrong_host)) ||
        !bench_check(bench, leat_stream_synchronize(stream)))
        return false;
    *found = *bench->wrong_host;
    return true;
}

/* Verifies a case: writes new bytes, runs the kernels once, and compares the sum. */
static bool verify_case(struct memory_case *c, bool *verified)
{
    uint64_t found;

    c->seed = bench_new_seed(c->bench);
    bench_fill_host(c->bench, c->host, c->bytes, c->seed);
    if (!memory_result(c->bench, sample_case, c, &found))
        return false;
    *verified = found == expected_sum(c);
    return true;
}

static bool find_memory(struct memory_case *c, void *managed)
{
    struct bench *bench = c->bench;
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;

    c->device = NULL;
    switch (c->strategy) {
    case MEMORY_PAGEABLE:
    case MEMORY_PINNED:
        c->host = bench_buffer(bench, c->strategy == MEMORY_PINNED ? BENCH_PINNED_IN : BENCH_PAGEABLE_IN);
        c->read = c->device = bench_buffer(bench, BENCH_DEVICE_A);
        return c->host && c->device;
    case MEMORY_MAPPED:
        c->host = bench_buffer(bench, BENCH_PINNED_IN);
        if (!c->host || !bench_check(bench, leat_pointer_get_info(c->host, &info)))
            return false;
        c->read = info.device_pointer;
        return true;
    default:
        c->read = c->host = managed;
        return true;
    }
}

/* Measures one row. Returns its rate, or NAN if it failed. */
static double measure_case(struct memory_case *c, struct bench_rows *rows, void *managed)
{
    struct bench *bench = c->bench;
    struct bench_result result;
    struct bench_row *row;
    bool verified = false;
    static char names[MEMORY_STRATEGY_COUNT][MEMORY_ACCESS_COUNT][96]; /* static: rows refer to it */
    char *name = names[c->strategy][c->access];

    snprintf(name, sizeof names[0][0], "%s, %s", memory_strategy_labels[c->strategy],
             memory_access_labels[c->access]);
    bench_progress(bench, "memory", name, c->bytes);
    c->seed = bench_new_seed(bench);
    if (!find_memory(c, managed))
        goto failed;
    bench_fill_host(bench, c->host, c->bytes, c->seed);
    if (!bench_measure_for(bench, sample_case, c, false, bench->options->quick ? 0.1 : 0.6, &result) ||
        !verify_case(c, &verified))
        goto failed;
    row = bench_row_add(rows, "memory", name, c->bytes, BENCH_GB_S);
    row->part = memory_part_strategies;
    row->moved_bytes = (double)(pages_read(c) * PAGE_BYTES * accesses[c->access].times);
    row->result = result;
    row->verified = verified;
    bench_row_extra(row, "time_us", result.leat.median * 1e6);
    return bench_figure(row, result.leat.median);

failed:
    bench_case_failed(bench, "memory", name, c->bytes);
    return NAN;
}

/* Adds a note that names the fastest strategy of an access, and says by how much it is faster. */
static void note_winner(struct bench *bench, unsigned access, const double rates[MEMORY_STRATEGY_COUNT])
{
    unsigned best = MEMORY_STRATEGY_COUNT, second = MEMORY_STRATEGY_COUNT, i;

    for (i = 0; i < MEMORY_STRATEGY_COUNT; i++) {
        if (!isfinite(rates[i]))
            continue;
        if (best == MEMORY_STRATEGY_COUNT || rates[i] > rates[best]) {
            second = best;
            best = i;
        } else if (second == MEMORY_STRATEGY_COUNT || rates[i] > rates[second]) {
            second = i;
        }
    }
    if (second < MEMORY_STRATEGY_COUNT)
        bench_note(bench, "memory, %s: the fastest is '%s', %.2f times '%s'", memory_access_labels[access],
                   memory_strategy_labels[best], rates[best] / rates[second], memory_strategy_labels[second]);
}

static void measure_strategies(struct bench *bench, struct bench_rows *rows, void *managed)
{
    struct memory_case c = {.bench = bench, .bytes = memory_bytes(bench)};
    double rates[MEMORY_STRATEGY_COUNT];

    c.sum = memory_kernel(bench, "leat_sum_u64");
    c.runs = c.sum ? memory_kernel(bench, "leat_sum_runs_u64") : NULL;
    if (!c.runs) {
        bench_case_failed(bench, "memory", "kernels", 0);
        return;
    }
    for (c.access = 0; c.access < MEMORY_ACCESS_COUNT; c.access++) {
        for (c.strategy = 0; c.strategy < MEMORY_STRATEGY_COUNT; c.strategy++) {
            bool left_out = c.strategy >= MEMORY_MANAGED && !managed;

            rates[c.strategy] = left_out ? NAN : measure_case(&c, rows, managed);
        }
        note_winner(bench, c.access, rates);
    }
}

void bench_memory_group(struct bench *bench)
{
    static struct bench_rows rows; /* too large for the stack */
    void *managed = NULL;

    rows.count = 0;
    if (!bench->info.managed_memory)
        bench_note(bench, "memory, managed: left out, since %s has no managed memory", bench->info.name);
    else if (!bench_check(bench,
                          leat_memory_alloc(bench->device, LEAT_KIND_MANAGED, memory_bytes(bench), &managed)))
        bench_case_failed(bench, "memory", "managed memory", memory_bytes(bench));
    measure_strategies(bench, &rows, managed);
    leat_memory_free(managed);
    memory_levels(bench, &rows);
    memory_prefetch(bench, &rows);
    bench_rows_commit(bench, &rows);
}
