/* cpu_team.c - the threads that share kernels and large copies out among the cores. */
#include "driver/cpu/cpu.h"

#include "base/options.h"
#include "base/thread.h"

#include <sched.h>

/* A job lives on its caller's stack. */
struct job {
    void (*part)(void *context, uint64_t i);
    void *context;
    uint64_t count;
    atomic_uint_least64_t next; /* the next part nobody has taken; relaxed: the lock below orders the data */
    unsigned helpers;           /* team threads inside the job; under the lock */
    struct job *next_job;
    int side; /* the caller's, for which the helpers work too */
};

/* Guards all of the following, and each job's helpers. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_there = PTHREAD_COND_INITIALIZER;
static pthread_cond_t helper_left = PTHREAD_COND_INITIALIZER;
static struct job *jobs;
static pthread_t team[CPU_TEAM_MAX];
static unsigned started;
static bool stopping;

static unsigned team_threads; /* written once, before any device is open */

leat_status cpu_team_load(void)
{
    cpu_set_t cores;
    int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    uint64_t threads;

    LEATI_TRY(leati_option_number(LEATI_OPTION_CPU_THREADS, 1, CPU_TEAM_MAX, (uint64_t)count, &threads));
    team_threads = (unsigned)threads;
    return LEAT_OK;
}

unsigned cpu_team_threads(void)
{
    return team_threads;
}

static void work_on(struct job *job)
{
    uint64_t i;

    while ((i = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < job->count)
        job->part(job->context, i);
}

/* A job with parts that nobody has taken; moved to the end of the list, so that all jobs get helpers. Under the
 * lock. */
static struct job *choose_job(void)
{
    struct job **place = &jobs;

    while (*place) {
        struct job *job = *place;

        if (atomic_load_explicit(&job->next, memory_order_relaxed) < job->count) {
            *place = job->next_job;
            job->next_job = NULL;
            while (*place)
                place = &(*place)->next_job;
            *place = job;
            return job;
        }
        place = &job->next_job;
    }
    return NULL;
}

static void *team_thread(void *unused)
{
    struct job *job;

    (void)unused;
    cpu_strict_allow();
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!(job = choose_job()) && !stopping)
            pthread_cond_wait(&work_there, &lock);
        if (!job)
            break;
        job->helpers++;
        pthread_mutex_unlock(&lock);
        cpu_managed_take_side(job->side);
        work_on(job);
        cpu_managed_take_side(CPU_HOST_SIDE);
        pthread_mutex_lock(&lock);
        if (--job->helpers == 0)
            pthread_cond_broadcast(&helper_left);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Starts the team. Fewer threads than wanted are no fault: the caller does the rest. Under the lock. */
static void start_team(void)
{
    while (started + 1 < cpu_team_threads() && !leati_thread_start(&team[started], team_thread, NULL))
        started++;
}

void cpu_team_stop(void)
{
    unsigned count;

    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_cond_broadcast(&work_there);
    count = started;
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i < count; i++)
        pthread_join(team[i], NULL);
    pthread_mutex_lock(&lock);
    stopping = false;
    started = 0;
    pthread_mutex_unlock(&lock);
}

void cpu_team_run(void (*part)(void *context, uint64_t i), void *context, uint64_t count)
{
    struct job job = {.part = part, .context = context, .count = count, .side = cpu_managed_side()};
    struct job **place;

    atomic_init(&job.next, 0);
    if (count < 2 || cpu_team_threads() < 2) {
        work_on(&job);
        return;
    }
    pthread_mutex_lock(&lock);
    start_team();
    job.next_job = jobs;
    jobs = &job;
    pthread_cond_broadcast(&work_there);
    pthread_mutex_unlock(&lock);

    work_on(&job);

    /* Out of the list first, so that no helper comes in; then wait for those inside. The lock that they took when
     * they left makes what they wrote visible here. */
    pthread_mutex_lock(&lock);
    for (place = &jobs; *place != &job; place = &(*place)->next_job)
        ;
    *place = job.next_job;
    while (job.helpers)
        pthread_cond_wait(&helper_left, &lock);
    pthread_mutex_unlock(&lock);
}
