/*
 * host_kernels.h - the innermost loops of layouts by processors. They copy loop nests: a part of a canonical
 * layout, without a list of indices and with the dimensions in the order in which the loops go.
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
    bool streaming;              /* stores go past the caches */
    unsigned dst_dims, src_dims; /* for tiles */
    /* For tiles with dst_dims 1: the part is not the first one along dimension 0, and how many units come after
     * it. So that parts may share a line of the destination: it belongs to the part in which it begins. */
    bool behind;
    uint64_t ahead;
    uint64_t size[LEATI_CANONICAL_MAX_DIMS]; /* 1 or more */
    int64_t dst_stride[LEATI_CANONICAL_MAX_DIMS];
    int64_t src_stride[LEATI_CANONICAL_MAX_DIMS];
};

/* Runs of bytes: dimension 0 is dense on both sides. After it comes, if dst_dims is 1, the dimension with which
 * the destination goes on, and then, if src_dims is 1, the one with which the source goes on. */
void leati_nest_runs(const struct leati_loop_nest *nest, char *dst, const char *src);

/* Short runs without a call. Reads and writes nothing but the bytes. */
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

/* One run, past the caches by tiles, or through them when that is NULL. */
struct leati_tiles;
void leati_nest_run(const struct leati_tiles *tiles, char *dst, const char *src, size_t bytes);

/* Dimension 0 is dense on the destination and has stride 0 on the source. */
void leati_nest_fill(const struct leati_loop_nest *nest, char *dst, const char *src);

/* One unit after the other; takes every loop nest. */
void leati_nest_elements(const struct leati_loop_nest *nest, char *dst, const char *src);

/* The first dst_dims dimensions are a dense run on the destination, the next src_dims one on the source, of units
 * of 1, 2, 4, 8 or 16 bytes or of those that leati_wide_tile() takes; neither has more units than
 * LEATI_TILES_DST_MOST and LEATI_TILES_SRC_MOST. */
void leati_nest_tiles(const struct leati_loop_nest *nest, char *dst, const char *src);

#define LEATI_TILES_DST_MOST 1024
#define LEATI_TILES_SRC_MOST 2048

/* The first dst_dims dimensions are a small group of units and the next one counts groups. The group is dense on
 * the destination and groups follow one another there, with the counting dimension dense on the source; or the
 * other way round; or both sides have the same groups, in which only the order of the units differs. Or dst_dims
 * is 0, and dimension 0 is dense on the destination and has a step of at most LEATI_SHUFFLE_MOST units on the
 * source. */
void leati_nest_shuffle(const struct leati_loop_nest *nest, char *dst, const char *src);

typedef void (*leati_nest_kernel)(const struct leati_loop_nest *nest, char *dst, const char *src);

/* The part of a list that goes with a box. */
struct leati_listed {
    const void *list;
    unsigned index_bytes;
    int64_t bound;
    uint64_t first, count; /* which indices of the list */
    bool on_dst;
    int64_t dst_stride, src_stride; /* of an index on the one side, and of an entry of the list on the other */
};

/* The box once for each index that is in bounds. Returns how many are not. */
uint64_t leati_nest_listed(const struct leati_loop_nest *nest, const struct leati_listed *listed,
                           leati_nest_kernel kernel, char *dst, const char *src);

/* What one step of leati_nest_walk() copies. */
typedef void (*leati_step)(const void *context, char *dst, const char *src);

/* Steps through the dimensions from first on, and calls step at each place. */
void leati_nest_walk(const struct leati_loop_nest *nest, unsigned first, leati_step step, const void *context,
                     char *dst, const char *src);

/* ---- shuffles ---- */

#define LEATI_SHUFFLE_MOST 16        /* registers */
#define LEATI_SHUFFLE_UNITS_MOST 256 /* in a group */

/* Byte p of the destination's register j is byte at[j][p] of the source's register from[j][p]. */
struct leati_shuffle {
    _Alignas(64) unsigned char at[LEATI_SHUFFLE_MOST][64];
    _Alignas(64) unsigned char from[LEATI_SHUFFLE_MOST][64];
    int64_t dst_at[LEATI_SHUFFLE_MOST], src_at[LEATI_SHUFFLE_MOST]; /* where the registers are */
    int64_t dst_step, src_step;                                     /* from one time to the next */
    unsigned src_count;                                             /* registers of the source */
};

/* Registers of 16 and of 64 bytes. Only the latter can be streaming. */
void leati_shuffle_avx2(const struct leati_shuffle *shuffle, unsigned count, bool streaming, char *dst,
                        const char *src, uint64_t times);
void leati_shuffle_vbmi(const struct leati_shuffle *shuffle, unsigned count, bool streaming, char *dst,
                        const char *src, uint64_t times);

/* ---- tiles ---- */

#define LEATI_LINE_BYTES 64

/*
 * Transposes one tile: of as many rows of the source as units go into a line, a line of each; they become as many
 * lines of the destination. Row i begins at src + src_rows[i], line j goes to dst + dst_rows[j].
 */
typedef void (*leati_tile)(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows);

/* A tile of fewer rows: 1 or more each. src_row_count is also the length of a destination row, in units, and the
 * other way round; nothing beyond is read or written. */
typedef void (*leati_part_tile)(char *dst, const int64_t *dst_rows, unsigned dst_row_count, const char *src,
                                const int64_t *src_rows, unsigned src_row_count);

/* In plain C, for who has nothing better. */
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

/* How many rows a tile has: as many as fill whole lines, and reach from anywhere to the end of a line. */
unsigned leati_tile_side(unsigned unit_bytes);

/* The same of units of other sizes, which are runs of the canonical layout's; NULL where there is none for this
 * many bytes, since runs one by one are as good. */
leati_part_tile leati_wide_tile(uint64_t bytes);

/* All but lines are by the binary logarithm of the unit. Streaming stores go past the caches to places that are
 * aligned to lines; nobody has seen them before leati_stream_fence(). A pair is two tiles whose lines lie side by
 * side on the destination: twice as many source rows. Two neighbouring lines at once is what memory takes best. */
struct leati_tiles {
    leati_tile cached[5], streaming[5], streaming_pair[5];
    leati_part_tile part[5];
    void (*stream)(char *dst, const char *src, size_t bytes); /* a run of any alignment: its whole lines */
};

const struct leati_tiles *leati_tiles_plain(void);
const struct leati_tiles *leati_tiles_avx2(void);
const struct leati_tiles *leati_tiles_avx512(void);

/* The best that this processor has, but no better than level. */
const struct leati_tiles *leati_tiles_of(enum leati_host_level level);

#endif
