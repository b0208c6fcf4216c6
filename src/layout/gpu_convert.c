/* gpu_convert.c - see gpu_convert.h. */
#include "layout/gpu_convert.h"

#include "layout/gpu_task.h"

#include "base/assert.h"

#include <string.h>

/* The maximum number of threads of a block of the pixels kernel; as in kernels/convert_kernels.c. Others have at
 * most THREADS_WIDE, or as many as channels need. */
#define THREADS 128u
#define THREADS_WIDE 160u
#define GANG_LEAST 16u
#define ROW_GANG_LEAST 8u /* of threads with several groups */
#define ROW_BLOCKS_FEW 4096u  /* with fewer, threads have half as many groups */
#define THREADS_LEAST 32u

/* As in kernels/convert_kernels.c. */
#define ELEMENTS_EACH 4u /* elements that a thread of the elements kernel converts */
#define QUAD 4u          /* pixels of a thread of the joins kernel */
#define TILE_SIDE 64u
#define TILE_THREADS 256u

#define PIXELS_MOST 4u  /* maximum number of channels of the pixels kernel */
#define REPEAT_MOST 32u /* maximum size of a dimension that a thread of the elements kernel copies completely */
#define TILE_LEAST 32u  /* minimum size of both sides of tiles */
#define LINE_LEAST 512u /* the elements kernel joins dimensions until a line has as many elements */
#define SHORT_LINE_LEAST 64 /* minimum length of the lines of rows and pixels, in elements */

/* ---- lines ---- */

static void add_dim(struct leati_convert_task *task, const struct leati_canonical *canonical, unsigned k,
                    uint64_t size)
{
    task->dim[task->dims++] =
        (struct leati_convert_dim){.dst = canonical->dst_stride[k],
                                   .src = canonical->src_stride[k],
                                   .by = divisor(size),
                                   .channel = canonical->channels && canonical->channel_dim == k};
}

/* Adds the dimensions that count lines: all whose bit in `taken` is 0. Returns the number of lines, or 0 if there
 * are too many. */
static uint64_t add_lines(struct leati_convert_task *task, const struct leati_canonical *canonical, uint64_t taken)
{
    uint64_t lines = 1;

    for (unsigned k = 0; k < canonical->dims; k++) {
        if (taken >> k & 1)
            continue;
        if (__builtin_mul_overflow(lines, canonical->size[k], &lines) || lines >= LEATI_TASK_NUMBERS)
            return 0;
        add_dim(task, canonical, k, canonical->size[k]);
    }
    return lines;
}

static uint64_t above(uint64_t number, uint64_t step)
{
    return (number + step - 1) / step;
}

/* How lines are cut into strips. */
struct strip_cut {
    uint64_t lines, size; /* number of lines, and of elements of a line */
    unsigned each;        /* number of elements of a strip for each thread of its gang */
    unsigned period;      /* a gang has a multiple of so many threads */
    unsigned gang_least;
};

/* Cuts lines into strips. Returns false if there are too many strips. */
static bool cut_strips(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu, struct strip_cut cut)
{
    struct leati_convert_task *task = &gpu->convert;
    unsigned gang, threads = cut.period;
    uint64_t strips, groups = above(cut.size, cut.each);

    while (threads * 2 <= (cut.period > 1 ? THREADS_WIDE : THREADS))
        threads *= 2;
    while (threads > THREADS_LEAST && threads > cut.period &&
           cut.lines * groups / threads * leati_canonical_copies(canonical) < BLOCKS_ENOUGH)
        threads /= 2;
    /* A smaller gang only if the gangs of a line then have less unused room. */
    gang = threads;
    for (unsigned smaller = threads; smaller > cut.period && smaller / 2 >= cut.gang_least;) {
        smaller /= 2;
        if (above(groups, smaller) * smaller * 16 <= above(groups, gang) * gang * 15)
            gang = smaller;
    }
    strips = above(groups, gang);
    if (!cut.lines || strips >= LEATI_TASK_NUMBERS || cut.lines >= LEATI_TASK_NUMBERS / strips)
        return false;
    task->step = gang * cut.each;
    task->strips = divisor(strips);
    task->all_strips = (uint32_t)(strips * cut.lines);
    task->gang = divisor(gang);
    gpu->block = leat_dim(threads, 1, 1);
    gpu->grid = leat_dim((uint32_t)above(task->all_strips, threads / gang), 1, 1);
    return true;
}

/* Returns true if the first address of a side, and all strides except those of the dimensions in `but`, are
 * multiples of bytes. */
static bool is_even(const struct leati_canonical *canonical, bool dst, uint64_t but, unsigned bytes)
{
    const int64_t *stride = dst ? canonical->dst_stride : canonical->src_stride;

    if ((dst ? canonical->dst_align : canonical->src_align) % bytes)
        return false;
    for (unsigned k = 0; k < canonical->dims; k++)
        if (!(but >> k & 1) && stride[k] % (int64_t)bytes)
            return false;
    return true;
}

/* Returns the largest power of two, at most a word, that divides bytes. A thread loads its elements in pieces of
 * this size. */
static unsigned piece_of(unsigned bytes)
{
    bytes |= WORD_BYTES;
    return bytes & (0 - bytes);
}

static unsigned group_of(const struct leati_canonical *canonical)
{
    return WORD_BYTES / canonical->unit_bytes;
}

/* ---- the kernels ---- */

/* Returns the least number of groups whose elements are a multiple of the channels. */
static unsigned period_of(unsigned channels, unsigned group)
{
    unsigned period = channels;

    while (period % 2 == 0 && group % 2 == 0)
        period /= 2, group /= 2;
    return period;
}

/* Both sides are dense in dimension 0. If that is the dimension of channels, it is joined with the next one where
 * it continues there, so that channels become cyclic on a longer line. Then the elements between two groups of a
 * thread are a multiple of the channels, so that all its groups have the same ones. */
static bool make_rows(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct leati_convert_task *task = &gpu->convert;
    unsigned src_bytes = canonical->src_unit_bytes, group = leati_row_group(canonical->unit_bytes, src_bytes);
    unsigned period = 1, groups = LEATI_ROW_GROUPS;
    uint64_t taken = 1, lines, size;

    if (!canonical->dims || canonical->unit_bytes == 8 ||
        canonical->dst_stride[0] != (int64_t)canonical->unit_bytes ||
        canonical->src_stride[0] != (int64_t)src_bytes)
        return false;
    task->size = canonical->size[0];
    if (canonical->channels && canonical->channel_dim == 0) {
        task->channels = divisor(canonical->channels);
        period = period_of(canonical->channels, group);
        if (canonical->dims > 1 && canonical->dst_stride[1] == (int64_t)(task->size * canonical->unit_bytes) &&
            canonical->src_stride[1] == (int64_t)(task->size * src_bytes)) {
            task->size *= canonical->size[1];
            taken |= 2;
        }
    }
    lines = add_lines(task, canonical, taken);
    size = task->size;
    /* Groups begin at multiples of their size, so a line that does not may have a part of one more. */
    if (!is_even(canonical, true, taken, group * canonical->unit_bytes))
        size += group - 1;
    /* With few blocks the last of them are a good part of the time: then smaller ones are faster. */
    if (lines * size / (group * groups * THREADS) < ROW_BLOCKS_FEW / leati_canonical_copies(canonical))
        groups /= 2;
    if (!cut_strips(canonical, gpu, (struct strip_cut){lines, size, group * groups, period, ROW_GANG_LEAST}))
        return false;
    gpu->kernel = "leat_convert_rows";
    return true;
}

/* Pixels of 3 or 4 bytes become planes: dimension 0 counts pixels, another one, dense on the source, channels. */
static bool make_pixels(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct leati_convert_task *task = &gpu->convert;
    int channels = leati_canonical_dense_src(canonical);
    unsigned group = group_of(canonical);
    uint64_t lines;

    if (canonical->src_unit_bytes != 1 || channels < 1 || (canonical->channels && canonical->channel_dim == 0) ||
        canonical->dst_stride[0] != (int64_t)canonical->unit_bytes ||
        canonical->size[channels] != (uint64_t)canonical->src_stride[0] || canonical->src_stride[0] < 3 ||
        canonical->src_stride[0] > (int64_t)PIXELS_MOST)
        return false;
    task->size = canonical->size[0];
    task->repeat = (uint32_t)canonical->size[channels];
    task->repeat_dst = canonical->dst_stride[channels];
    task->repeat_src = 1;
    task->repeat_channel = canonical->channels && canonical->channel_dim == (unsigned)channels;
    lines = add_lines(task, canonical, 1u | UINT64_C(1) << channels);
    if (!cut_strips(canonical, gpu, (struct strip_cut){lines, task->size, group, 1, GANG_LEAST}))
        return false;
    task->odd_dst = !is_even(canonical, true, 1, WORD_BYTES);
    task->odd_src = !is_even(canonical, false, 1u | UINT64_C(1) << channels, piece_of(group * task->repeat));
    gpu->kernel = "leat_convert_pixels";
    return true;
}

/* Planes become pixels of 3 or 4 elements: dimension 0 counts channels, and dimension 1 pixels, which are dense on
 * the source. */
static bool make_joins(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct leati_convert_task *task = &gpu->convert;

    if (canonical->dims < 2 || canonical->unit_bytes == 8 || canonical->size[0] < 3 ||
        canonical->size[0] > PIXELS_MOST || canonical->dst_stride[0] != (int64_t)canonical->unit_bytes ||
        canonical->dst_stride[1] != (int64_t)(canonical->size[0] * canonical->unit_bytes) ||
        canonical->src_stride[1] != (int64_t)canonical->src_unit_bytes ||
        (canonical->channels && canonical->channel_dim == 1))
        return false;
    task->size = canonical->size[1];
    task->repeat = (uint32_t)canonical->size[0];
    task->repeat_src = canonical->src_stride[0];
    task->repeat_channel = canonical->channels && canonical->channel_dim == 0;
    gpu->kernel = "leat_convert_joins";
    return cut_strips(canonical, gpu,
                      (struct strip_cut){add_lines(task, canonical, 3), task->size, QUAD, 1, GANG_LEAST});
}

/* The sides are dense in different dimensions. */
static bool make_tiles(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct leati_convert_task *task = &gpu->convert;
    int dense = leati_canonical_dense_src(canonical);
    uint64_t tiles_i, tiles_j, lines;

    if (dense < 1 || canonical->unit_bytes == 8 || canonical->dst_stride[0] != (int64_t)canonical->unit_bytes)
        return false;
    add_dim(task, canonical, 0, 1);
    add_dim(task, canonical, (unsigned)dense, 1);
    task->inner = 2;
    task->size = canonical->size[0];
    task->size_j = canonical->size[dense];
    tiles_i = above(task->size, TILE_SIDE);
    tiles_j = above(task->size_j, TILE_SIDE);
    lines = add_lines(task, canonical, 1u | UINT64_C(1) << dense);
    if (!lines || tiles_i >= LEATI_TASK_NUMBERS || tiles_j >= LEATI_TASK_NUMBERS / tiles_i ||
        lines >= LEATI_TASK_NUMBERS / (tiles_i * tiles_j))
        return false;
    task->strips = divisor(tiles_i);
    task->tiles_j = divisor(tiles_j);
    gpu->block = leat_dim(TILE_THREADS, 1, 1);
    gpu->grid = leat_dim((uint32_t)(tiles_i * tiles_j * lines), 1, 1);
    gpu->kernel = "leat_convert_tiles";
    gpu->tile_i = gpu->tile_j = TILE_SIDE;
    return true;
}

/* Returns the dimension that a thread copies completely, or -1: a short one that is dense on the source, whose
 * elements are otherwise read from the same sectors by far apart threads. */
static int find_repeat(const struct leati_canonical *canonical)
{
    int dense = leati_canonical_dense_src(canonical);

    return dense > 0 && canonical->size[dense] <= REPEAT_MOST && canonical->size[0] >= LINE_LEAST ? dense : -1;
}

/* Single elements, in the order of the destination: can convert every layout. */
static bool make_elements(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct leati_convert_task *task = &gpu->convert;
    int repeat = canonical->dims > 1 ? find_repeat(canonical) : -1;
    uint64_t taken = repeat < 0 ? 0 : UINT64_C(1) << repeat;

    task->size = 1;
    task->repeat = 1;
    if (repeat >= 0) {
        task->repeat = (uint32_t)canonical->size[repeat];
        task->repeat_dst = canonical->dst_stride[repeat];
        task->repeat_src = canonical->src_stride[repeat];
        task->repeat_channel = canonical->channels && canonical->channel_dim == (unsigned)repeat;
    }
    for (unsigned k = 0; k < canonical->dims && task->size < LINE_LEAST; k++) {
        if ((int)k == repeat)
            continue;
        /* A thread splits the number of its element into indices, unless the line is one dimension. */
        if (task->inner && canonical->size[k] >= LEATI_TASK_NUMBERS / LINE_LEAST)
            break;
        add_dim(task, canonical, k, canonical->size[k] < LEATI_TASK_NUMBERS ? canonical->size[k] : 1);
        task->inner++;
        task->size *= canonical->size[k];
        taken |= UINT64_C(1) << k;
    }
    gpu->kernel = "leat_convert_elements";
    return cut_strips(
        canonical, gpu,
        (struct strip_cut){add_lines(task, canonical, taken), task->size, ELEMENTS_EACH, 1, GANG_LEAST});
}

static const struct sort {
    const char *name;
    bool (*make)(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu);
} sorts[] = {{"rows", make_rows},
             {"pixels", make_pixels},
             {"joins", make_joins},
             {"tiles", make_tiles},
             {"elements", make_elements}};

bool leati_gpu_convert_make_as(const struct leati_canonical *canonical, const char *name,
                               struct leati_gpu_layout *gpu)
{
    memset(gpu, 0, sizeof *gpu);
    for (size_t i = 0; i < sizeof sorts / sizeof sorts[0]; i++)
        if (!strcmp(sorts[i].name, name)) {
            gpu->module = LEATI_BUILTIN_CONVERT;
            if (sorts[i].make(canonical, gpu)) {
                gpu->most_copies = LEATI_TASK_PLACES_BESIDE(gpu->convert.dims);
                return true;
            }
        }
    memset(gpu, 0, sizeof *gpu);
    return false;
}

/* Returns the name of the best kernel for the length of lines; it need not be able to convert the layout. */
static const char *choose(const struct leati_canonical *canonical)
{
    int dense = leati_canonical_dense_src(canonical);
    uint64_t line = canonical->dims ? canonical->size[0] : 1;

    if (dense == 0 && canonical->dims > 1 && canonical->channels && canonical->channel_dim == 0)
        line *= canonical->size[1];
    if (dense == 0)
        return line >= SHORT_LINE_LEAST ? "rows" : "elements";
    if (dense > 0 && line >= TILE_LEAST && canonical->size[dense] >= TILE_LEAST)
        return "tiles";
    if (line <= PIXELS_MOST && canonical->dims > 1 && canonical->size[1] >= SHORT_LINE_LEAST)
        return "joins";
    return line >= SHORT_LINE_LEAST ? "pixels" : "elements";
}

void leati_gpu_convert_make(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    if (canonical->empty) {
        memset(gpu, 0, sizeof *gpu);
        return;
    }
    if (!leati_gpu_convert_make_as(canonical, choose(canonical), gpu))
        (void)leati_gpu_convert_make_as(canonical, "elements", gpu);
}

void leati_gpu_convert_batch(struct leati_convert_task *task, unsigned copies)
{
    leati_assert(copies && copies <= LEATI_TASK_PLACES_BESIDE(task->dims));
    task->places = copies;
    task->src_first += LEATI_TASK_REACH;
    task->src_end += LEATI_TASK_REACH;
}

void leati_gpu_convert_argument(const struct leati_canonical *canonical, const struct leati_gpu_layout *gpu,
                                const struct leati_convert *convert, const struct leati_factors *factors,
                                void *dst, const void *src, struct leati_convert_argument *argument)
{
    struct leati_convert_task *task = &argument->task;

    *task = gpu->convert;
    task->dst = (uintptr_t)dst + (uint64_t)canonical->dst_offset;
    task->src = (uintptr_t)src + (uint64_t)canonical->src_offset;
    task->src_first = (uintptr_t)src + (uint64_t)canonical->src_low;
    task->src_end = (uintptr_t)src + (uint64_t)canonical->src_high;
    task->dst_number = convert->dst_number;
    task->src_number = convert->src_number;
    task->flags = convert->flags;
    task->dst_bytes = canonical->unit_bytes;
    task->src_bytes = canonical->src_unit_bytes;
    leati_factors_turn(canonical, factors, &argument->factors);
}
