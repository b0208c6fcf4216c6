/* model_helpers.c - helpers of the library: growing arrays, windows, texts and numbers (model_files.h). */
#include "model_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

leat_status leatm_model_room(void *array, size_t *room, size_t count, size_t bytes)
{
    size_t wanted = *room ? *room * 2 : 64;
    void *grown, *old;

    if (count < *room)
        return LEAT_OK;
    memcpy(&old, array, sizeof old);
    grown = wanted > SIZE_MAX / bytes ? NULL : realloc(old, wanted * bytes);
    if (!grown)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a table of %zu entries", wanted);
    memcpy(array, &grown, sizeof grown);
    *room = wanted;
    return LEAT_OK;
}

leat_status leatm_model_read_file(const struct leatm_model_file *file, uint64_t offset, void *out, size_t bytes)
{
    size_t done = 0;

    if (offset > file->bytes || bytes > file->bytes - offset)
        return leatc_fail(LEAT_ERROR_FILE, "the file ends at %llu, and %zu bytes at %llu were expected",
                          (unsigned long long)file->bytes, bytes, (unsigned long long)offset);
    while (done < bytes) {
        ssize_t some = pread(file->fd, (char *)out + done, bytes - done, (off_t)(offset + done));

        if (some > 0)
            done += (size_t)some;
        else if (some == 0)
            return leatc_fail(LEAT_ERROR_FILE, "the file now ends at %llu: it was cut while it was read",
                              (unsigned long long)(offset + done));
        else if (errno != EINTR)
            return leatc_fail(LEAT_ERROR_FILE, "pread at offset %llu: %s", (unsigned long long)(offset + done),
                              strerror(errno));
    }
    return LEAT_OK;
}

leat_status leatm_model_read_text(struct leatm_model_file *file, size_t bytes)
{
    size_t room = file->text_room ? file->text_room : 4096;
    char *grown;

    if (bytes <= file->text_bytes)
        return LEAT_OK;
    if (bytes > file->bytes)
        return leatc_fail(LEAT_ERROR_FILE, "the header does not end within the file's %llu bytes",
                          (unsigned long long)file->bytes);
    if (bytes > LEATM_HEADER_MAX + 8)
        return leatc_fail(LEAT_ERROR_FILE, "the header is longer than 100,000,000 bytes");
    while (room < bytes + 1)
        room *= 2;
    if (room > bytes + 1 && room > ((size_t)16 << 20))
        room = bytes + 1;
    if (room > file->text_room) {
        grown = realloc(file->text, room);
        if (!grown)
            return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a header of %zu bytes", bytes);
        file->text = grown;
        file->text_room = room;
    }
    TRY(leatm_model_read_file(file, file->text_bytes, file->text + file->text_bytes, bytes - file->text_bytes));
    file->text_bytes = bytes;
    file->text[bytes] = '\0';
    return LEAT_OK;
}

/* ---- structs that can grow ---- */

leat_status leatm_sized_read_list(const char *type, const void *items, size_t count, size_t known_bytes,
                                  void **known)
{
    size_t bytes = count ? leatc_size_of(items) : 0;
    char *list = calloc(count ? count : 1, known_bytes);

    *known = list;
    if (!list)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for %zu items", count);
    for (size_t i = 0; i < count; i++) {
        const char *item = (const char *)items + i * bytes;
        char field[40];

        snprintf(field, sizeof field, "items[%zu].size", i);
        TRY(leatc_sized_check(field, type, item, known_bytes));
        if (leatc_size_of(item) != bytes)
            return leatc_fail(LEAT_ERROR_INVALID, "%s is %zu, and that of item 0 is %zu", field,
                              leatc_size_of(item), bytes);
        leatc_sized_read(list + i * known_bytes, known_bytes, item);
    }
    return LEAT_OK;
}

/* ---- windows ---- */

leat_status leatm_window_open(struct leatm_window *window, const struct leatm_model_file *file, size_t ahead)
{
    memset(window, 0, sizeof *window);
    window->file = file;
    window->ahead = ahead;
    window->buffer = malloc(LEATM_WINDOW_BYTES);
    return window->buffer ? LEAT_OK : leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for reading a header");
}

void leatm_window_close(struct leatm_window *window)
{
    free(window->buffer);
    window->buffer = NULL;
}

leat_status leatm_window_get(struct leatm_window *window, uint64_t offset, size_t bytes, const unsigned char **at)
{
    if (offset < window->at || offset - window->at > window->bytes ||
        window->bytes - (size_t)(offset - window->at) < bytes) {
        uint64_t left = offset < window->file->bytes ? window->file->bytes - offset : 0;
        size_t some = bytes > window->ahead ? bytes : window->ahead;

        /* Read ahead only as far as the file reaches. If the file is too short even for bytes, the read below
         * fails with a message about this range. */
        if (some > left && bytes <= left)
            some = (size_t)left;
        else if (some > left)
            some = bytes;
        window->bytes = 0;
        TRY(leatm_model_read_file(window->file, offset, window->buffer, some));
        window->at = offset;
        window->bytes = some;
    }
    *at = window->buffer + (offset - window->at);
    return LEAT_OK;
}

uint16_t leatm_u16(const unsigned char *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

uint32_t leatm_u32(const unsigned char *at)
{
    return leatm_u16(at) | (uint32_t)leatm_u16(at + 2) << 16;
}

uint64_t leatm_u64(const unsigned char *at)
{
    return leatm_u32(at) | (uint64_t)leatm_u32(at + 4) << 32;
}

/* ---- texts and numbers ---- */

bool leatm_utf8_valid(const char *text, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + bytes;

    while (at < end) {
        unsigned more = *at < 0x80 ? 0 : *at < 0xc2 ? 9 : *at < 0xe0 ? 1 : *at < 0xf0 ? 2 : *at < 0xf5 ? 3 : 9;

        if (!*at || more == 9 || (size_t)(end - at) <= more)
            return false;
        /* Refuse overlong encodings, surrogates, and codes above 0x10ffff. */
        if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) || (*at == 0xf0 && at[1] < 0x90) ||
            (*at == 0xf4 && at[1] > 0x8f))
            return false;
        for (unsigned i = 1; i <= more; i++)
            if ((at[i] & 0xc0) != 0x80)
                return false;
        at += 1 + more;
    }
    return true;
}

bool leatm_multiply(uint64_t *product, uint64_t factor)
{
    uint64_t result;

    if (__builtin_mul_overflow(*product, factor, &result) || result > INT64_MAX)
        return false;
    *product = result;
    return true;
}

leat_status leatm_model_add_tensor(leat_model *model, struct leatm_model_tensor **tensor)
{
    if (model->count >= UINT32_MAX - 1)
        return leatc_fail(LEAT_ERROR_FILE, "more than 4294967294 tensors");
    TRY(leatm_model_room(&model->tensors, &model->room, model->count, sizeof *model->tensors));
    *tensor = &model->tensors[model->count++];
    memset(*tensor, 0, sizeof **tensor);
    return LEAT_OK;
}

leat_status leatm_model_add_shape(leat_model *model, uint64_t size)
{
    if (model->shape_count >= UINT32_MAX)
        return leatc_fail(LEAT_ERROR_FILE, "the tensors of the set have too many dimensions together");
    TRY(leatm_model_room(&model->shapes, &model->shape_room, model->shape_count, sizeof *model->shapes));
    model->shapes[model->shape_count++] = (int64_t)size;
    return LEAT_OK;
}

leat_status leatm_model_add_metadata(leat_model *model, struct leatm_model_metadata **metadata)
{
    if (model->metadata_count >= LEATM_METADATA_MAX)
        return leatc_fail(LEAT_ERROR_FILE, "more than %u entries of metadata", LEATM_METADATA_MAX);
    TRY(leatm_model_room(&model->metadata, &model->metadata_room, model->metadata_count, sizeof *model->metadata));
    *metadata = &model->metadata[model->metadata_count++];
    memset(*metadata, 0, sizeof **metadata);
    return LEAT_OK;
}

const char *leatm_tensor_name(const leat_model *model, const struct leatm_model_tensor *tensor)
{
    return model->files[tensor->file].text + tensor->name_at;
}

static leat_status reserve(void *array, size_t *room, size_t count, size_t more, size_t bytes)
{
    void *grown, *old;

    if (more <= *room - count)
        return LEAT_OK;
    memcpy(&old, array, sizeof old);
    grown = count + more > SIZE_MAX / bytes ? NULL : realloc(old, (count + more) * bytes);
    if (!grown)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a table of %zu entries", count + more);
    memcpy(array, &grown, sizeof grown);
    *room = count + more;
    return LEAT_OK;
}

leat_status leatm_model_reserve(leat_model *model, size_t tensors, size_t sizes)
{
    TRY(reserve(&model->tensors, &model->room, model->count, tensors, sizeof *model->tensors));
    return reserve(&model->shapes, &model->shape_room, model->shape_count, sizes, sizeof *model->shapes);
}

/* ---- names ---- */

/* Returns the exclusive or of both halves of a 128-bit product. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Hashes eight bytes at a time. The hash depends on random numbers of the process, so that nobody can make a file
 * whose names collide. */
uint64_t leatm_hash_text(const char *text, size_t bytes)
{
    uint64_t keys[2] = {0x9e3779b97f4a7c15u, 0xff51afd7ed558ccdu}, hash, word;
    const void *random = (const void *)getauxval(AT_RANDOM);

    if (random)
        memcpy(keys, random, sizeof keys);
    keys[1] |= 1;
    hash = keys[0] ^ bytes;
    while (bytes) {
        size_t some = bytes < 8 ? bytes : 8;

        word = 0;
        memcpy(&word, text, some);
        hash = fold(hash ^ word, keys[1]);
        text += some;
        bytes -= some;
    }
    hash = fold(hash ^ keys[1], 0xc4ceb9fe1a85ec53u);
    return hash ^ hash >> 29;
}

/* Returns the slot of the tensor with this name, or if there is none, the free slot for the name. */
static size_t find_slot(const leat_model *model, const char *name, uint64_t hash)
{
    size_t slot = hash & model->slot_mask;

    for (; model->slots[slot]; slot = (slot + 1) & model->slot_mask)
        if (model->slots[slot] >> 32 == hash >> 32 &&
            !strcmp(leatm_tensor_name(model, &model->tensors[(uint32_t)model->slots[slot] - 1]), name))
            break;
    return slot;
}

leat_status leatm_model_hash(leat_model *model)
{
    size_t slots = 16;

    while (slots < model->count + model->count / 2)
        slots *= 2;
    free(model->slots);
    model->slots = calloc(slots, sizeof *model->slots);
    if (!model->slots)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the names of %zu tensors", model->count);
    model->slot_mask = slots - 1;
    for (size_t i = 0; i < model->count; i++) {
        const char *name = leatm_tensor_name(model, &model->tensors[i]);
        uint64_t hash = leatm_hash_text(name, strlen(name));
        size_t slot = find_slot(model, name, hash);
        struct leatc_shown shown;

        if (model->slots[slot]) {
            const struct leatm_model_tensor *other = &model->tensors[(uint32_t)model->slots[slot] - 1];

            return leatc_fail(LEAT_ERROR_FILE, "two tensors have the name '%s': one in %s, one in %s",
                              leatc_shown(&shown, name, strlen(name)), model->files[other->file].path,
                              model->files[model->tensors[i].file].path);
        }
        model->slots[slot] = (hash >> 32) << 32 | (i + 1);
    }
    return LEAT_OK;
}

size_t leatm_model_lookup(const leat_model *model, const char *name)
{
    size_t slot = find_slot(model, name, leatm_hash_text(name, strlen(name)));

    return model->slots[slot] ? (uint32_t)model->slots[slot] - 1 : SIZE_MAX;
}
