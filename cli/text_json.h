/*
 * text_json.h - converts text that may not be valid UTF-8 to JSON, such as environment variables, file names and
 * texts of drivers.
 */
#ifndef CLI_TEXT_JSON_H
#define CLI_TEXT_JSON_H

#include <jansson.h>

/* Returns the text as a JSON string. Each byte that is not valid UTF-8 becomes U+FFFD. Returns null for NULL, and
 * NULL if memory is short. */
json_t *text_json(const char *text);

#endif
