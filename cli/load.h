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

enum { LOAD_DEVICES_MAX = 16 };

struct load_report {
    char devices[LOAD_DEVICES_MAX][64];
    size_t device_count;
    bool split; /* each device has a part of the tensors; otherwise each has all of them */
    size_t tensors, tensors_there;
    uint64_t bytes;
    uint64_t read_bytes;      /* read from the files */
    uint64_t delivered_bytes; /* bytes of tensors on all devices together */
    double seconds; /* time from the call until the bytes are on the device */
    enum { LOAD_NOT_VERIFIED, LOAD_VERIFIED, LOAD_WRONG } verified;
    struct load_file *files;
    size_t file_count;
};

/* Print the report. They return false if memory is short or the output cannot be written. */
bool load_print_text(const struct load_report *report);
bool load_print_json(const struct load_report *report);

#endif
