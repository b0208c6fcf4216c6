/*
 * test_copy_rails.c - tests copies to and from one device over the host links of several devices.
 *
 * Needs two devices of one driver. Copies of pinned memory always use both links. Copies of pageable memory use
 * both on a GPU, or on the CPU device with LEAT_COPY_STAGE=1.
 */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define BYTES (65 * MIB + 4099)

struct room {
    leat_device *other;
    unsigned char *pinned, *pageable, *memory, *seen;
};

static struct room make_room(leat_device *device)
{
    struct room room = {.other = test_open_other()};

    if (!room.other)
        SKIP_MISSING("needs two devices of one driver");
    room.pinned = test_alloc(device, LEAT_KIND_PINNED, BYTES);
    room.pageable = test_buffer(BYTES);
    room.memory = test_alloc(device, LEAT_KIND_DEVICE, BYTES);
    room.seen = test_buffer(BYTES);
    return room;
}

static void end_room(struct room *room)
{
    OK(leat_memory_free(room->memory));
    OK(leat_memory_free(room->pinned));
    free(room->pageable);
    free(room->seen);
    OK(leat_device_close(room->other));
}

static void all_bytes_arrive(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device);

    OK(leat_copy_set_rails(t->device, &room.other, 1));
    for (uint64_t seed = 1; seed <= 4; seed++) {
        unsigned char *from = seed & 1 ? room.pinned : room.pageable;

        test_pattern(from, BYTES, seed);
        OK(leat_copy(t->stream, room.memory, from, BYTES));
        OK(leat_copy_sync(t->stream, room.seen, room.memory, BYTES));
        EXPECT_PATTERN(room.seen, BYTES, seed);
    }
    OK(leat_copy_set_rails(t->device, NULL, 0));
    test_pattern(room.pinned, BYTES, 9);
    OK(leat_copy(t->stream, room.memory, room.pinned, BYTES));
    OK(leat_copy_sync(t->stream, room.seen, room.memory, BYTES));
    EXPECT_PATTERN(room.seen, BYTES, 9);
    end_room(&room);
}

/* A rail copy must not start before its stream reaches it, and later work must see all of its bytes. */
static void the_order_of_the_stream_is_kept(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device);
    struct test_gate *gate;

    OK(leat_copy_set_rails(t->device, &room.other, 1));
    test_pattern(room.pinned, BYTES, 1);
    OK(leat_copy(t->stream, room.memory, room.pinned, BYTES));
    OK(leat_stream_synchronize(t->stream));
    for (int pageable = 0; pageable < 2; pageable++) {
        unsigned char *from = pageable ? room.pageable : room.pinned;

        gate = test_gate_close(t->stream);
        OK(leat_copy(t->stream, room.seen, room.memory, BYTES));
        test_pattern(from, BYTES, 2 + (uint64_t)pageable);
        OK(leat_copy(t->stream, room.memory, from, BYTES));
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(room.seen, BYTES, 1 + (uint64_t)pageable);
        OK(leat_copy_sync(t->stream, room.seen, room.memory, BYTES));
        EXPECT_PATTERN(room.seen, BYTES, 2 + (uint64_t)pageable);
    }
    end_room(&room);
}

/* A rail copy whose stream is held up must not delay the copies of other streams. */
static void held_copies_hold_nobody_up(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device);
    leat_stream *streams[6];
    struct test_gate *gate;

    OK(leat_copy_set_rails(t->device, &room.other, 1));
    test_pattern(room.pinned, BYTES, 5);
    for (int i = 0; i < 6; i++)
        OK(leat_stream_create(t->device, &streams[i]));
    gate = test_gate_close(streams[0]);
    OK(leat_copy(streams[0], room.memory, room.pinned, BYTES));
    for (int i = 1; i < 6; i++) {
        void *memory = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);

        OK(leat_copy(streams[i], memory, room.pinned, BYTES));
        OK(leat_copy_sync(streams[i], room.seen, memory, BYTES));
        EXPECT_PATTERN(room.seen, BYTES, 5);
        OK(leat_memory_free(memory));
    }
    /* The gate has not opened itself, so the other copies did not wait for the gate. */
    assert_int_equal(atomic_load(&gate->passed), 0);
    test_gate_open(gate);
    OK(leat_stream_synchronize(streams[0]));
    for (int i = 0; i < 6; i++)
        OK(leat_stream_destroy(streams[i]));
    end_room(&room);
}

static void a_ticket_knows_the_end(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device);
    leat_ticket *ticket;

    OK(leat_copy_set_rails(t->device, &room.other, 1));
    test_pattern(room.pageable, BYTES, 6);
    memcpy(room.pinned, room.pageable, BYTES);
    for (int pageable = 0; pageable < 2; pageable++) {
        unsigned char *from = pageable ? room.pageable : room.pinned;

        ticket = test_copy_start(t->stream, room.memory, from, BYTES);
        OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
        memset(from, 0, BYTES);
        OK(leat_ticket_destroy(ticket));
        OK(leat_copy_sync(t->stream, room.seen, room.memory, BYTES));
        EXPECT_PATTERN(room.seen, BYTES, 6);
        memset(room.seen, 0, BYTES);
        OK(leat_copy_sync(t->stream, room.memory, room.seen, BYTES));
    }
    end_room(&room);
}

/* A copy of pageable memory with a deadline that has passed must not count as made. */
static void a_ticket_tells_a_deadline(void **state)
{
    leat_copy_options options = {.size = sizeof options, .deadline_ns = 1};
    struct test_state *t = *state;
    struct room room = make_room(t->device);
    leat_ticket *ticket;
    leat_status status;

    OK(leat_copy_set_rails(t->device, &room.other, 1));
    test_pattern(room.pageable, BYTES, 7);
    OK(leat_copy_start(t->stream, room.memory, room.pageable, BYTES, &options, &ticket));
    status = leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
    if (status != LEAT_ERROR_DEADLINE) {
        OK(status);
        OK(leat_copy_sync(t->stream, room.seen, room.memory, BYTES));
        EXPECT_PATTERN(room.seen, BYTES, 7);
    }
    OK(leat_ticket_destroy(ticket));
    (void)leat_stream_synchronize(t->stream);
    end_room(&room);
}

/* Either device may be closed first, even while a copy uses both. */
static void devices_close_in_any_order(void **state)
{
    (void)state;
    for (int helper_first = 0; helper_first < 2; helper_first++) {
        leat_device *device, *other = test_open_other();
        unsigned char *pinned;
        leat_stream *stream;
        void *memory;

        if (!other)
            SKIP_MISSING("needs two devices of one driver");
        OK(leat_device_open(test_device_name(), &device));
        OK(leat_stream_create(device, &stream));
        pinned = test_alloc(device, LEAT_KIND_PINNED, BYTES);
        memory = test_alloc(device, LEAT_KIND_DEVICE, BYTES);
        OK(leat_copy_set_rails(device, &other, 1));
        OK(leat_copy(stream, memory, pinned, BYTES));
        if (helper_first)
            OK(leat_device_close(other));
        OK(leat_copy(stream, memory, pinned, BYTES));
        OK(leat_stream_synchronize(stream));
        OK(leat_memory_free(memory));
        OK(leat_memory_free(pinned));
        OK(leat_stream_destroy(stream));
        OK(leat_device_close(device));
        if (!helper_first)
            OK(leat_device_close(other));
    }
}

static void wrong_helpers(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    leat_device *twice[] = {other, other}, *many[9];

    if (!other)
        SKIP_MISSING("needs two devices of one driver");
    for (int i = 0; i < 9; i++)
        many[i] = other;
    REFUSED(leat_copy_set_rails(t->device, NULL, 1), LEAT_ERROR_INVALID, "NULL");
    REFUSED(leat_copy_set_rails(t->device, &t->device, 1), LEAT_ERROR_INVALID, "twice");
    REFUSED(leat_copy_set_rails(t->device, twice, 2), LEAT_ERROR_INVALID, "twice");
    REFUSED(leat_copy_set_rails(t->device, many, 9), LEAT_ERROR_INVALID, "at most 8");
    REFUSED(leat_copy_set_rails(NULL, &other, 1), LEAT_ERROR_HANDLE, "device");
    OK(leat_copy_set_rails(t->device, NULL, 0));
    OK(leat_device_close(other));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(all_bytes_arrive),
    STATE_TEST(the_order_of_the_stream_is_kept),
    STATE_TEST(held_copies_hold_nobody_up),
    STATE_TEST(a_ticket_knows_the_end),
    STATE_TEST(a_ticket_tells_a_deadline),
    STATE_TEST(devices_close_in_any_order),
    STATE_TEST(wrong_helpers),
};

TEST_MAIN(tests)
