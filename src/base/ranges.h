/*
 * ranges.h - a sorted set of address ranges that do not overlap: which one holds an address, and where is room.
 *
 * Pure bookkeeping on numbers: no lock (the owner has one) and no memory but its own array. Looking up is a binary
 * search; inserting and removing move the entries behind, which is cheap at the end, where a growing set inserts.
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

/* The range that holds address, or NULL. Valid until the next insert or remove. */
const struct leati_range *leati_ranges_find(const struct leati_ranges *ranges, uintptr_t address);

/* A range that has bytes in common with [base, base + bytes), or NULL. */
const struct leati_range *leati_ranges_overlap(const struct leati_ranges *ranges, uintptr_t base, size_t bytes);

/* Makes sure that the next insert cannot fail; false when out of memory. */
bool leati_ranges_reserve(struct leati_ranges *ranges);

/* Adds a range that overlaps none (the caller has asked). False when out of memory. */
bool leati_ranges_insert(struct leati_ranges *ranges, uintptr_t base, size_t bytes, void *value);

/* Removes the range that starts at base. False when there is none. */
bool leati_ranges_remove(struct leati_ranges *ranges, uintptr_t base);

/*
 * Finds room for bytes within [low, high), starting at *cursor and going round once; low, high, *cursor and bytes
 * are multiples of the caller's granularity, and so is the result. Moves *cursor behind what it found, so that
 * freed addresses rest for as long as possible. 0 when there is no room.
 */
uintptr_t leati_ranges_room(const struct leati_ranges *ranges, uintptr_t low, uintptr_t high, uintptr_t *cursor,
                            size_t bytes);

/* Forgets all ranges and gives the array back. */
void leati_ranges_clear(struct leati_ranges *ranges);

#endif
