/*
 * perfetto.h - writes packets of Perfetto's format "track event", protocol buffers, to a file as soon as they are
 * made.
 *
 * Slices of one track must nest. A name must be written before the first slice that has it.
 */
#ifndef CLI_PERFETTO_H
#define CLI_PERFETTO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The beginning of a slice. */
struct perfetto_slice {
    uint64_t track, ns;
    uint64_t name;  /* number of its name */
    uint64_t bytes; /* shown with it; 0: none */
    uint64_t flow;  /* slices with the same number are joined by an arrow; 0: none */
};

/* Call before the first name. */
void perfetto_begin(FILE *file);

/* Defines a track. parent: 0: none. counter: its events are numbers of bytes. */
void perfetto_track(FILE *file, uint64_t track, uint64_t parent, const char *name, bool counter);

/* Defines the name with this number, 1 or more. */
void perfetto_name(FILE *file, uint64_t number, const char *name);

void perfetto_slice_begin(FILE *file, const struct perfetto_slice *slice);
void perfetto_slice_end(FILE *file, uint64_t track, uint64_t ns);
void perfetto_count(FILE *file, uint64_t track, uint64_t ns, int64_t value);

#endif
