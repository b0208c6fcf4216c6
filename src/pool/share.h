/*
 * share.h - the parts of leat/share.h: a side of a share (share.c), the message that carries it to the other
 * process (share_message.c), and the thread that notices the end of the other process (share_watch.c).
 *
 * Numbers. Hand-overs and take-overs of a side are counted from 1. The page of counters, a memory file that both
 * processes map, has a slot for each of the latest LEATI_SHARE_SLOTS hand-overs of each side: the stream writes
 * the number of hand-over n into slot n % LEATI_SHARE_SLOTS, and the other side's stream waits until the slot has
 * reached n. So one slot does not depend on the order in which different streams reach their hand-overs, and a
 * hand-over that is late cannot undo what a host wrote to end the waits for later ones.
 *
 * The other process can write the page at any time. So what decides about memory of this process, that is, whether
 * streams still use the page, is kept in private counters, which each stream writes behind its operation.
 *
 * Locks, in this order: a share's turn, the turn of share_watch.c, its list, a share's lock, the device's lock,
 * and then those of streams and timelines. A share's turn is held while work is submitted, which may take as long
 * as the device is busy; so nothing that ends a wait may need it.
 */
#ifndef LEATI_SHARE_H
#define LEATI_SHARE_H

#include "core/core.h"

#include <leat/pool.h>
#include <leat/share.h>

enum { LEATI_SHARE_SLOTS = 1024, LEATI_SHARE_PAGE_BYTES = 12288, LEATI_SHARE_PRIVATE_BYTES = 8192 };

/* The page of counters. Side 0 has created the share, side 1 has received it. */
struct leati_share_page {
    _Atomic uint64_t magic;
    _Atomic uint32_t received;       /* 1: a process has received the share */
    _Atomic uint32_t broken[2];      /* 1: the side has abandoned the share */
    _Atomic uint32_t broken_from[2]; /* and its hand-overs from this number on count for nothing */
    unsigned char unused[4068];
    _Atomic uint32_t handed[2][LEATI_SHARE_SLOTS];
};

/* Counters of this process only: the number of the latest operation that the stream has executed in this slot. */
struct leati_share_private {
    _Atomic uint32_t handed[LEATI_SHARE_SLOTS];
    _Atomic uint32_t taken[LEATI_SHARE_SLOTS];
};

struct leat_share {
    struct leati_handle handle;
    leat_device *device;
    unsigned side; /* 0: created here; 1: received */
    void *ptr;
    size_t bytes, memory_bytes;
    leat_access access;
    leat_physical *physical;              /* received memory, mapped at ptr; else NULL */
    struct leati_share_page *page;        /* NULL: not mapped */
    struct leati_share_private *counters; /* NULL: not mapped */
    bool page_registered, counters_registered;
    char *page_on_device, *counters_on_device; /* their addresses for streams */
    int life; /* end of a socket pair; the other process has the other end. -1: not sent yet */
    uint64_t serial;                           /* for share_watch.c */
    struct leat_share *next;                   /* list of share_watch.c */

    struct leati_lock turn; /* held while work is submitted, so that numbers have the order of the submissions;
                               guards the descriptors */
    int memory_fd, page_fd, other_life; /* what leat_share_send() sends; -1: sent */

    struct leati_lock lock; /* guards the fields below */
    bool gone;              /* the other side is gone, or was abandoned */
    bool sent;              /* changed with turn held too */
    uint64_t handed, taken; /* numbers of the latest calls */
    /* The serial of the stream of each of the latest LEATI_SHARE_SLOTS take-overs; 0: the stream was told of its
     * failure. */
    uint64_t *takers;
};

/* ---- share.c ---- */

/* End the waits for other processes, and then the shares, of a device that closes. */
void leati_shares_abandon(struct leat_device *device);
leat_status leati_shares_close(struct leat_device *device);

/* Ends all waits for the other side. by_us: this side gives the other one up. */
void leati_share_lost(struct leat_share *share, bool by_us);

/* The host has waited for a stream that has taken over: lets it fail if a take-over counts for nothing. */
void leati_shares_stream_waited(struct leat_stream *stream);

/* ---- share_watch.c ---- */

/* Adds the share to the list, in which it is until leati_share_watch_end(), and begins to watch its socket, if it has
 * one: leati_share_lost() is called when the other side is gone. The second begins to watch a socket that the share
 * has got since. */
leat_status leati_share_watch_begin(struct leat_share *share);
leat_status leati_share_watch_socket(struct leat_share *share);
void leati_share_watch_end(struct leat_share *share);

/* Calls visit for each share of a device. visit must not wait. */
void leati_share_each(struct leat_device *device, void (*visit)(struct leat_share *share, void *argument),
                      void *argument);

/* Returns a share of the device, or NULL. */
struct leat_share *leati_share_any_of(struct leat_device *device);

/* ---- share_message.c ---- */

enum { LEATI_SHARE_FDS = 3 };

/* What one process tells the other. All of it is checked by the receiver; texts end with 0. */
struct leati_share_message {
    uint64_t magic;
    uint32_t version;
    uint32_t access; /* leat_access */
    uint64_t bytes, memory_bytes;
    int32_t ordinal; /* of the device */
    char driver[8];
    char pci_address[20];
    char model[96];
    char unused[96];
};

#define LEATI_SHARE_MAGIC UINT64_C(0x317268737461656c) /* "leatshr1"; of the page too */

/* Sends the message with memory, page and life. NOT_READY: the socket has no room now. */
leat_status leati_share_message_send(int socket_fd, const struct leati_share_message *message,
                                     const int fds[LEATI_SHARE_FDS]);

/* Receives a message and checks its form. The caller owns the descriptors, which are closed on exec. */
leat_status leati_share_message_receive(int socket_fd, struct leati_share_message *message,
                                        int fds[LEATI_SHARE_FDS]);

#endif
