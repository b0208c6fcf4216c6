/*
 * unit_layout.c - layouts as arithmetic, against counting element by element: the calls that change layouts, the
 * forms that copies are brought to, what they are called and bounded by, what may overlap, and the table of plans.
 *
 * The seed is printed and can be given: unit_layout --seed N, and with how many layouts of each sort: --many N.
 */
#include "layouts.h"
#include "seed.h"

#include "base/error.h"
#include "layout/overlap.h"
#include "layout/plan.h"
#include "layout/sectors.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 4096
#define ROOM_BYTES (16 * MOST_BYTES + 4096)

static uint64_t seed, random_state;
static unsigned many = 3000;

static uint64_t chance(uint64_t below)
{
    return layouts_random(&random_state, below);
}

#define EXPECT(what, pair)                                                                                        \
    do {                                                                                                          \
        if (!(what))                                                                                              \
            complain(#what, (pair), __LINE__);                                                                    \
    } while (0)

static void complain(const char *what, const struct layouts_pair *pair, int line)
{
    char dst[1024], src[1024];

    layouts_print(&pair->dst, dst, sizeof dst);
    layouts_print(&pair->src, src, sizeof src);
    fail_msg("line %d, seed %llu: not %s; dst has %s; src has %s", line, (unsigned long long)seed, what, dst, src);
}

/* ---- forms ---- */

static void make_canonical(const struct layouts_pair *pair, size_t dst_align, size_t src_align,
                           struct leati_canonical *canonical)
{
    if (leati_canonical_make(&pair->dst, dst_align, &pair->src, src_align, canonical) != LEAT_OK)
        complain(leat_last_error(), pair, __LINE__);
}

/* Where unit number of a form lies, as layouts_at(). */
static int64_t canonical_at(const struct leati_canonical *canonical, const leat_layout *listed, bool of_dst,
                            uint64_t number)
{
    const int64_t *stride = of_dst ? canonical->dst_stride : canonical->src_stride;
    int64_t at = of_dst ? canonical->dst_offset : canonical->src_offset;

    for (unsigned i = 0; i < canonical->dims; i++) {
        int64_t steps = (int64_t)(number % canonical->size[i]);

        number /= canonical->size[i];
        if ((int)i == canonical->index_dim && canonical->index_on_dst == of_dst) {
            leat_layout one = {.dims = 1,
                               .element_bytes = 1,
                               .size = {listed->size[listed->index_dim]},
                               .stride_bytes = {1},
                               .index = listed->index,
                               .index_bytes = listed->index_bytes,
                               .index_bound = listed->index_bound};

            steps = layouts_at(&one, (uint64_t)steps);
            if (steps == INT64_MIN)
                return INT64_MIN;
        }
        at += steps * stride[i];
    }
    return at;
}

static uint64_t units(const struct leati_canonical *canonical)
{
    uint64_t all = 1;

    for (unsigned i = 0; i < canonical->dims; i++)
        all *= canonical->size[i];
    return all;
}

static void check_shape(const struct leati_canonical *canonical, size_t dst_align, size_t src_align,
                        const struct layouts_pair *pair)
{
    uint64_t all = (uint64_t)canonical->dst_offset | (uint64_t)canonical->src_offset | dst_align | src_align;

    for (unsigned i = 0; i < canonical->dims; i++) {
        bool listed = (int)i == canonical->index_dim;

        EXPECT(listed || canonical->size[i] >= 2, pair);
        EXPECT(listed || canonical->dst_stride[i] > 0 || canonical->src_stride[i] > 0, pair);
        EXPECT(!i || listed || (int)i - 1 == canonical->index_dim ||
                   llabs(canonical->dst_stride[i]) > llabs(canonical->dst_stride[i - 1]),
               pair);
        all |= (uint64_t)canonical->dst_stride[i] | (uint64_t)canonical->src_stride[i];
    }
    EXPECT(all % canonical->unit_bytes == 0, pair);
    EXPECT(canonical->payload_bytes == pair->elements * pair->dst.element_bytes, pair);
    EXPECT(units(canonical) * canonical->unit_bytes == canonical->payload_bytes, pair);
    EXPECT(canonical->dst_low == pair->dst_low && canonical->dst_high == pair->dst_high, pair);
    EXPECT(canonical->src_low == pair->src_low && canonical->src_high == pair->src_high, pair);
}

/* Which byte of the source each byte of the destination has; by elements, and by the units of the form. */
static void check_bytes(const struct leati_canonical *canonical, const struct layouts_pair *pair)
{
    static int64_t wanted[ROOM_BYTES], seen[ROOM_BYTES];
    const leat_layout *listed = pair->dst.index ? &pair->dst : &pair->src;
    uint64_t room = (uint64_t)(pair->dst_high - pair->dst_low), all = units(canonical);

    EXPECT(room <= ROOM_BYTES, pair);
    for (uint64_t i = 0; i < room; i++)
        wanted[i] = seen[i] = INT64_MIN;
    for (uint64_t i = 0; i < pair->elements; i++)
        for (uint32_t b = 0; b < pair->dst.element_bytes; b++)
            wanted[layouts_at(&pair->dst, i) - pair->dst_low + b] = layouts_at(&pair->src, i) + b;
    for (uint64_t i = 0; i < all; i++)
        for (unsigned b = 0; b < canonical->unit_bytes; b++)
            seen[canonical_at(canonical, listed, true, i) - pair->dst_low + b] =
                canonical_at(canonical, listed, false, i) + b;
    EXPECT(!memcmp(wanted, seen, room * sizeof wanted[0]), pair);
}

static enum layouts_list some_list(void)
{
    uint64_t drawn = chance(6);

    return drawn == 0 ? LAYOUTS_GATHER : drawn == 1 ? LAYOUTS_SCATTER : LAYOUTS_NO_LIST;
}

static void canonical_layouts_touch_the_same_bytes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < many; i++) {
        size_t dst_align = (size_t)1 << chance(7), src_align = (size_t)1 << chance(7);
        struct layouts_pair pair;
        struct leati_canonical canonical;

        layouts_draw(&random_state, 1 + i % 16, MOST_BYTES, some_list(), &pair);
        make_canonical(&pair, dst_align, src_align, &canonical);
        check_shape(&canonical, dst_align, src_align, &pair);
        check_bytes(&canonical, &pair);
    }
}

static struct leati_canonical canonical_of(uint32_t dims, const int64_t *size, const uint32_t *order,
                                           uint32_t element_bytes)
{
    struct leati_canonical canonical;
    leat_layout dst, src;

    assert_int_equal(leat_layout_dense(&src, dims, size, element_bytes), LEAT_OK);
    assert_int_equal(leat_layout_permute(&src, order), LEAT_OK);
    assert_int_equal(leat_layout_dense(&dst, dims, src.size, element_bytes), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 64, &src, 64, &canonical), LEAT_OK);
    return canonical;
}

#define CANONICAL_OF(element_bytes, sizes, ...)                                                                   \
    canonical_of(sizeof((uint32_t[])__VA_ARGS__) / 4, (int64_t[])sizes, (uint32_t[])__VA_ARGS__, (element_bytes))
#define SIZES(...)                                                                                                \
    {                                                                                                             \
        __VA_ARGS__                                                                                               \
    }

static void canonical_layouts_are_minimal(void **state)
{
    struct leati_canonical canonical = CANONICAL_OF(4, SIZES(3, 5, 7, 9), {0, 1, 2, 3});

    (void)state;
    /* 945 floats: one run, of which nothing wider than 4 bytes divides the length. */
    assert_int_equal(canonical.dims, 1);
    assert_int_equal(canonical.unit_bytes, 4);
    canonical = CANONICAL_OF(4, SIZES(4, 4), {0, 1});
    assert_int_equal(canonical.unit_bytes, 16);
    assert_int_equal(canonical.size[0], 4);
    canonical = CANONICAL_OF(4, SIZES(2, 2), {0, 1});
    assert_int_equal(canonical.dims, 0);
    assert_int_equal(canonical.unit_bytes, 16);
    /* Heads of 64 halves change places: three dimensions, and units of 16 bytes. */
    canonical = CANONICAL_OF(2, SIZES(8, 512, 12, 64), {0, 2, 1, 3});
    assert_int_equal(canonical.dims, 4);
    assert_int_equal(canonical.unit_bytes, 16);
    assert_int_equal(canonical.size[0], 8);
    /* The two last stay together, and so do the two first. */
    canonical = CANONICAL_OF(4, SIZES(6, 5, 4, 3), {2, 3, 0, 1});
    assert_int_equal(canonical.dims, 2);
    assert_int_equal(canonical.size[0], 30);
    assert_int_equal(canonical.size[1], 12);
    /* Elements of 12 bytes are three of 4. */
    canonical = CANONICAL_OF(12, SIZES(10, 20), {1, 0});
    assert_int_equal(canonical.dims, 3);
    assert_int_equal(canonical.unit_bytes, 4);
    assert_int_equal(canonical.size[0], 3);
}

static void an_empty_pair_has_an_empty_canonical_layout(void **state)
{
    leat_layout dst = {
        .dims = 3, .element_bytes = 4, .size = {5, 0, INT64_MAX}, .stride_bytes = {0, INT64_MIN, 7}};
    struct leati_canonical canonical;

    (void)state;
    assert_int_equal(leati_canonical_make(&dst, 1, &dst, 1, &canonical), LEAT_OK);
    assert_true(canonical.empty && !canonical.payload_bytes && !canonical.dst_high && !canonical.src_high);
    assert_int_equal(leati_layout_classify(&canonical), LEAT_LAYOUT_NOTHING);
    assert_int_equal(leati_sectors(&canonical, true, 0) + leati_sectors(&canonical, false, 0), 0);
    assert_false(leati_canonical_may_overlap(&canonical, &dst, &dst));
}

/* ---- no element twice ---- */

static bool writes_twice(const leat_layout *layout, uint64_t elements)
{
    static unsigned char seen[1 << 16];
    int64_t low = INT64_MAX;
    bool twice = false;

    memset(seen, 0, sizeof seen);
    for (uint64_t i = 0; i < elements; i++)
        low = layouts_at(layout, i) < low ? layouts_at(layout, i) : low;
    for (uint64_t i = 0; i < elements; i++)
        for (uint32_t b = 0; b < layout->element_bytes; b++)
            twice |= seen[layouts_at(layout, i) - low + b]++ > 0;
    return twice;
}

/* Strides that are drawn from the air. */
static void what_is_written_twice_is_refused(void **state)
{
    unsigned twice = 0, interleaved = 0;

    (void)state;
    for (unsigned i = 0; i < 4 * many; i++) {
        struct layouts_pair pair = {.elements = 1};
        bool expected;
        leat_status status;
        struct leati_canonical canonical;
        uint32_t dims = 1 + (uint32_t)chance(4), element_bytes = 1 + (uint32_t)chance(chance(2) ? 4 : 1);

        pair.dst = (leat_layout){.dims = dims, .element_bytes = element_bytes};
        for (uint32_t d = 0; d < dims; d++) {
            pair.dst.size[d] = 1 + (int64_t)chance(5);
            pair.dst.stride_bytes[d] = (int64_t)chance(chance(2) ? 100 : 20) - 10;
            pair.elements *= (uint64_t)pair.dst.size[d];
        }
        assert_int_equal(leat_layout_dense(&pair.src, dims, pair.dst.size, element_bytes), LEAT_OK);
        expected = writes_twice(&pair.dst, pair.elements);
        status = leati_canonical_make(&pair.dst, 1, &pair.src, 1, &canonical);
        EXPECT((status == LEAT_ERROR_INVALID) == expected, &pair);
        EXPECT(status == LEAT_OK || strstr(leat_last_error(), "twice") ||
                   strstr(leat_last_error(), "has stride 0 on dst"),
               &pair);
        twice += expected;
        for (unsigned d = 1; !expected && d < canonical.dims; d++)
            interleaved += canonical.dst_stride[d] < canonical.dst_stride[d - 1] * (int64_t)canonical.size[d - 1];
    }
    print_message("           %u wrote a byte twice, %u were interleaved and did not\n", twice, interleaved);
    assert_true(twice > many / 4 && interleaved > many / 100);
}

/* 2^30 times 2^30 elements that interleave without touching: too much to try, and refused with another message.
 */
static void what_cannot_be_told_is_refused(void **state)
{
    leat_layout dst = {.dims = 12, .element_bytes = 1}, src;
    struct leati_canonical canonical;
    static const int64_t primes[] = {1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069};

    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        dst.size[i] = 2;
        dst.stride_bytes[i] = primes[i] * 100003 + (int64_t)i * i * i;
    }
    leat_layout_dense(&src, 12, dst.size, 1);
    if (leati_canonical_make(&dst, 1, &src, 1, &canonical) != LEAT_OK)
        assert_non_null(strstr(leat_last_error(), "cannot tell"));
}

/* ---- what is written against what is read ---- */

static bool really_overlap(const struct layouts_pair *pair, int64_t apart)
{
    static unsigned char written[2 * ROOM_BYTES];
    int64_t low = pair->dst_low;

    memset(written, 0, (size_t)(pair->dst_high - low));
    for (uint64_t i = 0; i < pair->elements; i++)
        memset(written + (layouts_at(&pair->dst, i) - low), 1, pair->dst.element_bytes);
    for (uint64_t i = 0; i < pair->elements; i++)
        for (uint32_t b = 0; b < pair->src.element_bytes; b++) {
            int64_t at = apart + layouts_at(&pair->src, i) + b - low;

            if (at >= 0 && at < pair->dst_high - low && written[at])
                return true;
        }
    return false;
}

/* With the same strides on both sides often, as parts of one array have them. */
static void overlaps_are_never_missed(void **state)
{
    unsigned found = 0, disjoint = 0, inside = 0, doubtful = 0;
    char *base = (char *)(uintptr_t)(1 << 30);

    (void)state;
    for (unsigned i = 0; i < many; i++) {
        struct layouts_pair pair;
        struct leati_canonical canonical;
        int64_t apart;
        bool really, said, meets;

        layouts_draw(&random_state, 1 + (uint32_t)chance(16), MOST_BYTES, LAYOUTS_NO_LIST, &pair);
        if (chance(2)) {
            memcpy(pair.src.stride_bytes, pair.dst.stride_bytes, sizeof pair.src.stride_bytes);
            pair.src_low += pair.dst_low - pair.dst.offset_bytes - (pair.src_low - pair.src.offset_bytes);
            pair.src.offset_bytes = pair.dst.offset_bytes;
            pair.src_low = pair.dst_low;
            pair.src_high = pair.dst_high;
        }
        apart = (int64_t)chance((uint64_t)(pair.dst_high - pair.dst_low) + 200) - 100;
        if (chance(2))
            apart = (int64_t)chance(200) - 100;
        make_canonical(&pair, 1, 1, &canonical);
        really = really_overlap(&pair, apart);
        said = leati_canonical_may_overlap(&canonical, base, base + apart);
        meets = apart + pair.src_low < pair.dst_high && pair.dst_low < apart + pair.src_high;
        EXPECT(said || !really, &pair);
        found += really;
        disjoint += !said;
        inside += !said && meets;
        doubtful += said && !really;
    }
    print_message("           %u overlap, %u do not, %u of them within one another, %u could not be told\n", found,
                  disjoint, inside, doubtful);
    assert_true(found > many / 10 && inside > many / 100 && doubtful < many / 100);
}

/* What programs do: columns, planes and every second row of one matrix, large ones. */
static void parts_of_one_array_are_told_apart(void **state)
{
    char *base = (char *)(uintptr_t)(1ll << 40);
    leat_layout whole, left, right, even, odd;
    struct leati_canonical canonical;

    (void)state;
    assert_int_equal(leat_layout_dense(&whole, 2, (int64_t[]){100000, 3000}, 4), LEAT_OK);
    left = right = even = odd = whole;
    assert_int_equal(leat_layout_slice(&left, 1, 0, 1000, 1), LEAT_OK);
    assert_int_equal(leat_layout_slice(&right, 1, 1000, 2000, 1), LEAT_OK);
    assert_int_equal(leati_canonical_make(&left, 16, &right, 16, &canonical), LEAT_OK);
    assert_false(leati_canonical_may_overlap(&canonical, base, base));
    assert_true(leati_canonical_may_overlap(&canonical, base + 4, base));
    assert_false(leati_canonical_may_overlap(&canonical, base + 8000, base));
    assert_true(leati_canonical_may_overlap(&canonical, base + 7996, base));
    /* Rows 0, 6, 12 ... and rows 1, 5, 9 ...: their strides have 2 rows in common. */
    assert_int_equal(leat_layout_slice(&even, 0, 0, 60000, 6), LEAT_OK);
    assert_int_equal(leat_layout_slice(&odd, 0, 1, 40001, 4), LEAT_OK);
    assert_int_equal(leati_canonical_make(&even, 16, &odd, 16, &canonical), LEAT_OK);
    assert_false(leati_canonical_may_overlap(&canonical, base, base));
    assert_true(leati_canonical_may_overlap(&canonical, base, base + 12000));
    /* The upper half turned round into the lower one. */
    left = right = whole;
    assert_int_equal(leat_layout_slice(&left, 0, 0, 50000, 1), LEAT_OK);
    assert_int_equal(leat_layout_slice(&right, 0, 99999, 49999, -1), LEAT_OK);
    assert_int_equal(leati_canonical_make(&left, 16, &right, 16, &canonical), LEAT_OK);
    assert_false(leati_canonical_may_overlap(&canonical, base, base));
    assert_true(leati_canonical_may_overlap(&canonical, base + 12000, base));
}

/* ---- sectors ---- */

static uint64_t count_sectors(const leat_layout *layout, uint64_t first, uint64_t every, uint64_t count,
                              int64_t low, unsigned char *seen)
{
    uint64_t sectors = 0;

    for (uint64_t i = 0; i < count; i++)
        for (uint32_t b = 0; b < layout->element_bytes; b++) {
            int64_t sector = (layouts_at(layout, first + i * every) + b - low) / LEATI_SECTOR_BYTES;

            sectors += !seen[sector];
            seen[sector] = 1;
        }
    return sectors;
}

static int64_t low_sector(int64_t low)
{
    return low - (low % LEATI_SECTOR_BYTES + LEATI_SECTOR_BYTES) % LEATI_SECTOR_BYTES;
}

/* Every row by itself, as if it were apart from all others; and all rows that could be named. */
static uint64_t count_rows(const leat_layout *layout, uint64_t elements, int64_t low)
{
    static unsigned char seen[ROOM_BYTES];
    leat_layout row = *layout;
    uint64_t apart = 0, all;

    row.index = NULL;
    row.size[row.index_dim] = 1;
    for (int64_t i = 0; i < layout->size[layout->index_dim]; i++) {
        row.offset_bytes = layout->offset_bytes + i * layout->stride_bytes[layout->index_dim];
        memset(seen, 0, sizeof seen);
        apart += count_sectors(&row, 0, 1, elements / (uint64_t)layout->size[layout->index_dim],
                               low_sector(row.offset_bytes - ROOM_BYTES / 2 * LEATI_SECTOR_BYTES), seen);
    }
    row.offset_bytes = layout->offset_bytes;
    row.size[row.index_dim] = layout->index_bound;
    memset(seen, 0, sizeof seen);
    all = count_sectors(&row, 0, 1,
                        elements / (uint64_t)layout->size[layout->index_dim] * (uint64_t)layout->index_bound, low,
                        seen);
    return apart < all ? apart : all;
}

static uint64_t count_side(const leat_layout *layout, uint64_t elements, int64_t low)
{
    static unsigned char seen[ROOM_BYTES];

    if (layout->index)
        return count_rows(layout, elements, low_sector(low));
    memset(seen, 0, sizeof seen);
    return count_sectors(layout, 0, 1, elements, low_sector(low), seen);
}

static void sectors_are_those_that_can_be_counted(void **state)
{
    unsigned exact = 0, below = 0;

    (void)state;
    for (unsigned i = 0; i < many; i++) {
        uint64_t read, written, counted;
        struct layouts_pair pair;
        struct leati_canonical canonical;

        layouts_draw(&random_state, 1 + i % 16, MOST_BYTES, some_list(), &pair);
        make_canonical(&pair, 16, 16, &canonical);
        read = leati_sectors(&canonical, false, 0);
        written = leati_sectors(&canonical, true, 0);
        EXPECT(written == count_side(&pair.dst, pair.elements, pair.dst_low), &pair);
        counted = count_side(&pair.src, pair.elements, pair.src_low);
        EXPECT(pair.nested ? read == counted : read <= counted, &pair);
        exact += read == counted;
        below += read != counted;
    }
    print_message("           %u sources counted exactly, %u not\n", exact, below);
    assert_true(below < many / 20);
}

/* ---- the calls that change layouts ---- */

/* A layout, and where its elements must be. */
struct counted {
    leat_layout layout;
    uint64_t elements;
    int64_t at[MOST_BYTES];
};

static void split_number(const leat_layout *layout, uint64_t number, int64_t *position)
{
    for (uint32_t i = layout->dims; i-- > 0;) {
        position[i] = (int64_t)(number % (uint64_t)layout->size[i]);
        number /= (uint64_t)layout->size[i];
    }
}

static uint64_t join_number(const leat_layout *layout, const int64_t *position)
{
    uint64_t number = 0;

    for (uint32_t i = 0; i < layout->dims; i++)
        number = number * (uint64_t)layout->size[i] + (uint64_t)position[i];
    return number;
}

static void expect_counted(const struct counted *counted, const char *after)
{
    for (uint64_t i = 0; i < counted->elements; i++)
        if (layouts_at(&counted->layout, i) != counted->at[i]) {
            char text[1024];

            layouts_print(&counted->layout, text, sizeof text);
            fail_msg("seed %llu: after %s element %llu of %s is not at %lld", (unsigned long long)seed, after,
                     (unsigned long long)i, text, (long long)counted->at[i]);
        }
}

static void start_counting(struct counted *counted)
{
    int64_t size[LEAT_LAYOUT_MAX_DIMS];
    uint32_t dims = (uint32_t)chance(6);

    counted->elements = 1;
    for (uint32_t i = 0; i < dims; i++) {
        size[i] = 1 + (int64_t)chance(chance(2) ? 8 : 3);
        if (counted->elements * (uint64_t)size[i] > MOST_BYTES / 8)
            size[i] = 1;
        counted->elements *= (uint64_t)size[i];
    }
    assert_int_equal(leat_layout_dense(&counted->layout, dims, size, 1 + (uint32_t)chance(16)), LEAT_OK);
    for (uint64_t i = 0; i < counted->elements; i++)
        counted->at[i] = (int64_t)(i * counted->layout.element_bytes);
    expect_counted(counted, "dense");
}

/* The elements are those of before with dimensions in another order; or some, or copies, of one dimension: element
 * i of it is now element from[i] of before. */
static void recount(struct counted *counted, const leat_layout *before, const uint32_t *order, uint32_t dim,
                    const int64_t *from)
{
    static int64_t old[MOST_BYTES];
    uint64_t count = 1;

    memcpy(old, counted->at, sizeof old);
    for (uint32_t i = 0; i < counted->layout.dims; i++)
        count *= (uint64_t)counted->layout.size[i];
    for (uint64_t i = 0; i < count; i++) {
        int64_t position[LEAT_LAYOUT_MAX_DIMS], was[LEAT_LAYOUT_MAX_DIMS];

        split_number(&counted->layout, i, position);
        for (uint32_t d = 0; d < before->dims; d++)
            was[order ? order[d] : d] = position[d];
        if (from)
            was[dim] = from[position[dim]];
        counted->at[i] = old[join_number(before, was)];
    }
    counted->elements = count;
}

static void try_permute(struct counted *counted)
{
    leat_layout before = counted->layout;
    uint32_t order[LEAT_LAYOUT_MAX_DIMS];

    for (uint32_t i = 0; i < before.dims; i++) {
        uint32_t at = (uint32_t)chance(i + 1);

        order[i] = order[at];
        order[at] = i;
    }
    if (before.dims && chance(3) == 0) {
        uint32_t a = (uint32_t)chance(before.dims), b = (uint32_t)chance(before.dims);

        for (uint32_t i = 0; i < before.dims; i++)
            order[i] = i == a ? b : i == b ? a : i;
        assert_int_equal(leat_layout_transpose(&counted->layout, a, b), LEAT_OK);
    } else {
        assert_int_equal(leat_layout_permute(&counted->layout, before.dims ? order : NULL), LEAT_OK);
    }
    recount(counted, &before, order, 0, NULL);
    expect_counted(counted, "permute");
}

/* Slices, flips and broadcasts of a dimension without a list. */
static void try_part(struct counted *counted)
{
    leat_layout before = counted->layout;
    uint32_t dim = before.dims ? (uint32_t)chance(before.dims) : 0;
    int64_t from[MOST_BYTES], size, start, stop, step, count = 0;

    if (!before.dims || (before.index && dim == before.index_dim))
        return;
    size = before.size[dim];
    if (chance(3) == 0) {
        assert_int_equal(leat_layout_flip(&counted->layout, dim), LEAT_OK);
        for (int64_t i = 0; i < size; i++)
            from[i] = size - 1 - i;
    } else if (size == 1 && counted->elements <= MOST_BYTES / 64) {
        assert_int_equal(leat_layout_broadcast(&counted->layout, dim, 1 + (int64_t)chance(9)), LEAT_OK);
        memset(from, 0, sizeof from);
    } else {
        step = 1 + (int64_t)chance(3);
        start = (int64_t)chance((uint64_t)size);
        stop = start + 1 + (int64_t)chance((uint64_t)(size - start));
        for (int64_t i = start; i < stop; i += step)
            from[count++] = i;
        if (chance(2)) {
            /* The same elements from the other end. */
            int64_t last = from[count - 1];

            for (int64_t i = 0; i < count; i++)
                from[i] = last - i * step;
            stop = start - 1;
            start = last;
            step = -step;
        }
        assert_int_equal(leat_layout_slice(&counted->layout, dim, start, stop, step), LEAT_OK);
        assert_int_equal(counted->layout.size[dim], count);
    }
    recount(counted, &before, NULL, dim, from);
    expect_counted(counted, "a part");
}

static void try_list(struct counted *counted, uint32_t *list)
{
    leat_layout before = counted->layout;
    uint32_t dim = before.dims ? (uint32_t)chance(before.dims) : 0;
    int64_t from[64], count = 1 + (int64_t)chance(5);

    if (!before.dims || before.index || counted->elements > MOST_BYTES / 64)
        return;
    for (int64_t i = 0; i < count; i++)
        list[i] = (uint32_t)(from[i] = (int64_t)chance((uint64_t)before.size[dim]));
    assert_int_equal(leat_layout_index(&counted->layout, dim, list, count, 4, NULL), LEAT_OK);
    assert_int_equal(counted->layout.index_bound, before.size[dim]);
    recount(counted, &before, NULL, dim, from);
    expect_counted(counted, "a list");
}

/* Is there a stride for each dimension, so that the elements lie where they lie? */
static bool can_be_reshaped(const struct counted *counted, uint32_t dims, const int64_t *size)
{
    leat_layout made = {
        .dims = dims, .element_bytes = counted->layout.element_bytes, .offset_bytes = counted->at[0]};
    uint64_t apart = 1;

    for (uint32_t i = dims; i-- > 0;) {
        made.size[i] = size[i];
        made.stride_bytes[i] = size[i] > 1 ? counted->at[apart] - counted->at[0] : 0;
        apart *= (uint64_t)size[i];
    }
    for (uint64_t i = 0; i < counted->elements; i++)
        if (layouts_at(&made, i) != counted->at[i])
            return false;
    return true;
}

/* Sizes of the same product: factors of it, put together at random. */
static uint32_t draw_sizes(uint64_t elements, int64_t *size)
{
    uint32_t dims = 0;

    for (uint64_t factor = 2; elements > 1; factor++)
        for (; elements % factor == 0; elements /= factor) {
            if (chance(3) == 0)
                size[dims++] = 1;
            if (dims && chance(2))
                size[dims - 1] *= (int64_t)factor;
            else
                size[dims++] = (int64_t)factor;
        }
    for (uint32_t i = 0; i < dims; i++) {
        uint32_t at = (uint32_t)chance(i + 1);
        int64_t moved = size[i];

        size[i] = size[at];
        size[at] = moved;
    }
    return dims;
}

static void try_reshape(struct counted *counted, unsigned *refused)
{
    leat_layout before = counted->layout;
    int64_t size[64];
    uint32_t dims = draw_sizes(counted->elements, size);
    leat_status status = leat_layout_reshape(&counted->layout, dims, size);

    if (status == LEAT_OK) {
        assert_int_equal(counted->layout.dims, dims);
        assert_memory_equal(counted->layout.size, size, dims * sizeof *size);
        expect_counted(counted, "reshape");
    } else {
        assert_int_equal(status, LEAT_ERROR_UNSUPPORTED);
        assert_true(before.index || !can_be_reshaped(counted, dims, size));
        assert_memory_equal(&counted->layout, &before, sizeof before);
        ++*refused;
    }
}

static void changed_layouts_lead_to_the_same_elements(void **state)
{
    unsigned refused = 0;

    (void)state;
    for (unsigned i = 0; i < many; i++) {
        struct counted counted;
        uint32_t list[64];

        start_counting(&counted);
        for (uint64_t steps = chance(7); steps; steps--) {
            switch (chance(5)) {
            case 0:
                try_permute(&counted);
                break;
            case 1:
                try_list(&counted, list);
                break;
            case 2:
                try_reshape(&counted, &refused);
                break;
            default:
                try_part(&counted);
            }
        }
    }
    assert_true(refused > many / 50);
}

/* The call is refused with these words, and leaves the layout as it was. */
#define WRONG(call, status, words)                                                                                \
    do {                                                                                                          \
        leat_layout wrong_before = layout;                                                                        \
        assert_int_equal((call), (status));                                                                       \
        assert_non_null(strstr(leat_last_error(), (words)));                                                      \
        assert_non_null(strstr(leat_last_error(), "leat_layout_"));                                               \
        assert_memory_equal(&layout, &wrong_before, sizeof layout);                                               \
    } while (0)

static void wrong_changes_are_refused(void **state)
{
    const int64_t sizes[] = {4, 5, 6}, negative[] = {4, -5, 6}, large[] = {1 << 30, 1 << 30, 8};
    static const int64_t most[33] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                     1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    uint64_t elements = 0, bytes = 0, counter[2];
    uint32_t list[3] = {0};
    leat_layout layout;

    (void)state;
    assert_int_equal(leat_layout_dense(&layout, 3, sizes, 4), LEAT_OK);
    WRONG(leat_layout_dense(NULL, 3, sizes, 4), LEAT_ERROR_INVALID, "layout is NULL");
    WRONG(leat_layout_dense(&layout, 3, NULL, 4), LEAT_ERROR_INVALID, "size is NULL");
    WRONG(leat_layout_dense(&layout, 33, most, 4), LEAT_ERROR_INVALID, "32 dimensions");
    WRONG(leat_layout_dense(&layout, 3, negative, 4), LEAT_ERROR_INVALID, "size[1] is -5");
    WRONG(leat_layout_dense(&layout, 3, sizes, 0), LEAT_ERROR_INVALID, "element_bytes");
    WRONG(leat_layout_dense(&layout, 3, sizes, 17), LEAT_ERROR_INVALID, "element_bytes");
    WRONG(leat_layout_dense(&layout, 3, large, 1), LEAT_ERROR_RANGE, "63 bits");
    WRONG(leat_layout_permute(NULL, NULL), LEAT_ERROR_INVALID, "layout is NULL");
    WRONG(leat_layout_permute(&layout, NULL), LEAT_ERROR_INVALID, "order is NULL");
    WRONG(leat_layout_permute(&layout, (uint32_t[]){0, 1, 1}), LEAT_ERROR_INVALID, "order[2] is 1");
    WRONG(leat_layout_permute(&layout, (uint32_t[]){0, 3, 1}), LEAT_ERROR_INVALID, "order[1] is 3");
    WRONG(leat_layout_transpose(&layout, 0, 3), LEAT_ERROR_INVALID, "b is 3");
    WRONG(leat_layout_transpose(&layout, 3, 0), LEAT_ERROR_INVALID, "a is 3");
    WRONG(leat_layout_slice(&layout, 3, 0, 1, 1), LEAT_ERROR_INVALID, "dim is 3");
    WRONG(leat_layout_slice(&layout, 1, 0, 1, 0), LEAT_ERROR_INVALID, "step is 0");
    WRONG(leat_layout_slice(&layout, 1, 0, 6, 1), LEAT_ERROR_INVALID, "stop 6");
    WRONG(leat_layout_slice(&layout, 1, -1, 4, 1), LEAT_ERROR_INVALID, "start -1");
    WRONG(leat_layout_slice(&layout, 1, 5, 0, -1), LEAT_ERROR_INVALID, "start 5");
    WRONG(leat_layout_slice(&layout, 1, 4, -2, -1), LEAT_ERROR_INVALID, "stop -2");
    WRONG(leat_layout_slice(&layout, 1, 3, 2, 1), LEAT_ERROR_INVALID, "leads away");
    WRONG(leat_layout_slice(&layout, 1, 2, 3, -1), LEAT_ERROR_INVALID, "leads away");
    WRONG(leat_layout_flip(&layout, 3), LEAT_ERROR_INVALID, "dim is 3");
    WRONG(leat_layout_broadcast(&layout, 0, 4), LEAT_ERROR_INVALID, "only one of 1");
    WRONG(leat_layout_reshape(&layout, 2, (int64_t[]){4, 29}), LEAT_ERROR_INVALID, "116 elements");
    WRONG(leat_layout_reshape(&layout, 2, (int64_t[]){-4, -30}), LEAT_ERROR_INVALID, "size[0] is -4");
    WRONG(leat_layout_reshape(&layout, 2, NULL), LEAT_ERROR_INVALID, "size is NULL");
    WRONG(leat_layout_reshape(&layout, 33, most), LEAT_ERROR_INVALID, "32 dimensions");
    WRONG(leat_layout_index(&layout, 3, list, 3, 4, NULL), LEAT_ERROR_INVALID, "dim is 3");
    WRONG(leat_layout_index(&layout, 0, NULL, 3, 4, NULL), LEAT_ERROR_INVALID, "index is NULL");
    WRONG(leat_layout_index(&layout, 0, list, -1, 4, NULL), LEAT_ERROR_INVALID, "count is -1");
    WRONG(leat_layout_index(&layout, 0, list, 3, 2, NULL), LEAT_ERROR_INVALID, "index_bytes");
    WRONG(leat_layout_index(&layout, 0, (char *)list + 1, 2, 4, NULL), LEAT_ERROR_INVALID, "not aligned");
    WRONG(leat_layout_index(&layout, 0, list, 3, 4, (uint64_t *)(void *)((char *)counter + 4)), LEAT_ERROR_INVALID,
          "not aligned");
    WRONG(leat_layout_count(&layout, NULL, &bytes), LEAT_ERROR_INVALID, "elements is NULL");
    WRONG(leat_layout_count(&layout, &elements, NULL), LEAT_ERROR_INVALID, "bytes is NULL");
    WRONG(leat_layout_count(NULL, &elements, &bytes), LEAT_ERROR_INVALID, "layout is NULL");

    assert_int_equal(leat_layout_index(&layout, 1, list, 3, 4, NULL), LEAT_OK);
    WRONG(leat_layout_index(&layout, 0, list, 3, 4, NULL), LEAT_ERROR_INVALID, "already");
    WRONG(leat_layout_slice(&layout, 1, 0, 1, 1), LEAT_ERROR_INVALID, "change the list");
    WRONG(leat_layout_flip(&layout, 1), LEAT_ERROR_INVALID, "change the list");
    WRONG(leat_layout_broadcast(&layout, 1, 1), LEAT_ERROR_INVALID, "change the list");
    WRONG(leat_layout_reshape(&layout, 1, (int64_t[]){72}), LEAT_ERROR_UNSUPPORTED, "list");

    assert_int_equal(leat_layout_dense(&layout, 1, (int64_t[]){1}, 4), LEAT_OK);
    WRONG(leat_layout_broadcast(&layout, 0, -1), LEAT_ERROR_INVALID, "size is -1");
    layout.stride_bytes[0] = INT64_MAX / 2;
    layout.size[0] = 5;
    WRONG(leat_layout_slice(&layout, 0, 3, 4, 1), LEAT_ERROR_RANGE, "63 bits");
    WRONG(leat_layout_slice(&layout, 0, 0, 5, 3), LEAT_ERROR_RANGE, "63 bits");
    WRONG(leat_layout_flip(&layout, 0), LEAT_ERROR_RANGE, "63 bits");
    for (int i = 0; i < 3; i++)
        layout.size[i] = (int64_t)1 << 40;
    layout.dims = 3;
    WRONG(leat_layout_count(&layout, &elements, &bytes), LEAT_ERROR_RANGE, "64 bits");
}

/* Both ways from the first element count: 2^60 and a half to each side are too far together. */
static void reach_is_counted_both_ways(void **state)
{
    const int64_t far = ((int64_t)1 << 60) + ((int64_t)1 << 59);
    leat_layout near, wide = {.dims = 2, .element_bytes = 1, .size = {2, 2}, .stride_bytes = {far, -far}};
    struct leati_canonical canonical;

    (void)state;
    assert_int_equal(leat_layout_dense(&near, 2, wide.size, 1), LEAT_OK);
    assert_int_equal(leati_canonical_make(&near, 1, &wide, 1, &canonical), LEAT_ERROR_RANGE);
    assert_non_null(strstr(leat_last_error(), "src reach further than 2^61"));
    assert_int_equal(leati_canonical_make(&wide, 1, &near, 1, &canonical), LEAT_ERROR_RANGE);
    assert_non_null(strstr(leat_last_error(), "dst reach further than 2^61"));
    wide.stride_bytes[1] = -far / 4;
    assert_int_equal(leati_canonical_make(&near, 1, &wide, 1, &canonical), LEAT_OK);
    assert_true(canonical.src_low == -far / 4 && canonical.src_high == far + 1);
}

/* A dimension without a step, which only one with a list can be, is the last: the units of the others stay wide.
 */
static void a_dimension_without_a_step_is_last(void **state)
{
    static const int32_t list[4] = {0};
    leat_layout dense, listed;
    struct leati_canonical canonical;

    (void)state;
    for (int on_dst = 0; on_dst < 2; on_dst++) {
        int64_t rows = on_dst ? 4 : 1;

        assert_int_equal(leat_layout_dense(&dense, 2, (int64_t[]){rows, 64}, 4), LEAT_OK);
        assert_int_equal(leat_layout_dense(&listed, 2, (int64_t[]){on_dst ? 1 : 9, 64}, 4), LEAT_OK);
        assert_int_equal(leat_layout_index(&listed, 0, list, rows, 4, NULL), LEAT_OK);
        assert_int_equal(
            leati_canonical_make(on_dst ? &listed : &dense, 16, on_dst ? &dense : &listed, 16, &canonical),
            LEAT_OK);
        assert_int_equal(canonical.unit_bytes, 16);
        assert_int_equal(canonical.dims, 2);
        assert_int_equal(canonical.index_dim, 1);
        assert_int_equal(canonical.dst_stride[1], 0);
    }
}

/* Negative numbers are rounded towards minus infinity: one stride and every distance, against its remainder. */
static void numbers_are_rounded_outwards(void **state)
{
    (void)state;
    for (int64_t stride = 2; stride < 12; stride++)
        for (int64_t distance = -40; distance <= 40; distance++) {
            struct leati_term term = {.stride = stride, .low = -100, .high = 100};
            bool apart = distance % stride != 0;
            unsigned steps = 10;

            assert_int_equal(leati_never_overlap(&term, 1, distance), apart);
            assert_int_equal(leati_overlap(&term, 1, distance, &steps),
                             apart ? LEATI_OVERLAP_NO : LEATI_OVERLAP_YES);
            /* Numbers that cannot be right are not even tried. */
            assert_int_equal(steps, apart ? 10 : 9);
        }
}

static void nothing_is_as_good_as_something(void **state)
{
    uint64_t elements = 1, bytes = 1;
    leat_layout layout;

    (void)state;
    assert_int_equal(leat_layout_dense(&layout, 0, NULL, 3), LEAT_OK);
    assert_int_equal(leat_layout_count(&layout, &elements, &bytes), LEAT_OK);
    assert_true(elements == 1 && bytes == 3);
    assert_int_equal(leat_layout_permute(&layout, NULL), LEAT_OK);
    assert_int_equal(leat_layout_reshape(&layout, 3, (int64_t[]){1, 1, 1}), LEAT_OK);
    assert_int_equal(leat_layout_reshape(&layout, 0, NULL), LEAT_OK);

    assert_int_equal(leat_layout_dense(&layout, 3, (int64_t[]){INT64_MAX, 0, INT64_MAX}, 1), LEAT_OK);
    assert_int_equal(leat_layout_count(&layout, &elements, &bytes), LEAT_OK);
    assert_true(elements == 0 && bytes == 0);
    assert_int_equal(leat_layout_reshape(&layout, 2, (int64_t[]){0, 7}), LEAT_OK);
    assert_int_equal(leat_layout_slice(&layout, 0, 0, 0, 1), LEAT_OK);
    assert_int_equal(leat_layout_slice(&layout, 0, -1, -1, -1), LEAT_OK);
    assert_int_equal(leat_layout_flip(&layout, 0), LEAT_OK);
    assert_int_equal(leat_layout_slice(&layout, 1, 6, -1, INT64_MIN), LEAT_OK);
    assert_int_equal(layout.size[1], 1);
    assert_int_equal(leat_layout_index(&layout, 1, NULL, 0, 8, NULL), LEAT_OK);
    assert_int_equal(layout.size[1], 0);
}

/* ---- classes, plans ---- */

static leat_layout_class class_of(struct leati_canonical canonical)
{
    return leati_layout_classify(&canonical);
}

static void classes_are_what_they_are_called(void **state)
{
    leat_layout dst, src;
    struct leati_canonical canonical;
    uint32_t list[2] = {1, 0};

    (void)state;
    assert_int_equal(class_of(CANONICAL_OF(4, SIZES(5, 5), {0, 1})), LEAT_LAYOUT_COPY);
    assert_int_equal(class_of(CANONICAL_OF(1, SIZES(1, 1), {0, 1})), LEAT_LAYOUT_COPY);
    assert_int_equal(class_of(CANONICAL_OF(2, SIZES(8, 512, 12, 64), {0, 2, 1, 3})), LEAT_LAYOUT_ROWS);
    for (uint32_t element_bytes = 1; element_bytes <= 16; element_bytes *= 2)
        assert_int_equal(class_of(CANONICAL_OF(element_bytes, SIZES(500, 300), {1, 0})), LEAT_LAYOUT_TRANSPOSE);
    assert_int_equal(class_of(CANONICAL_OF(4, SIZES(80, 96, 75, 96), {3, 0, 1, 2})), LEAT_LAYOUT_TRANSPOSE);
    /* Pictures of 3 channels, and back; two columns; pixels of 12 bytes; floats that lie at any byte. */
    assert_int_equal(class_of(CANONICAL_OF(4, SIZES(32, 3, 224, 224), {0, 2, 3, 1})), LEAT_LAYOUT_ND_TILE);
    assert_int_equal(class_of(CANONICAL_OF(4, SIZES(32, 224, 224, 3), {0, 3, 1, 2})), LEAT_LAYOUT_ND_TILE);
    assert_int_equal(class_of(CANONICAL_OF(4, SIZES(100000, 2), {1, 0})), LEAT_LAYOUT_ND_TILE);
    assert_int_equal(class_of(CANONICAL_OF(12, SIZES(100, 200), {1, 0})), LEAT_LAYOUT_ND_TILE);
    assert_int_equal(class_of(CANONICAL_OF(4, SIZES(15, 15, 15, 15, 15), {4, 3, 2, 1, 0})), LEAT_LAYOUT_ND_TILE);

    /* A picture turned by a quarter, one way and the other: tiles, wide ones since the rows are. */
    for (uint32_t dim = 0; dim < 2; dim++) {
        struct leati_layout_start start;
        struct leati_layout_plan *plan;

        assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){1024, 512}, 4), LEAT_OK);
        assert_int_equal(leat_layout_flip(&src, dim), LEAT_OK);
        assert_int_equal(leat_layout_transpose(&src, 0, 1), LEAT_OK);
        assert_int_equal(leat_layout_dense(&dst, 2, src.size, 4), LEAT_OK);
        assert_int_equal(leati_layout_plan_get(&dst, 16, &src, 16, &plan, &start), LEAT_OK);
        assert_int_equal(plan->class_of_plan, LEAT_LAYOUT_TRANSPOSE);
        assert_int_equal(plan->host.kernel, LEATI_HOST_TILES);
        assert_true(plan->canonical.src_align == 16 && plan->canonical.dst_align == 16);
        assert_non_null(strstr(plan->gpu.kernel, "transpose"));
        assert_null(strstr(plan->gpu.kernel, "odd"));
        leati_layout_plan_drop(plan);
    }

    /* Three columns of a matrix; one; every second; backwards. */
    assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){1000, 100}, 4), LEAT_OK);
    assert_int_equal(leat_layout_slice(&src, 1, 7, 10, 1), LEAT_OK);
    assert_int_equal(leat_layout_dense(&dst, 2, src.size, 4), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_ROWS);
    assert_int_equal(leat_layout_slice(&src, 1, 0, 1, 1), LEAT_OK);
    assert_int_equal(leat_layout_dense(&dst, 2, src.size, 4), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_ELEMENTS);
    assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){1000, 100}, 4), LEAT_OK);
    dst = src;
    assert_int_equal(leat_layout_flip(&src, 1), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_ELEMENTS);

    /* A value a row, a short pattern, a long row; a list. */
    assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){1000, 1}, 4), LEAT_OK);
    assert_int_equal(leat_layout_broadcast(&src, 1, 100), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_FILL);
    assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){1, 100}, 4), LEAT_OK);
    assert_int_equal(leat_layout_broadcast(&src, 0, 1000), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_ROWS);
    assert_int_equal(leat_layout_slice(&src, 1, 0, 3, 1), LEAT_OK);
    assert_int_equal(leat_layout_dense(&dst, 2, src.size, 4), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_FILL);
    assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){2, 3}, 4), LEAT_OK);
    dst = src;
    assert_int_equal(leat_layout_index(&src, 0, list, 2, 4, NULL), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_GATHER);
    assert_string_equal(leat_layout_class_name(LEAT_LAYOUT_TRANSPOSE), "transpose");
    assert_string_equal(leat_layout_class_name((leat_layout_class)8), "unknown");
    assert_string_equal(leat_layout_class_name((leat_layout_class)-1), "unknown");
}

static struct leati_layout_plan *started_plan_of(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                                 size_t src_align, struct leati_layout_start *start)
{
    struct leati_layout_plan *plan = NULL;

    assert_int_equal(leati_layout_plan_get(dst, dst_align, src, src_align, &plan, start), LEAT_OK);
    return plan;
}

static struct leati_layout_plan *plan_of(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                         size_t src_align)
{
    struct leati_layout_start start;

    return started_plan_of(dst, dst_align, src, src_align, &start);
}

static void a_plan_is_made_once(void **state)
{
    struct leati_layout_plan *first, *again, *other;
    leat_layout dst, src;
    uint64_t list[3] = {0};

    (void)state;
    assert_int_equal(leat_layout_dense(&dst, 2, (int64_t[]){30, 40}, 4), LEAT_OK);
    src = dst;
    first = plan_of(&dst, 64, &src, 16);
    again = plan_of(&dst, 16, &src, 256);
    assert_ptr_equal(first, again);
    assert_int_equal(first->canonical.unit_bytes, 16);
    leati_layout_plan_drop(again);
    other = plan_of(&dst, 8, &src, 16);
    assert_ptr_not_equal(first, other);
    assert_int_equal(other->canonical.unit_bytes, 8);
    leati_layout_plan_drop(other);
    src.offset_bytes = 4;
    other = plan_of(&dst, 16, &src, 16);
    assert_int_equal(other->canonical.unit_bytes, 4);
    leati_layout_plan_drop(other);
    src.offset_bytes = 0;
    /* What is behind the last dimension is nobody's business, and another list is the same plan. */
    src.size[2] = 7;
    dst.stride_bytes[5] = 1;
    again = plan_of(&dst, 16, &src, 16);
    assert_ptr_equal(first, again);
    leati_layout_plan_drop(again);
    leati_layout_plan_drop(first);
    assert_int_equal(leat_layout_slice(&dst, 0, 0, 2, 1), LEAT_OK);
    assert_int_equal(leat_layout_index(&src, 0, list, 2, 8, NULL), LEAT_OK);
    first = plan_of(&dst, 16, &src, 16);
    src.index = list + 1;
    again = plan_of(&dst, 16, &src, 16);
    assert_ptr_equal(first, again);
    leati_layout_plan_drop(again);
    src.index_bound--;
    again = plan_of(&dst, 16, &src, 16);
    assert_ptr_not_equal(first, again);
    leati_layout_plan_drop(again);
    leati_layout_plan_drop(first);
}

/* What is moved as a whole is the same plan, elsewhere. */
static void parts_of_an_array_are_one_plan(void **state)
{
    struct leati_layout_plan *first, *again;
    struct leati_layout_start start;
    leat_layout whole, part, dst;

    (void)state;
    assert_int_equal(leat_layout_dense(&whole, 2, (int64_t[]){1040, 64}, 4), LEAT_OK);
    assert_int_equal(leat_layout_dense(&dst, 2, (int64_t[]){16, 40}, 4), LEAT_OK);
    part = whole;
    assert_int_equal(leat_layout_slice(&part, 0, 0, 16, 1), LEAT_OK);
    assert_int_equal(leat_layout_slice(&part, 1, 4, 44, 1), LEAT_OK);
    first = plan_of(&dst, 16, &part, 16);
    for (int64_t i = 0; i < 1000; i++) {
        part = whole;
        assert_int_equal(leat_layout_slice(&part, 0, i, i + 16, 1), LEAT_OK);
        assert_int_equal(leat_layout_slice(&part, 1, i % 7 * 4, i % 7 * 4 + 40, 1), LEAT_OK);
        again = started_plan_of(&dst, 16, &part, 16, &start);
        assert_ptr_equal(first, again);
        assert_int_equal(start.src, i * 256 + i % 7 * 16);
        assert_int_equal(start.dst, 0);
        assert_int_equal(leati_layout_plan_reads(again, &start), 16 * (i % 7 % 2 ? 6 : 5));
        leati_layout_plan_drop(again);
    }
    /* Both flipped is neither flipped. */
    part = whole;
    assert_int_equal(leat_layout_slice(&part, 0, 7, 23, 1), LEAT_OK);
    assert_int_equal(leat_layout_slice(&part, 1, 8, 48, 1), LEAT_OK);
    for (uint32_t dim = 0; dim < 2; dim++) {
        assert_int_equal(leat_layout_flip(&part, dim), LEAT_OK);
        assert_int_equal(leat_layout_flip(&dst, dim), LEAT_OK);
    }
    again = started_plan_of(&dst, 16, &part, 16, &start);
    assert_ptr_equal(first, again);
    assert_int_equal(start.src, 7 * 256 + 32);
    assert_int_equal(start.dst, 0);
    leati_layout_plan_drop(again);
    /* A pointer that lies otherwise across words makes up for the offset, or does not. */
    part.offset_bytes += 4;
    again = plan_of(&dst, 16, &part, 16);
    assert_ptr_not_equal(first, again);
    assert_int_equal(again->canonical.unit_bytes, 4);
    leati_layout_plan_drop(again);
    again = plan_of(&dst, 16, &part, 4);
    assert_int_equal(again->canonical.src_align, 4);
    leati_layout_plan_drop(again);
    /* What a plan does not know is asked with it. */
    part.offset_bytes = INT64_MAX - 64;
    assert_int_equal(leati_layout_plan_get(&dst, 16, &part, 16, &again, &start), LEAT_ERROR_RANGE);
    assert_non_null(strstr(leat_last_error(), "src"));
    part.offset_bytes = INT64_MIN + 64;
    assert_int_equal(leati_layout_plan_get(&dst, 16, &part, 16, &again, &start), LEAT_ERROR_RANGE);
    leati_layout_plan_drop(first);
}

/* A plan and where it starts are what the form of the same layouts is. */
static void plans_are_canonical_layouts_that_start_elsewhere(void **state)
{
    (void)state;
    for (unsigned i = 0; i < many; i++) {
        size_t dst_align = (size_t)1 << chance(5), src_align = (size_t)1 << chance(5);
        struct leati_layout_start start;
        struct leati_layout_plan *plan;
        struct layouts_pair pair;
        struct leati_canonical canonical;
        size_t bytes;

        layouts_draw(&random_state, 1 + i % 16, MOST_BYTES, some_list(), &pair);
        make_canonical(&pair, dst_align, src_align, &canonical);
        plan = started_plan_of(&pair.dst, dst_align, &pair.src, src_align, &start);
        bytes = canonical.dims * sizeof canonical.size[0];
        EXPECT(plan->canonical.empty == canonical.empty && plan->canonical.dims == canonical.dims, &pair);
        EXPECT(plan->canonical.unit_bytes == canonical.unit_bytes &&
                   plan->canonical.index_dim == canonical.index_dim,
               &pair);
        EXPECT(!memcmp(plan->canonical.size, canonical.size, bytes), &pair);
        EXPECT(!memcmp(plan->canonical.dst_stride, canonical.dst_stride, bytes), &pair);
        EXPECT(!memcmp(plan->canonical.src_stride, canonical.src_stride, bytes), &pair);
        EXPECT(plan->canonical.dst_offset == 0 && plan->canonical.src_offset == 0, &pair);
        EXPECT(leati_layout_plan_reads(plan, &start) == leati_sectors(&canonical, false, 0), &pair);
        EXPECT(leati_layout_plan_writes(plan, &start) == leati_sectors(&canonical, true, 0), &pair);
        if (!canonical.empty) {
            EXPECT(start.dst == canonical.dst_offset && start.src == canonical.src_offset, &pair);
            EXPECT(plan->canonical.dst_align == canonical.dst_align &&
                       plan->canonical.src_align == canonical.src_align,
                   &pair);
        }
        if (canonical.dst_high > canonical.dst_low) {
            EXPECT(plan->canonical.dst_low + start.dst == canonical.dst_low, &pair);
            EXPECT(plan->canonical.src_high + start.src == canonical.src_high, &pair);
        }
        leati_layout_plan_drop(plan);
    }
}

/* More plans than the table has room for; those that are held stay as they are. */
static void held_plans_outlive_the_table(void **state)
{
    enum { HELD = 50, PLANS = 10000 };
    struct leati_layout_plan *held[HELD];
    leat_layout dst, src;

    (void)state;
    assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){100, 200}, 2), LEAT_OK);
    dst = src;
    for (int i = 0; i < PLANS; i++) {
        struct leati_layout_plan *plan;

        dst.stride_bytes[0] = 400 + i * 2;
        plan = plan_of(&dst, 16, &src, 16);
        assert_int_equal(plan->canonical.dst_high, 99 * dst.stride_bytes[0] + 400);
        if (i < HELD)
            held[i] = plan;
        else
            leati_layout_plan_drop(plan);
    }
    for (int i = 0; i < HELD; i++) {
        assert_int_equal(held[i]->canonical.dst_high, 99 * (400 + i * 2) + 400);
        leati_layout_plan_drop(held[i]);
    }
}

/* A few shapes more than the table has places for them: plans come and go while others look for them. */
static void *look_for_plans(void *argument)
{
    uint64_t random = *(uint64_t *)argument, wrong = 0;
    leat_layout dst = {.dims = 1, .element_bytes = 1}, src;

    src = dst;
    for (int i = 0; i < 20000; i++) {
        struct leati_layout_start start;
        struct leati_layout_plan *plan;

        dst.size[0] = src.size[0] = 2 + (int64_t)layouts_random(&random, 3000);
        dst.stride_bytes[0] = src.stride_bytes[0] = 3;
        if (leati_layout_plan_get(&dst, 1, &src, 1, &plan, &start) != LEAT_OK)
            return NULL;
        wrong += plan->canonical.payload_bytes != (uint64_t)dst.size[0] ||
                 plan->canonical.size[0] != (uint64_t)dst.size[0];
        leati_layout_plan_drop(plan);
    }
    *(uint64_t *)argument = wrong;
    return argument;
}

static void threads_find_the_plans_they_look_for(void **state)
{
    enum { THREADS = 4 };
    uint64_t arguments[THREADS];
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        arguments[i] = chance(1 << 20) + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, look_for_plans, &arguments[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *result = NULL;

        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
        assert_int_equal(arguments[i], 0);
    }
}

static void a_plan_says_what_it_is(void **state)
{
    struct leati_layout_start start;
    struct leati_layout_plan *plan;
    leat_layout dst, src;
    char text[2000], cut[20];

    (void)state;
    assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){4096, 1024}, 4), LEAT_OK);
    assert_int_equal(leat_layout_transpose(&src, 0, 1), LEAT_OK);
    assert_int_equal(leat_layout_dense(&dst, 2, src.size, 4), LEAT_OK);
    plan = started_plan_of(&dst, 16, &src, 16, &start);
    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        leati_layout_plan_text(plan, &start, on_gpu, text, sizeof text);
        assert_non_null(strstr(text, "class: transpose, 16 MiB\n"));
        assert_non_null(strstr(text, "units of 4 bytes"));
        assert_non_null(strstr(text, "4096 (dst +4, src +4096), 1024 (dst +16384, src +4)\n"));
        assert_non_null(strstr(text, "kernel: "));
        assert_non_null(strstr(text, "bound: 524288 sectors of 32 bytes read, 524288 written"));
        leati_layout_plan_text(plan, &start, on_gpu, cut, sizeof cut);
        assert_int_equal(strlen(cut), sizeof cut - 1);
        assert_memory_equal(text, cut, sizeof cut - 1);
        leati_layout_plan_text(plan, &start, on_gpu, NULL, 0);
    }
    leati_layout_plan_drop(plan);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_layouts_lead_to_the_same_elements),
        cmocka_unit_test(wrong_changes_are_refused),
        cmocka_unit_test(reach_is_counted_both_ways),
        cmocka_unit_test(a_dimension_without_a_step_is_last),
        cmocka_unit_test(numbers_are_rounded_outwards),
        cmocka_unit_test(nothing_is_as_good_as_something),
        cmocka_unit_test(canonical_layouts_touch_the_same_bytes),
        cmocka_unit_test(canonical_layouts_are_minimal),
        cmocka_unit_test(an_empty_pair_has_an_empty_canonical_layout),
        cmocka_unit_test(what_is_written_twice_is_refused),
        cmocka_unit_test(what_cannot_be_told_is_refused),
        cmocka_unit_test(overlaps_are_never_missed),
        cmocka_unit_test(parts_of_one_array_are_told_apart),
        cmocka_unit_test(sectors_are_those_that_can_be_counted),
        cmocka_unit_test(classes_are_what_they_are_called),
        cmocka_unit_test(a_plan_is_made_once),
        cmocka_unit_test(parts_of_an_array_are_one_plan),
        cmocka_unit_test(plans_are_canonical_layouts_that_start_elsewhere),
        cmocka_unit_test(held_plans_outlive_the_table),
        cmocka_unit_test(threads_find_the_plans_they_look_for),
        cmocka_unit_test(a_plan_says_what_it_is),
    };

    seed = test_seed();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--many"))
            many = (unsigned)strtoul(argv[i + 1], NULL, 0);
    }
    random_state = seed * 2 + 1;
    printf("unit_layout: --seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
