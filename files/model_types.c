/* model_types.c - the types of elements by name. */
#include "model_files.h"

#include <string.h>

/* Those of safetensors 0.8. */
const struct leatm_model_type leatm_model_types[] = {
    {"BOOL", 1, 1},        {"F4", 2, 1},      {"F6_E2M3", 4, 3}, {"F6_E3M2", 4, 3}, {"U8", 1, 1},
    {"I8", 1, 1},          {"F8_E5M2", 1, 1}, {"F8_E4M3", 1, 1}, {"F8_E8M0", 1, 1}, {"F8_E4M3FNUZ", 1, 1},
    {"F8_E5M2FNUZ", 1, 1}, {"I16", 1, 2},     {"U16", 1, 2},     {"F16", 1, 2},     {"BF16", 1, 2},
    {"I32", 1, 4},         {"U32", 1, 4},     {"F32", 1, 4},     {"C64", 1, 8},     {"F64", 1, 8},
    {"I64", 1, 8},         {"U64", 1, 8},
};

int leatm_type_by_name(const char *name, size_t bytes)
{
    for (int i = 0; i < (int)(sizeof leatm_model_types / sizeof leatm_model_types[0]); i++)
        if (strlen(leatm_model_types[i].name) == bytes && !memcmp(leatm_model_types[i].name, name, bytes))
            return i;
    return -1;
}
