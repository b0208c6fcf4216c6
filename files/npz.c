/*
 * npz.c - parses npz files, which are zip files whose members are npy files.
 *
 * A zip file consists of members, each behind a local header, then the central directory, which repeats the
 * headers, then the end record. Zip64 adds a second end record, a locator that points to it, and an extra field
 * for sizes that need more than 32 bits. leat reads members in place, so they must be stored without compression.
 *
 * The local and central headers must agree, and members and directory must cover the file without gaps, so that
 * all readers see the same members. leat does not compare the checksums of the data, because it does not read the
 * data.
 */
#include "model_files.h"

#include <stdlib.h>
#include <string.h>

enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    LOCATOR64 = 0x07064b50,
    END64 = 0x06064b50,
    DESCRIPTOR = 0x08074b50
};
enum { LOCAL_BYTES = 30, CENTRAL_BYTES = 46, END_BYTES = 22, LOCATOR64_BYTES = 20, END64_BYTES = 56 };
enum { FLAG_ENCRYPTED = 1, FLAG_DESCRIPTOR = 8, FLAG_UTF8 = 0x800, FLAGS_KNOWN = 0x80e };
enum { VERSION_MAX = 63 }; /* 6.3, the newest version of zip readers; stored members need at most 4.5 */
enum { EXTRA_ZIP64 = 1, EXTRA_NAME = 0x7075 };

struct zip {
    leat_model *model;
    struct leatm_model_file *file;
    uint32_t number;
    struct leatm_window window;
    uint64_t directory, directory_bytes, count;
};

/* One header of a member, central or local. */
struct member {
    unsigned version, flags, method, name_bytes, extra_bytes;
    uint32_t crc;
    uint64_t packed, bytes, local; /* local: offset of the local header, only in a central header */
};

/* ---- the end records ---- */

static leat_status find_end64(struct zip *zip, uint64_t locator, const unsigned char *end)
{
    const unsigned char *at;
    uint64_t record, disk_count;

    TRY(leatm_window_get(&zip->window, locator, LOCATOR64_BYTES, &at));
    record = leatm_u64(at + 8);
    if (leatm_u32(at + 4) || leatm_u32(at + 16) != 1 || record > locator || locator - record != END64_BYTES)
        return leatc_fail(LEAT_ERROR_FILE, "its Zip64 locator does not point at the record before it");
    TRY(leatm_window_get(&zip->window, record, END64_BYTES, &at));
    if (leatm_u32(at) != END64 || leatm_u64(at + 4) != END64_BYTES - 12)
        return leatc_fail(LEAT_ERROR_FILE, "its Zip64 end record is not valid");
    disk_count = leatm_u64(at + 24);
    zip->count = leatm_u64(at + 32);
    zip->directory_bytes = leatm_u64(at + 40);
    zip->directory = leatm_u64(at + 48);
    if (leatm_u32(at + 16) || leatm_u32(at + 20) || disk_count != zip->count)
        return leatc_fail(LEAT_ERROR_FILE, "it is one part of a zip file in several parts");
    /* A field of the first end record must either have the same value or be all ones, which means that the field
     * is too small for the value. */
    if ((leatm_u16(end + 10) != UINT16_MAX && leatm_u16(end + 10) != zip->count) ||
        (leatm_u32(end + 12) != UINT32_MAX && leatm_u32(end + 12) != zip->directory_bytes) ||
        (leatm_u32(end + 16) != UINT32_MAX && leatm_u32(end + 16) != zip->directory))
        return leatc_fail(LEAT_ERROR_FILE, "its two end records disagree");
    if (zip->directory > record || record - zip->directory != zip->directory_bytes)
        return leatc_fail(LEAT_ERROR_FILE, "its directory does not end where the end record begins");
    return LEAT_OK;
}

static leat_status find_directory(struct zip *zip)
{
    unsigned char end[END_BYTES];
    const unsigned char *at;
    uint64_t place;

    if (zip->file->bytes < END_BYTES)
        return leatc_fail(LEAT_ERROR_FILE, "it has %llu bytes, which is too short for a zip file",
                          (unsigned long long)zip->file->bytes);
    place = zip->file->bytes - END_BYTES;
    TRY(leatm_model_read_file(zip->file, place, end, END_BYTES));
    if (leatm_u32(end) != END || leatm_u16(end + 20))
        return leatc_fail(
            LEAT_ERROR_FILE,
            "it begins as a zip file, but does not end with an end record: it was cut, or has a comment, which leat does not accept");
    if (place >= LOCATOR64_BYTES) {
        TRY(leatm_window_get(&zip->window, place - LOCATOR64_BYTES, 4, &at));
        if (leatm_u32(at) == LOCATOR64)
            return find_end64(zip, place - LOCATOR64_BYTES, end);
    }
    zip->count = leatm_u16(end + 10);
    zip->directory_bytes = leatm_u32(end + 12);
    zip->directory = leatm_u32(end + 16);
    if (leatm_u16(end + 4) || leatm_u16(end + 6) || leatm_u16(end + 8) != zip->count)
        return leatc_fail(LEAT_ERROR_FILE, "it is one part of a zip file in several parts");
    if (zip->directory > place || place - zip->directory != zip->directory_bytes)
        return leatc_fail(LEAT_ERROR_FILE, "its directory does not end where the end record begins");
    return LEAT_OK;
}

/* ---- headers ---- */

/* Takes one number of 8 bytes from a Zip64 field. For a central header, the Zip64 field contains only numbers that
 * do not fit into the header's own fields. For a local header it always contains the number, which must equal the
 * header's own field if that is large enough. */
static bool take_64(uint64_t *value, const unsigned char **at, const unsigned char *end, bool central)
{
    uint64_t found;

    if (central && *value != UINT32_MAX)
        return true;
    if (end - *at < 8)
        return false;
    found = leatm_u64(*at);
    *at += 8;
    if (*value != UINT32_MAX && *value != found)
        return false;
    *value = found;
    return true;
}

static bool take_zip64(struct member *member, const unsigned char *field, const unsigned char *end, bool central)
{
    return take_64(&member->bytes, &field, end, central) && take_64(&member->packed, &field, end, central) &&
           (!central || take_64(&member->local, &field, end, central)) && field == end;
}

/* Reads the extra fields. Each consists of an id, a length, and that number of bytes. */
static leat_status read_extra(struct member *member, const unsigned char *extra, bool central)
{
    const unsigned char *at = extra, *end = extra + member->extra_bytes;
    bool wanted = member->packed == UINT32_MAX || member->bytes == UINT32_MAX || member->local == UINT32_MAX;
    bool found = false;

    while (at < end) {
        unsigned id, bytes;
        const unsigned char *field = at + 4;

        if (end - at < 4)
            return leatc_fail(LEAT_ERROR_FILE, "its extra fields do not fill their room");
        id = leatm_u16(at);
        bytes = leatm_u16(at + 2);
        if ((size_t)(end - field) < bytes)
            return leatc_fail(LEAT_ERROR_FILE, "an extra field is longer than the room for it");
        at = field + bytes;
        if (id == EXTRA_NAME)
            return leatc_fail(LEAT_ERROR_FILE, "an extra field gives it a second name");
        if (id != EXTRA_ZIP64)
            continue;
        if (found || (central && !wanted) || !take_zip64(member, field, at, central))
            return leatc_fail(LEAT_ERROR_FILE, "its Zip64 field does not have the numbers that it should");
        found = true;
    }
    if (wanted && !found)
        return leatc_fail(LEAT_ERROR_FILE, "it has no Zip64 field, though its sizes need one");
    return LEAT_OK;
}

static leat_status check_version(const struct member *member)
{
    if (member->version <= VERSION_MAX)
        return LEAT_OK;
    return leatc_fail(LEAT_ERROR_FILE, "it needs a reader of zip version %u.%u", member->version / 10,
                      member->version % 10);
}

static leat_status check_flags(const struct member *member, const char *name)
{
    TRY(check_version(member));
    if (member->flags & FLAG_ENCRYPTED)
        return leatc_fail(LEAT_ERROR_FILE, "it is encrypted");
    if (member->flags & ~(unsigned)FLAGS_KNOWN)
        return leatc_fail(LEAT_ERROR_FILE, "its flags are 0x%x, and leat does not know all of them",
                          member->flags);
    if (member->method == 8)
        return leatc_fail(
            LEAT_ERROR_FILE,
            "it is deflated, and leat reads members in place: save them without compression, with numpy.savez()");
    if (member->method)
        return leatc_fail(
            LEAT_ERROR_FILE,
            "it is compressed by method %u, and leat reads members in place: save them without compression, with numpy.savez()",
            member->method);
    if (member->packed != member->bytes)
        return leatc_fail(LEAT_ERROR_FILE, "it is stored, and has two sizes: %llu and %llu bytes",
                          (unsigned long long)member->packed, (unsigned long long)member->bytes);
    if (!leatm_utf8_valid(name, member->name_bytes))
        return leatc_fail(LEAT_ERROR_FILE, "its name is not valid UTF-8, or has a 0 byte");
    for (unsigned i = 0; !(member->flags & FLAG_UTF8) && i < member->name_bytes; i++)
        if ((unsigned char)name[i] >= 0x80)
            return leatc_fail(LEAT_ERROR_FILE, "its name is not ASCII, and no flag says that it is UTF-8");
    return LEAT_OK;
}

static bool ends_in(const char *name, size_t bytes, const char *end)
{
    return bytes >= strlen(end) && !memcmp(name + bytes - strlen(end), end, strlen(end));
}

static leat_status check_name(const char *name, unsigned bytes)
{
    struct leatc_shown shown;

    if (ends_in(name, bytes, ".npy"))
        return LEAT_OK;
    if (ends_in(name, bytes, ".pkl"))
        return leatc_fail(LEAT_ERROR_FILE, "it is a zip file with the pickle '%s', as torch.save() writes it. %s",
                          leatc_shown(&shown, name, bytes), leatm_pickle_advice);
    return leatc_fail(
        LEAT_ERROR_FILE,
        "it is a zip file with the member '%s'; leat reads those of numpy.savez(), whose members end in .npy",
        leatc_shown(&shown, name, bytes));
}

/* ---- the central directory ---- */

/* Checks the central header at *at, adds its tensor, and advances *at. Until read_member() reads the member, the
 * tensor's offset is that of the local header, its bytes are those of the member, and its shape_at is the offset
 * of the central header in the text. */
static leat_status read_central(struct zip *zip, char **at, const char *end)
{
    const unsigned char *header = (const unsigned char *)*at;
    char *name = *at + CENTRAL_BYTES;
    struct leatm_model_tensor *tensor;
    struct leatc_shown shown;
    struct member member;
    unsigned comment_bytes;
    leat_status status;

    if (end - *at < CENTRAL_BYTES || leatm_u32(header) != CENTRAL)
        return leatc_fail(LEAT_ERROR_FILE, "byte %zu of its directory does not begin a header",
                          (size_t)(*at - zip->file->text));
    member.version = leatm_u16(header + 6);
    member.flags = leatm_u16(header + 8);
    member.method = leatm_u16(header + 10);
    member.crc = leatm_u32(header + 16);
    member.packed = leatm_u32(header + 20);
    member.bytes = leatm_u32(header + 24);
    member.name_bytes = leatm_u16(header + 28);
    member.extra_bytes = leatm_u16(header + 30);
    comment_bytes = leatm_u16(header + 32);
    member.local = leatm_u32(header + 42);
    if ((size_t)(end - name) < (size_t)member.name_bytes + member.extra_bytes + comment_bytes)
        return leatc_fail(LEAT_ERROR_FILE, "the header at byte %zu of its directory does not end in it",
                          (size_t)(*at - zip->file->text));
    TRY(check_name(name, member.name_bytes));
    status = leatm_u16(header + 34) ? leatc_fail(LEAT_ERROR_FILE, "it is in another part of the zip file")
                                    : read_extra(&member, (unsigned char *)name + member.name_bytes, true);
    if (status == LEAT_OK)
        status = check_flags(&member, name);
    if (status != LEAT_OK)
        return leatc_fail_in(status, "member '%s'", leatc_shown(&shown, name, member.name_bytes));
    TRY(leatm_model_add_tensor(zip->model, &tensor));
    tensor->file = zip->number;
    tensor->offset = member.local;
    tensor->bytes = member.bytes;
    tensor->shape_at = (uint32_t)(*at - zip->file->text);
    tensor->name_at = (uint32_t)(name - zip->file->text);
    *at = name + member.name_bytes + member.extra_bytes + comment_bytes;
    return LEAT_OK;
}

static leat_status read_directory(struct zip *zip)
{
    struct leatm_model_file *file = zip->file;
    char *at, *end;

    if (zip->directory_bytes > LEATM_HEADER_MAX)
        return leatc_fail(LEAT_ERROR_FILE, "its directory has %llu bytes; leat reads at most %u",
                          (unsigned long long)zip->directory_bytes, LEATM_HEADER_MAX);
    if (zip->count > zip->directory_bytes / CENTRAL_BYTES)
        return leatc_fail(LEAT_ERROR_FILE, "its directory of %llu bytes would have %llu members",
                          (unsigned long long)zip->directory_bytes, (unsigned long long)zip->count);
    file->text = malloc((size_t)zip->directory_bytes + 1);
    if (!file->text)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a directory of %llu bytes",
                          (unsigned long long)zip->directory_bytes);
    file->text_bytes = (size_t)zip->directory_bytes;
    file->text_room = file->text_bytes + 1;
    TRY(leatm_model_read_file(file, zip->directory, file->text, file->text_bytes));
    file->text[file->text_bytes] = '\0';
    file->header_bytes = zip->file->bytes - zip->directory;
    at = file->text;
    end = at + file->text_bytes;
    for (uint64_t i = 0; i < zip->count; i++)
        TRY(read_central(zip, &at, end));
    if (at != end)
        return leatc_fail(LEAT_ERROR_FILE, "its directory has %zu bytes after its %llu members",
                          (size_t)(end - at), (unsigned long long)zip->count);
    return LEAT_OK;
}

/* ---- members ---- */

/* Compares the descriptor behind a member with its central header. */
static leat_status read_descriptor(struct zip *zip, const struct member *member, uint64_t from, uint64_t to)
{
    const unsigned char *at;
    uint64_t bytes = to - from, packed, size;

    if (bytes != 12 && bytes != 16 && bytes != 20 && bytes != 24)
        return leatc_fail(LEAT_ERROR_FILE, "%llu bytes follow it, which are no data descriptor",
                          (unsigned long long)bytes);
    TRY(leatm_window_get(&zip->window, from, (size_t)bytes, &at));
    if (bytes == 16 || bytes == 24) {
        if (leatm_u32(at) != DESCRIPTOR)
            return leatc_fail(LEAT_ERROR_FILE, "its data descriptor is not valid");
        at += 4;
    }
    packed = bytes <= 16 ? leatm_u32(at + 4) : leatm_u64(at + 4);
    size = bytes <= 16 ? leatm_u32(at + 8) : leatm_u64(at + 12);
    if (leatm_u32(at) != member->crc || packed != member->packed || size != member->bytes)
        return leatc_fail(LEAT_ERROR_FILE, "its data descriptor and the directory disagree");
    zip->file->header_bytes += bytes;
    return LEAT_OK;
}

/* Compares the local header at *start with the central header, and sets *start to the beginning of the data. */
static leat_status read_local(struct zip *zip, const struct member *central, const char *name, uint64_t *start)
{
    uint64_t header = *start;
    const unsigned char *at;
    struct member local = {0};

    TRY(leatm_window_get(&zip->window, header, LOCAL_BYTES, &at));
    if (leatm_u32(at) != LOCAL)
        return leatc_fail(LEAT_ERROR_FILE, "the directory points at byte %llu, where no header begins",
                          (unsigned long long)header);
    local.version = leatm_u16(at + 4);
    local.flags = leatm_u16(at + 6);
    local.method = leatm_u16(at + 8);
    local.crc = leatm_u32(at + 14);
    local.packed = leatm_u32(at + 18);
    local.bytes = leatm_u32(at + 22);
    local.name_bytes = leatm_u16(at + 26);
    local.extra_bytes = leatm_u16(at + 28);
    TRY(check_version(&local));
    if (local.flags != central->flags || local.method != central->method ||
        local.name_bytes != central->name_bytes)
        return leatc_fail(LEAT_ERROR_FILE, "its header and the directory disagree");
    TRY(leatm_window_get(&zip->window, header + LOCAL_BYTES, local.name_bytes, &at));
    if (memcmp(at, name, local.name_bytes) != 0)
        return leatc_fail(LEAT_ERROR_FILE, "its header and the directory have different names");
    TRY(leatm_window_get(&zip->window, header + LOCAL_BYTES + local.name_bytes, local.extra_bytes, &at));
    TRY(read_extra(&local, at, false));
    /* If a descriptor follows the data, the sizes and the checksum in the local header may be 0. */
    if (!(local.flags & FLAG_DESCRIPTOR && !local.crc && !local.packed && !local.bytes) &&
        (local.crc != central->crc || local.packed != central->packed || local.bytes != central->bytes))
        return leatc_fail(LEAT_ERROR_FILE, "its header and the directory have different sizes or checksums");
    *start = header + LOCAL_BYTES + local.name_bytes + local.extra_bytes;
    zip->file->header_bytes += *start - header;
    return LEAT_OK;
}

/* Reads the member of the tensor with this index. next: the offset at which the member must end. */
static leat_status read_member(struct zip *zip, size_t index, uint64_t next)
{
    struct leatm_model_tensor *tensor = &zip->model->tensors[index];
    char *name = zip->file->text + tensor->name_at;
    const unsigned char *header = (unsigned char *)zip->file->text + tensor->shape_at;
    struct member central = {.flags = leatm_u16(header + 8), .crc = leatm_u32(header + 16)};
    uint64_t start = tensor->offset, end;

    central.name_bytes = leatm_u16(header + 28);
    central.packed = central.bytes = tensor->bytes;
    TRY(read_local(zip, &central, name, &start));
    if (start > next || central.bytes > next - start)
        return leatc_fail(LEAT_ERROR_FILE,
                          "it has %llu bytes and begins at %llu, and what follows it begins at %llu",
                          (unsigned long long)central.bytes, (unsigned long long)start, (unsigned long long)next);
    end = start + central.bytes;
    if (central.flags & FLAG_DESCRIPTOR)
        TRY(read_descriptor(zip, &central, end, next));
    else if (end != next)
        return leatc_fail(LEAT_ERROR_FILE, "it ends at byte %llu, and what follows it begins at %llu",
                          (unsigned long long)end, (unsigned long long)next);
    TRY(leatm_npy_parse_at(zip->model, index, &zip->window, start, end));
    zip->file->header_bytes += tensor->offset - start;
    return LEAT_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct leatm_model_tensor *left = a, *right = b;

    if (left->offset != right->offset)
        return left->offset < right->offset ? -1 : 1;
    return left->name_at < right->name_at ? -1 : left->name_at > right->name_at;
}

static leat_status read_members(struct zip *zip, size_t first)
{
    leat_model *model = zip->model;
    struct leatc_shown shown;

    if (model->count - first > 1)
        qsort(model->tensors + first, model->count - first, sizeof *model->tensors, compare_places);
    if ((model->count > first ? model->tensors[first].offset : zip->directory) != 0)
        return leatc_fail(
            LEAT_ERROR_FILE, "%llu bytes in front of its first member belong to none",
            (unsigned long long)(model->count > first ? model->tensors[first].offset : zip->directory));
    for (size_t i = first; i < model->count; i++) {
        struct leatm_model_tensor *tensor = &model->tensors[i];
        uint64_t next = i + 1 < model->count ? model->tensors[i + 1].offset : zip->directory;
        unsigned name_bytes = leatm_u16((unsigned char *)zip->file->text + tensor->shape_at + 28);
        char *name = zip->file->text + tensor->name_at;
        leat_status status = read_member(zip, i, next);

        if (status != LEAT_OK)
            return leatc_fail_in(status, "member '%s'", leatc_shown(&shown, name, name_bytes));
        name[name_bytes - 4] = '\0';
    }
    return LEAT_OK;
}

static leat_status read_zip(struct zip *zip)
{
    size_t first = zip->model->count;

    TRY(find_directory(zip));
    TRY(read_directory(zip));
    return read_members(zip, first);
}

leat_status leatm_npz_parse(leat_model *model, struct leatm_model_file *file, uint32_t number)
{
    struct zip zip = {.model = model, .file = file, .number = number};
    leat_status status;

    TRY(leatm_window_open(&zip.window, file, 512));
    status = read_zip(&zip);
    leatm_window_close(&zip.window);
    return status;
}
