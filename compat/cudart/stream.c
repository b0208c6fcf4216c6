/* stream.c - streams, events and host functions. */
#include "cudart/cudart.h"

cudaError_t cudaStreamCreate(cudaStream_t *pStream)
{
    return cudaStreamCreateWithPriority(pStream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    return cudaStreamCreateWithPriority(pStream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
    return note(leatc_stream_create(flags, leatc_priority_limited(priority, LEATC_PRIORITY_HIGHEST, 0),
                                    (struct leatc_stream **)(void *)pStream));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return note(leatc_stream_destroy(stream_of(stream)));
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
    return note(leatc_stream_priority(stream_of(hStream), priority));
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
    return note(leatc_stream_flags(stream_of(hStream), flags));
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
    return note(leatc_stream_id(stream_of(hStream), streamId));
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
    return note(leatc_stream_ordinal(stream_of(hStream), device));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return note(leatc_stream_synchronize(stream_of(stream)));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return note(leatc_stream_query(stream_of(stream)));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    if (flags & ~(unsigned)cudaEventWaitExternal)
        return note(LEATC_INVALID_VALUE);
    return note(flags ? leatc_stream_wait_external(stream_of(stream), event_of(event))
                      : leatc_stream_wait(stream_of(stream), event_of(event)));
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *userData,
                                  unsigned int flags)
{
    if (flags)
        return note(LEATC_INVALID_VALUE);
    return note(leatc_stream_callback(stream_of(stream), (void (*)(void *, int, void *))(void (*)(void))callback,
                                      userData));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
    return note(leatc_stream_host_function(stream_of(stream), fn, userData));
}

/* ---- attributes: how threads wait for the stream is kept, and the rest is as it always is ---- */

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

cudaError_t cudaStreamGetAttribute(cudaStream_t hStream, cudaStreamAttrID attr, cudaStreamAttrValue *value_out)
{
    return note(get_attribute(stream_of(hStream), attr, value_out));
}

/* The devices say that a window is 0 bytes at most, and have one domain. */
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

cudaError_t cudaStreamSetAttribute(cudaStream_t hStream, cudaStreamAttrID attr, const cudaStreamAttrValue *value)
{
    return note(set_attribute(stream_of(hStream), attr, value));
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src)
{
    int policy = 0, result = leatc_stream_policy(stream_of(src), &policy);

    return note(result == LEATC_OK ? leatc_stream_set_policy(stream_of(dst), policy) : result);
}

/* Windows are the only thing that persists, and there are none. */
cudaError_t cudaCtxResetPersistingL2Cache(void)
{
    return note(leatc_init());
}

/* ---- events ---- */

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    return note(leatc_event_create(flags, (struct leatc_event **)(void *)event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return note(leatc_event_record(event_of(event), stream_of(stream)));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    if (flags & ~(unsigned)cudaEventRecordExternal)
        return note(LEATC_INVALID_VALUE);
    return flags ? note(leatc_event_record_external(event_of(event), stream_of(stream)))
                 : cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return note(leatc_event_query(event_of(event)));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return note(leatc_event_synchronize(event_of(event)));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return note(leatc_event_destroy(event_of(event)));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    return note(leatc_event_elapsed(ms, event_of(start), event_of(end)));
}
