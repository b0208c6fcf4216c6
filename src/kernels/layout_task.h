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

/* Those of a form, and those by which dimensions are cut. */
#define LEATI_TASK_DIMS 34

/* An ND tile has at most 2^13 units, so no more than 13 dimensions, and each of them in both passes. */
#define LEATI_TASK_ND_TILE_DIMS 26

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

/* A dimension of an ND tile, as one pass counts it. */
struct leati_nd_tile_dim {
    struct leati_divisor by;
    int32_t offset; /* units in memory from one to the next */
    uint32_t place; /* bytes in the ND tile, and from bit 16 on units of the dimension that is cut */
};

/* How an ND tile is read, or written: word by word, by nd_tile[first] to nd_tile[end - 1]. */
struct leati_task_pass {
    uint32_t first, end;
    uint32_t units;      /* that are counted: words when reading, units when writing */
    uint32_t word_units; /* of a word: 1, or as many as 4 bytes have */
    uint32_t last;       /* in the shorter ND tiles are those below, counted along the dimension that is cut */
};

struct leati_layout_task {
    uint64_t dst, src;           /* addresses of the first unit */
    uint64_t src_first, src_end; /* of all bytes that may be read */

    uint64_t list, wrong;       /* addresses, or 0 */
    int64_t list_dst, list_src; /* bytes from one index to the next; 0 on the side without the list */
    int64_t list_bound;
    uint32_t list_entry_bytes; /* 4 or 8 */

    uint32_t unit_bytes;

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
    struct leati_divisor tiles_i, tiles_j;
    uint32_t step_i;  /* units from one tile to the next: fewer than a tile has where tiles overlap */
    uint32_t overlap; /* 0: the destination's lines lie on words, so whole tiles write whole words; else 1 */

    /* ND tiles: all dim[] are in an ND tile's number, first the pieces of the dimension that is cut; of the last
     * piece there is less. */
    struct leati_task_pass read, write;
    uint32_t nd_tiles;
    struct leati_nd_tile_dim nd_tile[LEATI_TASK_ND_TILE_DIMS];

    struct leati_task_dim dim[LEATI_TASK_DIMS];
};

/* The place of word b of line j in a tile whose lines have words_i words, of which each has so many units. Here,
 * since the tests count the banks that it meets. */
static inline uint32_t leati_tile_place(uint32_t words_i, uint32_t units, uint32_t j, uint32_t b)
{
    return j * words_i + (b ^ (j / units & 7));
}

#endif
