/*
 * host_tiles.c - transposes, tile by tile, loop nests with different dense dimensions on the two sides.
 *
 * A tile reads whole cache lines of the source and writes whole lines of the destination. So each line is read
 * once and written once, even if many rows map to the same cache set. A table of offsets gives the address of each
 * row, so several short dimensions together can be the rows. The source is read along its rows, which the hardware
 * prefetcher recognises if the rows are long and at most about 32. So tiles that have at most LEATI_PAIR_SIDE rows
 * are copied in pairs, which write two neighbouring lines at a time, and larger ones alone. For larger ones the
 * next source rows are prefetched, a few rows at a time.
 *
 * If rows of the destination do not begin at lines, each line contains bytes of two tiles that follow one another
 * on the destination. Then the last bytes of each row wait for the next tile in an array of one line for each row.
 * AVX-512 joins the lines in registers. Otherwise, and at both ends of the rows, tiles go through a buffer, from
 * which whole lines are written.
 *
 * If rows of the source do not begin at lines either, two tiles that follow one another along the source read
 * parts of the same lines. If the distance of the rows is close to a multiple of 4 KiB, as with 8193 bytes, these
 * lines are in few sets of the first-level cache, which does not keep them until the second tile. So if a tile has
 * more than LEATI_PAIR_SIDE rows, a run of each row is first copied into a buffer without such distances. From
 * there tiles are copied in pairs.
 */
#include "layout/host_kernels.h"
#include "base/assert.h"

#include <string.h>

#define STAGE_ROW_BYTES 128    /* bytes of each destination row in the buffer, unless a tile needs more */
#define ONE_RUN_BYTES 512      /* contiguous rows of at most this length are written from the buffer as one run */
#define ONE_RUN_ODD_BYTES 1024 /* the same for units of an odd number of bytes, whose tiles are large */
#define STAGE_BYTES ((size_t)64 << 10)
#define RUN_BYTES ((size_t)192 << 10) /* bytes of the buffer with whole rows that are written as one run */
#define AHEAD_ROWS 8                  /* source rows that are prefetched at a time, AHEAD_BYTES of each in turn */
#define AHEAD_BYTES 128
#define FETCHED_BYTES 512    /* bytes of each source row that are fetched at a time */
#define CACHE_WAY_BYTES 4096 /* addresses with this distance are in the same set of the first-level cache, */
#define CACHE_WAYS 8         /* which keeps at least this many lines */

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
    bool behind;    /* as in struct leati_loop_nest */
    unsigned ahead; /* as in struct leati_loop_nest, but at most side - 1 */
    int64_t src_rows[LEATI_TILES_DST_MOST + LEATI_LINE_BYTES]; /* for each unit of a destination row, the offset
                                                                * of its source row */
    int64_t dst_rows[LEATI_TILES_SRC_MOST];
};

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
    unsigned align = leati_least(unit_bytes & -unit_bytes, LEATI_CANONICAL_MAX_UNIT_BYTES);
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

/* Prefetches the source rows from number at on, at most count of them, which the next column of tiles reads. Call
 * it for each tile of the current column: the call for unit j prefetches that tile's share of the rows. It must be
 * inlined: gcc removes calls of a function that only prefetches. */
static inline __attribute__((always_inline)) void prefetch(const struct tiles_job *job, const char *src,
                                                           unsigned at, unsigned count, unsigned j)
{
    unsigned end = job->dst_units + job->ahead, rows = at < end ? leati_least(count, end - at) / AHEAD_ROWS : 0;
    unsigned steps = (job->src_units * job->unit + AHEAD_BYTES - 1) / AHEAD_BYTES;
    unsigned tiles = (job->src_units + job->side - 1) / job->side, tile = j / job->side, all = rows * steps;

    if (!job->streaming || job->side <= LEATI_PAIR_SIDE)
        return;
    for (unsigned i = all * tile / tiles; i < all * (tile + 1) / tiles; i++) {
        const int64_t *row = job->src_rows + at + i / steps * AHEAD_ROWS;
        const char *from = src + (size_t)(i % steps) * AHEAD_BYTES;

        for (unsigned k = 0; k < AHEAD_ROWS; k++) {
            __builtin_prefetch(from + row[k], 0, 2);
            __builtin_prefetch(from + row[k] + LEATI_LINE_BYTES, 0, 2);
        }
    }
}

/* Copies the units at to at + count - 1 of each destination row. count is at most a tile's side. */
static void part_panel(const struct tiles_job *job, char *dst, const char *src, unsigned at, unsigned count)
{
    for (unsigned j = 0; j < job->src_units; j += job->side)
        job->part(dst + (size_t)at * job->unit, job->dst_rows + j, leati_least(job->side, job->src_units - j),
                  src + (size_t)j * job->unit, job->src_rows + at, count);
}

/* Copies one column of whole tiles, from unit at of each destination row on, and the rest of the source rows that
 * fills no whole tile. rows: the number of source rows of a tile. */
static void panel(const struct tiles_job *job, leati_tile tile, char *dst, const char *src, unsigned at,
                  unsigned rows)
{
    char *to = dst + (size_t)at * job->unit;
    unsigned j = 0;

    for (; j + job->side <= job->src_units; j += job->side) {
        prefetch(job, src, at + rows, rows, j);
        tile(to, job->dst_rows + j, src + (size_t)j * job->unit, job->src_rows + at);
    }
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
        at = leati_least((unsigned)(-(uintptr_t)dst % LEATI_LINE_BYTES) / job->unit, end);
        if (at)
            part_panel(job, dst, src, 0, at);
        for (; at + 2 * side <= end && side <= LEATI_PAIR_SIDE; at += 2 * side)
            panel(job, job->tiles->streaming_pair[job->log], dst, src, at, 2 * side);
    }
    for (; at + side <= end && !job->wide; at += side)
        panel(job, job->streaming ? job->tiles->streaming[job->log] : job->tiles->cached[job->log], dst, src, at,
              side);
    for (; at < end; at += side)
        part_panel(job, dst, src, at, leati_least(side, end - at));
}

/* ---- through the buffer ---- */

/* Copies count units of each of high destination rows, at most a tile's side, into a buffer with rows at these
 * offsets. */
static void fill_column(const struct tiles_job *job, char *buffer, const int64_t *rows, unsigned high,
                        const char *src, const int64_t *src_rows, unsigned count)
{
    for (unsigned i = 0; i < count; i += job->side) {
        char *to = buffer + (size_t)i * job->unit;
        unsigned wide = leati_least(job->side, count - i);

        if (wide < job->side || high < job->side || job->wide)
            job->part(to, rows, high, src, src_rows + i, wide);
        else
            job->tiles->cached[job->log](to, rows, src, src_rows + i);
    }
}

/* Computes the offsets of a tile's rows in a buffer. */
static void buffer_rows(const struct tiles_job *job, size_t pitch, int64_t *rows)
{
    for (unsigned i = 0; i < job->side; i++)
        rows[i] = (int64_t)(i * pitch);
}

/* Copies through the buffer if the rows of the destination are contiguous and short. Fills the buffer with as many
 * whole rows as it holds, writes them as one run, and repeats this. */
static void staged_run(const struct tiles_job *job, char *dst, const char *src)
{
    size_t pitch = (size_t)job->dst_units * job->unit;
    _Alignas(LEATI_LINE_BYTES) char buffer[RUN_BYTES];
    int64_t rows[LEATI_LINE_BYTES];
    unsigned step;

    leati_assert(pitch && pitch * job->side <= RUN_BYTES);
    buffer_rows(job, pitch, rows);
    step = (unsigned)(RUN_BYTES / pitch) / job->side * job->side;
    for (unsigned first = 0; first < job->src_units; first += step) {
        unsigned end = leati_least(first + step, job->src_units);

        for (unsigned j = first; j < end; j += job->side)
            fill_column(job, buffer + (j - first) * pitch, rows, leati_least(job->side, end - j),
                        src + (size_t)j * job->unit, job->src_rows, job->dst_units);
        job->tiles->stream(dst + job->dst_rows[first], buffer, (end - first) * pitch);
    }
}

/* Memory for parts of destination rows: `bytes` has as many rows as a tile, and the first line of each of them is
 * for the incomplete line from the end of the previous part. `left` keeps these lines for all rows, if there are
 * any. */
struct stage {
    size_t pitch;
    bool has_left;
    int64_t rows[LEATI_LINE_BYTES];
    _Alignas(LEATI_LINE_BYTES) char bytes[STAGE_BYTES];
    _Alignas(LEATI_LINE_BYTES) char left[LEATI_TILES_STAGED_MOST][LEATI_LINE_BYTES];
};

/* A run of bytes of each source row of a pair of tiles, next to each other. */
struct fetched {
    int64_t rows[2 * LEATI_LINE_BYTES];
    _Alignas(LEATI_LINE_BYTES) char bytes[2 * LEATI_LINE_BYTES][FETCHED_BYTES + LEATI_LINE_BYTES];
};

/* Copies this many bytes of each of count source rows. */
static void fetch(struct fetched *fetched, const char *src, const int64_t *rows, unsigned count, size_t bytes)
{
    for (unsigned i = 0; i < count; i++)
        memcpy(fetched->bytes[i], src + rows[i], bytes);
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

/* Copies the units at to made - 1 of the destination rows first to first + high - 1 through the buffer. */
static void staged_column(const struct tiles_job *job, struct stage *stage, char *dst, const char *src,
                          const int64_t *src_rows, unsigned at, unsigned made, unsigned first, unsigned high)
{
    fill_column(job, stage->bytes + LEATI_LINE_BYTES, stage->rows, high, src, src_rows, made - at);
    for (unsigned i = 0; i < high; i++) {
        char *staged = stage->bytes + i * stage->pitch;

        if (at && stage->has_left)
            memcpy(staged, stage->left[first + i], LEATI_LINE_BYTES);
        write_piece(job, dst + job->dst_rows[first + i], staged + LEATI_LINE_BYTES, (size_t)at * job->unit,
                    (size_t)made * job->unit);
        if (stage->has_left)
            memcpy(stage->left[first + i], staged + stage->pitch - LEATI_LINE_BYTES, LEATI_LINE_BYTES);
    }
}

/* Returns true if too many of these source rows begin in one set of the first-level cache, and some do not begin
 * at a line. The next tile needs the rest of the lines that a tile ends in, but by then they have left the cache.
 */
static bool crowded(const char *src, const int64_t *rows, unsigned count)
{
    unsigned sharing = 0, unaligned = 0;

    for (unsigned i = 0; i < count; i++) {
        uintptr_t at = (uintptr_t)(src + rows[i]);

        sharing += ((at ^ (uintptr_t)(src + rows[0])) & (CACHE_WAY_BYTES - LEATI_LINE_BYTES)) == 0;
        unaligned += at % LEATI_LINE_BYTES != 0;
    }
    return sharing > CACHE_WAYS && unaligned;
}

/* Copies one part of each row after the other. If the instruction set has joined tiles, they make the parts
 * between the first and the last one in registers. */
static void staged_rows(const struct tiles_job *job, char *dst, const char *src)
{
    unsigned all = job->dst_units + job->ahead, tile_bytes = job->side * job->unit, run = job->src_units;
    leati_joined_tile joined = job->wide ? NULL : job->tiles->joined[job->log];
    bool small = job->side <= LEATI_PAIR_SIDE;
    bool fetches = joined && !small && crowded(src, job->src_rows, leati_least(2 * job->side, all));
    bool pair = fetches || small;
    unsigned tiles = joined ? (pair ? 2 : 1) : (STAGE_ROW_BYTES + tile_bytes - 1) / tile_bytes,
             most = tiles * job->side;
    struct fetched fetched;
    struct stage stage;

    stage.pitch = LEATI_LINE_BYTES + (size_t)tiles * tile_bytes;
    leati_assert(stage.pitch * job->side <= STAGE_BYTES && job->src_units <= LEATI_TILES_STAGED_MOST);
    stage.has_left = !job->alike || (uintptr_t)dst % LEATI_LINE_BYTES;
    buffer_rows(job, stage.pitch, stage.rows);
    if (fetches) {
        run = (unsigned)FETCHED_BYTES / job->unit;
        for (unsigned i = 0; i < most; i++)
            fetched.rows[i] = (int64_t)(i * sizeof fetched.bytes[0]);
    }
    for (unsigned at = 0; at < all; at += most) {
        unsigned made = leati_least(at + most, all);
        const int64_t *rows = fetches ? fetched.rows : job->src_rows + at;

        for (unsigned j = 0; j < job->src_units; j += job->side) {
            unsigned high = leati_least(job->side, job->src_units - j);
            const char *from = src + (size_t)j * job->unit;

            if (!fetches) {
                prefetch(job, src, at + most, most, j);
            } else {
                if (j % run == 0)
                    fetch(&fetched, from, job->src_rows + at, made - at,
                          (size_t)leati_least(run, job->src_units - j) * job->unit);
                from = fetched.bytes[0] + (size_t)(j % run) * job->unit;
            }
            if (joined && at && made < all && high == job->side)
                joined(dst + (size_t)at * job->unit, job->dst_rows + j, from, rows, stage.left[j], pair);
            else
                staged_column(job, &stage, dst, from, rows, at, made, j, high);
        }
    }
}

static void staged(const struct tiles_job *job, char *dst, const char *src)
{
    size_t row_bytes = (size_t)job->dst_units * job->unit;
    size_t most = job->wide && job->unit % 2 ? ONE_RUN_ODD_BYTES : ONE_RUN_BYTES;
    bool one_run = row_bytes <= most && !job->behind && !job->ahead;

    for (unsigned j = 1; j < job->src_units && one_run; j++)
        one_run = job->dst_rows[j] == job->dst_rows[j - 1] + (int64_t)row_bytes;
    if (one_run)
        staged_run(job, dst, src);
    else
        staged_rows(job, dst, src);
}

static void step(const void *context, char *dst, const char *src)
{
    const struct tiles_job *job = context;

    if (job->streaming && (!job->alike || job->wide))
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
    else if (nest->unit_bytes == 3u << job.log && job.log < 3 && job.tiles->triple[job.log])
        job.part = job.tiles->triple[job.log];
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
