/*
 * copy.h - which way a copy goes, and its start.
 */
#ifndef LEATI_COPY_COPY_H
#define LEATI_COPY_COPY_H

#include "base/text.h"
#include "copy/staged.h"
#include "core/access.h"

/* Memory that neither leat nor a driver knows. */
static inline bool leati_is_pageable(const struct leati_target *target)
{
    return target->end.kind == LEAT_KIND_PAGEABLE;
}

/* Memory that leat's threads reach on every device. */
static inline bool leati_is_on_host(const struct leati_target *target)
{
    return leati_is_pageable(target) || target->end.kind == LEAT_KIND_PINNED;
}

enum leati_path {
    LEATI_PATH_DRIVER,    /* the driver's asynchronous call */
    LEATI_PATH_PAGEABLE,  /* the driver's call for pageable memory */
    LEATI_PATH_EAGER,
    LEATI_PATH_STAGED     /* staged.h */
};

/* How a copy will be made. */
struct leati_plan {
    struct leati_target to, from;
    size_t bytes;
    enum leati_path path;
    enum leati_direction direction;          /* of STAGED */
    unsigned helpers;            /* devices whose links are used too */
    bool followed;               /* it has a ticket */
    bool first; bool early;                  /* the source may be read at once */
    struct leati_stager *stager; /* NULL where no pageable memory is involved */
    const char *why;
};

/* Finds out what the pointers are, checks everything that leat_copy() promises to check, and chooses. bytes > 0.
 */
leat_status leati_plan_copy(leat_stream *stream, void *dst, const void *src, size_t bytes, bool followed,
                            struct leati_plan *plan);

/* The same where nobody need be asked what the memory is: leat knows it, or the copy is short and its stream known
 * to be empty; LEAT_NOT_READY: it is another copy. leat_copy() tries this first. */
leat_status leati_plan_unasked(leat_stream *stream, void *dst, const void *src, size_t bytes,
                               struct leati_plan *plan);

/* Does what was planned. job: filled for a staged copy, else NULL; the caller lets it go. May be NULL itself. */
leat_status leati_run_copy(leat_stream *stream, struct leati_plan *plan, uint64_t deadline_ns,
                           struct leati_job **job);

/* Waits until a job is staged or done, at most until end_ns on the clock: LEAT_NOT_READY after that. DEVICE_LOST
 * when the device will never get there. device: of its stream. */
leat_status leati_job_wait(struct leati_job *job, leat_device *device, bool done, uint64_t end_ns);

/* The failure of a job that is over, with its sentence; LEAT_OK. */
leat_status leati_job_result(struct leati_job *job);

/* "cuda:0", "pageable memory". */
void leati_explain_end(struct leati_text *text, const struct leati_target *end);

#endif
