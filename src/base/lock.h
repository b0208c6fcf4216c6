/*
 * lock.h - mutexes and read-write locks whose use the compiler and the checked build verify.
 *
 * They wrap the locks of pthreads, and add two checks:
 *   - clang's thread safety analysis (make thread-safety): LEATI_REQUIRES says which lock the caller must hold,
 *     LEATI_GUARDED_BY which lock guards a variable. In C, clang 19 supports them for functions and variables, but
 *     not for the fields of a struct, so the lock of a field is named in a comment.
 *   - the checked build (-DLEATI_CHECKED) records which thread holds a lock. There leati_assert_locked() aborts if
 *     this thread does not hold the lock, and taking a lock twice aborts instead of hanging.
 * In a release build each function is just one pthreads call.
 */
#ifndef LEATI_LOCK_H
#define LEATI_LOCK_H

#include "base/assert.h"

#include <pthread.h>
#include <stdbool.h>
#ifdef LEATI_CHECKED
#include <stdatomic.h>
#endif

#ifdef __clang__
#define LEATI_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define LEATI_THREAD_SAFETY(attribute)
#endif

/* GUARDED_BY marks a variable that may be used only with the lock held. REQUIRES marks a function whose caller
 * must hold the lock; with _SHARED, it must hold the lock at least for reading. */
#define LEATI_GUARDED_BY(lock) LEATI_THREAD_SAFETY(guarded_by(lock))
#define LEATI_REQUIRES(...) LEATI_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define LEATI_REQUIRES_SHARED(...) LEATI_THREAD_SAFETY(requires_shared_capability(__VA_ARGS__))
/* ACQUIRE and RELEASE mark a function that takes or releases the lock for its caller. EXCLUDES marks a function
 * whose caller must not hold the lock. */
#define LEATI_ACQUIRE(...) LEATI_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define LEATI_ACQUIRE_SHARED(...) LEATI_THREAD_SAFETY(acquire_shared_capability(__VA_ARGS__))
#define LEATI_TRY_ACQUIRE(...) LEATI_THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define LEATI_RELEASE(...) LEATI_THREAD_SAFETY(release_capability(__VA_ARGS__))
#define LEATI_RELEASE_SHARED(...) LEATI_THREAD_SAFETY(release_shared_capability(__VA_ARGS__))
#define LEATI_EXCLUDES(...) LEATI_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
/* For a function whose locking the analysis cannot follow, such as a lock that is taken under a condition. */
#define LEATI_NO_THREAD_SAFETY LEATI_THREAD_SAFETY(no_thread_safety_analysis)

struct LEATI_THREAD_SAFETY(capability("mutex")) leati_lock {
    pthread_mutex_t mutex;
#ifdef LEATI_CHECKED
    _Atomic(pthread_t) owner; /* the thread that holds the lock; 0: none (no thread has the id 0) */
    unsigned depth;           /* how often the owner has taken the lock; above 1 only for a recursive lock */
    bool is_recursive;
#endif
};

struct LEATI_THREAD_SAFETY(capability("rwlock")) leati_rwlock {
    pthread_rwlock_t rwlock;
#ifdef LEATI_CHECKED
    _Atomic(pthread_t) writer; /* the thread that holds the lock for writing; 0: none */
    _Atomic unsigned readers;  /* how many threads hold the lock for reading */
#endif
};

#define LEATI_LOCK_INITIALIZER {.mutex = PTHREAD_MUTEX_INITIALIZER}
#define LEATI_RWLOCK_INITIALIZER {.rwlock = PTHREAD_RWLOCK_INITIALIZER}

/* ---- records of the checked build ---- */

#ifdef LEATI_CHECKED

/* Relaxed: owner can equal this thread's id only if this thread itself wrote it. */
static inline bool leati_lock_is_mine(const struct leati_lock *lock)
{
    return atomic_load_explicit(&lock->owner, memory_order_relaxed) == pthread_self();
}

static inline void leati_lock_taken(struct leati_lock *lock)
{
    leati_assert(lock->depth == 0 || lock->is_recursive);
    lock->depth++;
    atomic_store_explicit(&lock->owner, pthread_self(), memory_order_relaxed);
}

static inline void leati_lock_given_back(struct leati_lock *lock)
{
    leati_assert(leati_lock_is_mine(lock) && lock->depth > 0);
    if (!--lock->depth)
        atomic_store_explicit(&lock->owner, (pthread_t)0, memory_order_relaxed);
}

static inline bool leati_rwlock_is_mine(const struct leati_rwlock *lock)
{
    return atomic_load_explicit(&lock->writer, memory_order_relaxed) == pthread_self();
}

static inline bool leati_rwlock_is_shared(const struct leati_rwlock *lock)
{
    return atomic_load_explicit(&lock->readers, memory_order_relaxed) > 0;
}

#define LEATI_IF_CHECKED(statement) statement
#else
#define LEATI_IF_CHECKED(statement) ((void)0)
#endif

/* Asserts that this thread holds the lock. */
static inline void leati_assert_locked(const struct leati_lock *lock) LEATI_THREAD_SAFETY(assert_capability(*lock))
{
    (void)lock;
    LEATI_IF_CHECKED(leati_assert(leati_lock_is_mine(lock)));
}

/* Asserts that this thread does not hold the lock. */
static inline void leati_assert_unlocked(const struct leati_lock *lock)
{
    (void)lock;
    LEATI_IF_CHECKED(leati_assert(!leati_lock_is_mine(lock)));
}

/* Asserts that this thread holds the lock for writing. */
static inline void leati_assert_write_locked(const struct leati_rwlock *lock)
    LEATI_THREAD_SAFETY(assert_capability(*lock))
{
    (void)lock;
    LEATI_IF_CHECKED(leati_assert(leati_rwlock_is_mine(lock)));
}

/* Asserts that this thread holds the lock for writing, or that some thread holds it for reading (which thread is
 * not recorded). */
static inline void leati_assert_read_locked(const struct leati_rwlock *lock)
    LEATI_THREAD_SAFETY(assert_shared_capability(*lock))
{
    (void)lock;
    LEATI_IF_CHECKED(leati_assert(leati_rwlock_is_mine(lock) || leati_rwlock_is_shared(lock)));
}

/* ---- mutexes ---- */

/* Returns 0 or an error number. */
static inline int leati_lock_init(struct leati_lock *lock)
{
    *lock = (struct leati_lock)LEATI_LOCK_INITIALIZER;
    return pthread_mutex_init(&lock->mutex, NULL);
}

/* Initializes a recursive lock: its owner may take it again, and must release it as often as it took it. */
static inline int leati_lock_init_recursive(struct leati_lock *lock)
{
    pthread_mutexattr_t recursive;
    int error;

    *lock = (struct leati_lock)LEATI_LOCK_INITIALIZER;
    LEATI_IF_CHECKED(lock->is_recursive = true);
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    error = pthread_mutex_init(&lock->mutex, &recursive);
    pthread_mutexattr_destroy(&recursive);
    return error;
}

static inline void leati_lock_destroy(struct leati_lock *lock)
{
    LEATI_IF_CHECKED(leati_assert(!lock->depth));
    pthread_mutex_destroy(&lock->mutex);
}

static inline void leati_lock(struct leati_lock *lock) LEATI_ACQUIRE(*lock) LEATI_NO_THREAD_SAFETY
{
    LEATI_IF_CHECKED(leati_assert(lock->is_recursive || !leati_lock_is_mine(lock)));
    pthread_mutex_lock(&lock->mutex);
    LEATI_IF_CHECKED(leati_lock_taken(lock));
}

/* Takes the lock if it is free. Returns true if it took the lock. */
static inline bool leati_trylock(struct leati_lock *lock) LEATI_TRY_ACQUIRE(true, *lock) LEATI_NO_THREAD_SAFETY
{
    if (pthread_mutex_trylock(&lock->mutex))
        return false;
    LEATI_IF_CHECKED(leati_lock_taken(lock));
    return true;
}

static inline void leati_unlock(struct leati_lock *lock) LEATI_RELEASE(*lock) LEATI_NO_THREAD_SAFETY
{
    LEATI_IF_CHECKED(leati_lock_given_back(lock));
    pthread_mutex_unlock(&lock->mutex);
}

/* Releases the lock, waits for condition, and takes the lock again. May also return without a signal. */
static inline void leati_cond_wait(pthread_cond_t *condition, struct leati_lock *lock)
    LEATI_REQUIRES(*lock) LEATI_NO_THREAD_SAFETY
{
    LEATI_IF_CHECKED(leati_assert(lock->depth == 1));
    LEATI_IF_CHECKED(leati_lock_given_back(lock));
    pthread_cond_wait(condition, &lock->mutex);
    LEATI_IF_CHECKED(leati_lock_taken(lock));
}

/* ---- read-write locks ---- */

static inline void leati_write_lock(struct leati_rwlock *lock) LEATI_ACQUIRE(*lock) LEATI_NO_THREAD_SAFETY
{
    LEATI_IF_CHECKED(leati_assert(!leati_rwlock_is_mine(lock)));
    pthread_rwlock_wrlock(&lock->rwlock);
    LEATI_IF_CHECKED(atomic_store_explicit(&lock->writer, pthread_self(), memory_order_relaxed));
}

static inline void leati_write_unlock(struct leati_rwlock *lock) LEATI_RELEASE(*lock) LEATI_NO_THREAD_SAFETY
{
    LEATI_IF_CHECKED(leati_assert(leati_rwlock_is_mine(lock)));
    LEATI_IF_CHECKED(atomic_store_explicit(&lock->writer, (pthread_t)0, memory_order_relaxed));
    pthread_rwlock_unlock(&lock->rwlock);
}

static inline void leati_read_lock(struct leati_rwlock *lock) LEATI_ACQUIRE_SHARED(*lock) LEATI_NO_THREAD_SAFETY
{
    LEATI_IF_CHECKED(leati_assert(!leati_rwlock_is_mine(lock)));
    pthread_rwlock_rdlock(&lock->rwlock);
    LEATI_IF_CHECKED((void)atomic_fetch_add_explicit(&lock->readers, 1, memory_order_relaxed));
}

static inline void leati_read_unlock(struct leati_rwlock *lock) LEATI_RELEASE_SHARED(*lock) LEATI_NO_THREAD_SAFETY
{
    LEATI_IF_CHECKED(leati_assert(leati_rwlock_is_shared(lock)));
    LEATI_IF_CHECKED((void)atomic_fetch_sub_explicit(&lock->readers, 1, memory_order_relaxed));
    pthread_rwlock_unlock(&lock->rwlock);
}

#endif
