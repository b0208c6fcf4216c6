/*
 * bench_child.h - runs a program that prints JSON in a child process. The program is either this command, run with
 * other environment variables, which leat reads only once in a process, or another program that measures.
 */
#ifndef CLI_BENCH_CHILD_H
#define CLI_BENCH_CHILD_H

#include "bench.h"

enum { BENCH_CHILD_WORDS_MAX = 24, BENCH_CHILD_VARIABLES_MAX = 2 };

/* The command of a child process: the program, its arguments, and variables ("NAME=value") that are added to the
 * environment or replace variables of it. Both arrays end with NULL. */
struct bench_child {
    const char *program; /* a program that is searched in PATH; NULL: this command */
    const char *words[BENCH_CHILD_WORDS_MAX];
    const char *variables[BENCH_CHILD_VARIABLES_MAX + 1];
};

/* Runs the child process and returns the JSON that it prints, or NULL with bench->error set. */
json_t *bench_child_run(struct bench *bench, const struct bench_child *child);

#endif
