/*
 * plan.h - the planner: which protocol makes a transfer.
 *
 * A plan is made once for each call. The protocols that support the transfer are compared by the time that they
 * are expected to take (costs.h), and the fastest is tried first. One that declines is followed by the next; its
 * failures are the call's failures, with the protocol's name in front.
 */
#ifndef LEATI_COPY_PLAN_H
#define LEATI_COPY_PLAN_H

#include "copy/protocol.h"
#include "copy/staged.h"
#include "copy/transfer.h"

/* Expected times of protocols that are not simply the fastest or the slowest. */
#define LEATI_COST_LAST (UINT64_MAX - 1) /* only where no other protocol can */
#define LEATI_COST_NONE UINT64_MAX       /* not supported, or it declined */

struct leati_candidate {
    uint64_t cost_ns;
    const char *why_not; /* with LAST and NONE */
};

struct leati_plan {
    struct leati_transfer transfer;
    enum leati_protocol_id protocol; /* the choice; after the submission, the one that made the copy */

    /* What was found out to choose; all but forced only where a side is pageable. */
    enum leati_protocol_id forced; /* LEATI_PROTOCOLS: none */
    struct leati_stager *stager;   /* NULL: there is none, or it is not needed */
    const char *unstaged;          /* why there is no stager */
    bool first;                    /* the stager is made behind this copy (staged.h) */
    bool one_pass;                 /* the device reaches pageable memory, in the driver's calls and in kernels */
    bool early;                    /* the source may be read at once */
    bool idle;                     /* the stream is known to be idle */
    unsigned rails;                /* helping devices; once they were asked for */

    /* Filled when protocols were compared. */
    struct leati_candidate candidates[LEATI_PROTOCOLS];
};

/* Resolves and plans a contiguous copy; bytes > 0. quick: drivers need not be asked about unknown addresses where
 * it does not matter what they are. */
leat_status leati_plan_copy(struct leati_plan *plan, leat_stream *stream, void *dst, const void *src, size_t bytes,
                            bool followed, bool quick);

/* The same between memory and a range of a file; bytes > 0. */
leat_status leati_plan_file(struct leati_plan *plan, leat_stream *stream, void *memory,
                            const struct leati_storage *file, size_t bytes, bool followed);

/* Chooses for a transfer that was resolved. Candidates are filled. */
leat_status leati_plan_choose(struct leati_plan *plan);

/* The parts of it: finds out what depends on pageable memory, and compares. */
leat_status leati_plan_look(struct leati_plan *plan);
leat_status leati_plan_compare(struct leati_plan *plan);

/* Gives the transfer to its stream. *job: as in protocol.h; NULL where there is none. */
leat_status leati_plan_submit(struct leati_plan *plan, struct leati_job **job);

/* Waits until a copy that was submitted is what leat_copy_sync() promises; the caller works on it. job: of the
 * submission. */
leat_status leati_plan_wait(const struct leati_plan *plan, struct leati_job *job);

/* ---- in words (explain.c) ---- */

/* The lines of a plan: protocol, why, others, bound. why: in front of the usual reason, or NULL. */
void leati_explain_plan(struct leati_strbuf *text, const struct leati_plan *plan, const char *why);

/* "64 MiB from pageable memory to cuda:0". */
void leati_explain_transfer(struct leati_strbuf *text, const struct leati_transfer *transfer);

/* How many of leat's threads work on it, and how they write. */
void leati_explain_threads(const struct leati_plan *plan, struct leati_strbuf *text);

/* Checks the arguments that all calls with a text share. */
leat_status leati_explain_check(const char *what, leat_stream *stream, const char *text, size_t text_bytes);

#endif
