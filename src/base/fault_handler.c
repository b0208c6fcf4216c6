/* fault_handler.c - see fault_handler.h. */
#include "base/fault_handler.h"

#include "base/assert.h"
#include "base/error.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

_Atomic(leati_address_function) leati_describe_address;

struct section {
    sigjmp_buf back;
    const struct leati_fault_range *ranges;
    uintptr_t fault;
    struct section *outer; /* the section around this section, or NULL */
    unsigned quiet_depth;  /* leati_error_quiet_depth when the section began; restored after a fault */
};

/* LEATI_QUICK_TLS, because a signal handler must not call __tls_get_addr(). */
static LEATI_QUICK_TLS struct section *volatile current;
LEATI_QUICK_TLS bool leati_fault_signals_unblocked;

static struct sigaction earlier_segv, earlier_bus;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- faults of sections ---- */

static bool find_in(const struct leati_fault_range ranges[2], uintptr_t address)
{
    return address - ranges[0].base < ranges[0].bytes || address - ranges[1].base < ranges[1].bytes;
}

/* Returns true if the fault is in one of the ranges, and sets *fault to its address. x86-64 does not report the
 * address of an access to a non-canonical address (with some but not all of the upper bits set); in that case
 * *fault is the first non-canonical address in a range. */
static bool find_fault(const struct leati_fault_range ranges[2], const siginfo_t *info, uintptr_t *fault)
{
    *fault = (uintptr_t)info->si_addr;
#if defined(__x86_64__)
    if (info->si_signo == SIGSEGV && info->si_code == SI_KERNEL && !info->si_addr) {
        const uintptr_t lower_half = (uintptr_t)1 << 47;

        for (int i = 0; i < 2; i++) {
            uintptr_t last = ranges[i].base + ranges[i].bytes - 1;

            if (ranges[i].bytes && last >= lower_half) {
                *fault = ranges[i].base >= lower_half ? ranges[i].base : lower_half;
                return true;
            }
        }
        return false;
    }
#endif
    /* Signals sent by kill(), and reports of broken memory that was not accessed yet, are not caused by an access.
     */
    if (info->si_code <= 0 || (info->si_signo == SIGBUS && info->si_code == BUS_MCEERR_AO))
        return false;
    return find_in(ranges, *fault);
}

void leati_fault_handler_take(const siginfo_t *info, const void *ucontext)
{
    struct section *section = current;
    uintptr_t fault;
    sigset_t mask;

    if (!section || !find_fault(section->ranges, info, &fault))
        return;
    /* Restore the signal mask from before the signal. The kernel fills only the part of uc_sigmask that it uses,
     * which is smaller than a sigset_t. */
    sigemptyset(&mask);
    memcpy(&mask, &((const ucontext_t *)ucontext)->uc_sigmask, (NSIG - 1) / 8);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    section->fault = fault;
    siglongjmp(section->back, 1);
}

/* ---- faults of other code ---- */

void leati_fault_handler_pass_on(const struct sigaction *earlier, int signal_number, siginfo_t *info,
                                 void *ucontext)
{
    sigset_t mask = earlier->sa_mask;

    if (!(earlier->sa_flags & SA_SIGINFO) && (earlier->sa_handler == SIG_DFL || earlier->sa_handler == SIG_IGN)) {
        /* Restore the earlier disposition and return. The processor then retries the access, and the new signal
         * kills the process (even with SIG_IGN, because the kernel forces a signal for a fault). A signal that was
         * sent, e.g. by kill(), has no access to retry. Ignore it here, or raise it again, so that it is delivered
         * after this handler has returned. */
        if (info->si_code <= 0 && earlier->sa_handler == SIG_IGN)
            return;
        sigaction(signal_number, earlier, NULL);
        if (info->si_code <= 0)
            raise(signal_number);
        return;
    }
    /* Call the earlier handler as the kernel would: apply its flags and its mask. The signal itself is already
     * blocked. */
    if (earlier->sa_flags & (int)SA_RESETHAND)
        signal(signal_number, SIG_DFL);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    if (earlier->sa_flags & SA_NODEFER) {
        sigemptyset(&mask);
        sigaddset(&mask, signal_number);
        pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
    }
    if (earlier->sa_flags & SA_SIGINFO)
        earlier->sa_sigaction(signal_number, info, ucontext);
    else
        earlier->sa_handler(signal_number);
}

static bool (*_Atomic repairer)(const siginfo_t *info, const void *ucontext);

bool leati_fault_handler_repaired(const siginfo_t *info, const void *ucontext)
{
    /* Acquire: pairs with the release in leati_fault_handler_set_repair(). */
    bool (*repair)(const siginfo_t *, const void *) = atomic_load_explicit(&repairer, memory_order_acquire);

    return repair && repair(info, ucontext);
}

static void on_fault(int signal_number, siginfo_t *info, void *ucontext)
{
    if (leati_fault_handler_repaired(info, ucontext))
        return;
    leati_fault_handler_take(info, ucontext);
    leati_fault_handler_pass_on(signal_number == SIGSEGV ? &earlier_segv : &earlier_bus, signal_number, info,
                                ucontext);
}

static void install(int signal_number, void (*handler)(int, siginfo_t *, void *), struct sigaction *earlier)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    /* Read the earlier handler first, because our handler may need it as soon as ours is installed. */
    sigaction(signal_number, NULL, earlier);
    sigaction(signal_number, &action, NULL);
}

static void install_both(void)
{
    install(SIGSEGV, on_fault, &earlier_segv);
    install(SIGBUS, on_fault, &earlier_bus);
}

/* leat's second handler, which was installed over on_fault (leati_fault_handler_install_over()), or NULL. */
static void (*_Atomic other)(int signal_number, siginfo_t *info, void *ucontext);

void leati_fault_handler_install_over(void (*handler)(int signal_number, siginfo_t *info, void *ucontext),
                                      struct sigaction *earlier)
{
    /* Relaxed: a thread that does not see the new value takes our second handler for one of the program, which
     * only makes copies slower. */
    atomic_store_explicit(&other, handler, memory_order_relaxed);
    pthread_once(&once, install_both);
    install(SIGSEGV, handler, earlier);
}

/* ---- sections ---- */

LEATI_HOT static void make_ready(void)
{
    sigset_t both;

    pthread_once(&once, install_both);
    sigemptyset(&both);
    sigaddset(&both, SIGSEGV);
    sigaddset(&both, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &both, NULL);
    leati_fault_signals_unblocked = true;
}

void leati_fault_handler_set_repair(bool (*repair)(const siginfo_t *info, const void *ucontext))
{
    atomic_store_explicit(&repairer, repair, memory_order_release);
    pthread_once(&once, install_both);
}

LEATI_HOT bool leati_fault_handler_is_installed(void)
{
    struct sigaction now;

    pthread_once(&once, install_both);
    return sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
           (now.sa_sigaction == on_fault ||
            now.sa_sigaction == atomic_load_explicit(&other, memory_order_relaxed));
}

bool leati_fault_handler_sees_bus_errors(void)
{
    struct sigaction now;

    pthread_once(&once, install_both);
    return sigaction(SIGBUS, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault;
}

LEATI_HOT bool leati_fault_handler_run(const struct leati_fault_range ranges[2], void (*work)(void *context),
                                       void *context, uintptr_t *fault)
{
    struct section section = {.ranges = ranges, .outer = current, .quiet_depth = leati_error_quiet_depth};

    leati_assert(work && fault && ranges[0].base + ranges[0].bytes >= ranges[0].base);
    if (!leati_fault_signals_unblocked)
        make_ready();
    /* 0: do not save the signal mask, which would cost a system call. leati_fault_handler_take() restores it from
     * the signal's context. */
    if (sigsetjmp(section.back, 0)) {
        current = section.outer;
        leati_error_quiet_depth = section.quiet_depth;
        *fault = section.fault;
        return false;
    }
    /* Compiler barriers: the accesses of work() must stay between the two stores to current. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    current = &section;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    work(context);
    leati_assert(current == &section);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    current = section.outer;
    return true;
}
