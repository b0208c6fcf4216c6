/*
 * job.h - one staged copy: the state that its stream, the worker threads and its ticket share.
 *
 * A job has two flags in pinned memory, by which its stream and the workers wait for each other:
 *
 *   staged_chunks     written by the workers: number of chunks that they have copied to the ring (in) or from it
 *                     (out). The stream waits for it before a DMA reads a chunk from the ring (in), or overwrites
 *                     an older chunk there (out).
 *   completed_chunks  written by the stream: 1 when the stream reaches the copy, c + 2 when the DMA of chunk c is
 *                     complete; so it is one more than the number of complete chunks. The workers check it before
 *                     they read a chunk from the ring (out), or overwrite an older chunk there (in).
 *
 * All these waits and writes are submitted to the stream during the copy call. So there is no deadlock: the stream
 * waits only for the workers, which always make progress, and the workers wait only for the stream.
 */
#ifndef LEATI_JOB_H
#define LEATI_JOB_H

#include "base/workers.h"
#include "staging/bytes.h"
#include "staging/chunks.h"
#include "staging/rows.h"

#include <leat/status.h>

#include <stdatomic.h>

/* The path of the bytes. */
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

/* Storage, such as a file, which replaces the host memory of one side. Several threads call at once. */
struct leati_storage_ops {
    /* Reads from the storage into memory, or writes memory to it. Returns how many bytes it moved, from the start.
     * If that is fewer than bytes, it failed: *error is then a value of errno, or 0 at the end of the storage.
     * memory is NULL for a scattered copy without a ring: the object knows the memory. */
    size_t (*move)(void *object, uint64_t offset, void *memory, size_t bytes, bool write, int *error);

    /* Optional: part of a write was not written, because it failed or the copy was stopped. */
    void (*spoil)(void *object);

    /* Writes to text what failed at offset, and why. */
    void (*describe)(const void *object, uint64_t offset, bool write, int error, char *text, size_t text_bytes);

    /* Reference count of the object. release may be called under a lock. */
    void (*hold)(void *object);
    void (*release)(void *object);
};

struct leati_storage {
    const struct leati_storage_ops *ops; /* NULL: both sides are memory */
    void *object;
    uint64_t offset; /* where the copy begins in the storage */
    size_t lead;     /* in its block of 4096 bytes; if scattered, that of the first piece */
    bool write;      /* the storage is the destination; else the source */
    bool scattered;  /* the other side is memory in several places too, which the object knows */
    bool detached;   /* the stream does not wait for the job, which begins when the stream reaches it; HOST only */
};

struct leati_job {
    struct leati_task task; /* in the pool of workers */
    atomic_uint holders;    /* reference count: the stager until the job is over, and the ticket or caller */
    enum leati_direction direction;
    bool early; /* may be staged before the stream reaches the copy */
    bool eager; /* the caller works on it, waits until all of it is staged, and returns its failure */
    enum leati_store_policy policy;
    char *dst;          /* HOST and OUT: pageable */
    const char *src;    /* HOST and IN */
    size_t bytes;       /* of the copy, without gaps */
    size_t reach_bytes; /* OUT and HOST: how many bytes from dst on to prefault; 0: none */
    bool in_rows;       /* the pageable sides have gaps; then the next two are set */
    struct leati_rows to_rows, from_rows;
    struct leati_storage storage; /* replaces dst if it is written, src if it is read */
    /* If set: a list of copies instead of one copy. Then chunks, parts and stopped_at count entries of the list.
     * Returns how many copies were made before the first that failed. */
    size_t (*copy_list)(const void *list, size_t first, size_t count, uintptr_t *fault);
    const void *list;
    struct leati_flags *flags;
    char *ring;
    struct leati_chunk *chunks;
    uint32_t count;
    uint32_t end;              /* the value of completed_chunks when the stream has completed the copy */
    _Atomic uint64_t at;       /* the next part to take: chunk in the high half, part in the low one */
    bool cold;                 /* pages of the source are not in memory */
    _Atomic size_t prefaulted; /* bytes of reach_bytes that were prefaulted so far; no less: nothing left to do */
    uint64_t deadline_ns;      /* 0: none */
    atomic_int stopped;        /* LEAT_OK, or the reason why no more parts are copied */
    _Atomic size_t stopped_at; /* all bytes before this offset were copied, or will be */
    /* Under the lock of job.c: the first place in the copy where the storage failed, and its error there. */
    size_t failed_at;          /* SIZE_MAX: nowhere */
    int error;                 /* as filled by the storage's move() */
    _Atomic uintptr_t fault;   /* the lowest address whose access faulted; UINTPTR_MAX: none */
    atomic_bool reported;      /* one thread has begun to report the failure to the timeline */
    void *timeline;            /* of the stream; gets the failure */
    void (*timeline_failed)(void *timeline, leat_status status, const char *message);

    /* Under the lock of stager.c. */
    struct leati_stager *stager;   /* NULL when over */
    struct leati_job *next_issued; /* in the stager's list */
    size_t held_bytes;             /* pinned memory of this job */
    size_t arrived_bytes;          /* set when over */
    bool over;                     /* the stream has completed the copy; flags and ring were freed */
};

/* Sets up a job's task for the workers. share: at most so many threads work on it at once. */
void leati_job_prepare(struct leati_job *job, unsigned share);

/* The caller copies parts of the job until none can be copied at the moment. The job must stay in memory
 * meanwhile: it is not submitted yet, or the caller holds it. */
void leati_job_work(struct leati_job *job);

/* The same for one part, or else prefaults one piece of the destination. Returns false if there was nothing to do.
 */
bool leati_job_work_once(struct leati_job *job);

/* Stops a job: parts that no thread has begun are not copied any more. If it is stopped already, the first reason
 * stays. */
void leati_job_stop(struct leati_job *job, leat_status why);

/* Writes to text why the job stopped; "" if it did not. LEATI_JOB_MESSAGE_BYTES are enough for all messages. */
#define LEATI_JOB_MESSAGE_BYTES 512
void leati_job_message(const struct leati_job *job, char *text, size_t bytes);

/* Reports to the storage that a part of a write was not written. */
static inline void leati_job_spoil(const struct leati_job *job)
{
    if (job->storage.ops && job->storage.write && job->storage.ops->spoil)
        job->storage.ops->spoil(job->storage.object);
}

/* Returns true if every chunk was copied, or skipped because the job stopped. */
static inline bool leati_job_staged(const struct leati_job *job)
{
    /* Acquire: the caller sees the copied bytes, and job->stopped if the job failed. */
    return atomic_load_explicit(&job->flags->staged_chunks, memory_order_acquire) == job->count;
}

#endif
