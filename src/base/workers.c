/* workers.c - see workers.h. */
#include "base/workers.h"
#include "base/lock.h"
#include "base/quick.h"

#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define POOLS_MAX 64
#define FEW_THREADS 4u /* waiting threads help until this many threads copy */
#define HELPED_MOST 64u /* tasks that leati_workers_nudge_and_help() works on before others get their turn */

/* AWAKE_NS: how long an idle thread that has copied stays awake, so that the next copy need not wake it, which
 * takes some 150 us in a virtual machine. AWAKE_IN_COPY_NS: how long an idle thread stays awake while a stream is
 * in the middle of a copy. LOOK_NS: how long a thread works on one task, or waits for it, before it looks at the
 * other tasks. */
#define AWAKE_NS 200000u
#define AWAKE_IN_COPY_NS 5000000u
#define LOOK_NS 20000u
#define TURNS_SEEN 4u

/* How long leati_workers_remove() spins for the last worker to leave before it sleeps. */
#define LEAVE_NS 200000u

/* A pool of threads. locked is a spin lock, because it is held for only some ten instructions at a time. */
struct leati_workers {
    unsigned users[LEATI_WORK_CLASSES]; /* number of gets without put; this and the next four: under pools_lock */
    int place;
    unsigned room;
    pthread_t *ids;
    atomic_uint threads; /* written under pools_lock */
    atomic_bool locked;  /* guards the next five fields, and the tasks; counts are also read without it */
    struct leati_task *first, **end;
    atomic_uint reserved[LEATI_WORK_CLASSES]; /* written under pools_lock too */
    atomic_uint busy[LEATI_WORK_CLASSES];     /* workers that work on tasks of a class; at most reserved */
    atomic_uint tasks[LEATI_WORK_CLASSES];    /* number of tasks in the list */
    atomic_uint news;                         /* incremented when a task is added */
    atomic_uint asleep;                       /* number of threads that wait for work_there */
    atomic_uint helpers;                      /* number of waiting threads of the program that help */
    atomic_bool polling;                      /* one thread polls waiting tasks, so that the others can sleep */
    atomic_bool ending;
    struct leati_lock sleep_lock; /* only for waiting on work_there; see rest() */
    pthread_cond_t work_there;
    /* The processor of the thread that woke others last, if it works on the task too, otherwise -1. Relaxed: a
     * hint for leave_waker(). */
    atomic_int waker;
    cpu_set_t processors; /* that the threads may use; constant */
    unsigned processor_count; /* 0: unknown */
};

static struct leati_lock pools_lock = LEATI_LOCK_INITIALIZER;
static struct leati_workers *pools[POOLS_MAX] LEATI_GUARDED_BY(pools_lock);

/* A thread waits on these until a task has no workers. They are not part of the pool, because the last worker may
 * signal after its task and the pool were freed. */
static struct leati_lock left_lock = LEATI_LOCK_INITIALIZER;
static pthread_cond_t left_there = PTHREAD_COND_INITIALIZER;

/* Number of STORAGE tasks in all pools. Relaxed: only says whether it is worth while to look for one. */
static atomic_uint storage_tasks;

/* ---- the list of tasks ---- */

static void lock(struct leati_workers *workers)
{
    while (atomic_exchange_explicit(&workers->locked, true, memory_order_acquire)) {
        /* Spin on loads: each exchange would take the cache line away from the holder. */
        for (unsigned looks = 1; atomic_load_explicit(&workers->locked, memory_order_relaxed); looks++) {
            if (looks % 100)
                leati_pause();
            else
                sched_yield(); /* the holder may have lost its processor */
        }
    }
}

static void unlock(struct leati_workers *workers)
{
    leati_assert(atomic_load_explicit(&workers->locked, memory_order_relaxed));
    atomic_store_explicit(&workers->locked, false, memory_order_release);
}

/* Call this and unlist() with the pool's spin lock held. */
static void list(struct leati_workers *workers, struct leati_task *task)
{
    leati_assert(atomic_load_explicit(&workers->locked, memory_order_relaxed) && !*workers->end);
    task->next = NULL;
    task->place = workers->end;
    *workers->end = task;
    workers->end = &task->next;
}

static void unlist(struct leati_workers *workers, struct leati_task *task)
{
    leati_assert(atomic_load_explicit(&workers->locked, memory_order_relaxed) && *task->place == task);
    leati_assert(!task->next || task->next->place == &task->next);
    *task->place = task->next;
    if (task->next)
        task->next->place = task->place;
    else
        workers->end = task->place;
}

static void forget(struct leati_workers *workers, struct leati_task *task)
{
    leati_assert(task->listed && atomic_load_explicit(&workers->tasks[task->type->class], memory_order_relaxed));
    unlist(workers, task);
    task->listed = false;
    atomic_fetch_sub_explicit(&workers->tasks[task->type->class], 1, memory_order_relaxed);
    if (task->type->class == LEATI_WORK_STORAGE)
        atomic_fetch_sub_explicit(&storage_tasks, 1, memory_order_relaxed);
}

LEATI_HOT unsigned leati_workers_threads(const struct leati_workers *workers, enum leati_work_class class)
{
    return atomic_load_explicit(&workers->reserved[class], memory_order_relaxed);
}

static bool has_room(const struct leati_workers *workers, const struct leati_task *task, bool helper)
{
    enum leati_work_class class = task->type->class;

    leati_assert(atomic_load_explicit(&workers->locked, memory_order_relaxed));
    return task->workers < task->share &&
           (helper || atomic_load_explicit(&workers->busy[class], memory_order_relaxed) <
                          leati_workers_threads(workers, class));
}

/* What find_task() saw in the list. */
struct seen {
    bool alone;   /* the task that find_task() returned is the only one, besides tasks that wait for their turn */
    bool lively;  /* is_lively() is true for some task: new parts may come very soon */
    bool waiting; /* some task has no part to do now, so it must be polled */
};

/* Some of the turns in which the first task has no part to do. With more of them, threads look in vain at tasks that
 * come later in the others. */
struct turns {
    const void *of[TURNS_SEEN];
    unsigned count;
};

static bool has_turn(const struct turns *turns, const void *turn)
{
    for (unsigned i = 0; turn && i < turns->count; i++)
        if (turns->of[i] == turn)
            return true;
    return false;
}

static void add_turn(struct turns *turns, const void *turn)
{
    if (turn && turns->count < TURNS_SEEN)
        turns->of[turns->count++] = turn;
}

/* Finds a task that has a part to do now, enters it and returns it; NULL if there is none. Removes tasks that have
 * no parts left from the list. helped: the class that a helper works on; ignored for workers. */
static struct leati_task *find_task(struct leati_workers *workers, bool helper, enum leati_work_class helped,
                                    struct seen *seen)
{
    struct leati_task *task, *next;
    struct turns turns = {.count = 0};

    *seen = (struct seen){.alone = false};
    lock(workers);
    for (task = workers->first; task; task = next) {
        enum leati_taken taken;

        leati_assert(task->listed && *task->place == task);
        next = task->next;
        if (has_turn(&turns, task->turn))
            continue;
        taken = task->type->look(task, helper);
        if (taken == LEATI_NOTHING_LEFT) {
            forget(workers, task);
            continue;
        }
        if (helper && task->type->class != helped)
            continue;
        seen->lively = seen->lively || (task->type->is_lively && task->type->is_lively(task));
        if (!has_room(workers, task, helper))
            continue;
        if (taken == LEATI_TAKEN)
            break;
        seen->waiting = seen->waiting || taken == LEATI_NOT_YET;
        if (!helper) /* a helper leaves parts to workers, and may find others behind them */
            add_turn(&turns, task->turn);
    }
    seen->alone = task && workers->first == task;
    /* A worker that found a task needs to know about the other tasks too; see run_worker(). */
    for (next = task && !helper ? task->next : NULL; next && (seen->alone || !seen->waiting); next = next->next) {
        if (task->turn && next->turn == task->turn)
            continue;
        seen->alone = false;
        seen->waiting = seen->waiting ||
                        (has_room(workers, next, false) && next->type->look(next, false) == LEATI_NOT_YET);
    }
    if (task) {
        leati_assert(!helper || task->type->class == helped);
        task->workers++;
        if (!helper)
            atomic_fetch_add_explicit(&workers->busy[task->type->class], 1, memory_order_relaxed);
        leati_assert(atomic_load_explicit(&workers->busy[task->type->class], memory_order_relaxed) <=
                     leati_workers_threads(workers, task->type->class));
        if (task->type->class == LEATI_WORK_DEVICE && task->next) {
            /* Round robin: move the task to the end, so that the next thread finds another one. */
            unlist(workers, task);
            list(workers, task);
        }
    }
    unlock(workers);
    return task;
}

/* Enters this task as a helper. Returns false if the task is not in the list any more. */
static bool enter_task(struct leati_workers *workers, struct leati_task *task)
{
    bool listed;

    lock(workers);
    listed = task->listed;
    task->workers += listed;
    unlock(workers);
    return listed;
}

/* Leaves a task. After this the caller must not use the task, because it may be freed; a helper must not use the
 * pool either. */
static void leave_task(struct leati_workers *workers, struct leati_task *task, bool helper)
{
    bool last;

    lock(workers);
    leati_assert(task->workers);
    leati_assert(helper || atomic_load_explicit(&workers->busy[task->type->class], memory_order_relaxed));
    if (!helper)
        atomic_fetch_sub_explicit(&workers->busy[task->type->class], 1, memory_order_relaxed);
    last = --task->workers == 0 && task->awaited;
    unlock(workers);
    if (!last)
        return;
    leati_lock(&left_lock);
    pthread_cond_broadcast(&left_there);
    leati_unlock(&left_lock);
}

/* ---- the threads ---- */

static bool copies_bytes(enum leati_work_class class)
{
    return class == LEATI_WORK_COPIES || class == LEATI_WORK_FILES || class == LEATI_WORK_STORAGE;
}

/* Returns true if more threads are awake than there are processors, among them threads that wait for a disk. A thread
 * that spins may then take a processor from one that copies. Relaxed loads, since an estimate is enough. */
static bool is_crowded(const struct leati_workers *workers)
{
    return workers->processor_count &&
           atomic_load_explicit(&workers->threads, memory_order_relaxed) >
               workers->processor_count + atomic_load_explicit(&workers->asleep, memory_order_relaxed);
}

/* Works on a task. If no part can be done now and there is no other task (alone), waits for a moment. */
static void serve(struct leati_workers *workers, struct leati_task *task, bool alone)
{
    unsigned news = atomic_load_explicit(&workers->news, memory_order_relaxed);
    uint64_t since = 0;

    for (;;) {
        switch (task->type->work(task)) {
        case LEATI_TAKEN:
            since = 0;
            continue;
        case LEATI_NOTHING_LEFT:
            return;
        case LEATI_NOT_YET:
        case LEATI_AWAITING:
            break;
        }
        if (task->type->prepare && task->type->prepare(task))
            continue;
        if (!alone || atomic_load_explicit(&workers->news, memory_order_relaxed) != news || is_crowded(workers))
            return;
        for (int i = 0; i < 16; i++)
            leati_pause();
        if (!since)
            since = leati_clock_ns();
        else if (leati_clock_ns() - since > LOOK_NS)
            return;
    }
}

static bool copies_on_one_thread(const struct leati_workers *workers)
{
    return atomic_load_explicit(&workers->reserved[LEATI_WORK_COPIES], memory_order_relaxed) == 1;
}

/* Moves this thread, which was woken, to another processor if it is on that of the thread that woke it and works
 * on the task too. Linux puts it there although other processors are idle, where a hypervisor counts a halted
 * processor as taken away; both would then share one for some milliseconds (seen on two virtual processors after
 * idle gaps of 20 ms). The processors that the thread may use stay the same. */
static void leave_waker(const struct leati_workers *workers)
{
    int here = sched_getcpu();
    cpu_set_t all, others;

    if (here < 0 || here >= CPU_SETSIZE || here != atomic_load_explicit(&workers->waker, memory_order_relaxed) ||
        sched_getaffinity(0, sizeof all, &all))
        return;
    others = all;
    CPU_CLR((size_t)here, &others);
    if (!CPU_COUNT(&others) || sched_setaffinity(0, sizeof others, &others))
        return;
    (void)sched_setaffinity(0, sizeof all, &all);
}

/* Waits for work: spins for a while if this thread has copied, if tasks wait, or if a copy is under way; then
 * sleeps. While tasks wait for their streams, one thread polls them, since a stream cannot wake a thread. */
static void rest(struct leati_workers *workers, unsigned news, uint64_t idle_ns, bool copied,
                 const struct seen *seen)
{
    uint64_t awake_ns = seen->lively                    ? AWAKE_IN_COPY_NS
                        : !copied && !seen->waiting     ? 0
                        : copies_on_one_thread(workers) ? AWAKE_NS / 10
                                                        : AWAKE_NS;
    struct timespec pause = {.tv_nsec = idle_ns < 2000000 ? 20000 : 100000};
    bool waits;

    if (idle_ns < awake_ns) {
        for (int i = 0; i < 20 && atomic_load_explicit(&workers->news, memory_order_relaxed) == news; i++)
            leati_pause();
        if (copies_on_one_thread(workers) || is_crowded(workers))
            sched_yield();
        return;
    }
    if (seen->waiting && !atomic_exchange_explicit(&workers->polling, true, memory_order_relaxed)) {
        nanosleep(&pause, NULL);
        atomic_store_explicit(&workers->polling, false, memory_order_relaxed);
        return;
    }
    leati_lock(&workers->sleep_lock);
    /* Sequentially consistent accesses, which prevent a lost wake-up: leati_workers_add() increments news, then
     * reads asleep; we increment asleep, then read news. So either leati_workers_add() sees us asleep, or we see
     * its news. No loop around the wait: a thread that wakes up looks for work anyway. */
    atomic_fetch_add(&workers->asleep, 1);
    waits = atomic_load(&workers->news) == news;
    if (waits)
        leati_cond_wait(&workers->work_there, &workers->sleep_lock);
    atomic_fetch_sub(&workers->asleep, 1);
    leati_unlock(&workers->sleep_lock);
    if (waits)
        leave_waker(workers);
}

/* Wakes up to count sleeping threads. Each thread costs the caller 2 to 5 us in a virtual machine, and starts to
 * work 30 to 70 us later (measured on an H200 machine). If must is false, wakes none while another thread holds
 * sleep_lock. joins: the caller works on the task too. */
static void wake_some(struct leati_workers *workers, unsigned count, bool must, bool joins)
{
    if (!count || !atomic_load(&workers->asleep))
        return;
    /* A caller that works on the task itself does not need the workers, so it does not wait for the lock. */
    if (must)
        leati_lock(&workers->sleep_lock);
    else if (!leati_trylock(&workers->sleep_lock))
        return;
    /* After this a thread that saw no news is in its wait. Signals come without the lock: a woken thread that then
     * had to wait for it would lose its turn to the caller, if both are on one processor. */
    leati_unlock(&workers->sleep_lock);
    atomic_store_explicit(&workers->waker, joins ? sched_getcpu() : -1, memory_order_relaxed);
    if (count == LEATI_WAKE_ALL)
        pthread_cond_broadcast(&workers->work_there);
    for (unsigned i = 0; i < count && count != LEATI_WAKE_ALL; i++)
        pthread_cond_signal(&workers->work_there);
}

/* Returns true if the tasks of task's class can use more threads than are awake. Assumes that each of them can use
 * as many threads as task. alone: the others wait for their turn. Relaxed loads, since an estimate is enough: a
 * thread that is woken for nothing goes to sleep again. */
static bool wants_more(const struct leati_workers *workers, const struct leati_task *task, bool alone)
{
    enum leati_work_class own_class = task->type->class;
    unsigned own = leati_workers_threads(workers, own_class);
    unsigned tasks = alone ? 1 : atomic_load_explicit(&workers->tasks[own_class], memory_order_relaxed);
    unsigned away = atomic_load_explicit(&workers->asleep, memory_order_relaxed), wanted, threads;

    if (!away || !copies_bytes(own_class))
        return false;
    for (unsigned class = 0; class < LEATI_WORK_CLASSES; class ++)
        if (class != own_class)
            away += atomic_load_explicit(&workers->busy[class], memory_order_relaxed);
    wanted = (tasks ? tasks : 1) * task->share;
    threads = atomic_load_explicit(&workers->threads, memory_order_relaxed);
    return (threads > away ? threads - away : 0) < (wanted < own ? wanted : own);
}

static void *run_worker(void *argument)
{
    struct leati_workers *workers = argument;
    uint64_t idle_since = 0;
    bool copied = false;

    leati_thread_take_short_slices();
    /* The thread does this itself, before it can sleep: leave_waker() reads the set and puts it back. */
    if (CPU_COUNT(&workers->processors))
        (void)sched_setaffinity(0, sizeof workers->processors, &workers->processors);
    for (;;) {
        /* Read news before looking for work. Then rest() does not sleep if a task is added, or the pool ends,
         * after this line. */
        unsigned news = atomic_load(&workers->news);
        struct leati_task *task;
        struct seen seen;

        if (atomic_load_explicit(&workers->ending, memory_order_acquire))
            return NULL;
        task = find_task(workers, false, LEATI_WORK_CLASSES, &seen);
        if (!task) {
            uint64_t now = leati_clock_ns();

            idle_since = idle_since ? idle_since : now;
            rest(workers, news, now - idle_since, copied, &seen);
            continue;
        }
        /* This thread may have polled the tasks that wait, and is busy now. So another one must poll them. */
        if (wants_more(workers, task, seen.alone) ||
            (seen.waiting && !atomic_load_explicit(&workers->polling, memory_order_relaxed)))
            wake_some(workers, 1, true, true);
        idle_since = 0;
        copied = copies_bytes(task->type->class);
        if (task->type->enter)
            task->type->enter(task);
        serve(workers, task, seen.alone);
        if (task->type->leave)
            task->type->leave(task);
        leave_task(workers, task, false);
    }
}

/* ---- adding and removing tasks ---- */

/* Adds a task. joins: the caller will work on it too. */
static void add(struct leati_workers *workers, struct leati_task *task, unsigned wakes, bool joins)
{
    leati_assert(task->share);
    leati_assert(task->type->work && task->type->look && task->type->class < LEATI_WORK_CLASSES);
    lock(workers);
    leati_assert(!task->listed && !task->workers);
    list(workers, task);
    task->listed = true;
    atomic_fetch_add_explicit(&workers->tasks[task->type->class], 1, memory_order_relaxed);
    if (task->type->class == LEATI_WORK_STORAGE)
        atomic_fetch_add_explicit(&storage_tasks, 1, memory_order_relaxed);
    unlock(workers);
    atomic_fetch_add(&workers->news, 1);
    wake_some(workers, wakes, !task->owned, joins);
}

void leati_workers_add(struct leati_workers *workers, struct leati_task *task, unsigned wakes)
{
    add(workers, task, wakes, task->owned);
}

static bool has_storage(const struct leati_workers *workers)
{
    return workers && leati_workers_threads(workers, LEATI_WORK_STORAGE);
}

/* Lets the pool's threads look at their tasks again. A thread reads news, looks at the tasks, and sleeps only
 * if news is still the same: rest(). */
static void nudge(struct leati_workers *workers)
{
    atomic_fetch_add(&workers->news, 1);
    wake_some(workers, 1, true, false);
}

void leati_workers_nudge(void)
{
    /* The lock keeps the pools. Whoever holds it while it joins a pool's threads has no tasks left there, so a
     * worker that calls from a task does not wait for itself. */
    leati_lock(&pools_lock);
    for (unsigned i = 0; i < POOLS_MAX; i++)
        if (has_storage(pools[i]))
            nudge(pools[i]);
    leati_unlock(&pools_lock);
}

/* Returns true if a worker, but not a helper, could do a part of some STORAGE task now. */
static bool needs_worker(struct leati_workers *workers)
{
    struct leati_task *task;

    lock(workers);
    task = workers->first;
    while (task && (task->type->class != LEATI_WORK_STORAGE || task->type->look(task, false) != LEATI_TAKEN ||
                    task->type->look(task, true) == LEATI_TAKEN))
        task = task->next;
    unlock(workers);
    return task;
}

bool leati_workers_has_part(struct leati_workers *workers, const struct leati_task *task)
{
    bool has;

    lock(workers);
    has = task->listed && task->type->look(task, false) == LEATI_TAKEN;
    unlock(workers);
    return has;
}

/* Enters a STORAGE task that a helper can work on, which keeps its pool until it is left. Returns NULL if there
 * is none. */
static struct leati_task *enter_storage(struct leati_workers **workers)
{
    struct leati_task *task = NULL;
    struct seen seen;

    leati_lock(&pools_lock);
    for (unsigned i = 0; i < POOLS_MAX && !task; i++)
        if (has_storage(pools[i]))
            task = find_task(*workers = pools[i], true, LEATI_WORK_STORAGE, &seen);
    leati_unlock(&pools_lock);
    return task;
}

void leati_workers_nudge_and_help(void)
{
    struct leati_workers *workers;
    struct leati_task *task = NULL;

    leati_lock(&pools_lock);
    for (unsigned i = 0; i < POOLS_MAX; i++)
        if (has_storage(pools[i]) && needs_worker(pools[i]))
            nudge(pools[i]);
    leati_unlock(&pools_lock);
    for (unsigned i = 0; i < HELPED_MOST; i++) {
        task = enter_storage(&workers);
        if (!task || !leati_workers_work(workers, task))
            break;
    }
    /* The workers do what is left, also for a task that says that it has a part and then has none. */
    if (task)
        leati_workers_nudge();
}

/* Enters the STORAGE task that waits for this flag, if a helper can do a part of it now. */
static struct leati_task *enter_by_flag(const void *flag, struct leati_workers **workers)
{
    struct leati_task *task = NULL;

    leati_lock(&pools_lock);
    for (unsigned i = 0; i < POOLS_MAX && !task; i++) {
        if (!has_storage(pools[i]))
            continue;
        *workers = pools[i];
        lock(*workers);
        task = (*workers)->first;
        while (task && (task->type->class != LEATI_WORK_STORAGE || task->flag != flag ||
                        !has_room(*workers, task, true) || task->type->look(task, true) != LEATI_TAKEN))
            task = task->next;
        if (task)
            task->workers++;
        unlock(*workers);
    }
    leati_unlock(&pools_lock);
    return task;
}

void leati_workers_help_flag(const void *flag)
{
    struct leati_workers *workers;
    struct leati_task *task;

    if (!atomic_load_explicit(&storage_tasks, memory_order_relaxed))
        return;
    /* Look again after each part: workers that a nudge woke meanwhile saw a thread at the task, and slept. */
    while ((task = enter_by_flag(flag, &workers))) {
        if (leati_workers_work(workers, task))
            continue;
        leati_workers_nudge();
        return;
    }
}

static unsigned workers_of(struct leati_workers *workers, struct leati_task *task, bool awaited)
{
    unsigned count;

    lock(workers);
    task->awaited = awaited;
    count = task->workers;
    unlock(workers);
    return count;
}

void leati_workers_remove(struct leati_workers *workers, struct leati_task *task)
{
    lock(workers);
    if (task->listed)
        forget(workers, task);
    unlock(workers);
    /* The workers are leaving, or do a last part. Spin first: most parts take less time than to sleep and be
     * woken. */
    for (uint64_t until = leati_clock_ns() + LEAVE_NS;;) {
        if (!workers_of(workers, task, false))
            return;
        for (int i = 0; i < 50; i++)
            leati_pause();
        if (leati_clock_ns() >= until)
            break;
        sched_yield();
    }
    leati_lock(&left_lock);
    while (workers_of(workers, task, true))
        leati_cond_wait(&left_there, &left_lock);
    leati_unlock(&left_lock);
}

static void work_until_idle(struct leati_task *task)
{
    while (task->type->work(task) == LEATI_TAKEN)
        continue;
}

void leati_workers_join(struct leati_workers *workers, struct leati_task *task)
{
    if (!enter_task(workers, task))
        return;
    work_until_idle(task);
    leave_task(workers, task, true);
}

/* ---- loops ---- */

enum leati_taken leati_loop_work(struct leati_task *task)
{
    struct leati_loop *loop = (struct leati_loop *)task;
    uint64_t i = atomic_fetch_add_explicit(&loop->next, 1, memory_order_relaxed);

    if (i >= loop->count)
        return LEATI_NOTHING_LEFT;
    loop->part(loop->context, i);
    return LEATI_TAKEN;
}

enum leati_taken leati_loop_look(const struct leati_task *task, bool helper)
{
    const struct leati_loop *loop = (const struct leati_loop *)task;

    (void)helper;
    return atomic_load_explicit(&loop->next, memory_order_relaxed) < loop->count ? LEATI_TAKEN
                                                                                 : LEATI_NOTHING_LEFT;
}

void leati_workers_loop(struct leati_workers *workers, const struct leati_task_type *type, struct leati_loop *loop,
                        unsigned workers_most)
{
    leati_assert(type->work == leati_loop_work);
    leati_assert(!workers_most || workers);
    loop->task = (struct leati_task){.type = type, .share = workers_most};
    atomic_init(&loop->next, 0);
    if (workers_most)
        add(workers, &loop->task, LEATI_WAKE_ALL, true);
    work_until_idle(&loop->task);
    leati_assert(atomic_load_explicit(&loop->next, memory_order_relaxed) >= loop->count);
    /* leave_task() of the workers and leati_workers_remove() take the pool's lock, which makes the writes of all
     * parts visible here. */
    if (workers_most)
        leati_workers_remove(workers, &loop->task);
}

/* ---- help while waiting ---- */

bool leati_workers_are_few(const struct leati_workers *workers)
{
    return leati_workers_threads(workers, LEATI_WORK_COPIES) < FEW_THREADS;
}

LEATI_HOT bool leati_workers_have_copies(const struct leati_workers *workers)
{
    return atomic_load_explicit(&workers->tasks[LEATI_WORK_COPIES], memory_order_relaxed);
}

LEATI_HOT unsigned leati_workers_awake(const struct leati_workers *workers)
{
    unsigned threads = atomic_load_explicit(&workers->threads, memory_order_relaxed);
    unsigned asleep = atomic_load_explicit(&workers->asleep, memory_order_relaxed);
    unsigned own = leati_workers_threads(workers, LEATI_WORK_COPIES);
    unsigned awake = threads > asleep ? threads - asleep : 0;

    return awake < own ? awake : own;
}

/* Returns how many threads of the program may help the workers that are awake. This is an estimate, because
 * workers may be going to sleep right now. */
LEATI_HOT static unsigned most_helpers(const struct leati_workers *workers)
{
    unsigned awake = leati_workers_awake(workers);

    return awake < FEW_THREADS ? FEW_THREADS - awake : 0;
}

LEATI_HOT bool leati_workers_want_help(const struct leati_workers *workers)
{
    return leati_workers_have_copies(workers) && most_helpers(workers);
}

bool leati_workers_help_begins(struct leati_workers *workers)
{
    unsigned most = most_helpers(workers);
    unsigned helpers = atomic_load_explicit(&workers->helpers, memory_order_relaxed);

    /* Relaxed: helpers is only a counter. */
    while (helpers < most && !atomic_compare_exchange_weak_explicit(&workers->helpers, &helpers, helpers + 1,
                                                                    memory_order_relaxed, memory_order_relaxed))
        continue;
    return helpers < most;
}

void leati_workers_help_ends(struct leati_workers *workers)
{
    leati_assert(atomic_load_explicit(&workers->helpers, memory_order_relaxed));
    atomic_fetch_sub_explicit(&workers->helpers, 1, memory_order_relaxed);
}

bool leati_workers_work(struct leati_workers *workers, struct leati_task *task)
{
    uint64_t until = leati_clock_ns() + LOOK_NS;
    bool worked = false;

    leati_assert(task->type->class == LEATI_WORK_COPIES || task->type->class == LEATI_WORK_STORAGE);
    while (task->type->work(task) == LEATI_TAKEN) {
        worked = true;
        if (leati_clock_ns() >= until)
            break;
    }
    leave_task(workers, task, true);
    return worked;
}

bool leati_workers_help(struct leati_workers *workers)
{
    struct leati_task *task;
    struct seen seen;

    if (!leati_workers_have_copies(workers))
        return false;
    task = find_task(workers, true, LEATI_WORK_COPIES, &seen);
    return task && leati_workers_work(workers, task);
}

bool leati_workers_enter(struct leati_workers *workers, struct leati_task *task)
{
    leati_assert(task->type->class == LEATI_WORK_COPIES);
    return most_helpers(workers) && enter_task(workers, task);
}

/* ---- the pool itself ---- */

/* Sets *set to the processors of a node that this thread may use; if the node is unknown, to all processors that
 * the thread may use. */
static void node_processors(int node, cpu_set_t *set)
{
    char path[64], text[4096];
    cpu_set_t of_node, both;
    FILE *file;

    if (sched_getaffinity(0, sizeof *set, set))
        CPU_ZERO(set);
    if (node < 0)
        return;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    file = fopen(path, "re");
    if (!file)
        return;
    CPU_ZERO(&of_node);
    if (fgets(text, sizeof text, file)) {
        for (char *at = text; *at >= '0' && *at <= '9';) {
            unsigned long low = strtoul(at, &at, 10), high = *at == '-' ? strtoul(at + 1, &at, 10) : low;

            for (unsigned long cpu = low; cpu <= high && cpu < CPU_SETSIZE; cpu++)
                CPU_SET(cpu, &of_node);
            at += *at == ',';
        }
    }
    fclose(file);
    CPU_AND(&both, set, &of_node);
    if (CPU_COUNT(&both))
        *set = both;
}

unsigned leati_workers_processors(int node)
{
    cpu_set_t set;

    node_processors(node, &set);
    return (unsigned)CPU_COUNT(&set);
}

/* Returns the index of a node's pool in pools. Index 0 is the pool of all processors; a node that has all of them
 * uses it too. */
static int place_of(int node)
{
    return node >= 0 && node < POOLS_MAX - 1 && leati_workers_processors(node) < leati_workers_processors(-1)
               ? node + 1
               : 0;
}

static unsigned threads_of(const struct leati_workers *workers)
{
    return atomic_load_explicit(&workers->threads, memory_order_relaxed);
}

/* Starts threads until the pool has wanted threads. Returns 0 or an error number. Call under pools_lock. */
static int start_threads(struct leati_workers *workers, unsigned wanted)
{
    leati_assert_locked(&pools_lock);
    leati_assert(threads_of(workers) <= workers->room);
    if (wanted > workers->room) {
        pthread_t *ids = realloc(workers->ids, wanted * sizeof *ids);

        if (!ids)
            return ENOMEM;
        workers->ids = ids;
        workers->room = wanted;
    }
    for (unsigned i = threads_of(workers); i < wanted; i++) {
        pthread_t *id = &workers->ids[i];
        int error = leati_thread_start(id, run_worker, workers);

        if (error)
            return error;
        atomic_store_explicit(&workers->threads, i + 1, memory_order_relaxed);
        (void)pthread_setname_np(*id, "leat worker");
    }
    return 0;
}

/* Raises the number of threads reserved for a class. Call under pools_lock. */
static int reserve(struct leati_workers *workers, enum leati_work_class class, unsigned threads)
{
    unsigned others = 0, now = leati_workers_threads(workers, class);
    int error;

    leati_assert_locked(&pools_lock);
    leati_assert(class < LEATI_WORK_CLASSES && workers->users[class]);
    for (unsigned other = 0; other < LEATI_WORK_CLASSES; other++)
        if (other != class)
            others += leati_workers_threads(workers, other);
    if (threads <= now)
        return 0;
    error = start_threads(workers, others + threads);
    if (error)
        threads = threads_of(workers) > others + now ? threads_of(workers) - others : now;
    leati_assert(threads >= now && threads_of(workers) >= others + threads);
    lock(workers);
    atomic_store_explicit(&workers->reserved[class], threads, memory_order_relaxed);
    unlock(workers);
    return error;
}

static struct leati_workers *make_pool(int place)
{
    struct leati_workers *workers = calloc(1, sizeof *workers);

    if (!workers)
        return NULL;
    workers->place = place;
    node_processors(place - 1, &workers->processors);
    workers->processor_count = (unsigned)CPU_COUNT(&workers->processors);
    workers->end = &workers->first;
    leati_lock_init(&workers->sleep_lock);
    pthread_cond_init(&workers->work_there, NULL);
    atomic_init(&workers->waker, -1);
    return workers;
}

static void end_pool(struct leati_workers *workers)
{
    leati_assert(!workers->first);
    leati_assert(!leati_workers_threads(workers, LEATI_WORK_COPIES) &&
                 !leati_workers_threads(workers, LEATI_WORK_DEVICE));
    atomic_store_explicit(&workers->ending, true, memory_order_release);
    atomic_fetch_add(&workers->news, 1);
    leati_lock(&workers->sleep_lock);
    pthread_cond_broadcast(&workers->work_there);
    leati_unlock(&workers->sleep_lock);
    for (unsigned i = 0; i < threads_of(workers); i++)
        pthread_join(workers->ids[i], NULL);
    leati_assert(!atomic_load(&workers->asleep));
    pthread_cond_destroy(&workers->work_there);
    leati_lock_destroy(&workers->sleep_lock);
    free(workers->ids);
    free(workers);
}

int leati_workers_get(int node, enum leati_work_class class, unsigned threads, struct leati_workers **workers)
{
    struct leati_workers **place = &pools[place_of(node)];
    int error = ENOMEM;

    leati_assert(class < LEATI_WORK_CLASSES);
    leati_lock(&pools_lock);
    if (!*place)
        *place = make_pool((int)(place - pools));
    *workers = *place;
    if (*place) {
        (*place)->users[class]++;
        error = reserve(*place, class, threads);
    }
    leati_unlock(&pools_lock);
    return error;
}

int leati_workers_reserve(struct leati_workers *workers, enum leati_work_class class, unsigned threads)
{
    int error;

    leati_lock(&pools_lock);
    leati_assert(workers->users[class]);
    error = reserve(workers, class, threads);
    leati_unlock(&pools_lock);
    return error;
}

void leati_workers_put(struct leati_workers *workers, enum leati_work_class class)
{
    unsigned users = 0;

    leati_lock(&pools_lock);
    leati_assert(pools[workers->place] == workers);
    leati_assert(workers->users[class]);
    if (--workers->users[class] == 0) {
        leati_assert(!atomic_load_explicit(&workers->tasks[class], memory_order_relaxed));
        lock(workers);
        atomic_store_explicit(&workers->reserved[class], 0, memory_order_relaxed);
        unlock(workers);
    }
    for (unsigned i = 0; i < LEATI_WORK_CLASSES; i++)
        users += workers->users[i];
    if (!users) {
        pools[workers->place] = NULL;
        end_pool(workers);
    }
    leati_unlock(&pools_lock);
}
