/*
 * cpu_gang.c - runs work whose parts wait for one another (cooperative launches), with one thread for each part.
 *
 * On the workers a part may start only after another one has ended, so parts that wait for each other would hang.
 * Here each part has its own thread, which is reserved when the work is submitted to its stream.
 */
#include "base/lock.h"
#include "base/thread.h"
#include "driver/cpu/cpu.h"

#include <string.h>

/* One call of cpu_gang_run(). Lives on the caller's stack. */
struct gang {
    void (*part)(void *context, unsigned i);
    void *context;
    unsigned next, count; /* parts from next on have not been started */
    unsigned running;     /* parts on other threads than the caller's */
    int side;             /* the caller's side (cpu_managed.c), for which the other threads work too */
    struct gang *next_gang;
};

/* Guards all variables below and the counts of each gang. Invariant: started >= reserved >= parts submitted or
 * running, so a submitted part always finds an idle thread. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static pthread_cond_t part_there = PTHREAD_COND_INITIALIZER;
static pthread_cond_t part_done = PTHREAD_COND_INITIALIZER;
static struct gang *gangs LEATI_GUARDED_BY(lock);
static unsigned started LEATI_GUARDED_BY(lock), reserved LEATI_GUARDED_BY(lock), ended LEATI_GUARDED_BY(lock);
static bool stopping LEATI_GUARDED_BY(lock);

static void *gang_thread(void *unused)
{
    (void)unused;
    cpu_strict_allow();
    leati_lock(&lock);
    for (;;) {
        struct gang *gang;
        unsigned part;

        while (!gangs && !stopping)
            leati_cond_wait(&part_there, &lock);
        gang = gangs;
        if (!gang)
            break;
        leati_assert(gang->next < gang->count);
        part = gang->next++;
        gang->running++;
        if (gang->next == gang->count)
            gangs = gang->next_gang;
        leati_unlock(&lock);
        cpu_managed_take_side(gang->side);
        gang->part(gang->context, part);
        cpu_managed_take_side(CPU_HOST_SIDE);
        leati_lock(&lock);
        leati_assert(gang->running);
        gang->running--;
        pthread_cond_broadcast(&part_done);
    }
    ended++;
    pthread_cond_broadcast(&part_done);
    leati_unlock(&lock);
    return NULL;
}

/* Starts one more thread. The thread is detached, because there may be thousands; cpu_gang_stop() waits until
 * ended equals started. */
static int start_thread(void)
{
    pthread_t thread;
    int failed = leati_thread_start(&thread, gang_thread, NULL);

    if (!failed)
        pthread_detach(thread);
    return failed;
}

leat_status cpu_gang_reserve(unsigned count)
{
    unsigned missing = 0, there;
    int failed = 0;

    if (count < 2)
        return LEAT_OK;
    leati_lock(&lock);
    leati_assert(started >= reserved);
    while (started < reserved + count - 1 && !(failed = start_thread()))
        started++;
    if (failed)
        missing = reserved + count - 1 - started;
    else
        reserved += count - 1;
    there = started;
    leati_unlock(&lock);
    return failed ? leati_fail(LEAT_ERROR_SYSTEM,
                               "pthread_create: %s: %u blocks that run together take a thread each; %u more than the %u that there are could not be started; launch fewer blocks",
                               strerror(failed), count, missing, there)
                  : LEAT_OK;
}

void cpu_gang_run(void (*part)(void *context, unsigned i), void *context, unsigned count)
{
    struct gang gang = {.part = part, .context = context, .next = 1, .count = count, .side = cpu_managed_side()};
    struct gang **end;

    if (count > 1) {
        leati_lock(&lock);
        for (end = &gangs; *end; end = &(*end)->next_gang)
            ;
        *end = &gang;
        pthread_cond_broadcast(&part_there);
        leati_unlock(&lock);
    }
    part(context, 0);
    if (count > 1) {
        leati_lock(&lock);
        while (gang.next < gang.count || gang.running)
            leati_cond_wait(&part_done, &lock);
        leati_assert(reserved >= count - 1);
        reserved -= count - 1;
        leati_unlock(&lock);
    }
}

void cpu_gang_stop(void)
{
    leati_lock(&lock);
    leati_assert(!gangs && !reserved);
    stopping = true;
    pthread_cond_broadcast(&part_there);
    while (ended < started)
        leati_cond_wait(&part_done, &lock);
    stopping = false;
    leati_assert(ended == started);
    started = ended = 0;
    leati_unlock(&lock);
}
