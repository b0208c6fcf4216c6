/*
 * layouts.h - random pairs of layouts, and the plain loop that says what a copy between them means. Public headers
 * only.
 */
#ifndef LAYOUTS_H
#define LAYOUTS_H

#include <leat/layout.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns a random number below below. *random is the state: at first the seed, which must not be 0. */
uint64_t layouts_random(uint64_t *random, uint64_t below);

/* Two layouts of the same sizes. */
struct layouts_pair {
    leat_layout dst, src;
    bool nested; /* no dimension of the source overlaps another one */
    uint64_t elements;
    uint64_t list[256]; /* the indices, as numbers of the size that the layout says */

    /* The lowest and highest byte that an element touches, relative to each pointer. */
    int64_t dst_low, dst_high, src_low, src_high;
};

enum layouts_list { LAYOUTS_NO_LIST, LAYOUTS_GATHER, LAYOUTS_SCATTER };

/* Draws a pair with at most most_bytes of elements. No destination element is written twice, except through a list
 * that names it twice. Neither side reaches further than 16 times that size from its pointer. Do not copy the
 * struct: its list lies inside it. */
void layouts_draw(uint64_t *random, uint32_t element_bytes, uint64_t most_bytes, enum layouts_list list,
                  struct layouts_pair *pair);

/* Computes the other fields from the two layouts. Sizes must not be 0. */
void layouts_measure(struct layouts_pair *pair);

/* Returns the offset of element number of a layout, counted in the order of C arrays; INT64_MIN if its index is
 * out of bounds. Reads the list as host memory. */
int64_t layouts_at(const leat_layout *layout, uint64_t number);

/* The plain loop. dst_low and src_low point to the lowest byte of each side. Returns how many indices are out of
 * bounds. */
uint64_t layouts_copy(const struct layouts_pair *pair, void *dst_low, const void *src_low);

/* Writes the layout as one line into the caller's text, for messages. */
void layouts_print(const leat_layout *layout, char *text, size_t text_bytes);

#endif
