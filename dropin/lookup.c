/*
 * lookup.c - replaces functions of the driver wherever a program looks them up: dlsym(), cuGetProcAddress(), and
 * linking with libcuda.so.1.
 *
 * The driver is asked first, and the library then compares addresses: a result is replaced only if it is the very
 * function that libleat-run has a replacement for. A function of the same name with other parameters, of another
 * library or of a later CUDA version is therefore passed through, and a failed lookup fails as before.
 */
#include "wrappers.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define CUDA_LIBRARY "libcuda.so.1"

_Thread_local __attribute__((tls_model("initial-exec"))) unsigned dropin_inside;
struct dropin_driver dropin_driver;

typedef void *(*dlsym_function)(void *, const char *);
typedef cu_result (*lookup_function)(const char *, void **, int, uint64_t);
typedef cu_result (*lookup_function_v2)(const char *, void **, int, uint64_t, int *);

/* A function that the library replaces. real and asked are written under names_lock before names_ready or
 * names_asked is set, and read after that. */
struct name {
    const char *symbol, *base;
    int version;
    bool per_thread;
    void *wrapper;
    void *real;  /* the exported function of libcuda.so.1; NULL: it has none */
    void *asked; /* what cuGetProcAddress() returns for base, version and per_thread */
};

static struct name names[DROPIN_NAMES] = {
#define NAME(symbol, base, version, per_thread) {#symbol, base, version, per_thread, (void *)symbol, NULL, NULL},
    DROPIN_NAME_LIST(NAME)
#undef NAME
};

/* Guards filling names[] and dropin_driver. */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool names_ready, names_asked;

/* ---- the real dlsym() ---- */

/* The versions of dlsym() in glibc: since 2.34, and before. */
#ifdef __x86_64__
#define FIRST_VERSION "GLIBC_2.2.5"
#else
#define FIRST_VERSION "GLIBC_2.17"
#endif
#define NEW_VERSION "GLIBC_2.34"

static dlsym_function real_dlsym(void)
{
    /* Relaxed: every thread finds the same value. */
    static _Atomic(void *) found;
    void *function = atomic_load_explicit(&found, memory_order_relaxed);
    dlsym_function typed;

    if (!function) {
        function = dlvsym(RTLD_NEXT, "dlsym", NEW_VERSION);
        if (!function)
            function = dlvsym(RTLD_NEXT, "dlsym", FIRST_VERSION);
        atomic_store_explicit(&found, function, memory_order_relaxed);
    }
    memcpy(&typed, &function, sizeof typed);
    return typed;
}

void *dropin_real_dlsym(void *handle, const char *name)
{
    return real_dlsym()(handle, name);
}

/* ---- the table of names ---- */

static void begin_child(void)
{
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    /* A thread of the parent may have held the lock, and it does not exist here. */
    memcpy(&names_lock, &fresh, sizeof fresh);
}

/* What a library has. */
struct found {
    void *real[DROPIN_NAMES];
    struct dropin_driver driver;
};

static void find(struct found *found, void *library, const char *symbol, void *function)
{
    void *address = dropin_real_dlsym(library, symbol);

    memcpy(function, &address, sizeof address);
    if (!address)
        found->driver.complete = false;
}

/* The functions that only --pool needs. A driver without them serves copies. */
static void find_pool(struct found *found, void *library)
{
    bool complete = found->driver.complete;

    found->driver.complete = true;
    find(found, library, "cuCtxPushCurrent_v2", &found->driver.context_push);
    find(found, library, "cuCtxPopCurrent_v2", &found->driver.context_pop);
    find(found, library, "cuCtxSynchronize", &found->driver.context_synchronize);
    find(found, library, "cuStreamSynchronize", &found->driver.stream_synchronize);
    find(found, library, "cuDeviceGetCount", &found->driver.device_count);
    find(found, library, "cuDeviceTotalMem_v2", &found->driver.device_total);
    find(found, library, "cuDeviceGetMemPool", &found->driver.device_pool);
    find(found, library, "cuDeviceGetDefaultMemPool", &found->driver.device_default_pool);
    found->driver.pool_complete = found->driver.complete;
    find(found, library, "cuStreamGetGreenCtx", &found->driver.stream_green);
    found->driver.complete = complete;
}

static void find_all(struct found *found, void *library)
{
    for (int i = 0; i < DROPIN_NAMES; i++)
        found->real[i] = dropin_real_dlsym(library, names[i].symbol);
    found->driver.complete = true;
    find(found, library, "cuCtxGetCurrent", &found->driver.context_current);
    find(found, library, "cuCtxGetDevice", &found->driver.context_device);
    find(found, library, "cuPointerGetAttributes", &found->driver.pointer_attributes);
    find(found, library, "cuStreamIsCapturing", &found->driver.stream_capturing);
    find(found, library, "cuThreadExchangeStreamCaptureMode", &found->driver.capture_mode);
    find(found, library, "cuDevicePrimaryCtxGetState", &found->driver.primary_state);
    find(found, library, "cuMemHostGetDevicePointer_v2", &found->driver.host_device_pointer);
    find_pool(found, library);
}

static void publish(const struct found *found)
{
    pthread_mutex_lock(&names_lock);
    if (!atomic_load_explicit(&names_ready, memory_order_relaxed)) {
        (void)pthread_atfork(NULL, NULL, begin_child);
        for (int i = 0; i < DROPIN_NAMES; i++)
            names[i].real = found->real[i];
        dropin_driver = found->driver;
        atomic_store_explicit(&names_ready, true, memory_order_release);
    }
    pthread_mutex_unlock(&names_lock);
}

/* Returns true if the driver's library is loaded and names[] describes it. The reference to the library is kept,
 * so that the addresses stay valid if the program closes it. The loader is called without the lock, because
 * another thread may come here from the constructor of a library, in which it has the loader's lock. */
static bool is_ready(void)
{
    struct found found;
    void *library;

    /* Acquire: makes names[] and dropin_driver visible. */
    if (atomic_load_explicit(&names_ready, memory_order_acquire))
        return true;
    library = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    if (library)
        find_all(&found, library);
    /* The program must not see failures of lookups that it has not made. */
    (void)dlerror();
    if (library)
        publish(&found);
    return library != NULL;
}

void *dropin_real(enum dropin_name name)
{
    return is_ready() ? names[name].real : NULL;
}

static const struct name *find_symbol(const char *symbol)
{
    if (!symbol || symbol[0] != 'c' || symbol[1] != 'u')
        return NULL;
    for (int i = 0; i < DROPIN_NAMES; i++)
        if (!strcmp(names[i].symbol, symbol))
            return &names[i];
    return NULL;
}

/* Returns true if the name is replaced in this process. */
static bool is_wanted(const struct name *name)
{
    ptrdiff_t at = name - names;

    if (at < DROPIN_FIRST_MEMORY)
        return true;
    if (at < DROPIN_FIRST_POOL)
        return dropin_serves_pool() || dropin_wants_trace();
    return at < DROPIN_FIRST_TRACED ? dropin_serves_pool() : dropin_wants_trace();
}

/* ---- dlsym() ---- */

/* The real dlsym() finds the caller's library by its return address. So the calls below must be jumps, which leave
 * the address of the program's call on the stack; a test checks that. */
#ifdef __clang__
#define PASS_ON __attribute__((no_sanitize("address", "thread", "undefined")))
#define JUMP __attribute__((musttail)) return
#else
#define PASS_ON __attribute__((optimize("O2"), no_sanitize("address", "thread", "undefined")))
#define JUMP return
#endif

/* Looks up a name of names[]. Returns false if the real dlsym() must answer in the caller's place: its result
 * depends on the library that calls. */
static bool answer(void *handle, const struct name *name, void **result)
{
    void *next;

    if (handle == RTLD_NEXT) {
        /* Where no driver is loaded, the replacement must not be found either. */
        *result = NULL;
        return !is_ready() && !dropin_real_dlsym(RTLD_NEXT, name->symbol);
    }
    *result = dropin_real_dlsym(handle, name->symbol);
    if (*result == name->wrapper) {
        /* The handle stands for the whole program, where the replacement hides the driver's function. */
        next = dropin_real_dlsym(RTLD_NEXT, name->symbol);
        if (next || is_ready())
            *result = !next || (is_ready() && next == name->real) ? name->wrapper : next;
        else
            *result = NULL;
        if (*result)
            (void)dlerror();
    } else if (*result && is_ready() && *result == name->real) {
        *result = name->wrapper;
    }
    if (*result == name->wrapper && is_ready() && name->real && !is_wanted(name))
        *result = name->real;
    return true;
}

DROPIN_EXPORT void *dropin_dlsym_first(void *handle, const char *symbol);
DROPIN_EXPORT void *dropin_dlsym_new(void *handle, const char *symbol);

PASS_ON void *dropin_dlsym_new(void *handle, const char *symbol)
{
    dlsym_function function = real_dlsym();
    const struct name *name = dropin_inside ? NULL : find_symbol(symbol);
    void *result;

    if (name && answer(handle, name, &result))
        return result;
    JUMP function(handle, symbol);
}

PASS_ON void *dropin_dlsym_first(void *handle, const char *symbol)
{
    JUMP dropin_dlsym_new(handle, symbol);
}

__asm__(".symver dropin_dlsym_first, dlsym@" FIRST_VERSION);
__asm__(".symver dropin_dlsym_new, dlsym@@" NEW_VERSION);

/* ---- cuGetProcAddress() ---- */

/* Finds out which functions cuGetProcAddress() returns, in case they are not those that dlsym() returns. */
static void ask_names(lookup_function_v2 v2, lookup_function v1)
{
    void *asked[DROPIN_NAMES];

    /* Acquire: makes asked of names[] visible. */
    if (atomic_load_explicit(&names_asked, memory_order_acquire))
        return;
    for (int i = 0; i < DROPIN_NAMES; i++) {
        uint64_t flags = names[i].per_thread ? CU_LOOKUP_PER_THREAD_STREAM : CU_LOOKUP_LEGACY_STREAM;
        void *function = NULL;
        int why = 0;
        cu_result code = v2 ? v2(names[i].base, &function, names[i].version, flags, &why)
                            : v1(names[i].base, &function, names[i].version, flags);

        asked[i] = code == CU_SUCCESS ? function : NULL;
    }
    pthread_mutex_lock(&names_lock);
    if (!atomic_load_explicit(&names_asked, memory_order_relaxed))
        for (int i = 0; i < DROPIN_NAMES; i++)
            names[i].asked = asked[i];
    atomic_store_explicit(&names_asked, true, memory_order_release);
    pthread_mutex_unlock(&names_lock);
}

/* Returns the replacement of a function that the driver has returned for a name, or the function. If several
 * entries match, the exported function counts more than what the driver has returned for other flags. */
static void *replace(const char *base, void *function, uint64_t flags)
{
    bool per_thread = flags & CU_LOOKUP_PER_THREAD_STREAM;
    int best_rank = 0;
    void *best = function;

    for (int i = 0; i < DROPIN_NAMES; i++) {
        const struct name *name = &names[i];
        int rank = function == name->real ? 4 : function == name->asked ? 2 : 0;

        if (!rank || !name->real || strcmp(name->base, base) != 0 || !is_wanted(name))
            continue;
        rank += name->per_thread == per_thread;
        if (rank > best_rank) {
            best_rank = rank;
            best = name->wrapper;
        }
    }
    return best;
}

static cu_result look_up(cu_result code, const char *base, void **function, uint64_t flags)
{
    void *v2 = dropin_real(DROPIN_cuGetProcAddress_v2), *v1 = dropin_real(DROPIN_cuGetProcAddress);
    lookup_function_v2 typed_v2;
    lookup_function typed_v1;

    if (dropin_inside || code != CU_SUCCESS || !base || !function || !*function)
        return code;
    memcpy(&typed_v2, &v2, sizeof v2);
    memcpy(&typed_v1, &v1, sizeof v1);
    ask_names(typed_v2, typed_v1);
    *function = replace(base, *function, flags);
    return code;
}

cu_result cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    void *real = dropin_real(DROPIN_cuGetProcAddress);
    lookup_function typed;

    if (!real)
        return CU_NOT_FOUND;
    memcpy(&typed, &real, sizeof real);
    return look_up(typed(name, function, version, flags), name, function, flags);
}

cu_result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *why)
{
    void *real = dropin_real(DROPIN_cuGetProcAddress_v2);
    lookup_function_v2 typed;

    if (!real)
        return CU_NOT_FOUND;
    memcpy(&typed, &real, sizeof real);
    return look_up(typed(name, function, version, flags, why), name, function, flags);
}
