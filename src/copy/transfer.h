/*
 * transfer.h - what is to be copied: one description for every call that moves bytes.
 *
 * A transfer is resolved once: both endpoints are looked up, and what the API promises to check of them is
 * checked. The planner (plan.h) then chooses a protocol for it.
 */
#ifndef LEATI_COPY_TRANSFER_H
#define LEATI_COPY_TRANSFER_H

#include "core/access.h"
#include "staging/job.h"

#include <leat/copy.h>

struct leati_layout_copy;

enum leati_shape {
    LEATI_SHAPE_RUN,    /* contiguous bytes on both sides */
    LEATI_SHAPE_REGION, /* pitched rows, up to three dimensions (region.h) */
    LEATI_SHAPE_LAYOUT, /* two layouts (layout.h) */
    LEATI_SHAPE_FILE,   /* contiguous bytes of a file, and contiguous memory */
    LEATI_SHAPE_BATCH   /* the ranges of a batch that have this direction (batch.c) */
};

struct leati_transfer {
    leat_stream *stream;
    struct leati_endpoint to, from; /* from the lowest byte that is touched */
    size_t to_reach, from_reach;    /* bytes from there to behind the highest one */
    size_t bytes;                   /* payload, without gaps */
    enum leati_shape shape;
    enum leati_direction direction;
    bool followed;        /* somebody has a ticket */
    bool unasked;         /* drivers were not asked what unknown addresses are, which count as pageable */
    uint64_t deadline_ns; /* on the clock; 0: none */
    union {
        leat_copy_region region;          /* REGION, in its simplest form */
        struct leati_layout_copy *layout; /* LAYOUT */
        struct leati_storage file;        /* FILE; the target of its side is empty, and counts as pageable */
        size_t count;                     /* BATCH: of all ranges that may go together */
    };
};

/* Memory that neither leat nor a driver knows. */
static inline bool leati_is_pageable(const struct leati_endpoint *endpoint)
{
    return endpoint->location.kind == LEAT_KIND_PAGEABLE;
}

/* Memory that leat's threads reach on every device. */
static inline bool leati_is_on_host(const struct leati_endpoint *endpoint)
{
    return leati_is_pageable(endpoint) || endpoint->location.kind == LEAT_KIND_PINNED;
}

/*
 * Resolves the endpoints; stream and reaches are set. Checks that both lie in live memory which the stream can
 * reach, and sets direction. Overlap is the caller's to check, and pageable memory is not touched. ask: drivers
 * are asked for addresses that leat does not know.
 */
leat_status leati_transfer_resolve(struct leati_transfer *transfer, void *dst, const void *src, bool ask);

/* The same for a copy between memory and transfer->file. */
leat_status leati_transfer_resolve_file(struct leati_transfer *transfer, void *memory);

/* Asks the drivers after all. */
leat_status leati_transfer_ask(struct leati_transfer *transfer);

/* OVERLAP, with a message, if two contiguous ranges do. */
leat_status leati_check_runs(const void *dst, const void *src, size_t bytes);

/* POINTER, with a message, unless the first and the last byte of each pageable side are mapped. */
leat_status leati_transfer_check_mapped(const struct leati_transfer *transfer);

/* Returns true if this thread can read and write all pageable pages of a contiguous transfer. */
bool leati_transfer_is_usable(const struct leati_transfer *transfer);

/* Around giving the transfer to its stream: enables peers and asks guard mode; tells guard mode. complete: the
 * stream is past the copy already. */
struct leati_transfer_use {
    struct leati_access written, read;
};
leat_status leati_transfer_may_start(const struct leati_transfer *transfer, struct leati_transfer_use *use);
void leati_transfer_was_submitted(const struct leati_transfer *transfer, struct leati_transfer_use *use,
                                  bool complete);

/* The target, or the end, so many bytes further on. */
static inline struct leati_location leati_location_at(struct leati_location location, size_t offset)
{
    location.ptr = (char *)location.ptr + offset;
    return location;
}

static inline struct leati_endpoint leati_endpoint_at(struct leati_endpoint endpoint, size_t offset)
{
    endpoint.location.ptr = (char *)endpoint.location.ptr + offset;
    return endpoint;
}

#endif
