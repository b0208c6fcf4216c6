/*
 * message_layout.c - messages between layouts: leat_send_layout() and leat_receive_layout().
 *
 * The bytes travel packed, in the order of a C array, so the other end may be a plain leat_send() or
 * leat_receive(). An array that is packed in memory is sent and received in place. Any other one goes through
 * memory of the stream's device, which has room for the packed array: its stream packs it, sends it and frees the
 * memory, or receives into the memory, unpacks and frees. Pieces of the array cannot be copies of their own on the
 * stream: each would hold its part of the ring of pinned memory (leat/storage.h) from this call on, and the call
 * would have to wait for the other end when the rings hold all pinned memory.
 */
#include "message.h"

#include <leat/layout.h>
#include <leat/storage.h>

struct layout_call {
    const char *call; /* its name, for messages */
    bool send;
    leat_link *link;
    uint64_t tag;
    void *memory;
    const leat_layout *layout;
    const leat_copy_options *options;
    leat_ticket **ticket; /* NULL: the caller wants none */
};

/* The packed array of a call, in memory of the stream's device. */
struct packed {
    void *memory;
    size_t bytes;
    leat_layout layout;
};

/* Returns true if the elements lie without gaps in the order of a C array. */
static bool is_packed(const leat_layout *layout)
{
    uint64_t dense = layout->element_bytes; /* cannot overflow below: leat_layout_count() has succeeded */

    if (layout->index)
        return false;
    for (uint32_t i = layout->dims; i-- > 0;) {
        if (layout->size[i] != 1 && (uint64_t)layout->stride_bytes[i] != dense)
            return false;
        dense *= (uint64_t)layout->size[i];
    }
    return true;
}

/* Sends or receives an array that is packed, or has no elements. */
static leat_status start_in_place(leat_stream *stream, const struct layout_call *call, size_t bytes)
{
    void *first = (void *)((uintptr_t)call->memory + (uintptr_t)call->layout->offset_bytes); // NOLINT

    if (call->send)
        return call->ticket
                   ? leat_send_start(stream, call->link, call->tag, first, bytes, call->options, call->ticket)
                   : leat_send(stream, call->link, call->tag, first, bytes);
    return call->ticket
               ? leat_receive_start(stream, first, call->link, call->tag, bytes, call->options, call->ticket)
               : leat_receive(stream, first, call->link, call->tag, bytes);
}

/* Submits the send of the packed array. */
static leat_status submit_send(leat_stream *stream, const struct layout_call *call, const struct packed *packed,
                               struct leatn_op *op, leat_ticket **ticket)
{
    TRY(leat_copy_layout(stream, packed->memory, &packed->layout, call->memory, call->layout));
    return leat_storage_write_start(stream, leatn_op_storage(op), op, packed->memory, packed->bytes, call->options,
                                    ticket);
}

/* Submits the receive and the copy that unpacks. If *ticket is set after a failure, the receive was submitted, and
 * the other end may know of it. So the copy's arguments are checked before. */
static leat_status submit_receive(leat_stream *stream, const struct layout_call *call, const struct packed *packed,
                                  struct leatn_op *op, leat_ticket **ticket)
{
    char text[64]; /* not used */

    TRY(leat_copy_layout_explain(stream, call->memory, call->layout, packed->memory, &packed->layout, text,
                                 sizeof text));
    TRY(leat_storage_read_start(stream, packed->memory, leatn_op_storage(op), op, packed->bytes, call->options,
                                ticket));
    leatn_op_begin(op); /* the next call may wait for the stream, and so for the message */
    TRY(leat_copy_layout(stream, call->memory, call->layout, packed->memory, &packed->layout));
    return call->ticket ? leat_ticket_extend(*ticket, stream) : LEAT_OK;
}

/* Makes the op, and submits the message to the stream. */
static leat_status submit(leat_stream *stream, const struct layout_call *call, const struct packed *packed)
{
    enum leatn_op_kind kind = call->send ? LEATN_OP_SEND : LEATN_OP_RECEIVE;
    struct leatn_op *op = leatn_op_create(call->link, kind, call->tag, packed->bytes);
    leat_ticket *ticket = NULL;
    leat_status status;

    if (!op)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the copy");
    status = call->send ? submit_send(stream, call, packed, op, &ticket)
                        : submit_receive(stream, call, packed, op, &ticket);
    if (status == LEAT_OK) {
        leatn_op_begin(op);
    } else if (ticket) {
        (void)leat_ticket_cancel(ticket); /* a receive that cannot be unpacked */
    } else {
        leatn_op_storage(op)->release(op); /* leat has not taken its reference */
    }
    leatn_op_release(op);
    if (status == LEAT_OK && call->ticket)
        *call->ticket = ticket;
    else
        (void)leat_ticket_destroy(ticket);
    return status;
}

static leat_status start_packed(leat_stream *stream, const struct layout_call *call, size_t bytes)
{
    struct packed packed = {.bytes = bytes};
    leat_status status;

    TRY(leatn_message_check_link(call->link, call->call, bytes));
    TRY(leat_layout_dense(&packed.layout, call->layout->dims, call->layout->size, call->layout->element_bytes));
    TRY(leat_alloc(stream, bytes, &packed.memory));
    status = submit(stream, call, &packed);
    /* In stream order, also if a step failed. If this fails, the memory stays allocated until the device is
     * closed. */
    (void)leat_free(stream, packed.memory);
    return status;
}

static leat_status start(leat_stream *stream, const struct layout_call *call)
{
    uint64_t elements, bytes;
    leat_status status;

    if (!call->link)
        return leatc_fail(LEAT_ERROR_HANDLE, "%s: link is NULL", call->call);
    status = leat_layout_count(call->layout, &elements, &bytes);
    if (status == LEAT_OK && (!bytes || is_packed(call->layout)))
        return start_in_place(stream, call, (size_t)bytes);
    if (status == LEAT_OK)
        status = start_packed(stream, call, (size_t)bytes);
    return status == LEAT_OK ? status
                             : leatc_fail_in(status, "%s to or from %s", call->call, call->link->connection.peer);
}

static leat_status start_with_ticket(leat_stream *stream, const struct layout_call *call)
{
    if (!call->ticket)
        return leatc_fail(LEAT_ERROR_INVALID, "%s: ticket is NULL", call->call);
    return start(stream, call);
}

leat_status leat_send_layout(leat_stream *stream, leat_link *link, uint64_t tag, const void *src,
                             const leat_layout *layout)
{
    return start(stream, &(struct layout_call){.call = "leat_send_layout",
                                               .send = true,
                                               .link = link,
                                               .tag = tag,
                                               .memory = (void *)src,
                                               .layout = layout});
}

leat_status leat_send_layout_start(leat_stream *stream, leat_link *link, uint64_t tag, const void *src,
                                   const leat_layout *layout, const leat_copy_options *options,
                                   leat_ticket **ticket)
{
    return start_with_ticket(stream, &(struct layout_call){.call = "leat_send_layout_start",
                                                           .send = true,
                                                           .link = link,
                                                           .tag = tag,
                                                           .memory = (void *)src,
                                                           .layout = layout,
                                                           .options = options,
                                                           .ticket = ticket});
}

leat_status leat_receive_layout(leat_stream *stream, void *dst, const leat_layout *layout, leat_link *link,
                                uint64_t tag)
{
    return start(stream,
                 &(struct layout_call){
                     .call = "leat_receive_layout", .link = link, .tag = tag, .memory = dst, .layout = layout});
}

leat_status leat_receive_layout_start(leat_stream *stream, void *dst, const leat_layout *layout, leat_link *link,
                                      uint64_t tag, const leat_copy_options *options, leat_ticket **ticket)
{
    return start_with_ticket(stream, &(struct layout_call){.call = "leat_receive_layout_start",
                                                           .link = link,
                                                           .tag = tag,
                                                           .memory = dst,
                                                           .layout = layout,
                                                           .options = options,
                                                           .ticket = ticket});
}
