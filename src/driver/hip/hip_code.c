/*
 * hip_code.c - checks images of device code, and reads the kernels in them. See hip_code.h.
 *
 * A code object is an ELF file. Its note with the name "AMDGPU" contains MessagePack: a map with the list
 * "amdhsa.kernels". In this list each kernel is a map with its name and the list of its arguments. The compiler
 * adds arguments after those of the source code; their kinds begin with "hidden_". (Code object format V3 to V6,
 * "User Guide for AMDGPU Backend" of LLVM.)
 */
#include "driver/hip/hip_code.h"

#include "base/error.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BUNDLE_MAGIC "__CLANG_OFFLOAD_BUNDLE__"
#define COMPRESSED_MAGIC "CCOB"
#define NOTE_METADATA 32 /* NT_AMDGPU_METADATA */
#define DEPTH_MOST 32

static leat_status fail_short(const char *what, uint64_t needed, size_t bytes)
{
    return leati_fail(LEAT_ERROR_IMAGE,
                      "the %s is cut off: its headers reach to byte %llu, the image has %zu; give the whole file",
                      what, (unsigned long long)needed, bytes);
}

/* Returns offset + count * entry_bytes, or UINT64_MAX on overflow. */
static uint64_t table_end(uint64_t offset, uint64_t entry_bytes, uint64_t count)
{
    uint64_t bytes = entry_bytes * count; /* does not overflow, because both have 16 bits, or one is 1 */

    return offset > UINT64_MAX - bytes ? UINT64_MAX : offset + bytes;
}

static leat_status check_elf(const unsigned char *image, size_t bytes)
{
    uint64_t end, segments;
    Elf64_Ehdr header;
    Elf64_Phdr segment;

    if (bytes < sizeof header)
        return fail_short("code object", sizeof header, bytes);
    memcpy(&header, image, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64)
        return leati_fail(LEAT_ERROR_IMAGE, "the image is a 32-bit ELF file; give a code object for an AMD GPU");
    end = table_end(header.e_shoff, header.e_shentsize, header.e_shnum);
    segments = table_end(header.e_phoff, header.e_phentsize, header.e_phnum);
    if (end < segments)
        end = segments;
    if (segments <= bytes && header.e_phentsize == sizeof segment)
        for (unsigned i = 0; i < header.e_phnum; i++) {
            memcpy(&segment, image + header.e_phoff + i * sizeof segment, sizeof segment);
            if (end < table_end(segment.p_offset, 1, segment.p_filesz))
                end = table_end(segment.p_offset, 1, segment.p_filesz);
        }
    return end > bytes ? fail_short("code object", end, bytes) : LEAT_OK;
}

static bool take_number(const unsigned char *image, size_t bytes, uint64_t *at, uint64_t *number)
{
    if (*at > bytes || bytes - *at < sizeof *number)
        return false;
    memcpy(number, image + *at, sizeof *number);
    *at += sizeof *number;
    return true;
}

/* Checks a bundle. It has a count and an entry for each code object: offset, size, length of the name, name. */
static leat_status check_bundle(const unsigned char *image, size_t bytes)
{
    uint64_t at = sizeof BUNDLE_MAGIC - 1, count, offset, size, name_bytes;

    if (!take_number(image, bytes, &at, &count))
        return fail_short("bundle", at + sizeof count, bytes);
    for (uint64_t i = 0; i < count; i++) {
        if (!take_number(image, bytes, &at, &offset) || !take_number(image, bytes, &at, &size) ||
            !take_number(image, bytes, &at, &name_bytes) || name_bytes > bytes - at)
            return fail_short("bundle", at + 1, bytes);
        at += name_bytes;
        if (size > bytes || offset > bytes - size)
            return fail_short("bundle", table_end(offset, 1, size), bytes);
    }
    return LEAT_OK;
}

/* HIP's call has no size argument and trusts the sizes in the image, so it would read beyond the end of a
 * truncated image. The check ignores the GPU, because HIP's call fails if the code is for another GPU. */
leat_status leati_hip_code_check(const void *image, size_t bytes)
{
    if (bytes >= SELFMAG && !memcmp(image, ELFMAG, SELFMAG))
        return check_elf(image, bytes);
    if (bytes >= sizeof BUNDLE_MAGIC - 1 && !memcmp(image, BUNDLE_MAGIC, sizeof BUNDLE_MAGIC - 1))
        return check_bundle(image, bytes);
    if (bytes >= sizeof COMPRESSED_MAGIC - 1 && !memcmp(image, COMPRESSED_MAGIC, sizeof COMPRESSED_MAGIC - 1))
        return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_IMAGE,
        "the image is neither a code object nor a bundle; give what clang makes for an AMD GPU, not PTX");
}

/* ---- MessagePack ---- */

/* The rest of the input. bad is set if a read goes beyond the end or the MessagePack is invalid. All later reads
 * then return 0. */
struct code_reader {
    const unsigned char *at, *end;
    bool bad;
};

enum token { TOKEN_OTHER, TOKEN_TEXT, TOKEN_LIST, TOKEN_MAP };

/* One MessagePack token. count is the number of members of a list or map, or the number of bytes of a text. */
struct item {
    enum token token;
    uint64_t count;
    const char *text;
};

static const unsigned char *take(struct code_reader *r, uint64_t bytes)
{
    const unsigned char *taken = r->at;

    if (r->bad || bytes > (uint64_t)(r->end - r->at)) {
        r->bad = true;
        return NULL;
    }
    r->at += bytes;
    return taken;
}

/* Reads a big-endian number of 1, 2, 4 or 8 bytes. */
static uint64_t take_big_endian(struct code_reader *r, unsigned bytes)
{
    const unsigned char *p = take(r, bytes);
    uint64_t number = 0;

    for (unsigned i = 0; p && i < bytes; i++)
        number = number << 8 | p[i];
    return number;
}

static struct item text_item(struct code_reader *r, enum token token, uint64_t bytes)
{
    struct item item = {.token = token, .count = bytes};

    item.text = (const char *)take(r, bytes);
    return item;
}

static struct item next_long(struct code_reader *r, unsigned char first)
{
    switch (first) {
    case 0xc0: /* nil, false, true */
    case 0xc2:
    case 0xc3:
        return (struct item){.token = TOKEN_OTHER};
    case 0xc4: /* byte strings */
    case 0xc5:
    case 0xc6:
        return text_item(r, TOKEN_OTHER, take_big_endian(r, 1u << (first - 0xc4)));
    case 0xca: /* numbers */
        return text_item(r, TOKEN_OTHER, 4);
    case 0xcb:
        return text_item(r, TOKEN_OTHER, 8);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        return text_item(r, TOKEN_OTHER, 1u << (first - 0xcc));
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
        return text_item(r, TOKEN_OTHER, 1u << (first - 0xd0));
    case 0xd9:
    case 0xda:
    case 0xdb:
        return text_item(r, TOKEN_TEXT, take_big_endian(r, 1u << (first - 0xd9)));
    case 0xdc:
    case 0xdd:
        return (struct item){.token = TOKEN_LIST, .count = take_big_endian(r, 2u << (first - 0xdc))};
    case 0xde:
    case 0xdf:
        return (struct item){.token = TOKEN_MAP, .count = take_big_endian(r, 2u << (first - 0xde))};
    default: /* metadata has no extension types */
        r->bad = true;
        return (struct item){.token = TOKEN_OTHER};
    }
}

static struct item next(struct code_reader *r)
{
    const unsigned char *first = take(r, 1);

    if (!first || *first < 0x80 || *first >= 0xe0) /* end of the input, or a small integer in one byte */
        return (struct item){.token = TOKEN_OTHER};
    if (*first < 0x90) /* a map, list or text whose length is in the same byte */
        return (struct item){.token = TOKEN_MAP, .count = *first & 0x0f};
    if (*first < 0xa0)
        return (struct item){.token = TOKEN_LIST, .count = *first & 0x0f};
    if (*first < 0xc0)
        return text_item(r, TOKEN_TEXT, *first & 0x1f);
    return next_long(r, *first);
}

static void skip_at(struct code_reader *r, unsigned depth)
{
    struct item item = next(r);

    if (depth == DEPTH_MOST)
        r->bad = true;
    if (item.token == TOKEN_LIST || item.token == TOKEN_MAP)
        for (uint64_t i = 0; i < item.count * (item.token == TOKEN_MAP ? 2 : 1) && !r->bad; i++)
            skip_at(r, depth + 1);
}

static void skip(struct code_reader *r)
{
    skip_at(r, 0);
}

static bool is_text(const struct item *item, const char *text)
{
    return item->token == TOKEN_TEXT && item->text && item->count == strlen(text) &&
           !memcmp(item->text, text, item->count);
}

/* ---- kernels ---- */

/* Reads the next argument. Returns true if it is an argument of the source code, and not a hidden one. */
static bool read_argument(struct code_reader *r)
{
    static const char hidden[] = "hidden_";
    struct item map = next(r);
    bool own = true;

    r->bad |= map.token != TOKEN_MAP;
    for (uint64_t i = 0; i < map.count && !r->bad; i++) {
        struct item key = next(r), kind;

        if (!is_text(&key, ".value_kind")) {
            skip(r);
            continue;
        }
        kind = next(r);
        own = !(kind.token == TOKEN_TEXT && kind.text && kind.count >= sizeof hidden - 1 &&
                !memcmp(kind.text, hidden, sizeof hidden - 1));
    }
    return own;
}

static int read_arguments(struct code_reader *r)
{
    struct item list = next(r);
    int own = 0;

    r->bad |= list.token != TOKEN_LIST;
    for (uint64_t i = 0; i < list.count && !r->bad; i++)
        own += read_argument(r);
    return own;
}

static leat_status read_kernel(struct code_reader *r, struct hip_code_kernels *kernels)
{
    struct hip_code_kernel kernel = {.parameter_count = 0};
    struct item map = next(r), name = {.token = TOKEN_OTHER};
    struct hip_code_kernel *list;

    r->bad |= map.token != TOKEN_MAP;
    for (uint64_t i = 0; i < map.count && !r->bad; i++) {
        struct item key = next(r);

        if (is_text(&key, ".args"))
            kernel.parameter_count = read_arguments(r);
        else if (is_text(&key, ".name"))
            name = next(r);
        else
            skip(r);
    }
    if (r->bad || name.token != TOKEN_TEXT)
        return LEAT_OK;
    list = realloc(kernels->list, (kernels->count + 1) * sizeof *list);
    if (!list)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the list of kernels");
    kernels->list = list;
    kernel.name = strndup(name.text, name.count);
    if (!kernel.name)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the name of a kernel");
    list[kernels->count++] = kernel;
    return LEAT_OK;
}

static leat_status read_metadata(struct code_reader r, struct hip_code_kernels *kernels)
{
    struct item map = next(&r);

    r.bad |= map.token != TOKEN_MAP;
    for (uint64_t i = 0; i < map.count && !r.bad; i++) {
        struct item key = next(&r), list;

        if (!is_text(&key, "amdhsa.kernels")) {
            skip(&r);
            continue;
        }
        list = next(&r);
        r.bad |= list.token != TOKEN_LIST;
        for (uint64_t k = 0; k < list.count && !r.bad; k++)
            LEATI_TRY(read_kernel(&r, kernels));
    }
    return LEAT_OK;
}

/* Returns the size of a note's name or content with its padding to 4 bytes. */
static uint64_t padded(uint64_t bytes)
{
    return (bytes + 3) / 4 * 4;
}

static leat_status read_notes(struct code_reader r, struct hip_code_kernels *kernels)
{
    while (r.at < r.end && !r.bad) {
        const unsigned char *start = take(&r, sizeof(Elf64_Nhdr)), *name, *content;
        Elf64_Nhdr note;

        if (!start)
            break;
        memcpy(&note, start, sizeof note);
        name = take(&r, padded(note.n_namesz));
        content = take(&r, note.n_descsz);
        if (!content)
            break;
        (void)take(&r, padded(note.n_descsz) - note.n_descsz); /* the last note may have no padding */
        if (note.n_type == NOTE_METADATA && note.n_namesz == sizeof "AMDGPU" &&
            !memcmp(name, "AMDGPU", note.n_namesz))
            return read_metadata((struct code_reader){.at = content, .end = content + note.n_descsz}, kernels);
    }
    return LEAT_OK;
}

leat_status leati_hip_code_read(const void *image, size_t bytes, struct hip_code_kernels *kernels)
{
    const unsigned char *start = image;
    Elf64_Ehdr header;
    Elf64_Phdr segment;

    *kernels = (struct hip_code_kernels){.list = NULL};
    if (bytes < sizeof header || memcmp(image, ELFMAG, SELFMAG) != 0)
        return LEAT_OK;
    memcpy(&header, image, sizeof header);
    if (header.e_machine != EM_AMDGPU || header.e_phentsize != sizeof segment)
        return LEAT_OK;
    for (unsigned i = 0; i < header.e_phnum && !kernels->count; i++) {
        const unsigned char *notes;
        leat_status status;

        memcpy(&segment, start + header.e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_type != PT_NOTE)
            continue;
        notes = start + segment.p_offset;
        status = read_notes((struct code_reader){.at = notes, .end = notes + segment.p_filesz}, kernels);
        if (status != LEAT_OK) {
            leati_hip_code_free(kernels);
            return status;
        }
    }
    return LEAT_OK;
}

void leati_hip_code_free(struct hip_code_kernels *kernels)
{
    for (size_t i = 0; i < kernels->count; i++)
        free(kernels->list[i].name);
    free(kernels->list);
    *kernels = (struct hip_code_kernels){.list = NULL};
}

int leati_hip_code_parameters(const struct hip_code_kernels *kernels, const char *name)
{
    for (size_t i = 0; i < kernels->count; i++)
        if (!strcmp(kernels->list[i].name, name))
            return kernels->list[i].parameter_count;
    return -1;
}
