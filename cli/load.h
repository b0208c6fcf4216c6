/*
 * load.h - what "leat load" found out, and printing it.
 */
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include <leat/file.h>
#include <leat/leat.h>
#include <leat/model.h>

#include <stdbool.h>

/* One file of the set. */
struct load_file {
    const char *path;
    leat_file *file;
    size_t tensors; /* that are loaded */
    uint64_t bytes;
    double cached_share; /* of these bytes, before the load */
    /* In the library's words; NULL if nothing of the file is loaded. */
    char *protocol;
    char *why;
    char *access; /* through the system's cache or past it, and why */
};

struct load_report {
    char device[64];
    size_t tensors, tensors_there;
    uint64_t bytes;
    double seconds; /* from the call until the bytes are there */
    enum { LOAD_NOT_VERIFIED, LOAD_VERIFIED, LOAD_WRONG } verified;
    struct load_file *files;
    size_t file_count;
};

/* Return false if memory is short, or the output cannot be written. */
bool load_print_text(const struct load_report *report);
bool load_print_json(const struct load_report *report);

#endif
