/* stream_uses.c - records the stream uses of a block: work on other streams, and events, that must complete before
 * the memory of the freed block is reused. */
#include "base/lock.h"
#include "pool/pool.h"

#include <stdlib.h>

static void drop(struct leat_pool *pool, struct leati_stream_use **place)
{
    struct leati_stream_use *use = *place;

    *place = use->next;
    if (use->event)
        (void)LEATI_QUIETLY(pool->device->driver->ops->event_destroy(pool->device->driver, use->event));
    leati_timeline_release(use->timeline);
    free(use);
}

void leati_stream_uses_drop(struct leat_pool *pool, struct leati_block *block)
{
    leati_assert_locked(&pool->lock);
    while (block->uses)
        drop(pool, &block->uses);
}

static leat_status add(struct leati_block *block, struct leati_timeline *timeline, uint64_t seq, void *event)
{
    struct leati_stream_use *use = malloc(sizeof *use);

    leati_assert(timeline || event);
    if (!use)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "out of host memory (the block's stream uses)");
    if (timeline)
        leati_timeline_hold(timeline);
    *use = (struct leati_stream_use){.next = block->uses, .timeline = timeline, .seq = seq, .event = event};
    block->uses = use;
    return LEAT_OK;
}

/* Adds a use by a per-thread stream. Such a stream has no sequence numbers, so the function records an event on
 * the calling thread's stream. */
static leat_status add_place(struct leat_pool *pool, struct leati_block *block, leat_stream *stream)
{
    const struct leati_driver_ops *ops = pool->device->driver->ops;
    struct leati_driver *driver = pool->device->driver;
    leat_status status;
    void *made;

    LEATI_TRY(ops->event_create(driver, stream->device->native, &made));
    status = ops->event_record(driver, made, stream->native);
    leati_count(&pool->figures.timeline.events, 1);
    if (status == LEAT_OK)
        status = add(block, NULL, 0, made);
    if (status != LEAT_OK)
        (void)LEATI_QUIETLY(ops->event_destroy(driver, made));
    return status;
}

leat_status leati_stream_uses_add_seq(struct leati_block *block, struct leati_timeline *timeline, uint64_t seq)
{
    return add(block, timeline, seq, NULL);
}

leat_status leati_stream_uses_add_stream(struct leat_pool *pool, struct leati_block *block, leat_stream *stream)
{
    leati_assert_locked(&pool->lock);
    if (stream->timeline->per_thread)
        return add_place(pool, block, stream);
    for (struct leati_stream_use *use = block->uses; use; use = use->next)
        if (use->timeline == stream->timeline && !use->seq)
            return LEAT_OK;
    return add(block, stream->timeline, 0, NULL);
}

/* Finds an idle helper stream, so that the copy of one event does not wait for another event. If all helper
 * streams are busy, takes the last one. */
static leat_status find_helper(struct leat_pool *pool, void **helper)
{
    const struct leati_driver_ops *ops = pool->device->driver->ops;

    for (int i = 0; i < LEATI_HELPERS; i++) {
        if (!pool->helpers[i])
            LEATI_TRY(ops->stream_create(pool->device->driver, pool->device->native, &pool->helpers[i]));
        *helper = pool->helpers[i];
        if (LEATI_QUIETLY(ops->stream_query(pool->device->driver, *helper)) == LEAT_OK)
            break;
    }
    return LEAT_OK;
}

/* Copies the user's event into an event of the pool, because the user may record the original again. To do so,
 * makes a helper stream wait for the original and records the copy on the helper stream. */
static leat_status capture(struct leat_pool *pool, leat_event *event, void **own)
{
    const struct leati_driver_ops *ops = pool->device->driver->ops;
    struct leati_driver *driver = pool->device->driver;
    leat_status status;
    void *made, *helper;

    LEATI_TRY(find_helper(pool, &helper));
    LEATI_TRY(ops->event_create(driver, pool->device->native, &made));
    leati_lock(&event->lock);
    status = ops->stream_wait(driver, helper, event->native);
    leati_unlock(&event->lock);
    if (status == LEAT_OK)
        status = ops->event_record(driver, made, helper);
    if (status != LEAT_OK) {
        (void)LEATI_QUIETLY(ops->event_destroy(driver, made));
        return status;
    }
    leati_count(&pool->figures.timeline.events, 1);
    leati_count(&pool->figures.timeline.waits, 1);
    *own = made;
    return LEAT_OK;
}

leat_status leati_stream_uses_add_event(struct leat_pool *pool, struct leati_block *block, leat_event *event)
{
    struct leati_timeline *timeline = NULL;
    struct leati_point point;
    leat_status status;
    void *own;

    leati_assert_locked(&pool->lock);
    LEATI_TRY(capture(pool, event, &own));
    /* If the event's position in its stream is known, store it too. Then the timeline can tell that the use is
     * complete, without a query of the driver. */
    leati_lock(&event->lock);
    point = event->point;
    if (point.serial) {
        timeline = event->timeline;
        leati_timeline_hold(timeline);
    }
    leati_unlock(&event->lock);
    status = add(block, timeline, point.seq, own);
    leati_timeline_release(timeline);
    if (status != LEAT_OK)
        (void)LEATI_QUIETLY(pool->device->driver->ops->event_destroy(pool->device->driver, own));
    return status;
}

void leati_stream_uses_fix(struct leati_block *block)
{
    for (struct leati_stream_use *use = block->uses; use; use = use->next)
        if (use->timeline && !use->event && !use->seq)
            use->seq = leati_timeline_now(use->timeline);
}

/* Returns true if the use is known to be complete. query: asks the driver if it is not known. */
static bool is_done(struct leat_pool *pool, const struct leati_stream_use *use, bool query)
{
    bool done = false;

    leati_assert(use->timeline || use->event);
    if (use->timeline && leati_timeline_is_complete(use->timeline, use->seq))
        return true;
    if (use->event) {
        if (!query)
            return false;
        leati_count(&pool->figures.timeline.queries, 1);
        return pool->device->driver->ops->event_query(pool->device->driver, use->event) == LEAT_OK;
    }
    /* A failed query counts as not complete. */
    return query && leati_timeline_query(use->timeline, use->seq, &done, &pool->figures.timeline) == LEAT_OK &&
           done;
}

bool leati_stream_uses_settle(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                              bool query)
{
    struct leati_timeline *timeline = cache ? cache->timeline : NULL;
    struct leati_stream_use **place = &block->uses;

    leati_assert_locked(&pool->lock);
    while (*place) {
        struct leati_stream_use *use = *place;

        if (is_done(pool, use, query)) {
            drop(pool, place);
        } else if (timeline && use->timeline && use->seq &&
                   leati_timeline_is_ordered_after(timeline, use->timeline, use->seq)) {
            drop(pool, place);
            /* The use is dropped, but only work submitted to the stream from now on is known to be ordered after
             * it. So other streams must wait for the stream's current sequence number. */
            block->seq = leati_timeline_now(timeline);
        } else {
            place = &use->next;
        }
    }
    return !block->uses;
}

leat_status leati_stream_uses_wait(struct leat_pool *pool, struct leati_block *block, leat_stream *stream)
{
    struct leati_driver *driver = pool->device->driver;

    leati_assert_locked(&pool->lock);
    for (struct leati_stream_use *use = block->uses; use; use = use->next) {
        if (use->event) {
            leat_status status;

            leati_count(&pool->figures.timeline.waits, 1);
            status = driver->ops->stream_wait(driver, stream->native, use->event);
            leati_timeline_submitted(stream->timeline);
            LEATI_TRY(status);
        } else if (!leati_timeline_is_complete(use->timeline, use->seq) &&
                   !leati_timeline_is_ordered_after(stream->timeline, use->timeline, use->seq)) {
            LEATI_TRY(leati_timeline_wait(stream->timeline, use->timeline, use->seq, &pool->figures.timeline));
        }
    }
    return LEAT_OK;
}

leat_status leati_stream_uses_host_wait(struct leat_pool *pool, struct leati_block *block)
{
    struct leati_driver *driver = pool->device->driver;

    leati_assert_locked(&pool->lock);
    while (block->uses) {
        struct leati_stream_use *use = block->uses;

        if (use->event) {
            leati_count(&pool->figures.timeline.host_waits, 1);
            LEATI_TRY(driver->ops->event_synchronize(driver, use->event));
        } else {
            LEATI_TRY(leati_timeline_host_wait(use->timeline, use->seq, &pool->figures.timeline));
        }
        drop(pool, &block->uses);
    }
    return LEAT_OK;
}
