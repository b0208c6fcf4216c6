/* send.c - "leat send": sends files to a "leat receive", piece by piece through memory of the host or a device. */
#include "cli.h"
#include "link_key.h"
#include "transfer.h"
#include "transfer_name.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cli_send_help[] =
    "Usage: leat send ADDRESS FILE... [--device NAME] [--key-file FILE] [--encrypt] [--json]\n\n"
    "Connects to a leat receive that listens at ADDRESS, and sends it the files. Both ends compute a checksum of the\n"
    "bytes. Addresses are tcp:HOST:PORT, unix:PATH, unix:@NAME or ucx:HOST:PORT.\n\n"
    "Options:\n"
    "  --device NAME    the bytes go through the memory of this device, such as cuda:1; without it through pinned\n"
    "                   memory of the host\n"
    "  --key-file FILE  the key that both ends know, for tcp: and ucx:; without it LEAT_LINK_KEY_FILE names the\n"
    "                   file. Make a key with: head -c 32 /dev/urandom > FILE; chmod 600 FILE\n"
    LINK_ENCRYPT_HELP
    "  --json           prints JSON\n"
    "  --help           this text\n\n"
    "Exit status 1 when a file was not sent, or the receiver refused it.\n";

struct send_options {
    const char *address, *device, *key_file;
    char **paths;
    size_t count;
    bool encrypt, json;
};

/* What sending one file ends with. */
enum send_result {
    SEND_GO_ON, /* sent, or refused before its first byte: the next file can follow */
    SEND_ENDED  /* after an error message: the transfer is over */
};

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool link_has_failed(const struct transfer *transfer)
{
    leat_link_info info = LEAT_LINK_INFO_INIT;

    return leat_link_get_info(transfer->link, &info) != LEAT_OK || info.status != LEAT_OK;
}

/* Returns true if the file could not be read. Then leat's message says why. */
static bool read_failed(const struct transfer *transfer)
{
    for (unsigned i = 0; i < TRANSFER_SLOTS; i++) {
        leat_ticket *ticket = transfer->slots[i].used ? transfer->slots[i].in : NULL;
        leat_ticket_info info = LEAT_TICKET_INFO_INIT;

        if (ticket && leat_ticket_get_info(ticket, &info) == LEAT_OK && info.status != LEAT_OK)
            return leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER) != LEAT_OK;
    }
    return false;
}

/* ---- pieces ---- */

static leat_status start_piece(struct transfer *transfer, struct transfer_slot *slot, leat_file *file,
                               uint64_t offset)
{
    unsigned tag = TRANSFER_TAG_PIECE + (unsigned)(slot - transfer->slots);
    leat_status status =
        leat_file_read_start(slot->stream, slot->memory, file, offset, slot->used, NULL, &slot->in);

    if (status == LEAT_OK && slot->bytes != slot->memory)
        status = leat_copy_start(slot->stream, slot->bytes, slot->memory, slot->used, NULL, &slot->look);
    if (status == LEAT_OK)
        status = leat_send_start(slot->stream, transfer->link, tag, slot->memory, slot->used, NULL, &slot->out);
    return status;
}

static enum transfer_wait send_pieces(struct transfer *transfer, leat_file *file)
{
    struct transfer_slot *slot;
    enum transfer_wait result;
    uint64_t offset = 0;

    for (;;) {
        result = transfer_next(transfer, &slot, &offset);
        if (result != TRANSFER_DONE)
            return result;
        if (!slot)
            return transfer_finish(transfer);
        if (start_piece(transfer, slot, file, offset) != LEAT_OK)
            return TRANSFER_FAILED;
        result = transfer_started(transfer, slot);
        if (result != TRANSFER_DONE)
            return result;
    }
}

/* ---- a file ---- */

/* Asks the receiver whether it takes the file. *taken tells. */
static bool offer(struct transfer *transfer, struct transfer_file *file, bool *taken)
{
    struct transfer_message message;
    char shown[TRANSFER_TEXT_MAX], why[TRANSFER_TEXT_MAX + 40];

    transfer_message_begin(&message, true, file->name);
    message.bytes = file->bytes;
    if (!transfer_send_message(transfer, TRANSFER_TAG_OFFER, &message) ||
        !transfer_receive_message(transfer, TRANSFER_TAG_ANSWER, &message))
        return false;
    *taken = message.ok;
    if (message.ok)
        return true;
    snprintf(why, sizeof why, "the receiver refuses it: %s", transfer_show(shown, sizeof shown, message.text));
    transfer_file_failed(transfer, file, why);
    return true;
}

/* Ends a transfer that failed at this end: tells the receiver why. */
static enum send_result give_up(struct transfer *transfer, struct transfer_file *file)
{
    struct transfer_message message;
    char why[TRANSFER_TEXT_MAX];

    snprintf(why, sizeof why, "%s", leat_last_error());
    transfer_file_failed(transfer, file, why);
    if (!link_has_failed(transfer)) {
        transfer_message_begin(&message, false, why);
        (void)transfer_send_message(transfer, TRANSFER_TAG_END, &message);
        if (transfer->early)
            (void)transfer_early_wait(transfer, &message);
    }
    return SEND_ENDED;
}

/* Ends a transfer that the receiver has stopped. */
static enum send_result was_stopped(struct transfer *transfer, struct transfer_file *file)
{
    char shown[TRANSFER_TEXT_MAX], why[TRANSFER_TEXT_MAX + 40];
    struct transfer_message message;

    if (!transfer_early_wait(transfer, &message)) {
        file->problem = strdup(leat_last_error());
        return SEND_ENDED;
    }
    snprintf(why, sizeof why, "the receiver gave up: %s", transfer_show(shown, sizeof shown, message.text));
    transfer_file_failed(transfer, file, why);
    return SEND_ENDED;
}

/* Sends the end of a file, and waits for the receiver's result. */
static enum send_result end_file(struct transfer *transfer, struct transfer_file *file)
{
    struct transfer_message message;

    transfer_message_begin(&message, true, "");
    message.checksum = transfer->checksum;
    message.bytes = file->bytes;
    /* If the receiver has given up, it may have closed the link, but its result is here. */
    if (transfer_try_message(transfer, TRANSFER_TAG_END, &message) != LEAT_OK ||
        leat_ticket_wait(transfer->early, LEAT_COPY_POINT_DONE, LEAT_FOREVER) != LEAT_OK ||
        !transfer->early_message.ok)
        return was_stopped(transfer, file);
    if (!transfer_early_wait(transfer, &message)) {
        file->problem = strdup("the result was no message of leat receive");
        return SEND_ENDED;
    }
    file->checksum = transfer->checksum;
    file->nanoseconds = message.nanoseconds;
    file->verified = message.checksum == transfer->checksum;
    if (file->verified)
        return SEND_GO_ON;
    transfer_file_failed(transfer, file, "the receiver computed another checksum");
    return SEND_ENDED;
}

static enum send_result send_open_file(struct transfer *transfer, struct transfer_file *file, leat_file *open)
{
    enum transfer_wait result;
    bool taken = false;

    if (!offer(transfer, file, &taken)) {
        file->problem = strdup(leat_last_error());
        return SEND_ENDED;
    }
    if (!taken)
        return SEND_GO_ON;
    if (!transfer_early_start(transfer, TRANSFER_TAG_RESULT)) {
        file->problem = strdup(leat_last_error());
        return SEND_ENDED;
    }
    transfer_file_begin(transfer, file->name, file->bytes);
    result = send_pieces(transfer, open);
    transfer_clear_bar(transfer);
    transfer->name = NULL;
    if (result == TRANSFER_DONE)
        return end_file(transfer, file);
    if (result == TRANSFER_STOPPED)
        return was_stopped(transfer, file);
    /* A send also fails when the receiver has cancelled its receive. Its result then says why. */
    return read_failed(transfer) ? give_up(transfer, file) : was_stopped(transfer, file);
}

static enum send_result send_file(struct transfer *transfer, const char *path)
{
    struct transfer_file *file = transfer_file_add(transfer, name_of(path), 0);
    enum send_result result = SEND_GO_ON;
    leat_file *open = NULL;

    if (!file)
        return SEND_ENDED;
    if (leat_file_open(path, LEAT_FILE_READ, &open) != LEAT_OK || leat_file_size(open, &file->bytes) != LEAT_OK)
        transfer_file_failed(transfer, file, leat_last_error());
    else if (strlen(file->name) > TRANSFER_NAME_MAX)
        transfer_file_failed(transfer, file, "the name is longer than 255 bytes");
    else
        result = send_open_file(transfer, file, open);
    if (result == SEND_ENDED)
        transfer_cancel(transfer);
    leat_file_close(open);
    return result;
}

/* ---- the command ---- */

/* Tells the receiver that no file follows, and waits until it knows, because closing the link ends it. */
static bool end_transfer(struct transfer *transfer)
{
    struct transfer_message message;

    transfer_message_begin(&message, false, "");
    return transfer_send_message(transfer, TRANSFER_TAG_OFFER, &message) &&
           transfer_receive_message(transfer, TRANSFER_TAG_RESULT, &message);
}

static bool connect_link(struct transfer *transfer, const struct send_options *options)
{
    struct link_key key;
    leat_link_options link_options;
    bool fine;

    if (!link_key_read("send", options->address, options->key_file, &key))
        return false;
    link_options = link_key_options(&key, options->encrypt);
    fine = leat_connect(options->address, &link_options, &transfer->link) == LEAT_OK;
    link_key_erase(&key);
    return fine || transfer_complain(transfer, "");
}

static int run_send(const struct send_options *options)
{
    struct transfer transfer = {.command = "send", .json = options->json};
    enum send_result result = SEND_GO_ON;
    bool fine = connect_link(&transfer, options) && transfer_open(&transfer, options->device);

    for (size_t i = 0; fine && i < options->count && result == SEND_GO_ON; i++)
        result = send_file(&transfer, options->paths[i]);
    if (fine) {
        fine = result == SEND_GO_ON && end_transfer(&transfer);
        fine = transfer_report(&transfer) && fine;
    }
    transfer_close(&transfer);
    return fine ? CLI_OK : CLI_FAILED;
}

static int parse(int argc, char **argv, struct send_options *options)
{
    static const struct option names[] = {{"device", required_argument, NULL, 'd'},
                                          {"key-file", required_argument, NULL, 'k'},
                                          {"encrypt", no_argument, NULL, 'e'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, ":h", names, NULL)) != -1) {
        switch (option) {
        case 'd':
            options->device = optarg;
            break;
        case 'k':
            options->key_file = optarg;
            break;
        case 'e':
            options->encrypt = true;
            break;
        case 'j':
            options->json = true;
            break;
        case 'h':
            fputs(cli_send_help, stdout);
            return -1;
        default:
            return cli_bad_option(argc, argv, option);
        }
    }
    if (argc - optind < 2) {
        cli_complain("send: where to, and which files? leat send tcp:HOST:PORT FILE...; see leat help send");
        return CLI_USAGE;
    }
    options->address = argv[optind];
    options->paths = argv + optind + 1;
    options->count = (size_t)(argc - optind - 1);
    return CLI_OK;
}

int cli_send(int argc, char **argv)
{
    struct send_options options = {0};
    int status = parse(argc, argv, &options);

    return status == CLI_OK ? run_send(&options) : status < 0 ? CLI_OK : status;
}
