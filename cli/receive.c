/* receive.c - "leat receive": receives files from a "leat send", piece by piece, into a folder or only into
 * memory. */
#include "cli.h"
#include "link_key.h"
#include "transfer.h"
#include "transfer_name.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

const char cli_receive_help[] =
    "Usage: leat receive ADDRESS [--into PATH] [--force] [--device NAME] [--key-file FILE] [--encrypt]\n"
    "                    [--timeout S] [--json]\n\n"
    "Listens at ADDRESS, prints the address with its real port to standard error, and receives the files of one leat\n"
    "send. A file has its name when all its bytes are on the disk and their checksum is that of the sender.\n"
    "Addresses are tcp:HOST:PORT (0.0.0.0 for all interfaces, port 0 for any port), unix:PATH, unix:@NAME and\n"
    "ucx:HOST:PORT.\n\n"
    "Options:\n"
    "  --into PATH      stores the files in this folder; if PATH is no folder, stores one file under this name.\n"
    "                   Without it the bytes go into memory and nowhere else: a measurement\n"
    "  --force          replaces files that exist\n"
    "  --device NAME    the bytes go through the memory of this device, such as cuda:1; without it through pinned\n"
    "                   memory of the host\n"
    "  --key-file FILE  the key that both ends know, for tcp: and ucx:; without it LEAT_LINK_KEY_FILE names the\n"
    "                   file. Make a key with: head -c 32 /dev/urandom > FILE; chmod 600 FILE\n"
    LINK_ENCRYPT_HELP
    "  --timeout S      gives up if nobody has connected in so many seconds\n"
    "  --json           prints JSON\n"
    "  --help           this text\n\n"
    "Exit status 1 when a file was refused or not received.\n";

struct receive_options {
    const char *address, *into, *device, *key_file;
    uint64_t timeout_ns;
    bool force, encrypt, json;
};

/* Where the files go. */
struct receive_place {
    const struct receive_options *options;
    bool folder; /* options->into is a folder */
};

enum receive_result {
    RECEIVE_GO_ON, /* received or refused: the next offer can follow */
    RECEIVE_ENDED  /* after the last offer, or an error message */
};

static bool link_has_failed(const struct transfer *transfer)
{
    leat_link_info info = LEAT_LINK_INFO_INIT;

    return leat_link_get_info(transfer->link, &info) != LEAT_OK || info.status != LEAT_OK;
}

/* ---- places ---- */

static bool find_place(const struct receive_options *options, struct receive_place *place)
{
    struct stat about;

    place->options = options;
    place->folder = false;
    if (!options->into)
        return true;
    place->folder = stat(options->into, &about) == 0 && S_ISDIR(about.st_mode);
    if (place->folder || options->into[strlen(options->into) - 1] != '/')
        return true;
    cli_complain("receive: --into %s: there is no such folder", options->into);
    return false;
}

/* Returns NULL if there is nothing at path, or it may be replaced; otherwise why not. */
static const char *occupied(const struct receive_options *options, const char *path)
{
    struct stat about;

    if (lstat(path, &about) != 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (S_ISDIR(about.st_mode))
        return "there is a folder of this name";
    return options->force ? NULL : "there is a file of this name, and the receiver was started without --force";
}

/* Returns NULL if the file system of a new file has room for it, otherwise why not. */
static const char *no_room(const char *path, uint64_t bytes)
{
    char folder[4096];
    char *slash;
    struct statvfs about;

    snprintf(folder, sizeof folder, "%.4095s", path);
    slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    if (statvfs(slash ? folder : ".", &about) != 0)
        return NULL; /* opening the file says why */
    return (uint64_t)about.f_bavail * about.f_frsize < bytes ? "the disk of the receiver has too little room"
                                                             : NULL;
}

/* Chooses the path of an offered file, and makes the file there without its name. Returns NULL, or why the file is
 * refused. */
static const char *make_file(const struct receive_place *place, const struct transfer *transfer,
                             struct transfer_file *file, leat_file **made)
{
    const struct receive_options *options = place->options;
    const char *problem;
    char path[4096 + TRANSFER_NAME_MAX + 2];

    if (!options->into)
        return NULL;
    if (place->folder) {
        problem = transfer_name_problem(file->name);
        if (problem)
            return problem;
        snprintf(path, sizeof path, "%.4095s/%s", options->into, file->name);
    } else {
        if (transfer->file_count > 1)
            return "the receiver stores one file only, because its --into is no folder";
        snprintf(path, sizeof path, "%s", options->into);
    }
    problem = occupied(options, path);
    if (!problem)
        problem = no_room(path, file->bytes);
    if (problem)
        return problem;
    if (leat_file_open(path, LEAT_FILE_WRITE | LEAT_FILE_TEMPORARY | (options->force ? 0u : LEAT_FILE_KEEP), made) !=
        LEAT_OK)
        return leat_last_error();
    file->path = strdup(path);
    return file->path ? NULL : "the receiver is out of memory";
}

/* ---- pieces ---- */

static leat_status start_piece(struct transfer *transfer, struct transfer_slot *slot, leat_file *file,
                               uint64_t offset)
{
    unsigned tag = TRANSFER_TAG_PIECE + (unsigned)(slot - transfer->slots);
    leat_status status =
        leat_receive_start(slot->stream, slot->memory, transfer->link, tag, slot->used, NULL, &slot->in);

    if (status == LEAT_OK && slot->bytes != slot->memory)
        status = leat_copy_start(slot->stream, slot->bytes, slot->memory, slot->used, NULL, &slot->look);
    if (status == LEAT_OK && file)
        status = leat_file_write_start(slot->stream, file, offset, slot->memory, slot->used, NULL, &slot->out);
    return status;
}

static enum transfer_wait receive_pieces(struct transfer *transfer, leat_file *file)
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

/* Gives a received file its name. */
static bool commit(struct transfer *transfer, const struct receive_place *place, struct transfer_file *file,
                   leat_file *made)
{
    const char *problem = occupied(place->options, file->path);
    leat_ticket *ticket = NULL;
    leat_status status;

    if (problem) { /* another process has made it meanwhile */
        leat_error_set(LEAT_ERROR_FILE, problem);
        return false;
    }
    status = leat_file_commit_start(transfer->slots[0].stream, made, NULL, &ticket);
    if (status == LEAT_OK)
        status = leat_ticket_wait(ticket, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER);
    leat_ticket_destroy(ticket);
    return status == LEAT_OK;
}

/* ---- a file ---- */

/* Returns true if a receive failed, and not the file or the device. */
static bool receive_failed(const struct transfer *transfer)
{
    for (unsigned i = 0; i < TRANSFER_SLOTS; i++) {
        leat_ticket *ticket = transfer->slots[i].used ? transfer->slots[i].in : NULL;
        leat_ticket_info info = LEAT_TICKET_INFO_INIT;

        if (ticket && leat_ticket_get_info(ticket, &info) == LEAT_OK && info.status != LEAT_OK)
            return true;
    }
    return false;
}

/* Reports that a file was not received, and tells the sender unless the link has failed. */
static enum receive_result give_up(struct transfer *transfer, struct transfer_file *file, const char *problem)
{
    struct transfer_message message;
    char why[TRANSFER_TEXT_MAX];

    snprintf(why, sizeof why, "%s", problem);
    free(file->path);
    file->path = NULL;
    transfer_file_failed(transfer, file, why);
    transfer_cancel(transfer);
    if (!link_has_failed(transfer)) {
        transfer_message_begin(&message, false, why);
        (void)transfer_send_message(transfer, TRANSFER_TAG_RESULT, &message);
    }
    return RECEIVE_ENDED;
}

/* The sender has stopped the file, or its pieces fail: its end says why. */
static enum receive_result was_stopped(struct transfer *transfer, struct transfer_file *file)
{
    char shown[TRANSFER_TEXT_MAX], why[TRANSFER_TEXT_MAX + 40];
    struct transfer_message message;

    if (link_has_failed(transfer))
        return give_up(transfer, file, leat_last_error());
    if (!transfer_early_wait(transfer, &message))
        return give_up(transfer, file, leat_last_error());
    snprintf(why, sizeof why, "the sender gave up: %s",
             message.ok ? "it has cancelled a piece" : transfer_show(shown, sizeof shown, message.text));
    return give_up(transfer, file, why);
}

/* Compares the checksums, stores the file, and tells the sender. */
static enum receive_result end_file(struct transfer *transfer, const struct receive_place *place,
                                    struct transfer_file *file, leat_file *made)
{
    struct transfer_message message;
    char why[128];

    if (!transfer_early_wait(transfer, &message))
        return give_up(transfer, file, leat_last_error());
    file->checksum = transfer->checksum;
    file->nanoseconds = (uint64_t)((transfer_seconds_now() - transfer->begin) * 1e9);
    file->verified = message.ok && message.checksum == file->checksum;
    if (!file->verified) {
        snprintf(why, sizeof why, "the checksum of the received bytes is %08x, and that of the sender %08x",
                 file->checksum, message.checksum);
        return give_up(transfer, file, why);
    }
    if (made && !commit(transfer, place, file, made))
        return give_up(transfer, file, leat_last_error());
    transfer_message_begin(&message, true, "");
    message.bytes = file->bytes;
    message.nanoseconds = file->nanoseconds;
    message.checksum = file->checksum;
    /* The file is stored, also if the sender does not learn it. */
    return transfer_send_message(transfer, TRANSFER_TAG_RESULT, &message) ? RECEIVE_GO_ON : RECEIVE_ENDED;
}

static enum receive_result receive_file(struct transfer *transfer, const struct receive_place *place,
                                        struct transfer_file *file, leat_file *made)
{
    char shown[TRANSFER_TEXT_MAX];
    struct transfer_message message;
    enum transfer_wait result;

    transfer_message_begin(&message, true, "");
    if (!transfer_early_start(transfer, TRANSFER_TAG_END) ||
        !transfer_send_message(transfer, TRANSFER_TAG_ANSWER, &message)) {
        file->problem = strdup(leat_last_error());
        return RECEIVE_ENDED;
    }
    transfer_file_begin(transfer, transfer_show(shown, sizeof shown, file->name), file->bytes);
    result = receive_pieces(transfer, made);
    transfer_clear_bar(transfer);
    transfer->name = NULL;
    if (result == TRANSFER_DONE)
        return end_file(transfer, place, file, made);
    if (result == TRANSFER_STOPPED || receive_failed(transfer))
        return was_stopped(transfer, file);
    return give_up(transfer, file, leat_last_error());
}

/* Answers one offer. */
static enum receive_result take_offer(struct transfer *transfer, const struct receive_place *place,
                                      const struct transfer_message *offer)
{
    struct transfer_file *file = transfer_file_add(transfer, offer->text, offer->bytes);
    enum receive_result result;
    struct transfer_message message;
    leat_file *made = NULL;
    char why[TRANSFER_TEXT_MAX];
    const char *problem;

    if (!file)
        return RECEIVE_ENDED;
    problem = make_file(place, transfer, file, &made);
    if (!problem) {
        result = receive_file(transfer, place, file, made);
    } else {
        snprintf(why, sizeof why, "%s", problem);
        transfer_file_failed(transfer, file, why);
        transfer_message_begin(&message, false, why);
        result = transfer_send_message(transfer, TRANSFER_TAG_ANSWER, &message) ? RECEIVE_GO_ON : RECEIVE_ENDED;
    }
    leat_file_close(made);
    return result;
}

/* Answers offers until the sender says that no file follows. Returns false if it did not. */
static bool take_offers(struct transfer *transfer, const struct receive_place *place)
{
    struct transfer_message message;

    for (;;) {
        if (!transfer_receive_message(transfer, TRANSFER_TAG_OFFER, &message))
            return false;
        if (!message.ok)
            break;
        if (take_offer(transfer, place, &message) == RECEIVE_ENDED)
            return false;
    }
    transfer_message_begin(&message, true, "");
    return transfer_send_message(transfer, TRANSFER_TAG_RESULT, &message);
}

/* ---- the command ---- */

/* Waits for a sender. */
static bool accept_sender(struct transfer *transfer, leat_listener *listener,
                          const struct receive_options *options)
{
    leat_status status = leat_accept(listener, options->timeout_ns, &transfer->link);
    leat_link_info info = LEAT_LINK_INFO_INIT;

    if (status == LEAT_OK)
        status = leat_link_get_info(transfer->link, &info);
    if (status == LEAT_OK) {
        fprintf(stderr, "leat: %s has connected\n", info.peer);
        return true;
    }
    if (status != LEAT_NOT_READY)
        return transfer_complain(transfer, "");
    cli_complain("receive: nobody has connected in %g s with the right key", (double)options->timeout_ns * 1e-9);
    return false;
}

static int run_receive(const struct receive_options *options)
{
    struct transfer transfer = {.command = "receive", .json = options->json};
    struct receive_place place;
    leat_listener *listener = NULL;
    bool fine =
        find_place(options, &place) && transfer_open(&transfer, options->device) &&
        link_listen("receive", options->address, options->key_file, options->encrypt, &listener);

    if (fine && accept_sender(&transfer, listener, options)) {
        leat_listener_close(listener);
        listener = NULL;
        fine = take_offers(&transfer, &place);
        fine = transfer_report(&transfer) && fine;
    } else {
        fine = false;
    }
    leat_listener_close(listener);
    transfer_close(&transfer);
    return fine ? CLI_OK : CLI_FAILED;
}

static bool parse_timeout(const char *text, uint64_t *timeout_ns)
{
    char *end;
    double seconds = strtod(text, &end);

    if (text[0] >= '0' && text[0] <= '9' && !*end && seconds > 0 && seconds <= 1e6) {
        *timeout_ns = (uint64_t)(seconds * 1e9);
        return true;
    }
    cli_complain("receive: --timeout takes a number of seconds above 0, at most 1000000, not '%s'", text);
    return false;
}

/* Checks what parse() has read. */
static int check(const struct receive_options *options)
{
    if (options->force && !options->into) {
        cli_complain("receive: --force needs --into, because nothing is stored without it");
        return CLI_USAGE;
    }
    if (options->into && (!options->into[0] || strlen(options->into) > 4095)) {
        cli_complain("receive: --into needs the name of a folder or a file");
        return CLI_USAGE;
    }
    return CLI_OK;
}

static int parse(int argc, char **argv, struct receive_options *options)
{
    static const struct option names[] = {
        {"into", required_argument, NULL, 'i'},    {"force", no_argument, NULL, 'f'},
        {"device", required_argument, NULL, 'd'},  {"key-file", required_argument, NULL, 'k'},
        {"timeout", required_argument, NULL, 't'}, {"json", no_argument, NULL, 'j'},
        {"encrypt", no_argument, NULL, 'e'},       {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, ":h", names, NULL)) != -1) {
        switch (option) {
        case 'i':
            options->into = optarg;
            break;
        case 'f':
            options->force = true;
            break;
        case 'd':
            options->device = optarg;
            break;
        case 'k':
            options->key_file = optarg;
            break;
        case 'e':
            options->encrypt = true;
            break;
        case 't':
            if (!parse_timeout(optarg, &options->timeout_ns))
                return CLI_USAGE;
            break;
        case 'j':
            options->json = true;
            break;
        case 'h':
            fputs(cli_receive_help, stdout);
            return -1;
        default:
            return cli_bad_option(argc, argv, option);
        }
    }
    if (argc - optind != 1) {
        cli_complain(
            "receive: at which address? leat receive tcp:0.0.0.0:7000 --into FOLDER; see leat help receive");
        return CLI_USAGE;
    }
    options->address = argv[optind];
    return check(options);
}

int cli_receive(int argc, char **argv)
{
    struct receive_options options = {.timeout_ns = LEAT_FOREVER};
    int status = parse(argc, argv, &options);

    return status == CLI_OK ? run_receive(&options) : status < 0 ? CLI_OK : status;
}
