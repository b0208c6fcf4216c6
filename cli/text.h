/*
 * text.h - numbers as people read them.
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TEXT_MAX = 32 /* room for anything that these functions write */
};

/* "4 B", "64 KiB", "139.8 GiB"; powers of 1024. Returns text. */
const char *text_bytes(char text[TEXT_MAX], uint64_t bytes);

/* Reads a number of bytes above 0, with K, M, G or T (powers of 1024) after it if need be. *end is where the
 * number ends; NULL: the text must end there. */
bool text_parse_bytes(const char *text, const char **end, uint64_t *bytes);

/* A measured figure with about four digits, never with an exponent. Returns text. */
const char *text_figure(char text[TEXT_MAX], double value);

#endif
