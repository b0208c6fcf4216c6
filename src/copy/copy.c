/* copy.c - implements leat_copy() and leat_copy_sync(), and waits for the jobs of leat's threads. */
#include "copy/copy.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/quick.h"

#include <leat/copy.h>

#include <sched.h>
#include <time.h>

#define ASK_NS 1000000u

/* ---- waiting ---- */

/* Fails if the device is lost, since then the job may never end. */
static leat_status device_health(leat_device *device)
{
    struct leati_driver *driver = device->driver;
    uint64_t free_bytes, total_bytes;

    /* Closing the device ends its jobs. */
    if (!leati_handle_live(&leati_device_handles, device))
        return LEAT_OK;
    /* device_memory() does not wait, and fails if the device is lost. */
    return driver->ops->device_memory(driver, device->native, &free_bytes, &total_bytes);
}

leat_status leati_job_wait(struct leati_job *job, leat_device *device, leat_copy_point point, uint64_t end_ns)
{
    struct timespec pause = {.tv_nsec = 20000};
    uint64_t start = leati_clock_ns(), asked = start, now;
    struct leati_job_state state;

    leati_assert(job && device);
    for (;;) {
        leati_job_look(job, &state);
        if (point == LEAT_COPY_POINT_STAGED ? state.staged
            : point == LEAT_COPY_POINT_DONE ? state.done
                                            : state.durable)
            return LEAT_OK;
        now = leati_clock_ns();
        if (now >= end_ns)
            return LEAT_NOT_READY;
        if (now - asked > ASK_NS) {
            LEATI_TRY(device_health(device));
            asked = now;
        }
        if (leati_job_help(job))
            start = now;
        else if (now - start < 200000)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
}

leat_status leati_job_result(struct leati_job *job)
{
    struct leati_job_state state;
    char message[LEATI_JOB_MESSAGE_BYTES];

    leati_job_look(job, &state);
    if (state.status == LEAT_OK)
        return LEAT_OK;
    leati_job_message(job, message, sizeof message);
    return leati_fail(state.status, "%s", message);
}

LEATI_HOT leat_status leati_plan_wait(const struct leati_plan *plan, struct leati_job *job)
{
    const struct leati_transfer *transfer = &plan->transfer;
    leat_stream *stream = transfer->stream;
    struct leati_driver *driver = stream->device->driver;
    leat_status status;

    if (job) {
        leati_assert(plan->stager);
        leati_stager_join(plan->stager, job);
        status = leati_job_wait(job, stream->device,
                                plan->protocol == LEATI_PROTOCOL_HOST || transfer->direction != LEATI_DIRECTION_IN
                                    ? LEAT_COPY_POINT_DONE
                                    : LEAT_COPY_POINT_STAGED,
                                UINT64_MAX);
        return status == LEAT_OK ? leati_job_result(job) : status;
    }
    if (transfer->direction == LEATI_DIRECTION_DEVICE || plan->protocol == LEATI_PROTOCOL_EAGER)
        return LEAT_OK;
    LEATI_TRY(driver->ops->stream_synchronize(driver, stream->native));
    /* The jobs of the shares have told only the timeline about a failure. */
    return plan->protocol == LEATI_PROTOCOL_RAILS ? leati_timeline_take_failure(stream->timeline)
                                                  : leati_stream_driver_failure(stream);
}

/* Call before the submission of a copy for which leati_plan_wait() takes the failure that the driver keeps. Waits
 * for earlier copies and leaves their failure to leat_stream_synchronize(), so that leat_copy_sync() returns the
 * failure of its own copy only. */
LEATI_HOT static leat_status set_earlier_failure_aside(const struct leati_plan *plan)
{
    leat_stream *stream = plan->transfer.stream;
    struct leati_driver *driver = stream->device->driver;

    if (!driver->ops->stream_take_failure || plan->protocol != LEATI_PROTOCOL_DRIVER ||
        plan->transfer.direction == LEATI_DIRECTION_DEVICE)
        return LEAT_OK;
    LEATI_TRY(driver->ops->stream_synchronize(driver, stream->native));
    leati_stream_keep_driver_failure(stream);
    return LEAT_OK;
}

/* ---- the public calls ---- */

/* Submits a copy for which leat asked no driver about unknown addresses. If the memory cannot be accessed, or if
 * the protocol lacks memory and declines, nothing was copied. Then leat plans again and asks the drivers. */
LEATI_HOT static leat_status submit_unasked(struct leati_plan *plan, leat_stream *stream, void *dst,
                                            const void *src, size_t bytes, struct leati_job **job)
{
    struct leati_message before;
    leat_status status;

    leati_error_keep(&before);
    status = leati_plan_submit(plan, job);
    if (status != LEAT_ERROR_POINTER && status != LEATI_DECLINED)
        return status;
    LEATI_TRY(leati_plan_copy(plan, stream, dst, src, bytes, false, false));
    if (job) /* the first plan may have had another protocol */
        LEATI_TRY(set_earlier_failure_aside(plan));
    LEATI_TRY(leati_plan_submit(plan, job));
    return leati_error_restore(LEAT_OK, &before);
}

/* job: NULL if the caller does not wait for the copy. */
LEATI_HOT static leat_status copy(struct leati_plan *plan, leat_stream *stream, void *dst, const void *src,
                                  size_t bytes, struct leati_job **job)
{
    LEATI_TRY(leati_plan_copy(plan, stream, dst, src, bytes, false, true));
    if (job)
        LEATI_TRY(set_earlier_failure_aside(plan));
    if (plan->transfer.unasked && plan->transfer.direction != LEATI_DIRECTION_DEVICE)
        return submit_unasked(plan, stream, dst, src, bytes, job);
    return leati_plan_submit(plan, job);
}

static leat_status fail_copy(leat_status status, const char *what, leat_stream *stream, size_t bytes)
{
    return leati_fail_in(status, "%s of %zu bytes on %s", what, bytes, stream->device->name);
}

LEATI_HOT leat_status leat_copy(leat_stream *stream, void *dst, const void *src, size_t bytes)
{
    struct leati_plan plan;
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_COPY, "leat_copy");
    LEATI_TRY(leati_check_permitted("leat_copy"));
    LEATI_TRY(leati_check_stream("leat_copy", stream));
    if (!bytes)
        return LEAT_OK;
    status = copy(&plan, stream, dst, src, bytes, NULL);
    return status == LEAT_OK ? status : fail_copy(status, "leat_copy", stream, bytes);
}

LEATI_HOT leat_status leat_copy_sync(leat_stream *stream, void *dst, const void *src, size_t bytes)
{
    struct leati_job *job = NULL;
    struct leati_plan plan;
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_COPY, "leat_copy_sync");
    LEATI_TRY(leati_check_permitted("leat_copy_sync"));
    LEATI_TRY(leati_check_stream("leat_copy_sync", stream));
    if (leati_traced())
        leati_span_flag(LEATI_TRACE_SYNCHRONOUS);
    if (!bytes)
        return LEAT_OK;
    status = copy(&plan, stream, dst, src, bytes, &job);
    if (status == LEAT_OK)
        status = leati_plan_wait(&plan, job);
    if (job)
        leati_job_release(job);
    return status == LEAT_OK ? status : fail_copy(status, "leat_copy_sync", stream, bytes);
}
