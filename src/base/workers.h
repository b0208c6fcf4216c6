/*
 * workers.h - the one pool of threads that share out leat's work on processors.
 *
 * Three classes of tasks use it: staged copies (staging/), kernels and large copies of the CPU device, and the
 * touching of fresh pinned memory. There is a pool for each NUMA node that a class asked for, whose threads stay
 * on that node, and one for all processors.
 *
 * Each class reserves threads, and never occupies more of a pool than it reserved. A pool has as many threads as
 * all classes together, so a task that runs for long takes no thread away from another class: a kernel of the CPU
 * device may wait for a staged copy.
 *
 * Threads sleep when there is nothing to do. A task that waits for something outside of the process, such as a
 * stream, is looked at from time to time, because nobody else says when it can go on. Worker threads make no
 * driver call: a driver may hold its lock while it waits for a stream, which may in turn wait for a worker (seen
 * with cuMemFree, cuMemHostUnregister and cuModuleLoadData).
 */
#ifndef LEATI_WORKERS_H
#define LEATI_WORKERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum leati_work_class {
    LEATI_WORK_COPIES, /* staged copies; served in the order in which they came */
    LEATI_WORK_DEVICE, /* work of the CPU device; tasks take turns */
    LEATI_WORK_PAGES,  /* touching of pinned memory */
    LEATI_WORK_CLASSES
};

/* What became of an attempt to work on a task. */
enum leati_taken {
    LEATI_TAKEN,       /* a part was done */
    LEATI_NOT_YET,     /* there are parts left, but none that can be done now */
    LEATI_NOTHING_LEFT /* somebody has taken every part */
};

struct leati_task;

struct leati_task_type {
    enum leati_work_class class;

    /* Takes one part and does it. Any number of threads call this at once. */
    enum leati_taken (*work)(struct leati_task *task);

    /* What a worker would find, TAKEN for something to do; for a helper see below. Called under the pool's lock:
     * a few loads only. */
    enum leati_taken (*look)(const struct leati_task *task, bool helper);

    /* All optional: */
    bool (*is_lively)(const struct leati_task *task); /* under the lock: work may come at any moment */
    bool (*prepare)(struct leati_task *task);         /* called after NOT_YET: false when nothing is to be done */
    void (*enter)(struct leati_task *task);           /* a worker thread begins with the task, and ends */
    void (*leave)(struct leati_task *task);
};

/* Part of the user's own structure. The user sets type, share and owned; the rest is the pool's, under its lock.
 */
struct leati_task {
    const struct leati_task_type *type;
    unsigned share;   /* at most so many threads at once */
    unsigned workers; /* so many now, helpers among them */
    struct leati_task *next, **place;
    bool listed;
    bool awaited; /* somebody waits until workers is 0 */
    bool owned;   /* set by the user: whoever adds it works on it, so that workers are welcome but not needed */
};

struct leati_workers;

/* ---- the pool ---- */

/* How many processors a node has that this thread may use; -1: all that it may use. */
unsigned leati_workers_processors(int node);

/*
 * The pool of a node (-1: any), with threads reserved for the class; if others reserved more for it, that many.
 * Its threads start now. Returns 0; ENOMEM, and no pool; or why a thread could not be started: then fewer are
 * reserved, and the caller has the pool all the same. Each pool that was got needs a put; the last one ends the
 * threads. No task of the class may be in the pool at the last put of the class.
 */
int leati_workers_get(int node, enum leati_work_class class, unsigned threads, struct leati_workers **workers);
void leati_workers_put(struct leati_workers *workers, enum leati_work_class class);

/* Tries again to have so many threads for a class that already has the pool. */
int leati_workers_reserve(struct leati_workers *workers, enum leati_work_class class, unsigned threads);

/* How many threads are reserved for the class. */
unsigned leati_workers_threads(const struct leati_workers *workers, enum leati_work_class class);

/* ---- tasks ---- */

#define LEATI_WAKE_ALL UINT32_MAX

/* Gives a task to the pool and wakes so many of its threads, which wake others where they see more to do. Threads
 * that are awake find the task in any case. */
void leati_workers_add(struct leati_workers *workers, struct leati_task *task, unsigned wakes);

/* Takes a task away, whether it is finished or not, and waits until no thread works on it. */
void leati_workers_remove(struct leati_workers *workers, struct leati_task *task);

/* The caller works on the task, if it is still in the pool, until it finds nothing to do. */
void leati_workers_join(struct leati_workers *workers, struct leati_task *task);

/* ---- loops: tasks whose parts are numbered and independent ---- */

struct leati_loop {
    struct leati_task task; /* no need to set it */
    void (*part)(void *context, uint64_t i);
    void *context;
    uint64_t count;
    atomic_uint_least64_t next; /* relaxed: the pool's lock orders what the parts write */
};

/* Calls part(context, i) for i from 0 to count - 1, on the caller and at most so many workers at once. Returns
 * when all calls have returned. The type's work is leati_loop_work; its enter and leave are for workers only. The
 * pool is not used if workers_most is 0. */
void leati_workers_loop(struct leati_workers *workers, const struct leati_task_type *type, struct leati_loop *loop,
                        unsigned workers_most);
enum leati_taken leati_loop_work(struct leati_task *task);
enum leati_taken leati_loop_look(const struct leati_task *task, bool helper);

/* ---- help while waiting ----
 *
 * While few workers are awake for copies, threads of the program that wait for a stream help: sleeping workers
 * take a while to come, and on a machine with two processors there is only one. A helper holds no lock while it
 * copies, is at no task when it calls the driver, and stays with a task for no more than a part or two. Copies
 * only.
 */

/* Returns true if so few threads are reserved for copies that others help. */
bool leati_workers_are_few(const struct leati_workers *workers);

/* How many threads are awake for copies. A guess, as is what follows. */
unsigned leati_workers_awake(const struct leati_workers *workers);

/* Returns true if there are copies with parts that nobody has taken. A guess, for one relaxed load. */
bool leati_workers_have_copies(const struct leati_workers *workers);

/* Returns true if there are such copies, and fewer than four workers awake for them. */
bool leati_workers_want_help(const struct leati_workers *workers);

/* Around all of a wait: false if enough threads help already. */
bool leati_workers_help_begins(struct leati_workers *workers);
void leati_workers_help_ends(struct leati_workers *workers);

/* In between: the caller works for a moment on some copy that can go on at once. Returns false if there is none.
 */
bool leati_workers_help(struct leati_workers *workers);

/* The same for one task. enter: keeps the task in memory; false if it is not in the pool any more, or no help is
 * wanted. work: works for a moment and leaves the task; false if nothing could be done. */
bool leati_workers_enter(struct leati_workers *workers, struct leati_task *task);
bool leati_workers_work(struct leati_workers *workers, struct leati_task *task);

#endif
