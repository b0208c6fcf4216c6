/*
 * output_file.h - writes a file under a temporary name, so that the file of that name keeps its contents until the
 * new ones are complete.
 */
#ifndef CLI_OUTPUT_FILE_H
#define CLI_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

struct output_file {
    FILE *file;
    char *path, *temporary; /* temporary: NULL if the file itself is written, such as a pipe */
};

/* Opens a file to write beside path. Pipes, devices, and files in a folder without room for another name are
 * written themselves. SIGINT, SIGTERM and SIGHUP remove the temporary file of the last one that was opened.
 * Returns false with errno set. */
bool output_file_open(struct output_file *output, const char *path);

/* Closes the file, and gives it its name if keep is true; else it is removed. Returns false with errno set if keep
 * is true and not everything could be written; then the file is removed too. */
bool output_file_close(struct output_file *output, bool keep);

/* Returns true if both names are of one regular file. */
bool output_file_is_same(const char *a, const char *b);

#endif
