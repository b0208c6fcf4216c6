/* event.c - events. */
#include "cuda/names.h"

static struct leatc_event *engine_event(CUevent event)
{
    return (struct leatc_event *)event;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(event);
    return leatcu_result(leatc_event_create(flags, (struct leatc_event **)event));
}

CUresult cuEventDestroy_v2(CUevent event)
{
    CU_TRY(leatcu_started());
    return leatcu_result(leatc_event_destroy(engine_event(event)));
}

static CUresult record(CUevent event, struct leatc_stream *stream, unsigned flags)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(!(flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL));
    CU_TRY(leatcu_result(leatc_event_check(engine_event(event))));
    return leatcu_result(flags ? leatc_event_record_external(engine_event(event), stream)
                               : leatc_event_record(engine_event(event), stream));
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return record(event, leatcu_stream(stream), 0);
}

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream)
{
    return record(event, leatc_per_thread(stream), 0);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    return record(event, leatcu_stream(stream), flags);
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags)
{
    return record(event, leatc_per_thread(stream), flags);
}

CUresult cuEventQuery(CUevent event)
{
    CU_TRY(leatcu_started());
    return leatcu_result(leatc_event_query(engine_event(event)));
}

CUresult cuEventSynchronize(CUevent event)
{
    CU_TRY(leatcu_started());
    return leatcu_result(leatc_event_synchronize(engine_event(event)));
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    CU_TRY(leatcu_started());
    CU_CHECK(milliseconds);
    return leatcu_result(leatc_event_elapsed(milliseconds, engine_event(start), engine_event(end)));
}

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

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    return wait(leatcu_stream(stream), event, flags);
}

CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags)
{
    return wait(leatc_per_thread(stream), event, flags);
}
