/* net_socket.h - opens sockets that listen or connect at an address, describes their other ends, and moves bytes.
 */
#ifndef LEATN_NET_SOCKET_H
#define LEATN_NET_SOCKET_H

#include "address.h"
#include "net.h"

#include <sys/types.h>
#include <sys/uio.h>

/* A socket that listens. */
struct leatn_listening {
    int fd;        /* non-blocking and close-on-exec */
    uint16_t port; /* the real one; tcp and ucx only */
    bool has_file; /* a socket file, with this device and inode */
    dev_t device;
    ino_t inode;
};

/* Opens a socket that listens at the address. Errors: LINK, SYSTEM, HOST_MEMORY. */
leat_status leatn_socket_listen(const struct leatn_address *address, struct leatn_listening *listening);

/* Closes it, and removes its socket file, if that is still the same. */
void leatn_socket_unlisten(const struct leatn_address *address, const struct leatn_listening *listening);

/* Opens a non-blocking, close-on-exec socket that is connected to the address. end_ns: the deadline, a time of
 * leatc_now_ns(). The lookup of a host's name may take longer. Errors: LINK, SYSTEM, HOST_MEMORY. */
leat_status leatn_socket_connect(const struct leatn_address *address, uint64_t end_ns, int *fd);

/* Fills in what the socket says about the other end: peer, peer_process and peer_user. fd, connected and transport
 * are set. address is the address that this end listens at or has connected to. */
void leatn_socket_describe(const struct leatn_address *address, struct net_connection *connection);

/* Sets this thread's message for a failed system call, and returns the status: SYSTEM if there is no descriptor
 * left, HOST_MEMORY, or LINK. */
leat_status leatn_socket_fail(int error, const char *what);

/* Send and receive without waiting. Return the number of bytes, 0 at the end of what the other end sends, or a
 * negative errno: -EAGAIN if they would have to wait. */
ssize_t leatn_socket_send(int fd, const struct iovec *parts, size_t count);
ssize_t leatn_socket_receive(int fd, void *memory, size_t bytes);

#endif
