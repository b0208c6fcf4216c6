/*
 * guard.c - does the checks of checked pools: scrubbing, red zones around blocks, poison, and the quarantine of
 * freed blocks.
 *
 * All memory is written and read through the driver in stream order, so this works the same on every device. A new
 * block is filled on the stream that allocates it. A free waits for the freeing stream and checks the block's red
 * zones. It then fills the block with poison on that stream and puts it into quarantine. The oldest blocks leave
 * quarantine when it holds too many blocks, or when the pool needs memory. Then the poison is checked on a stream
 * of the pool's own, because no work of the user can delay that stream. By then all work on the block is complete,
 * so its memory goes to the host cache.
 */
#include "pool/guard.h"

#include "base/clock.h"
#include "base/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES ((size_t)256 << 10) /* maximum size that one copy reads back for a check */

struct leati_lock leati_notes_lock = LEATI_LOCK_INITIALIZER;

size_t leati_guard_front_bytes(const struct leat_pool *pool, size_t alignment)
{
    if (!leati_guarded(pool))
        return 0;
    return alignment > LEATI_GUARD_BYTES ? alignment : LEATI_GUARD_BYTES;
}

size_t leati_guard_extra_bytes(const struct leat_pool *pool, size_t alignment)
{
    return leati_guarded(pool) ? leati_guard_front_bytes(pool, alignment) + LEATI_GUARD_BYTES : 0;
}

static uintptr_t user_end(const struct leati_block *block)
{
    return leati_user_base(block) + leati_requested(block);
}

static uintptr_t extent_end(const struct leati_block *block)
{
    return leati_base(block) + leati_bytes(block);
}

/* ---- notes ---- */

void leati_recorded_access_end(struct leati_driver *driver, struct leati_recorded_access *access)
{
    if (access->event)
        (void)LEATI_QUIETLY(driver->ops->event_destroy(driver, access->event));
    leati_timeline_release(access->timeline);
    access->event = NULL;
    access->timeline = NULL;
}

/* Releases the events and timelines of a note; keeps the call stacks. */
static void strip(struct leati_driver *driver, struct leati_note *note)
{
    for (int i = 0; i < LEATI_ACCESSES; i++)
        leati_recorded_access_end(driver, &note->at[i]);
    if (note->poisoned)
        (void)LEATI_QUIETLY(driver->ops->event_destroy(driver, note->poisoned));
    note->poisoned = NULL;
}

void leati_note_free(struct leati_driver *driver, struct leati_note *note)
{
    if (note)
        strip(driver, note);
    free(note);
}

static struct leati_note *new_note(const struct leati_block *block)
{
    struct leati_note *note = calloc(1, sizeof *note);

    if (!note)
        return NULL;
    note->base = leati_user_base(block);
    note->from = leati_base(block);
    note->to = extent_end(block);
    note->requested_bytes = leati_requested(block);
    leati_backtrace_capture(&note->at[LEATI_ALLOCATION].trace);
    return note;
}

/* Replaces the note of block by note, which may be NULL, and returns the old note. */
static struct leati_note *swap_note(struct leati_block *block, struct leati_note *note)
{
    struct leati_note *old;

    leati_lock(&leati_notes_lock);
    old = block->note;
    block->note = note;
    leati_unlock(&leati_notes_lock);
    return old;
}

void leati_guard_forget(struct leati_block *block)
{
    leati_note_free(block->device->driver, swap_note(block, NULL));
}

/* Moves the note of a freed block into the pool's ring of old notes. */
static void remember(struct leat_pool *pool, struct leati_block *block)
{
    struct leati_note *note = swap_note(block, NULL), *oldest;
    struct leati_checker *checker = pool->checker;

    if (!note)
        return;
    strip(pool->device->driver, note);
    leati_lock(&leati_notes_lock);
    note->is_freed = true;
    oldest = checker->remembered[checker->next];
    checker->remembered[checker->next] = note;
    checker->next = (checker->next + 1) % LEATI_REMEMBERED;
    leati_unlock(&leati_notes_lock);
    free(oldest);
}

leat_status leati_guard_fence(struct leat_pool *pool, void *native_stream, void **event)
{
    struct leati_driver *driver = pool->device->driver;
    leat_status status;
    void *made;

    LEATI_TRY(driver->ops->event_create(driver, pool->device->native, &made));
    status = driver->ops->event_record(driver, made, native_stream);
    if (status != LEAT_OK) {
        (void)LEATI_QUIETLY(driver->ops->event_destroy(driver, made));
        return status;
    }
    *event = made;
    return LEAT_OK;
}

/* ---- writing and reading ---- */

/* The pool and the stream of a guard operation. stream is the user's stream; NULL: the pool's own stream is
 * used. */
struct guard_place {
    struct leat_pool *pool;
    leat_stream *stream;
    void *native;
};

static struct guard_place place_of(struct leat_pool *pool, leat_stream *stream)
{
    return (struct guard_place){
        .pool = pool, .stream = stream, .native = stream ? stream->native : pool->checker->stream};
}

/* Returns true if the host writes the memory itself. It does so for pinned memory if the operation has no stream
 * of the user. */
static bool by_host(const struct guard_place *place)
{
    return !place->stream && place->pool->kind == LEAT_KIND_PINNED;
}

static leat_status fill(const struct guard_place *place, uintptr_t from, uintptr_t to, unsigned char value)
{
    struct leat_device *device = place->stream ? place->stream->device : place->pool->device;
    struct leati_driver *driver = device->driver;
    void *ptr = (void *)from;

    if (from == to)
        return LEAT_OK;
    if (by_host(place)) {
        memset(ptr, value, to - from);
        return LEAT_OK;
    }
    if (place->pool->kind == LEAT_KIND_PINNED && driver->ops->host_device_pointer)
        LEATI_TRY(driver->ops->host_device_pointer(driver, device->native, (void *)from, &ptr));
    return driver->ops->fill(driver, place->native, ptr, value, 1, to - from);
}

/* Describes the bytes that differ from the expected value. */
struct damage {
    size_t count;
    uintptr_t first;
    unsigned char value;
};

static void compare(const unsigned char *seen, uintptr_t from, size_t bytes, unsigned char wanted,
                    struct damage *damage)
{
    /* Fast path: all bytes have the expected value. memcmp() of the range with itself, shifted by one byte, is
     * true only if all bytes are equal, and it is fast. */
    if (seen[0] == wanted && !memcmp(seen, seen + 1, bytes - 1))
        return;
    for (size_t i = 0; i < bytes; i++) {
        if (seen[i] == wanted)
            continue;
        if (!damage->count++) {
            damage->first = from + i;
            damage->value = seen[i];
        }
    }
}

/* Compares the bytes of [from, to) with the expected value. Waits for the earlier work of the stream. */
static leat_status look(const struct guard_place *place, uintptr_t from, uintptr_t to, unsigned char wanted,
                        struct damage *damage)
{
    struct leat_pool *pool = place->pool;
    struct leati_driver *driver = pool->device->driver;
    struct leati_location source = {.kind = pool->kind,
                                    .device = pool->kind == LEAT_KIND_DEVICE ? pool->device->native : NULL};
    size_t most = to - from < PIECE_BYTES ? to - from : PIECE_BYTES;
    struct leati_location copied = {.ptr = malloc(most), .kind = LEAT_KIND_PAGEABLE};
    leat_status status = LEAT_OK;

    if (!copied.ptr)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to look at guards");
    while (from < to && status == LEAT_OK) {
        size_t bytes = to - from < most ? to - from : most;

        source.ptr = (void *)from;
        status = driver->ops->copy(driver, place->native, copied, source, bytes);
        if (status == LEAT_OK) {
            status = driver->ops->stream_synchronize(driver, place->native);
            /* The copy failed and may still write into the buffer, so leak the buffer. */
            if (status != LEAT_OK &&
                LEATI_QUIETLY(driver->ops->device_synchronize(driver, pool->device->native)) != LEAT_OK)
                return status;
        }
        if (status == LEAT_OK)
            compare(copied.ptr, from, bytes, wanted, damage);
        from += bytes;
    }
    free(copied.ptr);
    return status;
}

static leat_status write_red_zones(const struct guard_place *place, const struct leati_block *block)
{
    uintptr_t base = leati_user_base(block);

    LEATI_TRY(fill(place, base - LEATI_GUARD_BYTES, base, LEATI_BYTE_RED_ZONE));
    return fill(place, user_end(block), extent_end(block), LEATI_BYTE_RED_ZONE);
}

/* ---- handing out ---- */

/* Fills a block before the user gets it, and writes its red zones. If the pool has no red zones, clears the whole
 * extent, because another process that imports the block can see all of it. */
static leat_status prepare(const struct guard_place *place, const struct leati_block *block)
{
    const struct leat_pool *pool = place->pool;
    unsigned char value = pool->scrub ? 0 : LEATI_BYTE_FRESH;

    if (leati_guarded(pool)) {
        LEATI_TRY(write_red_zones(place, block));
        LEATI_TRY(fill(place, leati_user_base(block), user_end(block), value));
    } else if (pool->scrub) {
        LEATI_TRY(fill(place, leati_user_base(block), extent_end(block), value));
    } else {
        return LEAT_OK;
    }
    /* A per-thread stream has no sequence numbers, and neither has the pool's own stream. So leat cannot find out
     * later whether this work is complete. Wait for it now. */
    if (by_host(place) || (place->stream && !place->stream->timeline->per_thread))
        return LEAT_OK;
    return pool->device->driver->ops->stream_synchronize(pool->device->driver, place->native);
}

/* Records the allocation as an access of the stream. The event of this access completes when the stream may begin
 * to use the block. */
static leat_status note_allocation(struct leat_pool *pool, leat_stream *stream, struct leati_note *note,
                                   uint64_t seq)
{
    struct leati_recorded_access *access = &note->at[LEATI_ALLOCATION];

    if (!stream)
        return LEAT_OK;
    LEATI_TRY(leati_guard_fence(pool, stream->native, &access->event));
    if (stream->timeline->per_thread)
        return LEAT_OK;
    leati_timeline_hold(stream->timeline);
    access->timeline = stream->timeline;
    access->seq = seq;
    access->from = note->from;
    access->to = note->to;
    return LEAT_OK;
}

leat_status leati_guard_alloc(struct leat_pool *pool, leat_stream *stream, struct leati_block *block)
{
    uint64_t seq = stream ? leati_timeline_now(stream->timeline) : 0;
    struct leati_note *note = pool->backtraces ? new_note(block) : NULL;
    leat_status status = LEAT_OK;

    if (pool->guard && !note)
        status = leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the block's note");
    if (status == LEAT_OK && (pool->guard || pool->scrub)) {
        struct guard_place place = place_of(pool, stream);

        status = prepare(&place, block);
        if (stream)
            leati_timeline_submitted(stream->timeline);
        /* The next stream that gets the memory must be ordered after this fill, even if this stream never uses the
         * block. */
        if (stream && !stream->timeline->per_thread)
            block->seq = leati_timeline_now(stream->timeline);
        if (status == LEAT_OK && note && pool->guard)
            status = note_allocation(pool, stream, note, seq);
    }
    if (status != LEAT_OK) {
        leati_note_free(pool->device->driver, note);
        return status;
    }
    if (note)
        swap_note(block, note);
    leati_stats_event(pool, LEAT_POOL_ACTION_ALLOC, (void *)leati_user_base(block), leati_requested(block),
                      stream ? stream->timeline : NULL, block->tag);
    return LEAT_OK;
}

void leati_guard_settle(struct leat_pool *pool)
{
    if (pool->checker && pool->checker->stream)
        (void)LEATI_QUIETLY(
            pool->device->driver->ops->stream_synchronize(pool->device->driver, pool->checker->stream));
}

/* ---- freeing ---- */

/* Waits for the other streams that use the block. Detaches the list of stream uses from the block during the wait,
 * because the pool's lock guards an attached list and must not be held during a wait. The block is LEAVING, so no
 * other thread uses it. */
static leat_status wait_for_uses(struct leat_pool *pool, struct leati_block *block, struct leati_stream_use **uses)
{
    struct leati_driver *driver = pool->device->driver;

    leati_lock(&pool->lock);
    *uses = block->uses;
    block->uses = NULL;
    leati_unlock(&pool->lock);
    for (struct leati_stream_use *use = *uses; use; use = use->next) {
        if (use->event)
            LEATI_TRY(driver->ops->event_synchronize(driver, use->event));
        else
            LEATI_TRY(leati_timeline_host_wait(use->timeline,
                                               use->seq ? use->seq : leati_timeline_now(use->timeline), NULL));
    }
    return LEAT_OK;
}

/* Attaches the list that wait_for_uses() detached. If the block is freed, drops all its uses. */
static void end_uses(struct leat_pool *pool, struct leati_block *block, struct leati_stream_use *uses, bool freed)
{
    struct leati_stream_use **place = &uses;

    if (!uses)
        return;
    leati_lock(&pool->lock);
    while (*place)
        place = &(*place)->next;
    *place = block->uses;
    block->uses = uses;
    if (freed)
        leati_stream_uses_drop(pool, block);
    leati_unlock(&pool->lock);
}

/* Makes the stream wait for the work that prepared the block, which may have run on another stream. */
static leat_status come_after_allocation(const struct guard_place *place, const struct leati_note *note)
{
    struct leati_driver *driver = place->pool->device->driver;
    void *event = note->at[LEATI_ALLOCATION].event;

    if (!event)
        return LEAT_OK;
    if (place->stream)
        return driver->ops->stream_wait(driver, place->native, event);
    /* Wait on the host, because all users of the pool share its own stream, and one block must not delay it. */
    return driver->ops->event_synchronize(driver, event);
}

/* Prints, for example, "3 bytes behind it are overwritten, the first, at offset 1002, with 0x5a". */
static void print_damage(const struct leati_block *block, const struct damage *damage, const char *where,
                         char *text, size_t bytes)
{
    long long offset = (long long)(damage->first - leati_user_base(block));

    *text = '\0';
    if (damage->count)
        snprintf(text, bytes, "%zu byte%s %s it %s overwritten, the first, at offset %lld, with 0x%02x",
                 damage->count, damage->count == 1 ? "" : "s", where, damage->count == 1 ? "is" : "are", offset,
                 damage->value);
}

static leat_status report_red_zones(const struct guard_place *place, const struct leati_block *block,
                                    const struct leati_note *note, const struct damage *front,
                                    const struct damage *rear)
{
    char allocated[LEATI_BACKTRACE_TEXT_BYTES], here[LEATI_BACKTRACE_TEXT_BYTES], in_front[160], behind[160];
    struct leati_backtrace trace;

    leati_count(&place->pool->figures.guard_reports, 1);
    leati_backtrace_capture(&trace);
    leati_backtrace_print(&trace, here, sizeof here);
    leati_backtrace_print(&note->at[LEATI_ALLOCATION].trace, allocated, sizeof allocated);
    print_damage(block, front, "in front of", in_front, sizeof in_front);
    print_damage(block, rear, "behind", behind, sizeof behind);
    /* Repair the red zones. The block is still live, so the program can free it again, and the same damage must
     * not be reported twice. */
    (void)write_red_zones(place, block);
    return leati_fail(
        LEAT_ERROR_RANGE,
        "the block has %zu bytes, and %s%s%s, in place of 0x%02x; it is mended and still live; allocated at %s; freed at %s",
        leati_requested(block), in_front, *in_front && *behind ? ", and " : "", behind, LEATI_BYTE_RED_ZONE,
        allocated, here);
}

static leat_status check_red_zones(const struct guard_place *place, const struct leati_block *block,
                                   const struct leati_note *note)
{
    uintptr_t base = leati_user_base(block);
    struct damage front = {0}, rear = {0};

    LEATI_TRY(look(place, base - LEATI_GUARD_BYTES, base, LEATI_BYTE_RED_ZONE, &front));
    LEATI_TRY(look(place, user_end(block), extent_end(block), LEATI_BYTE_RED_ZONE, &rear));
    if (front.count || rear.count)
        return report_red_zones(place, block, note, &front, &rear);
    return LEAT_OK;
}

/* Overwrites the block with poison, and records an event behind that work or waits for it. */
static leat_status poison(const struct guard_place *place, const struct leati_block *block,
                          struct leati_note *note)
{
    struct leat_pool *pool = place->pool;
    struct leati_driver *driver = pool->device->driver;

    if (note->poisoned)
        (void)LEATI_QUIETLY(driver->ops->event_destroy(driver, note->poisoned));
    note->poisoned = NULL;
    LEATI_TRY(fill(place, leati_user_base(block), user_end(block), LEATI_BYTE_FREED));
    if (by_host(place))
        return LEAT_OK;
    /* The event must belong to the pool's device, so it cannot be recorded on a stream of another device. Wait
     * instead. */
    if (place->stream && place->stream->device != pool->device)
        return driver->ops->stream_synchronize(driver, place->native);
    return leati_guard_fence(pool, place->native, &note->poisoned);
}

static leat_status check_and_poison(struct leat_pool *pool, leat_stream *stream, struct leati_block *block)
{
    struct guard_place place = place_of(pool, stream);
    struct leati_note *note = block->note;
    struct leati_stream_use *uses;
    leat_status status = wait_for_uses(pool, block, &uses);

    if (status == LEAT_OK)
        status = come_after_allocation(&place, note);
    if (status == LEAT_OK)
        status = check_red_zones(&place, block, note);
    if (status == LEAT_OK)
        status = poison(&place, block, note);
    if (stream)
        leati_timeline_submitted(stream->timeline);
    end_uses(pool, block, uses, status == LEAT_OK);
    return status;
}

leat_status leati_guard_free(struct leat_pool *pool, leat_stream *stream, struct leati_block *block)
{
    if (leati_guarded(pool)) {
        LEATI_TRY(check_and_poison(pool, stream, block));
        leati_lock(&leati_notes_lock);
        leati_backtrace_capture(&block->note->freed);
        leati_unlock(&leati_notes_lock);
    } else if (pool->guard) {
        if (block->note)
            leati_backtrace_capture(&block->note->freed);
        remember(pool, block);
    } else {
        leati_guard_forget(block);
    }
    leati_stats_event(pool, LEAT_POOL_ACTION_FREE, (void *)leati_user_base(block), leati_requested(block),
                      stream ? stream->timeline : NULL, block->tag);
    return LEAT_OK;
}

/* ---- quarantine ---- */

/* Reports the damage to standard error, because no call of the user is in progress that could return an error.
 * leat prints this only because the user enabled guard mode. */
static void report_poison(struct leat_pool *pool, const struct leati_block *block, const struct leati_note *note,
                          const struct damage *damage)
{
    char allocated[LEATI_BACKTRACE_TEXT_BYTES], freed[LEATI_BACKTRACE_TEXT_BYTES];

    leati_count(&pool->figures.guard_reports, 1);
    leati_backtrace_print(&note->at[LEATI_ALLOCATION].trace, allocated, sizeof allocated);
    leati_backtrace_print(&note->freed, freed, sizeof freed);
    fprintf(
        stderr,
        "leat: use after free in %s of %s: %zu byte%s of the freed block %p + %zu %s overwritten, the first, at offset %zu, with 0x%02x in place of 0x%02x; allocated at %s; freed at %s\n",
        pool->name, pool->device->name, damage->count, damage->count == 1 ? "" : "s", (void *)note->base,
        leati_requested(block), damage->count == 1 ? "is" : "are", (size_t)(damage->first - note->base),
        damage->value, LEATI_BYTE_FREED, allocated, freed);
}

/* Checks the poison of a block that leaves quarantine, and moves its memory to the host cache. If the wait for the
 * poison fails, frees the block with the cache and seq of the original free. */
static void let_go(struct leat_pool *pool, struct leati_block *block) LEATI_REQUIRES(pool->lock)
{
    struct leati_driver *driver = pool->device->driver;
    struct guard_place place = place_of(pool, NULL);
    struct leati_note *note = block->note;
    struct damage damage = {0};
    leat_status status = LEAT_OK;

    if (note->poisoned)
        status = driver->ops->event_synchronize(driver, note->poisoned);
    if (status == LEAT_OK && look(&place, note->base, user_end(block), LEATI_BYTE_FREED, &damage) == LEAT_OK &&
        damage.count)
        report_poison(pool, block, note, &damage);
    remember(pool, block);
    leati_set_state(block, LEATI_BLOCK_LEAVING);
    if (status != LEAT_OK || block->uses) {
        leati_slow_path_free(pool, block, block->cache, block->seq);
        return;
    }
    leati_extent_free(pool, block, pool->host, 0);
}

static void let_oldest_go(struct leat_pool *pool) LEATI_REQUIRES(pool->lock)
{
    struct leati_checker *checker = pool->checker;
    struct leati_block *block = checker->oldest;

    checker->oldest = block->link;
    if (!checker->oldest)
        checker->youngest = NULL;
    checker->quarantine_blocks--;
    checker->quarantine_bytes -= leati_bytes(block);
    block->link = NULL;
    let_go(pool, block);
}

void leati_guard_quarantine(struct leat_pool *pool, struct leati_block *block)
{
    struct leati_checker *checker = pool->checker;

    leati_assert_locked(&pool->lock);
    leati_lock(&leati_notes_lock);
    block->note->is_freed = true;
    leati_unlock(&leati_notes_lock);
    block->idle_since_ns = leati_clock_ns();
    leati_error_quiet_begin();
    if (leati_bytes(block) > LEATI_QUARANTINE_BYTES) {
        let_go(pool, block);
    } else {
        block->link = NULL;
        leati_set_state(block, LEATI_BLOCK_POISONED);
        *(checker->youngest ? &checker->youngest->link : &checker->oldest) = block;
        checker->youngest = block;
        checker->quarantine_blocks++;
        checker->quarantine_bytes += leati_bytes(block);
        while (checker->quarantine_blocks > LEATI_QUARANTINE_BLOCKS ||
               checker->quarantine_bytes > LEATI_QUARANTINE_BYTES)
            let_oldest_go(pool);
    }
    leati_error_quiet_end();
}

bool leati_guard_drain_quarantine(struct leat_pool *pool)
{
    leati_assert_locked(&pool->lock);
    if (!pool->checker || !pool->checker->oldest)
        return false;
    leati_error_quiet_begin();
    while (pool->checker->oldest)
        let_oldest_go(pool);
    leati_error_quiet_end();
    return true;
}

/* ---- describing a pointer ---- */

static bool contains(const struct leati_note *note, uintptr_t address)
{
    return note && address - note->from < note->to - note->from;
}

/* Finds the note of the block that contains address or, if there is none, of the last block that did. */
static const struct leati_note *find_note(const struct leat_pool *pool, const struct leati_block *block,
                                          uintptr_t address) LEATI_REQUIRES(leati_notes_lock)
{
    const struct leati_checker *checker = pool->checker;

    leati_assert_locked(&leati_notes_lock);
    if (block && contains(block->note, address))
        return block->note;
    for (unsigned i = 1; checker && i <= LEATI_REMEMBERED; i++) {
        const struct leati_note *note =
            checker->remembered[(checker->next + LEATI_REMEMBERED - i) % LEATI_REMEMBERED];

        if (contains(note, address))
            return note;
    }
    return NULL;
}

static void print_note(const struct leati_note *note, uintptr_t address, char *text, size_t bytes)
{
    char allocated[LEATI_BACKTRACE_TEXT_BYTES], freed[LEATI_BACKTRACE_TEXT_BYTES] = "";
    uintptr_t end = note->base + note->requested_bytes;
    const char *where = address < note->base ? "in front of" : address < end ? "into" : "past the end of";
    size_t distance = address < note->base ? note->base - address : address - (address < end ? note->base : end);

    leati_backtrace_print(&note->at[LEATI_ALLOCATION].trace, allocated, sizeof allocated);
    if (note->is_freed)
        leati_backtrace_print(&note->freed, freed, sizeof freed);
    snprintf(text, bytes, "; it is %zu bytes %s the block %p + %zu, allocated at %s%s%s", distance, where,
             (void *)note->base, note->requested_bytes, allocated, *freed ? "; freed at " : "", freed);
}

bool leati_guard_describe(struct leat_pool *pool, const void *ptr, char *text, size_t bytes)
{
    struct leat_pool *found;
    const struct leati_block *block = leati_block_find(ptr, &found);
    const struct leati_note *note = NULL;

    *text = '\0';
    leati_lock(&leati_notes_lock);
    /* Another thread may destroy the pool meanwhile. This is safe, because leati_guard_end() detaches the notes
     * under this lock, and the memory of handles is never unmapped. */
    if (leati_handle_live(&leati_pool_handles, pool) && pool->guard)
        note = find_note(pool, block, (uintptr_t)ptr);
    if (note)
        print_note(note, (uintptr_t)ptr, text, bytes);
    leati_unlock(&leati_notes_lock);
    return note != NULL;
}

/* ---- creating and destroying the checker ---- */

static const struct leati_guard_hooks hooks = {
    .describe = leati_guard_describe, .may_use = leati_race_check, .was_used = leati_race_check_record};

leat_status leati_guard_start(struct leat_pool *pool)
{
    struct leati_driver *driver = pool->device->driver;
    struct leati_backtrace first;

    if (!pool->guard && !pool->scrub && !pool->backtraces)
        return LEAT_OK;
    pool->checker = calloc(1, sizeof *pool->checker);
    if (!pool->checker)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for what guard mode remembers");
    /* The first call of backtrace() loads libraries. Make it here, so that no allocation has to. */
    if (pool->backtraces)
        leati_backtrace_capture(&first);
    if (pool->guard)
        atomic_store_explicit(&leati_guard_hooks, &hooks, memory_order_release);
    if (pool->guard || pool->scrub)
        return driver->ops->stream_create(driver, pool->device->native, &pool->checker->stream);
    return LEAT_OK;
}

leat_status leati_guard_end(struct leat_pool *pool)
{
    struct leati_driver *driver = pool->device->driver;
    struct leati_checker *checker;
    leat_status status = LEAT_OK;

    leati_lock(&leati_notes_lock);
    checker = pool->checker;
    pool->checker = NULL;
    leati_unlock(&leati_notes_lock);
    if (!checker)
        return LEAT_OK;
    if (checker->stream)
        status = driver->ops->stream_destroy(driver, checker->stream);
    for (int i = 0; i < LEATI_REMEMBERED; i++)
        free(checker->remembered[i]);
    free(checker);
    return status;
}
