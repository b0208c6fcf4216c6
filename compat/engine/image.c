/*
 * image.c - lists the kernels of an image of device code by name: PTX, a cubin, or a shared object for the CPU
 * device.
 */
#include "engine/inside.h"

#include <elf.h>
#include <string.h>

#ifndef EM_CUDA
#define EM_CUDA 190
#endif
#define STO_CUDA_ENTRY 0x10 /* bit of st_other in a cubin: the function is a kernel */
#define CPU_PREFIX "leat_cpu_kernel_"

static bool within(uint64_t offset, uint64_t bytes, size_t limit)
{
    return offset <= limit && bytes <= limit - offset;
}

/* Calls visit for the kernels of a PTX text: ".entry NAME(". */
static int visit_text(const char *text, size_t bytes, leatc_kernel_visit visit, void *argument)
{
    const char *end = text + bytes, *at = text;
    int count = 0;

    while ((at = memmem(at, (size_t)(end - at), ".entry", 6))) {
        const char *name;

        for (at += 6; at < end && strchr(" \t\r\n", *at) && *at;)
            at++;
        for (name = at; at < end && *at && !strchr(" \t\r\n(", *at);)
            at++;
        if (at == name)
            continue;
        count++;
        if (!visit(argument, name, (size_t)(at - name)))
            return count;
    }
    return count;
}

/* Returns the name of the kernel that a symbol is, or NULL. names: the string table, which ends in a zero. */
static const char *kernel_of(const Elf64_Sym *symbol, bool gpu, const char *names, size_t names_bytes)
{
    const char *name = names + symbol->st_name;

    if (symbol->st_name >= names_bytes || symbol->st_shndx == SHN_UNDEF)
        return NULL;
    if (gpu)
        return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_other & STO_CUDA_ENTRY ? name : NULL;
    return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && !strncmp(name, CPU_PREFIX, strlen(CPU_PREFIX))
               ? name + strlen(CPU_PREFIX)
               : NULL;
}

static int visit_table(const char *image, size_t bytes, const Elf64_Shdr *table, const Elf64_Shdr *strings,
                       bool gpu, leatc_kernel_visit visit, void *argument)
{
    const char *names = image + strings->sh_offset, *name;
    Elf64_Sym symbol;
    int count = 0;

    if (!within(table->sh_offset, table->sh_size, bytes) || !within(strings->sh_offset, strings->sh_size, bytes) ||
        !strings->sh_size || names[strings->sh_size - 1])
        return -1;
    for (size_t i = 0; i < table->sh_size / sizeof symbol; i++) {
        memcpy(&symbol, image + table->sh_offset + i * sizeof symbol, sizeof symbol);
        name = kernel_of(&symbol, gpu, names, strings->sh_size);
        if (!name)
            continue;
        count++;
        if (!visit(argument, name, strlen(name)))
            return count;
    }
    return count;
}

static int visit_elf(const char *image, size_t bytes, leatc_kernel_visit visit, void *argument)
{
    Elf64_Shdr table, strings;
    Elf64_Ehdr header;
    bool gpu;

    if (bytes < sizeof header)
        return -1;
    memcpy(&header, image, sizeof header);
    gpu = header.e_machine == EM_CUDA;
    if (header.e_shentsize != sizeof table ||
        !within(header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize, bytes))
        return -1;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        memcpy(&table, image + header.e_shoff + i * sizeof table, sizeof table);
        if (table.sh_type != (gpu ? SHT_SYMTAB : SHT_DYNSYM) || table.sh_link >= header.e_shnum)
            continue;
        memcpy(&strings, image + header.e_shoff + table.sh_link * sizeof strings, sizeof strings);
        return visit_table(image, bytes, &table, &strings, gpu, visit, argument);
    }
    return 0;
}

int leatc_image_kernels(const void *image, size_t bytes, leatc_kernel_visit visit, void *argument)
{
    const char *text = image;

    if (bytes >= SELFMAG && !memcmp(image, ELFMAG, SELFMAG))
        return visit_elf(image, bytes, visit, argument);
    return memmem(text, bytes, ".version", 8) && memmem(text, bytes, ".target", 7)
               ? visit_text(text, bytes, visit, argument)
               : -1;
}
