/*
 * trace_programs.c - small programs that show what "leat trace" advises: eight, and one more, that waste time in
 * one way each, the same programs repaired, and four that are healthy. trace_savings.py records them and compares
 * each forecast with the saving; tests/cli/cli_advice.sh checks the advice.
 *
 *     trace_programs                                  # lists them: name, rule, the function that wastes time
 *     LEAT_TRACE=FILE trace_programs NAME wasteful    # or: NAME repaired, healthy
 *
 * LEAT_DEVICE chooses the device. Kernels do arithmetic for a given time, so a program takes about as long on the
 * CPU device as on a GPU. Each form first runs for a few steps, and then in a range. It prints how long both took,
 * in nanoseconds.
 */
#include <leat/leat.h>
#include <leat/trace.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 1024, SMALL_BYTES = 4096, PARTS = 2, PLAIN_COPIES = 5 };

#define MIB ((size_t)1 << 20)
#define CHUNK_BYTES (16 * MIB)
#define BUFFER_BYTES (PARTS * CHUNK_BYTES)

/* One form of a program. */
typedef void program_form(size_t steps);

program_form columns_one_by_one, columns_at_once, small_one_by_one, small_as_batch, pageable_memory, pinned_memory,
    copies_waited_for, copies_in_order, one_stream, two_streams, memory_given_back, memory_kept, pinned_given_back,
    pinned_kept, wait_each_time, wait_once, many_kernels, few_kernels;
program_form healthy_pipeline, healthy_memory, healthy_results, healthy_batches;

static struct {
    leat_device *device;
    leat_stream *stream, *second;
    leat_event *loaded[PARTS], *used[PARTS];
    leat_kernel *chain;
    leat_pool *pool, *pinned_pool;
    char *pinned, *pageable, *memory, *other; /* each has BUFFER_BYTES */
    double step_ns;                           /* of the kernel chain */
    uint64_t chunk_ns;                        /* of a copy of CHUNK_BYTES from pinned memory */
} at;

/* Makes a function part of its caller, which is then the place that traces name. The functions of the programs
 * are not static, because traces name only functions that the dynamic linker knows. */
#define HERE static inline __attribute__((always_inline))

#define OK(call) must((call) == LEAT_OK, #call, __LINE__)

static void must(bool fine, const char *what, int line)
{
    if (fine)
        return;
    fprintf(stderr, "trace_programs: line %d: %s: %s\n", line, what, leat_last_error());
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The host computes for this long. */
static void think(uint64_t ns)
{
    uint64_t start = now_ns();

    while (now_ns() - start < ns)
        continue;
}

HERE void launch_steps(leat_stream *stream, uint64_t steps)
{
    uint64_t factor = 6364136223846793005u;
    void *end = at.other, *args[] = {&steps, &factor, &end};

    OK(leat_launch(stream, at.chain, leat_dim(1, 1, 1), leat_dim(32, 1, 1), 0, args, 3));
}

/* Launches a kernel that computes for this long. */
HERE void launch(leat_stream *stream, uint64_t ns)
{
    launch_steps(stream, (uint64_t)((double)ns / at.step_ns));
}

HERE void finish(leat_stream *stream)
{
    OK(leat_stream_synchronize(stream));
}

/* ---- the columns of a matrix ---- */

void columns_one_by_one(size_t steps)
{
    const leat_copy_region column = {
        .width_bytes = 4, .height = ROWS, .depth = 1, .dst_pitch_bytes = 4, .src_pitch_bytes = steps * 4};

    for (size_t i = 0; i < steps; i++)
        OK(leat_copy_3d(at.stream, at.memory + i * ROWS * 4, at.pinned + i * 4, &column));
    finish(at.stream);
}

HERE void copy_transposed(leat_stream *stream, size_t columns)
{
    leat_layout matrix, result;

    OK(leat_layout_dense(&matrix, 2, (int64_t[]){ROWS, (int64_t)columns}, 4));
    OK(leat_layout_transpose(&matrix, 0, 1));
    OK(leat_layout_dense(&result, 2, matrix.size, 4));
    OK(leat_copy_layout(stream, at.memory, &result, at.pinned, &matrix));
}

void columns_at_once(size_t steps)
{
    copy_transposed(at.stream, steps);
    finish(at.stream);
}

/* ---- many small copies ---- */

/* Returns the place of piece i, all over the buffers. */
static size_t scattered(size_t i, size_t salt)
{
    size_t pieces = BUFFER_BYTES / SMALL_BYTES;

    i = (i * 2917 + salt) % pieces;
    return (i ^ i >> 5) % pieces * SMALL_BYTES;
}

void small_one_by_one(size_t steps)
{
    for (size_t i = 0; i < steps; i++)
        OK(leat_copy(at.stream, at.memory + scattered(i, 0), at.pinned + scattered(i, 77), SMALL_BYTES));
    finish(at.stream);
}

HERE void copy_batch(leat_stream *stream, size_t steps)
{
    leat_copy_op *ops = calloc(steps, sizeof *ops);

    must(ops != NULL, "calloc", __LINE__);
    for (size_t i = 0; i < steps; i++)
        ops[i] = (leat_copy_op){at.memory + scattered(i, 0), at.pinned + scattered(i, 77), SMALL_BYTES};
    OK(leat_copy_batch(stream, ops, steps));
    free(ops);
}

void small_as_batch(size_t steps)
{
    copy_batch(at.stream, steps);
    finish(at.stream);
}

/* ---- pageable memory ---- */

HERE void copy_and_compute(const char *source, size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        OK(leat_copy(at.stream, at.memory, source + i % PARTS * CHUNK_BYTES, CHUNK_BYTES));
        launch(at.stream, 100000);
        finish(at.stream); /* leat uses the driver's way only on idle streams */
    }
}

void pageable_memory(size_t steps)
{
    copy_and_compute(at.pageable, steps);
}

void pinned_memory(size_t steps)
{
    copy_and_compute(at.pinned, steps);
}

/* ---- copies for which the host waits ---- */

HERE void copy_think_compute(size_t steps, bool waits)
{
    for (size_t i = 0; i < steps; i++) {
        OK(leat_copy(at.stream, at.memory, at.pinned, MIB));
        if (waits)
            finish(at.stream);
        think(20000);
        launch(at.stream, 100000);
    }
    finish(at.stream);
}

void copies_waited_for(size_t steps)
{
    copy_think_compute(steps, true);
}

void copies_in_order(size_t steps)
{
    copy_think_compute(steps, false);
}

/* ---- copies that could run beside kernels ---- */

void one_stream(size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        OK(leat_copy(at.stream, at.memory, at.pinned + i % PARTS * CHUNK_BYTES, CHUNK_BYTES));
        launch(at.stream, at.chunk_ns);
    }
    finish(at.stream);
}

void two_streams(size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        size_t part = i % PARTS;

        if (i >= PARTS)
            OK(leat_stream_wait(at.second, at.used[part]));
        OK(leat_copy(at.second, at.memory + part * CHUNK_BYTES, at.pinned + part * CHUNK_BYTES, CHUNK_BYTES));
        OK(leat_event_record(at.second, at.loaded[part]));
        OK(leat_stream_wait(at.stream, at.loaded[part]));
        launch(at.stream, at.chunk_ns);
        OK(leat_event_record(at.stream, at.used[part]));
    }
    finish(at.stream);
}

/* ---- memory that each round gets from the system, and gives back ---- */

HERE void allocate_rounds(leat_pool *pool, size_t bytes, size_t steps, bool gives_back)
{
    for (size_t i = 0; i < steps; i++) {
        void *memory;

        OK(leat_pool_alloc(at.stream, pool, bytes, &memory));
        if (pool == at.pinned_pool)
            OK(leat_copy(at.stream, at.memory, memory, bytes));
        else
            OK(leat_fill(at.stream, memory, 0, 256));
        launch(at.stream, 100000);
        OK(leat_free(at.stream, memory));
        finish(at.stream);
        if (gives_back)
            OK(leat_pool_trim(pool, 0, NULL, NULL));
    }
}

void memory_given_back(size_t steps)
{
    allocate_rounds(at.pool, 32 * MIB, steps, true);
}

void memory_kept(size_t steps)
{
    allocate_rounds(at.pool, 32 * MIB, steps, false);
}

void pinned_given_back(size_t steps)
{
    allocate_rounds(at.pinned_pool, 4 * MIB, steps, true);
}

void pinned_kept(size_t steps)
{
    allocate_rounds(at.pinned_pool, 4 * MIB, steps, false);
}

/* ---- waits that nobody needs ---- */

HERE void launch_and_wait(size_t steps, bool waits)
{
    for (size_t i = 0; i < steps; i++) {
        launch(at.stream, 30000);
        if (waits)
            finish(at.stream);
    }
    finish(at.stream);
}

void wait_each_time(size_t steps)
{
    launch_and_wait(steps, true);
}

void wait_once(size_t steps)
{
    launch_and_wait(steps, false);
}

/* ---- many small kernels ---- */

/* The host finds out what to launch, as frameworks do, and launches a kernel that computes for this long. */
HERE void think_and_launch(uint64_t ns)
{
    think(40000);
    launch(at.stream, ns);
}

void many_kernels(size_t steps)
{
    for (size_t i = 0; i < steps; i++)
        think_and_launch(8000);
    finish(at.stream);
}

/* The same arithmetic in fewer kernels. */
void few_kernels(size_t steps)
{
    for (size_t i = 0; i < steps; i += 50)
        think_and_launch(50 * 8000);
    finish(at.stream);
}

/* ---- healthy programs ---- */

/* Copies in and out run beside kernels. */
void healthy_pipeline(size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        size_t part = i % PARTS, offset = part * 4 * MIB;

        if (i >= PARTS)
            OK(leat_stream_wait(at.second, at.used[part]));
        OK(leat_copy(at.second, at.memory + offset, at.pinned + offset, 4 * MIB));
        OK(leat_event_record(at.second, at.loaded[part]));
        OK(leat_stream_wait(at.stream, at.loaded[part]));
        launch(at.stream, 400000);
        OK(leat_event_record(at.stream, at.used[part]));
    }
    OK(leat_copy(at.stream, at.pinned, at.memory, 4 * MIB));
    finish(at.stream);
}

/* Each step needs temporary memory, which the pool has, and long kernels. */
void healthy_memory(size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        void *memory;

        OK(leat_alloc(at.stream, 8 * MIB, &memory));
        launch(at.stream, 300000);
        launch(at.stream, 300000);
        OK(leat_free(at.stream, memory));
    }
    finish(at.stream);
}

/* The host needs a result of each step before it can begin the next one. */
void healthy_results(size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        launch(at.stream, 1000000);
        OK(leat_copy(at.stream, at.pinned, at.other, 64));
        finish(at.stream);
    }
}

/* Scattered records and a matrix go to the device by one call each, beside kernels. */
void healthy_batches(size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        launch(at.stream, 1000000);
        copy_batch(at.second, 256);
        copy_transposed(at.second, 64);
    }
    finish(at.second);
    finish(at.stream);
}

/* ---- all programs ---- */

static const struct program {
    const char *name, *rule;
    const char *function; /* which wastes the time */
    program_form *wasteful, *repaired;
    size_t steps;
} programs[] = {
    {"columns", "copies-transpose", "columns_one_by_one", columns_one_by_one, columns_at_once, 768},
    {"small", "small-copies", "small_one_by_one", small_one_by_one, small_as_batch, 3000},
    {"pageable", "pageable-copies", "pageable_memory", pageable_memory, pinned_memory, 24},
    {"blocking", "blocking-copies", "copies_waited_for", copies_waited_for, copies_in_order, 200},
    {"overlap", "no-overlap", "one_stream", one_stream, two_streams, 32},
    {"allocation", "alloc-in-loop", "memory_given_back", memory_given_back, memory_kept, 100},
    {"pinning", "pinned-in-loop", "pinned_given_back", pinned_given_back, pinned_kept, 32},
    {"waits", "needless-sync", "wait_each_time", wait_each_time, wait_once, 500},
    {"launches", "launch-bound", "many_kernels", many_kernels, few_kernels, 1000},
    {"healthy-pipeline", NULL, NULL, NULL, healthy_pipeline, 48},
    {"healthy-memory", NULL, NULL, NULL, healthy_memory, 30},
    {"healthy-results", NULL, NULL, NULL, healthy_results, 30},
    {"healthy-batches", NULL, NULL, NULL, healthy_batches, 20},
};

enum { PROGRAMS = sizeof programs / sizeof programs[0] };

static void list(void)
{
    for (unsigned i = 0; i < PROGRAMS; i++)
        printf("%s %s %s\n", programs[i].name, programs[i].rule ? programs[i].rule : "-",
               programs[i].function ? programs[i].function : "-");
}

/* Copies of pageable memory take the slow way only on request: on a GPU the driver's own, on the CPU device, which
 * has none, through pinned memory by one thread. leat reads the variables at its start, so this starts the program
 * anew. */
static void copy_slowly(char **argv)
{
    const char *device = getenv("LEAT_DEVICE");

    if (getenv("LEAT_COPY_PROTOCOL") || getenv("LEAT_COPY_STAGE"))
        return;
    if (!device || !strncmp(device, "cpu", 3)) {
        setenv("LEAT_COPY_STAGE", "1", 1);
        setenv("LEAT_COPY_WORKERS", "1", 1);
    } else
        setenv("LEAT_COPY_PROTOCOL", "driver", 1);
    execv("/proc/self/exe", argv);
    must(false, "execv", __LINE__);
}

static char *allocate(leat_kind kind)
{
    void *memory;

    OK(leat_memory_alloc(at.device, kind, BUFFER_BYTES, &memory));
    return memory;
}

/* Copies of large chunks tell "leat trace" what the link can do, and this program too. */
static void copy_plainly(void)
{
    at.chunk_ns = UINT64_MAX;
    for (unsigned i = 0; i < PLAIN_COPIES; i++) {
        uint64_t start = now_ns(), time;

        OK(leat_copy(at.stream, at.memory, at.pinned, CHUNK_BYTES));
        finish(at.stream);
        time = now_ns() - start;
        at.chunk_ns = time < at.chunk_ns ? time : at.chunk_ns;
    }
}

/* Finds out how long a step of the kernel takes, from the difference of two lengths. */
static void measure_kernel(void)
{
    uint64_t times[2] = {UINT64_MAX, UINT64_MAX};

    for (unsigned i = 0; i < 6; i++) {
        uint64_t start = now_ns(), time;

        launch_steps(at.stream, i % 2 ? 110000 : 10000);
        finish(at.stream);
        time = now_ns() - start;
        times[i % 2] = time < times[i % 2] ? time : times[i % 2];
    }
    at.step_ns = times[1] > times[0] ? (double)(times[1] - times[0]) / 100000 : 1;
}

static void prepare(bool pageable)
{
    leat_module *module;

    OK(leat_device_open(NULL, &at.device));
    OK(leat_stream_create(at.device, &at.stream));
    OK(leat_stream_create(at.device, &at.second));
    for (unsigned i = 0; i < PARTS; i++) {
        OK(leat_event_create(at.device, &at.loaded[i]));
        OK(leat_event_create(at.device, &at.used[i]));
    }
    OK(leat_module_builtin(at.device, &module));
    OK(leat_kernel_get(module, "leat_chain_u64", &at.chain));
    OK(leat_pool_default(at.device, LEAT_KIND_DEVICE, &at.pool));
    OK(leat_pool_default(at.device, LEAT_KIND_PINNED, &at.pinned_pool));
    at.pinned = allocate(LEAT_KIND_PINNED);
    at.memory = allocate(LEAT_KIND_DEVICE);
    at.other = allocate(LEAT_KIND_DEVICE);
    if (pageable) {
        at.pageable = malloc(BUFFER_BYTES);
        must(at.pageable != NULL, "malloc", __LINE__);
        memset(at.pageable, 1, BUFFER_BYTES);
    }
    copy_plainly();
    measure_kernel();
}

/* Runs a form. Returns how long it took. The range has the name of the program. */
static uint64_t run(const struct program *program, program_form *form)
{
    uint64_t start = now_ns();

    form(program->steps / 8);
    leat_trace_range_push(program->name);
    form(program->steps);
    leat_trace_range_pop();
    return now_ns() - start;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "", *form = argc > 2 ? argv[2] : "";
    const struct program *program = NULL;
    bool wasteful = !strcmp(form, "wasteful"), pageable = !strcmp(name, "pageable");

    if (argc < 2) {
        list();
        return 0;
    }
    for (unsigned i = 0; i < PROGRAMS; i++)
        if (!strcmp(programs[i].name, name))
            program = &programs[i];
    if (!program || (wasteful && !program->wasteful) ||
        (!wasteful && strcmp(form, program->wasteful ? "repaired" : "healthy") != 0)) {
        fprintf(stderr,
                "usage: trace_programs NAME wasteful|repaired|healthy; without a NAME it lists the programs\n");
        return 2;
    }
    if (pageable)
        copy_slowly(argv);
    prepare(pageable);
    printf("%llu\n", (unsigned long long)run(program, wasteful ? program->wasteful : program->repaired));
    OK(leat_device_synchronize(at.device));
    OK(leat_device_close(at.device));
    free(at.pageable);
    return 0;
}
