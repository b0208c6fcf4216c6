/*
 * tracing.c - starts the trace of "leat run --trace" in a process that uses CUDA, and hands NVTX ranges to it.
 *
 * NVTX is NVIDIA's interface by which programs name their ranges. At a program's first call of it, NVTX loads the
 * library that NVTX_INJECTION64_PATH names, which the command sets to libleat-run, and calls
 * InitializeInjectionNvtx2(), which puts functions into NVTX's tables. Ranges that begin before the program has
 * initialised CUDA are not recorded.
 */
#include "wrappers.h"

#include "nvtx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Release and acquire: a thread that sees the engine sees that the trace has begun. NULL: nothing is recorded. */
static _Atomic(const struct engine *) tracer;

static const struct engine *tracing(void)
{
    return dropin_is_forked() ? NULL : atomic_load_explicit(&tracer, memory_order_acquire);
}

/* ---- starting ---- */

/* Makes the name of the file. Each "%p" becomes the number of the process; without it the first process with CUDA
 * writes to the name as given, and others add their number. A name that becomes too long stays as it is; then the
 * recorder says so. */
static void name_file(char *path, size_t path_bytes, const char *given)
{
    unsigned before = dropin_count_traced();
    const char *at = given, *number = strstr(at, "%p");
    size_t used = 0;

    if (before && !number) {
        snprintf(path, path_bytes, "%s.%d", given, (int)getpid());
        return;
    }
    for (; number && used < path_bytes; number = strstr(at, "%p")) {
        used += (size_t)snprintf(path + used, path_bytes - used, "%.*s%d", (int)(number - at), at, (int)getpid());
        at = number + 2;
    }
    if (used + strlen(at) < path_bytes)
        snprintf(path + used, path_bytes - used, "%s", at);
    else
        snprintf(path, path_bytes, "%s", given);
}

static void begin(void)
{
    const char *given = secure_getenv(RUN_TRACE_VARIABLE), *cupti = secure_getenv(RUN_CUPTI_VARIABLE);
    char path[4096], text[RUN_TRACED_BYTES - 64] = "", message[sizeof path + RUN_TRACED_BYTES];
    const struct engine *engine;
    enum engine_tracing how;

    if (!given || !given[0] || dropin_is_forked())
        return;
    engine = dropin_engine();
    if (!engine)
        return;
    name_file(path, sizeof path, given);
    how = engine->trace(path, cupti, text, sizeof text);
    snprintf(message, sizeof message, "%s%s",
             how == ENGINE_NOT_TRACED ? "no trace: "
             : how == ENGINE_BY_CUPTI ? "trace by "
                                      : "trace by events around the calls that leat sees, and not by CUPTI: ",
             text);
    dropin_count_trace(path, message);
    if (how != ENGINE_NOT_TRACED)
        atomic_store_explicit(&tracer, engine, memory_order_release);
    atomic_store_explicit(&dropin_by_events, how == ENGINE_BY_EVENTS, memory_order_relaxed);
}

/* The first thread begins the trace. Others go on at once: begin() loads libraries and so waits for the loader's
 * lock, and another thread may come here with that lock, from the constructor of a library. */
void dropin_trace_begin(void)
{
    static atomic_flag has_begun = ATOMIC_FLAG_INIT;
    int error = errno;

    if (atomic_flag_test_and_set_explicit(&has_begun, memory_order_relaxed))
        return;
    dropin_inside++;
    begin();
    dropin_inside--;
    errno = error;
}

/* ---- calls, by events ---- */

atomic_bool dropin_by_events;

/* Fills what the engine needs to time work. Returns false if it cannot be timed: without a context, in one that is
 * not the device's primary one, and while the stream is capturing. */
static bool find_place(struct engine_call *found, cu_stream stream)
{
    int capturing = CU_CAPTURE_NONE, active = 0;
    cu_context context;
    unsigned flags;

    if (!dropin_driver.complete || dropin_driver.context_current(&context) != CU_SUCCESS || !context ||
        dropin_driver.context_device(&found->device) != CU_SUCCESS ||
        dropin_driver.stream_capturing(stream, &capturing) != CU_SUCCESS || capturing != CU_CAPTURE_NONE ||
        dropin_driver.primary_state(found->device, &flags, &active) != CU_SUCCESS || !active)
        return false;
    found->context = context;
    found->stream = stream;
    return true;
}

/* Calls of leat's must not end a capture of another stream: see hand_over() in serve.c. */
static void relax(int *mode)
{
    *mode = CU_CAPTURE_MODE_RELAXED;
    dropin_inside++;
    if (dropin_driver.capture_mode)
        (void)dropin_driver.capture_mode(mode);
}

static void unrelax(int *mode)
{
    if (dropin_driver.capture_mode)
        (void)dropin_driver.capture_mode(mode);
    dropin_inside--;
}

bool dropin_call_begin(const struct dropin_call *call)
{
    static const enum engine_kind kinds[] = {
        [DROPIN_COPY] = ENGINE_COPY, [DROPIN_FILL] = ENGINE_FILL,   [DROPIN_KERNEL] = ENGINE_KERNEL,
        [DROPIN_WAIT] = ENGINE_WAIT, [DROPIN_ALLOC] = ENGINE_ALLOC, [DROPIN_FREE] = ENGINE_FREE};
    const struct engine *engine = tracing();
    struct engine_call traced = {.kind = kinds[call->kind],
                                 .name = call->name,
                                 .caller = call->caller,
                                 .waits = call->waits,
                                 .bytes = call->bytes,
                                 .address = call->kind == DROPIN_FILL ? call->dst : call->src};
    int error = errno, mode;

    if (!engine)
        return false;
    relax(&mode);
    traced.timed = call->in_stream && find_place(&traced, call->stream);
    traced.from = dropin_memory_of(call->src);
    traced.to = dropin_memory_of(call->dst);
    engine->call_begin(&traced);
    unrelax(&mode);
    errno = error;
    return true;
}

void dropin_call_end(cu_result code)
{
    const struct engine *engine = atomic_load_explicit(&tracer, memory_order_acquire);
    int error = errno, mode;

    relax(&mode);
    engine->call_end(code != CU_SUCCESS);
    unrelax(&mode);
    errno = error;
}

bool dropin_memory_begin(enum run_call call, uint64_t bytes, const void *caller)
{
    bool frees = call == RUN_CALL_FREE || call == RUN_CALL_FREE_ASYNC;

    return !dropin_inside && atomic_load_explicit(&dropin_by_events, memory_order_relaxed) &&
           dropin_call_begin(&(struct dropin_call){.kind = frees ? DROPIN_FREE : DROPIN_ALLOC,
                                                   .name = dropin_call_names[call],
                                                   .caller = caller,
                                                   .bytes = bytes});
}

/* ---- NVTX ---- */

static void push(const char *name)
{
    const struct engine *engine = tracing();

    if (engine)
        engine->range_push(name);
}

static void pop(void)
{
    const struct engine *engine = tracing();

    if (engine)
        engine->range_pop();
}

static void mark(const char *name)
{
    const struct engine *engine = tracing();

    if (engine)
        engine->mark(name, 0);
}

/* Writes a text of wide characters; those beyond ASCII become "?". Returns text. */
static const char *narrow(char text[NVTX_TEXT_BYTES], const wchar_t *wide)
{
    size_t at = 0;

    for (; wide && wide[at] && at < NVTX_TEXT_BYTES - 1; at++)
        text[at] = wide[at] > 0 && wide[at] < 128 ? (char)wide[at] : '?';
    text[at] = '\0';
    return text;
}

/* Returns the name of a range or mark. */
static const char *name_of(char text[NVTX_TEXT_BYTES], const struct nvtx_attributes *attributes)
{
    struct nvtx_attributes is = {.version = 0};

    if (!attributes || attributes->size < sizeof is)
        return "";
    memcpy(&is, attributes, sizeof is);
    if (is.message_type == NVTX_MESSAGE_WIDE)
        return narrow(text, is.message);
    /* A registered string is the text itself: see register_text(). */
    if (is.message_type == NVTX_MESSAGE_TEXT || is.message_type == NVTX_MESSAGE_REGISTERED)
        return is.message ? is.message : "";
    return "";
}

/* The functions return what NVTX's own return: the depth of the range, or a negative number if no tool knows it.
 */
enum { NO_DEPTH = -2 };

static int push_text(const char *name)
{
    push(name ? name : "");
    return NO_DEPTH;
}

static int push_wide(const wchar_t *name)
{
    char text[NVTX_TEXT_BYTES];

    push(narrow(text, name));
    return NO_DEPTH;
}

static int push_attributes(const struct nvtx_attributes *attributes)
{
    char text[NVTX_TEXT_BYTES];

    push(name_of(text, attributes));
    return NO_DEPTH;
}

static int push_in_domain(void *domain, const struct nvtx_attributes *attributes)
{
    (void)domain;
    return push_attributes(attributes);
}

static int pop_one(void)
{
    pop();
    return NO_DEPTH;
}

static int pop_in_domain(void *domain)
{
    (void)domain;
    return pop_one();
}

static void mark_text(const char *name)
{
    mark(name ? name : "");
}

static void mark_wide(const wchar_t *name)
{
    char text[NVTX_TEXT_BYTES];

    mark(narrow(text, name));
}

static void mark_attributes(const struct nvtx_attributes *attributes)
{
    char text[NVTX_TEXT_BYTES];

    mark(name_of(text, attributes));
}

static void mark_in_domain(void *domain, const struct nvtx_attributes *attributes)
{
    (void)domain;
    mark_attributes(attributes);
}

/* Programs register few strings, and keep them until they end. */
static void *register_text(void *domain, const char *name)
{
    (void)domain;
    return name ? strdup(name) : NULL;
}

static void *register_wide(void *domain, const wchar_t *name)
{
    char text[NVTX_TEXT_BYTES];

    return register_text(domain, narrow(text, name));
}

/* Puts a function into a table of NVTX, if this version of NVTX has the place. */
static void put(void ***table, unsigned entries, unsigned at, void *function)
{
    if (at < entries && table[at])
        *table[at] = function;
}

DROPIN_EXPORT int InitializeInjectionNvtx2(nvtx_get_export_table get_table);

int InitializeInjectionNvtx2(nvtx_get_export_table get_table)
{
    const struct nvtx_callbacks *callbacks = get_table ? get_table(NVTX_TABLE_CALLBACKS) : NULL;
    void ***table = NULL;
    unsigned entries = 0;

    if (!callbacks || callbacks->size < sizeof *callbacks || !callbacks->get_module)
        return 0;
    if (callbacks->get_module(NVTX_MODULE_CORE, &table, &entries) && table) {
        put(table, entries, NVTX_CORE_MARK_ATTRIBUTES, (void *)mark_attributes);
        put(table, entries, NVTX_CORE_MARK_TEXT, (void *)mark_text);
        put(table, entries, NVTX_CORE_MARK_WIDE, (void *)mark_wide);
        put(table, entries, NVTX_CORE_PUSH_ATTRIBUTES, (void *)push_attributes);
        put(table, entries, NVTX_CORE_PUSH_TEXT, (void *)push_text);
        put(table, entries, NVTX_CORE_PUSH_WIDE, (void *)push_wide);
        put(table, entries, NVTX_CORE_POP, (void *)pop_one);
    }
    table = NULL;
    entries = 0;
    if (callbacks->get_module(NVTX_MODULE_CORE2, &table, &entries) && table) {
        put(table, entries, NVTX_CORE2_MARK, (void *)mark_in_domain);
        put(table, entries, NVTX_CORE2_PUSH, (void *)push_in_domain);
        put(table, entries, NVTX_CORE2_POP, (void *)pop_in_domain);
        put(table, entries, NVTX_CORE2_REGISTER_TEXT, (void *)register_text);
        put(table, entries, NVTX_CORE2_REGISTER_WIDE, (void *)register_wide);
    }
    return 1;
}
