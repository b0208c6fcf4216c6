/*
 * thread.h - starts leat's own threads.
 */
#ifndef LEATI_THREAD_H
#define LEATI_THREAD_H

#include <pthread.h>

/*
 * Starts a thread, as pthread_create() does, and returns 0 or an error number. All signals are blocked on the new
 * thread, so that the program's signal handlers never run there. Signals that a thread causes by its own
 * instructions (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS) stay unblocked. If such a signal were blocked,
 * it would end the process instead of reaching leat's handler (base/fault_handler.h), or the program's handler if
 * a kernel or host function caused the signal.
 */
int leati_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

/* Tells the processor that this thread spins until another thread changes memory. */
static inline void leati_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

#endif
