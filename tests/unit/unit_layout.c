/*
 * unit_layout.c - tests the arithmetic of layouts against results that are counted element by element: canonical
 * layouts, elements that are written twice, overlap of source and destination, and the sectors that a copy
 * touches.
 *
 * The program prints its seed. "unit_layout --seed N" sets it, and "--many N" the number of layouts of each sort.
 */
#include "layout_cases.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_BYTES (16 * MOST_BYTES + 4096)

/* ---- canonical layouts ---- */

/* Returns the byte offset of the unit with this number on one side, as layouts_at() does for elements. */
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

/* Computes the source byte of each destination byte twice: by elements of the layouts and by units of the
 * canonical layout. Both results must be equal. */
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

static void canonical_layouts_are_minimal(void **state)
{
    struct leati_canonical canonical = CANONICAL_OF(4, SIZES(3, 5, 7, 9), {0, 1, 2, 3});

    (void)state;
    /* 945 floats in one run. No unit wider than 4 bytes divides the length of the run. */
    assert_int_equal(canonical.dims, 1);
    assert_int_equal(canonical.unit_bytes, 4);
    canonical = CANONICAL_OF(4, SIZES(4, 4), {0, 1});
    assert_int_equal(canonical.unit_bytes, 16);
    assert_int_equal(canonical.size[0], 4);
    canonical = CANONICAL_OF(4, SIZES(2, 2), {0, 1});
    assert_int_equal(canonical.dims, 0);
    assert_int_equal(canonical.unit_bytes, 16);
    /* Transposed attention heads of 64 elements of 2 bytes, which are copied in units of 16 bytes. */
    canonical = CANONICAL_OF(2, SIZES(8, 512, 12, 64), {0, 2, 1, 3});
    assert_int_equal(canonical.dims, 4);
    assert_int_equal(canonical.unit_bytes, 16);
    assert_int_equal(canonical.size[0], 8);
    /* The last two dimensions stay adjacent, so they become one dimension. So do the first two. */
    canonical = CANONICAL_OF(4, SIZES(6, 5, 4, 3), {2, 3, 0, 1});
    assert_int_equal(canonical.dims, 2);
    assert_int_equal(canonical.size[0], 30);
    assert_int_equal(canonical.size[1], 12);
    /* An element of 12 bytes becomes three units of 4 bytes. */
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
    assert_int_equal(leati_layout_classify(&canonical), LEAT_LAYOUT_CLASS_NOTHING);
    assert_int_equal(leati_sectors(&canonical, true, 0) + leati_sectors(&canonical, false, 0), 0);
    assert_false(leati_canonical_may_overlap(&canonical, &dst, &dst));
}

/* ---- elements that are written twice ---- */

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

/* Draws random strides. leat must refuse exactly those layouts that write an element twice. */
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

/* Twelve dimensions whose elements interleave. If checking them takes too long, leat must refuse the layout with
 * the message that it cannot tell. */
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
    (void)leat_layout_dense(&src, 12, dst.size, 1);
    assert_int_not_equal(leati_canonical_make(&dst, 1, &src, 1, &canonical), LEAT_OK);
    assert_non_null(strstr(leat_last_error(), "cannot tell"));
}

/* ---- overlap of source and destination ---- */

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

/* leat must find every overlap that exists. Half of the pairs have equal strides on both sides, like parts of one
 * array. */
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

/* Copies between parts of one large matrix, as programs make them: columns, and rows at regular distances. */
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
    /* The rows 0, 6, 12 ... have even numbers and the rows 1, 5, 9 ... have odd numbers, so they never overlap. */
    assert_int_equal(leat_layout_slice(&even, 0, 0, 60000, 6), LEAT_OK);
    assert_int_equal(leat_layout_slice(&odd, 0, 1, 40001, 4), LEAT_OK);
    assert_int_equal(leati_canonical_make(&even, 16, &odd, 16, &canonical), LEAT_OK);
    assert_false(leati_canonical_may_overlap(&canonical, base, base));
    assert_true(leati_canonical_may_overlap(&canonical, base, base + 12000));
    /* Copies the upper half of the rows, in reverse order, to the lower half. */
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

/* Counts the sectors of the rows that an index list selects. Returns the smaller of two counts: the sum over the
 * rows of the list, as if all rows were far apart; and the sectors of all rows that the list could name. */
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

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_layouts_touch_the_same_bytes),
        cmocka_unit_test(canonical_layouts_are_minimal),
        cmocka_unit_test(an_empty_pair_has_an_empty_canonical_layout),
        cmocka_unit_test(what_is_written_twice_is_refused),
        cmocka_unit_test(what_cannot_be_told_is_refused),
        cmocka_unit_test(overlaps_are_never_missed),
        cmocka_unit_test(parts_of_one_array_are_told_apart),
        cmocka_unit_test(sectors_are_those_that_can_be_counted),
    };

    begin_random(argc, argv, "unit_layout");
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
