/*
 * bench_memory.h - what the parts of the group "memory" share.
 *
 * Three tables: which way of getting host data to a kernel is the fastest, for dense and for sparse reading
 * (bench_memory.c); what the levels of memory cost (bench_memory_levels.c); and prefetch of managed memory in all
 * the ways that it can be given (bench_memory_prefetch.c). bench_memory_picture.c draws the first one.
 */
#ifndef CLI_BENCH_MEMORY_H
#define CLI_BENCH_MEMORY_H

#include "bench_measure.h"

enum memory_strategy {
    MEMORY_PAGEABLE,
    MEMORY_PINNED,
    MEMORY_MAPPED,
    MEMORY_MANAGED,
    MEMORY_PREFETCHED,
    MEMORY_STRATEGY_COUNT
};

enum { MEMORY_ACCESS_COUNT = 5 };

/* How they are called in the record: "CASE" is the strategy's label, a comma, and the access'. */
extern const char *const memory_strategy_labels[MEMORY_STRATEGY_COUNT];
extern const char *const memory_access_labels[MEMORY_ACCESS_COUNT];

extern const char memory_part_strategies[], memory_part_levels[], memory_part_prefetch[];

/* The size that this run measures with. */
size_t memory_bytes(const struct bench *bench);

/* The built-in kernel of this name; NULL with bench->error set. */
leat_kernel *memory_kernel(struct bench *bench, const char *name);

/* Clears bench->wrong_device, where the kernels of a sample put their result, takes the sample, and fetches it. */
bool memory_result(struct bench *bench, bench_sample sample, void *state, uint64_t *found);

void memory_levels(struct bench *bench, struct bench_rows *rows);
void memory_prefetch(struct bench *bench, struct bench_rows *rows);

/* Draws the record's table of strategies into a file. False after saying why not. */
bool bench_memory_picture(const json_t *record, const char *path);

#endif
