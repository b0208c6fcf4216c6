/* trace_reader.h - reads trace files (src/trace/trace_file.h) for tests, and fails if one is not as the format
 * says. */
#ifndef TRACE_READER_H
#define TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_op {
    uint64_t id, host_start_ns, host_end_ns, device_start_ns, device_end_ns, bytes, value;
    uint32_t thread, lane, pieces;
    uint64_t serial;          /* of its stream; 0: none */
    const char *device;       /* "cpu:0"; "": none */
    const char *kind;         /* "copy" */
    const char *name, *place; /* "": none */
    const char *source, *destination, *protocol;
    bool synchronous, times_lost;
    int status;
};

struct trace {
    struct trace_op *ops; /* in the order of the file: of one thread, in the order in which they ended */
    size_t count;
    uint64_t lost_ops, lost_times, lost_strings;
    uint64_t uncertainty_ns; /* the largest of the clocks */
    uint64_t cost_samples;   /* operations whose marks were timed */
    bool ended;
    uint32_t threads, lanes, devices, clocks;
    char *content; /* of the file */
    const char **strings;
    size_t string_room;
};

/* Reads a file. cut: it may end in the middle of a chunk, and need not be complete. The test fails if the file is
 * wrong.
 */
void trace_read(struct trace *trace, const char *path, bool cut);
void trace_free(struct trace *trace);

#endif
