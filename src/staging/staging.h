/*
 * staging.h - copies between pageable and other memory, through pinned memory and worker threads.
 *
 * A stager has pinned memory, from which each copy takes a ring, and workers, which copy bytes between the ring
 * and pageable memory. The caller's thread submits all DMAs, waits and flag writes of the copy to the stream
 * during the call; job.h describes how stream and workers continue from there.
 *
 * This layer knows no device, pool or stream. It reaches them by hooks, which the layer above supplies. The hooks
 * report failures as driver calls do: with a status and this thread's message. Workers call timeline_failed only.
 *
 * Order of calls: init, then start; copies; end. Copies may come from any thread.
 */
#ifndef LEATI_STAGING_H
#define LEATI_STAGING_H

#include "base/error.h"
#include "driver/driver.h"
#include "staging/job.h"

struct leati_staging_hooks {
    /* take: returns pinned memory of at least bytes, aligned to a page, for stores of this policy; NULL, with a
     * message, if there is none. give_back: may be called under a lock of this layer, and must not call this
     * layer. */
    void *(*take)(void *context, enum leati_store_policy policy, size_t bytes);
    void (*give_back)(void *context, void *block);

    /* Returns LEAT_OK unless the device is lost. Does not wait. */
    leat_status (*health)(void *context);

    /* A private stream, on which this layer tries whether streams can wait for flags. */
    leat_status (*stream_create)(void *context, void **stream);
    leat_status (*stream_destroy)(void *context, void *stream);
    leat_status (*stream_synchronize)(void *context, void *stream);

    /* Submits waits for flags and writes of flags to the stream, as stream_mem_ops of driver.h; count is at most
     * 4. */
    leat_status (*flags)(void *context, void *stream, const struct leati_mem_op *ops, unsigned count);

    /* The timeline of a stream, which keeps the stream's failures. It is reference-counted. */
    void (*timeline_hold)(void *timeline);
    void (*timeline_release)(void *timeline); /* may be called under a lock of this layer */
    void (*timeline_failed)(void *timeline, leat_status status, const char *message);
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
    unsigned threads;              /* how many workers may copy */
    unsigned share;                /* how many of them may work on one copy at once */
    int node;                      /* NUMA node of the workers; -1: any */
    struct leati_staging_choice choice;
    uint64_t ring_bytes;      /* limit for the ring of one copy */
    uint64_t limit_bytes;     /* limit for the pinned memory of all copies under way */
    _Atomic uint64_t last_ns; /* time of the latest copy that the workers could have made */
    char refused[192];        /* set by the layer above: why staging is not possible; "" if it is */

    /* Under the lock of stager.c. */
    struct leati_lost *lost; /* blocks of streams that could not be waited for; freed at the end */
    struct leati_job *issued;
    uint64_t held_bytes;
    _Atomic unsigned file_threads; /* how many workers may copy files; 0: none yet. Written under its own lock */
};

/* Sets a stager up and reads the options. INVALID: an environment variable has a wrong value. */
leat_status leati_stager_init(struct leati_stager *stager, const struct leati_staging_hooks *hooks, void *context);

/*
 * Tries whether streams can wait for flags, starts the workers of a NUMA node (-1: any) for so many devices, and
 * chooses the store policies. On failure the caller must call leati_stager_end(); if lost is set, a stream may
 * still write to those blocks, so the caller must do that only when the device is idle.
 */
leat_status leati_stager_start(struct leati_stager *stager, int node, int devices);

/* Ends all copies, waits for the workers, and frees all blocks. The device must be idle or lost. */
void leati_stager_end(struct leati_stager *stager);

/* The store policy of the workers in a copy. */
enum leati_store_policy leati_stager_policy(const struct leati_stager *stager, enum leati_direction direction,
                                            size_t bytes);

/* The size of the block (flags and ring) that an eager copy of so many bytes needs. */
size_t leati_stager_block_bytes(size_t bytes);

/* take: returns a block of pinned memory, or NULL with a message. give_back: frees it; nobody may use it any more.
 */
void *leati_stager_take(struct leati_stager *stager, size_t bytes);
void leati_stager_give_back(struct leati_stager *stager, void *block);

/* Keeps a block until leati_stager_end(), because its stream cannot be waited for. */
void leati_stager_lose(struct leati_stager *stager, void *block);

/* Starts the threads for files, if this was not done yet. HOST_MEMORY or SYSTEM, with a message. */
leat_status leati_stager_start_files(struct leati_stager *stager);

/* ---- copies ---- */

/* A list of copies. The list must stay in memory until the stream has completed them. If the request is early,
 * nobody else may use the destinations meanwhile. */
struct leati_list {
    size_t (*copy)(const void *list, size_t first, size_t count, uintptr_t *fault); /* as in job.h */
    const void *list;
    size_t count;
    bool scratch; /* all destinations are leat's own memory */
};

struct leati_staging_request {
    enum leati_direction direction;
    bool early; /* may be staged before the stream reaches the copy; only for IN, and for lists */
    /* The caller's thread copies from the start, and workers come to help. Only for IN with early, or for OUT on
     * an idle stream. IN: the call returns when the source has been read. OUT: the call waits for the stream, and
     * returns when the destination is complete. POINTER: pageable memory could not be accessed. */
    bool eager;
    /* Eager only: flags and a ring of leati_stager_block_bytes(), owned by the layer above. In use until the
     * stream has completed the copy; for OUT until the call returns, unless it fails. NULL: take one from the
     * stager. */
    struct leati_flags *block;
    bool no_wait;         /* if all pinned memory is in use, decline instead of waiting */
    uint64_t deadline_ns; /* on the clock; 0: none */
    void *dst;            /* pageable as the direction says; the address on the device is for messages only */
    const void *src;
    size_t bytes;                       /* without gaps; with a list: the number of copies */
    const struct leati_rows *to_rows;   /* both set if pageable memory has gaps; both NULL otherwise */
    const struct leati_rows *from_rows; /* on the device's side only the sizes matter, not the address */
    const struct leati_list *list;      /* HOST: the workers make this list of copies instead of one copy */
    struct leati_storage storage;       /* ops set: the host's side is storage, not memory; no rows, not eager.
                                           Needs leati_stager_start_files() */
    size_t unit_bytes;                  /* chunks are multiples of this; 0: any size */
    size_t chunk_most_bytes;            /* limit of a chunk; 0: only the ring limits it */
    void *stream;                       /* for the hook flags, and for the wait after a failure */
    void *timeline;
    void *context;                /* argument of the next three */
    void (*begin)(void *context); /* other threads' work cannot come between what is submitted from begin to end */
    void (*end)(void *context);
    /* Submits the DMA of one chunk between the ring and the device. Not for HOST. */
    leat_status (*move)(void *context, size_t chunk_offset, size_t bytes, void *ring_place);
};

/* Reserves the memory of a staged copy and fills *job; the caller must pass it to submit, with the same request,
 * or to drop. DECLINED: not enough memory. May wait until submitted copies end, so a caller that has already
 * reserved others must set no_wait (else it could wait for itself). */
leat_status leati_stager_reserve(struct leati_stager *stager, const struct leati_staging_request *request,
                                 struct leati_job **job);

/* Submits a reserved copy; the stager owns the job from now on. If started is not NULL, fills *started with a
 * reference to the job, which the caller must release. After a failure the stream has completed whatever part was
 * submitted, unless the device is lost. */
leat_status leati_stager_submit(struct leati_stager *stager, const struct leati_staging_request *request,
                                struct leati_job *job, struct leati_job **started);

/* Releases a reserved copy that was not submitted; its request had no block. */
void leati_stager_drop(struct leati_stager *stager, struct leati_job *job);

/* The caller and workers make a list of copies now; bytes is their total size, and each thread takes about
 * part_bytes at a time. Returns, when all threads are done, how many copies were made before the first that failed
 * at the address *fault. */
size_t leati_stager_copy_now(struct leati_stager *stager, const struct leati_list *list, size_t bytes,
                             size_t part_bytes, uintptr_t *fault);

/* Keeps a job with its flags and its ring until its stream has completed it. */
void leati_stager_keep(struct leati_stager *stager, struct leati_job *job);

/* Fills *state with the progress of a job. Takes the lock that protects the job's flags from being freed. */
struct leati_job_state {
    bool staged, done;
    bool durable; /* a detached job is over; it counts as staged and done when the stream has reached it */
    size_t arrived_bytes;
    leat_status status; /* of what the workers did */
};
void leati_job_look(struct leati_job *job, struct leati_job_state *state);

/* Releases a job that leati_stager_submit() filled in. */
void leati_job_release(struct leati_job *job);

/* ---- help ---- */

/* The calling thread copies parts of the job until none can be copied at the moment. */
void leati_stager_join(struct leati_stager *stager, struct leati_job *job);

/* For a thread that waits for the job: if the workers are few, works on it for a short time. Returns false if
 * there was nothing to do. */
bool leati_job_help(struct leati_job *job);

/* For a thread that is about to wait for the device: if the workers are few, copies parts of any jobs until there
 * are none, or until query says that the wait is over. query returns LEAT_NOT_READY while it is not; it is called
 * often. */
void leati_stager_help_while_waiting(struct leati_stager *stager, leat_status (*query)(void *context),
                                     void *context);

#endif
