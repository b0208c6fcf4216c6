/* gpu.c - see gpu.h. */
#include "layout/gpu.h"

#include "base/options.h"

#include <stdio.h>
#include <string.h>

#define WORD_BYTES 16u

/* Threads of a block, and as many items as layout_kernels.c gives each. */
#define THREADS_MOST 256u
#define THREADS_LEAST 64u
#define ELEMENTS_EACH 4u
#define ROWS_EACH(unit_bytes) ((unit_bytes) >= 4 ? 4u : 2u)

/* With fewer blocks some of a GPU's multiprocessors have nothing to do. */
#define BLOCKS_ENOUGH 128u

/* A block's items are taken apart thread by thread, its number once for the block, so no more dimensions than
 * these items need go there. */
#define ITEMS_ENOUGH (UINT64_C(1) << 16)

/* No row is shorter for the kernel that copies rows. */
#define ROW_LEAST_BYTES 16u

/* Tiles that are no longer than this on one side are mostly empty. */
#define TILE_LEAST_BYTES 32u

static struct leati_divisor divisor(uint64_t size)
{
    struct leati_divisor by = {.size = (uint32_t)size};

    while (UINT64_C(1) << by.shift < size)
        by.shift++;
    by.multiplier = (uint32_t)(((((UINT64_C(1) << by.shift) - size) << 32) / size) + 1);
    return by;
}

/* ---- dimensions as a task has them ---- */

struct dim {
    uint64_t size;
    int64_t dst, src;
    uint32_t entries;
};

struct dims {
    unsigned count;
    struct dim dim[LEATI_FORM_MAX_DIMS + 1];
};

static struct dim dim_of(const struct leati_form *form, unsigned k)
{
    bool listed = (int)k == form->index_dim;

    return (struct dim){.size = form->size[k],
                        .dst = listed && form->index_on_dst ? 0 : form->dst_stride[k],
                        .src = listed && !form->index_on_dst ? 0 : form->src_stride[k],
                        .entries = listed ? 1 : 0};
}

static void put_dim(struct leati_layout_task *task, const struct dim *dim)
{
    task->dim[task->dims++] = (struct leati_task_dim){
        .dst = dim->dst, .src = dim->src, .entries = dim->entries, .by = divisor(dim->size)};
}

static void put_form(const struct leati_form *form, struct leati_layout_task *task)
{
    *task = (struct leati_layout_task){.unit_bytes = form->unit_bytes, .pieces = 1};
    if (form->index_dim >= 0) {
        int64_t stride =
            form->index_on_dst ? form->dst_stride[form->index_dim] : form->src_stride[form->index_dim];

        task->list_dst = form->index_on_dst ? stride : 0;
        task->list_src = form->index_on_dst ? 0 : stride;
        task->list_bound = form->index_bound;
        task->list_entry_bytes = form->index_bytes;
    }
}

/* No memory has as many units as would need more blocks. */
static uint32_t blocks_of(uint64_t blocks)
{
    return blocks < LEATI_TASK_NUMBERS ? (uint32_t)blocks : LEATI_TASK_NUMBERS - 1;
}

/*
 * Shares the items out: the first dimensions become those within blocks, the others go into a block's number. A
 * dimension too large to be counted in 31 bits is cut in pieces, which are a dimension of their own.
 */
static void share_out(struct leati_gpu_layout *gpu, const struct dims *dims, unsigned each)
{
    struct leati_layout_task *task = &gpu->task;
    uint64_t items = 1, last = 1, outer = 1, threads = THREADS_MOST, in_block;
    unsigned k = 0;

    for (; k < dims->count && items < ITEMS_ENOUGH; k++) {
        struct dim dim = dims->dim[k];
        uint64_t piece = (LEATI_TASK_NUMBERS - 1) / items;

        if (dim.size <= piece) {
            put_dim(task, &dim);
            items *= dim.size;
            last = items;
            continue;
        }
        /* Its pieces come first in a block's number. */
        task->pieces = (uint32_t)((dim.size + piece - 1) / piece);
        last = items * (dim.size - (task->pieces - 1) * piece);
        items *= piece;
        dim.size = piece;
        put_dim(task, &dim);
        task->inner = task->dims;
        put_dim(task, &(struct dim){.size = task->pieces,
                                    .dst = dim.dst * (int64_t)piece,
                                    .src = dim.src * (int64_t)piece,
                                    .entries = dim.entries * (uint32_t)piece});
        if (k == 0)
            task->piece_bytes = piece * WORD_BYTES;
        k++;
        break;
    }
    if (task->pieces == 1)
        task->inner = task->dims;
    outer = task->pieces;
    for (; k < dims->count; k++) {
        put_dim(task, &dims->dim[k]);
        outer *= dims->dim[k].size;
    }
    while (threads > THREADS_LEAST && items / (threads * each) * outer < BLOCKS_ENOUGH)
        threads /= 2;
    in_block = threads * each;
    task->items = (uint32_t)items;
    task->last_items = (uint32_t)last;
    task->blocks = divisor((items + in_block - 1) / in_block);
    gpu->block = leat_dim((uint32_t)threads, 1, 1);
    gpu->grid = leat_dim(blocks_of(task->blocks.size * outer), 1, 1);
}

/* ---- sort by sort ---- */

static bool make_elements(const struct leati_form *form, struct leati_gpu_layout *gpu)
{
    struct dims dims = {.count = form->dims};

    for (unsigned k = 0; k < form->dims; k++)
        dims.dim[k] = dim_of(form, k);
    if (!dims.count)
        dims.dim[dims.count++] = (struct dim){.size = 1};
    gpu->kernel = "leat_layout_elements";
    share_out(gpu, &dims, ELEMENTS_EACH);
    return true;
}

/* Whether all addresses on one side, but for those along one dimension, are multiples of 16. */
static bool is_wide(const struct leati_form *form, bool dst, unsigned but)
{
    unsigned align = dst ? form->dst_align : form->src_align;
    const int64_t *stride = dst ? form->dst_stride : form->src_stride;

    if (align % WORD_BYTES)
        return false;
    for (unsigned k = 0; k < form->dims; k++)
        if (k != but && stride[k] % WORD_BYTES)
            return false;
    return true;
}

/* 0 to 4 for 1, 2, 4, 8 and 16 bytes. */
static unsigned unit_number(unsigned unit_bytes)
{
    unsigned k = 0;

    while (1u << k < unit_bytes)
        k++;
    return k;
}

static bool make_rows(const struct leati_form *form, struct leati_gpu_layout *gpu)
{
    static const char *const names[] = {"leat_layout_rows_1", "leat_layout_rows_2", "leat_layout_rows_4",
                                        "leat_layout_rows_8", "leat_layout_rows_16"};
    unsigned unit = form->unit_bytes;
    struct dims dims = {.count = form->dims};
    uint64_t bytes, before;

    if (!form->dims || form->index_dim == 0 || form->dst_stride[0] != unit ||
        (form->src_stride[0] != unit && form->src_stride[0] != 0))
        return false;
    bytes = form->size[0] * unit;
    if (bytes < ROW_LEAST_BYTES)
        return false;
    gpu->task.splits = form->src_stride[0] == 0;
    gpu->task.row_bytes = bytes;

    /* A row that begins within a word has a chunk more. */
    before = is_wide(form, true, 0) ? 0 : WORD_BYTES - unit;
    dims.dim[0] = (struct dim){.size = (bytes + before + WORD_BYTES - 1) / WORD_BYTES,
                               .dst = WORD_BYTES,
                               .src = form->src_stride[0] ? WORD_BYTES : 0};
    for (unsigned k = 1; k < form->dims; k++)
        dims.dim[k] = dim_of(form, k);
    gpu->kernel = names[unit_number(unit)];
    share_out(gpu, &dims, ROWS_EACH(unit));
    return true;
}

/* ---- tiles ---- */

/* The kernels that transpose, by units; their tiles are as in layout_kernels.c. */
struct cut {
    const char *names[5];
    unsigned words_i[5], words_j[5]; /* of 16 bytes */
    unsigned threads[5];
};

static const struct cut small_cut = {{"leat_layout_transpose_1", "leat_layout_transpose_2",
                                      "leat_layout_transpose_4", "leat_layout_transpose_8",
                                      "leat_layout_transpose_16"},
                                     {8, 8, 8, 8, 8},
                                     {8, 8, 8, 8, 8},
                                     {64, 64, 64, 64, 64}};
static const struct cut wide_cut = {{"leat_layout_transpose_wide_1", "leat_layout_transpose_wide_2",
                                     "leat_layout_transpose_wide_4", "leat_layout_transpose_wide_8",
                                     "leat_layout_transpose_wide_16"},
                                    {16, 16, 16, 16, 16},
                                    {8, 16, 16, 16, 16},
                                    {128, 256, 128, 64, 64}};
static const struct cut odd_cut = {{"leat_layout_transpose_odd_1", "leat_layout_transpose_odd_2",
                                    "leat_layout_transpose_odd_4", "leat_layout_transpose_odd_8", NULL},
                                   {8, 8, 8, 8, 8},
                                   {8, 8, 8, 8, 8},
                                   {64, 64, 64, 64, 64}};

/* An axis takes no more dimensions when it has so many bytes: tiles that are not full are few then. */
#define AXIS_ENOUGH_BYTES 4096u

/* Dimensions that one after the other continue a side without gaps. */
struct axis {
    unsigned count;
    unsigned dim[LEATI_FORM_MAX_DIMS];
    uint64_t units;
};

struct axes {
    struct axis i, j; /* along the destination, along the source */
    bool used[LEATI_FORM_MAX_DIMS];
};

static void put_on_axis(const struct leati_form *form, struct axes *axes, struct axis *axis, unsigned k)
{
    axis->units = axis->count ? axis->units * form->size[k] : form->size[k];
    axis->dim[axis->count++] = k;
    axes->used[k] = true;
}

/* The next dimension that continues an axis; false when there is none, or it would be more than 31 bits count. */
static bool grow_axis(const struct leati_form *form, struct axes *axes, struct axis *axis, const int64_t *stride)
{
    unsigned last = axis->dim[axis->count - 1];

    if (axis->units >= LEATI_TASK_NUMBERS)
        return false;
    for (unsigned k = 0; k < form->dims; k++)
        if (!axes->used[k] && (int)k != form->index_dim && stride[last] <= INT64_MAX / (int64_t)form->size[last] &&
            stride[k] == stride[last] * (int64_t)form->size[last] &&
            form->size[k] <= (LEATI_TASK_NUMBERS - 1) / axis->units) {
            put_on_axis(form, axes, axis, k);
            return true;
        }
    return false;
}

/* The shorter axis takes the next dimension first, since one may continue both. */
static bool find_axes(const struct leati_form *form, struct axes *axes)
{
    int dense = leati_form_dense_src(form);
    bool i_grows = true, j_grows = true;
    uint64_t enough = AXIS_ENOUGH_BYTES / form->unit_bytes;

    *axes = (struct axes){.i = {.count = 0}};
    if (form->index_dim >= 0 || !form->dims || form->dst_stride[0] != form->unit_bytes || dense <= 0)
        return false;
    put_on_axis(form, axes, &axes->i, 0);
    put_on_axis(form, axes, &axes->j, (unsigned)dense);
    while (i_grows || j_grows) {
        i_grows = i_grows && axes->i.units < enough;
        j_grows = j_grows && axes->j.units < enough;
        if (i_grows && (!j_grows || axes->i.units <= axes->j.units))
            i_grows = grow_axis(form, axes, &axes->i, form->dst_stride);
        else if (j_grows)
            j_grows = grow_axis(form, axes, &axes->j, form->src_stride);
    }
    return true;
}

/* Whether all lines begin with whole words on one side: all strides but those along the axis itself. */
static bool is_wide_across(const struct leati_form *form, const struct axis *axis, bool dst)
{
    const int64_t *stride = dst ? form->dst_stride : form->src_stride;

    if ((dst ? form->dst_align : form->src_align) % WORD_BYTES)
        return false;
    for (unsigned k = 0; k < form->dims; k++) {
        bool along = false;

        for (unsigned n = 0; n < axis->count; n++)
            along |= axis->dim[n] == k;
        if (!along && stride[k] % WORD_BYTES)
            return false;
    }
    return true;
}

static void put_axis(const struct leati_form *form, const struct axis *axis, struct leati_layout_task *task)
{
    for (unsigned n = 0; n < axis->count; n++) {
        struct dim dim = dim_of(form, axis->dim[n]);

        put_dim(task, &dim);
    }
}

static bool lay_tiles(const struct leati_form *form, const struct axes *axes, const struct cut *cut,
                      struct leati_gpu_layout *gpu)
{
    struct leati_layout_task *task = &gpu->task;
    unsigned unit = unit_number(form->unit_bytes);
    uint64_t tiles_i, tiles_j, blocks;

    task->wide_dst = is_wide_across(form, &axes->i, true);
    task->wide_src = is_wide_across(form, &axes->j, false);
    if (!(task->wide_dst && task->wide_src))
        cut = &odd_cut;
    if (!cut->names[unit])
        return false;
    gpu->kernel = cut->names[unit];
    gpu->tile_i = cut->words_i[unit] * WORD_BYTES / form->unit_bytes;
    gpu->tile_j = cut->words_j[unit] * WORD_BYTES / form->unit_bytes;
    put_axis(form, &axes->i, task);
    task->inner = task->dims;
    put_axis(form, &axes->j, task);
    task->middle = task->dims;
    tiles_i = (axes->i.units + gpu->tile_i - 1) / gpu->tile_i;
    tiles_j = (axes->j.units + gpu->tile_j - 1) / gpu->tile_j;
    blocks = tiles_i * tiles_j;
    for (unsigned k = 0; k < form->dims; k++)
        if (!axes->used[k]) {
            struct dim dim = dim_of(form, k);

            put_dim(task, &dim);
            blocks *= dim.size;
        }
    task->size_i = axes->i.units;
    task->size_j = axes->j.units;
    task->tiles_first = divisor(task->order ? tiles_j : tiles_i);
    task->tiles_second = divisor(task->order ? tiles_i : tiles_j);
    gpu->grid = leat_dim(blocks_of(blocks), 1, 1);
    gpu->block = leat_dim(cut->threads[unit], 1, 1);
    return true;
}

static bool make_small_tiles(const struct leati_form *form, struct leati_gpu_layout *gpu)
{
    struct axes axes;

    return find_axes(form, &axes) && lay_tiles(form, &axes, &small_cut, gpu);
}

static bool make_wide_tiles(const struct leati_form *form, struct leati_gpu_layout *gpu)
{
    struct axes axes;

    return find_axes(form, &axes) && lay_tiles(form, &axes, &wide_cut, gpu);
}

/* The same in the other order: to measure what memory makes of it. */
static bool make_wide_tiles_by_source(const struct leati_form *form, struct leati_gpu_layout *gpu)
{
    gpu->task.order = 1;
    return make_wide_tiles(form, gpu);
}

static bool make_odd_tiles(const struct leati_form *form, struct leati_gpu_layout *gpu)
{
    struct axes axes;

    return find_axes(form, &axes) && lay_tiles(form, &axes, &odd_cut, gpu);
}

/* Units that tiles have room for, over those that there are: 64ths. */
static uint64_t room_64ths(uint64_t units, unsigned tile)
{
    return (units + tile - 1) / tile * tile * 64 / units;
}

/* Wide tiles, unless there were too few of them, or they were emptier than small ones. */
static bool make_tiles(const struct leati_form *form, struct leati_gpu_layout *gpu)
{
    unsigned unit = unit_number(form->unit_bytes), per_word = WORD_BYTES / form->unit_bytes;
    unsigned small = 8 * per_word, wide_i = wide_cut.words_i[unit] * per_word,
             wide_j = wide_cut.words_j[unit] * per_word;
    struct axes axes;

    if (!find_axes(form, &axes) || axes.i.units * form->unit_bytes < TILE_LEAST_BYTES ||
        axes.j.units * form->unit_bytes < TILE_LEAST_BYTES)
        return false;
    if (form->payload_bytes / ((uint64_t)wide_i * wide_j * form->unit_bytes) < 2 * BLOCKS_ENOUGH ||
        room_64ths(axes.i.units, wide_i) * room_64ths(axes.j.units, wide_j) * 8 >
            room_64ths(axes.i.units, small) * room_64ths(axes.j.units, small) * 9)
        return lay_tiles(form, &axes, &small_cut, gpu);
    return lay_tiles(form, &axes, &wide_cut, gpu);
}

/* ---- choosing ---- */

static const struct sort {
    const char *name;
    bool (*make)(const struct leati_form *form, struct leati_gpu_layout *gpu);
} sorts[] = {{"rows", make_rows},
             {"transpose", make_tiles},
             {"elements", make_elements},
             {"transpose-small", make_small_tiles},
             {"transpose-wide", make_wide_tiles},
             {"transpose-wide-by-source", make_wide_tiles_by_source},
             {"transpose-odd", make_odd_tiles}};

#define SORTS (sizeof sorts / sizeof sorts[0])

static bool make(const struct leati_form *form, const struct sort *sort, struct leati_gpu_layout *gpu)
{
    *gpu = (struct leati_gpu_layout){.kernel = NULL};
    if (form->empty)
        return true;
    put_form(form, &gpu->task);
    return sort->make(form, gpu);
}

bool leati_gpu_layout_make_as(const struct leati_form *form, const char *name, struct leati_gpu_layout *gpu)
{
    for (size_t i = 0; i < SORTS; i++)
        if (!strcmp(sorts[i].name, name))
            return make(form, &sorts[i], gpu);
    return false;
}

void leati_gpu_layout_make(const struct leati_form *form, leat_layout_class class_of_plan,
                           struct leati_gpu_layout *gpu)
{
    const char *chosen = leati_option(LEATI_OPTION_LAYOUT_KERNEL);

    (void)class_of_plan;
    if (chosen && leati_gpu_layout_make_as(form, chosen, gpu))
        return;
    for (size_t i = 0; i < SORTS; i++)
        if (make(form, &sorts[i], gpu))
            return;
}

void leati_gpu_layout_argument(const struct leati_form *form, const struct leati_gpu_layout *gpu, void *dst,
                               const void *src, const void *list, uint64_t *wrong,
                               unsigned char argument[LEATI_GPU_LAYOUT_ARGUMENT_BYTES])
{
    struct leati_layout_task task = gpu->task;

    task.dst = (uintptr_t)dst + (uint64_t)form->dst_offset;
    task.src = (uintptr_t)src + (uint64_t)form->src_offset;
    task.list = form->index_dim >= 0 ? (uintptr_t)list : 0;
    task.wrong = form->index_dim >= 0 ? (uintptr_t)wrong : 0;
    memcpy(argument, &task, sizeof task);
}

void leati_gpu_layout_text(const struct leati_gpu_layout *gpu, char *text, size_t text_bytes)
{
    if (!gpu->kernel)
        snprintf(text, text_bytes, "nothing to launch");
    else if (gpu->tile_i)
        snprintf(text, text_bytes, "%s, tiles of %u x %u units of %u bytes, %u blocks of %u threads", gpu->kernel,
                 gpu->tile_i, gpu->tile_j, gpu->task.unit_bytes, gpu->grid.x, gpu->block.x);
    else
        snprintf(text, text_bytes, "%s, %u blocks of %u threads", gpu->kernel, gpu->grid.x, gpu->block.x);
}
