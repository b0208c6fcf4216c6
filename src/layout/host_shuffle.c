/*
 * host_shuffle.c - copies loop nests with a small group of units in the innermost loops, repeated for many groups.
 * It interleaves, deinterleaves, or reorders the units of a group.
 *
 * All methods work alike: a few whole registers of the source contain all bytes of a few whole registers of the
 * destination. The position of each byte is computed once for each loop nest. After that, byte permutes assemble
 * each register of the destination from registers of the source. Units that do not fill registers are copied one
 * by one.
 *
 * The first dst_dims dimensions of the nest are the group. The dimension after them counts the groups. If the
 * group is dense only on the destination, each of its units is read from a separate sequence of units on the
 * source. If the group is dense only on the source, each of its units is written to a separate sequence on the
 * destination. If there is no group, single units are contiguous on the destination and have a stride of a few
 * units, forwards or backwards, on the source.
 */
#include "layout/host_kernels.h"
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define MOST LEATI_SHUFFLE_MOST

struct shuffle_job {
    const struct leati_loop_nest *nest;
    unsigned units; /* number of units in a group */
    size_t width;   /* bytes of a register */
    unsigned count; /* number of destination registers */
    bool gaps;      /* source registers also contain unused units, which may be behind the last used unit */
    bool planes; /* each unit of a group goes to a plane of its own, which destination register j has for unit j */
    struct leati_shuffle shuffle;
    uint64_t groups_at_once; /* number of groups that one iteration copies */

    size_t dst_group_bytes; /* bytes from one group to the next on the destination */
};

/* ---- which byte comes from where ---- */

/* Computes the offset of each unit of a group on one side, in the order of the destination. */
static void offsets_of_group(const struct leati_loop_nest *nest, const int64_t *stride, int64_t *offset)
{
    unsigned count = 1;

    offset[0] = 0;
    for (unsigned i = 0; i < nest->dst_dims; i++) {
        for (unsigned j = 1; j < nest->size[i]; j++)
            for (unsigned k = 0; k < count; k++)
                offset[j * count + k] = offset[k] + (int64_t)j * stride[i];
        count *= (unsigned)nest->size[i];
    }
}

static void put(struct leati_shuffle *shuffle, unsigned to, size_t to_byte, unsigned from, size_t from_byte)
{
    shuffle->at[to][to_byte] = (unsigned char)from_byte;
    shuffle->from[to][to_byte] = (unsigned char)from;
}

/* Fills in the shuffle for a group that is dense on the destination, where each of its units comes from a separate
 * sequence on the source. */
static void interleave(struct shuffle_job *job, const int64_t *src_offset)
{
    size_t unit = job->nest->unit_bytes;

    job->count = job->units;
    for (unsigned j = 0; j < job->count; j++) {
        for (size_t p = 0; p < job->width; p++) {
            size_t at = j * job->width + p, number = at / unit;

            put(&job->shuffle, j, p, (unsigned)(number % job->units), number / job->units * unit + at % unit);
        }
        job->shuffle.dst_at[j] = (int64_t)(j * job->width);
        job->shuffle.src_at[j] = src_offset[j];
    }
    job->shuffle.dst_step = (int64_t)(job->count * job->width);
    job->shuffle.src_step = (int64_t)job->width;
    job->groups_at_once = job->width / unit;
    job->dst_group_bytes = unit * job->units;
}

/* Fills in the shuffle for a group that is dense on the source, where each of its units goes to a separate
 * sequence on the destination. */
static void deinterleave(struct shuffle_job *job, const int64_t *dst_offset)
{
    size_t unit = job->nest->unit_bytes;

    job->count = job->units;
    job->planes = true;
    for (unsigned j = 0; j < job->count; j++) {
        for (size_t p = 0; p < job->width; p++) {
            size_t at = (p / unit * job->units + j) * unit + p % unit;

            put(&job->shuffle, j, p, (unsigned)(at / job->width), at % job->width);
        }
        job->shuffle.dst_at[j] = dst_offset[j];
        job->shuffle.src_at[j] = (int64_t)(j * job->width);
    }
    job->shuffle.dst_step = (int64_t)job->width;
    job->shuffle.src_step = (int64_t)(job->count * job->width);
    job->groups_at_once = job->width / unit;
    job->dst_group_bytes = unit;
}

/* Fills in the shuffle for single units that are dense only on the destination. */
static void pick(struct shuffle_job *job)
{
    int64_t unit = job->nest->unit_bytes, width = (int64_t)job->width, step = job->nest->src_stride[0];
    int64_t first = step < 0 ? unit + step / unit * width : 0;

    job->count = 1;
    job->shuffle.src_count = (unsigned)(llabs(step) / unit);
    job->gaps = job->shuffle.src_count > 1;
    for (int64_t p = 0; p < width; p++) {
        int64_t at = p / unit * step + p % unit - first;

        put(&job->shuffle, 0, (size_t)p, (unsigned)(at / width), (size_t)(at % width));
    }
    for (unsigned i = 0; i < job->shuffle.src_count; i++)
        job->shuffle.src_at[i] = first + i * width;
    job->shuffle.dst_at[0] = 0;
    job->shuffle.dst_step = width;
    job->shuffle.src_step = step / unit * width;
    job->groups_at_once = (uint64_t)(width / unit);
    job->dst_group_bytes = (size_t)unit;
}

/* Fills in the shuffle for groups that are the same on both sides, where only the units within a group change
 * places. lowest: the smallest source offset in a group. Returns false if the shuffle needs more than MOST
 * registers. */
static bool reorder(struct shuffle_job *job, const int64_t *src_offset, int64_t lowest)
{
    size_t unit = job->nest->unit_bytes, group = unit * job->units, both = group;

    while (both % job->width)
        both += group;
    if (both / job->width > MOST)
        return false;
    job->count = (unsigned)(both / job->width);
    for (unsigned j = 0; j < job->count; j++) {
        for (size_t p = 0; p < job->width; p++) {
            size_t at = j * job->width + p, within = at % group;
            size_t from = at - within + (size_t)(src_offset[within / unit] - lowest) + within % unit;

            put(&job->shuffle, j, p, (unsigned)(from / job->width), from % job->width);
        }
        job->shuffle.dst_at[j] = (int64_t)(j * job->width);
        job->shuffle.src_at[j] = (int64_t)(j * job->width) + lowest;
    }
    job->shuffle.dst_step = job->shuffle.src_step = (int64_t)both;
    job->groups_at_once = both / group;
    job->dst_group_bytes = group;
    return true;
}

/* Chooses one of the four methods above. Returns false if none of them works with MOST registers. */
static bool prepare(struct shuffle_job *job)
{
    const struct leati_loop_nest *nest = job->nest;
    int64_t dst_offset[LEATI_SHUFFLE_UNITS_MOST], src_offset[LEATI_SHUFFLE_UNITS_MOST], lowest = 0, bytes;
    unsigned next = nest->dst_dims;

    job->units = 1;
    job->gaps = job->planes = false;
    if (!nest->dst_dims) {
        pick(job);
        return true;
    }
    for (unsigned i = 0; i < nest->dst_dims; i++) {
        job->units *= (unsigned)nest->size[i];
        lowest += nest->src_stride[i] < 0 ? (int64_t)(nest->size[i] - 1) * nest->src_stride[i] : 0;
    }
    offsets_of_group(nest, nest->dst_stride, dst_offset);
    offsets_of_group(nest, nest->src_stride, src_offset);
    bytes = (int64_t)job->units * nest->unit_bytes;
    if (nest->dst_stride[next] == bytes && nest->src_stride[next] == bytes) {
        if (!reorder(job, src_offset, lowest))
            return false;
        job->shuffle.src_count = job->count;
        return true;
    }
    if (job->units > MOST)
        return false;
    job->shuffle.src_count = job->units;
    if (nest->dst_stride[next] == bytes)
        interleave(job, src_offset);
    else
        deinterleave(job, dst_offset);
    return true;
}

/* ---- copying ---- */

/* Copies count groups, beginning with number first. */
static void unit_by_unit(const struct shuffle_job *job, char *dst, const char *src, uint64_t first, uint64_t count)
{
    unsigned next = job->nest->dst_dims;
    struct leati_loop_nest nest;

    if (!count)
        return;
    nest.dims = next + 1;
    nest.unit_bytes = job->nest->unit_bytes;
    for (unsigned i = 0; i <= next; i++) {
        nest.size[i] = i == next ? count : job->nest->size[i];
        nest.dst_stride[i] = job->nest->dst_stride[i];
        nest.src_stride[i] = job->nest->src_stride[i];
    }
    leati_nest_elements(&nest, dst + (int64_t)first * nest.dst_stride[next],
                        src + (int64_t)first * nest.src_stride[next]);
}

/* Copies count units to one of the planes, beginning with group number first. */
static void plane_by_unit(const struct shuffle_job *job, unsigned plane, char *dst, const char *src,
                          uint64_t first, uint64_t count)
{
    unsigned next = job->nest->dst_dims;
    struct leati_loop_nest nest = {.dims = 1,
                                   .unit_bytes = job->nest->unit_bytes,
                                   .size = {count},
                                   .dst_stride = {job->nest->dst_stride[next]},
                                   .src_stride = {job->nest->src_stride[next]}};

    if (count)
        leati_nest_elements(&nest, dst + job->shuffle.dst_at[plane] + (int64_t)first * nest.dst_stride[0],
                            src + (size_t)plane * nest.unit_bytes + (int64_t)first * nest.src_stride[0]);
}

/* Returns the number of groups before the first group that begins at a cache line of the destination. Returns more
 * than LEATI_LINE_BYTES if no group does. */
static uint64_t groups_before_line(const struct shuffle_job *job, const char *dst)
{
    uint64_t groups = 0;

    while (groups <= LEATI_LINE_BYTES && ((uintptr_t)dst + groups * job->dst_group_bytes) % LEATI_LINE_BYTES)
        groups++;
    return groups;
}

/* Computes for each destination register the number of groups before its first one. With streaming stores a
 * register begins at a cache line, so in planes that begin at different offsets within lines the numbers differ.
 * Returns the highest number. */
static uint64_t find_first(const struct shuffle_job *job, const char *dst, bool *streaming, uint64_t *first)
{
    uint64_t most = 0;

    leati_assert(job->count && job->count <= MOST);
    for (unsigned j = 0; j < job->count; j++) {
        first[j] = *streaming ? groups_before_line(job, dst + job->shuffle.dst_at[j]) : 0;
        most = first[j] > most ? first[j] : most;
    }
    if (most <= LEATI_LINE_BYTES)
        return most;
    *streaming = false;
    memset(first, 0, job->count * sizeof *first);
    return 0;
}

static void step(const void *context, char *dst, const char *src)
{
    const struct shuffle_job *job = context;
    const struct leati_loop_nest *nest = job->nest;
    unsigned next = nest->dst_dims;
    uint64_t groups = nest->size[next], first[MOST], most, done;
    struct leati_shuffle_run run = {
        .dst = dst, .src = src, .streaming = nest->streaming && job->width == LEATI_LINE_BYTES};

    most = find_first(job, dst, &run.streaming, first) + job->gaps;
    run.times = groups > most ? (groups - most) / job->groups_at_once : 0;
    if (!run.times) {
        unit_by_unit(job, dst, src, 0, groups);
        return;
    }
    done = run.times * job->groups_at_once;
    for (unsigned j = 0; j < job->count; j++) {
        run.dst_at[j] = job->shuffle.dst_at[j] + (int64_t)first[j] * nest->dst_stride[next];
        run.src_from[j] = (int64_t)first[j] * nest->src_stride[next];
    }
    (job->width == LEATI_LINE_BYTES ? leati_shuffle_vbmi : leati_shuffle_avx2)(&job->shuffle, job->count, &run);
    if (!job->planes) {
        unit_by_unit(job, dst, src, 0, first[0]);
        unit_by_unit(job, dst, src, first[0] + done, groups - first[0] - done);
        return;
    }
    for (unsigned j = 0; j < job->count; j++) {
        plane_by_unit(job, j, dst, src, 0, first[j]);
        plane_by_unit(job, j, dst, src, first[j] + done, groups - first[j] - done);
    }
}

void leati_nest_shuffle(const struct leati_loop_nest *nest, char *dst, const char *src)
{
    struct shuffle_job job;

    job.nest = nest;
    job.width = nest->level >= LEATI_HOST_VBMI ? LEATI_LINE_BYTES : 16;
    if (nest->level < LEATI_HOST_AVX2 || !prepare(&job)) {
        leati_nest_elements(nest, dst, src);
        return;
    }
    leati_nest_walk(nest, nest->dst_dims + 1, step, &job, dst, src);
}
