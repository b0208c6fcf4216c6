/*
 * plan.h - declares the planner, which chooses the protocol for a transfer and submits the transfer.
 *
 * Each call makes one plan. The planner compares the expected times (costs.h) of the protocols that support the
 * transfer, and tries the fastest. If this protocol declines, the planner tries the next fastest one. If the
 * protocol fails, the call fails, and the message starts with the protocol's name.
 */
#ifndef LEATI_COPY_PLAN_H
#define LEATI_COPY_PLAN_H

#include "copy/protocol.h"
#include "copy/staged.h"
#include "copy/transfer.h"

/* Special values of leati_candidate.cost_ns. */
#define LEATI_COST_LAST (UINT64_MAX - 1) /* the planner uses this protocol only if no other can make the copy */
#define LEATI_COST_NONE UINT64_MAX       /* the protocol does not support the transfer, or it has declined */

struct leati_candidate {
    uint64_t cost_ns;
    const char *why_not; /* set if cost_ns is LAST or NONE */
};

/* Tells whether leat's fault handler is installed. leati_plan_is_guarded() sets it. */
enum leati_plan_guard {
    LEATI_PLAN_GUARD_UNKNOWN, /* leati_plan_is_guarded() was not called yet */
    LEATI_PLAN_GUARD_MISSING,
    LEATI_PLAN_GUARD_INSTALLED
};

struct leati_plan {
    struct leati_transfer transfer;
    enum leati_protocol_id protocol; /* the chosen protocol; after submission, the one that made the copy */

    /* Inputs of the choice. If no side is pageable, only forced, rails and, for layouts, one_pass are set. */
    enum leati_protocol_id forced; /* protocol of LEAT_COPY_PROTOCOL; LEATI_PROTOCOLS: none */
    struct leati_stager *stager;   /* NULL: staging is not possible, or the copy does not need it */
    const char *unstaged;          /* text that says why stager is NULL */
    bool first;                    /* a thread in the background is still creating the stager (staged.h) */
    bool one_pass;                 /* driver calls and kernels access pageable memory directly */
    bool early;                    /* the source may be read before the stream reaches the copy */
    bool idle;                     /* the stream is known to be idle */
    bool at_once;                  /* threads may move the bytes of a file or storage before the stream reaches the copy,
                                      because nothing is pending on it; for the protocol host */
    enum leati_plan_guard guard;   /* only for contiguous copies */
    unsigned rails;                /* number of helper devices; 0 if the copy is too short for rails */

    /* Filled by leati_plan_compare(). */
    struct leati_candidate candidates[LEATI_PROTOCOLS];
};

/* Resolves and plans a contiguous copy; bytes > 0. followed: the copy gets a ticket. quick: leat need not ask the
 * drivers about an address that it does not know, if their answer would not change the copy. */
leat_status leati_plan_copy(struct leati_plan *plan, leat_stream *stream, void *dst, const void *src, size_t bytes,
                            bool followed, bool quick);

/* Resolves and plans a copy between memory and a range of a file; bytes > 0. */
leat_status leati_plan_file(struct leati_plan *plan, leat_stream *stream, void *memory,
                            const struct leati_storage *file, size_t bytes, bool followed);

/*
 * Plans a copy between many ranges of files and many places in memory. file->scattered must be set, and the caller
 * must have checked all places. kind: DEVICE for memory that only the device reaches, PINNED for memory of the
 * host. The scatter must stay valid until leati_plan_submit() has returned.
 */
leat_status leati_plan_file_scattered(struct leati_plan *plan, leat_stream *stream, leat_kind kind,
                                      const struct leati_scatter *scatter, const struct leati_storage *file,
                                      size_t bytes, bool followed);

/* Chooses the protocol for a resolved transfer: leati_plan_look(), then leati_plan_compare(). */
leat_status leati_plan_choose(struct leati_plan *plan);

/* leati_plan_look() collects the inputs of the choice (stager, stream state, rails). leati_plan_compare() fills
 * the candidates and chooses the protocol. */
leat_status leati_plan_look(struct leati_plan *plan);
leat_status leati_plan_compare(struct leati_plan *plan);

/* Returns true if leat's fault handler is installed. Only for contiguous copies. Asks the system once for each
 * plan, because a query is a system call. */
bool leati_plan_is_guarded(struct leati_plan *plan);

/* Submits the transfer to its stream. *job: as in protocol.h; NULL if the copy has no job. */
leat_status leati_plan_submit(struct leati_plan *plan, struct leati_job **job);

/* Describes a transfer that another function than leati_plan_submit() has submitted to the trace. */
void leati_plan_trace(const struct leati_plan *plan);

/* Waits as leat_copy_sync() promises: until a pageable source has been read, or until a pageable destination is
 * complete. Does not wait if no side is pageable. The caller helps to copy. job: as filled by leati_plan_submit().
 */
leat_status leati_plan_wait(const struct leati_plan *plan, struct leati_job *job);

/* ---- plans as text (explain.c) ---- */

/* Adds the lines of a plan: protocol, why, others, bound. why: the reason to print; NULL: the planner's reason. */
void leati_explain_plan(struct leati_strbuf *text, const struct leati_plan *plan, const char *why);

/* Adds a line such as "64 MiB from pageable memory to cuda:0". */
void leati_explain_transfer(struct leati_strbuf *text, const struct leati_transfer *transfer);

/* Adds the number of threads that copy, and their store policy. */
void leati_explain_threads(const struct leati_plan *plan, struct leati_strbuf *text);

/* Checks the arguments that all calls named *_explain have. */
leat_status leati_explain_check(const char *what, leat_stream *stream, const char *text, size_t text_bytes);

#endif
