/* test_copy.c - tests leat_copy between all kinds of memory, at odd sizes and addresses, and when the caller may
 * reuse its host buffers. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)(3 << 20))
#define GUARD_BYTES 64

enum place { PAGEABLE, PINNED, REGISTERED, DEVICE, OTHER_DEVICE, PLACES };

struct arenas {
    leat_device *other;
    unsigned char *arena[PLACES]; /* NULL if the kind is unavailable */
    unsigned char *expected;      /* what the destination should hold */
    unsigned char *seen;
};

static void make_arenas(struct test_state *t, struct arenas *arenas)
{
    arenas->other = test_open_other();
    arenas->arena[PAGEABLE] = test_buffer(ARENA_BYTES);
    arenas->arena[PINNED] = test_alloc(t->device, LEAT_KIND_PINNED, ARENA_BYTES);
    arenas->arena[REGISTERED] = test_buffer(ARENA_BYTES);
    OK(leat_register(t->device, arenas->arena[REGISTERED], ARENA_BYTES));
    arenas->arena[DEVICE] = test_alloc(t->device, LEAT_KIND_DEVICE, ARENA_BYTES);
    arenas->arena[OTHER_DEVICE] = arenas->other ? test_alloc(arenas->other, LEAT_KIND_DEVICE, ARENA_BYTES) : NULL;
    arenas->expected = test_buffer(ARENA_BYTES / 2);
    arenas->seen = test_buffer(ARENA_BYTES / 2);
}

static void end_arenas(struct arenas *arenas)
{
    free(arenas->arena[PAGEABLE]);
    OK(leat_memory_free(arenas->arena[PINNED]));
    OK(leat_unregister(arenas->arena[REGISTERED]));
    free(arenas->arena[REGISTERED]);
    OK(leat_memory_free(arenas->arena[DEVICE]));
    OK(leat_memory_free(arenas->arena[OTHER_DEVICE]));
    OK(leat_device_close(arenas->other));
    free(arenas->expected);
    free(arenas->seen);
}

/* Copies bytes from the first half of one arena to the second half of another. Also checks that the bytes around
 * the destination stay the same. */
static void copy_once(leat_stream *stream, struct arenas *arenas, enum place to, enum place from, size_t bytes,
                      size_t dst_offset, size_t src_offset, uint64_t seed)
{
    unsigned char *dst = arenas->arena[to] + ARENA_BYTES / 2 + GUARD_BYTES + dst_offset;
    unsigned char *src = arenas->arena[from] + GUARD_BYTES + src_offset;
    size_t window = bytes + 2 * GUARD_BYTES;

    test_pattern(arenas->expected, bytes, seed);
    OK(leat_copy(stream, src, arenas->expected, bytes));
    memset(arenas->seen, 0xa5, window);
    OK(leat_copy(stream, dst - GUARD_BYTES, arenas->seen, window));
    OK(leat_copy(stream, dst, src, bytes));
    OK(leat_copy_sync(stream, arenas->seen, dst - GUARD_BYTES, window));
    EXPECT_BYTES(arenas->seen, GUARD_BYTES, 0xa5);
    EXPECT_PATTERN(arenas->seen + GUARD_BYTES, bytes, seed);
    EXPECT_BYTES(arenas->seen + GUARD_BYTES + bytes, GUARD_BYTES, 0xa5);
}

static void all_pairs_sizes_and_places(void **state)
{
    static const size_t sizes[] = {1,  2,   3,   7,   8,    9,    15,   16,   17,    31,    63,     64,
                                   65, 127, 255, 257, 1000, 4095, 4096, 4097, 65535, 65537, 262145, (1 << 20) + 3};
    static const size_t offsets[][2] = {{0, 0}, {1, 0}, {0, 1}, {3, 5}, {63, 64}};
    struct test_state *t = *state;
    struct arenas arenas;
    uint64_t seed = 1;

    make_arenas(t, &arenas);
    for (enum place to = 0; to < PLACES; to++) {
        for (enum place from = 0; from < PLACES; from++) {
            if (!arenas.arena[to] || !arenas.arena[from])
                continue;
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                for (size_t j = 0; j < sizeof offsets / sizeof offsets[0]; j++)
                    copy_once(t->stream, &arenas, to, from, sizes[i], offsets[j][0], offsets[j][1], seed++);
        }
    }
    if (!arenas.other)
        print_message("           without pairs of devices: there is only one\n");
    end_arenas(&arenas);
}

static void a_stream_of_the_other_device_copies_too(void **state)
{
    struct test_state *t = *state;
    struct arenas arenas;
    leat_stream *stream;

    make_arenas(t, &arenas);
    if (!arenas.other) {
        end_arenas(&arenas);
        SKIP_OTHER("needs two devices of one driver");
    }
    OK(leat_stream_create(arenas.other, &stream));
    for (enum place to = 0; to < PLACES; to++)
        for (enum place from = 0; from < PLACES; from++)
            copy_once(stream, &arenas, to, from, 100001, 1, 2, (uint64_t)to * PLACES + from);
    end_arenas(&arenas);
}

/* leat_alloc() returns memory of a pool. Streams of another device must be able to copy this memory too. */
static void a_stream_of_the_other_device_copies_pool_memory(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    uint64_t *in = test_alloc(t->device, LEAT_KIND_PINNED, 8192), *out = in + 512;
    leat_stream *stream;
    void *memory, *far;

    if (!other) {
        OK(leat_memory_free(in));
        SKIP_OTHER("needs two devices of one driver");
    }
    OK(leat_stream_create(other, &stream));
    OK(leat_alloc(t->stream, 8192, &memory));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_alloc(stream, 4096, &far));
    for (int i = 0; i < 512; i++)
        in[i] = 1000u + (unsigned)i;
    memset(out, 0, 4096);
    OK(leat_copy(stream, memory, in, 4096));
    OK(leat_copy(stream, (char *)memory + 4096, memory, 4096));
    OK(leat_copy(stream, far, (char *)memory + 4096, 4096));
    OK(leat_copy(stream, memory, far, 4096));
    OK(leat_copy(stream, out, memory, 4096));
    OK(leat_stream_synchronize(stream));
    for (int i = 0; i < 512; i++)
        assert_int_equal(out[i], 1000 + i);
    OK(leat_free(t->stream, memory));
    OK(leat_memory_free(in));
    OK(leat_device_close(other));
}

static void a_whole_allocation_can_be_copied(void **state)
{
    /* The sizes are around multiples of pages and slabs. The last byte of each allocation must be accessible. */
    static const size_t sizes[] = {1, 4095, 4096, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1};
    struct test_state *t = *state;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *in = test_buffer(sizes[i]), *out = test_buffer(sizes[i]);
        void *first, *second;

        OK(leat_alloc(t->stream, sizes[i], &first));
        OK(leat_alloc(t->stream, sizes[i], &second));
        test_pattern(in, sizes[i], i);
        memset(out, 0, sizes[i]);
        OK(leat_copy(t->stream, first, in, sizes[i]));
        OK(leat_copy(t->stream, second, first, sizes[i]));
        OK(leat_copy_sync(t->stream, out, second, sizes[i]));
        EXPECT_PATTERN(out, sizes[i], i);
        OK(leat_free(t->stream, first));
        OK(leat_free(t->stream, second));
        free(in);
        free(out);
    }
}

static void adjacent_ranges_do_not_overlap(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 2000), in[1000], out[1000];

    test_pattern(in, sizeof in, 8);
    OK(leat_copy(t->stream, memory, in, 1000));
    OK(leat_copy(t->stream, memory + 1000, memory, 1000));
    OK(leat_fill(t->stream, memory, 0, 1000));
    OK(leat_copy(t->stream, memory, memory + 1000, 1000));
    OK(leat_copy_sync(t->stream, out, memory, 1000));
    EXPECT_PATTERN(out, 1000, 8);
    OK(leat_memory_free(memory));
}

static void zero_bytes_do_nothing(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 64), out[64];

    OK(leat_fill(t->stream, memory, 0x11, 64));
    OK(leat_copy(t->stream, memory, out, 0));
    OK(leat_copy(t->stream, NULL, NULL, 0));
    OK(leat_copy(t->stream, memory, memory, 0));
    OK(leat_copy(t->stream, (void *)(uintptr_t)8, memory + 64, 0));
    OK(leat_copy_sync(t->stream, out, memory, 64));
    EXPECT_BYTES(out, 64, 0x11);
    OK(leat_memory_free(memory));
}

static void a_pageable_source_may_be_changed_after_copy_sync(void **state)
{
    /* The sizes are from one byte to several staging chunks. The stream is busy when leat_copy_sync() is called,
     * so a copy that reads its source too late copies wrong bytes. */
    static const size_t sizes[] = {1, 1000, 64 << 10, 1 << 20, (5 << 20) + 7};
    struct test_state *t = *state;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *in = test_buffer(sizes[i]), *out = test_buffer(sizes[i]);
        unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 32 << 20);
        void *ptr = memory;

        for (int busy = 0; busy < 4; busy++)
            OK(leat_fill(t->stream, memory, (uint8_t)busy, 32 << 20));
        test_pattern(in, sizes[i], i);
        OK(leat_copy_sync(t->stream, ptr, in, sizes[i]));
        memset(in, 0xff, sizes[i]);
        OK(leat_copy_sync(t->stream, out, ptr, sizes[i]));
        EXPECT_PATTERN(out, sizes[i], i);
        OK(leat_memory_free(memory));
        free(in);
        free(out);
    }
}

static void sleep_in_stream(void *argument)
{
    test_sleep_us(*(int *)argument);
}

static void a_pageable_destination_is_complete_after_copy_sync(void **state)
{
    static const size_t sizes[] = {1, 1000, 1 << 20};
    struct test_state *t = *state;
    int microseconds = 20000;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, sizes[i]);
        unsigned char *out = test_buffer(sizes[i]);
        unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, sizes[i]);

        test_pattern(pinned, sizes[i], i);
        memset(out, 0, sizes[i]);
        OK(leat_fill(t->stream, memory, 0, sizes[i]));
        OK(leat_launch_host(t->stream, sleep_in_stream, &microseconds));
        OK(leat_copy(t->stream, memory, pinned, sizes[i]));
        OK(leat_copy_sync(t->stream, out, memory, sizes[i]));
        EXPECT_PATTERN(out, sizes[i], i);
        OK(leat_memory_free(memory));
        OK(leat_memory_free(pinned));
        free(out);
    }
}

static void copies_without_pageable_memory_do_not_stop_the_host(void **state)
{
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 3 << 20);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 2 << 20);
    struct test_gate *gate;

    test_pattern(pinned, 1 << 20, 1);
    memset(pinned + (1 << 20), 0, 1 << 20);
    gate = test_gate_close(t->stream);
    OK(leat_copy(t->stream, memory, pinned, 1 << 20));
    OK(leat_copy(t->stream, memory + (1 << 20), memory, 1 << 20));
    OK(leat_copy(t->stream, pinned + (1 << 20), memory + (1 << 20), 1 << 20));
    OK(leat_copy(t->stream, pinned + (2 << 20), pinned + (1 << 20), 1 << 20));
    EXPECT_HELD(t->stream, gate);
    EXPECT_BYTES(pinned + (1 << 20), 1 << 20, 0);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    EXPECT_PATTERN(pinned + (1 << 20), 1 << 20, 1);
    EXPECT_PATTERN(pinned + (2 << 20), 1 << 20, 1);
    OK(leat_memory_free(memory));
    OK(leat_memory_free(pinned));
}

static void a_long_chain_of_copies_keeps_its_order(void **state)
{
    enum { BYTES = 10007, LINKS = 200 };
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, (size_t)BYTES * (LINKS + 1));
    unsigned char in[BYTES], out[BYTES];

    OK(leat_fill(t->stream, memory, 0, (size_t)BYTES * (LINKS + 1)));
    test_pattern(in, BYTES, 4);
    OK(leat_copy(t->stream, memory, in, BYTES));
    for (size_t i = 0; i < LINKS; i++)
        OK(leat_copy(t->stream, memory + (i + 1) * BYTES, memory + i * BYTES, BYTES));
    OK(leat_copy_sync(t->stream, out, memory + (size_t)LINKS * BYTES, BYTES));
    EXPECT_PATTERN(out, BYTES, 4);
    OK(leat_memory_free(memory));
}

static void more_than_four_gib(void **state)
{
    struct test_state *t = *state;
    uint64_t count = ((uint64_t)4 << 30) / 8 + 1000, seed = 99, wrong = 0, free_bytes, total_bytes;
    size_t bytes = (size_t)count * 8;
    unsigned char *first, *second;
    uint64_t *found;

    if (test_on_cpu() && !getenv("LEAT_TEST_LARGE"))
        SKIP_OTHER("takes 8 GiB of the machine's memory; LEAT_TEST_LARGE=1 runs it");
    OK(leat_device_memory(t->device, &free_bytes, &total_bytes));
    if (free_bytes / 2 < bytes + (64 << 20))
        SKIP_MISSING("needs 9 GiB of device memory");
    first = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
    second = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
    found = test_alloc(t->device, LEAT_KIND_DEVICE, sizeof *found);
    {
        void *write_args[] = {&first, &count, &seed}, *verify_args[] = {&second, &count, &seed, &found};

        OK(leat_fill(t->stream, second, 0, bytes));
        OK(leat_fill(t->stream, found, 0, sizeof *found));
        OK(leat_launch(t->stream, test_kernel(t->device, "leat_pattern_u64"), leat_dim(1024, 1, 1),
                       leat_dim(256, 1, 1), 0, write_args, 3));
        OK(leat_copy(t->stream, second, first, bytes));
        OK(leat_launch(t->stream, test_kernel(t->device, "leat_verify_u64"), leat_dim(1024, 1, 1),
                       leat_dim(256, 1, 1), 0, verify_args, 4));
    }
    OK(leat_copy_sync(t->stream, &wrong, found, sizeof wrong));
    assert_int_equal(wrong, 0);
    OK(leat_memory_free(first));
    OK(leat_memory_free(second));
    OK(leat_memory_free(found));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(all_pairs_sizes_and_places),
    STATE_TEST(a_stream_of_the_other_device_copies_too),
    STATE_TEST(a_stream_of_the_other_device_copies_pool_memory),
    STATE_TEST(a_whole_allocation_can_be_copied),
    STATE_TEST(adjacent_ranges_do_not_overlap),
    STATE_TEST(zero_bytes_do_nothing),
    STATE_TEST(a_pageable_source_may_be_changed_after_copy_sync),
    STATE_TEST(a_pageable_destination_is_complete_after_copy_sync),
    STATE_TEST(copies_without_pageable_memory_do_not_stop_the_host),
    STATE_TEST(a_long_chain_of_copies_keeps_its_order),
    STATE_TEST(more_than_four_gib),
};

TEST_MAIN(tests)
