/*
 * job.h - declares the job of a staged copy: the state that its stream, the worker threads and its ticket share.
 *
 * A job has two flags in pinned memory, by which its stream and the workers wait for each other:
 *
 *   staged_chunks     number of chunks that the workers have copied to the ring (in) or from the ring (out). The
 *                     workers write it. The stream waits for it before a DMA reads a chunk from the ring (in), or
 *                     overwrites an older chunk in the ring (out).
 *   completed_chunks  one more than the number of chunks whose DMA is complete. The stream writes it: 1 when the
 *                     stream reaches the copy, and c + 2 when the DMA of chunk c is complete. The workers check it
 *                     before they read a chunk from the ring (out), or overwrite an older chunk in the ring (in).
 *
 * All these waits and writes are submitted to the stream during the copy call. So there is no deadlock: the stream
 * waits only for the workers, which always make progress, and the workers wait only for the stream.
 *
 * Copies into the device that follow each other on a stream share a ring (struct leati_shared_ring), in which each
 * continues where the one before ends. So several in a row are staged as one long copy would be. Each has flags of its
 * own, and its first chunks enter the ring when DMAs of the copies before have made room.
 */
#ifndef LEATI_JOB_H
#define LEATI_JOB_H

#include "base/workers.h"
#include "staging/bytes.h"
#include "staging/chunks.h"
#include "staging/rows.h"

#include <leat/status.h>

#include <limits.h>
#include <stdatomic.h>

/* The path of a copy's bytes. */
enum leati_direction {
    LEATI_DIRECTION_IN,    /* pageable memory, workers, ring, DMA, device */
    LEATI_DIRECTION_OUT,   /* device, DMA, ring, workers, pageable memory */
    LEATI_DIRECTION_HOST,  /* host memory, workers, host memory: no ring and no DMA */
    LEATI_DIRECTION_DEVICE /* no side is pageable, so this layer does not make the copy */
};

struct leati_flags {
    _Alignas(64) _Atomic uint32_t staged_chunks;
    _Alignas(64) _Atomic uint32_t completed_chunks;
};

/* Functions of a storage, such as a file, which replaces the host memory of one side of a copy. Several threads
 * may call them at once, unless the storage is in order. */
struct leati_storage_ops {
    /* Reads from the storage into memory, or writes memory to the storage. Returns how many bytes it moved, from
     * the start. A result below bytes is a failure: *error is then a value of errno, or 0 at the end of the
     * storage, or a leat_status below 0. For a scattered copy without a ring memory is NULL, because the object knows
     * the memory. A storage in order may set *error to LEATI_STORAGE_NOT_YET: it is called again for the rest, when
     * ready() returns true. */
    size_t (*move)(void *object, uint64_t offset, void *memory, size_t bytes, bool write, int *error);

    /* Only for a storage in order, where it is optional. Returns true if move() can move a byte or can fail. Whoever
     * changes that calls leati_workers_nudge(). The caller holds a spin lock. */
    bool (*ready)(const void *object);

    /* Optional. Called when a part of a write was not written, because it failed or the copy was stopped; of a
     * storage in order, also when a part of a read was not read. May be called several times. The caller may hold
     * jobs_lock of stager.c. */
    void (*spoil)(void *object);

    /* Fills text with a description of the failure at offset. */
    void (*describe)(const void *object, uint64_t offset, bool write, int error, char *text, size_t text_bytes);

    /* The reference count of the object. The caller of release() may hold a lock. */
    void (*hold)(void *object);
    void (*release)(void *object);
};

struct leati_storage {
    const struct leati_storage_ops *ops; /* NULL: both sides are memory */
    void *object;
    uint64_t offset; /* where the copy begins in the storage */
    size_t lead;     /* offset of the copy's first byte in its block of 4096 bytes */
    size_t part_bytes; /* size of the parts that threads move at a time; 0: the usual size */
    bool write;      /* true: the storage is the destination; false: the source */
    bool scattered;  /* the storage has several pieces, and so may the memory; the object knows all of them */
    bool slow;       /* may take long whatever its size, as fsync() does */
    bool at_hand;    /* a read of a few MiB that waits for no disk and no network, so the caller may make it */
    bool detached;   /* begins when the stream reaches the job, but the stream does not wait for it; HOST only */
    bool in_order;   /* move() never blocks, and one thread at a time calls it, with the bytes in their order */
    size_t here_bytes; /* in order only: for a copy of at most so many bytes, move() may be called by the call that
                          makes it, and by helpers of the class STORAGE (base/workers.h) */
};

#define LEATI_STORAGE_NOT_YET INT_MIN

enum { LEATI_RING_JOBS = 256 }; /* so many jobs have flags in a ring that is shared */

/* A block of pinned memory with flags and a ring, and the jobs that use it. block to queue are constant, but not *queue;
 * the rest is protected by jobs_lock of stager.c. */
struct leati_shared_ring {
    struct leati_flags *block; /* flags for each job; the ring follows them */
    size_t flags_bytes;
    size_t bytes; /* size of the ring */
    enum leati_store_policy policy;
    /* NULL: the ring is of one job. Else jobs of one stream may share it, and this is what is in it. Used by the thread
     * that reserves a job, while joinable is false. */
    struct leati_ring_queue *queue;
    unsigned users; /* number of jobs that are not over */
    uint64_t jobs;  /* number of jobs that came into the ring; job number i has the flags block[i % LEATI_RING_JOBS] */
    bool used[LEATI_RING_JOBS]; /* which flags belong to a job that is not over */
    /* Of the job that came last, see struct leati_job. */
    uint32_t end;
    bool early;
    /* Whether another job may come into the ring. None may while one is reserved, so the jobs are in stream order; nor
     * after one that was dropped or could be submitted only in part, because its chunks never leave the ring. */
    bool joinable;
};

struct leati_job {
    struct leati_task task; /* for the pool of workers */
    atomic_uint holders;    /* reference count: one for the stager until the job is over, one for the ticket */
    enum leati_direction direction;
    bool early; /* threads may copy before the stream reaches the copy */
    bool eager; /* the caller copies too, waits until all is staged, and returns the failure of the copy */
    enum leati_store_policy policy;
    char *dst;          /* HOST and OUT: the destination in host memory */
    const char *src;    /* HOST and IN: the source in host memory */
    size_t bytes;       /* size of the copy, without gaps */
    size_t reach_bytes; /* OUT and HOST: number of bytes to prefault, from dst on; 0: none */
    bool in_rows;       /* a pageable side has gaps, so to_rows and from_rows are set */
    struct leati_rows to_rows, from_rows;
    struct leati_storage storage; /* if its ops is set, replaces dst (write is true) or src */
    atomic_bool storage_held;     /* the job has a reference to the storage's object */
    size_t part_moved; /* storage in order: bytes of the next part that were moved already. Used by the thread that
                          works on the job; the pool's lock passes it on to the next one */
    /* NULL, or the job is a list of copies, and this function copies entries of the list. chunks, parts and
     * stopped_at then count entries. It returns the number of copies before the first that failed. */
    size_t (*copy_list)(const void *list, size_t first, size_t count, uintptr_t *fault);
    const void *list;
    struct leati_flags *flags;
    uint64_t number;           /* number of the job in its ring, from 0; its flags and those of the jobs before it that
                                  it waits for are an array */
    char *ring;
    struct leati_chunk *chunks;
    uint32_t count;
    uint32_t end;              /* value of completed_chunks when the stream has completed the copy */
    _Atomic uint64_t at;       /* next part to take: the chunk's index in the high half, the part's in the low */
    bool cold;                 /* some pages of the source are not in memory */
    _Atomic size_t prefaulted; /* bytes prefaulted so far, from dst on; finished at reach_bytes or more */
    uint64_t deadline_ns;      /* time of leati_clock_ns() after which the copy stops; 0: none */
    atomic_int stopped;        /* LEAT_OK, or the reason why no more parts are copied */
    _Atomic size_t stopped_at; /* all bytes before this offset were copied, or will be */
    /* Protected by failures_lock of job.c: the lowest offset at which the storage failed, and the error there. */
    size_t failed_at;          /* SIZE_MAX: the storage has not failed */
    int error;                 /* as filled by the storage's move() */
    _Atomic uintptr_t fault;   /* the lowest address whose access faulted; UINTPTR_MAX: none */
    atomic_bool reported;      /* one thread has begun to report the failure to the timeline */
    void *timeline;            /* the stream's timeline, to which a failure is reported */
    void (*timeline_failed)(void *timeline, leat_status status, const char *message);
    /* Protected by failures_lock of job.c: whether a failure was reported; the copy's outcome, or NULL. */
    bool failure_known;
    void *outcome;
    const struct leati_staging_hooks *hooks; /* for outcome */

    /* Protected by jobs_lock of stager.c. */
    struct leati_stager *stager;   /* NULL when the job is over */
    const void *stream;            /* the stream of the request */
    struct leati_job *next_issued; /* in the stager's list of submitted jobs */
    struct leati_shared_ring *shared;     /* where flags and ring are; NULL: in a block of the layer above */
    size_t arrived_bytes;          /* bytes that reached dst; set when the job is over */
    bool over;                     /* the stream has completed the copy, and flags and ring were freed */
};

/* Initialises a job's task for the workers. share: the largest number of threads that work on the job at once. */
void leati_job_prepare(struct leati_job *job, unsigned share);

/* The caller copies parts of the job until no part can be copied at the moment. The job must stay in memory
 * meanwhile: either it is not submitted yet, or the caller has a reference to it. */
void leati_job_work(struct leati_job *job);

/* The same for a job that is not submitted yet, if its storage allows that. Returns false if it does not. */
bool leati_job_begin_here(struct leati_job *job);

/* Copies one part of the job. If no part can be copied at the moment, prefaults one piece of the destination.
 * Returns false if there was nothing to do. */
bool leati_job_work_once(struct leati_job *job);

/* Stops a job: parts that no thread has begun will not be copied. If the job is stopped already, the first reason
 * stays. */
void leati_job_stop(struct leati_job *job, leat_status why);

/* Fills text with the reason why the job stopped, or with "" if it did not stop. LEATI_JOB_MESSAGE_BYTES are
 * enough for all messages. */
#define LEATI_JOB_MESSAGE_BYTES 512
void leati_job_message(const struct leati_job *job, char *text, size_t bytes);

/* Stores a failure of the job in outcome too: a later one before the stream continues, an earlier one at once. The
 * job keeps outcome until it is freed. A job has at most one outcome. */
void leati_job_set_outcome(struct leati_job *job, void *outcome);

/* Releases the job's reference to its storage, unless it was released before. The thread that moves the last
 * part does this, if no part failed, because closing a file may take long (unmapping it, or freeing the pages
 * of a deleted one), and a thread of the program should not have to do it in a later copy. After a failure
 * leati_job_message() needs the storage, so the last holder of the job releases it. */
void leati_job_release_storage(struct leati_job *job);

/* Reports the failure of a job to its timeline and its outcome, once. A later copy or wait of the stream returns
 * it. Returns false if another thread has begun to report it. For a job that has not failed, does nothing. */
bool leati_job_report(struct leati_job *job);

/* Tells the job's storage, if any, that a part was not moved; see spoil() above. */
static inline void leati_job_spoil(const struct leati_job *job)
{
    if (job->storage.ops && (job->storage.write || job->storage.in_order) && job->storage.ops->spoil)
        job->storage.ops->spoil(job->storage.object);
}

/* Returns true if the call that makes the copy reads the file together with the workers: up to 2 MiB from the
 * system's cache to host memory, on an idle stream. */
static inline bool leati_job_is_read_here(const struct leati_job *job)
{
    return job->direction == LEATI_DIRECTION_HOST && job->early && job->storage.at_hand;
}

static inline uint32_t leati_job_staged_chunks(const struct leati_job *job)
{
    /* Acquire: the caller sees the copied bytes of these chunks, and job->stopped if the job failed. */
    return atomic_load_explicit(&job->flags->staged_chunks, memory_order_acquire);
}

static inline uint32_t leati_job_completed(const struct leati_job *job)
{
    /* Acquire: makes the bytes that the DMA wrote visible to this thread. */
    return atomic_load_explicit(&job->flags->completed_chunks, memory_order_acquire);
}

/* Returns true if every chunk was copied, or skipped because the job stopped. */
static inline bool leati_job_staged(const struct leati_job *job)
{
    return leati_job_staged_chunks(job) == job->count;
}

#endif
