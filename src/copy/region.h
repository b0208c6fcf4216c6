/*
 * region.h - pitched regions, up to three dimensions, between memory that the driver knows.
 *
 * A region is in its simplest form here: rows that touch on both sides are one row, slices that do are one slice,
 * and the slices of a region with depth 1 are 0.
 */
#ifndef LEATI_REGION_H
#define LEATI_REGION_H

#include "base/strbuf.h"
#include "copy/protocol.h"
#include "copy/transfer.h"

#include <leat/copy.h>
#include <leat/layout.h>

enum leati_region_side { LEATI_REGION_DST, LEATI_REGION_SRC };

/* From the first byte of a side to behind its last one. */
size_t leati_region_reach(const leat_copy_region *region, enum leati_region_side side);

/* Returns true if the rows of a side follow one another without a gap. */
bool leati_region_is_dense(const leat_copy_region *region, enum leati_region_side side);

/* INVALID, with a message, unless it is what leat/copy.h asks for and nothing overflows. Sizes are not 0. */
leat_status leati_region_check(const leat_copy_region *region);

/* Brings a region that was checked into its simplest form. */
void leati_region_simplify(leat_copy_region *region);

/* As layouts of bytes. */
void leati_region_layouts(const leat_copy_region *region, leat_layout *dst, leat_layout *src);

/* ---- by the driver's call or by a kernel ---- */

/* Returns true if kernels reach both ends. */
bool leati_region_suits_kernel(const leat_stream *stream, const struct leati_location *dst,
                               const struct leati_location *src, const char **why_not);

/* Returns true if a DMA engine moves the rows one by one, or in words that are shorter than its own. */
bool leati_region_is_narrow(const leat_copy_region *region, const void *dst, const void *src);

/* Expected time with DRIVER or KERNEL. */
uint64_t leati_region_cost(const leat_device *device, enum leati_protocol_id protocol, const void *dst,
                           const void *src, const leat_copy_region *region);

/* Loads the kernel that moves the region when kernels do; returns false, with no message, if it is not to be had.
 */
bool leati_region_has_kernel(leat_device *device, const struct leati_location *dst,
                             const struct leati_location *src, const leat_copy_region *region);

/* DRIVER or KERNEL, whichever is expected to be faster; for the part of a staged copy between ring and device. */
enum leati_protocol_id leati_region_choose(leat_stream *stream, enum leati_protocol_id forced,
                                           const struct leati_location *dst, const struct leati_location *src,
                                           const leat_copy_region *region);

/* Writes which call or kernel that is. */
void leati_region_explain(struct leati_strbuf *text, const leat_stream *stream, enum leati_protocol_id protocol,
                          const struct leati_location *dst, const struct leati_location *src,
                          const leat_copy_region *region);

/* Gives the region to the stream. */
leat_status leati_region_move(leat_stream *stream, enum leati_protocol_id protocol, struct leati_location dst,
                              struct leati_location src, const leat_copy_region *region);

/*
 * The same for a run of the region's rows, which lie packed on the other side: side is where they have their
 * place, first and count are rows of all slices.
 */
leat_status leati_region_move_packed(leat_stream *stream, enum leati_protocol_id protocol,
                                     enum leati_region_side side, struct leati_location placed,
                                     struct leati_location packed, const leat_copy_region *region, size_t first,
                                     size_t count);

#endif
