/*
 * unit_layout_gpu.c - the layout kernels, compiled for the host, against a plain loop: random forms, each by every
 * sort of kernel that takes it, between pages that cannot be touched. And what GPUs would make slow without an
 * error: accesses of shared memory that meet in one bank.
 *
 * The seed is printed and can be given: unit_layout_gpu --seed N, and with how many forms: --forms N.
 */
#include "harness.h"
#include "seed.h"

#include "kernels/builtin.h"
#include "layout/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM_BYTES ((size_t)768 << 10) /* of each side */
#define MOST_UNITS ((uint64_t)1 << 15)
#define BLOCK_BOXES 16 /* as in layout/gpu.c */

static uint64_t seed;
static unsigned forms = 1000;

/* Of each sort, how many forms it took. */
static const char *const sorts[] = {
    "elements",           "rows",         "box", "transpose", "transpose-small", "transpose-wide",
    "transpose-wide-odd", "transpose-odd"};
#define SORTS (sizeof sorts / sizeof sorts[0])
static unsigned taken[SORTS];

/* ---- chance ---- */

static uint64_t state;

static uint64_t chance(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % below;
}

static void seed_chance(uint64_t number)
{
    state = (seed + 1) * 0x9e3779b97f4a7c15u + number * 0xbf58476d1ce4e5b9u;
    state = state ? state : 1;
    chance(2);
}

/* ---- memory between pages that cannot be touched ---- */

static char *make_room(void)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *all = mmap(NULL, ROOM_BYTES + 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(all, MAP_FAILED);
    assert_return_code(mprotect(all + page_bytes, ROOM_BYTES, PROT_READ | PROT_WRITE), 0);
    return all + page_bytes;
}

/* ---- random forms ---- */

static uint64_t random_size(void)
{
    static const uint64_t near[] = {3,  4,  8,  12, 15, 16, 17,  24,  31,  32,
                                    33, 48, 63, 64, 65, 96, 127, 128, 129, 257};

    switch (chance(4)) {
    case 0:
        return 2 + chance(3);
    case 1:
        return near[chance(sizeof near / sizeof *near)];
    case 2:
        return 2 + chance(14);
    default:
        return 2 + chance(chance(2) ? 70 : 700);
    }
}

/* Strides that lay the dimensions out in some order, with gaps now and then. Returns the bytes in all. */
static int64_t lay_out(const struct leati_form *form, int64_t *stride, const unsigned *order, bool listed,
                       bool gaps)
{
    int64_t step = form->unit_bytes;

    for (unsigned i = 0; i < form->dims; i++) {
        if (gaps && chance(4) == 0)
            step += (int64_t)chance(5) * form->unit_bytes;
        if (gaps && chance(4) == 0)
            step = (step + 63) & ~(int64_t)63;
        stride[order[i]] = step;
        step *= listed && (int)order[i] == form->index_dim ? form->index_bound : (int64_t)form->size[order[i]];
    }
    return step;
}

static void extent(const struct leati_form *form, const int64_t *stride, bool listed, int64_t *low, int64_t *high)
{
    *low = 0;
    *high = form->unit_bytes;
    for (unsigned i = 0; i < form->dims; i++) {
        int64_t count = listed && (int)i == form->index_dim ? form->index_bound : (int64_t)form->size[i];
        int64_t reach = (count - 1) * stride[i];

        *(reach < 0 ? low : high) += reach;
    }
}

static void add_list(struct leati_form *form)
{
    form->index_dim = (int)chance(form->dims);
    form->index_on_dst = chance(3) == 0;
    form->index_bytes = chance(2) ? 4 : 8;
    form->index_bound = (int64_t)form->size[form->index_dim];
    if (!form->index_on_dst)
        form->size[form->index_dim] = chance(2) ? random_size() : 1 + chance(5);
    else if (chance(2))
        form->size[form->index_dim] = 1 + chance(form->size[form->index_dim]);
}

static void shuffle(unsigned *order, unsigned count)
{
    for (unsigned i = count; i > 1; i--) {
        unsigned other = (unsigned)chance(i), was = order[i - 1];

        order[i - 1] = order[other];
        order[other] = was;
    }
}

/* False when it came out too large. */
static bool random_form(struct leati_form *form)
{
    bool small = chance(8) == 0, gaps = chance(2);
    unsigned order[24], most = small ? 4 + (unsigned)chance(12) : 1 + (unsigned)chance(6);
    uint64_t units = 1;

    *form = (struct leati_form){.unit_bytes = 1u << chance(5), .index_dim = -1};
    while (form->dims < most) {
        uint64_t size = small ? 2 + chance(8) / 7 : random_size();

        if (units * size > MOST_UNITS)
            break;
        units *= size;
        form->size[form->dims++] = size;
    }
    for (unsigned i = 0; i < form->dims; i++)
        order[i] = i;
    if (form->dims && chance(4) == 0)
        add_list(form);
    lay_out(form, form->dst_stride, order, form->index_on_dst, gaps);
    if (chance(8))
        shuffle(order, form->dims);
    if (form->dims > 1 && chance(3) == 0)
        shuffle(order + 1, form->dims - 1);
    lay_out(form, form->src_stride, order, !form->index_on_dst, gaps && chance(2));
    for (unsigned i = 0; i < form->dims; i++) {
        if (chance(20) == 0)
            form->src_stride[i] = 0;
        if (chance(20) == 0)
            form->src_stride[i] = -form->src_stride[i];
    }
    units = 1;
    for (unsigned i = 0; i < form->dims; i++)
        units *= form->size[i];
    form->payload_bytes = units * form->unit_bytes;
    extent(form, form->dst_stride, form->index_on_dst, &form->dst_low, &form->dst_high);
    extent(form, form->src_stride, !form->index_on_dst, &form->src_low, &form->src_high);
    return units <= MOST_UNITS && (size_t)(form->dst_high - form->dst_low) <= ROOM_BYTES / 2 &&
           (size_t)(form->src_high - form->src_low) <= ROOM_BYTES / 2;
}

/* ---- the judge: a plain loop, with a division for each dimension of each unit ---- */

static int64_t list_at(const struct leati_form *form, const void *list, uint64_t i)
{
    return form->index_bytes == 4 ? ((const int32_t *)list)[i] : ((const int64_t *)list)[i];
}

static void judge(const struct leati_form *form, char *dst, const char *src, const void *list)
{
    uint64_t units = form->payload_bytes / form->unit_bytes;

    for (uint64_t u = 0; u < units; u++) {
        int64_t to = form->dst_offset, from = form->src_offset;
        bool wrong = false;
        uint64_t rest = u;

        for (unsigned i = 0; i < form->dims; i++) {
            int64_t at = (int64_t)(rest % form->size[i]), on_dst = at, on_src = at;

            rest /= form->size[i];
            if ((int)i == form->index_dim) {
                int64_t index = list_at(form, list, (uint64_t)at);

                wrong = index < 0 || index >= form->index_bound;
                *(form->index_on_dst ? &on_dst : &on_src) = index;
            }
            to += on_dst * form->dst_stride[i];
            from += on_src * form->src_stride[i];
        }
        if (!wrong)
            memcpy(dst + to, src + from, form->unit_bytes);
    }
}

/* Of a scatter's indices no two are the same, since any of two might be the last. */
static void *make_list(const struct leati_form *form, uint64_t *wrong)
{
    uint64_t count = form->size[form->index_dim], start = chance((uint64_t)form->index_bound);
    void *list = malloc(count * form->index_bytes);

    assert_non_null(list);
    *wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        static const int64_t off[] = {-1, INT32_MIN, INT32_MAX};
        int64_t at = form->index_on_dst ? (int64_t)((start + i) % (uint64_t)form->index_bound)
                                        : (int64_t)chance((uint64_t)form->index_bound);

        if (chance(50) == 0)
            at = chance(2) ? form->index_bound : off[chance(3)];
        *wrong += at < 0 || at >= form->index_bound;
        if (form->index_bytes == 4)
            ((int32_t *)list)[i] = (int32_t)at;
        else
            ((int64_t *)list)[i] = at;
    }
    return list;
}

/* ---- one form ---- */

static const leat_cpu_kernel *find_kernel(const char *name)
{
    for (size_t i = 0; i < leati_host_layout_count; i++)
        if (!strcmp(leati_host_layouts[i].name, name))
            return leati_host_layouts[i].kernel;
    fail_msg("no kernel is called %s", name);
    return NULL;
}

/* The kernel is in the module that its layout names. */
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

/* Blocks in any order: from the middle on first. */
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

static void run_layout(const struct leati_form *form, const struct leati_gpu_layout *gpu, void *dst,
                       const void *src, const void *list, uint64_t *wrong)
{
    _Alignas(16) unsigned char argument[LEATI_GPU_LAYOUT_ARGUMENT_BYTES];
    const leat_cpu_kernel *kernel = find_kernel(gpu->kernel);
    void *args[] = {argument};

    expect_listed(gpu);
    assert_int_equal(kernel->parameter_count, 1);
    assert_int_equal(kernel->parameter_bytes[0], sizeof argument);
    leati_gpu_layout_argument(form, gpu, dst, src, list, wrong, argument);
    run_blocks(kernel, gpu->grid, gpu->block, args);
}

static void tell(const struct leati_form *form, const struct leati_gpu_layout *gpu)
{
    char text[256];

    leati_gpu_layout_text(gpu, text, sizeof text);
    fprintf(stderr, "unit %u; aligned %u, %u; %s; list on %d (%s)\n", form->unit_bytes, form->dst_align,
            form->src_align, text, form->index_dim, form->index_on_dst ? "dst" : "src");
    for (unsigned i = 0; i < form->dims; i++)
        fprintf(stderr, "  size %llu, dst %lld, src %lld\n", (unsigned long long)form->size[i],
                (long long)form->dst_stride[i], (long long)form->src_stride[i]);
}

/* With fewer blocks each copies more boxes; large copies have up to BLOCK_BOXES a block. */
static void share_boxes(struct leati_gpu_layout *gpu)
{
    uint32_t boxes = gpu->task.boxes, fewest = (boxes + BLOCK_BOXES - 1) / BLOCK_BOXES;

    if (boxes && chance(4))
        gpu->grid.x = chance(2) ? fewest : fewest + (uint32_t)chance(boxes - fewest + 1);
}

/* The largest power of two up to 16 that divides an address. */
static unsigned align_of(const void *address)
{
    uintptr_t bits = (uintptr_t)address | 16;

    return (unsigned)(bits & (~bits + 1));
}

struct rooms {
    char *dst, *src, *wanted;
};

/* Where in its room a side lies: mostly at one of the ends, so that what reaches over it is noticed. */
static char *place(char *room, int64_t low, int64_t high, unsigned unit_bytes)
{
    size_t slack = ROOM_BYTES - (size_t)(high - low), at = chance(3) ? slack : 0;

    if (chance(2))
        at = slack / 2 / 64 * 64 + chance(8) * unit_bytes;
    return room + at - at % unit_bytes - low;
}

static void check_room(const struct leati_form *form, const struct leati_gpu_layout *gpu, const struct rooms *r,
                       uint64_t number)
{
    size_t at = 0;

    if (!memcmp(r->dst, r->wanted, ROOM_BYTES))
        return;
    while (r->dst[at] == r->wanted[at])
        at++;
    tell(form, gpu);
    fail_msg("form %llu of seed %llu: byte %zu of the room is wrong", (unsigned long long)number,
             (unsigned long long)seed, at);
}

static void run_form(struct leati_form *form, const struct rooms *r, uint64_t number)
{
    char *dst = place(r->dst, form->dst_low, form->dst_high, form->unit_bytes),
         *wanted = r->wanted + (dst - r->dst);
    const char *src = place(r->src, form->src_low, form->src_high, form->unit_bytes);
    uint64_t wrong = 0, counted;
    void *list = form->index_dim >= 0 ? make_list(form, &wrong) : NULL;

    form->dst_offset = chance(2) ? (int64_t)form->unit_bytes * 3 : 0;
    form->src_offset = chance(2) ? -(int64_t)form->unit_bytes : 0;
    form->dst_align = chance(8) ? align_of(dst) : form->unit_bytes;
    form->src_align = chance(8) ? align_of(src) : form->unit_bytes;
    dst -= form->dst_offset, wanted -= form->dst_offset, src -= form->src_offset;
    memset(r->wanted, 0xa5, ROOM_BYTES);
    judge(form, wanted, src, list);
    for (size_t s = 0; s < SORTS; s++) {
        struct leati_gpu_layout gpu;

        if (!leati_gpu_layout_make_as(form, sorts[s], &gpu))
            continue;
        taken[s]++;
        share_boxes(&gpu);
        counted = 7;
        memset(r->dst, 0xa5, ROOM_BYTES);
        run_layout(form, &gpu, dst, src, list, number % 4 ? &counted : NULL);
        check_room(form, &gpu, r, number);
        if (list && number % 4 && counted != wrong + 7) {
            tell(form, &gpu);
            fail_msg("form %llu of seed %llu: %llu of %llu wrong indices", (unsigned long long)number,
                     (unsigned long long)seed, (unsigned long long)counted - 7, (unsigned long long)wrong);
        }
    }
    free(list);
}

static void random_forms_are_copied(void **unused)
{
    struct rooms r = {make_room(), make_room(), make_room()};

    (void)unused;
    test_pattern(r.src, ROOM_BYTES, seed);
    for (uint64_t i = 0; i < forms; i++) {
        struct leati_form form;

        seed_chance(i);
        if (random_form(&form))
            run_form(&form, &r, i);
    }
    for (size_t s = 0; s < SORTS; s++) {
        printf("%s: %u forms\n", sorts[s], taken[s]);
        assert_true(taken[s] > 0);
    }
}

/* What was chosen for a form, by all of the ways to say which. */
static const char *chosen_for(unsigned unit_bytes, unsigned dims, const uint64_t *size, const unsigned *order,
                              struct leati_gpu_layout *gpu)
{
    struct leati_form form = {.dims = dims, .unit_bytes = unit_bytes, .index_dim = -1};
    int64_t step = unit_bytes;

    form.dst_align = form.src_align = 16;
    form.payload_bytes = unit_bytes;
    for (unsigned k = 0; k < dims; k++) {
        form.size[k] = size[k];
        form.dst_stride[k] = step;
        step *= (int64_t)size[k];
    }
    form.payload_bytes = (uint64_t)step;
    /* order: the destination's dimensions as they lie on the source. */
    step = unit_bytes;
    for (unsigned k = 0; k < dims; k++) {
        form.src_stride[order[k]] = step;
        step *= (int64_t)size[order[k]];
    }
    leati_gpu_layout_make(&form, LEAT_LAYOUT_ELEMENTS, gpu);
    return gpu->kernel;
}

#define CHOSEN(unit, dims, sizes, order, gpu)                                                                     \
    chosen_for(unit, dims, (const uint64_t[])sizes, (const unsigned[])order, gpu)
#define LIST(...)                                                                                                 \
    {                                                                                                             \
        __VA_ARGS__                                                                                               \
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
    /* Heads of 64: rows. Three channels, either way: boxes. */
    assert_string_equal(CHOSEN(4, 4, LIST(64, 16, 2048, 8), LIST(0, 2, 1, 3), &gpu), "leat_layout_rows_4");
    assert_string_equal(CHOSEN(4, 3, LIST(3, 50176, 64), LIST(1, 0, 2), &gpu), "leat_layout_box_4");
    assert_string_equal(CHOSEN(1, 3, LIST(50176, 3, 64), LIST(1, 0, 2), &gpu), "leat_layout_box_1");
    assert_int_equal(gpu.task.read.word_units, 4);
    assert_int_equal(gpu.task.write.word_units, 4);
    assert_string_equal(CHOSEN(4, 2, LIST(100000000, 2), LIST(1, 0), &gpu), "leat_layout_box_4");
    /* Transposes of 12 bytes, also where no part divides a side. */
    assert_string_equal(CHOSEN(4, 3, LIST(3, 6655, 6653), LIST(0, 2, 1), &gpu), "leat_layout_box_4");
    assert_in_range(gpu.tile_i * 4, 64, 1024);
    assert_in_range(gpu.tile_j * 4, 64, 1024);
    /* Many dimensions of two: the other way round lines of several, shuffled a box. */
    for (unsigned k = 0; k < 24; k++)
        order[k] = 23 - k;
    assert_string_equal(chosen_for(8, 24, twos, order, &gpu), "leat_layout_transpose_wide_8");
    for (unsigned k = 0; k < 24; k++)
        order[k] = (k + 3) % 24;
    order[0] = 1, order[22] = 3;
    assert_string_equal(chosen_for(8, 24, twos, order, &gpu), "leat_layout_box_8");
}

/* ---- more than 31 bits can count ---- */

#define HUGE_BYTES ((UINT64_C(1) << 31) + 54321)

static void *reserve(uint64_t bytes)
{
    void *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (all == MAP_FAILED) {
        printf("no addresses for %llu bytes\n", (unsigned long long)bytes);
        skip();
    }
    return all;
}

/* Of a copy of single bytes the blocks for three windows: the begin, where it is cut in two pieces, and the end.
 */
static void huge_forms_are_counted(void **unused)
{
    const uint64_t start[] = {0, HUGE_BYTES / 2 - 2048, (UINT64_C(1) << 31) - 4096};
    const uint64_t length[] = {4096, 4096, HUGE_BYTES - start[2]};
    unsigned char *dst = reserve(HUGE_BYTES + 4096), *src = reserve(HUGE_BYTES);
    struct leati_form form = {.dims = 1, .unit_bytes = 1, .dst_align = 1, .src_align = 1, .index_dim = -1};

    (void)unused;
    form.size[0] = HUGE_BYTES;
    form.dst_stride[0] = form.src_stride[0] = 1;
    form.payload_bytes = HUGE_BYTES;
    form.src_high = form.dst_high = HUGE_BYTES;
    for (unsigned w = 0; w < 3; w++)
        test_pattern(src + start[w], length[w], seed + w);
    for (unsigned s = 0; s < 2; s++) {
        _Alignas(16) unsigned char argument[LEATI_GPU_LAYOUT_ARGUMENT_BYTES];
        leat_cpu_block launch = {.grid_blocks = {0, 1, 1}};
        struct leati_gpu_layout gpu;
        void *args[] = {argument};
        uint64_t in_block;

        for (unsigned w = 0; w < 3; w++)
            memset(dst + start[w], 0, length[w] + (w == 2 ? 4096 : 0));
        assert_true(leati_gpu_layout_make_as(&form, s ? "rows" : "elements", &gpu));
        leati_gpu_layout_argument(&form, &gpu, dst, src, NULL, NULL, argument);
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

/* ---- banks: what a GPU's shared memory makes of the places that threads use ---- */

#define BANKS 32

/* How often the busiest bank is asked by threads that are served together. bytes: of an access, 4 at least;
 * threads that ask for the same word are served at once. */
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

/* Words of 16 bytes are served to eight threads at a time. Both ways through a tile, for every tile there is. */
static void tiles_meet_no_bank_twice(void **unused)
{
    (void)unused;
    for (unsigned unit = 1; unit <= 16; unit *= 2)
        for (unsigned across = 8; across <= 16; across *= 2)
            for (unsigned down = 8; down <= across; down *= 2) {
                unsigned units = 16 / unit;

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
                        place[t] =
                            16 * leati_tile_place(across, units, (first + t) / across, (first + t) % across);
                    assert_int_equal(times_asked(place, 8, 16), 1);
                }
            }
}

/* Of the unit with that number on the destination. */
static uint32_t place_of(const struct leati_layout_task *task, uint32_t number)
{
    uint32_t place = 0;

    for (uint32_t k = task->write.first; k < task->write.end; k++) {
        place += number % task->box[k].by.size * (task->box[k].place & 0xffff);
        number /= task->box[k].by.size;
    }
    return place;
}

/* The busiest bank when a box is written, over the warps of a block. */
static unsigned box_asks(const struct leati_gpu_layout *gpu)
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

static void boxes_meet_few_banks_twice(void **unused)
{
    struct leati_gpu_layout gpu;

    (void)unused;
    CHOSEN(4, 3, LIST(3, 50176, 64), LIST(1, 0, 2), &gpu);
    assert_in_range(box_asks(&gpu), 1, 2);
    CHOSEN(4, 3, LIST(50176, 3, 64), LIST(1, 0, 2), &gpu);
    assert_in_range(box_asks(&gpu), 1, 2);
    CHOSEN(1, 3, LIST(3, 50176, 64), LIST(1, 0, 2), &gpu);
    assert_in_range(box_asks(&gpu), 1, 2);
    CHOSEN(1, 3, LIST(50176, 3, 64), LIST(1, 0, 2), &gpu);
    assert_in_range(box_asks(&gpu), 1, 2);
    CHOSEN(1, 3, LIST(3136, 64, 640), LIST(1, 0, 2), &gpu);
    assert_string_equal(gpu.kernel, "leat_layout_box_1");
    assert_in_range(box_asks(&gpu), 1, 2);
    CHOSEN(1, 3, LIST(3, 4096, 4096), LIST(0, 2, 1), &gpu);
    assert_in_range(box_asks(&gpu), 1, 2);
    CHOSEN(4, 2, LIST(100000000, 2), LIST(1, 0), &gpu);
    assert_in_range(box_asks(&gpu), 1, 2);
    CHOSEN(4, 2, LIST(2, 100000000), LIST(1, 0), &gpu);
    assert_in_range(box_asks(&gpu), 1, 2);
}

/* ---- the steps to a fast transpose ---- */

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
        cmocka_unit_test(random_forms_are_copied),    cmocka_unit_test(kernels_are_chosen),
        cmocka_unit_test(huge_forms_are_counted),     cmocka_unit_test(tiles_meet_no_bank_twice),
        cmocka_unit_test(boxes_meet_few_banks_twice), cmocka_unit_test(steps_transpose)};

    seed = test_seed();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--forms"))
            forms = (unsigned)strtoul(argv[i + 1], NULL, 10);
    }
    printf("unit_layout_gpu: seed %llu, %u forms\n", (unsigned long long)seed, forms);
    fflush(stdout);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
