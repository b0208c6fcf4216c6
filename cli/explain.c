/*
 * explain.c - "leat explain copy" and "leat explain file": prints the library's description of how it would make a
 * copy.
 */
#include "cli.h"
#include "gds.h"
#include "temporary_file.h"
#include "text.h"
#include "text_json.h"

#include <assert.h>
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
    "Usage: leat explain copy [--from PLACE] [--to PLACE] [--bytes SIZE] [--count N | --rows N]\n"
    "                         [--device NAME] [--json]\n"
    "       leat explain file PATH [--to PLACE] [--offset N] [--bytes SIZE] [--device NAME] [--json]\n\n"
    "Allocates two places and prints how leat would copy from one to the other: the protocol, why it was\n"
    "chosen, the other protocols, and the bound. With a file: how leat would read it, what the system's cache\n"
    "has of it, whether leat would read past that cache, and what NVIDIA's libcufile says about it. Nothing is\n"
    "copied or read.\n\n"
    "Options:\n"
    "  --from PLACE    pageable (the default), file (mapped), registered, pinned, managed, device, or a\n"
    "                  device such as cuda:1\n"
    "  --to PLACE      the same; without it device, or pageable where --from is a device\n"
    "  --bytes SIZE    bytes of the copy, 64M without it, or the rest of the file; K, M, G and T (powers of "
    "1024)\n"
    "                  may follow\n"
    "  --offset N      of a file: the first byte that is read, 0 without it; K, M, G and T may follow\n"
    "  --count N       so many scattered copies of that size by one call of leat_copy_batch()\n"
    "  --rows N        so many rows of that size, with gaps as long between them, by leat_copy_3d()\n"
    "  --device NAME   the device of the stream, such as cuda:1 or cpu:0; without it the best there is\n"
    "  --json          prints JSON\n"
    "  --help          this text\n";

enum { TEXT_BYTES = 4096, COUNT_MAX = 1 << 20 };

struct explain_options {
    const char *file; /* file to read; NULL: explain a copy between two places in memory */
    const char *from, *to, *device;
    uint64_t bytes;  /* size of the copy; 0: not given */
    uint64_t offset; /* offset of the range in the file */
    size_t count;    /* number of copies for leat_copy_batch(); 0: no batch */
    size_t rows;     /* number of rows for leat_copy_3d(); 0: no 3-D copy */
    bool json;
};

/* One end of the copy. */
struct place {
    const char *word;
    void *ptr;
    void *map; /* mapped memory, if leat did not allocate the place's memory */
    size_t bytes;
    bool registered;
    leat_device *other; /* the device that was opened for this end */
};

static bool failed(const char *what)
{
    cli_complain("explain: %s: %s", what, leat_last_error());
    return false;
}

static bool make_map(struct place *place)
{
    bool in_file = !strcmp(place->word, "file");
    int file = -1;

    assert(place->bytes);
    if (in_file) {
        file = cli_temporary_file();
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

/* Returns the default destination: the device for a copy from host memory, pageable memory otherwise. */
static const char *usual_target(const char *from)
{
    static const char *const on_host[] = {"pageable", "file", "registered", "pinned", "managed"};
    unsigned i;

    for (i = 0; i < sizeof on_host / sizeof on_host[0]; i++)
        if (!strcmp(from, on_host[i]))
            return "device";
    return "pageable";
}

/* Explains a batch whose copies are not adjacent and not in the order of their addresses. */
static bool explain_batch(const struct explain_options *options, leat_stream *stream, const struct place *to,
                          const struct place *from, char *text)
{
    size_t stride = 2 * (size_t)options->bytes, i;
    leat_copy_op *ops = calloc(options->count, sizeof *ops);
    bool fine;

    if (!ops) {
        cli_complain("explain: out of memory");
        return false;
    }
    for (i = 0; i < options->count; i++) {
        ops[i].dst = (char *)to->ptr + stride * (options->count - 1 - i);
        ops[i].src = (const char *)from->ptr + stride * i;
        ops[i].bytes = options->bytes;
    }
    fine = leat_copy_batch_explain(stream, ops, options->count, text, TEXT_BYTES) == LEAT_OK ||
           failed("these copies");
    free(ops);
    return fine;
}

static bool explain_rows(const struct explain_options *options, leat_stream *stream, const struct place *to,
                         const struct place *from, char *text)
{
    leat_copy_region region = {.width_bytes = options->bytes,
                               .height = options->rows,
                               .depth = 1,
                               .dst_pitch_bytes = 2 * options->bytes,
                               .src_pitch_bytes = 2 * options->bytes};

    return leat_copy_3d_explain(stream, to->ptr, from->ptr, &region, text, TEXT_BYTES) == LEAT_OK ||
           failed("this rectangle");
}

static bool explain_one(const struct explain_options *options, leat_stream *stream, const struct place *to,
                        const struct place *from, char *text)
{
    return leat_copy_explain(stream, to->ptr, from->ptr, options->bytes, text, TEXT_BYTES) == LEAT_OK ||
           failed("this copy");
}

/*
 * Prints the library's text as JSON. Lines that do not begin with a blank describe the copy. Each line " key
 * words" becomes a member; for the key "protocol", the part before the colon also becomes a member "name". Returns
 * false if memory is short.
 */
static bool print_json(char *text)
{
    json_t *object = json_object(), *what = json_array();
    bool fine = object && what;
    char *line, *rest = NULL;

    for (line = strtok_r(text, "\n", &rest); fine && line; line = strtok_r(NULL, "\n", &rest)) {
        size_t key;

        if (line[0] != ' ') {
            fine = json_array_append_new(what, text_json(line)) == 0;
            continue;
        }
        line += strspn(line, " ");
        key = strcspn(line, " ");
        if (!strncmp(line, "protocol", key)) {
            char *words = line + key + strspn(line + key, " "), *colon = strchr(words, ':');

            fine = json_object_set_new(object, "name",
                                       json_stringn(words, colon ? (size_t)(colon - words) : strlen(words))) == 0;
        }
        if (line[key])
            line[key++] = '\0';
        fine = fine && json_object_set_new(object, line, text_json(line + key + strspn(line + key, " "))) == 0;
    }
    fine = fine && json_object_set(object, "copy", what) == 0 && json_dumpf(object, stdout, JSON_INDENT(2)) == 0;
    if (fine)
        putchar('\n');
    json_decref(what);
    json_decref(object);
    return fine;
}

static bool explain_copy(const struct explain_options *options, leat_stream *stream, leat_device *device,
                         char *text)
{
    uint64_t places = options->count ? options->count : options->rows;
    uint64_t bytes = places ? 2 * options->bytes * places : options->bytes;
    struct place from = {.word = options->from ? options->from : "pageable", .bytes = bytes};
    struct place to = {.word = options->to ? options->to : usual_target(from.word), .bytes = bytes};
    bool fine = make_place(&from, device) && make_place(&to, device);

    if (fine)
        fine = options->count  ? explain_batch(options, stream, &to, &from, text)
               : options->rows ? explain_rows(options, stream, &to, &from, text)
                               : explain_one(options, stream, &to, &from, text);
    drop_place(&from);
    drop_place(&to);
    return fine;
}

/* Explains a read of the range, or, without --bytes, of the rest of the file. */
static bool explain_range(const struct explain_options *options, leat_stream *stream, leat_device *device,
                          leat_file *file, char *text)
{
    struct place to = {.word = options->to ? options->to : "device"};
    uint64_t file_bytes, left;
    bool fine;

    if (leat_file_size(file, &file_bytes) != LEAT_OK)
        return failed("the file");
    left = options->offset < file_bytes ? file_bytes - options->offset : 0;
    to.bytes = options->bytes ? options->bytes : left;
    if (options->offset > file_bytes || to.bytes > left) {
        cli_complain("explain: offset %llu + %zu bytes is beyond the end of %s, %llu",
                     (unsigned long long)options->offset, to.bytes, options->file, (unsigned long long)file_bytes);
        return false;
    }
    /* If there is nothing to read, make no place, because memory cannot have 0 bytes. */
    fine = (to.bytes == 0 || make_place(&to, device)) &&
           (leat_file_explain(stream, to.ptr, file, options->offset, to.bytes, text, TEXT_BYTES) == LEAT_OK ||
            failed("this read"));
    drop_place(&to);
    return fine;
}

/* Adds a line about GPUDirect Storage, which leat does not use. */
static void add_gds(const char *path, char *text)
{
    size_t used = strlen(text);
    char found[1024];

    cli_gds_explain(path, found, sizeof found);
    snprintf(text + used, TEXT_BYTES - used, "  gds       not used by leat; %s\n", found);
}

static bool explain_file(const struct explain_options *options, leat_stream *stream, leat_device *device,
                         char *text)
{
    leat_file *file = NULL;
    bool fine = leat_file_open(options->file, LEAT_FILE_READ, &file) == LEAT_OK || failed("the file");

    fine = fine && explain_range(options, stream, device, file, text);
    if (fine)
        add_gds(options->file, text);
    leat_file_close(file);
    return fine;
}

static int explain(const struct explain_options *options)
{
    leat_device *device = NULL;
    leat_stream *stream = NULL;
    char text[TEXT_BYTES];
    bool fine = (leat_device_open(options->device, &device) == LEAT_OK &&
                 leat_stream_create(device, &stream) == LEAT_OK) ||
                failed("the device");

    fine = fine && (options->file ? explain_file(options, stream, device, text)
                                  : explain_copy(options, stream, device, text));
    if (fine && options->json) {
        fine = print_json(text);
        if (!fine && !ferror(stdout)) /* if the output cannot be written, main() reports it */
            cli_complain("explain: out of host memory");
    } else if (fine) {
        printf("%s%s", text, text[0] && text[strlen(text) - 1] == '\n' ? "" : "\n");
    }
    leat_stream_destroy(stream);
    if (device)
        leat_device_close(device);
    return fine ? CLI_OK : CLI_FAILED;
}

static bool parse_count(const char *option, const char *text, size_t *count)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (text[0] >= '0' && text[0] <= '9' && !*end && value >= 1 && value <= COUNT_MAX) {
        *count = value;
        return true;
    }
    cli_complain("explain: --%s takes a whole number from 1 to %d, not '%s'", option, COUNT_MAX, text);
    return false;
}

/* Reads an offset. Unlike a size, it may be 0. */
static bool parse_offset(const char *text, uint64_t *offset)
{
    *offset = 0;
    if (!strcmp(text, "0") || text_parse_bytes(text, NULL, offset))
        return true;
    cli_complain("explain: --offset takes bytes, such as 0, 4096 or 1M, not '%s'", text);
    return false;
}

/* Sets the default size. If two options contradict each other, prints an error message and returns false. */
static bool check_options(struct explain_options *options)
{
    uint64_t places = options->count ? options->count : options->rows;

    if (options->file && (options->from || places)) {
        cli_complain("explain: --from, --count and --rows do not go with a file");
        return false;
    }
    if (!options->file && options->offset) {
        cli_complain("explain: --offset goes only with a file");
        return false;
    }
    if (options->count && options->rows) {
        cli_complain("explain: --count or --rows, not both");
        return false;
    }
    if (!options->file && !options->bytes)
        options->bytes = (uint64_t)64 << 20;
    if (places && options->bytes > UINT64_MAX / 2 / places) {
        cli_complain("explain: %llu copies of %llu bytes are more than can be addressed",
                     (unsigned long long)places, (unsigned long long)options->bytes);
        return false;
    }
    return true;
}

static int parse(int argc, char **argv, struct explain_options *options)
{
    static const struct option names[] = {
        {"from", required_argument, NULL, 'f'},   {"to", required_argument, NULL, 't'},
        {"bytes", required_argument, NULL, 'b'},  {"offset", required_argument, NULL, 'o'},
        {"count", required_argument, NULL, 'c'},  {"rows", required_argument, NULL, 'r'},
        {"device", required_argument, NULL, 'd'}, {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
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
            cli_complain("explain: --bytes takes a size above 0, such as 4096, 64K, 1M or 2G, not '%s'", optarg);
            return CLI_USAGE;
        case 'o':
            if (parse_offset(optarg, &options->offset))
                break;
            return CLI_USAGE;
        case 'c':
            if (parse_count("count", optarg, &options->count))
                break;
            return CLI_USAGE;
        case 'r':
            if (parse_count("rows", optarg, &options->rows))
                break;
            return CLI_USAGE;
        case 'j':
            options->json = true;
            break;
        case 'h':
            fputs(cli_explain_help, stdout);
            return -1;
        default:
            return cli_bad_option(argc, argv, option);
        }
    }
    if (optind < argc && !strcmp(argv[optind], "file")) {
        if (++optind >= argc) {
            cli_complain("explain: which file? leat explain file PATH; see leat help explain");
            return CLI_USAGE;
        }
        options->file = argv[optind];
    } else if (optind >= argc || strcmp(argv[optind], "copy") != 0) {
        cli_complain("explain: what is to be explained? leat explain copy, or leat explain file PATH");
        return CLI_USAGE;
    }
    optind++;
    return check_options(options) ? cli_no_operands(argc, argv) : CLI_USAGE;
}

int cli_explain(int argc, char **argv)
{
    struct explain_options options = {.file = NULL};
    int status;

    if (argc == 3 && !strcmp(argv[1], CLI_GDS_PROBE))
        return cli_gds_probe(argv[2]);
    status = parse(argc, argv, &options);
    return status == CLI_OK ? explain(&options) : status < 0 ? CLI_OK : status;
}
