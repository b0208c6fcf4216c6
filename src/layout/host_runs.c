/*
 * host_runs.c - copies loop nests whose dimension 0 is dense on both sides, that is, runs of bytes.
 *
 * The two loops after the run are the dimension of the next run on the destination and the dimension of the next
 * run on the source. The loops take a few steps along the source's dimension, then one step along the
 * destination's. So several neighbouring lines of the source are read together even if runs are short, and
 * neighbouring lines of the destination are written soon after each other.
 *
 * If runs are contiguous on the destination but are not whole cache lines, streaming copies gather them in a
 * buffer and write whole lines from it with streaming stores.
 */
#include "layout/host_kernels.h"
#include "base/assert.h"

#include <string.h>

#define TOGETHER_BYTES ((uint64_t)1 << 10) /* source bytes to read before a step along the destination */
#define STAGE_BYTES ((size_t)4 << 10)      /* bytes in the buffer from which on its lines are written */
#define STAGED_BYTES ((size_t)256)         /* only runs shorter than this use the buffer */

struct runs_job {
    const struct leati_loop_nest *nest;
    const struct leati_tiles *tiles;
    size_t bytes; /* length of a run */
    uint64_t dst_count, src_count;
    int64_t dst_step[2], src_step[2]; /* strides: [0] along the destination's dimension, [1] along the source's */
};

/* ---- single runs ---- */

static inline void copy_cached(char *dst, const char *src, size_t bytes)
{
    if (bytes <= 128)
        leati_copy_short(dst, src, bytes);
    else
        memcpy(dst, src, bytes);
}

void leati_nest_run(const struct leati_tiles *tiles, char *dst, const char *src, size_t bytes)
{
    leati_assert(bytes);
    if (tiles && bytes >= 2 * LEATI_LINE_BYTES - (-(uintptr_t)dst % LEATI_LINE_BYTES ? 0 : LEATI_LINE_BYTES))
        tiles->stream(dst, src, bytes);
    else
        copy_cached(dst, src, bytes);
}

/* ---- several runs ---- */

/* Copies count runs along the source's dimension, beginning with run number first. */
static void some(const struct runs_job *job, char *dst, const char *src, uint64_t first, uint64_t count)
{
    dst += (int64_t)first * job->dst_step[1];
    src += (int64_t)first * job->src_step[1];
    for (uint64_t i = 0; i < count; i++) {
        leati_nest_run(job->nest->streaming ? job->tiles : NULL, dst, src, job->bytes);
        dst += job->dst_step[1];
        src += job->src_step[1];
    }
}

/* Copies all runs along the destination's dimension through the buffer. They are contiguous on the destination. */
static void one_piece(const struct runs_job *job, char *dst, const char *src)
{
    _Alignas(LEATI_LINE_BYTES) char stage[STAGE_BYTES + STAGED_BYTES];
    /* Bytes are at the same offset within a cache line in the buffer and in the destination, so whole lines of the
     * buffer are whole lines of the destination. */
    size_t held = (uintptr_t)dst % LEATI_LINE_BYTES, empty = held, whole;

    dst -= held;
    for (uint64_t i = 0; i < job->dst_count; i++) {
        copy_cached(stage + held, src, job->bytes);
        held += job->bytes;
        src += job->src_step[0];
        if (held < STAGE_BYTES)
            continue;
        whole = held / LEATI_LINE_BYTES * LEATI_LINE_BYTES;
        job->tiles->stream(dst + empty, stage + empty, whole - empty);
        empty = 0;
        dst += whole;
        held -= whole;
        copy_cached(stage, stage + whole, held);
    }
    leati_assert(held < sizeof stage);
    if (held > empty)
        memcpy(dst + empty, stage + empty, held - empty);
}

static void step(const void *context, char *dst, const char *src)
{
    const struct runs_job *job = context;
    uint64_t together = TOGETHER_BYTES / job->bytes ? TOGETHER_BYTES / job->bytes : 1;

    leati_assert(job->bytes);
    if (job->nest->streaming && job->bytes < STAGED_BYTES && job->bytes % LEATI_LINE_BYTES &&
        job->dst_step[0] == (int64_t)job->bytes) {
        for (uint64_t i = 0; i < job->src_count; i++)
            one_piece(job, dst + (int64_t)i * job->dst_step[1], src + (int64_t)i * job->src_step[1]);
        return;
    }
    for (uint64_t first = 0; first < job->src_count; first += together) {
        uint64_t left = job->src_count - first;

        for (uint64_t i = 0; i < job->dst_count; i++)
            some(job, dst + (int64_t)i * job->dst_step[0], src + (int64_t)i * job->src_step[0], first,
                 left < together ? left : together);
    }
}

void leati_nest_runs(const struct leati_loop_nest *nest, char *dst, const char *src)
{
    unsigned dst_dim = 1, src_dim = 1 + nest->dst_dims;
    struct runs_job job = {.nest = nest,
                      .tiles = leati_tiles_of(nest->level),
                      .bytes = (size_t)nest->size[0] * nest->unit_bytes,
                      .dst_count = 1,
                      .src_count = 1};

    leati_assert(nest->dims > nest->dst_dims + nest->src_dims);
    if (nest->dst_dims) {
        job.dst_count = nest->size[dst_dim];
        job.dst_step[0] = nest->dst_stride[dst_dim];
        job.src_step[0] = nest->src_stride[dst_dim];
    }
    if (nest->src_dims) {
        job.src_count = nest->size[src_dim];
        job.dst_step[1] = nest->dst_stride[src_dim];
        job.src_step[1] = nest->src_stride[src_dim];
    }
    leati_nest_walk(nest, 1 + nest->dst_dims + nest->src_dims, step, &job, dst, src);
}
