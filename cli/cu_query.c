/*
 * cu_query.c - answers questions about the tokens of a translation; see cu_query.h. It does not resolve names, so
 * it guesses from the tokens whether a < begins template arguments.
 */
#include "cu_query.h"

bool cu_is_one_of(const struct cu_translation *t, size_t i, const char *const *words)
{
    for (; *words; words++)
        if (is(t, i, *words))
            return true;
    return false;
}

bool cu_is_triple(const struct cu_translation *t, size_t i, const char *mark)
{
    return i + 2 < t->count && is(t, i, mark) && is(t, i + 1, mark) && cu_adjacent(&t->tokens[i + 1]) &&
           is(t, i + 2, mark) && cu_adjacent(&t->tokens[i + 2]);
}

bool cu_opens(const struct cu_translation *t, size_t i)
{
    return is(t, i, "(") || is(t, i, "[") || is(t, i, "{");
}

bool cu_closes(const struct cu_translation *t, size_t i)
{
    return is(t, i, ")") || is(t, i, "]") || is(t, i, "}");
}

size_t cu_partner(const struct cu_translation *t, size_t i)
{
    size_t depth = 0;

    for (; i < t->count; i++) {
        depth += cu_opens(t, i);
        if (cu_closes(t, i) && !--depth)
            return i;
    }
    return NONE;
}

size_t cu_partner_before(const struct cu_translation *t, size_t i)
{
    size_t depth = 0;

    for (;; i--) {
        depth += cu_closes(t, i);
        if (cu_opens(t, i) && !--depth)
            return i;
        if (!i)
            return NONE;
    }
}

/* Returns true for a token that cannot occur in template arguments outside of parentheses. */
static bool ends_template(const struct cu_translation *t, size_t i)
{
    static const char *const never[] = {";", "?", "|", "^", "!", "{", "}", ")", "]", NULL};

    return cu_is_one_of(t, i, never);
}

size_t cu_angle(const struct cu_translation *t, size_t i)
{
    size_t depth = 0;

    for (; i < t->count; i++) {
        if (is(t, i, "<"))
            depth++;
        else if (is(t, i, ">") && !--depth)
            return i;
        else if (is(t, i, "(") || is(t, i, "["))
            i = cu_partner(t, i);
        else if (ends_template(t, i))
            return NONE;
        if (i == NONE)
            return NONE;
    }
    return NONE;
}

size_t cu_angle_before(const struct cu_translation *t, size_t i)
{
    size_t depth = 0;

    for (;; i--) {
        if (is(t, i, ">"))
            depth++;
        else if (is(t, i, "<") && !--depth)
            return i;
        else if (is(t, i, ")") || is(t, i, "]"))
            i = cu_partner_before(t, i);
        else if (is(t, i, ";") || is(t, i, "{") || is(t, i, "}"))
            return NONE;
        if (!i || i == NONE)
            return NONE;
    }
}

size_t cu_after(const struct cu_translation *t, size_t i)
{
    size_t end = cu_opens(t, i)                            ? cu_partner(t, i)
                 : is(t, i, "<") && i && is_word(t, i - 1) ? cu_angle(t, i)
                                                           : NONE;

    return end == NONE ? i + 1 : end + 1;
}

size_t cu_element_end(const struct cu_translation *t, size_t i, size_t end)
{
    while (i < end && !is(t, i, ","))
        i = cu_after(t, i);
    return i < end ? i : end;
}

size_t cu_default_of(const struct cu_translation *t, size_t i, size_t end)
{
    while (i < end && !is(t, i, "="))
        i = cu_after(t, i);
    return i < end ? i : end;
}

size_t cu_statement_start(const struct cu_translation *t, size_t i)
{
    while (i && !is(t, i - 1, ";") && !is(t, i - 1, "{") && !is(t, i - 1, "}"))
        i--;
    return i;
}
