/*
 * layouts.h - random pairs of layouts, and the plain loop that says what copying between them means. For tests;
 * public headers only.
 */
#ifndef LAYOUTS_H
#define LAYOUTS_H

#include <leat/layout.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Random numbers; the state is the seed at first, and not 0. */
uint64_t layouts_random(uint64_t *random, uint64_t below);

/* Two layouts of the same sizes. */
struct layouts_pair {
    leat_layout dst, src;
    bool nested; /* on the source no dimension runs into another one */
    uint64_t elements;
    uint64_t list[256]; /* what the list of indices points to, as numbers of its own size */

    /* The bytes that elements may lie in, from each pointer. */
    int64_t dst_low, dst_high, src_low, src_high;
};

enum layouts_list { LAYOUTS_NO_LIST, LAYOUTS_GATHER, LAYOUTS_SCATTER };

/*
 * Draws a pair with at most most_bytes of elements, no destination element of which is written twice but by a list
 * that names one twice. From its pointer
 * neither side reaches 16 times as far as that, nor are its ends further apart. A pair must not be moved: its
 * list lies in it.
 */
void layouts_draw(uint64_t *random, uint32_t element_bytes, uint64_t most_bytes, enum layouts_list list,
                  struct layouts_pair *pair);

/* Fills in what follows from the two layouts of a pair. Sizes are not 0. */
void layouts_measure(struct layouts_pair *pair);

/* Where element number of a layout lies, in the order in which C arrays are counted; INT64_MIN if its index is out
 * of bounds. The list is read as host memory. */
int64_t layouts_at(const leat_layout *layout, uint64_t number);

/* The plain loop, between memory that begins with the lowest byte of each side. Returns how many indices are out
 * of bounds. */
uint64_t layouts_copy(const struct layouts_pair *pair, void *dst_low, const void *src_low);

/* The layout in one line, for messages; the text is the caller's. */
void layouts_print(const leat_layout *layout, char *text, size_t text_bytes);

#endif
