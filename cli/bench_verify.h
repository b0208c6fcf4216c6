/*
 * bench_verify.h - writes known bytes and checks them: on the host with all threads, on the device with leat's
 * kernels.
 *
 * Word number i of a pattern is leat_pattern_value(i, seed), so a check notices misplaced, repeated, missing and
 * old bytes.
 */
#ifndef CLI_BENCH_VERIFY_H
#define CLI_BENCH_VERIFY_H

#include "bench.h"

/* Returns a seed that this run has not used before. */
uint64_t bench_new_seed(struct bench *bench);

/* Fill and check host memory of any size. */
void bench_fill_host(struct bench *bench, void *ptr, size_t bytes, uint64_t seed);
bool bench_host_holds(struct bench *bench, const void *ptr, size_t bytes, uint64_t seed);

/* Fill and check host memory with a part of a pattern: the word at ptr is word number first of the pattern. */
void bench_fill_host_part(struct bench *bench, void *ptr, size_t bytes, uint64_t first, uint64_t seed);
bool bench_host_part_holds(struct bench *bench, const void *ptr, size_t bytes, uint64_t first, uint64_t seed);

/* Fill and check device memory; the buffer must have room for whole words. They return false with bench->error set
 * if a call failed. */
bool bench_fill_device(struct bench *bench, void *ptr, size_t bytes, uint64_t seed);
bool bench_device_holds(struct bench *bench, void *ptr, size_t bytes, uint64_t seed, bool *holds);

/* Writes the first and the last MiB of device memory and checks them on the device. */
bool bench_device_usable(struct bench *bench, void *ptr, size_t bytes, bool *usable);

/* Fills memory with floats that are whole numbers below 2^20, so that the sum of two of them is exact. */
void bench_fill_floats(struct bench *bench, float *ptr, size_t count, uint64_t seed);

/* Returns true if every element is the sum of the two elements that bench_fill_floats() makes with these seeds. */
bool bench_holds_sums(struct bench *bench, const float *ptr, size_t count, uint64_t seed_a, uint64_t seed_b);

/* Overwrites host memory with bytes that no fill makes (as floats they are NaN). */
void bench_poison_host(struct bench *bench, void *ptr, size_t bytes);

#endif
