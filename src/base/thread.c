/* thread.c - see thread.h. */
#include "base/thread.h"

#include <signal.h>

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
