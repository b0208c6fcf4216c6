/*
 * bench_threads.h - threads that wait for work, so that a sample times the work and not the start of threads.
 */
#ifndef CLI_BENCH_THREADS_H
#define CLI_BENCH_THREADS_H

struct bench_workers;

/* Does one thread's share of the work, as thread index of count. */
typedef void (*bench_work)(void *argument, unsigned index, unsigned count);

/* Creates workers with so many threads, including the caller. Returns NULL if they cannot be started. */
struct bench_workers *bench_workers_create(unsigned threads);
void bench_workers_destroy(struct bench_workers *workers);

/* Runs work on all threads, the caller as index 0, and returns when all are done. One caller at a time. */
void bench_workers_run(struct bench_workers *workers, bench_work work, void *argument);

unsigned bench_workers_count(const struct bench_workers *workers);

#endif
