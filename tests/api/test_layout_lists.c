/*
 * test_layout_lists.c - tests leat_copy_layout() with index lists in all kinds of memory against a plain loop:
 * wrong indices, duplicates, and when leat reads the list. Also tests the order of layout copies within their
 * stream.
 *
 * The program prints its seed; TEST_SEED sets it. LAYOUT_MANY sets the number of random lists.
 */
#include "layout_arenas.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- random layouts ---- */

/* Copies the pair's list to memory of one kind and makes the layout use this list. Returns the layout. */
static leat_layout *put_list(leat_stream *stream, struct arenas *arenas, enum place place,
                             struct layouts_pair *given)
{
    leat_layout *listed = given->dst.index ? &given->dst : &given->src;

    OK(leat_copy_sync(stream, arenas->list[place], given->list, LIST_BYTES));
    listed->index = arenas->list[place];
    return listed;
}

static void random_lists_in_all_kinds_of_memory(void **state)
{
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, 16 * SMALL_BYTES + 4096);
    for (enum place place = 0; place < OTHER_DEVICE; place++) {
        for (unsigned i = 0; i < many && arenas.list[place]; i++) {
            enum place to = i % 3 ? DEVICE : (enum place)chance(PLACES), from = to;
            struct layouts_pair pair, given;

            if (i % 3 != 1)
                from = (enum place)chance(PLACES);
            if (!is_there(&arenas, to, from))
                continue;
            layouts_draw(&random_state, 1 + i % 16, SMALL_BYTES, i % 2 ? LAYOUTS_GATHER : LAYOUTS_SCATTER, &pair);
            given = pair;
            put_list(t->stream, &arenas, place, &given);
            /* The plain loop reads the original list in host memory, to which pair still points. */
            copy_pair(t->stream, &arenas, to, from, place, &pair, &given.dst, &given.src);
        }
    }
    end_arenas(&arenas);
}

/* ---- lists ---- */

/* The wrong indices are in device memory, so only the kernel can check them. */
static void wrong_indices_are_left_out_and_counted(void **state)
{
    static const enum place lists[] = {DEVICE, MANAGED}, counters[] = {PINNED, DEVICE, MANAGED};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, 16 * SMALL_BYTES + 4096);
    for (unsigned i = 0; i < many; i++) {
        enum place list = lists[i % 2], counter = counters[i % 3];
        struct layouts_pair pair, given;
        uint64_t wrong = 7, counted;
        leat_layout *listed;

        if (!arenas.list[list] || !arenas.wrong[counter])
            continue;
        layouts_draw(&random_state, 1 + i % 16, SMALL_BYTES, i % 2 ? LAYOUTS_GATHER : LAYOUTS_SCATTER, &pair);
        listed = pair.dst.index ? &pair.dst : &pair.src;
        for (int64_t n = 0; n < listed->size[listed->index_dim]; n++) {
            int64_t outside = chance(2) ? -1 - (int64_t)chance(1000) : listed->index_bound + (int64_t)chance(1000);

            if (chance(4))
                continue;
            if (listed->index_bytes == 4)
                ((int32_t *)pair.list)[n] = (int32_t)outside;
            else
                pair.list[n] = chance(4) ? (uint64_t)outside : (uint64_t)1 << 63;
        }
        given = pair;
        listed = put_list(t->stream, &arenas, list, &given);
        if (i % 5)
            listed->index_wrong = arenas.wrong[counter];
        OK(leat_copy_sync(t->stream, arenas.wrong[counter], &wrong, sizeof wrong));
        copy_pair(t->stream, &arenas, DEVICE, DEVICE, list, &pair, &given.dst, &given.src);
        OK(leat_copy_sync(t->stream, &counted, arenas.wrong[counter], sizeof counted));
        layouts_measure(&pair);
        wrong = layouts_copy(&pair, arenas.wanted, arenas.in);
        if (counted != 7 + (i % 5 ? wrong : 0))
            complain(&pair, "the wrong indices are miscounted", DEVICE, DEVICE);
    }
    end_arenas(&arenas);
}

static void wrong_indices_of_host_lists_are_refused(void **state)
{
    struct test_state *t = *state;
    unsigned char *dst = test_alloc(t->device, LEAT_KIND_DEVICE, 4096);
    unsigned char *src = test_alloc(t->device, LEAT_KIND_DEVICE, 4096), out[256];
    int32_t *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 4 * sizeof *pinned);
    int32_t list[4] = {3, 0, 16, 1};
    int64_t longs[4] = {3, -1, (int64_t)1 << 40, 1};
    leat_layout rows, dense;

    OK(leat_fill(t->stream, dst, 0x33, 4096));
    OK(leat_layout_dense(&dense, 2, (int64_t[]){4, 64}, 1));
    OK(leat_layout_dense(&rows, 2, (int64_t[]){16, 64}, 1));
    OK(leat_layout_index(&rows, 0, list, 4, 4, NULL));
    REFUSED(leat_copy_layout(t->stream, dst, &dense, src, &rows), LEAT_ERROR_RANGE, "16");
    REFUSED(leat_copy_layout(t->stream, dst, &rows, src, &dense), LEAT_ERROR_RANGE, "16");
    memcpy(pinned, list, sizeof list);
    rows.index = pinned;
    REFUSED(leat_copy_layout(t->stream, dst, &dense, src, &rows), LEAT_ERROR_RANGE, "16");
    rows.index = longs;
    rows.index_bytes = 8;
    REFUSED(leat_copy_layout(t->stream, dst, &dense, src, &rows), LEAT_ERROR_RANGE, "-1");
    OK(leat_copy_sync(t->stream, out, dst, sizeof out));
    EXPECT_BYTES(out, sizeof out, 0x33);
    OK(leat_memory_free(dst));
    OK(leat_memory_free(src));
    OK(leat_memory_free(pinned));
}

enum { FEW = 4, FEW_BYTES = 400, FEW_PITCH = 512 };

/* Gathers rows by a list in device memory. A row whose index is wrong must keep its bytes, or become zeros; the
 * bytes between rows must not change. */
static void gather_few(struct test_state *t, unsigned char *dst, int64_t pitch, const unsigned char *src,
                       int64_t bound, const int32_t *list, const int32_t *indices, enum place place)
{
    unsigned char seen[FEW * FEW_PITCH], row[FEW_BYTES];
    leat_layout to, from;

    memset(seen, 0x77, sizeof seen);
    OK(leat_copy_sync(t->stream, dst, seen, sizeof seen));
    OK(leat_copy_sync(t->stream, (void *)list, indices, FEW * sizeof *indices));
    OK(leat_layout_dense(&to, 2, (int64_t[]){FEW, FEW_BYTES}, 1));
    to.stride_bytes[0] = pitch;
    OK(leat_layout_dense(&from, 2, (int64_t[]){bound, FEW_BYTES}, 1));
    OK(leat_layout_index(&from, 0, list, FEW, sizeof *list, NULL));
    OK(leat_copy_layout(t->stream, dst, &to, src, &from));
    OK(leat_copy(t->stream, seen, dst, sizeof seen));
    OK(leat_stream_synchronize(t->stream));
    for (int i = 0; i < FEW; i++) {
        unsigned char *at = seen + i * pitch;

        if (indices[i] >= 0 && indices[i] < bound)
            memset(row, 0x10 + indices[i], sizeof row);
        else
            memset(row, (place == PAGEABLE || place == OTHER_DEVICE) && !*at ? 0 : 0x77, sizeof row);
        if (memcmp(at, row, sizeof row) != 0)
            fail_msg("to %s: row %d, by index %d, begins with %02x and not %02x", place_names[place], i,
                     indices[i], *at, row[0]);
        memset(at, 0x77, sizeof row);
    }
    EXPECT_BYTES(seen, sizeof seen, 0x77);
}

/* Rows with wrong indices must not receive bytes of other memory. Tests every kind of destination, and source
 * arrays without elements. */
static void wrong_indices_show_nothing_of_others(void **state)
{
    static const int32_t right[FEW] = {3, 2, 1, 0}, wrong[FEW] = {2, 9, 1, -3};
    struct test_state *t = *state;
    unsigned char *src = test_alloc(t->device, LEAT_KIND_DEVICE, FEW * FEW_BYTES);
    int32_t *list = test_alloc(t->device, LEAT_KIND_DEVICE, sizeof right);
    struct arenas arenas;
    leat_layout to, from;

    make_arenas(t, &arenas, FEW * FEW_PITCH);
    for (int i = 0; i < FEW; i++)
        OK(leat_fill(t->stream, src + i * FEW_BYTES, (uint8_t)(0x10 + i), FEW_BYTES));
    for (enum place place = 0; place < PLACES; place++) {
        unsigned char *dst = arenas.arena[0][place];

        for (int64_t pitch = FEW_BYTES; dst && pitch <= FEW_PITCH; pitch += FEW_PITCH - FEW_BYTES) {
            if (place == OTHER_DEVICE && pitch == FEW_PITCH)
                continue; /* a GPU refuses such a copy */
            gather_few(t, dst, pitch, src, FEW, list, right, place);
            gather_few(t, dst, pitch, src, FEW, list, wrong, place);
            gather_few(t, dst, pitch, src, 0, list, right, place);
        }
    }
    OK(leat_layout_dense(&to, 2, (int64_t[]){FEW, FEW_BYTES}, 1));
    OK(leat_layout_dense(&from, 2, (int64_t[]){0, FEW_BYTES}, 1));
    OK(leat_layout_index(&from, 0, right, FEW, sizeof *right, NULL));
    REFUSED(leat_copy_layout(t->stream, arenas.arena[0][DEVICE], &to, src, &from), LEAT_ERROR_RANGE,
            "has no elements");
    end_arenas(&arenas);
    OK(leat_memory_free(src));
    OK(leat_memory_free(list));
}

/* Checks dst[row][i] = src[row][list[i]], or with scatter dst[row][list[i]] = src[row][i]. */
static void expect_picked(struct test_state *t, size_t element_bytes, int64_t rows, int32_t count, bool scatter,
                          leat_kind kind)
{
    size_t bytes = (size_t)rows * (size_t)count * element_bytes;
    unsigned char *in = test_buffer(bytes), *out = test_buffer(bytes), *device = NULL;
    int32_t *list = test_buffer((size_t)count * sizeof *list);
    leat_layout plain, listed;

    test_pattern(in, bytes, 9);
    memset(out, 0, bytes);
    /* The list is a permutation, because 7919 and count have no common factor. */
    for (int32_t i = 0; i < count; i++)
        list[i] = (int32_t)((int64_t)i * 7919 % count);
    OK(leat_layout_dense(&plain, 2, (int64_t[]){rows, count}, (uint32_t)element_bytes));
    listed = plain;
    OK(leat_layout_index(&listed, 1, list, count, sizeof *list, NULL));
    if (kind == LEAT_KIND_PAGEABLE) {
        OK(leat_copy_layout(t->stream, out, scatter ? &listed : &plain, in, scatter ? &plain : &listed));
        OK(leat_stream_synchronize(t->stream));
    } else {
        device = test_alloc(t->device, kind, bytes);
        OK(leat_copy_layout(t->stream, device, scatter ? &listed : &plain, in, scatter ? &plain : &listed));
        OK(leat_copy_sync(t->stream, out, device, bytes));
    }
    for (size_t row = 0; row < (size_t)rows; row++) {
        const unsigned char *from = in + row * (size_t)count * element_bytes;
        const unsigned char *to = out + row * (size_t)count * element_bytes;

        for (size_t i = 0; i < (size_t)count; i++) {
            size_t s = scatter ? i : (size_t)list[i], d = scatter ? (size_t)list[i] : i;

            if (memcmp(to + d * element_bytes, from + s * element_bytes, element_bytes) != 0)
                fail_msg("elements of %zu bytes, row %zu: entry %zu of %d is wrong", element_bytes, row, i, count);
        }
    }
    OK(leat_memory_free(device));
    free(in);
    free(out);
    free(list);
}

/* The list is on the inner dimension, so each index moves one element. The lists are longer than the number of
 * elements that a CPU kernel handles at once, and no multiple of it. */
static void long_lists_of_single_elements(void **state)
{
    static const size_t element_bytes[] = {1, 2, 4, 8, 16};
    struct test_state *t = *state;

    for (int i = 0; i < 5; i++)
        for (int64_t rows = 1; rows <= 3; rows += 2)
            for (int scatter = 0; scatter < 2; scatter++) {
                expect_picked(t, element_bytes[i], rows, 5003, scatter, LEAT_KIND_PAGEABLE);
                expect_picked(t, element_bytes[i], rows, 5003, scatter, LEAT_KIND_DEVICE);
            }
    expect_picked(t, 4, 1, 200003, false, LEAT_KIND_PAGEABLE);
    expect_picked(t, 4, 1, 200003, false, LEAT_KIND_DEVICE);
}

#if !defined(__SANITIZE_THREAD__)

/* If several elements are scattered to one place, any of them may win, but it must arrive whole. */
static void scattered_to_the_same_place(void **state)
{
    enum { ROWS = 64, ELEMENTS = 50 };
    struct test_state *t = *state;
    uint64_t *src = test_alloc(t->device, LEAT_KIND_DEVICE, ROWS * ELEMENTS * 8), in[ROWS][ELEMENTS],
             out[ELEMENTS];
    uint64_t *dst = test_alloc(t->device, LEAT_KIND_DEVICE, 2 * ELEMENTS * 8);
    leat_layout to, from;
    int32_t list[ROWS];

    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < ELEMENTS; x++)
            in[y][x] = (uint64_t)(y * 1000 + x);
    memset(list, 0, sizeof list);
    OK(leat_copy(t->stream, src, in, sizeof in));
    OK(leat_layout_dense(&to, 2, (int64_t[]){2, ELEMENTS}, 8));
    OK(leat_layout_index(&to, 0, list, ROWS, 4, NULL));
    OK(leat_layout_dense(&from, 2, (int64_t[]){ROWS, ELEMENTS}, 8));
    OK(leat_copy_layout(t->stream, dst, &to, src, &from));
    OK(leat_copy_sync(t->stream, out, dst, sizeof out));
    for (uint64_t x = 0; x < ELEMENTS; x++)
        assert_true(out[x] % 1000 == x && out[x] / 1000 < ROWS);
    OK(leat_memory_free(src));
    OK(leat_memory_free(dst));
}

#endif

/* ---- stream order ---- */

struct writing {
    void *dst;
    const void *src;
    size_t bytes;
};

static void write_bytes(void *argument)
{
    const struct writing *writing = argument;

    memcpy(writing->dst, writing->src, writing->bytes);
}

/* Behind a gate, a host function writes a matrix, which is then copied to the device, to a second place and back.
 * The caller may change layouts and host lists as soon as a call has returned. */
static void layouts_keep_their_place(void **state)
{
    enum { ROWS = 700, COLUMNS = 500, BYTES = ROWS * COLUMNS * 4 };
    struct test_state *t = *state;
    uint32_t *written = test_buffer(BYTES), *source = test_buffer(BYTES), *target = test_buffer(BYTES);
    uint32_t *first = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    uint32_t *second = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    struct writing writing = {source, written, BYTES};
    leat_layout dense, turned, listed;
    struct test_gate *gate;
    leat_module *module;
    int64_t list[ROWS];

    for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
        written[i] = i;
    memset(source, 0, BYTES);
    memset(target, 0x77, BYTES);
    OK(leat_fill(t->stream, first, 0, BYTES));
    OK(leat_fill(t->stream, second, 0, BYTES));
    /* Load the kernels now: loading them could wait for the closed gate. */
    OK(leat_module_layout(t->device, &module));
    OK(leat_layout_dense(&turned, 2, (int64_t[]){COLUMNS, ROWS}, 4));
    OK(leat_layout_transpose(&turned, 0, 1));
    OK(leat_layout_dense(&dense, 2, (int64_t[]){ROWS, COLUMNS}, 4));
    OK(leat_copy_layout(t->stream, second, &turned, first, &dense));
    OK(leat_stream_synchronize(t->stream));
    gate = test_gate_close(t->stream);
    OK(leat_launch_host(t->stream, write_bytes, &writing));
    /* first becomes the transpose of source; second the transpose of first, with its rows reversed by a list. */
    OK(leat_copy_layout(t->stream, first, &turned, source, &dense));
    listed = dense;
    for (int64_t i = 0; i < ROWS; i++)
        list[i] = ROWS - 1 - i;
    OK(leat_layout_index(&listed, 0, list, ROWS, 8, NULL));
    OK(leat_copy_layout(t->stream, second, &listed, first, &turned));
    memset(list, 0xff, sizeof list);
    memset(&listed, 0, sizeof listed);
    memset(&turned, 0, sizeof turned);
    OK(leat_copy_layout(t->stream, target, &dense, second, &dense));
    memset(&dense, 0, sizeof dense);
    EXPECT_HELD(t->stream, gate);
    EXPECT_BYTES(target, BYTES, 0x77);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    for (uint32_t y = 0; y < ROWS; y++)
        for (uint32_t x = 0; x < COLUMNS; x++)
            assert_int_equal(target[y * COLUMNS + x], (ROWS - 1 - y) * COLUMNS + x);
    OK(leat_memory_free(first));
    OK(leat_memory_free(second));
    free(written);
    free(source);
    free(target);
}

/* Earlier work of the stream writes the list in device memory. */
static void device_lists_are_read_in_order(void **state)
{
    enum { ROWS = 300, BYTES = 256 };
    struct test_state *t = *state;
    unsigned char *src = test_alloc(t->device, LEAT_KIND_DEVICE, ROWS * BYTES);
    unsigned char *dst = test_alloc(t->device, LEAT_KIND_DEVICE, ROWS * BYTES);
    unsigned char *in = test_buffer(ROWS * BYTES), *out = test_buffer(ROWS * BYTES);
    uint32_t *list = test_alloc(t->device, LEAT_KIND_DEVICE, ROWS * sizeof *list);
    uint32_t *host_list = test_alloc(t->device, LEAT_KIND_PINNED, ROWS * sizeof *list);
    leat_layout dense, rows;
    struct test_gate *gate;

    test_pattern(in, ROWS * BYTES, 5);
    OK(leat_copy(t->stream, src, in, ROWS * BYTES));
    OK(leat_fill(t->stream, list, 0xff, ROWS * sizeof *list));
    for (uint32_t i = 0; i < ROWS; i++)
        host_list[i] = i * 7 % ROWS;
    OK(leat_layout_dense(&dense, 2, (int64_t[]){ROWS, BYTES}, 1));
    rows = dense;
    OK(leat_layout_index(&rows, 0, list, ROWS, 4, NULL));
    OK(leat_copy_layout(t->stream, dst, &dense, src, &rows));
    OK(leat_stream_synchronize(t->stream));
    gate = test_gate_close(t->stream);
    OK(leat_copy(t->stream, list, host_list, ROWS * sizeof *list));
    OK(leat_copy_layout(t->stream, dst, &dense, src, &rows));
    /* Later work of the stream overwrites the list, which must not affect the copy. */
    OK(leat_fill(t->stream, list, 0xff, ROWS * sizeof *list));
    test_gate_open(gate);
    OK(leat_copy_sync(t->stream, out, dst, ROWS * BYTES));
    for (uint32_t i = 0; i < ROWS; i++)
        assert_memory_equal(out + i * BYTES, in + host_list[i] * BYTES, BYTES);
    OK(leat_memory_free(src));
    OK(leat_memory_free(dst));
    OK(leat_memory_free(list));
    OK(leat_memory_free(host_list));
    free(in);
    free(out);
}

struct turning {
    leat_device *device;
    uint64_t random;
    bool good;
};

/* One thread transposes matrices of random sizes on its own stream, while other threads do the same. */
static void *turn_matrices(void *argument)
{
    struct turning *turning = argument;
    leat_stream *stream;
    uint32_t *memory, *host = malloc(2 * 100 * 100 * 4);

    turning->good =
        host && leat_stream_create(turning->device, &stream) == LEAT_OK &&
        leat_memory_alloc(turning->device, LEAT_KIND_DEVICE, 2 * 100 * 100 * 4, (void **)&memory) == LEAT_OK;
    for (int i = 0; turning->good && i < 60; i++) {
        int64_t rows = 1 + (int64_t)layouts_random(&turning->random, 100);
        int64_t columns = 1 + (int64_t)layouts_random(&turning->random, 100);
        leat_layout dense, turned;

        for (uint32_t n = 0; n < rows * columns; n++)
            host[n] = n + (uint32_t)i;
        turning->good =
            leat_layout_dense(&dense, 2, (int64_t[]){columns, rows}, 4) == LEAT_OK &&
            leat_layout_dense(&turned, 2, (int64_t[]){rows, columns}, 4) == LEAT_OK &&
            leat_layout_transpose(&turned, 0, 1) == LEAT_OK &&
            leat_copy(stream, memory, host, (size_t)(rows * columns) * 4) == LEAT_OK &&
            leat_copy_layout(stream, memory + 10000, &dense, memory, &turned) == LEAT_OK &&
            leat_copy_sync(stream, host + 10000, memory + 10000, (size_t)(rows * columns) * 4) == LEAT_OK;
        for (int64_t y = 0; y < rows; y++)
            for (int64_t x = 0; x < columns; x++)
                turning->good &= host[10000 + x * rows + y] == (uint32_t)(y * columns + x + i);
    }
    if (turning->good)
        turning->good = leat_memory_free(memory) == LEAT_OK && leat_stream_destroy(stream) == LEAT_OK;
    free(host);
    return NULL;
}

static void threads_copy_at_the_same_time(void **state)
{
    enum { THREADS = 4 };
    struct test_state *t = *state;
    struct turning turnings[THREADS];
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        turnings[i] = (struct turning){t->device, chance(1 << 30) + 1, false};
        assert_int_equal(pthread_create(&threads[i], NULL, turn_matrices, &turnings[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(turnings[i].good);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        STATE_TEST(random_lists_in_all_kinds_of_memory),
        STATE_TEST(wrong_indices_are_left_out_and_counted),
        STATE_TEST(wrong_indices_of_host_lists_are_refused),
        STATE_TEST(wrong_indices_show_nothing_of_others),
        STATE_TEST(long_lists_of_single_elements),
#if !defined(__SANITIZE_THREAD__)
        STATE_TEST(scattered_to_the_same_place),
#endif
        STATE_TEST(layouts_keep_their_place),
        STATE_TEST(device_lists_are_read_in_order),
        STATE_TEST(threads_copy_at_the_same_time),
    };

    if (!test_device_there())
        return 77;
    begin_random("test_layout_lists");
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
