/*
 * activity_read.h - declares what the readers of "leat trace" share: a file that may be compressed by gzip, and
 * how they report what is wrong with it.
 */
#ifndef CLI_ACTIVITY_READ_H
#define CLI_ACTIVITY_READ_H

#include "activity.h"

#include <zlib.h>

enum { ACTIVITY_HEAD_BYTES = 64 };

struct activity_input {
    gzFile file;
    const char *path;
    char *error;
    uint64_t at;                             /* bytes that the reader has read */
    unsigned char head[ACTIVITY_HEAD_BYTES]; /* the first bytes, which decide the format */
    size_t head_bytes;
};

/* Opens a file, or standard input for "-", and reads its first bytes. Returns false with error set; call
 * activity_input_close() then too. */
bool activity_input_open(struct activity_input *input, const char *path, char error[ACTIVITY_ERROR_MAX]);
void activity_input_close(struct activity_input *input);

/* Returns true if the file begins as a trace of leat does. */
bool activity_input_is_leat(const struct activity_input *input);

/* Reads up to bytes bytes. Returns less than that only at the end of the file, and SIZE_MAX with the error set if
 * the file cannot be read. */
size_t activity_input_read(struct activity_input *input, void *buffer, size_t bytes);

/* Sets the error: the path and the text. Returns false. */
bool activity_input_fail(struct activity_input *input, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The readers. They return false with the error set. */
bool activity_read_leat(struct activity_input *input, struct activity_log *log);
bool activity_read_kineto(struct activity_input *input, struct activity_log *log);
bool activity_read_nsys(struct activity_input *input, struct activity_log *log);

#endif
