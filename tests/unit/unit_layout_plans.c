/*
 * unit_layout_plans.c - tests the classes of layout copies, and the table of plans: which layouts share a plan,
 * how long a plan lives, and threads that look up plans at the same time.
 *
 * The program prints its seed. "unit_layout_plans --seed N" sets it, and "--many N" the number of layouts of each
 * sort.
 */
#include "layout_cases.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- classes and plans ---- */

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
    assert_int_equal(class_of(CANONICAL_OF(4, SIZES(5, 5), {0, 1})), LEAT_LAYOUT_CLASS_COPY);
    assert_int_equal(class_of(CANONICAL_OF(1, SIZES(1, 1), {0, 1})), LEAT_LAYOUT_CLASS_COPY);
    assert_int_equal(class_of(CANONICAL_OF(2, SIZES(8, 512, 12, 64), {0, 2, 1, 3})), LEAT_LAYOUT_CLASS_ROWS);
    for (uint32_t element_bytes = 1; element_bytes <= 16; element_bytes *= 2)
        assert_int_equal(class_of(CANONICAL_OF(element_bytes, SIZES(500, 300), {1, 0})),
                         LEAT_LAYOUT_CLASS_TRANSPOSE);
    assert_int_equal(class_of(CANONICAL_OF(4, SIZES(80, 96, 75, 96), {3, 0, 1, 2})), LEAT_LAYOUT_CLASS_TRANSPOSE);
    /* Images with 3 channels in both directions; a matrix of two columns; pixels of 12 bytes; lines of 15
     * floats. */
    assert_int_equal(class_of(CANONICAL_OF(4, SIZES(32, 3, 224, 224), {0, 2, 3, 1})), LEAT_LAYOUT_CLASS_ND_TILE);
    assert_int_equal(class_of(CANONICAL_OF(4, SIZES(32, 224, 224, 3), {0, 3, 1, 2})), LEAT_LAYOUT_CLASS_ND_TILE);
    assert_int_equal(class_of(CANONICAL_OF(4, SIZES(100000, 2), {1, 0})), LEAT_LAYOUT_CLASS_ND_TILE);
    assert_int_equal(class_of(CANONICAL_OF(12, SIZES(100, 200), {1, 0})), LEAT_LAYOUT_CLASS_ND_TILE);
    assert_int_equal(class_of(CANONICAL_OF(4, SIZES(15, 15, 15, 15, 15), {4, 3, 2, 1, 0})),
                     LEAT_LAYOUT_CLASS_ND_TILE);

    /* An image rotated by 90 degrees to either side. It must be a transpose, and have wide tiles because the rows
     * are long. */
    for (uint32_t dim = 0; dim < 2; dim++) {
        struct leati_layout_start start;
        struct leati_layout_plan *plan;

        assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){1024, 512}, 4), LEAT_OK);
        assert_int_equal(leat_layout_flip(&src, dim), LEAT_OK);
        assert_int_equal(leat_layout_transpose(&src, 0, 1), LEAT_OK);
        assert_int_equal(leat_layout_dense(&dst, 2, src.size, 4), LEAT_OK);
        assert_int_equal(leati_layout_plan_get(&dst, 16, &src, 16, &plan, &start), LEAT_OK);
        assert_int_equal(plan->class_of_plan, LEAT_LAYOUT_CLASS_TRANSPOSE);
        assert_int_equal(plan->host.kernel, LEATI_HOST_TILES);
        assert_true(plan->canonical.src_align == 16 && plan->canonical.dst_align == 16);
        assert_non_null(strstr(plan->gpu.kernel, "transpose"));
        assert_null(strstr(plan->gpu.kernel, "odd"));
        leati_layout_plan_drop(plan);
    }

    /* Three columns of a matrix, then one column, every second column, and columns in reverse order. */
    assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){1000, 100}, 4), LEAT_OK);
    assert_int_equal(leat_layout_slice(&src, 1, 7, 10, 1), LEAT_OK);
    assert_int_equal(leat_layout_dense(&dst, 2, src.size, 4), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_CLASS_ROWS);
    assert_int_equal(leat_layout_slice(&src, 1, 0, 1, 1), LEAT_OK);
    assert_int_equal(leat_layout_dense(&dst, 2, src.size, 4), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_CLASS_ELEMENTS);
    assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){1000, 100}, 4), LEAT_OK);
    dst = src;
    assert_int_equal(leat_layout_flip(&src, 1), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_CLASS_ELEMENTS);

    /* Broadcasts of one value per row, of a short pattern and of a long row. Then an index list. */
    assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){1000, 1}, 4), LEAT_OK);
    assert_int_equal(leat_layout_broadcast(&src, 1, 100), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_CLASS_FILL);
    assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){1, 100}, 4), LEAT_OK);
    assert_int_equal(leat_layout_broadcast(&src, 0, 1000), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_CLASS_ROWS);
    assert_int_equal(leat_layout_slice(&src, 1, 0, 3, 1), LEAT_OK);
    assert_int_equal(leat_layout_dense(&dst, 2, src.size, 4), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_CLASS_FILL);
    assert_int_equal(leat_layout_dense(&src, 2, (int64_t[]){2, 3}, 4), LEAT_OK);
    dst = src;
    assert_int_equal(leat_layout_index(&src, 0, list, 2, 4, NULL), LEAT_OK);
    assert_int_equal(leati_canonical_make(&dst, 16, &src, 16, &canonical), LEAT_OK);
    assert_int_equal(class_of(canonical), LEAT_LAYOUT_CLASS_GATHER);
    assert_string_equal(leat_layout_class_name(LEAT_LAYOUT_CLASS_TRANSPOSE), "transpose");
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
    /* leat must ignore entries past the last dimension. Another index list must give the same plan. */
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

/* Parts of one array that differ only in their start must share a plan. */
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
    /* Flipping both sides must give the same plan as flipping neither side. */
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
    /* An offset with another alignment gives another plan, unless the alignment of the pointer compensates for
     * it. */
    part.offset_bytes += 4;
    again = plan_of(&dst, 16, &part, 16);
    assert_ptr_not_equal(first, again);
    assert_int_equal(again->canonical.unit_bytes, 4);
    leati_layout_plan_drop(again);
    again = plan_of(&dst, 16, &part, 4);
    assert_int_equal(again->canonical.src_align, 4);
    leati_layout_plan_drop(again);
    /* leat must check at each look-up what does not depend on the plan, such as the range of the offset. */
    part.offset_bytes = INT64_MAX - 64;
    assert_int_equal(leati_layout_plan_get(&dst, 16, &part, 16, &again, &start), LEAT_ERROR_RANGE);
    assert_non_null(strstr(leat_last_error(), "src"));
    part.offset_bytes = INT64_MIN + 64;
    assert_int_equal(leati_layout_plan_get(&dst, 16, &part, 16, &again, &start), LEAT_ERROR_RANGE);
    leati_layout_plan_drop(first);
}

/* A plan and its start together must equal the canonical layout of the same two layouts. */
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

/* Makes more plans than fit into the table. Plans that are in use must stay unchanged. */
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

/* Runs in several threads. Looks up somewhat more shapes than fit into the table, so that one thread replaces
 * plans while other threads look them up. */
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
        cmocka_unit_test(classes_are_what_they_are_called),
        cmocka_unit_test(a_plan_is_made_once),
        cmocka_unit_test(parts_of_an_array_are_one_plan),
        cmocka_unit_test(plans_are_canonical_layouts_that_start_elsewhere),
        cmocka_unit_test(held_plans_outlive_the_table),
        cmocka_unit_test(threads_find_the_plans_they_look_for),
        cmocka_unit_test(a_plan_says_what_it_is),
    };

    begin_random(argc, argv, "unit_layout_plans");
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
