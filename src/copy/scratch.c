/* scratch.c - see scratch.h. */
#include "copy/scratch.h"

#include "pool/pool.h"

void *leati_scratch_take(leat_device *device, size_t bytes)
{
    struct leati_sentence before;
    leat_pool *pool;
    void *block;

    leati_error_keep(&before);
    if (leati_pool_get_own(device, LEAT_KIND_PINNED, &pool) == LEAT_OK &&
        leat_pool_alloc(pool, NULL, bytes, &block) == LEAT_OK)
        return block;
    leati_error_restore(LEAT_ERROR_HOST_MEMORY, &before);
    return NULL;
}

leat_status leati_scratch_release(leat_stream *stream, void *block, leat_status status)
{
    struct leati_driver *driver = stream->device->driver;
    struct leati_sentence why;

    leati_error_keep(&why);
    if (leat_free(stream, block) == LEAT_OK)
        return leati_error_restore(status, &why);
    /* Where the stream cannot be waited for either, the device is lost, and the block stays until its close. */
    if (driver->ops->stream_synchronize(driver, stream->native) == LEAT_OK)
        (void)leat_memory_free(block);
    return leati_error_restore(status, &why);
}
