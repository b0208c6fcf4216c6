/*
 * test_share.c - tests leat/share.h: memory that two processes share and hand over in stream order. The program
 * runs itself again as the other process. LEAT_TEST_DEVICE names the device.
 *
 * A gate (harness.h) holds up the work that must come first, and the test looks at the other side while the gate
 * is closed. So a wait that is missing gives wrong bytes every time, and not only by chance.
 */
#include "seed.h"
#include "test_pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <leat/share.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 8192, WORDS = BYTES / 4, SLOTS = 1024, STREAMS = 8 };

/* ---- processes ------------------------------------------------------------------------------------------ */

/* The other process. */
struct peer {
    pid_t process;
    int socket;  /* for shares */
    int control; /* single bytes: steps of the test */
};

/* Starts this program again in the given role. */
static struct peer start_peer(const char *role)
{
    struct peer peer;
    char words[2][16];
    int share[2], control[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, share), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control), 0);
    fflush(NULL);
    peer.process = fork();
    assert_true(peer.process >= 0);
    if (!peer.process) {
        fcntl(share[1], F_SETFD, 0);
        fcntl(control[1], F_SETFD, 0);
        snprintf(words[0], sizeof words[0], "%d", share[1]);
        snprintf(words[1], sizeof words[1], "%d", control[1]);
        execl("/proc/self/exe", "test_share", "--peer", role, words[0], words[1], (char *)NULL);
        _exit(126);
    }
    close(share[1]);
    close(control[1]);
    peer.socket = share[0];
    peer.control = control[0];
    return peer;
}

/* Tells the other process to go on. */
static void say(int control)
{
    const char step = 's';

    (void)!send(control, &step, 1, MSG_NOSIGNAL);
}

/* Waits until the other process says so. Returns false if it has ended. */
static bool hear(int control)
{
    struct pollfd ready = {.fd = control, .events = POLLIN};
    char step;

    return poll(&ready, 1, 60000) == 1 && recv(control, &step, 1, 0) == 1;
}

/* Waits for the other process, which must have found everything right. */
static void end_peer(struct peer *peer)
{
    int status;

    close(peer->control);
    assert_int_equal(waitpid(peer->process, &status, 0), peer->process);
    close(peer->socket);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void kill_peer(struct peer *peer)
{
    int status;

    assert_int_equal(kill(peer->process, SIGKILL), 0);
    assert_int_equal(waitpid(peer->process, &status, 0), peer->process);
    close(peer->control);
    close(peer->socket);
}

static unsigned count_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Counts the descriptors once no more than allowed are open, or after 5 s. leat's threads open files under
 * /proc for a moment, for example to name a thread. */
static unsigned count_settled_fds(unsigned allowed)
{
    unsigned count = count_fds();

    for (int i = 0; i < 5000 && count > allowed; i++) {
        test_sleep_us(1000);
        count = count_fds();
    }
    return count;
}

static leat_pool *exportable(leat_device *device)
{
    return POOL(device, .name = "shared", .dedicated = 1, .exportable = 1);
}

static leat_share_info info_of(leat_share *share)
{
    leat_share_info info = LEAT_SHARE_INFO_INIT;

    OK(leat_share_get_info(share, &info));
    return info;
}

/* Waits until this side has noticed that the other one is gone. */
static void wait_until_gone(leat_share *share)
{
    for (int i = 0; i < 300000 && !info_of(share).gone; i++)
        test_sleep_us(100);
    assert_true(info_of(share).gone);
}

/* Skips the test if the device cannot share. */
static void needs_shares(struct test_state *t)
{
    uint32_t *counter = test_alloc(t->device, LEAT_KIND_PINNED, 4);
    leat_status status = leat_stream_write_u32(t->stream, counter, 1);

    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(counter));
    if (status == LEAT_ERROR_UNSUPPORTED)
        SKIP_OTHER("the driver has no counters");
    NEEDS_VIRTUAL_MEMORY(t);
}

static leat_share *share_block(leat_stream *stream, void *block)
{
    leat_share *share = NULL;

    OK(leat_share_create(stream, block, NULL, &share));
    assert_non_null(share);
    return share;
}

/* Sends a share to this same process, which receives it. */
static leat_share *receive_here(leat_device *device, leat_share *share)
{
    leat_share *received = NULL;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    OK(leat_share_send(share, ends[0]));
    OK(leat_share_receive(device, ends[1], &received));
    close(ends[0]);
    close(ends[1]);
    return received;
}

static void *pointer_of(leat_share *share)
{
    void *ptr = NULL;

    OK(leat_share_get_pointer(share, &ptr, NULL));
    return ptr;
}

static void fill_words(leat_stream *stream, void *block, uint32_t value)
{
    OK(leat_fill_pattern(stream, block, &value, 4, BYTES));
}

static void expect_words(const uint32_t *words, uint32_t value)
{
    for (size_t i = 0; i < WORDS; i++)
        assert_int_equal(words[i], value);
}

/* Fails if the stream becomes idle within 20 ms. */
static void expect_waiting(leat_stream *stream)
{
    for (int i = 0; i < 20; i++) {
        assert_int_equal(leat_stream_query(stream), LEAT_NOT_READY);
        test_sleep_us(1000);
    }
}

/* ---- order, both ways ----------------------------------------------------------------------------------- */

/* A side whose stream is held up before it writes and hands over. Meanwhile the other side must wait. */
static void write_behind_a_gate(leat_stream *stream, leat_share *share, void *block, uint32_t value, int control)
{
    struct test_gate *gate = test_gate_close(stream);

    fill_words(stream, block, value);
    OK(leat_share_hand_over(stream, share));
    say(control);               /* the other side now submits its take-over and looks whether it waits */
    assert_true(hear(control)); /* it waits */
    test_gate_open(gate);
}

/* The other side: reads after the take-over. */
static void read_after_the_wait(leat_stream *stream, leat_share *share, void *block, uint32_t value,
                                uint32_t *seen, int control)
{
    assert_true(hear(control));
    OK(leat_share_take_over(stream, share));
    OK(leat_copy(stream, seen, block, BYTES));
    expect_waiting(stream);
    say(control);
    OK(leat_stream_synchronize(stream));
    expect_words(seen, value);
}

static void order_holds_in_both_directions(void **state)
{
    struct test_state *t = *state;
    leat_event *written;
    leat_share *share;
    struct peer peer;
    leat_pool *pool;
    uint32_t *seen;
    void *block;

    needs_shares(t);
    peer = start_peer("order");
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    seen = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
    fill_words(t->stream, block, 77);
    OK(leat_stream_synchronize(t->stream));
    share = share_block(t->stream, block);
    OK(leat_share_send(share, peer.socket));
    OK(leat_event_create(t->device, &written));
    for (uint32_t round = 0; round < 3; round++) {
        write_behind_a_gate(t->stream, share, block, 100 + round, peer.control);
        /* The second stream continues what the first one began. ThreadSanitizer does not see that the other
         * process orders it after the first one, so an event does too. */
        OK(leat_event_record(t->stream, written));
        OK(leat_stream_wait(t->second, written));
        read_after_the_wait(t->second, share, block, 200 + round, seen, peer.control);
        OK(leat_stream_synchronize(t->stream));
    }
    end_peer(&peer);
    wait_until_gone(share);
    OK(leat_event_destroy(written));
    OK(leat_share_destroy(share));
    OK(leat_memory_free(seen));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

static void peer_order(struct test_state *t, leat_share *share, int control)
{
    uint32_t *seen = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
    void *block = pointer_of(share);

    for (uint32_t round = 0; round < 3; round++) {
        read_after_the_wait(t->stream, share, block, 100 + round, seen, control);
        write_behind_a_gate(t->second, share, block, 200 + round, control);
        OK(leat_stream_synchronize(t->second));
    }
    OK(leat_memory_free(seen));
}

/* ---- many rounds without a wait of the host ------------------------------------------------------------- */

enum { ROUNDS = 4000, AHEAD = 100 };

/* Each side submits AHEAD rounds before it waits. */
static void make_rounds(leat_device *device, leat_stream *stream, leat_share *share, bool first)
{
    uint32_t *seen = test_alloc(device, LEAT_KIND_PINNED, AHEAD * 4096);
    void *block = pointer_of(share);

    for (uint32_t round = 1; round <= ROUNDS; round++) {
        uint32_t mine = 2 * round + first, *place = seen + (round - 1) % AHEAD * 1024;

        if (first) {
            OK(leat_fill_pattern(stream, block, &mine, 4, 4096));
            OK(leat_share_hand_over(stream, share));
        }
        OK(leat_share_take_over(stream, share));
        OK(leat_copy(stream, place, block, 4096));
        if (!first) {
            OK(leat_fill_pattern(stream, block, &mine, 4, 4096));
            OK(leat_share_hand_over(stream, share));
        }
        if (round % AHEAD)
            continue;
        OK(leat_stream_synchronize(stream));
        for (uint32_t i = 0; i < AHEAD * 1024; i++)
            assert_int_equal(seen[i], 2 * (round - AHEAD + i / 1024 + 1) + !first);
    }
    OK(leat_memory_free(seen));
}

static void many_rounds_need_no_wait_of_the_host(void **state)
{
    struct test_state *t = *state;
    leat_share_info info;
    leat_share *share;
    struct peer peer;
    leat_pool *pool;
    void *block;

    needs_shares(t);
    peer = start_peer("rounds");
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    share = share_block(t->stream, block);
    OK(leat_share_send(share, peer.socket));
    make_rounds(t->device, t->stream, share, true);
    info = info_of(share);
    assert_true(info.sent && !info.received);
    assert_int_equal(info.hand_overs, ROUNDS);
    assert_int_equal(info.hand_overs_done, ROUNDS);
    assert_int_equal(info.take_overs, ROUNDS);
    assert_int_equal(info.take_overs_done, ROUNDS);
    end_peer(&peer);
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

static void peer_rounds(struct test_state *t, leat_share *share, int control)
{
    (void)control;
    make_rounds(t->device, t->stream, share, false);
}

/* ---- life and death ------------------------------------------------------------------------------------- */

/* The sender loads, hands over and ends. The receiver comes later. */
static void what_was_handed_over_outlives_the_sender(void **state)
{
    struct test_state *t = *state;
    leat_share *share = NULL;
    struct peer peer;
    uint32_t *seen;
    int status;

    needs_shares(t);
    seen = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
    peer = start_peer("sends and ends");
    assert_int_equal(waitpid(peer.process, &status, 0), peer.process);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(leat_share_receive(t->device, peer.socket, &share));
    wait_until_gone(share);
    OK(leat_share_take_over(t->stream, share));
    OK(leat_copy(t->stream, seen, pointer_of(share), BYTES));
    OK(leat_stream_synchronize(t->stream));
    expect_words(seen, 4711);
    REFUSED(leat_share_take_over(t->stream, share), LEAT_ERROR_LINK, "before it handed the memory over");
    REFUSED(leat_share_hand_over(t->stream, share), LEAT_ERROR_LINK, "has ended");
    /* The socket has nothing more. */
    REFUSED(leat_share_receive(t->device, peer.socket, &share), LEAT_ERROR_LINK, "closed");
    OK(leat_share_destroy(share));
    OK(leat_memory_free(seen));
    close(peer.control);
    close(peer.socket);
}

static void peer_sends_and_ends(struct test_state *t, int socket)
{
    leat_pool *pool = exportable(t->device);
    void *block = test_block(pool, t->stream, BYTES);
    leat_share *share = share_block(t->stream, block);

    fill_words(t->stream, block, 4711);
    OK(leat_share_hand_over(t->stream, share));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_share_send(share, socket));
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* Streams that wait for a process that is killed must go on, and say so. */
static void waits_end_when_the_other_process_is_killed(void **state)
{
    struct test_state *t = *state;
    leat_share *share;
    struct peer peer;
    leat_pool *pool;
    void *block;

    needs_shares(t);
    peer = start_peer("sleeps");
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    share = share_block(t->stream, block);
    OK(leat_share_send(share, peer.socket));
    assert_true(hear(peer.control)); /* received, and handed over once */
    OK(leat_share_take_over(t->second, share));
    OK(leat_stream_synchronize(t->second));
    OK(leat_share_take_over(t->stream, share));
    OK(leat_share_take_over(t->stream, share));
    fill_words(t->stream, block, 1);
    expect_waiting(t->stream);
    REFUSED(leat_share_destroy(share), LEAT_ERROR_BUSY, "2 hand-overs and take-overs");
    kill_peer(&peer);
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_LINK, "was not handed over");
    /* Once, and not on a stream whose take-over was fine. */
    OK(leat_stream_synchronize(t->stream));
    OK(leat_stream_synchronize(t->second));
    wait_until_gone(share);
    REFUSED(leat_share_take_over(t->second, share), LEAT_ERROR_LINK, "has ended");
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

static void peer_sleeps(struct test_state *t, leat_share *share, int control)
{
    OK(leat_share_hand_over(t->stream, share));
    OK(leat_stream_synchronize(t->stream));
    say(control);
    (void)hear(control);
    test_sleep_us(60000000);
}

/* A process that dies before it receives must not hold up anybody either. */
static void waits_end_when_nobody_receives(void **state)
{
    struct test_state *t = *state;
    leat_share *share;
    leat_pool *pool;
    void *block;
    int ends[2];

    needs_shares(t);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    share = share_block(t->stream, block);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    OK(leat_share_send(share, ends[0]));
    OK(leat_share_take_over(t->stream, share));
    expect_waiting(t->stream);
    assert_false(info_of(share).gone);
    close(ends[1]);
    close(ends[0]);
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_LINK, "not handed over");
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* After an abandon the streams of both sides go on, and neither takes what the other then makes for handed over.
 */
static void both_sides_learn_of_an_abandon(void **state)
{
    struct test_state *t = *state;
    leat_share *share, *received;
    struct test_gate *gate;
    leat_stream *third;
    leat_pool *pool;
    void *block;

    needs_shares(t);
    OK(leat_stream_create(t->device, &third));
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    share = share_block(t->stream, block);
    received = receive_here(t->device, share);
    /* The first hand-over is complete, the second waits for one that never comes, and its receiver is held up
     * until the abandon is over: so it finds the counter of the second hand-over written. */
    OK(leat_share_hand_over(t->stream, share));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_share_take_over(t->stream, share));
    OK(leat_share_hand_over(t->stream, share));
    OK(leat_share_take_over(t->second, received));
    OK(leat_stream_synchronize(t->second));
    gate = test_gate_close(third);
    OK(leat_share_take_over(third, received));
    expect_waiting(t->stream);
    OK(leat_share_abandon(share));
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_LINK, "not handed over");
    wait_until_gone(received);
    test_gate_open(gate);
    REFUSED(leat_stream_synchronize(third), LEAT_ERROR_LINK, "not handed over");
    OK(leat_stream_synchronize(t->second));
    REFUSED(leat_share_hand_over(t->stream, share), LEAT_ERROR_LINK, "abandoned");
    REFUSED(leat_share_hand_over(t->second, received), LEAT_ERROR_LINK, "abandoned");
    OK(leat_share_abandon(share)); /* again: nothing */
    OK(leat_share_destroy(share));
    OK(leat_share_destroy(received));
    OK(leat_stream_destroy(third));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* The side that is abandoned hands over what it was not handed itself: it counts for nothing at the other side. */
static void a_take_over_after_an_abandon_fails(void **state)
{
    struct test_state *t = *state;
    leat_share *share, *received;
    leat_pool *pool;
    void *block;

    needs_shares(t);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    share = share_block(t->stream, block);
    received = receive_here(t->device, share);
    OK(leat_share_take_over(t->stream, share));
    OK(leat_share_hand_over(t->stream, share));
    OK(leat_share_abandon(received));
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_LINK, "not handed over");
    REFUSED(leat_share_take_over(t->second, received), LEAT_ERROR_LINK, "abandoned");
    OK(leat_stream_synchronize(t->stream));
    OK(leat_share_destroy(share));
    OK(leat_share_destroy(received));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* A host that waits for its stream learns of an abandon although its watching thread has not noticed it yet. */
static void a_wait_of_the_host_tells_of_an_abandon(void **state)
{
    enum { ABANDONS = 100 };
    struct test_state *t = *state;
    leat_pool *pool;
    void *block;

    needs_shares(t);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    for (int i = 0; i < ABANDONS; i++) {
        leat_share *share = share_block(t->stream, block), *received = receive_here(t->device, share);

        OK(leat_share_take_over(t->stream, share));
        OK(leat_share_hand_over(t->stream, share));
        OK(leat_share_take_over(t->second, received));
        OK(leat_share_abandon(share));
        REFUSED(leat_stream_synchronize(t->second), LEAT_ERROR_LINK, "not handed over");
        REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_LINK, "not handed over");
        wait_until_gone(received);
        OK(leat_stream_synchronize(t->second)); /* once */
        OK(leat_share_destroy(share));
        OK(leat_share_destroy(received));
    }
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* Makes a child that keeps all descriptors of this process and does nothing. */
static pid_t make_child(void)
{
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    while (!child)
        pause();
    return child;
}

static void end_child(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Children of fork() that keep the descriptors must not hide that a side has destroyed its share. */
static void children_do_not_hide_the_end(void **state)
{
    struct test_state *t = *state;
    leat_share *share, *received;
    leat_pool *pool;
    pid_t before, after;
    void *block;

    needs_shares(t);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    share = share_block(t->stream, block);
    before = make_child();
    received = receive_here(t->device, share);
    after = make_child();
    OK(leat_share_destroy(received));
    wait_until_gone(share);
    REFUSED(leat_share_take_over(t->stream, share), LEAT_ERROR_LINK, "ended");
    OK(leat_share_destroy(share));
    end_child(before);
    end_child(after);
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* The close of a device must not wait for a process that never hands over. It returns that the wait has failed. */
static void a_device_closes_in_spite_of_waits(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    leat_share *share, *received;
    leat_stream *stream;
    leat_pool *pool;
    void *block;

    if (!other)
        SKIP_OTHER("needs two devices of one driver");
    needs_shares(t);
    OK(leat_stream_create(other, &stream));
    pool = exportable(other);
    block = test_block(pool, stream, BYTES);
    share = share_block(stream, block);
    received = receive_here(other, share);
    OK(leat_share_take_over(stream, share));
    OK(leat_share_take_over(stream, received));
    expect_waiting(stream);
    REFUSED(leat_device_close(other), LEAT_ERROR_LINK, "hand-over");
    REFUSED(leat_share_abandon(share), LEAT_ERROR_HANDLE, "share");
    REFUSED(leat_share_destroy(received), LEAT_ERROR_HANDLE, "share");
}

/* Of each side, over several streams: where a CUDA stream has about 1000 operations under way, one more waits. */
static void no_more_than_1024_are_under_way(void **state)
{
    struct test_state *t = *state;
    leat_stream *owners[STREAMS], *receivers[STREAMS];
    leat_share *share, *received;
    struct test_gate *gate;
    leat_event *opened;
    leat_pool *pool;
    void *block;

    needs_shares(t);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    share = share_block(t->stream, block);
    received = receive_here(t->device, share);
    OK(leat_event_create(t->device, &opened));
    gate = test_gate_close(t->stream);
    OK(leat_event_record(t->stream, opened));
    for (int i = 0; i < STREAMS; i++) {
        OK(leat_stream_create(t->device, &owners[i]));
        OK(leat_stream_wait(owners[i], opened));
        OK(leat_stream_create(t->device, &receivers[i]));
    }
    for (int i = 0; i < SLOTS; i++)
        OK(leat_share_hand_over(owners[i % STREAMS], share));
    REFUSED(leat_share_hand_over(t->stream, share), LEAT_ERROR_BUSY, "1024 hand-overs");
    for (int i = 0; i < SLOTS; i++)
        OK(leat_share_take_over(receivers[i % STREAMS], received));
    REFUSED(leat_share_take_over(t->second, received), LEAT_ERROR_BUSY, "1024 take-overs");
    for (int i = 0; i < STREAMS; i++)
        EXPECT_HELD(receivers[i], gate);
    REFUSED(leat_share_destroy(share), LEAT_ERROR_BUSY, "1024");
    REFUSED(leat_share_destroy(received), LEAT_ERROR_BUSY, "leat_share_abandon()");
    test_gate_open(gate);
    for (int i = 0; i < STREAMS; i++) {
        OK(leat_stream_destroy(owners[i]));
        OK(leat_stream_synchronize(receivers[i]));
        OK(leat_stream_destroy(receivers[i]));
    }
    OK(leat_event_destroy(opened));
    OK(leat_share_hand_over(t->stream, share));
    OK(leat_share_take_over(t->second, received));
    OK(leat_stream_synchronize(t->second));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(info_of(received).take_overs_done, SLOTS + 1);
    OK(leat_share_destroy(received));
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* The other process makes rounds and is killed at any moment. */
static void peers_may_be_killed_at_any_moment(void **state)
{
    const char *times = getenv("TEST_SHARE_KILLS");
    struct test_state *t = *state;
    uint64_t seed = test_seed();
    unsigned before;

    needs_shares(t);
    print_message("seed %llu\n", (unsigned long long)seed);
    OK(leat_device_synchronize(t->device));
    before = count_fds();
    for (int i = 0; i < (times ? atoi(times) : 20); i++) {
        leat_pool *pool = exportable(t->device);
        void *block = test_block(pool, t->stream, BYTES);
        leat_share *share = share_block(t->stream, block);
        struct peer peer = start_peer("rounds for ever");
        leat_status status = LEAT_OK;
        pid_t killer;

        OK(leat_share_send(share, peer.socket));
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        killer = fork();
        assert_true(killer >= 0);
        if (!killer) {
            test_sleep_us((long)(seed >> 33) % 60000);
            kill(peer.process, SIGKILL);
            _exit(0);
        }
        while (status == LEAT_OK) {
            for (int n = 0; n < 50 && status == LEAT_OK; n++) {
                status = leat_share_hand_over(t->stream, share);
                if (status == LEAT_OK)
                    status = leat_share_take_over(t->stream, share);
            }
            if (leat_stream_synchronize(t->stream) != LEAT_OK)
                status = LEAT_ERROR_LINK;
        }
        assert_int_equal(status, LEAT_ERROR_LINK);
        OK(leat_stream_synchronize(t->stream));
        assert_int_equal(waitpid(killer, NULL, 0), killer);
        kill_peer(&peer);
        OK(leat_share_destroy(share));
        OK(leat_free(t->stream, block));
        OK(leat_pool_destroy(pool));
    }
    assert_int_equal(count_settled_fds(before), before);
}

static void peer_rounds_for_ever(struct test_state *t, leat_share *share)
{
    for (;;) {
        for (int n = 0; n < 50; n++) {
            OK(leat_share_take_over(t->stream, share));
            OK(leat_share_hand_over(t->stream, share));
        }
        OK(leat_stream_synchronize(t->stream));
    }
}

/* ---- rights --------------------------------------------------------------------------------------------- */

static void *open_soon(void *gate)
{
    test_sleep_us(50000);
    test_gate_open(gate);
    return NULL;
}

/* The rest of the last page of a block must not show what an earlier block of the pool left there, also if its
 * last work is still under way. */
static void the_rest_of_a_page_is_cleared(void **state)
{
    struct test_state *t = *state;
    leat_share *share, *received;
    leat_share_info info;
    leat_pool *pool;
    struct test_gate *gate;
    unsigned char *seen;
    void *earlier, *block;
    pthread_t opener;

    needs_shares(t);
    pool = exportable(t->device);
    earlier = test_block(pool, t->stream, 2 * MIB);
    OK(leat_fill(t->stream, earlier, 0xbb, 2 * MIB));
    OK(leat_stream_synchronize(t->stream));
    gate = test_gate_close(t->stream);
    OK(leat_fill(t->stream, earlier, 0xaa, 2 * MIB));
    OK(leat_free(t->stream, earlier));
    block = test_block(pool, t->stream, 1000);
    assert_ptr_equal(block, earlier); /* the same pages, or this test shows nothing */
    OK(leat_fill(t->stream, block, 1, 1000));
    assert_int_equal(pthread_create(&opener, NULL, open_soon, gate), 0);
    share = share_block(t->stream, block);
    received = receive_here(t->device, share);
    info = info_of(received);
    assert_int_equal(info.bytes, 1000);
    assert_true(info.memory_bytes >= 2 * MIB && info.received);
    assert_int_equal(info.access, LEAT_ACCESS_READ_WRITE);
    seen = test_buffer(info.memory_bytes);
    OK(leat_copy_sync(t->second, seen, info.ptr, info.memory_bytes));
    EXPECT_BYTES(seen + 1000, info.memory_bytes - 1000, 0);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_copy_sync(t->second, seen, info.ptr, info.memory_bytes));
    EXPECT_BYTES(seen, 1000, 1);
    EXPECT_BYTES(seen + 1000, info.memory_bytes - 1000, 0);
    pthread_join(opener, NULL);
    free(seen);
    OK(leat_share_destroy(received));
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* A block that fills its pages must not show what an earlier block left there, if the pool clears blocks. */
static void a_whole_page_is_cleared(void **state)
{
    struct test_state *t = *state;
    leat_share *share, *received;
    void *earlier, *block;
    struct test_gate *gate;
    unsigned char *seen;
    pthread_t opener;
    leat_pool *pool;

    needs_shares(t);
    pool = POOL(t->device, .name = "cleared", .dedicated = 1, .exportable = 1, .scrub = 1);
    earlier = test_block(pool, t->stream, 2 * MIB);
    OK(leat_fill(t->stream, earlier, 0xbb, 2 * MIB));
    OK(leat_stream_synchronize(t->stream));
    gate = test_gate_close(t->stream);
    OK(leat_free(t->stream, earlier));
    block = test_block(pool, t->stream, 2 * MIB);
    assert_ptr_equal(block, earlier); /* the same pages, or this test shows nothing */
    assert_int_equal(pthread_create(&opener, NULL, open_soon, gate), 0);
    share = share_block(t->stream, block);
    received = receive_here(t->device, share);
    seen = test_buffer(2 * MIB);
    OK(leat_copy_sync(t->second, seen, info_of(received).ptr, 2 * MIB));
    EXPECT_BYTES(seen, 2 * MIB, 0);
    pthread_join(opener, NULL);
    free(seen);
    OK(leat_share_destroy(received));
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* A share for reading seals the memory against writes. One that cannot be made must not. */
static void a_failure_seals_nothing(void **state)
{
    leat_share_options reading = LEAT_SHARE_OPTIONS_INIT;
    struct test_state *t = *state;
    struct rlimit before, less;
    leat_share *share = NULL;
    leat_pool *pool;
    void *block;
    int fd;

    needs_shares(t);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    reading.access = LEAT_ACCESS_READ;
    fd = dup(0);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    less = before;
    less.rlim_cur = (rlim_t)fd; /* no descriptor is left */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    assert_true(leat_share_create(t->stream, block, &reading, &share) < LEAT_OK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    share = share_block(t->stream, block);
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* A share as its message. */
struct captured {
    unsigned char bytes[256];
    int fds[8];
    unsigned fd_count;
};

/* Takes the message of a share from a socket as another program would. */
static struct captured capture(leat_share *share)
{
    struct captured taken = {.fd_count = 0};
    char control[CMSG_SPACE(sizeof taken.fds)];
    struct iovec piece = {taken.bytes, sizeof taken.bytes};
    struct msghdr header = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *part;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    OK(leat_share_send(share, ends[0]));
    assert_int_equal(recvmsg(ends[1], &header, MSG_CMSG_CLOEXEC), 256);
    part = CMSG_FIRSTHDR(&header);
    assert_non_null(part);
    taken.fd_count = (unsigned)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(taken.fds, CMSG_DATA(part), taken.fd_count * sizeof(int));
    assert_int_equal(taken.fd_count, 3);
    close(ends[0]);
    close(ends[1]);
    return taken;
}

/* Maps the counters of a share, which both processes can write. */
static uint32_t *map_page(const struct captured *taken)
{
    uint32_t *page = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, taken->fds[1], 0);

    assert_ptr_not_equal(page, MAP_FAILED);
    return page;
}

static void drop(struct captured *taken)
{
    for (unsigned i = 0; i < taken->fd_count; i++)
        close(taken->fds[i]);
}

static void write_message(int socket, const void *bytes, size_t count, const int *fds, unsigned fd_count)
{
    char control[CMSG_SPACE(64 * sizeof(int))] = {0};
    struct iovec piece = {(void *)(uintptr_t)bytes, count};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};

    if (fd_count) {
        struct cmsghdr *part = (struct cmsghdr *)(void *)control;

        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(part), fds, fd_count * sizeof(int));
    }
    assert_int_equal(sendmsg(socket, &header, MSG_NOSIGNAL), count);
}

/* Receives these bytes and descriptors. Returns the status; ends a share that came after all. */
static leat_status receive_forged(leat_device *device, const void *bytes, size_t count, const int *fds,
                                  unsigned fd_count)
{
    leat_share *share = NULL;
    leat_status status;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    if (count)
        write_message(ends[0], bytes, count, fds, fd_count);
    close(ends[0]);
    status = leat_share_receive(device, ends[1], &share);
    close(ends[1]);
    if (status == LEAT_OK)
        OK(leat_share_destroy(share));
    else
        assert_null(share);
    return status;
}

static void nobody_can_widen_the_right_to_read(void **state)
{
    leat_share_options reading = LEAT_SHARE_OPTIONS_INIT;
    leat_share *share = NULL, *received = NULL, *again = NULL;
    struct test_state *t = *state;
    struct captured taken;
    unsigned char *seen;
    leat_pool *pool;
    char path[64];
    void *block;
    int ends[2], reopened;

    needs_shares(t);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    seen = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
    reading.access = LEAT_ACCESS_READ;
    if (leat_share_create(t->stream, block, &reading, &share) == LEAT_ERROR_UNSUPPORTED) {
        OK(leat_memory_free(seen));
        OK(leat_free(t->stream, block));
        OK(leat_pool_destroy(pool));
        SKIP_OTHER("this driver cannot map memory for reading only");
    }
    assert_non_null(share);
    taken = capture(share);
    if (test_on_cpu()) {
        /* What another program could try with the descriptor. */
        snprintf(path, sizeof path, "/proc/self/fd/%d", taken.fds[0]);
        reopened = open(path, O_RDWR | O_CLOEXEC);
        assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, taken.fds[0], 0), MAP_FAILED);
        if (reopened >= 0) {
            assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, reopened, 0), MAP_FAILED);
            assert_int_equal(write(reopened, "x", 1), -1);
            close(reopened);
        }
        assert_int_equal(ftruncate(taken.fds[0], 0), -1);
        assert_int_equal(fcntl(taken.fds[0], F_ADD_SEALS, F_SEAL_WRITE), -1);
        /* The memory cannot be shared for writing any more, also not by a message that says so. */
        REFUSED(leat_share_create(t->stream, block, NULL, &again), LEAT_ERROR_INVALID, "for reading only");
        taken.bytes[12] = LEAT_ACCESS_READ_WRITE;
        assert_int_equal(receive_forged(t->device, taken.bytes, 256, taken.fds, 3), LEAT_ERROR_INVALID);
        taken.bytes[12] = LEAT_ACCESS_READ;
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    drop(&taken);
    OK(leat_share_destroy(share));
    OK(leat_share_create(t->stream, block, &reading, &share));
    OK(leat_share_send(share, ends[0]));
    OK(leat_share_receive(t->device, ends[1], &received));
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(info_of(received).access, LEAT_ACCESS_READ);
    OK(leat_fill(t->stream, block, 5, BYTES)); /* the owner writes as before */
    OK(leat_share_hand_over(t->stream, share));
    OK(leat_share_take_over(t->second, received));
    OK(leat_copy(t->second, seen, pointer_of(received), BYTES));
    OK(leat_stream_synchronize(t->second));
    EXPECT_BYTES(seen, BYTES, 5);
    REFUSED(leat_fill(t->second, pointer_of(received), 6, BYTES), LEAT_ERROR_NOT_PERMITTED, "read-only");
    REFUSED(leat_copy(t->second, pointer_of(received), seen, BYTES), LEAT_ERROR_NOT_PERMITTED, "read-only");
    /* Passing it on gives no more than it has. */
    REFUSED(leat_share_create(t->second, pointer_of(received), NULL, &again), LEAT_ERROR_INVALID, "less access");
    OK(leat_share_create(t->second, pointer_of(received), &reading, &again));
    OK(leat_share_destroy(again));
    OK(leat_share_destroy(received));
    OK(leat_share_destroy(share));
    OK(leat_memory_free(seen));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* ---- what another process may send ---------------------------------------------------------------------- */

/* Returns a memory file of this size with these seals, which begins with text. */
static int text_file(const char *text, size_t bytes, int seals)
{
    int fd = memfd_create("leat test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static int memory_file(size_t bytes, int seals)
{
    return text_file("", bytes, seals);
}

static int counters_file(size_t bytes, int seals)
{
    return text_file("leatshr1", bytes, seals);
}

static void a_share_is_received_once(void **state)
{
    struct test_state *t = *state;
    struct captured taken;
    leat_share *share;
    leat_pool *pool;
    void *block;
    int ends[2];

    needs_shares(t);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    share = share_block(t->stream, block);
    taken = capture(share);
    assert_int_equal(receive_forged(t->device, taken.bytes, 256, taken.fds, 3), LEAT_OK);
    assert_int_equal(receive_forged(t->device, taken.bytes, 256, taken.fds, 3), LEAT_ERROR_BUSY);
    assert_non_null(strstr(leat_last_error(), "received before"));
    drop(&taken);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    REFUSED(leat_share_send(share, ends[0]), LEAT_ERROR_INVALID, "sent before");
    close(ends[0]);
    close(ends[1]);
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

static void another_device_is_refused(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    leat_share *share;
    struct captured taken;
    leat_pool *pool;
    void *block;

    if (!other)
        SKIP_OTHER("needs two devices of one driver");
    needs_shares(t);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    share = share_block(t->stream, block);
    taken = capture(share);
    assert_int_equal(receive_forged(other, taken.bytes, 256, taken.fds, 3), LEAT_ERROR_INVALID);
    assert_non_null(strstr(leat_last_error(), "another device"));
    assert_int_equal(receive_forged(t->device, taken.bytes, 256, taken.fds, 3), LEAT_OK);
    drop(&taken);
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
    OK(leat_device_close(other));
}

/* Sends the message with descriptor number index replaced by fd. Must be refused. */
static void expect_refused_fd(leat_device *device, const struct captured *good, unsigned index, int fd)
{
    int fds[3];

    assert_true(fd >= 0);
    memcpy(fds, good->fds, sizeof fds);
    fds[index] = fd;
    assert_true(receive_forged(device, good->bytes, 256, fds, 3) < LEAT_OK);
    close(fd);
}

static void wrong_descriptors_are_refused(struct test_state *t, struct captured *good)
{
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    int pipe_ends[2], fds[64];

    for (unsigned index = 0; index < 3; index++) {
        expect_refused_fd(t->device, good, index, open("/dev/null", O_RDWR | O_CLOEXEC));
        expect_refused_fd(t->device, good, index, open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        expect_refused_fd(t->device, good, index, memory_file(4096, sealed));
        assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
        close(pipe_ends[1]);
        expect_refused_fd(t->device, good, index, pipe_ends[0]);
    }
    expect_refused_fd(t->device, good, 2, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    /* Counters that could shrink under the receiver, that cannot be written, or are not counters. */
    expect_refused_fd(t->device, good, 1, counters_file(12288, 0));
    expect_refused_fd(t->device, good, 1, counters_file(12288, F_SEAL_SHRINK | F_SEAL_GROW));
    expect_refused_fd(t->device, good, 1, counters_file(12288, F_SEAL_GROW | F_SEAL_SEAL));
    expect_refused_fd(t->device, good, 1, counters_file(12288, sealed | F_SEAL_WRITE));
    expect_refused_fd(t->device, good, 1, counters_file(12288 * 2, sealed));
    expect_refused_fd(t->device, good, 1, memory_file(12288, sealed));
    /* Only the seals are missing there: with them such a file is good. */
    memcpy(fds, good->fds, 3 * sizeof(int));
    fds[1] = counters_file(12288, sealed);
    assert_int_equal(receive_forged(t->device, good->bytes, 256, fds, 3), LEAT_OK);
    close(fds[1]);
    for (unsigned i = 0; i < 64; i++)
        fds[i] = good->fds[i % 3];
    for (unsigned count = 0; count <= 64; count += count < 5 ? 1 : 59)
        if (count != 3)
            assert_int_equal(receive_forged(t->device, good->bytes, 256, fds, count), LEAT_ERROR_INVALID);
}

/* A packet without bytes that carries descriptors: they must not stay open. */
static void an_empty_packet_is_refused(struct test_state *t, const struct captured *good)
{
    unsigned fds = count_fds();
    leat_share *share = NULL;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    for (int i = 0; i < 10; i++) {
        write_message(ends[0], "", 0, good->fds, 3);
        REFUSED(leat_share_receive(t->device, ends[1], &share), LEAT_ERROR_INVALID, "0 of 256 bytes");
    }
    close(ends[0]);
    close(ends[1]);
    assert_true(count_settled_fds(fds) <= fds);
}

static void wrong_bytes_are_refused(struct test_state *t, struct captured *good)
{
    static const struct {
        size_t offset;
        unsigned char bytes[8];
        const char *words;
    } wrong[] = {
        {0, "leatshr2", "not from leat_share_send()"},
        {8, {2, 0, 0, 0, 3, 0, 0, 0}, "version 2"},
        {8, {1, 0, 0, 0, 0, 0, 0, 0}, "access 0"},
        {8, {1, 0, 0, 0, 2, 0, 0, 0}, "access 2"},
        {16, {0}, "0 bytes"},
        {16, {255, 255, 255, 255, 255, 255, 255, 127}, "in memory of"},
        {24, {0}, "in memory of 0"},
        {24, {255, 255, 255, 255, 255, 255, 255, 255}, "in memory of"},
        {24, {0, 0, 0, 0, 0, 0, 0, 32}, ""},
        {24, {0, 0, 64, 0, 0, 0, 0, 0}, ""},
        {36, "notthere", "no texts"},
        {36, "xyz\0\0\0\0", "another device"},
        {36, "cp\x1b\0\0\0\0", "no texts"},
    };
    leat_share *share = NULL;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        unsigned char bytes[256];

        memcpy(bytes, good->bytes, sizeof bytes);
        memcpy(bytes + wrong[i].offset, wrong[i].bytes, 8);
        assert_true(receive_forged(t->device, bytes, 256, good->fds, 3) < LEAT_OK);
        assert_non_null(strstr(leat_last_error(), wrong[i].words));
    }
    for (size_t count = 0; count < 256; count += 15)
        assert_true(receive_forged(t->device, good->bytes, count, good->fds, 3) < LEAT_OK);
    REFUSED(leat_share_receive(t->device, -1, &share), LEAT_ERROR_INVALID, "-1");
    REFUSED(leat_share_receive(t->device, good->fds[0], &share), LEAT_ERROR_INVALID, "descriptor");
}

/* Random bytes at random places of a real message, with real descriptors. Whatever comes of it, nothing may crash,
 * and no descriptor may be left. */
static void random_changes_are_survived(struct test_state *t, const struct captured *good, uint64_t seed)
{
    for (int i = 0; i < 2000; i++) {
        unsigned char bytes[256];

        memcpy(bytes, good->bytes, sizeof bytes);
        for (int n = 0; n < 1 + i % 4; n++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes[(seed >> 33) % 160] ^= (unsigned char)(1u << (seed >> 60) % 8);
        }
        (void)receive_forged(t->device, bytes, 256, good->fds, 3);
    }
}

static void forged_messages_are_refused(void **state)
{
    struct test_state *t = *state;
    uint64_t seed = test_seed();
    struct captured good;
    leat_share *share;
    leat_pool *pool;
    unsigned before;
    void *block;

    needs_shares(t);
    print_message("seed %llu\n", (unsigned long long)seed);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    share = share_block(t->stream, block);
    good = capture(share);
    before = count_fds();
    an_empty_packet_is_refused(t, &good);
    wrong_bytes_are_refused(t, &good);
    wrong_descriptors_are_refused(t, &good);
    random_changes_are_survived(t, &good, seed);
    assert_int_equal(count_settled_fds(before), before);
    drop(&good);
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* A hostile process writes anything into the counters: waits may end early or late, but destroy and close must
 * follow this process's own counters. */
static void forged_counters_do_no_harm(void **state)
{
    struct test_state *t = *state;
    struct captured taken;
    struct test_gate *gate;
    leat_share *share;
    leat_pool *pool;
    uint32_t *page;
    void *block;

    needs_shares(t);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    share = share_block(t->stream, block);
    taken = capture(share);
    page = map_page(&taken);
    gate = test_gate_close(t->stream);
    OK(leat_share_hand_over(t->stream, share));
    OK(leat_share_take_over(t->stream, share));
    for (size_t i = 1024; i < 3072; i++)
        page[i] = 1; /* all hand-overs seem to be made */
    for (size_t i = 2; i < 7; i++)
        page[i] = 0xffffffff;
    REFUSED(leat_share_destroy(share), LEAT_ERROR_BUSY, "2 hand-overs");
    (void)info_of(share);
    test_gate_open(gate);
    (void)leat_stream_synchronize(t->stream); /* the hand-over was not made, or broken: both were written */
    for (size_t i = 0; i < 3072; i++)
        page[i] = 0x80000000u;
    OK(leat_share_take_over(t->stream, share));
    OK(leat_share_abandon(share));
    (void)leat_stream_synchronize(t->stream);
    munmap(page, 12288);
    drop(&taken);
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* A hostile process undoes what has ended a wait, after its end was noticed. The waits can still be ended. */
static void a_wait_can_be_ended_again(void **state)
{
    struct test_state *t = *state;
    struct captured taken;
    struct test_gate *gate;
    leat_share *share;
    leat_pool *pool;
    uint32_t *page;
    void *block;

    needs_shares(t);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    share = share_block(t->stream, block);
    taken = capture(share);
    page = map_page(&taken);
    gate = test_gate_close(t->stream);
    OK(leat_share_take_over(t->stream, share));
    drop(&taken); /* its life too */
    wait_until_gone(share);
    assert_int_equal(page[2049], 1); /* the first hand-over of side 1 */
    page[2049] = 0;
    test_gate_open(gate);
    expect_waiting(t->stream);
    OK(leat_share_abandon(share));
    REFUSED(leat_stream_synchronize(t->stream), LEAT_ERROR_LINK, "not handed over");
    OK(leat_stream_synchronize(t->stream));
    munmap(page, 12288);
    OK(leat_share_destroy(share));
    OK(leat_free(t->stream, block));
    OK(leat_pool_destroy(pool));
}

/* ---- which memory, and arguments ------------------------------------------------------------------------ */

static void physical_memory_is_shared(void **state)
{
    struct test_state *t = *state;
    leat_physical *physical = NULL, *plain = NULL;
    leat_share *share = NULL, *received;
    void *base = NULL, *seen;
    size_t unit = 0;

    needs_shares(t);
    OK(leat_virtual_granularity(t->device, &unit));
    OK(leat_virtual_reserve(t->device, 2 * unit, 0, &base));
    OK(leat_physical_create(t->device, unit, LEAT_PHYSICAL_EXPORTABLE, &physical));
    OK(leat_physical_create(t->device, unit, 0, &plain));
    OK(leat_virtual_map(base, unit, physical));
    OK(leat_virtual_map((char *)base + unit, unit, plain));
    REFUSED(leat_share_create(t->stream, base, NULL, &share), LEAT_ERROR_INVALID, "less access");
    OK(leat_virtual_set_access(t->device, base, 2 * unit, LEAT_ACCESS_READ_WRITE));
    REFUSED(leat_share_create(t->stream, (char *)base + unit, NULL, &share), LEAT_ERROR_INVALID,
            "LEAT_PHYSICAL_EXPORTABLE");
    REFUSED(leat_share_create(t->stream, (char *)base + 512, NULL, &share), LEAT_ERROR_POINTER,
            "not the start of a mapping");
    OK(leat_share_create(t->stream, base, NULL, &share));
    received = receive_here(t->device, share);
    fill_words(t->stream, base, 99);
    OK(leat_share_hand_over(t->stream, share));
    /* The share keeps the memory alive. */
    OK(leat_stream_synchronize(t->stream));
    OK(leat_virtual_unmap(base, 2 * unit));
    OK(leat_physical_release(physical));
    OK(leat_physical_release(plain));
    OK(leat_virtual_unreserve(base));
    OK(leat_share_destroy(share));
    seen = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
    OK(leat_share_take_over(t->second, received));
    OK(leat_copy(t->second, seen, pointer_of(received), BYTES));
    OK(leat_stream_synchronize(t->second));
    expect_words(seen, 99);
    OK(leat_memory_free(seen));
    OK(leat_share_destroy(received));
}

struct inside {
    leat_stream *stream;
    leat_share *share;
    leat_status status[4];
};

static void call_inside(void *argument)
{
    struct inside *in = argument;
    leat_share *share;

    in->status[0] = leat_share_hand_over(in->stream, in->share);
    in->status[1] = leat_share_take_over(in->stream, in->share);
    in->status[2] = leat_share_destroy(in->share);
    in->status[3] = leat_share_create(in->stream, in, NULL, &share);
}

static void other_memory_and_arguments_are_refused(void **state)
{
    struct test_state *t = *state;
    leat_share_options options = LEAT_SHARE_OPTIONS_INIT;
    leat_share_info info = LEAT_SHARE_INFO_INIT;
    leat_device *other = test_open_other();
    leat_share *share = NULL, *good;
    struct inside in = {.stream = t->second};
    leat_pool *pool;
    char *block, *plain, *driver_memory, *pinned;
    int on_stack = 0, ends[2];

    needs_shares(t);
    pool = exportable(t->device);
    block = test_block(pool, t->stream, BYTES);
    plain = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    pinned = test_alloc(t->device, LEAT_KIND_PINNED, BYTES);
    OK(leat_alloc_driver(t->stream, BYTES, (void **)&driver_memory));
    REFUSED(leat_share_create(t->stream, NULL, NULL, &share), LEAT_ERROR_POINTER, "NULL");
    REFUSED(leat_share_create(t->stream, block, NULL, NULL), LEAT_ERROR_INVALID, "share");
    REFUSED(leat_share_create(NULL, block, NULL, &share), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_share_create(t->stream, block + 512, NULL, &share), LEAT_ERROR_POINTER, "not the start");
    REFUSED(leat_share_create(t->stream, plain, NULL, &share), LEAT_ERROR_POINTER, "not made with exportable");
    REFUSED(leat_share_create(t->stream, pinned, NULL, &share), LEAT_ERROR_POINTER, "exportable");
    REFUSED(leat_share_create(t->stream, &on_stack, NULL, &share), LEAT_ERROR_POINTER, "pageable memory");
    REFUSED(leat_share_create(t->stream, driver_memory, NULL, &share), LEAT_ERROR_POINTER,
            "a pool with exportable");
    options.access = (leat_access)2;
    REFUSED(leat_share_create(t->stream, block, &options, &share), LEAT_ERROR_INVALID, "access 2");
    options = (leat_share_options){.size = 0};
    REFUSED(leat_share_create(t->stream, block, &options, &share), LEAT_ERROR_INVALID, "size");
    good = share_block(t->stream, block);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(leat_share_receive(t->device, ends[0], &share), LEAT_NOT_READY);
    REFUSED(leat_share_send(good, -1), LEAT_ERROR_INVALID, "-1");
    REFUSED(leat_share_send(NULL, ends[0]), LEAT_ERROR_HANDLE, "share");
    REFUSED(leat_share_receive(NULL, ends[0], &share), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_share_receive(t->device, ends[0], NULL), LEAT_ERROR_INVALID, "share");
    close(ends[1]);
    REFUSED(leat_share_send(good, ends[0]), LEAT_ERROR_LINK, "sendmsg");
    REFUSED(leat_share_receive(t->device, ends[0], &share), LEAT_ERROR_LINK, "closed");
    close(ends[0]);
    REFUSED(leat_share_hand_over(t->stream, NULL), LEAT_ERROR_HANDLE, "share");
    REFUSED(leat_share_take_over(NULL, good), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_share_get_pointer(NULL, NULL, NULL), LEAT_ERROR_HANDLE, "share");
    OK(leat_share_get_pointer(good, NULL, NULL));
    info.size = 0;
    REFUSED(leat_share_get_info(good, &info), LEAT_ERROR_INVALID, "size");
    REFUSED(leat_share_get_info(good, NULL), LEAT_ERROR_INVALID, "info");
    if (other) {
        leat_stream *far;

        OK(leat_stream_create(other, &far));
        REFUSED(leat_share_create(far, block, NULL, &share), LEAT_ERROR_INVALID, "with a stream of that device");
        REFUSED(leat_share_hand_over(far, good), LEAT_ERROR_INVALID, "the stream of");
        OK(leat_device_close(other));
    }
    in.share = good;
    OK(leat_launch_host(t->stream, call_inside, &in));
    OK(leat_stream_synchronize(t->stream));
    for (int i = 0; i < 4; i++)
        assert_int_equal(in.status[i], LEAT_ERROR_NOT_PERMITTED);
    assert_null(share);
    OK(leat_share_destroy(good));
    REFUSED(leat_share_destroy(good), LEAT_ERROR_HANDLE, "not a live share");
    REFUSED(leat_share_send(good, 0), LEAT_ERROR_HANDLE, "not a live share");
    OK(leat_share_destroy(NULL));
    OK(leat_share_abandon(NULL));
    OK(leat_free(t->stream, driver_memory));
    OK(leat_memory_free(plain));
    OK(leat_memory_free(pinned));
    OK(leat_free(t->stream, block));
    REFUSED(leat_share_create(t->stream, block, NULL, &share), LEAT_ERROR_POINTER, "live block");
    OK(leat_pool_destroy(pool));
}

/* ---- the other process ---------------------------------------------------------------------------------- */

static struct {
    const char *role;
    int socket, control;
} as_peer;

static void be_the_peer(void **state)
{
    struct test_state *t = *state;
    leat_share *share = NULL;

    if (!strcmp(as_peer.role, "sends and ends")) {
        peer_sends_and_ends(t, as_peer.socket);
        return;
    }
    OK(leat_share_receive(t->device, as_peer.socket, &share));
    if (!strcmp(as_peer.role, "order"))
        peer_order(t, share, as_peer.control);
    else if (!strcmp(as_peer.role, "rounds"))
        peer_rounds(t, share, as_peer.control);
    else if (!strcmp(as_peer.role, "sleeps"))
        peer_sleeps(t, share, as_peer.control);
    else if (!strcmp(as_peer.role, "rounds for ever"))
        peer_rounds_for_ever(t, share);
    else
        fail();
    OK(leat_share_destroy(share));
}

/* Each test leaves as many descriptors as there were. */
static unsigned fds_before;

static int set_up(void **state)
{
    if (test_setup(state))
        return -1;
    fds_before = count_fds();
    return 0;
}

static int tear_down(void **state)
{
    /* One more is right: the CPU device's file for memory that is not exported comes with the first block. */
    unsigned allowed = fds_before + 1, now = count_settled_fds(allowed);

    if (now > allowed)
        print_error("%u descriptors were left behind\n", now - fds_before);
    return test_teardown(state) || now > allowed ? -1 : 0;
}

#define SHARE_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        SHARE_TEST(order_holds_in_both_directions),
        SHARE_TEST(many_rounds_need_no_wait_of_the_host),
        SHARE_TEST(what_was_handed_over_outlives_the_sender),
        SHARE_TEST(waits_end_when_the_other_process_is_killed),
        SHARE_TEST(waits_end_when_nobody_receives),
        SHARE_TEST(both_sides_learn_of_an_abandon),
        SHARE_TEST(a_take_over_after_an_abandon_fails),
        SHARE_TEST(a_wait_of_the_host_tells_of_an_abandon),
        SHARE_TEST(children_do_not_hide_the_end),
        SHARE_TEST(a_device_closes_in_spite_of_waits),
        SHARE_TEST(no_more_than_1024_are_under_way),
        SHARE_TEST(peers_may_be_killed_at_any_moment),
        SHARE_TEST(the_rest_of_a_page_is_cleared),
        SHARE_TEST(a_whole_page_is_cleared),
        SHARE_TEST(a_failure_seals_nothing),
        SHARE_TEST(nobody_can_widen_the_right_to_read),
        SHARE_TEST(a_share_is_received_once),
        SHARE_TEST(another_device_is_refused),
        SHARE_TEST(forged_messages_are_refused),
        SHARE_TEST(forged_counters_do_no_harm),
        SHARE_TEST(a_wait_can_be_ended_again),
        SHARE_TEST(physical_memory_is_shared),
        SHARE_TEST(other_memory_and_arguments_are_refused),
    };
    static const struct CMUnitTest peer_tests[] = {STATE_TEST(be_the_peer)};

    if (!test_device_there())
        return 77;
    if (argc == 5 && !strcmp(argv[1], "--peer")) {
        as_peer.role = argv[2];
        as_peer.socket = atoi(argv[3]);
        as_peer.control = atoi(argv[4]);
        fcntl(as_peer.socket, F_SETFD, FD_CLOEXEC);
        fcntl(as_peer.control, F_SETFD, FD_CLOEXEC);
        return cmocka_run_group_tests(peer_tests, NULL, NULL) ? 1 : 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
