/*
 * bench_threads.c - keeps threads that wait for work, so that a sample does not include the start of threads.
 */
#include "bench_threads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct worker {
    struct bench_workers *workers;
    unsigned index;
    pthread_t thread;
};

struct bench_workers {
    pthread_mutex_t lock; /* guards all members below except size and members */
    pthread_cond_t begin; /* signalled when round or stop has changed */
    pthread_cond_t end;   /* signalled when busy has become 0 */
    unsigned long round;
    unsigned busy;
    bool stop;
    bench_work work;
    void *argument;

    unsigned size; /* number of threads, including the caller, whose index is 0 */
    struct worker *threads;
};

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct bench_workers *workers = worker->workers;
    unsigned long seen = 0;

    pthread_mutex_lock(&workers->lock);
    for (;;) {
        bench_work work;
        void *work_argument;

        while (workers->round == seen && !workers->stop)
            pthread_cond_wait(&workers->begin, &workers->lock);
        if (workers->stop)
            break;
        seen = workers->round;
        work = workers->work;
        work_argument = workers->argument;
        pthread_mutex_unlock(&workers->lock);

        work(work_argument, worker->index, workers->size);

        pthread_mutex_lock(&workers->lock);
        if (--workers->busy == 0)
            pthread_cond_signal(&workers->end);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

/* Ends the threads that were started and frees the workers. */
static void stop_workers(struct bench_workers *workers, unsigned started)
{
    unsigned i;

    pthread_mutex_lock(&workers->lock);
    workers->stop = true;
    pthread_cond_broadcast(&workers->begin);
    pthread_mutex_unlock(&workers->lock);
    for (i = 0; i < started; i++)
        pthread_join(workers->threads[i].thread, NULL);
    pthread_cond_destroy(&workers->end);
    pthread_cond_destroy(&workers->begin);
    pthread_mutex_destroy(&workers->lock);
    free(workers->threads);
    free(workers);
}

struct bench_workers *bench_workers_create(unsigned threads)
{
    struct bench_workers *workers = calloc(1, sizeof *workers);
    unsigned i;

    if (!workers)
        return NULL;
    workers->size = threads ? threads : 1;
    workers->threads = calloc(workers->size, sizeof *workers->threads);
    if (!workers->threads) {
        free(workers);
        return NULL;
    }
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->begin, NULL);
    pthread_cond_init(&workers->end, NULL);
    for (i = 0; i + 1 < workers->size; i++) {
        struct worker *worker = &workers->threads[i];

        worker->workers = workers;
        worker->index = i + 1;
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
            stop_workers(workers, i);
            return NULL;
        }
    }
    return workers;
}

void bench_workers_destroy(struct bench_workers *workers)
{
    if (workers)
        stop_workers(workers, workers->size - 1);
}

void bench_workers_run(struct bench_workers *workers, bench_work work, void *argument)
{
    pthread_mutex_lock(&workers->lock);
    workers->work = work;
    workers->argument = argument;
    workers->busy = workers->size - 1;
    workers->round++;
    pthread_cond_broadcast(&workers->begin);
    pthread_mutex_unlock(&workers->lock);

    work(argument, 0, workers->size);

    pthread_mutex_lock(&workers->lock);
    while (workers->busy)
        pthread_cond_wait(&workers->end, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
}

unsigned bench_workers_count(const struct bench_workers *workers)
{
    return workers->size;
}
