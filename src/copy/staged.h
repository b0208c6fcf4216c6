/*
 * staged.h - staged copies of streams. Supplies the hooks through which the layer staging/ reaches devices, pools
 * and streams.
 */
#ifndef LEATI_COPY_STAGED_H
#define LEATI_COPY_STAGED_H

#include "copy/region.h"
#include "copy/transfer.h"
#include "core/core.h"
#include "staging/staging.h"

#include <leat/pool.h>

struct leati_rail;
struct leati_eager_ring;

/* Gets the device's stager; the first call makes it. If its field refused is set, it cannot be used, and copies
 * need another protocol. INVALID: an environment variable has a wrong value. After any other failure a later call
 * may succeed. */
leat_status leati_stager_get(leat_device *device, struct leati_stager **stager);

/*
 * The same without waiting: DECLINED while there is no stager. Making one takes some ten milliseconds, mostly for
 * pinned memory and the probe. So the first copies of a process use another protocol if one is possible, and call
 * leati_stager_prepare() when they are submitted; the second such call starts a thread that makes the stager in
 * the background. The CPU device's stager is made at once.
 */
leat_status leati_stager_find(leat_device *device, struct leati_stager **stager);
void leati_stager_prepare(leat_device *device);

/* The pool that rings of this store policy are allocated from. */
leat_pool *leati_stager_pool(struct leati_stager *stager, enum leati_store_policy policy);

/* The rings that eager copies of the device share. */
struct leati_eager_ring *leati_stager_rings(struct leati_stager *stager);

/* Sets the hooks that the core calls when the device closes, when one of its streams ends, and when a thread
 * begins to wait. */
void leati_copy_set_hooks(leat_device *device);

/* A copy whose rows have gaps on one side or on both. */
struct leati_staged_region {
    leat_copy_region region;         /* simplified */
    enum leati_protocol_id protocol; /* between the ring and the device: DRIVER or KERNEL */
};

struct leati_stage_request {
    enum leati_direction direction;
    bool early;
    uint64_t deadline_ns;    /* on the clock; 0: none */
    struct leati_rail *rail; /* NULL: over the link of the stream's own device */
    bool eager;              /* this and the next two: as in staging/staging.h */
    struct leati_flags *block;
    bool no_wait;
    const struct leati_staged_region *region; /* NULL: bytes without gaps */
    const struct leati_list *list;            /* HOST: the workers make this list of copies instead of one copy */
    struct leati_storage storage;             /* as in staging/staging.h */
    const struct leati_scatter *scatter;      /* with storage; as in transfer.h */
};

/* One staged copy, from reservation to submission. The struct must keep its address in between. */
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

/* Reserves the memory of a staged copy. If the request has a list, bytes is the number of its copies. *request
 * must stay valid until submit or drop. DECLINED: not enough memory. May wait until other copies release memory,
 * unless request->no_wait is set. */
leat_status leati_stage_reserve(struct leati_stage *stage, struct leati_stager *stager, leat_stream *stream,
                                const struct leati_endpoint *to, const struct leati_endpoint *from, size_t bytes,
                                const struct leati_stage_request *request);

/* submit: submits a reserved copy to its stream; if job is not NULL, fills *job, and the caller must release it.
 * drop: releases the memory of a reserved copy instead. */
leat_status leati_stage_submit(struct leati_stage *stage, struct leati_job **job);
void leati_stage_drop(struct leati_stage *stage);

/* Reserves and submits a staged copy. DECLINED: not enough memory; nothing was submitted. */
leat_status leati_stage_start(struct leati_stager *stager, leat_stream *stream, const struct leati_endpoint *to,
                              const struct leati_endpoint *from, size_t bytes,
                              const struct leati_stage_request *request, struct leati_job **job);

#endif
