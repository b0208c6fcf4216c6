/*
 * test_layout_batch.c - tests leat_copy_layouts(): random copies against a plain loop, shapes for which leat has
 * kernels of their own, conversions, order, and calls that are refused.
 *
 * The program prints its seed; TEST_SEED sets it. LAYOUT_MANY sets the number of random calls.
 */
#include "layout_arenas.h"

#include <sys/mman.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)8 << 20)
#define COPIES_MOST 160u

/* ---- copies in arenas ---- */

/* The copies of one call. Their sides follow one another in two arenas, apart from gaps, in random order. */
struct call {
    struct arenas *arenas;
    enum place to, from;
    leat_layout_copy copies[COPIES_MOST];
    size_t count, dst_bytes, src_bytes;
    size_t dst_align, src_align; /* the lowest byte of each side of a copy is at a multiple of this number */
};

static void begin_call(struct call *call, struct arenas *arenas, enum place to, enum place from)
{
    *call = (struct call){.arenas = arenas,
                          .to = to,
                          .from = from,
                          .dst_bytes = 64,
                          .src_bytes = 64,
                          .dst_align = 1,
                          .src_align = 1};
    memset(arenas->wanted, 0xa5, arenas->bytes);
}

static size_t aligned(size_t offset, size_t align)
{
    return (offset + align - 1) / align * align;
}

/* Adds a copy, unless the arenas are full, and copies it with the plain loop. Returns false if they are full. */
static bool add_copy(struct call *call, const struct layouts_pair *pair)
{
    size_t dst = aligned(call->dst_bytes + chance(40), call->dst_align);
    size_t src = aligned(call->src_bytes + chance(40), call->src_align);
    size_t dst_end = dst + (size_t)(pair->dst_high - pair->dst_low);
    size_t src_end = src + (size_t)(pair->src_high - pair->src_low);
    leat_layout_copy *copy = &call->copies[call->count];

    if (call->count == COPIES_MOST || dst_end + 64 > ARENA_BYTES || src_end + 64 > ARENA_BYTES)
        return false;
    *copy = (leat_layout_copy){.dst = call->arenas->arena[0][call->to] + dst - pair->dst_low,
                               .dst_layout = &pair->dst,
                               .src = call->arenas->arena[1][call->from] + src - pair->src_low,
                               .src_layout = &pair->src};
    layouts_copy(pair, call->arenas->wanted + dst, call->arenas->in + src);
    call->dst_bytes = dst_end;
    call->src_bytes = src_end;
    call->count++;
    return true;
}

/* Mixes the copies, so that neither their addresses nor their layouts are sorted. */
static void mix_copies(struct call *call)
{
    for (size_t i = call->count; i > 1; i--) {
        size_t other = chance(i);
        leat_layout_copy held = call->copies[i - 1];

        call->copies[i - 1] = call->copies[other];
        call->copies[other] = held;
    }
}

static void fill_arenas(leat_stream *stream, struct call *call)
{
    struct arenas *arenas = call->arenas;

    memset(arenas->seen, 0xa5, arenas->bytes);
    OK(leat_copy_sync(stream, arenas->arena[0][call->to], arenas->seen, ARENA_BYTES));
    OK(leat_copy_sync(stream, arenas->arena[1][call->from], arenas->in, ARENA_BYTES));
}

static void compare(leat_stream *stream, struct call *call, const unsigned char *arena,
                    const unsigned char *wanted, const char *side)
{
    struct arenas *arenas = call->arenas;
    size_t i = 0;

    OK(leat_copy_sync(stream, arenas->seen, arena, ARENA_BYTES));
    if (!memcmp(arenas->seen, wanted, ARENA_BYTES))
        return;
    while (arenas->seen[i] == wanted[i])
        i++;
    fail_msg("seed %llu, %zu copies from %s to %s: byte %zu of %s is %02x and not %02x", (unsigned long long)seed,
             call->count, place_names[call->from], place_names[call->to], i, side, arenas->seen[i], wanted[i]);
}

/* Makes the copies of the call, and compares all bytes of both arenas. */
static void make_call(leat_stream *stream, struct call *call)
{
    mix_copies(call);
    fill_arenas(stream, call);
    OK(leat_copy_layouts(stream, call->copies, call->count));
    compare(stream, call, call->arenas->arena[0][call->to], call->arenas->wanted, "dst");
    compare(stream, call, call->arenas->arena[1][call->from], call->arenas->in, "src");
}

static void random_copies(void **state)
{
    enum { PAIRS = 4 };
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, ARENA_BYTES);
    for (unsigned i = 0; i < many / 4; i++) {
        enum place to = i % 3 ? DEVICE : (enum place)chance(OTHER_DEVICE),
                   from = i % 3 ? DEVICE : (enum place)chance(OTHER_DEVICE);
        unsigned pairs = 1 + (unsigned)chance(PAIRS), copies = 1 + (unsigned)chance(COPIES_MOST);
        struct layouts_pair pair[PAIRS];
        struct call call;

        if (!is_there(&arenas, to, from))
            continue;
        begin_call(&call, &arenas, to, from);
        if (chance(2))
            call.dst_align = call.src_align = 16;
        for (unsigned n = 0; n < pairs; n++)
            layouts_draw(&random_state, 1 + (i + n) % 16, 1 + chance(SMALL_BYTES / 4),
                         chance(6) ? LAYOUTS_NO_LIST : LAYOUTS_GATHER, &pair[n]);
        for (unsigned n = 0; n < copies && add_copy(&call, &pair[chance(pairs)]); n++)
            ;
        make_call(t->stream, &call);
    }
    end_arenas(&arenas);
}

/* ---- shapes that have kernels of their own ---- */

struct figure {
    uint32_t element_bytes, dims;
    int64_t size[4];         /* of dst, which is dense */
    uint32_t src_order[4];   /* src is dense with its dimensions in this order, from the slowest to the fastest */
    int64_t src_row_padding; /* bytes behind each line of the fastest dimension of src */
    size_t align;
};

/* Lays src out without gaps, but for the padding, in its own order of dimensions. */
static void make_pair(const struct figure *figure, struct layouts_pair *pair)
{
    int64_t stride = figure->element_bytes;

    OK(leat_layout_dense(&pair->dst, figure->dims, figure->size, figure->element_bytes));
    pair->src = pair->dst;
    for (uint32_t n = figure->dims; n-- > 0;) {
        uint32_t dim = figure->src_order[n];

        pair->src.stride_bytes[dim] = stride;
        stride *= figure->size[dim];
        if (n + 1 == figure->dims)
            stride += figure->src_row_padding;
    }
    layouts_measure(pair);
}

static void known_shapes(void **state)
{
    static const struct figure figures[] = {
        {1, 3, {3, 40, 48, 0}, {1, 2, 0, 0}, 0, 16},   /* pixels to planes */
        {1, 3, {3, 37, 41, 0}, {1, 2, 0, 0}, 0, 1},    /* from and to any address */
        {1, 3, {3, 224, 224, 0}, {1, 2, 0, 0}, 0, 16}, /* images */
        {2, 3, {4, 32, 64, 0}, {1, 2, 0, 0}, 0, 16},   {1, 3, {30, 31, 3, 0}, {2, 0, 1, 0}, 0, 1}, /* to pixels */
        {1, 3, {25, 40, 12, 0}, {2, 0, 1, 0}, 0, 16},  {4, 2, {64, 64, 0, 0}, {1, 0, 0, 0}, 0, 16},
        {4, 2, {100, 33, 0, 0}, {1, 0, 0, 0}, 0, 4},   {1, 2, {90, 70, 0, 0}, {1, 0, 0, 0}, 0, 1},
        {8, 2, {256, 300, 0, 0}, {1, 0, 0, 0}, 0, 16}, /* larger than a group with another kernel */
        {1, 2, {40, 333, 0, 0}, {0, 1, 0, 0}, 51, 1},  {4, 2, {40, 64, 0, 0}, {0, 1, 0, 0}, 64, 16}, /* rows */
        {1, 1, {5000, 0, 0, 0}, {0, 0, 0, 0}, 0, 1},   {3, 2, {41, 50, 0, 0}, {1, 0, 0, 0}, 0, 1},
        {2, 4, {4, 5, 6, 7}, {3, 1, 2, 0}, 0, 2},      {16, 2, {20, 30, 0, 0}, {1, 0, 0, 0}, 0, 16},
        {2, 3, {32, 64, 4, 0}, {2, 0, 1, 0}, 0, 16},   {1, 3, {12, 32, 64, 0}, {1, 2, 0, 0}, 0, 16},
        {8, 2, {40, 36, 0, 0}, {1, 0, 0, 0}, 0, 16},
    };
    static const size_t counts[] = {2, 16, COPIES_MOST};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, ARENA_BYTES);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0] * 3; i++) {
        const struct figure *figure = &figures[i / 3];
        struct layouts_pair pair;
        struct call call;

        make_pair(figure, &pair);
        begin_call(&call, &arenas, i % 5 == 4 ? PINNED : DEVICE, i % 7 == 6 ? PINNED : DEVICE);
        call.dst_align = call.src_align = figure->align;
        while (call.count < counts[i % 3] && add_copy(&call, &pair))
            ;
        make_call(t->stream, &call);
    }
    end_arenas(&arenas);
}

/* Layouts of which each copy has structs of its own, which are equal. */
static void equal_layouts_in_other_structs(void **state)
{
    static const struct figure figure = {1, 3, {3, 16, 32, 0}, {1, 2, 0, 0}, 0, 16};
    struct test_state *t = *state;
    struct layouts_pair *pairs = calloc(40, sizeof *pairs);
    struct arenas arenas;
    struct call call;

    assert_non_null(pairs);
    make_arenas(t, &arenas, ARENA_BYTES);
    begin_call(&call, &arenas, DEVICE, DEVICE);
    call.dst_align = call.src_align = 16;
    for (int i = 0; i < 40; i++) {
        make_pair(&figure, &pairs[i]);
        assert_true(add_copy(&call, &pairs[i]));
    }
    make_call(t->stream, &call);
    end_arenas(&arenas);
    free(pairs);
}

/* Each source is in pages of its own, between pages that cannot be accessed, and begins or ends at one of these. A
 * kernel that reads beyond a source then fails, at least on the CPU device. */
static void sources_between_missing_pages(void **state)
{
    enum { COPIES = 12, PAGES = 3 };
    static const struct figure figures[] = {
        {1, 3, {3, 33, 47, 0}, {1, 2, 0, 0}, 0, 1}, {1, 3, {33, 47, 3, 0}, {2, 0, 1, 0}, 0, 1},
        {2, 3, {3, 33, 47, 0}, {1, 2, 0, 0}, 0, 2}, {1, 2, {40, 91, 0, 0}, {0, 1, 0, 0}, 8, 1},
        {4, 2, {31, 45, 0, 0}, {1, 0, 0, 0}, 0, 4}, {1, 2, {81, 92, 0, 0}, {1, 0, 0, 0}, 0, 1},
    };
    struct test_state *t = *state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = PAGES * page;
    unsigned char *memory = mmap(NULL, COPIES * 2 * room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *dst = test_alloc(t->device, LEAT_KIND_DEVICE, COPIES * room),
                  *seen = test_buffer(COPIES * room), *wanted = test_buffer(COPIES * room);

    assert_true(memory != MAP_FAILED);
    for (size_t i = 0; i < COPIES; i++) {
        unsigned char *first = memory + (2 * i + 1) * room - page;

        assert_int_equal(mprotect(first, room, PROT_READ | PROT_WRITE), 0);
        test_pattern(first, room, (uint64_t)i);
        OK(leat_register(t->device, first, room));
    }
    for (size_t n = 0; n < sizeof figures / sizeof figures[0]; n++) {
        leat_layout_copy copies[COPIES];
        struct layouts_pair pair;

        make_pair(&figures[n], &pair);
        assert_true((size_t)pair.src_high <= room && (size_t)pair.dst_high <= room);
        memset(wanted, 0x44, COPIES * room);
        for (size_t i = 0; i < COPIES; i++) {
            unsigned char *first = memory + (2 * i + 1) * room - page;

            copies[i] = (leat_layout_copy){.dst = dst + i * room,
                                           .dst_layout = &pair.dst,
                                           .src = first + (i % 2 ? room - (size_t)pair.src_high : 0),
                                           .src_layout = &pair.src};
            layouts_copy(&pair, wanted + i * room, copies[i].src);
        }
        OK(leat_fill(t->stream, dst, 0x44, COPIES * room));
        OK(leat_copy_layouts(t->stream, copies, COPIES));
        OK(leat_copy_sync(t->stream, seen, dst, COPIES * room));
        assert_memory_equal(seen, wanted, COPIES * room);
    }
    for (size_t i = 0; i < COPIES; i++)
        OK(leat_unregister(memory + (2 * i + 1) * room - page));
    assert_int_equal(munmap(memory, COPIES * 2 * room), 0);
    OK(leat_memory_free(dst));
    free(seen);
    free(wanted);
}

/* ---- conversions ---- */

/* Makes the same copies by single calls into the other half of dst, and compares. */
static void compare_with_single_calls(struct test_state *t, struct call *call, size_t half)
{
    unsigned char *dst = call->arenas->arena[0][call->to];

    fill_arenas(t->stream, call);
    mix_copies(call);
    OK(leat_copy_layouts(t->stream, call->copies, call->count));
    for (size_t i = 0; i < call->count; i++) {
        const leat_layout_copy *copy = &call->copies[i];
        char *other = (char *)copy->dst + half;

        if (copy->conversion)
            OK(leat_copy_convert(t->stream, other, copy->dst_layout, copy->src, copy->src_layout,
                                 copy->conversion));
        else
            OK(leat_copy_layout(t->stream, other, copy->dst_layout, copy->src, copy->src_layout));
    }
    OK(leat_copy_sync(t->stream, call->arenas->seen, dst, ARENA_BYTES));
    assert_memory_equal(call->arenas->seen, call->arenas->seen + half, half);
}

static void conversions(void **state)
{
    enum { IMAGES = 70, CHANNELS = 3 };
    static const struct {
        int64_t height, width;
        leat_number dst;
        enum { PIXELS, PLANES, TURNED } src; /* dst has planes; TURNED: src has planes of columns */
        size_t padding;                      /* bytes from one image of dst to the next, beside its own */
    } shapes[] = {{24, 32, LEAT_NUMBER_F16, PIXELS, 0}, {24, 32, LEAT_NUMBER_F32, PIXELS, 16},
                  {13, 17, LEAT_NUMBER_F16, PIXELS, 2}, {13, 17, LEAT_NUMBER_BF16, PLANES, 4},
                  {32, 33, LEAT_NUMBER_F32, PLANES, 4}, {5, 6, LEAT_NUMBER_F32, PIXELS, 8},
                  {40, 48, LEAT_NUMBER_F16, TURNED, 0}};
    static const float scale[CHANNELS] = {0.017f, 0.018f, 0.019f}, bias[CHANNELS] = {-2.1f, -2.0f, -1.8f};
    static const float other_scale[CHANNELS] = {1, 2, 3};
    struct test_state *t = *state;
    struct arenas arenas;

    make_arenas(t, &arenas, ARENA_BYTES);
    for (size_t n = 0; n < sizeof shapes / sizeof shapes[0]; n++) {
        uint32_t bytes = shapes[n].dst == LEAT_NUMBER_F32 ? 4 : 2;
        int64_t pixels = shapes[n].height * shapes[n].width;
        int64_t split[] = {shapes[n].height, shapes[n].width, CHANNELS};
        int64_t planes_size[] = {CHANNELS, shapes[n].height, shapes[n].width};
        int64_t turned_size[] = {CHANNELS, shapes[n].width, shapes[n].height};
        size_t step = (size_t)(pixels * CHANNELS) * bytes + shapes[n].padding, half = ARENA_BYTES / 2;
        leat_conversion all[3] = {LEAT_CONVERSION_INIT, LEAT_CONVERSION_INIT, LEAT_CONVERSION_INIT};
        leat_layout planes, from, bytes_only;
        struct call call;

        for (int i = 0; i < 3; i++) {
            all[i].dst = shapes[n].dst;
            all[i].src = LEAT_NUMBER_U8;
            all[i].channels = CHANNELS;
            all[i].channel_dim = 0;
            all[i].scale = i == 2 ? other_scale : scale;
            all[i].bias = bias;
        }
        OK(leat_layout_dense(&planes, 3, planes_size, bytes));
        OK(leat_layout_dense(&from, 3, shapes[n].src == PIXELS ? split : planes_size, 1));
        if (shapes[n].src == PIXELS)
            OK(leat_layout_permute(&from, (uint32_t[]){2, 0, 1}));
        if (shapes[n].src == TURNED) {
            OK(leat_layout_dense(&from, 3, turned_size, 1));
            OK(leat_layout_transpose(&from, 1, 2));
        }
        OK(leat_layout_dense(&bytes_only, 3, planes_size, 1));
        begin_call(&call, &arenas, DEVICE, DEVICE);
        for (size_t i = 0; i < IMAGES; i++)
            call.copies[call.count++] = (leat_layout_copy){
                .dst = arenas.arena[0][DEVICE] + i * step,
                .dst_layout = i % 9 == 8 ? &bytes_only : &planes,
                .src = arenas.arena[1][DEVICE] + (i * 7 % IMAGES) * ((size_t)(pixels * CHANNELS) + i % 2 * 3),
                .src_layout = &from,
                /* The first two are equal and make one group, the third one is another. */
                .conversion = i % 9 == 8 ? NULL : &all[i % 3]};
        assert_true(IMAGES * step <= half);
        compare_with_single_calls(t, &call, half);
    }
    end_arenas(&arenas);
}

/* ---- order, and when leat reads what the program passes ---- */

enum { IMAGES = 90, IMAGE_BYTES = 24 * 32 * 3 };

/* Makes the copies of IMAGES images, whose pixels become planes. layouts: room for two of them. */
static void make_images(unsigned char *dst, const unsigned char *src, leat_layout *layouts,
                        leat_layout_copy *copies)
{
    OK(leat_layout_dense(&layouts[0], 3, (int64_t[]){3, 24, 32}, 1));
    OK(leat_layout_dense(&layouts[1], 3, (int64_t[]){24, 32, 3}, 1));
    OK(leat_layout_permute(&layouts[1], (uint32_t[]){2, 0, 1}));
    for (size_t i = 0; i < IMAGES; i++)
        copies[i] = (leat_layout_copy){.dst = dst + i * IMAGE_BYTES,
                                       .dst_layout = &layouts[0],
                                       .src = src + (i * 7 + 1) % IMAGES * IMAGE_BYTES,
                                       .src_layout = &layouts[1]};
}

static void expect_images(const unsigned char *seen, const unsigned char *in)
{
    for (size_t i = 0; i < IMAGES; i++)
        for (size_t n = 0; n < IMAGE_BYTES; n++)
            assert_int_equal(
                seen[i * IMAGE_BYTES + n],
                in[(i * 7 + 1) % IMAGES * IMAGE_BYTES + n % (IMAGE_BYTES / 3) * 3 + n / (IMAGE_BYTES / 3)]);
}

/* Another stream writes the sources behind a gate, and the stream of the copies waits for its event. Later work of
 * that stream overwrites the sources. The program overwrites and frees what it passed as soon as the call returns.
 */
static void copies_keep_their_place(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, (size_t)3 * IMAGES * IMAGE_BYTES);
    unsigned char *dst = memory, *src = memory + IMAGES * IMAGE_BYTES, *before = src + IMAGES * IMAGE_BYTES;
    unsigned char *in = test_buffer(IMAGES * IMAGE_BYTES), *out = test_buffer(IMAGES * IMAGE_BYTES);
    leat_layout_copy *copies = calloc(IMAGES, sizeof *copies);
    leat_layout *layouts = calloc(2, sizeof *layouts);
    struct test_gate *gate;
    leat_stream *producer;
    leat_module *module;
    leat_event *written;

    assert_true(copies && layouts);
    OK(leat_stream_create(t->device, &producer));
    OK(leat_event_create(t->device, &written));
    test_pattern(in, IMAGES * IMAGE_BYTES, 3);
    OK(leat_copy_sync(t->stream, before, in, IMAGES * IMAGE_BYTES));
    OK(leat_fill(t->stream, memory, 0x11, (size_t)2 * IMAGES * IMAGE_BYTES));
    /* Load the kernels now: loading them could wait for the closed gate. */
    OK(leat_module_layout(t->device, &module));
    make_images(dst, src, layouts, copies);
    OK(leat_copy_layouts(t->stream, copies, IMAGES));
    OK(leat_stream_synchronize(t->stream));
    gate = test_gate_close(producer);
    OK(leat_copy(producer, src, before, IMAGES * IMAGE_BYTES));
    OK(leat_event_record(producer, written));
    OK(leat_stream_wait(t->stream, written));
    OK(leat_copy_layouts(t->stream, copies, IMAGES));
    memset(copies, 0xdd, IMAGES * sizeof *copies);
    memset(layouts, 0xdd, 2 * sizeof *layouts);
    free(copies);
    free(layouts);
    OK(leat_fill(t->stream, src, 0x22, IMAGES * IMAGE_BYTES));
    EXPECT_HELD(t->stream, gate);
    test_gate_open(gate);
    OK(leat_copy_sync(t->stream, out, dst, IMAGES * IMAGE_BYTES));
    expect_images(out, in);
    OK(leat_event_destroy(written));
    OK(leat_stream_destroy(producer));
    OK(leat_memory_free(memory));
    free(in);
    free(out);
}

/* ---- calls that do nothing ---- */

static void nothing_to_copy(void **state)
{
    struct test_state *t = *state;
    leat_layout none;
    leat_layout_copy copies[] = {{.dst_layout = &none, .src_layout = &none},
                                 {.dst_layout = &none, .src_layout = &none, .dst = (void *)1}};

    OK(leat_layout_dense(&none, 2, (int64_t[]){0, 7}, 4));
    OK(leat_copy_layouts(t->stream, NULL, 0));
    OK(leat_copy_layouts(t->stream, copies, 0));
    OK(leat_copy_layouts(t->stream, copies, 2));
}

/* If any copy is refused, no copy is made, and the message has the number of the copy. */
static void nothing_is_copied_after_an_error(void **state)
{
    enum { COPIES = 5 };
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, (size_t)8 * IMAGES * IMAGE_BYTES);
    unsigned char *src = memory + (size_t)4 * IMAGES * IMAGE_BYTES, out[COPIES * IMAGE_BYTES];
    leat_conversion conversion = {.size = sizeof conversion, .dst = LEAT_NUMBER_BITS, .src = LEAT_NUMBER_U8};
    leat_layout_copy copies[IMAGES], good[IMAGES];
    leat_layout layouts[2], other, twice;

    OK(leat_fill(t->stream, memory, 0x33, COPIES * IMAGE_BYTES));
    make_images(memory, src, layouts, good);
    twice = layouts[0];
    twice.stride_bytes[0] = 0;
    OK(leat_layout_dense(&other, 3, (int64_t[]){3, 24, 31}, 1));
    REFUSED(leat_copy_layouts(t->stream, NULL, 1), LEAT_ERROR_INVALID, "copies");
    for (int wrong = 0; wrong < 8; wrong++) {
        static const leat_status wanted[] = {LEAT_ERROR_INVALID, LEAT_ERROR_INVALID, LEAT_ERROR_INVALID,
                                             LEAT_ERROR_INVALID, LEAT_ERROR_INVALID, LEAT_ERROR_POINTER,
                                             LEAT_ERROR_OVERLAP, LEAT_ERROR_RANGE};

        memcpy(copies, good, sizeof copies);
        if (wrong == 0)
            copies[3].dst_layout = NULL;
        if (wrong == 1)
            copies[3].src_layout = NULL;
        if (wrong == 2)
            copies[3].src_layout = &other;
        if (wrong == 3)
            copies[3].dst_layout = &twice;
        if (wrong == 4)
            copies[3].conversion = &conversion;
        if (wrong == 5)
            copies[3].dst = NULL;
        if (wrong == 6)
            copies[3].dst = src + 22 * IMAGE_BYTES + 1;
        if (wrong == 7)
            copies[3].dst = memory + (size_t)8 * IMAGES * IMAGE_BYTES - 1;
        REFUSED(leat_copy_layouts(t->stream, copies, COPIES), wanted[wrong], "copy 3");
    }
    OK(leat_copy_sync(t->stream, out, memory, sizeof out));
    EXPECT_BYTES(out, sizeof out, 0x33);
    OK(leat_memory_free(memory));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        STATE_TEST(random_copies),
        STATE_TEST(known_shapes),
        STATE_TEST(equal_layouts_in_other_structs),
        STATE_TEST(sources_between_missing_pages),
        STATE_TEST(conversions),
        STATE_TEST(copies_keep_their_place),
        STATE_TEST(nothing_to_copy),
        STATE_TEST(nothing_is_copied_after_an_error),
    };

    if (!test_device_there())
        return 77;
    begin_random("test_layout_batch");
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
