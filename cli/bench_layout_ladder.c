/*
 * bench_layout_ladder.c - "leat bench layout --ladder": measures one transpose several times, each time with one
 * more optimization (a rung), to show the gain of each optimization.
 *
 * On a GPU the lower rungs are kernels of leat's own module, which this file launches. On the CPU device they are
 * slower algorithms of leat. An environment variable selects them, so a child process measures each of them.
 */
#include "bench_child.h"
#include "bench_layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIDE = 4096, ELEMENT_BYTES = 4, TILE = 32, BLOCK_THREADS = 256 };

static const char part[] = "ladder: a transpose step by step";

/* One rung: the transpose with the optimizations so far. */
struct rung {
    const char *text;
    const char *word;   /* value of LEAT_LAYOUT_KERNEL for a child process; NULL: measured in this process */
    const char *kernel; /* kernel of leat's module to launch; NULL: leat_copy_layout() is called */
    bool by_tiles;      /* true: the kernel has a block for each tile; false: for each BLOCK_THREADS elements */
};

static const struct rung gpu_rungs[] = {
    {"one element a thread", NULL, "leat_transpose_naive_u32", false},
    {"coalesced, through shared memory", NULL, "leat_transpose_shared_u32", true},
    {"without bank conflicts", NULL, "leat_transpose_padded_u32", true},
    {"vectors: leat_copy_layout()", NULL, NULL, false},
};

static const struct rung cpu_rungs[] = {
    {"a plain loop, all threads", "LEAT_LAYOUT_KERNEL=naive", NULL, false},
    {"blocks", "LEAT_LAYOUT_KERNEL=blocked", NULL, false},
    {"blocks, by vector instructions", "LEAT_LAYOUT_KERNEL=vectors", NULL, false},
    {"whole lines past the caches: leat_copy_layout()", "LEAT_LAYOUT_KERNEL=auto", NULL, false},
};

enum { RUNG_COUNT = sizeof gpu_rungs / sizeof gpu_rungs[0] };

struct ladder {
    struct bench *bench;
    struct layout_lab lab;
    struct layout_case made;
    leat_kernel *kernel;
    bool by_tiles;
};

/* ---- copies without leat_copy_layout() ---- */

static bool move_columns(void *state, const struct layout_case *made, char *dst, const char *src)
{
    struct ladder *ladder = state;
    size_t rows = (size_t)made->dst.size[1], columns = (size_t)made->dst.size[0], i;
    leat_copy_region column = {.width_bytes = ELEMENT_BYTES,
                               .height = rows,
                               .depth = 1,
                               .dst_pitch_bytes = ELEMENT_BYTES,
                               .src_pitch_bytes = columns * ELEMENT_BYTES};

    for (i = 0; i < columns; i++)
        if (!bench_check(ladder->bench, leat_copy_3d(ladder->bench->streams[0], dst + i * rows * ELEMENT_BYTES,
                                                     src + i * ELEMENT_BYTES, &column)))
            return false;
    return true;
}

static bool launch_kernel(void *state, const struct layout_case *made, char *dst, const char *src)
{
    struct ladder *ladder = state;
    uint64_t rows = (uint64_t)made->dst.size[1], columns = (uint64_t)made->dst.size[0];
    uint64_t blocks = ladder->by_tiles ? ((rows + TILE - 1) / TILE) * ((columns + TILE - 1) / TILE)
                                       : (rows * columns + BLOCK_THREADS - 1) / BLOCK_THREADS;
    void *args[] = {&dst, &src, &rows, &columns};

    return bench_check(ladder->bench,
                       leat_launch(ladder->bench->streams[0], ladder->kernel, leat_dim((uint32_t)blocks, 1, 1),
                                   leat_dim(BLOCK_THREADS, 1, 1), 0, args, 4));
}

/* ---- rows of the record ---- */

static void add_row(struct bench *bench, const char *name, uint64_t bytes, json_t *figures)
{
    json_t *row = json_pack("{s:s, s:s, s:s, s:I, s:s}", "group", "layout", "part", part, "case", name, "bytes",
                            (json_int_t)bytes, "unit", "GB/s");

    if (!row || !figures || json_object_update(row, figures) != 0 || json_array_append(bench->rows, row) != 0)
        bench->failed = true;
    json_decref(row);
    json_decref(figures);
}

static bool measure_here(struct ladder *ladder, const char *name, layout_mover mover)
{
    const struct layout_effort effort = {.seconds = 0.3, .mover = mover, .state = ladder};
    static struct layout_result result; /* too large for the stack */
    double rate, copy;
    json_t *figures;

    if (!layout_lab_run(&ladder->lab, &ladder->made, &effort, &result))
        return false;
    rate = layout_rate(&result);
    copy = layout_copy_rate(&result);
    if (!result.verified)
        ladder->bench->failed = true;
    figures = json_pack("{s:f, s:f, s:f, s:f, s:i, s:b}", "value", rate, "copy_gb_s", copy, "share_of_copy",
                        rate / copy, "median_us", result.times.leat.median * 1e6, "repeats",
                        (int)result.times.repeats, "verified", result.verified);
    if (!mover && !layout_set_kernel(figures, result.plan))
        ladder->bench->failed = true;
    add_row(ladder->bench, name, ladder->made.payload_bytes, figures);
    return true;
}

/* Measures a rung by running "leat layout" in a child process. */
static bool measure_in_child(struct ladder *ladder, const struct rung *rung)
{
    static const char *const taken[] = {"copy_gb_s", "share_of_copy", "median_us", "repeats",
                                        "verified",  "kernel",        "plan"};
    struct bench *bench = ladder->bench;
    char size[64], element[16], repeat[16];
    struct bench_child child = {.words = {"layout", "--json", "--perm", "1,0", "--size", size, "--elem", element,
                                          "--device", bench->info.name},
                                .variables = {rung->word}};
    json_t *figures = json_object(), *answer;
    unsigned i;

    snprintf(size, sizeof size, "%lld,%lld", (long long)ladder->made.dst.size[1],
             (long long)ladder->made.dst.size[0]);
    snprintf(element, sizeof element, "%d", ELEMENT_BYTES);
    if (bench->options->repeat) {
        snprintf(repeat, sizeof repeat, "%u", bench->options->repeat);
        child.words[10] = "--repeat";
        child.words[11] = repeat;
    }
    answer = bench_child_run(bench, &child);
    json_object_set(figures, "value", json_object_get(answer, "gb_s"));
    for (i = 0; i < sizeof taken / sizeof taken[0]; i++)
        json_object_set(figures, taken[i], json_object_get(answer, taken[i]));
    if (answer)
        add_row(bench, rung->text, ladder->made.payload_bytes, figures);
    else
        json_decref(figures);
    json_decref(answer);
    return answer != NULL;
}

static bool measure_rung(struct ladder *ladder, const struct rung *rung)
{
    struct bench *bench = ladder->bench;
    leat_module *module;

    bench_progress(bench, "layout", rung->text, ladder->made.payload_bytes);
    if (rung->word)
        return measure_in_child(ladder, rung);
    if (!rung->kernel)
        return measure_here(ladder, rung->text, NULL);
    ladder->by_tiles = rung->by_tiles;
    return bench_check(bench, leat_module_layout(bench->device, &module)) &&
           bench_check(bench, leat_kernel_get(module, rung->kernel, &ladder->kernel)) &&
           measure_here(ladder, rung->text, launch_kernel);
}

static void measure_ladder(struct ladder *ladder, int64_t side)
{
    bool on_cpu = !strcmp(ladder->bench->info.driver, "cpu");
    const struct rung *rungs = on_cpu ? cpu_rungs : gpu_rungs;
    struct layout_words words = {.element_bytes = ELEMENT_BYTES, .count = 1};
    char size[64], error[LAYOUT_ERROR_MAX];
    unsigned i;

    snprintf(size, sizeof size, "%lld,%lld", (long long)side, (long long)side);
    words.size = size;
    words.steps[0].kind = LAYOUT_PERM;
    words.steps[0].value = "1,0";
    if (!layout_case_make(&ladder->made, &words, error)) {
        snprintf(ladder->bench->error, sizeof ladder->bench->error, "%s", error);
        bench_case_failed(ladder->bench, "layout", part, 0);
        return;
    }
    bench_progress(ladder->bench, "layout", "a copy for each column", ladder->made.payload_bytes);
    if (!measure_here(ladder, "a copy for each column", move_columns))
        bench_case_failed(ladder->bench, "layout", "a copy for each column", ladder->made.payload_bytes);
    for (i = 0; i < RUNG_COUNT; i++)
        if (!measure_rung(ladder, &rungs[i]))
            bench_case_failed(ladder->bench, "layout", rungs[i].text, ladder->made.payload_bytes);
}

void bench_layout_ladder(struct bench *bench)
{
    const struct bench_options *options = bench->options;
    static struct ladder ladder; /* too large for the stack */
    unsigned i;

    ladder = (struct ladder){.bench = bench};
    if (!layout_lab_open(&ladder.lab, bench, LEAT_KIND_DEVICE, LEAT_KIND_DEVICE)) {
        bench_case_failed(bench, "layout", part, 0);
    } else if (!options->size_count) {
        measure_ladder(&ladder, SIDE);
    } else {
        for (i = 0; i < options->size_count; i++)
            measure_ladder(&ladder, (int64_t)fmax(1, sqrt((double)(options->sizes[i] / ELEMENT_BYTES))));
    }
    layout_lab_close(&ladder.lab);
}
