/*
 * test_layout.c - leat_copy_layout() against a plain loop: random layouts of every element size, between all kinds
 * of memory, with lists of indices in all kinds; what is refused; and its place in the order of the stream.
 *
 * The seed is printed and can be given as TEST_SEED, the number of random layouts of each sort as LAYOUT_MANY.
 */
#include "harness.h"
#include "layouts.h"
#include "seed.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_BYTES 64
#define SMALL_BYTES ((uint64_t)8 << 10)
#define LARGE_BYTES ((uint64_t)512 << 10)
#define ARENA_BYTES (16 * LARGE_BYTES + 4096)

enum place { PAGEABLE, PINNED, REGISTERED, DEVICE, MANAGED, OTHER_DEVICE, PLACES };

static const char *const place_names[] = {"pageable", "pinned",  "registered",
                                          "device",   "managed", "the other device"};

static uint64_t seed, random_state;
static unsigned many = 250;

static uint64_t chance(uint64_t below)
{
    return layouts_random(&random_state, below);
}

/* Two memories of each kind, lists of indices and counters, and what is needed to look at all that. */
struct arenas {
    leat_device *device, *other;
    size_t bytes;
    unsigned char *arena[2][PLACES]; /* NULL where there is none */
    uint64_t *list[PLACES], *wrong[PLACES];
    unsigned char *in, *wanted, *seen;
};

#define LIST_BYTES ((size_t)256 * 8)

static void *place_memory(const struct arenas *arenas, enum place place, size_t bytes)
{
    void *ptr = NULL;

    switch (place) {
    case PAGEABLE:
        return test_buffer(bytes);
    case REGISTERED:
        ptr = test_buffer(bytes);
        OK(leat_register(arenas->device, ptr, bytes));
        return ptr;
    case OTHER_DEVICE:
        return arenas->other ? test_alloc(arenas->other, LEAT_KIND_DEVICE, bytes) : NULL;
    case MANAGED:
        return leat_memory_alloc(arenas->device, LEAT_KIND_MANAGED, bytes, &ptr) == LEAT_OK ? ptr : NULL;
    default:
        return test_alloc(arenas->device, place == PINNED ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE, bytes);
    }
}

static void free_place(enum place place, void *ptr)
{
    if (place == REGISTERED)
        OK(leat_unregister(ptr));
    if (place == PAGEABLE || place == REGISTERED)
        free(ptr);
    else
        OK(leat_memory_free(ptr));
}

static void make_arenas(struct test_state *t, struct arenas *arenas, size_t bytes)
{
    arenas->device = t->device;
    arenas->other = test_open_other();
    arenas->bytes = bytes;
    for (enum place place = 0; place < PLACES; place++) {
        arenas->arena[0][place] = place_memory(arenas, place, bytes);
        arenas->arena[1][place] = place_memory(arenas, place, bytes);
        arenas->list[place] = place_memory(arenas, place, LIST_BYTES);
        arenas->wrong[place] = place_memory(arenas, place, sizeof(uint64_t));
    }
    arenas->in = test_buffer(bytes);
    arenas->wanted = test_buffer(bytes);
    arenas->seen = test_buffer(bytes);
    test_pattern(arenas->in, bytes, 1);
}

static void end_arenas(struct arenas *arenas)
{
    for (enum place place = 0; place < PLACES; place++) {
        free_place(place, arenas->arena[0][place]);
        free_place(place, arenas->arena[1][place]);
        free_place(place, arenas->list[place]);
        free_place(place, arenas->wrong[place]);
    }
    OK(leat_device_close(arenas->other));
    free(arenas->in);
    free(arenas->wanted);
    free(arenas->seen);
}

/* ---- one copy, looked at from all sides ---- */

static void complain(const struct layouts_pair *pair, const char *what, enum place to, enum place from)
{
    char dst[1024], src[1024];

    layouts_print(&pair->dst, dst, sizeof dst);
    layouts_print(&pair->src, src, sizeof src);
    fail_msg("seed %llu, %s to %s: %s; dst has %s; src has %s", (unsigned long long)seed, place_names[from],
             place_names[to], what, dst, src);
}

static void expect_same(const struct arenas *arenas, const unsigned char *wanted, size_t bytes,
                        const struct layouts_pair *pair, const char *side, enum place to, enum place from)
{
    char what[100];
    size_t i = 0;

    if (!memcmp(arenas->seen, wanted, bytes))
        return;
    while (arenas->seen[i] == wanted[i])
        i++;
    snprintf(what, sizeof what, "byte %zu of %s is %02x and not %02x", i - GUARD_BYTES, side, arenas->seen[i],
             wanted[i]);
    complain(pair, what, to, from);
}

/* A pointer for a side whose bytes begin at low from it: so far into the arena that all of it has a guard. */
static unsigned char *base_for(unsigned char *arena, int64_t low, size_t shift)
{
    return arena + GUARD_BYTES + shift + (low < 0 ? -low : 0);
}

static bool has_gaps(const struct layouts_pair *pair)
{
    return (uint64_t)(pair->dst_high - pair->dst_low) != pair->elements * pair->dst.element_bytes;
}

/* What leat/layout.h says that a GPU cannot do. The stream is of the device under test. */
static bool may_be_refused(enum place to, enum place from, enum place list, const struct layouts_pair *pair)
{
    bool on_device = list == DEVICE || list == MANAGED;

    if (to == OTHER_DEVICE)
        return from == OTHER_DEVICE || has_gaps(pair) || pair->dst.index;
    return to == PAGEABLE && on_device && (from == PAGEABLE || pair->dst.index);
}

/* list: where the list is, if there is one. */
static void copy_pair(leat_stream *stream, struct arenas *arenas, enum place to, enum place from, enum place list,
                      const struct layouts_pair *pair, const leat_layout *dst_layout,
                      const leat_layout *src_layout)
{
    unsigned char *dst = base_for(arenas->arena[0][to], pair->dst_low, chance(2) ? chance(32) : 0);
    unsigned char *src = base_for(arenas->arena[1][from], pair->src_low, chance(2) ? chance(32) : 0);
    size_t dst_window = (size_t)(pair->dst_high - pair->dst_low) + 2 * GUARD_BYTES;
    size_t src_window = (size_t)(pair->src_high - pair->src_low) + 2 * GUARD_BYTES;
    leat_status status;

    assert_true(dst_window + 200 <= arenas->bytes && src_window + 200 <= arenas->bytes);
    memset(arenas->wanted, 0xa5, dst_window);
    OK(leat_copy(stream, dst + pair->dst_low - GUARD_BYTES, arenas->wanted, dst_window));
    OK(leat_copy_sync(stream, src + pair->src_low - GUARD_BYTES, arenas->in, src_window));
    status = leat_copy_layout(stream, dst, dst_layout, src, src_layout);
    if (status == LEAT_ERROR_UNSUPPORTED && may_be_refused(to, from, list, pair)) {
        /* What was given so far uses the arenas, which may be freed next. */
        OK(leat_stream_synchronize(stream));
        return;
    }
    if (status != LEAT_OK)
        complain(pair, leat_last_error(), to, from);
    OK(leat_copy_sync(stream, arenas->seen, dst + pair->dst_low - GUARD_BYTES, dst_window));
    layouts_copy(pair, arenas->wanted + GUARD_BYTES, arenas->in + GUARD_BYTES);
    expect_same(arenas, arenas->wanted, dst_window, pair, "dst", to, from);
    OK(leat_copy_sync(stream, arenas->seen, src + pair->src_low - GUARD_BYTES, src_window));
    expect_same(arenas, arenas->in, src_window, pair, "src", to, from);
}

static bool is_there(const struct arenas *arenas, enum place to, enum place from)
{
    return arenas->arena[0][to] && arenas->arena[1][from];
}

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

/* The list of a pair, in memory of some kind. */
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
            /* The plain loop reads the list that the pair still has. */
            copy_pair(t->stream, &arenas, to, from, place, &pair, &given.dst, &given.src);
        }
    }
    end_arenas(&arenas);
}

/* ---- shapes that programs have ---- */

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

/* 24 dimensions of 2, in random orders. */
/* Turned by quarters and halves, and mirrored: every choice of dimensions that are flipped on the source. */
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

/* From one half of a matrix into the other: the same rows, and no byte in common. */
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

/* ---- lists ---- */

/* Indices that are out of bounds, in memory that only the device sees in time. */
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

/* Gathers rows by a list in device memory: a row whose index is wrong is as it was, or zeros, and what lies
 * between rows is as it was. */
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

/* Wherever the rows go, and from an array that has none too. */
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
                continue; /* refused on GPUs */
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

/* dst[row][i] = src[row][list[i]], or dst[row][list[i]] = src[row][i] when scattering. */
static void expect_picked(struct test_state *t, size_t element_bytes, int64_t rows, int32_t count, bool scatter,
                          leat_kind kind)
{
    size_t bytes = (size_t)rows * (size_t)count * element_bytes;
    unsigned char *in = test_buffer(bytes), *out = test_buffer(bytes), *device = NULL;
    int32_t *list = test_buffer((size_t)count * sizeof *list);
    leat_layout plain, listed;

    test_pattern(in, bytes, 9);
    memset(out, 0, bytes);
    /* A permutation: count has no factor in common with the step. */
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

/* Lists on the inner dimension, so that each entry is one element. They are longer than what kernels for
 * processors take at once, and no multiple of it. */
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

/* Of two rows that are scattered to the same place either one is there, whole elements of it at least. */
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

/* ---- order ---- */

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

/* In, over to another place and out again behind a gate, where a host function first writes the source. Layouts
 * and host lists may change as soon as the call is back. */
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
    /* The kernels are there before the gate is closed. */
    OK(leat_module_layout(t->device, &module));
    OK(leat_layout_dense(&turned, 2, (int64_t[]){COLUMNS, ROWS}, 4));
    OK(leat_layout_transpose(&turned, 0, 1));
    OK(leat_layout_dense(&dense, 2, (int64_t[]){ROWS, COLUMNS}, 4));
    OK(leat_copy_layout(t->stream, second, &turned, first, &dense));
    OK(leat_stream_synchronize(t->stream));
    gate = test_gate_close(t->stream);
    OK(leat_launch_host(t->stream, write_bytes, &writing));
    /* first becomes the transpose of source, second that of first again, with its rows backwards by a list. */
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

/* A list that earlier work of the stream writes. */
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
    /* What was listed is gone from the list when the copy is done. */
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

/* A thread with a stream of its own turns matrices of a few sizes, which other threads turn too. */
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

/* ---- plans ---- */

static void a_plan_copies(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 3 * 40000), *in = test_buffer(40000);
    unsigned char *out = test_buffer(40000);
    leat_layout dense, turned, empty;
    leat_layout_plan_info info;
    leat_layout_plan *plan, *again;
    char text[1000], cut[10];

    test_pattern(in, 40000, 9);
    OK(leat_copy(t->stream, memory, in, 40000));
    OK(leat_layout_dense(&turned, 2, (int64_t[]){100, 200}, 2));
    OK(leat_layout_transpose(&turned, 0, 1));
    OK(leat_layout_dense(&dense, 2, turned.size, 2));
    OK(leat_layout_plan_get(t->device, &dense, 256, &turned, 16, &plan));
    OK(leat_layout_plan_get(t->device, &dense, 16, &turned, 256, &again));
    OK(leat_layout_plan_describe(plan, &info));
    assert_int_equal(info.class_of_plan, LEAT_LAYOUT_TRANSPOSE);
    assert_int_equal(info.payload_bytes, 40000);
    assert_int_equal(info.read_sectors, 1250);
    assert_int_equal(info.written_sectors, 1250);
    OK(leat_layout_plan_text(plan, text, sizeof text));
    assert_non_null(strstr(text, "transpose"));
    assert_non_null(strstr(text, "1250 sectors"));
    OK(leat_layout_plan_text(plan, cut, sizeof cut));
    assert_int_equal(strlen(cut), sizeof cut - 1);
    /* There and back again. */
    OK(leat_layout_plan_copy(t->stream, plan, memory + 40000, memory));
    OK(leat_layout_plan_free(again));
    OK(leat_layout_plan_free(plan));
    OK(leat_layout_plan_get(t->device, &turned, 16, &dense, 16, &plan));
    OK(leat_layout_plan_copy(t->stream, plan, memory + 80000, memory + 40000));
    OK(leat_copy_sync(t->stream, out, memory + 80000, 40000));
    assert_memory_equal(in, out, 40000);
    REFUSED(leat_layout_plan_copy(t->stream, plan, memory + 8, memory + 40000), LEAT_ERROR_INVALID,
            "multiples of 16");
    REFUSED(leat_layout_plan_copy(t->stream, plan, memory, memory + 40002), LEAT_ERROR_INVALID, "multiples of 16");
    REFUSED(leat_layout_plan_copy(NULL, plan, memory, memory + 40000), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_layout_plan_describe(plan, NULL), LEAT_ERROR_INVALID, "info");
    REFUSED(leat_layout_plan_text(plan, NULL, 10), LEAT_ERROR_INVALID, "text");
    REFUSED(leat_layout_plan_text(plan, text, 0), LEAT_ERROR_INVALID, "text_bytes");
    OK(leat_layout_plan_free(plan));
    OK(leat_layout_plan_free(NULL));
    REFUSED(leat_layout_plan_copy(t->stream, NULL, memory, memory + 40000), LEAT_ERROR_HANDLE, "plan");
    REFUSED(leat_layout_plan_describe(NULL, &info), LEAT_ERROR_HANDLE, "plan");
    REFUSED(leat_layout_plan_text(NULL, text, sizeof text), LEAT_ERROR_HANDLE, "plan");
    REFUSED(leat_layout_plan_get(NULL, &dense, 1, &turned, 1, &plan), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_layout_plan_get(t->device, NULL, 1, &turned, 1, &plan), LEAT_ERROR_INVALID, "dst_layout");
    REFUSED(leat_layout_plan_get(t->device, &dense, 1, NULL, 1, &plan), LEAT_ERROR_INVALID, "src_layout");
    REFUSED(leat_layout_plan_get(t->device, &dense, 1, &turned, 1, NULL), LEAT_ERROR_INVALID, "plan");
    REFUSED(leat_layout_plan_get(t->device, &dense, 3, &turned, 1, &plan), LEAT_ERROR_INVALID, "align");
    REFUSED(leat_layout_plan_get(t->device, &dense, 1, &turned, 0, &plan), LEAT_ERROR_INVALID, "align");
    /* Nothing is a plan too. */
    OK(leat_layout_dense(&empty, 2, (int64_t[]){0, 5}, 2));
    OK(leat_layout_plan_get(t->device, &empty, 1, &empty, 1, &plan));
    OK(leat_layout_plan_copy(t->stream, plan, NULL, NULL));
    OK(leat_layout_plan_describe(plan, &info));
    assert_int_equal(info.class_of_plan, LEAT_LAYOUT_NOTHING);
    OK(leat_layout_plan_free(plan));
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

/* ---- what does nothing, and what is refused ---- */

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

/* No dimension: one element, of any size, anywhere. */
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

    /* What is no layout. */
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

    /* Two that do not belong together. */
    wrong = good;
    wrong.dims = 1;
    WRONG_SRC(LEAT_ERROR_INVALID, "dimensions");
    wrong = good;
    wrong.element_bytes = 8;
    WRONG_DST(LEAT_ERROR_INVALID, "bytes");
    wrong = good;
    wrong.size[0] = 3;
    WRONG_SRC(LEAT_ERROR_INVALID, "size[0]");

    /* What is written twice: by no stride, by a pitch that is less than a row, by strides that meet. */
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

    /* Too far, too much. */
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

    /* Written and read. */
    REFUSED(leat_copy_layout(t->stream, memory, &good, memory, &good), LEAT_ERROR_OVERLAP, "dst");
    REFUSED(leat_copy_layout(t->stream, memory + 1, &good, memory, &good), LEAT_ERROR_OVERLAP, "dst");
    OK(leat_layout_dense(&other, 2, (int64_t[]){8, 4}, 4));
    OK(leat_layout_transpose(&other, 0, 1));
    REFUSED(leat_copy_layout(t->stream, memory, &good, memory, &other), LEAT_ERROR_OVERLAP, "dst");
    REFUSED(leat_copy_layout(t->stream, in, &good, in + 64, &other), LEAT_ERROR_OVERLAP, "dst");

    /* Lists. */
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

    /* Memory that is gone. */
    OK(leat_memory_free(memory));
    REFUSED(leat_copy_layout(t->stream, memory, &good, pinned, &good), LEAT_ERROR_POINTER, "dst");
    OK(leat_memory_free(pinned));
}

/* In a host function no call may wait. */
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
        STATE_TEST(random_lists_in_all_kinds_of_memory),
        STATE_TEST(known_shapes),
        STATE_TEST(flipped_shapes),
        STATE_TEST(many_small_dimensions),
        STATE_TEST(parts_of_one_array),
        STATE_TEST(wrong_indices_are_left_out_and_counted),
        STATE_TEST(wrong_indices_of_host_lists_are_refused),
        STATE_TEST(wrong_indices_show_nothing_of_others),
        STATE_TEST(long_lists_of_single_elements),
/* Two threads write one place, which is what that test is about, and what this sanitizer complains of. */
#if !defined(__SANITIZE_THREAD__)
        STATE_TEST(scattered_to_the_same_place),
#endif
        STATE_TEST(layouts_keep_their_place),
        STATE_TEST(device_lists_are_read_in_order),
        STATE_TEST(threads_copy_at_the_same_time),
        STATE_TEST(a_plan_copies),
        STATE_TEST(a_copy_is_explained_and_not_made),
        STATE_TEST(a_size_of_zero_does_nothing),
        STATE_TEST(one_element),
        STATE_TEST(wrong_layouts_are_refused),
        STATE_TEST(host_functions_may_not_copy),
    };
    const char *given_many = getenv("LAYOUT_MANY");

    if (!test_device_there())
        return 77;
    seed = test_seed();
    if (given_many)
        many = (unsigned)strtoul(given_many, NULL, 0);
    random_state = seed * 2 + 1;
    printf("test_layout: TEST_SEED=%llu\n", (unsigned long long)seed);
    fflush(stdout);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
