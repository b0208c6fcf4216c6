/*
 * cu_source.c - translates CUDA C++ to C++: finds launches, kernels and shared variables among the tokens and
 * rewrites them.
 *
 * The input has been preprocessed, so its only directives are line markers and pragmas. They belong to the gaps
 * between tokens. The translation keeps all newlines.
 */
#include "cu_source.h"

#include "cu_query.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void fail(struct cu_translation *t, size_t at, const char *format, ...)
{
    va_list list;

    t->error->line = cu_line_of(t->text, &t->tokens[at], t->error->file, sizeof t->error->file);
    va_start(list, format);
    vsnprintf(t->error->text, sizeof t->error->text, format, list);
    va_end(list);
    longjmp(t->failed, 1);
}

static _Noreturn void fail_memory(struct cu_translation *t)
{
    snprintf(t->error->text, sizeof t->error->text, "out of memory");
    longjmp(t->failed, 1);
}

/* ---- output ----------------------------------------------------------------------------------------------- */

static void put_bytes(struct cu_translation *t, const char *text, size_t bytes)
{
    if (t->room - t->used < bytes + 1) {
        size_t room = 2 * t->room + bytes + 1;
        char *larger = realloc(t->out, room);

        if (!larger)
            fail_memory(t);
        t->out = larger;
        t->room = room;
    }
    memcpy(t->out + t->used, text, bytes);
    t->used += bytes;
    t->out[t->used] = '\0';
}

static void put(struct cu_translation *t, const char *text)
{
    put_bytes(t, text, strlen(text));
}

/* Returns true for a pragma of nvcc, which other compilers do not know and warn about. */
static bool is_nvcc_pragma(const char *line, size_t bytes)
{
    static const char *const words[] = {"unroll", "nounroll", "nv_", "hd_warning"};
    const char *at = line + 1, *end = line + bytes;

    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (end - at < 7 || memcmp(at, "pragma", 6))
        return false;
    for (at += 6; at < end && (*at == ' ' || *at == '\t'); at++)
        ;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if ((size_t)(end - at) >= strlen(words[i]) && !memcmp(at, words[i], strlen(words[i])))
            return true;
    return false;
}

/* Writes the gap before a token. */
static void put_gap(struct cu_translation *t, size_t i)
{
    const char *line = t->tokens[i].gap, *end = t->tokens[i].text;

    while (line < end) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t bytes = (size_t)((next ? next + 1 : end) - line);

        if (next && *line == '#' && (line == t->text || line[-1] == '\n') && is_nvcc_pragma(line, bytes))
            put(t, "\n");
        else
            put_bytes(t, line, bytes);
        line += bytes;
    }
}

/* Writes tokens unchanged, on one line. */
static void put_flat(struct cu_translation *t, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        if (i > first && !cu_adjacent(&t->tokens[i]))
            put(t, " ");
        put_bytes(t, t->tokens[i].text, t->tokens[i].length);
    }
}

static void emit(struct cu_translation *t, size_t i, size_t end);

/* Writes a line marker for the position of a token. */
static void put_marker(struct cu_translation *t, size_t next)
{
    char file[1024], marker[1100];
    unsigned line = cu_line_of(t->text, &t->tokens[next], file, sizeof file);

    snprintf(marker, sizeof marker, "\n# %u \"%s\"\n", line, file);
    put(t, marker);
}

static bool has_newline(const struct cu_translation *t, size_t i, size_t end)
{
    return memchr(t->tokens[i].text, '\n', (size_t)(t->tokens[end].text - t->tokens[i].text));
}

/* ---- launches ---------------------------------------------------------------------------------------------- */

static const char *const statements[] = {"if", "while", "for", "switch", "return", "else", "do", "case", NULL};

/* Returns true if a ( or [ behind token i would be a call or a subscript of the expression that ends at i. It
 * would not be one if i is the ) of a condition, such as that of an if. */
static bool is_called(const struct cu_translation *t, size_t i)
{
    size_t open = is(t, i, ")") ? cu_partner_before(t, i) : NONE;

    if (open != NONE)
        return !open || !cu_is_one_of(t, open - 1, statements);
    return (is_word(t, i) && !cu_is_one_of(t, i, statements)) || is(t, i, "]");
}

/* Returns the first token of the postfix expression that ends at i: a qualified name, member, element or call. */
static size_t callee_start(struct cu_translation *t, size_t i)
{
    for (;;) {
        size_t open = is(t, i, ">") ? cu_angle_before(t, i) : cu_closes(t, i) ? cu_partner_before(t, i) : i;

        if (open == NONE || (open != i && is(t, i, "}")))
            fail(t, i, "cannot see which kernel is launched before <<<");
        if (is(t, i, ">")) {
            if (!open || !is_word(t, open - 1))
                fail(t, i, "cannot see which kernel is launched before <<<");
            i = open - 1;
        } else if (open != i) {
            i = open;
            if (!i || !is_called(t, i - 1))
                return i;
            i--;
            continue;
        } else if (!is_word(t, i)) {
            fail(t, i, "cannot see which kernel is launched before <<<");
        }
        if (i && is(t, i - 1, "::") && (i == 1 || (!is_word(t, i - 2) && !is(t, i - 2, ">"))))
            return i - 1;
        if (i < 2 || !(is(t, i - 1, "::") || is(t, i - 1, ".") || is(t, i - 1, "->")))
            return i;
        i -= 2;
    }
}

/* Returns the first > of the >>> that closes the configuration that begins at i. templates: treat a < after a word
 * as the start of template arguments if cu_angle() finds their end. */
static size_t configuration_end(const struct cu_translation *t, size_t i, bool templates)
{
    while (i < t->count && !is(t, i, ";") && !cu_closes(t, i)) {
        if (cu_is_triple(t, i, ">") && is(t, i + 3, "("))
            return i;
        if (templates)
            i = cu_after(t, i);
        else
            i = cu_opens(t, i) ? cu_partner(t, i) : i;
        if (i == NONE)
            return NONE;
        i += !templates;
    }
    return NONE;
}

static void add_mark(struct cu_translation *t, const struct cu_mark *mark)
{
    if (t->mark_count == t->mark_room) {
        size_t room = t->mark_room ? 2 * t->mark_room : 64;
        struct cu_mark *larger = realloc(t->marks, room * sizeof *larger);

        if (!larger)
            fail_memory(t);
        t->marks = larger;
        t->mark_room = room;
    }
    t->marks[t->mark_count++] = *mark;
}

static void find_launch(struct cu_translation *t, size_t open)
{
    struct cu_mark mark = {.what = LAUNCH, .launch.open = open};
    struct cu_launch *launch = &mark.launch;

    if (!open)
        fail(t, open, "nothing is launched before <<<");
    launch->callee = mark.at = callee_start(t, open - 1);
    launch->close = configuration_end(t, open + 3, true);
    if (launch->close == NONE)
        launch->close = configuration_end(t, open + 3, false);
    if (launch->close == NONE)
        fail(t, open, "a launch is kernel<<<grid, block>>>(arguments), and after this <<< comes no >>>(");
    launch->arguments = cu_partner(t, launch->close + 3);
    if (launch->arguments == NONE)
        fail(t, launch->close + 3, "the arguments of this launch have no end");
    add_mark(t, &mark);
}

/* Writes a launch as (::leat_cuda_configure(configuration), callee(arguments)). */
static size_t emit_launch(struct cu_translation *t, const struct cu_launch *launch)
{
    put_gap(t, launch->callee);
    put(t, "(::leat_cuda_configure(");
    emit(t, launch->open + 3, launch->close);
    put(t, "), ");
    put_bytes(t, t->tokens[launch->callee].text, t->tokens[launch->callee].length);
    emit(t, launch->callee + 1, launch->open);
    emit(t, launch->close + 3, launch->arguments + 1);
    put(t, ")");
    if (has_newline(t, launch->callee, launch->arguments))
        put_marker(t, launch->arguments);
    return launch->arguments + 1;
}

/* ---- shared variables -------------------------------------------------------------------------------------- */

/* Returns true if the { at i opens a function body, not a namespace, type or initializer. */
static bool begins_code(const struct cu_translation *t, size_t i)
{
    bool parentheses = false;

    for (size_t j = cu_statement_start(t, i); j < i; j++) {
        parentheses |= is(t, j, "(");
        if (is(t, j, "namespace"))
            return false;
    }
    return parentheses && !is(t, i - 1, "=");
}

/* Returns the ; that ends the declaration that contains i. */
static size_t declaration_end(struct cu_translation *t, size_t i)
{
    size_t at = i;

    while (at < t->count && !is(t, at, ";"))
        at = cu_after(t, at);
    if (at >= t->count)
        fail(t, i, "the declaration of this shared variable has no end");
    return at;
}

static void find_shared(struct cu_translation *t, size_t i, bool in_code)
{
    struct cu_mark mark = {.at = cu_statement_start(t, i), .end = declaration_end(t, i)};
    bool is_extern = false, is_static = false;

    for (size_t at = mark.at; at < mark.end; at = cu_after(t, at)) {
        is_extern |= is(t, at, "extern");
        is_static |= is(t, at, "static");
    }
    if (is_extern) {
        mark.what = in_code ? DYNAMIC_OF_FUNCTION : DYNAMIC_OF_NAMESPACE;
        add_mark(t, &mark);
    } else if (!in_code && !is_static) {
        mark.at = i;
        mark.what = SHARED_OF_NAMESPACE;
        add_mark(t, &mark);
    }
}

/* A declaration of a dynamic shared variable, as token indices. */
struct shared {
    size_t type, name, dimensions, end; /* dimensions: the dimensions behind the first [] */
    bool array;
};

static bool is_said_elsewhere(const struct cu_translation *t, size_t i)
{
    static const char *const words[] = {"extern", "__shared__", "static", "__attribute__", "alignas", NULL};

    return cu_is_one_of(t, i, words);
}

/* Writes the type of a shared variable: the tokens before its name, without storage class and alignment. */
static void put_type(struct cu_translation *t, const struct shared *shared)
{
    for (size_t i = shared->type; i < shared->name; i++) {
        if (!is_said_elsewhere(t, i)) {
            put_flat(t, i, i + 1);
            put(t, " ");
        } else if (is(t, i + 1, "(")) {
            i = cu_partner(t, i + 1);
        }
    }
}

static struct shared read_shared(struct cu_translation *t, size_t start, size_t end)
{
    struct shared shared = {.type = start, .name = end - 1, .dimensions = end, .end = end};

    for (size_t i = start; i < end; i = cu_after(t, i)) {
        if (is(t, i, ","))
            fail(t, i, "one variable for each extern __shared__, please: they would all be the same memory");
        if (is(t, i, "[") && !shared.array) {
            shared.array = true;
            shared.name = i - 1;
            shared.dimensions = cu_partner(t, i) + 1;
        }
    }
    if (shared.name <= start || !is_word(t, shared.name))
        fail(t, start, "cannot see which variable this extern __shared__ declares");
    return shared;
}

/* Writes the declaration extern __shared__ T name[][n] as a pointer to the block's shared memory, or, outside of
 * functions, as an object that converts to such a pointer. */
static size_t emit_dynamic(struct cu_translation *t, size_t start, size_t end, bool in_code)
{
    struct shared shared = read_shared(t, start, end);
    bool rows = shared.array && shared.dimensions < end;

    put_gap(t, start);
    if (!in_code) {
        if (!shared.array || rows)
            fail(t, start, "outside of functions leat cu takes extern __shared__ only as TYPE NAME[]");
        put(t, "static const ::leat_dynamic_shared_as<");
        put_type(t, &shared);
        put(t, "> ");
        put_flat(t, shared.name, shared.name + 1);
        put(t, " = {}");
    } else {
        put_type(t, &shared);
        put(t, rows ? "(*const " : shared.array ? "*const " : "&");
        put_flat(t, shared.name, shared.name + 1);
        if (rows) {
            put(t, ")");
            put_flat(t, shared.dimensions, end);
        }
        put(t, shared.array ? " = static_cast<" : " = *static_cast<");
        put_type(t, &shared);
        put(t, rows ? "(*)" : "*");
        put_flat(t, shared.dimensions, end);
        put(t, ">(::leat_dynamic_shared())");
    }
    if (has_newline(t, start, end))
        put_marker(t, end);
    return end;
}

/* ---- kernels ----------------------------------------------------------------------------------------------- */

/* A __global__ function, as token indices. */
struct kernel {
    size_t start;                 /* first token of the declaration */
    size_t template_open;         /* the < of the template parameters, or NONE */
    size_t name_first, name;      /* name_first: the first qualifier of the name, if it has any */
    size_t name_end;              /* token after the name and the template arguments of a specialization */
    size_t parameters, body, end; /* the ( of the parameters, the { and the } of the body */
};

struct parameter {
    size_t first, end; /* its tokens, without the default value */
    size_t name;       /* NONE if the parameter has no name */
    bool pack;
};

/* Finds the function's name: the first word before a parenthesis, except for attributes. Returns false if there is
 * none. */
static bool find_name(struct cu_translation *t, size_t i, struct kernel *kernel)
{
    static const char *const attributes[] = {"__attribute__", "__attribute", "alignas", "__declspec", NULL};

    for (; i < t->count && !is(t, i, ";") && !is(t, i, "{"); i++) {
        size_t end = is(t, i + 1, "<") ? cu_angle(t, i + 1) : NONE;

        if (cu_is_one_of(t, i, attributes) && is(t, i + 1, "(")) {
            i = cu_partner(t, i + 1);
            if (i == NONE)
                return false;
        } else if (is_word(t, i) && (is(t, i + 1, "(") || (end != NONE && is(t, end + 1, "(")))) {
            kernel->name_first = kernel->name = i;
            kernel->name_end = end == NONE ? i + 1 : end + 1;
            kernel->parameters = kernel->name_end;
            while (kernel->name_first > 1 && is(t, kernel->name_first - 1, "::") &&
                   is_word(t, kernel->name_first - 2) && !is(t, kernel->name_first - 2, "void"))
                kernel->name_first -= 2;
            return true;
        }
    }
    return false;
}

/* Finds the parts of a kernel's definition. Returns false for a declaration without a body. */
static bool read_kernel(struct cu_translation *t, size_t global, struct kernel *kernel)
{
    size_t i;

    kernel->start = cu_statement_start(t, global);
    kernel->template_open =
        is(t, kernel->start, "template") && is(t, kernel->start + 1, "<") ? kernel->start + 1 : NONE;
    if (!find_name(t, global + 1, kernel))
        return false;
    i = cu_partner(t, kernel->parameters);
    if (i == NONE)
        fail(t, kernel->parameters, "the parameters of this kernel have no end");
    while (i < t->count && !is(t, i, ";") && !is(t, i, "{"))
        i++;
    if (i == t->count || is(t, i, ";"))
        return false;
    kernel->body = i;
    kernel->end = cu_partner(t, i);
    if (kernel->end == NONE)
        fail(t, i, "the body of this kernel has no end");
    return true;
}

/* Words that can only be part of a type. */
static const char *const type_words[] = {"void",  "bool",     "char",         "short",      "int",
                                         "long",  "float",    "double",       "signed",     "unsigned",
                                         "const", "volatile", "__restrict__", "__restrict", "restrict",
                                         "auto",  "wchar_t",  "size_t",       NULL};
/* Words that do not name a type by themselves. */
static const char *const qualifiers[] = {"const", "volatile", "struct",   "class", "typename",
                                         "union", "enum",     "register", NULL};

/* Returns the name of a parameter that is neither array nor function pointer, or NONE. */
static size_t plain_name(const struct cu_translation *t, const struct parameter *parameter)
{
    size_t last = parameter->end - 1;
    bool typed = false;

    if (!is_word(t, last) || cu_is_one_of(t, last, type_words) ||
        (last > parameter->first && is(t, last - 1, "::")))
        return NONE;
    for (size_t i = parameter->first; i < last; i++)
        typed |= !cu_is_one_of(t, i, qualifiers);
    return typed ? last : NONE;
}

static struct parameter read_parameter(struct cu_translation *t, size_t first, size_t end)
{
    struct parameter parameter = {.first = first, .end = cu_default_of(t, first, end), .name = NONE};

    for (size_t i = first; i < parameter.end; i = cu_after(t, i)) {
        parameter.pack |= is(t, i, "...");
        if (is(t, i, "[") || (is(t, i, "(") && is(t, i + 1, "*"))) {
            parameter.name = is(t, i, "[") ? i - 1 : i + 2;
            if (!is_word(t, parameter.name))
                fail(t, first, "leat cu cannot see the name of this parameter");
            return parameter;
        }
    }
    parameter.name = plain_name(t, &parameter);
    return parameter;
}

/* The part of each parameter that put_parameters() writes. */
enum of_parameter { DECLARATION, NAME, TYPE };

static void put_name(struct cu_translation *t, const struct parameter *parameter, unsigned number)
{
    char name[32];

    if (parameter->name != NONE)
        put_flat(t, parameter->name, parameter->name + 1);
    else {
        snprintf(name, sizeof name, "leat_parameter_%u", number);
        put(t, name);
    }
}

static void put_parameters(struct cu_translation *t, const struct kernel *kernel, enum of_parameter what)
{
    size_t i = kernel->parameters + 1, end = cu_partner(t, kernel->parameters);
    unsigned number = 0;

    if (i + 1 == end && is(t, i, "void"))
        return;
    for (; i < end; i++, number++) {
        size_t element = cu_element_end(t, i, end);
        struct parameter parameter = read_parameter(t, i, element);

        put(t, number ? ", " : "");
        if (what == DECLARATION) {
            put_flat(t, parameter.first, parameter.end);
        } else {
            put(t, what == TYPE ? "::leat_parameter<decltype(" : "");
            put_name(t, &parameter, number);
            put(t, what == TYPE ? ")>" : "");
            put(t, parameter.pack ? "..." : "");
        }
        i = element;
    }
}

/* Writes the parameter list of the function that launches the kernel. Unnamed parameters get names. */
static void emit_parameters(struct cu_translation *t, const struct kernel *kernel)
{
    size_t i = kernel->parameters + 1, end = cu_partner(t, kernel->parameters);
    unsigned number = 0;

    if (i + 1 == end && is(t, i, "void")) {
        emit(t, kernel->parameters, end + 1);
        return;
    }
    emit(t, kernel->parameters, i);
    for (; i < end; i++, number++) {
        size_t element = cu_element_end(t, i, end);
        struct parameter parameter = read_parameter(t, i, element);

        emit(t, i, parameter.end);
        if (parameter.name == NONE) {
            put(t, " ");
            put_name(t, &parameter, number);
        }
        emit(t, parameter.end, element < end ? element + 1 : element);
        i = element;
    }
    emit(t, end, end + 1);
}

/* Writes the template parameters as template arguments, up to the first parameter without a name. The compiler
 * deduces the others, or uses their defaults. */
static void put_template_arguments(struct cu_translation *t, size_t open)
{
    size_t end = cu_angle(t, open), i = open + 1;
    bool first = true;

    if (end == NONE)
        fail(t, open, "the parameters of this template have no end");
    while (i < end) {
        size_t element = cu_element_end(t, i, end), last = cu_default_of(t, i, element);

        if (last < i + 2 || !is_word(t, last - 1) || cu_is_one_of(t, last - 1, type_words) ||
            is(t, last - 2, "::"))
            break;
        put(t, first ? "<" : ", ");
        put_flat(t, last - 1, last);
        put(t, is(t, last - 2, "...") ? "..." : "");
        first = false;
        i = element + 1;
    }
    put(t, first ? "" : ">");
}

/* Writes a kernel as void name(parameters) { struct leat_kernel { static void run(parameters) {body} };
 * leat_cuda_stub<...>::launch(...); } */
static size_t emit_kernel(struct cu_translation *t, size_t global)
{
    struct kernel kernel;

    put_gap(t, global);
    if (!read_kernel(t, global, &kernel))
        return global + 1; /* a declaration: without __global__ it declares the launching function */
    emit(t, global + 1, kernel.parameters);
    emit_parameters(t, &kernel);
    emit(t, cu_partner(t, kernel.parameters) + 1, kernel.body);
    put(t, " { struct leat_kernel { static const char *name() { return \"");
    put_flat(t, kernel.name, kernel.name + 1);
    put(t, "\"; } static void run(");
    put_parameters(t, &kernel, DECLARATION);
    put(t, ")");
    emit(t, kernel.body, kernel.end + 1);
    put(t, " }; ::leat_cuda_stub<leat_kernel, void (*)(");
    put_parameters(t, &kernel, TYPE);
    put(t, "), &");
    put_flat(t, kernel.name_first, kernel.name_end);
    if (kernel.template_open != NONE && kernel.name_end == kernel.name + 1)
        put_template_arguments(t, kernel.template_open);
    put(t, ">::launch(");
    put_parameters(t, &kernel, NAME);
    put(t, "); }");
    return kernel.end + 1;
}

/* ---- translation ---------------------------------------------------------------------------------------------
 */

/* Writes a token or its replacement. */
static void emit_token(struct cu_translation *t, size_t i)
{
    bool system = t->tokens[i].system || !is_word(t, i);

    if (!system && is(t, i, "__shared__"))
        put(t, "thread_local");
    else if (is(t, i, "__assert_fail") && i && !is(t, i - 1, "void")) /* from a system header's assert() */
        put(t, "::leat_kernel_assert");
    else if (!system && is(t, i, "__noinline__") && !is(t, i + 1, ")") && !is(t, i + 1, ","))
        put(t, "__attribute__((__noinline__))");
    else
        put_bytes(t, t->tokens[i].text, t->tokens[i].length);
}

static int compare_marks(const void *a, const void *b)
{
    const struct cu_mark *left = a, *right = b;

    return (left->at > right->at) - (left->at < right->at);
}

static void emit(struct cu_translation *t, size_t i, size_t end)
{
    while (i < end) {
        struct cu_mark key = {.at = i};
        const struct cu_mark *mark =
            t->mark_count ? bsearch(&key, t->marks, t->mark_count, sizeof key, compare_marks) : NULL;

        if (mark && mark->what == LAUNCH) {
            i = emit_launch(t, &mark->launch);
        } else if (mark && mark->what != SHARED_OF_NAMESPACE) {
            i = emit_dynamic(t, i, mark->end, mark->what == DYNAMIC_OF_FUNCTION);
        } else if (!t->tokens[i].system && is(t, i, "__global__")) {
            i = emit_kernel(t, i);
        } else {
            put_gap(t, i);
            put(t, mark ? "static " : "");
            emit_token(t, i++);
        }
    }
}

/* Finds the constructs that begin before the token that identifies them, such as launches, which begin before the
 * <<<. */
static void find_marks(struct cu_translation *t)
{
    size_t depth = 0, code = 0; /* depth: number of braces around the token; code: depth of the outermost function
                                 * body around the token, or 0 */

    for (size_t i = 0; i < t->count; i++) {
        if (is(t, i, "{")) {
            depth++;
            if (!code && begins_code(t, i))
                code = depth;
        } else if (is(t, i, "}") && depth) {
            if (code == depth)
                code = 0;
            depth--;
        } else if (t->tokens[i].system) {
            continue;
        } else if (is(t, i, "__shared__")) {
            find_shared(t, i, code != 0);
        } else if (cu_is_triple(t, i, "<") && !(i && is(t, i - 1, "operator"))) {
            find_launch(t, i);
            i += 2;
        }
    }
    if (t->mark_count)
        qsort(t->marks, t->mark_count, sizeof *t->marks, compare_marks);
}

char *cu_source_translate(const char *text, size_t bytes, struct cu_error *error)
{
    struct cu_translation *t = calloc(1, sizeof *t);
    char *out = NULL;

    memset(error, 0, sizeof *error);
    if (!t || !(t->tokens = cu_tokens_read(text, bytes, &t->count))) {
        snprintf(error->text, sizeof error->text, "out of memory");
        free(t);
        return NULL;
    }
    t->text = text;
    t->error = error;
    if (!setjmp(t->failed)) {
        put(t, "");
        find_marks(t);
        emit(t, 0, t->count);
        put_gap(t, t->count);
        out = t->out;
    } else {
        free(t->out);
    }
    free(t->tokens);
    free(t->marks);
    free(t);
    return out;
}
