/* event.c - implements HIP's calls for events. */
#include "hip/layer.h"

/* Flags that control only the caches of AMD's GPUs. They have no effect on leat's devices. */
#define CACHE_FLAGS (hipEventDisableSystemFence | hipEventReleaseToDevice | hipEventReleaseToSystem)

static int create(hipEvent_t *event, unsigned flags)
{
    struct leatc_event *made = NULL;

    if (!event || ((flags & hipEventReleaseToDevice) && (flags & hipEventReleaseToSystem)))
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_event_create(flags & ~CACHE_FLAGS, &made));
    *event = (hipEvent_t)(void *)made;
    return LEATC_OK;
}

FORWARD(hipError_t hipEventCreate(hipEvent_t *event), create(event, hipEventDefault))
FORWARD(hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags), create(event, flags))

/* Records an event. It checks the stream itself, because HIP has different results for a destroyed stream and for
 * a stream of another device, and the engine has one result for both. */
static int record(hipEvent_t event, struct leatc_stream *stream)
{
    LEATC_TRY(check_event(event));
    LEATC_TRY(check_stream(stream));
    return leatc_event_record(event_of(event), stream);
}

static int record_external(hipEvent_t event, struct leatc_stream *stream)
{
    LEATC_TRY(check_event(event));
    LEATC_TRY(check_stream(stream));
    return leatc_event_record_external(event_of(event), stream);
}

FORWARD_STREAM(hipEventRecord, hipEventRecord_spt, (hipEvent_t event, hipStream_t stream), record(event, on))
FORWARD(hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned int flags),
        flags > hipEventRecordExternal    ? LEATC_INVALID_VALUE
        : flags == hipEventRecordExternal ? record_external(event, stream_of(stream))
                                          : record(event, stream_of(stream)))

hipError_t hipEventDestroy(hipEvent_t event)
{
    int result = check_event(event);

    return note(result == LEATC_OK ? of_stream(leatc_event_destroy(event_of(event))) : result);
}

hipError_t hipEventSynchronize(hipEvent_t event)
{
    int result = check_event(event);

    return note(result == LEATC_OK ? leatc_event_synchronize(event_of(event)) : result);
}

hipError_t hipEventQuery(hipEvent_t event)
{
    int result = check_event(event);

    return note(result == LEATC_OK ? leatc_event_query(event_of(event)) : result);
}

static int elapsed(float *milliseconds, hipEvent_t start, hipEvent_t stop)
{
    if (!milliseconds)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_event(start));
    LEATC_TRY(check_event(stop));
    return leatc_event_elapsed(milliseconds, event_of(start), event_of(stop));
}

FORWARD(hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t stop),
        elapsed(milliseconds, start, stop))
