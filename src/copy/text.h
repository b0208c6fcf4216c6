/* text.h - a text that is put together piece by piece, and cut where its room ends. */
#ifndef LEATI_COPY_TEXT_H
#define LEATI_COPY_TEXT_H

#include <stddef.h>

struct leati_text {
    char *at; /* where the next piece goes; a closing 0 stands there */
    size_t left;
};

void leati_text_add(struct leati_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
