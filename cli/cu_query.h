/*
 * cu_query.h - the state of a translation (cu_source.c), and questions about the tokens of its text, such as which
 * bracket closes another one, or where a statement begins. Parameters and results are indices of tokens.
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
    size_t callee, open, close, arguments; /* open: the first <; close: the first >; arguments: the closing ) */
};

/* Something to be rewritten, and its first token (at). */
struct cu_mark {
    size_t at;
    enum { LAUNCH, DYNAMIC_OF_FUNCTION, DYNAMIC_OF_NAMESPACE, SHARED_OF_NAMESPACE } what;
    struct cu_launch launch;
    size_t end; /* the ; of a declaration of dynamic shared memory */
};

struct cu_translation {
    const char *text;
    struct cu_token *tokens;
    size_t count;          /* without the final CU_END */
    struct cu_mark *marks; /* sorted */
    size_t mark_count, mark_room;
    char *out;
    size_t used, room;
    struct cu_error *error;
    jmp_buf failed; /* target of fail(); all memory is owned by this struct */
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

/* Returns true if the same mark occurs three times without a gap. */
bool cu_is_triple(const struct cu_translation *t, size_t i, const char *mark);

/* Return true if the token is an opening or a closing bracket: ( [ { or ) ] }. */
bool cu_opens(const struct cu_translation *t, size_t i);
bool cu_closes(const struct cu_translation *t, size_t i);

/* Return the bracket that closes the ( [ or { at i, or, cu_partner_before(), that opens the ) ] or } at i; NONE if
 * it is missing. */
size_t cu_partner(const struct cu_translation *t, size_t i);
size_t cu_partner_before(const struct cu_translation *t, size_t i);

/* Returns the > that closes the template argument list opened by the < at i, or NONE if the < looks like an
 * operator. A heuristic, since names are not resolved. */
size_t cu_angle(const struct cu_translation *t, size_t i);

/* Returns the < that opens the template argument list closed by the > at i. */
size_t cu_angle_before(const struct cu_translation *t, size_t i);

/* Returns the next token at the same nesting level: skips brackets and template arguments. */
size_t cu_after(const struct cu_translation *t, size_t i);

/* Returns the end of the list element that begins at i: its comma, or end. */
size_t cu_element_end(const struct cu_translation *t, size_t i, size_t end);

/* Returns the = of a default value in a list element, or its end. */
size_t cu_default_of(const struct cu_translation *t, size_t i, size_t end);

/* Returns the first token of the statement or declaration that contains i. */
size_t cu_statement_start(const struct cu_translation *t, size_t i);

#endif
