/*
 * cu_build.h - what the parts of "leat cu" share: a build as the command line describes it (cu_options.c), which
 * cu.c runs.
 */
#ifndef CLI_CU_BUILD_H
#define CLI_CU_BUILD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum cu_language { CU_BY_NAME, CU_CUDA, CU_CXX, CU_C, CU_OBJECT };
enum cu_stage { CU_LINK, CU_COMPILE, CU_ASSEMBLY, CU_PREPROCESS };

struct cu_list {
    char **items;
    size_t count;
};

struct cu_input {
    const char *path;
    enum cu_language language;
};

struct cu_build {
    enum cu_stage stage;
    const char *output;
    bool verbose, shared, pic;
    enum cu_language next_language; /* set by -x */
    struct cu_input *inputs;
    size_t input_count;
    struct cu_list includes;     /* -I, -D and so on: preprocessor options */
    struct cu_list dependencies; /* -MD and so on */
    struct cu_list flags;        /* for all phases */
    struct cu_list link;         /* objects and libraries in order; "" stands for the object of the next input */
    struct cu_list compiler, c_compiler;
    struct cu_list ours; /* allocated strings, to be freed */
    char include_dir[PATH_MAX], library_dir[PATH_MAX];
    char folder[PATH_MAX]; /* for temporary files; "": none yet */
};

/* Returns memory, or ends the process with a message if it is NULL. */
void *cu_must(void *memory);

/* Adds an item to the end of a list, which only refers to it. items[count] is NULL. */
void cu_add(struct cu_list *list, const char *item);
void cu_add_list(struct cu_list *list, const struct cu_list *others);

/* Returns the concatenation of two strings, owned by the build. */
const char *cu_join(struct cu_build *build, const char *first, const char *second);

/* Adds the parts of a text between separators. */
void cu_add_parts(struct cu_build *build, struct cu_list *list, const char *text, const char *separators);

/* Reads an argument of the command line. next: the argument after it, or NULL. *used: next was its value. Returns
 * false after a complaint. */
bool cu_read_argument(struct cu_build *build, const char *argument, const char *next, bool *used);

#endif
