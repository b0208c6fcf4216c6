/* test_memory.c - tests allocating, freeing, registering and querying memory. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void round_trip(leat_stream *stream, void *memory, size_t bytes, uint64_t seed)
{
    unsigned char *in = test_buffer(bytes), *out = test_buffer(bytes);

    test_pattern(in, bytes, seed);
    memset(out, 0, bytes);
    OK(leat_copy(stream, memory, in, bytes));
    OK(leat_copy_sync(stream, out, memory, bytes));
    EXPECT_PATTERN(out, bytes, seed);
    free(in);
    free(out);
}

static void allocations_are_aligned_and_apart(void **state)
{
    static const size_t sizes[] = {1, 255, 256, 257, 4096, 65537, 1 << 20, (2 << 20) + 1};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    struct test_state *t = *state;
    void *memory[COUNT];

    for (int i = 0; i < COUNT; i++) {
        OK(leat_alloc(t->stream, sizes[i], &memory[i]));
        assert_int_equal((uintptr_t)memory[i] % 256, 0);
        OK(leat_fill(t->stream, memory[i], (uint8_t)(i + 1), sizes[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        unsigned char *out = test_buffer(sizes[i]);

        OK(leat_copy_sync(t->stream, out, memory[i], sizes[i]));
        EXPECT_BYTES(out, sizes[i], (unsigned char)(i + 1));
        free(out);
        OK(leat_free(t->stream, memory[i]));
    }
}

static void every_kind_can_be_allocated(void **state)
{
    static const leat_kind kinds[] = {LEAT_KIND_DEVICE, LEAT_KIND_PINNED, LEAT_KIND_MANAGED};
    struct test_state *t = *state;
    leat_device_info device = LEAT_DEVICE_INFO_INIT;

    OK(leat_device_get_info(t->device, &device));
    for (int i = 0; i < 3; i++) {
        leat_pointer_info info = LEAT_POINTER_INFO_INIT;
        unsigned char *memory;
        void *ptr;

        if (kinds[i] == LEAT_KIND_MANAGED && !device.managed_memory) {
            REFUSED(leat_memory_alloc(t->device, kinds[i], 100, &ptr), LEAT_ERROR_UNSUPPORTED, "managed");
            continue;
        }
        memory = test_alloc(t->device, kinds[i], 70001);
        assert_int_equal((uintptr_t)memory % 256, 0);
        OK(leat_pointer_get_info(memory + 70000, &info));
        assert_int_equal(info.kind, kinds[i]);
        assert_ptr_equal(info.device, t->device);
        assert_ptr_equal(info.base, memory);
        assert_int_equal(info.bytes, 70001);
        assert_non_null(info.device_pointer);
        assert_int_equal(info.owned, 1);
        round_trip(t->stream, memory, 70001, 5);
        if (kinds[i] != LEAT_KIND_DEVICE)
            EXPECT_PATTERN(memory, 70001, 5);
        OK(leat_memory_free(memory));
    }
}

static void zero_bytes_are_fine(void **state)
{
    struct test_state *t = *state;
    void *ptr = &ptr;

    OK(leat_alloc(t->stream, 0, &ptr));
    assert_null(ptr);
    OK(leat_free(t->stream, ptr));
    ptr = &ptr;
    OK(leat_memory_alloc(t->device, LEAT_KIND_PINNED, 0, &ptr));
    assert_null(ptr);
    OK(leat_memory_free(ptr));
    OK(leat_register(t->device, NULL, 0));
    OK(leat_register(t->device, &ptr, 0));
    OK(leat_unregister(NULL));
    OK(leat_pointer_unwrap(NULL));
}

static void unknown_memory_is_pageable(void **state)
{
    struct test_state *t = *state;
    static int in_the_program;
    int on_the_stack = 0;
    int *on_the_heap = test_buffer(sizeof *on_the_heap);
    const void *places[] = {&in_the_program, &on_the_stack, on_the_heap};

    (void)t;
    for (int i = 0; i < 3; i++) {
        leat_pointer_info info = LEAT_POINTER_INFO_INIT;

        memset(&info, 0xee, sizeof info);
        info.size = sizeof info;
        OK(leat_pointer_get_info(places[i], &info));
        assert_int_equal(info.kind, LEAT_KIND_PAGEABLE);
        assert_null(info.device);
        assert_null(info.base);
        assert_int_equal(info.bytes, 0);
        assert_null(info.device_pointer);
        assert_int_equal(info.owned, 0);
    }
    free(on_the_heap);
}

static void free_is_in_stream_order(void **state)
{
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 1 << 16);
    struct test_gate *gate;
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    void *memory, *later;

    OK(leat_alloc(t->stream, 1 << 16, &memory));
    gate = test_gate_close(t->stream);
    OK(leat_fill(t->stream, memory, 7, 1 << 16));
    OK(leat_copy(t->stream, pinned, memory, 1 << 16));
    /* The next owner of the memory must not disturb work that was submitted before the free. If the driver has no
     * stream-ordered free, leat_free() waits, so open the gate first. */
    test_gate_open(gate);
    OK(leat_free(t->stream, memory));
    assert_true(leat_pointer_get_info(memory, &info) != LEAT_OK || info.kind == LEAT_KIND_PAGEABLE);
    OK(leat_alloc(t->stream, 1 << 16, &later));
    OK(leat_fill(t->stream, later, 9, 1 << 16));
    OK(leat_stream_synchronize(t->stream));
    EXPECT_BYTES(pinned, 1 << 16, 7);
    OK(leat_free(t->stream, later));
    OK(leat_memory_free(pinned));
}

static void either_free_takes_device_memory(void **state)
{
    struct test_state *t = *state;
    void *ordered, *plain = test_alloc(t->device, LEAT_KIND_DEVICE, 5000);

    OK(leat_alloc(t->stream, 5000, &ordered));
    OK(leat_free(t->second, plain));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(ordered));
}

static void freed_memory_comes_back(void **state)
{
    struct test_state *t = *state;
    uint64_t free_bytes, total_bytes;
    size_t bytes;
    void *memory;

    /* Each round allocates an eighth of the device. If a round leaked its memory, a later one would run out of
     * memory. */
    OK(leat_device_memory(t->device, &free_bytes, &total_bytes));
    bytes = (size_t)(free_bytes / 8);
    for (int i = 0; i < 24; i++) {
        OK(leat_alloc(t->stream, bytes, &memory));
        OK(leat_fill(t->stream, memory, 1, 4096));
        OK(leat_free(t->stream, memory));
        OK(leat_stream_synchronize(t->stream));
    }
    for (int i = 0; i < 24; i++)
        OK(leat_memory_free(test_alloc(t->device, LEAT_KIND_DEVICE, bytes)));
}

static void hold_up(void *unused)
{
    (void)unused;
    test_sleep_us(20000);
}

/* Allocates more than half of the device twice. The second allocation needs the memory of the first, which the
 * stream frees before. When leat_alloc() is called, the stream has not reached this free. */
static void freed_memory_is_there_for_later_work_of_the_stream(void **state)
{
    struct test_state *t = *state;
    uint64_t free_bytes, total_bytes;
    size_t bytes;

    OK(leat_device_memory(t->device, &free_bytes, &total_bytes));
    bytes = (size_t)(free_bytes / 10 * 6);
    for (int i = 0; i < 2; i++) {
        void *memory;

        OK(leat_alloc(t->stream, bytes, &memory));
        OK(leat_fill(t->stream, memory, 1, 4096));
        OK(leat_launch_host(t->stream, hold_up, NULL));
        OK(leat_free(t->stream, memory));
    }
    OK(leat_stream_synchronize(t->stream));
}

static void many_allocations(void **state)
{
    enum { COUNT = 2000 };
    struct test_state *t = *state;
    void **memory = test_buffer(COUNT * sizeof *memory);
    uint32_t *numbers = test_buffer(COUNT * sizeof *numbers);

    for (uint32_t i = 0; i < COUNT; i++) {
        OK(leat_alloc(t->stream, 16 + i % 500, &memory[i]));
        OK(leat_fill_pattern(t->stream, memory[i], &i, sizeof i, 16));
    }
    /* Free every second block and allocate it again, so that newer blocks lie between older ones. */
    for (uint32_t i = 0; i < COUNT; i += 2) {
        OK(leat_free(t->stream, memory[i]));
        OK(leat_alloc(t->stream, 16, &memory[i]));
        OK(leat_fill_pattern(t->stream, memory[i], &i, sizeof i, 16));
    }
    for (uint32_t i = 0; i < COUNT; i++)
        OK(leat_copy(t->stream, &numbers[i], (char *)memory[i] + 12, sizeof *numbers));
    OK(leat_stream_synchronize(t->stream));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(numbers[i], i);
        OK(leat_free(t->stream, memory[i]));
    }
    free(numbers);
    free(memory);
}

static void registered_memory_is_pinned(void **state)
{
    /* Most starts and sizes are not multiples of a page, so the first and last pages also contain unregistered
     * memory. */
    static const struct {
        size_t offset, bytes;
    } places[] = {{0, 1 << 20}, {1, 1}, {4095, 2}, {123, 100003}, {4096, 4096}};
    struct test_state *t = *state;
    unsigned char *own = test_buffer(2 << 20);

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        unsigned char *start = own + places[i].offset;
        size_t bytes = places[i].bytes;
        leat_pointer_info info = LEAT_POINTER_INFO_INIT;
        void *memory;

        OK(leat_register(t->device, start, bytes));
        OK(leat_pointer_get_info(start + bytes - 1, &info));
        assert_int_equal(info.kind, LEAT_KIND_PINNED);
        assert_ptr_equal(info.base, start);
        assert_int_equal(info.bytes, bytes);
        assert_int_equal(info.owned, 0);
        assert_non_null(info.device_pointer);
        OK(leat_alloc(t->stream, bytes, &memory));
        test_pattern(start, bytes, i);
        OK(leat_copy(t->stream, memory, start, bytes));
        OK(leat_fill(t->stream, start, 0, bytes));
        OK(leat_copy(t->stream, start, memory, bytes));
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(start, bytes, i);
        OK(leat_free(t->stream, memory));
        OK(leat_unregister(start));
        OK(leat_pointer_get_info(start, &info));
        assert_int_equal(info.kind, LEAT_KIND_PAGEABLE);
        /* Registering it again must work. */
        OK(leat_register(t->device, start, bytes));
        OK(leat_unregister(start));
    }
    free(own);
}

static void mapped_files_and_pages_can_be_registered(void **state)
{
    struct test_state *t = *state;
    size_t bytes = 3 << 20;
    unsigned char *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(own, MAP_FAILED);
    OK(leat_register(t->device, own, bytes));
    round_trip(t->stream, own, bytes, 77);
    EXPECT_PATTERN(own, bytes, 77);
    OK(leat_unregister(own));
    munmap(own, bytes);
}

static void out_of_memory_is_said_and_survived(void **state)
{
    struct test_state *t = *state;
    uint64_t free_bytes, total_bytes;
    void *memory, *ptr = &memory;
    size_t too_much;

    OK(leat_device_memory(t->device, &free_bytes, &total_bytes));
    too_much = (size_t)total_bytes + (1 << 20);
    REFUSED(leat_alloc(t->stream, too_much, &ptr), LEAT_ERROR_DEVICE_MEMORY, "are free");
    REFUSED(leat_memory_alloc(t->device, LEAT_KIND_DEVICE, too_much, &ptr), LEAT_ERROR_DEVICE_MEMORY, "are free");
    REFUSED(leat_alloc(t->stream, SIZE_MAX, &ptr), LEAT_ERROR_DEVICE_MEMORY, "are free");
    REFUSED(leat_alloc(t->stream, SIZE_MAX - 4095, &ptr), LEAT_ERROR_DEVICE_MEMORY, "are free");
    REFUSED(leat_memory_alloc(t->device, LEAT_KIND_DEVICE, SIZE_MAX / 2 + 1, &ptr), LEAT_ERROR_DEVICE_MEMORY,
            "are free");
    REFUSED(leat_memory_alloc(t->device, LEAT_KIND_PINNED, SIZE_MAX - 100, &ptr), LEAT_ERROR_HOST_MEMORY,
            "pinned");
    assert_ptr_equal(ptr, &memory);
    OK(leat_alloc(t->stream, 100000, &memory));
    round_trip(t->stream, memory, 100000, 3);
    OK(leat_free(t->stream, memory));
}

static void a_full_device_can_be_emptied(void **state)
{
    enum { MOST = 64 };
    struct test_state *t = *state;
    uint64_t free_bytes, total_bytes;
    void *memory[MOST], *one;
    size_t bytes;
    int count = 0;

    OK(leat_device_memory(t->device, &free_bytes, &total_bytes));
    bytes = (size_t)(free_bytes / 10);
    while (count < MOST && leat_memory_alloc(t->device, LEAT_KIND_DEVICE, bytes, &memory[count]) == LEAT_OK)
        count++;
    assert_true(count > 1 && count < MOST);
    OK(leat_memory_free(memory[--count]));
    OK(leat_memory_alloc(t->device, LEAT_KIND_DEVICE, bytes, &one));
    OK(leat_memory_free(one));
    while (count)
        OK(leat_memory_free(memory[--count]));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(allocations_are_aligned_and_apart),
    STATE_TEST(every_kind_can_be_allocated),
    STATE_TEST(zero_bytes_are_fine),
    STATE_TEST(unknown_memory_is_pageable),
    STATE_TEST(free_is_in_stream_order),
    STATE_TEST(either_free_takes_device_memory),
    STATE_TEST(freed_memory_comes_back),
    STATE_TEST(freed_memory_is_there_for_later_work_of_the_stream),
    STATE_TEST(many_allocations),
    STATE_TEST(registered_memory_is_pinned),
    STATE_TEST(mapped_files_and_pages_can_be_registered),
    STATE_TEST(out_of_memory_is_said_and_survived),
    STATE_TEST(a_full_device_can_be_emptied),
};

TEST_MAIN(tests)
