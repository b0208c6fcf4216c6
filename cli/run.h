/*
 * run.h - the parts of "leat run": the program, and the report.
 */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "run_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { RUN_WHY_BYTES = 400 };

/* How "leat run" can run a program. */
enum run_method {
    RUN_PRELOADED,
    RUN_PLAIN,   /* nothing can be preloaded: the program runs as it is; why says the reason */
    RUN_REFUSED, /* it must not run; why says the reason */
    RUN_MISSING, /* there is no such program, or it cannot be executed */
};

/* Looks at the file that execvp() would execute. */
enum run_method run_inspect(const char *program, char why[RUN_WHY_BYTES]);

/* Finds libleat-run.so, beside the command or where it was installed. Returns false if it is in neither place. */
bool run_find_library(char *path, size_t path_bytes);

/* Finds the folder of leat's libraries under NVIDIA's file names, in the same places. */
bool run_find_faces(char *path, size_t path_bytes);

/* Prints what the processes did. plain: why nothing was preloaded, or NULL. Returns false if that failed. */
bool run_print_report(FILE *out, const struct run_table *table, bool observed, const char *plain);

#endif
