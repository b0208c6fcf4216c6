/* event.c - implements the driver API's calls for events. */
#include "cuda/names.h"

static struct leatc_event *engine_event(CUevent event)
{
    return (struct leatc_event *)event;
}

FORWARD(CUresult cuEventCreate(CUevent *event, unsigned flags),
        event ? leatc_event_create(flags, (struct leatc_event **)event) : LEATC_INVALID_VALUE)
FORWARD_STARTED(CUresult cuEventDestroy_v2(CUevent event), leatc_event_destroy(engine_event(event)))

static CUresult record(CUevent event, struct leatc_stream *stream, unsigned flags)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(!(flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL));
    CU_TRY(leatcu_result(leatc_event_check(engine_event(event))));
    return leatcu_result(flags ? leatc_event_record_external(engine_event(event), stream)
                               : leatc_event_record(engine_event(event), stream));
}

BOTH(cuEventRecord, cuEventRecord_ptsz, (CUevent event, CUstream stream), record(event, on, 0))
BOTH(cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz, (CUevent event, CUstream stream, unsigned flags),
     record(event, on, flags))
FORWARD_STARTED(CUresult cuEventQuery(CUevent event), leatcu_or_lost(leatc_event_query(engine_event(event))))
FORWARD_STARTED(CUresult cuEventSynchronize(CUevent event),
                leatcu_or_lost(leatc_event_synchronize(engine_event(event))))
FORWARD_STARTED(CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end),
                milliseconds ? leatc_event_elapsed(milliseconds, engine_event(start), engine_event(end))
                             : LEATC_INVALID_VALUE)

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    return cuEventElapsedTime(milliseconds, start, end);
}

static CUresult wait(struct leatc_stream *stream, CUevent event, unsigned flags)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(!(flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL));
    CU_TRY(leatcu_result(leatc_event_check(engine_event(event))));
    return leatcu_result(flags ? leatc_stream_wait_external(stream, engine_event(event))
                               : leatc_stream_wait(stream, engine_event(event)));
}

BOTH(cuStreamWaitEvent, cuStreamWaitEvent_ptsz, (CUstream stream, CUevent event, unsigned flags),
     wait(on, event, flags))
