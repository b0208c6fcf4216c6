/* transfer.c - the pieces and messages of "leat send" and "leat receive"; see transfer.h. */
#include "transfer.h"
#include "cli.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { BAR_CHARACTERS = 30 };

static const uint64_t look_ns = 50000000; /* between two looks at the early message */
static const double draw_seconds = 0.1;

double transfer_seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

bool transfer_complain(struct transfer *transfer, const char *what)
{
    transfer_clear_bar(transfer);
    cli_complain("%s: %s%s%s", transfer->command, what, what[0] ? ": " : "", leat_last_error());
    return false;
}

/* ---- beginning and end ---- */

static leat_status make_slot(struct transfer *transfer, struct transfer_slot *slot)
{
    leat_kind kind = transfer->on_device ? LEAT_KIND_DEVICE : LEAT_KIND_PINNED;
    leat_status status = leat_stream_create(transfer->device, &slot->stream);
    void *bytes = NULL;

    if (status == LEAT_OK)
        status = leat_memory_alloc(transfer->device, kind, TRANSFER_PIECE_BYTES, &slot->memory);
    if (status == LEAT_OK && transfer->on_device)
        status = leat_memory_alloc(transfer->device, LEAT_KIND_PINNED, TRANSFER_PIECE_BYTES, &bytes);
    slot->bytes = transfer->on_device ? bytes : slot->memory;
    return status;
}

bool transfer_open(struct transfer *transfer, const char *device)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_status status = leat_device_open(device ? device : "cpu:0", &transfer->device);

    transfer->progress = isatty(STDERR_FILENO);
    transfer->on_device = device != NULL;
    if (status == LEAT_OK)
        status = leat_device_get_info(transfer->device, &info);
    if (status == LEAT_OK)
        status = leat_stream_create(transfer->device, &transfer->stream_in);
    if (status == LEAT_OK)
        status = leat_stream_create(transfer->device, &transfer->stream_out);
    for (unsigned i = 0; i < TRANSFER_SLOTS && status == LEAT_OK; i++)
        status = make_slot(transfer, &transfer->slots[i]);
    if (status != LEAT_OK)
        return transfer_complain(transfer, "");
    snprintf(transfer->device_name, sizeof transfer->device_name, "%s", device ? info.name : "host");
    return true;
}

void transfer_close(struct transfer *transfer)
{
    transfer_cancel(transfer);
    leat_ticket_destroy(transfer->early);
    leat_link_close(transfer->link);
    for (size_t i = 0; i < transfer->file_count; i++) {
        free(transfer->files[i].name);
        free(transfer->files[i].path);
        free(transfer->files[i].problem);
    }
    free(transfer->files);
    /* Closing the device frees its streams and memory. It may repeat a failure that was already reported. */
    leat_device_close(transfer->device);
}

/* ---- messages ---- */

void transfer_message_begin(struct transfer_message *message, bool ok, const char *text)
{
    memset(message, 0, sizeof *message);
    message->magic = TRANSFER_MAGIC;
    message->version = TRANSFER_VERSION;
    message->piece_bytes = TRANSFER_PIECE_BYTES;
    message->ok = ok;
    snprintf(message->text, sizeof message->text, "%s", text);
}

/* Returns true if a message is one of these commands. Otherwise prints what is wrong. */
static bool is_message(struct transfer *transfer, const struct transfer_message *message)
{
    if (message->magic == TRANSFER_MAGIC && message->version == TRANSFER_VERSION &&
        message->piece_bytes == TRANSFER_PIECE_BYTES && message->ok <= 1 &&
        memchr(message->text, '\0', sizeof message->text))
        return true;
    transfer_clear_bar(transfer);
    cli_complain("%s: the other end is not leat %s of this version (%s)", transfer->command,
                 !strcmp(transfer->command, "send") ? "receive" : "send", leat_version());
    return false;
}

/* Waits for a ticket of a message, and destroys it. */
static leat_status wait_message(leat_status status, leat_ticket *ticket)
{
    if (status == LEAT_OK)
        status = leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
    leat_ticket_destroy(ticket);
    return status;
}

leat_status transfer_try_message(struct transfer *transfer, enum transfer_tag tag,
                                 const struct transfer_message *message)
{
    leat_ticket *ticket = NULL;
    leat_status status =
        leat_send_start(transfer->stream_out, transfer->link, tag, message, sizeof *message, NULL, &ticket);

    return wait_message(status, ticket);
}

bool transfer_send_message(struct transfer *transfer, enum transfer_tag tag,
                           const struct transfer_message *message)
{
    return transfer_try_message(transfer, tag, message) == LEAT_OK || transfer_complain(transfer, "");
}

bool transfer_receive_message(struct transfer *transfer, enum transfer_tag tag, struct transfer_message *message)
{
    leat_ticket *ticket = NULL;
    leat_status status =
        leat_receive_start(transfer->stream_in, message, transfer->link, tag, sizeof *message, NULL, &ticket);

    if (wait_message(status, ticket) != LEAT_OK)
        return transfer_complain(transfer, "");
    return is_message(transfer, message);
}

bool transfer_early_start(struct transfer *transfer, enum transfer_tag tag)
{
    leat_status status = leat_receive_start(transfer->stream_in, &transfer->early_message, transfer->link, tag,
                                            sizeof transfer->early_message, NULL, &transfer->early);

    return status == LEAT_OK || transfer_complain(transfer, "");
}

bool transfer_early_wait(struct transfer *transfer, struct transfer_message *message)
{
    leat_ticket *ticket = transfer->early;

    transfer->early = NULL;
    if (wait_message(LEAT_OK, ticket) != LEAT_OK)
        return transfer_complain(transfer, "");
    if (!is_message(transfer, &transfer->early_message))
        return false;
    *message = transfer->early_message;
    return true;
}

/* ---- progress ---- */

void transfer_clear_bar(const struct transfer *transfer)
{
    if (!transfer->progress || !transfer->name)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
}

static uint64_t arrived_bytes(const struct transfer *transfer)
{
    uint64_t bytes = transfer->done_bytes;

    for (unsigned i = 0; i < TRANSFER_SLOTS; i++) {
        leat_ticket_info info = LEAT_TICKET_INFO_INIT;
        leat_ticket *ticket = transfer->slots[i].out ? transfer->slots[i].out : transfer->slots[i].in;

        if (transfer->slots[i].used && ticket && leat_ticket_get_info(ticket, &info) == LEAT_OK)
            bytes += info.arrived_bytes;
    }
    return bytes;
}

static void draw_bar(struct transfer *transfer)
{
    double now = transfer_seconds_now(), share;
    char bar[BAR_CHARACTERS + 1], arrived[TEXT_MAX], all[TEXT_MAX], rate[TEXT_MAX];
    uint64_t bytes;

    if (!transfer->progress || !transfer->bytes || now - transfer->drawn < draw_seconds)
        return;
    transfer->drawn = now;
    bytes = arrived_bytes(transfer);
    share = (double)bytes / (double)transfer->bytes;
    for (int i = 0; i < BAR_CHARACTERS; i++)
        bar[i] = i < (int)(share * (double)BAR_CHARACTERS) ? '#' : '.';
    bar[BAR_CHARACTERS] = '\0';
    fprintf(stderr, "\r\033[K%3.0f %% [%s] %s of %s, %s GB/s  %s", 100 * share, bar, text_bytes(arrived, bytes),
            text_bytes(all, transfer->bytes), text_figure(rate, (double)bytes * 1e-9 / (now - transfer->begin)),
            transfer->name);
    fflush(stderr);
}

/* ---- pieces ---- */

void transfer_file_begin(struct transfer *transfer, const char *name, uint64_t bytes)
{
    transfer->name = name;
    transfer->bytes = bytes;
    transfer->started_bytes = transfer->done_bytes = 0;
    transfer->checksum = 0;
    transfer->begin = transfer->drawn = transfer_seconds_now();
}

/* Returns true if the other end has given up, or the link has failed. */
static bool is_stopped(const struct transfer *transfer)
{
    leat_status status;

    if (!transfer->early)
        return false;
    status = leat_ticket_wait(transfer->early, LEAT_COPY_POINT_DONE, 0);
    /* An end with ok 1 may come while the last pieces are still on their way to memory. */
    return status != LEAT_NOT_READY && (status != LEAT_OK || transfer->early_message.ok != 1);
}

enum transfer_wait transfer_wait(struct transfer *transfer, leat_ticket *ticket, leat_copy_point point)
{
    for (;;) {
        leat_status status = leat_ticket_wait(ticket, point, look_ns);

        draw_bar(transfer);
        if (status == LEAT_OK)
            return TRANSFER_DONE;
        if (status != LEAT_NOT_READY)
            return TRANSFER_FAILED;
        if (is_stopped(transfer))
            return TRANSFER_STOPPED;
    }
}

/* Adds the bytes of a piece to the checksum, when the host has them. The pieces come in their order. */
static enum transfer_wait add_checksum(struct transfer *transfer, struct transfer_slot *slot)
{
    enum transfer_wait result;

    if (!slot->used || slot->summed)
        return TRANSFER_DONE;
    result = transfer_wait(transfer, slot->in, LEAT_COPY_POINT_DONE);
    if (result == TRANSFER_DONE && slot->look)
        result = transfer_wait(transfer, slot->look, LEAT_COPY_POINT_DONE);
    if (result != TRANSFER_DONE)
        return result;
    transfer->checksum = (uint32_t)crc32_z(transfer->checksum, slot->bytes, slot->used);
    slot->summed = true;
    return TRANSFER_DONE;
}

static void free_tickets(struct transfer_slot *slot)
{
    leat_ticket_destroy(slot->in);
    leat_ticket_destroy(slot->look);
    leat_ticket_destroy(slot->out);
    slot->in = slot->look = slot->out = NULL;
    slot->used = 0;
}

/* Waits until all copies of a slot are complete, so that it can take another piece. */
static enum transfer_wait retire(struct transfer *transfer, struct transfer_slot *slot)
{
    enum transfer_wait result = add_checksum(transfer, slot);

    if (result == TRANSFER_DONE && slot->out)
        result = transfer_wait(transfer, slot->out, LEAT_COPY_POINT_DONE);
    if (result != TRANSFER_DONE)
        return result;
    transfer->done_bytes += slot->used;
    free_tickets(slot);
    return TRANSFER_DONE;
}

static struct transfer_slot *slot_of(struct transfer *transfer, uint64_t piece)
{
    return &transfer->slots[piece % TRANSFER_SLOTS];
}

enum transfer_wait transfer_next(struct transfer *transfer, struct transfer_slot **slot, uint64_t *offset)
{
    uint64_t left = transfer->bytes - transfer->started_bytes;
    enum transfer_wait result;

    *slot = NULL;
    if (!left)
        return TRANSFER_DONE;
    if (is_stopped(transfer))
        return TRANSFER_STOPPED;
    *slot = slot_of(transfer, transfer->started_bytes / TRANSFER_PIECE_BYTES);
    result = retire(transfer, *slot);
    if (result != TRANSFER_DONE)
        return result;
    (*slot)->used = left < TRANSFER_PIECE_BYTES ? (size_t)left : TRANSFER_PIECE_BYTES;
    (*slot)->summed = false;
    *offset = transfer->started_bytes;
    return TRANSFER_DONE;
}

enum transfer_wait transfer_started(struct transfer *transfer, struct transfer_slot *slot)
{
    uint64_t piece = transfer->started_bytes / TRANSFER_PIECE_BYTES;

    transfer->started_bytes += slot->used;
    /* The pieces between are under way, so the host's time for the checksum is hidden. */
    return piece < TRANSFER_SLOTS / 2 ? TRANSFER_DONE
                                      : add_checksum(transfer, slot_of(transfer, piece - TRANSFER_SLOTS / 2));
}

enum transfer_wait transfer_finish(struct transfer *transfer)
{
    uint64_t piece = (transfer->bytes + TRANSFER_PIECE_BYTES - 1) / TRANSFER_PIECE_BYTES;

    /* From the oldest piece on, which is the one after the newest. */
    for (unsigned i = 0; i < TRANSFER_SLOTS; i++) {
        enum transfer_wait result = retire(transfer, slot_of(transfer, piece + i));

        if (result != TRANSFER_DONE)
            return result;
    }
    return TRANSFER_DONE;
}

void transfer_cancel(struct transfer *transfer)
{
    for (unsigned i = 0; i < TRANSFER_SLOTS; i++) {
        struct transfer_slot *slot = &transfer->slots[i];

        if (slot->in)
            leat_ticket_cancel(slot->in);
        if (slot->out)
            leat_ticket_cancel(slot->out);
    }
    for (unsigned i = 0; i < TRANSFER_SLOTS; i++) {
        struct transfer_slot *slot = &transfer->slots[i];

        if (slot->stream && slot->used)
            (void)leat_stream_synchronize(slot->stream); /* reports the failure again, which is known */
        free_tickets(slot);
    }
}
