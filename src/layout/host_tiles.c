/*
 * host_tiles.c - transposes, tile by tile, loop nests with different dense dimensions on the two sides.
 *
 * A tile reads whole cache lines of the source and writes whole lines of the destination. So each line is read
 * once and written once, even if many rows map to the same cache set. A table of offsets gives the address of each
 * row, so several short dimensions together can be the rows. The source is read along its rows, which the hardware
 * prefetcher recognises. On the destination two neighbouring lines are written at a time.
 *
 * In two cases tiles go through a buffer in the L2 cache: if rows of the destination do not begin at lines, and if
 * units are so small that a pair of tiles has more rows than the prefetcher follows. The buffer holds a few bytes
 * of many destination rows. From the buffer each row is written in whole lines. The incomplete line at the end of
 * these bytes stays in the buffer until the next units of the row arrive.
 */
#include "layout/host_kernels.h"
#include "base/assert.h"

#include <string.h>

#define PAIR_SIDE 16        /* streaming tiles with more rows than this use the buffer */
#define STAGE_ROW_BYTES 256 /* bytes of each destination row in the buffer, unless a tile needs more */
#define ONE_RUN_BYTES 512   /* contiguous rows of at most this length are written from the buffer as one run */
#define STAGE_BYTES ((size_t)192 << 10)
#define FETCH_ROWS 32 /* for tiles with more rows than this, source lines are prefetched explicitly */
#define FETCH_TILES 2 /* number of tiles between the tile that is copied and the tile that is prefetched */

struct tiles_job {
    const struct leati_tiles *tiles;
    unsigned unit; /* size of a unit in bytes */
    unsigned side; /* number of rows of a tile */
    unsigned log;  /* binary logarithm of unit, if unit is a power of 2 */
    bool wide;     /* units are wide (leati_wide_tile()), so only the function part is used */
    leati_part_tile part;
    bool streaming;
    bool alike; /* all rows of the destination begin at the same offset within a cache line */
    unsigned dst_units, src_units;
    bool behind;                                               /* as in struct leati_loop_nest */
    unsigned ahead; /* as in struct leati_loop_nest, but at most side - 1 */
    int64_t src_rows[LEATI_TILES_DST_MOST + LEATI_LINE_BYTES]; /* for each unit of a destination row, the offset
                                                                * of its source row */
    int64_t dst_rows[LEATI_TILES_SRC_MOST];
};

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

const struct leati_tiles *leati_tiles_of(enum leati_host_level level)
{
    enum leati_host_level best = leati_host_level();

    level = level < best ? level : best;
    if (level >= LEATI_HOST_AVX512)
        return leati_tiles_avx512();
    return level == LEATI_HOST_AVX2 ? leati_tiles_avx2() : leati_tiles_plain();
}

unsigned leati_tile_side(unsigned unit_bytes)
{
    unsigned align = least(unit_bytes & -unit_bytes, LEATI_CANONICAL_MAX_UNIT_BYTES);
    unsigned step = LEATI_LINE_BYTES / align, side = step;

    leati_assert(unit_bytes);
    while ((side - 1) * unit_bytes + align < LEATI_LINE_BYTES)
        side += step;
    return side;
}

/* Computes the offsets of all positions in some dimensions, in an order in which the first dimension is the
 * fastest. Returns the number of positions. */
static unsigned offsets(const uint64_t *size, const int64_t *stride, unsigned dims, int64_t *rows)
{
    unsigned count = 1;

    rows[0] = 0;
    for (unsigned i = 0; i < dims; i++) {
        for (uint64_t j = 1; j < size[i]; j++)
            for (unsigned k = 0; k < count; k++)
                rows[j * count + k] = rows[k] + (int64_t)j * stride[i];
        count *= (unsigned)size[i];
    }
    return count;
}

/* Copies the units at to at + count - 1 of each destination row. count is at most a tile's side. */
static void part_panel(const struct tiles_job *job, char *dst, const char *src, unsigned at, unsigned count)
{
    for (unsigned j = 0; j < job->src_units; j += job->side)
        job->part(dst + (size_t)at * job->unit, job->dst_rows + j, least(job->side, job->src_units - j),
                  src + (size_t)j * job->unit, job->src_rows + at, count);
}

/* Copies one column of whole tiles, from unit at of each destination row on, and the rest of the source rows that
 * fills no whole tile. rows: the number of source rows of a tile. */
static void panel(const struct tiles_job *job, leati_tile tile, char *dst, const char *src, unsigned at,
                  unsigned rows)
{
    char *to = dst + (size_t)at * job->unit;
    unsigned j = 0;

    for (; j + job->side <= job->src_units; j += job->side)
        tile(to, job->dst_rows + j, src + (size_t)j * job->unit, job->src_rows + at);
    if (j == job->src_units)
        return;
    for (unsigned i = 0; i < rows; i += job->side)
        job->part(to + (size_t)i * job->unit, job->dst_rows + j, job->src_units - j, src + (size_t)j * job->unit,
                  job->src_rows + at + i, job->side);
}

/* Copies without the buffer, directly to the destination. */
static void direct(const struct tiles_job *job, char *dst, const char *src)
{
    unsigned at = 0, side = job->side, end = job->dst_units;

    if (job->streaming) {
        at = least((unsigned)(-(uintptr_t)dst % LEATI_LINE_BYTES) / job->unit, end);
        if (at)
            part_panel(job, dst, src, 0, at);
        for (; at + 2 * side <= end; at += 2 * side)
            panel(job, job->tiles->streaming_pair[job->log], dst, src, at, 2 * side);
    }
    for (; at + side <= end && !job->wide; at += side)
        panel(job, job->streaming ? job->tiles->streaming[job->log] : job->tiles->cached[job->log], dst, src, at,
              side);
    for (; at < end; at += side)
        part_panel(job, dst, src, at, least(side, end - at));
}

/* ---- through the buffer ---- */

/* The buffer. It holds rows of the destination, or the part of each row that is being copied. With parts of rows,
 * the first line of each row in the buffer holds the incomplete line from the end of the previous part. */
struct stage {
    size_t pitch;
    _Alignas(LEATI_LINE_BYTES) char bytes[STAGE_BYTES];
};

static void fetch(const struct tiles_job *job, const char *src, const int64_t *rows)
{
    for (unsigned i = 0; i < job->side; i++)
        __builtin_prefetch(src + rows[i] + (size_t)FETCH_TILES * LEATI_LINE_BYTES);
}

/* Copies the units at to at + count - 1 of the destination rows first to end - 1 into the buffer. The units begin
 * `behind` bytes after the start of each row of the buffer. */
static void fill_stage(const struct tiles_job *job, struct stage *stage, size_t behind, const char *src,
                       unsigned at, unsigned count, unsigned first, unsigned end)
{
    int64_t rows[LEATI_LINE_BYTES];

    for (unsigned i = 0; i < job->side; i++)
        rows[i] = (int64_t)(i * stage->pitch);
    for (unsigned i = 0; i < count; i += job->side) {
        const int64_t *src_rows = job->src_rows + at + i;
        unsigned wide = least(job->side, count - i);

        for (unsigned j = first; j < end; j += job->side) {
            char *to = stage->bytes + behind + (j - first) * stage->pitch + (size_t)i * job->unit;
            const char *from = src + (size_t)j * job->unit;
            unsigned high = least(job->side, end - j);

            if (wide < job->side || high < job->side || job->wide) {
                job->part(to, rows, high, from, src_rows, wide);
                continue;
            }
            if (job->side > FETCH_ROWS)
                fetch(job, from, src_rows);
            job->tiles->cached[job->log](to, rows, from, src_rows);
        }
    }
}

/* Copies through the buffer if the rows of the destination are contiguous and short. Fills the buffer with as many
 * whole rows as it holds, writes them as one run, and repeats this. */
static void staged_run(const struct tiles_job *job, struct stage *stage, char *dst, const char *src)
{
    unsigned step;

    stage->pitch = (size_t)job->dst_units * job->unit;
    leati_assert(stage->pitch && stage->pitch <= STAGE_BYTES);
    step = (unsigned)(STAGE_BYTES / stage->pitch) / job->side * job->side;
    for (unsigned first = 0; first < job->src_units; first += step) {
        unsigned end = least(first + step, job->src_units);

        fill_stage(job, stage, 0, src, 0, job->dst_units, first, end);
        job->tiles->stream(dst + job->dst_rows[first], stage->bytes, (end - first) * stage->pitch);
    }
}

/* Writes from the buffer all lines of a row that end within the row's bytes at to made - 1. At the end of the row
 * also writes the incomplete line. staged: the address in the buffer of the row's byte number at. */
static void write_piece(const struct tiles_job *job, char *row, const char *staged, size_t at, size_t made)
{
    size_t bytes = (size_t)job->dst_units * job->unit, all = bytes + (size_t)job->ahead * job->unit;
    /* before: number of bytes of the row before its first whole line. left: number of bytes of the incomplete line
     * at the end of a part. */
    size_t before = -(uintptr_t)row % LEATI_LINE_BYTES, left = (uintptr_t)row % LEATI_LINE_BYTES;
    size_t from = at ? at - left : job->behind ? before : 0, to = made - left;

    if (made == all) {
        to = bytes + -(uintptr_t)(row + bytes) % LEATI_LINE_BYTES;
        to = to < all ? to : all;
    }
    if (from < to)
        job->tiles->stream(row + from, staged - at + from, to - from);
}

/* Copies through the buffer, one part of each row after the other. */
static void staged_rows(const struct tiles_job *job, struct stage *stage, char *dst, const char *src)
{
    unsigned all = job->dst_units + job->ahead, tile_bytes = job->side * job->unit;
    unsigned tiles = least((all + job->side - 1) / job->side, (STAGE_ROW_BYTES + tile_bytes - 1) / tile_bytes);
    unsigned most = tiles * job->side, step;

    stage->pitch = LEATI_LINE_BYTES + (size_t)tiles * tile_bytes;
    leati_assert(stage->pitch && stage->pitch <= STAGE_BYTES);
    step = (unsigned)(STAGE_BYTES / stage->pitch) / job->side * job->side;
    for (unsigned first = 0; first < job->src_units; first += step) {
        unsigned end = least(first + step, job->src_units);

        for (unsigned at = 0; at < all; at += most) {
            unsigned made = least(at + most, all);

            fill_stage(job, stage, LEATI_LINE_BYTES, src, at, made - at, first, end);
            for (unsigned j = first; j < end; j++) {
                char *staged = stage->bytes + (j - first) * stage->pitch;

                write_piece(job, dst + job->dst_rows[j], staged + LEATI_LINE_BYTES, (size_t)at * job->unit,
                            (size_t)made * job->unit);
                memcpy(staged, staged + stage->pitch - LEATI_LINE_BYTES, LEATI_LINE_BYTES);
            }
        }
    }
}

static void staged(const struct tiles_job *job, char *dst, const char *src)
{
    size_t row_bytes = (size_t)job->dst_units * job->unit;
    bool one_run = row_bytes <= ONE_RUN_BYTES && !job->behind && !job->ahead;
    struct stage stage;

    for (unsigned j = 1; j < job->src_units && one_run; j++)
        one_run = job->dst_rows[j] == job->dst_rows[j - 1] + (int64_t)row_bytes;
    if (one_run)
        staged_run(job, &stage, dst, src);
    else
        staged_rows(job, &stage, dst, src);
}

static void step(const void *context, char *dst, const char *src)
{
    const struct tiles_job *job = context;

    if (job->streaming && (!job->alike || job->side > PAIR_SIDE || job->wide))
        staged(job, dst, src);
    else
        direct(job, dst, src);
}

void leati_nest_tiles(const struct leati_loop_nest *nest, char *dst, const char *src)
{
    unsigned dst_dims = nest->dst_dims, both = dst_dims + nest->src_dims;
    struct tiles_job job;

    leati_assert(dst_dims && nest->src_dims && both <= nest->dims);
    job.tiles = leati_tiles_of(nest->level);
    job.unit = nest->unit_bytes;
    job.side = leati_tile_side(nest->unit_bytes);
    job.log = (unsigned)__builtin_ctz(nest->unit_bytes);
    job.part = leati_wide_tile(nest->unit_bytes);
    job.wide = job.part;
    if (!job.wide)
        job.part = job.tiles->part[job.log];
    job.streaming = nest->streaming;
    job.dst_units = offsets(nest->size, nest->src_stride, dst_dims, job.src_rows);
    job.src_units = offsets(nest->size + dst_dims, nest->dst_stride + dst_dims, nest->src_dims, job.dst_rows);
    leati_assert(job.dst_units <= LEATI_TILES_DST_MOST && job.src_units <= LEATI_TILES_SRC_MOST);
    leati_assert(job.part && job.side);
    job.behind = nest->behind;
    job.ahead = (unsigned)(nest->ahead < job.side ? nest->ahead : job.side - 1);
    for (unsigned i = 0; i < job.ahead; i++)
        job.src_rows[job.dst_units + i] = (int64_t)(job.dst_units + i) * nest->src_stride[0];
    job.alike = true;
    for (unsigned i = 0; i < job.src_units; i++)
        /* offsets() filled the rows. NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
        job.alike &= job.dst_rows[i] % LEATI_LINE_BYTES == 0;
    leati_nest_walk(nest, both, step, &job, dst, src);
}
