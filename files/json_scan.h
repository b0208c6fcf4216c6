/*
 * json_scan.h - a JSON scanner that reads a buffer one token at a time, for formats with a fixed structure.
 *
 * The scanner builds no tree, so it needs little memory, however long the text is. It decodes strings in place. It
 * accepts what RFC 8259 allows, except that it reads only unsigned integers of 64 bits; it can skip other numbers.
 */
#ifndef LEATM_JSON_SCAN_H
#define LEATM_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leatm_json {
    char *text; /* the byte behind the text must be readable too */
    char *at;   /* next byte to scan */
    char *end;
    const char *wrong; /* what was wrong, after a call that returned false */
};

/* A decoded string: UTF-8, terminated by a 0 byte, and without other 0 bytes. */
struct leatm_json_string {
    char *at;
    size_t bytes;
};

/* Skips blanks. */
void leatm_json_blanks(struct leatm_json *json);

/* Skips blanks and takes the byte c, or fails with "expected 'c'". */
bool leatm_json_take(struct leatm_json *json, char c);

/* Skips blanks and takes c if it is next. Returns true if it was. */
bool leatm_json_next(struct leatm_json *json, char c);

bool leatm_json_string(struct leatm_json *json, struct leatm_json_string *string);
bool leatm_json_unsigned(struct leatm_json *json, uint64_t *value);

/* Skips any value, at most 64 levels deep. */
bool leatm_json_skip(struct leatm_json *json);

#endif
