/*
 * copy.h - waits for what leat's threads do.
 */
#ifndef LEATI_COPY_COPY_H
#define LEATI_COPY_COPY_H

#include "copy/plan.h"

/* Waits until a job is staged or done, at most until end_ns on the clock: LEAT_NOT_READY after that. DEVICE_LOST
 * when the device will never get there. device: of its stream. */
leat_status leati_job_wait(struct leati_job *job, leat_device *device, bool done, uint64_t end_ns);

/* The failure of a job that is over, with its message; LEAT_OK. */
leat_status leati_job_result(struct leati_job *job);

/* What calls that start a copy with a ticket share: checks the arguments, and gives a plan to its stream. options
 * may be NULL; plan NULL: there is nothing to copy. */
leat_status leati_ticket_check(const char *what, leat_stream *stream, const leat_copy_options *options,
                               leat_ticket **ticket);
leat_status leati_ticket_start(leat_device *device, struct leati_plan *plan, const leat_copy_options *options,
                               leat_ticket **ticket);

#endif
