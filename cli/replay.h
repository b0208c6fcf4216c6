/*
 * replay.h - declares what the parts of "leat replay" share: the options, the allocator that replays the trace,
 * and the results.
 */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include "trace_read.h"

#include <leat/leat.h>
#include <stdbool.h>
#include <stdint.h>

enum { REPLAY_ERROR_MAX = 2048, REPLAY_ROUNDS_MAX = 100, REPLAY_CALLS_MAX = 192 };

enum replay_allocator {
    REPLAY_LEAT,
    REPLAY_DRIVER,            /* the driver's plain calls */
    REPLAY_DRIVER_ASYNC,      /* the driver's stream-ordered calls, with the default settings of its pool */
    REPLAY_DRIVER_ASYNC_KEEP, /* the driver's stream-ordered calls, with a pool that keeps all freed memory */
    REPLAY_ALLOCATOR_COUNT
};

extern const char *const replay_allocator_names[REPLAY_ALLOCATOR_COUNT];
extern const char *const replay_policy_names[3];  /* indexed by leat_pool_reuse */
extern const char *const replay_packing_names[3]; /* indexed by leat_pool_packing */

struct replay_options {
    const char *trace;
    const char *device;
    const char *snapshot; /* file for a snapshot of the pool at the peak; NULL: none */
    const char *plan;     /* file with a plan for the pool; NULL: none */
    const char *pool;     /* replay only blocks of recorded pools of this name; NULL: blocks of all pools */
    leat_kind kind;       /* replay only memory of this kind */
    enum replay_allocator allocator;
    leat_pool_reuse policy;
    leat_pool_packing packing;
    uint64_t limit_bytes; /* limit of the pool; 0: none */
    double limit_ratio;   /* limit as a multiple of the peak of the requested bytes; 0: use limit_bytes */
    int trace_device;     /* the device whose events of a PyTorch snapshot are replayed */
    unsigned rounds;
    bool policy_given, packing_given;
    bool hold; /* free blocks at the trace's "freed" instead of "free" */
    bool trim; /* trim the pool after each round */
    bool json;
};

/* ---- the allocator: replay_target.c ---- */

/* The allocator under test (the target). Its functions return false with error set. */
struct replay_target {
    /* Allocates memory for a block of the trace. */
    bool (*alloc)(struct replay_target *target, const struct trace_block *block, void **ptr);

    /* Frees a block on stream. used_elsewhere: other streams used the block too, so the free must be ordered after
     * their work. */
    bool (*free)(struct replay_target *target, unsigned stream, bool used_elsewhere, void *ptr);

    /* Takes a sample of the memory in use. It is not timed. NULL: no samples are needed, because the allocator
     * knows its peak. */
    void (*sample)(struct replay_target *target);

    char calls[REPLAY_CALLS_MAX]; /* the names of the measured calls */
    char error[REPLAY_ERROR_MAX];
    uint64_t driver_calls;         /* number of driver calls; unused if there is a pool, which counts its own */
    uint64_t events, stream_waits; /* numbers of events and waits; unused if there is a pool */
    uint64_t first_free_bytes;     /* free memory of the device before the first allocation */
    uint64_t sampled_peak_bytes;   /* the most memory that was in use at a sample since then */
    const char *no_peak;           /* the reason why the peak of the memory is unknown; NULL: it is known */
    leat_device *device;
    leat_device_info info;
    leat_pool *pool; /* only for REPLAY_LEAT */
    struct bench_peer *peer;
    struct bench_workers *workers;
    leat_event *event;
    bool entered;     /* the peer's context is current in this thread */
    bool driver_pool; /* the peer's pool_watch() was called, so pool_unwatch() must follow */
    unsigned stream_count;
    leat_stream *streams[TRACE_STREAMS_MAX];
    void *native_streams[TRACE_STREAMS_MAX];
    int host_stream;    /* index of the stream that stands for the host in the trace; it has no leat_stream */
    leat_event **marks; /* events for the program's events, by their index in the trace; NULL: not created */
    size_t mark_count;
};

/* Opens the device and the allocator for a trace. Returns false with target->error set. Call replay_close() in
 * both cases; it returns false with error set if something could not be released. */
bool replay_open(struct replay_target *target, const struct replay_options *options, const struct trace *trace);
bool replay_close(struct replay_target *target);

/* Replays an event of the trace that orders streams, that is, an event whose op is after TRACE_FREED. ptr: the
 * memory of the event's block, if it has a block. */
bool replay_order(struct replay_target *target, const struct trace_event *event, void *ptr);

/* Returns the pool's statistics. Without a pool, it returns only the counts of the target; all other members are
 * zero. */
bool replay_statistics(struct replay_target *target, leat_pool_stats *statistics);

/* Returns the most memory that the allocator held so far; false if that is unknown. */
bool replay_peak_bytes(struct replay_target *target, uint64_t *bytes);

/* ---- the rounds: replay_run.c ---- */

/* Times of calls in ns, less the cost of reading the clock. */
struct replay_times {
    double mean;
    uint64_t p50, p99, p999, worst;
};

/* The figures of one or several rounds. For several rounds, counts and totals are sums. */
struct replay_figures {
    unsigned rounds;
    struct replay_times alloc, free, pair; /* a pair is the allocation and the free of one block */
    uint64_t total_ns;                     /* time of all calls together */
    uint64_t stalled_ns; /* leat's pool: time inside the driver's memory calls; other allocators: time by which
                          * calls exceeded REPLAY_STALL_NS */
    uint64_t driver_calls;
    uint64_t events, queries, stream_waits, host_waits;
    uint64_t cache_hits;
    uint64_t created_bytes, stitched_bytes, released_bytes;
    uint64_t stitches, stitch_reuses;
    uint64_t planned; /* allocations that the pool placed according to its plan */
    bool peak_known;
    uint64_t peak_reserved_bytes; /* the most memory held from the start to the end of these rounds */
    leat_pool_packing packing;    /* packing of leat's pool at the end of these rounds: STILL or TIGHT */
};

/* A call of a driver's allocator that takes longer than this counts as a stall. */
enum { REPLAY_STALL_NS = 10000 };

struct replay_result {
    uint64_t peak_requested_bytes;
    unsigned rounds;
    struct replay_figures each[REPLAY_ROUNDS_MAX];
    struct replay_figures later; /* all rounds from the third on; later.rounds is 0 if there are only two rounds */
    struct replay_figures all;
    uint64_t clock_ns;                                           /* the cost of reading the clock twice */
    uint64_t trimmed_bytes, trim_pending_bytes, trim_left_bytes; /* results of the trim after the last round */
    leat_pool_stats statistics;                                  /* statistics at the end; only for REPLAY_LEAT */
};

/* Replays the trace options->rounds times. On failure returns false with target->error set, which names the event
 * that failed. It frees all blocks in both cases. */
bool replay_run(struct replay_target *target, const struct replay_options *options, const struct trace *trace,
                struct replay_result *result);

/* ---- the report: replay_report.c ---- */

/* Print the results. They return false if memory is short. */
bool replay_print_tables(const struct replay_target *target, const struct replay_options *options,
                         const struct trace *trace, const struct replay_result *result);
bool replay_print_json(const struct replay_target *target, const struct replay_options *options,
                       const struct trace *trace, const struct replay_result *result);

#endif
