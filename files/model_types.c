/* model_types.c - the element types, and how each format names them. */
#include "model_files.h"

#include <stdio.h>
#include <string.h>

/* The number of types of safetensors 0.8. They are the first ones of leatm_model_types. */
enum { SAFETENSORS = 22 };
const struct leatm_model_type leatm_model_types[] = {
    {"BOOL", 1, 1},
    {"F4", 2, 1},
    {"F6_E2M3", 4, 3},
    {"F6_E3M2", 4, 3},
    {"U8", 1, 1},
    {"I8", 1, 1},
    {"F8_E5M2", 1, 1},
    {"F8_E4M3", 1, 1},
    {"F8_E8M0", 1, 1},
    {"F8_E4M3FNUZ", 1, 1},
    {"F8_E5M2FNUZ", 1, 1},
    {"I16", 1, 2},
    {"U16", 1, 2},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"I32", 1, 4},
    {"U32", 1, 4},
    {"F32", 1, 4},
    {"C64", 1, 8},
    {"F64", 1, 8},
    {"I64", 1, 8},
    {"U64", 1, 8},
    /* types of npy only: complex numbers of two F64, and big-endian numbers */
    {"C128", 1, 16},
    {"I16_BE", 1, 2},
    {"U16_BE", 1, 2},
    {"F16_BE", 1, 2},
    {"I32_BE", 1, 4},
    {"U32_BE", 1, 4},
    {"F32_BE", 1, 4},
    {"C64_BE", 1, 8},
    {"F64_BE", 1, 8},
    {"I64_BE", 1, 8},
    {"U64_BE", 1, 8},
    {"C128_BE", 1, 16},
    /* types of GGUF only: the block types of ggml */
    {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},
    {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},
    {"Q8_1", 32, 36},
    {"Q2_K", 256, 84},
    {"Q3_K", 256, 110},
    {"Q4_K", 256, 144},
    {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},
    {"Q8_K", 256, 292},
    {"IQ2_XXS", 256, 66},
    {"IQ2_XS", 256, 74},
    {"IQ3_XXS", 256, 98},
    {"IQ1_S", 256, 50},
    {"IQ4_NL", 32, 18},
    {"IQ3_S", 256, 110},
    {"IQ2_S", 256, 82},
    {"IQ4_XS", 256, 136},
    {"IQ1_M", 256, 56},
    {"TQ1_0", 256, 54},
    {"TQ2_0", 256, 66},
    {"MXFP4", 32, 17},
    {"NVFP4", 64, 36},
    {"Q1_0", 128, 18},
    {"Q2_0", 64, 18},
};

static int type_among(size_t count, const char *name, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(leatm_model_types[i].name) == bytes && !memcmp(leatm_model_types[i].name, name, bytes))
            return (int)i;
    return -1;
}

int leatm_type_of_safetensors(const char *name, size_t bytes)
{
    return type_among(SAFETENSORS, name, bytes);
}

static int type_by_name(const char *name)
{
    return type_among(sizeof leatm_model_types / sizeof leatm_model_types[0], name, strlen(name));
}

int leatm_type_of_npy(const char *descr, size_t bytes)
{
    static const struct {
        const char *kind, *name;
        bool one_byte;
    } types[] = {
        {"b1", "BOOL", true}, {"i1", "I8", true},     {"u1", "U8", true},   {"i2", "I16", false},
        {"u2", "U16", false}, {"f2", "F16", false},   {"i4", "I32", false}, {"u4", "U32", false},
        {"f4", "F32", false}, {"i8", "I64", false},   {"u8", "U64", false}, {"f8", "F64", false},
        {"c8", "C64", false}, {"c16", "C128", false},
    };
    char name[16];

    for (size_t i = 0; bytes && i < sizeof types / sizeof types[0]; i++) {
        if (strlen(types[i].kind) != bytes - 1 || memcmp(types[i].kind, descr + 1, bytes - 1) != 0)
            continue;
        if (descr[0] == '<' || (types[i].one_byte && (descr[0] == '|' || descr[0] == '>')))
            return type_by_name(types[i].name);
        if (descr[0] != '>')
            return -1;
        snprintf(name, sizeof name, "%s_BE", types[i].name);
        return type_by_name(name);
    }
    return -1;
}

int leatm_type_of_ggml(uint32_t number, const char **removed)
{
    /* The names of ggml's types, by number. A '-' in front marks a type that ggml has removed. */
    static const char *const names[] = {
        "F32",       "F16",       "Q4_0",    "Q4_1",  "-Q4_2",       "-Q4_3",       "Q5_0",        "Q5_1",
        "Q8_0",      "Q8_1",      "Q2_K",    "Q3_K",  "Q4_K",        "Q5_K",        "Q6_K",        "Q8_K",
        "IQ2_XXS",   "IQ2_XS",    "IQ3_XXS", "IQ1_S", "IQ4_NL",      "IQ3_S",       "IQ2_S",       "IQ4_XS",
        "I8",        "I16",       "I32",     "I64",   "F64",         "IQ1_M",       "BF16",        "-Q4_0_4_4",
        "-Q4_0_4_8", "-Q4_0_8_8", "TQ1_0",   "TQ2_0", "-IQ4_NL_4_4", "-IQ4_NL_4_8", "-IQ4_NL_8_8", "MXFP4",
        "NVFP4",     "Q1_0",      "Q2_0",
    };

    *removed = NULL;
    if (number >= sizeof names / sizeof names[0])
        return -1;
    if (names[number][0] != '-')
        return type_by_name(names[number]);
    *removed = names[number] + 1;
    return -1;
}
