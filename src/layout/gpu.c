/* gpu.c - chooses the GPU kernel for a canonical layout, and fills in its task (gpu.h). */
#include "layout/gpu.h"

#include "base/assert.h"
#include "base/options.h"
#include "layout/gpu_convert.h"
#include "layout/gpu_pixels.h"
#include "layout/gpu_task.h"

#include <stdio.h>
#include <string.h>

#define SECTOR_BYTES 32u

/* The largest and smallest number of threads of a block, and the numbers of items that each thread copies. The
 * last two must be as in layout_kernels.c. */
#define THREADS_MOST 256u
#define THREADS_LEAST 64u
#define ELEMENTS_EACH 4u
#define ROWS_EACH 4u

/* Each thread divides the number of each item by the sizes of the dimensions that a block counts. The block
 * number is divided only once for all items. So a block counts only as many dimensions as are needed for this
 * many items. */
#define ITEMS_ENOUGH (UINT64_C(1) << 16)

/* The length of the shortest rows that the rows kernels copy, and of the shortest rows for which the kernels for
 * strided rows are chosen. With shorter rows, most of their words would be the first or the last of a row. */
#define ROW_LEAST_BYTES 16u
#define STRIDED_LEAST_BYTES 64u

/* The length of the shortest side for tiles. With a shorter side, tiles would be mostly empty. */
#define TILE_LEAST_BYTES 32u

/* A GPU's memory moves tiles with lines of LINE_BYTES about as fast as tiles with longer lines. For tiles of
 * 1-byte units BYTE_LINE_BYTES are enough, because ND tiles of such units are slow. Rows must be longer, because
 * each row goes to another place: at least ROW_BYTES, or FAR_ROW_BYTES if the sources of rows are more than
 * FAR_BYTES apart. */
#define LINE_BYTES 64u
#define ROW_BYTES 128u
#define FAR_ROW_BYTES 176u
#define FAR_BYTES (64 << 10)
#define BYTE_LINE_BYTES 48u

/*
 * Distributes the items over blocks and threads: the numbers of items within a block count the first dimensions,
 * the block number counts the others. A dimension that is too large for a count of 31 bits is cut into pieces, and
 * the pieces become a dimension of their own. each: the number of items that a thread copies; copies: the number
 * of copies of the launch.
 */
static void share_out(struct leati_gpu_layout *gpu, const struct dims *dims, unsigned each, uint64_t copies)
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
        /* Cut the dimension into pieces of about the same size. The pieces are the fastest dimension of the block
         * number. */
        task->pieces = (uint32_t)((dim.size + piece - 1) / piece);
        piece = (dim.size + task->pieces - 1) / task->pieces;
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
    while (threads > THREADS_LEAST && items / (threads * each) * outer * copies < BLOCKS_ENOUGH)
        threads /= 2;
    in_block = threads * each;
    task->items = (uint32_t)items;
    task->last_items = (uint32_t)last;
    task->blocks = divisor((items + in_block - 1) / in_block);
    gpu->block = leat_dim((uint32_t)threads, 1, 1);
    gpu->grid = leat_dim(blocks_of(task->blocks.size * outer), 1, 1);
}

/* ---- single units and rows ---- */

static bool make_elements(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct dims dims = {.count = canonical->dims};

    for (unsigned k = 0; k < canonical->dims; k++)
        dims.dim[k] = dim_of(canonical, k);
    if (!dims.count)
        dims.dim[dims.count++] = (struct dim){.size = 1};
    gpu->module = LEATI_BUILTIN_ELEMENTS;
    gpu->kernel = "leat_layout_elements";
    share_out(gpu, &dims, ELEMENTS_EACH, leati_canonical_copies(canonical));
    return true;
}

/* Returns true if on one side the first address and all strides, except that of dimension `but`, are multiples of
 * WORD_BYTES. */
static bool is_wide(const struct leati_canonical *canonical, bool dst, unsigned but)
{
    unsigned align = dst ? canonical->dst_align : canonical->src_align;
    const int64_t *stride = dst ? canonical->dst_stride : canonical->src_stride;

    if (align % WORD_BYTES)
        return false;
    for (unsigned k = 0; k < canonical->dims; k++)
        if (k != but && stride[k] % WORD_BYTES)
            return false;
    return true;
}

/* Fills in a task for a kernel that copies rows in words of 16 bytes of the destination. names: the kernels for
 * the unit sizes; src: bytes of the source from one word to the next, without those of a list. Returns false if
 * the destination has no rows, or only short ones. */
static bool put_rows(const struct leati_canonical *canonical, const char *const names[5], int64_t src,
                     struct leati_gpu_layout *gpu)
{
    unsigned unit = canonical->unit_bytes;
    struct dims dims = {.count = canonical->dims};
    uint64_t bytes, before;

    if (!canonical->dims || canonical->dst_stride[0] != unit)
        return false;
    bytes = canonical->size[0] * unit;
    if (bytes < ROW_LEAST_BYTES)
        return false;
    gpu->task.row_bytes = bytes;

    /* A row that does not begin at the start of a word of 16 bytes may touch one word more. */
    before = is_wide(canonical, true, 0) ? 0 : WORD_BYTES - unit;
    dims.dim[0] =
        (struct dim){.size = (bytes + before + WORD_BYTES - 1) / WORD_BYTES, .dst = WORD_BYTES, .src = src};
    for (unsigned k = 1; k < canonical->dims; k++)
        dims.dim[k] = dim_of(canonical, k);
    gpu->module = LEATI_BUILTIN_ROWS_1 + unit_number(unit);
    gpu->kernel = names[unit_number(unit)];
    share_out(gpu, &dims, ROWS_EACH, leati_canonical_copies(canonical));
    return true;
}

static bool make_rows(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    static const char *const names[] = {"leat_layout_rows_1", "leat_layout_rows_2", "leat_layout_rows_4",
                                        "leat_layout_rows_8", "leat_layout_rows_16"};
    int64_t stride = canonical->dims ? canonical->src_stride[0] : 0;

    if (canonical->index_dim == 0 || (stride != canonical->unit_bytes && stride != 0))
        return false;
    gpu->task.splits = stride == 0;
    return put_rows(canonical, names, stride ? WORD_BYTES : 0, gpu);
}

/* Makes a task for rows of the destination whose units have any stride on the source, or are chosen by a list. */
static bool make_strided(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    static const char *const strided[] = {"leat_layout_strided_1", "leat_layout_strided_2",
                                          "leat_layout_strided_4", "leat_layout_strided_8", NULL};
    static const char *const listed[] = {"leat_layout_listed_1", "leat_layout_listed_2", "leat_layout_listed_4",
                                         "leat_layout_listed_8", NULL};
    unsigned unit = canonical->unit_bytes;
    int64_t stride;

    if (!canonical->dims || unit == WORD_BYTES)
        return false;
    /* The kernel counts the entries of the list in 31 bits. */
    if (canonical->index_dim == 0)
        return !canonical->index_on_dst && canonical->size[0] < LEATI_TASK_NUMBERS - WORD_BYTES &&
               put_rows(canonical, listed, 0, gpu);
    return !__builtin_mul_overflow(canonical->src_stride[0], (int64_t)(WORD_BYTES / unit), &stride) &&
           put_rows(canonical, strided, stride, gpu);
}

/* ---- tiles ---- */

/* The transposing kernels for the five unit sizes, and the shapes of their tiles, which must be as in
 * layout_kernels.c. The arrays are indexed by unit_number(). */
struct gpu_cut {
    enum leati_builtin module; /* the module for units of 1 byte; the modules for larger units follow it */
    const char *names[5];
    unsigned words_i[5], words_j[5]; /* sides of a tile along the destination and the source, in 16-byte words */
    unsigned threads[5];
};

#define BY_UNITS(stem)                                                                                            \
    {                                                                                                             \
        stem "1", stem "2", stem "4", stem "8", stem "16"                                                         \
    }

/* Kernels for lines that begin at words of 16 bytes, and kernels for lines that begin anywhere. There is one such
 * pair for small tiles and one for wide tiles. Their shapes were the fastest on an H200. */
struct cuts {
    struct gpu_cut on_words, anywhere;
};

static const struct cuts small_cuts = {{LEATI_BUILTIN_TILES_1,
                                        BY_UNITS("leat_layout_transpose_"),
                                        {8, 8, 8, 8, 8},
                                        {8, 8, 8, 8, 8},
                                        {64, 64, 64, 64, 64}},
                                       {LEATI_BUILTIN_TILES_1,
                                        BY_UNITS("leat_layout_transpose_odd_"),
                                        {8, 8, 8, 8, 8},
                                        {8, 8, 8, 8, 8},
                                        {64, 64, 64, 64, 64}}};

static const struct cuts wide_cuts = {{LEATI_BUILTIN_WIDE_1,
                                       BY_UNITS("leat_layout_transpose_wide_"),
                                       {8, 16, 16, 16, 16},
                                       {16, 16, 16, 16, 16},
                                       {128, 256, 128, 64, 64}},
                                      {LEATI_BUILTIN_WIDE_1,
                                       BY_UNITS("leat_layout_transpose_wide_odd_"),
                                       {16, 16, 16, 16, 16},
                                       {8, 8, 8, 16, 16},
                                       {128, 128, 128, 64, 64}}};

/*
 * Wide tiles that write longer pieces of fewer lines. They are used for units of 1 byte if lines begin inside
 * sectors, so that fewer sectors are written in parts. They are also used for units of 4 bytes if lines begin
 * anywhere and a side of the tile has several dimensions, because then the lines are further apart.
 */
static const struct cuts long_cuts = {{LEATI_BUILTIN_WIDE_1,
                                       {"leat_layout_transpose_long_1", NULL, NULL, NULL, NULL},
                                       {16, 0, 0, 0, 0},
                                       {8, 0, 0, 0, 0},
                                       {128, 0, 0, 0, 0}},
                                      {LEATI_BUILTIN_WIDE_1,
                                       {NULL, NULL, "leat_layout_transpose_long_odd_4", NULL, NULL},
                                       {0, 0, 32, 0, 0},
                                       {0, 0, 8, 0, 0},
                                       {0, 0, 128, 0, 0}}};

/* An axis of this length gets no more dimensions, because only a small part of its tiles is partly empty. */
#define AXIS_ENOUGH_BYTES 4096u

/* The dimensions along one side of the tiles. They continue each other without gaps, so they count as one
 * dimension. */
struct axis {
    unsigned count;
    unsigned dim[LEATI_CANONICAL_MAX_DIMS];
    uint64_t units;
};

struct axes {
    struct axis i, j; /* i is contiguous on the destination, j on the source */
    bool used[LEATI_CANONICAL_MAX_DIMS];
};

static void put_on_axis(const struct leati_canonical *canonical, struct axes *axes, struct axis *axis, unsigned k)
{
    axis->units = axis->count ? axis->units * canonical->size[k] : canonical->size[k];
    axis->dim[axis->count++] = k;
    axes->used[k] = true;
}

/* Adds to an axis the dimension that continues it without a gap. Returns false if there is none, or if the axis
 * would have more units than 31 bits can count. */
static bool grow_axis(const struct leati_canonical *canonical, struct axes *axes, struct axis *axis,
                      const int64_t *stride)
{
    unsigned last = axis->dim[axis->count - 1];

    if (axis->units >= LEATI_TASK_NUMBERS)
        return false;
    for (unsigned k = 0; k < canonical->dims; k++)
        if (!axes->used[k] && (int)k != canonical->index_dim &&
            stride[last] <= INT64_MAX / (int64_t)canonical->size[last] &&
            stride[k] == stride[last] * (int64_t)canonical->size[last] &&
            canonical->size[k] <= (LEATI_TASK_NUMBERS - 1) / axis->units) {
            put_on_axis(canonical, axes, axis, k);
            return true;
        }
    return false;
}

/* Finds the two axes of tiles. One dimension may continue both axes, so the shorter axis gets the next dimension.
 * Returns false if tiles cannot copy this layout. */
static bool find_axes(const struct leati_canonical *canonical, struct axes *axes)
{
    int dense = leati_canonical_dense_src(canonical);
    bool i_grows = true, j_grows = true;
    uint64_t enough = AXIS_ENOUGH_BYTES / canonical->unit_bytes;

    *axes = (struct axes){.i = {.count = 0}};
    if (canonical->index_dim >= 0 || !canonical->dims || canonical->dst_stride[0] != canonical->unit_bytes ||
        dense <= 0)
        return false;
    put_on_axis(canonical, axes, &axes->i, 0);
    put_on_axis(canonical, axes, &axes->j, (unsigned)dense);
    while (i_grows || j_grows) {
        i_grows = i_grows && axes->i.units < enough;
        j_grows = j_grows && axes->j.units < enough;
        if (i_grows && (!j_grows || axes->i.units <= axes->j.units))
            i_grows = grow_axis(canonical, axes, &axes->i, canonical->dst_stride);
        else if (j_grows)
            j_grows = grow_axis(canonical, axes, &axes->j, canonical->src_stride);
    }
    return true;
}

/* Returns true if on one side all lines along the axis begin at multiples of bytes. Checks the strides of the
 * other dimensions, but checks only that the first address is a multiple of WORD_BYTES, because a plan knows the
 * alignment only up to 16. Usually the first address is also aligned to sectors, because allocators align memory
 * to them. */
static bool lies_on(const struct leati_canonical *canonical, const struct axis *axis, bool dst, unsigned bytes)
{
    const int64_t *stride = dst ? canonical->dst_stride : canonical->src_stride;

    if ((dst ? canonical->dst_align : canonical->src_align) % WORD_BYTES)
        return false;
    for (unsigned k = 0; k < canonical->dims; k++) {
        bool along = false;

        for (unsigned n = 0; n < axis->count; n++)
            along |= axis->dim[n] == k;
        if (!along && stride[k] % bytes)
            return false;
    }
    return true;
}

static void put_axis(const struct leati_canonical *canonical, const struct axis *axis,
                     struct leati_layout_task *task)
{
    for (unsigned n = 0; n < axis->count; n++) {
        struct dim dim = dim_of(canonical, axis->dim[n]);

        put_dim(task, &dim);
    }
}

/*
 * Returns true if the lines of the destination are so aligned that tiles need not overlap along them. If lines
 * begin at words but inside sectors, writing sectors in parts usually costs more than letting tiles overlap. For
 * small tiles and for units of 1 byte overlap costs more (measured on an H200).
 */
static bool takes_lines(const struct leati_canonical *canonical, const struct axes *axes, const struct cuts *cuts)
{
    return lies_on(canonical, &axes->i, true,
                   cuts == &small_cuts || canonical->unit_bytes == 1 ? WORD_BYTES : SECTOR_BYTES);
}

/* Chooses a kernel among cuts, the small or the wide tiles. odd: chooses the kernel for lines that begin anywhere,
 * even if all lines begin at words. */
static const struct gpu_cut *find_cut(const struct leati_canonical *canonical, const struct axes *axes,
                                      const struct cuts *cuts, bool odd)
{
    unsigned unit = unit_number(canonical->unit_bytes);

    if (!odd && takes_lines(canonical, axes, cuts) && lies_on(canonical, &axes->j, false, WORD_BYTES))
        return cuts == &wide_cuts && long_cuts.on_words.names[unit] &&
                       !lies_on(canonical, &axes->i, true, SECTOR_BYTES)
                   ? &long_cuts.on_words
                   : &cuts->on_words;
    return cuts == &wide_cuts && long_cuts.anywhere.names[unit] && (axes->i.count > 1 || axes->j.count > 1)
               ? &long_cuts.anywhere
               : &cuts->anywhere;
}

/* Fills in the dimensions of a task and the grid for tiles of gpu->tile_i x gpu->tile_j units, with task->step_i
 * units from one tile to the next. */
static void put_tiles(const struct leati_canonical *canonical, const struct axes *axes,
                      struct leati_gpu_layout *gpu)
{
    struct leati_layout_task *task = &gpu->task;
    uint64_t tiles_i = (axes->i.units + task->step_i - 1) / task->step_i;
    uint64_t tiles_j = (axes->j.units + gpu->tile_j - 1) / gpu->tile_j, blocks = tiles_i * tiles_j;

    put_axis(canonical, &axes->i, task);
    task->inner = task->dims;
    put_axis(canonical, &axes->j, task);
    task->middle = task->dims;
    for (unsigned k = 0; k < canonical->dims; k++)
        if (!axes->used[k]) {
            struct dim dim = dim_of(canonical, k);

            put_dim(task, &dim);
            blocks *= dim.size;
        }
    task->size_i = axes->i.units;
    task->size_j = axes->j.units;
    task->tiles_i = divisor(tiles_i);
    task->tiles_j = divisor(tiles_j);
    gpu->grid = leat_dim(blocks_of(blocks), 1, 1);
}

/* Fills in the task and the launch of a kernel that transposes by tiles. */
static bool lay_tiles(const struct leati_canonical *canonical, const struct axes *axes, const struct cuts *cuts,
                      bool odd, struct leati_gpu_layout *gpu)
{
    const struct gpu_cut *cut = find_cut(canonical, axes, cuts, odd);
    struct leati_layout_task *task = &gpu->task;
    unsigned unit = unit_number(canonical->unit_bytes);

    gpu->module = cut->module + unit;
    gpu->kernel = cut->names[unit];
    gpu->tile_i = cut->words_i[unit] * WORD_BYTES / canonical->unit_bytes;
    gpu->tile_j = cut->words_j[unit] * WORD_BYTES / canonical->unit_bytes;
    task->step_i = gpu->tile_i;
    task->overlap = odd || !takes_lines(canonical, axes, cuts);
    if (task->overlap && axes->i.units > gpu->tile_i)
        task->step_i -= SECTOR_BYTES / canonical->unit_bytes;
    put_tiles(canonical, axes, gpu);
    gpu->block = leat_dim(cut->threads[unit], 1, 1);
    return true;
}

static bool make_small_tiles(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct axes axes;

    return find_axes(canonical, &axes) && lay_tiles(canonical, &axes, &small_cuts, false, gpu);
}

static bool make_wide_tiles(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct axes axes;

    return find_axes(canonical, &axes) && lay_tiles(canonical, &axes, &wide_cuts, false, gpu);
}

static bool make_odd_tiles(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct axes axes;

    return find_axes(canonical, &axes) && lay_tiles(canonical, &axes, &small_cuts, true, gpu);
}

static bool make_wide_odd_tiles(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct axes axes;

    return find_axes(canonical, &axes) && lay_tiles(canonical, &axes, &wide_cuts, true, gpu);
}

/* Returns, in 64ths, how many times more units the tiles along an axis have room for than the axis has. */
static uint64_t room_64ths(uint64_t units, unsigned tile)
{
    return (units + tile - 1) / tile * tile * 64 / units;
}

/* Returns true if wide tiles are better than small ones: there are enough of them for the GPU, and they do not have
 * much more unused room. On an H200 wide tiles were faster with up to 1.5 times the room of small tiles, and slower
 * with twice the room. */
static bool are_wide_tiles_best(const struct leati_canonical *canonical, const struct axes *axes)
{
    unsigned unit = unit_number(canonical->unit_bytes), per_word = WORD_BYTES / canonical->unit_bytes;
    unsigned small = small_cuts.on_words.words_i[unit] * per_word;
    const struct gpu_cut *wide = find_cut(canonical, axes, &wide_cuts, false);
    unsigned wide_i = wide->words_i[unit] * per_word, wide_j = wide->words_j[unit] * per_word;

    return canonical->payload_bytes / ((uint64_t)wide_i * wide_j * canonical->unit_bytes) >= 2 * BLOCKS_ENOUGH &&
           room_64ths(axes->i.units, wide_i) * room_64ths(axes->j.units, wide_j) * 2 <=
               room_64ths(axes->i.units, small) * room_64ths(axes->j.units, small) * 3;
}

static bool make_tiles(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct axes axes;

    if (!find_axes(canonical, &axes))
        return false;
    return lay_tiles(canonical, &axes, are_wide_tiles_best(canonical, &axes) ? &wide_cuts : &small_cuts, false, gpu);
}

/*
 * Returns true if so much room of tiles would be unused that ND tiles are faster. The limits were measured. For
 * units of 1 and 2 bytes tiles are faster even if they are two thirds empty, because ND tiles of narrow units are
 * slow. If lines do not begin at sectors, which makes tiles slower, tiles may be only a fifth empty, and small tiles
 * of 8 bytes likewise, if a side has several dimensions.
 */
static bool are_tiles_empty(const struct leati_canonical *canonical)
{
    unsigned unit = unit_number(canonical->unit_bytes), per_word = WORD_BYTES / canonical->unit_bytes;
    struct axes axes;
    uint64_t room;

    if (!find_axes(canonical, &axes))
        return true;
    room = room_64ths(axes.i.units, small_cuts.on_words.words_i[unit] * per_word) *
           room_64ths(axes.j.units, small_cuts.on_words.words_j[unit] * per_word);
    if (canonical->unit_bytes == 1 && lies_on(canonical, &axes.i, true, WORD_BYTES) &&
        lies_on(canonical, &axes.j, false, WORD_BYTES))
        return room > 64 * 64 * 3;
    if (lies_on(canonical, &axes.i, true, SECTOR_BYTES) && lies_on(canonical, &axes.j, false, WORD_BYTES))
        if (canonical->unit_bytes != 8 || axes.i.count + axes.j.count == 2 || are_wide_tiles_best(canonical, &axes))
            return canonical->unit_bytes == 2 ? room > 64 * 64 * 3 : room * 7 > 64 * 64 * 10;
    return room * 8 > 64 * 64 * 10;
}

/* Returns the length of the shorter axis in bytes, or 0 if tiles cannot copy this layout. */
static uint64_t shorter_axis(const struct leati_canonical *canonical)
{
    struct axes axes;

    if (!find_axes(canonical, &axes))
        return 0;
    return (axes.i.units < axes.j.units ? axes.i.units : axes.j.units) * canonical->unit_bytes;
}

/* ---- triples: tiles of elements of three units ---- */

/* The largest unit of a triple. Larger ones fill the words of ND tiles. */
#define TRIPLE_UNIT_MOST_BYTES 4u

/* If tiles had room for more than two and a half times the triples, ND tiles are taken. */
#define TRIPLES_ROOM_64THS (64 * 64 * 5 / 2)

/* Describes a copy of triples as one of single units of three times the size: *triples is then only fit for the
 * functions on axes. Returns false if the layout has no triples. */
static bool find_triples(const struct leati_canonical *canonical, struct leati_canonical *triples,
                         struct axes *axes)
{
    int64_t unit = canonical->unit_bytes;

    if (canonical->dims < 3 || canonical->unit_bytes > TRIPLE_UNIT_MOST_BYTES || canonical->index_dim >= 0 ||
        canonical->size[0] != 3 || canonical->dst_stride[0] != unit || canonical->src_stride[0] != unit)
        return false;
    *triples = *canonical;
    triples->unit_bytes *= 3;
    triples->dims--;
    for (unsigned k = 0; k < triples->dims; k++) {
        triples->size[k] = canonical->size[k + 1];
        triples->dst_stride[k] = canonical->dst_stride[k + 1];
        triples->src_stride[k] = canonical->src_stride[k + 1];
    }
    return find_axes(triples, axes);
}

static bool make_triples(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    static const char *const names[] = {"leat_layout_triples_1", "leat_layout_triples_2", "leat_layout_triples_4"};
    struct leati_layout_task *task = &gpu->task;
    struct leati_canonical triples;
    struct axes axes;

    if (!find_triples(canonical, &triples, &axes))
        return false;
    gpu->module = LEATI_BUILTIN_TRIPLES;
    gpu->kernel = names[unit_number(canonical->unit_bytes)];
    gpu->tile_i = LEATI_TRIPLES_I;
    gpu->tile_j = LEATI_TRIPLES_LINE_BYTES / triples.unit_bytes;
    gpu->block = leat_dim(LEATI_TRIPLES_THREADS, 1, 1);
    task->odd_src = !lies_on(&triples, &axes.j, false, WORD_BYTES);
    task->odd_dst = !lies_on(&triples, &axes.i, true, SECTOR_BYTES);
    task->step_i = gpu->tile_i;
    /* The overlap is as many triples as contain all but one byte of a sector. */
    if (task->odd_dst && axes.i.units > gpu->tile_i)
        task->step_i -= (SECTOR_BYTES - 1 + triples.unit_bytes - 1) / triples.unit_bytes;
    put_tiles(&triples, &axes, gpu);
    return true;
}

/* With units of 4 bytes, ND tiles reach 0.73 of a copy at 133 MB, where triples reach 0.68, and 0.41 at 531 MB. */
#define TRIPLES_OF_4_LEAST_BYTES ((uint64_t)256 << 20)

/* Returns true if the kernel for triples is expected to be better than ND tiles: there are enough tiles for the
 * multiprocessors, and most of their room is used. ND tiles are kept for units of 4 bytes if all lines of the
 * destination begin at sectors, because there they are almost as fast as other tiles, or if the array is smaller than
 * 256 MiB. */
static bool are_triples_best(const struct leati_canonical *canonical)
{
    struct leati_canonical triples;
    struct axes axes;
    unsigned tile_j;

    if (!find_triples(canonical, &triples, &axes))
        return false;
    if (canonical->unit_bytes == TRIPLE_UNIT_MOST_BYTES &&
        (canonical->payload_bytes < TRIPLES_OF_4_LEAST_BYTES || lies_on(&triples, &axes.i, true, SECTOR_BYTES)))
        return false;
    tile_j = LEATI_TRIPLES_LINE_BYTES / triples.unit_bytes;
    return canonical->payload_bytes / (LEATI_TRIPLES_I * LEATI_TRIPLES_LINE_BYTES) >= 2 * BLOCKS_ENOUGH &&
           room_64ths(axes.i.units, LEATI_TRIPLES_I) * room_64ths(axes.j.units, tile_j) <= TRIPLES_ROOM_64THS;
}

/* ---- n-dimensional (ND) tiles ---- */

#define ND_TILE_ROOM_BYTES 20480u /* shared memory for an ND tile; as in layout_kernels.c */
#define ND_TILE_THREADS 256u
#define ND_TILES_PER_BLOCK 16u
#define ND_TILE_SINGLE_SLOTS 12u

#define ND_TILE_LITTLE_BYTES 2048u /* the size of ND tiles that is tried first for small copies */
#define BANKS 32u                  /* number of banks of shared memory, which are 4 bytes wide */

/* The maximum number of blocks that copy one ND tile each. For more tiles, each block copies several. */
#define ND_TILE_BLOCKS_ENOUGH 1024u

/* The shortest lines of ND tiles. With shorter lines they are no faster than the kernel for single units. */
#define ND_TILE_LEAST_BYTES 32u

/* ND tiles with lines of at least this length are faster than tiles that are partly empty. */
#define ND_TILE_LONG_BYTES 128u

/* The ND tile kernels, indexed by unit_number(). slots is the number of words, of at least 4 bytes, that each
 * thread copies. single_name is the kernel for lines that cannot be moved in such words. */
static const struct nd_kernel {
    const char *name, *single_name;
    unsigned slots;
} nd_kernels[] = {{"leat_layout_nd_tile_1", "leat_layout_nd_tile_single_1", 8},
                  {"leat_layout_nd_tile_2", "leat_layout_nd_tile_single_2", 8},
                  {"leat_layout_nd_tile_4", NULL, 8},
                  {"leat_layout_nd_tile_8", NULL, 8},
                  {"leat_layout_nd_tile_16", NULL, 4}};

/* Returns the size in bytes of the words that threads move: 4, or the size of a unit if that is larger. */
static unsigned word_bytes_of(const struct leati_canonical *canonical)
{
    return canonical->unit_bytes < 4 ? 4 : canonical->unit_bytes;
}

/* Returns the size in bytes of ND tiles to try first. For small copies it is smaller, so that there are enough
 * tiles for all multiprocessors. */
static uint64_t most_in_nd_tile(const struct leati_canonical *canonical)
{
    uint64_t full = (uint64_t)nd_kernels[unit_number(canonical->unit_bytes)].slots * ND_TILE_THREADS *
                    word_bytes_of(canonical);
    uint64_t most = canonical->payload_bytes / (4 * BLOCKS_ENOUGH) * leati_canonical_copies(canonical);

    return most > full ? full : most < ND_TILE_LITTLE_BYTES ? ND_TILE_LITTLE_BYTES : most;
}

/* Returns the size of ND tiles to try after tiles of `most` bytes were not possible. This is half of `most`, but
 * the size that the kernels for single units can copy is not skipped. */
static uint64_t less_in_nd_tile(const struct leati_canonical *canonical, uint64_t most)
{
    uint64_t single = ND_TILE_SINGLE_SLOTS * ND_TILE_THREADS * canonical->unit_bytes;

    return most > single && most / 2 < single ? single : most / 2;
}

struct nd_tile {
    uint64_t part[LEATI_CANONICAL_MAX_DIMS]; /* size of the tile in each dimension */
    uint64_t units;                          /* number of units in the tile, the product of all parts */
    struct axis dst, src;                    /* on each side, the dimensions that continue dimension 0 or the
                                                dense dimension without gaps */
    int cut; /* the cut dimension, whose part need not divide its size, so the last tile is shorter; -1: none */
};

/* Sets *axis to dimension first and all dimensions that continue it without gaps on a side. A dimension may be on
 * the axes of both sides. */
static void follow(const struct leati_canonical *canonical, unsigned first, const int64_t *stride,
                   struct axis *axis)
{
    struct axes all = {.i = {.count = 0}};

    put_on_axis(canonical, &all, &all.i, first);
    while (all.i.count < canonical->dims && grow_axis(canonical, &all, &all.i, stride))
        ;
    *axis = all.i;
}

/* Returns the length of the lines of an ND tile on a side: the number of units that are contiguous there. */
static uint64_t run_of(const struct leati_canonical *canonical, const struct nd_tile *tile,
                       const struct axis *axis)
{
    uint64_t run = 1;

    for (unsigned n = 0; n < axis->count; n++) {
        run *= tile->part[axis->dim[n]];
        if (tile->part[axis->dim[n]] < canonical->size[axis->dim[n]])
            break;
    }
    return run;
}

/* Doubles the tile's part of the first dimension of an axis that is not completely in the tile yet. Returns false
 * if all of them are, or if the tile would have more than `most` bytes. */
static bool grow_nd_tile(const struct leati_canonical *canonical, struct nd_tile *tile, const struct axis *axis,
                         uint64_t most)
{
    for (unsigned n = 0; n < axis->count; n++) {
        unsigned k = axis->dim[n];
        uint64_t more = tile->part[k] * 2 < canonical->size[k] ? tile->part[k] * 2 : canonical->size[k];

        if (tile->part[k] == canonical->size[k])
            continue;
        if (tile->units / tile->part[k] * more * canonical->unit_bytes > most)
            return false;
        tile->units = tile->units / tile->part[k] * more;
        tile->part[k] = more;
        return true;
    }
    return false;
}

/* Returns by how many bytes the lines of a side become longer if the part of the cut dimension grows by 1. Returns
 * 0 if the cut dimension does not continue the lines. */
static uint64_t line_step(const struct leati_canonical *canonical, const struct nd_tile *tile,
                          const struct axis *axis)
{
    uint64_t below = canonical->unit_bytes;

    for (unsigned n = 0; n < axis->count; n++) {
        if (axis->dim[n] == (unsigned)tile->cut)
            return below;
        below *= tile->part[axis->dim[n]];
        if (tile->part[axis->dim[n]] < canonical->size[axis->dim[n]])
            break;
    }
    return 0;
}

/* Makes the part of the cut dimension as large as a tile of `most` bytes allows. If possible, chooses a part with
 * which lines end at the bounds of sectors. */
static void fill_nd_tile(const struct leati_canonical *canonical, struct nd_tile *tile, uint64_t most)
{
    uint64_t others = tile->units / tile->part[tile->cut], room = most / canonical->unit_bytes / others, step = 1;

    LEATI_ASSUME(room > 0);
    while (step < SECTOR_BYTES && (line_step(canonical, tile, &tile->dst) * step % SECTOR_BYTES ||
                                   line_step(canonical, tile, &tile->src) * step % SECTOR_BYTES))
        step *= 2;
    while (step > room)
        step /= 2;
    tile->part[tile->cut] = room < canonical->size[tile->cut] ? room / step * step : canonical->size[tile->cut];
    tile->units = others * tile->part[tile->cut];
}

/* Returns the mean of a number that is proportional to the part of the cut dimension, over all pieces into which tiles
 * divide that dimension. The last piece may be much shorter than the others. */
static uint64_t mean_of(const struct leati_canonical *canonical, const struct nd_tile *tile, uint64_t number)
{
    uint64_t size, part, pieces;

    if (tile->cut < 0)
        return number;
    size = canonical->size[tile->cut];
    part = tile->part[tile->cut];
    pieces = (size + part - 1) / part;
    /* With so many pieces the last one does not matter, and the product could overflow. */
    return pieces > UINT32_MAX ? number : number * size / (part * pieces);
}

/* Returns true if all lines of a side begin and end at the bounds of sectors, except the shorter ones of the cut
 * dimension's last piece, if the first address is at a bound. */
static bool are_lines_on_sectors(const struct leati_canonical *canonical, const struct nd_tile *tile, bool dst)
{
    const struct axis *axis = dst ? &tile->dst : &tile->src;
    const int64_t *stride = dst ? canonical->dst_stride : canonical->src_stride;
    uint64_t run = 1;
    bool inside[LEATI_CANONICAL_MAX_DIMS] = {false};

    for (unsigned n = 0; n < axis->count && run < run_of(canonical, tile, axis); n++) {
        inside[axis->dim[n]] = true;
        run *= tile->part[axis->dim[n]];
    }
    if (run * canonical->unit_bytes % SECTOR_BYTES)
        return false;
    for (unsigned k = 0; k < canonical->dims; k++)
        if (!inside[k] && stride[k] % (int64_t)SECTOR_BYTES)
            return false;
    return true;
}

/*
 * Returns the estimated overhead of the tile's lines on a side, in 1024ths of their bytes. It is the cost of sectors
 * that a line touches only in part, and of words that are not whole. A sector that is written in part costs twice as
 * much as one that is read in part (measured on an H200), because the memory reads it first.
 */
static uint64_t line_waste(const struct leati_canonical *canonical, const struct nd_tile *tile, bool dst)
{
    const struct axis *axis = dst ? &tile->dst : &tile->src;
    uint64_t bytes = run_of(canonical, tile, axis) * canonical->unit_bytes, mean = bytes, sectors = 1;

    if (tile->cut >= 0 && line_step(canonical, tile, axis))
        mean = mean_of(canonical, tile, bytes);
    if (!are_lines_on_sectors(canonical, tile, dst))
        sectors = dst ? 4 : 2;
    if (bytes % 4)
        sectors += 2;
    return sectors * SECTOR_BYTES * 1024 / mean;
}

/* Returns a number by which tiles are compared; lower is better. It is the overhead of the lines on both sides,
 * plus a cost for tiles that have fewer than `most` bytes on average. */
static uint64_t nd_tile_waste(const struct leati_canonical *canonical, const struct nd_tile *tile, uint64_t most)
{
    return line_waste(canonical, tile, true) + line_waste(canonical, tile, false) +
           256 * most / mean_of(canonical, tile, tile->units * canonical->unit_bytes);
}

/* Decides which dimension is cut. After both sides have grown, two dimensions may be only partly in the tile. Then
 * one of them must get a part that divides its size. Tries all such parts of both dimensions and keeps the tile
 * with the least waste. */
static void settle_cuts(const struct leati_canonical *canonical, struct nd_tile *tile, uint64_t most)
{
    struct nd_tile best = *tile;
    uint64_t least = UINT64_MAX;
    unsigned cut[2], cuts = 0;

    for (unsigned k = 0; k < canonical->dims && cuts < 2; k++)
        if (tile->part[k] > 1 && tile->part[k] < canonical->size[k])
            cut[cuts++] = k;
    best.cut = cuts ? (int)cut[0] : -1;
    if (cuts == 1)
        fill_nd_tile(canonical, &best, most);
    for (unsigned n = 0; cuts == 2 && n < 2; n++) {
        unsigned even = cut[!n];
        uint64_t others = tile->units / tile->part[cut[n]] / tile->part[even];
        uint64_t end = tile->part[even] * 4 < canonical->size[even] ? tile->part[even] * 4 : canonical->size[even];

        for (uint64_t part = 1; part <= end && others * part * canonical->unit_bytes <= most; part++) {
            struct nd_tile other = *tile;

            if (canonical->size[even] % part)
                continue;
            other.cut = (int)cut[n];
            other.part[even] = part;
            other.part[cut[n]] = 1;
            other.units = others * part;
            fill_nd_tile(canonical, &other, most);
            if (nd_tile_waste(canonical, &other, most) < least) {
                least = nd_tile_waste(canonical, &other, most);
                best = other;
            }
        }
    }
    *tile = best;
}

/* Finds the shape of an ND tile of at most `most` bytes. Makes the lines of both sides equally long, as far as
 * possible. Returns false if ND tiles cannot copy this layout. */
static bool find_nd_tile(const struct leati_canonical *canonical, uint64_t most, struct nd_tile *tile)
{
    int dense = leati_canonical_dense_src(canonical);
    bool dst_grows = true, src_grows = true;

    *tile = (struct nd_tile){.units = 1};
    if (canonical->index_dim >= 0 || !canonical->dims || canonical->dst_stride[0] != canonical->unit_bytes ||
        dense < 0)
        return false;
    for (unsigned k = 0; k < canonical->dims; k++)
        tile->part[k] = 1;
    follow(canonical, 0, canonical->dst_stride, &tile->dst);
    follow(canonical, (unsigned)dense, canonical->src_stride, &tile->src);
    while (dst_grows || src_grows) {
        uint64_t dst_run = run_of(canonical, tile, &tile->dst), src_run = run_of(canonical, tile, &tile->src);

        if (dst_grows && (!src_grows || dst_run <= src_run))
            dst_grows = grow_nd_tile(canonical, tile, &tile->dst, most);
        else
            src_grows = grow_nd_tile(canonical, tile, &tile->src, most);
    }
    settle_cuts(canonical, tile, most);
    return true;
}

static bool has_lines(const struct leati_canonical *canonical, const struct nd_tile *tile, uint64_t least_bytes)
{
    return run_of(canonical, tile, &tile->dst) * canonical->unit_bytes >= least_bytes &&
           run_of(canonical, tile, &tile->src) * canonical->unit_bytes >= least_bytes;
}

/*
 * A thread finds the position of its word in the tile by dividing the word's number by sizes, as one splits a
 * number into digits. In each pass (reading or writing) a digit stands for a dimension of the tile or for a part
 * of one.
 */
struct digit {
    unsigned dim;
    unsigned each; /* number of steps of the dimension for one step of the digit */
    uint64_t size;
    uint32_t place; /* distance in shared memory for one step of the digit, in bytes */
    bool cut;       /* the digit belongs to the cut dimension */
};

struct digits {
    unsigned count;
    unsigned joined; /* number of dimensions that join_digits() has combined in the first digit */
    uint64_t scale;  /* if the cut dimension is one of them: steps of the first digit for one step of it; else 1 */
    struct digit digit[LEATI_CANONICAL_MAX_DIMS];
};

/* Lists the dimensions of an ND tile in the order of a side: first the dimensions of its axis, then the others.
 * split: dimension 0 becomes two digits, of which the first counts the units of a word. */
static void list_digits(const struct leati_canonical *canonical, const struct nd_tile *tile,
                        const struct axis *axis, bool split, struct digits *digits)
{
    unsigned units = word_bytes_of(canonical) / canonical->unit_bytes;
    bool listed[LEATI_CANONICAL_MAX_DIMS] = {false};

    *digits = (struct digits){.joined = 1, .scale = 1};
    for (unsigned n = 0; n < axis->count + canonical->dims; n++) {
        unsigned k = n < axis->count ? axis->dim[n] : n - axis->count;

        if (tile->part[k] == 1 || listed[k])
            continue;
        listed[k] = true;
        digits->digit[digits->count++] = (struct digit){
            .dim = k, .each = 1, .size = split && k == 0 ? units : tile->part[k], .cut = (int)k == tile->cut};
        if (split && k == 0)
            digits->digit[digits->count++] =
                (struct digit){.dim = k, .each = units, .size = tile->part[k] / units, .cut = (int)k == tile->cut};
    }
}

/* Lays the tile out in shared memory: in the order of the source, with apart[n] words of padding between
 * neighbours in digit n. Returns how many bytes of shared memory the tile needs. */
static uint32_t set_places(const struct leati_canonical *canonical, const uint32_t *apart, struct digits *read,
                           struct digits *write)
{
    uint32_t step = canonical->unit_bytes;

    for (unsigned n = 0; n < read->count; n++) {
        struct digit *digit = &read->digit[n];

        step += apart[n] * word_bytes_of(canonical);
        digit->place = step;
        step *= (uint32_t)digit->size;
        for (unsigned m = 0; m < write->count; m++)
            if (write->digit[m].dim == digit->dim && write->digit[m].each == digit->each)
                write->digit[m].place = digit->place;
    }
    return step;
}

/* Returns the number of accesses that the busiest bank of shared memory must serve one after the other in a pass,
 * summed over two samples of threads. word_units: the number of units in the words that threads move. */
static unsigned count_turns(const struct leati_canonical *canonical, const struct digits *digits,
                            unsigned word_units)
{
    uint32_t word_bytes = word_bytes_of(canonical), at_once = BANKS * 4 / word_bytes, turns = 0;

    for (uint32_t first = 0; first < ND_TILE_THREADS; first += ND_TILE_THREADS / 2) {
        uint32_t word[BANKS], asked[BANKS] = {0}, most = 0;

        for (uint32_t t = 0; t < at_once; t++) {
            uint32_t number = (first + t) * word_units, place = 0;
            bool known = false;

            for (unsigned n = 0; n < digits->count; n++) {
                place += number % (uint32_t)digits->digit[n].size * digits->digit[n].place;
                number /= (uint32_t)digits->digit[n].size;
            }
            word[t] = place / word_bytes;
            for (uint32_t other = 0; other < t && !known; other++)
                known = word[other] == word[t];
            if (!known && ++asked[word[t] % at_once] > most)
                most = asked[word[t] % at_once];
        }
        turns += most;
    }
    return turns;
}

/* Returns the sum of count_turns() over both passes. The reading pass stores whole words into shared memory. In
 * the writing pass each thread gathers the word_units units of a word from shared memory one by one. */
static unsigned nd_tile_turns(const struct leati_canonical *canonical, const struct digits *read,
                              const struct digits *write, unsigned word_units)
{
    unsigned units = word_bytes_of(canonical) / canonical->unit_bytes;

    return count_turns(canonical, write, word_units) * units + count_turns(canonical, read, units);
}

/* Finds the padding between lines with which both passes have the fewest bank conflicts. Tries, for one digit
 * after the other, each padding that is shorter than all banks together. Returns how many bytes of shared memory
 * the tile needs. */
static uint32_t place_nd_tile(const struct leati_canonical *canonical, unsigned word_units, struct digits *read,
                              struct digits *write)
{
    uint32_t word_bytes = word_bytes_of(canonical);
    uint32_t apart[LEATI_CANONICAL_MAX_DIMS] = {0}, bytes = set_places(canonical, apart, read, write);
    unsigned least = nd_tile_turns(canonical, read, write, word_units),
             fewest = 2 * (word_bytes / canonical->unit_bytes + 1);

    for (unsigned n = 1; n < read->count; n++) {
        uint32_t best = 0;

        if (read->digit[n].place % word_bytes)
            continue;
        for (apart[n] = 1; apart[n] < BANKS * 4 / word_bytes && least > fewest; apart[n]++) {
            unsigned turns;

            if (set_places(canonical, apart, read, write) > ND_TILE_ROOM_BYTES)
                break;
            turns = nd_tile_turns(canonical, read, write, word_units);
            if (turns < least) {
                least = turns;
                best = apart[n];
            }
        }
        apart[n] = best;
        bytes = set_places(canonical, apart, read, write);
    }
    return bytes;
}

/* Lists the digits of both passes and lays the tile out. If too many bank conflicts remain when threads gather the
 * units of words, tries again with a separate digit for the units of a word. Returns how many bytes of shared
 * memory the tile needs. */
static uint32_t place_digits(const struct leati_canonical *canonical, const struct nd_tile *tile,
                             unsigned word_units, struct digits *read, struct digits *write)
{
    unsigned units = word_bytes_of(canonical) / canonical->unit_bytes;
    uint32_t bytes;

    list_digits(canonical, tile, &tile->src, false, read);
    list_digits(canonical, tile, &tile->dst, false, write);
    bytes = place_nd_tile(canonical, word_units, read, write);
    if (word_units > 1 && nd_tile_turns(canonical, read, write, word_units) > 4 * (units + 1) &&
        read->digit[0].dim != 0 && tile->part[0] > units && tile->part[0] % units == 0) {
        list_digits(canonical, tile, &tile->src, true, read);
        list_digits(canonical, tile, &tile->dst, true, write);
        bytes = place_nd_tile(canonical, word_units, read, write);
    }
    return bytes;
}

/* Joins the first digits of the reading pass as long as they are contiguous on the source and in shared memory, so
 * that a word may extend from one dimension into the next. The cut dimension can only be the last one that is
 * joined. */
static void join_digits(const struct leati_canonical *canonical, const struct nd_tile *tile, struct digits *read)
{
    struct digit *first = &read->digit[0];

    while (read->count > 1 && read->joined < tile->src.count && !first->cut &&
           read->digit[1].dim == tile->src.dim[read->joined] &&
           tile->part[tile->src.dim[read->joined - 1]] == canonical->size[tile->src.dim[read->joined - 1]] &&
           read->digit[1].place == first->place * first->size) {
        if (read->digit[1].cut)
            read->scale = first->size;
        first->cut = read->digit[1].cut;
        first->size *= read->digit[1].size;
        read->joined++;
        read->count--;
        for (unsigned n = 1; n < read->count; n++)
            read->digit[n] = read->digit[n + 1];
    }
}

/* Returns true if threads can move a side 4 bytes at a time, because lines consist of whole words and all other
 * steps are multiples of 4 bytes. */
static bool has_words(const struct leati_canonical *canonical, const struct nd_tile *tile, bool dst,
                      const struct digits *digits)
{
    const int64_t *stride = dst ? canonical->dst_stride : canonical->src_stride;
    const struct axis *axis = dst ? &tile->dst : &tile->src;
    uint64_t run = dst ? run_of(canonical, tile, axis) : digits->digit[0].size;

    if (canonical->unit_bytes >= 4 || (dst ? canonical->dst_align : canonical->src_align) % 4 ||
        run * canonical->unit_bytes % 4)
        return false;
    for (unsigned k = 0; k < canonical->dims; k++) {
        bool within = false;
        int64_t step = stride[k] * (int64_t)tile->part[k];

        for (unsigned n = 0; n < axis->count; n++) {
            within |= axis->dim[n] == k && tile->part[k] > 1;
            if (tile->part[axis->dim[n]] < canonical->size[axis->dim[n]] || (!dst && n + 1 == digits->joined))
                break;
        }
        if (within ? tile->part[k] < canonical->size[k] && step % 4 : stride[k] % 4)
            return false;
    }
    for (unsigned n = 1; !dst && n < digits->count; n++)
        if (digits->digit[n].place % 4)
            return false;
    return true;
}

/* Returns true if on this side the lines of all tiles, including the last, shorter tile, end at the bounds of
 * words. */
static bool ends_on_words(const struct leati_canonical *canonical, const struct nd_tile *tile, bool dst,
                          const struct digits *digits)
{
    const struct axis *axis = dst ? &tile->dst : &tile->src;
    uint64_t below = canonical->unit_bytes;
    unsigned n = 0;

    if (tile->cut < 0 || (!dst && !digits->digit[0].cut))
        return true;
    for (; n < axis->count && tile->part[axis->dim[n]] == canonical->size[axis->dim[n]]; n++)
        below *= canonical->size[axis->dim[n]];
    return n == axis->count || axis->dim[n] != (unsigned)tile->cut || canonical->size[tile->cut] * below % 4 == 0;
}

/* Fills in one pass over an ND tile. dst: the writing pass, else the reading pass. Returns false if an offset
 * needs more than 32 bits. */
static bool put_pass(const struct leati_canonical *canonical, const struct nd_tile *tile,
                     const struct digits *digits, bool dst, unsigned word_units, struct leati_layout_task *task,
                     struct leati_task_pass *pass)
{
    const int64_t *stride = dst ? canonical->dst_stride : canonical->src_stride;
    uint32_t end = dst ? task->read.end : 0;
    int64_t reach = 0;

    *pass = (struct leati_task_pass){.first = end, .units = 1, .word_units = word_units};
    for (unsigned k = 0; k < digits->count; k++) {
        const struct digit *digit = &digits->digit[k];
        unsigned from = k || dst ? 1 : word_units; /* steps of the digit that the pass counts as one */
        uint32_t each = digit->each * from * (k ? (uint32_t)digits->scale : 1);
        uint64_t size = digit->size / from;
        int64_t offset = stride[digit->dim] / canonical->unit_bytes * digit->each,
                far = offset < 0 ? -offset : offset;

        if (far > INT32_MAX)
            return false;
        reach += far * (int64_t)digit->size;
        task->nd_tile[end++] =
            (struct leati_nd_tile_dim){.by = divisor(size),
                                       .offset = (int32_t)(offset * from),
                                       .place = digit->place * from | (digit->cut ? each << 16 : 0)};
        pass->units *= (uint32_t)size;
    }
    pass->end = end;
    if (tile->cut >= 0)
        pass->last =
            (uint32_t)((canonical->size[tile->cut] - 1) % tile->part[tile->cut] + 1) * (uint32_t)digits->scale;
    return reach <= INT32_MAX;
}

/* Fills in the fields of a task for ND tiles. Returns false if this tile needs more shared memory, more slots or
 * larger offsets than the kernel has. */
static bool lay_nd_tile(const struct leati_canonical *canonical, const struct nd_tile *tile,
                        struct leati_gpu_layout *gpu)
{
    const struct nd_kernel *nd_kernel = &nd_kernels[unit_number(canonical->unit_bytes)];
    struct leati_layout_task *task = &gpu->task;
    unsigned units = word_bytes_of(canonical) / canonical->unit_bytes, write_units = units, read_units, word_units;
    struct digits read, write;
    uint64_t room;

    /* The layout in shared memory depends on the size of the words that are written. If that layout shows that
     * words cannot be written, lay the tile out again for single units; words stay impossible with the new
     * layout. */
    do {
        word_units = write_units;
        if (place_digits(canonical, tile, word_units, &read, &write) > ND_TILE_ROOM_BYTES)
            return false;
        join_digits(canonical, tile, &read);
        read_units =
            has_words(canonical, tile, false, &read) && ends_on_words(canonical, tile, false, &read) ? units : 1;
        if (!has_words(canonical, tile, true, &write) || !ends_on_words(canonical, tile, true, &write))
            write_units = 1;
    } while (write_units < word_units);
    gpu->module = LEATI_BUILTIN_ROWS_1 + unit_number(canonical->unit_bytes);
    gpu->kernel = nd_kernel->name;
    room = (uint64_t)nd_kernel->slots * ND_TILE_THREADS * units;
    if (read_units < units || write_units < units) {
        gpu->kernel = nd_kernel->single_name;
        room = ND_TILE_SINGLE_SLOTS * ND_TILE_THREADS;
    }
    return tile->units <= room && put_pass(canonical, tile, &read, false, read_units, task, &task->read) &&
           put_pass(canonical, tile, &write, true, write_units, task, &task->write);
}

static bool make_nd_tile(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu)
{
    struct leati_layout_task *task = &gpu->task;
    uint64_t most = most_in_nd_tile(canonical), tiles = 1, each;
    struct nd_tile tile;

    do {
        if (most < ND_TILE_LITTLE_BYTES / 2 || !find_nd_tile(canonical, most, &tile) ||
            !has_lines(canonical, &tile, ND_TILE_LEAST_BYTES))
            return false;
        most = less_in_nd_tile(canonical, most);
    } while (!lay_nd_tile(canonical, &tile, gpu));
    for (unsigned pass = 0; pass < 2; pass++)
        for (unsigned k = 0; k < canonical->dims; k++) {
            uint64_t pieces = (canonical->size[k] + tile.part[k] - 1) / tile.part[k];

            /* The first pass of the outer loop adds only the cut dimension, so that its pieces are the first
             * dimension. */
            if ((pass == 0) != ((int)k == tile.cut) || pieces == 1)
                continue;
            if (pass == 0)
                task->pieces = (uint32_t)pieces;
            put_dim(task, &(struct dim){.size = pieces,
                                        .dst = canonical->dst_stride[k] * (int64_t)tile.part[k],
                                        .src = canonical->src_stride[k] * (int64_t)tile.part[k]});
            tiles *= pieces;
        }
    each = tiles * leati_canonical_copies(canonical) / ND_TILE_BLOCKS_ENOUGH;
    each = each > ND_TILES_PER_BLOCK ? ND_TILES_PER_BLOCK : each < 1 ? 1 : each;
    task->nd_tiles = blocks_of(tiles);
    gpu->tile_i = (unsigned)run_of(canonical, &tile, &tile.dst);
    gpu->tile_j = (unsigned)run_of(canonical, &tile, &tile.src);
    gpu->grid = leat_dim((uint32_t)((task->nd_tiles + each - 1) / each), 1, 1);
    gpu->block = leat_dim(ND_TILE_THREADS, 1, 1);
    return true;
}

/* ---- choosing ---- */

static const struct sort {
    const char *name;
    bool (*make)(const struct leati_canonical *canonical, struct leati_gpu_layout *gpu);
    bool batch; /* a launch can make several copies */
} sorts[] = {{"rows", make_rows, true},
             {"strided", make_strided, true},
             {"pixels", leati_gpu_make_pixels, true},
             {"transpose", make_tiles, false},
             {"transpose-small", make_small_tiles, false},
             {"transpose-wide", make_wide_tiles, false},
             {"transpose-odd", make_odd_tiles, false},
             {"transpose-wide-odd", make_wide_odd_tiles, false},
             {"triples", make_triples, false},
             {"nd-tile", make_nd_tile, true},
             {"elements", make_elements, true}};

#define SORTS (sizeof sorts / sizeof sorts[0])

static bool make(const struct leati_canonical *canonical, const struct sort *sort, struct leati_gpu_layout *gpu)
{
    *gpu = (struct leati_gpu_layout){.kernel = NULL};
    if (canonical->empty)
        return true;
    put_canonical(canonical, &gpu->task);
    if (!sort->make(canonical, gpu))
        return false;
    gpu->most_copies = sort->batch && canonical->index_dim < 0 ? LEATI_TASK_PLACES_BESIDE(gpu->task.dims) : 1;
    return true;
}

bool leati_gpu_layout_make_as(const struct leati_canonical *canonical, const char *name,
                              struct leati_gpu_layout *gpu)
{
    for (size_t i = 0; i < SORTS; i++)
        if (!strcmp(sorts[i].name, name))
            return make(canonical, &sorts[i], gpu);
    return false;
}

/* Returns true if ND tiles can copy the layout in words of several units on both sides. */
static bool has_words_in_nd_tile(const struct leati_canonical *canonical)
{
    struct leati_gpu_layout gpu;

    return leati_gpu_layout_make_as(canonical, "nd-tile", &gpu) && gpu.task.read.word_units > 1 &&
           gpu.task.write.word_units > 1;
}

/* Returns true if rows that are neighbours on the destination are so far apart on the source that each row is in a
 * different page of DRAM, and most rows are in a different page of the device's address translation. */
static bool are_rows_far(const struct leati_canonical *canonical)
{
    return canonical->dims > 1 && (canonical->src_stride[1] > FAR_BYTES || canonical->src_stride[1] < -FAR_BYTES);
}

/*
 * Returns the name of the best kind of kernel. It is chosen by the length of the lines that the kernel would read
 * and write. Long rows use the rows kernel, and two long sides use tiles, if most of their room is used. For
 * shorter lines ND tiles are used if their lines are long enough. Otherwise rows are used; without rows, tiles if
 * their lines fill a sector, else strided rows if they are long enough, else single units. For several copies in a
 * launch ND tiles stand for the other tiles, whose kernels make one copy.
 */
static const char *choose(const struct leati_canonical *canonical)
{
    bool rows = canonical->dims && canonical->index_dim != 0 &&
                canonical->dst_stride[0] == canonical->unit_bytes &&
                (canonical->src_stride[0] == canonical->unit_bytes || canonical->src_stride[0] == 0);
    uint64_t line_bytes = rows ? canonical->size[0] * canonical->unit_bytes : shorter_axis(canonical),
             wanted_bytes = 0;
    uint64_t row_bytes = rows && are_rows_far(canonical) ? FAR_ROW_BYTES : ROW_BYTES;
    uint64_t long_bytes = rows ? row_bytes : canonical->unit_bytes == 1 ? BYTE_LINE_BYTES : LINE_BYTES;
    struct nd_tile tile;

    if (leati_gpu_are_pixels_best(canonical))
        return leati_gpu_are_pixels_full(canonical) || !has_words_in_nd_tile(canonical) ? "pixels" : "nd-tile";
    if (canonical->other_copies && !rows && line_bytes >= TILE_LEAST_BYTES)
        return "nd-tile";
    if (!canonical->other_copies && are_triples_best(canonical))
        return "triples";
    if (line_bytes < ND_TILE_LEAST_BYTES)
        wanted_bytes = ND_TILE_LEAST_BYTES;
    else if (line_bytes < long_bytes)
        wanted_bytes = 2 * line_bytes;
    else if (!rows && are_tiles_empty(canonical))
        wanted_bytes = ND_TILE_LONG_BYTES;
    if (wanted_bytes && !(rows && canonical->src_stride[0] == 0) &&
        find_nd_tile(canonical, most_in_nd_tile(canonical), &tile) && has_lines(canonical, &tile, wanted_bytes))
        return "nd-tile";
    if (rows)
        return "rows";
    if (line_bytes >= TILE_LEAST_BYTES)
        return "transpose";
    return canonical->dims && canonical->size[0] * canonical->unit_bytes >= STRIDED_LEAST_BYTES ? "strided"
                                                                                                : "elements";
}

void leati_gpu_layout_make(const struct leati_canonical *canonical, leat_layout_class class_of_plan,
                           struct leati_gpu_layout *gpu)
{
    const char *chosen = leati_option(LEATI_OPTION_LAYOUT_KERNEL);

    if (canonical->src_unit_bytes) {
        leati_gpu_convert_make(canonical, gpu);
        return;
    }

    (void)class_of_plan;
    if (chosen && leati_gpu_layout_make_as(canonical, chosen, gpu))
        return;
    if (!leati_gpu_layout_make_as(canonical, choose(canonical), gpu))
        (void)leati_gpu_layout_make_as(canonical, "elements", gpu);
}

void leati_gpu_layout_argument(const struct leati_canonical *canonical, const struct leati_gpu_layout *gpu,
                               void *dst, const void *src, const void *list, uint64_t *wrong,
                               unsigned char argument[LEATI_GPU_LAYOUT_ARGUMENT_BYTES])
{
    struct leati_layout_task task = gpu->task;

    task.dst = (uintptr_t)dst + (uint64_t)canonical->dst_offset;
    task.src = (uintptr_t)src + (uint64_t)canonical->src_offset;
    task.src_first = (uintptr_t)src + (uint64_t)canonical->src_low;
    task.src_end = (uintptr_t)src + (uint64_t)canonical->src_high;
    task.list = canonical->index_dim >= 0 ? (uintptr_t)list : 0;
    task.wrong = canonical->index_dim >= 0 ? (uintptr_t)wrong : 0;
    memcpy(argument, &task, sizeof task);
}

void leati_gpu_layout_batch(struct leati_layout_task *task, unsigned copies)
{
    leati_assert(copies && copies <= LEATI_TASK_PLACES_BESIDE(task->dims));
    task->places = copies;
    task->src_first += LEATI_TASK_REACH;
    task->src_end += LEATI_TASK_REACH;
}

void leati_gpu_layout_text(const struct leati_gpu_layout *gpu, char *text, size_t text_bytes)
{
    if (!gpu->kernel)
        snprintf(text, text_bytes, "none: the layout has too many rows for one launch");
    else if (gpu->tile_i && gpu->module == LEATI_BUILTIN_CONVERT)
        snprintf(text, text_bytes, "%s, tiles of %u x %u elements, %u blocks of %u threads", gpu->kernel,
                 gpu->tile_i, gpu->tile_j, gpu->grid.x, gpu->block.x);
    else if (gpu->tile_i)
        snprintf(text, text_bytes, "%s, tiles of %u x %u units of %u bytes, %u blocks of %u threads", gpu->kernel,
                 gpu->tile_i, gpu->tile_j, gpu->task.unit_bytes, gpu->grid.x, gpu->block.x);
    else
        snprintf(text, text_bytes, "%s, %u blocks of %u threads", gpu->kernel, gpu->grid.x, gpu->block.x);
}
