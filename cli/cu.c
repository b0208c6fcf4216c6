/*
 * cu.c - "leat cu": builds CUDA C++ programs for the CPU device with the host's C++ compiler.
 *
 * Each .cu file is preprocessed, translated (cu_source.h) and compiled; other sources are compiled directly;
 * everything is linked with leat's libraries. Options are passed to the compiler phases that they concern. Options
 * of nvcc are mapped to those of the compiler, or ignored if they concern GPU code.
 */
#include "cli.h"
#include "cu_source.h"

#include <assert.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char cli_cu_help[] =
    "Usage: leat cu [OPTION]... FILE...\n\n"
    "Builds CUDA C++ programs for the CPU device with the host's C++ compiler:\n"
    "  leat cu vector_add.cu -o vector_add\n"
    "Files named .cu are CUDA C++, other sources C++ or C; all other files are passed to the linker; - is CUDA "
    "C++ on\n"
    "standard input. The headers and libraries of leat are those beside this command.\n\n"
    "Options:\n"
    "  -o FILE         the output; without it a.out, or the name of the source with .o\n"
    "  -c              compile only\n"
    "  -E              print the translated C++ source\n"
    "  -shared         build a library; LEAT_CPU_KERNELS can name it to programs that load PTX\n"
    "  -x cu           treat the following sources as CUDA C++\n"
    "  -v              print each command before it runs\n"
    "  --help          this text\n"
    "All other options are passed to the compiler (-O2, -g, -std=c++17, -I, -D, -L, -l, -fsanitize=... and so "
    "on).\n"
    "Options of nvcc: -Xcompiler, -Xlinker, -ccbin, -dc and --default-stream are supported; those that concern "
    "GPU code\n"
    "(-arch, -gencode, -rdc, -lineinfo, --use_fast_math and so on) are ignored.\n\n"
    "Environment: CXX is the C++ compiler (default c++), CC the C compiler (default cc), TMPDIR the folder for "
    "temporary\n"
    "files.\n";

enum language { BY_NAME, CUDA, CXX, C, OBJECT };
enum stage { LINK, COMPILE, ASSEMBLY, PREPROCESS };

struct list {
    char **items;
    size_t count;
};

struct input {
    const char *path;
    enum language language;
};

struct build {
    enum stage stage;
    const char *output;
    bool verbose, shared, pic;
    enum language next_language; /* set by -x */
    struct input *inputs;
    size_t input_count;
    struct list includes;     /* -I, -D and so on: preprocessor options */
    struct list dependencies; /* -MD and so on */
    struct list flags;        /* for all phases */
    struct list link;         /* objects and libraries in order; "" stands for the object of the next input */
    struct list compiler, c_compiler;
    struct list ours; /* allocated strings, to be freed */
    char include_dir[PATH_MAX], library_dir[PATH_MAX];
    char folder[PATH_MAX]; /* for temporary files; "": none yet */
};

/* ---- lists ------------------------------------------------------------------------------------------------- */

static void *must(void *memory)
{
    if (memory)
        return memory;
    cli_complain("cu: out of memory");
    exit(CLI_FAILED);
}

static void add(struct list *list, const char *item)
{
    list->items = must(realloc(list->items, (list->count + 2) * sizeof *list->items));
    list->items[list->count++] = (char *)(uintptr_t)item;
    list->items[list->count] = NULL;
}

static void add_list(struct list *list, const struct list *others)
{
    for (size_t i = 0; i < others->count; i++)
        add(list, others->items[i]);
}

/* Returns the concatenation of two strings, owned by the build. */
static const char *join(struct build *build, const char *first, const char *second)
{
    size_t bytes = strlen(first) + strlen(second) + 1;
    char *text = must(malloc(bytes));

    snprintf(text, bytes, "%s%s", first, second);
    add(&build->ours, text);
    return text;
}

/* Adds the parts of a text between separators. */
static void add_parts(struct build *build, struct list *list, const char *text, const char *separators)
{
    while (*text) {
        size_t length = strcspn(text, separators);
        char *part;

        if (length) {
            part = must(strndup(text, length));
            add(&build->ours, part);
            add(list, part);
        }
        text += length + (text[length] != '\0');
    }
}

/* ---- the command line -------------------------------------------------------------------------------------- */

enum action {
    IGNORE,  /* concerns GPU code */
    REFUSE,  /* asks for GPU code */
    FLAG,    /* for all phases */
    INCLUDE, /* for the preprocessor */
    DEPENDENCY,
    LINKER,
    TO_COMPILER,
    TO_LINKER,
    BINDIR,
    DEFAULT_STREAM, /* of nvcc */
    OUTPUT,
    LANGUAGE,
    STAGE_COMPILE,
    STAGE_ASSEMBLY,
    STAGE_PREPROCESS,
    SHARED,
    VERBOSE
};

/* Forms of options: without value; value in the same word; value in the next word (or after =); same or next word.
 */
enum form { ALONE, JOINED, NEXT, EITHER };

static const struct option {
    const char *name;
    enum form form;
    enum action action;
    const char *as; /* the compiler's name for it, if different */
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

/* Returns true if the argument is this option. *value: the value in the same word, or NULL. */
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

/* Adds an option in the compiler's spelling. */
static void add_option(struct build *build, struct list *list, const struct option *option, const char *argument,
                       const char *value, bool joined)
{
    if (option->as) {
        add(list, value ? join(build, option->as, value) : option->as);
    } else {
        add(list, argument);
        if (value && !joined)
            add(list, value);
    }
}

/* Makefiles for older versions of nvcc ask for standards that the headers do not support. */
static const char *standard(const char *name)
{
    static const char *const older[] = {"c++98", "c++03", "c++0x", "c++11", NULL};

    for (size_t i = 0; older[i]; i++)
        if (!strcmp(name, older[i]))
            return "c++14";
    return name;
}

static enum language language_of(const char *path)
{
    static const struct {
        const char *ending;
        enum language language;
    } known[] = {{".cu", CUDA}, {".c", C},     {".cc", CXX}, {".cpp", CXX},
                 {".cxx", CXX}, {".c++", CXX}, {".C", CXX},  {".cp", CXX}};
    const char *ending = strrchr(path, '.');

    if (!strcmp(path, "-"))
        return CUDA;
    for (size_t i = 0; ending && i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(ending, known[i].ending))
            return known[i].language;
    return OBJECT;
}

static void add_input(struct build *build, const char *path)
{
    enum language language = build->next_language == BY_NAME ? language_of(path) : build->next_language;

    if (language == OBJECT) {
        add(&build->link, path);
        return;
    }
    build->inputs = must(realloc(build->inputs, (build->input_count + 1) * sizeof *build->inputs));
    build->inputs[build->input_count++] = (struct input){path, language};
    add(&build->link, "");
}

static bool set_language(struct build *build, const char *name)
{
    static const struct {
        const char *name;
        enum language language;
    } known[] = {{"cu", CUDA}, {"c++", CXX}, {"c", C}, {"none", BY_NAME}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(name, known[i].name)) {
            build->next_language = known[i].language;
            return true;
        }
    cli_complain("cu: -x %s: the languages are cu, c++, c and none", name);
    return false;
}

/* Returns true for the vendor's libraries that leat's replace. */
static bool is_replaced(const char *library)
{
    static const char *const names[] = {"cudart", "cudart_static", "cudadevrt", "cuda", NULL};

    for (size_t i = 0; names[i]; i++)
        if (!strcmp(library, names[i]))
            return true;
    return false;
}

static void add_linker(struct build *build, const struct option *option, const char *argument, const char *value,
                       bool joined)
{
    bool library = !strcmp(option->as ? option->as : option->name, "-l");

    if (!library || !is_replaced(value))
        add_option(build, &build->link, option, argument, value, joined);
}

static bool read_argument(struct build *build, const char *argument, const char *next, bool *used);

/* -Xcompiler a,b: reads a and b as arguments. */
static bool read_for_compiler(struct build *build, const char *value)
{
    struct list parts = {NULL, 0};
    bool fine = true, used;

    add_parts(build, &parts, value, strncmp(value, "-Wl,", 4) ? ", " : "");
    for (size_t i = 0; fine && i < parts.count; i++) {
        used = false;
        fine = read_argument(build, parts.items[i], parts.items[i + 1], &used);
        i += used;
    }
    free(parts.items);
    return fine;
}

static void read_for_linker(struct build *build, const char *value)
{
    struct list parts = {NULL, 0};

    add_parts(build, &parts, value, ",");
    for (size_t i = 0; i < parts.count; i++) {
        add(&build->link, "-Xlinker");
        add(&build->link, parts.items[i]);
    }
    free(parts.items);
}

/* value is NULL for options that the table lists as ALONE, and for -M alone. */
static bool apply(struct build *build, const struct option *option, const char *argument, const char *value,
                  bool joined)
{
    switch (option->action) {
    case IGNORE:
        break;
    case REFUSE:
        cli_complain(
            "cu: %s: leat cu makes code for the CPU device only; kernels for LEAT_CPU_KERNELS are a library "
            "(-shared)",
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
        add(&build->compiler, value);
        break;
    case DEFAULT_STREAM:
        assert(value);
        if (!strcmp(value, "per-thread"))
            add(&build->includes, "-DCUDA_API_PER_THREAD_DEFAULT_STREAM");
        break;
    case OUTPUT:
        build->output = value;
        break;
    case LANGUAGE:
        assert(value);
        return set_language(build, value);
    case STAGE_COMPILE:
        build->stage = COMPILE;
        break;
    case STAGE_ASSEMBLY:
        build->stage = ASSEMBLY;
        break;
    case STAGE_PREPROCESS:
        build->stage = PREPROCESS;
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

/* Reads an argument. *used: next was its value. */
static bool read_argument(struct build *build, const char *argument, const char *next, bool *used)
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
        add(&build->flags, argument);
        return true;
    }
    *used = !value && (option->form == NEXT || option->form == EITHER);
    if (*used && !next) {
        cli_complain("cu: %s needs a value; see leat help cu", argument);
        return false;
    }
    return apply(build, option, argument, *used ? next : value, !*used);
}

/* ---- where leat is ----------------------------------------------------------------------------------------- */

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_MAX];

    return (size_t)snprintf(path, sizeof path, "%s/%s", folder, name) < sizeof path && !access(path, R_OK);
}

/* Looks for include/ beside the folder of the command (installed), and further up (build folder in the source
 * tree). */
static bool find_headers(struct build *build, const char *folder)
{
    char above[PATH_MAX];

    snprintf(above, sizeof above, "%s", folder);
    for (int level = 0; level < 4 && strrchr(above, '/'); level++) {
        *strrchr(above, '/') = '\0';
        if ((size_t)snprintf(build->include_dir, sizeof build->include_dir, "%s/include", above) <
                sizeof build->include_dir &&
            is_there(build->include_dir, "leat/compat/cuda_runtime.h"))
            return true;
    }
    return false;
}

/* Looks for the libraries in the folder of the command (build folder), and in lib/, lib64/ and lib/<machine>/
 * beside it (installed). */
static bool find_libraries(struct build *build, const char *folder)
{
    static const char *const patterns[] = {"%s/libleat-cudart.so", "%s/../lib/libleat-cudart.so",
                                           "%s/../lib64/libleat-cudart.so", "%s/../lib/*/libleat-cudart.so"};
    bool found = false;

    for (size_t i = 0; !found && i < sizeof patterns / sizeof patterns[0]; i++) {
        char pattern[PATH_MAX + 64];
        glob_t paths;

        snprintf(pattern, sizeof pattern, patterns[i], folder);
        if (!glob(pattern, 0, NULL, &paths) && realpath(paths.gl_pathv[0], build->library_dir)) {
            /* Not the resolved path: the link may lead to a folder without the other links. */
            snprintf(build->library_dir, sizeof build->library_dir, "%s", paths.gl_pathv[0]);
            *strrchr(build->library_dir, '/') = '\0';
            found = true;
        }
        globfree(&paths);
    }
    return found;
}

static bool find_leat(struct build *build)
{
    char folder[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);

    if (length <= 0) {
        cli_complain("cu: /proc/self/exe: %s", strerror(errno));
        return false;
    }
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
    if (!find_headers(build, folder)) {
        cli_complain(
            "cu: leat/compat/cuda_runtime.h is in no include/ beside or above %s; install leat, or run the "
            "command where it was built or installed",
            folder);
        return false;
    }
    if (build->stage == LINK && !find_libraries(build, folder)) {
        cli_complain("cu: libleat-cudart.so is neither in %s nor in ../lib; 'make compat' builds it", folder);
        return false;
    }
    return true;
}

/* ---- running the compiler ---------------------------------------------------------------------------------- */

static bool run(struct build *build, const struct list *command)
{
    pid_t child;
    int status;

    if (build->verbose) {
        for (size_t i = 0; i < command->count; i++)
            fprintf(stderr, "%s%s", i ? " " : "", command->items[i]);
        fputc('\n', stderr);
    }
    child = fork();
    if (!child) {
        execvp(command->items[0], command->items);
        cli_complain(
            "cu: the compiler %s cannot be run: %s; install one (Debian: g++), or name another in CXX or CC",
            command->items[0], strerror(errno));
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        cli_complain("cu: %s: %s", command->items[0], strerror(errno));
        return false;
    }
    return WIFEXITED(status) && !WEXITSTATUS(status); /* it has printed why */
}

static bool make_folder(struct build *build)
{
    const char *folder = getenv("TMPDIR");

    snprintf(build->folder, sizeof build->folder, "%s/leat-cu-XXXXXX", folder && *folder ? folder : "/tmp");
    if (mkdtemp(build->folder))
        return true;
    cli_complain("cu: %s: %s; TMPDIR names another folder", build->folder, strerror(errno));
    build->folder[0] = '\0';
    return false;
}

static void remove_folder(struct build *build)
{
    char pattern[PATH_MAX + 8];
    glob_t paths;

    if (!build->folder[0])
        return;
    snprintf(pattern, sizeof pattern, "%s/*", build->folder);
    if (!glob(pattern, 0, NULL, &paths))
        for (size_t i = 0; i < paths.gl_pathc; i++)
            unlink(paths.gl_pathv[i]);
    globfree(&paths);
    rmdir(build->folder);
}

/* Returns the name of a temporary file. */
static const char *temporary(struct build *build, size_t number, const char *ending)
{
    char name[64];

    snprintf(name, sizeof name, "/%zu%s", number, ending);
    return join(build, build->folder, name);
}

/* Returns the base name of the source with another ending. */
static const char *named_after(struct build *build, const char *source, const char *ending)
{
    const char *base = strrchr(source, '/') ? strrchr(source, '/') + 1 : source;
    const char *point = strrchr(base, '.');
    char *name = must(strndup(base, point ? (size_t)(point - base) : strlen(base)));
    const char *joined = join(build, name, ending);

    free(name);
    return joined;
}

static char *read_whole(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "re");
    char *content = NULL;
    long end;

    if (file && !fseek(file, 0, SEEK_END) && (end = ftell(file)) >= 0 && !fseek(file, 0, SEEK_SET)) {
        content = must(malloc((size_t)end + 1));
        *bytes = fread(content, 1, (size_t)end, file);
        content[*bytes] = '\0';
    }
    if (!content)
        cli_complain("cu: %s: %s", path, strerror(errno));
    if (file)
        fclose(file);
    return content;
}

/* Writes a file; "-": standard output. */
static bool write_whole(const char *path, const char *text)
{
    bool to_stdout = !strcmp(path, "-"), written;
    FILE *file = to_stdout ? stdout : fopen(path, "we");

    written = file && fputs(text, file) >= 0;
    if (to_stdout)
        written = !fflush(stdout) && written;
    else if (file)
        written = !fclose(file) && written;
    if (!written)
        cli_complain("cu: %s: %s", path, strerror(errno));
    return written;
}

static bool translate(const char *source, const char *preprocessed, const char *translated)
{
    struct cu_error error;
    size_t bytes;
    char *text = read_whole(preprocessed, &bytes), *out;
    bool written;

    if (!text)
        return false;
    out = cu_source_translate(text, bytes, &error);
    free(text);
    if (!out) {
        /* In the format of compilers, which editors understand. */
        fprintf(stderr, "%s:%u: error: %s\n", error.file[0] ? error.file : source, error.line, error.text);
        return false;
    }
    written = write_whole(translated, out);
    free(out);
    return written;
}

static void begin_command(struct build *build, struct list *command, const struct list *compiler)
{
    add_list(command, compiler);
    add_list(command, &build->flags);
    if (build->shared && !build->pic)
        add(command, "-fPIC");
}

static void add_includes(struct build *build, struct list *command)
{
    add(command, "-I");
    add(command, join(build, build->include_dir, "/leat/compat"));
    add(command, "-I");
    add(command, build->include_dir);
    add_list(command, &build->includes);
}

/* Dependency files name the object as their target, as if it were compiled directly. */
static void add_dependencies(struct build *build, struct list *command, const char *object)
{
    bool file = false, target = false;

    if (!build->dependencies.count || build->stage == LINK)
        return;
    for (size_t i = 0; i < build->dependencies.count; i++) {
        file |= !strncmp(build->dependencies.items[i], "-MF", 3);
        target |=
            !strncmp(build->dependencies.items[i], "-MT", 3) || !strncmp(build->dependencies.items[i], "-MQ", 3);
    }
    add_list(command, &build->dependencies);
    if (!file) {
        add(command, "-MF");
        add(command, named_after(build, object, ".d"));
    }
    if (!target) {
        add(command, "-MT");
        add(command, object);
    }
}

static bool preprocess(struct build *build, const struct input *input, const char *object, const char *output)
{
    struct list command = {NULL, 0};
    bool fine;

    begin_command(build, &command, &build->compiler);
    add(&command, "-D__LEAT_CU__");
    add(&command, "-D__CUDACC__");
    add_includes(build, &command);
    add(&command, "-include");
    add(&command, "cuda_runtime.h");
    add_dependencies(build, &command, object);
    add(&command, "-E");
    add(&command, "-x");
    add(&command, "c++");
    add(&command, input->path);
    add(&command, "-o");
    add(&command, output);
    fine = run(build, &command);
    free(command.items);
    return fine;
}

static bool compile(struct build *build, const struct input *input, const char *path, const char *object)
{
    struct list command = {NULL, 0};
    bool fine;

    begin_command(build, &command, input->language == C ? &build->c_compiler : &build->compiler);
    if (input->language != CUDA) {
        add_includes(build, &command);
        add_dependencies(build, &command, object);
    }
    add(&command, build->stage == ASSEMBLY ? "-S" : build->stage == PREPROCESS ? "-E" : "-c");
    add(&command, "-x");
    add(&command, input->language == CUDA ? "c++-cpp-output" : input->language == C ? "c" : "c++");
    add(&command, path);
    add(&command, "-o");
    add(&command, object);
    fine = run(build, &command);
    free(command.items);
    return fine;
}

static bool build_input(struct build *build, size_t i, const char *object)
{
    const struct input *input = &build->inputs[i];
    const char *preprocessed, *translated;

    if (input->language != CUDA)
        return compile(build, input, input->path, object);
    preprocessed = temporary(build, i, ".i");
    translated = build->stage == PREPROCESS ? object : temporary(build, i, ".ii");
    return preprocess(build, input, object, preprocessed) && translate(input->path, preprocessed, translated) &&
           (build->stage == PREPROCESS || compile(build, input, translated, object));
}

/* --as-needed: link only the libraries that are used. The rpath is for libraries outside of the loader's search
 * path. */
static bool link_all(struct build *build, const struct list *objects)
{
    struct list command = {NULL, 0};
    size_t object = 0;
    bool fine;

    begin_command(build, &command, &build->compiler);
    if (build->shared)
        add(&command, "-shared");
    for (size_t i = 0; i < build->link.count; i++)
        add(&command, build->link.items[i][0] ? build->link.items[i] : objects->items[object++]);
    add(&command, join(build, "-L", build->library_dir));
    if (strncmp(build->library_dir, "/usr/lib", 8) && strncmp(build->library_dir, "/lib", 4))
        add(&command, join(build, "-Wl,-rpath,", build->library_dir));
    add(&command, "-Wl,--push-state,--as-needed");
    add(&command, "-lleat-cudart");
    add(&command, "-lleat-cuda");
    add(&command, "-lleat-compat");
    add(&command, "-lleat");
    add(&command, "-Wl,--pop-state");
    add(&command, "-pthread");
    add(&command, "-o");
    add(&command, build->output ? build->output : "a.out");
    fine = run(build, &command);
    free(command.items);
    return fine;
}

static bool build_all(struct build *build)
{
    static const char *const endings[] = {".o", ".o", ".s", ""};
    struct list objects = {NULL, 0};
    bool fine = make_folder(build);

    for (size_t i = 0; fine && i < build->input_count; i++) {
        const char *object = build->stage == LINK ? temporary(build, i, ".o")
                             : build->output      ? build->output
                             : build->stage == PREPROCESS
                                 ? "-"
                                 : named_after(build, build->inputs[i].path, endings[build->stage]);

        add(&objects, object);
        fine = build_input(build, i, object);
    }
    if (fine && build->stage == LINK)
        fine = link_all(build, &objects);
    remove_folder(build);
    free(objects.items);
    return fine;
}

/* ---- the command ------------------------------------------------------------------------------------------- */

static bool is_usable(const struct build *build)
{
    size_t from_stdin = 0;

    for (size_t i = 0; i < build->input_count; i++)
        from_stdin += !strcmp(build->inputs[i].path, "-");
    if (from_stdin > 1) {
        cli_complain("cu: standard input (-) can be only one of the sources");
        return false;
    }
    if (from_stdin && !build->output && (build->stage == COMPILE || build->stage == ASSEMBLY)) {
        cli_complain("cu: the output of a source on standard input needs a name: -o FILE");
        return false;
    }
    if (!build->input_count && (build->stage != LINK || !build->link.count)) {
        cli_complain("cu: no source given; see leat help cu");
        return false;
    }
    if (build->stage != LINK && build->output && build->input_count > 1) {
        cli_complain("cu: -o %s is one file, and %zu sources give one each; leave -o out", build->output,
                     build->input_count);
        return false;
    }
    return true;
}

static void end_build(struct build *build)
{
    struct list *const lists[] = {&build->includes, &build->dependencies, &build->flags,
                                  &build->link,     &build->compiler,     &build->c_compiler};

    for (size_t i = 0; i < build->ours.count; i++)
        free(build->ours.items[i]);
    free(build->ours.items);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        free(lists[i]->items);
    free(build->inputs);
}

static int run_build(struct build *build, int argc, char **argv)
{
    const char *cxx = getenv("CXX"), *cc = getenv("CC");

    add_parts(build, &build->compiler, cxx && *cxx ? cxx : "c++", " ");
    add_parts(build, &build->c_compiler, cc && *cc ? cc : "cc", " ");
    for (int i = 1; i < argc; i++) {
        bool used = false;

        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(cli_cu_help, stdout);
            return CLI_OK;
        }
        if (!read_argument(build, argv[i], argv[i + 1], &used))
            return CLI_USAGE;
        i += used;
    }
    if (!is_usable(build))
        return CLI_USAGE;
    return find_leat(build) && build_all(build) ? CLI_OK : CLI_FAILED;
}

int cli_cu(int argc, char **argv)
{
    struct build build = {.stage = LINK};
    int status = run_build(&build, argc, argv);

    end_build(&build);
    return status;
}
