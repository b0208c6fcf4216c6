/*
 * keys.c - a library for LD_PRELOAD on processors without memory protection keys. It emulates pkey_alloc(),
 * pkey_mprotect() and pkey_set(), so that strict mode (LEAT_STRICT=1) can be tested everywhere.
 *
 * Memory with the key is mapped without access for the whole process. When a thread that has the right to the key
 * touches this memory, the fault handler makes it accessible. It stays accessible until all such threads have
 * taken their next lock or given up the right. The CPU device's threads take a lock before any other thread can
 * learn that their work is done. So a permitted access always succeeds. A forbidden access always faults while the
 * device is idle; it is missed only while the device works on the same memory.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { THE_KEY = 1, RANGES_MOST = 1 << 16 };

/* Defines real_NAME(), which returns the function NAME that the program would have called without this library. */
#define REAL(name)                                                                                                \
    static __typeof__(name) *real_##name(void)                                                                    \
    {                                                                                                             \
        static __typeof__(name) *_Atomic kept;                                                                    \
        __typeof__(name) *found = atomic_load_explicit(&kept, memory_order_relaxed);                              \
                                                                                                                  \
        if (!found) {                                                                                             \
            *(void **)&found = dlsym(RTLD_NEXT, #name);                                                           \
            atomic_store_explicit(&kept, found, memory_order_relaxed);                                            \
        }                                                                                                         \
        return found;                                                                                             \
    }

REAL(mmap)
REAL(munmap)
REAL(sigaction)
REAL(signal)
REAL(pthread_mutex_lock)

/* A range of addresses that has the key. */
struct range {
    uintptr_t base, end;
    int rights;
    bool open;
};

static atomic_bool locked; /* spin lock of ranges, count, open_count and at_work; the handler takes it too */
static struct range *ranges;
static size_t count, open_count;
static unsigned at_work; /* number of threads that made memory accessible and have not taken a lock since */
static struct sigaction next;
static atomic_bool there; /* the key exists and the handler is installed */

#define OWN _Thread_local __attribute__((tls_model("initial-exec")))
static OWN bool has_right, has_opened;

static void lock(void)
{
    while (atomic_exchange_explicit(&locked, true, memory_order_acquire))
        sched_yield();
}

static void unlock(void)
{
    atomic_store_explicit(&locked, false, memory_order_release);
}

static void protect(const struct range *range, int rights)
{
    if (mprotect((void *)range->base, range->end - range->base, rights))
        abort();
}

/* ---- ranges; the caller holds the lock ---- */

static void add(uintptr_t base, uintptr_t end, int rights, bool open)
{
    if (base >= end)
        return;
    if (!ranges)
        ranges = real_mmap()(NULL, RANGES_MOST * sizeof *ranges, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ranges == MAP_FAILED || count == RANGES_MOST)
        abort();
    ranges[count++] = (struct range){base, end, rights, open};
    open_count += open;
}

/* Removes the addresses from base to end from all ranges. */
static void cut(uintptr_t base, uintptr_t end)
{
    for (size_t i = 0; i < count;) {
        struct range old = ranges[i];

        if (old.end <= base || old.base >= end) {
            i++;
            continue;
        }
        open_count -= old.open;
        ranges[i] = ranges[--count];
        add(old.base, old.base < base ? base : old.base, old.rights, old.open);
        add(old.end > end ? end : old.end, old.end, old.rights, old.open);
    }
}

/* ---- threads at work ---- */

/* Called by the fault handler. Returns true if this thread may access the address, which is then accessible. The
 * access runs again when the handler returns. */
static bool open_for_this_thread(const siginfo_t *info, const ucontext_t *context)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    bool opened = false;
    int needed = PROT_READ;

    if (!has_right || info->si_code <= 0)
        return false;
#if defined(__x86_64__)
    if (context->uc_mcontext.gregs[REG_ERR] & 2)
        needed = PROT_WRITE;
#endif
    lock();
    for (size_t i = 0; i < count && !opened; i++) {
        struct range *range = &ranges[i];

        if (address < range->base || address >= range->end || !(range->rights & needed))
            continue;
        opened = true;
        if (!range->open) {
            protect(range, range->rights);
            range->open = true;
            open_count++;
        }
    }
    if (opened && !has_opened) {
        has_opened = true;
        at_work++;
    }
    unlock();
    return opened;
}

/* Called when this thread has finished its work for now. When the last such thread calls it, all ranges become
 * inaccessible. */
static void rest(void)
{
    if (!has_opened)
        return;
    has_opened = false;
    lock();
    if (--at_work == 0)
        for (size_t i = 0; i < count && open_count; i++)
            if (ranges[i].open) {
                protect(&ranges[i], PROT_NONE);
                ranges[i].open = false;
                open_count--;
            }
    unlock();
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    rest();
    return real_pthread_mutex_lock()(mutex);
}

/* ---- the fault handler, which runs before all others ---- */

static void on_fault(int number, siginfo_t *info, void *context)
{
    bool had_right = has_right;
    struct sigaction action;
    sigset_t mask;

    if (open_for_this_thread(info, context))
        return;
    action = next;
    if (!(action.sa_flags & SA_SIGINFO) && (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)) {
        real_sigaction()(number, &action, NULL);
        if (info->si_code <= 0)
            raise(number);
        return;
    }
    if (action.sa_flags & (int)SA_RESETHAND)
        next = (struct sigaction){.sa_handler = SIG_DFL};
    mask = action.sa_mask;
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    /* Handlers run without the right. Only a return from the handler restores it; siglongjmp() does not. */
    has_right = false;
    if (action.sa_flags & SA_SIGINFO)
        action.sa_sigaction(number, info, context);
    else
        action.sa_handler(number);
    has_right = had_right;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    struct sigaction before;

    if (number != SIGSEGV || !atomic_load(&there))
        return real_sigaction()(number, action, old);
    before = next;
    if (action)
        next = *action;
    if (old)
        *old = before;
    return 0;
}

sighandler_t signal(int number, sighandler_t handler)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

    if (number != SIGSEGV || !atomic_load(&there))
        return real_signal()(number, handler);
    sigaction(number, &action, &old);
    return old.sa_handler;
}

/* ---- the key ---- */

int pkey_alloc(unsigned flags, unsigned rights)
{
    struct sigaction own;

    if (flags || rights & ~(unsigned)(PKEY_DISABLE_ACCESS | PKEY_DISABLE_WRITE) || atomic_load(&there)) {
        errno = flags ? EINVAL : ENOSPC;
        return -1;
    }
    memset(&own, 0, sizeof own);
    own.sa_sigaction = on_fault;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&own.sa_mask);
    real_sigaction()(SIGSEGV, &own, &next);
    has_right = !(rights & PKEY_DISABLE_ACCESS);
    atomic_store(&there, true);
    return THE_KEY;
}

int pkey_set(int key, unsigned rights)
{
    if (key != THE_KEY) {
        errno = EINVAL;
        return -1;
    }
    has_right = !(rights & PKEY_DISABLE_ACCESS);
    if (!has_right)
        rest();
    return 0;
}

int pkey_mprotect(void *ptr, size_t bytes, int rights, int key)
{
    struct range range = {.base = (uintptr_t)ptr, .end = (uintptr_t)ptr + bytes};

    if (key != THE_KEY) {
        errno = EINVAL;
        return -1;
    }
    lock();
    cut(range.base, range.end);
    add(range.base, range.end, rights, false);
    protect(&range, PROT_NONE);
    unlock();
    return 0;
}

/* Mapping or unmapping addresses removes the key from them. */
void *mmap(void *ptr, size_t bytes, int rights, int flags, int file, off_t offset)
{
    void *mapped = real_mmap()(ptr, bytes, rights, flags, file, offset);

    if (mapped != MAP_FAILED && atomic_load(&there)) {
        lock();
        cut((uintptr_t)mapped, (uintptr_t)mapped + bytes);
        unlock();
    }
    return mapped;
}

int munmap(void *ptr, size_t bytes)
{
    if (atomic_load(&there)) {
        lock();
        cut((uintptr_t)ptr, (uintptr_t)ptr + bytes);
        unlock();
    }
    return real_munmap()(ptr, bytes);
}
