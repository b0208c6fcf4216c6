/*
 * test_link_memory.c - tests that all receives of a link together keep at most memory_bytes of payload, and that
 * the limit holds up no receive whose stream has reached it.
 */
#include "link_room.h"

#include "message.h"

enum { MANY = 6 };
#define WINDOW (256 * KIB)
#define MEMORY (MIB)
#define BYTES (MIB + 3)

/* So many streams wait at once that a GPU needs more queues than by default (leat/link.h). The driver reads this
 * when the device is opened. */
static void __attribute__((constructor)) ask_for_queues(void)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

/* Returns the memory of all stashes of a link, without that of UCX. */
static size_t kept_by(leat_link *link)
{
    size_t kept = 0;

    leatn_link_lock(link);
    assert_true(link->reserved <= link->connection.memory_bytes);
    for (const struct leatn_op *op = link->ops; op; op = op->next_op)
        for (const struct leatn_stash *stash = op->stash; stash; stash = stash->next)
            kept += stash->block ? stash->end : stash->room;
    leatn_link_unlock(link);
    return kept;
}

static uint64_t reserved_by(leat_link *link)
{
    uint64_t reserved;

    leatn_link_lock(link);
    reserved = link->reserved;
    leatn_link_unlock(link);
    return reserved;
}

/* Many messages, and the streams of both ends. */
struct many {
    struct ends ends;
    leat_stream *senders[MANY], *receivers[MANY];
    struct memory src[MANY], dst[MANY];
};

static struct many *make_many(const struct test_state *room, uint64_t memory_bytes)
{
    struct many *many = test_buffer(sizeof *many);

    many->ends = make_ends(
        &(struct link_setup){.transport = TRANSPORT_TCP, .window_bytes = WINDOW, .memory_bytes = memory_bytes});
    for (unsigned i = 0; i < MANY; i++) {
        OK(leat_stream_create(room->device, &many->senders[i]));
        OK(leat_stream_create(room->device, &many->receivers[i]));
        many->src[i] = make_memory(room->device, room->stream, memory_kinds[i % MEMORY_KINDS], BYTES, 0);
        many->dst[i] = make_memory(room->device, room->stream, memory_kinds[i / 2 % MEMORY_KINDS], BYTES, 0);
        fill_memory(room->stream, &many->src[i], i);
    }
    return many;
}

static void receive_many(struct many *many)
{
    for (unsigned i = 0; i < MANY; i++)
        OK(leat_receive(many->receivers[i], many->dst[i].at, many->ends.two, i, BYTES));
}

static void send_many(struct many *many)
{
    for (unsigned i = 0; i < MANY; i++)
        OK(leat_send(many->senders[i], many->ends.one, i, many->src[i].at, BYTES));
}

static void end_many(const struct test_state *room, struct many *many)
{
    for (unsigned i = 0; i < MANY; i++) {
        OK(leat_stream_synchronize(many->receivers[i]));
        OK(leat_stream_synchronize(many->senders[i]));
        expect_message(room->stream, &many->dst[i], i);
        OK(leat_stream_destroy(many->senders[i]));
        OK(leat_stream_destroy(many->receivers[i]));
        free_memory(&many->src[i]);
        free_memory(&many->dst[i]);
    }
    assert_int_equal(reserved_by(many->ends.two), 0);
    close_ends(&many->ends);
    free(many);
}

/* All receives are blocked, and another one of the same link is not. They wait for counters, not for host functions:
 * a GPU's driver runs those one after the other, so the streams could be let go in one order only. */
static void blocked_receives_keep_little(void **state)
{
    static const uint64_t limits[] = {1, WINDOW - 1, MEMORY, MANY * (uint64_t)WINDOW};
    const struct test_state *room = *state;

    for (unsigned l = 0; l < 4; l++) {
        struct many *many = make_many(room, limits[l]);
        struct memory src = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, 5 * MIB, 0);
        struct memory dst = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, 5 * MIB, 0);
        _Atomic uint32_t *open = test_alloc(room->device, LEAT_KIND_PINNED, sizeof *open * MANY);
        bool stashes = limits[l] >= WINDOW;
        /* A GPU may have two of the streams in one queue, so that a send waits for a receive that is blocked. */
        bool all_start = !strncmp(test_device_name(), "cpu", 3) && !getenv("LEAT_COPY_STAGE");

        fill_memory(room->stream, &src, 99);
        for (unsigned i = 0; i < MANY; i++) {
            atomic_store(&open[i], 0);
            OK(leat_stream_wait_u32(many->receivers[i], (void *)&open[i], 1));
        }
        receive_many(many);
        send_many(many);
        /* The limit is used as far as windows fit into it. */
        for (unsigned i = 0; i < (all_start ? 20000 : 500) && stashes && kept_by(many->ends.two) < limits[l]; i++)
            test_sleep_us(1000);
        for (unsigned i = 0; i < 30; i++) {
            assert_true(kept_by(many->ends.two) <= limits[l]);
            test_sleep_us(1000);
        }
        if (stashes && limits[l] % WINDOW == 0 && all_start)
            assert_int_equal(kept_by(many->ends.two), limits[l]);
        OK(leat_receive(room->second, dst.at, many->ends.two, 1000, src.bytes));
        OK(leat_send(room->stream, many->ends.one, 1000, src.at, src.bytes));
        OK(leat_stream_synchronize(room->second));
        OK(leat_stream_synchronize(room->stream));
        expect_message(room->stream, &dst, 99);
        for (unsigned i = MANY; i-- > 0;) {
            atomic_store(&open[i], 1);
            OK(leat_stream_synchronize(many->receivers[i]));
            assert_true(kept_by(many->ends.two) <= limits[l]);
        }
        end_many(room, many);
        free_memory(&src);
        free_memory(&dst);
        OK(leat_memory_free((void *)open));
    }
}

/* All receives wait for the one that was made last, which has no reserve. It is sent last, too. */
static void receives_that_wait_for_the_last_one(void **state)
{
    static const uint64_t limits[] = {1, WINDOW, MEMORY};
    const struct test_state *room = *state;

    for (unsigned l = 0; l < 3; l++) {
        struct many *many = make_many(room, limits[l]);
        struct memory src = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, 3 * MIB, 0);
        struct memory dst = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, 3 * MIB, 0);
        struct test_gate *gate = test_gate_close(room->second);
        leat_stream *last;
        leat_event *event;

        OK(leat_event_create(room->device, &event));
        OK(leat_event_record(room->second, event));
        for (unsigned i = 0; i < MANY; i++)
            OK(leat_stream_wait(many->receivers[i], event));
        receive_many(many);
        /* The gate opens when this one is complete. */
        fill_memory(room->stream, &src, 77);
        OK(leat_receive(room->stream, dst.at, many->ends.two, 1000, src.bytes));
        send_many(many);
        test_sleep_us(20000); /* so that their bytes are in front */
        OK(leat_stream_create(room->device, &last));
        OK(leat_send(last, many->ends.one, 1000, src.at, src.bytes));
        OK(leat_stream_synchronize(room->stream));
        test_gate_open(gate);
        expect_message(room->stream, &dst, 77);
        OK(leat_stream_synchronize(last));
        OK(leat_stream_destroy(last));
        OK(leat_event_destroy(event));
        end_many(room, many);
        free_memory(&src);
        free_memory(&dst);
    }
}

/* Stops receives with and without a reserve, before and while their bytes come: all memory is given back. */
static void stopped_receives_give_their_memory_back(void **state)
{
    const struct test_state *room = *state;
    struct many *many = make_many(room, MEMORY);
    leat_ticket *received[MANY], *sent[MANY];

    for (unsigned round = 0; round < 6; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            OK(leat_receive_start(many->receivers[i], many->dst[i].at, many->ends.two, i, BYTES, NULL,
                                  &received[i]));
            OK(leat_send_start(many->senders[i], many->ends.one, i, many->src[i].at, BYTES, NULL, &sent[i]));
        }
        test_sleep_us(round * 300L);
        for (unsigned i = 0; i < MANY; i++)
            OK(leat_ticket_cancel(i % 2 ? received[i] : sent[i]));
        for (unsigned i = 0; i < MANY; i++) {
            (void)end_of(received[i]);
            (void)end_of(sent[i]);
            take_failures(many->receivers[i]);
            take_failures(many->senders[i]);
            expect_guards(room->stream, &many->dst[i]);
        }
        assert_int_equal(info_of(many->ends.two).status, LEAT_OK);
    }
    receive_many(many);
    send_many(many);
    end_many(room, many);
}

/* Puts of the other end count too. */
static void puts_count(void **state)
{
    const struct test_state *room = *state;
    struct many *many = make_many(room, MEMORY);
    struct test_gate *gate;
    leat_region *region;
    struct memory memory = make_memory(room->device, room->stream, LEAT_KIND_DEVICE, MANY * BYTES, 0);

    OK(leat_expose(room->second, many->ends.two, "r", memory.at, memory.bytes, LEAT_ACCESS_READ_WRITE, &region));
    gate = test_gate_close(room->second);
    for (unsigned i = 0; i < MANY; i++)
        OK(leat_put(many->senders[i], many->ends.one, "r", i * BYTES, many->src[i].at, BYTES));
    for (unsigned i = 0; i < 50; i++) {
        assert_true(kept_by(many->ends.two) <= MEMORY);
        test_sleep_us(1000);
    }
    test_gate_open(gate);
    for (unsigned i = 0; i < MANY; i++) {
        OK(leat_stream_synchronize(many->senders[i]));
        copy_now(room->stream, many->dst[i].at, memory.at + i * BYTES, BYTES);
    }
    OK(leat_unexpose(region));
    free_memory(&memory);
    end_many(room, many);
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(blocked_receives_keep_little),
    STATE_TEST(receives_that_wait_for_the_last_one),
    STATE_TEST(stopped_receives_give_their_memory_back),
    STATE_TEST(puts_count),
};

LINK_TEST_MAIN(tests)
