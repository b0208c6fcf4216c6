/*
 * stack.h - fibers: stacks between which one host thread switches.
 *
 * Each waiting thread of a block keeps a fiber (block.c). A switch saves the callee-saved registers and loads
 * those of the other stack, without a system call. It is written in assembly for x86-64 and AArch64; other
 * processors, and a build with LEATC_STACK_UCONTEXT, use swapcontext(). Rounding mode and signal mask are
 * properties of the host thread and are not switched.
 *
 * A fiber is used only by the host thread that took it. Each stack has a guard page below it. If the program
 * contains AddressSanitizer or ThreadSanitizer, they are informed of each switch, even if this library was built
 * without them.
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
    void *sp; /* points to the saved registers */
#endif
};

struct leatc_fiber {
    struct leatc_context context;
    struct leatc_fiber *next; /* link of the list that the fiber is in; a caller that has taken the fiber may use
                               * it */
    char *mapping;            /* NULL: a host thread's own stack */
    size_t mapping_bytes;
    void (*main)(void);
    bool begun; /* main() was called */

    /* For the sanitizers: stack bounds, fake stack, and ThreadSanitizer's handle. */
    const void *bottom;
    size_t stack_bytes;
    void *fake_stack, *known;
};

/* Initializes the fiber of the calling host thread's own stack, which must be the current one. */
void leatc_fiber_native(struct leatc_fiber *fiber);

/* Returns a suspended fiber. When it is switched to, it starts main(), or continues the call of main() that its
 * last user suspended. main() must not return. NULL: out of memory. */
struct leatc_fiber *leatc_fiber_take(void (*main)(void));

/* Puts a fiber into the calling thread's cache, for later takes with the same main(). abandoned: discard the
 * suspended call of main(), so that the next user starts a new one. */
void leatc_fiber_give_back(struct leatc_fiber *fiber, bool abandoned);

/* Suspends from, the current fiber, and resumes to. Returns when something switches back to from. */
void leatc_fiber_switch(struct leatc_fiber *from, struct leatc_fiber *to);

/* A return point on a host thread's own stack. */
struct leatc_home {
    struct leatc_context context;
    struct leatc_fiber *native;
    bool from_other;
};

/* Calls function(argument) on native, the current fiber. Returns true if the call ended by leatc_fiber_go_home(),
 * which any fiber of this host thread may call (from: the current one); then all functions called since are
 * discarded without returning. */
bool leatc_fiber_call(struct leatc_home *home, struct leatc_fiber *native, void (*function)(void *),
                      void *argument);
_Noreturn void leatc_fiber_go_home(struct leatc_home *home, struct leatc_fiber *from);

/* Default and maximum stack size; see leatc_stack_want(). */
#define LEATC_STACK_BYTES ((size_t)256 << 10)
#define LEATC_STACK_MOST_BYTES ((size_t)1 << 30)

#endif
