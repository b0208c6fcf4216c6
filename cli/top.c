/*
 * top.c - "leat top": shows what a running process does with its devices, from the live counters of its recorder.
 */
#include "top.h"
#include "cli.h"
#include "table.h"
#include "text.h"
#include "text_json.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char cli_top_help[] =
    "Usage: leat top [OPTION]... [PID]\n\n"
    "Shows what a running process does with its devices: its copies by kinds of memory, its other operations, its\n"
    "streams with what is in flight, and the memory of its pools. Without PID it lists the processes that can be\n"
    "shown: those of this user that were started with LEAT_TRACE=FILE, or record a trace by leat_trace_start().\n"
    "LEAT_TRACE=/dev/null writes no trace and keeps only the counters.\n\n"
    "In a terminal the picture is drawn anew after each interval, until the process ends or Ctrl-C.\n\n"
    "Options:\n"
    "  --interval S  seconds between two pictures, 0.05 to 3600; without it 1\n"
    "  --once        one picture after one interval\n"
    "  --json        JSON: one line for each picture, or with --once or without PID one object\n"
    "  --help        this text\n";

struct options {
    long pid; /* 0: list */
    double interval_s;
    bool once, json;
};

enum { PARSE_GO_ON = -1 };

static int parse_pid(int argc, char **argv, struct options *options)
{
    char *end;

    if (optind >= argc) {
        if (!options->once && options->interval_s <= 0)
            return PARSE_GO_ON;
        cli_complain("top: --once and --interval need the PID of a process; leat top lists them");
        return CLI_USAGE;
    }
    errno = 0;
    options->pid = strtol(argv[optind], &end, 10);
    if (*end || errno || options->pid <= 0) {
        cli_complain("top: '%s' is no process ID", argv[optind]);
        return CLI_USAGE;
    }
    optind++;
    return cli_no_operands(argc, argv) == CLI_OK ? PARSE_GO_ON : CLI_USAGE;
}

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"interval", required_argument, NULL, 'i'},
                                          {"once", no_argument, NULL, 'o'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;
    char *end;

    while ((option = getopt_long(argc, argv, ":h", names, NULL)) != -1)
        switch (option) {
        case 'i':
            options->interval_s = strtod(optarg, &end);
            if (end == optarg || *end || !(options->interval_s >= 0.05 && options->interval_s <= 3600)) {
                cli_complain("top: --interval %s is no number of seconds from 0.05 to 3600", optarg);
                return CLI_USAGE;
            }
            break;
        case 'o':
            options->once = true;
            break;
        case 'j':
            options->json = true;
            break;
        case 'h':
            fputs(cli_top_help, stdout);
            return CLI_OK;
        default:
            return cli_bad_option(argc, argv, option);
        }
    return parse_pid(argc, argv, options);
}

/* ---- the list ---- */

static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t count_ops(const struct leati_live *live)
{
    uint64_t ops = 0;
    int i;

    for (i = 0; i < LEATI_LIVE_KINDS; i++)
        ops += live->kinds[i].ops;
    return ops;
}

struct list {
    struct table *table; /* NULL: JSON */
    json_t *json;
    int count;
    bool fine;
};

/* See live_each(). */
static void list_process(void *context, long pid, const struct leati_live *live)
{
    struct list *list = context;
    char program[LIVE_PROGRAM_MAX], cells[3][TEXT_MAX];
    uint64_t now = clock_ns();
    double seconds = now > live->start_ns ? (double)(now - live->start_ns) / 1e9 : 0;
    const char *row[] = {cells[0], cells[1], cells[2], live_program(pid, program), live->path};

    list->count++;
    if (!list->table) {
        list->fine =
            json_array_append_new(list->json,
                                  json_pack("{s:I, s:o, s:f, s:I, s:o}", "process", (json_int_t)pid, "program",
                                            text_json(program), "seconds", seconds, "operations",
                                            (json_int_t)count_ops(live), "trace", text_json(live->path))) == 0 &&
            list->fine;
        return;
    }
    snprintf(cells[0], TEXT_MAX, "%ld", pid);
    snprintf(cells[1], TEXT_MAX, "%.0f s", seconds);
    snprintf(cells[2], TEXT_MAX, "%" PRIu64, count_ops(live));
    list->fine = table_add(list->table, row) && list->fine;
}

static bool print_list(struct list *list)
{
    bool fine;

    if (list->table && !list->count) {
        puts(
            "No process of this user records a trace. Start one with LEAT_TRACE=FILE, or with LEAT_TRACE=/dev/null\n"
            "for live counters alone.");
        return true;
    }
    if (list->table)
        return table_print(list->table, NULL, TABLE_PLAIN);
    fine = json_dumpf(list->json, stdout, JSON_INDENT(2)) == 0 || ferror(stdout);
    putchar('\n');
    return fine;
}

static int show_list(const struct options *options)
{
    static const struct table_column columns[] = {{"PID", true, 0, true},
                                                  {"RECORDS FOR", true, 0, false},
                                                  {"OPERATIONS", true, 0, false},
                                                  {"PROGRAM", false, 0, false},
                                                  {"TRACE", false, TABLE_WRAP_REST, false}};
    struct list list = {.fine = true};
    json_t *whole = NULL;
    char error[LIVE_ERROR_MAX] = "out of host memory";

    if (options->json) {
        list.json = json_array();
        whole = json_pack("{s:s, s:O}", "format", "leat-top-list-1", "processes", list.json);
    } else
        list.table = table_create(columns, sizeof columns / sizeof columns[0]);
    list.fine = whole || list.table;
    if (list.fine)
        list.fine = live_each(list_process, &list, error) && list.fine;
    json_decref(list.json);
    list.json = whole;
    list.fine = list.fine && print_list(&list);
    json_decref(whole);
    table_destroy(list.table);
    if (!list.fine)
        cli_complain("top: %s", error);
    return list.fine ? CLI_OK : CLI_FAILED;
}

/* ---- one process ---- */

static void pause_for(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};

    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) && errno == EINTR)
        continue;
}

/* Reads the counters once more. A trace that has begun meanwhile counts from its beginning. */
static enum live_state read_next(struct top_view *view, char error[LIVE_ERROR_MAX])
{
    enum live_state state;

    view->before = view->now;
    state = live_read(view->pid, &view->now, error);
    if (state != LIVE_READ)
        return state;
    if (view->now.start_ns != view->before.start_ns) {
        memset(&view->before, 0, sizeof view->before);
        view->before.time_ns = view->now.start_ns;
    }
    view->passed_ns = view->now.time_ns > view->before.time_ns ? view->now.time_ns - view->before.time_ns : 1;
    return state;
}

static bool draw(const struct top_view *view, const struct options *options, bool terminal)
{
    bool fine;

    if (terminal)
        fputs("\033[H\033[J", stdout); /* to the first line, and clear what follows */
    fine = options->json ? top_write_json(view, stdout, !options->once) : top_write_text(view);
    if (!options->json && !options->once && !terminal)
        putchar('\n');
    if (!fine)
        cli_complain("top: out of host memory");
    return fine;
}

static int show_process(struct top_view *view, const struct options *options)
{
    double interval_s = options->interval_s > 0 ? options->interval_s : 1;
    bool terminal = !options->json && !options->once && isatty(STDOUT_FILENO);
    char error[LIVE_ERROR_MAX] = "", program[LIVE_PROGRAM_MAX];
    enum live_state state = live_read(options->pid, &view->now, error);
    bool first = true;

    view->pid = options->pid;
    view->program = live_program(options->pid, program);
    while (state == LIVE_READ) {
        pause_for(interval_s);
        state = read_next(view, error);
        if (state != LIVE_READ)
            break;
        first = false;
        if (!draw(view, options, terminal))
            return CLI_FAILED;
        if (options->once)
            return CLI_OK;
        if (fflush(stdout) != 0) /* main() complains */
            return CLI_FAILED;
    }
    if (!first && (state == LIVE_GONE || state == LIVE_ABSENT)) {
        fprintf(stderr, "leat: top: %s\n",
                state == LIVE_GONE ? "the process has ended" : "the process has ended its trace");
        return CLI_OK;
    }
    cli_complain("top: %s", error);
    return CLI_FAILED;
}

int cli_top(int argc, char **argv)
{
    struct options options = {.pid = 0};
    struct top_view *view;
    int status = parse(argc, argv, &options);

    if (status != PARSE_GO_ON)
        return status;
    if (!options.pid)
        return show_list(&options);
    view = calloc(1, sizeof *view);
    if (!view) {
        cli_complain("top: out of host memory");
        return CLI_FAILED;
    }
    status = show_process(view, &options);
    free(view);
    return status;
}
