/*
 * unit_model_parse.c - the parsers of leat/model.h: good files, and for each rule of a format a file that breaks
 * it.
 */
#include "harness.h"
#include "test_folder.h"

#include <leat/model.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

/* Bytes that become a file. */
struct content {
    unsigned char *at;
    size_t bytes, room;
};

static void put(struct content *content, const void *data, size_t bytes)
{
    if (content->bytes + bytes > content->room) {
        content->room = 2 * (content->bytes + bytes) + 64;
        content->at = realloc(content->at, content->room);
        assert_non_null(content->at);
    }
    if (bytes)
        memcpy(content->at + content->bytes, data, bytes);
    content->bytes += bytes;
}

static void put_number(struct content *content, uint64_t value, unsigned bytes)
{
    unsigned char data[8];

    for (unsigned i = 0; i < bytes; i++)
        data[i] = (unsigned char)(value >> 8 * i);
    put(content, data, bytes);
}

/* Byte i of the data is i * 7 + 1. */
static void put_data(struct content *content, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        put_number(content, i * 7 + 1, 1);
}

static const char *write_file(const char *name, struct content *content)
{
    const char *path = path_of(name);
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    if (content->bytes)
        assert_int_equal(fwrite(content->at, 1, content->bytes, file), content->bytes);
    assert_int_equal(fclose(file), 0);
    free(content->at);
    memset(content, 0, sizeof *content);
    return path;
}

static leat_model *open_one(const char *path)
{
    leat_model *model = NULL;

    OK(leat_model_open(&path, 1, &model));
    assert_non_null(model);
    return model;
}

/* The file must be refused with a message that has the words, and names the file. */
static void refused(const char *path, const char *words)
{
    leat_model *model = (leat_model *)1;
    leat_status status = leat_model_open(&path, 1, &model);
    const char *name = strrchr(path, '/');

    if (status == LEAT_ERROR_FILE && strstr(leat_last_error(), words) && strstr(leat_last_error(), name + 1) &&
        model == (leat_model *)1)
        return;
    fail_msg("%s: status %s with \"%s\", and \"%s\" is expected", path, leat_status_name(status),
             leat_last_error(), words);
}

static leat_model_tensor_info tensor_of(const leat_model *model, const char *name)
{
    leat_model_tensor_info info = LEAT_MODEL_TENSOR_INFO_INIT;
    size_t index;

    OK(leat_model_find(model, name, &index));
    OK(leat_model_tensor(model, index, &info));
    assert_string_equal(info.name, name);
    return info;
}

/* ---- safetensors ---- */

static void put_safetensors(struct content *content, const char *header, size_t header_bytes, size_t data_bytes)
{
    put_number(content, header_bytes, 8);
    put(content, header, header_bytes);
    put_data(content, data_bytes);
}

static const char *safetensors(const char *name, const char *header, size_t data_bytes)
{
    struct content content = {0};

    put_safetensors(&content, header, strlen(header), data_bytes);
    return write_file(name, &content);
}

static void safetensors_are_read(void **state)
{
    static const char header[] =
        "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},\"__metadata__\":{\"format\":\"pt\","
        "\"\\u00e9\\n\":\"\\ud83d\\ude00\"},\"a\\/\\\"\":{ \"shape\" : [ ] ,\"data_offsets\":\t[0,8],"
        "\"dtype\":\"I64\"},\"e\":{\"dtype\":\"U8\",\"shape\":[5,0],\"data_offsets\":[32,32]},"
        "\"f4\":{\"dtype\":\"F4\",\"shape\":[1,4],\"data_offsets\":[32,34]},"
        "\"f6\":{\"dtype\":\"F6_E2M3\",\"shape\":[8],\"data_offsets\":[34,40]}}   ";
    const char *path = safetensors("good.safetensors", header, 40);
    leat_model *model = open_one(path);
    leat_model_tensor_info info = tensor_of(model, "b");
    leat_model_file_info file = LEAT_MODEL_FILE_INFO_INIT;
    leat_model_metadata_info metadata = LEAT_MODEL_METADATA_INFO_INIT;
    size_t tensors, files, entries;

    (void)state;
    OK(leat_model_count(model, &tensors, &files));
    assert_int_equal(tensors, 5);
    assert_int_equal(files, 1);
    assert_string_equal(info.type, "F32");
    assert_int_equal(info.dims, 2);
    assert_int_equal(info.shape[0], 2);
    assert_int_equal(info.shape[1], 3);
    assert_int_equal(info.bytes, 24);
    assert_int_equal(info.offset, 8 + strlen(header) + 8);
    assert_int_equal(info.block_bytes, 4);
    assert_int_equal(tensor_of(model, "a/\"").dims, 0);
    assert_int_equal(tensor_of(model, "e").bytes, 0);
    assert_int_equal(tensor_of(model, "f4").block_elements, 2);
    assert_int_equal(tensor_of(model, "f6").bytes, 6);
    /* By place in the file. */
    OK(leat_model_tensor(model, 0, &info));
    assert_string_equal(info.name, "a/\"");
    OK(leat_model_file(model, 0, &file));
    assert_string_equal(file.path, path);
    assert_int_equal(file.format, LEAT_MODEL_SAFETENSORS);
    assert_int_equal(file.header_bytes, 8 + strlen(header));
    assert_int_equal(file.tensors, 5);
    OK(leat_model_metadata_count(model, &entries));
    assert_int_equal(entries, 2);
    OK(leat_model_metadata(model, 1, &metadata));
    assert_string_equal(metadata.key, "\xc3\xa9\n");
    assert_string_equal(metadata.text, "\xf0\x9f\x98\x80");
    assert_int_equal(metadata.text_bytes, 4);
    OK(leat_model_close(model));
    OK(leat_model_close(open_one(safetensors("none.safetensors", "{}", 0))));
    OK(leat_model_close(open_one(safetensors("only.safetensors", "{\"__metadata__\":{}}", 0))));
}

/* A tensor of 4 bytes with another field in the place of one of these. */
#define T(dtype, shape, offsets) "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void safetensors_are_refused(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *words;
    } cases[] = {
        {" {}", 0, "does not begin with '{'"},
        {"[]", 0, "does not begin with '{'"},
        {"{", 0, "a string is expected"},
        {"{}x", 0, "is not a blank"},
        {"{}\n", 0, "is not a blank"},
        {"{}{}", 0, "is not a blank"},
        {"{},", 0, "is not a blank"},
        {"{\"a\"}", 0, "':' is expected"},
        {"{a:1}", 0, "a string is expected"},
        {"{'a':1}", 0, "a string is expected"},
        {"{\"a\":1}", 0, "'{' is expected"},
        {"{\"a\":[]}", 0, "'{' is expected"},
        {"{\"a\":{}}", 0, "it has no dtype"},
        {"{\"a\":{\"dtype\":\"U8\"}}", 0, "it has no shape"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0, "it has no data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
         "two fields 'dtype'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"x\":1}}", 4, "the field 'x'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],}}", 4, "a string is expected"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},}", 4, "a string is expected"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}", 4, "',' or '}' is expected"},
        {T("\"F31\"", "[1]", "[0,4]"), 4, "dtype 'F31' is not one of safetensors"},
        {T("\"\"", "[1]", "[0,4]"), 4, "dtype '' is not one of safetensors"},
        {T("\"C128\"", "[1]", "[0,16]"), 16, "dtype 'C128' is not one of safetensors"},
        {T("\"Q4_0\"", "[32]", "[0,18]"), 18, "dtype 'Q4_0' is not one of safetensors"},
        {T("4", "[1]", "[0,4]"), 4, "a string is expected"},
        {T("\"F32\"", "[-1]", "[0,4]"), 4, "the number is negative"},
        {T("\"F32\"", "[1.0]", "[0,4]"), 4, "the number is not an integer"},
        {T("\"F32\"", "[1e0]", "[0,4]"), 4, "the number is not an integer"},
        {T("\"F32\"", "[01]", "[0,4]"), 4, "the number begins with 0"},
        {T("\"F32\"", "[18446744073709551616]", "[0,4]"), 4, "does not fit into 64 bits"},
        {T("\"F32\"", "[9223372036854775808]", "[0,4]"), 4, "more elements than 63 bits"},
        {T("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4, "more elements than 63 bits"},
        {T("\"F32\"", "[2305843009213693952]", "[0,4]"), 4, "more bytes than 63 bits"},
        {T("\"F32\"", "[4294967296,4294967296,0]", "[0,0]"), 0, "more elements than 63 bits"},
        {T("\"F32\"", "[1,]", "[0,4]"), 4, "unsigned integer is expected"},
        {T("\"F32\"", "[1", "[0,4]"), 4, "unsigned integer is expected"},
        {T("\"F32\"", "[1}", "[0,4]"), 4, "',' or ']' is expected"},
        {T("\"F32\"", "1", "[0,4]"), 4, "'[' is expected"},
        {T("\"F32\"", "[\"1\"]", "[0,4]"), 4, "unsigned integer is expected"},
        {T("\"F32\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), 4,
         "more than 32 dimensions"},
        {T("\"F32\"", "[1]", "[0,4,8]"), 8, "',' or ']' is expected"},
        {T("\"F32\"", "[1]", "[0]"), 4, "',' is expected"},
        {T("\"F32\"", "[1]", "[4,0]"), 4, "are not a range of the file's 4 bytes"},
        {T("\"F32\"", "[1]", "[0,8]"), 4, "are not a range of the file's 4 bytes"},
        {T("\"F32\"", "[1]", "[18446744073709551612,18446744073709551615]"), 4, "are not a range"},
        {T("\"F32\"", "[1]", "[0,4]"), 5, "the tensors end at byte 4 of the data, and the file has 5"},
        {T("\"F32\"", "[1]", "[1,5]"), 5, "leaves a hole"},
        {T("\"F32\"", "[2]", "[0,4]"), 4, "needs 8 bytes of F32, and its data_offsets have 4"},
        {T("\"F4\"", "[3]", "[0,2]"), 2, "do not fill whole bytes"},
        {T("\"F6_E3M2\"", "[6]", "[0,4]"), 4, "do not fill whole bytes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
         "\"data_offsets\":[3,7]}}",
         7, "overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
         "\"data_offsets\":[0,4]}}",
         4, "overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],"
         "\"data_offsets\":[5,7]}}",
         7, "leaves a hole"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[0],"
         "\"data_offsets\":[2,2]}}",
         4, "overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"\\u0061\":{\"dtype\":\"U8\",\"shape\":["
         "2],"
         "\"data_offsets\":[2,4]}}",
         4, "two tensors have the name 'a'"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ twice"},
        {"{\"__metadata__\":{\"k\":\"1\",\"j\":\"2\",\"k\":\"1\"}}", 0, "the key 'k' twice"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "a string is expected"},
        {"{\"__metadata__\":{\"k\":{}}}", 0, "a string is expected"},
        {"{\"__metadata__\":[]}", 0, "'{' is expected"},
        {"{\"__metadata__\":{\"k\":\"\x80\"}}", 0, "not valid UTF-8"},
        {"{\"__metadata__\":{\"k\":\"\xc0\x80\"}}", 0, "not valid UTF-8"},
        {"{\"__metadata__\":{\"k\":\"\xed\xa0\x80\"}}", 0, "not valid UTF-8"},
        {"{\"__metadata__\":{\"k\":\"\xf4\x90\x80\x80\"}}", 0, "not valid UTF-8"},
        {"{\"__metadata__\":{\"k\":\"\xe2\x82\"}}", 0, "not valid UTF-8"},
        {"{\"__metadata__\":{\"k\":\"\n\"}}", 0, "control character"},
        {"{\"__metadata__\":{\"k\":\"\\u0000\"}}", 0, "\\u0000"},
        {"{\"__metadata__\":{\"k\":\"\\ud800\"}}", 0, "second half"},
        {"{\"__metadata__\":{\"k\":\"\\ud800\\u0041\"}}", 0, "second half"},
        {"{\"__metadata__\":{\"k\":\"\\udc00\"}}", 0, "without the first half"},
        {"{\"__metadata__\":{\"k\":\"\\x\"}}", 0, "unknown escape"},
        {"{\"__metadata__\":{\"k\":\"\\u12g4\"}}", 0, "four hexadecimal digits"},
        {"{\"__metadata__\":{\"k\":\"\\\"}}", 0, "a string does not end"},
        {"{\"__metadata__\":{\"k\":\"", 0, "a string does not end"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(safetensors("bad.safetensors", cases[i].header, cases[i].data), cases[i].words);
}

static void lengths_are_checked(void **state)
{
    struct content content = {0};

    (void)state;
    refused(write_file("empty", &content), "too short for every format");
    put_number(&content, 2, 4);
    refused(write_file("four", &content), "too short for every format");
    put_number(&content, 100000001, 8);
    put(&content, "{}", 2);
    refused(write_file("long", &content), "100000001 bytes; the format allows 100000000");
    put_number(&content, UINT64_MAX, 8);
    put(&content, "{}", 2);
    refused(write_file("endless", &content), "18446744073709551615 bytes; the format allows 100000000");
    put_number(&content, 3, 8);
    put(&content, "{}", 2);
    refused(write_file("short", &content), "3 bytes, and the file has 10");
    put_number(&content, 0, 8);
    refused(write_file("nothing", &content), "does not begin with '{'");
    put_number(&content, 4, 8);
    put(&content, "{}\0\0", 4);
    refused(write_file("zeros", &content), "is not a blank");
    put_number(&content, 8, 8);
    put(&content, "{\"\0\":{}}", 8);
    refused(write_file("zero name", &content), "control character");
}

static void other_files_are_refused(void **state)
{
    struct content content = {0};
    leat_model *model;

    (void)state;
    put(&content, "\x80\x02}q\x00.--------", 14);
    refused(write_file("old.pt", &content), "leat does not read pickles");
    put(&content, "PK\x03\x04----------------", 20);
    refused(write_file("model.pt", &content), "it is a zip file");
    put(&content, "GGUF\x03\0\0\0----------------", 24);
    refused(write_file("model.gguf", &content), "it is a file of GGUF");
    put(&content, "\x93NUMPY\x01\0----------------", 24);
    refused(write_file("a.npy", &content), "it is a file of numpy.save()");
    put(&content, "{\"weight_map\": {}}", 18);
    refused(write_file("index.json.txt", &content), "its name does not end in .index.json");
    refused(path_of("missing"), "No such file");
    refused(folder, "not a regular file");
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    refused(path_of("fifo"), "not a regular file");
    refused("/dev/zero", "not a regular file");
    REFUSED(leat_model_open(NULL, 1, &model), LEAT_ERROR_INVALID, "paths is NULL");
    REFUSED(leat_model_open((const char *[]){"x"}, 0, &model), LEAT_ERROR_INVALID, "count is 0");
    REFUSED(leat_model_open((const char *[]){"x"}, 1, NULL), LEAT_ERROR_INVALID, "model is NULL");
    REFUSED(leat_model_open((const char *[]){NULL}, 1, &model), LEAT_ERROR_INVALID, "path number 0 is NULL");
    OK(leat_model_close(NULL));
}

#define PART(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"

static const char *index_file(const char *text)
{
    struct content content = {0};

    put(&content, text, strlen(text));
    return write_file("model.index.json", &content);
}

static void indexes_name_files(void **state)
{
    leat_model_file_info file = LEAT_MODEL_FILE_INFO_INIT;
    const char *paths[2];
    leat_model *model;
    size_t tensors, files, index;

    (void)state;
    paths[0] = safetensors("part1", PART("a"), 4);
    paths[1] = safetensors("part2", PART("b"), 4);
    model = open_one(index_file(" {\"metadata\": {\"total_size\": 8, \"x\": [1.5e-3, -0, null, {\"y\": true}]}, "
                                "\"weight_map\": {\"b\": \"part2\", \"a\": \"part1\"}} \n"));
    OK(leat_model_count(model, &tensors, &files));
    assert_int_equal(tensors, 2);
    assert_int_equal(files, 2);
    OK(leat_model_file(model, 0, &file));
    assert_string_equal(file.path, path_of("part2"));
    OK(leat_model_find(model, "a", &index));
    assert_int_equal(index, 1);
    OK(leat_model_close(model));
    OK(leat_model_open(paths, 2, &model));
    OK(leat_model_close(model));
    paths[1] = paths[0];
    assert_int_equal(leat_model_open(paths, 2, &model), LEAT_ERROR_FILE);
    assert_non_null(strstr(leat_last_error(), "two tensors have the name 'a'"));
}

static void indexes_are_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "the index is empty"},
        {"[]", "'{' is expected"},
        {"{}", "no weight_map"},
        {"{\"weight_map\":{}}", "no weight_map"},
        {"{\"weight_map\":{\"a\":\"part1\"}} x", "goes on after"},
        {"{\"weight_map\":{\"a\":1}}", "a string is expected"},
        {"{\"weight_map\":{\"a\":\"part1\"},\"weight_map\":{\"a\":\"part1\"}}", "weight_map twice"},
        {"{\"weight_map\":{\"a\":\"part1\",\"a\":\"part1\"}}", "'a' twice"},
        {"{\"weight_map\":{\"a\":\"../part1\"}}", "must be in the index's folder"},
        {"{\"weight_map\":{\"a\":\"/part1\"}}", "must be in the index's folder"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "must be in the index's folder"},
        {"{\"weight_map\":{\"a\":\"\"}}", "must be in the index's folder"},
        {"{\"weight_map\":{\"a\":\"part3\"}}", "No such file"},
        {"{\"weight_map\":{\"c\":\"part1\"}}", "in none of the files"},
        {"{\"weight_map\":{\"a\":\"part2\",\"b\":\"part1\"}}", "and it is in"},
        {"{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
         "more than 64 levels"},
        {"{\"x\":[1,}", "a value is expected"},
        {"{\"x\":{\"y\":1,}}", "a string is expected"},
        {"{\"x\":{\"y\" 1}}", "':' is expected"},
        {"{\"x\":[1 2]}", "',' or ']' is expected"},
        {"{\"x\":nul}", "a value is expected"},
        {"{\"x\":1.}", "a digit is expected"},
        {"{\"x\":1e}", "a digit is expected"},
        {"{\"x\":-}", "a digit is expected"},
        {"{\"x\":01}", "the number begins with 0"},
        {"{\"x\":+1}", "a value is expected"},
        {"{\"x\":.5}", "a value is expected"},
    };

    (void)state;
    safetensors("part1", PART("a"), 4);
    safetensors("part2", PART("b"), 4);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(index_file(cases[i].text), cases[i].words);
}

/* ---- arguments ---- */

static void arguments_are_checked(void **state)
{
    leat_model *model = open_one(safetensors("args", PART("a"), 4));
    leat_model_tensor_info tensor = LEAT_MODEL_TENSOR_INFO_INIT;
    leat_model_file_info file = LEAT_MODEL_FILE_INFO_INIT;
    leat_model_metadata_info metadata = LEAT_MODEL_METADATA_INFO_INIT;
    size_t count;

    (void)state;
    REFUSED(leat_model_count(NULL, &count, &count), LEAT_ERROR_INVALID, "model is NULL");
    OK(leat_model_count(model, NULL, NULL));
    REFUSED(leat_model_tensor(model, 1, &tensor), LEAT_ERROR_INVALID, "index 1, and there are 1");
    REFUSED(leat_model_tensor(model, 0, NULL), LEAT_ERROR_INVALID, "an argument is NULL");
    REFUSED(leat_model_tensor(NULL, 0, &tensor), LEAT_ERROR_INVALID, "model is NULL");
    tensor.size = 0;
    REFUSED(leat_model_tensor(model, 0, &tensor), LEAT_ERROR_INVALID, "info->size is 0");
    tensor.size = sizeof tensor + 8;
    REFUSED(leat_model_tensor(model, 0, &tensor), LEAT_ERROR_INVALID, "info->size");
    /* An older program's struct ends earlier. */
    memset(&tensor, 0xee, sizeof tensor);
    tensor.size = offsetof(leat_model_tensor_info, dims);
    OK(leat_model_tensor(model, 0, &tensor));
    assert_string_equal(tensor.name, "a");
    assert_int_equal(tensor.dims, 0xeeeeeeee);
    REFUSED(leat_model_file(model, 1, &file), LEAT_ERROR_INVALID, "index 1");
    REFUSED(leat_model_metadata(model, 0, &metadata), LEAT_ERROR_INVALID, "index 0, and there are 0");
    REFUSED(leat_model_metadata_count(model, NULL), LEAT_ERROR_INVALID, "an argument is NULL");
    REFUSED(leat_model_find(model, NULL, &count), LEAT_ERROR_INVALID, "an argument is NULL");
    REFUSED(leat_model_find(model, "b", &count), LEAT_ERROR_NOT_FOUND, "no tensor 'b'");
    OK(leat_model_close(model));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_are_read),  cmocka_unit_test(safetensors_are_refused),
        cmocka_unit_test(lengths_are_checked),   cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(indexes_name_files),    cmocka_unit_test(indexes_are_refused),
        cmocka_unit_test(arguments_are_checked),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
