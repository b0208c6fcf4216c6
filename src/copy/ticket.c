/* ticket.c - implements tickets, with which the program follows a copy. The ticket of a copy by workers refers to
 * the copy's jobs, mostly one. The ticket of any other copy has an event, which is recorded after the copy. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/sized.h"
#include "copy/copy.h"

#include <leat/copy.h>

#include <sched.h>
#include <string.h>
#include <time.h>

/* An event of a ticket. The handle alone does not identify it: closing the device destroys the event, and then the
 * handle may stand for another one. */
struct own_event {
    leat_event *event; /* NULL: there is none */
    uint64_t serial;
};

struct leat_ticket {
    struct leati_handle handle;
    leat_device *device;
    size_t bytes;
    bool durable;       /* the ticket has the point LEAT_COPY_POINT_DURABLE */
    bool staged;        /* the copy was already staged when the call that made the ticket returned */
    unsigned job_count; /* 0: the ticket has an event, or the copy was complete when the call returned */
    struct leati_job *jobs[LEATI_TICKET_PLANS];
    struct own_event after; /* after the copy; none: see job_count */
    struct own_event later; /* of leat_ticket_extend(): must be reached before LEAT_COPY_POINT_DONE too */
    const char *protocol; /* see leat_ticket_info */
    uint64_t traced; /* id of the copy in a trace; 0: it was not traced */
    /* Guarded by outcomes_lock: the outcome of the jobs, for leat_ticket_report(); NULL before its first call. */
    struct leati_outcome *outcome;
};

/* Guards the outcomes of all tickets. Threads hold it only while they attach an outcome to a ticket. */
static struct leati_lock outcomes_lock = LEATI_LOCK_INITIALIZER;

static struct leati_handles ticket_handles = LEATI_HANDLES(struct leat_ticket);

static leat_status check_ticket(const char *what, const leat_ticket *ticket)
{
    if (leati_handle_live(&ticket_handles, ticket))
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_HANDLE, "%s: ticket %p is not live: it was freed, or it never came from leat",
                      what, (const void *)ticket);
}

static leat_status check_options(const char *what, const leat_copy_options *options)
{
    return options ? LEATI_SIZED_CHECK(what, "options", leat_copy_options, options) : LEAT_OK;
}

/* Returns the deadline as a time of leati_clock_ns(). Returns 0, no deadline, if the time overflows. */
static uint64_t deadline_of(const leat_copy_options *given)
{
    uint64_t now = leati_clock_ns();
    leat_copy_options options;

    if (!given)
        return 0;
    LEATI_SIZED_READ(&options, given);
    return options.deadline_ns && options.deadline_ns < UINT64_MAX - now ? now + options.deadline_ns : 0;
}

static leat_status create_event(leat_device *device, struct own_event *own)
{
    LEATI_TRY(leat_event_create(device, &own->event));
    own->serial = own->event->serial;
    return LEAT_OK;
}

static bool is_there(const struct own_event *own)
{
    return leati_handle_live(&leati_event_handles, own->event) && own->event->serial == own->serial;
}

/* Destroys the event, if there is one and closing the device has not destroyed it. */
static void destroy_event(struct own_event *own)
{
    if (own->event && is_there(own))
        (void)LEATI_QUIETLY(leat_event_destroy(own->event));
    own->event = NULL;
}

/* Records the ticket's event after a copy that has no job. If the ticket has no event, waits for the stream
 * instead, unless the copy is complete (an eager copy out). */
static leat_status follow(const struct leati_plan *plan, leat_ticket *ticket)
{
    leat_stream *stream = plan->transfer.stream;
    struct leati_driver *driver = stream->device->driver;

    leati_assert(!ticket->job_count);
    if (ticket->after.event)
        return leat_event_record(stream, ticket->after.event);
    return plan->protocol == LEATI_PROTOCOL_EAGER ? LEAT_OK
                                                  : driver->ops->stream_synchronize(driver, stream->native);
}

static leat_status submit(struct leati_plan *plan, leat_ticket *ticket)
{
    struct leati_job *job = NULL;
    leat_status status;

    /* Create the event first, because it could fail after the submission. An eager copy out needs no event,
     * because it is complete when leati_plan_submit() returns. */
    if (plan->protocol != LEATI_PROTOCOL_EAGER || plan->transfer.direction != LEATI_DIRECTION_OUT)
        LEATI_TRY(create_event(ticket->device, &ticket->after));
    status = leati_plan_submit(plan, &job);
    ticket->staged = plan->protocol == LEATI_PROTOCOL_EAGER;
    leati_assert(!job || plan->stager);
    if (job)
        ticket->jobs[ticket->job_count++] = job;
    if (status == LEAT_OK && !job)
        status = follow(plan, ticket);
    if (status != LEAT_OK || job)
        destroy_event(&ticket->after);
    return status;
}

/* Returns the text for leat_ticket_info. before: the text for the plans before this one. */
static const char *protocol_of(const struct leati_plan *plan, const char *before)
{
    const char *name = leati_protocols[plan->protocol]->name;

    /* Only a list of ranges of files has two plans, and the second is for host memory. */
    leati_assert(!*before || plan->protocol == LEATI_PROTOCOL_HOST);
    return *before && strcmp(before, name) ? "staged and host" : name;
}

static void release_jobs(const leat_ticket *ticket)
{
    for (unsigned i = 0; i < ticket->job_count; i++)
        leati_job_release(ticket->jobs[i]);
}

static void stop_jobs(const leat_ticket *ticket)
{
    for (unsigned i = 0; i < ticket->job_count; i++)
        leati_job_stop(ticket->jobs[i], LEAT_ERROR_CANCELLED);
}

leat_status leati_ticket_check(const char *what, leat_stream *stream, const leat_copy_options *options,
                               leat_ticket **ticket)
{
    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_stream(what, stream));
    LEATI_TRY(leati_check_not_null(what, "ticket", ticket));
    return check_options(what, options);
}

leat_status leati_ticket_start(leat_device *device, struct leati_plan *plans, unsigned count,
                               const leat_copy_options *options, leat_ticket **ticket)
{
    leat_ticket *made = leati_handle_new(&ticket_handles);
    uint64_t deadline_ns = deadline_of(options); /* one for all plans */
    leat_status status = LEAT_OK;

    leati_assert(count <= LEATI_TICKET_PLANS);
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the ticket");
    made->device = device;
    made->bytes = 0;
    made->staged = made->durable = false;
    made->job_count = 0;
    made->after.event = made->later.event = NULL;
    made->outcome = NULL;
    made->protocol = "";
    made->traced = leati_traced() ? leati_span_id() : 0;
    for (unsigned i = 0; i < count && status == LEAT_OK; i++) {
        leati_assert(count == 1 || plans[i].transfer.shape == LEATI_SHAPE_FILE);
        made->durable = plans[i].transfer.shape == LEATI_SHAPE_FILE && plans[i].transfer.file.detached;
        if (!made->durable)
            made->bytes += plans[i].transfer.bytes;
        plans[i].transfer.deadline_ns = deadline_ns;
        status = submit(&plans[i], made);
        if (status == LEAT_OK)
            made->protocol = protocol_of(&plans[i], made->protocol);
    }
    if (status != LEAT_OK) {
        stop_jobs(made);
        release_jobs(made);
        leati_handle_free(&ticket_handles, made);
        return status;
    }
    leati_handle_publish(made);
    *ticket = made;
    return LEAT_OK;
}

leat_status leat_copy_start(leat_stream *stream, void *dst, const void *src, size_t bytes,
                            const leat_copy_options *options, leat_ticket **ticket)
{
    struct leati_plan plan;
    leat_status status = LEAT_OK;

    LEATI_SPAN(LEATI_TRACE_COPY, "leat_copy_start");
    LEATI_TRY(leati_ticket_check("leat_copy_start", stream, options, ticket));
    if (bytes)
        status = leati_plan_copy(&plan, stream, dst, src, bytes, true, false);
    if (status == LEAT_OK)
        status = leati_ticket_start(stream->device, &plan, bytes ? 1 : 0, options, ticket);
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "leat_copy_start of %zu bytes on %s", bytes, stream->device->name);
}

/* Returns LEAT_OK if an event of a ticket was reached, or there is none. If it does not exist any more, it was
 * reached, because the device was closed, and closing waits for all work. */
static leat_status event_reached(const struct own_event *own)
{
    leat_status status;

    if (!own->event || !is_there(own))
        return LEAT_OK;
    status = leat_event_query(own->event);
    return status == LEAT_ERROR_HANDLE ? LEAT_OK : status;
}

static leat_status wait_for_event(const struct own_event *own, uint64_t end_ns)
{
    struct timespec pause = {.tv_nsec = 20000};
    uint64_t start = leati_clock_ns();

    for (;;) {
        leat_status status = event_reached(own);
        uint64_t now = leati_clock_ns();

        if (status != LEAT_NOT_READY || now >= end_ns)
            return status;
        if (now - start < 200000)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
}

static bool is_failure(leat_status status)
{
    return status != LEAT_OK && status != LEAT_ERROR_CANCELLED && status != LEAT_ERROR_DEADLINE;
}

/* Returns the first failure of the jobs so far, or else the first status that is not LEAT_OK. If one job
 * was cancelled and another one has failed, the stream reports the failure, so the ticket must not hide it. */
static leat_status result_of(const leat_ticket *ticket)
{
    leat_status first = LEAT_OK;
    unsigned at = 0;

    for (unsigned i = 0; i < ticket->job_count && !is_failure(first); i++) {
        struct leati_job_state state;

        leati_job_look(ticket->jobs[i], &state);
        if (first == LEAT_OK || is_failure(state.status)) {
            first = state.status;
            at = i;
        }
    }
    return first == LEAT_OK ? LEAT_OK : leati_job_result(ticket->jobs[at]);
}

/* Waits for all jobs, even if one has failed, and returns the first failure. */
static leat_status wait_for_jobs(const leat_ticket *ticket, leat_copy_point point, uint64_t end_ns)
{
    for (unsigned i = 0; i < ticket->job_count; i++)
        LEATI_TRY(leati_job_wait(ticket->jobs[i], ticket->device, point, end_ns));
    if (point == LEAT_COPY_POINT_DONE)
        LEATI_TRY(wait_for_event(&ticket->later, end_ns));
    return result_of(ticket);
}

static leat_status wait_for_events(const leat_ticket *ticket, leat_copy_point point, uint64_t end_ns)
{
    LEATI_TRY(wait_for_event(&ticket->after, end_ns));
    return point == LEAT_COPY_POINT_DONE ? wait_for_event(&ticket->later, end_ns) : LEAT_OK;
}

static void add_jobs(const leat_ticket *ticket, leat_ticket_info *info)
{
    info->staged = info->done = 1;
    for (unsigned i = 0; i < ticket->job_count; i++) {
        struct leati_job_state state;

        leati_job_look(ticket->jobs[i], &state);
        info->staged = info->staged && state.staged;
        info->done = info->done && state.done;
        info->durable = ticket->durable && state.durable;
        info->arrived_bytes += ticket->durable ? 0 : state.arrived_bytes;
        if (info->status == LEAT_OK || (is_failure(state.status) && !is_failure(info->status)))
            info->status = state.status;
    }
}

leat_status leat_ticket_wait(leat_ticket *ticket, leat_copy_point point, uint64_t timeout_ns)
{
    uint64_t now = leati_clock_ns(), end_ns = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_SYNCHRONIZE, "leat_ticket_wait");
    LEATI_TRY(leati_check_permitted("leat_ticket_wait"));
    LEATI_TRY(check_ticket("leat_ticket_wait", ticket));
    if (point < LEAT_COPY_POINT_STAGED || point > LEAT_COPY_POINT_DURABLE)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "leat_ticket_wait: there is no point %d; use LEAT_COPY_POINT_STAGED, LEAT_COPY_POINT_DONE or LEAT_COPY_POINT_DURABLE",
            (int)point);
    if (point == LEAT_COPY_POINT_DURABLE && !ticket->durable)
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_ticket_wait: only tickets of leat_file_sync_start() and leat_file_commit_start() have the point LEAT_COPY_POINT_DURABLE");
    if (leati_traced()) {
        leati_span_stream(&ticket->device->traced_calls);
        leati_span_value(ticket->traced);
    }
    if (ticket->staged && point == LEAT_COPY_POINT_STAGED)
        return LEAT_OK;
    status = ticket->job_count ? wait_for_jobs(ticket, point, end_ns) : wait_for_events(ticket, point, end_ns);
    return status == LEAT_OK || status == LEAT_NOT_READY ? status : leati_fail_in(status, "leat_ticket_wait");
}

leat_status leat_ticket_get_info(leat_ticket *ticket, leat_ticket_info *info)
{
    leat_ticket_info filled;
    leat_status status;

    LEATI_TRY(check_ticket("leat_ticket_get_info", ticket));
    LEATI_TRY(LEATI_SIZED_CHECK("leat_ticket_get_info", "info", leat_ticket_info, info));
    memset(&filled, 0, sizeof filled);
    filled.bytes = ticket->bytes;
    filled.protocol = ticket->protocol;
    if (ticket->job_count) {
        add_jobs(ticket, &filled);
    } else {
        status = event_reached(&ticket->after);
        filled.done = status == LEAT_OK;
        filled.staged = filled.done || ticket->staged;
        filled.arrived_bytes = filled.done ? ticket->bytes : 0;
        filled.status = status < LEAT_OK ? status : LEAT_OK;
    }
    status = event_reached(&ticket->later);
    filled.done = filled.done && status == LEAT_OK;
    if (filled.status == LEAT_OK && status < LEAT_OK)
        filled.status = status;
    LEATI_SIZED_WRITE(info, &filled);
    return LEAT_OK;
}

leat_status leat_ticket_cancel(leat_ticket *ticket)
{
    LEATI_TRY(check_ticket("leat_ticket_cancel", ticket));
    stop_jobs(ticket);
    /* A copy whose storage is not ready is not polled. */
    leati_workers_nudge();
    return LEAT_OK;
}

/* Returns the outcome of a ticket's jobs, which it makes at the first call. Returns NULL when out of memory. */
static struct leati_outcome *outcome_of(leat_ticket *ticket)
{
    leati_lock(&outcomes_lock);
    if (!ticket->outcome) {
        ticket->outcome = leati_outcome_new();
        for (unsigned i = 0; ticket->outcome && i < ticket->job_count; i++)
            leati_job_set_outcome(ticket->jobs[i], ticket->outcome);
    }
    leati_unlock(&outcomes_lock);
    return ticket->outcome;
}

leat_status leat_ticket_report(leat_ticket *ticket, leat_stream *stream)
{
    struct leati_outcome *outcome;

    LEATI_TRY(check_ticket("leat_ticket_report", ticket));
    LEATI_TRY(leati_check_stream("leat_ticket_report", stream));
    if (!ticket->job_count)
        return LEAT_OK; /* only copies by leat's threads can fail later */
    outcome = outcome_of(ticket);
    if (!outcome)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "leat_ticket_report: out of host memory (the copy's outcome)");
    return leati_timeline_subscribe(stream->timeline, outcome);
}

leat_status leat_ticket_extend(leat_ticket *ticket, leat_stream *stream)
{
    struct own_event later = {.event = NULL};
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_ticket_extend"));
    LEATI_TRY(check_ticket("leat_ticket_extend", ticket));
    LEATI_TRY(leati_check_stream("leat_ticket_extend", stream));
    if (stream->device != ticket->device)
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_ticket_extend: the stream is of %s, the copy of another device; use the copy's stream",
                          stream->device->name);
    status = create_event(ticket->device, &later);
    if (status == LEAT_OK)
        status = leat_event_record(stream, later.event);
    if (status != LEAT_OK) {
        destroy_event(&later);
        return leati_fail_in(status, "leat_ticket_extend");
    }
    destroy_event(&ticket->later);
    ticket->later = later;
    return LEAT_OK;
}

leat_status leat_ticket_destroy(leat_ticket *ticket)
{
    if (!ticket)
        return LEAT_OK;
    if (!leati_handle_retire(&ticket_handles, ticket))
        return check_ticket("leat_ticket_destroy", ticket);
    release_jobs(ticket);
    leati_outcome_release(ticket->outcome);
    destroy_event(&ticket->after);
    destroy_event(&ticket->later);
    leati_handle_free(&ticket_handles, ticket);
    return LEAT_OK;
}
