/*
 * staged.h - submits staged copies to streams, and supplies the hooks through which the layer src/staging/ reaches
 * devices, pools and streams.
 */
#ifndef LEATI_COPY_STAGED_H
#define LEATI_COPY_STAGED_H

#include "copy/region.h"
#include "copy/spread.h"
#include "copy/transfer.h"
#include "core/core.h"
#include "staging/staging.h"

#include <leat/pool.h>

struct leati_rail;
struct leati_eager_ring;

/* Gets the device's stager; the first call creates it. If the stager's field refused is not "", staging is not
 * possible and copies need another protocol. INVALID: an environment variable has a wrong value. After any other
 * failure a later call may succeed. */
leat_status leati_stager_get(leat_device *device, struct leati_stager **stager);

/*
 * Gets the device's stager without waiting. DECLINED: the stager does not exist yet. Creating a stager takes some
 * ten milliseconds, mostly for pinned memory and the measurement of store policies. So the first copies of a
 * process use another protocol if possible, and then call leati_stager_prepare(). The second call of
 * leati_stager_prepare() starts a thread that creates the stager in the background. If the device has no DMA
 * engines, leati_stager_find() creates the stager itself.
 */
leat_status leati_stager_find(leat_device *device, struct leati_stager **stager);
void leati_stager_prepare(leat_device *device);

/* Returns the pool of the rings for a store policy. */
leat_pool *leati_stager_pool(struct leati_stager *stager, enum leati_store_policy policy);

/* Returns the rings that all eager copies of the device share. */
struct leati_eager_ring *leati_stager_rings(struct leati_stager *stager);

/* Sets the hooks that the core calls when the device closes, when one of its streams ends, and when a thread
 * begins to wait. */
void leati_copy_set_hooks(leat_device *device);

/* A region, whose rows have gaps on one side or on both. */
struct leati_staged_region {
    leat_copy_region region;         /* simplified (region.h) */
    enum leati_protocol_id protocol; /* DRIVER or KERNEL: how rows go between the ring and the device */
};

struct leati_stage_request {
    enum leati_direction direction;
    bool early;
    uint64_t deadline_ns;    /* time of leati_clock_ns() after which the copy stops; 0: none */
    struct leati_rail *rail; /* the rail to use; NULL: the link of the stream's own device */
    bool eager;              /* eager, block and no_wait: as in staging/staging.h */
    struct leati_flags *block;
    bool no_wait;
    const struct leati_staged_region *region; /* NULL: bytes without gaps */
    const struct leati_list *list;            /* HOST: the workers make this list of copies instead of one copy */
    struct leati_storage storage;             /* as in staging/staging.h */
    const struct leati_scatter *scatter;      /* only with storage; as in transfer.h */
};

/* One staged copy, from its reservation to its submission. The struct must not move between the two calls. */
struct leati_stage {
    struct leati_stager *stager;
    leat_stream *stream;
    const struct leati_stage_request *request;
    struct leati_location placed; /* location of the device's side */
    struct leati_caught_up caught_up;
    struct leati_rows to_rows, from_rows;
    struct leati_staging_request staging;
    struct leati_job *job;
    struct leati_spread spread; /* only with a scatter */
};

/* Reserves the memory of a staged copy. If the request has a list, bytes is the number of copies in the list.
 * *request must stay valid until leati_stage_submit() or leati_stage_drop(). DECLINED: not enough memory. The call
 * may wait until other copies release memory, unless request->no_wait is set. */
leat_status leati_stage_reserve(struct leati_stage *stage, struct leati_stager *stager, leat_stream *stream,
                                const struct leati_endpoint *to, const struct leati_endpoint *from, size_t bytes,
                                const struct leati_stage_request *request);

/* leati_stage_submit() submits a reserved copy to its stream. If job is not NULL, it fills *job, which the caller
 * must release. leati_stage_drop() frees the memory of a reserved copy that is not submitted. */
leat_status leati_stage_submit(struct leati_stage *stage, struct leati_job **job);
void leati_stage_drop(struct leati_stage *stage);

/* Reserves and submits a staged copy. DECLINED: not enough memory; nothing was submitted. */
leat_status leati_stage_start(struct leati_stager *stager, leat_stream *stream, const struct leati_endpoint *to,
                              const struct leati_endpoint *from, size_t bytes,
                              const struct leati_stage_request *request, struct leati_job **job);

#endif
