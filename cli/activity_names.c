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

/*
 * Returns true if the decoded name is surely short. A name may refer to its earlier parts (S_, T0_), which have
 * such references themselves: at worst the text triples with each three references. Each expansion of a pack (Dp)
 * may write it for all arguments. Letters of identifiers may count too; then a name stays encoded that need not.
 */
static bool is_short_decoded(const char *text)
{
    enum { EXPANSIONS_MAX = 2 };
    const double longest = 1 << 22, growth = 1.4423; /* the cube root of 3 */
    double length = (double)strlen(text);
    unsigned expansions = 0;
    const char *at;

    for (at = text; *at && length <= longest; at++) {
        size_t digits = 0;

        if (*at == 'S' || *at == 'T')
            digits = strspn(at + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if ((*at == 'S' || *at == 'T') && at[1 + digits] == '_')
            length *= growth;
        expansions += at[0] == 'D' && at[1] == 'p';
    }
    return length <= longest && expansions <= EXPANSIONS_MAX;
}

char *activity_name_decode(const char *text)
{
    static decode_function decode;
    static bool looked;
    int status;

    if (text[0] != '_' || text[1] != 'Z' || !is_short_decoded(text))
        return NULL;
    if (!looked)
        decode = find();
    looked = true;
    return decode ? decode(text, NULL, NULL, &status) : NULL;
}
