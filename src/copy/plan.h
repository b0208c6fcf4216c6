/*
 * plan.h - the planner: chooses the protocol for a transfer.
 *
 * Each call makes one plan. The planner compares the expected times (costs.h) of the protocols that support the
 * transfer, and tries the fastest first. If it declines, the next one is tried. If it fails, the call fails, and
 * the message starts with the protocol's name.
 */
#ifndef LEATI_COPY_PLAN_H
#define LEATI_COPY_PLAN_H

#include "copy/protocol.h"
#include "copy/staged.h"
#include "copy/transfer.h"

/* Special expected times. */
#define LEATI_COST_LAST (UINT64_MAX - 1) /* used only if no other protocol can make the copy */
#define LEATI_COST_NONE UINT64_MAX       /* not supported, or it declined */

struct leati_candidate {
    uint64_t cost_ns;
    const char *why_not; /* set if cost_ns is LAST or NONE */
};

/* Whether leat's fault handler is installed. Set by leati_plan_is_guarded(). */
enum leati_plan_guard {
    LEATI_PLAN_GUARD_UNKNOWN, /* not asked yet */
    LEATI_PLAN_GUARD_MISSING,
    LEATI_PLAN_GUARD_INSTALLED
};

struct leati_plan {
    struct leati_transfer transfer;
    enum leati_protocol_id protocol; /* the choice; after submission, the protocol that was really used */

    /* Inputs of the choice. If no side is pageable, only forced, rails and, for layouts, one_pass are set. */
    enum leati_protocol_id forced; /* LEATI_PROTOCOLS: none */
    struct leati_stager *stager;   /* NULL: there is none, or it is not needed */
    const char *unstaged;          /* why there is no stager */
    bool first;                    /* no stager yet: a thread makes it in the background (staged.h) */
    bool one_pass;                 /* the device reaches pageable memory, in the driver's calls and in kernels */
    bool early;                    /* the source may be read before the stream reaches the copy */
    bool idle;                     /* the stream is known to be idle */
    enum leati_plan_guard guard;   /* of contiguous copies */
    unsigned rails;                /* number of helping devices; 0 if the copy is too short for rails */

    /* Filled by leati_plan_compare(). */
    struct leati_candidate candidates[LEATI_PROTOCOLS];
};

/* Resolves and plans a contiguous copy; bytes > 0. followed: the copy gets a ticket. quick: allows to skip the
 * driver's pointer query for an address that leat does not know, if the result would not change the copy. */
leat_status leati_plan_copy(struct leati_plan *plan, leat_stream *stream, void *dst, const void *src, size_t bytes,
                            bool followed, bool quick);

/* The same between memory and a range of a file; bytes > 0. */
leat_status leati_plan_file(struct leati_plan *plan, leat_stream *stream, void *memory,
                            const struct leati_storage *file, size_t bytes, bool followed);

/*
 * The same for many ranges of files and many places in memory; storage is scattered, and the caller has checked
 * all places. kind: DEVICE for memory that only the device reaches, PINNED for memory of the host. The scatter
 * must stay valid until leati_plan_submit() has returned.
 */
leat_status leati_plan_file_scattered(struct leati_plan *plan, leat_stream *stream, leat_kind kind,
                                      const struct leati_scatter *scatter, const struct leati_storage *file,
                                      size_t bytes, bool followed);

/* Chooses the protocol for a resolved transfer, and fills candidates. Calls the two functions below. */
leat_status leati_plan_choose(struct leati_plan *plan);

/* look: collects the inputs of the choice (stager, stream state, rails). compare: fills candidates and chooses. */
leat_status leati_plan_look(struct leati_plan *plan);
leat_status leati_plan_compare(struct leati_plan *plan);

/* Returns true if leat's fault handler is installed, for a contiguous copy. Asks the system once a plan, since
 * each time costs a system call. */
bool leati_plan_is_guarded(struct leati_plan *plan);

/* Submits the transfer to its stream. *job: as in protocol.h; NULL if the copy has no job. */
leat_status leati_plan_submit(struct leati_plan *plan, struct leati_job **job);

/* Waits as leat_copy_sync() promises: until a pageable source has been read, or a pageable destination is
 * complete; not at all otherwise. The caller helps to copy. job: as filled by leati_plan_submit(). */
leat_status leati_plan_wait(const struct leati_plan *plan, struct leati_job *job);

/* ---- in words (explain.c) ---- */

/* Writes the lines of a plan: protocol, why, others, bound. why: text in front of the usual reason, or NULL. */
void leati_explain_plan(struct leati_strbuf *text, const struct leati_plan *plan, const char *why);

/* "64 MiB from pageable memory to cuda:0". */
void leati_explain_transfer(struct leati_strbuf *text, const struct leati_transfer *transfer);

/* Writes how many worker threads copy, and with which store policy. */
void leati_explain_threads(const struct leati_plan *plan, struct leati_strbuf *text);

/* Checks the arguments that all _explain calls share. */
leat_status leati_explain_check(const char *what, leat_stream *stream, const char *text, size_t text_bytes);

#endif
