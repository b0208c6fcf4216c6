/*
 * pool_map.c - "leat pool-map": draws a snapshot of a pool as SVG or in characters, or prints its sums as JSON.
 */
#include "pool_map.h"
#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char cli_pool_map_help[] =
    "Usage: leat pool-map [OPTION]... SNAPSHOT\n\n"
    "Draws the addresses of a pool, row by row: live blocks, memory that is kept for "
    "a stream, memory that waits for\n"
    "other streams, free memory, memory that stitched blocks use, and addresses "
    "without memory. Stitched blocks\n"
    "have addresses of their own. SNAPSHOT is the JSON that leat_pool_snapshot() "
    "writes, for example by leat replay\n"
    "--snapshot; - is standard input. The picture is SVG for a browser, light or dark; pointing at a block "
    "shows its size, stream, tag and,\n"
    "from a pool in guard mode, its call stack.\n\n"
    "Options:\n"
    "  -o, --output FILE  writes to FILE instead of standard output\n"
    "  --text             a coarse picture in characters instead of SVG; a terminal gets that anyway\n"
    "  --json             the sums of the picture as JSON instead of SVG\n"
    "  --help             this text\n";

struct options {
    const char *snapshot;
    const char *output;
    bool text, json;
};

enum { PARSE_GO_ON = -1 };

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"output", required_argument, NULL, 'o'},
                                          {"text", no_argument, NULL, 't'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, ":ho:", names, NULL)) != -1)
        switch (option) {
        case 'o':
            options->output = optarg;
            break;
        case 't':
            options->text = true;
            break;
        case 'j':
            options->json = true;
            break;
        case 'h':
            fputs(cli_pool_map_help, stdout);
            return CLI_OK;
        default:
            return cli_bad_option(argc, argv, option);
        }
    if (options->text && options->json) {
        cli_complain("pool-map: --text or --json, not both");
        return CLI_USAGE;
    }
    if (optind >= argc) {
        cli_complain("pool-map: the snapshot to draw is missing; see leat help pool-map");
        return CLI_USAGE;
    }
    options->snapshot = argv[optind++];
    return cli_no_operands(argc, argv) == CLI_OK ? PARSE_GO_ON : CLI_USAGE;
}

static int draw(const struct pool_map *map, const struct options *options)
{
    FILE *file = options->output ? fopen(options->output, "we") : stdout;
    bool drawn, written;

    if (!file) {
        cli_complain("pool-map: %s cannot be written: %s", options->output, strerror(errno));
        return CLI_FAILED;
    }
    /* Write characters instead of SVG to a terminal. */
    drawn = options->json                                                ? pool_map_write_json(map, file)
            : options->text || (file == stdout && isatty(STDOUT_FILENO)) ? pool_map_write_text(map, file)
                                                                         : pool_map_write_svg(map, file);
    /* Check a file for write errors; main() checks standard output. */
    written = file == stdout || !ferror(file);
    if (file != stdout && fclose(file) != 0)
        written = false;
    if (!drawn)
        cli_complain("pool-map: out of host memory");
    else if (!written)
        cli_complain("pool-map: %s cannot be written: %s", options->output, strerror(errno));
    return drawn && written ? CLI_OK : CLI_FAILED;
}

int cli_pool_map(int argc, char **argv)
{
    struct options options = {.text = false};
    char error[POOL_MAP_ERROR_MAX];
    struct pool_map *map;
    int status = parse(argc, argv, &options);

    if (status != PARSE_GO_ON)
        return status;
    map = pool_map_read(options.snapshot, error);
    if (!map) {
        cli_complain("pool-map: %s", error);
        return CLI_FAILED;
    }
    status = draw(map, &options);
    pool_map_destroy(map);
    return status;
}
