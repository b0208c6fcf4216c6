/*
 * test_copy_3d.c - tests 3-D copies between all kinds of memory against a plain loop, regions that leat must
 * refuse, and stream order.
 *
 * On the CPU device the kernels access pageable memory directly unless LEAT_COPY_STAGE=1 stages it as on a GPU.
 * "make check" runs this program both ways.
 */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARD_BYTES 64
#define MIB ((size_t)1 << 20)

enum place { PAGEABLE, PINNED, REGISTERED, DEVICE, MANAGED, OTHER_DEVICE, PLACES };

/* Two arenas in memory of each kind, and host buffers to compare with. */
struct arenas {
    leat_device *other;
    size_t bytes;
    unsigned char *arena[2][PLACES]; /* NULL if the kind is unavailable */
    unsigned char *in, *wanted, *seen;
};

static void *managed_or_null(leat_device *device, size_t bytes)
{
    void *ptr = NULL;

    return leat_memory_alloc(device, LEAT_KIND_MANAGED, bytes, &ptr) == LEAT_OK ? ptr : NULL;
}

static void make_arenas(struct test_state *t, struct arenas *arenas, size_t bytes)
{
    arenas->other = test_open_other();
    arenas->bytes = bytes;
    for (int i = 0; i < 2; i++) {
        unsigned char **arena = arenas->arena[i];

        arena[PAGEABLE] = test_buffer(bytes);
        arena[PINNED] = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
        arena[REGISTERED] = test_buffer(bytes);
        OK(leat_register(t->device, arena[REGISTERED], bytes));
        arena[DEVICE] = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
        arena[MANAGED] = managed_or_null(t->device, bytes);
        arena[OTHER_DEVICE] = arenas->other ? test_alloc(arenas->other, LEAT_KIND_DEVICE, bytes) : NULL;
    }
    arenas->in = test_buffer(bytes);
    arenas->wanted = test_buffer(bytes);
    arenas->seen = test_buffer(bytes);
    test_pattern(arenas->in, bytes, 1);
}

static void end_arenas(struct arenas *arenas)
{
    for (int i = 0; i < 2; i++) {
        unsigned char **arena = arenas->arena[i];

        free(arena[PAGEABLE]);
        OK(leat_memory_free(arena[PINNED]));
        OK(leat_unregister(arena[REGISTERED]));
        free(arena[REGISTERED]);
        OK(leat_memory_free(arena[DEVICE]));
        OK(leat_memory_free(arena[MANAGED]));
        OK(leat_memory_free(arena[OTHER_DEVICE]));
    }
    OK(leat_device_close(arenas->other));
    free(arenas->in);
    free(arenas->wanted);
    free(arenas->seen);
}

/* The reference: copies the region with memcpy() row by row. */
static void copy_plainly(unsigned char *dst, const unsigned char *src, const leat_copy_region *region)
{
    for (size_t z = 0; z < region->depth; z++)
        for (size_t y = 0; y < region->height; y++)
            memcpy(dst + z * region->dst_slice_bytes + y * region->dst_pitch_bytes,
                   src + z * region->src_slice_bytes + y * region->src_pitch_bytes, region->width_bytes);
}

static size_t reach(const leat_copy_region *region, size_t pitch, size_t slice)
{
    return (region->depth > 1 ? (region->depth - 1) * slice : 0) + (region->height - 1) * pitch +
           region->width_bytes;
}

static size_t dst_reach(const leat_copy_region *region)
{
    return reach(region, region->dst_pitch_bytes, region->dst_slice_bytes);
}

static size_t src_reach(const leat_copy_region *region)
{
    return reach(region, region->src_pitch_bytes, region->src_slice_bytes);
}

static void expect_same(const unsigned char *seen, const unsigned char *wanted, size_t bytes, const char *what,
                        const leat_copy_region *region)
{
    size_t i;

    if (!memcmp(seen, wanted, bytes))
        return;
    for (i = 0; seen[i] == wanted[i]; i++)
        continue;
    fail_msg("%s, %zu x %zu x %zu, pitches %zu and %zu, slices %zu and %zu: byte %zu of dst is %02x and not %02x",
             what, region->width_bytes, region->height, region->depth, region->dst_pitch_bytes,
             region->src_pitch_bytes, region->dst_slice_bytes, region->src_slice_bytes, (size_t)(i - GUARD_BYTES),
             seen[i], wanted[i]);
}

/* Copies a region and compares the whole destination with the reference, including the bytes around the rows. */
static void copy_once(leat_stream *stream, struct arenas *arenas, enum place to, enum place from,
                      const leat_copy_region *region, size_t dst_offset, size_t src_offset)
{
    static const char *const names[] = {"pageable", "pinned",  "registered",
                                        "device",   "managed", "the other device"};
    unsigned char *dst = arenas->arena[0][to] + GUARD_BYTES + dst_offset;
    unsigned char *src = arenas->arena[1][from] + src_offset;
    size_t window = dst_reach(region) + 2 * GUARD_BYTES;
    char what[80];

    assert_true(window + dst_offset <= arenas->bytes && src_reach(region) + src_offset <= arenas->bytes);
    memset(arenas->wanted, 0xa5, window);
    OK(leat_copy(stream, dst - GUARD_BYTES, arenas->wanted, window));
    OK(leat_copy(stream, src, arenas->in, src_reach(region)));
    OK(leat_copy_3d(stream, dst, src, region));
    OK(leat_copy_sync(stream, arenas->seen, dst - GUARD_BYTES, window));
    copy_plainly(arenas->wanted + GUARD_BYTES, arenas->in, region);
    snprintf(what, sizeof what, "%s to %s", names[from], names[to]);
    expect_same(arenas->seen, arenas->wanted, window, what, region);
}

static const size_t widths[] = {1, 2, 3, 4, 7, 8, 16, 17, 31, 32, 33, 64, 255, 1000, 4096, 4097};

/* Returns a row pitch: the width (dense), some odd pitches, or a multiple of 16. */
static size_t some_pitch(size_t width, unsigned which)
{
    static const size_t more[] = {0, 1, 3, 5, 16, 333};

    return which % 6 == 4 ? (width + 31) / 16 * 16 : width + more[which % 6];
}

static leat_copy_region some_region(size_t width, size_t height, size_t depth, unsigned to, unsigned from)
{
    leat_copy_region region = {.width_bytes = width,
                               .height = height,
                               .depth = depth,
                               .dst_pitch_bytes = some_pitch(width, to),
                               .src_pitch_bytes = some_pitch(width, from)};

    /* Slices are adjacent, whole rows apart, or a few bytes apart. */
    region.dst_slice_bytes =
        height * region.dst_pitch_bytes + (to % 3 == 2 ? 2 * region.dst_pitch_bytes : to % 3 * 5);
    region.src_slice_bytes =
        height * region.src_pitch_bytes + (from % 3 == 2 ? region.src_pitch_bytes : from % 3 * 7);
    return region;
}

static void all_pairs_widths_and_pitches(void **state)
{
    struct test_state *t = *state;
    struct arenas arenas;
    unsigned which = 0;

    make_arenas(t, &arenas, MIB);
    for (enum place to = 0; to < PLACES; to++) {
        for (enum place from = 0; from < PLACES; from++) {
            if (!arenas.arena[0][to] || !arenas.arena[1][from])
                continue;
            for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
                for (unsigned pitches = 0; pitches < 6; pitches++, which++) {
                    size_t height = 1 + (which * 7) % 40, depth = 1 + which % 3;
                    leat_copy_region region =
                        some_region(widths[i], height, depth, pitches + which / 6, pitches * 5 + 1);

                    copy_once(t->stream, &arenas, to, from, &region, which % 3 * 5, which % 5 * 3);
                }
            }
        }
    }
    if (!arenas.other)
        print_message("           without pairs of devices: there is only one\n");
    end_arenas(&arenas);
}

static void many_narrow_rows(void **state)
{
    static const size_t narrow[] = {1, 3, 4, 7, 16, 60};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, 4 * MIB);
    for (enum place to = 0; to < PLACES; to++) {
        for (enum place from = 0; from < PLACES; from++) {
            if (!arenas.arena[0][to] || !arenas.arena[1][from])
                continue;
            for (size_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++) {
                leat_copy_region region = {.width_bytes = narrow[i],
                                     .height = 5000,
                                     .depth = 3,
                                     .dst_pitch_bytes = narrow[i] + (i + to) % 3,
                                     .src_pitch_bytes = narrow[i] + (i + from) % 7};

                region.dst_slice_bytes = region.height * region.dst_pitch_bytes + 11;
                region.src_slice_bytes = region.height * region.src_pitch_bytes + 100;
                copy_once(t->stream, &arenas, to, from, &region, 0, 1);
            }
        }
    }
    end_arenas(&arenas);
}

/* Copies regions that are larger than any staging ring of the tests. Their rows are short, long, or longer than a
 * ring. */
static void large_regions(void **state)
{
    static const leat_copy_region regions[] = {
        {4000, 6100, 1, 4096, 4003, 0, 0},
        {100, 100, 2000, 100, 113, 10100, 11300},
        {300000, 80, 1, 300016, 300001, 0, 0},
        {3 << 20, 7, 1, (3 << 20) + 1, (3 << 20) + 64, 0, 0},
        {1000, 1000, 23, 1000, 1016, 1000000, 1016000},
        {1000, 1000, 23, 1016, 1000, 1016000 + 77, 1000000},
        {65536, 3, 100, 65536, 65537, 3 * 65536, 4 * 65537},
    };
    static const enum place pairs[][2] = {{DEVICE, PAGEABLE}, {PAGEABLE, DEVICE}, {PAGEABLE, PAGEABLE},
                                          {DEVICE, PINNED},   {PINNED, PAGEABLE}, {PAGEABLE, PINNED},
                                          {DEVICE, DEVICE}};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, 32 * MIB);
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++)
        for (size_t j = 0; j < sizeof pairs / sizeof pairs[0]; j++)
            copy_once(t->stream, &arenas, pairs[j][0], pairs[j][1], &regions[i], 3, 0);
    end_arenas(&arenas);
}

static void a_stream_of_the_other_device_copies_too(void **state)
{
    struct test_state *t = *state;
    struct arenas arenas;
    leat_stream *stream;

    make_arenas(t, &arenas, MIB);
    if (!arenas.other) {
        end_arenas(&arenas);
        SKIP_OTHER("needs two devices of one driver");
    }
    OK(leat_stream_create(arenas.other, &stream));
    for (enum place to = 0; to < PLACES; to++) {
        for (enum place from = 0; from < PLACES; from++) {
            leat_copy_region region = some_region(to == DEVICE ? 60 : 1001, 100, 2, to, from);

            if (arenas.arena[0][to] && arenas.arena[1][from])
                copy_once(stream, &arenas, to, from, &region, 1, 2);
        }
    }
    end_arenas(&arenas);
}

/* ---- stream order ---- */

struct writing {
    unsigned char *dst;
    const unsigned char *src;
    size_t bytes;
};

static void write_bytes(void *argument)
{
    const struct writing *writing = argument;

    memcpy(writing->dst, writing->src, writing->bytes);
}

/* Behind a gate, a host function writes the source, then a region is copied into device memory and out again. */
static void regions_keep_their_place(void **state)
{
    static const leat_copy_region in = {1000, 3000, 1, 1100, 1003, 0, 0}, out = {1000, 3000, 1, 1001, 1100, 0, 0};
    struct test_state *t = *state;
    unsigned char *written = test_buffer(4 * MIB), *source = test_buffer(4 * MIB), *target = test_buffer(4 * MIB);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 4 * MIB);
    unsigned char *again = test_alloc(t->device, LEAT_KIND_PINNED, 4 * MIB);
    struct writing writing = {source, written, 4 * MIB};
    struct test_gate *gate;
    leat_module *module;

    /* Load the kernels now: loading them could wait for the closed gate. */
    OK(leat_module_layout(t->device, &module));
    test_pattern(written, 4 * MIB, 3);
    memset(source, 0, 4 * MIB);
    memset(target, 0x77, 4 * MIB);
    OK(leat_fill(t->stream, memory, 0, 4 * MIB));
    OK(leat_stream_synchronize(t->stream));
    gate = test_gate_close(t->stream);
    OK(leat_launch_host(t->stream, write_bytes, &writing));
    OK(leat_copy_3d(t->stream, memory, source, &in));
    OK(leat_copy_3d(t->stream, target, memory, &out));
    /* A later copy must read what the region copy has written. */
    OK(leat_copy(t->stream, again, target, dst_reach(&out)));
    EXPECT_HELD(t->stream, gate);
    EXPECT_BYTES(target, 4 * MIB, 0x77);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    for (size_t y = 0; y < in.height; y++) {
        assert_memory_equal(target + y * 1001, written + y * 1003, 1000);
        assert_true(y + 1 == in.height || target[y * 1001 + 1000] == 0x77);
    }
    assert_memory_equal(again, target, dst_reach(&out));
    OK(leat_memory_free(memory));
    OK(leat_memory_free(again));
    free(written);
    free(source);
    free(target);
}

/* Copies many short regions on a stream that a gate holds up. */
static void short_regions_on_a_held_stream(void **state)
{
    enum { COUNT = 200, ROWS = 20, WIDTH = 12, PITCH = 16, REGION = ROWS * PITCH };
    static const leat_copy_region in = {WIDTH, ROWS, 1, PITCH + 2, PITCH, 0, 0};
    static const leat_copy_region out = {WIDTH, ROWS, 1, PITCH, PITCH + 2, 0, 0};
    struct test_state *t = *state;
    unsigned char *source = test_buffer(COUNT * REGION), *target = test_buffer(COUNT * REGION);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, (size_t)COUNT * ROWS * (PITCH + 2));
    struct test_gate *gate;
    leat_module *module;

    /* Load the kernels now: loading them could wait for the closed gate. */
    OK(leat_module_layout(t->device, &module));
    test_pattern(source, COUNT * REGION, 4);
    memset(target, 0, COUNT * REGION);
    gate = test_gate_close(t->stream);
    for (size_t i = 0; i < COUNT; i++) {
        unsigned char *place = memory + i * ROWS * (PITCH + 2);

        OK(leat_copy_3d(t->stream, place, source + i * REGION, &in));
        OK(leat_copy_3d(t->stream, target + i * REGION, place, &out));
    }
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    for (size_t i = 0; i < COUNT * REGION; i++)
        assert_int_equal(target[i], i % PITCH < WIDTH ? source[i] : 0);
    OK(leat_memory_free(memory));
    free(source);
    free(target);
}

/* A thread that copies regions so short that it packs them itself. Several such threads use streams of one device,
 * and each may complete jobs that another thread has just submitted. */
struct packer {
    leat_device *device;
    unsigned seed;
    bool failed;
};

static void *pack_again_and_again(void *argument)
{
    enum { WIDTH = 100, HEIGHT = 40, PITCH = 160, TIMES = 2000 };
    const leat_copy_region region = {WIDTH, HEIGHT, 1, PITCH, PITCH, 0, 0};
    struct packer *packer = argument;
    unsigned char source[HEIGHT * PITCH], target[HEIGHT * PITCH];
    leat_stream *stream;
    void *memory;

    packer->failed = true;
    if (leat_stream_create(packer->device, &stream) || leat_alloc(stream, sizeof source, &memory))
        return NULL;
    test_pattern(source, sizeof source, packer->seed);
    for (int i = 0; i < TIMES; i++)
        if (leat_copy_3d(stream, memory, source, &region))
            return NULL;
    if (leat_copy_sync(stream, target, memory, sizeof target) || leat_free(stream, memory) ||
        leat_stream_destroy(stream))
        return NULL;
    packer->failed = false;
    for (size_t y = 0; y < HEIGHT; y++)
        packer->failed |= memcmp(target + y * PITCH, source + y * PITCH, WIDTH) != 0;
    return NULL;
}

static void threads_copy_short_regions(void **state)
{
    struct test_state *t = *state;
    struct packer packers[3];
    pthread_t threads[3];

    for (unsigned i = 0; i < 3; i++) {
        packers[i] = (struct packer){.device = t->device, .seed = 50 + i};
        assert_int_equal(pthread_create(&threads[i], NULL, pack_again_and_again, &packers[i]), 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_false(packers[i].failed);
    }
}

/* ---- empty regions, and regions that are refused ---- */

static void a_size_of_zero_does_nothing(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 64), out[64];

    OK(leat_fill(t->stream, memory, 0x11, 64));
    OK(leat_copy_3d(t->stream, memory, out, &(leat_copy_region){0, 4, 1, 8, 8, 0, 0}));
    OK(leat_copy_3d(t->stream, NULL, NULL, &(leat_copy_region){4, 0, 1, 0, 0, 0, 0}));
    OK(leat_copy_3d(t->stream, memory, memory, &(leat_copy_region){4, 4, 0, 8, 8, 0, 0}));
    OK(leat_copy_sync(t->stream, out, memory, 64));
    EXPECT_BYTES(out, 64, 0x11);
    OK(leat_memory_free(memory));
}

static void explained(leat_stream *stream, void *dst, const void *src, const leat_copy_region *region,
                      const char *words)
{
    char text[2000];

    OK(leat_copy_3d_explain(stream, dst, src, region, text, sizeof text));
    if (!strstr(text, words))
        fail_msg("leat_copy_3d_explain says: %s\nand not: %s", text, words);
}

static void explaining_copies_nothing(void **state)
{
    struct test_state *t = *state;
    const size_t bytes = 100 * 1000;
    leat_copy_region region = {
        .width_bytes = 100, .height = 50, .depth = 2, .dst_pitch_bytes = 200, .src_pitch_bytes = 300};
    unsigned char *host = test_buffer(bytes), *device = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
    unsigned char *seen = test_buffer(bytes);
    char text[200];

    region.dst_slice_bytes = region.src_slice_bytes = 20000;
    test_pattern(host, bytes, 3);
    OK(leat_copy_sync(t->stream, device, host, bytes));
    test_pattern(host, bytes, 4);
    explained(t->stream, device, host, &region, "100 rows of 100 B, 9.8 KiB from pageable memory to ");
    explained(t->stream, host, device, &region, "  protocol  ");
    explained(t->stream, host, device, &region, "  why       ");
    explained(t->stream, host, device, &region, "  bound     ");
    explained(t->stream, seen, host, &region, "the host's memory");
    OK(leat_copy_sync(t->stream, seen, device, bytes));
    test_pattern(host, bytes, 3);
    assert_memory_equal(seen, host, bytes);
    region.width_bytes = 0;
    explained(t->stream, device, host, &region, "nothing to do");
    region.width_bytes = region.dst_pitch_bytes = region.src_pitch_bytes = 400;
    explained(t->stream, device, host, &region, "39 KiB");
    OK(leat_copy_3d_explain(t->stream, device, host, &region, text, 10));
    assert_int_equal(strlen(text), 9);
    /* GPUs copy many narrow rows with a kernel. */
    if (!test_on_cpu() && !getenv("LEAT_COPY_PROTOCOL")) {
        leat_copy_region narrow = {20, 400, 1, 24, 64, 0, 0};

        explained(t->stream, device, device + 40000, &narrow, "one kernel, leat_layout_rows_4,");
        explained(t->stream, device, host, &narrow, "one kernel, leat_layout_rows_4,");
        narrow.width_bytes = 12;
        explained(t->stream, device, device + 40000, &narrow, "one kernel, leat_layout_elements,");
    }
    REFUSED(leat_copy_3d_explain(t->stream, device, host, &region, text, 0), LEAT_ERROR_INVALID, "text_bytes");
    REFUSED(leat_copy_3d_explain(t->stream, device, host, &region, NULL, 9), LEAT_ERROR_INVALID, "text");
    REFUSED(leat_copy_3d_explain(t->stream, device, host, NULL, text, 9), LEAT_ERROR_INVALID, "region");
    region.src_pitch_bytes = 1;
    REFUSED(leat_copy_3d_explain(t->stream, device, host, &region, text, 9), LEAT_ERROR_INVALID,
            "src_pitch_bytes");
    OK(leat_memory_free(device));
    free(host);
    free(seen);
}

static void wrong_regions_are_refused(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 4096);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 4096);
    leat_stream *none = NULL;

#define WRONG(status, words, ...)                                                                                 \
    REFUSED(leat_copy_3d(t->stream, memory, pinned, &(leat_copy_region){__VA_ARGS__}), (status), (words))
    REFUSED(leat_copy_3d(t->stream, memory, pinned, NULL), LEAT_ERROR_INVALID, "region");
    REFUSED(leat_copy_3d(none, memory, pinned, &(leat_copy_region){4, 4, 1, 4, 4, 0, 0}), LEAT_ERROR_HANDLE,
            "leat_copy_3d");
    WRONG(LEAT_ERROR_INVALID, "dst_pitch_bytes", 8, 4, 1, 7, 8, 0, 0);
    WRONG(LEAT_ERROR_INVALID, "src_pitch_bytes", 8, 4, 1, 8, 7, 0, 0);
    WRONG(LEAT_ERROR_INVALID, "dst_slice_bytes", 8, 4, 2, 8, 8, 31, 32);
    WRONG(LEAT_ERROR_INVALID, "src_slice_bytes", 8, 4, 2, 8, 8, 32, 31);
    WRONG(LEAT_ERROR_INVALID, "64 bits", 8, SIZE_MAX / 4, 1, 8, 8, 0, 0);
    WRONG(LEAT_ERROR_INVALID, "64 bits", 8, 2, 1, SIZE_MAX / 2 + 1, 8, 0, 0);
    WRONG(LEAT_ERROR_INVALID, "64 bits", 8, 4, SIZE_MAX / 16, 8, 8, 32, 32);
    WRONG(LEAT_ERROR_INVALID, "64 bits", 8, 4, 3, 8, 8, SIZE_MAX / 2, 32);
    WRONG(LEAT_ERROR_INVALID, "64 bits", 8, 4, 3, 8, 8, 32, SIZE_MAX / 2 + 1);
    WRONG(LEAT_ERROR_INVALID, "64 bits", SIZE_MAX, 2, 1, SIZE_MAX, SIZE_MAX, 0, 0);
    /* A region may end at the last byte of the allocation. One byte more is refused. */
    OK(leat_copy_3d(t->stream, memory, pinned, &(leat_copy_region){8, 4, 1, 1362, 8, 0, 0}));
    OK(leat_copy_3d(t->stream, memory, pinned, &(leat_copy_region){8, 2, 2, 8, 8, 64, 4080}));
    WRONG(LEAT_ERROR_RANGE, "dst", 8, 4, 1, 1363, 8, 0, 0);
    WRONG(LEAT_ERROR_RANGE, "src", 8, 4, 1, 8, 1363, 0, 0);
    WRONG(LEAT_ERROR_RANGE, "src", 8, 2, 2, 8, 8, 64, 4081);
    WRONG(LEAT_ERROR_RANGE, "dst", 8, 4, 1, (size_t)1 << 40, 8, 0, 0);
    WRONG(LEAT_ERROR_RANGE, "", 1, SIZE_MAX / 2, 1, 1, 1, 0, 0);
    REFUSED(leat_copy_3d(t->stream, NULL, pinned, &(leat_copy_region){8, 4, 1, 9, 9, 0, 0}), LEAT_ERROR_POINTER,
            "dst");
    REFUSED(leat_copy_3d(t->stream, memory, NULL, &(leat_copy_region){8, 4, 1, 9, 9, 0, 0}), LEAT_ERROR_POINTER,
            "src");
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(memory));
    OK(leat_memory_free(pinned));
}

static void overlaps_are_refused_and_neighbours_are_not(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 40000), *wanted = test_buffer(40000);
    unsigned char *seen = test_buffer(40000), *plain = test_buffer(40000);
    static const leat_copy_region columns = {40, 90, 1, 100, 100, 0, 0}, cubes = {4, 5, 6, 10, 10, 100, 100};
    static const struct {
        size_t dst, src;
        const leat_copy_region *region;
        bool fine;
    } cases[] = {
        {0, 40, &columns, true},    {40, 0, &columns, true},   {0, 60, &columns, true},
        {0, 39, &columns, false},   {39, 0, &columns, false},  {0, 61, &columns, false},
        {0, 0, &columns, false},    {0, 100, &columns, false}, {8900, 0, &columns, false},
        {9000, 0, &columns, true},  {8941, 0, &columns, true}, {8861, 0, &columns, false},
        {8939, 0, &columns, false}, {0, 4, &cubes, true},      {0, 3, &cubes, false},
        {0, 50, &cubes, true},      {0, 46, &cubes, true},     {46, 0, &cubes, true},
        {0, 40, &cubes, false},     {40, 0, &cubes, false},    {0, 100, &cubes, false},
        {0, 150, &cubes, true},     {0, 160, &cubes, false},   {560, 0, &cubes, true},
        {0, 543, &cubes, false},    {0, 544, &cubes, true},    {97, 0, &cubes, false},
    };

    test_pattern(wanted, 40000, 9);
    memcpy(plain, wanted, 40000);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char *pages[] = {memory, plain};

        for (int p = 0; p < 2; p++) {
            leat_status status;

            test_pattern(wanted, 40000, 9);
            OK(leat_copy_sync(t->stream, pages[p], wanted, 40000));
            status = leat_copy_3d(t->stream, pages[p] + cases[i].dst, pages[p] + cases[i].src, cases[i].region);
            if (status != (cases[i].fine ? LEAT_OK : LEAT_ERROR_OVERLAP))
                fail_msg("case %zu: %s", i, leat_last_error());
            if (cases[i].fine)
                copy_plainly(wanted + cases[i].dst, wanted + cases[i].src, cases[i].region);
            OK(leat_copy_sync(t->stream, seen, pages[p], 40000));
            assert_memory_equal(seen, wanted, 40000);
        }
    }
    /* The two pitches differ, so the distance between source and destination rows shrinks with each row, and row
     * 59 overlaps. */
    OK(leat_copy_3d(t->stream, memory, memory + 40, &(leat_copy_region){4, 58, 1, 100, 101, 0, 0}));
    REFUSED(leat_copy_3d(t->stream, memory, memory + 40, &(leat_copy_region){4, 59, 1, 100, 101, 0, 0}),
            LEAT_ERROR_OVERLAP, "overlap");
    OK(leat_copy_3d(t->stream, memory, memory + 5804, &(leat_copy_region){4, 59, 1, 100, 101, 0, 0}));
    REFUSED(leat_copy_3d(t->stream, memory, memory, &(leat_copy_region){4, 50, 1, 4, 4, 0, 0}), LEAT_ERROR_OVERLAP,
            "overlap");
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(memory));
    free(wanted);
    free(seen);
    free(plain);
}

/* Pages in the middle of the source are unreadable, so the call or the stream must return LEAT_ERROR_POINTER. */
static void a_source_that_cannot_be_read(void **state)
{
    struct test_state *t = *state;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), bytes = 2 * MIB;
    static const leat_copy_region regions[] = {
        {100, 1000, 1, 100, 1007, 0, 0}, {10, 200000, 1, 10, 10, 0, 0}, {8, 150, 1, 9, 13000, 0, 0}};
    unsigned char *source = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);

    if (test_on_names())
        SKIP_OTHER("the compatibility libraries have one status for all that is wrong with an argument");
    assert_ptr_not_equal(source, MAP_FAILED);
    test_let_leat_catch_faults();
    memset(source, 1, bytes);
    assert_int_equal(mprotect(source + bytes / 4, 4 * page_bytes, PROT_NONE), 0);
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++) {
        leat_status status = leat_copy_3d(t->stream, memory, source, &regions[i]), later;

        later = leat_stream_synchronize(t->stream);
        assert_int_equal(status == LEAT_OK ? later : status, LEAT_ERROR_POINTER);
        OK(leat_stream_synchronize(t->stream));
    }
    munmap(source, bytes);
    OK(leat_memory_free(memory));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STATE_TEST(all_pairs_widths_and_pitches),
        STATE_TEST(many_narrow_rows),
        STATE_TEST(large_regions),
        STATE_TEST(a_stream_of_the_other_device_copies_too),
        STATE_TEST(regions_keep_their_place),
        STATE_TEST(short_regions_on_a_held_stream),
        STATE_TEST(threads_copy_short_regions),
        STATE_TEST(a_size_of_zero_does_nothing),
        STATE_TEST(explaining_copies_nothing),
        STATE_TEST(wrong_regions_are_refused),
        STATE_TEST(overlaps_are_refused_and_neighbours_are_not),
        STATE_TEST(a_source_that_cannot_be_read),
    };

    if (!test_device_there())
        return 77;
    test_keep_handlers();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
