/*
 * layout.c - "leat layout": runs one copy between two layouts, verifies it against a plain loop, measures it, and
 * prints its plan and its bound.
 */
#include "cli.h"
#include "layout_lab.h"
#include "text.h"
#include "text_json.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cli_layout_help[] =
    "Usage: leat layout --size SIZES [--elem BYTES] [VIEW]... [OPTION]...\n\n"
    "Copies a view of a dense array into another dense array by leat_copy_layout(), verifies every byte against "
    "a\n"
    "plain loop, and prints the plan, the bound, and how fast it was beside a plain copy of as many bytes.\n\n"
    "The array, and the views of it, which are taken in the order in which they are given:\n"
    "  --size SIZES              sizes of the dimensions, separated by commas, the slowest first, as in C\n"
    "  --elem BYTES              bytes of an element, 1 to 16; 4 without it\n"
    "  --perm DIMS               dimension i becomes what dimension DIMS[i] was: --perm 1,0 transposes a matrix\n"
    "  --slice DIM:START:STOP    elements START to STOP - 1 of a dimension; a step may follow, "
    "DIM:START:STOP:STEP\n"
    "  --flip DIM                turns a dimension round\n"
    "  --broadcast DIM:SIZE      repeats a dimension of size 1\n"
    "  --index DIM:COUNT         gathers COUNT elements of a dimension by a list of indices; the bytes of an "
    "index,\n"
    "                            4 or 8, may follow, DIM:COUNT:BYTES; 8 without them\n"
    "  --scatter DIM:SIZE        scatters a dimension over one of SIZE elements by such a list, in the same "
    "way\n\n"
    "Options:\n"
    "  --device NAME             the device, such as cuda:1 or cpu:0; without it the best there is\n"
    "  --from KIND, --to KIND    where the arrays are: device (without it), pinned, managed or pageable\n"
    "  --repeat N                exactly N samples; without it as many as fit in half a second\n"
    "  --verify                  verifies each of the buffers that the timing goes through, not only the first\n"
    "  --json                    the same as JSON\n"
    "  --help                    this text\n\n"
    "Exit status 1 when bytes were wrong or the copy failed. The manual (man leat) says what each figure is.\n";

struct layout_options {
    struct layout_words words;
    struct bench_options bench;
    leat_kind from, to;
    bool verify_all;
};

/* getopt_long() returns STEP_OPTION + i for the option of step kind i. STEP_OPTION is above all characters. */
enum { STEP_OPTION = 256, PARSE_GO_ON = -1 };

static bool parse_number(const char *option, const char *text, unsigned long most, unsigned long *number)
{
    char *end;

    *number = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && !*end && *number >= 1 && *number <= most)
        return true;
    cli_complain("layout: --%s takes a whole number from 1 to %lu, not '%s'", option, most, text);
    return false;
}

static bool parse_kind(const char *option, const char *text, leat_kind *kind)
{
    static const leat_kind kinds[] = {LEAT_KIND_DEVICE, LEAT_KIND_PINNED, LEAT_KIND_MANAGED, LEAT_KIND_PAGEABLE};
    unsigned i;

    for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(text, leat_kind_name(kinds[i]))) {
            *kind = kinds[i];
            return true;
        }
    cli_complain("layout: --%s takes device, pinned, managed or pageable, not '%s'", option, text);
    return false;
}

static bool add_step(struct layout_words *words, enum layout_step_kind kind, const char *value)
{
    if (words->count == LAYOUT_STEPS_MAX) {
        cli_complain("layout: more than %d views of views", LAYOUT_STEPS_MAX);
        return false;
    }
    words->steps[words->count].kind = kind;
    words->steps[words->count++].value = value;
    return true;
}

/* Applies one option. Returns PARSE_GO_ON, or the exit status if the command ends here. */
static int apply_option(int option, struct layout_options *options, int argc, char **argv)
{
    unsigned long number;
    bool fine = true;

    if (option >= STEP_OPTION)
        return add_step(&options->words, (enum layout_step_kind)(option - STEP_OPTION), optarg) ? PARSE_GO_ON
                                                                                                : CLI_USAGE;
    switch (option) {
    case 's':
        options->words.size = optarg;
        break;
    case 'e':
        fine = parse_number("elem", optarg, LEAT_LAYOUT_MAX_ELEMENT_BYTES, &number);
        options->words.element_bytes = fine ? (uint32_t)number : 0;
        break;
    case 'd':
        options->bench.device = optarg;
        break;
    case 'f':
        fine = parse_kind("from", optarg, &options->from);
        break;
    case 't':
        fine = parse_kind("to", optarg, &options->to);
        break;
    case 'r':
        fine = parse_number("repeat", optarg, 1000, &number);
        options->bench.repeat = fine ? (unsigned)number : 0;
        break;
    case 'v':
        options->verify_all = true;
        break;
    case 'j':
        options->bench.json = true;
        break;
    case 'h':
        fputs(cli_layout_help, stdout);
        return CLI_OK;
    default:
        return cli_bad_option(argc, argv, option);
    }
    return fine ? PARSE_GO_ON : CLI_USAGE;
}

static int parse(int argc, char **argv, struct layout_options *options)
{
    static const struct option names[] = {{"size", required_argument, NULL, 's'},
                                          {"elem", required_argument, NULL, 'e'},
                                          {"perm", required_argument, NULL, STEP_OPTION + LAYOUT_PERM},
                                          {"slice", required_argument, NULL, STEP_OPTION + LAYOUT_SLICE},
                                          {"flip", required_argument, NULL, STEP_OPTION + LAYOUT_FLIP},
                                          {"broadcast", required_argument, NULL, STEP_OPTION + LAYOUT_BROADCAST},
                                          {"index", required_argument, NULL, STEP_OPTION + LAYOUT_INDEX},
                                          {"scatter", required_argument, NULL, STEP_OPTION + LAYOUT_SCATTER},
                                          {"device", required_argument, NULL, 'd'},
                                          {"from", required_argument, NULL, 'f'},
                                          {"to", required_argument, NULL, 't'},
                                          {"repeat", required_argument, NULL, 'r'},
                                          {"verify", no_argument, NULL, 'v'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option, status;

    while ((option = getopt_long(argc, argv, ":h", names, NULL)) != -1) {
        status = apply_option(option, options, argc, argv);
        if (status != PARSE_GO_ON)
            return status;
    }
    status = cli_no_operands(argc, argv);
    if (status != CLI_OK)
        return status;
    if (options->words.size)
        return PARSE_GO_ON;
    cli_complain("layout: how large is the array? leat layout --size 4096,4096 --perm 1,0; see leat help layout");
    return CLI_USAGE;
}

/* ---- output ---- */

static void set_figure(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

static bool print_json(const struct bench *bench, const struct layout_options *options,
                       const struct layout_case *made, const struct layout_result *result)
{
    json_t *object = json_pack("{s:b}", "verified", result->verified);
    double rate = layout_rate(result), copy = layout_copy_rate(result), bound = layout_bound_rate(result);
    bool fine = object != NULL;

    set_figure(object, "gb_s", rate);
    set_figure(object, "copy_gb_s", copy);
    set_figure(object, "share_of_copy", rate / copy);
    set_figure(object, "bound_gb_s", bound);
    set_figure(object, "share_of_bound", rate / bound);
    set_figure(object, "median_us", result->times.repeats ? result->times.leat.median * 1e6 : NAN);
    set_figure(object, "copy_median_us", result->times.repeats ? result->times.driver.median * 1e6 : NAN);
    json_object_set_new(object, "repeats", json_integer(result->times.repeats));
    json_object_set_new(object, "payload_bytes", json_integer((json_int_t)made->payload_bytes));
    json_object_set_new(object, "device", json_string(bench->info.name));
    json_object_set_new(object, "model", text_json(bench->info.model));
    json_object_set_new(object, "version", json_string(leat_version()));
    json_object_set_new(object, "from", json_string(leat_kind_name(options->from)));
    json_object_set_new(object, "to", json_string(leat_kind_name(options->to)));
    fine = fine && layout_describe(object, made, result) &&
           json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;
    putchar('\n');
    json_decref(object);
    return fine;
}

static void print_plan(const char *plan)
{
    while (*plan) {
        size_t length = strcspn(plan, "\n");

        printf("  %.*s\n", (int)length, plan);
        plan += length + (plan[length] == '\n');
    }
}

static void print_line(const char *name, const char *text)
{
    printf("  %-9s %s\n", name, text);
}

static void print_text(const struct bench *bench, const struct layout_options *options,
                       const struct layout_case *made, const struct layout_result *result)
{
    double rate = layout_rate(result), copy = layout_copy_rate(result), bound = layout_bound_rate(result);
    char text[LAYOUT_TEXT_MAX], one[TEXT_MAX], two[TEXT_MAX];

    printf("%s: %s from %s to %s on %s, %s\n", made->name, text_bytes(one, made->payload_bytes),
           leat_kind_name(options->from), leat_kind_name(options->to), bench->info.name, bench->info.model);
    print_plan(result->plan);
    puts("");
    print_line("verified", result->verified ? "yes" : "NO: the bytes are not those of a plain loop");
    if (!result->times.repeats) {
        print_line("time", "nothing is copied");
        return;
    }
    snprintf(text, sizeof text, "%s us, the median of %u; %u buffer%s in turns",
             text_figure(one, result->times.leat.median * 1e6), result->times.repeats, result->buffers,
             result->buffers == 1 ? "" : "s");
    print_line("time", text);
    snprintf(text, sizeof text, "%s GB/s, %.1f %% of a plain copy's %s GB/s", text_figure(one, rate),
             100 * rate / copy, text_figure(two, copy));
    print_line("rate", text);
    if (!isfinite(bound))
        return;
    snprintf(text, sizeof text, "%.1f %% of the bound's %s GB/s", 100 * rate / bound, text_figure(one, bound));
    print_line("", text);
}

static int run(const struct layout_options *options, struct layout_case *made)
{
    const struct layout_effort effort = {.seconds = 0.5, .verify_all = options->verify_all};
    static struct layout_result result; /* too large for the stack */
    struct layout_lab lab = {.bench = NULL};
    struct bench bench;
    bool fine = false;

    if (bench_open(&bench, &options->bench) && layout_lab_open(&lab, &bench, options->from, options->to))
        fine = layout_lab_run(&lab, made, &effort, &result);
    if (!fine)
        cli_complain("layout: %s", bench.error);
    else if (options->bench.json)
        fine = print_json(&bench, options, made, &result);
    else
        print_text(&bench, options, made, &result);
    if (lab.bench)
        layout_lab_close(&lab);
    bench_close(&bench);
    if (fine && !result.verified)
        cli_complain("layout: the copy is wrong: its bytes are not those of a plain loop");
    return fine && result.verified ? CLI_OK : CLI_FAILED;
}

int cli_layout(int argc, char **argv)
{
    struct layout_options options = {
        .words = {.element_bytes = 4}, .from = LEAT_KIND_DEVICE, .to = LEAT_KIND_DEVICE};
    static struct layout_case made;
    char error[LAYOUT_ERROR_MAX];
    int status = parse(argc, argv, &options);

    if (status != PARSE_GO_ON)
        return status;
    if (layout_case_make(&made, &options.words, error))
        return run(&options, &made);
    cli_complain("layout: %s", error);
    return CLI_USAGE;
}
