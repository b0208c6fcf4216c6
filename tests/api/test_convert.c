/*
 * test_convert.c - tests leat_copy_convert() against a plain loop with arithmetic of its own: every number of 16
 * bits, numbers around each rounding, random layouts and types between all kinds of memory, shapes of images, and
 * calls that are refused.
 *
 * The program prints its seed; TEST_SEED sets it. LAYOUT_MANY sets the number of random layouts.
 */
#include "layout_arenas.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE_BYTES ((uint64_t)256 << 10)
#define ARENA_BYTES ((size_t)16 << 20)

static const uint32_t number_bytes[] = {0, 1, 2, 2, 4};

/* ---- the reference ---- */

static uint32_t bits_of(float number)
{
    uint32_t bits;

    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float number;

    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Rounds to a format with this many bits of fraction, whose smallest normal number is 2^lowest. Returns the bits
 * without the sign, of which the exponent may be above the largest one. */
static uint32_t round_to(double number, int fraction_bits, int lowest)
{
    int exponent = number == 0 ? lowest : ilogb(number);

    if (exponent < lowest)
        exponent = lowest;
    return ((uint32_t)(exponent - lowest) << fraction_bits) +
           (uint32_t)nearbyint(ldexp(number, fraction_bits - exponent));
}

static uint32_t to_16_bits(uint32_t bits, leat_number number)
{
    bool half = number == LEAT_NUMBER_F16;
    uint32_t sign = bits >> 31 << 15, infinity = half ? 0x7c00 : 0x7f80, rounded;
    int fraction_bits = half ? 10 : 7;

    if (isnan(float_of(bits)))
        return sign | infinity | 1u << (fraction_bits - 1) |
               (bits >> (23 - fraction_bits) & ((1u << (fraction_bits - 1)) - 1));
    if (isinf(float_of(bits)))
        return sign | infinity;
    rounded = round_to(fabs((double)float_of(bits)), fraction_bits, half ? -14 : -126);
    return sign | (rounded > infinity ? infinity : rounded);
}

static uint32_t from_f16(uint32_t bits)
{
    uint32_t sign = bits >> 15 << 31, exponent = bits >> 10 & 31, fraction = bits & 1023;

    if (exponent == 31)
        return sign | 0x7f800000u | fraction << 13;
    return sign |
           bits_of((float)ldexp(exponent ? fraction + 1024.0 : fraction, (exponent ? (int)exponent : 1) - 25));
}

static uint64_t reversed(uint64_t value, uint32_t bytes)
{
    uint64_t out = 0;

    for (uint32_t i = 0; i < bytes; i++)
        out |= (value >> i * 8 & 255) << (bytes - 1 - i) * 8;
    return out;
}

/* Multiplies and adds, each step rounded to a float in memory. */
static uint32_t scaled(uint32_t bits, const leat_conversion *conversion, uint32_t channel)
{
    volatile float number = float_of(bits);

    if (isnan(float_of(bits)))
        return bits | 0x400000u;
    if (conversion->scale)
        number *= conversion->scale[channel];
    if (conversion->bias)
        number += conversion->bias[channel];
    return isnan(number) ? 0x7fc00000u : bits_of(number);
}

static uint64_t expected(uint64_t value, const leat_conversion *conversion, uint32_t channel, uint32_t dst_bytes,
                         uint32_t src_bytes)
{
    if (conversion->flags & LEAT_CONVERT_SWAP_SRC)
        value = reversed(value, src_bytes);
    if (conversion->dst != LEAT_NUMBER_BITS) {
        uint32_t bits = (uint32_t)value;

        bits = conversion->src == LEAT_NUMBER_U8     ? bits_of((float)bits)
               : conversion->src == LEAT_NUMBER_F16  ? from_f16(bits)
               : conversion->src == LEAT_NUMBER_BF16 ? bits << 16
                                                     : bits;
        bits = scaled(bits, conversion, channel);
        value = conversion->dst == LEAT_NUMBER_F32 ? bits : to_16_bits(bits, conversion->dst);
    }
    return conversion->flags & LEAT_CONVERT_SWAP_DST ? reversed(value, dst_bytes) : value;
}

/* Returns the index of an element, given by its number in the order of C arrays, in dimension dim. */
static uint32_t index_in(const leat_layout *layout, uint64_t number, uint32_t dim)
{
    for (uint32_t i = layout->dims; i-- > dim + 1;)
        number /= (uint64_t)layout->size[i];
    return (uint32_t)(number % (uint64_t)layout->size[dim]);
}

static void convert_plainly(const struct layouts_pair *pair, const leat_conversion *conversion,
                            unsigned char *dst_low, const unsigned char *src_low)
{
    uint32_t dst_bytes = pair->dst.element_bytes, src_bytes = pair->src.element_bytes;

    for (uint64_t i = 0; i < pair->elements; i++) {
        uint32_t channel = conversion->channels ? index_in(&pair->dst, i, conversion->channel_dim) : 0;
        uint64_t value = 0;

        memcpy(&value, src_low + (layouts_at(&pair->src, i) - pair->src_low), src_bytes);
        value = expected(value, conversion, channel, dst_bytes, src_bytes);
        memcpy(dst_low + (layouts_at(&pair->dst, i) - pair->dst_low), &value, dst_bytes);
    }
}

/* ---- one copy, with all its bytes compared ---- */

static void tell(const struct layouts_pair *pair, const leat_conversion *conversion, const char *what,
                 enum place to, enum place from)
{
    char text[512];

    snprintf(text, sizeof text, "%s to %s, flags %x, %u channels in dimension %u: %s",
             leat_number_name(conversion->src), leat_number_name(conversion->dst), conversion->flags,
             conversion->channels, conversion->channel_dim, what);
    complain(pair, text, to, from);
}

static void expect_bytes(const struct arenas *arenas, const unsigned char *wanted, size_t bytes,
                         const struct layouts_pair *pair, const leat_conversion *conversion, const char *side,
                         enum place to, enum place from)
{
    char what[100];
    size_t i = 0;

    if (!memcmp(arenas->seen, wanted, bytes))
        return;
    while (arenas->seen[i] == wanted[i])
        i++;
    snprintf(what, sizeof what, "byte %zu of %s is %02x and not %02x", i - GUARD_BYTES, side, arenas->seen[i],
             wanted[i]);
    tell(pair, conversion, what, to, from);
}

static unsigned char *aligned_base(unsigned char *arena, int64_t low, uint32_t element_bytes)
{
    return base_for(arena, low, chance(2) ? chance(16) * element_bytes : 0);
}

static void convert_pair(leat_stream *stream, struct arenas *arenas, enum place to, enum place from,
                         const struct layouts_pair *pair, const leat_conversion *conversion)
{
    unsigned char *dst = aligned_base(arenas->arena[0][to], pair->dst_low, pair->dst.element_bytes);
    unsigned char *src = aligned_base(arenas->arena[1][from], pair->src_low, pair->src.element_bytes);
    size_t dst_window = (size_t)(pair->dst_high - pair->dst_low) + 2 * GUARD_BYTES;
    size_t src_window = (size_t)(pair->src_high - pair->src_low) + 2 * GUARD_BYTES;
    leat_status status;

    assert_true(dst_window + 200 <= arenas->bytes && src_window + 200 <= arenas->bytes);
    memset(arenas->wanted, 0xa5, dst_window);
    OK(leat_copy(stream, dst + pair->dst_low - GUARD_BYTES, arenas->wanted, dst_window));
    OK(leat_copy_sync(stream, src + pair->src_low - GUARD_BYTES, arenas->in, src_window));
    status = leat_copy_convert(stream, dst, &pair->dst, src, &pair->src, conversion);
    if (status == LEAT_ERROR_UNSUPPORTED && may_be_refused(to, from, PAGEABLE, pair)) {
        OK(leat_stream_synchronize(stream));
        return;
    }
    if (status != LEAT_OK)
        tell(pair, conversion, leat_last_error(), to, from);
    OK(leat_copy_sync(stream, arenas->seen, dst + pair->dst_low - GUARD_BYTES, dst_window));
    convert_plainly(pair, conversion, arenas->wanted + GUARD_BYTES, arenas->in + GUARD_BYTES);
    expect_bytes(arenas, arenas->wanted, dst_window, pair, conversion, "dst", to, from);
    OK(leat_copy_sync(stream, arenas->seen, src + pair->src_low - GUARD_BYTES, src_window));
    expect_bytes(arenas, arenas->in, src_window, pair, conversion, "src", to, from);
}

/* ---- conversions ---- */

static float scales[LEAT_CONVERT_MAX_CHANNELS], biases[LEAT_CONVERT_MAX_CHANNELS];

static float random_factor(void)
{
    switch (chance(6)) {
    case 0:
        return 0;
    case 1:
        return ldexpf(1.0f + (float)chance(1000) / 1000.0f, (int)chance(250) - 125);
    default:
        return ((float)chance(2001) - 1000.0f) / 137.0f;
    }
}

static leat_conversion conversion_of(leat_number dst, leat_number src)
{
    leat_conversion conversion = LEAT_CONVERSION_INIT;

    conversion.dst = dst;
    conversion.src = src;
    return conversion;
}

/* Gives the elements of a pair of layouts, which have 1 byte, other sizes. */
static void resize_elements(struct layouts_pair *pair, uint32_t dst_bytes, uint32_t src_bytes)
{
    pair->dst.element_bytes = dst_bytes;
    pair->src.element_bytes = src_bytes;
    pair->dst.offset_bytes *= dst_bytes;
    pair->src.offset_bytes *= src_bytes;
    for (uint32_t i = 0; i < pair->dst.dims; i++) {
        pair->dst.stride_bytes[i] *= dst_bytes;
        pair->src.stride_bytes[i] *= src_bytes;
    }
    layouts_measure(pair);
}

static void draw_factors(leat_conversion *conversion)
{
    for (uint32_t i = 0; i < LEAT_CONVERT_MAX_CHANNELS; i++) {
        scales[i] = random_factor();
        biases[i] = random_factor();
    }
    conversion->scale = chance(4) ? scales : NULL;
    conversion->bias = chance(4) ? biases : NULL;
}

/* Draws types, bytes to reverse, scales and biases for a pair of layouts that has 1 byte for each element, and
 * sets the sizes of its elements. */
static void draw_conversion(struct layouts_pair *pair, leat_conversion *conversion)
{
    bool bits = chance(6) == 0;
    uint32_t dst_bytes, src_bytes;

    *conversion = conversion_of(LEAT_NUMBER_BITS, LEAT_NUMBER_BITS);
    conversion->flags = (uint32_t)chance(3) ? 0 : (uint32_t)chance(4);
    if (!bits) {
        conversion->dst = (leat_number)(LEAT_NUMBER_F16 + chance(3));
        conversion->src = (leat_number)(LEAT_NUMBER_U8 + chance(4));
    }
    dst_bytes = bits ? 2u << chance(3) : number_bytes[conversion->dst];
    src_bytes = bits ? dst_bytes : number_bytes[conversion->src];
    resize_elements(pair, dst_bytes, src_bytes);
    if (bits)
        return;
    draw_factors(conversion);
    if (pair->dst.dims && chance(4)) {
        uint32_t dim = (uint32_t)chance(pair->dst.dims);

        if (pair->dst.size[dim] > LEAT_CONVERT_MAX_CHANNELS)
            return;
        conversion->channel_dim = dim;
        conversion->channels = (uint32_t)pair->dst.size[dim];
    }
}

/* Fills the source's bytes with numbers of all sizes, many of them special. */
static void fill_source(struct arenas *arenas)
{
    static const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00001, 0xff812345,
                                       0x00000001, 0x007fffff, 0x7f7fffff, 0x7e007c00, 0xfc017c01, 0x03ff0001,
                                       0x38800000, 0x33000000, 0x477fefff, 0x477ff000, 0x7f7f7f80, 0x00ff01fe};

    for (size_t i = 0; i + 4 <= arenas->bytes; i += 4) {
        uint32_t value = (uint32_t)chance((uint64_t)1 << 32);

        if (chance(4) == 0)
            value = special[chance(sizeof special / sizeof special[0])];
        memcpy(arenas->in + i, &value, sizeof value);
    }
}

/* ---- every number ---- */

/* Converts count elements, which stand at the beginning of arenas->in, in a row and as a transpose. */
static void convert_row_and_transpose(struct test_state *t, struct arenas *arenas,
                                      const leat_conversion *conversion, int64_t count)
{
    uint32_t dst_bytes = number_bytes[conversion->dst], src_bytes = number_bytes[conversion->src];
    enum place places[] = {DEVICE, PAGEABLE};

    for (unsigned way = 0; way < 4; way++) {
        struct layouts_pair pair = {.nested = true};

        OK(leat_layout_dense(&pair.src, 2, (int64_t[]){count / 256, 256}, src_bytes));
        if (way % 2)
            OK(leat_layout_transpose(&pair.src, 0, 1));
        OK(leat_layout_dense(&pair.dst, 2, pair.src.size, dst_bytes));
        layouts_measure(&pair);
        /* The numbers begin where the source does. */
        memmove(arenas->in + GUARD_BYTES, arenas->in, (size_t)count * src_bytes);
        convert_pair(t->stream, arenas, places[way / 2], places[way / 2], &pair, conversion);
        memmove(arenas->in, arenas->in + GUARD_BYTES, (size_t)count * src_bytes);
    }
}

static void every_number_of_16_bits(void **state)
{
    static const leat_number sources[] = {LEAT_NUMBER_F16, LEAT_NUMBER_BF16},
                             targets[] = {LEAT_NUMBER_F32, LEAT_NUMBER_F16, LEAT_NUMBER_BF16};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, (size_t)1 << 20);
    for (uint32_t i = 0; i < 65536; i++)
        memcpy(arenas.in + i * sizeof(uint16_t), &(uint16_t){(uint16_t)i}, sizeof(uint16_t));
    for (unsigned from = 0; from < 2; from++)
        for (unsigned to = 0; to < 3; to++)
            for (unsigned scaled_too = 0; scaled_too < 2; scaled_too++) {
                leat_conversion conversion = conversion_of(targets[to], sources[from]);

                scales[0] = -3.3e-3f, biases[0] = 1.7f;
                conversion.scale = scaled_too ? scales : NULL;
                conversion.bias = scaled_too ? biases : NULL;
                convert_row_and_transpose(t, &arenas, &conversion, 65536);
            }
    end_arenas(&arenas);
}

/* Numbers at which rounding to 16 bits changes: each such number, the middle between it and the next, and the
 * neighbours of both as F32. */
static void numbers_around_each_rounding(void **state)
{
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, (size_t)3 << 20);
    for (unsigned half = 0; half < 2; half++) {
        leat_conversion conversion = conversion_of(half ? LEAT_NUMBER_F16 : LEAT_NUMBER_BF16, LEAT_NUMBER_F32);

        for (unsigned part = 0; part < 2; part++) {
            for (uint32_t i = 0; i < 65536; i++) {
                uint32_t low = half ? from_f16(i) : i << 16, next = half ? from_f16(i + 1) : (i + 1) << 16;
                uint32_t middle = bits_of((float)(((double)float_of(low) + (double)float_of(next)) / 2));
                uint32_t at = part ? middle : low, values[] = {at - 1, at, at + 1, at ^ 0x1000};

                memcpy(arenas.in + i * sizeof values, values, sizeof values);
            }
            convert_row_and_transpose(t, &arenas, &conversion, 65536 * 4);
        }
    }
    end_arenas(&arenas);
}

static void every_byte(void **state)
{
    static const leat_number targets[] = {LEAT_NUMBER_F32, LEAT_NUMBER_F16, LEAT_NUMBER_BF16};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, (size_t)1 << 20);
    for (uint32_t i = 0; i < 65536; i++)
        arenas.in[i] = (unsigned char)(i ^ i >> 8);
    for (unsigned to = 0; to < 3; to++)
        for (unsigned i = 0; i < 20; i++) {
            leat_conversion conversion = conversion_of(targets[to], LEAT_NUMBER_U8);

            scales[0] = random_factor(), biases[0] = random_factor();
            conversion.scale = i ? scales : NULL;
            conversion.bias = i ? biases : NULL;
            convert_row_and_transpose(t, &arenas, &conversion, 65536);
        }
    end_arenas(&arenas);
}

/* ---- layouts ---- */

static void random_layouts_between_all_kinds(void **state)
{
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, ARENA_BYTES);
    fill_source(&arenas);
    for (unsigned i = 0; i < many * 8; i++) {
        enum place to = chance(2) ? DEVICE : (enum place)chance(PLACES), from = (enum place)chance(PLACES);
        leat_conversion conversion;
        struct layouts_pair pair;

        if (!is_there(&arenas, to, from))
            continue;
        layouts_draw(&random_state, 1, i % 50 ? SMALL_BYTES / 4 : LARGE_BYTES / 4, LAYOUTS_NO_LIST, &pair);
        draw_conversion(&pair, &conversion);
        convert_pair(t->stream, &arenas, to, from, &pair, &conversion);
    }
    end_arenas(&arenas);
}

/* Images: pixels to planes, planes to pixels, the order kept; whole images and parts of larger ones; channels
 * along each of these dimensions. */
static void shapes_of_images(void **state)
{
    static const int64_t sizes[][4] = {{2, 56, 57, 3}, {3, 32, 32, 3},  {1, 37, 299, 3},  {2, 64, 64, 4},
                                       {2, 20, 33, 4}, {1, 40, 40, 1},  {2, 25, 31, 2},   {1, 9, 1000, 3},
                                       {5, 7, 9, 3},   {1, 70, 90, 16}, {2, 10, 10, 200}, {1, 3, 5, 256}};
    static const uint32_t orders[][4] = {{0, 3, 1, 2}, {0, 2, 3, 1}, {0, 1, 2, 3}, {3, 0, 2, 1}};
    static const enum place places[][2] = {
        {DEVICE, DEVICE}, {DEVICE, PAGEABLE}, {PINNED, DEVICE}, {PAGEABLE, PAGEABLE}, {PAGEABLE, DEVICE}};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, (size_t)2 << 20);
    fill_source(&arenas);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (unsigned way = 0; way < 64; way++) {
            const enum place *ends = places[way % 5];
            struct layouts_pair pair = {.nested = true};
            leat_conversion conversion;
            int64_t around[4];

            memcpy(around, sizes[i], sizeof around);
            around[1] += way & 1, around[2] += way & 1;
            OK(leat_layout_dense(&pair.src, 4, around, 1));
            if (way & 1) {
                OK(leat_layout_slice(&pair.src, 1, 1, around[1], 1));
                OK(leat_layout_slice(&pair.src, 2, 1, around[2], 1));
            }
            OK(leat_layout_permute(&pair.src, orders[way / 2 % 4]));
            if (chance(4) == 0)
                OK(leat_layout_flip(&pair.src, (uint32_t)chance(4)));
            OK(leat_layout_dense(&pair.dst, 4, pair.src.size, 1));
            layouts_measure(&pair);
            draw_conversion(&pair, &conversion);
            if (chance(2) && conversion.dst != LEAT_NUMBER_BITS) {
                /* As in normalization: one number for each channel of an image. */
                for (uint32_t dim = 0; dim < 4; dim++)
                    if (pair.dst.size[dim] == sizes[i][3])
                        conversion.channel_dim = dim, conversion.channels = (uint32_t)sizes[i][3];
            }
            convert_pair(t->stream, &arenas, ends[0], ends[1], &pair, &conversion);
        }
    end_arenas(&arenas);
}

/* Large enough for several blocks and parts in each dimension. */
static void large_layouts(void **state)
{
    static const int64_t sizes[][3] = {{700, 3, 401}, {3, 513, 402}, {1030, 2, 131}, {2, 500, 500}};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, (size_t)8 << 20);
    fill_source(&arenas);
    for (unsigned i = 0; i < 4 * 6; i++) {
        static const uint32_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
        struct layouts_pair pair = {.nested = true};
        leat_conversion conversion;

        OK(leat_layout_dense(&pair.src, 3, sizes[i % 4], 1));
        OK(leat_layout_permute(&pair.src, orders[i / 4]));
        OK(leat_layout_dense(&pair.dst, 3, pair.src.size, 1));
        layouts_measure(&pair);
        draw_conversion(&pair, &conversion);
        convert_pair(t->stream, &arenas, DEVICE, i % 3 ? DEVICE : PAGEABLE, &pair, &conversion);
    }
    end_arenas(&arenas);
}

/* Every pair of types, and bits of 2 and 4 bytes: (type of dst, type of src), (size, size). */
static const struct types {
    leat_number dst, src;
    uint32_t dst_bytes, src_bytes;
} all_types[] = {
#define FROM(src, bytes)                                                                                          \
    {LEAT_NUMBER_F16, src, 2, bytes}, {LEAT_NUMBER_BF16, src, 2, bytes},                                          \
    {                                                                                                             \
        LEAT_NUMBER_F32, src, 4, bytes                                                                            \
    }
    FROM(LEAT_NUMBER_U8, 1),
    FROM(LEAT_NUMBER_F16, 2),
    FROM(LEAT_NUMBER_BF16, 2),
    FROM(LEAT_NUMBER_F32, 4),
    {LEAT_NUMBER_BITS, LEAT_NUMBER_BITS, 2, 2},
    {LEAT_NUMBER_BITS, LEAT_NUMBER_BITS, 4, 4},
};
#define ALL_TYPES (sizeof all_types / sizeof all_types[0])

/* Converts between layouts whose last two dimensions are cut out of larger ones, from and to any alignment. sizes:
 * of the elements that are converted. order: as for leat_layout_permute(), applied to the source. */
static void convert_cut(struct test_state *t, struct arenas *arenas, const struct types *types,
                        const int64_t sizes[3], const uint32_t order[3], unsigned channel_dim)
{
    leat_conversion conversion = conversion_of(types->dst, types->src);
    struct layouts_pair pair = {.nested = true};
    int64_t dst_sizes[3];

    for (uint32_t dim = 0; dim < 3; dim++)
        dst_sizes[dim] = sizes[order[dim]];
    for (uint32_t side = 0; side < 2; side++) {
        leat_layout *layout = side ? &pair.src : &pair.dst;
        const int64_t *inner = side ? sizes : dst_sizes;
        int64_t around[3];

        memcpy(around, inner, sizeof around);
        for (uint32_t dim = 1; dim < 3; dim++)
            around[dim] += chance(2) ? 0 : (int64_t)chance(20);
        OK(leat_layout_dense(layout, 3, around, 1));
        for (uint32_t dim = 1; dim < 3; dim++) {
            int64_t first = (int64_t)chance((uint64_t)(around[dim] - inner[dim]) + 1);

            OK(leat_layout_slice(layout, dim, first, first + inner[dim], 1));
        }
    }
    OK(leat_layout_permute(&pair.src, order));
    resize_elements(&pair, types->dst_bytes, types->src_bytes);
    conversion.flags = chance(3) ? 0 : (uint32_t)chance(4);
    if (types->dst != LEAT_NUMBER_BITS) {
        draw_factors(&conversion);
        if (channel_dim < 3 && pair.dst.size[channel_dim] <= LEAT_CONVERT_MAX_CHANNELS) {
            conversion.channel_dim = channel_dim;
            conversion.channels = (uint32_t)pair.dst.size[channel_dim];
        }
    }
    convert_pair(t->stream, arenas, DEVICE, DEVICE, &pair, &conversion);
}

static void rows_of_all_types(void **state)
{
    /* The last dimension is the line, or counts channels. */
    static const int64_t sizes[][3] = {{1, 1, 20000}, {1, 3, 4096}, {2, 9, 64},   {3, 5, 65},  {2, 3, 1023},
                                       {2, 7, 333},   {1, 1, 262},  {3, 50, 3},   {2, 600, 3}, {1, 41, 2},
                                       {1, 700, 4},   {2, 99, 5},   {1, 64, 7},   {3, 1, 100}, {2, 40, 25},
                                       {1, 30, 255},  {2, 9, 256},  {1, 20, 254}, {1, 33, 12}, {1, 5, 128}};
    static const uint32_t order[] = {0, 1, 2};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, (size_t)2 << 20);
    fill_source(&arenas);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] * ALL_TYPES; i++)
        for (unsigned channel_dim = 1; channel_dim < 4; channel_dim++)
            convert_cut(t, &arenas, &all_types[i % ALL_TYPES], sizes[i / ALL_TYPES], order, channel_dim);
    end_arenas(&arenas);
}

/* Two dimensions exchanged: planes that become pixels, pixels that become planes, and tiles. */
static void transposes_of_all_types(void **state)
{
    static const int64_t sizes[][3] = {{2, 3, 1024}, {1, 4, 1030}, {1, 3, 4099}, {5, 4, 64},   {3, 3, 223},
                                       {2, 64, 64},  {1, 65, 131}, {2, 32, 200}, {1, 129, 70}, {1, 256, 40},
                                       {1, 35, 250}, {2, 5, 300},  {2, 300, 3},  {1, 1000, 4}, {1, 260, 33}};
    static const uint32_t order[] = {0, 2, 1};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, (size_t)2 << 20);
    fill_source(&arenas);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] * ALL_TYPES; i++)
        for (unsigned n = 0; n < 4; n++)
            convert_cut(t, &arenas, &all_types[i % ALL_TYPES], sizes[i / ALL_TYPES], order, n);
    end_arenas(&arenas);
}

/* One launch makes many copies, each from and to other addresses. */
static void batches_of_all_types(void **state)
{
    enum { COPIES = 24, ROOM = 20000 };
    static const int64_t sizes[][2] = {{1000, 3}, {3, 1030}, {4, 513}, {40, 70}, {1, 2999}};
    struct test_state *t = *state;
    size_t bytes = (size_t)COPIES * ROOM;
    unsigned char *dst = test_alloc(t->device, LEAT_KIND_DEVICE, bytes),
                  *src = test_alloc(t->device, LEAT_KIND_DEVICE, bytes), *numbers = test_buffer(bytes),
                  *seen = test_buffer(bytes), *wanted = test_buffer(bytes);

    test_pattern(numbers, bytes, 1);
    OK(leat_copy_sync(t->stream, src, numbers, bytes));
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0] * ALL_TYPES * 2; n++) {
        const struct types *types = &all_types[n / 2 % ALL_TYPES];
        leat_conversion conversion = conversion_of(types->dst, types->src);
        leat_layout_copy copies[COPIES];
        struct layouts_pair pair = {.nested = true};

        OK(leat_layout_dense(&pair.src, 2, sizes[n / 2 / ALL_TYPES], types->src_bytes));
        if (n % 2)
            OK(leat_layout_transpose(&pair.src, 0, 1));
        OK(leat_layout_dense(&pair.dst, 2, pair.src.size, types->dst_bytes));
        layouts_measure(&pair);
        if (types->dst != LEAT_NUMBER_BITS) {
            draw_factors(&conversion);
            conversion.channel_dim = pair.dst.size[0] > 256 || (pair.dst.size[1] <= 256 && chance(2));
            conversion.channels = (uint32_t)pair.dst.size[conversion.channel_dim];
            if (conversion.channels > 256)
                conversion.channels = conversion.channel_dim = 0;
        }
        memset(wanted, 0x44, bytes);
        for (size_t i = 0; i < COPIES; i++) {
            size_t to = i * ROOM + chance(9) * types->dst_bytes, from = i * ROOM + chance(9) * types->src_bytes;

            copies[i] = (leat_layout_copy){.dst = dst + to,
                                           .dst_layout = &pair.dst,
                                           .src = src + from,
                                           .src_layout = &pair.src,
                                           .conversion = &conversion};
            convert_plainly(&pair, &conversion, wanted + to, numbers + from);
        }
        OK(leat_fill(t->stream, dst, 0x44, bytes));
        OK(leat_copy_layouts(t->stream, copies, COPIES));
        OK(leat_copy_sync(t->stream, seen, dst, bytes));
        assert_memory_equal(seen, wanted, bytes);
    }
    OK(leat_memory_free(dst));
    OK(leat_memory_free(src));
    free(numbers);
    free(seen);
    free(wanted);
}

/* A source that is not aligned begins and ends at pages that cannot be accessed. A kernel that reads beyond it
 * then fails, at least on the CPU device. */
static void sources_between_missing_pages(void **state)
{
    struct test_state *t = *state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *src = memory + page, *dst = test_alloc(t->device, LEAT_KIND_DEVICE, 4 * page),
                  *seen = test_buffer(4 * page), *wanted = test_buffer(4 * page);

    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(src, page, PROT_READ | PROT_WRITE), 0);
    test_pattern(src, page, 0);
    OK(leat_register(t->device, src, page));
    for (size_t i = 0; i < ALL_TYPES * 16; i++) {
        const struct types *types = &all_types[i / 16];
        leat_conversion conversion = conversion_of(types->dst, types->src);
        size_t apart = i % 4 * types->src_bytes;
        struct layouts_pair pair = {.nested = true};

        /* Without the first or the last elements of the page; rows, or pixels that become planes and vice versa.
         */
        OK(leat_layout_dense(&pair.src, 2, (int64_t[]){(int64_t)((page / types->src_bytes - i % 4) / 3), 3},
                             types->src_bytes));
        if (i % 16 >= 12)
            OK(leat_layout_dense(&pair.src, 2, (int64_t[]){3, pair.src.size[0]}, types->src_bytes));
        if (i % 16 >= 8)
            OK(leat_layout_transpose(&pair.src, 0, 1));
        OK(leat_layout_dense(&pair.dst, 2, pair.src.size, types->dst_bytes));
        layouts_measure(&pair);
        memset(wanted, 0x44, 4 * page);
        apart = i % 8 < 4 ? apart : page - (size_t)pair.src_high;
        convert_plainly(&pair, &conversion, wanted, src + apart);
        OK(leat_fill(t->stream, dst, 0x44, 4 * page));
        OK(leat_copy_convert(t->stream, dst, &pair.dst, src + apart, &pair.src, &conversion));
        OK(leat_copy_sync(t->stream, seen, dst, 4 * page));
        assert_memory_equal(seen, wanted, 4 * page);
    }
    OK(leat_unregister(src));
    assert_int_equal(munmap(memory, 3 * page), 0);
    OK(leat_memory_free(dst));
    free(seen);
    free(wanted);
}

/* ---- order, and what belongs to the caller ---- */

static void conversions_run_in_stream_order(void **state)
{
    enum { BYTES = 1 << 20 };
    struct test_state *t = *state;
    unsigned char *src = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    uint16_t *dst = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES * sizeof *dst);
    uint16_t *seen = test_buffer(BYTES * sizeof *seen);
    leat_layout bytes, halves;

    OK(leat_layout_dense(&bytes, 1, (int64_t[]){BYTES}, 1));
    OK(leat_layout_dense(&halves, 1, (int64_t[]){BYTES}, 2));
    for (unsigned round = 1; round < 20; round++) {
        leat_conversion conversion = conversion_of(LEAT_NUMBER_F16, LEAT_NUMBER_U8);
        float scale = 2.0f;

        conversion.scale = &scale;
        OK(leat_fill(t->stream, src, (unsigned char)round, BYTES));
        OK(leat_copy_convert(t->stream, dst, &halves, src, &bytes, &conversion));
        /* The call has read the scale; and what follows must not come before it. */
        scale = -1.0f;
        OK(leat_fill(t->stream, src, 255, BYTES));
        OK(leat_copy_sync(t->stream, seen, dst, BYTES * sizeof *dst));
        for (size_t i = 0; i < BYTES; i++)
            assert_int_equal(seen[i], to_16_bits(bits_of((float)round * 2.0f), LEAT_NUMBER_F16));
    }
    free(seen);
    OK(leat_memory_free(dst));
    OK(leat_memory_free(src));
}

static void explanations_name_the_conversion(void **state)
{
    struct test_state *t = *state;
    unsigned char *src = test_alloc(t->device, LEAT_KIND_DEVICE, 4096);
    uint16_t *dst = test_alloc(t->device, LEAT_KIND_DEVICE, 8192);
    leat_conversion conversion = conversion_of(LEAT_NUMBER_BF16, LEAT_NUMBER_U8);
    leat_layout bytes, halves;
    char text[2048];

    OK(leat_layout_dense(&bytes, 2, (int64_t[]){16, 3}, 1));
    OK(leat_layout_dense(&halves, 2, (int64_t[]){16, 3}, 2));
    conversion.channels = 3, conversion.channel_dim = 1;
    OK(leat_copy_convert_explain(t->stream, dst, &halves, src, &bytes, &conversion, text, sizeof text));
    assert_non_null(strstr(text, "conversion: u8 to bf16, a scale and a bias for each of 3 channels"));
    REFUSED(leat_copy_convert_explain(t->stream, dst, &halves, src, &bytes, &conversion, NULL, sizeof text),
            LEAT_ERROR_INVALID, "");
    REFUSED(leat_copy_convert_explain(t->stream, dst, &halves, src, &bytes, &conversion, text, 0),
            LEAT_ERROR_INVALID, "");
    REFUSED(leat_copy_convert_explain(t->stream, dst, &halves, src, &bytes, NULL, text, sizeof text),
            LEAT_ERROR_INVALID, "");
    assert_string_equal(leat_number_name(LEAT_NUMBER_F32), "f32");
    assert_string_equal(leat_number_name((leat_number)9), "unknown");
    OK(leat_memory_free(dst));
    OK(leat_memory_free(src));
}

/* ---- bad input ---- */

/* What a call of bad_calls_are_refused() passes. */
struct call {
    leat_conversion conversion;
    leat_layout dst_layout, src_layout;
    unsigned char *dst, *src;
};

static struct call good_call(unsigned char *dst, unsigned char *src)
{
    struct call call = {.conversion = conversion_of(LEAT_NUMBER_F16, LEAT_NUMBER_U8), .dst = dst, .src = src};

    OK(leat_layout_dense(&call.dst_layout, 2, (int64_t[]){8, 4}, 2));
    OK(leat_layout_dense(&call.src_layout, 2, (int64_t[]){8, 4}, 1));
    return call;
}

/* A good call with the change given last is refused. */
#define BAD(status, words, ...)                                                                                   \
    do {                                                                                                          \
        struct call call = good_call(dst, src);                                                                   \
                                                                                                                  \
        __VA_ARGS__;                                                                                              \
        REFUSED(leat_copy_convert(t->stream, call.dst, &call.dst_layout, call.src, &call.src_layout,              \
                                  &call.conversion),                                                              \
                status, words);                                                                                   \
    } while (0)

static void bad_conversions_are_refused(void **state)
{
    static const float numbers[] = {1, 2, 3, INFINITY}, nothing[] = {NAN};
    struct test_state *t = *state;
    unsigned char *dst = test_alloc(t->device, LEAT_KIND_DEVICE, 4096), *src = dst + 2048;
    struct call good = good_call(dst, src);

    OK(leat_copy_convert(t->stream, good.dst, &good.dst_layout, good.src, &good.src_layout, &good.conversion));
    BAD(LEAT_ERROR_INVALID, "size", call.conversion.size = 0);
    BAD(LEAT_ERROR_INVALID, "types", call.conversion.dst = (leat_number)5);
    BAD(LEAT_ERROR_INVALID, "types", call.conversion.src = (leat_number)-1);
    BAD(LEAT_ERROR_INVALID, "only sources", call.conversion.dst = LEAT_NUMBER_U8);
    BAD(LEAT_ERROR_INVALID, "dst have 2 bytes", call.conversion.dst = LEAT_NUMBER_F32);
    BAD(LEAT_ERROR_INVALID, "src have 1 bytes", call.conversion.src = LEAT_NUMBER_F16);
    BAD(LEAT_ERROR_INVALID, "bits stay bits", call.conversion.dst = LEAT_NUMBER_BITS);
    BAD(LEAT_ERROR_INVALID, "bits stay bits", call.conversion.src = LEAT_NUMBER_BITS);
    BAD(LEAT_ERROR_INVALID, "src have 1 bytes", call.conversion.dst = call.conversion.src = LEAT_NUMBER_BITS);
    BAD(LEAT_ERROR_INVALID, "flags", call.conversion.flags = 4);
    BAD(LEAT_ERROR_INVALID, "size 4", call.conversion.channels = 3, call.conversion.channel_dim = 1);
    BAD(LEAT_ERROR_INVALID, "channel_dim", call.conversion.channels = 4, call.conversion.channel_dim = 2);
    BAD(LEAT_ERROR_INVALID, "256", call.conversion.channels = 257);
    BAD(LEAT_ERROR_INVALID, "scale[3]", call.conversion.channels = 4, call.conversion.channel_dim = 1,
        call.conversion.scale = numbers);
    BAD(LEAT_ERROR_INVALID, "bias[3]", call.conversion.channels = 4, call.conversion.channel_dim = 1,
        call.conversion.bias = numbers);
    BAD(LEAT_ERROR_INVALID, "bias[0]", call.conversion.bias = nothing);
    REFUSED(leat_copy_convert(t->stream, dst, &good.dst_layout, src, &good.src_layout, NULL), LEAT_ERROR_INVALID,
            "conversion");
    /* Bits take no numbers, and no other sizes than 2, 4 and 8 bytes, the same on both sides. */
    good.conversion = conversion_of(LEAT_NUMBER_BITS, LEAT_NUMBER_BITS);
    good.src_layout = good.dst_layout;
    OK(leat_copy_convert(t->stream, good.dst, &good.dst_layout, good.src, &good.src_layout, &good.conversion));
    good.conversion.scale = numbers;
    REFUSED(leat_copy_convert(t->stream, good.dst, &good.dst_layout, good.src, &good.src_layout, &good.conversion),
            LEAT_ERROR_INVALID, "bits take none");
    good.conversion.scale = NULL;
    OK(leat_layout_dense(&good.src_layout, 2, (int64_t[]){8, 4}, 4));
    REFUSED(leat_copy_convert(t->stream, good.dst, &good.dst_layout, good.src, &good.src_layout, &good.conversion),
            LEAT_ERROR_INVALID, "same size");
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(dst));
}

static void bad_layouts_are_refused(void **state)
{
    static const int32_t list[8] = {0};
    struct test_state *t = *state;
    unsigned char *dst = test_alloc(t->device, LEAT_KIND_DEVICE, 4096), *src = dst + 2048;
    struct call good = good_call(dst, src);

    BAD(LEAT_ERROR_INVALID, "element", call.src_layout.element_bytes = 2);
    BAD(LEAT_ERROR_INVALID, "size[0]", call.src_layout.size[0] = 7);
    BAD(LEAT_ERROR_INVALID, "dimensions", call.src_layout.dims = 1);
    BAD(LEAT_ERROR_INVALID, "32", call.src_layout.dims = 33);
    BAD(LEAT_ERROR_INVALID, "size[1]", call.dst_layout.size[1] = -1);
    BAD(LEAT_ERROR_INVALID, "stride 0", call.dst_layout.stride_bytes[0] = 0);
    BAD(LEAT_ERROR_INVALID, "twice", call.dst_layout.stride_bytes[1] = 1);
    BAD(LEAT_ERROR_INVALID, "multiple", call.dst_layout.stride_bytes[0] = 9);
    BAD(LEAT_ERROR_INVALID, "multiple", call.dst++);
    BAD(LEAT_ERROR_INVALID, "multiple", call.dst_layout.offset_bytes = 1);
    BAD(LEAT_ERROR_OVERLAP, "read", call.src = call.dst + 8);
    BAD(LEAT_ERROR_UNSUPPORTED, "list", OK(leat_layout_index(&call.src_layout, 0, list, 8, 4, NULL)));
    BAD(LEAT_ERROR_RANGE, "2^61", call.src_layout.stride_bytes[0] = INT64_MAX / 4);
    REFUSED(leat_copy_convert(t->stream, dst, NULL, src, &good.src_layout, &good.conversion), LEAT_ERROR_INVALID,
            "dst_layout");
    REFUSED(leat_copy_convert(t->stream, dst, &good.dst_layout, src, NULL, &good.conversion), LEAT_ERROR_INVALID,
            "src_layout");
    REFUSED(leat_copy_convert(NULL, dst, &good.dst_layout, src, &good.src_layout, &good.conversion),
            LEAT_ERROR_HANDLE, "stream");
    /* Nothing to convert is no error, whatever the pointers are. */
    good = good_call(NULL, NULL);
    good.dst_layout.size[0] = good.src_layout.size[0] = 0;
    OK(leat_copy_convert(t->stream, good.dst, &good.dst_layout, good.src, &good.src_layout, &good.conversion));
    OK(leat_memory_free(dst));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        STATE_TEST(every_number_of_16_bits),
        STATE_TEST(numbers_around_each_rounding),
        STATE_TEST(every_byte),
        STATE_TEST(random_layouts_between_all_kinds),
        STATE_TEST(shapes_of_images),
        STATE_TEST(large_layouts),
        STATE_TEST(rows_of_all_types),
        STATE_TEST(transposes_of_all_types),
        STATE_TEST(batches_of_all_types),
        STATE_TEST(sources_between_missing_pages),
        STATE_TEST(conversions_run_in_stream_order),
        STATE_TEST(explanations_name_the_conversion),
        STATE_TEST(bad_conversions_are_refused),
        STATE_TEST(bad_layouts_are_refused),
    };

    if (!test_device_there())
        return 77;
    begin_random("test_convert");
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
