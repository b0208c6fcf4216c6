/*
 * staging.h - copies between pageable and other memory, through pinned memory and worker threads.
 *
 * A stager has pinned memory, from which each copy takes a ring, and workers, which copy bytes between the ring
 * and pageable memory. The caller's thread submits all DMAs, waits and flag writes of the copy to the stream
 * during the call; job.h describes how stream and workers continue from there.
 *
 * This layer knows no device, pool or stream. It reaches them by hooks, which the layer above supplies. The hooks
 * report failures as driver calls do: with a status and this thread's message. The only hook that workers call is
 * timeline_failed().
 *
 * Call leati_stager_init(), then leati_stager_start(), then make copies from any thread, and at last call
 * leati_stager_end().
 */
#ifndef LEATI_STAGING_H
#define LEATI_STAGING_H

#include "base/error.h"
#include "driver/driver.h"
#include "staging/job.h"

struct leati_staging_hooks {
    /* take() returns pinned memory of at least bytes, aligned to a page, for stores of this policy; or NULL, with
     * a message, if there is no such memory. This layer may call give_back() while it holds one of its locks, so
     * give_back() must not call this layer. */
    void *(*take)(void *context, enum leati_store_policy policy, size_t bytes);
    void (*give_back)(void *context, void *block);

    /* Returns LEAT_OK unless the device is lost. Does not wait. */
    leat_status (*health)(void *context);

    /* For a private stream, on which this layer tries whether streams can wait for flags. */
    leat_status (*stream_create)(void *context, void **stream);
    leat_status (*stream_destroy)(void *context, void *stream);
    leat_status (*stream_synchronize)(void *context, void *stream);

    /* Submits waits for flags and writes of flags to the stream, like stream_mem_ops in driver.h. count is at most
     * 4. */
    leat_status (*flags)(void *context, void *stream, const struct leati_mem_op *ops, unsigned count);

    /* A stream's timeline keeps the failures of the stream. It is reference-counted. */
    void (*timeline_hold)(void *timeline);
    void (*timeline_release)(void *timeline); /* this layer may call it while it holds one of its locks */
    void (*timeline_failed)(void *timeline, leat_status status, const char *message);

    /* The outcome of a job, which further streams report; only for leati_job_set_outcome(). The
     * job holds it from outcome_begins() to outcome_ends(), which this layer may call while it holds one of its
     * locks. */
    void (*outcome_begins)(void *outcome);
    void (*outcome_ends)(void *outcome);
    void (*outcome_failed)(void *outcome, leat_status status, const char *message);
};

/* A block that a stream may still use, because waiting for the stream failed. */
struct leati_lost {
    void *block;
    struct leati_lost *next;
};

struct leati_stager {
    const struct leati_staging_hooks *hooks;
    void *context;
    struct leati_workers *workers; /* NULL if staging is not possible */
    unsigned threads;              /* number of workers that may copy */
    unsigned share;                /* number of workers that may work on one copy at once */
    unsigned devices;              /* number of devices that the workers are for */
    int node;                      /* NUMA node of the workers; -1: any */
    struct leati_staging_choice choice;
    uint64_t ring_bytes;  /* limit for the ring of one copy */
    uint64_t write_ring_bytes; /* the same for a long write from the device to storage, see ring_most() */
    uint64_t limit_bytes; /* limit for the pinned memory of all copies under way */
    char refused[192];    /* why staging is not possible, as the layer above has found; "" if it is possible */

    /* Protected by jobs_lock of stager.c. */
    struct leati_lost *lost;       /* blocks kept until leati_stager_end(); see leati_stager_lose() */
    struct leati_job *issued;      /* list of the submitted jobs that have not ended */
    uint64_t held_bytes;           /* pinned memory of these jobs */
    _Atomic unsigned file_threads; /* number of workers that may copy files; 0: none. Written under files_lock */
    _Atomic unsigned storage_threads; /* the same for storages in order */
    atomic_uint file_jobs;         /* number of submitted jobs with storage; changes under jobs_lock */
};

/* Initialises a stager and reads the options. INVALID: an environment variable has a wrong value. */
leat_status leati_stager_init(struct leati_stager *stager, const struct leati_staging_hooks *hooks, void *context);

/*
 * Tries whether streams can wait for flags, starts the workers of a NUMA node (-1: any) for this number of
 * devices, and chooses the store policies. After a failure the caller must call leati_stager_end(). If the list
 * lost is not empty, a stream may still write to its blocks, so the caller must first wait until the device is
 * idle.
 */
leat_status leati_stager_start(struct leati_stager *stager, int node, int devices);

/* Ends all copies, waits for the workers, and frees all blocks. The device must be idle or lost. */
void leati_stager_end(struct leati_stager *stager);

/* Returns the store policy with which the workers make a copy. */
enum leati_store_policy leati_stager_policy(const struct leati_stager *stager, enum leati_direction direction,
                                            size_t bytes);

/* Returns how many threads may work on a copy. A short copy gets fewer threads, because they would slow each other
 * down. storage: its ops are NULL for a copy of memory. */
unsigned leati_stager_share(const struct leati_stager *stager, const struct leati_storage *storage, size_t bytes);

/* Returns the size of the block (flags and ring) that an eager copy of this many bytes needs. */
size_t leati_stager_block_bytes(size_t bytes);

/* leati_stager_take() returns a block of pinned memory, or NULL with a message. leati_stager_give_back() frees a
 * block that no stream and no thread uses any more. */
void *leati_stager_take(struct leati_stager *stager, size_t bytes);
void leati_stager_give_back(struct leati_stager *stager, void *block);

/* Keeps a block until leati_stager_end(), because waiting for the stream that uses the block failed. */
void leati_stager_lose(struct leati_stager *stager, void *block);

/* Start the threads for files, and for storages in order, unless they run already. Fail with HOST_MEMORY or SYSTEM,
 * and a message. */
leat_status leati_stager_start_files(struct leati_stager *stager);
leat_status leati_stager_start_storage(struct leati_stager *stager);

/* Cancels all copies of storages in order, which could otherwise wait for other processes for ever. */
void leati_stager_stop_storage(struct leati_stager *stager);

/* ---- copies ---- */

/* A list of copies. The list must stay in memory until the stream has completed the copies. If the request is
 * early, nobody else may use the destinations until then. */
struct leati_list {
    size_t (*copy)(const void *list, size_t first, size_t count, uintptr_t *fault); /* as copy_list in job.h */
    const void *list;
    size_t count;
    bool scratch; /* all destinations are leat's own memory */
};

struct leati_staging_request {
    enum leati_direction direction;
    bool early; /* threads may copy before the stream reaches the copy; ignored for OUT */
    /* The calling thread copies from the start, and workers join it. Only for IN with early, or for OUT on an idle
     * stream. IN: the call returns when the source has been read. OUT: the call waits for the stream, and returns
     * when the destination is complete. The call returns POINTER if pageable memory could not be accessed. If the
     * source is storage that could not be read, the call succeeds, and the timeline has the failure. */
    bool eager;
    /* Eager only: a block of leati_stager_block_bytes() (flags and ring) that the layer above owns. The copy uses
     * it until the stream has completed the copy; for OUT only until the call returns, unless the call fails.
     * NULL: the stager supplies a block. */
    struct leati_flags *block;
    bool own_ring;        /* the copy shares its ring with no other copy, because the stream may be several */
    bool no_wait;         /* if all pinned memory is in use, decline instead of waiting */
    uint64_t deadline_ns; /* time of leati_clock_ns() after which the copy stops; 0: none */
    void *dst;            /* the direction says which side is pageable; messages print the other side's address */
    const void *src;
    size_t bytes;                       /* without gaps; with a list: the number of copies */
    const struct leati_rows *to_rows;   /* to_rows and from_rows are set if pageable memory has gaps, else NULL */
    const struct leati_rows *from_rows; /* the rows of a device's side have valid sizes, but no valid address */
    const struct leati_list *list;      /* HOST: the workers make this list of copies instead of one copy */
    struct leati_storage storage; /* ops set: the host's side is storage, not memory; no rows; eager only with
                                     at_hand. Call leati_stager_start_files() first, or leati_stager_start_storage()
                                     for a storage in order */
    size_t unit_bytes;                  /* chunk sizes are multiples of this; 0: any size */
    size_t chunk_most_bytes;            /* largest size of a chunk; 0: only the ring limits it */
    void *stream;                       /* for the hook flags(), and for the wait after a failure */
    void *timeline;
    void *context;                /* argument of begin(), end() and move() */
    void (*begin)(void *context); /* from begin() to end() other threads cannot submit work to the stream */
    void (*end)(void *context);
    /* Submits the DMA of one chunk between the ring and the device. Not called for HOST. */
    leat_status (*move)(void *context, size_t chunk_offset, size_t bytes, void *ring_place);
};

/* Reserves the memory of a staged copy and fills *job. The caller must pass the job to leati_stager_submit(), with
 * the same request, or to leati_stager_drop(). DECLINED: not enough memory. The call may wait until submitted
 * copies end, so a caller that has already reserved other copies must set no_wait, or it could wait for itself. */
leat_status leati_stager_reserve(struct leati_stager *stager, const struct leati_staging_request *request,
                                 struct leati_job **job);

/* Submits a reserved copy; the stager owns the job from now on. If started is not NULL, fills *started with a
 * reference to the job, which the caller must release. If the call fails, it waits until the stream has completed
 * the part that was submitted, unless the device is lost. */
leat_status leati_stager_submit(struct leati_stager *stager, const struct leati_staging_request *request,
                                struct leati_job *job, struct leati_job **started);

/* Frees a reserved copy that was not submitted. Only for a request without a block. */
void leati_stager_drop(struct leati_stager *stager, struct leati_job *job);

/* The caller and workers make a list of copies now. bytes is the total size of the copies, and each thread takes
 * about part_bytes at a time. Returns when all threads are done. The result is the number of copies before the
 * first that failed; *fault is the address at which that copy failed. */
size_t leati_stager_copy_now(struct leati_stager *stager, const struct leati_list *list, size_t bytes,
                             size_t part_bytes, uintptr_t *fault);

/* Adds a job to the stager's list, so that the job, its flags and its ring stay until the stream has completed the
 * copy. */
void leati_stager_keep(struct leati_stager *stager, struct leati_job *job);

/* The progress of a job. leati_job_look() takes jobs_lock, so that no thread frees the job's flags meanwhile. */
struct leati_job_state {
    /* All chunks are copied; the stream has completed the copy. For a detached job both mean that the stream has
     * reached the job, and durable means that the workers are done. */
    bool staged, done;
    bool durable;
    size_t arrived_bytes;
    leat_status status; /* LEAT_OK, or why the workers stopped before everything was copied */
};
void leati_job_look(struct leati_job *job, struct leati_job_state *state);

/* Releases a reference to a job, such as the one that leati_stager_submit() stores in *started. */
void leati_job_release(struct leati_job *job);

/* ---- help ---- */

/* The calling thread copies parts of the job until no part can be copied at the moment. */
void leati_stager_join(struct leati_stager *stager, struct leati_job *job);

/* For a thread that waits for the job. If few workers are awake, the calling thread works on the job for a short
 * time. Returns false if there was nothing to do. */
bool leati_job_help(struct leati_job *job);

/* For a thread that is about to wait for the device. If few workers are awake, the calling thread copies parts of
 * any jobs until its wait is over, or until no job needs help. query() is called often; it returns LEAT_NOT_READY
 * until the wait is over. */
void leati_stager_help_while_waiting(struct leati_stager *stager, leat_status (*query)(void *context),
                                     void *context);

/* For a thread that is about to wait for the stream, in a driver whose wait spins. Sleeps while the stream waits
 * for storage for a long time: until little is left of its copies of files, and nothing of those of storage in
 * order, or until query() returns something else than LEAT_NOT_READY. */
void leati_stager_rest_while_waiting(struct leati_stager *stager, const void *stream,
                                     leat_status (*query)(void *context), void *context);

#endif
