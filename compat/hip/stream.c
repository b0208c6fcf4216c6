/* stream.c - streams, host functions, and words that streams wait for. */
#include "hip/layer.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* leat's streams have no priorities; AMD's three levels are kept for programs that want to see some. */
#define PRIORITY_LEAST 1
#define PRIORITY_NORMAL 0
#define PRIORITY_GREATEST (-1)

static int create(hipStream_t *stream, unsigned flags, int priority)
{
    struct leatc_stream *made = NULL;

    if (!stream || flags > hipStreamNonBlocking)
        return LEATC_INVALID_VALUE;
    priority = leatc_priority_limited(priority, PRIORITY_GREATEST, PRIORITY_LEAST);
    LEATC_TRY(leatc_stream_create(flags, priority, &made));
    *stream = (hipStream_t)(void *)made;
    return LEATC_OK;
}

hipError_t hipStreamCreate(hipStream_t *stream)
{
    return note(create(stream, hipStreamDefault, PRIORITY_NORMAL));
}

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags)
{
    return note(create(stream, flags, PRIORITY_NORMAL));
}

hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned int flags, int priority)
{
    return note(create(stream, flags, priority));
}

/* There are no compute units to choose from: work may run on all of them. */
hipError_t hipExtStreamCreateWithCUMask(hipStream_t *stream, uint32_t words, const uint32_t *mask)
{
    if (!words || !mask)
        return note(LEATC_INVALID_VALUE);
    return note(create(stream, hipStreamDefault, PRIORITY_NORMAL));
}

/* How many multiprocessors the stream's device has. */
static int processors_of(struct leatc_stream *stream, int *count)
{
    int ordinal = 0;

    LEATC_TRY(leatc_stream_ordinal(stream, &ordinal));
    return leatc_device_attribute(ordinal, 16, count);
}

hipError_t hipExtStreamGetCUMask(hipStream_t stream, uint32_t words, uint32_t *mask)
{
    int processors = 0;
    int result = check_stream(stream_of(stream));

    if (result != LEATC_OK)
        return note(result);
    if (!words || !mask)
        return note(LEATC_INVALID_VALUE);
    result = processors_of(stream_of(stream), &processors);
    if (result != LEATC_OK)
        return note(result);
    for (uint32_t i = 0; i < words; i++, processors -= processors < 32 ? processors : 32)
        mask[i] = processors < 32 ? (1u << processors) - 1 : UINT32_MAX;
    return hipSuccess;
}

hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    int ordinal;
    int result = leatc_device_get(&ordinal);

    if (result != LEATC_OK)
        return note(result);
    if (least)
        *least = PRIORITY_LEAST;
    if (greatest)
        *greatest = PRIORITY_GREATEST;
    return hipSuccess;
}

hipError_t hipStreamDestroy(hipStream_t stream)
{
    if (!stream || stream == hipStreamLegacy || stream == hipStreamPerThread)
        return note(LEATC_INVALID_HANDLE);
    return note(of_stream(leatc_stream_destroy(stream_of(stream))));
}

/* AMD's runtime asks for the stream's own work: the default stream's is not waited for before there is some. */
hipError_t hipStreamQuery(hipStream_t stream)
{
    return note(of_stream(leatc_stream_query_own(stream_of(stream))));
}

hipError_t hipStreamQuery_spt(hipStream_t stream)
{
    return note(of_stream(leatc_stream_query_own(leatc_per_thread(stream))));
}

hipError_t hipStreamSynchronize(hipStream_t stream)
{
    return note(of_stream(leatc_stream_synchronize(stream_of(stream))));
}

hipError_t hipStreamSynchronize_spt(hipStream_t stream)
{
    return note(of_stream(leatc_stream_synchronize(leatc_per_thread(stream))));
}

/* A stream that is gone is hipErrorInvalidHandle here. */
static int wait_event(struct leatc_stream *stream, hipEvent_t event, unsigned flags)
{
    if (flags > hipEventWaitExternal)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_event(event));
    return flags == hipEventWaitExternal ? leatc_stream_wait_external(stream, event_of(event))
                                         : leatc_stream_wait(stream, event_of(event));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags)
{
    return note(wait_event(stream_of(stream), event, flags));
}

hipError_t hipStreamWaitEvent_spt(hipStream_t stream, hipEvent_t event, unsigned int flags)
{
    return note(wait_event(leatc_per_thread(stream), event, flags));
}

/* AMD refuses the default stream here. */
hipError_t hipStreamGetFlags(hipStream_t stream, unsigned int *flags)
{
    if (!stream)
        return note(LEATC_INVALID_VALUE);
    return note(of_stream(leatc_stream_flags(stream_of(stream), flags)));
}

hipError_t hipStreamGetFlags_spt(hipStream_t stream, unsigned int *flags)
{
    return note(of_stream(leatc_stream_flags(leatc_per_thread(stream), flags)));
}

hipError_t hipStreamGetPriority(hipStream_t stream, int *priority)
{
    return note(of_stream(leatc_stream_priority(stream_of(stream), priority)));
}

hipError_t hipStreamGetPriority_spt(hipStream_t stream, int *priority)
{
    return note(of_stream(leatc_stream_priority(leatc_per_thread(stream), priority)));
}

hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device)
{
    return note(of_stream(leatc_stream_ordinal(stream_of(stream), device)));
}

int hipGetStreamDeviceId(hipStream_t stream)
{
    int ordinal;

    return leatc_stream_ordinal(stream_of(stream), &ordinal) == LEATC_OK ? ordinal : -1;
}

hipError_t hipStreamGetId(hipStream_t stream, unsigned long long *id)
{
    return note(id ? of_stream(leatc_stream_id(stream_of(stream), id)) : LEATC_INVALID_VALUE);
}

/* ---- attributes: only how threads wait for the stream, which is kept ---- */

static int get_attribute(struct leatc_stream *stream, hipStreamAttrID attribute, hipStreamAttrValue *value)
{
    int policy = 0, priority = 0;

    LEATC_TRY(leatc_stream_check(stream));
    if (!value)
        return LEATC_INVALID_VALUE;
    switch (attribute) {
    case hipStreamAttributeSynchronizationPolicy:
        LEATC_TRY(leatc_stream_policy(stream, &policy));
        value->syncPolicy = (hipSynchronizationPolicy)policy;
        return LEATC_OK;
    case hipStreamAttributePriority:
        LEATC_TRY(leatc_stream_priority(stream, &priority));
        value->priority = priority;
        return LEATC_OK;
    default:
        return LEATC_INVALID_VALUE;
    }
}

hipError_t hipStreamGetAttribute(hipStream_t stream, hipStreamAttrID attribute, hipStreamAttrValue *value)
{
    return note(get_attribute(stream_of(stream), attribute, value));
}

static int set_attribute(struct leatc_stream *stream, hipStreamAttrID attribute, const hipStreamAttrValue *value)
{
    LEATC_TRY(leatc_stream_check(stream));
    if (!value || attribute != hipStreamAttributeSynchronizationPolicy || value->syncPolicy < hipSyncPolicyAuto ||
        value->syncPolicy > hipSyncPolicyBlockingSync)
        return LEATC_INVALID_VALUE;
    return leatc_stream_set_policy(stream, (int)value->syncPolicy);
}

hipError_t hipStreamSetAttribute(hipStream_t stream, hipStreamAttrID attribute, const hipStreamAttrValue *value)
{
    return note(set_attribute(stream_of(stream), attribute, value));
}

hipError_t hipStreamCopyAttributes(hipStream_t dst, hipStream_t src)
{
    int policy = 0;
    int result = leatc_stream_policy(stream_of(src), &policy);

    return note(result == LEATC_OK ? leatc_stream_set_policy(stream_of(dst), policy) : result);
}

/* ---- host functions ---- */

struct callback {
    hipStreamCallback_t function;
    hipStream_t stream;
    void *argument;
};

/*
 * A stream waits for a word by a host function that looks at it until it is there, and writes one by a host
 * function too. So the word must be memory that the host can reach: pinned, registered or managed, or that of a
 * CPU device whose memory is not out of reach.
 */
struct word {
    void *ptr;
    uint64_t value, mask;
    unsigned condition;
    bool wide;
};

/* A host function with an argument of its own, for each time that it runs: a graph runs it again and again. */
struct call {
    void (*function)(const struct call *call);
    union {
        struct callback callback;
        struct word word;
    };
};

static void run_call(void *argument)
{
    struct call *call = argument;

    call->function(call);
    free(call);
}

static int launch_call(void *payload, struct leatc_work *work)
{
    struct call *copy = malloc(sizeof *copy);
    leat_status status;

    if (!copy)
        return LEATC_OUT_OF_MEMORY;
    *copy = *(const struct call *)payload;
    status = leat_launch_host(work->stream, run_call, copy);
    if (status != LEAT_OK)
        free(copy);
    return leatc_result_of(status);
}

static int give_call(struct leatc_stream *stream, struct call *call)
{
    struct leatc_work work;
    int result;

    LEATC_TRY(of_stream(leatc_work_begin_capturable(stream, &work)));
    if (work.captured)
        return leatc_capture_add(&work, LEATC_NODE_HOST, launch_call, NULL, call, sizeof *call);
    result = launch_call(call, &work);
    return result == LEATC_OK ? leatc_work_end(&work, LEAT_OK) : result;
}

static void run_callback(const struct call *call)
{
    call->callback.function(call->callback.stream, hipSuccess, call->callback.argument);
}

static int add_callback(struct leatc_stream *on, hipStream_t stream, hipStreamCallback_t function, void *argument,
                        unsigned flags)
{
    struct call call = {.function = run_callback, .callback = {function, stream, argument}};

    return function && !flags ? give_call(on, &call) : LEATC_INVALID_VALUE;
}

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void *userData,
                                unsigned int flags)
{
    return note(add_callback(stream_of(stream), stream, callback, userData, flags));
}

hipError_t hipStreamAddCallback_spt(hipStream_t stream, hipStreamCallback_t callback, void *userData,
                                    unsigned int flags)
{
    return note(add_callback(leatc_per_thread(stream), stream, callback, userData, flags));
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *userData)
{
    return note(of_stream(leatc_stream_host_function(stream_of(stream), function, userData)));
}

hipError_t hipLaunchHostFunc_spt(hipStream_t stream, hipHostFn_t function, void *userData)
{
    return note(of_stream(leatc_stream_host_function(leatc_per_thread(stream), function, userData)));
}

/* ---- words ---- */

#define SPINS_MOST 1000
#define PAUSE_NS 20000

static bool is_reached(const struct word *word)
{
    uint64_t now = word->wide ? atomic_load_explicit((_Atomic uint64_t *)word->ptr, memory_order_acquire)
                              : atomic_load_explicit((_Atomic uint32_t *)word->ptr, memory_order_acquire);
    uint64_t all = word->wide ? UINT64_MAX : UINT32_MAX;

    switch (word->condition) {
    case hipStreamWaitValueGte:
        return (now & word->mask) >= word->value;
    case hipStreamWaitValueEq:
        return (now & word->mask) == word->value;
    case hipStreamWaitValueAnd:
        return (now & word->mask & word->value) != 0;
    default:
        return (~((now & word->mask) | word->value) & all) != 0;
    }
}

static void wait_for_word(const struct call *call)
{
    struct timespec pause = {0, PAUSE_NS};

    for (unsigned i = 0; !is_reached(&call->word); i++) {
        if (i < SPINS_MOST)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
}

static void write_word(const struct call *call)
{
    const struct word *word = &call->word;

    if (word->wide)
        atomic_store_explicit((_Atomic uint64_t *)word->ptr, word->value, memory_order_release);
    else
        atomic_store_explicit((_Atomic uint32_t *)word->ptr, (uint32_t)word->value, memory_order_release);
}

static int check_word(const struct word *word)
{
    struct leatc_memory memory;
    leat_device_info info;
    size_t bytes = word->wide ? 8 : 4;

    LEATC_TRY(leatc_memory_find(word->ptr, &memory));
    if (memory.kind == LEATC_MEMORY_PAGEABLE || (uintptr_t)word->ptr % bytes ||
        (uintptr_t)word->ptr - (uintptr_t)memory.base > memory.bytes - bytes)
        return LEATC_INVALID_VALUE;
    if (memory.kind != LEATC_MEMORY_DEVICE)
        return LEATC_OK;
    LEATC_TRY(leatc_device_describe(memory.ordinal, &info));
    return strcmp(info.driver, "cpu") || info.strict ? LEATC_NOT_SUPPORTED : LEATC_OK;
}

static int give_word(hipStream_t stream, const struct word *word, void (*function)(const struct call *call))
{
    struct call call = {.function = function, .word = *word};

    LEATC_TRY(check_stream(stream_of(stream)));
    LEATC_TRY(check_word(word));
    return give_call(stream_of(stream), &call);
}

static int wait_word(hipStream_t stream, const struct word *word)
{
    return word->condition > hipStreamWaitValueNor ? LEATC_INVALID_VALUE : give_word(stream, word, wait_for_word);
}

hipError_t hipStreamWaitValue32(hipStream_t stream, void *ptr, uint32_t value, unsigned int flags, uint32_t mask)
{
    return note(wait_word(stream, &(struct word){ptr, value, mask, flags, false}));
}

hipError_t hipStreamWaitValue64(hipStream_t stream, void *ptr, uint64_t value, unsigned int flags, uint64_t mask)
{
    return note(wait_word(stream, &(struct word){ptr, value, mask, flags, true}));
}

/* The flags are for later, and AMD looks at none. */
hipError_t hipStreamWriteValue32(hipStream_t stream, void *ptr, uint32_t value, unsigned int flags)
{
    (void)flags;
    return note(give_word(stream, &(struct word){.ptr = ptr, .value = value}, write_word));
}

hipError_t hipStreamWriteValue64(hipStream_t stream, void *ptr, uint64_t value, unsigned int flags)
{
    (void)flags;
    return note(give_word(stream, &(struct word){.ptr = ptr, .value = value, .wide = true}, write_word));
}

static int batch_operation(hipStream_t stream, const hipStreamBatchMemOpParams *it)
{
    const struct hipStreamMemOpWaitValueParams_t *wait = &it->waitValue;
    const struct hipStreamMemOpWriteValueParams_t *write = &it->writeValue;

    switch (it->operation) {
    case hipStreamMemOpWaitValue32:
        return wait_word(stream, &(struct word){wait->address, wait->value, UINT32_MAX, wait->flags, false});
    case hipStreamMemOpWaitValue64:
        return wait_word(stream, &(struct word){wait->address, wait->value64, UINT64_MAX, wait->flags, true});
    case hipStreamMemOpWriteValue32:
        return give_word(stream, &(struct word){.ptr = write->address, .value = write->value}, write_word);
    case hipStreamMemOpWriteValue64:
        return give_word(stream, &(struct word){.ptr = write->address, .value = write->value64, .wide = true},
                         write_word);
    case hipStreamMemOpFlushRemoteWrites: /* what others wrote is there */
        return LEATC_OK;
    default:
        return LEATC_INVALID_VALUE;
    }
}

static int batch_operations(hipStream_t stream, unsigned count, const hipStreamBatchMemOpParams *operations,
                            unsigned flags)
{
    if (!operations || !count || count > 256 || flags)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_stream(stream_of(stream)));
    for (unsigned i = 0; i < count; i++)
        LEATC_TRY(batch_operation(stream, &operations[i]));
    return LEATC_OK;
}

hipError_t hipStreamBatchMemOp(hipStream_t stream, unsigned int count, hipStreamBatchMemOpParams *operations,
                               unsigned int flags)
{
    return note(batch_operations(stream, count, operations, flags));
}
