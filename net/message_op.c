/* message_op.c - ops and wants: references, queues and tables, credit and the memory for payload. See message.h.
 */
#include "message.h"

#include "carrier.h"

#include <stdlib.h>
#include <string.h>

/* ---- queues and tables ---- */

void leatn_op_queue_add(struct leatn_op_queue *queue, struct leatn_op *op)
{
    op->queue = queue;
    op->next_in = NULL;
    op->in_place = queue->end;
    *queue->end = op;
    queue->end = &op->next_in;
}

void leatn_op_queue_remove(struct leatn_op *op)
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

void leatn_want_queue_add(struct leatn_want_queue *queue, struct leatn_want *want)
{
    want->next_in = NULL;
    want->in_place = queue->end;
    *queue->end = want;
    queue->end = &want->next_in;
}

void leatn_want_queue_remove(struct leatn_want_queue *queue, struct leatn_want *want)
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

struct leatn_op *leatn_op_find(struct leatn_op *const *table, uint64_t number)
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

struct leatn_want *leatn_want_find(const leat_link *link, uint64_t number)
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

bool leatn_op_needs_credit(const struct leatn_op *op)
{
    bool announced = op->wire && op->number && !op->ended;

    return announced && !op->reserve && op->granted == op->taken && op->taken < op->bytes;
}

/* Returns true if move() of a receive can move a byte now, or can give credit. */
static bool receive_is_ready(const struct leatn_op *op)
{
    const leat_link *link = op->link;

    if ((op->stash && op->stash->start < op->stash->end) || leatn_op_needs_credit(op))
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

void leatn_op_refresh(struct leatn_op *op)
{
    bool ready =
        op->status != LEAT_OK || !op->begun || (leatn_op_receives(op) ? receive_is_ready(op) : send_is_ready(op));

    if (ready && !atomic_load_explicit(&op->ready, memory_order_relaxed))
        op->link->wake = true;
    atomic_store_explicit(&op->ready, ready, memory_order_release);
}

void leatn_op_uncount(struct leatn_op *op)
{
    if (op->counted)
        *(leatn_op_receives(op) ? &op->link->receives : &op->link->sends) -= 1;
    op->counted = false;
}

void leatn_op_fail(struct leatn_op *op, leat_status status, const char *why)
{
    leatn_op_uncount(op);
    if (op->status == LEAT_OK) {
        op->why = why;
        op->status = status;
    }
    leatn_op_refresh(op);
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
    *(leatn_op_receives(op) ? &link->receives : &link->sends) += 1;
    op->counted = true;
    leatn_link_unlock(link);
    return op;
}

void leatn_op_free_piece(struct leatn_op *op)
{
    struct leatn_stash *stash = op->stash;

    op->stash = stash->next;
    if (!op->stash)
        op->stash_end = &op->stash;
    if (stash->block)
        leatn_carrier_give_back(op->link, stash);
    free(stash);
}

void leatn_op_add_piece(struct leatn_op *op, struct leatn_stash *stash)
{
    stash->next = NULL;
    *op->stash_end = stash;
    op->stash_end = &stash->next;
}

void leatn_op_give_reserve_up(struct leatn_op *op)
{
    op->link->reserved -= op->reserve;
    op->reserve = 0;
}

void leatn_op_drop(struct leatn_op *op)
{
    if (--op->holders)
        return;
    *op->op_place = op->next_op;
    if (op->next_op)
        op->next_op->op_place = op->op_place;
    while (op->stash)
        leatn_op_free_piece(op);
    leatn_op_give_reserve_up(op);
    leatn_link_release(op->link);
    free(op);
}

void leatn_op_hold(struct leatn_op *op)
{
    op->holders++;
}

void leatn_op_release(struct leatn_op *op)
{
    leat_link *link = op->link;

    leatn_link_hold(link);
    leatn_link_lock(link);
    leatn_op_drop(op);
    leatn_link_unlock(link);
    leatn_link_release(link);
}

/* ---- what the other end knows ---- */

void leatn_link_queue_number(leat_link *link, enum leatn_frame_type type, uint64_t receive, bool answer)
{
    leatn_link_queue(link, &(struct leatn_frame){.type = type, .receive = receive}, NULL, answer);
}

void leatn_link_queue_stop(leat_link *link, uint64_t receive, leat_status status)
{
    leatn_link_queue(link, &(struct leatn_frame){.type = LEATN_FRAME_STOP, .receive = receive, .status = status},
                     NULL, true);
}

static bool asks(const struct leatn_op *op)
{
    return op->kind == LEATN_OP_GET || op->kind == LEATN_OP_PUT;
}

void leatn_op_stop_keeping(struct leatn_op *op)
{
    if (!op->ended || op->link->rx_busy || op->link->carrier)
        return;
    while (op->stash)
        leatn_op_free_piece(op);
    leatn_op_give_reserve_up(op);
}

void leatn_op_leave_wire(struct leatn_op *op)
{
    leat_link *link = op->link;

    if (!op->wire)
        return;
    op->wire = false;
    leatn_op_stop_keeping(op);
    leatn_op_queue_remove(op);
    if (op->number) {
        op_table_remove(op->kind == LEATN_OP_PUT ? link->puts : link->numbered, op);
        link->announced -= leatn_op_receives(op);
        link->asked -= asks(op);
    }
    leatn_op_drop(op);
}

void leatn_want_forget(struct leatn_want *want, leat_link *link)
{
    struct leatn_want **place = &link->wants[want->number % LEATN_BUCKETS];

    while (*place != want)
        place = &(*place)->next_number;
    *place = want->next_number;
    leatn_want_queue_remove(&link->wants_by_tag[leatn_bucket_of_tag(want->tag)], want);
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
            leatn_op_queue_add(&link->unreserved, op);
        frame.credit = op->granted = op->reserve;
        op_table_add(link->numbered, op);
        leatn_op_refresh(op);
    }
    frame.tail_bytes = asks(op) ? (uint32_t)strlen(op->name) : 0;
    link->announced += leatn_op_receives(op);
    link->asked += asks(op);
    leatn_link_queue(link, &frame, op->name, false);
}

/* Returns true if the other end may be told of one more op. */
static bool may_announce(const leat_link *link, const struct leatn_op *op)
{
    return (!leatn_op_receives(op) || link->announced < LEATN_RECEIVES_MAX) &&
           (!asks(op) || link->asked < LEATN_PUTS_MAX);
}

void leatn_op_give_credit(struct leatn_op *op)
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
        leatn_op_queue_remove(op);
        leatn_op_refresh(op);
        leatn_op_give_credit(op); /* the link may fail there, and op end */
    }
}

void leatn_announce_more(leat_link *link)
{
    struct leatn_op *op;

    reserve_more(link);

    while (!link->failed && (op = link->unannounced.first) && may_announce(link, op)) {
        leatn_op_queue_remove(op);
        announce(link, op);
    }
}
