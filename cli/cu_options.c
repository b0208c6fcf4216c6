/*
 * cu_options.c - reads the command line of "leat cu" into a build. It passes each option of the compiler to the
 * phases that need it. It replaces options of nvcc by the compiler's options, and ignores those that concern only
 * GPU code.
 */
#include "cli.h"
#include "cu_build.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ------------------------------------------------------------------------------------------------- */

void *cu_must(void *memory)
{
    if (memory)
        return memory;
    cli_complain("cu: out of memory");
    exit(CLI_FAILED);
}

void cu_add(struct cu_list *list, const char *item)
{
    list->items = cu_must(realloc(list->items, (list->count + 2) * sizeof *list->items));
    list->items[list->count++] = (char *)(uintptr_t)item;
    list->items[list->count] = NULL;
}

void cu_add_list(struct cu_list *list, const struct cu_list *others)
{
    for (size_t i = 0; i < others->count; i++)
        cu_add(list, others->items[i]);
}

const char *cu_join(struct cu_build *build, const char *first, const char *second)
{
    size_t bytes = strlen(first) + strlen(second) + 1;
    char *text = cu_must(malloc(bytes));

    snprintf(text, bytes, "%s%s", first, second);
    cu_add(&build->ours, text);
    return text;
}

void cu_add_parts(struct cu_build *build, struct cu_list *list, const char *text, const char *separators)
{
    while (*text) {
        size_t length = strcspn(text, separators);
        char *part;

        if (length) {
            part = cu_must(strndup(text, length));
            cu_add(&build->ours, part);
            cu_add(list, part);
        }
        text += length + (text[length] != '\0');
    }
}

/* ---- the command line -------------------------------------------------------------------------------------- */

enum action {
    IGNORE,  /* ignore an option that concerns only GPU code */
    REFUSE,  /* refuse an option that requests GPU code as output */
    FLAG,    /* pass it to all phases */
    INCLUDE, /* pass it to the preprocessor */
    DEPENDENCY,
    LINKER,
    TO_COMPILER,
    TO_LINKER,
    BINDIR,
    DEFAULT_STREAM, /* --default-stream of nvcc */
    OUTPUT,
    LANGUAGE,
    STAGE_COMPILE,
    STAGE_ASSEMBLY,
    STAGE_PREPROCESS,
    SHARED,
    VERBOSE
};

/* The forms of options: ALONE has no value; JOINED has its value in the same word; NEXT in the next word or after
 * =; EITHER in the same or in the next word. */
enum form { ALONE, JOINED, NEXT, EITHER };

static const struct option {
    const char *name;
    enum form form;
    enum action action;
    const char *as; /* the compiler's name of the option, or NULL if it is the same */
} options[] = {
    {"-o", EITHER, OUTPUT, NULL},
    {"--output-file", NEXT, OUTPUT, NULL},
    {"-x", EITHER, LANGUAGE, NULL},
    {"-c", ALONE, STAGE_COMPILE, NULL},
    {"--compile", ALONE, STAGE_COMPILE, NULL},
    {"-dc", ALONE, STAGE_COMPILE, NULL},
    {"--device-c", ALONE, STAGE_COMPILE, NULL},
    {"-S", ALONE, STAGE_ASSEMBLY, NULL},
    {"-E", ALONE, STAGE_PREPROCESS, NULL},
    {"--preprocess", ALONE, STAGE_PREPROCESS, NULL},
    {"-shared", ALONE, SHARED, NULL},
    {"--shared", ALONE, SHARED, NULL},
    {"-v", ALONE, VERBOSE, NULL},
    {"--verbose", ALONE, VERBOSE, NULL},
    {"-I", EITHER, INCLUDE, NULL},
    {"--include-path", NEXT, INCLUDE, "-I"},
    {"-D", EITHER, INCLUDE, NULL},
    {"--define-macro", NEXT, INCLUDE, "-D"},
    {"-U", EITHER, INCLUDE, NULL},
    {"-include", NEXT, INCLUDE, NULL},
    {"-imacros", NEXT, INCLUDE, NULL},
    {"-isystem", EITHER, INCLUDE, NULL},
    {"-iquote", EITHER, INCLUDE, NULL},
    {"-idirafter", EITHER, INCLUDE, NULL},
    {"-MF", EITHER, DEPENDENCY, NULL},
    {"-MT", EITHER, DEPENDENCY, NULL},
    {"-MQ", EITHER, DEPENDENCY, NULL},
    {"-M", JOINED, DEPENDENCY, NULL},
    {"-L", EITHER, LINKER, NULL},
    {"--library-path", NEXT, LINKER, "-L"},
    {"-l", EITHER, LINKER, NULL},
    {"--library", NEXT, LINKER, "-l"},
    {"-Wl,", JOINED, LINKER, NULL},
    {"-Xlinker", NEXT, TO_LINKER, NULL},
    {"--linker-options", NEXT, TO_LINKER, NULL},
    {"-Xcompiler", NEXT, TO_COMPILER, NULL},
    {"--compiler-options", NEXT, TO_COMPILER, NULL},
    {"-ccbin", NEXT, BINDIR, NULL},
    {"--compiler-bindir", NEXT, BINDIR, NULL},
    {"-default-stream", NEXT, DEFAULT_STREAM, NULL},
    {"--default-stream", NEXT, DEFAULT_STREAM, NULL},
    {"-std", NEXT, FLAG, "-std="},
    {"--std", NEXT, FLAG, "-std="},
    {"--optimize", NEXT, FLAG, "-O"},
    {"--debug", ALONE, FLAG, "-g"},
    {"--param", NEXT, FLAG, NULL},
    {"-Xclang", NEXT, FLAG, NULL},
    {"-mllvm", NEXT, FLAG, NULL},
    {"-T", NEXT, LINKER, NULL},
    {"-u", NEXT, LINKER, NULL},
    {"-z", NEXT, LINKER, NULL},
    {"-ptx", ALONE, REFUSE, NULL},
    {"--ptx", ALONE, REFUSE, NULL},
    {"-cubin", ALONE, REFUSE, NULL},
    {"--cubin", ALONE, REFUSE, NULL},
    {"-fatbin", ALONE, REFUSE, NULL},
    {"--fatbin", ALONE, REFUSE, NULL},
    {"-dlink", ALONE, REFUSE, NULL},
    {"--device-link", ALONE, REFUSE, NULL},
    {"-arch", NEXT, IGNORE, NULL},
    {"--gpu-architecture", NEXT, IGNORE, NULL},
    {"-code", NEXT, IGNORE, NULL},
    {"--gpu-code", NEXT, IGNORE, NULL},
    {"-gencode", NEXT, IGNORE, NULL},
    {"--generate-code", NEXT, IGNORE, NULL},
    {"-maxrregcount", NEXT, IGNORE, NULL},
    {"--maxrregcount", NEXT, IGNORE, NULL},
    {"-rdc", NEXT, IGNORE, NULL},
    {"--relocatable-device-code", NEXT, IGNORE, NULL},
    {"-cudart", NEXT, IGNORE, NULL},
    {"--cudart", NEXT, IGNORE, NULL},
    {"-Xptxas", NEXT, IGNORE, NULL},
    {"--ptxas-options", NEXT, IGNORE, NULL},
    {"-Xnvlink", NEXT, IGNORE, NULL},
    {"--nvlink-options", NEXT, IGNORE, NULL},
    {"-Xfatbin", NEXT, IGNORE, NULL},
    {"-Xcudafe", NEXT, IGNORE, NULL},
    {"-t", NEXT, IGNORE, NULL},
    {"--threads", NEXT, IGNORE, NULL},
    {"-ftz", NEXT, IGNORE, NULL},
    {"--ftz", NEXT, IGNORE, NULL},
    {"-fmad", NEXT, IGNORE, NULL},
    {"--fmad", NEXT, IGNORE, NULL},
    {"-prec-div", NEXT, IGNORE, NULL},
    {"--prec-div", NEXT, IGNORE, NULL},
    {"-prec-sqrt", NEXT, IGNORE, NULL},
    {"--prec-sqrt", NEXT, IGNORE, NULL},
    {"-diag-suppress", NEXT, IGNORE, NULL},
    {"--diag-suppress", NEXT, IGNORE, NULL},
    {"-G", ALONE, IGNORE, NULL},
    {"--device-debug", ALONE, IGNORE, NULL},
    {"-lineinfo", ALONE, IGNORE, NULL},
    {"--generate-line-info", ALONE, IGNORE, NULL},
    {"-use_fast_math", ALONE, IGNORE, NULL},
    {"--use_fast_math", ALONE, IGNORE, NULL},
    {"-expt-relaxed-constexpr", ALONE, IGNORE, NULL},
    {"--expt-relaxed-constexpr", ALONE, IGNORE, NULL},
    {"-expt-extended-lambda", ALONE, IGNORE, NULL},
    {"--expt-extended-lambda", ALONE, IGNORE, NULL},
    {"-extended-lambda", ALONE, IGNORE, NULL},
    {"--extended-lambda", ALONE, IGNORE, NULL},
    {"-res-usage", ALONE, IGNORE, NULL},
    {"--resource-usage", ALONE, IGNORE, NULL},
};

/* Returns true if the argument is this option. *value receives the value in the same word, or NULL. */
static bool gives(const char *argument, const struct option *option, const char **value)
{
    size_t length = strlen(option->name);

    if (strncmp(argument, option->name, length))
        return false;
    *value = argument[length] ? argument + length : NULL;
    if (!*value)
        return option->form != JOINED || option->action == DEPENDENCY;
    if (**value == '=' && option->form == NEXT) {
        ++*value;
        return true;
    }
    return option->form == JOINED || option->form == EITHER;
}

/* Returns the matching option with the longest name (-MF before -M), or NULL. */
static const struct option *find_option(const char *argument, const char **value)
{
    const struct option *best = NULL;
    const char *in_word;

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (gives(argument, &options[i], &in_word) && (!best || strlen(options[i].name) > strlen(best->name))) {
            best = &options[i];
            *value = in_word;
        }
    return best;
}

/* Adds an option to a list under the compiler's name. */
static void add_option(struct cu_build *build, struct cu_list *list, const struct option *option,
                       const char *argument, const char *value, bool joined)
{
    if (option->as) {
        cu_add(list, value ? cu_join(build, option->as, value) : option->as);
    } else {
        cu_add(list, argument);
        if (value && !joined)
            cu_add(list, value);
    }
}

/* Returns the C++ standard to compile with. Makefiles for older versions of nvcc may ask for a standard older than
 * C++14, which the headers do not support. */
static const char *standard(const char *name)
{
    static const char *const older[] = {"c++98", "c++03", "c++0x", "c++11", NULL};

    for (size_t i = 0; older[i]; i++)
        if (!strcmp(name, older[i]))
            return "c++14";
    return name;
}

static enum cu_language language_of(const char *path)
{
    static const struct {
        const char *ending;
        enum cu_language language;
    } known[] = {{".cu", CU_CUDA}, {".c", CU_C},     {".cc", CU_CXX}, {".cpp", CU_CXX},
                 {".cxx", CU_CXX}, {".c++", CU_CXX}, {".C", CU_CXX},  {".cp", CU_CXX}};
    const char *ending = strrchr(path, '.');

    if (!strcmp(path, "-"))
        return CU_CUDA;
    for (size_t i = 0; ending && i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(ending, known[i].ending))
            return known[i].language;
    return CU_OBJECT;
}

static void add_input(struct cu_build *build, const char *path)
{
    enum cu_language language = build->next_language == CU_BY_NAME ? language_of(path) : build->next_language;

    if (language == CU_OBJECT) {
        cu_add(&build->link, path);
        return;
    }
    build->inputs = cu_must(realloc(build->inputs, (build->input_count + 1) * sizeof *build->inputs));
    build->inputs[build->input_count++] = (struct cu_input){path, language};
    cu_add(&build->link, "");
}

static bool set_language(struct cu_build *build, const char *name)
{
    static const struct {
        const char *name;
        enum cu_language language;
    } known[] = {{"cu", CU_CUDA}, {"c++", CU_CXX}, {"c", CU_C}, {"none", CU_BY_NAME}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(name, known[i].name)) {
            build->next_language = known[i].language;
            return true;
        }
    cli_complain("cu: -x %s: the languages are cu, c++, c and none", name);
    return false;
}

/* Returns true for a library of the vendor that leat's libraries replace. */
static bool is_replaced(const char *library)
{
    static const char *const names[] = {"cudart", "cudart_static", "cudadevrt", "cuda", NULL};

    for (size_t i = 0; names[i]; i++)
        if (!strcmp(library, names[i]))
            return true;
    return false;
}

static void add_linker(struct cu_build *build, const struct option *option, const char *argument,
                       const char *value, bool joined)
{
    bool library = !strcmp(option->as ? option->as : option->name, "-l");

    if (!library || !is_replaced(value))
        add_option(build, &build->link, option, argument, value, joined);
}

/* Reads the value of -Xcompiler, such as a,b, as the arguments a and b. */
static bool read_for_compiler(struct cu_build *build, const char *value)
{
    struct cu_list parts = {NULL, 0};
    bool fine = true, used;

    cu_add_parts(build, &parts, value, strncmp(value, "-Wl,", 4) ? ", " : "");
    for (size_t i = 0; fine && i < parts.count; i++) {
        used = false;
        fine = cu_read_argument(build, parts.items[i], parts.items[i + 1], &used);
        i += used;
    }
    free(parts.items);
    return fine;
}

static void read_for_linker(struct cu_build *build, const char *value)
{
    struct cu_list parts = {NULL, 0};

    cu_add_parts(build, &parts, value, ",");
    for (size_t i = 0; i < parts.count; i++) {
        cu_add(&build->link, "-Xlinker");
        cu_add(&build->link, parts.items[i]);
    }
    free(parts.items);
}

/* Applies an option to the build. value is NULL for options of the form ALONE, and for -M without a value. */
static bool apply(struct cu_build *build, const struct option *option, const char *argument, const char *value,
                  bool joined)
{
    switch (option->action) {
    case IGNORE:
        break;
    case REFUSE:
        cli_complain(
            "cu: %s: leat cu compiles for the CPU device only; -shared makes a library for LEAT_CPU_KERNELS",
            argument);
        return false;
    case FLAG:
        if (value && option->as && !strcmp(option->as, "-std="))
            value = standard(value);
        add_option(build, &build->flags, option, argument, value, joined);
        break;
    case INCLUDE:
        add_option(build, &build->includes, option, argument, value, joined);
        break;
    case DEPENDENCY:
        add_option(build, &build->dependencies, option, argument, value, joined);
        break;
    case LINKER:
        assert(value);
        add_linker(build, option, argument, value, joined);
        break;
    case TO_COMPILER:
        assert(value);
        return read_for_compiler(build, value);
    case TO_LINKER:
        read_for_linker(build, value);
        break;
    case BINDIR:
        build->compiler.count = 0;
        cu_add(&build->compiler, value);
        break;
    case DEFAULT_STREAM:
        assert(value);
        if (!strcmp(value, "per-thread"))
            cu_add(&build->includes, "-DCUDA_API_PER_THREAD_DEFAULT_STREAM");
        break;
    case OUTPUT:
        build->output = value;
        break;
    case LANGUAGE:
        assert(value);
        return set_language(build, value);
    case STAGE_COMPILE:
        build->stage = CU_COMPILE;
        break;
    case STAGE_ASSEMBLY:
        build->stage = CU_ASSEMBLY;
        break;
    case STAGE_PREPROCESS:
        build->stage = CU_PREPROCESS;
        break;
    case SHARED:
        build->shared = true;
        break;
    case VERBOSE:
        build->verbose = true;
        break;
    }
    return true;
}

bool cu_read_argument(struct cu_build *build, const char *argument, const char *next, bool *used)
{
    const struct option *option;
    const char *value = NULL;

    if (argument[0] != '-' || !argument[1]) {
        add_input(build, argument);
        return true;
    }
    option = find_option(argument, &value);
    if (!option) {
        build->pic |= !strcmp(argument, "-fPIC") || !strcmp(argument, "-fpic");
        cu_add(&build->flags, argument);
        return true;
    }
    *used = !value && (option->form == NEXT || option->form == EITHER);
    if (*used && !next) {
        cli_complain("cu: %s needs a value; see leat help cu", argument);
        return false;
    }
    return apply(build, option, argument, *used ? next : value, !*used);
}
