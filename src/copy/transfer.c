/* transfer.c - resolves and checks the endpoints of transfers. See transfer.h. */
#include "copy/transfer.h"

#include "base/assert.h"
#include "base/quick.h"

LEATI_HOT static enum leati_direction direction_of(leat_kind to, leat_kind from)
{
    bool in = from == LEAT_KIND_PAGEABLE, out = to == LEAT_KIND_PAGEABLE;

    if (!in && !out)
        return LEATI_DIRECTION_DEVICE;
    if ((in && out) || (in ? to : from) == LEAT_KIND_PINNED)
        return LEATI_DIRECTION_HOST;
    return in ? LEATI_DIRECTION_IN : LEATI_DIRECTION_OUT;
}

LEATI_HOT leat_status leati_transfer_resolve(struct leati_transfer *transfer, void *dst, const void *src, bool ask)
{
    struct leati_driver *driver = transfer->stream->device->driver;
    struct leati_endpoint *to = &transfer->to, *from = &transfer->from;

    leati_assert(transfer->to_reach && transfer->from_reach);
    LEATI_TRY(leati_pointers_find_unread(driver, "dst", dst, transfer->to_reach, ask, to));
    LEATI_TRY(leati_pointers_find_unread(driver, "src", src, transfer->from_reach, ask, from));
    LEATI_TRY(leati_check_reach(transfer->stream, "dst", to));
    LEATI_TRY(leati_check_reach(transfer->stream, "src", from));
    transfer->unasked = !ask;
    transfer->direction = direction_of(to->location.kind, from->location.kind);
    return LEAT_OK;
}

leat_status leati_transfer_resolve_file(struct leati_transfer *transfer, void *memory)
{
    bool write = transfer->file.write;
    const char *name = write ? "src" : "dst";
    struct leati_endpoint *endpoint = write ? &transfer->from : &transfer->to;

    transfer->to = transfer->from = (struct leati_endpoint){.location.kind = LEAT_KIND_PAGEABLE};
    LEATI_TRY(leati_pointers_find_unread(transfer->stream->device->driver, name, memory, transfer->bytes, true,
                                         endpoint));
    LEATI_TRY(leati_check_reach(transfer->stream, name, endpoint));
    if (leati_is_pageable(endpoint))
        LEATI_TRY(leati_pointers_check_mapped(name, memory, transfer->bytes, !write));
    transfer->unasked = false;
    transfer->direction = direction_of(transfer->to.location.kind, transfer->from.location.kind);
    return LEAT_OK;
}

/* Asks the drivers about one endpoint, if leat has assumed that it is pageable. */
LEATI_HOT static leat_status ask(const struct leati_transfer *transfer, const char *name, size_t reach,
                                 struct leati_endpoint *endpoint)
{
    struct leati_driver *driver = transfer->stream->device->driver;

    if (endpoint->location.kind != LEAT_KIND_PAGEABLE)
        return LEAT_OK;
    LEATI_TRY(leati_pointers_find_unread(driver, name, endpoint->location.ptr, reach, true, endpoint));
    return leati_check_reach(transfer->stream, name, endpoint);
}

LEATI_HOT leat_status leati_transfer_ask(struct leati_transfer *transfer)
{
    leati_assert(transfer->unasked ||
                 transfer->direction == direction_of(transfer->to.location.kind, transfer->from.location.kind));
    LEATI_TRY(ask(transfer, "dst", transfer->to_reach, &transfer->to));
    LEATI_TRY(ask(transfer, "src", transfer->from_reach, &transfer->from));
    transfer->unasked = false;
    transfer->direction = direction_of(transfer->to.location.kind, transfer->from.location.kind);
    return LEAT_OK;
}

LEATI_HOT leat_status leati_check_runs(const void *dst, const void *src, size_t bytes)
{
    uintptr_t d = (uintptr_t)dst, s = (uintptr_t)src;

    if (d - s < bytes || s - d < bytes)
        return leati_fail(LEAT_ERROR_OVERLAP, "dst %p and src %p overlap within %zu bytes; use a third place", dst,
                          src, bytes);
    return LEAT_OK;
}

leat_status leati_transfer_check_mapped(const struct leati_transfer *transfer)
{
    const struct leati_endpoint *to = &transfer->to, *from = &transfer->from;

    if (leati_is_pageable(to))
        LEATI_TRY(leati_pointers_check_mapped("dst", to->location.ptr, transfer->to_reach, true));
    if (leati_is_pageable(from))
        LEATI_TRY(leati_pointers_check_mapped("src", from->location.ptr, transfer->from_reach, false));
    return LEAT_OK;
}

LEATI_HOT bool leati_transfer_is_usable(const struct leati_transfer *transfer)
{
    const struct leati_endpoint *to = &transfer->to, *from = &transfer->from;

    leati_assert(transfer->shape == LEATI_SHAPE_RUN && transfer->bytes == transfer->to_reach);
    return (!leati_is_pageable(from) || leati_staging_usable(from->location.ptr, transfer->bytes, false)) &&
           (!leati_is_pageable(to) || leati_staging_usable(to->location.ptr, transfer->bytes, true));
}

LEATI_HOT leat_status leati_transfer_may_start(const struct leati_transfer *transfer,
                                               struct leati_transfer_use *use)
{
    const struct leati_endpoint *to = &transfer->to, *from = &transfer->from;

    leati_assert(use);
    if (to->location.device && from->location.device && to->location.device != from->location.device)
        LEATI_TRY(leati_enable_peers(to->device, from->device));
    LEATI_TRY(leati_may_use(&use->written, transfer->stream, "dst", to, transfer->to_reach, true));
    return leati_may_use(&use->read, transfer->stream, "src", from, transfer->from_reach, false);
}

LEATI_HOT void leati_transfer_was_submitted(const struct leati_transfer *transfer, struct leati_transfer_use *use,
                                            bool complete)
{
    leati_was_used(&use->written, transfer->stream, &transfer->to, transfer->to_reach, true);
    if (complete)
        use->read.seq = 0;
    leati_was_used(&use->read, transfer->stream, &transfer->from, transfer->from_reach, false);
}
