/* strbuf.h - builds texts piece by piece, truncating at the end of the buffer, and writes texts as JSON. */
#ifndef LEATI_STRBUF_H
#define LEATI_STRBUF_H

#include <stddef.h>
#include <stdint.h>

/* left starts at the buffer's size, which must be 1 or more. */
struct leati_strbuf {
    char *at;    /* where the next piece goes; now has the terminating 0 */
    size_t left; /* bytes from at to the end of the buffer */
};

void leati_strbuf_add(struct leati_strbuf *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a size such as "4 KiB", "1.5 MiB" or "37 B". */
void leati_strbuf_add_bytes(struct leati_strbuf *text, uint64_t bytes);

/* Returns the length in bytes of the UTF-8 character at the start of text; 0 if text is "" or does not start with
 * a valid character. */
size_t leati_utf8_length(const char *text);

/* Copies text, truncated after the last whole character that fits; to_bytes is 1 or more. A byte that is not valid
 * UTF-8 counts as a character. */
void leati_utf8_copy(char *to, size_t to_bytes, const char *text);

/* Writes text as a JSON string, with quotes. Each byte that is not valid UTF-8 becomes U+FFFD. */
void leati_json_string(const char *text, void (*write)(void *argument, const char *piece, size_t bytes),
                       void *argument);

#endif
