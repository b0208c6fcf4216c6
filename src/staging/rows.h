/*
 * rows.h - pitched rows of bytes, addressed by their packed offset (the offset if there were no gaps).
 *
 * A staged copy counts in packed bytes: the rows of a region are packed in its ring, and pitched in ordinary
 * memory.
 */
#ifndef LEATI_ROWS_H
#define LEATI_ROWS_H

#include "staging/bytes.h"

struct leati_rows {
    char *base;
    size_t width; /* of a row */
    size_t pitch, height;
    size_t slice; /* bytes from one slice of height rows to the next */
};

/* Memory without gaps. */
static inline struct leati_rows leati_rows_dense(const void *base)
{
    return (struct leati_rows){.base = (char *)base, .width = SIZE_MAX, .height = 1};
}

/* Bytes from the first to the end of the last of so many packed bytes, gaps included. bytes is a number of whole
 * slices. */
size_t leati_rows_reach(const struct leati_rows *rows, size_t bytes);

/*
 * Copies bytes packed bytes, from packed offset src_offset of src to packed offset dst_offset of dst. Returns, as
 * leati_staging_copy_guarded(), how many were copied, from the start.
 */
size_t leati_staging_copy_rows(const struct leati_rows *dst, size_t dst_offset, const struct leati_rows *src,
                               size_t src_offset, size_t bytes, enum leati_store_policy policy, uintptr_t *fault);

#endif
