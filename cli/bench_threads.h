/*
 * bench_threads.h - a team of threads that waits for work, so that what is timed is the work and not the making of
 * threads.
 */
#ifndef CLI_BENCH_THREADS_H
#define CLI_BENCH_THREADS_H

struct bench_team;

/* One share of the work: this is thread index of count. */
typedef void (*bench_work)(void *argument, unsigned index, unsigned count);

/* A team of so many threads, the caller's included. NULL when it cannot be had. */
struct bench_team *bench_team_create(unsigned threads);
void bench_team_destroy(struct bench_team *team);

/* Runs work on all threads, the caller as index 0, and returns when all are done. One caller at a time. */
void bench_team_run(struct bench_team *team, bench_work work, void *argument);

unsigned bench_team_size(const struct bench_team *team);

#endif
