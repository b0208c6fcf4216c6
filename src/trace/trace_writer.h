/* trace_writer.h - writes the chunks of a trace to its file (trace_file.h). */
#ifndef LEATI_TRACE_WRITER_H
#define LEATI_TRACE_WRITER_H

#include "trace/trace_file.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { LEATI_WRITER_BYTES = 256 << 10 };

struct leati_trace_writer {
    int fd; /* -1: closed, or a write has failed */
    bool is_regular;
    int error; /* the error number of the write that failed; 0: none */
    off_t written_bytes;
    uint32_t strings; /* strings that the file has */
    size_t used_bytes;
    char path[PATH_MAX];
    unsigned char buffer[LEATI_WRITER_BYTES];
};

/* Opens the file, whose name is pattern with "%p" replaced, and writes the header. Returns false, with *why set,
 * if that fails. */
bool leati_writer_open(struct leati_trace_writer *writer, const char *pattern, const char **why);

/* Adds a chunk of count records. thread and first: as in struct leati_trace_chunk. The payload is shorter than the
 * buffer. */
void leati_writer_add(struct leati_trace_writer *writer, enum leati_trace_chunk_type type, const void *records,
                      uint32_t count, uint32_t record_bytes, uint32_t thread, uint64_t first);

/* Adds the strings that the file does not have yet. */
void leati_writer_add_strings(struct leati_trace_writer *writer);

/* Writes what was added. If that fails, the file ends with the chunks before it, and all later calls do nothing.
 */
void leati_writer_flush(struct leati_trace_writer *writer);

void leati_writer_close(struct leati_trace_writer *writer);

#endif
