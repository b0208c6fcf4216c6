/* report.c - see report.h. */
#include "report.h"

#include <leat/leat.h>

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- failures ---- */

leat_status leatc_fail(leat_status status, const char *format, ...)
{
    char text[2000];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return leat_error_set(status, text);
}

leat_status leatc_fail_in(leat_status status, const char *format, ...)
{
    char text[2000];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof text)
        snprintf(text + length, sizeof text - (size_t)length, ": %s", leat_last_error());
    return leat_error_set(status, text);
}

const char *leatc_shown(struct leatc_shown *shown, const char *text, size_t bytes)
{
    size_t room = sizeof shown->text - 1, i;

    for (i = 0; i < bytes && i < room; i++)
        shown->text[i] = (char)(text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?');
    shown->text[i] = '\0';
    if (bytes > room)
        memcpy(shown->text + room - 3, "...", 3);
    return shown->text;
}

/* ---- structs that can grow ---- */

/* No struct of any version is larger, so a larger value means that the caller has not set size. */
enum { SIZED_MAX = 4096 };

/* Writes "LEAT_MODEL_OPTIONS_INIT" for "leat_model_options". */
static void write_init_name(char *name, size_t bytes, const char *type)
{
    snprintf(name, bytes, "%s_INIT", type);
    for (; *name; name++)
        *name = (char)toupper((unsigned char)*name);
}

size_t leatc_size_of(const void *given)
{
    size_t size;

    memcpy(&size, given, sizeof size);
    return size;
}

leat_status leatc_sized_check(const char *field, const char *type, const void *given, size_t known_bytes)
{
    const unsigned char *bytes = given;
    size_t size = leatc_size_of(given);
    char init[64];

    write_init_name(init, sizeof init, type);
    if (size < sizeof size || size > SIZED_MAX)
        return leatc_fail(LEAT_ERROR_INVALID, "%s is %zu; start with %s, which sets size to sizeof(%s), %zu here",
                          field, size, init, type, known_bytes);
    for (size_t i = known_bytes; i < size; i++)
        if (bytes[i])
            return leatc_fail(
                LEAT_ERROR_INVALID,
                "%s is %zu and byte %zu of the struct is not 0; this library's %s has %zu bytes: set the fields that only newer versions have to 0, or use a newer library",
                field, size, i, type, known_bytes);
    return LEAT_OK;
}

void leatc_sized_read(void *known, size_t known_bytes, const void *given)
{
    size_t size = leatc_size_of(given);

    memset(known, 0, known_bytes);
    memcpy(known, given, size < known_bytes ? size : known_bytes);
    memcpy(known, &known_bytes, sizeof known_bytes);
}

void leatc_sized_write(void *given, const void *filled, size_t known_bytes)
{
    size_t size = leatc_size_of(given);

    size = size < known_bytes ? size : known_bytes;
    memcpy((char *)given + sizeof size, (const char *)filled + sizeof size, size - sizeof size);
}

/* ---- time ---- */

uint64_t leatc_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t leatc_end_ns(uint64_t after_ns)
{
    uint64_t now = leatc_now_ns();

    return after_ns < UINT64_MAX - now ? now + after_ns : UINT64_MAX;
}
