/*
 * bench_threads.h - keeps threads that wait for work, so that a sample does not include the start of threads.
 */
#ifndef CLI_BENCH_THREADS_H
#define CLI_BENCH_THREADS_H

struct bench_workers;

/* A function that does one thread's share of the work. index: the thread's number, below count. */
typedef void (*bench_work)(void *argument, unsigned index, unsigned count);

/* Creates workers with this number of threads, including the caller. Returns NULL if they cannot be started. */
struct bench_workers *bench_workers_create(unsigned threads);
void bench_workers_destroy(struct bench_workers *workers);

/* Runs work on all threads, with the caller as index 0, and returns when all have finished. Only one thread may
 * call this at a time. */
void bench_workers_run(struct bench_workers *workers, bench_work work, void *argument);

unsigned bench_workers_count(const struct bench_workers *workers);

#endif
