/*
 * activity.h - declares what the parts of "leat trace" share: a recorded run as a list of activities, which
 * several readers fill, and what is computed from it: the breakdown of the time, and advice.
 *
 * Times are nanoseconds since the beginning of the recorded span. An activity has the time of the host's call, the
 * time of the execution on a device, or both.
 */
#ifndef CLI_ACTIVITY_H
#define CLI_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    ACTIVITY_ERROR_MAX = 512,
    ACTIVITY_PLACE_MAX = 320,
    ACTIVITY_THREAD_MAX = 80,
    ACTIVITY_POOL_NAME_MAX = 112,
    ACTIVITY_STREAMS_MAX = 65536,
    ACTIVITY_THREADS_MAX = 65536,
    ACTIVITY_DEVICES_MAX = 256,
    ACTIVITY_POOLS_MAX = 65536
};

#define ACTIVITY_NONE UINT32_MAX /* no stream, no thread, no device, no name */

enum activity_kind {
    ACTIVITY_COPY,
    ACTIVITY_FILL,
    ACTIVITY_KERNEL,
    ACTIVITY_HOST_FUNCTION, /* a function of the program that a stream calls */
    ACTIVITY_STREAM_WAIT,   /* a stream waits for an event */
    ACTIVITY_HOST_WAIT,     /* the host waits for a stream, an event or a device */
    ACTIVITY_ALLOC,
    ACTIVITY_FREE,
    ACTIVITY_FILE_READ,
    ACTIVITY_FILE_WRITE,
    ACTIVITY_PAGE_MOVE, /* pages of managed memory move, by a fault or a prefetch */
    ACTIVITY_RANGE,     /* a range that the program named */
    ACTIVITY_OTHER,     /* another call of the host */
    ACTIVITY_KIND_COUNT
};

/* Where memory is. */
enum activity_memory {
    ACTIVITY_MEMORY_UNKNOWN,
    ACTIVITY_MEMORY_PAGEABLE,
    ACTIVITY_MEMORY_PINNED,
    ACTIVITY_MEMORY_DEVICE,
    ACTIVITY_MEMORY_MANAGED,
    ACTIVITY_MEMORY_FILE,
    ACTIVITY_MEMORY_COUNT
};

enum {
    ACTIVITY_FLAG_HOST = 1,   /* host_begin_ns and host_end_ns are known */
    ACTIVITY_FLAG_DEVICE = 2, /* device_begin_ns and device_end_ns are known */
    ACTIVITY_FLAG_BLOCKS = 4, /* the call returned only after the operation was complete */
    ACTIVITY_FLAG_FAILED = 8, /* the call failed */
    ACTIVITY_FLAG_FAULT = 16, /* pages move because they were touched or evicted, and no call asked for it */
    ACTIVITY_FLAG_CUT = 32    /* activity_log_cut() has cut the work; bytes is the share of what is left */
};

struct activity {
    uint64_t host_begin_ns, host_end_ns;
    uint64_t device_begin_ns, device_end_ns;
    uint64_t bytes;
    uint64_t address;    /* copies: of the source, 0: unknown; allocations and frees: of the block */
    uint32_t stream;     /* index of activity_log.streams, or ACTIVITY_NONE */
    uint32_t thread;     /* index of activity_log.threads, or ACTIVITY_NONE */
    uint32_t pieces;     /* copies: rows of a region or ranges of a batch; else 1 */
    uint32_t name;       /* index of activity_log.names: the kernel, the range or the call, or ACTIVITY_NONE */
    uint32_t place;      /* name of the caller, or ACTIVITY_NONE */
    uint32_t range;      /* name of the innermost range around the call, or ACTIVITY_NONE */
    uint8_t kind;        /* enum activity_kind */
    uint8_t flags;       /* ACTIVITY_FLAG_... */
    uint8_t from_memory; /* enum activity_memory: of the source, or of an allocation */
    uint8_t to_memory;
};

struct activity_stream {
    uint64_t number;
    uint32_t device; /* index of activity_log.devices */
};

struct activity_thread {
    uint64_t number;
    uint32_t name; /* ACTIVITY_NONE: it has none */
};

struct activity_device {
    uint64_t number;
    uint32_t name;
    uint64_t recording_ns; /* time of the host that the recorder added to each operation; 0: unknown */
};

/* A pool of memory. The figures are those of its changes (struct activity_memory_change), after
 * activity_log_finish(). */
struct activity_pool {
    uint32_t name, device; /* index of activity_log.names and .devices, or ACTIVITY_NONE */
    uint32_t device_name;  /* index of activity_log.names */
    uint8_t memory;        /* enum activity_memory */
    uint64_t changes;
    uint64_t used_peak_bytes, reserved_peak_bytes;
    uint64_t used_bytes, reserved_bytes; /* at the end */
};

/* The memory of a pool from this time on: in live blocks, and from the driver. */
struct activity_memory_change {
    uint64_t ns;
    uint64_t used_bytes, reserved_bytes;
    uint32_t pool; /* index of activity_log.pools */
};

/* How calls of CUDA were recorded that the program made without leat. */
enum activity_calls { ACTIVITY_CALLS_NONE, ACTIVITY_CALLS_BY_CUPTI, ACTIVITY_CALLS_BY_EVENTS };

/* The most bytes that an activity can have: JSON and pages have numbers of double precision. */
#define ACTIVITY_BYTES_MAX (UINT64_C(1) << 53)

/* Adds bytes to a sum, which stays at INT64_MAX once it is there. */
static inline void activity_add_bytes(uint64_t *sum, uint64_t bytes)
{
    *sum = bytes < INT64_MAX - *sum ? *sum + bytes : INT64_MAX;
}

/* A recorded run. The activities are in no particular order until activity_log_finish(), and then in the order of
 * activity_begin_ns(). */
struct activity_log {
    const char *source; /* "leat", "Kineto", "nsys" */
    struct activity *list;
    size_t count, room;
    struct activity_stream *streams;
    size_t stream_count, stream_room;
    struct activity_thread *threads;
    size_t thread_count, thread_room;
    struct activity_device *devices;
    size_t device_count, device_room;
    struct activity_pool *pools;
    size_t pool_count, pool_room;
    struct activity_memory_change *changes; /* in the order of their times after activity_log_finish() */
    size_t change_count, change_room;
    char **names;
    size_t name_count, name_room;
    uint32_t *name_table; /* hash table of names: index + 1, or 0 */
    size_t name_table_size;
    uint64_t span_ns;
    uint64_t start_ns; /* the reader's clock at the beginning of the span */
    uint64_t lost;     /* activities that the recorder lost */
    uint64_t backward; /* times that ran backwards, and became moments */
    bool truncated;    /* the file ends in the middle of a record */
    enum activity_calls calls_by;
    uint32_t calls_detail; /* name: which library told of them, or why none did */
};

/* ---- activity.c ---- */

struct activity_log *activity_log_create(void);
void activity_log_destroy(struct activity_log *log);

/* Appends an activity, which the log copies. More bytes than ACTIVITY_BYTES_MAX become that many: a call that
 * failed may have asked for any number. Returns false if memory is short. */
bool activity_log_add(struct activity_log *log, const struct activity *activity);

/* Return the index of a name, device, thread or stream, which is added if it is new. Return ACTIVITY_NONE if
 * memory is short or there are too many. A stream is found by its device's index and its number. */
uint32_t activity_log_name(struct activity_log *log, const char *name);
uint32_t activity_log_device(struct activity_log *log, uint64_t number, const char *name);
uint32_t activity_log_thread(struct activity_log *log, uint64_t number);
uint32_t activity_log_stream(struct activity_log *log, uint32_t device, uint64_t number);

/* Append a pool, and a change of its memory. Return ACTIVITY_NONE or false if memory is short or there are too
 * many pools. */
uint32_t activity_log_pool(struct activity_log *log, const struct activity_pool *pool);
bool activity_log_change(struct activity_log *log, const struct activity_memory_change *change);

/* Checks the activities, makes all times relative to the earliest, sorts by time, and finds the ranges around the
 * calls. Returns false with error set if there is no activity with a time, the times cannot be right, or memory is
 * short. */
bool activity_log_finish(struct activity_log *log, char error[ACTIVITY_ERROR_MAX]);

/* Cuts a finished log to the span from the earliest beginning of a range to its latest end. Returns false with
 * error set if there is no range of this name. */
bool activity_log_cut(struct activity_log *log, const char *range, char error[ACTIVITY_ERROR_MAX]);

/* Returns the text of a name, or "" for ACTIVITY_NONE. */
const char *activity_name(const struct activity_log *log, uint32_t name);

/* Writes the name of a thread, such as "thread 3 loader". Returns text. */
const char *activity_thread_name(const struct activity_log *log, size_t thread, char text[ACTIVITY_THREAD_MAX]);

/* Writes the name of a pool, such as "the device pool on cuda:0". Returns text. */
const char *activity_pool_name(const struct activity_log *log, size_t pool, char text[ACTIVITY_POOL_NAME_MAX]);

/* Fills order with the indices of the pools that have had memory, the largest first. Returns how many. */
size_t activity_pool_order(const struct activity_log *log, size_t *order);

/* Returns the device of an activity, or ACTIVITY_NONE. */
uint32_t activity_device(const struct activity_log *log, const struct activity *activity);

extern const char *const activity_kind_names[ACTIVITY_KIND_COUNT];
extern const char *const activity_memory_names[ACTIVITY_MEMORY_COUNT];

/* Writes where an activity comes from: its call, its caller and its range, as far as they are known. Returns text.
 */
const char *activity_place(const struct activity_log *log, const struct activity *activity,
                           char text[ACTIVITY_PLACE_MAX]);

/* Returns true if the activity occupies a device: its execution is a copy, or it computes. Waits and host
 * functions do not. */
static inline bool activity_is_copy(const struct activity *a)
{
    return (a->flags & ACTIVITY_FLAG_DEVICE) && (a->kind == ACTIVITY_COPY || a->kind == ACTIVITY_FILE_READ ||
                                                 a->kind == ACTIVITY_FILE_WRITE || a->kind == ACTIVITY_PAGE_MOVE);
}

static inline bool activity_is_compute(const struct activity *a)
{
    return (a->flags & ACTIVITY_FLAG_DEVICE) && (a->kind == ACTIVITY_KERNEL || a->kind == ACTIVITY_FILL);
}

static inline uint64_t activity_begin_ns(const struct activity *a)
{
    return a->flags & ACTIVITY_FLAG_HOST ? a->host_begin_ns : a->device_begin_ns;
}

/* ---- activity_read.c: the readers ---- */

/* Reads a recorded run; path - is standard input. The contents decide which reader reads it. Returns NULL with
 * error set if no reader knows the file, or something is wrong with it. */
struct activity_log *activity_read(const char *path, char error[ACTIVITY_ERROR_MAX]);

/* ---- activity_breakdown.c ---- */

enum activity_class { ACTIVITY_CLASS_COPY, ACTIVITY_CLASS_COMPUTE };

/* A piece of time in which a device copies or computes. */
struct activity_interval {
    uint64_t begin_ns, end_ns;
    enum activity_class class;
};

/* The four parts of a span. Their sum is the span. */
struct activity_parts {
    uint64_t idle_ns, copy_ns, compute_ns, overlap_ns; /* copy_ns and compute_ns: without overlap_ns */
};

/* Divides the span from 0 to span_ns. Sorts the intervals. Parts of intervals outside of the span do not count.
 * on_idle may be NULL; it is called for each idle piece in order. */
struct activity_parts activity_divide(struct activity_interval *intervals, size_t count, uint64_t span_ns,
                                      void (*on_idle)(void *context, uint64_t begin_ns, uint64_t end_ns),
                                      void *context);

/* Why a device is idle. docs/trace.md has the definitions. */
enum activity_reason {
    ACTIVITY_IDLE_HOST,   /* the host has not yet called for the next work */
    ACTIVITY_IDLE_LAUNCH, /* the next work is submitted, or just being submitted, and has not begun */
    ACTIVITY_IDLE_COPY,   /* waits for a copy */
    ACTIVITY_IDLE_EVENT,  /* waits for an event of another stream */
    ACTIVITY_IDLE_SYNC,   /* the host synchronises */
    ACTIVITY_IDLE_ALLOC,  /* the host allocates or frees */
    ACTIVITY_IDLE_NONE,   /* nothing submitted: before the first work and after the last */
    ACTIVITY_IDLE_COUNT
};

extern const char *const activity_reason_names[ACTIVITY_IDLE_COUNT];

struct activity_share {
    uint32_t index; /* of the device or stream */
    struct activity_parts parts;
    uint64_t idle_by_ns[ACTIVITY_IDLE_COUNT]; /* sums to idle_ns; only for devices and the whole */
    uint64_t copies, copy_bytes, kernels;
    uint64_t copy_busy_ns; /* union of the copies, for rates */
};

struct activity_breakdown {
    uint64_t span_ns;
    struct activity_share all; /* all devices as one: busy if any device is */
    struct activity_share *devices, *streams;
    size_t device_count, stream_count;
};

/* Returns NULL if memory is short. */
struct activity_breakdown *activity_breakdown_make(const struct activity_log *log);
void activity_breakdown_destroy(struct activity_breakdown *breakdown);

/* ---- activity_advice.c ---- */

enum { ACTIVITY_ADVICE_MAX = 32, ACTIVITY_TEXT_MAX = 400 };

struct activity_advice {
    const char *rule;
    uint64_t saving_ns;
    uint64_t count; /* activities that the rule found */
    char place[ACTIVITY_PLACE_MAX];
    char evidence[ACTIVITY_TEXT_MAX]; /* what was seen */
    char change[ACTIVITY_TEXT_MAX];   /* what to change */
    char basis[ACTIVITY_TEXT_MAX];    /* how the saving was computed */
};

/* Fills list with the advice of all rules that find something, the largest saving first. rate_gb_s: the rate of
 * the link if the trace does not tell it, or 0. Returns how many, or -1 if memory is short. */
int activity_advise(const struct activity_log *log, const struct activity_breakdown *breakdown, double rate_gb_s,
                    struct activity_advice list[ACTIVITY_ADVICE_MAX]);

/* ---- the ways to look ---- */

struct activity_report {
    const char *path;
    const struct activity_log *log;
    const struct activity_breakdown *breakdown;
    const struct activity_advice *advice;
    int advice_count;
};

/* They return false if memory is short. The caller must check by ferror() whether everything was written. */
bool activity_write_text(const struct activity_report *report);
bool activity_write_json(const struct activity_report *report, FILE *file);
bool activity_write_html(const struct activity_report *report, FILE *file);
bool activity_write_perfetto(const struct activity_log *log, FILE *file);
/* Reads a trace of leat and writes it for Perfetto at once, with memory that does not depend on its length.
 * *missed receives how much work was left out. Returns false with error set. */
bool activity_perfetto_pass(const char *path, FILE *file, uint64_t *missed, char error[ACTIVITY_ERROR_MAX]);
bool activity_compare_text(const struct activity_report *a, const struct activity_report *b);
bool activity_compare_json(const struct activity_report *a, const struct activity_report *b, FILE *file);

/* Returns the report as a JSON object with at most this many streams of each device and pools, or NULL if memory
 * is short. */
struct json_t *activity_report_json(const struct activity_report *report, size_t most);

/* Writes a duration such as "1.25 ms". Returns text. */
const char *activity_duration(char text[32], uint64_t ns);

#endif
