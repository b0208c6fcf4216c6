/*
 * unit_workers.c - tests the pool of worker threads: it runs each part once, no class uses more threads than it
 * has reserved, no class waits for another one, and no thread is left at the end.
 */
#include "base/workers.h"

#include "base/clock.h"
#include "base/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATIENCE_NS ((uint64_t)60 * 1000000000)
#define MOMENT_US 20000

#define COPIES LEATI_WORK_COPIES
#define FILES LEATI_WORK_FILES
#define STORAGE LEATI_WORK_STORAGE
#define DEVICE LEATI_WORK_DEVICE
#define PAGES LEATI_WORK_PAGES

static bool wait_for(atomic_int *value, int wanted)
{
    uint64_t end_ns = leati_clock_ns() + PATIENCE_NS;

    while (atomic_load(value) < wanted && leati_clock_ns() < end_ns)
        sched_yield();
    return atomic_load(value) >= wanted;
}

static struct leati_workers *get(enum leati_work_class class, unsigned threads)
{
    struct leati_workers *workers;

    assert_int_equal(leati_workers_get(-1, class, threads, &workers), 0);
    return workers;
}

/* Writes the system's ids of this process's threads that are named "leat worker" to ids, most of them at most.
 * Returns how many there are. */
static int find_threads(pid_t *ids, int most)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int count = 0;

    assert_non_null(tasks);
    while ((entry = readdir(tasks))) {
        char path[300], name[32] = "";
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "re");
        if (!file)
            continue;
        if (fgets(name, sizeof name, file) && !strcmp(name, "leat worker\n")) {
            if (count < most)
                ids[count] = atoi(entry->d_name);
            count++;
        }
        fclose(file);
    }
    closedir(tasks);
    return count;
}

static int count_threads(void)
{
    return find_threads(NULL, 0);
}

/* ---- a task whose parts wait until the test opens it ---- */

struct held {
    struct leati_task task;
    atomic_int left;     /* number of parts that no thread has started yet */
    atomic_bool not_yet; /* true: the task cannot start yet, like a copy that its stream has not reached */
    atomic_int inside;   /* number of threads inside a part */
    atomic_int most;     /* largest value of inside so far */
    atomic_int open, done, entered, ended;
    bool no_helpers;
    bool nudged;         /* leati_workers_nudge() is called when not_yet becomes false */
    bool changes;        /* with nudged: this happens while a thread looks, which does not see it */
    atomic_int looks;    /* number of calls of look() */
    atomic_int turn;     /* number of parts that were done before its last one, of all tasks */
};

static atomic_int turns;

static enum leati_taken look(const struct leati_task *task, bool helper)
{
    struct held *held = (struct held *)task;

    atomic_fetch_add(&held->looks, 1);
    if (atomic_load(&held->left) <= 0)
        return LEATI_NOTHING_LEFT;
    if (atomic_load(&held->not_yet) && held->nudged) {
        if (held->changes) {
            atomic_store(&held->not_yet, false);
            leati_workers_nudge();
        }
        return LEATI_AWAITING;
    }
    return atomic_load(&held->not_yet) || (helper && held->no_helpers) ? LEATI_NOT_YET : LEATI_TAKEN;
}

static enum leati_taken work(struct leati_task *task)
{
    struct held *held = (struct held *)task;
    int inside;

    if (atomic_load(&held->not_yet))
        return LEATI_NOT_YET;
    if (atomic_fetch_sub(&held->left, 1) <= 0)
        return LEATI_NOTHING_LEFT;
    inside = atomic_fetch_add(&held->inside, 1) + 1;
    for (int most = atomic_load(&held->most); inside > most;)
        (void)atomic_compare_exchange_weak(&held->most, &most, inside);
    (void)wait_for(&held->open, 1);
    atomic_store(&held->turn, atomic_fetch_add(&turns, 1));
    atomic_fetch_sub(&held->inside, 1);
    atomic_fetch_add(&held->done, 1);
    return LEATI_TAKEN;
}

static void enter(struct leati_task *task)
{
    atomic_fetch_add(&((struct held *)task)->entered, 1);
}

static void leave(struct leati_task *task)
{
    atomic_fetch_add(&((struct held *)task)->ended, 1);
}

static const struct leati_task_type types[] = {
    {.class = LEATI_WORK_COPIES, .work = work, .look = look, .enter = enter, .leave = leave},
    {.class = LEATI_WORK_FILES, .work = work, .look = look, .enter = enter, .leave = leave},
    {.class = LEATI_WORK_STORAGE, .work = work, .look = look, .enter = enter, .leave = leave},
    {.class = LEATI_WORK_DEVICE, .work = work, .look = look, .enter = enter, .leave = leave},
    {.class = LEATI_WORK_PAGES, .work = work, .look = look},
};

static void add(struct leati_workers *workers, struct held *held, int class, unsigned share, int parts)
{
    memset(held, 0, sizeof *held);
    held->task = (struct leati_task){.type = &types[class], .share = share};
    atomic_store(&held->left, parts);
    leati_workers_add(workers, &held->task, class == COPIES || class == FILES ? 1 : LEATI_WAKE_ALL);
}

static void open_and_remove(struct leati_workers *workers, struct held *held, int parts)
{
    uint64_t end_ns = leati_clock_ns() + PATIENCE_NS;

    atomic_store(&held->open, 1);
    while (atomic_load(&held->left) > 0 && leati_clock_ns() < end_ns)
        sched_yield();
    leati_workers_remove(workers, &held->task);
    assert_int_equal(atomic_load(&held->done), parts);
    assert_int_equal(atomic_load(&held->inside), 0);
    assert_int_equal(atomic_load(&held->entered), atomic_load(&held->ended));
}

/* ---- tests ---- */

enum { LOOP_PARTS = 20000 };
static atomic_int counts[LOOP_PARTS];
static atomic_int wrong_rights;
static _Thread_local bool allowed;

static void count_part(void *context, uint64_t i)
{
    (void)context;
    if (!allowed)
        atomic_fetch_add(&wrong_rights, 1);
    atomic_fetch_add(&counts[i], 1);
}

static void allow(struct leati_task *task)
{
    (void)task;
    allowed = true;
}

static void forbid(struct leati_task *task)
{
    (void)task;
    allowed = false;
}

static const struct leati_task_type loop_type = {
    .class = LEATI_WORK_DEVICE, .work = leati_loop_work, .look = leati_loop_look, .enter = allow, .leave = forbid};

static void *run_loops(void *argument)
{
    struct leati_workers *workers = argument;

    allowed = true; /* allow() does not run in the calling thread, which always has the rights */
    for (int i = 0; i < 20; i++) {
        struct leati_loop loop = {.part = count_part, .count = LOOP_PARTS};

        leati_workers_loop(workers, &loop_type, &loop, 3);
    }
    allowed = false;
    return NULL;
}

/* Several threads run loops at the same time. Each part must run once for each loop. Workers must have the rights
 * of this class only while they run its parts. */
static void loops_do_every_part_once(void **state)
{
    struct leati_workers *workers = get(DEVICE, 3);
    pthread_t callers[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, run_loops, workers), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(callers[i], NULL);
    for (int i = 0; i < LOOP_PARTS; i++)
        assert_int_equal(atomic_load(&counts[i]), 60);
    assert_int_equal(atomic_load(&wrong_rights), 0);
    leati_workers_put(workers, DEVICE);
}

static cpu_set_t wanted_processors;
static atomic_int other_processors; /* number of parts that ran on a thread with another set of processors */

static void compare_processors(void *context, uint64_t i)
{
    cpu_set_t own;

    (void)context;
    (void)i;
    if (sched_getaffinity(0, sizeof own, &own) || !CPU_EQUAL(&own, &wanted_processors))
        atomic_fetch_add(&other_processors, 1);
}

/* A thread that wakes up may move away from the processor of the thread that woke it. Afterwards it must be allowed
 * the same processors as before. */
static void woken_threads_keep_their_processors(void **state)
{
    struct leati_workers *workers = get(DEVICE, 3);

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof wanted_processors, &wanted_processors), 0);
    for (int i = 0; i < 100; i++) {
        struct leati_loop loop = {.part = compare_processors, .count = 200};

        usleep(1000); /* so that the threads sleep */
        leati_workers_loop(workers, &loop_type, &loop, 3);
    }
    assert_int_equal(atomic_load(&other_processors), 0);
    leati_workers_put(workers, DEVICE);
}

/* All threads of one class are busy. The other classes must still have their threads. */
static void no_class_waits_for_another(void **state)
{
    (void)state;
    for (int stuck = COPIES; stuck <= PAGES; stuck++) {
        struct leati_workers *workers = get(COPIES, 2);
        struct held first, second;

        assert_ptr_equal(get(FILES, 4), workers);
        assert_ptr_equal(get(STORAGE, 2), workers);
        assert_ptr_equal(get(DEVICE, 3), workers);
        assert_ptr_equal(get(PAGES, 1), workers);
        add(workers, &first, stuck, 100, 50);
        assert_true(wait_for(&first.inside, (int)leati_workers_threads(workers, (enum leati_work_class)stuck)));
        for (int class = COPIES; class <= PAGES; class ++) {
            if (class == stuck)
                continue;
            add(workers, &second, class, 1, 10);
            open_and_remove(workers, &second, 10);
            assert_int_equal(atomic_load(&second.most), 1);
        }
        usleep(MOMENT_US);
        /* Threads of other classes must not have joined the task. */
        assert_int_equal(atomic_load(&first.most), leati_workers_threads(workers, (enum leati_work_class)stuck));
        open_and_remove(workers, &first, 50);
        for (int class = COPIES; class <= PAGES; class ++)
            leati_workers_put(workers, (enum leati_work_class) class);
        assert_int_equal(count_threads(), 0);
    }
}

/* Two tasks of one class. Neither may get more threads than its share, and the second task gets the threads that
 * the first one leaves. */
static void shares_leave_threads_to_others(void **state)
{
    struct leati_workers *workers = get(COPIES, 5);
    struct held first, second;

    (void)state;
    add(workers, &first, COPIES, 3, 20);
    assert_true(wait_for(&first.inside, 3));
    add(workers, &second, COPIES, 5, 20);
    assert_true(wait_for(&second.inside, 2));
    usleep(MOMENT_US);
    assert_int_equal(atomic_load(&first.most), 3);
    assert_int_equal(atomic_load(&second.most), 2);
    open_and_remove(workers, &second, 20);
    open_and_remove(workers, &first, 20);
    leati_workers_put(workers, COPIES);
}

/* Workers get no signal when a task can continue, so they must poll it. Meanwhile they must run other tasks. */
static void tasks_that_wait_are_looked_at(void **state)
{
    struct leati_workers *workers = get(COPIES, 1);
    struct held waiting, other;

    (void)state;
    memset(&waiting, 0, sizeof waiting);
    waiting.task = (struct leati_task){.type = &types[COPIES], .share = 1};
    atomic_store(&waiting.left, 3);
    atomic_store(&waiting.not_yet, true);
    atomic_store(&waiting.open, 1);
    leati_workers_add(workers, &waiting.task, 1);
    usleep(MOMENT_US);
    add(workers, &other, COPIES, 1, 3);
    open_and_remove(workers, &other, 3);
    usleep(MOMENT_US);
    atomic_store(&waiting.not_yet, false);
    assert_true(wait_for(&waiting.done, 3));
    leati_workers_remove(workers, &waiting.task);
    leati_workers_put(workers, COPIES);
}

/* A thread that works on a task stays there when one that came first can go on. That may be a copy to another device, and
 * both links are busy only if threads work on both copies. */
static void a_copy_is_not_left_between_its_parts(void **state)
{
    struct leati_workers *workers = get(COPIES, 1);

    (void)state;
    assert_ptr_equal(get(FILES, 1), workers);
    for (int class = COPIES; class <= FILES; class ++) {
        struct held waiting, other;
        int before = atomic_load(&turns);

        memset(&waiting, 0, sizeof waiting);
        waiting.task = (struct leati_task){.type = &types[class], .share = 1};
        atomic_store(&waiting.left, 1);
        atomic_store(&waiting.not_yet, true);
        atomic_store(&waiting.open, 1);
        leati_workers_add(workers, &waiting.task, 1);
        add(workers, &other, class, 1, 3);
        assert_true(wait_for(&other.inside, 1));
        usleep(MOMENT_US); /* so that its part takes some time */
        atomic_store(&waiting.not_yet, false);
        open_and_remove(workers, &other, 3);
        assert_true(wait_for(&waiting.done, 1));
        leati_workers_remove(workers, &waiting.task);
        assert_int_equal(atomic_load(&other.turn), before + 2);
        assert_int_equal(atomic_load(&waiting.turn), before + 3);
    }
    leati_workers_put(workers, FILES);
    leati_workers_put(workers, COPIES);
}

/* Of tasks with the same turn, threads look only at the first that has no part to do. */
static void tasks_wait_for_their_turn(void **state)
{
    enum { TASKS = 3 };
    struct leati_workers *workers = get(COPIES, 2);
    struct held tasks[TASKS], other;

    (void)state;
    for (int i = 0; i < TASKS; i++) {
        memset(&tasks[i], 0, sizeof tasks[i]);
        tasks[i].task = (struct leati_task){.type = &types[COPIES], .share = 2, .turn = tasks};
        atomic_store(&tasks[i].left, 2);
        atomic_store(&tasks[i].not_yet, true);
        atomic_store(&tasks[i].open, 1);
        leati_workers_add(workers, &tasks[i].task, LEATI_WAKE_ALL);
    }
    add(workers, &other, COPIES, 2, 5);
    assert_true(wait_for(&other.inside, 1));
    usleep(MOMENT_US); /* so that its parts take some time */
    open_and_remove(workers, &other, 5);
    assert_true(wait_for(&tasks[0].looks, 10));
    for (int i = 0; i < TASKS; i++) {
        for (int behind = i + 1; behind < TASKS; behind++)
            assert_int_equal(atomic_load(&tasks[behind].looks), 0);
        atomic_store(&tasks[i].not_yet, false);
        assert_true(wait_for(&tasks[i].done, 2));
        assert_true(i + 1 == TASKS || wait_for(&tasks[i + 1].looks, 10));
    }
    for (int i = 0; i < TASKS; i++)
        leati_workers_remove(workers, &tasks[i].task);
    leati_workers_put(workers, COPIES);
}

/* Kernels of the CPU device take turns when a thread looks for work. It does not leave one between two parts. */
static void a_kernel_is_not_left_between_its_parts(void **state)
{
    struct leati_workers *workers = get(DEVICE, 1);
    struct held first, kernels[2];

    (void)state;
    add(workers, &first, DEVICE, 1, 1);
    assert_true(wait_for(&first.inside, 1));
    for (int i = 0; i < 2; i++)
        add(workers, &kernels[i], DEVICE, 1, 3);
    open_and_remove(workers, &first, 1);
    for (int i = 0; i < 2; i++) {
        assert_true(wait_for(&kernels[i].inside, 1));
        usleep(MOMENT_US); /* so that its part takes some time */
        open_and_remove(workers, &kernels[i], 3);
        assert_int_equal(atomic_load(&kernels[i].entered), 1);
    }
    leati_workers_put(workers, DEVICE);
}

/* The thread that polls the tasks that wait takes a long one. Then another thread must poll the others, which may
 * be of another class. */
static void tasks_that_wait_are_polled_by_another(void **state)
{
    (void)state;
    for (int class = COPIES; class <= STORAGE; class ++) {
        struct leati_workers *workers = get(COPIES, 1);
        struct held tasks[2];
        int other = class == COPIES ? FILES : COPIES;

        assert_ptr_equal(get(FILES, 1), workers);
        assert_ptr_equal(get(STORAGE, 1), workers);
        for (int i = 0; i < 2; i++) {
            struct held *held = &tasks[i];

            memset(held, 0, sizeof *held);
            held->task = (struct leati_task){.type = &types[i ? other : class], .share = 1};
            atomic_store(&held->left, 1);
            atomic_store(&held->not_yet, true);
            leati_workers_add(workers, &held->task, 1);
        }
        usleep(MOMENT_US);
        atomic_store(&tasks[0].not_yet, false);
        assert_true(wait_for(&tasks[0].inside, 1));
        usleep(MOMENT_US);
        atomic_store(&tasks[1].not_yet, false);
        assert_true(wait_for(&tasks[1].inside, 1));
        assert_int_equal(atomic_load(&tasks[0].inside), 1);
        for (int i = 0; i < 2; i++)
            open_and_remove(workers, &tasks[i], 1);
        leati_workers_put(workers, STORAGE);
        leati_workers_put(workers, FILES);
        leati_workers_put(workers, COPIES);
    }
}

/* A task that is nudged is not looked at meanwhile, so the threads sleep. Each nudge comes at another moment of the
 * threads' way to sleep, and none may be lost. */
static void tasks_are_nudged(void **state)
{
    struct leati_workers *workers = get(STORAGE, 2);
    struct held held;
    int looks = -1;

    (void)state;
    for (int round = 0; round < 200; round++) {
        memset(&held, 0, sizeof held);
        held.task = (struct leati_task){.type = &types[STORAGE], .share = 1};
        held.nudged = true;
        atomic_store(&held.left, 1);
        atomic_store(&held.not_yet, true);
        atomic_store(&held.open, 1);
        leati_workers_add(workers, &held.task, 1);
        usleep((useconds_t)(round % 20) * 25);
        if (round == 0) {
            /* Wait until both threads sleep: then nobody looks. */
            for (int i = 0; i < 1000 && looks != atomic_load(&held.looks); i++) {
                looks = atomic_load(&held.looks);
                usleep(MOMENT_US);
            }
            assert_int_equal(looks, atomic_load(&held.looks));
        }
        assert_int_equal(atomic_load(&held.done), 0);
        atomic_store(&held.not_yet, false);
        leati_workers_nudge();
        assert_true(wait_for(&held.done, 1));
        leati_workers_remove(workers, &held.task);
    }
    leati_workers_put(workers, STORAGE);
    leati_workers_nudge(); /* without a pool it does nothing */
}

/* The change and the nudge come when a thread has looked, and before it sleeps. */
static void a_nudge_on_the_way_to_sleep_is_not_lost(void **state)
{
    struct leati_workers *workers = get(STORAGE, 1);
    struct held held;

    (void)state;
    memset(&held, 0, sizeof held);
    held.task = (struct leati_task){.type = &types[STORAGE], .share = 1};
    held.nudged = held.changes = true;
    atomic_store(&held.left, 1);
    atomic_store(&held.not_yet, true);
    atomic_store(&held.open, 1);
    leati_workers_add(workers, &held.task, 1);
    assert_true(wait_for(&held.done, 1));
    leati_workers_remove(workers, &held.task);
    leati_workers_put(workers, STORAGE);
}

struct removal {
    struct leati_workers *workers;
    struct held *held;
    atomic_int removed;
};

static void *remove_held(void *argument)
{
    struct removal *removal = argument;

    leati_workers_remove(removal->workers, &removal->held->task);
    atomic_store(&removal->removed, 1);
    return NULL;
}

/* The removal of a task must wait for the threads inside it, however long that takes. */
static void a_removal_waits_for_those_inside(void **state)
{
    struct leati_workers *workers = get(DEVICE, 2);
    struct held held;
    struct removal removal = {.workers = workers, .held = &held};
    pthread_t thread;

    (void)state;
    add(workers, &held, DEVICE, 2, 2);
    assert_true(wait_for(&held.inside, 2));
    assert_int_equal(pthread_create(&thread, NULL, remove_held, &removal), 0);
    usleep(MOMENT_US);
    assert_int_equal(atomic_load(&removal.removed), 0);
    atomic_store(&held.open, 1);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&held.done), 2);
    assert_int_equal(atomic_load(&held.ended), 2);
    leati_workers_put(workers, DEVICE);
}

/* Waiting threads must help with copies only. */
static void helpers_copy_and_nothing_else(void **state)
{
    struct leati_workers *workers = get(COPIES, 1);
    struct held stuck, copy, kernel;

    (void)state;
    assert_ptr_equal(get(DEVICE, 1), workers);
    assert_true(leati_workers_are_few(workers));
    add(workers, &kernel, DEVICE, 2, 5);
    assert_true(wait_for(&kernel.inside, 1));
    assert_false(leati_workers_have_copies(workers));
    assert_true(leati_workers_help_begins(workers));
    assert_false(leati_workers_help(workers));
    add(workers, &stuck, COPIES, 1, 2);
    assert_true(wait_for(&stuck.inside, 1));
    assert_false(leati_workers_help(workers)); /* the task has all threads of its share */
    add(workers, &copy, COPIES, 4, 5);
    atomic_store(&copy.open, 1);
    while (leati_workers_help(workers))
        continue;
    assert_int_equal(atomic_load(&copy.done), 5);
    assert_int_equal(atomic_load(&copy.entered), 0);
    assert_int_equal(atomic_load(&kernel.inside), 1);
    assert_true(leati_workers_help_begins(workers) && leati_workers_help_begins(workers));
    assert_false(leati_workers_help_begins(workers));
    for (int i = 0; i < 3; i++)
        leati_workers_help_ends(workers);
    leati_workers_remove(workers, &copy.task);
    assert_false(leati_workers_enter(workers, &copy.task));
    open_and_remove(workers, &stuck, 2);
    open_and_remove(workers, &kernel, 5);
    leati_workers_put(workers, DEVICE);
    leati_workers_put(workers, COPIES);
}

/* The first user starts the threads of its class, a user of another class starts more, and the threads end with
 * the last user. */
static void threads_end_with_the_last_user(void **state)
{
    struct leati_workers *workers = get(COPIES, 2);

    (void)state;
    assert_int_equal(count_threads(), 2);
    assert_ptr_equal(get(COPIES, 2), workers);
    assert_int_equal(count_threads(), 2);
    assert_ptr_equal(get(DEVICE, 3), workers);
    assert_int_equal(count_threads(), 5);
    assert_int_equal(leati_workers_reserve(workers, LEATI_WORK_DEVICE, 4), 0);
    assert_int_equal(count_threads(), 6);
    leati_workers_put(workers, COPIES);
    leati_workers_put(workers, DEVICE);
    assert_int_equal(leati_workers_threads(workers, LEATI_WORK_COPIES), 2);
    assert_int_equal(leati_workers_threads(workers, LEATI_WORK_DEVICE), 0);
    leati_workers_put(workers, COPIES);
    assert_int_equal(count_threads(), 0);
}

/* ---- threads that fail to start ---- */

int __real_leati_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);
int __wrap_leati_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

static int starts_left = -1; /* number of further threads that can start; -1: no limit */

int __wrap_leati_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    if (!starts_left)
        return EAGAIN;
    starts_left -= starts_left > 0;
    return __real_leati_thread_start(thread, run, argument);
}

/* If some threads fail to start, the class that asked first must get those that do start, and the caller of a loop
 * must run the remaining parts itself. */
static void fewer_threads_do(void **state)
{
    struct leati_loop loop = {.part = count_part, .count = LOOP_PARTS};
    struct leati_workers *workers, *same;

    (void)state;
    for (int i = 0; i < LOOP_PARTS; i++)
        atomic_store(&counts[i], 0);
    starts_left = 1;
    assert_int_equal(leati_workers_get(-1, LEATI_WORK_COPIES, 3, &workers), EAGAIN);
    assert_int_equal(leati_workers_threads(workers, LEATI_WORK_COPIES), 1);
    assert_int_equal(leati_workers_get(-1, LEATI_WORK_DEVICE, 2, &same), EAGAIN);
    assert_ptr_equal(workers, same);
    assert_int_equal(leati_workers_threads(workers, LEATI_WORK_DEVICE), 0);
    leati_workers_loop(workers, &loop_type, &loop, 2);
    for (int i = 0; i < LOOP_PARTS; i++)
        assert_int_equal(atomic_load(&counts[i]), 1);
    starts_left = -1;
    assert_int_equal(leati_workers_reserve(workers, LEATI_WORK_DEVICE, 2), 0);
    assert_int_equal(leati_workers_threads(workers, LEATI_WORK_DEVICE), 2);
    leati_workers_put(workers, DEVICE);
    leati_workers_put(workers, COPIES);
    assert_int_equal(count_threads(), 0);
}

/* The fields of sched_setattr(2). */
struct attributes {
    uint32_t bytes, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns;
};

static struct attributes get_attributes(pid_t thread)
{
    struct attributes attributes = {.bytes = sizeof attributes};

    assert_int_equal(syscall(SYS_sched_getattr, thread, &attributes, sizeof attributes, 0), 0);
    attributes.bytes = sizeof attributes;
    return attributes;
}

/* The threads must ask for short time slices, and keep what the program chose: its nice value, and a policy that
 * has no slices. */
static void threads_have_short_slices(void **state)
{
    static const int policies[] = {SCHED_OTHER, SCHED_BATCH};
    struct attributes before = get_attributes(0), other = before;
    bool is_known;

    (void)state;
    other.slice_ns = 2 * LEATI_THREAD_SLICE_NS;
    assert_int_equal(syscall(SYS_sched_setattr, 0, &other, 0), 0);
    is_known = before.policy == SCHED_OTHER && get_attributes(0).slice_ns == other.slice_ns;
    if (!is_known)
        print_message("skipped: the scheduler has no slices of a thread's own\n");
    for (size_t i = 0; i < sizeof policies / sizeof policies[0] && is_known; i++) {
        struct leati_workers *workers;
        struct held held;
        pid_t thread;

        other.policy = (uint32_t)policies[i];
        other.nice = 19;
        assert_int_equal(syscall(SYS_sched_setattr, 0, &other, 0), 0);
        workers = get(DEVICE, 1);
        add(workers, &held, DEVICE, 1, 1);
        assert_true(wait_for(&held.inside, 1)); /* the thread has begun to work */
        assert_int_equal(find_threads(&thread, 1), 1);
        assert_int_equal(get_attributes(thread).policy, policies[i]);
        assert_int_equal(get_attributes(thread).nice, 19);
        if (policies[i] == SCHED_OTHER)
            assert_int_equal(get_attributes(thread).slice_ns, LEATI_THREAD_SLICE_NS);
        open_and_remove(workers, &held, 1);
        leati_workers_put(workers, DEVICE);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_do_every_part_once),
        cmocka_unit_test(woken_threads_keep_their_processors),
        cmocka_unit_test(no_class_waits_for_another),
        cmocka_unit_test(shares_leave_threads_to_others),
        cmocka_unit_test(tasks_that_wait_are_looked_at),
        cmocka_unit_test(a_copy_is_not_left_between_its_parts),
        cmocka_unit_test(tasks_wait_for_their_turn),
        cmocka_unit_test(a_kernel_is_not_left_between_its_parts),
        cmocka_unit_test(a_removal_waits_for_those_inside),
        cmocka_unit_test(helpers_copy_and_nothing_else),
        cmocka_unit_test(threads_end_with_the_last_user),
        cmocka_unit_test(fewer_threads_do),
        cmocka_unit_test(threads_have_short_slices),
        cmocka_unit_test(tasks_are_nudged),
        cmocka_unit_test(a_nudge_on_the_way_to_sleep_is_not_lost),
        cmocka_unit_test(tasks_that_wait_are_polled_by_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
