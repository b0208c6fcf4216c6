/*
 * cu.c - "leat cu": builds CUDA C++ programs for the CPU device with the host's C++ compiler.
 *
 * The command preprocesses each .cu file, translates it (cu_source.h) and compiles it. It compiles other sources
 * directly, and links everything with leat's libraries. It passes each option to the compiler phases that need it.
 * It replaces options of nvcc by the compiler's options, and ignores those that concern only GPU code.
 */
#include "cli.h"
#include "cu_build.h"
#include "cu_source.h"
#include "temporary_file.h"

#include <assert.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
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

/* ---- finding leat's headers and libraries ------------------------------------------------------------------ */

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_MAX];

    return (size_t)snprintf(path, sizeof path, "%s/%s", folder, name) < sizeof path && !access(path, R_OK);
}

/* Looks for include/ beside the folder of the command, where an installation has it, and in the folders above,
 * where the source tree has it. */
static bool find_headers(struct cu_build *build, const char *folder)
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

/* Looks for the libraries in the folder of the command, where a build folder has them, and in lib/, lib64/ and
 * lib/<machine>/ beside it, where an installation has them. */
static bool find_libraries(struct cu_build *build, const char *folder)
{
    static const char *const patterns[] = {"%s/libleat-cudart.so", "%s/../lib/libleat-cudart.so",
                                           "%s/../lib64/libleat-cudart.so", "%s/../lib/*/libleat-cudart.so"};
    bool found = false;

    for (size_t i = 0; !found && i < sizeof patterns / sizeof patterns[0]; i++) {
        char pattern[PATH_MAX + 64];
        glob_t paths;

        snprintf(pattern, sizeof pattern, patterns[i], folder);
        if (!glob(pattern, 0, NULL, &paths) && realpath(paths.gl_pathv[0], build->library_dir)) {
            /* Use the path before it was resolved: the library may be a link into a folder that does not contain
             * the links to the other libraries. */
            snprintf(build->library_dir, sizeof build->library_dir, "%s", paths.gl_pathv[0]);
            *strrchr(build->library_dir, '/') = '\0';
            found = true;
        }
        globfree(&paths);
    }
    return found;
}

static bool find_leat(struct cu_build *build)
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
        cli_complain("cu: there is no include/leat/compat/cuda_runtime.h beside or above %s; install leat",
                     folder);
        return false;
    }
    if (build->stage == CU_LINK && !find_libraries(build, folder)) {
        cli_complain("cu: libleat-cudart.so is neither in %s nor in ../lib; 'make compat' builds it", folder);
        return false;
    }
    return true;
}

/* ---- running the compiler ---------------------------------------------------------------------------------- */

static const int ends[] = {SIGINT, SIGTERM, SIGHUP};

enum { END_COUNT = sizeof ends / sizeof ends[0] };

static volatile sig_atomic_t ended_by;  /* the signal that ends the build */
static volatile pid_t compiler_process; /* the process, or 0 */

/* Ends the compiler, so that the build ends in the usual way and removes its folder. */
static void end_compiler(int number)
{
    ended_by = number;
    if (compiler_process > 0)
        kill(compiler_process, number);
}

/* Starts the compiler with the signals as they were. Returns false after an error message. */
static bool start_compiler(char **words)
{
    sigset_t set, old;

    sigemptyset(&set);
    for (int i = 0; i < END_COUNT; i++)
        sigaddset(&set, ends[i]);
    sigprocmask(SIG_BLOCK, &set, &old);
    compiler_process = ended_by ? -1 : fork(); /* after a signal nothing more is begun */
    if (!compiler_process) {
        for (int i = 0; i < END_COUNT; i++) {
            struct sigaction action;

            if (sigaction(ends[i], NULL, &action) == 0 && action.sa_handler == end_compiler)
                signal(ends[i], SIG_DFL);
        }
        sigprocmask(SIG_SETMASK, &old, NULL);
        execvp(words[0], words);
        cli_complain(
            "cu: the compiler %s cannot be run: %s; install one (Debian: g++), or name another in CXX or CC",
            words[0], strerror(errno));
        _exit(127);
    }
    if (compiler_process < 0 && !ended_by)
        cli_complain("cu: %s: %s", words[0], strerror(errno));
    sigprocmask(SIG_SETMASK, &old, NULL);
    return compiler_process > 0;
}

static bool run(struct cu_build *build, const struct cu_list *command)
{
    pid_t ended;
    int status;

    if (build->verbose) {
        for (size_t i = 0; i < command->count; i++)
            fprintf(stderr, "%s%s", i ? " " : "", command->items[i]);
        fputc('\n', stderr);
    }
    if (!start_compiler(command->items))
        return false;
    do
        ended = waitpid(compiler_process, &status, 0);
    while (ended < 0 && errno == EINTR);
    compiler_process = 0;
    if (ended < 0) {
        cli_complain("cu: %s: %s", command->items[0], strerror(errno));
        return false;
    }
    return WIFEXITED(status) && !WEXITSTATUS(status); /* the compiler has printed the reason */
}

static bool make_folder(struct cu_build *build)
{
    snprintf(build->folder, sizeof build->folder, "%s/leat-cu-XXXXXX", cli_temporary_folder());
    if (mkdtemp(build->folder))
        return true;
    cli_complain("cu: %s: %s; TMPDIR names another folder", build->folder, strerror(errno));
    build->folder[0] = '\0';
    return false;
}

static void remove_folder(struct cu_build *build)
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
static const char *temporary(struct cu_build *build, size_t number, const char *ending)
{
    char name[64];

    snprintf(name, sizeof name, "/%zu%s", number, ending);
    return cu_join(build, build->folder, name);
}

static const char *base_of(const char *path)
{
    return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
}

/* Returns a path with another ending. */
static const char *with_ending(struct cu_build *build, const char *path, const char *ending)
{
    const char *point = strrchr(base_of(path), '.');
    char *name = cu_must(strndup(path, point ? (size_t)(point - path) : strlen(path)));
    const char *joined = cu_join(build, name, ending);

    free(name);
    return joined;
}

static char *read_whole(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "re");
    char *content = NULL;
    long end;

    if (file && !fseek(file, 0, SEEK_END) && (end = ftell(file)) >= 0 && !fseek(file, 0, SEEK_SET)) {
        content = cu_must(malloc((size_t)end + 1));
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
        /* Print the error in the format of compilers, which editors understand. */
        fprintf(stderr, "%s:%u: error: %s\n", error.file[0] ? error.file : source, error.line, error.text);
        return false;
    }
    written = write_whole(translated, out);
    free(out);
    return written;
}

static void begin_command(struct cu_build *build, struct cu_list *command, const struct cu_list *compiler)
{
    cu_add_list(command, compiler);
    cu_add_list(command, &build->flags);
    if (build->shared && !build->pic)
        cu_add(command, "-fPIC");
}

static void add_includes(struct cu_build *build, struct cu_list *command)
{
    cu_add(command, "-I");
    cu_add(command, cu_join(build, build->include_dir, "/leat/compat"));
    cu_add(command, "-I");
    cu_add(command, build->include_dir);
    cu_add_list(command, &build->includes);
}

/* Adds the options for dependency files. The target in these files is the object, as if the source were compiled
 * directly. */
static void add_dependencies(struct cu_build *build, struct cu_list *command, const char *object)
{
    bool file = false, target = false;

    if (!build->dependencies.count || build->stage == CU_LINK)
        return;
    for (size_t i = 0; i < build->dependencies.count; i++) {
        file |= !strncmp(build->dependencies.items[i], "-MF", 3);
        target |=
            !strncmp(build->dependencies.items[i], "-MT", 3) || !strncmp(build->dependencies.items[i], "-MQ", 3);
    }
    cu_add_list(command, &build->dependencies);
    if (!file) {
        cu_add(command, "-MF");
        cu_add(command, with_ending(build, object, ".d"));
    }
    if (!target) {
        cu_add(command, "-MT");
        cu_add(command, object);
    }
}

static bool preprocess(struct cu_build *build, const struct cu_input *input, const char *object,
                       const char *output)
{
    struct cu_list command = {NULL, 0};
    bool fine;

    begin_command(build, &command, &build->compiler);
    cu_add(&command, "-D__LEAT_CU__");
    cu_add(&command, "-D__CUDACC__");
    add_includes(build, &command);
    cu_add(&command, "-include");
    cu_add(&command, "cuda_runtime.h");
    add_dependencies(build, &command, object);
    cu_add(&command, "-E");
    cu_add(&command, "-x");
    cu_add(&command, "c++");
    cu_add(&command, input->path);
    cu_add(&command, "-o");
    cu_add(&command, output);
    fine = run(build, &command);
    free(command.items);
    return fine;
}

static bool compile(struct cu_build *build, const struct cu_input *input, const char *path, const char *object)
{
    struct cu_list command = {NULL, 0};
    bool fine;

    begin_command(build, &command, input->language == CU_C ? &build->c_compiler : &build->compiler);
    if (input->language != CU_CUDA) {
        add_includes(build, &command);
        add_dependencies(build, &command, object);
    }
    cu_add(&command, build->stage == CU_ASSEMBLY ? "-S" : build->stage == CU_PREPROCESS ? "-E" : "-c");
    cu_add(&command, "-x");
    cu_add(&command, input->language == CU_CUDA ? "c++-cpp-output" : input->language == CU_C ? "c" : "c++");
    cu_add(&command, path);
    cu_add(&command, "-o");
    cu_add(&command, object);
    fine = run(build, &command);
    free(command.items);
    return fine;
}

static bool build_input(struct cu_build *build, size_t i, const char *object)
{
    const struct cu_input *input = &build->inputs[i];
    const char *preprocessed, *translated;

    if (input->language != CU_CUDA)
        return compile(build, input, input->path, object);
    preprocessed = temporary(build, i, ".i");
    translated = build->stage == CU_PREPROCESS ? object : temporary(build, i, ".ii");
    return preprocess(build, input, object, preprocessed) && translate(input->path, preprocessed, translated) &&
           (build->stage == CU_PREPROCESS || compile(build, input, translated, object));
}

/* Links the program or library. --as-needed drops libraries that the program does not use. The rpath lets the
 * loader find leat's libraries outside of its search path. */
static bool link_all(struct cu_build *build, const struct cu_list *objects)
{
    struct cu_list command = {NULL, 0};
    size_t object = 0;
    bool fine;

    begin_command(build, &command, &build->compiler);
    if (build->shared)
        cu_add(&command, "-shared");
    for (size_t i = 0; i < build->link.count; i++)
        cu_add(&command, build->link.items[i][0] ? build->link.items[i] : objects->items[object++]);
    cu_add(&command, cu_join(build, "-L", build->library_dir));
    if (strncmp(build->library_dir, "/usr/lib", 8) && strncmp(build->library_dir, "/lib", 4))
        cu_add(&command, cu_join(build, "-Wl,-rpath,", build->library_dir));
    cu_add(&command, "-Wl,--push-state,--as-needed");
    cu_add(&command, "-lleat-cudart");
    cu_add(&command, "-lleat-cuda");
    cu_add(&command, "-lleat-compat");
    cu_add(&command, "-lleat");
    cu_add(&command, "-Wl,--pop-state");
    cu_add(&command, "-pthread");
    cu_add(&command, "-o");
    cu_add(&command, build->output ? build->output : "a.out");
    fine = run(build, &command);
    free(command.items);
    return fine;
}

static bool build_all(struct cu_build *build)
{
    static const char *const endings[] = {".o", ".o", ".s", ""};
    struct cu_list objects = {NULL, 0};
    bool fine = make_folder(build);

    for (size_t i = 0; fine && i < build->input_count; i++) {
        const char *object = build->stage == CU_LINK ? temporary(build, i, ".o")
                             : build->output         ? build->output
                             : build->stage == CU_PREPROCESS
                                 ? "-"
                                 : with_ending(build, base_of(build->inputs[i].path), endings[build->stage]);

        cu_add(&objects, object);
        fine = build_input(build, i, object);
    }
    if (fine && build->stage == CU_LINK)
        fine = link_all(build, &objects);
    remove_folder(build);
    free(objects.items);
    return fine;
}

/* ---- the command ------------------------------------------------------------------------------------------- */

static bool is_usable(const struct cu_build *build)
{
    size_t from_stdin = 0;

    for (size_t i = 0; i < build->input_count; i++)
        from_stdin += !strcmp(build->inputs[i].path, "-");
    if (from_stdin > 1) {
        cli_complain("cu: standard input (-) can be only one of the sources");
        return false;
    }
    if (from_stdin && !build->output && (build->stage == CU_COMPILE || build->stage == CU_ASSEMBLY)) {
        cli_complain("cu: the output of a source on standard input needs a name: -o FILE");
        return false;
    }
    if (!build->input_count && (build->stage != CU_LINK || !build->link.count)) {
        cli_complain("cu: no source given; see leat help cu");
        return false;
    }
    if (build->stage != CU_LINK && build->output && build->input_count > 1) {
        cli_complain("cu: -o %s is one file, and %zu sources give one each; leave -o out", build->output,
                     build->input_count);
        return false;
    }
    return true;
}

static void end_build(struct cu_build *build)
{
    struct cu_list *const lists[] = {&build->includes, &build->dependencies, &build->flags,
                                     &build->link,     &build->compiler,     &build->c_compiler};

    for (size_t i = 0; i < build->ours.count; i++)
        free(build->ours.items[i]);
    free(build->ours.items);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        free(lists[i]->items);
    free(build->inputs);
}

static int run_build(struct cu_build *build, int argc, char **argv)
{
    const char *cxx = getenv("CXX"), *cc = getenv("CC");

    cu_add_parts(build, &build->compiler, cxx && *cxx ? cxx : "c++", " ");
    cu_add_parts(build, &build->c_compiler, cc && *cc ? cc : "cc", " ");
    for (int i = 1; i < argc; i++) {
        bool used = false;

        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(cli_cu_help, stdout);
            return CLI_OK;
        }
        if (!cu_read_argument(build, argv[i], argv[i + 1], &used))
            return CLI_USAGE;
        i += used;
    }
    if (!is_usable(build))
        return CLI_USAGE;
    return find_leat(build) && build_all(build) ? CLI_OK : CLI_FAILED;
}

int cli_cu(int argc, char **argv)
{
    struct cu_build build = {.stage = CU_LINK};
    struct sigaction action = {.sa_handler = end_compiler}, before;
    int status;

    for (int i = 0; i < END_COUNT; i++)
        if (sigaction(ends[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(ends[i], &action, NULL);
    /* If SIGCHLD is ignored, the system does not keep how the compiler ends. */
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    status = run_build(&build, argc, argv);
    end_build(&build);
    if (ended_by) {
        signal(ended_by, SIG_DFL);
        raise(ended_by);
    }
    return status;
}
