/*
 * rows.h - copies pitched rows of bytes, addressed by packed offsets (offsets that do not count the gaps).
 *
 * A staged copy counts in packed bytes: the rows of a region have no gaps in the ring, and may have gaps in
 * ordinary memory.
 */
#ifndef LEATI_ROWS_H
#define LEATI_ROWS_H

#include "staging/bytes.h"

struct leati_rows {
    char *base;
    size_t width;         /* bytes of a row */
    size_t pitch, height; /* bytes from one row to the next; rows of a slice */
    size_t slice;         /* bytes from one slice to the next */
};

/* Describes memory without gaps as one row. */
static inline struct leati_rows leati_rows_dense(const void *base)
{
    return (struct leati_rows){.base = (char *)base, .width = SIZE_MAX, .height = 1};
}

/* Returns the distance from the start of the first row to the end of the last, gaps included, for rows with this
 * many packed bytes. bytes must be the size of whole slices. */
size_t leati_rows_reach(const struct leati_rows *rows, size_t bytes);

/*
 * Copies bytes packed bytes, from packed offset src_offset of src to packed offset dst_offset of dst. Returns how
 * many bytes were copied, from the start; if an access faults, fills *fault as leati_staging_copy_guarded() does.
 */
size_t leati_staging_copy_rows(const struct leati_rows *dst, size_t dst_offset, const struct leati_rows *src,
                               size_t src_offset, size_t bytes, enum leati_store_policy policy, uintptr_t *fault);

#endif
