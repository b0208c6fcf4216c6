/*
 * protocol.h - the ways in which bytes can go, one table.
 *
 * Each protocol says which transfers it supports, how long one would take, how it is made, and how it is
 * described. A new protocol is a file proto_<name>.c, a name in the enumeration, and a line in the table (plan.c).
 * Nothing else decides how bytes go.
 */
#ifndef LEATI_COPY_PROTOCOL_H
#define LEATI_COPY_PROTOCOL_H

#include "base/strbuf.h"

#include <leat/status.h>

#include <stdbool.h>
#include <stdint.h>

struct leati_plan;
struct leati_job;

enum leati_protocol_id {
    LEATI_PROTOCOL_DRIVER, /* calls of the driver; for pageable memory they may wait for the stream */
    LEATI_PROTOCOL_EAGER,  /* short copies: the caller's thread, pinned memory, and DMA (eager.h) */
    LEATI_PROTOCOL_STAGED, /* leat's threads, a ring of pinned memory, and DMA (staged.h) */
    LEATI_PROTOCOL_KERNEL, /* a kernel that reaches both sides */
    LEATI_PROTOCOL_RAILS,  /* over the host links of several devices (rails.h) */
    LEATI_PROTOCOL_HOST,   /* leat's threads, from host memory to host memory */
    LEATI_PROTOCOLS
};

#define LEATI_BIT(value) (1u << (value))
#define LEATI_ALL_DIRECTIONS                                                                                      \
    (LEATI_BIT(LEATI_DIRECTION_IN) | LEATI_BIT(LEATI_DIRECTION_OUT) | LEATI_BIT(LEATI_DIRECTION_HOST) |           \
     LEATI_BIT(LEATI_DIRECTION_DEVICE))

struct leati_protocol {
    const char *name;

    /* Bits by enum leati_shape and enum leati_direction: what it is for, and what that is in words. */
    unsigned shapes, directions;
    const char *is_for;

    /* Returns true if the protocol can make the transfer, which it is for. *why_not: set if it cannot, or if it
     * should do so only where no other protocol can. */
    bool (*supports)(const struct leati_plan *plan, const char **why_not);

    /* Expected time, from the call until the bytes are there. Called only for what it supports. */
    uint64_t (*cost_ns)(const struct leati_plan *plan);

    /* Gives the transfer to its stream. *job: filled with the job of leat's threads, for the caller to release,
     * where there is one; job may be NULL. DECLINED: nothing was done, and another protocol must do. */
    leat_status (*submit)(struct leati_plan *plan, struct leati_job **job);

    /* How the bytes go, in words. */
    void (*explain)(const struct leati_plan *plan, struct leati_strbuf *text);
};

/* What EAGER, STAGED and HOST share: gives a contiguous copy or a region to leat's threads. eager: as in
 * staging.h. */
leat_status leati_stage_transfer(struct leati_plan *plan, bool eager, struct leati_job **job);

/* How the rows of a region go through a ring, in words. by: who packs or unpacks them. */
void leati_stage_explain_region(const struct leati_plan *plan, const char *by, struct leati_strbuf *text);

extern const struct leati_protocol leati_proto_driver, leati_proto_eager, leati_proto_staged, leati_proto_kernel,
    leati_proto_rails, leati_proto_host;

/* By enum leati_protocol_id. */
extern const struct leati_protocol *const leati_protocols[LEATI_PROTOCOLS];

/* Fills *forced with the protocol that LEAT_COPY_PROTOCOL names, or LEATI_PROTOCOLS for auto. INVALID, with a
 * message, for other words. */
leat_status leati_protocol_forced(enum leati_protocol_id *forced);

/* Replaces what LEAT_COPY_PROTOCOL says; for tests. */
void leati_protocol_force(enum leati_protocol_id forced);

#endif
