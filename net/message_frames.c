/* message_frames.c - acts on frames of the other end, and matches sends with the receives that want them. See
 * message.h.
 */
#include "message.h"

#include "carrier.h"

#include <stdlib.h>
#include <string.h>

/* ---- matching ---- */

void leatn_match(leat_link *link, struct leatn_op *op, struct leatn_want *want)
{
    op->want = want;
    want->op = op;
    leatn_op_queue_remove(op);
    leatn_want_queue_remove(&link->wants_by_tag[leatn_bucket_of_tag(want->tag)], want);
    if (op->ended || op->status != LEAT_OK) {
        leatn_send_abandon(link, op, LEATN_FRAME_STOP, LEAT_ERROR_LINK);
    } else if (op->bytes != want->bytes) {
        op->other_bytes = want->bytes;
        leatn_op_fail(op, LEAT_ERROR_RANGE, "the receive of the other end has another size");
        leatn_send_abandon(link, op, LEATN_FRAME_STOP, LEAT_ERROR_RANGE);
    } else {
        leatn_op_refresh(op);
    }
}

void leatn_match_send(leat_link *link, struct leatn_op *op)
{
    unsigned bucket = leatn_bucket_of_tag(op->tag);
    struct leatn_want *want = link->wants_by_tag[bucket].first;

    while (want && want->tag != op->tag)
        want = want->next_in;
    if (want)
        leatn_match(link, op, want);
    else
        leatn_op_queue_add(&link->sends_by_tag[bucket], op);
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

void leatn_want_refuse(leat_link *link, struct leatn_want *want, leat_status status)
{
    uint64_t number = want->number;

    leatn_want_forget(want, link); /* first, because the link may fail below, which ends all wants */
    leatn_link_queue_stop(link, number, status);
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
    want = leatn_want_find(link, receive);
    if (want)
        leatn_want_refuse(link, want, status);
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
    unsigned bucket = leatn_bucket_of_tag(frame->tag);
    struct leatn_op *op = link->sends_by_tag[bucket].first;
    struct leatn_want *want = add_want(link, frame, frame->bytes);

    if (!want)
        return;
    while (op && op->tag != frame->tag)
        op = op->next_in;
    if (op)
        leatn_match(link, op, want);
    else
        leatn_want_queue_add(&link->wants_by_tag[bucket], want);
}

static void take_credit(leat_link *link, const struct leatn_frame *frame)
{
    struct leatn_want *want = leatn_want_find(link, frame->receive);

    if (!want && frame->receive > link->last_want)
        leatn_link_fail(link, "the other end gave credit for a receive that it has not announced");
    else if (want && (frame->credit <= want->credit || frame->credit > want->bytes))
        leatn_link_fail(link, "the other end gave a wrong credit of %llu bytes for a receive of %llu bytes",
                        (unsigned long long)frame->credit, (unsigned long long)want->bytes);
    if (!want || link->failed)
        return;
    want->credit = frame->credit;
    if (want->op)
        leatn_op_refresh(want->op);
}

/* Returns the receive of a fragment. NULL: the link has failed, because the fragment is not as it should be. */
static struct leatn_op *receive_of_payload(leat_link *link, const struct leatn_frame *frame, uint64_t bytes,
                                           bool wrong)
{
    struct leatn_op *op = leatn_op_find(link->numbered, frame->receive);

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
        leatn_op_refresh(op);
    leatn_link_tick(link);
}

static void take_unwant(leat_link *link, const struct leatn_frame *frame)
{
    struct leatn_want *want = leatn_want_find(link, frame->receive);
    struct leatn_op *op = want ? want->op : NULL;

    if (!want && frame->receive > link->last_want) {
        leatn_link_fail(link, "the other end ended a receive that it has not announced");
        return;
    }
    if (op) {
        leatn_op_fail(op, LEAT_ERROR_LINK, "the other end has stopped its receive");
        leatn_send_abandon(link, op, LEATN_FRAME_GONE, LEAT_OK);
        return;
    }
    if (want)
        leatn_want_forget(want, link);
    leatn_link_queue_number(link, LEATN_FRAME_GONE, frame->receive, true);
}

static void take_gone(leat_link *link, const struct leatn_frame *frame)
{
    struct leatn_op *op = leatn_op_find(link->numbered, frame->receive);

    if (!op || !op->ended) {
        leatn_link_fail(link, "the other end ended a receive that nobody stopped");
        return;
    }
    leatn_op_leave_wire(op);
    leatn_announce_more(link);
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
    struct leatn_op *op = leatn_op_find(link->numbered, frame->receive);

    if (!op && frame->receive > link->last_number)
        leatn_link_fail(link, "the other end stopped a receive that does not exist");
    /* A receive that has ended: GONE will follow. A receive that is complete: its send failed while the last bytes
     * were on their way. */
    if (!op || op->ended)
        return;
    if (frame->status == LEAT_ERROR_RANGE && op->kind == LEATN_OP_RECEIVE)
        leatn_op_fail(op, LEAT_ERROR_RANGE, "the send of the other end has another size");
    else
        leatn_op_fail(op, frame->status, why_stopped(frame->status));
    leatn_op_leave_wire(op);
    leatn_announce_more(link);
}

static void take_want_put(leat_link *link, const struct leatn_frame *frame)
{
    struct leatn_op *op = leatn_op_find(link->puts, frame->put);
    struct leatn_want *want;

    if (!op || op->want || op->sent || frame->credit > op->bytes) {
        leatn_link_fail(link, "the other end accepted a put that does not exist, or twice");
        return;
    }
    want = add_want(link, frame, op->bytes);
    if (want)
        leatn_match(link, op, want);
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
    struct leatn_op *op = leatn_op_find(link->puts, frame->put);

    if (!op || op->done || (frame->status == LEAT_OK && !may_be_sent(op))) {
        leatn_link_fail(link, "the other end completed a put that does not exist, or too early");
        return;
    }
    if (frame->status == LEAT_OK) {
        op->done = true;
        leatn_op_refresh(op);
        if (op->sent < op->bytes)
            return; /* leatn_send_finish() follows */
    } else {
        leatn_op_fail(op, frame->status, why_stopped(frame->status));
        leatn_send_abandon(link, op, LEATN_FRAME_STOP, LEAT_ERROR_LINK);
    }
    leatn_op_leave_wire(op);
    leatn_announce_more(link);
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
        leatn_want_refuse(link, want, status);
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
