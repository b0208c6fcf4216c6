/*
 * explain.c - "leat explain copy": how leat would make a copy here, in the library's own words.
 */
#include "cli.h"
#include "text.h"

#include <errno.h>
#include <getopt.h>
#include <leat/leat.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char cli_explain_help[] =
    "Usage: leat explain copy [--from PLACE] [--to PLACE] [--bytes SIZE] [--device NAME]\n\n"
    "Allocates two places and prints how leat would copy from one to the other: the path, why it was chosen, and\n"
    "the bound. Nothing is copied.\n\n"
    "Options:\n"
    "  --from PLACE    pageable (the default), file, registered, pinned, managed, device, or a device such as "
    "cuda:1\n"
    "  --to PLACE      the same; without it device, or pageable where --from is a device\n"
    "  --bytes SIZE    bytes of the copy, 64M without it; K, M, G and T (powers of 1024) may follow\n"
    "  --device NAME   the device of the stream, such as cuda:1 or cpu:0; without it the best there is\n"
    "  --help          this text\n";

enum { TEXT_BYTES = 4096 };

struct explain_options {
    const char *from, *to, *device;
    uint64_t bytes;
};

/* One end of the copy. */
struct place {
    const char *word;
    void *ptr;
    void *map; /* where it is not leat's */
    size_t bytes;
    bool registered;
    leat_device *other; /* opened for it */
};

static bool failed(const char *what)
{
    cli_complain("explain: %s: %s", what, leat_last_error());
    return false;
}

static bool make_map(struct place *place)
{
    bool in_file = !strcmp(place->word, "file");
    const char *folder = getenv("TMPDIR");
    char path[4096];
    int file = -1;

    if (in_file) {
        snprintf(path, sizeof path, "%s/leat-explain-XXXXXX", folder && folder[0] ? folder : "/tmp");
        file = mkostemp(path, 0);
        if (file >= 0)
            unlink(path);
        if (file < 0 || ftruncate(file, (off_t)place->bytes) != 0) {
            cli_complain("explain: a temporary file cannot be made: %s", strerror(errno));
            if (file >= 0)
                close(file);
            return false;
        }
    }
    place->map = mmap(NULL, place->bytes, PROT_READ | PROT_WRITE,
                      in_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
    if (file >= 0)
        close(file);
    if (place->map == MAP_FAILED) {
        place->map = NULL;
        cli_complain("explain: there is not enough memory for %s: %s", place->word, strerror(errno));
        return false;
    }
    place->ptr = place->map;
    return true;
}

static bool make_place(struct place *place, leat_device *device)
{
    static const leat_kind kinds[] = {LEAT_KIND_PINNED, LEAT_KIND_MANAGED, LEAT_KIND_DEVICE};
    unsigned i;

    if (!strcmp(place->word, "pageable") || !strcmp(place->word, "file") || !strcmp(place->word, "registered")) {
        if (!make_map(place))
            return false;
        if (strcmp(place->word, "registered") != 0)
            return true;
        place->registered = leat_register(device, place->ptr, place->bytes) == LEAT_OK;
        return place->registered || failed("registering");
    }
    for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(place->word, leat_kind_name(kinds[i])))
            return leat_memory_alloc(device, kinds[i], place->bytes, &place->ptr) == LEAT_OK ||
                   failed(place->word);
    if (leat_device_open(place->word, &place->other) != LEAT_OK)
        return failed("a place is pageable, file, registered, pinned, managed, device or a device's name");
    return leat_memory_alloc(place->other, LEAT_KIND_DEVICE, place->bytes, &place->ptr) == LEAT_OK ||
           failed(place->word);
}

static void drop_place(struct place *place)
{
    if (place->registered)
        leat_unregister(place->ptr);
    if (place->map)
        munmap(place->map, place->bytes);
    else
        leat_memory_free(place->ptr);
    if (place->other)
        leat_device_close(place->other);
}

/* Copies out of memory that is the host's go to the device unless something else is asked for. */
static const char *usual_target(const char *from)
{
    static const char *const on_host[] = {"pageable", "file", "registered", "pinned", "managed"};
    unsigned i;

    for (i = 0; i < sizeof on_host / sizeof on_host[0]; i++)
        if (!strcmp(from, on_host[i]))
            return "device";
    return "pageable";
}

static int explain(const struct explain_options *options)
{
    struct place from = {.word = options->from ? options->from : "pageable", .bytes = options->bytes};
    struct place to = {.word = options->to ? options->to : usual_target(from.word), .bytes = options->bytes};
    leat_device *device = NULL;
    leat_stream *stream = NULL;
    char text[TEXT_BYTES];
    bool fine = false;

    if (leat_device_open(options->device, &device) != LEAT_OK || leat_stream_create(device, &stream) != LEAT_OK) {
        failed("the device");
    } else if (make_place(&from, device) && make_place(&to, device)) {
        fine = leat_copy_explain(stream, to.ptr, from.ptr, options->bytes, text, sizeof text) == LEAT_OK ||
               failed("this copy");
        if (fine)
            printf("%s%s", text, text[0] && text[strlen(text) - 1] == '\n' ? "" : "\n");
    }
    drop_place(&from);
    drop_place(&to);
    leat_stream_destroy(stream);
    if (device)
        leat_device_close(device);
    return fine ? CLI_OK : CLI_FAILED;
}

static int parse(int argc, char **argv, struct explain_options *options)
{
    static const struct option names[] = {
        {"from", required_argument, NULL, 'f'},  {"to", required_argument, NULL, 't'},
        {"bytes", required_argument, NULL, 'b'}, {"device", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, ":h", names, NULL)) != -1) {
        switch (option) {
        case 'f':
            options->from = optarg;
            break;
        case 't':
            options->to = optarg;
            break;
        case 'd':
            options->device = optarg;
            break;
        case 'b':
            if (text_parse_bytes(optarg, NULL, &options->bytes))
                break;
            cli_complain(
                "explain: --bytes takes a number of bytes above 0, with K, M, G or T after it if need be, not "
                "'%s'",
                optarg);
            return CLI_USAGE;
        case 'h':
            fputs(cli_explain_help, stdout);
            return -1;
        default:
            return cli_bad_option(argc, argv, option);
        }
    }
    if (optind >= argc || strcmp(argv[optind], "copy") != 0) {
        cli_complain("explain: what is to be explained? leat explain copy; see leat help explain");
        return CLI_USAGE;
    }
    optind++;
    return cli_no_operands(argc, argv);
}

int cli_explain(int argc, char **argv)
{
    struct explain_options options = {.bytes = (uint64_t)64 << 20};
    int status = parse(argc, argv, &options);

    return status == CLI_OK ? explain(&options) : status < 0 ? CLI_OK : status;
}
