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

/*
 * Asks the scheduler for the shortest time slices for the calling thread (LEATI_THREAD_SLICE_NS), where it gives
 * slices of that kind: Linux 6.12 or later, and a thread of the default policy. Elsewhere nothing changes.
 *
 * leat's threads have short work. When they wake up and every processor runs another thread, the scheduler lets a
 * thread with a shorter slice preempt one with a longer slice, which it otherwise does at its next tick, up to 4
 * ms later. PyTorch's threads, for example, spin on all processors for some ms after each parallel loop. The share
 * of the processors that a thread gets does not change.
 */
void leati_thread_take_short_slices(void);

/* The shortest slice that the scheduler accepts. */
#define LEATI_THREAD_SLICE_NS 100000u

/* Tells the processor that this thread spins until another thread changes memory. */
static inline void leati_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

#endif
