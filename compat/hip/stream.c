/* stream.c - implements HIP's calls for streams and host functions. */
#include "hip/layer.h"

#include <stdlib.h>
#include <string.h>

/* AMD's three priority levels. They are stored and returned, and have no effect, because leat's streams have no
 * priorities. */
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

FORWARD(hipError_t hipStreamCreate(hipStream_t *stream), create(stream, hipStreamDefault, PRIORITY_NORMAL))
FORWARD(hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags),
        create(stream, flags, PRIORITY_NORMAL))
FORWARD(hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned int flags, int priority),
        create(stream, flags, priority))

/* Ignores mask, because leat cannot select compute units: work may run on all of them. */
FORWARD(hipError_t hipExtStreamCreateWithCUMask(hipStream_t *stream, uint32_t words, const uint32_t *mask),
        !words || !mask ? LEATC_INVALID_VALUE : create(stream, hipStreamDefault, PRIORITY_NORMAL))

/* Sets *count to the number of multiprocessors of the stream's device. */
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

FORWARD(hipError_t hipStreamDestroy(hipStream_t stream),
        !stream || stream == hipStreamLegacy || stream == hipStreamPerThread
            ? LEATC_INVALID_HANDLE
            : of_stream(leatc_stream_destroy(stream_of(stream))))

/* As in AMD's runtime, the query covers only work that was submitted to this stream: it does not make the stream
 * wait for the default stream, as the next submission will. */
FORWARD_STREAM(hipStreamQuery, hipStreamQuery_spt, (hipStream_t stream), of_stream(leatc_stream_query_own(on)))

FORWARD_STREAM(hipStreamSynchronize, hipStreamSynchronize_spt, (hipStream_t stream),
               of_stream(leatc_stream_synchronize(on)))

/* Makes a stream wait for an event. For a destroyed stream, this call returns hipErrorInvalidHandle. */
static int wait_event(struct leatc_stream *stream, hipEvent_t event, unsigned flags)
{
    if (flags > hipEventWaitExternal)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_event(event));
    return flags == hipEventWaitExternal ? leatc_stream_wait_external(stream, event_of(event))
                                         : leatc_stream_wait(stream, event_of(event));
}

FORWARD_STREAM(hipStreamWaitEvent, hipStreamWaitEvent_spt,
               (hipStream_t stream, hipEvent_t event, unsigned int flags), wait_event(on, event, flags))

/* Returns the flags of a stream. Refuses the default stream, as AMD's runtime does. */
FORWARD(hipError_t hipStreamGetFlags(hipStream_t stream, unsigned int *flags),
        !stream ? LEATC_INVALID_VALUE : of_stream(leatc_stream_flags(stream_of(stream), flags)))

FORWARD(hipError_t hipStreamGetFlags_spt(hipStream_t stream, unsigned int *flags),
        of_stream(leatc_stream_flags(leatc_per_thread(stream), flags)))
FORWARD_STREAM(hipStreamGetPriority, hipStreamGetPriority_spt, (hipStream_t stream, int *priority),
               of_stream(leatc_stream_priority(on, priority)))
FORWARD(hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device),
        of_stream(leatc_stream_ordinal(stream_of(stream), device)))

int hipGetStreamDeviceId(hipStream_t stream)
{
    int ordinal;

    return leatc_stream_ordinal(stream_of(stream), &ordinal) == LEATC_OK ? ordinal : -1;
}

FORWARD(hipError_t hipStreamGetId(hipStream_t stream, unsigned long long *id),
        id ? of_stream(leatc_stream_id(stream_of(stream), id)) : LEATC_INVALID_VALUE)

/* ---- attributes: only the synchronization policy, which has no effect ---- */

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

FORWARD(hipError_t hipStreamGetAttribute(hipStream_t stream, hipStreamAttrID attribute, hipStreamAttrValue *value),
        get_attribute(stream_of(stream), attribute, value))

static int set_attribute(struct leatc_stream *stream, hipStreamAttrID attribute, const hipStreamAttrValue *value)
{
    LEATC_TRY(leatc_stream_check(stream));
    if (!value || attribute != hipStreamAttributeSynchronizationPolicy || value->syncPolicy < hipSyncPolicyAuto ||
        value->syncPolicy > hipSyncPolicyBlockingSync)
        return LEATC_INVALID_VALUE;
    return leatc_stream_set_policy(stream, (int)value->syncPolicy);
}

FORWARD(hipError_t hipStreamSetAttribute(hipStream_t stream, hipStreamAttrID attribute,
                                         const hipStreamAttrValue *value),
        set_attribute(stream_of(stream), attribute, value))

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

static void call_back(void *argument)
{
    const struct callback *callback = argument;

    callback->function(callback->stream, hipSuccess, callback->argument);
}

static void call_back_once(void *argument)
{
    call_back(argument);
    free(argument);
}

/* Submits a callback. The host function gets its own copy and frees it, because a graph submits the same callback
 * at each launch. */
static int give_callback(const struct callback *callback, struct leatc_work *work)
{
    struct callback *copy = malloc(sizeof *copy);
    leat_status status;

    if (!copy)
        return LEATC_OUT_OF_MEMORY;
    *copy = *callback;
    status = leat_launch_host(work->stream, call_back_once, copy);
    if (status != LEAT_OK)
        free(copy);
    return leatc_result_of(status);
}

/* Runs a captured callback. It is the argument of a host node. */
static int run_callback(const void *payload, struct leatc_work *work)
{
    return give_callback(((const struct leatc_host_task *)payload)->argument, work);
}

static void end_callback(void *payload)
{
    free(((struct leatc_host_task *)payload)->argument);
}

static int capture_callback(struct leatc_work *work, const struct callback *callback)
{
    struct leatc_host_task host = {.function = call_back, .argument = malloc(sizeof *callback)};
    struct leatc_task *task = NULL;
    int result;

    if (!host.argument)
        return LEATC_OUT_OF_MEMORY;
    memcpy(host.argument, callback, sizeof *callback);
    result = leatc_task_create(LEATC_NODE_HOST, run_callback, end_callback, &host, sizeof host, &task);
    if (result == LEATC_OK)
        return leatc_capture_add(work, task);
    free(host.argument);
    return result;
}

static int add_callback(struct leatc_stream *on, hipStream_t stream, hipStreamCallback_t function, void *argument,
                        unsigned flags)
{
    struct callback callback = {function, stream, argument};
    struct leatc_work work;

    if (!function || flags)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(of_stream(leatc_work_begin_capturable(on, &work)));
    if (work.captured)
        return capture_callback(&work, &callback);
    LEATC_TRY(give_callback(&callback, &work));
    return leatc_work_end(&work, LEAT_OK);
}

FORWARD(hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void *userData,
                                        unsigned int flags),
        add_callback(stream_of(stream), stream, callback, userData, flags))
FORWARD(hipError_t hipStreamAddCallback_spt(hipStream_t stream, hipStreamCallback_t callback, void *userData,
                                            unsigned int flags),
        add_callback(leatc_per_thread(stream), stream, callback, userData, flags))
FORWARD_STREAM(hipLaunchHostFunc, hipLaunchHostFunc_spt,
               (hipStream_t stream, hipHostFn_t function, void *userData),
               of_stream(leatc_stream_host_function(on, function, userData)))
