/* stack.c - switches contexts, and keeps a cache of stacks for each host thread. */
#include "base/lock.h"
#include "engine/stack.h"

#include "engine/inside.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- contexts ---------------------------------------------------------------------------------------------- */

/* The first function that runs on a new stack. argument is the fiber. */
static void begin_fiber(void *argument);

#ifndef LEATC_STACK_UCONTEXT

/*
 * leatc_context_switch(&from->sp, to->sp) pushes the callee-saved registers, stores the stack pointer in from,
 * loads the stack pointer of to, and pops the registers saved on that stack. leatc_context_call(&home->sp,
 * function, argument) saves the same state, calls the function on this stack and returns 0; if another context
 * switches to the saved state, it returns 1. leatc_context_begin is the first code on a new stack: it finds the
 * function and its argument in callee-saved registers. Unwinding ends at it.
 */
void leatc_context_switch(void **from, void *to) __attribute__((visibility("hidden")));
int leatc_context_call(void **home, void (*function)(void *), void *argument)
    __attribute__((visibility("hidden")));
void leatc_context_begin(void) __attribute__((visibility("hidden")));

#define FUNCTION(name, type)                                                                                      \
    ".p2align 4\n.globl " #name "\n.hidden " #name "\n.type " #name ", " type "\n" #name ":\n.cfi_startproc\n"
#define END(name) ".cfi_endproc\n.size " #name ", . - " #name "\n"

#if defined(__x86_64__)

#define PUSH(reg) "pushq %" #reg "\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset %" #reg ", 0\n"
#define POP(reg) "popq %" #reg "\n.cfi_adjust_cfa_offset -8\n.cfi_restore %" #reg "\n"
#define PUSH_ALL PUSH(rbp) PUSH(rbx) PUSH(r12) PUSH(r13) PUSH(r14) PUSH(r15)
#define POP_ALL POP(r15) POP(r14) POP(r13) POP(r12) POP(rbx) POP(rbp)

// clang-format off
__asm__(".pushsection .text\n"
        FUNCTION(leatc_context_switch, "@function")
        PUSH_ALL
        "movq %rsp, (%rdi)\n"
        "movq %rsi, %rsp\n"
        "movl $1, %eax\n"
        POP_ALL
        "ret\n"
        END(leatc_context_switch)
        FUNCTION(leatc_context_call, "@function")
        PUSH_ALL
        "movq %rsp, (%rdi)\n"
        "subq $8, %rsp\n.cfi_adjust_cfa_offset 8\n"
        "movq %rdx, %rdi\n"
        "callq *%rsi\n"
        "xorl %eax, %eax\n"
        "addq $8, %rsp\n.cfi_adjust_cfa_offset -8\n"
        POP_ALL
        "ret\n"
        END(leatc_context_call)
        FUNCTION(leatc_context_begin, "@function")
        ".cfi_undefined %rip\n"
        "movq %r12, %rdi\n"
        "callq *%rbx\n"
        "ud2\n"
        END(leatc_context_begin)
        ".popsection\n");
// clang-format on

/* Returns the initial stack pointer of a new stack, with the contents that leatc_context_switch() expects. top is
 * a multiple of 16. */
static void *first_frame(char *top, void (*function)(void *), void *argument)
{
    void **sp = (void **)(void *)top - 9;

    memset(sp, 0, 9 * sizeof *sp);
    sp[3] = argument;                                /* restored to r12 */
    memcpy(&sp[4], &function, sizeof function);      /* restored to rbx */
    sp[6] = (void *)(uintptr_t)&leatc_context_begin; /* return address of the switch */
    return sp;
}

#else

#define SAVE_ALL                                                                                                  \
    "stp x29, x30, [sp, #-160]!\n.cfi_def_cfa_offset 160\n.cfi_offset x29, -160\n.cfi_offset x30, -152\n"         \
    "stp x19, x20, [sp, #16]\nstp x21, x22, [sp, #32]\nstp x23, x24, [sp, #48]\nstp x25, x26, [sp, #64]\n"        \
    "stp x27, x28, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\n"        \
    "stp d14, d15, [sp, #144]\nmov x9, sp\nstr x9, [x0]\n"
#define RESTORE_ALL                                                                                               \
    "ldp d14, d15, [sp, #144]\nldp d12, d13, [sp, #128]\nldp d10, d11, [sp, #112]\nldp d8, d9, [sp, #96]\n"       \
    "ldp x27, x28, [sp, #80]\nldp x25, x26, [sp, #64]\nldp x23, x24, [sp, #48]\nldp x21, x22, [sp, #32]\n"        \
    "ldp x19, x20, [sp, #16]\n"                                                                                   \
    "ldp x29, x30, [sp], #160\n.cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\n"

// clang-format off
__asm__(".pushsection .text\n"
        FUNCTION(leatc_context_switch, "%function")
        SAVE_ALL
        "mov sp, x1\n"
        "mov w0, #1\n"
        RESTORE_ALL
        "ret\n"
        END(leatc_context_switch)
        FUNCTION(leatc_context_call, "%function")
        SAVE_ALL
        "mov x0, x2\n"
        "blr x1\n"
        "mov w0, #0\n"
        RESTORE_ALL
        "ret\n"
        END(leatc_context_call)
        FUNCTION(leatc_context_begin, "%function")
        ".cfi_undefined x30\n"
        "mov x0, x20\n"
        "blr x19\n"
        "brk #0\n"
        END(leatc_context_begin)
        ".popsection\n");
// clang-format on

/* Returns the initial stack pointer of a new stack, with the contents that leatc_context_switch() expects. top is
 * a multiple of 16. */
static void *first_frame(char *top, void (*function)(void *), void *argument)
{
    void **sp = (void **)(void *)top - 20;

    memset(sp, 0, 20 * sizeof *sp);
    sp[1] = (void *)(uintptr_t)&leatc_context_begin; /* x30: return address of the switch */
    memcpy(&sp[2], &function, sizeof function);      /* restored to x19 */
    sp[3] = argument;                                /* restored to x20 */
    return sp;
}

#endif

static void make_context(struct leatc_fiber *fiber, char *top)
{
    fiber->context.sp = first_frame(top, begin_fiber, fiber);
}

static void switch_context(struct leatc_context *from, struct leatc_context *to)
{
    leatc_context_switch(&from->sp, to->sp);
}

static bool call_context(struct leatc_context *home, void (*function)(void *), void *argument)
{
    return leatc_context_call(&home->sp, function, argument);
}

#else

/* makecontext() passes int arguments, so a pointer is passed as two halves. */
static void begin_context(unsigned high, unsigned low)
{
    begin_fiber((void *)(uintptr_t)((uint64_t)high << 32 | low));
}

static void make_context(struct leatc_fiber *fiber, char *top)
{
    uint64_t address = (uintptr_t)fiber;

    getcontext(&fiber->context.saved);
    fiber->context.saved.uc_stack.ss_sp = fiber->mapping;
    fiber->context.saved.uc_stack.ss_size = (size_t)(top - fiber->mapping);
    fiber->context.saved.uc_link = NULL;
    makecontext(&fiber->context.saved, (void (*)(void))begin_context, 2, (unsigned)(address >> 32),
                (unsigned)address);
}

static void switch_context(struct leatc_context *from, struct leatc_context *to)
{
    swapcontext(&from->saved, &to->saved);
}

static bool call_context(struct leatc_context *home, void (*function)(void *), void *argument)
{
    volatile bool called = false;

    getcontext(&home->saved);
    if (called)
        return true;
    called = true;
    function(argument);
    return false;
}

#endif

/* ---- fibers ------------------------------------------------------------------------------------------------ */

/* These functions exist only in programs that contain the sanitizers. */
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t bytes) __attribute__((weak));
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **bottom, size_t *bytes) __attribute__((weak));
void __asan_handle_no_return(void) __attribute__((weak));
void __asan_unpoison_memory_region(const volatile void *start, size_t bytes) __attribute__((weak));
void *__tsan_get_current_fiber(void) __attribute__((weak));
void *__tsan_create_fiber(unsigned flags) __attribute__((weak));
void __tsan_destroy_fiber(void *fiber) __attribute__((weak));
void __tsan_switch_to_fiber(void *fiber, unsigned flags) __attribute__((weak));

#define OF_THREAD static _Thread_local __attribute__((tls_model("initial-exec")))

/* The fiber that this thread has left last. When the next fiber is entered, AddressSanitizer tells its stack
 * bounds. */
OF_THREAD struct leatc_fiber *left;

static void leave(struct leatc_fiber *from, void **fake_stack, struct leatc_fiber *to)
{
    if (__sanitizer_start_switch_fiber) {
        left = from;
        __sanitizer_start_switch_fiber(fake_stack, to->bottom, to->stack_bytes);
    }
    if (__tsan_switch_to_fiber)
        __tsan_switch_to_fiber(to->known, 0);
}

static void enter(void *fake_stack)
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(fake_stack, &left->bottom, &left->stack_bytes);
}

void leatc_fiber_native(struct leatc_fiber *fiber)
{
    memset(fiber, 0, sizeof *fiber);
    if (__tsan_get_current_fiber)
        fiber->known = __tsan_get_current_fiber();
}

void leatc_fiber_switch(struct leatc_fiber *from, struct leatc_fiber *to)
{
    leave(from, &from->fake_stack, to);
    switch_context(&from->context, &to->context);
    enter(from->fake_stack);
}

bool leatc_fiber_call(struct leatc_home *home, struct leatc_fiber *native, void (*function)(void *),
                      void *argument)
{
    home->native = native;
    if (!call_context(&home->context, function, argument))
        return false;
    if (home->from_other) {
        enter(native->fake_stack);
        /* The discarded functions did not return, so AddressSanitizer still considers their stack frames
         * poisoned. */
        if (__asan_unpoison_memory_region && native->bottom)
            __asan_unpoison_memory_region(native->bottom,
                                          (size_t)((char *)__builtin_frame_address(0) - (char *)native->bottom));
    }
    return true;
}

_Noreturn void leatc_fiber_go_home(struct leatc_home *home, struct leatc_fiber *from)
{
    struct leatc_context unused;

    home->from_other = from != home->native;
    if (home->from_other)
        leave(from, NULL, home->native);
    else if (__asan_handle_no_return)
        __asan_handle_no_return();
    switch_context(&unused, &home->context);
    __builtin_unreachable();
}

/* ---- stacks ------------------------------------------------------------------------------------------------ */

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define PAGE_BYTES ((size_t)sysconf(_SC_PAGESIZE))

/* Before Linux 6.13, a guard page splits its mapping, and a process can have only 65530 mappings. On these
 * kernels, only this number of stacks get a guard page. */
#define GUARDED_BY_MAPPING_MAX 8192

static _Atomic size_t wanted_bytes = LEATC_STACK_BYTES;
static atomic_uint guarded_by_mapping;

/* Guards left_over, the list of stacks of host threads that have ended. Other threads reuse them. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static struct leatc_fiber *left_over LEATI_GUARDED_BY(lock);

/* The fibers in this thread's cache, most recently used first. */
OF_THREAD struct leatc_fiber *idle;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t end_of_thread;

void leatc_stack_want(size_t bytes)
{
    bytes = bytes < LEATC_STACK_BYTES ? LEATC_STACK_BYTES : bytes;
    bytes = bytes > LEATC_STACK_MOST_BYTES ? LEATC_STACK_MOST_BYTES : bytes;
    atomic_store(&wanted_bytes, (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
}

static void forget_begun(struct leatc_fiber *fiber)
{
    fiber->begun = false;
    if (fiber->known && __tsan_destroy_fiber)
        __tsan_destroy_fiber(fiber->known);
    fiber->known = NULL;
    if (__asan_unpoison_memory_region)
        __asan_unpoison_memory_region(fiber->bottom, fiber->stack_bytes);
}

static void leave_over(void *unused)
{
    (void)unused;
    while (idle) {
        struct leatc_fiber *fiber = idle;

        idle = fiber->next;
        forget_begun(fiber);
        leati_lock(&lock);
        fiber->next = left_over;
        left_over = fiber;
        leati_unlock(&lock);
    }
}

static void make_key(void)
{
    (void)pthread_key_create(&end_of_thread, leave_over);
}

static void guard(char *page)
{
    if (!madvise(page, PAGE_BYTES, MADV_GUARD_INSTALL))
        return;
    if (atomic_fetch_add(&guarded_by_mapping, 1) < GUARDED_BY_MAPPING_MAX)
        (void)mprotect(page, PAGE_BYTES, PROT_NONE);
}

static struct leatc_fiber *map_stack(void)
{
    size_t bytes = atomic_load(&wanted_bytes) + PAGE_BYTES;
    char *mapping =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    struct leatc_fiber *fiber;

    if (mapping == MAP_FAILED)
        return NULL;
    guard(mapping);
    fiber = (struct leatc_fiber *)(void *)(mapping + bytes) - 1;
    fiber = (struct leatc_fiber *)((uintptr_t)fiber & ~(uintptr_t)63);
    memset(fiber, 0, sizeof *fiber);
    fiber->mapping = mapping;
    fiber->mapping_bytes = bytes;
    fiber->bottom = mapping + PAGE_BYTES;
    fiber->stack_bytes = (size_t)((char *)fiber - mapping) - PAGE_BYTES;
    return fiber;
}

static void unmap_stack(struct leatc_fiber *fiber)
{
    forget_begun(fiber);
    munmap(fiber->mapping, fiber->mapping_bytes);
}

static struct leatc_fiber *any_stack(void)
{
    struct leatc_fiber *fiber = idle;

    if (fiber) {
        idle = fiber->next;
        return fiber;
    }
    leati_lock(&lock);
    fiber = left_over;
    if (fiber)
        left_over = fiber->next;
    leati_unlock(&lock);
    return fiber;
}

static void begin_fiber(void *argument)
{
    enter(NULL);
    ((struct leatc_fiber *)argument)->main();
}

struct leatc_fiber *leatc_fiber_take(void (*main)(void))
{
    struct leatc_fiber *fiber;

    while ((fiber = any_stack()) && fiber->mapping_bytes < atomic_load(&wanted_bytes) + PAGE_BYTES)
        unmap_stack(fiber);
    if (!fiber)
        fiber = map_stack();
    if (fiber && !fiber->begun) {
        fiber->main = main;
        make_context(fiber, (char *)fiber);
        fiber->begun = true;
        if (__tsan_create_fiber)
            fiber->known = __tsan_create_fiber(0);
    }
    return fiber;
}

void leatc_fiber_give_back(struct leatc_fiber *fiber, bool abandoned)
{
    if (!idle) {
        pthread_once(&once, make_key);
        (void)pthread_setspecific(end_of_thread, &end_of_thread);
    }
    if (abandoned)
        forget_begun(fiber);
    fiber->next = idle;
    idle = fiber;
}
