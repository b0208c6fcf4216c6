/*
 * transfer.h - what "leat send" and "leat receive" share: the link, the pieces under way, messages, progress and
 * reports.
 */
#ifndef CLI_TRANSFER_H
#define CLI_TRANSFER_H

#include "transfer_wire.h"

#include <leat/file.h>
#include <leat/leat.h>
#include <leat/link.h>
#include <stdbool.h>

/* A piece under way: its memory, and the copies into and out of it, in the order of its stream. */
struct transfer_slot {
    leat_stream *stream;
    void *memory;         /* TRANSFER_PIECE_BYTES of device memory; without --device, of pinned memory */
    unsigned char *bytes; /* the same bytes where the host can read them, for the checksum */
    size_t used;          /* size of the piece; 0: the slot is free */
    bool summed;          /* its bytes are in the checksum */
    leat_ticket *in;      /* into memory: a read of the file, or a receive */
    leat_ticket *look;    /* from memory to bytes; NULL if they are the same */
    leat_ticket *out;     /* out of memory: a send, or a write to the file; NULL if nothing is stored */
};

/* The totals of a command, and one file of it. */
struct transfer_file {
    char *name;
    char *path; /* of a received file: where it is; NULL if it was not stored */
    uint64_t bytes;
    uint64_t nanoseconds;
    uint32_t checksum;
    bool verified; /* both ends computed the same checksum */
    char *problem; /* why it was not transferred; NULL if it was */
};

struct transfer {
    const char *command; /* for messages */
    bool json;
    bool progress; /* standard error is a terminal */
    leat_device *device;
    char device_name[64];
    bool on_device; /* --device was given: the pieces go through its memory */
    leat_link *link;
    leat_stream *stream_in, *stream_out; /* of messages */
    struct transfer_slot slots[TRANSFER_SLOTS];

    /* The file under way. */
    const char *name;
    uint64_t bytes, started_bytes, done_bytes;
    uint32_t checksum;
    double begin, drawn; /* seconds: when the file began, and when the bar was drawn */
    struct transfer_message early_message;
    leat_ticket *early; /* a receive of early_message, by which the other end can stop the file; NULL: none */

    struct transfer_file *files;
    size_t file_count;
};

/* What waiting for a copy ends with. */
enum transfer_wait { TRANSFER_DONE, TRANSFER_FAILED, TRANSFER_STOPPED /* the early message came */ };

/* ---- beginning and end ---- */

/* Opens the device (NULL: the memory of the host), makes streams and the memory of the slots. Returns false after
 * an error message. Call transfer_close() in both cases. */
bool transfer_open(struct transfer *transfer, const char *device);
void transfer_close(struct transfer *transfer);

/* Prints "leat: COMMAND: WHAT: <leat's message>" and returns false. */
bool transfer_complain(struct transfer *transfer, const char *what);

double transfer_seconds_now(void);

/* ---- messages ---- */

/* Fills the fields that all messages have. */
void transfer_message_begin(struct transfer_message *message, bool ok, const char *text);

/* Sends a message, or receives one, and waits for it. They return false after an error message: the link failed,
 * or the message is not of this version of the command. */
bool transfer_send_message(struct transfer *transfer, enum transfer_tag tag,
                           const struct transfer_message *message);
leat_status transfer_try_message(struct transfer *transfer, enum transfer_tag tag,
                                 const struct transfer_message *message); /* without an error message */
bool transfer_receive_message(struct transfer *transfer, enum transfer_tag tag, struct transfer_message *message);

/* Starts to receive the message by which the other end may stop the file, and waits for it. */
bool transfer_early_start(struct transfer *transfer, enum transfer_tag tag);
bool transfer_early_wait(struct transfer *transfer, struct transfer_message *message);

/* ---- pieces ---- */

/* Begins a file. */
void transfer_file_begin(struct transfer *transfer, const char *name, uint64_t bytes);

/* Waits for a copy to reach a point, and draws the progress. Watches for the early message, if there is one. */
enum transfer_wait transfer_wait(struct transfer *transfer, leat_ticket *ticket, leat_copy_point point);

/* Returns the slot of the next piece, with its size, after the slot's last piece is complete; *slot is NULL when
 * there is no further piece. */
enum transfer_wait transfer_next(struct transfer *transfer, struct transfer_slot **slot, uint64_t *offset);

/* Call it after the copies of a slot were started. Adds an older piece to the checksum meanwhile. */
enum transfer_wait transfer_started(struct transfer *transfer, struct transfer_slot *slot);

/* Waits for all pieces. */
enum transfer_wait transfer_finish(struct transfer *transfer);

/* Cancels all pieces under way, and waits until their memory is free. */
void transfer_cancel(struct transfer *transfer);

void transfer_clear_bar(const struct transfer *transfer);

/* ---- the report: transfer_report.c ---- */

/* Adds a file to the report; the texts are copied. Returns NULL after an error message if memory is short. */
struct transfer_file *transfer_file_add(struct transfer *transfer, const char *name, uint64_t bytes);

/* Notes why a file was not transferred, and prints it. */
void transfer_file_failed(struct transfer *transfer, struct transfer_file *file, const char *why);

/* Prints the report, as text or JSON. Returns false if a file was not transferred, or the output failed. */
bool transfer_report(struct transfer *transfer);

#endif
