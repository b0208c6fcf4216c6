/*
 * message.h - sends, receives, gets and puts of a link, and what the files of messages share:
 *
 *     message.c          the calls, what leat/storage.h asks for, how an op begins and ends
 *     message_op.c       ops and wants: references, queues and tables, credit and the memory for payload
 *     message_frames.c   frames of the other end; sends meet the receives that want them
 *     message_receive.c  moves payload from the socket into memory, by workers and by the loop
 *     message_send.c     the turns of sends; moves payload from memory to the socket
 *
 * The caller of a function holds link->lock, if the comment does not say otherwise. net_link.h says how payload
 * moves without it.
 */
#ifndef LEATN_MESSAGE_H
#define LEATN_MESSAGE_H

#include "net_link.h"

#include <leat/storage.h>

/* ---- copies ---- */

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

    /* move() can move a byte, begin the op, or fail. Written under the lock, and read by leat without it. Release
     * and acquire: the reader then takes the lock, so even relaxed accesses would do. */
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
    uint64_t arrived; /* bytes from the socket; with a carrier, bytes that were announced */
    uint64_t landed;  /* with a carrier: bytes that are there */
    uint64_t taken;   /* bytes that move() has returned */
    uint64_t granted; /* credit of the sender */
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

/* ---- calls of the link: message.c and others ---- */

void leatn_message_init(leat_link *link);

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

/* The other end has closed the link, and all that it has sent is there. */
void leatn_message_bye(leat_link *link);

/* ---- for carrier.c ---- */

/* Adds memory to the stash of a receive, without bytes. NULL: no memory. */
struct leatn_stash *leatn_message_stash_block(struct leatn_op *op, unsigned char *at, size_t bytes);

/* The bytes of that piece are there. */
void leatn_message_carried(leat_link *link, struct leatn_op *op, struct leatn_stash *stash, size_t bytes);

/* Lets a send wait, and lets those that wait try again. */
void leatn_message_wait_to_send(leat_link *link, struct leatn_op *op);
void leatn_message_may_send(leat_link *link);

/* ---- for calls, of message.c and others: without the lock ---- */

/* Fails with LINK, for a call of the program, if the link has failed. */
leat_status leatn_message_check_link(leat_link *link, const char *call, size_t bytes);

/* Makes an op and adds it to the link, with references for leat and for the caller. NULL: no memory. */
struct leatn_op *leatn_op_create(leat_link *link, enum leatn_op_kind kind, uint64_t tag, uint64_t bytes);

/* Puts an op that leat has accepted on the wire, so that the other end learns of it; a get of the other end is
 * matched with its receive. move() does so too, whoever comes first: the call that gives an op to leat may have to
 * wait for the stream, and that for the op. */
void leatn_op_begin(struct leatn_op *op);

/* Drops the caller's reference. */
void leatn_op_release(struct leatn_op *op);

/* Returns the functions of an op for leat. */
const leat_storage_ops *leatn_op_storage(const struct leatn_op *op);

/* ---- gets and puts of the other end: for region.c, without the lock ---- */

/* Refuse a get or a put, or say how a put ended (LEAT_OK: its bytes are in the region). */
void leatn_get_refuse(leat_link *link, uint64_t receive, leat_status status);
void leatn_put_end(leat_link *link, uint64_t put, leat_status status);

/* ---- region.c ---- */

/* Takes over a get or a put of the other end, with the number of its receive or of the put. Returns LEAT_OK, or
 * why it is refused. The caller holds the lock. */
leat_status leatn_region_request(leat_link *link, const struct leatn_frame *frame, const char *name);

/* An op of a kind that serves has ended. The caller may hold the lock, and locks of leat's. */
void leatn_region_op_ended(void);

/* End all regions of a link; without the lock. The first one cancels their copies, the second one waits for them:
 * until the streams have reached them, so all copies of the link must have failed before. */
void leatn_regions_begin_close(leat_link *link);
void leatn_regions_close(leat_link *link);

/* ---- ops: message_op.c ---- */

/* Returns true if the bytes of an op come to this end. */
static inline bool leatn_op_receives(const struct leatn_op *op)
{
    return op->kind == LEATN_OP_RECEIVE || op->kind == LEATN_OP_GET || op->kind == LEATN_OP_SERVE_PUT;
}

static inline unsigned leatn_bucket_of_tag(uint64_t tag)
{
    return (unsigned)(tag * UINT64_C(0x9e3779b97f4a7c15) >> 56) % LEATN_BUCKETS;
}

void leatn_op_queue_add(struct leatn_op_queue *queue, struct leatn_op *op);

/* Takes an op out of the queue that it is in, if it is in one. */
void leatn_op_queue_remove(struct leatn_op *op);

/* For wants_by_tag. The second does nothing if the want is in no queue. */
void leatn_want_queue_add(struct leatn_want_queue *queue, struct leatn_want *want);
void leatn_want_queue_remove(struct leatn_want_queue *queue, struct leatn_want *want);

/* Find by number. Return NULL if there is none. */
struct leatn_op *leatn_op_find(struct leatn_op *const *table, uint64_t number);
struct leatn_want *leatn_want_find(const leat_link *link, uint64_t number);

/* Takes a want out of all tables, and frees it. */
void leatn_want_forget(struct leatn_want *want, leat_link *link);

/* References. The caller of leatn_op_drop() has another reference to the link, or a reference to the op that it
 * drops later with leatn_op_release(), because the link must not be freed while its lock is held. */
void leatn_op_hold(struct leatn_op *op);
void leatn_op_drop(struct leatn_op *op);

/* Sets op->ready anew, after a change of what it depends on. */
void leatn_op_refresh(struct leatn_op *op);

/* Lets move() fail. Keeps the first failure only. */
void leatn_op_fail(struct leatn_op *op, leat_status status, const char *why);

/* Takes an op out of the numbers of sends and receives that are not complete. */
void leatn_op_uncount(struct leatn_op *op);

/* Takes an op out of the tables of the link. Does nothing if it is in none. */
void leatn_op_leave_wire(struct leatn_op *op);

/* Announces waiting ops as far as the limits allow, after other ops have ended. */
void leatn_announce_more(leat_link *link);

/* ---- credit and memory of receives: message_op.c ---- */

/* Returns true if a receive without a reserve has no credit that was not used: move() gives some. */
bool leatn_op_needs_credit(const struct leatn_op *op);

/* Lets the other end send more, in steps of a quarter of what it may send ahead. */
void leatn_op_give_credit(struct leatn_op *op);

/* The receive keeps no more payload. leatn_announce_more() then gives the room to others. */
void leatn_op_give_reserve_up(struct leatn_op *op);

/* Frees what a receive keeps that has ended, if no thread may be filling it. */
void leatn_op_stop_keeping(struct leatn_op *op);

/* The pieces of a stash: adds one at the end; takes the first one out and frees it. */
void leatn_op_add_piece(struct leatn_op *op, struct leatn_stash *stash);
void leatn_op_free_piece(struct leatn_op *op);

/* ---- frames ---- */

/* Queue a frame about a receive. answer: as leatn_link_queue(). */
void leatn_link_queue_number(leat_link *link, enum leatn_frame_type type, uint64_t receive, bool answer);
void leatn_link_queue_stop(leat_link *link, uint64_t receive, leat_status status);

/* Gives a send the receive that it serves; finds one for a send, which otherwise waits in its queue. */
void leatn_match(leat_link *link, struct leatn_op *op, struct leatn_want *want);
void leatn_match_send(leat_link *link, struct leatn_op *op);

/* Refuses a get of the other end. */
void leatn_want_refuse(leat_link *link, struct leatn_want *want, leat_status status);

/* ---- payload ---- */

/* leatn_op_begin() with the lock: puts an op on the wire, if that was not done before. */
void leatn_op_put_on_wire(leat_link *link, struct leatn_op *op);

/* move() of leat/storage.h, without the lock: for receives, and for sends. */
size_t leatn_receive_move(void *object, uint64_t offset, void *memory, size_t bytes, leat_status *status);
size_t leatn_send_move(void *object, uint64_t offset, void *memory, size_t bytes, leat_status *status);

/* All payload of a send was given to the system. */
void leatn_send_finish(leat_link *link, struct leatn_op *op);

/* The send whose turn it is has ended. If it is in a fragment, the loop fills that up. */
void leatn_send_give_turn_up(leat_link *link, struct leatn_op *op);

/* Ends a send early that is matched: says so to the other end, by a frame which follows the fragment if there is
 * one. */
void leatn_send_abandon(leat_link *link, struct leatn_op *op, enum leatn_frame_type answer, leat_status status);

#endif
