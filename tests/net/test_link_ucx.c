/*
 * test_link_ucx.c - tests links with ucx: addresses between two processes, through the public calls.
 *
 * Each test forks two processes, of which one listens and one connects; this program itself opens no device and
 * never uses UCX. With TEST_LINK_UCX in the environment, test_message and test_region run their tests over UCX
 * too.
 */
#include "harness.h"

#include <leat/link.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define LONG_NS (UINT64_C(30) * 1000000000)

/* In a child cmocka cannot report a failure. */
#define CHECK(condition)                                                                                          \
    do {                                                                                                          \
        if (!(condition)) {                                                                                       \
            fprintf(stderr, "test_link_ucx.c:%d: %s: %s\n", __LINE__, #condition, leat_last_error());             \
            _exit(1);                                                                                             \
        }                                                                                                         \
    } while (0)
#define CHECK_OK(call) CHECK((call) == LEAT_OK)

struct end {
    int pair; /* a socket to the other process */
    bool listens;
    leat_device *device;
    leat_stream *in, *out;
    leat_link *link;
};

typedef void end_function(struct end *end);

static const leat_link_options link_options = {
    .size = sizeof link_options, .key = "sixteen bytes or more", .key_bytes = 21, .setup_timeout_ns = LONG_NS};

static void say(const struct end *end, const void *bytes, size_t count)
{
    CHECK(write(end->pair, bytes, count) == (ssize_t)count);
}

static void hear(const struct end *end, void *bytes, size_t count)
{
    CHECK(recv(end->pair, bytes, count, MSG_WAITALL) == (ssize_t)count);
}

static void meet(const struct end *end)
{
    char byte = 0;

    say(end, &byte, 1);
    hear(end, &byte, 1);
}

static void open_end(struct end *end)
{
    leat_listener *listener;
    char address[128] = "";
    leat_link_info info = LEAT_LINK_INFO_INIT;

    CHECK_OK(leat_device_open(test_device_name(), &end->device));
    CHECK_OK(leat_stream_create(end->device, &end->in));
    CHECK_OK(leat_stream_create(end->device, &end->out));
    if (end->listens) {
        CHECK_OK(leat_listen("ucx:127.0.0.1:0", &link_options, &listener));
        CHECK_OK(leat_listener_get_address(listener, address, sizeof address));
        say(end, address, sizeof address);
        CHECK_OK(leat_accept(listener, LONG_NS, &end->link));
        CHECK_OK(leat_listener_close(listener));
    } else {
        hear(end, address, sizeof address);
        CHECK_OK(leat_connect(address, &link_options, &end->link));
    }
    CHECK_OK(leat_link_get_info(end->link, &info));
    CHECK(strcmp(info.transport, "ucx") == 0);
}

static void close_device(struct end *end)
{
    CHECK_OK(leat_stream_destroy(end->in));
    CHECK_OK(leat_stream_destroy(end->out));
    CHECK_OK(leat_device_close(end->device));
}

static void *device_memory(struct end *end, size_t bytes)
{
    void *memory;

    CHECK_OK(leat_memory_alloc(end->device, LEAT_KIND_DEVICE, bytes, &memory));
    return memory;
}

static unsigned char *make_pattern(size_t bytes, uint64_t seed)
{
    unsigned char *pattern = malloc(bytes);

    CHECK(pattern);
    test_pattern(pattern, bytes, seed);
    return pattern;
}

static bool has_pattern(struct end *end, const void *memory, size_t bytes, uint64_t seed)
{
    unsigned char *wanted = make_pattern(bytes, seed), *got = malloc(bytes);
    bool same;

    CHECK(got);
    CHECK_OK(leat_copy_sync(end->in, got, memory, bytes));
    same = memcmp(got, wanted, bytes) == 0;
    free(wanted);
    free(got);
    return same;
}

/* ---- running ---- */

static pid_t start_end(end_function *run, int pair, int other, bool listens)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child > 0)
        return child;
    close(other);
    alarm(120);
    run(&(struct end){.pair = pair, .listens = listens});
    exit(0);
}

static void run_ends(end_function *run, bool is_killed)
{
    int pair[2], status;
    pid_t children[2];

    fflush(NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    for (int i = 0; i < 2; i++)
        children[i] = start_end(run, pair[i], pair[!i], i == 0);
    close(pair[0]);
    close(pair[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        if (i == 1 && is_killed)
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else
            assert_int_equal(status, 0);
    }
}

/* ---- tests ---- */

enum { BYTES = 64 << 20 };

static void both_ways(struct end *end)
{
    void *src, *dst;
    unsigned char *pattern = make_pattern(BYTES, end->listens);
    leat_link_info info = LEAT_LINK_INFO_INIT;

    open_end(end);
    src = device_memory(end, BYTES);
    dst = device_memory(end, BYTES);
    CHECK_OK(leat_copy_sync(end->out, src, pattern, BYTES));
    CHECK_OK(leat_receive(end->in, dst, end->link, 1, BYTES));
    CHECK_OK(leat_send(end->out, end->link, 1, src, BYTES));
    CHECK_OK(leat_stream_synchronize(end->in));
    CHECK_OK(leat_stream_synchronize(end->out));
    CHECK(has_pattern(end, dst, BYTES, !end->listens));
    CHECK_OK(leat_link_get_info(end->link, &info));
    CHECK(info.sent_bytes == BYTES && info.received_bytes == BYTES && !info.sends && !info.receives);
    meet(end);
    CHECK_OK(leat_link_close(end->link));
    CHECK_OK(leat_memory_free(src));
    CHECK_OK(leat_memory_free(dst));
    close_device(end);
    free(pattern);
}

static void messages_go_both_ways(void **state)
{
    (void)state;
    run_ends(both_ways, false);
}

/* The end that sends closes the link and exits as soon as its send is complete. All bytes must arrive. */
static void close_at_once(struct end *end)
{
    const size_t bytes = 9 * MIB + 5;
    unsigned char *pattern = make_pattern(bytes, 7), *got = malloc(bytes);

    open_end(end);
    if (end->listens) {
        CHECK_OK(leat_send(end->out, end->link, 5, pattern, bytes));
        CHECK_OK(leat_stream_synchronize(end->out));
        CHECK_OK(leat_link_close(end->link));
    } else {
        CHECK_OK(leat_receive(end->in, got, end->link, 5, bytes));
        CHECK_OK(leat_stream_synchronize(end->in));
        CHECK(has_pattern(end, got, bytes, 7));
        CHECK_OK(leat_link_close(end->link));
    }
    close_device(end);
    free(pattern);
    free(got);
}

static void bytes_arrive_after_close(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        run_ends(close_at_once, false);
}

/* The other process is killed in the middle. All copies end, and the link says why. */
static void killed(struct end *end)
{
    enum { MESSAGES = 8 };
    const size_t bytes = 16 * MIB;
    leat_ticket *tickets[2 * MESSAGES];
    unsigned char *memory = calloc(2 * MESSAGES, bytes);
    leat_link_info info = LEAT_LINK_INFO_INIT;

    open_end(end);
    for (size_t i = 0; i < MESSAGES; i++) {
        CHECK_OK(leat_receive_start(end->in, memory + 2 * i * bytes, end->link, 1, bytes, NULL, &tickets[2 * i]));
        CHECK_OK(leat_send_start(end->out, end->link, 1, memory + (2 * i + 1) * bytes, bytes, NULL,
                                 &tickets[2 * i + 1]));
    }
    (void)leat_ticket_wait(tickets[0], LEAT_COPY_POINT_DONE, LONG_NS);
    if (!end->listens)
        raise(SIGKILL);
    for (size_t i = 0; i < 2 * MESSAGES; i++) {
        leat_status status = leat_ticket_wait(tickets[i], LEAT_COPY_POINT_DONE, LONG_NS);

        CHECK(status == LEAT_OK || status == LEAT_ERROR_LINK);
        CHECK_OK(leat_ticket_destroy(tickets[i]));
    }
    CHECK_OK(leat_link_get_info(end->link, &info));
    CHECK(info.status == LEAT_ERROR_LINK);
    while (leat_stream_synchronize(end->in) != LEAT_OK || leat_stream_synchronize(end->out) != LEAT_OK)
        continue;
    CHECK_OK(leat_link_close(end->link));
    close_device(end);
    free(memory);
}

static void copies_end_if_the_peer_is_killed(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        run_ends(killed, true);
}

static void without_ucx(struct end *end)
{
    leat_listener *listener;
    leat_link *link;

    setenv("LEAT_UCX_LIBRARY", "/no/such/libucp.so.0", 1);
    CHECK(leat_listen("ucx:127.0.0.1:0", &link_options, &listener) == LEAT_ERROR_UNSUPPORTED);
    CHECK(strstr(leat_last_error(), "install it (Debian: libucx0)"));
    CHECK(leat_connect("ucx:127.0.0.1:1", &link_options, &link) == LEAT_ERROR_UNSUPPORTED);
    CHECK(strstr(leat_last_error(), "install it (Debian: libucx0)"));
    meet(end);
}

static void links_need_ucx(void **state)
{
    (void)state;
    run_ends(without_ucx, false);
}

/* Returns true if UCX is here. Asks in a child. */
static bool has_ucx(void)
{
    int status;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        leat_listener *listener;

        if (leat_listen("ucx:127.0.0.1:0", &link_options, &listener) == LEAT_OK)
            _exit(0);
        printf("skipped: %s\n", leat_last_error());
        fflush(NULL);
        _exit(77);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_go_both_ways),
        cmocka_unit_test(bytes_arrive_after_close),
        cmocka_unit_test(copies_end_if_the_peer_is_killed),
        cmocka_unit_test(links_need_ucx),
    };

    if (!has_ucx())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
