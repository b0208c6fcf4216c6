/* thread.c - see thread.h. */
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What sched_getattr() and sched_setattr() take (sched_setattr(2)), in its first version. The C library of Debian
 * 12 has neither of the calls, and the kernel's header cannot be included beside sched.h. */
struct attributes {
    uint32_t bytes;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns; /* of the default policy; the kernel's name is sched_runtime */
    uint64_t deadline_ns;
    uint64_t period_ns;
};
_Static_assert(sizeof(struct attributes) == 48, "the size of the first version");

void leati_thread_take_short_slices(void)
{
    struct attributes attributes = {.bytes = sizeof attributes};

    /* Keep all else as it is, such as the nice value that the program chose. A failure does no harm. */
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) || attributes.policy != SCHED_OTHER)
        return;
    attributes.bytes = sizeof attributes;
    attributes.slice_ns = LEATI_THREAD_SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

int leati_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    pthread_attr_t attributes;
    sigset_t blocked;
    int error;

    sigfillset(&blocked);
    for (unsigned i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&blocked, own[i]);
    error = pthread_attr_init(&attributes);
    if (error)
        return error;
    /* Set the mask as a thread attribute, so that the thread never runs with the mask of its creator. */
    error = pthread_attr_setsigmask_np(&attributes, &blocked);
    if (!error)
        error = pthread_create(thread, &attributes, run, argument);
    pthread_attr_destroy(&attributes);
    return error;
}
