/*
 * unit_layout_gpu.c - tests the layout kernels, compiled for the host, against a plain loop. Every sort of kernel
 * that supports a random canonical layout copies it, between inaccessible pages. Also tests what makes GPUs slow
 * without an error: bank conflicts in shared memory.
 *
 * canonical_cases.h documents the arguments of the program.
 */
#include "canonical_cases.h"
#include "harness.h"

#include "kernels/builtin.h"
#include "layout/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ROOM_BYTES ((size_t)768 << 10) /* size of the memory of each side */
#define MOST_UNITS ((uint64_t)1 << 15)
#define ND_TILES_PER_BLOCK 16 /* same value as in layout/gpu.c */

/* Names of the sorts of kernels. taken[i] counts the layouts that sort i has copied. */
static const char *const sorts[] = {"elements",       "rows",          "strided",           "pixels",
                                    "triples",        "nd-tile",       "transpose",         "transpose-small",
                                    "transpose-wide", "transpose-odd", "transpose-wide-odd"};
#define SORTS (sizeof sorts / sizeof sorts[0])
static unsigned taken[SORTS];

/* ---- random canonical layouts ---- */

/* Draws a canonical layout. Returns false if it is too large. */
static bool random_canonical(struct leati_canonical *canonical)
{
    bool small = chance(8) == 0, gaps = chance(2);
    unsigned order[24], most = small ? 4 + (unsigned)chance(12) : 1 + (unsigned)chance(6);

    *canonical = (struct leati_canonical){.unit_bytes = 1u << chance(5), .index_dim = -1};
    while (canonical->dims < most &&
           cases_add_dim(canonical, small ? 2 + chance(8) / 7 : cases_size(), MOST_UNITS))
        continue;
    for (unsigned i = 0; i < canonical->dims; i++)
        order[i] = i;
    /* A scatter must not use an index twice, because the result of two writes to one element is undefined. */
    if (canonical->dims && chance(4) == 0)
        cases_add_list(canonical, true);
    cases_lay_out(canonical, true, order, gaps);
    if (chance(8))
        cases_shuffle(order, canonical->dims);
    if (canonical->dims > 1 && chance(3) == 0)
        cases_shuffle(order + 1, canonical->dims - 1);
    cases_lay_out(canonical, false, order, gaps && chance(2));
    return cases_finish(canonical, MOST_UNITS, ROOM_BYTES);
}

/* Sets the strides of one side of a layout whose dimensions 0 and 1 are pixels and channels in any order. The
 * first of them, and then the other one, follow each other without a gap only on the side of the pixels. */
static void lay_pixels(struct leati_canonical *canonical, bool on_dst, unsigned first, bool gaps)
{
    int64_t *stride = on_dst ? canonical->dst_stride : canonical->src_stride, step = canonical->unit_bytes;
    bool planes = canonical->size[first] > LEATI_PIXEL_CHANNELS;

    for (unsigned k = 0; k < canonical->dims; k++) {
        unsigned dim = k < 2 ? k ^ first : k;

        stride[dim] = step;
        step *= (int64_t)canonical->size[dim];
        if (gaps && (k || planes))
            step += (int64_t)(canonical->unit_bytes * chance(40));
    }
}

/* Draws a layout that joins planes to pixels or splits pixels into planes. Returns false if it is too large. */
static bool random_pixels(struct leati_canonical *canonical)
{
    bool split = chance(2);
    uint64_t channels = 2 + chance(chance(3) ? 7 : LEATI_PIXEL_CHANNELS - 1),
             pixels = 1 + LEATI_PIXEL_CHANNELS + (chance(2) ? cases_size() : chance(3000));

    *canonical = (struct leati_canonical){.unit_bytes = 1u << chance(2), .index_dim = -1};
    if (!cases_add_dim(canonical, split ? pixels : channels, MOST_UNITS) ||
        !cases_add_dim(canonical, split ? channels : pixels, MOST_UNITS))
        return false;
    for (uint64_t more = chance(3); more > 0; more--)
        if (!cases_add_dim(canonical, 2 + chance(9), MOST_UNITS))
            break;
    lay_pixels(canonical, true, 0, chance(2));
    lay_pixels(canonical, false, 1, chance(2));
    return cases_finish(canonical, MOST_UNITS, ROOM_BYTES);
}

/* Sets the strides of one side: the units of a triple, then the other dimensions in this order, with gaps after
 * none of them or after any but the first. */
static void lay_triples(struct leati_canonical *canonical, bool on_dst, const unsigned *order, bool gaps)
{
    int64_t *stride = on_dst ? canonical->dst_stride : canonical->src_stride, step = canonical->unit_bytes;

    for (unsigned k = 0; k < canonical->dims; k++) {
        stride[order[k]] = step;
        step *= (int64_t)canonical->size[order[k]];
        if (gaps && k && chance(2))
            step += (int64_t)(canonical->unit_bytes * chance(40));
    }
}

/* Draws a layout that moves triples, often more of them on both sides than a tile has. Returns false if it is too
 * large. */
static bool random_triples(struct leati_canonical *canonical)
{
    const uint64_t most = 4 * MOST_UNITS;
    unsigned order[] = {0, 1, 2, 3};

    *canonical = (struct leati_canonical){.unit_bytes = 1u << chance(3), .index_dim = -1};
    if (!cases_add_dim(canonical, 3, most) || !cases_add_dim(canonical, 1 + chance(400), most) ||
        !cases_add_dim(canonical, 1 + chance(chance(2) ? 400 : 20), most))
        return false;
    if (chance(2))
        (void)cases_add_dim(canonical, 2 + chance(12), most);
    lay_triples(canonical, true, order, chance(2));
    cases_shuffle(order + 1, canonical->dims - 1);
    lay_triples(canonical, false, order, chance(2));
    return cases_finish(canonical, most, ROOM_BYTES);
}

/* Draws a layout with long rows on the destination, whose units have a gap between them on the source, are in
 * reverse order, or are chosen by a list. Returns false if it is too large. */
static bool random_strided(struct leati_canonical *canonical)
{
    unsigned order[] = {0, 1, 2};
    bool gaps = chance(2);

    *canonical = (struct leati_canonical){.unit_bytes = 1u << chance(4), .index_dim = -1};
    if (!cases_add_dim(canonical, 16 + chance(chance(2) ? 64 : 2000), MOST_UNITS))
        return false;
    while (canonical->dims < 3 && chance(3) && cases_add_dim(canonical, 2 + chance(20), MOST_UNITS))
        continue;
    if (chance(2)) {
        canonical->index_dim = chance(3) ? 0 : (int)chance(canonical->dims);
        canonical->index_bytes = chance(2) ? 4 : 8;
        canonical->index_bound = (int64_t)canonical->size[canonical->index_dim];
    }
    cases_lay_out(canonical, true, order, gaps);
    if (chance(3) == 0)
        cases_shuffle(order, canonical->dims);
    cases_lay_out(canonical, false, order, gaps);
    if (chance(2))
        canonical->src_stride[0] *= 1 + (int64_t)chance(4);
    if (chance(2))
        canonical->src_stride[0] = -canonical->src_stride[0];
    return cases_finish(canonical, MOST_UNITS, ROOM_BYTES);
}

/* ---- one layout ---- */

static const leat_cpu_kernel *find_kernel(const char *name)
{
    for (size_t i = 0; i < leati_host_layout_count; i++)
        if (!strcmp(leati_host_layouts[i].name, name))
            return leati_host_layouts[i].kernel;
    fail_msg("no kernel is called %s", name);
    return NULL;
}

/* Fails unless the kernel that leat chose is listed for the module that leat chose. */
static void expect_listed(const struct leati_gpu_layout *gpu)
{
    static const struct {
        enum leati_builtin module;
        const char *name;
    } listed[] = {
#define LISTED(module, name) {LEATI_BUILTIN_##module, #name},
        LEATI_LAYOUT_KERNEL_LIST(LISTED)
#undef LISTED
    };

    for (size_t i = 0; i < sizeof listed / sizeof listed[0]; i++)
        if (listed[i].module == gpu->module && !strcmp(listed[i].name, gpu->kernel))
            return;
    fail_msg("%s is not in module %u", gpu->kernel, (unsigned)gpu->module);
}

/* Runs the blocks of a grid, beginning in the middle, because the order of the blocks must not matter. */
static void run_blocks(const leat_cpu_kernel *kernel, leat_dim3 grid, leat_dim3 block, void *const *args)
{
    leat_cpu_block launch = {.grid_blocks = {grid.x, grid.y, grid.z},
                             .block_threads = {block.x, block.y, block.z}};

    assert_true(grid.y == 1 && grid.z == 1 && block.y == 1 && block.z == 1);
    for (uint32_t i = 0; i < grid.x; i++) {
        launch.block = (leat_cpu_dim){(i + grid.x / 2) % grid.x, 0, 0};
        kernel->run(&launch, args);
    }
}

static void run_layout(const struct leati_canonical *canonical, const struct leati_gpu_layout *gpu, void *dst,
                       const void *src, const void *list, uint64_t *wrong)
{
    _Alignas(16) unsigned char argument[LEATI_GPU_LAYOUT_ARGUMENT_BYTES];
    const leat_cpu_kernel *kernel = find_kernel(gpu->kernel);
    void *args[] = {argument};

    expect_listed(gpu);
    assert_int_equal(kernel->parameter_count, 1);
    assert_int_equal(kernel->parameter_bytes[0], sizeof argument);
    leati_gpu_layout_argument(canonical, gpu, dst, src, list, wrong, argument);
    run_blocks(kernel, gpu->grid, gpu->block, args);
}

static void tell(const struct leati_canonical *canonical, const struct leati_gpu_layout *gpu)
{
    char text[256];

    leati_gpu_layout_text(gpu, text, sizeof text);
    cases_print(canonical, text);
}

/* Sometimes reduces the number of blocks, so that one block copies several ND tiles, up to ND_TILES_PER_BLOCK. */
static void share_nd_tiles(struct leati_gpu_layout *gpu)
{
    uint32_t tiles = gpu->task.nd_tiles, fewest = (tiles + ND_TILES_PER_BLOCK - 1) / ND_TILES_PER_BLOCK;

    if (tiles && chance(4))
        gpu->grid.x = chance(2) ? fewest : fewest + (uint32_t)chance(tiles - fewest + 1);
}

/* Returns the largest power of two up to 16 that divides the address. */
static unsigned align_of(const void *address)
{
    uintptr_t bits = (uintptr_t)address | 16;

    return (unsigned)(bits & (~bits + 1));
}

/* Returns a base pointer for one side. It is often at one end of the memory, where an access past the layout
 * faults. */
static char *place(char *room, int64_t low, int64_t high, unsigned unit_bytes)
{
    size_t slack = ROOM_BYTES - (size_t)(high - low), at = chance(3) ? slack : 0;

    if (chance(2))
        at = slack / 2 / 64 * 64 + chance(8) * unit_bytes;
    return room + at - at % unit_bytes - low;
}

/* Returns a new list of indices at one end of its memory, or NULL for a layout without a list. */
static void *place_list(const struct leati_canonical *canonical, const struct cases_rooms *rooms, uint64_t *wrong)
{
    size_t bytes = canonical->index_dim >= 0 ? canonical->size[canonical->index_dim] * canonical->index_bytes : 0;
    void *list, *placed = rooms->list + (chance(2) ? rooms->bytes - bytes : 0);

    if (canonical->index_dim < 0)
        return NULL;
    assert_true(bytes <= rooms->bytes);
    list = cases_make_list(canonical, true, wrong);
    memcpy(placed, list, bytes);
    free(list);
    return placed;
}

static void run_canonical(struct leati_canonical *canonical, const struct cases_rooms *r, uint64_t number)
{
    char *dst = place(r->dst, canonical->dst_low, canonical->dst_high, canonical->unit_bytes),
         *wanted = r->wanted + (dst - r->dst);
    const char *src = place(r->src, canonical->src_low, canonical->src_high, canonical->unit_bytes);
    uint64_t wrong = 0, counted;
    void *list = place_list(canonical, r, &wrong);

    canonical->dst_offset = chance(2) ? (int64_t)canonical->unit_bytes * 3 : 0;
    canonical->src_offset = chance(2) ? -(int64_t)canonical->unit_bytes : 0;
    canonical->dst_align = chance(8) ? align_of(dst) : canonical->unit_bytes;
    canonical->src_align = chance(8) ? align_of(src) : canonical->unit_bytes;
    dst -= canonical->dst_offset, wanted -= canonical->dst_offset, src -= canonical->src_offset;
    memset(r->wanted, 0xa5, ROOM_BYTES);
    cases_judge(canonical, wanted, src, list);
    for (size_t s = 0; s < SORTS; s++) {
        struct leati_gpu_layout gpu;

        if (!leati_gpu_layout_make_as(canonical, sorts[s], &gpu))
            continue;
        taken[s]++;
        share_nd_tiles(&gpu);
        counted = 7;
        memset(r->dst, 0xa5, ROOM_BYTES);
        run_layout(canonical, &gpu, dst, src, list, number % 4 ? &counted : NULL);
        if (!cases_are_right(r, number % 4 ? counted - 7 : wrong, wrong)) {
            tell(canonical, &gpu);
            cases_fail(r, dst, number, counted - 7, wrong);
        }
    }
}

static void random_layouts_are_copied(void **unused)
{
    struct cases_rooms rooms = cases_make_rooms(ROOM_BYTES);

    (void)unused;
    for (uint64_t i = 0; i < cases_count; i++) {
        struct leati_canonical canonical;

        cases_draw_from(i);
        if (i % 4 == 0   ? random_pixels(&canonical)
            : i % 8 == 1 ? random_triples(&canonical)
            : i % 8 == 3 ? random_strided(&canonical)
                         : random_canonical(&canonical))
            run_canonical(&canonical, &rooms, i);
    }
    for (size_t s = 0; s < SORTS; s++) {
        printf("%s: %u forms\n", sorts[s], taken[s]);
        assert_true(taken[s] > 0);
    }
}

/* Returns the kernel that leat chooses to copy a dense layout with permuted dimensions. order: the order of the
 * destination's dimensions on the source. sort: the sort of kernel to take, or NULL for the best. */
static const char *chosen_for(const char *sort, unsigned unit_bytes, unsigned dims, const uint64_t *size,
                              const unsigned *order, struct leati_gpu_layout *gpu)
{
    struct leati_canonical canonical = {.dims = dims, .unit_bytes = unit_bytes, .index_dim = -1};
    int64_t step = unit_bytes;

    canonical.dst_align = canonical.src_align = 16;
    canonical.payload_bytes = unit_bytes;
    for (unsigned k = 0; k < dims; k++) {
        canonical.size[k] = size[k];
        canonical.dst_stride[k] = step;
        step *= (int64_t)size[k];
    }
    canonical.payload_bytes = (uint64_t)step;
    step = unit_bytes;
    for (unsigned k = 0; k < dims; k++) {
        canonical.src_stride[order[k]] = step;
        step *= (int64_t)size[order[k]];
    }
    if (!sort)
        leati_gpu_layout_make(&canonical, LEAT_LAYOUT_CLASS_ELEMENTS, gpu);
    else
        assert_true(leati_gpu_layout_make_as(&canonical, sort, gpu));
    return gpu->kernel;
}

#define MADE_AS(sort, unit, dims, sizes, order, gpu)                                                              \
    chosen_for(sort, unit, dims, (const uint64_t[])sizes, (const unsigned[])order, gpu)
#define CHOSEN(unit, dims, sizes, order, gpu)                                                                     \
    chosen_for(NULL, unit, dims, (const uint64_t[])sizes, (const unsigned[])order, gpu)
#define LIST(...)                                                                                                 \
    {                                                                                                             \
        __VA_ARGS__                                                                                               \
    }

/* Returns the kernel that leat chooses for rows of the destination with this stride on the source. listed: the
 * units of a row are chosen by a list. */
static const char *chosen_for_rows(unsigned unit_bytes, uint64_t units, int64_t src_stride, bool listed)
{
    struct leati_canonical canonical = {.dims = 2, .unit_bytes = unit_bytes, .index_dim = listed ? 0 : -1};
    struct leati_gpu_layout gpu;

    canonical.dst_align = canonical.src_align = 16;
    canonical.size[0] = units, canonical.size[1] = 1000;
    canonical.dst_stride[0] = unit_bytes, canonical.dst_stride[1] = unit_bytes * (int64_t)units;
    canonical.src_stride[0] = src_stride, canonical.src_stride[1] = 1 << 20;
    canonical.payload_bytes = unit_bytes * units * 1000;
    canonical.index_bytes = 8, canonical.index_bound = 1000;
    leati_gpu_layout_make(&canonical, LEAT_LAYOUT_CLASS_ELEMENTS, &gpu);
    expect_listed(&gpu);
    return gpu.kernel;
}

static void strided_rows_are_chosen(void **unused)
{
    (void)unused;
    assert_string_equal(chosen_for_rows(4, 1024, -4, false), "leat_layout_strided_4");
    assert_string_equal(chosen_for_rows(1, 64, 2, false), "leat_layout_strided_1");
    assert_string_equal(chosen_for_rows(1, 63, 2, false), "leat_layout_elements");
    assert_string_equal(chosen_for_rows(8, 1 << 20, 4096, false), "leat_layout_strided_8");
    assert_string_equal(chosen_for_rows(16, 1024, 32, false), "leat_layout_elements");
    assert_string_equal(chosen_for_rows(2, 32, 2, true), "leat_layout_listed_2");
    assert_string_equal(chosen_for_rows(4, 15, 4, true), "leat_layout_elements");
    assert_string_equal(chosen_for_rows(16, 1024, 16, true), "leat_layout_elements");
    assert_string_equal(chosen_for_rows(4, (UINT64_C(1) << 31) - 18, 4, true), "leat_layout_listed_4");
    assert_string_equal(chosen_for_rows(4, UINT64_C(1) << 31, 4, true), "leat_layout_elements");
}

static void kernels_are_chosen(void **unused)
{
    static const uint64_t twos[24] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    unsigned order[24];
    struct leati_gpu_layout gpu;

    (void)unused;
    assert_string_equal(CHOSEN(4, 2, LIST(16384, 16384), LIST(1, 0), &gpu), "leat_layout_transpose_wide_4");
    assert_int_equal(gpu.grid.x, 256 * 256);
    assert_string_equal(CHOSEN(4, 2, LIST(512, 512), LIST(1, 0), &gpu), "leat_layout_transpose_4");
    assert_string_equal(CHOSEN(4, 2, LIST(4097, 4097), LIST(1, 0), &gpu), "leat_layout_transpose_wide_odd_4");
    assert_string_equal(CHOSEN(1, 6, LIST(32, 15, 15, 15, 15, 32), LIST(5, 4, 3, 2, 1, 0), &gpu),
                        "leat_layout_transpose_wide_1");
    /* Lines that begin in the middle of sectors, and then lines of several dimensions with any start. */
    assert_string_equal(CHOSEN(1, 2, LIST(43408, 12368), LIST(1, 0), &gpu), "leat_layout_transpose_long_1");
    assert_string_equal(CHOSEN(4, 3, LIST(384, 355, 985), LIST(2, 1, 0), &gpu),
                        "leat_layout_transpose_long_odd_4");
    /* For short sides of 48 or 64 bytes, partly filled tiles are faster than ND tiles of single bytes, but slower
     * than ND tiles of words. */
    assert_string_equal(CHOSEN(1, 5, LIST(48, 28, 48, 28, 297), LIST(2, 0, 4, 1, 3), &gpu),
                        "leat_layout_transpose_1");
    assert_string_equal(CHOSEN(4, 3, LIST(16, 16, 65536), LIST(1, 0, 2), &gpu), "leat_layout_nd_tile_4");
    /* Attention heads of 64 elements are copied as rows. Three channels, or two columns, are copied as ND
     * tiles. */
    assert_string_equal(CHOSEN(4, 4, LIST(64, 16, 2048, 8), LIST(0, 2, 1, 3), &gpu), "leat_layout_rows_4");
    assert_string_equal(CHOSEN(4, 3, LIST(3, 50176, 64), LIST(1, 0, 2), &gpu), "leat_layout_nd_tile_4");
    assert_string_equal(CHOSEN(1, 3, LIST(50176, 3, 64), LIST(1, 0, 2), &gpu), "leat_layout_split_1");
    assert_int_equal(gpu.task.odd_src + gpu.task.odd_dst, 0);
    assert_int_equal(1 << gpu.task.gang_bits, 128);
    assert_string_equal(CHOSEN(1, 3, LIST(225, 3, 640), LIST(1, 0, 2), &gpu), "leat_layout_split_1");
    assert_int_equal(1 << gpu.task.gang_bits, 16);
    assert_string_equal(CHOSEN(1, 3, LIST(100, 3, 640), LIST(1, 0, 2), &gpu), "leat_layout_nd_tile_1");
    /* Lines that leave threads without work: one of 16, then two, and two where ND tiles could not move words. */
    assert_string_equal(CHOSEN(1, 3, LIST(240, 3, 640), LIST(1, 0, 2), &gpu), "leat_layout_split_1");
    assert_string_equal(CHOSEN(1, 3, LIST(224, 3, 640), LIST(1, 0, 2), &gpu), "leat_layout_nd_tile_1");
    assert_string_equal(CHOSEN(1, 3, LIST(223, 3, 640), LIST(1, 0, 2), &gpu), "leat_layout_split_1");
    assert_string_equal(CHOSEN(1, 2, LIST(16, 1000000), LIST(1, 0), &gpu), "leat_layout_join_wide_1");
    assert_int_equal(1 << gpu.task.gang_bits, 64);
    assert_string_equal(CHOSEN(2, 3, LIST(3, 50176, 64), LIST(1, 0, 2), &gpu), "leat_layout_join_2");
    assert_string_equal(CHOSEN(2, 3, LIST(3, 50175, 64), LIST(1, 0, 2), &gpu), "leat_layout_join_2");
    assert_string_equal(CHOSEN(2, 2, LIST(12, 999999), LIST(1, 0), &gpu), "leat_layout_nd_tile_single_2");
    assert_string_equal(CHOSEN(2, 2, LIST(1000000, 2), LIST(1, 0), &gpu), "leat_layout_nd_tile_2");
    MADE_AS("nd-tile", 1, 3, LIST(50176, 3, 64), LIST(1, 0, 2), &gpu);
    assert_int_equal(gpu.task.read.word_units, 4);
    assert_int_equal(gpu.task.write.word_units, 4);
    assert_string_equal(CHOSEN(4, 2, LIST(100000000, 2), LIST(1, 0), &gpu), "leat_layout_nd_tile_4");
    /* Transposes of elements of 3, 6 and 12 bytes; small ones have too few tiles. */
    assert_string_equal(CHOSEN(4, 3, LIST(3, 6655, 6653), LIST(0, 2, 1), &gpu), "leat_layout_triples_4");
    assert_true(gpu.task.odd_src && gpu.task.odd_dst);
    assert_string_equal(CHOSEN(2, 3, LIST(3, 9408, 9408), LIST(0, 2, 1), &gpu), "leat_layout_triples_2");
    assert_true(!gpu.task.odd_src && !gpu.task.odd_dst);
    assert_string_equal(CHOSEN(4, 3, LIST(3, 6656, 6656), LIST(0, 2, 1), &gpu), "leat_layout_nd_tile_4");
    /* Lines of the destination begin at sectors, then those of the source. */
    assert_string_equal(CHOSEN(4, 3, LIST(3, 256, 174763), LIST(0, 2, 1), &gpu), "leat_layout_nd_tile_4");
    assert_string_equal(CHOSEN(4, 3, LIST(3, 174763, 256), LIST(0, 2, 1), &gpu), "leat_layout_triples_4");
    assert_string_equal(CHOSEN(1, 4, LIST(3, 300, 300, 300), LIST(0, 2, 1, 3), &gpu), "leat_layout_triples_1");
    assert_string_equal(CHOSEN(1, 3, LIST(3, 300, 300), LIST(0, 2, 1), &gpu), "leat_layout_nd_tile_1");
    /* Lines of 37 units: tiles of 32 would leave tiles of 5, and lines that are written in short pieces. */
    assert_string_equal(CHOSEN(8, 8, LIST(37, 4, 33, 13, 5, 2, 35, 3), LIST(4, 7, 5, 1, 6, 2, 0, 3), &gpu),
                        "leat_layout_nd_tile_8");
    assert_int_equal(gpu.tile_i, 37);
    assert_int_equal(gpu.tile_j, 30);
    /* Axes of 40 and 72 units of 8 bytes leave a quarter of small tiles empty, which matters if they have several
     * dimensions. */
    assert_string_equal(CHOSEN(8, 3, LIST(40, 72, 23301), LIST(1, 0, 2), &gpu), "leat_layout_transpose_8");
    assert_string_equal(CHOSEN(8, 12, LIST(20, 2, 4, 18, 3, 22, 3, 2, 3, 2, 2, 5),
                               LIST(9, 8, 2, 6, 1, 10, 4, 7, 0, 3, 5, 11), &gpu),
                        "leat_layout_nd_tile_8");
    /* ND tiles of triples, where no tile size divides a side. */
    MADE_AS("nd-tile", 4, 3, LIST(3, 6655, 6653), LIST(0, 2, 1), &gpu);
    assert_in_range(gpu.tile_i * 4, 64, 1024);
    assert_in_range(gpu.tile_j * 4, 64, 1024);
    /* 24 dimensions of size two. In reversed order they form lines, which are transposed; in shuffled order they
     * form an ND tile. */
    for (unsigned k = 0; k < 24; k++)
        order[k] = 23 - k;
    assert_string_equal(chosen_for(NULL, 8, 24, twos, order, &gpu), "leat_layout_transpose_wide_8");
    for (unsigned k = 0; k < 24; k++)
        order[k] = (k + 3) % 24;
    order[0] = 1, order[22] = 3;
    assert_string_equal(chosen_for(NULL, 8, 24, twos, order, &gpu), "leat_layout_nd_tile_8");
}

/* ---- offsets that need more than 31 bits ---- */

#define HUGE_BYTES ((UINT64_C(1) << 31) + 54321)

static void *reserve(uint64_t bytes)
{
    void *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (all == MAP_FAILED)
        SKIP_OTHER("the system gives no addresses for a source of that size");
    return all;
}

/* A copy of more than 2^31 single bytes. The test runs only the blocks of three windows: the start, the border
 * between two pieces, and the end. */
static void huge_layouts_are_counted(void **unused)
{
    const uint64_t start[] = {0, HUGE_BYTES / 2 - 2048, (UINT64_C(1) << 31) - 4096};
    const uint64_t length[] = {4096, 4096, HUGE_BYTES - start[2]};
    unsigned char *dst = reserve(HUGE_BYTES + 4096), *src = reserve(HUGE_BYTES);
    struct leati_canonical canonical = {
        .dims = 1, .unit_bytes = 1, .dst_align = 1, .src_align = 1, .index_dim = -1};

    (void)unused;
    canonical.size[0] = HUGE_BYTES;
    canonical.dst_stride[0] = canonical.src_stride[0] = 1;
    canonical.payload_bytes = HUGE_BYTES;
    canonical.src_high = canonical.dst_high = HUGE_BYTES;
    for (unsigned w = 0; w < 3; w++)
        test_pattern(src + start[w], length[w], cases_seed + w);
    for (unsigned s = 0; s < 2; s++) {
        _Alignas(16) unsigned char argument[LEATI_GPU_LAYOUT_ARGUMENT_BYTES];
        leat_cpu_block launch = {.grid_blocks = {0, 1, 1}};
        struct leati_gpu_layout gpu;
        void *args[] = {argument};
        uint64_t in_block;

        for (unsigned w = 0; w < 3; w++)
            memset(dst + start[w], 0, length[w] + (w == 2 ? 4096 : 0));
        assert_true(leati_gpu_layout_make_as(&canonical, s ? "rows" : "elements", &gpu));
        leati_gpu_layout_argument(&canonical, &gpu, dst, src, NULL, NULL, argument);
        launch.grid_blocks.x = gpu.grid.x;
        launch.block_threads = (leat_cpu_dim){gpu.block.x, 1, 1};
        in_block = gpu.block.x * 4 * (s ? 16 : 1);
        assert_int_equal(gpu.task.pieces, s ? 1 : 2);
        for (uint64_t b = 0; b < gpu.grid.x; b++) {
            uint64_t of_piece = b % gpu.task.blocks.size, piece = b / gpu.task.blocks.size;
            uint64_t first = of_piece * in_block + piece * gpu.task.items;

            for (unsigned w = 0; w < 3; w++)
                if (first < start[w] + length[w] && first + in_block > start[w]) {
                    launch.block = (leat_cpu_dim){(uint32_t)b, 0, 0};
                    find_kernel(gpu.kernel)->run(&launch, args);
                }
        }
        for (unsigned w = 0; w < 3; w++)
            assert_memory_equal(dst + start[w], src + start[w], length[w]);
        for (unsigned k = 0; k < 4096; k++)
            assert_int_equal(dst[HUGE_BYTES + k], 0);
    }
    munmap(dst, HUGE_BYTES + 4096);
    munmap(src, HUGE_BYTES);
}

#define CUT_BYTES ((UINT64_C(1) << 35) + 54321)
#define WINDOW_BYTES ((uint64_t)4096)

/* A row of single bytes with so many words that it is cut into two pieces, in the same or in reverse order. Runs
 * only the blocks at the start, at the border between the pieces, and at the end. */
static void huge_rows_are_cut(void **unused)
{
    const uint64_t words = (CUT_BYTES + 15 + 15) / 16, border = (words + 1) / 2 * 16;
    const uint64_t start[] = {0, border - WINDOW_BYTES / 2, CUT_BYTES - WINDOW_BYTES};
    unsigned char *dst = reserve(CUT_BYTES), *src = reserve(CUT_BYTES);

    (void)unused;
    for (unsigned s = 0; s < 2; s++) {
        struct leati_canonical canonical = {.dims = 1, .unit_bytes = 1, .dst_align = 1, .index_dim = -1};
        _Alignas(16) unsigned char argument[LEATI_GPU_LAYOUT_ARGUMENT_BYTES];
        leat_cpu_block launch = {.grid_blocks = {0, 1, 1}};
        struct leati_gpu_layout gpu;
        void *args[] = {argument};

        canonical.size[0] = canonical.payload_bytes = CUT_BYTES;
        canonical.dst_stride[0] = 1, canonical.src_stride[0] = s ? -1 : 1;
        canonical.src_offset = s ? (int64_t)CUT_BYTES - 1 : 0;
        canonical.src_high = canonical.dst_high = CUT_BYTES;
        assert_true(leati_gpu_layout_make_as(&canonical, s ? "strided" : "rows", &gpu));
        assert_int_equal(gpu.task.pieces, 2);
        leati_gpu_layout_argument(&canonical, &gpu, dst, src, NULL, NULL, argument);
        launch.grid_blocks.x = gpu.grid.x;
        launch.block_threads = (leat_cpu_dim){gpu.block.x, 1, 1};
        for (unsigned w = 0; w < 3; w++) {
            memset(dst + start[w], 0, WINDOW_BYTES);
            test_pattern(src + (s ? CUT_BYTES - start[w] - WINDOW_BYTES : start[w]), WINDOW_BYTES,
                         cases_seed + s + w);
        }
        for (uint64_t b = 0; b < gpu.grid.x; b++) {
            uint64_t in_block = gpu.block.x * 4 * 16;
            uint64_t of_piece = b % gpu.task.blocks.size, piece = b / gpu.task.blocks.size;
            uint64_t first = of_piece * in_block + piece * gpu.task.items * 16;

            for (unsigned w = 0; w < 3; w++)
                if (first < start[w] + WINDOW_BYTES && first + in_block > start[w]) {
                    launch.block = (leat_cpu_dim){(uint32_t)b, 0, 0};
                    find_kernel(gpu.kernel)->run(&launch, args);
                }
        }
        for (unsigned w = 0; w < 3; w++)
            for (uint64_t i = start[w]; i < start[w] + WINDOW_BYTES; i++)
                assert_int_equal(dst[i], src[s ? CUT_BYTES - 1 - i : i]);
    }
    munmap(dst, CUT_BYTES);
    munmap(src, CUT_BYTES);
}

/* Copies the part of a row by a list that lies behind its first 4 GiB. */
static void long_lists_are_read_at_their_place(void **unused)
{
    enum { BOUND = 1000, UNIT = 8 };
    const uint64_t row_bytes = UINT64_C(5) << 30, size = row_bytes / UNIT, start = (UINT64_C(1) << 32) + 4096;
    uint64_t *dst = (uint64_t *)reserve(row_bytes), src[BOUND];
    int32_t *list = (int32_t *)reserve(size * sizeof *list);
    struct leati_canonical canonical = {.dims = 1, .unit_bytes = UNIT, .dst_align = 8, .src_align = 8,
                                        .index_bytes = 4, .index_bound = BOUND, .payload_bytes = row_bytes};
    _Alignas(16) unsigned char argument[LEATI_GPU_LAYOUT_ARGUMENT_BYTES];
    leat_cpu_block launch = {.grid_blocks = {0, 1, 1}};
    struct leati_gpu_layout gpu;
    void *args[] = {argument};
    uint64_t in_block, block;

    (void)unused;
    canonical.size[0] = size;
    canonical.dst_stride[0] = canonical.src_stride[0] = UNIT;
    canonical.dst_high = (int64_t)row_bytes, canonical.src_high = (int64_t)sizeof src;
    for (unsigned i = 0; i < BOUND; i++)
        src[i] = i + 1;
    assert_true(leati_gpu_layout_make_as(&canonical, "strided", &gpu));
    assert_string_equal(gpu.kernel, "leat_layout_listed_8");
    assert_int_equal(gpu.task.pieces, 1);
    leati_gpu_layout_argument(&canonical, &gpu, dst, src, list, NULL, argument);
    in_block = (uint64_t)gpu.block.x * 4 * 16;
    block = start / in_block;
    for (uint64_t i = block * in_block / UNIT; i < (block + 1) * in_block / UNIT; i++)
        list[i] = (int32_t)(i % (BOUND - 1)) + 1;
    launch.grid_blocks.x = gpu.grid.x;
    launch.block_threads = (leat_cpu_dim){gpu.block.x, 1, 1};
    launch.block = (leat_cpu_dim){(uint32_t)block, 0, 0};
    find_kernel(gpu.kernel)->run(&launch, args);
    for (uint64_t i = block * in_block / UNIT; i < (block + 1) * in_block / UNIT; i++)
        assert_int_equal(dst[i], src[list[i]]);
    munmap(dst, row_bytes);
    munmap(list, size * sizeof *list);
}

/* ---- bank conflicts in the shared memory of a GPU ---- */

#define BANKS 32

/* Returns how many different words of the busiest bank a group of threads accesses. The hardware serves threads
 * that access the same word at once. bytes: size of an access; less than 4 counts as 4. */
static unsigned times_asked(const uint32_t *place, unsigned threads, unsigned bytes)
{
    unsigned most = 0;

    for (unsigned bank = 0; bank < BANKS; bank++) {
        uint32_t words[32 * 4];
        unsigned count = 0;

        for (unsigned t = 0; t < threads; t++)
            for (unsigned w = 0; w < (bytes + 3) / 4; w++) {
                uint32_t word = place[t] / 4 + w;
                bool known = word % BANKS != bank;

                for (unsigned k = 0; k < count && !known; k++)
                    known = words[k] == word;
                if (!known)
                    words[count++] = word;
            }
        most = count > most ? count : most;
    }
    return most;
}

/* The hardware serves 16-byte accesses for eight threads at a time. Checks that neither writing nor reading a tile
 * has bank conflicts. units: number of lines of a square in shared memory. */
static void meet_no_bank_twice(unsigned across, unsigned down, unsigned units)
{
    for (unsigned first = 0; first < across * down; first += 8)
        for (unsigned r = 0; r < units; r++) {
            uint32_t place[8];

            for (unsigned t = 0; t < 8; t++) {
                unsigned square = first + t, bj = square % down, bi = square / down;

                place[t] = 16 * leati_tile_place(across, units, bj * units + r, bi);
            }
            assert_int_equal(times_asked(place, 8, 16), 1);
        }
    for (unsigned first = 0; first < across * down * units; first += 8) {
        uint32_t place[8];

        for (unsigned t = 0; t < 8; t++)
            place[t] = 16 * leati_tile_place(across, units, (first + t) / across, (first + t) % across);
        assert_int_equal(times_asked(place, 8, 16), 1);
    }
}

/* Checks all tile sizes, with whole squares and with half squares. */
static void tiles_meet_no_bank_twice(void **unused)
{
    (void)unused;
    for (unsigned unit = 1; unit <= 16; unit *= 2)
        for (unsigned across = 8; across <= 32; across *= 2)
            for (unsigned down = 8; down <= 16; down *= 2) {
                meet_no_bank_twice(across, down, 16 / unit);
                if (unit < 16)
                    meet_no_bank_twice(across, down, 16 / unit / 2);
            }
}

/* Checks that a warp writes the parts of its cells to different banks, and that eight neighbouring threads, which
 * the hardware serves at a time, read words of a line from different banks. */
static void triples_meet_no_bank_twice(void **unused)
{
    (void)unused;
    for (uint32_t unit = 1; unit <= 4; unit *= 2) {
        uint32_t triples = 16 / unit, words = LEATI_TRIPLES_I * 3 * unit / 16, place[32];

        for (uint32_t n = 0; n < triples * 3; n++) {
            for (uint32_t t = 0; t < 32; t++)
                place[t] = leati_triple_line_place(unit, t % 8 * triples + n / 3) * 16 + t / 8 * 12 + n % 3 * 4;
            assert_int_equal(times_asked(place, 32, 4), 1);
        }
        for (uint32_t b = 0; b + 8 <= words; b++) {
            for (uint32_t t = 0; t < 8; t++)
                place[t] = (leati_triple_line_place(unit, triples + 1) + b + t) * 16;
            assert_int_equal(times_asked(place, 8, 16), 1);
        }
    }
}

/* Returns the offset in shared memory of the unit with this number on the destination. */
static uint32_t place_of(const struct leati_layout_task *task, uint32_t number)
{
    uint32_t place = 0;

    for (uint32_t k = task->write.first; k < task->write.end; k++) {
        place += number % task->nd_tile[k].by.size * (task->nd_tile[k].place & 0xffff);
        number /= task->nd_tile[k].by.size;
    }
    return place;
}

/* Returns how often a warp accesses the same bank at most when a block writes an ND tile. */
static unsigned nd_tile_asks(const struct leati_gpu_layout *gpu)
{
    const struct leati_task_pass *pass = &gpu->task.write;
    unsigned most = 0;

    for (uint32_t first = 0; first + 32 <= pass->units / pass->word_units; first += 32)
        for (uint32_t u = 0; u < pass->word_units; u++) {
            uint32_t place[32];
            unsigned asked;

            for (uint32_t t = 0; t < 32; t++)
                place[t] = place_of(&gpu->task, (first + t) * pass->word_units + u);
            asked = times_asked(place, 32, gpu->task.unit_bytes);
            most = asked > most ? asked : most;
        }
    return most;
}

static void nd_tiles_access_few_banks_twice(void **unused)
{
    struct leati_gpu_layout gpu;

    (void)unused;
    MADE_AS("nd-tile", 4, 3, LIST(3, 50176, 64), LIST(1, 0, 2), &gpu);
    assert_in_range(nd_tile_asks(&gpu), 1, 2);
    MADE_AS("nd-tile", 4, 3, LIST(50176, 3, 64), LIST(1, 0, 2), &gpu);
    assert_in_range(nd_tile_asks(&gpu), 1, 2);
    MADE_AS("nd-tile", 1, 3, LIST(3, 50176, 64), LIST(1, 0, 2), &gpu);
    assert_in_range(nd_tile_asks(&gpu), 1, 2);
    MADE_AS("nd-tile", 1, 3, LIST(50176, 3, 64), LIST(1, 0, 2), &gpu);
    assert_in_range(nd_tile_asks(&gpu), 1, 2);
    MADE_AS("nd-tile", 1, 3, LIST(3136, 32, 640), LIST(1, 0, 2), &gpu);
    assert_string_equal(gpu.kernel, "leat_layout_nd_tile_1");
    assert_in_range(nd_tile_asks(&gpu), 1, 2);
    MADE_AS("nd-tile", 1, 3, LIST(3, 4096, 4096), LIST(0, 2, 1), &gpu);
    assert_in_range(nd_tile_asks(&gpu), 1, 2);
    MADE_AS("nd-tile", 4, 2, LIST(100000000, 2), LIST(1, 0), &gpu);
    assert_in_range(nd_tile_asks(&gpu), 1, 2);
    MADE_AS("nd-tile", 4, 2, LIST(2, 100000000), LIST(1, 0), &gpu);
    assert_in_range(nd_tile_asks(&gpu), 1, 2);
}

/* Checks that eight threads, which the hardware serves at a time, access different banks when they access words of
 * their own groups of pixels. With even numbers of channels, some words of neighbouring threads along the pixels
 * may share banks, but only two at a time. */
static void pixels_access_few_banks_twice(void **unused)
{
    (void)unused;
    for (uint64_t channels = 2; channels <= LEATI_PIXEL_CHANNELS; channels++) {
        struct leati_gpu_layout gpu;
        uint32_t place[8], shift, mask;

        MADE_AS("pixels", 1, 2, LIST(1 << 20, channels), LIST(1, 0), &gpu);
        shift = gpu.task.swizzle_shift, mask = gpu.task.swizzle_mask;
        for (uint32_t first = 0; first < gpu.block.x; first += 8)
            for (uint32_t k = 0; k < channels; k++) {
                for (uint32_t t = 0; t < 8; t++)
                    place[t] = 16 * leati_pixel_place((uint32_t)channels, shift, mask, first + t, k);
                assert_int_equal(times_asked(place, 8, 16), 1);
            }
        for (uint32_t first = 0; first < gpu.block.x * channels; first += 8) {
            for (uint32_t t = 0; t < 8; t++)
                place[t] =
                    16 * leati_pixel_place((uint32_t)channels, shift, mask, (first + t) / (uint32_t)channels,
                                           (first + t) % (uint32_t)channels);
            assert_in_range(times_asked(place, 8, 16), 1, 2);
        }
    }
}

/* ---- the example kernels of a transpose ---- */

static void steps_transpose(void **unused)
{
    static const char *const names[] = {"leat_transpose_naive_u32", "leat_transpose_shared_u32",
                                        "leat_transpose_padded_u32"};
    static const uint64_t sizes[][2] = {{1, 1}, {32, 32}, {33, 31}, {7, 200}, {96, 64}, {129, 1}};

    (void)unused;
    for (size_t n = 0; n < 3; n++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            uint64_t rows = sizes[k][0], columns = sizes[k][1], tiles = (rows + 31) / 32 * ((columns + 31) / 32);
            uint32_t *src = malloc(rows * columns * 4), *dst = calloc(rows * columns, 4);
            void *args[] = {&dst, &src, &rows, &columns};

            assert_true(src && dst);
            for (uint64_t i = 0; i < rows * columns; i++)
                src[i] = (uint32_t)i + 1;
            run_blocks(find_kernel(names[n]), leat_dim((uint32_t)(n ? tiles : (rows * columns + 255) / 256), 1, 1),
                       leat_dim(256, 1, 1), args);
            for (uint64_t r = 0; r < rows; r++)
                for (uint64_t c = 0; c < columns; c++)
                    assert_int_equal(dst[c * rows + r], r * columns + c + 1);
            free(src);
            free(dst);
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_layouts_are_copied),     cmocka_unit_test(kernels_are_chosen),
        cmocka_unit_test(strided_rows_are_chosen),       cmocka_unit_test(huge_rows_are_cut),
        cmocka_unit_test(long_lists_are_read_at_their_place),
        cmocka_unit_test(huge_layouts_are_counted),      cmocka_unit_test(tiles_meet_no_bank_twice),
        cmocka_unit_test(triples_meet_no_bank_twice),    cmocka_unit_test(nd_tiles_access_few_banks_twice),
        cmocka_unit_test(pixels_access_few_banks_twice), cmocka_unit_test(steps_transpose)};

    cases_begin(argc, argv, "unit_layout_gpu", 1000);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
