/*
 * serve.c - decides which copies leat makes, and hands them to the engine.
 */
#include "dropin.h"

#include "engine.h"
#include "pool.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define DEVICES_MOST 64

/* ---- the engine ---- */

static pthread_mutex_t references_lock = PTHREAD_MUTEX_INITIALIZER; /* guards references[] */
static unsigned references[DEVICES_MOST];                           /* of the program to each primary context */
static atomic_uint retained_devices; /* with references; relaxed: the program orders these calls with others */
static _Atomic(cu_context) primary[DEVICES_MOST]; /* NULL: not known, or not active */
static _Atomic(const struct engine *) engine;

/* Relaxed, all three: they only ever become true, and a thread that sees one late asks once more in vain. */
static atomic_bool has_started; /* leat has begun to load in this process */
static atomic_bool has_failed;  /* leat cannot be used in this process */
static atomic_bool is_forked;   /* the parent had begun; leat's and the driver's threads do not exist here */

static void begin_child(void)
{
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    memcpy(&references_lock, &fresh, sizeof fresh);
    if (atomic_load_explicit(&has_started, memory_order_relaxed))
        atomic_store_explicit(&is_forked, true, memory_order_relaxed);
}

static void watch_forks(void)
{
    static atomic_bool watched; /* relaxed: only one thread may register the function */

    if (!atomic_exchange_explicit(&watched, true, memory_order_relaxed))
        (void)pthread_atfork(NULL, NULL, begin_child);
}

static void fail(const char *message)
{
    atomic_store_explicit(&has_failed, true, memory_order_relaxed);
    dropin_count_message(message);
}

/* Opens the library beside this one. */
static const struct engine *load(void)
{
    const struct engine *found = NULL;
    char path[4096], message[RUN_MESSAGE_BYTES];
    const char *slash;
    void *library = NULL;
    Dl_info info;
    int length;

    if (dladdr((void *)&references, &info) && info.dli_fname && (slash = strrchr(info.dli_fname, '/'))) {
        length = snprintf(path, sizeof path, "%.*s/%s", (int)(slash - info.dli_fname), info.dli_fname,
                          "libleat-run-engine.so");
        if (length > 0 && (size_t)length < sizeof path)
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (library)
        found = dropin_real_dlsym(library, ENGINE_SYMBOL);
    if (found && found->version == ENGINE_VERSION)
        return found;
    if (!library) {
        const char *why = dlerror();

        snprintf(message, sizeof message, "libleat-run-engine.so cannot be loaded: %s",
                 why ? why : "the folder of libleat-run.so is unknown");
    } else {
        snprintf(message, sizeof message,
                 "libleat-run-engine.so is of another version than libleat-run.so: install leat again");
    }
    fail(message);
    return NULL;
}

/* Takes no lock, because another thread may come here with the loader's lock, from the constructor of a library.
 * Two threads may load the same library. */
const struct engine *dropin_engine(void)
{
    /* Acquire: makes the loaded library visible. */
    const struct engine *found = atomic_load_explicit(&engine, memory_order_acquire);

    if (found || atomic_load_explicit(&has_failed, memory_order_relaxed))
        return found;
    watch_forks();
    atomic_store_explicit(&has_started, true, memory_order_relaxed);
    found = load();
    if (found)
        atomic_store_explicit(&engine, found, memory_order_release);
    return found;
}

const struct engine *dropin_loaded_engine(void)
{
    return atomic_load_explicit(&engine, memory_order_acquire);
}

const struct engine *dropin_usable_engine(void)
{
    const struct engine *found;

    dropin_inside++;
    found = dropin_engine();
    dropin_inside--;
    return atomic_load_explicit(&has_failed, memory_order_relaxed) ? NULL : found;
}

bool dropin_is_forked(void)
{
    return atomic_load_explicit(&is_forked, memory_order_relaxed);
}

enum run_outcome dropin_engine_failed(enum engine_result result, const char *message)
{
    if (result == ENGINE_OTHER_CONTEXT)
        return RUN_OUTCOME_CONTEXT;
    if (result == ENGINE_NOT_STARTED) {
        fail(message);
        return RUN_OUTCOME_NO_LEAT;
    }
    dropin_count_message(message);
    return RUN_OUTCOME_FAILED;
}

/* ---- primary contexts ---- */

void dropin_context_retained(cu_device device)
{
    if (device < 0 || device >= DEVICES_MOST)
        return;
    watch_forks();
    pthread_mutex_lock(&references_lock);
    if (!references[device]++)
        atomic_fetch_add_explicit(&retained_devices, 1, memory_order_relaxed);
    pthread_mutex_unlock(&references_lock);
}

cu_context dropin_primary(cu_device device)
{
    typedef cu_result (*retain_function)(cu_context *, cu_device);
    typedef cu_result (*release_function)(cu_device);
    void *retain = dropin_real(DROPIN_cuDevicePrimaryCtxRetain);
    void *release = dropin_real(DROPIN_cuDevicePrimaryCtxRelease_v2);
    cu_context found;
    retain_function typed_retain;
    release_function typed_release;
    unsigned flags;
    int active = 0;

    if (device < 0 || device >= DEVICES_MOST)
        return NULL;
    /* Relaxed: the value is a handle, and nothing is read through it. */
    found = atomic_load_explicit(&primary[device], memory_order_relaxed);
    if (found || !retain || !release)
        return found;
    /* Retaining would create the context. */
    if (dropin_driver.primary_state(device, &flags, &active) != CU_SUCCESS || !active)
        return NULL;
    memcpy(&typed_retain, &retain, sizeof retain);
    memcpy(&typed_release, &release, sizeof release);
    if (typed_retain(&found, device) != CU_SUCCESS)
        return NULL;
    (void)typed_release(device);
    atomic_store_explicit(&primary[device], found, memory_order_relaxed);
    return found;
}

bool dropin_uses_several_devices(void)
{
    return atomic_load_explicit(&retained_devices, memory_order_relaxed) > 1;
}

static void close_device(cu_device device)
{
    const struct engine *found = dropin_loaded_engine();

    atomic_store_explicit(&primary[device], NULL, memory_order_relaxed);
    if (dropin_is_forked())
        return;
    if (dropin_serves_pool())
        dropin_pool_closing(device);
    if (found) {
        dropin_inside++;
        found->close(device);
        dropin_inside--;
    }
    if (dropin_serves_pool())
        dropin_pool_closed();
}

void dropin_context_releasing(cu_device device)
{
    bool last;

    if (device < 0 || device >= DEVICES_MOST)
        return;
    pthread_mutex_lock(&references_lock);
    if (references[device] && !--references[device])
        atomic_fetch_sub_explicit(&retained_devices, 1, memory_order_relaxed);
    last = !references[device];
    pthread_mutex_unlock(&references_lock);
    if (last)
        close_device(device);
}

void dropin_context_resetting(cu_device device)
{
    if (device >= 0 && device < DEVICES_MOST)
        close_device(device);
}

/* ---- memory ---- */

enum kind { PAGEABLE, PINNED, DEVICE, MANAGED };

struct side {
    enum kind kind;
    cu_context context;
    int device;
};

/* Asks the driver about an address. Returns false if the driver fails. */
static bool ask(const void *ptr, struct side *side)
{
    int attributes[] = {CU_POINTER_MEMORY_TYPE, CU_POINTER_IS_MANAGED, CU_POINTER_CONTEXT,
                        CU_POINTER_DEVICE_ORDINAL};
    /* Some values are shorter than the variables. */
    uint64_t type = 0, managed = 0;
    void *values[] = {&type, &managed, &side->context, &side->device};

    side->context = NULL;
    side->device = -1;
    if (dropin_driver.pointer_attributes(4, attributes, values, (cu_address)(uintptr_t)ptr) != CU_SUCCESS)
        return false;
    side->kind = managed ? MANAGED : type == CU_MEMORY_DEVICE ? DEVICE : type ? PINNED : PAGEABLE;
    return true;
}

enum engine_memory dropin_memory_of(const void *ptr)
{
    static const enum engine_memory kinds[] = {[PAGEABLE] = ENGINE_MEMORY_PAGEABLE,
                                               [PINNED] = ENGINE_MEMORY_PINNED,
                                               [DEVICE] = ENGINE_MEMORY_DEVICE,
                                               [MANAGED] = ENGINE_MEMORY_MANAGED};
    struct side side;

    return ptr && ask(ptr, &side) ? kinds[side.kind] : ENGINE_MEMORY_UNKNOWN;
}

static size_t reach(const struct dropin_copy *copy, size_t pitch)
{
    return (copy->rows - 1) * pitch + copy->bytes;
}

/* Returns true if the driver knows nothing about the last byte either. */
static bool is_pageable(const void *ptr, size_t bytes)
{
    struct side end;

    return ask((const char *)ptr + bytes - 1, &end) && end.kind == PAGEABLE;
}

/* Returns true if the side that the caller has called host memory is pinned or managed. Most copies that are
 * passed on are, so one question to the driver suffices for them. */
static bool has_pinned_host(const struct dropin_copy *copy, enum run_outcome *outcome)
{
    const void *host = copy->src_host ? copy->src : copy->dst_host ? copy->dst : NULL;
    struct side side;

    if (!host || !ask(host, &side) || (side.kind != PINNED && side.kind != MANAGED))
        return false;
    *outcome = side.kind == PINNED ? RUN_OUTCOME_PINNED : RUN_OUTCOME_MANAGED;
    return true;
}

/* Finds the direction of the copy. Returns RUN_OUTCOME_LEAT if one side is pageable and the other is plain memory
 * of the device, whose context is given. */
static enum run_outcome classify(const struct dropin_copy *copy, cu_context context, cu_device device, bool *in)
{
    size_t dst_reach = reach(copy, copy->dst_pitch), src_reach = reach(copy, copy->src_pitch);
    struct side dst, src;
    const struct side *far;

    if (!ask(copy->dst, &dst) || !ask(copy->src, &src))
        return RUN_OUTCOME_OTHER_DEVICE;
    if (dst.kind == MANAGED || src.kind == MANAGED)
        return RUN_OUTCOME_MANAGED;
    if (dst.kind == DEVICE && src.kind == DEVICE)
        return RUN_OUTCOME_ON_DEVICE;
    if (dst.kind != DEVICE && src.kind != DEVICE)
        return RUN_OUTCOME_ON_HOST;
    if (dst.kind == PINNED || src.kind == PINNED)
        return RUN_OUTCOME_PINNED;
    *in = dst.kind == DEVICE;
    if (*in ? copy->src_device || copy->dst_host : copy->dst_device || copy->src_host)
        return RUN_OUTCOME_OTHER_DEVICE; /* the driver reports the mistake */
    far = *in ? &dst : &src;
    /* Memory of the driver's pools has no context. */
    if (far->device != device || (far->context && far->context != context))
        return RUN_OUTCOME_OTHER_DEVICE;
    if (*in ? !is_pageable(copy->src, src_reach) : !is_pageable(copy->dst, dst_reach))
        return RUN_OUTCOME_PINNED;
    return RUN_OUTCOME_LEAT;
}

/* The same for all copies of a batch, which must have one direction. */
static enum run_outcome classify_batch(const struct dropin_copy *copy, cu_context context, cu_device device,
                                       bool *in)
{
    for (size_t i = 0; i < copy->batch_count; i++) {
        struct dropin_copy one = {.dst = (void *)(uintptr_t)copy->batch_dsts[i],
                                  .src = (const void *)(uintptr_t)copy->batch_srcs[i],
                                  .bytes = copy->batch_sizes[i],
                                  .rows = 1};
        bool one_in;
        enum run_outcome outcome = classify(&one, context, device, &one_in);

        if (outcome != RUN_OUTCOME_LEAT)
            return outcome;
        if (i && one_in != *in)
            return RUN_OUTCOME_BATCH;
        *in = one_in;
    }
    return RUN_OUTCOME_LEAT;
}

/* ---- copies ---- */

/* Makes the copy. The calls of leat must not end a capture of another stream, which the driver does when a thread
 * makes certain calls meanwhile, so the thread exempts itself from that. */
static enum run_outcome hand_over(const struct engine *made_by, const struct engine_copy *copy)
{
    char message[RUN_MESSAGE_BYTES] = "";
    int mode = CU_CAPTURE_MODE_RELAXED;
    enum engine_result result;

    if (dropin_driver.capture_mode(&mode) != CU_SUCCESS)
        return RUN_OUTCOME_OLD_DRIVER;
    dropin_inside++;
    result = made_by->copy(copy, message, sizeof message);
    dropin_inside--;
    (void)dropin_driver.capture_mode(&mode);
    if (result != ENGINE_DONE)
        return dropin_engine_failed(result, message);
    dropin_copy_ended();
    return RUN_OUTCOME_LEAT;
}

static enum run_outcome serve(const struct dropin_copy *copy)
{
    struct engine_copy work = {.stream = copy->stream,
                               .dst = copy->dst,
                               .src = copy->src,
                               .bytes = copy->bytes,
                               .rows = copy->rows,
                               .dst_pitch = copy->dst_pitch,
                               .src_pitch = copy->src_pitch,
                               .sync = copy->sync};
    int capturing = CU_CAPTURE_NONE, active = 0;
    const struct engine *made_by;
    enum run_outcome outcome;
    cu_context context;
    cu_device device;
    unsigned flags;

    if (!dropin_driver.complete)
        return RUN_OUTCOME_OLD_DRIVER;
    if (dropin_is_forked())
        return RUN_OUTCOME_FORKED;
    if (has_pinned_host(copy, &outcome))
        return outcome;
    if (dropin_driver.context_current(&context) != CU_SUCCESS || !context ||
        dropin_driver.context_device(&device) != CU_SUCCESS || device < 0 || device >= DEVICES_MOST)
        return RUN_OUTCOME_CONTEXT;
    if (dropin_driver.stream_capturing(copy->stream, &capturing) != CU_SUCCESS || capturing != CU_CAPTURE_NONE)
        return RUN_OUTCOME_CAPTURE;
    outcome = copy->batch_count ? classify_batch(copy, context, device, &work.in)
                                : classify(copy, context, device, &work.in);
    if (outcome != RUN_OUTCOME_LEAT)
        return outcome;
    /* leat retains the primary context and would create it where the program uses only contexts of its own. */
    if (dropin_driver.primary_state(device, &flags, &active) != CU_SUCCESS || !active)
        return RUN_OUTCOME_CONTEXT;
    if (dropin_is_busy((uint64_t)copy->bytes * copy->rows))
        return RUN_OUTCOME_BUSY;
    if (dropin_only_observes())
        return RUN_OUTCOME_OBSERVED;
    made_by = dropin_usable_engine();
    if (!made_by)
        return RUN_OUTCOME_NO_LEAT;
    work.device = device;
    work.context = context;
    if (copy->batch_count) {
        work.batch_dsts = copy->batch_dsts;
        work.batch_srcs = copy->batch_srcs;
        work.batch_sizes = copy->batch_sizes;
        work.batch_count = copy->batch_count;
        work.dst = (void *)(uintptr_t)copy->batch_dsts[0];
        work.src = (const void *)(uintptr_t)copy->batch_srcs[0];
        work.bytes = copy->batch_sizes[0];
    }
    return hand_over(made_by, &work);
}

enum run_outcome dropin_serve(const struct dropin_copy *copy)
{
    int error = errno;
    enum run_outcome outcome = serve(copy);

    errno = error;
    return outcome;
}
