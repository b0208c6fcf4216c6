/*
 * bench_copy.c - measures the group "copy": copies from host to device, from device to host, and both at once, of
 * many sizes and for each kind of host memory. It also runs the group's other parts.
 */
#include "bench_copy.h"
#include "bench_verify.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const copy_direction_texts[COPY_DIRECTION_COUNT] = {"host to device", "device to host",
                                                                "both directions"};
const char *const copy_part_words[COPY_PART_COUNT] = {"sizes", "workers", "beside", "batch", "rails", "gaps"};

/* The largest size for which copy_case_choose_call() compares the driver's calls. Larger sizes use the call that
 * it chose for the size before. */
static const size_t choose_call_bytes = 64 * MIB;

/* One sweep: all sizes of one direction and kind of memory. */
struct sweep {
    struct bench *bench;
    size_t largest;  /* the largest size of this run */
    void *device[2]; /* device memory: [0] for copies in, [1] for copies out */
    char names[COPY_MEMORY_COUNT][COPY_DIRECTION_COUNT][64];
};

struct size_list {
    const size_t *sizes;
    unsigned count;
};

#define SIZE_LIST(array) ((struct size_list){array, sizeof(array) / sizeof((array)[0])})

static const size_t all_sizes[] = {64,      256,     KIB,      4 * KIB,  16 * KIB,  64 * KIB, 256 * KIB, MIB,
                                   4 * MIB, 8 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB,      2 * GIB,   4 * GIB};
static const size_t few_sizes[] = {64 * KIB, MIB, 8 * MIB, 64 * MIB, 2 * GIB};
static const size_t quick_sizes[] = {64, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB};
static const size_t quick_few_sizes[] = {MIB, 64 * MIB};

/* Sizes for fresh pages and for files. There are fewer, because the allocation of fresh pages takes longer than
 * the copy, and files must be small compared with the disk. */
static const size_t paged_sizes[] = {64 * KIB, MIB, 8 * MIB, 64 * MIB, 512 * MIB};

/* Sizes for cold files. There are few, because it takes long to read such a file, and even longer to write it
 * before. */
static const size_t cold_sizes[] = {8 * MIB, 64 * MIB};
static const size_t quick_cold_sizes[] = {8 * MIB};

/* Returns true for the kinds of memory that are measured at every size. The other kinds are only compared with
 * these at a few sizes. */
static bool is_main(enum copy_memory memory)
{
    return memory == COPY_PINNED || memory == COPY_PAGEABLE;
}

static struct size_list sizes_of(const struct bench_options *options, enum copy_memory memory)
{
    if (options->size_count)
        return (struct size_list){options->sizes, options->size_count};
    if (options->full)
        return SIZE_LIST(all_sizes);
    if (memory == COPY_FILE_COLD)
        return options->quick ? SIZE_LIST(quick_cold_sizes) : SIZE_LIST(cold_sizes);
    if (options->quick)
        return is_main(memory) ? SIZE_LIST(quick_sizes) : SIZE_LIST(quick_few_sizes);
    if (memory == COPY_FILE_WARM || memory == COPY_FRESH)
        return SIZE_LIST(paged_sizes);
    return is_main(memory) ? SIZE_LIST(all_sizes) : SIZE_LIST(few_sizes);
}

static bool wants_direction(const struct bench_options *options, enum copy_memory memory,
                            enum copy_direction direction)
{
    if (memory == COPY_FRESH)
        return direction == COPY_OUT;
    if (options->full || is_main(memory))
        return true;
    return direction == COPY_IN || (direction == COPY_OUT && memory != COPY_FILE_COLD);
}

static bool wants_memory(const struct bench_options *options, enum copy_memory memory)
{
    return !options->copy_memories || options->copy_memories & 1u << memory;
}

static bool is_cpu(const struct bench *bench)
{
    return !strcmp(bench->info.driver, "cpu");
}

static double row_seconds(const struct bench *bench)
{
    if (bench->options->full)
        return 0.5;
    return bench->options->quick || is_cpu(bench) ? 0.045 : 0.09;
}

/* Sets the largest size: the largest that the options select and that fits in memory. On the CPU device both sides
 * of a copy need host memory, and copies of more than 1 GiB are measured only with --full. */
static bool choose_largest(struct sweep *sweep)
{
    struct bench *bench = sweep->bench;
    uint64_t room = bench_available_memory() / (is_cpu(bench) ? 8 : 4);
    size_t wanted = bench->options->quick ? 256 * MIB : is_cpu(bench) && !bench->options->full ? GIB : 4 * GIB;
    uint64_t device_bytes;
    char size[TEXT_MAX];
    unsigned i;

    if (!bench_check(bench, leat_device_memory(bench->device, &device_bytes, NULL)))
        return false;
    for (i = 0, wanted = bench->options->size_count ? 0 : wanted; i < bench->options->size_count; i++)
        if (bench->options->sizes[i] > wanted)
            wanted = bench->options->sizes[i];
    if (!is_cpu(bench) && room > device_bytes / 4)
        room = device_bytes / 4;
    sweep->largest = wanted;
    if (room < wanted) {
        sweep->largest = (size_t)room / MIB * MIB;
        bench_note(bench, "copy: sizes above %s are left out: there is not enough free memory for the buffers",
                   text_bytes(size, sweep->largest));
    }
    return true;
}

static bool make_device_buffers(struct sweep *sweep)
{
    struct bench *bench = sweep->bench;
    unsigned i;

    for (i = 0; i < 2; i++)
        if (!bench_check(bench, leat_memory_alloc(bench->device, LEAT_KIND_DEVICE,
                                                  sweep->largest + sizeof(uint64_t), &sweep->device[i])) ||
            !bench_fill_device(bench, sweep->device[i], sweep->largest, bench_new_seed(bench)))
            return false;
    return true;
}

void copy_trim(struct bench *bench, leat_kind kind)
{
    uint64_t released, pending;
    leat_pool *pool;

    if (leat_pool_default(bench->device, kind, &pool) == LEAT_OK)
        (void)leat_pool_trim(pool, 0, &released, &pending);
}

static void sweep_direction(struct sweep *sweep, enum copy_memory memory, enum copy_direction direction,
                            struct copy_host *in, struct copy_host *out)
{
    struct bench *bench = sweep->bench;
    struct size_list list = sizes_of(bench->options, memory);
    struct bench_rows rows = {.count = 0};
    bool other = false;
    unsigned i;

    for (i = 0; i < list.count; i++) {
        struct copy_case c = {.bench = bench,
                              .direction = direction,
                              .pageable = memory != COPY_PINNED && memory != COPY_REGISTERED,
                              .bytes = list.sizes[i],
                              .in_dst = sweep->device[0],
                              .in_src = in->ptr,
                              .out_dst = out->ptr,
                              .out_src = sweep->device[1],
                              .in_host = in,
                              .out_host = out,
                              .driver_other = other};

        if (c.bytes > sweep->largest)
            continue;
        if ((c.bytes <= choose_call_bytes || i == 0) && !copy_case_choose_call(&c)) {
            bench_case_failed(bench, "copy", sweep->names[memory][direction], c.bytes);
            continue;
        }
        other = c.driver_other;
        copy_case_measure(&c, &rows, copy_memory_texts[memory].part, sweep->names[memory][direction],
                          row_seconds(bench), NAN);
    }
    for (i = 0; i < rows.count; i++)
        rows.rows[i].path = copy_direction_texts[direction];
    bench_rows_commit(bench, &rows);
}

static size_t largest_of(const struct sweep *sweep, enum copy_memory memory)
{
    struct size_list list = sizes_of(sweep->bench->options, memory);
    size_t largest = 0;
    unsigned i;

    for (i = 0; i < list.count; i++)
        if (list.sizes[i] <= sweep->largest && list.sizes[i] > largest)
            largest = list.sizes[i];
    return largest;
}

static void sweep_memory(struct sweep *sweep, enum copy_memory memory)
{
    struct bench *bench = sweep->bench;
    size_t bytes = largest_of(sweep, memory);
    struct copy_host in = {.ptr = NULL}, out = {.ptr = NULL};
    enum copy_host_state state = COPY_HOST_READY;
    unsigned i;

    if (bytes == 0)
        return;
    if (memory != COPY_FRESH)
        state = copy_host_make(bench, memory, true, bytes, &in);
    if (state == COPY_HOST_READY &&
        (wants_direction(bench->options, memory, COPY_OUT) || wants_direction(bench->options, memory, COPY_BOTH)))
        state = copy_host_make(bench, memory, false, bytes, &out);
    if (state == COPY_HOST_FAILED)
        bench_case_failed(bench, "copy", copy_memory_texts[memory].part, bytes);
    for (i = 0; i < COPY_DIRECTION_COUNT && state == COPY_HOST_READY; i++)
        if (wants_direction(bench->options, memory, (enum copy_direction)i))
            sweep_direction(sweep, memory, (enum copy_direction)i, &in, &out);
    copy_host_free(&in);
    copy_host_free(&out);
    if (memory == COPY_PINNED)
        copy_trim(bench, LEAT_KIND_PINNED);
}

static void sweep_sizes(struct bench *bench)
{
    static struct sweep sweep; /* static, because the rows refer to its names until they are committed */
    unsigned memory, direction;
    size_t begin = json_array_size(bench->rows);

    sweep = (struct sweep){.bench = bench};
    for (direction = 0; direction < COPY_DIRECTION_COUNT; direction++) {
        for (memory = 0; memory < COPY_MEMORY_COUNT; memory++)
            snprintf(sweep.names[memory][direction], sizeof sweep.names[memory][direction], "%s, %s",
                     copy_direction_texts[direction], copy_memory_texts[memory].label);
    }
    if (choose_largest(&sweep) && make_device_buffers(&sweep)) {
        for (memory = 0; memory < COPY_MEMORY_COUNT; memory++)
            if (wants_memory(bench->options, (enum copy_memory)memory))
                sweep_memory(&sweep, (enum copy_memory)memory);
    } else {
        bench_case_failed(bench, "copy", "device memory for the sizes", sweep.largest);
    }
    bench_settle_bounds(bench, begin);
    leat_memory_free(sweep.device[0]);
    leat_memory_free(sweep.device[1]);
    copy_trim(bench, LEAT_KIND_DEVICE);
}

/* Makes leat allocate its memory for staged copies now, by a call of leat_copy_explain(), so that the first row
 * does not include the allocation. The part "gaps" measures this one-time cost in child processes. */
static void get_ready(struct bench *bench)
{
    void *device = bench_buffer(bench, BENCH_DEVICE_A);
    char host[4096], text[1024];

    if (device)
        (void)leat_copy_explain(bench->streams[0], device, host, sizeof host, text, sizeof text);
}

void bench_copy_group(struct bench *bench)
{
    static void (*const parts[COPY_PART_COUNT])(struct bench *) = {
        sweep_sizes, bench_copy_workers, bench_copy_beside, bench_copy_batch, bench_copy_rails, bench_copy_gaps};
    unsigned i;

    get_ready(bench);
    for (i = 0; i < COPY_PART_COUNT; i++)
        if (!bench->options->copy_parts || bench->options->copy_parts & 1u << i)
            parts[i](bench);
}
