/*
 * safetensors_index.c - parses the index of a model in several safetensors files (*.index.json).
 *
 * The index is {"metadata": {...}, "weight_map": {"tensor": "file in the same folder", ...}}. leat opens the files
 * that the map names. Each tensor of the map must be in its file. The model also has the files' other tensors.
 */
#include "json_scan.h"
#include "model_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One entry of the map: the offsets of the tensor's name and the file's name in the text. */
struct mapped {
    uint32_t tensor_at;
    uint32_t file_at;
};

struct index {
    const char *path;
    char *text;
    size_t bytes;
    struct mapped *map;
    size_t count, room;
    /* Open-addressing hash table of file names. A file is represented by the first entry that names it. */
    uint32_t *slots; /* index of an entry + 1, or 0 */
    size_t slot_mask;
    size_t first_file; /* index in the model of the first file of this safetensors index */
    size_t *file_of;   /* for an entry that represents a file: the file's index in the model */
};

static leat_status json_failed(const struct leatm_json *json)
{
    return leatc_fail(LEAT_ERROR_FILE, "the index is not valid at byte %zu: %s", (size_t)(json->at - json->text),
                      json->wrong);
}

/* ---- reading ---- */

static leat_status read_open(int fd, char **text, size_t *bytes)
{
    struct leatm_model_file file = {.fd = fd};
    struct stat what;

    if (fstat(fd, &what))
        return leatc_fail(LEAT_ERROR_FILE, "fstat: %s", strerror(errno));
    if (!S_ISREG(what.st_mode))
        return leatc_fail(LEAT_ERROR_FILE, "it is not a regular file");
    file.bytes = (uint64_t)what.st_size;
    if (file.bytes > LEATM_HEADER_MAX)
        return leatc_fail(LEAT_ERROR_FILE, "the index has %llu bytes; leat reads at most %u",
                          (unsigned long long)file.bytes, LEATM_HEADER_MAX);
    if (!file.bytes)
        return leatc_fail(LEAT_ERROR_FILE, "the index is empty");
    leat_status status = leatm_model_read_text(&file, (size_t)file.bytes);
    if (status != LEAT_OK) {
        free(file.text);
        return status;
    }
    *text = file.text;
    *bytes = file.text_bytes;
    return LEAT_OK;
}

leat_status leatm_model_read_whole(const char *path, char **text, size_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    leat_status status;

    if (fd < 0)
        return leatc_fail(LEAT_ERROR_FILE, "open: %s", strerror(errno));
    status = read_open(fd, text, bytes);
    (void)close(fd);
    return status;
}

/* ---- parsing ---- */

/* Refuses a name that could lead out of the index's folder, because an index must not reach other files of the
 * user. */
static leat_status check_file_name(const struct leatm_json_string *name)
{
    struct leatc_shown shown;

    if (name->bytes && !strchr(name->at, '/') && strcmp(name->at, ".") != 0 && strcmp(name->at, "..") != 0)
        return LEAT_OK;
    return leatc_fail(LEAT_ERROR_FILE, "weight_map names the file '%s'; it must be in the index's folder",
                      leatc_shown(&shown, name->at, name->bytes));
}

static leat_status parse_map(struct index *index, struct leatm_json *json)
{
    struct leatm_json_string tensor, file;

    if (!leatm_json_take(json, '{'))
        return json_failed(json);
    if (leatm_json_next(json, '}'))
        return LEAT_OK;
    do {
        if (!leatm_json_string(json, &tensor) || !leatm_json_take(json, ':') || !leatm_json_string(json, &file))
            return json_failed(json);
        TRY(check_file_name(&file));
        TRY(leatm_model_room(&index->map, &index->room, index->count, sizeof *index->map));
        index->map[index->count++] =
            (struct mapped){(uint32_t)(tensor.at - index->text), (uint32_t)(file.at - index->text)};
    } while (leatm_json_next(json, ','));
    return leatm_json_take(json, '}') ? LEAT_OK : json_failed(json);
}

static leat_status parse(struct index *index)
{
    struct leatm_json json = {.text = index->text, .at = index->text, .end = index->text + index->bytes};
    struct leatm_json_string key;
    bool map = false, metadata = false;

    if (!leatm_json_take(&json, '{'))
        return json_failed(&json);
    if (!leatm_json_next(&json, '}')) {
        do {
            bool *seen;

            if (!leatm_json_string(&json, &key) || !leatm_json_take(&json, ':'))
                return json_failed(&json);
            seen = !strcmp(key.at, "weight_map") ? &map : !strcmp(key.at, "metadata") ? &metadata : NULL;
            if (seen && *seen)
                return leatc_fail(LEAT_ERROR_FILE, "the index has %s twice", key.at);
            if (seen)
                *seen = true;
            if (seen == &map)
                TRY(parse_map(index, &json));
            else if (!leatm_json_skip(&json))
                return json_failed(&json);
        } while (leatm_json_next(&json, ','));
        if (!leatm_json_take(&json, '}'))
            return json_failed(&json);
    }
    leatm_json_blanks(&json);
    if (json.at < json.end)
        return leatc_fail(LEAT_ERROR_FILE, "the index goes on after its last '}'");
    if (!map || !index->count)
        return leatc_fail(LEAT_ERROR_FILE, "the index has no weight_map, or an empty one");
    return LEAT_OK;
}

/* ---- files ---- */

/* Returns the slot of the file that entry names, or if there is none, the free slot for it. */
static size_t slot_of(const struct index *index, const struct mapped *entry)
{
    const char *name = index->text + entry->file_at;
    size_t slot = leatm_hash_text(name, strlen(name)) & index->slot_mask;

    while (index->slots[slot] && strcmp(index->text + index->map[index->slots[slot] - 1].file_at, name) != 0)
        slot = (slot + 1) & index->slot_mask;
    return slot;
}

static leat_status open_named(leat_model *model, struct index *index)
{
    const char *slash = strrchr(index->path, '/');
    int folder = slash ? (int)(slash + 1 - index->path) : 0;

    index->first_file = model->file_count;
    for (size_t i = 0; i < index->count; i++) {
        size_t slot = slot_of(index, &index->map[i]);
        char path[4096];
        int length;

        if (index->slots[slot])
            continue;
        length = snprintf(path, sizeof path, "%.*s%s", folder, index->path, index->text + index->map[i].file_at);
        if (length < 0 || (size_t)length >= sizeof path)
            return leatc_fail(LEAT_ERROR_FILE, "a path of %d bytes is too long", length);
        index->slots[slot] = (uint32_t)i + 1;
        index->file_of[i] = model->file_count;
        TRY(leatm_model_open_file(model, path));
        if (model->files[index->file_of[i]].format != LEAT_MODEL_FORMAT_SAFETENSORS)
            return leatc_fail(LEAT_ERROR_FILE, "%s is not a safetensors file", path);
    }
    return LEAT_OK;
}

/* Checks that each tensor of the map is in the file that the map says, and that no two tensors have one name. */
static leat_status check_map(leat_model *model, const struct index *index)
{
    struct leatc_shown shown;

    TRY(leatm_model_hash(model));
    for (size_t i = 0; i < index->count; i++) {
        const char *name = index->text + index->map[i].tensor_at;
        size_t tensor = leatm_model_lookup(model, name);
        size_t file = index->file_of[index->slots[slot_of(index, &index->map[i])] - 1];

        if (tensor == SIZE_MAX || model->tensors[tensor].file != file)
            return leatc_fail(LEAT_ERROR_FILE, "weight_map says that tensor '%s' is in %s, and it is %s%s",
                              leatc_shown(&shown, name, strlen(name)), model->files[file].path,
                              tensor == SIZE_MAX ? "in none of the files" : "in ",
                              tensor == SIZE_MAX ? "" : model->files[model->tensors[tensor].file].path);
    }
    return LEAT_OK;
}

/* Refuses a map that has a tensor twice. The slots of files are no longer needed, so this check uses them. */
static leat_status check_twice(struct index *index)
{
    struct leatc_shown shown;

    memset(index->slots, 0, (index->slot_mask + 1) * sizeof *index->slots);
    for (size_t i = 0; i < index->count; i++) {
        const char *name = index->text + index->map[i].tensor_at;
        size_t slot = leatm_hash_text(name, strlen(name)) & index->slot_mask;

        for (; index->slots[slot]; slot = (slot + 1) & index->slot_mask)
            if (!strcmp(index->text + index->map[index->slots[slot] - 1].tensor_at, name))
                return leatc_fail(LEAT_ERROR_FILE, "weight_map has tensor '%s' twice",
                                  leatc_shown(&shown, name, strlen(name)));
        index->slots[slot] = (uint32_t)i + 1;
    }
    return LEAT_OK;
}

static leat_status open_files(leat_model *model, struct index *index)
{
    size_t slots = 16;

    TRY(parse(index));
    while (slots < index->count + index->count / 2)
        slots *= 2;
    index->slot_mask = slots - 1;
    index->slots = calloc(slots, sizeof *index->slots);
    /* One more, because calloc() of 0 may return NULL. */
    index->file_of = calloc(index->count + 1, sizeof *index->file_of);
    if (!index->slots || !index->file_of)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the %zu entries of the index", index->count);
    TRY(open_named(model, index));
    TRY(check_map(model, index));
    return check_twice(index);
}

leat_status leatm_index_open(leat_model *model, const char *path)
{
    struct index index = {.path = path};
    leat_status status = leatm_model_read_whole(path, &index.text, &index.bytes);

    if (status == LEAT_OK)
        status = open_files(model, &index);
    free(index.text);
    free(index.map);
    free(index.slots);
    free(index.file_of);
    return status == LEAT_OK ? status : leatc_fail_in(status, "%s", path);
}
