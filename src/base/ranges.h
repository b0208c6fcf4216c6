/*
 * ranges.h - a sorted array of address ranges that do not overlap. Finds the range of an address, and free room.
 *
 * The functions take no lock, so the array's owner must, and they never access the memory of the ranges. Lookup is
 * a binary search. Insert and remove move all later entries. That is cheap near the end of the array, where a
 * growing set usually inserts.
 */
#ifndef LEATI_RANGES_H
#define LEATI_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leati_range {
    uintptr_t base;
    size_t bytes; /* at least 1; base + bytes does not overflow */
    void *value;
};

struct leati_ranges {
    struct leati_range *entries;
    size_t count, capacity;
};

/* Returns the range that contains address, or NULL. The pointer is valid until the next insert or remove. */
const struct leati_range *leati_ranges_find(const struct leati_ranges *ranges, uintptr_t address);

/* Returns a range that overlaps [base, base + bytes), or NULL. */
const struct leati_range *leati_ranges_overlap(const struct leati_ranges *ranges, uintptr_t base, size_t bytes);

/* Makes sure that the next insert cannot fail. Returns false if out of memory. */
bool leati_ranges_reserve(struct leati_ranges *ranges);

/* Adds a range; the caller has checked that it overlaps no other. Returns false if out of memory. */
bool leati_ranges_insert(struct leati_ranges *ranges, uintptr_t base, size_t bytes, void *value);

/* Removes the range that starts at base. Returns false if no range starts there. */
bool leati_ranges_remove(struct leati_ranges *ranges, uintptr_t base);

/*
 * Finds free room for bytes bytes in [low, high) at a multiple of step, a power of two. Keeps gap bytes free
 * between the room and the ranges before and behind it, and between the room and high. Searches from *cursor to
 * high first, then from low. low, high and *cursor are multiples of step. Sets *cursor to the first multiple of
 * step behind the room and its gap, so that freed addresses are reused as late as possible. Returns 0 if there is
 * no room.
 */
uintptr_t leati_ranges_room(const struct leati_ranges *ranges, uintptr_t low, uintptr_t high, uintptr_t *cursor,
                            size_t bytes, size_t step, size_t gap);

/* Removes all ranges and frees the array. */
void leati_ranges_clear(struct leati_ranges *ranges);

#endif
