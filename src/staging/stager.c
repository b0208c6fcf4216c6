/* stager.c - starts and ends stagers and their copies, and lets waiting threads help. See staging.h. */
#include "staging/staging.h"

#include "base/addresses.h"
#include "base/clock.h"
#include "base/fault_handler.h"
#include "base/flag.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/quick.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES ((size_t)4096)
#define FLAGS_BYTES PAGE_BYTES /* for the flags of one job; the ring follows in the block */
#define RING_USUAL_BYTES ((uint64_t)32 << 20)
#define RING_LEAST_BYTES ((uint64_t)256 << 10)
#define RINGS_IN_WRITE 64 /* a long write to storage goes through its ring this many times, see ring_most() */
#define WRITE_CHUNKS_MOST 256 /* a write to storage with more chunks than this gets chunks of half a ring */
#define SHARING_PART 16 /* a copy shares rings if it is longer than this part of one */
#define RING_SHARE 8      /* the largest part of all pinned memory that one copy takes: an eighth */
#define COLD_LEAST_BYTES ((size_t)1 << 20) /* shorter copies do not check whether their source is in memory */
#define SHORT_READ_BYTES ((size_t)64 << 10) /* the same for the destination of reads of a storage */
#define PROBE_BYTES ((size_t)8 << 20)
#define MEMORY_USUAL_BYTES ((uint64_t)1 << 30)
#define EAGER_CHUNK_BYTES ((size_t)256 << 10) /* large enough for the link, and quickly copied by one thread */
#define EAGER_ASK_NS 1000000u
#define EAGER_PAUSES 100
#define EAGER_HELPED_BYTES ((size_t)512 << 10) /* an eager copy of at least this size wakes workers */

#define THREADS_MAX 64
#define THREADS_USUAL 12 /* threads per device; they keep both directions of its link busy (measured: H200) */
#define SHARE_USUAL 8u   /* threads on one copy; more threads would slow each other down */
#define SHARE_LEAST 4u
#define BYTES_FOR_A_THREAD ((size_t)12 << 20)
#define FILE_THREADS_LEAST 8 /* this many reads of 1 MiB at once keep a local disk busy, see docs/files.md */
#define STORAGE_THREADS_MAX 8u /* threads for storages in order */
#define FILE_BYTES_FOR_A_THREAD                                                                                   \
    ((size_t)2 << 20) /* a thread reads the cache more slowly than it copies memory                               \
                       */
#define FILE_WAKES 4u /* threads that the caller wakes for a copy of a file; these wake the others */

/* A helper is a thread of the program that copies while it waits for something else. If it finds nothing to copy
 * for this long, it sleeps instead of spinning; a worker in the middle of a copy does the same. */
#define HELPER_AWAKE_NS 5000000u

/* The minimum time between two queries by which a helper asks the driver whether its own wait is over. Such a
 * driver call takes about a microsecond, and other threads may need the driver's locks. */
#define HELPER_ASK_NS 20000u

/* A thread that waits for a stream sleeps, REST_NS at a time, while at least REST_BYTES of a file are left, which
 * take more than half a millisecond, or while bytes of storage in order are missing, such as a link's, which may
 * come at any time. The driver's wait spins, and so notices the end sooner. A short message is often there before
 * the thread would wake up again, so it asks for REST_AFTER_NS first. */
#define REST_BYTES ((size_t)32 << 20)
#define REST_NS 50000u
#define REST_AFTER_NS 200000u

/* Protects the lists of submitted jobs, and the fields that job.h and staging.h name. It is held for a few loads
 * and stores, and during calls of the hooks that allow this. */
static struct leati_lock jobs_lock = LEATI_LOCK_INITIALIZER;

/* ---- a stager ---- */

/* Returns the default limit of pinned memory: an eighth of the machine's memory, at most MEMORY_USUAL_BYTES. */
static uint64_t usual_memory(void)
{
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    return machine / 8 < MEMORY_USUAL_BYTES ? machine / 8 : MEMORY_USUAL_BYTES;
}

leat_status leati_stager_init(struct leati_stager *stager, const struct leati_staging_hooks *hooks, void *context)
{
    leati_assert(hooks->take && hooks->give_back && hooks->health && hooks->flags);
    leati_assert(hooks->stream_create && hooks->stream_destroy && hooks->stream_synchronize);
    leati_assert(hooks->timeline_hold && hooks->timeline_release && hooks->timeline_failed);
    *stager = (struct leati_stager){.hooks = hooks, .context = context};
    /* The first such call installs the fault handlers. Make it here, so that no later copy installs them. */
    (void)leati_fault_handler_is_installed();
    LEATI_TRY(leati_option_number(LEATI_OPTION_COPY_RING, RING_USUAL_BYTES, &stager->ring_bytes));
    leati_assert(stager->ring_bytes >= RING_LEAST_BYTES);
    LEATI_TRY(leati_option_number(LEATI_OPTION_COPY_MEMORY, usual_memory(), &stager->limit_bytes));
    stager->write_ring_bytes = stager->ring_bytes;
    if (!leati_option(LEATI_OPTION_COPY_RING) && stager->limit_bytes / RING_SHARE > stager->ring_bytes)
        stager->write_ring_bytes = stager->limit_bytes / RING_SHARE;
    return LEAT_OK;
}

static void init_flags(struct leati_flags *flags, uint32_t staged_chunks)
{
    atomic_init(&flags->staged_chunks, staged_chunks);
    atomic_init(&flags->completed_chunks, 0);
}

/* Tries on a private stream whether streams can wait for flags, because no query of the driver tells it. */
static leat_status try_flags(struct leati_stager *stager)
{
    const struct leati_staging_hooks *hooks = stager->hooks;
    struct leati_flags *flags = leati_stager_take(stager, sizeof *flags);
    struct leati_mem_op ops[2];
    leat_status status, ended;
    void *stream;

    leati_assert(!flags || (uintptr_t)flags % _Alignof(struct leati_flags) == 0);
    if (!flags)
        return LEAT_ERROR_HOST_MEMORY;
    init_flags(flags, 1);
    ops[0] = (struct leati_mem_op){.flag = &flags->staged_chunks, .value = 1, .wait = true};
    ops[1] = (struct leati_mem_op){.flag = &flags->completed_chunks, .value = 1};
    status = hooks->stream_create(stager->context, &stream);
    if (status != LEAT_OK) {
        leati_stager_give_back(stager, flags);
        return status;
    }
    status = hooks->flags(stager->context, stream, ops, 2);
    ended = hooks->stream_synchronize(stager->context, stream);
    /* If waiting for the stream failed, the stream may still write its flag, so the block must stay. */
    if (ended == LEAT_OK)
        leati_stager_give_back(stager, flags);
    else
        leati_stager_lose(stager, flags);
    status = status == LEAT_OK ? ended : status;
    ended = hooks->stream_destroy(stager->context, stream);
    return status == LEAT_OK ? ended : status;
}

/* Chooses the number of workers. By default a quarter of the processors is left to the program. */
static leat_status choose_threads(int node, int devices, unsigned *threads)
{
    unsigned processors = leati_workers_processors(node), some = processors > 3 ? processors * 3 / 4 : 1;
    unsigned most = THREADS_USUAL * (unsigned)devices;
    uint64_t chosen;

    most = most < THREADS_MAX ? most : THREADS_MAX;
    LEATI_TRY(leati_option_number(LEATI_OPTION_COPY_WORKERS, some < most ? some : most, &chosen));
    *threads = (unsigned)chosen;
    return LEAT_OK;
}

/* Held while the threads for files, or for storages in order, start. */
static struct leati_lock files_lock = LEATI_LOCK_INITIALIZER;

/* Starts count threads of a class, and stores their number in *threads. what and option are for the message: what
 * needs the threads, and the option that chooses their number. */
static leat_status start_class(struct leati_stager *stager, enum leati_work_class class, unsigned count,
                               _Atomic unsigned *threads, const char *what, const char *option)
{
    struct leati_workers *workers;
    int error = leati_workers_get(stager->node, class, count, &workers);

    leati_assert(!workers || workers == stager->workers);
    if (workers && leati_workers_threads(workers, class)) {
        /* Release: a thread that sees the number, by the acquire in leati_stager_start_files() or
         * leati_stager_start_storage(), sees the threads. */
        atomic_store_explicit(threads, leati_workers_threads(workers, class), memory_order_release);
        return LEAT_OK;
    }
    if (workers)
        leati_workers_put(workers, class);
    return leati_fail(LEAT_ERROR_SYSTEM, "pthread_create: %s: %s need %u threads, see %s",
                      strerror(error), what, count, option);
}

leat_status leati_stager_start_files(struct leati_stager *stager)
{
    unsigned some = stager->threads > FILE_THREADS_LEAST ? stager->threads : FILE_THREADS_LEAST;
    uint64_t chosen = some;
    leat_status status = LEAT_OK;

    leati_assert(stager->workers);
    if (atomic_load_explicit(&stager->file_threads, memory_order_acquire))
        return LEAT_OK;
    LEATI_TRY(leati_option_number(LEATI_OPTION_IO_WORKERS, some, &chosen));
    leati_lock(&files_lock);
    if (!atomic_load_explicit(&stager->file_threads, memory_order_relaxed))
        status = start_class(stager, LEATI_WORK_FILES, (unsigned)chosen, &stager->file_threads, "files",
                             "LEAT_IO_WORKERS");
    leati_unlock(&files_lock);
    return status;
}

leat_status leati_stager_start_storage(struct leati_stager *stager)
{
    /* They never block, so they need no more threads than copies of memory do. */
    unsigned count = stager->threads < STORAGE_THREADS_MAX ? stager->threads : STORAGE_THREADS_MAX;
    leat_status status = LEAT_OK;

    leati_assert(stager->workers);
    if (atomic_load_explicit(&stager->storage_threads, memory_order_acquire))
        return LEAT_OK;
    leati_lock(&files_lock);
    if (!atomic_load_explicit(&stager->storage_threads, memory_order_relaxed))
        status = start_class(stager, LEATI_WORK_STORAGE, count, &stager->storage_threads, "storages",
                             "LEAT_COPY_WORKERS");
    leati_unlock(&files_lock);
    return status;
}

void leati_stager_stop_storage(struct leati_stager *stager)
{
    leati_lock(&jobs_lock);
    for (struct leati_job *job = stager->issued; job; job = job->next_issued)
        if (job->storage.in_order)
            leati_job_stop(job, LEAT_ERROR_CANCELLED);
    leati_unlock(&jobs_lock);
    leati_workers_nudge();
}

static leat_status get_workers(struct leati_stager *stager, int node, int devices)
{
    struct leati_addresses_hint hint;
    struct leati_workers *workers;
    unsigned threads = 1;
    int error;

    leati_assert(!stager->workers && devices > 0);
    LEATI_TRY(choose_threads(node, devices, &threads));
    error = leati_workers_get(node, LEATI_WORK_COPIES, threads, &workers);
    if (!workers)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (worker threads of copies)");
    if (error) {
        leati_workers_put(workers, LEATI_WORK_COPIES);
        return leati_fail(LEAT_ERROR_SYSTEM,
                          "pthread_create: %s: pageable copies need %u threads, see LEAT_COPY_WORKERS%s",
                          strerror(error), threads, leati_addresses_hint(&hint));
    }
    stager->workers = workers;
    stager->devices = (unsigned)devices;
    stager->node = node;
    stager->threads = leati_workers_threads(workers, LEATI_WORK_COPIES);
    stager->share = stager->threads < SHARE_USUAL ? stager->threads : SHARE_USUAL;
    leati_assert(stager->share && stager->share <= stager->threads);
    return LEAT_OK;
}

leat_status leati_stager_start(struct leati_stager *stager, int node, int devices)
{
    leat_status status;
    void *slot;

    LEATI_TRY(try_flags(stager));
    LEATI_TRY(get_workers(stager, node, devices));
    slot = leati_stager_take(stager, PROBE_BYTES);
    if (!slot)
        return LEAT_ERROR_HOST_MEMORY;
    status = leati_staging_choose(stager->workers, slot, PROBE_BYTES, stager->share, &stager->choice);
    leati_stager_give_back(stager, slot);
    return status;
}

size_t leati_stager_block_bytes(size_t bytes)
{
    return FLAGS_BYTES + leati_staging_ring_bytes(bytes, SIZE_MAX);
}

void *leati_stager_take(struct leati_stager *stager, size_t bytes)
{
    return stager->hooks->take(stager->context, LEATI_STORE_POLICY_CACHED, bytes);
}

void leati_stager_give_back(struct leati_stager *stager, void *block)
{
    leati_assert(block);
    stager->hooks->give_back(stager->context, block);
}

void leati_stager_lose(struct leati_stager *stager, void *block)
{
    struct leati_lost *lost = malloc(sizeof *lost);

    if (!lost)
        return; /* the block leaks, because a stream may still write to it */
    lost->block = block;
    leati_lock(&jobs_lock);
    lost->next = stager->lost;
    stager->lost = lost;
    leati_unlock(&jobs_lock);
}

enum leati_store_policy leati_stager_policy(const struct leati_stager *stager, enum leati_direction direction,
                                            size_t bytes)
{
    leati_assert(direction != LEATI_DIRECTION_DEVICE);
    if (direction == LEATI_DIRECTION_OUT)
        return stager->choice.out;
    /* A copy that fits into its ring writes each byte of the ring once. Streaming stores are better then, because
     * a DMA reads memory faster than the caches of other processors. A ring that a copy reuses stays in the
     * caches, so the measured choice counts (measured with an H200). */
    if (direction == LEATI_DIRECTION_IN && stager->choice.probed && bytes <= stager->ring_bytes)
        return LEATI_STORE_POLICY_STREAMING;
    return stager->choice.in;
}

/* ---- the end of a job ---- */

void leati_stager_keep(struct leati_stager *stager, struct leati_job *job)
{
    leati_lock(&jobs_lock);
    leati_assert(!job->stager && !job->over);
    job->stager = stager;
    job->next_issued = stager->issued;
    stager->issued = job;
    if (job->storage.ops)
        atomic_fetch_add_explicit(&stager->file_jobs, 1, memory_order_relaxed);
    leati_unlock(&jobs_lock);
}

void leati_job_release(struct leati_job *job)
{
    leati_assert(atomic_load_explicit(&job->holders, memory_order_relaxed));
    /* Release and acquire: the last holder frees the job after all uses by the others. */
    if (atomic_fetch_sub_explicit(&job->holders, 1, memory_order_acq_rel) != 1)
        return;
    leati_assert(!job->timeline);
    leati_job_release_storage(job);
    if (job->outcome)
        job->hooks->outcome_ends(job->outcome);
    free(job->chunks);
    free(job);
}

/* Returns how many bytes are known to have arrived at dst. The job must still have its flags. */
static size_t arrived(const struct leati_job *job) LEATI_REQUIRES(jobs_lock)
{
    uint32_t chunks = leati_job_staged_chunks(job);
    uint32_t completed;
    size_t bytes, most = atomic_load_explicit(&job->stopped_at, memory_order_relaxed);

    leati_assert_locked(&jobs_lock);
    leati_assert(job->flags && !job->over);
    if (job->direction == LEATI_DIRECTION_IN) {
        completed = leati_job_completed(job);
        chunks = completed > 1 ? completed - 1 : 0;
    }
    bytes = chunks >= job->count ? job->bytes : job->chunks[chunks].offset;
    leati_assert(bytes <= job->bytes || job->copy_list);
    return bytes < most ? bytes : most;
}

static bool is_done(const struct leati_job *job)
{
    leati_assert(job->end >= job->count + 1 || job->storage.detached);
    /* If the flag has its last value, the workers are done too, because whoever wrote it waited for them. A stream
     * does not wait for the workers of a detached job, so check these separately. Compare by the difference: the flag
     * of a stream's eager copies counts on for ever (copy/eager.c), and may overflow. */
    return (int32_t)(leati_job_completed(job) - job->end) >= 0 &&
           (!job->storage.detached || leati_job_staged(job));
}

/* Takes the ring from a job. The last job frees it. */
static void leave_ring(struct leati_stager *stager, struct leati_job *job) LEATI_REQUIRES(jobs_lock)
{
    struct leati_shared_ring *ring = job->shared;

    leati_assert_locked(&jobs_lock);
    if (!ring) {
        leati_stager_give_back(stager, job->flags);
        job->flags = NULL;
        return;
    }
    leati_assert(ring->users && stager->held_bytes >= ring->bytes + ring->flags_bytes);
    ring->used[job->flags - ring->block] = false;
    job->shared = NULL;
    job->flags = NULL;
    if (--ring->users)
        return;
    stager->held_bytes -= ring->bytes + ring->flags_bytes;
    leati_stager_give_back(stager, ring->block);
    free(ring->queue);
    free(ring);
}

/* Ends a job that no stream and no worker uses: frees its flags and its ring. A ticket may keep the job itself. */
static void finish(struct leati_job *job) LEATI_REQUIRES(jobs_lock)
{
    struct leati_stager *stager = job->stager;

    leati_assert_locked(&jobs_lock);
    leati_assert(stager && !job->over);
    job->arrived_bytes = arrived(job);
    job->over = true;
    job->stager = NULL;
    if (job->storage.ops)
        atomic_fetch_sub_explicit(&stager->file_jobs, 1, memory_order_relaxed);
    leave_ring(stager, job);
    if (job->timeline)
        stager->hooks->timeline_release(job->timeline);
    job->timeline = NULL;
    leati_job_release(job);
}

/* Returns true if a worker is about to release the storage of a job that is done, or is doing it. */
static bool is_closing(const struct leati_job *job)
{
    return job->storage.ops && atomic_load_explicit(&job->storage_held, memory_order_acquire) &&
           atomic_load_explicit(&job->stopped, memory_order_relaxed) == LEAT_OK;
}

/* Ends all jobs that are done, but leaves those whose storage a worker is releasing to a later call, because that
 * may take long. */
static void reap(struct leati_stager *stager) LEATI_REQUIRES(jobs_lock)
{
    struct leati_job **place = &stager->issued, *job;

    leati_assert_locked(&jobs_lock);
    while ((job = *place)) {
        if (!is_done(job) || is_closing(job)) {
            place = &job->next_issued;
            continue;
        }
        leati_assert(job->stager == stager);
        /* This waits for workers that are still leaving the task. */
        leati_workers_remove(stager->workers, &job->task);
        *place = job->next_issued;
        finish(job);
    }
}

/* Copies the rest of all detached jobs that their streams have reached. */
static void finish_detached(struct leati_stager *stager)
{
    struct timespec pause = {.tv_nsec = 50000};
    struct leati_job *job;

    do {
        leati_lock(&jobs_lock);
        job = stager->issued;
        while (job && (!job->storage.detached || leati_job_staged(job) ||
                       leati_job_completed(job) < 1))
            job = job->next_issued;
        leati_unlock(&jobs_lock);
        /* The job stays in memory without the lock, because only new copies end jobs, and a device that is being
         * closed gets none. */
        if (job) {
            leati_job_work(job);
            nanosleep(&pause, NULL);
        }
    } while (job);
}

void leati_stager_end(struct leati_stager *stager)
{
    struct leati_job *job;

    finish_detached(stager);
    leati_lock(&jobs_lock);
    while ((job = stager->issued)) {
        leati_workers_remove(stager->workers, &job->task);
        stager->issued = job->next_issued;
        if (!is_done(job)) {
            leati_job_stop(job, LEAT_ERROR_DEVICE_LOST);
            atomic_store_explicit(&job->stopped_at, arrived(job), memory_order_relaxed);
            /* No thread works on the job any more. If the storage was released, all parts were moved. */
            if (atomic_load_explicit(&job->storage_held, memory_order_relaxed))
                leati_job_spoil(job);
        }
        finish(job);
    }
    leati_assert(!stager->held_bytes);
    leati_unlock(&jobs_lock);
    if (atomic_load_explicit(&stager->file_threads, memory_order_acquire))
        leati_workers_put(stager->workers, LEATI_WORK_FILES);
    if (atomic_load_explicit(&stager->storage_threads, memory_order_acquire))
        leati_workers_put(stager->workers, LEATI_WORK_STORAGE);
    if (stager->workers)
        leati_workers_put(stager->workers, LEATI_WORK_COPIES);
    stager->workers = NULL;
    while (stager->lost) {
        struct leati_lost *lost = stager->lost;

        stager->lost = lost->next;
        leati_stager_give_back(stager, lost->block);
        free(lost);
    }
}

/* ---- the start of a job ---- */

/* Takes memory for flags_bytes of flags and a ring of wanted bytes. If much memory is in use, the ring is smaller, but
 * has at least least bytes; *got is its size. If the limit is reached and may_wait is set, waits until other copies
 * release their memory. Returns NULL if there is no memory. */
static void *take_ring(struct leati_stager *stager, enum leati_store_policy policy, size_t flags_bytes, size_t wanted,
                       size_t least, bool may_wait, size_t *got)
{
    const struct leati_staging_hooks *hooks = stager->hooks;
    struct timespec pause = {.tv_nsec = 50000};
    void *block;

    for (unsigned looks = 1;; looks++) {
        uint64_t left, most;

        leati_lock(&jobs_lock);
        reap(stager);
        left = stager->limit_bytes > stager->held_bytes ? stager->limit_bytes - stager->held_bytes : 0;
        /* Take only a part of the memory that is left, so that each of many blocked streams can have a ring. */
        most = left / RING_SHARE > least ? left / RING_SHARE : least;
        *got = wanted < most ? wanted : (size_t)(most / PAGE_BYTES * PAGE_BYTES);
        if (*got + flags_bytes <= left || !stager->held_bytes) {
            stager->held_bytes += *got + flags_bytes;
            leati_unlock(&jobs_lock);
            break;
        }
        leati_unlock(&jobs_lock);
        /* If the device is lost, other copies never release their memory. */
        if (!may_wait || (looks % 256 == 0 && hooks->health(stager->context) != LEAT_OK))
            return NULL;
        nanosleep(&pause, NULL);
    }
    block = hooks->take(stager->context, policy, *got + flags_bytes);
    leati_assert(least % PAGE_BYTES == 0 && *got % PAGE_BYTES == 0);
    if (block)
        return block;
    leati_lock(&jobs_lock);
    stager->held_bytes -= *got + flags_bytes;
    leati_unlock(&jobs_lock);
    return NULL;
}

/* Gives the job a new ring, see take_ring(). is_shared: further jobs may share it. Returns false without memory. */
static bool new_ring(struct leati_job *job, struct leati_stager *stager, bool is_shared, size_t wanted, size_t least,
                     bool may_wait)
{
    struct leati_shared_ring *ring = calloc(1, sizeof *ring);

    if (!ring)
        return false;
    ring->queue = is_shared ? calloc(1, sizeof *ring->queue) : NULL;
    ring->flags_bytes = is_shared ? LEATI_RING_JOBS * sizeof *ring->block : FLAGS_BYTES;
    ring->policy = job->policy;
    if (!is_shared || ring->queue)
        ring->block = take_ring(stager, job->policy, ring->flags_bytes, wanted, least, may_wait, &ring->bytes);
    if (!ring->block) {
        free(ring->queue);
        free(ring);
        return false;
    }
    ring->users = 1;
    ring->jobs = 1;
    ring->used[0] = true;
    job->shared = ring;
    job->flags = ring->block;
    return true;
}

/* Returns true if the copy may share a ring with others of its stream. */
static bool may_share(const struct leati_stager *stager, const struct leati_staging_request *request)
{
    size_t bytes = request->bytes + request->storage.lead;

    /* Copies of a storage in order have rings of their own, because the other end may send their bytes in any order. */
    if (request->direction != LEATI_DIRECTION_IN || request->eager || request->own_ring || request->unit_bytes ||
        request->storage.in_order)
        return false;
    return bytes > stager->ring_bytes / SHARING_PART;
}

/* Returns true if the flags for job number n, the next one in the ring, are free. Job n - LEATI_RING_JOBS had them, and
 * the jobs after that may read them until they are over, so all these must be over. */
static bool has_flags(const struct leati_shared_ring *ring)
{
    for (uint64_t i = 0; i <= LEATI_RING_COPIES_BACK; i++)
        if (ring->used[(ring->jobs + i) % LEATI_RING_JOBS])
            return false;
    return true;
}

/*
 * Lets a copy into the device share the ring of the copies before it on its stream, if that ring has whole bytes and was
 * made for this policy. With rings of their own, the workers would fill a ring ahead for each of many copies. This takes
 * much pinned memory, which the caches cannot hold, and when it runs out the last rings are short. Sets *begins if a copy
 * into the device is before it on its stream, and there is enough memory to begin a ring for those that come after it.
 */
static bool join_ring(struct leati_job *job, struct leati_stager *stager,
                      const struct leati_staging_request *request, enum leati_store_policy policy, size_t whole,
                      bool *begins)
{
    struct leati_shared_ring *ring = NULL;

    *begins = false;
    leati_lock(&jobs_lock);
    reap(stager);
    for (struct leati_job *before = stager->issued; before && !ring; before = before->next_issued) {
        /* The timeline too: another stream may have the address of one that was destroyed, and is not ordered. */
        if (before->stream != request->stream || before->timeline != request->timeline ||
            before->direction != LEATI_DIRECTION_IN)
            continue;
        *begins = stager->held_bytes + RING_SHARE * (uint64_t)whole <= stager->limit_bytes;
        if (before->shared && before->shared->queue && before->shared->policy == policy &&
            before->shared->bytes == whole)
            ring = before->shared;
    }
    /* An early copy must not wait for the turn of one that the stream has to reach first. */
    if (ring && ring->joinable && (ring->early || !request->early) && has_flags(ring)) {
        ring->users++;
        /* Until this job is submitted: that of another thread could come first in the stream, not in the ring. */
        ring->joinable = false;
        job->number = ring->jobs++;
        ring->used[job->number % LEATI_RING_JOBS] = true;
        job->shared = ring;
        job->flags = &ring->block[job->number % LEATI_RING_JOBS];
    }
    leati_unlock(&jobs_lock);
    return job->shared;
}

/* Lets other jobs share the ring of a job that was submitted as a whole, unless that is over. */
static void share_ring(struct leati_job *job)
{
    leati_lock(&jobs_lock);
    if (job->shared && job->shared->queue) {
        job->shared->end = job->end;
        job->shared->early = job->early;
        job->shared->joinable = true;
    }
    leati_unlock(&jobs_lock);
}

/* Returns the even chunk size of an eager copy: for IN a size that one thread copies quickly, for OUT half of the
 * copy. Returns 0 for other copies. */
static size_t eager_chunk(const struct leati_staging_request *request)
{
    if (!request->eager)
        return 0;
    return request->direction == LEATI_DIRECTION_IN ? EAGER_CHUNK_BYTES
                                                    : (request->bytes / 2 + 4095) / 4096 * 4096;
}

/* Returns how many of the largest chunks should fit into the ring; 0: the usual number. A very long write to
 * storage gets larger chunks, for the reason that ring_most() has. With a ring of two chunks, storage is written
 * from one while the other is filled. */
static unsigned chunks_in_ring(const struct leati_staging_request *request, size_t ring_bytes)
{
    bool write = request->storage.ops && request->direction == LEATI_DIRECTION_OUT;

    return write && request->bytes / (ring_bytes / 4) > WRITE_CHUNKS_MOST ? 2 : 0;
}

/* Returns the flags of the job that is before this one in a ring. */
static const struct leati_flags *flags_before(const struct leati_job *job)
{
    leati_assert(job->number);
    return &job->shared->block[(job->number - 1) % LEATI_RING_JOBS];
}

/* Fills in the chunks of a job. Returns false if there is no memory. */
static bool cut_job(struct leati_job *job, const struct leati_stager *stager,
                    const struct leati_staging_request *request, size_t ring_bytes)
{
    struct leati_cut cut = {.bytes = request->bytes,
                            .ring_bytes = ring_bytes,
                            .chunks_in_ring = chunks_in_ring(request, ring_bytes),
                            .most_bytes = request->chunk_most_bytes,
                            .unit_bytes = request->unit_bytes,
                            .even_bytes = eager_chunk(request),
                            .in_blocks = request->storage.ops,
                            .lead_bytes = request->storage.lead,
                            .part_bytes = request->storage.part_bytes,
                            .out = request->direction == LEATI_DIRECTION_OUT,
                            .threads = stager->share};

    if (job->shared && job->shared->queue) {
        cut.queue = job->shared->queue;
        cut.copy = job->number;
    }
    /* Two chunks of the copy before that are left, or the only one if the stream has not reached it, keep the link busy
     * while the first of this job is filled. Relaxed: only for speed. */
    if (job->number)
        cut.follows = atomic_load_explicit(&flags_before(job)->completed_chunks, memory_order_relaxed) + 1 <
                      job->shared->end;
    job->count = request->list ? 1 : leati_staging_cut(&cut, NULL);
    job->chunks = calloc(job->count, sizeof *job->chunks);
    if (!job->chunks)
        return false;
    if (request->list)
        *job->chunks =
            (struct leati_chunk){.bytes = request->bytes, .parts = (uint32_t)request->bytes, .part_bytes = 1};
    else
        leati_staging_cut(&cut, job->chunks);
    return true;
}

/* Takes the ring from a job that is not submitted. No other job joins that ring, see joinable. */
static void drop_ring(struct leati_job *job, struct leati_stager *stager)
{
    leati_lock(&jobs_lock);
    leave_ring(stager, job);
    leati_unlock(&jobs_lock);
}

/*
 * Returns the largest ring for the request. Each chunk takes two entries of the driver's queue for the stream.
 * When the queue is full (1020 entries on CUDA), the next driver call waits until the stream has executed older
 * entries, and so does the caller of leat. Only the caller may submit the chunks: a worker that had to call the
 * driver before the stream can continue could be blocked forever, see workers.h. A write to a file is often slower
 * than the link and would block its caller for most of its time. So a long write gets a larger ring, and chunks in
 * proportion.
 */
static size_t ring_most(const struct leati_stager *stager, const struct leati_staging_request *request)
{
    uint64_t wanted = request->bytes / RINGS_IN_WRITE;

    if (!request->storage.ops || request->direction != LEATI_DIRECTION_OUT || wanted <= stager->ring_bytes)
        return (size_t)stager->ring_bytes;
    return (size_t)(wanted < stager->write_ring_bytes ? wanted : stager->write_ring_bytes);
}

/* Sets the job's flags and its ring: the request's block if it has one, else new memory. Returns false if there is
 * no memory. */
static bool find_ring(struct leati_job *job, struct leati_stager *stager,
                      const struct leati_staging_request *request, size_t *ring_bytes)
{
    size_t unit_bytes = request->unit_bytes, wanted = 0, whole = ring_most(stager, request) / PAGE_BYTES * PAGE_BYTES;
    /* Copies reuse a shared ring, so its lines stay in the caches; and pread() writes them through the caches. */
    enum leati_store_policy policy = request->storage.ops ? LEATI_STORE_POLICY_CACHED : stager->choice.in;
    bool shares = may_share(stager, request), begins = false;
    /* The ring must hold at least a chunk of one unit. */
    size_t least =
        unit_bytes > RING_LEAST_BYTES ? leati_staging_ring_bytes(unit_bytes, SIZE_MAX) : RING_LEAST_BYTES;

    if (request->block) {
        leati_assert((uintptr_t)request->block % _Alignof(struct leati_flags) == 0);
        job->flags = request->block;
        init_flags(job->flags, 0);
        *ring_bytes = leati_staging_ring_bytes(request->bytes, SIZE_MAX);
        return true;
    }
    if (request->direction != LEATI_DIRECTION_HOST)
        wanted = leati_staging_ring_bytes(request->bytes + request->storage.lead, ring_most(stager, request));
    if (shares && join_ring(job, stager, request, policy, whole, &begins)) {
        job->policy = policy;
    } else {
        /* A copy that fits into a ring takes a whole one only if others may follow, as it follows others. */
        shares = shares && (begins || request->bytes + request->storage.lead > whole);
        if (shares)
            job->policy = policy;
        if (!new_ring(job, stager, shares, shares ? whole : wanted, least, !request->no_wait))
            return false;
    }
    init_flags(job->flags, 0);
    *ring_bytes = job->shared->bytes;
    if (!request->eager || *ring_bytes >= request->bytes + request->storage.lead)
        return true;
    /* An eager copy needs a ring for all its bytes, because the caller must not wait until the stream has emptied
     * a part of the ring. */
    drop_ring(job, stager);
    return false;
}

static struct leati_job *new_job(struct leati_stager *stager, const struct leati_staging_request *request)
{
    struct leati_job *job = calloc(1, sizeof *job);
    size_t ring_bytes;

    if (!job)
        return NULL;
    job->policy = request->eager ? LEATI_STORE_POLICY_STREAMING
                                 : leati_stager_policy(stager, request->direction, request->bytes);
    if (!find_ring(job, stager, request, &ring_bytes))
        goto free_job;
    if (!cut_job(job, stager, request, ring_bytes))
        goto give_ring_back;
    job->ring = job->shared ? (char *)job->shared->block + job->shared->flags_bytes : (char *)job->flags + FLAGS_BYTES;
    return job;

give_ring_back:
    if (!request->block)
        drop_ring(job, stager);
free_job:
    free(job);
    return NULL;
}

/* Sets the job's rows, and which part of the destination is to be prefaulted. */
static void set_reach(struct leati_job *job, const struct leati_staging_request *request)
{
    leati_assert(job->bytes && (job->dst || job->copy_list || job->storage.ops));
    job->reach_bytes = job->direction == LEATI_DIRECTION_IN || job->copy_list ? 0 : job->bytes;
    if (job->storage.write || job->storage.scattered)
        job->reach_bytes = 0;
    /* To ask which pages are there takes longer than such a read, which brings them anyway. */
    if (job->storage.ops && (job->bytes <= SHORT_READ_BYTES || leati_job_is_read_here(job)))
        job->reach_bytes = 0;
    if (request->to_rows) {
        job->in_rows = true;
        job->to_rows = *request->to_rows;
        job->from_rows = *request->from_rows;
        /* Do not prefault if the gaps are larger than the rows. */
        if (job->reach_bytes && leati_rows_reach(&job->to_rows, job->bytes) / 2 <= job->bytes)
            job->reach_bytes = leati_rows_reach(&job->to_rows, job->bytes);
        else
            job->reach_bytes = 0;
    }
    atomic_init(&job->prefaulted, leati_staging_resident(job->dst, job->reach_bytes) ? job->reach_bytes : 0);
}

/* Fills in the fields of a job that new_job() did not set, except holders. */
static void fill_job(struct leati_job *job, struct leati_stager *stager,
                     const struct leati_staging_request *request)
{
    job->direction = request->direction;
    job->early = request->early && !request->storage.detached && request->direction != LEATI_DIRECTION_OUT;
    job->dst = request->dst;
    job->src = request->src;
    job->bytes = request->bytes;
    job->end = job->direction == LEATI_DIRECTION_IN ? job->count + 1 : job->count + 2;
    if (request->storage.detached)
        job->end = 1;
    leati_assert(job->direction != LEATI_DIRECTION_DEVICE && job->count);
    job->eager = request->eager;
    job->deadline_ns = request->deadline_ns;
    atomic_init(&job->stopped_at, job->bytes);
    atomic_init(&job->fault, UINTPTR_MAX);
    job->failed_at = SIZE_MAX;
    job->stream = request->stream;
    job->storage = request->storage;
    atomic_init(&job->storage_held, job->storage.ops);
    if (job->storage.ops)
        job->storage.ops->hold(job->storage.object);
    job->cold = job->direction == LEATI_DIRECTION_IN && job->bytes >= COLD_LEAST_BYTES && !request->to_rows &&
                !job->storage.ops && !leati_staging_resident(job->src, job->bytes);
    if (request->list) {
        job->copy_list = request->list->copy;
        job->list = request->list->list;
    }
    set_reach(job, request);
    stager->hooks->timeline_hold(request->timeline);
    job->timeline = request->timeline;
    job->timeline_failed = stager->hooks->timeline_failed;
    job->hooks = stager->hooks;
}

/* Returns how many of the threads for files may work on one read that does not go past the cache: its device's part
 * of them, but at least THREADS_USUAL. With more threads than keep the device's link busy, most would wait, and keep
 * processors busy. */
static unsigned most_readers(const struct leati_stager *stager, unsigned threads)
{
    unsigned part;

    leati_assert(stager->devices);
    part = threads / stager->devices;
    part = part > THREADS_USUAL ? part : THREADS_USUAL;
    return threads < part ? threads : part;
}

unsigned leati_stager_share(const struct leati_stager *stager, const struct leati_storage *storage, size_t bytes)
{
    size_t useful = bytes / BYTES_FOR_A_THREAD;
    /* If the workers are few, helpers join them, and the limit counts both. */
    unsigned most = leati_workers_are_few(stager->workers) ? SHARE_LEAST : stager->share;

    if (storage->in_order)
        return 1;
    if (storage->ops) {
        size_t readers = bytes / FILE_BYTES_FOR_A_THREAD;

        /* Threads that read the cache need a processor each. Threads that wait for a disk or a network do not. */
        readers = readers < stager->threads ? readers : stager->threads;
        useful = storage->part_bytes ? bytes / storage->part_bytes : useful > readers ? useful : readers;
        most = atomic_load_explicit(&stager->file_threads, memory_order_relaxed);
        if (!storage->part_bytes && !storage->write)
            most = most_readers(stager, most);
    }
    useful = useful < SHARE_LEAST ? SHARE_LEAST : useful;
    return useful < most ? (unsigned)useful : most;
}

static struct leati_mem_op write_completed(struct leati_job *job, uint32_t value)
{
    return (struct leati_mem_op){.flag = &job->flags->completed_chunks, .value = value};
}

static struct leati_mem_op wait_staged(struct leati_job *job, uint32_t value)
{
    return (struct leati_mem_op){.flag = &job->flags->staged_chunks, .value = value, .wait = true};
}

/* Submits the job's DMAs and flag operations to the stream. One driver call submits consecutive flag operations
 * together, which halves the gap between two DMAs. */
static leat_status issue(struct leati_stager *stager, struct leati_job *job,
                         const struct leati_staging_request *request)
{
    const struct leati_staging_hooks *hooks = stager->hooks;
    struct leati_mem_op ops[4];
    unsigned submitted = 0;

    if (!job->early)
        ops[submitted++] = write_completed(job, 1);
    for (uint32_t c = 0; c < job->count && job->direction != LEATI_DIRECTION_HOST; c++) {
        const struct leati_chunk *chunk = &job->chunks[c];
        uint32_t staged = job->direction == LEATI_DIRECTION_IN ? c + 1 : chunk->after;

        leati_assert(staged <= job->count && submitted < 4);
        if (staged)
            ops[submitted++] = wait_staged(job, staged);
        if (submitted)
            LEATI_TRY(hooks->flags(stager->context, request->stream, ops, submitted));
        submitted = 0;
        LEATI_TRY(request->move(request->context, chunk->offset, chunk->bytes, job->ring + chunk->place));
        ops[submitted++] = write_completed(job, c + 2);
    }
    if (job->direction != LEATI_DIRECTION_IN && !job->storage.detached) {
        ops[submitted++] = wait_staged(job, job->count);
        ops[submitted++] = write_completed(job, job->end);
    }
    leati_assert(submitted && submitted <= 4);
    return hooks->flags(stager->context, request->stream, ops, submitted);
}

/* Called if only a part of the job could be submitted. Sets staged_chunks so that the stream does not wait for
 * workers in this part, and waits for the stream. If waiting fails too, the device is lost, and the job's memory
 * stays until leati_stager_end(). */
static void abandon(struct leati_stager *stager, struct leati_job *job, void *stream)
{
    struct leati_message why;

    leati_error_keep(&why);
    leati_assert(job->flags);
    leati_job_stop(job, LEAT_ERROR_DRIVER);
    leati_workers_remove(stager->workers, &job->task);
    leati_job_spoil(job); /* no thread is in move() any more */
    atomic_store_explicit(&job->stopped_at, 0, memory_order_relaxed);
    atomic_store(&job->flags->staged_chunks, job->count);
    leati_flag_wake(&job->flags->staged_chunks);
    if (stager->hooks->stream_synchronize(stager->context, stream) == LEAT_OK)
        atomic_store_explicit(&job->flags->completed_chunks, job->end, memory_order_release);
    leati_lock(&jobs_lock);
    reap(stager);
    leati_unlock(&jobs_lock);
    leati_error_restore(LEAT_ERROR_DRIVER, &why);
}

/* ---- copies that the caller works on ---- */

/* Returns how many workers to wake for a copy that the caller works on. Waking takes the caller's time, and is
 * useless if the copy ends before the workers arrive. */
static unsigned helpers_of(size_t bytes)
{
    return bytes < EAGER_HELPED_BYTES ? 0 : bytes < 2 * EAGER_HELPED_BYTES ? 1 : 2;
}

/* Returns how many workers to wake for a copy. The workers that are woken wake others. For a file of a few MiB
 * that takes as long as to read it, so the caller wakes more than one. */
static unsigned wakes_of(const struct leati_staging_request *request)
{
    if (request->eager)
        return helpers_of(request->bytes);
    return request->storage.ops && !request->storage.slow && !request->storage.in_order ? FILE_WAKES : 1;
}

/* Spins for a moment. Every EAGER_PAUSES calls yields, because the awaited thread may need this processor. */
static void wait_a_moment(unsigned looks)
{
    leati_pause();
    if (looks % EAGER_PAUSES == 0)
        sched_yield();
}

/* Stages an eager copy in, and submits the DMA of each chunk as soon as the chunk is staged, so the stream never
 * waits for a flag. */
static leat_status issue_staged(struct leati_stager *stager, struct leati_job *job,
                                const struct leati_staging_request *request)
{
    struct leati_mem_op end = write_completed(job, job->end);

    leati_assert(job->eager && job->early);
    for (uint32_t c = 0; c < job->count; c++) {
        const struct leati_chunk *chunk = &job->chunks[c];

        /* Acquire: makes the bytes that other threads have staged visible to this thread. */
        for (unsigned looks = 1; atomic_load_explicit(&job->flags->staged_chunks, memory_order_acquire) <= c;
             looks++)
            if (!leati_job_work_once(job))
                wait_a_moment(looks);
        if (atomic_load_explicit(&job->stopped, memory_order_relaxed) != LEAT_OK) {
            /* No thread works on the job after this, so the lowest failure is known. */
            leati_workers_remove(stager->workers, &job->task);
            (void)leati_job_report(job);
            break;
        }
        LEATI_TRY(request->move(request->context, chunk->offset, chunk->bytes, job->ring + chunk->place));
    }
    /* The last flag only tells the stager when the ring is free. A request's own block needs none, because its
     * owner finds out when the stream has completed the copy. */
    if (request->block)
        return LEAT_OK;
    /* Once the flag is submitted, another thread may end the job in reap(), which removes the task too. So remove
     * the task here, before the flag is submitted. */
    leati_workers_remove(stager->workers, &job->task);
    return stager->hooks->flags(stager->context, request->stream, &end, 1);
}

/* Releases a job whose ring belongs to the caller or is already free. */
static void drop_job(struct leati_stager *stager, struct leati_job *job)
{
    stager->hooks->timeline_release(job->timeline);
    job->timeline = NULL;
    leati_job_release(job);
}

/* Cleans up a job that could not be copied or submitted. is_held: this thread has a reference beside the stager's.
 */
static void give_up(struct leati_stager *stager, struct leati_job *job,
                    const struct leati_staging_request *request, bool is_held)
{
    abandon(stager, job, request->stream);
    if (request->block)
        drop_job(stager, job);
    else if (is_held)
        leati_job_release(job);
}

/* Submits the DMAs of an eager copy from the device. The stream writes a flag after each DMA except the last. The
 * last DMA needs no flag, because the caller then waits for the stream. */
static leat_status issue_out(struct leati_stager *stager, struct leati_job *job,
                             const struct leati_staging_request *request)
{
    leati_assert(job->eager && request->block);
    for (uint32_t c = 0; c < job->count; c++) {
        const struct leati_chunk *chunk = &job->chunks[c];
        struct leati_mem_op flag = write_completed(job, c + 2);

        LEATI_TRY(request->move(request->context, chunk->offset, chunk->bytes, job->ring + chunk->place));
        if (c + 1 < job->count)
            LEATI_TRY(stager->hooks->flags(stager->context, request->stream, &flag, 1));
    }
    return LEAT_OK;
}

/* Copies the bytes of an eager copy from its ring to the destination. Each chunk follows when its DMA is complete,
 * and the last chunk when the stream is idle. */
static leat_status empty_ring(struct leati_stager *stager, struct leati_job *job,
                              const struct leati_staging_request *request)
{
    uint64_t asked = leati_clock_ns();

    leati_assert(job->eager && request->block);
    for (unsigned looks = 1;; looks++) {
        if (leati_job_work_once(job))
            continue;
        /* Acquire: makes the bytes that the DMAs wrote visible to this thread. */
        if (atomic_load_explicit(&job->flags->completed_chunks, memory_order_acquire) >= job->count ||
            job->count == 1)
            break;
        wait_a_moment(looks);
        if (looks % EAGER_PAUSES)
            continue;
        /* The stream may have failed, so do not spin for long: stream_synchronize() below returns the failure. */
        if (leati_clock_ns() - asked > EAGER_ASK_NS)
            break;
    }
    LEATI_TRY(stager->hooks->stream_synchronize(stager->context, request->stream));
    /* Release: workers that see the new value also see the bytes of the last DMA. */
    atomic_store_explicit(&job->flags->completed_chunks, job->end, memory_order_release);
    for (unsigned looks = 1; !leati_job_staged(job); looks++)
        if (!leati_job_work_once(job))
            wait_a_moment(looks);
    return LEAT_OK;
}

static leat_status finish_eager(struct leati_stager *stager, struct leati_job *job, bool kept_by_caller)
{
    leat_status status;
    char message[LEATI_JOB_MESSAGE_BYTES];

    /* This waits for workers that are still leaving the task. */
    if (kept_by_caller)
        leati_workers_remove(stager->workers, &job->task);
    status = (leat_status)atomic_load_explicit(&job->stopped, memory_order_relaxed);
    /* The failure of a file was reported to the timeline, as if workers had made the copy. */
    if (job->storage.ops)
        status = LEAT_OK;
    if (status != LEAT_OK) {
        leati_job_message(job, message, sizeof message);
        status = leati_fail(status, "%s", message);
    }
    if (kept_by_caller)
        drop_job(stager, job);
    else
        leati_job_release(job);
    return status;
}

leat_status leati_stager_reserve(struct leati_stager *stager, const struct leati_staging_request *request,
                                 struct leati_job **prepared)
{
    struct leati_message before;
    struct leati_job *job;

    leati_assert(stager->workers && request->bytes);
    leati_assert(!request->to_rows == !request->from_rows);
    leati_assert(!request->list || request->direction == LEATI_DIRECTION_HOST);
    leati_assert(!request->storage.ops || (!request->to_rows && !request->list));
    leati_assert(!request->storage.ops || !request->eager || (request->storage.at_hand && !request->deadline_ns));
    leati_assert(!request->storage.ops || request->storage.in_order ||
                 atomic_load_explicit(&stager->file_threads, memory_order_relaxed));
    leati_assert(!request->storage.in_order ||
                 (!request->storage.scattered && !request->storage.detached && !request->eager &&
                  atomic_load_explicit(&stager->storage_threads, memory_order_relaxed)));
    leati_assert(!request->storage.detached || request->direction == LEATI_DIRECTION_HOST);
    /* OUT needs the caller's block, because the caller reads the ring until the call returns. */
    leati_assert(!request->eager || (request->direction == LEATI_DIRECTION_OUT && request->block) ||
                 (request->early && request->direction == LEATI_DIRECTION_IN));
    leati_assert(!request->block || request->eager);
    leati_error_keep(&before);
    leati_assert(request->begin && request->end && stager->hooks);
    leati_assert(request->move || request->direction == LEATI_DIRECTION_HOST);
    job = new_job(stager, request);
    if (!job) {
        leati_error_restore(LEATI_DECLINED, &before);
        return LEATI_DECLINED;
    }
    fill_job(job, stager, request);
    *prepared = job;
    return LEAT_OK;
}

void leati_stager_drop(struct leati_stager *stager, struct leati_job *job)
{
    drop_ring(job, stager);
    atomic_init(&job->holders, 1u);
    drop_job(stager, job);
}

/* Gives the job to the workers, if they have something to do for it. */
static void give_to_workers(struct leati_stager *stager, struct leati_job *job,
                            const struct leati_staging_request *request)
{
    bool here = leati_job_begin_here(job), joins = leati_job_is_read_here(job);
    unsigned wakes = joins ? helpers_of(job->bytes) : wakes_of(request);

    if (here && leati_job_staged(job))
        return;
    /* Only a nudge lets the job go on then. No other thread knows it yet, so look() needs no lock. */
    if (here && job->task.type->look(&job->task, false) == LEATI_AWAITING)
        wakes = 0;
    leati_workers_add(stager->workers, &job->task, wakes);
    if (joins)
        leati_workers_join(stager->workers, &job->task);
    /* The nudge may have come before the workers knew the job. If it comes later, a worker sees the job. */
    else if (here && !wakes && leati_workers_has_part(stager->workers, &job->task))
        leati_workers_nudge();
}

/* Submits the job to the stream. */
static leat_status give_to_stream(struct leati_stager *stager, struct leati_job *job,
                                  const struct leati_staging_request *request)
{
    leat_status status;

    /* The stream was idle, and the workers or this call have moved everything. */
    if (job->direction == LEATI_DIRECTION_HOST && job->early && job->storage.ops && leati_job_staged(job)) {
        atomic_store_explicit(&job->flags->completed_chunks, job->end, memory_order_release);
        return LEAT_OK;
    }
    request->begin(request->context);
    status = !request->eager                            ? issue(stager, job, request)
             : request->direction == LEATI_DIRECTION_IN ? issue_staged(stager, job, request)
                                                        : issue_out(stager, job, request);
    request->end(request->context);
    return status;
}

leat_status leati_stager_submit(struct leati_stager *stager, const struct leati_staging_request *request,
                                struct leati_job *job, struct leati_job **started)
{
    /* True if this call needs a reference beside the stager's, which may end meanwhile. */
    bool is_held = !request->block;
    const struct leati_storage *storage = &request->storage;
    unsigned share = leati_stager_share(stager, storage, job->bytes);
    unsigned most = stager->threads < THREADS_USUAL ? stager->threads : THREADS_USUAL;
    leat_status status;

    leati_assert(!request->eager || !started);
    leati_assert(!request->block || request->eager);
    /* The workers may release the storage before this call returns, and abandon() needs it. */
    if (storage->ops)
        storage->ops->hold(storage->object);
    /* The stager may drop its reference on another thread as soon as the stream has completed the copy. */
    atomic_init(&job->holders, is_held ? 2u : 1u);
    if (!request->block)
        leati_stager_keep(stager, job);
    /* If copies follow one another in a ring, the device's threads are awake. Those that may not work on the first of
     * them find no part in the others, and would only look for one again and again. */
    if (job->number && share < most)
        share = most;
    leati_job_prepare(job, share);
    give_to_workers(stager, job, request);
    status = give_to_stream(stager, job, request);
    if (status == LEAT_OK)
        share_ring(job);
    if (status == LEAT_OK && request->eager && request->direction == LEATI_DIRECTION_OUT)
        status = empty_ring(stager, job, request);
    if (status != LEAT_OK)
        give_up(stager, job, request, is_held);
    else if (request->eager)
        status = finish_eager(stager, job, request->block);
    else if (started)
        *started = job;
    else
        leati_job_release(job);
    if (storage->ops)
        storage->ops->release(storage->object);
    return status;
}

size_t leati_stager_copy_now(struct leati_stager *stager, const struct leati_list *list, size_t bytes,
                             size_t part_bytes, uintptr_t *fault)
{
    struct leati_flags flags;
    struct leati_chunk chunk = {.bytes = list->count};
    struct leati_job job = {
        .direction = LEATI_DIRECTION_HOST, .bytes = bytes, .flags = &flags, .chunks = &chunk, .count = 1};

    leati_assert(list->count && bytes && part_bytes && part_bytes <= bytes);
    chunk.part_bytes = list->count / (bytes / part_bytes);
    chunk.part_bytes = chunk.part_bytes ? chunk.part_bytes : 1;
    chunk.parts = (uint32_t)((list->count + chunk.part_bytes - 1) / chunk.part_bytes);
    atomic_init(&flags.staged_chunks, 0);
    atomic_init(&flags.completed_chunks, 1);
    atomic_init(&job.prefaulted, bytes);
    atomic_init(&job.stopped_at, list->count);
    atomic_init(&job.fault, UINTPTR_MAX);
    job.copy_list = list->copy;
    job.list = list->list;
    job.eager = true;
    leati_job_prepare(&job, leati_stager_share(stager, &job.storage, bytes));
    leati_workers_add(stager->workers, &job.task, helpers_of(bytes));
    leati_job_work(&job);
    /* Threads have taken all parts. This call waits for those that are still copying. */
    leati_workers_remove(stager->workers, &job.task);
    *fault = atomic_load_explicit(&job.fault, memory_order_relaxed);
    return (size_t)atomic_load_explicit(&job.stopped_at, memory_order_relaxed);
}

/* ---- progress ---- */

void leati_job_look(struct leati_job *job, struct leati_job_state *state)
{
    leati_lock(&jobs_lock);
    /* Read state->done before state->staged, because the copy continues meanwhile. In the other order a job could
     * appear as done but not as staged. */
    state->done = job->over || is_done(job);
    state->durable = state->done && job->storage.detached;
    if (!job->over && job->storage.detached)
        state->done = atomic_load_explicit(&job->flags->completed_chunks, memory_order_acquire);
    state->staged = state->done || leati_job_staged(job);
    state->arrived_bytes = job->over ? job->arrived_bytes : arrived(job);
    /* A job that was stopped after all its bytes had been copied has succeeded. */
    state->status = LEAT_OK;
    if (atomic_load_explicit(&job->stopped_at, memory_order_relaxed) < job->bytes)
        state->status = (leat_status)atomic_load_explicit(&job->stopped, memory_order_relaxed);
    leati_unlock(&jobs_lock);
}

/* ---- help ---- */

void leati_stager_join(struct leati_stager *stager, struct leati_job *job)
{
    leati_workers_join(stager->workers, &job->task);
}

bool leati_job_help(struct leati_job *job)
{
    struct leati_workers *workers = NULL;

    /* While this thread holds the lock, the job cannot end, so the stager and its workers exist. After that, a
     * thread that ends the job waits for this thread, because this thread has entered the task. */
    leati_lock(&jobs_lock);
    if (!job->over && !job->storage.ops && leati_workers_enter(job->stager->workers, &job->task))
        workers = job->stager->workers;
    leati_unlock(&jobs_lock);
    return workers && leati_workers_work(workers, &job->task);
}

/* Yields or sleeps for a moment. idle_ns: how long there was nothing to copy. */
static void rest(uint64_t idle_ns)
{
    struct timespec pause = {.tv_nsec = 20000};

    if (idle_ns < HELPER_AWAKE_NS)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

/* Helps until the caller's wait is over, or until no copy needs help; then the driver's own wait is better. Calls
 * query() often, because the caller may wait for other work than the copies, and these may be blocked for long. */
static leat_status help_until(struct leati_workers *workers, leat_status (*query)(void *context), void *context)
{
    uint64_t worked = leati_clock_ns(), asked = 0, now;
    leat_status status = LEAT_NOT_READY;

    while (leati_workers_want_help(workers)) {
        now = leati_clock_ns();
        if (now - asked >= HELPER_ASK_NS) {
            status = query(context);
            asked = now;
        }
        if (status != LEAT_NOT_READY)
            break;
        if (leati_workers_help(workers))
            worked = leati_clock_ns();
        else
            rest(now - worked);
    }
    return status;
}

LEATI_HOT void leati_stager_help_while_waiting(struct leati_stager *stager, leat_status (*query)(void *context),
                                               void *context)
{
    struct leati_workers *workers = stager->workers;
    struct leati_message before;

    leati_assert(query);
    if (!workers || !leati_workers_want_help(workers) || !leati_workers_help_begins(workers))
        return;
    leati_error_keep(&before);
    /* Drop the message of a failed query, because the driver's wait, which follows, will report the failure. */
    if (help_until(workers, query, context) < LEAT_OK)
        leati_error_restore(LEAT_OK, &before);
    leati_workers_help_ends(workers);
}

/* ---- rest ---- */

/* Returns true if the stream waits for a copy of a file or of other storage that may go on for a while. */
static bool waits_long(const struct leati_stager *stager, const void *stream)
{
    bool found = false;

    leati_lock(&jobs_lock);
    for (const struct leati_job *job = stager->issued; job && !found; job = job->next_issued) {
        uint32_t staged = leati_job_staged_chunks(job);

        found = job->storage.ops && !job->storage.detached && job->stream == stream && staged < job->count &&
                (job->storage.slow || job->storage.in_order ||
                 job->bytes - job->chunks[staged].offset >= REST_BYTES);
    }
    leati_unlock(&jobs_lock);
    return found;
}

LEATI_HOT void leati_stager_rest_while_waiting(struct leati_stager *stager, const void *stream,
                                               leat_status (*query)(void *context), void *context)
{
    struct timespec pause = {.tv_nsec = REST_NS};
    leat_status status = LEAT_NOT_READY;
    struct leati_message before;
    uint64_t begun;

    if (!atomic_load_explicit(&stager->file_jobs, memory_order_relaxed))
        return;
    leati_error_keep(&before);
    begun = leati_clock_ns();
    while (status == LEAT_NOT_READY && waits_long(stager, stream)) {
        if (leati_clock_ns() - begun < REST_AFTER_NS)
            sched_yield();
        else
            nanosleep(&pause, NULL);
        status = query(context);
    }
    /* Drop the message of a failed query, because the driver's wait, which follows, will report the failure. */
    if (status < LEAT_OK)
        leati_error_restore(LEAT_OK, &before);
}
