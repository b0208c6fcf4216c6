/*
 * bench_child.h - runs this command again in a child process. leat reads its environment variables once in a
 * process, so a measurement with other values needs a new process.
 */
#ifndef CLI_BENCH_CHILD_H
#define CLI_BENCH_CHILD_H

#include "bench.h"

enum { BENCH_CHILD_WORDS_MAX = 24, BENCH_CHILD_VARIABLES_MAX = 2 };

/* What a child process runs: the words of the command line after "leat", and variables as "NAME=value" that
 * replace those of the environment. Both arrays end with NULL. */
struct bench_child {
    const char *words[BENCH_CHILD_WORDS_MAX];
    const char *variables[BENCH_CHILD_VARIABLES_MAX + 1];
};

/* Runs the child process and returns the JSON that it prints, or NULL with bench->error set. */
json_t *bench_child_run(struct bench *bench, const struct bench_child *child);

#endif
