/*
 * pinned.c - replaces the driver's calls that allocate and free pinned memory.
 *
 * The driver clears the pages of such memory on one thread. leat maps and populates memory with several threads,
 * and then registers it with the driver, which takes less time (docs/drop-in.md). The driver treats registered
 * memory as it treats its own, except where this file says otherwise: it answers those calls as it would for its
 * own memory.
 *
 * The memory is registered in one piece of exactly the bytes that the program asked for. In several pieces it
 * would block other calls for shorter times, but the driver refuses copies that cross from one piece to the next,
 * and reports each piece as an allocation.
 *
 * The driver's memory is shared with children of fork(), and leat's is not: a child gets a copy. Shared memory has
 * small pages, for which leat was as slow as the driver. This is why the user has to ask for leat's memory.
 */
#include "wrappers.h"

#include "engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The flags of cuMemHostAlloc(), and those of cuMemHostRegister() that mean the same. */
#define PORTABLE 1u
#define DEVICE_MAP 2u

/* An allocation that leat has made. */
struct allocation {
    char *ptr;
    size_t bytes, mapped_bytes;
    unsigned flags;
    struct allocation *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct allocation *allocations;

static void begin_child(void)
{
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    /* The driver does not work in a child, so its calls must fail there as without leat. */
    memcpy(&lock, &fresh, sizeof fresh);
    allocations = NULL;
}

/* ---- the list ---- */

static void list(struct allocation *made)
{
    static bool watched; /* guarded by lock */

    pthread_mutex_lock(&lock);
    if (!watched)
        watched = !pthread_atfork(NULL, NULL, begin_child);
    made->next = allocations;
    allocations = made;
    pthread_mutex_unlock(&lock);
}

static struct allocation *unlist(const void *ptr)
{
    struct allocation **place = &allocations, *found;

    pthread_mutex_lock(&lock);
    while ((found = *place) && found->ptr != (const char *)ptr)
        place = &found->next;
    if (found)
        *place = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Returns true if a range has bytes of an allocation of leat's. flags: receives those of the allocation. */
static bool overlaps(const void *ptr, size_t bytes, unsigned *flags)
{
    uintptr_t start = (uintptr_t)ptr;
    struct allocation *at;

    pthread_mutex_lock(&lock);
    for (at = allocations; at; at = at->next)
        if (start < (uintptr_t)at->ptr + at->bytes && bytes > 0 &&
            (start >= (uintptr_t)at->ptr || (uintptr_t)at->ptr - start < bytes))
            break;
    if (at)
        *flags = at->flags;
    pthread_mutex_unlock(&lock);
    return at;
}

static void drop(const struct engine *made_by, struct allocation *gone)
{
    made_by->unmap(gone->ptr, gone->mapped_bytes);
    free(gone);
}

/* Unmaps memory whose context has ended: the driver has unregistered it then, and would have freed its own. */
static void drop_ended(const struct engine *made_by)
{
    struct allocation **place = &allocations, *at;

    pthread_mutex_lock(&lock);
    while ((at = *place)) {
        int wanted[] = {CU_POINTER_MEMORY_TYPE};
        unsigned type = CU_MEMORY_HOST;
        void *value = &type;

        if (dropin_driver.pointer_attributes(1, wanted, &value, (cu_address)(uintptr_t)at->ptr) == CU_SUCCESS &&
            !type) {
            *place = at->next;
            drop(made_by, at);
        } else {
            place = &at->next;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* ---- allocating ---- */

typedef cu_result (*flags_allocate_function)(void **, size_t, unsigned);
typedef cu_result (*allocate_function)(void **, size_t);
typedef cu_result (*register_function)(void *, size_t, unsigned);
typedef cu_result (*pointer_function)(void *);
typedef cu_result (*flags_function)(unsigned *, void *);

/* Returns a function of the driver's as a type; NULL if the driver has none. */
static register_function real_register(enum dropin_name name)
{
    void *real = dropin_real(name);
    register_function typed;

    memcpy(&typed, &real, sizeof real);
    return typed;
}

static pointer_function real_pointer(enum dropin_name name)
{
    void *real = dropin_real(name);
    pointer_function typed;

    memcpy(&typed, &real, sizeof real);
    return typed;
}

static enum run_outcome fail_register(cu_result code)
{
    char message[RUN_MESSAGE_BYTES];

    snprintf(message, sizeof message, "the driver could not register memory: error %d of cuMemHostRegister", code);
    dropin_count_message(message);
    return RUN_OUTCOME_FAILED_ALLOC;
}

/* Registers memory as cuMemHostAlloc() would map it: for all contexts, and at the same address on the devices.
 * Returns RUN_OUTCOME_LEAT, or why the driver must allocate; code: what the program gets if a stream captures. */
static enum run_outcome register_memory(const struct allocation *made, cu_result *code)
{
    cu_address there = 0;

    *code = real_register(DROPIN_cuMemHostRegister_v2)(made->ptr, made->bytes, PORTABLE | DEVICE_MAP);
    if (*code == CU_CAPTURE_UNSUPPORTED || *code == CU_CAPTURE_INVALIDATED)
        return RUN_OUTCOME_CAPTURE;
    if (*code != CU_SUCCESS)
        return fail_register(*code);
    *code = dropin_driver.host_device_pointer(&there, made->ptr, 0);
    if (*code == CU_SUCCESS && there == (cu_address)(uintptr_t)made->ptr)
        return RUN_OUTCOME_LEAT;
    (void)real_pointer(DROPIN_cuMemHostUnregister)(made->ptr);
    return RUN_OUTCOME_OLD_DRIVER;
}

static enum run_outcome map(const struct engine *made_by, void **ptr, size_t bytes, unsigned flags,
                            cu_result *code)
{
    struct allocation *made = malloc(sizeof *made);
    char message[RUN_MESSAGE_BYTES] = "";
    enum run_outcome outcome;
    void *memory;

    if (!made)
        return RUN_OUTCOME_FAILED_ALLOC;
    *made = (struct allocation){.bytes = bytes, .flags = flags};
    made->mapped_bytes = (bytes + ENGINE_PAGES_BYTES - 1) / ENGINE_PAGES_BYTES * ENGINE_PAGES_BYTES;
    memory = made_by->map(made->mapped_bytes, message, sizeof message);
    if (!memory) {
        dropin_count_message(message);
        free(made);
        return RUN_OUTCOME_FAILED_ALLOC;
    }
    made->ptr = memory;
    outcome = register_memory(made, code);
    if (outcome != RUN_OUTCOME_LEAT) {
        drop(made_by, made);
        return outcome;
    }
    *ptr = made->ptr;
    list(made);
    return RUN_OUTCOME_LEAT;
}

static enum run_outcome serve(void **ptr, size_t bytes, unsigned flags, cu_result *code)
{
    cu_context context = NULL;
    const struct engine *made_by;
    enum run_outcome outcome;

    if (!dropin_serves_pinned())
        return RUN_OUTCOME_NO_PINNED;
    if (bytes < RUN_PINNED_LEAST_BYTES)
        return RUN_OUTCOME_SHORT;
    if (!ptr || bytes > SIZE_MAX / 2)
        return RUN_OUTCOME_FAILED_ALLOC; /* the driver reports the mistake */
    if (flags & ~(PORTABLE | DEVICE_MAP))
        return RUN_OUTCOME_WRITE_COMBINED;
    if (!dropin_driver.complete || !dropin_real(DROPIN_cuMemHostRegister_v2) ||
        !dropin_real(DROPIN_cuMemHostUnregister))
        return RUN_OUTCOME_OLD_DRIVER;
    if (dropin_driver.context_current(&context) != CU_SUCCESS || !context)
        return RUN_OUTCOME_NO_CONTEXT;
    if (dropin_is_forked())
        return RUN_OUTCOME_FORKED;
    if (dropin_only_observes())
        return RUN_OUTCOME_OBSERVED;
    dropin_inside++;
    made_by = dropin_engine();
    if (made_by)
        drop_ended(made_by);
    outcome = made_by ? map(made_by, ptr, bytes, flags, code) : RUN_OUTCOME_NO_LEAT;
    dropin_inside--;
    return outcome;
}

/* Makes the program's own call. */
static cu_result call_real(enum run_call call, void **ptr, size_t bytes, unsigned flags)
{
    bool has_flags = call == RUN_CALL_HOST_ALLOC;
    void *real = dropin_real(has_flags ? DROPIN_cuMemHostAlloc : DROPIN_cuMemAllocHost_v2);
    flags_allocate_function with_flags;
    allocate_function typed;

    if (!real)
        return CU_NOT_FOUND;
    memcpy(&with_flags, &real, sizeof real);
    memcpy(&typed, &real, sizeof real);
    return has_flags ? with_flags(ptr, bytes, flags) : typed(ptr, bytes);
}

static cu_result allocate(enum run_call call, void **ptr, size_t bytes, unsigned flags)
{
    uint64_t begun_ns = dropin_clock_ns();
    cu_result code = CU_SUCCESS;
    enum run_outcome outcome;

    if (dropin_inside)
        return call_real(call, ptr, bytes, flags);
    outcome = serve(ptr, bytes, flags, &code);
    if (outcome != RUN_OUTCOME_LEAT && outcome != RUN_OUTCOME_CAPTURE)
        code = call_real(call, ptr, bytes, flags);
    dropin_count(call, outcome, bytes, dropin_clock_ns() - begun_ns);
    return code;
}

cu_result cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
    return allocate(RUN_CALL_HOST_ALLOC, ptr, bytes, flags);
}

cu_result cuMemAllocHost_v2(void **ptr, size_t bytes)
{
    return allocate(RUN_CALL_ALLOC_HOST, ptr, bytes, 0);
}

/* ---- freeing ---- */

static cu_result give_back(struct allocation *given)
{
    const struct engine *made_by = dropin_engine();
    cu_result code;

    dropin_inside++;
    code = real_pointer(DROPIN_cuMemHostUnregister)(given->ptr);
    dropin_inside--;
    if (code != CU_SUCCESS && code != CU_NOT_REGISTERED) {
        /* The driver may still use the memory. */
        list(given);
        return code;
    }
    drop(made_by, given);
    /* If the context has ended, the driver has freed its own memory and does not know the address. */
    return code == CU_NOT_REGISTERED ? CU_INVALID_VALUE : code;
}

cu_result cuMemFreeHost(void *ptr)
{
    pointer_function real = real_pointer(DROPIN_cuMemFreeHost);
    struct allocation *found = dropin_inside || !ptr ? NULL : unlist(ptr);
    uint64_t begun_ns, bytes;
    cu_result code;

    if (!found)
        return real ? real(ptr) : CU_NOT_FOUND;
    begun_ns = dropin_clock_ns();
    bytes = found->bytes;
    code = give_back(found);
    dropin_count(RUN_CALL_FREE_HOST, RUN_OUTCOME_LEAT, bytes, dropin_clock_ns() - begun_ns);
    return code;
}

/* ---- calls that tell registered memory from the driver's own ---- */

cu_result cuMemHostGetFlags(unsigned *flags, void *ptr)
{
    void *real = dropin_real(DROPIN_cuMemHostGetFlags);
    unsigned own = 0;
    flags_function typed;
    cu_result code;

    if (!real)
        return CU_NOT_FOUND;
    memcpy(&typed, &real, sizeof real);
    code = typed(flags, ptr);
    /* The driver adds this flag to those of its own allocations. */
    if (code == CU_SUCCESS && !dropin_inside && overlaps(ptr, 1, &own))
        *flags = own | DEVICE_MAP;
    return code;
}

static cu_result register_again(enum dropin_name name, void *ptr, size_t bytes, unsigned flags)
{
    register_function real = real_register(name);
    unsigned own;
    cu_result code;

    if (!real)
        return CU_NOT_FOUND;
    code = real(ptr, bytes, flags);
    return code == CU_ALREADY_REGISTERED && !dropin_inside && overlaps(ptr, bytes, &own) ? CU_INVALID_VALUE : code;
}

cu_result cuMemHostRegister(void *ptr, size_t bytes, unsigned flags)
{
    return register_again(DROPIN_cuMemHostRegister, ptr, bytes, flags);
}

cu_result cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned flags)
{
    return register_again(DROPIN_cuMemHostRegister_v2, ptr, bytes, flags);
}

cu_result cuMemHostUnregister(void *ptr)
{
    pointer_function real = real_pointer(DROPIN_cuMemHostUnregister);
    unsigned own;

    if (!real)
        return CU_NOT_FOUND;
    return !dropin_inside && overlaps(ptr, 1, &own) ? CU_INVALID_VALUE : real(ptr);
}
