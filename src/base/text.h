/* text.h - a text that is put together piece by piece, and cut where its room ends; the room is 1 or more. */
#ifndef LEATI_TEXT_H
#define LEATI_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct leati_text {
    char *at; /* where the next piece goes; a closing 0 stands there */
    size_t left;
};

void leati_text_add(struct leati_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "4 KiB", "1.5 MiB", "37 B". */
void leati_text_add_bytes(struct leati_text *text, uint64_t bytes);

#endif
