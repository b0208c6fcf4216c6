/* json_scan.c - see json_scan.h. */
#include "json_scan.h"

#include "model_files.h"

#include <string.h>

enum { DEPTH_MAX = 64 };

static bool wrong(struct leatm_json *json, const char *what)
{
    json->wrong = what;
    return false;
}

/* Most tokens have no blanks before them. */
static inline void skip_blanks(struct leatm_json *json)
{
    if (json->at < json->end && (unsigned char)*json->at > ' ')
        return;
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r'))
        json->at++;
}

void leatm_json_blanks(struct leatm_json *json)
{
    skip_blanks(json);
}

bool leatm_json_next(struct leatm_json *json, char c)
{
    skip_blanks(json);
    if (json->at >= json->end || *json->at != c)
        return false;
    json->at++;
    return true;
}

bool leatm_json_take(struct leatm_json *json, char c)
{
    if (leatm_json_next(json, c))
        return true;
    switch (c) {
    case '{':
        return wrong(json, "'{' is expected here");
    case '}':
        return wrong(json, "',' or '}' is expected here");
    case '[':
        return wrong(json, "'[' is expected here");
    case ']':
        return wrong(json, "',' or ']' is expected here");
    case ':':
        return wrong(json, "':' is expected here");
    default:
        return wrong(json, "',' is expected here");
    }
}

/* ---- strings ---- */

/* Returns the value of four hexadecimal digits, those of \uXXXX, or -1 if at does not point at four digits. */
static int32_t four_digits(const char *at, const char *end)
{
    int32_t value = 0;

    if (end - at < 4)
        return -1;
    for (unsigned i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static char *put_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* Decodes \uXXXX, or the two escapes of a surrogate pair. *at points behind the first 'u'. */
static bool unicode_escape(struct leatm_json *json, const char **at, char **to)
{
    int32_t code = four_digits(*at, json->end), low;

    if (code < 0)
        return wrong(json, "\\u needs four hexadecimal digits");
    if (code == 0)
        return wrong(json, "a string contains \\u0000");
    *at += 4;
    if (code >= 0xd800 && code < 0xdc00) {
        low = json->end - *at >= 2 && (*at)[0] == '\\' && (*at)[1] == 'u' ? four_digits(*at + 2, json->end) : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return wrong(json, "\\ud800 to \\udbff must be followed by the second half of the pair");
        *at += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return wrong(json, "\\udc00 to \\udfff without the first half of the pair");
    }
    *to = put_utf8(*to, (uint32_t)code);
    return true;
}

static bool escape(struct leatm_json *json, const char **at, char **to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *name;

    if (*at >= json->end)
        return wrong(json, "a string does not end");
    if (**at == 'u') {
        (*at)++;
        return unicode_escape(json, at, to);
    }
    name = **at ? strchr(names, **at) : NULL;
    if (!name)
        return wrong(json, "unknown escape in a string");
    *(*to)++ = values[name - names];
    (*at)++;
    return true;
}

/* Decodes the rest of a string, from its first escape or byte above 0x7f. It works in place, because a decoded
 * string is never longer than its JSON text. */
static bool long_string(struct leatm_json *json, struct leatm_json_string *string, char *from)
{
    const char *at = from;
    char *to = from;

    for (;;) {
        if (at >= json->end)
            return wrong(json, "a string does not end");
        if (*at == '"')
            break;
        if ((unsigned char)*at < 0x20)
            return wrong(json, "a string contains a control character");
        if (*at == '\\') {
            at++;
            if (!escape(json, &at, &to)) {
                json->at = from;
                return false;
            }
        } else {
            *to++ = *at++;
        }
    }
    string->bytes = (size_t)(to - string->at);
    if (!leatm_utf8_valid(string->at, string->bytes))
        return wrong(json, "a string is not valid UTF-8");
    json->at = json->text + (at - json->text) + 1;
    *to = '\0';
    return true;
}

bool leatm_json_string(struct leatm_json *json, struct leatm_json_string *string)
{
    const char *end = json->end;
    char *at;

    skip_blanks(json);
    if (json->at >= json->end || *json->at != '"')
        return wrong(json, "a string is expected here");
    string->at = at = json->at + 1;
    while (at < end && *at != '"' && *at != '\\' && (signed char)*at >= 0x20) /* bytes above 0x7f are negative */
        at++;
    if (at >= end || *at != '"')
        return long_string(json, string, at);
    string->bytes = (size_t)(at - string->at);
    *at = '\0';
    json->at = at + 1;
    return true;
}

/* ---- numbers ---- */

bool leatm_json_unsigned(struct leatm_json *json, uint64_t *value)
{
    const char *first;
    uint64_t sum = 0;

    skip_blanks(json);
    first = json->at;
    if (json->at >= json->end || *json->at < '0' || *json->at > '9')
        return wrong(json, json->at < json->end && *json->at == '-' ? "the number is negative"
                                                                    : "an unsigned integer is expected here");
    while (json->at < json->end && *json->at >= '0' && *json->at <= '9') {
        uint64_t digit = (uint64_t)(*json->at - '0');

        /* Smaller sums cannot overflow, so most numbers need no division. */
        if (sum >= UINT64_MAX / 100 && sum > (UINT64_MAX - digit) / 10)
            return wrong(json, "the number does not fit into 64 bits");
        sum = sum * 10 + digit;
        json->at++;
    }
    if (*first == '0' && json->at - first > 1)
        return wrong(json, "the number begins with 0");
    if (json->at < json->end && (*json->at == '.' || *json->at == 'e' || *json->at == 'E'))
        return wrong(json, "the number is not an integer");
    *value = sum;
    return true;
}

/* ---- values that are skipped ---- */

static bool digits(struct leatm_json *json)
{
    const char *first = json->at;

    while (json->at < json->end && *json->at >= '0' && *json->at <= '9')
        json->at++;
    return json->at > first || wrong(json, "a digit is expected here");
}

static bool skip_number(struct leatm_json *json)
{
    const char *first;

    if (*json->at == '-')
        json->at++;
    first = json->at;
    if (!digits(json))
        return false;
    if (*first == '0' && json->at - first > 1)
        return wrong(json, "the number begins with 0");
    if (json->at < json->end && *json->at == '.') {
        json->at++;
        if (!digits(json))
            return false;
    }
    if (json->at < json->end && (*json->at == 'e' || *json->at == 'E')) {
        json->at++;
        if (json->at < json->end && (*json->at == '+' || *json->at == '-'))
            json->at++;
        return digits(json);
    }
    return true;
}

static bool skip_scalar(struct leatm_json *json)
{
    static const char *const words[] = {"true", "false", "null"};
    struct leatm_json_string string;

    if (json->at < json->end && *json->at == '"')
        return leatm_json_string(json, &string);
    if (json->at < json->end && (*json->at == '-' || (*json->at >= '0' && *json->at <= '9')))
        return skip_number(json);
    for (unsigned i = 0; i < 3; i++) {
        size_t bytes = strlen(words[i]);

        if ((size_t)(json->end - json->at) >= bytes && !memcmp(json->at, words[i], bytes)) {
            json->at += bytes;
            return true;
        }
    }
    return wrong(json, "a value is expected here");
}

static bool skip_key(struct leatm_json *json)
{
    struct leatm_json_string key;

    return leatm_json_string(json, &key) && leatm_json_take(json, ':');
}

bool leatm_json_skip(struct leatm_json *json)
{
    char closing[DEPTH_MAX];
    unsigned depth = 0;

    for (;;) {
        bool object = leatm_json_next(json, '{');

        if (object || leatm_json_next(json, '[')) {
            if (depth == DEPTH_MAX)
                return wrong(json, "more than 64 levels of '[' and '{'");
            closing[depth++] = object ? '}' : ']';
            if (!leatm_json_next(json, closing[depth - 1])) {
                if (object && !skip_key(json))
                    return false;
                continue;
            }
            depth--;
        } else if (!skip_scalar(json)) {
            return false;
        }
        for (; depth; depth--) {
            if (leatm_json_next(json, ',')) {
                if (closing[depth - 1] == '}' && !skip_key(json))
                    return false;
                break;
            }
            if (!leatm_json_take(json, closing[depth - 1]))
                return false;
        }
        if (!depth)
            return true;
    }
}
