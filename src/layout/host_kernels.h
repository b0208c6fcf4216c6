/*
 * host_kernels.h - declares the kernels that copy layouts on processors. Each kernel copies a loop nest. A loop
 * nest is a part of a canonical layout without the dimension with a list. Its dimensions are in the order of the
 * loops.
 */
#ifndef LEATI_LAYOUT_HOST_KERNELS_H
#define LEATI_LAYOUT_HOST_KERNELS_H

#include "layout/canonical.h"
#include "layout/host.h"

#include <string.h>

struct leati_loop_nest {
    unsigned dims; /* dimension 0 is the innermost loop */
    unsigned unit_bytes;
    enum leati_host_level level;
    bool streaming;              /* the kernel should use non-temporal stores */
    unsigned dst_dims, src_dims; /* numbers of dimensions; their meaning is given at each kernel */
    /* For tiles with dst_dims 1. Two parts may share a cache line of the destination. The part in which the line
     * begins copies all of it. behind: another part is before this one along dimension 0. ahead: the number of
     * units that follow this part along dimension 0. */
    bool behind;
    uint64_t ahead;
    uint64_t size[LEATI_CANONICAL_MAX_DIMS]; /* 1 or more */
    int64_t dst_stride[LEATI_CANONICAL_MAX_DIMS];
    int64_t src_stride[LEATI_CANONICAL_MAX_DIMS];
};

/* Copies runs of bytes: dimension 0 is dense on both sides. If dst_dims is 1, the next loop is the dimension of
 * the next run on the destination. If src_dims is 1, the loop after it is the dimension of the next run on the
 * source. */
void leati_nest_runs(const struct leati_loop_nest *nest, char *dst, const char *src);

static inline unsigned leati_least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Copies a short run without a function call. Accesses no bytes outside the run. */
static inline void leati_copy_short(char *dst, const char *src, size_t bytes)
{
    if (bytes >= 16) {
        size_t i = 0;

        for (; i + 16 < bytes; i += 16)
            memcpy(dst + i, src + i, 16);
        memcpy(dst + bytes - 16, src + bytes - 16, 16);
    } else if (bytes >= 8) {
        memcpy(dst, src, 8);
        memcpy(dst + bytes - 8, src + bytes - 8, 8);
    } else if (bytes >= 4) {
        memcpy(dst, src, 4);
        memcpy(dst + bytes - 4, src + bytes - 4, 4);
    } else {
        for (size_t i = 0; i < bytes; i++)
            dst[i] = src[i];
    }
}

/* Copies one run with the streaming stores of tiles, or with cached stores if tiles is NULL. */
struct leati_tiles;
void leati_nest_run(const struct leati_tiles *tiles, char *dst, const char *src, size_t bytes);

/* Repeats units: dimension 0 is dense on the destination and has stride 0 on the source. */
void leati_nest_fill(const struct leati_loop_nest *nest, char *dst, const char *src);

/* Copies unit by unit. Can copy every loop nest. */
void leati_nest_elements(const struct leati_loop_nest *nest, char *dst, const char *src);

/* Transposes in tiles. The first dst_dims dimensions form a dense run on the destination, of at most
 * LEATI_TILES_DST_MOST units. The next src_dims dimensions form a dense run on the source, of at most
 * LEATI_TILES_SRC_MOST units. Units have 1, 2, 4, 8 or 16 bytes, or a size that leati_wide_tile() supports. */
void leati_nest_tiles(const struct leati_loop_nest *nest, char *dst, const char *src);

#define LEATI_TILES_DST_MOST 2048
#define LEATI_TILES_SRC_MOST 4096
#define LEATI_TILES_STAGED_MOST 1024 /* the same number if rows of the destination do not begin at cache lines */

/* Permutes units within registers. The first dst_dims dimensions form a small group of units, and the next
 * dimension counts groups. One of these conditions must hold:
 * - the groups are dense and contiguous on the destination, and the counting dimension is dense on the source;
 * - the groups are dense and contiguous on the source, and the counting dimension is dense on the destination;
 * - both sides have the same groups, and only the order of units within a group differs;
 * - dst_dims is 0: dimension 0 is dense on the destination, and its source stride is at most LEATI_SHUFFLE_MOST
 *   units. */
void leati_nest_shuffle(const struct leati_loop_nest *nest, char *dst, const char *src);

typedef void (*leati_nest_kernel)(const struct leati_loop_nest *nest, char *dst, const char *src);

/* The list entries for which a loop nest is copied. */
struct leati_listed {
    const void *list;
    unsigned index_bytes;
    int64_t bound;
    uint64_t first, count; /* the first entry, and the number of entries */
    bool on_dst;
    int64_t dst_stride, src_stride; /* on the side with the list, bytes per index value; on the other, per entry */
};

/* Copies the loop nest once for each index that is in bounds. Returns the number of indices that are out of
 * bounds. */
uint64_t leati_nest_listed(const struct leati_loop_nest *nest, const struct leati_listed *listed,
                           leati_nest_kernel kernel, char *dst, const char *src);

/* A function that leati_nest_walk() calls at each position. It copies the innermost loops there. */
typedef void (*leati_step)(const void *context, char *dst, const char *src);

/* Iterates over all positions in the dimensions from number first on, and calls step at each position. */
void leati_nest_walk(const struct leati_loop_nest *nest, unsigned first, leati_step step, const void *context,
                     char *dst, const char *src);

/* ---- shuffles ---- */

#define LEATI_SHUFFLE_MOST 16        /* maximum number of registers of a side */
#define LEATI_SHUFFLE_UNITS_MOST 256 /* maximum number of units in a group */

/* The permutation of a shuffle: byte p of the destination's register j is byte at[j][p] of the source's register
 * from[j][p]. */
struct leati_shuffle {
    _Alignas(64) unsigned char at[LEATI_SHUFFLE_MOST][64];
    _Alignas(64) unsigned char from[LEATI_SHUFFLE_MOST][64];
    int64_t dst_at[LEATI_SHUFFLE_MOST], src_at[LEATI_SHUFFLE_MOST]; /* offsets of the registers in memory */
    int64_t dst_step, src_step;                                     /* bytes from one iteration to the next */
    unsigned src_count;                                             /* number of source registers */
};

/* Where a shuffle runs. Register j of the destination is at dst_at[j]; its bytes come from source registers that
 * are src_from[j] bytes behind their places in src_at. */
struct leati_shuffle_run {
    char *dst;
    const char *src;
    uint64_t times; /* number of iterations */
    bool streaming; /* use streaming stores; all registers of the destination must begin at cache lines */
    int64_t dst_at[LEATI_SHUFFLE_MOST], src_from[LEATI_SHUFFLE_MOST];
};

/* Run the shuffle with registers of 16 bytes (avx2) or of 64 bytes (vbmi). count: the number of destination
 * registers. avx2 uses no streaming stores. */
void leati_shuffle_avx2(const struct leati_shuffle *shuffle, unsigned count, const struct leati_shuffle_run *run);
void leati_shuffle_vbmi(const struct leati_shuffle *shuffle, unsigned count, const struct leati_shuffle_run *run);

/* ---- tiles ---- */

#define LEATI_LINE_BYTES 64

/* Tiles with more rows are not paired. The hardware prefetcher cannot follow all rows of such a pair. */
#define LEATI_PAIR_SIDE 16

/*
 * Transposes one square tile: reads one cache line from each of n source rows, where n is the number of units in a
 * line, and writes n lines to the destination. Source row i begins at src + src_rows[i], destination line j at
 * dst + dst_rows[j].
 */
typedef void (*leati_tile)(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows);

/* Transposes a tile that may be smaller: it reads dst_row_count units from each of src_row_count source rows, and
 * writes src_row_count units to each of dst_row_count destination rows. Accesses no other bytes. Both counts are 1
 * or more. */
typedef void (*leati_part_tile)(char *dst, const int64_t *dst_rows, unsigned dst_row_count, const char *src,
                                const int64_t *src_rows, unsigned src_row_count);

/* Transposes a tile, or a pair, to rows that need not begin at cache lines. Uses streaming stores. Of each row it
 * writes as many lines as the tile or pair fills, from the line in which it begins on. left: a line for each row;
 * on entry it ends with the bytes in front of the tile, on return with the last bytes of the tile, which belong to
 * the next line. */
typedef void (*leati_joined_tile)(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows,
                                  char *left, bool pair);

/* Smaller tiles in plain C, for units of 1, 2, 4, 8 and 16 bytes. */
void leati_part_tile_1(char *dst, const int64_t *dst_rows, unsigned dst_row_count, const char *src,
                       const int64_t *src_rows, unsigned src_row_count);
void leati_part_tile_2(char *dst, const int64_t *dst_rows, unsigned dst_row_count, const char *src,
                       const int64_t *src_rows, unsigned src_row_count);
void leati_part_tile_4(char *dst, const int64_t *dst_rows, unsigned dst_row_count, const char *src,
                       const int64_t *src_rows, unsigned src_row_count);
void leati_part_tile_8(char *dst, const int64_t *dst_rows, unsigned dst_row_count, const char *src,
                       const int64_t *src_rows, unsigned src_row_count);
void leati_part_tile_16(char *dst, const int64_t *dst_rows, unsigned dst_row_count, const char *src,
                        const int64_t *src_rows, unsigned src_row_count);

/* Returns the number of rows of a tile. They fill whole cache lines of the destination, and are enough to reach
 * the end of a line from any start in it. */
unsigned leati_tile_side(unsigned unit_bytes);

/* Returns the function for wide units of this size. A wide unit is a run of the canonical layout's units. Returns
 * NULL for sizes for which there is no function, because copying run by run is as fast. */
leati_part_tile leati_wide_tile(uint64_t bytes);

/* The tiles for one instruction set. The arrays are indexed by the binary logarithm of the unit size. Streaming
 * tiles use non-temporal stores to addresses that are aligned to cache lines, and other threads may see these
 * stores only after leati_stream_fence(). A pair is two tiles that are adjacent on the destination, so it has
 * twice as many source rows. Memory is fastest if two neighbouring lines are written together. */
struct leati_tiles {
    leati_tile cached[5], streaming[5], streaming_pair[5];
    leati_part_tile part[5];
    leati_joined_tile joined[5]; /* NULL: there is none */
    leati_part_tile triple[3];   /* for wide units of 3, 6 and 12 bytes; NULL: leati_wide_tile() */
    void (*stream)(char *dst, const char *src, size_t bytes); /* streams a run; both addresses may be unaligned */
};

const struct leati_tiles *leati_tiles_plain(void);
const struct leati_tiles *leati_tiles_avx2(void);
const struct leati_tiles *leati_tiles_avx512(void);

/* Returns the tiles for the highest instruction set that this processor supports, but not above level. */
const struct leati_tiles *leati_tiles_of(enum leati_host_level level);

#endif
