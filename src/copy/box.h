/*
 * box.h - boxes of rows between memory that the driver knows: by which hand, and doing it.
 *
 * A box is in its simplest form here: rows that touch on both sides are one row, slices that do are one slice, and
 * the slices of a box with depth 1 are 0.
 */
#ifndef LEATI_BOX_H
#define LEATI_BOX_H

#include "core/core.h"

#include <leat/copy.h>
#include <leat/layout.h>

/* Who moves the rows. */
enum leati_box_by {
    LEATI_BOX_BY_DRIVER, /* the driver's call for boxes */
    LEATI_BOX_BY_KERNEL, /* a kernel for layouts, for rows that are too narrow for DMA */
    LEATI_BOX_BY_ROWS    /* the driver's call for a copy, for each row */
};

enum leati_box_side { LEATI_BOX_DST, LEATI_BOX_SRC };

/* From the first byte of a side to behind its last one. */
size_t leati_box_reach(const leat_copy_box *box, enum leati_box_side side);

/* Do the rows of a side follow one another without a gap? */
bool leati_box_is_dense(const leat_copy_box *box, enum leati_box_side side);

/* INVALID, with a sentence, unless it is what leat/copy.h asks for and nothing overflows. Sizes are not 0. */
leat_status leati_box_check(const leat_copy_box *box);

/* Brings a box that was checked into its simplest form. */
void leati_box_simplify(leat_copy_box *box);

/* As layouts of bytes. */
void leati_box_layouts(const leat_copy_box *box, leat_layout *dst, leat_layout *src);

/* Chooses. INVALID: LEAT_COPY_RECTANGLE holds a wrong word. */
leat_status leati_box_choose(leat_stream *stream, const struct leati_end *dst, const struct leati_end *src,
                             const leat_copy_box *box, enum leati_box_by *by);

/* The kernel that moves the box when kernels do; only what the addresses of the ends divide by matters. */
leat_status leati_box_kernel(const struct leati_end *dst, const struct leati_end *src, const leat_copy_box *box,
                             const char **name);

/* Gives the box to the stream. */
leat_status leati_box_move(leat_stream *stream, enum leati_box_by by, struct leati_end dst, struct leati_end src,
                           const leat_copy_box *box);

/*
 * The same for a run of the box's rows, which lie packed on the other side: side is where they have their place,
 * first and count are rows of all slices.
 */
leat_status leati_box_move_packed(leat_stream *stream, enum leati_box_by by, enum leati_box_side side,
                                  struct leati_end placed, struct leati_end packed, const leat_copy_box *box,
                                  size_t first, size_t count);

#endif
