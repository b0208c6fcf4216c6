/* gpu_pixels.c - see gpu_pixels.h; the kernels are in kernels/layout_pixels.h. */
#include "layout/gpu_pixels.h"

#include "layout/gpu_task.h"

/* For larger units ND tiles are about as fast. */
#define MOST_UNIT_BYTES 2u

/* The maximum number of threads of a block, for few and for many channels. Shared memory has room for their words.
 * Both must be as in kernels/layout_pixels.h. */
#define THREADS_FEW 128u
#define THREADS_WIDE 64u

/* The smallest number of threads of a block, and of a gang. */
#define THREADS_LEAST 32u
#define GANG_LEAST 16u

/* The kernels for planes to pixels and pixels to planes: few channels of 1 byte and of 2 bytes, many of 1 byte.
 * For many channels of 2 bytes ND tiles are faster. */
enum { NAME_FEW_1, NAME_FEW_2, NAME_WIDE_1, NAMES };
static const char *const names[2][NAMES] = {
    {"leat_layout_join_1", "leat_layout_join_2", "leat_layout_join_wide_1"},
    {"leat_layout_split_1", "leat_layout_split_2", "leat_layout_split_wide_1"}};

struct shape {
    bool split;              /* pixels to planes, not planes to pixels */
    bool repeat;             /* all pixels of a line are the same pixel of the source */
    unsigned channel, pixel; /* the dimensions that count channels and pixels */
};

static uint64_t above(uint64_t number, uint64_t step)
{
    return (number + step - 1) / step;
}

static unsigned most_channels(const struct leati_canonical *canonical)
{
    return canonical->unit_bytes == 1 ? LEATI_PIXEL_CHANNELS : LEATI_PIXEL_CHANNELS_FEW;
}

/* Returns the dimension, other than dimension 0, that has this stride, or -1. size: its size, or 0 for any. */
static int find_dim(const struct leati_canonical *canonical, const int64_t *stride, int64_t wanted, uint64_t size)
{
    for (unsigned k = 1; k < canonical->dims; k++)
        if (stride[k] == wanted && (!size || canonical->size[k] == size))
            return (int)k;
    return -1;
}

/* Finds the dimension of the channels and that of the pixels. One of them is dimension 0, as the dense dimension
 * of the destination. */
static bool find_shape(const struct leati_canonical *canonical, struct shape *shape)
{
    int64_t unit = canonical->unit_bytes, channels;
    int other;

    if (canonical->empty || canonical->unit_bytes > MOST_UNIT_BYTES || canonical->index_dim >= 0 ||
        canonical->dims < 2 || canonical->dst_stride[0] != unit)
        return false;
    channels = canonical->src_stride[0] / unit;
    if (canonical->src_stride[0] > unit && channels <= most_channels(canonical)) {
        other = find_dim(canonical, canonical->src_stride, unit, (uint64_t)channels);
        *shape = (struct shape){.split = true, .pixel = 0, .channel = (unsigned)other};
        if (other > 0)
            return true;
    }
    if (canonical->size[0] > most_channels(canonical))
        return false;
    other = find_dim(canonical, canonical->dst_stride, (int64_t)canonical->size[0] * unit, 0);
    if (other < 0 || (canonical->src_stride[other] != unit && canonical->src_stride[other] != 0))
        return false;
    *shape = (struct shape){.repeat = canonical->src_stride[other] == 0, .channel = 0, .pixel = (unsigned)other};
    return true;
}

/* Returns true if strips on one side do not all begin at words. Strips have whole words of pixels, so the stride
 * of pixels does not matter, and on the side of the pixels the channels do not matter either. */
static bool is_odd(const struct leati_canonical *canonical, const struct shape *shape, bool dst)
{
    const int64_t *stride = dst ? canonical->dst_stride : canonical->src_stride;
    bool on_pixels = dst != shape->split;

    if ((dst ? canonical->dst_align : canonical->src_align) % WORD_BYTES)
        return true;
    for (unsigned k = 0; k < canonical->dims; k++)
        if (k != shape->pixel && !(on_pixels && k == shape->channel) && stride[k] % WORD_BYTES)
            return true;
    return false;
}

/* Returns the number of threads of a gang. A smaller gang than `most` is chosen only if the gangs of a line then
 * have at least a sixteenth less unused room. */
static unsigned gang_of(uint64_t groups, unsigned most)
{
    unsigned best = most;

    for (unsigned gang = most / 2; gang >= GANG_LEAST; gang /= 2)
        if (above(groups, gang) * gang * 16 <= above(groups, best) * best * 15)
            best = gang;
    return best;
}

bool leati_gpu_make_pixels(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct leati_layout_task *task = &gpu->task;
    unsigned unit = unit_number(canonical->unit_bytes), per_word = WORD_BYTES / canonical->unit_bytes;
    uint64_t pixels, channels, groups, strips, lines = 1;
    unsigned threads, gang;
    struct shape shape;
    struct dim dim;
    bool wide;

    if (!find_shape(canonical, &shape))
        return false;
    pixels = canonical->size[shape.pixel];
    channels = canonical->size[shape.channel];
    groups = above(pixels, per_word);
    for (unsigned k = 0; k < canonical->dims; k++)
        lines *= k == shape.channel || k == shape.pixel ? 1 : canonical->size[k];
    wide = channels > LEATI_PIXEL_CHANNELS_FEW;
    threads = wide ? THREADS_WIDE : THREADS_FEW;
    while (threads > THREADS_LEAST &&
           lines * groups / threads * leati_canonical_copies(canonical) < 2 * BLOCKS_ENOUGH)
        threads /= 2;
    gang = gang_of(groups, threads);
    strips = above(groups, gang);
    if (strips >= LEATI_TASK_NUMBERS || lines >= LEATI_TASK_NUMBERS / strips)
        return false;

    dim = dim_of(canonical, shape.channel);
    put_dim(task, &dim);
    for (unsigned k = 0; k < canonical->dims; k++)
        if (k != shape.channel && k != shape.pixel) {
            dim = dim_of(canonical, k);
            put_dim(task, &dim);
        }
    task->splits = shape.repeat;
    task->size_i = pixels;
    task->step_i = gang * per_word;
    task->tiles_i = divisor(strips);
    task->strips = (uint32_t)(strips * lines);
    while (1u << task->gang_bits < gang)
        task->gang_bits++;
    task->odd_src = is_odd(canonical, &shape, false);
    task->odd_dst = is_odd(canonical, &shape, true);
    /* Eight threads that access word k of their groups are to use eight different places among each eight words of
     * shared memory. So if the number of channels is a multiple of 2^n, the groups exchange words within each
     * 2^n. */
    task->swizzle_shift = 3;
    while (task->swizzle_shift && channels % 2 == 0) {
        task->swizzle_shift--;
        task->swizzle_mask = task->swizzle_mask * 2 + 1;
        channels /= 2;
    }
    gpu->module = LEATI_BUILTIN_PIXELS_1 + unit;
    gpu->kernel = names[shape.split][wide ? NAME_WIDE_1 : unit ? NAME_FEW_2 : NAME_FEW_1];
    gpu->tile_i = task->step_i;
    gpu->tile_j = task->dim[0].by.size;
    gpu->block = leat_dim(threads, 1, 1);
    gpu->grid = leat_dim((uint32_t)above(task->strips, threads / gang), 1, 1);
    return true;
}

/* By measurements on an H200. For units of 1 byte, ND tiles are slower for all numbers of channels, if most threads
 * have work. For units of 2 bytes they are slower only for 3 to 8 channels, and about as fast there for images whose
 * planes begin anywhere. */
bool leati_gpu_are_pixels_best(const struct leati_canonical *canonical)
{
    struct shape shape;
    uint64_t groups, channels;

    if (!find_shape(canonical, &shape))
        return false;
    channels = canonical->size[shape.channel];
    if (canonical->unit_bytes > 1 && channels < 3)
        return false;
    groups = above(canonical->size[shape.pixel] * canonical->unit_bytes, WORD_BYTES);
    return groups * 2 >= above(groups, GANG_LEAST) * GANG_LEAST;
}

/* Measured on an H200 with three channels of 1 byte: where 15 of 16 threads had work both were about equal, 0.77 to
 * 0.81 of a copy, and where 14 had, ND tiles were faster, 0.81 instead of 0.75. More than four channels were not
 * measured. */
bool leati_gpu_are_pixels_full(const struct leati_canonical *canonical)
{
    struct shape shape;
    uint64_t groups;

    if (!find_shape(canonical, &shape) || canonical->unit_bytes > 1 || canonical->size[shape.channel] > 4)
        return true;
    groups = above(canonical->size[shape.pixel], WORD_BYTES);
    return groups * 16 >= above(groups, GANG_LEAST) * GANG_LEAST * 15;
}
