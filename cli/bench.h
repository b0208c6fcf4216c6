/*
 * bench.h - what the parts of "leat bench" share: the run, its buffers, and the groups.
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "bench_peer.h"
#include "bench_threads.h"

#include <jansson.h>
#include <leat/leat.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

enum { BENCH_STREAM_COUNT = 4, BENCH_ERROR_MAX = 1024, BENCH_SIZES_MAX = 32, BENCH_GAPS_MAX = 8 };

/* Large buffers, made at their first use and shared by all groups; each holds bench->largest bytes. */
enum bench_buffer {
    BENCH_PINNED_IN,
    BENCH_PINNED_OUT,
    BENCH_PAGEABLE_IN,
    BENCH_PAGEABLE_OUT,
    BENCH_DEVICE_A,
    BENCH_DEVICE_B,
    BENCH_DEVICE_C,
    BENCH_BUFFER_COUNT
};

struct bench_options {
    bool quick;
    bool full; /* of the group "copy" every combination */
    bool json;
    bool markdown;
    bool headline;
    bool list;
    const char *summary; /* the file for the tables; standard output gets one screen. NULL: no summary */
    const char *device;
    const char *output;
    const char *from;
    const char *picture;
    unsigned groups; /* bit i: group i is wanted */
    unsigned repeat; /* 0: as many as the time allows */

    /* Of the group "copy": bit i is part or kind of memory i, 0 for all; these sizes only, if there are any. */
    unsigned copy_parts;
    unsigned copy_memories;
    size_t sizes[BENCH_SIZES_MAX];
    unsigned size_count;

    /* Of the part "gaps" of the group "copy". Bit i is timing, cache state or direction i, 0 for the defaults.
     * gap_count and gap_seconds are 0 for the defaults too. */
    unsigned gap_timings, gap_caches, gap_directions;
    double gaps_ms[BENCH_GAPS_MAX];
    unsigned gap_count;
    double gap_seconds;
    bool spin;         /* the thread computes during gaps instead of sleeping */
    const char *first; /* "DIRECTION,SIDE": this process only makes that one copy */

    /* Of the group "pool": bit i is part i, 0 for all but the packing; live bytes of the packing, 0 for the usual
     * ones. */
    unsigned pool_parts;
    uint64_t live_bytes;

    /* Of the group "layout", which takes sizes too: bit i is suite i, 0 for all; the ladder instead of suites. */
    unsigned layout_suites;
    bool ladder;
};

/* One run of the command on one device. */
struct bench {
    const struct bench_options *options;
    leat_device *device;
    leat_device_info info;
    leat_stream *streams[BENCH_STREAM_COUNT];
    /* The driver's side has streams of its own: leat asks more often about one whose handle others know. */
    leat_stream *driver_streams[BENCH_STREAM_COUNT];
    void *native_streams[BENCH_STREAM_COUNT];
    leat_kernel *pattern, *verify, *vector_add, *add;
    struct bench_workers
        *workers;               /* fills and checks host memory; on the CPU device it also copies for the peer */
    struct bench_workers *pair; /* two threads, for two copies that hold their callers up */
    struct bench_peer *peer;    /* NULL: no driver's figures */
    void *buffers[BENCH_BUFFER_COUNT];
    size_t largest;         /* the largest size of this run */
    uint64_t *wrong_device; /* where the verify kernel counts */
    uint64_t *wrong_host;   /* pinned */
    uint64_t seed;          /* the latest one used; each check takes a new one, so that old bytes never pass */

    json_t *rows;
    json_t *notes;
    /* For the line that shows progress: rows begun so far, and about how many there will be (0: unknown); groups
     * done, and how many are wanted. */
    unsigned row_count, row_total;
    unsigned group_done, group_total;

    double busy_before; /* the share of the processors' time that others used before the run; NAN: unknown */
    bool failed;        /* something did not run to its end, or was not verified */
    bool progress;      /* standard error is a terminal */

    pthread_mutex_t error_lock; /* guards error, which copying threads write too */
    char error[BENCH_ERROR_MAX];
};

/* ---- the run: bench_run.c ---- */

/* Opens the device and makes everything up to peer. False: the failure is in bench->error. bench_close() is
 * needed in both cases. */
bool bench_open(struct bench *bench, const struct bench_options *options);
void bench_close(struct bench *bench);

/* A shared buffer, or NULL with bench->error set. */
void *bench_buffer(struct bench *bench, enum bench_buffer which);

/* Keep the first failure's message in bench->error and return false; true when all is well. Any thread. */
bool bench_check(struct bench *bench, leat_status status);
bool bench_check_peer(struct bench *bench, const char *what, int result);

/* Adds a message to the record's notes. */
void bench_note(struct bench *bench, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A case did not run to its end: complains with bench->error, notes it, and makes the command fail in the end. */
void bench_case_failed(struct bench *bench, const char *group, const char *name, uint64_t bytes);

/* Shows what is being measured, where standard error is a terminal; NULL clears the line. */
void bench_progress(struct bench *bench, const char *group, const char *name, uint64_t bytes);

/* How much memory the machine has left, as the system estimates it. */
uint64_t bench_available_memory(void);

/* The stream's 1-D launch of a kernel over count elements. */
bool bench_launch(struct bench *bench, unsigned stream, leat_kernel *kernel, uint64_t count, void *const *args,
                  unsigned argument_count);

/* ---- the groups, each in its own file ---- */

struct bench_group {
    const char *name;
    const char *text;
    void (*run)(struct bench *bench);
    unsigned quick_rows; /* about how many rows --quick measures, for the line that shows progress */
};

enum {
    BENCH_GROUP_COUNT = 8,
    BENCH_GROUP_COPY = 0,
    BENCH_GROUP_LAYOUT = 2,
    BENCH_GROUP_POOL = 4,
    BENCH_ALL_GROUPS = (1 << BENCH_GROUP_COUNT) - 1
};

extern const struct bench_group bench_groups[BENCH_GROUP_COUNT];

void bench_copy_group(struct bench *bench);
void bench_device_group(struct bench *bench);
void bench_layout_group(struct bench *bench);
void bench_alloc_group(struct bench *bench);
void bench_pool_group(struct bench *bench);
void bench_latency_group(struct bench *bench);
void bench_overlap_group(struct bench *bench);
void bench_memory_group(struct bench *bench);

#endif
