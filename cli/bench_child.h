/*
 * bench_child.h - runs a program that prints JSON in a child process: this command again, because leat reads its
 * environment variables once in a process, or another program that measures.
 */
#ifndef CLI_BENCH_CHILD_H
#define CLI_BENCH_CHILD_H

#include "bench.h"

enum { BENCH_CHILD_WORDS_MAX = 24, BENCH_CHILD_VARIABLES_MAX = 2 };

/* What a child process runs: the words of the command line after the program's name, and variables as "NAME=value"
 * that replace those of the environment. Both arrays end with NULL. */
struct bench_child {
    const char *program; /* is searched in PATH; NULL: this command */
    const char *words[BENCH_CHILD_WORDS_MAX];
    const char *variables[BENCH_CHILD_VARIABLES_MAX + 1];
};

/* Runs the child process and returns the JSON that it prints, or NULL with bench->error set. */
json_t *bench_child_run(struct bench *bench, const struct bench_child *child);

#endif
