/*
 * bench_overlap.c - measures the group "overlap": pipelines that copy chunks in, run a kernel and copy chunks out
 * over several streams, compared with the same steps one after the other.
 *
 * The work is out = in + resident, element by element: "in" is copied from pinned host memory, "resident" is on
 * the device, "out" is copied to pinned host memory. The bound is the rate of the driver's own copies in both
 * directions at once, measured in turns with each pipeline. If a pipeline's median is better than the best of
 * these medians, it is the bound.
 */
#include "bench_copy.h"
#include "bench_measure.h"
#include "bench_verify.h"

#include <math.h>

/*
 * The ways to distribute the steps of the chunks over streams. SEQUENCE: one stream makes the steps one after the
 * other. ROUND: chunk i makes all its steps on stream i modulo the number of streams, with a buffer for each
 * stream. This is the usual way, which needs no events. STEPS: one stream copies in, one computes, one copies out,
 * and events order them. Each chunk has its own place on the device, so the stream that copies in need not wait.
 * (On an H200 a wait between two copies left the link idle for about 10 us.)
 */
enum plan_kind { PLAN_SEQUENCE, PLAN_ROUND, PLAN_STEPS };

enum { CHUNK_CHOICES = 6, CHUNKS_MIN = 6 };

struct plan {
    struct bench *bench;
    enum plan_kind kind;
    unsigned streams;
    size_t bytes;
    size_t chunk_bytes;
    char *in, *out;                /* pinned host memory */
    char *a, *resident, *c;        /* device memory */
    leat_event *loaded, *computed; /* recorded again for each chunk, because a wait refers to the latest record at
                                    * the time of the call */
    struct copy_case both;         /* the copies in both directions whose rate is the bound */
};

static bool add_chunk(struct plan *plan, unsigned stream, char *sum, char *a, size_t offset, size_t bytes)
{
    void *resident = plan->resident + offset;
    uint64_t count = bytes / sizeof(float);
    void *args[] = {&sum, &a, &resident, &count};

    return bench_launch(plan->bench, stream, plan->bench->vector_add, count, args, 4);
}

static bool copy_chunk(struct plan *plan, unsigned stream, void *dst, const void *src, size_t bytes)
{
    return bench_check(plan->bench, leat_copy(plan->bench->streams[stream], dst, src, bytes));
}

static bool wait_for_stream(struct plan *plan, unsigned stream)
{
    return bench_check(plan->bench, leat_stream_synchronize(plan->bench->streams[stream]));
}

static bool run_sequence(struct plan *plan)
{
    return copy_chunk(plan, 0, plan->a, plan->in, plan->bytes) && wait_for_stream(plan, 0) &&
           add_chunk(plan, 0, plan->c, plan->a, 0, plan->bytes) && wait_for_stream(plan, 0) &&
           copy_chunk(plan, 0, plan->out, plan->c, plan->bytes) && wait_for_stream(plan, 0);
}

static size_t chunk_at(const struct plan *plan, size_t offset)
{
    return plan->bytes - offset < plan->chunk_bytes ? plan->bytes - offset : plan->chunk_bytes;
}

static bool run_round(struct plan *plan)
{
    unsigned stream = 0;
    size_t offset;

    for (offset = 0; offset < plan->bytes; offset += plan->chunk_bytes) {
        size_t bytes = chunk_at(plan, offset);
        char *a = plan->a + stream * plan->chunk_bytes;
        char *c = plan->c + stream * plan->chunk_bytes;

        if (!copy_chunk(plan, stream, a, plan->in + offset, bytes) ||
            !add_chunk(plan, stream, c, a, offset, bytes) ||
            !copy_chunk(plan, stream, plan->out + offset, c, bytes))
            return false;
        stream = (stream + 1) % plan->streams;
    }
    for (stream = 0; stream < plan->streams; stream++)
        if (!wait_for_stream(plan, stream))
            return false;
    return true;
}

static bool order(struct plan *plan, leat_event *event, unsigned stream)
{
    return bench_check(plan->bench, leat_stream_wait(plan->bench->streams[stream], event));
}

static bool mark(struct plan *plan, leat_event *event, unsigned stream)
{
    return bench_check(plan->bench, leat_event_record(plan->bench->streams[stream], event));
}

/* Submits the three steps of one chunk to the three streams. */
static bool step_chunk(struct plan *plan, size_t offset)
{
    enum { IN, COMPUTE, OUT };
    size_t bytes = chunk_at(plan, offset);
    char *a = plan->a + offset;
    char *c = plan->c + offset;

    return copy_chunk(plan, IN, a, plan->in + offset, bytes) && mark(plan, plan->loaded, IN) &&
           order(plan, plan->loaded, COMPUTE) && add_chunk(plan, COMPUTE, c, a, offset, bytes) &&
           mark(plan, plan->computed, COMPUTE) && order(plan, plan->computed, OUT) &&
           copy_chunk(plan, OUT, plan->out + offset, c, bytes);
}

static bool run_steps(struct plan *plan)
{
    size_t offset;

    for (offset = 0; offset < plan->bytes; offset += plan->chunk_bytes)
        if (!step_chunk(plan, offset))
            return false;
    return wait_for_stream(plan, 2); /* all other work is ordered before the last copy out */
}

static bool run_plan(struct plan *plan)
{
    switch (plan->kind) {
    case PLAN_SEQUENCE:
        return run_sequence(plan);
    case PLAN_ROUND:
        return run_round(plan);
    default:
        return run_steps(plan);
    }
}

/* Takes a sample. leat's side runs the plan; the driver's side makes the copies of the bound. */
static bool sample_plan(void *state, enum bench_side side, double *seconds)
{
    struct plan *plan = state;
    double begin = bench_now();

    if (side == BENCH_DRIVER)
        return copy_case_sample(&plan->both, side, seconds);
    if (!run_plan(plan))
        return false;
    *seconds = bench_now() - begin;
    return true;
}

/* Tries each chunk size a few times and keeps the fastest. */
static bool choose_chunk(struct plan *plan)
{
    static const size_t choices[CHUNK_CHOICES] = {2 * MIB, 4 * MIB, 6 * MIB, 8 * MIB, 16 * MIB, 32 * MIB};
    size_t best_chunk = 0;
    double best = INFINITY;
    unsigned i;

    for (i = 0; i < CHUNK_CHOICES; i++) {
        double begin = bench_now();
        unsigned round;

        if (choices[i] * CHUNKS_MIN > plan->bytes && best_chunk)
            break;
        plan->chunk_bytes =
            choices[i] * CHUNKS_MIN > plan->bytes ? plan->bytes / CHUNKS_MIN / 4096 * 4096 : choices[i];
        for (round = 0; round < 5 && (round < 1 || bench_now() - begin < 0.15); round++) {
            double seconds;

            if (!sample_plan(plan, BENCH_LEAT, &seconds))
                return false;
            if (seconds < best) {
                best = seconds;
                best_chunk = plan->chunk_bytes;
            }
        }
    }
    plan->chunk_bytes = best_chunk;
    return true;
}

/* Verifies a plan: writes new input, overwrites the output, runs the plan once, and checks every element. */
static bool verify_plan(struct plan *plan, uint64_t resident_seed, bool *verified)
{
    struct bench *bench = plan->bench;
    size_t count = plan->bytes / sizeof(float);
    uint64_t seed = bench_new_seed(bench);

    bench_fill_floats(bench, (float *)(void *)plan->in, count, seed);
    bench_poison_host(bench, plan->out, plan->bytes);
    if (!run_plan(plan))
        return false;
    *verified = bench_holds_sums(bench, (const float *)(void *)plan->out, count, seed, resident_seed);
    return true;
}

/* Measures one plan. Returns its median in seconds, or NAN if it failed. */
static double measure_plan(struct plan *plan, struct bench_rows *rows, const char *name, double sequence,
                           uint64_t resident_seed)
{
    struct bench *bench = plan->bench;
    bool with_bound = bench->peer != NULL;
    struct bench_result result;
    struct bench_row *row;
    bool verified = false;

    bench_progress(bench, "overlap", name, plan->bytes);
    if ((plan->kind != PLAN_SEQUENCE && !choose_chunk(plan)) ||
        !bench_measure(bench, sample_plan, plan, with_bound, &result) ||
        !verify_plan(plan, resident_seed, &verified)) {
        bench_case_failed(bench, "overlap", name, plan->bytes);
        return NAN;
    }
    row = bench_row_add(rows, "overlap", name, plan->bytes, BENCH_GB_S);
    row->moved_bytes = 2.0 * (double)plan->bytes;
    row->result = result;
    row->verified = verified;
    row->path = "both directions";
    row->bound = with_bound ? bench_figure(row, result.driver.median) : NAN;
    row->chunk_bytes = plan->kind == PLAN_SEQUENCE ? 0 : plan->chunk_bytes;
    row->gain = sequence / result.leat.median;
    return result.leat.median;
}

static bool make_plan(struct plan *plan, uint64_t resident_seed)
{
    struct bench *bench = plan->bench;

    plan->bytes = bench->options->quick ? 128 * MIB : GIB;
    if (plan->bytes > bench->largest)
        plan->bytes = bench->largest;
    if (!copy_case_share(&plan->both, bench, COPY_BOTH, plan->bytes))
        return false;
    plan->in = plan->both.in_src;
    plan->out = plan->both.out_dst;
    plan->a = plan->both.in_dst;
    plan->c = plan->both.out_src;
    plan->resident = bench_buffer(bench, BENCH_DEVICE_C);
    if (!plan->resident)
        return false;
    if (!bench_check(bench, leat_event_create(bench->device, &plan->loaded)) ||
        !bench_check(bench, leat_event_create(bench->device, &plan->computed)))
        return false;
    bench_fill_floats(bench, (float *)(void *)plan->out, plan->bytes / sizeof(float), resident_seed);
    return copy_chunk(plan, 0, plan->resident, plan->out, plan->bytes) && wait_for_stream(plan, 0);
}

static void unmake_plan(struct plan *plan)
{
    leat_event_destroy(plan->loaded);
    leat_event_destroy(plan->computed);
}

void bench_overlap_group(struct bench *bench)
{
    static const struct {
        const char *name;
        enum plan_kind kind;
        unsigned streams;
    } plans[] = {
        {"in sequence, 1 stream", PLAN_SEQUENCE, 1},
        {"overlapped, 2 streams", PLAN_ROUND, 2},
        {"overlapped, 3 streams", PLAN_ROUND, 3},
        {"overlapped, 4 streams", PLAN_ROUND, 4},
        {"overlapped, a stream for each step", PLAN_STEPS, 3},
    };
    struct bench_rows rows = {.count = 0};
    struct plan plan = {.bench = bench};
    uint64_t resident_seed = bench_new_seed(bench);
    double sequence = NAN;
    size_t begin = json_array_size(bench->rows);
    unsigned i;

    if (!make_plan(&plan, resident_seed)) {
        bench_case_failed(bench, "overlap", "buffers and events", plan.bytes);
        unmake_plan(&plan);
        return;
    }
    for (i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        double seconds;

        plan.kind = plans[i].kind;
        plan.streams = plans[i].streams;
        seconds = measure_plan(&plan, &rows, plans[i].name, sequence, resident_seed);
        if (plan.kind == PLAN_SEQUENCE)
            sequence = seconds;
    }
    unmake_plan(&plan);
    bench_rows_commit(bench, &rows);
    bench_settle_bounds(bench, begin);
}
