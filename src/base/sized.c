/* sized.c - see sized.h. */
#include "base/sized.h"

#include "base/assert.h"
#include "base/error.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Returns the field size, the first field of every struct that can grow. */
static size_t size_of(const void *given)
{
    size_t size;

    memcpy(&size, given, sizeof size);
    return size;
}

/* Writes "LEAT_POOL_OPTIONS_INIT" for "leat_pool_options". */
static void write_init_name(char *name, size_t bytes, const char *type)
{
    snprintf(name, bytes, "%s_INIT", type);
    for (; *name; name++)
        *name = (char)toupper((unsigned char)*name);
}

static leat_status check_odd(const char *what, const char *name, const char *type, const unsigned char *given,
                             size_t known_bytes)
{
    size_t size = size_of(given);
    char init[64];

    write_init_name(init, sizeof init, type);
    if (size < sizeof size || size > LEATI_SIZED_MAX)
        return leati_fail(LEAT_ERROR_INVALID,
                          "%s: %s->size is %zu; initialise %s with %s, which sets size to sizeof(%s), %zu here",
                          what, name, size, name, init, type, known_bytes);
    for (size_t i = known_bytes; i < size; i++)
        if (given[i])
            return leati_fail(LEAT_ERROR_INVALID,
                              "%s: %s->size is %zu and byte %zu of %s is not 0; this library's %s has %zu bytes: set the fields that only newer versions have to 0, or use a newer library",
                              what, name, size, i, name, type, known_bytes);
    return LEAT_OK;
}

leat_status leati_sized_check(const char *what, const char *name, const char *type, const void *given,
                              size_t known_bytes)
{
    leati_assert(known_bytes <= LEATI_SIZED_MAX);
    if (!given)
        return leati_fail(LEAT_ERROR_INVALID, "%s: %s is NULL; pass the address of a %s", what, name, type);
    return size_of(given) == known_bytes ? LEAT_OK : check_odd(what, name, type, given, known_bytes);
}

void leati_sized_read(void *known, size_t known_bytes, const void *given)
{
    size_t size = size_of(given);

    leati_assert(size >= sizeof size && size <= LEATI_SIZED_MAX);
    memset(known, 0, known_bytes);
    memcpy(known, given, size < known_bytes ? size : known_bytes);
    memcpy(known, &known_bytes, sizeof known_bytes);
}

void leati_sized_write(void *given, const void *filled, size_t known_bytes)
{
    size_t size = size_of(given);

    leati_assert(size >= sizeof size && size <= LEATI_SIZED_MAX);
    size = size < known_bytes ? size : known_bytes;
    memcpy((char *)given + sizeof size, (const char *)filled + sizeof size, size - sizeof size);
}
