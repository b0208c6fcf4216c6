/*
 * trace.c - "leat trace": shows where the time of a recorded run went, and what to change; compares two runs.
 */
#include "activity.h"
#include "cli.h"
#include "output_file.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char cli_trace_help[] =
    "Usage: leat trace [OPTION]... FILE [FILE2]\n\n"
    "Shows where the time of a recorded run went: idle, copy only, compute only, and copy under compute, by device\n"
    "and stream; why the devices were idle; and what to change, with the time that each change would save. With two\n"
    "files it compares the two runs.\n\n"
    "FILE is a trace that LEAT_TRACE=FILE or leat run wrote, one of PyTorch's profiler (JSON, also compressed by\n"
    "gzip), or an SQLite export of Nsight Systems (nsys); - is standard input, except for SQLite. docs/trace.md\n"
    "defines all figures.\n\n"
    "Options:\n"
    "  --json           prints the figures as JSON\n"
    "  --html OUT       writes a page for a browser, with a timeline to zoom; it needs no network\n"
    "  --perfetto OUT   writes the timeline for ui.perfetto.dev\n"
    "  --one-pass       with --perfetto: writes while it reads, with little memory, for very long traces of leat\n"
    "  --range NAME     shows only the time from the first beginning of this range to its last end\n"
    "  --rate GB/S      the rate of the link, for forecasts, if the trace has no large copy that tells it\n"
    "  --help           this text\n";

struct options {
    const char *files[2], *html, *perfetto, *range;
    double rate_gb_s;
    bool json, one_pass;
};

enum { PARSE_GO_ON = -1 };

static int parse_files(int argc, char **argv, struct options *options)
{
    if (optind >= argc) {
        cli_complain("trace: the trace to show is missing; see leat help trace");
        return CLI_USAGE;
    }
    options->files[0] = argv[optind++];
    if (optind < argc)
        options->files[1] = argv[optind++];
    if (options->files[1] && (options->html || options->perfetto)) {
        cli_complain("trace: --html and --perfetto take one trace, and not two");
        return CLI_USAGE;
    }
    if (options->one_pass && (!options->perfetto || options->html || options->json)) {
        cli_complain("trace: --one-pass goes with --perfetto, and with no other output");
        return CLI_USAGE;
    }
    if (options->one_pass && options->range) {
        cli_complain("trace: --one-pass writes the whole run, and takes no --range");
        return CLI_USAGE;
    }
    return cli_no_operands(argc, argv) == CLI_OK ? PARSE_GO_ON : CLI_USAGE;
}

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"json", no_argument, NULL, 'j'},       {"html", required_argument, NULL, 'w'},
        {"one-pass", no_argument, NULL, '1'},   {"perfetto", required_argument, NULL, 'p'},
        {"rate", required_argument, NULL, 'r'}, {"range", required_argument, NULL, 'g'},
        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0}};
    int option;
    char *end;

    while ((option = getopt_long(argc, argv, ":h", names, NULL)) != -1)
        switch (option) {
        case 'j':
            options->json = true;
            break;
        case 'w':
            options->html = optarg;
            break;
        case 'p':
            options->perfetto = optarg;
            break;
        case '1':
            options->one_pass = true;
            break;
        case 'g':
            options->range = optarg;
            break;
        case 'r':
            options->rate_gb_s = strtod(optarg, &end);
            if (*end || !(options->rate_gb_s >= 0.001) || options->rate_gb_s > 1e6) {
                cli_complain("trace: --rate %s is no number of GB/s from 0.001 to 1000000", optarg);
                return CLI_USAGE;
            }
            break;
        case 'h':
            fputs(cli_trace_help, stdout);
            return CLI_OK;
        default:
            return cli_bad_option(argc, argv, option);
        }
    return parse_files(argc, argv, options);
}

/* ---- one run ---- */

/* A report and what it points to. */
struct run {
    struct activity_report report;
    struct activity_log *log;
    struct activity_breakdown *breakdown;
    struct activity_advice advice[ACTIVITY_ADVICE_MAX];
};

static void run_clear(struct run *run)
{
    activity_breakdown_destroy(run->breakdown);
    activity_log_destroy(run->log);
}

/* Reads and examines a run. Returns false after printing an error message. The caller must call run_clear(). */
static bool run_read(struct run *run, const char *path, const struct options *options)
{
    char error[ACTIVITY_ERROR_MAX];

    run->log = activity_read(path, error);
    if (!run->log) {
        cli_complain("trace: %s", error);
        return false;
    }
    if (options->range && !activity_log_cut(run->log, options->range, error)) {
        cli_complain("trace: %s: %s", path, error);
        return false;
    }
    run->breakdown = activity_breakdown_make(run->log);
    run->report = (struct activity_report){
        .path = path, .log = run->log, .breakdown = run->breakdown, .advice = run->advice, .advice_count = -1};
    if (run->breakdown)
        run->report.advice_count = activity_advise(run->log, run->breakdown, options->rate_gb_s, run->advice);
    if (run->report.advice_count < 0) {
        cli_complain("trace: out of host memory");
        return false;
    }
    return true;
}

/* ---- output ---- */

static bool write_html(const struct activity_report *report, FILE *file)
{
    return activity_write_html(report, file);
}

static bool write_perfetto(const struct activity_report *report, FILE *file)
{
    return activity_write_perfetto(report->log, file);
}

/* Writes a file. Returns false after printing an error message. */
static bool write_file(const struct activity_report *report, const char *path,
                       bool (*write)(const struct activity_report *report, FILE *file))
{
    struct output_file output;
    bool enough, written;

    if (!output_file_open(&output, path)) {
        cli_complain("trace: %s cannot be written: %s", path, strerror(errno));
        return false;
    }
    enough = write(report, output.file);
    written = output_file_close(&output, enough);
    if (!written)
        cli_complain("trace: %s cannot be written: %s", path, strerror(errno));
    else if (!enough)
        cli_complain("trace: out of host memory");
    return enough && written;
}

static int show(const struct activity_report *report, const struct options *options)
{
    bool fine = true;

    if (options->html)
        fine = write_file(report, options->html, write_html);
    if (options->perfetto && fine)
        fine = write_file(report, options->perfetto, write_perfetto);
    if (!fine)
        return CLI_FAILED;
    if (options->json)
        fine = activity_write_json(report, stdout);
    else if (!options->html && !options->perfetto)
        fine = activity_write_text(report);
    if (!fine)
        cli_complain("trace: out of host memory");
    return fine ? CLI_OK : CLI_FAILED;
}

/* Writes the timeline of the trace at path while it is read. */
static int show_in_one_pass(const struct options *options, const char *path)
{
    char error[ACTIVITY_ERROR_MAX];
    uint64_t missed = 0;
    struct output_file output;
    bool fine, written;

    assert(path);
    if (strcmp(path, "-") != 0 && access(path, R_OK) != 0) {
        cli_complain("trace: %s: cannot be opened: %s", path, strerror(errno));
        return CLI_FAILED;
    }
    if (!output_file_open(&output, options->perfetto)) {
        cli_complain("trace: %s cannot be written: %s", options->perfetto, strerror(errno));
        return CLI_FAILED;
    }
    fine = activity_perfetto_pass(path, output.file, &missed, error);
    if (!fine && ferror(output.file))
        fine = true; /* the file is what failed */
    written = output_file_close(&output, fine);
    if (!written)
        cli_complain("trace: %s cannot be written: %s", options->perfetto, strerror(errno));
    else if (!fine)
        cli_complain("trace: %s", error);
    else if (missed)
        cli_complain("trace: %" PRIu64
                     " operations have no work in the timeline, since their device times come too late "
                     "in the trace",
                     missed);
    return fine && written ? CLI_OK : CLI_FAILED;
}

/* Returns false after an error message if an output is the trace itself. */
static bool check_outputs(const struct options *options)
{
    const char *const outputs[] = {options->html, options->perfetto};
    const char *trace;
    size_t i;

    assert(options->files[0]);
    trace = strcmp(options->files[0], "-") != 0 ? options->files[0] : "/dev/stdin";
    for (i = 0; i < sizeof outputs / sizeof outputs[0]; i++)
        if (outputs[i] && output_file_is_same(outputs[i], trace)) {
            cli_complain("trace: %s is the trace itself, which the output would replace", outputs[i]);
            return false;
        }
    return true;
}

static int compare(const struct activity_report *a, const struct activity_report *b, const struct options *options)
{
    bool fine = options->json ? activity_compare_json(a, b, stdout) : activity_compare_text(a, b);

    if (!fine)
        cli_complain("trace: out of host memory");
    return fine ? CLI_OK : CLI_FAILED;
}

int cli_trace(int argc, char **argv)
{
    struct options options = {.json = false};
    struct run *runs;
    int status = parse(argc, argv, &options);

    if (status != PARSE_GO_ON)
        return status;
    if (!check_outputs(&options))
        return CLI_FAILED;
    if (options.one_pass && options.perfetto)
        return show_in_one_pass(&options, options.files[0]);
    runs = calloc(2, sizeof *runs);
    if (!runs) {
        cli_complain("trace: out of host memory");
        return CLI_FAILED;
    }
    status = CLI_FAILED;
    if (run_read(&runs[0], options.files[0], &options)) {
        if (!options.files[1])
            status = show(&runs[0].report, &options);
        else if (run_read(&runs[1], options.files[1], &options))
            status = compare(&runs[0].report, &runs[1].report, &options);
    }
    run_clear(&runs[0]);
    run_clear(&runs[1]);
    free(runs);
    return status;
}
