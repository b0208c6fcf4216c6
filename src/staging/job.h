/*
 * job.h - one staged copy: what its stream, the worker threads and its ticket know of it.
 *
 * A job has two flags in pinned memory, by which its stream and the workers wait for each other:
 *
 *   staged_chunks     written by the workers: so many chunks have been copied to the ring (in) or from it (out).
 *                     The stream waits for it before a chunk's DMA reads the chunk, or overwrites an older one.
 *   completed_chunks  written by the stream: 1 when it gets to the copy, c + 2 when the DMA of chunk c is
 * complete, so it is one more than the number of complete chunks. The workers look at it before they read a chunk,
 * or overwrite an older one.
 *
 * The stream was given all of that when the copy was called. So it waits for nobody but the workers, which always
 * go on, and the workers wait for nobody but the stream.
 */
#ifndef LEATI_JOB_H
#define LEATI_JOB_H

#include "base/workers.h"
#include "staging/bytes.h"
#include "staging/chunks.h"
#include "staging/rows.h"

#include <leat/status.h>

#include <stdatomic.h>

/* How the bytes go. */
enum leati_direction {
    LEATI_DIRECTION_IN,    /* pageable memory, workers, ring, DMA, device */
    LEATI_DIRECTION_OUT,   /* device, DMA, ring, workers, pageable memory */
    LEATI_DIRECTION_HOST,  /* host memory, workers, host memory: no ring and no DMA */
    LEATI_DIRECTION_DEVICE /* no side is pageable: nothing for this layer */
};

struct leati_flags {
    _Alignas(64) _Atomic uint32_t staged_chunks;
    _Alignas(64) _Atomic uint32_t completed_chunks;
};

/* Storage, such as a file, in the place of one side's host memory. Calls come from several threads at once. */
struct leati_storage_ops {
    /* Reads from the storage into memory, or writes memory to it. Returns how many bytes it moved, from the start;
     * fewer than bytes only if it failed, and then *error is a value of errno, or 0 if the storage has ended. */
    size_t (*move)(void *object, uint64_t offset, void *memory, size_t bytes, bool write, int *error);

    /* Writes what failed at offset, and why, in words. */
    void (*describe)(const void *object, uint64_t offset, bool write, int error, char *text, size_t text_bytes);

    /* The object stays as long as somebody holds it. release may be called under a lock. */
    void (*hold)(void *object);
    void (*release)(void *object);
};

struct leati_storage {
    const struct leati_storage_ops *ops; /* NULL: both sides are memory */
    void *object;
    uint64_t offset; /* where the copy begins in it */
    bool write;      /* it is the destination */
};

struct leati_job {
    struct leati_task task; /* in the pool of workers */
    atomic_uint holders;    /* the stager until the job is over, and the ticket */
    enum leati_direction direction;
    bool early; /* may be staged before the stream gets there */
    bool eager; /* the caller works on it, waits until all of it is staged, and returns its failure */
    enum leati_store_policy policy;
    char *dst;       /* HOST and OUT: pageable */
    const char *src; /* HOST and IN */
    size_t bytes;    /* of the copy, without gaps */
    size_t
        reach_bytes; /* of dst, from the first byte to the last, where pages are to be made; OUT and HOST only */
    bool in_rows;    /* the pageable sides are these: */
    struct leati_rows to_rows, from_rows;
    struct leati_storage storage; /* in the place of dst if it is written, of src if not */
    /* Instead of one copy: a list of copies, of which chunks, parts and stopped_at count the entries. Returns how
     * many were made before the first that failed. */
    size_t (*copy_list)(const void *list, size_t first, size_t count, uintptr_t *fault);
    const void *list;
    struct leati_flags *flags;
    char *ring;
    struct leati_chunk *chunks;
    uint32_t count;
    uint32_t end;              /* completed_chunks, when the stream has got past the copy */
    _Atomic uint64_t at;       /* the next part: chunk in the high half, part in the low one */
    bool cold;                 /* pages of the source are not in memory */
    _Atomic size_t prefaulted; /* of the reach, so far; reach_bytes when there is nothing to do */
    uint64_t deadline_ns;      /* 0: none */
    atomic_int stopped;        /* LEAT_OK, or why no more is copied */
    _Atomic size_t stopped_at; /* nothing in front of this was left out */
    atomic_int error;          /* of the storage, as its move() says */
    _Atomic uintptr_t fault;   /* the lowest address that could not be reached; UINTPTR_MAX: none */
    atomic_bool reported;      /* a thread reports the failure to the order */
    void *timeline;            /* of the stream, for the failure */
    void (*timeline_failed)(void *timeline, leat_status status, const char *message);

    /* Under the lock of stager.c. */
    struct leati_stager *stager;   /* NULL when over */
    struct leati_job *next_issued; /* of the stager */
    size_t held_bytes;             /* of pinned memory */
    size_t arrived_bytes;          /* set when over */
    bool over;                     /* flags and ring are gone */
};

/* Sets a job's task up for the workers; at most so many of them work on it at once. */
void leati_job_prepare(struct leati_job *job, unsigned share);

/* The caller works on a job that nobody else can end meanwhile, until it finds nothing to do: one that its stream
 * was not given yet, or the caller's own. */
void leati_job_work(struct leati_job *job);

/* The same for one part, or for a piece of what prepares one. Returns false if nothing can be done at once. */
bool leati_job_work_once(struct leati_job *job);

/* Stops a job: parts that nobody has taken yet are not copied. The first reason stays. */
void leati_job_stop(struct leati_job *job, leat_status why);

/* Why a job stopped, in words; "" if it did not. */
void leati_job_message(const struct leati_job *job, char *text, size_t bytes);

/* Returns true if the workers have copied, or left out, everything. */
static inline bool leati_job_staged(const struct leati_job *job)
{
    /* Acquire: what was copied is there, and a failure was written before. */
    return atomic_load_explicit(&job->flags->staged_chunks, memory_order_acquire) == job->count;
}

#endif
