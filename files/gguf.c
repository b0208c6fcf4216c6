/*
 * gguf.c - the header of a GGUF file, versions 2 and 3, little-endian.
 *
 * The file has these parts: "GGUF", the version, the numbers of tensors and of key-values, the key-values, the
 * descriptions of the tensors, padding to the alignment, then the data. The header has no length field, and
 * vocabularies make it long, so leat reads it through a window and keeps only the names. leat reads the
 * descriptions twice: first to check and count them, then to store them in memory of exactly that size.
 */
#include "model_files.h"

#include <stdlib.h>
#include <string.h>

/* Limits from the specification of GGUF, or from ggml's reader where the specification sets none. */
enum { KEY_MAX = 65535, NAME_MAX_BYTES = 64, DIMS_MAX = 4, ALIGNMENT_DEFAULT = 32, ALIGNMENT_MAX = 1 << 20 };
enum { TYPE_BOOL = 7, TYPE_STRING = 8, TYPE_ARRAY = 9, TYPE_U32 = 4, TYPES = 13 };

/* The size of a value in bytes, by type; 0 for strings and arrays, which have no fixed size. */
static const uint8_t value_bytes[TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* The least number of bytes that describe a key-value (a key of one letter) and a tensor (no dimensions). */
enum { KEY_VALUE_MIN = 8 + 1 + 4 + 1, TENSOR_MIN = 8 + 1 + 4 + 4 + 8 };

struct gguf {
    leat_model *model;
    struct leatm_model_file *file;
    uint32_t number;
    struct leatm_window window;
    uint64_t at; /* offset of the next byte to read */
    uint64_t tensors, pairs;
    uint64_t alignment;
    /* All keys so far, to find duplicates: their text, and the offset of each key in it. */
    char *keys;
    size_t key_bytes, key_room;
    uint32_t *key_at;
    size_t key_count, key_at_room;
    /* Totals that the first reading of the descriptions counts: bytes of names, and dimensions. */
    uint64_t name_bytes, dims;
};

/* ---- reading ---- */

static uint64_t left(const struct gguf *gguf)
{
    return gguf->file->bytes - gguf->at;
}

/* Skips bytes bytes of the file. */
static leat_status skip(struct gguf *gguf, uint64_t bytes)
{
    if (bytes > left(gguf))
        return leatc_fail(LEAT_ERROR_FILE, "the file ends at %llu, and %llu bytes at %llu were expected",
                          (unsigned long long)gguf->file->bytes, (unsigned long long)bytes,
                          (unsigned long long)gguf->at);
    gguf->at += bytes;
    if (gguf->at > LEATM_HEADER_MAX)
        return leatc_fail(LEAT_ERROR_FILE, "its header is longer than %u bytes", LEATM_HEADER_MAX);
    return LEAT_OK;
}

static leat_status take(struct gguf *gguf, size_t bytes, const unsigned char **at)
{
    uint64_t from = gguf->at;

    TRY(skip(gguf, bytes));
    return leatm_window_get(&gguf->window, from, bytes, at);
}

static leat_status take_32(struct gguf *gguf, uint32_t *value)
{
    const unsigned char *at;

    TRY(take(gguf, 4, &at));
    *value = leatm_u32(at);
    return LEAT_OK;
}

static leat_status take_64(struct gguf *gguf, uint64_t *value)
{
    const unsigned char *at;

    TRY(take(gguf, 8, &at));
    *value = leatm_u64(at);
    return LEAT_OK;
}

/* ---- key-values ---- */

static leat_status skip_string(struct gguf *gguf)
{
    uint64_t bytes = 0;

    TRY(take_64(gguf, &bytes));
    return skip(gguf, bytes);
}

/* Checks and skips count consecutive values of one type. */
static leat_status skip_values(struct gguf *gguf, uint32_t type, uint64_t count)
{
    const unsigned char *at;
    uint64_t least = type == TYPE_STRING ? 8 : value_bytes[type];

    if (count > left(gguf) / least)
        return leatc_fail(LEAT_ERROR_FILE, "it would have %llu values, and the file has %llu more bytes",
                          (unsigned long long)count, (unsigned long long)left(gguf));
    if (type != TYPE_STRING && type != TYPE_BOOL)
        return skip(gguf, count * least);
    for (uint64_t i = 0; i < count; i++) {
        if (type == TYPE_STRING) {
            TRY(skip_string(gguf));
            continue;
        }
        TRY(take(gguf, 1, &at));
        if (*at > 1)
            return leatc_fail(LEAT_ERROR_FILE, "a boolean is %u", *at);
    }
    return LEAT_OK;
}

static leat_status take_alignment(struct gguf *gguf, uint32_t type)
{
    uint32_t value = 0;

    if (type != TYPE_U32)
        return leatc_fail(LEAT_ERROR_FILE, "its type is %u; it must be a UINT32, which is type %d", type,
                          TYPE_U32);
    TRY(take_32(gguf, &value));
    if (value < 8 || value > ALIGNMENT_MAX || value & (value - 1))
        return leatc_fail(LEAT_ERROR_FILE, "it is %u; it must be a power of two from 8 to %d", value,
                          ALIGNMENT_MAX);
    gguf->alignment = value;
    return LEAT_OK;
}

static leat_status skip_value(struct gguf *gguf, const char *key)
{
    uint32_t type = 0, of = 0;
    uint64_t count = 0;

    TRY(take_32(gguf, &type));
    if (!strcmp(key, "general.alignment"))
        return take_alignment(gguf, type);
    if (type >= TYPES)
        return leatc_fail(LEAT_ERROR_FILE, "its type is %u, which GGUF does not have", type);
    if (type != TYPE_ARRAY)
        return skip_values(gguf, type, 1);
    TRY(take_32(gguf, &of));
    TRY(take_64(gguf, &count));
    if (of >= TYPES)
        return leatc_fail(LEAT_ERROR_FILE, "it is an array of type %u, which GGUF does not have", of);
    if (of == TYPE_ARRAY)
        return leatc_fail(LEAT_ERROR_FILE, "it is an array of arrays, which leat, like ggml, does not read");
    return skip_values(gguf, of, count);
}

/* Reads a key, checks it, and appends it to gguf->keys. *key receives its address there. */
static leat_status take_key(struct gguf *gguf, const char **key)
{
    const unsigned char *at;
    uint64_t bytes = 0;
    char *grown;

    TRY(take_64(gguf, &bytes));
    if (!bytes || bytes > KEY_MAX)
        return leatc_fail(LEAT_ERROR_FILE, "its key has %llu bytes; it must have 1 to %d",
                          (unsigned long long)bytes, KEY_MAX);
    TRY(take(gguf, (size_t)bytes, &at));
    for (size_t i = 0; i < bytes; i++)
        if (at[i] < 0x20 || at[i] >= 0x7f)
            return leatc_fail(LEAT_ERROR_FILE, "byte %zu of its key is 0x%02x; a key is ASCII text", i, at[i]);
    if (gguf->key_room - gguf->key_bytes < bytes + 1) {
        size_t room = gguf->key_room + gguf->key_room / 2 + (size_t)bytes + 1;

        grown = realloc(gguf->keys, room);
        if (!grown)
            return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for its keys");
        gguf->keys = grown;
        gguf->key_room = room;
    }
    TRY(leatm_model_room(&gguf->key_at, &gguf->key_at_room, gguf->key_count, sizeof *gguf->key_at));
    gguf->key_at[gguf->key_count++] = (uint32_t)gguf->key_bytes;
    *key = gguf->keys + gguf->key_bytes;
    memcpy(gguf->keys + gguf->key_bytes, at, (size_t)bytes);
    gguf->keys[gguf->key_bytes + bytes] = '\0';
    gguf->key_bytes += (size_t)bytes + 1;
    return LEAT_OK;
}

static int compare_keys(const void *a, const void *b, void *keys)
{
    return strcmp((const char *)keys + *(const uint32_t *)a, (const char *)keys + *(const uint32_t *)b);
}

static leat_status check_keys(const struct gguf *gguf)
{
    struct leatc_shown shown;

    if (gguf->key_count > 1)
        qsort_r(gguf->key_at, gguf->key_count, sizeof *gguf->key_at, compare_keys, gguf->keys);
    for (size_t i = 1; i < gguf->key_count; i++) {
        const char *key = gguf->keys + gguf->key_at[i];

        if (!strcmp(gguf->keys + gguf->key_at[i - 1], key))
            return leatc_fail(LEAT_ERROR_FILE, "it has the key '%s' twice", leatc_shown(&shown, key, strlen(key)));
    }
    return LEAT_OK;
}

static void free_keys(struct gguf *gguf)
{
    free(gguf->keys);
    free(gguf->key_at);
    gguf->keys = NULL;
    gguf->key_at = NULL;
}

static leat_status read_pairs(struct gguf *gguf)
{
    struct leatc_shown shown;

    gguf->alignment = ALIGNMENT_DEFAULT;
    for (uint64_t i = 0; i < gguf->pairs; i++) {
        const char *key = "";
        leat_status status = take_key(gguf, &key);

        if (status != LEAT_OK)
            return leatc_fail_in(status, "key-value %llu", (unsigned long long)i);
        status = skip_value(gguf, key);
        if (status != LEAT_OK)
            return leatc_fail_in(status, "key '%s'", leatc_shown(&shown, key, strlen(key)));
    }
    return check_keys(gguf);
}

/* ---- descriptions of tensors ---- */

/* One description. */
struct described {
    char name[NAME_MAX_BYTES + 1];
    size_t name_bytes;
    uint32_t dims;
    uint64_t shape[DIMS_MAX]; /* the fastest dimension first, as in the file */
    int type;
    uint64_t bytes, offset;
};

static leat_status take_name(struct gguf *gguf, struct described *described)
{
    const unsigned char *at;
    uint64_t bytes = 0;

    TRY(take_64(gguf, &bytes));
    if (!bytes || bytes > NAME_MAX_BYTES)
        return leatc_fail(LEAT_ERROR_FILE, "its name has %llu bytes; it must have 1 to %d",
                          (unsigned long long)bytes, NAME_MAX_BYTES);
    TRY(take(gguf, (size_t)bytes, &at));
    if (!leatm_utf8_valid((const char *)at, (size_t)bytes))
        return leatc_fail(LEAT_ERROR_FILE, "its name is not valid UTF-8, or has a 0 byte");
    memcpy(described->name, at, (size_t)bytes);
    described->name[bytes] = '\0';
    described->name_bytes = (size_t)bytes;
    return LEAT_OK;
}

static leat_status take_shape(struct gguf *gguf, struct described *described, uint64_t *elements)
{
    *elements = 1;
    TRY(take_32(gguf, &described->dims));
    if (described->dims > DIMS_MAX)
        return leatc_fail(LEAT_ERROR_FILE, "it has %u dimensions; GGUF allows %d", described->dims, DIMS_MAX);
    for (uint32_t i = 0; i < described->dims; i++) {
        TRY(take_64(gguf, &described->shape[i]));
        if (described->shape[i] > INT64_MAX)
            return leatc_fail(LEAT_ERROR_FILE, "dimension %u has the size %llu, which does not fit into 63 bits",
                              i, (unsigned long long)described->shape[i]);
        if (!leatm_multiply(elements, described->shape[i]))
            return leatc_fail(LEAT_ERROR_FILE, "its shape has more elements than 63 bits can count");
    }
    return LEAT_OK;
}

static leat_status take_type(struct gguf *gguf, struct described *described, uint64_t elements)
{
    const struct leatm_model_type *type;
    const char *removed;
    uint64_t row = described->dims ? described->shape[0] : 1;
    uint32_t number = 0;

    TRY(take_32(gguf, &number));
    described->type = leatm_type_of_ggml(number, &removed);
    if (described->type < 0 && removed)
        return leatc_fail(LEAT_ERROR_FILE, "its type is %u (%s), which ggml has removed", number, removed);
    if (described->type < 0)
        return leatc_fail(LEAT_ERROR_FILE, "its type is %u, which leat does not know", number);
    type = &leatm_model_types[described->type];
    if (row % type->elements)
        return leatc_fail(LEAT_ERROR_FILE, "its rows have %llu elements, and blocks of %s have %u",
                          (unsigned long long)row, type->name, type->elements);
    described->bytes = elements / type->elements;
    if (!leatm_multiply(&described->bytes, type->bytes))
        return leatc_fail(LEAT_ERROR_FILE, "its shape has more bytes than 63 bits can count");
    return LEAT_OK;
}

/* Reads and checks one description. *next: the offset in the file's data where this tensor's data must begin; the
 * call advances it to the end of this tensor's data, with padding. */
static leat_status take_tensor(struct gguf *gguf, struct described *described, uint64_t *next)
{
    uint64_t elements = 1, padded;

    TRY(take_shape(gguf, described, &elements));
    TRY(take_type(gguf, described, elements));
    TRY(take_64(gguf, &described->offset));
    if (described->offset != *next)
        return leatc_fail(LEAT_ERROR_FILE, "its offset is %llu, and the tensors before it end at %llu",
                          (unsigned long long)described->offset, (unsigned long long)*next);
    padded = (described->bytes + gguf->alignment - 1) / gguf->alignment * gguf->alignment;
    if (padded > (uint64_t)INT64_MAX - *next)
        return leatc_fail(LEAT_ERROR_FILE, "the tensors have more bytes than 63 bits can count");
    *next += padded;
    return LEAT_OK;
}

/* Adds a tensor to the model. make_room() has already allocated memory for it. */
static leat_status keep(struct gguf *gguf, const struct described *described, uint64_t data)
{
    struct leatm_model_file *file = gguf->file;
    struct leatm_model_tensor *tensor;

    if (file->text_room - file->text_bytes < described->name_bytes + 1)
        return leatc_fail(LEAT_ERROR_FILE, "it was written while it was read");
    TRY(leatm_model_add_tensor(gguf->model, &tensor));
    tensor->file = gguf->number;
    tensor->name_at = (uint32_t)file->text_bytes;
    memcpy(file->text + file->text_bytes, described->name, described->name_bytes + 1);
    file->text_bytes += described->name_bytes + 1;
    tensor->type = (uint16_t)described->type;
    tensor->dims = (uint8_t)described->dims;
    tensor->offset = data + described->offset;
    tensor->bytes = described->bytes;
    tensor->shape_at = (uint32_t)gguf->model->shape_count;
    for (uint32_t i = described->dims; i--;)
        TRY(leatm_model_add_shape(gguf->model, described->shape[i]));
    return LEAT_OK;
}

/* Reads all descriptions. data: the offset of the data in the file, to store the tensors in the model; 0: only
 * check and count them. *end receives the end of the last tensor, relative to the data. */
static leat_status read_tensors(struct gguf *gguf, uint64_t data, uint64_t *end)
{
    struct leatc_shown shown;
    uint64_t next = 0;

    *end = 0;
    for (uint64_t i = 0; i < gguf->tensors; i++) {
        struct described described;
        leat_status status = take_name(gguf, &described);

        if (status != LEAT_OK)
            return leatc_fail_in(status, "tensor number %llu", (unsigned long long)i);
        status = take_tensor(gguf, &described, &next);
        if (status == LEAT_OK && data)
            status = keep(gguf, &described, data);
        if (status != LEAT_OK)
            return leatc_fail_in(status, "tensor '%s'", leatc_shown(&shown, described.name, described.name_bytes));
        gguf->name_bytes += described.name_bytes + 1;
        gguf->dims += described.dims;
        *end = described.offset + described.bytes;
    }
    return LEAT_OK;
}

/* Makes room for the tensors that the first reading has counted. */
static leat_status make_room(struct gguf *gguf)
{
    struct leatm_model_file *file = gguf->file;

    file->text = malloc((size_t)gguf->name_bytes + 1);
    if (!file->text)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the names of %llu tensors",
                          (unsigned long long)gguf->tensors);
    file->text_room = (size_t)gguf->name_bytes + 1;
    return leatm_model_reserve(gguf->model, (size_t)gguf->tensors, (size_t)gguf->dims);
}

/* ---- the whole header ---- */

static leat_status read_start(struct gguf *gguf)
{
    uint32_t version = 0;

    TRY(skip(gguf, 4));
    TRY(take_32(gguf, &version));
    if (version && !(version & 0xffff))
        return leatc_fail(
            LEAT_ERROR_FILE,
            "it is a big-endian GGUF file, which leat does not read: convert it with gguf-convert-endian of the package gguf");
    if (version != 2 && version != 3)
        return leatc_fail(LEAT_ERROR_FILE, "its GGUF version is %u; leat reads 2 and 3", version);
    TRY(take_64(gguf, &gguf->tensors));
    TRY(take_64(gguf, &gguf->pairs));
    if (gguf->tensors > left(gguf) / TENSOR_MIN || gguf->pairs > left(gguf) / KEY_VALUE_MIN)
        return leatc_fail(
            LEAT_ERROR_FILE, "it would have %llu tensors and %llu key-values, and has %llu more bytes",
            (unsigned long long)gguf->tensors, (unsigned long long)gguf->pairs, (unsigned long long)left(gguf));
    if (gguf->pairs > LEATM_METADATA_MAX)
        return leatc_fail(LEAT_ERROR_FILE, "it has %llu key-values; leat reads at most %u",
                          (unsigned long long)gguf->pairs, LEATM_METADATA_MAX);
    return LEAT_OK;
}

/* Checks the padding behind the header, and that the file's data is as long as the tensors need. */
static leat_status check_data(struct gguf *gguf, uint64_t end, uint64_t *data)
{
    uint64_t padding = (gguf->alignment - gguf->at % gguf->alignment) % gguf->alignment;
    const unsigned char *at;

    /* A file without tensors may end before the padding does. */
    if (!gguf->tensors && padding > left(gguf))
        padding = left(gguf);
    if (padding > left(gguf))
        return leatc_fail(LEAT_ERROR_FILE, "the file ends at %llu, within the padding behind its header",
                          (unsigned long long)gguf->file->bytes);
    for (uint64_t some; padding; padding -= some) {
        some = padding < LEATM_WINDOW_BYTES ? padding : LEATM_WINDOW_BYTES;
        TRY(leatm_window_get(&gguf->window, gguf->at, (size_t)some, &at));
        gguf->at += some;
        for (size_t i = 0; i < some; i++)
            if (at[i])
                return leatc_fail(LEAT_ERROR_FILE, "the padding behind its header is not zero");
    }
    if (end > left(gguf))
        return leatc_fail(LEAT_ERROR_FILE,
                          "its tensors have %llu bytes, and only %llu follow the header: it was cut",
                          (unsigned long long)end, (unsigned long long)left(gguf));
    padding = (gguf->alignment - end % gguf->alignment) % gguf->alignment;
    if (left(gguf) - end > padding)
        return leatc_fail(LEAT_ERROR_FILE,
                          "%llu bytes follow its last tensor, and padding to its alignment of %llu needs %llu",
                          (unsigned long long)(left(gguf) - end), (unsigned long long)gguf->alignment,
                          (unsigned long long)padding);
    gguf->file->header_bytes = gguf->at;
    *data = gguf->at;
    return LEAT_OK;
}

static leat_status read_gguf(struct gguf *gguf)
{
    uint64_t infos, end = 0, again = 0, data = 0;

    TRY(read_start(gguf));
    TRY(read_pairs(gguf));
    free_keys(gguf);
    infos = gguf->at;
    TRY(read_tensors(gguf, 0, &end));
    TRY(check_data(gguf, end, &data));
    TRY(make_room(gguf));
    gguf->at = infos;
    TRY(read_tensors(gguf, data, &again));
    return again == end ? LEAT_OK : leatc_fail(LEAT_ERROR_FILE, "it was written while it was read");
}

leat_status leatm_gguf_parse(leat_model *model, struct leatm_model_file *file, uint32_t number)
{
    struct gguf gguf = {.model = model, .file = file, .number = number};
    leat_status status;

    TRY(leatm_window_open(&gguf.window, file, LEATM_WINDOW_BYTES));
    status = read_gguf(&gguf);
    leatm_window_close(&gguf.window);
    free_keys(&gguf);
    return status;
}
