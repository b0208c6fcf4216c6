/*
 * model_write.c - writes the headers of safetensors and npy files.
 *
 * safetensors.c describes the header of safetensors. The header of npy 1.0 is "\x93NUMPY", the bytes 1 and 0, the
 * length of the text that follows (2 bytes, little-endian), and the text: a Python dictionary, spaces, and a line
 * break. The spaces make the header a multiple of 64 bytes long.
 */
#include "model_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_ALIGN = 8, NPY_ALIGN = 64, NPY_PREFIX = 10 };

/* ---- text that grows ---- */

static leat_status add(struct leatm_header *header, const void *text, size_t bytes)
{
    while (header->room - header->bytes < bytes) {
        size_t room = header->room ? 2 * header->room : 4096;
        char *grown = realloc(header->text, room);

        if (!grown)
            return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a header of %zu bytes", room);
        header->text = grown;
        header->room = room;
    }
    memcpy(header->text + header->bytes, text, bytes);
    header->bytes += bytes;
    return LEAT_OK;
}

static leat_status add_text(struct leatm_header *header, const char *text)
{
    return add(header, text, strlen(text));
}

static leat_status add_number(struct leatm_header *header, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, number);
    return add_text(header, text);
}

/* Adds spaces until header->bytes + more is a multiple of align. */
static leat_status pad(struct leatm_header *header, size_t more, size_t align)
{
    while ((header->bytes + more) % align)
        TRY(add(header, " ", 1));
    return LEAT_OK;
}

/* Adds the sizes of a shape, with a separator between them. */
static leat_status add_shape(struct leatm_header *header, const leat_model_save_item *item, const char *separator)
{
    for (uint32_t i = 0; i < item->dims; i++) {
        if (i)
            TRY(add_text(header, separator));
        TRY(add_number(header, (uint64_t)item->shape[i]));
    }
    return LEAT_OK;
}

/* ---- safetensors ---- */

/* Adds a text as a JSON string. The text is valid UTF-8. */
static leat_status add_string(struct leatm_header *header, const char *text)
{
    char escape[8];

    TRY(add_text(header, "\""));
    while (*text) {
        size_t plain = 0;

        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\')
            plain++;
        TRY(add(header, text, plain));
        text += plain;
        if (!*text)
            break;
        if (*text == '"' || *text == '\\')
            snprintf(escape, sizeof escape, "\\%c", *text);
        else
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*text);
        TRY(add_text(header, escape));
        text++;
    }
    return add_text(header, "\"");
}

static leat_status add_metadata(struct leatm_header *header, const leat_model_entry *entries, size_t count)
{
    TRY(add_text(header, "\"__metadata__\":{"));
    for (size_t i = 0; i < count; i++) {
        if (i)
            TRY(add_text(header, ","));
        TRY(add_string(header, entries[i].key));
        TRY(add_text(header, ":"));
        TRY(add_string(header, entries[i].text));
    }
    return add_text(header, "}");
}

static leat_status add_tensor(struct leatm_header *header, const leat_model_save_item *item, uint64_t offset,
                              uint64_t bytes)
{
    TRY(add_string(header, item->name));
    TRY(add_text(header, ":{\"dtype\":"));
    TRY(add_string(header, item->type));
    TRY(add_text(header, ",\"shape\":["));
    TRY(add_shape(header, item, ","));
    TRY(add_text(header, "],\"data_offsets\":["));
    TRY(add_number(header, offset));
    TRY(add_text(header, ","));
    TRY(add_number(header, offset + bytes));
    return add_text(header, "]}");
}

leat_status leatm_safetensors_header(const leat_model_save_item *items, const uint64_t *bytes, size_t count,
                                     const leat_model_entry *metadata, size_t metadata_count,
                                     struct leatm_header *header)
{
    uint64_t offset = 0, length;

    TRY(add(header, "\0\0\0\0\0\0\0\0{", 9));
    if (metadata_count)
        TRY(add_metadata(header, metadata, metadata_count));
    for (size_t i = 0; i < count; i++) {
        if (i || metadata_count)
            TRY(add_text(header, ","));
        TRY(add_tensor(header, &items[i], offset, bytes[i]));
        offset += bytes[i];
        if (header->bytes > (size_t)LEATM_HEADER_MAX)
            break;
    }
    TRY(add_text(header, "}"));
    TRY(pad(header, 0, DATA_ALIGN));
    length = header->bytes - 8;
    if (length > LEATM_HEADER_MAX)
        return leatc_fail(
            LEAT_ERROR_RANGE,
            "the header of %zu tensors would have more than the %u bytes that the format allows; save them as several files",
            count, LEATM_HEADER_MAX);
    for (unsigned i = 0; i < 8; i++)
        header->text[i] = (char)(unsigned char)(length >> 8 * i);
    return LEAT_OK;
}

/* ---- npy ---- */

/* Returns NumPy's name of a type, or NULL if NumPy does not have the type. */
static const char *npy_type(const char *type)
{
    static const char *const names[][2] = {{"BOOL", "|b1"}, {"U8", "|u1"},  {"I8", "|i1"},  {"I16", "<i2"},
                                           {"U16", "<u2"},  {"F16", "<f2"}, {"I32", "<i4"}, {"U32", "<u4"},
                                           {"F32", "<f4"},  {"I64", "<i8"}, {"U64", "<u8"}, {"F64", "<f8"},
                                           {"C64", "<c8"}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(type, names[i][0]))
            return names[i][1];
    return NULL;
}

leat_status leatm_npy_header(const leat_model_save_item *item, struct leatm_header *header)
{
    const char *type = npy_type(item->type);
    size_t length;

    if (!type)
        return leatc_fail(LEAT_ERROR_UNSUPPORTED, "npy has no type %s; save it as *.safetensors", item->type);
    TRY(add(header, "\x93NUMPY\1\0\0\0", NPY_PREFIX));
    TRY(add_text(header, "{'descr': '"));
    TRY(add_text(header, type));
    TRY(add_text(header, "', 'fortran_order': False, 'shape': ("));
    TRY(add_shape(header, item, ", "));
    TRY(add_text(header, item->dims == 1 ? ",), }" : "), }"));
    TRY(pad(header, 1, NPY_ALIGN));
    TRY(add_text(header, "\n"));
    length = header->bytes - NPY_PREFIX; /* fits into 2 bytes: 32 sizes of 19 digits need less than 1000 */
    header->text[8] = (char)(unsigned char)length;
    header->text[9] = (char)(unsigned char)(length >> 8);
    return LEAT_OK;
}
