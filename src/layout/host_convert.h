/*
 * host_convert.h - converts layouts on processors (leat_copy_convert()).
 *
 * A part of the copy is a block that fits into the second-level cache. If the source's elements do not lie in the
 * order of the destination, the kernels that copy layouts (host_kernels.h) first bring the block's elements into
 * that order, in a buffer on the stack. Then they are converted row by row. So all strides need only one
 * conversion of dense rows, which vector instructions make.
 */
#ifndef LEATI_LAYOUT_HOST_CONVERT_H
#define LEATI_LAYOUT_HOST_CONVERT_H

#include "layout/host.h"

/* Splits a canonical layout that converts into parts. */
void leati_host_convert_make(const struct leati_canonical *canonical, struct leati_host_layout *host);

/* Converts the parts first to end - 1. The offsets of the canonical layout count from dst and src. factors: as the
 * program gave them. */
void leati_host_convert_run(const struct leati_canonical *canonical, const struct leati_host_layout *host,
                            const struct leati_convert *convert, const struct leati_factors *factors, void *dst,
                            const void *src, uint64_t first, uint64_t end);

/* Converts `count` elements that follow one another on both sides. Element i uses scale[i % cycle] and
 * bias[i % cycle]; cycle is a multiple of 8. */
typedef void (*leati_convert_row)(const struct leati_convert *convert, const float *scale, const float *bias,
                                  uint32_t cycle, char *dst, const char *src, uint64_t count);

void leati_convert_row_plain(const struct leati_convert *convert, const float *scale, const float *bias,
                             uint32_t cycle, char *dst, const char *src, uint64_t count);

/* Needs AVX2 and F16C, and converts numbers only. */
void leati_convert_row_avx2(const struct leati_convert *convert, const float *scale, const float *bias,
                            uint32_t cycle, char *dst, const char *src, uint64_t count);

/* Returns true if this processor has the instructions for leati_convert_row_avx2(). */
bool leati_has_convert_avx2(void);

#endif
