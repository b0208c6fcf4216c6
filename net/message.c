/*
 * message.c - the calls that send, receive, get and put; how an op begins and ends; and the functions by which
 * leat's workers know it (leat/storage.h). See message.h.
 */
#include "message.h"

#include <stdio.h>
#include <string.h>

/* Messages of up to this size are moved by the call and by the loop, without a worker, if the socket has room
 * or bytes at that time. */
#define HERE_BYTES ((size_t)64 << 10)

/* ---- the begin of an op ---- */

/* Matches what this end does for a get with the receive of the other end. */
static void begin_get(leat_link *link, struct leatn_op *op)
{
    struct leatn_want *want = leatn_want_find(link, op->served);

    if (!want) {
        /* The other end has ended its receive, or the link has failed. */
        leatn_op_fail(op, LEAT_ERROR_LINK, link->failed ? link->reason : "the other end has stopped its receive");
        return;
    }
    op->wire = true;
    op->holders++;
    leatn_match(link, op, want);
}

void leatn_op_put_on_wire(leat_link *link, struct leatn_op *op)
{
    struct leatn_want *want;

    if (op->begun)
        return;
    op->begun = true;
    if (op->ended) {
        /* It has 0 bytes, or leat has not accepted it. */
        want = op->kind == LEATN_OP_SERVE_GET ? leatn_want_find(link, op->served) : NULL;
        if (want)
            leatn_want_refuse(link, want, LEAT_ERROR_LINK);
    } else if (op->kind == LEATN_OP_SERVE_GET) {
        begin_get(link, op);
    } else if (link->failed) {
        leatn_op_fail(op, LEAT_ERROR_LINK, link->reason);
    } else {
        op->wire = true;
        op->holders++;
        if (op->kind == LEATN_OP_SEND) {
            leatn_match_send(link, op);
        } else {
            leatn_op_queue_add(&link->unannounced, op);
            leatn_announce_more(link);
        }
    }
    leatn_op_refresh(op);
    (void)leatn_link_flush(link);
}

/* ---- ends ---- */

/* Lets an op fail that is not complete on the wire, and takes it out of all tables. */
static void fail_with_link(leat_link *link, struct leatn_op *op, const char *why)
{
    struct leatn_want *want = op->want;

    op->want = NULL;
    if (want)
        leatn_want_forget(want, link);
    leatn_op_fail(op, LEAT_ERROR_LINK, why);
    leatn_op_leave_wire(op);
}

void leatn_message_sending_ends(leat_link *link)
{
    struct leatn_op *next;

    for (struct leatn_op *op = link->ops; op; op = next) {
        next = op->next_op;
        if (op->wire && !leatn_op_receives(op))
            fail_with_link(link, op, "the other end takes no more bytes");
    }
    link->tx_op = NULL;
    link->tx_left = link->tx_header_left = link->tx_end_left = 0;
    link->tx_fill = link->tx_blocked = false;
}

void leatn_message_fail_all(leat_link *link)
{
    struct leatn_op *next;

    if (link->tx_op)
        leatn_send_give_turn_up(link, link->tx_op);
    for (struct leatn_op *op = link->ops; op; op = next) {
        next = op->next_op;
        if (op->wire)
            fail_with_link(link, op, link->reason);
    }
    for (unsigned i = 0; i < LEATN_BUCKETS; i++)
        while (link->wants[i])
            leatn_want_forget(link->wants[i], link);
    link->fragment = NULL;
    if (!link->tx_busy)
        link->tx_op = NULL;
}

/* Returns true for what this end does for the other end. */
static bool serves(const struct leatn_op *op)
{
    return op->kind == LEATN_OP_SERVE_GET || op->kind == LEATN_OP_SERVE_PUT;
}

/* leat will not call move() any more. If the copy is not complete on the wire, tells the other end. */
static void end_op(leat_link *link, struct leatn_op *op)
{
    if (op->ended)
        return;
    op->ended = true;
    leatn_op_uncount(op);
    if (serves(op)) {
        atomic_store_explicit(&op->over, true, memory_order_relaxed);
        leatn_region_op_ended();
    }
    if (!op->wire) {
        leatn_op_stop_keeping(op);
        return;
    }
    if (op->queue == &link->unannounced) {
        leatn_op_leave_wire(op);
    } else if (op->want) {
        leatn_send_abandon(link, op, LEATN_FRAME_STOP, LEAT_ERROR_LINK);
    } else if (leatn_op_receives(op)) {
        leatn_op_queue_remove(op);
        leatn_link_queue_number(link, LEATN_FRAME_UNWANT, op->number, false);
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

/* An op that was stopped before its first move() gets its turn on the wire all the same, so that it fails at the
 * other end too, and the later ones meet those that they should. */
static void op_stop(void *object)
{
    struct leatn_op *op = object;

    leatn_link_lock(op->link);
    if (op->bytes)
        leatn_op_put_on_wire(op->link, op);
    end_op(op->link, op);
    leatn_announce_more(op->link);
    (void)leatn_link_flush(op->link);
    leatn_link_unlock(op->link);
}

static void op_release(void *object)
{
    struct leatn_op *op = object;
    leat_link *link = op->link;

    leatn_link_hold(link);
    leatn_link_lock(link);
    end_op(link, op);
    leatn_op_drop(op); // NOLINT(clang-analyzer-unix.Malloc): end_op() drops another reference
    leatn_announce_more(link);
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
    const char *direction = leatn_op_receives(op) ? "from" : "to";

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
                                             .move = leatn_receive_move,
                                             .ready = op_ready,
                                             .describe = op_describe,
                                             .release = op_release,
                                             .stop = op_stop,
                                             .here_bytes = HERE_BYTES};

static const leat_storage_ops send_ops = {.size = sizeof send_ops,
                                          .move = leatn_send_move,
                                          .ready = op_ready,
                                          .describe = op_describe,
                                          .release = op_release,
                                          .stop = op_stop,
                                          .here_bytes = HERE_BYTES};

const leat_storage_ops *leatn_op_storage(const struct leatn_op *op)
{
    return leatn_op_receives(op) ? &receive_ops : &send_ops;
}

/* ---- calls ---- */

void leatn_op_begin(struct leatn_op *op)
{
    leat_link *link = op->link;

    leatn_link_hold(link);
    leatn_link_lock(link);
    leatn_op_put_on_wire(link, op);
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
        return leatc_fail(LEAT_ERROR_INVALID, "%s: name is NULL", call->call);
    if (!call->name[0] || strlen(call->name) > LEATN_NAME_MAX)
        return leatc_fail(LEAT_ERROR_INVALID, "%s: the name of the region has %zu bytes; it must have 1 to %d",
                          call->call, strlen(call->name), LEATN_NAME_MAX);
    return LEAT_OK;
}

leat_status leatn_message_check_link(leat_link *link, const char *call, size_t bytes)
{
    leat_status status = LEAT_OK;

    leatn_link_lock(link);
    if (link->failed)
        status = leatc_fail(LEAT_ERROR_LINK, "%s of %zu bytes: the link to %s has failed: %s", call, bytes,
                            link->connection.peer, link->reason);
    leatn_link_unlock(link);
    return status;
}

static leat_status start(leat_stream *stream, const struct call *call)
{
    struct leatn_op *op;
    leat_status status;

    if (!call->link)
        return leatc_fail(LEAT_ERROR_HANDLE, "%s: link is NULL", call->call);
    if (call->kind == LEATN_OP_GET || call->kind == LEATN_OP_PUT)
        TRY(check_name(call));
    TRY(leatn_message_check_link(call->link, call->call, call->bytes));
    op = leatn_op_create(call->link, call->kind, call->tag, call->bytes);
    if (!op)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the copy", call->call);
    op->offset = call->offset;
    if (call->name)
        memcpy(op->name, call->name, strlen(call->name));
    status = leatn_op_receives(op) ? leat_storage_read_start(stream, call->memory, leatn_op_storage(op), op,
                                                             call->bytes, call->options, call->ticket)
                                   : leat_storage_write_start(stream, leatn_op_storage(op), op, call->memory,
                                                              call->bytes, call->options, call->ticket);
    if (status == LEAT_OK) {
        leatn_op_begin(op);
    } else {
        op_release(op); /* leat has not taken its reference */
        status = leatc_fail_in(status, "%s to or from %s", call->call, call->link->connection.peer);
    }
    leatn_op_release(op); // NOLINT(clang-analyzer-unix.Malloc): the reference of this call
    return status;
}

static leat_status start_with_ticket(leat_stream *stream, const struct call *call)
{
    if (!call->ticket)
        return leatc_fail(LEAT_ERROR_INVALID, "%s: ticket is NULL", call->call);
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
