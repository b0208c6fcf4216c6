/*
 * net_link.h - the state of a link, which net_link.c, message.c and region.c share.
 *
 * Threads. Three kinds of threads work on a link: those of the program, in calls; leat's workers, in move() of a
 * copy; and the loop (loop.h). link->lock protects all fields, if a comment does not say otherwise, and is held
 * for short work only: lists, and system calls on the non-blocking socket that move a few frames. Payload is moved
 * without the lock by the one thread that has set rx_busy or tx_busy.
 *
 * Order of locks: locks of leat's (release() may be called with some) - regions_lock - link->lock - loop_lock.
 * leat_storage_wake() takes locks of leat's, so it is called without link->lock: functions that make an op ready
 * set link->wake, and leatn_link_unlock() makes the call.
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
 * Memory. All stashes of a link together have at most memory_bytes (with a carrier their blocks may be larger). A receive is announced with credit for its
 * window, which it reserves, or with no credit if the window has no room. The sender has credit for no more than
 * the reserve, so the stash fits into it. A receive without a reserve is ready, although nothing has come, until
 * leat calls its move(), which gives credit for the memory that it was called with. leat calls move() again for
 * the rest of this memory, whatever its stream does, so the worker comes for each fragment, and the loop need not
 * read it. Once a stream has reached its receive, leat calls move(). Therefore the limit blocks no such receive,
 * whatever the streams of others wait for.
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

#include <leat/storage.h>

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

struct leatn_op_queue;

/* The last two are what an end does for a get and a put of the other end. */
enum leatn_op_kind {
    LEATN_OP_SEND,
    LEATN_OP_RECEIVE,
    LEATN_OP_GET,
    LEATN_OP_PUT,
    LEATN_OP_SERVE_GET,
    LEATN_OP_SERVE_PUT
};

/* A part of the payload of a receive, which the loop has read before the worker took it. */
struct leatn_stash {
    struct leatn_stash *next;
    size_t start, end, room;   /* the bytes from start to end are not taken yet */
    unsigned char *at;         /* bytes, or the memory of the block */
    struct leatn_block *block; /* of the carrier; NULL: none. end is 0 until its payload is there */
    unsigned char bytes[];
};

/* One copy: the object of leat/storage.h. */
struct leatn_op {
    /* Constant. */
    leat_link *link;
    enum leatn_op_kind kind;
    uint64_t tag, bytes, offset; /* offset: in the region, for gets and puts */
    char name[LEATN_NAME_MAX + 1];

    /* move() can move a byte, begin the op, or fail. Written under the lock, and read by leat without it. Release and acquire:
     * the reader then takes the lock, so even relaxed accesses would do. */
    atomic_int ready;

    unsigned holders; /* references: leat, the call that starts it, and the wire, see below */
    /* The other end knows of the op, or it waits to be announced or matched. Then it is in the tables of the link,
     * which hold a reference; and it fails with the link. */
    bool wire;
    bool begun;      /* see leatn_op_begin() */
    bool ended;      /* leat will not call move() any more */
    bool counted;    /* in link->sends or link->receives */
    uint64_t served; /* the last two kinds: the number of the get or the put */
    /* The last two kinds: like ended, for region.c, which reads it without the lock. Release and acquire are not
     * needed, because region.c then only asks the ticket. */
    atomic_bool over;
    leat_status status;                   /* LEAT_OK, or the failure that move() returns */
    const char *why;                      /* for the message: constant text, or link->reason */
    struct leatn_op *next_op, **op_place; /* in link->ops */
    struct leatn_op_queue *queue;         /* the queue that it is in, or NULL */
    struct leatn_op *next_in, **in_place; /* in that queue */
    struct leatn_op *next_number;         /* in a hash table */
    uint64_t number;                      /* of a receive or a put */

    /* Receives and gets. */
    uint64_t arrived, taken,
        granted;     /* bytes from the socket; bytes that move() has returned; credit of the sender */
    uint64_t landed; /* with a carrier: bytes that are there; arrived counts the announced ones */
    /* How many bytes of its payload this end may keep, counted in link->reserved; 0: none, so the sender gets
     * credit only for memory that move() was called with. */
    uint64_t reserve;
    bool stalled; /* its worker does not come, so the loop reads its payload */
    struct leatn_stash *stash, **stash_end;

    /* Sends and puts. */
    struct leatn_want *want; /* the receive to send to; NULL: not matched */
    uint64_t sent;
    bool done;            /* puts: the bytes are in the region */
    uint64_t other_bytes; /* the size of the receive, if the copy failed because it is another one */
};

/* A receive of the other end, from its announcement until this end has sent everything, STOP or GONE. */
struct leatn_want {
    uint64_t number, tag, bytes, credit;
    bool get;                               /* a get, for which region.c makes a send */
    struct leatn_op *op;                    /* the send, which then has a reference; NULL: not matched */
    struct leatn_want *next_number;         /* in a hash table */
    struct leatn_want *next_in, **in_place; /* in a queue, while not matched */
};

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
    struct leatn_cipher *cipher;   /* cipher.h; NULL: the link is not encrypted. The pointer is constant. Its sending
                                      half belongs to who may send: the thread that has set tx_busy, or who holds the
                                      lock while it is not set; the receiving half likewise, with rx_busy */
    bool wake;                     /* leatn_link_unlock() calls leat_storage_wake() */
    bool counted;                  /* closing: counted among the links that the end of the process waits for */

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
    bool tx_fill;           /* the send of the fragment has ended, so the loop sends zeros; tx_op is NULL */
    bool tx_blocked;        /* tx_op, or the loop that fills up, waits for want_out */
    uint64_t tx_left;       /* payload left of the fragment; 0: between frames */
    unsigned char tx_header[LEATN_HEADER_BYTES];
    size_t tx_header_left; /* bytes of the fragment's header that are not sent yet, at the end of tx_header */
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
/* Also calls leat_storage_wake() if an op became ready. */
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

/* Reads frames from the socket until a fragment begins, the socket is empty (want_in is then set), it has read much
 * (read_more is then set), or the link fails. The link must not be rx_busy. */
void leatn_link_read_frames(leat_link *link);

/* Without the lock, which only tx_busy and rx_busy replace: send and receive without waiting, encrypted if the link
 * is. Return the number of bytes, 0 at the end of what the other end sends, or a negative value of errno. fd: that
 * of the connection, read under the lock. */
ssize_t leatn_link_send(leat_link *link, int fd, const struct iovec *parts, size_t count);
ssize_t leatn_link_receive(leat_link *link, int fd, void *memory, size_t bytes);

/* Act on such a result. Return true if bytes were moved; otherwise the loop now waits for the socket, or the link
 * has failed, or takes no bytes any more (tx_dead). */
bool leatn_link_was_sent(leat_link *link, ssize_t sent);
bool leatn_link_was_received(leat_link *link, ssize_t got);

/* ---- message.c ---- */

/* Acts on a frame of the other end, whose name, if any, is complete. DATA begins a fragment. */
void leatn_message_take(leat_link *link, const struct leatn_frame *frame, const char *name);

/* Calls of the loop: there is something to read, or room to send; or nothing moved for a while in a fragment. */
void leatn_message_readable(leat_link *link);
void leatn_message_writable(leat_link *link);
void leatn_message_stalled(leat_link *link);

/* Makes all copies of a link that has failed fail too; and only the sends, because the socket takes no more bytes.
 */
void leatn_message_fail_all(leat_link *link);
void leatn_message_sending_ends(leat_link *link);

void leatn_message_init(leat_link *link);

/* ---- message.c, for carrier.c; the caller holds the lock ---- */

/* Adds memory to the stash of a receive, without bytes. NULL: no memory. */
struct leatn_stash *leatn_message_stash_block(struct leatn_op *op, unsigned char *at, size_t bytes);

/* The bytes of that piece are there. */
void leatn_message_carried(leat_link *link, struct leatn_op *op, struct leatn_stash *stash, size_t bytes);

/* Lets a send wait, and lets those that wait try again. */
void leatn_message_wait_to_send(leat_link *link, struct leatn_op *op);
void leatn_message_may_send(leat_link *link);

/* The other end has closed the link, and all that it has sent is there. */
void leatn_message_bye(leat_link *link);

void leatn_op_hold(struct leatn_op *op);
void leatn_op_drop(struct leatn_op *op); /* the caller has a reference to the link too */

/* Without the lock: fails with LINK, for a call of the program, if the link has failed. */
leat_status leatn_message_check_link(leat_link *link, const char *call, size_t bytes);

/* Makes an op and adds it to the link, with references for leat and for the caller. NULL: no memory. */
struct leatn_op *leatn_op_create(leat_link *link, enum leatn_op_kind kind, uint64_t tag, uint64_t bytes);

/* Without the lock: puts an op that leat has accepted on the wire, so that the other end learns of it; a get of the
 * other end is matched with its receive. move() does so too, whoever comes first: the call that gives an op to leat may
 * have to wait for the stream, and that for the op. */
void leatn_op_begin(struct leatn_op *op);

/* Without the lock: drops the caller's reference. */
void leatn_op_release(struct leatn_op *op);

/* Returns the functions of an op for leat. */
const leat_storage_ops *leatn_op_storage(const struct leatn_op *op);

/* ---- gets and puts of the other end: message.c, for region.c ---- */

/* Without the lock: refuse a get or a put, or say how a put ended (LEAT_OK: its bytes are in the region). */
void leatn_get_refuse(leat_link *link, uint64_t receive, leat_status status);
void leatn_put_end(leat_link *link, uint64_t put, leat_status status);

/* ---- region.c ---- */

/* Takes over a get or a put of the other end, with the number of its receive or of the put. Returns LEAT_OK, or
 * why it is refused. The caller holds the lock. */
leat_status leatn_region_request(leat_link *link, const struct leatn_frame *frame, const char *name);

/* An op of a kind that serves has ended. The caller may hold the lock, and locks of leat's. */
void leatn_region_op_ended(void);

/* Ends all regions of a link. Without the lock. */
void leatn_regions_close(leat_link *link);

#endif
