/*
 * activity_names.c - see activity_names.h. The function that decodes names belongs to the library of C++, which
 * leat does not need otherwise. So it is loaded if a trace has such names.
 */
#include "activity_names.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef char *(*decode_function)(const char *name, char *buffer, size_t *bytes, int *status);

static decode_function find(void)
{
    static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};
    decode_function found = NULL;

    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0] && !found; i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
        void *symbol = library ? dlsym(library, "__cxa_demangle") : NULL;

        memcpy(&found, &symbol, sizeof symbol);
    }
    return found;
}

char *activity_name_decode(const char *text)
{
    static decode_function decode;
    static bool looked;
    int status;

    if (text[0] != '_' || text[1] != 'Z')
        return NULL;
    if (!looked)
        decode = find();
    looked = true;
    return decode ? decode(text, NULL, NULL, &status) : NULL;
}
