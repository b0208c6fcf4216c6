/*
 * test_listener.c - tests leat_listen(), leat_accept(), leat_connect() and leat_listener_close(): addresses and
 * options, all kinds of sockets, socket files, users, descriptors at their limit, several threads.
 */
#include "net_room.h"
#include "test_folder.h"

#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { NOBODY = 65534 };

/* ---- connections of all kinds ---- */

static void expect_connection(const leat_link *link, bool connected, const char *transport)
{
    const struct net_connection *connection = &link->connection;
    int flags = fcntl(connection->fd, F_GETFL), no_delay = 0;
    socklen_t bytes = sizeof no_delay;

    assert_true(flags >= 0 && (flags & O_NONBLOCK));
    assert_true(fcntl(connection->fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(connection->connected, connected);
    assert_string_equal(connection->transport, transport);
    assert_int_equal(strncmp(connection->peer, transport, strlen(transport)), 0);
    assert_false(connection->ucx);
    if (!strcmp(transport, "unix")) {
        assert_int_equal(connection->peer_process, getpid());
        assert_int_equal(connection->peer_user, geteuid());
    } else {
        assert_int_equal(connection->peer_process, -1);
        assert_int_equal(connection->peer_user, -1);
        assert_int_equal(getsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &bytes), 0);
        assert_int_not_equal(no_delay, 0);
    }
}

/* Bytes pass in both directions. None of them was taken by the handshake. */
static void expect_bytes_pass(const leat_link *from, const leat_link *to)
{
    struct pollfd polled = {.fd = to->connection.fd, .events = POLLIN};
    char text[8];

    send_bytes(from->connection.fd, "first", 6);
    assert_int_equal(poll(&polled, 1, 30000), 1);
    assert_int_equal(recv(to->connection.fd, text, sizeof text, 0), 6);
    assert_string_equal(text, "first");
}

static void try_connection(const char *address, const char *key, const char *transport)
{
    leat_link_options listens = options_with(key), connects = options_with(key);
    leat_listener *listener = NULL;
    leat_link *link = NULL;
    struct call accept;

    listens.idle_timeout_ns = 5 * SECOND;
    listens.window_bytes = 1 << 20;
    listens.memory_bytes = 5 << 20;
    connects.idle_timeout_ns = 7 * SECOND;
    OK(leat_listen(address, &listens, &listener));
    begin_accept(&accept, listener, 30 * SECOND);
    OK(leat_connect(address_of(listener), &connects, &link));
    assert_int_equal(end_call(&accept), LEAT_OK);
    OK(leat_listener_close(listener)); /* links live on */
    expect_connection(link, true, transport);
    expect_connection(accept.link, false, transport);
    assert_int_equal(link->connection.idle_timeout_ns, 7 * SECOND);
    assert_int_equal(link->connection.peer_idle_timeout_ns, 5 * SECOND);
    assert_int_equal(link->connection.window_bytes, 8 << 20);
    assert_int_equal(link->connection.memory_bytes, 256 << 20);
    assert_int_equal(accept.link->connection.idle_timeout_ns, 5 * SECOND);
    assert_int_equal(accept.link->connection.peer_idle_timeout_ns, 7 * SECOND);
    assert_int_equal(accept.link->connection.window_bytes, 1 << 20);
    assert_int_equal(accept.link->connection.memory_bytes, 5 << 20);
    expect_bytes_pass(link, accept.link);
    expect_bytes_pass(accept.link, link);
    OK(leat_link_close(link));
    OK(leat_link_close(accept.link));
}

static void tcp_connects(void **state)
{
    (void)state;
    try_connection("tcp:127.0.0.1:0", good_key, "tcp");
    try_connection("tcp:localhost:0", good_key, "tcp");
}

static void ipv6_connects(void **state)
{
    leat_link_options options = options_with(good_key);
    leat_listener *listener = NULL;

    (void)state;
    if (leat_listen("tcp:[::1]:0", &options, &listener) != LEAT_OK)
        SKIP_OTHER("this machine has no address ::1");
    assert_int_equal(strncmp(address_of(listener), "tcp:[::1]:", 10), 0);
    OK(leat_listener_close(listener));
    try_connection("tcp:[::1]:0", good_key, "tcp");
}

/* A listener at [::] takes connections of IPv4 too. */
static void any_address_takes_both(void **state)
{
    leat_link_options options = options_with(good_key);
    leat_listener *listener = NULL;
    leat_link *link = NULL;
    struct call accept;
    char address[64];

    (void)state;
    if (leat_listen("tcp:[::]:0", &options, &listener) != LEAT_OK)
        SKIP_OTHER("this machine has no IPv6");
    snprintf(address, sizeof address, "tcp:127.0.0.1:%u", port_in(address_of(listener)));
    begin_accept(&accept, listener, 30 * SECOND);
    OK(leat_connect(address, &options, &link));
    assert_int_equal(end_call(&accept), LEAT_OK);
    OK(leat_link_close(link));
    OK(leat_link_close(accept.link));
    OK(leat_listener_close(listener));
}

static const char *unix_address(const char *name)
{
    static char texts[4][TEMPORARY_PATH + 200];
    static unsigned next;
    char *text = texts[next++ % 4];

    snprintf(text, sizeof texts[0], "unix:%s", path_of(name));
    return text;
}

/* Returns an abstract name that no other run of the tests uses. */
static const char *abstract_address(void)
{
    static _Thread_local char text[64];

    snprintf(text, sizeof text, "unix:@leat-test-%d", (int)getpid());
    return text;
}

static void unix_connects(void **state)
{
    (void)state;
    try_connection(unix_address("socket"), NULL, "unix");
    try_connection(unix_address("socket"), good_key, "unix");
    try_connection(abstract_address(), NULL, "unix");
    try_connection(abstract_address(), good_key, "unix");
}

/* ---- arguments ---- */

#define LISTEN_REFUSED(address, status, words)                                                                    \
    do {                                                                                                          \
        leat_listener *none_ = NULL;                                                                              \
        leat_link_options options_ = options_with(good_key);                                                      \
        REFUSED(leat_listen(address, &options_, &none_), status, words);                                          \
        assert_null(none_);                                                                                       \
    } while (0)

#define CONNECT_REFUSED(address, status, words)                                                                   \
    do {                                                                                                          \
        leat_link *none_ = NULL;                                                                                  \
        leat_link_options options_ = options_with(good_key);                                                      \
        REFUSED(leat_connect(address, &options_, &none_), status, words);                                         \
        assert_null(none_);                                                                                       \
    } while (0)

static void bad_addresses(void **state)
{
    char longest[600];

    (void)state;
    LISTEN_REFUSED(NULL, LEAT_ERROR_INVALID, "address is NULL");
    LISTEN_REFUSED("", LEAT_ERROR_INVALID, "address ''");
    LISTEN_REFUSED("127.0.0.1:7000", LEAT_ERROR_INVALID, "no known form; addresses are tcp:HOST:PORT");
    LISTEN_REFUSED("TCP:127.0.0.1:7000", LEAT_ERROR_INVALID, "no known form");
    LISTEN_REFUSED("http://x", LEAT_ERROR_INVALID, "address 'http://x'");
    LISTEN_REFUSED("tcp:", LEAT_ERROR_INVALID, "no port");
    LISTEN_REFUSED("tcp:localhost", LEAT_ERROR_INVALID, "no port");
    LISTEN_REFUSED("tcp::7000", LEAT_ERROR_INVALID, "host is empty");
    LISTEN_REFUSED("tcp:[]:7000", LEAT_ERROR_INVALID, "host is empty");
    LISTEN_REFUSED("tcp:localhost:", LEAT_ERROR_INVALID, "port '' is not a number");
    LISTEN_REFUSED("tcp:localhost:http", LEAT_ERROR_INVALID, "port 'http' is not a number");
    LISTEN_REFUSED("tcp:localhost:-1", LEAT_ERROR_INVALID, "port '-1'");
    LISTEN_REFUSED("tcp:localhost:+1", LEAT_ERROR_INVALID, "port '+1'");
    LISTEN_REFUSED("tcp:localhost: 1", LEAT_ERROR_INVALID, "port ' 1'");
    LISTEN_REFUSED("tcp:localhost:080", LEAT_ERROR_INVALID, "port '080'");
    LISTEN_REFUSED("tcp:localhost:70000", LEAT_ERROR_INVALID, "port 70000 is more than 65535");
    LISTEN_REFUSED("tcp:localhost:4294967296", LEAT_ERROR_INVALID, "port '4294967296'");
    LISTEN_REFUSED("tcp:::1:7000", LEAT_ERROR_INVALID, "needs brackets");
    LISTEN_REFUSED("tcp:[::1]7000", LEAT_ERROR_INVALID, "must follow");
    LISTEN_REFUSED("tcp:[::1:7000", LEAT_ERROR_INVALID, "must follow");
    LISTEN_REFUSED("unix:", LEAT_ERROR_INVALID, "path is empty");
    LISTEN_REFUSED("unix:@", LEAT_ERROR_INVALID, "name is empty");
    LISTEN_REFUSED("tcp:\x1b[31m:7\n", LEAT_ERROR_INVALID, "'tcp:?[31m:7?'");
    CONNECT_REFUSED("tcp:127.0.0.1:0", LEAT_ERROR_INVALID, "only a listener may have");
    snprintf(longest, sizeof longest, "unix:/%0107d", 1);
    LISTEN_REFUSED(longest, LEAT_ERROR_INVALID, "108 bytes; at most 107");
    snprintf(longest, sizeof longest, "unix:@%0108d", 1);
    LISTEN_REFUSED(longest, LEAT_ERROR_INVALID, "108 bytes; at most 107");
    snprintf(longest, sizeof longest, "tcp:%0256d:1", 1);
    LISTEN_REFUSED(longest, LEAT_ERROR_INVALID, "256 bytes; at most 255");
}

static void addresses_without_listener(void **state)
{
    char address[64];
    int fd = plain_listen(address, sizeof address);

    (void)state;
    close(fd);
    CONNECT_REFUSED(address, LEAT_ERROR_LINK, "nobody listens there");
    CONNECT_REFUSED(unix_address("none"), LEAT_ERROR_LINK, "no such file");
    CONNECT_REFUSED(abstract_address(), LEAT_ERROR_LINK, "nobody listens there");
    CONNECT_REFUSED("tcp:[::zz]:7000", LEAT_ERROR_LINK, "host '::zz' is not known");
    LISTEN_REFUSED("tcp:192.0.2.1:0", LEAT_ERROR_LINK, "no address of this machine");
    LISTEN_REFUSED(unix_address("no-folder/socket"), LEAT_ERROR_LINK, "no such file or folder");
}

static void used_addresses(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);

    (void)state;
    LISTEN_REFUSED(address_of(listener), LEAT_ERROR_LINK, "another process listens there");
    OK(leat_listener_close(listener));
    listener = listen_with(abstract_address(), good_key);
    LISTEN_REFUSED(abstract_address(), LEAT_ERROR_LINK, "another process listens there");
    OK(leat_listener_close(listener));
}

static void bad_keys(void **state)
{
    leat_link_options options = options_with("fifteen bytes..");
    leat_listener *listener = NULL;
    leat_link *link = NULL;
    char longest[4098];

    (void)state;
    REFUSED(leat_listen("tcp:127.0.0.1:0", &options, &listener), LEAT_ERROR_INVALID, "15 bytes");
    REFUSED(leat_connect("tcp:127.0.0.1:1", &options, &link), LEAT_ERROR_INVALID, "15 bytes");
    REFUSED(leat_listen(unix_address("socket"), &options, &listener), LEAT_ERROR_INVALID, "15 bytes");
    memset(longest, 'x', sizeof longest);
    options.key = longest;
    options.key_bytes = 4097;
    REFUSED(leat_listen("tcp:127.0.0.1:0", &options, &listener), LEAT_ERROR_INVALID, "4097 bytes");
    options.key_bytes = 0;
    REFUSED(leat_listen(unix_address("socket"), &options, &listener), LEAT_ERROR_INVALID, "0 bytes");
    options.key = NULL;
    options.key_bytes = 16;
    REFUSED(leat_listen("tcp:127.0.0.1:0", &options, &listener), LEAT_ERROR_INVALID, "key is NULL");
    REFUSED(leat_listen("tcp:127.0.0.1:0", NULL, &listener), LEAT_ERROR_INVALID, "a tcp: address needs a key");
    REFUSED(leat_connect("tcp:127.0.0.1:1", NULL, &link), LEAT_ERROR_INVALID, "a tcp: address needs a key");
    REFUSED(leat_listen("ucx:127.0.0.1:0", NULL, &listener), LEAT_ERROR_INVALID, "a ucx: address needs a key");
    assert_null(listener);
    assert_null(link);
    options.key = longest;
    options.key_bytes = 4096;
    OK(leat_listen("tcp:127.0.0.1:0", &options, &listener));
    OK(leat_listener_close(listener));
    options.key_bytes = 16;
    OK(leat_listen("tcp:127.0.0.1:0", &options, &listener));
    OK(leat_listener_close(listener));
}

static void bad_arguments(void **state)
{
    leat_link_options options = options_with(good_key);
    leat_listener *listener = NULL;
    leat_link *link = NULL;
    char text[12];

    (void)state;
    REFUSED(leat_listen("tcp:127.0.0.1:0", &options, NULL), LEAT_ERROR_INVALID, "listener is NULL");
    REFUSED(leat_connect("tcp:127.0.0.1:1", &options, NULL), LEAT_ERROR_INVALID, "link is NULL");
    options.size = 0;
    REFUSED(leat_listen("tcp:127.0.0.1:0", &options, &listener), LEAT_ERROR_INVALID, "LEAT_LINK_OPTIONS_INIT");
    REFUSED(leat_connect("tcp:127.0.0.1:1", &options, &link), LEAT_ERROR_INVALID, "options->size is 0");
    REFUSED(leat_accept(NULL, 0, &link), LEAT_ERROR_HANDLE, "listener is NULL");
    REFUSED(leat_listener_get_address(NULL, text, sizeof text), LEAT_ERROR_HANDLE, "listener is NULL");
    OK(leat_listener_close(NULL));
    listener = listen_with("tcp:127.0.0.1:0", good_key);
    REFUSED(leat_accept(listener, 0, NULL), LEAT_ERROR_INVALID, "link is NULL");
    REFUSED(leat_listener_get_address(listener, NULL, 10), LEAT_ERROR_INVALID, "text is NULL");
    REFUSED(leat_listener_get_address(listener, text, 0), LEAT_ERROR_INVALID, "of 0 bytes");
    OK(leat_listener_get_address(listener, text, sizeof text));
    assert_string_equal(text, "tcp:127.0.0");
    OK(leat_listener_close(listener));
}

/* Old programs have a shorter struct of options. */
static void shorter_options(void **state)
{
    leat_link_options options = options_with(NULL);
    leat_listener *listener = NULL;

    (void)state;
    options.size = offsetof(leat_link_options, setup_timeout_ns);
    memset((char *)&options + options.size, 0xee, sizeof options - options.size);
    OK(leat_listen(unix_address("socket"), &options, &listener));
    OK(leat_listener_close(listener));
}

struct permitted {
    leat_status listen, connect;
    char message[300];
};

static void call_inside(void *given)
{
    struct permitted *result = given;
    leat_listener *listener = NULL;
    leat_link *link = NULL;

    result->listen = leat_listen("unix:@leat-test-inside", NULL, &listener);
    result->connect = leat_connect("unix:@leat-test-inside", NULL, &link);
    snprintf(result->message, sizeof result->message, "%s", leat_last_error());
}

static void not_inside_host_functions(void **state)
{
    struct test_state *t = *state;
    struct permitted result = {0};

    OK(leat_launch_host(t->stream, call_inside, &result));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(result.listen, LEAT_ERROR_NOT_PERMITTED);
    assert_int_equal(result.connect, LEAT_ERROR_NOT_PERMITTED);
    assert_non_null(strstr(result.message, "leat_connect: called from inside a host function"));
}

/* A call that succeeds keeps the last message of the thread. */
static void messages_stay(void **state)
{
    leat_listener *listener = NULL;
    char before[2001];

    (void)state;
    REFUSED(leat_accept(NULL, 0, NULL), LEAT_ERROR_HANDLE, "listener");
    snprintf(before, sizeof before, "%s", leat_last_error());
    OK(leat_listen(unix_address("socket"), NULL, &listener));
    assert_string_equal(leat_last_error(), before);
    OK(leat_listener_close(listener));
}

static void ucx_is_missing(void **state)
{
    (void)state;
    setenv("LEAT_UCX_LIBRARY", path_of("libucp.so.0"), 1);
    LISTEN_REFUSED("ucx:127.0.0.1:0", LEAT_ERROR_UNSUPPORTED, "libucp.so.0");
    CONNECT_REFUSED("ucx:127.0.0.1:1", LEAT_ERROR_UNSUPPORTED, "libucp.so.0");
    unsetenv("LEAT_UCX_LIBRARY");
}

/* ---- waiting ---- */

static void nobody_comes(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    leat_link *link = NULL;

    (void)state;
    assert_int_equal(leat_accept(listener, 0, &link), LEAT_NOT_READY);
    assert_int_equal(leat_accept(listener, 30 * MILLISECOND, &link), LEAT_NOT_READY);
    assert_null(link);
    OK(leat_listener_close(listener));
}

/* leat_accept() that only checks makes progress with each call. */
static void accept_without_waiting(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    leat_link *link = NULL;
    struct call connect;
    leat_status status;

    (void)state;
    begin_connect(&connect, address_of(listener), good_key);
    while ((status = leat_accept(listener, 0, &link)) == LEAT_NOT_READY)
        usleep(1000);
    OK(status);
    assert_int_equal(end_call(&connect), LEAT_OK);
    OK(leat_link_close(link));
    OK(leat_link_close(connect.link));
    OK(leat_listener_close(listener));
}

static void listener_that_does_not_accept(void **state)
{
    leat_link_options options = options_with(good_key);
    leat_link *link = NULL;
    leat_listener *listener = listen_with(unix_address("socket"), good_key);
    char address[64];
    int fd = plain_listen(address, sizeof address);

    (void)state;
    options.setup_timeout_ns = 100 * MILLISECOND;
    REFUSED(leat_connect(address, &options, &link), LEAT_ERROR_LINK,
            "its first message did not come within 100 ms");
    REFUSED(leat_connect(address_of(listener), &options, &link), LEAT_ERROR_LINK, "within 100 ms");
    expect_dropped(listener, "closed the connection");
    OK(leat_listener_close(listener));
    close(fd);
}

/* The queue of a Unix socket has room for one connection here; the next connect() waits. */
static void full_queue(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    leat_link_options options = options_with(NULL);
    leat_link *link = NULL;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
        first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path_of("full"));
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(connect(first, (struct sockaddr *)&at, sizeof at), 0);
    options.setup_timeout_ns = 100 * MILLISECOND;
    REFUSED(leat_connect(unix_address("full"), &options, &link), LEAT_ERROR_LINK, "timed out");
    close(first);
    close(fd);
}

static void links_that_cannot_be_made(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    struct call accept, connect;

    (void)state;
    links_fail = 1;
    begin_accept(&accept, listener, 30 * SECOND);
    begin_connect(&connect, address_of(listener), good_key);
    assert_int_equal(end_call(&accept), LEAT_ERROR_HOST_MEMORY);
    assert_int_equal(end_call(&connect), LEAT_ERROR_HOST_MEMORY);
    links_fail = 0;
    assert_string_equal(accept.message, "leat_accept: no memory for a link");
    expect_good(listener, good_key);
    OK(leat_listener_close(listener));
}

enum { THREADS = 6 };

static void several_threads_accept(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    struct call accept[THREADS], connect[THREADS];
    leat_link *none = NULL;
    leat_status status;

    (void)state;
    for (int i = 0; i < THREADS; i++)
        begin_accept(&accept[i], listener, 60 * SECOND);
    /* A thread that only checks does not wait for one that does, though it may accept. */
    status = leat_accept(listener, 0, &none);
    assert_int_equal(status, LEAT_NOT_READY);
    for (int i = 0; i < THREADS; i++)
        begin_connect(&connect[i], address_of(listener), good_key);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(end_call(&connect[i]), LEAT_OK);
        assert_int_equal(end_call(&accept[i]), LEAT_OK);
        OK(leat_link_close(connect[i].link));
        OK(leat_link_close(accept[i].link));
    }
    OK(leat_listener_close(listener));
}

/* ---- socket files ---- */

/* Creates a socket file, as a process that has ended leaves it. */
static void leave_socket(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    close(fd);
}

static void socket_file_is_private(void **state)
{
    mode_t before = umask(0);
    leat_listener *listener = listen_with(unix_address("private"), NULL);
    struct stat file;

    (void)state;
    umask(before);
    assert_int_equal(stat(path_of("private"), &file), 0);
    assert_true(S_ISSOCK(file.st_mode));
    assert_int_equal(file.st_mode & 07777, 0600);
    OK(leat_listener_close(listener));
    assert_int_equal(stat(path_of("private"), &file), -1);
}

static void stale_file_is_replaced(void **state)
{
    leat_listener *listener;

    (void)state;
    leave_socket(path_of("stale"));
    CONNECT_REFUSED(unix_address("stale"), LEAT_ERROR_LINK, "nobody listens there");
    listener = listen_with(unix_address("stale"), NULL);
    expect_good(listener, NULL);
    OK(leat_listener_close(listener));
}

static void live_file_is_kept(void **state)
{
    leat_listener *listener = listen_with(unix_address("live"), NULL);

    (void)state;
    LISTEN_REFUSED(unix_address("live"), LEAT_ERROR_LINK, "another process listens there");
    expect_good(listener, NULL);
    OK(leat_listener_close(listener));
}

static void other_files_are_kept(void **state)
{
    int fd = open(path_of("file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    struct stat file;

    (void)state;
    close(fd);
    LISTEN_REFUSED(unix_address("file"), LEAT_ERROR_LINK, "not a socket");
    leave_socket(path_of("target"));
    assert_int_equal(symlink(path_of("target"), path_of("symlink")), 0);
    LISTEN_REFUSED(unix_address("symlink"), LEAT_ERROR_LINK, "not a socket");
    assert_int_equal(stat(path_of("target"), &file), 0);
    assert_int_equal(lstat(path_of("symlink"), &file), 0);
    assert_int_equal(mkdir(path_of("folder"), 0700), 0);
    LISTEN_REFUSED(unix_address("folder"), LEAT_ERROR_LINK, "not a socket");
}

static void file_of_another_user_is_kept(void **state)
{
    struct stat file;

    (void)state;
    if (geteuid() != 0)
        SKIP_OTHER("only root can give a file to another user");
    leave_socket(path_of("foreign"));
    assert_int_equal(chown(path_of("foreign"), NOBODY, NOBODY), 0);
    LISTEN_REFUSED(unix_address("foreign"), LEAT_ERROR_LINK, "a socket of user 65534");
    assert_int_equal(stat(path_of("foreign"), &file), 0);
}

/* A listener removes its own socket file only, not one that took its place. */
static void close_removes_its_own_file(void **state)
{
    leat_listener *first = listen_with(unix_address("moved"), NULL), *second;
    struct stat file;

    (void)state;
    assert_int_equal(unlink(path_of("moved")), 0);
    second = listen_with(unix_address("moved"), NULL);
    OK(leat_listener_close(first));
    assert_int_equal(stat(path_of("moved"), &file), 0);
    expect_good(second, NULL);
    OK(leat_listener_close(second));
}

/* A listener that finds a file, and cannot lock the folder, does not decide that the file is stale. */
static void locked_folder(void **state)
{
    int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    leat_listener *listener;
    struct stat file;

    (void)state;
    leave_socket(path_of("locked"));
    assert_int_equal(flock(lock, LOCK_EX), 0);
    LISTEN_REFUSED(unix_address("locked"), LEAT_ERROR_LINK, "its folder cannot be locked");
    assert_int_equal(stat(path_of("locked"), &file), 0);
    close(lock);
    listener = listen_with(unix_address("locked"), NULL);
    OK(leat_listener_close(listener));
}

struct racer {
    pthread_t thread;
    pthread_barrier_t *start;
    const char *address;
    leat_listener *listener;
    leat_status status;
};

static void *race(void *given)
{
    struct racer *racer = given;

    pthread_barrier_wait(racer->start);
    racer->status = leat_listen(racer->address, NULL, &racer->listener);
    return NULL;
}

/* Of several listeners that find the same stale file, one gets the address, and its socket stays there. */
static void one_listener_wins(void **state)
{
    pthread_barrier_t start;
    struct racer racers[4];

    (void)state;
    for (int round = 0; round < 50; round++) {
        unsigned winners = 0;

        leave_socket(path_of("race"));
        pthread_barrier_init(&start, NULL, 4);
        memset(racers, 0, sizeof racers);
        for (int i = 0; i < 4; i++) {
            racers[i].start = &start;
            racers[i].address = unix_address("race");
            assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(racers[i].thread, NULL);
            winners += racers[i].status == LEAT_OK;
        }
        assert_int_equal(winners, 1);
        for (int i = 0; i < 4; i++)
            if (racers[i].listener) {
                expect_good(racers[i].listener, NULL);
                OK(leat_listener_close(racers[i].listener));
            }
        pthread_barrier_destroy(&start);
    }
}

/* ---- users ---- */

/* Runs a function in a child process of another user. Returns its result. */
static int as_nobody(int (*function)(const char *address), const char *address)
{
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (!child) {
        if (setgid(NOBODY) || setuid(NOBODY))
            _exit(100);
        _exit(function(address));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int connect_refused(const char *address)
{
    leat_link_options options = options_with(NULL);
    leat_link *link = NULL;

    if (leat_connect(address, &options, &link) != LEAT_ERROR_LINK)
        return 1;
    return strstr(leat_last_error(), "accepts only processes of its own user") ? 0 : 2;
}

static void other_users_are_refused(void **state)
{
    leat_listener *listener;
    struct call accept;

    (void)state;
    if (geteuid() != 0)
        SKIP_OTHER("only root can start a process of another user");
    listener = listen_with(abstract_address(), NULL);
    begin_refuse(&accept, listener);
    assert_int_equal(as_nobody(connect_refused, address_of(listener)), 0);
    end_refused(&accept, "of user 65534: only processes of user 0 and of root may connect");
    expect_good(listener, NULL);
    OK(leat_listener_close(listener));
}

/* A socket file cannot even be opened by other users, also if they may enter its folder. */
static int connect_denied(const char *address)
{
    leat_link *link = NULL;

    return leat_connect(address, NULL, &link) == LEAT_ERROR_LINK && strstr(leat_last_error(), strerror(EACCES))
               ? 0
               : 1;
}

static void other_users_cannot_open_the_file(void **state)
{
    leat_listener *listener;
    char address[64], path[48];

    (void)state;
    if (geteuid() != 0)
        SKIP_OTHER("only root can start a process of another user");
    snprintf(path, sizeof path, "/tmp/leat-test-%d.socket", (int)getpid());
    snprintf(address, sizeof address, "unix:%s", path);
    listener = listen_with(address, NULL);
    assert_int_equal(as_nobody(connect_denied, address), 0);
    OK(leat_listener_close(listener));
}

/* What listens at an abstract name may be anybody's. */
static int pipe_to_child[2];

static int listen_as_nobody(const char *address)
{
    leat_link_options options = options_with(good_key);
    leat_listener *listener = NULL;
    leat_link *link = NULL;
    bool listens = leat_listen(address, &options, &listener) == LEAT_OK;

    if (write(pipe_to_child[1], listens ? "y" : "n", 1) != 1 || !listens)
        return 1;
    if (leat_accept(listener, 30 * SECOND, &link) != LEAT_OK)
        return 2;
    if (link->connection.peer_user != 0)
        return 3;
    leat_link_close(link);
    leat_listener_close(listener);
    return 0;
}

static void *run_nobody(void *result)
{
    *(int *)result = as_nobody(listen_as_nobody, abstract_address());
    return NULL;
}

/* Root connects to a process of another user only with a key. That process accepts root. */
static void root_needs_a_key(void **state)
{
    leat_link_options options = options_with(good_key);
    leat_link *link = NULL;
    pthread_t thread;
    int result = -1;
    char byte;

    (void)state;
    if (geteuid() != 0)
        SKIP_OTHER("only root can start a process of another user");
    assert_int_equal(pipe2(pipe_to_child, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_nobody, &result), 0);
    assert_int_equal(read(pipe_to_child[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    REFUSED(leat_connect(abstract_address(), NULL, &link), LEAT_ERROR_LINK,
            "a process of user 65534 listens there");
    OK(leat_connect(abstract_address(), &options, &link));
    assert_int_equal(link->connection.peer_user, NOBODY);
    OK(leat_link_close(link));
    pthread_join(thread, NULL);
    assert_int_equal(result, 0);
    close(pipe_to_child[0]);
    close(pipe_to_child[1]);
}

/* ---- descriptors at their limit ---- */

/* Lets the process open this number of descriptors more. Returns the limit before. */
static struct rlimit limit_descriptors(int more)
{
    struct rlimit before, limit;
    int next = dup(0);

    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)(next + more);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

static void no_descriptors_left(void **state)
{
    leat_link_options options = options_with(good_key);
    leat_listener *listener = NULL;
    leat_link *link = NULL;
    struct rlimit before = limit_descriptors(0);

    (void)state;
    REFUSED(leat_listen("tcp:127.0.0.1:0", &options, &listener), LEAT_ERROR_SYSTEM, "Too many open files");
    REFUSED(leat_listen(unix_address("full"), &options, &listener), LEAT_ERROR_SYSTEM, "Too many open files");
    REFUSED(leat_connect("tcp:127.0.0.1:1", &options, &link), LEAT_ERROR_SYSTEM, "Too many open files");
    REFUSED(leat_connect(unix_address("full"), &options, &link), LEAT_ERROR_SYSTEM, "Too many open files");
    setrlimit(RLIMIT_NOFILE, &before);
    assert_null(listener);
    assert_null(link);
}

/* The connection waits in the system's queue until there is a descriptor for it. */
static void no_descriptor_to_accept(void **state)
{
    leat_listener *listener = listen_with("tcp:127.0.0.1:0", good_key);
    int fd = plain_connect(port_in(address_of(listener)));
    struct rlimit before;
    leat_link *link = NULL;

    (void)state;
    before = limit_descriptors(0);
    REFUSED(leat_accept(listener, 30 * SECOND, &link), LEAT_ERROR_SYSTEM, "Too many open files");
    REFUSED(leat_accept(listener, LEAT_FOREVER, &link), LEAT_ERROR_SYSTEM, "accept(): Too many open files");
    setrlimit(RLIMIT_NOFILE, &before);
    expect_good(listener, good_key);
    close(fd);
    OK(leat_listener_close(listener));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROOM_TEST(tcp_connects),
        ROOM_TEST(ipv6_connects),
        ROOM_TEST(any_address_takes_both),
        ROOM_TEST(unix_connects),
        ROOM_TEST(bad_addresses),
        ROOM_TEST(addresses_without_listener),
        ROOM_TEST(used_addresses),
        ROOM_TEST(bad_keys),
        ROOM_TEST(bad_arguments),
        ROOM_TEST(shorter_options),
        STATE_TEST(not_inside_host_functions),
        ROOM_TEST(messages_stay),
        ROOM_TEST(ucx_is_missing),
        ROOM_TEST(nobody_comes),
        ROOM_TEST(accept_without_waiting),
        ROOM_TEST(listener_that_does_not_accept),
        ROOM_TEST(full_queue),
        ROOM_TEST(links_that_cannot_be_made),
        ROOM_TEST(several_threads_accept),
        ROOM_TEST(socket_file_is_private),
        ROOM_TEST(stale_file_is_replaced),
        ROOM_TEST(live_file_is_kept),
        ROOM_TEST(other_files_are_kept),
        ROOM_TEST(file_of_another_user_is_kept),
        ROOM_TEST(close_removes_its_own_file),
        ROOM_TEST(locked_folder),
        ROOM_TEST(one_listener_wins),
        ROOM_TEST(other_users_are_refused),
        ROOM_TEST(other_users_cannot_open_the_file),
        ROOM_TEST(root_needs_a_key),
        ROOM_TEST(no_descriptors_left),
        ROOM_TEST(no_descriptor_to_accept),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
