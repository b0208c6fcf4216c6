/* model_open.c - leat_model_open(), and the calls that describe an open model. */
#include "model_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- one file ---- */

const char leatm_pickle_advice[] =
    "leat does not read pickles, because reading one runs the program in it. Convert it once where you trust it: load it with torch.load(..., weights_only=True) and save it with safetensors.torch.save_file()";

/* The first bytes by which leat recognises formats. */
static const struct magic {
    const char *bytes;
    size_t count;
    leat_model_format format;
    const char *refused; /* why leat does not read this format; NULL: leat reads it */
} magics[] = {
    {"\x93NUMPY", 6, LEAT_MODEL_FORMAT_NPY, NULL},
    {"PK\3\4", 4, LEAT_MODEL_FORMAT_NPZ, NULL},
    {"PK\5\6", 4, LEAT_MODEL_FORMAT_NPZ, NULL}, /* a zip file without members */
    {"GGUF", 4, LEAT_MODEL_FORMAT_GGUF, NULL},
    {"\x89HDF\r\n\x1a\n", 8, 0, "an HDF5 file: convert it with safetensors.numpy.save_file()"},
    {"\x1f\x8b", 2, 0, "compressed with gzip: decompress it, since leat reads tensors in place"},
    {"\x28\xb5\x2f\xfd", 4, 0, "compressed with zstd: decompress it, since leat reads tensors in place"},
    {"lmgg", 4, 0, "an old ggml file, from before GGUF: convert it with llama.cpp's scripts"},
    {"fmgg", 4, 0, "an old ggml file, from before GGUF: convert it with llama.cpp's scripts"},
    {"tjgg", 4, 0, "an old ggml file, from before GGUF: convert it with llama.cpp's scripts"},
};

static leat_status unknown(const struct leatm_model_file *file, const unsigned char *first, size_t bytes)
{
    char found[64];
    size_t used = 0;

    if (bytes < 8)
        return leatc_fail(LEAT_ERROR_FILE, "it has %llu bytes, which is too short for every format",
                          (unsigned long long)file->bytes);
    if (first[0] == '{' || first[0] == '[')
        return leatc_fail(LEAT_ERROR_FILE, "it is JSON, but its name does not end in .index.json");
    for (unsigned i = 0; i < 8; i++)
        used += (size_t)snprintf(found + used, sizeof found - used, "%s%02x", i ? " " : "", first[i]);
    return leatc_fail(
        LEAT_ERROR_FILE,
        "it begins with %s, and is none of the formats that leat reads: safetensors, GGUF, npy and npz", found);
}

/* Recognises the format by the file's first bytes. If leat does not read it, the message has the format's name. */
static leat_status tell_format(struct leatm_model_file *file)
{
    unsigned char first[16] = {0};
    size_t bytes = file->bytes < sizeof first ? (size_t)file->bytes : sizeof first;
    uint64_t length;

    TRY(leatm_model_read_file(file, 0, first, bytes));
    length = leatm_u64(first);
    file->format = LEAT_MODEL_FORMAT_SAFETENSORS;
    /* Check for safetensors first: the length in its first 8 bytes may equal the first bytes of another format,
     * but no other format has a '{' behind them. */
    if (bytes > 8 && first[8] == '{' && length <= LEATM_HEADER_MAX)
        return LEAT_OK;
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        const struct magic *magic = &magics[i];

        if (bytes < magic->count || memcmp(first, magic->bytes, magic->count) != 0)
            continue;
        file->format = magic->format;
        if (!magic->refused)
            return LEAT_OK;
        return leatc_fail(LEAT_ERROR_FILE, "it is %s", magic->refused);
    }
    if (bytes >= 2 && first[0] == 0x80 && first[1] >= 1 && first[1] <= 5)
        return leatc_fail(LEAT_ERROR_FILE, "it is a pickle (an old file of torch.save()). %s",
                          leatm_pickle_advice);
    /* This may be a damaged safetensors file, so let its parser write the message: about the length, or about the
     * missing '{'. */
    if (bytes >= 8 && (first[8] == '{' || length <= file->bytes - 8))
        return LEAT_OK;
    return unknown(file, first, bytes);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Opens the file twice, because leat reads the tensors through file->file and the header through file->fd. Checks
 * that both are the same file: the path still names the first one when the second one is open. */
static leat_status open_both(struct leatm_model_file *file)
{
    struct stat before, after;
    int error;

    file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    error = errno;
    TRY(leat_file_open(file->path, LEAT_FILE_READ, &file->file)); /* fails with the better message */
    if (file->fd < 0)
        return leatc_fail(LEAT_ERROR_FILE, "open: %s", strerror(error));
    if (fstat(file->fd, &before) || stat(file->path, &after))
        return leatc_fail(LEAT_ERROR_FILE, "stat: %s", strerror(errno));
    TRY(leat_file_size(file->file, &file->bytes));
    if (!same_file(&before, &after) || (uint64_t)before.st_size != file->bytes)
        return leatc_fail(LEAT_ERROR_FILE, "it was replaced or written while it was opened; open it again");
    return LEAT_OK;
}

static leat_status parse_file(leat_model *model, struct leatm_model_file *file, uint32_t number)
{
    TRY(open_both(file));
    TRY(tell_format(file));
    switch (file->format) {
    case LEAT_MODEL_FORMAT_GGUF:
        return leatm_gguf_parse(model, file, number);
    case LEAT_MODEL_FORMAT_NPY:
        return leatm_npy_parse(model, file, number);
    case LEAT_MODEL_FORMAT_NPZ:
        return leatm_npz_parse(model, file, number);
    default:
        return leatm_safetensors_parse(model, file, number);
    }
}

leat_status leatm_model_open_file(leat_model *model, const char *path)
{
    struct leatm_model_file *file;
    leat_status status;

    if (model->file_count >= UINT32_MAX)
        return leatc_fail(LEAT_ERROR_FILE, "too many files");
    TRY(leatm_model_room(&model->files, &model->file_room, model->file_count, sizeof *model->files));
    file = &model->files[model->file_count];
    memset(file, 0, sizeof *file);
    file->fd = -1;
    file->path = strdup(path);
    if (!file->path)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a path");
    file->first = model->count;
    model->file_count++;
    status = parse_file(model, file, (uint32_t)(model->file_count - 1));
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = -1;
    file->count = model->count - file->first;
    return status == LEAT_OK ? status : leatc_fail_in(status, "%s", path);
}

/* ---- the set ---- */

static void destroy(leat_model *model)
{
    for (size_t i = 0; i < model->file_count; i++) {
        leat_file_close(model->files[i].file);
        free(model->files[i].path);
        free(model->files[i].text);
    }
    free(model->files);
    free(model->tensors);
    free(model->shapes);
    free(model->metadata);
    free(model->slots);
    free(model);
}

/* Shrinks the two arrays that grew while files were parsed, to free their unused ends. */
static void shrink(leat_model *model)
{
    void *less = realloc(model->tensors, model->count * sizeof *model->tensors + 1);

    if (less)
        model->tensors = less;
    less = realloc(model->shapes, model->shape_count * sizeof *model->shapes + 1);
    if (less)
        model->shapes = less;
}

static bool is_index(const char *path)
{
    static const char end[] = ".index.json";
    size_t bytes = strlen(path);

    return bytes >= sizeof end - 1 && !strcmp(path + bytes - (sizeof end - 1), end);
}

static leat_status open_all(leat_model *model, const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!paths[i])
            return leatc_fail(LEAT_ERROR_INVALID, "path number %zu is NULL", i);
        if (is_index(paths[i]))
            TRY(leatm_index_open(model, paths[i]));
        else
            TRY(leatm_model_open_file(model, paths[i]));
    }
    TRY(leatm_model_hash(model));
    shrink(model);
    return LEAT_OK;
}

leat_status leat_model_open(const char *const *paths, size_t count, leat_model **model)
{
    leat_model *made;
    leat_status status;

    if (!paths || !count || !model)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_model_open: %s",
                          !paths   ? "paths is NULL"
                          : !count ? "count is 0"
                                   : "model is NULL");
    made = calloc(1, sizeof *made);
    if (!made)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "leat_model_open: no memory for the model");
    status = open_all(made, paths, count);
    if (status != LEAT_OK) {
        status = leatc_fail_in(status, "leat_model_open");
        destroy(made);
        return status;
    }
    *model = made;
    return LEAT_OK;
}

leat_status leat_model_close(leat_model *model)
{
    if (model)
        destroy(model);
    return LEAT_OK;
}

/* ---- calls that describe a model ---- */

static leat_status check(const char *call, const void *model, const void *out)
{
    if (model && out)
        return LEAT_OK;
    return leatc_fail(LEAT_ERROR_INVALID, "%s: %s is NULL", call, model ? "an argument" : "model");
}

static leat_status check_index(const char *call, size_t index, size_t count)
{
    if (index < count)
        return LEAT_OK;
    return leatc_fail(LEAT_ERROR_INVALID, "%s: index %zu, and there are %zu", call, index, count);
}

leat_status leat_model_count(const leat_model *model, size_t *tensors, size_t *files)
{
    TRY(check("leat_model_count", model, model));
    if (tensors)
        *tensors = model->count;
    if (files)
        *files = model->file_count;
    return LEAT_OK;
}

leat_status leat_model_get_file_info(const leat_model *model, size_t index, leat_model_file_info *info)
{
    leat_model_file_info full = LEAT_MODEL_FILE_INFO_INIT;
    const struct leatm_model_file *file;

    TRY(check("leat_model_get_file_info", model, info));
    TRY(leatc_sized_check("leat_model_get_file_info: info->size", "leat_model_file_info", info, sizeof full));
    TRY(check_index("leat_model_get_file_info", index, model->file_count));
    file = &model->files[index];
    full.path = file->path;
    full.format = file->format;
    full.bytes = file->bytes;
    full.header_bytes = file->header_bytes;
    full.first_tensor = file->first;
    full.tensors = file->count;
    leatc_sized_write(info, &full, sizeof full);
    return LEAT_OK;
}

leat_status leat_model_get_tensor_info(const leat_model *model, size_t index, leat_model_tensor_info *info)
{
    leat_model_tensor_info full = LEAT_MODEL_TENSOR_INFO_INIT;
    const struct leatm_model_tensor *tensor;

    TRY(check("leat_model_get_tensor_info", model, info));
    TRY(leatc_sized_check("leat_model_get_tensor_info: info->size", "leat_model_tensor_info", info, sizeof full));
    TRY(check_index("leat_model_get_tensor_info", index, model->count));
    tensor = &model->tensors[index];
    full.name = leatm_tensor_name(model, tensor);
    full.type = leatm_model_types[tensor->type].name;
    full.block_elements = leatm_model_types[tensor->type].elements;
    full.block_bytes = leatm_model_types[tensor->type].bytes;
    full.dims = tensor->dims;
    full.shape = model->shapes + tensor->shape_at;
    full.file = tensor->file;
    full.offset = tensor->offset;
    full.bytes = tensor->bytes;
    full.fortran_order = tensor->fortran_order;
    leatc_sized_write(info, &full, sizeof full);
    return LEAT_OK;
}

leat_status leat_model_find(const leat_model *model, const char *name, size_t *index)
{
    struct leatc_shown shown;
    size_t found;

    TRY(check("leat_model_find", model, name ? (const void *)index : NULL));
    found = leatm_model_lookup(model, name);
    if (found == SIZE_MAX)
        return leatc_fail(LEAT_ERROR_NOT_FOUND, "leat_model_find: there is no tensor '%s' in %s%s",
                          leatc_shown(&shown, name, strlen(name)), model->files[0].path,
                          model->file_count > 1 ? " and the other files" : "");
    *index = found;
    return LEAT_OK;
}

leat_status leat_model_metadata_count(const leat_model *model, size_t *count)
{
    TRY(check("leat_model_metadata_count", model, count));
    *count = model->metadata_count;
    return LEAT_OK;
}

leat_status leat_model_get_metadata_info(const leat_model *model, size_t index, leat_model_metadata_info *info)
{
    leat_model_metadata_info full = LEAT_MODEL_METADATA_INFO_INIT;
    const struct leatm_model_metadata *metadata;
    const char *text;

    TRY(check("leat_model_get_metadata_info", model, info));
    TRY(leatc_sized_check("leat_model_get_metadata_info: info->size", "leat_model_metadata_info", info,
                          sizeof full));
    TRY(check_index("leat_model_get_metadata_info", index, model->metadata_count));
    metadata = &model->metadata[index];
    text = model->files[metadata->file].text;
    full.file = metadata->file;
    full.key = text + metadata->key_at;
    full.text = text + metadata->text_at;
    full.text_bytes = metadata->text_bytes;
    leatc_sized_write(info, &full, sizeof full);
    return LEAT_OK;
}
