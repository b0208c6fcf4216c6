/* strbuf.c - see strbuf.h. */
#include "base/strbuf.h"
#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void leati_strbuf_add(struct leati_strbuf *text, const char *format, ...)
{
    va_list arguments;
    int length;

    leati_assert(text->left);
    va_start(arguments, format);
    length = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length >= text->left)
        length = (int)text->left - 1;
    text->at += length;
    text->left -= (size_t)length;
    leati_assert(text->left && !*text->at);
}

void leati_strbuf_add_bytes(struct leati_strbuf *text, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1024 && unit < 5) {
        value /= 1024;
        unit++;
    }
    leati_strbuf_add(text, "%.*f %s", value < 10 && unit && value != (double)(int)value ? 1 : 0, value,
                     units[unit]);
}

size_t leati_utf8_length(const char *text)
{
    const unsigned char *byte = (const unsigned char *)text;
    unsigned char low = 0x80,
                  high = 0xbf; /* limits of byte 2: exclude surrogates, overlong forms, and above U+10FFFF */
    size_t bytes;

    if (byte[0] < 0x80)
        return byte[0] ? 1 : 0;
    if (byte[0] < 0xc2 || byte[0] > 0xf4)
        return 0;
    bytes = byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;
    if (byte[0] == 0xe0)
        low = 0xa0;
    else if (byte[0] == 0xed)
        high = 0x9f;
    else if (byte[0] == 0xf0)
        low = 0x90;
    else if (byte[0] == 0xf4)
        high = 0x8f;
    if (byte[1] < low || byte[1] > high)
        return 0;
    for (size_t i = 2; i < bytes; i++)
        if (byte[i] < 0x80 || byte[i] > 0xbf)
            return 0;
    return bytes;
}

void leati_utf8_copy(char *to, size_t to_bytes, const char *text)
{
    size_t used = 0;

    leati_assert(to_bytes);
    while (text[used]) {
        size_t bytes = leati_utf8_length(text + used);

        bytes = bytes ? bytes : 1;
        if (used + bytes >= to_bytes)
            break;
        memcpy(to + used, text + used, bytes);
        used += bytes;
    }
    leati_assert(used < to_bytes);
    to[used] = '\0';
}

void leati_json_string(const char *text, void (*write)(void *argument, const char *piece, size_t bytes),
                       void *argument)
{
    static const char replacement[] = "\xef\xbf\xbd";

    write(argument, "\"", 1);
    while (*text) {
        size_t bytes = leati_utf8_length(text);
        unsigned char first = (unsigned char)*text;
        char escape[8];

        if (!bytes)
            write(argument, replacement, sizeof replacement - 1);
        else if (first == '"' || first == '\\')
            write(argument, escape, (size_t)snprintf(escape, sizeof escape, "\\%c", first));
        else if (first < 0x20)
            write(argument, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", first));
        else
            write(argument, text, bytes);
        text += bytes ? bytes : 1;
    }
    write(argument, "\"", 1);
}
