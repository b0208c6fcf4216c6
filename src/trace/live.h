/*
 * live.h - keeps the live counters of a trace (live_file.h), which "leat top" shows.
 *
 * Only the recorder calls these functions, under its lock, so that the program's threads have nothing to do with
 * them. The counters are kept in memory of the process and copied to the shared memory as a whole.
 */
#ifndef LEATI_LIVE_H
#define LEATI_LIVE_H

#include "trace/device_times.h"
#include "trace/lanes.h"
#include "trace/live_file.h"

struct leati_live_counters {
    struct leati_live now;
    struct leati_live *shared; /* NULL: there is no shared memory, and nobody can look */
    int fd;
    uint64_t file[2];   /* device and inode of fd */
    uint32_t last_lane; /* place in now.lanes that was used last */
};

/* Makes the shared memory. If that fails, there are no live counters; the trace does not need them. */
void leati_live_open(struct leati_live_counters *live, const char *path, bool host_only);

void leati_live_close(struct leati_live_counters *live);

void leati_live_define(struct leati_live_counters *live, const struct leati_defined *defined);

/* Counts operations that were read from a ring. */
void leati_live_ops(struct leati_live_counters *live, const struct leati_trace_op *ops, uint32_t count);

/* Counts device times that came after their operation. */
void leati_live_times(struct leati_live_counters *live, const struct leati_kept *kept, uint64_t device_ns);

/* Sets what is in flight: begin, then each operation. */
void leati_live_in_flight_begin(struct leati_live_counters *live);
void leati_live_in_flight(struct leati_live_counters *live, const struct leati_kept *kept);

/* Returns true if the shared memory is to be written: after LEATI_LIVE_NS. */
bool leati_live_is_due(const struct leati_live_counters *live, uint64_t now_ns);

/* Copies the counters to the shared memory. */
void leati_live_publish(struct leati_live_counters *live, uint64_t now_ns);

#endif
