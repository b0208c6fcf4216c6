/* net_report.c - helpers of the library: messages, structs that can grow, the clock (net.h). */
#include "net.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- failures ---- */

leat_status leatn_fail(leat_status status, const char *format, ...)
{
    char text[2000];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return leat_error_set(status, text);
}

leat_status leatn_fail_in(leat_status status, const char *format, ...)
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

/* libleat has no public call for this question. leat_stream_wait() checks it before its arguments, so a call with
 * NULL answers it; the message of the refused arguments is then taken back. */
leat_status leatn_check_permitted(const char *call)
{
    char before[2001];
    leat_status status;

    snprintf(before, sizeof before, "%s", leat_last_error());
    status = leat_stream_wait(NULL, NULL);
    if (status != LEAT_ERROR_NOT_PERMITTED)
        return leat_error_set(LEAT_OK, before);
    return leatn_fail(
        status,
        "%s: called from inside a host function, whose stream waits for it, or in a child process of fork() whose parent had a device open. Call it from another thread, or fork before any device is opened",
        call);
}

const char *leatn_shown(struct leatn_shown *shown, const char *text, size_t bytes)
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

/* Returns the first field, size, of a struct that can grow. */
static size_t size_of(const void *given)
{
    size_t size;

    memcpy(&size, given, sizeof size);
    return size;
}

/* Writes "LEAT_LINK_OPTIONS_INIT" for "leat_link_options". */
static void write_init_name(char *name, size_t bytes, const char *type)
{
    snprintf(name, bytes, "%s_INIT", type);
    for (; *name; name++)
        *name = (char)toupper((unsigned char)*name);
}

leat_status leatn_sized_check(const char *field, const char *type, const void *given, size_t known_bytes)
{
    const unsigned char *bytes = given;
    size_t size = size_of(given);
    char init[64];

    write_init_name(init, sizeof init, type);
    if (size < sizeof size || size > SIZED_MAX)
        return leatn_fail(LEAT_ERROR_INVALID, "%s is %zu; start with %s, which sets size to sizeof(%s), %zu here",
                          field, size, init, type, known_bytes);
    for (size_t i = known_bytes; i < size; i++)
        if (bytes[i])
            return leatn_fail(
                LEAT_ERROR_INVALID,
                "%s is %zu and byte %zu of the struct is not 0; this library's %s has %zu bytes: set the fields that only newer versions have to 0, or use a newer library",
                field, size, i, type, known_bytes);
    return LEAT_OK;
}

void leatn_sized_read(void *known, size_t known_bytes, const void *given)
{
    size_t size = size_of(given);

    memset(known, 0, known_bytes);
    memcpy(known, given, size < known_bytes ? size : known_bytes);
    memcpy(known, &known_bytes, sizeof known_bytes);
}

void leatn_sized_write(void *given, const void *filled, size_t known_bytes)
{
    size_t size = size_of(given);

    size = size < known_bytes ? size : known_bytes;
    memcpy((char *)given + sizeof size, (const char *)filled + sizeof size, size - sizeof size);
}

/* ---- time ---- */

uint64_t leatn_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t leatn_end_ns(uint64_t after_ns)
{
    uint64_t now = leatn_now_ns();

    return after_ns > UINT64_MAX - now ? UINT64_MAX : now + after_ns;
}

int leatn_poll_ms(uint64_t end_ns)
{
    uint64_t now, left_ms;

    if (end_ns == UINT64_MAX)
        return -1;
    now = leatn_now_ns();
    if (end_ns <= now)
        return 0;
    left_ms = (end_ns - now - 1) / 1000000 + 1;
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}
