/*
 * unit_layout_calls.c - tests the calls that change a layout (permute, slice, index, reshape). The changed layout
 * must address the elements that are found by counting element by element. Also tests the changes that leat
 * refuses.
 *
 * The program prints its seed. "unit_layout_calls --seed N" sets it, and "--many N" the number of layouts of each
 * sort.
 */
#include "layout_cases.h"

#include "base/error.h"
#include "layout/overlap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the calls that change layouts ---- */

/* A layout, and the byte offset that each of its elements must have. */
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

/* Updates the expected offsets after a change. order: the new order of the dimensions, or NULL. from: in dimension
 * dim, element i of the changed layout was element from[i] before; or NULL. */
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

/* Slices, flips or broadcasts a random dimension that has no index list. */
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
            /* Take the same elements in reverse order. */
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

/* Returns true if a layout with these sizes can address the same elements in the same order. */
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

/* Draws sizes whose product is the number of elements: combines its prime factors at random. Returns the number of
 * dimensions. */
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

/* Fails unless the call returns this status with these words in the message, and leaves the layout unchanged. */
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

/* The reach of a layout is its extent in both directions together. 1.5 * 2^60 bytes to each side are more than the
 * limit of 2^61. */
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

/* Only an indexed dimension can have stride 0. leat puts it last, so that the other dimensions can be copied in
 * wide units. */
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

/* Divisions of negative numbers must round towards minus infinity. Checks one stride with many distances against
 * the remainder of the distance. */
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
            /* If no multiple of the stride equals the distance, the search takes no step. */
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

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_layouts_lead_to_the_same_elements),
        cmocka_unit_test(wrong_changes_are_refused),
        cmocka_unit_test(reach_is_counted_both_ways),
        cmocka_unit_test(a_dimension_without_a_step_is_last),
        cmocka_unit_test(numbers_are_rounded_outwards),
        cmocka_unit_test(nothing_is_as_good_as_something),
    };

    begin_random(argc, argv, "unit_layout_calls");
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
