/* job.c - copies the parts of a job on worker threads, and reports its failures. See job.h. */
#include "staging/job.h"
#include "staging/staging.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/flag.h"
#include "base/lock.h"

#include <errno.h>
#include <stdio.h>

#define PREFAULT_BYTES ((size_t)2 << 20)

/* Protects failed_at and error of all jobs. Threads take it only if a storage has failed. */
static struct leati_lock failures_lock = LEATI_LOCK_INITIALIZER;

/* ---- one part of a job ---- */

void leati_job_stop(struct leati_job *job, leat_status why)
{
    int none = LEAT_OK;

    leati_assert(why != LEAT_OK);
    /* Relaxed: threads that need the value read it after an acquire of staged_chunks, which orders the accesses.
     */
    atomic_compare_exchange_strong_explicit(&job->stopped, &none, (int)why, memory_order_relaxed,
                                            memory_order_relaxed);
}

static bool has_stopped(struct leati_job *job)
{
    if (atomic_load_explicit(&job->stopped, memory_order_relaxed) != LEAT_OK)
        return true;
    if (!job->deadline_ns || leati_clock_ns() < job->deadline_ns)
        return false;
    leati_job_stop(job, LEAT_ERROR_DEADLINE);
    return true;
}

static void lower(_Atomic uintptr_t *least, uintptr_t value)
{
    uintptr_t now = atomic_load_explicit(least, memory_order_relaxed);

    while (value < now &&
           !atomic_compare_exchange_weak_explicit(least, &now, value, memory_order_relaxed, memory_order_relaxed))
        continue;
}

/* Returns true if the chunks whose place in the ring chunk takes have left it. */
static bool has_room(const struct leati_job *job, const struct leati_chunk *chunk)
{
    uint64_t number = job->number % LEATI_RING_JOBS;
    const struct leati_flags *first = job->flags - number;
    const struct leati_flags *flags = &first[(job->number - chunk->copies_back) % LEATI_RING_JOBS];

    /* Acquire: the DMA's reads of the ring come before this thread's writes to it. */
    return !chunk->after ||
           atomic_load_explicit(&flags->completed_chunks, memory_order_acquire) >= chunk->after + 1;
}

/* Returns true if the parts of chunk c may be copied now. */
static bool can_copy(const struct leati_job *job, uint32_t c)
{
    leati_assert(c < job->count);
    switch (job->direction) {
    case LEATI_DIRECTION_IN:
        return (job->early || leati_job_completed(job) >= 1) && has_room(job, &job->chunks[c]);
    case LEATI_DIRECTION_OUT:
        return leati_job_completed(job) >= c + 2;
    default:
        return job->early || leati_job_completed(job) >= 1;
    }
}

static enum leati_taken take_part(struct leati_job *job, uint32_t *c, uint32_t *part)
{
    /* Relaxed: job->at only hands out parts. The flags order the accesses to the bytes. */
    uint64_t at = atomic_load_explicit(&job->at, memory_order_relaxed), next;

    do {
        *c = (uint32_t)(at >> 32);
        *part = (uint32_t)at;
        if (*c >= job->count)
            return LEATI_NOTHING_LEFT;
        if (!can_copy(job, *c))
            return LEATI_NOT_YET;
        next = *part + 1 < job->chunks[*c].parts ? at + 1 : (uint64_t)(*c + 1) << 32;
    } while (
        !atomic_compare_exchange_weak_explicit(&job->at, &at, next, memory_order_relaxed, memory_order_relaxed));
    leati_assert(*part < job->chunks[*c].parts);
    return LEATI_TAKEN;
}

/* Copies a part of a job whose pageable side has gaps between rows. ring: the part's address in the ring. */
static size_t copy_rows(struct leati_job *job, size_t offset, char *ring, size_t bytes, uintptr_t *fault)
{
    bool in = job->direction == LEATI_DIRECTION_IN, out = job->direction == LEATI_DIRECTION_OUT;
    struct leati_rows packed = leati_rows_dense(ring);

    leati_assert(job->in_rows && !job->copy_list);
    return leati_staging_copy_rows(in ? &packed : &job->to_rows, in ? 0 : offset, out ? &packed : &job->from_rows,
                                   out ? 0 : offset, bytes, job->policy, fault);
}

/* Stops a job because its storage failed. Several parts may fail at once with different errors, so keeps the error
 * of the part at the lowest offset. A failure replaces a cancellation or a deadline that came while the part ran,
 * because the storage may have changed: a commit fails so after the file has its name. */
static void fail_storage(struct leati_job *job, size_t at, int error)
{
    leat_status why = error == EFAULT ? LEAT_ERROR_POINTER : error < 0 ? (leat_status)error : LEAT_ERROR_FILE;
    int stopped;

    leati_lock(&failures_lock);
    leati_job_stop(job, why);
    stopped = atomic_load_explicit(&job->stopped, memory_order_relaxed);
    if (stopped == LEAT_ERROR_CANCELLED || stopped == LEAT_ERROR_DEADLINE)
        atomic_store_explicit(&job->stopped, (int)why, memory_order_relaxed);
    if (at < job->failed_at && atomic_load_explicit(&job->stopped, memory_order_relaxed) == (int)why) {
        job->failed_at = at;
        job->error = error;
    }
    leati_unlock(&failures_lock);
}

/* Only a job whose storage is in order has one thread at a time, so only it uses part_moved. */
static size_t moved_before(const struct leati_job *job)
{
    return job->storage.in_order ? job->part_moved : 0;
}

static void forget_moved(struct leati_job *job)
{
    if (job->storage.in_order)
        job->part_moved = 0;
}

/* Moves a part between memory and storage. memory: the part's address in the ring; ignored for HOST, which has no
 * ring. Returns false if the storage is not ready for the rest of the part. */
static bool move_part(struct leati_job *job, size_t offset, char *memory, size_t bytes)
{
    const struct leati_storage *storage = &job->storage;
    size_t before = moved_before(job), moved;
    int error = 0;

    leati_assert(before < bytes);
    if (job->direction == LEATI_DIRECTION_HOST)
        memory = storage->scattered ? NULL : storage->write ? (char *)job->src + offset : job->dst + offset;
    moved = before + storage->ops->move(storage->object, storage->offset + offset + before,
                                        memory ? memory + before : NULL, bytes - before, storage->write, &error);
    if (moved < bytes && storage->in_order && error == LEATI_STORAGE_NOT_YET) {
        job->part_moved = moved;
        return false;
    }
    forget_moved(job);
    if (moved == bytes)
        return true;
    lower(&job->stopped_at, offset + moved);
    leati_job_spoil(job);
    if (error == EFAULT && memory)
        lower(&job->fault, (uintptr_t)memory + moved);
    fail_storage(job, offset + moved, error);
    return true;
}

/* Copies a part. Returns false if its storage is not ready for the rest of it. */
static bool copy_part(struct leati_job *job, const struct leati_chunk *chunk, uint32_t part)
{
    size_t start, bytes = leati_chunk_part(chunk, part, &start), offset = chunk->offset + start;
    char *ring = job->ring + chunk->place + start;
    uintptr_t fault = 0;
    size_t copied;

    leati_assert(part < chunk->parts && start < chunk->bytes);
    leati_assert(job->copy_list || offset + bytes <= job->bytes);
    if (has_stopped(job)) {
        lower(&job->stopped_at, offset + moved_before(job));
        forget_moved(job);
        leati_job_spoil(job);
        return true;
    }
    if (job->storage.ops)
        return move_part(job, offset, ring, bytes);
    if (job->cold)
        leati_staging_fetch(job->src + offset, bytes);
    if (job->copy_list)
        copied = job->copy_list(job->list, offset, bytes, &fault);
    else if (job->in_rows)
        copied = copy_rows(job, offset, ring, bytes, &fault);
    else
        copied = leati_staging_copy_guarded(job->direction == LEATI_DIRECTION_IN ? ring : job->dst + offset,
                                            job->direction == LEATI_DIRECTION_OUT ? ring : job->src + offset,
                                            bytes, job->policy, &fault);
    if (copied == bytes)
        return true;
    leati_assert(copied < bytes && fault);
    /* Several threads may fail at once, so keep the lowest address. */
    lower(&job->fault, fault);
    lower(&job->stopped_at, offset + copied);
    leati_job_stop(job, LEAT_ERROR_POINTER);
    return true;
}

/* Returns true if this is the status of a copy whose memory or storage failed. Other copies that stopped were
 * cancelled, or passed their deadline, or their device failed. */
static bool is_failure(int stopped)
{
    return stopped != LEAT_OK && stopped != LEAT_ERROR_CANCELLED && stopped != LEAT_ERROR_DEADLINE &&
           stopped != LEAT_ERROR_DRIVER && stopped != LEAT_ERROR_DEVICE_LOST;
}

/* Stores a failure in the job's outcome, if it has one. */
static void tell_outcome(struct leati_job *job, leat_status status, const char *message)
{
    void *outcome;

    leati_lock(&failures_lock);
    job->failure_known = true;
    outcome = job->outcome;
    leati_unlock(&failures_lock);
    if (outcome)
        job->hooks->outcome_failed(outcome, status, message);
}

void leati_job_set_outcome(struct leati_job *job, void *outcome)
{
    char message[LEATI_JOB_MESSAGE_BYTES];
    bool failure_known;

    leati_assert(!job->outcome && outcome);
    job->hooks->outcome_begins(outcome);
    leati_lock(&failures_lock);
    job->outcome = outcome;
    failure_known = job->failure_known;
    leati_unlock(&failures_lock);
    if (!failure_known)
        return;
    leati_job_message(job, message, sizeof message);
    /* Relaxed: failures_lock orders this after the stop, which came before the failure was reported. */
    job->hooks->outcome_failed(outcome, (leat_status)atomic_load_explicit(&job->stopped, memory_order_relaxed),
                               message);
}

bool leati_job_report(struct leati_job *job)
{
    char message[LEATI_JOB_MESSAGE_BYTES];
    int stopped = atomic_load_explicit(&job->stopped, memory_order_relaxed);

    /* The call that makes an eager copy of memory returns the failure. */
    if ((job->eager && !job->storage.ops) || !is_failure(stopped))
        return true;
    if (atomic_exchange_explicit(&job->reported, true, memory_order_relaxed))
        return false;
    leati_job_message(job, message, sizeof message);
    leati_assert(job->timeline_failed && job->timeline);
    job->timeline_failed(job->timeline, (leat_status)stopped, message);
    tell_outcome(job, (leat_status)stopped, message);
    return true;
}

void leati_job_release_storage(struct leati_job *job)
{
    if (!job->storage.ops || !atomic_load_explicit(&job->storage_held, memory_order_acquire))
        return;
    job->storage.ops->release(job->storage.object);
    /* Release: a thread that sees the value frees the job after this use of it. */
    atomic_store_explicit(&job->storage_held, false, memory_order_release);
}

/* Called when staged_chunks has its last value: a job that has not stopped has moved all its bytes. */
static void finish_storage(struct leati_job *job)
{
    if (atomic_load_explicit(&job->stopped, memory_order_relaxed) == LEAT_OK)
        leati_job_release_storage(job);
}

/* Called after a part of chunk c was copied: advances staged_chunks over all chunks whose parts are finished. The
 * accesses are seq_cst, because each thread increments the counter of its own chunk and then reads the counters of
 * other chunks. When two threads finish adjacent chunks at once, at least one of them must see the increment of
 * the other, or no thread would advance staged_chunks over the second chunk. */
static void finish_part(struct leati_job *job, uint32_t c)
{
    _Atomic uint32_t *flag = &job->flags->staged_chunks;
    uint32_t staged, seen;

    leati_assert(c < job->count);
    if (atomic_fetch_add(&job->chunks[c].finished, 1) + 1 != job->chunks[c].parts)
        return;
    staged = atomic_load(flag);
    while (staged < job->count && atomic_load(&job->chunks[staged].finished) == job->chunks[staged].parts) {
        /* The failure must be known before staged_chunks lets the stream continue. If another thread is reporting
         * it, that thread will advance staged_chunks. */
        if (staged + 1 == job->count && !leati_job_report(job))
            return;
        seen = staged;
        if (!atomic_compare_exchange_strong(flag, &seen, seen + 1)) {
            staged = seen;
            continue;
        }
        leati_flag_wake(flag); /* a stream of the CPU device may sleep for it */
        if (++staged == job->count)
            finish_storage(job);
    }
}

static bool is_prefaulted(const struct leati_job *job)
{
    return atomic_load_explicit(&job->prefaulted, memory_order_relaxed) >= job->reach_bytes;
}

/* Prefaults a piece of the destination, before parts can be copied. Returns false if no piece is left. */
static bool prefault(struct leati_task *task)
{
    struct leati_job *job = (struct leati_job *)task;
    size_t at;

    if (is_prefaulted(job))
        return false;
    at = atomic_fetch_add_explicit(&job->prefaulted, PREFAULT_BYTES, memory_order_relaxed);
    if (at >= job->reach_bytes)
        return false;
    leati_assert(job->direction != LEATI_DIRECTION_IN && !job->copy_list);
    leati_staging_prefault(job->dst + at,
                           job->reach_bytes - at < PREFAULT_BYTES ? job->reach_bytes - at : PREFAULT_BYTES);
    return true;
}

/* ---- a job as a task of the workers ---- */

/* Returns true if a storage in order can go on, or if the job has stopped, so that its parts are skipped. The job must
 * have parts left, because its storage is released behind the last one. */
static bool storage_is_ready(const struct leati_job *job)
{
    const struct leati_storage *storage = &job->storage;

    leati_assert(!storage->in_order || storage->ops);
    return !storage->in_order || !storage->ops->ready ||
           atomic_load_explicit(&job->stopped, memory_order_relaxed) != LEAT_OK ||
           (job->deadline_ns && leati_clock_ns() >= job->deadline_ns) || storage->ops->ready(storage->object);
}

static enum leati_taken work_on_part(struct leati_task *task)
{
    struct leati_job *job = (struct leati_job *)task;
    uint32_t c, part;
    enum leati_taken taken;

    /* Only this thread takes parts of a storage in order, so none can take the last one meanwhile. */
    if (job->storage.in_order && atomic_load_explicit(&job->at, memory_order_relaxed) >> 32 < job->count &&
        !storage_is_ready(job))
        return LEATI_NOT_YET;
    taken = take_part(job, &c, &part);
    if (taken != LEATI_TAKEN)
        return taken;
    if (!copy_part(job, &job->chunks[c], part)) {
        /* No other thread takes parts of this job, so the part can be given back. Relaxed, as in take_part(). */
        atomic_store_explicit(&job->at, (uint64_t)c << 32 | part, memory_order_relaxed);
        return LEATI_NOT_YET;
    }
    finish_part(job, c);
    return LEATI_TAKEN;
}

/* Returns true if move() of the job's storage may also be called on threads that are no workers. */
static bool moves_here(const struct leati_job *job)
{
    /* With one chunk such a thread can do everything that is left. */
    return job->storage.in_order && job->count == 1 && job->bytes <= job->storage.here_bytes;
}

/* Tells a worker or a helper whether the job has work for it now. Helpers (threads that wait for something else)
 * only copy bytes that are in memory, and move small parts of storages that never block. They neither prefault
 * pages nor read pages or files from storage, because this may take long, and the helper's own wait may end at any
 * moment. */
static enum leati_taken look(const struct leati_task *task, bool helper)
{
    const struct leati_job *job = (const struct leati_job *)task;
    /* Read job->at once, because other threads change it. */
    uint32_t c = (uint32_t)(atomic_load_explicit(&job->at, memory_order_relaxed) >> 32);

    /* A thread works on it, which may give its part back, or release the storage. It looks again when it leaves. */
    if (job->storage.in_order && task->workers)
        return LEATI_AWAITING;
    if (c >= job->count)
        return LEATI_NOTHING_LEFT;
    if (can_copy(job, c)) {
        if (helper && (job->cold || (job->storage.ops && !moves_here(job))))
            return LEATI_NOT_YET;
        if (storage_is_ready(job))
            return LEATI_TAKEN;
        /* Nobody nudges the workers when a deadline passes. */
        return !helper && !is_prefaulted(job) ? LEATI_TAKEN : job->deadline_ns ? LEATI_NOT_YET : LEATI_AWAITING;
    }
    return helper || is_prefaulted(job) ? LEATI_NOT_YET : LEATI_TAKEN;
}

/* Returns true if the stream has reached the copy, or if the job need not wait for this. New parts may then become
 * available soon. */
static bool is_lively(const struct leati_task *task)
{
    const struct leati_job *job = (const struct leati_job *)task;

    return !(job->storage.in_order && task->workers) && storage_is_ready(job) &&
           (job->early || leati_job_completed(job) > 0);
}

static const struct leati_task_type copy_type = {
    .class = LEATI_WORK_COPIES, .work = work_on_part, .look = look, .is_lively = is_lively, .prepare = prefault};

static const struct leati_task_type file_type = {
    .class = LEATI_WORK_FILES, .work = work_on_part, .look = look, .is_lively = is_lively, .prepare = prefault};

static const struct leati_task_type storage_type = {
    .class = LEATI_WORK_STORAGE, .work = work_on_part, .look = look, .is_lively = is_lively, .prepare = prefault};

void leati_job_prepare(struct leati_job *job, unsigned share)
{
    leati_assert(share && job->flags && job->chunks && job->count && job->direction != LEATI_DIRECTION_DEVICE);
    job->task = (struct leati_task){
        .type = job->storage.in_order ? &storage_type : job->storage.ops ? &file_type : &copy_type,
        .share = share,
        .owned = job->eager || leati_job_is_read_here(job),
        .flag = &job->flags->completed_chunks,
        .turn = job->shared};
}

void leati_job_work(struct leati_job *job)
{
    while (work_on_part(&job->task) == LEATI_TAKEN)
        continue;
}

bool leati_job_begin_here(struct leati_job *job)
{
    if (!moves_here(job))
        return false;
    leati_job_work(job);
    return true;
}

bool leati_job_work_once(struct leati_job *job)
{
    return work_on_part(&job->task) == LEATI_TAKEN || prefault(&job->task);
}

/* ---- messages ---- */

/* Fills text with the message of a storage's failure. at: number of bytes that were moved before the failure. */
static void describe_storage(const struct leati_job *job, size_t at, char *text, size_t bytes)
{
    const struct leati_storage *storage = &job->storage;
    char why[400];
    size_t failed_at;
    int error;

    leati_lock(&failures_lock);
    failed_at = job->failed_at;
    error = job->error;
    leati_unlock(&failures_lock);
    leati_assert(failed_at < job->bytes);
    storage->ops->describe(storage->object, storage->offset + failed_at, storage->write, error, why, sizeof why);
    if (storage->scattered || storage->in_order)
        snprintf(text, bytes, "%s %zu bytes stopped after %zu bytes: %s", storage->write ? "writing" : "reading",
                 job->bytes, at, why);
    else
        snprintf(text, bytes, "%s %zu bytes at offset %llu stopped after %zu bytes: %s",
                 storage->write ? "writing" : "reading", job->bytes, (unsigned long long)storage->offset, at, why);
}

void leati_job_message(const struct leati_job *job, char *text, size_t bytes)
{
    leat_status why = atomic_load_explicit(&job->stopped, memory_order_relaxed);
    size_t at = atomic_load_explicit(&job->stopped_at, memory_order_relaxed);

    switch (why) {
    case LEAT_OK:
        snprintf(text, bytes, "%s", "");
        break;
    case LEAT_ERROR_POINTER:
        if (job->storage.scattered || job->storage.in_order)
            describe_storage(job, at, text, bytes);
        else if (job->copy_list)
            snprintf(
                text, bytes,
                "a copy between layouts from %p to %p stopped: the pageable memory at %p could not be reached (unmapped, protected, or its file shrank); keep it until the stream has completed the copy",
                (const void *)job->src, (void *)job->dst,
                (void *)atomic_load_explicit(&job->fault, memory_order_relaxed));
        else
            snprintf(text, bytes,
                     "a copy of %zu bytes from %p to %p stopped after %zu bytes: the pageable memory at %p could not be reached (unmapped, protected, or its file shrank); keep it until the stream has completed the copy",
                     job->bytes, (const void *)job->src, (void *)job->dst, at,
                     (void *)atomic_load_explicit(&job->fault, memory_order_relaxed));
        break;
    default:
        if (job->storage.ops && is_failure((int)why))
            describe_storage(job, at, text, bytes);
        else if (job->storage.scattered)
            snprintf(text, bytes, "%s files stopped after %zu of %zu bytes: %s",
                     job->storage.write ? "writing" : "reading", at, job->bytes, leat_status_text(why));
        else
            snprintf(text, bytes, "a copy of %zu bytes from %p to %p stopped after %zu bytes: %s", job->bytes,
                     (const void *)job->src, (void *)job->dst, at, leat_status_text(why));
        break;
    }
}
