/*
 * net_room.h - shared by the tests of connections: keys, listeners that a thread accepts at, plain sockets, and a
 * check that no descriptor is left open.
 */
#ifndef NET_ROOM_H
#define NET_ROOM_H

#include "harness.h"
#include "link_stand_in.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MILLISECOND UINT64_C(1000000)
#define SECOND (1000 * MILLISECOND)

/* ---- options ---- */

static const char good_key[] = "a key of the tests, 32 bytes long";
static const char other_key[] = "a key of the tests, 32 bytes lonG";

/* Returns options with a key, or without one for NULL. A connection that hangs fails after half a minute. */
static inline leat_link_options options_with(const char *key)
{
    leat_link_options options = LEAT_LINK_OPTIONS_INIT;

    options.key = key;
    options.key_bytes = key ? strlen(key) : 0;
    options.setup_timeout_ns = 30 * SECOND;
    return options;
}

static inline leat_listener *listen_with(const char *address, const char *key)
{
    leat_link_options options = options_with(key);
    leat_listener *listener = NULL;

    OK(leat_listen(address, &options, &listener));
    return listener;
}

/* Returns the text of a listener's address. It stays valid until the fourth call after this one. */
static inline const char *address_of(leat_listener *listener)
{
    static char texts[4][400];
    static unsigned next;
    char *text = texts[next++ % 4];

    OK(leat_listener_get_address(listener, text, sizeof texts[0]));
    return text;
}

/* ---- one end in a thread ---- */

/* One call of leat_accept() or leat_connect() on a thread of its own. */
struct call {
    pthread_t thread;
    leat_listener *listener; /* accept */
    uint64_t timeout_ns;
    bool until_dropped; /* accept: until a connection was dropped */
    char address[400];  /* connect */
    leat_link_options options;
    leat_status status;
    leat_link *link;
    char message[2001];
};

static inline void *run_call(void *given)
{
    struct call *call = given;

    if (call->until_dropped)
        do
            call->status = leat_accept(call->listener, 10 * MILLISECOND, &call->link);
        while (call->status == LEAT_NOT_READY && !*leat_last_error() && leatc_now_ns() < call->timeout_ns);
    else if (call->listener)
        call->status = leat_accept(call->listener, call->timeout_ns, &call->link);
    else
        call->status = leat_connect(call->address, &call->options, &call->link);
    snprintf(call->message, sizeof call->message, "%s", call->status == LEAT_OK ? "" : leat_last_error());
    return NULL;
}

static inline void begin_accept(struct call *call, leat_listener *listener, uint64_t timeout_ns)
{
    memset(call, 0, sizeof *call);
    call->listener = listener;
    call->timeout_ns = timeout_ns;
    assert_int_equal(pthread_create(&call->thread, NULL, run_call, call), 0);
}

/* Accepts until a connection was dropped, which end_refused() expects. */
static inline void begin_refuse(struct call *call, leat_listener *listener)
{
    memset(call, 0, sizeof *call);
    call->listener = listener;
    call->until_dropped = true;
    call->timeout_ns = leatc_end_ns(60 * SECOND);
    assert_int_equal(pthread_create(&call->thread, NULL, run_call, call), 0);
}

static inline void begin_connect(struct call *call, const char *address, const char *key)
{
    memset(call, 0, sizeof *call);
    snprintf(call->address, sizeof call->address, "%s", address);
    call->options = options_with(key);
    assert_int_equal(pthread_create(&call->thread, NULL, run_call, call), 0);
}

static inline leat_status end_call(struct call *call)
{
    pthread_join(call->thread, NULL);
    return call->status;
}

/* Ends a call that must have failed with LINK (or NOT_READY, for leat_accept()), and a message with these words.
 */
static inline void end_refused(struct call *call, const char *words)
{
    leat_status status = end_call(call);

    if ((status != LEAT_ERROR_LINK && status != LEAT_NOT_READY) || !strstr(call->message, words)) {
        print_error("returned %s; the message does not have the words \"%s\": %s\n", leat_status_name(status),
                    words, call->message);
        fail();
    }
}

/* Accepts until a connection was dropped with these words. */
static inline void expect_dropped(leat_listener *listener, const char *words)
{
    uint64_t end_ns = leatc_end_ns(60 * SECOND);
    leat_status status;
    leat_link *link = NULL;

    leat_error_set(LEAT_OK, "");
    do
        status = leat_accept(listener, 10 * MILLISECOND, &link);
    while (status == LEAT_NOT_READY && !strstr(leat_last_error(), words) && leatc_now_ns() < end_ns);
    if (status != LEAT_NOT_READY || !strstr(leat_last_error(), words)) {
        print_error("returned %s; the message does not have the words \"%s\": %s\n", leat_status_name(status),
                    words, leat_last_error());
        fail();
    }
    assert_null(link);
}

/* Connects to the listener, which must accept at the same time. Returns both ends. */
static inline void connect_both(leat_listener *listener, const char *key, leat_link **connected,
                                leat_link **accepted)
{
    struct call accept;
    leat_link_options options = options_with(key);

    begin_accept(&accept, listener, 30 * SECOND);
    *connected = NULL;
    OK(leat_connect(address_of(listener), &options, connected));
    if (end_call(&accept) != LEAT_OK)
        print_error("%s\n", accept.message);
    assert_int_equal(accept.status, LEAT_OK);
    *accepted = accept.link;
}

/* A process with the key must still be able to connect. */
static inline void expect_good(leat_listener *listener, const char *key)
{
    leat_link *connected, *accepted;

    connect_both(listener, key, &connected, &accepted);
    OK(leat_link_close(connected));
    OK(leat_link_close(accepted));
}

/* ---- plain sockets ---- */

static inline struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline uint16_t port_in(const char *address)
{
    return (uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10);
}

/* Returns a blocking socket that is connected to a port of this machine. */
static inline int plain_connect(uint16_t port)
{
    struct sockaddr_in at = loopback(port);
    const struct timeval timeout = {.tv_sec = 30};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* Returns a socket that listens at a port of this machine, and its address as text. */
static inline int plain_listen(char *address, size_t bytes)
{
    struct sockaddr_in at = loopback(0);
    socklen_t at_bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &at_bytes), 0);
    snprintf(address, bytes, "tcp:127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

static inline int plain_accept(int fd)
{
    const struct timeval timeout = {.tv_sec = 30};
    int accepted = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

    assert_true(accepted >= 0);
    setsockopt(accepted, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    return accepted;
}

static inline void send_bytes(int fd, const void *bytes, size_t count)
{
    assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), (ssize_t)count);
}

/* Reads until count bytes have come or the other end closes. Returns how many came. */
static inline size_t receive_bytes(int fd, void *bytes, size_t count)
{
    size_t had = 0;
    ssize_t got;

    while (had < count && (got = recv(fd, (char *)bytes + had, count - had, 0)) > 0)
        had += (size_t)got;
    return had;
}

/* Accepts until this many bytes of an answer have come to a plain socket. */
static inline void expect_answer(leat_listener *listener, int fd, void *bytes, size_t count)
{
    uint64_t end_ns = leatc_end_ns(60 * SECOND);
    leat_link *link = NULL;

    while (recv(fd, bytes, count, MSG_DONTWAIT | MSG_PEEK) < (ssize_t)count && leatc_now_ns() < end_ns)
        assert_int_equal(leat_accept(listener, 10 * MILLISECOND, &link), LEAT_NOT_READY);
    assert_int_equal(receive_bytes(fd, bytes, count), count);
}

/* ---- descriptors ---- */

static inline size_t count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    size_t count = 0;

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* Setup and teardown of a test: it must leave as many descriptors open as it found. */
static inline int room_setup(void **state)
{
    *state = (void *)count_descriptors(); // NOLINT: a number in place of a pointer
    return 0;
}

static inline int room_teardown(void **state)
{
    size_t now = count_descriptors();

    if (now == (size_t)*state)
        return 0;
    print_error("%zu descriptors were open before the test, and %zu are now\n", (size_t)*state, now);
    return -1;
}
#define ROOM_TEST(function) cmocka_unit_test_setup_teardown(function, room_setup, room_teardown)

#endif
