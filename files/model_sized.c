/* model_sized.c - checks and copies structs of leat/model.h that can grow, by the rule of leat/base.h. */
#include "model_files.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No struct of any version is larger, so a larger value means that the caller has not set size. */
enum { SIZED_MAX = 4096 };

/* Writes "LEAT_MODEL_OPTIONS_INIT" for "leat_model_options". */
static void write_init_name(char *name, size_t bytes, const char *type)
{
    snprintf(name, bytes, "%s_INIT", type);
    for (; *name; name++)
        *name = (char)toupper((unsigned char)*name);
}

size_t leatm_size_of(const void *given)
{
    size_t size;

    memcpy(&size, given, sizeof size);
    return size;
}

leat_status leatm_sized_check(const char *field, const char *type, const void *given, size_t known_bytes)
{
    const unsigned char *bytes = given;
    size_t size = leatm_size_of(given);
    char init[64];

    write_init_name(init, sizeof init, type);
    if (size < sizeof size || size > SIZED_MAX)
        return leatm_model_fail(LEAT_ERROR_INVALID,
                                "%s is %zu; start with %s, which sets size to sizeof(%s), %zu here", field, size,
                                init, type, known_bytes);
    for (size_t i = known_bytes; i < size; i++)
        if (bytes[i])
            return leatm_model_fail(
                LEAT_ERROR_INVALID,
                "%s is %zu and byte %zu of the struct is not 0; this library's %s has %zu bytes: set the fields that only newer versions have to 0, or use a newer library",
                field, size, i, type, known_bytes);
    return LEAT_OK;
}

void leatm_sized_read(void *known, size_t known_bytes, const void *given)
{
    size_t size = leatm_size_of(given);

    memset(known, 0, known_bytes);
    memcpy(known, given, size < known_bytes ? size : known_bytes);
    memcpy(known, &known_bytes, sizeof known_bytes);
}

leat_status leatm_sized_read_list(const char *type, const void *items, size_t count, size_t known_bytes,
                                  void **known)
{
    size_t bytes = count ? leatm_size_of(items) : 0;
    char *list = calloc(count ? count : 1, known_bytes);

    *known = list;
    if (!list)
        return leatm_model_fail(LEAT_ERROR_HOST_MEMORY, "no memory for %zu items", count);
    for (size_t i = 0; i < count; i++) {
        const char *item = (const char *)items + i * bytes;
        char field[40];

        snprintf(field, sizeof field, "items[%zu].size", i);
        TRY(leatm_sized_check(field, type, item, known_bytes));
        if (leatm_size_of(item) != bytes)
            return leatm_model_fail(LEAT_ERROR_INVALID, "%s is %zu, and that of item 0 is %zu", field,
                                    leatm_size_of(item), bytes);
        leatm_sized_read(list + i * known_bytes, known_bytes, item);
    }
    return LEAT_OK;
}

void leatm_sized_write(void *given, const void *filled, size_t known_bytes)
{
    size_t size = leatm_size_of(given);

    size = size < known_bytes ? size : known_bytes;
    memcpy((char *)given + sizeof size, (const char *)filled + sizeof size, size - sizeof size);
}
