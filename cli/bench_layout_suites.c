/*
 * bench_layout_suites.c - makes the cases of the group "layout": shapes that other benchmarks measure, and shapes
 * that are difficult.
 */
#include "bench_layout.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const layout_suite_words[SUITE_COUNT] = {"transpose", "permute", "learning", "pixels",
                                                     "shuffle",   "dims",    "gather",   "broadcast",
                                                     "slice",     "host",    "call",     "batch"};

const char *const layout_suite_texts[SUITE_COUNT] = {
    "transpose: square, tall, wide, odd, elements of all sizes",
    "permute: the 57 permutations of TTC, HPTT and cuTT",
    "learning: shapes of neural networks",
    "pixels: images, and records of small fields, to planes and back",
    "shuffle: small dimensions among large ones",
    "dims: 24 dimensions of 2",
    "gather: rows by a list of indices, and scattered",
    "broadcast: rows, columns and scalars",
    "slice: columns, steps and flips",
    "host: transposes between host and device",
    "call: small transposes from the call to their completion, beside an empty kernel",
    "batch: images from buffers of their own, by one call beside one call for each"};

enum { VALUE_MAX = 160, SPEC_STEPS_MAX = 4 };

/* The description of a case from which emit() makes it: the sizes of the array, and the steps that make the
 * view. */
struct spec {
    uint32_t element_bytes;
    uint32_t dims;
    int64_t size[LEAT_LAYOUT_MAX_DIMS];
    struct {
        enum layout_step_kind kind;
        char value[VALUE_MAX];
    } steps[SPEC_STEPS_MAX];
    unsigned count;
};

/* The state of making the cases of a suite. */
struct maker {
    enum layout_suite suite;
    uint64_t bytes;
    bool main_only;
    leat_kind from, to;
    layout_visit visit;
    void *state;
    char *error;
    uint64_t random;
    bool stopped;
};

static struct spec spec_of(uint32_t element_bytes, uint32_t dims, const int64_t *size)
{
    struct spec spec = {.element_bytes = element_bytes, .dims = dims};

    memcpy(spec.size, size, dims * sizeof size[0]);
    return spec;
}

#define SPEC(element_bytes, ...)                                                                                  \
    spec_of(element_bytes, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static void add_step(struct spec *spec, enum layout_step_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add_step(struct spec *spec, enum layout_step_kind kind, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    spec->steps[spec->count].kind = kind;
    vsnprintf(spec->steps[spec->count++].value, VALUE_MAX, format, list);
    va_end(list);
}

/* Passes the case to the visitor. main_case: it is one of the few cases that represent the suite. */
static void emit(struct maker *maker, bool main_case, const struct spec *spec)
{
    struct layout_words words = {.element_bytes = spec->element_bytes, .count = spec->count};
    static struct layout_case made; /* too large for the stack */
    char size[LAYOUT_TEXT_MAX];
    unsigned i;

    if (maker->stopped || (maker->main_only && !main_case))
        return;
    words.size = layout_numbers(size, spec->size, spec->dims);
    for (i = 0; i < spec->count; i++) {
        words.steps[i].kind = spec->steps[i].kind;
        words.steps[i].value = spec->steps[i].value;
    }
    maker->stopped = !layout_case_make(&made, &words, maker->error) ||
                     !maker->visit(maker->state, maker->suite, &made, maker->from, maker->to);
}

static double bytes_of(const struct spec *spec)
{
    double bytes = spec->element_bytes;
    uint32_t i;

    for (i = 0; i < spec->dims; i++)
        bytes *= (double)spec->size[i];
    return bytes;
}

/* Scales the slowest dimensions until the array has about this number of bytes. */
static void scale(struct spec *spec, uint64_t bytes)
{
    uint32_t i;

    for (i = 0; i < spec->dims; i++) {
        double factor = (double)bytes / bytes_of(spec);

        if (spec->size[i] == 1)
            continue;
        spec->size[i] = (int64_t)fmax(2, round((double)spec->size[i] * factor));
        if (factor > 0.9)
            break;
    }
}

static void emit_scaled(struct maker *maker, bool main_case, struct spec spec, const char *perm)
{
    scale(&spec, maker->bytes);
    add_step(&spec, LAYOUT_PERM, "%s", perm);
    emit(maker, main_case, &spec);
}

/* ---- two dimensions ---- */

static void emit_transpose(struct maker *maker, bool main_case, uint32_t element_bytes, int64_t rows,
                           int64_t columns)
{
    struct spec spec = SPEC(element_bytes, rows, columns);

    add_step(&spec, LAYOUT_PERM, "1,0");
    emit(maker, main_case, &spec);
}

static void make_transposes(struct maker *maker)
{
    static const uint32_t sizes[] = {1, 2, 4, 8, 16, 3, 6, 12};
    unsigned i;

    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t elements = (int64_t)(maker->bytes / sizes[i]), power = 64, side;

        side = (int64_t)sqrt((double)elements) / 64 * 64;
        side = side < 64 ? 64 : side;
        while (4 * power * power <= elements)
            power *= 2;
        emit_transpose(maker, sizes[i] == 1 || sizes[i] == 4, sizes[i], side, side);
        if (power != side)
            emit_transpose(maker, false, sizes[i], power, power);
        emit_transpose(maker, false, sizes[i], elements / 256 + 1, 256);
        emit_transpose(maker, false, sizes[i], 256, elements / 256 + 1);
        emit_transpose(maker, false, sizes[i], side - 1, side - 3);
    }
    if (maker->bytes >= 32 * MIB)
        emit_transpose(maker, false, 4, 4096, 4096);
    /* Pixels of three bytes, and records of three floats whose dimensions are reversed. */
    emit_scaled(maker, false, SPEC(3, 300, 300, 300), "0,2,1");
    emit_scaled(maker, false, SPEC(12, 1000, 1000, 10), "2,1,0");
}

/* ---- the 57 permutations of TTC, HPTT and cuTT ---- */

/* In this list dimension 0 is the fastest, as in its sources: TTC's generator and the benchmarks of HPTT and
 * cuTT. */
static const struct permutation {
    uint32_t dims;
    unsigned char order[6];
    int64_t sizes[3][6];
} permutations[] = {
    {2, {1, 0}, {{7264, 7264}, {43408, 1216}, {1216, 43408}}},
    {3, {0, 2, 1}, {{368, 384, 384}, {2144, 64, 384}, {368, 64, 2307}}},
    {3, {1, 0, 2}, {{384, 384, 355}, {2320, 384, 59}, {384, 2320, 59}}},
    {3, {2, 1, 0}, {{384, 355, 384}, {2320, 59, 384}, {384, 59, 2320}}},
    {4, {0, 3, 2, 1}, {{80, 96, 75, 96}, {464, 16, 75, 96}, {80, 16, 75, 582}}},
    {4, {2, 1, 3, 0}, {{96, 75, 96, 75}, {608, 12, 96, 75}, {96, 12, 608, 75}}},
    {4, {2, 0, 3, 1}, {{96, 75, 96, 75}, {608, 12, 96, 75}, {96, 12, 608, 75}}},
    {4, {1, 0, 3, 2}, {{96, 96, 75, 75}, {608, 96, 12, 75}, {96, 608, 12, 75}}},
    {4, {3, 2, 1, 0}, {{96, 75, 75, 96}, {608, 12, 75, 96}, {96, 12, 75, 608}}},
    {5, {0, 4, 2, 1, 3}, {{32, 48, 28, 28, 48}, {176, 8, 28, 28, 48}, {32, 8, 28, 28, 298}}},
    {5, {3, 2, 1, 4, 0}, {{48, 28, 28, 48, 28}, {352, 4, 28, 48, 28}, {48, 4, 28, 352, 28}}},
    {5, {2, 0, 4, 1, 3}, {{48, 28, 48, 28, 28}, {352, 4, 48, 28, 28}, {48, 4, 352, 28, 28}}},
    {5, {1, 3, 0, 4, 2}, {{48, 48, 28, 28, 28}, {352, 48, 4, 28, 28}, {48, 352, 4, 28, 28}}},
    {5, {4, 3, 2, 1, 0}, {{48, 28, 28, 28, 48}, {352, 4, 28, 28, 48}, {48, 4, 28, 28, 352}}},
    {6, {0, 3, 2, 5, 4, 1}, {{16, 32, 15, 32, 15, 15}, {48, 10, 15, 32, 15, 15}, {16, 10, 15, 103, 15, 15}}},
    {6, {3, 2, 0, 5, 1, 4}, {{32, 15, 15, 32, 15, 15}, {112, 5, 15, 32, 15, 15}, {32, 5, 15, 112, 15, 15}}},
    {6, {2, 0, 4, 1, 5, 3}, {{32, 15, 32, 15, 15, 15}, {112, 5, 32, 15, 15, 15}, {32, 5, 112, 15, 15, 15}}},
    {6, {3, 2, 5, 1, 0, 4}, {{32, 15, 15, 32, 15, 15}, {112, 5, 15, 32, 15, 15}, {32, 5, 15, 112, 15, 15}}},
    {6, {5, 4, 3, 2, 1, 0}, {{32, 15, 15, 15, 15, 32}, {112, 5, 15, 15, 15, 32}, {32, 5, 15, 15, 15, 112}}},
};

/* Writes an order of dimensions as text, in which dimension 0 is the slowest. from_fastest: in order, dimension 0
 * is the fastest. */
static void write_order(char text[VALUE_MAX], const unsigned char *order, uint32_t dims, bool from_fastest)
{
    int64_t numbers[LEAT_LAYOUT_MAX_DIMS];
    char all[LAYOUT_TEXT_MAX];
    uint32_t i;

    for (i = 0; i < dims; i++)
        numbers[i] = from_fastest ? (int64_t)dims - 1 - order[dims - 1 - i] : order[i];
    snprintf(text, VALUE_MAX, "%.*s", VALUE_MAX - 1, layout_numbers(all, numbers, dims));
}

static void make_permutations(struct maker *maker)
{
    static const uint32_t element_sizes[] = {4, 8, 2, 1};
    unsigned e, p, shape;
    uint32_t i;

    for (e = 0; e < sizeof element_sizes / sizeof element_sizes[0]; e++)
        for (p = 0; p < sizeof permutations / sizeof permutations[0]; p++)
            for (shape = 0; shape < 3; shape++) {
                const struct permutation *permutation = &permutations[p];
                struct spec spec = {.element_bytes = element_sizes[e], .dims = permutation->dims};
                char order[VALUE_MAX];

                for (i = 0; i < spec.dims; i++)
                    spec.size[i] = permutation->sizes[shape][spec.dims - 1 - i];
                write_order(order, permutation->order, spec.dims, true);
                emit_scaled(maker, e == 0 && shape == 0 && (p == 3 || p == 8), spec, order);
            }
}

/* ---- neural networks ---- */

static void make_attention(struct maker *maker)
{
    static const int64_t head[] = {64, 80, 96, 128};
    unsigned i;

    for (i = 0; i < sizeof head / sizeof head[0]; i++)
        emit_scaled(maker, i == 0, SPEC(2, 32, 2048, 16, head[i]), "0,2,1,3");
    emit_scaled(maker, false, SPEC(2, 32, 16, 2048, 64), "0,2,1,3");
    emit_scaled(maker, false, SPEC(4, 1024, 12, 128, 64), "0,2,1,3");
    emit_scaled(maker, false, SPEC(2, 32, 16, 2048, 64), "0,1,3,2");
    emit_scaled(maker, false, SPEC(2, 16, 2048, 3, 16, 64), "2,0,3,1,4"); /* packed queries, keys, values */
}

static void make_images(struct maker *maker)
{
    static const uint32_t sizes[] = {4, 2, 1};
    unsigned i;

    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        emit_scaled(maker, i == 0, SPEC(sizes[i], 64, 3, 224, 224), "0,2,3,1");
        emit_scaled(maker, i == 2, SPEC(sizes[i], 64, 224, 224, 3), "0,3,1,2");
        emit_scaled(maker, false, SPEC(sizes[i], 64, 4, 224, 224), "0,2,3,1");
        emit_scaled(maker, false, SPEC(sizes[i], 64, 2048, 7, 7), "0,2,3,1");
        emit_scaled(maker, false, SPEC(sizes[i], 64, 7, 7, 2048), "0,3,1,2");
        emit_scaled(maker, false, SPEC(sizes[i], 32, 256, 56, 56), "0,2,3,1");
        emit_scaled(maker, false, SPEC(sizes[i], 64, 64, 56, 56), "0,2,3,1");
        emit_scaled(maker, false, SPEC(sizes[i], 64, 56, 56, 64), "0,3,1,2");
        emit_scaled(maker, false, SPEC(sizes[i], 64, 3, 14, 16, 14, 16), "0,2,4,1,3,5"); /* patches */
    }
}

static void make_learning(struct maker *maker)
{
    static const char *const four[] = {"3,2,1,0", "0,3,1,2", "2,0,3,1", "1,0,3,2", "0,2,1,3"};
    static const char *const three[] = {"0,1,3,2", "0,2,1,3", "0,2,3,1", "0,3,1,2", "0,3,2,1"};
    unsigned i;

    make_images(maker);
    make_attention(maker);
    for (i = 0; i < sizeof four / sizeof four[0]; i++)
        emit_scaled(maker, false, SPEC(4, 64, 128, 256, 512), four[i]);
    for (i = 0; i < sizeof three / sizeof three[0]; i++) {
        emit_scaled(maker, false, SPEC(2, 1, 1024, 1024, 256), three[i]);
        emit_scaled(maker, false, SPEC(4, 1, 255, 2272, 32), three[i]);
    }
    emit_scaled(maker, false, SPEC(1, 8, 4096, 4096), "0,2,1");
    emit_scaled(maker, false, SPEC(2, 8, 6144, 4096), "0,2,1");
    emit_scaled(maker, false, SPEC(2, 128, 1024, 1024), "0,2,1");
    emit_scaled(maker, false, SPEC(1, 128, 1024, 1024), "0,2,1");
    emit_scaled(maker, false, SPEC(2, 3072, 64, 512), "0,2,1");
    emit_scaled(maker, false, SPEC(2, 3072, 2048, 12), "0,2,1");
    emit_scaled(maker, false, SPEC(2, 3072, 1024, 24), "0,2,1");
    emit_scaled(maker, false, SPEC(4, 1024, 1024, 128), "2,1,0");
    emit_scaled(maker, false, SPEC(4, 8192, 128, 128), "2,1,0");
    emit_scaled(maker, false, SPEC(2, 686, 686, 128), "1,0,2");
    emit_scaled(maker, false, SPEC(2, 8, 1024, 1024, 12), "0,3,1,2");
    emit_scaled(maker, false, SPEC(1, 32768, 8192), "1,0");
}

/* ---- pixels ---- */

static void make_pixels(struct maker *maker)
{
    static const int64_t channels[] = {2, 3, 4, 5, 8, 12, 16, 24};
    static const uint32_t sizes[] = {1, 2, 4};
    struct spec pitched = SPEC(1, 64, 224, 256, 3), repeated = SPEC(1, 1, 3);
    unsigned i, k;

    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (k = 0; k < sizeof channels / sizeof channels[0]; k++) {
            int64_t count = (int64_t)(maker->bytes / sizes[i]) / channels[k];

            emit_transpose(maker, i == 0 && channels[k] == 3, sizes[i], count, channels[k]);
            emit_transpose(maker, i == 0 && channels[k] == 3, sizes[i], channels[k], count);
        }
        emit_scaled(maker, false, SPEC(sizes[i], 64, 224, 224, 3), "0,3,1,2");
        emit_scaled(maker, false, SPEC(sizes[i], 64, 3, 224, 224), "0,2,3,1");
        /* Planes that do not begin at words of 16 bytes. */
        emit_scaled(maker, false, SPEC(sizes[i], 64, 223, 225, 3), "0,3,1,2");
        emit_scaled(maker, false, SPEC(sizes[i], 64, 3, 223, 225), "0,2,3,1");
    }
    scale(&pitched, maker->bytes);
    add_step(&pitched, LAYOUT_SLICE, "2:0:224");
    add_step(&pitched, LAYOUT_PERM, "0,3,1,2");
    emit(maker, false, &pitched);
    add_step(&repeated, LAYOUT_BROADCAST, "0:%lld", (long long)(maker->bytes / 3));
    emit(maker, false, &repeated);
    emit_scaled(maker, false, SPEC(3, 300, 300, 300), "0,2,1");
    emit_scaled(maker, false, SPEC(6, 300, 300, 300), "0,2,1");
    emit_scaled(maker, false, SPEC(12, 1000, 1000, 10), "2,1,0");
}

/* ---- many dimensions ---- */

/* Returns a pseudorandom number. The seed is constant, so the cases are the same in every run and on every
 * machine. */
static uint64_t next_random(struct maker *maker)
{
    return leat_pattern_value(maker->random++, 57);
}

static void shuffle(struct maker *maker, unsigned char *order, uint32_t dims)
{
    uint32_t i;

    for (i = dims; i > 1; i--) {
        uint32_t other = (uint32_t)(next_random(maker) % i);
        unsigned char kept = order[i - 1];

        order[i - 1] = order[other];
        order[other] = kept;
    }
}

enum order_kind { ORDER_REVERSED, ORDER_CYCLIC, ORDER_HALVES, ORDER_EVEN_ODD, ORDER_RANDOM };

static void emit_order(struct maker *maker, bool main_case, struct spec spec, enum order_kind kind)
{
    unsigned char order[LEAT_LAYOUT_MAX_DIMS];
    uint32_t dims = spec.dims, half = (dims + 1) / 2, i;
    char text[VALUE_MAX];

    for (i = 0; i < dims; i++)
        order[i] = (unsigned char)(kind == ORDER_REVERSED   ? dims - 1 - i
                                   : kind == ORDER_CYCLIC   ? (i + 1) % dims
                                   : kind == ORDER_HALVES   ? (i + dims / 2) % dims
                                   : kind == ORDER_EVEN_ODD ? (i < half ? 2 * i : 2 * (i - half) + 1)
                                                            : i);
    if (kind == ORDER_RANDOM)
        shuffle(maker, order, dims);
    write_order(text, order, dims, false);
    emit_scaled(maker, main_case, spec, text);
}

static void make_shuffles(struct maker *maker)
{
    const struct spec eight = SPEC(8, 40, 37, 33, 35, 4, 2, 3, 5);
    const struct spec twelve = SPEC(8, 24, 22, 18, 20, 2, 3, 2, 2, 3, 4, 3, 2);
    int64_t elements = (int64_t)(maker->bytes / 4);
    unsigned i;

    for (i = 0; i < 10; i++) {
        emit_order(maker, i == 0, eight, i ? ORDER_RANDOM : ORDER_REVERSED);
        emit_order(maker, false, twelve, i ? ORDER_RANDOM : ORDER_REVERSED);
    }
    for (i = 2; i <= 5; i++) {
        emit_transpose(maker, i == 3, 4, elements / i, i);
        emit_transpose(maker, false, 4, i, elements / i);
    }
    emit_scaled(maker, false, SPEC(4, 99999, 2, 2), "0,2,1");
    emit_scaled(maker, false, SPEC(2, 99999, 3, 5), "0,2,1");
    emit_scaled(maker, false, SPEC(8, 16, 16, 32, 32, 32, 32), "5,0,4,1,3,2");
}

static void make_dims(struct maker *maker)
{
    struct spec spec = {.element_bytes = 8, .dims = 24};
    unsigned i;

    while (spec.dims > 4 && (uint64_t)8 << spec.dims > maker->bytes)
        spec.dims--;
    for (i = 0; i < spec.dims; i++)
        spec.size[i] = 2;
    emit_order(maker, true, spec, ORDER_REVERSED);
    emit_order(maker, false, spec, ORDER_CYCLIC);
    emit_order(maker, false, spec, ORDER_HALVES);
    emit_order(maker, false, spec, ORDER_EVEN_ODD);
    for (i = 0; i < 4; i++)
        emit_order(maker, false, spec, ORDER_RANDOM);
    spec.element_bytes = 4;
    for (i = 0; i < 2; i++)
        emit_order(maker, false, spec, i ? ORDER_RANDOM : ORDER_REVERSED);
}

/* ---- lists, broadcasts, slices ---- */

static void make_gathers(struct maker *maker)
{
    static const int64_t rows[] = {64, 100, 128, 256, 257, 512, 1024, 5120, 32768}; /* lengths of a row in bytes */
    unsigned i, variant;

    for (i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (variant = 0; variant < 2; variant++) {
            uint32_t element_bytes = rows[i] % 4 ? 1 : 4;
            int64_t count = (int64_t)fmax(2, (double)maker->bytes / (double)rows[i]);
            struct spec spec = SPEC(element_bytes, variant ? count : 2 * count, rows[i] / element_bytes);

            if (variant == 0)
                add_step(&spec, LAYOUT_INDEX, "0:%lld:%d", (long long)count, i % 2 ? 4 : 8);
            else
                add_step(&spec, LAYOUT_SCATTER, "0:%lld:%d", (long long)(2 * count), i % 2 ? 4 : 8);
            emit(maker, rows[i] == 256 || (rows[i] == 5120 && variant == 0), &spec);
        }
    for (variant = 0; variant < 2; variant++) {
        /* Each index selects one element, or, as in a cache of keys, a run of 64 elements within a row. */
        int64_t count = (int64_t)fmax(2, (double)maker->bytes / (4096.0 * 4));
        struct spec spec = variant ? SPEC(2, count, 128, 64) : SPEC(4, count, 4096);

        add_step(&spec, LAYOUT_INDEX, variant ? "1:128" : "1:4096");
        emit(maker, false, &spec);
    }
}

static void make_broadcasts(struct maker *maker)
{
    int64_t elements = (int64_t)(maker->bytes / 4), other = elements / 4096 > 0 ? elements / 4096 : 1;
    struct spec row = SPEC(4, 1, 4096), column = SPEC(4, other, 1), scalar = SPEC(4, 1, 1);
    struct spec middle = SPEC(4, 64, 1, 256), narrow = SPEC(1, 1, 3);

    add_step(&row, LAYOUT_BROADCAST, "0:%lld", (long long)other);
    emit(maker, true, &row);
    add_step(&column, LAYOUT_BROADCAST, "1:4096");
    emit(maker, false, &column);
    add_step(&scalar, LAYOUT_BROADCAST, "0:%lld", (long long)other);
    add_step(&scalar, LAYOUT_BROADCAST, "1:4096");
    emit(maker, false, &scalar);
    add_step(&middle, LAYOUT_BROADCAST, "1:%lld", (long long)(elements / (64 * 256) + 1));
    emit(maker, false, &middle);
    add_step(&narrow, LAYOUT_BROADCAST, "0:%lld", (long long)(maker->bytes / 3));
    emit(maker, false, &narrow);
}

static void make_slices(struct maker *maker)
{
    static const int64_t widths[] = {1, 3, 16, 100, 1000};
    int64_t rows = (int64_t)fmax(4, (double)maker->bytes / 4096);
    unsigned i;

    for (i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        struct spec spec = SPEC(4, rows, 1024);

        add_step(&spec, LAYOUT_SLICE, "1:5:%lld", (long long)(5 + widths[i]));
        emit(maker, widths[i] == 100, &spec);
    }
    for (i = 0; i < 6; i++) {
        struct spec spec = i == 5 ? SPEC(3, rows, 1365) : SPEC(4, rows, 1024);

        if (i == 0)
            add_step(&spec, LAYOUT_SLICE, "1:0:1024:2");
        else if (i == 1)
            add_step(&spec, LAYOUT_SLICE, "0:0:%lld:2", (long long)rows);
        else if (i == 2)
            add_step(&spec, LAYOUT_FLIP, "1");
        else if (i == 3)
            add_step(&spec, LAYOUT_FLIP, "0");
        else
            add_step(&spec, LAYOUT_SLICE, "1:1:%d", i == 5 ? 1364 : 1023);
        if (i == 4)
            add_step(&spec, LAYOUT_PERM, "1,0"); /* transpose a slice that begins at no aligned address */
        emit(maker, i == 2, &spec);
    }
}

/* ---- copies between host and device, and the cost of single calls ---- */

static void make_host(struct maker *maker)
{
    static const leat_kind kinds[] = {LEAT_KIND_PINNED, LEAT_KIND_PAGEABLE};
    int64_t side = (int64_t)fmax(1, sqrt((double)maker->bytes / 4) / 64) * 64;
    unsigned i;

    for (i = 0; i < 4; i++) {
        struct spec slice = SPEC(4, side, side);

        maker->from = i % 2 ? LEAT_KIND_DEVICE : kinds[i / 2];
        maker->to = i % 2 ? kinds[i / 2] : LEAT_KIND_DEVICE;
        emit_transpose(maker, i == 0, 4, side, side);
        emit_transpose(maker, false, 2, side, 2 * side);
        add_step(&slice, LAYOUT_SLICE, "1:0:%lld", (long long)(side / 2));
        emit(maker, false, &slice);
    }
}

static void make_calls(struct maker *maker)
{
    static const int64_t sides[] = {64, 256, 512, 1024};
    unsigned i;

    for (i = 0; i < sizeof sides / sizeof sides[0]; i++)
        emit_transpose(maker, sides[i] == 512, 4, sides[i], sides[i]);
}

bool layout_suite_cases(enum layout_suite suite, uint64_t bytes, bool main_only, layout_visit visit, void *state,
                        char error[LAYOUT_ERROR_MAX])
{
    static void (*const makers[SUITE_COUNT])(struct maker *) = {
        make_transposes, make_permutations, make_learning, make_pixels, make_shuffles, make_dims,
        make_gathers,    make_broadcasts,   make_slices,   make_host,   make_calls};
    struct maker maker = {.suite = suite,
                          .bytes = bytes,
                          .main_only = main_only,
                          .from = LEAT_KIND_DEVICE,
                          .to = LEAT_KIND_DEVICE,
                          .visit = visit,
                          .state = state,
                          .error = error};

    error[0] = '\0';
    makers[suite](&maker);
    return !maker.stopped;
}
