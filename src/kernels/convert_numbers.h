/*
 * convert_numbers.h - converts single numbers, exactly as leat_copy_convert() says. Device code and the plain C
 * code of processors include it. An F32 is passed as its bits.
 */
#ifndef LEATI_KERNELS_CONVERT_NUMBERS_H
#define LEATI_KERNELS_CONVERT_NUMBERS_H

#include <leat/device_code.h>

/* As LEAT_NUMBER_ and LEAT_CONVERT_SWAP_ in leat/layout.h, which device code cannot include. layout/convert.c
 * compares them. */
enum { LEATI_BITS, LEATI_U8, LEATI_F16, LEATI_BF16, LEATI_F32 };
enum { LEATI_SWAP_SRC = 1, LEATI_SWAP_DST = 2 };

#define LEATI_NUMBER_INLINE static inline __attribute__((always_inline))

#define LEATI_F32_INFINITY 0x7f800000u
#define LEATI_F32_QUIET 0x00400000u /* the bit of a NaN that makes it quiet */
#define LEATI_F32_NAN (LEATI_F32_INFINITY | LEATI_F32_QUIET)

LEATI_NUMBER_INLINE float leati_float_of(uint32_t bits)
{
    union {
        uint32_t bits;
        float number;
    } both = {.bits = bits};

    return both.number;
}

LEATI_NUMBER_INLINE uint32_t leati_bits_of(float number)
{
    union {
        float number;
        uint32_t bits;
    } both = {.number = number};

    return both.bits;
}

LEATI_NUMBER_INLINE int leati_is_nan(uint32_t bits)
{
#if defined(__NVPTX__) || defined(__AMDGCN__)
    return __builtin_isunordered(leati_float_of(bits), leati_float_of(bits)); /* one instruction */
#else
    return (bits & 0x7fffffffu) > LEATI_F32_INFINITY;
#endif
}

/* The byte becomes the fraction of 2^23, from which 2^23 is then subtracted. This needs no conversion instruction,
 * of which GPUs make fewer at a time. */
LEATI_NUMBER_INLINE uint32_t leati_widen_u8(uint32_t byte)
{
    return leati_bits_of(leati_float_of(0x4b000000u | byte) - 8388608.0f);
}

/* The same for byte k of a word. k: a compile-time constant. */
LEATI_NUMBER_INLINE uint32_t leati_widen_u8_of(uint32_t word, uint32_t k)
{
#if defined(__NVPTX__)
    return leati_bits_of(leati_float_of(__nvvm_prmt(word, 0x4b000000u, 0x7440u | k)) - 8388608.0f);
#else
    return leati_widen_u8(word >> k * 8 & 255);
#endif
}

/* may_be_nan: a compile-time constant. If it is 0, a NaN becomes some NaN. */
LEATI_NUMBER_INLINE uint32_t leati_widen_f16(uint32_t half, int may_be_nan)
{
    uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
#if defined(__NVPTX__) || defined(__AMDGCN__)
    union {
        uint16_t bits;
        _Float16 number;
    } both = {.bits = (uint16_t)half};

    return may_be_nan && rest > 0x7c00u ? sign | LEATI_F32_NAN | rest << 13 : leati_bits_of((float)both.number);
#else
    (void)may_be_nan;
    /* The bits of half and F32 are the same, moved by 13, but the exponent counts from elsewhere. A multiplication
     * by 2^112 corrects that, for subnormal halves too. */
    uint32_t moved = leati_bits_of(leati_float_of(rest << 13) * 0x1p112f);

    if (rest >= 0x7c00u)
        moved = LEATI_F32_INFINITY | rest << 13 | (rest > 0x7c00u ? LEATI_F32_QUIET : 0);
    return sign | moved;
#endif
}

/* may_be_nan: a compile-time constant, 0 if no NaN comes. */
LEATI_NUMBER_INLINE uint32_t leati_narrow_f16(uint32_t bits, int may_be_nan)
{
    uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
#if defined(__NVPTX__) || defined(__AMDGCN__)
    union {
        _Float16 number;
        uint16_t bits;
    } both = {.number = (_Float16)leati_float_of(bits)};

    return may_be_nan && rest > LEATI_F32_INFINITY ? sign | 0x7e00u | (rest >> 13 & 0x1ffu) : both.bits;
#else
    if (may_be_nan && rest > LEATI_F32_INFINITY)
        return sign | 0x7e00u | (rest >> 13 & 0x1ffu);
    if (rest >= 0x477ff000u) /* 65520, half-way from the largest half to the next power of two */
        return sign | 0x7c00u;
    /* A subnormal half: the sum has its bits at the end of the fraction, rounded by the addition. */
    if (rest < 0x38800000u)
        return sign | (leati_bits_of(leati_float_of(rest) + 0.5f) - 0x3f000000u);
    return sign | ((rest - 0x38000000u + 0xfffu + (rest >> 13 & 1)) >> 13);
#endif
}

LEATI_NUMBER_INLINE uint32_t leati_narrow_bf16(uint32_t bits, int may_be_nan)
{
    if (may_be_nan && leati_is_nan(bits))
        return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

/* Returns x * scale + bias, of which both steps are rounded. The steps are two statements, so that no compiler
 * fuses them. */
LEATI_NUMBER_INLINE uint32_t leati_scale(uint32_t bits, float scale, float bias)
{
    float product = leati_float_of(bits) * scale;
    float sum;

    sum = product + bias;
    return leati_bits_of(sum);
}

/* Returns the result of leati_scale() with the right NaN: sum for others, or if the number before was a NaN, that
 * NaN. */
LEATI_NUMBER_INLINE uint32_t leati_settle_nan(uint32_t before, uint32_t sum)
{
    if (!leati_is_nan(sum))
        return sum;
    return leati_is_nan(before) ? before | LEATI_F32_QUIET : LEATI_F32_NAN;
}

/* Returns what an element that is a NaN becomes: a quiet NaN with its sign and the upper bits of its fraction. */
LEATI_NUMBER_INLINE uint32_t leati_convert_nan(uint32_t from, uint32_t to, uint32_t bits)
{
    if (from == LEATI_F16)
        bits = (bits & 0x8000u) << 16 | LEATI_F32_NAN | (bits & 0x3ffu) << 13;
    if (from == LEATI_BF16)
        bits <<= 16;
    bits |= LEATI_F32_QUIET;
    return to == LEATI_F16    ? (bits >> 16 & 0x8000u) | 0x7e00u | (bits >> 13 & 0x1ffu)
           : to == LEATI_BF16 ? bits >> 16
                              : bits;
}

/* Converts element k of a word of 4 bytes. Types and k are compile-time constants. NaN are only looked for, and
 * replaced, at the end, so that GPUs convert other numbers by a few instructions. Bytes cannot become NaN, since
 * scales and biases are finite. */
LEATI_NUMBER_INLINE uint32_t leati_convert(uint32_t from, uint32_t to, uint32_t word, uint32_t k, float scale,
                                           float bias)
{
    uint32_t bits = from == LEATI_F32 ? word : word >> k * 16 % 32 & 0xffffu;
    uint32_t before = from == LEATI_U8     ? leati_widen_u8_of(word, k)
                      : from == LEATI_F16  ? leati_widen_f16(bits, 0)
                      : from == LEATI_BF16 ? bits << 16
                                           : bits;
    uint32_t sum = leati_scale(before, scale, bias);
    uint32_t after = to == LEATI_F16    ? leati_narrow_f16(sum, 0)
                     : to == LEATI_BF16 ? leati_narrow_bf16(sum, 0)
                                        : sum;

    if (from != LEATI_U8 && leati_is_nan(sum))
        after = to == LEATI_F16 ? 0x7e00u : to == LEATI_BF16 ? LEATI_F32_NAN >> 16 : LEATI_F32_NAN;
    if (from != LEATI_U8 && leati_is_nan(before))
        after = leati_convert_nan(from, to, bits);
    return after;
}

/* Reverses the bytes of an element of 1, 2 or 4 bytes, which are the lowest of value; the others must be 0. */
LEATI_NUMBER_INLINE uint32_t leati_swap(uint32_t value, uint32_t bytes)
{
#if defined(__NVPTX__)
    return __nvvm_prmt(value, 0, bytes == 4 ? 0x0123u : bytes == 2 ? 0x4401u : 0x4440u);
#else
    return __builtin_bswap32(value) >> (4 - bytes) * 8;
#endif
}

#endif
