/*
 * staged.h - staged copies of streams: what the layer staging/ needs of a device, supplied from the layers above
 * it.
 */
#ifndef LEATI_COPY_STAGED_H
#define LEATI_COPY_STAGED_H

#include "copy/region.h"
#include "core/core.h"
#include "staging/staging.h"

#include <leat/pool.h>

struct leati_rail;
struct leati_eager_ring;

/* The device's stager, made at the first use. If refused is set, it cannot be used, and the driver's own calls
 * must do. INVALID: an environment variable has a wrong value; other failures may be gone next time. */
leat_status leati_stager_get(leat_device *device, struct leati_stager **stager);

/*
 * The same without waiting: DECLINED while there is none. Making one takes some ten milliseconds, most of them for
 * pinned memory and the probe, so a process's first copies take another protocol where there is one, and call
 * leati_stager_prepare() when they are given to the stream: a thread then makes the stager behind them. The CPU
 * device's stager is made at once.
 */
leat_status leati_stager_find(leat_device *device, struct leati_stager **stager);
void leati_stager_prepare(leat_device *device);

/* The pool from which the rings of a store policy come. */
leat_pool *leati_stager_pool(struct leati_stager *stager, enum leati_store_policy policy);

/* The rings that eager copies of the device share. */
struct leati_eager_ring *leati_stager_rings(struct leati_stager *stager);

/* Sets what is to be done when a device with copies of this layer closes, and when its streams end. */
void leati_copy_set_hooks(leat_device *device);

/* A copy whose rows have gaps on one side or on both. */
struct leati_staged_region {
    leat_copy_region region;         /* in its simplest form */
    enum leati_protocol_id protocol; /* between the ring and the device: DRIVER or KERNEL */
};

struct leati_stage_request {
    enum leati_direction direction;
    bool early;
    uint64_t deadline_ns;    /* on the clock; 0: none */
    struct leati_rail *rail; /* NULL: over the link of the stream's own device */
    bool eager;              /* as in staging/staging.h, as are the next two */
    struct leati_flags *block;
    bool no_wait;
    const struct leati_staged_region *region; /* NULL: bytes without gaps */
    const struct leati_list *list; /* HOST: so many copies in the place of one, which the workers make */
    struct leati_storage storage;  /* as in staging/staging.h */
};

/* One staged copy, from its reservation to its submission. Must not move in between. */
struct leati_stage {
    struct leati_stager *stager;
    leat_stream *stream;
    const struct leati_stage_request *request;
    struct leati_location placed; /* the device's side */
    struct leati_caught_up caught_up;
    struct leati_rows to_rows, from_rows;
    struct leati_staging_request staging;
    struct leati_job *job;
};

/* Takes the memory of a staged copy; bytes is the number of copies where there is a list. The request must stay.
 * DECLINED: there is no memory for it. May wait for other copies' memory unless the request says no_wait. */
leat_status leati_stage_reserve(struct leati_stage *stage, struct leati_stager *stager, leat_stream *stream,
                                const struct leati_endpoint *to, const struct leati_endpoint *from, size_t bytes,
                                const struct leati_stage_request *request);

/* Gives such a copy to its stream, or gives its memory back. submit fills *job, which the caller must release,
 * when job is not NULL. */
leat_status leati_stage_submit(struct leati_stage *stage, struct leati_job **job);
void leati_stage_drop(struct leati_stage *stage);

/* Reserves and submits a staged copy. DECLINED: there is no memory for it, and nothing was given to the stream. */
leat_status leati_stage_start(struct leati_stager *stager, leat_stream *stream, const struct leati_endpoint *to,
                              const struct leati_endpoint *from, size_t bytes,
                              const struct leati_stage_request *request, struct leati_job **job);

#endif
