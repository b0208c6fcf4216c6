/* stream.c - implements the calls for streams, events and host functions. */
#include "cudart/cudart.h"

cudaError_t cudaStreamCreate(cudaStream_t *pStream)
{
    return cudaStreamCreateWithPriority(pStream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    return cudaStreamCreateWithPriority(pStream, flags, 0);
}

FORWARD(cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority),
        leatc_stream_create(flags, leatc_priority_limited(priority, LEATC_PRIORITY_HIGHEST, 0),
                            (struct leatc_stream **)(void *)pStream))
FORWARD(cudaError_t cudaStreamDestroy(cudaStream_t stream), leatc_stream_destroy(stream_of(stream)))
FORWARD_STREAM(cudaStreamGetPriority, cudaStreamGetPriority_ptsz, (cudaStream_t stream, int *priority),
               leatc_stream_priority(on, priority))
FORWARD_STREAM(cudaStreamGetFlags, cudaStreamGetFlags_ptsz, (cudaStream_t stream, unsigned int *flags),
               leatc_stream_flags(on, flags))
FORWARD_STREAM(cudaStreamGetId, cudaStreamGetId_ptsz, (cudaStream_t stream, unsigned long long *streamId),
               leatc_stream_id(on, streamId))
FORWARD_STREAM(cudaStreamGetDevice, cudaStreamGetDevice_ptsz, (cudaStream_t stream, int *device),
               leatc_stream_ordinal(on, device))
FORWARD_STREAM(cudaStreamSynchronize, cudaStreamSynchronize_ptsz, (cudaStream_t stream),
               leatc_stream_synchronize(on))
FORWARD_STREAM(cudaStreamQuery, cudaStreamQuery_ptsz, (cudaStream_t stream), leatc_stream_query(on))

static int wait_event(struct leatc_stream *stream, cudaEvent_t event, unsigned flags)
{
    if (flags & ~(unsigned)cudaEventWaitExternal)
        return LEATC_INVALID_VALUE;
    return flags ? leatc_stream_wait_external(stream, event_of(event))
                 : leatc_stream_wait(stream, event_of(event));
}

FORWARD_STREAM(cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz,
               (cudaStream_t stream, cudaEvent_t event, unsigned int flags), wait_event(on, event, flags))

FORWARD_STREAM(cudaStreamAddCallback, cudaStreamAddCallback_ptsz,
               (cudaStream_t stream, cudaStreamCallback_t callback, void *userData, unsigned int flags),
               flags
                   ? LEATC_INVALID_VALUE
                   : leatc_stream_callback(on, (void (*)(void *, int, void *))(void (*)(void))callback, userData))
FORWARD_STREAM(cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz, (cudaStream_t stream, cudaHostFn_t fn, void *userData),
               leatc_stream_host_function(on, fn, userData))

/* ---- attributes: only the synchronization policy can be changed, and has no effect ---- */

static int get_attribute(struct leatc_stream *stream, cudaStreamAttrID attribute, cudaStreamAttrValue *value)
{
    int result = leatc_stream_check(stream), number = 0;

    if (result != LEATC_OK)
        return result;
    if (!value)
        return LEATC_INVALID_VALUE;
    switch (attribute) {
    case cudaStreamAttributeSynchronizationPolicy:
        LEATC_TRY(leatc_stream_policy(stream, &number));
        value->syncPolicy = (enum cudaSynchronizationPolicy)number;
        return LEATC_OK;
    case cudaStreamAttributePriority:
        return leatc_stream_priority(stream, &value->priority);
    case cudaStreamAttributeAccessPolicyWindow:
        value->accessPolicyWindow = (struct cudaAccessPolicyWindow){.base_ptr = NULL};
        return LEATC_OK;
    case cudaStreamAttributeMemSyncDomainMap:
        value->memSyncDomainMap = (cudaLaunchMemSyncDomainMap){0, 1};
        return LEATC_OK;
    case cudaStreamAttributeMemSyncDomain:
        value->memSyncDomain = cudaLaunchMemSyncDomainDefault;
        return LEATC_OK;
    default:
        return LEATC_INVALID_VALUE;
    }
}

FORWARD_STREAM(cudaStreamGetAttribute, cudaStreamGetAttribute_ptsz,
               (cudaStream_t stream, cudaStreamAttrID attr, cudaStreamAttrValue *value_out),
               get_attribute(on, attr, value_out))

/* Sets an attribute. Refuses windows and other domains than 0, because devices report a maximum window size of 0
 * and a single memory synchronization domain. */
static int set_attribute(struct leatc_stream *stream, cudaStreamAttrID attribute, const cudaStreamAttrValue *value)
{
    int result = leatc_stream_check(stream), priority = 0;

    if (result != LEATC_OK)
        return result;
    if (!value)
        return LEATC_INVALID_VALUE;
    switch (attribute) {
    case cudaStreamAttributeSynchronizationPolicy:
        return value->syncPolicy >= cudaSyncPolicyAuto && value->syncPolicy <= cudaSyncPolicyBlockingSync
                   ? leatc_stream_set_policy(stream, (int)value->syncPolicy)
                   : LEATC_INVALID_VALUE;
    case cudaStreamAttributeAccessPolicyWindow:
        return value->accessPolicyWindow.num_bytes ? LEATC_INVALID_VALUE : LEATC_OK;
    case cudaStreamAttributePriority:
        LEATC_TRY(leatc_stream_priority(stream, &priority));
        return priority == value->priority ? LEATC_OK : LEATC_NOT_SUPPORTED;
    case cudaStreamAttributeMemSyncDomain:
        return value->memSyncDomain == cudaLaunchMemSyncDomainDefault ? LEATC_OK : LEATC_NOT_SUPPORTED;
    default:
        return attribute == cudaStreamAttributeMemSyncDomainMap ? LEATC_NOT_SUPPORTED : LEATC_INVALID_VALUE;
    }
}

FORWARD_STREAM(cudaStreamSetAttribute, cudaStreamSetAttribute_ptsz,
               (cudaStream_t stream, cudaStreamAttrID attr, const cudaStreamAttrValue *value),
               set_attribute(on, attr, value))

cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src)
{
    int policy = 0, result = leatc_stream_policy(stream_of(src), &policy);

    return note(result == LEATC_OK ? leatc_stream_set_policy(stream_of(dst), policy) : result);
}

/* Does nothing: only access policy windows make cache lines persist, and leat has no such windows. */
FORWARD(cudaError_t cudaCtxResetPersistingL2Cache(void), leatc_init())

/* ---- events ---- */

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

FORWARD(cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags),
        leatc_event_create(flags, (struct leatc_event **)(void *)event))
FORWARD_STREAM(cudaEventRecord, cudaEventRecord_ptsz, (cudaEvent_t event, cudaStream_t stream),
               leatc_event_record(event_of(event), on))

static int record_event(cudaEvent_t event, struct leatc_stream *stream, unsigned flags)
{
    if (flags & ~(unsigned)cudaEventRecordExternal)
        return LEATC_INVALID_VALUE;
    return flags ? leatc_event_record_external(event_of(event), stream)
                 : leatc_event_record(event_of(event), stream);
}

FORWARD_STREAM(cudaEventRecordWithFlags, cudaEventRecordWithFlags_ptsz,
               (cudaEvent_t event, cudaStream_t stream, unsigned int flags), record_event(event, on, flags))

FORWARD(cudaError_t cudaEventQuery(cudaEvent_t event), leatc_event_query(event_of(event)))
FORWARD(cudaError_t cudaEventSynchronize(cudaEvent_t event), leatc_event_synchronize(event_of(event)))
FORWARD(cudaError_t cudaEventDestroy(cudaEvent_t event), leatc_event_destroy(event_of(event)))
FORWARD(cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end),
        leatc_event_elapsed(ms, event_of(start), event_of(end)))
