/* text.c - see text.h. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

void leati_text_add(struct leati_text *text, const char *format, ...)
{
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length >= text->left)
        length = (int)text->left - 1;
    text->at += length;
    text->left -= (size_t)length;
}

void leati_text_add_bytes(struct leati_text *text, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1024 && unit < 5) {
        value /= 1024;
        unit++;
    }
    leati_text_add(text, "%.*f %s", value < 10 && unit && value != (double)(int)value ? 1 : 0, value, units[unit]);
}
