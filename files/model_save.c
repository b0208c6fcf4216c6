/*
 * model_save.c - saves tensors as a file: one batch writes the header and the tensors to a temporary file, and a
 * commit then gives the file its name.
 */
#include "model_files.h"

#include <leat/memory.h>

#include <stdlib.h>
#include <string.h>

struct leat_model_save {
    leat_ticket *written, *committed;
    uint64_t bytes;
};

/* The arguments of a save call. */
struct save_request {
    leat_stream *stream;
    const char *path;
    const leat_model_save_item *items;
    size_t count;
    leat_model_save_options options;
    bool npy;
};

/* ---- checks ---- */

/* Computes the bytes of an item from its type and shape, and checks both. */
static leat_status bytes_of(const leat_model_save_item *item, uint64_t *bytes)
{
    struct leatc_shown shown;
    const struct leatm_model_type *type;
    uint64_t elements = 1;
    int number = item->type ? leatm_type_of_safetensors(item->type, strlen(item->type)) : -1;

    if (number < 0)
        return leatc_fail(LEAT_ERROR_INVALID,
                          "its type is %s; use a name of safetensors, such as \"F32\" or \"BF16\"",
                          item->type ? leatc_shown(&shown, item->type, strlen(item->type)) : "NULL");
    type = &leatm_model_types[number];
    if (item->dims > LEAT_MODEL_MAX_DIMS || (item->dims && !item->shape))
        return leatc_fail(LEAT_ERROR_INVALID, "%u dimensions, and its shape is %s; at most %d are allowed",
                          item->dims, item->shape ? "there" : "NULL", LEAT_MODEL_MAX_DIMS);
    for (uint32_t i = 0; i < item->dims; i++) {
        if (item->shape[i] < 0)
            return leatc_fail(LEAT_ERROR_INVALID, "shape[%u] is %lld", i, (long long)item->shape[i]);
        if (!leatm_multiply(&elements, (uint64_t)item->shape[i]))
            return leatc_fail(LEAT_ERROR_RANGE, "its shape has more elements than 63 bits can count");
    }
    if (elements % type->elements)
        return leatc_fail(LEAT_ERROR_INVALID, "%llu elements of type %s do not fill whole bytes",
                          (unsigned long long)elements, type->name);
    *bytes = elements / type->elements;
    if (!leatm_multiply(bytes, type->bytes))
        return leatc_fail(LEAT_ERROR_RANGE, "its shape has more bytes than 63 bits can count");
    if (*bytes > item->src_bytes)
        return leatc_fail(LEAT_ERROR_RANGE, "src_bytes is %zu, and its shape needs %llu", item->src_bytes,
                          (unsigned long long)*bytes);
    if (*bytes && !item->src)
        return leatc_fail(LEAT_ERROR_INVALID, "src is NULL");
    return LEAT_OK;
}

static leat_status check_name(const struct save_request *request, const leat_model_save_item *item)
{
    if (request->npy)
        return LEAT_OK;
    if (!item->name)
        return leatc_fail(LEAT_ERROR_INVALID, "its name is NULL");
    if (!leatm_utf8_valid(item->name, strlen(item->name)))
        return leatc_fail(LEAT_ERROR_INVALID, "its name is not valid UTF-8");
    if (!strcmp(item->name, "__metadata__"))
        return leatc_fail(LEAT_ERROR_INVALID,
                          "the format reserves the name __metadata__; options->metadata sets it");
    return LEAT_OK;
}

static leat_status check_items(const struct save_request *request, uint64_t *bytes)
{
    uint64_t total = 0;

    for (size_t i = 0; i < request->count; i++) {
        const leat_model_save_item *item = &request->items[i];
        struct leatc_shown shown;
        leat_status status;

        status = check_name(request, item);
        if (status == LEAT_OK)
            status = bytes_of(item, &bytes[i]);
        if (status == LEAT_OK && (__builtin_add_overflow(total, bytes[i], &total) || total > INT64_MAX / 2))
            status = leatc_fail(LEAT_ERROR_RANGE, "the tensors have too many bytes for a file");
        if (status != LEAT_OK)
            return leatc_fail_in(status, "item %zu, tensor %s", i,
                                 item->name ? leatc_shown(&shown, item->name, strlen(item->name))
                                            : "without a name");
    }
    return LEAT_OK;
}

static int compare_texts(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;

    return strcmp(*left, *right);
}

/* Refuses texts of which two are equal. Sorts them for that. */
static leat_status check_once(const char **texts, size_t count, const char *what)
{
    struct leatc_shown shown;

    qsort(texts, count, sizeof *texts, compare_texts);
    for (size_t i = 1; i < count; i++)
        if (!strcmp(texts[i - 1], texts[i]))
            return leatc_fail(LEAT_ERROR_INVALID, "two %s '%s'", what,
                              leatc_shown(&shown, texts[i], strlen(texts[i])));
    return LEAT_OK;
}

static leat_status check_metadata(const struct save_request *request, const char **keys)
{
    const leat_model_entry *entries = request->options.metadata;
    size_t count = request->options.metadata_count;

    if (count && (!entries || request->npy))
        return leatc_fail(LEAT_ERROR_INVALID, "%s",
                          entries ? "npy files have no metadata" : "options->metadata is NULL");
    for (size_t i = 0; i < count; i++) {
        if (!entries[i].key || !entries[i].text || !leatm_utf8_valid(entries[i].key, strlen(entries[i].key)) ||
            !leatm_utf8_valid(entries[i].text, strlen(entries[i].text)))
            return leatc_fail(LEAT_ERROR_INVALID, "metadata %zu: key or text is NULL or not valid UTF-8", i);
        keys[i] = entries[i].key;
    }
    return check_once(keys, count, "entries of metadata have the key");
}

static leat_status check(const struct save_request *request, uint64_t *bytes)
{
    size_t most =
        request->count > request->options.metadata_count ? request->count : request->options.metadata_count;
    const char **texts = calloc(most + 1, sizeof *texts);
    leat_status status;

    if (!texts)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for %zu names", most);
    status = check_items(request, bytes);
    if (status == LEAT_OK && request->npy && request->count != 1)
        status =
            leatc_fail(LEAT_ERROR_INVALID, "an npy file has one tensor, and there are %zu items", request->count);
    if (status == LEAT_OK)
        status = check_metadata(request, texts);
    if (status == LEAT_OK && !request->npy) {
        for (size_t i = 0; i < request->count; i++)
            texts[i] = request->items[i].name;
        status = check_once(texts, request->count, "tensors have the name");
    }
    free(texts);
    return status;
}

/* ---- writing ---- */

/* Starts one batch that writes the header and the tensors. ops has room for all items and the header. */
static leat_status write_all(const struct save_request *request, leat_file *file, void *header,
                             size_t header_bytes, const uint64_t *bytes, leat_file_op *ops,
                             const leat_copy_options *options, struct leat_model_save *save)
{
    uint64_t offset = header_bytes;

    ops[0] = (leat_file_op){.file = file, .offset = 0, .memory = header, .bytes = header_bytes};
    for (size_t i = 0; i < request->count; i++) {
        ops[i + 1] = (leat_file_op){.file = file,
                                    .offset = offset,
                                    .memory = (void *)(uintptr_t)request->items[i].src,
                                    .bytes = (size_t)bytes[i]};
        offset += bytes[i];
    }
    save->bytes = offset;
    return leat_file_write_batch_start(request->stream, ops, request->count + 1, options, &save->written);
}

/* Starts the writes and the commit, which have one deadline. The header is in pinned memory, which leat_free() frees in
 * stream order, behind the writes. */
static leat_status write_file(const struct save_request *request, leat_file *file,
                              const struct leatm_header *header, const uint64_t *bytes, leat_file_op *ops,
                              const leat_copy_options *options, struct leat_model_save *save)
{
    uint64_t end_ns = leatc_end_ns(options->deadline_ns), now_ns;
    leat_copy_options rest = *options;
    leat_device *device;
    leat_status status;
    void *pinned;

    TRY(leat_stream_device(request->stream, &device));
    TRY(leat_memory_alloc(device, LEAT_KIND_PINNED, header->bytes, &pinned));
    memcpy(pinned, header->text, header->bytes);
    status = write_all(request, file, pinned, header->bytes, bytes, ops, options, save);
    now_ns = leatc_now_ns();
    if (rest.deadline_ns)
        rest.deadline_ns = end_ns > now_ns ? end_ns - now_ns : 1;
    if (status == LEAT_OK)
        status = leat_file_commit_start(request->stream, file, &rest, &save->committed);
    if (status != LEAT_OK) {
        (void)leatc_fail_in(status, "writing the file");
        (void)leat_free(request->stream, pinned);
        return status;
    }
    return leat_free(request->stream, pinned);
}

/* Cleans up after a failure. The thread's message stays, although the calls that clean up may set another. */
static leat_status keep_message(leat_status status, struct leat_model_save *save, leat_file *file)
{
    char message[1800];

    strncpy(message, leat_last_error(), sizeof message - 1);
    message[sizeof message - 1] = '\0';
    if (save->committed)
        (void)leat_ticket_cancel(save->committed);
    if (save->written)
        (void)leat_ticket_cancel(save->written);
    (void)leat_model_save_destroy(save);
    (void)leat_file_close(file);
    return leat_error_set(status, message);
}

static leat_status start(const struct save_request *request, const struct leatm_header *header,
                         const uint64_t *bytes, leat_model_save **save)
{
    leat_copy_options options = LEAT_COPY_OPTIONS_INIT;
    leat_file_op *ops = calloc(request->count + 1, sizeof *ops);
    leat_model_save *made = calloc(1, sizeof *made);
    leat_file *file = NULL;
    leat_status status;

    options.deadline_ns = request->options.deadline_ns;
    if (!ops || !made) {
        status = leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the save");
        free(made);
    } else {
        status = leat_file_open(request->path, LEAT_FILE_WRITE | LEAT_FILE_TEMPORARY, &file);
        if (status == LEAT_OK)
            status = write_file(request, file, header, bytes, ops, &options, made);
        if (status != LEAT_OK)
            status = keep_message(status, made, file);
        else
            (void)leat_file_close(file);
    }
    free(ops);
    if (status == LEAT_OK)
        *save = made;
    return status;
}

static leat_status save_request(const struct save_request *request, leat_model_save **save)
{
    uint64_t *bytes = calloc(request->count + 1, sizeof *bytes);
    struct leatm_header header = {0};
    leat_status status;

    if (!bytes)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for %zu items", request->count);
    status = check(request, bytes);
    if (status == LEAT_OK)
        status = request->npy
                     ? leatm_npy_header(request->items, &header)
                     : leatm_safetensors_header(request->items, bytes, request->count, request->options.metadata,
                                                request->options.metadata_count, &header);
    if (status == LEAT_OK)
        status = start(request, &header, bytes, save);
    free(header.text);
    free(bytes);
    return status;
}

leat_status leat_model_save_start(leat_stream *stream, const char *path, const leat_model_save_item *items,
                                  size_t count, const leat_model_save_options *options, leat_model_save **save)
{
    struct save_request request = {.stream = stream, .path = path, .count = count};
    leat_model_save_item *known = NULL;
    size_t path_bytes = path ? strlen(path) : 0;
    leat_status status;

    if (!stream || !path || !save || (!items && count))
        return leatc_fail(LEAT_ERROR_INVALID, "leat_model_save_start: %s is NULL",
                          !stream ? "stream"
                          : !path ? "path"
                          : !save ? "save"
                                  : "items");
    if (options)
        TRY(leatc_sized_check("leat_model_save_start: options->size", "leat_model_save_options", options,
                              sizeof request.options));
    if (options)
        leatc_sized_read(&request.options, sizeof request.options, options);
    request.npy = path_bytes >= 4 && !strcmp(path + path_bytes - 4, ".npy");
    status = leatm_sized_read_list("leat_model_save_item", items, count, sizeof *known, (void **)&known);
    request.items = known;
    if (status == LEAT_OK)
        status = save_request(&request, save);
    free(known);
    return status == LEAT_OK ? status : leatc_fail_in(status, "leat_model_save_start of %s", path);
}

/* ---- running saves ---- */

static leat_status check_save(const char *what, const leat_model_save *save)
{
    return save ? LEAT_OK : leatc_fail(LEAT_ERROR_INVALID, "%s: save is NULL", what);
}

static leat_status wait_for(leat_ticket *ticket, leat_copy_point point, uint64_t end_ns)
{
    uint64_t now = leatc_now_ns();

    if (end_ns == UINT64_MAX)
        return leat_ticket_wait(ticket, point, LEAT_FOREVER);
    return leat_ticket_wait(ticket, point, end_ns > now ? end_ns - now : 0);
}

leat_status leat_model_save_wait(leat_model_save *save, leat_copy_point point, uint64_t timeout_ns)
{
    uint64_t end_ns = leatc_end_ns(timeout_ns);
    char message[1800];
    leat_status status, committed;

    TRY(check_save("leat_model_save_wait", save));
    if (point < LEAT_COPY_POINT_STAGED || point > LEAT_COPY_POINT_DURABLE)
        return leatc_fail(
            LEAT_ERROR_INVALID,
            "leat_model_save_wait: point is %d; use LEAT_COPY_POINT_STAGED, LEAT_COPY_POINT_DONE or LEAT_COPY_POINT_DURABLE",
            (int)point);
    status = wait_for(save->written, point == LEAT_COPY_POINT_DURABLE ? LEAT_COPY_POINT_DONE : point, end_ns);
    if (status == LEAT_NOT_READY)
        return status;
    strncpy(message, status == LEAT_OK ? "" : leat_last_error(), sizeof message - 1);
    message[sizeof message - 1] = '\0';
    /* If a write failed, the commit fails too, but its message must not hide the message of the write. */
    if (point == LEAT_COPY_POINT_DURABLE) {
        committed = wait_for(save->committed, LEAT_COPY_POINT_DURABLE, end_ns);
        if (committed == LEAT_NOT_READY)
            return committed;
        if (status == LEAT_OK && committed != LEAT_OK)
            return leatc_fail_in(committed, "leat_model_save_wait");
    }
    return status == LEAT_OK ? status : leatc_fail(status, "leat_model_save_wait: %s", message);
}

leat_status leat_model_save_get_info(leat_model_save *save, leat_model_save_info *info)
{
    leat_model_save_info full = LEAT_MODEL_SAVE_INFO_INIT;
    leat_ticket_info written = LEAT_TICKET_INFO_INIT, committed = LEAT_TICKET_INFO_INIT;

    TRY(check_save("leat_model_save_get_info", save));
    if (!info)
        return leatc_fail(LEAT_ERROR_INVALID, "leat_model_save_get_info: info is NULL");
    TRY(leatc_sized_check("leat_model_save_get_info: info->size", "leat_model_save_info", info, sizeof full));
    TRY(leat_ticket_get_info(save->written, &written));
    TRY(leat_ticket_get_info(save->committed, &committed));
    full.bytes = save->bytes;
    full.arrived_bytes = written.arrived_bytes;
    full.staged = written.staged;
    full.done = written.done;
    full.durable = committed.durable;
    full.status = written.status != LEAT_OK ? written.status : committed.status;
    leatc_sized_write(info, &full, sizeof full);
    return LEAT_OK;
}

leat_status leat_model_save_cancel(leat_model_save *save)
{
    TRY(check_save("leat_model_save_cancel", save));
    /* First the commit: it would fail, and not be cancelled, if it came to a cancelled write. */
    TRY(leat_ticket_cancel(save->committed));
    return leat_ticket_cancel(save->written);
}

leat_status leat_model_save_destroy(leat_model_save *save)
{
    if (!save)
        return LEAT_OK;
    (void)leat_ticket_destroy(save->written);
    (void)leat_ticket_destroy(save->committed);
    free(save);
    return LEAT_OK;
}
