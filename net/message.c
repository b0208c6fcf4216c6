/*
 * message.c - sends and receives: their matching, and the functions by which leat's workers move their bytes
 * (leat/storage.h). See net_link.h. All functions but those that leat or the program calls need link->lock.
 */
#include "carrier.h"
#include "net_link.h"

#include <leat/storage.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STASH_BYTES ((uint64_t)256 << 10) /* the size of most pieces of a stash */
#define READS_MAX 64u                     /* the loop then looks at other links */

/* Zeros for the rest of a fragment whose send has ended. */
static unsigned char zeros[65536];

/* ---- queues and tables ---- */

static unsigned bucket_of_tag(uint64_t tag)
{
    return (unsigned)(tag * UINT64_C(0x9e3779b97f4a7c15) >> 56) % LEATN_BUCKETS;
}

static void op_queue_add(struct leatn_op_queue *queue, struct leatn_op *op)
{
    op->queue = queue;
    op->next_in = NULL;
    op->in_place = queue->end;
    *queue->end = op;
    queue->end = &op->next_in;
}

/* Takes an op out of the queue that it is in, if it is in one. */
static void op_queue_remove(struct leatn_op *op)
{
    if (!op->queue)
        return;
    *op->in_place = op->next_in;
    if (op->next_in)
        op->next_in->in_place = op->in_place;
    else
        op->queue->end = op->in_place;
    op->queue = NULL;
}

static void want_queue_add(struct leatn_want_queue *queue, struct leatn_want *want)
{
    want->next_in = NULL;
    want->in_place = queue->end;
    *queue->end = want;
    queue->end = &want->next_in;
}

static void want_queue_remove(struct leatn_want_queue *queue, struct leatn_want *want)
{
    if (!want->in_place)
        return;
    *want->in_place = want->next_in;
    if (want->next_in)
        want->next_in->in_place = want->in_place;
    else
        queue->end = want->in_place;
    want->in_place = NULL;
}

static void op_table_add(struct leatn_op **table, struct leatn_op *op)
{
    op->next_number = table[op->number % LEATN_BUCKETS];
    table[op->number % LEATN_BUCKETS] = op;
}

static struct leatn_op *op_table_find(struct leatn_op *const *table, uint64_t number)
{
    struct leatn_op *op = table[number % LEATN_BUCKETS];

    while (op && op->number != number)
        op = op->next_number;
    return op;
}

static void op_table_remove(struct leatn_op **table, struct leatn_op *op)
{
    struct leatn_op **place = &table[op->number % LEATN_BUCKETS];

    while (*place != op)
        place = &(*place)->next_number;
    *place = op->next_number;
}

static struct leatn_want *find_want(const leat_link *link, uint64_t number)
{
    struct leatn_want *want = link->wants[number % LEATN_BUCKETS];

    while (want && want->number != number)
        want = want->next_number;
    return want;
}

void leatn_message_init(leat_link *link)
{
    for (unsigned i = 0; i < LEATN_BUCKETS; i++) {
        link->sends_by_tag[i].end = &link->sends_by_tag[i].first;
        link->wants_by_tag[i].end = &link->wants_by_tag[i].first;
    }
    link->waiters.end = &link->waiters.first;
    link->unannounced.end = &link->unannounced.first;
    link->unreserved.end = &link->unreserved.first;
}

/* ---- ops ---- */

static bool receives(const struct leatn_op *op)
{
    return op->kind == LEATN_OP_RECEIVE || op->kind == LEATN_OP_GET || op->kind == LEATN_OP_SERVE_PUT;
}

/* Returns true for what this end does for the other end. */
static bool serves(const struct leatn_op *op)
{
    return op->kind == LEATN_OP_SERVE_GET || op->kind == LEATN_OP_SERVE_PUT;
}

/* Returns true if a receive without a reserve has no credit that was not used: move() gives some. */
static bool needs_credit(const struct leatn_op *op)
{
    bool announced = op->wire && op->number && !op->ended;

    return announced && !op->reserve && op->granted == op->taken && op->taken < op->bytes;
}

/* Returns true if move() of a receive can move a byte now, or can give credit. */
static bool receive_is_ready(const struct leatn_op *op)
{
    const leat_link *link = op->link;

    if ((op->stash && op->stash->start < op->stash->end) || needs_credit(op))
        return true;
    return link->fragment == op && link->fragment_left && !link->rx_busy && !link->want_in;
}

/* Returns true if move() of a send can move a byte now, or can ask for its turn. */
static bool send_is_ready(const struct leatn_op *op)
{
    const leat_link *link = op->link;

    if (op->done && op->sent == op->bytes)
        return true;
    if (link->tx_op == op && (link->tx_left || link->tx_blocked))
        return !link->tx_blocked;
    return op->want && op->want->credit > op->sent && op->queue != &link->waiters;
}

/* Sets op->ready anew, after a change of what it depends on. */
static void refresh(struct leatn_op *op)
{
    bool ready = op->status != LEAT_OK || !op->begun || (receives(op) ? receive_is_ready(op) : send_is_ready(op));

    if (ready && !atomic_load_explicit(&op->ready, memory_order_relaxed))
        op->link->wake = true;
    atomic_store_explicit(&op->ready, ready, memory_order_release);
}

/* Takes an op out of the numbers of sends and receives that are not complete. */
static void uncount(struct leatn_op *op)
{
    if (op->counted)
        *(receives(op) ? &op->link->receives : &op->link->sends) -= 1;
    op->counted = false;
}

/* Lets move() fail. Keeps the first failure only. */
static void fail_op(struct leatn_op *op, leat_status status, const char *why)
{
    uncount(op);
    if (op->status == LEAT_OK) {
        op->why = why;
        op->status = status;
    }
    refresh(op);
}

struct leatn_op *leatn_op_create(leat_link *link, enum leatn_op_kind kind, uint64_t tag, uint64_t bytes)
{
    struct leatn_op *op = calloc(1, sizeof *op);

    if (!op)
        return NULL;
    op->link = link;
    op->kind = kind;
    op->tag = tag;
    op->bytes = bytes;
    op->holders = 2; /* leat and the caller */
    op->stash_end = &op->stash;
    atomic_init(&op->ready, 1); /* to begin it */
    leatn_link_hold(link);
    leatn_link_lock(link);
    op->next_op = link->ops;
    op->op_place = &link->ops;
    if (op->next_op)
        op->next_op->op_place = &op->next_op;
    link->ops = op;
    *(receives(op) ? &link->receives : &link->sends) += 1;
    op->counted = true;
    leatn_link_unlock(link);
    return op;
}

/* Takes the first piece out of a stash, and frees it. */
static void free_piece(struct leatn_op *op)
{
    struct leatn_stash *stash = op->stash;

    op->stash = stash->next;
    if (!op->stash)
        op->stash_end = &op->stash;
    if (stash->block)
        leatn_carrier_give_back(op->link, stash);
    free(stash);
}

static void add_piece(struct leatn_op *op, struct leatn_stash *stash)
{
    stash->next = NULL;
    *op->stash_end = stash;
    op->stash_end = &stash->next;
}

/* The receive keeps no more payload. announce_more() then gives the room to others. */
static void give_reserve_up(struct leatn_op *op)
{
    op->link->reserved -= op->reserve;
    op->reserve = 0;
}

/* Drops a reference. The caller has another reference to the link, or a reference to the op that it drops later
 * with leatn_op_release(), because the link must not be freed while its lock is held. */
static void drop(struct leatn_op *op)
{
    if (--op->holders)
        return;
    *op->op_place = op->next_op;
    if (op->next_op)
        op->next_op->op_place = op->op_place;
    while (op->stash)
        free_piece(op);
    give_reserve_up(op);
    leatn_link_release(op->link);
    free(op);
}

void leatn_op_hold(struct leatn_op *op)
{
    op->holders++;
}

void leatn_op_drop(struct leatn_op *op)
{
    drop(op);
}

void leatn_op_release(struct leatn_op *op)
{
    leat_link *link = op->link;

    leatn_link_hold(link);
    leatn_link_lock(link);
    drop(op);
    leatn_link_unlock(link);
    leatn_link_release(link);
}

/* ---- what the other end knows ---- */

static void queue_number(leat_link *link, enum leatn_frame_type type, uint64_t receive, bool answer)
{
    leatn_link_queue(link, &(struct leatn_frame){.type = type, .receive = receive}, NULL, answer);
}

static void queue_stop(leat_link *link, uint64_t receive, leat_status status)
{
    leatn_link_queue(link, &(struct leatn_frame){.type = LEATN_FRAME_STOP, .receive = receive, .status = status},
                     NULL, true);
}

static bool asks(const struct leatn_op *op)
{
    return op->kind == LEATN_OP_GET || op->kind == LEATN_OP_PUT;
}

/* Frees what a receive keeps that has ended, if no thread may be filling it. */
static void stop_keeping(struct leatn_op *op)
{
    if (!op->ended || op->link->rx_busy || op->link->carrier)
        return;
    while (op->stash)
        free_piece(op);
    give_reserve_up(op);
}

/* Takes an op out of the tables of the link. Does nothing if it is in none. */
static void leave_wire(struct leatn_op *op)
{
    leat_link *link = op->link;

    if (!op->wire)
        return;
    op->wire = false;
    stop_keeping(op);
    op_queue_remove(op);
    if (op->number) {
        op_table_remove(op->kind == LEATN_OP_PUT ? link->puts : link->numbered, op);
        link->announced -= receives(op);
        link->asked -= asks(op);
    }
    drop(op);
}

static void forget_want(struct leatn_want *want, leat_link *link)
{
    struct leatn_want **place = &link->wants[want->number % LEATN_BUCKETS];

    while (*place != want)
        place = &(*place)->next_number;
    *place = want->next_number;
    want_queue_remove(&link->wants_by_tag[bucket_of_tag(want->tag)], want);
    link->wants_count--;
    link->served -= want->get;
    free(want);
}

/* Returns true if the window of a receive has room when no other receive has a reserve. */
static bool fits_alone(const struct leatn_op *op)
{
    uint64_t window = op->link->connection.window_bytes;

    return (op->bytes < window ? op->bytes : window) <= op->link->connection.memory_bytes;
}

/* Reserves memory for the window of a receive. Returns false if there is no room. */
static bool reserve(struct leatn_op *op)
{
    leat_link *link = op->link;
    uint64_t window = link->connection.window_bytes, left = op->bytes - op->taken;
    uint64_t wanted = left < window ? left : window, credit = op->granted - op->taken;

    wanted = wanted > credit ? wanted : credit; /* credit for memory of move() that was not used */
    if (wanted > link->connection.memory_bytes - link->reserved)
        return false;
    link->reserved += op->reserve = wanted;
    return true;
}

static void announce(leat_link *link, struct leatn_op *op)
{
    struct leatn_frame frame = {.offset = op->offset, .bytes = op->bytes, .tag = op->tag};

    if (op->kind == LEATN_OP_PUT) {
        frame.type = LEATN_FRAME_PUT;
        frame.put = op->number = ++link->last_put;
        op_table_add(link->puts, op);
    } else {
        frame.type = op->kind == LEATN_OP_GET         ? LEATN_FRAME_GET
                     : op->kind == LEATN_OP_SERVE_PUT ? LEATN_FRAME_WANT_PUT
                                                      : LEATN_FRAME_WANT;
        frame.receive = op->number = ++link->last_number;
        frame.put = op->served;
        if (!reserve(op) && fits_alone(op))
            op_queue_add(&link->unreserved, op);
        frame.credit = op->granted = op->reserve;
        op_table_add(link->numbered, op);
        refresh(op);
    }
    frame.tail_bytes = asks(op) ? (uint32_t)strlen(op->name) : 0;
    link->announced += receives(op);
    link->asked += asks(op);
    leatn_link_queue(link, &frame, op->name, false);
}

/* Returns true if the other end may be told of one more op. */
static bool may_announce(const leat_link *link, const struct leatn_op *op)
{
    return (!receives(op) || link->announced < LEATN_RECEIVES_MAX) && (!asks(op) || link->asked < LEATN_PUTS_MAX);
}

/* Lets the other end send more, in steps of a quarter of what it may send ahead. */
static void give_credit(struct leatn_op *op)
{
    leat_link *link = op->link;
    /* A piece of the stash is freed as a whole. So its bytes that were taken still count. */
    uint64_t freed = op->taken - (op->stash ? op->stash->start : 0), left = op->bytes - freed;
    uint64_t credit = freed + (left < op->reserve ? left : op->reserve);

    if (!op->wire || credit <= op->granted || (credit < op->bytes && credit - op->granted < op->reserve / 4))
        return;
    op->granted = credit;
    leatn_link_queue(link,
                     &(struct leatn_frame){.type = LEATN_FRAME_CREDIT, .receive = op->number, .credit = credit},
                     NULL, false);
    (void)leatn_link_flush(link);
}

/* Gives reserves to receives that had none, as far as there is room. */
static void reserve_more(leat_link *link)
{
    struct leatn_op *op;

    while (!link->failed && (op = link->unreserved.first) && reserve(op)) {
        op_queue_remove(op);
        give_credit(op);
        refresh(op);
    }
}

/* Announces waiting ops as far as the limits allow, after other ops have ended. */
static void announce_more(leat_link *link)
{
    struct leatn_op *op;

    reserve_more(link);

    while (!link->failed && (op = link->unannounced.first) && may_announce(link, op)) {
        op_queue_remove(op);
        announce(link, op);
    }
}

/* ---- the turns of sends ---- */

/* Gives the turn to the next send that waits. */
static void next_turn(leat_link *link)
{
    struct leatn_op *op = link->waiters.first;

    link->tx_op = op;
    if (!op)
        return;
    op_queue_remove(op);
    refresh(op);
}

/* The send whose turn it is has ended. If it is in a fragment, the loop fills that up. */
static void give_turn_up(leat_link *link, struct leatn_op *op)
{
    if (link->tx_op != op || link->tx_busy)
        return; /* if it is busy, the worker will call again */
    link->tx_op = NULL;
    if (link->tx_left) {
        link->tx_fill = true;
        leatn_link_want_out(link);
        return;
    }
    link->tx_blocked = false;
    next_turn(link);
}

/* Ends a send early that is matched: says so to the other end, by a frame which follows the fragment if there is
 * one. */
static void abandon_send(leat_link *link, struct leatn_op *op, enum leatn_frame_type answer, leat_status status)
{
    struct leatn_want *want = op->want;

    if (!want)
        return;
    if (answer == LEATN_FRAME_STOP)
        queue_stop(link, want->number, status);
    else
        queue_number(link, answer, want->number, true);
    op->want = NULL;
    forget_want(want, link);
    if (op->queue == &link->waiters)
        op_queue_remove(op);
    give_turn_up(link, op);
    if (op->kind != LEATN_OP_PUT)
        leave_wire(op);
}

/* ---- matching ---- */

static void match(leat_link *link, struct leatn_op *op, struct leatn_want *want)
{
    op->want = want;
    want->op = op;
    op_queue_remove(op);
    want_queue_remove(&link->wants_by_tag[bucket_of_tag(want->tag)], want);
    if (op->ended || op->status != LEAT_OK) {
        abandon_send(link, op, LEATN_FRAME_STOP, LEAT_ERROR_LINK);
    } else if (op->bytes != want->bytes) {
        op->other_bytes = want->bytes;
        fail_op(op, LEAT_ERROR_RANGE, "the receive of the other end has another size");
        abandon_send(link, op, LEATN_FRAME_STOP, LEAT_ERROR_RANGE);
    } else {
        refresh(op);
    }
}

static void enqueue_send(leat_link *link, struct leatn_op *op)
{
    unsigned bucket = bucket_of_tag(op->tag);
    struct leatn_want *want = link->wants_by_tag[bucket].first;

    while (want && want->tag != op->tag)
        want = want->next_in;
    if (want)
        match(link, op, want);
    else
        op_queue_add(&link->sends_by_tag[bucket], op);
}

/* Records a receive of the other end. Returns NULL if the link failed. */
static struct leatn_want *add_want(leat_link *link, const struct leatn_frame *frame, uint64_t bytes)
{
    struct leatn_want *want;

    if (frame->receive <= link->last_want) {
        leatn_link_fail(link, "the other end announced receive %llu after receive %llu",
                        (unsigned long long)frame->receive, (unsigned long long)link->last_want);
        return NULL;
    }
    if (link->wants_count >= LEATN_RECEIVES_MAX) {
        leatn_link_fail(link, "the other end announced more than %d receives", LEATN_RECEIVES_MAX);
        return NULL;
    }
    want = calloc(1, sizeof *want);
    if (!want) {
        leatn_link_fail(link, "no memory for the receives of the other end");
        return NULL;
    }
    *want = (struct leatn_want){.number = frame->receive,
                                .tag = frame->tag,
                                .bytes = bytes,
                                .credit = frame->credit,
                                .next_number = link->wants[frame->receive % LEATN_BUCKETS]};
    link->wants[frame->receive % LEATN_BUCKETS] = want;
    link->wants_count++;
    link->last_want = frame->receive;
    return want;
}

/* ---- gets and puts of the other end ---- */

static void refuse_get(leat_link *link, struct leatn_want *want, leat_status status)
{
    queue_stop(link, want->number, status);
    forget_want(want, link);
}

static void end_put(leat_link *link, uint64_t put, leat_status status)
{
    link->served--;
    leatn_link_queue(link, &(struct leatn_frame){.type = LEATN_FRAME_PUT_DONE, .put = put, .status = status}, NULL,
                     true);
}

void leatn_get_refuse(leat_link *link, uint64_t receive, leat_status status)
{
    struct leatn_want *want;

    leatn_link_lock(link);
    want = find_want(link, receive);
    if (want)
        refuse_get(link, want, status);
    (void)leatn_link_flush(link);
    leatn_link_unlock(link);
}

void leatn_put_end(leat_link *link, uint64_t put, leat_status status)
{
    leatn_link_lock(link);
    end_put(link, put, status);
    (void)leatn_link_flush(link);
    leatn_link_unlock(link);
}

/* ---- frames of the other end ---- */

static void take_want(leat_link *link, const struct leatn_frame *frame)
{
    unsigned bucket = bucket_of_tag(frame->tag);
    struct leatn_op *op = link->sends_by_tag[bucket].first;
    struct leatn_want *want = add_want(link, frame, frame->bytes);

    if (!want)
        return;
    while (op && op->tag != frame->tag)
        op = op->next_in;
    if (op)
        match(link, op, want);
    else
        want_queue_add(&link->wants_by_tag[bucket], want);
}

static void take_credit(leat_link *link, const struct leatn_frame *frame)
{
    struct leatn_want *want = find_want(link, frame->receive);

    if (!want && frame->receive > link->last_want)
        leatn_link_fail(link, "the other end gave credit for a receive that it has not announced");
    else if (want && (frame->credit <= want->credit || frame->credit > want->bytes))
        leatn_link_fail(link, "the other end gave a wrong credit of %llu bytes for a receive of %llu bytes",
                        (unsigned long long)frame->credit, (unsigned long long)want->bytes);
    if (!want || link->failed)
        return;
    want->credit = frame->credit;
    if (want->op)
        refresh(want->op);
}

/* Returns the receive of a fragment. NULL: the link has failed, because the fragment is not as it should be. */
static struct leatn_op *receive_of_payload(leat_link *link, const struct leatn_frame *frame, uint64_t bytes,
                                           bool wrong)
{
    struct leatn_op *op = op_table_find(link->numbered, frame->receive);

    if (wrong)
        leatn_link_fail(link, "the other end sent payload the wrong way: by UCX or by the socket");
    else if (!op)
        leatn_link_fail(link, "the other end sent payload of a receive that does not exist");
    else if (frame->offset != op->arrived || bytes > op->granted - op->arrived)
        leatn_link_fail(link, "the other end sent payload at a wrong offset, or without credit");
    return link->failed ? NULL : op;
}

/* Payload that UCX brings. */
static void take_carried(leat_link *link, const struct leatn_frame *frame)
{
    bool wrong = !link->carrier || frame->bytes > LEATN_FRAGMENT_MAX;
    struct leatn_op *op = receive_of_payload(link, frame, frame->bytes, wrong);

    if (!op)
        return;
    op->arrived += frame->bytes;
    leatn_carrier_take(link, op->ended || op->status != LEAT_OK ? NULL : op, (size_t)frame->bytes);
}

static void take_data(leat_link *link, const struct leatn_frame *frame)
{
    struct leatn_op *op = receive_of_payload(link, frame, frame->tail_bytes, link->carrier);

    if (!op)
        return;
    link->fragment_left = frame->tail_bytes;
    link->fragment = op->ended || op->status != LEAT_OK ? NULL : op;
    if (!link->fragment)
        op->arrived += frame->tail_bytes;
    else
        refresh(op);
    leatn_link_tick(link);
}

static void take_unwant(leat_link *link, const struct leatn_frame *frame)
{
    struct leatn_want *want = find_want(link, frame->receive);
    struct leatn_op *op = want ? want->op : NULL;

    if (!want && frame->receive > link->last_want) {
        leatn_link_fail(link, "the other end ended a receive that it has not announced");
        return;
    }
    if (op) {
        fail_op(op, LEAT_ERROR_LINK, "the other end has stopped its receive");
        abandon_send(link, op, LEATN_FRAME_GONE, LEAT_OK);
        return;
    }
    if (want)
        forget_want(want, link);
    queue_number(link, LEATN_FRAME_GONE, frame->receive, true);
}

static void take_gone(leat_link *link, const struct leatn_frame *frame)
{
    struct leatn_op *op = op_table_find(link->numbered, frame->receive);

    if (!op || !op->ended) {
        leatn_link_fail(link, "the other end ended a receive that nobody stopped");
        return;
    }
    leave_wire(op);
    announce_more(link);
}

static const char *why_stopped(leat_status status)
{
    switch (status) {
    case LEAT_ERROR_NOT_FOUND:
        return "the other end has no region of this name";
    case LEAT_ERROR_RANGE:
        return "the range goes past the end of the region";
    case LEAT_ERROR_NOT_PERMITTED:
        return "the region may only be read (LEAT_ACCESS_READ)";
    default:
        return "the other end has stopped the copy";
    }
}

static void take_stop(leat_link *link, const struct leatn_frame *frame)
{
    struct leatn_op *op = op_table_find(link->numbered, frame->receive);

    if (!op) {
        leatn_link_fail(link, "the other end stopped a receive that does not exist");
        return;
    }
    if (op->ended)
        return; /* GONE will follow */
    if (frame->status == LEAT_ERROR_RANGE && op->kind == LEATN_OP_RECEIVE)
        fail_op(op, LEAT_ERROR_RANGE, "the send of the other end has another size");
    else
        fail_op(op, frame->status, why_stopped(frame->status));
    leave_wire(op);
    announce_more(link);
}

static void take_want_put(leat_link *link, const struct leatn_frame *frame)
{
    struct leatn_op *op = op_table_find(link->puts, frame->put);
    struct leatn_want *want;

    if (!op || op->want || op->sent || frame->credit > op->bytes) {
        leatn_link_fail(link, "the other end accepted a put that does not exist, or twice");
        return;
    }
    want = add_want(link, frame, op->bytes);
    if (want)
        match(link, op, want);
}

/* Returns true if all bytes of a put were sent. The worker that has sent the last ones may not have counted them.
 */
static bool may_be_sent(const struct leatn_op *op)
{
    const leat_link *link = op->link;

    return op->sent == op->bytes || (link->tx_busy && link->tx_op == op && op->sent + link->tx_left == op->bytes);
}

static void take_put_done(leat_link *link, const struct leatn_frame *frame)
{
    struct leatn_op *op = op_table_find(link->puts, frame->put);

    if (!op || op->done || (frame->status == LEAT_OK && !may_be_sent(op))) {
        leatn_link_fail(link, "the other end completed a put that does not exist, or too early");
        return;
    }
    if (frame->status == LEAT_OK) {
        op->done = true;
        refresh(op);
        if (op->sent < op->bytes)
            return; /* finish_send() follows */
    } else {
        fail_op(op, frame->status, why_stopped(frame->status));
        abandon_send(link, op, LEATN_FRAME_STOP, LEAT_ERROR_LINK);
    }
    leave_wire(op);
    announce_more(link);
}

static void take_request(leat_link *link, const struct leatn_frame *frame, const char *name)
{
    bool get = frame->type == LEATN_FRAME_GET;
    struct leatn_want *want = NULL;
    leat_status status;

    if (strlen(name) != frame->tail_bytes || (!get && frame->put <= link->last_asked)) {
        leatn_link_fail(link, "the other end asked for a region with a wrong name or number");
        return;
    }
    if (link->served >= LEATN_PUTS_MAX) {
        leatn_link_fail(link, "the other end made more than %d gets and puts at once", LEATN_PUTS_MAX);
        return;
    }
    if (get) {
        want = add_want(link, frame, frame->bytes);
        if (!want)
            return;
        want->get = true;
    } else {
        link->last_asked = frame->put;
    }
    link->served++;
    status = leatn_region_request(link, frame, name);
    if (status == LEAT_OK)
        return;
    if (get)
        refuse_get(link, want, status);
    else
        end_put(link, frame->put, status);
}

void leatn_message_bye(leat_link *link)
{
    leatn_link_fail(link, "the other process has closed the link");
}

void leatn_message_take(leat_link *link, const struct leatn_frame *frame, const char *name)
{
    switch (frame->type) {
    case LEATN_FRAME_WANT:
        take_want(link, frame);
        break;
    case LEATN_FRAME_CREDIT:
        take_credit(link, frame);
        break;
    case LEATN_FRAME_DATA:
        take_data(link, frame);
        break;
    case LEATN_FRAME_UNWANT:
        take_unwant(link, frame);
        break;
    case LEATN_FRAME_GONE:
        take_gone(link, frame);
        break;
    case LEATN_FRAME_STOP:
        take_stop(link, frame);
        break;
    case LEATN_FRAME_GET:
    case LEATN_FRAME_PUT:
        take_request(link, frame, name);
        break;
    case LEATN_FRAME_WANT_PUT:
        take_want_put(link, frame);
        break;
    case LEATN_FRAME_PUT_DONE:
        take_put_done(link, frame);
        break;
    case LEATN_FRAME_CARRIED:
        take_carried(link, frame);
        break;
    case LEATN_FRAME_BYE:
        if (!leatn_carrier_defers_bye(link))
            leatn_message_bye(link);
        break;
    default:
        break;
    }
    if (!link->failed)
        (void)leatn_link_flush(link);
}

/* ---- the begin of an op ---- */

/* Matches what this end does for a get with the receive of the other end. */
static void begin_get(leat_link *link, struct leatn_op *op)
{
    struct leatn_want *want = find_want(link, op->served);

    if (!want) {
        /* The other end has ended its receive, or the link has failed. */
        fail_op(op, LEAT_ERROR_LINK, link->failed ? link->reason : "the other end has stopped its receive");
        return;
    }
    op->wire = true;
    op->holders++;
    match(link, op, want);
}

/* Puts an op on the wire, if that was not done before: it is announced, or matched. */
static void begin_op(leat_link *link, struct leatn_op *op)
{
    struct leatn_want *want;

    if (op->begun)
        return;
    op->begun = true;
    if (op->ended) {
        /* It has 0 bytes, or was stopped already. */
        want = op->kind == LEATN_OP_SERVE_GET ? find_want(link, op->served) : NULL;
        if (want)
            refuse_get(link, want, LEAT_ERROR_LINK);
    } else if (op->kind == LEATN_OP_SERVE_GET) {
        begin_get(link, op);
    } else if (link->failed) {
        fail_op(op, LEAT_ERROR_LINK, link->reason);
    } else {
        op->wire = true;
        op->holders++;
        if (op->kind == LEATN_OP_SEND) {
            enqueue_send(link, op);
        } else {
            op_queue_add(&link->unannounced, op);
            announce_more(link);
        }
    }
    refresh(op);
    (void)leatn_link_flush(link);
}

/* ---- receiving payload ---- */

/* Takes bytes of the fragment from the input. */
static size_t take_input(leat_link *link, void *memory, size_t bytes)
{
    size_t held = link->input_end - link->input_start;

    bytes = bytes < held ? bytes : held;
    memcpy(memory, link->input + link->input_start, bytes);
    link->input_start += bytes;
    return bytes;
}

/* Reads payload of the fragment into memory, without the lock. The caller makes sure that memory, the link and the
 * fragment's op stay. Returns 0 if the socket has none, or the link has failed. */
static size_t read_payload(leat_link *link, void *memory, size_t bytes)
{
    size_t got = take_input(link, memory, bytes);
    int fd = link->connection.fd;
    ssize_t result;

    if (got)
        return got;
    link->rx_busy = true;
    pthread_mutex_unlock(&link->lock);
    result = leatn_link_receive(link, fd, memory, bytes);
    pthread_mutex_lock(&link->lock);
    link->rx_busy = false;
    if (link->failed) {
        /* The loop waits for this thread: it drains the socket or closes it. */
        if (link->closing)
            leatn_link_want_in(link);
        leatn_link_poke(link);
        return 0;
    }
    return leatn_link_was_received(link, result) ? (size_t)result : 0;
}

/* Counts payload that came. At the end of the fragment, begins with the next frames. */
static void count_payload(leat_link *link, struct leatn_op *op, size_t bytes)
{
    link->fragment_left -= bytes;
    link->received_bytes += bytes;
    op->arrived += bytes;
    if (link->fragment_left)
        return;
    link->fragment = NULL;
    if (op->arrived == op->bytes) {
        leave_wire(op);
        announce_more(link);
        (void)leatn_link_flush(link);
    }
}

/* Reads payload of op's fragment straight into memory, then all frames behind it. Returns 0 if there is none now.
 */
static size_t take_fragment(leat_link *link, struct leatn_op *op, void *memory, size_t bytes)
{
    size_t got;

    if (link->fragment != op || !link->fragment_left || link->rx_busy || link->want_in)
        return 0;
    got = read_payload(link, memory, bytes < link->fragment_left ? bytes : (size_t)link->fragment_left);
    if (!got)
        return 0;
    count_payload(link, op, got);
    if (!link->fragment_left)
        leatn_link_read_frames(link);
    /* Only the loop drops payload. */
    if (link->fragment_left && !link->fragment && !link->failed) {
        link->read_more = true;
        leatn_link_poke(link);
    }
    return got;
}

/* Takes bytes from the stash. They are copied without the lock: the loop only adds bytes behind them, and only the
 * one thread in move() frees pieces. */
static size_t take_stash(leat_link *link, struct leatn_op *op, void *memory, size_t bytes)
{
    struct leatn_stash *stash = op->stash;
    size_t held = stash ? stash->end - stash->start : 0;

    bytes = bytes < held ? bytes : held;
    if (!bytes)
        return 0;
    pthread_mutex_unlock(&link->lock);
    memcpy(memory, stash->at + stash->start, bytes);
    pthread_mutex_lock(&link->lock);
    stash->start += bytes;
    /* The last piece stays while it has room, because the loop may be filling it. */
    if (stash->start == stash->end && (stash->next || stash->end == stash->room))
        free_piece(op);
    return bytes;
}

/* Gives credit for memory that move() was called with, if the receive has no other. */
static void give_credit_for(struct leatn_op *op, size_t bytes)
{
    if (!needs_credit(op))
        return;
    op->granted += bytes;
    leatn_link_queue(op->link,
                     &(struct leatn_frame){
                         .type = LEATN_FRAME_CREDIT, .receive = op->number, .credit = op->granted},
                     NULL, false);
    (void)leatn_link_flush(op->link);
}

/* Frees a piece of the stash that has no bytes, unless the loop may be filling it. */
static void free_empty_piece(struct leatn_op *op)
{
    struct leatn_stash *stash = op->stash;

    if (stash && !stash->block && stash->start == stash->end && !op->link->rx_busy)
        free_piece(op);
}

static size_t receive_move(void *object, uint64_t offset, void *memory, size_t bytes, leat_status *status)
{
    struct leatn_op *op = object;
    leat_link *link = op->link;
    size_t moved = 0, got;

    (void)offset; /* is op->taken */
    leatn_link_lock(link);
    begin_op(link, op);
    op->stalled = false;
    while (moved < bytes) {
        char *at = (char *)memory + moved;

        if (op->status != LEAT_OK) {
            *status = op->status;
            break;
        }
        got = take_stash(link, op, at, bytes - moved);
        if (!got)
            got = take_fragment(link, op, at, bytes - moved);
        if (!got && op->status == LEAT_OK) {
            give_credit_for(op, bytes - moved);
            *status = LEAT_NOT_READY;
            break;
        }
        moved += got;
        op->taken += got;
        free_empty_piece(op);
        give_credit(op);
    }
    if (op->taken == op->bytes) {
        uncount(op);
        give_reserve_up(op);
        announce_more(link);
        (void)leatn_link_flush(link);
    }
    refresh(op);
    leatn_link_unlock(link);
    return moved;
}

/* ---- receiving payload on the loop ---- */

/* Drops payload of a receive that has ended. Returns false if the socket has none now. */
static bool drop_payload(leat_link *link)
{
    unsigned char dropped[65536];
    size_t got = read_payload(link, dropped,
                              link->fragment_left < sizeof dropped ? (size_t)link->fragment_left : sizeof dropped);

    link->fragment_left -= got; /* op->arrived was counted before */
    return got;
}

/* Returns the last piece of a stash if it has room, or a new one. */
static struct leatn_stash *stash_with_room(struct leatn_op *op)
{
    struct leatn_stash *stash = op->stash;
    uint64_t room = op->granted - op->arrived < STASH_BYTES ? op->granted - op->arrived : STASH_BYTES;

    while (stash && stash->next)
        stash = stash->next;
    if (stash && stash->end < stash->room)
        return stash;
    stash = malloc(sizeof *stash + (size_t)room);
    if (!stash)
        return NULL;
    stash->start = stash->end = 0;
    stash->room = (size_t)room;
    stash->at = stash->bytes;
    stash->block = NULL;
    add_piece(op, stash);
    return stash;
}

/* Reads payload into the stash of its receive. Returns false if the socket has none now, or there is no memory. */
static bool stash_payload(leat_link *link)
{
    struct leatn_op *op = link->fragment;
    struct leatn_stash *stash = stash_with_room(op);
    size_t bytes, got;

    if (!stash)
        return false; /* the worker must take it */
    bytes = stash->room - stash->end;
    bytes = bytes < link->fragment_left ? bytes : (size_t)link->fragment_left;
    op->holders++; /* the link may fail meanwhile */
    got = read_payload(link, stash->at + stash->end, bytes);
    stash->end += got;
    if (got && link->fragment == op)
        count_payload(link, op, got);
    else
        link->fragment_left -= got; /* the receive ended meanwhile, so op->arrived was counted */
    refresh(op);
    drop(op);
    return got;
}

void leatn_message_readable(leat_link *link)
{
    for (unsigned reads = 0; !link->failed; reads++) {
        if (link->rx_busy)
            return;
        if (!link->fragment_left)
            leatn_link_read_frames(link);
        if (link->failed || !link->fragment_left)
            return;
        if (link->fragment && !link->fragment->stalled) {
            refresh(link->fragment);
            return;
        }
        if (reads == READS_MAX) {
            link->read_more = true;
            leatn_link_poke(link);
            return;
        }
        if (!(link->fragment ? stash_payload(link) : drop_payload(link)))
            return;
    }
}

void leatn_message_stalled(leat_link *link)
{
    if (link->rx_busy || link->want_in || !link->fragment || !link->fragment->reserve)
        return;
    link->fragment->stalled = true;
    leatn_message_readable(link);
}

/* ---- payload that UCX brings ---- */

struct leatn_stash *leatn_message_stash_block(struct leatn_op *op, unsigned char *at, size_t bytes)
{
    struct leatn_stash *stash = calloc(1, sizeof *stash);

    if (!stash)
        return NULL;
    stash->room = bytes;
    stash->at = at;
    add_piece(op, stash);
    return stash;
}

void leatn_message_carried(leat_link *link, struct leatn_op *op, struct leatn_stash *stash, size_t bytes)
{
    stash->end = bytes;
    link->received_bytes += bytes;
    op->landed += bytes;
    refresh(op);
    /* A receive that has ended leaves with the GONE that answers its UNWANT. */
    if (op->landed == op->bytes && !op->ended) {
        leave_wire(op);
        announce_more(link);
        (void)leatn_link_flush(link);
    }
}

/* ---- sending payload ---- */

/* Makes op the send whose turn it is, and sends all control frames. Returns false if it has to wait. */
static bool take_turn(leat_link *link, struct leatn_op *op)
{
    if ((link->tx_op && link->tx_op != op) || link->tx_fill) {
        if (!op->queue)
            op_queue_add(&link->waiters, op);
        return false;
    }
    link->tx_op = op;
    if (link->tx_left)
        return true;
    link->tx_blocked = !leatn_link_flush(link);
    return !link->tx_blocked && op->status == LEAT_OK;
}

/* Begins a fragment of at most bytes bytes. */
static void begin_fragment(leat_link *link, struct leatn_op *op, size_t bytes)
{
    struct leatn_frame frame = {.type = LEATN_FRAME_DATA, .receive = op->want->number, .offset = op->sent};
    uint64_t credit = op->want->credit - op->sent;

    bytes = bytes < LEATN_FRAGMENT_MAX ? bytes : LEATN_FRAGMENT_MAX;
    bytes = bytes < credit ? bytes : (size_t)credit;
    frame.tail_bytes = (uint32_t)bytes;
    leatn_frame_encode(&frame, link->tx_header);
    link->tx_header_left = LEATN_HEADER_BYTES;
    link->tx_left = bytes;
}

/* Counts bytes of a fragment that were sent: first those of its header. Returns how many were payload. */
static size_t count_sent(leat_link *link, size_t sent)
{
    size_t header = sent < link->tx_header_left ? sent : link->tx_header_left;

    link->tx_header_left -= header;
    link->tx_left -= sent - header;
    link->sent_bytes += sent - header;
    return sent - header;
}

/* All payload of a send was given to the system. */
static void finish_send(leat_link *link, struct leatn_op *op)
{
    forget_want(op->want, link);
    op->want = NULL;
    if (op->kind == LEATN_OP_PUT && !op->done)
        return;
    leave_wire(op);
    announce_more(link);
}

/* Sends bytes of the fragment. Returns false if the socket is full, or the copy has failed. */
static bool send_payload(leat_link *link, struct leatn_op *op, const void *payload, size_t bytes)
{
    struct iovec parts[2] = {{link->tx_header + LEATN_HEADER_BYTES - link->tx_header_left, link->tx_header_left},
                             {(void *)payload, bytes < link->tx_left ? bytes : (size_t)link->tx_left}};
    int fd = link->connection.fd;
    ssize_t sent;

    link->tx_busy = true;
    pthread_mutex_unlock(&link->lock);
    sent = leatn_link_send(link, fd, parts, 2);
    pthread_mutex_lock(&link->lock);
    link->tx_busy = false;
    if (sent > 0)
        op->sent += count_sent(link, (size_t)sent);
    if (op->status != LEAT_OK) {
        /* The link has failed, or the other end has stopped the receive. The loop fills up the fragment, or closes
         * the socket, for which it waits for this thread. */
        give_turn_up(link, op);
        leatn_link_poke(link);
        leatn_link_want_out(link); /* frames, or the rest of a record, may wait for this thread */
        return false;
    }
    if (!leatn_link_was_sent(link, sent)) {
        link->tx_blocked = !link->tx_dead;
        return false;
    }
    if (!link->tx_left) {
        if (op->sent == op->bytes)
            finish_send(link, op);
        (void)leatn_link_flush(link);
        link->tx_op = NULL;
        next_turn(link);
    }
    return true;
}

void leatn_message_wait_to_send(leat_link *link, struct leatn_op *op)
{
    if (!op->queue)
        op_queue_add(&link->waiters, op);
}

void leatn_message_may_send(leat_link *link)
{
    struct leatn_op *op;

    while ((op = link->waiters.first)) {
        op_queue_remove(op);
        refresh(op);
    }
}

/* Sends a fragment by the carrier. Returns false if the send has to wait, or has failed. */
static bool carry(leat_link *link, struct leatn_op *op, const void *payload, size_t bytes)
{
    size_t sent;

    if (!op->want || op->want->credit <= op->sent)
        return false;
    sent = leatn_carrier_send(link, op, payload, bytes);
    if (!sent)
        return false;
    op->sent += sent;
    link->sent_bytes += sent;
    if (op->sent == op->bytes)
        finish_send(link, op);
    return true;
}

/* Returns how many of the bytes that move() was called with count as moved. The last byte of a put does so when
 * all bytes are in the region. */
static size_t moved_of(const struct leatn_op *op, uint64_t offset)
{
    size_t moved = (size_t)(op->sent - offset);

    return op->kind == LEATN_OP_PUT && op->sent == op->bytes && !op->done ? moved - 1 : moved;
}

static size_t send_move(void *object, uint64_t offset, void *memory, size_t bytes, leat_status *status)
{
    struct leatn_op *op = object;
    leat_link *link = op->link;
    size_t moved;

    leatn_link_lock(link);
    begin_op(link, op);
    while ((moved = moved_of(op, offset)) < bytes) {
        size_t at = (size_t)(op->sent - offset);

        *status = op->status != LEAT_OK ? op->status : LEAT_NOT_READY;
        if (op->status != LEAT_OK || at == bytes)
            break;
        if (link->carrier) {
            if (!carry(link, op, (const char *)memory + at, bytes - at) && op->status == LEAT_OK)
                break;
            continue;
        }
        if (link->tx_op != op || !link->tx_left) {
            if (!op->want || op->want->credit <= op->sent || !take_turn(link, op)) {
                if (op->status == LEAT_OK)
                    break;
                continue;
            }
            begin_fragment(link, op, bytes - at);
        }
        if (!send_payload(link, op, (const char *)memory + at, bytes - at) && op->status == LEAT_OK)
            break;
    }
    if (offset + moved == op->bytes)
        uncount(op);
    refresh(op);
    leatn_link_unlock(link);
    return moved;
}

/* ---- sending on the loop ---- */

/* Fills up the fragment of a send that has ended. Returns false if the socket is full. */
static bool fill_up(leat_link *link)
{
    while (link->tx_left || link->tx_header_left) {
        struct iovec parts[2] = {
            {link->tx_header + LEATN_HEADER_BYTES - link->tx_header_left, link->tx_header_left},
            {zeros, link->tx_left < sizeof zeros ? (size_t)link->tx_left : sizeof zeros}};
        ssize_t sent = leatn_link_send(link, link->connection.fd, parts, 2);

        if (!leatn_link_was_sent(link, sent))
            return false;
        link->sent_bytes -= count_sent(link, (size_t)sent); /* zeros are no payload */
    }
    link->tx_fill = false;
    return true;
}

void leatn_message_writable(leat_link *link)
{
    if (link->failed && !link->closing)
        return;
    link->tx_blocked = false;
    if (link->tx_fill && fill_up(link)) {
        (void)leatn_link_flush(link);
        next_turn(link);
    }
    if (!link->tx_fill && !link->tx_left)
        link->tx_blocked = !leatn_link_flush(link) && link->tx_op;
    if (link->tx_op)
        refresh(link->tx_op);
}

/* ---- ends ---- */

/* Lets an op fail that is not complete on the wire, and takes it out of all tables. */
static void fail_with_link(leat_link *link, struct leatn_op *op, const char *why)
{
    struct leatn_want *want = op->want;

    op->want = NULL;
    if (want)
        forget_want(want, link);
    fail_op(op, LEAT_ERROR_LINK, why);
    leave_wire(op);
}

void leatn_message_sending_ends(leat_link *link)
{
    struct leatn_op *next;

    for (struct leatn_op *op = link->ops; op; op = next) {
        next = op->next_op;
        if (op->wire && !receives(op))
            fail_with_link(link, op, "the other end takes no more bytes");
    }
    link->tx_op = NULL;
    link->tx_left = link->tx_header_left = 0;
    link->tx_fill = link->tx_blocked = false;
}

void leatn_message_fail_all(leat_link *link)
{
    struct leatn_op *next;

    if (link->tx_op)
        give_turn_up(link, link->tx_op);
    for (struct leatn_op *op = link->ops; op; op = next) {
        next = op->next_op;
        if (op->wire)
            fail_with_link(link, op, link->reason);
    }
    for (unsigned i = 0; i < LEATN_BUCKETS; i++)
        while (link->wants[i])
            forget_want(link->wants[i], link);
    link->fragment = NULL;
    if (!link->tx_busy)
        link->tx_op = NULL;
}

/* leat will not call move() any more. If the copy is not complete on the wire, tells the other end. */
static void end_op(leat_link *link, struct leatn_op *op)
{
    if (op->ended)
        return;
    op->ended = true;
    uncount(op);
    if (serves(op)) {
        atomic_store_explicit(&op->over, true, memory_order_relaxed);
        leatn_region_op_ended();
    }
    if (!op->wire) {
        stop_keeping(op);
        return;
    }
    if (op->queue == &link->unannounced) {
        leave_wire(op);
    } else if (op->want) {
        abandon_send(link, op, LEATN_FRAME_STOP, LEAT_ERROR_LINK);
    } else if (receives(op)) {
        op_queue_remove(op);
        queue_number(link, LEATN_FRAME_UNWANT, op->number, false);
        if (link->fragment == op) {
            op->arrived += link->fragment_left;
            link->fragment = NULL;
            link->read_more = !link->rx_busy && !link->want_in;
            leatn_link_poke(link);
        }
    }
    /* A send that is not matched stays in its queue: the receive that it would have met fails, and the later ones
     * meet the sends that they should. So does a put, until the other end answers. */
    (void)leatn_link_flush(link);
}

static void op_stop(void *object)
{
    struct leatn_op *op = object;

    leatn_link_lock(op->link);
    end_op(op->link, op);
    leatn_link_unlock(op->link);
}

static void op_release(void *object)
{
    struct leatn_op *op = object;
    leat_link *link = op->link;

    leatn_link_hold(link);
    leatn_link_lock(link);
    end_op(link, op);
    drop(op); // NOLINT(clang-analyzer-unix.Malloc): end_op() drops another reference
    announce_more(link);
    (void)leatn_link_flush(link);
    leatn_link_unlock(link);
    leatn_link_release(link);
}

/* ---- leat/storage.h ---- */

static int op_ready(const void *object)
{
    /* Acquire: see the comment at the field. */
    return atomic_load_explicit(&((const struct leatn_op *)object)->ready, memory_order_acquire);
}

static const char *name_of_kind(enum leatn_op_kind kind)
{
    static const char *const names[] = {"leat_send", "leat_receive", "leat_get",
                                        "leat_put",  "a leat_get",   "a leat_put"};

    return names[kind];
}

/* Writes what an op is: "leat_send of 5 bytes with tag 1 to tcp:node1:7000". */
static void print_op(char *text, size_t text_bytes, const struct leatn_op *op)
{
    const char *direction = receives(op) ? "from" : "to";

    if (op->name[0])
        snprintf(text, text_bytes, "%s of %llu bytes at offset %llu of region %s %s %s", name_of_kind(op->kind),
                 (unsigned long long)op->bytes, (unsigned long long)op->offset, op->name, direction,
                 op->link->connection.peer);
    else
        snprintf(text, text_bytes, "%s of %llu bytes with tag %llu %s %s", name_of_kind(op->kind),
                 (unsigned long long)op->bytes, (unsigned long long)op->tag, direction, op->link->connection.peer);
}

/* Only called after move() has failed, so why and status do not change any more. */
static void op_describe(const void *object, uint64_t offset, leat_status status, char *text, size_t text_bytes)
{
    const struct leatn_op *op = object;
    char what[400];

    (void)offset;
    (void)status;
    print_op(what, sizeof what, op);
    if (op->other_bytes)
        snprintf(text, text_bytes, "%s: the sizes differ: the other end receives %llu bytes", what,
                 (unsigned long long)op->other_bytes);
    else
        snprintf(text, text_bytes, "%s: %s", what, op->why ? op->why : "");
}

static const leat_storage_ops receive_ops = {.size = sizeof receive_ops,
                                             .move = receive_move,
                                             .ready = op_ready,
                                             .describe = op_describe,
                                             .release = op_release,
                                             .stop = op_stop};
static const leat_storage_ops send_ops = {.size = sizeof send_ops,
                                          .move = send_move,
                                          .ready = op_ready,
                                          .describe = op_describe,
                                          .release = op_release,
                                          .stop = op_stop};

const leat_storage_ops *leatn_op_storage(const struct leatn_op *op)
{
    return receives(op) ? &receive_ops : &send_ops;
}

/* ---- calls ---- */

void leatn_op_begin(struct leatn_op *op)
{
    leat_link *link = op->link;

    leatn_link_hold(link);
    leatn_link_lock(link);
    begin_op(link, op);
    leatn_link_unlock(link);
    leatn_link_release(link);
}

/* The arguments of a call. */
struct call {
    const char *call; /* its name, for messages */
    enum leatn_op_kind kind;
    leat_link *link;
    const char *name; /* of the region, or NULL */
    uint64_t tag, offset;
    void *memory;
    size_t bytes;
    const leat_copy_options *options;
    leat_ticket **ticket;
};

static leat_status check_name(const struct call *call)
{
    if (!call->name)
        return leatn_fail(LEAT_ERROR_INVALID, "%s: name is NULL", call->call);
    if (!call->name[0] || strlen(call->name) > LEATN_NAME_MAX)
        return leatn_fail(LEAT_ERROR_INVALID, "%s: the name of the region has %zu bytes; it must have 1 to %d",
                          call->call, strlen(call->name), LEATN_NAME_MAX);
    return LEAT_OK;
}

leat_status leatn_message_check_link(leat_link *link, const char *call, size_t bytes)
{
    leat_status status = LEAT_OK;

    leatn_link_lock(link);
    if (link->failed)
        status = leatn_fail(LEAT_ERROR_LINK, "%s of %zu bytes: the link to %s has failed: %s", call, bytes,
                            link->connection.peer, link->reason);
    leatn_link_unlock(link);
    return status;
}

static leat_status start(leat_stream *stream, const struct call *call)
{
    struct leatn_op *op;
    leat_status status;

    if (!call->link)
        return leatn_fail(LEAT_ERROR_HANDLE, "%s: link is NULL", call->call);
    if (call->kind == LEATN_OP_GET || call->kind == LEATN_OP_PUT)
        TRY(check_name(call));
    TRY(leatn_message_check_link(call->link, call->call, call->bytes));
    op = leatn_op_create(call->link, call->kind, call->tag, call->bytes);
    if (!op)
        return leatn_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the copy", call->call);
    op->offset = call->offset;
    if (call->name)
        memcpy(op->name, call->name, strlen(call->name));
    status = receives(op) ? leat_storage_read_start(stream, call->memory, leatn_op_storage(op), op, call->bytes,
                                                    call->options, call->ticket)
                          : leat_storage_write_start(stream, leatn_op_storage(op), op, call->memory, call->bytes,
                                                     call->options, call->ticket);
    if (status == LEAT_OK) {
        leatn_op_begin(op);
    } else {
        op_release(op); /* leat has not taken its reference */
        status = leatn_fail_in(status, "%s to or from %s", call->call, call->link->connection.peer);
    }
    leatn_op_release(op); // NOLINT(clang-analyzer-unix.Malloc): the reference of this call
    return status;
}

static leat_status start_with_ticket(leat_stream *stream, const struct call *call)
{
    if (!call->ticket)
        return leatn_fail(LEAT_ERROR_INVALID, "%s: ticket is NULL", call->call);
    return start(stream, call);
}

leat_status leat_send(leat_stream *stream, leat_link *link, uint64_t tag, const void *src, size_t bytes)
{
    return start(stream, &(struct call){.call = "leat_send",
                                        .kind = LEATN_OP_SEND,
                                        .link = link,
                                        .tag = tag,
                                        .memory = (void *)src,
                                        .bytes = bytes});
}

leat_status leat_send_start(leat_stream *stream, leat_link *link, uint64_t tag, const void *src, size_t bytes,
                            const leat_copy_options *options, leat_ticket **ticket)
{
    return start_with_ticket(stream, &(struct call){.call = "leat_send_start",
                                                    .kind = LEATN_OP_SEND,
                                                    .link = link,
                                                    .tag = tag,
                                                    .memory = (void *)src,
                                                    .bytes = bytes,
                                                    .options = options,
                                                    .ticket = ticket});
}

leat_status leat_receive(leat_stream *stream, void *dst, leat_link *link, uint64_t tag, size_t bytes)
{
    return start(stream, &(struct call){.call = "leat_receive",
                                        .kind = LEATN_OP_RECEIVE,
                                        .link = link,
                                        .tag = tag,
                                        .memory = dst,
                                        .bytes = bytes});
}

leat_status leat_receive_start(leat_stream *stream, void *dst, leat_link *link, uint64_t tag, size_t bytes,
                               const leat_copy_options *options, leat_ticket **ticket)
{
    return start_with_ticket(stream, &(struct call){.call = "leat_receive_start",
                                                    .kind = LEATN_OP_RECEIVE,
                                                    .link = link,
                                                    .tag = tag,
                                                    .memory = dst,
                                                    .bytes = bytes,
                                                    .options = options,
                                                    .ticket = ticket});
}

leat_status leat_get(leat_stream *stream, void *dst, leat_link *link, const char *name, uint64_t offset,
                     size_t bytes)
{
    return start(stream, &(struct call){.call = "leat_get",
                                        .kind = LEATN_OP_GET,
                                        .link = link,
                                        .name = name,
                                        .offset = offset,
                                        .memory = dst,
                                        .bytes = bytes});
}

leat_status leat_get_start(leat_stream *stream, void *dst, leat_link *link, const char *name, uint64_t offset,
                           size_t bytes, const leat_copy_options *options, leat_ticket **ticket)
{
    return start_with_ticket(stream, &(struct call){.call = "leat_get_start",
                                                    .kind = LEATN_OP_GET,
                                                    .link = link,
                                                    .name = name,
                                                    .offset = offset,
                                                    .memory = dst,
                                                    .bytes = bytes,
                                                    .options = options,
                                                    .ticket = ticket});
}

leat_status leat_put(leat_stream *stream, leat_link *link, const char *name, uint64_t offset, const void *src,
                     size_t bytes)
{
    return start(stream, &(struct call){.call = "leat_put",
                                        .kind = LEATN_OP_PUT,
                                        .link = link,
                                        .name = name,
                                        .offset = offset,
                                        .memory = (void *)src,
                                        .bytes = bytes});
}

leat_status leat_put_start(leat_stream *stream, leat_link *link, const char *name, uint64_t offset,
                           const void *src, size_t bytes, const leat_copy_options *options, leat_ticket **ticket)
{
    return start_with_ticket(stream, &(struct call){.call = "leat_put_start",
                                                    .kind = LEATN_OP_PUT,
                                                    .link = link,
                                                    .name = name,
                                                    .offset = offset,
                                                    .memory = (void *)src,
                                                    .bytes = bytes,
                                                    .options = options,
                                                    .ticket = ticket});
}
