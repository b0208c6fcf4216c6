/*
 * host_tiles_avx512.c - transposes tiles on processors with AVX-512, where a cache line fills one register.
 *
 * All tiles use one transpose, of 16 x 16 numbers of 4 bytes. For smaller units the rows are divided into 2 or 4
 * sets, each with every second or fourth row. Each set is transposed, and then the results are merged unit by
 * unit.
 */
#include "layout/host_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define INLINE_AVX512 static inline __attribute__((target("avx512f,avx512bw,avx512vl"), always_inline))

/* The two sides of a tile. With MASKED the tile may be smaller: rows and bytes outside of it are read as 0 and not
 * written. */
struct avx512_tile {
    char *dst;
    const int64_t *dst_rows;
    const char *src;
    const int64_t *src_rows;
    unsigned src_row_count, dst_row_count;
    __mmask64 src_bytes, dst_bytes;
    /* For PAIRED and JOINED: the finished first tile of the pair; its lines go in front of this tile's. */
    const char *before;
    char *left;    /* for JOINED: as for leati_joined_tile */
    unsigned unit; /* for JOINED and TRIPLES */
};

/* TRIPLES is MASKED for units of 3, 6 and 12 bytes, which are transposed as units of 4, 8 and 16 bytes. */
enum store_policy { PLAIN, STREAMING, PAIRED, JOINED, MASKED, TRIPLES };

/* Widens units of 3, 6 or 12 bytes in the first 48 bytes to 4, 8 or 16 bytes. */
INLINE_AVX512 __m512i widen(__m512i line, unsigned unit)
{
    line = _mm512_permutexvar_epi32(_mm512_set_epi32(0, 11, 10, 9, 0, 8, 7, 6, 0, 5, 4, 3, 0, 2, 1, 0), line);
    if (unit == 3)
        line = _mm512_shuffle_epi8(
            line, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1)));
    if (unit == 6)
        line = _mm512_shuffle_epi8(
            line, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1)));
    return line;
}

/* The opposite of widen(). */
INLINE_AVX512 __m512i narrow(__m512i line, unsigned unit)
{
    if (unit == 3)
        line = _mm512_shuffle_epi8(
            line, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1)));
    if (unit == 6)
        line = _mm512_shuffle_epi8(
            line, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1)));
    return _mm512_permutexvar_epi32(_mm512_set_epi32(0, 0, 0, 0, 14, 13, 12, 10, 9, 8, 6, 5, 4, 2, 1, 0), line);
}

INLINE_AVX512 __m512i load(const struct avx512_tile *t, unsigned row, enum store_policy policy)
{
    __m512i line;

    if (policy != MASKED && policy != TRIPLES)
        return _mm512_loadu_si512(t->src + t->src_rows[row]);
    if (row >= t->src_row_count)
        return _mm512_setzero_si512();
    line = _mm512_maskz_loadu_epi8(t->src_bytes, t->src + t->src_rows[row]);
    return policy == TRIPLES ? widen(line, t->unit) : line;
}

/* Returns the last `behind` bytes of first, followed by the first bytes of second. behind is a multiple of unit.
 */
INLINE_AVX512 __m512i join(__m512i first, __m512i second, unsigned behind, unsigned unit)
{
    const __m512i words = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14,
                                           13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i low, high;

    if (unit >= 4)
        return _mm512_permutex2var_epi32(
            first,
            _mm512_add_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                             _mm512_set1_epi32((int)(64 - behind) / 4)),
            second);
    low = _mm512_permutex2var_epi16(first, _mm512_add_epi16(words, _mm512_set1_epi16((short)((64 - behind) / 2))),
                                    second);
    if (unit == 2 || behind % 2 == 0)
        return low;
    high = _mm512_permutex2var_epi16(
        first, _mm512_add_epi16(words, _mm512_set1_epi16((short)((64 - behind) / 2 + 1))), second);
    return _mm512_or_si512(_mm512_srli_epi16(low, 8), _mm512_slli_epi16(high, 8));
}

/* Stores two lines of a row and keeps the third. */
INLINE_AVX512 void store_joined(const struct avx512_tile *t, unsigned row, __m512i line)
{
    char *dst = t->dst + t->dst_rows[row], *left = t->left + (size_t)row * LEATI_LINE_BYTES;
    unsigned behind = (unsigned)((uintptr_t)dst % LEATI_LINE_BYTES);
    __m512i last = _mm512_load_si512(left), before;

    dst -= behind;
    if (t->before) {
        before = _mm512_load_si512(t->before + (size_t)row * LEATI_LINE_BYTES);
        _mm512_stream_si512((void *)dst, join(last, before, behind, t->unit));
        dst += LEATI_LINE_BYTES;
        last = before;
    }
    _mm512_stream_si512((void *)dst, join(last, line, behind, t->unit));
    _mm512_store_si512(left, line);
}

INLINE_AVX512 void store(const struct avx512_tile *t, unsigned row, __m512i line, enum store_policy policy)
{
    if (policy == MASKED || policy == TRIPLES) {
        if (row < t->dst_row_count)
            _mm512_mask_storeu_epi8(t->dst + t->dst_rows[row], t->dst_bytes,
                                    policy == TRIPLES ? narrow(line, t->unit) : line);
    } else if (policy == PAIRED) {
        char *dst = t->dst + t->dst_rows[row];

        _mm512_stream_si512((void *)dst, _mm512_load_si512(t->before + (size_t)row * LEATI_LINE_BYTES));
        _mm512_stream_si512((void *)(dst + LEATI_LINE_BYTES), line);
    } else if (policy == JOINED) {
        store_joined(t, row, line);
    } else if (policy == STREAMING) {
        _mm512_stream_si512((void *)(t->dst + t->dst_rows[row]), line);
    } else {
        _mm512_storeu_si512(t->dst + t->dst_rows[row], line);
    }
}

/* Transposes the 16 rows first, first + step, and so on: number j of row i becomes number i of row j. */
INLINE_AVX512 void transpose16(const struct avx512_tile *t, unsigned first, unsigned step,
                               enum store_policy policy, __m512i out[16])
{
    __m512i a[16], b[16];

    for (unsigned i = 0; i < 16; i++)
        a[i] = load(t, first + i * step, policy);
    for (unsigned i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (unsigned i = 0; i < 16; i += 4) {
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    /* a[4 i + j] holds column j of each group of four in rows 4 i to 4 i + 3. */
    for (unsigned j = 0; j < 4; j++) {
        b[j] = _mm512_shuffle_i32x4(a[j], a[4 + j], 0x88);
        b[4 + j] = _mm512_shuffle_i32x4(a[j], a[4 + j], 0xdd);
        b[8 + j] = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0x88);
        b[12 + j] = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0xdd);
    }
    for (unsigned j = 0; j < 4; j++) {
        out[j] = _mm512_shuffle_i32x4(b[j], b[8 + j], 0x88);
        out[8 + j] = _mm512_shuffle_i32x4(b[j], b[8 + j], 0xdd);
        out[4 + j] = _mm512_shuffle_i32x4(b[4 + j], b[12 + j], 0x88);
        out[12 + j] = _mm512_shuffle_i32x4(b[4 + j], b[12 + j], 0xdd);
    }
}

INLINE_AVX512 void tile_1(const struct avx512_tile *t, enum store_policy policy)
{
    const __mmask64 odd = 0xaaaaaaaaaaaaaaaa;
    const __mmask32 odd_pairs = 0xaaaaaaaa;
    __m512i sets[4][16];

    for (unsigned i = 0; i < 4; i++)
        transpose16(t, i, 4, policy, sets[i]);
    for (unsigned i = 0; i < 16; i++) {
        __m512i p = sets[0][i], q = sets[1][i], r = sets[2][i], s = sets[3][i];
        __m512i even_low = _mm512_mask_blend_epi8(odd, p, _mm512_slli_epi16(q, 8));
        __m512i odd_low = _mm512_mask_blend_epi8(odd, _mm512_srli_epi16(p, 8), q);
        __m512i even_high = _mm512_mask_blend_epi8(odd, r, _mm512_slli_epi16(s, 8));
        __m512i odd_high = _mm512_mask_blend_epi8(odd, _mm512_srli_epi16(r, 8), s);

        store(t, 4 * i, _mm512_mask_blend_epi16(odd_pairs, even_low, _mm512_slli_epi32(even_high, 16)), policy);
        store(t, 4 * i + 1, _mm512_mask_blend_epi16(odd_pairs, odd_low, _mm512_slli_epi32(odd_high, 16)), policy);
        store(t, 4 * i + 2, _mm512_mask_blend_epi16(odd_pairs, _mm512_srli_epi32(even_low, 16), even_high),
              policy);
        store(t, 4 * i + 3, _mm512_mask_blend_epi16(odd_pairs, _mm512_srli_epi32(odd_low, 16), odd_high), policy);
    }
}

INLINE_AVX512 void tile_2(const struct avx512_tile *t, enum store_policy policy)
{
    const __mmask32 odd = 0xaaaaaaaa;
    __m512i even_rows[16], odd_rows[16];

    transpose16(t, 0, 2, policy, even_rows);
    transpose16(t, 1, 2, policy, odd_rows);
    for (unsigned i = 0; i < 16; i++) {
        __m512i p = even_rows[i], q = odd_rows[i];

        store(t, 2 * i, _mm512_mask_blend_epi16(odd, p, _mm512_slli_epi32(q, 16)), policy);
        store(t, 2 * i + 1, _mm512_mask_blend_epi16(odd, _mm512_srli_epi32(p, 16), q), policy);
    }
}

INLINE_AVX512 void tile_4(const struct avx512_tile *t, enum store_policy policy)
{
    __m512i lines[16];

    transpose16(t, 0, 1, policy, lines);
    for (unsigned i = 0; i < 16; i++)
        store(t, i, lines[i], policy);
}

INLINE_AVX512 void tile_8(const struct avx512_tile *t, enum store_policy policy)
{
    __m512i a[8], b[8];

    for (unsigned i = 0; i < 8; i++)
        a[i] = load(t, i, policy);
    for (unsigned i = 0; i < 8; i += 2) {
        b[i] = _mm512_unpacklo_epi64(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 1]);
    }
    /* b[2 i + j] holds column j of each pair in rows 2 i and 2 i + 1. */
    for (unsigned j = 0; j < 2; j++) {
        a[j] = _mm512_shuffle_i64x2(b[j], b[2 + j], 0x88);
        a[2 + j] = _mm512_shuffle_i64x2(b[j], b[2 + j], 0xdd);
        a[4 + j] = _mm512_shuffle_i64x2(b[4 + j], b[6 + j], 0x88);
        a[6 + j] = _mm512_shuffle_i64x2(b[4 + j], b[6 + j], 0xdd);
    }
    for (unsigned j = 0; j < 2; j++) {
        store(t, j, _mm512_shuffle_i64x2(a[j], a[4 + j], 0x88), policy);
        store(t, 4 + j, _mm512_shuffle_i64x2(a[j], a[4 + j], 0xdd), policy);
        store(t, 2 + j, _mm512_shuffle_i64x2(a[2 + j], a[6 + j], 0x88), policy);
        store(t, 6 + j, _mm512_shuffle_i64x2(a[2 + j], a[6 + j], 0xdd), policy);
    }
}

INLINE_AVX512 void tile_16(const struct avx512_tile *t, enum store_policy policy)
{
    __m512i a[4], b[4];

    for (unsigned i = 0; i < 4; i++)
        a[i] = load(t, i, policy);
    b[0] = _mm512_shuffle_i64x2(a[0], a[1], 0x88);
    b[1] = _mm512_shuffle_i64x2(a[0], a[1], 0xdd);
    b[2] = _mm512_shuffle_i64x2(a[2], a[3], 0x88);
    b[3] = _mm512_shuffle_i64x2(a[2], a[3], 0xdd);
    store(t, 0, _mm512_shuffle_i64x2(b[0], b[2], 0x88), policy);
    store(t, 1, _mm512_shuffle_i64x2(b[1], b[3], 0x88), policy);
    store(t, 2, _mm512_shuffle_i64x2(b[0], b[2], 0xdd), policy);
    store(t, 3, _mm512_shuffle_i64x2(b[1], b[3], 0xdd), policy);
}

#define FOUR(i) (i) * 64, (i)*64 + 64, (i)*64 + 128, (i)*64 + 192
#define SIXTEEN(i) FOUR(i), FOUR((i) + 4), FOUR((i) + 8), FOUR((i) + 12)

/* The offsets of the lines of a contiguous tile, for example in a buffer. */
static const int64_t in_a_row[64] = {SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48)};

AVX512 static void stream(char *dst, const char *src, size_t bytes)
{
    size_t head = -(uintptr_t)dst % LEATI_LINE_BYTES;

    head = head < bytes ? head : bytes;
    if (head) {
        __mmask64 first = ~0ull >> (64 - head);

        _mm512_mask_storeu_epi8(dst, first, _mm512_maskz_loadu_epi8(first, src));
        dst += head;
        src += head;
        bytes -= head;
    }
    for (; bytes >= LEATI_LINE_BYTES; bytes -= LEATI_LINE_BYTES, src += LEATI_LINE_BYTES, dst += LEATI_LINE_BYTES)
        _mm512_stream_si512((void *)dst, _mm512_loadu_si512(src));
    if (bytes) {
        __mmask64 last = ~0ull >> (64 - bytes);

        _mm512_mask_storeu_epi8(dst, last, _mm512_maskz_loadu_epi8(last, src));
    }
}

#define WHOLE_AND_PART(bytes)                                                                                     \
    AVX512 static void plain_##bytes(char *dst, const int64_t *dst_rows, const char *src,                         \
                                     const int64_t *src_rows)                                                     \
    {                                                                                                             \
        const struct avx512_tile t = {.dst = dst, .dst_rows = dst_rows, .src = src, .src_rows = src_rows};        \
                                                                                                                  \
        tile_##bytes(&t, PLAIN);                                                                                  \
    }                                                                                                             \
    AVX512 static void streaming_##bytes(char *dst, const int64_t *dst_rows, const char *src,                     \
                                         const int64_t *src_rows)                                                 \
    {                                                                                                             \
        const struct avx512_tile t = {.dst = dst, .dst_rows = dst_rows, .src = src, .src_rows = src_rows};        \
                                                                                                                  \
        tile_##bytes(&t, STREAMING);                                                                              \
    }                                                                                                             \
    AVX512 static void pair_##bytes(char *dst, const int64_t *dst_rows, const char *src, const int64_t *src_rows) \
    {                                                                                                             \
        _Alignas(64) char before[64 / bytes * 64];                                                                \
        const struct avx512_tile first = {.dst = before, .dst_rows = in_a_row, .src = src, .src_rows = src_rows}; \
        const struct avx512_tile second = {                                                                       \
            .dst = dst, .dst_rows = dst_rows, .src = src, .src_rows = src_rows + 64 / bytes, .before = before};   \
                                                                                                                  \
        tile_##bytes(&first, PLAIN);                                                                              \
        tile_##bytes(&second, PAIRED);                                                                            \
    }                                                                                                             \
    AVX512 static void joined_##bytes(char *dst, const int64_t *dst_rows, const char *src,                        \
                                      const int64_t *src_rows, char *left, bool pair)                             \
    {                                                                                                             \
        _Alignas(64) char before[64 / bytes * 64];                                                                \
        const struct avx512_tile first = {.dst = before, .dst_rows = in_a_row, .src = src, .src_rows = src_rows}; \
        const struct avx512_tile last = {.dst = dst,                                                              \
                                         .dst_rows = dst_rows,                                                    \
                                         .src = src,                                                              \
                                         .src_rows = pair ? src_rows + 64 / bytes : src_rows,                     \
                                         .before = pair ? before : NULL,                                          \
                                         .left = left,                                                            \
                                         .unit = bytes};                                                          \
                                                                                                                  \
        if (pair)                                                                                                 \
            tile_##bytes(&first, PLAIN);                                                                          \
        tile_##bytes(&last, JOINED);                                                                              \
    }                                                                                                             \
    AVX512 static void part_##bytes(char *dst, const int64_t *dst_rows, unsigned dst_row_count, const char *src,  \
                                    const int64_t *src_rows, unsigned src_row_count)                              \
    {                                                                                                             \
        const struct avx512_tile t = {.dst = dst,                                                                 \
                                      .dst_rows = dst_rows,                                                       \
                                      .src = src,                                                                 \
                                      .src_rows = src_rows,                                                       \
                                      .src_row_count = src_row_count,                                             \
                                      .dst_row_count = dst_row_count,                                             \
                                      .src_bytes = ~0ull >> (64 - dst_row_count * bytes),                         \
                                      .dst_bytes = ~0ull >> (64 - src_row_count * bytes)};                        \
                                                                                                                  \
        tile_##bytes(&t, MASKED);                                                                                 \
    }

WHOLE_AND_PART(1)
WHOLE_AND_PART(2)
WHOLE_AND_PART(4)
WHOLE_AND_PART(8)
WHOLE_AND_PART(16)

/* Copies a tile of wide units (leati_wide_tile()) in squares of 48 bytes on both sides. */
#define TRIPLE(bytes, as)                                                                                         \
    AVX512 static void triple_##bytes(char *dst, const int64_t *dst_rows, unsigned dst_row_count,                 \
                                      const char *src, const int64_t *src_rows, unsigned src_row_count)           \
    {                                                                                                             \
        for (unsigned i = 0; i < src_row_count; i += 48 / (bytes)) {                                              \
            for (unsigned j = 0; j < dst_row_count; j += 48 / (bytes)) {                                          \
                unsigned high = leati_least(48 / (bytes), dst_row_count - j);                                     \
                unsigned wide = leati_least(48 / (bytes), src_row_count - i);                                     \
                const struct avx512_tile t = {.dst = dst + (size_t)i * (bytes),                                   \
                                              .dst_rows = dst_rows + j,                                           \
                                              .src = src + (size_t)j * (bytes),                                   \
                                              .src_rows = src_rows + i,                                           \
                                              .src_row_count = wide,                                              \
                                              .dst_row_count = high,                                              \
                                              .src_bytes = ~0ull >> (64 - high * (bytes)),                        \
                                              .dst_bytes = ~0ull >> (64 - wide * (bytes)),                        \
                                              .unit = (bytes)};                                                   \
                                                                                                                  \
                tile_##as(&t, TRIPLES);                                                                           \
            }                                                                                                     \
        }                                                                                                         \
    }

TRIPLE(3, 4)
TRIPLE(6, 8)
TRIPLE(12, 16)

const struct leati_tiles *leati_tiles_avx512(void)
{
    static const struct leati_tiles tiles = {
        {plain_1, plain_2, plain_4, plain_8, plain_16},
        {streaming_1, streaming_2, streaming_4, streaming_8, streaming_16},
        {pair_1, pair_2, pair_4, pair_8, pair_16},
        {part_1, part_2, part_4, part_8, part_16},
        {joined_1, joined_2, joined_4, joined_8, joined_16},
        {triple_3, triple_6, triple_12},
        stream,
    };

    return &tiles;
}

#else

const struct leati_tiles *leati_tiles_avx512(void)
{
    return leati_tiles_plain();
}

#endif
