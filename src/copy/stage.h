/*
 * stage.h - copies between pageable and other memory, through pinned memory and the team's threads.
 *
 * A stager belongs to a device. It has a pool of pinned memory from which each copy takes a ring, and gives its
 * work to the team of the device's NUMA node. The caller's thread gives the stream all that it will need for the
 * copy, at once; what happens then is said in job.h.
 */
#ifndef LEATI_STAGE_H
#define LEATI_STAGE_H

#include "copy/box.h"
#include "copy/job.h"
#include "copy/team.h"

#include <leat/pool.h>

struct leati_route;

/* A block that a stream may still use. */
struct leati_lost {
    void *block;
    struct leati_lost *next;
};

struct leati_stager {
    leat_device *device;
    leat_pool
        *pools[2]; /* by how their memory is written: lines that one way leaves in the caches slow the other */
    struct leati_team *team;
    struct leati_bytes_choice choice;
    uint64_t ring_bytes;      /* of one copy, at most */
    uint64_t limit_bytes;     /* of pinned memory in all copies under way */
    _Atomic uint64_t last_ns; /* when the latest copy came that the threads could make */
    struct leati_lost *lost;  /* blocks of streams that could not be waited for; until the close */
    char refused[192];        /* why this device has no staging; "" when it has */

    /* Under the lock of stage.c. */
    struct leati_job *issued;
    uint64_t held_bytes;
};

/* The device's stager, made at the first use. One whose refused is set cannot be used: the driver's own calls it
 * is then. INVALID: an environment variable has a value that it cannot have; other failures may be gone next time.
 */
leat_status leati_stager_get(leat_device *device, struct leati_stager **stager);

/* What is to be done when a device with copies of this layer closes, and when its streams end. */
void leati_copy_set_hooks(leat_device *device);

/* How the threads will write in a copy. */
enum leati_stores leati_stage_stores(const struct leati_stager *stager, enum leati_way way, size_t bytes);

/* A block of at least bytes of the stager's pinned memory, or NULL; and back, when nobody uses it any more. */
void *leati_stager_take(struct leati_stager *stager, size_t bytes);
void leati_stager_give_back(void *block);

/* Keeps a block to the close, because its stream cannot be waited for. */
void leati_stager_lose(struct leati_stager *stager, void *block);

/* A copy whose rows have gaps on one side or on both. */
struct leati_staged_box {
    leat_copy_box box;    /* in its simplest form */
    enum leati_box_by by; /* between the ring and the device */
};

/* A list of copies, in memory that stays until the stream has got past them. What they write is nobody else's when
 * the request is early. */
struct leati_list {
    size_t (*copy)(const void *list, size_t first, size_t count, uintptr_t *fault); /* as job.h */
    const void *list;
    size_t count;
    bool scratch; /* they write leat's own memory only */
};

struct leati_stage_request {
    enum leati_way way;
    bool early;
    uint64_t deadline_ns;      /* on the clock; 0: none */
    struct leati_route *route; /* NULL: over the link of the stream's own device */
    bool here; /* in, early, and short: the caller's thread stages all of it before the call returns */
    const struct leati_staged_box *box; /* NULL: bytes without gaps */
    const struct leati_list *list;      /* HOST: so many copies in the place of one, which the threads make */
};

/* Starts a staged copy; bytes is the number of copies where there is a list. Fills *job, which the caller must let
 * go, when job is not NULL. LEAT_NOT_READY: there is no memory for it, and nothing was given to the stream: the
 * driver's own call must do. */
leat_status leati_stage_start(struct leati_stager *stager, leat_stream *stream, const struct leati_target *to,
                              const struct leati_target *from, size_t bytes,
                              const struct leati_stage_request *request, struct leati_job **job);

/* Keeps a job, and the memory of its words, until its stream has got past it. */
void leati_stager_keep(struct leati_stager *stager, struct leati_job *job);

/* How far a job is. Takes the lock of stage.c, under which its words cannot go away. */
struct leati_job_state {
    bool staged, done;
    size_t arrived_bytes;
    leat_status status; /* of what the threads did */
};
void leati_job_look(struct leati_job *job, struct leati_job_state *state);

/* The caller, who waits for the job, works on it for a moment where its team has few threads. False: there was
 * nothing to do. */
bool leati_job_lend(struct leati_job *job);

void leati_job_let_go(struct leati_job *job);

#endif
