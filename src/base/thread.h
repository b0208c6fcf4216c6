/*
 * thread.h - how leat starts threads of its own.
 */
#ifndef LEATI_THREAD_H
#define LEATI_THREAD_H

#include <pthread.h>

/*
 * Starts a thread, as pthread_create() does. Signals of the program never run their handlers there: every signal
 * is blocked but those that a thread causes by its own instructions (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
 * SIGSYS). A blocked one of these would end the process instead of reaching leat's handler (base/fault_handler.h)
 * or, from a kernel or a host function, the program's. Returns 0 or an error number.
 */
int leati_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

/* Tells the processor that this thread looks at memory again and again until another thread changes it. */
static inline void leati_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

#endif
