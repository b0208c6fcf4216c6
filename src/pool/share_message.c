/* share_message.c - sends and receives the message that carries a share to another process. See share.h. */
#include "pool/share.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static_assert(sizeof(struct leati_share_message) == 256, "the size of the message");

#define REST_NS UINT64_C(5000000000)

enum { MOST_FDS = 253 /* the most descriptors that Linux accepts in one message (SCM_MAX_FD) */ };

static leat_status fail_socket(const char *call, int socket_fd, int error)
{
    leat_status status = LEAT_ERROR_SYSTEM;

    if (error == EBADF || error == ENOTSOCK || error == EOPNOTSUPP || error == EINVAL || error == ENOTCONN ||
        error == EDESTADDRREQ)
        status = LEAT_ERROR_INVALID;
    else if (error == EPIPE || error == ECONNRESET || error == ECONNREFUSED)
        status = LEAT_ERROR_LINK;
    return leati_fail(status, "%s on descriptor %d: %s", call, socket_fd, strerror(error));
}

static leat_status check_unix(int socket_fd)
{
    int domain = 0;
    socklen_t bytes = sizeof domain;

    if (getsockopt(socket_fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes))
        return fail_socket("getsockopt", socket_fd, errno);
    if (domain != AF_UNIX)
        return leati_fail(LEAT_ERROR_INVALID,
                          "descriptor %d is a socket of address family %d; only Unix sockets carry descriptors",
                          socket_fd, domain);
    return LEAT_OK;
}

/* Waits until the socket can go on with a message of which a part has gone. Limits the time of all such waits for a
 * message, so that the other side cannot hold up this thread. *end_ns: when it is over; 0 before the first wait. */
static leat_status wait_for_rest(int socket_fd, short events, uint64_t *end_ns)
{
    struct pollfd poll_fd = {.fd = socket_fd, .events = events};
    uint64_t now_ns = leati_clock_ns();
    int ready;

    *end_ns = *end_ns ? *end_ns : now_ns + REST_NS;
    ready = *end_ns > now_ns ? poll(&poll_fd, 1, (int)((*end_ns - now_ns) / 1000000) + 1) : 0;
    if (ready > 0 || (ready < 0 && errno == EINTR))
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_LINK, "only a part of the message went through the socket within 5 s");
}

leat_status leati_share_message_send(int socket_fd, const struct leati_share_message *message,
                                     const int fds[LEATI_SHARE_FDS])
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(LEATI_SHARE_FDS * sizeof(int))];
    } control = {.bytes = {0}};
    uint64_t end_ns = 0;
    size_t sent = 0;

    LEATI_TRY(check_unix(socket_fd));
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(LEATI_SHARE_FDS * sizeof(int));
    memcpy(CMSG_DATA(&control.header), fds, LEATI_SHARE_FDS * sizeof(int));
    while (sent < sizeof *message) {
        struct iovec piece = {(char *)(uintptr_t)message + sent, sizeof *message - sent};
        struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
        ssize_t count;

        /* The descriptors go with the first byte. */
        if (!sent) {
            header.msg_control = control.bytes;
            header.msg_controllen = sizeof control.bytes;
        }
        count = sendmsg(socket_fd, &header, MSG_NOSIGNAL);
        if (count > 0) {
            sent += (size_t)count;
        } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!sent)
                return LEAT_NOT_READY;
            LEATI_TRY(wait_for_rest(socket_fd, POLLOUT, &end_ns));
        } else if (count < 0 && errno != EINTR) {
            return sent ? leati_fail(LEAT_ERROR_LINK, "a part of the message was sent, then sendmsg: %s",
                                     strerror(errno))
                        : fail_socket("sendmsg", socket_fd, errno);
        }
    }
    return LEAT_OK;
}

/* The descriptors of a message that is being received. */
struct incoming {
    int fds[MOST_FDS];
    unsigned count;
    bool cut; /* some were lost */
};

static void close_all(struct incoming *incoming)
{
    for (unsigned i = 0; i < incoming->count; i++)
        close(incoming->fds[i]);
    incoming->count = 0;
}

/* Keeps the descriptors of one recvmsg(), so that none leaks whatever the sender has sent. */
static void take_fds(struct msghdr *header, struct incoming *incoming)
{
    incoming->cut = incoming->cut || (header->msg_flags & MSG_CTRUNC);
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        size_t count;

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            if (incoming->count < MOST_FDS)
                incoming->fds[incoming->count++] = fd;
            else
                close(fd);
        }
    }
}

static leat_status receive_all(int socket_fd, struct leati_share_message *message, struct incoming *incoming)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(MOST_FDS * sizeof(int))];
    } control;
    uint64_t end_ns = 0;
    size_t received = 0;

    while (received < sizeof *message) {
        struct iovec piece = {(char *)message + received, sizeof *message - received};
        struct msghdr header = {.msg_iov = &piece,
                                .msg_iovlen = 1,
                                .msg_control = control.bytes,
                                .msg_controllen = sizeof control.bytes};
        ssize_t count = recvmsg(socket_fd, &header, MSG_CMSG_CLOEXEC | (received ? MSG_DONTWAIT : 0));

        /* A packet without bytes can carry descriptors too. */
        if (count >= 0)
            take_fds(&header, incoming);
        if (count > 0) {
            received += (size_t)count;
            if (header.msg_flags & MSG_TRUNC)
                return leati_fail(LEAT_ERROR_INVALID, "the message is longer than that of a share");
        } else if (count == 0) {
            return received || incoming->count
                       ? leati_fail(LEAT_ERROR_INVALID, "the message has only %zu of %zu bytes", received,
                                    sizeof *message)
                       : leati_fail(LEAT_ERROR_LINK, "the other end of the socket is closed");
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!received)
                return LEAT_NOT_READY;
            LEATI_TRY(wait_for_rest(socket_fd, POLLIN, &end_ns));
        } else if (errno != EINTR) {
            return fail_socket("recvmsg", socket_fd, errno);
        }
    }
    return LEAT_OK;
}

/* Returns true if text ends with 0 and has only characters that can be printed. */
static bool is_text(const char *text, size_t bytes)
{
    size_t length = strnlen(text, bytes);

    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return length < bytes;
}

static leat_status check(const struct leati_share_message *message, const struct incoming *incoming)
{
    if (message->magic != LEATI_SHARE_MAGIC)
        return leati_fail(LEAT_ERROR_INVALID, "the message is not from leat_share_send()");
    if (message->version != 1)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "the share is of version %u, and this leat knows version 1; use the same leat on both sides",
            message->version);
    if (incoming->cut || incoming->count != LEATI_SHARE_FDS)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "%u descriptors came with the message%s, and a share has %d; a process may have too many open (RLIMIT_NOFILE)",
            incoming->count, incoming->cut ? " and some were lost" : "", LEATI_SHARE_FDS);
    if (!is_text(message->driver, sizeof message->driver) ||
        !is_text(message->pci_address, sizeof message->pci_address) ||
        !is_text(message->model, sizeof message->model))
        return leati_fail(LEAT_ERROR_INVALID, "the names of the device in the message are no texts");
    if (message->access != LEAT_ACCESS_READ && message->access != LEAT_ACCESS_READ_WRITE)
        return leati_fail(LEAT_ERROR_INVALID, "the message gives access %u, which does not exist",
                          message->access);
    if (!message->bytes || message->bytes > message->memory_bytes || message->memory_bytes > SIZE_MAX / 2)
        return leati_fail(LEAT_ERROR_INVALID, "the message has %llu bytes in memory of %llu",
                          (unsigned long long)message->bytes, (unsigned long long)message->memory_bytes);
    return LEAT_OK;
}

leat_status leati_share_message_receive(int socket_fd, struct leati_share_message *message,
                                        int fds[LEATI_SHARE_FDS])
{
    struct incoming incoming = {.count = 0};
    leat_status status;

    LEATI_TRY(check_unix(socket_fd));
    status = receive_all(socket_fd, message, &incoming);
    if (status == LEAT_OK)
        status = check(message, &incoming);
    if (status != LEAT_OK) {
        close_all(&incoming);
        return status;
    }
    memcpy(fds, incoming.fds, LEATI_SHARE_FDS * sizeof(int));
    return LEAT_OK;
}
