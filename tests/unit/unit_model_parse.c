/*
 * unit_model_parse.c - tests the parsers of leat/model.h with valid files, and for each rule of a format with a
 * file that violates it.
 */
#include "harness.h"
#include "model_content.h"
#include "test_folder.h"

#include <leat/model.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

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

/* Fails unless leat refuses the file with a message that contains the words and the name of the file. */
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
    OK(leat_model_get_tensor_info(model, index, &info));
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
    /* leat sorts the tensors by their offset in the file. */
    OK(leat_model_get_tensor_info(model, 0, &info));
    assert_string_equal(info.name, "a/\"");
    OK(leat_model_get_file_info(model, 0, &file));
    assert_string_equal(file.path, path);
    assert_int_equal(file.format, LEAT_MODEL_FORMAT_SAFETENSORS);
    assert_int_equal(file.header_bytes, 8 + strlen(header));
    assert_int_equal(file.tensors, 5);
    OK(leat_model_metadata_count(model, &entries));
    assert_int_equal(entries, 2);
    OK(leat_model_get_metadata_info(model, 1, &metadata));
    assert_string_equal(metadata.key, "\xc3\xa9\n");
    assert_string_equal(metadata.text, "\xf0\x9f\x98\x80");
    assert_int_equal(metadata.text_bytes, 4);
    OK(leat_model_close(model));
    OK(leat_model_close(open_one(safetensors("none.safetensors", "{}", 0))));
    OK(leat_model_close(open_one(safetensors("only.safetensors", "{\"__metadata__\":{}}", 0))));
}

/* A safetensors header with one tensor of 4 bytes. The arguments are its three fields, of which each case replaces
 * one. */
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
    put(&content, "\x89HDF\r\n\x1a\n----------------", 24);
    refused(write_file("a.h5", &content), "it is an HDF5 file: convert it with safetensors");
    put(&content, "\x1f\x8b------", 8);
    refused(write_file("a.gz", &content), "compressed with gzip: decompress it");
    put(&content, "\x28\xb5\x2f\xfd----", 8);
    refused(write_file("a.zst", &content), "compressed with zstd: decompress it");
    put(&content, "tjgg\x01\0\0\0", 8);
    refused(write_file("old.bin", &content), "an old ggml file, from before GGUF");
    put(&content,
        "\x7f"
        "ELF\x02\x01\x01\0\0\0\0\0",
        12);
    refused(write_file("a.so", &content), "begins with 7f 45 4c 46 02 01 01 00, and is none of the formats");
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
    OK(leat_model_get_file_info(model, 0, &file));
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

/* ---- npy ---- */

static const char *npy(const char *name, unsigned version, const char *header, size_t data_bytes)
{
    struct content content = {0};

    put_npy(&content, version, header, data_bytes);
    return write_file(name, &content);
}

static void npy_files_are_read(void **state)
{
    static const struct {
        const char *descr, *type;
        unsigned bytes;
    } types[] = {
        {"|b1", "BOOL", 1},   {"|i1", "I8", 1},     {"|u1", "U8", 1},        {"<u1", "U8", 1},
        {">i1", "I8", 1},     {"<i2", "I16", 2},    {"<u2", "U16", 2},       {"<f2", "F16", 2},
        {"<i4", "I32", 4},    {"<u4", "U32", 4},    {"<f4", "F32", 4},       {"<i8", "I64", 8},
        {"<u8", "U64", 8},    {"<f8", "F64", 8},    {"<c8", "C64", 8},       {"<c16", "C128", 16},
        {">i2", "I16_BE", 2}, {">u2", "U16_BE", 2}, {">f2", "F16_BE", 2},    {">i4", "I32_BE", 4},
        {">u4", "U32_BE", 4}, {">f4", "F32_BE", 4}, {">i8", "I64_BE", 8},    {">u8", "U64_BE", 8},
        {">f8", "F64_BE", 8}, {">c8", "C64_BE", 8}, {">c16", "C128_BE", 16},
    };
    leat_model_file_info file = LEAT_MODEL_FILE_INFO_INIT;
    leat_model_tensor_info info;
    leat_model *model;
    char header[200];

    (void)state;
    for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++) {
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }  \n",
                 types[i].descr);
        model = open_one(npy("types.npy", 1 + i % 3, header, 6 * types[i].bytes));
        info = tensor_of(model, "types");
        assert_string_equal(info.type, types[i].type);
        assert_int_equal(info.block_elements, 1);
        assert_int_equal(info.block_bytes, types[i].bytes);
        assert_int_equal(info.bytes, 6 * types[i].bytes);
        assert_int_equal(info.dims, 2);
        assert_int_equal(info.shape[0], 2);
        assert_int_equal(info.shape[1], 3);
        assert_int_equal(info.fortran_order, 0);
        assert_int_equal(info.offset, strlen(header) + (i % 3 ? 12 : 10));
        OK(leat_model_get_file_info(model, 0, &file));
        assert_int_equal(file.format, LEAT_MODEL_FORMAT_NPY);
        assert_int_equal(file.header_bytes, info.offset);
        assert_int_equal(file.tensors, 1);
        OK(leat_model_close(model));
    }
    model = open_one(npy("scalar", 1, "{\"shape\":(),\"fortran_order\":True,\"descr\":\"<f8\"}\n", 8));
    info = tensor_of(model, "scalar");
    assert_int_equal(info.dims, 0);
    assert_int_equal(info.fortran_order, 0);
    OK(leat_model_close(model));
    model = open_one(npy(".npy", 2, "{'descr':'|u1',\n 'shape':(3L,),'fortran_order':True}\n", 3));
    assert_int_equal(tensor_of(model, ".npy").shape[0], 3);
    OK(leat_model_close(model));
    model = open_one(npy("f.npy", 3, "{'descr':'<f4','fortran_order':True,'shape':(2,3,)}\n", 24));
    assert_int_equal(tensor_of(model, "f").fortran_order, 1);
    OK(leat_model_close(model));
    model =
        open_one(npy("e.npy", 1, "{'descr':'<f4','fortran_order':False,'shape':(9223372036854775807,0)}\n", 0));
    assert_int_equal(tensor_of(model, "e").bytes, 0);
    OK(leat_model_close(model));
}

/* An npy header for 4 bytes of data. The arguments are its three entries, of which each case replaces one. */
#define N(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape "}\n"

static void npy_files_are_refused(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *words;
    } cases[] = {
        {"", 4, "at its byte 0: '{' is expected"},
        {" " N("'<f4'", "False", "(1,)"), 4, "'{' is expected"},
        {"[]\n", 4, "'{' is expected"},
        {"{", 4, "a string is expected"},
        {"{}\n", 4, "the npy header has no descr"},
        {"{'descr': '<f4'}\n", 4, "the npy header has no fortran_order"},
        {"{'descr': '<f4', 'fortran_order': False}\n", 4, "the npy header has no shape"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\n", 4, "two entries 'descr'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}\n", 4, "the entry 'x'"},
        {"{'descr': '<f4' 'fortran_order': False}\n", 4, "',' or '}' is expected"},
        {"{'descr' '<f4'}\n", 4, "':' is expected"},
        {"{'descr\\x00': '<f4'}\n", 4, "a backslash or a control character"},
        {"{'desc\nr': '<f4'}\n", 4, "a backslash or a control character"},
        {"{'descr: ", 4, "a string does not end"},
        {"{,}\n", 4, "a string is expected"},
        {"{'descr': '<f4',,}\n", 4, "a string is expected"},
        {N("'<f4'", "False", "(1,)") "x\n", 4, "something follows the dictionary"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} ", 4, "does not end with a line feed"},
        {N("4", "False", "(1,)"), 4, "a string is expected"},
        {N("'<f4'", "0", "(1,)"), 4, "True or False is expected"},
        {N("'<f4'", "'False'", "(1,)"), 4, "True or False is expected"},
        {N("'<f4'", "Falsehood", "(1,)"), 4, "',' or '}' is expected"},
        {"{'descr': '<f4', 'fortran_order': False", 4, "True or False is expected"},
        {N("'<f4'", "False", "1"), 4, "'(' is expected"},
        {N("'<f4'", "False", "[1]"), 4, "'(' is expected"},
        {N("'<f4'", "False", "(1)"), 4, "',' is expected"},
        {N("'<f4'", "False", "(,)"), 4, "an unsigned integer is expected"},
        {N("'<f4'", "False", "(1,,)"), 4, "an unsigned integer is expected"},
        {N("'<f4'", "False", "(-1,)"), 4, "an unsigned integer is expected"},
        {N("'<f4'", "False", "(True,)"), 4, "an unsigned integer is expected"},
        {N("'<f4'", "False", "(1.0,)"), 4, "',' is expected"},
        {N("'<f4'", "False", "(1_0,)"), 4, "',' is expected"},
        {N("'<f4'", "False", "(0x1,)"), 4, "',' is expected"},
        {N("'<f4'", "False", "(01,)"), 4, "the number begins with 0"},
        {N("'<f4'", "False", "(1, 1"), 4, "',' or ')' is expected"},
        {N("'<f4'", "False", "(9223372036854775808,)"), 4, "the size does not fit into 63 bits"},
        {N("'<f4'", "False", "(4294967296, 4294967296)"), 4, "more elements than 63 bits"},
        {N("'<f4'", "False", "(4294967296, 4294967296, 0)"), 0, "more elements than 63 bits"},
        {N("'<f4'", "False", "(2305843009213693952,)"), 4, "more bytes than 63 bits"},
        {N("'<f4'", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), 4,
         "more than 32 dimensions"},
        {N("'<f4'", "False", "(1,)"), 3, "its shape needs 4 bytes of F32, and 3 follow the npy header"},
        {N("'<f4'", "False", "(1,)"), 5, "its shape needs 4 bytes of F32, and 5 follow the npy header"},
        {N("'<f4'", "False", "()"), 0, "its shape needs 4 bytes of F32, and 0 follow the npy header"},
        {N("'|O'", "False", "(1,)"), 40, "an array of Python objects, which is a pickle"},
        {N("'<V2'", "False", "(2,)"), 4, "'<V2': bytes without a type. numpy writes bfloat16"},
        {N("'|S4'", "False", "(1,)"), 4, "descr is '|S4'; leat reads numbers with a byte order"},
        {N("'<U1'", "False", "(1,)"), 4, "descr is '<U1'; leat reads numbers"},
        {N("'<M8[ns]'", "False", "(1,)"), 8, "descr is '<M8[ns]'; leat reads numbers"},
        {N("'<f16'", "False", "(1,)"), 16, "descr is '<f16'; leat reads numbers"},
        {N("'f4'", "False", "(1,)"), 4, "descr is 'f4'; leat reads numbers"},
        {N("'=f4'", "False", "(1,)"), 4, "descr is '=f4'; leat reads numbers"},
        {N("'|f4'", "False", "(1,)"), 4, "descr is '|f4'; leat reads numbers"},
        {N("'<b1'x", "False", "(1,)"), 1, "',' or '}' is expected"},
        {N("''", "False", "(1,)"), 1, "descr is ''; leat reads numbers"},
        {N("[('a', '<f4')]", "False", "(1,)"), 4, "a structure of several fields"},
        {N("[('a', '|O')]", "False", "(1,)"), 4, "a structure of several fields"},
        {N("('<f4', (2,))", "False", "(1,)"), 4, "a structure of several fields"},
    };
    struct content content = {0};
    char *blanks = malloc(10002);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(npy("bad.npy", 1, cases[i].header, cases[i].data), cases[i].words);
    refused(npy("old.npy", 3, N("'<f4'", "False", "(1L,)"), 4), "',' is expected");
    put(&content, "\x93NUMPY\1\0\2", 9);
    refused(write_file("short.npy", &content), "too short for an npy file");
    put(&content, "\x93NUMPY\2\0\2\0", 10);
    refused(write_file("short.npy", &content), "too short for an npy file");
    put(&content, "\x93NUMPY\4\0\2\0\0\0{}", 14);
    refused(write_file("v4.npy", &content), "its npy version is 4.0; leat reads 1.0, 2.0 and 3.0");
    put(&content, "\x93NUMPY\1\1\2\0{}", 12);
    refused(write_file("v1.npy", &content), "its npy version is 1.1");
    put(&content, "\x93NUMPY\0\0\2\0{}", 12);
    refused(write_file("v0.npy", &content), "its npy version is 0.0");
    put(&content, "\x93NUMPY\1\0\3\0{}", 12);
    refused(write_file("cut.npy", &content), "its npy header would have 3 bytes, and 2 are left");
    put(&content, "\x93NUMPY\2\0\377\377\377\377{}", 14);
    refused(write_file("huge.npy", &content), "would have 4294967295 bytes, and 2 are left");
    assert_non_null(blanks);
    memset(blanks, ' ', 10001);
    blanks[10001] = '\0';
    refused(npy("long.npy", 2, blanks, 0), "has 10001 bytes; leat, like numpy, reads at most 10000");
    free(blanks);
    refused(npy("\xff.npy", 1, N("'<f4'", "False", "(1,)"), 4), "the file's name, which is not valid UTF-8");
}

/* ---- npz ---- */

static void npz_files_are_read(void **state)
{
    struct content content = {0};
    leat_model_file_info file = LEAT_MODEL_FILE_INFO_INIT;
    leat_model *model;

    (void)state;
    for (int kind = ZIP_PLAIN; kind <= ZIP_STREAMED_64; kind++) {
        struct zip zip = make_zip(kind, "layer/a.npy", ".npy");
        size_t bytes = zip.content.bytes, tensors, index;

        model = open_one(write_file("good.npz", &zip.content));
        OK(leat_model_count(model, &tensors, NULL));
        assert_int_equal(tensors, 2);
        OK(leat_model_find(model, "layer/a", &index));
        assert_int_equal(index, 0);
        assert_int_equal(tensor_of(model, "layer/a").offset, zip.after[0] - 12);
        assert_int_equal(tensor_of(model, "").offset, zip.after[1] - 12);
        assert_int_equal(tensor_of(model, "").bytes, 12);
        assert_string_equal(tensor_of(model, "").type, "F32");
        assert_int_equal(tensor_of(model, "").shape[0], 3);
        OK(leat_model_get_file_info(model, 0, &file));
        assert_int_equal(file.format, LEAT_MODEL_FORMAT_NPZ);
        assert_int_equal(file.bytes, bytes);
        assert_int_equal(file.header_bytes, bytes - 2 * 12);
        OK(leat_model_close(model));
    }
    put(&content, "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
    OK(leat_model_close(open_one(write_file("empty.npz", &content))));
}

/* Parts of a zip file. A case changes some bytes of one part. */
enum { P_LOCAL, P_DATA, P_AFTER, P_CENTRAL, P_END64, P_LOCATOR, P_END };

static void npz_files_are_refused(void **state)
{
    static const struct {
        int kind, part;
        size_t at;
        uint64_t value;
        unsigned bytes;
        const char *words;
    } cases[] = {
        {ZIP_PLAIN, P_END, 0, 0x06054b51, 4, "does not end with an end record: it was cut, or has a comment"},
        {ZIP_PLAIN, P_END, 20, 1, 2, "does not end with an end record"},
        {ZIP_PLAIN, P_END, 4, 1, 2, "one part of a zip file in several parts"},
        {ZIP_PLAIN, P_END, 6, 1, 2, "one part of a zip file in several parts"},
        {ZIP_PLAIN, P_END, 8, 1, 2, "one part of a zip file in several parts"},
        {ZIP_PLAIN, P_END, 8, 0x30003, 4, "its directory of 108 bytes would have 3 members"},
        {ZIP_PLAIN, P_END, 8, 0x10001, 4, "bytes after its 1 members"},
        {ZIP_PLAIN, P_END, 8, 0, 4, "bytes after its 0 members"},
        {ZIP_PLAIN, P_END, 8, UINT32_MAX, 4, "would have 65535 members"},
        {ZIP_PLAIN, P_END, 12, 0, 4, "its directory does not end where the end record begins"},
        {ZIP_PLAIN, P_END, 12, UINT32_MAX, 4, "its directory does not end where the end record begins"},
        {ZIP_PLAIN, P_END, 16, 0, 4, "its directory does not end where the end record begins"},
        {ZIP_PLAIN, P_END, 16, UINT32_MAX, 4, "its directory does not end where the end record begins"},
        {ZIP_64, P_LOCATOR, 0, 0, 4, "its directory does not end where the end record begins"},
        {ZIP_64, P_LOCATOR, 4, 1, 4, "its Zip64 locator does not point at the record before it"},
        {ZIP_64, P_LOCATOR, 8, 0, 8, "its Zip64 locator does not point at the record before it"},
        {ZIP_64, P_LOCATOR, 8, UINT64_MAX, 8, "its Zip64 locator does not point at the record before it"},
        {ZIP_64, P_LOCATOR, 16, 2, 4, "its Zip64 locator does not point at the record before it"},
        {ZIP_64, P_END64, 0, 0, 4, "its Zip64 end record is not valid"},
        {ZIP_64, P_END64, 4, 45, 8, "its Zip64 end record is not valid"},
        {ZIP_64, P_END64, 16, 1, 4, "one part of a zip file in several parts"},
        {ZIP_64, P_END64, 20, 1, 4, "one part of a zip file in several parts"},
        {ZIP_64, P_END64, 24, 3, 8, "one part of a zip file in several parts"},
        {ZIP_64, P_END64, 32, 3, 8, "one part of a zip file in several parts"},
        {ZIP_64, P_END64, 40, 0, 8, "its two end records disagree"},
        {ZIP_64, P_END64, 48, 0, 8, "its directory does not end where the end record begins"},
        {ZIP_64, P_END64, 48, UINT64_MAX, 8, "its directory does not end where the end record begins"},
        {ZIP_64, P_END, 10, 7, 2, "its two end records disagree"},
        {ZIP_64, P_END, 12, 7, 4, "its two end records disagree"},
        {ZIP_64, P_END, 16, 7, 4, "its two end records disagree"},
        {ZIP_PLAIN, P_CENTRAL, 0, 0, 1, "of its directory does not begin a header"},
        {ZIP_PLAIN, P_CENTRAL, 6, 64, 2, "member 'a.npy': it needs a reader of zip version 6.4"},
        {ZIP_PLAIN, P_LOCAL, 4, 820, 2, "member 'a.npy': it needs a reader of zip version 82.0"},
        {ZIP_PLAIN, P_CENTRAL, 8, 1, 2, "member 'a.npy': it is encrypted"},
        {ZIP_PLAIN, P_CENTRAL, 8, 0x20, 2, "its flags are 0x20, and leat does not know all of them"},
        {ZIP_PLAIN, P_CENTRAL, 8, 0x2000, 2, "its flags are 0x2000"},
        {ZIP_PLAIN, P_CENTRAL, 10, 8, 2, "it is deflated, and leat reads members in place: save them without"},
        {ZIP_PLAIN, P_CENTRAL, 10, 12, 2, "it is compressed by method 12"},
        {ZIP_PLAIN, P_CENTRAL, 16, 7, 4, "have different sizes or checksums"},
        {ZIP_PLAIN, P_CENTRAL, 20, 7, 4, "it is stored, and has two sizes: 7 and"},
        {ZIP_PLAIN, P_CENTRAL, 24, UINT32_MAX, 4, "it has no Zip64 field, though its sizes need one"},
        {ZIP_PLAIN, P_CENTRAL, 28, 4, 2, "with the member 'a.np'; leat reads those of numpy.savez()"},
        {ZIP_PLAIN, P_CENTRAL, 28, UINT16_MAX, 2, "of its directory does not end in it"},
        {ZIP_PLAIN, P_CENTRAL, 30, 0x10002, 4, "its extra fields do not fill their room"},
        {ZIP_PLAIN, P_CENTRAL, 32, UINT16_MAX, 2, "of its directory does not end in it"},
        {ZIP_PLAIN, P_CENTRAL, 32, 2, 2, "bytes after its 2 members"},
        {ZIP_PLAIN, P_CENTRAL, 34, 1, 2, "it is in another part of the zip file"},
        {ZIP_PLAIN, P_CENTRAL, 42, 1, 4, "1 bytes in front of its first member belong to none"},
        {ZIP_PLAIN, P_CENTRAL, 42, 5000, 4, "bytes in front of its first member belong to none"},
        {ZIP_PLAIN, P_CENTRAL, 46, 'b', 1, "its header and the directory have different names"},
        {ZIP_PLAIN, P_CENTRAL, 46, 0, 1, "its name is not valid UTF-8, or has a 0 byte"},
        {ZIP_PLAIN, P_CENTRAL, 46, 0xff, 1, "its name is not valid UTF-8, or has a 0 byte"},
        {ZIP_PLAIN, P_CENTRAL, 46, 0xa9c3, 2, "with the member '??npy'"},
        {ZIP_64, P_CENTRAL, 42, 0, 4, "its Zip64 field does not have the numbers that it should"},
        {ZIP_64, P_CENTRAL, 51, 0x7075, 2, "an extra field gives it a second name"},
        {ZIP_64, P_CENTRAL, 51, 2, 2, "it has no Zip64 field"},
        {ZIP_64, P_CENTRAL, 53, 15, 2, "its Zip64 field does not have the numbers"},
        {ZIP_64, P_CENTRAL, 53, 17, 2, "an extra field is longer than the room for it"},
        {ZIP_64, P_CENTRAL, 55, 7, 8, "it is stored, and has two sizes"},
        {ZIP_64, P_CENTRAL, 63, UINT64_MAX, 8, "bytes in front of its first member belong to none"},
        {ZIP_64, P_CENTRAL + 16, 63, UINT64_MAX, 8, "what follows it begins at 18446744073709551615"},
        {ZIP_PLAIN, P_LOCAL, 4, 9, 2, NULL},
        {ZIP_PLAIN, P_LOCAL + 16, 0, 9, 1, "where no header begins"},
        {ZIP_PLAIN, P_LOCAL, 6, 2, 2, "its header and the directory disagree"},
        {ZIP_PLAIN, P_LOCAL, 8, 8, 2, "its header and the directory disagree"},
        {ZIP_PLAIN, P_LOCAL, 14, 8, 4, "have different sizes or checksums"},
        {ZIP_PLAIN, P_LOCAL, 18, 8, 4, "have different sizes or checksums"},
        {ZIP_PLAIN, P_LOCAL, 22, 8, 4, "have different sizes or checksums"},
        {ZIP_PLAIN, P_LOCAL, 22, UINT32_MAX, 4, "it has no Zip64 field"},
        {ZIP_PLAIN, P_LOCAL, 26, 6, 2, "its header and the directory disagree"},
        {ZIP_PLAIN, P_LOCAL, 28, 4, 2, "an extra field is longer than the room for it"},
        {ZIP_PLAIN, P_LOCAL, 28, UINT16_MAX, 2, "the file ends at"},
        {ZIP_PLAIN, P_LOCAL, 30, 'c', 1, "its header and the directory have different names"},
        {ZIP_64, P_LOCAL, 18, 7, 4, "its Zip64 field does not have the numbers"},
        {ZIP_64, P_LOCAL, 35, 1, 2, "its Zip64 field does not have the numbers"},
        {ZIP_64, P_LOCAL, 47, 7, 8, "have different sizes or checksums"},
        {ZIP_STREAMED, P_LOCAL, 22, 1, 4, "have different sizes or checksums"},
        {ZIP_STREAMED, P_AFTER, 0, 1, 4, "its data descriptor is not valid"},
        {ZIP_STREAMED, P_AFTER, 4, 1, 4, "its data descriptor and the directory disagree"},
        {ZIP_STREAMED_64, P_AFTER, 8, 1, 8, "its data descriptor and the directory disagree"},
        {ZIP_STREAMED_64, P_AFTER, 16, 1, 8, "its data descriptor and the directory disagree"},
        {ZIP_PLAIN, P_DATA, 0, 'x', 1, "member 'a.npy': it is not an npy file"},
        {ZIP_PLAIN, P_DATA, 6, 9, 1, "its npy version is 9.0"},
        {ZIP_PLAIN, P_DATA, 8, 1, 1, "a string is expected"},
        {ZIP_PLAIN, P_DATA, 8, 55, 1, "the header does not end with a line feed"},
        {ZIP_PLAIN, P_DATA, 8, 200, 1, "its npy header would have 200 bytes, and 68 are left"},
        {ZIP_PLAIN, P_DATA, 22, 'O', 1, "an array of Python objects, which is a pickle"},
        {ZIP_PLAIN, P_DATA, 61, '4', 1, "its shape needs 16 bytes of F32, and 12 follow"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zip zip = make_zip(cases[i].kind, "a.npy", "b.npy");
        unsigned member = cases[i].part >= 16;
        size_t parts[] = {zip.local[member], zip.data[member], zip.after[member], zip.central[member], zip.end64,
                          zip.locator,       zip.end};
        size_t at = parts[cases[i].part % 16] + cases[i].at;
        const char *path;

        for (unsigned j = 0; j < cases[i].bytes; j++)
            zip.content.at[at + j] = (unsigned char)(cases[i].value >> 8 * j);
        path = write_file("bad.npz", &zip.content);
        if (cases[i].words)
            refused(path, cases[i].words);
        else
            OK(leat_model_close(open_one(path)));
    }
}

/* Tests errors that take more than one changed number. */
static void npz_members_are_checked(void **state)
{
    struct content content = {0};
    struct zip zip = make_zip(ZIP_PLAIN, "a.npy", "a.npy");

    (void)state;
    refused(write_file("twice.npz", &zip.content), "two tensors have the name 'a'");
    zip = make_zip(ZIP_PLAIN, "archive/data.pkl", "archive/data/0");
    refused(write_file("model.pt", &zip.content), "with the member 'archive/data/0'; leat reads");
    zip = make_zip(ZIP_PLAIN, "archive/version", "archive/data.pkl");
    refused(write_file("model.pt", &zip.content), "with the pickle 'archive/data.pkl', as torch.save() writes it");
    zip = make_zip(ZIP_PLAIN, "\xc3\xa9.npy", "b.npy");
    refused(write_file("ascii.npz", &zip.content), "its name is not ASCII, and no flag says that it is UTF-8");
    zip = make_zip(ZIP_PLAIN, "\xc3\xa9.npy", "b.npy");
    zip.content.at[zip.local[0] + 7] = zip.content.at[zip.central[0] + 9] = 8;
    OK(leat_model_close(open_one(write_file("utf8.npz", &zip.content))));
    /* Both headers of member 0 state that it is shorter, or longer, than it is. */
    for (unsigned longer = 0; longer < 2; longer++) {
        zip = make_zip(ZIP_PLAIN, "a.npy", "b.npy");
        for (unsigned i = 0; i < 4; i++) {
            unsigned char *size = zip.content.at + (i % 2 ? zip.local[0] + 18 : zip.central[0] + 20) + i / 2 * 4;

            *size = (unsigned char)(*size + (longer ? 1 : 255));
        }
        refused(write_file("sizes.npz", &zip.content),
                longer ? "and what follows it begins at" : "it ends at byte");
    }
    /* Two entries of the directory refer to the same member. */
    zip = make_zip(ZIP_PLAIN, "a.npy", "b.npy");
    memcpy(zip.content.at + zip.central[1] + 42, zip.content.at + zip.central[0] + 42, 4);
    refused(write_file("same.npz", &zip.content), "member '");
    /* A flag announces a data descriptor after the member, but no descriptor follows. */
    zip = make_zip(ZIP_PLAIN, "a.npy", "b.npy");
    zip.content.at[zip.local[0] + 6] = zip.content.at[zip.central[0] + 8] = 8;
    refused(write_file("descriptor.npz", &zip.content), "0 bytes follow it, which are no data descriptor");
    put(&content, "PK\3\4----------------", 20);
    refused(write_file("short.npz", &content), "too short for a zip file");
    put(&content, "PK\3\4----------------------------------------", 44);
    refused(write_file("cut.npz", &content), "does not end with an end record");
    put(&content, "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 21);
    refused(write_file("short.npz", &content), "too short for a zip file");
}

/* ---- GGUF ---- */

static void gguf_files_are_read(void **state)
{
    static const struct {
        uint32_t version, alignment;
    } files[] = {{2, 32}, {3, 32}, {3, 8}, {3, 4096}, {3, 1 << 20}};
    leat_model_file_info file = LEAT_MODEL_FILE_INFO_INIT;
    leat_model_tensor_info info;
    struct gguf gguf;
    struct content content = {0};
    leat_model *model;
    size_t entries;

    (void)state;
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        gguf = make_gguf(files[i].version, files[i].alignment);
        model = open_one(write_file("good.gguf", &gguf.content));
        OK(leat_model_get_file_info(model, 0, &file));
        assert_int_equal(file.format, LEAT_MODEL_FORMAT_GGUF);
        assert_int_equal(file.header_bytes, gguf.data);
        assert_int_equal(file.tensors, 3);
        info = tensor_of(model, "a");
        assert_string_equal(info.type, "F32");
        assert_int_equal(info.dims, 2);
        assert_int_equal(info.shape[0], 2);
        assert_int_equal(info.shape[1], 3);
        assert_int_equal(info.offset, gguf.data);
        assert_int_equal(info.bytes, 24);
        assert_int_equal(info.fortran_order, 0);
        info = tensor_of(model, "b");
        assert_string_equal(info.type, "Q4_0");
        assert_int_equal(info.block_elements, 32);
        assert_int_equal(info.block_bytes, 18);
        assert_int_equal(info.shape[1], 64);
        assert_int_equal(info.bytes, 72);
        assert_int_equal(info.offset % files[i].alignment, 0);
        info = tensor_of(model, "c");
        assert_int_equal(info.dims, 0);
        assert_int_equal(info.offset + 8, gguf.end);
        OK(leat_model_metadata_count(model, &entries));
        assert_int_equal(entries, 0);
        OK(leat_model_close(model));
    }
    /* The padding after the last tensor may be missing. */
    gguf = make_gguf(3, 32);
    gguf.content.bytes = gguf.end;
    OK(leat_model_close(open_one(write_file("short.gguf", &gguf.content))));
    /* Files without tensors, and a file with 123 tensors: the number 123 looks like the '{' of a safetensors
     * file. */
    put(&content, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    OK(leat_model_close(open_one(write_file("none.gguf", &content))));
    put(&content, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32);
    OK(leat_model_close(open_one(write_file("none.gguf", &content))));
    put(&content, "GGUF\3\0\0\0{\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    for (unsigned i = 0; i < 123; i++) {
        char name[8];

        snprintf(name, sizeof name, "%u", i);
        put_tensor(&content, name, 1, (int64_t[]){i == 7 ? 0 : 1}, 24, 32 * (i > 7 ? i - 1 : i));
    }
    pad_to(&content, 32);
    put_data(&content, 32 * 122);
    model = open_one(write_file("many.gguf", &content));
    assert_int_equal(tensor_of(model, "7").bytes, 0);
    assert_int_equal(tensor_of(model, "122").bytes, 1);
    OK(leat_model_close(model));
}

/* Tests each type as the only tensor of a file. Two blocks must have the number of bytes that ggml states. */
static void ggml_types_are_known(void **state)
{
    static const struct {
        unsigned number, elements, bytes;
        const char *name;
    } types[] = {
        {0, 1, 4, "F32"},         {1, 1, 2, "F16"},         {2, 32, 18, "Q4_0"},      {3, 32, 20, "Q4_1"},
        {6, 32, 22, "Q5_0"},      {7, 32, 24, "Q5_1"},      {8, 32, 34, "Q8_0"},      {9, 32, 36, "Q8_1"},
        {10, 256, 84, "Q2_K"},    {11, 256, 110, "Q3_K"},   {12, 256, 144, "Q4_K"},   {13, 256, 176, "Q5_K"},
        {14, 256, 210, "Q6_K"},   {15, 256, 292, "Q8_K"},   {16, 256, 66, "IQ2_XXS"}, {17, 256, 74, "IQ2_XS"},
        {18, 256, 98, "IQ3_XXS"}, {19, 256, 50, "IQ1_S"},   {20, 32, 18, "IQ4_NL"},   {21, 256, 110, "IQ3_S"},
        {22, 256, 82, "IQ2_S"},   {23, 256, 136, "IQ4_XS"}, {24, 1, 1, "I8"},         {25, 1, 2, "I16"},
        {26, 1, 4, "I32"},        {27, 1, 8, "I64"},        {28, 1, 8, "F64"},        {29, 256, 56, "IQ1_M"},
        {30, 1, 2, "BF16"},       {34, 256, 54, "TQ1_0"},   {35, 256, 66, "TQ2_0"},   {39, 32, 17, "MXFP4"},
        {40, 64, 36, "NVFP4"},    {41, 128, 18, "Q1_0"},    {42, 64, 18, "Q2_0"},
    };

    (void)state;
    for (unsigned number = 0, at = 0; number < 50; number++) {
        struct content content = {0};
        leat_model_tensor_info info;
        leat_model *model;
        const char *path;
        bool known = at < sizeof types / sizeof types[0] && types[at].number == number;

        put(&content, "GGUF\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
        put_tensor(&content, "x", 1, (int64_t[]){known ? 2 * types[at].elements : 256}, number, 0);
        pad_to(&content, 32);
        put_data(&content, known ? 2 * types[at].bytes : 64);
        path = write_file("type.gguf", &content);
        if (!known) {
            char words[60];

            snprintf(words, sizeof words, "tensor 'x': its type is %u", number);
            refused(path, words);
            refused(path, number >= 43 ? "which leat does not know" : "which ggml has removed");
            continue;
        }
        model = open_one(path);
        info = tensor_of(model, "x");
        assert_string_equal(info.type, types[at].name);
        assert_int_equal(info.block_elements, types[at].elements);
        assert_int_equal(info.block_bytes, types[at].bytes);
        assert_int_equal(info.bytes, 2 * types[at].bytes);
        OK(leat_model_close(model));
        at++;
    }
}

/* Parts of a GGUF file. A case changes some bytes of one part. */
enum { G_START, G_PAIR, G_TENSOR = G_PAIR + 5, G_PADDING = G_TENSOR + 3, G_END };

static void gguf_files_are_refused(void **state)
{
    static const struct {
        int part;
        size_t at;
        uint64_t value;
        unsigned bytes;
        const char *words;
    } cases[] = {
        {G_START, 4, 0, 4, "its GGUF version is 0; leat reads 2 and 3"},
        {G_START, 4, 1, 4, "its GGUF version is 1; leat reads 2 and 3"},
        {G_START, 4, 4, 4, "its GGUF version is 4; leat reads 2 and 3"},
        {G_START, 4, 0x03000000, 4, "it is a big-endian GGUF file"},
        {G_START, 8, UINT64_MAX, 8, "it would have 18446744073709551615 tensors and 5 key-values"},
        {G_START, 8, 1000, 8, "it would have 1000 tensors and 5 key-values, and has"},
        {G_START, 8, 4, 8, "tensor number 3: its name has 0 bytes"},
        {G_START, 8, 2, 8, "the padding behind its header is not zero"},
        {G_START, 16, UINT64_MAX, 8, "3 tensors and 18446744073709551615 key-values"},
        {G_START, 16, (uint64_t)1 << 63, 8, "3 tensors and 9223372036854775808 key-values"},
        {G_START, 16, 6, 8, "tensor number 0: its name has 562949953421312 bytes"},
        {G_START, 16, 4, 8, "tensor 'general.alignment': its shape has more elements than 63 bits can count"},
        {G_PAIR, 0, 0, 8, "key-value 0: its key has 0 bytes; it must have 1 to 65535"},
        {G_PAIR, 0, 65536, 8, "key-value 0: its key has 65536 bytes"},
        {G_PAIR, 0, UINT64_MAX, 8, "key-value 0: its key has 18446744073709551615 bytes"},
        {G_PAIR, 0, 60000, 8, "key-value 0: the file ends at"},
        {G_PAIR, 8, 0, 1, "byte 0 of its key is 0x00; a key is ASCII text"},
        {G_PAIR, 9, 0xc3, 1, "byte 1 of its key is 0xc3; a key is ASCII text"},
        {G_PAIR, 9, '\n', 1, "byte 1 of its key is 0x0a; a key is ASCII text"},
        {G_PAIR, 28, 13, 4, "key 'general.architecture': its type is 13, which GGUF does not have"},
        {G_PAIR, 28, UINT32_MAX, 4, "its type is 4294967295, which GGUF does not have"},
        {G_PAIR, 32, UINT64_MAX, 8, "key 'general.architecture': the file ends at"},
        {G_PAIR, 32, (uint64_t)1 << 40, 8, "key 'general.architecture': the file ends at"},
        {G_PAIR + 1, 8, 0x73746962, 4, "it has the key 'bits' twice"},
        {G_PAIR + 1, 16, 9, 4, "it is an array of arrays, which leat, like ggml, does not read"},
        {G_PAIR + 1, 16, 13, 4, "it is an array of type 13"},
        {G_PAIR + 1, 20, UINT64_MAX, 8, "key 'list': it would have 18446744073709551615 values"},
        {G_PAIR + 1, 20, (uint64_t)1 << 61, 8, "key 'list': it would have 2305843009213693952 values"},
        {G_PAIR + 1, 20, 1000, 8, "key 'list': it would have 1000 values"},
        {G_PAIR + 1, 28, UINT64_MAX, 8, "key 'list': the file ends at"},
        {G_PAIR + 2, 28, 2, 1, "key 'bits': a boolean is 2"},
        {G_PAIR + 2, 29, 255, 1, "key 'bits': a boolean is 255"},
        {G_PAIR + 3, 12, 7, 4, "key-value 4: its key has"},
        {G_PAIR + 4, 25, 5, 4, "key 'general.alignment': its type is 5; it must be a UINT32, which is type 4"},
        {G_PAIR + 4, 29, 0, 4, "it is 0; it must be a power of two from 8 to 1048576"},
        {G_PAIR + 4, 29, 4, 4, "it is 4; it must be a power of two"},
        {G_PAIR + 4, 29, 24, 4, "it is 24; it must be a power of two"},
        {G_PAIR + 4, 29, 1 << 21, 4, "it is 2097152; it must be a power of two"},
        {G_PAIR + 4, 29, UINT32_MAX, 4, "it is 4294967295; it must be a power of two"},
        {G_PAIR + 4, 29, 16, 4, "tensor 'c': its offset is 128, and the tensors before it end at 112"},
        {G_PAIR + 4, 29, 64, 4, "tensor 'b': its offset is 32, and the tensors before it end at 64"},
        {G_TENSOR, 0, 0, 8, "tensor number 0: its name has 0 bytes; it must have 1 to 64"},
        {G_TENSOR, 0, 65, 8, "tensor number 0: its name has 65 bytes"},
        {G_TENSOR, 0, UINT64_MAX, 8, "its name has 18446744073709551615 bytes"},
        {G_TENSOR, 8, 0, 1, "its name is not valid UTF-8, or has a 0 byte"},
        {G_TENSOR, 8, 0x80, 1, "its name is not valid UTF-8, or has a 0 byte"},
        {G_TENSOR, 8, 'b', 1, "two tensors have the name 'b'"},
        {G_TENSOR, 9, 5, 4, "tensor 'a': it has 5 dimensions; GGUF allows 4"},
        {G_TENSOR, 9, UINT32_MAX, 4, "it has 4294967295 dimensions; GGUF allows 4"},
        {G_TENSOR, 13, UINT64_MAX, 8, "dimension 0 has the size 18446744073709551615, which does not fit"},
        {G_TENSOR, 13, (uint64_t)1 << 63, 8, "dimension 0 has the size 9223372036854775808"},
        {G_TENSOR, 13, (uint64_t)1 << 62, 8, "its shape has more elements than 63 bits can count"},
        {G_TENSOR, 13, (uint64_t)1 << 61, 8, "its shape has more bytes than 63 bits can count"},
        {G_TENSOR, 13, (uint64_t)1 << 59, 8, "tensor 'b': its offset is 32, and the tensors before it end at"},
        {G_TENSOR, 13, 0, 8, "tensor 'b': its offset is 32, and the tensors before it end at 0"},
        {G_TENSOR, 29, 4, 4, "its type is 4 (Q4_2), which ggml has removed"},
        {G_TENSOR, 29, 36, 4, "its type is 36 (IQ4_NL_4_4), which ggml has removed"},
        {G_TENSOR, 29, 43, 4, "its type is 43, which leat does not know"},
        {G_TENSOR, 29, UINT32_MAX, 4, "its type is 4294967295, which leat does not know"},
        {G_TENSOR, 29, 2, 4, "its rows have 3 elements, and blocks of Q4_0 have 32"},
        {G_TENSOR, 33, 32, 8, "tensor 'a': its offset is 32, and the tensors before it end at 0"},
        {G_TENSOR + 1, 13, 65, 8, "its rows have 65 elements, and blocks of Q4_0 have 32"},
        {G_TENSOR + 1, 33, 0, 8, "tensor 'b': its offset is 0, and the tensors before it end at 32"},
        {G_TENSOR + 1, 33, 33, 8, "tensor 'b': its offset is 33"},
        {G_TENSOR + 1, 33, UINT64_MAX, 8, "tensor 'b': its offset is 18446744073709551615"},
        {G_TENSOR + 2, 13, 2, 4, "tensor 'c': its rows have 1 elements, and blocks of Q4_0 have 32"},
        {G_TENSOR + 2, 13, 24, 4, NULL},
        {G_PADDING, 0, 1, 1, "the padding behind its header is not zero"},
    };
    struct gguf gguf;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t at = cases[i].at;
        const char *path;

        gguf = make_gguf(3, 32);
        at += cases[i].part >= G_PADDING  ? gguf.padding
              : cases[i].part >= G_TENSOR ? gguf.tensor[cases[i].part - G_TENSOR]
              : cases[i].part >= G_PAIR   ? gguf.pair[cases[i].part - G_PAIR]
                                          : 0;
        for (unsigned j = 0; j < cases[i].bytes; j++)
            gguf.content.at[at + j] = (unsigned char)(cases[i].value >> 8 * j);
        path = write_file("bad.gguf", &gguf.content);
        if (cases[i].words)
            refused(path, cases[i].words);
        else
            OK(leat_model_close(open_one(path)));
    }
    /* Truncate the file at each byte. */
    gguf = make_gguf(3, 64);
    for (size_t bytes = 0; bytes < gguf.end; bytes++) {
        struct content content = {0};

        put(&content, gguf.content.at, bytes);
        refused(write_file("cut.gguf", &content), "");
    }
    put_number(&gguf.content, 0, 1);
    refused(write_file("long.gguf", &gguf.content),
            "57 bytes follow its last tensor, and padding to its alignment of 64 needs 56");
    put(&gguf.content, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 33);
    refused(write_file("long.gguf", &gguf.content), "1 bytes follow its last tensor");
    put(&gguf.content, "GGUF\3\0\0\0", 8);
    refused(write_file("short.gguf", &gguf.content), "the file ends at 8, and 8 bytes at 8 were expected");
}

/* ---- arguments ---- */

static void arguments_are_checked(void **state)
{
    leat_model *model = open_one(safetensors("args", PART("a"), 4));
    struct {
        leat_model_tensor_info tensor;
        uint64_t newer;
    } longer = {.newer = 1};
    leat_model_tensor_info tensor = LEAT_MODEL_TENSOR_INFO_INIT;
    leat_model_file_info file = LEAT_MODEL_FILE_INFO_INIT;
    leat_model_metadata_info metadata = LEAT_MODEL_METADATA_INFO_INIT;
    size_t count;

    (void)state;
    REFUSED(leat_model_count(NULL, &count, &count), LEAT_ERROR_INVALID, "model is NULL");
    OK(leat_model_count(model, NULL, NULL));
    REFUSED(leat_model_get_tensor_info(model, 1, &tensor), LEAT_ERROR_INVALID, "index 1, and there are 1");
    REFUSED(leat_model_get_tensor_info(model, 0, NULL), LEAT_ERROR_INVALID, "an argument is NULL");
    REFUSED(leat_model_get_tensor_info(NULL, 0, &tensor), LEAT_ERROR_INVALID, "model is NULL");
    tensor.size = 0;
    REFUSED(leat_model_get_tensor_info(model, 0, &tensor), LEAT_ERROR_INVALID, "info->size is 0");
    tensor.size = 5000;
    REFUSED(leat_model_get_tensor_info(model, 0, &tensor), LEAT_ERROR_INVALID, "LEAT_MODEL_TENSOR_INFO_INIT");
    /* A newer program passes a longer struct. The call must work unless the program uses a field that this library
     * does not know. */
    longer.tensor.size = sizeof longer;
    REFUSED(leat_model_get_tensor_info(model, 0, &longer.tensor), LEAT_ERROR_INVALID, "info->size");
    longer.newer = 0;
    OK(leat_model_get_tensor_info(model, 0, &longer.tensor));
    assert_string_equal(longer.tensor.name, "a");
    assert_int_equal(longer.tensor.size, sizeof longer);
    assert_int_equal(longer.newer, 0);
    /* A program that was built with an older header passes a shorter struct. leat must not write past its size. */
    memset(&tensor, 0xee, sizeof tensor);
    tensor.size = offsetof(leat_model_tensor_info, dims);
    OK(leat_model_get_tensor_info(model, 0, &tensor));
    assert_string_equal(tensor.name, "a");
    assert_int_equal(tensor.dims, 0xeeeeeeee);
    REFUSED(leat_model_get_file_info(model, 1, &file), LEAT_ERROR_INVALID, "index 1");
    REFUSED(leat_model_get_metadata_info(model, 0, &metadata), LEAT_ERROR_INVALID, "index 0, and there are 0");
    REFUSED(leat_model_metadata_count(model, NULL), LEAT_ERROR_INVALID, "an argument is NULL");
    REFUSED(leat_model_find(model, NULL, &count), LEAT_ERROR_INVALID, "an argument is NULL");
    REFUSED(leat_model_find(model, "b", &count), LEAT_ERROR_NOT_FOUND, "no tensor 'b'");
    OK(leat_model_close(model));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_are_read),    cmocka_unit_test(safetensors_are_refused),
        cmocka_unit_test(lengths_are_checked),     cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(indexes_name_files),      cmocka_unit_test(indexes_are_refused),
        cmocka_unit_test(npy_files_are_read),      cmocka_unit_test(npy_files_are_refused),
        cmocka_unit_test(npz_files_are_read),      cmocka_unit_test(npz_files_are_refused),
        cmocka_unit_test(npz_members_are_checked), cmocka_unit_test(gguf_files_are_read),
        cmocka_unit_test(ggml_types_are_known),    cmocka_unit_test(gguf_files_are_refused),
        cmocka_unit_test(arguments_are_checked),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;
}
