/* batch_ops.c - resolves, checks, sorts and merges the ops of a batch. See batch_ops.h. */
#include "copy/batch_ops.h"

#include "base/assert.h"
#include "base/fault_handler.h"
#include "copy/scratch.h"

#include <stdlib.h>
#include <string.h>

enum { DST, SRC };

static leat_status fail_memory(size_t count)
{
    return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a list of %zu ops", count);
}

/* ---- resolving the pointers ---- */

/* Called for the first op with pageable memory: collects the inputs of plans. Fails only if an environment
 * variable has a wrong value. */
static leat_status meet_pageable(struct leati_ops *ops)
{
    struct leati_plan *look = &ops->look;

    leati_assert(!ops->pageable);
    ops->pageable = true;
    look->transfer = (struct leati_transfer){
        .stream = ops->stream, .shape = LEATI_SHAPE_BATCH, .direction = LEATI_DIRECTION_IN};
    LEATI_TRY(leati_plan_look(look));
    ops->unread = look->stager && look->early && leati_fault_handler_is_installed();
    /* If the stream is idle, an unknown address may be pageable memory or memory that the program pinned outside
     * leat. Packing is correct for both, so leat need not ask the drivers. */
    ops->asking = ops->asking || !look->idle || !ops->unread;
    return LEAT_OK;
}

static enum leati_side side_of(const leat_stream *stream, const struct leati_endpoint *endpoint)
{
    switch (endpoint->location.kind) {
    case LEAT_KIND_PAGEABLE:
        return LEATI_SIDE_PAGEABLE;
    case LEAT_KIND_PINNED:
        return LEATI_SIDE_PINNED;
    case LEAT_KIND_MANAGED:
        return LEATI_SIDE_LOCAL;
    case LEAT_KIND_DEVICE:
        break;
    }
    return endpoint->device == stream->device ? LEATI_SIDE_LOCAL : LEATI_SIDE_PEER;
}

static uint32_t *recent_allocation(struct leati_ops *ops, uintptr_t ptr)
{
    return &ops->recent[(ptr >> 21) % LEATI_ALLOCATIONS_RECENT];
}

static leat_status add_allocation(struct leati_ops *ops, const struct leati_endpoint *endpoint,
                                  uint32_t *allocation)
{
    leati_assert(ops->allocation_count && ops->allocation_count <= ops->allocation_room);
    if (ops->allocation_count == ops->allocation_room) {
        size_t bytes = ops->allocation_room * sizeof *ops->allocations;
        bool own = ops->allocations == ops->own_allocations;
        struct leati_allocation *larger = realloc(own ? NULL : ops->allocations, 2 * bytes);

        if (!larger)
            return fail_memory(ops->count);
        if (own)
            memcpy(larger, ops->own_allocations, bytes);
        ops->allocations = larger;
        ops->allocation_room *= 2;
    }
    *allocation = ops->allocation_count++;
    memset(&ops->allocations[*allocation], 0, sizeof ops->allocations[*allocation]);
    ops->allocations[*allocation].endpoint = *endpoint;
    ops->allocations[*allocation].side = side_of(ops->stream, endpoint);
    ops->read_only |= endpoint->read_only;
    return LEAT_OK;
}

/* Finds the allocation of an address, or adds it. side: DST or SRC. */
static leat_status look_up(struct leati_ops *ops, int side, uintptr_t ptr, size_t bytes, uint32_t *allocation)
{
    static const char *const names[] = {"dst", "src"};
    struct leati_driver *driver = ops->stream->device->driver;
    uint32_t *of_base, *of_ptr = recent_allocation(ops, ptr);
    struct leati_endpoint endpoint;

    if (side == SRC && ops->unread)
        LEATI_TRY(leati_pointers_find_unread(driver, names[side], (void *)ptr, bytes, ops->asking, &endpoint));
    else
        LEATI_TRY(leati_pointers_find_range(driver, names[side], (void *)ptr, bytes, side == DST, &endpoint));
    LEATI_TRY(leati_check_reach(ops->stream, names[side], &endpoint));
    if (endpoint.location.kind == LEAT_KIND_PAGEABLE) {
        *allocation = 0;
        if (!ops->pageable)
            LEATI_TRY(meet_pageable(ops));
        /* Work that the stream has not reached may write the registered part of the source. */
        if (side == SRC && endpoint.mixed && !ops->look.idle)
            ops->look.early = false;
        return LEAT_OK;
    }
    of_base = recent_allocation(ops, endpoint.base);
    leati_assert(*of_base < ops->allocation_count);
    if (endpoint.bytes && ops->allocations[*of_base].endpoint.base == endpoint.base)
        *allocation = *of_base;
    else
        LEATI_TRY(add_allocation(ops, &endpoint, allocation));
    *of_base = *of_ptr = *allocation;
    return LEAT_OK;
}

/* Returns true if the range is inside the allocation. Always false for allocation 0 (pageable) and for allocations
 * of unknown size, because their endpoint.bytes is 0. */
static inline bool is_inside(const struct leati_allocation *allocation, uintptr_t ptr, size_t bytes)
{
    uintptr_t offset = ptr - allocation->endpoint.base;

    return offset < allocation->endpoint.bytes && bytes <= allocation->endpoint.bytes - offset;
}

/* Finds the allocation of one side of an op. On entry *allocation is that of the previous op, which is tried
 * first. */
static inline leat_status find_allocation(struct leati_ops *ops, int side, uintptr_t ptr, size_t bytes,
                                          uint32_t *allocation)
{
    uint32_t recent;

    leati_assert(*allocation < ops->allocation_count && bytes);
    if (is_inside(&ops->allocations[*allocation], ptr, bytes))
        return LEAT_OK;
    recent = *recent_allocation(ops, ptr);
    if (is_inside(&ops->allocations[recent], ptr, bytes)) {
        *allocation = recent;
        return LEAT_OK;
    }
    return look_up(ops, side, ptr, bytes, allocation);
}

static inline void widen(struct leati_ops *ops, int side, uintptr_t ptr, size_t bytes)
{
    if (ptr < ops->low[side])
        ops->low[side] = ptr;
    if (ptr + bytes > ops->high[side])
        ops->high[side] = ptr + bytes;
}

/* Fills the list with the ops that are not empty and finds their allocations. *in_order becomes true if the
 * destinations are already sorted. */
static leat_status find_allocations(struct leati_ops *ops, const leat_copy_op *given, size_t count, bool *in_order)
{
    uint32_t to = 0, from = 0;
    uintptr_t last = 0;

    *in_order = true;
    for (size_t i = 0; i < count; i++) {
        struct leati_op *op = &ops->list[ops->count];
        leat_status status;

        if (!given[i].bytes)
            continue;
        *op = (struct leati_op){.dst = (uintptr_t)given[i].dst,
                                .src = (uintptr_t)given[i].src,
                                .bytes = given[i].bytes,
                                .number = (uint32_t)i};
        status = find_allocation(ops, DST, op->dst, op->bytes, &to);
        if (status == LEAT_OK)
            status = find_allocation(ops, SRC, op->src, op->bytes, &from);
        if (status != LEAT_OK)
            return leati_fail_in(status, "op %zu", i);
        op->to = to;
        op->from = from;
        *in_order &= op->dst >= last;
        last = op->dst;
        widen(ops, DST, op->dst, op->bytes);
        widen(ops, SRC, op->src, op->bytes);
        ops->bytes += op->bytes;
        ops->count++;
    }
    ops->submitted_count = ops->count;
    return LEAT_OK;
}

/* ---- sorting ---- */

struct key {
    uint64_t at;     /* offset of the op from the lowest address of its side */
    uint32_t number; /* index of the op in the list */
};

#define DIGIT_BITS 12u /* the counters of a pass, 16 KiB, fit into the L1 cache */
#define DIGITS (1u << DIGIT_BITS)

static void sort_digit(struct key *sorted, const struct key *keys, size_t count, unsigned shift,
                       unsigned digit_bits)
{
    uint32_t starts[DIGITS], at = 0, digits = 1u << digit_bits;

    memset(starts, 0, digits * sizeof *starts);
    for (size_t i = 0; i < count; i++)
        starts[keys[i].at >> shift & (digits - 1)]++;
    for (uint32_t digit = 0; digit < digits; digit++) {
        uint32_t here = starts[digit];

        starts[digit] = at;
        at += here;
    }
    for (size_t i = 0; i < count; i++)
        sorted[starts[keys[i].at >> shift & (digits - 1)]++] = keys[i];
}

/* Sorts keys by radix sort, lowest digit first. Only bits that are set in varying differ between keys, so the
 * digits cover the range of these bits. Each pass copies from one array to the other. Returns the array with the
 * result. */
static struct key *sort_keys(struct key *keys, struct key *other, size_t count, uint64_t varying)
{
    unsigned low = varying ? (unsigned)__builtin_ctzll(varying) : 0;
    unsigned bits = varying ? 64 - (unsigned)__builtin_clzll(varying) - low : 0;
    unsigned passes = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
    unsigned digit_bits = passes ? (bits + passes - 1) / passes : 0;

    leati_assert(keys != other);
    for (unsigned pass = 0; pass < passes; pass++) {
        struct key *sorted = other;

        sort_digit(sorted, keys, count, low + pass * digit_bits, digit_bits);
        other = keys;
        keys = sorted;
    }
    return keys;
}

/* Sorts the ops by their destinations or by their sources. *sorted points into *scratch, which the caller must
 * free.
 */
static leat_status sort_side(struct leati_ops *ops, int side, void **scratch, struct key **sorted)
{
    struct key *keys = leati_scratch_take(ops->stream->device, LEAT_KIND_PINNED, 2 * ops->count * sizeof *keys);
    uint64_t varying = 0;

    leati_assert(ops->count);
    if (!keys)
        return fail_memory(ops->count);
    for (size_t i = 0; i < ops->count; i++) {
        uintptr_t ptr = side == DST ? ops->list[i].dst : ops->list[i].src;

        keys[i] = (struct key){.at = ptr - ops->low[side], .number = (uint32_t)i};
        varying |= keys[i].at;
    }
    *sorted = sort_keys(keys, keys + ops->count, ops->count, varying);
    *scratch = keys;
    return LEAT_OK;
}

static leat_status put_in_order(struct leati_ops *ops)
{
    struct leati_op *list;
    struct key *sorted;
    void *scratch, *block;

    LEATI_TRY(sort_side(ops, DST, &scratch, &sorted));
    block = leati_scratch_take(ops->stream->device, LEAT_KIND_PINNED, ops->count * sizeof *list);
    if (!block) {
        (void)leat_memory_free(scratch);
        return fail_memory(ops->count);
    }
    list = block;
    for (size_t i = 0; i < ops->count; i++)
        list[i] = ops->list[sorted[i].number];
    (void)leat_memory_free(scratch);
    if (ops->block)
        (void)leat_memory_free(ops->block);
    ops->block = block;
    ops->list = list;
    return LEAT_OK;
}

/* ---- overlaps and neighbours, in the sorted list ---- */

static leat_status fail_overlap(const struct leati_op *written, const struct leati_op *other, bool read)
{
    if (written == other)
        return leati_fail(LEAT_ERROR_OVERLAP, "op %u: dst %p and src %p overlap within %zu bytes", written->number,
                          (void *)written->dst, (void *)written->src, written->bytes);
    return leati_fail(LEAT_ERROR_OVERLAP,
                      "op %u: dst %p + %zu overlaps the %s of op %u, %p + %zu: there is no order among the ops",
                      written->number, (void *)written->dst, written->bytes, read ? "src" : "dst", other->number,
                      (void *)(read ? other->src : other->dst), other->bytes);
}

static leat_status check_destinations(const struct leati_ops *ops)
{
    const struct leati_op *list = ops->list;

    leati_assert(!ops->count || list[0].dst >= ops->low[DST]);
    for (size_t i = 1; i < ops->count; i++)
        if (list[i].dst - list[i - 1].dst < list[i - 1].bytes)
            return fail_overlap(&list[i], &list[i - 1], false);
    return LEAT_OK;
}

/* Checks that no source overlaps a destination: walks through the sorted sources and the sorted destinations in
 * parallel. */
static leat_status check_sources(struct leati_ops *ops)
{
    const struct leati_op *list = ops->list;
    leat_status status = LEAT_OK;
    struct key *sorted;
    void *scratch;

    /* In most batches the address range of all sources and that of all destinations are disjoint. */
    if (ops->low[SRC] >= ops->high[DST] || ops->low[DST] >= ops->high[SRC])
        return LEAT_OK;
    LEATI_TRY(sort_side(ops, SRC, &scratch, &sorted));
    for (size_t i = 0, d = 0; i < ops->count && status == LEAT_OK; i++) {
        const struct leati_op *read = &list[sorted[i].number];

        while (d < ops->count && list[d].dst + list[d].bytes <= read->src)
            d++;
        if (d < ops->count && list[d].dst < read->src + read->bytes)
            status = fail_overlap(&list[d], read, true);
    }
    (void)leat_memory_free(scratch);
    return status;
}

/* Returns true if next can be merged with op. Ops in different allocations are never merged, because drivers
 * refuse copies across allocations. */
static bool continues(const struct leati_op *op, const struct leati_op *next)
{
    return op->dst + op->bytes == next->dst && op->src + op->bytes == next->src && op->to == next->to &&
           op->from == next->from;
}

static void merge(struct leati_ops *ops)
{
    struct leati_op *list = ops->list;
    size_t last = 0;

    for (size_t i = 1; i < ops->count; i++) {
        if (continues(&list[last], &list[i]))
            list[last].bytes += list[i].bytes;
        else if (++last != i)
            list[last] = list[i];
    }
    leati_assert(!ops->count || last < ops->count);
    ops->count = ops->count ? last + 1 : 0;
}

/* ---- reading a batch ---- */

leat_status leati_ops_read(struct leati_ops *ops, leat_stream *stream, const leat_copy_op *given, size_t count,
                           bool asking)
{
    bool in_order;

    /* Leave out the arrays own and own_allocations, because they are written before they are read. */
    memset(ops, 0, offsetof(struct leati_ops, own));
    ops->block = NULL;
    ops->stream = stream;
    ops->asking = asking;
    ops->list = ops->own;
    ops->allocations = ops->own_allocations;
    ops->allocation_room = LEATI_ALLOCATIONS_OWN;
    ops->allocation_count = 1;
    ops->low[DST] = ops->low[SRC] = UINTPTR_MAX;
    memset(&ops->own_allocations[0], 0, sizeof ops->own_allocations[0]);
    if (count > UINT32_MAX)
        return leati_fail(LEAT_ERROR_INVALID, "%zu ops; one call takes up to %u", count, UINT32_MAX);
    if (count > LEATI_OPS_OWN) {
        ops->block = leati_scratch_take(stream->device, LEAT_KIND_PINNED, count * sizeof *ops->list);
        if (!ops->block)
            return fail_memory(count);
        ops->list = ops->block;
    }
    LEATI_TRY(find_allocations(ops, given, count, &in_order));
    if (!in_order)
        LEATI_TRY(put_in_order(ops));
    LEATI_TRY(check_destinations(ops));
    LEATI_TRY(check_sources(ops));
    merge(ops);
    return LEAT_OK;
}

void leati_ops_end(struct leati_ops *ops)
{
    if (ops->block)
        (void)leat_memory_free(ops->block);
    if (ops->allocations != ops->own_allocations)
        free(ops->allocations);
}

leat_status leati_ops_map_allocation(struct leati_ops *ops, struct leati_allocation *allocation)
{
    struct leat_device *device = ops->stream->device;
    struct leati_driver *driver = device->driver;
    void *ptr = allocation->endpoint.location.ptr, *device_pointer = allocation->endpoint.device_pointer;

    leati_assert(!allocation->mapped);
    if (!device_pointer)
        device_pointer = ptr;
    if (!allocation->endpoint.device_pointer && allocation->side == LEATI_SIDE_PINNED &&
        driver->ops->host_device_pointer)
        LEATI_TRY(driver->ops->host_device_pointer(driver, device->native, ptr, &device_pointer));
    allocation->shift = (intptr_t)((uintptr_t)device_pointer - (uintptr_t)ptr);
    allocation->mapped = true;
    return LEAT_OK;
}

struct leati_endpoint leati_ops_endpoint(const struct leati_ops *ops, uint32_t allocation, uintptr_t ptr)
{
    struct leati_endpoint endpoint = ops->allocations[allocation].endpoint;

    leati_assert(allocation < ops->allocation_count);
    endpoint.location.ptr = (void *)ptr;
    return endpoint;
}

void leati_ops_trace(const struct leati_ops *ops, const struct leati_op *op, enum leati_protocol_id protocol)
{
    const struct leati_endpoint *to = &ops->allocations[op->to].endpoint,
                                *from = &ops->allocations[op->from].endpoint;

    leati_span_copy(&(struct leati_span_part){
        .bytes = op->bytes,
        .source = (const void *)op->src,
        .from = leati_span_kind(from->location.kind),
        .to = leati_span_kind(to->location.kind),
        .protocol = (enum leati_trace_how)(LEATI_TRACE_PROTOCOL_DRIVER + (unsigned)protocol),
        .pieces = 1,
    });
}
