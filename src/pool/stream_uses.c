/* stream_uses.c - blocks that wait, once freed, for other streams than the one they were freed on. */
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
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the block's list of users");
    if (timeline)
        leati_timeline_hold(timeline);
    *use = (struct leati_stream_use){.next = block->uses, .timeline = timeline, .seq = seq, .event = event};
    block->uses = use;
    return LEAT_OK;
}

/* A stream that is another one for each thread: its place now, on this thread, which no seq can say. */
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

/* A stream of our own that waits for nothing, as far as there is one: marks must not wait for each other. */
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

/* What event marks now, as an event of our own, which the user cannot record again. */
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
    /* Where the event's place in its stream is known, what is known of that stream says as much. */
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

/* Is the work of a user done? */
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
    /* A driver that fails here has not said that the work is done. */
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
            /* Only what the stream is given from now on is known to come after that user. */
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
    while (block->uses) {
        struct leati_stream_use *use = block->uses;

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
        drop(pool, &block->uses);
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
