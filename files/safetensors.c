/*
 * safetensors.c - parses the header of a safetensors file.
 *
 * The file begins with a length N (8 bytes, little-endian), then N bytes of JSON, then the data. The JSON is an
 * object with an entry for each tensor, {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}, and an entry
 * "__metadata__", an object of strings. The tensors cover the data from its first byte to its last without gaps.
 */
#include "json_scan.h"
#include "model_files.h"

#include <stdlib.h>
#include <string.h>

struct parse {
    leat_model *model;
    struct leatm_model_file *file;
    uint32_t number;
    struct leatm_json json;
    uint64_t data_bytes;
    bool metadata_seen;
};

/* Reports the error that the JSON scanner has found. */
static leat_status json_failed(const struct parse *parse)
{
    return leatc_fail(LEAT_ERROR_FILE, "the header is not valid at byte %zu: %s",
                      (size_t)(parse->json.at - parse->json.text) + 8, parse->json.wrong);
}

static leat_status tensor_failed(const struct parse *parse, const struct leatm_json_string *name)
{
    struct leatc_shown shown;

    return leatc_fail_in(LEAT_ERROR_FILE, "tensor '%s' (before byte %zu of the file)",
                         leatc_shown(&shown, name->at, name->bytes),
                         (size_t)(parse->json.at - parse->json.text) + 8);
}

/* ---- one tensor ---- */

enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4, ALL = 7 };

static leat_status parse_dtype(struct parse *parse, struct leatm_model_tensor *tensor)
{
    struct leatm_json_string text;
    struct leatc_shown shown;
    int type;

    if (!leatm_json_string(&parse->json, &text))
        return json_failed(parse);
    type = leatm_type_of_safetensors(text.at, text.bytes);
    if (type < 0)
        return leatc_fail(LEAT_ERROR_FILE, "dtype '%s' is not one of safetensors",
                          leatc_shown(&shown, text.at, text.bytes));
    tensor->type = (uint16_t)type;
    return LEAT_OK;
}

static leat_status parse_shape(struct parse *parse, struct leatm_model_tensor *tensor, uint64_t *elements)
{
    struct leatm_json *json = &parse->json;
    uint64_t size;
    unsigned dims = 0;

    *elements = 1;
    leatm_json_blanks(json);
    tensor->shape_at = (uint32_t)(json->at - parse->file->text);
    if (!leatm_json_take(json, '['))
        return json_failed(parse);
    if (!leatm_json_next(json, ']')) {
        do {
            if (!leatm_json_unsigned(json, &size))
                return json_failed(parse);
            if (++dims > LEAT_MODEL_MAX_DIMS)
                return leatc_fail(LEAT_ERROR_FILE, "its shape has more than %d dimensions", LEAT_MODEL_MAX_DIMS);
            if (size > INT64_MAX || !leatm_multiply(elements, size))
                return leatc_fail(LEAT_ERROR_FILE, "its shape has more elements than 63 bits can count");
        } while (leatm_json_next(json, ','));
        if (!leatm_json_take(json, ']'))
            return json_failed(parse);
    }
    tensor->dims = (uint8_t)dims;
    return LEAT_OK;
}

static leat_status parse_offsets(struct parse *parse, struct leatm_model_tensor *tensor)
{
    struct leatm_json *json = &parse->json;
    uint64_t begin, end;

    if (!leatm_json_take(json, '[') || !leatm_json_unsigned(json, &begin) || !leatm_json_take(json, ',') ||
        !leatm_json_unsigned(json, &end) || !leatm_json_take(json, ']'))
        return json_failed(parse);
    if (begin > end || end > parse->data_bytes)
        return leatc_fail(
            LEAT_ERROR_FILE, "data_offsets %llu to %llu are not a range of the file's %llu bytes of data",
            (unsigned long long)begin, (unsigned long long)end, (unsigned long long)parse->data_bytes);
    tensor->offset = begin;
    tensor->bytes = end - begin;
    return LEAT_OK;
}

/* Compares the lengths first, because most names differ in it. */
static bool is_text(const struct leatm_json_string *string, const char *text, size_t bytes)
{
    return string->bytes == bytes && !memcmp(string->at, text, bytes);
}

static leat_status parse_field(struct parse *parse, struct leatm_model_tensor *tensor, unsigned *seen,
                               uint64_t *elements)
{
    struct leatm_json_string key;
    struct leatc_shown shown;
    unsigned field;

    if (!leatm_json_string(&parse->json, &key))
        return json_failed(parse);
    field = is_text(&key, "dtype", 5)           ? DTYPE
            : is_text(&key, "shape", 5)         ? SHAPE
            : is_text(&key, "data_offsets", 12) ? OFFSETS
                                                : 0;
    if (!field || *seen & field)
        return leatc_fail(LEAT_ERROR_FILE, "it has %s '%s'; a tensor has dtype, shape and data_offsets",
                          field ? "two fields" : "the field", leatc_shown(&shown, key.at, key.bytes));
    *seen |= field;
    if (!leatm_json_take(&parse->json, ':'))
        return json_failed(parse);
    if (field == DTYPE)
        return parse_dtype(parse, tensor);
    return field == SHAPE ? parse_shape(parse, tensor, elements) : parse_offsets(parse, tensor);
}

static leat_status check_bytes(const struct leatm_model_tensor *tensor, uint64_t elements)
{
    const struct leatm_model_type *type = &leatm_model_types[tensor->type];
    uint64_t bytes = elements / type->elements;

    if (elements % type->elements)
        return leatc_fail(LEAT_ERROR_FILE, "%llu elements of type %s do not fill whole bytes",
                          (unsigned long long)elements, type->name);
    if (!leatm_multiply(&bytes, type->bytes))
        return leatc_fail(LEAT_ERROR_FILE, "its shape has more bytes than 63 bits can count");
    if (bytes != tensor->bytes)
        return leatc_fail(LEAT_ERROR_FILE, "its shape needs %llu bytes of %s, and its data_offsets have %llu",
                          (unsigned long long)bytes, type->name, (unsigned long long)tensor->bytes);
    return LEAT_OK;
}

static leat_status parse_fields(struct parse *parse, struct leatm_model_tensor *tensor)
{
    uint64_t elements = 1;
    unsigned seen = 0;

    if (!leatm_json_take(&parse->json, '{'))
        return json_failed(parse);
    if (!leatm_json_next(&parse->json, '}')) {
        do {
            TRY(parse_field(parse, tensor, &seen, &elements));
        } while (leatm_json_next(&parse->json, ','));
        if (!leatm_json_take(&parse->json, '}'))
            return json_failed(parse);
    }
    if (seen != ALL)
        return leatc_fail(LEAT_ERROR_FILE, "it has no %s",
                          !(seen & DTYPE)   ? "dtype"
                          : !(seen & SHAPE) ? "shape"
                                            : "data_offsets");
    return check_bytes(tensor, elements);
}

/* ---- metadata ---- */

static int compare_keys(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;

    return strcmp(*left, *right);
}

/* Refuses a key that occurs twice. */
static leat_status check_keys(const struct parse *parse, size_t first)
{
    size_t count = parse->model->metadata_count - first;
    const char **keys = malloc((count ? count : 1) * sizeof *keys);
    struct leatc_shown shown;
    leat_status status = LEAT_OK;

    if (!keys)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for %zu entries of metadata", count);
    for (size_t i = 0; i < count; i++)
        keys[i] = parse->file->text + parse->model->metadata[first + i].key_at;
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 1; i < count && status == LEAT_OK; i++)
        if (!strcmp(keys[i - 1], keys[i]))
            status = leatc_fail(LEAT_ERROR_FILE, "__metadata__ has the key '%s' twice",
                                leatc_shown(&shown, keys[i], strlen(keys[i])));
    free(keys);
    return status;
}

static leat_status parse_metadata(struct parse *parse)
{
    struct leatm_json *json = &parse->json;
    size_t first = parse->model->metadata_count;

    if (parse->metadata_seen)
        return leatc_fail(LEAT_ERROR_FILE, "the header has __metadata__ twice");
    parse->metadata_seen = true;
    if (!leatm_json_take(json, '{'))
        return json_failed(parse);
    if (leatm_json_next(json, '}'))
        return LEAT_OK;
    do {
        struct leatm_model_metadata *metadata;
        struct leatm_json_string key, value;

        if (!leatm_json_string(json, &key) || !leatm_json_take(json, ':') || !leatm_json_string(json, &value))
            return json_failed(parse);
        TRY(leatm_model_add_metadata(parse->model, &metadata));
        metadata->file = parse->number;
        metadata->key_at = (uint32_t)(key.at - parse->file->text);
        metadata->text_at = (uint32_t)(value.at - parse->file->text);
        metadata->text_bytes = (uint32_t)value.bytes;
    } while (leatm_json_next(json, ','));
    return leatm_json_take(json, '}') ? check_keys(parse, first) : json_failed(parse);
}

/* ---- the whole header ---- */

static leat_status parse_member(struct parse *parse)
{
    struct leatm_model_tensor *tensor;
    struct leatm_json_string name;
    leat_status status;

    if (!leatm_json_string(&parse->json, &name) || !leatm_json_take(&parse->json, ':'))
        return json_failed(parse);
    if (is_text(&name, "__metadata__", 12))
        return parse_metadata(parse);
    TRY(leatm_model_add_tensor(parse->model, &tensor));
    tensor->file = parse->number;
    tensor->name_at = (uint32_t)(name.at - parse->file->text);
    status = parse_fields(parse, tensor);
    return status == LEAT_ERROR_FILE ? tensor_failed(parse, &name) : status;
}

static leat_status parse_members(struct parse *parse)
{
    struct leatm_json *json = &parse->json;

    if (json->at >= json->end || *json->at != '{')
        return leatc_fail(LEAT_ERROR_FILE, "the header does not begin with '{'");
    json->at++;
    if (!leatm_json_next(json, '}')) {
        do {
            TRY(parse_member(parse));
        } while (leatm_json_next(json, ','));
        if (!leatm_json_take(json, '}'))
            return json_failed(parse);
    }
    for (; json->at < json->end; json->at++)
        if (*json->at != ' ')
            return leatc_fail(LEAT_ERROR_FILE, "byte %zu of the header is not a blank, after its last '}'",
                              (size_t)(json->at - json->text));
    return LEAT_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct leatm_model_tensor *left = a, *right = b;

    if (left->offset != right->offset)
        return left->offset < right->offset ? -1 : 1;
    if (left->bytes != right->bytes)
        return left->bytes < right->bytes ? -1 : 1;
    return left->name_at < right->name_at ? -1 : left->name_at > right->name_at;
}

/* Sorts the file's tensors by their offsets, and checks that they cover the data exactly. */
static leat_status check_cover(const struct parse *parse, struct leatm_model_tensor *tensors, size_t count)
{
    struct leatc_shown shown;
    uint64_t at = 0;
    size_t i;

    for (i = 1; i < count && compare_offsets(&tensors[i - 1], &tensors[i]) < 0; i++)
        ;
    if (i < count)
        qsort(tensors, count, sizeof *tensors, compare_offsets);
    for (i = 0; i < count; i++) {
        const char *name = parse->file->text + tensors[i].name_at;

        if (tensors[i].offset != at)
            return leatc_fail(LEAT_ERROR_FILE, "tensor '%s' begins at byte %llu of the data, and %s at %llu",
                              leatc_shown(&shown, name, strlen(name)), (unsigned long long)tensors[i].offset,
                              tensors[i].offset < at ? "overlaps the one before it, which ends"
                                                     : "leaves a hole after the one before it, which ends",
                              (unsigned long long)at);
        at += tensors[i].bytes;
    }
    if (at != parse->data_bytes)
        return leatc_fail(LEAT_ERROR_FILE, "the tensors end at byte %llu of the data, and the file has %llu",
                          (unsigned long long)at, (unsigned long long)parse->data_bytes);
    return LEAT_OK;
}

/* Adds the shapes to the model. Until then shape_at is the offset of a shape in the text, which has been checked;
 * afterwards it is the index in the model's shapes. */
static leat_status keep_shapes(const struct parse *parse, struct leatm_model_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *at = parse->file->text + tensors[i].shape_at;
        size_t first = parse->model->shape_count;

        for (unsigned d = 0; d < tensors[i].dims; d++) {
            uint64_t size = 0;

            while (*at < '0' || *at > '9')
                at++;
            for (; *at >= '0' && *at <= '9'; at++)
                size = size * 10 + (uint64_t)(*at - '0');
            TRY(leatm_model_add_shape(parse->model, size));
        }
        tensors[i].shape_at = (uint32_t)first;
    }
    return LEAT_OK;
}

leat_status leatm_safetensors_parse(leat_model *model, struct leatm_model_file *file, uint32_t number)
{
    struct parse parse = {.model = model, .file = file, .number = number};
    size_t first = model->count, count;
    uint64_t length = 0;

    TRY(leatm_model_read_text(file, 8));
    for (unsigned i = 8; i--;)
        length = length << 8 | (unsigned char)file->text[i];
    if (length > LEATM_HEADER_MAX)
        return leatc_fail(LEAT_ERROR_FILE, "its header would have %llu bytes; the format allows %u",
                          (unsigned long long)length, LEATM_HEADER_MAX);
    if (length > file->bytes - 8)
        return leatc_fail(LEAT_ERROR_FILE, "its header would have %llu bytes, and the file has %llu",
                          (unsigned long long)length, (unsigned long long)file->bytes);
    TRY(leatm_model_read_text(file, 8 + (size_t)length));
    file->header_bytes = 8 + length;
    parse.data_bytes = file->bytes - file->header_bytes;
    parse.json.text = parse.json.at = file->text + 8;
    parse.json.end = parse.json.text + length;
    TRY(parse_members(&parse));
    count = model->count - first;
    TRY(check_cover(&parse, model->tensors + first, count));
    TRY(keep_shapes(&parse, model->tensors + first, count));
    for (size_t i = first; i < model->count; i++)
        model->tensors[i].offset += file->header_bytes;
    return LEAT_OK;
}
