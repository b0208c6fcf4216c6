/* scratch.c - takes and frees memory for one call. See scratch.h. */
#include "copy/scratch.h"
#include "base/assert.h"

#include "pool/pool.h"

void *leati_scratch_take(leat_device *device, leat_kind kind, size_t bytes)
{
    leat_pool *pool;

    if (LEATI_QUIETLY(leati_pool_get_own(device, kind, &pool)) != LEAT_OK)
        return NULL;
    return leati_pool_take(pool, bytes);
}

leat_status leati_scratch_release(leat_stream *stream, void *block, leat_status status)
{
    struct leati_driver *driver = stream->device->driver;

    leati_assert(block);
    /* If leat_free() fails, wait for the stream and then free the block. If the wait fails too, the device is
     * lost, and the block stays allocated until the device is closed. */
    if (LEATI_QUIETLY(leat_free(stream, block)) != LEAT_OK &&
        LEATI_QUIETLY(driver->ops->stream_synchronize(driver, stream->native)) == LEAT_OK)
        (void)LEATI_QUIETLY(leat_memory_free(block));
    return status;
}
