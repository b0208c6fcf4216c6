/*
 * copy.h - waits for jobs of the worker threads, and starts copies with tickets.
 */
#ifndef LEATI_COPY_COPY_H
#define LEATI_COPY_COPY_H

#include "copy/plan.h"

/* Waits until a job has reached the point. Returns LEAT_NOT_READY if leati_clock_ns() reaches end_ns first, and
 * DEVICE_LOST if the device is lost, so that the job can never reach the point. device: the device of the job's
 * stream. */
leat_status leati_job_wait(struct leati_job *job, leat_device *device, leat_copy_point point, uint64_t end_ns);

/* Returns LEAT_OK if a finished job has succeeded. Otherwise returns its failure, with a message. */
leat_status leati_job_result(struct leati_job *job);

/* For all calls that start a copy with a ticket. leati_ticket_check() checks the arguments. leati_ticket_start()
 * submits the plans and creates one ticket for all of them. Only files have more than one plan. count 0: there is
 * nothing to copy. If a plan cannot be submitted, the plans before it are cancelled. options may be NULL. */
enum { LEATI_TICKET_PLANS = 2 };
leat_status leati_ticket_check(const char *what, leat_stream *stream, const leat_copy_options *options,
                               leat_ticket **ticket);
leat_status leati_ticket_start(leat_device *device, struct leati_plan *plans, unsigned count,
                               const leat_copy_options *options, leat_ticket **ticket);

#endif
