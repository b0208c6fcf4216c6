/* host_convert_avx2.c - converts rows with AVX2 and F16C, to the same bits as convert_numbers.h. */
#include "layout/host_convert.h"

#include "kernels/convert_numbers.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2,f16c")))
#define INLINE_AVX2 static inline __attribute__((target("avx2,f16c"), always_inline))

#define VECTOR 8

bool leati_has_convert_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
}

/* Reverses the bytes of each element. bytes: 2 or 4. */
INLINE_AVX2 __m256i swap_256(__m256i value, uint32_t bytes)
{
    const __m256i twos = _mm256_set_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1, 14, 15, 12, 13, 10,
                                         11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
    const __m256i fours = _mm256_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8,
                                          9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);

    return _mm256_shuffle_epi8(value, bytes == 2 ? twos : fours);
}

INLINE_AVX2 __m128i swap_128(__m128i value)
{
    return _mm_shuffle_epi8(value, _mm_set_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1));
}

/* Loads 8 elements as F32. number: a compile-time constant, as for the following functions. */
INLINE_AVX2 __m256 load(const char *from, uint32_t number, bool swap)
{
    __m128i half;

    if (number == LEATI_U8)
        return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from)));
    if (number == LEATI_F32) {
        __m256i value = _mm256_loadu_si256((const __m256i *)from);

        return _mm256_castsi256_ps(swap ? swap_256(value, 4) : value);
    }
    half = _mm_loadu_si128((const __m128i *)from);
    if (swap)
        half = swap_128(half);
    if (number == LEATI_F16)
        return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* As leati_scale() and leati_settle_nan(). */
INLINE_AVX2 __m256 scale_256(__m256 before, __m256 scale, __m256 bias)
{
    const __m256 quiet = _mm256_castsi256_ps(_mm256_set1_epi32((int)LEATI_F32_QUIET)),
                 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)LEATI_F32_NAN));
    __m256 sum = _mm256_add_ps(_mm256_mul_ps(before, scale), bias);
    __m256 was_nan = _mm256_cmp_ps(before, before, _CMP_UNORD_Q), is_nan = _mm256_cmp_ps(sum, sum, _CMP_UNORD_Q);

    sum = _mm256_blendv_ps(sum, nan, is_nan);
    return _mm256_blendv_ps(sum, _mm256_or_ps(before, quiet), was_nan);
}

/* As leati_narrow_bf16(). Returns 8 elements. */
INLINE_AVX2 __m128i narrow_bf16(__m256 number)
{
    __m256i bits = _mm256_castps_si256(number), one = _mm256_set1_epi32(1);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32((int)LEATI_F32_QUIET));
    __m256 is_nan = _mm256_cmp_ps(number, number, _CMP_UNORD_Q);

    rounded =
        _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(nan), is_nan));
    rounded = _mm256_srli_epi32(rounded, 16);
    rounded = _mm256_packus_epi32(rounded, rounded);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(rounded, 0x08));
}

INLINE_AVX2 void store(char *to, __m256 number, uint32_t type, bool swap)
{
    __m128i half;

    if (type == LEATI_F32) {
        __m256i value = _mm256_castps_si256(number);

        _mm256_storeu_si256((__m256i *)to, swap ? swap_256(value, 4) : value);
        return;
    }
    half = type == LEATI_F16 ? _mm256_cvtps_ph(number, _MM_FROUND_TO_NEAREST_INT) : narrow_bf16(number);
    _mm_storeu_si128((__m128i *)to, swap ? swap_128(half) : half);
}

INLINE_AVX2 void convert_row(const struct leati_convert *convert, uint32_t to, uint32_t from, const float *scale,
                             const float *bias, uint32_t cycle, char *dst, const char *src, uint64_t count)
{
    const bool swap_src = convert->flags & LEATI_SWAP_SRC, swap_dst = convert->flags & LEATI_SWAP_DST;
    const uint32_t dst_bytes = to == LEATI_F32 ? 4 : 2, src_bytes = from == LEATI_F32  ? 4
                                                                    : from == LEATI_U8 ? 1
                                                                                       : 2;
    uint32_t at = 0;
    uint64_t i = 0;

    for (; i + VECTOR <= count; i += VECTOR) {
        __m256 number = load(src + i * src_bytes, from, swap_src);

        store(dst + i * dst_bytes, scale_256(number, _mm256_loadu_ps(scale + at), _mm256_loadu_ps(bias + at)), to,
              swap_dst);
        at = at + VECTOR < cycle ? at + VECTOR : 0;
    }
    if (i < count) {
        char last_src[VECTOR * 4] = {0}, last_dst[VECTOR * 4];

        memcpy(last_src, src + i * src_bytes, (count - i) * src_bytes);
        store(last_dst,
              scale_256(load(last_src, from, swap_src), _mm256_loadu_ps(scale + at), _mm256_loadu_ps(bias + at)),
              to, swap_dst);
        memcpy(dst + i * dst_bytes, last_dst, (count - i) * dst_bytes);
    }
}

AVX2 void leati_convert_row_avx2(const struct leati_convert *convert, const float *scale, const float *bias,
                                 uint32_t cycle, char *dst, const char *src, uint64_t count)
{
#define PAIR(to, from)                                                                                            \
    if (convert->dst_number == (to) && convert->src_number == (from)) {                                           \
        convert_row(convert, to, from, scale, bias, cycle, dst, src, count);                                      \
        return;                                                                                                   \
    }
#define SOURCES(to) PAIR(to, LEATI_U8) PAIR(to, LEATI_F16) PAIR(to, LEATI_BF16) PAIR(to, LEATI_F32)
    SOURCES(LEATI_F16)
    SOURCES(LEATI_BF16)
    SOURCES(LEATI_F32)
#undef SOURCES
#undef PAIR
}

#else

bool leati_has_convert_avx2(void)
{
    return false;
}

void leati_convert_row_avx2(const struct leati_convert *convert, const float *scale, const float *bias,
                            uint32_t cycle, char *dst, const char *src, uint64_t count)
{
    leati_convert_row_plain(convert, scale, bias, cycle, dst, src, count);
}

#endif
