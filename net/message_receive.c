/*
 * message_receive.c - moves payload from the socket into memory: in move(), and by the loop for receives whose
 * move() is not called for a while. See message.h.
 */
#include "message.h"

#include <stdlib.h>
#include <string.h>

#define STASH_BYTES ((uint64_t)256 << 10) /* the size of most pieces of a stash */
#define READS_MAX 64u                     /* the loop then looks at other links */

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
        leatn_op_leave_wire(op);
        leatn_announce_more(link);
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
        leatn_op_free_piece(op);
    return bytes;
}

/* Gives credit for memory that move() was called with, if the receive has no other. */
static void give_credit_for(struct leatn_op *op, size_t bytes)
{
    if (!leatn_op_needs_credit(op))
        return;
    op->granted += bytes;
    leatn_link_queue(
        op->link, &(struct leatn_frame){.type = LEATN_FRAME_CREDIT, .receive = op->number, .credit = op->granted},
        NULL, false);
    (void)leatn_link_flush(op->link);
}

/* Frees a piece of the stash that has no bytes, unless the loop may be filling it. */
static void free_empty_piece(struct leatn_op *op)
{
    struct leatn_stash *stash = op->stash;

    if (stash && !stash->block && stash->start == stash->end && !op->link->rx_busy)
        leatn_op_free_piece(op);
}

size_t leatn_receive_move(void *object, uint64_t offset, void *memory, size_t bytes, leat_status *status)
{
    struct leatn_op *op = object;
    leat_link *link = op->link;
    size_t moved = 0, got;

    (void)offset; /* is op->taken */
    leatn_link_lock(link);
    leatn_op_put_on_wire(link, op);
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
        leatn_op_give_credit(op);
    }
    if (op->taken == op->bytes) {
        leatn_op_uncount(op);
        leatn_op_give_reserve_up(op);
        leatn_announce_more(link);
        (void)leatn_link_flush(link);
    }
    leatn_op_refresh(op);
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
    leatn_op_add_piece(op, stash);
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
    leatn_op_refresh(op);
    leatn_op_drop(op);
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
            leatn_op_refresh(link->fragment);
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
    leatn_op_add_piece(op, stash);
    return stash;
}

void leatn_message_carried(leat_link *link, struct leatn_op *op, struct leatn_stash *stash, size_t bytes)
{
    stash->end = bytes;
    link->received_bytes += bytes;
    op->landed += bytes;
    leatn_op_refresh(op);
    /* A receive that has ended leaves with the GONE that answers its UNWANT. */
    if (op->landed == op->bytes && !op->ended) {
        leatn_op_leave_wire(op);
        leatn_announce_more(link);
        (void)leatn_link_flush(link);
    }
}
