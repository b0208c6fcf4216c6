/* test_event.c - tests events: records, queries, waits on the host, elapsed time. */
#include "harness.h"

#include <math.h>
#include <string.h>

static void an_event_follows_its_stream(void **state)
{
    struct test_state *t = *state;
    struct test_gate *gate;
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    OK(leat_event_query(event));
    OK(leat_event_synchronize(event));
    gate = test_gate_close(t->stream);
    OK(leat_event_record(t->stream, event));
    assert_int_equal(leat_event_query(event), LEAT_NOT_READY);
    assert_int_equal(leat_event_query(event), LEAT_NOT_READY);
    test_gate_open(gate);
    OK(leat_event_synchronize(event));
    assert_int_equal(atomic_load(&gate->passed), 1);
    OK(leat_event_query(event));
    OK(leat_event_destroy(event));
    OK(leat_event_destroy(NULL));
}

static void the_mark_is_where_it_was_put(void **state)
{
    struct test_state *t = *state;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 1 << 20);
    struct test_gate *gate;
    leat_event *event;

    /* Work submitted after the record must not delay the event. */
    memset(pinned, 0, 1 << 20);
    OK(leat_event_create(t->device, &event));
    OK(leat_fill(t->stream, pinned, 1, 1 << 20));
    OK(leat_event_record(t->stream, event));
    gate = test_gate_close(t->stream);
    OK(leat_fill(t->stream, pinned, 2, 1 << 20));
    OK(leat_event_synchronize(event));
    EXPECT_BYTES(pinned, 1 << 20, 1);
    assert_int_equal(atomic_load(&gate->passed), 0);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    EXPECT_BYTES(pinned, 1 << 20, 2);
    OK(leat_event_destroy(event));
    OK(leat_memory_free(pinned));
}

static void query_says_when_results_can_be_read(void **state)
{
    struct test_state *t = *state;
    size_t bytes = 4 << 20;
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, bytes);
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    for (int i = 1; i <= 20; i++) {
        leat_status status;

        OK(leat_fill(t->stream, pinned, (uint8_t)i, bytes));
        OK(leat_event_record(t->stream, event));
        while ((status = leat_event_query(event)) == LEAT_NOT_READY)
            continue;
        OK(status);
        EXPECT_BYTES(pinned, bytes, (unsigned char)i);
    }
    OK(leat_event_destroy(event));
    OK(leat_memory_free(pinned));
}

static void sleep_in_stream(void *argument)
{
    (void)argument;
    test_sleep_us(3000);
}

static void elapsed_time_has_a_direction(void **state)
{
    struct test_state *t = *state;
    leat_event *start, *end;
    double forward = -1, backward = 1, none = -1;

    OK(leat_event_create(t->device, &start));
    OK(leat_event_create(t->device, &end));
    OK(leat_event_record(t->stream, start));
    OK(leat_launch_host(t->stream, sleep_in_stream, NULL));
    OK(leat_event_record(t->stream, end));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_event_elapsed(start, end, &forward));
    OK(leat_event_elapsed(end, start, &backward));
    OK(leat_event_elapsed(start, start, &none));
    assert_true(forward > 0);
    assert_true(backward < 0);
    assert_true(fabs(forward + backward) < 0.01);
    assert_true(none == 0);
    OK(leat_event_destroy(start));
    OK(leat_event_destroy(end));
}

static void elapsed_needs_two_marks_that_were_reached(void **state)
{
    struct test_state *t = *state;
    leat_event *start, *end;
    struct test_gate *gate;
    double milliseconds = 123;

    OK(leat_event_create(t->device, &start));
    OK(leat_event_create(t->device, &end));
    REFUSED(leat_event_elapsed(start, end, &milliseconds), LEAT_ERROR_INVALID, "start");
    OK(leat_event_record(t->stream, start));
    REFUSED(leat_event_elapsed(start, end, &milliseconds), LEAT_ERROR_INVALID, "end");
    OK(leat_stream_synchronize(t->stream));
    gate = test_gate_close(t->stream);
    OK(leat_event_record(t->stream, end));
    assert_int_equal(leat_event_elapsed(start, end, &milliseconds), LEAT_NOT_READY);
    assert_true(milliseconds == 123);
    test_gate_open(gate);
    OK(leat_event_synchronize(end));
    OK(leat_event_elapsed(start, end, &milliseconds));
    assert_true(milliseconds > 0 && milliseconds != 123);
    OK(leat_event_destroy(start));
    OK(leat_event_destroy(end));
}

static void events_of_two_streams_compare(void **state)
{
    struct test_state *t = *state;
    leat_event *start, *end;
    double milliseconds;

    OK(leat_event_create(t->device, &start));
    OK(leat_event_create(t->device, &end));
    OK(leat_event_record(t->stream, start));
    OK(leat_stream_wait(t->second, start));
    OK(leat_launch_host(t->second, sleep_in_stream, NULL));
    OK(leat_event_record(t->second, end));
    OK(leat_event_synchronize(end));
    OK(leat_event_elapsed(start, end, &milliseconds));
    assert_true(milliseconds > 0);
    OK(leat_event_destroy(start));
    OK(leat_event_destroy(end));
}

static void a_destroyed_event_does_not_stop_its_stream(void **state)
{
    struct test_state *t = *state;
    struct test_gate *gate = test_gate_close(t->stream);

    for (int i = 0; i < 100; i++) {
        leat_event *event;

        OK(leat_event_create(t->device, &event));
        OK(leat_event_record(t->stream, event));
        OK(leat_stream_wait(t->second, event));
        OK(leat_event_destroy(event));
    }
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->second));
}

static void an_event_can_be_recorded_many_times(void **state)
{
    struct test_state *t = *state;
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    for (int i = 0; i < 1000; i++)
        OK(leat_event_record(i % 2 ? t->second : t->stream, event));
    OK(leat_event_synchronize(event));
    OK(leat_event_query(event));
    OK(leat_event_destroy(event));
}

static void who_waited_for_the_last_mark_finds_the_stream_done(void **state)
{
    struct test_state *t = *state;
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    for (int i = 0; i < 300; i++) {
        OK(leat_event_record(t->stream, event));
        OK(leat_event_synchronize(event));
        OK(leat_stream_query(t->stream));
    }
    OK(leat_event_destroy(event));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(who_waited_for_the_last_mark_finds_the_stream_done),
    STATE_TEST(an_event_follows_its_stream),
    STATE_TEST(the_mark_is_where_it_was_put),
    STATE_TEST(query_says_when_results_can_be_read),
    STATE_TEST(elapsed_time_has_a_direction),
    STATE_TEST(elapsed_needs_two_marks_that_were_reached),
    STATE_TEST(events_of_two_streams_compare),
    STATE_TEST(a_destroyed_event_does_not_stop_its_stream),
    STATE_TEST(an_event_can_be_recorded_many_times),
};

TEST_MAIN(tests)
