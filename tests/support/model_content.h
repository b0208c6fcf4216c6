/*
 * model_content.h - makes the bytes of small valid files of tensors, for the tests of leat/model.h.
 */
#ifndef TEST_MODEL_CONTENT_H
#define TEST_MODEL_CONTENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of a file under construction. */
struct content {
    unsigned char *at;
    size_t bytes, room;
};

static inline void put(struct content *content, const void *data, size_t bytes)
{
    if (content->bytes + bytes > content->room) {
        content->room = 2 * (content->bytes + bytes) + 64;
        content->at = realloc(content->at, content->room);
        if (!content->at)
            abort();
    }
    if (bytes)
        memcpy(content->at + content->bytes, data, bytes);
    content->bytes += bytes;
}

static inline void put_number(struct content *content, uint64_t value, unsigned bytes)
{
    unsigned char data[8];

    for (unsigned i = 0; i < bytes; i++)
        data[i] = (unsigned char)(value >> 8 * i);
    put(content, data, bytes);
}

/* Appends data bytes: byte i is i * 7 + 1. */
static inline void put_data(struct content *content, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        put_number(content, i * 7 + 1, 1);
}

/* ---- npy ---- */

static inline void put_npy(struct content *content, unsigned version, const char *header, size_t data_bytes)
{
    put(content, "\x93NUMPY", 6);
    put_number(content, version, 1);
    put_number(content, 0, 1);
    put_number(content, strlen(header), version == 1 ? 2 : 4);
    put(content, header, strlen(header));
    put_data(content, data_bytes);
}

/* ---- npz ---- */

/* Variants of zip files: plain, with 64-bit fields, with 32-bit sizes behind the data, with 64-bit sizes behind
 * it. */
enum { ZIP_PLAIN, ZIP_64, ZIP_STREAMED, ZIP_STREAMED_64 };

/* A zip file with two members, and the offsets of its parts. */
struct zip {
    struct content content;
    size_t local[2], data[2], after[2], central[2], end64, locator, end;
};

static inline void put_member(struct zip *zip, unsigned index, int kind, const char *name)
{
    struct content *content = &zip->content, npy = {0};
    bool streamed = kind >= ZIP_STREAMED, big = kind == ZIP_64;

    put_npy(&npy, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}\n", 12);
    zip->local[index] = content->bytes;
    put_number(content, 0x04034b50, 4);
    put_number(content, 20, 2);
    put_number(content, streamed ? 8 : 0, 2);
    put_number(content, 0, 6);
    put_number(content, streamed ? 0 : 0x1234 + index, 4);
    put_number(content, big ? UINT32_MAX : streamed ? 0 : npy.bytes, 4);
    put_number(content, big ? UINT32_MAX : streamed ? 0 : npy.bytes, 4);
    put_number(content, strlen(name), 2);
    put_number(content, big ? 28 : 0, 2);
    put(content, name, strlen(name));
    if (big) {
        put_number(content, 0x9999, 2);
        put_number(content, 4, 2);
        put_number(content, 0, 4);
        put_number(content, 1, 2);
        put_number(content, 16, 2);
        put_number(content, npy.bytes, 8);
        put_number(content, npy.bytes, 8);
    }
    zip->data[index] = content->bytes;
    put(content, npy.at, npy.bytes);
    zip->after[index] = content->bytes;
    if (streamed) {
        unsigned wide = kind == ZIP_STREAMED_64 ? 8 : 4;

        put_number(content, 0x08074b50, 4);
        put_number(content, 0x1234 + index, 4);
        put_number(content, npy.bytes, wide);
        put_number(content, npy.bytes, wide);
    }
    free(npy.at);
}

static inline void put_central(struct zip *zip, unsigned index, int kind, const char *name)
{
    struct content *content = &zip->content;
    size_t bytes = zip->after[index] - zip->data[index];
    bool big = kind == ZIP_64;

    zip->central[index] = content->bytes;
    put_number(content, 0x02014b50, 4);
    put_number(content, 20, 2);
    put_number(content, 20, 2);
    put_number(content, kind >= ZIP_STREAMED ? 8 : 0, 2);
    put_number(content, 0, 6);
    put_number(content, 0x1234 + index, 4);
    put_number(content, bytes, 4);
    put_number(content, big ? UINT32_MAX : bytes, 4);
    put_number(content, strlen(name), 2);
    put_number(content, big ? 20 : 0, 2);
    put_number(content, 3, 2);
    put_number(content, 0, 8);
    put_number(content, big ? UINT32_MAX : zip->local[index], 4);
    put(content, name, strlen(name));
    if (big) {
        put_number(content, 1, 2);
        put_number(content, 16, 2);
        put_number(content, bytes, 8);
        put_number(content, zip->local[index], 8);
    }
    put(content, "abc", 3); /* comment of the member */
}

static inline struct zip make_zip(int kind, const char *first, const char *second)
{
    struct zip zip = {0};
    size_t directory;

    put_member(&zip, 0, kind, first);
    put_member(&zip, 1, kind, second);
    directory = zip.content.bytes;
    /* The directory lists the members in reverse order. */
    put_central(&zip, 1, kind, second);
    put_central(&zip, 0, kind, first);
    zip.end64 = zip.content.bytes;
    if (kind == ZIP_64) {
        put_number(&zip.content, 0x06064b50, 4);
        put_number(&zip.content, 44, 8);
        put_number(&zip.content, 45, 2);
        put_number(&zip.content, 45, 2);
        put_number(&zip.content, 0, 8);
        put_number(&zip.content, 2, 8);
        put_number(&zip.content, 2, 8);
        put_number(&zip.content, zip.end64 - directory, 8);
        put_number(&zip.content, directory, 8);
        zip.locator = zip.content.bytes;
        put_number(&zip.content, 0x07064b50, 4);
        put_number(&zip.content, 0, 4);
        put_number(&zip.content, zip.end64, 8);
        put_number(&zip.content, 1, 4);
    }
    zip.end = zip.content.bytes;
    put_number(&zip.content, 0x06054b50, 4);
    put_number(&zip.content, 0, 4);
    put_number(&zip.content, kind == ZIP_64 ? UINT16_MAX : 2, 2);
    put_number(&zip.content, kind == ZIP_64 ? UINT16_MAX : 2, 2);
    put_number(&zip.content, zip.end64 - directory, 4);
    put_number(&zip.content, kind == ZIP_64 ? UINT32_MAX : directory, 4);
    put_number(&zip.content, 0, 2);
    return zip;
}

/* ---- GGUF ---- */

/* A GGUF file, and the offsets of its parts. */
struct gguf {
    struct content content;
    size_t pair[5], tensor[3], padding, data, end;
};

static inline void put_string(struct content *content, const char *text)
{
    put_number(content, strlen(text), 8);
    put(content, text, strlen(text));
}

static inline void put_tensor(struct content *content, const char *name, unsigned dims, const int64_t *shape,
                              uint32_t type, uint64_t offset)
{
    put_string(content, name);
    put_number(content, dims, 4);
    for (unsigned i = 0; i < dims; i++)
        put_number(content, (uint64_t)shape[i], 8);
    put_number(content, type, 4);
    put_number(content, offset, 8);
}

static inline void pad_to(struct content *content, uint32_t alignment)
{
    while (content->bytes % alignment)
        put_number(content, 0, 1);
}

/* Makes a file with five key-value pairs and three tensors: "a" has 2 rows of 3 F32, "b" 2 rows of 64 Q4_0, "c" a
 * single F64. */
static inline struct gguf make_gguf(uint32_t version, uint32_t alignment)
{
    struct gguf gguf = {0};
    struct content *content = &gguf.content;
    uint64_t after_a = (24 + alignment - 1) / alignment * alignment;

    put(content, "GGUF", 4);
    put_number(content, version, 4);
    put_number(content, 3, 8);
    put_number(content, 5, 8);
    gguf.pair[0] = content->bytes;
    put_string(content, "general.architecture");
    put_number(content, 8, 4);
    put_string(content, "test");
    gguf.pair[1] = content->bytes;
    put_string(content, "list");
    put_number(content, 9, 4);
    put_number(content, 8, 4);
    put_number(content, 2, 8);
    put_string(content, "one");
    put_string(content, "");
    gguf.pair[2] = content->bytes;
    put_string(content, "bits");
    put_number(content, 9, 4);
    put_number(content, 7, 4);
    put_number(content, 2, 8);
    put_number(content, 0x100, 2);
    gguf.pair[3] = content->bytes;
    put_string(content, "real");
    put_number(content, 12, 4);
    put_number(content, 0, 8);
    gguf.pair[4] = content->bytes;
    put_string(content, "general.alignment");
    put_number(content, 4, 4);
    put_number(content, alignment, 4);
    gguf.tensor[0] = content->bytes;
    put_tensor(content, "a", 2, (int64_t[]){3, 2}, 0, 0);
    gguf.tensor[1] = content->bytes;
    put_tensor(content, "b", 2, (int64_t[]){64, 2}, 2, after_a);
    gguf.tensor[2] = content->bytes;
    put_tensor(content, "c", 0, NULL, 28, after_a + (72 + alignment - 1) / alignment * alignment);
    gguf.padding = content->bytes;
    pad_to(content, alignment);
    gguf.data = content->bytes;
    put_data(content, 24);
    pad_to(content, alignment);
    put_data(content, 72);
    pad_to(content, alignment);
    put_data(content, 8);
    gguf.end = content->bytes;
    pad_to(content, alignment);
    return gguf;
}

#endif
