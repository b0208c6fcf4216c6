/*
 * bench_threads.c - a team of threads that waits for work, so that what is timed is the work and not the making of
 * threads.
 */
#include "bench_threads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct member {
    struct bench_team *team;
    unsigned index;
    pthread_t thread;
};

struct bench_team {
    pthread_mutex_t lock; /* guards everything below but size and members */
    pthread_cond_t begin; /* round or stop changed */
    pthread_cond_t end;   /* busy became 0 */
    unsigned long round;
    unsigned busy;
    bool stop;
    bench_work work;
    void *argument;

    unsigned size; /* with the caller, who is index 0 */
    struct member *members;
};

static void *member_main(void *argument)
{
    struct member *member = argument;
    struct bench_team *team = member->team;
    unsigned long seen = 0;

    pthread_mutex_lock(&team->lock);
    for (;;) {
        bench_work work;
        void *work_argument;

        while (team->round == seen && !team->stop)
            pthread_cond_wait(&team->begin, &team->lock);
        if (team->stop)
            break;
        seen = team->round;
        work = team->work;
        work_argument = team->argument;
        pthread_mutex_unlock(&team->lock);

        work(work_argument, member->index, team->size);

        pthread_mutex_lock(&team->lock);
        if (--team->busy == 0)
            pthread_cond_signal(&team->end);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

/* Ends the first started members and frees the team. */
static void stop_team(struct bench_team *team, unsigned started)
{
    unsigned i;

    pthread_mutex_lock(&team->lock);
    team->stop = true;
    pthread_cond_broadcast(&team->begin);
    pthread_mutex_unlock(&team->lock);
    for (i = 0; i < started; i++)
        pthread_join(team->members[i].thread, NULL);
    pthread_cond_destroy(&team->end);
    pthread_cond_destroy(&team->begin);
    pthread_mutex_destroy(&team->lock);
    free(team->members);
    free(team);
}

struct bench_team *bench_team_create(unsigned threads)
{
    struct bench_team *team = calloc(1, sizeof *team);
    unsigned i;

    if (!team)
        return NULL;
    team->size = threads ? threads : 1;
    team->members = calloc(team->size, sizeof *team->members);
    if (!team->members) {
        free(team);
        return NULL;
    }
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->begin, NULL);
    pthread_cond_init(&team->end, NULL);
    for (i = 0; i + 1 < team->size; i++) {
        struct member *member = &team->members[i];

        member->team = team;
        member->index = i + 1;
        if (pthread_create(&member->thread, NULL, member_main, member) != 0) {
            stop_team(team, i);
            return NULL;
        }
    }
    return team;
}

void bench_team_destroy(struct bench_team *team)
{
    if (team)
        stop_team(team, team->size - 1);
}

void bench_team_run(struct bench_team *team, bench_work work, void *argument)
{
    pthread_mutex_lock(&team->lock);
    team->work = work;
    team->argument = argument;
    team->busy = team->size - 1;
    team->round++;
    pthread_cond_broadcast(&team->begin);
    pthread_mutex_unlock(&team->lock);

    work(argument, 0, team->size);

    pthread_mutex_lock(&team->lock);
    while (team->busy)
        pthread_cond_wait(&team->end, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

unsigned bench_team_size(const struct bench_team *team)
{
    return team->size;
}
