/*
 * engine_cupti.c - see engine_cupti.h.
 *
 * CUPTI has one subscriber in a process. leat subscribes, with a function that does nothing, so that two tools do
 * not take each other's records; if another tool was first, leat declines. CUPTI writes records to buffers of
 * leat's and returns them when they are full, or when leat asks for them, which a thread does every FLUSH_MS; it
 * then reads them. So a process that is killed loses the records of that time. CUPTI takes all times from leat's
 * clock.
 */
#include "engine_cupti.h"

#include "cupti_records.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "trace/foreign.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    FLUSH_MS = 100,
    BUFFER_BYTES = 1 << 20,
    SCRAP_BYTES = 16 << 10, /* of a buffer where there must be one and there are BUFFERS_MOST */
    BUFFERS_MOST = 128,
    RETURNED_MOST = 512,
    CALLS_MOST = 2048, /* numbers of calls in a domain */
    BATCH = 256,
    PATH_BYTES = 4096
};

#define FUTURE_NS 1000000000u /* a time later than this from now is wrong */

/* CUPTI's functions, by their names without "cupti". */
#define FUNCTION_LIST(X)                                                                                          \
    X(GetVersion, (uint32_t * version))                                                                           \
    X(GetResultString, (int result, const char **text))                                                           \
    X(Subscribe, (void **subscriber, void (*function)(void *, int, uint32_t, const void *), void *user))          \
    X(Unsubscribe, (void *subscriber))                                                                            \
    X(GetCallbackName, (int domain, uint32_t call, const char **name))                                            \
    X(GetStreamIdEx, (void *context, void *stream, uint8_t per_thread, uint32_t *number))                         \
    X(SetThreadIdType, (int type))                                                                                \
    X(ActivityRegisterTimestampCallback, (uint64_t(*function)(void)))                                             \
    X(ActivityRegisterCallbacks, (void (*wanted)(uint8_t **, size_t *, size_t *),                                 \
                                  void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t)))                 \
    X(ActivityEnable, (int kind))                                                                                 \
    X(ActivityDisable, (int kind))                                                                                \
    X(ActivityFlushAll, (uint32_t flags))                                                                         \
    X(ActivityGetNextRecord, (uint8_t * buffer, size_t bytes, void **record))                                     \
    X(ActivityGetNumDroppedRecords, (void *context, uint32_t stream, size_t *dropped))

/* Newer functions, which choose single calls. */
#define OPTIONAL_LIST(X)                                                                                          \
    X(ActivityEnableDriverApi, (uint32_t call, uint8_t enable))                                                   \
    X(ActivityEnableRuntimeApi, (uint32_t call, uint8_t enable))

/* Written before CUPTI calls back, and then only read. */
static struct {
#define FUNCTION(name, parameters) int(*name) parameters;
    FUNCTION_LIST(FUNCTION)
    OPTIONAL_LIST(FUNCTION)
#undef FUNCTION
    void *library, *subscriber;
    uint32_t version;
    uint64_t start_ns;
    pid_t process;
} cupti;

/* What leat records of a call of the driver or the runtime. Written before CUPTI calls back. */
struct call {
    char *name;
    uint8_t kind;  /* enum leati_trace_kind, or NOT_RECORDED */
    uint8_t kinds; /* see leati_trace_op */
    bool blocks;
};
static struct call calls[CUPTI_DOMAINS][CALLS_MOST];

/* ---- calls ---- */

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* Not a kind: leat does not record the call. */
#define NOT_RECORDED 0u

static unsigned kind_of_memory_call(const char *name)
{
    if (begins(name, "HostRegister") || begins(name, "MemHostRegister"))
        return LEATI_TRACE_PIN;
    if (begins(name, "HostUnregister") || begins(name, "MemHostUnregister"))
        return LEATI_TRACE_UNPIN;
    if (begins(name, "Malloc") || begins(name, "MemAlloc") || begins(name, "HostAlloc") ||
        begins(name, "MemHostAlloc") || begins(name, "MemCreate") || !strcmp(name, "MemMap") ||
        begins(name, "MemSetAccess"))
        return LEATI_TRACE_ALLOC;
    if (begins(name, "Free") || begins(name, "MemFree") || begins(name, "MemUnmap") || begins(name, "MemRelease"))
        return LEATI_TRACE_FREE;
    return NOT_RECORDED;
}

/* Returns what a call does, an enum leati_trace_kind, or NOT_RECORDED if it neither submits work nor explains idle
 * time. name: without "cu" or "cuda". */
static unsigned kind_of_call(const char *name)
{
    if (begins(name, "LaunchHostFunc"))
        return LEATI_TRACE_HOST_FUNCTION;
    if (begins(name, "Launch") || begins(name, "GraphLaunch"))
        return LEATI_TRACE_KERNEL;
    if (begins(name, "Memcpy"))
        return LEATI_TRACE_COPY;
    if (begins(name, "Memset"))
        return LEATI_TRACE_FILL;
    if (begins(name, "MemPrefetch"))
        return LEATI_TRACE_PAGE_MOVE;
    if (strstr(name, "Synchronize"))
        return LEATI_TRACE_SYNCHRONIZE;
    if (begins(name, "ModuleLoad") || begins(name, "LibraryLoad"))
        return LEATI_TRACE_MODULE_LOAD;
    return kind_of_memory_call(name);
}

/* Removes what tells versions and kinds of default streams apart: "cudaLaunchKernel_ptsz_v7000". */
static void cut_suffixes(char *name)
{
    char *last;

    while ((last = strrchr(name, '_')) != NULL) {
        if (strcmp(last, "_ptsz") != 0 && strcmp(last, "_ptds") != 0 &&
            (last[1] != 'v' || last[2] < '0' || last[2] > '9' || last[2 + strspn(last + 2, "0123456789")]))
            return;
        *last = '\0';
    }
}

static void learn_call(int domain, uint32_t number)
{
    struct call *call = &calls[domain][number];
    const char *found = NULL, *rest;
    unsigned kind;

    if (cupti.GetCallbackName(domain, number, &found) != CUPTI_OK || !found || !begins(found, "cu"))
        return;
    rest = found + (begins(found, "cuda") ? 4 : 2);
    kind = kind_of_call(rest);
    if (kind == NOT_RECORDED || !(call->name = strdup(found)))
        return;
    cut_suffixes(call->name);
    call->kind = (uint8_t)kind;
    call->blocks = kind == LEATI_TRACE_COPY && !strstr(found, "Async");
    if (kind == LEATI_TRACE_ALLOC)
        call->kinds = (uint8_t)((strstr(found, "Host")      ? LEATI_TRACE_MEMORY_PINNED
                                 : strstr(found, "Managed") ? LEATI_TRACE_MEMORY_MANAGED
                                                            : LEATI_TRACE_MEMORY_DEVICE)
                                << 4);
}

static void learn_calls(void)
{
    for (int domain = CUPTI_DOMAIN_DRIVER; domain < CUPTI_DOMAINS; domain++)
        for (uint32_t number = 1; number < CALLS_MOST; number++)
            learn_call(domain, number);
}

static void forget_calls(void)
{
    for (int domain = CUPTI_DOMAIN_DRIVER; domain < CUPTI_DOMAINS; domain++)
        for (uint32_t number = 1; number < CALLS_MOST; number++)
            free(calls[domain][number].name);
    memset(calls, 0, sizeof calls);
}

/* ---- records ---- */

/* Operations on their way to the recorder. */
struct batch {
    struct leati_foreign_op list[BATCH];
    uint32_t count;
    uint64_t lost;
};

static void pass_on(struct batch *batch)
{
    if (batch->count || batch->lost)
        leati_foreign_add("cuda", batch->list, batch->count, batch->lost);
    batch->count = 0;
    batch->lost = 0;
}

static struct leati_foreign_op *add(struct batch *batch, uint32_t correlation, enum leati_trace_kind kind)
{
    struct leati_foreign_op *added;

    if (batch->count == BATCH)
        pass_on(batch);
    added = &batch->list[batch->count++];
    *added =
        (struct leati_foreign_op){.op = {.value = correlation, .pieces = 1, .kind = (uint8_t)kind}, .device = -1};
    return added;
}

/* Returns true if the times can be of this trace. CUPTI gives 0 for what it could not measure. */
static bool are_times(uint64_t start, uint64_t end)
{
    return start >= cupti.start_ns && start <= end && end <= leati_clock_ns() + FUTURE_NS;
}

static void add_work(struct batch *batch, enum leati_trace_kind kind, const struct cupti_copy *at,
                     uint32_t correlation, const char *name)
{
    struct leati_foreign_op *added = add(batch, correlation, kind);

    added->name = name;
    added->device = (int)at->device;
    added->stream = at->stream;
    if (are_times(at->start, at->end)) {
        added->op.device_start_ns = at->start;
        added->op.device_end_ns = at->end;
    } else {
        added->op.how |= LEATI_TRACE_TIMES_LOST;
    }
}

static enum leati_trace_memory memory_of(unsigned memory)
{
    switch (memory) {
    case CUPTI_MEMORY_PAGEABLE:
        return LEATI_TRACE_MEMORY_PAGEABLE;
    case CUPTI_MEMORY_PINNED:
        return LEATI_TRACE_MEMORY_PINNED;
    case CUPTI_MEMORY_DEVICE:
    case CUPTI_MEMORY_ARRAY:
    case CUPTI_MEMORY_DEVICE_STATIC:
        return LEATI_TRACE_MEMORY_DEVICE;
    case CUPTI_MEMORY_MANAGED:
    case CUPTI_MEMORY_MANAGED_STATIC:
        return LEATI_TRACE_MEMORY_MANAGED;
    default:
        return LEATI_TRACE_MEMORY_NONE;
    }
}

static void add_copy(struct batch *batch, const struct cupti_copy *copy, uint32_t correlation)
{
    add_work(batch, LEATI_TRACE_COPY, copy, correlation, NULL);
    batch->list[batch->count - 1].op.bytes = copy->bytes;
    batch->list[batch->count - 1].op.kinds =
        (uint8_t)((unsigned)memory_of(copy->from) | (unsigned)memory_of(copy->to) << 4);
}

static void add_fill(struct batch *batch, const struct cupti_fill *fill)
{
    struct cupti_copy place = {
        .device = fill->device, .stream = fill->stream, .start = fill->start, .end = fill->end};

    add_work(batch, LEATI_TRACE_FILL, &place, fill->correlation, NULL);
    batch->list[batch->count - 1].op.bytes = fill->bytes;
    batch->list[batch->count - 1].op.kinds = (uint8_t)(memory_of(fill->memory) << 4);
}

static void add_kernel(struct batch *batch, const struct cupti_kernel *kernel)
{
    struct cupti_copy place = {
        .device = kernel->device, .stream = kernel->stream, .start = kernel->start, .end = kernel->end};

    add_work(batch, LEATI_TRACE_KERNEL, &place, kernel->correlation, kernel->name);
}

static void add_call(struct batch *batch, const struct cupti_call *record, int domain)
{
    const struct call *call = &calls[domain][record->call < CALLS_MOST ? record->call : 0];
    struct leati_foreign_op *added;
    uint64_t time_ns;

    if (!call->kind)
        return;
    if (!are_times(record->start, record->end)) {
        batch->lost++;
        return;
    }
    added = add(batch, record->correlation, call->kind);
    added->name = call->name;
    added->system_thread = record->thread;
    added->op.host_start_ns = record->start;
    time_ns = record->end - record->start;
    added->op.how = call->blocks ? LEATI_TRACE_SYNCHRONOUS : 0;
    if (time_ns > UINT32_MAX) {
        added->op.how |= LEATI_TRACE_LONG;
        time_ns = time_ns / 1024 < UINT32_MAX ? time_ns / 1024 : UINT32_MAX;
    }
    added->op.host_time = (uint32_t)time_ns;
    added->op.kinds = call->kinds;
    added->op.status = record->result ? -1 : 0;
}

/* Reads a record of which left bytes are in the buffer. Returns false if its beginning is not there. */
static bool add_record(struct batch *batch, const void *record, size_t left)
{
    union {
        uint32_t kind;
        struct cupti_kernel kernel;
        struct cupti_copy copy;
        struct cupti_peer_copy peer;
        struct cupti_fill fill;
        struct cupti_call call;
    } is;
    size_t bytes;

    if (left < sizeof is.kind)
        return false;
    memcpy(&is.kind, record, sizeof is.kind);
    bytes = is.kind == CUPTI_KIND_CONCURRENT_KERNEL                         ? sizeof is.kernel
            : is.kind == CUPTI_KIND_MEMCPY                                  ? sizeof is.copy
            : is.kind == CUPTI_KIND_MEMCPY2                                 ? sizeof is.peer
            : is.kind == CUPTI_KIND_MEMSET                                  ? sizeof is.fill
            : is.kind == CUPTI_KIND_DRIVER || is.kind == CUPTI_KIND_RUNTIME ? sizeof is.call
                                                                            : 0;
    if (left < bytes)
        return false;
    memcpy(&is, record, bytes ? bytes : sizeof is.kind);
    switch (is.kind) {
    case CUPTI_KIND_CONCURRENT_KERNEL:
        add_kernel(batch, &is.kernel);
        break;
    case CUPTI_KIND_MEMCPY:
        add_copy(batch, &is.copy, is.copy.correlation);
        break;
    case CUPTI_KIND_MEMCPY2:
        add_copy(batch, &is.peer.copy, is.peer.correlation);
        break;
    case CUPTI_KIND_MEMSET:
        add_fill(batch, &is.fill);
        break;
    case CUPTI_KIND_DRIVER:
    case CUPTI_KIND_RUNTIME:
        add_call(batch, &is.call, is.kind == CUPTI_KIND_DRIVER ? CUPTI_DOMAIN_DRIVER : CUPTI_DOMAIN_RUNTIME);
        break;
    default:
        break;
    }
    return true;
}

static void read_buffer(uint8_t *buffer, size_t bytes, size_t dropped)
{
    struct batch batch = {.lost = dropped};
    void *record = NULL;
    int result;

    while ((result = cupti.ActivityGetNextRecord(buffer, bytes, &record)) == CUPTI_OK) {
        size_t at = (size_t)((uint8_t *)record - buffer);

        if (at > bytes || !add_record(&batch, record, bytes - at)) {
            batch.lost++;
            break;
        }
    }
    if (result != CUPTI_OK && result != CUPTI_NO_MORE_RECORDS)
        batch.lost++; /* at least */
    pass_on(&batch);
}

/* ---- buffers ---- */

static struct leati_lock buffers_lock = LEATI_LOCK_INITIALIZER;
static void *spare_buffers[BUFFERS_MOST] LEATI_GUARDED_BY(buffers_lock);
static unsigned spare_count LEATI_GUARDED_BY(buffers_lock), buffer_count
    LEATI_GUARDED_BY(buffers_lock); /* of BUFFER_BYTES, spare ones too */

/* A buffer that CUPTI has returned and that is to be read. */
struct returned {
    uint8_t *buffer; /* NULL: only dropped counts */
    size_t bytes, used, dropped;
};
static struct returned returned[RETURNED_MOST] LEATI_GUARDED_BY(buffers_lock);
static unsigned returned_count LEATI_GUARDED_BY(buffers_lock), lost_buffers
    LEATI_GUARDED_BY(buffers_lock); /* each counts as one lost record */

static void take_buffer(uint8_t **buffer, size_t *bytes, size_t *records)
{
    void *taken = NULL;
    bool more;

    *records = 0; /* as many as there is room for */
    *bytes = 0;
    leati_lock(&buffers_lock);
    if (spare_count)
        taken = spare_buffers[--spare_count];
    more = !taken && buffer_count < BUFFERS_MOST;
    if (more)
        taken = malloc(BUFFER_BYTES);
    if (more && taken)
        buffer_count++;
    leati_unlock(&buffers_lock);
    if (taken)
        *bytes = BUFFER_BYTES;
    else if (cupti.version < CUPTI_VERSION_NO_BUFFER && (taken = malloc(SCRAP_BYTES)) != NULL)
        *bytes = SCRAP_BYTES;
    /* Without a buffer, CUPTI drops the records and counts them. */
    *buffer = taken;
}

/* Notes a buffer with records, or makes it a spare one. Returns false if it is to be freed. */
static bool keep_buffer(const struct returned *given) LEATI_REQUIRES(buffers_lock)
{
    if ((given->used || given->dropped) && returned_count < RETURNED_MOST) {
        returned[returned_count++] = *given;
        return true;
    }
    lost_buffers += given->used || given->dropped;
    if (given->bytes == BUFFER_BYTES && given->buffer)
        spare_buffers[spare_count++] = given->buffer;
    return given->bytes == BUFFER_BYTES;
}

/* CUPTI may call this with locks of its own and of the driver, for which the recorder's thread may wait. So the
 * buffer is only noted. */
static void return_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t used)
{
    size_t dropped = 0;
    bool is_kept;

    if (cupti.ActivityGetNumDroppedRecords(context, stream, &dropped) != CUPTI_OK)
        dropped = 0;
    leati_lock(&buffers_lock);
    is_kept = keep_buffer(&(struct returned){buffer, bytes, buffer ? used : 0, dropped});
    leati_unlock(&buffers_lock);
    if (!is_kept)
        free(buffer);
}

/* Takes a buffer that CUPTI has returned. Returns false if there is none. */
static bool take_returned(struct returned *taken)
{
    bool is_there;

    leati_lock(&buffers_lock);
    is_there = returned_count > 0;
    if (is_there) {
        *taken = returned[0];
        memmove(returned, returned + 1, --returned_count * sizeof returned[0]);
        taken->dropped += lost_buffers;
        lost_buffers = 0;
    }
    leati_unlock(&buffers_lock);
    return is_there;
}

static void read_returned(void)
{
    struct returned taken;

    while (take_returned(&taken)) {
        if (taken.used || taken.dropped)
            read_buffer(taken.buffer, taken.used, taken.dropped);
        if (taken.bytes != BUFFER_BYTES) {
            free(taken.buffer);
            continue;
        }
        leati_lock(&buffers_lock);
        if (taken.buffer)
            spare_buffers[spare_count++] = taken.buffer;
        leati_unlock(&buffers_lock);
    }
}

/* ---- asking for records ---- */

/* Held while CUPTI is asked for records, and while they are read. */
static struct leati_lock flush_lock = LEATI_LOCK_INITIALIZER;
static bool is_over LEATI_GUARDED_BY(flush_lock);

static void *flush_now_and_then(void *unused)
{
    struct timespec pause = {.tv_nsec = FLUSH_MS * 1000000L};
    bool over;

    (void)unused;
    prctl(PR_SET_NAME, "leat-cupti");
    do {
        nanosleep(&pause, NULL);
        leati_lock(&flush_lock);
        over = is_over;
        if (!over) {
            (void)cupti.ActivityFlushAll(0);
            read_returned();
        }
        leati_unlock(&flush_lock);
    } while (!over);
    return NULL;
}

void engine_cupti_end(void)
{
    /* A child of fork() has neither CUPTI's threads nor a trace. */
    if (!cupti.subscriber || getpid() != cupti.process)
        return;
    leati_lock(&flush_lock);
    if (!is_over) {
        (void)cupti.ActivityFlushAll(CUPTI_FLUSH_FORCED);
        read_returned();
    }
    is_over = true;
    leati_unlock(&flush_lock);
}

uint32_t engine_cupti_stream(void *context, void *stream)
{
    uintptr_t handle = (uintptr_t)stream; /* 1 and 2: the legacy and the per-thread default stream */
    uint32_t number = 0;

    if (!cupti.subscriber ||
        cupti.GetStreamIdEx(context, handle <= 2 ? NULL : stream, handle == 2, &number) != CUPTI_OK)
        return 0;
    return number;
}

/* ---- starting ---- */

/* A failed step, with CUPTI's words for its result. Returns false. */
static bool fail(char *text, size_t text_bytes, const char *step, int result)
{
    const char *why = NULL;

    if (cupti.GetResultString(result, &why) != CUPTI_OK || !why)
        why = "unknown";
    if (result == CUPTI_OTHER_SUBSCRIBER)
        snprintf(text, text_bytes,
                 "another tool uses CUPTI in this process, and CUPTI serves one; run the program without it");
    else
        snprintf(text, text_bytes, "cupti%s failed with %d, %s", step, result, why);
    return false;
}

static bool is_taken; /* written by start() */

static void ignore(void *user, int domain, uint32_t call, const void *data)
{
    (void)user;
    (void)domain;
    (void)call;
    (void)data;
}

static bool has_known_version(uint32_t version)
{
#define IN_RANGE(first, last) (version >= (first) && version <= (last)) ||
    return CUPTI_VERSION_LIST(IN_RANGE) false;
#undef IN_RANGE
}

static bool find_functions(char *text, size_t text_bytes)
{
    void *found;

#define FIND(name, parameters)                                                                                    \
    found = dlsym(cupti.library, "cupti" #name);                                                                  \
    if (!found) {                                                                                                 \
        snprintf(text, text_bytes, "it has no function cupti" #name);                                             \
        return false;                                                                                             \
    }                                                                                                             \
    memcpy(&cupti.name, &found, sizeof found);
    FUNCTION_LIST(FIND)
#undef FIND
#define FIND(name, parameters)                                                                                    \
    found = dlsym(cupti.library, "cupti" #name);                                                                  \
    memcpy(&cupti.name, &found, sizeof found);
    OPTIONAL_LIST(FIND)
#undef FIND
    return true;
}

static const int work_kinds[] = {CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMCPY2,
                                 CUPTI_KIND_MEMSET};

enum { WORK_KINDS = sizeof work_kinds / sizeof work_kinds[0] };

/* Lets CUPTI record the calls of a domain that leat wants, or all of them if it cannot choose. */
static int enable_calls(int domain)
{
    int (*choose)(uint32_t, uint8_t) =
        domain == CUPTI_DOMAIN_DRIVER ? cupti.ActivityEnableDriverApi : cupti.ActivityEnableRuntimeApi;
    int result = CUPTI_OK;

    for (uint32_t number = 1; number < CALLS_MOST && choose && result == CUPTI_OK; number++)
        if (calls[domain][number].kind)
            result = choose(number, 1);
    if (choose && result == CUPTI_OK)
        return CUPTI_OK;
    return cupti.ActivityEnable(domain == CUPTI_DOMAIN_DRIVER ? CUPTI_KIND_DRIVER : CUPTI_KIND_RUNTIME);
}

static void disable_all(void)
{
    for (int i = 0; i < WORK_KINDS; i++)
        (void)cupti.ActivityDisable(work_kinds[i]);
    (void)cupti.ActivityDisable(CUPTI_KIND_DRIVER);
    (void)cupti.ActivityDisable(CUPTI_KIND_RUNTIME);
}

static bool enable_all(char *text, size_t text_bytes)
{
    int result = CUPTI_OK;

    for (int i = 0; i < WORK_KINDS && result == CUPTI_OK; i++)
        result = cupti.ActivityEnable(work_kinds[i]);
    for (int domain = CUPTI_DOMAIN_DRIVER; domain < CUPTI_DOMAINS && result == CUPTI_OK; domain++)
        result = enable_calls(domain);
    return result == CUPTI_OK || fail(text, text_bytes, "ActivityEnable", result);
}

/* Starts CUPTI after leat has subscribed. */
static bool start_records(char *text, size_t text_bytes)
{
    pthread_t thread;
    int result;

    result = cupti.SetThreadIdType(CUPTI_THREAD_ID_SYSTEM);
    if (result != CUPTI_OK)
        return fail(text, text_bytes, "SetThreadIdType", result);
    result = cupti.ActivityRegisterTimestampCallback(leati_clock_ns);
    if (result != CUPTI_OK)
        return fail(text, text_bytes, "ActivityRegisterTimestampCallback", result);
    result = cupti.ActivityRegisterCallbacks(take_buffer, return_buffer);
    if (result != CUPTI_OK)
        return fail(text, text_bytes, "ActivityRegisterCallbacks", result);
    learn_calls();
    cupti.start_ns = leati_clock_ns();
    cupti.process = getpid();
    if (enable_all(text, text_bytes)) {
        result = leati_thread_start(&thread, flush_now_and_then, NULL);
        if (!result) {
            pthread_detach(thread);
            return true;
        }
        snprintf(text, text_bytes, "pthread_create: %s", strerror(result));
    }
    disable_all();
    forget_calls();
    return false;
}

/* Starts the library that is open. Returns false with the reason. */
static bool start(char *text, size_t text_bytes)
{
    int result;

    if (!find_functions(text, text_bytes))
        return false;
    result = cupti.GetVersion(&cupti.version);
    if (result != CUPTI_OK)
        return fail(text, text_bytes, "GetVersion", result);
    if (!has_known_version(cupti.version)) {
        snprintf(text, text_bytes, "it is of version %u, and this leat reads the records of " CUPTI_VERSIONS_TEXT,
                 cupti.version);
        return false;
    }
    result = cupti.Subscribe(&cupti.subscriber, ignore, NULL);
    if (result != CUPTI_OK) {
        cupti.subscriber = NULL;
        is_taken = result == CUPTI_OTHER_SUBSCRIBER;
        return fail(text, text_bytes, "Subscribe", result);
    }
    if (start_records(text, text_bytes))
        return true;
    (void)cupti.Unsubscribe(cupti.subscriber);
    cupti.subscriber = NULL;
    return false;
}

/* ---- finding the library ---- */

/* Where it was looked for, and what became of it. */
struct search {
    char loaded[PATH_BYTES], cudart[PATH_BYTES]; /* libraries of this process; "": none */
    char *text;
    size_t text_bytes;
    bool told;  /* text has a reason, which later candidates do not replace */
    bool taken; /* another tool has subscribed, so no other library may be tried */
};

static int look_at_loaded(struct dl_phdr_info *info, size_t bytes, void *user)
{
    struct search *search = user;
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;

    (void)bytes;
    if (begins(name, "libcupti.so"))
        snprintf(search->loaded, PATH_BYTES, "%s", info->dlpi_name);
    if (begins(name, "libcudart.so"))
        snprintf(search->cudart, PATH_BYTES, "%s", info->dlpi_name);
    return 0;
}

/* Tries a library. Returns true if it records now. */
static bool try(struct search *search, const char *path)
{
    char why[256];

    cupti.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!cupti.library) {
        (void)dlerror();
        return false;
    }
    if (start(why, sizeof why)) {
        struct link_map *map = NULL;

        if (dlinfo(cupti.library, RTLD_DI_LINKMAP, &map) != 0 || !map->l_name[0])
            map = NULL;
        snprintf(search->text, search->text_bytes, "CUPTI %u, %.200s", cupti.version, map ? map->l_name : path);
        return true;
    }
    if (!search->told)
        snprintf(search->text, search->text_bytes, "%.150s: %.200s", path, why);
    search->told = true;
    search->taken = is_taken;
    /* The library stays loaded: it may be the program's, and CUPTI does not promise that it can be unloaded. */
    return false;
}

/* Tries the folder of a library, and the folder in which the packages for CUDA 12 have CUPTI. */
static bool try_beside(struct search *search, const char *beside)
{
    static const char *const names[] = {"libcupti.so.13", "../../cuda_cupti/lib/libcupti.so.12", "libcupti.so.12",
                                        "../extras/CUPTI/lib64/libcupti.so",
                                        "../../cuda_cupti/lib/libcupti.so.11.8"};
    const char *slash = strrchr(beside, '/');
    char path[PATH_BYTES + 64];

    for (size_t i = 0; slash && !search->taken && i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%.*s/%s", (int)(slash - beside), beside, names[i]);
        if (access(path, R_OK) == 0 && try(search, path))
            return true;
    }
    return false;
}

bool engine_cupti_start(const char *library, char *text, size_t text_bytes)
{
    static const char *const elsewhere[] = {"libcupti.so.13",
                                            "libcupti.so.12",
                                            "libcupti.so",
                                            "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                            "/usr/local/cuda/lib64/libcupti.so",
                                            "libcupti.so.11.8"};
    struct search search = {.text = text, .text_bytes = text_bytes};

    if (library) {
        if (try(&search, library))
            return true;
        if (!search.told)
            snprintf(text, text_bytes, "%.200s cannot be loaded", library);
        return false;
    }
    (void)dl_iterate_phdr(look_at_loaded, &search);
    if (search.loaded[0] && try(&search, search.loaded))
        return true;
    if (!search.loaded[0] && search.cudart[0] && try_beside(&search, search.cudart))
        return true;
    /* If the process has the library loaded, a second one would be a second CUPTI. */
    for (size_t i = 0; !search.loaded[0] && !search.taken && i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (try(&search, elsewhere[i]))
            return true;
    if (!search.told)
        snprintf(text, text_bytes, "no libcupti.so is installed where leat looks; leat run --cupti names it");
    return false;
}
