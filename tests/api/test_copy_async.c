/*
 * test_copy_async.c - tests that copies of pageable memory return before they have run, and run in the order of
 * their stream, also if several threads submit them.
 *
 * On the CPU device such a copy is one pass over memory, unless LEAT_COPY_STAGE=1 stages it as on a GPU. "make
 * check" runs this program both ways, the second time with rings so small that each slot is used many times.
 */
#include "copy_room.h"

#include <pthread.h>
#include <stdio.h>

/* ---- the call returns while its stream is held up ---- */

static void a_copy_in_returns_while_its_stream_is_held(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);

    for (size_t i = 0; i < SIZES; i++) {
        struct test_gate *gate = test_gate_close(t->stream);

        test_pattern(room.in, sizes[i], i);
        OK(leat_copy(t->stream, room.memory, room.in, sizes[i]));
        read_memory(t->stream, &room, sizes[i]);
        EXPECT_HELD(t->stream, gate);
        assert_int_equal(atomic_load(&gate->passed), 0);
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(room.pinned, sizes[i], i);
    }
    end_room(&room);
}

static void a_copy_out_returns_while_its_stream_is_held(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);

    for (size_t i = 0; i < SIZES; i++) {
        struct test_gate *gate;

        write_memory(t->stream, &room, sizes[i], i);
        memset(room.out, 0x5a, sizes[i]);
        gate = test_gate_close(t->stream);
        OK(leat_copy(t->stream, room.out, room.memory, sizes[i]));
        EXPECT_HELD(t->stream, gate);
        /* The copy has not written yet: a host function before it may still read the old bytes. */
        EXPECT_BYTES(room.out, sizes[i], 0x5a);
        assert_int_equal(atomic_load(&gate->passed), 0);
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(room.out, sizes[i], i);
    }
    end_room(&room);
}

/* Copies in both directions, first on an idle stream and then behind three fills. */
static void copies_on_a_stream_that_is_not_held(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);

    for (size_t i = 0; i < SIZES; i++) {
        for (int busy = 0; busy < 2; busy++) {
            uint64_t seed = 2 * i + (uint64_t)busy;

            test_pattern(room.in, sizes[i], seed);
            memset(room.out, 0, sizes[i]);
            for (int k = 0; k < 3 * busy; k++)
                OK(leat_fill(t->stream, room.memory, 0x33, MOST));
            OK(leat_copy(t->stream, room.memory, room.in, sizes[i]));
            OK(leat_copy(t->stream, room.out, room.memory, sizes[i]));
            OK(leat_stream_synchronize(t->stream));
            EXPECT_PATTERN(room.out, sizes[i], seed);
            EXPECT_PATTERN(room.in, sizes[i], seed);
        }
    }
    end_room(&room);
}

static void between_two_host_buffers(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);

    for (size_t i = 0; i < SIZES; i++) {
        struct test_gate *gate = test_gate_close(t->stream);

        test_pattern(room.in, sizes[i], i);
        memset(room.out, 0x5a, sizes[i]);
        memset(room.pinned, 0x5a, sizes[i]);
        OK(leat_copy(t->stream, room.pinned, room.in, sizes[i]));
        OK(leat_copy(t->stream, room.out, room.pinned, sizes[i]));
        OK(leat_copy(t->stream, room.in, room.out, sizes[i]));
        EXPECT_HELD(t->stream, gate);
        EXPECT_BYTES(room.out, sizes[i], 0x5a);
        EXPECT_BYTES(room.pinned, sizes[i], 0x5a);
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(room.out, sizes[i], i);
        EXPECT_PATTERN(room.in, sizes[i], i);
    }
    end_room(&room);
}

static void bytes_around_a_copy_stay(void **state)
{
    static const size_t offsets[] = {1, 7, 63, 64, 4095};
    struct test_state *t = *state;
    struct room room = make_room(t->device, 3 * MIB);

    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        size_t bytes = MIB + 64 * KIB * i + 5, at = offsets[i];

        memset(room.out, 0x5a, 3 * MIB);
        test_pattern(room.in + at, bytes, i);
        OK(leat_fill(t->stream, room.memory, 0xa5, 3 * MIB));
        OK(leat_copy(t->stream, room.memory + 2 * at, room.in + at, bytes));
        read_memory(t->stream, &room, 3 * MIB);
        OK(leat_copy(t->stream, room.out + 3 * at, room.memory + 2 * at, bytes));
        OK(leat_stream_synchronize(t->stream));
        EXPECT_BYTES(room.pinned, 2 * at, 0xa5);
        EXPECT_PATTERN(room.pinned + 2 * at, bytes, i);
        EXPECT_BYTES(room.pinned + 2 * at + bytes, 3 * MIB - 2 * at - bytes, 0xa5);
        EXPECT_BYTES(room.out, 3 * at, 0x5a);
        EXPECT_PATTERN(room.out + 3 * at, bytes, i);
        EXPECT_BYTES(room.out + 3 * at + bytes, 3 * MIB - 3 * at - bytes, 0x5a);
    }
    end_room(&room);
}

static void no_bytes_at_all(void **state)
{
    struct test_state *t = *state;
    struct test_gate *gate = test_gate_close(t->stream);
    unsigned char own[8] = {0};
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;
    leat_ticket *ticket;

    OK(leat_copy(t->stream, NULL, NULL, 0));
    OK(leat_copy_sync(t->stream, NULL, own, 0));
    OK(leat_copy_sync(t->stream, own, own, 0));
    ticket = test_copy_start(t->stream, NULL, (void *)(uintptr_t)8, 0);
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_STAGED, 0));
    OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, 0));
    info = test_ticket_info(ticket);
    assert_true(info.bytes == 0 && info.arrived_bytes == 0 && info.staged && info.done && info.status == LEAT_OK);
    OK(leat_ticket_cancel(ticket));
    OK(leat_ticket_destroy(ticket));
    EXPECT_HELD(t->stream, gate);
    test_gate_open(gate);
}

/* ---- stream order ---- */

/* The state of host functions and other threads is static, because they may still use it after the test has
 * failed. */
struct writer {
    unsigned char *ptr;
    size_t bytes;
    uint64_t seed;
};

static void write_pattern(void *argument)
{
    struct writer *w = argument;

    test_sleep_us(2000);
    test_pattern(w->ptr, w->bytes, w->seed);
}

static void a_source_is_read_after_a_host_function_that_writes_it(void **state)
{
    static struct writer writer;
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);

    for (size_t i = 0; i < SIZES; i++) {
        writer = (struct writer){room.in, sizes[i], 100 + i};
        memset(room.in, 0x5a, sizes[i]);
        OK(leat_launch_host(t->stream, write_pattern, &writer));
        OK(leat_copy(t->stream, room.memory, room.in, sizes[i]));
        read_memory(t->stream, &room, sizes[i]);
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(room.pinned, sizes[i], 100 + i);
    }
    end_room(&room);
}

/* A host function of another stream writes the source. An event orders the copy after it. */
static void a_source_is_read_after_a_host_function_of_another_stream(void **state)
{
    static struct writer writer;
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    for (size_t i = 0; i < SIZES; i++) {
        writer = (struct writer){room.in, sizes[i], 200 + i};
        memset(room.in, 0x5a, sizes[i]);
        OK(leat_launch_host(t->second, write_pattern, &writer));
        OK(leat_event_record(t->second, event));
        OK(leat_stream_wait(t->stream, event));
        OK(leat_copy(t->stream, room.memory, room.in, sizes[i]));
        read_memory(t->stream, &room, sizes[i]);
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(room.pinned, sizes[i], 200 + i);
    }
    OK(leat_event_destroy(event));
    end_room(&room);
}

static void a_source_is_read_after_a_copy_into_it(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);
    unsigned char *again = test_alloc(t->device, LEAT_KIND_DEVICE, MOST);

    for (size_t i = 0; i < SIZES; i++) {
        for (int held = 0; held < 2; held++) {
            uint64_t seed = 300 + 2 * i + (uint64_t)held;
            struct test_gate *gate = NULL;

            write_memory(t->stream, &room, sizes[i], seed);
            memset(room.out, 0x5a, sizes[i]);
            if (held)
                gate = test_gate_close(t->stream);
            OK(leat_copy(t->stream, room.out, room.memory, sizes[i]));
            OK(leat_fill(t->stream, room.memory, 0x33, sizes[i]));
            OK(leat_copy(t->stream, again, room.out, sizes[i]));
            OK(leat_copy(t->stream, room.pinned, again, sizes[i]));
            if (held)
                test_gate_open(gate);
            OK(leat_stream_synchronize(t->stream));
            EXPECT_PATTERN(room.pinned, sizes[i], seed);
            EXPECT_PATTERN(room.out, sizes[i], seed);
        }
    }
    OK(leat_memory_free(again));
    end_room(&room);
}

struct reader {
    const unsigned char *ptr;
    size_t bytes, wrong;
    uint64_t seed;
};

static void count_wrong(void *argument)
{
    struct reader *r = argument;

    for (size_t i = 0; i < r->bytes; i += 8) {
        uint64_t word = leat_pattern_value(i / 8, r->seed);

        r->wrong += memcmp(r->ptr + i, &word, r->bytes - i < 8 ? r->bytes - i : 8) != 0;
    }
}

static void a_destination_is_complete_in_a_later_host_function(void **state)
{
    static struct reader reader;
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);

    for (size_t i = 0; i < SIZES; i++) {
        reader = (struct reader){room.out, sizes[i], 0, 400 + i};
        write_memory(t->stream, &room, sizes[i], 400 + i);
        memset(room.out, 0x5a, sizes[i]);
        OK(leat_copy(t->stream, room.out, room.memory, sizes[i]));
        OK(leat_launch_host(t->stream, count_wrong, &reader));
        OK(leat_stream_synchronize(t->stream));
        assert_int_equal(reader.wrong, 0);
    }
    end_room(&room);
}

/* The host waits in four ways, and the destination must be complete after each: leat_event_synchronize,
 * leat_event_query, leat_stream_query and leat_device_synchronize. */
static void a_destination_is_complete_when_the_host_has_waited(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    for (size_t i = 0; i < SIZES; i++) {
        for (int way = 0; way < 4; way++) {
            uint64_t seed = 500 + 4 * i + (uint64_t)way;
            leat_status status = LEAT_OK;

            write_memory(t->stream, &room, sizes[i], seed);
            memset(room.out, 0x5a, sizes[i]);
            OK(leat_launch_host(t->stream, be_slow, NULL));
            OK(leat_copy(t->stream, room.out, room.memory, sizes[i]));
            OK(leat_event_record(t->stream, event));
            if (way == 0)
                OK(leat_event_synchronize(event));
            else if (way == 1)
                while ((status = leat_event_query(event)) == LEAT_NOT_READY)
                    continue;
            else if (way == 2)
                while ((status = leat_stream_query(t->stream)) == LEAT_NOT_READY)
                    continue;
            else
                OK(leat_device_synchronize(t->device));
            OK(status);
            EXPECT_PATTERN(room.out, sizes[i], seed);
        }
    }
    OK(leat_event_destroy(event));
    end_room(&room);
}

/* Two streams pass data to each other through pageable memory. */
static void other_streams_see_the_data_after_an_event(void **state)
{
    struct test_state *t = *state;
    struct room room = make_room(t->device, MOST);
    unsigned char *again = test_alloc(t->device, LEAT_KIND_DEVICE, MOST);
    leat_event *event;

    OK(leat_event_create(t->device, &event));
    for (size_t i = 0; i < SIZES; i++) {
        struct test_gate *gate = test_gate_close(t->stream);

        test_pattern(room.in, sizes[i], 600 + i);
        memset(room.out, 0x5a, sizes[i]);
        OK(leat_copy(t->stream, room.memory, room.in, sizes[i]));
        OK(leat_copy(t->stream, room.out, room.memory, sizes[i]));
        OK(leat_event_record(t->stream, event));
        OK(leat_stream_wait(t->second, event));
        OK(leat_copy(t->second, again, room.out, sizes[i]));
        OK(leat_copy(t->second, room.pinned, again, sizes[i]));
        EXPECT_HELD(t->second, gate);
        test_gate_open(gate);
        OK(leat_stream_synchronize(t->second));
        EXPECT_PATTERN(room.pinned, sizes[i], 600 + i);
    }
    OK(leat_event_destroy(event));
    OK(leat_memory_free(again));
    end_room(&room);
}

/* Streams that a gate holds up must not keep pinned memory or threads that copies of other streams need. */
static void many_held_streams_hold_nobody_else_up(void **state)
{
    enum { HELD = 16 };
    struct test_state *t = *state;
    struct room rooms[HELD], own;
    struct test_gate *gates[HELD];
    leat_stream *streams[HELD];

    if (!test_on_cpu())
        SKIP_OTHER("streams of CUDA share few queues for copies, which held ones fill (docs/copies.md)");
    own = make_room(t->device, MOST);
    for (size_t i = 0; i < HELD; i++) {
        size_t bytes = MIB + 1000 * i + 1;

        rooms[i] = make_room(t->device, 2 * MIB);
        OK(leat_stream_create(t->device, &streams[i]));
        test_pattern(rooms[i].in, bytes, i);
        gates[i] = test_gate_close(streams[i]);
        OK(leat_copy(streams[i], rooms[i].memory, rooms[i].in, bytes));
        OK(leat_copy(streams[i], rooms[i].out, rooms[i].memory, bytes));
    }
    for (size_t i = 0; i < SIZES; i++) {
        test_pattern(own.in, sizes[i], 700 + i);
        memset(own.out, 0, sizes[i]);
        OK(leat_copy(t->stream, own.memory, own.in, sizes[i]));
        OK(leat_copy_sync(t->stream, own.out, own.memory, sizes[i]));
        EXPECT_PATTERN(own.out, sizes[i], 700 + i);
    }
    for (size_t i = HELD; i-- > 0;) {
        size_t bytes = MIB + 1000 * i + 1;

        assert_int_equal(atomic_load(&gates[i]->passed), 0);
        test_gate_open(gates[i]);
        OK(leat_stream_synchronize(streams[i]));
        EXPECT_PATTERN(rooms[i].out, bytes, i);
    }
    for (size_t i = 0; i < HELD; i++) {
        OK(leat_stream_destroy(streams[i]));
        end_room(&rooms[i]);
    }
    end_room(&own);
}

/* Submits more copies than there are staging slots to one stream that a gate holds up. */
static void many_copies_wait_on_one_stream(void **state)
{
    enum { COUNT = 200, BYTES = 100003 };
    struct test_state *t = *state;
    struct room room = make_room(t->device, (size_t)COUNT * BYTES);
    struct test_gate *gate = test_gate_close(t->stream);

    test_pattern(room.in, (size_t)COUNT * BYTES, 800);
    for (size_t i = 0; i < COUNT; i++) {
        OK(leat_copy(t->stream, room.memory + i * BYTES, room.in + i * BYTES, BYTES));
        OK(leat_copy(t->stream, room.out + i * BYTES, room.memory + i * BYTES, BYTES));
    }
    EXPECT_HELD(t->stream, gate);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    EXPECT_PATTERN(room.out, (size_t)COUNT * BYTES, 800);
    end_room(&room);
}

/* Long copies of one stream share a ring, which workers fill ahead while the stream fills memory. So the second copy
 * must not touch the first one's bytes before its DMAs. (Behind a gate, that is a host function, which may
 * write the source, they would not.) */
static void long_copies_wait_on_one_stream(void **state)
{
    enum { COUNT = 7 };
    struct test_state *t = *state;
    /* More than a ring has: 32 MiB by default, 1 MiB where the CPU device is tested with rings. */
    const size_t bytes = (test_on_cpu() ? (size_t)3 << 20 : (size_t)34 << 20) + 12345;
    struct room room = make_room(t->device, COUNT * bytes);

    for (unsigned round = 0; round < 2; round++) {
        test_pattern(room.in, COUNT * bytes, 810 + round);
        for (unsigned i = 0; i < (test_on_cpu() ? 40 : 200); i++)
            OK(leat_fill(t->stream, room.memory, 0, COUNT * bytes));
        for (size_t i = 0; i < COUNT; i++)
            OK(leat_copy(t->stream, room.memory + i * bytes, room.in + i * bytes, bytes));
        OK(leat_copy(t->stream, room.out, room.memory, COUNT * bytes));
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(room.out, COUNT * bytes, 810 + round);
    }
    end_room(&room);
}

static void two_devices_at_once(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    struct room here, there;
    leat_stream *stream;

    if (!other)
        SKIP_OTHER("needs two devices of one driver");
    OK(leat_stream_create(other, &stream));
    here = make_room(t->device, MOST);
    there = make_room(other, MOST);
    for (size_t i = 0; i < SIZES; i++) {
        test_pattern(here.in, sizes[i], 900 + i);
        test_pattern(there.in, sizes[i], 950 + i);
        OK(leat_copy(t->stream, here.memory, here.in, sizes[i]));
        OK(leat_copy(stream, there.memory, there.in, sizes[i]));
        OK(leat_copy(t->stream, here.out, here.memory, sizes[i]));
        OK(leat_copy(stream, there.out, there.memory, sizes[i]));
        OK(leat_stream_synchronize(stream));
        EXPECT_PATTERN(there.out, sizes[i], 950 + i);
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(here.out, sizes[i], 900 + i);
        /* Streams of both devices also copy to the other device's memory. */
        OK(leat_copy(stream, here.memory, there.in, sizes[i]));
        OK(leat_copy(stream, here.out, here.memory, sizes[i]));
        OK(leat_copy(t->stream, there.memory, here.in, sizes[i]));
        OK(leat_copy(t->stream, there.out, there.memory, sizes[i]));
        OK(leat_stream_synchronize(stream));
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(here.out, sizes[i], 950 + i);
        EXPECT_PATTERN(there.out, sizes[i], 900 + i);
    }
    end_room(&here);
    end_room(&there);
    OK(leat_device_close(other));
}

/* ---- threads ---- */

struct job {
    leat_device *device;
    unsigned number;
    char failure[256];
};

#define JOB_BYTES (3 * MIB)

static bool job_failed(struct job *job, const char *call)
{
    snprintf(job->failure, sizeof job->failure, "%s: %s", call, leat_last_error());
    return true;
}

#define TRY(call)                                                                                                 \
    do {                                                                                                          \
        if ((call) != LEAT_OK && job_failed(job, #call))                                                          \
            goto end;                                                                                             \
    } while (0)

/* Copies all sizes in both directions and waits for the copies in several ways. */
static void *copy_again_and_again(void *argument)
{
    enum { ROUNDS = 40 };
    struct job *job = argument;
    unsigned char *in = malloc(JOB_BYTES), *out = malloc(JOB_BYTES);
    leat_stream *stream = NULL;
    void *memory = NULL;

    TRY(leat_stream_create(job->device, &stream));
    TRY(leat_alloc(stream, JOB_BYTES, &memory));
    for (unsigned round = 0; in && out && round < ROUNDS; round++) {
        uint64_t number = (uint64_t)job->number * ROUNDS + round;
        size_t bytes = 1 + (size_t)leat_pattern_value(number, 1) % (round % 4 ? 200 * KIB : JOB_BYTES);
        leat_ticket *first, *last;

        memset(in, (int)number, bytes);
        memset(out, 0xff - (int)(number & 0xff), bytes);
        TRY(leat_copy_start(stream, memory, in, bytes, NULL, &first));
        TRY(leat_copy_start(stream, out, memory, bytes, NULL, &last));
        if (round % 3 == 0) {
            TRY(leat_ticket_wait(first, LEAT_COPY_POINT_STAGED, LEAT_FOREVER));
            memset(in, 0xdd, bytes);
        }
        if (round % 2)
            TRY(leat_stream_synchronize(stream));
        TRY(leat_ticket_wait(last, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
        TRY(leat_ticket_destroy(last));
        TRY(leat_ticket_destroy(first));
        for (size_t i = 0; i < bytes; i++)
            if (out[i] != (unsigned char)number) {
                snprintf(job->failure, sizeof job->failure, "round %u: byte %zu of %zu is wrong", round, i, bytes);
                goto end;
            }
    }
    TRY(leat_free(stream, memory));
    TRY(leat_stream_synchronize(stream));
    TRY(leat_stream_destroy(stream));
end:
    free(in);
    free(out);
    return NULL;
}

static void threads_copy_beside_each_other(void **state)
{
    enum { COUNT = 6 };
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    struct job jobs[COUNT];
    pthread_t threads[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        jobs[i] = (struct job){.device = other && i % 3 == 2 ? other : t->device, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, copy_again_and_again, &jobs[i]), 0);
    }
    for (unsigned i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < COUNT; i++)
        assert_string_equal(jobs[i].failure, "");
    OK(leat_device_close(other));
}

/* State of one of two threads that submit copies to the same stream. Each copy must arrive whole, and each
 * thread's copies must run in order. */
struct half {
    leat_stream *stream;
    unsigned char *in, *out, *memory;
    leat_status status;
};

static void *copy_half(void *argument)
{
    struct half *half = argument;

    for (unsigned i = 0; i < 100 && half->status == LEAT_OK; i++) {
        size_t bytes = i % 10 ? 70001 : MIB;

        half->status = leat_copy(half->stream, half->memory, half->in, bytes);
        if (half->status == LEAT_OK)
            half->status = leat_copy(half->stream, half->out, half->memory, bytes);
    }
    return NULL;
}

static void two_threads_share_a_stream(void **state)
{
    struct test_state *t = *state;
    struct room rooms[2];
    struct half halves[2];
    pthread_t threads[2];

    for (unsigned i = 0; i < 2; i++) {
        rooms[i] = make_room(t->device, MIB);
        test_pattern(rooms[i].in, MIB, i);
        halves[i] = (struct half){t->stream, rooms[i].in, rooms[i].out, rooms[i].memory, LEAT_OK};
        assert_int_equal(pthread_create(&threads[i], NULL, copy_half, &halves[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    OK(leat_stream_synchronize(t->stream));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(halves[i].status, LEAT_OK);
        EXPECT_PATTERN(rooms[i].out, MIB, i);
        end_room(&rooms[i]);
    }
}

static void expect_why(leat_stream *stream, void *dst, const void *src, size_t bytes, const char *why, bool there)
{
    char text[1000];

    OK(leat_copy_explain(stream, dst, src, bytes, text, sizeof text));
    if (!strstr(text, why) == there)
        fail_msg("%zu bytes: '%s' is%s in\n%s", bytes, why, there ? " not" : "", text);
}

/* leat_copy_explain() names the protocol that leat_copy() would choose now. For a short copy that is the eager
 * protocol on an idle stream, and another one on a busy stream. */
static void short_copies_are_explained_as_they_go(void **state)
{
    static const char eager[] = "  protocol  eager: ";
    struct test_state *t = *state;
    const char *stage = getenv("LEAT_COPY_STAGE");
    bool staged = !test_on_cpu() || (stage && !strcmp(stage, "1"));
    struct room room = make_room(t->device, 64 * KIB);
    struct test_gate *gate;

    /* leat creates its staging memory in the background of a process's first copies. Make those copies now. */
    OK(leat_copy(t->stream, room.memory, room.in, 64 * KIB));
    gate = test_gate_close(t->stream);
    OK(leat_copy(t->stream, room.memory, room.in, 64 * KIB));
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    expect_why(t->stream, room.memory, room.in, 4 * KIB, eager, staged);
    expect_why(t->stream, room.out, room.memory, 4 * KIB, eager, staged);
    expect_why(t->stream, room.memory, room.pinned, 4 * KIB, eager, false);
    expect_why(t->stream, room.memory, room.pinned, 4 * KIB, "  protocol  driver: its asynchronous copy", true);
    gate = test_gate_close(t->stream);
    expect_why(t->stream, room.memory, room.in, 4 * KIB, eager, false);
    expect_why(t->stream, room.out, room.memory, 4 * KIB, eager, false);
    expect_why(t->stream, room.out, room.memory, 4 * KIB, "  protocol  staged: in 1 chunk", staged);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    end_room(&room);
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(short_copies_are_explained_as_they_go),
    STATE_TEST(a_copy_in_returns_while_its_stream_is_held),
    STATE_TEST(a_copy_out_returns_while_its_stream_is_held),
    STATE_TEST(copies_on_a_stream_that_is_not_held),
    STATE_TEST(between_two_host_buffers),
    STATE_TEST(bytes_around_a_copy_stay),
    STATE_TEST(no_bytes_at_all),
    STATE_TEST(a_source_is_read_after_a_host_function_that_writes_it),
    STATE_TEST(a_source_is_read_after_a_host_function_of_another_stream),
    STATE_TEST(a_source_is_read_after_a_copy_into_it),
    STATE_TEST(a_destination_is_complete_in_a_later_host_function),
    STATE_TEST(a_destination_is_complete_when_the_host_has_waited),
    STATE_TEST(other_streams_see_the_data_after_an_event),
    STATE_TEST(many_held_streams_hold_nobody_else_up),
    STATE_TEST(many_copies_wait_on_one_stream),
    STATE_TEST(long_copies_wait_on_one_stream),
    STATE_TEST(two_devices_at_once),
    STATE_TEST(threads_copy_beside_each_other),
    STATE_TEST(two_threads_share_a_stream),
};

TEST_MAIN(tests)
