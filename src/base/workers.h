/*
 * workers.h - the pools of worker threads that do leat's work on processors.
 *
 * Five classes of tasks use them: staged copies (staging/), copies between files and memory, copies from and to a
 * program's own storage (leat/storage.h), kernels and large copies of the CPU device, and prefaulting of new pinned
 * memory. Each NUMA node that some class asked for has a
 * pool, whose threads run on that node only; one more pool uses all processors.
 *
 * Each class reserves threads in a pool, and never uses more than it reserved. A pool has as many threads as all
 * classes reserved together, so long tasks of one class cannot starve another. This prevents a deadlock: a kernel
 * of the CPU device may wait for a staged copy.
 *
 * Threads sleep when there is nothing to do. A task that waits for something outside the process, such as a
 * stream, is polled, because nothing wakes the workers when it can continue. A task that is AWAITING is not polled:
 * what it waits for calls leati_workers_nudge(). Worker threads must not call the
 * driver: a driver may hold its lock while it waits for a stream, which may in turn wait for a worker (seen with
 * cuMemFree, cuMemHostUnregister and cuModuleLoadData).
 */
#ifndef LEATI_WORKERS_H
#define LEATI_WORKERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum leati_work_class {
    LEATI_WORK_COPIES, /* staged copies; first come, first served */
    LEATI_WORK_FILES,  /* copies of files, and fsync(): they wait for disks; first come, first served */
    LEATI_WORK_STORAGE, /* copies from and to a program's own storage: they never block; first come, first served */
    LEATI_WORK_DEVICE, /* work of the CPU device; round robin */
    LEATI_WORK_PAGES,  /* prefaulting of pinned memory */
    LEATI_WORK_CLASSES
};

/* Result of an attempt to work on a task. */
enum leati_taken {
    LEATI_TAKEN,       /* a part was done */
    LEATI_NOT_YET,     /* parts are left, but none can be done now */
    LEATI_AWAITING,    /* the same, and leati_workers_nudge() will be called when one can; only from look() */
    LEATI_NOTHING_LEFT /* all parts are taken, though some may still be in progress */
};

struct leati_task;

struct leati_task_type {
    enum leati_work_class class;

    /* Takes one part and does it. Any number of threads may call this at once. */
    enum leati_taken (*work)(struct leati_task *task);

    /* Predicts what work() would return to a worker, or to a helper (see below), but does no work. Also returns
     * TAKEN if prepare() has something to do. Called under the pool's lock, so it must only do a few loads. */
    enum leati_taken (*look)(const struct leati_task *task, bool helper);

    /* All optional: */
    bool (*is_lively)(const struct leati_task *task); /* under the lock: true if new parts may come very soon */
    bool (*prepare)(struct leati_task *task);         /* called after NOT_YET; false: nothing was prepared */
    void (*enter)(struct leati_task *task);           /* a worker thread begins to work on the task */
    void (*leave)(struct leati_task *task);           /* the worker thread stops working on it */
};

/* Embedded in the user's own structure. The user sets type, share, owned, flag and turn. The pool uses the rest,
 * under its lock. */
struct leati_task {
    const struct leati_task_type *type;
    atomic_uint share; /* the most threads that may work on the task at once; may be raised at any time */
    unsigned workers;  /* how many threads work on the task now, helpers included */
    struct leati_task *next, **place;
    bool listed;
    bool awaited; /* a thread waits until workers is 0 */
    bool owned;   /* the thread that adds the task works on it itself, so workers are optional */
    const void *flag; /* a number in memory that the task waits for, or NULL; see leati_workers_help_flag() */
    /* Tasks with the same turn go on in the order in which they were added: while one has no part for a worker, neither
     * have those behind it. So workers need not look at these. NULL: the task depends on no other. */
    const void *turn;
};

struct leati_workers;

/* ---- the pool ---- */

/* Returns how many processors of a node this thread may use; node -1: of all nodes. */
unsigned leati_workers_processors(int node);

/*
 * Gets the pool of a node (-1: any), and makes sure that at least threads threads are reserved for the class; they
 * start now. Returns 0 on success. Out of memory, returns ENOMEM and sets *workers to NULL. If a thread cannot be
 * started, returns that error; the caller still gets the pool, with fewer threads. Each get that sets *workers to
 * a pool needs a put. The last put ends the threads. At the last put of a class, no task of that class may be in
 * the pool.
 */
int leati_workers_get(int node, enum leati_work_class class, unsigned threads, struct leati_workers **workers);
void leati_workers_put(struct leati_workers *workers, enum leati_work_class class);

/* Tries to raise the number of threads reserved for a class. The caller must already have the pool for this class.
 * Returns 0 or an error number. */
int leati_workers_reserve(struct leati_workers *workers, enum leati_work_class class, unsigned threads);

/* Returns how many threads are reserved for the class. */
unsigned leati_workers_threads(const struct leati_workers *workers, enum leati_work_class class);

/* ---- tasks ---- */

#define LEATI_WAKE_ALL UINT32_MAX

/* Adds a task to the pool and wakes this many of its threads, which wake others if they see more work. Threads
 * that are already awake find the task too. */
void leati_workers_add(struct leati_workers *workers, struct leati_task *task, unsigned wakes);

/* Returns true if a worker could do a part of the task now. The task may have left the pool, but must be in
 * memory. */
bool leati_workers_has_part(struct leati_workers *workers, const struct leati_task *task);

/* Removes a task, whether it is finished or not, and waits until no thread works on it. */
void leati_workers_remove(struct leati_workers *workers, struct leati_task *task);

/* Lets the threads of all pools look at their tasks again, and wakes one thread of each pool that sleeps. Call it
 * after the change for which an AWAITING task waits. Any thread may call, workers too. */
void leati_workers_nudge(void);

/* The same, but the calling thread does parts of STORAGE tasks that look() offers to a helper. Threads are
 * woken only if other parts can be done. Not for workers, and not while a lock is held that a task takes. */
void leati_workers_nudge_and_help(void);

/* Works on the STORAGE task that polls this flag (task->flag), if it can go on now and look() offers it to a
 * helper. For a stream of the CPU device that has changed the flag. A worker polls it too, so nothing is lost
 * without this. */
void leati_workers_help_flag(const void *flag);

/* Works on the task on the calling thread, if the task is still in the pool, until no part can be done at the
 * moment. */
void leati_workers_join(struct leati_workers *workers, struct leati_task *task);

/* ---- loops: tasks whose parts are numbered and independent ---- */

struct leati_loop {
    struct leati_task task; /* set by leati_workers_loop() */
    void (*part)(void *context, uint64_t i);
    void *context;
    uint64_t count;
    atomic_uint_least64_t next; /* relaxed: the pool's lock makes the writes of all parts visible to the caller */
};

/* Calls part(context, i) for i from 0 to count - 1, on the calling thread and at most workers_most workers.
 * Returns when all calls have returned. type->work must be leati_loop_work; enter and leave are called for workers
 * only, not for the caller. The pool is not used if workers_most is 0. */
void leati_workers_loop(struct leati_workers *workers, const struct leati_task_type *type, struct leati_loop *loop,
                        unsigned workers_most);
enum leati_taken leati_loop_work(struct leati_task *task);
enum leati_taken leati_loop_look(const struct leati_task *task, bool helper);

/* ---- help while waiting ----
 *
 * While few workers are awake for copies, threads of the program that wait for a stream help them: sleeping
 * workers take time to wake up, and a machine with two processors has only one worker. A helper holds no lock
 * while it copies, has entered no task while it calls the driver, and leaves a task after a short time. Only tasks
 * of the class COPIES get help; the two functions above help those of the class STORAGE.
 */

/* Returns true if so few threads are reserved for copies that waiting threads should help. */
bool leati_workers_are_few(const struct leati_workers *workers);

/* Returns how many threads are awake for copies. The results of this and the next two functions may be out of
 * date. */
unsigned leati_workers_awake(const struct leati_workers *workers);

/* Returns true if some copy has parts that no thread has taken. Costs one relaxed load. */
bool leati_workers_have_copies(const struct leati_workers *workers);

/* Returns true if some copy has parts that no thread has taken, and fewer than four workers are awake for
 * copies. */
bool leati_workers_want_help(const struct leati_workers *workers);

/* Call these at the beginning and the end of a wait. If help_begins returns false, enough threads help already:
 * then do not help, and do not call help_ends. */
bool leati_workers_help_begins(struct leati_workers *workers);
void leati_workers_help_ends(struct leati_workers *workers);

/* Call this between help_begins and help_ends: works on some copy for a short time. Returns false if no copy can
 * continue now. */
bool leati_workers_help(struct leati_workers *workers);

/* Help for one given task. enter: pins the task so that it stays in memory; returns false if the task is not in
 * the pool any more, or no help is wanted. work: works on an entered task for a short time, then leaves it;
 * returns false if nothing could be done. */
bool leati_workers_enter(struct leati_workers *workers, struct leati_task *task);
bool leati_workers_work(struct leati_workers *workers, struct leati_task *task);

#endif
