/*
 * bench_memory.h - declares what the parts of the group "memory" share.
 *
 * The group has three tables. bench_memory.c compares strategies by which a kernel can read data of the host.
 * bench_memory_levels.c measures latency and rate of the levels of memory. bench_memory_prefetch.c compares ways
 * to prefetch managed memory. bench_memory_picture.c draws the first table.
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

/* Labels for the record. The name of a case is the strategy's label, a comma, and the label of the access. */
extern const char *const memory_strategy_labels[MEMORY_STRATEGY_COUNT];
extern const char *const memory_access_labels[MEMORY_ACCESS_COUNT];

extern const char memory_part_strategies[], memory_part_levels[], memory_part_prefetch[];

/* Returns the size of the data in this run. */
size_t memory_bytes(const struct bench *bench);

/* Returns the built-in kernel of this name, or NULL with bench->error set. */
leat_kernel *memory_kernel(struct bench *bench, const char *name);

/* Clears bench->wrong_device, takes a sample, and returns in *found the result that the sample's kernels have
 * added to bench->wrong_device. */
bool memory_result(struct bench *bench, bench_sample sample, void *state, uint64_t *found);

void memory_levels(struct bench *bench, struct bench_rows *rows);
void memory_prefetch(struct bench *bench, struct bench_rows *rows);

/* Draws the record's table of strategies as SVG into a file. Returns false after printing what failed. */
bool bench_memory_picture(const json_t *record, const char *path);

#endif
