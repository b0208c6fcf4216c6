/*
 * lookups.c - prints where lookups of the driver's functions lead: to replacements of libleat-run, to the driver's
 * own functions, or nowhere. tests/dropin/lookups.txt has what must come under "leat run"; without it, all lines
 * that name a replacement must name the driver's function. With the argument client_lookups.txt, it repeats the
 * lookups of that file.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int (*lookup_1_t)(const char *, void **, int, uint64_t);
typedef int (*lookup_2_t)(const char *, void **, int, uint64_t, int *);

void *dlsym_first(void *handle, const char *name);
#ifdef __x86_64__
__asm__(".symver dlsym_first, dlsym@GLIBC_2.2.5");
#else
__asm__(".symver dlsym_first, dlsym@GLIBC_2.17");
#endif

void *next_lookup(void);

/* Writes what an address is: "run:NAME" for a replacement, "driver:NAME", or "none". */
static const char *describe(char text[100], void *function)
{
    const char *file, *whose;
    Dl_info info;

    if (!function)
        return "none";
    if (!dladdr(function, &info))
        return "nowhere";
    file = strrchr(info.dli_fname, '/');
    file = file ? file + 1 : info.dli_fname;
    whose = strstr(file, "libleat-run") ? "run" : strstr(file, "libcuda") ? "driver" : "elsewhere";
    snprintf(text, 100, "%s:%s", whose, info.dli_sname && info.dli_saddr == function ? info.dli_sname : "-");
    return text;
}

static const char *const symbols[] = {
    "cuInit",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuMemcpyHtoD",
    "cuMemcpyHtoD_v2",
    "cuMemcpyHtoD_v2_ptds",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyHtoDAsync_v2_ptsz",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyAsync",
    "cuMemcpyAsync_ptsz",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpy2DAsync_v2_ptsz",
    "cuMemcpyBatchAsync",
    "cuMemcpyBatchAsync_v2_ptsz",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemAlloc_v2",
    "cuDevicePrimaryCtxRelease_v2",
    "cuNothing",
};

static const char *const bases[] = {
    "",
    "cuInit",
    "cuGetProcAddress",
    "cuMemcpyHtoD",
    "cuMemcpyDtoH",
    "cuMemcpyHtoDAsync",
    "cuMemcpyDtoHAsync",
    "cuMemcpy",
    "cuMemcpyAsync",
    "cuMemcpy2D",
    "cuMemcpy2DUnaligned",
    "cuMemcpy2DAsync",
    "cuMemcpyBatchAsync",
    "cuMemHostAlloc",
    "cuMemAllocHost",
    "cuMemHostRegister",
    "cuMemAlloc",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxReset",
    "cuStreamSynchronize",
    "cuNothing",
};

static const int versions[] = {0, 2000, 3020, 7000, 11030, 12080, 13000};

static lookup_1_t lookup_1;
static lookup_2_t lookup_2;

/* Prints one line: the name, the CUDA version, what is found without flags, with that of the legacy default stream
 * and with that of per-thread default streams, and how the lookup ended. Both forms of the call must find the
 * same. */
static void look_up(const char *base, int version)
{
    char text[100];

    printf("%s %d:", base[0] ? base : "(empty)", version);
    for (uint64_t flags = 0; flags < 3; flags++) {
        void *found = text, *first = NULL;
        int why = -1, code = lookup_2(base, &found, version, flags, &why);

        printf(" %s", describe(text, found));
        if (code || why)
            printf("(%d,%d)", code, why);
        if (lookup_1(base, &first, version, flags) != 0)
            first = NULL;
        if (first != found)
            printf("(first form: %s)", describe(text, first));
    }
    printf("\n");
}

/* Repeats the lookups of a file, and prints each with the address that it finds. */
static int repeat(void *library, const char *path)
{
    FILE *file = fopen(path, "re");
    char line[400], name[100], text[100];
    unsigned long flags;
    int version;

    if (!file)
        return 1;
    while (fgets(line, sizeof line, file)) {
        void *found = NULL;

        if (sscanf(line, "dlsym %99s", name) == 1) {
            printf("dlsym %s %s\n", name, describe(text, dlsym(library, name)));
        } else if (sscanf(line, "v2 %99s %d %lu", name, &version, &flags) == 3) {
            (void)lookup_2(strcmp(name, "(empty)") != 0 ? name : "", &found, version, flags, NULL);
            printf("v2 %s %d %lu %s\n", name, version, flags, describe(text, found));
        }
    }
    fclose(file);
    return 0;
}

int main(int count, char **arguments)
{
    void *library, *found;
    char text[100];

    if (count > 1) {
        library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        found = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
        memcpy(&lookup_2, &found, sizeof found);
        return found ? repeat(library, arguments[1]) : 1;
    }
    /* Nothing may be found before the driver is loaded. */
    printf("default before: %s\n", describe(text, dlsym(RTLD_DEFAULT, "cuMemcpy")));
    printf("next before: %s\n", describe(text, dlsym(RTLD_NEXT, "cuMemcpy")));
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return 1;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        (void)dlerror();
        printf("%s:", symbols[i]);
        printf(" %s", describe(text, dlsym(library, symbols[i])));
        printf("%s", dlerror() ? " (error)" : "");
        printf(" %s\n", describe(text, dlsym_first(library, symbols[i])));
    }
    printf("next of another library: %s\n", describe(text, next_lookup()));
    found = dlsym(library, "cuGetProcAddress");
    memcpy(&lookup_1, &found, sizeof found);
    found = dlsym(library, "cuGetProcAddress_v2");
    memcpy(&lookup_2, &found, sizeof found);
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++)
        for (size_t v = 0; v < sizeof versions / sizeof versions[0]; v++)
            look_up(bases[i], versions[v]);
    return 0;
}
