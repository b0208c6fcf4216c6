/*
 * cu_build.h - declares what the parts of "leat cu" share: a build, which cu_options.c makes from the command line
 * and cu.c runs.
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
    enum cu_language next_language; /* language of the next inputs, set by -x */
    struct cu_input *inputs;
    size_t input_count;
    struct cu_list includes;     /* options for the preprocessor, such as -I and -D */
    struct cu_list dependencies; /* options for dependency files, such as -MD */
    struct cu_list flags;        /* options for all phases */
    struct cu_list link;         /* objects and libraries in order; "" stands for the object of the next input */
    struct cu_list compiler, c_compiler;
    struct cu_list ours; /* strings that the build has allocated and must free */
    char include_dir[PATH_MAX], library_dir[PATH_MAX];
    char folder[PATH_MAX]; /* folder for temporary files; "": not created yet */
};

/* Returns memory. If memory is NULL, prints a message and ends the process. */
void *cu_must(void *memory);

/* Adds an item to the end of a list. The list only refers to the item. items[count] is always NULL. */
void cu_add(struct cu_list *list, const char *item);
void cu_add_list(struct cu_list *list, const struct cu_list *others);

/* Returns the concatenation of two strings, owned by the build. */
const char *cu_join(struct cu_build *build, const char *first, const char *second);

/* Adds the parts of a text that are between separators to a list. */
void cu_add_parts(struct cu_build *build, struct cu_list *list, const char *text, const char *separators);

/* Reads an argument of the command line. next: the argument after it, or NULL. Sets *used to true if next was the
 * value of argument. Returns false after printing an error message. */
bool cu_read_argument(struct cu_build *build, const char *argument, const char *next, bool *used);

#endif
