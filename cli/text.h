/*
 * text.h - numbers as people read them.
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum {
    TEXT_MAX = 32 /* room for anything that these functions write */
};

/* "4 B", "64 KiB", "139.8 GiB"; powers of 1024. Returns text. */
const char *text_bytes(char text[TEXT_MAX], uint64_t bytes);

/* A measured figure with about four digits, never with an exponent. Returns text. */
const char *text_figure(char text[TEXT_MAX], double value);

#endif
