/*
 * test_copy_cancel.c - tests copies with a ticket that are cancelled or whose deadline passes. The ticket must say
 * why the copy ended and how many bytes arrived, those bytes must be right, and the stream must continue.
 *
 * If a copy is one pass over memory (the CPU device without LEAT_COPY_STAGE=1), a cancel may come too late.
 */
#include "copy_broken.h"

#include <stdlib.h>
#include <string.h>

/* ---- cancel and deadline ---- */

#define LONG_BYTES (64 * MIB)

/* A long copy into or out of device memory, and a buffer to check the bytes that arrived. */
struct journey {
    struct test_state *t;
    bool out;
    unsigned char *host, *memory, *seen;
};

static struct journey make_journey(struct test_state *t, bool out)
{
    struct journey j = {.t = t, .out = out, .host = test_buffer(LONG_BYTES)};

    j.memory = test_alloc(t->device, LEAT_KIND_DEVICE, LONG_BYTES);
    j.seen = test_alloc(t->device, LEAT_KIND_PINNED, LONG_BYTES);
    test_pattern(j.seen, LONG_BYTES, 7);
    if (out) {
        OK(leat_copy(t->stream, j.memory, j.seen, LONG_BYTES));
        memset(j.host, 0x5a, LONG_BYTES);
    } else {
        OK(leat_fill(t->stream, j.memory, 0x5a, LONG_BYTES));
        test_pattern(j.host, LONG_BYTES, 7);
    }
    OK(leat_stream_synchronize(t->stream));
    return j;
}

static void *dst_of(const struct journey *j)
{
    return j->out ? j->host : j->memory;
}

static const void *src_of(const struct journey *j)
{
    return j->out ? j->memory : j->host;
}

/* Checks the ticket's final state and the bytes that arrived. Returns the number of these bytes. */
static size_t expect_prefix(const struct journey *j, leat_ticket *ticket, leat_status status)
{
    leat_ticket_info info = test_ticket_info(ticket);
    const unsigned char *seen = j->host;

    assert_true(info.bytes == LONG_BYTES && info.staged && info.done && info.status == status);
    assert_true(info.arrived_bytes <= info.bytes);
    if (status == LEAT_OK)
        assert_true(info.arrived_bytes == info.bytes);
    if (!j->out) {
        seen = j->seen;
        memset(j->seen, 0, LONG_BYTES);
        OK(leat_copy(j->t->stream, j->seen, j->memory, LONG_BYTES));
    }
    OK(leat_stream_synchronize(j->t->stream));
    EXPECT_PATTERN(seen, (size_t)info.arrived_bytes, 7);
    return (size_t)info.arrived_bytes;
}

static void end_journey(struct journey *j)
{
    still_copies(j->t->stream, j->t->device);
    OK(leat_memory_free(j->memory));
    OK(leat_memory_free(j->seen));
    free(j->host);
}

static void a_copy_is_cancelled_before_it_begins(void **state)
{
    struct test_state *t = *state;

    for (int out = 0; out < 2; out++) {
        struct journey j = make_journey(t, out);
        struct test_gate *gate = test_gate_close(t->stream);
        leat_ticket *ticket = test_copy_start(t->stream, dst_of(&j), src_of(&j), LONG_BYTES);
        leat_status status;

        OK(leat_ticket_cancel(ticket));
        /* Cancelling twice is allowed. */
        OK(leat_ticket_cancel(ticket));
        /* The cancelled copy keeps its place in the order of the stream. */
        EXPECT_HELD(t->stream, gate);
        test_gate_open(gate);
        status = leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
        if (staged()) {
            assert_int_equal(status, LEAT_ERROR_CANCELLED);
            assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_STAGED, 0), LEAT_ERROR_CANCELLED);
            assert_true(expect_prefix(&j, ticket, status) == 0);
        } else {
            assert_true(status == LEAT_OK || status == LEAT_ERROR_CANCELLED);
            expect_prefix(&j, ticket, status);
        }
        OK(leat_ticket_destroy(ticket));
        end_journey(&j);
    }
}

static void a_copy_is_cancelled_at_any_time(void **state)
{
    enum { ROUNDS = 30 };
    struct test_state *t = *state;

    for (int out = 0; out < 2; out++) {
        struct journey j = make_journey(t, out);
        unsigned whole = 0, cut = 0;

        for (uint64_t round = 0; round < ROUNDS; round++) {
            struct test_gate *gate = round % 2 ? test_gate_close(t->stream) : NULL;
            leat_ticket *ticket = test_copy_start(t->stream, dst_of(&j), src_of(&j), LONG_BYTES);
            leat_status status;

            if (gate)
                test_gate_open(gate);
            test_sleep_us((long)(leat_pattern_value(round, 5) % (round % 4 < 2 ? 20000 : 3000)));
            OK(leat_ticket_cancel(ticket));
            if (round % 3 == 0)
                OK(leat_stream_synchronize(t->stream));
            status = leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
            if (status == LEAT_OK)
                whole++;
            else
                assert_int_equal(status, LEAT_ERROR_CANCELLED);
            cut += expect_prefix(&j, ticket, status) > 0 && status != LEAT_OK;
            OK(leat_ticket_destroy(ticket));
        }
        print_message("           %s: %u of %d came through, %u were cut in the middle\n", out ? "out" : "in",
                      whole, ROUNDS, cut);
        end_journey(&j);
    }
}

static void a_cancel_after_the_end_is_too_late(void **state)
{
    struct test_state *t = *state;

    for (int out = 0; out < 2; out++) {
        struct journey j = make_journey(t, out);
        leat_ticket *ticket = test_copy_start(t->stream, dst_of(&j), src_of(&j), LONG_BYTES);

        OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
        OK(leat_ticket_cancel(ticket));
        OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, 0));
        assert_true(expect_prefix(&j, ticket, LEAT_OK) == LONG_BYTES);
        OK(leat_ticket_destroy(ticket));
        end_journey(&j);
    }
}

/* A cancel must not affect earlier and later copies of the same stream. */
static void a_cancel_stops_one_copy_only(void **state)
{
    enum { COUNT = 9 };
    struct test_state *t = *state;
    size_t bytes = 2 * MIB + 11;
    unsigned char *in = test_buffer(bytes), *out[COUNT];
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, COUNT * bytes);
    leat_ticket *tickets[COUNT];
    struct test_gate *gate;

    test_pattern(in, bytes, 3);
    OK(leat_fill(t->stream, memory, 0x5a, COUNT * bytes));
    gate = test_gate_close(t->stream);
    for (size_t i = 0; i < COUNT; i++) {
        out[i] = test_buffer(bytes);
        memset(out[i], 0, bytes);
        tickets[i] = test_copy_start(t->stream, memory + i * bytes, in, bytes);
    }
    for (size_t i = 1; i < COUNT; i += 2)
        OK(leat_ticket_cancel(tickets[i]));
    for (size_t i = 0; i < COUNT; i++)
        OK(leat_copy(t->stream, out[i], memory + i * bytes, bytes));
    test_gate_open(gate);
    for (size_t i = COUNT; i-- > 0;) {
        leat_status status = leat_ticket_wait(tickets[i], LEAT_COPY_POINT_DONE, LEAT_FOREVER);

        if (i % 2 && status != LEAT_OK)
            assert_int_equal(status, LEAT_ERROR_CANCELLED);
        else
            OK(status);
        assert_true(!(i % 2) || !staged() || status != LEAT_OK);
        OK(leat_ticket_destroy(tickets[i]));
    }
    OK(leat_stream_synchronize(t->stream));
    for (size_t i = 0; i < COUNT; i++) {
        if (i % 2 == 0)
            EXPECT_PATTERN(out[i], bytes, 3);
        free(out[i]);
    }
    still_copies(t->stream, t->device);
    OK(leat_memory_free(memory));
    free(in);
}

static void a_deadline_passes(void **state)
{
    static const uint64_t deadlines[] = {1, 100 * 1000, 1000 * 1000, 4000 * 1000, 12000 * 1000};
    struct test_state *t = *state;

    for (int out = 0; out < 2; out++) {
        struct journey j = make_journey(t, out);

        for (size_t i = 0; i < sizeof deadlines / sizeof deadlines[0]; i++) {
            leat_copy_options options = {.size = sizeof options, .deadline_ns = deadlines[i]};
            leat_ticket *ticket = NULL;
            leat_status status, seen;

            OK(leat_copy_start(t->stream, dst_of(&j), src_of(&j), LONG_BYTES, &options, &ticket));
            status = leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
            if (status != LEAT_OK)
                assert_int_equal(status, LEAT_ERROR_DEADLINE);
            if (i == 0 && staged())
                assert_int_equal(status, LEAT_ERROR_DEADLINE);
            /* The ticket has already reported the failure, so the stream may report it again or not. */
            seen = leat_stream_synchronize(t->stream);
            assert_true(seen == LEAT_OK || seen == status);
            expect_prefix(&j, ticket, status);
            OK(leat_ticket_destroy(ticket));
        }
        end_journey(&j);
    }
}

static void a_deadline_passes_on_a_held_stream(void **state)
{
    struct test_state *t = *state;

    for (int out = 0; out < 2; out++) {
        struct journey j = make_journey(t, out);
        leat_copy_options options = {.size = sizeof options, .deadline_ns = 10 * 1000 * 1000};
        struct test_gate *gate = test_gate_close(t->stream);
        leat_ticket *ticket = NULL;
        leat_status status, seen;

        OK(leat_copy_start(t->stream, dst_of(&j), src_of(&j), LONG_BYTES, &options, &ticket));
        test_sleep_us(30000);
        test_gate_open(gate);
        status = leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
        if (staged())
            assert_int_equal(status, LEAT_ERROR_DEADLINE);
        seen = leat_stream_synchronize(t->stream);
        assert_true(seen == LEAT_OK || seen == status);
        expect_prefix(&j, ticket, status);
        OK(leat_ticket_destroy(ticket));
        end_journey(&j);
    }
}

static void a_deadline_that_is_far_away_changes_nothing(void **state)
{
    static const uint64_t deadlines[] = {60 * UINT64_C(1000000000), UINT64_MAX - 1, UINT64_MAX};
    struct test_state *t = *state;

    for (int out = 0; out < 2; out++) {
        struct journey j = make_journey(t, out);

        for (size_t i = 0; i < sizeof deadlines / sizeof deadlines[0]; i++) {
            leat_copy_options options = {.size = sizeof options, .deadline_ns = deadlines[i]};
            leat_ticket *ticket = NULL;

            OK(leat_copy_start(t->stream, dst_of(&j), src_of(&j), LONG_BYTES, &options, &ticket));
            OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
            assert_true(expect_prefix(&j, ticket, LEAT_OK) == LONG_BYTES);
            OK(leat_ticket_destroy(ticket));
        }
        end_journey(&j);
    }
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(a_copy_is_cancelled_before_it_begins),
    STATE_TEST(a_copy_is_cancelled_at_any_time),
    STATE_TEST(a_cancel_after_the_end_is_too_late),
    STATE_TEST(a_cancel_stops_one_copy_only),
    STATE_TEST(a_deadline_passes),
    STATE_TEST(a_deadline_passes_on_a_held_stream),
    STATE_TEST(a_deadline_that_is_far_away_changes_nothing),
};

int main(void)
{
    if (!test_device_there())
        return 77;
    test_keep_handlers();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
