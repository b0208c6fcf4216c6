/*
 * hostile.h - shared by the tests of links with an other end that breaks the protocol: a link with copies under
 * way, whose other end is a plain socket.
 *
 * What the link has under way, and the numbers by which frames name it:
 *
 *     receive 1   100 bytes with tag 1
 *     receive 2   200000 bytes with tag 2; the credit is WINDOW
 *     receive 3   a get of 5000 bytes of region "r"
 *     put 1       5000 bytes to region "r"
 *     sends       1000 bytes with tag 3, 300000 bytes with tag 4
 *     exposed     region "a" of 4096 bytes, which may be read and written
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include "link_room.h"

#include "frame.h"

#include <poll.h>

enum { WINDOW = 65536, COPIES = 6, RECEIVES = 3, EXPOSED = 4096 };

static const size_t copy_bytes[COPIES] = {100, 200000, 5000, 5000, 1000, 300000};

struct hostile {
    leat_device *device;
    leat_stream *streams[COPIES], *server;
    struct memory memory[COPIES], exposed;
    leat_link *link;
    leat_region *region;
    leat_ticket *tickets[COPIES];
    int fd; /* the other end */
};

/* Opens the device and allocates, once for many links. */
static inline void hostile_open(struct hostile *hostile)
{
    memset(hostile, 0, sizeof *hostile);
    hostile->device = test_open();
    OK(leat_stream_create(hostile->device, &hostile->server));
    for (unsigned i = 0; i < COPIES; i++) {
        OK(leat_stream_create(hostile->device, &hostile->streams[i]));
        hostile->memory[i] =
            make_memory(hostile->device, hostile->server, memory_kinds[i % MEMORY_KINDS], copy_bytes[i], i);
    }
    hostile->exposed = make_memory(hostile->device, hostile->server, LEAT_KIND_PINNED, EXPOSED, 0);
}

static inline void hostile_close(struct hostile *hostile)
{
    for (unsigned i = 0; i < COPIES; i++) {
        free_memory(&hostile->memory[i]);
        OK(leat_stream_destroy(hostile->streams[i]));
    }
    free_memory(&hostile->exposed);
    OK(leat_stream_destroy(hostile->server));
    OK(leat_device_close(hostile->device));
}

/* Makes a link with copies under way. */
static inline void hostile_begin(struct hostile *hostile)
{
    const struct link_setup setup = {.transport = TRANSPORT_UNIX, .window_bytes = WINDOW};
    leat_ticket **tickets = hostile->tickets;
    int fds[2];

    make_sockets(TRANSPORT_UNIX, fds);
    hostile->fd = fds[1];
    hostile->link = link_of(fds[0], &setup, "the hostile end");
    OK(leat_expose(hostile->server, hostile->link, "a", hostile->exposed.at, EXPOSED, LEAT_ACCESS_READ_WRITE,
                   &hostile->region));
    for (unsigned i = 0; i < 2; i++)
        tickets[i] =
            receive_start(hostile->streams[i], hostile->memory[i].at, hostile->link, i + 1, copy_bytes[i]);
    OK(leat_get_start(hostile->streams[2], hostile->memory[2].at, hostile->link, "r", 0, copy_bytes[2], NULL,
                      &tickets[2]));
    OK(leat_put_start(hostile->streams[3], hostile->link, "r", 0, hostile->memory[3].at, copy_bytes[3], NULL,
                      &tickets[3]));
    for (unsigned i = 4; i < COPIES; i++)
        tickets[i] = send_start(hostile->streams[i], hostile->link, i - 1, hostile->memory[i].at, copy_bytes[i]);
}

/* Reads and drops what the link sends. */
static inline void hostile_read(struct hostile *hostile)
{
    char dropped[65536];

    while (recv(hostile->fd, dropped, sizeof dropped, MSG_DONTWAIT) > 0)
        continue;
}

/* Sends bytes to the link, and reads what it sends meanwhile. Stops when the link has closed its socket. */
static inline void hostile_send(struct hostile *hostile, const void *bytes, size_t count, bool reads)
{
    size_t sent = 0;

    while (sent < count) {
        ssize_t some = send(hostile->fd, (const char *)bytes + sent, count - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        struct pollfd wait = {.fd = hostile->fd, .events = (short)(POLLOUT | (reads ? POLLIN : 0))};

        if (reads)
            hostile_read(hostile);
        if (some > 0)
            sent += (size_t)some;
        else if (some < 0 && errno != EAGAIN)
            return;
        else if (poll(&wait, 1, 30000) <= 0)
            fail();
    }
}

/* Ends the other end, and so all copies. Checks that nothing was written around the destinations. */
static inline void hostile_end(struct hostile *hostile)
{
    char dropped[65536];
    struct pollfd wait = {.fd = hostile->fd, .events = POLLIN};

    shutdown(hostile->fd, SHUT_WR);
    while (poll(&wait, 1, 30000) > 0 && recv(hostile->fd, dropped, sizeof dropped, 0) > 0)
        continue;
    for (unsigned i = 0; i < COPIES; i++) {
        (void)end_of(hostile->tickets[i]);
        take_failures(hostile->streams[i]);
    }
    assert_int_equal(info_of(hostile->link).status, LEAT_ERROR_LINK);
    OK(leat_unexpose(hostile->region));
    take_failures(hostile->server);
    OK(leat_link_close(hostile->link));
    close(hostile->fd);
    for (unsigned i = 0; i < COPIES; i++)
        if (i < RECEIVES)
            expect_guards(hostile->server, &hostile->memory[i]);
        else
            expect_bytes(hostile->server, &hostile->memory[i], GUARD_VALUE);
    expect_guards(hostile->server, &hostile->exposed);
}

#endif
