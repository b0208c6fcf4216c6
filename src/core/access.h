/*
 * access.h - what copies and fills check of the memory that they are given: can the stream reach it, and may it
 * use it already?
 */
#ifndef LEATI_ACCESS_H
#define LEATI_ACCESS_H

#include "core/core.h"

/* UNSUPPORTED, with a message, for memory of another driver than the stream's. name: "dst". */
leat_status leati_refuse_reach(const leat_stream *stream, const char *name, const struct leati_endpoint *endpoint);

static inline leat_status leati_check_reach(const leat_stream *stream, const char *name,
                                            const struct leati_endpoint *endpoint)
{
    if (!endpoint->driver || endpoint->location.kind == LEAT_KIND_PAGEABLE ||
        endpoint->driver == stream->device->driver)
        return LEAT_OK;
    return leati_refuse_reach(stream, name, endpoint);
}

/* One use of memory by work that is about to be given to a stream. */
struct leati_access {
    const struct leati_guard_hooks *hooks; /* NULL: nobody need be asked, nor told */
    uint64_t seq;
};

/* What remains of leati_may_use() where memory is guarded, or may not be written. */
leat_status leati_may_use_guarded(struct leati_access *use, leat_stream *stream, const char *name,
                                  const struct leati_endpoint *endpoint, size_t bytes, bool write);

/* May it be written, if it is to be, and in guard mode (leat/pool.h): may the stream use it already? And then: it
 * was given the work. */
static inline leat_status leati_may_use(struct leati_access *use, leat_stream *stream, const char *name,
                                        const struct leati_endpoint *endpoint, size_t bytes, bool write)
{
    use->seq = 0;
    /* Acquire: pairs with the release of the pool that set them. */
    use->hooks = endpoint->block ? atomic_load_explicit(&leati_guard_hooks, memory_order_acquire) : NULL;
    if (!use->hooks && !(write && endpoint->read_only))
        return LEAT_OK;
    return leati_may_use_guarded(use, stream, name, endpoint, bytes, write);
}

static inline void leati_was_used(const struct leati_access *use, leat_stream *stream,
                                  const struct leati_endpoint *endpoint, size_t bytes, bool write)
{
    if (use->hooks)
        use->hooks->was_used(endpoint->block, stream, endpoint->location.ptr, bytes, write, use->seq);
}

#endif
