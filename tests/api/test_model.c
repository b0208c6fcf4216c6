/*
 * test_model.c - tests loads of leat/model.h: the bytes of whole tensors, slices and layouts, sets, failures, and
 * calls that are refused. tests/unit/unit_model_parse.c tests the parsers.
 */
#include "harness.h"
#include "model_content.h"
#include "model_room.h"
#include "seed.h"
#include "test_folder.h"

#include <leat/file.h>
#include <leat/model.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Number of calls of leat_file_read_batch_start() by libleat-files. The linker redirects them to the wrapper below
 * (--wrap in tests.mk). */
static unsigned batches;
leat_status __real_leat_file_read_batch_start(leat_stream *stream, const leat_file_op *ops, size_t count,
                                              const leat_copy_options *options, leat_ticket **ticket);
leat_status __wrap_leat_file_read_batch_start(leat_stream *stream, const leat_file_op *ops, size_t count,
                                              const leat_copy_options *options, leat_ticket **ticket);

leat_status __wrap_leat_file_read_batch_start(leat_stream *stream, const leat_file_op *ops, size_t count,
                                              const leat_copy_options *options, leat_ticket **ticket)
{
    batches++;
    return __real_leat_file_read_batch_start(stream, ops, count, options, ticket);
}

static leat_model_item item_of(struct test_state *t, size_t tensor, void *dst, size_t dst_bytes)
{
    leat_model_item item = LEAT_MODEL_ITEM_INIT;

    item.tensor = tensor;
    item.dst = dst;
    item.dst_bytes = dst_bytes;
    item.stream = t->stream;
    return item;
}

/* ---- sets ---- */

static void sets_have_all_tensors(void **state)
{
    static const char *const types[] = {"F32", "U8", "BF16", "F64"};
    static const uint32_t bytes_of[] = {4, 1, 2, 8};
    struct test_state *t = *state;
    struct maker maker = {0};
    const char *path = path_of("set");
    unsigned char *data, *out;
    leat_model *model;
    leat_model_set *set;
    uint64_t at = 0;

    for (int i = 0; i < 3000; i++) {
        char name[40];

        snprintf(name, sizeof name, "layer.%d.%s", i, i % 3 ? "weight" : "bias");
        add(&maker, name, types[i / 1000], bytes_of[i / 1000], 2, (int64_t[]){1 + i % 7, 1 + i % 50});
    }
    data = finish(&maker, path);
    model = open_one(path);
    OK(leat_model_load_all(t->stream, model, NULL, NULL, &set));
    OK(leat_model_load_wait(leat_model_set_get_load(set), LEAT_COPY_POINT_STAGED, LEAT_FOREVER));
    OK(leat_model_load_wait(leat_model_set_get_load(set), LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_model_load_wait(leat_model_set_get_load(set), LEAT_COPY_POINT_DONE, 0));
    assert_true(load_info(leat_model_set_get_load(set)).done);
    assert_int_equal(load_info(leat_model_set_get_load(set)).arrived_bytes,
                     load_info(leat_model_set_get_load(set)).bytes);
    /* leat reads adjacent tensors together. It begins a new read only at a tensor that would not be aligned in the
     * set's block, such as the first BF16 after U8. */
    assert_in_range(load_info(leat_model_set_get_load(set)).reads, 1, 3);
    out = test_buffer(4000);
    for (size_t i = 0; i < 3000; i++) {
        leat_model_tensor_info info = info_of(model, i);
        void *ptr;

        OK(leat_model_set_get_pointer(set, i, &ptr));
        assert_int_equal((uintptr_t)ptr % info.block_bytes, 0);
        OK(leat_copy_sync(t->stream, out, ptr, info.bytes));
        OK(leat_stream_synchronize(t->stream));
        assert_memory_equal(out, data + at, info.bytes);
        at += info.bytes;
    }
    OK(leat_model_set_destroy(set));
    free(out);
    free(data);
    OK(leat_model_close(model));
}

static void patterns_select(void **state)
{
    struct test_state *t = *state;
    struct maker maker = {0};
    const char *paths[2];
    unsigned char *data[2], out[400];
    leat_model *model;
    leat_model_set *set;
    void *ptr;

    paths[0] = path_of("first");
    paths[1] = path_of("second");
    for (int i = 0; i < 10; i++) {
        char name[20];

        snprintf(name, sizeof name, "a.%d", i);
        add(&maker, name, "U8", 1, 1, (int64_t[]){1000});
    }
    add(&maker, "empty.1", "F32", 4, 2, (int64_t[]){0, 5});
    data[0] = finish(&maker, paths[0]);
    add(&maker, "b.1", "F32", 4, 0, NULL);
    data[1] = finish(&maker, paths[1]);
    OK(leat_model_open(paths, 2, &model));
    batches = 0;
    OK(leat_model_load_all(t->stream, model, "*.[15]", NULL, &set));
    assert_int_equal(batches, 1);
    OK(leat_model_load_wait(leat_model_set_get_load(set), LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_int_equal(load_info(leat_model_set_get_load(set)).bytes, 2004);
    assert_int_equal(load_info(leat_model_set_get_load(set)).reads, 3);
    OK(leat_model_set_get_pointer(set, 5, &ptr));
    OK(leat_copy_sync(t->stream, out, ptr, 400));
    assert_memory_equal(out, data[0] + 5000, 400);
    OK(leat_model_set_get_pointer(set, 11, &ptr));
    OK(leat_copy_sync(t->stream, out, ptr, 4));
    assert_memory_equal(out, data[1], 4);
    OK(leat_model_set_get_pointer(set, 10, &ptr));
    assert_null(ptr);
    REFUSED(leat_model_set_get_pointer(set, 2, &ptr), LEAT_ERROR_NOT_FOUND, "did not match");
    REFUSED(leat_model_set_get_pointer(set, 12, &ptr), LEAT_ERROR_INVALID, "so many");
    OK(leat_model_set_destroy(set));
    REFUSED(leat_model_load_all(t->stream, model, "c*", NULL, &set), LEAT_ERROR_NOT_FOUND,
            "no tensor matches 'c*'");
    REFUSED(leat_model_load_all(t->stream, NULL, NULL, NULL, &set), LEAT_ERROR_INVALID, "model is NULL");
    REFUSED(leat_model_load_all(NULL, model, NULL, NULL, &set), LEAT_ERROR_INVALID, "stream is NULL");
    OK(leat_model_set_destroy(NULL));
    assert_null(leat_model_set_get_load(NULL));
    /* A set and its load outlive the model. */
    OK(leat_model_load_all(t->stream, model, NULL, NULL, &set));
    OK(leat_model_close(model));
    OK(leat_model_load_wait(leat_model_set_get_load(set), LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_model_set_destroy(set));
    free(data[0]);
    free(data[1]);
}

/* ---- items ---- */

static void neighbours_are_read_together(void **state)
{
    struct test_state *t = *state;
    struct maker maker = {0};
    const char *path = path_of("neighbours");
    unsigned char *data, *out = test_buffer(4000);
    leat_model_item items[40];
    leat_model_load *load;
    leat_model *model;

    for (int i = 0; i < 40; i++) {
        char name[20];

        snprintf(name, sizeof name, "%d", i);
        add(&maker, name, "U8", 1, 1, (int64_t[]){100});
    }
    data = finish(&maker, path);
    model = open_one(path);
    for (size_t i = 0; i < 40; i++) /* load them in a mixed order */
        items[i] = item_of(t, i * 7 % 40, out + i * 7 % 40 * 100, 100);
    OK(leat_model_load_start(model, items, 40, NULL, &load));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_memory_equal(out, data, 4000);
    assert_int_equal(load_info(load).reads, 1);
    OK(leat_model_load_destroy(load));
    items[3].stream = t->second;
    memset(out, 0, 4000);
    OK(leat_model_load_start(model, items, 40, NULL, &load));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_memory_equal(out, data, 4000);
    assert_int_equal(load_info(load).reads, 3);
    OK(leat_model_load_destroy(load));
    OK(leat_model_load_start(model, NULL, 0, NULL, &load));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, 0));
    OK(leat_model_load_destroy(load));
    OK(leat_model_close(model));
    free(out);
    free(data);
}

/* Loads 20,000 tensors of two files, with gaps between them in memory. For each stream leat must make one batch,
 * so that the load has one progress, one cancellation and one deadline. */
static void many_tensors_are_one_batch(void **state)
{
    enum { TENSORS = 10000, BYTES = 500, PITCH = 512 };
    struct test_state *t = *state;
    struct maker maker = {0};
    const char *paths[2];
    unsigned char *data[2], *out = test_buffer(2 * TENSORS * PITCH);
    char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 2 * TENSORS * PITCH);
    leat_model_item *items = malloc(2 * TENSORS * sizeof *items);
    leat_model_options options = LEAT_MODEL_OPTIONS_INIT;
    struct test_gate *gate;
    leat_model_load *load;
    leat_model *model;

    assert_non_null(items);
    paths[0] = path_of("many0");
    paths[1] = path_of("many1");
    for (int file = 0; file < 2; file++) {
        for (int i = 0; i < TENSORS; i++) {
            char name[40];

            snprintf(name, sizeof name, "file.%d.layer.%d", file, i);
            add(&maker, name, "U8", 1, 1, (int64_t[]){BYTES});
        }
        data[file] = finish(&maker, paths[file]);
    }
    OK(leat_model_open(paths, 2, &model));
    for (size_t i = 0; i < 2 * TENSORS; i++)
        items[i] = item_of(t, i, memory + i * PITCH, BYTES);
    batches = 0;
    OK(leat_model_load_start(model, items, 2 * TENSORS, NULL, &load));
    assert_int_equal(batches, 1);
    assert_int_equal(load_info(load).reads, 2 * TENSORS);
    assert_int_equal(load_info(load).bytes, 2 * TENSORS * BYTES);
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_int_equal(load_info(load).arrived_bytes, 2 * TENSORS * BYTES);
    assert_true(load_info(load).staged && load_info(load).done);
    OK(leat_model_load_destroy(load));
    OK(leat_copy_sync(t->stream, out, memory, 2 * TENSORS * PITCH));
    OK(leat_stream_synchronize(t->stream));
    for (size_t i = 0; i < 2 * TENSORS; i++)
        assert_memory_equal(out + i * PITCH, data[i / TENSORS] + i % TENSORS * BYTES, BYTES);
    for (size_t i = 0; i < 2 * TENSORS; i += 2)
        items[i].stream = t->second;
    batches = 0;
    OK(leat_model_load_start(model, items, 2 * TENSORS, NULL, &load));
    assert_int_equal(batches, 2);
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_model_load_destroy(load));
    for (size_t i = 0; i < 2 * TENSORS; i++)
        items[i] = item_of(t, i, out + i * PITCH, BYTES);
    gate = test_gate_close(t->stream);
    OK(leat_model_load_start(model, items, 2 * TENSORS, NULL, &load));
    assert_int_equal(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, 1000), LEAT_NOT_READY);
    OK(leat_model_load_cancel(load));
    test_gate_open(gate);
    assert_int_equal(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_CANCELLED);
    OK(leat_model_load_destroy(load));
    (void)leat_stream_synchronize(t->stream);
    gate = test_gate_close(t->stream);
    options.deadline_ns = 1000000;
    OK(leat_model_load_start(model, items, 2 * TENSORS, &options, &load));
    test_sleep_us(20000);
    test_gate_open(gate);
    assert_int_equal(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_DEADLINE);
    OK(leat_model_load_destroy(load));
    (void)leat_stream_synchronize(t->stream);
    OK(leat_model_close(model));
    OK(leat_memory_free(memory));
    free(items);
    free(out);
    free(data[0]);
    free(data[1]);
}

/* Tensors that are adjacent in the file and in memory, but belong to different allocations, must not be read as
 * one. */
static void neighbours_in_two_blocks(void **state)
{
    enum { BYTES = 1 << 20, BLOCKS = 8 };
    struct test_state *t = *state;
    struct maker maker = {0};
    const char *path = path_of("blocks");
    unsigned char *data, *out = test_buffer(BYTES);
    leat_model_item items[BLOCKS];
    leat_model_load *load;
    leat_model *model;

    for (int i = 0; i < BLOCKS; i++)
        add(&maker, (char[]){(char)('a' + i), 0}, "U8", 1, 1, (int64_t[]){BYTES});
    data = finish(&maker, path);
    model = open_one(path);
    for (size_t i = 0; i < BLOCKS; i++) {
        void *block;

        OK(leat_alloc(t->stream, BYTES, &block));
        items[i] = item_of(t, i, block, BYTES);
    }
    /* Sort the items by address, because neighbouring tensors must have neighbouring blocks. The pool sometimes
     * places blocks next to each other. */
    for (size_t i = 0; i < BLOCKS; i++)
        for (size_t j = i + 1; j < BLOCKS; j++)
            if ((uintptr_t)items[j].dst < (uintptr_t)items[i].dst) {
                void *dst = items[i].dst;

                items[i].dst = items[j].dst;
                items[j].dst = dst;
            }
    OK(leat_model_load_start(model, items, BLOCKS, NULL, &load));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_model_load_destroy(load));
    for (size_t i = 0; i < BLOCKS; i++) {
        OK(leat_copy_sync(t->stream, out, items[i].dst, BYTES));
        OK(leat_stream_synchronize(t->stream));
        assert_memory_equal(out, data + i * BYTES, BYTES);
        OK(leat_free(t->stream, items[i].dst));
    }
    OK(leat_model_close(model));
    free(out);
    free(data);
}

static void load_and_compare(struct test_state *t, const leat_model *model, size_t tensor,
                             const unsigned char *data)
{
    leat_model_tensor_info info = info_of(model, tensor);
    leat_model_slice slices[LEAT_MODEL_MAX_DIMS];
    int64_t size[LEAT_MODEL_MAX_DIMS], room = info.block_bytes;
    leat_kind kind = draw(2) ? LEAT_KIND_DEVICE : LEAT_KIND_PINNED;
    bool slice = draw(4), with_layout = draw(2);
    leat_layout layout;
    leat_model_load *load;
    leat_model_item item;
    unsigned char *memory, *out, *wanted;

    for (unsigned i = 0; i < info.dims; i++) {
        slices[i].start = slice ? draw(info.shape[i]) : 0;
        slices[i].stop = slice ? slices[i].start + 1 + draw(info.shape[i] - slices[i].start) : info.shape[i];
        slices[i].step = slice && !draw(4) ? 1 + draw(4) : 1;
        size[i] = (slices[i].stop - slices[i].start + slices[i].step - 1) / slices[i].step;
        room *= size[i];
    }
    if (with_layout)
        layout = draw_layout(info.dims, size, info.block_bytes, &room);
    memory = test_alloc(t->device, kind, (size_t)room);
    out = test_buffer((size_t)room);
    wanted = test_buffer((size_t)room);
    memset(wanted, 0xee, (size_t)room);
    OK(leat_copy_sync(t->stream, memory, wanted, (size_t)room));
    copy_slowly(wanted, with_layout ? &layout : NULL, data, &info, slices);
    item = item_of(t, tensor, memory, (size_t)room);
    item.slice = slice ? slices : NULL;
    item.layout = with_layout ? &layout : NULL;
    OK(leat_model_load_start(model, &item, 1, NULL, &load));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_copy_sync(t->stream, out, memory, (size_t)room));
    OK(leat_stream_synchronize(t->stream));
    assert_memory_equal(out, wanted, (size_t)room);
    OK(leat_model_load_destroy(load));
    if (!with_layout) { /* not after a random layout, because that may end with a gap */
        item.dst_bytes--;
        REFUSED(leat_model_load_start(model, &item, 1, NULL, &load), LEAT_ERROR_RANGE, "item 0");
    }
    OK(leat_memory_free(memory));
    free(out);
    free(wanted);
}

static void slices_and_layouts_are_right(void **state)
{
    static const char *const types[] = {"U8", "F16", "F32", "F64"};
    struct test_state *t = *state;

    for (int round = 0; round < 60; round++) {
        struct maker maker = {0};
        const char *path = path_of("slices");
        unsigned dims = 1 + (unsigned)draw(4), type = (unsigned)draw(4);
        /* Large enough that leat reads some rows directly. */
        int64_t shape[4], most = dims == 1 ? 200000 : dims == 2 ? 600 : dims == 3 ? 60 : 20;
        unsigned char *data;
        leat_model *model;

        for (unsigned i = 0; i < dims; i++)
            shape[i] = 1 + draw(most);
        if (dims > 1 && !draw(3)) {
            shape[0] = 1 + draw(5);
            shape[dims - 1] = 70000 + draw(1000);
            for (unsigned i = 1; i + 1 < dims; i++)
                shape[i] = 1 + draw(3);
        }
        add(&maker, "before", "U8", 1, 1, (int64_t[]){draw(9) * 8});
        add(&maker, "x", types[type], 1u << type, dims, shape);
        data = finish(&maker, path);
        model = open_one(path);
        for (int i = 0; i < 3; i++)
            load_and_compare(t, model, 1, data + info_of(model, 0).bytes);
        OK(leat_model_close(model));
        free(data);
    }
}

static void write_content(const char *path, const struct content *content)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(content->at, 1, content->bytes, file), content->bytes);
    assert_int_equal(fclose(file), 0);
}

/* Loads arrays of both orders: whole arrays, slices, and with layouts. */
static void npy_arrays_are_loaded(void **state)
{
    static const char *const types[] = {"|u1", "<f2", "<f4", "<i8", "<c16"};
    struct test_state *t = *state;

    for (int round = 0; round < 40; round++) {
        const char *path = path_of("array.npy");
        unsigned dims = 1 + (unsigned)draw(4), type = (unsigned)draw(5);
        int64_t shape[4], most = dims == 1 ? 100000 : dims == 2 ? 300 : dims == 3 ? 40 : 15;
        size_t bytes = (size_t)1 << type;
        struct content content = {0};
        char header[400];
        int used = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': (", types[type],
                            draw(2) ? "True" : "False");
        leat_model *model;

        for (unsigned i = 0; i < dims; i++) {
            shape[i] = 1 + draw(most);
            bytes *= (size_t)shape[i];
            used += snprintf(header + used, sizeof header - (size_t)used, "%" PRId64 ",", shape[i]);
        }
        snprintf(header + used, sizeof header - (size_t)used, "), }\n");
        put_npy(&content, 1, header, bytes);
        test_pattern(content.at + content.bytes - bytes, bytes, 7);
        write_content(path, &content);
        model = open_one(path);
        for (int i = 0; i < 3; i++)
            load_and_compare(t, model, 0, content.at + content.bytes - bytes);
        OK(leat_model_close(model));
        free(content.at);
    }
}

/* Loads slices of quantized tensors. Their blocks have more bytes than an element of a layout may have. */
static void blocks_of_gguf_are_loaded(void **state)
{
    static const struct {
        uint32_t number;
        unsigned elements, bytes;
    } types[] = {{2, 32, 18}, {8, 32, 34}, {14, 256, 210}, {39, 32, 17}};
    struct test_state *t = *state;

    for (int round = 0; round < 20; round++) {
        const char *path = path_of("blocks.gguf");
        unsigned type = (unsigned)draw(4), elements = types[type].elements, bytes = types[type].bytes;
        int64_t rows = 1 + draw(20), planes = 1 + draw(5), row = 1 + draw(round % 5 ? 9 : 5000);
        int64_t shape[3] = {row * elements, rows, planes}, size[3];
        size_t data_bytes = (size_t)(row * rows * planes) * bytes, count = 0;
        struct content content = {0};
        leat_model_slice slices[3];
        leat_model_item item;
        leat_model_load *load;
        leat_model *model;
        unsigned char *data, *out;

        put(&content, "GGUF\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
        put_tensor(&content, "x", 3, shape, types[type].number, 0);
        pad_to(&content, 32);
        put_data(&content, data_bytes);
        data = content.at + content.bytes - data_bytes;
        test_pattern(data, data_bytes, 3);
        write_content(path, &content);
        model = open_one(path);
        for (unsigned i = 0; i < 3; i++) {
            int64_t whole = i == 2 ? row : shape[2 - i], block = i == 2 ? elements : 1, start = draw(whole);

            size[i] = 1 + draw(whole - start);
            slices[i] = (leat_model_slice){start * block, (start + size[i]) * block, 1};
        }
        out = test_buffer(data_bytes);
        item = item_of(t, 0, out, data_bytes);
        item.slice = slices;
        OK(leat_model_load_start(model, &item, 1, NULL, &load));
        OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
        for (int64_t i = 0; i < size[0]; i++)
            for (int64_t j = 0; j < size[1]; j++, count++) {
                int64_t from = ((slices[0].start + i) * rows + slices[1].start + j) * row;

                assert_memory_equal(out + count * (size_t)size[2] * bytes,
                                    data + (from + slices[2].start / elements) * bytes, (size_t)size[2] * bytes);
            }
        OK(leat_model_load_destroy(load));
        OK(leat_model_close(model));
        free(content.at);
        free(out);
    }
}

/* Loads one set from files of all formats. */
static void formats_are_mixed(void **state)
{
    struct test_state *t = *state;
    struct zip zip = make_zip(ZIP_64, "a.npy", "b.npy");
    struct gguf gguf = make_gguf(3, 64);
    struct content npy = {0};
    struct maker maker = {0};
    const char *paths[4];
    unsigned char *data, *wanted[7], out[72];
    leat_model *model;
    leat_model_set *set;

    paths[0] = path_of("mixed.npz");
    paths[1] = path_of("c.npy");
    paths[2] = path_of("mixed.safetensors");
    paths[3] = path_of("mixed.gguf");
    zip.content.at[zip.after[1] - 1] ^= 1;
    write_content(paths[0], &zip.content);
    put_npy(&npy, 2, "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}\n", 12);
    write_content(paths[1], &npy);
    add(&maker, "d", "F32", 4, 1, (int64_t[]){3});
    data = finish(&maker, paths[2]);
    gguf.content.at[gguf.tensor[0] + 8] = 'e';
    gguf.content.at[gguf.tensor[1] + 8] = 'f';
    gguf.content.at[gguf.tensor[2] + 8] = 'g';
    write_content(paths[3], &gguf.content);
    OK(leat_model_open(paths, 4, &model));
    OK(leat_model_load_all(t->stream, model, NULL, NULL, &set));
    OK(leat_model_load_wait(leat_model_set_get_load(set), LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    wanted[0] = zip.content.at + zip.after[0] - 12;
    wanted[1] = zip.content.at + zip.after[1] - 12;
    wanted[2] = npy.at + npy.bytes - 12;
    wanted[3] = data;
    wanted[4] = gguf.content.at + gguf.data;
    wanted[5] = gguf.content.at + gguf.data + 64;
    wanted[6] = gguf.content.at + gguf.data + 64 + 128;
    for (size_t i = 0; i < 7; i++) {
        const char name[] = {"abcdefg"[i], '\0'};
        leat_model_tensor_info info = info_of(model, i);
        void *ptr;

        assert_string_equal(info.name, name);
        OK(leat_model_set_get_pointer(set, i, &ptr));
        assert_int_equal((uintptr_t)ptr % (i < 4 ? 4 : 64), 0);
        OK(leat_copy_sync(t->stream, out, ptr, info.bytes));
        assert_memory_equal(out, wanted[i], info.bytes);
    }
    OK(leat_model_set_destroy(set));
    OK(leat_model_close(model));
    free(zip.content.at);
    free(npy.at);
    free(gguf.content.at);
    free(data);
}

/* Checks which bytes are read for slices: leat reads only the wanted part of long rows, and reads short rows
 * together with the gaps between them unless the gaps are long. */
static void little_else_is_read(void **state)
{
    struct test_state *t = *state;
    struct maker maker = {0};
    const char *path = path_of("bytes");
    unsigned char *data, *out = test_buffer(4 << 20);
    leat_model_slice slices[2] = {{2, 4, 1}, {0, 65536, 1}};
    leat_model_item item = item_of(t, 0, out, 4 << 20);
    leat_model_load *load;
    leat_model *model;

    add(&maker, "x", "U8", 1, 2, (int64_t[]){16, 200000});
    data = finish(&maker, path);
    model = open_one(path);
    item.slice = slices;
    OK(leat_model_load_start(model, &item, 1, NULL, &load));
    assert_int_equal(load_info(load).bytes, 2 * 65536);
    assert_int_equal(load_info(load).reads, 2);
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_memory_equal(out + 65536, data + 3 * 200000, 65536);
    OK(leat_model_load_destroy(load));
    slices[1].stop = 100; /* short rows, but the gaps are longer than 64 KiB */
    batches = 0;
    OK(leat_model_load_start(model, &item, 1, NULL, &load));
    assert_int_equal(batches, 1);
    assert_int_equal(load_info(load).reads, 2);
    assert_int_equal(load_info(load).bytes, 2 * 100);
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_memory_equal(out + 100, data + 3 * 200000, 100);
    OK(leat_model_load_destroy(load));
    slices[1].start = 150000;
    slices[1].stop = 200000;
    slices[1].step = 50;
    OK(leat_model_load_start(model, &item, 1, NULL, &load));
    assert_int_equal(load_info(load).bytes, 2 * (999 * 50 + 1));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_int_equal(out[1001], data[3 * 200000 + 150050]);
    OK(leat_model_load_destroy(load));
    OK(leat_model_close(model));
    free(out);
    free(data);
}

/* Tensors with elements smaller than a byte may only be sliced between their blocks. */
static void blocks_are_not_cut(void **state)
{
    struct test_state *t = *state;
    struct maker maker = {0};
    const char *path = path_of("blocks");
    unsigned char *data, out[64];
    leat_model_slice slices[2] = {{1, 3, 1}, {4, 8, 1}};
    leat_model_item item = item_of(t, 0, out, sizeof out);
    leat_model_load *load;
    leat_model *model;
    leat_layout layout;

    /* 4 x 16 elements of 4 bits are 32 bytes. */
    maker.header = strdup("{\"x\":{\"dtype\":\"F4\",\"shape\":[4,16],\"data_offsets\":[0,32]},"
                          "\"odd\":{\"dtype\":\"F4\",\"shape\":[4,3],\"data_offsets\":[32,38]}");
    maker.used = strlen(maker.header);
    maker.data = 38;
    data = finish(&maker, path);
    model = open_one(path);
    OK(leat_model_load_start(model, &item, 1, NULL, &load));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_memory_equal(out, data, 32);
    OK(leat_model_load_destroy(load));
    item.slice = slices;
    OK(leat_model_load_start(model, &item, 1, NULL, &load));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_memory_equal(out, data + 8 + 2, 2);
    assert_memory_equal(out + 2, data + 16 + 2, 2);
    OK(leat_model_load_destroy(load));
    slices[1].start = 5;
    REFUSED(leat_model_load_start(model, &item, 1, NULL, &load), LEAT_ERROR_INVALID, "cannot be cut");
    slices[1] = (leat_model_slice){4, 8, 2};
    REFUSED(leat_model_load_start(model, &item, 1, NULL, &load), LEAT_ERROR_INVALID, "cannot be cut");
    item.slice = NULL;
    OK(leat_layout_dense(&layout, 2, (int64_t[]){4, 8}, 1));
    item.layout = &layout;
    REFUSED(leat_model_load_start(model, &item, 1, NULL, &load), LEAT_ERROR_UNSUPPORTED, "whole bytes");
    item.layout = NULL;
    item.tensor = 1;
    OK(leat_model_load_start(model, &item, 1, NULL, &load));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_memory_equal(out, data + 32, 6);
    OK(leat_model_load_destroy(load));
    slices[1] = (leat_model_slice){0, 2, 1};
    item.slice = slices;
    REFUSED(leat_model_load_start(model, &item, 1, NULL, &load), LEAT_ERROR_UNSUPPORTED,
            "do not fill whole blocks");
    OK(leat_model_close(model));
    free(data);
}

/* ---- failures, and versions of structs ---- */

static void files_that_were_cut_fail(void **state)
{
    struct test_state *t = *state;
    struct maker maker = {0};
    const char *path = path_of("cut");
    leat_model_load *load;
    leat_model_set *set = NULL;
    leat_model *model;
    leat_status status;

    add(&maker, "x", "U8", 1, 1, (int64_t[]){8 << 20});
    free(finish(&maker, path));
    model = open_one(path);
    assert_int_equal(truncate(path, 4 << 20), 0);
    status = leat_model_load_all(t->stream, model, NULL, NULL, &set);
    if (status == LEAT_OK) {
        load = leat_model_set_get_load(set);
        status = leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER);
        assert_int_equal(status, LEAT_ERROR_FILE);
    } else {
        assert_int_equal(status, LEAT_ERROR_RANGE);
        assert_non_null(strstr(leat_last_error(), "cut"));
        assert_non_null(strstr(leat_last_error(), "leat_model_load_all: "));
    }
    OK(leat_model_set_destroy(set));
    (void)leat_stream_synchronize(t->stream);
    OK(leat_model_close(model));
}

static void loads_are_cancelled(void **state)
{
    struct test_state *t = *state;
    struct maker maker = {0};
    const char *path = path_of("cancel");
    unsigned char *out = test_buffer(8 << 20);
    leat_model_options options = LEAT_MODEL_OPTIONS_INIT;
    struct test_gate *gate;
    leat_model_load *load;
    leat_model_item item;
    leat_model *model;

    add(&maker, "x", "U8", 1, 1, (int64_t[]){8 << 20});
    free(finish(&maker, path));
    model = open_one(path);
    item = item_of(t, 0, out, 8 << 20);
    gate = test_gate_close(t->stream);
    OK(leat_model_load_start(model, &item, 1, NULL, &load));
    assert_int_equal(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, 1000), LEAT_NOT_READY);
    assert_false(load_info(load).done);
    OK(leat_model_load_cancel(load));
    test_gate_open(gate);
    REFUSED(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_CANCELLED,
            "leat_model_load_wait");
    assert_int_equal(load_info(load).status, LEAT_ERROR_CANCELLED);
    OK(leat_model_load_destroy(load));
    (void)leat_stream_synchronize(t->stream);
    gate = test_gate_close(t->stream);
    options.deadline_ns = 1000000;
    OK(leat_model_load_start(model, &item, 1, &options, &load));
    test_sleep_us(20000);
    test_gate_open(gate);
    assert_int_equal(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_DEADLINE);
    OK(leat_model_load_destroy(load));
    (void)leat_stream_synchronize(t->stream);
    /* A load may be freed while it runs. */
    OK(leat_model_load_start(model, &item, 1, NULL, &load));
    OK(leat_model_load_destroy(load));
    OK(leat_model_close(model));
    OK(leat_stream_synchronize(t->stream));
    free(out);
}

/* A program built with a newer header has longer items, so the distance between them is larger. One built with an
 * older header has shorter options and results. */
static void structs_of_other_versions_work(void **state)
{
    struct test_state *t = *state;
    struct maker maker = {0};
    const char *path = path_of("versions");
    struct {
        leat_model_item item;
        uint64_t newer;
    } items[3] = {{.newer = 0}};
    leat_model_options options = {.size = offsetof(leat_model_options, deadline_ns), .deadline_ns = 1};
    leat_model_load_info info = {.size = offsetof(leat_model_load_info, reads), .reads = 77};
    unsigned char out[3][100], *data;
    leat_model_load *load;
    leat_model *model;

    add(&maker, "x", "U8", 1, 2, (int64_t[]){3, 100});
    data = finish(&maker, path);
    model = open_one(path);
    for (int i = 0; i < 3; i++) {
        static const leat_model_slice rows[3][2] = {
            {{0, 1, 1}, {0, 100, 1}}, {{1, 2, 1}, {0, 100, 1}}, {{2, 3, 1}, {0, 100, 1}}};

        items[i].item = item_of(t, 0, out[i], 100);
        items[i].item.size = sizeof items[i];
        items[i].item.slice = rows[i];
    }
    memset(out, 0, sizeof out);
    OK(leat_model_load_start(model, &items[0].item, 3, &options, &load));
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    assert_memory_equal(out, data, 300);
    OK(leat_model_load_get_info(load, &info));
    assert_int_equal(info.bytes, 300);
    assert_int_equal(info.reads, 77);
    OK(leat_model_load_destroy(load));
    items[2].newer = 1;
    REFUSED(leat_model_load_start(model, &items[0].item, 3, NULL, &load), LEAT_ERROR_INVALID, "items[2].size");
    items[1].item.size = sizeof(leat_model_item);
    REFUSED(leat_model_load_start(model, &items[0].item, 3, NULL, &load), LEAT_ERROR_INVALID, "that of item 0");
    OK(leat_model_close(model));
    free(data);
}

static void wrong_items_are_refused(void **state)
{
    struct test_state *t = *state;
    struct maker maker = {0};
    const char *path = path_of("items");
    unsigned char out[64];
    leat_model_slice slices[2] = {{0, 2, 1}, {0, 3, 1}};
    leat_model_options options = LEAT_MODEL_OPTIONS_INIT;
    leat_model_item items[2], item;
    leat_model_load *load;
    leat_model *model;
    leat_layout layout;

    add(&maker, "x", "F32", 4, 2, (int64_t[]){2, 3});
    free(finish(&maker, path));
    model = open_one(path);
    item = item_of(t, 0, out, sizeof out);
#define BAD(status, words)                                                                                        \
    do {                                                                                                          \
        REFUSED(leat_model_load_start(model, &item, 1, NULL, &load), status, words);                              \
        item = item_of(t, 0, out, sizeof out);                                                                    \
    } while (0)
    item.tensor = 1;
    BAD(LEAT_ERROR_INVALID, "index 1, and there are 1");
    item.size = 0;
    BAD(LEAT_ERROR_INVALID, "items[0].size is 0");
    item.stream = NULL;
    BAD(LEAT_ERROR_INVALID, "its stream is NULL");
    item.dst = NULL;
    BAD(LEAT_ERROR_INVALID, "dst is NULL");
    item.dst_bytes = 23;
    BAD(LEAT_ERROR_RANGE, "dst_bytes is 23");
    slices[1].stop = 4;
    item.slice = slices;
    BAD(LEAT_ERROR_INVALID, "slice[1] is 0 to 4 by 1; the dimension has 3");
    slices[1] = (leat_model_slice){2, 1, 1};
    item.slice = slices;
    BAD(LEAT_ERROR_INVALID, "slice[1]");
    slices[1] = (leat_model_slice){0, 3, 0};
    item.slice = slices;
    BAD(LEAT_ERROR_INVALID, "slice[1]");
    slices[1] = (leat_model_slice){-1, 3, 1};
    item.slice = slices;
    BAD(LEAT_ERROR_INVALID, "slice[1]");
    OK(leat_layout_dense(&layout, 2, (int64_t[]){3, 2}, 4));
    item.layout = &layout;
    BAD(LEAT_ERROR_INVALID, "the layout's size[0] is 3, and the slice has 2");
    OK(leat_layout_dense(&layout, 1, (int64_t[]){6}, 4));
    item.layout = &layout;
    BAD(LEAT_ERROR_INVALID, "the layout has 1 dimensions");
    OK(leat_layout_dense(&layout, 2, (int64_t[]){2, 3}, 4));
    layout.stride_bytes[0] = 60;
    item.layout = &layout;
    BAD(LEAT_ERROR_RANGE, "reaches outside");
    layout.stride_bytes[0] = -12;
    item.layout = &layout;
    BAD(LEAT_ERROR_RANGE, "reaches outside");
    layout.stride_bytes[0] = INT64_MAX;
    item.layout = &layout;
    BAD(LEAT_ERROR_RANGE, "reaches outside");
    layout.stride_bytes[0] = 4;
    item.layout = &layout;
    BAD(LEAT_ERROR_INVALID, "item 0");
    /* A wrong item is found before another one is started. */
    memset(out, 7, sizeof out);
    items[0] = items[1] = item;
    items[0].dst_bytes = 24;
    items[1].dst = out + 24;
    items[1].dst_bytes = sizeof out - 24;
    items[1].layout = &layout;
    REFUSED(leat_model_load_start(model, items, 2, NULL, &load), LEAT_ERROR_INVALID, "item 1");
    OK(leat_stream_synchronize(t->stream));
    EXPECT_BYTES(out, sizeof out, 7);
    items[0] = item;
    items[1] = item;
    items[1].dst = out + 23;
    items[1].dst_bytes = 24;
    REFUSED(leat_model_load_start(model, items, 2, NULL, &load), LEAT_ERROR_OVERLAP, "items 0 and 1 overlap");
    REFUSED(leat_model_load_start(NULL, items, 2, NULL, &load), LEAT_ERROR_INVALID, "model is NULL");
    REFUSED(leat_model_load_start(model, NULL, 2, NULL, &load), LEAT_ERROR_INVALID, "items is NULL");
    REFUSED(leat_model_load_start(model, items, 2, NULL, NULL), LEAT_ERROR_INVALID, "load is NULL");
    options.size = 0;
    REFUSED(leat_model_load_start(model, items, 1, &options, &load), LEAT_ERROR_INVALID, "options->size is 0");
    REFUSED(leat_model_load_wait(NULL, LEAT_COPY_POINT_DONE, 0), LEAT_ERROR_INVALID, "load is NULL");
    REFUSED(leat_model_load_cancel(NULL), LEAT_ERROR_INVALID, "load is NULL");
    OK(leat_model_load_destroy(NULL));
    OK(leat_model_load_start(model, items, 1, NULL, &load));
    REFUSED(leat_model_load_get_info(load, NULL), LEAT_ERROR_INVALID, "info is NULL");
    REFUSED(leat_model_load_wait(load, (leat_copy_point)9, 0), LEAT_ERROR_INVALID, "point is 9");
    OK(leat_model_load_wait(load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    OK(leat_model_load_destroy(load));
    OK(leat_model_close(model));
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        STATE_TEST(sets_have_all_tensors),
        STATE_TEST(patterns_select),
        STATE_TEST(neighbours_are_read_together),
        STATE_TEST(many_tensors_are_one_batch),
        STATE_TEST(neighbours_in_two_blocks),
        STATE_TEST(slices_and_layouts_are_right),
        STATE_TEST(npy_arrays_are_loaded),
        STATE_TEST(blocks_of_gguf_are_loaded),
        STATE_TEST(formats_are_mixed),
        STATE_TEST(little_else_is_read),
        STATE_TEST(blocks_are_not_cut),
        STATE_TEST(files_that_were_cut_fail),
        STATE_TEST(loads_are_cancelled),
        STATE_TEST(structs_of_other_versions_work),
        STATE_TEST(wrong_items_are_refused),
    };

    random_state = argc > 2 && !strcmp(argv[1], "--seed") ? strtoull(argv[2], NULL, 0) : test_seed();
    printf("seed 0x%" PRIx64 "\n", random_state);
    random_state = random_state * 0x9e3779b97f4a7c15u + 1;
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
