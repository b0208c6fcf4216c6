/*
 * layout_lab.c - runs copies between layouts: allocates the memory, verifies the bytes, compares the time with a
 * plain copy on the device, and describes the result for the record.
 */
#include "layout_lab.h"
#include "bench_verify.h"
#include "text_json.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* GUARD_BYTES bytes of value POISON lie before and behind each destination. No copy may change them. */
enum { GUARD_BYTES = 4096, POISON = 0xa5, BUFFERS_MAX = 256, BATCH_MAX = 1000 };

/* The number of copies in a sample is chosen so that the sample takes about this time. In a shorter sample the
 * clock and the wait would take a large share of the time. */
static const double SAMPLE_SECONDS = 0.002;

/* ---- memory ----------------------------------------------------------------------------------------------------
 */

static bool on_cpu(const struct bench *bench)
{
    return !strcmp(bench->info.driver, "cpu");
}

/* Returns more bytes than the last-level cache holds. GPUs do not report the size of their cache; the largest
 * today have 126 MB. The processor of a virtual machine may report the cache of a whole socket, although it has
 * only a part of that cache. */
static size_t choose_cold_bytes(const struct bench *bench)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);

    if (bench->options->quick)
        return 128 * MIB;
    return on_cpu(bench) && cache > 0 && 2 * (size_t)cache < 512 * MIB ? 2 * (size_t)cache : 512 * MIB;
}

bool layout_lab_open(struct layout_lab *lab, struct bench *bench, leat_kind src, leat_kind dst)
{
    *lab = (struct layout_lab){.bench = bench,
                               .src = {.kind = src},
                               .dst = {.kind = dst},
                               .list = {.kind = LEAT_KIND_DEVICE},
                               .wanted = {.kind = LEAT_KIND_PAGEABLE},
                               .found = {.kind = LEAT_KIND_PAGEABLE},
                               .cold_bytes = choose_cold_bytes(bench)};
    /* Use the host's clock on the CPU device. It is more precise than events, because a stream's thread must wake
     * up to record an event. */
    if (on_cpu(bench))
        return true;
    return bench_check(bench, leat_event_create(bench->device, &lab->begin)) &&
           bench_check(bench, leat_event_create(bench->device, &lab->end));
}

static void drop_arena(struct layout_arena *arena)
{
    if (arena->kind == LEAT_KIND_PAGEABLE)
        free(arena->ptr);
    else if (arena->ptr)
        leat_memory_free(arena->ptr);
    arena->ptr = NULL;
    arena->bytes = 0;
}

void layout_lab_close(struct layout_lab *lab)
{
    drop_arena(&lab->found);
    drop_arena(&lab->wanted);
    drop_arena(&lab->list);
    drop_arena(&lab->dst);
    drop_arena(&lab->src);
    leat_event_destroy(lab->end);
    leat_event_destroy(lab->begin);
}

static bool out_of_memory(struct bench *bench)
{
    snprintf(bench->error, sizeof bench->error, "out of host memory");
    return false;
}

/* Makes an arena at least this large, with all pages touched. Its contents are lost. A fill touches device memory,
 * so that the CPU device uses huge pages, as it does for data that was copied in. */
static bool grow(struct bench *bench, struct layout_arena *arena, size_t bytes)
{
    bytes = (bytes + 4095) / 4096 * 4096;
    if (arena->bytes >= bytes)
        return true;
    drop_arena(arena);
    if (arena->kind == LEAT_KIND_PAGEABLE) {
        arena->ptr = aligned_alloc(4096, bytes);
        if (!arena->ptr)
            return out_of_memory(bench);
        bench_fill_host(bench, arena->ptr, bytes, bench_new_seed(bench));
    } else if (!bench_check(bench, leat_memory_alloc(bench->device, arena->kind, bytes, (void **)&arena->ptr)) ||
               !bench_check(bench, leat_fill(bench->streams[0], arena->ptr, 0, bytes)) ||
               !bench_fill_device(bench, arena->ptr, bytes, bench_new_seed(bench))) {
        return false;
    }
    arena->bytes = bytes;
    return true;
}

/* One case while it runs. */
struct run {
    struct layout_lab *lab;
    struct layout_case *made;
    const struct layout_effort *effort;
    size_t src_step, dst_step; /* distance in bytes from one buffer of an arena to the next */
    unsigned buffers, next;
    unsigned batch; /* number of copies in a sample */
};

static char *src_of(const struct run *run, unsigned buffer)
{
    return run->lab->src.ptr + run->src_step * buffer;
}

static char *dst_of(const struct run *run, unsigned buffer)
{
    return run->lab->dst.ptr + run->dst_step * buffer + GUARD_BYTES;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

static bool make_list(struct run *run)
{
    struct bench *bench = run->lab->bench;
    leat_layout *indexed = layout_case_indexed(run->made);
    size_t bytes;
    void *list;
    bool fine;

    if (!indexed || !run->made->index_count)
        return true;
    bytes = (size_t)run->made->index_count * indexed->index_bytes;
    if (!grow(bench, &run->lab->list, bytes))
        return false;
    list = malloc(bytes);
    if (!list)
        return out_of_memory(bench);
    layout_case_fill_list(run->made, list);
    fine = bench_check(bench, leat_copy(bench->streams[0], run->lab->list.ptr, list, bytes)) &&
           bench_check(bench, leat_stream_synchronize(bench->streams[0]));
    free(list);
    indexed->index = run->lab->list.ptr;
    return fine;
}

/* Allocates the buffers: as many as are needed to exceed all caches, or as many as memory allows. Each is at least
 * as large as the payload, which the plain copies need. */
static bool make_buffers(struct run *run, bool timed)
{
    struct layout_lab *lab = run->lab;
    const struct layout_case *made = run->made;
    uint64_t src = made->src_bytes > made->payload_bytes ? made->src_bytes : made->payload_bytes;
    size_t both;

    if (src > SIZE_MAX / 8 || made->dst_bytes > SIZE_MAX / 8) {
        snprintf(lab->bench->error, sizeof lab->bench->error, "so many bytes there are nowhere");
        return false;
    }
    run->src_step = round_up(src) + 512;
    run->dst_step = round_up(made->dst_bytes) + 2 * GUARD_BYTES;
    both = run->src_step + run->dst_step;
    run->buffers = 1;
    if (timed && both < lab->cold_bytes)
        run->buffers = (unsigned)fmin((double)((lab->cold_bytes + both - 1) / both), BUFFERS_MAX);
    return grow(lab->bench, &lab->src, run->src_step * run->buffers) &&
           grow(lab->bench, &lab->dst, run->dst_step * run->buffers) && make_list(run);
}

/* ---- verification ---- */

static bool fill(struct bench *bench, const struct layout_arena *arena, char *ptr, int value, size_t bytes)
{
    if (arena->kind == LEAT_KIND_PAGEABLE) {
        memset(ptr, value, bytes);
        return true;
    }
    return bench_check(bench, leat_fill(bench->streams[0], ptr, (uint8_t)value, bytes)) &&
           bench_check(bench, leat_stream_synchronize(bench->streams[0]));
}

/* The arguments of the reference, a plain loop on all threads that computes the expected destination from the
 * source's pattern. */
struct expect {
    const struct layout_case *made;
    char *image; /* start of the destination, behind the guard bytes */
    uint64_t seed, elements;
};

/* Computes the bytes of an element from the pattern with which the source was filled. */
static void read_pattern(char *element, int64_t offset_bytes, uint32_t bytes, uint64_t seed)
{
    uint64_t word = (uint64_t)offset_bytes / 8;
    uint64_t words[3] = {leat_pattern_value(word, seed)};
    size_t first = (size_t)offset_bytes % 8;

    if (first + bytes > 8)
        words[1] = leat_pattern_value(word + 1, seed);
    if (first + bytes > 16)
        words[2] = leat_pattern_value(word + 2, seed);
    memcpy(element, (const char *)words + first, bytes);
}

/* Returns the distance in bytes from a layout's pointer to the element with the indices at[]. */
static int64_t offset_of(const leat_layout *layout, const int64_t *at)
{
    int64_t offset = layout->offset_bytes;
    uint32_t i;

    for (i = 0; i < layout->dims; i++) {
        int64_t number =
            layout->index && layout->index_dim == i ? layout_case_index(at[i], layout->index_bound) : at[i];

        offset += number * layout->stride_bytes[i];
    }
    return offset;
}

/* Computes one thread's share of the expected destination: a contiguous share of the elements, in the order of the
 * dimensions. */
static void expect_share(void *argument, unsigned index, unsigned threads)
{
    struct expect *expect = argument;
    const leat_layout *src = &expect->made->src, *dst = &expect->made->dst;
    uint64_t each = expect->elements / threads + 1, begin = each * index, end = begin + each, i;
    uint32_t last = src->dims - 1, dim;
    int64_t at[LEAT_LAYOUT_MAX_DIMS] = {0};
    bool indexed_last = (src->index && src->index_dim == last) || (dst->index && dst->index_dim == last);

    if (end > expect->elements)
        end = expect->elements;
    for (i = begin; i < end;) {
        uint64_t rest = i, count;
        int64_t from, to;

        for (dim = src->dims; dim-- > 0;) {
            at[dim] = (int64_t)(rest % (uint64_t)src->size[dim]);
            rest /= (uint64_t)src->size[dim];
        }
        count = indexed_last ? 1 : (uint64_t)(src->size[last] - at[last]);
        if (count > end - i)
            count = end - i;
        from = offset_of(src, at);
        to = offset_of(dst, at);
        for (i += count; count > 0; count--) {
            read_pattern(expect->image + to, from, src->element_bytes, expect->seed);
            from += src->stride_bytes[last];
            to += dst->stride_bytes[last];
        }
    }
}

/* Sets *right to true if the destination, including its guard bytes, equals the result of the reference. */
static bool compare(struct run *run, unsigned buffer, uint64_t seed, bool *right)
{
    struct layout_lab *lab = run->lab;
    struct bench *bench = lab->bench;
    struct expect expect = {.made = run->made, .seed = seed};
    uint64_t bytes;

    if (!grow(bench, &lab->wanted, run->dst_step) || !grow(bench, &lab->found, run->dst_step) ||
        !bench_check(bench, leat_layout_count(&run->made->src, &expect.elements, &bytes)))
        return false;
    memset(lab->wanted.ptr, POISON, run->dst_step);
    expect.image = lab->wanted.ptr + GUARD_BYTES;
    if (expect.elements > 0)
        bench_workers_run(bench->workers, expect_share, &expect);
    if (!bench_check(bench, leat_copy(bench->streams[0], lab->found.ptr, dst_of(run, buffer) - GUARD_BYTES,
                                      run->dst_step)) ||
        !bench_check(bench, leat_stream_synchronize(bench->streams[0])))
        return false;
    *right = !memcmp(lab->wanted.ptr, lab->found.ptr, run->dst_step);
    return true;
}

/* Launches a kernel that does nothing. */
static bool launch_empty(struct bench *bench)
{
    uint64_t count = 0;
    uint32_t value = 0;
    void *args[] = {&bench->wrong_device, &count, &value};

    return bench_check(
        bench, leat_launch(bench->streams[0], bench->add, leat_dim(1, 1, 1), leat_dim(32, 1, 1), 0, args, 3));
}

static bool copy(struct run *run, enum bench_side side, unsigned buffer)
{
    struct bench *bench = run->lab->bench;
    leat_stream *stream = bench->streams[0];
    char *dst = dst_of(run, buffer), *src = src_of(run, buffer);

    if (side == BENCH_LEAT && run->effort->mover)
        return run->effort->mover(run->effort->state, run->made, dst, src);
    if (side == BENCH_DRIVER && run->effort->calls)
        return launch_empty(bench);
    if (side == BENCH_DRIVER)
        return bench_check(bench, leat_copy(stream, dst, src, run->made->payload_bytes));
    return bench_check(bench, leat_copy_layout(stream, dst, &run->made->dst, src, &run->made->src));
}

/* Verifies the first buffers, of which buffers is the number: fills them with new bytes, copies them one after the
 * other, and checks each. */
static bool verify(struct run *run, unsigned buffers, bool *verified)
{
    struct layout_lab *lab = run->lab;
    struct bench *bench = lab->bench;
    uint64_t first = bench->seed + 1;
    bool right = true;
    unsigned i;

    for (i = 0; i < buffers; i++) {
        uint64_t seed = bench_new_seed(bench);

        if (lab->src.kind == LEAT_KIND_PAGEABLE)
            bench_fill_host(bench, src_of(run, i), run->src_step, seed);
        else if (!bench_fill_device(bench, src_of(run, i), run->src_step, seed))
            return false;
        if (!fill(bench, &lab->dst, dst_of(run, i) - GUARD_BYTES, POISON, run->dst_step))
            return false;
    }
    for (i = 0; i < buffers; i++)
        if (!copy(run, BENCH_LEAT, i))
            return false;
    if (!bench_check(bench, leat_stream_synchronize(bench->streams[0])))
        return false;
    *verified = true;
    for (i = 0; i < buffers; i++) {
        if (!compare(run, i, first + i, &right))
            return false;
        *verified = *verified && right;
    }
    return true;
}

/* ---- time ---- */

static bool sample(void *state, enum bench_side side, double *seconds)
{
    struct run *run = state;
    struct layout_lab *lab = run->lab;
    struct bench *bench = lab->bench;
    leat_stream *stream = bench->streams[0];
    double begin = bench_now(), milliseconds;
    bool events = lab->begin && !run->effort->calls;
    unsigned i;

    if (events && !bench_check(bench, leat_event_record(stream, lab->begin)))
        return false;
    for (i = 0; i < run->batch; i++, run->next = (run->next + 1) % run->buffers)
        if (!copy(run, side, run->next))
            return false;
    if ((events && !bench_check(bench, leat_event_record(stream, lab->end))) ||
        !bench_check(bench, leat_stream_synchronize(stream)))
        return false;
    *seconds = (bench_now() - begin) / run->batch;
    if (!events)
        return true;
    if (!bench_check(bench, leat_event_elapsed(lab->begin, lab->end, &milliseconds)))
        return false;
    *seconds = milliseconds / 1e3 / run->batch;
    return true;
}

static bool time_copies(struct run *run, struct bench_result *times)
{
    double once;

    /* Make two copies that do not count: the first copy of a shape makes its plan and may load kernels. */
    run->batch = 1;
    if (!sample(run, BENCH_LEAT, &once) || !sample(run, BENCH_LEAT, &once))
        return false;
    if (!run->effort->calls)
        run->batch = (unsigned)fmax(1, fmin(SAMPLE_SECONDS / fmax(once, 1e-9), BATCH_MAX));
    return bench_measure_for(run->lab->bench, sample, run, true, run->effort->seconds, times);
}

/* ---- the plan ---- */

static bool explain(struct run *run, struct layout_result *result)
{
    struct bench *bench = run->lab->bench;
    struct layout_case *made = run->made;
    leat_layout_plan *plan;
    size_t length;
    bool fine;

    if (!bench_check(bench, leat_layout_plan_create(bench->device, &made->dst, 16, &made->src, 16, &plan)))
        return false;
    result->info = (leat_layout_plan_info)LEAT_LAYOUT_PLAN_INFO_INIT;
    fine =
        bench_check(bench, leat_layout_plan_get_info(plan, &result->info)) &&
        bench_check(bench, leat_copy_layout_explain(bench->streams[0], dst_of(run, 0), &made->dst, src_of(run, 0),
                                                    &made->src, result->plan, sizeof result->plan));
    fine = bench_check(bench, leat_layout_plan_destroy(plan)) && fine;
    for (length = strlen(result->plan); length > 0 && result->plan[length - 1] == '\n'; length--)
        result->plan[length - 1] = '\0';
    return fine;
}

bool layout_lab_run(struct layout_lab *lab, struct layout_case *made, const struct layout_effort *effort,
                    struct layout_result *result)
{
    struct run run = {.lab = lab, .made = made, .effort = effort, .batch = 1};
    bool timed = effort->seconds > 0 && made->payload_bytes > 0;

    memset(result, 0, sizeof *result);
    result->counted_bytes = (double)made->payload_bytes;
    if (lab->src.kind == LEAT_KIND_DEVICE && lab->dst.kind == LEAT_KIND_DEVICE)
        result->counted_bytes *= 2;
    if (!make_buffers(&run, timed) || !explain(&run, result) ||
        !verify(&run, effort->verify_all ? run.buffers : 1, &result->verified))
        return false;
    result->buffers = run.buffers;
    return !timed || time_copies(&run, &result->times);
}

/* ---- figures ---- */

double layout_rate(const struct layout_result *result)
{
    return result->times.repeats ? result->counted_bytes / result->times.leat.median / 1e9 : NAN;
}

double layout_copy_rate(const struct layout_result *result)
{
    return result->times.repeats ? result->counted_bytes / result->times.driver.median / 1e9 : NAN;
}

double layout_bound_rate(const struct layout_result *result)
{
    double sectors = (double)(result->info.read_sectors + result->info.written_sectors);

    double bound = layout_copy_rate(result) * 2 * (double)result->info.payload_bytes / (32 * sectors);

    return layout_rate(result) > bound ? NAN : bound;
}

static bool set_text(json_t *row, const char *key, const char *text)
{
    return json_object_set_new(row, key, text_json(text)) == 0;
}

static bool set_number(json_t *row, const char *key, uint64_t number)
{
    return json_object_set_new(row, key, json_integer((json_int_t)number)) == 0;
}

static bool describe_side(json_t *row, const char *side, const leat_layout *layout, uint64_t bytes)
{
    char numbers[LAYOUT_TEXT_MAX];
    json_t *object =
        json_pack("{s:I, s:I, s:s}", "bytes", (json_int_t)bytes, "offset_bytes", (json_int_t)layout->offset_bytes,
                  "stride_bytes", layout_numbers(numbers, layout->stride_bytes, layout->dims));

    if (object && layout->index)
        json_object_set_new(object, "index",
                            json_pack("{s:i, s:I, s:i}", "dim", (int)layout->index_dim, "bound",
                                      (json_int_t)layout->index_bound, "bytes", (int)layout->index_bytes));
    return json_object_set_new(row, side, object) == 0;
}

bool layout_set_kernel(json_t *row, const char *plan)
{
    static const char key[] = "\nkernel: "; /* the beginning of a line that every plan has */
    const char *line = strstr(plan, key);

    if (!line)
        return true;
    line += strlen(key);
    return json_object_set_new(row, "kernel", json_stringn(line, strcspn(line, "\n"))) == 0;
}

bool layout_describe(json_t *row, const struct layout_case *made, const struct layout_result *result)
{
    char numbers[LAYOUT_TEXT_MAX];

    return set_text(row, "arguments", made->text) && set_number(row, "element_bytes", made->src.element_bytes) &&
           set_text(row, "size", layout_numbers(numbers, made->src.size, made->src.dims)) &&
           describe_side(row, "dst", &made->dst, made->dst_bytes) &&
           describe_side(row, "src", &made->src, made->src_bytes) && layout_set_kernel(row, result->plan) &&
           set_text(row, "class", leat_layout_class_name(result->info.class_of_plan)) &&
           set_number(row, "read_sectors", result->info.read_sectors) &&
           set_number(row, "written_sectors", result->info.written_sectors) &&
           set_number(row, "buffers", result->buffers) && set_text(row, "plan", result->plan);
}
