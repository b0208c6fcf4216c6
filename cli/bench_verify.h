/*
 * bench_verify.h - known bytes in, and are they there: on the host by all threads, on the device by leat's
 * kernels.
 *
 * Words are leat_pattern_value(index, seed), so that misplaced, repeated, missing and old bytes all show.
 */
#ifndef CLI_BENCH_VERIFY_H
#define CLI_BENCH_VERIFY_H

#include "bench.h"

/* A seed that this run has not used before. */
uint64_t bench_new_seed(struct bench *bench);

/* Host memory, any size. */
void bench_fill_host(struct bench *bench, void *ptr, size_t bytes, uint64_t seed);
bool bench_host_holds(struct bench *bench, const void *ptr, size_t bytes, uint64_t seed);

/* The same for part of a pattern: the word at ptr is word number first of the pattern. */
void bench_fill_host_part(struct bench *bench, void *ptr, size_t bytes, uint64_t first, uint64_t seed);
bool bench_host_part_holds(struct bench *bench, const void *ptr, size_t bytes, uint64_t first, uint64_t seed);

/* Device memory; the buffer has room for whole words. False with bench->error set when a call failed. */
bool bench_fill_device(struct bench *bench, void *ptr, size_t bytes, uint64_t seed);
bool bench_device_holds(struct bench *bench, void *ptr, size_t bytes, uint64_t seed, bool *holds);

/* Writes to the first and the last MiB of device memory and looks at them, on the device. */
bool bench_device_usable(struct bench *bench, void *ptr, size_t bytes, bool *usable);

/* Floats that are whole numbers below 2^20, so that a sum of two is exact. */
void bench_fill_floats(struct bench *bench, float *ptr, size_t count, uint64_t seed);

/* Is every element the sum of the two fills' elements? */
bool bench_holds_sums(struct bench *bench, const float *ptr, size_t count, uint64_t seed_a, uint64_t seed_b);

/* Overwrites host memory with bytes that no fill makes (as floats they are NaN). */
void bench_poison_host(struct bench *bench, void *ptr, size_t bytes);

#endif
