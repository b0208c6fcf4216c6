/*
 * rows.h - rows of bytes with gaps between them, seen as the bytes that they are without the gaps.
 *
 * A staged copy counts in packed bytes: its ring has the rows of a region one behind the other, and ordinary
 * memory has them where they belong.
 */
#ifndef LEATI_ROWS_H
#define LEATI_ROWS_H

#include "staging/bytes.h"

struct leati_rows {
    char *base;
    size_t width; /* of a row */
    size_t pitch, height;
    size_t slice; /* from one height rows to the next */
};

/* Memory without gaps. */
static inline struct leati_rows leati_rows_dense(const void *base)
{
    return (struct leati_rows){.base = (char *)base, .width = SIZE_MAX, .height = 1};
}

/* Bytes from the first one of so many packed bytes, which are whole slices, to behind the last one. */
size_t leati_rows_reach(const struct leati_rows *rows, size_t bytes);

/*
 * Copies bytes packed bytes, from the byte src_offset of src to the byte dst_offset of dst. As
 * leati_staging_copy_guarded(): returns how many were copied, from the start.
 */
size_t leati_staging_copy_rows(const struct leati_rows *dst, size_t dst_offset, const struct leati_rows *src,
                               size_t src_offset, size_t bytes, enum leati_store_policy policy, uintptr_t *fault);

#endif
