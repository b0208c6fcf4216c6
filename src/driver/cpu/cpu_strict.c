/*
 * cpu_strict.c - LEAT_STRICT=1 makes device memory of the CPU device inaccessible for host threads.
 *
 * All device memory gets one memory protection key (pkeys(7)), and each thread has its own rights for the key: the
 * device's threads have access, all others have none. So a program that would crash on a GPU crashes here too.
 * Before that, a SIGSEGV handler writes the pointer, the kind of access and the allocation to standard error; then
 * the program's earlier handler, or the default action, gets the signal.
 *
 * With or without strict mode, the same handler names the pointer and the allocation when a kernel faults.
 */
#include "driver/cpu/cpu.h"

#include "base/fault_handler.h"
#include "base/lock.h"
#include "base/options.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key = -1; /* written once, before any thread of a device starts */
static int key_errno;
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;
static struct sigaction earlier; /* written once, before on_fault() can run */
LEATI_QUICK_TLS bool cpu_in_kernel;

static bool strict(void)
{
    return key >= 0;
}

/* ---- the message about a fault ---- */

struct owner {
    char text[160];
};

/* Describes an address in a pool, by a function of the core. Returns false if the address is in no pool. */
static bool describe_pooled(uintptr_t address, int device, struct owner *owner)
{
    /* Acquire: pairs with the release by which the core sets the variable. */
    leati_address_function ask = atomic_load_explicit(&leati_describe_address, memory_order_acquire);
    uintptr_t base;
    size_t bytes;

    if (!ask || !ask((void *)address, &base, &bytes))
        return false;
    if (bytes)
        snprintf(owner->text, sizeof owner->text, "byte %zu of the %zu bytes at %p, device memory of cpu:%d",
                 (size_t)(address - base), bytes, (void *)base, device);
    else
        snprintf(owner->text, sizeof owner->text,
                 "no allocation: freed, or past the end of one, in a pool of cpu:%d", device);
    return true;
}

/* Describes the block of device memory that contains address; returns false if there is none. The handler may take
 * the space's lock: the faulting thread runs the program's code, so it holds none of our locks, and other threads
 * hold the lock only briefly. */
static bool describe(uintptr_t address, struct owner *owner)
{
    for (int i = 0; i < CPU_DEVICES_MAX; i++) {
        struct cpu_device *device = cpu_device_number(i);
        const struct leati_range *range;

        if (address - device->space.base >= device->space.bytes)
            continue;
        if (describe_pooled(address, i, owner))
            return true;
        leati_lock(&device->space.lock);
        range = leati_ranges_find(&device->space.blocks, address);
        if (range)
            snprintf(owner->text, sizeof owner->text, "byte %zu of the %zu bytes at %p, device memory of cpu:%d",
                     (size_t)(address - range->base), ((const struct cpu_block *)range->value)->asked_bytes,
                     (void *)range->base, i);
        else
            snprintf(owner->text, sizeof owner->text,
                     "no allocation: freed, or past the end of one, in memory of cpu:%d", i);
        leati_unlock(&device->space.lock);
        return true;
    }
    return false;
}

static const char *access_word(const ucontext_t *context)
{
#if defined(__x86_64__)
    /* Bit 1 of the page fault's error code: a write (Intel SDM volume 3, "Page-Fault Exceptions"). */
    return context->uc_mcontext.gregs[REG_ERR] & 2 ? "write to" : "read of";
#else
    (void)context;
    return "access to";
#endif
}

static void describe_code(const ucontext_t *context, char *text, size_t bytes)
{
#if defined(__x86_64__)
    uintptr_t address = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    Dl_info info;

    if (!dladdr((void *)address, &info) || !info.dli_fname)
        snprintf(text, bytes, "code at %p", (void *)address);
    else if (info.dli_sname)
        snprintf(text, bytes, "%s+0x%zx (%s)", info.dli_sname, (size_t)(address - (uintptr_t)info.dli_saddr),
                 info.dli_fname);
    else
        snprintf(text, bytes, "%s+0x%zx", info.dli_fname, (size_t)(address - (uintptr_t)info.dli_fbase));
#else
    (void)context;
    snprintf(text, bytes, "unknown code");
#endif
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    static atomic_flag reported = ATOMIC_FLAG_INIT; /* the program may handle such faults, and meet many */
    struct owner owner = {"no memory of the CPU device: NULL, freed, or host memory that is not there"};
    bool in_kernel = cpu_in_kernel, known;
    char code[400], text[900];
    ssize_t ignored = 0; /* set only to avoid a warning: nothing helps if standard error is closed */
    int length;

    if (leati_fault_handler_repaired(info, context))
        return;
    leati_fault_handler_take(info, context);
    /* A signal that was sent, such as by kill(), has no address. */
    known = info->si_code > 0 && info->si_addr && describe((uintptr_t)info->si_addr, &owner);
    if (((in_kernel && info->si_code > 0) || (known && strict())) && !atomic_flag_test_and_set(&reported)) {
        describe_code(context, code, sizeof code);
        length = snprintf(text, sizeof text, "leat: %s: %s %p from %s, thread %ld: %s%s\n",
                          in_kernel ? "a kernel on the CPU device crashed" : "LEAT_STRICT", access_word(context),
                          info->si_addr, code, (long)syscall(SYS_gettid), owner.text,
                          in_kernel ? "" : ". The host cannot reach it; bring the bytes over with leat_copy()");
        if (length > 0)
            ignored = write(STDERR_FILENO, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
        (void)ignored;
    }
    leati_fault_handler_pass_on(&earlier, signal_number, info, context);
}

/* ---- the protection key ---- */

static void install_handler(void)
{
    leati_fault_handler_install_over(on_fault, &earlier);
}

void cpu_kernel_faults_open(void)
{
    pthread_once(&handler_once, install_handler);
}

static void set_up(void)
{
    if (!leati_option_flag(LEATI_OPTION_STRICT))
        return;
    key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (key < 0) {
        key_errno = errno;
        return;
    }
    pthread_once(&handler_once, install_handler);
}

leat_status cpu_strict_open(void)
{
    pthread_once(&once, set_up);
    if (!key_errno)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_UNSUPPORTED,
                      "LEAT_STRICT=1 needs memory protection keys (pkeys(7)); pkey_alloc: %s; unset LEAT_STRICT",
                      strerror(key_errno));
}

leat_status cpu_strict_protect(void *ptr, size_t bytes, int protection)
{
    if (strict() && pkey_mprotect(ptr, bytes, protection, key))
        return leati_fail(LEAT_ERROR_SYSTEM, "pkey_mprotect of %p + %zu: %s", ptr, bytes, strerror(errno));
    return LEAT_OK;
}

static _Thread_local bool allowed;

void cpu_strict_allow(void)
{
    allowed = true;
    if (strict())
        pkey_set(key, 0);
}

void cpu_strict_forbid(void)
{
    allowed = false;
    if (strict())
        pkey_set(key, PKEY_DISABLE_ACCESS);
}

bool cpu_strict_allowed(void)
{
    return allowed;
}
