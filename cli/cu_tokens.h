/*
 * cu_tokens.h - splits preprocessed C++ into tokens.
 */
#ifndef CLI_CU_TOKENS_H
#define CLI_CU_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cu_kind {
    CU_WORD,    /* an identifier or keyword */
    CU_LITERAL, /* a number, string or character */
    CU_MARK,    /* one character of punctuation, or one of ::, -> and ... */
    CU_END
};

/* A token and the gap before it: white space, comments, line markers, pragmas. */
struct cu_token {
    const char *gap, *text;
    uint32_t length;
    uint8_t kind;
    bool system; /* true if the token is from a system header */
};

/* Returns the tokens of a text, or NULL if memory is short. The last token is CU_END. Tokens point into the text,
 * so keep it as long as the tokens. */
struct cu_token *cu_tokens_read(const char *text, size_t bytes, size_t *count);

/* Returns true if the token is exactly this text. */
bool cu_is(const struct cu_token *token, const char *text);

/* Returns true if there is no gap before the token. */
static inline bool cu_adjacent(const struct cu_token *token)
{
    return token->gap == token->text;
}

/* Returns the line of a token, and its file in a buffer of bytes, according to the line markers. */
unsigned cu_line_of(const char *text, const struct cu_token *token, char *file, size_t bytes);

#endif
