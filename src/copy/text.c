/* text.c - see text.h. */
#include "copy/text.h"

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
