/*
 * jitter.c - a library for LD_PRELOAD that makes threads sleep at random before and after they take or release
 * locks, signal, and change mappings. This widens race windows from nanoseconds to milliseconds. A test that fails
 * only with this library has found a race. A thread sleeps on average once in JITTER_RATE calls (default 200).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { LONGEST_REST_US = 2000, RATE = 200 };

static _Atomic uint64_t threads_seen;
static _Thread_local uint64_t state;

static uint64_t rate(void)
{
    static _Atomic uint64_t kept;
    uint64_t known = atomic_load_explicit(&kept, memory_order_relaxed);

    if (!known) {
        const char *text = getenv("JITTER_RATE");

        known = text ? strtoull(text, NULL, 10) : RATE;
        known = known ? known : RATE;
        atomic_store_explicit(&kept, known, memory_order_relaxed);
    }
    return known;
}

/* Each thread has its own sequence of random numbers. */
static uint64_t next_number(void)
{
    if (!state)
        state = 0x9e3779b97f4a7c15u * (1 + atomic_fetch_add_explicit(&threads_seen, 1, memory_order_relaxed));
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void rest(void)
{
    uint64_t number = next_number(), turn = (number >> 20) % rate();

    if (turn == 0) {
        struct timespec time = {0, (long)((number >> 40) % LONGEST_REST_US) * 1000};

        nanosleep(&time, NULL);
    } else if (turn < 3) {
        sched_yield();
    }
}

/* Defines a function that may sleep before and after it calls the function of the same name that the program would
 * have called without this library. */
#define JITTERED(type, name, parameters, arguments)                                                               \
    type name parameters                                                                                          \
    {                                                                                                             \
        static type(*_Atomic real) parameters;                                                                    \
        type(*call) parameters = atomic_load_explicit(&real, memory_order_relaxed);                               \
        type result;                                                                                              \
                                                                                                                  \
        if (!call) {                                                                                              \
            *(void **)&call = dlsym(RTLD_NEXT, #name);                                                            \
            atomic_store_explicit(&real, call, memory_order_relaxed);                                             \
        }                                                                                                         \
        rest();                                                                                                   \
        result = call arguments;                                                                                  \
        rest();                                                                                                   \
        return result;                                                                                            \
    }

JITTERED(int, pthread_mutex_lock, (pthread_mutex_t * lock), (lock))
JITTERED(int, pthread_mutex_unlock, (pthread_mutex_t * lock), (lock))
JITTERED(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
JITTERED(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
JITTERED(int, pthread_rwlock_unlock, (pthread_rwlock_t * lock), (lock))
JITTERED(int, pthread_cond_signal, (pthread_cond_t * condition), (condition))
JITTERED(int, pthread_cond_broadcast, (pthread_cond_t * condition), (condition))
JITTERED(void *, mmap, (void *ptr, size_t bytes, int rights, int flags, int file, off_t offset),
         (ptr, bytes, rights, flags, file, offset))
JITTERED(int, munmap, (void *ptr, size_t bytes), (ptr, bytes))
JITTERED(int, mprotect, (void *ptr, size_t bytes, int rights), (ptr, bytes, rights))
JITTERED(int, madvise, (void *ptr, size_t bytes, int advice), (ptr, bytes, advice))
