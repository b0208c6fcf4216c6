/* net_socket.c - opens sockets by their addresses, and moves bytes (net_socket.h). */
#include "net_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SOCKET_FLAGS = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC };

/* Returns what to do about a failure, or "". */
static const char *advice(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return " (nobody listens there: start the listener first)";
    case EADDRINUSE:
        return " (another process listens there: use another address, or port 0 for any free port)";
    case EADDRNOTAVAIL:
        return " (this is no address of this machine: use one of its own, or 0.0.0.0)";
    case ENOENT:
        return " (there is no such file or folder: start the listener first, or check the path)";
    default:
        return "";
    }
}

leat_status leatn_socket_fail(int error, const char *what)
{
    if (error == EMFILE || error == ENFILE)
        return leatc_fail(LEAT_ERROR_SYSTEM,
                          "%s: %s; close descriptors, or raise the limit (ulimit -n, or fs.file-max for ENFILE)",
                          what, strerror(error));
    if (error == ENOMEM || error == ENOBUFS)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "%s: %s", what, strerror(error));
    return leatc_fail(LEAT_ERROR_LINK, "%s: %s%s", what, strerror(error), advice(error));
}

static void close_keeping_errno(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
}

/* Small frames must not wait for the acknowledgement of earlier ones. Fails only on sockets that are not of TCP.
 */
static void set_no_delay(int fd)
{
    const int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* ---- names of hosts ---- */

static leat_status resolve(const struct leatn_address *address, bool listening, struct addrinfo **found)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char port[8];
    int error;

    hints.ai_flags = AI_NUMERICSERV | (listening ? AI_PASSIVE : 0) | (address->brackets ? AI_NUMERICHOST : 0);
    snprintf(port, sizeof port, "%u", (unsigned)address->port);
    error = getaddrinfo(address->host, port, &hints, found);
    if (!error)
        return LEAT_OK;
    if (error == EAI_MEMORY)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory to look up the host '%s'", address->host);
    if (error == EAI_SYSTEM)
        return leatn_socket_fail(errno, "looking up the host");
    return leatc_fail(LEAT_ERROR_LINK, "the host '%s' is not known: %s", address->host, gai_strerror(error));
}

/* Writes "tcp:127.0.0.1:7000" for a socket address. */
static void print_sockaddr(const struct sockaddr *at, socklen_t bytes, char *text, size_t text_bytes)
{
    char host[64], port[8];

    if (getnameinfo(at, bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(text, text_bytes, "tcp: an address that the system does not print");
    else
        snprintf(text, text_bytes, strchr(host, ':') ? "tcp:[%s]:%s" : "tcp:%s:%s", host, port);
}

/* ---- listening at a host and port ---- */

/* Opens one socket. Returns its descriptor, or -1 with errno and the name of the call that failed. */
static int listen_at(const struct addrinfo *at, const char **call)
{
    const int one = 1, zero = 0;
    int fd;

    *call = "socket()";
    fd = socket(at->ai_family, SOCKET_FLAGS, at->ai_protocol);
    if (fd < 0)
        return -1;
    /* Without this, a port cannot be used again for a minute after its last connection. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    /* [::] takes connections of IPv4 too, whatever the system's default is. */
    if (at->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    *call = "bind()";
    if (bind(fd, at->ai_addr, at->ai_addrlen)) {
        close_keeping_errno(fd);
        return -1;
    }
    *call = "listen()";
    if (listen(fd, SOMAXCONN)) {
        close_keeping_errno(fd);
        return -1;
    }
    return fd;
}

/* Returns the port that the system gave to a socket. */
static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in ip4;
        struct sockaddr_in6 ip6;
    } at;
    socklen_t bytes = sizeof at;

    memset(&at, 0, sizeof at);
    getsockname(fd, &at.any, &bytes);
    return ntohs(at.any.sa_family == AF_INET6 ? at.ip6.sin6_port : at.ip4.sin_port);
}

static leat_status listen_at_host(const struct leatn_address *address, struct leatn_listening *listening)
{
    struct addrinfo *found;
    const char *call = "socket()";
    leat_status status = LEAT_OK;
    int fd = -1;

    TRY(resolve(address, true, &found));
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
        fd = listen_at(at, &call);
    if (fd < 0)
        status = leatn_socket_fail(errno, call);
    freeaddrinfo(found);
    if (fd < 0)
        return status;
    listening->fd = fd;
    listening->port = port_of(fd);
    return LEAT_OK;
}

/* ---- connecting to a host and port ---- */

/* Waits until the connection is made or refused. Returns 0 or an errno. */
static int wait_connected(int fd, uint64_t end_ns)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    socklen_t bytes = sizeof(int);
    int ready, error = 0;

    do
        ready = poll(&poll_fd, 1, leatn_poll_ms(end_ns));
    while ((ready < 0 && errno == EINTR) || (!ready && leatc_now_ns() < end_ns));
    if (ready < 0)
        return errno;
    if (!ready)
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) ? errno : error;
}

/* Connects to one address of a host. Returns a descriptor, or -1 with errno. */
static int connect_to(const struct addrinfo *at, uint64_t end_ns)
{
    int fd = socket(at->ai_family, SOCKET_FLAGS, at->ai_protocol), error = 0;

    if (fd < 0)
        return -1;
    if (connect(fd, at->ai_addr, at->ai_addrlen))
        error = errno == EINPROGRESS || errno == EINTR ? wait_connected(fd, end_ns) : errno;
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

/* Tries all addresses of the host. Each may use an equal part of the time that is left, so that one that does not
 * answer leaves time for the others. */
static leat_status connect_to_host(const struct leatn_address *address, uint64_t end_ns, int *connected)
{
    struct addrinfo *found;
    leat_status status = LEAT_OK;
    uint64_t left = 0, now, until;
    int fd = -1;

    TRY(resolve(address, false, &found));
    for (const struct addrinfo *at = found; at; at = at->ai_next)
        left++;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next, left--) {
        char text[128];

        now = leatc_now_ns();
        until = end_ns == UINT64_MAX ? end_ns : now + (end_ns > now ? (end_ns - now) / left : 0);
        fd = connect_to(at, until);
        if (fd >= 0)
            break;
        print_sockaddr(at->ai_addr, at->ai_addrlen, text, sizeof text);
        status = leatn_socket_fail(errno, text);
    }
    freeaddrinfo(found);
    if (fd < 0)
        return status;
    set_no_delay(fd);
    *connected = fd;
    return LEAT_OK;
}

/* ---- Unix sockets ---- */

/* Fills in the socket address, and returns its length. */
static socklen_t unix_address(const struct leatn_address *address, struct sockaddr_un *at)
{
    size_t bytes = strlen(address->path);

    memset(at, 0, sizeof *at);
    at->sun_family = AF_UNIX;
    /* An abstract name begins with a 0 and ends with the length; a path ends with a 0. */
    memcpy(at->sun_path + (address->abstract ? 1 : 0), address->path, bytes);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + 1);
}

/*
 * Locks the folder of a socket file, for at most a second. Returns a descriptor to close, or -1. All leat
 * listeners take this lock while they create a socket file. Without it, one could take the socket of another one,
 * which is bound and does not listen yet, for one that was left over.
 */
static int lock_folder(const char *path)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    const char *slash = strrchr(path, '/');
    char folder[LEATN_PATH_MAX + 2] = ".";
    int fd;

    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int tries = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB); tries++) {
        if (tries == 100 || (errno != EWOULDBLOCK && errno != EINTR)) {
            close(fd);
            return -1;
        }
        nanosleep(&pause, NULL);
    }
    return fd;
}

/* Removes a socket file that nobody listens at any more. */
static leat_status remove_stale(const struct sockaddr_un *at, socklen_t bytes)
{
    struct stat file;
    int probe, error;

    if (lstat(at->sun_path, &file))
        return errno == ENOENT ? LEAT_OK : leatn_socket_fail(errno, "lstat()");
    if (!S_ISSOCK(file.st_mode))
        return leatc_fail(LEAT_ERROR_LINK, "a file that is not a socket has this name; use another path");
    if (file.st_uid != geteuid())
        return leatc_fail(LEAT_ERROR_LINK,
                          "there is a socket of user %u, and this process runs as user %u; use another path",
                          (unsigned)file.st_uid, (unsigned)geteuid());
    probe = socket(AF_UNIX, SOCKET_FLAGS, 0);
    if (probe < 0)
        return leatn_socket_fail(errno, "socket()");
    error = connect(probe, (const struct sockaddr *)at, bytes) ? errno : 0;
    close(probe);
    if (error != ECONNREFUSED && error != ENOENT)
        return leatc_fail(LEAT_ERROR_LINK, "another process listens there; use another path, or end that process");
    if (unlink(at->sun_path) && errno != ENOENT)
        return leatn_socket_fail(errno, "removing the socket file of a process that has ended");
    return LEAT_OK;
}

/* Binds the socket to its path. locked: this process has the lock of the folder. */
static leat_status bind_file(int fd, const struct sockaddr_un *at, socklen_t bytes, bool locked)
{
    /* Linux creates the socket file with the mode of the socket, and without the bits of the umask. */
    if (fchmod(fd, S_IRUSR | S_IWUSR))
        return leatn_socket_fail(errno, "fchmod()");
    if (!bind(fd, (const struct sockaddr *)at, bytes))
        return LEAT_OK;
    if (errno != EADDRINUSE)
        return leatn_socket_fail(errno, "bind()");
    if (!locked)
        return leatc_fail(LEAT_ERROR_LINK,
                          "the file exists, and its folder cannot be locked to find out whether it is in use");
    TRY(remove_stale(at, bytes));
    return bind(fd, (const struct sockaddr *)at, bytes) ? leatn_socket_fail(errno, "bind()") : LEAT_OK;
}

/* Remembers which file belongs to the socket, so that leatn_socket_unlisten() removes no other. */
static void remember_file(const char *path, struct leatn_listening *listening)
{
    struct stat file;

    if (lstat(path, &file) || !S_ISSOCK(file.st_mode))
        return;
    listening->has_file = true;
    listening->device = file.st_dev;
    listening->inode = file.st_ino;
}

static leat_status listen_at_path(const struct leatn_address *address, struct leatn_listening *listening)
{
    struct sockaddr_un at;
    socklen_t bytes = unix_address(address, &at);
    leat_status status = LEAT_OK;
    int fd = socket(AF_UNIX, SOCKET_FLAGS, 0), lock;

    if (fd < 0)
        return leatn_socket_fail(errno, "socket()");
    lock = address->abstract ? -1 : lock_folder(address->path);
    if (address->abstract)
        status = bind(fd, (const struct sockaddr *)&at, bytes) ? leatn_socket_fail(errno, "bind()") : LEAT_OK;
    else
        status = bind_file(fd, &at, bytes, lock >= 0);
    if (status == LEAT_OK && !address->abstract)
        remember_file(address->path, listening);
    if (status == LEAT_OK && listen(fd, SOMAXCONN))
        status = leatn_socket_fail(errno, "listen()");
    if (lock >= 0)
        close(lock);
    listening->fd = fd;
    if (status != LEAT_OK)
        leatn_socket_unlisten(address, listening);
    return status;
}

/* A Unix socket whose queue is full lets connect() wait, and poll() does not tell when it has room. So the socket
 * is blocking until it is connected, with a timeout. */
static leat_status connect_to_path(const struct leatn_address *address, uint64_t end_ns, int *connected)
{
    struct sockaddr_un at;
    socklen_t bytes = unix_address(address, &at);
    int left_ms, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), failed;
    struct timeval timeout;

    if (fd < 0)
        return leatn_socket_fail(errno, "socket()");
    do {
        left_ms = leatn_poll_ms(end_ns);
        /* 0 means no limit here. */
        timeout.tv_sec = left_ms < 0 ? 0 : left_ms / 1000;
        timeout.tv_usec = left_ms < 0 ? 0 : left_ms % 1000 * 1000 + (left_ms == 0);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
        failed = connect(fd, (const struct sockaddr *)&at, bytes);
    } while (failed && errno == EINTR && leatc_now_ns() < end_ns);
    if (failed || fcntl(fd, F_SETFL, O_NONBLOCK)) {
        leat_status status = leatn_socket_fail(errno == EAGAIN ? ETIMEDOUT : errno, "connect()");

        close(fd);
        return status;
    }
    *connected = fd;
    return LEAT_OK;
}

/* ---- both ---- */

leat_status leatn_socket_listen(const struct leatn_address *address, struct leatn_listening *listening)
{
    memset(listening, 0, sizeof *listening);
    listening->fd = -1;
    return address->scheme == LEATN_UNIX ? listen_at_path(address, listening) : listen_at_host(address, listening);
}

void leatn_socket_unlisten(const struct leatn_address *address, const struct leatn_listening *listening)
{
    struct stat file;

    if (listening->has_file && !lstat(address->path, &file) && file.st_dev == listening->device &&
        file.st_ino == listening->inode)
        unlink(address->path);
    close(listening->fd);
}

leat_status leatn_socket_connect(const struct leatn_address *address, uint64_t end_ns, int *fd)
{
    return address->scheme == LEATN_UNIX ? connect_to_path(address, end_ns, fd)
                                         : connect_to_host(address, end_ns, fd);
}

void leatn_socket_describe(const struct leatn_address *address, struct net_connection *connection)
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at, credentials_bytes = sizeof(struct ucred);
    struct ucred credentials;

    connection->peer_process = connection->peer_user = -1;
    if (address->scheme != LEATN_UNIX) {
        set_no_delay(connection->fd);
        if (getpeername(connection->fd, (struct sockaddr *)&at, &bytes))
            snprintf(connection->peer, sizeof connection->peer, "tcp: an end that has gone");
        else
            print_sockaddr((struct sockaddr *)&at, bytes, connection->peer, sizeof connection->peer);
        return;
    }
    leatn_address_print(address, connection->peer, sizeof connection->peer);
    if (getsockopt(connection->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &credentials_bytes))
        return;
    connection->peer_process = credentials.pid;
    connection->peer_user = credentials.uid;
    /* The end that connects has no address of its own. */
    if (!connection->connected)
        snprintf(connection->peer, sizeof connection->peer, "unix: process %d of user %u", (int)credentials.pid,
                 (unsigned)credentials.uid);
}

/* ---- moving bytes ---- */

ssize_t leatn_socket_send(int fd, const struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = count};
    ssize_t sent;

    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

ssize_t leatn_socket_receive(int fd, void *memory, size_t bytes)
{
    ssize_t got;

    do
        got = recv(fd, memory, bytes, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}
