/*
 * host.c - copies layouts on processors: chooses the kernel, splits the copy into parts, and runs parts.
 */
#include "layout/host.h"

#include "layout/host_convert.h"
#include "layout/host_kernels.h"

#include "base/assert.h"
#include "base/options.h"
#include "base/stream_copy.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

/* A copy is split into PARTS parts if their payload is then between SMALL_BYTES and PART_BYTES. Otherwise the
 * payload of a part is the nearer of these two limits. */
#define PART_BYTES ((uint64_t)1 << 20)
#define SMALL_BYTES ((uint64_t)128 << 10)
#define PARTS 16
#define STREAMING_BYTES ((uint64_t)768 << 10) /* copies with at least this payload use non-temporal stores */
#define SHORT_BYTES 64                      /* if runs are shorter, a shuffle is preferred to tiles */
#define SHORTEST_BYTES 4                    /* minimum length of the runs of tiles */
#define SOURCE_BYTES 256                 /* minimum length of the source that the innermost loops read in a row */
#define COUNTED_BYTES 256                /* minimum length of the dimension that counts a shuffle's groups */
#define RAGGED_BYTES ((uint64_t)1 << 10) /* minimum length of destination runs that are not whole cache lines */
#define ELEMENTS_ROW 64                  /* units of a destination row in a part of the elements kernel */
#define LISTED_ROW 512                   /* the same number if each unit has an index */
#define SHUFFLE_BYTES 1024               /* minimum payload for which the setup of a shuffle is worth its time */
#define LONG_BYTES ((uint64_t)4 << 10)   /* a source run of this length gets no more dimensions */
#define STAGED_TILES 8                   /* tiles along the destination in a part with unaligned rows */

/* ---- choosing: instructions ---- */

static enum leati_host_level best;
static pthread_once_t best_once = PTHREAD_ONCE_INIT;

static void find_best(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        best = __builtin_cpu_supports("avx512vbmi") ? LEATI_HOST_VBMI : LEATI_HOST_AVX512;
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

/* A dense run on one side. dim lists its dimensions, the fastest first. */
struct host_run {
    unsigned dims, dim[LEATI_CANONICAL_MAX_DIMS];
    uint64_t units;
};

/* Adds to a run the dimension that continues it on the side with these strides, unless the dimension is taken
 * already. most: the maximum number of units that the kernel can handle in a run. */
static void extend(const struct leati_canonical *canonical, const int64_t *stride, uint64_t most, bool *taken,
                   struct host_run *run)
{
    int64_t next = run->dims ? stride[run->dim[run->dims - 1]] * (int64_t)canonical->size[run->dim[run->dims - 1]]
                             : (int64_t)canonical->unit_bytes;

    leati_assert(run->dims < LEATI_CANONICAL_MAX_DIMS && run->units);
    for (unsigned i = 0; i < canonical->dims; i++) {
        if (taken[i] || (int)i == canonical->index_dim || stride[i] != next)
            continue;
        /* If the run becomes too long, parts cut its last dimension. A dimension is worth adding only if a part
         * has at least 2 positions of it. */
        if (run->dims && most / run->units < 2)
            return;
        taken[i] = true;
        run->dim[run->dims++] = i;
        run->units *= canonical->size[i];
        return;
    }
}

/* Returns true if a run of the destination needs no more dimensions. Runs that are not whole cache lines must be
 * longer, because it costs more to write a part of a line than to write a whole line. */
static bool long_enough(uint64_t bytes)
{
    return bytes >= (bytes % LEATI_LINE_BYTES ? RAGGED_BYTES : 2 * LEATI_LINE_BYTES);
}

/* Finds two runs, one on each side, that have no dimension in common. Returns true if both have at least
 * short_bytes, so that tiles can be used. */
static bool find_runs(const struct leati_canonical *canonical, uint64_t short_bytes, struct host_run *dst,
                      struct host_run *src)
{
    bool taken[LEATI_CANONICAL_MAX_DIMS] = {false};
    unsigned before;

    *dst = *src = (struct host_run){.units = 1};
    extend(canonical, canonical->dst_stride, LEATI_TILES_DST_MOST, taken, dst);
    extend(canonical, canonical->src_stride, LEATI_TILES_SRC_MOST, taken, src);
    if (!dst->dims || !src->dims)
        return false;
    do {
        before = dst->dims + src->dims;
        if (!long_enough(dst->units * canonical->unit_bytes))
            extend(canonical, canonical->dst_stride, LEATI_TILES_DST_MOST, taken, dst);
        if (src->units * canonical->unit_bytes < LONG_BYTES)
            extend(canonical, canonical->src_stride, LEATI_TILES_SRC_MOST, taken, src);
    } while (dst->dims + src->dims > before);
    return dst->units * canonical->unit_bytes >= short_bytes && src->units * canonical->unit_bytes >= short_bytes;
}

/* Finds a group of units that is dense on both sides, with a different order of its units on each side. The next
 * group must follow it without a gap on both sides. Returns false if there is no such group. */
static bool find_group(const struct leati_canonical *canonical, struct host_run *group)
{
    int64_t span = canonical->unit_bytes, step = canonical->unit_bytes;

    leati_assert(canonical->unit_bytes);
    *group = (struct host_run){.units = 1};
    for (unsigned i = 0; i < canonical->dims && (int)i != canonical->index_dim; i++) {
        bool seen[LEATI_SHUFFLE_UNITS_MOST] = {false}, once = true;

        if (canonical->dst_stride[i] != step || canonical->size[i] > LEATI_SHUFFLE_UNITS_MOST / group->units)
            return false;
        span += llabs(canonical->src_stride[i]) * (int64_t)(canonical->size[i] - 1);
        step *= (int64_t)canonical->size[i];
        group->dim[group->dims++] = i;
        group->units *= canonical->size[i];
        if (span != step || i + 1 == canonical->dims || (int)i + 1 == canonical->index_dim ||
            canonical->dst_stride[i + 1] != step || canonical->src_stride[i + 1] != step)
            continue;
        /* The group is as long on the source as on the destination. Check that its units fill it without
         * overlap. */
        for (uint64_t u = 0; u < group->units; u++) {
            uint64_t rest = u;
            int64_t place = 0;

            for (unsigned k = 0; k <= i; k++) {
                uint64_t at = rest % canonical->size[k];

                rest /= canonical->size[k];
                place += (int64_t)(canonical->src_stride[k] < 0 ? canonical->size[k] - 1 - at : at) *
                         llabs(canonical->src_stride[k]);
            }
            once &= !seen[place / canonical->unit_bytes];
            seen[place / canonical->unit_bytes] = true;
        }
        return once;
    }
    return false;
}

/* Returns true if dimension 0 is a long run on the destination and has a stride of a few units on the source. */
static bool has_small_step(const struct leati_canonical *canonical)
{
    int64_t most = LEATI_SHUFFLE_MOST * (int64_t)canonical->unit_bytes;

    return canonical->dims && canonical->index_dim != 0 &&
           canonical->dst_stride[0] == (int64_t)canonical->unit_bytes &&
           canonical->size[0] * canonical->unit_bytes >= 2 * LEATI_LINE_BYTES && canonical->src_stride[0] &&
           llabs(canonical->src_stride[0]) <= most;
}

/* Returns true if a dimension is long enough to be the one that counts the groups of a shuffle. */
static bool counts(const struct leati_canonical *canonical, unsigned dim)
{
    return canonical->size[dim] * canonical->unit_bytes >= COUNTED_BYTES;
}

/* Finds how a shuffle can copy the layout (leati_nest_shuffle()). On entry *dst and *src are the runs that are too
 * short for tiles. On return *dst is the group of units and *src the dimension that counts groups. Returns false
 * if no shuffle can copy the layout. */
static bool find_shuffle(const struct leati_canonical *canonical, struct host_run *dst, struct host_run *src)
{
    struct host_run both = *dst, group;

    if (find_group(canonical, &group)) {
        *dst = group;
        *src = (struct host_run){.dims = 1, .dim = {dst->dims}};
        return true;
    }
    if (dst->dims && src->dims && dst->units <= LEATI_SHUFFLE_MOST && counts(canonical, src->dim[0]) &&
        canonical->dst_stride[src->dim[0]] == (int64_t)(dst->units * canonical->unit_bytes)) {
        src->dims = 1;
        return true;
    }
    if (dst->dims && src->dims && src->units <= LEATI_SHUFFLE_MOST && counts(canonical, dst->dim[0]) &&
        canonical->src_stride[dst->dim[0]] == (int64_t)(src->units * canonical->unit_bytes)) {
        both.dims = 1;
        *dst = *src;
        *src = both;
        return true;
    }
    *dst = (struct host_run){0};
    *src = (struct host_run){.dims = 1};
    return has_small_step(canonical);
}

/* Returns the dimension with the smallest stride on the source among the dimensions that are not taken, or -1 if
 * there is none. */
static int source_goes_on(const struct leati_canonical *canonical, const bool *taken)
{
    int found = -1;

    for (int i = 0; i < (int)canonical->dims; i++)
        if (!taken[i] && i != canonical->index_dim && llabs(canonical->src_stride[i]) > 0 &&
            (found < 0 || llabs(canonical->src_stride[i]) < llabs(canonical->src_stride[found])))
            found = i;
    return found;
}

/* Decides the order of the loops, from the innermost outwards. The dimensions of the runs are first. Then follow
 * the dimensions with the smallest source strides, until the loops read SOURCE_BYTES in a row. Then follow the
 * others, in the order of the canonical layout. */
static void put_in_order(const struct leati_canonical *canonical, const struct host_run *dst,
                         const struct host_run *src, struct leati_host_layout *host)
{
    uint64_t bytes = canonical->unit_bytes; /* number of source bytes that the loops chosen so far read in a row */
    bool taken[LEATI_CANONICAL_MAX_DIMS] = {false};
    unsigned count = 0;

    for (unsigned i = 0; i < dst->dims; i++)
        host->order[count++] = dst->dim[i];
    for (unsigned i = 0; i < src->dims; i++) {
        host->order[count++] = src->dim[i];
        bytes *= canonical->size[src->dim[i]];
    }
    for (unsigned i = 0; i < count; i++)
        taken[host->order[i]] = true;
    while (count < canonical->dims) {
        int next = bytes < SOURCE_BYTES ? source_goes_on(canonical, taken) : -1;

        for (unsigned i = 0; next < 0; i++)
            next = taken[i] ? -1 : (int)i;
        taken[next] = true;
        host->order[count++] = (unsigned)next;
        bytes *= canonical->size[next];
    }
    leati_assert(count == canonical->dims);
    host->dst_dims = dst->dims;
    host->src_dims = src->dims;
}

/* ---- choosing: parts ---- */

static uint64_t part_bytes(const struct leati_canonical *canonical)
{
    uint64_t bytes = canonical->payload_bytes / PARTS;

    return bytes < SMALL_BYTES ? SMALL_BYTES : bytes > PART_BYTES ? PART_BYTES : bytes;
}

/* Returns the size of the pieces into which size is cut. It is a multiple of step and, if step allows, at most
 * `most`. The pieces are about equal. */
static uint64_t even(uint64_t size, uint64_t most, uint64_t step)
{
    uint64_t pieces, piece;

    leati_assert(step);
    if (size <= most)
        return size;
    most = most > step ? most / step * step : step;
    pieces = (size + most - 1) / most;
    piece = (size + pieces - 1) / pieces;
    return (piece + step - 1) / step * step;
}

/* Returns true if one thread must copy the whole list. If a scatter has two equal indices, the destination must
 * get one of the two elements and not a mixture of both. With several threads this is certain only if each store
 * writes whole elements. */
static bool has_list_for_one_thread(const struct leati_canonical *canonical)
{
    return canonical->index_on_dst && canonical->dims > 1 &&
           (canonical->unit_bytes % canonical->element_bytes != 0 || canonical->element_bytes > 8);
}

/* Sets the part sizes of the loops first to end - 1, so that a part has at most `most` units in these loops. Makes
 * the part sizes of inner loops as large as possible. The size in loop first is a multiple of step. Returns the
 * number of units that a part has in these loops. */
static uint64_t cut(const struct leati_canonical *canonical, struct leati_host_layout *host, unsigned first,
                    unsigned end, uint64_t most, uint64_t step)
{
    uint64_t units = 1;

    for (unsigned i = first; i < end; i++) {
        uint64_t size = canonical->size[host->order[i]];
        bool whole = host->list_is_one_part && (int)host->order[i] == canonical->index_dim;

        host->part_size[i] = whole ? size : even(size, units < most ? most / units : 1, i == first ? step : 1);
        leati_assert(host->part_size[i]);
        host->part_count[i] = (size + host->part_size[i] - 1) / host->part_size[i];
        host->parts *= host->part_count[i];
        units *= host->part_size[i];
    }
    return units;
}

/* Decides the order of the loops for leati_nest_runs(): the run, the next dimension on the destination, the next
 * dimension on the source, and the others. */
static void order_runs(const struct leati_canonical *canonical, struct leati_host_layout *host)
{
    const bool taken[LEATI_CANONICAL_MAX_DIMS] = {true};
    int dst_dim = canonical->dims > 1 && canonical->index_dim != 1 ? 1 : -1,
        src_dim = source_goes_on(canonical, taken);
    unsigned count = 0;

    src_dim = src_dim == dst_dim ? -1 : src_dim;
    host->order[count++] = 0;
    if (dst_dim > 0)
        host->order[count++] = (unsigned)dst_dim;
    if (src_dim > 0)
        host->order[count++] = (unsigned)src_dim;
    for (int i = 1; i < (int)canonical->dims; i++)
        if (i != dst_dim && i != src_dim)
            host->order[count++] = (unsigned)i;
    leati_assert(count == canonical->dims);
    host->dst_dims = dst_dim > 0;
    host->src_dims = src_dim > 0;
}

static void cut_runs(const struct leati_canonical *canonical, struct leati_host_layout *host)
{
    unsigned after = 1 + host->dst_dims + host->src_dims;
    uint64_t room = part_bytes(canonical) / canonical->unit_bytes, units, along = 1;

    units = cut(canonical, host, 0, 1, room, 64 / canonical->unit_bytes);
    room /= units;
    /* A part has few runs that are neighbours on the source, and many that are neighbours on the destination. */
    if (host->src_dims)
        along = cut(canonical, host, after - 1, after, room < 8 ? room : 8 + room / 64, 1);
    room = room > along ? room / along : 1;
    if (host->dst_dims)
        room /= cut(canonical, host, 1, 2, room, 1);
    cut(canonical, host, after, canonical->dims, room ? room : 1, 1);
}

/* Returns the maximum number of units of a source row in a part. */
static uint64_t most_src_units(const struct leati_canonical *canonical, const struct leati_host_layout *host)
{
    uint64_t most = part_bytes(canonical) / canonical->unit_bytes / STAGED_TILES;
    bool direct = !leati_wide_tile(canonical->unit_bytes);

    most /= leati_tile_side(canonical->unit_bytes);
    for (unsigned i = host->dst_dims; i < host->dst_dims + host->src_dims; i++)
        direct &= canonical->dst_stride[host->order[i]] % LEATI_LINE_BYTES == 0;
    if (direct)
        return LEATI_TILES_SRC_MOST;
    return host->streaming && most < LEATI_TILES_STAGED_MOST ? most : LEATI_TILES_STAGED_MOST;
}

static void cut_tiles(const struct leati_canonical *canonical, struct leati_host_layout *host)
{
    uint64_t line = leati_tile_side(canonical->unit_bytes), room = part_bytes(canonical) / canonical->unit_bytes;
    unsigned both = host->dst_dims + host->src_dims;
    uint64_t src_units = cut(canonical, host, host->dst_dims, both, most_src_units(canonical, host), line),
             dst_units;

    leati_assert(src_units && line);
    dst_units = room / src_units > LEATI_TILES_DST_MOST ? LEATI_TILES_DST_MOST : room / src_units;
    dst_units = cut(canonical, host, 0, host->dst_dims, dst_units, 2 * line);
    cut(canonical, host, both, canonical->dims, room / (dst_units * src_units), 1);
}

/* Uses tiles in which each unit is the whole dimension 0, if this is a short run on both sides. Returns false if
 * such tiles cannot be used. */
static bool use_wide_tiles(const struct leati_canonical *canonical, struct leati_host_layout *host)
{
    struct leati_canonical wide = *canonical;
    struct host_run dst, src;

    if (canonical->dims < 3 || !leati_wide_tile(canonical->unit_bytes * canonical->size[0]))
        return false;
    wide.unit_bytes = (unsigned)(canonical->unit_bytes * canonical->size[0]);
    wide.dims--;
    wide.index_dim -= canonical->index_dim > 0;
    for (unsigned i = 0; i < wide.dims; i++) {
        wide.size[i] = canonical->size[i + 1];
        wide.dst_stride[i] = canonical->dst_stride[i + 1];
        wide.src_stride[i] = canonical->src_stride[i + 1];
    }
    if (!find_runs(&wide, SHORT_BYTES, &dst, &src))
        return false;
    host->kernel = LEATI_HOST_TILES;
    host->unit_bytes = wide.unit_bytes;
    host->dims = wide.dims;
    put_in_order(&wide, &dst, &src, host);
    cut_tiles(&wide, host);
    leati_assert(host->dims + 1 == canonical->dims);
    for (unsigned i = 0; i < host->dims; i++)
        host->order[i]++;
    return true;
}

/* Decides the order of the loops for single elements: dimension 0, then the dimension with the smallest stride on
 * the source, then the others. */
static void order_elements(const struct leati_canonical *canonical, struct leati_host_layout *host)
{
    const bool taken[LEATI_CANONICAL_MAX_DIMS] = {true};
    struct host_run first = {0}, second = {0};
    int next = canonical->dims > 1 ? source_goes_on(canonical, taken) : -1;

    first.dims = canonical->dims > 0;
    if (next > 0 && llabs(canonical->src_stride[next]) < llabs(canonical->src_stride[0]))
        second = (struct host_run){.dims = 1, .dim = {(unsigned)next}};
    put_in_order(canonical, &first, &second, host);
}

/* Sets the part sizes for single elements. If the two sides are contiguous in different dimensions, parts are
 * small in both dimensions, so that cache lines stay cached until all their bytes are used. */
static void cut_elements(const struct leati_canonical *canonical, struct leati_host_layout *host)
{
    uint64_t room = part_bytes(canonical) / canonical->unit_bytes, units;

    units = cut(canonical, host, 0, host->dst_dims,
                canonical->index_dim == 0 ? LISTED_ROW
                : host->src_dims          ? ELEMENTS_ROW
                                          : room,
                1);
    cut(canonical, host, host->dst_dims, canonical->dims, room / units, 1);
}

/* Sets the part sizes for a shuffle. Parts consist of whole groups. */
static void cut_shuffle(const struct leati_canonical *canonical, struct leati_host_layout *host)
{
    uint64_t room = part_bytes(canonical) / canonical->unit_bytes,
             group = cut(canonical, host, 0, host->dst_dims, room, 1);

    cut(canonical, host, host->dst_dims, canonical->dims, room / group, LEATI_LINE_BYTES);
}

/* Applies LEAT_LAYOUT_KERNEL, which switches optimizations off, so that one can measure the gain of each. Returns
 * false if it is "naive", which asks for single elements. */
static bool use_blocks(struct leati_host_layout *host)
{
    const char *chosen = leati_option(LEATI_OPTION_LAYOUT_KERNEL);
    bool naive = chosen && !strcmp(chosen, "naive");
    bool blocked = chosen && !strcmp(chosen, "blocked");

    if (naive || blocked)
        host->level = LEATI_HOST_PLAIN;
    if (naive || blocked || (chosen && !strcmp(chosen, "vectors")))
        host->streaming = false;
    return !naive;
}

void leati_host_layout_make(const struct leati_canonical *canonical, leat_layout_class class_of_plan,
                            struct leati_host_layout *host)
{
    struct host_run dst, src;

    (void)class_of_plan;
    *host = (struct leati_host_layout){.parts = 1,
                                       .kernel = LEATI_HOST_ELEMENTS,
                                       .level = leati_host_level(),
                                       .unit_bytes = canonical->unit_bytes,
                                       .dims = canonical->dims,
                                       .list_is_one_part = has_list_for_one_thread(canonical)};
    if (canonical->empty) {
        host->parts = 0;
        return;
    }
    if (canonical->src_unit_bytes) {
        (void)use_blocks(host);
        leati_host_convert_make(canonical, host);
        return;
    }
    host->streaming = canonical->payload_bytes >= STREAMING_BYTES;
    if (!use_blocks(host)) {
        order_elements(canonical, host);
        cut_elements(canonical, host);
        return;
    }
    if (canonical->dims && canonical->index_dim != 0 &&
        canonical->dst_stride[0] == (int64_t)canonical->unit_bytes &&
        canonical->src_stride[0] == canonical->dst_stride[0]) {
        if (use_wide_tiles(canonical, host))
            return;
        host->kernel = LEATI_HOST_RUNS;
        order_runs(canonical, host);
        cut_runs(canonical, host);
        return;
    } else if (find_runs(canonical, SHORT_BYTES, &dst, &src)) {
        host->kernel = LEATI_HOST_TILES;
        put_in_order(canonical, &dst, &src, host);
        cut_tiles(canonical, host);
        return;
    } else if (canonical->payload_bytes >= SHUFFLE_BYTES && find_shuffle(canonical, &dst, &src)) {
        host->kernel = LEATI_HOST_SHUFFLE;
        put_in_order(canonical, &dst, &src, host);
        cut_shuffle(canonical, host);
        return;
    } else if (find_runs(canonical, SHORTEST_BYTES, &dst, &src)) {
        host->kernel = LEATI_HOST_TILES;
        put_in_order(canonical, &dst, &src, host);
        cut_tiles(canonical, host);
        return;
    }
    if (canonical->dims && canonical->index_dim != 0 &&
        canonical->dst_stride[0] == (int64_t)canonical->unit_bytes && !canonical->src_stride[0])
        host->kernel = LEATI_HOST_FILL;
    order_elements(canonical, host);
    cut_elements(canonical, host);
}

/* ---- running ---- */

/* One part of a copy. Its loop nest does not contain the dimension with the list. */
struct host_piece {
    const struct leati_canonical *canonical;
    struct leati_loop_nest nest;
    char *dst;
    const char *src;

    uint64_t first_index, indices;
    bool counts; /* this part counts wrong indices; set for only one of the parts that read the same indices */
};

static void find_piece(const struct leati_canonical *canonical, const struct leati_host_layout *host,
                       uint64_t part, struct host_piece *piece)
{
    struct leati_loop_nest *nest = &piece->nest;

    leati_assert(part < host->parts && host->dims <= LEATI_CANONICAL_MAX_DIMS);
    piece->counts = true;
    nest->dims = 0;
    for (unsigned k = 0; k < host->dims; k++) {
        unsigned i = host->order[k];
        uint64_t start = part % host->part_count[k] * host->part_size[k], left = canonical->size[i] - start;
        uint64_t size = left < host->part_size[k] ? left : host->part_size[k];

        leati_assert(size);
        part /= host->part_count[k];
        if (k == 0) {
            nest->behind = start && host->dst_dims == 1;
            nest->ahead = host->dst_dims == 1 ? left - size : 0;
        }
        if ((int)i == canonical->index_dim) {
            piece->first_index = start;
            piece->indices = size;
            /* On the side with the list, the index gives the position. On the other side, the part starts at the
             * position of its first list entry. */
            if (canonical->index_on_dst)
                piece->src += (int64_t)start * canonical->src_stride[i];
            else
                piece->dst += (int64_t)start * canonical->dst_stride[i];
            continue;
        }
        piece->counts &= !start;
        piece->dst += (int64_t)start * canonical->dst_stride[i];
        piece->src += (int64_t)start * canonical->src_stride[i];
        nest->size[nest->dims] = size;
        nest->dst_stride[nest->dims] = canonical->dst_stride[i];
        nest->src_stride[nest->dims++] = canonical->src_stride[i];
    }
    if (!nest->dims) {
        nest->dims = 1;
        nest->size[0] = 1;
        nest->dst_stride[0] = nest->src_stride[0] = host->unit_bytes;
    }
}

static leati_nest_kernel kernel_of(enum leati_host_kernel kernel)
{
    static const leati_nest_kernel kernels[] = {leati_nest_runs, leati_nest_elements, leati_nest_tiles,
                                                leati_nest_shuffle, leati_nest_fill};

    leati_assert((unsigned)kernel < sizeof kernels / sizeof kernels[0]);
    return kernels[kernel];
}

static void run_listed(const struct host_piece *piece, leati_nest_kernel kernel,
                       const struct leati_indices *indices)
{
    const struct leati_canonical *canonical = piece->canonical;
    const struct leati_listed listed = {.list = indices->list,
                                        .index_bytes = canonical->index_bytes,
                                        .bound = canonical->index_bound,
                                        .first = piece->first_index,
                                        .count = piece->indices,
                                        .on_dst = canonical->index_on_dst,
                                        .dst_stride = canonical->dst_stride[canonical->index_dim],
                                        .src_stride = canonical->src_stride[canonical->index_dim]};
    uint64_t wrong = leati_nest_listed(&piece->nest, &listed, kernel, piece->dst, piece->src);

    /* Relaxed: the program reads the counter only after it has waited for the stream. */
    if (wrong && piece->counts && indices->wrong)
        atomic_fetch_add_explicit(indices->wrong, wrong, memory_order_relaxed);
}

void leati_host_layout_run(const struct leati_canonical *canonical, const struct leati_host_layout *host,
                           void *dst, const void *src, const struct leati_indices *indices, uint64_t first,
                           uint64_t end)
{
    struct host_piece piece = {.canonical = canonical,
                               .nest = {.unit_bytes = host->unit_bytes,
                                        .level = host->level,
                                        .streaming = host->streaming,
                                        .dst_dims = host->dst_dims,
                                        .src_dims = host->src_dims}};

    leati_nest_kernel kernel = kernel_of(host->kernel);

    leati_assert(first <= end && end <= host->parts && (canonical->index_dim < 0 || (indices && indices->list)));
    for (uint64_t part = first; part < end; part++) {
        piece.dst = (char *)dst + canonical->dst_offset;
        piece.src = (const char *)src + canonical->src_offset;
        find_piece(canonical, host, part, &piece);
        if (canonical->index_dim < 0)
            kernel(&piece.nest, piece.dst, piece.src);
        else
            run_listed(&piece, kernel, indices);
    }
    leati_stream_fence();
}

/* ---- the text of plans ---- */

void leati_host_layout_text(const struct leati_host_layout *host, char *text, size_t text_bytes)
{
    static const char *const names[] = {"runs", "elements", "tiles", "shuffle", "fill", "convert"};
    static const char *const levels[] = {"plain C", "AVX2", "AVX-512", "AVX-512 with VBMI"};

    snprintf(text, text_bytes, "%s, %s, %s stores, %llu parts", names[host->kernel], levels[host->level],
             host->streaming ? "streaming" : "cached", (unsigned long long)host->parts);
}
