/*
 * live_file.h - defines the live counters of a process that records a trace, for the recorder and for "leat top".
 *
 * They are in a memory file of the process (memfd_create), named LEATI_LIVE_NAME. A viewer finds it among the
 * descriptors of the process, in /proc/PID/fd, which only the same user may read. It has no name in a file system,
 * so it goes when the process ends, however it ends. Its mode is 0400, and it is sealed against writing and
 * changes of its size.
 *
 * A child that was made without the handlers of fork() may have its parent's descriptor. So a viewer ignores
 * counters whose process is another one.
 *
 * The recorder changes the counters every LEATI_LIVE_NS: it makes sequence odd, writes the rest, and makes
 * sequence even. A viewer reads sequence, all, and sequence again, and starts anew if it was odd or has changed.
 *
 * All counters begin with the trace and only grow, except where "now" is in the comment. Times are nanoseconds of
 * CLOCK_MONOTONIC. Texts end with a NUL. This header needs trace_file.h and no other header of leat.
 */
#ifndef LEATI_LIVE_FILE_H
#define LEATI_LIVE_FILE_H

#include "trace_file.h"

#define LEATI_LIVE_MAGIC "leatliv\n"
#define LEATI_LIVE_NAME "leat-live"
#define LEATI_LIVE_VERSION 1u
#define LEATI_LIVE_NS 5000000u

enum {
    LEATI_LIVE_KINDS = 20,   /* by enum leati_trace_kind; 0: other kinds */
    LEATI_LIVE_MEMORIES = 7, /* by enum leati_trace_memory */
    LEATI_LIVE_DEVICES = 16,
    LEATI_LIVE_LANES = 64,
    LEATI_LIVE_POOLS = 64,
    LEATI_LIVE_NAME_BYTES = 48,
    LEATI_LIVE_PATH_BYTES = 256
};

/* What operations did. */
struct leati_live_work {
    uint64_t ops, bytes;
    uint64_t host_ns;   /* in their calls */
    uint64_t device_ns; /* from when their streams reached them until they were complete */
};

struct leati_live_device {
    char name[LEATI_LIVE_NAME_BYTES];
    uint32_t id; /* in the trace; 0: this place is empty */
    uint32_t reserved;
};

/* A stream. If there are more than LEATI_LIVE_LANES, the one that has been idle for longest loses its place. */
struct leati_live_lane {
    uint32_t id;     /* in the trace; 0: this place is empty */
    uint32_t device; /* id of its device */
    uint64_t serial; /* 0: calls without a stream */
    struct leati_live_work work;
    uint64_t latest_ns;                  /* when its latest operation began */
    uint64_t in_flight, in_flight_bytes; /* now: operations that are submitted and not complete */
};

struct leati_live_pool {
    char name[LEATI_LIVE_NAME_BYTES], device[LEATI_LIVE_NAME_BYTES];
    uint32_t id;                         /* in the trace; 0: this place is empty */
    uint32_t memory;                     /* enum leati_trace_memory */
    uint64_t used_bytes, reserved_bytes; /* now */
};

struct leati_live {
    char magic[8];
    uint32_t version;
    uint32_t bytes;    /* size of this struct */
    uint64_t sequence; /* odd: the rest is being changed */
    uint64_t process;
    uint64_t start_ns; /* when the trace began */
    uint64_t time_ns;  /* now: when the counters were changed */
    uint64_t lost_ops, lost_times;
    uint64_t file_bytes; /* written to the trace */
    uint32_t host_only;  /* 1: there are no device times, and nothing is seen in flight */
    uint32_t reserved;
    uint64_t in_flight, in_flight_bytes; /* now: of all streams */
    char path[LEATI_LIVE_PATH_BYTES];    /* the trace's file; may be cut */
    struct leati_live_work kinds[LEATI_LIVE_KINDS];
    struct leati_live_work copies[LEATI_LIVE_MEMORIES][LEATI_LIVE_MEMORIES]; /* from, to; also layout copies */
    struct leati_live_device devices[LEATI_LIVE_DEVICES];
    struct leati_live_lane lanes[LEATI_LIVE_LANES];
    struct leati_live_pool pools[LEATI_LIVE_POOLS];
};

static_assert(sizeof(struct leati_live_work) == 32, "work");
static_assert(sizeof(struct leati_live_device) == 56, "device");
static_assert(sizeof(struct leati_live_lane) == 72, "lane");
static_assert(sizeof(struct leati_live_pool) == 120, "pool");
static_assert(sizeof(struct leati_live) == 352 + 32 * (20 + 49) + 16 * 56 + 64 * 72 + 64 * 120, "live counters");

#endif
