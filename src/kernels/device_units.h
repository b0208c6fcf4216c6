/*
 * device_units.h - defines what all files of layout kernels use: units in memory, words of 16 bytes in registers,
 * and divisions.
 */
#ifndef LEATI_KERNELS_DEVICE_UNITS_H
#define LEATI_KERNELS_DEVICE_UNITS_H

#include "kernels/layout_task.h"
#include "kernels/phases.h"

/* Always inline, so that constants of the caller are compile-time constants in the callee. Only then do small
 * arrays become registers. */
#define INLINE static inline __attribute__((always_inline))

typedef uint8_t unit_1 __attribute__((may_alias));
typedef uint16_t unit_2 __attribute__((may_alias));
typedef uint32_t unit_4 __attribute__((may_alias));
typedef uint64_t unit_8 __attribute__((may_alias));
typedef uint32_t unit_16 __attribute__((vector_size(16), may_alias));

#define WORD_BYTES 16

INLINE uint32_t divide(uint32_t number, const struct leati_divisor *by)
{
    return ((uint32_t)(((uint64_t)number * by->multiplier) >> 32) + number) >> by->shift;
}

struct word {
    uint32_t part[4];
};

INLINE struct word load_word(const GLOBAL char *from)
{
    unit_16 loaded = *(const GLOBAL unit_16 *)from;
    struct word word = {{loaded[0], loaded[1], loaded[2], loaded[3]}};

    return word;
}

INLINE void store_word(GLOBAL char *to, struct word word)
{
    unit_16 stored = {word.part[0], word.part[1], word.part[2], word.part[3]};

    *(GLOBAL unit_16 *)to = stored;
}

#endif
