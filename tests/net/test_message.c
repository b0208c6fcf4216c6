/*
 * test_message.c - tests sends and receives between two ends of a link in one process: sizes, kinds of memory, tags,
 * order, both directions, failures and ends.
 */
#include "link_room.h"

static const size_t sizes[] = {1, 7, 4096, 65537, MIB, MIB + 1, 5 * MIB + 3, 64 * MIB};
#define SIZES (sizeof sizes / sizeof sizes[0])

static const struct link_setup setups[] = {
    {.transport = TRANSPORT_UNIX},
    {.transport = TRANSPORT_TCP},
    {.transport = TRANSPORT_TCP, .window_bytes = 64 * KIB},
};
#define SETUPS (sizeof setups / sizeof setups[0])

/* ---- bytes ---- */

static void send_one(const struct test_state *room, const struct ends *ends, leat_kind from, leat_kind to,
                     size_t bytes)
{
    struct memory src = make_memory(room->device, room->stream, from, bytes, 3);
    struct memory dst = make_memory(room->device, room->stream, to, bytes, 5);
    leat_ticket *sent, *received;

    fill_memory(room->stream, &src, bytes);
    sent = send_start(room->stream, ends->one, 9, src.at, bytes);
    received = receive_start(room->second, dst.at, ends->two, 9, bytes);
    ENDS_WITH(sent, LEAT_OK);
    ENDS_WITH(received, LEAT_OK);
    expect_message(room->second, &dst, bytes);
    free_memory(&src);
    free_memory(&dst);
}

static void test_sizes(void **state)
{
    const struct test_state *room = *state;

    for (size_t s = 0; s < SETUPS; s++) {
        struct ends ends = make_ends(&setups[s]);

        for (size_t i = 0; i < SIZES; i++)
            send_one(room, &ends, LEAT_KIND_DEVICE, LEAT_KIND_DEVICE, sizes[i]);
        close_ends(&ends);
    }
}

static void test_kinds(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[1]);

    for (unsigned from = 0; from < MEMORY_KINDS; from++)
        for (unsigned to = 0; to < MEMORY_KINDS; to++) {
            send_one(room, &ends, memory_kinds[from], memory_kinds[to], 1);
            send_one(room, &ends, memory_kinds[from], memory_kinds[to], 3 * MIB + 11);
        }
    close_ends(&ends);
}

static void test_nothing(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[0]);

    OK(leat_send(room->stream, ends.one, 1, NULL, 0));
    OK(leat_receive(room->stream, NULL, ends.two, 1, 0));
    ENDS_WITH(send_start(room->stream, ends.one, 1, NULL, 0), LEAT_OK);
    OK(leat_stream_synchronize(room->stream));
    assert_int_equal(info_of(ends.one).sends, 0);
    close_ends(&ends);
}

/* ---- order ---- */

enum { MESSAGES = 40, TAGS = 3 };

/* Sends many messages with a few tags on two streams. With one tag they must come in order. */
static void test_tags(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[0]);
    struct memory src[MESSAGES], dst[MESSAGES];

    for (unsigned i = 0; i < MESSAGES; i++) {
        src[i] = make_memory(room->device, room->stream, memory_kinds[i % MEMORY_KINDS], 50000, i % 8);
        dst[i] = make_memory(room->device, room->stream, memory_kinds[i / 3 % MEMORY_KINDS], 50000, i % 8);
        fill_memory(room->stream, &src[i], i);
    }
    /* Receives of the last tag first: messages with other tags must not wait for them. */
    for (unsigned tag = TAGS; tag-- > 0;)
        for (unsigned i = tag; i < MESSAGES; i += TAGS)
            OK(leat_receive(room->second, dst[i].at, ends.two, tag, dst[i].bytes));
    for (unsigned tag = TAGS; tag-- > 0;)
        for (unsigned i = tag; i < MESSAGES; i += TAGS)
            OK(leat_send(room->stream, ends.one, tag, src[i].at, src[i].bytes));
    OK(leat_stream_synchronize(room->stream));
    OK(leat_stream_synchronize(room->second));
    for (unsigned i = 0; i < MESSAGES; i++) {
        expect_message(room->second, &dst[i], i);
        free_memory(&src[i]);
        free_memory(&dst[i]);
    }
    close_ends(&ends);
}

static void test_both_directions(void **state)
{
    const struct test_state *room = *state;
    leat_stream *streams[4];
    struct memory src[2], dst[2];
    struct ends ends = make_ends(&(struct link_setup){.transport = TRANSPORT_TCP, .window_bytes = 300000});
    leat_link *links[2] = {ends.one, ends.two};

    for (unsigned i = 0; i < 4; i++)
        OK(leat_stream_create(room->device, &streams[i]));
    for (unsigned i = 0; i < 2; i++) {
        src[i] = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, 20 * MIB + i, 0);
        dst[i] = make_memory(room->device, room->stream, LEAT_KIND_PAGEABLE, 20 * MIB + i, 0);
        fill_memory(room->stream, &src[i], i);
    }
    for (unsigned i = 0; i < 2; i++) {
        OK(leat_send(streams[i], links[i], 1, src[i].at, src[i].bytes));
        OK(leat_receive(streams[2 + i], dst[i].at, links[1 - i], 1, dst[i].bytes));
    }
    for (unsigned i = 0; i < 4; i++)
        OK(leat_stream_synchronize(streams[i]));
    for (unsigned i = 0; i < 2; i++) {
        expect_message(room->stream, &dst[i], i);
        free_memory(&src[i]);
        free_memory(&dst[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        OK(leat_stream_destroy(streams[i]));
    close_ends(&ends);
}

const struct CMUnitTest tests[] = {
    STATE_TEST(test_sizes), STATE_TEST(test_kinds), STATE_TEST(test_nothing), STATE_TEST(test_tags),
    STATE_TEST(test_both_directions),
};

TEST_MAIN(tests)
