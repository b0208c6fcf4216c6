/* options.c - see options.h. */
#include "base/options.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/sized.h"

#include <leat/device.h>

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

static const leat_option_info table[] = {
#define OPTION_ROW(id, rule, initial, is_debug, words)                                                            \
    {.name = "LEAT_" #id, .default_value = initial, .text = words, .debug = is_debug},
    LEATI_OPTION_LIST(OPTION_ROW)
#undef OPTION_ROW
};

/* The rules of LEATI_OPTION_LIST. */
enum rule_kind { RULE_ANY, RULE_FLAG, RULE_NUMBER, RULE_WORDS };

static const struct rule {
    enum rule_kind kind;
    uint64_t low, high; /* limits of a NUMBER */
    const char *words;  /* allowed words of a WORDS rule */
} rules[] = {
#define ANY .kind = RULE_ANY
#define FLAG .kind = RULE_FLAG
#define NUMBER(least, most) .kind = RULE_NUMBER, .low = (least), .high = (most)
#define WORDS(list) .kind = RULE_WORDS, .words = (list)
#define OPTION_RULE(id, rule, initial, is_debug, text) {rule},
    LEATI_OPTION_LIST(OPTION_RULE)
#undef OPTION_RULE
#undef WORDS
#undef NUMBER
#undef FLAG
#undef ANY
};

enum { UNKNOWN_MAX = 32, PROBLEM_BYTES = 512 };

/* Copies of the values, so that a later setenv() of the program cannot change or free them. */
static char *values[LEATI_OPTION_COUNT];
static char *problems[LEATI_OPTION_COUNT]; /* what is wrong with a value; NULL: it is allowed */
static const char *first_problem;          /* the problem that leati_options_check() reports */
/* LEAT_ variables that are set, but not in the table. */
static leat_option_info unknown[UNKNOWN_MAX];
static unsigned unknown_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Returns the Levenshtein distance: how many letters must be inserted, removed or replaced to turn one text into
 * the other. */
static unsigned edit_distance(const char *a, const char *b)
{
    enum { LETTERS_MAX = 64 };
    unsigned row[LETTERS_MAX + 1];
    size_t length = strlen(b);

    if (strlen(a) > LETTERS_MAX || length > LETTERS_MAX)
        return LETTERS_MAX;
    for (unsigned j = 0; j <= length; j++)
        row[j] = j;
    for (unsigned i = 0; a[i]; i++) {
        unsigned diagonal = row[0]; /* the entry of the previous row, one column to the left */

        row[0] = i + 1;
        for (unsigned j = 0; j < length; j++) {
            unsigned above = row[j + 1], least = diagonal + (a[i] != b[j]);

            if (row[j] + 1 < least)
                least = row[j] + 1;
            if (above + 1 < least)
                least = above + 1;
            row[j + 1] = least;
            diagonal = above;
        }
    }
    return row[length];
}

/* Returns the option whose name differs in the fewest letters, or NULL if every name differs in 4 letters or
 * more. */
static const char *nearest_name(const char *name)
{
    const char *nearest = NULL;
    unsigned least = 4; /* a typo differs in fewer letters than this */

    for (int i = 0; i < LEATI_OPTION_COUNT; i++) {
        unsigned distance = edit_distance(name, table[i].name);

        if (distance < least) {
            least = distance;
            nearest = table[i].name;
        }
    }
    return nearest;
}

static bool is_known(const char *name, size_t length)
{
    for (int i = 0; i < LEATI_OPTION_COUNT; i++)
        if (strlen(table[i].name) == length && !strncmp(table[i].name, name, length))
            return true;
    return false;
}

/* Adds a variable, such as "LEAT_DEVCE=cpu:0", to the list of unknown variables. Omits the variable if there is no
 * memory. */
static void add_unknown(const char *variable)
{
    size_t length = strcspn(variable, "=");
    char *name = strndup(variable, length), *text = malloc(PROBLEM_BYTES);
    char *value = variable[length] ? strdup(variable + length + 1) : NULL;
    const char *nearest = name ? nearest_name(name) : NULL;

    if (!name || !text || !value) {
        free(name);
        free(text);
        free(value);
        return;
    }
    snprintf(text, PROBLEM_BYTES, "leat knows no such variable%s%s%s", nearest ? "; did you mean " : "",
             nearest ? nearest : "", nearest ? "?" : "");
    unknown[unknown_count++] =
        (leat_option_info){.name = name, .value = value, .default_value = "", .text = text, .problem = text};
}

/* Finds variables "LEAT_..." in the environment that are not in the table. Ignores LEAT_TEST_..., which tests use.
 */
static void find_unknown(void)
{
    for (char **variable = environ; variable && *variable && unknown_count < UNKNOWN_MAX; variable++)
        if (!strncmp(*variable, "LEAT_", 5) && strncmp(*variable, "LEAT_TEST_", 10) != 0 &&
            !is_known(*variable, strcspn(*variable, "=")))
            add_unknown(*variable);
}

static void find_problems(void);

/* Uses secure_getenv(), so that a set-user-ID program sees no variables. Otherwise the user who starts the program
 * could choose the libraries that it loads. */
static void read_environment(void)
{
    for (int i = 0; i < LEATI_OPTION_COUNT; i++) {
        const char *value = secure_getenv(table[i].name);

        if (value && *value)
            values[i] = strdup(value);
    }
    if (!getauxval(AT_SECURE))
        find_unknown();
    find_problems();
}

const char *leati_option(enum leati_option option)
{
    leati_assert((unsigned)option < LEATI_OPTION_COUNT);
    pthread_once(&once, read_environment);
    return values[option];
}

/* Parses numbers such as "3G" (3 << 30). Returns false if value is not such a number, or too large for 64 bits. */
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

enum { FLAG_WORDS = 8 };

/* Returns the index of value in a list that has the four words for "on", then the four words for "off". Returns
 * FLAG_WORDS if value is not in the list. */
static unsigned find_word(const char *value)
{
    static const char *const words[FLAG_WORDS] = {"1", "yes", "on", "true", "0", "no", "off", "false"};
    unsigned i = 0;

    while (i < FLAG_WORDS && strcasecmp(value, words[i]) != 0)
        i++;
    return i;
}

/* Returns true if word is one of a list such as "auto, still or tight". */
static bool is_one_of(const char *word, const char *words)
{
    size_t length = strlen(word);

    while (*words) {
        size_t next = strcspn(words, ", ");

        /* "or" only joins the words of the list; it is not a value. */
        if (next == length && !strncmp(words, word, length) && strcmp(word, "or") != 0)
            return true;
        words += next + strspn(words + next, ", ");
    }
    return false;
}

/* Returns true if the value of the option is allowed. For a NUMBER, also writes the value to *number. */
static bool is_allowed(enum leati_option option, uint64_t *number)
{
    const struct rule *rule = &rules[option];
    const char *value = values[option];

    switch (rule->kind) {
    case RULE_ANY:
        return true;
    case RULE_FLAG:
        return find_word(value) < FLAG_WORDS;
    case RULE_NUMBER:
        return parse_number(value, number) && *number >= rule->low && *number <= rule->high;
    case RULE_WORDS:
        return is_one_of(value, rule->words);
    }
    return false;
}

/* Writes the value of the option and the allowed values to text. */
static void describe_problem(enum leati_option option, char text[PROBLEM_BYTES])
{
    const struct rule *rule = &rules[option];
    int length =
        snprintf(text, PROBLEM_BYTES, "%s is set to '%.100s', and takes ", table[option].name, values[option]);
    size_t room = PROBLEM_BYTES - (size_t)length;

    if (rule->kind == RULE_NUMBER)
        snprintf(text + length, room, "a whole number from %llu to %llu (K, M, G or T may follow)",
                 (unsigned long long)rule->low, (unsigned long long)rule->high);
    else
        snprintf(text + length, room, "%s",
                 rule->kind == RULE_FLAG ? "1, yes, on or true, or 0, no, off or false" : rule->words);
}

static void find_problems(void)
{
    char text[PROBLEM_BYTES];
    uint64_t number;

    for (int i = 0; i < LEATI_OPTION_COUNT; i++) {
        if (!values[i] || is_allowed((enum leati_option)i, &number))
            continue;
        describe_problem((enum leati_option)i, text);
        problems[i] = strdup(text);
        if (!first_problem)
            first_problem = problems[i];
    }
}

leat_status leati_option_number(enum leati_option option, uint64_t initial, uint64_t *number)
{
    char text[PROBLEM_BYTES];
    uint64_t parsed = initial;

    leati_assert(rules[option].kind == RULE_NUMBER);
    if (leati_option(option) && !is_allowed(option, &parsed)) {
        describe_problem(option, text);
        return leati_fail(LEAT_ERROR_INVALID, "%s", text);
    }
    *number = parsed;
    return LEAT_OK;
}

leat_status leati_options_check(const char *what)
{
    pthread_once(&once, read_environment);
    return first_problem ? leati_fail(LEAT_ERROR_INVALID, "%s: %s", what, first_problem) : LEAT_OK;
}

void leati_options_unknown(char *text, size_t text_bytes)
{
    size_t used = 0;

    text[0] = '\0';
    pthread_once(&once, read_environment);
    for (unsigned i = 0; i < unknown_count && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, " (%.60s is set, but %s)", unknown[i].name,
                                 unknown[i].text);
}

bool leati_option_flag(enum leati_option option)
{
    const char *value = leati_option(option);

    leati_assert(rules[option].kind == RULE_FLAG);
    return value && find_word(value) < FLAG_WORDS / 2;
}

leat_status leat_option_list(unsigned index, leat_option_info *info)
{
    leat_option_info filled;

    LEATI_TRY(LEATI_SIZED_CHECK("leat_option_list", "info", leat_option_info, info));
    pthread_once(&once, read_environment);
    if (index >= LEATI_OPTION_COUNT + unknown_count)
        return leati_fail(LEAT_ERROR_NOT_FOUND, "leat_option_list: there are %d options, 0 to %d",
                          LEATI_OPTION_COUNT, LEATI_OPTION_COUNT - 1);
    if (index >= LEATI_OPTION_COUNT) {
        LEATI_SIZED_WRITE(info, &unknown[index - LEATI_OPTION_COUNT]);
        return LEAT_OK;
    }
    filled = table[index];
    filled.value = values[index];
    filled.problem = problems[index];
    LEATI_SIZED_WRITE(info, &filled);
    return LEAT_OK;
}
