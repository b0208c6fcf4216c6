/*
 * host.c - layouts by processors: which kernel, which parts, and what runs one.
 */
#include "layout/host.h"

#include "layout/host_kernels.h"

#include "base/stream_copy.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#define PART_BYTES ((uint64_t)512 << 10)    /* of payload */
#define STREAMING_BYTES ((uint64_t)4 << 20) /* of payload, from which on caches do not help */
#define SHORT_BYTES 32                      /* runs that are shorter make no tiles */
#define LONG_BYTES ((uint64_t)4 << 10)      /* runs need not be longer */

/* ---- choosing: instructions ---- */

static enum leati_host_level best;
static pthread_once_t best_once = PTHREAD_ONCE_INIT;

static void find_best(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        best = LEATI_HOST_AVX512;
    else if (__builtin_cpu_supports("avx2"))
        best = LEATI_HOST_AVX2;
#endif
}

enum leati_host_level leati_host_level(void)
{
    pthread_once(&best_once, find_best);
    return best;
}

/* ---- choosing: the kernel, and the order of the loops ---- */

/* The dimensions of a dense run, the fastest first, of those that are not taken. */
struct run {
    unsigned dims, dim[LEATI_FORM_MAX_DIMS];
    uint64_t units;
};

static void extend(const struct leati_form *form, const int64_t *stride, uint64_t most, bool *taken,
                   struct run *run)
{
    int64_t next = run->dims ? stride[run->dim[run->dims - 1]] * (int64_t)form->size[run->dim[run->dims - 1]]
                             : (int64_t)form->unit_bytes;

    for (unsigned i = 0; i < form->dims; i++) {
        if (taken[i] || (int)i == form->index_dim || stride[i] != next)
            continue;
        /* The last one may be cut, but not to less than 2. */
        if (run->dims && most / run->units < 2)
            return;
        taken[i] = true;
        run->dim[run->dims++] = i;
        run->units *= form->size[i];
        return;
    }
}

/* Two runs of different dimensions, one on each side, that are long enough for tiles. */
static bool find_runs(const struct leati_form *form, struct run *dst, struct run *src)
{
    bool taken[LEATI_FORM_MAX_DIMS] = {false};
    unsigned before;

    *dst = *src = (struct run){.units = 1};
    extend(form, form->dst_stride, LEATI_TILES_DST_MOST, taken, dst);
    extend(form, form->src_stride, LEATI_TILES_SRC_MOST, taken, src);
    if (!dst->dims || !src->dims)
        return false;
    do {
        before = dst->dims + src->dims;
        if (dst->units * form->unit_bytes < 2 * LEATI_LINE_BYTES)
            extend(form, form->dst_stride, LEATI_TILES_DST_MOST, taken, dst);
        if (src->units * form->unit_bytes < LONG_BYTES)
            extend(form, form->src_stride, LEATI_TILES_SRC_MOST, taken, src);
    } while (dst->dims + src->dims > before);
    return dst->units * form->unit_bytes >= SHORT_BYTES && src->units * form->unit_bytes >= SHORT_BYTES;
}

/* Those of runs first, then as the form has them. */
static void put_in_order(const struct leati_form *form, const struct run *dst, const struct run *src,
                         struct leati_host_layout *host)
{
    bool taken[LEATI_FORM_MAX_DIMS] = {false};
    unsigned count = 0;

    for (unsigned i = 0; i < dst->dims; i++)
        host->order[count++] = dst->dim[i];
    for (unsigned i = 0; i < src->dims; i++)
        host->order[count++] = src->dim[i];
    for (unsigned i = 0; i < count; i++)
        taken[host->order[i]] = true;
    for (unsigned i = 0; i < form->dims; i++)
        if (!taken[i])
            host->order[count++] = i;
    host->dst_dims = dst->dims;
    host->src_dims = src->dims;
}

/* ---- choosing: parts ---- */

/* Cuts size into pieces of most at most, all about the same, of whole steps. */
static uint64_t even(uint64_t size, uint64_t most, uint64_t step)
{
    uint64_t pieces, piece;

    if (size <= most)
        return size;
    most = most > step ? most / step * step : step;
    pieces = (size + most - 1) / most;
    piece = (size + pieces - 1) / pieces;
    return (piece + step - 1) / step * step;
}

/* How many units the dimensions at first to before end have in a part, the fastest as many as most allows. */
static uint64_t cut(const struct leati_form *form, struct leati_host_layout *host, unsigned first, unsigned end,
                    uint64_t most, uint64_t step)
{
    uint64_t units = 1;

    for (unsigned i = first; i < end; i++) {
        uint64_t size = form->size[host->order[i]];
        /* Elements may have several units; the last of equal indices of a destination has to win as a whole. */
        bool whole = (int)host->order[i] == form->index_dim && form->index_on_dst && form->dims > 1;

        host->part_size[i] = whole ? size : even(size, units < most ? most / units : 1, i == first ? step : 1);
        host->part_count[i] = (size + host->part_size[i] - 1) / host->part_size[i];
        host->parts *= host->part_count[i];
        units *= host->part_size[i];
    }
    return units;
}

/* The dimension behind the run with the smallest step through the source; -1 if there is none. */
static int source_goes_on(const struct leati_form *form)
{
    int found = -1;

    for (int i = 1; i < (int)form->dims; i++)
        if (i != form->index_dim && llabs(form->src_stride[i]) > 0 &&
            (found < 0 || llabs(form->src_stride[i]) < llabs(form->src_stride[found])))
            found = i;
    return found;
}

static void order_runs(const struct leati_form *form, struct leati_host_layout *host)
{
    int dst_dim = form->dims > 1 && form->index_dim != 1 ? 1 : -1, src_dim = source_goes_on(form);
    unsigned count = 0;

    src_dim = src_dim == dst_dim ? -1 : src_dim;
    host->order[count++] = 0;
    if (dst_dim > 0)
        host->order[count++] = (unsigned)dst_dim;
    if (src_dim > 0)
        host->order[count++] = (unsigned)src_dim;
    for (int i = 1; i < (int)form->dims; i++)
        if (i != dst_dim && i != src_dim)
            host->order[count++] = (unsigned)i;
    host->dst_dims = dst_dim > 0;
    host->src_dims = src_dim > 0;
}

static void cut_runs(const struct leati_form *form, struct leati_host_layout *host)
{
    unsigned after = 1 + host->dst_dims + host->src_dims;
    uint64_t room = PART_BYTES / form->unit_bytes, units, along = 1;

    units = cut(form, host, 0, 1, room, 64 / form->unit_bytes);
    room /= units;
    /* A few runs side by side on the source, many on the destination. */
    if (host->src_dims)
        along = cut(form, host, after - 1, after, room < 8 ? room : 8 + room / 64, 1);
    room = room > along ? room / along : 1;
    if (host->dst_dims)
        room /= cut(form, host, 1, 2, room, 1);
    cut(form, host, after, form->dims, room ? room : 1, 1);
}

static void cut_tiles(const struct leati_form *form, struct leati_host_layout *host)
{
    uint64_t line = LEATI_LINE_BYTES / form->unit_bytes, room = PART_BYTES / form->unit_bytes;
    unsigned both = host->dst_dims + host->src_dims;
    uint64_t src_units = cut(form, host, host->dst_dims, both, LEATI_TILES_SRC_MOST, line), dst_units;

    dst_units = room / src_units > LEATI_TILES_DST_MOST ? LEATI_TILES_DST_MOST : room / src_units;
    dst_units = cut(form, host, 0, host->dst_dims, dst_units, 2 * line);
    cut(form, host, both, form->dims, room / (dst_units * src_units), 1);
}

void leati_host_layout_make(const struct leati_form *form, leat_layout_class class_of_plan,
                            struct leati_host_layout *host)
{
    struct run dst, src, none = {0};

    (void)class_of_plan;
    *host = (struct leati_host_layout){.parts = 1, .kernel = LEATI_HOST_ELEMENTS, .level = leati_host_level()};
    if (form->empty) {
        host->parts = 0;
        return;
    }
    host->streaming = form->payload_bytes >= STREAMING_BYTES;
    if (form->dims && form->index_dim != 0 && form->dst_stride[0] == (int64_t)form->unit_bytes &&
        form->src_stride[0] == form->dst_stride[0]) {
        host->kernel = LEATI_HOST_RUNS;
        order_runs(form, host);
        cut_runs(form, host);
        return;
    } else if (find_runs(form, &dst, &src)) {
        host->kernel = LEATI_HOST_TILES;
        put_in_order(form, &dst, &src, host);
        cut_tiles(form, host);
        return;
    }
    put_in_order(form, &none, &none, host);
    cut(form, host, 0, form->dims, PART_BYTES / form->unit_bytes, 1);
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
    for (unsigned k = 0; k < form->dims; k++) {
        unsigned i = host->order[k];
        uint64_t start = part % host->part_count[k] * host->part_size[k], left = form->size[i] - start;
        uint64_t size = left < host->part_size[k] ? left : host->part_size[k];

        part /= host->part_count[k];
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
    if (piece->kernel == LEATI_HOST_TILES)
        leati_box_tiles(&piece->box, dst, src);
    else if (piece->kernel == LEATI_HOST_RUNS)
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
    struct piece piece = {.form = form,
                          .kernel = host->kernel,
                          .box = {.unit_bytes = form->unit_bytes,
                                  .level = host->level,
                                  .streaming = host->streaming,
                                  .dst_dims = host->dst_dims,
                                  .src_dims = host->src_dims}};

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
    static const char *const names[] = {"runs", "elements", "tiles"};
    static const char *const levels[] = {"plain C", "AVX2", "AVX-512"};

    snprintf(text, text_bytes, "%s, %s, %s stores, %llu parts", names[host->kernel], levels[host->level],
             host->streaming ? "streaming" : "cached", (unsigned long long)host->parts);
}
