/* ranges.c - see ranges.h. */
#include "base/ranges.h"
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

/* Returns the number of ranges that start at or below address. */
static size_t starts_up_to(const struct leati_ranges *ranges, uintptr_t address)
{
    size_t low = 0, high = ranges->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ranges->entries[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    leati_assert(!low || ranges->entries[low - 1].base <= address);
    leati_assert(low == ranges->count || ranges->entries[low].base > address);
    return low;
}

const struct leati_range *leati_ranges_find(const struct leati_ranges *ranges, uintptr_t address)
{
    size_t behind = starts_up_to(ranges, address);
    const struct leati_range *range = behind ? &ranges->entries[behind - 1] : NULL;

    return range && address - range->base < range->bytes ? range : NULL;
}

const struct leati_range *leati_ranges_overlap(const struct leati_ranges *ranges, uintptr_t base, size_t bytes)
{
    size_t behind = starts_up_to(ranges, base);

    if (behind && base - ranges->entries[behind - 1].base < ranges->entries[behind - 1].bytes)
        return &ranges->entries[behind - 1];
    if (behind < ranges->count && ranges->entries[behind].base - base < bytes)
        return &ranges->entries[behind];
    return NULL;
}

bool leati_ranges_reserve(struct leati_ranges *ranges)
{
    size_t capacity = ranges->capacity ? 2 * ranges->capacity : 64;
    struct leati_range *entries;

    leati_assert(ranges->count <= ranges->capacity);
    if (ranges->count < ranges->capacity)
        return true;
    entries = realloc(ranges->entries, capacity * sizeof *entries);
    if (!entries)
        return false;
    ranges->entries = entries;
    ranges->capacity = capacity;
    return true;
}

bool leati_ranges_insert(struct leati_ranges *ranges, uintptr_t base, size_t bytes, void *value)
{
    size_t place = starts_up_to(ranges, base);

    leati_assert(bytes && base + bytes > base);
    leati_assert(!leati_ranges_overlap(ranges, base, bytes));
    if (!leati_ranges_reserve(ranges))
        return false;
    memmove(ranges->entries + place + 1, ranges->entries + place,
            (ranges->count - place) * sizeof *ranges->entries);
    ranges->entries[place] = (struct leati_range){.base = base, .bytes = bytes, .value = value};
    ranges->count++;
    leati_assert(!place || ranges->entries[place - 1].base + ranges->entries[place - 1].bytes <= base);
    leati_assert(place + 1 == ranges->count || base + bytes <= ranges->entries[place + 1].base);
    return true;
}

bool leati_ranges_remove(struct leati_ranges *ranges, uintptr_t base)
{
    size_t behind = starts_up_to(ranges, base);

    if (!behind || ranges->entries[behind - 1].base != base)
        return false;
    ranges->count--;
    memmove(ranges->entries + behind - 1, ranges->entries + behind,
            (ranges->count - (behind - 1)) * sizeof *ranges->entries);
    return true;
}

static uintptr_t round_up(uintptr_t address, size_t step)
{
    return (address + step - 1) & ~(uintptr_t)(step - 1);
}

/* Returns the lowest place at or above from that leati_ranges_room() accepts; 0 if there is none. */
static uintptr_t room_above(const struct leati_ranges *ranges, uintptr_t from, uintptr_t high, size_t bytes,
                            size_t step, size_t gap)
{
    size_t behind = starts_up_to(ranges, from);

    for (size_t next = behind ? behind - 1 : 0;; next++) {
        uintptr_t end;

        if (high - from < gap || high - from - gap < bytes)
            return 0;
        if (next == ranges->count ||
            (ranges->entries[next].base >= from && ranges->entries[next].base - from >= bytes + gap))
            return from;
        end = ranges->entries[next].base + ranges->entries[next].bytes;
        if (end > high || high - end < gap)
            return 0;
        if (end + gap > from)
            from = round_up(end + gap, step); /* at most high, which is a multiple of step: no overflow */
    }
}

uintptr_t leati_ranges_room(const struct leati_ranges *ranges, uintptr_t low, uintptr_t high, uintptr_t *cursor,
                            size_t bytes, size_t step, size_t gap)
{
    uintptr_t found;

    leati_assert(bytes && low <= *cursor && *cursor <= high && LEATI_IS_POWER_OF_TWO(step));
    leati_assert(low % step == 0 && high % step == 0 && *cursor % step == 0);
    found = room_above(ranges, *cursor, high, bytes, step, gap);
    if (!found)
        found = room_above(ranges, low, high, bytes, step, gap);
    leati_assert(!found || (found >= low && found % step == 0 && high - found >= bytes + gap));
    leati_assert(!found || !leati_ranges_overlap(ranges, found, bytes + gap));
    if (found)
        *cursor = round_up(found + bytes + gap, step);
    return found;
}

void leati_ranges_clear(struct leati_ranges *ranges)
{
    free(ranges->entries);
    memset(ranges, 0, sizeof *ranges);
}
