/* loop.c - the thread that watches the sockets of all links. See loop.h. */
#include "loop.h"

#include "net.h"

#include <leat/storage.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EVENTS_MAX = 64 };

struct leatn_loop {
    int epoll;
    int wake; /* an eventfd, which ends epoll_wait() */
    /* A thread has written to wake, and the loop has not read it. Saves further writes. */
    atomic_bool woken;
    /* Protected by loop_lock. The thread itself may read next fields without it: only this thread removes sources,
     * and others add them in front of the first. */
    struct leatn_source *first;
};

/* Protects current and the lists of sources. No other lock is taken while it is held. */
static pthread_mutex_t loop_lock = PTHREAD_MUTEX_INITIALIZER;

/* The loop that has sources, or NULL. A loop without sources ends, and a later source gets another one. */
static struct leatn_loop *current;

/* On the thread of a loop: copies have become ready, and work_on_copies() will look at them. NULL: another
 * thread. */
static _Thread_local bool *ready_copies;

/* ---- start and end ---- */

static void destroy(struct leatn_loop *loop)
{
    if (loop->epoll >= 0)
        close(loop->epoll);
    if (loop->wake >= 0)
        close(loop->wake);
    free(loop);
}

/* Ends the loop if it has no sources. Returns true if it did. */
static bool end_without_sources(struct leatn_loop *loop)
{
    bool over;

    pthread_mutex_lock(&loop_lock);
    over = !loop->first;
    if (over && current == loop)
        current = NULL;
    pthread_mutex_unlock(&loop_lock);
    if (over)
        destroy(loop);
    return over;
}

static struct leatn_source *first_source(struct leatn_loop *loop)
{
    struct leatn_source *first;

    pthread_mutex_lock(&loop_lock);
    first = loop->first;
    pthread_mutex_unlock(&loop_lock);
    return first;
}

/* Calls the timer of a source. Returns when it is due again; UINT64_MAX if the source was removed. */
static uint64_t run_timer(struct leatn_source *source, uint64_t now_ns)
{
    uint64_t never = UINT64_MAX, due_ns;

    /* This comes first, so that a poke while timer() runs is not overwritten. */
    atomic_store(&source->due_ns, UINT64_MAX);
    due_ns = source->timer(source, now_ns);
    if (!due_ns)
        return UINT64_MAX;
    return atomic_compare_exchange_strong(&source->due_ns, &never, due_ns) ? due_ns : 0;
}

/* Calls the timers that are due. Returns when the next one is. */
static uint64_t run_timers(struct leatn_loop *loop)
{
    uint64_t next_ns = UINT64_MAX, now_ns = leatc_now_ns();
    struct leatn_source *source, *next;

    for (source = first_source(loop); source; source = next) {
        uint64_t due_ns = atomic_load(&source->due_ns);

        next = source->next; /* timer() may free the source */
        if (due_ns <= now_ns)
            due_ns = run_timer(source, now_ns);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    return next_ns;
}

/* Waits for events, or until a timer is due, and calls event(). */
static void run_events(struct leatn_loop *loop, uint64_t due_ns)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(loop->epoll, events, EVENTS_MAX, leatn_poll_ms(due_ns));
    uint64_t value;

    for (int i = 0; i < count; i++) {
        struct leatn_source *source = events[i].data.ptr;

        if (source) {
            /* A source removes only itself, so the other sources of this list still exist. */
            source->event(source, events[i].events);
            continue;
        }
        if (read(loop->wake, &value, sizeof value) < 0)
            continue; /* another round will read it */
        /* Before the timers are looked at: a poke that comes later writes to wake again. Sequentially consistent,
         * as in leatn_loop_poke(): if the exchange there sees true, this loop sees its due_ns. */
        atomic_store(&loop->woken, false);
    }
}

/* Moves the bytes of copies that became ready. That may make others ready, for the next call. */
static void work_on_copies(void)
{
    if (!*ready_copies)
        return;
    *ready_copies = false;
    leat_storage_work();
}

void leatn_loop_wake_copies(void)
{
    if (ready_copies)
        *ready_copies = true;
    else
        leat_storage_wake();
}

static void *run(void *argument)
{
    struct leatn_loop *loop = argument;
    bool ready = false;

    ready_copies = &ready;
    for (;;) {
        uint64_t due_ns = run_timers(loop);

        work_on_copies();
        /* A timer may have removed the last source, and then nothing would end a wait. */
        if (end_without_sources(loop)) {
            if (ready)
                leat_storage_wake();
            return NULL;
        }
        run_events(loop, ready ? 0 : due_ns);
        work_on_copies();
    }
}

/* Starts the thread. It gets no signals, so that handlers of the program run on the program's threads, except
 * for those that its own instructions cause: it moves bytes from and to memory of the program, whose handler
 * may have to make that memory accessible. */
static int start_thread(struct leatn_loop *loop)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    int error;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    for (unsigned i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, run, loop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* Makes a loop whose thread does not run yet. Returns NULL, and sets *status, if that fails. */
static struct leatn_loop *create(leat_status *status)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct leatn_loop *loop = calloc(1, sizeof *loop);

    if (!loop) {
        *status = leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the thread of links");
        return NULL;
    }
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll < 0 || loop->wake < 0 || epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->wake, &event) < 0) {
        *status = leatc_fail(LEAT_ERROR_SYSTEM, "descriptors for the thread of links: %s", strerror(errno));
        destroy(loop);
        return NULL;
    }
    return loop;
}

/* ---- sources ---- */

static void insert(struct leatn_loop *loop, struct leatn_source *source)
{
    source->next = loop->first;
    source->place = &loop->first;
    if (source->next)
        source->next->place = &source->next;
    loop->first = source;
}

static void take_out(struct leatn_source *source)
{
    *source->place = source->next;
    if (source->next)
        source->next->place = source->place;
}

/* Adds a source to a loop. The caller holds loop_lock. */
static leat_status add(struct leatn_loop *loop, struct leatn_source *source)
{
    struct epoll_event event = {.events = EPOLLONESHOT, .data.ptr = source};

    atomic_init(&source->due_ns, 0);
    source->loop = loop;
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) < 0)
        return leatc_fail(LEAT_ERROR_SYSTEM, "epoll_ctl: %s", strerror(errno));
    insert(loop, source);
    /* The loop cannot remove the source before this, because that takes loop_lock. */
    leatn_loop_poke(source);
    return LEAT_OK;
}

/* Adds the first source of a new loop, and starts its thread. The caller holds loop_lock. */
static leat_status add_first(struct leatn_source *source)
{
    leat_status status = LEAT_OK;
    struct leatn_loop *loop = create(&status);
    int error;

    if (!loop)
        return status;
    status = add(loop, source);
    if (status == LEAT_OK) {
        error = start_thread(loop);
        if (!error) {
            current = loop;
            return LEAT_OK;
        }
        status = leatc_fail(LEAT_ERROR_SYSTEM, "pthread_create: %s: links need a thread", strerror(error));
    }
    destroy(loop);
    return status;
}

leat_status leatn_loop_add(struct leatn_source *source)
{
    leat_status status;

    pthread_mutex_lock(&loop_lock);
    status = current ? add(current, source) : add_first(source);
    pthread_mutex_unlock(&loop_lock);
    return status;
}

void leatn_loop_arm(struct leatn_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data.ptr = source};

    /* Cannot fail: the descriptor is in the set. */
    (void)epoll_ctl(source->loop->epoll, EPOLL_CTL_MOD, source->fd, &event);
}

void leatn_loop_poke(struct leatn_source *source)
{
    struct leatn_loop *loop = source->loop;
    uint64_t one = 1;

    /* Sequentially consistent: if the exchange returns true, the loop will look at due_ns after this store. */
    atomic_store(&source->due_ns, 0);
    if (!atomic_exchange(&loop->woken, true))
        while (write(loop->wake, &one, sizeof one) < 0 && errno == EINTR)
            continue;
}

void leatn_loop_remove(struct leatn_source *source)
{
    struct leatn_loop *loop = source->loop;

    (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
    pthread_mutex_lock(&loop_lock);
    take_out(source);
    pthread_mutex_unlock(&loop_lock);
}
