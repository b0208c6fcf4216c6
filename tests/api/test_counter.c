/*
 * test_counter.c - tests counters in memory that streams write and wait for (leat/stream.h): the order of the
 * writes and the waits, and what the pools and guard mode make of it. LEAT_TEST_DEVICE names the device.
 */
#include "test_pool.h"

#include <limits.h>

typedef _Atomic uint32_t counter;

/* Returns a counter in pinned memory that holds value. Skips the test if the device has no counters. */
static counter *new_counter(struct test_state *t, uint32_t value)
{
    counter *made = test_alloc(t->device, LEAT_KIND_PINNED, sizeof *made);
    leat_status status;

    atomic_store(made, value);
    status = leat_stream_write_u32(t->stream, made, value);
    if (status == LEAT_ERROR_UNSUPPORTED) {
        OK(leat_memory_free(made));
        SKIP_OTHER("the driver has no counters");
    }
    OK(status);
    OK(leat_stream_synchronize(t->stream));
    return made;
}

/* Waits until the counter has this value. Returns false after half a minute. */
static bool comes(counter *c, uint32_t value)
{
    for (int i = 0; i < 300000 && atomic_load_explicit(c, memory_order_acquire) != value; i++)
        test_sleep_us(100);
    return atomic_load_explicit(c, memory_order_acquire) == value;
}

/* Fails if the stream becomes idle within 20 ms. */
static void expect_waiting(leat_stream *stream, counter *c, uint32_t let_go)
{
    for (int i = 0; i < 20; i++) {
        if (leat_stream_query(stream) != LEAT_NOT_READY) {
            atomic_store(c, let_go);
            fail_msg("a stream that must wait for a counter does not wait");
        }
        test_sleep_us(1000);
    }
}

static void a_write_comes_after_earlier_work(void **state)
{
    struct test_state *t = *state;
    counter *c = new_counter(t, 0);
    unsigned char *seen = test_alloc(t->device, LEAT_KIND_PINNED, 5000);
    void *block = test_alloc(t->device, LEAT_KIND_DEVICE, 5000);
    struct test_gate *gate;

    memset(seen, 0, 5000);
    gate = test_gate_close(t->stream);
    OK(leat_fill(t->stream, block, 7, 5000));
    OK(leat_copy(t->stream, seen, block, 5000));
    OK(leat_stream_write_u32(t->stream, c, 9));
    test_sleep_us(20000);
    assert_int_equal(atomic_load(c), 0);
    test_gate_open(gate);
    /* The host sees the work before the counter without any other wait. */
    assert_true(comes(c, 9));
    EXPECT_BYTES(seen, 5000, 7);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(block));
    OK(leat_memory_free(seen));
    OK(leat_memory_free(c));
}

static void work_waits_for_the_host(void **state)
{
    struct test_state *t = *state;
    counter *c = new_counter(t, 0);
    unsigned char *from = test_alloc(t->device, LEAT_KIND_PINNED, 5000), to[5000];
    void *block = test_alloc(t->device, LEAT_KIND_DEVICE, 5000);

    memset(from, 1, 5000);
    OK(leat_stream_wait_u32(t->stream, c, 5));
    OK(leat_copy(t->stream, block, from, 5000));
    expect_waiting(t->stream, c, 5);
    atomic_store(c, 4);
    expect_waiting(t->stream, c, 5);
    memset(from, 2, 5000);
    atomic_store_explicit(c, 6, memory_order_release); /* beyond the value is enough */
    OK(leat_copy_sync(t->stream, to, block, 5000));
    EXPECT_BYTES(to, 5000, 2);
    /* A value that was reached before delays nothing. */
    OK(leat_stream_wait_u32(t->stream, c, 6));
    OK(leat_stream_wait_u32(t->stream, c, 0));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(block));
    OK(leat_memory_free(from));
    OK(leat_memory_free(c));
}

/* A copy of pageable memory must not read the source before the wait is over, although its thread could. */
static void pageable_memory_is_read_after_the_wait(void **state)
{
    static const size_t sizes[] = {100, 5000, 300000, 9 * MIB};
    struct test_state *t = *state;
    counter *c = new_counter(t, 0);

    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *from = test_buffer(sizes[i]), *to = test_buffer(sizes[i]);
        void *block = test_alloc(t->device, LEAT_KIND_DEVICE, sizes[i]);
        leat_ticket *ticket;

        memset(from, 1, sizes[i]);
        OK(leat_stream_synchronize(t->stream));
        OK(leat_stream_wait_u32(t->stream, c, i + 1));
        /* A copy with a ticket returns at once on every device. */
        ticket = test_copy_start(t->stream, block, from, sizes[i]);
        test_sleep_us(2000);
        memset(from, 2, sizes[i]);
        atomic_store_explicit(c, i + 1, memory_order_release);
        OK(leat_copy_sync(t->stream, to, block, sizes[i]));
        EXPECT_BYTES(to, sizes[i], 2);
        OK(leat_ticket_destroy(ticket));
        OK(leat_memory_free(block));
        free(from);
        free(to);
    }
    OK(leat_memory_free(c));
}

static void streams_hand_over_by_counters(void **state)
{
    struct test_state *t = *state;
    counter *there = new_counter(t, 0), *back = new_counter(t, 0);
    uint32_t *block = test_alloc(t->device, LEAT_KIND_DEVICE, 4096);
    uint32_t *seen = test_alloc(t->device, LEAT_KIND_PINNED, 64 * 4096);

    for (uint32_t round = 1; round <= 64; round++) {
        if (round > 1)
            OK(leat_stream_wait_u32(t->stream, back, round - 1));
        OK(leat_fill_pattern(t->stream, block, &round, 4, 4096));
        OK(leat_stream_write_u32(t->stream, there, round));
        OK(leat_stream_wait_u32(t->second, there, round));
        OK(leat_copy(t->second, seen + (round - 1) * 1024, block, 4096));
        OK(leat_stream_write_u32(t->second, back, round));
    }
    OK(leat_stream_synchronize(t->second));
    for (uint32_t i = 0; i < 64 * 1024; i++)
        assert_int_equal(seen[i], i / 1024 + 1);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(block));
    OK(leat_memory_free(seen));
    OK(leat_memory_free(there));
    OK(leat_memory_free(back));
}

static void counters_may_be_in_device_memory(void **state)
{
    struct test_state *t = *state;
    counter *c = new_counter(t, 0);
    void *on_device = test_alloc(t->device, LEAT_KIND_DEVICE, 64);
    struct test_gate *gate;
    uint32_t seen = 0;

    OK(leat_fill(t->stream, on_device, 0, 64));
    OK(leat_stream_synchronize(t->stream));
    gate = test_gate_close(t->stream);
    OK(leat_stream_write_u32(t->stream, (char *)on_device + 60, 3));
    OK(leat_stream_wait_u32(t->second, (char *)on_device + 60, 3));
    OK(leat_stream_write_u32(t->second, c, 1));
    EXPECT_HELD(t->second, gate);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->second));
    assert_int_equal(atomic_load(c), 1);
    OK(leat_copy_sync(t->second, &seen, (char *)on_device + 60, 4));
    assert_int_equal(seen, 3);
    OK(leat_memory_free(on_device));
    OK(leat_memory_free(c));
}

static void registered_memory_holds_counters(void **state)
{
    struct test_state *t = *state;
    counter *c = new_counter(t, 0), *own = aligned_alloc(4096, 4096);

    assert_non_null(own);
    memset((void *)own, 0, 4096);
    if (leat_register(t->device, (void *)own, 4096) == LEAT_OK) {
        OK(leat_stream_wait_u32(t->second, own + 7, 1));
        OK(leat_stream_write_u32(t->second, own + 8, 2));
        assert_int_equal(atomic_load(own + 8), 0);
        OK(leat_stream_write_u32(t->stream, own + 7, 1));
        OK(leat_stream_synchronize(t->second));
        OK(leat_stream_synchronize(t->stream));
        assert_int_equal(atomic_load(own + 8), 2);
        OK(leat_unregister((void *)own));
    }
    free((void *)own);
    OK(leat_memory_free(c));
}

static void counters_wrap_around(void **state)
{
    struct test_state *t = *state;
    counter *c = new_counter(t, 0);
    leat_status status;

    atomic_store(c, UINT32_MAX - 1);
    status = leat_stream_wait_u32(t->stream, c, UINT32_MAX);
    if (status == LEAT_ERROR_UNSUPPORTED) {
        OK(leat_memory_free(c));
        SKIP_OTHER("this driver compares counters as unsigned numbers");
    }
    OK(status);
    expect_waiting(t->stream, c, UINT32_MAX);
    atomic_store(c, 2);
    OK(leat_stream_synchronize(t->stream));
    atomic_store(c, UINT32_MAX);
    OK(leat_stream_wait_u32(t->stream, c, 1));
    expect_waiting(t->stream, c, 1);
    atomic_store(c, 1);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(c));
}

/* leat does not know that a counter orders the second stream after the first, so the pool must not give the
 * second stream memory that the first one still uses. */
static void pools_do_not_use_the_order_of_counters(void **state)
{
    struct test_state *t = *state;
    counter *c = new_counter(t, 1);
    leat_pool *pool = POOL(t->device, .name = "counters", .reuse = LEAT_POOL_REUSE_WAIT_NEVER);
    void *block = test_block(pool, t->stream, 4 * MIB), *other;
    struct test_gate *gate;

    gate = test_gate_close(t->stream);
    OK(leat_fill(t->stream, block, 1, 4 * MIB));
    OK(leat_free(t->stream, block));
    OK(leat_stream_wait_u32(t->second, c, 1));
    other = test_block(pool, t->second, 4 * MIB);
    assert_ptr_not_equal(other, block);
    OK(leat_fill(t->second, other, 2, 4 * MIB));
    OK(leat_stream_synchronize(t->second));
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    test_block_holds(t->second, other, 4 * MIB, 2);
    OK(leat_free(t->second, other));
    OK(leat_pool_destroy(pool));
    OK(leat_memory_free(c));
}

/* Guard mode cannot see the order of counters either, so it must not call such accesses wrong. */
static void guard_mode_accepts_the_order_of_counters(void **state)
{
    struct test_state *t = *state;
    counter *c = new_counter(t, 0);
    leat_pool *pool = POOL(t->device, .name = "guarded", .guard = 1);
    void *block = test_block(pool, t->stream, 1000);
    struct test_gate *gate;

    OK(leat_stream_synchronize(t->stream));
    gate = test_gate_close(t->stream);
    OK(leat_fill(t->stream, block, 1, 1000));
    OK(leat_stream_write_u32(t->stream, c, 1));
    REFUSED(leat_fill(t->second, block, 2, 1000), LEAT_ERROR_NOT_PERMITTED, "not ordered after");
    OK(leat_stream_wait_u32(t->second, c, 1));
    OK(leat_fill(t->second, block, 2, 1000));
    test_gate_open(gate);
    test_block_holds(t->second, block, 1000, 2);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_free(t->second, block));
    OK(leat_pool_destroy(pool));
    OK(leat_memory_free(c));
}

struct inside {
    leat_stream *stream;
    counter *c;
    leat_status wrote, waited;
};

static void call_inside(void *argument)
{
    struct inside *in = argument;

    in->wrote = leat_stream_write_u32(in->stream, in->c, 1);
    in->waited = leat_stream_wait_u32(in->stream, in->c, 1);
}

static void wrong_arguments_are_refused(void **state)
{
    struct test_state *t = *state;
    counter *c = new_counter(t, 0);
    char *block = test_alloc(t->device, LEAT_KIND_DEVICE, 512);
    struct inside in = {.stream = t->second, .c = c};
    leat_device *other = test_open_other();
    uint32_t on_stack = 0;
    void *managed = NULL;
    leat_stream *ended;

    for (int wait = 0; wait < 2; wait++) {
#define BOTH(stream, ptr)                                                                                         \
    (wait ? leat_stream_wait_u32((stream), (ptr), 1) : leat_stream_write_u32((stream), (ptr), 1))
        STATUS(BOTH(NULL, c), LEAT_ERROR_HANDLE);
        OK(leat_stream_create(t->device, &ended));
        OK(leat_stream_destroy(ended));
        STATUS(BOTH(ended, c), LEAT_ERROR_HANDLE);
        STATUS(BOTH(t->stream, NULL), LEAT_ERROR_POINTER);
        STATUS(BOTH(t->stream, &on_stack), LEAT_ERROR_POINTER);
        assert_non_null(strstr(leat_last_error(), "leat_register()"));
        STATUS(BOTH(t->stream, (char *)c + 2), LEAT_ERROR_INVALID);
        STATUS(BOTH(t->stream, block + 510), LEAT_ERROR_INVALID);
        if (leat_memory_alloc(t->device, LEAT_KIND_MANAGED, 64, &managed) == LEAT_OK) {
            STATUS(BOTH(t->stream, managed), LEAT_ERROR_UNSUPPORTED);
            OK(leat_memory_free(managed));
        }
        if (other) {
            void *far = test_alloc(other, LEAT_KIND_DEVICE, 64);

            STATUS(BOTH(t->stream, far), LEAT_ERROR_INVALID);
            OK(leat_memory_free(far));
        }
#undef BOTH
    }
    REFUSED(leat_stream_write_u32(t->stream, &on_stack, 1), LEAT_ERROR_POINTER, "pageable");
    REFUSED(leat_stream_wait_u32(t->stream, &on_stack, 1), LEAT_ERROR_POINTER, "pageable");
    OK(leat_launch_host(t->stream, call_inside, &in));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(in.wrote, LEAT_ERROR_NOT_PERMITTED);
    assert_int_equal(in.waited, LEAT_ERROR_NOT_PERMITTED);
    assert_int_equal(atomic_load(c), 0);
    OK(leat_memory_free(block));
    REFUSED(leat_stream_write_u32(t->stream, block, 1), LEAT_ERROR_POINTER, "ptr");
    OK(leat_memory_free(c));
    if (other)
        OK(leat_device_close(other));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(a_write_comes_after_earlier_work),
    STATE_TEST(work_waits_for_the_host),
    STATE_TEST(pageable_memory_is_read_after_the_wait),
    STATE_TEST(streams_hand_over_by_counters),
    STATE_TEST(counters_may_be_in_device_memory),
    STATE_TEST(registered_memory_holds_counters),
    STATE_TEST(counters_wrap_around),
    STATE_TEST(pools_do_not_use_the_order_of_counters),
    STATE_TEST(guard_mode_accepts_the_order_of_counters),
    STATE_TEST(wrong_arguments_are_refused),
};

TEST_MAIN(tests)
