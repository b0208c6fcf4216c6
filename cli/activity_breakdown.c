/*
 * activity_breakdown.c - divides the time of a recorded run into idle, copy, compute, and copy under compute,
 * exactly, and the idle time by reason. docs/trace.md has the definitions.
 */
#include "activity.h"

#include <stdlib.h>
#include <string.h>

const char *const activity_reason_names[ACTIVITY_IDLE_COUNT] = {
    [ACTIVITY_IDLE_HOST] = "host",    [ACTIVITY_IDLE_LAUNCH] = "launch", [ACTIVITY_IDLE_COPY] = "copy",
    [ACTIVITY_IDLE_EVENT] = "event",  [ACTIVITY_IDLE_SYNC] = "sync",     [ACTIVITY_IDLE_ALLOC] = "alloc",
    [ACTIVITY_IDLE_NONE] = "no work",
};

/* ---- intervals ---- */

static int compare_intervals(const void *a, const void *b)
{
    const struct activity_interval *one = a, *other = b;

    return one->begin_ns == other->begin_ns ? 0 : one->begin_ns < other->begin_ns ? -1 : 1;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The sweep over the intervals: up to at everything is counted, and copies and computation reach up to their ends.
 */
struct sweep {
    uint64_t at, copy_end, compute_end;
    struct activity_parts parts;
    void (*on_idle)(void *context, uint64_t begin_ns, uint64_t end_ns);
    void *context;
};

/* Counts the time up to end. */
static void sweep_to(struct sweep *sweep, uint64_t end)
{
    while (sweep->at < end) {
        bool copies = sweep->copy_end > sweep->at, computes = sweep->compute_end > sweep->at;
        uint64_t next = end, length;

        if (copies)
            next = smaller(next, sweep->copy_end);
        if (computes)
            next = smaller(next, sweep->compute_end);
        length = next - sweep->at;
        if (copies && computes)
            sweep->parts.overlap_ns += length;
        else if (copies)
            sweep->parts.copy_ns += length;
        else if (computes)
            sweep->parts.compute_ns += length;
        else
            sweep->parts.idle_ns += length;
        if (!copies && !computes && sweep->on_idle)
            sweep->on_idle(sweep->context, sweep->at, next);
        sweep->at = next;
    }
}

struct activity_parts activity_divide(struct activity_interval *intervals, size_t count, uint64_t span_ns,
                                      void (*on_idle)(void *context, uint64_t begin_ns, uint64_t end_ns),
                                      void *context)
{
    struct sweep sweep = {.on_idle = on_idle, .context = context};
    size_t i;

    if (count > 1)
        qsort(intervals, count, sizeof *intervals, compare_intervals);
    for (i = 0; i < count; i++) {
        uint64_t *end = intervals[i].class == ACTIVITY_CLASS_COPY ? &sweep.copy_end : &sweep.compute_end;

        sweep_to(&sweep, smaller(intervals[i].begin_ns, span_ns));
        if (intervals[i].end_ns > *end)
            *end = intervals[i].end_ns;
    }
    sweep_to(&sweep, span_ns);
    return sweep.parts;
}

/* ---- reasons of idle time ---- */

/* A piece of time in which a thread is in a call that explains idle time. The pieces of a thread do not overlap.
 */
struct call {
    uint64_t begin_ns, end_ns;
    enum activity_reason reason;
};

struct calls {
    struct call *list;
    size_t count;
};

/* What the reasons are computed from. */
struct host {
    const struct activity_log *log;
    struct calls *threads; /* of each thread */
    struct calls everyone; /* of all threads, for times when no particular thread is waited for */
    struct calls *waits;   /* of each stream: the times in which it waits for an event */
    struct call *room;     /* memory of all lists */
};

static bool call_reason(const struct activity *a, enum activity_reason *reason)
{
    if (!(a->flags & ACTIVITY_FLAG_HOST))
        return false;
    switch ((enum activity_kind)a->kind) {
    case ACTIVITY_ALLOC:
    case ACTIVITY_FREE:
        *reason = ACTIVITY_IDLE_ALLOC;
        return true;
    case ACTIVITY_HOST_WAIT:
        *reason = ACTIVITY_IDLE_SYNC;
        return true;
    case ACTIVITY_COPY:
    case ACTIVITY_FILE_READ:
    case ACTIVITY_FILE_WRITE:
    case ACTIVITY_PAGE_MOVE:
        *reason = ACTIVITY_IDLE_COPY;
        return true;
    default:
        return false;
    }
}

/* Appends a piece to a list in order of time. Of a call inside another one, or beside it on another thread, only
 * the part after the end of the earlier one is kept, so that each moment has one reason. */
static void append(struct calls *calls, uint64_t begin, uint64_t end, enum activity_reason reason)
{
    uint64_t last = calls->count ? calls->list[calls->count - 1].end_ns : 0;

    begin = begin < last ? last : begin;
    if (begin < end)
        calls->list[calls->count++] = (struct call){begin, end, reason};
}

static bool is_wait(const struct activity_log *log, const struct activity *a)
{
    return a->kind == ACTIVITY_STREAM_WAIT && (a->flags & ACTIVITY_FLAG_DEVICE) && a->stream < log->stream_count;
}

/* Sets the lists to parts of one block of memory, each with room for all of its calls. */
static void place_lists(struct host *host)
{
    const struct activity_log *log = host->log;
    struct call *at = host->room;
    enum activity_reason reason;
    size_t i;

    for (i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if (call_reason(a, &reason)) {
            host->everyone.count++;
            if (a->thread < log->thread_count)
                host->threads[a->thread].count++;
        }
        if (is_wait(log, a))
            host->waits[a->stream].count++;
    }
    for (i = 0; i < log->thread_count; at += host->threads[i].count, host->threads[i++].count = 0)
        host->threads[i].list = at;
    for (i = 0; i < log->stream_count; at += host->waits[i].count, host->waits[i++].count = 0)
        host->waits[i].list = at;
    host->everyone.list = at;
    host->everyone.count = 0;
}

static int compare_calls(const void *a, const void *b)
{
    const struct call *one = a, *other = b;

    return one->begin_ns == other->begin_ns ? 0 : one->begin_ns < other->begin_ns ? -1 : 1;
}

static void host_clear(struct host *host)
{
    free(host->threads);
    free(host->waits);
    free(host->room);
}

/* Returns false if memory is short. */
static bool host_fill(struct host *host, const struct activity_log *log)
{
    enum activity_reason reason;
    size_t i, s;

    *host = (struct host){.log = log};
    host->threads = calloc(log->thread_count + 1, sizeof *host->threads);
    host->waits = calloc(log->stream_count + 1, sizeof *host->waits);
    host->room = calloc(3 * log->count + 1, sizeof *host->room);
    if (!host->threads || !host->waits || !host->room) {
        host_clear(host);
        return false;
    }
    place_lists(host);
    for (i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if (call_reason(a, &reason)) {
            append(&host->everyone, a->host_begin_ns, a->host_end_ns, reason);
            if (a->thread < log->thread_count)
                append(&host->threads[a->thread], a->host_begin_ns, a->host_end_ns, reason);
        }
        /* The log is in the order of the calls, and the stream executes its waits in that order too, but another
         * tool's times may be off: so sort below. */
        if (is_wait(log, a))
            host->waits[a->stream].list[host->waits[a->stream].count++] =
                (struct call){a->device_begin_ns, a->device_end_ns, ACTIVITY_IDLE_EVENT};
    }
    for (s = 0; s < log->stream_count; s++) {
        struct calls *waits = &host->waits[s];
        size_t count = waits->count;

        qsort(waits->list, count, sizeof *waits->list, compare_calls);
        waits->count = 0;
        for (i = 0; i < count; i++)
            append(waits, waits->list[i].begin_ns, waits->list[i].end_ns, ACTIVITY_IDLE_EVENT);
    }
    return true;
}

/* Counts the time from begin to end: by the calls of the list, and what is left as otherwise. */
static void count_calls(const struct calls *calls, uint64_t begin, uint64_t end, enum activity_reason otherwise,
                        uint64_t by[ACTIVITY_IDLE_COUNT])
{
    size_t low = 0, high = calls->count;

    while (low < high) { /* find the first call that ends after begin */
        size_t middle = low + (high - low) / 2;

        if (calls->list[middle].end_ns <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    for (; begin < end && low < calls->count && calls->list[low].begin_ns < end; low++) {
        const struct call *call = &calls->list[low];
        uint64_t from = call->begin_ns > begin ? call->begin_ns : begin;
        uint64_t to = smaller(call->end_ns, end);

        by[otherwise] += from - begin;
        by[call->reason] += to - from;
        begin = to;
    }
    if (begin < end)
        by[otherwise] += end - begin;
}

/* The idle time of a device, or of all devices as one. */
struct idle {
    const struct host *host;
    const struct activity *const *work; /* sorted by the begin of the execution */
    size_t work_count, next;
    uint64_t *by; /* time by reason */
};

/* Counts one idle piece: until the next work of the device begins. */
static void count_idle(void *context, uint64_t begin, uint64_t end)
{
    struct idle *idle = context;
    const struct host *host = idle->host;
    const struct activity *next;
    uint64_t called;

    while (idle->next < idle->work_count && idle->work[idle->next]->device_begin_ns < end)
        idle->next++;
    next = idle->next < idle->work_count ? idle->work[idle->next] : NULL;
    if (!next) {
        count_calls(&host->everyone, begin, end, ACTIVITY_IDLE_NONE, idle->by);
        return;
    }
    /* Without the host's time the call is unknown, and the work counts as submitted. */
    called = next->flags & ACTIVITY_FLAG_HOST ? next->host_begin_ns : begin;
    if (called > begin) {
        uint64_t until = smaller(called, end);

        count_calls(next->thread < host->log->thread_count ? &host->threads[next->thread] : &host->everyone, begin,
                    until, begin == 0 ? ACTIVITY_IDLE_NONE : ACTIVITY_IDLE_HOST, idle->by);
        begin = until;
    }
    if (begin < end)
        count_calls(&host->waits[next->stream], begin, end,
                    activity_is_copy(next) ? ACTIVITY_IDLE_COPY : ACTIVITY_IDLE_LAUNCH, idle->by);
}

/* ---- shares ---- */

/* Room for the work of one share. */
struct work {
    const struct activity **list;
    struct activity_interval *intervals;
    size_t count;
};

static int compare_work(const void *a, const void *b)
{
    const struct activity *one = *(const struct activity *const *)a, *other = *(const struct activity *const *)b;

    if (one->device_begin_ns != other->device_begin_ns)
        return one->device_begin_ns < other->device_begin_ns ? -1 : 1;
    return one == other ? 0 : one < other ? -1 : 1;
}

enum scope { SCOPE_ALL, SCOPE_DEVICE, SCOPE_STREAM };

static uint32_t scope_index(const struct activity_log *log, const struct activity *a, enum scope scope)
{
    return scope == SCOPE_STREAM ? a->stream : scope == SCOPE_DEVICE ? activity_device(log, a) : 0;
}

/* Computes a share from its work. host: NULL without reasons. */
static void fill_share(const struct activity_log *log, const struct host *host, struct work *work,
                       struct activity_share *share)
{
    struct idle idle = {host, work->list, work->count, 0, share->idle_by_ns};
    size_t i, copies = 0;

    qsort(work->list, work->count, sizeof(const struct activity *), compare_work);
    for (i = 0; i < work->count; i++) {
        const struct activity *a = work->list[i];

        if (activity_is_copy(a)) {
            work->intervals[copies++] =
                (struct activity_interval){a->device_begin_ns, a->device_end_ns, ACTIVITY_CLASS_COPY};
            share->copies++;
            activity_add_bytes(&share->copy_bytes, a->bytes);
        } else
            share->kernels += a->kind == ACTIVITY_KERNEL;
    }
    share->copy_busy_ns = activity_divide(work->intervals, copies, log->span_ns, NULL, NULL).copy_ns;
    for (i = 0; i < work->count; i++) {
        const struct activity *a = work->list[i];

        work->intervals[i] =
            (struct activity_interval){a->device_begin_ns, a->device_end_ns,
                                       activity_is_copy(a) ? ACTIVITY_CLASS_COPY : ACTIVITY_CLASS_COMPUTE};
    }
    share->parts = activity_divide(work->intervals, work->count, log->span_ns, host ? count_idle : NULL, &idle);
}

/* Computes the shares of all devices, or of all streams, or the one of the whole. The work is grouped by counting
 * first how much each share has. Returns false if memory is short. */
static bool fill_shares(const struct activity_log *log, const struct host *host, enum scope scope,
                        struct activity_share *shares, size_t count, struct work *all)
{
    size_t *begins = calloc(count + 2, sizeof *begins), i;

    if (!begins)
        return false;
    for (i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if (a->stream < log->stream_count && (activity_is_copy(a) || activity_is_compute(a)))
            begins[scope_index(log, a, scope) + 2]++;
    }
    for (i = 2; i < count + 2; i++)
        begins[i] += begins[i - 1];
    for (i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];

        if (a->stream < log->stream_count && (activity_is_copy(a) || activity_is_compute(a)))
            all->list[begins[scope_index(log, a, scope) + 1]++] = a;
    }
    for (i = 0; i < count; i++) {
        struct work work = {all->list + begins[i], all->intervals, begins[i + 1] - begins[i]};

        shares[i].index = (uint32_t)i;
        fill_share(log, host, &work, &shares[i]);
    }
    free(begins);
    return true;
}

void activity_breakdown_destroy(struct activity_breakdown *breakdown)
{
    if (!breakdown)
        return;
    free(breakdown->devices);
    free(breakdown->streams);
    free(breakdown);
}

struct activity_breakdown *activity_breakdown_make(const struct activity_log *log)
{
    struct activity_breakdown *breakdown = calloc(1, sizeof *breakdown);
    struct work work = {calloc(log->count + 1, sizeof(const struct activity *)),
                        calloc(log->count + 1, sizeof(struct activity_interval)), 0};
    struct host host;
    bool fine = false;

    if (!breakdown || !work.list || !work.intervals || !host_fill(&host, log))
        goto free_work;
    breakdown->span_ns = log->span_ns;
    breakdown->device_count = log->device_count;
    breakdown->stream_count = log->stream_count;
    breakdown->devices = calloc(log->device_count + 1, sizeof *breakdown->devices);
    breakdown->streams = calloc(log->stream_count + 1, sizeof *breakdown->streams);
    fine = breakdown->devices && breakdown->streams &&
           fill_shares(log, &host, SCOPE_ALL, &breakdown->all, 1, &work) &&
           fill_shares(log, &host, SCOPE_DEVICE, breakdown->devices, log->device_count, &work) &&
           fill_shares(log, NULL, SCOPE_STREAM, breakdown->streams, log->stream_count, &work);
    host_clear(&host);

free_work:
    free(work.list);
    free(work.intervals);
    if (fine)
        return breakdown;
    activity_breakdown_destroy(breakdown);
    return NULL;
}
