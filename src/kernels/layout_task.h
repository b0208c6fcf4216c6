/*
 * layout_task.h - the argument of a layout kernel: one struct, passed by value. layout/gpu.c fills it in,
 * layout_kernels.c reads it.
 *
 * Kernels split the block number into one index for each outer dimension, by division with remainder, and the
 * number of an item within the block into indices of the inner dimensions. An item is a unit in the elements
 * kernel, and a chunk of 16 bytes in the rows kernels.
 */
#ifndef LEATI_KERNELS_LAYOUT_TASK_H
#define LEATI_KERNELS_LAYOUT_TASK_H

#include <stdint.h>

/* The dimensions of a canonical layout, and one more for the pieces of a dimension that is cut. */
#define LEATI_TASK_DIMS 34

/* An ND tile has at most 2^13 units, so at most 13 dimensions; both passes have an entry for each. */
#define LEATI_TASK_ND_TILE_DIMS 26

/* Numbers that kernels divide are below this. */
#define LEATI_TASK_NUMBERS (UINT32_C(1) << 31)

/* Divides numbers below 2^31 by size: (high 32 bits of n * multiplier, plus n) >> shift. */
struct leati_divisor {
    uint32_t size;
    uint32_t multiplier, shift;
};

struct leati_task_dim {
    int64_t dst, src; /* strides in bytes; 0 on the side that has the list */
    struct leati_divisor by;
    uint32_t entries; /* stride in the list's entries; 0: another dimension has the list */
};

/* A dimension of an ND tile, or a part of one, as one pass counts it. */
struct leati_nd_tile_dim {
    struct leati_divisor by;
    int32_t offset; /* stride in memory, in units */
    uint32_t place; /* low 16 bits: stride in shared memory, in bytes; above: stride in the cut dimension */
};

/* One pass over an ND tile: reading it from memory, or writing it. Its dimensions are nd_tile[first] to
 * nd_tile[end - 1]. */
struct leati_task_pass {
    uint32_t first, end;
    uint32_t units;      /* what the pass counts: words when reading, units when writing */
    uint32_t word_units; /* units in a word: 1, or as many as fit in 4 bytes */
    uint32_t last;       /* size of the last, shorter tile in the cut dimension */
};

struct leati_layout_task {
    uint64_t dst, src;           /* addresses of the first unit */
    uint64_t src_first, src_end; /* the addresses that may be read */

    uint64_t list, wrong;       /* addresses, or 0 */
    int64_t list_dst, list_src; /* bytes for one step of an index; 0 on the side without the list */
    int64_t list_bound;
    uint32_t list_entry_bytes; /* 4 or 8 */

    uint32_t unit_bytes;

    uint32_t splits; /* for the rows kernels: 1 if each row repeats one unit of the source */
    uint64_t row_bytes;

    /* Elements and rows. dim[0] to dim[inner - 1] count a block's items, the rest counts blocks. The last inner
     * dimension may be cut into pieces; then dim[inner] counts the pieces. A piece has items items, and the last
     * piece last_items. */
    uint32_t inner, dims, pieces;
    uint32_t items, last_items;
    uint64_t piece_bytes; /* from one piece of a row to the next; 0: rows are not cut */
    struct leati_divisor blocks;

    /* Tiles: dim[0] to dim[inner - 1] are side i, contiguous on the destination; dim[inner] to dim[middle - 1] are
     * side j, contiguous on the source; the rest counts blocks. */
    uint32_t middle;
    uint64_t size_i, size_j; /* units of the two sides */
    struct leati_divisor tiles_i, tiles_j;
    uint32_t step_i;  /* units from one tile to the next along i: fewer than a tile has if tiles overlap */
    uint32_t overlap; /* 0: the destination's lines begin at words, so whole tiles write whole words; else 1 */

    /* ND tiles: dim[] counts the tiles, first the pieces of the cut dimension, of which the last one is shorter.
     */
    struct leati_task_pass read, write;
    uint32_t nd_tiles;
    struct leati_nd_tile_dim nd_tile[LEATI_TASK_ND_TILE_DIMS];

    struct leati_task_dim dim[LEATI_TASK_DIMS];
};

/* Returns the position in shared memory of word b of line j of a tile, whose lines have words_i words of so many
 * units. It is in this header because a test counts bank conflicts with it. */
static inline uint32_t leati_tile_place(uint32_t words_i, uint32_t units, uint32_t j, uint32_t b)
{
    return j * words_i + (b ^ (j / units & 7));
}

#endif
