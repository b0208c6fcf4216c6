/*
 * load.h - declares the report of "leat load", and the functions that print it.
 */
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include <leat/file.h>
#include <leat/leat.h>
#include <leat/model.h>

#include <stdbool.h>

/* One file of the model. */
struct load_file {
    const char *path;
    leat_file *file;
    size_t tensors; /* number of its tensors that are loaded */
    uint64_t bytes;
    double cached_share; /* share of these bytes that was in the system's cache before the load */
    /* Texts that the library writes; NULL if no tensor of the file is loaded. */
    char *protocol;
    char *why;
    char *access; /* says whether leat reads through the system's cache or past it, and why */
};

struct load_report {
    char device[64];
    size_t tensors, tensors_there;
    uint64_t bytes;
    double seconds; /* time from the call until the bytes are on the device */
    enum { LOAD_NOT_VERIFIED, LOAD_VERIFIED, LOAD_WRONG } verified;
    struct load_file *files;
    size_t file_count;
};

/* Print the report. They return false if memory is short or the output cannot be written. */
bool load_print_text(const struct load_report *report);
bool load_print_json(const struct load_report *report);

#endif
