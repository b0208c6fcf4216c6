/*
 * test_copy_lifetime.c - tests objects that end while a copy uses them: pool blocks freed after the copy was
 * submitted, host memory after leat_copy_sync(), streams and devices.
 *
 * "make check" runs this program twice, like test_copy_async.
 */
#include "copy_room.h"

#include <pthread.h>

/* ---- blocks of pools ---- */

/* The program frees the block right after it has submitted the copies, and another stream gets the block. The
 * copies must not be affected. */
static void a_block_may_be_freed_behind_a_copy(void **state)
{
    struct test_state *t = *state;
    size_t bytes = 5 * MIB + 3;
    unsigned char *in = test_buffer(bytes), *out = test_buffer(bytes), *more = test_buffer(bytes);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 2 * bytes);

    test_pattern(in, bytes, 1);
    test_pattern(more, bytes, 2);
    for (int round = 0; round < 12; round++) {
        struct test_gate *gate = NULL;
        void *block, *next;

        memset(out, 0, bytes);
        memset(pinned, 0, 2 * bytes);
        OK(leat_alloc(t->stream, bytes, &block));
        if (round % 3 == 1)
            gate = test_gate_close(t->stream);
        OK(leat_copy(t->stream, block, in, bytes));
        if (round % 2)
            OK(leat_copy(t->stream, pinned, block, bytes));
        OK(leat_copy(t->stream, out, block, bytes));
        OK(leat_free(t->stream, block));
        if (gate)
            test_gate_open(gate);
        OK(leat_alloc(t->second, bytes, &next));
        OK(leat_copy(t->second, next, more, bytes));
        OK(leat_copy(t->second, pinned + bytes, next, bytes));
        OK(leat_free(t->second, next));
        OK(leat_stream_synchronize(t->second));
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(out, bytes, 1);
        if (round % 2)
            EXPECT_PATTERN(pinned, bytes, 1);
        EXPECT_PATTERN(pinned + bytes, bytes, 2);
    }
    OK(leat_memory_free(pinned));
    free(in);
    free(out);
    free(more);
}

/* The program frees the block right after it has submitted a copy into it. The copy must not write to the block
 * once the next owner has it. */
static void a_block_freed_behind_a_copy_in_is_left_alone(void **state)
{
    struct test_state *t = *state;
    size_t bytes = 5 * MIB + 3;
    unsigned char *in = test_buffer(bytes);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, bytes);

    test_pattern(in, bytes, 3);
    for (int round = 0; round < 12; round++) {
        void *block, *next;

        OK(leat_alloc(t->stream, bytes, &block));
        OK(leat_copy(t->stream, block, in, bytes));
        OK(leat_free(t->stream, block));
        OK(leat_alloc(t->second, bytes, &next));
        OK(leat_fill(t->second, next, (uint8_t)round, bytes));
        OK(leat_stream_synchronize(t->stream));
        OK(leat_copy(t->second, pinned, next, bytes));
        OK(leat_free(t->second, next));
        OK(leat_stream_synchronize(t->second));
        EXPECT_BYTES(pinned, bytes, (unsigned char)round);
    }
    OK(leat_memory_free(pinned));
    free(in);
}

/* ---- leat_copy_sync ---- */

struct sync_call {
    leat_stream *stream;
    void *dst;
    const void *src;
    size_t bytes;
    leat_status status;
    atomic_int returned;
};

static void *call_sync(void *argument)
{
    struct sync_call *call = argument;

    call->status = leat_copy_sync(call->stream, call->dst, call->src, call->bytes);
    atomic_store(&call->returned, 1);
    return NULL;
}

static void copy_sync_waits_for_pageable_memory_only(void **state)
{
    static struct sync_call call;
    struct test_state *t = *state;
    struct room room = make_room(t->device, 5 * MIB);

    for (int way = 0; way < 2; way++) {
        struct test_gate *gate;
        pthread_t thread;

        call = (struct sync_call){.stream = t->stream, .bytes = 5 * MIB};
        write_memory(t->stream, &room, call.bytes, 1);
        test_pattern(room.in, call.bytes, 2);
        memset(room.out, 0, call.bytes);
        call.dst = way ? room.out : room.memory;
        call.src = way ? room.memory : room.in;
        gate = test_gate_close(t->stream);
        /* Without a pageable side the call must return while a gate holds the stream up. */
        OK(leat_copy_sync(t->stream, room.pinned, room.memory, 1));
        assert_int_equal(pthread_create(&thread, NULL, call_sync, &call), 0);
        EXPECT_HELD(t->stream, gate);
        /* A call with a pageable source may have returned already, because it only needs to have read the source.
         * A call with a pageable destination must still wait. */
        if (way)
            assert_int_equal(atomic_load(&call.returned), 0);
        test_gate_open(gate);
        pthread_join(thread, NULL);
        OK(call.status);
        if (way)
            EXPECT_PATTERN(room.out, call.bytes, 1);
        memset(room.in, 0x44, call.bytes);
        read_memory(t->stream, &room, call.bytes);
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(room.pinned, call.bytes, way ? 1 : 2);
    }
    end_room(&room);
}

/* ---- the end of streams and devices ---- */

static void a_stream_is_destroyed_with_copies_under_way(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);

    for (size_t i = 0; i < SIZES; i++) {
        for (int held = 0; held < 2; held++) {
            uint64_t seed = 40 + 2 * i + (uint64_t)held;
            struct test_gate *gate = NULL;
            leat_ticket *in, *out;
            leat_stream *stream;

            OK(leat_stream_create(t->device, &stream));
            test_pattern(room.in, sizes[i], seed);
            memset(room.out, 0, sizes[i]);
            if (held)
                gate = test_gate_close(stream);
            in = test_copy_start(stream, room.memory, room.in, sizes[i]);
            out = test_copy_start(stream, room.out, room.memory, sizes[i]);
            OK(leat_stream_destroy(stream));
            if (held)
                test_gate_open(gate);
            /* The copies and their tickets outlive the stream. */
            OK(leat_ticket_wait(out, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
            EXPECT_PATTERN(room.out, sizes[i], seed);
            OK(leat_ticket_wait(in, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
            assert_true(test_ticket_info(out).arrived_bytes == sizes[i]);
            OK(leat_ticket_destroy(in));
            OK(leat_ticket_destroy(out));
            OK(leat_device_synchronize(t->device));
        }
    }
    end_room(&room);
}

static void the_device_is_synchronized_after_its_stream_has_ended(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);

    for (size_t i = 0; i < SIZES; i++) {
        leat_stream *stream;

        OK(leat_stream_create(t->device, &stream));
        test_pattern(room.in, sizes[i], 60 + i);
        memset(room.out, 0, sizes[i]);
        OK(leat_copy(stream, room.memory, room.in, sizes[i]));
        OK(leat_copy(stream, room.out, room.memory, sizes[i]));
        OK(leat_stream_destroy(stream));
        OK(leat_device_synchronize(t->device));
        EXPECT_PATTERN(room.out, sizes[i], 60 + i);
    }
    end_room(&room);
}

/* Closing the device must wait for the copies, so that the caller's buffers hold the copied bytes. It frees
 * streams and memory. */
static void a_device_is_closed_with_copies_under_way(void **state)
{
    unsigned char *in = test_buffer(MOST), *out = test_buffer(MOST);

    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        leat_device *device = test_open();
        leat_ticket *ticket, *kept[2];
        void *memory, *pinned;
        leat_stream *stream;

        OK(leat_stream_create(device, &stream));
        OK(leat_alloc(stream, sizes[i], &memory));
        pinned = test_alloc(device, LEAT_KIND_PINNED, sizes[i]);
        test_pattern(in, sizes[i], 80 + i);
        memset(out, 0, sizes[i]);
        OK(leat_launch_host(stream, be_slow, NULL));
        ticket = test_copy_start(stream, memory, in, sizes[i]);
        kept[0] = test_copy_start(stream, out, memory, sizes[i]);
        kept[1] = test_copy_start(stream, pinned, memory, sizes[i]);
        OK(leat_ticket_destroy(ticket));
        OK(leat_device_close(device));
        EXPECT_PATTERN(out, sizes[i], 80 + i);
        /* A ticket that outlives its device must be complete. */
        for (int k = 0; k < 2; k++) {
            leat_ticket_info info = test_ticket_info(kept[k]);

            assert_true(info.staged && info.done && info.status == LEAT_OK && info.arrived_bytes == sizes[i]);
            OK(leat_ticket_wait(kept[k], LEAT_COPY_POINT_STAGED, 0));
            OK(leat_ticket_wait(kept[k], LEAT_COPY_POINT_DONE, LEAT_FOREVER));
            OK(leat_ticket_destroy(kept[k]));
        }
    }
    free(in);
    free(out);
}

struct waiter {
    leat_ticket *ticket;
    leat_status status;
};

static void *wait_for_ticket(void *argument)
{
    struct waiter *waiter = argument;

    waiter->status = leat_ticket_wait(waiter->ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
    return NULL;
}

static void *close_device(void *argument)
{
    OK(leat_device_close(argument));
    return NULL;
}

/* The device is closed while a thread waits for a ticket. The close makes the copy, so the wait must succeed. */
static void a_ticket_is_waited_for_while_its_device_closes(void **state)
{
    size_t bytes = 16 * MIB;
    unsigned char *in = test_buffer(bytes), *out = test_buffer(bytes);

    (void)state;
    test_pattern(in, bytes, 90);
    for (int is_out = 0; is_out < 2; is_out++) {
        leat_device *device = test_open();
        struct waiter waiter;
        pthread_t threads[2];
        struct test_gate *gate;
        leat_stream *stream;
        void *memory;

        OK(leat_stream_create(device, &stream));
        OK(leat_alloc(stream, bytes, &memory));
        OK(leat_copy_sync(stream, memory, in, bytes));
        OK(leat_stream_synchronize(stream));
        memset(out, 0, bytes);
        gate = test_gate_close(stream);
        waiter.ticket =
            is_out ? test_copy_start(stream, out, memory, bytes) : test_copy_start(stream, memory, in, bytes);
        assert_int_equal(pthread_create(&threads[0], NULL, wait_for_ticket, &waiter), 0);
        assert_int_equal(pthread_create(&threads[1], NULL, close_device, device), 0);
        test_sleep_us(50000);
        test_gate_open(gate);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(waiter.status, LEAT_OK);
        if (is_out)
            EXPECT_PATTERN(out, bytes, 90);
        OK(leat_ticket_destroy(waiter.ticket));
    }
    free(in);
    free(out);
}

static void do_nothing(void *argument)
{
    (void)argument;
}

/* A stream ends behind long copies, which share rings. The next stream may have its address, but is not ordered
 * behind it. The host function keeps the next copy from being staged early, so its stream writes a flag at once. */
static void a_new_stream_has_rings_of_its_own(void **state)
{
    struct test_state *t = *state;
    /* More than a ring has: 32 MiB by default, 1 MiB where the CPU device is tested with rings. */
    const size_t bytes = (test_on_cpu() ? 3 * MIB : 34 * MIB) + 4321;
    unsigned char *in = test_buffer(3 * bytes), *out = test_buffer(3 * bytes);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 3 * bytes);

    test_pattern(in, 3 * bytes, 8);
    for (int round = 0; round < 3; round++) {
        leat_stream *first, *next;

        OK(leat_fill(t->stream, memory, 0, 3 * bytes));
        OK(leat_stream_synchronize(t->stream));
        OK(leat_stream_create(t->device, &first));
        for (int i = 0; i < (test_on_cpu() ? 40 : 200); i++)
            OK(leat_fill(first, memory, 0, 2 * bytes));
        for (size_t i = 0; i < 2; i++)
            OK(leat_copy(first, memory + i * bytes, in + i * bytes, bytes));
        OK(leat_stream_destroy(first));
        OK(leat_stream_create(t->device, &next));
        OK(leat_launch_host(next, do_nothing, NULL));
        OK(leat_copy(next, memory + 2 * bytes, in + 2 * bytes, bytes));
        OK(leat_device_synchronize(t->device));
        OK(leat_copy(next, out, memory, 3 * bytes));
        OK(leat_stream_synchronize(next));
        EXPECT_PATTERN(out, 3 * bytes, 8);
        OK(leat_stream_destroy(next));
    }
    OK(leat_memory_free(memory));
    free(in);
    free(out);
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(a_block_may_be_freed_behind_a_copy),
    STATE_TEST(a_block_freed_behind_a_copy_in_is_left_alone),
    STATE_TEST(copy_sync_waits_for_pageable_memory_only),
    STATE_TEST(a_stream_is_destroyed_with_copies_under_way),
    STATE_TEST(the_device_is_synchronized_after_its_stream_has_ended),
    STATE_TEST(a_new_stream_has_rings_of_its_own),
    cmocka_unit_test(a_device_is_closed_with_copies_under_way),
    cmocka_unit_test(a_ticket_is_waited_for_while_its_device_closes),
};

TEST_MAIN(tests)
