/*
 * race_check.c - in guard mode, detects an access of a stream that is not ordered after an earlier access.
 *
 * The note of each block records the allocation, and the latest write and the latest read by leat's own calls.
 * leat does not see accesses inside kernels. A stream may access the block if each recorded access that conflicts
 * is complete, or if the stream is ordered after it. There are no false positives: if leat cannot know the order,
 * it allows the access. This happens if calls of the vendor's API may have ordered the stream, or if the stream
 * has waited for more streams than its timeline remembers.
 */
#include "base/lock.h"
#include "pool/guard.h"

static const char *const what_was_done[LEATI_ACCESSES] = {
    [LEATI_ALLOCATION] = "was allocated", [LEATI_WRITE] = "was last written", [LEATI_READ] = "was last read"};

/* Returns true if an earlier access of this kind conflicts with a new access: a write if write is set, else a
 * read. */
static bool opposes(enum leati_access_kind kind, bool write)
{
    return write || kind != LEATI_READ;
}

/* Returns the recorded access of this kind if it overlaps [from, to), else NULL. */
static struct leati_recorded_access *find_access(struct leati_block *block, enum leati_access_kind kind,
                                                 uintptr_t from, uintptr_t to) LEATI_REQUIRES(leati_notes_lock)
{
    struct leati_recorded_access *access = block->note ? &block->note->at[kind] : NULL;

    leati_assert_locked(&leati_notes_lock);
    return access && access->timeline && access->from < to && from < access->to ? access : NULL;
}

/* Returns true if stream is certainly not ordered after the access. Call without leati_notes_lock, because the
 * function takes the lock of a timeline, and another thread may hold that lock while it waits. */
static bool is_unordered(leat_stream *stream, struct leati_timeline *timeline, uint64_t seq)
{
    return !leati_timeline_is_complete(timeline, seq) &&
           !leati_timeline_may_be_ordered_after(stream->timeline, timeline, seq);
}

static leat_status refuse(struct leat_pool *pool, enum leati_access_kind kind,
                          const struct leati_recorded_access *access, const void *ptr, const char *allocated)
{
    char earlier[LEATI_BACKTRACE_TEXT_BYTES], here[LEATI_BACKTRACE_TEXT_BYTES];
    struct leati_backtrace trace;

    leati_count(&pool->figures.guard_reports, 1);
    leati_backtrace_capture(&trace);
    leati_backtrace_print(&trace, here, sizeof here);
    leati_backtrace_print(&access->trace, earlier, sizeof earlier);
    return leati_fail(
        LEAT_ERROR_NOT_PERMITTED,
        "%p %s on another stream, which this one is not ordered after and which has not got there yet; record an event there and make this stream wait for it; %s at %s; used at %s%s%s",
        ptr, what_was_done[kind], kind == LEATI_ALLOCATION ? "allocated" : "the other use was", earlier, here,
        *allocated ? "; allocated at " : "", allocated);
}

static leat_status check_access(struct leat_pool *pool, struct leati_block *block, enum leati_access_kind kind,
                                leat_stream *stream, const void *ptr, size_t bytes)
{
    struct leati_driver *driver = pool->device->driver;
    uintptr_t from = (uintptr_t)ptr, to = from + bytes;
    struct leati_timeline *timeline = NULL;
    struct leati_recorded_access *access;
    leat_status status = LEAT_OK;
    uint64_t seq = 0;
    bool unordered;

    leati_lock(&leati_notes_lock);
    access = find_access(block, kind, from, to);
    if (access) {
        timeline = access->timeline;
        seq = access->seq;
        leati_timeline_hold(timeline);
    }
    leati_unlock(&leati_notes_lock);
    if (!timeline)
        return LEAT_OK;
    unordered = is_unordered(stream, timeline, seq);
    if (unordered) {
        leati_lock(&leati_notes_lock);
        access = find_access(block, kind, from, to);
        /* The lock was released in between, so check that no other thread has replaced the access. */
        if (access && access->timeline == timeline && access->seq == seq &&
            LEATI_QUIETLY(driver->ops->event_query(driver, access->event)) == LEAT_NOT_READY) {
            char allocated[LEATI_BACKTRACE_TEXT_BYTES] = "";

            if (kind != LEATI_ALLOCATION)
                leati_backtrace_print(&block->note->at[LEATI_ALLOCATION].trace, allocated, sizeof allocated);
            status = refuse(pool, kind, access, ptr, allocated);
        }
        leati_unlock(&leati_notes_lock);
    }
    leati_timeline_release(timeline);
    return status;
}

leat_status leati_race_check(struct leati_block *block, leat_stream *stream, const void *ptr, size_t bytes,
                             bool write)
{
    struct leat_pool *pool = atomic_load_explicit(&block->pool, memory_order_relaxed);

    if (!pool->guard || stream->timeline->per_thread)
        return LEAT_OK;
    for (int kind = 0; kind < LEATI_ACCESSES; kind++)
        if (opposes((enum leati_access_kind)kind, write))
            LEATI_TRY(check_access(pool, block, (enum leati_access_kind)kind, stream, ptr, bytes));
    return LEAT_OK;
}

void leati_race_check_record(struct leati_block *block, leat_stream *stream, const void *ptr, size_t bytes,
                             bool write, uint64_t seq)
{
    struct leat_pool *pool = atomic_load_explicit(&block->pool, memory_order_relaxed);
    struct leati_recorded_access access = {.seq = seq, .from = (uintptr_t)ptr, .to = (uintptr_t)ptr + bytes},
                                 old = {0};

    if (!pool->guard)
        return;
    leati_error_quiet_begin();
    /* The event must belong to the pool's device, so do not record an access of a stream of another device. */
    if (seq && !stream->timeline->per_thread && stream->device == pool->device &&
        leati_guard_fence(pool, stream->native, &access.event) == LEAT_OK) {
        leati_timeline_hold(stream->timeline);
        access.timeline = stream->timeline;
        leati_backtrace_capture(&access.trace);
    }
    leati_lock(&leati_notes_lock);
    if (block->note) {
        struct leati_recorded_access *place = &block->note->at[write ? LEATI_WRITE : LEATI_READ];

        old = *place;
        *place = access;
        access.event = NULL;
        access.timeline = NULL;
    }
    leati_unlock(&leati_notes_lock);
    leati_recorded_access_end(pool->device->driver, &old);
    leati_recorded_access_end(pool->device->driver, &access);
    leati_error_quiet_end();
}
