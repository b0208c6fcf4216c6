/* cu_tokens.c - splits preprocessed C++ into tokens. */
#include "cu_tokens.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *at, *end;
    bool line_start, system;
};

bool cu_is(const struct cu_token *token, const char *text)
{
    return token->length == strlen(text) && !memcmp(token->text, text, token->length);
}

static bool is_word_start(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 128;
}

static bool is_word(char c)
{
    return is_word_start(c) || isdigit((unsigned char)c);
}

static bool starts(const struct reader *reader, const char *text)
{
    size_t length = strlen(text);

    return (size_t)(reader->end - reader->at) >= length && !memcmp(reader->at, text, length);
}

/* Reads a line marker such as # 12 "file" 1 3. Its flag 3 means that the text that follows is from a system
 * header. */
static void read_marker(struct reader *reader, const char *line, const char *end)
{
    const char *quote;

    for (line++; line < end && *line == ' '; line++)
        ;
    if (line == end || !isdigit((unsigned char)*line))
        return;
    reader->system = false;
    for (quote = end; quote > line && quote[-1] != '"'; quote--)
        if (quote < end && *quote == '3')
            reader->system = true;
}

/* Skips a line that begins with #. */
static void skip_directive(struct reader *reader)
{
    const char *line = reader->at;

    while (reader->at < reader->end && *reader->at != '\n')
        reader->at++;
    read_marker(reader, line, reader->at);
}

static void skip_comment(struct reader *reader)
{
    bool block = reader->at[1] == '*';

    for (reader->at += 2; reader->at < reader->end; reader->at++)
        if (block ? starts(reader, "*/") : *reader->at == '\n') {
            reader->at += block ? 2 : 0;
            break;
        }
}

static void skip_gap(struct reader *reader)
{
    while (reader->at < reader->end) {
        if (isspace((unsigned char)*reader->at))
            reader->line_start |= *reader->at++ == '\n';
        else if (*reader->at == '#' && reader->line_start)
            skip_directive(reader);
        else if (starts(reader, "//") || starts(reader, "/*"))
            skip_comment(reader);
        else
            break;
    }
    reader->line_start = false;
}

/* Skips a raw string: R"delimiter( ... )delimiter". */
static void skip_raw(struct reader *reader)
{
    const char *delimiter = ++reader->at, *open;
    size_t length;

    while (reader->at < reader->end && *reader->at != '(')
        reader->at++;
    open = reader->at;
    length = (size_t)(open - delimiter);
    for (; reader->at < reader->end; reader->at++)
        if (*reader->at == ')' && (size_t)(reader->end - reader->at) > length + 1 &&
            !memcmp(reader->at + 1, delimiter, length) && reader->at[length + 1] == '"') {
            reader->at += length + 2;
            return;
        }
}

static void skip_quoted(struct reader *reader)
{
    char quote = *reader->at++;

    while (reader->at < reader->end && *reader->at != quote && *reader->at != '\n')
        reader->at += *reader->at == '\\' && reader->at + 1 < reader->end ? 2 : 1;
    if (reader->at < reader->end && *reader->at == quote)
        reader->at++;
}

/* Skips a number: digits, letters, points, ' as a separator, and signs after the letter of an exponent. */
static void skip_number(struct reader *reader)
{
    while (reader->at < reader->end) {
        char c = *reader->at;

        if (is_word(c) || c == '.')
            reader->at++;
        else if (c == '\'' && reader->at + 1 < reader->end && is_word(reader->at[1]))
            reader->at += 2;
        else if ((c == '+' || c == '-') && strchr("eEpP", reader->at[-1]))
            reader->at++;
        else
            break;
    }
}

static void skip_words(struct reader *reader)
{
    while (reader->at < reader->end && is_word(*reader->at))
        reader->at++;
}

/* Reads a word, or a literal with a prefix, such as u8"...", L'...' or uR"x(...)x". */
static enum cu_kind read_word(struct reader *reader)
{
    const char *word = reader->at;

    skip_words(reader);
    if (reader->at == reader->end || (*reader->at != '"' && *reader->at != '\'') || reader->at - word > 3)
        return CU_WORD;
    for (const char *c = word; c < reader->at; c++)
        if (!strchr("uUL8R", *c))
            return CU_WORD;
    if (reader->at[-1] == 'R' && *reader->at == '"')
        skip_raw(reader);
    else
        skip_quoted(reader);
    skip_words(reader); /* suffix of a user-defined literal */
    return CU_LITERAL;
}

static enum cu_kind read_token(struct reader *reader)
{
    char c;

    if (reader->at == reader->end)
        return CU_END;
    c = *reader->at;
    if (is_word_start(c))
        return read_word(reader);
    if (isdigit((unsigned char)c) ||
        (c == '.' && reader->at + 1 < reader->end && isdigit((unsigned char)reader->at[1]))) {
        skip_number(reader);
        return CU_LITERAL;
    }
    if (c == '"' || c == '\'') {
        skip_quoted(reader);
        skip_words(reader);
        return CU_LITERAL;
    }
    reader->at += starts(reader, "...") ? 3 : starts(reader, "::") || starts(reader, "->") ? 2 : 1;
    return CU_MARK;
}

struct cu_token *cu_tokens_read(const char *text, size_t bytes, size_t *count)
{
    struct reader reader = {text, text + bytes, true, false};
    struct cu_token *tokens = NULL;
    size_t room = 0;

    for (*count = 0;; ++*count) {
        struct cu_token *token;

        if (*count == room) {
            struct cu_token *larger = realloc(tokens, (room = room ? 2 * room : 4096) * sizeof *tokens);

            if (!larger) {
                free(tokens);
                return NULL;
            }
            tokens = larger;
        }
        token = &tokens[*count];
        token->gap = reader.at;
        skip_gap(&reader);
        token->text = reader.at;
        token->system = reader.system;
        token->kind = (uint8_t)read_token(&reader);
        token->length = (uint32_t)(reader.at - token->text);
        if (token->kind == CU_END)
            return tokens;
    }
}

unsigned cu_line_of(const char *text, const struct cu_token *token, char *file, size_t bytes)
{
    const char *line = text;
    unsigned number = 1;

    snprintf(file, bytes, "%s", "");
    for (;;) {
        const char *end = memchr(line, '\n', (size_t)(token->text - line));
        const char *name;

        if (!end)
            return number;
        if (line[0] == '#' && line[1] == ' ' && isdigit((unsigned char)line[2])) {
            number = (unsigned)strtoul(line + 2, NULL, 10);
            name = memchr(line, '"', (size_t)(end - line));
            if (name)
                snprintf(file, bytes, "%.*s", (int)strcspn(name + 1, "\"\n"), name + 1);
        } else {
            number++;
        }
        line = end + 1;
    }
}
