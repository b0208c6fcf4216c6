/* message_send.c - the turns of sends, and payload from memory to the socket. See message.h. */
#include "message.h"

#include "carrier.h"

#include <errno.h>
#include <string.h>

/* The parts of a fragment: header, payload, and the fragment of the message's last byte. */
enum { PARTS = 3 };

/* Zeros for the rest of a fragment whose send has ended. */
static unsigned char zeros[65536];

/* ---- the turns of sends ---- */

/* Gives the turn to the next send that waits. */
static void next_turn(leat_link *link)
{
    struct leatn_op *op = link->waiters.first;

    link->tx_op = op;
    if (!op)
        return;
    leatn_op_queue_remove(op);
    leatn_op_refresh(op);
}

/* The send of the fragment has ended. Leaves out what the socket has not begun to take: the fragment as a whole, and
 * above all the last byte of the message, so that the receive of the other end is not complete. */
static void cut_fragment(leat_link *link)
{
    if (link->tx_end_left == sizeof link->tx_end) {
        link->tx_end_left = 0;
        link->tx_left--;
    }
    if (link->tx_header_left == LEATN_HEADER_BYTES)
        link->tx_header_left = link->tx_left = 0;
}

void leatn_send_give_turn_up(leat_link *link, struct leatn_op *op)
{
    if (link->tx_op != op || link->tx_busy)
        return; /* if it is busy, the worker will call again */
    link->tx_op = NULL;
    cut_fragment(link);
    if (link->tx_left) {
        link->tx_fill = true;
        leatn_link_want_out(link);
        return;
    }
    link->tx_blocked = false;
    next_turn(link);
}

void leatn_send_abandon(leat_link *link, struct leatn_op *op, enum leatn_frame_type answer, leat_status status)
{
    uint64_t number;

    if (!op->want)
        return;
    number = op->want->number;
    leatn_op_hold(op); /* the link may fail below, which ends all ops and wants */
    leatn_want_forget(op->want, link);
    op->want = NULL;
    if (answer == LEATN_FRAME_STOP)
        leatn_link_queue_stop(link, number, status);
    else
        leatn_link_queue_number(link, answer, number, true);
    if (op->queue == &link->waiters)
        leatn_op_queue_remove(op);
    leatn_send_give_turn_up(link, op);
    if (op->kind != LEATN_OP_PUT)
        leatn_op_leave_wire(op);
    leatn_op_drop(op);
}

/* ---- sending payload ---- */

/* Makes op the send whose turn it is, and sends all control frames. Returns false if it has to wait. */
static bool take_turn(leat_link *link, struct leatn_op *op)
{
    if ((link->tx_op && link->tx_op != op) || link->tx_fill) {
        if (!op->queue)
            leatn_op_queue_add(&link->waiters, op);
        return false;
    }
    link->tx_op = op;
    if (link->tx_left)
        return true;
    link->tx_blocked = !leatn_link_flush(link);
    return !link->tx_blocked && op->status == LEAT_OK;
}

/* Begins a fragment of at most bytes bytes of memory. The last byte of a message gets a fragment of its own, which
 * is sent in the same call: see tx_end. */
static void begin_fragment(leat_link *link, struct leatn_op *op, const void *memory, size_t bytes)
{
    struct leatn_frame frame = {.type = LEATN_FRAME_DATA, .receive = op->want->number, .offset = op->sent};
    uint64_t credit = op->want->credit - op->sent;
    size_t body;

    bytes = bytes < LEATN_FRAGMENT_MAX ? bytes : LEATN_FRAGMENT_MAX;
    bytes = bytes < credit ? bytes : (size_t)credit;
    link->tx_left = bytes;
    body = op->sent + bytes == op->bytes ? bytes - 1 : bytes;
    if (body) {
        frame.tail_bytes = (uint32_t)body;
        leatn_frame_encode(&frame, link->tx_header);
        link->tx_header_left = LEATN_HEADER_BYTES;
    }
    if (body < bytes) {
        frame.offset = op->sent + body;
        frame.tail_bytes = 1;
        leatn_frame_encode(&frame, link->tx_end);
        link->tx_end[LEATN_HEADER_BYTES] = ((const unsigned char *)memory)[body];
        link->tx_end_left = sizeof link->tx_end;
    }
}

/* Returns how many bytes of payload are left before the last byte of the message. */
static size_t body_left(const leat_link *link)
{
    return (size_t)link->tx_left - (link->tx_end_left > 0);
}

/* Fills parts with what is left of the fragment. The next bytes bytes of its payload are at payload. */
static void list_parts(leat_link *link, const void *payload, size_t bytes, struct iovec parts[PARTS])
{
    size_t body = body_left(link);

    bytes = bytes < body ? bytes : body;
    parts[0] = (struct iovec){link->tx_header + LEATN_HEADER_BYTES - link->tx_header_left, link->tx_header_left};
    parts[1] = (struct iovec){(void *)payload, bytes};
    parts[2] = (struct iovec){link->tx_end + sizeof link->tx_end - link->tx_end_left,
                              bytes == body ? link->tx_end_left : 0};
}

/* Counts bytes of these parts that were sent. Returns how many were payload. */
static size_t count_sent(leat_link *link, size_t sent)
{
    size_t header = sent < link->tx_header_left ? sent : link->tx_header_left, body = body_left(link), payload;

    sent -= header;
    link->tx_header_left -= header;
    payload = sent < body ? sent : body;
    sent -= payload;
    link->tx_end_left -= sent;
    payload += sent && !link->tx_end_left;
    link->tx_left -= payload;
    link->sent_bytes += payload;
    return payload;
}

void leatn_send_finish(leat_link *link, struct leatn_op *op)
{
    leatn_want_forget(op->want, link);
    op->want = NULL;
    if (op->kind == LEATN_OP_PUT && !op->done)
        return;
    leatn_op_leave_wire(op);
    leatn_announce_more(link);
}

/* Sends bytes of the fragment. Returns false if the socket is full, or the copy has failed. */
static bool send_payload(leat_link *link, struct leatn_op *op, const void *payload, size_t bytes)
{
    struct iovec parts[PARTS];
    int fd = link->connection.fd;
    ssize_t sent;

    list_parts(link, payload, bytes, parts);
    link->tx_busy = true;
    pthread_mutex_unlock(&link->lock);
    sent = leatn_link_send(link, fd, parts, PARTS);
    pthread_mutex_lock(&link->lock);
    link->tx_busy = false;
    if (sent > 0)
        op->sent += count_sent(link, (size_t)sent);
    if (op->status != LEAT_OK) {
        /* The link has failed, or the other end has stopped the receive. The loop fills up the fragment, or closes
         * the socket, for which it waits for this thread. */
        leatn_send_give_turn_up(link, op);
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
            leatn_send_finish(link, op);
        (void)leatn_link_flush(link);
        link->tx_op = NULL;
        next_turn(link);
    }
    return true;
}

void leatn_message_wait_to_send(leat_link *link, struct leatn_op *op)
{
    if (!op->queue)
        leatn_op_queue_add(&link->waiters, op);
}

void leatn_message_may_send(leat_link *link)
{
    struct leatn_op *op;

    while ((op = link->waiters.first)) {
        leatn_op_queue_remove(op);
        leatn_op_refresh(op);
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
    /* The carrier releases the lock, so the socket may have failed meanwhile, which ends the want. */
    if (op->want && op->sent == op->bytes)
        leatn_send_finish(link, op);
    return true;
}

/* Returns how many of the bytes that move() was called with count as moved. The last byte of a put does so when
 * all bytes are in the region. */
static size_t moved_of(const struct leatn_op *op, uint64_t offset)
{
    size_t moved = (size_t)(op->sent - offset);

    return op->kind == LEATN_OP_PUT && op->sent == op->bytes && !op->done ? moved - 1 : moved;
}

size_t leatn_send_move(void *object, uint64_t offset, void *memory, size_t bytes, leat_status *status)
{
    struct leatn_op *op = object;
    leat_link *link = op->link;
    size_t moved;

    leatn_link_lock(link);
    leatn_op_put_on_wire(link, op);
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
            begin_fragment(link, op, (const char *)memory + at, bytes - at);
        }
        if (!send_payload(link, op, (const char *)memory + at, bytes - at) && op->status == LEAT_OK)
            break;
    }
    if (offset + moved == op->bytes)
        leatn_op_uncount(op);
    leatn_op_refresh(op);
    leatn_link_unlock(link);
    return moved;
}

/* ---- sending on the loop ---- */

/* Fills up the fragment of a send that has ended. Returns false if the socket is full. */
static bool fill_up(leat_link *link)
{
    while (link->tx_left) {
        struct iovec parts[PARTS];
        ssize_t sent;

        list_parts(link, zeros, sizeof zeros, parts);
        sent = leatn_link_send(link, link->connection.fd, parts, PARTS);
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
        leatn_op_refresh(link->tx_op);
}
