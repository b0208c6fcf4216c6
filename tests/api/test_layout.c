/*
 * test_layout.c - tests leat_copy_layout() against a plain loop: random layouts of every element size, typical
 * layouts of programs, plans, and calls that are refused.
 *
 * The program prints its seed; TEST_SEED sets it. LAYOUT_MANY sets the number of random layouts of each sort.
 */
#include "layout_arenas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES ((uint64_t)512 << 10)
#define ARENA_BYTES (16 * LARGE_BYTES + 4096)

/* ---- random layouts ---- */

static void random_layouts_of_every_element_size(void **state)
{
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, ARENA_BYTES);
    for (uint32_t element_bytes = 1; element_bytes <= 16; element_bytes++) {
        for (unsigned i = 0; i < many; i++) {
            struct layouts_pair pair;

            layouts_draw(&random_state, element_bytes, i % 50 ? SMALL_BYTES : LARGE_BYTES, LAYOUTS_NO_LIST, &pair);
            copy_pair(t->stream, &arenas, DEVICE, DEVICE, PAGEABLE, &pair, &pair.dst, &pair.src);
        }
    }
    end_arenas(&arenas);
}

static void random_layouts_between_all_kinds(void **state)
{
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, ARENA_BYTES);
    for (enum place to = 0; to < PLACES; to++) {
        for (enum place from = 0; from < PLACES; from++) {
            for (unsigned i = 0; i < many / 10 && is_there(&arenas, to, from); i++) {
                struct layouts_pair pair;

                layouts_draw(&random_state, 1 + (uint32_t)chance(16), i % 20 ? SMALL_BYTES : LARGE_BYTES,
                             LAYOUTS_NO_LIST, &pair);
                copy_pair(t->stream, &arenas, to, from, PAGEABLE, &pair, &pair.dst, &pair.src);
            }
        }
    }
    if (!arenas.other)
        print_message("           without pairs of devices: there is only one\n");
    end_arenas(&arenas);
}

/* ---- typical shapes ---- */

static void pair_of(struct layouts_pair *pair, uint32_t dims, const int64_t *size, const uint32_t *order,
                    uint32_t element_bytes)
{
    memset(pair, 0, sizeof *pair);
    OK(leat_layout_dense(&pair->src, dims, size, element_bytes));
    OK(leat_layout_permute(&pair->src, order));
    OK(leat_layout_dense(&pair->dst, dims, pair->src.size, element_bytes));
    layouts_measure(pair);
}

static void known_shapes(void **state)
{
    static const struct {
        uint32_t dims;
        int64_t size[8];
        uint32_t order[8];
    } shapes[] = {
        {2, {512, 512}, {1, 0}},
        {2, {511, 513}, {1, 0}},
        {2, {1, 100003}, {1, 0}},
        {2, {3, 50001}, {1, 0}},
        {2, {50001, 2}, {1, 0}},
        {2, {16, 4096}, {1, 0}},
        {2, {20011, 7}, {1, 0}},
        {2, {10007, 12}, {1, 0}},
        {2, {67, 1024}, {1, 0}},
        {3, {20, 64, 130}, {0, 2, 1}},
        {3, {64, 33, 65}, {2, 1, 0}},
        {3, {40, 50, 64}, {1, 0, 2}},
        {4, {4, 3, 56, 57}, {0, 2, 3, 1}},
        {4, {4, 56, 57, 3}, {0, 3, 1, 2}},
        {4, {2, 100, 12, 64}, {0, 2, 1, 3}},
        {4, {9, 8, 75, 16}, {3, 2, 1, 0}},
        {5, {2, 30, 3, 4, 80}, {2, 0, 3, 1, 4}},
        {6, {15, 3, 16, 5, 7, 4}, {5, 4, 3, 2, 1, 0}},
        {8, {5, 3, 2, 4, 35, 3, 7, 4}, {7, 2, 5, 0, 3, 6, 1, 4}},
    };
    static const uint32_t elements[] = {1, 2, 3, 4, 6, 8, 12, 16};
    static const enum place places[][2] = {{DEVICE, DEVICE}, {DEVICE, PAGEABLE}, {PINNED, DEVICE}};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, (size_t)6 << 20);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (size_t e = 0; e < sizeof elements / sizeof elements[0]; e++) {
            const enum place *ends = places[(i + e) % 3];
            struct layouts_pair pair;

            pair_of(&pair, shapes[i].dims, shapes[i].size, shapes[i].order, elements[e]);
            if (pair.dst_high + 1000 > (int64_t)arenas.bytes)
                continue;
            copy_pair(t->stream, &arenas, DEVICE, DEVICE, PAGEABLE, &pair, &pair.dst, &pair.src);
            copy_pair(t->stream, &arenas, ends[0], ends[1], PAGEABLE, &pair, &pair.dst, &pair.src);
        }
    }
    end_arenas(&arenas);
}

/* Flips every combination of the source's dimensions, which gives rotations and reflections. */
static void flipped_shapes(void **state)
{
    static const struct {
        uint32_t dims;
        int64_t size[3];
        uint32_t order[3];
    } shapes[] = {
        {2, {200, 300}, {1, 0}},     {2, {256, 128}, {1, 0}},      {2, {70, 333}, {0, 1}},
        {3, {40, 65, 3}, {1, 0, 2}}, {3, {33, 5, 130}, {2, 1, 0}},
    };
    static const uint32_t elements[] = {1, 2, 3, 4, 8, 12, 16};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, (size_t)2 << 20);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (size_t e = 0; e < sizeof elements / sizeof elements[0]; e++)
            for (uint32_t flips = 1; flips < 1u << shapes[i].dims; flips++) {
                struct layouts_pair pair;

                pair_of(&pair, shapes[i].dims, shapes[i].size, shapes[i].order, elements[e]);
                for (uint32_t dim = 0; dim < shapes[i].dims; dim++) {
                    if (flips >> dim & 1)
                        OK(leat_layout_flip(&pair.src, dim));
                    if (chance(4) == 0)
                        OK(leat_layout_flip(&pair.dst, dim));
                }
                layouts_measure(&pair);
                copy_pair(t->stream, &arenas, DEVICE, DEVICE, PAGEABLE, &pair, &pair.dst, &pair.src);
            }
    end_arenas(&arenas);
}

static void many_small_dimensions(void **state)
{
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, (size_t)5 << 20);
    for (int i = 0; i < 16; i++) {
        uint32_t dims = i % 4 ? 14 : 32, order[32];
        struct layouts_pair pair;
        int64_t size[32];

        for (uint32_t d = 0; d < dims; d++) {
            uint32_t at = (uint32_t)chance(d + 1);

            order[d] = order[at];
            order[at] = d;
            size[d] = d % 32 < 14 ? 2 : 1;
        }
        pair_of(&pair, dims, size, order, (uint32_t)i % 16 + 1);
        copy_pair(t->stream, &arenas, DEVICE, DEVICE, PAGEABLE, &pair, &pair.dst, &pair.src);
    }
    end_arenas(&arenas);
}

/* Copies one part of a matrix to another part. The two share rows or columns, but no byte. */
static void parts_of_one_array(void **state)
{
    struct test_state *t = *state;
    float *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 100 * 100 * 4), host[100][100];
    leat_layout left, right, even, odd;

    for (int y = 0; y < 100; y++)
        for (int x = 0; x < 100; x++)
            host[y][x] = (float)(y * 100 + x);
    OK(leat_copy(t->stream, memory, host, sizeof host));
    OK(leat_layout_dense(&left, 2, (int64_t[]){100, 100}, 4));
    right = left;
    OK(leat_layout_slice(&left, 1, 0, 50, 1));
    OK(leat_layout_slice(&right, 1, 99, 49, -1));
    OK(leat_copy_layout(t->stream, memory, &left, memory, &right));
    OK(leat_layout_dense(&even, 2, (int64_t[]){100, 100}, 4));
    odd = even;
    OK(leat_layout_slice(&even, 0, 0, 100, 2));
    OK(leat_layout_slice(&odd, 0, 1, 100, 2));
    OK(leat_copy_layout(t->stream, memory, &odd, memory, &even));
    OK(leat_copy_sync(t->stream, host, memory, sizeof host));
    for (int y = 0; y < 100; y++)
        for (int x = 0; x < 100; x++)
            assert_true(host[y][x] == (float)((y - y % 2) * 100 + (x < 50 ? 99 - x : x)));
    OK(leat_memory_free(memory));
}

/* ---- plans ---- */

static void a_plan_copies(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 3 * 40000), *in = test_buffer(40000);
    unsigned char *out = test_buffer(40000);
    leat_layout dense, turned, empty;
    leat_layout_plan_info info = LEAT_LAYOUT_PLAN_INFO_INIT;
    leat_layout_plan *plan, *again;
    char text[1000], cut[10];

    test_pattern(in, 40000, 9);
    OK(leat_copy(t->stream, memory, in, 40000));
    OK(leat_layout_dense(&turned, 2, (int64_t[]){100, 200}, 2));
    OK(leat_layout_transpose(&turned, 0, 1));
    OK(leat_layout_dense(&dense, 2, turned.size, 2));
    OK(leat_layout_plan_create(t->device, &dense, 256, &turned, 16, &plan));
    OK(leat_layout_plan_create(t->device, &dense, 16, &turned, 256, &again));
    OK(leat_layout_plan_get_info(plan, &info));
    assert_int_equal(info.class_of_plan, LEAT_LAYOUT_CLASS_TRANSPOSE);
    assert_int_equal(info.payload_bytes, 40000);
    assert_int_equal(info.read_sectors, 1250);
    assert_int_equal(info.written_sectors, 1250);
    OK(leat_layout_plan_explain(plan, text, sizeof text));
    assert_non_null(strstr(text, "transpose"));
    assert_non_null(strstr(text, "1250 sectors"));
    OK(leat_layout_plan_explain(plan, cut, sizeof cut));
    assert_int_equal(strlen(cut), sizeof cut - 1);
    /* Copy with this plan, and back with a plan of the reverse copy: the bytes must be the same. */
    OK(leat_layout_plan_copy(t->stream, plan, memory + 40000, memory));
    OK(leat_layout_plan_destroy(again));
    OK(leat_layout_plan_destroy(plan));
    OK(leat_layout_plan_create(t->device, &turned, 16, &dense, 16, &plan));
    OK(leat_layout_plan_copy(t->stream, plan, memory + 80000, memory + 40000));
    OK(leat_copy_sync(t->stream, out, memory + 80000, 40000));
    assert_memory_equal(in, out, 40000);
    REFUSED(leat_layout_plan_copy(t->stream, plan, memory + 8, memory + 40000), LEAT_ERROR_INVALID,
            "multiples of 16");
    REFUSED(leat_layout_plan_copy(t->stream, plan, memory, memory + 40002), LEAT_ERROR_INVALID, "multiples of 16");
    REFUSED(leat_layout_plan_copy(NULL, plan, memory, memory + 40000), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_layout_plan_get_info(plan, NULL), LEAT_ERROR_INVALID, "info");
    REFUSED(leat_layout_plan_explain(plan, NULL, 10), LEAT_ERROR_INVALID, "text");
    REFUSED(leat_layout_plan_explain(plan, text, 0), LEAT_ERROR_INVALID, "text_bytes");
    OK(leat_layout_plan_destroy(plan));
    OK(leat_layout_plan_destroy(NULL));
    REFUSED(leat_layout_plan_copy(t->stream, NULL, memory, memory + 40000), LEAT_ERROR_HANDLE, "plan");
    REFUSED(leat_layout_plan_get_info(NULL, &info), LEAT_ERROR_HANDLE, "plan");
    REFUSED(leat_layout_plan_explain(NULL, text, sizeof text), LEAT_ERROR_HANDLE, "plan");
    REFUSED(leat_layout_plan_create(NULL, &dense, 1, &turned, 1, &plan), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_layout_plan_create(t->device, NULL, 1, &turned, 1, &plan), LEAT_ERROR_INVALID, "dst_layout");
    REFUSED(leat_layout_plan_create(t->device, &dense, 1, NULL, 1, &plan), LEAT_ERROR_INVALID, "src_layout");
    REFUSED(leat_layout_plan_create(t->device, &dense, 1, &turned, 1, NULL), LEAT_ERROR_INVALID, "plan");
    REFUSED(leat_layout_plan_create(t->device, &dense, 3, &turned, 1, &plan), LEAT_ERROR_INVALID, "align");
    REFUSED(leat_layout_plan_create(t->device, &dense, 1, &turned, 0, &plan), LEAT_ERROR_INVALID, "align");
    /* An empty layout also gives a plan. */
    OK(leat_layout_dense(&empty, 2, (int64_t[]){0, 5}, 2));
    OK(leat_layout_plan_create(t->device, &empty, 1, &empty, 1, &plan));
    OK(leat_layout_plan_copy(t->stream, plan, NULL, NULL));
    OK(leat_layout_plan_get_info(plan, &info));
    assert_int_equal(info.class_of_plan, LEAT_LAYOUT_CLASS_NOTHING);
    OK(leat_layout_plan_destroy(plan));
    OK(leat_memory_free(memory));
    free(in);
    free(out);
}

static void a_copy_is_explained_and_not_made(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 20000), *out = test_buffer(20000);
    leat_layout dense, turned;
    char text[2000];

    memset(out, 0, 20000);
    OK(leat_fill(t->stream, memory, 0x42, 20000));
    OK(leat_layout_dense(&turned, 2, (int64_t[]){100, 50}, 4));
    OK(leat_layout_transpose(&turned, 0, 1));
    OK(leat_layout_dense(&dense, 2, turned.size, 4));
    OK(leat_copy_layout_explain(t->stream, out, &dense, memory, &turned, text, sizeof text));
    assert_non_null(strstr(text, "transpose"));
    assert_non_null(strstr(text, "bound"));
    OK(leat_stream_synchronize(t->stream));
    EXPECT_BYTES(out, 20000, 0);
    REFUSED(leat_copy_layout_explain(t->stream, out, &dense, memory, &turned, NULL, 10), LEAT_ERROR_INVALID,
            "text");
    REFUSED(leat_copy_layout_explain(t->stream, out, &dense, memory, &turned, text, 0), LEAT_ERROR_INVALID,
            "text");
    REFUSED(leat_copy_layout_explain(t->stream, out, NULL, memory, &turned, text, sizeof text), LEAT_ERROR_INVALID,
            "dst_layout");
    OK(leat_memory_free(memory));
    free(out);
}

/* ---- empty layouts, and calls that are refused ---- */

static void a_size_of_zero_does_nothing(void **state)
{
    struct test_state *t = *state;
    leat_layout empty, strange = {.dims = 2,
                                  .element_bytes = 4,
                                  .size = {0, INT64_MAX},
                                  .stride_bytes = {INT64_MIN, 0},
                                  .offset_bytes = INT64_MAX};
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 64), out[64];

    OK(leat_fill(t->stream, memory, 0x11, 64));
    OK(leat_layout_dense(&empty, 3, (int64_t[]){4, 0, 4}, 4));
    OK(leat_copy_layout(t->stream, memory, &empty, memory, &empty));
    OK(leat_copy_layout(t->stream, NULL, &empty, NULL, &empty));
    OK(leat_copy_layout(t->stream, NULL, &strange, memory, &strange));
    OK(leat_layout_dense(&empty, 1, (int64_t[]){4}, 4));
    OK(leat_layout_index(&empty, 0, NULL, 0, 8, NULL));
    OK(leat_copy_layout(t->stream, NULL, &empty, NULL, &empty));
    OK(leat_copy_sync(t->stream, out, memory, 64));
    EXPECT_BYTES(out, 64, 0x11);
    OK(leat_memory_free(memory));
}

/* A layout without dimensions is one element. Copies an element of each size at odd addresses. */
static void one_element(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 256), in[128], out[64];

    test_pattern(in, sizeof in, 2);
    for (uint32_t bytes = 1; bytes <= 16; bytes++) {
        leat_layout one, there;

        OK(leat_layout_dense(&one, 0, NULL, bytes));
        there = one;
        there.offset_bytes = 40;
        OK(leat_fill(t->stream, memory, 0x55, 256));
        OK(leat_copy(t->stream, memory + 128, in, sizeof in));
        OK(leat_copy_layout(t->stream, memory + 3, &one, memory + 128, &there));
        OK(leat_copy_sync(t->stream, out, memory, sizeof out));
        EXPECT_BYTES(out, 3, 0x55);
        assert_memory_equal(out + 3, in + 40, bytes);
        EXPECT_BYTES(out + 3 + bytes, sizeof out - 3 - bytes, 0x55);
    }
    OK(leat_memory_free(memory));
}

static void wrong_layouts_are_refused(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 4096);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 4096), in[4096] = {0};
    leat_layout good, wrong, other;
    uint32_t list[4] = {0, 1, 2, 3};
    leat_stream *none = NULL;

    OK(leat_layout_dense(&good, 2, (int64_t[]){4, 8}, 4));
#define WRONG_DST(status, words)                                                                                  \
    REFUSED(leat_copy_layout(t->stream, memory, &wrong, pinned, &good), (status), (words))
#define WRONG_SRC(status, words)                                                                                  \
    REFUSED(leat_copy_layout(t->stream, memory, &good, pinned, &wrong), (status), (words))
#define WRONG_BOTH(status, words)                                                                                 \
    REFUSED(leat_copy_layout(t->stream, memory, &wrong, pinned, &wrong), (status), (words))
    REFUSED(leat_copy_layout(none, memory, &good, pinned, &good), LEAT_ERROR_HANDLE, "leat_copy_layout");
    REFUSED(leat_copy_layout(t->stream, memory, NULL, pinned, &good), LEAT_ERROR_INVALID, "dst_layout");
    REFUSED(leat_copy_layout(t->stream, memory, &good, pinned, NULL), LEAT_ERROR_INVALID, "src_layout");
    REFUSED(leat_copy_layout(t->stream, NULL, &good, pinned, &good), LEAT_ERROR_POINTER, "dst");
    REFUSED(leat_copy_layout(t->stream, memory, &good, NULL, &good), LEAT_ERROR_POINTER, "src");

    /* Invalid layouts must be refused. */
    wrong = good;
    wrong.dims = 33;
    WRONG_BOTH(LEAT_ERROR_INVALID, "32 dimensions");
    wrong = good;
    wrong.element_bytes = 17;
    WRONG_BOTH(LEAT_ERROR_INVALID, "element_bytes");
    wrong.element_bytes = 0;
    WRONG_BOTH(LEAT_ERROR_INVALID, "element_bytes");
    wrong = good;
    wrong.size[1] = -1;
    WRONG_BOTH(LEAT_ERROR_INVALID, "size[1]");

    /* Two layouts that do not match must be refused. */
    wrong = good;
    wrong.dims = 1;
    WRONG_SRC(LEAT_ERROR_INVALID, "dimensions");
    wrong = good;
    wrong.element_bytes = 8;
    WRONG_DST(LEAT_ERROR_INVALID, "bytes");
    wrong = good;
    wrong.size[0] = 3;
    WRONG_SRC(LEAT_ERROR_INVALID, "size[0]");

    /* Layouts that would write bytes twice must be refused: a stride of 0, a pitch smaller than a row, and strides
     * that overlap. */
    wrong = good;
    wrong.stride_bytes[0] = 0;
    WRONG_DST(LEAT_ERROR_INVALID, "stride 0");
    wrong.stride_bytes[0] = 28;
    WRONG_DST(LEAT_ERROR_INVALID, "twice");
    wrong.stride_bytes[0] = 30;
    WRONG_DST(LEAT_ERROR_INVALID, "twice");
    wrong.stride_bytes[0] = -28;
    wrong.offset_bytes = 1024;
    WRONG_DST(LEAT_ERROR_INVALID, "twice");
    wrong = good;
    wrong.stride_bytes[1] = 3;
    WRONG_DST(LEAT_ERROR_INVALID, "twice");

    /* Layouts that reach beyond the address space or the allocation must be refused. */
    wrong = good;
    wrong.stride_bytes[0] = INT64_MAX / 2;
    WRONG_DST(LEAT_ERROR_RANGE, "dst");
    WRONG_SRC(LEAT_ERROR_RANGE, "src");
    wrong.stride_bytes[0] = INT64_MIN;
    WRONG_SRC(LEAT_ERROR_RANGE, "src");
    wrong = good;
    wrong.offset_bytes = INT64_MAX;
    WRONG_DST(LEAT_ERROR_RANGE, "dst");
    wrong = (leat_layout){
        .dims = 2, .element_bytes = 1, .size = {(int64_t)1 << 40, (int64_t)1 << 40}, .stride_bytes = {0, 0}};
    WRONG_BOTH(LEAT_ERROR_RANGE, "size");
    wrong = good;
    wrong.offset_bytes = 4096 - 4 * 8 * 4 + 1;
    WRONG_DST(LEAT_ERROR_RANGE, "dst");
    WRONG_SRC(LEAT_ERROR_RANGE, "src");
    wrong.offset_bytes = -1;
    WRONG_DST(LEAT_ERROR_POINTER, "dst");
    wrong = good;
    wrong.stride_bytes[0] = 2000;
    WRONG_DST(LEAT_ERROR_RANGE, "dst");

    /* Source and destination must not overlap. */
    REFUSED(leat_copy_layout(t->stream, memory, &good, memory, &good), LEAT_ERROR_OVERLAP, "dst");
    REFUSED(leat_copy_layout(t->stream, memory + 1, &good, memory, &good), LEAT_ERROR_OVERLAP, "dst");
    OK(leat_layout_dense(&other, 2, (int64_t[]){8, 4}, 4));
    OK(leat_layout_transpose(&other, 0, 1));
    REFUSED(leat_copy_layout(t->stream, memory, &good, memory, &other), LEAT_ERROR_OVERLAP, "dst");
    REFUSED(leat_copy_layout(t->stream, in, &good, in + 64, &other), LEAT_ERROR_OVERLAP, "dst");

    /* Invalid index lists must be refused. */
    wrong = good;
    OK(leat_layout_index(&wrong, 0, list, 4, 4, NULL));
    WRONG_BOTH(LEAT_ERROR_INVALID, "both");
    wrong.index_dim = 2;
    WRONG_SRC(LEAT_ERROR_INVALID, "index_dim");
    wrong.index_dim = 0;
    wrong.index_bytes = 5;
    WRONG_SRC(LEAT_ERROR_INVALID, "index_bytes");
    wrong.index_bytes = 4;
    wrong.index_bound = -1;
    WRONG_SRC(LEAT_ERROR_INVALID, "index_bound");
    wrong.index_bound = 4;
    wrong.index = (char *)list + 2;
    WRONG_SRC(LEAT_ERROR_INVALID, "aligned");
    wrong.index_bound = 1000;
    wrong.index = list;
    WRONG_SRC(LEAT_ERROR_RANGE, "src");
    wrong.index_bound = 3;
    WRONG_SRC(LEAT_ERROR_RANGE, "3");
    wrong.index_bound = 4;
    wrong.index = memory;
    wrong.index_wrong = (uint64_t *)(void *)(memory + 4);
    WRONG_SRC(LEAT_ERROR_INVALID, "aligned");
    wrong.index_wrong = (uint64_t *)(void *)in;
    WRONG_SRC(LEAT_ERROR_INVALID, "index_wrong");
    wrong.index_wrong = NULL;
    wrong.index = memory + 4096 - 12;
    WRONG_SRC(LEAT_ERROR_RANGE, "indices");

    /* Freed memory must be refused. */
    OK(leat_memory_free(memory));
    REFUSED(leat_copy_layout(t->stream, memory, &good, pinned, &good), LEAT_ERROR_POINTER, "dst");
    OK(leat_memory_free(pinned));
}

/* Layout copies may wait, so they are refused inside host functions. */
static void call_in_host_function(void *argument)
{
    leat_layout one = {.element_bytes = 1};
    char bytes[2] = {0};

    *(leat_status *)argument = leat_copy_layout(NULL, bytes, &one, bytes + 1, &one);
}

static void host_functions_may_not_copy(void **state)
{
    struct test_state *t = *state;
    leat_status status = LEAT_OK;

    OK(leat_launch_host(t->stream, call_in_host_function, &status));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(status, LEAT_ERROR_NOT_PERMITTED);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        STATE_TEST(random_layouts_of_every_element_size),
        STATE_TEST(random_layouts_between_all_kinds),
        STATE_TEST(known_shapes),
        STATE_TEST(flipped_shapes),
        STATE_TEST(many_small_dimensions),
        STATE_TEST(parts_of_one_array),
        STATE_TEST(a_plan_copies),
        STATE_TEST(a_copy_is_explained_and_not_made),
        STATE_TEST(a_size_of_zero_does_nothing),
        STATE_TEST(one_element),
        STATE_TEST(wrong_layouts_are_refused),
        STATE_TEST(host_functions_may_not_copy),
    };

    if (!test_device_there())
        return 77;
    begin_random("test_layout");
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
