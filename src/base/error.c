/* error.c - see error.h. Also returns the names and texts of the statuses. */
#include "base/error.h"

#include "base/addresses.h"
#include "base/assert.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES sizeof(struct leati_message)

/* This thread's message, allocated at its first failure. Only the pointer is thread-local, because a library that
 * is loaded with dlopen() has little static TLS, and leat needs that for LEATI_QUICK_TLS. */
static _Thread_local char *message;
LEATI_QUICK_TLS unsigned leati_error_quiet_depth;
LEATI_QUICK_TLS leat_status leati_error_latest;
static _Thread_local bool unsaid; /* true: there was no memory for the latest failure's message */
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool have_key;

static void end_thread(void *kept)
{
    free(kept);
    message = NULL;
}

static void make_key(void)
{
    have_key = pthread_key_create(&key, end_thread) == 0;
}

/* Returns this thread's buffer for messages, and allocates it at the first use; NULL if there is no memory. */
static char *own_message(void)
{
    if (message)
        return message;
    pthread_once(&once, make_key);
    message = have_key ? calloc(1, MESSAGE_BYTES) : NULL;
    if (message && pthread_setspecific(key, message)) {
        free(message);
        message = NULL;
    }
    unsaid = !message;
    return message;
}

/* Appends the hint about the limit on address space, because that limit may be the cause of a HOST_MEMORY
 * failure. */
static void add_hint(char *text)
{
    struct leati_addresses_hint hint;
    size_t length = strlen(text);

    snprintf(text + length, MESSAGE_BYTES - length, "%s", leati_addresses_hint(&hint));
}

/* The name is in parentheses, because the header defines macros of these names for the analyzer. */
leat_status(leati_fail)(leat_status status, const char *format, ...)
{
    char *text = leati_error_quiet_depth ? NULL : own_message();
    va_list args;

    leati_assert(status != LEAT_OK);
    if (!leati_error_quiet_depth)
        leati_error_latest = status;
    if (!text)
        return status;
    va_start(args, format);
    vsnprintf(text, MESSAGE_BYTES, format, args);
    va_end(args);
    if (status == LEAT_ERROR_HOST_MEMORY)
        add_hint(text);
    return status;
}

leat_status(leati_fail_in)(leat_status status, const char *format, ...)
{
    struct leati_message inner;
    va_list args;
    size_t length;
    char *text;

    leati_assert(status != LEAT_OK);
    if (leati_error_quiet_depth)
        return status;
    leati_error_latest = status;
    leati_error_keep(&inner);
    text = own_message();
    if (!text)
        return status;
    va_start(args, format);
    vsnprintf(text, MESSAGE_BYTES, format, args);
    va_end(args);
    length = strlen(text);
    if (length + sizeof ": " <= MESSAGE_BYTES) {
        size_t room = MESSAGE_BYTES - length - sizeof ": ", wanted = strlen(inner.text);

        memcpy(text + length, ": ", 2);
        memcpy(text + length + 2, inner.text, wanted < room ? wanted : room);
        text[length + 2 + (wanted < room ? wanted : room)] = '\0';
    }
    return status;
}

void leati_error_keep(struct leati_message *kept)
{
    const char *text = leat_last_error();

    memcpy(kept->text, text, strlen(text) + 1);
}

leat_status(leati_error_restore)(leat_status status, const struct leati_message *kept)
{
    char *text = own_message();

    leati_error_latest = status;
    if (text)
        memcpy(text, kept->text, strlen(kept->text) + 1);
    else
        unsaid = kept->text[0];
    return status;
}

void leati_error_hear_begin(struct leati_hearing *hearing)
{
    hearing->quiet_depth = leati_error_loud_begin();
    leati_error_keep(&hearing->before);
}

void leati_error_hear_end(const struct leati_hearing *hearing)
{
    (void)leati_error_restore(LEAT_OK, &hearing->before);
    leati_error_loud_end(hearing->quiet_depth);
}

const char *leat_last_error(void)
{
    if (message)
        return message;
    return unsaid ? "a leat call failed, and there was no host memory for the message that says why" : "";
}

leat_status leat_error_set(leat_status status, const char *text)
{
    struct leati_message kept;

    /* The text may be this thread's own message. */
    snprintf(kept.text, sizeof kept.text, "%s", text ? text : "");
    return leati_error_restore(status, &kept);
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
    return LEAT_VERSION_STRING;
}

int leat_version_number(void)
{
    return LEAT_VERSION_NUMBER;
}
