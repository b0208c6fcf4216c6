/*
 * bench_pool.h - declares what the files of the group "pool" share: allocating and freeing by leat or by the
 * driver, and counting the work of a pool meanwhile.
 */
#ifndef CLI_BENCH_POOL_H
#define CLI_BENCH_POOL_H

#include "bench_measure.h"

/* The source of blocks. leat's side allocates from pool, or, if pool is NULL, from the device's default pool. The
 * driver's side uses its stream-ordered calls, or, if plain is set or it has no such calls, its plain calls. */
struct pool_source {
    struct bench *bench;
    leat_pool *pool;
    bool plain;
};

/* Returns true if the driver has calls to compare with. */
bool pool_driver_has(const struct pool_source *source);

/* Allocate a block for a stream, and free it. stream and native_stream are the same stream. May be called by any
 * thread; for the driver's side the peer's context must be current. */
bool pool_take(const struct pool_source *source, enum bench_side side, leat_stream *stream, void *native_stream,
               size_t bytes, void **ptr);
bool pool_give(const struct pool_source *source, enum bench_side side, leat_stream *stream, void *native_stream,
               void *ptr);

/* Do the same on stream 0 of the bench. */
bool pool_take_first(const struct pool_source *source, enum bench_side side, size_t bytes, void **ptr);
bool pool_give_first(const struct pool_source *source, enum bench_side side, void *ptr);

/* pool_driver_keeps() lets the driver's pool keep all freed memory. pool_driver_as_usual() empties the pool and
 * restores its settings. Both do nothing if the driver has no such pool. */
bool pool_driver_keeps(struct bench *bench);
bool pool_driver_as_usual(struct bench *bench);

/* Creates a pool of the device with a limit in bytes; 0: no limit. */
bool pool_make(struct bench *bench, leat_kind kind, uint64_t limit_bytes, leat_pool **pool);

/* Counts the driver calls, events, queries and waits of a pool, by its statistics before and after a period. */
struct pool_watch {
    struct bench *bench;
    leat_pool *pool;
    leat_pool_stats begin;
    double driver_calls, events, queries, waits; /* sums over all periods between begin and end */
};

/* Begin and end a period. There may be several periods, each with another pool, whose counts are added up. */
bool pool_watch_begin(struct pool_watch *watch);
bool pool_watch_end(struct pool_watch *watch);

/* Adds the keys driver_calls, events, queries and waits to the row: the sums divided by operations. */
void pool_watch_row(const struct pool_watch *watch, struct bench_row *row, double operations);

/* The parts of the group. Each part is a table, whose rows have the same unit. */
enum pool_part { POOL_PAIRS, POOL_THREADS, POOL_STREAMS, POOL_LOOP, POOL_GROWTH, POOL_PACKING, POOL_PART_COUNT };

extern const char *const pool_part_words[POOL_PART_COUNT];

/* Adds a row to the group and returns it. */
struct bench_row *pool_row(struct bench_rows *rows, enum pool_part part, const char *name, uint64_t bytes,
                           const struct bench_result *result, bool with_driver, bool verified);

/* Verifies a block of this size from the source: writes and checks its first and last MiB. */
bool pool_verify(const struct pool_source *source, size_t bytes, bool *verified);

/* ---- the parts of the group, each in its own file; they add their rows ---- */

void bench_pool_threads(struct bench *bench, struct bench_rows *rows);
void bench_pool_order(struct bench *bench, struct bench_rows *rows);
void bench_pool_loop(struct bench *bench, struct bench_rows *rows);
void bench_pool_grow(struct bench *bench, struct bench_rows *rows);

/* Measures the part "packing". It adds its rows to the record directly, because there are many. */
void bench_pool_packing(struct bench *bench);

/* Makes the CPU device larger than the machine's memory if only the part "packing" is wanted. That works because
 * this part touches no block. Call it before the first call of leat. */
void bench_pool_packing_prepare(const struct bench_options *options);

/* Prints the sequences of the part "packing" as JSON, for the scripts in bench/peers. Returns false after printing
 * an error message. */
bool bench_pool_packing_list(const struct bench_options *options);

#endif
