/*
 * engine_trace.c - see engine_trace.h.
 *
 * Without CUPTI, a call of the program is a span of leat's recorder, with leat's events in the program's stream
 * before and behind the work.
 */
#include "engine_trace.h"

#include "engine_cupti.h"

#include "base/error.h"
#include "base/lock.h"
#include "core/core.h"
#include "trace/foreign.h"

#include <leat/leat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- streams, where there is no CUPTI ---- */

enum { STREAMS_MOST = 1024 };

/* A stream of the program. */
struct stream {
    int device;
    void *native;
    struct leati_traced_stream lane;
};

static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static struct stream streams[STREAMS_MOST] LEATI_GUARDED_BY(lock); /* an entry with lane.serial 0 is free */
static uint64_t last_number LEATI_GUARDED_BY(lock);

/* Returns the entry of a stream, which is added without lane.stream if it is new; NULL: there is no room. */
static struct stream *find_stream(int device, void *native) LEATI_REQUIRES(lock)
{
    struct stream *unused = NULL;

    for (size_t i = 0; i < STREAMS_MOST; i++) {
        struct stream *at = &streams[i];

        if (at->lane.serial && at->device == device && at->native == native)
            return at;
        if (!at->lane.serial && !unused)
            unused = at;
        if (!at->lane.serial && i >= last_number)
            break; /* no entry behind it was ever used */
    }
    if (unused)
        *unused = (struct stream){.device = device, .native = native, .lane.serial = ++last_number};
    return unused;
}

/* Returns the lane of a stream, on an open device; NULL: its times are not recorded. */
static struct leati_traced_stream *lane_of(struct leat_device *device, int number, void *native)
{
    struct leati_traced_stream *lane = NULL;
    struct stream *stream;

    leati_lock(&lock);
    stream = find_stream(number, native);
    if (stream && !stream->lane.stream) {
        stream->lane.device = &device->traced;
        if (LEATI_QUIETLY(device->driver->ops->stream_adopt(device->driver, device->native, native,
                                                            &stream->lane.stream)) != LEAT_OK)
            stream->lane.stream = NULL;
    }
    if (stream && stream->lane.stream)
        lane = &stream->lane;
    leati_unlock(&lock);
    return lane;
}

void engine_trace_closes(int device)
{
    leati_lock(&lock);
    for (size_t i = 0; i < STREAMS_MOST; i++) {
        struct leati_traced_stream *lane = &streams[i].lane;

        if (!lane->serial || streams[i].device != device)
            continue;
        if (lane->stream) /* adopted: the program's stream stays */
            (void)LEATI_QUIETLY(lane->device->driver->ops->stream_destroy(lane->device->driver, lane->stream));
        lane->stream = NULL;
        lane->device = NULL;
        atomic_store_explicit(&lane->known, 0, memory_order_relaxed);
    }
    leati_unlock(&lock);
}

uint64_t engine_trace_stream(int device, void *context, void *stream, uint64_t otherwise)
{
    uint64_t number = leati_foreign_is_traced() ? engine_cupti_stream(context, stream) : 0;
    struct stream *found;

    if (number || !leati_foreign_is_traced())
        return number ? number : otherwise;
    leati_lock(&lock);
    found = find_stream(device, stream);
    number = found ? found->lane.serial : otherwise;
    leati_unlock(&lock);
    return number;
}

/* ---- calls, where there is no CUPTI ---- */

/* The call that this thread is in. */
static _Thread_local struct {
    struct leati_traced_stream *lane; /* NULL: not timed */
    int device;
    bool is_span;
} now;

void engine_call_begin(const struct engine_call *call)
{
    static const uint8_t kinds[] = {[ENGINE_COPY] = LEATI_TRACE_COPY,     [ENGINE_FILL] = LEATI_TRACE_FILL,
                                    [ENGINE_KERNEL] = LEATI_TRACE_KERNEL, [ENGINE_WAIT] = LEATI_TRACE_SYNCHRONIZE,
                                    [ENGINE_ALLOC] = LEATI_TRACE_ALLOC,   [ENGINE_FREE] = LEATI_TRACE_FREE};
    struct leat_device *device = NULL;

    now.lane = NULL;
    /* Opening a device is not part of the call. */
    if (call->timed && leati_traced())
        device = engine_enter(call->device, call->context);
    if (device) {
        now.device = call->device;
        now.lane = lane_of(device, call->device, call->stream);
        if (!now.lane)
            engine_leave(call->device);
    }
    now.is_span =
        leati_traced() && leati_span_enter((enum leati_trace_kind)kinds[call->kind], call->name, call->caller);
    if (!now.is_span)
        return;
    leati_span_bytes(call->bytes, call->address);
    if (call->kind == ENGINE_ALLOC)
        leati_span_pieces(0); /* no tag */
    leati_span_kinds((enum leati_trace_memory)call->from, (enum leati_trace_memory)call->to);
    if (call->waits)
        leati_span_flag(LEATI_TRACE_SYNCHRONOUS);
    if (now.lane) {
        leati_span_stream(now.lane);
        leati_span_work_begins(now.lane);
    }
}

void engine_call_end(bool failed)
{
    if (now.is_span) {
        if (now.lane)
            leati_span_work_ends(now.lane);
        leati_error_latest = failed ? LEAT_ERROR_DRIVER : LEAT_OK;
        leati_span_end();
    }
    if (now.lane)
        engine_leave(now.device);
}

/* ---- starting ---- */

static void end(void)
{
    engine_cupti_end();
}

enum engine_tracing engine_trace(const char *path, const char *cupti, char *text, size_t text_bytes)
{
    bool by_cupti = false;

    if (leat_trace_start(path, NULL) != LEAT_OK) {
        snprintf(text, text_bytes, "%s", leat_last_error());
        return ENGINE_NOT_TRACED;
    }
    if (cupti && !strcmp(cupti, "none"))
        snprintf(text, text_bytes, "leat run --cupti none");
    else
        by_cupti = engine_cupti_start(cupti, text, text_bytes);
    /* Functions given to atexit() run in reverse order, so this one runs before the recorder's, which ends the
     * file. */
    if (by_cupti)
        (void)atexit(end);
    leati_foreign_source(by_cupti ? LEATI_TRACE_BY_CUPTI : LEATI_TRACE_BY_EVENTS, text);
    return by_cupti ? ENGINE_BY_CUPTI : ENGINE_BY_EVENTS;
}
