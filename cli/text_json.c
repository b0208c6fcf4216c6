/* text_json.c - see text_json.h. */
#include "text_json.h"

#include <stdlib.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd";

/* Returns the length in bytes of the UTF-8 character at the beginning of text, or 0 if it is not valid. */
static size_t character(const char *text)
{
    size_t bytes;

    for (bytes = 1; bytes <= 4 && text[bytes - 1]; bytes++) {
        json_t *one = json_stringn(text, bytes);

        json_decref(one);
        if (one)
            return bytes;
    }
    return 0;
}

json_t *text_json(const char *text)
{
    json_t *json;
    char *copy;
    size_t used = 0;

    if (!text)
        return json_null();
    json = json_string(text);
    if (json)
        return json;
    copy = malloc(strlen(text) * (sizeof replacement - 1) + 1);
    if (!copy)
        return NULL;
    while (*text) {
        size_t bytes = character(text);

        memcpy(copy + used, bytes ? text : replacement, bytes ? bytes : sizeof replacement - 1);
        used += bytes ? bytes : sizeof replacement - 1;
        text += bytes ? bytes : 1;
    }
    json = json_stringn(copy, used);
    free(copy);
    return json;
}
