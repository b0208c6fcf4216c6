/* cpu_workers.c - runs kernels and large copies on all cores, with leat's worker threads. */
#include "driver/cpu/cpu.h"

#include "base/lock.h"
#include "base/options.h"
#include "base/workers.h"

#include <sched.h>

/* One call of cpu_workers_run(). Lives on the caller's stack. */
struct cpu_job {
    struct leati_loop loop;
    int side; /* the caller's side (cpu_managed.c), for which the workers work too */
};

static struct leati_lock lock = LEATI_LOCK_INITIALIZER; /* guards changes of workers */
static _Atomic(struct leati_workers *) workers;

static unsigned most_threads; /* threads of a job; written once, before any device is open */

leat_status cpu_workers_load(void)
{
    cpu_set_t cores;
    int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    uint64_t threads;

    LEATI_TRY(leati_option_number(LEATI_OPTION_CPU_THREADS, (uint64_t)count, &threads));
    most_threads = (unsigned)threads;
    return LEAT_OK;
}

unsigned cpu_workers_threads(void)
{
    return most_threads;
}

/* The workers also do other work, so they have the rights and the side of a device's thread only while they work
 * on its job. */
static void enter(struct leati_task *task)
{
    cpu_strict_allow();
    cpu_managed_take_side(((struct cpu_job *)task)->side);
}

static void leave(struct leati_task *task)
{
    (void)task;
    cpu_managed_take_side(CPU_HOST_SIDE);
    cpu_strict_forbid();
}

static const struct leati_task_type type = {
    .class = LEATI_WORK_DEVICE, .work = leati_loop_work, .look = leati_loop_look, .enter = enter, .leave = leave};

/* New threads inherit the protection key rights of the thread that starts them, so a device's thread gives up its
 * rights while it starts workers. */
static struct leati_workers *start_workers(void)
{
    struct leati_workers *now = atomic_load_explicit(&workers, memory_order_relaxed);
    bool allowed = cpu_strict_allowed();

    if (allowed)
        cpu_strict_forbid();
    /* Ignore errors: with fewer threads the caller does more of the work itself, and the next job tries again to
     * start threads. */
    if (now)
        (void)leati_workers_reserve(now, LEATI_WORK_DEVICE, most_threads - 1);
    else
        (void)leati_workers_get(-1, LEATI_WORK_DEVICE, most_threads - 1, &now);
    if (allowed)
        cpu_strict_allow();
    return now;
}

/* Returns the pool of workers, and creates it on first use; NULL if there is no memory. */
static struct leati_workers *get_workers(void)
{
    /* Acquire: pairs with the release below. */
    struct leati_workers *found = atomic_load_explicit(&workers, memory_order_acquire);

    if (found && leati_workers_threads(found, LEATI_WORK_DEVICE) == most_threads - 1)
        return found;
    leati_lock(&lock);
    found = start_workers();
    atomic_store_explicit(&workers, found, memory_order_release);
    leati_unlock(&lock);
    return found;
}

void cpu_workers_stop(void)
{
    struct leati_workers *ended = atomic_exchange_explicit(&workers, NULL, memory_order_acq_rel);

    if (ended)
        leati_workers_put(ended, LEATI_WORK_DEVICE);
}

void cpu_workers_run(void (*part)(void *context, uint64_t i), void *context, uint64_t count)
{
    struct cpu_job job = {.loop = {.part = part, .context = context, .count = count}, .side = cpu_managed_side()};
    struct leati_workers *helped = count < 2 || most_threads < 2 ? NULL : get_workers();

    if (helped) {
        leati_workers_loop(helped, &type, &job.loop, most_threads - 1);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        part(context, i);
}
