/*
 * record_lookups.c - an LD_AUDIT library that writes which functions of libcuda.so.1 a program looks up, for
 * client_lookups.txt: LD_AUDIT=.../record_lookups.so RECORD_LOOKUPS=FILE program.
 *
 * RECORD_LOOKUPS names the file, to which each lookup adds a line: "dlsym NAME", "v1 NAME VERSION FLAGS SYMBOL"
 * for cuGetProcAddress() and "v2 ..." for cuGetProcAddress_v2(). SYMBOL is the exported function whose address the
 * driver returned, "inner" for a function that it does not export, or "none" where the lookup failed.
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*lookup_1_t)(const char *, void **, int, uint64_t);
typedef int (*lookup_2_t)(const char *, void **, int, uint64_t, int *);

static lookup_1_t lookup_1;
static lookup_2_t lookup_2;

/* The exported functions of the driver. */
static const ElfW(Sym) * symbols;
static const char *strings;
static uintptr_t load_address;
static size_t symbol_count;

static void write_line(const char *text)
{
    const char *path = getenv("RECORD_LOOKUPS");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;

    if (file < 0)
        return;
    if (write(file, text, strlen(text)) < 0)
        _exit(99); /* a record with holes is worse than none */
    close(file);
}

/* Returns the number of symbols of a library, of which the GNU hash table has the last one. */
static size_t count_symbols(const uint32_t *hash)
{
    uint32_t buckets = hash[0], first = hash[1], words = hash[2], last = 0;
    const uint32_t *bucket = &hash[4 + words * (sizeof(ElfW(Addr)) / 4)], *chain = bucket + buckets;

    for (uint32_t i = 0; i < buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

static void read_symbols(const struct link_map *map)
{
    load_address = map->l_addr;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB)
            strings = (const char *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_GNU_HASH)
            symbol_count = count_symbols((const uint32_t *)entry->d_un.d_ptr);
    }
}

/* Returns the name of an exported function of the driver: that which begins with base, if several have the
 * address. */
static const char *name_of(const void *function, const char *base)
{
    const char *found = "inner";

    for (size_t i = 0; i < symbol_count; i++) {
        const char *name = strings + symbols[i].st_name;

        if (symbols[i].st_shndx == SHN_UNDEF || load_address + symbols[i].st_value != (uintptr_t)function)
            continue;
        found = name;
        if (!strncmp(name, base, strlen(base)))
            break;
    }
    return found;
}

static void write_lookup(const char *form, int code, const char *base, void *const *function, int version,
                         uint64_t flags)
{
    char line[300];

    snprintf(line, sizeof line, "%s %s %d %" PRIu64 " %s\n", form, base && base[0] ? base : "(empty)", version,
             flags, code || !function || !*function ? "none" : name_of(*function, base));
    write_line(line);
}

static int record_1(const char *base, void **function, int version, uint64_t flags);
static int record_2(const char *base, void **function, int version, uint64_t flags, int *why);

/* Puts the recording function in place of a function of this name, if it is one of the two lookups. The runtime
 * gets its lookup from another lookup. */
static void *record(const char *symbol, void *function)
{
    if (!strcmp(symbol, "cuGetProcAddress")) {
        memcpy(&lookup_1, &function, sizeof function);
        return (void *)(uintptr_t)record_1;
    }
    if (!strcmp(symbol, "cuGetProcAddress_v2")) {
        memcpy(&lookup_2, &function, sizeof function);
        return (void *)(uintptr_t)record_2;
    }
    return function;
}

static int record_1(const char *base, void **function, int version, uint64_t flags)
{
    int code = lookup_1(base, function, version, flags);

    write_lookup("v1", code, base, function, version, flags);
    if (!code && function && *function)
        *function = record(name_of(*function, base), *function);
    return code;
}

static int record_2(const char *base, void **function, int version, uint64_t flags, int *why)
{
    int code = lookup_2(base, function, version, flags, why);

    write_lookup("v2", code, base, function, version, flags);
    if (!code && function && *function)
        *function = record(name_of(*function, base), *function);
    return code;
}

/* ---- the loader's calls ---- */

unsigned la_version(unsigned version);
unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie);

unsigned la_version(unsigned version)
{
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    (void)space;
    *cookie = strstr(map->l_name, "libcuda.so") != NULL;
    if (*cookie)
        read_symbols(map);
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                       const char *name)
{
    char line[300];

    (void)index;
    if (!*to || *from)
        return symbol->st_value;
    if (*flags & LA_SYMB_DLSYM) {
        snprintf(line, sizeof line, "dlsym %s\n", name);
        write_line(line);
    }
    return (uintptr_t)record(name, (void *)symbol->st_value);
}
