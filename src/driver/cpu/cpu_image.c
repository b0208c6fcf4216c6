/*
 * cpu_image.c - see cpu_image.h.
 *
 * Names are those of elf(5) and of the System V ABI for x86-64. The checks find each table by the address that the
 * loader would use, in the parts of the file that the loader maps there. A check returns a text that says what is
 * wrong, or NULL.
 */
#include "driver/cpu/cpu_image.h"

#include "base/error.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PAGE_BYTES ((uint64_t)4096)
#define SEGMENTS_MOST 64
#define SPAN_MOST ((uint64_t)1 << 32) /* addresses of an image; no kernels need more */
#define TAGS 64

#define TRY(check)                                                                                                \
    do {                                                                                                          \
        const char *wrong_ = (check);                                                                             \
        if (wrong_)                                                                                               \
            return wrong_;                                                                                        \
    } while (0)

struct image {
    const unsigned char *start;
    uint64_t bytes;
    Elf64_Phdr segments[SEGMENTS_MOST];
    unsigned segment_count;
    uint64_t value[TAGS]; /* values of the dynamic section, by tag; those of GNU tags are in the members below */
    bool has[TAGS];
    uint64_t gnu_hash, versym, verneed, verdef, rela_count;
    uint64_t symbol_count;
    unsigned versions_most; /* the highest version number of a symbol */
};

/* ---- finding data by its address ---- */

/* Returns the segment that is mapped at [address, address + bytes) with at least these rights, or NULL. */
static const Elf64_Phdr *segment_at(const struct image *image, uint64_t address, uint64_t bytes, uint32_t rights)
{
    for (unsigned i = 0; i < image->segment_count; i++) {
        const Elf64_Phdr *segment = &image->segments[i];

        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
            address - segment->p_vaddr <= segment->p_memsz &&
            bytes <= segment->p_memsz - (address - segment->p_vaddr) && (segment->p_flags & rights) == rights)
            return segment;
    }
    return NULL;
}

/* Returns the bytes of the file that are mapped at [address, address + bytes), or NULL if the file does not have
 * them all. */
static const unsigned char *content(const struct image *image, uint64_t address, uint64_t bytes)
{
    const Elf64_Phdr *segment = segment_at(image, address, bytes, PF_R);
    uint64_t offset = segment ? address - segment->p_vaddr : 0;

    if (!segment || offset > segment->p_filesz || bytes > segment->p_filesz - offset)
        return NULL;
    return image->start + segment->p_offset + offset;
}

static uint32_t word_at(const unsigned char *table, uint64_t i)
{
    uint32_t word;

    memcpy(&word, table + i * sizeof word, sizeof word);
    return word;
}

/* Returns true if the address is in an executable segment. */
static bool is_code(const struct image *image, uint64_t address)
{
    return segment_at(image, address, 1, PF_X) != NULL;
}

/* ---- headers ---- */

static const char *read_headers(struct image *image)
{
    Elf64_Ehdr header;

    if (image->bytes < sizeof header)
        return "it ends in its header";
    memcpy(&header, image->start, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_ident[EI_VERSION] != EV_CURRENT || header.e_version != EV_CURRENT || header.e_type != ET_DYN ||
        header.e_machine != EM_X86_64)
        return "its header is one of another sort of file";
    if (header.e_phentsize != sizeof(Elf64_Phdr) || !header.e_phnum || header.e_phnum > SEGMENTS_MOST ||
        header.e_phoff % 8 || header.e_phoff > image->bytes ||
        (image->bytes - header.e_phoff) / sizeof(Elf64_Phdr) < header.e_phnum)
        return "its program headers are not in it";
    if (header.e_shoff > image->bytes ||
        image->bytes - header.e_shoff < (uint64_t)header.e_shnum * header.e_shentsize)
        return "its section headers are not in it";
    image->segment_count = header.e_phnum;
    memcpy(image->segments, image->start + header.e_phoff, header.e_phnum * sizeof image->segments[0]);
    return NULL;
}

/* Checks the notes of a segment, because the loader walks over them. */
static const char *check_notes(const struct image *image, const Elf64_Phdr *segment)
{
    uint64_t align = segment->p_align == 8 ? 8 : 4, at = 0;

    if (!content(image, segment->p_vaddr, segment->p_filesz))
        return "its notes are not in what is loaded";
    while (segment->p_filesz - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;

        memcpy(&note, image->start + segment->p_offset + at, sizeof note);
        at += sizeof note + ((uint64_t)note.n_namesz + 3) / 4 * 4;
        at = (at + align - 1) / align * align + ((uint64_t)note.n_descsz + align - 1) / align * align;
        if (at > segment->p_filesz)
            return "a note is longer than its segment";
    }
    return NULL;
}

/* Returns true if the range that becomes read-only after relocation lies in one writable segment. The range may
 * reach to the end of the segment's last page, because the loader protects whole pages, and some linkers round the
 * range up. */
static bool has_relro(const struct image *image, const Elf64_Phdr *relro)
{
    const Elf64_Phdr *segment = segment_at(image, relro->p_vaddr, 0, PF_R | PF_W);
    uint64_t end = segment ? (segment->p_vaddr + segment->p_memsz + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1) : 0;

    return segment && relro->p_memsz <= end - relro->p_vaddr;
}

static const char *check_segments(const struct image *image)
{
    uint64_t end = 0;

    for (unsigned i = 0; i < image->segment_count; i++) {
        const Elf64_Phdr *segment = &image->segments[i];
        bool load = segment->p_type == PT_LOAD;

        if (segment->p_offset > image->bytes || segment->p_filesz > image->bytes - segment->p_offset)
            return "a segment is not in it";
        if (segment->p_filesz > segment->p_memsz && (load || segment->p_type == PT_TLS))
            return "a segment is larger in the file than in memory";
        if (segment->p_align & (segment->p_align - 1))
            return "the alignment of a segment is no power of two";
        if (!load)
            continue;
        if (segment->p_align < PAGE_BYTES || (segment->p_vaddr - segment->p_offset) % segment->p_align)
            return "a segment is not aligned to pages";
        if (segment->p_vaddr < end || segment->p_vaddr > SPAN_MOST || segment->p_memsz > SPAN_MOST)
            return "its segments overlap, or are too large";
        /* The loader clears the segment's memory that has no bytes in the file, so the segment must be
         * writable. */
        if (segment->p_memsz > segment->p_filesz && !(segment->p_flags & PF_W))
            return "a segment with memory to be cleared cannot be written";
        end = (segment->p_vaddr + segment->p_memsz + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    }
    for (unsigned i = 0; i < image->segment_count; i++) {
        const Elf64_Phdr *segment = &image->segments[i];

        if (segment->p_type == PT_NOTE || segment->p_type == PT_GNU_PROPERTY)
            TRY(check_notes(image, segment));
        if (segment->p_type == PT_GNU_RELRO && !has_relro(image, segment))
            return "what becomes read-only is not in it";
        if (segment->p_type == PT_TLS && (segment->p_memsz > SPAN_MOST || segment->p_align > SPAN_MOST ||
                                          !content(image, segment->p_vaddr, segment->p_filesz)))
            return "its thread-local storage is not in it";
    }
    return NULL;
}

/* ---- the dynamic section ---- */

static const char *keep_entry(struct image *image, const Elf64_Dyn *entry)
{
    uint64_t value = entry->d_un.d_val;

    switch (entry->d_tag) {
    case DT_GNU_HASH:
        image->gnu_hash = value;
        break;
    case DT_VERSYM:
        image->versym = value;
        break;
    case DT_VERNEED:
        image->verneed = value;
        break;
    case DT_VERDEF:
        image->verdef = value;
        break;
    case DT_RELACOUNT:
        image->rela_count = value;
        break;
    case DT_REL:
    case DT_TEXTREL:
    case DT_PREINIT_ARRAY:
    case DT_CONFIG:
    case DT_DEPAUDIT:
    case DT_AUDIT:
    case DT_FILTER:
    case DT_AUXILIARY:
        return "its dynamic section has an entry that kernels do not need";
    default:
        if (entry->d_tag > 0 && entry->d_tag < TAGS) {
            image->value[entry->d_tag] = value;
            image->has[entry->d_tag] = true;
        }
    }
    return NULL;
}

static const char *read_dynamic(struct image *image)
{
    const Elf64_Phdr *found = NULL;
    const unsigned char *entries;

    for (unsigned i = 0; i < image->segment_count; i++)
        if (image->segments[i].p_type == PT_DYNAMIC)
            found = found ? &image->segments[SEGMENTS_MOST - 1] : &image->segments[i];
    if (!found || found == &image->segments[SEGMENTS_MOST - 1])
        return "it does not have one dynamic section";
    entries = content(image, found->p_vaddr, found->p_filesz);
    /* The loader relocates the dynamic section in place, so it must be writable. */
    if (!entries || found->p_vaddr % 8 || !segment_at(image, found->p_vaddr, found->p_filesz, PF_R | PF_W) ||
        entries != image->start + found->p_offset)
        return "its dynamic section is not in what is loaded";
    for (uint64_t at = 0; found->p_filesz - at >= sizeof(Elf64_Dyn); at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;

        memcpy(&entry, entries + at, sizeof entry);
        if (entry.d_tag == DT_NULL)
            return NULL;
        /* These values are offsets of names. Keep the largest one, because only that needs a check. */
        if (entry.d_tag == DT_NEEDED || entry.d_tag == DT_SONAME || entry.d_tag == DT_RPATH ||
            entry.d_tag == DT_RUNPATH) {
            image->value[DT_NEEDED] =
                image->value[DT_NEEDED] > entry.d_un.d_val ? image->value[DT_NEEDED] : entry.d_un.d_val;
            image->has[DT_NEEDED] = true;
        } else {
            TRY(keep_entry(image, &entry));
        }
    }
    return "its dynamic section has no end";
}

/* Finds a table whose address and size have these tags in the dynamic section. The size must be a multiple of
 * entry_bytes. Sets *entries to NULL if the image has no such table, or an empty one. */
static const char *find_table(const struct image *image, unsigned address_tag, unsigned size_tag,
                              uint64_t entry_bytes, const unsigned char **entries, uint64_t *count)
{
    *entries = NULL;
    *count = 0;
    if (!image->has[address_tag])
        return NULL;
    if (!image->has[size_tag] || image->value[size_tag] % entry_bytes)
        return "a table of its dynamic section has no right size";
    if (!image->value[size_tag])
        return NULL;
    *entries = content(image, image->value[address_tag], image->value[size_tag]);
    *count = image->value[size_tag] / entry_bytes;
    return *entries ? NULL : "a table of its dynamic section is not in what is loaded";
}

/* ---- names and symbols ---- */

static bool is_name(const struct image *image, uint64_t offset)
{
    return offset < image->value[DT_STRSZ];
}

static const char *check_strings(const struct image *image)
{
    const unsigned char *strings;
    uint64_t bytes;

    if (!image->has[DT_STRTAB] || !image->has[DT_SYMTAB])
        return "it has no symbols";
    TRY(find_table(image, DT_STRTAB, DT_STRSZ, 1, &strings, &bytes));
    if (!strings || strings[bytes - 1])
        return "its names have no end";
    return image->has[DT_NEEDED] && !is_name(image, image->value[DT_NEEDED])
               ? "the name of an object that it needs is not in it"
               : NULL;
}

/* Follows the chain of a hash bucket to its end, and raises *symbols to the number of symbols that must exist. */
static const char *check_gnu_chain(const struct image *image, uint64_t chains, uint32_t first_hashed,
                                   uint32_t symbol, uint64_t *symbols)
{
    const unsigned char *link;

    if (!symbol)
        return NULL;
    if (symbol < first_hashed)
        return "a bucket of its hash table is wrong";
    do {
        link = content(image, chains + (uint64_t)(symbol - first_hashed) * 4, 4);
        if (!link)
            return "a chain of its hash table has no end";
        if (++symbol > *symbols)
            *symbols = symbol;
    } while (!(word_at(link, 0) & 1));
    return NULL;
}

static const char *read_gnu_hash(struct image *image)
{
    const unsigned char *header = content(image, image->gnu_hash, 16), *buckets;
    uint32_t bucket_count, first_hashed, bloom_words;
    uint64_t at;

    if (!header || image->gnu_hash % 8)
        return "its hash table is not in what is loaded";
    bucket_count = word_at(header, 0);
    first_hashed = word_at(header, 1);
    bloom_words = word_at(header, 2);
    if (!bucket_count || !bloom_words || (bloom_words & (bloom_words - 1)) || word_at(header, 3) >= 64)
        return "its hash table is wrong";
    at = image->gnu_hash + 16 + (uint64_t)bloom_words * 8;
    buckets = content(image, image->gnu_hash + 16, (uint64_t)bloom_words * 8)
                  ? content(image, at, (uint64_t)bucket_count * 4)
                  : NULL;
    if (!buckets)
        return "its hash table is not in what is loaded";
    image->symbol_count = first_hashed;
    for (uint32_t i = 0; i < bucket_count; i++)
        TRY(check_gnu_chain(image, at + (uint64_t)bucket_count * 4, first_hashed, word_at(buckets, i),
                            &image->symbol_count));
    return NULL;
}

static const char *read_old_hash(struct image *image)
{
    const unsigned char *header = content(image, image->value[DT_HASH], 8), *buckets;
    uint64_t bucket_count = header ? word_at(header, 0) : 0, chain_count = header ? word_at(header, 1) : 0;
    uint64_t steps = 0;

    buckets = content(image, image->value[DT_HASH] + 8, (bucket_count + chain_count) * 4);
    if (!bucket_count || !buckets)
        return "its hash table is not in what is loaded";
    for (uint64_t i = 0; i < bucket_count; i++)
        for (uint64_t symbol = word_at(buckets, i); symbol; symbol = word_at(buckets + bucket_count * 4, symbol))
            /* Each symbol is in one chain only, so more steps than symbols mean a cycle. */
            if (symbol >= chain_count || ++steps > chain_count)
                return "a chain of its hash table is wrong";
    image->symbol_count = image->symbol_count > chain_count ? image->symbol_count : chain_count;
    return NULL;
}

/* Raises the number of symbols if a table of relocations uses more symbols than the hash table counts, because the
 * hash table has only the symbols that can be looked up. */
static const char *count_symbols(struct image *image, unsigned address_tag, unsigned size_tag)
{
    const unsigned char *entries;
    uint64_t count;

    TRY(find_table(image, address_tag, size_tag, sizeof(Elf64_Rela), &entries, &count));
    for (uint64_t i = 0; i < count; i++) {
        Elf64_Rela relocation;

        memcpy(&relocation, entries + i * sizeof relocation, sizeof relocation);
        if (ELF64_R_SYM(relocation.r_info) >= image->symbol_count)
            image->symbol_count = ELF64_R_SYM(relocation.r_info) + 1;
    }
    return NULL;
}

static const char *check_symbols(const struct image *image)
{
    const unsigned char *symbols =
        content(image, image->value[DT_SYMTAB], image->symbol_count * sizeof(Elf64_Sym));

    if (!symbols || (image->has[DT_SYMENT] && image->value[DT_SYMENT] != sizeof(Elf64_Sym)))
        return "its symbols are not in what is loaded";
    for (uint64_t i = 0; i < image->symbol_count; i++) {
        unsigned type;
        Elf64_Sym symbol;

        memcpy(&symbol, symbols + i * sizeof symbol, sizeof symbol);
        type = ELF64_ST_TYPE(symbol.st_info);
        if (!is_name(image, symbol.st_name))
            return "the name of a symbol is not in it";
        /* The loader uses the value of a local symbol without looking it up, so it must be defined. */
        if (i && symbol.st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) == STB_LOCAL)
            return "a local symbol is nowhere";
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS || type == STT_TLS)
            continue;
        if (type == STT_FUNC || type == STT_GNU_IFUNC ? !is_code(image, symbol.st_value)
                                                      : symbol.st_value > SPAN_MOST)
            return "a symbol is not where it should be";
        if (type == STT_OBJECT && !segment_at(image, symbol.st_value, symbol.st_size, PF_R))
            return "a symbol is not where it should be";
    }
    return NULL;
}

/* ---- versions of symbols ---- */

static void see_version(struct image *image, unsigned number)
{
    number &= 0x7fff;
    image->versions_most = number > image->versions_most ? number : image->versions_most;
}

static const char *check_needed_versions(struct image *image)
{
    const unsigned char *at;
    uint64_t address = image->verneed, next = 1;

    while (next) {
        Elf64_Verneed need;
        uint64_t part, step = 1;

        at = content(image, address, sizeof need);
        if (!at)
            return "the versions that it needs are not in what is loaded";
        memcpy(&need, at, sizeof need);
        if (need.vn_version != VER_NEED_CURRENT || !is_name(image, need.vn_file))
            return "a version that it needs is wrong";
        for (part = address + need.vn_aux; step; part += step) {
            Elf64_Vernaux version;

            at = content(image, part, sizeof version);
            if (!at)
                return "the versions that it needs are not in what is loaded";
            memcpy(&version, at, sizeof version);
            if (!is_name(image, version.vna_name))
                return "a version that it needs is wrong";
            see_version(image, version.vna_other);
            step = version.vna_next;
        }
        next = need.vn_next;
        address += next;
    }
    return NULL;
}

static const char *check_own_versions(struct image *image)
{
    const unsigned char *at;
    uint64_t address = image->verdef, next = 1;

    for (; next; address += next) {
        Elf64_Verdef own;
        Elf64_Verdaux name;

        at = content(image, address, sizeof own);
        if (!at)
            return "its versions are not in what is loaded";
        memcpy(&own, at, sizeof own);
        at = content(image, address + own.vd_aux, sizeof name);
        if (own.vd_version != VER_DEF_CURRENT || !at)
            return "a version of its own is wrong";
        memcpy(&name, at, sizeof name);
        if (!is_name(image, name.vda_name))
            return "a version of its own is wrong";
        see_version(image, own.vd_ndx);
        next = own.vd_next;
    }
    return NULL;
}

static const char *check_versions(struct image *image)
{
    const unsigned char *numbers;

    if (image->verneed)
        TRY(check_needed_versions(image));
    if (image->verdef)
        TRY(check_own_versions(image));
    if (!image->versym)
        return NULL;
    numbers = content(image, image->versym, image->symbol_count * 2);
    if (!numbers)
        return "the versions of its symbols are not in what is loaded";
    for (uint64_t i = 0; i < image->symbol_count; i++) {
        unsigned number = (numbers[2 * i] | (unsigned)numbers[2 * i + 1] << 8) & 0x7fff;

        if (number > VER_NDX_GLOBAL && number > image->versions_most)
            return "the version of a symbol is not in it";
    }
    return NULL;
}

/* ---- relocations ---- */

/* Returns true if the word at address is an entry of a table of functions that the loader calls (init, fini). Such
 * a word must become the address of code. */
static bool is_called(const struct image *image, uint64_t address)
{
    return (image->has[DT_INIT_ARRAY] && address - image->value[DT_INIT_ARRAY] < image->value[DT_INIT_ARRAYSZ]) ||
           (image->has[DT_FINI_ARRAY] && address - image->value[DT_FINI_ARRAY] < image->value[DT_FINI_ARRAYSZ]);
}

static const char *check_relocation(const struct image *image, const Elf64_Rela *relocation)
{
    uint64_t addend = (uint64_t)relocation->r_addend, written = 8;

    switch (ELF64_R_TYPE(relocation->r_info)) {
    case R_X86_64_NONE:
        return NULL;
    case R_X86_64_RELATIVE:
        if (is_called(image, relocation->r_offset) ? !is_code(image, addend) : addend > SPAN_MOST)
            return "a relocation leads out of it";
        break;
    case R_X86_64_IRELATIVE:
        if (!is_code(image, addend))
            return "a relocation leads out of it";
        break;
    case R_X86_64_TLSDESC:
        written = 16;
        break;
    case R_X86_64_64:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
    case R_X86_64_DTPMOD64:
    case R_X86_64_DTPOFF64:
    case R_X86_64_TPOFF64:
        break;
    default:
        return "a relocation is of a sort that kernels do not need";
    }
    return segment_at(image, relocation->r_offset, written, PF_R | PF_W) ? NULL
                                                                         : "a relocation is not in its data";
}

static const char *check_relocations(const struct image *image, unsigned address_tag, unsigned size_tag,
                                     uint64_t relative_count)
{
    const unsigned char *entries;
    uint64_t count;

    TRY(find_table(image, address_tag, size_tag, sizeof(Elf64_Rela), &entries, &count));
    if (relative_count > count)
        return "it has fewer relocations than it says";
    for (uint64_t i = 0; i < count; i++) {
        Elf64_Rela relocation;

        memcpy(&relocation, entries + i * sizeof relocation, sizeof relocation);
        if (i < relative_count && ELF64_R_TYPE(relocation.r_info) != R_X86_64_RELATIVE)
            return "its relocations are not in the order that it says";
        TRY(check_relocation(image, &relocation));
    }
    return NULL;
}

/* Checks packed relocations (DT_RELR): an address, then bitmaps, each for the 63 words that follow. */
static const char *check_packed_relocations(const struct image *image)
{
    const unsigned char *entries;
    uint64_t count, where = 0;

    TRY(find_table(image, DT_RELR, DT_RELRSZ, 8, &entries, &count));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t entry, bits;

        memcpy(&entry, entries + i * 8, sizeof entry);
        bits = entry & 1 ? entry >> 1 : 1;
        where = entry & 1 ? where : entry;
        for (uint64_t at = where; bits; bits >>= 1, at += 8) {
            const unsigned char *word = bits & 1 ? content(image, at, 8) : NULL;
            uint64_t addend;

            if (!(bits & 1))
                continue;
            if (!word || !segment_at(image, at, 8, PF_R | PF_W))
                return "a relocation is not in its data";
            memcpy(&addend, word, sizeof addend);
            if (is_called(image, at) ? !is_code(image, addend) : addend > SPAN_MOST)
                return "a relocation leads out of it";
        }
        where += entry & 1 ? 63 * 8 : 8;
    }
    return NULL;
}

static const char *check_all_relocations(const struct image *image)
{
    /* If one of these is missing, the loader aborts the process. */
    if ((image->has[DT_RELA] && (!image->has[DT_RELAENT] || image->value[DT_RELAENT] != sizeof(Elf64_Rela))) ||
        (image->has[DT_JMPREL] && (!image->has[DT_PLTREL] || image->value[DT_PLTREL] != DT_RELA)) ||
        (image->has[DT_PLTREL] && image->value[DT_PLTREL] != DT_RELA) ||
        (image->has[DT_RELR] && (!image->has[DT_RELRENT] || image->value[DT_RELRENT] != 8)))
        return "its relocations are of a wrong sort";
    if (image->has[DT_JMPREL] &&
        (!image->has[DT_PLTGOT] || !segment_at(image, image->value[DT_PLTGOT], 24, PF_R | PF_W)))
        return "its table of calls is not in its data";
    TRY(check_relocations(image, DT_RELA, DT_RELASZ, image->rela_count));
    TRY(check_relocations(image, DT_JMPREL, DT_PLTRELSZ, 0));
    return check_packed_relocations(image);
}

/* ---- functions that the loader calls ---- */

static bool has_relocation(const struct image *image, uint64_t address)
{
    const unsigned char *entries;
    uint64_t count;

    if (image->has[DT_RELR])
        return true;
    if (find_table(image, DT_RELA, DT_RELASZ, sizeof(Elf64_Rela), &entries, &count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        Elf64_Rela relocation;

        memcpy(&relocation, entries + i * sizeof relocation, sizeof relocation);
        if (relocation.r_offset == address)
            return true;
    }
    return false;
}

static const char *check_called(const struct image *image, unsigned function_tag, unsigned list_tag,
                                unsigned list_size_tag)
{
    const unsigned char *list;
    uint64_t count;

    if (image->has[function_tag] && !is_code(image, image->value[function_tag]))
        return "a function that is called when it is loaded is no code";
    TRY(find_table(image, list_tag, list_size_tag, 8, &list, &count));
    for (uint64_t i = 0; i < count; i++)
        if (!has_relocation(image, image->value[list_tag] + i * 8))
            return "a function that is called when it is loaded is no code";
    return NULL;
}

static const char *check_image(struct image *image)
{
    TRY(read_headers(image));
    TRY(check_segments(image));
    TRY(read_dynamic(image));
    TRY(check_strings(image));
    if (!image->gnu_hash && !image->has[DT_HASH])
        return "it has no hash table";
    if (image->gnu_hash)
        TRY(read_gnu_hash(image));
    if (image->has[DT_HASH])
        TRY(read_old_hash(image));
    TRY(count_symbols(image, DT_RELA, DT_RELASZ));
    TRY(count_symbols(image, DT_JMPREL, DT_PLTRELSZ));
    TRY(check_symbols(image));
    TRY(check_versions(image));
    TRY(check_all_relocations(image));
    TRY(check_called(image, DT_INIT, DT_INIT_ARRAY, DT_INIT_ARRAYSZ));
    return check_called(image, DT_FINI, DT_FINI_ARRAY, DT_FINI_ARRAYSZ);
}

leat_status cpu_image_check(const void *start, size_t bytes)
{
    struct image image = {.start = start, .bytes = bytes};
    const char *wrong = check_image(&image);

    if (!wrong)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_IMAGE,
                      "%zu bytes that are not a whole shared object for x86-64: %s; build or copy it again", bytes,
                      wrong);
}
