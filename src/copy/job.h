/*
 * job.h - one staged copy: what its stream, the team's threads and its ticket know of it.
 *
 * A job has two words in pinned memory, which its stream and the threads use to wait for each other:
 *
 *   ready   written by the threads: so many chunks have been copied to (in) or from (out) the ring. The stream
 * waits for it before a chunk's DMA reads the chunk, or writes over an older one. passed  written by the stream: 1
 * when it got to the copy, c + 2 when chunk c's DMA is done. The threads look at it before they read a chunk, or
 * write over an older one.
 *
 * The stream was given all of that when the copy was called, so nobody but the stream and the threads, which
 * always go on, is ever waited for.
 */
#ifndef LEATI_JOB_H
#define LEATI_JOB_H

#include "copy/bytes.h"
#include "copy/chunks.h"
#include "copy/rows.h"
#include "core/core.h"

/* Through which hands the bytes go. */
enum leati_way {
    LEATI_WAY_IN,  /* pageable memory, threads, ring, DMA, device */
    LEATI_WAY_OUT, /* device, DMA, ring, threads, pageable memory */
    LEATI_WAY_HOST /* host memory, threads, host memory: no ring and no DMA */
};

struct leati_words {
    _Alignas(64) _Atomic uint32_t ready;
    _Alignas(64) _Atomic uint32_t passed;
};

struct leati_job {
    struct leati_job *next, **place; /* in its team's list; under the team's lock, as are workers and listed */
    unsigned workers, share;         /* how many there are, and may be */
    atomic_uint holders;             /* the engine until the job is over, and the ticket */
    enum leati_way way;
    bool early; /* may be staged before the stream gets there */
    bool listed;
    enum leati_stores stores;
    char *dst;          /* HOST and OUT: pageable */
    const char *src;    /* HOST and IN */
    size_t bytes;       /* of the copy, without gaps */
    size_t reach_bytes; /* of dst, from the first byte to the last; OUT and HOST only */
    bool in_rows;       /* the pageable sides are these: */
    struct leati_rows to_rows, from_rows;
    /* In the place of one copy: a list of copies, of which chunks, parts and stopped_at count the entries. Returns
     * how many were made before the first that could not be. */
    size_t (*copy_list)(const void *list, size_t first, size_t count, uintptr_t *fault);
    const void *list;
    struct leati_words *words;
    char *ring;
    struct leati_chunk *chunks;
    uint32_t count;
    uint32_t end;                 /* passed, when the stream has got past the copy */
    _Atomic uint64_t at;          /* the next part: chunk in the high half, part in the low one */
    bool cold;                    /* pages of the source are not in memory */
    _Atomic size_t prefaulted;    /* of the reach, so far; reach_bytes when there is nothing to do */
    uint64_t deadline_ns;         /* 0: none */
    atomic_int stopped;           /* LEAT_OK, or why no more is copied */
    _Atomic uintptr_t stopped_at; /* nothing in front of this was left out */
    _Atomic uintptr_t fault;      /* the first address that could not be reached; UINTPTR_MAX: none */
    atomic_bool told;             /* a thread has it, to tell the stream */
    struct leati_order *order;    /* of its stream, for the failure */

    /* Under the lock of stage.c. */
    struct leati_stager *stager;   /* NULL when over */
    struct leati_job *next_issued; /* of the stager */
    size_t held_bytes;             /* of pinned memory */
    size_t arrived_bytes;          /* set when over */
    bool over;                     /* words and ring are gone */
};

/* Stops a job: parts that nobody has taken yet are not copied. The first reason stays. */
void leati_job_stop(struct leati_job *job, leat_status why);

/* Why a job stopped, in words: "" when it did not. */
void leati_job_sentence(const struct leati_job *job, char *text, size_t bytes);

/* Has the team copied, or left out, everything? */
static inline bool leati_job_staged(const struct leati_job *job)
{
    /* Acquire: what was copied is there, and a failure was written before. */
    return atomic_load_explicit(&job->words->ready, memory_order_acquire) == job->count;
}

#endif
