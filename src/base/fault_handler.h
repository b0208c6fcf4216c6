/*
 * fault_handler.h - recovers from memory accesses that fault.
 *
 * A program may unmap or protect memory, or truncate a mapped file, while another thread copies from it. The
 * system then sends SIGSEGV or SIGBUS to the thread that accessed the page. leati_fault_handler_run() runs code
 * whose accesses may fault in this way. The handlers are installed at its first use and stay; they pass all other
 * faults on to the handlers that were installed before.
 *
 * A SIGSEGV or SIGBUS handler that is installed later must chain to ours, or leati_fault_handler_run() stops
 * working. A handler that was installed earlier and repairs faults, such as a pager in user space, does not see
 * faults inside leati_fault_handler_run(): ours catches them first.
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
 * Runs work(context) on this thread. Returns true if work returned. Returns false if an access to one of the
 * ranges faulted; *fault is then the address in that range. work is left by a jump at the fault, so it must hold
 * no locks or memory. Costs some ten nanoseconds. A fault while its signal is blocked ends the process, so the
 * first use by a thread, and the first after each leati_fault_handler_recheck_mask(), unblocks SIGSEGV and SIGBUS
 * with one more system call.
 */
bool leati_fault_handler_run(const struct leati_fault_range ranges[2], void (*work)(void *context), void *context,
                             uintptr_t *fault);

/* True if SIGSEGV and SIGBUS are certainly not blocked on this thread. */
extern LEATI_QUICK_TLS bool leati_fault_signals_unblocked;

/* Call this at the start of each API call and after each host function, because the program's code may have
 * blocked signals on this thread. */
static inline void leati_fault_handler_recheck_mask(void)
{
    leati_fault_signals_unblocked = false;
}

/* Returns true if the process's current SIGSEGV handler is one of leat's. Any other handler may or may not pass
 * faults on to leat's. */
bool leati_fault_handler_is_installed(void);

/* Returns true if the process's current SIGBUS handler is leat's, so that leati_fault_handler_run() sees such a
 * fault. */
bool leati_fault_handler_sees_bus_errors(void);

/* Installs the handlers, and sets a function that they call first for each fault. That function runs inside a
 * signal handler. It returns true if it has repaired the fault, so that the access can be retried. */
void leati_fault_handler_set_repair(bool (*repair)(const siginfo_t *info, const void *ucontext));

/* Installs leat's handlers if that was not done yet, then leat's second SIGSEGV handler (there can be only one) over
 * them, and stores the handler that it replaces in *earlier. The second handler must call the next three
 * functions. */
void leati_fault_handler_install_over(void (*handler)(int signal_number, siginfo_t *info, void *ucontext),
                                      struct sigaction *earlier);

/* The second handler calls this before it passes a fault on. Returns true if the function of
 * leati_fault_handler_set_repair() has repaired the fault. */
bool leati_fault_handler_repaired(const siginfo_t *info, const void *ucontext);

/* The second handler calls this before it reports a fault. Does not return if the fault is in a range of
 * leati_fault_handler_run() on this thread. */
void leati_fault_handler_take(const siginfo_t *info, const void *ucontext);

/* Calls the earlier handler as the system would. The second handler calls this for every signal that the two
 * functions above did not handle, also for those that were sent, such as by kill(). */
void leati_fault_handler_pass_on(const struct sigaction *earlier, int signal_number, siginfo_t *info,
                                 void *ucontext);

/*
 * Describes an address in driver memory, for a handler's message about a wrong access. Fills *base and *bytes of
 * the user's allocation; sets *bytes to 0 if the address is in a pool but not allocated. Returns false if the
 * address is in no pool. Takes no lock, so signal handlers may call it. The variable is NULL until the core sets
 * it, which happens before the core first uses a driver's virtual memory.
 */
typedef bool (*leati_address_function)(const void *address, uintptr_t *base, size_t *bytes);
extern _Atomic(leati_address_function) leati_describe_address;

#endif
