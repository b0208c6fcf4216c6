/*
 * activity_perfetto.h - declares what the two writers of "leat trace --perfetto" share: the tracks of threads,
 * devices, streams and pools, and how work is put on the tracks of its stream.
 */
#ifndef CLI_ACTIVITY_PERFETTO_H
#define CLI_ACTIVITY_PERFETTO_H

#include "activity.h"

enum { ACTIVITY_LANES = 4 };

/* The tracks of one stream: when the last slice of each ends. Zero at first. */
struct activity_lanes {
    uint64_t end_ns[ACTIVITY_LANES];
    unsigned count;
};

/* Names of the log have the numbers behind those of the kinds. */
void activity_perfetto_kinds(FILE *file);
void activity_perfetto_name(const struct activity_log *log, FILE *file, size_t name);

/* Return the number of a track. */
uint64_t activity_thread_track(size_t thread);
uint64_t activity_counter_track(size_t device);
uint64_t activity_pool_track(size_t pool); /* bytes used; the next number is that of the bytes reserved */

/* Define the tracks of a thread, of a device with its counter, and of a pool. */
void activity_define_thread(const struct activity_log *log, FILE *file, size_t thread);
void activity_define_device(const struct activity_log *log, FILE *file, size_t device);
void activity_define_pool(const struct activity_log *log, FILE *file, size_t pool);

/* Writes the beginning of a slice, with an arrow if the activity has a call and work. work: it is the work. */
void activity_write_begin(FILE *file, const struct activity *a, uint64_t flow, uint64_t track, uint64_t ns,
                          bool work);

/* Writes one piece of work to the first track of its stream that is free. If none is, cuts its beginning. */
void activity_write_work(const struct activity_log *log, FILE *file, const struct activity *a, uint64_t flow,
                         struct activity_lanes *lanes);

#endif
