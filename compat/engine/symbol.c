/*
 * symbol.c - finds symbols: variables of the program, which kernels of the CPU device access directly. A GPU has
 * no symbols, because only a device compiler can create them.
 *
 * The addresses and sizes of variables are in the symbol tables of the program and its libraries. The dynamic
 * linker can search the dynamic table; .symtab in the file also has static variables. A stripped file has only the
 * dynamic table, to which -rdynamic adds all global variables. The size of a variable that is not in that table is
 * unknown, so the end of its segment is the limit.
 */
#include "base/lock.h"
#include "engine/inside.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct variable {
    uintptr_t address;
    size_t bytes;
};

/* The variables of one loaded file: the program or a library. */
struct file {
    struct file *next;
    uintptr_t base;
    bool has_table;
    size_t count;
    struct variable *variables; /* sorted by address */
};

/* Guards files and unloaded. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static struct file *files LEATI_GUARDED_BY(lock);
static unsigned long long unloaded; /* the dynamic linker's count of unloaded files when files were read */

/* The loaded file and the segment that contain an address. */
struct place {
    uintptr_t address;
    uintptr_t base, end; /* load address of the file, and end of the segment */
    unsigned long long unloaded;
    char path[4096];
};

static int look_at_file(struct dl_phdr_info *info, size_t bytes, void *argument)
{
    struct place *place = argument;

    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;

        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) || place->address - start >= segment->p_memsz)
            continue;
        place->base = info->dlpi_addr;
        place->end = start + segment->p_memsz;
        place->unloaded = info->dlpi_subs;
        strncpy(place->path, *info->dlpi_name ? info->dlpi_name : "/proc/self/exe", sizeof place->path - 1);
        return 1;
    }
    return 0;
}

/* ---- .symtab of a file ---- */

static int compare(const void *first, const void *second)
{
    uintptr_t a = ((const struct variable *)first)->address, b = ((const struct variable *)second)->address;

    return a < b ? -1 : a > b;
}

static bool within(uint64_t offset, uint64_t bytes, size_t limit)
{
    return offset <= limit && bytes <= limit - offset;
}

static bool take_variables(const char *image, const Elf64_Shdr *section, struct file *file)
{
    size_t count = section->sh_size / sizeof(Elf64_Sym);
    Elf64_Sym symbol;

    file->variables = malloc((count ? count : 1) * sizeof *file->variables);
    if (!file->variables)
        return false;
    for (size_t i = 0; i < count; i++) {
        memcpy(&symbol, image + section->sh_offset + i * sizeof symbol, sizeof symbol);
        if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_shndx != SHN_UNDEF && symbol.st_size)
            file->variables[file->count++] =
                (struct variable){file->base + (uintptr_t)symbol.st_value, (size_t)symbol.st_size};
    }
    qsort(file->variables, file->count, sizeof *file->variables, compare);
    file->has_table = true;
    return true;
}

/* Reads the variables from .symtab of a file's image. Returns false if out of memory. */
static bool read_image(const char *image, size_t bytes, struct file *file)
{
    Elf64_Ehdr header;
    Elf64_Shdr section;

    if (bytes < sizeof header)
        return true;
    memcpy(&header, image, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_shentsize != sizeof section ||
        !within(header.e_shoff, (uint64_t)header.e_shnum * sizeof section, bytes))
        return true;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        memcpy(&section, image + header.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type == SHT_SYMTAB && within(section.sh_offset, section.sh_size, bytes))
            return take_variables(image, &section, file);
    }
    return true;
}

static bool read_file(const char *path, struct file *file)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    bool done = true;
    char *image;

    if (fd < 0)
        return true;
    if (!fstat(fd, &status) && status.st_size > 0) {
        image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (image != MAP_FAILED) {
            done = read_image(image, (size_t)status.st_size, file);
            munmap(image, (size_t)status.st_size);
        }
    }
    close(fd);
    return done;
}

/* ---- cached files, with the lock held ---- */

static void forget_files(void) LEATI_REQUIRES(lock)
{
    leati_assert_locked(&lock);
    while (files) {
        struct file *gone = files;

        files = gone->next;
        free(gone->variables);
        free(gone);
    }
}

/* Returns the variables of the file at this place. Reads the file if it has not been read. Returns NULL if out of
 * memory. */
static const struct file *file_at(const struct place *place) LEATI_REQUIRES(lock)
{
    struct file *file;

    leati_assert_locked(&lock);
    /* A file was unloaded, so another file may have been loaded at its address. */
    if (unloaded != place->unloaded)
        forget_files();
    unloaded = place->unloaded;
    for (file = files; file && file->base != place->base; file = file->next)
        ;
    if (file)
        return file;
    file = calloc(1, sizeof *file);
    if (!file)
        return NULL;
    file->base = place->base;
    if (!read_file(place->path, file)) {
        free(file);
        return NULL;
    }
    file->next = files;
    files = file;
    return file;
}

/* Returns the size of the largest variable that starts at address, or 0 if none does. */
static size_t variable_bytes(const struct file *file, uintptr_t address)
{
    size_t low = 0, high = file->count, bytes = 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (file->variables[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < file->count && file->variables[low].address == address; low++)
        if (file->variables[low].bytes > bytes)
            bytes = file->variables[low].bytes;
    return bytes;
}

/* ---- symbols ---- */

/* Returns the size of a symbol from the dynamic symbol table, or 0 if the table does not have it. */
static size_t dynamic_bytes(const void *symbol)
{
    const ElfW(Sym) *found = NULL;
    Dl_info info;

    return dladdr1(symbol, &info, (void **)(void *)&found, RTLD_DL_SYMENT) && found && info.dli_saddr == symbol &&
                   ELF64_ST_TYPE(found->st_info) == STT_OBJECT
               ? (size_t)found->st_size
               : 0;
}

static int check_device(void)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    int ordinal = 0;

    LEATC_TRY(leatc_device_get(&ordinal));
    LEATC_TRY(leatc_device_describe(ordinal, &info));
    return strcmp(info.driver, "cpu") ? LEATC_INVALID_SYMBOL : LEATC_OK;
}

/* Finds the size of a symbol. *exact: true if *bytes is the size of the variable, false if it is the distance to
 * the end of the segment. */
static int find_symbol(const void *symbol, size_t *bytes, bool *exact)
{
    struct place place = {.address = (uintptr_t)symbol};
    const struct file *file;
    bool has_table;

    LEATC_TRY(check_device());
    *exact = true;
    *bytes = symbol ? dynamic_bytes(symbol) : 0;
    if (*bytes)
        return LEATC_OK;
    if (!symbol || !dl_iterate_phdr(look_at_file, &place))
        return LEATC_INVALID_SYMBOL;
    leati_lock(&lock);
    file = file_at(&place);
    *bytes = file ? variable_bytes(file, place.address) : 0;
    has_table = file && file->has_table;
    leati_unlock(&lock);
    if (!file)
        return LEATC_OUT_OF_MEMORY;
    if (*bytes)
        return LEATC_OK;
    *exact = false;
    *bytes = place.end - place.address;
    return has_table ? LEATC_INVALID_SYMBOL : LEATC_OK;
}

int leatc_symbol_range(const void *symbol, size_t offset, size_t count, void **ptr)
{
    size_t bytes = 0;
    bool exact;

    LEATC_TRY(find_symbol(symbol, &bytes, &exact));
    if (offset > bytes || count > bytes - offset)
        return LEATC_INVALID_VALUE;
    *ptr = (char *)(uintptr_t)symbol + offset;
    return LEATC_OK;
}

int leatc_symbol_bytes(const void *symbol, size_t *bytes)
{
    size_t found = 0;
    bool exact;

    LEATC_TRY(find_symbol(symbol, &found, &exact));
    if (!exact)
        return LEATC_INVALID_SYMBOL;
    *bytes = found;
    return LEATC_OK;
}
