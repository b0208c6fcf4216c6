/* access.c - see access.h. */
#include "core/access.h"

leat_status leati_refuse_reach(const leat_stream *stream, const char *name, const struct leati_endpoint *endpoint)
{
    return leati_fail(
        LEAT_ERROR_UNSUPPORTED,
        "%s: %p is %s memory of the %s driver, which a stream of %s cannot reach; go through host memory", name,
        endpoint->location.ptr, leat_kind_name(endpoint->location.kind), endpoint->driver->name,
        stream->device->name);
}

leat_status leati_may_use_guarded(struct leati_access *use, leat_stream *stream, const char *name,
                                  const struct leati_endpoint *endpoint, size_t bytes, bool write)
{
    leat_status status;

    if (write && endpoint->read_only)
        return leati_fail(LEAT_ERROR_NOT_PERMITTED,
                          "%s: %p is mapped read-only (leat_virtual_set_access)", name,
                          endpoint->location.ptr);
    use->seq = leati_timeline_now(stream->timeline);
    status = use->hooks->may_use(endpoint->block, stream, endpoint->location.ptr, bytes, write);
    return status == LEAT_OK ? status : leati_fail_in(status, "%s", name);
}
