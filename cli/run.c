/*
 * run.c - "leat run": runs a program whose copies of pageable memory go through leat, and prints what it did.
 *
 * The command stays the program's parent, so that its report comes after the program's output, also when the
 * program crashes. The counters are in a memory file of the command's (run_table.h).
 *
 * With --device the command becomes the program, which then finds leat's libraries under NVIDIA's file names.
 */
#include "run.h"
#include "cli.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

const char cli_run_help[] =
    "Usage: leat run [--report FILE] [--log] [--least BYTES] [--pinned] [--pool] [--trace FILE [--cupti FILE]]\n"
    "                [--] PROGRAM [ARGUMENT]...\n"
    "       leat run --device cpu:N [--] PROGRAM [ARGUMENT]...\n\n"
    "Runs a CUDA program as it is. leat's threads make its longer copies between pageable memory and a GPU, with\n"
    "the order and the waits of the driver's calls; everything else goes to the driver. Afterwards a table on\n"
    "standard error has the copies by kind, their rates, and why the driver made them. docs/drop-in.md says what\n"
    "leat serves.\n\n"
    "With --device cpu:N a program that is linked with libcudart.so or libcuda.so runs on a CPU device of leat's,\n"
    "without a GPU and without NVIDIA's libraries. It cannot launch kernels. docs/compatibility.md says which\n"
    "calls there are.\n\n"
    "Options:\n"
    "  --report FILE  writes the table to FILE\n"
    "  --log          only observes: the driver makes all copies, and the table says which leat would have made\n"
    "  --least BYTES  leat makes copies from this size on, such as 4M, also while processors are busy; without it from\n"
    "                 8 MiB on\n"
    "  --pinned       leat allocates pinned memory from 8 MiB on; children of fork() get a copy of it\n"
    "  --pool         leat keeps device memory that the program frees: cuMemAllocAsync gets blocks of a pool of leat's,\n"
    "                 and cuMemAlloc gets freed allocations of the same size again\n"
    "  --trace FILE   records where the time goes, for leat trace FILE: the copies and kernels of the program and of its\n"
    "                 libraries by NVIDIA's CUPTI, or what leat sees by events; ranges of NVTX. Processes after the\n"
    "                 first write to FILE.PID; %p in FILE is the process ID\n"
    "  --cupti FILE   the libcupti.so for --trace, if leat does not find it; none: events\n"
    "  --device cpu:N runs the program on this CPU device instead of a GPU; there is no table\n"
    "  --help         this text\n\n"
    "Exit status: that of PROGRAM; 128 + N if signal N ended it; 127 if there is no such program, 126 if it cannot\n"
    "be run; 1 if leat failed, 2 for a wrong command line.\n";

enum { CANNOT_RUN = 126, NO_PROGRAM = 127, SIGNAL_BASE = 128 };

struct run_options {
    const char *report;
    uint64_t least_bytes; /* of the shortest copy that leat makes; 0: the default */
    const char *device;   /* a CPU device instead of a GPU; NULL: none */
    const char *trace;    /* the file of a trace; NULL: none */
    const char *cupti;    /* the file of CUPTI, or "none"; NULL: leat looks for it */
    bool observe;
    bool pinned; /* leat allocates pinned memory */
    bool pool;   /* leat allocates device memory */
    char **program;
};

/* ---- the program's environment ---- */

/* Creates the table in a memory file that processes open by its path. */
static struct run_table *make_table(char *path, size_t path_bytes)
{
    int fd = memfd_create("leat-run", MFD_CLOEXEC);
    struct run_table *table;
    void *memory = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof *table) == 0)
        memory = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        cli_complain("run: cannot make the table of counters: %s", strerror(errno));
        return NULL;
    }
    table = memory;
    table->magic = RUN_TABLE_MAGIC;
    snprintf(path, path_bytes, "/proc/%d/fd/%d", (int)getpid(), fd);
    return table;
}

/* Sets a variable of the loader to two parts with a colon between. */
static bool set_list(const char *variable, const char *first, const char *second)
{
    char *all = malloc(strlen(first) + strlen(second) + 2);
    bool fine;

    if (!all)
        return false;
    sprintf(all, "%s:%s", first, second);
    fine = setenv(variable, all, 1) == 0;
    free(all);
    return fine;
}

/* Adds leat's library behind those that the program is to preload anyway: their replacements then see each call
 * first. */
static bool set_preload(const char *library)
{
    const char *before = getenv("LD_PRELOAD");

    if (strpbrk(library, " :\t\n")) {
        cli_complain("run: the path %s has a blank or a colon, which the loader does not allow for a library to "
                     "preload; install leat in another folder",
                     library);
        return false;
    }
    if (!before || !before[0])
        return setenv("LD_PRELOAD", library, 1) == 0;
    return set_list("LD_PRELOAD", before, library);
}

/* Sets a variable, or removes it. */
static bool set_or_remove(const char *variable, const char *value)
{
    return (value ? setenv(variable, value, 1) : unsetenv(variable)) == 0;
}

/* NVTX calls the library of this variable. If the user has set it, that tool keeps its ranges. */
#define NVTX_VARIABLE "NVTX_INJECTION64_PATH"

/* Writes the path of a file that an option names, in full, since the program may change its folder. Returns false
 * after printing an error message. */
static bool make_absolute(char path[PATH_MAX], const char *option, const char *given)
{
    char folder[PATH_MAX];
    bool as_given = given[0] == '/' || !getcwd(folder, sizeof folder);
    int length = snprintf(path, PATH_MAX, "%s%s%s", as_given ? "" : folder, as_given ? "" : "/", given);

    if (length >= 0 && length < PATH_MAX)
        return true;
    cli_complain("run: %s %s: the name is too long", option, given);
    return false;
}

static bool set_trace(const struct run_options *options, const char *library)
{
    char path[PATH_MAX], cupti_path[PATH_MAX];
    const char *cupti = options->cupti, *number;

    if (!options->trace)
        return set_or_remove(RUN_TRACE_VARIABLE, NULL) && set_or_remove(RUN_CUPTI_VARIABLE, NULL);
    if (!make_absolute(path, "--trace", options->trace))
        return false;
    number = strstr(path, "%p");
    /* path is the current folder and the given name, or only the name. */
    if (number && number < path + strlen(path) - strlen(options->trace)) {
        cli_complain("run: --trace %s: the name of the current folder has %%p, which stands for the process ID; "
                     "run the command in another folder",
                     options->trace);
        return false;
    }
    /* The loader searches its folders for a name without a slash. */
    if (cupti && strchr(cupti, '/')) {
        if (!make_absolute(cupti_path, "--cupti", cupti))
            return false;
        cupti = cupti_path;
    }
    if (getenv(NVTX_VARIABLE))
        cli_complain("run: " NVTX_VARIABLE " is set, so the trace has no ranges of NVTX");
    return setenv(RUN_TRACE_VARIABLE, path, 1) == 0 && set_or_remove(RUN_CUPTI_VARIABLE, cupti) &&
           setenv(NVTX_VARIABLE, library, 0) == 0;
}

static bool set_environment(const struct run_options *options, const char *table_path)
{
    char library[PATH_MAX], least[24];

    snprintf(least, sizeof least, "%" PRIu64, options->least_bytes);
    if (!run_find_library(library, sizeof library)) {
        cli_complain("run: libleat-run.so is neither beside the command nor where libraries are installed (%s); "
                     "install leat again",
                     library);
        return false;
    }
    return set_preload(library) && set_trace(options, library) && setenv(RUN_TABLE_VARIABLE, table_path, 1) == 0 &&
           (options->least_bytes ? setenv(RUN_LEAST_VARIABLE, least, 1) : unsetenv(RUN_LEAST_VARIABLE)) == 0 &&
           setenv(RUN_PINNED_VARIABLE, options->pinned ? "1" : "0", 1) == 0 &&
           setenv(RUN_POOL_VARIABLE, options->pool ? "1" : "0", 1) == 0 &&
           (options->observe ? setenv(RUN_MODE_VARIABLE, RUN_MODE_LOG, 1) : unsetenv(RUN_MODE_VARIABLE)) == 0;
}

/* ---- the program ---- */

static volatile pid_t child; /* written before signals are let through */

/* Passes a signal on to the program. The terminal sends its own signals to both. */
static void pass_on(int signal_number, siginfo_t *info, void *context)
{
    int error = errno;

    (void)context;
    if (info->si_code <= 0 && child > 0)
        kill(child, signal_number);
    errno = error;
}

static const int passed_on[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

#define PASSED_ON (sizeof passed_on / sizeof passed_on[0])

/* Starts the program. Signals are blocked until the handlers know the child, or the child has none. */
static bool start(char **program)
{
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART}, before[PASSED_ON];
    struct sigaction child_before;
    sigset_t all, old;
    pid_t pid;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    /* If SIGCHLD is ignored, the system does not keep how the program ends. */
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &child_before);
    for (size_t i = 0; i < PASSED_ON; i++) {
        sigaction(passed_on[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(passed_on[i], &action, NULL);
    }
    pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < PASSED_ON; i++)
            sigaction(passed_on[i], &before[i], NULL);
        sigaction(SIGCHLD, &child_before, NULL);
        sigprocmask(SIG_SETMASK, &old, NULL);
        execvp(program[0], program);
        cli_complain("run: %s: %s", program[0], strerror(errno));
        _exit(errno == ENOENT ? NO_PROGRAM : CANNOT_RUN);
    }
    child = pid;
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (pid < 0)
        cli_complain("run: cannot start a process: %s", strerror(errno));
    return pid > 0;
}

/* Waits for the program and returns its exit status, as a shell would show it. *killed_by receives the signal that
 * ended it, or 0. */
static int wait_for_end(int *killed_by)
{
    int status = 0;

    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return CLI_FAILED;
    child = 0;
    *killed_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return WIFSIGNALED(status) ? SIGNAL_BASE + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Puts a folder before those in which the loader searches anyway. */
static bool set_library_path(const char *folder)
{
    const char *before = getenv("LD_LIBRARY_PATH");

    if (!before || !before[0])
        return setenv("LD_LIBRARY_PATH", folder, 1) == 0;
    return set_list("LD_LIBRARY_PATH", folder, before);
}

/* Becomes the program, on a CPU device. Returns an exit status if that fails. */
static int run_on_cpu(const struct run_options *options)
{
    char folder[PATH_MAX], why[RUN_WHY_BYTES];

    if (run_inspect(options->program[0], why) == RUN_REFUSED) {
        cli_complain("run: %s", why);
        return CANNOT_RUN;
    }
    if (!run_find_faces(folder, sizeof folder)) {
        cli_complain(
            "run: leat's libraries under NVIDIA's names are neither beside the command nor where libraries "
            "are installed (%s); \"make install-compat\" installs them",
            folder);
        return CLI_FAILED;
    }
    if (strchr(folder, ':')) {
        cli_complain("run: the path %s has a colon, which LD_LIBRARY_PATH does not allow; install leat in another "
                     "folder",
                     folder);
        return CLI_FAILED;
    }
    if (!set_library_path(folder) || setenv("LEAT_DEVICE", options->device, 1) != 0) {
        cli_complain("run: out of memory");
        return CLI_FAILED;
    }
    fflush(stdout);
    execvp(options->program[0], options->program);
    cli_complain("run: %s: %s", options->program[0], strerror(errno));
    return errno == ENOENT ? NO_PROGRAM : CANNOT_RUN;
}

/* ---- the command ---- */

static bool print_report(const struct run_options *options, FILE *out, const struct run_table *table,
                         const char *plain, int killed_by)
{
    bool fine;

    if (killed_by)
        fprintf(out, "leat: run: signal %d (%s) ended the program\n", killed_by, strsignal(killed_by));
    fine = run_print_report(out, table, options->observe, plain);
    if (options->report && fclose(out) != 0)
        fine = false;
    if (!fine)
        cli_complain("run: the report could not be written");
    return fine;
}

static int run(const struct run_options *options)
{
    char table_path[64], why[RUN_WHY_BYTES];
    struct run_table *table;
    FILE *out = stderr;
    enum run_method method = run_inspect(options->program[0], why);
    int status, killed_by = 0;

    if (method == RUN_MISSING || method == RUN_REFUSED) {
        if (method == RUN_MISSING)
            cli_complain("run: %s: %s", options->program[0], why);
        else
            cli_complain("run: %s", why);
        return method == RUN_MISSING && strcmp(why, strerror(ENOENT)) == 0 ? NO_PROGRAM : CANNOT_RUN;
    }
    table = make_table(table_path, sizeof table_path);
    if (!table)
        return CLI_FAILED;
    if (options->report) {
        out = fopen(options->report, "we");
        if (!out) {
            cli_complain("run: %s: %s", options->report, strerror(errno));
            return CLI_FAILED;
        }
    }
    fflush(stdout);
    if (!set_environment(options, table_path) || !start(options->program)) {
        if (options->report)
            fclose(out);
        return CLI_FAILED;
    }
    status = wait_for_end(&killed_by);
    if (!print_report(options, out, table, method == RUN_PLAIN ? why : NULL, killed_by) && status == 0)
        return CLI_FAILED;
    return status;
}

static bool check_trace(const struct run_options *options)
{
    if (options->trace && !options->trace[0])
        cli_complain("run: --trace needs the name of a file");
    else if (options->cupti && !options->cupti[0])
        cli_complain("run: --cupti needs the name of a library, or none");
    else if (options->cupti && !options->trace)
        cli_complain("run: --cupti %s is for --trace, which is missing", options->cupti);
    else if (options->trace && getenv("LEAT_TRACE"))
        cli_complain("run: LEAT_TRACE is set and --trace is given, and leat records one trace in a process; unset "
                     "LEAT_TRACE");
    else
        return true;
    return false;
}

int cli_run(int argc, char **argv)
{
    static const struct option options[] = {
        {"report", required_argument, NULL, 'r'}, {"device", required_argument, NULL, 'd'},
        {"least", required_argument, NULL, 'm'},  {"log", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},         {"pinned", no_argument, NULL, 'p'},
        {"pool", no_argument, NULL, 'o'},         {"trace", required_argument, NULL, 't'},
        {"cupti", required_argument, NULL, 'c'},  {NULL, 0, NULL, 0},
    };
    struct run_options wanted = {0};
    const char *end;
    int option;

    /* "+": the options of the program are its own. */
    while ((option = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
        switch (option) {
        case 'r':
            wanted.report = optarg;
            break;
        case 'd':
            wanted.device = optarg;
            break;
        case 'm':
            if (!text_parse_bytes(optarg, &end, &wanted.least_bytes) || *end || !wanted.least_bytes) {
                cli_complain("run: --least %s is no size from 1 byte on, such as 4M", optarg);
                return CLI_USAGE;
            }
            break;
        case 'l':
            wanted.observe = true;
            break;
        case 'p':
            wanted.pinned = true;
            break;
        case 'o':
            wanted.pool = true;
            break;
        case 't':
            wanted.trace = optarg;
            break;
        case 'c':
            wanted.cupti = optarg;
            break;
        case 'h':
            fputs(cli_run_help, stdout);
            return CLI_OK;
        default:
            return cli_bad_option(argc, argv, option);
        }
    }
    if (optind >= argc) {
        cli_complain("run: no program is given; see leat help run");
        return CLI_USAGE;
    }
    wanted.program = argv + optind;
    if (!check_trace(&wanted))
        return CLI_USAGE;
    if (!wanted.device)
        return run(&wanted);
    if (strncmp(wanted.device, "cpu:", 4) != 0) {
        cli_complain(
            "run: --device %s: only a CPU device, such as cpu:0, can stand for a GPU; to choose a GPU, set "
            "CUDA_VISIBLE_DEVICES",
            wanted.device);
        return CLI_USAGE;
    }
    if (wanted.report || wanted.observe || wanted.least_bytes || wanted.pinned || wanted.pool || wanted.trace) {
        cli_complain(
            "run: --device has no table and copies nothing through leat's threads; leave out --report, --log, "
            "--least, --pinned, --pool and --trace");
        return CLI_USAGE;
    }
    return run_on_cpu(&wanted);
}
