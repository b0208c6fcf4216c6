/*
 * test_message.c - tests sends and receives between two ends of a link in one process: sizes, kinds of memory,
 * tags, order, both directions, failures and ends.
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

/* ---- failures of one copy ---- */

/* After a copy has failed, the link must still move messages, also with the same tag. */
static void expect_alive(const struct test_state *room, const struct ends *ends)
{
    take_failures(room->stream);
    take_failures(room->second);
    settle(room, ends);
    send_one(room, ends, LEAT_KIND_PINNED, LEAT_KIND_PAGEABLE, 3 * MIB);
    assert_int_equal(info_of(ends->one).status, LEAT_OK);
    assert_int_equal(info_of(ends->one).sends, 0);
    assert_int_equal(info_of(ends->two).receives, 0);
}

/* The stream must return a failure once, with these words. */
static void expect_failure(leat_stream *stream, leat_status wanted, const char *words)
{
    leat_status status = leat_stream_synchronize(stream);

    assert_string_equal(leat_status_name(status), leat_status_name(wanted));
    if (!strstr(leat_last_error(), words))
        print_error("\"%s\" is not in: %s\n", words, leat_last_error());
    assert_non_null(strstr(leat_last_error(), words));
    OK(leat_stream_synchronize(stream));
}

static void test_size_mismatch(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[1]);
    struct memory src = make_memory(room->device, room->stream, LEAT_KIND_PINNED, 2 * MIB, 0);
    struct memory dst = make_memory(room->device, room->stream, LEAT_KIND_PINNED, 2 * MIB, 0);

    for (unsigned receive_first = 0; receive_first < 2; receive_first++) {
        leat_ticket *sent, *received;

        if (receive_first) {
            received = receive_start(room->second, dst.at, ends.two, 9, MIB);
            sent = send_start(room->stream, ends.one, 9, src.at, MIB + 1);
        } else {
            sent = send_start(room->stream, ends.one, 9, src.at, MIB + 1);
            received = receive_start(room->second, dst.at, ends.two, 9, MIB);
        }
        ENDS_WITH(sent, LEAT_ERROR_RANGE);
        ENDS_WITH(received, LEAT_ERROR_RANGE);
        expect_failure(room->stream, LEAT_ERROR_RANGE, "the other end receives 1048576 bytes");
        expect_failure(room->second, LEAT_ERROR_RANGE, "leat_receive of 1048576 bytes with tag 9");
        expect_bytes(room->second, &dst, GUARD_VALUE);
        expect_alive(room, &ends);
    }
    free_memory(&src);
    free_memory(&dst);
    close_ends(&ends);
}

/* Cancels a send or a receive before the other side is there. */
static void test_cancel_before(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[0]);
    struct memory src = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, MIB, 0);
    struct memory dst = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, MIB, 0);
    leat_ticket *sent, *received;

    /* The receive that the cancelled send would have met fails; the next one gets the next send. */
    sent = send_start(room->stream, ends.one, 9, src.at, MIB);
    OK(leat_ticket_cancel(sent));
    ENDS_WITH(sent, LEAT_ERROR_CANCELLED);
    ENDS_WITH(receive_start(room->second, dst.at, ends.two, 9, MIB), LEAT_ERROR_LINK);
    expect_failure(room->second, LEAT_ERROR_LINK, "has stopped the copy");
    expect_alive(room, &ends);

    /* A cancelled receive that no send has met leaves nothing behind. */
    received = receive_start(room->second, dst.at, ends.two, 9, MIB);
    OK(leat_ticket_cancel(received));
    ENDS_WITH(received, LEAT_ERROR_CANCELLED);
    expect_alive(room, &ends);
    free_memory(&src);
    free_memory(&dst);
    close_ends(&ends);
}

/* The tickets stay alive after the cancellation: the other end must learn of it at once. */
static void test_cancel_in_the_middle(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[1]);
    size_t bytes = 48 * MIB;
    struct memory src = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, bytes, 0);
    struct memory dst = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, bytes, 0);

    for (unsigned round = 0; round < 40; round++) {
        leat_ticket *sent = send_start(room->stream, ends.one, 9, src.at, bytes);
        leat_ticket *received = receive_start(room->second, dst.at, ends.two, 9, bytes);
        leat_ticket *stopped = round % 2 ? sent : received, *other = round % 2 ? received : sent;
        leat_status one, two;

        while (info_of(ends.one).sends && test_ticket_info(received).arrived_bytes < (round % 20) * MIB)
            test_sleep_us(20);
        OK(leat_ticket_cancel(stopped));
        two = leat_ticket_wait(other, LEAT_COPY_POINT_DONE, LONG_NS);
        one = end_of(stopped);
        OK(leat_ticket_destroy(other));
        assert_true(one == LEAT_OK || one == LEAT_ERROR_CANCELLED);
        assert_true(two == LEAT_OK || two == LEAT_ERROR_LINK);
        take_failures(room->second);
        expect_guards(room->second, &dst);
        expect_alive(room, &ends);
    }
    free_memory(&src);
    free_memory(&dst);
    close_ends(&ends);
}

static void test_deadline(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[0]);
    struct memory memory = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, MIB, 0);
    leat_copy_options options = LEAT_COPY_OPTIONS_INIT;
    leat_ticket *ticket;

    options.deadline_ns = 5000000;
    OK(leat_receive_start(room->second, memory.at, ends.two, 9, MIB, &options, &ticket));
    ENDS_WITH(ticket, LEAT_ERROR_DEADLINE);
    expect_alive(room, &ends);
    OK(leat_send_start(room->stream, ends.one, 9, memory.at, MIB, &options, &ticket));
    ENDS_WITH(ticket, LEAT_ERROR_DEADLINE);
    ENDS_WITH(receive_start(room->second, memory.at, ends.two, 9, MIB), LEAT_ERROR_LINK);
    expect_alive(room, &ends);
    free_memory(&memory);
    close_ends(&ends);
}

/* A deadline that is over in the call: the copy never begins, and still fails at the other end, so that the next ones
 * meet each other. */
static void test_deadline_in_the_call(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[0]);
    leat_copy_options options = LEAT_COPY_OPTIONS_INIT;
    static const size_t lengths[] = {1, 4096, 200000};
    leat_ticket *ticket, *other;
    leat_status status;

    options.deadline_ns = 1;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct memory src = make_memory(room->device, room->stream, LEAT_KIND_PAGEABLE, lengths[i], 0);
        struct memory dst = make_memory(room->device, room->stream, LEAT_KIND_PAGEABLE, lengths[i], 0);

        fill_memory(room->stream, &src, i);
        OK(leat_send_start(room->stream, ends.one, 9, src.at, lengths[i], &options, &ticket));
        ENDS_WITH(ticket, LEAT_ERROR_DEADLINE);
        ENDS_WITH(receive_start(room->second, dst.at, ends.two, 9, lengths[i]), LEAT_ERROR_LINK);
        expect_failure(room->second, LEAT_ERROR_LINK, "has stopped the copy");
        other = send_start(room->stream, ends.one, 9, src.at, lengths[i]);
        OK(leat_receive_start(room->second, dst.at, ends.two, 9, lengths[i], &options, &ticket));
        ENDS_WITH(ticket, LEAT_ERROR_DEADLINE);
        status = end_of(other);
        assert_true(status == LEAT_OK || status == LEAT_ERROR_LINK); /* OK: all bytes were sent in between */
        take_failures(room->stream);
        expect_bytes(room->second, &dst, GUARD_VALUE);
        OK(leat_send(room->stream, ends.one, 9, src.at, lengths[i]));
        OK(leat_receive(room->second, dst.at, ends.two, 9, lengths[i]));
        OK(leat_stream_synchronize(room->second));
        expect_message(room->second, &dst, i);
        free_memory(&src);
        free_memory(&dst);
    }
    close_ends(&ends);
}

/* ---- head of line ---- */

/* Two receives on one link: the second one, whose bytes come first, is on a stream that waits for the first one.
 */
static void head_of_line(const struct test_state *room, const struct link_setup *setup, size_t bytes)
{
    struct ends ends = make_ends(setup);
    struct memory src[2], dst[2];
    leat_stream *senders[2];
    leat_event *event;

    OK(leat_event_create(room->device, &event));
    for (unsigned i = 0; i < 2; i++) {
        OK(leat_stream_create(room->device, &senders[i]));
        src[i] = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, bytes, 0);
        dst[i] = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, bytes, 0);
        fill_memory(room->stream, &src[i], i);
    }
    OK(leat_receive(room->stream, dst[0].at, ends.two, 0, bytes));
    OK(leat_event_record(room->stream, event));
    OK(leat_stream_wait(room->second, event));
    OK(leat_receive(room->second, dst[1].at, ends.two, 1, bytes));
    OK(leat_send(senders[1], ends.one, 1, src[1].at, bytes));
    test_sleep_us(20000); /* so that its bytes are in front */
    OK(leat_send(senders[0], ends.one, 0, src[0].at, bytes));
    OK(leat_stream_synchronize(room->second));
    OK(leat_stream_synchronize(room->stream));
    for (unsigned i = 0; i < 2; i++) {
        expect_message(room->stream, &dst[i], i);
        OK(leat_stream_synchronize(senders[i]));
        OK(leat_stream_destroy(senders[i]));
        free_memory(&src[i]);
        free_memory(&dst[i]);
    }
    OK(leat_event_destroy(event));
    close_ends(&ends);
}

static void test_head_of_line(void **state)
{
    for (size_t i = 0; i < SETUPS; i++) {
        head_of_line(*state, &setups[i], MIB / 2);
        head_of_line(*state, &setups[i], 40 * MIB);
    }
}

/* A send of which nothing was received yet must not hold up the other sends of its link. */
static void test_blocked_receiver(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[1]);
    struct memory src = make_memory(room->device, room->stream, LEAT_KIND_PINNED, 40 * MIB, 0);
    struct memory dst = make_memory(room->device, room->stream, LEAT_KIND_PINNED, 40 * MIB, 0);
    struct test_gate *gate = test_gate_close(room->second);
    leat_stream *sender, *receiver;

    fill_memory(room->stream, &src, 5);
    OK(leat_stream_create(room->device, &sender));
    OK(leat_stream_create(room->device, &receiver));
    OK(leat_receive(room->second, dst.at, ends.two, 1, src.bytes));
    OK(leat_send(sender, ends.one, 1, src.at, src.bytes));
    for (unsigned i = 0; i < 20; i++) {
        struct test_state other = {room->device, room->stream, receiver};

        send_one(&other, &ends, LEAT_KIND_PINNED, LEAT_KIND_PINNED, i % 2 ? 100 : 10 * MIB);
    }
    test_gate_open(gate);
    OK(leat_stream_synchronize(room->second));
    OK(leat_stream_synchronize(sender));
    expect_message(room->second, &dst, 5);
    OK(leat_stream_destroy(sender));
    OK(leat_stream_destroy(receiver));
    free_memory(&src);
    free_memory(&dst);
    close_ends(&ends);
}

/* ---- ends of links and devices ---- */

/* Closes one end while copies wait or are under way. */
static void test_close(void **state)
{
    const struct test_state *room = *state;
    size_t bytes = 48 * MIB;
    struct memory src = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, bytes, 0);
    struct memory dst = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, bytes, 0);
    unsigned before = count_descriptors();

    for (unsigned round = 0; round < 24; round++) {
        struct ends ends = make_ends(&setups[round % SETUPS]);
        leat_ticket *sent = send_start(room->stream, ends.one, 1, src.at, bytes);
        leat_ticket *received = receive_start(room->second, dst.at, ends.two, 1, bytes);
        leat_ticket *alone = round % 2 ? receive_start(room->second, dst.at, ends.two, 2, 10) : NULL;
        leat_status one, two;

        while (test_ticket_info(received).arrived_bytes < (round % 4) * 5 * MIB)
            test_sleep_us(20);
        OK(leat_link_close(round % 3 ? ends.one : ends.two));
        one = end_of(sent);
        two = end_of(received);
        assert_true(one == LEAT_OK || one == LEAT_ERROR_LINK);
        assert_true(two == LEAT_OK || two == LEAT_ERROR_LINK);
        if (alone)
            ENDS_WITH(alone, LEAT_ERROR_LINK);
        wait_for_failure(round % 3 ? ends.two : ends.one);
        REFUSED(leat_send(room->stream, round % 3 ? ends.two : ends.one, 1, src.at, 1), LEAT_ERROR_LINK,
                "has closed the link");
        OK(leat_link_close(round % 3 ? ends.two : ends.one));
        take_failures(room->stream);
        take_failures(room->second);
        expect_guards(room->second, &dst);
    }
    expect_descriptors(before);
    free_memory(&src);
    free_memory(&dst);
}

/* What complete sends have sent must arrive although the sender closes the link at once. */
static void test_close_after_send(void **state)
{
    const struct test_state *room = *state;
    struct memory src = make_memory(room->device, room->stream, LEAT_KIND_PINNED, 100000, 0);
    struct memory dst = make_memory(room->device, room->stream, LEAT_KIND_PINNED, 100000, 0);

    fill_memory(room->stream, &src, 77);
    for (unsigned round = 0; round < 20; round++) {
        struct ends ends = make_ends(&setups[round % 2]);
        struct test_gate *gate = test_gate_close(room->second);
        leat_ticket *received = receive_start(room->second, dst.at, ends.two, 1, src.bytes);

        /* The other end has sent something too that is not read any more: WANT of another receive. */
        ENDS_WITH(send_start(room->stream, ends.one, 1, src.at, src.bytes), LEAT_OK);
        OK(leat_receive(room->second, dst.at, ends.two, 2, 1));
        OK(leat_link_close(ends.one));
        test_gate_open(gate);
        ENDS_WITH(received, LEAT_OK);
        take_failures(room->second);
        expect_message(room->second, &dst, 77);
        OK(leat_link_close(ends.two));
    }
    free_memory(&src);
    free_memory(&dst);
}

static void test_device_close(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[0]);
    unsigned char *dst = test_buffer(40 * MIB), *src = test_buffer(40 * MIB);

    for (unsigned round = 0; round < 6; round++) {
        leat_device *device;
        leat_stream *stream;
        leat_ticket *received, *sent = NULL;
        leat_status status;

        OK(leat_device_open("cpu:1", &device));
        OK(leat_stream_create(device, &stream));
        OK(leat_receive_start(stream, dst, ends.two, 1, 40 * MIB, NULL, &received));
        if (round > 1) {
            sent = send_start(room->stream, ends.one, 1, src, 40 * MIB);
            while (round > 3 && test_ticket_info(received).arrived_bytes < 4 * MIB)
                test_sleep_us(20);
        }
        (void)leat_device_close(device);
        status = end_of(received);
        assert_true(status == LEAT_ERROR_CANCELLED || status == LEAT_OK);
        if (sent) {
            status = end_of(sent);
            assert_true(status == LEAT_ERROR_LINK || status == LEAT_OK);
        }
        take_failures(room->stream);
    }
    expect_alive(room, &ends);
    free(src);
    free(dst);
    close_ends(&ends);
}

/* ---- silence ---- */

static void test_signs_of_life(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&(struct link_setup){.transport = TRANSPORT_TCP, .idle_ns = SECOND / 5});
    int fds[2];
    leat_link *alone;

    test_sleep_us(1000000); /* both ends send signs of life, so the link lives */
    expect_alive(room, &ends);
    close_ends(&ends);

    make_sockets(TRANSPORT_UNIX, fds);
    alone = link_of(fds[0], &(struct link_setup){.idle_ns = SECOND / 5}, "nobody");
    wait_for_failure(alone);
    REFUSED(leat_send(room->stream, alone, 1, room, 1), LEAT_ERROR_LINK, "silent");
    OK(leat_link_close(alone));
    close(fds[1]);
}

/* ---- bad calls ---- */

static void test_bad_calls(void **state)
{
    const struct test_state *room = *state;
    struct ends ends = make_ends(&setups[0]);
    leat_link_info info = LEAT_LINK_INFO_INIT;
    leat_ticket *ticket;
    char byte = 0;

    REFUSED(leat_send(room->stream, NULL, 1, &byte, 1), LEAT_ERROR_HANDLE, "link is NULL");
    REFUSED(leat_receive(room->stream, &byte, NULL, 1, 1), LEAT_ERROR_HANDLE, "link is NULL");
    REFUSED(leat_send_start(room->stream, ends.one, 1, &byte, 1, NULL, NULL), LEAT_ERROR_INVALID,
            "ticket is NULL");
    REFUSED(leat_receive_start(room->stream, &byte, ends.one, 1, 1, NULL, NULL), LEAT_ERROR_INVALID, "ticket");
    REFUSED(leat_send(NULL, ends.one, 1, &byte, 1), LEAT_ERROR_HANDLE, "leat_send");
    REFUSED(leat_send(room->stream, ends.one, 1, NULL, 1), LEAT_ERROR_POINTER, "leat_send");
    REFUSED(leat_receive_start(room->stream, &byte, ends.one, 1, 1, &(leat_copy_options){.size = 3}, &ticket),
            LEAT_ERROR_INVALID, "leat_receive_start");
    REFUSED(leat_link_get_info(NULL, &info), LEAT_ERROR_HANDLE, "NULL");
    REFUSED(leat_link_get_info(ends.one, NULL), LEAT_ERROR_INVALID, "NULL");
    info.size = 1;
    REFUSED(leat_link_get_info(ends.one, &info), LEAT_ERROR_INVALID, "info->size");
    OK(leat_link_close(NULL));
    expect_alive(room, &ends);
    close_ends(&ends);
}

/* Records that are larger than the socket's buffer: the rest of the last one is sent although no other bytes follow,
 * no sign of life comes, and the link is closed at once. */
static void test_rest_of_a_record(void **state)
{
    static const size_t lengths[] = {60000, 3 * 65536 + 50000};
    const struct link_setup setup = {
        .transport = TRANSPORT_UNIX, .idle_ns = 3600 * SECOND, .window_bytes = MIB, .encrypted = true};
    const struct test_state *room = *state;
    const int small = 4096;

    for (unsigned i = 0; i < 4; i++) {
        struct memory src = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, lengths[i / 2], 0);
        struct memory dst = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, lengths[i / 2], 0);
        leat_ticket *received, *sent;
        struct ends ends;
        int fds[2];

        fill_memory(room->stream, &src, i);
        make_sockets(TRANSPORT_UNIX, fds);
        for (unsigned end = 0; end < 2; end++)
            assert_int_equal(setsockopt(fds[end], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
        ends = (struct ends){link_of(fds[0], &setup, "the second end"), link_of(fds[1], &setup, "the first end")};
        received = receive_start(room->second, dst.at, ends.two, 1, dst.bytes);
        sent = send_start(room->stream, ends.one, 1, src.at, src.bytes);
        ENDS_WITH(sent, LEAT_OK);
        if (i % 2)
            OK(leat_link_close(ends.one));
        ENDS_WITH(received, LEAT_OK);
        expect_message(room->stream, &dst, i);
        if (i % 2 == 0)
            OK(leat_link_close(ends.one));
        OK(leat_link_close(ends.two));
        free_memory(&src);
        free_memory(&dst);
    }
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(test_sizes),
    STATE_TEST(test_kinds),
    STATE_TEST(test_nothing),
    STATE_TEST(test_tags),
    STATE_TEST(test_both_directions),
    STATE_TEST(test_size_mismatch),
    STATE_TEST(test_cancel_before),
    STATE_TEST(test_cancel_in_the_middle),
    STATE_TEST(test_deadline),
    STATE_TEST(test_deadline_in_the_call),
    STATE_TEST(test_head_of_line),
    STATE_TEST(test_blocked_receiver),
    STATE_TEST(test_close),
    STATE_TEST(test_close_after_send),
    STATE_TEST(test_device_close),
    STATE_TEST(test_signs_of_life),
    STATE_TEST(test_rest_of_a_record),
    STATE_TEST(test_bad_calls),
};

LINK_TEST_MAIN(tests)
