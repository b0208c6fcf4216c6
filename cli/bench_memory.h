/*
 * bench_memory.h - what the parts of the group "memory" share.
 *
 * There are three tables: which way of getting host data to a kernel is the fastest, for reading all or a part of
 * it (bench_memory.c); what the levels of memory cost (bench_memory_levels.c); and prefetches of managed memory
 * with different calls (bench_memory_prefetch.c). bench_memory_picture.c draws the first one.
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

/* Labels for the record: a case is named by the strategy's label, a comma, and the label of the access. */
extern const char *const memory_strategy_labels[MEMORY_STRATEGY_COUNT];
extern const char *const memory_access_labels[MEMORY_ACCESS_COUNT];

extern const char memory_part_strategies[], memory_part_levels[], memory_part_prefetch[];

/* Returns the size of the data in this run. */
size_t memory_bytes(const struct bench *bench);

/* Returns the built-in kernel of this name, or NULL with bench->error set. */
leat_kernel *memory_kernel(struct bench *bench, const char *name);

/* Takes a sample and fetches the result of its kernels, which they add to bench->wrong_device. Clears that word
 * first. */
bool memory_result(struct bench *bench, bench_sample sample, void *state, uint64_t *found);

void memory_levels(struct bench *bench, struct bench_rows *rows);
void memory_prefetch(struct bench *bench, struct bench_rows *rows);

/* Draws the record's table of strategies as SVG into a file. Returns false after reporting why it cannot. */
bool bench_memory_picture(const json_t *record, const char *path);

#endif
