/*
 * protocol.h - declares the copy protocols and their table.
 *
 * A protocol is one method to move bytes. Its table entry says which transfers the protocol supports, estimates
 * their time, submits them, and describes them. To add a protocol, write a file proto_<name>.c, add an enumerator,
 * and add an entry to the table (plan.c).
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
    LEATI_PROTOCOL_DRIVER, /* the driver's copy calls; for pageable memory they may wait for the stream */
    LEATI_PROTOCOL_EAGER,  /* the caller's thread, pinned memory, and DMA, for short copies (eager.h) */
    LEATI_PROTOCOL_STAGED, /* worker threads, a ring of pinned memory, and DMA (staged.h) */
    LEATI_PROTOCOL_KERNEL, /* a kernel that can access both sides */
    LEATI_PROTOCOL_RAILS,  /* DMA over the host links of several devices (rails.h) */
    LEATI_PROTOCOL_HOST,   /* worker threads, from host memory to host memory */
    LEATI_PROTOCOLS
};

#define LEATI_BIT(value) (1u << (value))
#define LEATI_ALL_DIRECTIONS                                                                                      \
    (LEATI_BIT(LEATI_DIRECTION_IN) | LEATI_BIT(LEATI_DIRECTION_OUT) | LEATI_BIT(LEATI_DIRECTION_HOST) |           \
     LEATI_BIT(LEATI_DIRECTION_DEVICE))

struct leati_protocol {
    const char *name;

    /* Bit sets of the values of enum leati_shape and enum leati_direction that the protocol handles. is_for: text
     * that explains why the protocol does not handle other transfers. */
    unsigned shapes, directions;
    const char *is_for;

    /* Returns true if the protocol can make the transfer, whose shape and direction are in the sets above. Sets
     * *why_not if the protocol cannot make it, or should make it only if no other protocol can. */
    bool (*supports)(const struct leati_plan *plan, const char **why_not);

    /* Returns the expected time from the call until the copy is complete. Called only if supports() has returned
     * true and left *why_not NULL. */
    uint64_t (*cost_ns)(const struct leati_plan *plan);

    /* Submits the transfer to its stream. If worker threads copy, fills *job with their job, which the caller must
     * release; job may be NULL. Returns DECLINED if nothing was submitted and the planner must try another
     * protocol.
     */
    leat_status (*submit)(struct leati_plan *plan, struct leati_job **job);

    /* Adds a text that describes how this protocol makes the copy. */
    void (*explain)(const struct leati_plan *plan, struct leati_strbuf *text);
};

/* Submits a contiguous copy, a region or a range of a file with the staging layer. The protocols EAGER, STAGED and
 * HOST use it. eager: as in staging.h. */
leat_status leati_stage_transfer(struct leati_plan *plan, bool eager, struct leati_job **job);

/* Adds a text that describes how the rows of a region go through a ring. by: name of the thread or threads that
 * pack or unpack the rows. */
void leati_stage_explain_region(const struct leati_plan *plan, const char *by, struct leati_strbuf *text);

extern const struct leati_protocol leati_proto_driver, leati_proto_eager, leati_proto_staged, leati_proto_kernel,
    leati_proto_rails, leati_proto_host;

/* Indexed by enum leati_protocol_id. */
extern const struct leati_protocol *const leati_protocols[LEATI_PROTOCOLS];

/* Fills *forced with the protocol that LEAT_COPY_PROTOCOL names, or LEATI_PROTOCOLS for auto. INVALID, with a
 * message: the variable has an unknown value. */
leat_status leati_protocol_forced(enum leati_protocol_id *forced);

/* Overrides LEAT_COPY_PROTOCOL; for tests. */
void leati_protocol_force(enum leati_protocol_id forced);

#endif
