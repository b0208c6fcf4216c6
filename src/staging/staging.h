/*
 * staging.h - copies between pageable and other memory, through pinned memory and worker threads.
 *
 * A stager has pinned memory from which each copy takes a ring, and workers that carry the bytes between the ring
 * and pageable memory. The caller's thread gives the stream everything that it needs for the copy, at once; what
 * happens then is said in job.h.
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
    /* Pinned memory of at least bytes, aligned to a page, for stores of this policy; NULL, with a message, when
     * there is none. give_back may be called under a lock of this layer and must not call it. */
    void *(*take)(void *context, enum leati_store_policy policy, size_t bytes);
    void (*give_back)(void *context, void *block);

    /* LEAT_OK unless the device is lost. Waits for nothing. */
    leat_status (*health)(void *context);

    /* A stream of this layer's own, for a trial. */
    leat_status (*stream_create)(void *context, void **stream);
    leat_status (*stream_destroy)(void *context, void *stream);
    leat_status (*stream_synchronize)(void *context, void *stream);

    /* Gives the stream waits for flags and writes of flags, as stream_mem_ops of driver.h; count is at most 4. */
    leat_status (*flags)(void *context, void *stream, const struct leati_mem_op *ops, unsigned count);

    /* A timeline: where a stream's failures are kept. It stays as long as somebody holds it. */
    void (*timeline_hold)(void *timeline);
    void (*timeline_release)(void *timeline); /* may be called under a lock of this layer */
    void (*timeline_failed)(void *timeline, leat_status status, const char *message);
};

/* A block that a stream may still use. */
struct leati_lost {
    void *block;
    struct leati_lost *next;
};

struct leati_stager {
    const struct leati_staging_hooks *hooks;
    void *context;
    struct leati_workers *workers; /* NULL when the stager refuses */
    unsigned threads;              /* of the workers that may copy, */
    unsigned share;                /* and for one copy at most */
    struct leati_staging_choice choice;
    uint64_t ring_bytes;      /* of one copy, at most */
    uint64_t limit_bytes;     /* of pinned memory in all copies under way */
    _Atomic uint64_t last_ns; /* when the latest copy came that the workers could make */
    char refused[192];        /* set by the layer above: why there is no staging; "" when there is */

    /* Under the lock of stager.c. */
    struct leati_lost *lost; /* blocks of streams that could not be waited for; until the end */
    struct leati_job *issued;
    uint64_t held_bytes;
};

/* Sets a stager up and reads the options. INVALID: an environment variable has a wrong value. */
leat_status leati_stager_init(struct leati_stager *stager, const struct leati_staging_hooks *hooks, void *context);

/*
 * Tries whether streams can wait for flags, starts the workers of a NUMA node (-1: any) for so many devices, and
 * chooses the store policies. On failure the caller ends the stager; where lost is set then, a stream may still
 * write there, and the end must come when the device is idle.
 */
leat_status leati_stager_start(struct leati_stager *stager, int node, int devices);

/* Ends all copies, waits for workers, and gives every block back. All work of the device is complete, or the
 * device is lost and will never do it. */
void leati_stager_end(struct leati_stager *stager);

/* The store policy of the workers in a copy. */
enum leati_store_policy leati_stager_policy(const struct leati_stager *stager, enum leati_direction direction,
                                            size_t bytes);

/* The bytes of a block for an eager copy of so many bytes. */
size_t leati_stager_block_bytes(size_t bytes);

/* A block of pinned memory, or NULL with a message; and back, when nobody uses it any more. */
void *leati_stager_take(struct leati_stager *stager, size_t bytes);
void leati_stager_give_back(struct leati_stager *stager, void *block);

/* Keeps a block until the end, because its stream cannot be waited for. */
void leati_stager_lose(struct leati_stager *stager, void *block);

/* ---- copies ---- */

/* A list of copies, in memory that stays until the stream has got past them. If the request is early, nobody else
 * uses what they write. */
struct leati_list {
    size_t (*copy)(const void *list, size_t first, size_t count, uintptr_t *fault); /* as in job.h */
    const void *list;
    size_t count;
    bool scratch; /* they write leat's own memory only */
};

struct leati_staging_request {
    enum leati_direction direction;
    bool early; /* may be staged before the stream gets there; IN, and lists */
    /* IN and early, or OUT of a stream that is idle: the caller's thread works on it from the start, with workers
     * that come to help. The call returns when the source has been read, or when the stream was waited for and the
     * bytes are at their place; with POINTER when pageable memory could not be reached. */
    bool eager;
    /* Eager only: flags and a ring of leati_stager_block_bytes(), which the layer above keeps. In use until the
     * stream has got past the copy; OUT: until the call returns, unless it fails. NULL: one of the stager's. */
    struct leati_flags *block;
    bool no_wait;         /* declines where all pinned memory is in use, instead of waiting for some */
    uint64_t deadline_ns; /* on the clock; 0: none */
    void *dst;            /* pageable where the direction says so; the device's side is for the messages only */
    const void *src;
    size_t bytes;                       /* without gaps; the number of copies where there is a list */
    const struct leati_rows *to_rows;   /* both set where pageable memory has gaps; both NULL otherwise */
    const struct leati_rows *from_rows; /* of the device's side only bytes count, not the addresses */
    const struct leati_list *list;      /* HOST: so many copies instead of one, which the workers make */
    struct leati_storage storage; /* ops set: the host's side is storage, not memory; neither rows nor eager */
    size_t unit_bytes;            /* chunks are multiples of this; 0: any size */
    size_t chunk_most_bytes;      /* 0: as the ring allows */
    void *stream;                 /* for the hook of flags, and for the wait after a failure */
    void *timeline;
    void *context;                /* for the next three */
    void (*begin)(void *context); /* what is given to the stream in between is one piece of work */
    void (*end)(void *context);
    /* Gives the stream the DMA of one chunk between the ring and the device. Not for HOST. */
    leat_status (*move)(void *context, size_t chunk_offset, size_t bytes, void *ring_place);
};

/* Takes what a staged copy needs: fills *job, for submit or drop with the same request. DECLINED: there is no
 * memory. May wait for copies that were submitted to end, so a caller that has reserved some already says no_wait.
 */
leat_status leati_stager_reserve(struct leati_stager *stager, const struct leati_staging_request *request,
                                 struct leati_job **job);

/* Starts such a copy, whose job is the stager's from now on. Fills *started with the job too if started is not
 * NULL; the caller releases it. After a failure the stream is past what it was given. */
leat_status leati_stager_submit(struct leati_stager *stager, const struct leati_staging_request *request,
                                struct leati_job *job, struct leati_job **started);

/* Gives back what was reserved for a copy without a block. */
void leati_stager_drop(struct leati_stager *stager, struct leati_job *job);

/* Makes a list of copies of so many bytes, part_bytes at a time, by the workers and the caller; returns when all
 * is done. Returns how many copies were made before the first that failed, at *fault. */
size_t leati_stager_copy_now(struct leati_stager *stager, const struct leati_list *list, size_t bytes,
                             size_t part_bytes, uintptr_t *fault);

/* Keeps a job with its flags and its ring until its stream has got past it. */
void leati_stager_keep(struct leati_stager *stager, struct leati_job *job);

/* How far a job is. Takes the lock under which its flags cannot go away. */
struct leati_job_state {
    bool staged, done;
    size_t arrived_bytes;
    leat_status status; /* of what the workers did */
};
void leati_job_look(struct leati_job *job, struct leati_job_state *state);

/* Releases a job that leati_stager_submit() filled in. */
void leati_job_release(struct leati_job *job);

/* ---- help ---- */

/* The caller, which has nothing else to do, works on a job until it finds nothing to do at once. */
void leati_stager_join(struct leati_stager *stager, struct leati_job *job);

/* The caller, which waits for the job, works on it for a moment where the workers are few. Returns false if there
 * was nothing to do. */
bool leati_job_help(struct leati_job *job);

/* The caller is about to wait for something of the device: it copies meanwhile, where the workers are few and as
 * long as there are copies. query: whether the wait is over, LEAT_NOT_READY while it is not; called often. */
void leati_stager_help_while_waiting(struct leati_stager *stager, leat_status (*query)(void *context),
                                     void *context);

#endif
