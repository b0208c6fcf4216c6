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
    leati_order_let_go(use->order);
    free(use);
}

void leati_stream_uses_drop(struct leat_pool *pool, struct leati_block *block)
{
    leati_assert_locked(&pool->lock);
    while (block->uses)
        drop(pool, &block->uses);
}

static leat_status add(struct leati_block *block, struct leati_order *order, uint64_t tick, void *event)
{
    struct leati_stream_use *use = malloc(sizeof *use);

    leati_assert(order || event);
    if (!use)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the block's list of users");
    if (order)
        leati_order_hold(order);
    *use = (struct leati_stream_use){.next = block->uses, .order = order, .tick = tick, .event = event};
    block->uses = use;
    return LEAT_OK;
}

/* A stream that is another one for each thread: its place now, on this thread, which no tick can say. */
static leat_status add_place(struct leat_pool *pool, struct leati_block *block, leat_stream *stream)
{
    const struct leati_driver_ops *ops = pool->device->driver->ops;
    struct leati_driver *driver = pool->device->driver;
    leat_status status;
    void *made;

    LEATI_TRY(ops->event_create(driver, stream->device->native, &made));
    status = ops->event_record(driver, made, stream->native);
    leati_count(&pool->figures.order.events, 1);
    if (status == LEAT_OK)
        status = add(block, NULL, 0, made);
    if (status != LEAT_OK)
        (void)LEATI_QUIETLY(ops->event_destroy(driver, made));
    return status;
}

leat_status leati_stream_uses_add_seq(struct leati_block *block, struct leati_order *order, uint64_t tick)
{
    return add(block, order, tick, NULL);
}

leat_status leati_stream_uses_add_stream(struct leat_pool *pool, struct leati_block *block, leat_stream *stream)
{
    leati_assert_locked(&pool->lock);
    if (stream->order->per_thread)
        return add_place(pool, block, stream);
    for (struct leati_stream_use *use = block->uses; use; use = use->next)
        if (use->order == stream->order && !use->tick)
            return LEAT_OK;
    return add(block, stream->order, 0, NULL);
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
    leati_count(&pool->figures.order.events, 1);
    leati_count(&pool->figures.order.waits, 1);
    *own = made;
    return LEAT_OK;
}

leat_status leati_stream_uses_add_event(struct leat_pool *pool, struct leati_block *block, leat_event *event)
{
    struct leati_order *order = NULL;
    struct leati_point point;
    leat_status status;
    void *own;

    leati_assert_locked(&pool->lock);
    LEATI_TRY(capture(pool, event, &own));
    /* Where the event's place in its stream is known, what is known of that stream says as much. */
    leati_lock(&event->lock);
    point = event->point;
    if (point.serial) {
        order = event->order;
        leati_order_hold(order);
    }
    leati_unlock(&event->lock);
    status = add(block, order, point.tick, own);
    leati_order_let_go(order);
    if (status != LEAT_OK)
        (void)LEATI_QUIETLY(pool->device->driver->ops->event_destroy(pool->device->driver, own));
    return status;
}

void leati_stream_uses_fix(struct leati_block *block)
{
    for (struct leati_stream_use *use = block->uses; use; use = use->next)
        if (use->order && !use->event && !use->tick)
            use->tick = leati_order_now(use->order);
}

/* Is the work of a user done? */
static bool is_done(struct leat_pool *pool, const struct leati_stream_use *use, bool query)
{
    bool done = false;

    leati_assert(use->order || use->event);
    if (use->order && leati_order_known(use->order, use->tick))
        return true;
    if (use->event) {
        if (!query)
            return false;
        leati_count(&pool->figures.order.queries, 1);
        return pool->device->driver->ops->event_query(pool->device->driver, use->event) == LEAT_OK;
    }
    /* A driver that fails here has not said that the work is done. */
    return query && leati_order_query(use->order, use->tick, &done, &pool->figures.order) == LEAT_OK && done;
}

bool leati_stream_uses_settle(struct leat_pool *pool, struct leati_block *block, struct leati_stream_cache *cache,
                              bool query)
{
    struct leati_order *order = cache ? cache->order : NULL;
    struct leati_stream_use **place = &block->uses;

    leati_assert_locked(&pool->lock);
    while (*place) {
        struct leati_stream_use *use = *place;

        if (is_done(pool, use, query)) {
            drop(pool, place);
        } else if (order && use->order && use->tick && leati_order_follows(order, use->order, use->tick)) {
            drop(pool, place);
            /* Only what the stream is given from now on is known to come after that user. */
            block->tick = leati_order_now(order);
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

            leati_count(&pool->figures.order.waits, 1);
            status = driver->ops->stream_wait(driver, stream->native, use->event);
            leati_order_given(stream->order);
            LEATI_TRY(status);
        } else if (!leati_order_known(use->order, use->tick) &&
                   !leati_order_follows(stream->order, use->order, use->tick)) {
            LEATI_TRY(leati_order_wait(stream->order, use->order, use->tick, &pool->figures.order));
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
            leati_count(&pool->figures.order.host_waits, 1);
            LEATI_TRY(driver->ops->event_synchronize(driver, use->event));
        } else {
            LEATI_TRY(leati_order_host_wait(use->order, use->tick, &pool->figures.order));
        }
        drop(pool, &block->uses);
    }
    return LEAT_OK;
}
