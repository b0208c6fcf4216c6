/*
 * access.h - checks, for copies and fills, that the stream can reach the memory, that the memory may be written
 * and, in guard mode, that the stream is ordered after earlier accesses.
 */
#ifndef LEATI_ACCESS_H
#define LEATI_ACCESS_H

#include "core/core.h"

/* Fails with UNSUPPORTED, because the memory belongs to another driver than the stream. name: the argument's name
 * in messages, such as "dst". */
leat_status leati_refuse_reach(const leat_stream *stream, const char *name, const struct leati_endpoint *endpoint);

static inline leat_status leati_check_reach(const leat_stream *stream, const char *name,
                                            const struct leati_endpoint *endpoint)
{
    if (!endpoint->driver || endpoint->location.kind == LEAT_KIND_PAGEABLE ||
        endpoint->driver == stream->device->driver)
        return LEAT_OK;
    return leati_refuse_reach(stream, name, endpoint);
}

/* One access to memory by work that is about to be submitted to a stream. */
struct leati_access {
    const struct leati_guard_hooks *hooks; /* NULL: guard mode is off, or the memory belongs to no pool */
    uint64_t seq;
};

/* The slow path of leati_may_use(), for memory of a guarded pool and for writes to read-only memory. */
leat_status leati_may_use_guarded(struct leati_access *use, leat_stream *stream, const char *name,
                                  const struct leati_endpoint *endpoint, size_t bytes, bool write);

/* Call leati_may_use() before submitting work that accesses the endpoint's memory. It fails with NOT_PERMITTED
 * if a write goes to read-only memory or if, in guard mode (leat/pool.h), the stream is not ordered after
 * earlier accesses. Call leati_was_used() after the work was submitted. */
static inline leat_status leati_may_use(struct leati_access *use, leat_stream *stream, const char *name,
                                        const struct leati_endpoint *endpoint, size_t bytes, bool write)
{
    use->seq = 0;
    /* Acquire: pairs with the release in leati_guard_start(). */
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
