/*
 * cli.h - declares what the files of the command share: its sub-commands, its exit statuses, and the function that
 * prints error messages.
 */
#ifndef CLI_H
#define CLI_H

/* The exit statuses of the command. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1, /* something failed */
    CLI_USAGE = 2   /* the command line is wrong */
};

/* The sub-commands. argv[0] is the sub-command's name. They return an exit status. */
int cli_info(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_explain(int argc, char **argv);
int cli_layout(int argc, char **argv);
int cli_load(int argc, char **argv);
int cli_send(int argc, char **argv);
int cli_receive(int argc, char **argv);
int cli_serve(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_trace(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_replay(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_pool_map(int argc, char **argv);
int cli_cu(int argc, char **argv);

/* The texts that "leat help COMMAND" prints. */
extern const char cli_info_help[];
extern const char cli_bench_help[];
extern const char cli_explain_help[];
extern const char cli_layout_help[];
extern const char cli_load_help[];
extern const char cli_send_help[];
extern const char cli_receive_help[];
extern const char cli_serve_help[];
extern const char cli_run_help[];
extern const char cli_trace_help[];
extern const char cli_top_help[];
extern const char cli_replay_help[];
extern const char cli_plan_help[];
extern const char cli_pool_map_help[];
extern const char cli_cu_help[];

/* Prints "leat: ..." as one line to standard error. */
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints an error message about an option that getopt_long() did not accept, and returns CLI_USAGE. option: the
 * return value of getopt_long(). */
int cli_bad_option(int argc, char **argv, int option);

/* Returns CLI_OK if no words follow the options on the command line. Otherwise prints an error message and returns
 * CLI_USAGE. */
int cli_no_operands(int argc, char **argv);

#endif
