/*
 * test_message_kill.c - kills the other process of a link at random moments, in the middle of messages, gets and
 * puts in both directions.
 *
 * All copies of this end must then end, with success or LINK, and the link must say why. No byte outside of a
 * destination may be written, and no descriptor may stay open. NET_KILLS or --rounds sets the number of rounds;
 * --seed repeats a run.
 */
#include "link_room.h"

#include "seed.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

enum { ROUNDS = 100, MESSAGES = 12, BYTES_MOST = 3 << 20, TAGS = 3 };

static uint64_t seed, random_state;

static uint64_t below(uint64_t limit)
{
    uint64_t mixed = random_state += 0x9e3779b97f4a7c15u;

    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return (mixed ^ mixed >> 31) % limit;
}

/* What one end does. Both ends draw the same numbers, so their sends and receives match. */
struct end {
    leat_device *device;
    leat_stream *streams[4];
    leat_link *link;
    leat_region *region;
    struct memory exposed, memory[MESSAGES];
    leat_ticket *tickets[MESSAGES];
};

static void start_copies(struct end *end, bool first)
{
    /* All memory first, because filling it waits for the stream. */
    for (unsigned i = 0; i < MESSAGES; i++)
        end->memory[i] = make_memory(end->device, end->streams[0], memory_kinds[below(3)],
                                     1 + (size_t)below(below(3) ? BYTES_MOST : 5000), below(8));
    for (unsigned i = 0; i < MESSAGES; i++) {
        uint64_t tag = below(TAGS), what = below(8);
        leat_stream *stream = end->streams[below(4)];
        bool sends = first == (what % 2 == 0);
        struct memory *memory = &end->memory[i];
        size_t bytes = memory->bytes;
        leat_status status;

        if (what == 7)
            status =
                first ? leat_get_start(stream, memory->at, end->link, "region", 0, bytes, NULL, &end->tickets[i])
                      : leat_put_start(stream, end->link, "region", 0, memory->at, bytes, NULL, &end->tickets[i]);
        else if (sends)
            status = leat_send_start(stream, end->link, tag, memory->at, bytes, NULL, &end->tickets[i]);
        else
            status = leat_receive_start(stream, memory->at, end->link, tag, bytes, NULL, &end->tickets[i]);
        assert_true(status == LEAT_OK || status == LEAT_ERROR_LINK);
    }
}

static void open_end(struct end *end, int fd, enum transport transport, const char *peer)
{
    memset(end, 0, sizeof *end);
    end->device = test_open();
    for (unsigned i = 0; i < 4; i++)
        OK(leat_stream_create(end->device, &end->streams[i]));
    end->link =
        link_of(fd, &(struct link_setup){.transport = transport, .window_bytes = 1 + below(2 * MIB),
                                   .memory_bytes = below(2) ? 0 : 1 + below(4 * MIB)},
                peer);
    end->exposed = make_memory(end->device, end->streams[0], LEAT_KIND_DEVICE, BYTES_MOST, 0);
    if (leat_expose(end->streams[3], end->link, "region", end->exposed.at, BYTES_MOST, LEAT_ACCESS_READ_WRITE,
                    &end->region) != LEAT_OK)
        end->region = NULL; /* the other end was killed already */
}

/* The other process: makes its copies, and then waits until it is killed. */
static void run_child(int fd, enum transport transport)
{
    struct end end;

    alarm(120);
    open_end(&end, fd, transport, "the parent");
    start_copies(&end, false);
    for (;;)
        pause();
}

static void close_end(struct end *end)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        leat_status status = end->tickets[i] ? end_of(end->tickets[i]) : LEAT_ERROR_LINK;

        if (status != LEAT_OK && status != LEAT_ERROR_LINK && status != LEAT_ERROR_NOT_FOUND)
            print_error("copy %u ended with %s: %s\n", i, leat_status_name(status), leat_last_error());
        assert_true(status == LEAT_OK || status == LEAT_ERROR_LINK || status == LEAT_ERROR_NOT_FOUND);
    }
    for (unsigned i = 0; i < 4; i++)
        take_failures(end->streams[i]);
    wait_for_failure(end->link);
    OK(leat_unexpose(end->region));
    for (unsigned i = 0; i < 4; i++)
        take_failures(end->streams[i]);
    for (unsigned i = 0; i < MESSAGES; i++) {
        expect_guards(end->streams[0], &end->memory[i]);
        free_memory(&end->memory[i]);
    }
    expect_guards(end->streams[0], &end->exposed);
    free_memory(&end->exposed);
    OK(leat_link_close(end->link));
    for (unsigned i = 0; i < 4; i++)
        OK(leat_stream_destroy(end->streams[i]));
    OK(leat_device_close(end->device));
}

/* The parent forks before it opens a device, and closes the device at the end of each round. */
static void run_round(uint64_t round)
{
    enum transport transport = round % TRANSPORTS;
    struct end end;
    int fds[2];
    pid_t child;

    make_sockets(transport, fds);
    random_state = seed + round;
    child = fork();
    if (!child) {
        close(fds[0]);
        run_child(fds[1], transport);
    }
    assert_true(child > 0);
    close(fds[1]);
    open_end(&end, fds[0], transport, "the child");
    start_copies(&end, true);
    random_state = seed + round + 1000000;
    test_sleep_us((long)below(below(2) ? 60000 : 10000));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close_end(&end);
}

static uint64_t rounds = ROUNDS;

static void test_kill(void **state)
{
    unsigned before;

    (void)state;
    run_round(0);
    before = count_descriptors();
    for (uint64_t round = 1; round < rounds; round++) {
        run_round(round);
        expect_descriptors(before);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_kill)};

int main(int argc, char **argv)
{
    const char *given = getenv("NET_KILLS");

    seed = test_seed();
    rounds = given && *given ? strtoull(given, NULL, 0) : ROUNDS;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 0);

        if (!strcmp(argv[i], "--seed"))
            seed = value;
        else if (!strcmp(argv[i], "--rounds"))
            rounds = value;
    }
    printf("test_message_kill: --seed %" PRIu64 "\n", seed);
    fflush(stdout);
    if (!test_on_cpu()) {
        printf("skipped: the processes of this test open the device at once\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
