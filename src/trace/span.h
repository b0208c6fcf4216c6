/*
 * span.h - the hooks by which core, pool and copy report operations to the recorder of traces (recorder.h).
 *
 * A span is one call of the API, from its entry to its return. LEATI_SPAN() at the top of the call begins it, and
 * ends it when the call returns. In between, the layers that know more add it: leati_span_copy() and the like.
 * Calls of the API inside a span belong to it and get no span of their own.
 *
 *     leat_status leat_fill(...)
 *     {
 *         leat_status status;
 *
 *         LEATI_SPAN(LEATI_TRACE_FILL, "leat_fill");
 *         ...
 *             if (leati_traced())
 *                 leati_span_work_begins(&stream->traced);
 *             status = driver->ops->fill(...);
 *             if (leati_traced())
 *                 leati_span_work_ends(&stream->traced);
 *
 * While nothing is traced, each of these hooks costs one relaxed load and one branch. While something is, the
 * functions of a span take no lock and make no system call, except at the first use of a thread, a stream or a
 * device.
 */
#ifndef LEATI_TRACE_SPAN_H
#define LEATI_TRACE_SPAN_H

#include "trace/trace_file.h"

#include <leat/memory.h>

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leati_driver;
struct leati_device_times;

/* A device, as the recorder sees it; part of struct leat_device. */
struct leati_traced_device {
    struct leati_driver *driver;
    void *native; /* the driver's device */
    int ordinal;
    const char *name;
    _Atomic uint64_t known; /* high half: number of the trace in which it is defined; low half: its id there */
    _Atomic(struct leati_device_times *) times; /* created on first use (device_times.h) */
};

/* A stream, or a device for calls that have no stream; part of struct leat_stream and struct leat_device. */
struct leati_traced_stream {
    struct leati_traced_device *device;
    void *stream;           /* the driver's stream; NULL: none */
    uint64_t serial;        /* the stream's number; 0: none */
    _Atomic uint64_t known; /* as above */
};

/* The number of the trace that is being recorded; 0: none. */
extern _Atomic uint32_t leati_trace_number;

/* Returns true if a trace is being recorded. */
static inline bool leati_traced(void)
{
    /* Relaxed: only a hint. A span that a stop or a start has overtaken is dropped by its number. */
    return __builtin_expect(atomic_load_explicit(&leati_trace_number, memory_order_relaxed) != 0, 0) != 0;
}

/* Begin and end a span; for LEATI_SPAN(). leati_span_enter() returns true. */
bool leati_span_enter(enum leati_trace_kind kind, const char *call, const void *caller);
void leati_span_end(void);

static inline void leati_span_leave(const bool *entered)
{
    if (__builtin_expect(*entered, 0))
        leati_span_end();
}

/* Traces the rest of the function, a call of the API. call: its name, a constant. A function can have one. */
#define LEATI_SPAN(kind, call)                                                                                    \
    __attribute__((cleanup(leati_span_leave), unused)) const bool leati_span_entered_ =                           \
        leati_traced() && leati_span_enter((kind), (call), __builtin_return_address(0))

/*
 * What the layers add to the span of this thread. They do nothing outside a span. Unless said otherwise they also
 * do nothing in a call of the API inside a span, so that the outermost call describes itself. Call them only if
 * leati_traced().
 */

/* Sets where the call belongs. */
void leati_span_stream(struct leati_traced_stream *lane);

/* Sets bytes and value. */
void leati_span_bytes(uint64_t bytes, const void *value);

/* Sets the kinds of memory. */
void leati_span_kinds(enum leati_trace_memory source, enum leati_trace_memory destination);

/* Sets the name, and keeps its string number in *known for the next time; 0: not known yet. */
void leati_span_name(const char *name, _Atomic uint32_t *known);

/* Sets value. */
void leati_span_value(uint64_t value);

/* Sets pieces. For an allocation the string of tag; NULL: none. */
void leati_span_pieces(uint32_t pieces);
void leati_span_tag(const char *tag);

/* Adds a flag of enum leati_trace_how. */
void leati_span_flag(enum leati_trace_how flag);

/* Adds a part of a copy, also inside an inner call: bytes are summed up, and kinds and protocols that differ
 * become MIXED and NONE. source: NULL if there are several. */
struct leati_span_part {
    uint64_t bytes;
    const void *source;
    enum leati_trace_memory from, to;
    enum leati_trace_how protocol;
    uint32_t pieces;
};
void leati_span_copy(const struct leati_span_part *part);

/* The memory of a pool. */
struct leati_traced_pool {
    uint64_t serial; /* never reused in this process */
    const char *name, *device;
    leat_kind kind;
    uint64_t used_bytes, reserved_bytes;
};

/* Sets the function that reports the memory of all pools. It calls seen for each, or returns false without a call
 * if another thread has the list of the pools. The recorder calls it under its lock, so it must not block. */
typedef void (*leati_pool_seen)(void *context, const struct leati_traced_pool *pool);
typedef bool (*leati_pools_function)(leati_pool_seen seen, void *context);
void leati_trace_pools(leati_pools_function each);

/* Returns the id that the operation of this span will have; 0 outside a span. */
uint64_t leati_span_id(void);

/*
 * Bracket the submission of work to a stream, also inside an inner call, so that its times on the device are
 * measured. Only the first begin and the last end of a span count, and only those of one lane. They may make
 * driver calls, whose failures lose only the times.
 */
void leati_span_work_begins(struct leati_traced_stream *lane);
void leati_span_work_ends(struct leati_traced_stream *lane);

static inline enum leati_trace_memory leati_span_kind(leat_kind kind)
{
    static_assert(LEATI_TRACE_MEMORY_MANAGED == LEAT_KIND_MANAGED + 1, "the kinds of leat/memory.h, after NONE");
    return (enum leati_trace_memory)(kind + 1);
}

#endif
