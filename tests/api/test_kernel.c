/* test_kernel.c - tests modules and launches: compares every built-in kernel with a plain loop, and loads a user's
 * own module. */
#include "harness.h"

#include <leat/device_code.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void launch(leat_stream *stream, leat_kernel *kernel, uint32_t blocks, uint32_t threads, void *const *args,
                   unsigned count)
{
    OK(leat_launch(stream, kernel, leat_dim(blocks, 1, 1), leat_dim(threads, 1, 1), 0, args, count));
}

/* Grids with fewer threads than elements, with about as many, and with more. */
static const uint32_t grids[][2] = {{1, 1}, {1, 256}, {7, 33}, {3, 1}, {64, 128}, {500, 256}};
static const uint64_t counts[] = {1, 2, 31, 257, 1000, 65537};

#define EACH(index, array)                                                                                        \
    size_t index = 0;                                                                                             \
    index < sizeof(array) / sizeof(array)[0];                                                                     \
    index++

/* Runs a fill kernel for one element size. Checks the filled bytes and those before and behind them. */
static void check_fill(struct test_state *t, const char *name, size_t element_bytes)
{
    static const unsigned char bytes16[16] = {0x81, 2, 3, 4, 5, 6, 7, 0x88, 9, 10, 11, 12, 13, 14, 15, 0xf0};
    leat_kernel *kernel = test_kernel(t->device, name);

    for (EACH(g, grids)) {
        for (EACH(c, counts)) {
            uint64_t count = counts[c], words[2];
            size_t window = (size_t)count * element_bytes + 128;
            unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, window), *out = test_buffer(window);
            void *dst = memory + 64, *args[] = {&dst, &count, &words[0], &words[1]};

            memcpy(words, bytes16, sizeof words);
            OK(leat_fill(t->stream, memory, 0xa5, window));
            launch(t->stream, kernel, grids[g][0], grids[g][1], args, element_bytes == 16 ? 4 : 3);
            OK(leat_copy_sync(t->stream, out, memory, window));
            EXPECT_BYTES(out, 64, 0xa5);
            for (size_t i = 0; i < count * element_bytes; i++)
                assert_int_equal(out[64 + i], bytes16[i % element_bytes]);
            EXPECT_BYTES(out + window - 64, 64, 0xa5);
            OK(leat_memory_free(memory));
            free(out);
        }
    }
}

static void fills(void **state)
{
    check_fill(*state, "leat_fill_u8", 1);
    check_fill(*state, "leat_fill_u16", 2);
    check_fill(*state, "leat_fill_u32", 4);
    check_fill(*state, "leat_fill_u64", 8);
    check_fill(*state, "leat_fill_u128", 16);
}

/* Three vectors in device memory, of at most MOST elements of 4 bytes. One element follows each as a guard. */
#define MOST 65537

struct vectors {
    uint32_t *a, *b, *c; /* in device memory */
    uint32_t *in_a, *in_b, *out;
};

static void make_vectors(struct test_state *t, struct vectors *v)
{
    v->a = test_alloc(t->device, LEAT_KIND_DEVICE, (MOST + 1) * 4);
    v->b = test_alloc(t->device, LEAT_KIND_DEVICE, (MOST + 1) * 4);
    v->c = test_alloc(t->device, LEAT_KIND_DEVICE, (MOST + 1) * 4);
    v->in_a = test_buffer((MOST + 1) * 4);
    v->in_b = test_buffer((MOST + 1) * 4);
    v->out = test_buffer((MOST + 1) * 4);
}

static void end_vectors(struct vectors *v)
{
    OK(leat_memory_free(v->a));
    OK(leat_memory_free(v->b));
    OK(leat_memory_free(v->c));
    free(v->in_a);
    free(v->in_b);
    free(v->out);
}

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Returns the expected result of a kernel for one element of a and b. */
typedef uint32_t (*expect)(uint32_t a, uint32_t b, uint32_t scalar);

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t expect_add_u32(uint32_t a, uint32_t b, uint32_t scalar)
{
    (void)b;
    return a + scalar;
}

static uint32_t expect_add_f32(uint32_t a, uint32_t b, uint32_t scalar)
{
    (void)b;
    return bits_of(float_of(a) + float_of(scalar));
}

static uint32_t expect_vector_add_u32(uint32_t a, uint32_t b, uint32_t scalar)
{
    (void)scalar;
    return a + b;
}

static uint32_t expect_vector_add_f32(uint32_t a, uint32_t b, uint32_t scalar)
{
    (void)scalar;
    return bits_of(float_of(a) + float_of(b));
}

static uint32_t expect_square_u32(uint32_t a, uint32_t b, uint32_t scalar)
{
    (void)b;
    (void)scalar;
    return a * a;
}

enum shape { IN_PLACE_SCALAR, IN_PLACE, TWO_TO_ONE };

static void check_vectors(struct test_state *t, const char *name, enum shape shape, bool floats, expect expected)
{
    leat_kernel *kernel = test_kernel(t->device, name);
    uint32_t scalar = floats ? bits_of(1.5f) : 0xfffffff1u;
    struct vectors v;

    make_vectors(t, &v);
    for (uint32_t i = 0; i <= MOST; i++) {
        v.in_a[i] = floats ? bits_of((float)i * 0.5f) : i * 2654435761u;
        v.in_b[i] = floats ? bits_of(1000.0f - (float)i) : i ^ 0x80000000u;
    }
    for (EACH(g, grids)) {
        for (EACH(c, counts)) {
            uint64_t count = counts[c];
            uint32_t *result = shape == TWO_TO_ONE ? v.c : v.a;
            void *in_place[] = {&v.a, &count, &scalar}, *two_to_one[] = {&v.c, &v.a, &v.b, &count};

            OK(leat_copy(t->stream, v.a, v.in_a, (MOST + 1) * 4));
            OK(leat_copy(t->stream, v.b, v.in_b, (MOST + 1) * 4));
            OK(leat_copy(t->stream, v.c, v.in_a, (MOST + 1) * 4));
            if (shape == TWO_TO_ONE)
                launch(t->stream, kernel, grids[g][0], grids[g][1], two_to_one, 4);
            else
                launch(t->stream, kernel, grids[g][0], grids[g][1], in_place, shape == IN_PLACE ? 2 : 3);
            OK(leat_copy_sync(t->stream, v.out, result, (size_t)(count + 1) * 4));
            for (uint32_t i = 0; i < count; i++)
                assert_int_equal(v.out[i], expected(v.in_a[i], v.in_b[i], scalar));
            assert_int_equal(v.out[count], v.in_a[count]);
        }
    }
    end_vectors(&v);
}

static void additions_and_squares(void **state)
{
    check_vectors(*state, "leat_add_u32", IN_PLACE_SCALAR, false, expect_add_u32);
    check_vectors(*state, "leat_add_f32", IN_PLACE_SCALAR, true, expect_add_f32);
    check_vectors(*state, "leat_vector_add_u32", TWO_TO_ONE, false, expect_vector_add_u32);
    check_vectors(*state, "leat_vector_add_f32", TWO_TO_ONE, true, expect_vector_add_f32);
    check_vectors(*state, "leat_square_u32", IN_PLACE, false, expect_square_u32);
}

static void pattern_verify_and_checksum(void **state)
{
    struct test_state *t = *state;
    leat_kernel *write = test_kernel(t->device, "leat_pattern_u64");
    leat_kernel *verify = test_kernel(t->device, "leat_verify_u64");
    leat_kernel *checksum = test_kernel(t->device, "leat_checksum_u64");
    uint64_t *memory = test_alloc(t->device, LEAT_KIND_DEVICE, (MOST + 1) * 8);
    uint64_t *sums = test_alloc(t->device, LEAT_KIND_DEVICE, 16), *out = test_buffer((MOST + 1) * 8);

    for (EACH(g, grids)) {
        for (EACH(c, counts)) {
            uint64_t count = counts[c], seed = 1000 + c, results[2], expected = 0, *wrong = sums, *sum = sums + 1;
            uint64_t middle = 0xdead, *broken = memory + count / 2;
            void *write_args[] = {&memory, &count, &seed}, *verify_args[] = {&memory, &count, &seed, &wrong};
            void *checksum_args[] = {&memory, &count, &sum};

            OK(leat_fill(t->stream, memory, 0x77, (MOST + 1) * 8));
            OK(leat_fill(t->stream, sums, 0, 16));
            launch(t->stream, write, grids[g][0], grids[g][1], write_args, 3);
            launch(t->stream, verify, grids[g][0], grids[g][1], verify_args, 4);
            launch(t->stream, checksum, grids[g][0], grids[g][1], checksum_args, 3);
            OK(leat_copy_sync(t->stream, out, memory, (size_t)(count + 1) * 8));
            OK(leat_copy_sync(t->stream, results, sums, 16));
            EXPECT_PATTERN(out, (size_t)count * 8, seed);
            EXPECT_BYTES(out + count, 8, 0x77);
            for (uint64_t i = 0; i < count; i++)
                expected += leat_checksum_value(i, out[i]);
            assert_int_equal(results[0], 0);
            assert_true(results[1] == expected);

            /* Both kernels must detect a wrong word, and must add to the old values of their results. */
            OK(leat_copy(t->stream, broken, &middle, 8));
            launch(t->stream, verify, grids[g][0], grids[g][1], verify_args, 4);
            launch(t->stream, verify, grids[g][0], grids[g][1], verify_args, 4);
            launch(t->stream, checksum, grids[g][0], grids[g][1], checksum_args, 3);
            OK(leat_copy_sync(t->stream, results, sums, 16));
            assert_int_equal(results[0], 2);
            assert_true(results[1] != 2 * expected);
        }
    }
    OK(leat_memory_free(memory));
    OK(leat_memory_free(sums));
    free(out);
}

static void the_builtin_module_is_one(void **state)
{
    struct test_state *t = *state;
    leat_module *first, *second;
    leat_kernel *one, *same;
    int parameters;

    OK(leat_module_builtin(t->device, &first));
    OK(leat_module_builtin(t->device, &second));
    assert_ptr_equal(first, second);
    OK(leat_kernel_get(first, "leat_add_u32", &one));
    OK(leat_kernel_get(first, "leat_add_u32", &same));
    assert_ptr_equal(one, same);
    OK(leat_kernel_parameter_count(one, &parameters));
    assert_true(parameters == 3 || (parameters == -1 && !test_on_cpu()));
}

static void kernels_tell_the_sizes_of_their_parameters(void **state)
{
    static const size_t sizes[] = {8, 8, 1}; /* parameters of leat_fill_u8: a pointer, a count, a value */
    struct test_state *t = *state;
    leat_kernel *kernel = test_kernel(t->device, "leat_fill_u8");
    size_t bytes = 77;

    if (leat_kernel_parameter_bytes(kernel, 0, &bytes) == LEAT_ERROR_UNSUPPORTED) {
        assert_false(test_on_cpu());
        assert_int_equal(bytes, 77);
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        OK(leat_kernel_parameter_bytes(kernel, i, &bytes));
        assert_int_equal(bytes, sizes[i]);
    }
    REFUSED(leat_kernel_parameter_bytes(kernel, 3, &bytes), LEAT_ERROR_INVALID, "no parameter 3, it has 3");
    REFUSED(leat_kernel_parameter_bytes(kernel, 0, NULL), LEAT_ERROR_INVALID, "bytes is NULL");
    REFUSED(leat_kernel_parameter_bytes(NULL, 0, &bytes), LEAT_ERROR_HANDLE, "kernel");
}

/* Runs the transpose kernels that leat/kernel.h documents. */
static void the_steps_to_a_fast_transpose(void **state)
{
    static const char *const names[] = {"leat_transpose_naive_u32", "leat_transpose_shared_u32",
                                        "leat_transpose_padded_u32"};
    enum { ROWS = 70, COLUMNS = 45 };
    struct test_state *t = *state;
    uint32_t *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 2 * ROWS * COLUMNS * 4), host[ROWS * COLUMNS];
    uint32_t *dst = memory + ROWS * COLUMNS, *src = memory, out[ROWS * COLUMNS];
    uint64_t rows = ROWS, columns = COLUMNS, tiles = (ROWS + 31) / 32 * ((COLUMNS + 31) / 32);
    void *args[] = {&dst, &src, &rows, &columns};
    leat_module *module, *same;

    OK(leat_module_layout(t->device, &module));
    OK(leat_module_layout(t->device, &same));
    assert_ptr_equal(module, same);
    REFUSED(leat_module_unload(module), LEAT_ERROR_INVALID, "built-in");
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
        host[i] = i + 1;
    OK(leat_copy_sync(t->stream, src, host, sizeof host));
    for (unsigned n = 0; n < 3; n++) {
        uint32_t blocks = n ? (uint32_t)tiles : (ROWS * COLUMNS + 255) / 256;
        leat_kernel *kernel;

        OK(leat_kernel_get(module, names[n], &kernel));
        OK(leat_fill(t->stream, dst, 0, sizeof out));
        OK(leat_launch(t->stream, kernel, leat_dim(blocks, 1, 1), leat_dim(256, 1, 1), 0, args, 4));
        OK(leat_copy_sync(t->stream, out, dst, sizeof out));
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t c = 0; c < COLUMNS; c++)
                assert_int_equal(out[c * ROWS + r], host[r * COLUMNS + c]);
    }
    OK(leat_memory_free(memory));
}

static void arguments_are_read_before_the_return(void **state)
{
    struct test_state *t = *state;
    uint32_t *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 4000), value = 5, out[1000];
    leat_kernel *kernel = test_kernel(t->device, "leat_add_u32");
    uint64_t count = 1000;
    void *pointer = memory, *args[] = {&pointer, &count, &value};
    struct test_gate *gate;

    /* Launch once before the gate closes: a driver may load a kernel at its first launch, which can wait for the
     * device. */
    launch(t->stream, kernel, 4, 32, args, 3);
    OK(leat_fill(t->stream, memory, 0, 4000));
    OK(leat_stream_synchronize(t->stream));
    gate = test_gate_close(t->stream);
    for (value = 1; value <= 100; value++)
        launch(t->stream, kernel, 4, 32, args, 3);
    pointer = NULL;
    count = 0;
    memset(args, 0, sizeof args);
    test_gate_open(gate);
    OK(leat_copy_sync(t->stream, out, memory, 4000));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(out[i], 5050);
    OK(leat_memory_free(memory));
}

static void kernels_reach_pinned_memory(void **state)
{
    struct test_state *t = *state;
    uint32_t *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 4000), one = 1;
    uint32_t *own = test_buffer(4000);
    uint32_t *places[] = {pinned, own};

    OK(leat_register(t->device, own, 4000));
    for (EACH(p, places)) {
        leat_pointer_info info = LEAT_POINTER_INFO_INIT;
        uint64_t count = 1000;
        void *args[] = {&info.device_pointer, &count, &one};

        OK(leat_pointer_get_info(places[p], &info));
        for (uint32_t i = 0; i < 1000; i++)
            places[p][i] = i;
        launch(t->stream, test_kernel(t->device, "leat_add_u32"), 2, 64, args, 3);
        OK(leat_stream_synchronize(t->stream));
        for (uint32_t i = 0; i < 1000; i++)
            assert_int_equal(places[p][i], i + 1);
    }
    OK(leat_unregister(own));
    OK(leat_memory_free(pinned));
    free(own);
}

/* ---- a user's module -------------------------------------------------------------------------- */

static const char *user_module_path(void)
{
    return test_kernels_path();
}

static void *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    void *content;
    long size;

    if (!file)
        fail_msg("%s is not there", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size = ftell(file);
    assert_true(size > 0);
    rewind(file);
    content = test_buffer((size_t)size);
    assert_int_equal(fread(content, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    *bytes = (size_t)size;
    return content;
}

static void use_user_module(struct test_state *t, leat_module *module)
{
    float *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 1000 * sizeof(float)), in[1000], out[1000],
          factor = 2.5f;
    uint64_t count = 1000;
    void *args[] = {&memory, &count, &factor};
    leat_kernel *kernel;
    int parameters;

    for (int i = 0; i < 1000; i++)
        in[i] = (float)i;
    OK(leat_kernel_get(module, "user_scale_f32", &kernel));
    OK(leat_kernel_parameter_count(kernel, &parameters));
    assert_true(parameters == 3 || (parameters == -1 && !test_on_cpu()));
    OK(leat_copy(t->stream, memory, in, sizeof in));
    launch(t->stream, kernel, 3, 40, args, 3);
    OK(leat_copy_sync(t->stream, out, memory, sizeof out));
    for (int i = 0; i < 1000; i++)
        assert_true(out[i] == (float)i * 2.5f);
    OK(leat_memory_free(memory));
}

static void a_module_from_a_file(void **state)
{
    struct test_state *t = *state;
    leat_module *module;

    OK(leat_module_load_file(t->device, user_module_path(), &module));
    use_user_module(t, module);
    OK(leat_module_unload(module));
    OK(leat_module_unload(NULL));
}

static void a_module_from_memory(void **state)
{
    struct test_state *t = *state;
    leat_module *module, *twice;
    size_t bytes;
    char *image = read_file(user_module_path(), &bytes);

    OK(leat_module_load(t->device, image, bytes, &module));
    OK(leat_module_load(t->device, image, bytes, &twice));
    memset(image, 0, bytes);
    free(image);
    assert_ptr_not_equal(module, twice);
    use_user_module(t, module);
    OK(leat_module_unload(module));
    use_user_module(t, twice);
    OK(leat_module_unload(twice));
}

/* The first module's library stays loaded after the unload. The second module gets the same file descriptor
 * number, but must have its own kernels. */
static void a_library_that_stays_is_not_the_next_module(void **state)
{
    struct test_state *t = *state;
    leat_module *module;
    leat_kernel *kernel;

    if (!test_on_cpu())
        SKIP_OTHER("only the CPU device loads shared objects");
    OK(leat_module_load_file(t->device, TEST_KERNELS_STAY, &module));
    OK(leat_kernel_get(module, "user_stay", &kernel));
    OK(leat_module_unload(module));
    OK(leat_module_load_file(t->device, user_module_path(), &module));
    REFUSED(leat_kernel_get(module, "user_stay", &kernel), LEAT_ERROR_NOT_FOUND, "user_stay");
    use_user_module(t, module);
    OK(leat_module_unload(module));
}

static void text_with_its_final_nul(void **state)
{
    struct test_state *t = *state;
    leat_module *module;
    size_t bytes;
    char *image;

    if (strncmp(test_device_name(), "cuda", 4) || test_on_names())
        SKIP_OTHER("PTX is for NVIDIA's GPUs");
    image = read_file(user_module_path(), &bytes);
    image = realloc(image, bytes + 1);
    assert_non_null(image);
    image[bytes] = '\0';
    OK(leat_module_load(t->device, image, bytes + 1, &module));
    free(image);
    use_user_module(t, module);
    OK(leat_module_unload(module));
}

static void arguments_of_all_sizes(void **state)
{
    struct test_state *t = *state;
    uint64_t *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 7 * 8), out[7], twice_bits;
    uint32_t *from = test_alloc(t->device, LEAT_KIND_DEVICE, 4), source = 0xfeedbeef;
    uint8_t byte = 200;
    int16_t number = -12345;
    uint32_t word = 0xdeadbeef;
    float single = 0.15625f;
    double twice = -1e300;
    int64_t wide = INT64_MIN + 7;
    void *args[] = {&memory, &byte, &number, &word, &single, &twice, &wide, &from};
    leat_module *module;
    leat_kernel *kernel;

    OK(leat_module_load_file(t->device, user_module_path(), &module));
    OK(leat_kernel_get(module, "user_many", &kernel));
    OK(leat_copy(t->stream, from, &source, 4));
    launch(t->stream, kernel, 2, 32, args, 8);
    OK(leat_copy_sync(t->stream, out, memory, sizeof out));
    memcpy(&twice_bits, &twice, 8);
    assert_true(out[0] == byte);
    assert_true((int64_t)out[1] == number);
    assert_true(out[2] == word);
    assert_true(out[3] == bits_of(single));
    assert_true(out[4] == twice_bits);
    assert_true((int64_t)out[5] == wide);
    assert_true(out[6] == source);
    OK(leat_module_unload(module));
    OK(leat_memory_free(memory));
    OK(leat_memory_free(from));
}

static void grids_of_two_dimensions(void **state)
{
    enum { BLOCKS_X = 3, BLOCKS_Y = 5, THREADS_X = 8, THREADS_Y = 4 };
    enum { WIDTH = BLOCKS_X * THREADS_X, HEIGHT = BLOCKS_Y * THREADS_Y };
    struct test_state *t = *state;
    uint32_t *memory = test_alloc(t->device, LEAT_KIND_DEVICE, WIDTH * HEIGHT * 4), out[HEIGHT][WIDTH];
    void *args[] = {&memory};
    leat_module *module;
    leat_kernel *kernel;

    OK(leat_module_load_file(t->device, user_module_path(), &module));
    OK(leat_kernel_get(module, "user_index2d", &kernel));
    OK(leat_fill(t->stream, memory, 0xff, sizeof out));
    OK(leat_launch(t->stream, kernel, leat_dim(BLOCKS_X, BLOCKS_Y, 1), leat_dim(THREADS_X, THREADS_Y, 1), 0, args,
                   1));
    OK(leat_copy_sync(t->stream, out, memory, sizeof out));
    for (uint32_t y = 0; y < HEIGHT; y++)
        for (uint32_t x = 0; x < WIDTH; x++) {
            uint32_t block = y / THREADS_Y * BLOCKS_X + x / THREADS_X;

            assert_int_equal(out[y][x], block * THREADS_X * THREADS_Y + y % THREADS_Y * THREADS_X + x % THREADS_X);
        }
    OK(leat_module_unload(module));
    OK(leat_memory_free(memory));
}

static void every_element_is_visited_once(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 16);
    uint32_t *narrow = (uint32_t *)(void *)memory;
    uint64_t *wide = (uint64_t *)(void *)(memory + 8), out[2];
    leat_module *module;
    leat_kernel *kernel;

    OK(leat_module_load_file(t->device, user_module_path(), &module));
    OK(leat_kernel_get(module, "user_count", &kernel));
    for (EACH(g, grids)) {
        for (uint64_t count = 0; count < 70000; count = count * 3 + 1) {
            void *args[] = {&narrow, &wide, &count};

            OK(leat_fill(t->stream, memory, 0, 16));
            launch(t->stream, kernel, grids[g][0], grids[g][1], args, 3);
            OK(leat_copy_sync(t->stream, out, memory, 16));
            assert_int_equal(out[0], count);
            assert_int_equal(out[1], count ? count * (count - 1) / 2 : 0);
        }
    }
    OK(leat_module_unload(module));
    OK(leat_memory_free(memory));
}

/* A kernel that is compiled into this program. */
LEAT_KERNEL(own_triple, 2, uint32_t *, data, uint64_t, count)
{
    LEAT_FOR (i, count)
        data[i] *= 3;
}

static void kernels_of_the_program_itself(void **state)
{
    struct test_state *t = *state;
    leat_embedded_kernel list[] = {{"triple", &leat_cpu_kernel_own_triple}};
    uint32_t host[1000], *data = test_alloc(t->device, LEAT_KIND_DEVICE, sizeof host);
    uint64_t count = 1000;
    void *args[] = {&data, &count};
    leat_module *module;
    leat_kernel *kernel;

    if (!test_on_cpu()) {
        REFUSED(leat_module_load_embedded(t->device, list, 1, &module), LEAT_ERROR_UNSUPPORTED,
                "leat_module_load");
        OK(leat_memory_free(data));
        return;
    }
    OK(leat_module_load_embedded(t->device, list, 1, &module));
    memset(list, 0, sizeof list); /* leat must have copied the list */
    REFUSED(leat_kernel_get(module, "own_triple", &kernel), LEAT_ERROR_NOT_FOUND, "own_triple");
    OK(leat_kernel_get(module, "triple", &kernel));
    for (uint32_t i = 0; i < count; i++)
        host[i] = i;
    OK(leat_copy(t->stream, data, host, sizeof host));
    OK(leat_launch(t->stream, kernel, leat_dim(4, 1, 1), leat_dim(32, 1, 1), 0, args, 2));
    OK(leat_copy_sync(t->stream, host, data, sizeof host));
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(host[i], 3 * i);
    OK(leat_module_unload(module));
    REFUSED(leat_module_load_embedded(t->device, NULL, 1, &module), LEAT_ERROR_INVALID, "kernels");
    REFUSED(leat_module_load_embedded(t->device, list, 0, &module), LEAT_ERROR_INVALID, "at least one");
    REFUSED(leat_module_load_embedded(t->device, list, 1, &module), LEAT_ERROR_INVALID, "kernel 0");
    OK(leat_memory_free(data));
}

/* These two kernels do not use the macros of leat/device_code.h. One uses its block's shared memory, the other
 * waits for the whole grid. */
static void note_shared(const leat_cpu_block *block, void *const *args)
{
    uint32_t *wrong = *(uint32_t **)args[0];
    unsigned char *shared = block->shared;

    if ((uintptr_t)shared % 128 || block->shared_bytes != 1000 || block->wait_for_grid)
        __atomic_fetch_add(wrong, 1, __ATOMIC_RELAXED);
    /* No other block may write to the shared memory of this block while it runs. */
    for (unsigned round = 0; round < 20; round++) {
        memset(shared, (int)(block->block.x + round), 1000);
        for (unsigned i = 0; i < 1000; i++)
            if (shared[i] != (unsigned char)(block->block.x + round))
                __atomic_fetch_add(wrong, 1, __ATOMIC_RELAXED);
    }
}

/* In each round every block writes a value, waits for the grid and adds up the values of all blocks. A block that
 * did not wait would add values of an earlier round. Block 0 returns half-way, and the others must then no longer
 * wait for it. */
#define TOGETHER_ROUNDS 50
static void add_together(const leat_cpu_block *block, void *const *args)
{
    uint32_t *values = *(uint32_t **)args[0], blocks = block->grid_blocks.x * block->grid_blocks.y;
    uint32_t mine = block->block.x + block->block.y * block->grid_blocks.x;

    for (uint32_t round = 0; round < TOGETHER_ROUNDS; round++) {
        uint32_t sum = 0;

        if (mine == 0 && round == TOGETHER_ROUNDS / 2)
            return;
        values[mine] = round + mine;
        block->wait_for_grid(block);
        for (uint32_t i = 1; i < blocks; i++)
            sum += values[i] - i;
        ((unsigned char *)block->shared)[0] = (unsigned char)mine;
        block->wait_for_grid(block);
        if (sum != round * (blocks - 1) || ((unsigned char *)block->shared)[0] != (unsigned char)mine)
            __atomic_fetch_add(&values[blocks], 1, __ATOMIC_RELAXED);
    }
}

static leat_kernel *own_kernel(struct test_state *t, const leat_cpu_kernel *code, leat_module **module)
{
    leat_embedded_kernel list = {"one", code};
    leat_kernel *kernel;

    OK(leat_module_load_embedded(t->device, &list, 1, module));
    OK(leat_kernel_get(*module, "one", &kernel));
    return kernel;
}

static void blocks_have_shared_memory(void **state)
{
    static const uint32_t bytes[] = {sizeof(uint32_t *)};
    static const leat_cpu_kernel code = {LEAT_CPU_KERNEL_ABI, 1, bytes, note_shared, 0};
    struct test_state *t = *state;
    uint32_t *wrong, host;
    void *args[] = {&wrong};
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_module *module;
    leat_kernel *kernel;

    if (!test_on_cpu())
        SKIP_OTHER("GPUs have it in kernels of their own");
    kernel = own_kernel(t, &code, &module);
    wrong = test_alloc(t->device, LEAT_KIND_DEVICE, sizeof *wrong);
    OK(leat_device_get_info(t->device, &info));
    assert_true(info.max_shared_bytes >= 48 << 10);
    OK(leat_fill(t->stream, wrong, 0, sizeof *wrong));
    for (uint32_t blocks = 1; blocks < 2000; blocks *= 3)
        OK(leat_launch(t->stream, kernel, leat_dim(blocks, 1, 1), leat_dim(4, 1, 1), 1000, args, 1));
    OK(leat_copy_sync(t->stream, &host, wrong, sizeof host));
    assert_int_equal(host, 0);
    OK(leat_module_unload(module));
    OK(leat_memory_free(wrong));
}

static void blocks_run_together(void **state)
{
    static const uint32_t bytes[] = {sizeof(uint32_t *)};
    static const leat_cpu_kernel code = {LEAT_CPU_KERNEL_ABI, 1, bytes, add_together, LEAT_CPU_KERNEL_TOGETHER};
    struct test_state *t = *state;
    uint32_t *values, host[2048], most;
    void *args[] = {&values};
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_stream *other;
    leat_module *module;
    leat_kernel *kernel;

    if (!test_on_cpu())
        SKIP_OTHER("for kernels that the processor runs");
    kernel = own_kernel(t, &code, &module);
    OK(leat_device_get_info(t->device, &info));
    most = info.compute_units * 16 < 2046 ? info.compute_units * 16 : 2046;
    values = test_alloc(t->device, LEAT_KIND_DEVICE, 2 * sizeof host);
    OK(leat_stream_create(t->device, &other));
    OK(leat_fill(t->stream, values, 0, 2 * sizeof host));
    OK(leat_stream_synchronize(t->stream));
    /* Two streams run such grids concurrently. */
    for (int i = 0; i < 3; i++) {
        uint32_t *second = values + 2048;
        void *second_args[] = {&second};

        OK(leat_launch(t->stream, kernel, leat_dim(most / 2, 2, 1), leat_dim(1, 1, 1), 100, args, 1));
        OK(leat_launch(other, kernel, leat_dim(most / 2, 2, 1), leat_dim(1, 1, 1), 100, second_args, 1));
    }
    OK(leat_launch(t->stream, kernel, leat_dim(1, 1, 1), leat_dim(1, 1, 1), 8, args, 1));
    for (int i = 0; i < 2; i++) {
        OK(leat_copy_sync(i ? other : t->stream, host, values + 2048 * i, sizeof host));
        assert_int_equal(host[most / 2 * 2], 0);
        assert_int_equal(host[1], TOGETHER_ROUNDS);
    }
    REFUSED(
        leat_launch(t->stream, kernel, leat_dim(info.compute_units * 16 + 1, 1, 1), leat_dim(1, 1, 1), 0, args, 1),
        LEAT_ERROR_INVALID, "together");
    OK(leat_stream_destroy(other));
    OK(leat_module_unload(module));
    OK(leat_memory_free(values));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(blocks_have_shared_memory),     STATE_TEST(blocks_run_together),
    STATE_TEST(kernels_of_the_program_itself), STATE_TEST(fills),
    STATE_TEST(additions_and_squares),         STATE_TEST(pattern_verify_and_checksum),
    STATE_TEST(the_builtin_module_is_one),     STATE_TEST(kernels_tell_the_sizes_of_their_parameters),
    STATE_TEST(the_steps_to_a_fast_transpose), STATE_TEST(arguments_are_read_before_the_return),
    STATE_TEST(kernels_reach_pinned_memory),   STATE_TEST(a_module_from_a_file),
    STATE_TEST(a_module_from_memory),          STATE_TEST(text_with_its_final_nul),
    STATE_TEST(arguments_of_all_sizes),        STATE_TEST(grids_of_two_dimensions),
    STATE_TEST(every_element_is_visited_once), STATE_TEST(a_library_that_stays_is_not_the_next_module),
};

TEST_MAIN(tests)
