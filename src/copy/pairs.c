/* pairs.c - see pairs.h. */
#include "copy/pairs.h"

#include "base/assert.h"
#include "base/fault_handler.h"
#include "copy/scratch.h"

#include <stdlib.h>
#include <string.h>

enum { DST, SRC };

static leat_status fail_memory(size_t count)
{
    return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a list of %zu pairs", count);
}

/* ---- what the pointers are ---- */

/* The first pageable memory: how is it reached? Only a wrong environment variable is a failure. */
static leat_status meet_pageable(struct leati_pairs *pairs)
{
    struct leati_plan *look = &pairs->look;

    leati_assert(!pairs->pageable);
    pairs->pageable = true;
    look->transfer = (struct leati_transfer){
        .stream = pairs->stream, .shape = LEATI_SHAPE_BATCH, .direction = LEATI_DIRECTION_IN};
    LEATI_TRY(leati_plan_look(look));
    pairs->unread = look->stager && look->early && leati_fault_handler_is_installed();
    /* With nothing under way, it does not matter whether somebody pinned the memory past leat. */
    pairs->asking = pairs->asking || !look->idle || !pairs->unread;
    return LEAT_OK;
}

static enum leati_side side_of(const leat_stream *stream, const struct leati_target *target)
{
    switch (target->end.kind) {
    case LEAT_KIND_PAGEABLE:
        return LEATI_SIDE_PAGEABLE;
    case LEAT_KIND_PINNED:
        return LEATI_SIDE_PINNED;
    case LEAT_KIND_MANAGED:
        return LEATI_SIDE_NEAR;
    case LEAT_KIND_DEVICE:
        break;
    }
    return target->device == stream->device ? LEATI_SIDE_NEAR : LEATI_SIDE_FAR;
}

static uint32_t *recent_area(struct leati_pairs *pairs, uintptr_t ptr)
{
    return &pairs->recent[(ptr >> 21) % LEATI_AREAS_RECENT];
}

static leat_status add_area(struct leati_pairs *pairs, const struct leati_target *target, uint32_t *area)
{
    leati_assert(pairs->area_count && pairs->area_count <= pairs->area_room);
    if (pairs->area_count == pairs->area_room) {
        size_t bytes = pairs->area_room * sizeof *pairs->areas;
        bool own = pairs->areas == pairs->own_areas;
        struct leati_area *larger = realloc(own ? NULL : pairs->areas, 2 * bytes);

        if (!larger)
            return fail_memory(pairs->count);
        if (own)
            memcpy(larger, pairs->own_areas, bytes);
        pairs->areas = larger;
        pairs->area_room *= 2;
    }
    *area = pairs->area_count++;
    memset(&pairs->areas[*area], 0, sizeof pairs->areas[*area]);
    pairs->areas[*area].target = *target;
    pairs->areas[*area].side = side_of(pairs->stream, target);
    return LEAT_OK;
}

/* Looks an address up. side: DST or SRC. */
static leat_status look_up(struct leati_pairs *pairs, int side, uintptr_t ptr, size_t bytes, uint32_t *area)
{
    static const char *const names[] = {"dst", "src"};
    struct leati_driver *driver = pairs->stream->device->driver;
    uint32_t *of_base, *of_ptr = recent_area(pairs, ptr);
    struct leati_target target;

    if (side == SRC && pairs->unread)
        LEATI_TRY(leati_pointers_find_unread(driver, names[side], (void *)ptr, bytes, pairs->asking, &target));
    else
        LEATI_TRY(leati_pointers_find_range(driver, names[side], (void *)ptr, bytes, side == DST, &target));
    LEATI_TRY(leati_check_reach(pairs->stream, names[side], &target));
    if (target.end.kind == LEAT_KIND_PAGEABLE) {
        *area = 0;
        return pairs->pageable ? LEAT_OK : meet_pageable(pairs);
    }
    of_base = recent_area(pairs, target.base);
    leati_assert(*of_base < pairs->area_count);
    if (target.bytes && pairs->areas[*of_base].target.base == target.base)
        *area = *of_base;
    else
        LEATI_TRY(add_area(pairs, &target, area));
    *of_base = *of_ptr = *area;
    return LEAT_OK;
}

/* Place 0, and memory of unknown extent, have no bytes: nothing is inside. */
static inline bool is_inside(const struct leati_area *area, uintptr_t ptr, size_t bytes)
{
    uintptr_t offset = ptr - area->target.base;

    return offset < area->target.bytes && bytes <= area->target.bytes - offset;
}

/* area: the one that the pair before was in. */
static inline leat_status find_area(struct leati_pairs *pairs, int side, uintptr_t ptr, size_t bytes,
                                    uint32_t *area)
{
    uint32_t recent;

    leati_assert(*area < pairs->area_count && bytes);
    if (is_inside(&pairs->areas[*area], ptr, bytes))
        return LEAT_OK;
    recent = *recent_area(pairs, ptr);
    if (is_inside(&pairs->areas[recent], ptr, bytes)) {
        *area = recent;
        return LEAT_OK;
    }
    return look_up(pairs, side, ptr, bytes, area);
}

static inline void widen(struct leati_pairs *pairs, int side, uintptr_t ptr, size_t bytes)
{
    if (ptr < pairs->low[side])
        pairs->low[side] = ptr;
    if (ptr + bytes > pairs->high[side])
        pairs->high[side] = ptr + bytes;
}

/* in_order: the destinations ascend already. */
static leat_status find_areas(struct leati_pairs *pairs, const leat_copy_pair *given, size_t count, bool *in_order)
{
    uint32_t to = 0, from = 0;
    uintptr_t last = 0;

    *in_order = true;
    for (size_t i = 0; i < count; i++) {
        struct leati_pair *pair = &pairs->list[pairs->count];
        leat_status status;

        if (!given[i].bytes)
            continue;
        *pair = (struct leati_pair){.dst = (uintptr_t)given[i].dst,
                                    .src = (uintptr_t)given[i].src,
                                    .bytes = given[i].bytes,
                                    .number = (uint32_t)i};
        status = find_area(pairs, DST, pair->dst, pair->bytes, &to);
        if (status == LEAT_OK)
            status = find_area(pairs, SRC, pair->src, pair->bytes, &from);
        if (status != LEAT_OK)
            return leati_fail_in(status, "pair %zu", i);
        pair->to = to;
        pair->from = from;
        *in_order &= pair->dst >= last;
        last = pair->dst;
        widen(pairs, DST, pair->dst, pair->bytes);
        widen(pairs, SRC, pair->src, pair->bytes);
        pairs->bytes += pair->bytes;
        pairs->count++;
    }
    pairs->given_count = pairs->count;
    return LEAT_OK;
}

/* ---- order ---- */

struct key {
    uint64_t at;     /* from the lowest address */
    uint32_t number; /* in the list */
};

#define DIGIT_BITS 12u /* the counts of a pass fit into the first cache */
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

/* Sorts keys by the bits that are set in varying, the low digit first, back and forth between two arrays. Returns
 * the one that has the result. */
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

/* The pairs in the order of one side, as keys in *scratch, which the caller gives back. */
static leat_status sort_side(struct leati_pairs *pairs, int side, void **scratch, struct key **sorted)
{
    struct key *keys = leati_scratch_take(pairs->stream->device, 2 * pairs->count * sizeof *keys);
    uint64_t varying = 0;

    leati_assert(pairs->count);
    if (!keys)
        return fail_memory(pairs->count);
    for (size_t i = 0; i < pairs->count; i++) {
        uintptr_t ptr = side == DST ? pairs->list[i].dst : pairs->list[i].src;

        keys[i] = (struct key){.at = ptr - pairs->low[side], .number = (uint32_t)i};
        varying |= keys[i].at;
    }
    *sorted = sort_keys(keys, keys + pairs->count, pairs->count, varying);
    *scratch = keys;
    return LEAT_OK;
}

static leat_status put_in_order(struct leati_pairs *pairs)
{
    struct leati_pair *list;
    struct key *sorted;
    void *scratch, *block;

    LEATI_TRY(sort_side(pairs, DST, &scratch, &sorted));
    block = leati_scratch_take(pairs->stream->device, pairs->count * sizeof *list);
    if (!block) {
        (void)leat_memory_free(scratch);
        return fail_memory(pairs->count);
    }
    list = block;
    for (size_t i = 0; i < pairs->count; i++)
        list[i] = pairs->list[sorted[i].number];
    (void)leat_memory_free(scratch);
    if (pairs->block)
        (void)leat_memory_free(pairs->block);
    pairs->block = block;
    pairs->list = list;
    return LEAT_OK;
}

/* ---- overlaps and neighbours; the list is in order ---- */

static leat_status fail_overlap(const struct leati_pair *written, const struct leati_pair *other, bool read)
{
    if (written == other)
        return leati_fail(LEAT_ERROR_OVERLAP, "pair %u: dst %p and src %p overlap within %zu bytes",
                          written->number, (void *)written->dst, (void *)written->src, written->bytes);
    return leati_fail(
        LEAT_ERROR_OVERLAP,
        "pair %u: dst %p + %zu overlaps the %s of pair %u, %p + %zu: there is no order among the pairs",
        written->number, (void *)written->dst, written->bytes, read ? "src" : "dst", other->number,
        (void *)(read ? other->src : other->dst), other->bytes);
}

static leat_status check_destinations(const struct leati_pairs *pairs)
{
    const struct leati_pair *list = pairs->list;

    leati_assert(!pairs->count || list[0].dst >= pairs->low[DST]);
    for (size_t i = 1; i < pairs->count; i++)
        if (list[i].dst - list[i - 1].dst < list[i - 1].bytes)
            return fail_overlap(&list[i], &list[i - 1], false);
    return LEAT_OK;
}

/* Goes through sources and destinations at once, both in their order. */
static leat_status check_sources(struct leati_pairs *pairs)
{
    const struct leati_pair *list = pairs->list;
    leat_status status = LEAT_OK;
    struct key *sorted;
    void *scratch;

    /* Most often sources and destinations are far apart. */
    if (pairs->low[SRC] >= pairs->high[DST] || pairs->low[DST] >= pairs->high[SRC])
        return LEAT_OK;
    LEATI_TRY(sort_side(pairs, SRC, &scratch, &sorted));
    for (size_t i = 0, d = 0; i < pairs->count && status == LEAT_OK; i++) {
        const struct leati_pair *read = &list[sorted[i].number];

        while (d < pairs->count && list[d].dst + list[d].bytes <= read->src)
            d++;
        if (d < pairs->count && list[d].dst < read->src + read->bytes)
            status = fail_overlap(&list[d], read, true);
    }
    (void)leat_memory_free(scratch);
    return status;
}

/* Only within an allocation: drivers refuse copies across two of them. */
static bool continues(const struct leati_pair *pair, const struct leati_pair *next)
{
    return pair->dst + pair->bytes == next->dst && pair->src + pair->bytes == next->src && pair->to == next->to &&
           pair->from == next->from;
}

static void merge(struct leati_pairs *pairs)
{
    struct leati_pair *list = pairs->list;
    size_t last = 0;

    for (size_t i = 1; i < pairs->count; i++) {
        if (continues(&list[last], &list[i]))
            list[last].bytes += list[i].bytes;
        else if (++last != i)
            list[last] = list[i];
    }
    leati_assert(!pairs->count || last < pairs->count);
    pairs->count = pairs->count ? last + 1 : 0;
}

/* ---- all of it ---- */

leat_status leati_pairs_read(struct leati_pairs *pairs, leat_stream *stream, const leat_copy_pair *given,
                             size_t count, bool asking)
{
    bool in_order;

    /* Without what is written before it is read. */
    memset(pairs, 0, offsetof(struct leati_pairs, own));
    pairs->block = NULL;
    pairs->stream = stream;
    pairs->asking = asking;
    pairs->list = pairs->own;
    pairs->areas = pairs->own_areas;
    pairs->area_room = LEATI_AREAS_OWN;
    pairs->area_count = 1;
    pairs->low[DST] = pairs->low[SRC] = UINTPTR_MAX;
    memset(&pairs->own_areas[0], 0, sizeof pairs->own_areas[0]);
    if (count > UINT32_MAX)
        return leati_fail(LEAT_ERROR_INVALID, "%zu pairs; one call takes up to %u", count, UINT32_MAX);
    if (count > LEATI_PAIRS_OWN) {
        pairs->block = leati_scratch_take(stream->device, count * sizeof *pairs->list);
        if (!pairs->block)
            return fail_memory(count);
        pairs->list = pairs->block;
    }
    LEATI_TRY(find_areas(pairs, given, count, &in_order));
    if (!in_order)
        LEATI_TRY(put_in_order(pairs));
    LEATI_TRY(check_destinations(pairs));
    LEATI_TRY(check_sources(pairs));
    merge(pairs);
    return LEAT_OK;
}

void leati_pairs_end(struct leati_pairs *pairs)
{
    if (pairs->block)
        (void)leat_memory_free(pairs->block);
    if (pairs->areas != pairs->own_areas)
        free(pairs->areas);
}

leat_status leati_pairs_map_area(struct leati_pairs *pairs, struct leati_area *area)
{
    struct leat_device *device = pairs->stream->device;
    struct leati_driver *driver = device->driver;
    void *ptr = area->target.end.ptr, *device_pointer = area->target.device_pointer;

    leati_assert(!area->mapped);
    if (!device_pointer)
        device_pointer = ptr;
    if (!area->target.device_pointer && area->side == LEATI_SIDE_PINNED && driver->ops->host_device_pointer)
        LEATI_TRY(driver->ops->host_device_pointer(driver, device->native, ptr, &device_pointer));
    area->shift = (intptr_t)((uintptr_t)device_pointer - (uintptr_t)ptr);
    area->mapped = true;
    return LEAT_OK;
}

struct leati_target leati_pairs_target(const struct leati_pairs *pairs, uint32_t area, uintptr_t ptr)
{
    struct leati_target target = pairs->areas[area].target;

    leati_assert(area < pairs->area_count);
    target.end.ptr = (void *)ptr;
    return target;
}
