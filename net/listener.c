/*
 * listener.c - leat_listen(), leat_accept() and leat_connect(): from an address to a connection whose two ends
 * have proved that they know the key (handshake.h).
 *
 * leat_accept() takes new connections and continues all handshakes that are under way with one poll(), so a slow
 * or silent client holds up nobody. All memory for that is in the listener from the start. While 64 handshakes are
 * under way, a new connection takes the place of the oldest one: a client of leat needs two round trips only, so
 * those that have been there longest are the least likely to be one, and silent clients cannot keep others out.
 */
#include "handshake.h"
#include "net.h"
#include "net_socket.h"
#include "ucx_load.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PENDING_MAX = 64 };

/* A shorter idle timeout is taken for this one: three signs of life in that time must stay cheap. */
#define IDLE_MIN_NS UINT64_C(1000000)

/* The options of a call, with the defaults filled in, and its address. */
struct setup {
    struct leatn_address address;
    struct leatn_secret secret;
    uint64_t setup_timeout_ns, idle_timeout_ns, window_bytes, memory_bytes;
    bool encrypt;
};

/* A connection that leat_accept() has not returned yet. */
struct pending {
    struct net_connection connection;
    struct leatn_handshake shake;
    uint64_t end_ns; /* when the handshake must be done */
};

struct leat_listener {
    struct setup setup;
    struct leatn_listening listening;
    /* Guards accepting, and is held only for moments. The thread that has set accepting uses the fields below it
     * without the lock; it ends with the lock, so the next thread sees all it did. */
    pthread_mutex_t lock;
    pthread_cond_t free; /* accepting became false */
    bool accepting;
    struct pending pending[PENDING_MAX]; /* the oldest first */
    size_t count;
    char dropped[400]; /* why the last connection was dropped since leat_accept() began, or "" */
};

/* ---- options ---- */

static leat_status derive_secret(const char *call, const leat_link_options *options, struct leatn_secret *secret)
{
    int failed = leatn_secret_derive(secret, options->key, options->key_bytes);

    if (!failed)
        return LEAT_OK;
    return leatc_fail(failed == -ENOMEM ? LEAT_ERROR_HOST_MEMORY : LEAT_ERROR_SYSTEM,
                      "%s: OpenSSL's libcrypto could not hash the key: %s", call, strerror(-failed));
}

static leat_status read_key(const char *call, const leat_link_options *options, struct setup *setup)
{
    if (!options->key && options->key_bytes)
        return leatc_fail(LEAT_ERROR_INVALID, "%s: options->key is NULL, and key_bytes is %zu", call,
                          options->key_bytes);
    if (options->key && (options->key_bytes < LEATN_KEY_MIN || options->key_bytes > LEATN_KEY_MAX))
        return leatc_fail(LEAT_ERROR_INVALID, "%s: the key has %zu bytes; it must have %d to %d, made at random",
                          call, options->key_bytes, LEATN_KEY_MIN, LEATN_KEY_MAX);
    if (!options->key && setup->address.scheme != LEATN_UNIX)
        return leatc_fail(
            LEAT_ERROR_INVALID,
            "%s: a %s: address needs a key that both ends know, because everybody in the network can connect: set options->key and key_bytes",
            call, leatn_scheme_name(setup->address.scheme));
    if (options->encrypt > 1)
        return leatc_fail(LEAT_ERROR_INVALID, "%s: options->encrypt is %u, and must be 0 or 1", call,
                          (unsigned)options->encrypt);
    if (options->encrypt && !options->key)
        return leatc_fail(LEAT_ERROR_INVALID,
                          "%s: options->encrypt needs a key that both ends know: set options->key and key_bytes",
                          call);
    if (options->encrypt && setup->address.scheme == LEATN_UCX)
        return leatc_fail(LEAT_ERROR_UNSUPPORTED,
                          "%s: UCX does not encrypt: use a tcp: address, or leave options->encrypt out", call);
    return derive_secret(call, options, &setup->secret);
}

/* Returns the default of memory_bytes. */
static uint64_t default_memory_bytes(uint64_t window_bytes)
{
    uint64_t windows = window_bytes < UINT64_MAX / 4 ? 4 * window_bytes : UINT64_MAX;

    return windows > LEATN_MEMORY_BYTES ? windows : LEATN_MEMORY_BYTES;
}

/* Checks the address and the options of a call. */
static leat_status read_setup(const char *call, const char *address, const leat_link_options *given,
                              bool listening, struct setup *setup)
{
    leat_link_options options = LEAT_LINK_OPTIONS_INIT;
    char field[64];

    if (!address)
        return leatc_fail(LEAT_ERROR_INVALID, "%s: address is NULL", call);
    TRY(leatn_check_permitted(call));
    if (given) {
        snprintf(field, sizeof field, "%s: options->size", call);
        TRY(leatc_sized_check(field, "leat_link_options", given, sizeof options));
        leatc_sized_read(&options, sizeof options, given);
    }
    TRY(leatn_address_parse(call, address, listening, &setup->address));
    TRY(read_key(call, &options, setup));
    setup->setup_timeout_ns = options.setup_timeout_ns ? options.setup_timeout_ns : LEATN_SETUP_TIMEOUT_NS;
    setup->idle_timeout_ns = options.idle_timeout_ns ? options.idle_timeout_ns : LEATN_IDLE_TIMEOUT_NS;
    setup->idle_timeout_ns = setup->idle_timeout_ns < IDLE_MIN_NS ? IDLE_MIN_NS : setup->idle_timeout_ns;
    setup->window_bytes = options.window_bytes ? options.window_bytes : LEATN_WINDOW_BYTES;
    setup->memory_bytes = options.memory_bytes ? options.memory_bytes : default_memory_bytes(setup->window_bytes);
    setup->encrypt = options.encrypt;
    return LEAT_OK;
}

/* Loads UCX for ucx: addresses. */
static leat_status acquire_ucx(const char *call, const struct leatn_address *address)
{
    const struct leatn_ucx_process *ucx;
    leat_status status;

    if (address->scheme != LEATN_UCX)
        return LEAT_OK;
    status = leatn_ucx_acquire(&ucx);
    return status == LEAT_OK ? LEAT_OK : leatc_fail_in(status, "%s", call);
}

static void release_ucx(const struct leatn_address *address)
{
    if (address->scheme == LEATN_UCX)
        leatn_ucx_release();
}

/* ---- connections, of both ends ---- */

/* Fills in a new connection, and starts its handshake. */
static void start(const struct setup *setup, int fd, bool connected, struct net_connection *connection,
                  struct leatn_handshake *shake)
{
    memset(connection, 0, sizeof *connection);
    connection->fd = fd;
    connection->connected = connected;
    connection->transport = leatn_scheme_name(setup->address.scheme);
    connection->idle_timeout_ns = setup->idle_timeout_ns;
    connection->window_bytes = setup->window_bytes;
    connection->memory_bytes = setup->memory_bytes;
    leatn_socket_describe(&setup->address, connection);
    leatn_handshake_start(shake, &setup->secret, connected,
                          &(struct leatn_handshake_wishes){.idle_timeout_ns = setup->idle_timeout_ns,
                                                           .ucx = setup->address.scheme == LEATN_UCX,
                                                           .encrypt = setup->encrypt});
}

/* Fills in what the handshake has found out, and erases its keys. */
static void finish(const struct setup *setup, struct leatn_handshake *shake, struct net_connection *connection)
{
    connection->ucx = shake->ucx;
    connection->encrypted = shake->encrypt;
    connection->keys = shake->keys;
    leatn_handshake_erase(shake);
    connection->peer_idle_timeout_ns =
        shake->peer_idle_timeout_ns < IDLE_MIN_NS ? IDLE_MIN_NS : shake->peer_idle_timeout_ns;
    if (setup->address.scheme == LEATN_UCX && !shake->ucx)
        connection->transport = "tcp";
}

/* Returns true if the process at the other end of a Unix socket may be there: one of the same user, or of root. A
 * process of root without a key connects only to listeners of root, for anybody can listen at a name. */
static bool user_is_allowed(const struct setup *setup, const struct net_connection *connection)
{
    int64_t own = geteuid();

    return setup->address.scheme != LEATN_UNIX || connection->peer_user == own || connection->peer_user == 0 ||
           (connection->connected && own == 0 && setup->secret.given);
}

/* ---- listening ---- */

/* Initializes the lock and the condition, whose waits use the monotonic clock. */
static bool init_lock(leat_listener *listener)
{
    pthread_condattr_t attributes;
    bool done;

    if (pthread_mutex_init(&listener->lock, NULL))
        return false;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    done = !pthread_cond_init(&listener->free, &attributes);
    pthread_condattr_destroy(&attributes);
    if (!done)
        pthread_mutex_destroy(&listener->lock);
    return done;
}

LEAT_API leat_status leat_listen(const char *address, const leat_link_options *options, leat_listener **listener)
{
    leat_listener *made;
    leat_status status;

    if (!listener)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_listen: listener is NULL");
    made = calloc(1, sizeof *made);
    if (!made)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "leat_listen: no memory for a listener of %zu bytes",
                          sizeof *made);
    status = read_setup("leat_listen", address, options, true, &made->setup);
    if (status != LEAT_OK)
        goto free_listener;
    if (!init_lock(made)) {
        status = leatc_fail(LEAT_ERROR_HOST_MEMORY, "leat_listen: no memory for a lock");
        goto free_listener;
    }
    status = acquire_ucx("leat_listen", &made->setup.address);
    if (status != LEAT_OK)
        goto destroy_lock;
    status = leatn_socket_listen(&made->setup.address, &made->listening);
    if (status != LEAT_OK) {
        leatc_fail_in(status, "leat_listen at %s", address);
        goto release;
    }
    made->setup.address.port = made->listening.port;
    *listener = made;
    return LEAT_OK;

release:
    release_ucx(&made->setup.address);
destroy_lock:
    pthread_cond_destroy(&made->free);
    pthread_mutex_destroy(&made->lock);
free_listener:
    OPENSSL_cleanse(&made->setup.secret, sizeof made->setup.secret);
    free(made);
    return status;
}

static leat_status check_listener(const char *call, const leat_listener *listener)
{
    return listener ? LEAT_OK : leatc_fail(LEAT_ERROR_HANDLE, "%s: listener is NULL", call);
}

LEAT_API leat_status leat_listener_get_address(leat_listener *listener, char *text, size_t text_bytes)
{
    TRY(check_listener("leat_listener_get_address", listener));
    if (!text || !text_bytes)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_listener_get_address: text is %s; use %d bytes",
                          text ? "of 0 bytes" : "NULL", LEATN_ADDRESS_MAX);
    leatn_address_print(&listener->setup.address, text, text_bytes);
    return LEAT_OK;
}

/* Takes a connection out of the list, and erases its keys. */
static void remove_pending(leat_listener *listener, size_t index)
{
    struct pending *at = &listener->pending[index];

    listener->count--;
    memmove(at, at + 1, (listener->count - index) * sizeof *at);
    OPENSSL_cleanse(&listener->pending[listener->count], sizeof *at);
}

static void close_pending(leat_listener *listener, size_t index)
{
    close(listener->pending[index].connection.fd);
    remove_pending(listener, index);
}

LEAT_API leat_status leat_listener_close(leat_listener *listener)
{
    if (!listener)
        return LEAT_OK;
    while (listener->count)
        close_pending(listener, listener->count - 1);
    leatn_socket_unlisten(&listener->setup.address, &listener->listening);
    release_ucx(&listener->setup.address);
    pthread_cond_destroy(&listener->free);
    pthread_mutex_destroy(&listener->lock);
    OPENSSL_cleanse(&listener->setup.secret, sizeof listener->setup.secret);
    free(listener);
    return LEAT_OK;
}

/* ---- accepting: the handshakes of a listener ---- */

/* Closes a connection, and keeps the reason. */
static void drop(leat_listener *listener, size_t index, const char *why)
{
    const struct pending *dropped = &listener->pending[index];

    snprintf(listener->dropped, sizeof listener->dropped, "the last connection that it dropped, from %s: %s",
             dropped->connection.peer, why);
    close_pending(listener, index);
}

/* Continues one handshake as far as its socket allows. Returns false if the connection was dropped. */
static bool advance(leat_listener *listener, size_t index)
{
    struct pending *one = &listener->pending[index];

    if (leatn_handshake_run(&one->shake, one->connection.fd) != LEAT_ERROR_LINK)
        return true;
    drop(listener, index, one->shake.why);
    return false;
}

/* Drops all handshakes whose time is over. Call it after advance(), which may complete some of them. */
static void drop_late(leat_listener *listener)
{
    uint64_t now = leatc_now_ns();

    for (size_t i = 0; i < listener->count;) {
        struct pending *one = &listener->pending[i];

        if (leatn_handshake_state(&one->shake) == LEAT_OK || now < one->end_ns) {
            i++;
            continue;
        }
        leatn_handshake_was_late(&one->shake, listener->setup.setup_timeout_ns);
        drop(listener, i, one->shake.why);
    }
}

/* Returns the index of the oldest connection whose handshake is not done, or the number of all. */
static size_t oldest_open(const leat_listener *listener)
{
    size_t i = 0;

    while (i < listener->count && leatn_handshake_state(&listener->pending[i].shake) == LEAT_OK)
        i++;
    return i;
}

/* Returns true if there is a place for one more connection, or one whose handshake can be dropped for it. */
static bool has_room(const leat_listener *listener)
{
    return listener->count < PENDING_MAX || oldest_open(listener) < PENDING_MAX;
}

/* Adds a connection, and takes what has arrived on it already. The listener has room. */
static void add_pending(leat_listener *listener, int fd)
{
    struct pending *one;
    char why[100];

    if (listener->count == PENDING_MAX)
        drop(listener, oldest_open(listener),
             "64 later connections came before it had proved that it knows the key");
    one = &listener->pending[listener->count++];
    start(&listener->setup, fd, false, &one->connection, &one->shake);
    one->end_ns = leatc_end_ns(listener->setup.setup_timeout_ns);
    if (user_is_allowed(&listener->setup, &one->connection)) {
        advance(listener, listener->count - 1);
        return;
    }
    snprintf(why, sizeof why, "only processes of user %u and of root may connect", (unsigned)geteuid());
    drop(listener, listener->count - 1, why);
}

/* Returns true if accept() failed because of that one connection, or of nothing that lasts. */
static bool is_passing(int error)
{
    return error == EINTR || error == ECONNABORTED || error == EPROTO || error == ENETDOWN ||
           error == ENOPROTOOPT || error == EHOSTDOWN || error == ENONET || error == EHOSTUNREACH ||
           error == EOPNOTSUPP || error == ENETUNREACH || error == ETIMEDOUT;
}

/* Takes the connections that have arrived, but not more than there are places: a flood of them must not keep this
 * thread from the others. */
static leat_status accept_new(leat_listener *listener)
{
    int fd;

    for (int i = 0; i < PENDING_MAX && has_room(listener); i++) {
        fd = accept4(listener->listening.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            add_pending(listener, fd);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return LEAT_OK;
        else if (!is_passing(errno))
            return leatn_socket_fail(errno, "accept()");
    }
    return LEAT_OK;
}

/* Takes the oldest connection whose handshake is done. Returns false if there is none. */
static bool take_done(leat_listener *listener, struct net_connection *connection)
{
    for (size_t i = 0; i < listener->count; i++) {
        struct pending *one = &listener->pending[i];

        if (leatn_handshake_state(&one->shake) != LEAT_OK)
            continue;
        finish(&listener->setup, &one->shake, &one->connection);
        *connection = one->connection;
        remove_pending(listener, i);
        return true;
    }
    return false;
}

/* Waits for events until end_ns or the first end of a handshake, and handles them. */
static leat_status wait_once(leat_listener *listener, uint64_t end_ns)
{
    struct pollfd polled[PENDING_MAX + 1];
    size_t count = listener->count;
    int ready;

    for (size_t i = 0; i < count; i++) {
        struct pending *one = &listener->pending[i];

        polled[i] = (struct pollfd){.fd = one->connection.fd, .events = leatn_handshake_event(&one->shake)};
        end_ns = one->end_ns < end_ns ? one->end_ns : end_ns;
    }
    polled[count] = (struct pollfd){.fd = listener->listening.fd, .events = POLLIN};
    ready = poll(polled, count + 1, leatn_poll_ms(end_ns));
    if (ready < 0)
        return errno == EINTR ? LEAT_OK : leatn_socket_fail(errno, "poll()");
    /* From the end, because advance() may remove the one that it is called for. */
    for (size_t i = count; i-- > 0;)
        if (polled[i].revents)
            advance(listener, i);
    drop_late(listener);
    return polled[count].revents ? accept_new(listener) : LEAT_OK;
}

/* Waits until one handshake is done. This thread has set accepting. */
static leat_status accept_one(leat_listener *listener, uint64_t end_ns, struct net_connection *connection)
{
    leat_status status;

    listener->dropped[0] = '\0';
    if (take_done(listener, connection))
        return LEAT_OK;
    for (;;) {
        status = wait_once(listener, end_ns);
        if (take_done(listener, connection))
            return LEAT_OK;
        if (status != LEAT_OK)
            return status;
        if (leatc_now_ns() < end_ns)
            continue;
        return listener->dropped[0]
                   ? leatc_fail(LEAT_NOT_READY, "leat_accept: nobody connected; %s", listener->dropped)
                   : LEAT_NOT_READY;
    }
}

/* Sets accepting. Returns false if another thread has it until end_ns. */
static bool begin_accepting(leat_listener *listener, uint64_t end_ns)
{
    const struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000), .tv_nsec = (long)(end_ns % 1000000000)};
    int failed = 0;
    bool begun;

    pthread_mutex_lock(&listener->lock);
    while (listener->accepting && !failed)
        failed = end_ns == UINT64_MAX ? pthread_cond_wait(&listener->free, &listener->lock)
                                      : pthread_cond_timedwait(&listener->free, &listener->lock, &end);
    begun = !listener->accepting;
    listener->accepting = true;
    pthread_mutex_unlock(&listener->lock);
    return begun;
}

static void end_accepting(leat_listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    listener->accepting = false;
    pthread_cond_signal(&listener->free);
    pthread_mutex_unlock(&listener->lock);
}

LEAT_API leat_status leat_accept(leat_listener *listener, uint64_t timeout_ns, leat_link **link)
{
    struct net_connection connection = {.fd = -1};
    uint64_t end_ns = leatc_end_ns(timeout_ns);
    leat_status status;

    TRY(check_listener("leat_accept", listener));
    if (!link)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_accept: link is NULL");
    TRY(leatn_check_permitted("leat_accept"));
    if (!begin_accepting(listener, end_ns))
        return LEAT_NOT_READY;
    status = accept_one(listener, end_ns, &connection);
    end_accepting(listener);
    if (status < 0)
        return leatc_fail_in(status, "leat_accept");
    if (status != LEAT_OK)
        return status;
    status = leatn_link_create(&connection, link);
    OPENSSL_cleanse(&connection.keys, sizeof connection.keys);
    if (status == LEAT_OK)
        return LEAT_OK;
    close(connection.fd);
    return leatc_fail_in(status, "leat_accept");
}

/* ---- connecting ---- */

/* Makes the handshake with the listener, until end_ns. Sets the message without the name of the call. */
static leat_status shake_hands(const struct setup *setup, uint64_t end_ns, struct net_connection *connection,
                               struct leatn_handshake *shake)
{
    struct pollfd polled = {.fd = connection->fd};

    while (leatn_handshake_run(shake, connection->fd) == LEAT_NOT_READY) {
        if (leatc_now_ns() >= end_ns) {
            leatn_handshake_was_late(shake, setup->setup_timeout_ns);
            break;
        }
        polled.events = leatn_handshake_event(shake);
        if (poll(&polled, 1, leatn_poll_ms(end_ns)) < 0 && errno != EINTR)
            return leatn_socket_fail(errno, "poll()");
    }
    if (leatn_handshake_state(shake) != LEAT_OK)
        return leatc_fail(LEAT_ERROR_LINK, "%s", shake->why);
    finish(setup, shake, connection);
    return LEAT_OK;
}

/* Makes a connection and its link. Sets the message without the name of the call. */
static leat_status connect_link(const struct setup *setup, leat_link **link)
{
    uint64_t end_ns = leatc_end_ns(setup->setup_timeout_ns);
    struct net_connection connection;
    struct leatn_handshake shake;
    leat_status status;
    int fd;

    TRY(leatn_socket_connect(&setup->address, end_ns, &fd));
    start(setup, fd, true, &connection, &shake);
    if (user_is_allowed(setup, &connection))
        status = shake_hands(setup, end_ns, &connection, &shake);
    else
        status = leatc_fail(
            LEAT_ERROR_LINK,
            "a process of user %lld listens there, and this one runs as user %u: only its own user and root are trusted",
            (long long)connection.peer_user, (unsigned)geteuid());
    if (status == LEAT_OK)
        status = leatn_link_create(&connection, link);
    leatn_handshake_erase(&shake);
    OPENSSL_cleanse(&connection.keys, sizeof connection.keys);
    if (status != LEAT_OK)
        close(fd);
    return status;
}

LEAT_API leat_status leat_connect(const char *address, const leat_link_options *options, leat_link **link)
{
    struct setup setup = {.window_bytes = 0};
    leat_status status;

    if (!link)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_connect: link is NULL");
    TRY(read_setup("leat_connect", address, options, false, &setup));
    status = acquire_ucx("leat_connect", &setup.address);
    if (status == LEAT_OK) {
        status = connect_link(&setup, link);
        if (status != LEAT_OK)
            leatc_fail_in(status, "leat_connect to %s", address);
        release_ucx(&setup.address);
    }
    OPENSSL_cleanse(&setup.secret, sizeof setup.secret);
    return status;
}
