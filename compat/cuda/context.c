/* context.c - implements cuInit(), contexts, and each thread's stack of contexts. */
#include "cuda/names.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    CONTEXTS_MAX = 4096, /* maximum number of live contexts that cuCtxCreate() has made */
    STACK_MAX = 128
};

static atomic_bool started;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct CUctx_st primaries[LEATC_DEVICES_MAX];
static struct CUctx_st contexts[CONTEXTS_MAX];
static _Atomic unsigned long long latest_id = LEATC_DEVICES_MAX;

/* Guards the variables below. A thread holds it while it starts or ends a primary context. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned retained[LEATC_DEVICES_MAX];
static unsigned primary_flags[LEATC_DEVICES_MAX];
static unsigned next_context;

static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local unsigned depth;

/* The device that was current before the first context of the stack: the last pop returns to it. If
 * first_is_of_runtime is set, the first context stands for the runtime's device, and before_first follows it. */
static _Thread_local int before_first;
static _Thread_local bool first_is_of_runtime;

/* ---- start and version ---- */

/* Initializes the records of the primary contexts. The records exist even while the contexts are not active.
 * Threads read them without a lock, so this function runs only once. */
static void name_primaries(void)
{
    for (int i = 0; i < LEATC_DEVICES_MAX; i++) {
        primaries[i].ordinal = i;
        primaries[i].primary = true;
        primaries[i].id = (unsigned long long)i + 1;
    }
}

CUresult cuInit(unsigned flags)
{
    CU_CHECK(!flags);
    CU_TRY(leatcu_result(leatc_init()));
    pthread_once(&once, name_primaries);
    atomic_store_explicit(&started, true, memory_order_release);
    return CUDA_SUCCESS;
}

CUresult leatcu_started(void)
{
    if (__builtin_expect(atomic_load_explicit(&started, memory_order_acquire), 1))
        return CUDA_SUCCESS;
    /* As in CUDA's libraries, a call of the runtime API initializes the driver API too. */
    return leatc_has_noted() ? cuInit(0) : CUDA_ERROR_NOT_INITIALIZED;
}

/* Returns the version of CUDA. Works before cuInit() too. */
CUresult cuDriverGetVersion(int *version)
{
    CU_CHECK(version);
    *version = LEATC_CUDA_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

const void *leat_compat_names(void)
{
    return (const void *)(uintptr_t)&leat_version;
}

/* ---- checks of handles ---- */

static bool is_context(CUcontext context)
{
    uintptr_t at = (uintptr_t)context, first = (uintptr_t)primaries, second = (uintptr_t)contexts;
    bool in_first = at >= first && at < first + sizeof primaries;
    bool in_second = at >= second && at < second + sizeof contexts;

    return (in_first && (at - first) % sizeof *context == 0) ||
           (in_second && (at - second) % sizeof *context == 0);
}

static enum leatcu_context_state state_of(CUcontext context)
{
    return atomic_load_explicit(&context->state, memory_order_acquire);
}

CUresult leatcu_check_context(CUcontext context)
{
    if (!context || !is_context(context) || state_of(context) == LEATCU_UNUSED)
        return CUDA_ERROR_INVALID_CONTEXT;
    return state_of(context) == LEATCU_ALIVE ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult leatcu_check_device(CUdevice device)
{
    int count = 0;

    CU_TRY(leatcu_started());
    CU_TRY(leatcu_result(leatc_device_count(&count)));
    return device >= 0 && device < count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* ---- the current context ---- */

/* Called if no context is current. If the process has used the runtime API, makes the primary context of the
 * runtime's current device current. */
static CUresult enter_runtime(void)
{
    int ordinal;

    if (!leatc_has_noted())
        return CUDA_ERROR_INVALID_CONTEXT;
    CU_TRY(leatcu_result(leatc_device_get(&ordinal)));
    CU_TRY(leatcu_result(leatc_device_open(ordinal, NULL)));
    stack[0] = &primaries[ordinal];
    depth = 1;
    before_first = ordinal;
    first_is_of_runtime = true;
    atomic_store_explicit(&stack[0]->state, LEATCU_ALIVE, memory_order_release);
    return CUDA_SUCCESS;
}

/* The runtime API may have selected another device since the last call. The primary context of that device is then
 * the topmost one. */
static void follow_runtime(void)
{
    int ordinal;

    if (!depth || leatc_device_get(&ordinal) != LEATC_OK || ordinal == stack[depth - 1]->ordinal)
        return;
    stack[depth - 1] = &primaries[ordinal];
    atomic_store_explicit(&primaries[ordinal].state, LEATCU_ALIVE, memory_order_release);
    if (depth == 1 && first_is_of_runtime)
        before_first = ordinal;
}

CUresult leatcu_enter(CUcontext *context)
{
    CUcontext top;

    CU_TRY(leatcu_started());
    if (__builtin_expect(!depth, 0))
        CU_TRY(enter_runtime());
    follow_runtime();
    top = stack[depth - 1];
    if (__builtin_expect(state_of(top) != LEATCU_ALIVE, 0))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (__builtin_expect(leatc_lost() != LEATC_OK, 0))
        CU_TRY(leatcu_map(leatc_lost()));
    if (context)
        *context = top;
    return CUDA_SUCCESS;
}

CUcontext leatcu_context_of(int ordinal)
{
    CUcontext top = depth ? stack[depth - 1] : NULL;

    return top && top->ordinal == ordinal && state_of(top) == LEATCU_ALIVE ? top : &primaries[ordinal];
}

/* Makes the device of the topmost context the engine's current device. */
static CUresult follow_top(void)
{
    CUcontext top = stack[depth - 1];

    return state_of(top) == LEATCU_ALIVE ? leatcu_result(leatc_device_set(top->ordinal)) : CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    if (depth == STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    follow_runtime();
    if (!depth) {
        CU_TRY(leatcu_result(leatc_device_get(&before_first)));
        first_is_of_runtime = false;
    }
    stack[depth++] = context;
    return follow_top();
}

/* Removes the topmost context, and makes the device current that was current before it was pushed. Does not open
 * that device: the program may have used none before its first context. */
static CUresult pop(void)
{
    return --depth ? follow_top() : leatcu_result(leatc_device_return(before_first));
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    CU_TRY(leatcu_started());
    CU_TRY(leatcu_check_context(context));
    return push(context);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    CU_TRY(leatcu_started());
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    follow_runtime();
    if (context)
        *context = stack[depth - 1];
    return pop();
}

/* Replaces the topmost context. If context is NULL, pops the topmost context. */
CUresult cuCtxSetCurrent(CUcontext context)
{
    CU_TRY(leatcu_started());
    follow_runtime();
    if (!context)
        return depth ? pop() : CUDA_SUCCESS;
    CU_TRY(leatcu_check_context(context));
    if (!depth)
        return push(context);
    stack[depth - 1] = context;
    return follow_top();
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    CU_TRY(leatcu_started());
    CU_CHECK(context);
    *context = NULL;
    return depth || leatc_has_noted() ? leatcu_enter(context) : CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    CU_CHECK(device);
    *device = context->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    return leatcu_result(leatcu_or_lost(leatc_device_synchronize(context->ordinal)));
}

/* The forms of CUDA 13 name a context. NULL stands for the current one. */
static CUresult enter_named(CUcontext named, CUcontext *context)
{
    if (!named)
        return leatcu_enter(context);
    CU_TRY(leatcu_started());
    CU_TRY(leatcu_check_context(named));
    *context = named;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
    CU_TRY(enter_named(context, &context));
    CU_CHECK(device);
    *device = context->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext context)
{
    CU_TRY(enter_named(context, &context));
    return leatcu_result(leatcu_or_lost(leatc_device_synchronize(context->ordinal)));
}

/* ---- primary contexts ---- */

static bool flags_are_valid(unsigned flags)
{
    unsigned schedule = flags & CU_CTX_SCHED_MASK;

    return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) &&
           (!schedule || schedule == CU_CTX_SCHED_SPIN || schedule == CU_CTX_SCHED_YIELD ||
            schedule == CU_CTX_SCHED_BLOCKING_SYNC);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CUresult result;

    CU_TRY(leatcu_started());
    CU_CHECK(context);
    CU_TRY(leatcu_check_device(device));
    pthread_mutex_lock(&lock);
    result = leatcu_result(leatc_device_open(device, NULL));
    if (result == CUDA_SUCCESS) {
        retained[device]++;
        *context = &primaries[device];
        (*context)->flags = primary_flags[device];
        atomic_store_explicit(&(*context)->state, LEATCU_ALIVE, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* Returns true if a context of cuCtxCreate() is live on the device. The caller holds the lock. */
static bool has_context(CUdevice device)
{
    bool has = false;

    for (unsigned i = 0; i < CONTEXTS_MAX && !has; i++)
        has = state_of(&contexts[i]) == LEATCU_ALIVE && contexts[i].ordinal == device;
    return has;
}

/* Ends a device's primary context and resets the device. If the device has other contexts, does not reset it: the
 * memory and objects of all contexts belong to the device, so a reset would end those of the other contexts too.
 * The caller holds the lock. */
static CUresult end_primary(CUdevice device)
{
    if (state_of(&primaries[device]) == LEATCU_ALIVE)
        atomic_store_explicit(&primaries[device].state, LEATCU_DESTROYED, memory_order_release);
    return has_context(device) ? CUDA_SUCCESS : leatcu_result(leatc_device_reset(device));
}

/* The last release ends the context, unless the runtime API has used the device: as in NVIDIA's libraries, the
 * runtime then holds a reference until cudaDeviceReset(). */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult result = CUDA_SUCCESS;

    CU_TRY(leatcu_check_device(device));
    pthread_mutex_lock(&lock);
    if (!retained[device])
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (!--retained[device] && !leatc_device_is_noted(device))
        result = end_primary(device);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    CUresult result;

    CU_TRY(leatcu_check_device(device));
    pthread_mutex_lock(&lock);
    result = end_primary(device);
    /* Programs that have retained the context keep their references, so start it again. */
    if (result == CUDA_SUCCESS && retained[device]) {
        result = leatcu_result(leatc_device_open(device, NULL));
        atomic_store_explicit(&primaries[device].state, LEATCU_ALIVE, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    CU_TRY(leatcu_check_device(device));
    CU_CHECK(flags_are_valid(flags));
    pthread_mutex_lock(&lock);
    primary_flags[device] = flags;
    primaries[device].flags = flags;
    pthread_mutex_unlock(&lock);
    return leatcu_result(leatc_device_set_flags(device, flags));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    CU_TRY(leatcu_check_device(device));
    CU_CHECK(flags && active);
    pthread_mutex_lock(&lock);
    *flags = primary_flags[device];
    *active = leatc_device_is_open(device);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* ---- contexts of cuCtxCreate() ---- */

/* Returns the next slot without a live context. The search continues after the slot that was found last, so that
 * the handle of a destroyed context is not reused soon. Returns NULL if all slots are in use. The caller holds the
 * lock. */
static CUcontext unused_context(void)
{
    for (unsigned i = 0; i < CONTEXTS_MAX; i++) {
        CUcontext context = &contexts[next_context++ % CONTEXTS_MAX];

        if (state_of(context) != LEATCU_ALIVE)
            return context;
    }
    return NULL;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    CUcontext made;

    CU_TRY(leatcu_started());
    CU_CHECK(context && flags_are_valid(flags));
    CU_TRY(leatcu_check_device(device));
    CU_TRY(leatcu_result(leatc_device_open(device, NULL)));
    pthread_mutex_lock(&lock);
    made = unused_context();
    if (made) {
        made->ordinal = device;
        made->flags = flags;
        made->id = atomic_fetch_add_explicit(&latest_id, 1, memory_order_relaxed) + 1;
        atomic_store_explicit(&made->state, LEATCU_ALIVE, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CU_TRY(push(made));
    *context = made;
    return CUDA_SUCCESS;
}

/* Creates a context. Execution affinity is not supported. */
CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *parameters, int count, unsigned flags,
                        CUdevice device)
{
    CU_TRY(leatcu_started());
    CU_CHECK(count >= 0 && (!count || parameters));
    return count ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : cuCtxCreate_v2(context, flags, device);
}

/* Creates a context. Execution affinity and graphics interoperability are not supported. Parameters that ask for
 * neither are accepted, because programs pass an empty structure. */
CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned flags, CUdevice device)
{
    CU_TRY(leatcu_started());
    if (parameters && (parameters->execAffinityParams || parameters->cigParams)) {
        CU_CHECK(!(parameters->execAffinityParams && parameters->cigParams));
        return parameters->cigParams ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    }
    return cuCtxCreate_v2(context, flags, device);
}

/* Destroys a context, and pops it if it is on top of the calling thread's stack. Other threads keep it on their
 * stacks, and their calls fail with CONTEXT_IS_DESTROYED. */
CUresult cuCtxDestroy_v2(CUcontext context)
{
    CU_TRY(leatcu_started());
    CU_TRY(leatcu_check_context(context));
    if (context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    /* Ignore a failure of the wait: it may be the reason for the destruction. */
    (void)leatc_device_synchronize(context->ordinal);
    leatc_error_clear();
    atomic_store_explicit(&context->state, LEATCU_DESTROYED, memory_order_release);
    follow_runtime();
    return depth && stack[depth - 1] == context ? pop() : CUDA_SUCCESS;
}

/* ---- properties and settings of contexts ---- */

CUresult cuCtxGetFlags(unsigned *flags)
{
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    CU_CHECK(flags);
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned flags)
{
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    CU_CHECK(flags_are_valid(flags));
    context->flags = flags;
    return CUDA_SUCCESS;
}

/* Checks a context. If *context is NULL, sets it to the current context. */
static CUresult one_or_current(CUcontext *context)
{
    return *context ? leatcu_check_context(*context) : leatcu_enter(context);
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    CU_TRY(leatcu_started());
    CU_CHECK(id);
    CU_TRY(one_or_current(&context));
    *id = context->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
    CU_TRY(leatcu_started());
    CU_CHECK(version);
    CU_TRY(one_or_current(&context));
    *version = 3020; /* 3020: the context interface has not changed since CUDA 3.2 */
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CU_TRY(leatcu_enter(NULL));
    if (least)
        *least = 0;
    if (greatest)
        *greatest = LEATC_PRIORITY_HIGHEST;
    return CUDA_SUCCESS;
}

/* Limits and cache settings are stored and returned; only the stack size has an effect. */
static _Atomic size_t limits[CU_LIMIT_MAX] = {
    [CU_LIMIT_STACK_SIZE] = 1024,
    [CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
    [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
    [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
    [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
    [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 128,
};

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(value);
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = atomic_load(&limits[limit]);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    CU_TRY(leatcu_enter(NULL));
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (limit == CU_LIMIT_STACK_SIZE)
        leatc_stack_want(value);
    atomic_store(&limits[limit], value);
    return CUDA_SUCCESS;
}

static _Atomic CUfunc_cache cache_setting;

CUresult cuCtxGetCacheConfig(CUfunc_cache *setting)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(setting);
    *setting = atomic_load(&cache_setting);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache setting)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK((unsigned)setting <= CU_FUNC_CACHE_PREFER_EQUAL);
    atomic_store(&cache_setting, setting);
    return CUDA_SUCCESS;
}

static _Atomic CUsharedconfig bank_setting;

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *setting)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(setting);
    *setting = atomic_load(&bank_setting);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig setting)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK((unsigned)setting <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
    atomic_store(&bank_setting, setting);
    return CUDA_SUCCESS;
}

/* Does nothing: leat has no access policy windows, so no cache lines persist. */
CUresult cuCtxResetPersistingL2Cache(void)
{
    return leatcu_enter(NULL);
}

/* ---- peers ---- */

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    CU_TRY(leatcu_check_context(peer));
    CU_CHECK(!flags);
    if (peer == context || peer->ordinal == context->ordinal)
        return CUDA_ERROR_INVALID_CONTEXT;
    return leatcu_result(leatc_peer_enable(peer->ordinal, 0));
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    CU_TRY(leatcu_enter(NULL));
    CU_TRY(leatcu_check_context(peer));
    return leatcu_result(leatc_peer_disable(peer->ordinal));
}

/* ---- streams of contexts of cuCtxCreate() ---- */

struct membership {
    CUstream stream;
    CUcontext context;
    struct membership *next;
};

static pthread_mutex_t members_lock = PTHREAD_MUTEX_INITIALIZER;
static struct membership *members;

void leatcu_stream_made(CUstream stream, CUcontext context)
{
    struct membership *member;

    if (context->primary)
        return;
    member = malloc(sizeof *member);
    if (!member)
        return; /* cuStreamGetCtx() will return the primary context, which has the same device */
    pthread_mutex_lock(&members_lock);
    *member = (struct membership){stream, context, members};
    members = member;
    pthread_mutex_unlock(&members_lock);
}

void leatcu_stream_gone(CUstream stream)
{
    pthread_mutex_lock(&members_lock);
    for (struct membership **link = &members; *link; link = &(*link)->next)
        if ((*link)->stream == stream) {
            struct membership *member = *link;

            *link = member->next;
            free(member);
            break;
        }
    pthread_mutex_unlock(&members_lock);
}

CUcontext leatcu_stream_context(CUstream stream, int ordinal)
{
    CUcontext found = NULL;

    if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        return leatcu_context_of(ordinal);
    pthread_mutex_lock(&members_lock);
    for (struct membership *member = members; member && !found; member = member->next)
        if (member->stream == stream)
            found = member->context;
    pthread_mutex_unlock(&members_lock);
    return found ? found : &primaries[ordinal];
}
