/*
 * transfer.h - describes a copy, in the same way for all calls that move bytes.
 *
 * leat resolves a transfer once: it looks up both endpoints and makes all checks that the API promises. Then the
 * planner (plan.h) chooses a protocol for the transfer.
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
    LEATI_SHAPE_FILE,   /* bytes of a file and contiguous memory; or several ranges and places (file_batch.c) */
    LEATI_SHAPE_BATCH   /* the ranges of a batch that have the same direction (batch.c) */
};

/* The places in memory of a copy between files and several places. */
struct leati_scatter {
    const void *list;
    size_t count; /* number of places */

    /* Returns the location of the byte at offset of the copy. Reduces *bytes to the number of bytes that are
     * contiguous from this location on. */
    struct leati_location (*locate)(const void *list, size_t offset, size_t *bytes);
};

struct leati_transfer {
    leat_stream *stream;
    struct leati_endpoint to, from; /* their addresses are the lowest that the copy accesses on each side */
    size_t to_reach, from_reach;    /* bytes from the lowest to the highest address of each side, gaps included */
    size_t bytes;                   /* payload, without gaps */
    enum leati_shape shape;
    enum leati_direction direction;
    bool followed;        /* the caller has a ticket */
    bool unasked;         /* leat assumes that unknown addresses are pageable, and has asked no driver */
    uint64_t deadline_ns; /* time of leati_clock_ns() after which the copy stops; 0: none */
    /* FILE: the places of the memory side, whose endpoint then has no address; NULL: contiguous memory. */
    const struct leati_scatter *scatter;
    union {
        leat_copy_region region;          /* REGION, simplified (region.h) */
        struct leati_layout_copy *layout; /* LAYOUT */
        struct leati_storage file;        /* FILE; the file's endpoint has no address and counts as pageable */
        size_t count;                     /* BATCH: number of ranges that one submission may combine */
    };
};

/* Returns true if the endpoint is pageable: neither leat nor a driver knows the memory. */
static inline bool leati_is_pageable(const struct leati_endpoint *endpoint)
{
    return endpoint->location.kind == LEAT_KIND_PAGEABLE;
}

/* Returns true if the endpoint is host memory, which leat's threads can access with any device. */
static inline bool leati_is_on_host(const struct leati_endpoint *endpoint)
{
    return leati_is_pageable(endpoint) || endpoint->location.kind == LEAT_KIND_PINNED;
}

/*
 * Resolves the endpoints, and sets unasked and direction. The caller must have set stream, to_reach and
 * from_reach. Checks that both sides lie in live memory that the stream can reach. Does not check overlap, and
 * does not touch pageable memory. ask: leat asks the drivers about addresses that it does not know.
 */
leat_status leati_transfer_resolve(struct leati_transfer *transfer, void *dst, const void *src, bool ask);

/* Resolves the memory side of a copy between memory and transfer->file. Also checks that pageable memory is
 * mapped. */
leat_status leati_transfer_resolve_file(struct leati_transfer *transfer, void *memory);

/* For a transfer that was resolved without ask: asks the drivers, and updates endpoints and direction. */
leat_status leati_transfer_ask(struct leati_transfer *transfer);

/* Returns OVERLAP, with a message, if the two ranges overlap. */
leat_status leati_check_runs(const void *dst, const void *src, size_t bytes);

/* Returns POINTER, with a message, if the first or the last byte of a pageable side is not mapped. */
leat_status leati_transfer_check_mapped(const struct leati_transfer *transfer);

/* For a contiguous transfer: returns true if this thread can read all pages of a pageable source, and write all
 * pages of a pageable destination. */
bool leati_transfer_is_usable(const struct leati_transfer *transfer);

/* leati_transfer_may_start() must be called before a transfer is submitted. It enables peer access if the copy
 * needs it, and lets guard mode check both sides. leati_transfer_was_submitted() must be called afterwards, and
 * tells guard mode about the use. complete: the copy is already complete. */
struct leati_transfer_use {
    struct leati_access written, read;
};
leat_status leati_transfer_may_start(const struct leati_transfer *transfer, struct leati_transfer_use *use);
void leati_transfer_was_submitted(const struct leati_transfer *transfer, struct leati_transfer_use *use,
                                  bool complete);

/* These return the location or the endpoint that is offset bytes further. */
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
