/*
 * host.c - layouts by processors: which kernel, which parts, and what runs one.
 */
#include "layout/host.h"

#include "layout/host_kernels.h"

#include "base/stream_copy.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define PART_BYTES ((uint64_t)512 << 10) /* of payload */

/* ---- choosing ---- */

/* How many units of each dimension go into a part: all of the fast ones, as far as that goes. A destination's list
 * is not cut when elements may have several units, so that the last of equal indices wins as a whole. */
static void cut(const struct leati_form *form, struct leati_host_layout *host)
{
    uint64_t room = PART_BYTES / form->unit_bytes;

    for (unsigned i = 0; i < form->dims; i++) {
        uint64_t size = form->size[i];
        bool whole = (int)i == form->index_dim && form->index_on_dst && form->dims > 1;

        host->part_size[i] = size <= room || whole ? size : room;
        host->part_count[i] = (size + host->part_size[i] - 1) / host->part_size[i];
        host->parts *= host->part_count[i];
        room = room / host->part_size[i] ? room / host->part_size[i] : 1;
    }
}

void leati_host_layout_make(const struct leati_form *form, leat_layout_class class_of_plan,
                            struct leati_host_layout *host)
{
    (void)class_of_plan;
    *host = (struct leati_host_layout){.parts = form->empty ? 0 : 1, .kernel = LEATI_HOST_ELEMENTS};
    if (form->empty)
        return;
    if (form->dims && form->index_dim != 0 && form->dst_stride[0] == (int64_t)form->unit_bytes &&
        form->src_stride[0] == form->dst_stride[0])
        host->kernel = LEATI_HOST_RUNS;
    cut(form, host);
}

/* ---- running ---- */

/* One part. A list's dimension is not in the box. */
struct piece {
    const struct leati_form *form;
    enum leati_host_kernel kernel;
    struct leati_box box;
    char *dst;
    const char *src;

    uint64_t first_index, indices;
    bool counts; /* of all parts that see these indices, this one counts the wrong ones */
};

static void find_piece(const struct leati_form *form, const struct leati_host_layout *host, uint64_t part,
                       struct piece *piece)
{
    struct leati_box *box = &piece->box;

    piece->counts = true;
    box->dims = 0;
    box->unit_bytes = form->unit_bytes;
    for (unsigned i = 0; i < form->dims; i++) {
        uint64_t start = part % host->part_count[i] * host->part_size[i], left = form->size[i] - start;
        uint64_t size = left < host->part_size[i] ? left : host->part_size[i];

        part /= host->part_count[i];
        if ((int)i == form->index_dim) {
            piece->first_index = start;
            piece->indices = size;
            /* The other side has no list. */
            if (form->index_on_dst)
                piece->src += (int64_t)start * form->src_stride[i];
            else
                piece->dst += (int64_t)start * form->dst_stride[i];
            continue;
        }
        piece->counts &= !start;
        piece->dst += (int64_t)start * form->dst_stride[i];
        piece->src += (int64_t)start * form->src_stride[i];
        box->size[box->dims] = size;
        box->dst_stride[box->dims] = form->dst_stride[i];
        box->src_stride[box->dims++] = form->src_stride[i];
    }
    if (!box->dims) {
        box->dims = 1;
        box->size[0] = 1;
        box->dst_stride[0] = box->src_stride[0] = form->unit_bytes;
    }
}

static void run_box(const struct piece *piece, char *dst, const char *src)
{
    if (piece->kernel == LEATI_HOST_RUNS)
        leati_box_runs(&piece->box, dst, src);
    else
        leati_box_elements(&piece->box, dst, src);
}

static int64_t index_at(const struct leati_form *form, const struct leati_indices *indices, uint64_t i)
{
    int32_t narrow;
    int64_t wide;

    /* Lists may lie anywhere. */
    if (form->index_bytes == 4) {
        memcpy(&narrow, (const char *)indices->list + i * sizeof narrow, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, (const char *)indices->list + i * sizeof wide, sizeof wide);
    return wide;
}

static void run_indexed(const struct piece *piece, const struct leati_indices *indices)
{
    const struct leati_form *form = piece->form;
    int64_t dst_stride = form->dst_stride[form->index_dim], src_stride = form->src_stride[form->index_dim];
    uint64_t wrong = 0;

    for (uint64_t i = 0; i < piece->indices; i++) {
        int64_t at = index_at(form, indices, piece->first_index + i), other = (int64_t)i;

        if (at < 0 || at >= form->index_bound)
            wrong++;
        else
            run_box(piece, piece->dst + (form->index_on_dst ? at : other) * dst_stride,
                    piece->src + (form->index_on_dst ? other : at) * src_stride);
    }
    /* Relaxed: a counter, which is read after the stream has been waited for. */
    if (wrong && piece->counts && indices->wrong)
        atomic_fetch_add_explicit(indices->wrong, wrong, memory_order_relaxed);
}

void leati_host_layout_run(const struct leati_form *form, const struct leati_host_layout *host, void *dst,
                           const void *src, const struct leati_indices *indices, uint64_t first, uint64_t end)
{
    struct piece piece = {.form = form, .kernel = host->kernel};

    for (uint64_t part = first; part < end; part++) {
        piece.dst = (char *)dst + form->dst_offset;
        piece.src = (const char *)src + form->src_offset;
        find_piece(form, host, part, &piece);
        if (form->index_dim < 0)
            run_box(&piece, piece.dst, piece.src);
        else
            run_indexed(&piece, indices);
    }
    leati_stream_fence();
}

/* ---- telling ---- */

void leati_host_layout_text(const struct leati_host_layout *host, char *text, size_t text_bytes)
{
    static const char *const names[] = {"runs", "elements"};

    snprintf(text, text_bytes, "%s, %llu parts", names[host->kernel], (unsigned long long)host->parts);
}
