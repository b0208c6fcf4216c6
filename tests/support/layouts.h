/*
 * layouts.h - draws random pairs of layouts, and copies between them with a plain loop as the reference. Uses
 * public headers only.
 */
#ifndef LAYOUTS_H
#define LAYOUTS_H

#include <leat/layout.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns a random number from 0 to below - 1. *random is the state of the generator. It starts with the seed,
 * which must not be 0. */
uint64_t layouts_random(uint64_t *random, uint64_t below);

/* Two layouts that have the same sizes, and their index list. */
struct layouts_pair {
    leat_layout dst, src;
    bool nested; /* no two source dimensions overlap; some may have stride 0 */
    uint64_t elements;
    uint64_t list[256]; /* the indices; each has index_bytes bytes */

    /* Where the elements lie: the lowest byte and the end of the highest, relative to each pointer. */
    int64_t dst_low, dst_high, src_low, src_high;
};

enum layouts_list { LAYOUTS_NO_LIST, LAYOUTS_GATHER, LAYOUTS_SCATTER };

/* Draws a pair whose elements have at most most_bytes in total. The destination has each element once, unless its
 * list names one twice. Neither side reaches further than 16 * most_bytes from its pointer. The struct must not be
 * copied, because its layouts point to its list. */
void layouts_draw(uint64_t *random, uint32_t element_bytes, uint64_t most_bytes, enum layouts_list list,
                  struct layouts_pair *pair);

/* Computes the number of elements and the four offsets from the two layouts. Sizes must not be 0. */
void layouts_measure(struct layouts_pair *pair);

/* Returns the offset of an element, given by its number in the order of C arrays, or INT64_MIN if its index is out
 * of bounds. The list must be in host memory. */
int64_t layouts_at(const leat_layout *layout, uint64_t number);

/* Copies with the plain loop. dst_low and src_low point to the lowest byte of each side. Returns how many indices
 * are out of bounds. */
uint64_t layouts_copy(const struct layouts_pair *pair, void *dst_low, const void *src_low);

/* Writes the layout as one line of text, for messages. */
void layouts_print(const leat_layout *layout, char *text, size_t text_bytes);

#endif
