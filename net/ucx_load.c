/*
 * ucx_load.c - loads libucp.so.0 without its effects on the process (ucx_load.h).
 *
 * By default UCX installs handlers for SIGILL, SIGSEGV, SIGBUS, SIGFPE and SIGHUP, overwrites the first
 * instructions of mmap(), munmap() and other functions of the C library to learn when memory goes away, and prints
 * warnings. A program that uses a library does not expect that: its own handlers, leat's fault handler and those
 * of a language runtime would lose their signals. All this is decided while the library's constructors run, by
 * variables of the environment only. ucp_config_modify() comes too late for it: it accepts the names and has no
 * effect (measured with 1.13.1 and 1.22.0).
 *
 * So leat loads the library while `environ` points to a copy of the environment with a few more variables.
 * setenv() would be worse: it may move or free the array while another thread reads it, and children would inherit
 * the variables. The copy is never freed, so a thread that reads the environment at that time is safe. A thread
 * that changes a variable in these few milliseconds may lose the change. Variables that the user has set are kept.
 *
 * Without its patches in the C library UCX cannot remember which memory it has registered with a network card. For
 * such cards it registers the memory of each block, unless it is memory of leatn_ucx_memory_create().
 *
 * If the program has loaded UCX before, all of this is as the program chose it.
 */
#include "ucx_load.h"

#include "net.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libucp.so.0"
#define PATH_VARIABLE "LEAT_UCX_LIBRARY"

/* The oldest version that leat has been tested with, and the version of the API that leat's declarations are of.
 */
enum { MAJOR = 1, MINOR_FLOOR = 13 };

/* Each line: the variable that the user may have set, and what leat adds otherwise. */
static const char *const quiet[] = {
    "UCX_HANDLE_ERRORS=none",     /* no handlers for signals of faults */
    "UCX_DEBUG_SIGNO=0",          /* no handler for SIGHUP */
    "UCX_MEM_EVENTS=n",           /* no patches in the C library */
    "UCX_LOG_LEVEL=fatal",        /* no output; failures come as statuses */
    "UCX_MEM_LOG_LEVEL=fatal",    /* the same for its memory hooks */
    "UCX_WARN_UNUSED_ENV_VARS=n", /* no warning about variables of other programs */
    "UCX_VFS_ENABLE=n",           /* no thread that serves a file system of statistics */
};
#define QUIET (sizeof quiet / sizeof quiet[0])

extern char **environ;

/* Guards all variables below. Held while UCX is loaded and started, which may take a second. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static void *library; /* never closed: UCX cannot be unloaded safely */
static struct leatn_ucx_process process;
static unsigned users; /* of the context */
static pid_t owner;    /* the process that has the context */
static char **quiet_environment;

/* ---- loading ---- */

/* Returns true if the environment has a variable of the same name as "NAME=value". */
static bool has_variable(const char *line)
{
    size_t length = strcspn(line, "=") + 1;

    for (char **at = environ; at && *at; at++)
        if (strncmp(*at, line, length) == 0)
            return true;
    return false;
}

/* Returns the environment with the variables above, or NULL. */
static char **make_quiet_environment(void)
{
    size_t count = 0, own = 0;
    char **made;

    while (environ && environ[count])
        count++;
    made = malloc((QUIET + count + 1) * sizeof *made);
    if (!made)
        return NULL;
    for (size_t i = 0; i < QUIET; i++)
        if (!has_variable(quiet[i]))
            made[own++] = (char *)(uintptr_t)quiet[i]; /* read only, like all of an environment */
    for (size_t i = 0; i < count; i++)
        made[own + i] = environ[i];
    made[own + count] = NULL;
    return made;
}

/* Loads the library as the comment at the top says. Returns NULL after a failure, and dlerror() then tells why. */
static void *open_quietly(const char *path)
{
    char **before = environ;
    void *opened;

    __atomic_store_n(&environ, quiet_environment, __ATOMIC_RELEASE);
    opened = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (environ == quiet_environment) /* otherwise setenv() has copied it, and its copy must stay */
        __atomic_store_n(&environ, before, __ATOMIC_RELEASE);
    return opened;
}

static leat_status fail_open(const char *path, const char *reason)
{
    if (!reason)
        reason = "no reason given";
    if (strstr(reason, "No such file"))
        return leatc_fail(LEAT_ERROR_UNSUPPORTED,
                          "UCX is not on this machine (%s); install it (Debian: libucx0), or set " PATH_VARIABLE
                          " to the path of a " LIBRARY ", such as the one of PyPI's package libucx-cu13",
                          reason);
    return leatc_fail(LEAT_ERROR_UNSUPPORTED,
                      "UCX cannot be loaded from %s (%s); reinstall it (Debian: libucx0), or set " PATH_VARIABLE
                      " to the path of a good " LIBRARY,
                      path, reason);
}

static leat_status take_functions(const char *path)
{
    static const struct {
        const char *name;
        size_t offset; /* of the function's field in struct leatn_ucx_api */
    } symbols[] = {
#define SYMBOL(field, name, result, parameters) {#name, offsetof(struct leatn_ucx_api, field)},
        LEATN_UCX_SYMBOL_LIST(SYMBOL)
#undef SYMBOL
    };
    unsigned release;

    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *function = dlsym(library, symbols[i].name);

        /* The version is the first of the list and is in every version: an old library must be called old. */
        if (function) {
            memcpy((char *)&process.api + symbols[i].offset, &function, sizeof function);
            if (i > 0)
                continue;
            process.api.get_version(&process.major, &process.minor, &release);
            if (process.major == MAJOR && process.minor >= MINOR_FLOOR)
                continue;
            return leatc_fail(
                LEAT_ERROR_UNSUPPORTED,
                "leat needs UCX %d.%d or a newer %d.x, found %u.%u.%u (%s); install another one, or set " PATH_VARIABLE
                " to the path of its " LIBRARY,
                MAJOR, MINOR_FLOOR, MAJOR, process.major, process.minor, release, path);
        }
        return leatc_fail(LEAT_ERROR_UNSUPPORTED,
                          "%s is no UCX that leat can use: it has no function %s; set " PATH_VARIABLE
                          " to the path of UCX's " LIBRARY ", or unset it",
                          path, symbols[i].name);
    }
    return LEAT_OK;
}

static void find_path(const char *asked)
{
    Dl_info found;
    void *function;

    memcpy(&function, &process.api.init, sizeof function);
    snprintf(process.path, sizeof process.path, "%s",
             dladdr(function, &found) && found.dli_fname ? found.dli_fname : asked);
}

/* Loads the library and its functions, unless that is done. */
static leat_status load(void)
{
    const char *path = secure_getenv(PATH_VARIABLE);
    leat_status status;

    if (library)
        return LEAT_OK;
    if (!path || !*path)
        path = LIBRARY;
    if (!quiet_environment)
        quiet_environment = make_quiet_environment();
    if (!quiet_environment)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (a copy of the environment, to load UCX)");
    library = open_quietly(path);
    if (!library) {
        const char *reason = dlerror();

        free(quiet_environment); /* made again at the next try: the environment may have changed */
        quiet_environment = NULL;
        return fail_open(path, reason);
    }
    status = take_functions(path);
    if (status != LEAT_OK) {
        library = NULL; /* it stays loaded; the next try opens it again and fails likewise */
        return status;
    }
    process.version = process.api.get_version_string();
    find_path(path);
    return LEAT_OK;
}

/* ---- the context ---- */

void leatn_ucx_block_signals(sigset_t *before)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t blocked;

    /* Signals of a thread's own faults stay: where they are blocked, the kernel kills the process. */
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, before);
}

void leatn_ucx_restore_signals(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static leat_status fail_start(const char *call, ucx_status code)
{
    return leatc_fail(code == LEATN_UCS_ERR_NO_MEMORY ? LEAT_ERROR_HOST_MEMORY : LEAT_ERROR_SYSTEM,
                      "UCX %s (%s) does not start: %s: %s; set UCX_LOG_LEVEL=info to see what it tries",
                      process.version, process.path, call, process.api.status_string(code));
}

static leat_status start(void)
{
    ucx_library_attributes limits = {.field_mask = LEATN_UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL};
    ucx_context_parameters parameters = {
        .field_mask = LEATN_UCP_PARAM_FIELD_FEATURES | LEATN_UCP_PARAM_FIELD_MT_WORKERS_SHARED,
        .features = LEATN_UCP_FEATURE_TAG | LEATN_UCP_FEATURE_WAKEUP,
        .workers_shared = 1, /* each worker is used by other threads, with its own lock */
    };
    ucx_context_attributes attributes = {.field_mask = LEATN_UCP_ATTR_FIELD_MEMORY_TYPES};
    sigset_t before;
    ucx_status code;

    code = process.api.library_query(&limits);
    if (code != LEATN_UCS_OK)
        return fail_start("ucp_lib_query", code);
    if (limits.max_thread_mode < LEATN_UCS_THREAD_MODE_MULTI)
        return leatc_fail(
            LEAT_ERROR_UNSUPPORTED,
            "UCX %s (%s) was built without support for threads, which leat needs; use a UCX that was configured with --enable-mt",
            process.version, process.path);
    leatn_ucx_block_signals(&before);
    code = process.api.init(MAJOR, MINOR_FLOOR, &parameters, NULL, &process.context);
    leatn_ucx_restore_signals(&before);
    if (code != LEATN_UCS_OK)
        return fail_start("ucp_init", code);
    code = process.api.context_query(process.context, &attributes);
    process.memory_types = code == LEATN_UCS_OK ? attributes.memory_types : 1u << LEATN_UCS_MEMORY_TYPE_HOST;
    owner = getpid();
    return LEAT_OK;
}

static leat_status acquire(void)
{
    if (users > 0 && owner != getpid())
        return leatc_fail(
            LEAT_ERROR_NOT_PERMITTED,
            "the parent of this child of fork() had ucx: links open, and UCX cannot be used in both; fork before the first ucx: link, or use a tcp: address");
    if (users == 0) {
        TRY(load());
        TRY(start());
    }
    users++;
    return LEAT_OK;
}

leat_status leatn_ucx_acquire(const struct leatn_ucx_process **ucx)
{
    leat_status status;

    pthread_mutex_lock(&load_lock);
    status = acquire();
    pthread_mutex_unlock(&load_lock);
    if (status == LEAT_OK)
        *ucx = &process; /* does not change until the last release */
    return status;
}

void leatn_ucx_release(void)
{
    pthread_mutex_lock(&load_lock);
    if (--users == 0)
        process.api.cleanup(process.context);
    pthread_mutex_unlock(&load_lock);
}

/* ---- for messages and explanations ---- */

/* Needs no lock: the functions do not change any more when UCX was loaded. */
const char *leatn_ucx_status_text(ucx_status code)
{
    return process.api.status_string(code);
}

/* Returns true if UCX has a module of this name beside its library, and writes the path that was tried. */
static bool has_module(const struct leatn_ucx_process *ucx, const char *name, char *path, size_t path_bytes)
{
    const char *folder = getenv("UCX_MODULE_DIR"), *slash = strrchr(ucx->path, '/');

    if (folder && *folder)
        snprintf(path, path_bytes, "%s/%s", folder, name);
    else
        snprintf(path, path_bytes, "%.*sucx/%s", slash ? (int)(slash - ucx->path) + 1 : 0, ucx->path, name);
    return access(path, R_OK) == 0;
}

void leatn_ucx_explain_memory(const struct leatn_ucx_process *ucx, char *text, size_t text_bytes)
{
    static const struct {
        unsigned type;
        const char *name;
    } types[] = {
        {LEATN_UCS_MEMORY_TYPE_HOST, "host"},
        {LEATN_UCS_MEMORY_TYPE_CUDA, "CUDA"},
        {LEATN_UCS_MEMORY_TYPE_CUDA_MANAGED, "CUDA managed"},
        {LEATN_UCS_MEMORY_TYPE_ROCM, "ROCm"},
        {LEATN_UCS_MEMORY_TYPE_ROCM_MANAGED, "ROCm managed"},
    };
    char path[600], list[128] = "";

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (ucx->memory_types >> types[i].type & 1) {
            size_t used = strlen(list);

            snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", types[i].name);
        }
    if (ucx->memory_types >> LEATN_UCS_MEMORY_TYPE_CUDA & 1)
        snprintf(text, text_bytes, "UCX can move memory of: %s; leat gives it host memory only", list);
    else if (has_module(ucx, "libuct_cuda.so.0", path, sizeof path))
        snprintf(text, text_bytes,
                 "UCX can move memory of: %s; it has a module for CUDA (%s), which found no GPU that it can use",
                 list, path);
    else
        snprintf(text, text_bytes, "UCX can move memory of: %s; it has no module for CUDA (no file %s)", list,
                 path);
}
