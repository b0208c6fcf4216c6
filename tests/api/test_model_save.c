/*
 * test_model_save.c - tests saves of leat/model.h: headers, bytes, and order in the stream. A save that fails must
 * leave nothing behind.
 */
#include "harness.h"
#include "test_folder.h"

#include <leat/model.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static unsigned count_names(void)
{
    DIR *directory = opendir(folder);
    unsigned count = 0;

    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return count;
}

static char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    struct stat what;
    char *data;

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &what), 0);
    *bytes = (size_t)what.st_size;
    data = test_buffer(*bytes + 1);
    assert_int_equal(fread(data, 1, *bytes, file), *bytes);
    data[*bytes] = '\0';
    fclose(file);
    return data;
}

static void expect_content(const char *path, const char *content, size_t bytes)
{
    size_t found;
    char *data = read_file(path, &found);

    assert_int_equal(found, bytes);
    assert_memory_equal(data, content, bytes);
    free(data);
}

static void write_old(const char *path)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_true(fputs("old", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static leat_model_save_item item_of(const char *name, const char *type, uint32_t dims, const int64_t *shape,
                                    const void *src, size_t src_bytes)
{
    leat_model_save_item item = LEAT_MODEL_SAVE_ITEM_INIT;

    item.name = name;
    item.type = type;
    item.dims = dims;
    item.shape = shape;
    item.src = src;
    item.src_bytes = src_bytes;
    return item;
}

static void save_and_wait(struct test_state *t, const char *path, const leat_model_save_item *items, size_t count,
                          const leat_model_save_options *options)
{
    leat_model_save_info info = LEAT_MODEL_SAVE_INFO_INIT;
    leat_model_save *save;

    OK(leat_model_save_start(t->stream, path, items, count, options, &save));
    OK(leat_model_save_wait(save, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER));
    OK(leat_model_save_wait(save, LEAT_COPY_POINT_STAGED, 0));
    OK(leat_model_save_wait(save, LEAT_COPY_POINT_DONE, 0));
    OK(leat_model_save_get_info(save, &info));
    assert_true(info.staged && info.done && info.durable);
    assert_int_equal(info.arrived_bytes, info.bytes);
    assert_int_equal(info.status, LEAT_OK);
    OK(leat_model_save_destroy(save));
}

/* ---- the bytes of saved files ---- */

static void the_header_is_as_the_format_demands(void **state)
{
    static const char wanted[] = "{\"__metadata__\":{\"format\":\"pt\",\"a\\\"b\":\"line\\u000aend\"},"
                                 "\"z\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                                 "\"quote\\\" back\\\\ tab\\u0009 \xc3\xa9\":"
                                 "{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]},"
                                 "\"\":{\"dtype\":\"I16\",\"shape\":[0,7],\"data_offsets\":[11,11]},"
                                 "\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[11,12]}}";
    static const leat_model_entry metadata[] = {{"format", "pt"}, {"a\"b", "line\nend"}};
    struct test_state *t = *state;
    const char *path = path_of("header.safetensors");
    const int64_t row[] = {1, 2}, three[] = {3}, none[] = {0, 7}, pair[] = {2};
    leat_model_save_options options = LEAT_MODEL_SAVE_OPTIONS_INIT;
    leat_model_save_item items[4];
    size_t bytes, header;
    char *data;

    items[0] = item_of("z", "F32", 2, row, "12345678", 8);
    items[1] = item_of("quote\" back\\ tab\t \xc3\xa9", "U8", 1, three, "abc", 3);
    items[2] = item_of("", "I16", 2, none, NULL, 0);
    items[3] = item_of("a", "F4", 1, pair, "x", 1);
    options.metadata = metadata;
    options.metadata_count = 2;
    save_and_wait(t, path, items, 4, &options);
    data = read_file(path, &bytes);
    header = (unsigned char)data[0] + 256u * (unsigned char)data[1];
    for (size_t i = 2; i < 8; i++)
        assert_int_equal(data[i], 0);
    assert_int_equal(header, (sizeof wanted - 1 + 7) / 8 * 8);
    assert_memory_equal(data + 8, wanted, sizeof wanted - 1);
    for (size_t i = sizeof wanted - 1; i < header; i++)
        assert_int_equal(data[8 + i], ' ');
    assert_int_equal(bytes, 8 + header + 12);
    assert_memory_equal(data + 8 + header, "12345678abcx", 12);
    free(data);
    save_and_wait(t, path, NULL, 0, NULL);
    expect_content(path, "\x08\0\0\0\0\0\0\0{}      ", 16);
}

static void npy_files_are_as_numpy_writes_them(void **state)
{
    struct test_state *t = *state;
    const char *path = path_of("x.npy");
    const int64_t shape[] = {2, 3};
    float values[] = {1, 2, 3, 4, 5, 6};
    leat_model_save_item item = item_of(NULL, "F32", 2, shape, values, sizeof values);
    leat_model_save *save;
    size_t bytes;
    char *data;

    save_and_wait(t, path, &item, 1, NULL);
    data = read_file(path, &bytes);
    assert_int_equal(bytes, 128 + sizeof values);
    assert_memory_equal(data, "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    ",
                        10 + 62);
    assert_int_equal(data[127], '\n');
    assert_memory_equal(data + 128, values, sizeof values);
    free(data);
    item = item_of("name", "BOOL", 1, shape, values, 2);
    save_and_wait(t, path, &item, 1, NULL);
    data = read_file(path, &bytes);
    assert_int_equal(bytes, 128 + 2);
    assert_memory_equal(data + 10, "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }   ", 60);
    free(data);
    item.dims = 0;
    save_and_wait(t, path, &item, 1, NULL);
    data = read_file(path, &bytes);
    assert_int_equal(bytes, 128 + 1);
    assert_memory_equal(data + 10, "{'descr': '|b1', 'fortran_order': False, 'shape': (), }   ", 58);
    free(data);
    item.type = "BF16";
    REFUSED(leat_model_save_start(t->stream, path, &item, 1, NULL, &save), LEAT_ERROR_UNSUPPORTED, "no type BF16");
}

/* Saves tensors of every type from all kinds of memory, loads the file, and compares. */
static void what_is_saved_is_loaded(void **state)
{
    static const struct {
        const char *type;
        unsigned elements, bytes;
    } types[] = {{"BOOL", 1, 1},        {"F4", 2, 1},         {"F6_E2M3", 4, 3}, {"F6_E3M2", 4, 3}, {"U8", 1, 1},
                 {"I8", 1, 1},          {"F8_E5M2", 1, 1},    {"F8_E4M3", 1, 1}, {"F8_E8M0", 1, 1}, {"I16", 1, 2},
                 {"U16", 1, 2},         {"F16", 1, 2},        {"BF16", 1, 2},    {"I32", 1, 4},     {"U32", 1, 4},
                 {"F32", 1, 4},         {"C64", 1, 8},        {"F64", 1, 8},     {"I64", 1, 8},     {"U64", 1, 8},
                 {"F8_E4M3FNUZ", 1, 1}, {"F8_E5M2FNUZ", 1, 1}};
    enum { TYPES = sizeof types / sizeof types[0], COUNT = 2000, ROOM = 4096 };
    static const leat_kind kinds[] = {LEAT_KIND_DEVICE, LEAT_KIND_PINNED};
    struct test_state *t = *state;
    const char *path = path_of("round.safetensors");
    leat_model_save_item *items = calloc(COUNT, sizeof *items);
    int64_t(*shapes)[3] = calloc(COUNT, sizeof *shapes);
    char(*names)[40] = calloc(COUNT, sizeof *names);
    char *memory[3], *content = test_buffer((size_t)COUNT * ROOM), *out = test_buffer(ROOM);
    leat_model_set *set;
    leat_model *model;

    assert_true(items && shapes && names);
    test_pattern(content, (size_t)COUNT * ROOM, 3);
    memory[2] = content;
    for (int i = 0; i < 2; i++) {
        memory[i] = test_alloc(t->device, kinds[i], (size_t)COUNT * ROOM);
        OK(leat_copy_sync(t->stream, memory[i], content, (size_t)COUNT * ROOM));
    }
    for (int i = 0; i < COUNT; i++) {
        int64_t *shape = shapes[i];
        size_t bytes;

        snprintf(names[i], sizeof names[i], "%s.%d \"\\\x01", types[i % TYPES].type, COUNT - i);
        shape[0] = i % 5;
        shape[1] = 1 + i % 11;
        shape[2] = (1 + i % 3) * (int64_t)types[i % TYPES].elements;
        bytes = (size_t)(shape[0] * shape[1] * shape[2]) / types[i % TYPES].elements * types[i % TYPES].bytes;
        assert_true(bytes <= ROOM);
        items[i] = item_of(names[i], types[i % TYPES].type, 3, shape, memory[i / 7 % 3] + (size_t)i * ROOM, bytes);
    }
    save_and_wait(t, path, items, COUNT, NULL);
    OK(leat_model_open(&path, 1, &model));
    OK(leat_model_load_all(t->stream, model, NULL, NULL, &set));
    OK(leat_model_load_wait(leat_model_set_get_load(set), LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    for (size_t i = 0; i < COUNT; i++) {
        leat_model_tensor_info info = LEAT_MODEL_TENSOR_INFO_INIT;
        size_t index;
        void *ptr;

        OK(leat_model_find(model, names[i], &index));
        OK(leat_model_get_tensor_info(model, index, &info));
        assert_string_equal(info.type, items[i].type);
        assert_int_equal(info.dims, 3);
        assert_memory_equal(info.shape, shapes[i], sizeof shapes[i]);
        assert_int_equal(info.bytes, items[i].src_bytes);
        OK(leat_model_set_get_pointer(set, index, &ptr));
        OK(leat_copy_sync(t->stream, out, ptr, (size_t)info.bytes));
        OK(leat_stream_synchronize(t->stream));
        assert_memory_equal(out, content + i * ROOM, (size_t)info.bytes);
    }
    OK(leat_model_set_destroy(set));
    OK(leat_model_close(model));
    for (int i = 0; i < 2; i++)
        OK(leat_memory_free(memory[i]));
    free(content);
    free(out);
    free(items);
    free(shapes);
    free(names);
}

/* The file must have the bytes that the memory holds when the stream reaches the save. The caller may change its
 * names and types as soon as the call has returned. */
static void saves_are_in_stream_order(void **state)
{
    enum { BYTES = 3 << 20 };
    struct test_state *t = *state;
    const char *path = path_of("order.safetensors");
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    const int64_t shape[] = {BYTES};
    char name[] = "x";
    leat_model_save_info info = LEAT_MODEL_SAVE_INFO_INIT;
    leat_model_save_item item = item_of(name, "U8", 1, shape, memory, BYTES);
    struct test_gate *gate;
    leat_model_save *save;
    size_t bytes;
    char *data;

    OK(leat_fill(t->stream, memory, 1, BYTES));
    OK(leat_stream_synchronize(t->stream));
    gate = test_gate_close(t->stream);
    OK(leat_fill(t->stream, memory, 2, BYTES));
    OK(leat_model_save_start(t->stream, path, &item, 1, NULL, &save));
    OK(leat_fill(t->stream, memory, 3, BYTES));
    name[0] = 'y';
    item.type = NULL;
    assert_int_equal(leat_model_save_wait(save, LEAT_COPY_POINT_DURABLE, 1000), LEAT_NOT_READY);
    assert_int_equal(leat_model_save_wait(save, LEAT_COPY_POINT_STAGED, 0), LEAT_NOT_READY);
    OK(leat_model_save_get_info(save, &info));
    assert_false(info.staged || info.done || info.durable);
    assert_int_equal(access(path, F_OK), -1);
    test_gate_open(gate);
    OK(leat_model_save_wait(save, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER));
    OK(leat_model_save_destroy(save));
    data = read_file(path, &bytes);
    assert_true(bytes > BYTES);
    assert_non_null(strstr(data + 8, "\"x\":{\"dtype\":\"U8\""));
    EXPECT_BYTES(data + (bytes - BYTES), BYTES, 2);
    free(data);
    /* A save may be freed while it runs. A later save replaces the file. */
    item.type = "U8";
    OK(leat_model_save_start(t->stream, path, &item, 1, NULL, &save));
    OK(leat_model_save_destroy(save));
    OK(leat_model_save_start(t->stream, path, &item, 1, NULL, &save));
    OK(leat_model_save_wait(save, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER));
    OK(leat_model_save_destroy(save));
    data = read_file(path, &bytes);
    EXPECT_BYTES(data + (bytes - BYTES), BYTES, 3);
    free(data);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(memory));
}

/* ---- failures ---- */

/* A limit on file sizes makes the save fail as on a full disk. */
static void a_save_that_fails_changes_nothing(void **state)
{
    enum { BYTES = 3 << 20 };
    struct test_state *t = *state;
    const char *path = path_of("kept");
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, BYTES);
    const int64_t shape[] = {BYTES};
    leat_model_save_options options = LEAT_MODEL_SAVE_OPTIONS_INIT;
    leat_model_save_info info = LEAT_MODEL_SAVE_INFO_INIT;
    leat_model_save_item item = item_of("x", "U8", 1, shape, memory, BYTES);
    unsigned names;
    struct rlimit before, less;

    write_old(path);
    names = count_names();
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    less = before;
    less.rlim_cur = MIB;
    for (int i = 0; i < 3; i++) {
        static const leat_status statuses[] = {LEAT_ERROR_FILE, LEAT_ERROR_CANCELLED, LEAT_ERROR_DEADLINE};
        struct test_gate *gate = test_gate_close(t->stream);
        leat_model_save *save;

        options.deadline_ns = i == 2 ? 1000000 : 0;
        OK(leat_model_save_start(t->stream, path, &item, 1, &options, &save));
        if (i == 0)
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
        if (i == 1)
            OK(leat_model_save_cancel(save));
        if (i == 2)
            test_sleep_us(20000);
        test_gate_open(gate);
        REFUSED(leat_model_save_wait(save, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER), statuses[i],
                "leat_model_save_wait: ");
        if (i == 0)
            assert_non_null(strstr(leat_last_error(), strerror(EFBIG)));
        REFUSED(leat_model_save_wait(save, LEAT_COPY_POINT_DONE, LEAT_FOREVER), statuses[i],
                "leat_model_save_wait: ");
        OK(leat_model_save_get_info(save, &info));
        assert_int_equal(info.status, statuses[i]);
        OK(leat_model_save_destroy(save));
        /* A stream reports failures, and not copies that were cancelled or late. */
        assert_int_equal(leat_stream_synchronize(t->stream), i == 0 ? LEAT_ERROR_FILE : LEAT_OK);
        OK(leat_stream_synchronize(t->stream));
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        expect_content(path, "old", 3);
        assert_int_equal(count_names(), names);
    }
    OK(leat_memory_free(memory));
}

static void wrong_saves_are_refused(void **state)
{
    static const leat_model_entry twice[] = {{"k", "1"}, {"k", "2"}}, broken[] = {{"k", "\xff"}};
    struct test_state *t = *state;
    const char *path = path_of("wrong");
    char memory[16];
    const int64_t shape[] = {2, 3}, negative[] = {2, -1}, big[] = {INT64_MAX, 3}, odd[] = {3};
    leat_model_save_options options = LEAT_MODEL_SAVE_OPTIONS_INIT;
    leat_model_save_info info = LEAT_MODEL_SAVE_INFO_INIT;
    leat_model_save_item items[2];
    unsigned names = count_names();
    leat_model_save *save = NULL;

#define BAD(status, words, ...)                                                                                   \
    do {                                                                                                          \
        items[0] = item_of(__VA_ARGS__);                                                                          \
        REFUSED(leat_model_save_start(t->stream, path, items, 1, NULL, &save), status, words);                    \
        assert_non_null(strstr(leat_last_error(), path));                                                         \
        assert_non_null(strstr(leat_last_error(), "item 0"));                                                     \
    } while (0)
    BAD(LEAT_ERROR_INVALID, "name is NULL", NULL, "U8", 2, shape, memory, 16);
    BAD(LEAT_ERROR_INVALID, "not valid UTF-8", "\xc3", "U8", 2, shape, memory, 16);
    BAD(LEAT_ERROR_INVALID, "reserves", "__metadata__", "U8", 2, shape, memory, 16);
    BAD(LEAT_ERROR_INVALID, "its type is NULL", "x", NULL, 2, shape, memory, 16);
    BAD(LEAT_ERROR_INVALID, "its type is float32", "x", "float32", 2, shape, memory, 16);
    BAD(LEAT_ERROR_INVALID, "33 dimensions", "x", "U8", 33, shape, memory, 16);
    BAD(LEAT_ERROR_INVALID, "its shape is NULL", "x", "U8", 2, NULL, memory, 16);
    BAD(LEAT_ERROR_INVALID, "shape[1] is -1", "x", "U8", 2, negative, memory, 16);
    BAD(LEAT_ERROR_RANGE, "63 bits", "x", "U8", 2, big, memory, 16);
    BAD(LEAT_ERROR_INVALID, "do not fill whole bytes", "x", "F4", 1, odd, memory, 16);
    BAD(LEAT_ERROR_RANGE, "src_bytes is 5, and its shape needs 6", "x", "U8", 2, shape, memory, 5);
    BAD(LEAT_ERROR_RANGE, "needs 24", "x", "F32", 2, shape, memory, 16);
    BAD(LEAT_ERROR_INVALID, "src is NULL", "x", "U8", 2, shape, NULL, 6);
    items[0] = items[1] = item_of("x", "U8", 2, shape, memory, 16);
    REFUSED(leat_model_save_start(t->stream, path, items, 2, NULL, &save), LEAT_ERROR_INVALID,
            "two tensors have the name 'x'");
    REFUSED(leat_model_save_start(t->stream, path_of("two.npy"), items, 2, NULL, &save), LEAT_ERROR_INVALID,
            "there are 2 items");
    items[0].size = 0;
    REFUSED(leat_model_save_start(t->stream, path, items, 1, NULL, &save), LEAT_ERROR_INVALID,
            "items[0].size is 0");
    items[0].size = sizeof items[0];
    options.metadata_count = 2;
    REFUSED(leat_model_save_start(t->stream, path, items, 1, &options, &save), LEAT_ERROR_INVALID,
            "metadata is NULL");
    options.metadata = twice;
    REFUSED(leat_model_save_start(t->stream, path, items, 1, &options, &save), LEAT_ERROR_INVALID, "the key 'k'");
    REFUSED(leat_model_save_start(t->stream, path_of("m.npy"), items, 1, &options, &save), LEAT_ERROR_INVALID,
            "no metadata");
    options.metadata = broken;
    options.metadata_count = 1;
    REFUSED(leat_model_save_start(t->stream, path, items, 1, &options, &save), LEAT_ERROR_INVALID, "metadata 0");
    options.size = 0;
    REFUSED(leat_model_save_start(t->stream, path, items, 1, &options, &save), LEAT_ERROR_INVALID, "size is 0");
    REFUSED(leat_model_save_start(NULL, path, items, 1, NULL, &save), LEAT_ERROR_INVALID, "stream is NULL");
    REFUSED(leat_model_save_start(t->stream, NULL, items, 1, NULL, &save), LEAT_ERROR_INVALID, "path is NULL");
    REFUSED(leat_model_save_start(t->stream, path, NULL, 1, NULL, &save), LEAT_ERROR_INVALID, "items is NULL");
    REFUSED(leat_model_save_start(t->stream, path, items, 1, NULL, NULL), LEAT_ERROR_INVALID, "save is NULL");
    REFUSED(leat_model_save_start(t->stream, path_of("no/such"), items, 1, NULL, &save), LEAT_ERROR_FILE,
            strerror(ENOENT));
    REFUSED(leat_model_save_start(t->stream, folder, items, 1, NULL, &save), LEAT_ERROR_FILE,
            "not a regular file");
    items[0].src = (void *)16;
    REFUSED(leat_model_save_start(t->stream, path, items, 1, NULL, &save), LEAT_ERROR_POINTER, "op 1");
    assert_null(save);
    REFUSED(leat_model_save_wait(NULL, LEAT_COPY_POINT_DONE, 0), LEAT_ERROR_INVALID, "save is NULL");
    REFUSED(leat_model_save_get_info(NULL, &info), LEAT_ERROR_INVALID, "save is NULL");
    REFUSED(leat_model_save_cancel(NULL), LEAT_ERROR_INVALID, "save is NULL");
    OK(leat_model_save_destroy(NULL));
    assert_int_equal(count_names(), names);
    OK(leat_model_save_start(t->stream, path, NULL, 0, NULL, &save));
    REFUSED(leat_model_save_wait(save, (leat_copy_point)4, 0), LEAT_ERROR_INVALID, "point is 4");
    REFUSED(leat_model_save_get_info(save, NULL), LEAT_ERROR_INVALID, "info is NULL");
    OK(leat_model_save_wait(save, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER));
    OK(leat_model_save_cancel(save));
    OK(leat_model_save_wait(save, LEAT_COPY_POINT_DURABLE, 0));
    OK(leat_model_save_destroy(save));
    OK(leat_stream_synchronize(t->stream));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        STATE_TEST(the_header_is_as_the_format_demands),
        STATE_TEST(npy_files_are_as_numpy_writes_them),
        STATE_TEST(what_is_saved_is_loaded),
        STATE_TEST(saves_are_in_stream_order),
        STATE_TEST(a_save_that_fails_changes_nothing),
        STATE_TEST(wrong_saves_are_refused),
    };

    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
