/* test_copy_ticket.c - tests tickets of copies: progress, waiting, freeing a ticket early, and wrong arguments. */
#include "copy_room.h"

#include <pthread.h>
#include <time.h>

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- tickets ---- */

static void a_ticket_tells_how_far_its_copy_is(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);

    for (size_t i = 0; i < SIZES; i++) {
        struct test_gate *gate = test_gate_close(t->stream);
        leat_ticket_info info = LEAT_TICKET_INFO_INIT;
        leat_ticket *in, *out;

        test_pattern(room.in, sizes[i], 20 + i);
        in = test_copy_start(t->stream, room.memory, room.in, sizes[i]);
        out = test_copy_start(t->stream, room.out, room.memory, sizes[i]);
        info = test_ticket_info(in);
        assert_true(info.bytes == sizes[i] && !info.arrived_bytes && !info.done && info.status == LEAT_OK);
        info = test_ticket_info(out);
        assert_true(info.bytes == sizes[i] && !info.arrived_bytes && !info.staged && !info.done);
        assert_int_equal(leat_ticket_wait(in, LEAT_COPY_POINT_DONE, 0), LEAT_NOT_READY);
        assert_int_equal(leat_ticket_wait(out, LEAT_COPY_POINT_STAGED, 0), LEAT_NOT_READY);
        test_gate_open(gate);
        OK(leat_ticket_wait(in, LEAT_COPY_POINT_STAGED, LEAT_FOREVER));
        assert_true(test_ticket_info(in).staged);
        /* The copy has read the source, so the caller may overwrite it. */
        memset(room.in, 0x77, sizes[i]);
        OK(leat_ticket_wait(out, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
        EXPECT_PATTERN(room.out, sizes[i], 20 + i);
        /* The earlier copy of the same stream is done too. */
        OK(leat_ticket_wait(in, LEAT_COPY_POINT_DONE, 0));
        for (int k = 0; k < 2; k++) {
            info = test_ticket_info(k ? out : in);
            assert_true(info.arrived_bytes == sizes[i] && info.staged && info.done && info.status == LEAT_OK);
        }
        OK(leat_ticket_destroy(in));
        OK(leat_ticket_destroy(out));
    }
    end_room(&room);
}

static void tickets_of_memory_that_is_not_pageable(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, 2 * MIB);
    struct test_gate *gate;
    leat_ticket *tickets[3];

    test_pattern(room.pinned, MIB, 9);
    gate = test_gate_close(t->stream);
    tickets[0] = test_copy_start(t->stream, room.memory, room.pinned, MIB);
    tickets[1] = test_copy_start(t->stream, room.memory + MIB, room.memory, MIB);
    tickets[2] = test_copy_start(t->stream, room.pinned + MIB, room.memory + MIB, MIB);
    for (int i = 0; i < 3; i++) {
        leat_ticket_info info = test_ticket_info(tickets[i]);

        assert_true(info.bytes == MIB && !info.arrived_bytes && !info.staged && !info.done);
        assert_int_equal(leat_ticket_wait(tickets[i], LEAT_COPY_POINT_DONE, 1000), LEAT_NOT_READY);
        /* A cancel has no effect on copies without pageable memory. */
        OK(leat_ticket_cancel(tickets[i]));
    }
    test_gate_open(gate);
    OK(leat_ticket_wait(tickets[0], LEAT_COPY_POINT_STAGED, LEAT_FOREVER));
    for (int i = 2; i >= 0; i--) {
        leat_ticket_info info = LEAT_TICKET_INFO_INIT;

        OK(leat_ticket_wait(tickets[i], LEAT_COPY_POINT_DONE, LEAT_FOREVER));
        info = test_ticket_info(tickets[i]);
        assert_true(info.arrived_bytes == MIB && info.staged && info.done && info.status == LEAT_OK);
        OK(leat_ticket_destroy(tickets[i]));
    }
    EXPECT_PATTERN(room.pinned + MIB, MIB, 9);
    end_room(&room);
}

static void a_wait_ends_when_its_time_is_over(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MIB);
    struct test_gate *gate = test_gate_close(t->stream);
    leat_ticket *ticket = test_copy_start(t->stream, room.out, room.memory, MIB);

    for (int point = LEAT_COPY_POINT_STAGED; point <= LEAT_COPY_POINT_DONE; point++) {
        double begin = seconds_now(), took;

        assert_int_equal(leat_ticket_wait(ticket, (leat_copy_point)point, 0), LEAT_NOT_READY);
        assert_int_equal(leat_ticket_wait(ticket, (leat_copy_point)point, 1), LEAT_NOT_READY);
        assert_int_equal(leat_ticket_wait(ticket, (leat_copy_point)point, 30 * 1000 * 1000), LEAT_NOT_READY);
        took = seconds_now() - begin;
        assert_true(took > 0.025 && took < 10);
    }
    test_gate_open(gate);
    /* A very long timeout other than LEAT_FOREVER: its sum with the current time must not overflow. */
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER - 1));
    OK(leat_ticket_destroy(ticket));
    end_room(&room);
}

/* State of a thread that queries a ticket in a loop while its copy runs. */
struct looker {
    leat_ticket *ticket;
    const char *wrong;
    size_t steps;
};

static void *look_at_ticket(void *argument)
{
    struct looker *l = argument;
    uint64_t before = 0;
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;

    do {
        if (leat_ticket_get_info(l->ticket, &info) != LEAT_OK)
            l->wrong = "the query fails";
        else if (info.arrived_bytes < before)
            l->wrong = "bytes go away again";
        else if (info.arrived_bytes > info.bytes)
            l->wrong = "more bytes than there are";
        else if (info.done && (!info.staged || info.arrived_bytes != info.bytes))
            l->wrong = "done, but not all of it";
        else if (info.status != LEAT_OK)
            l->wrong = "the status is an error";
        l->steps += info.arrived_bytes != before;
        before = info.arrived_bytes;
    } while (!info.done && !l->wrong);
    return NULL;
}

static void progress_goes_forward(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);

    for (int round = 0; round < 6; round++) {
        struct looker lookers[2] = {{0}};
        struct test_gate *gate;
        pthread_t threads[2];

        test_pattern(room.in, MOST, (uint64_t)round);
        gate = test_gate_close(t->stream);
        lookers[0].ticket = test_copy_start(t->stream, room.memory, room.in, MOST);
        lookers[1].ticket = test_copy_start(t->stream, room.out, room.memory, MOST);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, look_at_ticket, &lookers[i]), 0);
        test_gate_open(gate);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        EXPECT_PATTERN(room.out, MOST, (uint64_t)round);
        for (int i = 0; i < 2; i++) {
            if (lookers[i].wrong)
                fail_msg("%s", lookers[i].wrong);
            OK(leat_ticket_destroy(lookers[i].ticket));
        }
    }
    end_room(&room);
}

struct waiter {
    leat_ticket *ticket;
    leat_copy_point point;
    leat_status status;
};

static void *wait_for_ticket(void *argument)
{
    struct waiter *w = argument;

    w->status = leat_ticket_wait(w->ticket, w->point, LEAT_FOREVER);
    return NULL;
}

static void several_threads_wait_for_one_ticket(void **state)
{
    enum { COUNT = 6 };
    struct test_state *t = *state;
    struct room room = make_room(t->device, 5 * MIB);

    for (int round = 0; round < 10; round++) {
        bool out = round % 2;
        struct test_gate *gate = test_gate_close(t->stream);
        leat_ticket *ticket = out ? test_copy_start(t->stream, room.out, room.memory, 5 * MIB)
                                  : test_copy_start(t->stream, room.memory, room.in, 5 * MIB);
        struct waiter waiters[COUNT];
        pthread_t threads[COUNT];

        for (int i = 0; i < COUNT; i++) {
            waiters[i] =
                (struct waiter){ticket, i % 2 ? LEAT_COPY_POINT_STAGED : LEAT_COPY_POINT_DONE, LEAT_NOT_READY};
            assert_int_equal(pthread_create(&threads[i], NULL, wait_for_ticket, &waiters[i]), 0);
        }
        test_sleep_us(round * 300);
        test_gate_open(gate);
        for (int i = 0; i < COUNT; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(waiters[i].status, LEAT_OK);
        OK(leat_ticket_destroy(ticket));
    }
    OK(leat_stream_synchronize(t->stream));
    end_room(&room);
}

static void a_ticket_may_be_freed_before_the_end(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);

    for (size_t i = 0; i < SIZES; i++) {
        struct test_gate *gate = i % 2 ? test_gate_close(t->stream) : NULL;

        test_pattern(room.in, sizes[i], 30 + i);
        OK(leat_ticket_destroy(test_copy_start(t->stream, room.memory, room.in, sizes[i])));
        OK(leat_ticket_destroy(test_copy_start(t->stream, room.out, room.memory, sizes[i])));
        if (gate)
            test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(room.out, sizes[i], 30 + i);
    }
    end_room(&room);
}

/* The results of ticket calls that a host function makes. */
struct inside {
    leat_ticket *ticket;
    leat_status staged, done, query, cancel, free;
};

static void use_ticket_inside(void *argument)
{
    struct inside *inside = argument;
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;

    inside->staged = leat_ticket_wait(inside->ticket, LEAT_COPY_POINT_STAGED, 0);
    inside->done = leat_ticket_wait(inside->ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
    inside->query = leat_ticket_get_info(inside->ticket, &info);
    inside->cancel = leat_ticket_cancel(inside->ticket);
    inside->free = leat_ticket_destroy(inside->ticket);
}

static void host_functions_may_look_but_not_wait(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MIB);
    struct test_gate *gate = test_gate_close(t->stream);
    static struct inside inside;

    test_pattern(room.in, MIB, 4);
    inside.ticket = test_copy_start(t->stream, room.memory, room.in, MIB);
    OK(leat_launch_host(t->stream, use_ticket_inside, &inside));
    read_memory(t->stream, &room, MIB);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(inside.staged, LEAT_ERROR_NOT_PERMITTED);
    assert_int_equal(inside.done, LEAT_ERROR_NOT_PERMITTED);
    assert_int_equal(inside.query, LEAT_OK);
    assert_int_equal(inside.cancel, LEAT_OK);
    assert_int_equal(inside.free, LEAT_OK);
    EXPECT_PATTERN(room.pinned, MIB, 4);
    end_room(&room);
}

static void refuse_ticket(leat_ticket *ticket)
{
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;

    REFUSED(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_HANDLE, "ticket");
    REFUSED(leat_ticket_get_info(ticket, &info), LEAT_ERROR_HANDLE, "ticket");
    REFUSED(leat_ticket_cancel(ticket), LEAT_ERROR_HANDLE, "ticket");
    if (ticket)
        REFUSED(leat_ticket_destroy(ticket), LEAT_ERROR_HANDLE, "ticket");
}

static void wild_tickets_and_dead_ones(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MIB);
    leat_ticket *tickets[20];
    int number = 0;

    refuse_ticket(NULL);
    OK(leat_ticket_destroy(NULL));
    refuse_ticket((leat_ticket *)(void *)t->stream);
    refuse_ticket((leat_ticket *)(uintptr_t)12345);
    refuse_ticket((leat_ticket *)(void *)&number);
    for (int i = 0; i < 20; i++) {
        tickets[i] = test_copy_start(t->stream, room.memory, room.in, i % 2 ? MIB : 0);
        OK(leat_ticket_destroy(tickets[i]));
    }
    for (int i = 0; i < 20; i++)
        refuse_ticket(tickets[i]);
    OK(leat_stream_synchronize(t->stream));
    end_room(&room);
}

static void wrong_options_of_a_copy(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MIB);
    leat_copy_options options = {0};
    leat_ticket *ticket = NULL;

    REFUSED(leat_copy_start(t->stream, room.memory, room.in, MIB, NULL, NULL), LEAT_ERROR_INVALID, "ticket");
    REFUSED(leat_copy_start(t->stream, room.memory, room.in, MIB, &options, &ticket), LEAT_ERROR_INVALID, "size");
    options.size = SIZE_MAX;
    REFUSED(leat_copy_start(t->stream, room.memory, room.in, MIB, &options, &ticket), LEAT_ERROR_INVALID, "size");
    options.size = sizeof options;
    REFUSED(leat_copy_start(t->stream, NULL, room.in, MIB, &options, &ticket), LEAT_ERROR_POINTER, "dst");
    REFUSED(leat_copy_start(t->stream, room.memory, room.in, SIZE_MAX, &options, &ticket), LEAT_ERROR_RANGE, "");
    REFUSED(leat_copy_start(t->stream, room.in, room.in, MIB, NULL, &ticket), LEAT_ERROR_OVERLAP, "");
    REFUSED(leat_copy_sync(t->stream, NULL, room.in, MIB), LEAT_ERROR_POINTER, "dst");
    REFUSED(leat_copy_sync(t->stream, room.in + 1, room.in, 9), LEAT_ERROR_OVERLAP, "");
    assert_null(ticket);
    OK(leat_copy_start(t->stream, room.memory, room.in, MIB, &options, &ticket));
    REFUSED(leat_ticket_wait(ticket, (leat_copy_point)0, 0), LEAT_ERROR_INVALID, "point");
    REFUSED(leat_ticket_wait(ticket, (leat_copy_point)3, 0), LEAT_ERROR_INVALID, "point");
    REFUSED(leat_ticket_get_info(ticket, NULL), LEAT_ERROR_INVALID, "info");
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_ticket_destroy(ticket));
    end_room(&room);
}

/* ---- extended tickets ---- */

/* The point DONE moves behind later work of the stream, whoever makes the copy; the point STAGED does not. */
static void an_extended_ticket_waits_for_later_work(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);

    for (size_t i = 0; i < SIZES; i++)
        for (unsigned pageable = 0; pageable < 2; pageable++) {
            void *src = pageable ? (void *)room.in : test_alloc(t->device, LEAT_KIND_PINNED, sizes[i]);
            leat_ticket *ticket = test_copy_start(t->stream, room.memory, src, sizes[i]);
            struct test_gate *gate;
            leat_ticket_info info;

            OK(leat_stream_synchronize(t->stream));
            OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, 0));
            gate = test_gate_close(t->stream);
            OK(leat_ticket_extend(ticket, t->stream));
            assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, 1000), LEAT_NOT_READY);
            info = test_ticket_info(ticket);
            assert_true(!info.done && info.status == LEAT_OK);
            OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_STAGED, 0));
            assert_true(info.staged && info.arrived_bytes == sizes[i]);
            test_gate_open(gate);
            OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
            info = test_ticket_info(ticket);
            assert_true(info.done && info.bytes == sizes[i] && info.arrived_bytes == sizes[i]);
            /* The last call counts. */
            gate = test_gate_close(t->stream);
            OK(leat_ticket_extend(ticket, t->stream));
            OK(leat_ticket_extend(ticket, t->second));
            OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
            test_gate_open(gate);
            OK(leat_ticket_destroy(ticket));
            OK(leat_stream_synchronize(t->stream));
            if (!pageable)
                OK(leat_memory_free(src));
        }
    end_room(&room);
}

/* A copy that was cancelled is done only when the later work is, too. */
static void an_extended_ticket_keeps_its_failure(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);
    struct test_gate *gate = test_gate_close(t->stream);
    leat_ticket *ticket = test_copy_start(t->stream, room.out, room.memory, MOST);
    leat_status ended;

    OK(leat_ticket_extend(ticket, t->stream));
    OK(leat_ticket_cancel(ticket));
    assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, 0), LEAT_NOT_READY);
    test_gate_open(gate);
    /* A copy that the driver makes alone cannot be cancelled. */
    ended = leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
    assert_true(ended == LEAT_ERROR_CANCELLED || ended == LEAT_OK);
    assert_true(test_ticket_info(ticket).done);
    assert_int_equal(test_ticket_info(ticket).status, ended);
    OK(leat_ticket_destroy(ticket));
    OK(leat_stream_synchronize(t->stream));
    end_room(&room);
}

static void an_extended_ticket_outlives_its_device(void **state)
{
    leat_device *device = test_open_other(), *own = ((struct test_state *)*state)->device;
    struct test_state *t = *state;
    unsigned char *src = test_buffer(4 * MIB), *dst = test_buffer(4 * MIB);
    leat_ticket *ticket;
    leat_stream *stream;

    if (!device) {
        free(src);
        free(dst);
        SKIP_OTHER("there is no second device");
    }
    OK(leat_stream_create(device, &stream));
    ticket = test_copy_start(stream, dst, src, 4 * MIB);
    assert_ptr_not_equal(device, own);
    REFUSED(leat_ticket_extend(ticket, t->stream), LEAT_ERROR_INVALID, "another device");
    OK(leat_ticket_extend(ticket, stream));
    REFUSED(leat_ticket_extend(NULL, stream), LEAT_ERROR_HANDLE, "ticket");
    REFUSED(leat_ticket_extend(ticket, NULL), LEAT_ERROR_HANDLE, "stream");
    OK(leat_device_close(device));
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_true(test_ticket_info(ticket).done);
    OK(leat_ticket_destroy(ticket));
    free(src);
    free(dst);
}

/* Closing a device destroys the events of its tickets, and new events may get their handles. Such a ticket must
 * neither ask nor destroy the new events. */
static void a_ticket_leaves_later_events_alone(void **state)
{
    /* A handle is used again only after 4096 more were freed. CUDA's queue of a stream has room for some 1000 records. */
    enum { TICKETS = 8, EVENTS = 512, FREED = 4096 + EVENTS };
    static leat_event *events[FREED];
    struct test_state *t = *state;
    leat_device *device = test_open_other();
    leat_ticket *tickets[TICKETS];
    void *pinned, *memory;
    struct test_gate *gate;
    leat_stream *stream;

    if (!device)
        SKIP_OTHER("there is no second device");
    OK(leat_stream_create(device, &stream));
    pinned = test_alloc(device, LEAT_KIND_PINNED, MIB);
    memory = test_alloc(device, LEAT_KIND_DEVICE, MIB);
    for (int i = 0; i < TICKETS; i++) {
        tickets[i] = test_copy_start(stream, memory, pinned, MIB);
        OK(leat_ticket_extend(tickets[i], stream));
    }
    OK(leat_device_close(device));
    for (int i = 0; i < FREED; i++)
        OK(leat_event_create(t->device, &events[i]));
    for (int i = 0; i < FREED; i++)
        OK(leat_event_destroy(events[i]));
    gate = test_gate_close(t->stream);
    for (int i = 0; i < EVENTS; i++) {
        OK(leat_event_create(t->device, &events[i]));
        OK(leat_event_record(t->stream, events[i]));
    }
    for (int i = 0; i < TICKETS; i++) {
        OK(leat_ticket_wait(tickets[i], LEAT_COPY_POINT_DONE, 0));
        assert_true(test_ticket_info(tickets[i]).done);
        OK(leat_ticket_destroy(tickets[i]));
    }
    for (int i = 0; i < EVENTS; i++)
        assert_int_equal(leat_event_query(events[i]), LEAT_NOT_READY);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    for (int i = 0; i < EVENTS; i++)
        OK(leat_event_destroy(events[i]));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(a_ticket_tells_how_far_its_copy_is),
    STATE_TEST(tickets_of_memory_that_is_not_pageable),
    STATE_TEST(a_wait_ends_when_its_time_is_over),
    STATE_TEST(progress_goes_forward),
    STATE_TEST(several_threads_wait_for_one_ticket),
    STATE_TEST(a_ticket_may_be_freed_before_the_end),
    STATE_TEST(host_functions_may_look_but_not_wait),
    STATE_TEST(wild_tickets_and_dead_ones),
    STATE_TEST(wrong_options_of_a_copy),
    STATE_TEST(an_extended_ticket_waits_for_later_work),
    STATE_TEST(an_extended_ticket_keeps_its_failure),
    STATE_TEST(an_extended_ticket_outlives_its_device),
    STATE_TEST(a_ticket_leaves_later_events_alone),
};

TEST_MAIN(tests)
