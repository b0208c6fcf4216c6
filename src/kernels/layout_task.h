/*
 * layout_task.h - defines the argument of a layout kernel: one struct, passed by value. layout/gpu.c fills it in,
 * and layout_kernels.c reads it.
 *
 * By divisions with remainder, kernels split the block number into one index for each outer dimension, and the
 * number of an item within the block into one index for each inner dimension. An item is a unit in the elements
 * kernel, and a chunk of 16 bytes in the rows kernels.
 */
#ifndef LEATI_KERNELS_LAYOUT_TASK_H
#define LEATI_KERNELS_LAYOUT_TASK_H

#include <stdint.h>

/* The maximum number of dimensions: those of a canonical layout, and one more for the pieces of a dimension that
 * is cut. */
#define LEATI_TASK_DIMS 34

/* An ND tile has at most 2^13 units, so it has at most 13 dimensions. Each of the two passes has an entry for each
 * dimension. */
#define LEATI_TASK_ND_TILE_DIMS 26

/* The largest number of channels of a pixel, and that of the kernels for few channels. The lists are X(n) for each
 * number of channels. */
#define LEATI_PIXEL_CHANNELS 16
#define LEATI_PIXEL_CHANNELS_FEW 8
#define LEATI_PIXEL_CHANNELS_FEW_LIST(X) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define LEATI_PIXEL_CHANNELS_WIDE_LIST(X) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)

/* The kernels for triples: lines of the source in a tile, bytes of each line, and threads of a block. */
#define LEATI_TRIPLES_I 96
#define LEATI_TRIPLES_LINE_BYTES 384
#define LEATI_TRIPLES_THREADS 192

/* All numbers that kernels divide are smaller than this. */
#define LEATI_TASK_NUMBERS (UINT32_C(1) << 31)

/* Constants by which a kernel divides a number n below 2^31 by size. The quotient is (h + n) >> shift, where h is
 * the high 32 bits of n * multiplier. */
struct leati_divisor {
    uint32_t size;
    uint32_t multiplier, shift;
};

struct leati_task_dim {
    int64_t dst, src; /* strides in bytes; for the dimension with the list, 0 on the side of the list */
    struct leati_divisor by;
    uint32_t entries; /* stride in entries of the list; 0 for a dimension without the list */
};

/* Where one copy of a launch of several copies begins: addresses of the first unit. */
struct leati_task_place {
    uint64_t dst, src;
};

/* Larger than the distance between the first unit of a copy and any other byte of it, so that src_first and
 * src_end are not negative. */
#define LEATI_TASK_REACH (UINT64_C(1) << 62)

/* The number of places for which a task with `dims` dimensions has room. A dimension is as large as two places. */
#define LEATI_TASK_PLACES (2 * LEATI_TASK_DIMS)
#define LEATI_TASK_PLACES_BESIDE(dims) (LEATI_TASK_PLACES - 2 * (dims))

/* A dimension of an ND tile in one pass, or a part of a dimension that the pass counts separately. */
struct leati_nd_tile_dim {
    struct leati_divisor by;
    int32_t offset; /* stride in memory, in units */
    uint32_t place; /* low 16 bits: stride in shared memory, in bytes; high 16 bits: stride in the cut dimension */
};

/* One pass over an ND tile: the pass that reads it from memory, or the pass that writes it to memory. The
 * dimensions of the pass are nd_tile[first] to nd_tile[end - 1]. */
struct leati_task_pass {
    uint32_t first, end;
    uint32_t units;      /* number of words in a tile for the reading pass, number of units for the writing pass */
    uint32_t word_units; /* number of units in a word: 1, or as many as fit in 4 bytes */
    uint32_t last;       /* size of the last tile in the cut dimension, in the steps that place counts */
};

struct leati_layout_task {
    uint64_t dst, src;           /* addresses of the first unit on both sides */
    uint64_t src_first, src_end; /* the kernel may read the addresses src_first to src_end - 1 */

    uint64_t list, wrong;       /* addresses of the list and of the counter of wrong indices, or 0 */
    int64_t list_dst, list_src; /* bytes from one value of an index to the next; 0 on the side without the list */
    int64_t list_bound;
    uint32_t list_entry_bytes; /* size of an entry of the list: 4 or 8 */

    uint32_t unit_bytes;

    uint32_t splits; /* for the rows kernels: 1 if each row repeats one unit of the source */

    /* The number of copies that the launch makes, each by blocks of its own in the second dimension of the grid.
     * Then dst and src are 0, and src_first and src_end are relative to LEATI_TASK_REACH bytes before the first
     * unit of a copy's source. 0: the launch makes one copy, and place[] is not used. The kernels for tiles and
     * for triples make only one. */
    uint32_t places;
    uint64_t row_bytes;

    /* For elements and rows. dim[0] to dim[inner - 1] count the items of a block, and the other dimensions count
     * blocks. The last inner dimension may be cut into pieces. Then dim[inner] counts the pieces. A piece has
     * `items` items, but the last piece has last_items. */
    uint32_t inner, dims, pieces;
    uint32_t items, last_items;
    uint64_t piece_bytes; /* bytes from one piece of a row to the next; 0: rows are not cut */
    struct leati_divisor blocks;

    /* For tiles; in the kernels for triples, units are triples. dim[0] to dim[inner - 1] are side i, which is
     * contiguous on the destination. dim[inner] to dim[middle - 1] are side j, which is contiguous on the source.
     * The other dimensions count blocks. */
    uint32_t middle;
    uint64_t size_i, size_j; /* lengths of the two sides in units */
    struct leati_divisor tiles_i, tiles_j;
    uint32_t step_i;  /* units from one tile to the next along i; less than the size of a tile if tiles overlap */
    uint32_t overlap; /* 0 if destination lines begin at words, so that full tiles write whole words; else 1 */

    /* For ND tiles. dim[] counts the tiles. The first dimension counts the pieces of the cut dimension, of which
     * the last may be shorter. */
    struct leati_task_pass read, write;
    uint32_t nd_tiles;
    struct leati_nd_tile_dim nd_tile[LEATI_TASK_ND_TILE_DIMS];

    /* For pixels. dim[0] counts the channels, dim[1] to dim[dims - 1] the lines. size_i is the number of pixels in
     * a line, step_i in a strip, and tiles_i is the number of strips in a line. splits is 1 if all pixels of a
     * line are the same pixel of the source. */
    uint32_t strips;                      /* number of strips in all lines */
    uint32_t gang_bits;                   /* 2^gang_bits threads copy a strip */
    uint32_t odd_src, odd_dst;            /* 0 if all strips, or lines of triples, begin at words, else 1 */
    uint32_t swizzle_shift, swizzle_mask; /* for leati_pixel_place() */

    union {
        struct leati_task_dim dim[LEATI_TASK_DIMS];
        struct leati_task_place place[LEATI_TASK_PLACES]; /* from the end on, so that dim[] can use the start */
    };
};

/* Returns the index in place[] of a copy of the launch. */
static inline uint32_t leati_task_place_of(uint32_t copy)
{
    return LEATI_TASK_PLACES - 1 - copy;
}

/* Returns the position in shared memory of word b of line j of a tile, whose lines have words_i words of `units`
 * units. The function is in this header because a test uses it to count bank conflicts. */
static inline uint32_t leati_tile_place(uint32_t words_i, uint32_t units, uint32_t j, uint32_t b)
{
    return j * words_i + (b ^ (j / units & 7));
}

/* Returns the position in shared memory of line j of a tile of triples, in words. Eight neighbouring threads, one
 * after the other along lines of the source, read 16, 8 or 4 triples each. After the lines of each of them there
 * is a word of padding. With it, a warp, which is 8 threads along the source and 4 along the destination, writes
 * to 32 different banks. */
static inline uint32_t leati_triple_line_place(uint32_t unit_bytes, uint32_t j)
{
    return j * (LEATI_TRIPLES_I * 3 * unit_bytes / 16) + j / (16 / unit_bytes);
}

/* Returns the position in shared memory of word k of a group of pixels, which has a word for each channel. */
static inline uint32_t leati_pixel_place(uint32_t channels, uint32_t shift, uint32_t mask, uint32_t group,
                                         uint32_t k)
{
    return (group * channels + k) ^ (group >> shift & mask);
}

#endif
