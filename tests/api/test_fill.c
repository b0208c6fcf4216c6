/* test_fill.c - tests leat_fill and leat_fill_pattern: every pattern size, odd addresses and sizes, and the bytes
 * around the filled range. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)(3 << 20))
#define GUARD_BYTES 64

/* Fills bytes at arena + GUARD_BYTES + offset and compares the range and the bytes around it with a plain loop. */
static void fill_once(struct test_state *t, unsigned char *arena, size_t offset, const unsigned char *pattern,
                      size_t pattern_bytes, size_t bytes)
{
    size_t window = bytes + 2 * GUARD_BYTES;
    unsigned char *expected = test_buffer(window), *seen = test_buffer(window);

    memset(expected, 0xa5, window);
    OK(leat_copy_sync(t->stream, arena + offset, expected, window));
    for (size_t i = 0; i < bytes; i++)
        expected[GUARD_BYTES + i] = pattern[i % pattern_bytes];
    OK(leat_fill_pattern(t->stream, arena + offset + GUARD_BYTES, pattern, pattern_bytes, bytes));
    OK(leat_copy_sync(t->stream, seen, arena + offset, window));
    for (size_t i = 0; i < window; i++) {
        if (seen[i] == expected[i])
            continue;
        print_error("%zu bytes of a pattern of %zu at offset %zu: byte %zd is 0x%02x and not 0x%02x\n", bytes,
                    pattern_bytes, offset, (ptrdiff_t)i - GUARD_BYTES, seen[i], expected[i]);
        fail();
    }
    free(expected);
    free(seen);
}

static void fill_arena(struct test_state *t, unsigned char *arena)
{
    static const size_t counts[] = {1, 2, 3, 7, 64, 255, 1000, 4097, 65537};
    /* Some patterns repeat a shorter one. One would repeat its first 4 bytes, but its last byte differs. */
    static const unsigned char patterns[][16] = {
        {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9},
        {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2},        {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 5},
        {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8},
    };

    for (size_t size = 1; size <= 16; size *= 2)
        for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++)
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
                fill_once(t, arena, size * (c % 4), patterns[p], size, counts[c] * size);
}

static void device_memory(void **state)
{
    struct test_state *t = *state;
    unsigned char *arena = test_alloc(t->device, LEAT_KIND_DEVICE, ARENA_BYTES);

    fill_arena(t, arena);
    OK(leat_memory_free(arena));
}

static void pinned_memory(void **state)
{
    struct test_state *t = *state;
    unsigned char *arena = test_alloc(t->device, LEAT_KIND_PINNED, ARENA_BYTES);

    fill_arena(t, arena);
    OK(leat_memory_free(arena));
}

static void registered_memory(void **state)
{
    struct test_state *t = *state;
    unsigned char *own = test_buffer(ARENA_BYTES + 16);
    unsigned char *arena = own + (16 - (uintptr_t)own % 16) % 16;

    OK(leat_register(t->device, arena, ARENA_BYTES));
    fill_arena(t, arena);
    OK(leat_unregister(arena));
    free(own);
}

static void every_byte_value(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 256 * 33), *out = test_buffer(256 * 33);

    for (size_t value = 0; value < 256; value++)
        OK(leat_fill(t->stream, memory + value * 33, (uint8_t)value, 33));
    OK(leat_copy_sync(t->stream, out, memory, 256 * 33));
    for (size_t value = 0; value < 256; value++)
        EXPECT_BYTES(out + value * 33, 33, (unsigned char)value);
    OK(leat_memory_free(memory));
    free(out);
}

static void a_whole_allocation(void **state)
{
    static const size_t sizes[] = {1, 4095, 4096, 4097, (2 << 20) + 1};
    struct test_state *t = *state;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *out = test_buffer(sizes[i]);
        void *memory;

        OK(leat_alloc(t->stream, sizes[i], &memory));
        OK(leat_fill(t->stream, memory, 0x5a, sizes[i]));
        OK(leat_copy_sync(t->stream, out, memory, sizes[i]));
        EXPECT_BYTES(out, sizes[i], 0x5a);
        OK(leat_free(t->stream, memory));
        free(out);
    }
}

static void zero_bytes_do_nothing(void **state)
{
    struct test_state *t = *state;
    uint64_t pattern = 7;

    OK(leat_fill(t->stream, NULL, 1, 0));
    OK(leat_fill(t->stream, &pattern, 1, 0));
    OK(leat_fill_pattern(t->stream, NULL, &pattern, 8, 0));
    assert_int_equal(pattern, 7);
}

static void the_pattern_is_read_before_the_return(void **state)
{
    struct test_state *t = *state;
    leat_module *module;

    /* Load the kernels for long patterns now, as leat/copy.h advises: loading them could wait for the closed
     * gate. */
    OK(leat_module_builtin(t->device, &module));
    for (size_t size = 1; size <= 16; size *= 2) {
        unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 1600), pattern[16];
        struct test_gate *gate;

        memset(pattern, 0x33, sizeof pattern);
        pattern[size - 1] = 0x44;
        /* Fill once before the gate closes: a driver may load a kernel at its first launch, which can wait for the
         * device. */
        OK(leat_fill_pattern(t->stream, pinned, pattern, size, 1600));
        OK(leat_stream_synchronize(t->stream));
        memset(pinned, 0, 1600);
        gate = test_gate_close(t->stream);
        OK(leat_fill_pattern(t->stream, pinned, pattern, size, 1600));
        memset(pattern, 0, sizeof pattern);
        EXPECT_HELD(t->stream, gate);
        assert_int_equal(pinned[size - 1], 0);
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        for (size_t i = 0; i < 1600; i++)
            assert_int_equal(pinned[i], i % size == size - 1 ? 0x44 : 0x33);
        OK(leat_memory_free(pinned));
    }
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(device_memory),
    STATE_TEST(pinned_memory),
    STATE_TEST(registered_memory),
    STATE_TEST(every_byte_value),
    STATE_TEST(a_whole_allocation),
    STATE_TEST(zero_bytes_do_nothing),
    STATE_TEST(the_pattern_is_read_before_the_return),
};

TEST_MAIN(tests)
