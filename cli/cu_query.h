/*
 * cu_query.h - declares the state of a translation (cu_source.c), and functions that answer questions about its
 * tokens, such as which bracket closes another one, or where a statement begins. Parameters and results are
 * indices of tokens.
 */
#ifndef CLI_CU_QUERY_H
#define CLI_CU_QUERY_H

#include "cu_source.h"
#include "cu_tokens.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NONE SIZE_MAX

/* A launch, callee<<<configuration>>>(arguments), as indices of tokens. */
struct cu_launch {
    size_t callee, open, close, arguments; /* open: first < of <<<; close: first > of >>>; arguments: the ) */
};

/* A construct that the translation rewrites. at: its first token. */
struct cu_mark {
    size_t at;
    enum { LAUNCH, DYNAMIC_OF_FUNCTION, DYNAMIC_OF_NAMESPACE, SHARED_OF_NAMESPACE } what;
    struct cu_launch launch;
    size_t end; /* the ; of a declaration of dynamic shared memory */
};

struct cu_translation {
    const char *text;
    struct cu_token *tokens;
    size_t count;          /* number of tokens, without the final CU_END */
    struct cu_mark *marks; /* sorted by their first tokens */
    size_t mark_count, mark_room;
    char *out;
    size_t used, room;
    struct cu_error *error;
    jmp_buf failed; /* fail() jumps here; no memory is lost, because this struct owns all of it */
};

/* Returns true if the token is this text. */
static inline bool is(const struct cu_translation *t, size_t i, const char *text)
{
    return cu_is(&t->tokens[i], text);
}

static inline bool is_word(const struct cu_translation *t, size_t i)
{
    return t->tokens[i].kind == CU_WORD;
}

/* Returns true if the token is one of these words. words ends with NULL. */
bool cu_is_one_of(const struct cu_translation *t, size_t i, const char *const *words);

/* Returns true if this mark and the next two tokens are the same and have no gap between them, as in <<<. */
bool cu_is_triple(const struct cu_translation *t, size_t i, const char *mark);

/* Return true if the token is an opening or a closing bracket: ( [ { or ) ] }. */
bool cu_opens(const struct cu_translation *t, size_t i);
bool cu_closes(const struct cu_translation *t, size_t i);

/* cu_partner() returns the bracket that closes the ( [ or { at i. cu_partner_before() returns the bracket that
 * opens the ) ] or } at i. Both return NONE if the bracket is missing. */
size_t cu_partner(const struct cu_translation *t, size_t i);
size_t cu_partner_before(const struct cu_translation *t, size_t i);

/* Returns the > that closes the template argument list that the < at i opens, or NONE if the < looks like an
 * operator. This is a heuristic, because names are not resolved. */
size_t cu_angle(const struct cu_translation *t, size_t i);

/* Returns the < that opens the template argument list that the > at i closes. */
size_t cu_angle_before(const struct cu_translation *t, size_t i);

/* Returns the next token at the same nesting level. If a bracket or template arguments begin at i, skips them. */
size_t cu_after(const struct cu_translation *t, size_t i);

/* Returns the end of the list element that begins at i: the comma behind it, or end. */
size_t cu_element_end(const struct cu_translation *t, size_t i, size_t end);

/* Returns the = of a default value in a list element, or its end. */
size_t cu_default_of(const struct cu_translation *t, size_t i, size_t end);

/* Returns the first token of the statement or declaration that contains i. */
size_t cu_statement_start(const struct cu_translation *t, size_t i);

#endif
