/*
 * host_tiles_plain.c - transposes tiles in plain C. The loops take a few source rows at a time, so that lines of
 * the source are still in the L1 cache when their later units are read.
 */
#include "layout/host_kernels.h"

#include <string.h>

#define PART(bytes)                                                                                               \
    void leati_part_tile_##bytes(char *dst, const int64_t *dst_rows, unsigned dst_row_count, const char *src,     \
                                 const int64_t *src_rows, unsigned src_row_count)                                 \
    {                                                                                                             \
        for (unsigned j = 0; j < dst_row_count; j++) {                                                            \
            char *to = dst + dst_rows[j];                                                                         \
                                                                                                                  \
            for (unsigned i = 0; i < src_row_count; i++)                                                          \
                memcpy(to + (size_t)i * (bytes), src + src_rows[i] + (size_t)j * (bytes), bytes);                 \
        }                                                                                                         \
    }                                                                                                             \
    static void whole_##bytes(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows)       \
    {                                                                                                             \
        char line[LEATI_LINE_BYTES];                                                                              \
                                                                                                                  \
        for (unsigned j = 0; j < LEATI_LINE_BYTES / (bytes); j++) {                                               \
            for (unsigned i = 0; i < LEATI_LINE_BYTES / (bytes); i++)                                             \
                memcpy(line + (size_t)i * (bytes), src + src_rows[i] + (size_t)j * (bytes), bytes);               \
            memcpy(dst + dst_rows[j], line, sizeof line);                                                         \
        }                                                                                                         \
    }                                                                                                             \
    static void pair_##bytes(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows)        \
    {                                                                                                             \
        whole_##bytes(dst, dst_rows, src, src_rows);                                                              \
        whole_##bytes(dst + LEATI_LINE_BYTES, dst_rows, src, src_rows + LEATI_LINE_BYTES / (bytes));              \
    }

PART(1)
PART(2)
PART(4)
PART(8)
PART(16)

/*
 * Wide units are runs that stay together on both sides, such as 3 or 12 bytes. They are copied with accesses that
 * are wider than the unit. Such an access also reads the beginning of the next unit of the source row, so it is
 * not used for the last column. It also writes beyond its unit, where the next unit of the destination row is
 * written later, so it is not used for the last row. The loop takes a few source rows at a time, so that their
 * lines stay in the L1 cache even if they all map to one cache set.
 */
#define WIDE_ROWS 8

#define WIDE(bytes, access)                                                                                       \
    static void wide_##bytes(char *dst, const int64_t *dst_rows, unsigned dst_row_count, const char *src,         \
                             const int64_t *src_rows, unsigned src_row_count)                                     \
    {                                                                                                             \
        for (unsigned first = 0; first < src_row_count; first += WIDE_ROWS) {                                     \
            unsigned end = first + WIDE_ROWS < src_row_count ? first + WIDE_ROWS : src_row_count;                 \
            unsigned wide_end = end < src_row_count ? end : end - 1;                                              \
                                                                                                                  \
            for (unsigned j = 0; j < dst_row_count; j++) {                                                        \
                const char *from = src + (size_t)j * (bytes);                                                     \
                char *to = dst + dst_rows[j];                                                                     \
                unsigned i = first;                                                                               \
                                                                                                                  \
                for (; i < wide_end && j + 1 < dst_row_count; i++)                                                \
                    memcpy(to + (size_t)i * (bytes), from + src_rows[i], access);                                 \
                for (; i < end; i++)                                                                              \
                    memcpy(to + (size_t)i * (bytes), from + src_rows[i], bytes);                                  \
            }                                                                                                     \
        }                                                                                                         \
    }

WIDE(3, 4)
WIDE(5, 8)
WIDE(6, 8)
WIDE(7, 8)
WIDE(9, 16)
WIDE(10, 16)
WIDE(11, 16)
WIDE(12, 16)
WIDE(13, 16)
WIDE(14, 16)
WIDE(15, 16)
WIDE(20, 20)
WIDE(24, 24)
WIDE(32, 32)
WIDE(40, 40)
WIDE(48, 48)
WIDE(64, 64)
WIDE(80, 80)
WIDE(96, 96)
WIDE(112, 112)
WIDE(144, 144)
WIDE(160, 160)
WIDE(176, 176)

leati_part_tile leati_wide_tile(uint64_t bytes)
{
    static const leati_part_tile tiles[] = {
        [3] = wide_3,   [5] = wide_5,     [6] = wide_6,     [7] = wide_7,     [9] = wide_9,    [10] = wide_10,
        [11] = wide_11, [12] = wide_12,   [13] = wide_13,   [14] = wide_14,   [15] = wide_15,  [20] = wide_20,
        [24] = wide_24, [32] = wide_32,   [40] = wide_40,   [48] = wide_48,   [64] = wide_64,  [80] = wide_80,
        [96] = wide_96, [112] = wide_112, [144] = wide_144, [160] = wide_160, [176] = wide_176};

    return bytes < sizeof tiles / sizeof *tiles ? tiles[bytes] : NULL;
}

static void copy(char *dst, const char *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

const struct leati_tiles *leati_tiles_plain(void)
{
    static const struct leati_tiles tiles = {
        {whole_1, whole_2, whole_4, whole_8, whole_16},
        {whole_1, whole_2, whole_4, whole_8, whole_16},
        {pair_1, pair_2, pair_4, pair_8, pair_16},
        {leati_part_tile_1, leati_part_tile_2, leati_part_tile_4, leati_part_tile_8, leati_part_tile_16},
        {NULL},
        {NULL},
        copy,
    };

    return &tiles;
}
