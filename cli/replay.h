/*
 * replay.h - what the parts of "leat replay" share: the command line, the allocator that is replayed against, and
 * what was measured.
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
    REPLAY_DRIVER_ASYNC,      /* its stream-ordered calls, with the pool as it is */
    REPLAY_DRIVER_ASYNC_KEEP, /* the same, with a pool that keeps what it has */
    REPLAY_ALLOCATOR_COUNT
};

extern const char *const replay_allocator_names[REPLAY_ALLOCATOR_COUNT];
extern const char *const replay_policy_names[3];  /* by leat_pool_reuse */
extern const char *const replay_packing_names[3]; /* by leat_pool_packing */

struct replay_options {
    const char *trace;
    const char *device;
    const char *snapshot; /* file for the pool at the peak; NULL: none */
    const char *plan;     /* for the pool; NULL: none */
    const char *pool;     /* only blocks of recorded pools of this name; NULL: of all */
    leat_kind kind;       /* only memory of this kind */
    enum replay_allocator allocator;
    leat_pool_reuse policy;
    leat_pool_packing packing;
    uint64_t limit_bytes; /* 0: none */
    double limit_ratio;   /* the limit as a multiple of the most bytes requested; 0: given in bytes, or none */
    int trace_device;     /* of a snapshot of PyTorch's */
    unsigned rounds;
    bool policy_given, packing_given;
    bool hold; /* free where the trace says "freed" */
    bool trim; /* after each round */
    bool json;
};

/* ---- the allocator: replay_target.c ---- */

/* Where the blocks come from and go to. Calls return false with error set. */
struct replay_target {
    /* Memory for a block of the trace. */
    bool (*alloc)(struct replay_target *target, const struct trace_block *block, void **ptr);

    /* Gives it back on stream; where the block was used elsewhere, after the work of the other streams. */
    bool (*free)(struct replay_target *target, unsigned stream, bool used_elsewhere, void *ptr);

    /* Looks how much memory is taken, where that must be asked in between; not timed. NULL: need not be. */
    void (*sample)(struct replay_target *target);

    char calls[REPLAY_CALLS_MAX]; /* which calls are measured, in words */
    char error[REPLAY_ERROR_MAX];
    uint64_t driver_calls;         /* counted here where leat does not */
    uint64_t events, stream_waits; /* likewise */
    uint64_t first_free_bytes;     /* of the device, before the first allocation */
    uint64_t sampled_peak_bytes;   /* most of it that was taken since, as sampled */
    const char *no_peak;           /* why the memory held is not known; NULL: it is */
    leat_device *device;
    leat_device_info info;
    leat_pool *pool; /* of REPLAY_LEAT */
    struct bench_peer *peer;
    struct bench_workers *workers;
    leat_event *event;
    bool entered;     /* the peer's context is current */
    bool driver_pool; /* the peer watches the driver's pool */
    unsigned stream_count;
    leat_stream *streams[TRACE_STREAMS_MAX];
    void *native_streams[TRACE_STREAMS_MAX];
    int host_stream;    /* as in the trace; the pool takes none for it */
    leat_event **marks; /* the program's events, by the trace's index; NULL where there is none now */
    size_t mark_count;
};

/* Opens the device and the allocator for a trace. False: target->error says why. replay_close() is needed in both
 * cases, and returns false, with error, when something could not be given back. */
bool replay_open(struct replay_target *target, const struct replay_options *options, const struct trace *trace);
bool replay_close(struct replay_target *target);

/* Does what orders the program's streams: an event of the trace beyond TRACE_FREED. ptr: of its block. */
bool replay_order(struct replay_target *target, const struct trace_event *event, void *ptr);

/* What the allocator says of itself; all zeros but the counts that the target keeps where there is no pool. */
bool replay_statistics(struct replay_target *target, leat_pool_statistics *statistics);

/* The most memory that the allocator held so far; false where that is not known. */
bool replay_peak_bytes(struct replay_target *target, uint64_t *bytes);

/* ---- the rounds: replay_run.c ---- */

/* Times of calls in ns, without what reading the clock costs. */
struct replay_times {
    double mean;
    uint64_t p50, p99, p999, worst;
};

/* One round, or several taken together: then counts and totals are sums. */
struct replay_figures {
    unsigned rounds;
    struct replay_times alloc, free, pair; /* a pair is the allocation and the free of one block */
    uint64_t total_ns;                     /* all calls together */
    uint64_t stalled_ns; /* leat: inside the driver's memory calls; else what calls took above REPLAY_STALL_NS */
    uint64_t driver_calls;
    uint64_t events, queries, stream_waits, host_waits;
    uint64_t cache_hits;
    uint64_t created_bytes, stitched_bytes, released_bytes;
    uint64_t stitches, stitch_reuses;
    uint64_t planned; /* allocations that got the place that the pool's plan has for them */
    bool peak_known;
    uint64_t peak_reserved_bytes; /* up to the end of these rounds */
    leat_pool_packing packing;    /* of leat's pool: STILL or TIGHT, as it was at their end */
};

/* A call of a driver's allocator that takes longer than this counts as a stall. */
enum { REPLAY_STALL_NS = 10000 };

struct replay_result {
    uint64_t peak_requested_bytes;
    unsigned rounds;
    struct replay_figures each[REPLAY_ROUNDS_MAX];
    struct replay_figures later; /* from the third round on; later.rounds is 0 when there is none */
    struct replay_figures all;
    uint64_t clock_ns;                                           /* what reading the clock twice costs */
    uint64_t trimmed_bytes, trim_pending_bytes, trim_left_bytes; /* of the last round's trim */
    leat_pool_statistics statistics;                             /* at the end; REPLAY_LEAT only */
};

/* Replays the trace options->rounds times. False: target->error says where it ended; everything that was
 * allocated has been freed all the same. */
bool replay_run(struct replay_target *target, const struct replay_options *options, const struct trace *trace,
                struct replay_result *result);

/* ---- the report: replay_report.c ---- */

/* False when memory is short. */
bool replay_print_tables(const struct replay_target *target, const struct replay_options *options,
                         const struct trace *trace, const struct replay_result *result);
bool replay_print_json(const struct replay_target *target, const struct replay_options *options,
                       const struct trace *trace, const struct replay_result *result);

#endif
