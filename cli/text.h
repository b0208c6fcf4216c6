/*
 * text.h - writes numbers for people, such as "64 KiB", and reads them; removes control characters from texts.
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TEXT_MAX = 32 /* enough room for the result of each of these functions */
};

/* Writes a size such as "4 B", "64 KiB", "139.8 GiB" (powers of 1024). Returns text. */
const char *text_bytes(char text[TEXT_MAX], uint64_t bytes);

/* Reads a number of bytes above 0, which K, M, G or T (powers of 1024) may follow. *end receives the end of the
 * number. If end is NULL, nothing may follow the number. Returns false if text is no such number. */
bool text_parse_bytes(const char *text, const char **end, uint64_t *bytes);

/* Finds what follows key and blanks in text, up to the end of the line. Returns where it begins, and its length;
 * or "" with length 0 if key is not in text. */
const char *text_line(const char *text, const char *key, size_t *length);

/* Writes a measured figure with about four digits and without an exponent. Returns text. */
const char *text_figure(char text[TEXT_MAX], double value);

/* Replaces control characters, which a terminal would obey, by "?", also those of two bytes in UTF-8. */
void text_clean(char *text);

#endif
