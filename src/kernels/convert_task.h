/*
 * convert_task.h - defines the argument of a kernel that converts: one struct, passed by value.
 * layout/gpu_convert.c fills it in, and convert_kernels.c reads it. Plans keep the task, which is without the
 * numbers of the conversion.
 *
 * All kernels copy lines. A line is dimension 0 of the canonical layout, or the product of a few fast dimensions.
 * A gang of threads copies a strip of a line. dim[inner] to dim[dims - 1] count the lines.
 */
#ifndef LEATI_KERNELS_CONVERT_TASK_H
#define LEATI_KERNELS_CONVERT_TASK_H

#include "kernels/layout_task.h"

/* As LEAT_CONVERT_MAX_CHANNELS. */
#define LEATI_FACTORS 256

/* The numbers of a conversion: element i of the dimension of channels becomes x * scale[i] + bias[i]. If `count`
 * is 1, this is so for all elements. A missing scale is 1, a missing bias -0, which changes no number. */
struct leati_factors {
    uint32_t count;
    float scale[LEATI_FACTORS], bias[LEATI_FACTORS];
};

struct leati_convert_dim {
    int64_t dst, src; /* strides in bytes */
    struct leati_divisor by;
    uint32_t channel; /* 1 for the dimension of channels, else 0 */
};

struct leati_convert_task {
    uint64_t dst, src;           /* addresses of the first element on both sides */
    uint64_t src_first, src_end; /* the kernel may read the addresses src_first to src_end - 1 */
    uint32_t places;             /* as in struct leati_layout_task */

    uint32_t dst_number, src_number, flags; /* as in leat_conversion */
    uint32_t dst_bytes, src_bytes;          /* sizes of an element */

    uint64_t size;               /* number of elements of a line */
    uint32_t step;               /* number of elements of a strip */
    struct leati_divisor strips; /* of a line */
    uint32_t all_strips;         /* number of strips in all lines */
    struct leati_divisor gang;   /* so many threads copy a strip */
    uint32_t inner, dims;        /* dim[0] to dim[inner - 1] count the elements of a line */

    /* For pixels: 0 if all lines, and all planes, begin at words of the kernel on this side, else 1. */
    uint32_t odd_dst, odd_src;

    /* For pixels and single elements: a short dimension that a thread copies completely, as many times as it has
     * elements. */
    uint32_t repeat, repeat_channel; /* size; 1 if it is the dimension of channels */
    int64_t repeat_dst, repeat_src;  /* strides in bytes */

    /* For tiles: dim[0] is dense on dst, and dim[1] on src. */
    uint64_t size_j;
    struct leati_divisor tiles_j;

    /* For rows. Element i of a line has channel i % channels.size. channels.size is 0 if all elements of a line
     * have the line's channel. */
    struct leati_divisor channels;

    union {
        struct leati_convert_dim dim[LEATI_TASK_DIMS];
        struct leati_task_place place[LEATI_TASK_PLACES];
    };
};

struct leati_convert_argument {
    struct leati_convert_task task;
    struct leati_factors factors;
};

/* The maximum number of groups of elements that a thread of the rows kernel converts. */
#define LEATI_ROW_GROUPS 8

/* Returns the number of elements of a group of the rows kernel: they fill 16 bytes on the side with the larger
 * elements. */
static inline uint32_t leati_row_group(uint32_t dst_bytes, uint32_t src_bytes)
{
    return dst_bytes == 4 || src_bytes == 4 ? 4 : 8;
}

/* CUDA passes at most so many bytes to a kernel. */
_Static_assert(sizeof(struct leati_convert_argument) <= 4096, "the argument fits into a launch");

#endif
