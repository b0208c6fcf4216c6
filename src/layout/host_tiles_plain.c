/*
 * host_tiles_plain.c - tiles in plain C: a few rows at a time, so that lines of the source are read while they are
 * in the nearest cache.
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
        copy,
    };

    return &tiles;
}
