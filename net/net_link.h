/*
 * net_link.h - the state of a link, its lock, and what moves its control frames. The copies of a link are in
 * message.h.
 *
 * Threads. Three kinds of threads work on a link: those of the program, in calls; leat's workers; and the loop
 * (loop.h). Each of them may be the one that is in move() of a copy; only small copies are moved by the first and
 * the last, and by threads of the CPU device. link->lock protects all fields, if a comment does not say
 * otherwise, and is held for short work only: lists, and system calls on the non-blocking socket that move a few
 * frames. Payload is moved without the lock by the one thread that has set rx_busy or tx_busy.
 *
 * Order of locks: regions_lock - locks of leat's (release() may be called with some) - link->lock - loop_lock.
 * leatn_loop_wake_copies() takes locks of leat's, so it is called without link->lock: functions that make an op
 * ready set link->wake, and leatn_link_unlock() makes the call.
 *
 * The receiving side. Exactly one of these is true while the link lives, so that no byte is left lying:
 *
 *     rx_busy       a thread reads payload
 *     want_in       the socket is empty, and the loop waits until it is not
 *     read_more     the loop will read on soon
 *     fragment_left is not 0, and op->ready of the fragment's receive is 1, so that a worker will come
 *
 * In the last case the worker may not come, because the stream of the receive is blocked, and so its ring is full.
 * Then timer() sees that nothing moved for 2 ms, and the loop reads the fragment into the stash of the receive. So
 * the frames behind it get through: two receives whose streams wait for each other do not block each other.
 *
 * Memory. All stashes of a link together have at most memory_bytes (with a carrier their blocks may be larger). A
 * receive is announced with credit for its window, which it reserves, or with no credit if the window has no room.
 * The sender has credit for no more than the reserve, so the stash fits into it. A receive without a reserve is
 * ready, although nothing has come, until leat calls its move(), which gives credit for the memory that it was
 * called with. leat calls move() again for the rest of this memory, whatever its stream does, so the worker comes
 * for each fragment, and the loop need not read it. Once a stream has reached its receive, leat calls move().
 * Therefore the limit blocks no such receive, whatever the streams of others wait for.
 *
 * The sending side. tx_op is the send in whose fragment the socket is, or whose turn it is. Others that want to
 * send are in the list of waiters, and have the next turns. Control frames are sent between two fragments.
 */
#ifndef LEATN_NET_LINK_H
#define LEATN_NET_LINK_H

#include "cipher.h"
#include "frame.h"
#include "loop.h"
#include "net.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <sys/uio.h>

enum {
    LEATN_BUCKETS = 256,        /* of each hash table; numbers are consecutive, so it needs no hash */
    LEATN_RECEIVES_MAX = 65536, /* receives that one end may have announced */
    LEATN_PUTS_MAX = 4096,      /* puts and gets that one end may have asked for */
    LEATN_CHILDREN_MAX = 64,    /* of one process in a broadcast */
    LEATN_INPUT_BYTES = 4096    /* of headers and other short input */
};

/* ---- copies ---- */

struct leatn_op;
struct leatn_want;

/* A queue whose elements have next_in and in_place. end is the place for the next one. */
struct leatn_op_queue {
    struct leatn_op *first, **end;
};

struct leatn_want_queue {
    struct leatn_want *first, **end;
};

/* ---- links ---- */

/* Control frames that wait to be sent. */
struct leatn_output {
    unsigned char *at;
    size_t start, end, room;
    unsigned answers; /* frames that the other end has caused; bounds what it can make this end keep */
};

struct leat_link {
    struct leatn_source source; /* first: leatn_link_of() */
    pthread_mutex_t lock;
    /* References: the handle, the loop, and each op. Acquire and release: the last holder frees the link after all
     * uses by the others. */
    atomic_uint holders;
    struct net_connection connection; /* constant, except fd: -1 when it was closed */
    struct leatn_carrier *carrier; /* carrier.h; NULL: payload goes through the socket. The pointer is constant */
    struct leatn_cipher *cipher; /* cipher.h; NULL: the link is not encrypted. The pointer is constant. Its sending
                                    half belongs to who may send: the thread that has set tx_busy, or who holds the
                                    lock while it is not set; the receiving half likewise, with rx_busy */
    bool wake;                   /* leatn_link_unlock() calls leatn_loop_wake_copies() */
    bool counted;                /* closing: counted among the links that the end of the process waits for */

    /* Ends. */
    bool failed;        /* all copies fail; set before the two below, and by leat_link_close() too */
    bool closing;       /* this end closed the link: what is queued is still sent, and what comes is dropped */
    bool gone;          /* the loop does not know the link any more */
    bool finished;      /* closing: the other end has closed too, or the time is over */
    bool tx_dead;       /* the other end does not take bytes any more; the receiving side will know why */
    bool tx_shut;       /* closing: everything was sent, and the socket was shut down */
    char reason[256];   /* why it failed; constant once failed is set */
    uint64_t linger_ns; /* closing: when to give up */

    /* Waiting. */
    bool want_in, want_out; /* the loop waits for these events */
    bool ticking;           /* timer() is called every 2 ms */
    unsigned idle_ticks;
    bool read_more; /* timer() continues to read: so that one link does not keep the loop for long */

    /* Signs of life. progress counts what was received and sent; timer() remembers the values that it has seen. */
    uint32_t rx_progress, tx_progress, rx_seen, tx_seen, fragment_seen;
    uint64_t heard_ns, spoke_ns;   /* when the other end was heard, and when this end sent something */
    uint64_t checked_ns, check_ns; /* the last check of both, and the next one */

    /* The receiving side. */
    bool rx_busy; /* a thread reads payload without the lock */
    unsigned char input[LEATN_INPUT_BYTES];
    size_t input_start, input_end;
    struct leatn_op *fragment; /* the receive of the fragment; NULL: its payload is dropped */
    uint64_t fragment_left;    /* 0: between frames */

    /* The sending side. */
    bool tx_busy;           /* a thread sends payload without the lock */
    struct leatn_op *tx_op; /* see above; NULL: nobody's turn */
    bool tx_fill;           /* the send of the fragment has ended, so the loop sends zeros; tx_op is NULL. The last
                               byte of the message is not among them, so its receive stays incomplete */
    bool tx_blocked;        /* tx_op, or the loop that fills up, waits for want_out */
    uint64_t tx_left;       /* payload left of the fragment, with the byte in tx_end; 0: between frames */
    unsigned char tx_header[LEATN_HEADER_BYTES];
    size_t tx_header_left; /* bytes of the fragment's header that are not sent yet, at the end of tx_header */
    unsigned char tx_end[LEATN_HEADER_BYTES + 1]; /* a fragment with the last byte of the message, behind the other */
    size_t tx_end_left; /* bytes of it that are not sent yet; 0: none, or it is complete */
    struct leatn_op_queue waiters;
    struct leatn_output output;

    /* Copies. */
    struct leatn_op *ops; /* all that are not freed */
    uint32_t sends, receives;
    uint64_t sent_bytes, received_bytes;
    struct leatn_op *numbered[LEATN_BUCKETS]; /* announced receives and gets, by number */
    struct leatn_op *puts[LEATN_BUCKETS];     /* puts that the other end knows, by number */
    struct leatn_op_queue unannounced; /* receives, gets and puts above the limits, in the order of the calls */
    struct leatn_op_queue unreserved;  /* announced receives and gets that had no room in memory_bytes */
    uint64_t reserved;                 /* sum of all reserves, at most memory_bytes */
    uint64_t last_number, last_put;    /* the latest numbers that this end gave */
    unsigned announced, asked;         /* receives and gets; gets and puts */
    struct leatn_op_queue sends_by_tag[LEATN_BUCKETS];   /* not matched */
    struct leatn_want_queue wants_by_tag[LEATN_BUCKETS]; /* not matched */
    struct leatn_want *wants[LEATN_BUCKETS];             /* all, by number */
    uint64_t last_want, last_asked; /* the largest numbers that the other end gave, of receives and of puts */
    unsigned wants_count;
    unsigned served; /* gets and puts of the other end that are not complete */
};

static inline leat_link *leatn_link_of(struct leatn_source *source)
{
    return (leat_link *)(void *)source;
}

void leatn_link_lock(leat_link *link);
/* Also calls leatn_loop_wake_copies() if an op became ready. */
void leatn_link_unlock(leat_link *link);

void leatn_link_hold(leat_link *link);
void leatn_link_release(leat_link *link); /* without its lock */

/* Waits until the links that this process has closed are closed at the other ends too, for at most 6 s. */
void leatn_link_wait_for_lingering(void);

/* The caller of the functions below holds the lock. */

/* Makes all copies fail with LINK. Keeps the first reason only. */
void leatn_link_fail(leat_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Lets the loop watch the socket: for bytes to receive, and for room to send. */
void leatn_link_want_in(leat_link *link);
void leatn_link_want_out(leat_link *link);

/* Lets the loop look at the state of the link. */
void leatn_link_poke(leat_link *link);

/* Begins to look every 2 ms for a worker that does not come. */
void leatn_link_tick(leat_link *link);

/* Queues a control frame, with its tail. answer: the other end has caused it. */
void leatn_link_queue(leat_link *link, const struct leatn_frame *frame, const char *tail, bool answer);

/* Sends queued frames as far as the socket takes them, unless it is in a fragment. Returns true if none is left.
 */
bool leatn_link_flush(leat_link *link);

/* Reads frames from the socket until a fragment begins, the socket is empty (want_in is then set), it has read
 * much (read_more is then set), or the link fails. The link must not be rx_busy. */
void leatn_link_read_frames(leat_link *link);

/* Without the lock, which only tx_busy and rx_busy replace: send and receive without waiting, encrypted if the
 * link is. Return the number of bytes, 0 at the end of what the other end sends, or a negative value of errno. fd:
 * that of the connection, read under the lock. */
ssize_t leatn_link_send(leat_link *link, int fd, const struct iovec *parts, size_t count);
ssize_t leatn_link_receive(leat_link *link, int fd, void *memory, size_t bytes);

/* Act on such a result. Return true if bytes were moved; otherwise the loop now waits for the socket, or the link
 * has failed, or takes no bytes any more (tx_dead). */
bool leatn_link_was_sent(leat_link *link, ssize_t sent);
bool leatn_link_was_received(leat_link *link, ssize_t got);

#endif
