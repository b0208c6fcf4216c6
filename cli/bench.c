/*
 * bench.c - "leat bench": reads the options, runs the groups of measurements, and writes their results as tables
 * or as a record in JSON.
 */
#include "bench.h"
#include "bench_copy.h"
#include "bench_layout.h"
#include "bench_measure.h"
#include "bench_memory.h"
#include "bench_pool.h"
#include "bench_report.h"
#include "cli.h"
#include "host_facts.h"
#include "info_json.h"
#include "net_end.h"
#include "text.h"
#include "text_json.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char cli_bench_help[] =
    "Usage: leat bench [OPTION]... [GROUP]...\n"
    "       leat bench --from FILE [--headline] [--markdown] [--picture FILE] [GROUP]...\n\n"
    "Measures copies, allocation, pools, latency, overlap and ways of reading host data on one device, each next "
    "to the driver's own\n"
    "call on the same bytes in the same run, and verifies the bytes.\n\n"
    "Options:\n"
    "  --quick         fewer and smaller sizes: done in 40 seconds on two processors\n"
    "  --device NAME   the device, such as cuda:1 or cpu:0; without it the best there is\n"
    "  --group NAMES   only these groups, separated by commas; the same as naming them without --group\n"
    "  --list          lists the groups; with --part packing prints its sequences as JSON\n"
    "  --repeat N      exactly N samples for each row; without it as many as fit in half a second\n"
    "  --json          prints the record as JSON instead of tables\n"
    "  --output FILE   also writes the record to FILE\n"
    "  --picture FILE  also draws as SVG the rates of the group copy over the size, or, without that group, the\n"
    "                  shares of the group layout or the ways of the group memory\n"
    "  --from FILE     prints the tables of a stored record and measures nothing; -: standard input\n"
    "  --headline      one table of the few rows that sum the record up\n"
    "  --summary FILE  one screen of at most ten rows; all tables are appended to FILE\n"
    "  --markdown      tables as Markdown\n"
    "  --help          this text\n\n"
    "Of the group copy:\n"
    "  --full          every kind of memory, direction, size and number of threads: many minutes\n"
    "  --bytes SIZES   only these sizes, separated by commas; K, M, G (powers of 1024) may follow\n"
    "  --memory NAMES  only pinned, pageable, huge, registered, file, file-cold, fresh\n"
    "  --part NAMES    only sizes, workers, beside, batch, rails, gaps\n\n"
    "Of its part gaps, pageable copies with idle gaps between them (each chooses that part):\n"
    "  --gaps LIST     only these gaps in milliseconds, separated by commas, such as 0,0.2,2,20\n"
    "  --timing NAMES  only done, sync, turns, first\n"
    "  --cache NAMES   only warm, cold\n"
    "  --direction NAMES  only in, out\n"
    "  --seconds N     so long for all of it, without the timing first\n"
    "  --spin          gaps are spent computing instead of sleeping\n\n"
    "Of the group pool:\n"
    "  --part NAMES    only pairs, threads, streams, loop, growth, or packing, which runs only by name: how much "
    "memory\n"
    "                  pools hold for 200 sizes one by one and for mixes, as bytes and counts\n"
    "  --live BYTES    so many bytes live at once in the packing, 600 MB without it, four times as many of "
    "mixes\n\n"
    "Of the group layout:\n"
    "  --suite NAMES   only transpose, permute, learning, pixels, shuffle, dims, gather, broadcast, slice, host, call\n"
    "  --bytes SIZES   cases of about so many bytes\n"
    "  --ladder        instead, a transpose step by step: from a copy for each column to the whole kernel\n\n"
    "Of the group memory:\n"
    "  --bytes SIZE    with so much data, rounded up to 2 MiB\n\n"
    "Of the group file:\n"
    "  --bytes SIZES   only files of these sizes\n\n"
    "Of the group net, which runs only by name (each but the last two chooses it):\n"
    "  --to ADDRESS    the other end is a leat serve at this address, which may be on another machine; tcp, unix or\n"
    "                  ucx alone: the command starts it itself over this transport; without it, over tcp\n"
    "  --key-file FILE  the key of that address; see leat help serve\n"
    "  --encrypt        over an encrypted link; the plain socket stays as it is\n"
    "  --kinds NAMES   only memory of these kinds at both ends: pageable, pinned, device\n"
    "  --bytes SIZES   only messages of these sizes, at most 1G; --sizes is the same\n"
    "  --gaps LIST     only these gaps, in milliseconds, before a message that goes there and back\n\n"
    "The manual (man leat) says what each figure and each bound is.\n";

const struct bench_group bench_groups[BENCH_GROUP_COUNT] = {
    {"copy", "between host and device, each direction and both at once", bench_copy_group, 78},
    {"device", "within the device, and to another one of the same driver", bench_device_group, 8},
    {"layout", "arrays transposed, permuted, gathered, sliced, beside a plain copy of as many bytes",
     bench_layout_group, 31},
    {"alloc", "a pair of allocating and freeing, or of registering and unregistering", bench_alloc_group, 8},
    {"pool", "what pools cost: pairs of allocating and freeing, threads, streams, growing, stitching, trimming",
     bench_pool_group, 25},
    {"latency", "what a call costs, and small work from the call to its completion", bench_latency_group, 12},
    {"overlap", "bytes in, vector addition, bytes out: chunks over several streams against a sequence",
     bench_overlap_group, 5},
    {"memory", "host data for a kernel: copied, read in place, managed; what levels of memory cost",
     bench_memory_group, 33},
    {"file", "files read to the device and written from it: in the page cache, in memory, on the disk",
     bench_file_group, 9},
    {"net", "messages to another process and back, beside a plain socket; only by name", bench_net_group, 0},
};

/* Prints the output of --list: the groups, or, with --part packing, the sequences of that part. */
static int print_list(const struct bench_options *options)
{
    unsigned i;

    if (options->pool_parts >> POOL_PACKING & 1)
        return bench_pool_packing_list(options) ? CLI_OK : CLI_FAILED;
    for (i = 0; i < BENCH_GROUP_COUNT; i++)
        printf("%-8s  %s\n", bench_groups[i].name, bench_groups[i].text);
    return CLI_OK;
}

/* Adds the groups named in text, separated by commas. */
static bool parse_groups(const char *text, unsigned *groups)
{
    while (*text) {
        size_t length = strcspn(text, ",");
        unsigned i;

        for (i = 0; i < BENCH_GROUP_COUNT; i++)
            if (strlen(bench_groups[i].name) == length && !strncmp(bench_groups[i].name, text, length))
                break;
        if (i == BENCH_GROUP_COUNT) {
            cli_complain("bench: there is no group '%.*s'; leat bench --list names them", (int)length, text);
            return false;
        }
        *groups |= 1u << i;
        text += length + (text[length] == ',');
    }
    if (*groups)
        return true;
    cli_complain("bench: --group needs the name of a group; leat bench --list names them");
    return false;
}

static bool parse_repeat(const char *text, unsigned *repeat)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value < 1 || value > 1000) {
        cli_complain("bench: --repeat takes a whole number from 1 to 1000, not '%s'", text);
        return false;
    }
    *repeat = (unsigned)value;
    return true;
}

/* Reads names separated by commas. Sets bit i of *chosen if text has names[i]. */
static bool parse_names(const char *option, const char *text, const char *const *names, unsigned count,
                        unsigned *chosen)
{
    while (*text) {
        size_t length = strcspn(text, ",");
        unsigned i;

        for (i = 0; i < count; i++)
            if (strlen(names[i]) == length && !strncmp(names[i], text, length))
                break;
        if (i == count) {
            cli_complain("bench: %s knows no '%.*s'; see leat help bench", option, (int)length, text);
            return false;
        }
        *chosen |= 1u << i;
        text += length + (text[length] == ',');
    }
    if (*chosen)
        return true;
    cli_complain("bench: %s needs a name; see leat help bench", option);
    return false;
}

static bool parse_memories(const char *text, unsigned *chosen)
{
    const char *names[COPY_MEMORY_COUNT];
    unsigned i;

    for (i = 0; i < COPY_MEMORY_COUNT; i++)
        names[i] = copy_memory_texts[i].word;
    return parse_names("--memory", text, names, COPY_MEMORY_COUNT, chosen);
}

static bool parse_sizes(const char *text, struct bench_options *options)
{
    const char *rest = text;
    uint64_t bytes;

    for (;;) {
        if (options->size_count == BENCH_SIZES_MAX || !text_parse_bytes(rest, &rest, &bytes) ||
            (*rest && *rest != ','))
            break;
        options->sizes[options->size_count++] = bytes;
        if (!*rest)
            return true;
        rest++;
    }
    cli_complain("bench: --bytes takes up to %d sizes above 0, separated by commas, such as 4K,1M, not '%s'",
                 BENCH_SIZES_MAX, text);
    return false;
}

/* Reads gaps in milliseconds, separated by commas. */
static bool parse_gaps(const char *text, struct bench_options *options)
{
    const char *rest = text;

    while (options->gap_count < BENCH_GAPS_MAX && ((*rest >= '0' && *rest <= '9') || *rest == '.')) {
        char *end;
        double gap = strtod(rest, &end);

        if (end == rest || !(gap >= 0 && gap <= 1000) || (*end && *end != ','))
            break;
        options->gaps_ms[options->gap_count++] = gap;
        if (!*end)
            return true;
        rest = end + 1;
    }
    cli_complain(
        "bench: --gaps takes at most %d numbers of milliseconds from 0 to 1000, separated by commas, not '%s'",
        BENCH_GAPS_MAX, text);
    return false;
}

static bool parse_seconds(const char *text, double *seconds)
{
    if (text[0] >= '0' && text[0] <= '9') {
        char *end;

        *seconds = strtod(text, &end);
        if (!*end && *seconds > 0 && *seconds <= 3600)
            return true;
    }
    cli_complain("bench: --seconds takes a number above 0, at most 3600, not '%s'", text);
    return false;
}

/* Reads the names of parts of the groups copy and pool. No two parts of these groups have the same name. */
static bool parse_parts(const char *text, struct bench_options *options)
{
    enum { ALL_COUNT = (int)COPY_PART_COUNT + (int)POOL_PART_COUNT };
    const char *names[ALL_COUNT];
    unsigned chosen = 0, i;

    for (i = 0; i < COPY_PART_COUNT; i++)
        names[i] = copy_part_words[i];
    for (i = 0; i < POOL_PART_COUNT; i++)
        names[COPY_PART_COUNT + i] = pool_part_words[i];
    if (!parse_names("--part", text, names, ALL_COUNT, &chosen))
        return false;
    options->copy_parts |= chosen & ((1u << COPY_PART_COUNT) - 1);
    options->pool_parts |= chosen >> COPY_PART_COUNT;
    return true;
}

#define LIVE_BYTES_MAX ((uint64_t)1 << 40)

enum { PARSE_GO_ON = -1 };

/* Applies one option. Returns PARSE_GO_ON, or the exit status if the command ends here. */
static int apply_option(int option, struct bench_options *options, int argc, char **argv)
{
    switch (option) {
    case 'q':
        options->quick = true;
        return PARSE_GO_ON;
    case 'd':
        options->device = optarg;
        return PARSE_GO_ON;
    case 'g':
        return parse_groups(optarg, &options->groups) ? PARSE_GO_ON : CLI_USAGE;
    case 'l':
        options->list = true;
        return PARSE_GO_ON;
    case 'r':
        return parse_repeat(optarg, &options->repeat) ? PARSE_GO_ON : CLI_USAGE;
    case 'j':
        options->json = true;
        return PARSE_GO_ON;
    case 'o':
        options->output = optarg;
        return PARSE_GO_ON;
    case 'f':
        options->from = optarg;
        return PARSE_GO_ON;
    case 'p':
        options->picture = optarg;
        return PARSE_GO_ON;
    case 'F':
        options->full = true;
        return PARSE_GO_ON;
    case 'b':
        return parse_sizes(optarg, options) ? PARSE_GO_ON : CLI_USAGE;
    case 'M':
        return parse_memories(optarg, &options->copy_memories) ? PARSE_GO_ON : CLI_USAGE;
    case 'P':
        return parse_parts(optarg, options) ? PARSE_GO_ON : CLI_USAGE;
    case 'V':
        if (text_parse_bytes(optarg, NULL, &options->live_bytes) && options->live_bytes <= LIVE_BYTES_MAX)
            return PARSE_GO_ON;
        cli_complain(
            "bench: --live takes a number of bytes from 1 to 1T, with K, M or G after it if need be, not '%s'",
            optarg);
        return CLI_USAGE;
    case 'S':
        return parse_names("--suite", optarg, layout_suite_words, SUITE_COUNT, &options->layout_suites)
                   ? PARSE_GO_ON
                   : CLI_USAGE;
    case 'A':
        options->to = optarg;
        return PARSE_GO_ON;
    case 'k':
        options->key_file = optarg;
        return PARSE_GO_ON;
    case 'E':
        options->encrypt = true;
        return PARSE_GO_ON;
    case 'K':
        return parse_names("--kinds", optarg, net_kind_words, NET_KIND_COUNT, &options->net_kinds) ? PARSE_GO_ON
                                                                                                   : CLI_USAGE;
    case 'L':
        options->ladder = true;
        return PARSE_GO_ON;
    case 'G':
        return parse_gaps(optarg, options) ? PARSE_GO_ON : CLI_USAGE;
    case 'O':
        return parse_names("--timing", optarg, gap_timing_words, GAP_TIMING_COUNT, &options->gap_timings)
                   ? PARSE_GO_ON
                   : CLI_USAGE;
    case 'C':
        return parse_names("--cache", optarg, gap_cache_words, GAP_CACHE_COUNT, &options->gap_caches) ? PARSE_GO_ON
                                                                                                      : CLI_USAGE;
    case 'D':
        return parse_names("--direction", optarg, gap_direction_words, GAP_DIRECTION_COUNT,
                           &options->gap_directions)
                   ? PARSE_GO_ON
                   : CLI_USAGE;
    case 'T':
        return parse_seconds(optarg, &options->gap_seconds) ? PARSE_GO_ON : CLI_USAGE;
    case 's':
        options->spin = true;
        return PARSE_GO_ON;
    case '1':
        options->first = optarg;
        return PARSE_GO_ON;
    case 'e':
        options->headline = true;
        return PARSE_GO_ON;
    case 'u':
        options->summary = optarg;
        return PARSE_GO_ON;
    case 'm':
        options->markdown = true;
        return PARSE_GO_ON;
    case 'h':
        fputs(cli_bench_help, stdout);
        return CLI_OK;
    default:
        return cli_bad_option(argc, argv, option);
    }
}

/* Returns true if an option of the part gaps was given. */
static bool has_gap_option(const struct bench_options *options)
{
    return options->gap_count || options->gap_timings || options->gap_caches || options->gap_directions ||
           options->gap_seconds > 0 || options->spin;
}

/* Returns CLI_OK, or the exit status for options that contradict each other, after an error message. */
static int check_options(const struct bench_options *options)
{
    bool narrowed = has_gap_option(options) || options->first || options->full || options->size_count ||
                    options->copy_memories || options->copy_parts || options->pool_parts || options->live_bytes ||
                    options->layout_suites || options->ladder || options->to || options->key_file ||
                    options->encrypt || options->net_kinds;

    if (options->summary && (options->from || options->json || options->markdown || options->headline)) {
        cli_complain("bench: --summary does not go with --from, --json, --headline or --markdown");
        return CLI_USAGE;
    }
    if (options->from &&
        (options->quick || options->device || options->repeat || options->json || options->output || narrowed)) {
        cli_complain(
            "bench: --from measures nothing, so only groups, --headline, --markdown and --picture go with it");
        return CLI_USAGE;
    }
    if (options->json && (options->markdown || options->headline)) {
        cli_complain("bench: --json prints no tables, so --markdown and --headline do not go with it");
        return CLI_USAGE;
    }
    if (options->quick && options->full) {
        cli_complain("bench: --quick and --full are opposites");
        return CLI_USAGE;
    }
    if (options->ladder && options->layout_suites) {
        cli_complain("bench: the ladder is no suite, so --suite does not go with --ladder");
        return CLI_USAGE;
    }
    return CLI_OK;
}

static int parse(int argc, char **argv, struct bench_options *options)
{
    static const struct option names[] = {{"quick", no_argument, NULL, 'q'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"group", required_argument, NULL, 'g'},
                                          {"list", no_argument, NULL, 'l'},
                                          {"repeat", required_argument, NULL, 'r'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"output", required_argument, NULL, 'o'},
                                          {"from", required_argument, NULL, 'f'},
                                          {"headline", no_argument, NULL, 'e'},
                                          {"summary", required_argument, NULL, 'u'},
                                          {"markdown", no_argument, NULL, 'm'},
                                          {"picture", required_argument, NULL, 'p'},
                                          {"full", no_argument, NULL, 'F'},
                                          {"bytes", required_argument, NULL, 'b'},
                                          {"sizes", required_argument, NULL, 'b'},
                                          {"to", required_argument, NULL, 'A'},
                                          {"key-file", required_argument, NULL, 'k'},
                                          {"encrypt", no_argument, NULL, 'E'},
                                          {"kinds", required_argument, NULL, 'K'},
                                          {"memory", required_argument, NULL, 'M'},
                                          {"part", required_argument, NULL, 'P'},
                                          {"live", required_argument, NULL, 'V'},
                                          {"suite", required_argument, NULL, 'S'},
                                          {"ladder", no_argument, NULL, 'L'},
                                          {"gaps", required_argument, NULL, 'G'},
                                          {"timing", required_argument, NULL, 'O'},
                                          {"cache", required_argument, NULL, 'C'},
                                          {"direction", required_argument, NULL, 'D'},
                                          {"seconds", required_argument, NULL, 'T'},
                                          {"spin", no_argument, NULL, 's'},
                                          {"first", required_argument, NULL, '1'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option, status;

    while ((option = getopt_long(argc, argv, ":h", names, NULL)) != -1) {
        status = apply_option(option, options, argc, argv);
        if (status != PARSE_GO_ON)
            return status;
    }
    for (; optind < argc; optind++)
        if (!parse_groups(argv[optind], &options->groups))
            return CLI_USAGE;
    if (check_options(options) != CLI_OK)
        return CLI_USAGE;
    if (has_gap_option(options) && options->groups != 1u << BENCH_GROUP_NET)
        options->copy_parts |= 1u << COPY_GAPS;
    if (!options->groups)
        options->groups = has_gap_option(options)                     ? 1u << BENCH_GROUP_COPY
                          : options->layout_suites || options->ladder ? 1u << BENCH_GROUP_LAYOUT
                          : options->pool_parts                       ? 1u << BENCH_GROUP_POOL
                          : options->to || options->key_file || options->encrypt || options->net_kinds
                              ? 1u << BENCH_GROUP_NET
                          : options->from ? BENCH_ALL_GROUPS
                                          : BENCH_DEFAULT_GROUPS;
    if (options->list)
        return print_list(options);
    return PARSE_GO_ON;
}

static enum table_style style_of(const struct bench_options *options)
{
    return options->markdown ? TABLE_MARKDOWN : TABLE_PLAIN;
}

static json_t *driver_json(const struct bench *bench)
{
    leat_driver_info info = LEAT_DRIVER_INFO_INIT;
    unsigned i;

    for (i = 0; leat_driver_list(i, &info) == LEAT_OK; i++)
        if (!strcmp(info.name, bench->info.driver))
            return json_pack("{s:s, s:o, s:o, s:s?}", "name", info.name, "version", text_json(info.version),
                             "library", text_json(info.library), "compared_with",
                             bench->peer ? bench->peer->text : NULL);
    return json_null();
}

/* Returns the facts of the host and how busy it was before the run, for the record. */
static json_t *host_json(const struct bench *bench)
{
    struct host_facts facts;
    json_t *json;

    host_facts_read(&facts);
    json = host_facts_json(&facts);
    if (json)
        json_object_set_new(json, "busy_before", bench_figure_json(bench->busy_before));
    return json;
}

/* Returns the command line as text. Paths lose their folders, because the record should not depend on where a user
 * keeps it. */
static json_t *command_json(int argc, char **argv)
{
    char text[1024] = "leat";
    size_t used = strlen(text);
    int i;

    for (i = 0; i < argc && used < sizeof text; i++) {
        const char *slash = strrchr(argv[i], '/');

        used += (size_t)snprintf(text + used, sizeof text - used, " %s", slash ? slash + 1 : argv[i]);
    }
    return text_json(text);
}

/* Makes a record that contains the run's arrays of rows and notes, to which the groups will add. Returns NULL if
 * memory is short. */
static json_t *make_record(struct bench *bench, int argc, char **argv)
{
    time_t now = time(NULL);
    struct tm utc;
    char date[32] = "";

    if (gmtime_r(&now, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:O, s:O}", "version", leat_version(), "date", date,
                     "host", host_json(bench), "device", info_device_json(&bench->info), "driver",
                     driver_json(bench), "command", command_json(argc, argv), "quick", bench->options->quick,
                     "rows", bench->rows, "notes", bench->notes);
}

/* Draws the picture of the first wanted group for which there is one. */
static bool draw(const struct bench_options *options, const json_t *record)
{
    for (unsigned i = 0; i < BENCH_GROUP_COUNT; i++) {
        if (!(options->groups & 1u << i))
            continue;
        if (bench_groups[i].run == bench_copy_group)
            return bench_copy_picture(record, options->picture);
        if (bench_groups[i].run == bench_layout_group)
            return bench_layout_picture(record, options->picture);
        if (bench_groups[i].run == bench_memory_group)
            return bench_memory_picture(record, options->picture);
    }
    cli_complain("bench: of these groups there is no picture; copy, layout and memory have one");
    return false;
}

/* Sets row_total, the estimated number of rows of the run, before group number first begins: the rows so far, and
 * the quick_rows of the remaining groups. It stays 0, which means unknown, if options change the number of
 * rows. */
static void expect_rows(struct bench *bench, unsigned first)
{
    const struct bench_options *options = bench->options;
    unsigned i;

    if (!options->quick || options->full || options->copy_parts || options->copy_memories || options->size_count ||
        options->pool_parts || options->layout_suites || options->ladder)
        return;
    bench->row_count = (unsigned)json_array_size(bench->rows);
    bench->row_total = bench->row_count;
    for (i = first; i < BENCH_GROUP_COUNT; i++)
        if (options->groups & 1u << i)
            bench->row_total += bench_groups[i].quick_rows;
}

static bool run_groups(struct bench *bench, const json_t *record)
{
    const struct bench_options *options = bench->options;
    bool tables = !options->json && !options->headline;
    struct host_load load;
    bool fine = true;
    double others;
    unsigned i;

    host_load_begin(&load);
    bench->group_total = (unsigned)__builtin_popcount(options->groups);
    if (!options->json)
        report_print_head(record, style_of(options));
    for (i = 0; i < BENCH_GROUP_COUNT && fine; i++) {
        if (!(options->groups & 1u << i))
            continue;
        fflush(table_file());
        expect_rows(bench, i);
        bench_groups[i].run(bench);
        bench_progress(bench, NULL, NULL, 0);
        bench->group_done++;
        if (tables)
            fine = report_print_group(record, bench_groups[i].name, style_of(options));
    }
    others = host_load_of_others(&load);
    json_object_set_new(json_object_get(record, "host"), "busy_during", bench_figure_json(others));
    if (others > REPORT_BUSY_SHARE)
        bench_note(bench, "others used %.0f %% of the processors' time during the run, so figures may be too low",
                   others * 100);
    if (!options->json) {
        if (options->headline)
            fine = report_print_headline(record, style_of(options)) && fine;
        report_print_notes(record, style_of(options));
    }
    return fine;
}

/* Write six digits, because bench_figure_json() has rounded all numbers to six. More digits would show only the
 * error of the binary representation. */
static const size_t dump_flags = JSON_INDENT(2) | JSON_REAL_PRECISION(6);

static bool write_record(const struct bench_options *options, const json_t *record)
{
    if (options->json) {
        if (json_dumpf(record, stdout, dump_flags) != 0)
            return false;
        putchar('\n');
    }
    if (!options->output || json_dump_file(record, options->output, dump_flags) == 0)
        return true;
    cli_complain("bench: %s cannot be written: %s", options->output, strerror(errno));
    return false;
}

/* Returns true if the record can be written to path. The command checks this before it measures, so that no run is
 * lost because of a wrong path. */
static bool output_is_writable(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool is_new = file >= 0;

    if (!is_new && errno == EEXIST)
        file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file >= 0) {
        close(file);
        if (is_new)
            unlink(path);
        return true;
    }
    cli_complain("bench: %s cannot be written: %s", path, strerror(errno));
    return false;
}

static int measure(const struct bench_options *options, int argc, char **argv)
{
    struct bench bench;
    json_t *record = NULL;
    FILE *tables = NULL;
    bool fine = false;
    double begin = bench_now(), busy;

    if ((options->output && !output_is_writable(options->output)) ||
        (options->picture && !output_is_writable(options->picture)))
        return CLI_FAILED;
    if (options->summary) {
        tables = fopen(options->summary, "ae");
        if (!tables) {
            cli_complain("bench: %s cannot be written: %s", options->summary, strerror(errno));
            return CLI_FAILED;
        }
        table_set_file(tables);
    }
    busy = host_busy_share();
    if (options->groups == 1u << BENCH_GROUP_POOL && options->pool_parts == 1u << POOL_PACKING)
        bench_pool_packing_prepare(options);
    if (!bench_open(&bench, options)) {
        cli_complain("bench: %s", bench.error);
        goto close;
    }
    bench.busy_before = busy;
    if (busy > REPORT_BUSY_SHARE)
        bench_note(
            &bench,
            "the machine was busy before the run (%.0f %% of its processors' time), so figures may be too low",
            busy * 100);
    record = make_record(&bench, argc, argv);
    if (!record) {
        cli_complain("bench: out of memory");
        goto close;
    }
    fine = run_groups(&bench, record);
    if (tables) {
        fine = fclose(tables) == 0 && fine;
        tables = NULL;
        table_set_file(NULL);
        fine = report_print_summary(record, options->summary, bench_now() - begin) && fine;
    }
    fine = write_record(options, record) && fine;
    fine = (!options->picture || draw(options, record)) && fine;

close:
    if (tables)
        fclose(tables);
    table_set_file(NULL);
    json_decref(record);
    bench_close(&bench);
    if (fine && bench.failed)
        cli_complain("bench: not every row ran to its end and was verified");
    return fine && !bench.failed ? CLI_OK : CLI_FAILED;
}

static int print_stored(const struct bench_options *options)
{
    enum table_style style = style_of(options);
    json_t *record = report_load(options->from);
    bool fine = true;
    unsigned i;

    if (!record)
        return CLI_FAILED;
    report_print_head(record, style);
    if (options->headline)
        fine = report_print_headline(record, style);
    for (i = 0; i < BENCH_GROUP_COUNT && !options->headline; i++)
        if (options->groups & 1u << i)
            fine = report_print_group(record, bench_groups[i].name, style) && fine;
    if (!options->headline)
        report_print_notes(record, style);
    fine = (!options->picture || draw(options, record)) && fine;
    json_decref(record);
    return fine ? CLI_OK : CLI_FAILED;
}

int cli_bench(int argc, char **argv)
{
    struct bench_options options = {.quick = false};
    int status = parse(argc, argv, &options);

    if (status != PARSE_GO_ON)
        return status;
    if (options.first)
        return bench_copy_first_child(&options);
    return options.from ? print_stored(&options) : measure(&options, argc, argv);
}
