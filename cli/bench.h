/*
 * bench.h - declares what the parts of "leat bench" share: the options, the state of a run, its buffers, and the
 * groups of measurements.
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
    bool full; /* measure every combination of the group "copy" */
    bool json;
    bool markdown;
    bool headline;
    bool list;
    const char *summary; /* file for the tables, while standard output gets a summary of one screen; NULL: print
                          * the tables, and no summary */
    const char *device;
    const char *output;
    const char *from;
    const char *picture;
    unsigned groups; /* bit i: group i is wanted */
    unsigned repeat; /* samples for each row; 0: as many as the time allows */

    /* Options of the group "copy". copy_parts, copy_memories: bit i chooses part i or kind of memory i; 0 chooses
     * all. sizes: the only sizes to measure; size_count 0: the default sizes. */
    unsigned copy_parts;
    unsigned copy_memories;
    size_t sizes[BENCH_SIZES_MAX];
    unsigned size_count;

    /* Options of the part "gaps" of the group "copy". Bit i chooses timing, cache state or direction i. Each
     * option that is 0 has its default. */
    unsigned gap_timings, gap_caches, gap_directions;
    double gaps_ms[BENCH_GAPS_MAX];
    unsigned gap_count;
    double gap_seconds;
    bool spin;         /* the thread computes during gaps instead of sleeping */
    const char *first; /* "DIRECTION,SIDE": this process is a child that makes only one copy, of this direction by
                        * this side */

    /* Options of the group "pool". pool_parts: bit i chooses part i; 0 chooses all parts except "packing".
     * live_bytes: the live bytes of the part "packing"; 0: the default. */
    unsigned pool_parts;
    uint64_t live_bytes;

    /* Options of the group "layout", which uses sizes too. layout_suites: bit i chooses suite i; 0 chooses all.
     * ladder: measure the ladder (bench_layout_ladder.c) instead of suites. */
    unsigned layout_suites;
    bool ladder;

    /* Options of the group "net", which uses sizes and gaps_ms too. to: the address of a "leat serve"; "tcp",
     * "unix" or "ucx" alone, or NULL: the command starts the other process itself. net_kinds: bit i chooses kind
     * i; 0 chooses all. */
    const char *to;
    const char *key_file;
    bool encrypt;
    unsigned net_kinds;
};

/* One run of the command on one device. */
struct bench {
    const struct bench_options *options;
    leat_device *device;
    leat_device_info info;
    leat_stream *streams[BENCH_STREAM_COUNT];
    /* Separate streams for the driver's calls. After leat_stream_native() has returned a stream's native handle,
     * leat must query that stream more often, which would make leat's own figures worse. */
    leat_stream *driver_streams[BENCH_STREAM_COUNT];
    void *native_streams[BENCH_STREAM_COUNT];
    leat_kernel *pattern, *verify, *vector_add, *add;
    struct bench_workers
        *workers;               /* fills and checks host memory; on the CPU device it also copies for the peer */
    struct bench_workers *pair; /* two threads that copy at the same time by calls that block */
    struct bench_peer *peer;    /* NULL: the record has no figures of the driver */
    void *buffers[BENCH_BUFFER_COUNT];
    size_t largest;         /* the largest size of this run */
    uint64_t *wrong_device; /* counter of the verify kernel, in device memory */
    uint64_t *wrong_host;   /* pinned memory to which the counter is copied */
    uint64_t seed;          /* the latest seed. Each check uses a new seed, so that bytes of an earlier check count
                             * as wrong */

    json_t *rows;
    json_t *notes;
    /* For the line that shows progress. row_count: rows begun so far. row_total: the estimated number of rows of
     * the run; 0: unknown. */
    unsigned row_count, row_total;
    unsigned group_done, group_total;

    double busy_before; /* the share of the processors' time that others used before the run; NAN: unknown */
    bool failed;        /* some row did not complete or was not verified */
    bool progress;      /* standard error is a terminal */

    pthread_mutex_t error_lock; /* guards error, which copying threads write too */
    char error[BENCH_ERROR_MAX];
};

/* ---- the run: bench_run.c ---- */

/* Opens the device and creates everything that the groups share. Returns false with bench->error set. Call
 * bench_close() in both cases. */
bool bench_open(struct bench *bench, const struct bench_options *options);
void bench_close(struct bench *bench);

/* Returns a shared buffer, or NULL with bench->error set. */
void *bench_buffer(struct bench *bench, enum bench_buffer which);

/* Frees the shared buffers, and sets the largest size of those that are made from now on. No work may use them. */
void bench_resize(struct bench *bench, size_t largest);

/* Return true if the status or result means success. Otherwise return false and copy the message to bench->error,
 * unless that contains an earlier message. Any thread may call them. */
bool bench_check(struct bench *bench, leat_status status);
bool bench_check_peer(struct bench *bench, const char *what, int result);

/* Adds a message to the record's notes. */
void bench_note(struct bench *bench, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reports a case that did not complete: prints bench->error, adds it to the notes, and makes the command fail at
 * its end. */
void bench_case_failed(struct bench *bench, const char *group, const char *name, uint64_t bytes);

/* Shows the current measurement in a line on standard error, if that is a terminal. group NULL: clears the
 * line. */
void bench_progress(struct bench *bench, const char *group, const char *name, uint64_t bytes);

/* Returns the system's estimate of the machine's available memory, in bytes. */
uint64_t bench_available_memory(void);

/* Launches a kernel over count elements, in one dimension, on a stream of the bench. */
bool bench_launch(struct bench *bench, unsigned stream, leat_kernel *kernel, uint64_t count, void *const *args,
                  unsigned argument_count);

/* ---- the groups, each in its own file ---- */

struct bench_group {
    const char *name;
    const char *text;
    void (*run)(struct bench *bench);
    unsigned quick_rows; /* estimated number of rows with --quick, for the line that shows progress */
};

enum {
    BENCH_GROUP_COUNT = 10,
    BENCH_GROUP_COPY = 0,
    BENCH_GROUP_LAYOUT = 2,
    BENCH_GROUP_POOL = 4,
    BENCH_GROUP_NET = 9, /* runs only by name */
    BENCH_ALL_GROUPS = (1 << BENCH_GROUP_COUNT) - 1,
    BENCH_DEFAULT_GROUPS = BENCH_ALL_GROUPS & ~(1 << BENCH_GROUP_NET)
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
void bench_file_group(struct bench *bench);
void bench_net_group(struct bench *bench);

#endif
