/*
 * copy.h - waiting for jobs of the worker threads, and starting copies with tickets.
 */
#ifndef LEATI_COPY_COPY_H
#define LEATI_COPY_COPY_H

#include "copy/plan.h"

/* Waits until a job has reached the point; at most until end_ns on the clock, and then returns LEAT_NOT_READY.
 * DEVICE_LOST: the device is lost, so the job can never get there. device: that of the job's stream. */
leat_status leati_job_wait(struct leati_job *job, leat_device *device, leat_copy_point point, uint64_t end_ns);

/* Returns the failure of a finished job, and sets its message; LEAT_OK if it succeeded. */
leat_status leati_job_result(struct leati_job *job);

/* Shared by all calls that start a copy with a ticket. check: checks the arguments. start: submits plans and
 * creates the ticket of all of them; more than one plan only for files. count 0: nothing to copy. If one plan
 * cannot be submitted, those before it are cancelled. options may be NULL. */
enum { LEATI_TICKET_PLANS = 2 };
leat_status leati_ticket_check(const char *what, leat_stream *stream, const leat_copy_options *options,
                               leat_ticket **ticket);
leat_status leati_ticket_start(leat_device *device, struct leati_plan *plans, unsigned count,
                               const leat_copy_options *options, leat_ticket **ticket);

#endif
