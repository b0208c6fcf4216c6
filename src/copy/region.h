/*
 * region.h - checks and moves pitched regions of up to three dimensions, between memory that the driver knows.
 *
 * These functions take simplified regions: rows that are adjacent on both sides are merged into one row, adjacent
 * slices into one slice, and the slice sizes of a region with depth 1 are 0.
 */
#ifndef LEATI_REGION_H
#define LEATI_REGION_H

#include "base/strbuf.h"
#include "copy/protocol.h"
#include "copy/transfer.h"

#include <leat/copy.h>
#include <leat/layout.h>

enum leati_region_side { LEATI_REGION_DST, LEATI_REGION_SRC };

/* Returns the number of bytes from the first byte of a side to its last, gaps included. */
size_t leati_region_reach(const leat_copy_region *region, enum leati_region_side side);

/* Returns true if the rows of a side follow one another without a gap. */
bool leati_region_is_dense(const leat_copy_region *region, enum leati_region_side side);

/* Returns INVALID, with a message, if the region breaks a rule of leat/copy.h or a size overflows. The sizes must
 * not be 0. */
leat_status leati_region_check(const leat_copy_region *region);

/* Simplifies a region that leati_region_check() has accepted; see the top of this file. */
void leati_region_simplify(leat_copy_region *region);

/* Describes both sides of the region as layouts of bytes. */
void leati_region_layouts(const leat_copy_region *region, leat_layout *dst, leat_layout *src);

/* ---- by the driver's call or by a kernel ---- */

/* Returns true if kernels of the stream's device can access both sides; else sets *why_not. */
bool leati_region_suits_kernel(const leat_stream *stream, const struct leati_location *dst,
                               const struct leati_location *src, const char **why_not);

/* Returns true if the rows are so narrow or so unaligned that DMA engines move them one by one. */
bool leati_region_is_narrow(const leat_copy_region *region, const void *dst, const void *src);

/* Returns the expected time of a region with the protocol DRIVER or KERNEL. */
uint64_t leati_region_cost(const leat_device *device, enum leati_protocol_id protocol, const void *dst,
                           const void *src, const leat_copy_region *region);

/* Loads the kernel that would move the region. Returns false, without a message, if it cannot be loaded. */
bool leati_region_has_kernel(leat_device *device, const struct leati_location *dst,
                             const struct leati_location *src, const leat_copy_region *region);

/* Chooses the protocol, DRIVER or KERNEL, that moves the rows of a staged copy between ring and device in the
 * shorter expected time. */
enum leati_protocol_id leati_region_choose(leat_stream *stream, enum leati_protocol_id forced,
                                           const struct leati_location *dst, const struct leati_location *src,
                                           const leat_copy_region *region);

/* Adds a text that names the driver call or the kernel that moves the region. */
void leati_region_explain(struct leati_strbuf *text, const leat_stream *stream, enum leati_protocol_id protocol,
                          const struct leati_location *dst, const struct leati_location *src,
                          const leat_copy_region *region);

/* Submits the copy of the region to the stream. */
leat_status leati_region_move(leat_stream *stream, enum leati_protocol_id protocol, struct leati_location dst,
                              struct leati_location src, const leat_copy_region *region);

/*
 * Submits the copy of count consecutive rows of the region to the stream, from row number first on; rows are
 * numbered through all slices. side names the side at placed, where the rows have gaps. At packed they have no
 * gaps.
 */
leat_status leati_region_move_packed(leat_stream *stream, enum leati_protocol_id protocol,
                                     enum leati_region_side side, struct leati_location placed,
                                     struct leati_location packed, const leat_copy_region *region, size_t first,
                                     size_t count);

#endif
