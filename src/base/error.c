/* error.c - see error.h. Also the names and texts of the statuses. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char sentence[sizeof(struct leati_sentence)];

leat_status leati_fail(leat_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return status;
}

leat_status leati_fail_in(leat_status status, const char *format, ...)
{
    struct leati_sentence inner;
    va_list args;
    size_t length;

    leati_error_keep(&inner);
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    length = strlen(sentence);
    if (length + sizeof ": " <= sizeof sentence) {
        size_t room = sizeof sentence - length - sizeof ": ", wanted = strlen(inner.text);

        memcpy(sentence + length, ": ", 2);
        memcpy(sentence + length + 2, inner.text, wanted < room ? wanted : room);
        sentence[length + 2 + (wanted < room ? wanted : room)] = '\0';
    }
    return status;
}

void leati_error_keep(struct leati_sentence *kept)
{
    memcpy(kept->text, sentence, sizeof sentence);
}

leat_status leati_error_restore(leat_status status, const struct leati_sentence *kept)
{
    return leati_fail(status, "%s", kept->text);
}

const char *leat_last_error(void)
{
    return sentence;
}

const char *leat_status_name(leat_status status)
{
    switch (status) {
#define STATUS_NAME(name, number, text)                                                                           \
    case name:                                                                                                    \
        return #name;
        LEAT_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "LEAT_UNKNOWN";
}

const char *leat_status_text(leat_status status)
{
    switch (status) {
#define STATUS_TEXT(name, number, text)                                                                           \
    case name:                                                                                                    \
        return text;
        LEAT_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

const char *leat_version(void)
{
    return LEAT_VERSION;
}
