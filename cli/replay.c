/*
 * replay.c - "leat replay": reads the options, replays a recorded trace of allocations, and prints its times and
 * memory.
 */
#include "replay.h"
#include "cli.h"
#include "host_facts.h"
#include "text.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char cli_replay_help[] =
    "Usage: leat replay [OPTION]... TRACE\n\n"
    "Runs the allocations and frees that a program made, recorded in the file TRACE, through a pool of leat or\n"
    "through the driver's own allocator, and shows how much memory that took and how long the calls were.\n"
    "The memory is never touched, so a trace of 25 GB runs on the CPU device of a small machine.\n\n"
    "TRACE is plain or compressed by gzip, and one of these:\n"
    "  a CSV file with the header line t_us,op,id,bytes,stream: leat's format; op is alloc, free or freed; with\n"
    "  LEAT_RECORD_ALLOCATIONS=FILE any program that uses leat writes one, with what orders its streams\n"
    "  a CSV file with the header line Thread,Time,Action,Pointer,Size,Stream: the log of RMM's logging adaptor\n"
    "  a memory snapshot of PyTorch, as torch.cuda.memory._dump_snapshot() writes it after\n"
    "  torch.cuda.memory._record_memory_history(); only data is read from it, no code is run\n\n"
    "Options:\n"
    "  --device NAME     the device, such as cuda:1 or cpu:0; without it the best there is\n"
    "  --allocator NAME  leat (the default): a new pool; driver: the driver's plain calls (cuMemAlloc; malloc on\n"
    "                    the CPU device); driver-async: its calls in stream order (cuMemAllocAsync);\n"
    "                    driver-async-keep: the same, with a pool that gives nothing back meanwhile\n"
    "  --policy NAME     of the pool, for memory that another stream freed and may still use: wait-last (the\n"
    "                    default), wait or wait-never\n"
    "  --packing NAME    of the pool, where no idle memory fits in one piece: auto (the default), still (only "
    "new\n"
    "                    memory) or tight (blocks stitched together from idle pages first)\n"
    "  --limit BYTES     the most that the pool may hold; K, M, G and T (powers of 1024) may follow; a number "
    "with\n"
    "                    an x behind it, such as 1.02x, counts in the most bytes that the trace requests\n"
    "  --plan FILE       gives the pool a plan, which leat plan made of this or another trace; -: standard input\n"
    "  --kind NAME       the memory that is replayed, of a trace with several kinds: device (the default), pinned "
    "or\n"
    "                    managed\n"
    "  --pool NAME       only blocks of the recorded pools of this name; without it of all, as one pool\n"
    "  --hold            frees a block where the trace says freed instead of free\n"
    "  --repeat N        replays the trace N times in the same pool, 1 to 100, and shows rounds apart\n"
    "  --trim            after each round gives all memory of the pool back to the driver\n"
    "  --trace-device N  the device whose events of a PyTorch snapshot are replayed, where several have some\n"
    "  --snapshot FILE   writes the state of the pool, at the moment of the most bytes requested in the last "
    "round,\n"
    "                    to FILE; leat pool-map draws it\n"
    "  --json            prints the figures, of each round too, as JSON instead of tables\n"
    "  --help            this text\n\n"
    "Each stream of the trace is a stream of its own; one thread makes all calls. A line free is where the "
    "program\n"
    "let go of the block. Where a trace with several streams has other lines between free and freed, other "
    "streams\n"
    "still used the block (in PyTorch: record_stream), and the pool is told so (leat_block_use) before the free. "
    "The\n"
    "line freed then needs nothing: the memory comes back in the order of the streams, whereas the recording\n"
    "allocator found out by polling. With --hold the block is kept until then, as that allocator did.\n\n"
    "A pair is the allocation and the free of one block. Times are those of the calls alone.\n"
    "A request that fails ends the replay: the message says where, and the exit status is 1.\n"
    "The manual (man leat) says what each figure is.\n";

enum { PARSE_GO_ON = -1, TRACE_DEVICES_MAX = 1024 };

static const double LIMIT_RATIO_MIN = 0.01, LIMIT_RATIO_MAX = 100;

/* ---- the command line ---- */

/* Returns the index of text among count names, or -1 after printing an error message. */
static int parse_name(const char *option, const char *text, const char *const *names, int count)
{
    char list[128] = "";
    int i;

    for (i = 0; i < count; i++) {
        size_t used = strlen(list);

        if (!strcmp(text, names[i]))
            return i;
        snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", names[i]);
    }
    cli_complain("replay: --%s takes %s, not '%s'", option, list, text);
    return -1;
}

static bool parse_rounds(const char *text, unsigned *rounds)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value < 1 || value > REPLAY_ROUNDS_MAX) {
        cli_complain("replay: --repeat takes a whole number from 1 to %d, not '%s'", REPLAY_ROUNDS_MAX, text);
        return false;
    }
    *rounds = (unsigned)value;
    return true;
}

/* Reads the value of --limit: bytes, such as 4G, or a ratio, such as 1.02x. */
static bool parse_limit(const char *text, struct replay_options *options)
{
    char *end;

    options->limit_bytes = 0;
    options->limit_ratio = 0;
    if (text_parse_bytes(text, NULL, &options->limit_bytes))
        return true;
    errno = 0;
    options->limit_ratio = strtod(text, &end);
    if (strspn(text, "0123456789.") == (size_t)(end - text) && !strcmp(end, "x") && !errno &&
        options->limit_ratio >= LIMIT_RATIO_MIN && options->limit_ratio <= LIMIT_RATIO_MAX)
        return true;
    cli_complain("replay: --limit takes a size such as 4G, or a multiple such as 1.02x, from %gx to %gx, not '%s'",
                 LIMIT_RATIO_MIN, LIMIT_RATIO_MAX, text);
    return false;
}

static bool parse_trace_device(const char *text, int *device)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && !*end && !errno && value < TRACE_DEVICES_MAX) {
        *device = (int)value;
        return true;
    }
    cli_complain("replay: --trace-device takes a whole number from 0 to %d, not '%s'", TRACE_DEVICES_MAX - 1,
                 text);
    return false;
}

/* Reads the value of --kind. Returns false after printing an error message. */
static bool parse_kind(const char *text, leat_kind *kind)
{
    static const char *const names[] = {"pinned", "device", "managed"};
    int index = parse_name("kind", text, names, 3);

    if (index >= 0)
        *kind = (leat_kind)(LEAT_KIND_PINNED + index);
    return index >= 0;
}

/* Applies one option. Returns PARSE_GO_ON, or the exit status if the command ends here. */
static int apply_option(int option, struct replay_options *options, int argc, char **argv)
{
    int index;

    switch (option) {
    case 'd':
        options->device = optarg;
        return PARSE_GO_ON;
    case 'a':
        index = parse_name("allocator", optarg, replay_allocator_names, REPLAY_ALLOCATOR_COUNT);
        options->allocator = index < 0 ? REPLAY_LEAT : (enum replay_allocator)index;
        return index < 0 ? CLI_USAGE : PARSE_GO_ON;
    case 'p':
        index = parse_name("policy", optarg, replay_policy_names, 3);
        options->policy = index < 0 ? LEAT_POOL_REUSE_WAIT_LAST : (leat_pool_reuse)index;
        options->policy_given = true;
        return index < 0 ? CLI_USAGE : PARSE_GO_ON;
    case 'P':
        index = parse_name("packing", optarg, replay_packing_names, 3);
        options->packing = index < 0 ? LEAT_POOL_PACKING_AUTO : (leat_pool_packing)index;
        options->packing_given = true;
        return index < 0 ? CLI_USAGE : PARSE_GO_ON;
    case 'l':
        return parse_limit(optarg, options) ? PARSE_GO_ON : CLI_USAGE;
    case 'k':
        return parse_kind(optarg, &options->kind) ? PARSE_GO_ON : CLI_USAGE;
    case 'q':
        options->pool = optarg;
        return PARSE_GO_ON;
    case 'D':
        return parse_trace_device(optarg, &options->trace_device) ? PARSE_GO_ON : CLI_USAGE;
    case 'r':
        return parse_rounds(optarg, &options->rounds) ? PARSE_GO_ON : CLI_USAGE;
    case 'o':
        options->hold = true;
        return PARSE_GO_ON;
    case 't':
        options->trim = true;
        return PARSE_GO_ON;
    case 's':
        options->snapshot = optarg;
        return PARSE_GO_ON;
    case 'n':
        options->plan = optarg;
        return PARSE_GO_ON;
    case 'j':
        options->json = true;
        return PARSE_GO_ON;
    case 'h':
        fputs(cli_replay_help, stdout);
        return CLI_OK;
    default:
        return cli_bad_option(argc, argv, option);
    }
}

/* If another allocator than leat's pool is chosen, refuses options that only leat's pool supports. */
static int check_pool_options(const struct replay_options *options)
{
    bool limited = options->limit_bytes || options->limit_ratio > 0,
         other_kind = options->kind != LEAT_KIND_DEVICE;
    const char *name = options->policy_given    ? "--policy"
                       : options->packing_given ? "--packing"
                       : limited                ? "--limit"
                       : options->trim          ? "--trim"
                       : options->snapshot      ? "--snapshot"
                       : options->plan          ? "--plan"
                       : other_kind             ? "--kind"
                                                : NULL;

    if (options->allocator == REPLAY_LEAT || !name)
        return PARSE_GO_ON;
    cli_complain("replay: %s is about a pool of leat and does not go with --allocator %s", name,
                 replay_allocator_names[options->allocator]);
    return CLI_USAGE;
}

static int parse(int argc, char **argv, struct replay_options *options)
{
    static const struct option names[] = {{"device", required_argument, NULL, 'd'},
                                          {"allocator", required_argument, NULL, 'a'},
                                          {"policy", required_argument, NULL, 'p'},
                                          {"packing", required_argument, NULL, 'P'},
                                          {"limit", required_argument, NULL, 'l'},
                                          {"repeat", required_argument, NULL, 'r'},
                                          {"hold", no_argument, NULL, 'o'},
                                          {"trim", no_argument, NULL, 't'},
                                          {"kind", required_argument, NULL, 'k'},
                                          {"pool", required_argument, NULL, 'q'},
                                          {"trace-device", required_argument, NULL, 'D'},
                                          {"snapshot", required_argument, NULL, 's'},
                                          {"plan", required_argument, NULL, 'n'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option, status;

    while ((option = getopt_long(argc, argv, ":h", names, NULL)) != -1) {
        status = apply_option(option, options, argc, argv);
        if (status != PARSE_GO_ON)
            return status;
    }
    if (optind >= argc) {
        cli_complain("replay: the file to replay is missing; see leat help replay");
        return CLI_USAGE;
    }
    options->trace = argv[optind++];
    if (cli_no_operands(argc, argv) != CLI_OK)
        return CLI_USAGE;
    if (options->plan && !strcmp(options->plan, "-") && !strcmp(options->trace, "-")) {
        cli_complain("replay: the trace and the plan cannot both be standard input");
        return CLI_USAGE;
    }
    return check_pool_options(options);
}

/* ---- a plan from standard input ---- */

/* Pools read plans from regular files only, so standard input is copied into a memory file. */
struct plan_file {
    int descriptor; /* -1: the plan is not standard input */
    char path[32];  /* path of the memory file */
};

static bool copy_standard_input(int descriptor)
{
    char bytes[16384];
    ssize_t count, done, written;

    while ((count = read(STDIN_FILENO, bytes, sizeof bytes)) != 0) {
        if (count < 0 && errno != EINTR)
            return false;
        for (done = 0; done < count; done += written) {
            written = write(descriptor, bytes + done, (size_t)(count - done));
            if (written < 0 && errno != EINTR)
                return false;
            if (written < 0)
                written = 0;
        }
    }
    return true;
}

/* If options->plan is "-", copies standard input to a memory file and sets options->plan to its path. Returns
 * false after printing an error message. */
static bool open_plan(struct replay_options *options, struct plan_file *file)
{
    file->descriptor = -1;
    if (!options->plan || strcmp(options->plan, "-") != 0)
        return true;
    file->descriptor = memfd_create("leat-plan", MFD_CLOEXEC);
    if (file->descriptor < 0 || !copy_standard_input(file->descriptor)) {
        cli_complain("replay: the plan cannot be read from standard input: %s", strerror(errno));
        return false;
    }
    snprintf(file->path, sizeof file->path, "/proc/self/fd/%d", file->descriptor);
    options->plan = file->path;
    return true;
}

static void close_plan(const struct plan_file *file)
{
    if (file->descriptor >= 0)
        close(file->descriptor);
}

/* Prints that a replay failed. If error names the memory file, prints "standard input" instead, because the user
 * does not know that file. */
static void complain(const struct replay_options *options, const char *error)
{
    const char *name =
        options->plan && !strncmp(options->plan, "/proc/self/fd/", 14) ? strstr(error, options->plan) : NULL;

    if (name)
        cli_complain("replay: %.*sof standard input%s", (int)(name - error), error, name + strlen(options->plan));
    else
        cli_complain("replay: %s", error);
}

/* ---- replaying ---- */

static int replay(const struct replay_options *options, const struct trace *trace)
{
    struct replay_result *result = malloc(sizeof *result);
    struct replay_target *target = malloc(sizeof *target);
    bool fine = false, printed = true;

    if (!target || !result) {
        cli_complain("replay: out of host memory");
        goto release;
    }
    /* Make the CPU device large enough for the trace and for the waste of any allocator. */
    host_enlarge_cpu_device(2 * trace_peak_bytes(trace, true, NULL) + ((uint64_t)1 << 30));
    fine = replay_open(target, options, trace) && replay_run(target, options, trace, result);
    if (!fine)
        complain(options, target->error);
    else
        printed = options->json ? replay_print_json(target, options, trace, result)
                                : replay_print_tables(target, options, trace, result);
    if (!printed)
        cli_complain("replay: out of host memory");
    if (!replay_close(target)) {
        cli_complain("replay: %s", target->error);
        fine = false;
    }

release:
    free(target);
    free(result);
    return fine && printed ? CLI_OK : CLI_FAILED;
}

/* Checks the options that depend on the trace, and converts a relative limit to bytes. Returns false after
 * printing an error message. */
static bool fit_options(struct replay_options *options, const struct trace *trace)
{
    if (options->trace_device != TRACE_ANY_DEVICE && trace->format != TRACE_PYTORCH) {
        cli_complain("replay: --trace-device is about snapshots of PyTorch, and %s is none", options->trace);
        return false;
    }
    if (options->hold && !trace->has_freed) {
        cli_complain("replay: %s has no line 'freed', so there is nothing that --hold could wait for",
                     options->trace);
        return false;
    }
    if (options->limit_ratio > 0)
        options->limit_bytes =
            (uint64_t)ceil((double)trace_peak_bytes(trace, options->hold, NULL) * options->limit_ratio);
    return true;
}

int cli_replay(int argc, char **argv)
{
    struct replay_options options = {.rounds = 1, .trace_device = TRACE_ANY_DEVICE, .kind = LEAT_KIND_DEVICE};
    char error[TRACE_ERROR_MAX];
    struct plan_file plan;
    struct trace *trace;
    int status = parse(argc, argv, &options);

    if (status != PARSE_GO_ON)
        return status;
    trace = trace_read(options.trace, options.trace_device, error);
    if (!trace) {
        cli_complain("replay: %s", error);
        return CLI_FAILED;
    }
    status = CLI_FAILED;
    if (!trace_choose(trace, options.kind, options.pool, error))
        cli_complain("replay: %s: %s", options.trace, error);
    else if (fit_options(&options, trace)) {
        if (open_plan(&options, &plan))
            status = replay(&options, trace);
        close_plan(&plan);
    }
    trace_destroy(trace);
    return status;
}
