/*
 * text.c - writes numbers for people, such as "64 KiB", and reads them.
 */
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *text_bytes(char text[TEXT_MAX], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(text, TEXT_MAX, "%.*f %s", value == floor(value) ? 0 : 1, value, units[unit]);
    return text;
}

const char *text_figure(char text[TEXT_MAX], double value)
{
    double size = fabs(value);
    int decimals;

    if (size >= 1000 || size == 0)
        decimals = 0;
    else if (size >= 100)
        decimals = 1;
    else if (size >= 1)
        decimals = 2;
    else if (size >= 0.01)
        decimals = 3;
    else
        decimals = 5;
    snprintf(text, TEXT_MAX, "%.*f", decimals, value);
    return text;
}

bool text_parse_bytes(const char *text, const char **end, uint64_t *bytes)
{
    static const char suffixes[] = "KMGT";
    const char *suffix;
    unsigned shift = 0;
    char *after;

    errno = 0;
    *bytes = strtoull(text, &after, 10);
    suffix = *after ? strchr(suffixes, *after) : NULL;
    if (suffix) {
        shift = 10 * (unsigned)(suffix - suffixes + 1);
        after++;
    }
    if (text[0] < '0' || text[0] > '9' || errno || *bytes == 0 || *bytes > UINT64_MAX >> shift || (!end && *after))
        return false;
    *bytes <<= shift;
    if (end)
        *end = after;
    return true;
}

const char *text_line(const char *text, const char *key, size_t *length)
{
    const char *at = strstr(text, key);

    *length = 0;
    if (!at)
        return "";
    at += strlen(key);
    at += strspn(at, " ");
    *length = strcspn(at, "\n");
    return at;
}

void text_clean(char *text)
{
    unsigned char *at = (unsigned char *)text;

    for (; *at; at++) {
        if (*at < 32 || *at == 127)
            *at = '?';
        if (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
            at[0] = at[1] = '?';
    }
}
