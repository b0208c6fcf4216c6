/*
 * npy.c - parses the header of an npy file, which may be a file by itself or a member of an npz file.
 *
 * The file begins with "\x93NUMPY", two bytes of version, and the length of the header: 2 bytes in version 1.0, 4
 * bytes in 2.0 and 3.0, little-endian. The header is a dictionary as Python writes one, with the keys descr (the
 * type), fortran_order and shape, and ends with a line feed. The elements follow it, without gaps.
 */
#include "model_files.h"

#include <stdlib.h>
#include <string.h>

/* The longest header that numpy.load() accepts. */
enum { NPY_HEADER_MAX = 10000 };

struct npy {
    const char *text, *at, *end; /* the header's text: its start, the next byte to parse, its end */
    unsigned major;
    int type;
    bool fortran_order;
    unsigned dims;
    uint64_t shape[LEAT_MODEL_MAX_DIMS];
    uint64_t elements;
};

static leat_status npy_failed(const struct npy *npy, const char *what)
{
    return leatc_fail(LEAT_ERROR_FILE, "the npy header is not valid at its byte %zu: %s",
                      (size_t)(npy->at - npy->text), what);
}

/* ---- Python's literals ---- */

static void skip_blanks(struct npy *npy)
{
    while (npy->at < npy->end && (*npy->at == ' ' || *npy->at == '\n' || *npy->at == '\t' || *npy->at == '\r'))
        npy->at++;
}

/* Skips blanks. If the next byte is c, skips it too and returns true. */
static bool next(struct npy *npy, char c)
{
    skip_blanks(npy);
    if (npy->at >= npy->end || *npy->at != c)
        return false;
    npy->at++;
    return true;
}

/* Parses a string in quotes. *text points into the header. */
static leat_status take_string(struct npy *npy, const char **text, size_t *bytes)
{
    char quote;

    skip_blanks(npy);
    if (npy->at >= npy->end || (*npy->at != '\'' && *npy->at != '"'))
        return npy_failed(npy, "a string is expected here");
    quote = *npy->at++;
    *text = npy->at;
    while (npy->at < npy->end && *npy->at != quote) {
        if (*npy->at == '\\' || (unsigned char)*npy->at < 0x20)
            return npy_failed(npy, "the string has a backslash or a control character");
        npy->at++;
    }
    if (npy->at >= npy->end)
        return npy_failed(npy, "a string does not end");
    *bytes = (size_t)(npy->at - *text);
    npy->at++;
    return LEAT_OK;
}

static bool is(const char *text, size_t bytes, const char *word)
{
    return bytes == strlen(word) && !memcmp(text, word, bytes);
}

/* ---- the three entries ---- */

static leat_status descr_failed(const char *text, size_t bytes)
{
    struct leatc_shown shown;
    const char *advice = "leat reads numbers with a byte order, as '<f4', and booleans";

    leatc_shown(&shown, text, bytes);
    if (bytes > 1 && text[1] == 'O')
        return leatc_fail(
            LEAT_ERROR_FILE,
            "its descr is '%s': an array of Python objects, which is a pickle. Reading one runs the program in it; save an array of numbers with numpy.save(..., allow_pickle=False)",
            shown.text);
    if (bytes > 1 && text[1] == 'V')
        return leatc_fail(
            LEAT_ERROR_FILE,
            "its descr is '%s': bytes without a type. numpy writes bfloat16 and other types of extensions so; save them with safetensors",
            shown.text);
    return leatc_fail(LEAT_ERROR_FILE, "its descr is '%s'; %s", shown.text, advice);
}

static leat_status parse_descr(struct npy *npy)
{
    const char *text = "";
    size_t bytes = 0;

    skip_blanks(npy);
    if (npy->at < npy->end && (*npy->at == '[' || *npy->at == '('))
        return leatc_fail(LEAT_ERROR_FILE,
                          "its descr is a structure of several fields; save each field as an array of its own");
    TRY(take_string(npy, &text, &bytes));
    npy->type = leatm_type_of_npy(text, bytes);
    return npy->type < 0 ? descr_failed(text, bytes) : LEAT_OK;
}

static leat_status parse_order(struct npy *npy)
{
    static const char *const words[] = {"False", "True"};

    skip_blanks(npy);
    for (unsigned i = 0; i < 2; i++) {
        size_t bytes = strlen(words[i]);

        if ((size_t)(npy->end - npy->at) > bytes && !memcmp(npy->at, words[i], bytes)) {
            npy->at += bytes;
            npy->fortran_order = i;
            return LEAT_OK;
        }
    }
    return npy_failed(npy, "True or False is expected here");
}

static leat_status parse_size(struct npy *npy)
{
    const char *first;
    uint64_t size = 0;

    skip_blanks(npy);
    first = npy->at;
    while (npy->at < npy->end && *npy->at >= '0' && *npy->at <= '9') {
        unsigned digit = (unsigned)(*npy->at++ - '0');

        if (size > ((uint64_t)INT64_MAX - digit) / 10)
            return npy_failed(npy, "the size does not fit into 63 bits");
        size = size * 10 + digit;
    }
    if (npy->at == first)
        return npy_failed(npy, "an unsigned integer is expected here");
    if (*first == '0' && npy->at - first > 1)
        return npy_failed(npy, "the number begins with 0");
    /* Python 2 wrote an L behind long integers. */
    if (npy->major < 3 && npy->at < npy->end && *npy->at == 'L')
        npy->at++;
    if (npy->dims >= LEAT_MODEL_MAX_DIMS)
        return leatc_fail(LEAT_ERROR_FILE, "its shape has more than %d dimensions", LEAT_MODEL_MAX_DIMS);
    if (!leatm_multiply(&npy->elements, size))
        return leatc_fail(LEAT_ERROR_FILE, "its shape has more elements than 63 bits can count");
    npy->shape[npy->dims++] = size;
    return LEAT_OK;
}

/* Parses a tuple: (), (1,), (1, 2) or (1, 2,). Refuses (1), which is a number in Python. */
static leat_status parse_shape(struct npy *npy)
{
    npy->elements = 1;
    npy->dims = 0;
    if (!next(npy, '('))
        return npy_failed(npy, "'(' is expected here");
    if (next(npy, ')'))
        return LEAT_OK;
    for (;;) {
        TRY(parse_size(npy));
        if (next(npy, ',')) {
            if (next(npy, ')'))
                return LEAT_OK;
        } else if (npy->dims > 1 && next(npy, ')')) {
            return LEAT_OK;
        } else {
            return npy_failed(npy, npy->dims > 1 ? "',' or ')' is expected here" : "',' is expected here");
        }
    }
}

/* ---- the dictionary ---- */

enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };

static leat_status parse_entry(struct npy *npy, unsigned *seen)
{
    struct leatc_shown shown;
    const char *key = "";
    unsigned entry;
    size_t bytes = 0;

    TRY(take_string(npy, &key, &bytes));
    entry = is(key, bytes, "descr")           ? DESCR
            : is(key, bytes, "fortran_order") ? ORDER
            : is(key, bytes, "shape")         ? SHAPE
                                              : 0;
    if (!entry || *seen & entry)
        return leatc_fail(LEAT_ERROR_FILE,
                          "the npy header has %s '%s'; it must have descr, fortran_order and shape, each once",
                          entry ? "two entries" : "the entry", leatc_shown(&shown, key, bytes));
    *seen |= entry;
    if (!next(npy, ':'))
        return npy_failed(npy, "':' is expected here");
    if (entry == DESCR)
        return parse_descr(npy);
    return entry == ORDER ? parse_order(npy) : parse_shape(npy);
}

static leat_status parse_header(struct npy *npy)
{
    unsigned seen = 0;

    if (npy->at >= npy->end || *npy->at != '{')
        return npy_failed(npy, "'{' is expected here");
    npy->at++;
    while (!next(npy, '}')) {
        TRY(parse_entry(npy, &seen));
        if (next(npy, ','))
            continue;
        if (!next(npy, '}'))
            return npy_failed(npy, "',' or '}' is expected here");
        break;
    }
    if (seen != ALL)
        return leatc_fail(LEAT_ERROR_FILE, "the npy header has no %s",
                          !(seen & DESCR)   ? "descr"
                          : !(seen & ORDER) ? "fortran_order"
                                            : "shape");
    skip_blanks(npy);
    if (npy->at < npy->end)
        return npy_failed(npy, "something follows the dictionary");
    if (npy->end[-1] != '\n')
        return npy_failed(npy, "the header does not end with a line feed");
    return LEAT_OK;
}

/* ---- the whole header ---- */

/* Reads the parts in front of the dictionary. *header receives its offset in the file, *length its length. */
static leat_status read_start(struct npy *npy, struct leatm_window *window, uint64_t start, uint64_t end,
                              uint64_t *header, uint32_t *length)
{
    const unsigned char *at;
    unsigned fixed;

    if (end - start < 10)
        return leatc_fail(LEAT_ERROR_FILE, "it has %llu bytes, which is too short for an npy file",
                          (unsigned long long)(end - start));
    TRY(leatm_window_get(window, start, 10, &at));
    if (memcmp(at, "\x93NUMPY", 6) != 0)
        return leatc_fail(LEAT_ERROR_FILE, "it is not an npy file");
    npy->major = at[6];
    if (at[6] < 1 || at[6] > 3 || at[7])
        return leatc_fail(LEAT_ERROR_FILE, "its npy version is %u.%u; leat reads 1.0, 2.0 and 3.0", at[6], at[7]);
    fixed = at[6] == 1 ? 10 : 12;
    if (end - start < fixed)
        return leatc_fail(LEAT_ERROR_FILE, "it has %llu bytes, which is too short for an npy file",
                          (unsigned long long)(end - start));
    TRY(leatm_window_get(window, start, fixed, &at));
    *length = fixed == 10 ? leatm_u16(at + 8) : leatm_u32(at + 8);
    *header = start + fixed;
    if (*length > end - *header)
        return leatc_fail(LEAT_ERROR_FILE, "its npy header would have %u bytes, and %llu are left", *length,
                          (unsigned long long)(end - *header));
    if (*length > NPY_HEADER_MAX)
        return leatc_fail(LEAT_ERROR_FILE, "its npy header has %u bytes; leat, like numpy, reads at most %d",
                          *length, NPY_HEADER_MAX);
    return LEAT_OK;
}

leat_status leatm_npy_parse_at(leat_model *model, size_t index, struct leatm_window *window, uint64_t start,
                               uint64_t end)
{
    struct npy npy = {.elements = 1};
    struct leatm_model_tensor *tensor = &model->tensors[index];
    const struct leatm_model_type *type;
    const unsigned char *at = NULL;
    uint64_t header = 0, bytes;
    uint32_t length = 0;

    TRY(read_start(&npy, window, start, end, &header, &length));
    TRY(leatm_window_get(window, header, length, &at));
    npy.text = npy.at = (const char *)at;
    npy.end = npy.text + length;
    TRY(parse_header(&npy));
    type = &leatm_model_types[npy.type];
    bytes = npy.elements;
    if (!leatm_multiply(&bytes, type->bytes))
        return leatc_fail(LEAT_ERROR_FILE, "its shape has more bytes than 63 bits can count");
    if (bytes != end - header - length)
        return leatc_fail(LEAT_ERROR_FILE, "its shape needs %llu bytes of %s, and %llu follow the npy header",
                          (unsigned long long)bytes, type->name, (unsigned long long)(end - header - length));
    tensor->type = (uint16_t)npy.type;
    tensor->dims = (uint8_t)npy.dims;
    tensor->fortran_order = npy.fortran_order && npy.dims > 1;
    tensor->offset = header + length;
    tensor->bytes = bytes;
    tensor->shape_at = (uint32_t)model->shape_count;
    for (unsigned i = 0; i < npy.dims; i++)
        TRY(leatm_model_add_shape(model, npy.shape[i]));
    return LEAT_OK;
}

/* Names the tensor after its file, without the folder and without ".npy". */
static leat_status name_by_file(struct leatm_model_file *file)
{
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    size_t bytes = strlen(name);

    if (bytes > 4 && !strcmp(name + bytes - 4, ".npy"))
        bytes -= 4;
    if (!leatm_utf8_valid(name, bytes))
        return leatc_fail(LEAT_ERROR_FILE, "the tensor would have the file's name, which is not valid UTF-8");
    file->text = malloc(bytes + 1);
    if (!file->text)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a name");
    memcpy(file->text, name, bytes);
    file->text[bytes] = '\0';
    file->text_bytes = bytes;
    file->text_room = bytes + 1;
    return LEAT_OK;
}

leat_status leatm_npy_parse(leat_model *model, struct leatm_model_file *file, uint32_t number)
{
    struct leatm_model_tensor *tensor;
    struct leatm_window window;
    leat_status status;

    TRY(name_by_file(file));
    TRY(leatm_model_add_tensor(model, &tensor));
    tensor->file = number;
    TRY(leatm_window_open(&window, file, 256));
    status = leatm_npy_parse_at(model, model->count - 1, &window, 0, file->bytes);
    leatm_window_close(&window);
    file->header_bytes = model->tensors[model->count - 1].offset;
    return status;
}
