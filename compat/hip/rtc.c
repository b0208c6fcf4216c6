/*
 * rtc.c - implements hiprtc. Every compilation fails, because leat has no compiler. Programs print the log of a
 * failed compilation, so the log says how to build kernels for leat. The other functions only let programs reach
 * the log.
 */
#include <leat/compat/hip/hiprtc.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct _hiprtcProgram {
    struct _hiprtcProgram *next;
    bool tried; /* the program has called hiprtcCompileProgram() */
};

/* Guards the list of programs and their fields. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct _hiprtcProgram *programs;

static const char log_text[] = "error: leat has no compiler for HIP sources at run time. Build LEAT_KERNEL()s (leat/device_code.h) in a shared object for hipModuleLoad(), or functions of the program for hipLaunchKernel() and hipLaunchKernelGGL().\n";

#define RESULTS(X)                                                                                                \
    X(HIPRTC_SUCCESS)                                                                                             \
    X(HIPRTC_ERROR_OUT_OF_MEMORY)                                                                                 \
    X(HIPRTC_ERROR_PROGRAM_CREATION_FAILURE)                                                                      \
    X(HIPRTC_ERROR_INVALID_INPUT)                                                                                 \
    X(HIPRTC_ERROR_INVALID_PROGRAM)                                                                               \
    X(HIPRTC_ERROR_INVALID_OPTION)                                                                                \
    X(HIPRTC_ERROR_COMPILATION)                                                                                   \
    X(HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE)                                                                     \
    X(HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION)                                                         \
    X(HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION)                                                           \
    X(HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID)                                                                     \
    X(HIPRTC_ERROR_INTERNAL_ERROR)                                                                                \
    X(HIPRTC_ERROR_LINKING)

const char *hiprtcGetErrorString(hiprtcResult result)
{
    switch (result) {
#define NAME(name)                                                                                                \
    case name:                                                                                                    \
        return #name;
        RESULTS(NAME)
#undef NAME
    }
    return "unknown hiprtcResult";
}

hiprtcResult hiprtcVersion(int *major, int *minor)
{
    if (!major || !minor)
        return HIPRTC_ERROR_INVALID_INPUT;
    *major = 9;
    *minor = 0;
    return HIPRTC_SUCCESS;
}

/* Returns the pointer in the list that points to a program, or the NULL pointer at the end of the list. The caller
 * holds the lock. */
static struct _hiprtcProgram **find(hiprtcProgram program)
{
    struct _hiprtcProgram **link = &programs;

    while (*link && *link != program)
        link = &(*link)->next;
    return link;
}

hiprtcResult hiprtcCreateProgram(hiprtcProgram *program, const char *source, const char *name, int headerCount,
                                 const char **headers, const char **includeNames)
{
    hiprtcProgram made;

    (void)name;
    if (!program || !source || headerCount < 0 || (headerCount && (!headers || !includeNames)))
        return HIPRTC_ERROR_INVALID_INPUT;
    made = calloc(1, sizeof *made);
    if (!made)
        return HIPRTC_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    made->next = programs;
    programs = made;
    pthread_mutex_unlock(&lock);
    *program = made;
    return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcDestroyProgram(hiprtcProgram *program)
{
    hiprtcProgram *link, gone;

    if (!program)
        return HIPRTC_ERROR_INVALID_INPUT;
    pthread_mutex_lock(&lock);
    link = find(*program);
    gone = *link;
    if (gone)
        *link = gone->next;
    pthread_mutex_unlock(&lock);
    if (!gone)
        return HIPRTC_ERROR_INVALID_PROGRAM;
    free(gone);
    *program = NULL;
    return HIPRTC_SUCCESS;
}

/* Sets *tried to whether a compilation of the program was tried before. compile: records that it is tried now. */
static hiprtcResult look(hiprtcProgram program, bool compile, bool *tried)
{
    hiprtcProgram found;

    pthread_mutex_lock(&lock);
    found = *find(program);
    if (found) {
        *tried = found->tried;
        found->tried |= compile;
    }
    pthread_mutex_unlock(&lock);
    return found ? HIPRTC_SUCCESS : HIPRTC_ERROR_INVALID_PROGRAM;
}

hiprtcResult hiprtcAddNameExpression(hiprtcProgram program, const char *expression)
{
    bool tried = false;
    hiprtcResult result = expression ? look(program, false, &tried) : HIPRTC_ERROR_INVALID_INPUT;

    return result == HIPRTC_SUCCESS && tried ? HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION : result;
}

hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int optionCount, const char **options)
{
    bool tried;
    hiprtcResult result;

    if (optionCount < 0 || (optionCount && !options))
        return HIPRTC_ERROR_INVALID_INPUT;
    result = look(program, true, &tried);
    return result == HIPRTC_SUCCESS ? HIPRTC_ERROR_COMPILATION : result;
}

hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t *bytes)
{
    bool tried = false;
    hiprtcResult result = bytes ? look(program, false, &tried) : HIPRTC_ERROR_INVALID_INPUT;

    if (result == HIPRTC_SUCCESS)
        *bytes = tried ? sizeof log_text : 1;
    return result;
}

hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char *log)
{
    bool tried = false;
    hiprtcResult result = log ? look(program, false, &tried) : HIPRTC_ERROR_INVALID_INPUT;

    if (result == HIPRTC_SUCCESS)
        memcpy(log, tried ? log_text : "", tried ? sizeof log_text : 1);
    return result;
}

hiprtcResult hiprtcGetLoweredName(hiprtcProgram program, const char *expression, const char **name)
{
    bool tried = false;
    hiprtcResult result = expression && name ? look(program, false, &tried) : HIPRTC_ERROR_INVALID_INPUT;

    return result == HIPRTC_SUCCESS ? HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION : result;
}

static hiprtcResult no_code(const void *to)
{
    return to ? HIPRTC_ERROR_INVALID_PROGRAM : HIPRTC_ERROR_INVALID_INPUT;
}

hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t *bytes)
{
    (void)program;
    return no_code(bytes);
}

hiprtcResult hiprtcGetCode(hiprtcProgram program, char *code)
{
    (void)program;
    return no_code(code);
}

hiprtcResult hiprtcGetBitcodeSize(hiprtcProgram program, size_t *bytes)
{
    (void)program;
    return no_code(bytes);
}

hiprtcResult hiprtcGetBitcode(hiprtcProgram program, char *bitcode)
{
    (void)program;
    return no_code(bitcode);
}

/* ---- linking (not supported) ---- */

hiprtcResult hiprtcLinkCreate(unsigned int optionCount, hiprtcJIT_option *options, void **values,
                              hiprtcLinkState *state)
{
    return !state || (optionCount && (!options || !values)) ? HIPRTC_ERROR_INVALID_INPUT : HIPRTC_ERROR_LINKING;
}

hiprtcResult hiprtcLinkAddFile(hiprtcLinkState state, hiprtcJITInputType type, const char *path,
                               unsigned int optionCount, hiprtcJIT_option *options, void **values)
{
    (void)state, (void)type, (void)path, (void)optionCount, (void)options, (void)values;
    return HIPRTC_ERROR_INVALID_INPUT;
}

hiprtcResult hiprtcLinkAddData(hiprtcLinkState state, hiprtcJITInputType type, void *image, size_t bytes,
                               const char *name, unsigned int optionCount, hiprtcJIT_option *options,
                               void **values)
{
    (void)state, (void)type, (void)image, (void)bytes, (void)name, (void)optionCount, (void)options, (void)values;
    return HIPRTC_ERROR_INVALID_INPUT;
}

hiprtcResult hiprtcLinkComplete(hiprtcLinkState state, void **binary, size_t *bytes)
{
    (void)state, (void)binary, (void)bytes;
    return HIPRTC_ERROR_INVALID_INPUT;
}

hiprtcResult hiprtcLinkDestroy(hiprtcLinkState state)
{
    (void)state;
    return HIPRTC_ERROR_INVALID_INPUT;
}
