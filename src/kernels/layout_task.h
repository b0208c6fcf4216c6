/*
 * layout_task.h - what a layout kernel is told: its one argument, a struct by value. layout/gpu.c fills it in,
 * layout_kernels.c reads it.
 *
 * A block's number is taken apart by divisions with a remainder, one for each dimension; what is in a block the
 * same way, item by item. An item is a unit, a chunk of 16 bytes or a row of a tile, as the kernel has it.
 */
#ifndef LEATI_KERNELS_LAYOUT_TASK_H
#define LEATI_KERNELS_LAYOUT_TASK_H

#include <stdint.h>

/* Those of a form, and three by which dimensions are cut. */
#define LEATI_TASK_DIMS 36

/* Numbers that are divided are below this. */
#define LEATI_TASK_NUMBERS (UINT32_C(1) << 31)

/* Divides numbers below 2^31 by size: (high 32 bits of n * multiplier, plus n) >> shift. */
struct leati_divisor {
    uint32_t size;
    uint32_t multiplier, shift;
};

struct leati_task_dim {
    int64_t dst, src; /* bytes from one to the next; 0 on the side that has the list */
    struct leati_divisor by;
    uint32_t entries; /* of the list, from one to the next; 0: another dimension has the list */
};

struct leati_layout_task {
    uint64_t dst, src; /* addresses of the first unit */

    uint64_t list, wrong;       /* addresses, or 0 */
    int64_t list_dst, list_src; /* bytes from one index to the next; 0 on the side without the list */
    int64_t list_bound;
    uint32_t list_entry_bytes; /* 4 or 8 */

    uint32_t unit_bytes;
    uint32_t wide_dst, wide_src; /* 1: 16 bytes at a time are possible on this side */

    uint32_t splits; /* kernels' own: see there */
    uint64_t row_bytes;

    /* Elements and rows. dim[0] to dim[inner - 1] are in a block's items, the rest in its number. The last of the
     * inner may be cut in pieces: dim[inner] are those then. Of a piece there are items, of the last last_items.
     */
    uint32_t inner, dims, pieces;
    uint32_t items, last_items;
    uint64_t piece_bytes; /* from one piece of a row to the next; 0: rows are whole */
    struct leati_divisor blocks;

    /* Tiles: dim[0] to dim[inner - 1] are the lines of a tile on the source, which lie side by side on the
     * destination; to dim[middle - 1] the other way round; the rest are in the block's number. */
    uint32_t middle;
    uint64_t size_i, size_j; /* units in all, of these two */
    struct leati_divisor tiles_first, tiles_second;
    uint32_t order; /* 0: neighbours in number are neighbours on the destination, 1: on the source */

    struct leati_task_dim dim[LEATI_TASK_DIMS];
};

#endif
