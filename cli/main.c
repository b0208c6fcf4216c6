/*
 * main.c - the command leat: runs the sub-command, or prints help or the version.
 */
#include "cli.h"
#include "text.h"

#include <getopt.h>
#include <leat/leat.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
    const char *help;
} commands[] = {
    {"info", cli_info, "what leat found on this machine, and its environment variables", cli_info_help},
    {"bench", cli_bench, "how fast memory and copies are here, next to the driver's own calls", cli_bench_help},
    {"explain", cli_explain, "how leat would make a copy here, and why", cli_explain_help},
    {"layout", cli_layout, "copies a transposed, permuted or sliced array, verified and beside a plain copy",
     cli_layout_help},
    {"load", cli_load, "loads the tensors of model files to a device, verified and with the rate", cli_load_help},
    {"send", cli_send, "sends files to a leat receive in another process or on another machine", cli_send_help},
    {"receive", cli_receive, "receives files into a folder, or into memory as a measurement", cli_receive_help},
    {"serve", cli_serve, "the other end of leat bench net, until it is interrupted", cli_serve_help},
    {"run", cli_run, "runs a CUDA program whose copies of pageable memory go through leat", cli_run_help},
    {"trace", cli_trace, "where the time of a recorded run went, and what to change", cli_trace_help},
    {"top", cli_top, "what a running process does with its devices", cli_top_help},
    {"replay", cli_replay, "runs a recorded trace of allocations through a pool or the driver", cli_replay_help},
    {"plan", cli_plan, "places the blocks of a recorded trace ahead, for a pool that follows the plan",
     cli_plan_help},
    {"pool-map", cli_pool_map, "draws a snapshot of a pool", cli_pool_map_help},
    {"cu", cli_cu, "builds CUDA C++ programs for the CPU device with the host's compiler", cli_cu_help},
};

#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

/* Cleans a message, which may have names out of files: they must not send sequences to the terminal. The line of
 * advice that leat_last_error() may have stays a line. */
static void clean_message(char *text)
{
    char *advice = strstr(text, "\nAdvice: ");

    text_clean(text);
    if (advice)
        *advice = '\n';
}

void cli_complain(const char *format, ...)
{
    char text[4096], *all = NULL;
    va_list list;

    va_start(list, format);
    if (vasprintf(&all, format, list) < 0)
        all = NULL;
    va_end(list);
    if (!all) { /* memory is short: a long message is cut */
        va_start(list, format);
        vsnprintf(text, sizeof text, format, list);
        va_end(list);
    }
    clean_message(all ? all : text);
    fprintf(stderr, "leat: %s\n", all ? all : text);
    free(all);
}

int cli_bad_option(int argc, char **argv, int option)
{
    const char *given = optind > 0 && optind <= argc ? argv[optind - 1] : "";

    /* getopt_long() sets optopt to the character of a short option, or to 0 for an unknown long option. */
    if (option == ':')
        cli_complain("%s: %s needs a value; see leat help %s", argv[0], given, argv[0]);
    else if (optopt > 0 && optopt < 128 && given[0] == '-' && given[1] == '-')
        cli_complain("%s: %s takes no value; see leat help %s", argv[0], given, argv[0]);
    else if (optopt > 0 && optopt < 128)
        cli_complain("%s: there is no option -%c; see leat help %s", argv[0], optopt, argv[0]);
    else
        cli_complain("%s: there is no option %s; see leat help %s", argv[0], given, argv[0]);
    return CLI_USAGE;
}

int cli_no_operands(int argc, char **argv)
{
    if (optind >= argc)
        return CLI_OK;
    cli_complain("%s: '%s' is not an option, and nothing else is expected; see leat help %s", argv[0],
                 argv[optind], argv[0]);
    return CLI_USAGE;
}

static void print_help(FILE *out)
{
    size_t i;

    fputs("leat brings bytes to a GPU: this command shows what there is and how fast it is.\n\n"
          "Usage: leat COMMAND [OPTION]...\n\n"
          "Commands:\n",
          out);
    for (i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-8s  %s\n", commands[i].name, commands[i].summary);
    fputs("  help      leat help COMMAND says more about one of them\n\n"
          "Options:\n"
          "  --help     this text\n"
          "  --version  the version\n\n"
          "Exit status: 0 fine, 1 something failed, 2 the command line is wrong. Manual: man leat.\n",
          out);
}

static const struct cli_command *find_command(const char *name)
{
    size_t i;

    for (i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    cli_complain("there is no command '%s'; leat help lists them", name);
    return NULL;
}

static int help(int argc, char **argv)
{
    const struct cli_command *command;

    if (argc < 2) {
        print_help(stdout);
        return CLI_OK;
    }
    if (argc > 2) {
        cli_complain("help: one command at a time, please");
        return CLI_USAGE;
    }
    command = find_command(argv[1]);
    if (!command)
        return CLI_USAGE;
    fputs(command->help, stdout);
    return CLI_OK;
}

static int dispatch(int argc, char **argv)
{
    const struct cli_command *command;

    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_help(stdout);
        return CLI_OK;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        printf("leat %s\n", leat_version());
        return CLI_OK;
    }
    if (!strcmp(argv[1], "help"))
        return help(argc - 1, argv + 1);
    if (argv[1][0] == '-') {
        cli_complain("there is no option %s; see leat --help", argv[1]);
        return CLI_USAGE;
    }
    command = find_command(argv[1]);
    if (!command)
        return CLI_USAGE;
    opterr = 0; /* getopt_long() must print nothing, because the sub-commands print messages */
    return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    int status = dispatch(argc, argv);

    /* Fail if not all output could be written, for example because the disk is full. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        cli_complain("the output could not be written");
        if (status == CLI_OK)
            status = CLI_FAILED;
    }
    return status;
}
