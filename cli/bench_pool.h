/*
 * bench_pool.h - what the files of the group "pool" share: pairs of allocating and freeing on either side, and
 * what a pool did meanwhile.
 */
#ifndef CLI_BENCH_POOL_H
#define CLI_BENCH_POOL_H

#include "bench_measure.h"

/* What allocates: leat from pool, or from the device's default pool where it is NULL; the driver by its
 * stream-ordered calls, or by its plain ones where plain is set or there are no others. */
struct pool_source {
    struct bench *bench;
    leat_pool *pool;
    bool plain;
};

/* Does the driver have calls to compare with? */
bool pool_driver_has(const struct pool_source *source);

/* A block for the stream, and back. stream and native_stream are the same one. Any thread; of the driver's side
 * the peer's context must be current. */
bool pool_take(const struct pool_source *source, enum bench_side side, leat_stream *stream, void *native_stream,
               size_t bytes, void **ptr);
bool pool_give(const struct pool_source *source, enum bench_side side, leat_stream *stream, void *native_stream,
               void *ptr);

/* The same on the first of the bench's streams. */
bool pool_take_first(const struct pool_source *source, enum bench_side side, size_t bytes, void **ptr);
bool pool_give_first(const struct pool_source *source, enum bench_side side, void *ptr);

/* The driver's own pool keeps what is freed; after pool_driver_as_usual() it behaves as it was found, and is
 * empty. Nothing where the driver has no such pool. */
bool pool_driver_keeps(struct bench *bench);
bool pool_driver_as_usual(struct bench *bench);

/* A new pool of the device with that limit, 0 for none. */
bool pool_make(struct bench *bench, leat_kind kind, uint64_t limit_bytes, leat_pool **pool);

/* What a pool did between two looks at its statistics. */
struct pool_watch {
    struct bench *bench;
    leat_pool *pool;
    leat_pool_statistics begin;
    double driver_calls, events, queries, waits; /* sums of all watched stretches */
};

/* A stretch; several may follow each other, with pool changed in between. */
bool pool_watch_begin(struct pool_watch *watch);
bool pool_watch_end(struct pool_watch *watch);

/* Gives the row the keys driver_calls, events, queries and waits: the sums divided by operations. */
void pool_watch_row(const struct pool_watch *watch, struct bench_row *row, double operations);

/* The tables of the group: rows of one part have one unit. */
enum pool_part { POOL_PAIRS, POOL_THREADS, POOL_STREAMS, POOL_LOOP, POOL_GROWTH, POOL_PACKING, POOL_PART_COUNT };

extern const char *const pool_part_words[POOL_PART_COUNT];

/* A new row of the group. */
struct bench_row *pool_row(struct bench_rows *rows, enum pool_part part, const char *name, uint64_t bytes,
                           const struct bench_result *result, bool with_driver, bool verified);

/* A block of a size from the source, filled and looked at in its first and last MiB. */
bool pool_verify(const struct pool_source *source, size_t bytes, bool *verified);

/* ---- the parts of the group, each in its own file; they add their rows ---- */

void bench_pool_threads(struct bench *bench, struct bench_rows *rows);
void bench_pool_order(struct bench *bench, struct bench_rows *rows);
void bench_pool_loop(struct bench *bench, struct bench_rows *rows);
void bench_pool_grow(struct bench *bench, struct bench_rows *rows);

/* Many rows; it gives them to the record itself. */
void bench_pool_packing(struct bench *bench);

/* Where the packing is all that is wanted, the CPU device need not be as small as the machine: comes before the
 * first call of leat. */
void bench_pool_packing_prepare(const struct bench_options *options);

/* Prints the packing's sequences as JSON, for bench/peers. Returns false after a complaint. */
bool bench_pool_packing_list(const struct bench_options *options);

#endif
