/*
 * broadcast.c - implements leat_broadcast(): one copy that receives from one link and sends to others.
 *
 * A process in the middle of a tree passes bytes on from the memory into which they were received: the ring of
 * pinned memory, or the destination if that is host memory. So they are not read back from the device, and the
 * last process has them a few fragments later than the first, whatever their number. The receive and the sends are
 * ops as those of leat_receive() and leat_send() (message.h). leat has one object for all of them, whose functions
 * call theirs.
 *
 * move() is called again with the same memory until all sends have taken what is in it. That is the back-pressure:
 * a process receives no more than its slowest child takes.
 */
#include "message.h"

#include <stdio.h>
#include <stdlib.h>

/* Bytes are passed on in pieces of this size, or what is left of the memory: each piece is a frame of its own. */
#define PIECE_BYTES ((uint64_t)256 << 10)

struct child {
    struct leatn_op *op;
    uint64_t sent;
    uint64_t target; /* send up to here; is sent, or the end of bytes that are all in memory */
};

/* Used by the thread in move(), and by leat in ready() while no thread is there. */
struct broadcast {
    struct leatn_op *from; /* NULL at the root, whose memory has all bytes */
    uint64_t received;     /* how many bytes are in memory */
    bool hungry; /* memory has room for more bytes of from; at the root: move() has not looked at it yet */
    const struct leatn_op *failed; /* whose failure move() has returned */
    unsigned count;
    struct child children[];
};

static size_t move_op(struct leatn_op *op, uint64_t offset, void *memory, size_t bytes, leat_status *status)
{
    return leatn_op_storage(op)->move(op, offset, memory, bytes, status);
}

/* Receives into memory, which is for the bytes from begin to end. Returns true if some bytes came. */
static bool receive_some(struct broadcast *cast, char *memory, uint64_t begin, uint64_t end, leat_status *status)
{
    size_t got;

    if (!cast->from)
        cast->received = end;
    if (cast->received == end)
        return false;
    got = move_op(cast->from, cast->received, memory + (cast->received - begin), (size_t)(end - cast->received),
                  status);
    cast->received += got;
    if (*status < LEAT_OK)
        cast->failed = cast->from;
    return got;
}

/* Sends what is in memory to one child. Returns true if it took some bytes. */
static bool send_some(struct broadcast *cast, struct child *child, char *memory, uint64_t begin, uint64_t end,
                      leat_status *status)
{
    size_t sent;

    if (child->sent == child->target && (cast->received == end || cast->received - child->sent >= PIECE_BYTES))
        child->target = cast->received;
    if (child->sent == child->target)
        return false;
    sent = move_op(child->op, child->sent, memory + (child->sent - begin), (size_t)(child->target - child->sent),
                   status);
    child->sent += sent;
    if (*status < LEAT_OK)
        cast->failed = child->op;
    return sent;
}

/* Returns the end of the bytes that are in memory and that all children have taken. */
static uint64_t complete_until(const struct broadcast *cast)
{
    uint64_t least = cast->received;

    for (unsigned i = 0; i < cast->count; i++)
        least = cast->children[i].sent < least ? cast->children[i].sent : least;
    return least;
}

static size_t broadcast_move(void *object, uint64_t offset, void *memory, size_t bytes, leat_status *status)
{
    struct broadcast *cast = object;
    uint64_t end = offset + bytes;
    bool some = true;

    *status = LEAT_NOT_READY;
    while (some && complete_until(cast) < end && *status >= LEAT_OK) {
        some = receive_some(cast, memory, offset, end, status);
        for (unsigned i = 0; i < cast->count && *status >= LEAT_OK; i++)
            some |= send_some(cast, &cast->children[i], memory, offset, end, status);
    }
    cast->hungry = cast->received < end || complete_until(cast) == end;
    return (size_t)(complete_until(cast) - offset);
}

static int is_ready(struct leatn_op *op)
{
    return leatn_op_storage(op)->ready(op);
}

static int broadcast_ready(const void *object)
{
    const struct broadcast *cast = object;

    if (cast->from && cast->hungry && is_ready(cast->from))
        return 1;
    /* A child that has taken all bytes so far is ready too, but move() could do nothing for it. */
    for (unsigned i = 0; i < cast->count; i++)
        if (((!cast->from && cast->hungry) || cast->children[i].sent < cast->children[i].target) &&
            is_ready(cast->children[i].op))
            return 1;
    return 0;
}

static void broadcast_describe(const void *object, uint64_t offset, leat_status status, char *text,
                               size_t text_bytes)
{
    const struct broadcast *cast = object;

    if (cast->failed)
        leatn_op_storage(cast->failed)->describe(cast->failed, offset, status, text, text_bytes);
}

static void broadcast_stop(void *object)
{
    struct broadcast *cast = object;

    if (cast->from)
        leatn_op_storage(cast->from)->stop(cast->from);
    for (unsigned i = 0; i < cast->count; i++)
        leatn_op_storage(cast->children[i].op)->stop(cast->children[i].op);
}

static void broadcast_release(void *object)
{
    struct broadcast *cast = object;

    if (cast->from)
        leatn_op_storage(cast->from)->release(cast->from);
    for (unsigned i = 0; i < cast->count; i++)
        leatn_op_storage(cast->children[i].op)->release(cast->children[i].op);
    free(cast);
}

static const leat_storage_ops broadcast_ops = {.size = sizeof broadcast_ops,
                                               .move = broadcast_move,
                                               .ready = broadcast_ready,
                                               .describe = broadcast_describe,
                                               .release = broadcast_release,
                                               .stop = broadcast_stop};

/* ---- the calls ---- */

struct call {
    const char *call; /* its name, for messages */
    void *ptr;
    size_t bytes;
    leat_link *parent;
    leat_link *const *children;
    unsigned count;
    uint64_t tag;
    const leat_copy_options *options;
    leat_ticket **ticket;
};

/* All ops of a broadcast. */
struct leatn_op_list {
    unsigned count;
    struct leatn_op *ops[LEATN_CHILDREN_MAX + 1];
};

static void for_each(const struct leatn_op_list *list, void (*function)(struct leatn_op *op))
{
    for (unsigned i = 0; i < list->count; i++)
        function(list->ops[i]);
}

static leat_status check(const struct call *call)
{
    if (call->count && !call->children)
        return leatc_fail(LEAT_ERROR_INVALID, "%s: children is NULL, and count is %u", call->call, call->count);
    if (!call->parent && !call->count)
        return leatc_fail(LEAT_ERROR_INVALID, "%s: there is neither a parent nor a child", call->call);
    if (call->count > LEATN_CHILDREN_MAX)
        return leatc_fail(LEAT_ERROR_INVALID, "%s: %u children; at most %d are possible", call->call, call->count,
                          LEATN_CHILDREN_MAX);
    for (unsigned i = 0; i < call->count; i++)
        if (!call->children[i])
            return leatc_fail(LEAT_ERROR_HANDLE, "%s: children[%u] is NULL", call->call, i);
    return LEAT_OK;
}

/* Makes the object and its ops, of which list has all. */
static struct broadcast *create(const struct call *call, struct leatn_op_list *list)
{
    struct broadcast *cast = calloc(1, sizeof *cast + call->count * sizeof cast->children[0]);
    struct leatn_op *op;

    list->count = 0;
    for (unsigned i = 0; cast && i < call->count + (call->parent != NULL); i++) {
        bool parent = call->parent && i == call->count;

        op = leatn_op_create(parent ? call->parent : call->children[i], parent ? LEATN_OP_RECEIVE : LEATN_OP_SEND,
                             call->tag, call->bytes);
        if (!op)
            break;
        list->ops[list->count++] = op;
        if (parent)
            cast->from = op;
        else
            cast->children[cast->count++].op = op;
    }
    if (!cast || list->count == call->count + (call->parent != NULL))
        return cast;
    broadcast_release(cast);
    for_each(list, leatn_op_release);
    return NULL;
}

static leat_status start(leat_stream *stream, const struct call *call)
{
    struct leatn_op_list list;
    struct broadcast *cast;
    leat_status status;

    TRY(check(call));
    if (call->parent)
        TRY(leatn_message_check_link(call->parent, call->call, call->bytes));
    for (unsigned i = 0; i < call->count; i++)
        TRY(leatn_message_check_link(call->children[i], call->call, call->bytes));
    cast = create(call, &list);
    if (!cast)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "%s: no memory for the copy", call->call);
    cast->hungry = true;
    status = call->parent ? leat_storage_read_start(stream, call->ptr, &broadcast_ops, cast, call->bytes,
                                                    call->options, call->ticket)
                          : leat_storage_write_start(stream, &broadcast_ops, cast, call->ptr, call->bytes,
                                                     call->options, call->ticket);
    if (status == LEAT_OK)
        for_each(&list, leatn_op_begin);
    else
        broadcast_release(cast); /* leat has not taken it */
    for_each(&list, leatn_op_release);
    return status == LEAT_OK ? status : leatc_fail_in(status, "%s of %zu bytes", call->call, call->bytes);
}

leat_status leat_broadcast(leat_stream *stream, void *ptr, size_t bytes, uint64_t tag, leat_link *parent,
                           leat_link *const *children, unsigned count)
{
    return start(stream, &(struct call){.call = "leat_broadcast",
                                        .ptr = ptr,
                                        .bytes = bytes,
                                        .tag = tag,
                                        .parent = parent,
                                        .children = children,
                                        .count = count});
}

leat_status leat_broadcast_start(leat_stream *stream, void *ptr, size_t bytes, uint64_t tag, leat_link *parent,
                                 leat_link *const *children, unsigned count, const leat_copy_options *options,
                                 leat_ticket **ticket)
{
    if (!ticket)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_broadcast_start: ticket is NULL");
    return start(stream, &(struct call){.call = "leat_broadcast_start",
                                        .ptr = ptr,
                                        .bytes = bytes,
                                        .tag = tag,
                                        .parent = parent,
                                        .children = children,
                                        .count = count,
                                        .options = options,
                                        .ticket = ticket});
}
