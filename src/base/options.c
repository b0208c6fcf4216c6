/* options.c - see options.h. */
#include "base/options.h"

#include "base/error.h"

#include <leat/device.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const leat_option_info table[] = {
#define OPTION_ROW(id, initial, is_debug, words)                                                                  \
    {.name = "LEAT_" #id, .default_value = initial, .text = words, .debug = is_debug},
    LEATI_OPTION_LIST(OPTION_ROW)
#undef OPTION_ROW
};

/* Copies, so that a later setenv() of the program cannot change or free what leat uses. */
static char *values[LEATI_OPTION_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A set-user-ID program gets no variable: whoever starts it could otherwise name the libraries that it loads. */
static void read_environment(void)
{
    for (int i = 0; i < LEATI_OPTION_COUNT; i++) {
        const char *value = secure_getenv(table[i].name);

        if (value && *value)
            values[i] = strdup(value);
    }
}

const char *leati_option(enum leati_option option)
{
    pthread_once(&once, read_environment);
    return values[option];
}

/* "3G" is 3 << 30; false when value is no such number or too large for 64 bits. */
static bool parse_number(const char *value, uint64_t *number)
{
    const char *suffixes = "KMGT", *suffix;
    char *end, letter;

    if (*value < '0' || *value > '9')
        return false;
    errno = 0;
    *number = strtoull(value, &end, 10);
    if (errno)
        return false;
    letter = *end & ~0x20;
    if (letter && (suffix = strchr(suffixes, letter))) {
        unsigned shift = 10 * (unsigned)(suffix - suffixes + 1);

        if (*number > UINT64_MAX >> shift)
            return false;
        *number <<= shift;
        end++;
        if (end[0] == 'i' && end[1] == 'B')
            end += 2;
    }
    return !*end;
}

leat_status leati_option_number(enum leati_option option, uint64_t low, uint64_t high, uint64_t initial,
                                uint64_t *number)
{
    const char *value = leati_option(option);
    uint64_t parsed = initial;

    if (value && (!parse_number(value, &parsed) || parsed < low || parsed > high))
        return leati_fail(
            LEAT_ERROR_INVALID,
            "%s is set to '%s', and takes a whole number from %llu to %llu (K, M, G or T may follow)",
            table[option].name, value, (unsigned long long)low, (unsigned long long)high);
    *number = parsed;
    return LEAT_OK;
}

/* The four words for on come first, then the four for off; their place, or WORDS when value is none of them. */
enum { WORDS = 8 };

static unsigned find_word(const char *value)
{
    static const char *const words[WORDS] = {"1", "yes", "on", "true", "0", "no", "off", "false"};
    unsigned i = 0;

    while (i < WORDS && strcasecmp(value, words[i]) != 0)
        i++;
    return i;
}

leat_status leati_options_check(const char *what)
{
    static const enum leati_option flags[] = {
#define OPTION_FLAG(id) LEATI_OPTION_##id,
        LEATI_OPTION_FLAGS(OPTION_FLAG)
#undef OPTION_FLAG
    };

    for (unsigned i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        const char *value = leati_option(flags[i]);

        if (value && find_word(value) == WORDS)
            return leati_fail(LEAT_ERROR_INVALID,
                              "%s: %s is set to '%s', and takes 1, yes, on or true, or 0, no, off or false", what,
                              table[flags[i]].name, value);
    }
    return LEAT_OK;
}

bool leati_option_flag(enum leati_option option)
{
    const char *value = leati_option(option);

    return value && find_word(value) < WORDS / 2;
}

leat_status leat_option_list(unsigned index, leat_option_info *info)
{
    if (!info)
        return leati_fail(LEAT_ERROR_INVALID, "leat_option_list: info is NULL; pass a leat_option_info to fill");
    if (index >= LEATI_OPTION_COUNT)
        return leati_fail(LEAT_ERROR_NOT_FOUND, "leat_option_list: there are %d options, 0 to %d",
                          LEATI_OPTION_COUNT, LEATI_OPTION_COUNT - 1);
    *info = table[index];
    info->value = leati_option((enum leati_option)index);
    return LEAT_OK;
}
