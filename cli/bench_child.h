/*
 * bench_child.h - this command once more, in a process of its own: leat reads its environment variables once in a
 * process, so what is measured with others is measured by another one.
 */
#ifndef CLI_BENCH_CHILD_H
#define CLI_BENCH_CHILD_H

#include "bench.h"

enum { BENCH_CHILD_WORDS_MAX = 24, BENCH_CHILD_VARIABLES_MAX = 2 };

/* The command line after "leat", and variables as "NAME=value" that replace those of the environment. Both end
 * with NULL. */
struct bench_child {
    const char *words[BENCH_CHILD_WORDS_MAX];
    const char *variables[BENCH_CHILD_VARIABLES_MAX + 1];
};

/* Runs it and returns the JSON that it prints, or NULL with bench->error set. */
json_t *bench_child_run(struct bench *bench, const struct bench_child *child);

#endif
