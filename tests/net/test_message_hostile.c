/*
 * test_message_hostile.c - tests that a link fails, and says why, when the other end breaks the protocol; and that
 * it then has written nothing around its destinations.
 */
#include "hostile.h"

enum { FRAMES_MOST = 4 };

struct scene {
    const char *words; /* of the link's reason */
    struct leatn_frame frames[FRAMES_MOST];
    const char *name;
};

#define FRAME(...) ((struct leatn_frame){__VA_ARGS__})
#define F(type) LEATN_FRAME_##type

static const struct scene scenes[] = {
    {"receive that does not exist", {{.type = F(DATA), .receive = 99, .tail_bytes = 1}}, NULL},
    {"wrong offset", {{.type = F(DATA), .receive = 1, .offset = 1, .tail_bytes = 1}}, NULL},
    {"without credit", {{.type = F(DATA), .receive = 1, .tail_bytes = 101}}, NULL},
    {"without credit", {{.type = F(DATA), .receive = 2, .tail_bytes = WINDOW + 1}}, NULL},
    {"receive that does not exist",
     {{.type = F(DATA), .receive = 1, .tail_bytes = 100}, {.type = F(DATA), .receive = 1, .tail_bytes = 1}},
     NULL},
    {"wrong offset",
     {{.type = F(DATA), .receive = 2, .tail_bytes = 50}, {.type = F(DATA), .receive = 2, .tail_bytes = 50}},
     NULL},
    {"announced receive 5 after receive 5",
     {{.type = F(WANT), .receive = 5, .tag = 9, .bytes = 1, .credit = 1},
      {.type = F(WANT), .receive = 5, .tag = 9, .bytes = 1, .credit = 1}},
     NULL},
    {"has not announced", {{.type = F(CREDIT), .receive = 1, .credit = 5}}, NULL},
    {"wrong credit",
     {{.type = F(WANT), .receive = 5, .tag = 9, .bytes = 10, .credit = 5},
      {.type = F(CREDIT), .receive = 5, .credit = 5}},
     NULL},
    {"wrong credit",
     {{.type = F(WANT), .receive = 5, .tag = 9, .bytes = 10, .credit = 5},
      {.type = F(CREDIT), .receive = 5, .credit = 11}},
     NULL},
    {"has not announced", {{.type = F(UNWANT), .receive = 1}}, NULL},
    {"nobody stopped", {{.type = F(GONE), .receive = 1}}, NULL},
    {"receive that does not exist", {{.type = F(STOP), .receive = 9, .status = LEAT_ERROR_LINK}}, NULL},
    {"a put that does not exist", {{.type = F(WANT_PUT), .receive = 1, .put = 2, .credit = 1}}, NULL},
    {"a put that does not exist", {{.type = F(WANT_PUT), .receive = 1, .put = 1, .credit = 5001}}, NULL},
    {"too early", {{.type = F(PUT_DONE), .put = 1}}, NULL},
    {"wrong name or number",
     {{.type = F(PUT), .put = 7, .bytes = 1, .tail_bytes = 1},
      {.type = F(PUT), .put = 7, .bytes = 1, .tail_bytes = 1}},
     "a"},
    {"wrong name or number", {{.type = F(GET), .receive = 7, .bytes = 1, .credit = 1, .tail_bytes = 3}}, "a\0b"},
    {"has closed the link", {{.type = F(BYE)}}, NULL},
    {"process ended", {{.type = F(ALIVE)}}, NULL},
};

static size_t put_frame(unsigned char *at, const struct leatn_frame *frame, const char *name)
{
    leatn_frame_encode(frame, at);
    if (frame->type == LEATN_FRAME_DATA)
        memset(at + LEATN_HEADER_BYTES, 7, frame->tail_bytes);
    else if (frame->tail_bytes)
        memcpy(at + LEATN_HEADER_BYTES, name ? name : "", frame->tail_bytes);
    return LEATN_HEADER_BYTES + frame->tail_bytes;
}

static void expect_reason(struct hostile *hostile, const char *words)
{
    wait_for_failure(hostile->link);
    assert_int_equal(leat_send(hostile->streams[0], hostile->link, 1, hostile->memory[0].at, 1), LEAT_ERROR_LINK);
    if (!strstr(leat_last_error(), words))
        print_error("\"%s\" is not in: %s\n", words, leat_last_error());
    assert_non_null(strstr(leat_last_error(), words));
}

static void test_scenes(void **state)
{
    unsigned char *bytes = test_buffer(MIB);
    struct hostile hostile;

    (void)state;
    hostile_open(&hostile);
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        size_t count = 0;

        for (unsigned j = 0; j < FRAMES_MOST && scenes[i].frames[j].type; j++)
            count += put_frame(bytes + count, &scenes[i].frames[j], scenes[i].name);
        hostile_begin(&hostile);
        hostile_send(&hostile, bytes, count, true);
        if (scenes[i].frames[0].type == LEATN_FRAME_ALIVE)
            shutdown(hostile.fd, SHUT_WR);
        expect_reason(&hostile, scenes[i].words);
        hostile_end(&hostile);
    }
    hostile_close(&hostile);
    free(bytes);
}

static void test_no_frames(void **state)
{
    struct hostile hostile;

    (void)state;
    hostile_open(&hostile);
    hostile_begin(&hostile);
    hostile_send(&hostile, "GET / HTTP/1.1\r\nHost: example.org\r\nAccept: text/html\r\n\r\n", 57, true);
    expect_reason(&hostile, "wrong frame");
    hostile_end(&hostile);
    hostile_close(&hostile);
}

/* Ends the bytes in the middle of a header, and in the middle of a fragment. */
static void test_cut(void **state)
{
    unsigned char bytes[200] = {0};
    struct hostile hostile;

    (void)state;
    hostile_open(&hostile);
    (void)put_frame(bytes, &FRAME(.type = F(DATA), .receive = 1, .tail_bytes = 100), NULL);
    for (size_t count = 1; count < 140; count += 17) {
        hostile_begin(&hostile);
        hostile_send(&hostile, bytes, count, true);
        shutdown(hostile.fd, SHUT_WR);
        expect_reason(&hostile, "process ended");
        hostile_end(&hostile);
    }
    hostile_close(&hostile);
}

/* Announces more receives than an end may have. */
static void test_too_many(void **state)
{
    enum { WANTS = 65537 };
    unsigned char *bytes = test_buffer((size_t)WANTS * LEATN_HEADER_BYTES);
    struct hostile hostile;

    (void)state;
    hostile_open(&hostile);
    hostile_begin(&hostile);
    for (size_t i = 0; i < WANTS; i++)
        (void)put_frame(bytes + i * LEATN_HEADER_BYTES,
                        &FRAME(.type = F(WANT), .receive = i + 1, .tag = 100 + i, .bytes = 1, .credit = 1), NULL);
    hostile_send(&hostile, bytes, (size_t)WANTS * LEATN_HEADER_BYTES, true);
    expect_reason(&hostile, "more than 65536 receives");
    hostile_end(&hostile);
    hostile_close(&hostile);
    free(bytes);
}

/* Asks for answers and never reads them: the link must not keep more and more of them. Receives that are ended again,
 * or gets from a process without a region, which are refused at once. */
static void answers_not_read(bool gets)
{
    enum { ASKED = 300000 };
    unsigned char *bytes = test_buffer((size_t)ASKED * 2 * LEATN_HEADER_BYTES);
    struct hostile hostile;
    size_t count = 0;

    hostile_open(&hostile);
    hostile_begin(&hostile);
    if (gets) {
        OK(leat_unexpose(hostile.region));
        hostile.region = NULL;
    }
    for (size_t i = 1; i <= ASKED; i++) {
        if (gets) {
            count += put_frame(bytes + count, &FRAME(.type = F(GET), .receive = i, .bytes = 1, .tail_bytes = 1), "z");
            continue;
        }
        count += put_frame(bytes + count, &FRAME(.type = F(WANT), .receive = i, .tag = 100, .bytes = 1, .credit = 1),
                           NULL);
        count += put_frame(bytes + count, &FRAME(.type = F(UNWANT), .receive = i), NULL);
    }
    hostile_send(&hostile, bytes, count, false);
    expect_reason(&hostile, "does not read the answers");
    hostile_end(&hostile);
    hostile_close(&hostile);
    free(bytes);
}

static void test_answers_not_read(void **state)
{
    (void)state;
    answers_not_read(false);
    answers_not_read(true);
}

/* What the link has sent of one send. */
struct seen {
    uint64_t payload;
    bool stopped;
};

/* Reads frames until the link has stopped the receive, or sent all bytes of it. */
static struct seen read_frames(const struct hostile *hostile, uint64_t receive, uint64_t bytes)
{
    struct seen seen = {0};

    while (!seen.stopped && seen.payload < bytes) {
        unsigned char header[LEATN_HEADER_BYTES], *tail;
        struct leatn_frame frame;

        assert_int_equal(recv(hostile->fd, header, sizeof header, MSG_WAITALL), sizeof header);
        assert_null(leatn_frame_decode(header, &frame));
        tail = test_buffer(frame.tail_bytes + 1);
        assert_int_equal(recv(hostile->fd, tail, frame.tail_bytes, MSG_WAITALL), frame.tail_bytes);
        free(tail);
        if (frame.type == F(DATA) && frame.receive == receive)
            seen.payload += frame.tail_bytes;
        seen.stopped = frame.type == F(STOP) && frame.receive == receive;
    }
    return seen;
}

/* A send that ends in the last fragment of its message, when the socket has taken a part of it. The receive of the
 * other end must not become complete: with zeros in place of the rest. */
static void test_cancel_in_the_last_fragment(void **state)
{
    struct hostile hostile;
    unsigned char bytes[LEATN_HEADER_BYTES + 1];
    size_t size = copy_bytes[COPIES - 1];
    struct seen seen;

    (void)state;
    hostile_open(&hostile);
    hostile_begin(&hostile);
    (void)put_frame(bytes, &FRAME(.type = F(WANT), .receive = 1, .tag = COPIES - 2, .bytes = size, .credit = size),
                    NULL);
    assert_int_equal(send(hostile.fd, bytes, LEATN_HEADER_BYTES, 0), LEATN_HEADER_BYTES);
    for (unsigned i = 0; i < 30000 && !info_of(hostile.link).sent_bytes; i++)
        test_sleep_us(1000);
    test_sleep_us(20000); /* the socket has no room for all of them */
    assert_in_range(info_of(hostile.link).sent_bytes, 1, size - 1);
    OK(leat_ticket_cancel(hostile.tickets[COPIES - 1]));
    assert_int_equal(leat_ticket_wait(hostile.tickets[COPIES - 1], LEAT_COPY_POINT_DONE, LONG_NS),
                     LEAT_ERROR_CANCELLED);
    assert_int_equal(fcntl(hostile.fd, F_SETFL, 0), 0); /* wait in recv() */
    seen = read_frames(&hostile, 1, size);
    assert_true(seen.stopped);
    /* The fragment that was under way is filled up, but for the last byte of the message. */
    assert_in_range(seen.payload, 1, size - 1);
    assert_int_equal(info_of(hostile.link).status, LEAT_OK);
    hostile_end(&hostile);
    hostile_close(&hostile);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_scenes),   cmocka_unit_test(test_no_frames),        cmocka_unit_test(test_cut),
    cmocka_unit_test(test_too_many), cmocka_unit_test(test_answers_not_read),
    cmocka_unit_test(test_cancel_in_the_last_fragment),
};

TEST_MAIN(tests)
