/*
 * link_room.h - shared by the tests of messages: pairs of links in one process, memory of all kinds with guard
 * bytes around it, and waits for tickets. The links are made of connected sockets, without a handshake.
 */
#ifndef LINK_ROOM_H
#define LINK_ROOM_H

#include "harness.h"

#include "net.h"
#include "ucx.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define SECOND UINT64_C(1000000000)

/* Half a minute: a test that waits longer hangs, and fails. */
#define LONG_NS (30 * SECOND)

/* ---- sockets and links ---- */

/* TRANSPORTS: those that every machine has. */
enum transport { TRANSPORT_UNIX, TRANSPORT_TCP, TRANSPORTS, TRANSPORT_UCX = TRANSPORTS };

static inline void set_flags(int fd)
{
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fcntl(fd, F_SETFD, FD_CLOEXEC), 0);
}

/* Makes two connected, non-blocking sockets. */
static inline void make_sockets(enum transport transport, int fds[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_bytes = sizeof at;
    int listener;

    if (transport == TRANSPORT_UNIX) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    } else {
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
        assert_int_equal(listen(listener, 1), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &at_bytes), 0);
        fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fds[0], (struct sockaddr *)&at, sizeof at), 0);
        fds[1] = accept(listener, NULL, NULL);
        close(listener);
    }
    assert_true(fds[0] >= 0 && fds[1] >= 0);
    set_flags(fds[0]);
    set_flags(fds[1]);
}

struct link_setup {
    enum transport transport;
    uint64_t idle_ns, window_bytes, memory_bytes; /* 0: the default */
    bool encrypted;                               /* with keys that the tests know */
};

/* Makes a link of a connected socket. */
static inline leat_link *link_of(int fd, const struct link_setup *setup, const char *peer)
{
    static const char *const names[] = {"unix", "tcp", "ucx"};
    uint64_t idle = setup->idle_ns ? setup->idle_ns : LEATN_IDLE_TIMEOUT_NS;
    struct net_connection connection = {.fd = fd,
                                        .connected = strcmp(peer, "the second end") == 0,
                                        .ucx = setup->transport == TRANSPORT_UCX,
                                        .transport = names[setup->transport],
                                        .peer_process = -1,
                                        .peer_user = -1,
                                        .idle_timeout_ns = idle,
                                        .peer_idle_timeout_ns = idle,
                                        .window_bytes =
                                            setup->window_bytes ? setup->window_bytes : LEATN_WINDOW_BYTES,
                                        .memory_bytes =
                                            setup->memory_bytes ? setup->memory_bytes : LEATN_MEMORY_BYTES};
    leat_link *link = NULL;

    connection.encrypted = setup->encrypted;
    memset(connection.keys.send, connection.connected, sizeof connection.keys.send);
    memset(connection.keys.receive, !connection.connected, sizeof connection.keys.receive);
    snprintf(connection.peer, sizeof connection.peer, "%s", peer);
    OK(leatn_link_create(&connection, &link));
    assert_non_null(link);
    return link;
}

/* Two ends of one link. With TEST_LINK_UCX in the environment, all links carry their payload by UCX; with
 * TEST_LINK_ENCRYPT, all are encrypted; with TEST_LINK_MEMORY they keep so many bytes of payload, where a test does
 * not say it. */
struct ends {
    leat_link *one, *two;
};

static inline struct ends make_ends(const struct link_setup *setup)
{
    struct link_setup chosen = *setup;
    int fds[2];

    if (getenv("TEST_LINK_UCX"))
        chosen.transport = TRANSPORT_UCX;
    if (getenv("TEST_LINK_MEMORY") && !chosen.memory_bytes)
        chosen.memory_bytes = strtoull(getenv("TEST_LINK_MEMORY"), NULL, 10);
    chosen.encrypted = chosen.encrypted || getenv("TEST_LINK_ENCRYPT");
    make_sockets(chosen.transport, fds);
    return (struct ends){link_of(fds[0], &chosen, "the second end"), link_of(fds[1], &chosen, "the first end")};
}

static inline void close_ends(const struct ends *ends)
{
    OK(leat_link_close(ends->one));
    OK(leat_link_close(ends->two));
}

static inline leat_link_info info_of(leat_link *link)
{
    leat_link_info info = LEAT_LINK_INFO_INIT;

    OK(leat_link_get_info(link, &info));
    return info;
}

/* Waits until a link has failed. */
static inline void wait_for_failure(leat_link *link)
{
    for (unsigned i = 0; i < 30000 && info_of(link).status == LEAT_OK; i++)
        test_sleep_us(1000);
    assert_int_equal(info_of(link).status, LEAT_ERROR_LINK);
}

/* Waits until no copy of the two ends is left, and the first end knows that. A copy's ticket may fail before the
 * other end is told, and a send of the other end may then meet a receive that has ended. */
static inline void settle(const struct test_state *room, const struct ends *ends)
{
    char sent = 1, got = 0;

    while (info_of(ends->one).sends || info_of(ends->one).receives || info_of(ends->two).sends ||
           info_of(ends->two).receives)
        test_sleep_us(100);
    /* This message follows the frame that ends the receive. */
    OK(leat_send(room->stream, ends->two, 9, &sent, 1));
    OK(leat_receive(room->second, &got, ends->one, 9, 1));
    OK(leat_stream_synchronize(room->stream));
    OK(leat_stream_synchronize(room->second));
    assert_int_equal(got, 1);
}

static inline void ignore_change(void *object)
{
    (void)object;
}

/* Returns true if the links of make_ends() can be made here. Prints the reason otherwise. */
static inline bool has_transport(void)
{
    struct leatn_ucx_worker *worker;

    if (!getenv("TEST_LINK_UCX"))
        return true;
    if (leatn_ucx_worker_create(ignore_change, NULL, &worker) != LEAT_OK) {
        printf("skipped: %s\n", leat_last_error());
        return false;
    }
    leatn_ucx_worker_destroy(worker);
    return true;
}

/* Defines a main() that runs an array of tests, with TEST_LINK_UCX only where UCX is. */
#define LINK_TEST_MAIN(tests)                                                                                     \
    int main(void)                                                                                                \
    {                                                                                                             \
        if (!test_device_there() || !has_transport())                                                             \
            return 77;                                                                                            \
        return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;                                                 \
    }

/* ---- memory ---- */

static const leat_kind memory_kinds[] = {LEAT_KIND_DEVICE, LEAT_KIND_PINNED, LEAT_KIND_PAGEABLE};
enum { MEMORY_KINDS = 3 };

enum { GUARD = 4096 }; /* bytes before and behind memory */
#define GUARD_VALUE 0xa5

struct memory {
    leat_kind kind;
    unsigned char *all, *at; /* at has bytes bytes, all has the guards too */
    size_t bytes;
};

static inline void copy_now(leat_stream *stream, void *dst, const void *src, size_t bytes)
{
    OK(leat_copy(stream, dst, src, bytes));
    OK(leat_stream_synchronize(stream));
}

/* Returns memory of a kind that is filled with GUARD_VALUE. misaligned: added to its address. */
static inline struct memory make_memory(leat_device *device, leat_stream *stream, leat_kind kind, size_t bytes,
                                        size_t misaligned)
{
    size_t all = bytes + 2 * GUARD + misaligned;
    struct memory memory = {.kind = kind, .bytes = bytes};
    unsigned char *filled = test_buffer(all);

    memory.all = kind == LEAT_KIND_PAGEABLE ? test_buffer(all) : test_alloc(device, kind, all);
    memory.at = memory.all + GUARD + misaligned;
    memset(filled, GUARD_VALUE, all);
    copy_now(stream, memory.all, filled, all);
    free(filled);
    return memory;
}

static inline void free_memory(struct memory *memory)
{
    if (memory->kind == LEAT_KIND_PAGEABLE)
        free(memory->all);
    else
        OK(leat_memory_free(memory->all));
}

static inline void fill_memory(leat_stream *stream, const struct memory *memory, uint64_t seed)
{
    unsigned char *pattern = test_buffer(memory->bytes);

    test_pattern(pattern, memory->bytes, seed);
    copy_now(stream, memory->at, pattern, memory->bytes);
    free(pattern);
}

/* Fails if the memory does not hold the pattern, or a guard was written. */
static inline void expect_message(leat_stream *stream, const struct memory *memory, uint64_t seed)
{
    size_t before = (size_t)(memory->at - memory->all), all = before + memory->bytes + GUARD;
    unsigned char *read = test_buffer(all);

    copy_now(stream, read, memory->all, all);
    EXPECT_BYTES(read, before, GUARD_VALUE);
    EXPECT_PATTERN(read + before, memory->bytes, seed);
    EXPECT_BYTES(read + before + memory->bytes, GUARD, GUARD_VALUE);
    free(read);
}

/* Fails if any byte of the memory, or of its guards, is not value. */
static inline void expect_bytes(leat_stream *stream, const struct memory *memory, unsigned char value)
{
    unsigned char *read = test_buffer(memory->bytes + GUARD);

    copy_now(stream, read, memory->at, memory->bytes + GUARD);
    EXPECT_BYTES(read, memory->bytes + GUARD, value);
    free(read);
}

/* Fails if a guard was written. */
static inline void expect_guards(leat_stream *stream, const struct memory *memory)
{
    size_t before = (size_t)(memory->at - memory->all), all = before + memory->bytes + GUARD;
    unsigned char *read = test_buffer(all);

    copy_now(stream, read, memory->all, all);
    EXPECT_BYTES(read, before, GUARD_VALUE);
    EXPECT_BYTES(read + before + memory->bytes, GUARD, GUARD_VALUE);
    free(read);
}

/* ---- copies ---- */

static inline leat_ticket *send_start(leat_stream *stream, leat_link *link, uint64_t tag, const void *src,
                                      size_t bytes)
{
    leat_ticket *ticket = NULL;

    OK(leat_send_start(stream, link, tag, src, bytes, NULL, &ticket));
    return ticket;
}

static inline leat_ticket *receive_start(leat_stream *stream, void *dst, leat_link *link, uint64_t tag,
                                         size_t bytes)
{
    leat_ticket *ticket = NULL;

    OK(leat_receive_start(stream, dst, link, tag, bytes, NULL, &ticket));
    return ticket;
}

/* Waits for a copy, destroys its ticket and returns how it ended. */
static inline leat_status end_of(leat_ticket *ticket)
{
    leat_status status = leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LONG_NS);

    if (status == LEAT_NOT_READY)
        print_error("a copy did not end in half a minute\n");
    assert_int_not_equal(status, LEAT_NOT_READY);
    OK(leat_ticket_destroy(ticket));
    return status;
}

/* The copy must end with this status. */
#define ENDS_WITH(ticket, wanted) ends_with((ticket), (wanted), __FILE__, __LINE__)
static inline void ends_with(leat_ticket *ticket, leat_status wanted, const char *file, int line)
{
    leat_status status = end_of(ticket);

    if (status != wanted) {
        print_error("%s:%d: %s instead of %s: %s\n", file, line, leat_status_name(status),
                    leat_status_name(wanted), leat_last_error());
        fail();
    }
}

/* Takes failures of copies from a stream, so that later waits do not return them. */
static inline void take_failures(leat_stream *stream)
{
    while (leat_stream_synchronize(stream) != LEAT_OK)
        continue;
}

/* ---- descriptors ---- */

static inline unsigned count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* Waits until no more descriptors are open than before: the thread of links closes them after leat_link_close().
 */
static inline void expect_descriptors(unsigned before)
{
    for (unsigned i = 0; i < 30000 && count_descriptors() > before; i++)
        test_sleep_us(1000);
    assert_true(count_descriptors() <= before);
}

#endif
