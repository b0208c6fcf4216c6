/*
 * host_tiles_avx2.c - transposes tiles on processors with AVX2, where a cache line fills two registers.
 *
 * As in host_tiles_avx512.c, all tiles use one transpose, here of 8 x 8 numbers of 4 bytes. For smaller units the
 * rows are divided into sets. Each set is transposed, and then the results are merged unit by unit.
 */
#include "layout/host_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE_AVX2 static inline __attribute__((target("avx2"), always_inline))

#define HALF 32 /* bytes of a register, half a cache line */

/* Transposes half a line of each of the 8 rows first, first + step, and so on: number j of row i becomes number i
 * of row j. */
INLINE_AVX2 void transpose8(const char *src, const int64_t *rows, unsigned first, unsigned step, __m256i out[8])
{
    __m256i a[8], b[8];

    for (unsigned i = 0; i < 8; i++)
        a[i] = _mm256_loadu_si256((const void *)(src + rows[first + i * step]));
    for (unsigned i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (unsigned i = 0; i < 8; i += 4) {
        a[i] = _mm256_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm256_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm256_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm256_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    for (unsigned j = 0; j < 4; j++) {
        out[j] = _mm256_permute2x128_si256(a[j], a[4 + j], 0x20);
        out[4 + j] = _mm256_permute2x128_si256(a[j], a[4 + j], 0x31);
    }
}

INLINE_AVX2 void store(char *dst, const int64_t *rows, unsigned row, unsigned half, __m256i value)
{
    _mm256_storeu_si256((void *)(dst + rows[row] + half * HALF), value);
}

/* A loop over the two halves of the destination's lines and, within it, over those of the source's lines. */
#define HALVES(to, from)                                                                                          \
    for (unsigned to = 0; to < 2; to++)                                                                           \
        for (unsigned from = 0; from < 2; from++)

INLINE_AVX2 void tile_1(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows)
{
    const __m256i odd = _mm256_set1_epi16((short)0xff00);

    HALVES(to, from)
    {
        __m256i sets[4][8];

        for (unsigned i = 0; i < 4; i++)
            transpose8(src + from * HALF, src_rows, to * 32 + i, 4, sets[i]);
        for (unsigned i = 0; i < 8; i++) {
            __m256i p = sets[0][i], q = sets[1][i], r = sets[2][i], s = sets[3][i];
            __m256i even_low = _mm256_blendv_epi8(p, _mm256_slli_epi16(q, 8), odd);
            __m256i odd_low = _mm256_blendv_epi8(_mm256_srli_epi16(p, 8), q, odd);
            __m256i even_high = _mm256_blendv_epi8(r, _mm256_slli_epi16(s, 8), odd);
            __m256i odd_high = _mm256_blendv_epi8(_mm256_srli_epi16(r, 8), s, odd);
            unsigned row = from * 32 + i * 4;

            store(dst, dst_rows, row, to, _mm256_blend_epi16(even_low, _mm256_slli_epi32(even_high, 16), 0xaa));
            store(dst, dst_rows, row + 1, to, _mm256_blend_epi16(odd_low, _mm256_slli_epi32(odd_high, 16), 0xaa));
            store(dst, dst_rows, row + 2, to,
                  _mm256_blend_epi16(_mm256_srli_epi32(even_low, 16), even_high, 0xaa));
            store(dst, dst_rows, row + 3, to, _mm256_blend_epi16(_mm256_srli_epi32(odd_low, 16), odd_high, 0xaa));
        }
    }
}

INLINE_AVX2 void tile_2(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows)
{
    HALVES(to, from)
    {
        __m256i even_rows[8], odd_rows[8];

        transpose8(src + from * HALF, src_rows, to * 16, 2, even_rows);
        transpose8(src + from * HALF, src_rows, to * 16 + 1, 2, odd_rows);
        for (unsigned i = 0; i < 8; i++) {
            __m256i p = even_rows[i], q = odd_rows[i];
            unsigned row = from * 16 + i * 2;

            store(dst, dst_rows, row, to, _mm256_blend_epi16(p, _mm256_slli_epi32(q, 16), 0xaa));
            store(dst, dst_rows, row + 1, to, _mm256_blend_epi16(_mm256_srli_epi32(p, 16), q, 0xaa));
        }
    }
}

INLINE_AVX2 void tile_4(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows)
{
    HALVES(to, from)
    {
        __m256i lines[8];

        transpose8(src + from * HALF, src_rows, to * 8, 1, lines);
        for (unsigned i = 0; i < 8; i++)
            store(dst, dst_rows, from * 8 + i, to, lines[i]);
    }
}

INLINE_AVX2 void tile_8(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows)
{
    HALVES(to, from)
    {
        __m256i a[4], b[4];

        for (unsigned i = 0; i < 4; i++)
            a[i] = _mm256_loadu_si256((const void *)(src + src_rows[to * 4 + i] + from * HALF));
        for (unsigned i = 0; i < 4; i += 2) {
            b[i] = _mm256_unpacklo_epi64(a[i], a[i + 1]);
            b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 1]);
        }
        for (unsigned j = 0; j < 2; j++) {
            store(dst, dst_rows, from * 4 + j, to, _mm256_permute2x128_si256(b[j], b[2 + j], 0x20));
            store(dst, dst_rows, from * 4 + 2 + j, to, _mm256_permute2x128_si256(b[j], b[2 + j], 0x31));
        }
    }
}

INLINE_AVX2 void tile_16(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows)
{
    HALVES(to, from)
    {
        __m256i p = _mm256_loadu_si256((const void *)(src + src_rows[to * 2] + from * HALF));
        __m256i q = _mm256_loadu_si256((const void *)(src + src_rows[to * 2 + 1] + from * HALF));

        store(dst, dst_rows, from * 2, to, _mm256_permute2x128_si256(p, q, 0x20));
        store(dst, dst_rows, from * 2 + 1, to, _mm256_permute2x128_si256(p, q, 0x31));
    }
}

INLINE_AVX2 void stream_line(char *dst, const char *src)
{
    __m256i first = _mm256_loadu_si256((const void *)src), second = _mm256_loadu_si256((const void *)(src + HALF));

    _mm256_stream_si256((void *)dst, first);
    _mm256_stream_si256((void *)(dst + HALF), second);
}

AVX2 static void stream(char *dst, const char *src, size_t bytes)
{
    size_t head = -(uintptr_t)dst % LEATI_LINE_BYTES;

    head = head < bytes ? head : bytes;
    leati_copy_short(dst, src, head);
    dst += head;
    src += head;
    for (bytes -= head; bytes >= LEATI_LINE_BYTES;
         bytes -= LEATI_LINE_BYTES, src += LEATI_LINE_BYTES, dst += LEATI_LINE_BYTES)
        stream_line(dst, src);
    leati_copy_short(dst, src, bytes);
}

/* Transposes neighbouring tiles into a buffer, then writes the rows of the buffer with streaming stores. */
#define STREAM(bytes, tiles)                                                                                      \
    _Alignas(64) char stage[64 / (bytes)*64 * (tiles)];                                                           \
    int64_t rows[64 / (bytes)];                                                                                   \
                                                                                                                  \
    for (unsigned i = 0; i < 64 / (bytes); i++)                                                                   \
        rows[i] = i * 64 * (tiles);                                                                               \
    for (unsigned i = 0; i < (tiles); i++)                                                                        \
        tile_##bytes(stage + (size_t)i * 64, rows, src, src_rows + (size_t)i * (64 / (bytes)));                   \
    for (unsigned i = 0; i < 64 / (bytes) * (tiles); i++)                                                         \
    stream_line(dst + dst_rows[i / (tiles)] + i % (tiles)*64, stage + (size_t)i * 64)

#define WHOLE(bytes)                                                                                              \
    AVX2 static void cached_##bytes(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows) \
    {                                                                                                             \
        tile_##bytes(dst, dst_rows, src, src_rows);                                                               \
    }                                                                                                             \
    AVX2 static void streaming_##bytes(char *dst, const int64_t *dst_rows, const char *src,                       \
                                       const int64_t *src_rows)                                                   \
    {                                                                                                             \
        STREAM(bytes, 1);                                                                                         \
    }                                                                                                             \
    AVX2 static void pair_##bytes(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows)   \
    {                                                                                                             \
        STREAM(bytes, 2);                                                                                         \
    }

WHOLE(1)
WHOLE(2)
WHOLE(4)
WHOLE(8)
WHOLE(16)

const struct leati_tiles *leati_tiles_avx2(void)
{
    static const struct leati_tiles tiles = {
        {cached_1, cached_2, cached_4, cached_8, cached_16},
        {streaming_1, streaming_2, streaming_4, streaming_8, streaming_16},
        {pair_1, pair_2, pair_4, pair_8, pair_16},
        {leati_part_tile_1, leati_part_tile_2, leati_part_tile_4, leati_part_tile_8, leati_part_tile_16},
        {NULL},
        {NULL},
        stream,
    };

    return &tiles;
}

#else

const struct leati_tiles *leati_tiles_avx2(void)
{
    return leati_tiles_plain();
}

#endif
