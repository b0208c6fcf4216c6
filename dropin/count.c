/*
 * count.c - counts calls in the table of "leat run" (run_table.h).
 */
#include "dropin.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Counts what no table can take: without "leat run", or when the command has ended. Nobody reads it. */
static struct run_process unread;

/* The counters of this process; NULL until its first CUDA call, and again in a child of fork(). */
static _Atomic(struct run_process *) mine;
static pthread_mutex_t begin_lock = PTHREAD_MUTEX_INITIALIZER; /* only one thread takes a slot */

static void begin_child(void)
{
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    memcpy(&begin_lock, &fresh, sizeof fresh);
    atomic_store_explicit(&mine, NULL, memory_order_relaxed);
}

static struct run_table *table; /* guarded by begin_lock until mine is set; children of fork() keep it */

static struct run_table *map_table(void)
{
    const char *path = secure_getenv(RUN_TABLE_VARIABLE);
    void *memory = MAP_FAILED;
    int fd;

    if (table)
        return table;
    fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0 && lseek(fd, 0, SEEK_END) == (off_t)sizeof *table)
        memory = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (memory == MAP_FAILED)
        return NULL;
    table = memory;
    if (table->magic != RUN_TABLE_MAGIC) {
        munmap(memory, sizeof *table);
        table = NULL;
    }
    return table;
}

static struct run_process *begin(void)
{
    static bool told_fork; /* guarded by begin_lock */
    struct run_process *slot;
    int error = errno;
    unsigned index;

    pthread_mutex_lock(&begin_lock);
    slot = atomic_load_explicit(&mine, memory_order_relaxed);
    if (!slot) {
        slot = &unread;
        if (map_table()) {
            index = atomic_fetch_add_explicit(&table->processes, 1, memory_order_relaxed);
            slot = &table->slots[index < RUN_PROCESSES ? index : RUN_PROCESSES - 1];
            atomic_store_explicit(&slot->pid, (int)getpid(), memory_order_relaxed);
        }
        if (!told_fork)
            told_fork = !pthread_atfork(NULL, NULL, begin_child);
        /* Release: another thread that uses the slot sees the mapping. */
        atomic_store_explicit(&mine, slot, memory_order_release);
    }
    pthread_mutex_unlock(&begin_lock);
    errno = error;
    return slot;
}

static struct run_process *counters(void)
{
    /* Acquire: pairs with the release in begin(). */
    struct run_process *slot = atomic_load_explicit(&mine, memory_order_acquire);

    return slot ? slot : begin();
}

void dropin_count_begin(void)
{
    (void)counters();
}

void dropin_count(enum run_call call, enum run_outcome outcome, uint64_t bytes, uint64_t ns)
{
    struct run_count *count = &counters()->counts[call][outcome];

    atomic_fetch_add_explicit(&count->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&count->bytes, bytes, memory_order_relaxed);
    if (ns)
        atomic_fetch_add_explicit(&count->ns, ns, memory_order_relaxed);
}

void dropin_count_message(const char *message)
{
    struct run_process *slot = counters();
    int none = 0;

    if (!atomic_compare_exchange_strong_explicit(&slot->message_state, &none, 1, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    strncpy(slot->message, message, sizeof slot->message - 1);
    /* Release: the command, which reads the state with acquire, sees the whole message. */
    atomic_store_explicit(&slot->message_state, 2, memory_order_release);
}

unsigned dropin_count_traced(void)
{
    (void)counters();
    return table ? atomic_fetch_add_explicit(&table->traces, 1, memory_order_relaxed) : 0;
}

void dropin_count_trace(const char *path, const char *how)
{
    struct run_process *slot = counters();
    int none = 0;

    if (!atomic_compare_exchange_strong_explicit(&slot->traced_state, &none, 1, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    snprintf(slot->traced, sizeof slot->traced, "%.250s: %s", path, how);
    atomic_store_explicit(&slot->traced_state, 2, memory_order_release);
}

bool dropin_only_observes(void)
{
    /* 0: not known yet, 1: no, 2: yes. Relaxed: every thread finds the same value. */
    static atomic_int known;
    int value = atomic_load_explicit(&known, memory_order_relaxed);
    const char *mode;

    if (!value) {
        mode = secure_getenv(RUN_MODE_VARIABLE);
        value = mode && !strcmp(mode, RUN_MODE_LOG) ? 2 : 1;
        atomic_store_explicit(&known, value, memory_order_relaxed);
    }
    return value == 2;
}

bool dropin_wants_trace(void)
{
    /* 0: not known yet, 1: no, 2: yes. Relaxed: every thread finds the same value. */
    static atomic_int known;
    int value = atomic_load_explicit(&known, memory_order_relaxed);
    const char *path;

    if (!value) {
        path = secure_getenv(RUN_TRACE_VARIABLE);
        value = path && path[0] ? 2 : 1;
        atomic_store_explicit(&known, value, memory_order_relaxed);
    }
    return value == 2;
}

/* Returns true if the variable's value begins with 1. Reads the variable only once, because the program may change
 * its environment in another thread. *known: 0: not known yet, 1: no, 2: yes. Relaxed: every thread finds the same
 * value. */
static bool is_switched_on(const char *variable, atomic_int *known)
{
    int value = atomic_load_explicit(known, memory_order_relaxed);
    const char *text;

    if (!value) {
        text = secure_getenv(variable);
        value = text && text[0] == '1' ? 2 : 1;
        atomic_store_explicit(known, value, memory_order_relaxed);
    }
    return value == 2;
}

bool dropin_serves_pinned(void)
{
    static atomic_int known;

    return is_switched_on(RUN_PINNED_VARIABLE, &known);
}

bool dropin_serves_pool(void)
{
    static atomic_int known;

    return is_switched_on(RUN_POOL_VARIABLE, &known);
}

uint64_t dropin_least_bytes(void)
{
    /* 0: not known yet. Relaxed: every thread finds the same value. */
    static atomic_uint_least64_t known;
    uint64_t value = atomic_load_explicit(&known, memory_order_relaxed);
    const char *text;

    if (!value) {
        text = secure_getenv(RUN_LEAST_VARIABLE);
        value = text ? strtoull(text, NULL, 10) : 0;
        value = value ? value : RUN_LEAST_BYTES;
        atomic_store_explicit(&known, value, memory_order_relaxed);
    }
    return value;
}

bool dropin_least_is_chosen(void)
{
    /* 0: not known yet, 1: no, 2: yes. Relaxed: every thread finds the same value. */
    static atomic_int known;
    int value = atomic_load_explicit(&known, memory_order_relaxed);

    if (!value) {
        value = secure_getenv(RUN_LEAST_VARIABLE) ? 2 : 1;
        atomic_store_explicit(&known, value, memory_order_relaxed);
    }
    return value == 2;
}

uint64_t dropin_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
