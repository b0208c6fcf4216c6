/*
 * stack.h - declares fibers: stacks between which one host thread switches.
 *
 * Each thread of a block that waits has a fiber (block.c). A switch saves the callee-saved registers and loads
 * those of the other stack, without a system call. It is written in assembly for x86-64 and AArch64. On other
 * processors, and if LEATC_STACK_UCONTEXT is defined, it calls swapcontext(). The rounding mode and the signal
 * mask belong to the host thread, so a switch does not change them.
 *
 * Only the host thread that took a fiber uses it. Each stack has a guard page below it, apart from some on old
 * kernels (stack.c). If the program contains AddressSanitizer or ThreadSanitizer, the library informs it of each
 * switch, even if the library was built without it.
 */
#ifndef LEATC_STACK_H
#define LEATC_STACK_H

#include <stdbool.h>
#include <stddef.h>

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(LEATC_STACK_UCONTEXT)
#define LEATC_STACK_UCONTEXT
#endif
#ifdef LEATC_STACK_UCONTEXT
#include <ucontext.h>
#endif

/* The state of a suspended stack. */
struct leatc_context {
#ifdef LEATC_STACK_UCONTEXT
    ucontext_t saved;
#else
    void *sp; /* the stack pointer; the saved registers lie at this address */
#endif
};

struct leatc_fiber {
    struct leatc_context context;
    struct leatc_fiber *next; /* next fiber of the list that has this one; the owner of a fiber may use it for
                               * lists of its own */
    char *mapping;            /* start of the mapping; NULL: this is a host thread's own stack */
    size_t mapping_bytes;
    void (*main)(void);
    bool begun; /* main() was called */

    /* For the sanitizers: the bounds of the stack, its fake stack, and the handle of ThreadSanitizer. */
    const void *bottom;
    size_t stack_bytes;
    void *fake_stack, *known;
};

/* Initializes the fiber of the calling host thread's own stack. The thread must run on that stack. */
void leatc_fiber_native(struct leatc_fiber *fiber);

/* Returns a suspended fiber, or NULL if out of memory. A switch to the fiber starts main(), or continues the call
 * of main() that its last user suspended. main() must not return. */
struct leatc_fiber *leatc_fiber_take(void (*main)(void));

/* Puts a fiber into the calling thread's cache, for later calls of leatc_fiber_take() with the same main().
 * abandoned: discard the suspended call of main(), so that the next user of the fiber starts a new call. */
void leatc_fiber_give_back(struct leatc_fiber *fiber, bool abandoned);

/* Suspends the current fiber, from, and continues the fiber to. Returns after another fiber has switched back to
 * from. */
void leatc_fiber_switch(struct leatc_fiber *from, struct leatc_fiber *to);

/* The state to which leatc_fiber_go_home() returns on a host thread's own stack. */
struct leatc_home {
    struct leatc_context context;
    struct leatc_fiber *native;
    bool from_other;
};

/* Calls function(argument) on native, which must be the current fiber. Returns true if leatc_fiber_go_home() has
 * ended the call. Any fiber of this host thread may call leatc_fiber_go_home(), with itself as from; all functions
 * called since leatc_fiber_call() are then discarded without returning. */
bool leatc_fiber_call(struct leatc_home *home, struct leatc_fiber *native, void (*function)(void *),
                      void *argument);
_Noreturn void leatc_fiber_go_home(struct leatc_home *home, struct leatc_fiber *from);

/* Default and maximum size of stacks; leatc_stack_want() sets the size. */
#define LEATC_STACK_BYTES ((size_t)256 << 10)
#define LEATC_STACK_MOST_BYTES ((size_t)1 << 30)

#endif
