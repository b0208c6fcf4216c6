/* strbuf.h - texts that are put together piece by piece, cut where their room ends, or written as JSON. */
#ifndef LEATI_STRBUF_H
#define LEATI_STRBUF_H

#include <stddef.h>
#include <stdint.h>

/* The room is 1 or more. */
struct leati_strbuf {
    char *at; /* where the next piece goes; a closing 0 stands there */
    size_t left;
};

void leati_strbuf_add(struct leati_strbuf *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "4 KiB", "1.5 MiB", "37 B". */
void leati_strbuf_add_bytes(struct leati_strbuf *text, uint64_t bytes);

/* The number of bytes of the UTF-8 character that text begins with; 0 when it begins with none, or is "". */
size_t leati_utf8_length(const char *text);

/* Copies text, as many of its characters as there is room for; to_bytes is 1 or more. A byte that is no UTF-8
 * counts as a character. */
void leati_utf8_copy(char *to, size_t to_bytes, const char *text);

/* Writes text as a JSON string, with its quotes; each byte that is no UTF-8 becomes U+FFFD. */
void leati_json_string(const char *text, void (*write)(void *argument, const char *piece, size_t bytes),
                       void *argument);

#endif
