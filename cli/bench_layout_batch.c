/*
 * bench_layout_batch.c - measures the suite "batch" of the group "layout": the images of a batch, each in a buffer
 * of its own, by one leat_copy_layouts() beside one call for each image.
 */
#include "bench_layout.h"
#include "bench_side.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 64, CHANNELS = 3, TRIES = 20 };

/* Buffers are larger than their images by different numbers of bytes, so that their distances differ. */
enum { PADDING = 512, PADDINGS = 3 };

struct batch_row {
    const char *name;
    int64_t height, width;
    int64_t src_width; /* of the lines of src, of which the image is the first part */
    bool planes;       /* dst has planes, else pixels like src */
    bool converts;     /* to normalized halves */
};

static const struct batch_row batch_rows[] = {
    {"64 images of 224 x 224 x 3 B to planes", 224, 224, 224, true, false},
    {"64 images of 224 x 224 x 3 B to half planes", 224, 224, 224, true, true},
    {"64 images of 224 x 224 x 3 B, cut from 256", 224, 224, 256, false, false},
    {"64 images of 32 x 32 x 3 B to planes", 32, 32, 32, true, false},
    {"64 images of 32 x 32 x 3 B to half planes", 32, 32, 32, true, true},
};

struct image_batch {
    struct bench *bench;
    const struct batch_row *row;
    leat_layout dst_layout, src_layout;
    leat_conversion conversion;
    size_t dst_bytes, src_bytes; /* of an image */
    char *dst, *src[IMAGES];
    leat_layout_copy copies[IMAGES];
    double calls[1024];
    unsigned call_count;
};

static const float scale[CHANNELS] = {0.0171f, 0.0175f, 0.0174f}, bias[CHANNELS] = {-2.12f, -2.04f, -1.80f};

/* ---- the copies ---- */

static bool run_batch(struct image_batch *b)
{
    return bench_check(b->bench, leat_copy_layouts(b->bench->streams[0], b->copies, IMAGES));
}

static bool run_each(struct image_batch *b)
{
    leat_stream *stream = b->bench->streams[0];
    size_t i;

    for (i = 0; i < IMAGES; i++) {
        const leat_layout_copy *copy = &b->copies[i];
        leat_status status =
            copy->conversion ? leat_copy_convert(stream, copy->dst, copy->dst_layout, copy->src, copy->src_layout,
                                                 copy->conversion)
                             : leat_copy_layout(stream, copy->dst, copy->dst_layout, copy->src, copy->src_layout);

        if (!bench_check(b->bench, status))
            return false;
    }
    return true;
}

static bool sample(void *state, enum bench_side side, double *seconds)
{
    struct image_batch *b = state;
    double begin = bench_now();

    (void)side;
    if (!run_batch(b))
        return false;
    if (b->call_count < sizeof b->calls / sizeof b->calls[0])
        b->calls[b->call_count++] = bench_now() - begin;
    if (!bench_side_wait(b->bench, BENCH_LEAT, 0))
        return false;
    *seconds = bench_now() - begin;
    return true;
}

/* Returns the median of some runs with one call for each image, in microseconds, or NAN if a run failed. */
static double each_us(struct image_batch *b)
{
    double times[TRIES];
    unsigned i;

    for (i = 0; i < TRIES; i++) {
        double begin = bench_now();

        if (!run_each(b) || !bench_side_wait(b->bench, BENCH_LEAT, 0))
            return NAN;
        times[i] = bench_now() - begin;
    }
    return bench_summarise(times, TRIES).median * 1e6;
}

/* Compares the destination with what single calls make, which the other suites verify. */
static bool verify(struct image_batch *b, bool *verified)
{
    size_t bytes = IMAGES * b->dst_bytes;
    leat_stream *stream = b->bench->streams[0];
    char *seen = malloc(bytes), *wanted = malloc(bytes);
    bool done = seen && wanted && bench_check(b->bench, leat_fill(stream, b->dst, 0xff, bytes)) && run_each(b) &&
                bench_check(b->bench, leat_copy_sync(stream, wanted, b->dst, bytes)) &&
                bench_check(b->bench, leat_fill(stream, b->dst, 0xff, bytes)) && run_batch(b) &&
                bench_check(b->bench, leat_copy_sync(stream, seen, b->dst, bytes));

    *verified = done && !memcmp(seen, wanted, bytes);
    free(seen);
    free(wanted);
    return done;
}

/* ---- the memory ---- */

static bool make_layouts(struct image_batch *b)
{
    const struct batch_row *row = b->row;
    uint32_t element_bytes = row->converts ? 2 : 1;
    int64_t planes[] = {CHANNELS, row->height, row->width}, pixels[] = {row->height, row->width, CHANNELS};
    int64_t whole[] = {row->height, row->src_width, CHANNELS};

    b->dst_bytes = (size_t)(row->height * row->width) * CHANNELS * element_bytes;
    b->src_bytes = (size_t)(row->height * row->src_width) * CHANNELS;
    b->conversion = (leat_conversion){.size = sizeof b->conversion,
                                      .dst = LEAT_NUMBER_F16,
                                      .src = LEAT_NUMBER_U8,
                                      .channels = CHANNELS,
                                      .channel_dim = row->planes ? 0 : 2,
                                      .scale = scale,
                                      .bias = bias};
    return bench_check(b->bench,
                       leat_layout_dense(&b->dst_layout, 3, row->planes ? planes : pixels, element_bytes)) &&
           bench_check(b->bench, leat_layout_dense(&b->src_layout, 3, whole, 1)) &&
           bench_check(b->bench, leat_layout_slice(&b->src_layout, 1, 0, row->width, 1)) &&
           (!row->planes || bench_check(b->bench, leat_layout_permute(&b->src_layout, (uint32_t[]){2, 0, 1})));
}

static bool make_memory(struct image_batch *b)
{
    struct bench *bench = b->bench;
    char *pattern = malloc(b->src_bytes);
    bool made = pattern && bench_check(bench, leat_memory_alloc(bench->device, LEAT_KIND_DEVICE,
                                                                IMAGES * b->dst_bytes, (void **)&b->dst));
    size_t i, k;

    for (i = 0; i < IMAGES && made; i++) {
        size_t bytes = b->src_bytes + i % PADDINGS * PADDING;

        for (k = 0; k < b->src_bytes; k++)
            pattern[k] = (char)(k * 31 + k / 251 + i);
        made =
            bench_check(bench, leat_memory_alloc(bench->device, LEAT_KIND_DEVICE, bytes, (void **)&b->src[i])) &&
            bench_check(bench, leat_copy_sync(bench->streams[0], b->src[i], pattern, b->src_bytes));
    }
    free(pattern);
    for (i = 0; i < IMAGES && made; i++)
        b->copies[i] = (leat_layout_copy){.dst = b->dst + i * b->dst_bytes,
                                          .dst_layout = &b->dst_layout,
                                          .src = b->src[i * 37 % IMAGES],
                                          .src_layout = &b->src_layout,
                                          .conversion = b->row->converts ? &b->conversion : NULL};
    return made;
}

static void free_memory(struct image_batch *b)
{
    size_t i;

    for (i = 0; i < IMAGES; i++)
        (void)leat_memory_free(b->src[i]);
    (void)leat_memory_free(b->dst);
}

/* ---- rows ---- */

static bool measure(struct image_batch *b, struct bench_rows *rows)
{
    struct bench_result result;
    struct bench_row *row;
    bool verified;
    double each;

    if (!make_layouts(b) || !make_memory(b) || !verify(b, &verified) ||
        !bench_measure_for(b->bench, sample, b, false, b->bench->options->quick ? 0.05 : 0.3, &result))
        return false;
    each = each_us(b);
    if (isnan(each))
        return false;
    row = bench_row_add(rows, "layout", b->row->name, IMAGES * b->dst_bytes, BENCH_US);
    row->part = layout_suite_texts[SUITE_BATCH];
    row->result = result;
    row->verified = verified;
    bench_row_extra(row, "call_us", bench_summarise(b->calls, b->call_count).median * 1e6);
    bench_row_extra(row, "each_us", each);
    return true;
}

void bench_layout_batch(struct bench *bench)
{
    static struct bench_rows rows; /* too large for the stack */
    unsigned i;

    rows.count = 0;
    for (i = 0; i < sizeof batch_rows / sizeof batch_rows[0]; i++) {
        static struct image_batch batch; /* too large for the stack */

        batch = (struct image_batch){.bench = bench, .row = &batch_rows[i]};
        bench_progress(bench, "layout", batch_rows[i].name, 0);
        if (!measure(&batch, &rows))
            bench_case_failed(bench, "layout", batch_rows[i].name, 0);
        free_memory(&batch);
    }
    bench_rows_commit(bench, &rows);
}
