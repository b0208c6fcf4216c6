/*
 * bench_threads.h - a workers of threads that waits for work, so that what is timed is the work and not the making
 * of threads.
 */
#ifndef CLI_BENCH_THREADS_H
#define CLI_BENCH_THREADS_H

struct bench_workers;

/* One share of the work: this is thread index of count. */
typedef void (*bench_work)(void *argument, unsigned index, unsigned count);

/* A workers of so many threads, the caller's included. NULL when it cannot be had. */
struct bench_workers *bench_workers_create(unsigned threads);
void bench_workers_destroy(struct bench_workers *workers);

/* Runs work on all threads, the caller as index 0, and returns when all are done. One caller at a time. */
void bench_workers_run(struct bench_workers *workers, bench_work work, void *argument);

unsigned bench_workers_count(const struct bench_workers *workers);

#endif
