/*
 * text_json.h - text that somebody else wrote, as JSON: variables, names of files, what drivers say.
 */
#ifndef CLI_TEXT_JSON_H
#define CLI_TEXT_JSON_H

#include <jansson.h>

/* A string with the text; bytes that are no UTF-8 become U+FFFD each. null for NULL. NULL when memory is short. */
json_t *text_json(const char *text);

#endif
