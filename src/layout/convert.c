/* convert.c - checks conversions (convert.h). */
#include "layout/convert.h"

#include "base/error.h"
#include "base/sized.h"
#include "kernels/convert_numbers.h"

#include <string.h>

_Static_assert(LEATI_FACTORS == LEAT_CONVERT_MAX_CHANNELS, "convert_task.h has the number of layout.h");
_Static_assert((int)LEATI_BITS == (int)LEAT_NUMBER_BITS && (int)LEATI_U8 == (int)LEAT_NUMBER_U8 &&
                   (int)LEATI_F16 == (int)LEAT_NUMBER_F16 && (int)LEATI_BF16 == (int)LEAT_NUMBER_BF16 &&
                   (int)LEATI_F32 == (int)LEAT_NUMBER_F32,
               "convert_numbers.h has the numbers of layout.h");
_Static_assert((unsigned)LEATI_SWAP_SRC == LEAT_CONVERT_SWAP_SRC &&
                   (unsigned)LEATI_SWAP_DST == LEAT_CONVERT_SWAP_DST,
               "convert_numbers.h has the flags of layout.h");

static const char *const names[] = {"bits", "u8", "f16", "bf16", "f32"};
#define NAMES (sizeof names / sizeof names[0])

const char *leat_number_name(leat_number number)
{
    return (unsigned)number < NAMES ? names[number] : "unknown";
}

static leat_status check_element(const char *side, uint32_t number, uint32_t element_bytes)
{
    static const uint32_t bytes[NAMES] = {0, 1, 2, 2, 4};

    if (number == LEAT_NUMBER_BITS) {
        if (element_bytes != 2 && element_bytes != 4 && element_bytes != 8)
            return leati_fail(LEAT_ERROR_INVALID, "elements of %s have %u bytes; bits are converted in 2, 4 or 8",
                              side, element_bytes);
        return LEAT_OK;
    }
    if (element_bytes != bytes[number])
        return leati_fail(LEAT_ERROR_INVALID, "elements of %s have %u bytes in its layout; %s has %u", side,
                          element_bytes, names[number], bytes[number]);
    return LEAT_OK;
}

static leat_status check_types(const leat_conversion *conversion, const leat_layout *dst, const leat_layout *src)
{
    const uint32_t known = LEAT_CONVERT_SWAP_SRC | LEAT_CONVERT_SWAP_DST;
    unsigned to = (unsigned)conversion->dst, from = (unsigned)conversion->src;

    if (to >= NAMES || from >= NAMES)
        return leati_fail(LEAT_ERROR_INVALID,
                          "conversion has the types %u for dst and %u for src; see leat_number", to, from);
    if (to == LEAT_NUMBER_U8)
        return leati_fail(LEAT_ERROR_INVALID, "a conversion to u8 is asked for; only sources may be u8");
    if ((to == LEAT_NUMBER_BITS) != (from == LEAT_NUMBER_BITS))
        return leati_fail(LEAT_ERROR_INVALID, "a conversion from %s to %s is asked for; bits stay bits",
                          names[from], names[to]);
    if (conversion->flags & ~known)
        return leati_fail(LEAT_ERROR_INVALID, "flags of conversion are 0x%x; known are 0x%x", conversion->flags,
                          known);
    LEATI_TRY(check_element("dst", to, dst->element_bytes));
    LEATI_TRY(check_element("src", from, src->element_bytes));
    if (to == LEAT_NUMBER_BITS && dst->element_bytes != src->element_bytes)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "elements of dst have %u bytes and those of src %u; bits have the same size on both sides",
            dst->element_bytes, src->element_bytes);
    return LEAT_OK;
}

static leat_status check_channels(const leat_conversion *conversion, const leat_layout *dst)
{
    uint32_t dim = conversion->channel_dim;

    if (conversion->dst == LEAT_NUMBER_BITS && (conversion->scale || conversion->bias || conversion->channels))
        return leati_fail(LEAT_ERROR_INVALID, "conversion has a scale, a bias or channels; bits take none");
    if (!conversion->channels)
        return LEAT_OK;
    if (conversion->channels > LEAT_CONVERT_MAX_CHANNELS)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "channels of conversion is %u; it may be %d at most: slice the layouts along dimension %u",
            conversion->channels, LEAT_CONVERT_MAX_CHANNELS, dim);
    if (dim >= dst->dims)
        return leati_fail(LEAT_ERROR_INVALID,
                          "channel_dim of conversion is %u, and the layouts have %u dimensions, counted from 0",
                          dim, dst->dims);
    if (dst->size[dim] != (int64_t)conversion->channels)
        return leati_fail(LEAT_ERROR_INVALID, "channels of conversion is %u, and dimension %u has size %lld",
                          conversion->channels, dim, (long long)dst->size[dim]);
    return LEAT_OK;
}

/* Copies the numbers of one array, or fills in what stands for a missing one. */
static leat_status take_factors(const char *name, const float *given, float missing, uint32_t count,
                                float *factors)
{
    for (uint32_t i = 0; i < count; i++) {
        factors[i] = given ? given[i] : missing;
        if (!__builtin_isfinite(factors[i]))
            return leati_fail(LEAT_ERROR_INVALID, "%s[%u] of conversion is %g; it must be finite", name, i,
                              (double)factors[i]);
    }
    return LEAT_OK;
}

leat_status leati_convert_make(const leat_conversion *conversion, const leat_layout *dst, const leat_layout *src,
                               struct leati_convert *convert, struct leati_factors *factors)
{
    leat_conversion known;

    LEATI_SIZED_READ(&known, conversion);
    if (dst->index || src->index)
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "%s has a list of indices; gather with leat_copy_layout(), then convert",
                          dst->index ? "dst" : "src");
    LEATI_TRY(check_types(&known, dst, src));
    LEATI_TRY(check_channels(&known, dst));
    *convert = (struct leati_convert){.dst_bytes = dst->element_bytes,
                                      .src_bytes = src->element_bytes,
                                      .dst_number = known.dst,
                                      .src_number = known.src,
                                      .flags = known.flags,
                                      .channels = known.channels,
                                      .channel_dim = known.channels ? known.channel_dim : 0};
    factors->count = known.channels ? known.channels : 1;
    LEATI_TRY(take_factors("scale", known.scale, 1.0f, factors->count, factors->scale));
    return take_factors("bias", known.bias, -0.0f, factors->count, factors->bias);
}
