/*
 * fault_handler.h - going on after an access that faults.
 *
 * A program may unmap memory, take its rights away or truncate a mapped file while another thread copies from it.
 * The system then sends SIGSEGV or SIGBUS to the thread that touched the page. leati_fault_handler_run() runs code
 * whose accesses may end so. The handlers are installed at its first use and stay; all other faults go on to those
 * that were there before.
 *
 * Whoever installs a handler later and does not pass on what is not his, takes the faults of
 * leati_fault_handler_run() too. And a fault that an earlier handler would have repaired, such as that of a pager
 * in user space, is caught here first.
 */
#ifndef LEATI_FAULT_HANDLER_H
#define LEATI_FAULT_HANDLER_H

#include "base/quick.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leati_fault_range {
    uintptr_t base;
    size_t bytes;
};

/*
 * Runs work(context) on this thread. True when it came to its end; false when an access to one of the ranges
 * faulted: work was then left where it was, so it must hold nothing, and *fault is an address in that range.
 * Costs some ten nanoseconds. A fault that is blocked ends the process, so the first use by a thread, and the
 * first after each leati_fault_handler_recheck_mask(), unblocks SIGSEGV and SIGBUS there, which costs a system
 * call more.
 */
bool leati_fault_handler_run(const struct leati_fault_range ranges[2], void (*work)(void *context), void *context,
                             uintptr_t *fault);

/* This thread has certainly not blocked SIGSEGV and SIGBUS since leat unblocked them. */
extern LEATI_QUICK_TLS bool leati_fault_signals_unblocked;

/* Code of the program ran on this thread, which may have blocked signals: called where a call of the API begins
 * and where a host function returns. */
static inline void leati_fault_handler_recheck_mask(void)
{
    leati_fault_signals_unblocked = false;
}

/* Returns true if a handler of leat's is the one that gets SIGSEGV now. Somebody else's may or may not pass it on.
 */
bool leati_fault_handler_is_installed(void);

/* Sets who is asked first about each fault: true says that the access may run again, as it is. The handlers are
 * installed then. repair runs inside of a handler. */
void leati_fault_handler_set_repair(bool (*repair)(const siginfo_t *info, const void *ucontext));

/* Installs another handler of leat's for SIGSEGV, over whatever is there, which goes to *earlier. For one handler.
 * It calls the next two functions and passes the rest on. */
void leati_fault_handler_install_over(void (*handler)(int signal_number, siginfo_t *info, void *ucontext),
                                      struct sigaction *earlier);

/* For leat's other handlers of these signals, to be called before the next one: was it repaired? */
bool leati_fault_handler_repaired(const siginfo_t *info, const void *ucontext);

/* For leat's other handlers of these signals, to be called first: does not return if the fault is in a guarded
 * range.
 */
void leati_fault_handler_take(const siginfo_t *info, const void *ucontext);

/*
 * What the core knows of an address within memory of a driver: for what a handler says of a wrong access. Fills
 * *base and *bytes of the user's allocation, or sets *bytes to 0 where the address is in a pool, but not
 * allocated; false when it is in no pool. Set by the core before it uses a driver's virtual memory, NULL before
 * that. Takes no lock, so that signal handlers may call it.
 */
typedef bool (*leati_address_function)(const void *address, uintptr_t *base, size_t *bytes);
extern _Atomic(leati_address_function) leati_describe_address;

#endif
